use std::ops::AddAssign;

use serde::Serialize;

use crate::{Instant, wide, window};

/// The length of one queue, as arrivals meet it and as it is on average over time.
///
/// The two differ wherever arrivals are not a Poisson stream, above all in a closed system, where a client waits for
/// its reply before it asks again; so both are kept.
#[derive(Clone, Debug)]
pub struct QueueGauge {
    length: u64,
    length_max: u64,
    arrivals: u64,
    length_met_sum: u128,
    length_time_integral_ns: u128,
    changed: Instant,
    /// The end of the window in which `changed` lies.
    ends: Instant,
    /// The gauge as it was when that window began.
    at_begin: QueueReport,
}

/// A [`QueueGauge`] at one moment; everything but `length` and `length_max` counts from the gauge's beginning.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueReport {
    /// Requests in the queue now.
    pub length: u64,
    /// Requests that entered.
    pub arrivals: u64,
    /// Sum over arrivals of the length that each met, itself not counted.
    #[serde(serialize_with = "wide::serialize")]
    pub length_met_sum: u128,
    /// Integral of the length over time, in requests times nanoseconds.
    #[serde(serialize_with = "wide::serialize")]
    pub length_time_integral_ns: u128,
    /// Largest length so far; of several merged queues, that of the queue that was longest.
    pub length_max: u64,
}

impl QueueGauge {
    /// An empty queue, observed from `now` on.
    pub fn new(now: Instant) -> Self {
        Self {
            length: 0,
            length_max: 0,
            arrivals: 0,
            length_met_sum: 0,
            length_time_integral_ns: 0,
            changed: now,
            ends: window::end_of(window::index_at(now)),
            at_begin: QueueReport::default(),
        }
    }

    /// A request enters.
    #[inline]
    pub fn enter(&mut self, now: Instant) {
        self.integrate(now);
        self.arrivals += 1;
        self.length_met_sum += u128::from(self.length);
        self.length += 1;
        self.length_max = self.length_max.max(self.length);
    }

    /// So many requests enter at once, one behind the other.
    pub fn enter_many(&mut self, count: u64, now: Instant) {
        self.integrate(now);
        let (met_by_first, among_them) =
            (u128::from(self.length), u128::from(count) * u128::from(count.saturating_sub(1)) / 2);
        self.arrivals += count;
        self.length_met_sum += u128::from(count) * met_by_first + among_them;
        self.length += count;
        self.length_max = self.length_max.max(self.length);
    }

    /// A request leaves.
    #[inline]
    pub fn leave(&mut self, now: Instant) {
        self.leave_many(1, now);
    }

    /// So many requests leave at once.
    #[inline]
    pub fn leave_many(&mut self, count: u64, now: Instant) {
        debug_assert!(self.length >= count, "a request left a queue that was empty");
        self.integrate(now);
        self.length = self.length.saturating_sub(count);
    }

    /// Requests in the queue now.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The gauge at `now`.
    pub fn report(&self, now: Instant) -> QueueReport {
        QueueReport {
            length: self.length,
            arrivals: self.arrivals,
            length_met_sum: self.length_met_sum,
            length_time_integral_ns: self.length_time_integral_ns + self.since_change(now),
            length_max: self.length_max,
        }
    }

    /// The gauge as it was at the end of window `index`: exact until a change in a later window than the next one; then it is the
    /// gauge at the end of the last window before that change.
    pub fn report_at_end(&self, index: u64) -> QueueReport {
        let end = window::end_of(index);
        if self.changed < end { self.report(end) } else { self.at_begin }
    }

    #[inline]
    fn integrate(&mut self, now: Instant) {
        if cfg!(feature = "untimed") || now == self.changed {
            // Most changes come in batches that share one instant.
            return;
        }
        if now >= self.ends {
            self.begin_window(now);
        }
        self.length_time_integral_ns += self.since_change(now);
        self.changed = self.changed.max(now);
    }

    #[cold]
    fn begin_window(&mut self, now: Instant) {
        let index = window::index_at(now);
        self.at_begin = self.report(Instant::from_nanos(index.saturating_mul(window::WINDOW_NS)));
        self.ends = window::end_of(index);
    }

    fn since_change(&self, now: Instant) -> u128 {
        u128::from(self.length) * u128::from(now.saturating_since(self.changed))
    }
}

impl QueueReport {
    /// What happened between `earlier` and here. The lengths are those at the end.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            length: self.length,
            arrivals: self.arrivals.saturating_sub(earlier.arrivals),
            length_met_sum: self.length_met_sum.saturating_sub(earlier.length_met_sum),
            length_time_integral_ns: self
                .length_time_integral_ns
                .saturating_sub(earlier.length_time_integral_ns),
            length_max: self.length_max,
        }
    }
}

impl AddAssign for QueueReport {
    fn add_assign(&mut self, other: Self) {
        self.length += other.length;
        self.arrivals += other.arrivals;
        self.length_met_sum += other.length_met_sum;
        self.length_time_integral_ns += other.length_time_integral_ns;
        self.length_max = self.length_max.max(other.length_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn a_window_ends_where_it_ends_whenever_it_is_asked_for() {
        let second = |tenths: u64| at(tenths * window::WINDOW_NS / 10);
        let mut gauge = QueueGauge::new(second(0));
        gauge.enter(second(5));
        let half = u128::from(window::WINDOW_NS / 2);
        assert_eq!(gauge.report_at_end(0).length_time_integral_ns, half, "nothing happened since");
        gauge.enter(second(12));
        gauge.leave(second(15));
        let first = gauge.report_at_end(0);
        assert_eq!((first.length, first.arrivals, first.length_time_integral_ns), (1, 1, half));
        gauge.leave(second(25));
        let second_window = gauge.report_at_end(1).since(&first);
        assert_eq!((second_window.length, second_window.arrivals, second_window.length_met_sum), (1, 1, 1));
        assert_eq!(second_window.length_time_integral_ns, u128::from(window::WINDOW_NS / 10 * 13));
        let third = gauge.report_at_end(2).since(&gauge.report_at_end(1));
        assert_eq!((third.length, third.length_time_integral_ns), (0, half));
    }

    #[test]
    fn length_is_met_by_arrivals_and_integrated_over_time() {
        let mut gauge = QueueGauge::new(at(100));
        gauge.enter(at(110)); // meets 0
        gauge.enter(at(120)); // meets 1; one request for 10 ns
        gauge.enter(at(120)); // meets 2
        gauge.leave(at(150)); // three requests for 30 ns
        let report = gauge.report(at(160)); // two requests for 10 ns
        let expected = QueueReport {
            length: 2,
            arrivals: 3,
            length_met_sum: 3,
            length_time_integral_ns: 10 + 90 + 20,
            length_max: 3,
        };
        assert_eq!(report, expected);
        assert_eq!(gauge.report(at(160)), expected, "a report changes nothing");
    }

    #[test]
    fn merged_reports_add_up_and_keep_the_longest() {
        let mut first = QueueGauge::new(at(0));
        first.enter(at(0));
        let mut second = QueueGauge::new(at(0));
        second.enter(at(0));
        second.enter(at(5));
        let mut merged = first.report(at(10));
        merged += second.report(at(10));
        assert_eq!(
            serde_json::to_value(merged).unwrap(),
            serde_json::json!({ "length": 3, "arrivals": 3, "length_met_sum": 1,
                                "length_time_integral_ns": 10 + 5 + 10, "length_max": 2 })
        );
    }

    #[test]
    fn a_sum_beyond_64_bits_is_still_written() {
        let report = QueueReport { length_time_integral_ns: 1 << 70, ..QueueReport::default() };
        let value = serde_json::to_value(report).unwrap();
        assert_eq!(value["length_time_integral_ns"].as_f64(), Some(2f64.powi(70)));
    }

    proptest! {
        #[test]
        fn many_at_once_are_as_many_one_after_the_other(before in 0u64..5, count in 0u64..50, leaving in 0u64..50) {
            let (mut one_by_one, mut at_once) = (QueueGauge::new(at(0)), QueueGauge::new(at(0)));
            at_once.enter_many(before, at(3));
            at_once.enter_many(count, at(10));
            at_once.leave_many(leaving.min(count), at(17));
            (0..before).for_each(|_| one_by_one.enter(at(3)));
            (0..count).for_each(|_| one_by_one.enter(at(10)));
            (0..leaving.min(count)).for_each(|_| one_by_one.leave(at(17)));
            prop_assert_eq!(one_by_one.report(at(20)), at_once.report(at(20)));
        }

        /// Little's law holds exactly when a queue starts and ends empty: the integral of the length over time is the
        /// sum of the times that requests spent in it.
        #[test]
        fn integral_equals_the_sum_of_residence_times(stays in prop::collection::vec((0u64..1000, 0u64..1000), 0..50)) {
            let mut events: Vec<(u64, bool)> =
                stays.iter().flat_map(|&(start, length)| [(start, true), (start + length, false)]).collect();
            events.sort_by_key(|&(time, enters)| (time, !enters));
            let mut gauge = QueueGauge::new(Instant::ZERO);
            for (time, enters) in events {
                if enters { gauge.enter(at(time)) } else { gauge.leave(at(time)) }
            }
            let report = gauge.report(at(5000));
            prop_assert_eq!(report.length, 0);
            let residence: u128 = stays.iter().map(|&(_, length)| u128::from(length)).sum();
            prop_assert_eq!(report.length_time_integral_ns, residence);
        }
    }
}
