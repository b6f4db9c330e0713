//! What is counted, timed and reported.
//!
//! [`Meter`] owns the counters of requests and clients, the histograms, the seconds that are over, and the rows of sampled requests. It
//! learns what happened. It answers with windows, rows and totals. What servers and replicas count they count themselves.

pub(crate) mod counters;
pub(crate) mod report;
pub(crate) mod server_window;
pub(crate) mod trace;
pub(crate) mod window;

use crate::wire::ids::Slot;
use counters::Counters;
use trace::{TraceRow, Tracer};
use weir_timing::{Distribution, EndedWindow, Instant, Operation, Outcome, Recorder, Stamps};

/// What one dataplane has counted and timed.
#[derive(Debug)]
pub(crate) struct Meter {
    recorder: Recorder,
    tracer: Tracer,
    counters: Counters,
    /// All counters as they were when the last window was handed out.
    reported: Counters,
}

impl Meter {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            recorder: Recorder::new(now, 0),
            tracer: Tracer::default(),
            counters: Counters::default(),
            reported: Counters::default(),
        }
    }

    /// What requests and clients count.
    #[inline(always)]
    pub(crate) fn counters(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// All counters, with those of others.
    pub(crate) fn total(&self, others: [&Counters; 4]) -> Counters {
        let mut total = Counters { stamps_clamped: self.recorder.stamps_clamped(), ..self.counters.clone() };
        others.into_iter().for_each(|other| total.merge(other));
        total
    }

    // ── requests ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A request was answered.
    #[inline]
    pub(crate) fn record_request(&mut self, operation: Operation, outcome: Outcome, stamps: &Stamps) {
        self.recorder.record_request(operation, outcome, stamps);
    }

    /// Whether the next request is sampled: to be asked once for each.
    #[inline]
    pub(crate) fn samples_next(&mut self) -> bool {
        self.tracer.is_due()
    }

    /// The row of a sampled request that was answered.
    pub(crate) fn keep_row(&mut self, row: TraceRow) {
        self.tracer.push(row);
    }

    /// From now on each request is sampled with this probability.
    pub(crate) fn trace(&mut self, share: f64, seed: u64) {
        self.tracer.begin(share, seed);
    }

    /// The rows since the last call, and how many more there were than are kept.
    pub(crate) fn take_rows(&mut self, take: impl FnMut(TraceRow)) -> u64 {
        self.tracer.take(take)
    }

    // ── servers ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A server begins in this slot.
    pub(crate) fn begin_server(&mut self, slot: Slot) {
        self.recorder.begin_server(slot.index());
    }

    /// These times belong to the server of this slot, and to the open window.
    pub(crate) fn add_server_times(&mut self, slot: Slot, times: &Distribution) {
        self.recorder.add_server_times(slot.index(), times);
    }

    /// How long a server took, but for what it has not handed over.
    pub(crate) fn server_time(&self, slot: Slot) -> Distribution {
        self.recorder.server_time(slot.index())
    }

    // ── time ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A turn of the driver took this long.
    pub(crate) fn record_turn(&mut self, nanos: u64) {
        self.recorder.record_turn(nanos);
    }

    /// Something happens in the open window, so it is handed out when it is over.
    #[inline]
    pub(crate) fn use_window(&mut self) {
        self.recorder.use_window();
    }

    /// From now on windows are kept until they are polled.
    pub(crate) fn keep_windows(&mut self) {
        self.recorder.keep_ended();
    }

    /// Whether the open window is over at `now`.
    #[inline]
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.recorder.is_over(now)
    }

    /// Closes the windows that are over at `now`.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.recorder.advance(now);
    }

    /// The open window and when it ends, if it will be handed out.
    pub(crate) fn used_window(&self) -> Option<(u64, Instant)> {
        self.recorder.used_window()
    }

    /// Whether there is a window to be polled.
    #[inline]
    pub(crate) fn has_window(&self) -> bool {
        self.recorder.has_ended()
    }

    /// The oldest window that is over and was not handed out yet.
    pub(crate) fn poll_ended(&mut self) -> Option<EndedWindow> {
        self.recorder.poll_ended()
    }

    /// What was counted since the last window, if this is the total now.
    pub(crate) fn counted_since(&mut self, total: Counters) -> Counters {
        let since = total.since(&self.reported);
        self.reported = total;
        since
    }

    /// All histograms.
    pub(crate) fn timing(&self) -> weir_timing::Report {
        self.recorder.report()
    }
}
