//! What a driver that reads its clients itself says of a request.

use weir_timing::Instant;

/// What happened to a request before it was handed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// The read that brought its first byte returned.
    pub first_byte: Instant,
    /// It was complete and parsed.
    pub created: Instant,
    /// It was put in the queue where it waited to be served. Its deadline counts from here, but for a server that is silent for long, and for a
    /// write that waits for its key then.
    pub enqueued: Instant,
    /// It was taken from that queue.
    pub dequeued: Instant,
    /// Who sent it, for its row if it is sampled: see [`TraceRow`](crate::TraceRow).
    pub client: u64,
    /// How many waited already in that queue.
    pub queue_length: u64,
    /// When the kernel received it, where it said so.
    pub arrived: Option<Instant>,
}
