//! Which servers may be read now, and which of a key's decides.
//!
//! Only one that is connected, takes requests and is fresh (`freshness.rs`). Of those the first in the key's order *decides*: it answers reads
//! by default, gives out tokens, and is asked for conditional writes.

use crate::{replication::replica::Replicas, servers::Servers, wire::fault::Fault};

/// Servers as whoever reads sees them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readers<'a> {
    pub(crate) servers: &'a Servers,
    pub(crate) replicas: &'a Replicas,
}

impl Readers<'_> {
    /// Whether a read may be sent there now.
    #[inline]
    pub(crate) fn admit(&self, slot: usize) -> Result<(), Fault> {
        self.servers.admit(slot)?;
        if self.replicas.is_fresh(slot) { Ok(()) } else { Err(Fault::Stale) }
    }

    /// The same, and it is connected.
    #[inline]
    pub(crate) fn is_readable(&self, slot: usize) -> bool {
        self.servers.answers(slot) && self.admit(slot).is_ok()
    }

    /// The first of these that may be read; or the first that is being connected to; or the reason why there is none.
    #[cold]
    pub(crate) fn first(&self, replicas: &[u16]) -> Result<usize, (Fault, usize)> {
        let servers = || replicas.iter().map(|&server| usize::from(server));
        if let Some(readable) = servers().find(|&server| self.is_readable(server)) {
            return Ok(readable);
        }
        if let Some(coming) = servers().find(|&server| self.admit(server).is_ok()) {
            return Ok(coming);
        }
        let refusals = || servers().filter_map(|it| self.admit(it).err().map(|why| (why, it)));
        // What a client can wait for is told before what it cannot.
        let refusal = refusals().find(|(why, _)| *why != Fault::Down).or_else(|| refusals().next());
        Err(refusal.expect("a key has a server, and it was not admitted"))
    }

    /// Whom of these to believe of a key that another of them lacks: the decider, unless it may have come back empty and another has not, or
    /// earlier. None where no other can be written to.
    pub(crate) fn source(&self, replicas: &[u16]) -> Option<usize> {
        let servers = || replicas.iter().map(|&server| usize::from(server));
        let readable = || servers().filter(|&server| self.is_readable(server));
        let source = readable().min_by_key(|&server| self.replicas.doubt_rank(server))?;
        (readable().count() > 1).then_some(source)
    }

    /// Who is asked in a second step for a key that `server` missed: the decider, if that was another and one of the two is trusted, because
    /// it alone may have the key; or, if `server` is doubted, who is doubted least.
    pub(crate) fn next_for_miss(&self, replicas: &[u16], server: usize) -> Option<usize> {
        let decider = self.first(replicas).ok()?;
        let doubt_rank = |slot: usize| self.replicas.doubt_rank(slot);
        if decider != server && !(doubt_rank(decider) > 0 && doubt_rank(server) > 0) {
            return Some(decider);
        }
        let others = replicas.iter().map(|&replica| usize::from(replica)).filter(|&other| other != server);
        let readable = others.filter(|&other| self.is_readable(other));
        let best = readable.min_by_key(|&other| doubt_rank(other));
        best.filter(|&other| decider != server || doubt_rank(other) < doubt_rank(server))
    }
}
