//! What kept a run from being faster: the generator itself, the target, or neither.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::config::Pacing;
use crate::pacing::schedule::ThinkTime;
use crate::recorder::ScheduledCounts;

/// What set the pace of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "who", rename_all = "snake_case")]
pub(crate) enum Bottleneck {
    /// The generator had work all the time, or sent late: the run measured the generator.
    Generator {
        /// Share of the measured phase in which its busiest thread had work.
        busy: f64,
        /// Share of scheduled requests that it sent late.
        late: f64,
    },
    /// The generator waited for the target, or for the way to it.
    Target {
        /// Share of the measured phase in which the generator's busiest thread waited.
        waited: f64,
        /// Open loop: share of the arrivals that it kept up with, see [`kept_up`].
        kept_up: Option<f64>,
    },
    /// The clients asked for no more than they got.
    Neither,
}

/// What a verdict rests on.
pub(crate) struct Evidence<'a> {
    pub(super) pacing: &'a Pacing,
    /// Requests completed in the measured phase.
    pub(super) completed: u64,
    /// Arrivals of the measured phase that the target kept up with: see [`kept_up`].
    pub(super) kept_up: u64,
    /// The largest share of the measured phase in which one of the generator's threads had work.
    pub(super) busiest: f64,
    pub(super) scheduled: &'a ScheduledCounts,
    pub(super) mean_response_ns: Option<f64>,
}

impl Evidence<'_> {
    /// The verdict, where something was measured.
    pub(crate) fn bottleneck(&self) -> Option<Bottleneck> {
        if self.completed == 0 && self.scheduled.arrivals == 0 {
            return None;
        }
        let late = self.scheduled.late as f64 / (self.scheduled.arrivals.max(1)) as f64;
        if self.busiest > BUSY_MAX || late > LATE_MAX {
            return Some(Bottleneck::Generator { busy: self.busiest, late });
        }
        let waited = (1.0 - self.busiest).max(0.0);
        Some(match self.pacing {
            Pacing::Closed { think_time: ThinkTime::None } => Bottleneck::Target { waited, kept_up: None },
            Pacing::Closed { think_time: ThinkTime::Fixed(think) | ThinkTime::Exponential(think) } => {
                let waits_longer = self.mean_response_ns.is_some_and(|nanos| nanos > nanos_of(*think));
                if waits_longer || self.completed == 0 {
                    Bottleneck::Target { waited, kept_up: None }
                } else {
                    Bottleneck::Neither
                }
            }
            Pacing::Open { .. } => {
                let kept_up = self.kept_up as f64 / (self.scheduled.arrivals.max(1)) as f64;
                if kept_up < KEPT_UP_MIN {
                    Bottleneck::Target { waited, kept_up: Some(kept_up) }
                } else {
                    Bottleneck::Neither
                }
            }
        })
    }
}

/// How many arrivals of a measured phase of `measured_ns` the target kept up with: as many as it answered meanwhile. A phase that begins with
/// fewer under way than it ends with is judged by its own arrivals. Those are kept up with that were answered in it, and those that were on
/// their way at its end: due for no longer than a quarter of all requests took. Under overload times grow with the length of the run, so
/// that this quarter hides little. Of a long stall no more than a tenth of the phase is let pass.
pub(crate) fn kept_up(scheduled: &ScheduledCounts, lower_quartile_ns: Option<u64>, measured_ns: u64) -> u64 {
    let young_ns = lower_quartile_ns.unwrap_or(0).min(measured_ns / 10);
    scheduled.completed.max(scheduled.in_time(young_ns))
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| share * 100.0;
        match *self {
            Bottleneck::Generator { busy, .. } if busy > BUSY_MAX => write!(
                f,
                "the generator was the bottleneck: its busiest thread had work {:.0} % of the time; give it more --threads",
                percent(busy)
            ),
            Bottleneck::Generator { late, .. } => write!(
                f,
                "the generator was the bottleneck: it sent {:.1} % of the requests late; give it more --threads, or cores of its own",
                percent(late)
            ),
            Bottleneck::Target { kept_up: Some(kept_up), .. } => write!(
                f,
                "the target was the bottleneck: {:.1} % of what was offered was completed meanwhile",
                percent(kept_up)
            ),
            Bottleneck::Target { waited, .. } => write!(
                f,
                "the target set the pace: the generator waited for answers {:.0} % of the time",
                percent(waited)
            ),
            Bottleneck::Neither => f.write_str("neither generator nor target was the bottleneck"),
        }
    }
}

fn nanos_of(duration: Duration) -> f64 {
    duration.as_nanos() as f64
}

/// Above this share of the time the generator measures itself.
const BUSY_MAX: f64 = 0.95;
/// Above this share of requests sent late, the 99th percentile is the generator's.
const LATE_MAX: f64 = 0.01;
/// Below this share of the offered rate the target has not kept up.
const KEPT_UP_MIN: f64 = 0.98;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::pacing::schedule::Process;

    fn verdict(pacing: &Pacing, completed: u64, busiest: f64, late: u64) -> Option<Bottleneck> {
        let mut scheduled = ScheduledCounts::answered(0, &[]);
        (scheduled.arrivals, scheduled.late) = (1000, late);
        let (kept_up, mean_response_ns) = (completed, Some(1e6));
        Evidence { pacing, completed, kept_up, busiest, scheduled: &scheduled, mean_response_ns }.bottleneck()
    }

    fn closed(think_time: ThinkTime) -> Pacing {
        Pacing::Closed { think_time }
    }

    #[test]
    fn a_busy_or_late_generator_is_the_bottleneck() {
        let open = Settings::offered("10", Process::Fixed);
        for pacing in [closed(ThinkTime::None), open] {
            let busy = verdict(&pacing, 1000, 0.96, 0).expect("a verdict");
            assert!(
                busy.to_string()
                    .starts_with("the generator was the bottleneck: its busiest thread had work 96 %")
            );
            let late = verdict(&pacing, 1000, 0.5, 11).expect("a verdict");
            assert!(late.to_string().contains("it sent 1.1 % of the requests late"), "{late}");
        }
    }

    #[test]
    fn a_closed_loop_waits_for_the_target_unless_it_thinks_for_longer() {
        let target = Some(Bottleneck::Target { waited: 0.75, kept_up: None });
        let thinking = |micros| closed(ThinkTime::Exponential(Duration::from_micros(micros)));
        assert_eq!(verdict(&closed(ThinkTime::None), 1000, 0.25, 0), target);
        assert_eq!(verdict(&thinking(900), 1000, 0.25, 0), target);
        assert_eq!(verdict(&thinking(1100), 1000, 0.25, 0), Some(Bottleneck::Neither));
    }

    #[test]
    fn an_open_loop_compares_what_was_completed_with_what_was_offered() {
        let open = Settings::offered("10", Process::Fixed);
        assert_eq!(verdict(&open, 980, 0.5, 0), Some(Bottleneck::Neither));
        let behind = Some(Bottleneck::Target { waited: 0.5, kept_up: Some(0.5) });
        assert_eq!(verdict(&open, 500, 0.5, 0), behind);
        let nothing = Some(Bottleneck::Target { waited: 0.5, kept_up: Some(0.0) });
        assert_eq!(verdict(&open, 0, 0.5, 0), nothing, "it was offered");
    }

    #[test]
    fn without_requests_there_is_no_verdict() {
        let scheduled = ScheduledCounts::default();
        for pacing in [closed(ThinkTime::None), Settings::offered("10", Process::Fixed)] {
            let nothing = Evidence {
                pacing: &pacing,
                completed: 0,
                kept_up: 0,
                busiest: 1.0,
                scheduled: &scheduled,
                mean_response_ns: None,
            };
            assert_eq!(nothing.bottleneck(), None);
        }
    }

    #[test]
    fn what_was_on_its_way_at_the_end_was_kept_up_with() {
        let mut scheduled = ScheduledCounts::answered(10, &[0, 500, 1000, 5000]);
        let found = [None, Some(600), Some(1000), Some(9000)].map(|at| kept_up(&scheduled, at, 60_000));
        assert_eq!(found, [11, 12, 13, 14]);
        assert_eq!(kept_up(&scheduled, Some(9000), 10_000), 13, "a tenth of the phase");
        scheduled.completed = 20;
        assert_eq!(kept_up(&scheduled, Some(9000), 60_000), 20, "what was on its way before balances it");
    }
}
