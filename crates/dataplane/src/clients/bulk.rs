//! What of a session's requests is carried out with care, because it is large.
//!
//! Owns: how many of its writes and reads in service may go over bulk connections, how far a read in slices is, what its next request waits
//! for, and what is known of its reads (`habits.rs`). The rules are those of `requests/bulk_reads.rs` and `requests/bulk_writes.rs`.

use crate::{clients::habits::Habits, config::Config, wire::ids::RequestKey};

/// Whether a session's read is being carried out in slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slicing {
    No,
    /// A slice is in service.
    InService,
    /// The next slice of this request waits until the client has taken what came before.
    Ready(RequestKey),
}

/// What a session's next request waits for among those in service. It may be megabytes long, so it is not parsed again before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaits {
    /// Nothing of this kind.
    Nothing,
    /// That nothing is in service.
    All,
    /// That nothing is but reads that are carried out with care.
    Others,
    /// That no such read is.
    Reads,
}

/// Large requests of one session.
#[derive(Debug)]
pub(crate) struct Bulk {
    /// Of those in service, writes that went over bulk connections.
    pub(crate) writes: usize,
    /// Of those in service, reads that are carried out with care.
    pub(crate) reads: usize,
    pub(crate) habits: Habits,
    pub(crate) slicing: Slicing,
    /// What the keys take that are still to be asked for, in bytes: a line of megabytes is kept until its last slice was answered.
    rest_bytes: usize,
    /// Its next request waits until there is room for reads that bring much.
    pub(crate) is_in_line: bool,
    awaits: Awaits,
}

impl Bulk {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            writes: 0,
            reads: 0,
            habits: Habits::new(config),
            slicing: Slicing::No,
            rest_bytes: 0,
            is_in_line: false,
            awaits: Awaits::Nothing,
        }
    }

    /// The keys that are still to be asked for take so much memory.
    pub(crate) const fn keep_rest(&mut self, bytes: usize) {
        self.rest_bytes = bytes;
    }

    /// How much that is, in bytes.
    pub(crate) const fn rest_bytes(&self) -> usize {
        self.rest_bytes
    }

    /// The next request waits for this.
    pub(crate) const fn wait_for(&mut self, awaits: Awaits) {
        self.awaits = awaits;
    }

    /// Whether that has come, while this many requests of the session are in service.
    pub(crate) const fn may_be_looked_at(&self, in_service: usize) -> bool {
        match self.awaits {
            Awaits::Nothing => true,
            Awaits::All => in_service == 0,
            Awaits::Others => in_service == self.reads,
            Awaits::Reads => self.reads == 0,
        }
    }
}
