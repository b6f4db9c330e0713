//! How late frames left: a histogram in microseconds, exact to one. Negative is early.

use serde::Serialize;

/// What the histogram distinguishes: from a millisecond early to ten milliseconds late. What is outside counts as the end that it lies
/// beyond, and in `beyond`.
const EARLIEST_US: i64 = -1_000;
const LATEST_US: i64 = 10_000;

/// Counts per microsecond.
#[derive(Debug)]
pub(crate) struct Lateness {
    counts: Vec<u64>,
    count: u64,
    beyond: u64,
    latest_ns: i64,
}

/// What it says of a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Summary {
    pub(crate) count: u64,
    pub(crate) p1_us: i64,
    pub(crate) median_us: i64,
    pub(crate) p90_us: i64,
    pub(crate) p99_us: i64,
    pub(crate) p999_us: i64,
    pub(crate) max_us: i64,
    /// Frames that were so early or late that the histogram does not distinguish them.
    pub(crate) beyond: u64,
}

impl Lateness {
    pub(crate) fn new() -> Lateness {
        let counts = vec![0; (LATEST_US - EARLIEST_US) as usize + 1];
        Lateness { counts, count: 0, beyond: 0, latest_ns: i64::MIN }
    }

    pub(crate) fn record(&mut self, late_ns: i64) {
        let late_us = late_ns.div_euclid(1_000);
        let within = late_us.clamp(EARLIEST_US, LATEST_US);
        self.beyond += u64::from(within != late_us);
        self.counts[(within - EARLIEST_US) as usize] += 1;
        self.count += 1;
        self.latest_ns = self.latest_ns.max(late_ns);
    }

    /// Says what was recorded, and begins anew; `None` where nothing was.
    pub(crate) fn take(&mut self) -> Option<Summary> {
        let before = std::mem::replace(self, Lateness::new());
        (before.count > 0).then(|| Summary {
            count: before.count,
            p1_us: before.quantile_us(0.01),
            median_us: before.quantile_us(0.5),
            p90_us: before.quantile_us(0.9),
            p99_us: before.quantile_us(0.99),
            p999_us: before.quantile_us(0.999),
            max_us: before.latest_ns.div_euclid(1_000),
            beyond: before.beyond,
        })
    }

    /// The smallest value that a share of all does not exceed.
    fn quantile_us(&self, share: f64) -> i64 {
        let wanted = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(LATEST_US, |index| index as i64 + EARLIEST_US)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_what_was_recorded() {
        let mut lateness = Lateness::new();
        (0..1_000).for_each(|number| lateness.record((number - 100) * 1_000 + 500));
        let summary = lateness.take().expect("recorded");
        assert_eq!((summary.count, summary.beyond), (1_000, 0));
        assert_eq!((summary.p1_us, summary.median_us, summary.p99_us, summary.max_us), (-91, 399, 889, 899));
        assert_eq!(lateness.take(), None, "a new period");
    }

    #[test]
    fn what_is_far_off_is_counted_at_the_end() {
        let mut lateness = Lateness::new();
        lateness.record(-5_000_000);
        lateness.record(20_000_000);
        let summary = lateness.take().expect("recorded");
        assert_eq!(
            (summary.p1_us, summary.p99_us, summary.max_us, summary.beyond),
            (-1_000, 10_000, 20_000, 2)
        );
    }
}
