//! What one thread has counted and timed; the recorders of all threads merge into one at the end.
//!
//! The phases of a run stand in `phase`; response times second by second in `intervals`, and as a log of them in `hdr`.

pub(crate) mod hdr;
pub(crate) mod intervals;
pub(crate) mod phase;

use std::collections::BTreeMap;
use std::fmt;

use weir_timing::{Distribution, Instant, Operation};

use crate::recorder::intervals::{Interval, Intervals};
use crate::recorder::phase::{Phase, Timeline};

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
    scheduled: ScheduledCounts,
    under_way: UnderWay,
    late_after_ns: u64,
    /// For how long this thread had nothing to do in the measured phase.
    waited_ns: u64,
    /// For how long each of the threads merged into this had.
    threads_waited_ns: Vec<u64>,
    /// Response times of all phases since they were last taken, where somebody is watching.
    recent: Option<Distribution>,
    /// Response times of the measured phase by second of completion, where somebody wants them.
    intervals: Option<Intervals>,
}

/// The times of one answered request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Times {
    /// The moment that decides on phase and window: in a closed loop that of completion, in an open loop the intended one.
    pub(crate) belongs_to: Instant,
    /// When the read that brought the end of the reply had returned.
    pub(crate) completed: Instant,
    /// Until completion from the intended moment in an open loop, from sending in a closed one.
    pub(crate) response_time_ns: u64,
    /// Open loop: until completion from sending.
    pub(crate) from_send_ns: Option<u64>,
}

/// How one request went, as its verification has found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// It was answered with an error line.
    pub(crate) error: bool,
    /// Keys that it named.
    pub(crate) keys: u32,
    pub(crate) hits: u32,
    pub(crate) misses: u32,
    /// Another answer had asked for it: it was no arrival.
    pub(crate) is_follow_up: bool,
}

/// What became of scheduled requests in the measured phase: arrivals of an open loop, or clients that had finished thinking.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScheduledCounts {
    /// Requests that were to be sent.
    pub(crate) arrivals: u64,
    /// Of them, those that never were, because the backlog was full, the connection given up or the time for draining over.
    pub(crate) unsent: u64,
    /// Of them, those that the generator sent late, or did not come to.
    pub(crate) late: u64,
    /// For how long the generator alone was to blame that a request was not sent yet.
    pub(crate) lateness: Distribution,
    /// The longest backlog that an arrival met on its connection.
    pub(crate) backlog_max: u64,
    /// Requests of any moment that were answered in the measured phase, without those that answers had asked for.
    pub(crate) completed: u64,
    /// Of the arrivals, those that were answered within the measured phase.
    in_time: u64,
    /// Of the arrivals, those that were answered after its end: for how long each had been due then.
    ages_at_end: Distribution,
}

impl ScheduledCounts {
    /// Of the arrivals, those that were answered within the measured phase, or were due for at most so long at its end.
    pub(crate) fn in_time(&self, young_ns: u64) -> u64 {
        self.in_time + self.ages_at_end.counts_until(&[young_ns])[0]
    }

    /// For tests: how many were in time, and for how long others had been due at the end.
    #[cfg(test)]
    pub(crate) fn answered(in_time: u64, ages_at_end: &[u64]) -> Self {
        let mut counts = Self { in_time, ..Self::default() };
        ages_at_end.iter().for_each(|&age_ns| counts.ages_at_end.record(age_ns));
        counts
    }
}

/// Requests of a closed loop that were sent before the measured phase ended and rightly answered after it. They belong to what comes after,
/// so that no distribution has their times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct UnderWay {
    requests: u64,
    slowest_ns: u64,
}

impl UnderWay {
    /// How many there were, and the longest of their response times in nanoseconds.
    pub(crate) const fn slowest(self) -> (u64, u64) {
        (self.requests, self.slowest_ns)
    }
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
    /// Requests of any moment that were completed in the measured phase.
    pub(crate) completed: u64,
    pub(crate) response_time: Distribution,
    /// Open loop: from sending, as who does not know the intended moments would have measured it.
    pub(crate) response_time_from_send: Distribution,
}

/// Counts of one second of the measured phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WindowCounts {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) misses: u64,
    pub(crate) failures: u64,
    pub(crate) response_time_sum_ns: u64,
    /// Requests of any moment that were completed in this second.
    pub(crate) completed: u64,
    /// Scheduled requests that were to be sent in this second.
    pub(crate) arrivals: u64,
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
            scheduled: ScheduledCounts::default(),
            under_way: UnderWay::default(),
            late_after_ns: u64::MAX,
            waited_ns: 0,
            threads_waited_ns: Vec::new(),
            recent: watched.then(Distribution::new),
            intervals: None,
        }
    }

    /// From now on, what is sent later than this counts as late.
    pub(crate) fn set_late_after(&mut self, nanos: u64) {
        self.late_after_ns = nanos;
    }

    /// From now on, response times are also kept by second, for [`Recorder::take_intervals`].
    pub(crate) fn keep_intervals(&mut self) {
        self.intervals = Some(Intervals::default());
    }

    pub(crate) fn set_timeline(&mut self, timeline: Timeline) {
        self.timeline = timeline;
        // The windows of the usual run, so that none asks for memory while it goes on.
        self.windows.reserve((timeline.measured_ns() / WINDOW_NS + 1).min(WINDOWS_RESERVED) as usize);
    }

    /// Brings the end of the measured phase forward.
    pub(crate) fn set_end(&mut self, end: Instant) {
        self.timeline.end = end;
    }

    /// A request was answered. `verified`: whether the answer is right; if not, its times do not count.
    pub(crate) fn record_answer(
        &mut self,
        times: Times,
        operation: Operation,
        outcome: Outcome,
        verified: bool,
    ) {
        let phase = self.timeline.phase_at(times.belongs_to);
        let counts = &mut self.phases[phase as usize];
        counts.requests += 1;
        counts.keys += u64::from(outcome.keys);
        counts.misses += u64::from(outcome.misses);
        counts.errors += u64::from(outcome.error);
        if let (Some(recent), true) = (&mut self.recent, verified) {
            recent.record(times.response_time_ns);
        }
        if phase == Phase::Measured {
            self.record_measured(times, operation, outcome, verified);
        }
        let is_in_time = self.timeline.phase_at(times.completed) == Phase::Measured;
        if is_in_time {
            self.window_at(times.completed).completed += 1;
            self.operations[operation.index()].completed += 1;
        }
        let is_closed = times.from_send_ns.is_none();
        if phase == Phase::Drain && is_closed && verified && self.timeline.measured < self.timeline.end {
            self.under_way.requests += 1;
            self.under_way.slowest_ns = self.under_way.slowest_ns.max(times.response_time_ns);
        }
        if !outcome.is_follow_up {
            self.record_answered_arrival(times, phase == Phase::Measured, is_in_time);
        }
    }

    fn record_answered_arrival(&mut self, times: Times, is_measured: bool, is_in_time: bool) {
        self.scheduled.completed += u64::from(is_in_time);
        self.scheduled.in_time += u64::from(is_measured && is_in_time);
        if is_measured && !is_in_time {
            let age_ns = self.timeline.end.saturating_since(times.belongs_to);
            self.scheduled.ages_at_end.record(age_ns);
        }
    }

    fn record_measured(&mut self, times: Times, operation: Operation, outcome: Outcome, verified: bool) {
        let counts = &mut self.operations[operation.index()];
        counts.requests += 1;
        counts.keys += u64::from(outcome.keys);
        counts.hits += u64::from(outcome.hits);
        counts.misses += u64::from(outcome.misses);
        counts.errors += u64::from(outcome.error);
        if verified {
            counts.response_time.record(times.response_time_ns);
            if let Some(nanos) = times.from_send_ns {
                counts.response_time_from_send.record(nanos);
            }
            if let Some(intervals) = &mut self.intervals {
                let second = times.completed.saturating_since(self.timeline.measured) / WINDOW_NS;
                intervals.record(second, operation, times.response_time_ns);
            }
        }
        let window = self.window_at(times.belongs_to);
        window.requests += 1;
        window.operations[operation.index()] += 1;
        window.misses += u64::from(outcome.misses);
        window.errors += u64::from(outcome.error);
        window.response_time_sum_ns += if verified { times.response_time_ns } else { 0 };
    }

    /// A request is to be sent at `intended`; `waiting` others are due on its connection.
    pub(crate) fn record_arrival(&mut self, intended: Instant, waiting: usize) {
        if self.timeline.phase_at(intended) == Phase::Measured {
            self.scheduled.arrivals += 1;
            self.scheduled.backlog_max = self.scheduled.backlog_max.max(waiting as u64);
            self.window_at(intended).arrivals += 1;
        }
    }

    /// A request that was to be sent at `intended` is none after all: there is nothing left to ask.
    pub(crate) fn take_back_arrival(&mut self, intended: Instant) {
        if self.timeline.phase_at(intended) == Phase::Measured {
            self.scheduled.arrivals -= 1;
            self.window_at(intended).arrivals -= 1;
        }
    }

    /// A request that was to be sent at `intended` never will be.
    pub(crate) fn record_unsent(&mut self, intended: Instant) {
        if self.timeline.phase_at(intended) == Phase::Measured {
            self.scheduled.unsent += 1;
        }
    }

    /// A request is sent that should have been sent at `intended`, and for `late_ns` of the delay the generator alone
    /// is to blame.
    pub(crate) fn record_late(&mut self, intended: Instant, late_ns: u64) {
        if self.timeline.phase_at(intended) == Phase::Measured {
            self.scheduled.lateness.record(late_ns);
            self.scheduled.late += u64::from(late_ns > self.late_after_ns);
        }
    }

    /// The generator did not even come to a request that was to be sent at `intended`: that is late, too.
    pub(crate) fn record_unnoticed(&mut self, intended: Instant) {
        if self.timeline.phase_at(intended) == Phase::Measured {
            self.scheduled.late += 1;
        }
    }

    /// An error reply came, with this text.
    #[cold]
    pub(crate) fn record_error_text(&mut self, text: &[u8]) {
        let text = crate::workload::verify::text(text);
        if let Some(count) = self.errors.get_mut(&text) {
            *count += 1;
        } else if self.errors.len() < ERROR_TEXTS_MAX {
            self.errors.insert(text, 1);
        } else {
            *self.errors.entry(OTHER_ERRORS.to_owned()).or_default() += 1;
        }
    }

    /// A reply failed verification, did not come, or a connection broke. `belongs_to`: as in [`Times`].
    #[cold]
    pub(crate) fn record_failure(&mut self, belongs_to: Instant, failure: &dyn fmt::Display) {
        let phase = self.timeline.phase_at(belongs_to);
        self.phases[phase as usize].failures += 1;
        if phase == Phase::Measured {
            self.window_at(belongs_to).failures += 1;
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
        self.scheduled.add(&other.scheduled);
        self.under_way.requests += other.under_way.requests;
        self.under_way.slowest_ns = self.under_way.slowest_ns.max(other.under_way.slowest_ns);
        self.threads_waited_ns.push(other.waited_ns);
        self.threads_waited_ns.extend(other.threads_waited_ns);
    }

    /// For how long each of the merged threads had nothing to do in the measured phase.
    pub(crate) fn threads_waited_ns(&self) -> &[u64] {
        &self.threads_waited_ns
    }

    /// Takes the response times of all seconds that were over at `now`, where [`Recorder::keep_intervals`] was called.
    pub(crate) fn take_intervals(&mut self, now: Instant) -> Vec<Interval> {
        let second = self.second_at(now);
        self.intervals.as_mut().map_or_else(Vec::new, |intervals| intervals.take_before(second))
    }

    /// Whole seconds since the measured phase began.
    pub(crate) fn second_at(&self, now: Instant) -> u64 {
        now.saturating_since(self.timeline.measured) / WINDOW_NS
    }

    /// The thread had nothing to do from `since` to `until`.
    pub(crate) fn record_wait(&mut self, since: Instant, until: Instant) {
        let Timeline { measured, end, .. } = self.timeline;
        self.waited_ns += until.min(end).saturating_since(since.max(measured));
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

    /// What became of scheduled requests.
    pub(crate) fn scheduled(&self) -> &ScheduledCounts {
        &self.scheduled
    }

    /// Requests of a closed loop that the end of the measured phase cut off.
    pub(crate) fn under_way(&self) -> UnderWay {
        self.under_way
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
        self.completed += other.completed;
        self.response_time.merge(&other.response_time);
        self.response_time_from_send.merge(&other.response_time_from_send);
    }
}

impl ScheduledCounts {
    fn add(&mut self, other: &ScheduledCounts) {
        self.arrivals += other.arrivals;
        self.unsent += other.unsent;
        self.late += other.late;
        self.lateness.merge(&other.lateness);
        self.backlog_max = self.backlog_max.max(other.backlog_max);
        self.completed += other.completed;
        self.in_time += other.in_time;
        self.ages_at_end.merge(&other.ages_at_end);
    }
}

impl WindowCounts {
    fn add(&mut self, other: &WindowCounts) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.misses += other.misses;
        self.failures += other.failures;
        self.response_time_sum_ns += other.response_time_sum_ns;
        self.completed += other.completed;
        self.arrivals += other.arrivals;
        for (count, more) in self.operations.iter_mut().zip(other.operations) {
            *count += more;
        }
    }
}

/// Length of a window.
pub(crate) const WINDOW_NS: u64 = 1_000_000_000;
const WINDOWS_RESERVED: u64 = 3_600;
const FAILURE_TEXTS_MAX: usize = 20;
/// Errors are counted by text. A peer that never says the same twice must not fill memory.
const ERROR_TEXTS_MAX: usize = 64;
const OTHER_ERRORS: &str = "(other errors)";

#[cfg(test)]
mod tests;
