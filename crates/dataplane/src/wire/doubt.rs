//! A write whose time was up before its server answered it: the server may still carry it out.
//!
//! Whoever counts writes (`replication/key_writes.rs`) gives it this name. The place of its reply keeps that (`servers/part.rs`), and tells it
//! when the reply has come after all: the server has carried the write out by then, or refused it.

/// Names such a write, to whoever counts it: by the lower half of its key's hash, and the window in which it was counted. In one word, so
/// that a place can keep it where it has kept the number of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Doubt(u64);

impl Doubt {
    /// Of a write of the key with this hash, of which the lower half is known, in the window with this number.
    pub(crate) const fn new(hash: u32, window: u16) -> Self {
        Self((hash as u64) << u16::BITS | window as u64)
    }

    /// The lower half of its key's hash.
    pub(crate) const fn hash(self) -> u32 {
        (self.0 >> u16::BITS) as u32
    }

    /// In which window it began.
    pub(crate) const fn window(self) -> u16 {
        self.0 as u16
    }
}
