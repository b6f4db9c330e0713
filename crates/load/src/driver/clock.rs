//! The one clock of a run.

use std::time::{SystemTime, UNIX_EPOCH};

use weir_timing::Instant;

/// A monotonic clock that counts from its own start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: std::time::Instant,
    origin_unix_ns: u64,
}

impl Clock {
    /// A clock whose origin is now.
    #[expect(clippy::disallowed_methods, reason = "the driver's clock: everything else is given the time")]
    pub(crate) fn start() -> Clock {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { origin: std::time::Instant::now(), origin_unix_ns: since_1970.as_nanos() as u64 }
    }

    /// The time now.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.origin.elapsed().as_nanos() as u64)
    }

    /// Wall-clock nanoseconds since 1970 at `instant`, by the wall clock as it was at the origin.
    pub(crate) fn unix_ns(&self, instant: Instant) -> u64 {
        self.origin_unix_ns.saturating_add(instant.as_nanos())
    }
}
