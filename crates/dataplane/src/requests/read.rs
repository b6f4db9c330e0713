//! Which server a read is sent to, where keys have several.
//!
//! Only one at which no dataplane is unclean (`standing.rs`). Of those the first in the key's order *decides*: it answers reads by
//! default, gives out tokens, and is asked for conditional writes.

use crate::{
    Config, Dataplane, Fault, ReadPolicy,
    requests::dispatch::REPLICAS_MAX,
    servers::Servers,
    servers::backend::{Backend, State},
};

impl Dataplane {
    /// The server that decides what a key's value is.
    pub(crate) fn decider(&mut self, name: &[u8]) -> Result<usize, (Fault, usize)> {
        let primary = self.router.primary(name);
        // Without replicas whoever sends finds out what is wrong with it.
        if !self.router.is_replicated() || self.servers[primary].is_readable(&self.config) {
            return Ok(primary);
        }
        let mut replicas = [0; REPLICAS_MAX];
        let count = self.router.replicas_of(name, &mut replicas);
        if count == 1 {
            return Ok(primary);
        }
        let decider = first_readable(&replicas[..count], &self.servers, &self.config)?;
        self.counters.reads_failed_over += u64::from(decider != primary);
        Ok(decider)
    }
}

impl Dataplane {
    /// The server that a `get` of one key is sent to, where another than the decider may be asked.
    pub(crate) fn reader(&mut self, name: &[u8], decider: usize) -> usize {
        let mut replicas = [0; REPLICAS_MAX];
        let count = self.router.replicas_of(name, &mut replicas);
        let Self { planner, servers: backends, config, .. } = self;
        planner.reads = planner.reads.wrapping_add(1);
        let readable = || {
            let servers = replicas[..count].iter().map(|&server| usize::from(server));
            servers.filter(|&server| backends[server].is_readable(config))
        };
        let in_turn = || readable().nth(planner.reads % readable().count().max(1));
        let chosen = match config.read_policy {
            ReadPolicy::Primary => None,
            ReadPolicy::Spread => in_turn(),
            ReadPolicy::Nearest if planner.reads.is_multiple_of(TRIAL_EVERY) => in_turn(),
            ReadPolicy::Nearest => readable().min_by_key(|&server| backends[server].smoothed_ns),
        };
        chosen.unwrap_or(decider)
    }
}

/// One read in so many is a trial of whichever replica's turn it is, so that a server that became faster is noticed.
const TRIAL_EVERY: usize = 32;

/// The first replica that may be read; or the first that is being connected to; or the reason why there is none.
#[cold]
pub(crate) fn first_readable(
    replicas: &[u16],
    backends: &Servers,
    config: &Config,
) -> Result<usize, (Fault, usize)> {
    let servers = || replicas.iter().map(|&server| usize::from(server));
    if let Some(readable) = servers().find(|&server| backends[server].is_readable(config)) {
        return Ok(readable);
    }
    if let Some(coming) = servers().find(|&server| backends[server].admit_read(config).is_ok()) {
        return Ok(coming);
    }
    let refusals = || servers().filter_map(|it| backends[it].admit_read(config).err().map(|why| (why, it)));
    // What a client can wait for is told before what it cannot.
    let refusal = refusals().find(|(why, _)| *why != Fault::Down).or_else(|| refusals().next());
    Err(refusal.expect("a key has a server, and it was not admitted"))
}

impl Backend {
    /// It took so long to answer, or to be given up. An eighth counts, as in TCP's smoothed round-trip time (RFC 6298).
    pub(crate) fn observe(&mut self, nanos: u64) {
        self.smoothed_ns = if self.smoothed_ns == 0 { nanos } else { self.smoothed_ns / 8 * 7 + nanos / 8 };
    }

    /// Whether a read may be sent there now, where keys have several servers.
    pub(crate) fn admit_read(&self, config: &Config) -> Result<(), Fault> {
        self.admit(config)?;
        let is_clean = self.replica.as_ref().is_none_or(|replica| replica.share.is_clean_everywhere());
        if is_clean { Ok(()) } else { Err(Fault::Stale) }
    }

    /// The same, and it is connected.
    #[inline]
    pub(crate) fn is_readable(&self, config: &Config) -> bool {
        let answers = match self.state {
            State::Up => true,
            // It is connected to for this read.
            State::Idle => config.connects_when_needed,
            State::Connecting { .. }
            | State::Greeting { .. }
            | State::Silent
            | State::Down { .. }
            | State::Probing { .. } => false,
        };
        answers && self.admit_read(config).is_ok()
    }
}
