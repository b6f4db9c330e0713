//! What a server must forget before it is read again.
//!
//! ```text
//!   missed ──▶ waiting ──delete sent──▶ in flight ──confirmed──▶ done, or `again` where the connection broke in a way that lets
//!                 ▲                         │                    nobody know what is still carried out
//!                 └──── connection lost ────┘
//!   too many keys: the server is flushed instead
//! ```
//!
//! A delete goes behind everything that was sent on the same connection, so when it is confirmed no earlier write of its key can come
//! any more: that is the barrier.

use crate::wire::key::WireKey;
use std::{
    collections::{BTreeSet, VecDeque},
    mem,
};
use weir_timing::Instant;

/// A key of which a server lacks a write, or may.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Missed {
    key: Box<[u8]>,
    base64: bool,
}

/// How the server is made to forget everything, where it has missed too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flush {
    NotNeeded,
    Wanted,
    InFlight,
    /// It said no. It is asked again on the next connection, or when this time has come.
    Refused(Instant),
}

/// The keys that one dataplane knows one server to have missed.
#[derive(Debug)]
pub(crate) struct Journal {
    // Ordered, so that the same events always lead to the same messages.
    waiting: BTreeSet<Missed>,
    in_flight: VecDeque<Missed>,
    again: BTreeSet<Missed>,
    /// Length of all their keys.
    bytes: usize,
    flush: Flush,
    /// Flushes that were sent and not answered. Only the last of them covers what was missed since the others were sent.
    flushes_in_flight: usize,
    /// Nothing is sent before.
    not_before: Instant,
    /// How often in a row the server has refused what it was sent, each time after a pause.
    refusals: u32,
    /// What is deleted, or flushed, now is so once more when some time has passed.
    twice: bool,
}

/// What is to be sent next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RepairMessage {
    Delete(Missed),
    Flush,
}

/// Bounds of one journal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) keys: usize,
    pub(crate) bytes: usize,
}

/// Deletes in flight at one server: enough to fill a connection, few enough to leave room for requests.
const IN_FLIGHT_MAX: usize = 256;

impl Missed {
    pub(crate) fn of(key: WireKey<'_>) -> Self {
        Self { key: key.bytes.into(), base64: key.base64 }
    }

    pub(crate) fn wire(&self) -> WireKey<'_> {
        WireKey { bytes: &self.key, base64: self.base64 }
    }
}

impl Journal {
    pub(crate) const fn new() -> Self {
        Self {
            waiting: BTreeSet::new(),
            in_flight: VecDeque::new(),
            again: BTreeSet::new(),
            bytes: 0,
            flush: Flush::NotNeeded,
            flushes_in_flight: 0,
            not_before: Instant::ZERO,
            refusals: 0,
            twice: false,
        }
    }

    /// How many keys are to be deleted.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.in_flight.len() + self.again.len()
    }

    /// Whether the server has forgotten everything that it must.
    pub(crate) fn is_done(&self) -> bool {
        self.len() == 0 && self.flush == Flush::NotNeeded
    }

    /// The server lacks a write to this key, or may carry out an old one. Returns whether it is to be flushed because of it.
    pub(crate) fn miss(&mut self, missed: Missed, bounds: Bounds) -> bool {
        if matches!(self.flush, Flush::Wanted | Flush::Refused(_)) {
            return false;
        }
        let bytes = missed.key.len();
        if self.waiting.insert(missed) {
            self.bytes += bytes;
        }
        let overflows = self.len() > bounds.keys || self.bytes > bounds.bytes;
        if overflows {
            self.flush_instead();
        }
        overflows
    }

    /// The server is to forget everything.
    pub(crate) fn flush_instead(&mut self) {
        self.waiting.clear();
        self.again.clear();
        self.flush = Flush::Wanted;
        self.bytes = self.in_flight.iter().map(|missed| missed.key.len()).sum();
    }

    /// What is to be sent now, if anything. It counts as sent.
    pub(crate) fn next(&mut self, now: Instant) -> Option<RepairMessage> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        if matches!(self.flush, Flush::Wanted | Flush::Refused(_)) {
            self.flush = Flush::InFlight;
            self.flushes_in_flight += 1;
            return Some(RepairMessage::Flush);
        }
        let missed = self.waiting.pop_first()?;
        self.in_flight.push_back(missed.clone());
        Some(RepairMessage::Delete(missed))
    }

    /// When there is something to be sent; it may have come already.
    pub(crate) fn due(&self) -> Option<Instant> {
        match self.flush {
            Flush::Wanted => Some(self.not_before),
            Flush::Refused(until) => Some(until),
            Flush::InFlight | Flush::NotNeeded => {
                let may_send = !self.waiting.is_empty() && self.in_flight.len() < IN_FLIGHT_MAX;
                may_send.then_some(self.not_before)
            }
        }
    }

    /// The oldest delete was answered: the server has forgotten its key.
    pub(crate) fn confirm(&mut self, now: Instant, quarantine_ns: u64) {
        let Some(missed) = self.in_flight.pop_front() else { return };
        self.refusals = 0;
        let len = missed.key.len();
        // Its length is counted once for each of the sets that has it.
        let is_kept = self.twice && self.flush == Flush::NotNeeded && self.again.insert(missed);
        self.bytes -= if is_kept { 0 } else { len };
        self.begin_second_round(now, quarantine_ns);
    }

    /// The oldest delete was refused, by a server that may do it another time: it is sent again after a pause, which doubles from the first
    /// to the second of these bounds while everything is refused.
    pub(crate) fn refuse(&mut self, now: Instant, (shortest_ns, longest_ns): (u64, u64)) {
        let Some(missed) = self.in_flight.pop_front() else { return };
        let len = missed.key.len();
        let is_kept = matches!(self.flush, Flush::NotNeeded | Flush::InFlight) && self.waiting.insert(missed);
        self.bytes -= if is_kept { 0 } else { len };
        // Of what was sent together the first counts.
        if self.not_before <= now {
            let pause_ns = shortest_ns.saturating_mul(1 << self.refusals.min(16)).min(longest_ns);
            self.refusals += 1;
            self.not_before = now.plus(pause_ns);
        }
    }

    /// The server was flushed.
    pub(crate) fn confirm_flush(&mut self, now: Instant, quarantine_ns: u64) {
        self.flushes_in_flight = self.flushes_in_flight.saturating_sub(1);
        if self.flush != Flush::InFlight || self.flushes_in_flight > 0 {
            // Too much was missed again since that one was sent.
            return;
        }
        self.flush = Flush::NotNeeded;
        if mem::take(&mut self.twice) {
            self.flush = Flush::Wanted;
            self.not_before = now.plus(quarantine_ns);
        }
    }

    /// The server does not let itself be flushed.
    pub(crate) fn refuse_flush(&mut self, until: Instant) {
        self.flushes_in_flight = self.flushes_in_flight.saturating_sub(1);
        self.flush = Flush::Refused(until);
    }

    /// Whether it does not.
    pub(crate) const fn is_flush_refused(&self) -> bool {
        matches!(self.flush, Flush::Refused(_))
    }

    /// Whether it is to be flushed.
    pub(crate) fn is_flushing(&self) -> bool {
        self.flush != Flush::NotNeeded
    }

    /// The connection is gone, with what was in flight on it: the first `count` deletes, and the flush if there was one.
    pub(crate) fn lose(&mut self, count: usize, flushing: bool) {
        for missed in self.in_flight.drain(..count.min(self.in_flight.len())) {
            if self.flush == Flush::NotNeeded || self.flush == Flush::InFlight {
                self.waiting.insert(missed);
            }
        }
        if flushing {
            self.flushes_in_flight = 0;
            if self.flush == Flush::InFlight {
                self.flush_instead();
            }
        }
        if self.is_flush_refused() {
            self.flush = Flush::Wanted;
        }
        self.bytes = self.count_bytes();
    }

    /// Writes that were sent on a connection that is gone may still be carried out, nobody knows until when: what is in the journal is
    /// deleted after a pause, and again after another.
    pub(crate) fn quarantine(&mut self, until: Instant) {
        self.waiting.append(&mut self.again);
        self.bytes = self.count_bytes();
        self.twice = true;
        self.not_before = self.not_before.max(until);
    }

    /// Whether it waits for the end of such a pause.
    pub(crate) fn is_quarantined(&self, now: Instant) -> bool {
        self.not_before > now
    }

    fn begin_second_round(&mut self, now: Instant, quarantine_ns: u64) {
        // A flush that is under way is repeated, too, and with it all that was to be deleted.
        if self.twice
            && self.flush == Flush::NotNeeded
            && self.waiting.is_empty()
            && self.in_flight.is_empty()
        {
            self.twice = false;
            self.waiting = mem::take(&mut self.again);
            self.not_before = now.plus(quarantine_ns);
        }
    }

    fn count_bytes(&self) -> usize {
        let kept = self.waiting.iter().chain(&self.in_flight).chain(&self.again);
        kept.map(|missed| missed.key.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { keys: 3, bytes: 100 };
    const PAUSE: u64 = 10;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn missed(key: &str) -> Missed {
        Missed::of(WireKey { bytes: key.as_bytes(), base64: false })
    }

    fn next(journal: &mut Journal, now: u64) -> Option<String> {
        journal.next(at(now)).map(|message| match message {
            RepairMessage::Delete(missed) => String::from_utf8_lossy(&missed.key).into_owned(),
            RepairMessage::Flush => "flush".to_owned(),
        })
    }

    #[test]
    fn a_key_that_is_missed_while_its_delete_is_in_flight_is_deleted_again() {
        let mut journal = Journal::new();
        journal.miss(missed("a"), BOUNDS);
        journal.miss(missed("a"), BOUNDS);
        assert_eq!(next(&mut journal, 0).as_deref(), Some("a"));
        assert_eq!(next(&mut journal, 0), None);
        journal.miss(missed("a"), BOUNDS);
        journal.confirm(at(0), PAUSE);
        assert!(!journal.is_done());
        assert_eq!(next(&mut journal, 0).as_deref(), Some("a"));
        journal.confirm(at(0), PAUSE);
        assert!(journal.is_done() && journal.bytes == 0);
    }

    #[test]
    fn what_was_in_flight_on_a_lost_connection_waits_again() {
        let mut journal = Journal::new();
        let overflows = ["a", "b"].map(|key| journal.miss(missed(key), BOUNDS));
        assert_eq!(overflows, [false; 2]);
        assert_eq!([next(&mut journal, 0), next(&mut journal, 0)].map(|key| key.is_some()), [true; 2]);
        journal.lose(1, false);
        journal.confirm(at(0), PAUSE);
        assert_eq!(next(&mut journal, 0).as_deref(), Some("a"));
        journal.confirm(at(0), PAUSE);
        assert!(journal.is_done());
    }

    #[test]
    fn after_a_quarantine_everything_is_deleted_twice_with_a_pause_between() {
        let mut journal = Journal::new();
        let overflows = ["a", "b"].map(|key| journal.miss(missed(key), BOUNDS));
        assert_eq!(overflows, [false; 2]);
        journal.quarantine(at(PAUSE));
        assert_eq!(next(&mut journal, PAUSE - 1), None);
        for round in 1..=2 {
            assert_eq!(journal.due(), Some(at(round * PAUSE)));
            assert_eq!(next(&mut journal, round * PAUSE).as_deref(), Some("a"));
            assert_eq!(next(&mut journal, round * PAUSE).as_deref(), Some("b"));
            assert!(!journal.is_done());
            journal.confirm(at(round * PAUSE), PAUSE);
            journal.confirm(at(round * PAUSE), PAUSE);
        }
        assert!(journal.is_done() && journal.bytes == 0);
    }

    #[test]
    fn a_refused_delete_is_sent_again_later_and_flushes_nothing() {
        let mut journal = Journal::new();
        journal.miss(missed("a"), BOUNDS);
        assert_eq!(next(&mut journal, 0).as_deref(), Some("a"));
        journal.refuse(at(0), (7, 40));
        assert!(!journal.is_flushing() && !journal.is_done());
        assert_eq!(next(&mut journal, 6), None);
        assert_eq!(next(&mut journal, 7).as_deref(), Some("a"));
        journal.confirm(at(7), PAUSE);
        assert!(journal.is_done() && journal.bytes == 0);
    }

    /// A server that refused everything was asked the same 256 deletes twenty times a second, for ever.
    #[test]
    fn a_server_that_refuses_all_deletes_is_asked_less_and_less_often() {
        let mut journal = Journal::new();
        let (mut now, mut pauses) = (0, Vec::new());
        let overflows = ["a", "bb"].map(|key| journal.miss(missed(key), BOUNDS));
        assert_eq!(overflows, [false; 2]);
        for _ in 0..6 {
            assert_eq!(
                [next(&mut journal, now), next(&mut journal, now)].map(|key| key.is_some()),
                [true; 2]
            );
            journal.refuse(at(now), (7, 40));
            journal.refuse(at(now + 1), (7, 40));
            assert_eq!((journal.len(), journal.bytes), (2, 3));
            let due = journal.due().expect("they wait").as_nanos();
            pauses.push(due - now);
            now = due;
        }
        assert_eq!(pauses, [7, 14, 28, 40, 40, 40]);
        assert!(next(&mut journal, now).is_some());
        journal.confirm(at(now), PAUSE);
        assert!(next(&mut journal, now).is_some());
        journal.refuse(at(now), (7, 40));
        assert_eq!(journal.due(), Some(at(now + 7)), "it has done one meanwhile");
        // What was missed again while its delete was under way is one key.
        assert!(next(&mut journal, now + 7).is_some());
        assert!(!journal.miss(missed("bb"), BOUNDS));
        journal.refuse(at(now + 7), (7, 40));
        assert_eq!((journal.len(), journal.bytes), (1, 2));
    }

    /// `twice` was forgotten, and the server read again, with an old write that might still be carried out.
    #[test]
    fn a_delete_that_ends_during_the_flush_after_a_quarantine_does_not_end_it() {
        let mut journal = Journal::new();
        journal.miss(missed("a"), BOUNDS);
        journal.quarantine(at(0));
        assert_eq!(next(&mut journal, 0).as_deref(), Some("a"));
        journal.flush_instead();
        assert_eq!(next(&mut journal, 0).as_deref(), Some("flush"));
        journal.confirm(at(0), PAUSE);
        journal.confirm_flush(at(0), PAUSE);
        assert!(!journal.is_done());
        assert_eq!(next(&mut journal, PAUSE).as_deref(), Some("flush"));
        journal.confirm_flush(at(PAUSE), PAUSE);
        assert!(journal.is_done() && journal.bytes == 0);
    }

    /// Each confirmation walked through all that was left, 65,536 keys by default.
    #[test]
    fn a_long_journal_is_worked_off_twice_without_counting_it_each_time() {
        let bounds = Bounds { keys: 60_000, bytes: 1 << 20 };
        let mut journal = Journal::new();
        for number in 0..50_000 {
            assert!(!journal.miss(missed(&number.to_string()), bounds));
        }
        let bytes = journal.bytes;
        journal.quarantine(at(0));
        for round in 0..2 {
            for _ in 0..50_000 {
                assert!(next(&mut journal, round * PAUSE).is_some());
                journal.confirm(at(round * PAUSE), PAUSE);
            }
            assert_eq!(journal.bytes, if round == 0 { bytes } else { 0 });
        }
        assert!(journal.is_done());
    }

    #[test]
    fn too_many_keys_or_too_long_ones_make_a_flush() {
        let mut journal = Journal::new();
        assert!(!["a", "b", "c", "c"].map(|key| journal.miss(missed(key), BOUNDS)).contains(&true));
        assert!(journal.miss(missed("d"), BOUNDS));
        assert!(!journal.miss(missed("e"), BOUNDS), "the flush covers it");
        assert_eq!(next(&mut journal, 0).as_deref(), Some("flush"));
        journal.miss(missed("f"), BOUNDS);
        journal.confirm_flush(at(0), PAUSE);
        assert_eq!(next(&mut journal, 0).as_deref(), Some("f"), "it was missed after the flush was sent");
        journal.confirm(at(0), PAUSE);
        assert!(journal.is_done());
        assert!(journal.miss(missed(&"x".repeat(101)), BOUNDS));
    }

    #[test]
    fn a_flush_that_was_sent_before_too_much_was_missed_again_is_not_enough() {
        let mut journal = Journal::new();
        journal.flush_instead();
        assert_eq!(next(&mut journal, 0).as_deref(), Some("flush"));
        assert!(["a", "b", "c", "d"].map(|key| journal.miss(missed(key), BOUNDS))[3]);
        journal.confirm_flush(at(0), PAUSE);
        assert!(!journal.is_done(), "another one is wanted");
        assert_eq!(next(&mut journal, 0).as_deref(), Some("flush"));
        assert!(["a", "b", "c", "d"].map(|key| journal.miss(missed(key), BOUNDS))[3]);
        assert_eq!(next(&mut journal, 0).as_deref(), Some("flush"));
        journal.confirm_flush(at(0), PAUSE);
        assert!(!journal.is_done(), "the last one is not answered");
        journal.confirm_flush(at(0), PAUSE);
        assert!(journal.is_done());
    }

    #[test]
    fn a_refused_flush_is_asked_for_again_later_and_on_the_next_connection() {
        let mut journal = Journal::new();
        journal.flush_instead();
        assert_eq!(next(&mut journal, 0).as_deref(), Some("flush"));
        journal.refuse_flush(at(7));
        assert_eq!(next(&mut journal, 6), None);
        assert_eq!(next(&mut journal, 7).as_deref(), Some("flush"));
        journal.refuse_flush(at(20));
        journal.lose(0, false);
        assert_eq!(next(&mut journal, 8).as_deref(), Some("flush"));
        journal.confirm_flush(at(8), PAUSE);
        assert!(journal.is_done());
    }

    #[test]
    fn a_flush_after_a_quarantine_is_repeated() {
        let mut journal = Journal::new();
        journal.miss(missed("a"), BOUNDS);
        journal.quarantine(at(0));
        journal.flush_instead();
        assert_eq!(next(&mut journal, 0).as_deref(), Some("flush"));
        journal.confirm_flush(at(0), PAUSE);
        assert!(!journal.is_done());
        assert_eq!(next(&mut journal, PAUSE).as_deref(), Some("flush"));
        journal.confirm_flush(at(PAUSE), PAUSE);
        assert!(journal.is_done());
    }
}
