//! Whether a thread waits for processors: the kernel counts for each thread how long it ran, and how long it could have.
//!
//! They are read 50 times in a second by each thread that serves, so from a file that stays open.

use std::{fs::File, mem, os::unix::fs::FileExt, str::FromStr};
use weir_timing::Instant;

/// What the kernel says of the thread that has made this.
#[derive(Debug)]
pub(crate) struct CpuContention {
    /// CPUs are contended where the thread waits for at least 1 / this of the time in which it could run.
    one_in: u64,
    /// `None` where the kernel does not tell: then nobody waits, as far as anybody knows.
    counts: Option<File>,
    before: Counts,
    looks_next: Instant,
}

/// Of one thread since it began, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    ran: u64,
    waited: u64,
}

/// How often the counts are read.
const PAUSE_NS: u64 = 20_000_000;

/// A thread that did less has not met the others.
const WORK_MIN_NS: u64 = 500_000;

impl CpuContention {
    /// That of this thread: CPUs are contended if it waits for one part in `one_in` of the time in which it could run.
    pub(crate) fn at_one_in(one_in: u64) -> Self {
        let counts = File::open("/proc/thread-self/schedstat").ok();
        Self { one_in, counts, before: Counts::default(), looks_next: Instant::ZERO }
    }

    /// Whether this thread has waited for processors lately, if it is time to look.
    pub(crate) fn look(&mut self, now: Instant) -> Option<bool> {
        if now < self.looks_next {
            return None;
        }
        self.looks_next = now.plus(PAUSE_NS);
        let counts = self.counts.as_ref().and_then(read)?;
        let before = mem::replace(&mut self.before, counts);
        Some(is_contended(before, counts, self.one_in))
    }
}

fn read(file: &File) -> Option<Counts> {
    let mut text = [0; 64];
    let length = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..length]).ok()?.parse().ok()
}

impl FromStr for Counts {
    type Err = ();

    /// "ran waited turns", as in `Documentation/scheduler/sched-stats.rst` of Linux.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut numbers = text.split_ascii_whitespace().map_while(|number| number.parse().ok());
        let (Some(ran), Some(waited)) = (numbers.next(), numbers.next()) else { return Err(()) };
        Ok(Self { ran, waited })
    }
}

/// Whether a thread spent one part in `one_in` of the time in which it could have run on waiting.
fn is_contended(before: Counts, now: Counts, one_in: u64) -> bool {
    let (ran, waited) = (now.ran.saturating_sub(before.ran), now.waited.saturating_sub(before.waited));
    ran + waited >= WORK_MIN_NS && waited.saturating_mul(one_in) >= ran + waited
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Counts = Counts { ran: 7_000_000, waited: 1_000_000 };

    fn later(ran: u64, waited: u64) -> Counts {
        Counts { ran: BEFORE.ran + ran, waited: BEFORE.waited + waited }
    }

    #[test]
    fn the_share_of_time_spent_on_waiting_is_what_counts() {
        assert!(is_contended(BEFORE, later(3_000_000, 1_000_000), 4));
        assert!(!is_contended(BEFORE, later(3_000_000, 999_999), 4));
        assert!(is_contended(BEFORE, later(7_000_000, 1_000_000), 8));
        assert!(!is_contended(BEFORE, later(7_000_001, 1_000_000), 8));
    }

    #[test]
    fn a_thread_that_hardly_ran_knows_nothing() {
        assert!(!is_contended(BEFORE, later(0, WORK_MIN_NS - 1), 4));
        assert!(!is_contended(BEFORE, BEFORE, 4));
        assert!(!is_contended(BEFORE, Counts::default(), 4), "counts that went back");
    }

    #[test]
    fn the_kernel_tells_of_this_thread() {
        let file = File::open("/proc/thread-self/schedstat").expect("Linux tells");
        // A thread that began just now has not run, as far as the kernel has counted.
        assert!(read(&file).is_some());
    }

    #[test]
    fn what_is_not_two_numbers_says_nothing() {
        assert_eq!("12 34 5\n".parse(), Ok(Counts { ran: 12, waited: 34 }));
        for text in ["", "12", "12 x", "-1 2"] {
            assert_eq!(text.parse::<Counts>(), Err(()), "{text}");
        }
    }
}
