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
    /// One network thread; for each server a queue of reads with threads of its own, and a queue of writes with one writer.
    Split {
        /// How many reads each server serves at once.
        readers: usize,
        /// How many requests may wait in one queue; more are refused.
        queue_len_max: usize,
    },
}

/// More threads than this, over all servers, are too many for a machine: each has a stack and several descriptors.
pub(crate) const SPLIT_THREADS_MAX: usize = 4096;

impl Engine {
    /// Its name in flags, records and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Pool { .. } => "pool",
            Self::Split { .. } => "split",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
