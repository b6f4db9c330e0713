//! The offered rate of an open loop over time, and how arrivals are spread within it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::units;

/// An offered rate over time: stretches, one after the other.
///
/// Written `1000` (until the end of the run), or `1000 10s, 1000..5000 30s, 5000`: a step for ten seconds, a ramp over thirty, and
/// a step until the end.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    stretches: Vec<Stretch>,
}

/// A part of a schedule in which the rate goes in a straight line from one value to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stretch {
    /// Rate at its beginning, in requests per second.
    pub from_rps: f64,
    /// Rate at its end, in requests per second.
    pub to_rps: f64,
    /// How long it lasts; `None`, for the last one only: until the end of the run.
    pub length: Option<Duration>,
}

impl Schedule {
    /// The same rate all the time.
    pub fn constant(rate_rps: f64) -> Schedule {
        Schedule { stretches: vec![Stretch { from_rps: rate_rps, to_rps: rate_rps, length: None }] }
    }

    /// The rate at the beginning, which is the rate of the warm-up.
    pub fn first_rps(&self) -> f64 {
        self.stretches.first().map_or(0.0, |stretch| stretch.from_rps)
    }

    /// The highest rate.
    pub fn rps_max(&self) -> f64 {
        self.stretches.iter().fold(0.0, |max, stretch| stretch.from_rps.max(stretch.to_rps).max(max))
    }

    /// How long the schedule is, where its last stretch has an end.
    pub fn length(&self) -> Option<Duration> {
        self.stretches.last()?.length?;
        Some(self.fixed_length())
    }

    /// The length of all stretches that have one.
    pub fn fixed_length(&self) -> Duration {
        self.stretches
            .iter()
            .filter_map(|stretch| stretch.length)
            .fold(Duration::ZERO, Duration::saturating_add)
    }

    /// The arrivals to be expected over `duration`, as a function of time.
    pub(crate) fn course(&self, duration: Duration) -> Course {
        let mut spans = Vec::with_capacity(self.stretches.len());
        let (mut start_s, mut before) = (0.0, 0.0);
        for stretch in &self.stretches {
            let length_s = stretch
                .length
                .map_or((duration.as_secs_f64() - start_s).max(0.0), |length| length.as_secs_f64());
            let arrivals = (stretch.from_rps + stretch.to_rps) / 2.0 * length_s;
            spans.push(Span { start_s, length_s, before, arrivals, stretch: *stretch });
            start_s += length_s;
            before += arrivals;
        }
        Course { spans, current: 0 }
    }
}

/// `1000`, `1000 10s`, `1000..5000 30s`, several of them with commas between.
impl FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Schedule, String> {
        let stretches = text.split(',').map(parse_stretch).collect::<Result<Vec<_>, _>>()?;
        if let Some((_, but_last)) = stretches.split_last()
            && but_last.iter().any(|stretch| stretch.length.is_none())
        {
            return Err(
                "only the last stretch may be without a length, as 5000 in '1000 10s, 5000'".to_owned()
            );
        }
        Ok(Schedule { stretches })
    }
}

fn parse_stretch(text: &str) -> Result<Stretch, String> {
    let text = text.trim();
    let (rates, length) = match text.split_once(char::is_whitespace) {
        Some((rates, length)) => (rates, Some(units::duration(length.trim())?)),
        None => (text, None),
    };
    let (from_rps, to_rps) = match rates.split_once("..") {
        Some((from, to)) => (units::rate(from)?, units::rate(to)?),
        None => (units::rate(rates)?, units::rate(rates)?),
    };
    if from_rps != to_rps && length.is_none() {
        return Err(format!("the ramp {rates} has no length, as in '{rates} 30s'"));
    }
    Ok(Stretch { from_rps, to_rps, length })
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, stretch) in self.stretches.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            write!(f, "{}", stretch.from_rps)?;
            if stretch.from_rps != stretch.to_rps {
                write!(f, "..{}", stretch.to_rps)?;
            }
            if let Some(length) = stretch.length {
                write!(f, " {}s", length.as_secs_f64())?;
            }
        }
        Ok(())
    }
}

/// A schedule with its integral: how many arrivals are due before a moment, and when a given number is reached.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    spans: Vec<Span>,
    /// Where the last asked-for number lies: numbers are asked for in ascending order.
    current: usize,
}

/// One stretch within a course.
#[derive(Debug, Clone, Copy)]
struct Span {
    start_s: f64,
    length_s: f64,
    /// Arrivals before it.
    before: f64,
    /// Arrivals in it.
    arrivals: f64,
    stretch: Stretch,
}

impl Course {
    /// How many arrivals the whole schedule offers; the expected value where they come at random.
    pub(crate) fn total(&self) -> f64 {
        self.spans.last().map_or(0.0, |span| span.before + span.arrivals)
    }

    /// Nanoseconds from the beginning until the integral of the rate reaches `arrivals`. `None` where it never does. Every
    /// call must ask for at least what the one before asked for.
    #[inline]
    pub(crate) fn reached_at_ns(&mut self, arrivals: f64) -> Option<u64> {
        while arrivals >= self.spans.get(self.current)?.before + self.spans[self.current].arrivals {
            self.current += 1;
        }
        let span = &self.spans[self.current];
        Some(((span.start_s + span.reached_after_s(arrivals - span.before)) * 1e9).round() as u64)
    }
}

impl Span {
    /// The root of `from·t + (to − from)/(2·length)·t² = arrivals`, in the form that does not cancel.
    fn reached_after_s(&self, arrivals: f64) -> f64 {
        let Stretch { from_rps, to_rps, .. } = self.stretch;
        if arrivals <= 0.0 {
            return 0.0;
        }
        if from_rps == to_rps {
            return arrivals / from_rps;
        }
        let slope = (to_rps - from_rps) / self.length_s;
        let root = (from_rps * from_rps + 2.0 * slope * arrivals).max(0.0).sqrt();
        (2.0 * arrivals / (from_rps + root)).min(self.length_s)
    }
}

/// How arrivals are spread within the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// Evenly: the k-th when the integral of the rate reaches k.
    Fixed,
    /// At random, each independent of all others: a Poisson process.
    Poisson,
    /// This many at once, and as much time between as keeps the rate.
    Bursts(u64),
}

impl FromStr for Process {
    type Err = String;

    fn from_str(text: &str) -> Result<Process, String> {
        match text.split_once(':') {
            None if text == "fixed" => Ok(Process::Fixed),
            None if text == "poisson" => Ok(Process::Poisson),
            Some(("bursts", size)) => size
                .parse()
                .ok()
                .filter(|size| *size > 0)
                .map(Process::Bursts)
                .ok_or_else(|| format!("the size of a burst is a number above 0, not {size:?}")),
            _ => Err("arrivals are fixed, poisson, or bursts:N".to_owned()),
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Process::Fixed => f.write_str("fixed"),
            Process::Poisson => f.write_str("poisson"),
            Process::Bursts(size) => write!(f, "bursts:{size}"),
        }
    }
}

/// How long a client of a closed loop waits between an answer and its next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkTime {
    /// Not at all.
    None,
    /// Always as long.
    Fixed(Duration),
    /// Exponentially distributed, with this mean.
    Exponential(Duration),
}

impl FromStr for ThinkTime {
    type Err = String;

    fn from_str(text: &str) -> Result<ThinkTime, String> {
        match text.split_once(':') {
            None if text == "none" => Ok(ThinkTime::None),
            None => units::duration(text).map(ThinkTime::of),
            Some(("exp", mean)) => match units::duration(mean)? {
                Duration::ZERO => Ok(ThinkTime::None),
                mean => Ok(ThinkTime::Exponential(mean)),
            },
            Some(_) => Err("a think time is none, a time such as 10ms, or exp:10ms".to_owned()),
        }
    }
}

impl ThinkTime {
    fn of(length: Duration) -> ThinkTime {
        if length.is_zero() { ThinkTime::None } else { ThinkTime::Fixed(length) }
    }
}

impl fmt::Display for ThinkTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ThinkTime::None => f.write_str("none"),
            ThinkTime::Fixed(length) => write!(f, "{}s", length.as_secs_f64()),
            ThinkTime::Exponential(mean) => write!(f, "exp:{}s", mean.as_secs_f64()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(text: &str) -> Schedule {
        text.parse().expect("the schedule is well-formed")
    }

    #[test]
    fn schedules_are_read_and_written() {
        for text in ["1000", "1000 10s, 1000..5000 30s, 0 1.5s, 2500", "0..10 3s"] {
            assert_eq!(schedule(text).to_string(), text);
        }
        assert_eq!(schedule("1k 500ms,2.5k").to_string(), "1000 0.5s, 2500");
        for bad in ["", "x", "1000,", "1000, 2000", "1..2", "10..x 3s", "-1", "1000 10s 5"] {
            let parsed = bad.parse::<Schedule>();
            assert!(parsed.is_err(), "{bad}: {parsed:?}");
        }
    }

    #[test]
    fn a_schedule_knows_its_length() {
        assert_eq!(schedule("1000").length(), None);
        assert_eq!(schedule("1000 10s, 5").length(), None);
        assert_eq!(schedule("1000 10s, 5").fixed_length(), Duration::from_secs(10));
        assert_eq!(schedule("1000 10s, 1000..5000 30s").length(), Some(Duration::from_secs(40)));
    }

    #[test]
    fn the_integral_is_inverted() {
        let mut course = schedule("100 1s, 0 2s, 100..300 2s, 0..10 1s").course(Duration::ZERO);
        assert_eq!(course.total(), 100.0 + 400.0 + 5.0);
        assert_eq!(course.reached_at_ns(0.0), Some(0));
        assert_eq!(course.reached_at_ns(50.0), Some(500_000_000));
        assert_eq!(
            course.reached_at_ns(100.0),
            Some(3_000_000_000),
            "nothing arrives while the rate is zero"
        );
        // 100 t + 50 t² = 150 at t = 1.
        assert_eq!(course.reached_at_ns(250.0), Some(4_000_000_000));
        assert_eq!(course.reached_at_ns(500.0), Some(5_000_000_000));
        assert_eq!(course.reached_at_ns(501.25), Some(5_500_000_000));
        assert_eq!(course.reached_at_ns(505.0), None);
        assert_eq!(course.reached_at_ns(1e9), None);
    }

    #[test]
    fn a_falling_ramp_ends_at_zero() {
        let mut course = schedule("10..0 2s").course(Duration::ZERO);
        assert_eq!(course.total(), 10.0);
        assert_eq!(course.reached_at_ns(7.5), Some(1_000_000_000));
        assert!(course.reached_at_ns(9.999_999_999).expect("within the ramp") <= 2_000_000_000);
    }

    #[test]
    fn think_times_and_processes_are_read_and_written() {
        for text in ["none", "0.01s", "exp:0.01s"] {
            assert_eq!(text.parse::<ThinkTime>().expect("a think time").to_string(), text);
        }
        assert_eq!("0s".parse(), Ok(ThinkTime::None));
        for text in ["fixed", "poisson", "bursts:20"] {
            assert_eq!(text.parse::<Process>().expect("a process").to_string(), text);
        }
        for bad in ["", "bursts", "bursts:0", "poisson:3", "gauss"] {
            assert!(bad.parse::<Process>().is_err(), "{bad}");
        }
        for bad in ["", "exp", "exp:", "uniform:3s"] {
            assert!(bad.parse::<ThinkTime>().is_err(), "{bad}");
        }
    }
}
