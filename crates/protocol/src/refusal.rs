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
    /// There is no memory for the value now.
    OutOfMemory,
    /// The command line is longer than the limit: the proxy's, after which the connection is closed, or for lines that are not
    /// `get` or `gets` what servers take in one piece.
    LineTooLong,
    /// More flags than `ms`, `md` or `ma` take.
    TooManyFlags,
    /// More flags than `mg` takes.
    FlagsTooLong,
    /// `mg` or `ms` with a key that is no base64, though its flag `b` says so.
    UndecodableKey,
    /// `mg` or `ms` with a flag twice.
    DuplicateFlag,
    /// `mg` or `ms` with a flag that memcached does not know.
    InvalidFlag,
    /// `mg` or `ms` with a token that is no number behind its flag `C`, `N`, `R` or `T`.
    BadToken,
    /// The same for `D`.
    BadDeltaToken,
    /// The same for `J`.
    BadInitialToken,
    /// `mg` or `ms` with a mode that is not one letter.
    BadModeToken,
    /// What `md` and `ma` say to a key that is no base64.
    BadFlags,
    /// A command that a client of a proxy may not use.
    NotAllowed(Denied),
    /// A request of a client that is not logged in, where it must be.
    Unauthenticated,
    /// A login with a name or a password that is wrong, or with a data block that is too long for one.
    LoginFailed,
    /// A login of less than two words.
    BadLogin,
    /// A login whose data block does not end where its length said.
    BadLoginEnd,
    /// Something that changes items, or may, where the client may only read.
    ReadOnly,
    /// A key of a pool that is not for this client, or something that concerns all pools.
    OtherPool,
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
            Self::OutOfMemory => b"SERVER_ERROR out of memory storing object\r\n",
            Self::LineTooLong => b"CLIENT_ERROR line too long\r\n",
            Self::TooManyFlags => b"CLIENT_ERROR options flags too long\r\n",
            Self::FlagsTooLong => b"CLIENT_ERROR options flags are too long\r\n",
            Self::UndecodableKey => b"CLIENT_ERROR error decoding key\r\n",
            Self::DuplicateFlag => b"CLIENT_ERROR duplicate flag\r\n",
            Self::InvalidFlag => b"CLIENT_ERROR invalid flag\r\n",
            Self::BadToken => b"CLIENT_ERROR bad token in command line format\r\n",
            Self::BadDeltaToken => b"CLIENT_ERROR invalid numeric delta value\r\n",
            Self::BadInitialToken => b"CLIENT_ERROR invalid numeric initial value\r\n",
            Self::BadModeToken => b"CLIENT_ERROR incorrect length for M token\r\n",
            Self::BadFlags => b"CLIENT_ERROR invalid or duplicate flag\r\n",
            Self::NotAllowed(denied) => denied.reply(),
            Self::Unauthenticated => b"CLIENT_ERROR unauthenticated\r\n",
            Self::LoginFailed => b"CLIENT_ERROR authentication failure\r\n",
            Self::BadLogin => b"CLIENT_ERROR bad authentication token format\r\n",
            Self::BadLoginEnd => b"CLIENT_ERROR bad command line termination\r\n",
            Self::ReadOnly => b"CLIENT_ERROR write not allowed\r\n",
            Self::OtherPool => b"CLIENT_ERROR pool not allowed\r\n",
            Self::ShutdownNotEnabled => b"ERROR: shutdown not enabled\r\n",
        }
    }
}

/// Commands that act on a whole server, and are therefore not for clients of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the command of its name")]
pub enum Denied {
    FlushAll,
    CacheMemlimit,
    Slabs,
    Lru,
    LruCrawler,
    Watch,
    Metadump,
    Cachedump,
}

impl Denied {
    const fn reply(self) -> &'static [u8] {
        match self {
            Self::FlushAll => b"CLIENT_ERROR flush_all not allowed\r\n",
            Self::CacheMemlimit => b"CLIENT_ERROR cache_memlimit not allowed\r\n",
            Self::Slabs => b"CLIENT_ERROR slabs not allowed\r\n",
            Self::Lru => b"CLIENT_ERROR lru not allowed\r\n",
            Self::LruCrawler => b"CLIENT_ERROR lru_crawler not allowed\r\n",
            Self::Watch => b"CLIENT_ERROR watch not allowed\r\n",
            Self::Metadump => b"CLIENT_ERROR metadump not allowed\r\n",
            Self::Cachedump => b"CLIENT_ERROR cachedump not allowed\r\n",
        }
    }
}
