//! Values of the keys that are asked for most, kept in the loop (`--near-cache`).
//!
//! ```text
//!   get a ──▶ nothing is kept ──▶ server ──▶ VALUE a … ──▶ client      and kept, if a is asked for often
//!   get a ──▶ kept, and no write of a has been acknowledged since ──▶ client
//!   set a ──▶ server ──▶ STORED ──▶ client                             and its value kept (`near_written.rs`)
//! ```
//!
//! A value is kept with what had been written of its key when its get was sent (`replication/key_writes.rs`), and if no write was under way.
//! It is an answer as long as no write of the key has ended since, in any loop, by the same table of servers. So nobody reads anything older
//! than what was acknowledged before its get. Nothing has to be invalidated: a count that has changed makes the value worthless, and it has
//! changed before the client of the write is answered. While a write is under way some may read what was before it and others what it
//! writes. A client whose own write is under way has its gets asked for behind it.
//!
//! What comes to the servers past this process changes no count. So no value is an answer for longer than its age allows; nor for longer
//! than its item lives, where the server says how long (`asked_by_meta.rs`).
//!
//! With `--near-cache-check` a value is no answer by itself. Its server is asked whether the item has changed, and what it says is the
//! answer, whoever writes. How old the value is does not matter then. What has been written here does: a client may have chosen the same
//! token for another value. A value that is replaced while its server is asked about it stays until that has answered: there are no more of
//! these than questions.
//!
//! A connection that is lost ends the values of its server: that may come back with others, or with none. Those of keys with several servers
//! end with a connection to any.
//!
//! Which keys are asked for most is judged in each set of places by itself. A get of its key is a point for a place. A get of another key is
//! a point less for the weakest of the set, and who has none left is replaced (after Misra and Gries, *Finding repeated elements*, 1982).
//!
//! [`NearCache`] owns the values. It learns which keys are asked for, and what was replied. It answers gets.

use crate::{
    Mutation, NearCheck,
    config::Config,
    replication::{
        freshness::Freshness,
        item::Item,
        key_writes::{KeyWrites, Seen},
    },
    routes::Routes,
    wire::ids::Slot,
};
use std::{mem, sync::Arc};
use weir_timing::Instant;

/// What is kept.
#[derive(Debug, Default)]
pub(crate) struct NearCache {
    /// `None`: nothing is.
    writes: Option<Arc<KeyWrites>>,
    sets: Box<[Set]>,
    /// Bytes of all values, and how many there may be.
    bytes: usize,
    bytes_max: usize,
    age_ns: u64,
    /// A key with fewer points is not asked for often enough.
    points_min: u8,
    /// Servers are asked whether values have changed, and these are worth that from this number of bytes on.
    checks: bool,
    checked_bytes_min: usize,
    losses: Losses,
    /// When it was last looked for values that are too old.
    swept: Instant,
    is_unchecked: bool,
    is_late: bool,
}

/// How many connections to servers were lost.
#[derive(Debug, Default)]
struct Losses {
    all: u64,
    /// By the server's slot; none where nothing stands.
    by_server: Vec<u64>,
}

/// Places that some keys share.
#[derive(Debug, Default)]
struct Set {
    places: [Place; WAYS],
    /// Gets of these keys since points were halved.
    gets: u8,
}

/// A key, how often it is asked for, and its value if it is kept.
#[derive(Debug, Default)]
struct Place {
    hash: u64,
    points: u8,
    value: Option<Arc<Value>>,
    /// What has come of it was not kept, or there was nothing. Its server is not asked for more than the value before then.
    rests_until: Instant,
    /// When its server was asked for more last, it had nothing.
    is_missing: bool,
}

/// A value that is kept.
#[derive(Debug)]
pub(crate) struct Value {
    /// As a server replies it to `get`, with its end.
    reply: Vec<u8>,
    /// What had been written of its key, and the table by which its get was sent.
    seen: Seen,
    generation: u64,
    /// When it is too old.
    until: Instant,
    /// The server that it came from; none if its key has several.
    owner: Option<Slot>,
    /// The item's cas token; 0 if it is not known. And how many connections to its server had been lost when it came: behind another one
    /// tokens may be another server's, or be counted anew.
    token: u64,
    losses: u64,
}

/// Of when a value is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AsOf {
    /// What had been written of its key.
    pub(super) seen: Seen,
    /// The table by which its get was sent, and when.
    pub(super) generation: u64,
    pub(super) sent: Instant,
}

/// What a server has said of an item besides its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    token: u64,
    /// How long it lives at least; none if for ever.
    lives_ns: Option<u64>,
    is_marked: bool,
}

/// What was found.
#[derive(Debug)]
pub(crate) enum Looked {
    /// It is the answer.
    Answer(Arc<Value>),
    /// It is, if its server says that it has not changed.
    Check(Arc<Value>),
    /// It was written since, or is too old.
    Outdated,
    /// None is kept, but what comes will be.
    Wanted,
    Nothing,
}

const WAYS: usize = 4;

/// No place has more. All are halved with each 256 gets of a set's keys, so one that is asked for no more loses its place after a thousand.
const POINTS_MAX: u8 = 15;

/// No reply takes more than this part of all, nor more than this: one turn may copy it to many clients.
const PARTS: usize = 16;
const REPLY_BYTES_MAX: usize = 64 << 10;

impl Losses {
    fn count(&mut self, server: Slot) {
        if self.by_server.len() <= server.index() {
            self.by_server.resize(server.index() + 1, 0);
        }
        self.by_server[server.index()] += 1;
        self.all += 1;
    }

    /// Of this server's connections, or of all.
    fn of(&self, owner: Option<Slot>) -> u64 {
        owner.map_or(self.all, |owner| self.by_server.get(owner.index()).copied().unwrap_or_default())
    }
}

impl Value {
    pub(super) fn reply(&self) -> &[u8] {
        &self.reply
    }

    pub(super) const fn token(&self) -> u64 {
        self.token
    }
}

impl Said {
    /// Of an item that a client has stored, which lives for so long; none if for ever.
    pub(super) const fn stored(lives_ns: Option<u64>) -> Self {
        Self { token: 0, lives_ns, is_marked: false }
    }

    pub(super) fn of(item: &Item<'_>) -> Self {
        let lives_ns = item.lives_s().map(|lives_s| u64::from(lives_s) * 1_000_000_000);
        Self { token: item.token(), lives_ns, is_marked: item.is_marked() }
    }
}

impl NearCache {
    pub(crate) fn new(config: &Config, freshness: &Freshness) -> Self {
        if config.near_cache_entries == 0 {
            return Self::default();
        }
        let sets = config.near_cache_entries.div_ceil(WAYS);
        Self {
            writes: Some(freshness.key_writes()),
            sets: (0..sets).map(|_| Default::default()).collect(),
            bytes_max: config.near_cache_bytes,
            age_ns: config.near_cache_age_ns,
            points_min: config.near_cache_points_min.clamp(1, POINTS_MAX),
            checks: config.near_cache_check == NearCheck::On,
            checked_bytes_min: config.near_cache_check_bytes_min,
            is_unchecked: config.is_without(Mutation::NearUnchecked),
            is_late: config.is_without(Mutation::NearOverWrites),
            ..Self::default()
        }
    }

    /// Whether values are kept.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.writes.is_some()
    }

    /// A get asks for the key with this name and hash, by the table with this number. `is_writing`: its client waits for the answer to what
    /// may be a write of this key.
    pub(crate) fn look(
        &mut self,
        (name, hash): (&[u8], u64),
        (generation, is_writing): (u64, bool),
        now: Instant,
    ) -> Looked {
        let Some(writes) = &self.writes else { return Looked::Nothing };
        let set = (hash >> 32) as usize % self.sets.len();
        self.sets[set].count();
        let places = &mut self.sets[set].places;
        let Some(way) = places.iter().position(|place| place.points > 0 && place.hash == hash) else {
            self.count_against(set, hash);
            return Looked::Nothing;
        };
        let place = &mut places[way];
        place.points = (place.points + 1).min(POINTS_MAX);
        let Some(value) = &place.value else {
            let is_wanted = place.points >= self.points_min && place.rests_until <= now;
            return if is_wanted { Looked::Wanted } else { Looked::Nothing };
        };
        if !is_named(&value.reply, name) {
            // Two keys with one hash.
            return Looked::Nothing;
        }
        let is_last = writes.is_last_acknowledged(hash, value.seen) || self.is_late;
        // Whether one that is asked about is too old its server says. It does not say what was written under the same token.
        if value.generation == generation && is_last && (self.checks || value.until > now) {
            // Its client is to read what it has written.
            if is_writing && !writes.is_same(hash, value.seen) {
                return Looked::Nothing;
            }
            let value = Arc::clone(value);
            let asks = self.checks && !self.is_unchecked;
            return if asks { Looked::Check(value) } else { Looked::Answer(value) };
        }
        self.bytes -= value.reply.capacity();
        place.value = None;
        Looked::Outdated
    }

    /// The weakest of the set loses a point, or its place.
    fn count_against(&mut self, set: usize, hash: u64) {
        let weakest =
            self.sets[set].places.iter_mut().min_by_key(|place| place.points).expect("a set has ways");
        if weakest.points > 0 {
            weakest.points -= 1;
            return;
        }
        let value = mem::replace(weakest, Place { hash, points: 1, ..Place::default() }).value;
        self.bytes -= value.map_or(0, |value| value.reply.capacity());
    }

    /// A server has replied this to a get of the key with this hash, and has `said` more of the item if it was asked. `end` belongs to the
    /// reply. Returns whether it is kept, if its key is asked for often enough and there is something in keeping it. `routes` are in force.
    pub(crate) fn keep(
        &mut self,
        hash: u64,
        (bytes, end): (&[u8], &[u8]),
        (as_of, said): (AsOf, Option<Said>),
        routes: &Routes,
        now: Instant,
    ) -> Option<bool> {
        let writes = self.writes.as_ref()?;
        if !writes.is_last_acknowledged(hash, as_of.seen) && !self.is_late {
            return None;
        }
        let (set, way) = self.hot_place_of(hash)?;
        self.drop_value_at(set, way);
        let len = bytes.len() + end.len();
        let until = self.until(as_of, said, len).filter(|until| *until > now);
        let is_kept = until.map(|_| self.has_room(len, now));
        let place = &mut self.sets[set].places[way];
        place.is_missing = false;
        let Some(until) = until.filter(|_| is_kept == Some(true)) else {
            place.rests_until = now.plus(self.age_ns);
            return is_kept;
        };
        let mut reply = Vec::with_capacity(len);
        reply.extend_from_slice(bytes);
        reply.extend_from_slice(end);
        self.bytes += reply.capacity();
        let (owner, token) = (owner_of(&reply, routes), said.map_or(0, |said| said.token));
        let losses = self.losses.of(owner);
        let AsOf { seen, generation, .. } = as_of;
        place.value = Some(Arc::new(Value { reply, seen, generation, until, owner, token, losses }));
        is_kept
    }

    /// Whether the key with this hash is asked for so often that a value of this many bytes is worth to be kept that is stored under it.
    pub(crate) fn wants_written(&self, hash: u64, bytes: usize) -> bool {
        bytes <= self.reply_bytes_max() && self.hot_place_of(hash).is_some()
    }

    /// Until when a reply of this length is worth to be kept, if it is at all.
    fn until(&self, as_of: AsOf, said: Option<Said>, len: usize) -> Option<Instant> {
        let by_age = as_of.sent.plus(self.age_ns);
        let Some(said) = said else { return Some(by_age).filter(|_| !self.checks) };
        // Two changes of an item without a token look alike.
        let cannot_be_checked = self.checks && (said.token == 0 || len < self.checked_bytes_min);
        if said.is_marked || cannot_be_checked {
            return None;
        }
        // Whether a checked one still lives is asked, too.
        let lives_ns = said.lives_ns.filter(|_| !self.checks);
        Some(lives_ns.map_or(by_age, |lives_ns| by_age.min(as_of.sent.plus(lives_ns))))
    }

    /// A longer reply is never kept.
    fn reply_bytes_max(&self) -> usize {
        REPLY_BYTES_MAX.min(self.bytes_max / PARTS)
    }

    fn has_room(&mut self, len: usize, now: Instant) -> bool {
        if len > self.reply_bytes_max() {
            return false;
        }
        if self.bytes + len > self.bytes_max {
            self.sweep(now);
        }
        self.bytes + len <= self.bytes_max
    }

    /// What its server has said of the key with this hash: it has nothing. If that is so twice in a row, it is asked for the value alone for a
    /// while: a get of a key that nobody has need not be a message of its own each time.
    pub(crate) fn note_missing(&mut self, hash: u64, now: Instant) {
        let Some((set, way)) = self.hot_place_of(hash) else { return };
        self.drop_value_at(set, way);
        let place = &mut self.sets[set].places[way];
        if mem::replace(&mut place.is_missing, true) {
            place.rests_until = now.plus(self.age_ns);
        }
    }

    fn drop_value_at(&mut self, set: usize, way: usize) {
        let old = self.sets[set].places[way].value.take();
        self.bytes -= old.map_or(0, |value| value.reply.capacity());
    }

    /// Where the key with this hash is, if it is asked for often enough.
    fn hot_place_of(&self, hash: u64) -> Option<(usize, usize)> {
        let set = (hash >> 32) as usize % self.sets.len();
        let is_hot = |place: &Place| place.hash == hash && place.points >= self.points_min;
        Some((set, self.sets[set].places.iter().position(is_hot)?))
    }

    /// Drops what is too old, but not twice within a moment.
    fn sweep(&mut self, now: Instant) {
        if now < self.swept.plus(self.age_ns / 8) {
            return;
        }
        self.swept = now;
        for place in self.sets.iter_mut().flat_map(|set| &mut set.places) {
            if let Some(value) = place.value.take_if(|value| value.until <= now) {
                self.bytes -= value.reply.capacity();
            }
        }
    }

    /// Whether the token of a value that was kept is still that of the server that is asked about it.
    pub(crate) fn may_compare(&self, value: &Value) -> bool {
        value.losses == self.losses.of(value.owner)
    }

    /// A connection to this server is lost: drops the values that it may have no more.
    pub(crate) fn lose_server(&mut self, server: Slot) {
        if !self.is_on() {
            return;
        }
        self.losses.count(server);
        for place in self.sets.iter_mut().flat_map(|set| &mut set.places) {
            if let Some(value) = place.value.take_if(|value| value.owner.is_none_or(|owner| owner == server))
            {
                self.bytes -= value.reply.capacity();
            }
        }
    }
}

impl Set {
    /// One of its keys is asked for. What was asked for long ago counts for less and less.
    fn count(&mut self) {
        self.gets = self.gets.wrapping_add(1);
        if self.gets == 0 {
            self.places.iter_mut().for_each(|place| place.points /= 2);
        }
    }
}

/// The one server of the key whose value is in this reply.
fn owner_of(reply: &[u8], routes: &Routes) -> Option<Slot> {
    let name = reply.strip_prefix(b"VALUE ")?.split(|byte| *byte == b' ').next()?;
    (!routes.replicates(name)).then(|| routes.primary(name))
}

/// Whether the value in this reply is that of the key with this name.
fn is_named(reply: &[u8], name: &[u8]) -> bool {
    let rest = reply.strip_prefix(b"VALUE ").and_then(|rest| rest.strip_prefix(name));
    rest.is_some_and(|rest| rest.first() == Some(&b' '))
}
