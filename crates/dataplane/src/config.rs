//! What bounds the dataplane. Every queue and buffer in this crate has its limit here.

pub(crate) mod multiget;
pub(crate) mod patience;
pub(crate) mod policy;
pub(crate) mod words;

use crate::{
    JoinGets, Multiget, OnFailure, OnStale, Patience, ReadPolicy, ReadRepair, ReplicasRequired, WritePolicy,
};
use weir_protocol::{Limits, Request};
#[cfg(feature = "mutations")]
use weir_protocol::{Meta, MetaVerb};

/// A rule of replication that can be left out, for tests only.
#[cfg(feature = "mutations")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Every loop writes every key itself.
    Ownership,
    /// What a server missed is not remembered.
    Journal,
    /// A connection with unanswered writes is closed, and the next one trusted at once.
    Barrier,
    /// Clients' requests are sent on a new connection at once.
    Greeting,
    /// A copy that refused what others did keeps what it has.
    Disagreement,
    /// Of what a session sent behind its multi-get only writes count, not what else changes an item.
    Changes,
    /// The other replicas forget what a meta command has changed at the decider.
    MetaFollow,
    /// A silent connection is never replaced.
    SecondOpinion,
    /// What a dead connection swallowed is believed to be lost.
    DeadEnding,
    /// A silent server whose keys have no other is asked all the same.
    MarkDownAlone,
    /// A read that brings much begins while other requests of its session are in service.
    BulkReadAlone,
    /// Of gets that share a message, one has no more values as soon as one of another comes.
    MissAtEnd,
    /// A server that closes its connections at a question is asked it on each.
    ClosedQuestion,
    /// A write of a lent session begins although its key is held.
    LentHold,
    /// What one request of a lent session was denied, those after it are denied too.
    LentDenial,
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

    /// Whether what is found elsewhere is put back. A copy that is under way could outlive a client's `flush_all`, and without owners a
    /// newer write.
    pub(crate) const fn puts_back(&self) -> bool {
        self.owns_keys && !self.limits.flush_allowed
    }

    /// Whether what servers miss is remembered.
    pub(crate) fn has_journal(&self) -> bool {
        #[cfg(feature = "mutations")]
        if self.mutation == Some(Mutation::Journal) {
            return false;
        }
        true
    }

    /// Whether nothing of a client goes to a server before it has shown that it serves us.
    pub(crate) fn greets(&self) -> bool {
        #[cfg(feature = "mutations")]
        if self.mutation == Some(Mutation::Greeting) {
            return false;
        }
        self.greets_servers
    }

    /// Whether a server is spared a question at which it closed its connections.
    pub(crate) fn spares_questions(&self) -> bool {
        #[cfg(feature = "mutations")]
        if self.mutation == Some(Mutation::ClosedQuestion) {
            return false;
        }
        true
    }

    /// Whether copies that refused what others did are told to forget the key.
    pub(crate) fn ends_disagreement(&self) -> bool {
        #[cfg(feature = "mutations")]
        if self.mutation == Some(Mutation::Disagreement) {
            return false;
        }
        true
    }

    /// Whether a request counts as a change of its session.
    #[inline(always)]
    pub(crate) fn is_change(&self, request: &Request<'_>) -> bool {
        #[cfg(feature = "mutations")]
        if self.mutation == Some(Mutation::Changes)
            && matches!(request, Request::Retrieval(_) | Request::Meta(Meta { verb: MetaVerb::Get, .. }))
        {
            return false;
        }
        request.may_change_items()
    }

    /// Whether a value of another get that shares the message makes a miss.
    pub(crate) fn misses_before_the_end(&self) -> bool {
        #[cfg(feature = "mutations")]
        if self.mutation == Some(Mutation::MissAtEnd) {
            return true;
        }
        false
    }

    /// Whether a server stays unread until no old write can come any more.
    pub(crate) fn has_barrier(&self) -> bool {
        #[cfg(feature = "mutations")]
        if self.mutation == Some(Mutation::Barrier) {
            return false;
        }
        true
    }
}

#[cfg(not(feature = "mutations"))]
impl Config {
    pub(crate) const fn has_second_opinions(&self) -> bool {
        true
    }

    pub(crate) const fn marks_down_alone(&self) -> bool {
        true
    }

    pub(crate) const fn reads_much_alone(&self) -> bool {
        true
    }

    pub(crate) const fn holds_lent(&self) -> bool {
        true
    }

    pub(crate) const fn ends_denial(&self) -> bool {
        true
    }
}

#[cfg(feature = "mutations")]
impl Config {
    /// Whether a write of a lent session waits while its key is held.
    pub(crate) fn holds_lent(&self) -> bool {
        self.mutation != Some(Mutation::LentHold)
    }

    /// Whether what one request of a lent session is denied is denied to it alone.
    pub(crate) fn ends_denial(&self) -> bool {
        self.mutation != Some(Mutation::LentDenial)
    }

    /// Whether a second connection asks about a silent one.
    pub(crate) fn has_second_opinions(&self) -> bool {
        self.mutation != Some(Mutation::SecondOpinion)
    }

    /// Whether a server is marked down by timeouts though its keys have no other.
    pub(crate) fn marks_down_alone(&self) -> bool {
        self.mutation != Some(Mutation::MarkDownAlone)
    }

    /// Whether a read that brings much waits until its session has nothing else in service.
    pub(crate) fn reads_much_alone(&self) -> bool {
        self.mutation != Some(Mutation::BulkReadAlone)
    }
}

/// Limits of one dataplane (one event loop has one), and how it reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The number of this dataplane's loop among those of its proxy, from 0.
    pub loop_index: usize,
    /// How many loops share the writes of keys that have replicas; each key is written by one of them.
    pub loop_count: usize,
    /// Whether each key is written by one dataplane alone, be it this one or another that is reached by mail. If so, copies that servers
    /// lost can be put back.
    pub owns_keys: bool,
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
    /// Whether gets of several requests are put into one message to a server.
    pub join_gets: JoinGets,
    /// What becomes of retrievals of which a part got no answer.
    pub on_failure: OnFailure,
    /// What reads are answered where every server of a key lacks writes, or may.
    pub on_stale: OnStale,
    /// When writes to several replicas are answered.
    pub write_policy: WritePolicy,
    /// Which replicas a write needs that is to reach all.
    pub replicas_required: ReplicasRequired,
    /// Which replica is read.
    pub read_policy: ReadPolicy,
    /// Whether copies that reads find missing are put back. Only where this dataplane takes its requests itself: in a process with several
    /// that are handed requests, nobody owns a key.
    pub read_repair: ReadRepair,
    /// How many keys that a server missed are remembered, to be deleted there; with more of them it is flushed.
    pub journal_keys_max: usize,
    /// The same, in bytes of keys.
    pub journal_bytes_max: usize,
    /// How long a server may still carry out what was sent on a connection that broke without its doing. Nanoseconds.
    pub quarantine_ns: u64,
    /// After how many timeouts in a row, without a byte between them, a server is marked down, and a second connection asks whether it
    /// is the server or only the connection that is silent. 0: never.
    pub mark_down_timeouts: u32,
    /// The most servers of a pool that may be marked down by timeouts at once, in percent of them, where keys have several servers and
    /// not all of the pool are silent.
    pub mark_down_share_percent: u32,
    /// What clients may send.
    pub limits: Limits,
    /// Whether the longest value is what the servers say that they store (`item_size_max`), as soon as one has said so.
    pub asks_item_size: bool,
    /// Whether a server must have answered a question of the proxy's own before anything of a client is sent to it.
    pub greets_servers: bool,
    /// Values that are at least so long go over a connection of their own, where keys have one replica. `usize::MAX`: none do.
    pub large_value_bytes: usize,
    /// Reads that are expected to bring more are carried out in slices of so many bytes, one after the other. `usize::MAX`: none are.
    pub slice_bytes: usize,
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
    /// Whether a server is connected to when it is needed first, and not as soon as a table names it.
    pub connects_when_needed: bool,
    /// How much memory all buffers of this dataplane may take, or of all that share its budget ([`crate::Dataplane::share_budget`]).
    pub buffer_bytes_max: usize,
    /// The pause after the first failed attempt to connect; it doubles with each further one. Nanoseconds.
    pub reconnect_delay_min_ns: u64,
    /// The longest pause between attempts to connect. Nanoseconds.
    pub reconnect_delay_max_ns: u64,
    /// Seed of the jitter in those pauses, and of what [`Multiget::Auto`] explores.
    pub seed: u64,
    /// What `version` is answered before any server has told its own (`version.rs`). Clients read the number at its front to learn which commands they may use, so it begins with
    /// the version of memcached whose answers Weir gives; nothing stands behind it, because some clients take the last three numbers.
    pub version: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            loop_index: 0,
            loop_count: 1,
            owns_keys: true,
            mail_requests_max: 65_536,
            mail_bytes_max: 64 << 20,
            #[cfg(feature = "mutations")]
            mutation: None,
            timeout_ns: 500_000_000,
            progress_bytes_min: 64 << 10,
            connect_timeout_ns: 500_000_000,
            patience: Patience::default(),
            multiget: Multiget::default(),
            join_gets: JoinGets::default(),
            on_failure: OnFailure::default(),
            on_stale: OnStale::default(),
            write_policy: WritePolicy::default(),
            replicas_required: ReplicasRequired::default(),
            read_policy: ReadPolicy::default(),
            read_repair: ReadRepair::default(),
            journal_keys_max: 65_536,
            journal_bytes_max: 4 << 20,
            quarantine_ns: 2_000_000_000,
            mark_down_timeouts: 3,
            mark_down_share_percent: 50,
            limits: Limits::default(),
            asks_item_size: false,
            greets_servers: false,
            large_value_bytes: 256 << 10,
            slice_bytes: usize::MAX,
            sessions_max: 10_000,
            session_requests_max: 1024,
            session_buffer_bytes_max: 64 << 20,
            server_requests_max: 65_536,
            server_buffer_bytes_max: 64 << 20,
            connects_when_needed: false,
            buffer_bytes_max: 1 << 30,
            reconnect_delay_min_ns: 50_000_000,
            reconnect_delay_max_ns: 5_000_000_000,
            seed: 1,
            version: "1.6.18".to_owned(),
        }
    }
}
