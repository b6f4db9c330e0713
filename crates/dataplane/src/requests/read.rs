//! Which server a read is sent to, where keys have several.
//!
//! Only one that may be read (`replication/readers.rs`). By default it is the one that decides.

use crate::{Dataplane, Fault, ReadPolicy, replication::readers::Readers, requests::dispatch::REPLICAS_MAX};

impl Dataplane {
    /// Which servers may be read.
    #[inline]
    pub(crate) const fn readers(&self) -> Readers<'_> {
        Readers { servers: &self.servers, replicas: &self.replicas }
    }

    /// The server that decides what a key's value is.
    pub(crate) fn decider(&mut self, name: &[u8]) -> Result<usize, (Fault, usize)> {
        let primary = self.router.primary(name);
        // Without replicas whoever sends finds out what is wrong with it.
        if !self.router.is_replicated() || self.readers().is_readable(primary) {
            return Ok(primary);
        }
        let mut replicas = [0; REPLICAS_MAX];
        let count = self.router.replicas_of(name, &mut replicas);
        if count == 1 {
            return Ok(primary);
        }
        let decider = self.readers().first(&replicas[..count])?;
        self.counters.reads_failed_over += u64::from(decider != primary);
        Ok(decider)
    }
}

impl Dataplane {
    /// The server that a `get` of one key is sent to, where another than the decider may be asked.
    pub(crate) fn reader(&mut self, name: &[u8], decider: usize) -> usize {
        let mut replicas = [0; REPLICAS_MAX];
        let count = self.router.replicas_of(name, &mut replicas);
        let Self { planner, servers, replicas: copies, config, .. } = self;
        let readers = Readers { servers, replicas: copies };
        planner.reads = planner.reads.wrapping_add(1);
        let readable = || {
            let servers = replicas[..count].iter().map(|&server| usize::from(server));
            servers.filter(|&server| readers.is_readable(server))
        };
        let in_turn = || readable().nth(planner.reads % readable().count().max(1));
        let chosen = match config.read_policy {
            ReadPolicy::Primary => None,
            ReadPolicy::Spread => in_turn(),
            ReadPolicy::Nearest if planner.reads.is_multiple_of(TRIAL_EVERY) => in_turn(),
            ReadPolicy::Nearest => readable().min_by_key(|&server| readers.servers.smoothed_ns(server)),
        };
        chosen.unwrap_or(decider)
    }
}

/// One read in so many is a trial of whichever replica's turn it is, so that a server that became faster is noticed.
const TRIAL_EVERY: usize = 32;
