//! What replicas owe to whom: how many must have done a write before its client is answered, and which of them are read.

use crate::words;

words! {
    /// When a write to several replicas is answered. In every case it is sent at once to all that are not marked down; a conditional one at
    /// once to the decider, and to the others when it is decided. A replica that does not do what another did is made to forget the key.
    /// One that was marked down is not read before it has forgotten it.
    pub enum WritePolicy {
        /// When every replica that is not marked down has done it.
        #[default]
        All = "all",
        /// When more than half of all replicas have done it, those that are marked down included in the count.
        Quorum = "quorum",
        /// When one has done it.
        First = "first",
        /// When the replica that decides has done it.
        Async = "async",
    }
}

words! {
    /// Which replica answers a `get`.
    pub enum ReadPolicy {
        /// The first that may be read, in the order of the key's servers.
        #[default]
        Primary = "primary",
        /// Those that may be read, in turn.
        Spread = "spread",
        /// The one that answered fastest of late; now and then another, to see whether it still does.
        Nearest = "nearest",
    }
}

words! {
    /// Which replicas a write under [`WritePolicy::All`] needs.
    pub enum ReplicasRequired {
        /// Those that are not marked down.
        #[default]
        Live = "live",
        /// All of them: a write whose key should be on a server that is marked down fails at once.
        AllConfigured = "all-configured",
    }
}

words! {
    /// What a read is answered where every server of its key lacks writes, or may (`freshness.rs`).
    pub enum OnStale {
        /// `SERVER_ERROR stale`. A miss says that a key is not there, and here nobody knows.
        #[default]
        Error = "error",
        /// A miss, as a cache may answer whenever it likes.
        Miss = "miss",
    }
}

words! {
    /// Whether a copy that a read found missing is put back.
    pub enum ReadRepair {
        /// No: it is missing until the next write of its key.
        #[default]
        Off = "off",
        /// Yes, in the order of the key's writes.
        On = "on",
    }
}

words! {
    /// Whether a get waits for the reply to an earlier get of its key, which is with its server already.
    pub enum AskOnce {
        /// Never: each is asked for when it comes.
        #[default]
        Off = "off",
        /// Where no client of this process has begun to write the key since. Right where all of the servers' clients come through one process.
        On = "on",
    }
}

words! {
    /// Whether a server is asked, before a value that is kept is answered, if its item has changed.
    pub enum NearCheck {
        /// Never: values are answered without their servers. Right where all of the servers' clients come through one process.
        #[default]
        Off = "off",
        /// Each time. Right for any number of processes: it saves the value's way, and not the question.
        On = "on",
    }
}

words! {
    /// Whether gets of several requests are put into one message to a server.
    pub enum JoinGets {
        /// Those that leave together anyway.
        #[default]
        On = "on",
        /// Never: each request has messages of its own.
        Off = "off",
    }
}
