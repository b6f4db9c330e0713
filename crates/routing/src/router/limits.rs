//! What a pool may have at most.

/// The largest pool.
pub const SERVERS_MAX: usize = 1024;

/// The most servers that hold one key. It bounds what one write costs, and the room that callers of
/// [`Router::replicas_of`](crate::Router::replicas_of) must have.
pub const REPLICAS_MAX: usize = 64;
