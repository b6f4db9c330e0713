//! Which versions of each key have been written, and which of these were acknowledged.

use std::sync::atomic::{AtomicU64, Ordering};

/// The last version issued for each key, shared by all threads.
///
/// A version is the run's number in the upper 24 bits and a count from 1 in the lower 40. So values of another run are distinguished from
/// versions that nobody can have written. That run may be an earlier one, or one at the same time on the same keys.
#[derive(Debug)]
pub(crate) struct Versions {
    run: u64,
    issued: Vec<AtomicU64>,
    /// The count of the last write acknowledged, where each key has one writer; empty elsewhere.
    acknowledged: Vec<AtomicU64>,
}

/// Where a version comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A write of this run.
    Written,
    /// A write of another run, about which nothing is known.
    Foreign,
    /// This run's number, but this run has issued no such version.
    NeverWritten {
        /// The version's count.
        count: u64,
        /// The last count issued.
        issued: u64,
    },
}

impl Versions {
    /// No version is issued for any of `keys` keys; where a run has more keys than that, several share a count. `run` should
    /// differ between runs; its lower 24 bits count. `one_writer`: whether each key is written by one connection, so that
    /// its versions are in the order of their writes.
    pub(crate) fn new(keys: u64, run: u64, one_writer: bool) -> Versions {
        let counts = |keys: u64| std::iter::repeat_with(|| AtomicU64::new(0)).take(keys as usize).collect();
        let acknowledged = counts(if one_writer { keys } else { 0 });
        Versions { run: run & RUN_MASK, issued: counts(keys), acknowledged }
    }

    /// The version for the next write of `key`.
    pub(crate) fn issue(&self, key: u64) -> u64 {
        // A value can reach a reader in another thread only after the write that carries it left this one; acquire and
        // release make the count visible along with it.
        let count = self.issued[self.place(key)].fetch_add(1, Ordering::AcqRel) + 1;
        self.run << COUNT_BITS | (count & COUNT_MASK)
    }

    /// How many versions of `key` were issued.
    pub(crate) fn issued(&self, key: u64) -> u64 {
        self.issued[self.place(key)].load(Ordering::Acquire)
    }

    /// The write of `version` to `key` was acknowledged.
    pub(crate) fn acknowledge(&self, key: u64, version: u64) {
        if let Some(acknowledged) = self.acknowledged.get(key as usize) {
            acknowledged.fetch_max(version & COUNT_MASK, Ordering::AcqRel);
        }
    }

    /// A write to `key` may still take effect at any time: from now on, no value of it counts as outdated.
    pub(crate) fn lose(&self, key: u64) {
        if let Some(acknowledged) = self.acknowledged.get(key as usize) {
            acknowledged.store(LOST, Ordering::Release);
        }
    }

    /// The least count that a read of `key` that begins now may bring; 0 where any may come.
    pub(crate) fn floor(&self, key: u64) -> u64 {
        let floor = self.acknowledged.get(key as usize).map_or(0, |count| count.load(Ordering::Acquire));
        if floor == LOST { 0 } else { floor }
    }

    /// Whether outdated reads can be recognised.
    pub(crate) fn has_floors(&self) -> bool {
        !self.acknowledged.is_empty()
    }

    /// Judges a version of `key` that was read.
    pub(crate) fn origin(&self, key: u64, version: u64) -> Origin {
        if version >> COUNT_BITS != self.run {
            return Origin::Foreign;
        }
        let count = version & COUNT_MASK;
        let issued = self.issued(key);
        if (1..=issued).contains(&count) { Origin::Written } else { Origin::NeverWritten { count, issued } }
    }

    fn place(&self, key: u64) -> usize {
        let keys = self.issued.len() as u64;
        (if key < keys { key } else { key % keys }) as usize
    }
}

/// A version's count.
pub(crate) fn count(version: u64) -> u64 {
    version & COUNT_MASK
}

/// Above every count, so that nothing that is acknowledged later replaces it.
const LOST: u64 = u64::MAX;

/// 2^40 writes of one key: twelve days at a million a second.
const COUNT_BITS: u32 = 40;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
const RUN_MASK: u64 = u64::MAX >> COUNT_BITS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issued_versions_are_written_and_no_others() {
        let versions = Versions::new(2, 7, false);
        let (first, second) = (versions.issue(1), versions.issue(1));
        assert_eq!(versions.origin(1, first), Origin::Written);
        assert_eq!(versions.origin(1, second), Origin::Written);
        assert_eq!(versions.origin(1, second + 1), Origin::NeverWritten { count: 3, issued: 2 });
        assert_eq!(versions.origin(1, first - 1), Origin::NeverWritten { count: 0, issued: 2 });
        assert_eq!(versions.origin(0, first), Origin::NeverWritten { count: 1, issued: 0 });
    }

    #[test]
    fn other_runs_are_distinguished() {
        let (ours, theirs) = (Versions::new(1, 7, false), Versions::new(1, 8, false));
        assert_eq!(ours.origin(0, theirs.issue(0)), Origin::Foreign);
    }

    #[test]
    fn acknowledged_writes_raise_the_floor_until_one_is_lost() {
        let versions = Versions::new(1, 7, true);
        assert_eq!(versions.floor(0), 0);
        let (first, second) = (versions.issue(0), versions.issue(0));
        versions.acknowledge(0, second);
        versions.acknowledge(0, first);
        assert_eq!(versions.floor(0), 2);
        versions.lose(0);
        versions.acknowledge(0, versions.issue(0));
        assert_eq!(versions.floor(0), 0, "the lost write may still come");
        let shared = Versions::new(1, 7, false);
        shared.acknowledge(0, shared.issue(0));
        assert_eq!(shared.floor(0), 0, "with several writers there is no order to go by");
    }
}
