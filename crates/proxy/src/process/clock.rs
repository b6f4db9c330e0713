//! The proxy's one clock.

use nix::{
    sys::time::{TimeSpec, TimeValLike as _},
    time::{ClockId, clock_gettime},
};
use weir_timing::Instant;

/// A monotonic clock that counts from the start of the process. Copies agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// What the kernel's clock said, in nanoseconds.
    origin: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin: monotonic_ns() }
    }

    #[inline]
    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(monotonic_ns().saturating_sub(self.origin))
    }

    /// The moment of the wall clock that was then, as this clock has it; `None` if the wall clock was set back since, or if the two cannot be
    /// read close enough together. Wrong by less than [`OFFSET_ERROR_NS`] unless the wall clock was set in between.
    pub(crate) fn at_unix(&self, then_unix_ns: u64) -> Option<Instant> {
        for _ in 0..OFFSET_TRIES {
            let before = self.now();
            let unix = unix_ns();
            let after = self.now();
            if after.saturating_since(before) <= OFFSET_ERROR_NS {
                let since = unix.checked_sub(then_unix_ns)?;
                return before.as_nanos().checked_sub(since).map(Instant::from_nanos);
            }
        }
        None
    }
}

/// The most time between two readings of this clock between which the wall clock was read. Usually it is below 100 ns.
const OFFSET_ERROR_NS: u64 = 50_000;

/// A thread that loses its CPU between them tries again.
const OFFSET_TRIES: usize = 3;

/// The kernel's clock that is never set, in nanoseconds since it began. It is read several times per turn: what the standard library adds
/// to be right on every system costs as much again.
#[inline]
fn monotonic_ns() -> u64 {
    // It has no way to fail on Linux; 0 would be the clock's beginning.
    let read = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap_or(TimeSpec::new(0, 0));
    (read.tv_sec() as u64).wrapping_mul(1_000_000_000).wrapping_add(read.tv_nsec() as u64)
}

/// The same clock in microseconds, as the service manager has it.
pub(crate) fn monotonic_us() -> u64 {
    monotonic_ns() / 1_000
}

/// CPU time of this process since it began, in nanoseconds; 0 where the kernel does not tell.
pub(crate) fn process_cpu_ns() -> u64 {
    let read = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap_or(TimeSpec::new(0, 0));
    u64::try_from(read.num_nanoseconds()).unwrap_or(0)
}

/// Wall-clock time, for records that leave the process.
#[expect(clippy::disallowed_methods, reason = "records are dated by the wall clock")]
pub(crate) fn unix_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
