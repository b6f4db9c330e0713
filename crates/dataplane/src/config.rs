//! What bounds the dataplane. Every queue and buffer in this crate has its limit here.

/// A struct that has a default for each field, said beside it.
macro_rules! with_defaults {
    ($(#[$about:meta])+ pub struct $type:ident {
        $($(#[doc = $doc:literal])+ pub $field:ident: $kind:ty = $default:expr,)+
    }) => {
        $(#[$about])+
        pub struct $type {
            $($(#[doc = $doc])+ pub $field: $kind,)+
        }

        impl Default for $type {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }
    };
}

pub(crate) mod client_timeouts;
pub(crate) mod multiget;
pub(crate) mod mutation;
pub(crate) mod policy;
pub(crate) mod words;

use crate::{
    AskOnce, ClientTimeouts, JoinGets, LoopId, Multiget, Mutation, NearCheck, OnFailure, OnStale, ReadPolicy,
    ReadRepair, ReplicasRequired, WritePolicy,
};
use weir_protocol::Limits;

with_defaults! {
    /// Limits of one dataplane (one event loop has one), and how it reads.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Config {
        /// The number of this dataplane's loop among those of its proxy, from 0.
        pub loop_index: LoopId = LoopId::from_index(0),
        /// How many loops share the writes of keys that have replicas; each key is written by one of them.
        pub loop_count: usize = 1,
        /// Whether each key is written by one dataplane alone: this one, or another that is reached by mail. If so, copies that servers
        /// lost can be put back.
        pub owns_keys: bool = true,
        /// How many writes may be under way to one other loop. More are refused with a `SERVER_ERROR`.
        pub mail_requests_max: usize = 65_536,
        /// How many bytes of writes may be under way to one other loop before more are refused.
        pub mail_bytes_max: usize = 64 << 20,
        /// A rule that is left out, to see that tests notice. It has an effect only with the feature `mutations`.
        pub mutation: Option<Mutation> = None,
        /// How long a server may take until the first byte of each reply, and then for each `progress_bytes_min` of the reply. It counts
        /// from a request's `created`. With the engines pool and split it counts from `enqueued`, but from `created` at a server that is
        /// silent already (`servers/begun.rs`). Nanoseconds.
        pub timeout_ns: u64 = 500_000_000,
        /// How much of a reply must come, and of a long request must go, within each further `timeout_ns`.
        pub progress_bytes_min: usize = 64 << 10,
        /// How long an attempt to connect to a server may take. Nanoseconds.
        pub connect_timeout_ns: u64 = 500_000_000,
        /// How long clients may take.
        pub client_timeouts: ClientTimeouts = ClientTimeouts::default(),
        /// How multi-gets are asked for where keys have several replicas.
        pub multiget: Multiget = Multiget::default(),
        /// Whether gets of several requests are put into one message to a server.
        pub join_gets: JoinGets = JoinGets::default(),
        /// Whether a get of one key waits for the reply to an earlier one. Sessions that are lent never do.
        pub ask_once: AskOnce = AskOnce::default(),
        /// How long a get of one key that has missed waits for another client to fill the key, which missed it before. 0: not at all. Sessions
        /// that are lent never do. Nanoseconds.
        pub fill_wait_ns: u64 = 0,
        /// How many values of the keys that are asked for most are kept, to answer gets of one key. 0: none. Sessions that are lent never get
        /// them.
        pub near_cache_entries: usize = 0,
        /// From how many gets on, less those of other keys that share its places, a key is one of these. From 1 to 15.
        pub near_cache_points_min: u8 = 3,
        /// How many bytes these values may have together.
        pub near_cache_bytes: usize = 8 << 20,
        /// How long after its get was sent a value may be an answer. Nanoseconds.
        pub near_cache_age_ns: u64 = 1_000_000_000,
        /// Whether their servers are asked if they have changed before they are answered.
        pub near_cache_check: NearCheck = NearCheck::default(),
        /// Replies with fewer bytes are not kept then: the question would cost more than they do.
        pub near_cache_check_bytes_min: usize = 1 << 10,
        /// What becomes of retrievals of which a part got no answer.
        pub on_failure: OnFailure = OnFailure::default(),
        /// What reads are answered where every server of a key lacks writes, or may.
        pub on_stale: OnStale = OnStale::default(),
        /// When writes to several replicas are answered.
        pub write_policy: WritePolicy = WritePolicy::default(),
        /// Which replicas a write needs that is to reach all.
        pub replicas_required: ReplicasRequired = ReplicasRequired::default(),
        /// Which replica is read.
        pub read_policy: ReadPolicy = ReadPolicy::default(),
        /// Whether copies that reads find missing are put back. Only where this dataplane takes its requests itself. In a process with
        /// several that are handed requests, nobody owns a key.
        pub read_repair: ReadRepair = ReadRepair::default(),
        /// How many keys that a server missed are remembered, to be deleted there; with more of them it is flushed.
        pub journal_keys_max: usize = 65_536,
        /// The same, in bytes of keys.
        pub journal_bytes_max: usize = 4 << 20,
        /// How long a server may still carry out what was sent on a connection that broke without its doing. Nanoseconds.
        pub quarantine_ns: u64 = 2_000_000_000,
        /// After how many timeouts in a row, without a byte between them, a server is marked down, and a second connection asks whether it
        /// is the server or only the connection that is silent. 0: never.
        pub mark_down_timeouts: u32 = 3,
        /// The most servers of a pool that may be marked down by timeouts at once, in percent of them, where keys have several servers and
        /// not all of the pool are silent.
        pub mark_down_share_percent: u32 = 50,
        /// What clients may send.
        pub limits: Limits = Limits::default(),
        /// Whether the longest value is what the servers say that they store (`item_size_max`), as soon as one has said so.
        pub asks_item_size: bool = false,
        /// Whether a server must have answered a question of the proxy's own before anything of a client is sent to it.
        pub greets_servers: bool = false,
        /// Values that are at least so long go over a connection of their own, where keys have one replica. `usize::MAX`: none do.
        pub large_value_bytes: usize = 256 << 10,
        /// Reads that are expected to bring more are carried out in slices of this many bytes, one after the other. `usize::MAX`: none are.
        pub slice_bytes: usize = usize::MAX,
        /// How many sessions there may be at once.
        pub sessions_max: usize = 10_000,
        /// How many requests of one session may be in service at once; while there are more, its bytes wait in the kernel.
        pub session_requests_max: usize = 1024,
        /// How many bytes of replies may wait for one session. A reply that would exceed it becomes a `SERVER_ERROR`.
        pub session_buffer_bytes_max: usize = 64 << 20,
        /// How many requests may be queued or in flight at one server. More are refused with a `SERVER_ERROR`.
        pub server_requests_max: usize = 65_536,
        /// How many bytes may wait for one server, and how many of an incomplete reply are kept.
        pub server_buffer_bytes_max: usize = 64 << 20,
        /// Whether a server is connected to when it is needed first, and not as soon as a table names it.
        pub connects_when_needed: bool = false,
        /// How much memory all buffers of this dataplane may take, or of all that share its budget ([`crate::Dataplane::share_budget`]).
        pub buffer_bytes_max: usize = 1 << 30,
        /// The pause after the first failed attempt to connect; it doubles with each further one. Nanoseconds.
        pub reconnect_delay_min_ns: u64 = 50_000_000,
        /// The longest pause between attempts to connect. Nanoseconds.
        pub reconnect_delay_max_ns: u64 = 5_000_000_000,
        /// How many of the hottest keys are kept count of, in each of two windows. 0: none.
        pub hot_keys: usize = 256,
        /// One of this many requests is looked at for that, at random.
        pub hot_keys_one_in: u64 = 64,
        /// Seed of the jitter in the pauses between attempts to connect. Dataplanes with the same one try a server that all have lost at the
        /// same moments.
        pub jitter_seed: u64 = 1,
        /// Seed of what [`Multiget::Auto`] explores, and of the requests that are looked at for hot keys.
        pub seed: u64 = 1,
        /// What `version` is answered before any server has reported its own (`version.rs`). Clients read the number at its front to learn
        /// which commands they may use, so it begins with the version of memcached whose answers Weir gives. Nothing stands behind it,
        /// because some clients take the last three numbers.
        pub version: String = "1.6.18".to_owned(),
    }
}

impl Config {
    /// Whether a test leaves this rule out.
    #[inline(always)]
    pub(crate) fn is_without(&self, rule: Mutation) -> bool {
        cfg!(feature = "mutations") && self.mutation == Some(rule)
    }

    /// Whether each key is written by one loop.
    pub(crate) fn has_owners(&self) -> bool {
        self.loop_count > 1 && !self.is_without(Mutation::KeyOwner)
    }

    /// Whether what is found elsewhere is put back. A copy that is under way could outlive a client's `flush_all`, and without owners a
    /// newer write.
    pub(crate) const fn puts_back(&self) -> bool {
        self.owns_keys && !self.limits.flush_allowed
    }
}
