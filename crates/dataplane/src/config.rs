//! What bounds the dataplane. Every queue and buffer in this crate has its limit here.

use crate::{Multiget, OnFailure, Patience};
use weir_protocol::Limits;

/// A rule of replication that can be left out, for tests only.
#[cfg(feature = "mutations")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Every loop writes every key itself.
    Ownership,
}

impl Config {
    /// Whether each key is written by one loop.
    pub(crate) fn has_owners(&self) -> bool {
        #[cfg(feature = "mutations")]
        if self.mutation == Some(Mutation::Ownership) {
            return false;
        }
        self.loop_count > 1
    }
}

/// Limits of one dataplane (one event loop has one), and how it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The number of this dataplane's loop among those of its proxy, from 0.
    pub loop_index: usize,
    /// How many loops share the writes of keys that have replicas; each key is written by one of them.
    pub loop_count: usize,
    /// How many writes may be under way to one other loop. More are refused with a `SERVER_ERROR`.
    pub mail_requests_max: usize,
    /// How many bytes of writes may be under way to one other loop before more are refused.
    pub mail_bytes_max: usize,
    /// A rule that is left out, to see that tests notice.
    #[cfg(feature = "mutations")]
    pub mutation: Option<Mutation>,
    /// How long a server may take: from a request's `created` to the first byte of each reply, and then for each
    /// `progress_bytes_min` of the reply. Nanoseconds.
    pub timeout_ns: u64,
    /// How much of a reply must come, and of a long request must go, within each further `timeout_ns`.
    pub progress_bytes_min: usize,
    /// How long an attempt to connect to a server may take. Nanoseconds.
    pub connect_timeout_ns: u64,
    /// How long clients may take.
    pub patience: Patience,
    /// How multi-gets are asked for where keys have several replicas.
    pub multiget: Multiget,
    /// What becomes of retrievals of which a part got no answer.
    pub on_failure: OnFailure,
    /// What clients may send.
    pub limits: Limits,
    /// Whether the longest value is what the servers say that they store (`item_size_max`), as soon as one has said so.
    pub asks_item_size: bool,
    /// Values that are at least so long go over a connection of their own, where keys have one replica. `usize::MAX`: none do.
    pub large_value_bytes: usize,
    /// How many sessions there may be at once.
    pub sessions_max: usize,
    /// How many requests of one session may be in service at once; while there are more, its bytes wait in the kernel.
    pub session_requests_max: usize,
    /// How many bytes of replies may wait for one session. A reply that would exceed it becomes a `SERVER_ERROR`.
    pub session_buffer_bytes_max: usize,
    /// How many requests may be queued or in flight at one server. More are refused with a `SERVER_ERROR`.
    pub server_requests_max: usize,
    /// How many bytes may wait for one server, and how many of an incomplete reply are kept.
    pub server_buffer_bytes_max: usize,
    /// How much memory all buffers of this dataplane may take, or of all that share its budget ([`crate::Dataplane::share_budget`]).
    pub buffer_bytes_max: usize,
    /// The pause after the first failed attempt to connect; it doubles with each further one. Nanoseconds.
    pub reconnect_delay_min_ns: u64,
    /// The longest pause between attempts to connect. Nanoseconds.
    pub reconnect_delay_max_ns: u64,
    /// Seed of the jitter in those pauses, and of what [`Multiget::Auto`] explores.
    pub seed: u64,
    /// What `version` is answered. Clients read the number at its front to learn which commands they may use, so it begins with
    /// the version of memcached whose answers Weir gives; nothing stands behind it, because some clients take the last three numbers.
    pub version: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            loop_index: 0,
            loop_count: 1,
            mail_requests_max: 65_536,
            mail_bytes_max: 64 << 20,
            #[cfg(feature = "mutations")]
            mutation: None,
            timeout_ns: 500_000_000,
            progress_bytes_min: 64 << 10,
            connect_timeout_ns: 500_000_000,
            patience: Patience::default(),
            multiget: Multiget::default(),
            on_failure: OnFailure::default(),
            limits: Limits::default(),
            asks_item_size: false,
            large_value_bytes: 256 << 10,
            sessions_max: 10_000,
            session_requests_max: 1024,
            session_buffer_bytes_max: 64 << 20,
            server_requests_max: 65_536,
            server_buffer_bytes_max: 64 << 20,
            buffer_bytes_max: 1 << 30,
            reconnect_delay_min_ns: 50_000_000,
            reconnect_delay_max_ns: 5_000_000_000,
            seed: 1,
            version: "1.6.18".to_owned(),
        }
    }
}
