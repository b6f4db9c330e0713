use hdrhistogram::Histogram;

/// Longest time that buckets tell apart, in nanoseconds: about 18 minutes. What is longer is counted at this bound.
pub(crate) const BUCKETS_MAX_NS: u64 = (1 << 40) - 1;

/// Every bucket is narrower than a thousandth of the times in it.
pub(crate) const SIGNIFICANT_DIGITS: u8 = 3;

/// Each power of two is cut into 1024 buckets, the least number that keeps three significant digits; below 2048 a
/// bucket is one nanosecond.
const BUCKETS_PER_OCTAVE: usize = 1 << OCTAVE_BITS;
const OCTAVE_BITS: u32 = 10;
const OCTAVES: usize = 31;

/// The counts of a histogram, bucket for bucket as HdrHistogram lays them out for the bounds above.
///
/// Counting here instead of in [`Histogram`] takes a fraction of the time, because that also keeps a count, a minimum and
/// a maximum, which a distribution keeps more exactly itself; and only the octaves from the shortest to the longest time are
/// allocated (8 KiB each), so that a distribution takes, and a report copies, a fraction of the quarter of a megabyte
/// that all of them have. Everything but counting is the library's.
///
/// A time's place among the counts is the upper half of it as a floating-point number of 64 bits: the exponent, and the ten
/// bits behind the leading one. Finding it takes half the instructions of the same by shifts. Times below 1024 have more places
/// than buckets: each uses every second, fourth … place of its octave, and so keeps a bucket of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buckets {
    /// Times of no length, which are many, for stages that an engine does not have are such; they belong to the first bucket.
    zeros: u64,
    /// The place of the first of `counts`.
    begin: usize,
    counts: Vec<u64>,
    /// How many counts there will be as soon as there is one, if that is known.
    expected: usize,
}

impl Buckets {
    pub(crate) const fn new() -> Self {
        Self { zeros: 0, begin: 0, counts: Vec::new(), expected: 0 }
    }

    /// None, that expect times like those of `other`: the memory for them is allocated at once, with the first.
    pub(crate) fn like(other: &Self) -> Self {
        let expected = other.counts.len().max(other.expected);
        Self { zeros: 0, begin: other.begin, counts: Vec::new(), expected }
    }

    /// The count that this time belongs to, if it has memory.
    #[inline]
    pub(crate) fn count_of(&mut self, nanos: u64) -> Option<&mut u64> {
        self.counts.get_mut(place_of(nanos).wrapping_sub(self.begin))
    }

    /// Counts a time, whether there is memory for it or not.
    pub(crate) fn add_time(&mut self, nanos: u64) {
        self.add_many(nanos, 1);
    }

    #[cold]
    fn add_many(&mut self, nanos: u64, count: u64) {
        if nanos == 0 {
            self.zeros += count;
            return;
        }
        let place = place_of(nanos.min(BUCKETS_MAX_NS));
        self.reach(place, place + 1);
        self.counts[place - self.begin] += count;
    }

    /// Counts a time of 0, in a tenth of the time.
    #[inline]
    pub(crate) fn record_zero(&mut self) {
        self.zeros += 1;
    }

    pub(crate) fn zeros(&self) -> u64 {
        self.zeros
    }

    /// How many times were counted. Adds up all buckets.
    pub(crate) fn count(&self) -> u64 {
        self.zeros + self.counts.iter().sum::<u64>()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.zeros += other.zeros;
        if other.counts.is_empty() {
            return;
        }
        self.reach(other.begin, other.begin + other.counts.len());
        let mine = self.counts[other.begin - self.begin..].iter_mut();
        mine.zip(&other.counts).for_each(|(mine, theirs)| *mine += theirs);
    }

    pub(crate) fn clear(&mut self) {
        self.zeros = 0;
        self.counts.fill(0);
    }

    /// There are counts for the places from `begin` to `end`, and for those of the octaves that they lie in.
    fn reach(&mut self, begin: usize, end: usize) {
        let is_first = self.counts.is_empty();
        let (mine, length) = (self.begin, if is_first { self.expected } else { self.counts.len() });
        let (mut begin, mut end) =
            (begin & !(BUCKETS_PER_OCTAVE - 1), end.next_multiple_of(BUCKETS_PER_OCTAVE));
        if length > 0 {
            (begin, end) = (begin.min(mine), end.max(mine + length));
        }
        if end - begin == self.counts.len() {
            return;
        }
        let mut counts = vec![0; end - begin];
        if !is_first {
            counts[mine - begin..][..length].copy_from_slice(&self.counts);
        }
        (self.begin, self.counts) = (begin, counts);
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
        let met = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let others = met.map(|(place, count)| (index_at(self.begin + place), *count));
        (self.zeros > 0).then_some((0, self.zeros)).into_iter().chain(others)
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

    #[test]
    fn expected_times_take_their_memory_at_once_and_others_are_counted_too() {
        let mut first = Buckets::new();
        [5_000, 70_000, 300].into_iter().for_each(|nanos| first.add_time(nanos));
        let mut next = Buckets::like(&first);
        assert_eq!((next.count(), next.counts.capacity()), (0, 0));
        next.add_time(70_001);
        assert_eq!((next.begin, next.counts.len()), (first.begin, first.counts.len()));
        assert_eq!(next.entries().collect::<Vec<_>>(), [(index_of(70_001), 1)]);
        let mut others = Buckets::like(&next);
        [1, 1 << 35].into_iter().for_each(|nanos| others.add_time(nanos));
        assert_eq!(others.entries().collect::<Vec<_>>(), [(1, 1), (index_of(1 << 35), 1)]);
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
            times in prop::collection::vec(prop_oneof![0u64..5000, 0u64..1 << 30, any::<u64>()], 0..40)
        ) {
            let mut buckets = Buckets::new();
            let mut library = Histogram::<u64>::new_with_bounds(1, BUCKETS_MAX_NS, SIGNIFICANT_DIGITS).unwrap();
            for time in times {
                if time == 0 { buckets.record_zero() } else { buckets.add_time(time) }
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
    }
}
