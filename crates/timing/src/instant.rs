mod text;

pub use text::{duration, duration_text};

/// A moment on the process's one monotonic clock: nanoseconds since that clock's origin.
///
/// 64 bits of nanoseconds last 584 years, and half the space of [`std::time::Instant`], which this crate must not
/// read anyway. Arithmetic saturates: a clock that is read on two cores may be out of order by a few nanoseconds, and
/// that must not become a wait of 584 years.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);

    /// The moment `nanos` nanoseconds after the clock's origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the clock's origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Nanoseconds from `earlier` to here; 0 if `earlier` is in fact later.
    pub const fn saturating_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment `nanos` nanoseconds later, or the last moment that can be expressed.
    pub const fn plus(self, nanos: u64) -> Self {
        Self(self.0.saturating_add(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let moment = Instant::from_nanos(5);
        assert_eq!(moment.saturating_since(Instant::from_nanos(2)), 3);
        assert_eq!(moment.saturating_since(Instant::from_nanos(9)), 0);
        assert_eq!(moment.plus(u64::MAX), Instant::from_nanos(u64::MAX));
    }
}
