//! Which servers may be read now, and which of a key's decides.
//!
//! A server may be read if it takes requests and is fresh (`freshness.rs`). Of those the first in the key's order that is connected
//! *decides*; where none is, the first that is being connected to. The decider answers reads by default, gives out tokens, and is asked for
//! conditional writes.

use crate::{replication::replica::Replicas, servers::Servers, wire::fault::Fault, wire::ids::Slot};

/// Servers as whoever reads sees them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Readers<'a> {
    pub(crate) servers: &'a Servers,
    pub(crate) replicas: &'a Replicas,
}

impl Readers<'_> {
    /// Whether a read may be sent there now.
    #[inline]
    pub(crate) fn admit(&self, slot: Slot) -> Result<(), Fault> {
        self.servers.admit(slot)?;
        if self.replicas.is_fresh(slot) { Ok(()) } else { Err(Fault::Stale) }
    }

    /// The same, and it is connected.
    #[inline]
    pub(crate) fn is_readable(&self, slot: Slot) -> bool {
        self.servers.answers(slot) && self.admit(slot).is_ok()
    }

    /// The first of these that may be read; or the first that is being connected to; or the reason why there is none.
    #[cold]
    pub(crate) fn first(&self, replicas: &[Slot]) -> Result<Slot, (Fault, Slot)> {
        let servers = || replicas.iter().copied();
        if let Some(readable) = servers().find(|&server| self.is_readable(server)) {
            return Ok(readable);
        }
        if let Some(coming) = servers().find(|&server| self.admit(server).is_ok()) {
            return Ok(coming);
        }
        let refusals = || servers().filter_map(|it| self.admit(it).err().map(|why| (why, it)));
        // What a client can wait for is reported before what it cannot.
        let refusal = refusals().find(|(why, _)| *why != Fault::Down).or_else(|| refusals().next());
        Err(refusal.expect("a key has a server, and it was not admitted"))
    }

    /// Whom of these to believe about a key that another of them lacks. It is the decider, unless that may have come back empty
    /// (`emptied.rs`). Then it is one that has not, or else the one that did so first. None where fewer than two of them are connected and
    /// may be read.
    pub(crate) fn source(&self, replicas: &[Slot]) -> Option<Slot> {
        let servers = || replicas.iter().copied();
        let readable = || servers().filter(|&server| self.is_readable(server));
        let source = readable().min_by_key(|&server| self.replicas.doubt_rank(server))?;
        (readable().count() > 1).then_some(source)
    }

    /// Who is asked in a second step for a key that `server` missed. It is the decider, if that was another and one of the two is trusted,
    /// because it alone may have the key. Else, if `server` is doubted, it is the other one that is doubted least. Where `server` decides,
    /// that must be doubted less than it.
    pub(crate) fn next_for_miss(&self, replicas: &[Slot], server: Slot) -> Option<Slot> {
        let decider = self.first(replicas).ok()?;
        let doubt_rank = |slot: Slot| self.replicas.doubt_rank(slot);
        if decider != server && !(doubt_rank(decider) > 0 && doubt_rank(server) > 0) {
            return Some(decider);
        }
        let others = replicas.iter().copied().filter(|&other| other != server);
        let readable = others.filter(|&other| self.is_readable(other));
        let best = readable.min_by_key(|&other| doubt_rank(other));
        best.filter(|&other| decider != server || doubt_rank(other) < doubt_rank(server))
    }
}
