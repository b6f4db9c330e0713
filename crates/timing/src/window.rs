use std::collections::VecDeque;

use crate::stamps::Stage;
use crate::{Instant, Measurements, Operation};

/// Length of a window in nanoseconds: windows are seconds of the process's clock, so that the windows of all loops
/// coincide.
pub(crate) const WINDOW_NS: u64 = 1_000_000_000;

/// How many closed windows are kept: two minutes, several times what a scraper waits between two visits.
pub(crate) const WINDOWS_MAX: usize = 120;

/// One second of counts and sums, as a report holds them. The histograms of a second are in its
/// [`EndedWindow`](crate::EndedWindow).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The window covers this second since [`Instant::ZERO`], counted from 0.
    pub index: u64,
    counts: [WindowCounts; Operation::COUNT],
}

/// What happened to the requests of one operation that were answered in one window.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowCounts {
    /// Requests answered.
    pub requests: u64,
    /// Of them, those answered with an error.
    pub errors: u64,
    /// Sum of each stage's length in nanoseconds, in the order of [`Stage::ALL`].
    pub stage_sum_ns: [u64; Stage::COUNT],
    /// Sum of the totals in nanoseconds.
    pub total_sum_ns: u64,
}

impl Window {
    pub(crate) const fn empty(index: u64) -> Self {
        let none = WindowCounts { requests: 0, errors: 0, stage_sum_ns: [0; Stage::COUNT], total_sum_ns: 0 };
        Self { index, counts: [none; Operation::COUNT] }
    }

    /// What happened to requests of `operation`.
    pub fn counts(&self, operation: Operation) -> &WindowCounts {
        &self.counts[operation.index()]
    }

    /// Start of the window in nanoseconds since [`Instant::ZERO`].
    pub fn start_ns(&self) -> u64 {
        self.index.saturating_mul(WINDOW_NS)
    }

    /// Length of the window in nanoseconds.
    pub fn length_ns(&self) -> u64 {
        WINDOW_NS
    }

    /// What `measured` says about the requests of one window.
    fn of(index: u64, measured: &Measurements) -> Self {
        let mut window = Self::empty(index);
        for (counts, report) in window.counts.iter_mut().zip(measured.operations.iter()) {
            counts.requests = report.requests;
            counts.errors = report.errors;
            let stages = Stage::ALL.map(|stage| clip(report.stage(stage).sum()));
            counts.add_times(&stages, clip(report.total.sum()));
        }
        window
    }

    fn merge(&mut self, other: &Self) {
        for (counts, other) in self.counts.iter_mut().zip(&other.counts) {
            counts.requests += other.requests;
            counts.errors += other.errors;
            counts.add_times(&other.stage_sum_ns, other.total_sum_ns);
        }
    }
}

impl WindowCounts {
    /// A second of sums leaves 64 bits only if stamps are nonsense; then they stay at the end of the scale.
    fn add_times(&mut self, stages: &[u64; Stage::COUNT], total: u64) {
        for (sum, nanos) in self.stage_sum_ns.iter_mut().zip(stages) {
            *sum = sum.saturating_add(*nanos);
        }
        self.total_sum_ns = self.total_sum_ns.saturating_add(total);
    }
}

fn clip(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

/// The windows of one loop: which one is open, and the last closed ones.
#[derive(Debug)]
pub(crate) struct WindowRing {
    open: u64,
    /// The moment at which the open window is over.
    open_ends: Instant,
    closed: ClosedWindows,
}

/// Closed windows without gaps, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct ClosedWindows {
    rows: VecDeque<Window>,
    /// No window from this index on has been dropped. Before it something may be missing.
    complete_from: u64,
    /// Windows up to this index, itself not included, are closed.
    complete_until: u64,
}

impl WindowRing {
    pub(crate) fn new(now: Instant) -> Self {
        let index = index_at(now);
        Self {
            open: index,
            open_ends: end_of(index),
            closed: ClosedWindows {
                rows: VecDeque::with_capacity(WINDOWS_MAX),
                complete_from: 0,
                complete_until: index,
            },
        }
    }

    /// The window that is open.
    pub(crate) fn open(&self) -> u64 {
        self.open
    }

    /// When it is over.
    #[inline]
    pub(crate) fn open_ends(&self) -> Instant {
        self.open_ends
    }

    pub(crate) fn closed(&self) -> &ClosedWindows {
        &self.closed
    }

    /// Closes the open window, in which `measured` was measured, and the empty ones after it, so that the one of `now` is open.
    /// After a jump of hours only the windows that will be kept are touched.
    pub(crate) fn close_until(&mut self, now: Instant, measured: &Measurements) {
        let index = index_at(now);
        let first_kept = index.saturating_sub(WINDOWS_MAX as u64);
        self.closed.push(Window::of(self.open, measured));
        for empty in (self.open + 1).max(first_kept)..index {
            self.closed.push(Window::empty(empty));
        }
        self.open = index;
        self.open_ends = end_of(index);
        self.closed.complete_until = index;
        self.closed.drop_before(first_kept);
    }
}

impl ClosedWindows {
    /// Windows of no loop at all: neutral in [`Self::merge`].
    pub(crate) const fn none() -> Self {
        Self { rows: VecDeque::new(), complete_from: 0, complete_until: u64::MAX }
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Window> {
        self.rows.iter()
    }

    /// Adds the windows of another loop. Only seconds that are closed and kept in both stay, because half a sum would
    /// look like a dip; a loop that did not run yet in some second counts there with nothing.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.complete_from = self.complete_from.max(other.complete_from);
        self.complete_until = self.complete_until.min(other.complete_until);
        let first = match (self.rows.front(), other.rows.front()) {
            (Some(mine), Some(theirs)) => mine.index.min(theirs.index),
            (Some(only), None) | (None, Some(only)) => only.index,
            (None, None) => self.complete_until,
        };
        let range = first.max(self.complete_from)..self.complete_until;
        let mut merged: VecDeque<Window> = range.map(Window::empty).collect();
        for window in self.rows.iter().chain(&other.rows) {
            let place = window.index.checked_sub(first.max(self.complete_from)).map(|place| place as usize);
            if let Some(sum) = place.and_then(|place| merged.get_mut(place)) {
                sum.merge(window);
            }
        }
        self.rows = merged;
    }

    fn push(&mut self, window: Window) {
        if self.rows.len() == WINDOWS_MAX {
            self.rows.pop_front();
            self.complete_from = window.index.saturating_sub(WINDOWS_MAX as u64 - 1);
        }
        self.rows.push_back(window);
    }

    fn drop_before(&mut self, index: u64) {
        while self.rows.front().is_some_and(|window| window.index < index) {
            self.rows.pop_front();
            self.complete_from = index;
        }
    }
}

/// The window in which `now` lies.
pub(crate) fn index_at(now: Instant) -> u64 {
    now.as_nanos() / WINDOW_NS
}

/// Where a window ends, and the next one begins.
pub(crate) fn end_of(index: u64) -> Instant {
    Instant::from_nanos(index.saturating_add(1).saturating_mul(WINDOW_NS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;

    fn seconds(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * WINDOW_NS)
    }

    /// A ring, and what was measured in its open window.
    struct Loop {
        ring: WindowRing,
        open: Measurements,
    }

    impl Loop {
        fn new(now: Instant) -> Self {
            Self { ring: WindowRing::new(now), open: Measurements::default() }
        }

        fn advance(&mut self, now: Instant) {
            if now >= self.ring.open_ends() {
                self.ring.close_until(now, &std::mem::take(&mut self.open));
            }
        }

        fn closed(&self) -> &ClosedWindows {
            self.ring.closed()
        }
    }

    fn record(ring: &mut Loop, now: Instant) {
        ring.advance(now);
        ring.open.operations[Operation::Get.index()].count(Operation::Get, Outcome::default());
    }

    /// Index and requests of each closed window.
    fn rows(windows: &ClosedWindows) -> Vec<(u64, u64)> {
        windows.iter().map(|window| (window.index, window.counts(Operation::Get).requests)).collect()
    }

    #[test]
    fn a_window_covers_one_second_of_the_clock_and_its_end_belongs_to_the_next() {
        let mut ring = Loop::new(Instant::from_nanos(3_500_000_000));
        record(&mut ring, Instant::from_nanos(3_999_999_999));
        assert_eq!(rows(ring.closed()), []);
        record(&mut ring, seconds(4));
        assert_eq!(rows(ring.closed()), [(3, 1)]);
        ring.advance(seconds(7));
        assert_eq!(rows(ring.closed()), [(3, 1), (4, 1), (5, 0), (6, 0)]);
    }

    #[test]
    fn only_the_last_windows_are_kept() {
        let mut ring = Loop::new(seconds(0));
        (0..500).for_each(|second| record(&mut ring, seconds(second)));
        ring.advance(seconds(500));
        assert_eq!(rows(ring.closed()), (380..500).map(|index| (index, 1)).collect::<Vec<_>>());
    }

    #[test]
    fn a_jump_of_many_hours_leaves_two_minutes_of_zeros() {
        let mut ring = Loop::new(seconds(0));
        record(&mut ring, seconds(0));
        let far = u64::MAX / WINDOW_NS;
        ring.advance(Instant::from_nanos(u64::MAX));
        assert_eq!(rows(ring.closed()), (far - 120..far).map(|index| (index, 0)).collect::<Vec<_>>());
        ring.advance(Instant::from_nanos(u64::MAX));
        assert_eq!(ring.closed().rows.len(), WINDOWS_MAX);
    }

    #[test]
    fn a_jump_of_exactly_two_minutes_keeps_the_last_used_window() {
        let mut ring = Loop::new(seconds(0));
        record(&mut ring, seconds(5));
        ring.advance(seconds(125));
        assert_eq!(rows(ring.closed())[0], (5, 1));
        assert_eq!(rows(ring.closed()).len(), WINDOWS_MAX);
        ring.advance(seconds(126));
        assert_eq!(rows(ring.closed())[0], (6, 0));
    }

    #[test]
    fn merging_keeps_what_both_loops_have_closed() {
        let mut early = Loop::new(seconds(0));
        let mut late = Loop::new(seconds(2));
        (0..6).for_each(|second| record(&mut early, seconds(second)));
        (2..5).for_each(|second| record(&mut late, seconds(second)));
        let mut merged = ClosedWindows::none();
        merged.merge(early.closed());
        assert_eq!(rows(&merged), rows(early.closed()));
        merged.merge(late.closed());
        assert_eq!(rows(&merged), [(0, 1), (1, 1), (2, 2), (3, 2)]);
    }

    #[test]
    fn merging_leaves_out_seconds_that_one_loop_has_dropped() {
        let mut ahead = Loop::new(seconds(0));
        let mut behind = Loop::new(seconds(0));
        (0..=151).for_each(|second| record(&mut ahead, seconds(second)));
        (0..=150).for_each(|second| record(&mut behind, seconds(second)));
        let mut merged = behind.closed().clone();
        merged.merge(ahead.closed());
        assert_eq!(rows(&merged), (31..150).map(|index| (index, 2)).collect::<Vec<_>>());
    }

    #[test]
    fn merging_loops_without_closed_windows_gives_none() {
        let mut merged = ClosedWindows::none();
        merged.merge(Loop::new(seconds(3)).closed());
        merged.merge(Loop::new(seconds(4)).closed());
        assert_eq!(rows(&merged), []);
    }
}
