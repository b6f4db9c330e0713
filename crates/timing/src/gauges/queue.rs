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
    /// Sum of the instants at which requests left less those at which they entered, in nanoseconds, modulo 2^64.
    ///
    /// The integral of the length since an earlier moment is the growth of `length × now + stays_ns` since then. Modulo 2^64 that is
    /// exact within a window, where no integral comes near 2^63; so a change costs one addition, and windows add up in 128 bits.
    stays_ns: u64,
    /// The end of the window in which the last change lies.
    ends: Instant,
    /// The gauge as it was when that window began.
    at_begin: QueueReport,
    /// `length × now + stays_ns` at that moment.
    level_at_begin: u64,
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
            stays_ns: 0,
            ends: window::end_of(window::index_at(now)),
            at_begin: QueueReport::default(),
            level_at_begin: 0,
        }
    }

    /// A request enters.
    #[inline]
    pub fn enter(&mut self, now: Instant) {
        self.come(1, now);
        self.arrivals += 1;
        self.length_met_sum += u128::from(self.length);
        self.length += 1;
        self.length_max = self.length_max.max(self.length);
    }

    /// `count` requests enter at once, one behind the other.
    #[inline]
    pub fn enter_many(&mut self, count: u64, now: Instant) {
        self.come(count, now);
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

    /// `count` requests leave at once.
    #[inline]
    pub fn leave_many(&mut self, count: u64, now: Instant) {
        debug_assert!(self.length >= count, "a request left a queue that was empty");
        self.go(count, now);
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
            length_time_integral_ns: self.at_begin.length_time_integral_ns + self.integral_since_begin(now),
            length_max: self.length_max,
        }
    }

    /// The gauge as it was at the end of window `index`. It is exact until a change in a later window than the next one. Then it is the
    /// gauge at the end of the last window before that change.
    pub fn report_at_end(&self, index: u64) -> QueueReport {
        let end = window::end_of(index);
        if self.ends <= end { self.report(end) } else { self.at_begin }
    }

    #[inline]
    fn come(&mut self, count: u64, now: Instant) {
        if !cfg!(feature = "untimed") {
            self.begin_window_if_over(now);
            self.stays_ns = self.stays_ns.wrapping_sub(now.as_nanos().wrapping_mul(count));
        }
    }

    #[inline]
    fn go(&mut self, count: u64, now: Instant) {
        if !cfg!(feature = "untimed") {
            self.begin_window_if_over(now);
            self.stays_ns = self.stays_ns.wrapping_add(now.as_nanos().wrapping_mul(count));
        }
    }

    #[inline]
    fn begin_window_if_over(&mut self, now: Instant) {
        if now >= self.ends {
            self.begin_window(now);
        }
    }

    #[cold]
    fn begin_window(&mut self, now: Instant) {
        let index = window::index_at(now);
        let begin = Instant::from_nanos(index.saturating_mul(window::WINDOW_NS));
        self.at_begin = self.report(begin);
        self.level_at_begin = self.level(begin);
        self.ends = window::end_of(index);
    }

    fn level(&self, now: Instant) -> u64 {
        self.length.wrapping_mul(now.as_nanos()).wrapping_add(self.stays_ns)
    }

    /// The integral since the window of the last change began. Nothing changed after that window.
    fn integral_since_begin(&self, now: Instant) -> u128 {
        let in_window = self.level(now.min(self.ends)).wrapping_sub(self.level_at_begin);
        // Below zero, as a number with a sign, if the clock was set back meanwhile.
        let in_window = in_window.cast_signed().max(0).cast_unsigned();
        u128::from(in_window) + u128::from(self.length) * u128::from(now.saturating_since(self.ends))
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

    #[test]
    fn hours_with_a_million_requests_are_counted() {
        let (million, hour_ns) = (1_000_000, 3_600_000_000_000);
        let mut gauge = QueueGauge::new(at(7));
        gauge.enter_many(million, at(7));
        let day = u128::from(million) * u128::from(24 * hour_ns);
        assert!(day > u128::from(u64::MAX));
        assert_eq!(gauge.report(at(7 + 24 * hour_ns)).length_time_integral_ns, day);
        gauge.leave_many(million, at(7 + 24 * hour_ns));
        assert_eq!(gauge.report(at(8 + 24 * hour_ns)).length_time_integral_ns, day);
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_turn_the_integral_around() {
        let mut gauge = QueueGauge::new(at(100));
        gauge.enter(at(100));
        gauge.leave(at(90));
        assert_eq!(gauge.report(at(100)).length_time_integral_ns, 0);
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

        /// The integral as its definition says: length times time, from change to change, cut where windows end.
        #[test]
        fn the_integral_is_that_of_the_length(
            steps in prop::collection::vec((0u64..700_000_000, 0u64..4, any::<bool>()), 1..40),
            start in 0u64..u64::MAX / 2,
        ) {
            let mut gauge = QueueGauge::new(at(start));
            let (mut now, mut length, mut integral) = (start, 0, 0u128);
            let (mut window, mut at_end) = (window::index_at(at(start)), None);
            for (pause, count, enters) in steps {
                now += pause;
                let ends = window::end_of(window).as_nanos();
                let begins = now - now % window::WINDOW_NS;
                if now >= ends {
                    at_end = Some(integral + u128::from(length) * u128::from(begins - (now - pause)));
                    window = window::index_at(at(now));
                }
                integral += u128::from(length) * u128::from(pause);
                let count = if enters { count } else { count.min(length) };
                if enters { gauge.enter_many(count, at(now)) } else { gauge.leave_many(count, at(now)) }
                length = if enters { length + count } else { length - count };
                prop_assert_eq!(gauge.report(at(now)).length_time_integral_ns, integral);
                let later = gauge.report(at(now + 5_000_000_000)).length_time_integral_ns;
                prop_assert_eq!(later, integral + u128::from(length) * 5_000_000_000);
                if let Some(expected) = at_end {
                    prop_assert_eq!(gauge.report_at_end(window - 1).length_time_integral_ns, expected);
                }
            }
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
