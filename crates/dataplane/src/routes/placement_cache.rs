//! Where keys went that were asked for lately: for placements by MD5, which takes longer than all else that is done about where a key goes.
//!
//! ```text
//!   key ──a cheap hash──▶ one place ─┬─ the key stands there ──▶ its server
//!                                    └─ another, or none ──────▶ its server is found, and the key takes the place
//! ```
//!
//! [`PlacementCache`] owns its places, of which there is a fixed number. It is given a key and who knows where it goes, and answers what that
//! one would say. Keys are compared whole, so the cheap hash decides only which keys displace each other. A client that knows the seed can
//! make its keys displace others: these are then found as if there were no cache.

use crate::wire::ids::Slot;

/// See above.
#[derive(Debug)]
pub(crate) struct PlacementCache {
    /// [`PLACES`], or none while nothing is to be remembered.
    places: Vec<Place>,
    /// What the hash begins with.
    seed: u64,
    is_used: bool,
}

/// A key, and its server. One line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Place {
    server: Slot,
    /// 0: no key stands here.
    len: u8,
    key: [u8; KEY_BYTES_MAX],
}

/// How many keys are remembered at most: half a MiB, which most processors keep near.
const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 13;

/// Longer keys are not remembered.
const KEY_BYTES_MAX: usize = 61;

const _: () = assert!(size_of::<Place>() == 64, "a key is compared within one line of the cache");

impl Place {
    const EMPTY: Self = Self { server: Slot::FIRST, len: 0, key: [0; KEY_BYTES_MAX] };

    #[inline]
    fn has(&self, key: &[u8]) -> bool {
        usize::from(self.len) == key.len() && self.key[..key.len()] == *key
    }
}

impl PlacementCache {
    /// Remembers nothing. `seed`: what the hash begins with.
    pub(crate) const fn new(seed: u64) -> Self {
        Self { places: Vec::new(), seed, is_used: false }
    }

    /// Forgets all. `is_used`: whether keys are to be remembered from now on.
    pub(crate) fn empty(&mut self, is_used: bool) {
        self.is_used = is_used;
        self.places = Vec::new();
    }

    /// What `ask` says of the key, which is asked if the key is not remembered.
    // As a call of its own it costs every request some twenty instructions.
    #[inline(always)]
    pub(crate) fn find(&mut self, key: &[u8], ask: impl FnOnce(&[u8]) -> Slot) -> Slot {
        if !(1..=KEY_BYTES_MAX).contains(&key.len()) {
            return ask(key);
        }
        let number = (hash(key, self.seed) >> (u64::BITS - PLACE_BITS)) as usize;
        match self.places.get(number) {
            Some(place) if place.has(key) => place.server,
            _ => {
                let server = ask(key);
                self.remember(number, key, server);
                server
            }
        }
    }

    #[inline(never)]
    fn remember(&mut self, number: usize, key: &[u8], server: Slot) {
        if !self.is_used {
            return;
        }
        if self.places.is_empty() {
            self.places = vec![Place::EMPTY; PLACES];
        }
        let place = &mut self.places[number];
        (place.server, place.len) = (server, key.len() as u8);
        place.key[..key.len()].copy_from_slice(key);
    }
}

/// Spreads keys over the upper bits: eight bytes after the other are mixed by a multiplication of which both halves are kept. The last
/// eight may have been among those before.
#[inline]
fn hash(key: &[u8], seed: u64) -> u64 {
    let (words, _) = key.as_chunks();
    let last = key.last_chunk().map_or_else(|| short_word(key), |last| u64::from_le_bytes(*last));
    let hash = words.iter().fold(seed ^ key.len() as u64, |hash, word| mix(hash ^ u64::from_le_bytes(*word)));
    mix(hash ^ last)
}

/// Both halves of the product with the golden ratio (Knuth, The Art of Computer Programming, volume 3, 6.4).
#[inline]
const fn mix(word: u64) -> u64 {
    let product = word as u128 * 0x9e37_79b9_7f4a_7c15;
    product as u64 ^ (product >> 64) as u64
}

/// Fewer than eight bytes.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const SEED: u64 = 7;

    fn slot(number: usize) -> Slot {
        Slot::from_index(number)
    }

    fn used() -> PlacementCache {
        let mut cache = PlacementCache::new(SEED);
        cache.empty(true);
        cache
    }

    fn place_of(key: &str) -> u64 {
        hash(key.as_bytes(), SEED) >> (u64::BITS - PLACE_BITS)
    }

    #[test]
    fn who_knows_is_asked_once() {
        let mut cache = used();
        for key in ["k", "1234567", "12345678", "123456789", "key:000000000001"] {
            assert_eq!(cache.find(key.as_bytes(), |_| slot(3)), slot(3));
            assert_eq!(cache.find(key.as_bytes(), |_| panic!("{key} is remembered")), slot(3));
        }
        cache.empty(true);
        assert_eq!(cache.find(b"k", |_| slot(4)), slot(4));
    }

    #[test]
    fn keys_that_displace_each_other_are_not_mixed_up() {
        let first = "key:0";
        let others: Vec<_> = (1..).map(|number| format!("key:{number}")).take(100_000).collect();
        let other = others.iter().find(|key| place_of(key) == place_of(first)).expect("there are few places");
        let mut cache = used();
        for _ in 0..2 {
            assert_eq!(cache.find(first.as_bytes(), |_| slot(1)), slot(1));
            assert_eq!(cache.find(other.as_bytes(), |_| slot(2)), slot(2));
        }
    }

    #[test]
    fn neither_beginnings_nor_long_keys_are_taken_for_others() {
        let mut cache = used();
        let long = [b'k'; KEY_BYTES_MAX + 1];
        for len in (1..=long.len()).chain((1..=long.len()).rev()) {
            assert_eq!(cache.find(&long[..len], |key| slot(key.len())), slot(len));
        }
        let mut asked = 0;
        for _ in 0..2 {
            cache.find(&long, |_| {
                asked += 1;
                slot(0)
            });
        }
        assert_eq!(asked, 2);
    }

    #[test]
    fn nothing_is_kept_where_asking_is_cheap() {
        let mut cache = PlacementCache::new(SEED);
        cache.empty(false);
        let mut asked = 0;
        for _ in 0..2 {
            cache.find(b"k", |_| {
                asked += 1;
                slot(0)
            });
        }
        assert_eq!((asked, cache.places.capacity()), (2, 0));
    }

    #[test]
    fn keys_that_differ_in_a_number_are_spread() {
        for width in [1, 12, 30] {
            let places: HashSet<_> =
                (0..PLACES).map(|number| place_of(&format!("key:{number:0width$}"))).collect();
            // As many as if they fell at random: all but one in e.
            assert!(places.len() > PLACES * 6 / 10, "{width}: {}", places.len());
        }
    }
}
