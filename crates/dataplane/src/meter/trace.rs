//! Single requests, sampled at random: where they went, and when what happened to them.
//!
//! Whether a request is sampled is decided when it is taken into service, by a countdown whose lengths are drawn so that each request
//! is sampled with the same probability, whatever its neighbours are. A request that is not sampled costs that countdown.

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
    /// Requests until the next one that is sampled, itself counted.
    countdown: u64,
    share: f64,
    random: u64,
    rows: Vec<TraceRow>,
    dropped: u64,
}

/// Rows that wait to be collected, which a driver does in every turn.
const ROWS_MAX: usize = 4096;

impl Default for Tracer {
    fn default() -> Self {
        // Never reached: no request is sampled.
        Self { countdown: u64::MAX, share: 0.0, random: 1, rows: Vec::new(), dropped: 0 }
    }
}

impl Tracer {
    /// Each request is sampled with this probability (above 0, at most 1), by choices that depend on the seed alone.
    pub(crate) fn begin(&mut self, share: f64, seed: u64) {
        // Neighbouring seeds must not begin alike, and 0 would stay 0.
        self.random = (seed.wrapping_add(1)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        self.share = share;
        self.draw();
    }

    /// Whether this request is sampled.
    #[inline]
    pub(crate) fn is_due(&mut self) -> bool {
        self.countdown = self.countdown.wrapping_sub(1);
        if self.countdown > 0 {
            return false;
        }
        self.draw();
        true
    }

    /// Hands out the rows that are kept. Returns how many more there were.
    pub(crate) fn take(&mut self, mut take: impl FnMut(TraceRow)) -> u64 {
        if !self.rows.is_empty() {
            self.rows.drain(..).for_each(&mut take);
        }
        std::mem::take(&mut self.dropped)
    }

    #[cold]
    fn draw(&mut self) {
        // xorshift64*, of which the upper 53 bits are a number above 0 and up to 1.
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let uniform =
            ((self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) + 1) as f64 / (1u64 << 53) as f64;
        // The number of trials up to the first success has the geometric distribution; inverted.
        let trials =
            if self.share >= 1.0 { 1.0 } else { (uniform.ln() / (-self.share).ln_1p()).floor() + 1.0 };
        // A cast stays within 64 bits.
        self.countdown = (trials as u64).max(1);
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

    fn gaps(share: f64, seed: u64, count: usize) -> Vec<u64> {
        let mut tracer = Tracer { share, random: seed, ..Tracer::default() };
        let next = |_| {
            tracer.draw();
            tracer.countdown
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn each_request_is_sampled_with_the_same_probability() {
        for share in [0.5, 0.1, 0.01] {
            let gaps = gaps(share, 7, 200_000);
            let count = gaps.len() as f64;
            let mean = gaps.iter().sum::<u64>() as f64 / count;
            // Six standard errors of the mean of a geometric distribution.
            let error = 6.0 * ((1.0 - share) / (share * share) / count).sqrt();
            assert!((mean - 1.0 / share).abs() < error, "{share}: {mean}");
            // A success follows another at once as often as after any other gap.
            let at_once = gaps.iter().filter(|gap| **gap == 1).count() as f64 / count;
            assert!(
                (at_once - share).abs() < 6.0 * (share * (1.0 - share) / count).sqrt(),
                "{share}: {at_once}"
            );
        }
        assert!(gaps(1.0, 7, 100).iter().all(|gap| *gap == 1));
    }

    #[test]
    fn choices_depend_on_the_seed() {
        assert_eq!(gaps(0.01, 5, 50), gaps(0.01, 5, 50));
        assert_ne!(gaps(0.01, 5, 50), gaps(0.01, 6, 50));
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
