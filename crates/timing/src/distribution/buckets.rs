use std::{iter, mem};

use hdrhistogram::Histogram;

use crate::distribution::counts::Counts;

/// Longest time that is distinguished, in nanoseconds: about 18 minutes. What is longer is counted at this bound.
pub(crate) const BUCKETS_MAX_NS: u64 = (1 << 40) - 1;

/// Every bucket is narrower than a thousandth of the times in it.
pub(crate) const SIGNIFICANT_DIGITS: u8 = 3;

/// Each power of two is cut into 1024 buckets, the least number that keeps three significant digits; below 2048 a
/// bucket is one nanosecond.
const BUCKETS_PER_OCTAVE: usize = 1 << OCTAVE_BITS;
const OCTAVE_BITS: u32 = 10;
const OCTAVES: usize = 31;

/// Times that are counted in a list at most. One of them costs some 800 instructions until its second is over and added up. With counts a
/// second costs 66,000, whatever is in it (`bench/instructions --servers`, 35 requests to each server). A distribution that grows beyond
/// this has paid for the list and for the counts.
const FEW_MAX: u64 = 96;

/// The counts of a histogram, bucket for bucket as HdrHistogram lays them out for the bounds above.
///
/// Counting here instead of in [`Histogram`] takes a fraction of the time. That type also keeps a count, a minimum and a maximum, which a
/// distribution keeps more exactly itself. There is memory only for what lies between the shortest and the longest time. So a distribution
/// takes, and a report copies, a fraction of the quarter of a megabyte that all buckets have. Everything but counting is the library's.
///
/// A time's place among the counts is the upper half of it as a floating-point number of 64 bits: the exponent, and the ten
/// bits behind the leading one. Finding it takes half the instructions of the same by shifts. Times below 1024 have more places
/// than buckets: each uses every second, fourth … place of its octave, and so keeps a bucket of its own.
///
/// The two outermost buckets in use are kept separately from those between them. So one comparison, that of an index with a length, shows
/// that there is memory, and also that the time is neither a minimum nor a maximum: what is usual needs no other.
///
/// While few buckets are in use, those between the outermost are a list. A server that gets a few requests has many such seconds. What one
/// costs to add up, to copy and to clear is the price of those requests, not of all the buckets between the shortest and the longest.
// In this order for the sake of [`Distribution`](crate::Distribution).
#[repr(C)]
#[derive(Clone, Debug, Default)]
pub(crate) struct Buckets {
    /// Of the places between `shortest` and `longest`.
    counts: Counts,
    /// The place of the first of `counts`: behind that of `shortest`.
    begin: usize,
    /// Times of no length, which are many, for stages that an engine does not have are such; they belong to the first bucket.
    zeros: u64,
    shortest: Bucket,
    /// Empty while all times lie in one bucket, which is `shortest`.
    longest: Bucket,
    /// How many counts there will be as soon as there is one, if that is known; 0 while few buckets are expected.
    expected: usize,
    /// Buckets between the outermost, by place, while there are few and none were expected; then `counts` is empty.
    few: Vec<Bucket>,
    /// How many times were counted in `few`.
    listed: u64,
}

/// A bucket in use.
#[derive(Copy, Clone, Debug, Default)]
struct Bucket {
    place: usize,
    count: u64,
}

impl Buckets {
    /// Length of its beginning, in bytes, which is all that counting a usual time touches.
    pub(crate) const USUAL_BYTES: usize = mem::offset_of!(Self, begin) + size_of::<usize>();

    pub(crate) const fn new() -> Self {
        const UNUSED: Bucket = Bucket { place: 0, count: 0 };
        Self {
            zeros: 0,
            begin: 0,
            counts: Counts::new(),
            shortest: UNUSED,
            longest: UNUSED,
            expected: 0,
            few: Vec::new(),
            listed: 0,
        }
    }

    /// None, that expect times like those of `other`: the memory for them is allocated at once, if they are many.
    pub(crate) fn like(other: &Self) -> Self {
        let expected = match (other.is_used(), other.are_few()) {
            (false, _) => other.expected,
            (true, true) => 0,
            (true, false) => other.counts.capacity(),
        };
        Self { expected, ..Self::new() }
    }

    fn is_used(&self) -> bool {
        self.shortest.count > 0
    }

    /// Whether a list would have done for them.
    fn are_few(&self) -> bool {
        let mut times = 0;
        self.counts.met().all(|(_, count)| {
            times += count;
            times <= FEW_MAX
        })
    }

    /// Counts a time, if there is memory for it and it is neither among the shortest nor among the longest; returns whether it did.
    #[inline]
    pub(crate) fn add_usual(&mut self, nanos: u64) -> bool {
        self.counts.increment(place_of(nanos).wrapping_sub(self.begin))
    }

    /// [`Self::add_usual`] without looking whether the count has room: [`Counts::increment_unsettled`].
    #[inline]
    pub(crate) fn add_usual_unsettled(&mut self, nanos: u64) -> bool {
        self.counts.increment_unsettled(place_of(nanos).wrapping_sub(self.begin))
    }

    pub(crate) fn settle(&mut self) {
        self.counts.settle();
    }

    /// Counts a time, wherever it lies.
    pub(crate) fn add_time(&mut self, nanos: u64) {
        self.add_many(nanos, 1);
    }

    fn add_many(&mut self, nanos: u64, count: u64) {
        if nanos == 0 {
            self.zeros += count;
        } else {
            self.add_at_place(place_of(nanos.min(BUCKETS_MAX_NS)), count);
        }
    }

    fn add_at_place(&mut self, place: usize, count: u64) {
        if self.counts.add(place.wrapping_sub(self.begin), count) {
            return;
        }
        if self.shortest.count == 0 {
            self.shortest = Bucket { place, count };
            self.begin = place + 1;
        } else if place == self.shortest.place {
            self.shortest.count += count;
        } else if self.longest.count > 0 && place == self.longest.place {
            self.longest.count += count;
        } else if place < self.shortest.place {
            self.reach_down(place);
            self.shortest.count = count;
        } else if place > self.longest.place {
            self.reach_up(place);
            self.longest.count = count;
        } else {
            self.add_to_few(place, count);
        }
    }

    /// Whether what lies between the outermost is in `few`.
    fn is_listed(&self) -> bool {
        self.counts.is_empty() && self.expected == 0
    }

    /// Counts times that lie between the outermost, where there are no counts.
    fn add_to_few(&mut self, place: usize, count: u64) {
        self.listed += count;
        if self.listed > FEW_MAX {
            self.spread();
            self.counts.add(place - self.begin, count);
            return;
        }
        match self.few.binary_search_by_key(&place, |bucket| bucket.place) {
            Ok(at) => self.few[at].count += count,
            Err(at) => {
                // At once, so that a request seldom allocates.
                self.few.reserve_exact(FEW_MAX as usize - self.few.len());
                self.few.insert(at, Bucket { place, count });
            }
        }
    }

    /// They are few no more.
    fn spread(&mut self) {
        self.lengthen(self.longest.place - self.begin);
        self.listed = 0;
        for bucket in mem::take(&mut self.few) {
            self.counts.add(bucket.place - self.begin, bucket.count);
        }
    }

    /// The shortest times are at `place` from now on, below all others.
    fn reach_down(&mut self, place: usize) {
        let before = mem::replace(&mut self.shortest, Bucket { place, count: 0 });
        self.begin = place + 1;
        if self.longest.count == 0 {
            self.longest = before;
            if !self.is_listed() {
                self.lengthen(before.place - self.begin);
            }
            return;
        }
        if self.is_listed() {
            return self.add_to_few(before.place, before.count);
        }
        let (length, more) = (self.counts.len(), before.place - place);
        self.lengthen(length + more);
        self.counts.move_up(length, more);
        self.counts.add(more - 1, before.count);
    }

    /// The longest times are at `place` from now on, above all others.
    fn reach_up(&mut self, place: usize) {
        let before = mem::replace(&mut self.longest, Bucket { place, count: 0 });
        if self.is_listed() {
            if before.count > 0 {
                self.add_to_few(before.place, before.count);
            }
            return;
        }
        self.lengthen(place - self.begin);
        if before.count > 0 {
            self.counts.add(before.place - self.begin, before.count);
        }
    }

    /// More counts behind those that there are. Memory comes by octaves, so that it is seldom too little.
    fn lengthen(&mut self, length: usize) {
        self.counts.lengthen(length, length.next_multiple_of(BUCKETS_PER_OCTAVE).max(self.expected));
    }

    /// Counts `count` times of 0.
    pub(crate) fn record_zeros(&mut self, count: u64) {
        self.zeros += count;
    }

    pub(crate) fn zeros(&self) -> u64 {
        self.zeros
    }

    /// How many times were counted. Adds up all buckets.
    pub(crate) fn count(&self) -> u64 {
        let few: u64 = self.few.iter().map(|bucket| bucket.count).sum();
        self.zeros + self.shortest.count + few + self.counts.iter().sum::<u64>() + self.longest.count
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.zeros += other.zeros;
        for outermost in [other.shortest, other.longest] {
            if outermost.count > 0 {
                self.add_at_place(outermost.place, outermost.count);
            }
        }
        other.few.iter().for_each(|bucket| self.add_at_place(bucket.place, bucket.count));
        if !other.counts.is_empty() {
            if self.counts.is_empty() {
                self.spread();
            }
            // What lies between the other's outermost lies between ours now.
            self.counts.add_all(other.begin - self.begin, &other.counts);
        }
    }

    /// None, that expect times like those that there were; their memory is kept.
    pub(crate) fn clear(&mut self) {
        let next = Self::like(self);
        let (mut counts, mut few) = (mem::take(&mut self.counts), mem::take(&mut self.few));
        if next.expected == 0 {
            counts = Counts::new();
        }
        counts.clear();
        few.clear();
        *self = Self { counts, few, ..next };
    }

    pub(crate) fn histogram(&self) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, BUCKETS_MAX_NS, SIGNIFICANT_DIGITS)
            .expect("the bounds are valid constants");
        for (index, count) in self.entries() {
            histogram.record_n(least_in(index), count).expect("every bucket lies within the bounds");
        }
        histogram
    }

    /// Number and count of every bucket that was met, in order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (usize, u64)> {
        let inner = self.counts.met().map(|(index, count)| (self.begin + index, count));
        let [shortest, longest] = [self.shortest, self.longest].map(|it| (it.place, it.count));
        let few = self.few.iter().map(|bucket| (bucket.place, bucket.count));
        let all = iter::once(shortest).chain(inner).chain(few).chain(iter::once(longest));
        let met = all.filter(|(_, count)| *count > 0).map(|(place, count)| (index_at(place), count));
        (self.zeros > 0).then_some((0, self.zeros)).into_iter().chain(met)
    }

    /// For each of `ranks`, which ascend, the greatest time in the bucket of the time with that rank, counted from 1. All in one walk:
    /// a record of a second has ten percentiles of each of its histograms.
    pub(crate) fn at_ranks<const N: usize>(&self, ranks: [u64; N]) -> [u64; N] {
        let mut entries = self.entries();
        let (mut count, mut greatest) = (0, 0);
        ranks.map(|rank| {
            while count < rank {
                let Some((index, more)) = entries.next() else { break };
                count += more;
                greatest = least_in(index + 1) - 1;
            }
            greatest
        })
    }

    /// Standard deviation of the middles of the buckets.
    pub(crate) fn deviation(&self) -> f64 {
        let middles = || {
            self.entries().map(|(index, count)| {
                let (least, next) = (least_in(index), least_in(index + 1));
                ((least + ((next - least) >> 1)) as f64, count as f64)
            })
        };
        let (sum, total) =
            middles().fold((0.0, 0.0), |(sum, total), (middle, count)| (sum + middle * count, total + count));
        let mean = sum / total;
        let squares: f64 = middles().map(|(middle, count)| (middle - mean).powi(2) * count).sum();
        (squares / total).sqrt()
    }

    /// Adds to the bucket of a number of [`Self::entries`]; one that is beyond all counts at the last.
    pub(crate) fn add_at(&mut self, index: usize, count: u64) {
        self.add_many(least_in(index.min(OCTAVES * BUCKETS_PER_OCTAVE - 1)), count);
    }

    /// How many times were counted in buckets that end at or below each of `bounds_ns`, which ascend.
    pub(crate) fn counts_until(&self, bounds_ns: &[u64]) -> Vec<u64> {
        let mut entries = self.entries().peekable();
        let mut count = 0;
        let mut until = |bound: &u64| {
            while let Some((_, more)) = entries.next_if(|(index, _)| least_in(index + 1) <= bound + 1) {
                count += more;
            }
            count
        };
        bounds_ns.iter().map(&mut until).collect()
    }
}

/// Bits of a floating-point number behind those that make a place.
const BITS_BELOW: u32 = f64::MANTISSA_DIGITS - 1 - OCTAVE_BITS;

/// Of 1, the shortest time that has a place. That of 0 lies before it, and that of a time above [`BUCKETS_MAX_NS`] behind those of all
/// others, also where the conversion rounds, or takes the highest bit for a sign.
#[cfg(test)]
const FIRST_PLACE: usize = (f64::MAX_EXP as usize - 1) << OCTAVE_BITS;

/// The place of `nanos`. The conversion is exact below 2^53.
#[inline]
fn place_of(nanos: u64) -> usize {
    ((nanos.cast_signed() as f64).to_bits() >> BITS_BELOW) as usize
}

/// The number of the bucket at `place`.
fn index_at(place: usize) -> usize {
    let exponent = (place >> OCTAVE_BITS) + 1 - f64::MAX_EXP as usize;
    let leading = BUCKETS_PER_OCTAVE + place % BUCKETS_PER_OCTAVE;
    match exponent.checked_sub(OCTAVE_BITS as usize) {
        Some(octave) => octave * BUCKETS_PER_OCTAVE + leading,
        None => leading >> (OCTAVE_BITS as usize - exponent),
    }
}

/// The least time that is counted at `index`.
fn least_in(index: usize) -> u64 {
    let octave = (index / BUCKETS_PER_OCTAVE).saturating_sub(1);
    ((index - octave * BUCKETS_PER_OCTAVE) as u64) << octave
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The number of the bucket of `nanos` as HdrHistogram defines it.
    fn index_of(nanos: u64) -> usize {
        let octave = (nanos | BUCKETS_PER_OCTAVE as u64).ilog2() - OCTAVE_BITS;
        octave as usize * BUCKETS_PER_OCTAVE + (nanos >> octave) as usize
    }

    #[test]
    fn places_are_those_of_the_library_around_every_power_of_two() {
        let powers = (0..40).map(|exponent| 1u64 << exponent);
        for nanos in powers.flat_map(|power| [power - 1, power, power + 1]).chain([BUCKETS_MAX_NS]) {
            if nanos > 0 {
                assert_eq!(index_at(place_of(nanos)), index_of(nanos), "{nanos}");
            }
        }
        assert!((1..4096u64).all(|nanos| index_at(place_of(nanos)) == index_of(nanos)));
        assert_eq!((place_of(0), place_of(1)), (0, FIRST_PLACE));
        let beyond =
            (40..64).map(|exponent| 1u64 << exponent).flat_map(|power| [power, power + 1, power - 1 + power]);
        for nanos in beyond {
            assert!(place_of(nanos) > place_of(BUCKETS_MAX_NS), "{nanos}");
        }
    }

    /// One more than are listed between the outermost.
    fn many() -> impl Iterator<Item = u64> {
        (0..FEW_MAX + 3).map(|step| 6_000 + 100 * step)
    }

    #[test]
    fn few_times_are_listed_and_expected_to_be_few_again() {
        let mut buckets = Buckets::new();
        many().skip(1).for_each(|nanos| buckets.add_time(nanos));
        let (listed, count) = (buckets.few.len() as u64, buckets.count());
        assert_eq!((buckets.counts.capacity(), listed, count), (0, FEW_MAX, FEW_MAX + 2));
        assert_eq!(Buckets::like(&buckets).expected, 0);
        many().chain([5_000, 5_100]).for_each(|nanos| buckets.add_time(nanos));
        assert!(buckets.few.is_empty());
        assert_eq!((buckets.entries().count() as u64, buckets.count()), (FEW_MAX + 5, 2 * FEW_MAX + 7));
        buckets.clear();
        assert!(buckets.counts.capacity() > 0 && buckets.entries().next().is_none());
        [5_000, 70_000, 300].into_iter().for_each(|nanos| buckets.add_time(nanos));
        assert_eq!((buckets.counts.len() > 1_024, buckets.count()), (true, 3));
        buckets.clear();
        assert_eq!((buckets.counts.capacity(), buckets.expected), (0, 0), "they were few");
    }

    #[test]
    fn many_times_in_few_buckets_are_counted() {
        let mut buckets = Buckets::new();
        let times = || [5_000, 6_000, 7_000, 8_000].into_iter().cycle().take(4 * FEW_MAX as usize);
        times().for_each(|nanos| buckets.add_time(nanos));
        assert!(buckets.few.is_empty() && !buckets.are_few());
        assert_eq!((buckets.entries().count() as u64, buckets.count()), (4, 4 * FEW_MAX));
        buckets.clear();
        times().for_each(|nanos| buckets.add_time(nanos));
        assert_eq!((buckets.few.capacity(), buckets.count()), (0, 4 * FEW_MAX), "they were expected");
    }

    #[test]
    fn expected_times_take_their_memory_at_once_and_others_are_counted_too() {
        let mut first = Buckets::new();
        [5_000, 70_000, 300].into_iter().chain(many()).for_each(|nanos| first.add_time(nanos));
        let mut next = Buckets::like(&first);
        assert_eq!((next.count(), next.counts.capacity()), (0, 0));
        [70_001, 70_500].into_iter().for_each(|nanos| next.add_time(nanos));
        assert_eq!(next.counts.capacity(), first.counts.capacity());
        assert_eq!(next.entries().collect::<Vec<_>>(), [(index_of(70_001), 1), (index_of(70_500), 1)]);
        let mut others = Buckets::like(&next);
        [1, 1 << 35].into_iter().for_each(|nanos| others.add_time(nanos));
        assert_eq!(others.entries().collect::<Vec<_>>(), [(1, 1), (index_of(1 << 35), 1)]);
    }

    #[test]
    fn only_what_lies_between_the_outermost_is_counted_without_looking() {
        let mut buckets = Buckets { expected: 1, ..Buckets::new() };
        for (nanos, is_between) in
            [(5_000, false), (9_000, false), (7_000, true), (5_001, false), (100, false), (5_000, true)]
        {
            assert_eq!(buckets.add_usual(nanos), is_between, "{nanos}");
            if !is_between {
                buckets.add_time(nanos);
            }
        }
        assert!([0, 99, 100, 9_000, 9_001, u64::MAX].iter().all(|&nanos| !buckets.add_usual(nanos)));
        let entries =
            [(100, 1), (5_000, 3), (7_000, 1), (9_000, 1)].map(|(nanos, count)| (index_of(nanos), count));
        assert_eq!(buckets.entries().collect::<Vec<_>>(), entries);
    }

    #[test]
    fn every_bucket_begins_where_the_one_before_it_ends() {
        for index in 1..OCTAVES * BUCKETS_PER_OCTAVE {
            assert_eq!(index_of(least_in(index)), index);
            assert_eq!(index_of(least_in(index) - 1), index - 1);
        }
        assert_eq!(index_of(BUCKETS_MAX_NS), OCTAVES * BUCKETS_PER_OCTAVE - 1);
    }

    proptest! {
        #[test]
        fn places_are_those_of_the_library(nanos in prop_oneof![1u64..5000, 1u64..=BUCKETS_MAX_NS], shift in 0u32..40) {
            let nanos = (nanos >> shift).max(1);
            prop_assert_eq!(index_at(place_of(nanos)), index_of(nanos));
        }

        #[test]
        fn counts_are_those_of_the_library(
            times in prop::collection::vec(prop_oneof![0u64..5000, 0u64..1 << 30, any::<u64>()], 0..200),
            expected in 0usize..2,
        ) {
            let mut buckets = Buckets { expected, ..Buckets::new() };
            let mut library = Histogram::<u64>::new_with_bounds(1, BUCKETS_MAX_NS, SIGNIFICANT_DIGITS).unwrap();
            for (turn, time) in times.into_iter().enumerate() {
                let is_usual = if turn % 2 == 0 { buckets.add_usual(time) } else { buckets.add_usual_unsettled(time) };
                if !is_usual {
                    buckets.add_time(time);
                }
                library.saturating_record(time);
            }
            prop_assert_eq!(&buckets.histogram(), &library);
            let (total, deviation) = (library.len(), library.stdev());
            if total > 0 {
                let quantiles = [0.01, 0.5, 0.9, 1.0];
                let found = buckets.at_ranks(quantiles.map(|it: f64| (it * total as f64).ceil() as u64));
                prop_assert_eq!(found, quantiles.map(|quantile| library.value_at_quantile(quantile)));
                prop_assert!((buckets.deviation() - deviation).abs() <= 1e-9 * deviation);
            }
        }

        #[test]
        fn parts_add_up_however_they_are_kept(
            parts in prop::collection::vec((prop::collection::vec(0u64..1 << 24, 0..150), 0usize..2), 0..6),
        ) {
            let (mut sum, mut all) = (Buckets::new(), Buckets::new());
            let mut part = Buckets::new();
            for (times, expected) in parts {
                // The list, or the counts, of the part before may be used again.
                part.clear();
                part.expected = part.expected.max(expected);
                for nanos in times {
                    part.add_time(nanos);
                    all.add_time(nanos);
                }
                sum.add(&part);
                prop_assert_eq!(sum.entries().collect::<Vec<_>>(), all.entries().collect::<Vec<_>>());
                prop_assert_eq!(sum.count(), all.count());
            }
        }
    }
}
