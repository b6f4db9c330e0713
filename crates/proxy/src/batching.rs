//! Whether an event loop gathers more before it writes.
//!
//! Each write to a server or a client costs a call, a segment and a wake-up at the other end, however many requests it carries. A loop
//! that writes for every few requests makes small batches for the servers and the clients, too, and all of them pay. So a loop may pause
//! between reading and writing. A pause delays what is in hand by its length, and gains what arrives in it.
//!
//! The rule is a function of four numbers that a loop sees: how many clients are active (N), how often a client is read (X per second),
//! how often a request comes, which with pipelines is several times per read, and how many clients were read in this turn. N / X is the
//! time in which each client comes once, by Little's law. A pause is at most a small share of that, and never longer than the setting.
//! There is none while few clients are active, so that nobody waits for nobody; none if it would bring less than a request or two (and
//! the replies to as many, for what is gained at the servers is gained at the way back, too); and none if a good part of the active
//! clients is in hand already, as it is when all share few cores.

use std::{fmt, time::Duration};
use weir_timing::Instant;

/// When an event loop gathers more before it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batching {
    /// Never: every turn ends with writing at once.
    Off,
    /// When so many clients are active that a larger batch costs nobody.
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

impl fmt::Display for Batching {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Off => formatter.write_str("0"),
            Self::Adaptive { pause_max_ns } => write!(formatter, "{:?}", Duration::from_nanos(pause_max_ns)),
            Self::Always { pause_ns } => {
                write!(formatter, "{:?} in every turn", Duration::from_nanos(pause_ns))
            }
        }
    }
}

/// The longest pause unless something else is said.
pub const PAUSE_MAX_NS: u64 = 50_000;

impl Default for Batching {
    fn default() -> Self {
        Self::Adaptive { pause_max_ns: PAUSE_MAX_NS }
    }
}

/// What a loop sees of its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pace {
    /// Clients that were read at least once lately.
    active: u64,
    /// Nanoseconds between two reads of any client.
    interval_ns: u64,
    /// Nanoseconds between two requests.
    request_interval_ns: u64,
}

impl Pace {
    /// Nobody was heard.
    const SILENCE: Self = Self { active: 0, interval_ns: u64::MAX, request_interval_ns: u64::MAX };
}

/// How long to pause, in nanoseconds, when `in_hand` clients were read since the last writing; 0: not at all.
fn pause_ns(batching: Batching, pace: Pace, in_hand: u64) -> u64 {
    let pause_max_ns = match batching {
        Batching::Off => return 0,
        Batching::Always { pause_ns } => return pause_ns,
        Batching::Adaptive { pause_max_ns } => pause_max_ns,
    };
    if pace.active < ACTIVE_MIN || in_hand * ENOUGH_IN_HAND >= pace.active {
        return 0;
    }
    let round_ns = pace.active.saturating_mul(pace.interval_ns);
    let pause_ns = pause_max_ns.min(round_ns / SHARE_OF_ROUND);
    if pause_ns < PAUSE_MIN_NS || pause_ns / GAIN_MIN < pace.request_interval_ns { 0 } else { pause_ns }
}

/// With fewer clients than this everything is passed on at once.
const ACTIVE_MIN: u64 = 32;

/// This share of the active clients in hand (one in so many) is a batch.
const ENOUGH_IN_HAND: u64 = 4;

/// A pause is at most this share (one in so many) of the time in which each client comes once.
const SHARE_OF_ROUND: u64 = 16;

/// A shorter one costs more than it gains: two calls and a timer.
const PAUSE_MIN_NS: u64 = 10_000;

/// So many requests must be expected to come in a pause.
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
}

/// A stretch of time over which clients are counted.
#[derive(Debug)]
struct Window {
    number: u32,
    began: Instant,
    active: u64,
    reads: u64,
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
            window: Window { number: 1, began: now, active: 0, reads: 0, requests_before: 0 },
            heard: Vec::new(),
            in_hand: 0,
        }
    }

    /// Bytes of this client were read.
    pub(crate) fn note_read(&mut self, client: usize) {
        if client >= self.heard.len() {
            self.heard.resize(client + 1, 0);
        }
        self.window.active += u64::from(self.heard[client] != self.window.number);
        self.window.reads += 1;
        self.heard[client] = self.window.number;
        self.in_hand += 1;
    }

    /// All that was ready was read, and that makes so many requests since the loop began: how long to pause before writing, in
    /// nanoseconds; 0: not at all.
    pub(crate) fn pause_ns(&mut self, requests: u64, now: Instant) -> u64 {
        let elapsed_ns = now.saturating_since(self.window.began);
        if elapsed_ns >= WINDOW_NS {
            let Window { number, active, reads, requests_before, .. } = self.window;
            let between = |count: u64| elapsed_ns.checked_div(count).unwrap_or(u64::MAX);
            self.pace = Pace {
                active,
                interval_ns: between(reads),
                request_interval_ns: between(requests.saturating_sub(requests_before)),
            };
            // Zero stands for clients that were never read.
            let number = number.wrapping_add(1).max(1);
            self.window = Window { number, began: now, active: 0, reads: 0, requests_before: requests };
        }
        pause_ns(self.batching, self.pace, self.in_hand)
    }

    /// What was in hand is being written.
    pub(crate) fn note_writing(&mut self) {
        self.in_hand = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADAPTIVE: Batching = Batching::Adaptive { pause_max_ns: PAUSE_MAX_NS };

    /// Without pipelines.
    fn pace(active: u64, reads_per_second: u64) -> Pace {
        let interval_ns = 1_000_000_000 / reads_per_second;
        Pace { active, interval_ns, request_interval_ns: interval_ns }
    }

    #[test]
    fn many_clients_that_come_fast_are_waited_for_as_long_as_allowed() {
        assert_eq!(pause_ns(ADAPTIVE, pace(384, 100_000), 5), PAUSE_MAX_NS);
        assert_eq!(pause_ns(ADAPTIVE, pace(64, 80_000), 3), PAUSE_MAX_NS);
    }

    #[test]
    fn a_pause_is_a_small_share_of_the_time_in_which_each_client_comes_once() {
        assert_eq!(pause_ns(ADAPTIVE, pace(64, 200_000), 3), 64 * 5_000 / SHARE_OF_ROUND);
    }

    #[test]
    fn few_clients_are_never_waited_for() {
        for active in 0..ACTIVE_MIN {
            assert_eq!(pause_ns(ADAPTIVE, pace(active, 100_000), 0), 0, "{active} clients");
        }
    }

    #[test]
    fn a_large_batch_is_written_at_once() {
        assert_eq!(pause_ns(ADAPTIVE, pace(64, 80_000), 64 / ENOUGH_IN_HAND), 0);
        assert_eq!(pause_ns(ADAPTIVE, pace(384, 100_000), 384), 0);
    }

    #[test]
    fn nobody_is_waited_for_who_will_hardly_come() {
        assert_eq!(pause_ns(ADAPTIVE, pace(1_000, 10_000), 1), 0, "one in 100 µs");
    }

    #[test]
    fn clients_that_come_seldom_with_many_requests_each_are_waited_for() {
        let pipelined = Pace { request_interval_ns: 6_000, ..pace(64, 16_000) };
        assert_eq!(pause_ns(ADAPTIVE, pipelined, 1), PAUSE_MAX_NS);
        assert_eq!(pause_ns(ADAPTIVE, pace(64, 16_000), 1), 0, "one in 62 µs");
    }

    #[test]
    fn the_extremes_look_at_nothing() {
        for (active, in_hand) in [(1, 1), (384, 5), (384, 384)] {
            assert_eq!(pause_ns(Batching::Off, pace(active, 100_000), in_hand), 0);
            assert_eq!(pause_ns(Batching::Always { pause_ns: 7 }, pace(active, 100_000), in_hand), 7);
        }
    }

    #[test]
    fn a_loop_that_has_seen_nothing_yet_does_not_pause() {
        let mut batcher = Batcher::new(ADAPTIVE, Instant::ZERO);
        (0..1_000).for_each(|client| batcher.note_read(client));
        batcher.note_writing();
        assert_eq!(batcher.pause_ns(1_000, Instant::from_nanos(WINDOW_NS - 1)), 0);
    }

    #[test]
    fn clients_are_counted_once_per_window_and_forgotten_when_they_fall_silent() {
        let mut batcher = Batcher::new(ADAPTIVE, Instant::ZERO);
        for read in 0..800 {
            batcher.note_read(read % 100);
        }
        batcher.note_writing();
        assert_eq!(batcher.pause_ns(1_600, Instant::from_nanos(WINDOW_NS)), PAUSE_MAX_NS);
        let pace = Pace { active: 100, interval_ns: WINDOW_NS / 800, request_interval_ns: WINDOW_NS / 1_600 };
        assert_eq!(batcher.pace, pace);
        assert_eq!(batcher.pause_ns(1_600, Instant::from_nanos(2 * WINDOW_NS)), 0);
        assert_eq!(batcher.pace, Pace::SILENCE);
    }
}
