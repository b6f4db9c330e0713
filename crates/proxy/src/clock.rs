//! The proxy's one clock.

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

/// Wall-clock time, for records that leave the process.
#[expect(clippy::disallowed_methods, reason = "records are dated by the wall clock")]
pub(crate) fn unix_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
