//! Where a request comes from, and when.

use crate::clients::SessionId;
use weir_timing::Instant;

/// One session's request, on its way.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub(crate) session: SessionId,
    /// When the read that brought its first byte returned.
    pub(crate) first_byte: Instant,
    /// When it was complete.
    pub(crate) now: Instant,
    /// How long it is.
    pub(crate) request_bytes: usize,
}
