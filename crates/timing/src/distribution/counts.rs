/// A row of counts, most of which are small.
///
/// The lower 15 bits of each lie together, in 16, and what a count has above them in a row of its own. A second seldom fills 15 bits, so
/// what recording touches is a quarter of what counts of 64 bits would be. It stays in the processor's caches between two requests: what a
/// histogram costs is memory outside of them, more than instructions. Of these the sixteenth bit saves one: only after thousands of times must somebody
/// look whether a count has outgrown its lower part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    low: Vec<u16>,
    /// In units of 2^15. Empty while all of them are 0, and as long as `low` otherwise.
    high: Vec<u64>,
}

/// What a count has in its lower part once it is settled.
const LOW_BITS: u32 = u16::BITS - 1;
const LOW_MAX: u16 = (1 << LOW_BITS) - 1;

/// How many are looked at together.
const RUN: usize = 32;

impl Counts {
    pub(crate) const fn new() -> Self {
        Self { low: Vec::new(), high: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.low.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.low.is_empty()
    }

    /// How many there is memory for.
    pub(crate) fn capacity(&self) -> usize {
        self.low.capacity()
    }

    /// Counts one more at `index`; returns whether there is such a count.
    #[inline]
    pub(crate) fn increment(&mut self, index: usize) -> bool {
        let Some(low) = self.low.get_mut(index) else { return false };
        *low = low.wrapping_add(1);
        if *low > LOW_MAX {
            self.carry(index);
        }
        true
    }

    /// [`Self::increment`] without looking whether a count has outgrown its lower part, for which there is room [`Self::INCREMENTS_MAX`]
    /// times; then [`Self::settle`] must be called.
    #[inline]
    pub(crate) fn increment_unsettled(&mut self, index: usize) -> bool {
        let Some(low) = self.low.get_mut(index) else { return false };
        debug_assert!(*low < u16::MAX, "a count was not settled in time");
        *low = low.wrapping_add(1);
        true
    }

    /// How often [`Self::increment_unsettled`] may be called in a row.
    pub(crate) const INCREMENTS_MAX: u16 = u16::MAX - LOW_MAX;

    /// Moves up what no lower part should have.
    pub(crate) fn settle(&mut self) {
        // Many at a time, as there is no branch.
        let all = self.low.iter().fold(0, |all, &low| all | low);
        if all > LOW_MAX {
            for index in 0..self.low.len() {
                if self.low[index] > LOW_MAX {
                    self.carry(index);
                }
            }
        }
    }

    /// Counts `count` more at `index`; returns whether there is such a count.
    pub(crate) fn add(&mut self, index: usize, count: u64) -> bool {
        let Some(low) = self.low.get_mut(index) else { return false };
        let sum = u64::from(*low) + (count & u64::from(LOW_MAX));
        *low = (sum & u64::from(LOW_MAX)) as u16;
        self.add_high(index, (count >> LOW_BITS) + (sum >> LOW_BITS));
        true
    }

    /// Adds those of `other`, the first of them to that at `begin`. There must be as many from there on, and they must be settled.
    pub(crate) fn add_all(&mut self, begin: usize, other: &Self) {
        let mine = &mut self.low[begin..begin + other.low.len()];
        // Many at a time, as there is no branch: once a second this passes over all that was measured.
        let mut all = 0;
        for (mine, theirs) in mine.iter_mut().zip(&other.low) {
            debug_assert!(*mine <= LOW_MAX, "something is added to counts that are not settled");
            *mine = mine.wrapping_add(theirs & LOW_MAX);
            all |= theirs;
        }
        self.settle();
        if all > LOW_MAX {
            let unsettled = (0..other.low.len()).filter(|&index| other.low[index] > LOW_MAX);
            unsettled.for_each(|index| self.add_high(begin + index, 1));
        }
        for (index, &high) in other.high.iter().enumerate().filter(|(_, high)| **high > 0) {
            self.add_high(begin + index, high);
        }
    }

    #[cold]
    #[inline(never)]
    fn carry(&mut self, index: usize) {
        self.low[index] &= LOW_MAX;
        self.add_high(index, 1);
    }

    fn add_high(&mut self, index: usize, count: u64) {
        if count > 0 {
            self.high.resize(self.low.len(), 0);
            self.high[index] += count;
        }
    }

    /// In order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        let high = self.high.iter().copied().chain(std::iter::repeat(0));
        self.low.iter().zip(high).map(|(&low, high)| u64::from(low) + (high << LOW_BITS))
    }

    /// Those that are not 0, with their numbers, in order. Of most seconds that is a small part, so what is 0 is passed over in runs.
    pub(crate) fn met(&self) -> impl Iterator<Item = (usize, u64)> {
        let is_met = |run: usize, low: &[u16]| {
            let high = self.high.get(run * RUN..).unwrap_or_default();
            low.iter().fold(0, |all, &low| all | low) > 0 || high.iter().take(RUN).any(|&high| high > 0)
        };
        let runs = self.low.chunks(RUN).enumerate().filter(move |(run, low)| is_met(*run, low));
        runs.flat_map(|(run, low)| {
            let high = |index: usize| self.high.get(index).map_or(0, |it| it << LOW_BITS);
            let places = low.iter().enumerate().map(move |(at, &low)| (run * RUN + at, low));
            // Most counts are 0, and of the others most have nothing above their lower part.
            let met = places.filter(move |&(index, low)| low > 0 || high(index) > 0);
            met.map(move |(index, low)| (index, u64::from(low) + high(index)))
        })
    }

    /// From now on there are `length` of them, the new ones 0 and behind the others. If memory is needed, it is for `capacity` at least.
    pub(crate) fn lengthen(&mut self, length: usize, capacity: usize) {
        if length > self.low.capacity() {
            self.low.reserve_exact(capacity.max(length) - self.low.len());
        }
        self.low.resize(length, 0);
        if !self.high.is_empty() {
            self.high.resize(length, 0);
        }
    }

    /// Moves the first `length` up by `more` places; 0 is left where they were. There must be `length + more` places.
    pub(crate) fn move_up(&mut self, length: usize, more: usize) {
        self.low.copy_within(..length, more);
        self.low[..more].fill(0);
        if !self.high.is_empty() {
            self.high.copy_within(..length, more);
            self.high[..more].fill(0);
        }
    }

    /// None, with the memory of those that there were.
    pub(crate) fn clear(&mut self) {
        self.low.clear();
        self.high.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(values: &[u64]) -> Counts {
        let mut counts = Counts::new();
        counts.lengthen(values.len(), 0);
        for (index, &value) in values.iter().enumerate() {
            assert!(counts.add(index, value));
        }
        counts
    }

    #[test]
    fn a_count_that_outgrows_its_lower_part_goes_on() {
        let mut counts = counts(&[u64::from(LOW_MAX), 5]);
        assert!(counts.high.is_empty());
        assert!(counts.increment(0));
        assert_eq!(counts.iter().collect::<Vec<_>>(), [1 << 15, 5]);
        assert!(counts.increment(0));
        assert_eq!(counts.iter().collect::<Vec<_>>(), [(1 << 15) + 1, 5]);
    }

    #[test]
    fn as_many_as_there_is_room_for_are_counted_without_looking() {
        let mut counts = counts(&[u64::from(LOW_MAX), 5]);
        for round in 1..=3 {
            (0..Counts::INCREMENTS_MAX).for_each(|_| assert!(counts.increment_unsettled(0)));
            counts.settle();
            assert!(counts.low[0] <= LOW_MAX);
            let expected = u64::from(LOW_MAX) + round * u64::from(Counts::INCREMENTS_MAX);
            assert_eq!(counts.iter().collect::<Vec<_>>(), [expected, 5]);
        }
    }

    #[test]
    fn there_is_no_count_beyond_the_last() {
        let mut counts = counts(&[1, 2]);
        assert!(
            !counts.increment(2)
                && !counts.increment_unsettled(2)
                && !counts.add(2, 1)
                && !counts.increment(usize::MAX)
        );
        assert_eq!(counts.iter().collect::<Vec<_>>(), [1, 2]);
    }

    fn values() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(
            prop_oneof![0u64..3, 32_765u64..32_770, 65_530u64..65_540, 0u64..1 << 40],
            1..20,
        )
    }

    proptest! {
        #[test]
        fn they_are_those_of_64_bits(mut expected in values(), mut more in values(), begin in 0usize..200, up in 0usize..200, unsettled: bool) {
            let mut found = counts(&expected);
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected.clone());
            let length = expected.len();
            found.lengthen(length + up, 0);
            found.move_up(length, up);
            expected.splice(0..0, vec![0; up]);
            found.lengthen(expected.len().max(begin + more.len()), 7);
            expected.resize(expected.len().max(begin + more.len()), 0);
            let mut more_counts = counts(&more);
            if unsettled {
                (0..Counts::INCREMENTS_MAX).for_each(|_| assert!(more_counts.increment_unsettled(0)));
                more[0] += u64::from(Counts::INCREMENTS_MAX);
            }
            found.add_all(begin, &more_counts);
            expected[begin..].iter_mut().zip(&more).for_each(|(mine, theirs)| *mine += theirs);
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected.clone());
            let met: Vec<_> = expected.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect();
            prop_assert_eq!(found.met().collect::<Vec<_>>(), met);
            (0..expected.len()).for_each(|index| assert!(found.increment(index)));
            prop_assert_eq!(found.iter().collect::<Vec<_>>(), expected.iter().map(|it| it + 1).collect::<Vec<_>>());
            let capacity = found.capacity();
            found.clear();
            prop_assert!(found.is_empty() && found.capacity() == capacity);
        }
    }
}
