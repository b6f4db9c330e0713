//! Whether an event loop gathers more before it writes.
//!
//! Each write to a server or a client costs a call, a segment and a wake-up at the other end, however many requests it carries. A loop
//! that writes for every few requests makes small batches for the servers and the clients, too, and all of them pay. So a loop may pause
//! between reading and writing. A pause delays what is in hand by its length, and gains what arrives in it.
//!
//! A loop sees how many clients are active, how often a request comes, and how many clients were read in this turn. It also sees how many
//! requests are in the proxy or at its servers on average (L), and whether it waits for a processor. Whether it pauses is a function of
//! that alone. By Little's law a request is here for R = L / X, where X is how many come per second.
//!
//! | rule | why |
//! |---|---|
//! | a pause is at most a quarter of R | nobody waits noticeably longer, whether clients wait for replies before they ask again or not |
//! | it is never longer than `batch_pause` | that bounds what it can cost |
//! | there is none that would be very short | two calls and a timer would cost more than it gains |
//! | there is none while few clients are active | there is nobody to wait for |
//! | there is none that would bring less than two requests | two are enough: what is gained at the servers is gained with the replies on the way back, too |
//! | there is none if a quarter of the active clients is in hand | that is a batch already |
//! | while the loop waits for processors, as where all share few, many clients must be active | batches are large there anyway, and with few clients a pause leaves a processor to nobody |

use std::mem;
use weir_dataplane::SessionId;
use weir_timing::Instant;

/// When an event loop gathers more before it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Batching {
    /// Never: every turn ends with writing at once.
    Off,
    /// When enough clients are active for a larger batch to cost nobody.
    Adaptive {
        /// The longest pause, in nanoseconds.
        pause_max_ns: u64,
    },
    /// In every turn: for tests and benchmarks.
    Always {
        /// How long, in nanoseconds.
        pause_ns: u64,
    },
}

/// What a loop sees of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    /// Clients that were read at least once lately.
    active: u64,
    /// Nanoseconds between two requests.
    interval_ns: u64,
    /// Nanoseconds from a request's arrival to its answer, on average.
    residence_ns: u64,
}

impl Pace {
    /// Nobody was heard.
    const SILENCE: Self = Self { active: 0, interval_ns: u64::MAX, residence_ns: 0 };
}

/// How long to pause, in nanoseconds, when `in_hand` clients were read since the last writing; 0: not at all.
fn pause_ns(batching: Batching, pace: Pace, in_hand: u64, is_contended: bool) -> u64 {
    let pause_max_ns = match batching {
        Batching::Off => return 0,
        Batching::Always { pause_ns } => return pause_ns,
        Batching::Adaptive { pause_max_ns } => pause_max_ns,
    };
    let active_min = if is_contended { ACTIVE_MIN_CONTENDED } else { ACTIVE_MIN };
    if pace.active < active_min || in_hand * ENOUGH_IN_HAND >= pace.active {
        return 0;
    }
    let pause_ns = pause_max_ns.min(pace.residence_ns / SHARE_OF_RESIDENCE);
    if pause_ns < PAUSE_MIN_NS || pause_ns / GAIN_MIN < pace.interval_ns { 0 } else { pause_ns }
}

/// With fewer clients than this everything is passed on at once.
const ACTIVE_MIN: u64 = 32;

/// The same while the loop waits for processors. With 64 clients on two cores that the proxy shares with them and the servers pauses
/// take 6 % of the throughput, with 384 they give 11 %.
const ACTIVE_MIN_CONTENDED: u64 = 128;

/// The loop waits for processors if it spends a share of 1 / this on that, of the time in which it could run. With a core of its own the
/// share is one in fifty to a hundred, on two shared ones one in two to six.
pub(crate) const CONTENDED_ONE_IN: u64 = 8;

/// A share of 1 / this of the active clients is a batch, once it is in hand.
const ENOUGH_IN_HAND: u64 = 4;

/// A pause is at most 1 / this of the time that a request is here.
const SHARE_OF_RESIDENCE: u64 = 4;

/// A shorter one costs more than it gains: two calls and a timer.
const PAUSE_MIN_NS: u64 = 10_000;

/// At least this many requests must be expected to come in a pause.
const GAIN_MIN: u64 = 2;

/// Watches the clients of one loop, and says how long to pause.
#[derive(Debug)]
pub(crate) struct Batcher {
    batching: Batching,
    pace: Pace,
    window: Window,
    /// For each client, the number of the last window in which it was read.
    heard: Vec<u32>,
    /// Clients read since the last writing.
    in_hand: u64,
    /// Requests in service after the last turn.
    in_service: u64,
    /// The end of the last reading.
    read: Instant,
    is_contended: bool,
}

/// A stretch of time over which clients are counted.
#[derive(Debug)]
struct Window {
    number: u32,
    began: Instant,
    active: u64,
    /// Integral over time of the requests in service.
    in_service_ns: u64,
    /// All requests before it.
    requests_before: u64,
}

/// Long enough for every active client to come once where it matters, short enough to follow the load.
const WINDOW_NS: u64 = 10_000_000;

/// The kernel ends this thread's pauses when they are over, and not, as it may otherwise, 50 µs later to save a wake-up.
pub(crate) fn allow_short_pauses() {
    // Where the kernel refuses, pauses are longer than asked for.
    let _ = nix::sys::prctl::set_timerslack(1);
}

impl Batcher {
    pub(crate) fn new(batching: Batching, now: Instant) -> Self {
        Self {
            batching,
            pace: Pace::SILENCE,
            window: Window { number: 1, began: now, active: 0, in_service_ns: 0, requests_before: 0 },
            heard: Vec::new(),
            in_hand: 0,
            in_service: 0,
            read: now,
            is_contended: false,
        }
    }

    /// Bytes of this client were read.
    pub(crate) fn note_read(&mut self, client: SessionId) {
        let client = client.index();
        if client >= self.heard.len() {
            self.heard.resize(client + 1, 0);
        }
        self.window.active += u64::from(self.heard[client] != self.window.number);
        self.heard[client] = self.window.number;
        self.in_hand += 1;
    }

    /// Whether this thread waits for processors.
    pub(crate) fn note_contention(&mut self, is_contended: bool) {
        self.is_contended = is_contended;
    }

    /// All that was ready was read, and that makes this many requests since the loop began. Returns how long to pause before writing, in
    /// nanoseconds; 0: not at all.
    pub(crate) fn pause_ns(&mut self, requests: u64, now: Instant) -> u64 {
        let since_last_ns = now.saturating_since(mem::replace(&mut self.read, now));
        self.window.in_service_ns =
            self.window.in_service_ns.saturating_add(since_last_ns.saturating_mul(self.in_service));
        let elapsed_ns = now.saturating_since(self.window.began);
        if elapsed_ns >= WINDOW_NS {
            self.pace = self.window.pace(requests, elapsed_ns);
            // Zero stands for clients that were never read.
            let number = self.window.number.wrapping_add(1).max(1);
            self.window =
                Window { number, began: now, active: 0, in_service_ns: 0, requests_before: requests };
        }
        pause_ns(self.batching, self.pace, self.in_hand, self.is_contended)
    }

    /// A turn is over: what was in hand is written, and this many requests wait for replies.
    pub(crate) fn note_turn(&mut self, in_service: usize) {
        self.in_hand = 0;
        self.in_service = in_service as u64;
    }
}

impl Window {
    /// What was seen in it, if it took so long.
    fn pace(&self, requests: u64, elapsed_ns: u64) -> Pace {
        match requests.saturating_sub(self.requests_before) {
            0 => Pace { active: self.active, ..Pace::SILENCE },
            count => Pace {
                active: self.active,
                interval_ns: elapsed_ns / count,
                residence_ns: self.in_service_ns / count,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE_MAX_NS: u64 = 200_000;
    const ADAPTIVE: Batching = Batching::Adaptive { pause_max_ns: PAUSE_MAX_NS };

    /// This many clients, which send this many requests per second. The requests are here for this many microseconds.
    fn pace(active: u64, requests_per_second: u64, residence_us: u64) -> Pace {
        Pace { active, interval_ns: 1_000_000_000 / requests_per_second, residence_ns: residence_us * 1_000 }
    }

    fn pause(pace: Pace, in_hand: u64) -> u64 {
        pause_ns(ADAPTIVE, pace, in_hand, false)
    }

    #[test]
    fn many_clients_that_come_fast_are_waited_for_as_long_as_allowed() {
        assert_eq!(pause(pace(384, 70_000, 3_000), 5), PAUSE_MAX_NS);
        assert_eq!(pause(pace(64, 150_000, 2_500), 3), PAUSE_MAX_NS, "64 with ten requests each");
    }

    #[test]
    fn a_pause_is_a_quarter_of_the_time_that_a_request_is_here() {
        assert_eq!(pause(pace(64, 70_000, 480), 3), 120_000);
    }

    #[test]
    fn few_clients_are_never_waited_for() {
        for active in 0..ACTIVE_MIN {
            assert_eq!(pause(pace(active, 100_000, 5_000), 0), 0, "{active} clients");
        }
    }

    #[test]
    fn a_large_batch_is_written_at_once() {
        assert_eq!(pause(pace(64, 80_000, 800), 64 / ENOUGH_IN_HAND), 0);
        assert_eq!(pause(pace(384, 100_000, 3_000), 384), 0);
    }

    #[test]
    fn nobody_is_waited_for_who_will_hardly_come() {
        assert_eq!(pause(pace(1_000, 8_000, 10_000), 1), 0, "one in 125 µs");
    }

    /// However many clients there are: they do not wait for each other's replies, and a pause would be most of their time.
    #[test]
    fn fast_answers_are_not_held_up() {
        assert_eq!(pause(pace(1_000, 40_000, 75), 1), 0);
        assert_eq!(
            pause(pace(1_000, 20_000, 300), 1),
            0,
            "two requests take 100 µs to come, and 37 are allowed"
        );
    }

    #[test]
    fn a_loop_that_waits_for_processors_pauses_for_many_clients_alone() {
        assert_eq!(pause_ns(ADAPTIVE, pace(ACTIVE_MIN_CONTENDED - 1, 70_000, 3_000), 5, true), 0);
        assert_eq!(pause_ns(ADAPTIVE, pace(ACTIVE_MIN_CONTENDED, 70_000, 3_000), 5, true), PAUSE_MAX_NS);
        let always = Batching::Always { pause_ns: 7 };
        assert_eq!(pause_ns(always, pace(384, 70_000, 3_000), 5, true), 7);
    }

    #[test]
    fn the_extremes_look_at_nothing() {
        for (active, in_hand) in [(1, 1), (384, 5), (384, 384)] {
            let pace = pace(active, 100_000, 3_000);
            assert_eq!(pause_ns(Batching::Off, pace, in_hand, false), 0);
            assert_eq!(pause_ns(Batching::Always { pause_ns: 7 }, pace, in_hand, false), 7);
        }
    }

    #[test]
    fn a_loop_that_has_seen_nothing_yet_does_not_pause() {
        let mut batcher = Batcher::new(ADAPTIVE, Instant::ZERO);
        (0..1_000).map(SessionId::from_index).for_each(|client| batcher.note_read(client));
        batcher.note_turn(1_000);
        assert_eq!(batcher.pause_ns(1_000, Instant::from_nanos(WINDOW_NS - 1)), 0);
    }

    #[test]
    fn clients_are_counted_once_per_window_and_forgotten_when_they_fall_silent() {
        let mut batcher = Batcher::new(ADAPTIVE, Instant::ZERO);
        for read in 0..800 {
            batcher.note_read(SessionId::from_index(read % 100));
        }
        batcher.note_turn(320);
        assert_eq!(batcher.pause_ns(1_600, Instant::from_nanos(WINDOW_NS)), PAUSE_MAX_NS);
        // 320 in service on average, 160 per millisecond.
        let pace = Pace { active: 100, interval_ns: WINDOW_NS / 1_600, residence_ns: 2_000_000 };
        assert_eq!(batcher.pace, pace);
        assert_eq!(batcher.pause_ns(1_600, Instant::from_nanos(2 * WINDOW_NS)), 0);
        assert_eq!(batcher.pace, Pace::SILENCE);
    }

    #[test]
    fn requests_in_service_are_averaged_over_time() {
        let mut batcher = Batcher::new(ADAPTIVE, Instant::ZERO);
        for (at_ns, in_service) in [(0, 10), (WINDOW_NS / 4, 50), (WINDOW_NS / 2, 0)] {
            batcher.pause_ns(0, Instant::from_nanos(at_ns));
            batcher.note_turn(in_service);
        }
        batcher.pause_ns(100, Instant::from_nanos(WINDOW_NS));
        assert_eq!(batcher.pace.residence_ns, 15 * WINDOW_NS / 100);
    }
}
