//! What is counted, timed and reported.
//!
//! [`Meter`] owns the counters of requests and clients, the histograms, the seconds that are over, the rows of sampled requests, and the keys that
//! are asked for most. It learns what happened. It answers with windows, rows and totals. What servers and replicas count they count
//! themselves.

pub(crate) mod counters;
pub(crate) mod gaps;
pub(crate) mod hot_keys;
pub(crate) mod noted;
pub(crate) mod report;
pub(crate) mod server_window;
pub(crate) mod trace;
pub(crate) mod window;

use crate::{config::Config, wire::ids::Slot};
use counters::Counters;
use hot_keys::{HotKeys, Watched, top_keys::TopKeys};
use trace::{TraceRow, Tracer};
use weir_timing::{Distribution, EndedWindow, Instant, Operation, Outcome, Recorder, Stamps};

/// What one dataplane has counted and timed.
#[derive(Debug)]
pub(crate) struct Meter {
    recorder: Recorder,
    tracer: Tracer,
    hot_keys: HotKeys,
    /// What is to be watched of the request that is taken into service next.
    watched: Watched,
    counters: Counters,
    /// All counters as they were when the last window was handed out.
    reported: Counters,
}

impl Meter {
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        Self {
            recorder: Recorder::new(now, 0),
            tracer: Tracer::default(),
            hot_keys: HotKeys::new(config, now),
            watched: Watched::Nothing,
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

    /// Whether anything is noted of the request that is taken into service: to be asked once for each. If so, [`Meter::take_watched`] and
    /// [`Meter::samples_this`] say what.
    #[inline]
    pub(crate) fn notes_next(&mut self) -> bool {
        self.tracer.is_due()
    }

    /// Whether the request of which something is noted gets a row: to be asked once.
    pub(crate) fn samples_this(&mut self) -> bool {
        self.tracer.is_sampled()
    }

    /// The next request that is taken into service is watched.
    pub(crate) fn watch_next(&mut self, watched: Watched) {
        self.watched = watched;
        self.tracer.look_at_next();
    }

    /// What is watched of the request of which something is noted.
    pub(crate) fn take_watched(&mut self) -> Watched {
        std::mem::take(&mut self.watched)
    }

    /// The requests that are looked at for the keys that are asked for most.
    #[inline(always)]
    pub(crate) fn hot_keys(&mut self) -> &mut HotKeys {
        &mut self.hot_keys
    }

    /// The keys that are asked for most.
    pub(crate) fn top_keys(&self, now: Instant) -> TopKeys {
        self.hot_keys.top(now)
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
