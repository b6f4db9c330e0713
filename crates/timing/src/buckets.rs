use hdrhistogram::Histogram;

/// Longest time that buckets tell apart, in nanoseconds: about 18 minutes. What is longer is counted at this bound.
pub(crate) const BUCKETS_MAX_NS: u64 = (1 << 40) - 1;

/// Every bucket is narrower than a thousandth of the times in it.
pub(crate) const SIGNIFICANT_DIGITS: u8 = 3;

/// Each power of two is cut into 1024 buckets, the least number that keeps three significant digits; below 2048 a
/// bucket is one nanosecond.
const BUCKETS_PER_OCTAVE: usize = 1024;
const OCTAVES: usize = 31;

/// The counts of a histogram, bucket for bucket as HdrHistogram lays them out for the bounds above.
///
/// Counting here instead of in [`Histogram`] takes a third of the time, because that also keeps a count, a minimum and
/// a maximum, which a distribution keeps more exactly itself; and a run of 1024 buckets is allocated (8 KiB) when the
/// first time falls into it, so that a distribution takes, and a report copies, a fraction of the quarter of a megabyte
/// that all of them have. Everything but counting is the library's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buckets {
    /// Times of no length, which are many, for stages that an engine does not have are such; they belong to the first bucket.
    zeros: u64,
    octaves: [Option<Box<Octave>>; OCTAVES],
}

type Octave = [u64; BUCKETS_PER_OCTAVE];

impl Buckets {
    pub(crate) const fn new() -> Self {
        Self { zeros: 0, octaves: [const { None }; OCTAVES] }
    }

    #[inline]
    pub(crate) fn record(&mut self, nanos: u64) {
        let index = index_of(nanos);
        match self.octaves.get_mut(index / BUCKETS_PER_OCTAVE) {
            Some(Some(octave)) => octave[index % BUCKETS_PER_OCTAVE] += 1,
            _ => self.record_rarely(nanos),
        }
    }

    /// The first time of its magnitude, or one that is beyond all buckets.
    #[cold]
    fn record_rarely(&mut self, nanos: u64) {
        self.add_at(index_of(nanos.min(BUCKETS_MAX_NS)), 1);
    }

    /// The same as [`Self::record`] of 0, in a tenth of the time.
    #[inline]
    pub(crate) fn record_zero(&mut self) {
        self.zeros += 1;
    }

    pub(crate) fn zeros(&self) -> u64 {
        self.zeros
    }

    /// How many times were counted. Adds up all buckets.
    pub(crate) fn count(&self) -> u64 {
        let counts = self.octaves.iter().flatten().flat_map(|octave| octave.iter());
        self.zeros + counts.sum::<u64>()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.zeros += other.zeros;
        for (mine, theirs) in self.octaves.iter_mut().zip(&other.octaves) {
            let Some(theirs) = theirs else { continue };
            let mine = mine.get_or_insert_with(empty_octave);
            mine.iter_mut().zip(theirs.iter()).for_each(|(mine, theirs)| *mine += theirs);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.zeros = 0;
        self.octaves.iter_mut().flatten().for_each(|octave| octave.fill(0));
    }

    pub(crate) fn histogram(&self) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, BUCKETS_MAX_NS, SIGNIFICANT_DIGITS)
            .expect("the bounds are valid constants");
        for (index, count) in self.entries() {
            histogram.record_n(least_in(index), count).expect("every bucket lies within the bounds");
        }
        histogram
    }

    /// Place and count of every bucket that was met, in order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (usize, u64)> {
        let octaves = self.octaves.iter().enumerate().filter_map(|(number, it)| Some((number, it.as_ref()?)));
        let others = octaves.flat_map(|(number, octave)| {
            let counts = octave.iter().enumerate().filter(|(_, count)| **count > 0);
            counts.map(move |(place, count)| (number * BUCKETS_PER_OCTAVE + place, *count))
        });
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

    /// Adds to the bucket at a place of [`Self::entries`]; one that is beyond all counts at the last.
    pub(crate) fn add_at(&mut self, index: usize, count: u64) {
        if index == 0 {
            self.zeros += count;
            return;
        }
        let index = index.min(OCTAVES * BUCKETS_PER_OCTAVE - 1);
        let octave = self.octaves[index / BUCKETS_PER_OCTAVE].get_or_insert_with(empty_octave);
        octave[index % BUCKETS_PER_OCTAVE] += count;
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

#[cold]
fn empty_octave() -> Box<Octave> {
    Box::new([0; BUCKETS_PER_OCTAVE])
}

/// The place of `nanos`; that of a time above [`BUCKETS_MAX_NS`] is beyond all.
#[inline]
fn index_of(nanos: u64) -> usize {
    let octave = (nanos | BUCKETS_PER_OCTAVE as u64).ilog2() - BUCKETS_PER_OCTAVE.ilog2();
    octave as usize * BUCKETS_PER_OCTAVE + (nanos >> octave) as usize
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
        fn counts_are_those_of_the_library(
            times in prop::collection::vec(prop_oneof![0u64..5000, 0u64..1 << 30, any::<u64>()], 0..40)
        ) {
            let mut buckets = Buckets::new();
            let mut library = Histogram::<u64>::new_with_bounds(1, BUCKETS_MAX_NS, SIGNIFICANT_DIGITS).unwrap();
            for time in times {
                if time == 0 { buckets.record_zero() } else { buckets.record(time) }
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
