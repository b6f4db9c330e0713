//! What one thread has counted and timed; the recorders of all threads merge into one at the end.

use std::collections::BTreeMap;
use std::fmt;

use weir_timing::{Distribution, Instant, Operation, Outcome};

use crate::phase::{Phase, Timeline};

/// Counts by phase, and for the measured phase also by operation and by window.
#[derive(Debug)]
pub(crate) struct Recorder {
    timeline: Timeline,
    phases: [PhaseCounts; Phase::ALL.len()],
    operations: [OperationCounts; Operation::COUNT],
    windows: Vec<WindowCounts>,
    errors: BTreeMap<String, u64>,
    failures: Failures,
    foreign_values: u64,
    /// Response times of all phases since they were last taken, where somebody is watching.
    recent: Option<Distribution>,
}

/// Counts of one phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PhaseCounts {
    /// Requests answered.
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    /// Keys that were not found.
    pub(crate) misses: u64,
    pub(crate) keys: u64,
    pub(crate) failures: u64,
}

/// Counts and times of one operation in the measured phase.
#[derive(Debug, Clone, Default)]
pub(crate) struct OperationCounts {
    pub(crate) requests: u64,
    pub(crate) keys: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) errors: u64,
    pub(crate) response_time: Distribution,
}

/// Counts of one second of the measured phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WindowCounts {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) misses: u64,
    pub(crate) failures: u64,
    pub(crate) response_time_sum_ns: u64,
    pub(crate) operations: [u64; Operation::COUNT],
}

/// Failures over the whole run: their number, and the first ones as text.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Failures {
    /// How many there were.
    pub count: u64,
    /// What the first ones were.
    pub first: Vec<String>,
}

impl Recorder {
    /// Everything is prefill until [`Recorder::set_timeline`]. `watched`: whether recent response times are kept.
    pub(crate) fn new(watched: bool) -> Recorder {
        Recorder {
            timeline: Timeline::PREFILL,
            phases: Default::default(),
            operations: Default::default(),
            windows: Vec::new(),
            errors: BTreeMap::new(),
            failures: Failures::default(),
            foreign_values: 0,
            recent: watched.then(Distribution::new),
        }
    }

    pub(crate) fn set_timeline(&mut self, timeline: Timeline) {
        self.timeline = timeline;
    }

    /// Brings the end of the measured phase forward.
    pub(crate) fn set_end(&mut self, end: Instant) {
        self.timeline.end = end;
    }

    /// A request was answered at `now`. `response_time_ns` is absent where the answer failed verification.
    pub(crate) fn record_answer(
        &mut self,
        now: Instant,
        operation: Operation,
        outcome: Outcome,
        response_time_ns: Option<u64>,
    ) {
        let phase = self.timeline.phase_at(now);
        let counts = &mut self.phases[phase as usize];
        counts.requests += 1;
        counts.keys += u64::from(outcome.keys);
        counts.misses += u64::from(outcome.misses);
        counts.errors += u64::from(outcome.error);
        if let (Some(recent), Some(nanos)) = (&mut self.recent, response_time_ns) {
            recent.record(nanos);
        }
        if phase == Phase::Measured {
            self.record_measured(now, operation, outcome, response_time_ns);
        }
    }

    fn record_measured(
        &mut self,
        now: Instant,
        operation: Operation,
        outcome: Outcome,
        response_time_ns: Option<u64>,
    ) {
        let counts = &mut self.operations[operation.index()];
        counts.requests += 1;
        counts.keys += u64::from(outcome.keys);
        counts.hits += u64::from(outcome.hits);
        counts.misses += u64::from(outcome.misses);
        counts.errors += u64::from(outcome.error);
        if let Some(nanos) = response_time_ns {
            counts.response_time.record(nanos);
        }
        let window = self.window_at(now);
        window.requests += 1;
        window.operations[operation.index()] += 1;
        window.misses += u64::from(outcome.misses);
        window.errors += u64::from(outcome.error);
        window.response_time_sum_ns += response_time_ns.unwrap_or(0);
    }

    /// An error reply came, with this text.
    #[cold]
    pub(crate) fn record_error_text(&mut self, text: &[u8]) {
        let text = crate::verify::text(text);
        if let Some(count) = self.errors.get_mut(&text) {
            *count += 1;
        } else if self.errors.len() < ERROR_TEXTS_MAX {
            self.errors.insert(text, 1);
        } else {
            *self.errors.entry(OTHER_ERRORS.to_owned()).or_default() += 1;
        }
    }

    /// A reply failed verification, did not come, or a connection broke.
    #[cold]
    pub(crate) fn record_failure(&mut self, now: Instant, failure: &dyn fmt::Display) {
        let phase = self.timeline.phase_at(now);
        self.phases[phase as usize].failures += 1;
        if phase == Phase::Measured {
            self.window_at(now).failures += 1;
        }
        self.failures.count += 1;
        if self.failures.first.len() < FAILURE_TEXTS_MAX {
            self.failures.first.push(failure.to_string());
        }
    }

    /// Values were read that another run has written.
    pub(crate) fn record_foreign_values(&mut self, values: u32) {
        self.foreign_values += u64::from(values);
    }

    fn window_at(&mut self, now: Instant) -> &mut WindowCounts {
        let index = (now.saturating_since(self.timeline.measured) / WINDOW_NS) as usize;
        if index >= self.windows.len() {
            self.windows.resize(index + 1, WindowCounts::default());
        }
        &mut self.windows[index]
    }

    /// Adds what another thread has recorded.
    pub(crate) fn merge(&mut self, other: Recorder) {
        for (counts, more) in self.phases.iter_mut().zip(other.phases) {
            counts.add(more);
        }
        for (counts, more) in self.operations.iter_mut().zip(&other.operations) {
            counts.add(more);
        }
        if self.windows.len() < other.windows.len() {
            self.windows.resize(other.windows.len(), WindowCounts::default());
        }
        for (counts, more) in self.windows.iter_mut().zip(&other.windows) {
            counts.add(more);
        }
        for (text, count) in other.errors {
            *self.errors.entry(text).or_default() += count;
        }
        self.failures.count += other.failures.count;
        self.failures.first.extend(other.failures.first);
        self.failures.first.truncate(FAILURE_TEXTS_MAX);
        self.foreign_values += other.foreign_values;
    }

    /// Takes the response times recorded since the last call into `recent`.
    pub(crate) fn take_recent(&mut self, into: &mut Distribution) {
        if let Some(recent) = &mut self.recent {
            into.merge(recent);
            recent.clear();
        }
    }

    /// Counts of one phase.
    pub(crate) fn phase(&self, phase: Phase) -> PhaseCounts {
        self.phases[phase as usize]
    }

    /// Counts of all phases together.
    pub(crate) fn total(&self) -> PhaseCounts {
        let mut total = PhaseCounts::default();
        for counts in self.phases {
            total.add(counts);
        }
        total
    }

    /// Counts and times of one operation in the measured phase.
    pub(crate) fn operation(&self, operation: Operation) -> &OperationCounts {
        &self.operations[operation.index()]
    }

    /// Counts of the window with this index; a window in which nothing happened is all zeros.
    pub(crate) fn window(&self, index: usize) -> WindowCounts {
        self.windows.get(index).copied().unwrap_or_default()
    }

    pub(crate) fn errors(&self) -> &BTreeMap<String, u64> {
        &self.errors
    }

    pub(crate) fn failures(&self) -> &Failures {
        &self.failures
    }

    pub(crate) fn foreign_values(&self) -> u64 {
        self.foreign_values
    }
}

impl PhaseCounts {
    pub(crate) fn add(&mut self, other: PhaseCounts) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.misses += other.misses;
        self.keys += other.keys;
        self.failures += other.failures;
    }
    /// What was counted between `earlier` and this.
    pub(crate) fn since(self, earlier: PhaseCounts) -> PhaseCounts {
        PhaseCounts {
            requests: self.requests - earlier.requests,
            errors: self.errors - earlier.errors,
            misses: self.misses - earlier.misses,
            keys: self.keys - earlier.keys,
            failures: self.failures - earlier.failures,
        }
    }
}

impl OperationCounts {
    pub(crate) fn add(&mut self, other: &OperationCounts) {
        self.requests += other.requests;
        self.keys += other.keys;
        self.hits += other.hits;
        self.misses += other.misses;
        self.errors += other.errors;
        self.response_time.merge(&other.response_time);
    }
}

impl WindowCounts {
    fn add(&mut self, other: &WindowCounts) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.misses += other.misses;
        self.failures += other.failures;
        self.response_time_sum_ns += other.response_time_sum_ns;
        for (count, more) in self.operations.iter_mut().zip(other.operations) {
            *count += more;
        }
    }
}

/// Length of a window.
pub(crate) const WINDOW_NS: u64 = 1_000_000_000;
const FAILURE_TEXTS_MAX: usize = 20;
/// Errors are counted by text. A peer that never says the same twice must not fill memory.
const ERROR_TEXTS_MAX: usize = 64;
const OTHER_ERRORS: &str = "(other errors)";

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn recorder() -> Recorder {
        let mut recorder = Recorder::new(true);
        recorder.set_timeline(Timeline { warmup: at(SECOND), measured: at(2 * SECOND), end: at(6 * SECOND) });
        recorder
    }

    fn hit() -> Outcome {
        Outcome { keys: 1, hits: 1, ..Outcome::default() }
    }

    #[test]
    fn completion_decides_the_phase() {
        let mut recorder = recorder();
        for nanos in [0, SECOND, 2 * SECOND - 1, 2 * SECOND, 6 * SECOND - 1, 6 * SECOND, 6 * SECOND + 1] {
            recorder.record_answer(at(nanos), Operation::Get, hit(), Some(5));
        }
        assert_eq!(Phase::ALL.map(|phase| recorder.phase(phase).requests), [1, 2, 2, 2]);
        assert_eq!(recorder.total().requests, 7);
        assert_eq!(recorder.operation(Operation::Get).requests, 2);
        assert_eq!(recorder.operation(Operation::Get).response_time.count(), 2);
    }

    #[test]
    fn windows_are_seconds_and_silent_ones_are_zero() {
        let mut recorder = recorder();
        recorder.record_answer(at(2 * SECOND), Operation::Get, hit(), Some(7));
        recorder.record_answer(at(3 * SECOND - 1), Operation::Set, hit(), Some(8));
        recorder.record_failure(at(5 * SECOND), &"lost");
        let first = recorder.window(0);
        assert_eq!((first.requests, first.response_time_sum_ns), (2, 15));
        assert_eq!(first.operations[Operation::Set.index()], 1);
        assert_eq!(recorder.window(1), WindowCounts::default());
        assert_eq!(recorder.window(3), WindowCounts { failures: 1, ..WindowCounts::default() });
        assert_eq!(recorder.window(9), WindowCounts::default());
    }

    #[test]
    fn failed_answers_count_without_a_response_time() {
        let mut recorder = recorder();
        recorder.record_answer(
            at(2 * SECOND),
            Operation::Get,
            Outcome { keys: 1, ..Outcome::default() },
            None,
        );
        let counts = recorder.operation(Operation::Get);
        assert_eq!((counts.requests, counts.keys, counts.hits, counts.misses), (1, 1, 0, 0));
        assert!(counts.response_time.is_empty());
    }

    #[test]
    fn merging_adds_everything() {
        let (mut one, mut other) = (recorder(), recorder());
        one.record_answer(at(2 * SECOND), Operation::Get, hit(), Some(1));
        other.record_answer(at(4 * SECOND), Operation::Get, hit(), Some(3));
        other.record_error_text(b"ERROR");
        other.record_failure(at(4 * SECOND), &"torn");
        other.record_foreign_values(2);
        one.merge(other);
        assert_eq!(one.phase(Phase::Measured).requests, 2);
        assert_eq!(one.operation(Operation::Get).response_time.sum(), 4);
        assert_eq!([0, 1, 2].map(|index| one.window(index).requests), [1, 0, 1]);
        assert_eq!(one.failures(), &Failures { count: 1, first: vec!["torn".to_owned()] });
        assert_eq!(one.errors().get("ERROR"), Some(&1));
        assert_eq!(one.foreign_values(), 2);
    }

    #[test]
    fn texts_are_bounded_and_counts_are_not() {
        let mut recorder = recorder();
        for number in 0..100 {
            recorder.record_error_text(format!("SERVER_ERROR {number}").as_bytes());
            recorder.record_failure(at(0), &number);
        }
        assert_eq!(recorder.errors().len(), ERROR_TEXTS_MAX + 1);
        assert_eq!(recorder.errors().values().sum::<u64>(), 100);
        assert_eq!(recorder.failures().count, 100);
        assert_eq!(recorder.failures().first.len(), FAILURE_TEXTS_MAX);
    }

    #[test]
    fn recent_times_are_taken_once() {
        let mut recorder = recorder();
        recorder.record_answer(at(0), Operation::Set, hit(), Some(9));
        let mut recent = Distribution::new();
        recorder.take_recent(&mut recent);
        recorder.take_recent(&mut recent);
        assert_eq!((recent.count(), recent.sum()), (1, 9));
    }
}
