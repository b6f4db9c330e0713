//! Which versions of each key have been written.

use std::sync::atomic::{AtomicU64, Ordering};

/// The last version issued for each key, shared by all threads.
///
/// A version is the run's number in the upper 24 bits and a count from 1 in the lower 40, so that values of another run
/// (an earlier one, or one at the same time on the same keys) are told from versions that nobody can have written.
#[derive(Debug)]
pub(crate) struct Versions {
    run: u64,
    issued: Vec<AtomicU64>,
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
    /// No version is issued for any of `keys` keys. `run` should differ between runs; its lower 24 bits count.
    pub(crate) fn new(keys: u64, run: u64) -> Versions {
        let issued = std::iter::repeat_with(|| AtomicU64::new(0)).take(keys as usize).collect();
        Versions { run: run & RUN_MASK, issued }
    }

    /// The version for the next write of `key`.
    pub(crate) fn issue(&self, key: u64) -> u64 {
        // A value can reach a reader in another thread only after the write that carries it left this one; acquire and
        // release make the count visible along with it.
        let count = self.issued[key as usize].fetch_add(1, Ordering::AcqRel) + 1;
        self.run << COUNT_BITS | (count & COUNT_MASK)
    }

    /// Judges a version of `key` that was read.
    pub(crate) fn origin(&self, key: u64, version: u64) -> Origin {
        if version >> COUNT_BITS != self.run {
            return Origin::Foreign;
        }
        let count = version & COUNT_MASK;
        let issued = self.issued[key as usize].load(Ordering::Acquire);
        if (1..=issued).contains(&count) { Origin::Written } else { Origin::NeverWritten { count, issued } }
    }
}

/// 2^40 writes of one key: twelve days at a million a second.
const COUNT_BITS: u32 = 40;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
const RUN_MASK: u64 = u64::MAX >> COUNT_BITS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issued_versions_are_written_and_no_others() {
        let versions = Versions::new(2, 7);
        let (first, second) = (versions.issue(1), versions.issue(1));
        assert_eq!(versions.origin(1, first), Origin::Written);
        assert_eq!(versions.origin(1, second), Origin::Written);
        assert_eq!(versions.origin(1, second + 1), Origin::NeverWritten { count: 3, issued: 2 });
        assert_eq!(versions.origin(1, first - 1), Origin::NeverWritten { count: 0, issued: 2 });
        assert_eq!(versions.origin(0, first), Origin::NeverWritten { count: 1, issued: 0 });
    }

    #[test]
    fn other_runs_are_told_apart() {
        let (ours, theirs) = (Versions::new(1, 7), Versions::new(1, 8));
        assert_eq!(ours.origin(0, theirs.issue(0)), Origin::Foreign);
    }
}
