//! Where a request comes from, and when.

use crate::wire::ids::SessionId;
use weir_timing::Instant;

/// One session's request, on its way.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub(super) session: SessionId,
    /// When the read that brought its first byte returned.
    pub(super) first_byte: Instant,
    /// When it was complete.
    pub(super) now: Instant,
    /// How long it is.
    pub(super) request_bytes: usize,
}
