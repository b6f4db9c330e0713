//! Recorded times: exact sums, and a histogram. It counts in `buckets`, whose numbers are kept small by `counts`; `compact` is one
//! that is kept for a while.

mod buckets;
pub(crate) mod compact;
mod counts;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer};
use serde::{Serialize, Serializer};

use self::buckets::Buckets;
use self::counts::Counts;
use crate::{Instant, wide};

/// With fewer samples the largest one lies below the true percentile with a probability above 5 %
/// (`0.99.powi(299) < 0.05`), so there is nothing in the sample that the percentile could be read from.
const P99_COUNT_MIN: u64 = 299;
const P999_COUNT_MIN: u64 = 2_995;
const P9999_COUNT_MIN: u64 = 29_956;

/// Recorded times: count, sum, minimum and maximum exactly, their shape as a histogram of fixed relative error.
///
/// All distributions have the same bounds, so they add and subtract bucket by bucket without loss, in this process and
/// in whatever reads its records. An empty distribution owns no memory; 2 KiB are allocated for every power of two from
/// the shortest time to the longest, and nothing when times like them are recorded again.
// What a usual time touches comes first and fills one line of the processor's cache: its sum, where its counts lie, and which is the first.
#[repr(C, align(64))]
#[derive(Clone, Debug)]
pub struct Distribution {
    /// Of the times of the open second that were usual.
    usual_sum_ns: u64,
    pub(crate) buckets: Buckets,
    /// Without `usual_sum_ns`.
    sum_ns: u128,
    /// Of the times that are not 0; larger than all while there is none.
    pub(crate) min_ns: u64,
    pub(crate) max_ns: u64,
}

const _: () = assert!(std::mem::offset_of!(Distribution, buckets) + Buckets::USUAL_BYTES <= 64);

/// A [`Distribution`] as it is written into records: see `docs/reference/formats.md`. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct DistributionReport {
    /// Recorded times.
    pub count: u64,
    /// Their exact sum.
    #[serde(serialize_with = "wide::serialize")]
    pub sum_ns: u128,
    /// Exact minimum.
    pub min_ns: Option<u64>,
    /// Exact maximum.
    pub max_ns: Option<u64>,
    /// Exact mean.
    pub mean_ns: Option<f64>,
    /// Standard deviation of the histogram.
    pub stddev_ns: Option<f64>,
    /// 1st percentile.
    pub p1_ns: Option<u64>,
    /// 5th percentile.
    pub p5_ns: Option<u64>,
    /// Lower quartile.
    pub p25_ns: Option<u64>,
    /// Median.
    pub p50_ns: Option<u64>,
    /// Upper quartile.
    pub p75_ns: Option<u64>,
    /// 90th percentile.
    pub p90_ns: Option<u64>,
    /// 95th percentile.
    pub p95_ns: Option<u64>,
    /// 99th percentile, withheld below 299 samples.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile, withheld below 2,995 samples.
    pub p999_ns: Option<u64>,
    /// 99.99th percentile, withheld below 29,956 samples.
    pub p9999_ns: Option<u64>,
    /// HdrHistogram V2 compressed encoding in base64.
    pub histogram: Option<String>,
}

impl Default for Distribution {
    fn default() -> Self {
        Self::new()
    }
}

impl Distribution {
    /// An empty distribution.
    pub const fn new() -> Self {
        Self { sum_ns: 0, usual_sum_ns: 0, min_ns: u64::MAX, max_ns: 0, buckets: Buckets::new() }
    }

    /// Records one time.
    #[inline]
    pub fn record(&mut self, nanos: u64) {
        if self.buckets.add_usual(nanos) {
            self.sum_ns += u128::from(nanos);
        } else {
            self.record_unusual(nanos);
        }
    }

    /// Records the time between two moments, if they are in order and it is neither 0 nor among the shortest or the longest; returns whether
    /// it did. Then it changes no extreme, and has its memory.
    ///
    /// Its sum is one of 64 bits, for what is recorded in a second: none of these times is longer than 18 minutes, so it would take
    /// sixteen million of the longest to wrap it.
    #[inline]
    pub(crate) fn record_usual(&mut self, begin: Instant, end: Instant) -> bool {
        self.record_usual_by(Buckets::add_usual, begin, end)
    }

    /// [`Self::record_usual`], of which [`Self::settle`] must be called after [`Self::UNSETTLED_MAX`] calls.
    #[inline]
    pub(crate) fn record_usual_unsettled(&mut self, begin: Instant, end: Instant) -> bool {
        self.record_usual_by(Buckets::add_usual_unsettled, begin, end)
    }

    #[inline]
    fn record_usual_by(
        &mut self,
        add: impl FnOnce(&mut Buckets, u64) -> bool,
        begin: Instant,
        end: Instant,
    ) -> bool {
        // Below zero it is longer than all others, and never usual.
        let nanos = end.as_nanos().wrapping_sub(begin.as_nanos());
        if !add(&mut self.buckets, nanos) {
            return false;
        }
        self.usual_sum_ns = self.usual_sum_ns.wrapping_add(nanos);
        true
    }

    pub(crate) const UNSETTLED_MAX: u16 = Counts::INCREMENTS_MAX;

    /// After this there is room for as many usual times again.
    pub(crate) fn settle(&mut self) {
        self.buckets.settle();
    }

    /// Records `count` times of no length.
    pub(crate) fn record_zeros(&mut self, count: u64) {
        self.buckets.record_zeros(count);
    }

    /// Records the time between two moments, 0 if they are not in order. For a distribution of one second, as `record_usual`.
    #[inline]
    pub fn record_between(&mut self, begin: Instant, end: Instant) {
        if !cfg!(feature = "untimed") && !self.record_usual(begin, end) {
            self.record_unusual(end.saturating_since(begin));
        }
    }

    /// Records one time, wherever it lies.
    #[cold]
    #[inline(never)]
    pub(crate) fn record_unusual(&mut self, nanos: u64) {
        self.buckets.add_time(nanos);
        if nanos > 0 {
            self.min_ns = self.min_ns.min(nanos);
            self.max_ns = self.max_ns.max(nanos);
            self.sum_ns += u128::from(nanos);
        }
    }

    /// An empty one that will hold times like those of `other`.
    pub(crate) fn like(other: &Self) -> Self {
        Self { buckets: Buckets::like(&other.buckets), ..Self::new() }
    }

    /// That of these parts.
    pub(crate) const fn of(sum_ns: u128, [min_ns, max_ns]: [u64; 2], buckets: Buckets) -> Self {
        Self { sum_ns, usual_sum_ns: 0, min_ns, max_ns, buckets }
    }

    /// Adds every time that `other` has recorded.
    pub fn merge(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum();
        self.buckets.add(&other.buckets);
    }

    /// Forgets every recorded time and keeps the memory.
    pub fn clear(&mut self) {
        let mut buckets = std::mem::take(&mut self.buckets);
        buckets.clear();
        *self = Self { buckets, ..Self::new() };
    }

    /// How many times were recorded. Adds up the histogram: recording keeps no count of its own.
    pub fn count(&self) -> u64 {
        self.buckets.count()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.max_ns == 0 && self.buckets.zeros() == 0
    }

    /// The exact sum in nanoseconds.
    pub fn sum(&self) -> u128 {
        self.sum_ns + u128::from(self.usual_sum_ns)
    }

    /// The exact minimum in nanoseconds.
    pub fn min(&self) -> Option<u64> {
        (!self.is_empty()).then(|| self.least())
    }

    fn least(&self) -> u64 {
        if self.buckets.zeros() > 0 { 0 } else { self.min_ns }
    }

    /// The exact maximum in nanoseconds.
    pub fn max(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.max_ns)
    }

    /// The exact mean in nanoseconds.
    pub fn mean(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.sum() as f64 / self.count() as f64)
    }

    /// How many times do not exceed each of `bounds_ns`, which ascend: exact below 2048 ns; above, a time within a thousandth of a
    /// bound may be counted as above it.
    pub fn counts_until(&self, bounds_ns: &[u64]) -> Vec<u64> {
        self.buckets.counts_until(bounds_ns)
    }

    /// The recorded times as a histogram, or nothing if there are none.
    pub fn histogram(&self) -> Option<Histogram<u64>> {
        (!self.is_empty()).then(|| self.buckets.histogram())
    }

    /// The time in nanoseconds that a share `quantile` (0 to 1) of the recorded times does not exceed, within the
    /// histogram's error and never outside minimum and maximum. Small samples are the caller's concern.
    pub fn quantile(&self, quantile: f64) -> Option<u64> {
        (!self.is_empty()).then(|| self.quantiles([quantile])[0])
    }

    /// What records say about this distribution.
    pub fn report(&self) -> DistributionReport {
        if self.is_empty() {
            return DistributionReport::default();
        }
        let count = self.count();
        let [p1, p5, p25, p50, p75, p90, p95, p99, p999, p9999] =
            self.quantiles([0.01, 0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999]);
        DistributionReport {
            count,
            sum_ns: self.sum(),
            min_ns: self.min(),
            max_ns: self.max(),
            mean_ns: self.mean(),
            stddev_ns: Some(self.buckets.deviation()),
            p1_ns: Some(p1),
            p5_ns: Some(p5),
            p25_ns: Some(p25),
            p50_ns: Some(p50),
            p75_ns: Some(p75),
            p90_ns: Some(p90),
            p95_ns: Some(p95),
            p99_ns: (count >= P99_COUNT_MIN).then_some(p99),
            p999_ns: (count >= P999_COUNT_MIN).then_some(p999),
            p9999_ns: (count >= P9999_COUNT_MIN).then_some(p9999),
            histogram: self.histogram().as_ref().map(encode),
        }
    }

    /// Those of shares that ascend. A bucket's upper end may lie beyond the largest time in it.
    fn quantiles<const N: usize>(&self, shares: [f64; N]) -> [u64; N] {
        let count = self.count() as f64;
        let ranks = shares.map(|share| ((share * count).ceil() as u64).max(1));
        self.buckets.at_ranks(ranks).map(|nanos| nanos.clamp(self.least(), self.max_ns))
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.report().serialize(serializer)
    }
}

fn encode(histogram: &Histogram<u64>) -> String {
    let mut encoded = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut encoded)
        .expect("counts fit the encoding's 63 bits, and writing to memory does not fail");
    STANDARD.encode(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::buckets::{BUCKETS_MAX_NS, SIGNIFICANT_DIGITS};
    use hdrhistogram::serialization::Deserializer;
    use proptest::prelude::*;

    fn distribution(times: impl IntoIterator<Item = u64>) -> Distribution {
        let mut distribution = Distribution::new();
        times.into_iter().for_each(|nanos| distribution.record(nanos));
        distribution
    }

    fn decode(report: &DistributionReport) -> Histogram<u64> {
        let encoded = STANDARD.decode(report.histogram.as_ref().unwrap()).unwrap();
        Deserializer::new().deserialize(&mut encoded.as_slice()).unwrap()
    }

    #[test]
    fn an_empty_distribution_says_nothing_but_zero() {
        let mut cleared = distribution([7]);
        cleared.clear();
        for empty in [Distribution::new(), cleared] {
            let value = serde_json::to_value(&empty).unwrap();
            let fields = value.as_object().unwrap();
            assert_eq!(fields.len(), 17);
            for (name, value) in fields {
                match name.as_str() {
                    "count" | "sum_ns" => assert_eq!(value, 0, "{name}"),
                    _ => assert!(value.is_null(), "{name}"),
                }
            }
        }
    }

    #[test]
    fn percentiles_are_withheld_until_the_sample_supports_them() {
        let check = |count, supported: [bool; 3]| {
            let report = distribution(1..=count).report();
            let given =
                [report.p99_ns, report.p999_ns, report.p9999_ns].map(|percentile| percentile.is_some());
            assert_eq!(given, supported, "{count} samples");
            assert!(report.p95_ns.is_some());
        };
        check(298, [false, false, false]);
        check(299, [true, false, false]);
        check(2_994, [true, false, false]);
        check(2_995, [true, true, false]);
        check(29_955, [true, true, false]);
        check(29_956, [true, true, true]);
    }

    #[test]
    fn the_smallest_counts_are_where_the_maximum_exceeds_the_percentile_with_95_percent() {
        for (share, count) in [(0.99f64, P99_COUNT_MIN), (0.999, P999_COUNT_MIN), (0.9999, P9999_COUNT_MIN)] {
            assert!(share.powf(count as f64) < 0.05, "{share}");
            assert!(share.powf((count - 1) as f64) > 0.05, "{share}");
        }
    }

    #[test]
    fn times_beyond_the_histogram_keep_their_exact_sum_and_maximum() {
        let report = distribution([0, u64::MAX, u64::MAX]).report();
        assert_eq!(report.sum_ns, 2 * u128::from(u64::MAX));
        assert_eq!(report.min_ns, Some(0));
        assert_eq!(report.max_ns, Some(u64::MAX));
        assert_eq!(decode(&report).len(), 3);
        assert!(report.p50_ns.unwrap() >= BUCKETS_MAX_NS);
    }

    #[test]
    fn a_constant_has_no_deviation_and_equal_percentiles() {
        let report = distribution([123_456_789; 1000]).report();
        assert_eq!(report.mean_ns, Some(123_456_789.0));
        assert_eq!(report.stddev_ns, Some(0.0));
        for percentile in [report.p1_ns, report.p50_ns, report.p99_ns] {
            assert_eq!(percentile, Some(123_456_789), "clamped to the exact extremes");
        }
    }

    #[test]
    fn cumulative_histograms_subtract_to_what_lies_between_them() {
        let (before, between) = ([5u64, 1_000, 1_000, 70_000_000], [3u64, 1_000, 80_000, 1 << 39]);
        let mut cumulative = distribution(before);
        let first = decode(&cumulative.report());
        between.into_iter().for_each(|nanos| cumulative.record(nanos));
        let mut second = decode(&cumulative.report());
        second.subtract(&first).unwrap();
        assert_eq!(second, decode(&distribution(between).report()));
    }

    #[test]
    fn times_are_counted_up_to_bounds() {
        let times = distribution([0, 1, 999, 1000, 1001, 5_000_000, u64::MAX]);
        assert_eq!(times.counts_until(&[0, 1, 1000, 5_100_000, 1 << 39]), [1, 2, 4, 6, 6]);
        assert_eq!(Distribution::new().counts_until(&[5, 6]), [0, 0]);
    }

    #[test]
    fn encodings_begin_with_the_cookie_of_version_2() {
        assert!(distribution([1]).report().histogram.unwrap().starts_with("HISTFAAAA"));
    }

    fn times() -> impl Strategy<Value = Vec<u64>> {
        let time = prop_oneof![0u64..3000, 0u64..1 << 32, 0u64..=BUCKETS_MAX_NS, any::<u64>()];
        prop::collection::vec(time, 0..60)
    }

    proptest! {
        #[test]
        fn encodings_round_trip(times in times().prop_filter("not empty", |times| !times.is_empty())) {
            let distribution = distribution(times);
            let decoded = decode(&distribution.report());
            prop_assert_eq!(&decoded, &distribution.histogram().unwrap());
            prop_assert_eq!(decoded.high(), BUCKETS_MAX_NS);
            prop_assert_eq!(decoded.sigfig(), SIGNIFICANT_DIGITS);
        }

        #[test]
        fn merging_equals_recording_everything(first in times(), second in times()) {
            let mut merged = distribution(first.iter().copied());
            merged.merge(&distribution(second.iter().copied()));
            let together = distribution(first.into_iter().chain(second));
            prop_assert_eq!(merged.report(), together.report());
        }

        #[test]
        fn quantiles_are_within_the_promised_error(
            mut times in prop::collection::vec(0u64..BUCKETS_MAX_NS, 1..200),
            quantile in 0.0f64..=1.0,
        ) {
            let found = distribution(times.iter().copied()).quantile(quantile).unwrap();
            times.sort_unstable();
            // The rank may fall on either side of a product that is a whole number but for rounding.
            let rank = quantile * times.len() as f64;
            let at = |rank: f64| times[(rank.ceil() as usize).clamp(1, times.len()) - 1] as f64;
            let (low, high) = (at(rank - 1e-6), at(rank + 1e-6));
            prop_assert!(found as f64 >= low && found as f64 <= high * 1.001, "{found} not in {low}..={high}");
        }
    }
}
