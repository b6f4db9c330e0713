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
