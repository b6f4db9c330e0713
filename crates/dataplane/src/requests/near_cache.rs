//! Values of the keys that are asked for most, kept in the loop (`--near-cache`).
//!
//! ```text
//!   get a ──▶ nothing is kept ──▶ server ──▶ VALUE a … ──▶ client      and kept, if a is asked for often
//!   get a ──▶ kept, and nobody has begun to write a since ──────────▶ client
//! ```
//!
//! A value is kept with what had been written of its key when its get was sent (`replication/key_writes.rs`), and while no write was under
//! way. It is an answer as long as no write of the key has begun since, in any loop, by the same table of servers. So a get is answered what
//! it would have been answered by the server. Nothing has to be invalidated: a count that has changed makes the value worthless, and it has
//! changed before anything of the write is sent.
//!
//! What comes to the servers past this process changes no count, and neither does the end of an item's time. So no value is an answer for
//! longer than its age allows.
//!
//! Which keys are asked for most is judged in each set of places by itself. A get of its key is a point for a place. A get of another key is
//! a point less for the weakest of the set, and who has none left is replaced (after Misra and Gries, *Finding repeated elements*, 1982).
//!
//! [`NearCache`] owns the values. It learns which keys are asked for, and what was replied. It answers gets.

use crate::{
    Mutation,
    config::Config,
    replication::{
        freshness::Freshness,
        key_writes::{KeyWrites, Seen},
    },
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
    /// When it was last looked for values that are too old.
    swept: Instant,
    is_late: bool,
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
    value: Option<Value>,
}

#[derive(Debug)]
struct Value {
    /// As a server replies it to `get`, with its end.
    reply: Vec<u8>,
    as_of: AsOf,
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

/// A value that is an answer. It is to be given back.
#[derive(Debug)]
pub(crate) struct Near {
    pub(super) reply: Vec<u8>,
    as_of: AsOf,
    at: (usize, usize),
}

/// What was found.
#[derive(Debug)]
pub(crate) enum Looked {
    Found(Near),
    /// It was written since, or is too old.
    Outdated,
    Nothing,
}

const WAYS: usize = 4;

/// A key with fewer points is not asked for often enough.
const POINTS_MIN: u8 = 3;

/// None has more. All are halved with each 256 gets of a set's keys, so one that is asked for no more loses its place after a thousand.
const POINTS_MAX: u8 = 15;

/// No reply takes more than this part of all, nor more than this: one turn may copy it to many clients.
const PARTS: usize = 16;
const REPLY_BYTES_MAX: usize = 64 << 10;

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
            is_late: config.is_without(Mutation::NearOverWrites),
            ..Self::default()
        }
    }

    /// Whether values are kept.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.writes.is_some()
    }

    /// A get asks for the key with this name and hash, by the table with this number.
    pub(crate) fn look(&mut self, (name, hash): (&[u8], u64), generation: u64, now: Instant) -> Looked {
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
        let is_same = |value: &Value| {
            let as_of = value.as_of;
            (writes.is_same(hash, as_of.seen) || self.is_late)
                && as_of.generation == generation
                && as_of.sent.plus(self.age_ns) > now
        };
        match place.value.take() {
            Some(Value { reply, as_of }) if is_named(&reply, name) => {
                let value = Value { reply, as_of };
                if is_same(&value) {
                    return Looked::Found(Near { reply: value.reply, as_of, at: (set, way) });
                }
                self.bytes -= value.reply.capacity();
                Looked::Outdated
            }
            // Two keys with one hash.
            Some(value) => {
                place.value = Some(value);
                Looked::Nothing
            }
            None => Looked::Nothing,
        }
    }

    /// The weakest of the set loses a point, or its place.
    fn count_against(&mut self, set: usize, hash: u64) {
        let weakest =
            self.sets[set].places.iter_mut().min_by_key(|place| place.points).expect("a set has ways");
        if weakest.points > 0 {
            weakest.points -= 1;
            return;
        }
        let value = mem::replace(weakest, Place { hash, points: 1, value: None }).value;
        self.bytes -= value.map_or(0, |value| value.reply.capacity());
    }

    /// The value has been an answer.
    pub(crate) fn give_back(&mut self, near: Near) {
        let Near { reply, as_of, at: (set, way) } = near;
        self.sets[set].places[way].value = Some(Value { reply, as_of });
    }

    /// A server has replied this to a get of the key with this hash; `end` belongs to it. Returns whether it is kept, if its key is asked for
    /// often enough.
    pub(crate) fn keep(
        &mut self,
        hash: u64,
        (bytes, end): (&[u8], &[u8]),
        as_of: AsOf,
        now: Instant,
    ) -> Option<bool> {
        let writes = self.writes.as_ref()?;
        if !writes.is_same(hash, as_of.seen) && !self.is_late {
            return None;
        }
        let set = (hash >> 32) as usize % self.sets.len();
        let is_hot = |place: &Place| place.hash == hash && place.points >= POINTS_MIN;
        let way = self.sets[set].places.iter().position(is_hot)?;
        let len = bytes.len() + end.len();
        let old = self.sets[set].places[way].value.take();
        self.bytes -= old.as_ref().map_or(0, |value| value.reply.capacity());
        if len > REPLY_BYTES_MAX.min(self.bytes_max / PARTS) {
            return Some(false);
        }
        if self.bytes + len > self.bytes_max {
            self.sweep(now);
        }
        if self.bytes + len > self.bytes_max {
            return Some(false);
        }
        let mut reply = Vec::with_capacity(len);
        reply.extend_from_slice(bytes);
        reply.extend_from_slice(end);
        self.bytes += reply.capacity();
        self.sets[set].places[way].value = Some(Value { reply, as_of });
        Some(true)
    }

    /// Drops what is too old, but not twice within a moment.
    fn sweep(&mut self, now: Instant) {
        if now < self.swept.plus(self.age_ns / 8) {
            return;
        }
        self.swept = now;
        let age_ns = self.age_ns;
        for place in self.sets.iter_mut().flat_map(|set| &mut set.places) {
            if let Some(value) = place.value.take_if(|value| value.as_of.sent.plus(age_ns) <= now) {
                self.bytes -= value.reply.capacity();
            }
        }
    }

    /// Drops all values: servers may have others.
    pub(crate) fn clear(&mut self) {
        self.sets.iter_mut().flat_map(|set| &mut set.places).for_each(|place| place.value = None);
        self.bytes = 0;
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

/// Whether the value in this reply is that of the key with this name.
fn is_named(reply: &[u8], name: &[u8]) -> bool {
    let rest = reply.strip_prefix(b"VALUE ").and_then(|rest| rest.strip_prefix(name));
    rest.is_some_and(|rest| rest.first() == Some(&b' '))
}
