use serde::ser::{SerializeSeq, SerializeStruct};
use serde::{Serialize, Serializer};

use crate::stamps::Stage;
use crate::window::{ClosedWindows, Window, WindowCounts};
use crate::{Distribution, Operation, Outcome, Stamps};

/// What one loop, or several together, have measured. Its parts serialize as they stand in `docs/reference/formats.md`.
///
/// The default report is that of no loop at all; merging anything into it gives that thing.
#[derive(Clone, Debug)]
pub struct Report {
    pub(crate) operations: Box<[OperationReport; Operation::COUNT]>,
    pub(crate) loops: Vec<LoopReport>,
    pub(crate) windows: ClosedWindows,
}

/// The requests of one operation since the process began.
#[derive(Clone, Debug, Default)]
pub struct OperationReport {
    /// Requests answered.
    pub requests: u64,
    /// Of them, those answered with an error.
    pub errors: u64,
    /// Keys found.
    pub hits: u64,
    /// Keys of retrievals that did not fail: each was found or not.
    sought: u64,
    /// All other keys.
    others: u64,
    /// Requests of which a stamp lay before its predecessor, and counted as equal to it.
    pub(crate) clamped: u64,
    /// Requests whose first two stages are among `stages`. All others came whole and were put into their queues at once, so that both
    /// were 0; they are many, and counted when the second is over.
    in_parts: u64,
    /// How many more requests may be recorded before counts must be settled.
    settled_for: u16,
    stages: [Distribution; Stage::COUNT],
    /// The requests' totals: the sums of their stages.
    pub total: Distribution,
}

/// The turns of one event loop.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LoopReport {
    /// How often the loop was woken.
    pub turns: u64,
    /// How long it worked each time until it waited again.
    pub turn_time: Distribution,
}

/// The operations that were asked for at least once; serializes as the map `operations`.
#[derive(Copy, Clone, Debug)]
pub struct Operations<'a>(&'a Report);

/// The closed windows, oldest first and without gaps; serializes as the list `windows`. An operation has a place in
/// every window as soon as it was asked for once, and zeros there in a quiet second.
#[derive(Copy, Clone, Debug)]
pub struct Windows<'a>(&'a Report);

impl Report {
    /// Adds what other loops have measured. Windows stay as far as both sides have them whole.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.operations.iter_mut().zip(other.operations.iter()) {
            mine.merge(theirs);
        }
        self.loops.extend_from_slice(&other.loops);
        self.windows.merge(&other.windows);
    }

    /// The requests of one operation, all zero if it was never asked for.
    pub fn operation(&self, operation: Operation) -> &OperationReport {
        &self.operations[operation.index()]
    }

    /// The operations that were asked for.
    pub fn operations(&self) -> Operations<'_> {
        Operations(self)
    }

    /// The turns of each loop, in the order of merging.
    pub fn loops(&self) -> &[LoopReport] {
        &self.loops
    }

    /// The last closed windows.
    pub fn windows(&self) -> Windows<'_> {
        Windows(self)
    }
}

impl Default for Report {
    fn default() -> Self {
        Self { operations: Box::default(), loops: Vec::new(), windows: ClosedWindows::none() }
    }
}

impl OperationReport {
    /// Keys that the requests named.
    pub fn keys(&self) -> u64 {
        self.sought + self.others
    }

    /// Keys not found.
    pub fn misses(&self) -> u64 {
        self.sought.saturating_sub(self.hits)
    }

    /// The lengths of one stage in nanoseconds.
    pub fn stage(&self, stage: Stage) -> &Distribution {
        &self.stages[stage.index()]
    }

    /// Nothing yet, where times like those of `other` are expected.
    pub(crate) fn like(other: &Self) -> Self {
        Self {
            stages: other.stages.each_ref().map(Distribution::like),
            total: Distribution::like(&other.total),
            ..Self::default()
        }
    }

    /// How a request went.
    #[inline]
    pub(crate) fn count(&mut self, operation: Operation, outcome: Outcome) {
        self.requests += 1;
        if operation.is_retrieval() && !outcome.error {
            self.sought += u64::from(outcome.keys);
            self.hits += u64::from(outcome.hits);
        } else {
            self.others += u64::from(outcome.keys);
            self.errors += u64::from(outcome.error);
        }
    }

    /// How long it took.
    ///
    /// Nothing is called here but for the rare cases. One is a stage that has no length, or is among the shortest or the longest. Another
    /// is a stamp before its predecessor, whose stage would be longer than any.
    #[inline(always)]
    pub(crate) fn record(&mut self, stamps: &Stamps) {
        let (left, is_full) = self.settled_for.overflowing_sub(1);
        self.settled_for = left;
        if is_full {
            self.settle_counts();
        }
        let Stamps { first_byte, created, enqueued, dequeued, forwarded, received, answered, .. } = *stamps;
        if created != first_byte || enqueued != first_byte {
            return self.record_from::<0>(stamps);
        }
        let [_, _, queue, send, backend, reply] = &mut self.stages;
        if !queue.record_usual_unsettled(enqueued, dequeued) {
            return self.record_from::<2>(stamps);
        }
        if !send.record_usual_unsettled(dequeued, forwarded) {
            return self.record_from::<3>(stamps);
        }
        if !backend.record_usual_unsettled(forwarded, received) {
            return self.record_from::<4>(stamps);
        }
        if !reply.record_usual_unsettled(received, answered) {
            return self.record_from::<5>(stamps);
        }
        if !self.total.record_usual_unsettled(first_byte, answered) {
            self.total.record_unusual(answered.as_nanos() - first_byte.as_nanos());
        }
    }

    #[cold]
    #[inline(never)]
    fn settle_counts(&mut self) {
        self.settled_for = Distribution::UNSETTLED_MAX - 1;
        self.stages.iter_mut().for_each(Distribution::settle);
        self.total.settle();
    }

    /// Records the stages from this one on, and the total. Those before it are what they are, whatever the stamps behind them.
    #[cold]
    #[inline(never)]
    fn record_from<const STAGE: usize>(&mut self, stamps: &Stamps) {
        let (stages, is_clamped) = stamps.stages_and_whether_clamped();
        for (stage, nanos) in self.stages.iter_mut().zip(stages).skip(STAGE) {
            stage.record(nanos);
        }
        self.total.record(stages.iter().sum());
        self.in_parts += u64::from(STAGE == 0);
        self.clamped += u64::from(is_clamped);
    }

    /// Adds the requests of another loop, or of another time.
    pub fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.hits += other.hits;
        self.sought += other.sought;
        self.others += other.others;
        self.in_parts += other.in_parts;
        self.clamped += other.clamped;
        for (mine, theirs) in self.stages.iter_mut().zip(&other.stages) {
            mine.merge(theirs);
        }
        self.total.merge(&other.total);
        self.settle();
    }

    /// Counts what was left to be counted once a second.
    pub(crate) fn settle(&mut self) {
        self.settle_counts();
        let whole = self.requests - self.in_parts;
        let [read, dispatch, ..] = &mut self.stages;
        read.record_zeros(whole);
        dispatch.record_zeros(whole);
        self.in_parts = self.requests;
    }
}

impl<'a> Operations<'a> {
    /// Each operation that was asked for, with its requests.
    pub fn iter(self) -> impl Iterator<Item = (Operation, &'a OperationReport)> {
        Operation::ALL
            .into_iter()
            .map(move |operation| (operation, self.0.operation(operation)))
            .filter(|(_, report)| report.requests > 0)
    }
}

impl<'a> Windows<'a> {
    /// The windows, oldest first.
    pub fn iter(self) -> impl ExactSizeIterator<Item = &'a Window> {
        self.0.windows.iter()
    }
}

impl Serialize for OperationReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_struct("OperationReport", 7)?;
        report.serialize_field("requests", &self.requests)?;
        report.serialize_field("errors", &self.errors)?;
        report.serialize_field("keys", &self.keys())?;
        report.serialize_field("hits", &self.hits)?;
        report.serialize_field("misses", &self.misses())?;
        report.serialize_field("stages", &Stages(&self.stages))?;
        report.serialize_field("total", &self.total)?;
        report.end()
    }
}

impl Serialize for Stages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Stage::ALL.into_iter().map(Stage::name).zip(self.0))
    }
}

impl Serialize for Operations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(operation, report)| (operation.name(), report)))
    }
}

impl Serialize for Windows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.iter().len()))?;
        for window in self.iter() {
            list.serialize_element(&WindowRow { window, report: self.0 })?;
        }
        list.end()
    }
}

struct WindowRow<'a> {
    window: &'a Window,
    report: &'a Report,
}

struct WindowOperations<'a>(&'a WindowRow<'a>);

struct Stages<'a>(&'a [Distribution; Stage::COUNT]);

struct StageSums<'a>(&'a [u64; Stage::COUNT]);

impl Serialize for WindowRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("Window", 4)?;
        row.serialize_field("index", &self.window.index)?;
        row.serialize_field("start_ns", &self.window.start_ns())?;
        row.serialize_field("length_ns", &self.window.length_ns())?;
        row.serialize_field("operations", &WindowOperations(self))?;
        row.end()
    }
}

impl Serialize for WindowOperations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let WindowRow { window, report } = self.0;
        serializer.collect_map(
            report.operations().iter().map(|(operation, _)| (operation.name(), window.counts(operation))),
        )
    }
}

impl Serialize for WindowCounts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut counts = serializer.serialize_struct("WindowCounts", 4)?;
        counts.serialize_field("requests", &self.requests)?;
        counts.serialize_field("errors", &self.errors)?;
        counts.serialize_field("stage_sum_ns", &StageSums(&self.stage_sum_ns))?;
        counts.serialize_field("total_sum_ns", &self.total_sum_ns)?;
        counts.end()
    }
}

impl Serialize for StageSums<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Stage::ALL.into_iter().map(Stage::name).zip(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Instant, Recorder, Stamps};
    use serde_json::{Value, json};

    fn get(recorder: &mut Recorder, start_ns: u64, length_ns: u64) {
        let mut stamps = Stamps::at(Instant::from_nanos(start_ns));
        stamps.received = stamps.received.plus(length_ns);
        stamps.answered = stamps.received;
        let outcome = Outcome { error: false, keys: 1, hits: 1 };
        recorder.advance(stamps.answered);
        recorder.record_request(Operation::Get, outcome, &stamps);
    }

    fn two_loops() -> (Report, Report) {
        let [mut first, mut second] = [0, 0].map(|_| Recorder::new(Instant::ZERO, 0));
        get(&mut first, 100, 10);
        get(&mut second, 200, 30);
        get(&mut second, 1_000_000_000, 50);
        for recorder in [&mut first, &mut second] {
            recorder.record_turn(1000);
            recorder.advance(Instant::from_nanos(2_500_000_000));
        }
        (first.report(), second.report())
    }

    #[test]
    fn merged_reports_hold_the_requests_of_both() {
        let (mut merged, second) = two_loops();
        merged.merge(&second);
        let get = merged.operation(Operation::Get);
        assert_eq!((get.requests, get.keys(), get.hits), (3, 3, 3));
        assert_eq!(get.stage(Stage::Backend).sum(), 90);
        assert_eq!(merged.loops().len(), 2);
        let requests: Vec<_> =
            merged.windows().iter().map(|window| window.counts(Operation::Get).requests).collect();
        assert_eq!(requests, [2, 1]);
    }

    #[test]
    fn merging_into_the_default_changes_nothing() {
        let (_, report) = two_loops();
        let mut merged = Report::default();
        merged.merge(&report);
        assert_eq!(json!(report.operations()), json!(merged.operations()));
        assert_eq!(json!(report.windows()), json!(merged.windows()));
        assert_eq!(json!(report.loops()), json!(merged.loops()));
    }

    #[test]
    fn parts_are_written_as_the_format_says() {
        let (mut report, second) = two_loops();
        report.merge(&second);
        let operations = json!(report.operations());
        assert_eq!(keys(&operations), ["get"]);
        assert_eq!(
            keys(&operations["get"]),
            ["errors", "hits", "keys", "misses", "requests", "stages", "total"]
        );
        assert_eq!(operations["get"]["stages"]["backend"]["sum_ns"], 90);
        assert_eq!(operations["get"]["total"]["count"], 3);
        let stages = Stage::ALL.map(Stage::name);
        assert_eq!(keys(&operations["get"]["stages"]).len(), stages.len());
        assert_eq!(
            json!(report.windows())[1],
            json!({ "index": 1, "start_ns": 1_000_000_000, "length_ns": 1_000_000_000, "operations": { "get": {
                "requests": 1, "errors": 0, "total_sum_ns": 50,
                "stage_sum_ns": { "read": 0, "dispatch": 0, "queue": 0, "send": 0, "backend": 50, "reply": 0 } } } })
        );
        assert_eq!(json!(report.loops())[1]["turns"], 1);
        assert_eq!(json!(report.loops())[1]["turn_time"]["sum_ns"], 1000);
    }

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    fn assert_send<T: Send>() {}

    #[test]
    fn a_report_can_leave_its_loop() {
        assert_send::<Report>();
    }
}
