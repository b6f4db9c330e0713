//! The keys that were asked for most, as a value: of one sketch, or of several that are added up.
//!
//! Sketches are merged as Agarwal and others show ("Mergeable summaries", 2012): a key's counts are added, and where it has no entry in one
//! of them, it may have been named there as often as that sketch's floor says. So errors and floors add up. Of N over all, with k entries
//! each, a sum of them is still at most N/k.

use crate::meter::hot_keys::sketch::{KeyCounts, Sketch};
use std::collections::BTreeMap;
use weir_timing::Instant;

/// The keys that were asked for most in some time, as far as requests were looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopKeys {
    since: Instant,
    until: Instant,
    /// One of this many requests was looked at.
    one_in: u64,
    looked_at: u64,
    floor: u64,
    keys: BTreeMap<Box<[u8]>, KeyCounts>,
}

impl TopKeys {
    /// Of nothing yet.
    pub(crate) fn new(since: Instant, until: Instant, one_in: u64) -> Self {
        Self { since, until, one_in, looked_at: 0, floor: 0, keys: BTreeMap::new() }
    }

    /// Adds what a sketch has counted.
    pub(crate) fn add(&mut self, sketch: &Sketch) {
        self.add_all(sketch.total(), sketch.floor(), sketch.entries());
    }

    /// Adds what another event loop has counted at the same time.
    pub fn merge(&mut self, other: &Self) {
        self.since = self.since.min(other.since);
        self.until = self.until.max(other.until);
        let keys = other.keys.iter().map(|(key, counts)| (&**key, counts));
        self.add_all(other.looked_at, other.floor, keys);
    }

    fn add_all<'a>(
        &mut self,
        looked_at: u64,
        floor: u64,
        keys: impl Iterator<Item = (&'a [u8], &'a KeyCounts)>,
    ) {
        // All get the error of those that have no entry on the other side; those that have one, get it back.
        self.keys.values_mut().for_each(|mine| mine.error += floor);
        for (key, theirs) in keys {
            let Some(mine) = self.keys.get_mut(key) else {
                self.keys.insert(key.into(), KeyCounts { error: theirs.error + self.floor, ..*theirs });
                continue;
            };
            mine.reads += theirs.reads;
            mine.writes += theirs.writes;
            mine.bytes += theirs.bytes;
            mine.error = mine.error - floor + theirs.error;
        }
        self.looked_at += looked_at;
        self.floor += floor;
    }

    /// From when on requests are counted.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Until when.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// One of this many requests was looked at, chosen at random. 0: none is.
    pub fn one_in(&self) -> u64 {
        self.one_in
    }

    /// How many keys the requests named that were looked at.
    pub fn looked_at(&self) -> u64 {
        self.looked_at
    }

    /// No key that is not here was named more often in those requests.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// The hottest of them, at most this many, the hottest first: by what is certain of each.
    pub fn hottest(&self, count_max: usize) -> Vec<(&[u8], &KeyCounts)> {
        let mut keys: Vec<_> = self.keys.iter().map(|(key, counts)| (&**key, counts)).collect();
        keys.sort_by_key(|(_, counts)| std::cmp::Reverse((counts.certain(), counts.count())));
        keys.truncate(count_max);
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::hot_keys::sketch::Use;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn a_sum_of_sketches_keeps_what_each_promises(
            entries in 1_usize..12,
            streams in proptest::collection::vec(proptest::collection::vec(0_u8..24, 0..200), 1..5),
            are_summed_in_pairs: bool,
        ) {
            let mut exact: HashMap<Vec<u8>, u64> = HashMap::new();
            let mut parts = Vec::new();
            for stream in &streams {
                let mut sketch = Sketch::new(entries);
                for key in stream {
                    sketch.note(&[*key], Use::Read);
                    *exact.entry(vec![*key]).or_default() += 1;
                }
                let mut part = TopKeys::new(Instant::ZERO, Instant::ZERO, 1);
                part.add(&sketch);
                parts.push(part);
            }
            if are_summed_in_pairs && parts.len() > 2 {
                let last = parts.pop().expect("there are three");
                parts.last_mut().expect("there are two").merge(&last);
            }
            let mut sum = TopKeys::new(Instant::ZERO, Instant::ZERO, 1);
            parts.iter().for_each(|part| sum.merge(part));
            let total: u64 = exact.values().sum();
            prop_assert_eq!(sum.looked_at(), total);
            prop_assert!(sum.floor() <= total / entries as u64);
            let found: HashMap<_, _> = sum.hottest(usize::MAX).into_iter().collect();
            for (key, counts) in &found {
                let truth = exact[*key];
                prop_assert!(counts.reads <= truth && truth <= counts.count(), "{:?}, {}", counts, truth);
                prop_assert!(counts.error <= sum.floor());
            }
            for (key, truth) in &exact {
                prop_assert!(found.contains_key(key.as_slice()) || *truth <= sum.floor());
            }
        }
    }

    #[test]
    fn the_hottest_come_first() {
        let mut sketch = Sketch::new(2);
        for key in ["a", "b", "b", "c"] {
            sketch.note(key.as_bytes(), Use::Read);
        }
        let mut top = TopKeys::new(Instant::ZERO, Instant::from_nanos(5), 64);
        top.add(&sketch);
        let hottest = top.hottest(usize::MAX);
        // Of `c` one is certain, and one may have been that of `a`.
        let counts = hottest.iter().map(|(key, it)| (*key, it.reads, it.error)).collect::<Vec<_>>();
        assert_eq!(counts, [(b"b".as_slice(), 2, 0), (b"c".as_slice(), 1, 1)]);
        assert_eq!((top.hottest(1).len(), top.floor(), top.looked_at(), top.one_in()), (1, 2, 4, 64));
    }
}
