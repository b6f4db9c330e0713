//! Why a server did not answer, and the words that its client gets.

use std::fmt::Write as _;

/// Why a request got no answer from a server. [`Fault::name`] is the word for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// No connection could be made.
    Connect,
    /// The server is marked down; nothing was sent.
    Down,
    /// The server wants a login, and Weir has none; nothing was sent.
    Unauthenticated,
    /// The server lacks a write, or may still carry out an old one; nothing was sent.
    Stale,
    /// Too much waits for the server already; nothing was sent.
    Full,
    /// Too many requests wait in the proxy's own queue; nothing was sent.
    Queue,
    /// No reply came in time. What was asked for may still happen.
    Timeout,
    /// The connection ended before the reply. What was asked for may have happened.
    Closed,
    /// The server answered what cannot be an answer. What was asked for may have happened.
    Protocol,
    /// The reply is larger than may wait for the client.
    Buffer,
}

impl Fault {
    /// The word for it in replies, metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Down => "down",
            Self::Unauthenticated => "unauthenticated",
            Self::Stale => "stale",
            Self::Full | Self::Queue => "queue-full",
            Self::Timeout => "timeout",
            Self::Closed => "closed",
            Self::Protocol => "protocol",
            Self::Buffer => "buffer-full",
        }
    }

    /// Whether something was sent, so that what was asked for may have happened, or may yet happen.
    pub(crate) const fn may_have_happened(self) -> bool {
        match self {
            Self::Connect | Self::Down | Self::Unauthenticated | Self::Stale | Self::Full | Self::Queue => {
                false
            }
            Self::Timeout | Self::Closed | Self::Protocol | Self::Buffer => true,
        }
    }

    /// Appends `SERVER_ERROR <name> <server>`. `proxy` stands in the place of the server if the proxy's own queue is full. Where a reply
    /// has no room ([`Fault::Buffer`]), callers may give `client` or `proxy` as the server.
    pub(crate) fn write_to(self, server: &str, out: &mut Vec<u8>) {
        let server = if self == Self::Queue { "proxy" } else { server };
        let mut line = String::with_capacity(64);
        write!(line, "SERVER_ERROR {} {server}\r\n", self.name()).expect("writing to a string cannot fail");
        out.extend_from_slice(line.as_bytes());
    }
}
