//! What is counted of one connection to a server: messages, errors, timeouts, queues, and how long replies took.
//!
//! [`Tally`] owns the counts since the beginning, what of them was reported with earlier windows, and the times of the open window. It
//! learns when a message is queued, taken, answered or lost; it answers with totals, and with what a window adds to them.

use crate::{meter::server_window::ServerWindow, wire::ids::Slot};
use std::{mem, sync::Arc};
use weir_timing::{Distribution, Instant, QueueGauge, QueueReport};

/// The counts of one connection.
#[derive(Debug)]
pub(crate) struct Tally {
    queued: QueueGauge,
    in_flight: QueueGauge,
    /// Requests among `in_flight` whose replies came with the bytes that are being taken.
    replied: u64,
    requests: u64,
    errors: u64,
    timeouts: u64,
    /// What was reported with the windows before.
    reported: Reported,
    /// `requests` when the last request was handed in by the driver.
    requests_before: u64,
    /// The server that the replies are timed for: itself, or the one whose second connection this is (`bulk.rs`).
    timed_as: Slot,
    /// How long those of the open window took, from the request handed to the kernel until the reply is complete.
    times: Distribution,
}

/// What was reported with earlier windows.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    requests: u64,
    errors: u64,
    timeouts: u64,
    queued: QueueReport,
    in_flight: QueueReport,
}

impl Tally {
    /// Nothing was counted yet. Replies are timed for the server in slot `timed_as`.
    pub(super) fn new(timed_as: Slot, now: Instant) -> Self {
        Self {
            queued: QueueGauge::new(now),
            in_flight: QueueGauge::new(now),
            replied: 0,
            requests: 0,
            errors: 0,
            timeouts: 0,
            reported: Reported::default(),
            requests_before: 0,
            timed_as,
            times: Distribution::new(),
        }
    }

    // ── notes ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A message is queued.
    #[inline]
    pub(super) fn note_queued(&mut self, now: Instant) {
        self.requests += 1;
        self.queued.enter(now);
    }

    /// This many were taken by the driver.
    #[inline]
    pub(super) fn note_dequeued(&mut self, count: u64, now: Instant) {
        self.queued.leave_many(count, now);
        self.in_flight.enter_many(count, now);
    }

    /// A reply has come to one, or not to a message that counts.
    #[inline]
    pub(super) fn note_reply(&mut self, is_load: bool) {
        self.replied += u64::from(is_load);
    }

    /// All that came at `now` was taken: its requests are in flight no more.
    #[inline]
    pub(super) fn note_replied(&mut self, now: Instant) {
        self.in_flight.leave_many(mem::take(&mut self.replied), now);
    }

    /// A message is lost, or over, without a reply; it was in flight, or still queued.
    pub(super) fn note_over(&mut self, was_in_flight: bool, now: Instant) {
        if was_in_flight { self.in_flight.leave(now) } else { self.queued.leave(now) }
    }

    /// This many messages got an error, or no answer.
    #[inline]
    pub(super) const fn count_errors(&mut self, count: u64) {
        self.errors += count;
    }

    /// This many got no reply in time.
    pub(super) const fn count_timeouts(&mut self, count: u64) {
        self.timeouts += count;
    }

    /// A reply is complete whose message was handed to the kernel then.
    #[inline]
    pub(super) fn record(&mut self, sent: Instant, now: Instant) {
        self.times.record_between(sent, now);
    }

    /// From now on [`Tally::has_new_requests`] counts.
    #[inline]
    pub(super) const fn note_looked_at(&mut self) {
        self.requests_before = self.requests;
    }

    // ── asked ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Whether a message was queued since it was looked at last.
    pub(super) const fn has_new_requests(&self) -> bool {
        self.requests > self.requests_before
    }

    pub(crate) const fn requests(&self) -> u64 {
        self.requests
    }

    pub(crate) const fn errors(&self) -> u64 {
        self.errors
    }

    pub(crate) const fn timeouts(&self) -> u64 {
        self.timeouts
    }

    pub(crate) fn queued(&self, now: Instant) -> QueueReport {
        self.queued.report(now)
    }

    pub(crate) fn in_flight(&self, now: Instant) -> QueueReport {
        self.in_flight.report(now)
    }

    /// The times of the open window.
    pub(crate) const fn times(&self) -> &Distribution {
        &self.times
    }

    /// Hands out the times of the open window, if there are any, with the server whose they are, and forgets them.
    pub(super) fn take_times(&mut self, take: impl FnOnce(Slot, &Distribution)) {
        if !self.times.is_empty() {
            take(self.timed_as, &self.times);
            self.times.clear();
        }
    }

    /// The same when the connection is gone for good.
    pub(super) fn into_times(self) -> Option<(Slot, Distribution)> {
        (!self.times.is_empty()).then_some((self.timed_as, self.times))
    }

    /// What the window with this index adds. `state`: how the connection is; `time`: the times of the window.
    pub(super) fn end_window(
        &mut self,
        index: u64,
        (server, state): (Arc<str>, &'static str),
        time: Distribution,
    ) -> ServerWindow {
        let now = Reported {
            requests: self.requests,
            errors: self.errors,
            timeouts: self.timeouts,
            queued: self.queued.report_at_end(index),
            in_flight: self.in_flight.report_at_end(index),
        };
        let before = mem::replace(&mut self.reported, now);
        ServerWindow {
            server,
            state,
            requests: now.requests.saturating_sub(before.requests),
            errors: now.errors.saturating_sub(before.errors),
            timeouts: now.timeouts.saturating_sub(before.timeouts),
            queued: now.queued.since(&before.queued),
            in_flight: now.in_flight.since(&before.in_flight),
            time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ids::slot;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn a_message_is_queued_then_in_flight_and_then_answered_or_lost() {
        let mut tally = Tally::new(slot(3), at(0));
        (0..3).for_each(|_| tally.note_queued(at(1)));
        assert_eq!((tally.queued(at(1)).length, tally.in_flight(at(1)).length), (3, 0));
        tally.note_dequeued(2, at(2));
        assert_eq!((tally.queued(at(2)).length, tally.in_flight(at(2)).length), (1, 2));
        tally.note_reply(true);
        tally.note_reply(false);
        assert_eq!(tally.in_flight(at(2)).length, 2, "it leaves when all that came was taken");
        tally.note_replied(at(3));
        tally.note_over(true, at(4));
        tally.note_over(false, at(4));
        assert_eq!((tally.queued(at(4)).length, tally.in_flight(at(4)).length), (0, 0));
    }

    #[test]
    fn a_window_has_what_was_added_since_the_one_before() {
        let mut tally = Tally::new(slot(3), at(0));
        let mut end = |count: u64, index| {
            (0..count).for_each(|_| tally.note_queued(at(1)));
            tally.count_errors(2 * count);
            tally.count_timeouts(3 * count);
            let window = tally.end_window(index, ("a".into(), "up"), Distribution::new());
            (window.requests, window.errors, window.timeouts)
        };
        assert_eq!(end(5, 0), (5, 10, 15));
        assert_eq!(end(2, 1), (2, 4, 6));
        assert_eq!(end(0, 2), (0, 0, 0));
        assert_eq!((tally.requests(), tally.errors(), tally.timeouts()), (7, 14, 21));
    }

    #[test]
    fn times_are_handed_out_once_for_the_server_that_they_are_of() {
        let mut tally = Tally::new(slot(3), at(0));
        tally.take_times(|_, _| panic!("there are none"));
        tally.record(at(10), at(50));
        let mut taken = None;
        tally.take_times(|server, times| taken = Some((server, times.sum())));
        assert_eq!(taken, Some((slot(3), 40)));
        assert!(tally.into_times().is_none());
    }

    #[test]
    fn what_was_queued_since_a_look_is_new() {
        let mut tally = Tally::new(slot(3), at(0));
        assert!(!tally.has_new_requests());
        tally.note_queued(at(1));
        assert!(tally.has_new_requests());
        tally.note_looked_at();
        assert!(!tally.has_new_requests());
    }
}
