//! What replicas owe to whom: how many must have done a write before its client is answered, and which of them are read.

/// When a write to several replicas is answered. In every case all replicas are sent it at once (a conditional one when it is
/// decided), and one that does not do it is made to forget the key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WritePolicy {
    /// When every replica that is not marked down has done it.
    #[default]
    All,
    /// When more than half of all replicas have done it, those that are marked down included in the count.
    Quorum,
    /// When one has done it.
    First,
    /// When the replica that decides has done it.
    Async,
}

/// Which replica answers a `get`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReadPolicy {
    /// The first that may be read, in the order of the key's servers.
    #[default]
    Primary,
    /// Those that may be read, in turn.
    Spread,
    /// The one that answered fastest of late; now and then another, to see whether it still does.
    Nearest,
}

/// Which replicas a write under [`WritePolicy::All`] needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReplicasRequired {
    /// Those that are not marked down.
    #[default]
    Live,
    /// All of them: a write whose key should be on a server that is marked down fails at once.
    AllConfigured,
}

/// What a read is answered where every server of its key lacks writes, or may (`freshness.rs`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStale {
    /// `SERVER_ERROR stale`. A miss says that a key is not there, and here nobody knows.
    #[default]
    Error,
    /// A miss, as a cache may answer whenever it likes.
    Miss,
}

/// Whether a copy that a read found missing is put back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReadRepair {
    /// No: it is missing until the next write of its key.
    #[default]
    Off,
    /// Yes, in the order of the key's writes.
    On,
}

/// Whether gets of several requests are put into one message to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum JoinGets {
    /// Those that leave together anyway.
    #[default]
    On,
    /// Never: each request has messages of its own.
    Off,
}

impl JoinGets {
    /// Both.
    pub const ALL: [Self; 2] = [Self::On, Self::Off];

    /// Its name in flags and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

impl WritePolicy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::All, Self::Quorum, Self::First, Self::Async];

    /// Its name in flags and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Quorum => "quorum",
            Self::First => "first",
            Self::Async => "async",
        }
    }
}

impl ReadPolicy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Primary, Self::Spread, Self::Nearest];

    /// Its name in flags and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Spread => "spread",
            Self::Nearest => "nearest",
        }
    }
}

impl OnStale {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Error, Self::Miss];

    /// Its name in flags and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Miss => "miss",
        }
    }
}

impl ReadRepair {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Off, Self::On];

    /// Its name in flags and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
        }
    }
}

impl ReplicasRequired {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Live, Self::AllConfigured];

    /// Its name in flags and files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::AllConfigured => "all-configured",
        }
    }
}
