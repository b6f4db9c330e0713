//! Gets that wait for the reply to an earlier get of their key, which is with its server ([`AskOnce`](crate::AskOnce)).
//!
//! ```text
//!   client 1   get a ──▶ server ……………………………………… VALUE a … ──▶ client 1
//!   client 2          get a ─ waits ………………………………………………… ├──▶ client 2
//!   client 3                    get a ─ waits ……………………………… └──▶ client 3
//! ```
//!
//! A get may wait where no write of the key was under way when the earlier one was sent, and none has begun since, in any loop
//! (`replication/key_writes.rs`). One whose time was up at its server is under way until that has answered all the same, where the key has
//! no other server; the place of its reply knows it (`servers/part.rs`). So a get is answered what it would have been answered alone. What has not left yet is another matter: gets of
//! one message ask for a key once anyway (`servers/pipeline/line.rs`).
//!
//! All that wait are answered in one go, before anything of that is written. So a client that waits with many gets at once may be refused
//! some for lack of room (`session_buffer_bytes_max`) that would have come one by one.
//!
//! Whose earlier get fails asks by itself, and so does who waits for a long value: nobody is charged for memory because of others. A get is
//! done at its deadline, and those that wait for it have later ones, so each keeps its own. There is one exception. A reply that is coming at
//! the deadline has more time, as long as it goes on, and so have those that wait for it. Who may not ask any more when it is there is
//! answered with it, however long it is.
//!
//! With `--near-cache` a get may be put to its server by a meta command (`asked_by_meta.rs`), which shares no message. So others wait for it
//! before it has left, too, whoever writes: it leaves after they came.
//!
//! With `--fill-wait` names of gets are kept here, too, and writes counted, whether gets wait for each other or not (`fill_once.rs`).
//!
//! [`AskOnce`] owns who waits for whom, and the dataplane's share in the counts of writes. It learns which gets are sent and which writes
//! begin and end. It answers who waits for a get that is done.

use crate::{
    Mutation,
    config::Config,
    replication::{
        freshness::Freshness,
        key_writes::{KeyWrites, Seen, Written, lower},
    },
    requests::base::Base,
    requests::fill_once::{FillWait, Missed},
    requests::near_cache::{AsOf, Value},
    requests::service::Kind,
    requests::services::Services,
    wire::doubt::Doubt,
    wire::hash::hash,
    wire::ids::RequestKey,
    wire::written::with_changed_key,
};
use std::{collections::HashMap, mem, sync::Arc};
use weir_protocol::{Request, Retrieval, RetrievalVerb};
use weir_timing::Instant;

/// Who waits for whom.
#[derive(Debug, Default)]
pub(crate) struct AskOnce {
    /// `None`: nobody waits for anybody, nor for what others write.
    writes: Option<Arc<KeyWrites>>,
    /// Gets wait for others.
    is_shared: bool,
    /// Values are kept (`near_cache.rs`).
    is_near: bool,
    /// Gets may wait for what others write, so the names of all are kept.
    is_filled: bool,
    /// What the request writes that is taken into service next.
    begun: Written,
    /// The write that ended last, if its server may still carry it out and nobody else.
    doubt: Option<Doubt>,
    /// The latest get of each key that others may wait for, by the key's hash.
    latest: HashMap<u64, RequestKey>,
    /// What is known of all that others may wait for, or do, and of all whose names are kept, in the place with the request's number.
    leaders: Vec<Leader>,
    /// How many these are. A get that was the latest of its key may be done before one that came earlier.
    leading: usize,
}

/// A get that others may wait for, or whose name is kept.
#[derive(Debug, Default)]
struct Leader {
    name: Vec<u8>,
    hash: u64,
    seen: Seen,
    /// The table by which it was sent.
    generation: u64,
    waiters: Vec<RequestKey>,
    /// When it was sent, and how long it still waits if it misses.
    sent: Instant,
    wait: FillWait,
    asked: Asked,
}

/// How a get was put to its server.
#[derive(Clone, Debug, Default)]
pub(crate) enum Asked {
    #[default]
    AsGet,
    /// By a meta command, and with it whether this value has changed, if it is there (`asked_by_meta.rs`).
    ByMeta(Option<Arc<Value>>),
}

/// A get that is done, and who waits for its reply.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(super) name: Vec<u8>,
    pub(super) waiters: Vec<RequestKey>,
    pub(super) hash: u64,
    seen: Seen,
    generation: u64,
    sent: Instant,
    wait: FillWait,
}

impl Asked {
    const fn is_by_meta(&self) -> bool {
        matches!(self, Self::ByMeta(_))
    }
}

impl Ended {
    /// Of when its reply is.
    pub(super) fn as_of(&self) -> AsOf {
        AsOf { seen: self.seen, generation: self.generation, sent: self.sent }
    }

    /// It has missed, and so has `request`, which is itself or has waited for it.
    pub(super) fn missed(&self, request: RequestKey) -> Missed {
        Missed { request, hash: lower(self.hash), sent: self.sent, wait: self.wait }
    }
}

/// More do not wait for one get: they are answered in one go, between two reads of others.
const WAITERS_MAX: usize = 1024;

/// A longer reply is not shared, because each copy counts against its client's buffers at once.
pub(crate) const SHARED_REPLY_BYTES_MAX: usize = 64 << 10;

/// Places for gets that are kept when none of them is used; and for those that wait, in each.
const LEADERS_KEPT: usize = 8;
const WAITERS_KEPT: usize = 64;

impl AskOnce {
    pub(crate) fn new(config: &Config, freshness: &Freshness) -> Self {
        let (is_shared, is_filled) = (config.ask_once == crate::AskOnce::On, config.fill_wait_ns > 0);
        let is_near = config.near_cache_entries > 0;
        let writes = match is_shared || is_filled || is_near {
            false => None,
            true if config.is_without(Mutation::SharedCounts) => Some(Arc::default()),
            true => Some(freshness.key_writes()),
        };
        Self { writes, is_shared, is_near, is_filled, ..Self::default() }
    }

    // ── writes ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The request that is taken into service next may change items.
    #[cold]
    pub(crate) fn begin_write(&mut self, request: &Request<'_>) {
        if let Some(writes) = &self.writes {
            self.begun = with_changed_key(request, |name| match name {
                Some(name) => writes.begin(hash(name)),
                None => writes.begin_all(),
            });
        }
    }

    /// It may change the key with this name.
    pub(crate) fn begin_write_of(&mut self, name: &[u8]) {
        if let Some(writes) = &self.writes {
            self.begun = writes.begin(hash(name));
        }
    }

    /// What the request writes that is taken into service now, for [`AskOnce::end_write`].
    #[inline]
    pub(crate) fn take_begun(&mut self) -> Written {
        mem::take(&mut self.begun)
    }

    /// It has its answer, and nobody has seen it. `is_unsure`: no server gave one, and perhaps `is_alone`: one server was sent it.
    #[cold]
    pub(crate) fn end_write(&mut self, written: Written, (is_unsure, is_alone): (bool, bool), now: Instant) {
        if let Some(writes) = &self.writes {
            self.doubt = writes.end(written, is_unsure, now).filter(|_| is_alone);
        }
    }

    /// The write that ended last got no answer from the one server that was sent it: its name, once.
    pub(crate) fn take_doubt(&mut self) -> Option<Doubt> {
        self.doubt.take()
    }

    /// That server has answered it after all.
    #[cold]
    pub(crate) fn settle(&self, doubt: Doubt) {
        if let Some(writes) = &self.writes {
            writes.settle(doubt);
        }
    }

    // ── gets ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Whether gets wait for others, or for what others write.
    #[inline(always)]
    pub(crate) fn is_on(&self) -> bool {
        self.writes.is_some()
    }

    /// A retrieval has come. Returns whether it waits for an earlier one.
    pub(crate) fn join(
        &mut self,
        services: &mut Services,
        base: &mut Base,
        (key, retrieval): (RequestKey, &Retrieval<'_>),
    ) -> bool {
        let Some(name) = name_of(retrieval).filter(|_| self.is_shared || self.is_near) else { return false };
        let Some((writes, &leader)) = self.writes.as_ref().zip(self.latest.get(&hash(name))) else {
            return false;
        };
        let (service, it) = (&services[leader], &mut self.leaders[leader.index()]);
        let is_unwritten =
            writes.is_same(it.hash, it.seen) || base.fleet.config.is_without(Mutation::CoalesceOverWrites);
        let may = service.kind == Kind::Leads
            && (if service.clock.is_first_sent() { self.is_shared } else { it.asked.is_by_meta() })
            && it.name == name
            && it.generation == base.fleet.generation()
            && is_unwritten;
        let is_full = may && it.waiters.len() >= WAITERS_MAX;
        let joins = may && !is_full;
        base.meter.counters().gets_coalesced_full += u64::from(is_full);
        base.meter.counters().gets_coalesced += u64::from(joins);
        if joins {
            it.waiters.push(key);
            services[key].outstanding = 1;
        }
        joins
    }

    /// A retrieval goes to one server, whose reply will be its answer: others may wait for that.
    pub(crate) fn lead(
        &mut self,
        services: &mut Services,
        base: &Base,
        (key, retrieval): (RequestKey, &Retrieval<'_>),
        now: Instant,
    ) {
        let Some(name) = name_of(retrieval) else { return };
        let hash = hash(name);
        let writes = self.writes.as_ref().filter(|_| self.is_shared || self.is_near);
        let Some(seen) = writes.and_then(|writes| writes.look(hash, now)) else {
            if self.is_filled {
                self.remember(services, (key, name), FillWait::default(), now);
            }
            return;
        };
        self.keep(key, (name, hash), FillWait::default(), now);
        let leader = &mut self.leaders[key.index()];
        (leader.seen, leader.generation) = (seen, base.fleet.generation());
        services[key].kind = Kind::Leads;
        self.latest.insert(hash, key);
    }

    /// A get of this key is asked for whose name is to be known when it misses. Nobody waits for it.
    pub(crate) fn remember(
        &mut self,
        services: &mut Services,
        (key, name): (RequestKey, &[u8]),
        wait: FillWait,
        sent: Instant,
    ) {
        self.keep(key, (name, hash(name)), wait, sent);
        services[key].kind = Kind::LeadsAgain;
    }

    fn keep(&mut self, key: RequestKey, (name, hash): (&[u8], u64), wait: FillWait, sent: Instant) {
        if self.leaders.len() <= key.index() {
            self.leaders.resize_with(key.index() + 1, Leader::default);
        }
        let leader = &mut self.leaders[key.index()];
        leader.name.clear();
        leader.name.extend_from_slice(name);
        (leader.hash, leader.sent, leader.wait) = (hash, sent, wait);
        leader.asked = Asked::AsGet;
        self.leading += 1;
    }

    /// How a get is put to its server that others may wait for.
    pub(crate) fn note_asked(&mut self, key: RequestKey, asked: Asked) {
        self.leaders[key.index()].asked = asked;
    }

    /// How it was put there. From now on it is as if that had been a get.
    #[inline]
    pub(crate) fn take_asked(&mut self, key: RequestKey) -> Asked {
        mem::take(&mut self.leaders[key.index()].asked)
    }

    /// Whether it was sent by the table with this number.
    pub(crate) fn is_by_table(&self, key: RequestKey, generation: u64) -> bool {
        self.leaders[key.index()].generation == generation
    }

    /// The key of such a get.
    pub(crate) fn key_of(&self, key: RequestKey) -> &[u8] {
        &self.leaders[key.index()].name
    }

    /// A get that others may wait for is done: who does.
    pub(crate) fn end(&mut self, key: RequestKey) -> Ended {
        self.leading -= 1;
        let leader = &mut self.leaders[key.index()];
        if self.latest.get(&leader.hash) == Some(&key) {
            self.latest.remove(&leader.hash);
        }
        Ended {
            name: mem::take(&mut leader.name),
            waiters: mem::take(&mut leader.waiters),
            hash: leader.hash,
            seen: leader.seen,
            generation: leader.generation,
            sent: leader.sent,
            wait: leader.wait,
        }
    }

    /// Those are answered: their memory is used again.
    pub(crate) fn recycle(&mut self, key: RequestKey, ended: Ended) {
        let Ended { name, mut waiters, .. } = ended;
        waiters.clear();
        waiters.shrink_to(WAITERS_KEPT);
        let leader = &mut self.leaders[key.index()];
        if leader.name.is_empty() {
            // It was not asked again.
            (leader.name, leader.waiters) = (name, waiters);
        }
    }

    /// Nobody waits for anybody: for tests.
    pub(crate) fn is_quiet(&self) -> bool {
        self.leading == 0 && self.latest.is_empty()
    }

    /// Frees memory that is kept to be used again.
    pub(crate) fn give_memory_back(&mut self) {
        if self.leading == 0 && self.leaders.len() > LEADERS_KEPT {
            (self.latest, self.leaders) = (HashMap::new(), Vec::new());
        }
    }
}

/// The key of a retrieval that may wait for another, or for which others may.
pub(super) fn name_of<'a>(retrieval: &Retrieval<'a>) -> Option<&'a [u8]> {
    let is_one = retrieval.verb == RetrievalVerb::Get && retrieval.key_count() == 1;
    if is_one { retrieval.keys().next() } else { None }
}
