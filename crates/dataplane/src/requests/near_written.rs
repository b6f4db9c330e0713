//! What clients store under keys that are asked for most is kept as if it had been asked for (`near_cache.rs`).
//!
//! ```text
//!   set a ──▶ wanted: its value is noted ──▶ server ──▶ STORED ──▶ kept, if no other loop has written a meanwhile
//! ```
//!
//! Without it, every write of a key that everybody wants would have its value asked for anew, and a key of which some write is always under
//! way would never be kept. A loop sends the writes of a key over one connection, and memcached carries them out in that order. So when the
//! last of them that was answered is this one, the server holds what it has stored, or what one stores that has no answer yet. A write of
//! another loop, or one that went another way (a large value, a `gat`, a `flush_all`), may have come before or behind it: if any was under
//! way, nothing is kept.
//!
//! [`NearWritten`] owns the values that are under way, and the counts of the loop's own writes.

use crate::{
    Mutation, NearCheck,
    config::Config,
    memory::buffer::beyond_idle,
    replication::freshness::Freshness,
    replication::key_writes::{COUNTS, KeyWrites, Others, Own, Written, place_of},
    requests::near_cache::{AsOf, NearCache, Said},
    routes::Routes,
    wire::hash::hash,
    wire::ids::RequestKey,
};
use std::sync::Arc;
use weir_protocol::{Storage, StorageVerb};
use weir_timing::Instant;

/// What is under way.
#[derive(Debug, Default)]
pub(crate) struct NearWritten {
    /// `None`: nothing is kept.
    writes: Option<Arc<KeyWrites>>,
    /// The loop's own writes, by the same counts.
    own: Box<[Own]>,
    /// By request.
    stored: Vec<Option<Box<Stored>>>,
    /// What the replies in it take.
    kept_bytes: usize,
    is_blind: bool,
}

/// What a client stores.
#[derive(Debug)]
struct Stored {
    hash: u64,
    /// As its server will reply it to `get`; `None`: there was no room for it.
    reply: Option<Vec<u8>>,
    lives_ns: Option<u64>,
    others: Others,
    generation: u64,
    sent: Instant,
}

/// memcached takes a longer time to live for a date (protocol.txt, "Expiration times"). Seconds.
const LIVES_S_MAX: u64 = 60 * 60 * 24 * 30;

impl NearWritten {
    pub(crate) fn new(config: &Config, freshness: &Freshness) -> Self {
        // Of what is stored no token is known, and values that are checked need one.
        if config.near_cache_entries == 0 || config.near_cache_check == NearCheck::On {
            return Self::default();
        }
        Self {
            writes: Some(freshness.key_writes()),
            own: vec![Own::default(); COUNTS].into(),
            stored: Vec::new(),
            kept_bytes: 0,
            is_blind: config.is_without(Mutation::NearOtherWrites),
        }
    }

    /// A write of one key is about to be sent over its server's connection for all writes. `storage`: what it stores, if that is all it does.
    /// `is_scarce`: no value is to be copied. Returns whether it is counted, for [`Self::end`].
    #[cold]
    pub(crate) fn begin(
        &mut self,
        near_cache: &NearCache,
        (key, written): (RequestKey, Written),
        storage: Option<&Storage<'_>>,
        (generation, is_scarce, now): (u64, bool, Instant),
    ) -> bool {
        let (Some(writes), Written::Key(lower)) = (&self.writes, written) else { return false };
        let own = &mut self.own[place_of(lower.into())];
        own.begin();
        let Some(storage) = storage.filter(|it| it.verb == StorageVerb::Set) else { return true };
        let hash = hash(storage.key);
        if !near_cache.wants_written(hash, storage.value.len()) {
            return true;
        }
        let others = writes.others(hash, *own);
        let Some((lives_ns, others)) = lives_ns(storage.exptime).zip(others) else { return true };
        let Some(flags) = flags(storage) else { return true };
        let reply = (!is_scarce).then(|| reply_to_get(storage, flags));
        self.kept_bytes += reply.as_ref().map_or(0, kept);
        if self.stored.len() <= key.index() {
            self.stored.resize_with(key.index() + 1, || None);
        }
        self.stored[key.index()] =
            Some(Box::new(Stored { hash, reply, lives_ns, others, generation, sent: now }));
        true
    }

    /// It has ended, and is counted so by all loops. `is_stored`: its server has said so, while these routes are in force, with this number.
    #[cold]
    pub(crate) fn end(
        &mut self,
        near_cache: &mut NearCache,
        (key, written): (RequestKey, Written),
        is_stored: bool,
        (routes, generation): (&Routes, u64),
        now: Instant,
    ) -> Option<bool> {
        let (Some(writes), Written::Key(lower)) = (&self.writes, written) else { return None };
        let own = &mut self.own[place_of(lower.into())];
        own.end();
        let it = self.stored.get_mut(key.index())?.take()?;
        self.kept_bytes -= it.reply.as_ref().map_or(0, kept);
        if !is_stored || it.generation != generation {
            return None;
        }
        let Some(reply) = it.reply else { return Some(false) };
        let seen = match writes.look_behind(it.hash, *own, it.others, now) {
            None if self.is_blind => writes.look(it.hash, now)?,
            seen => seen?,
        };
        let as_of = AsOf { seen, generation, sent: it.sent };
        near_cache.keep(it.hash, (&reply, b""), (as_of, Some(Said::stored(it.lives_ns))), routes, now)
    }

    /// What the values take that are under way, but for short ones.
    pub(crate) const fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Nothing is under way: frees memory that is kept to be used again.
    pub(crate) fn give_memory_back(&mut self) {
        self.stored = Vec::new();
    }
}

/// How long an item with this expiry time lives at least, `None` in it being for ever. Nothing if it ends at a date, at once, or never was
/// a number. A second less than it says: memcached's clock has whole seconds.
fn lives_ns(exptime: &[u8]) -> Option<Option<u64>> {
    match number(exptime)? {
        0 => Some(None),
        lives_s @ 2..=LIVES_S_MAX => Some(Some((lives_s - 1) * 1_000_000_000)),
        _ => None,
    }
}

/// `VALUE <key> <flags> <bytes>` as memcached writes it (protocol.txt, "Retrieval command"), the value and `END`.
fn reply_to_get(storage: &Storage<'_>, flags: u32) -> Vec<u8> {
    let numbers = format!(" {flags} {}\r\n", storage.value.len());
    [b"VALUE ", storage.key, numbers.as_bytes(), storage.value, b"\r\nEND\r\n"].concat()
}

/// Its flags, if they are a number.
fn flags(storage: &Storage<'_>) -> Option<u32> {
    u32::try_from(number(storage.flags)?).ok()
}

/// What counts of a reply that is kept.
fn kept(reply: &Vec<u8>) -> usize {
    beyond_idle(reply.capacity())
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_to_be_kept_is_not_copied() {
        let (config, freshness) =
            (Config { near_cache_entries: 4, ..Config::default() }, Freshness::default());
        let (mut near_cache, mut near_written) =
            (NearCache::new(&config, &freshness), NearWritten::new(&config, &freshness));
        let (hash, request, now) = (hash(b"a"), RequestKey::from_index(7), Instant::ZERO);
        for _ in 0..config.near_cache_points_min {
            _ = near_cache.look((b"a", hash), (0, false), now);
        }
        for (bytes, is_copied) in [((64 << 10) + 1, false), (100, true)] {
            let value = vec![b'x'; bytes];
            let storage = Storage {
                verb: StorageVerb::Set,
                key: b"a",
                flags: b"0",
                exptime: b"0",
                cas: b"",
                noreply: false,
                value: &value,
            };
            let written = (request, freshness.key_writes().begin(hash));
            let is_counted = near_written.begin(&near_cache, written, Some(&storage), (0, false, now));
            assert!(is_counted, "it counts");
            let copied = near_written.stored.get(request.index()).is_some_and(Option::is_some);
            assert_eq!(copied, is_copied, "{bytes} bytes");
        }
        near_written.give_memory_back();
        assert_eq!(near_written.stored.capacity(), 0);
    }

    #[test]
    fn times_to_live_are_known_or_nothing_is_kept() {
        assert_eq!(lives_ns(b"0"), Some(None));
        assert_eq!(lives_ns(b"30"), Some(Some(29_000_000_000)));
        assert_eq!(lives_ns(b"2592000"), Some(Some(2_591_999_000_000_000)));
        for unknown in ["1", "2592001", "-1", "1900000000", "", "x"] {
            assert_eq!(lives_ns(unknown.as_bytes()), None, "{unknown}");
        }
    }
}
