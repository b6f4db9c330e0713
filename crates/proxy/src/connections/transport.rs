//! The seam between a socket and the loop that serves it.
//!
//! ```text
//!   kernel ◀──▶ Transport ◀──▶ loop        read: Arrived        write: how much was taken, or Ended
//! ```
//!
//! A [`Transport`] is asked to read and to write without waiting, and answers what came of it. A plain socket keeps nothing of its own. One
//! that encrypts keeps bytes that it has decrypted ([`Transport::has_buffered`]), and has bytes to send that belong to no reply
//! ([`Transport::wants_write`]).

/// What bytes come from and go to.
pub(crate) trait Transport {
    /// Reads once. The kernel is asked for its stamp, too, if there are `stamps`.
    fn read(&mut self, scratch: &mut [u8], stamps: Option<&mut Stamps>) -> Arrived;

    /// Hands bytes over: how many were taken.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Ended>;

    /// Whether there are bytes to read of which the kernel will tell nothing more.
    fn has_buffered(&self) -> bool;

    /// Whether it has bytes of its own to write.
    fn wants_write(&self) -> bool;
}

/// What one read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// This many bytes.
    Bytes(usize),
    /// Nothing now.
    Nothing,
    /// Nothing any more.
    Over(Over),
}

/// How what a peer sends has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The peer will send no more.
    End,
    /// The peer has closed the connection, and reads nothing more of it.
    Reset,
    /// The connection is broken. Nobody knows what the peer still has of it.
    Broken,
}

/// Why no more can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The peer has closed the connection, and reads nothing more of it.
    ByPeer,
    /// The connection is broken. Nobody knows what the peer still has of it.
    Otherwise,
}

/// When the kernel received what was read. It tells by TCP; a socket in the file system has no such time.
#[derive(Debug)]
pub(crate) struct Stamps {
    control: Vec<u8>,
    received_unix_ns: Option<u64>,
}

impl Stamps {
    /// `control` has room for what the kernel tells beside the bytes.
    pub(super) fn new(control: Vec<u8>) -> Self {
        Self { control, received_unix_ns: None }
    }

    /// Room for what the kernel tells. What it reported before is forgotten.
    pub(super) fn begin(&mut self) -> &mut Vec<u8> {
        self.received_unix_ns = None;
        &mut self.control
    }

    pub(super) fn note(&mut self, received_unix_ns: Option<u64>) {
        self.received_unix_ns = received_unix_ns;
    }

    /// When it received the last bytes of the last read, in nanoseconds since 1970.
    pub(super) fn received_unix_ns(&self) -> Option<u64> {
        self.received_unix_ns
    }
}
