//! What memcached answers to a client's own mistakes, word for word.

/// A request that is answered without asking any server, because the client got it wrong or may not do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// Unknown command, or a wrong number of words.
    Unknown,
    /// A number that is none, a key that is too long, a negative length.
    BadCommandLine,
    /// `delete` with something other than `0` or `noreply` after its key.
    BadDelete,
    /// The data block does not end where its length said.
    BadDataChunk,
    /// `gat` or `touch` with an exptime that is no number.
    BadExptime,
    /// `incr` or `decr` by something that is no unsigned number.
    BadDelta,
    /// The value is longer than the limit of the proxy or the servers.
    TooLarge,
    /// The command line is longer than the limit of the proxy. The connection is closed after this answer.
    LineTooLong,
    /// `flush_all` without permission.
    FlushNotAllowed,
    /// `shutdown`, which never reaches a server.
    ShutdownNotEnabled,
}

impl Refusal {
    /// The answer, with its line ending.
    pub const fn reply(self) -> &'static [u8] {
        match self {
            Self::Unknown => b"ERROR\r\n",
            Self::BadCommandLine => b"CLIENT_ERROR bad command line format\r\n",
            Self::BadDelete => b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n",
            Self::BadDataChunk => b"CLIENT_ERROR bad data chunk\r\n",
            Self::BadExptime => b"CLIENT_ERROR invalid exptime argument\r\n",
            Self::BadDelta => b"CLIENT_ERROR invalid numeric delta argument\r\n",
            Self::TooLarge => b"SERVER_ERROR object too large for cache\r\n",
            Self::LineTooLong => b"CLIENT_ERROR line too long\r\n",
            Self::FlushNotAllowed => b"CLIENT_ERROR flush_all not allowed\r\n",
            Self::ShutdownNotEnabled => b"ERROR: shutdown not enabled\r\n",
        }
    }
}
