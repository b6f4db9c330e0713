//! The phases of a run and where they meet.

use weir_timing::Instant;

/// A part of a run. A request belongs to the phase in which it is completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Every key is set once.
    Prefill,
    /// The load is on, and nothing of it is reported but counts.
    Warmup,
    /// What the report is about.
    Measured,
    /// No request is issued any more; those outstanding are waited for.
    Drain,
}

impl Phase {
    pub(crate) const ALL: [Phase; 4] = [Phase::Prefill, Phase::Warmup, Phase::Measured, Phase::Drain];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Prefill => "prefill",
            Phase::Warmup => "warm-up",
            Phase::Measured => "measured",
            Phase::Drain => "drain",
        }
    }
}

/// The moments at which one phase ends and the next begins. `end` may lie before the others, when a run is stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timeline {
    /// Warm-up begins.
    pub(crate) warmup: Instant,
    /// Warm-up ends, the measured phase begins.
    pub(crate) measured: Instant,
    /// The measured phase ends, no request is issued any more.
    pub(crate) end: Instant,
}

impl Timeline {
    /// All is prefill, until a run's timeline is known.
    pub(crate) const PREFILL: Timeline = Timeline { warmup: NEVER, measured: NEVER, end: NEVER };

    pub(crate) fn phase_at(&self, now: Instant) -> Phase {
        if now >= self.end {
            Phase::Drain
        } else if now >= self.measured {
            Phase::Measured
        } else if now >= self.warmup {
            Phase::Warmup
        } else {
            Phase::Prefill
        }
    }

    /// Length of the warm-up, in nanoseconds.
    pub(crate) fn warmup_ns(&self) -> u64 {
        self.measured.min(self.end).saturating_since(self.warmup)
    }

    /// Length of the measured phase, in nanoseconds.
    pub(crate) fn measured_ns(&self) -> u64 {
        self.end.saturating_since(self.measured)
    }
}

/// Later than any moment of a run.
pub(crate) const NEVER: Instant = Instant::from_nanos(u64::MAX);

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(warmup: u64, measured: u64, end: u64) -> Timeline {
        Timeline {
            warmup: Instant::from_nanos(warmup),
            measured: Instant::from_nanos(measured),
            end: Instant::from_nanos(end),
        }
    }

    #[test]
    fn phases_begin_at_their_moments() {
        let timeline = timeline(10, 20, 30);
        let at = |nanos| timeline.phase_at(Instant::from_nanos(nanos));
        assert_eq!([at(9), at(10), at(19)], [Phase::Prefill, Phase::Warmup, Phase::Warmup]);
        assert_eq!([at(20), at(29), at(30)], [Phase::Measured, Phase::Measured, Phase::Drain]);
        assert_eq!((timeline.warmup_ns(), timeline.measured_ns()), (10, 10));
    }

    #[test]
    fn a_run_stopped_in_its_warm_up_measures_nothing() {
        let timeline = timeline(10, 20, 15);
        assert_eq!(timeline.phase_at(Instant::from_nanos(25)), Phase::Drain);
        assert_eq!((timeline.warmup_ns(), timeline.measured_ns()), (5, 0));
    }
}
