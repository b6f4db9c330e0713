//! How many of a queue's workers serve at once where threads wait for processors: as few as bring as much.
//!
//! Where processors are scarce, each worker more only means that more threads take turns on them, with caches that others have filled:
//! 64 workers on two cores carry a fifth less than eight. But who waits for a slow server needs no processor, and then each worker less
//! is that much less throughput. What holds shows in the throughput alone, so it is tried: the crew is made smaller by a quarter for a
//! moment. Where workers wait for servers a quarter of the throughput goes with them, and they are called again; where they wait for
//! processors nothing is lost, and the next quarter is tried. Sometimes a larger crew is tried in the same way.

use std::mem;
use weir_timing::Instant;

/// The workers of one queue that may be at work.
#[derive(Debug)]
pub(super) struct Concurrency {
    workers: usize,
    /// At most this many now.
    limit: usize,
    phase: Phase,
    /// Which way the next trial goes.
    direction: Direction,
    /// How long the next pause is, in looks.
    pause_looks: u32,
    /// When the last look was.
    looked: Instant,
}

#[derive(Debug)]
enum Phase {
    /// No trial for this many looks.
    Pause(u32),
    /// What is served before the change.
    Before(Measured),
    /// What is served after it, and what was before.
    After { limit_before: usize, before: Measured, after: Measured },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Fewer,
    More,
}

/// Requests served in some time.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    looks: u32,
    served: u64,
    elapsed_ns: u64,
}

/// This number of looks makes a measurement.
const LOOKS: u32 = 3;

/// After a trial that failed there is no other for this many looks, and for twice as many after the next that fails. One may fail by
/// chance, and those that always fail must cost little.
const PAUSE_LOOKS_MIN: u32 = 5;

/// Two seconds: a trial of a fifteenth of a second in which a quarter is lost costs a hundredth then.
const PAUSE_LOOKS_MAX: u32 = 100;

/// A crew changes by 1 / this of its size.
const STEP: usize = 4;

/// There is no smaller crew.
const LIMIT_MIN: usize = 8;

impl Concurrency {
    pub(super) fn of(workers: usize) -> Self {
        Self {
            workers,
            limit: workers,
            phase: Phase::Pause(0),
            direction: Direction::Fewer,
            pause_looks: PAUSE_LOOKS_MIN,
            looked: Instant::ZERO,
        }
    }

    /// This many of them may be at work now.
    #[cfg(test)]
    pub(super) fn limited_to(workers: usize, limit: usize) -> Self {
        Self { limit, ..Self::of(workers) }
    }

    /// How many may be at work.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// To be called every few milliseconds: with the requests served since the last time, and whether threads wait for processors.
    pub(super) fn look(&mut self, served: u64, is_contended: bool, now: Instant) {
        let elapsed_ns = now.saturating_since(mem::replace(&mut self.looked, now));
        if !is_contended {
            // There are processors: back to all of them, in a few steps, for the next look may say otherwise.
            *self = Self { limit: self.more(), looked: now, ..Self::of(self.workers) };
            return;
        }
        match &mut self.phase {
            Phase::Pause(0) => self.phase = Phase::Before(Measured::default()),
            Phase::Pause(looks) => *looks -= 1,
            Phase::Before(before) => {
                if before.add(served, elapsed_ns) {
                    let before = *before;
                    self.begin_trial(before);
                }
            }
            Phase::After { limit_before, before, after } => {
                if after.add(served, elapsed_ns) {
                    let (limit_before, before, after) = (*limit_before, *before, *after);
                    self.end_trial(limit_before, before, after);
                }
            }
        }
    }

    fn begin_trial(&mut self, before: Measured) {
        let limit = match self.direction {
            Direction::Fewer => self.fewer(),
            Direction::More => self.more(),
        };
        if limit == self.limit {
            return self.turn_around();
        }
        let limit_before = mem::replace(&mut self.limit, limit);
        // The first look still sees those who came before.
        self.phase = Phase::After { limit_before, before, after: Measured::default() };
    }

    fn end_trial(&mut self, limit_before: usize, before: Measured, after: Measured) {
        let is_better = match self.direction {
            // If it followed the crew it would be a quarter less.
            Direction::Fewer => after.is_at_least(&before, 90),
            Direction::More => after.is_at_least(&before, 110),
        };
        if is_better {
            self.phase = Phase::Before(Measured::default());
            self.pause_looks = PAUSE_LOOKS_MIN;
        } else {
            self.limit = limit_before;
            self.turn_around();
        }
    }

    fn turn_around(&mut self) {
        self.direction = match self.direction {
            Direction::Fewer => Direction::More,
            Direction::More => Direction::Fewer,
        };
        self.phase = Phase::Pause(self.pause_looks);
        self.pause_looks = (2 * self.pause_looks).min(PAUSE_LOOKS_MAX);
    }

    fn fewer(&self) -> usize {
        (self.limit - self.limit / STEP).max(LIMIT_MIN).min(self.workers)
    }

    fn more(&self) -> usize {
        (self.limit + (self.limit / (STEP - 1)).max(1)).min(self.workers)
    }
}

impl Measured {
    /// Adds what was served since the last look, but for the first; returns whether it is enough.
    fn add(&mut self, served: u64, elapsed_ns: u64) -> bool {
        if self.looks > 0 {
            self.served += served;
            self.elapsed_ns += elapsed_ns;
        }
        self.looks += 1;
        self.looks > LOOKS
    }

    /// Whether the throughput is at least `percent` percent of the other.
    fn is_at_least(&self, other: &Self, percent: u64) -> bool {
        let scaled = |of: &Self, by: &Self| u128::from(of.served) * u128::from(by.elapsed_ns);
        scaled(self, other) * 100 >= scaled(other, self) * u128::from(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOOK_NS: u64 = 20_000_000;

    /// Looks for this many seconds at a queue whose throughput follows from the crew; gives the mean throughput of the last second, and the
    /// crew at the end.
    fn run(workers: usize, seconds: u64, throughput: impl Fn(usize, u64) -> f64) -> (f64, usize) {
        let mut crew = Concurrency::of(workers);
        let looks = seconds * 1_000_000_000 / LOOK_NS;
        let mut last_second = 0.0;
        for look in 0..looks {
            let served = throughput(crew.limit(), look) * LOOK_NS as f64 / 1e9;
            crew.look(served as u64, true, Instant::from_nanos((look + 1) * LOOK_NS));
            last_second += if look + 50 >= looks { served } else { 0.0 };
        }
        (last_second, crew.limit())
    }

    #[test]
    fn fewer_serve_where_more_only_wait_for_processors() {
        let shared = |crew: usize, _: u64| 50_000.0 - 250.0 * crew as f64;
        let (throughput, limit) = run(64, 2, shared);
        assert!(limit <= 8, "{limit}");
        assert!(throughput > 0.95 * shared(8, 0), "{throughput}");
    }

    #[test]
    fn all_serve_where_they_wait_for_servers() {
        for seconds in 1..20 {
            let (throughput, limit) = run(64, seconds, |crew, _| crew as f64 / 0.020);
            assert!(limit >= 48, "{limit} after {seconds} s");
            assert!(throughput > 0.95 * 64.0 / 0.020, "{throughput} after {seconds} s");
        }
    }

    #[test]
    fn those_return_who_were_sent_away_when_a_server_becomes_slow() {
        let slow_later = |crew: usize, look: u64| if look < 100 { 50_000.0 } else { crew as f64 / 0.020 };
        let (_, limit) = run(64, 40, slow_later);
        assert!(limit >= 48, "{limit}");
    }

    #[test]
    fn all_may_serve_as_soon_as_there_are_processors() {
        let mut crew = Concurrency::of(64);
        crew.limit = LIMIT_MIN;
        let looks = (1..).take_while(|&look| {
            crew.look(1, false, Instant::from_nanos(look * LOOK_NS));
            crew.limit() < 64
        });
        assert!(looks.count() <= 12, "a quarter of a second");
    }

    #[test]
    fn a_small_crew_is_left_as_it_is() {
        for workers in 1..=LIMIT_MIN {
            assert_eq!(run(workers, 10, |_, _| 1_000.0).1, workers);
        }
    }

    proptest! {
        /// Whatever is seen, somebody serves, and no more than there are.
        #[test]
        fn a_limit_is_one_of_at_least_a_few(
            workers in 1_usize..200, looks in prop::collection::vec((0u64..3_000, any::<bool>(), 0u64..LOOK_NS), 1..300)
        ) {
            let mut crew = Concurrency::of(workers);
            let mut now = Instant::ZERO;
            for (served, is_contended, pause) in looks {
                now = now.plus(pause);
                crew.look(served, is_contended, now);
                prop_assert!((LIMIT_MIN.min(workers)..=workers).contains(&crew.limit()));
            }
        }

        /// Throughput that varies by a tenth from look to look does not send away those who are needed.
        #[test]
        fn noise_costs_little(seed in any::<u64>()) {
            use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
            let hash = |look: u64| BuildHasherDefault::<DefaultHasher>::default().hash_one((seed, look));
            let noise = |look: u64| 0.9 + 0.2 * (hash(look) % 1_000) as f64 / 1_000.0;
            let total: f64 = (1..=20).map(|seconds| run(64, seconds, |crew, look| crew as f64 / 0.020 * noise(look)).0).sum();
            prop_assert!(total / 20.0 > 0.85 * 64.0 / 0.020, "{}", total / 20.0);
        }
    }
}
