//! Which keys are asked for most, in bounded memory: the Space-Saving sketch of Metwally, Agrawal and El Abbadi ("Efficient computation of
//! frequent and top-k elements in data streams", 2005, section 3).
//!
//! ```text
//!   the hottest first                            a key that is there   counts one more, before all that had as many
//!   ┌──────┬──────┬──────┬───┬─────┐             a key that is not     gets the last entry, with its count as error:
//!   │ a 40 │ b 12 │ c 12 │ … │ z 3 │                                   z is gone, and y has 3 + 1, of which 3 may be others'
//!   └──────┴──────┴──────┴───┴─────┘
//! ```
//!
//! Of a stream of N, with k entries: a count is never less than the truth, and never more than the truth and its error. No error is above N/k,
//! so whatever came more than N/k times has an entry. That holds for any stream, in any order: nobody can push a key out by sending others.
//!
//! An update costs, at worst: k numbers are compared, 32 bits each and several at a time, then at most 250 bytes of key, and log₂ k counts. No
//! update takes memory: all of it, about 320 bytes an entry, is there from the beginning.

use crate::wire::hash::hash;
use weir_protocol::KEY_BYTES_MAX;

/// What is known of one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCounts {
    /// How many of the requests that were looked at read it.
    pub reads: u64,
    /// How many of them wrote it.
    pub writes: u64,
    /// Bytes of its values, in those requests and their replies.
    pub bytes: u64,
    /// How many more may have named it, before it had an entry: at most.
    pub error: u64,
}

impl KeyCounts {
    /// How many named it, at most.
    pub fn count(&self) -> u64 {
        self.certain() + self.error
    }

    /// How many named it, at least.
    pub fn certain(&self) -> u64 {
        self.reads + self.writes
    }
}

/// What a request does to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    Read,
    /// With a value of this many bytes.
    Write(usize),
}

/// An entry, for as long as its key has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryId(u64);

#[derive(Debug)]
struct Entry {
    id: EntryId,
    /// Where its key stands: the number of its cell, and its length there.
    cell: usize,
    key_len: usize,
    counts: KeyCounts,
}

/// Keys, and how often each was asked for.
#[derive(Debug)]
pub(crate) struct Sketch {
    entries_max: usize,
    /// The hottest first.
    entries: Vec<Entry>,
    /// Of each entry the upper half of its key's hash, in the same order.
    tags: Vec<u32>,
    /// The keys, in cells of [`KEY_BYTES_MAX`].
    cells: Vec<u8>,
    total: u64,
    last_id: u64,
}

/// How many tags are compared before it is asked whether one was found.
const TAGS_AT_ONCE: usize = 16;

impl Sketch {
    /// With this many entries.
    pub(crate) fn new(entries_max: usize) -> Self {
        Self {
            entries_max,
            entries: Vec::with_capacity(entries_max),
            tags: Vec::with_capacity(entries_max),
            cells: vec![0; entries_max * KEY_BYTES_MAX],
            total: 0,
            last_id: 0,
        }
    }

    /// Forgets all keys. From now on each number of an entry is above `first_id`.
    pub(crate) fn begin(&mut self, first_id: u64) {
        self.last_id = first_id;
        self.entries.clear();
        self.tags.clear();
        self.total = 0;
    }

    /// A request has named this key. Protocols allow none that is longer than [`KEY_BYTES_MAX`]; it would be cut there.
    pub(crate) fn note(&mut self, key: &[u8], used: Use) -> Option<EntryId> {
        let key = &key[..key.len().min(KEY_BYTES_MAX)];
        if self.entries_max == 0 {
            return None;
        }
        let tag = tag_of(key);
        self.total += 1;
        let place = self.place_of(key, tag).unwrap_or_else(|| self.admit(key, tag));
        let place = self.move_before_equals(place);
        let Entry { counts, id, .. } = &mut self.entries[place];
        match used {
            Use::Read => counts.reads += 1,
            Use::Write(bytes) => {
                counts.writes += 1;
                counts.bytes += bytes as u64;
            }
        }
        Some(*id)
    }

    /// Requests have read this key this number of times.
    pub(crate) fn note_reads(&mut self, key: &[u8], times: u64) {
        let key = &key[..key.len().min(KEY_BYTES_MAX)];
        if self.entries_max == 0 {
            return;
        }
        let tag = tag_of(key);
        self.total += times;
        let place = self.place_of(key, tag).unwrap_or_else(|| self.admit(key, tag));
        self.entries[place].counts.reads += times;
        let count = self.entries[place].counts.count();
        let first = self.entries[..place].partition_point(|entry| entry.counts.count() >= count);
        self.entries[first..=place].rotate_right(1);
        self.tags[first..=place].rotate_right(1);
    }

    /// Requests have named this many keys that are not looked at.
    pub(crate) fn leave_out(&mut self, count: u64) {
        self.total += count;
    }

    /// A value of this key was returned.
    pub(crate) fn add_bytes(&mut self, key: &[u8], bytes: usize) {
        if let Some(place) = self.place_of(key, tag_of(key)) {
            self.entries[place].counts.bytes += bytes as u64;
        }
    }

    /// A value of the key that has this entry was returned. Returns whether one has it still.
    pub(crate) fn add_bytes_to(&mut self, id: EntryId, bytes: usize) -> bool {
        let entry = self.entries.iter_mut().find(|entry| entry.id == id);
        let is_there = entry.is_some();
        if let Some(entry) = entry {
            entry.counts.bytes += bytes as u64;
        }
        is_there
    }

    /// How many keys were named, each as often as it was.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// No key without an entry was named more often.
    pub(crate) fn floor(&self) -> u64 {
        let is_full = self.entries.len() == self.entries_max;
        self.entries.last().filter(|_| is_full).map_or(0, |last| last.counts.count())
    }

    /// The keys that have entries, the hottest first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&[u8], &KeyCounts)> {
        self.entries.iter().map(|entry| (self.key_of(entry), &entry.counts))
    }

    /// The number of the entry that came last.
    pub(crate) fn last_id(&self) -> u64 {
        self.last_id
    }

    fn key_of(&self, entry: &Entry) -> &[u8] {
        let start = entry.cell * KEY_BYTES_MAX;
        &self.cells[start..start + entry.key_len]
    }

    fn place_of(&self, key: &[u8], tag: u32) -> Option<usize> {
        for (number, tags) in self.tags.chunks(TAGS_AT_ONCE).enumerate() {
            // Without a branch for each, so that the compiler compares several at a time.
            if tags.iter().fold(false, |found, it| found | (*it == tag)) {
                let first = number * TAGS_AT_ONCE;
                let mut places = (first..).zip(tags).filter(|(_, it)| **it == tag).map(|(place, _)| place);
                let found = places.find(|place| self.key_of(&self.entries[*place]) == key);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    /// Gives the key an entry: a free one, or the last. Returns its place.
    fn admit(&mut self, key: &[u8], tag: u32) -> usize {
        self.last_id += 1;
        let id = EntryId(self.last_id);
        let place = if self.entries.len() < self.entries_max {
            let cell = self.entries.len();
            self.entries.push(Entry { id, cell, key_len: 0, counts: KeyCounts::default() });
            self.tags.push(tag);
            cell
        } else {
            self.entries_max - 1
        };
        self.tags[place] = tag;
        let entry = &mut self.entries[place];
        entry.id = id;
        entry.counts = KeyCounts { error: entry.counts.count(), ..KeyCounts::default() };
        entry.key_len = key.len();
        let start = entry.cell * KEY_BYTES_MAX;
        self.cells[start..start + key.len()].copy_from_slice(key);
        place
    }

    /// Moves an entry before all that have as many, so that it may count one more. Returns its new place.
    fn move_before_equals(&mut self, place: usize) -> usize {
        let count = self.entries[place].counts.count();
        let first = self.entries[..place].partition_point(|entry| entry.counts.count() > count);
        self.entries.swap(first, place);
        self.tags.swap(first, place);
        first
    }
}

fn tag_of(key: &[u8]) -> u32 {
    (hash(key) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// A sketch of `entries` that has seen this stream, and the exact counts.
    fn sketch_of(entries: usize, stream: &[u32]) -> (Sketch, HashMap<Vec<u8>, u64>) {
        let (mut sketch, mut exact) = (Sketch::new(entries), HashMap::new());
        for (number, key) in stream.iter().enumerate() {
            let key = format!("key:{key}").into_bytes();
            sketch.note(&key, if number % 3 == 0 { Use::Write(5) } else { Use::Read });
            *exact.entry(key).or_default() += 1;
        }
        (sketch, exact)
    }

    fn check(entries: usize, stream: &[u32]) {
        let (sketch, exact) = sketch_of(entries, stream);
        let bound = stream.len() as u64 / entries as u64;
        assert_eq!(sketch.total(), stream.len() as u64);
        assert!(sketch.floor() <= bound, "{} is above N/k = {bound}", sketch.floor());
        let found: HashMap<_, _> = sketch.entries().collect();
        assert_eq!(found.len(), exact.len().min(entries), "each key has one entry");
        for (key, counts) in &found {
            let truth = exact[*key];
            assert!(counts.reads + counts.writes <= truth && truth <= counts.count(), "{counts:?}, {truth}");
            assert!(counts.error <= bound, "{counts:?} has an error above N/k = {bound}");
            assert_eq!(counts.bytes, 5 * counts.writes);
        }
        for (key, &truth) in &exact {
            assert!(found.contains_key(key.as_slice()) || truth <= sketch.floor(), "{truth} were forgotten");
        }
        let counts: Vec<_> = sketch.entries().map(|(_, it)| it.count()).collect();
        assert!(counts.is_sorted_by(|one, next| one >= next), "{counts:?}");
        // Each of the stream counts in one entry.
        assert_eq!(counts.iter().sum::<u64>(), sketch.total());
    }

    /// The same promises where keys are named several times at once, and some are left out.
    fn check_several(entries: usize, stream: &[(u32, u64)], left_out: u64) {
        let (mut sketch, mut exact) = (Sketch::new(entries), HashMap::<Vec<u8>, u64>::new());
        for (key, times) in stream {
            let key = format!("key:{key}").into_bytes();
            match times {
                1 => _ = sketch.note(&key, Use::Read),
                _ => sketch.note_reads(&key, *times),
            }
            *exact.entry(key).or_default() += times;
        }
        let counted: u64 = exact.values().sum();
        sketch.leave_out(left_out);
        assert_eq!(sketch.total(), counted + left_out);
        assert!(sketch.floor() <= counted / entries as u64);
        let found: HashMap<_, _> = sketch.entries().collect();
        assert_eq!(found.len(), exact.len().min(entries), "each key has one entry");
        for (key, counts) in &found {
            let truth = exact[*key];
            assert!(counts.reads <= truth && truth <= counts.count(), "{counts:?}, {truth}");
            assert!(counts.error <= counted / entries as u64, "{counts:?}");
        }
        for (key, &truth) in &exact {
            assert!(found.contains_key(key.as_slice()) || truth <= sketch.floor(), "{truth} were forgotten");
        }
        let counts: Vec<_> = sketch.entries().map(|(_, it)| it.count()).collect();
        assert!(counts.is_sorted_by(|one, next| one >= next), "{counts:?}");
        assert_eq!(counts.iter().sum::<u64>(), counted);
    }

    /// Popularity that falls with the rank as Zipf's law says, by inversion of its continuous form.
    fn zipf(seed: u64, len: usize) -> Vec<u32> {
        let mut random = seed.wrapping_mul(2).wrapping_add(1);
        let mut draw = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 11) as f64 / (1_u64 << 53) as f64
        };
        (0..len).map(|_| 10_000_f64.powf(draw()) as u32).collect()
    }

    proptest! {
        #[test]
        fn what_is_promised_holds_for_any_stream(
            entries in 1_usize..40,
            stream in proptest::collection::vec(0_u32..60, 0..600),
        ) {
            check(entries, &stream);
        }

        #[test]
        fn it_holds_where_keys_are_named_several_times_at_once(
            entries in 1_usize..40,
            stream in proptest::collection::vec((0_u32..60, 1_u64..17), 0..600),
            left_out in 0_u64..1000,
        ) {
            check_several(entries, &stream, left_out);
        }

        #[test]
        fn it_holds_for_popularity_as_in_caches(entries in 1_usize..300, seed: u64, len in 0_usize..5_000) {
            check(entries, &zipf(seed, len));
        }
    }

    #[test]
    fn whoever_sends_2_to_the_20_other_keys_evicts_no_hot_one() {
        // One in 200 is the hot key, which is above 1/256: it has an entry whatever the others are, and in whatever order they come.
        let mut sketch = Sketch::new(256);
        let mut truth = 0;
        for other in 0..1_u32 << 20 {
            sketch.note(&other.to_be_bytes(), Use::Read);
            if other % 199 == 0 {
                sketch.note(b"hot", Use::Read);
                truth += 1;
                // It is not evicted in between either, once the stream is long enough for the bound to say so.
                assert!(truth <= sketch.floor() || sketch.entries().any(|(key, _)| key == b"hot"));
            }
        }
        let (_, counts) = sketch.entries().find(|(key, _)| *key == b"hot").expect("it has an entry");
        assert!(counts.reads <= truth && truth <= counts.count(), "{counts:?}, {truth}");
        assert!(counts.error <= sketch.total() / 256 && truth > sketch.floor());
    }

    #[test]
    fn others_that_come_after_the_hot_one_are_no_hotter() {
        let hot = std::iter::repeat_n(0, 300);
        check(256, &hot.chain(1..1 << 15).collect::<Vec<_>>());
    }

    #[test]
    fn keys_of_one_tag_are_distinguished_and_any_bytes_are_a_key() {
        let mut sketch = Sketch::new(4);
        for key in [b"\0\xff\r\n".as_slice(), b"\0\xff\r", b"", &[b'k'; 250]] {
            sketch.note(key, Use::Read);
        }
        // As if all hashes were the same.
        sketch.tags.fill(7);
        let places: Vec<_> = [b"\0\xff\r\n".as_slice(), b"\0\xff\r", b"", &[b'k'; 250]]
            .map(|key| sketch.place_of(key, 7))
            .into();
        assert_eq!(places, [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!(sketch.place_of(b"other", 7), None);
    }

    #[test]
    fn bytes_come_to_the_entry_of_their_key_as_long_as_it_has_one() {
        let mut sketch = Sketch::new(1);
        sketch.begin(10);
        let first = sketch.note(b"a", Use::Read).unwrap();
        assert!(sketch.add_bytes_to(first, 7));
        sketch.add_bytes(b"a", 3);
        sketch.add_bytes(b"b", 100);
        assert_eq!(sketch.entries().next().unwrap().1.bytes, 10);
        sketch.note(b"b", Use::Write(2));
        assert!(!sketch.add_bytes_to(first, 7), "the entry is another key's");
        let counts = KeyCounts { reads: 0, writes: 1, bytes: 2, error: 1 };
        assert_eq!(sketch.entries().collect::<Vec<_>>(), [(b"b".as_slice(), &counts)]);
        assert_eq!(sketch.last_id(), 12);
        assert_eq!(Sketch::new(0).note(b"a", Use::Read), None);
    }
}
