//! Single requests, sampled at random: where they went, and when what happened to them.
//!
//! Whether a request is sampled is decided when it is taken into service, by a countdown whose lengths are drawn so that each request
//! is sampled with the same probability, whatever its neighbours are. A request that is not sampled costs that countdown.

use crate::meter::gaps::Gaps;
use std::sync::Arc;
use weir_timing::Outcome;
use weir_timing::{Instant, Operation, Stamps};

/// One sampled request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// The client's connection: how many this thread, or whoever took the request, had accepted with it.
    pub client: u64,
    /// What was asked.
    pub operation: Operation,
    /// `ok`, `degraded`, `refused`, `server-error`, `client-error`, or the name of a fault (`timeout`, `down`, …).
    pub outcome: &'static str,
    /// Keys that the request named.
    pub keys: u32,
    /// Keys that were found.
    pub hits: u32,
    /// Bytes of the request.
    pub request_bytes: u64,
    /// Bytes of the reply; 0 where the client asked for silence.
    pub reply_bytes: u64,
    /// The servers to which messages went, each once, in the order in which they were first sent to.
    pub servers: Vec<Arc<str>>,
    /// How many waited already in the queue that it entered; of several queues the longest.
    pub queue_length: u64,
    /// When the kernel received the last bytes of the read that brought its first byte, where the kernel said so.
    pub arrived: Option<Instant>,
    /// Its stamps, each at least its predecessor.
    pub stamps: Stamps,
}

/// When the kernel received what two reads of a session brought: the last, and the one that brought the first byte of what is not taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arrivals {
    last: Read,
    first: Read,
}

#[derive(Clone, Copy, Debug, Default)]
struct Read {
    returned: Instant,
    arrived: Option<Instant>,
}

impl Arrivals {
    /// A read returned at `now`. `input_since`: when the read returned that brought the first byte of what was kept before.
    pub fn note(&mut self, input_since: Instant, now: Instant, arrived: Option<Instant>) {
        if self.last.returned == input_since {
            self.first = self.last;
        }
        self.last = Read { returned: now, arrived };
    }

    /// When the kernel received what was read by a read that returned at `first_byte`.
    pub fn of(&self, first_byte: Instant) -> Option<Instant> {
        let read = [self.last, self.first].into_iter().find(|read| read.returned == first_byte);
        read.and_then(|read| read.arrived)
    }
}

/// What is noted of a sampled request while it is in service.
#[derive(Debug, Default)]
pub(crate) struct Traced {
    client: u64,
    request_bytes: u64,
    reply_bytes: u64,
    servers: Vec<Arc<str>>,
    queue_length: u64,
    arrived: Option<Instant>,
}

/// What became of a sampled request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) operation: Operation,
    pub(crate) outcome: Outcome,
    /// The outcome, in a word.
    pub(crate) word: &'static str,
    pub(crate) stamps: Stamps,
}

impl Traced {
    /// A request of this client, of this many bytes, entered a queue that had this length.
    pub(crate) fn of(client: u64, request_bytes: u64, queue_length: u64, arrived: Option<Instant>) -> Self {
        Self { client, request_bytes, queue_length, arrived, ..Self::default() }
    }

    /// A message to this server left a queue that had been so long when it entered.
    pub(crate) fn note_server(&mut self, server: &Arc<str>, queue_length: u64) {
        self.queue_length = self.queue_length.max(queue_length);
        if !self.servers.contains(server) {
            self.servers.push(Arc::clone(server));
        }
    }

    /// Its reply has this many bytes.
    pub(crate) fn note_reply(&mut self, bytes: usize) {
        self.reply_bytes = bytes as u64;
    }

    pub(crate) fn into_row(self, ended: Ended) -> TraceRow {
        let Ended { operation, outcome, word, stamps } = ended;
        let is_counted = operation.is_retrieval() && !outcome.error;
        TraceRow {
            client: self.client,
            operation,
            outcome: word,
            keys: outcome.keys,
            hits: if is_counted { outcome.hits } else { 0 },
            request_bytes: self.request_bytes,
            reply_bytes: self.reply_bytes,
            servers: self.servers,
            queue_length: self.queue_length,
            arrived: self.arrived,
            stamps: stamps.in_order(),
        }
    }
}

/// Chooses requests, and keeps the rows of those that were answered until they are collected.
#[derive(Debug)]
pub(crate) struct Tracer {
    /// Requests until the next one of which something is noted, itself counted.
    countdown: u64,
    /// What is left to count behind the next one, where that is due for another reason than a row of its own.
    left: Option<u64>,
    gaps: Gaps,
    rows: Vec<TraceRow>,
    dropped: u64,
}

/// Rows that wait to be collected, which a driver does in every turn.
const ROWS_MAX: usize = 4096;

impl Default for Tracer {
    fn default() -> Self {
        // Never reached: no request is sampled.
        Self { countdown: u64::MAX, left: None, gaps: Gaps::new(1.0, 0), rows: Vec::new(), dropped: 0 }
    }
}

impl Tracer {
    /// Each request is sampled with this probability (above 0, at most 1), by choices that depend on the seed alone.
    pub(crate) fn begin(&mut self, share: f64, seed: u64) {
        self.gaps = Gaps::new(share, seed);
        self.countdown = self.gaps.next();
    }

    /// The next request is due, whether it is sampled or not.
    pub(crate) fn look_at_next(&mut self) {
        self.left = self.left.or(Some(self.countdown - 1));
        self.countdown = 1;
    }

    /// Whether this request is due; then [`Tracer::is_sampled`] is to be asked.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        self.countdown = self.countdown.wrapping_sub(1);
        self.countdown == 0
    }

    /// Whether the request that is due is sampled.
    #[cold]
    pub(crate) fn is_sampled(&mut self) -> bool {
        let left = self.left.take().unwrap_or(0);
        self.countdown = if left > 0 { left } else { self.gaps.next() };
        left == 0
    }

    /// Hands out the rows that are kept. Returns how many more there were.
    pub(crate) fn take(&mut self, mut take: impl FnMut(TraceRow)) -> u64 {
        if !self.rows.is_empty() {
            self.rows.drain(..).for_each(&mut take);
        }
        std::mem::take(&mut self.dropped)
    }

    pub(crate) fn push(&mut self, row: TraceRow) {
        if self.rows.len() < ROWS_MAX {
            self.rows.push(row);
        } else {
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_due_for_another_reason_does_not_change_which_are_sampled() {
        let sampled = |looked_at: fn(usize) -> bool| {
            let mut tracer = Tracer::default();
            tracer.begin(0.2, 7);
            let is_sampled = |number: &usize| {
                if looked_at(*number) {
                    tracer.look_at_next();
                }
                let is_due = tracer.is_due();
                assert!(is_due || !looked_at(*number));
                is_due && tracer.is_sampled()
            };
            (0..1000).filter(is_sampled).collect::<Vec<_>>()
        };
        let expected = sampled(|_| false);
        assert!(expected.len() > 100);
        assert_eq!(sampled(|number| number % 3 == 0), expected);
        assert_eq!(sampled(|_| true), expected);
        // Nothing is sampled where nobody asked for that.
        let mut tracer = Tracer::default();
        tracer.look_at_next();
        assert!(tracer.is_due() && !tracer.is_sampled() && !tracer.is_due());
    }

    #[test]
    fn rows_that_nobody_collects_are_bounded_and_counted() {
        let mut tracer = Tracer::default();
        let (operation, outcome) = (Operation::Get, Outcome { error: false, keys: 1, hits: 0 });
        let ended = Ended { operation, outcome, word: "ok", stamps: Stamps::at(Instant::ZERO) };
        (0..ROWS_MAX + 3).for_each(|_| tracer.push(Traced::default().into_row(ended)));
        assert_eq!((tracer.rows.len(), tracer.dropped), (ROWS_MAX, 3));
    }

    #[test]
    fn a_request_arrived_with_the_read_that_brought_its_first_byte() {
        let at = Instant::from_nanos;
        let mut arrivals = Arrivals::default();
        arrivals.note(Instant::ZERO, at(10), Some(at(5)));
        assert_eq!(arrivals.of(at(10)), Some(at(5)));
        // The request is not complete: two more reads belong to it.
        arrivals.note(at(10), at(20), Some(at(15)));
        arrivals.note(at(10), at(30), None);
        assert_eq!(arrivals.of(at(10)), Some(at(5)));
        // The next one began in the last of them.
        assert_eq!(arrivals.of(at(30)), None);
        arrivals.note(at(30), at(40), Some(at(35)));
        assert_eq!(
            (arrivals.of(at(30)), arrivals.of(at(40)), arrivals.of(at(10))),
            (None, Some(at(35)), None)
        );
    }
}
