//! How requests are served: `docs/engines.md`.

use std::fmt;

/// The way of serving. Protocol, placement, rules, stamps and reports are the same under all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// Event loops, each with few pipelined connections per server.
    #[default]
    Event,
    /// One network thread, one queue, and workers, each with a connection of its own to every server.
    Pool {
        /// How many requests are served at once.
        workers: usize,
        /// How many requests may wait for a worker; more are refused.
        queue_len_max: usize,
    },
}

/// More workers than this are a mistake.
pub(crate) const WORKERS_MAX: usize = 1024;

impl Engine {
    /// Its name in flags, records and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Pool { .. } => "pool",
        }
    }

    /// Worker threads, of which an event loop has none.
    pub const fn workers(self) -> usize {
        match self {
            Self::Event => 0,
            Self::Pool { workers, .. } => workers,
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
