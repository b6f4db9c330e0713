//! The proxy's one clock.

use nix::{
    sys::time::{TimeSpec, TimeValLike as _},
    time::{ClockId, clock_gettime},
};
use weir_timing::Instant;

/// A monotonic clock that counts from the start of the process. Copies agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "the proxy's one clock begins here")]
    pub(crate) fn start() -> Self {
        Self { origin: std::time::Instant::now() }
    }

    #[expect(clippy::disallowed_methods, reason = "the proxy's one clock is read here")]
    pub(crate) fn now(&self) -> Instant {
        let elapsed = std::time::Instant::now().saturating_duration_since(self.origin);
        Instant::from_nanos(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
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

/// How far apart two readings of this clock may be between which the wall clock was read. Usually they are below 100 ns apart.
const OFFSET_ERROR_NS: u64 = 50_000;

/// A thread that loses its CPU between them tries again.
const OFFSET_TRIES: usize = 3;

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
