//! What of a session's requests is carried out with care, because it is large.
//!
//! Owns: how many of its writes and reads in service may go over bulk connections, how far a read in slices is, and what is known of its
//! reads (`habits.rs`). The rules are those of `requests/bulk_reads.rs` and `requests/bulk_writes.rs`.

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

/// Large requests of one session.
#[derive(Debug)]
pub(crate) struct Bulk {
    /// Of those in service, writes that went over bulk connections.
    pub(crate) writes: usize,
    /// Of those in service, reads that are carried out with care.
    pub(crate) reads: usize,
    pub(crate) habits: Habits,
    pub(crate) slicing: Slicing,
    /// Its next request waits until there is room for reads that bring much.
    pub(crate) is_in_line: bool,
}

impl Bulk {
    pub(crate) fn new(config: &Config) -> Self {
        Self { writes: 0, reads: 0, habits: Habits::new(config), slicing: Slicing::No, is_in_line: false }
    }
}
