//! The arrivals of an open loop: when each is due and which connection it goes to.
//!
//! The k-th arrival is a function of the seed, the schedule and k alone. Nothing that happens in the run, and no number of threads, moves
//! it. Every thread goes through all arrivals and keeps those of its own connections, which costs a few nanoseconds for each of the others.

use std::ops::Range;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weir_timing::Instant;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::pacing::schedule::{Course, Process, Schedule};

/// One arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// When the request should be sent.
    pub(crate) intended: Instant,
    /// The connection that has to send it.
    pub(crate) connection: u32,
}

/// How arrivals are dealt out to connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignment {
    /// One after the other.
    RoundRobin,
    /// At random, each independent of all others.
    Random,
}

impl Assignment {
    /// Its name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Assignment::RoundRobin => "round-robin",
            Assignment::Random => "random",
        }
    }
}

impl std::str::FromStr for Assignment {
    type Err = String;

    fn from_str(text: &str) -> Result<Assignment, String> {
        [Assignment::RoundRobin, Assignment::Random]
            .into_iter()
            .find(|assignment| assignment.name() == text)
            .ok_or_else(|| "arrivals are assigned round-robin or random".to_owned())
    }
}

/// What the arrivals of a run are made of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) schedule: Schedule,
    pub(crate) process: Process,
    pub(crate) assignment: Assignment,
    pub(crate) connections: u32,
    pub(crate) seed: u64,
    pub(crate) warmup: Duration,
    pub(crate) duration: Duration,
}

/// The arrivals for some of a run's connections, in ascending order of time.
#[derive(Debug, Clone)]
pub(crate) struct Arrivals {
    process: Process,
    assignment: Assignment,
    connections: u32,
    mine: Range<u32>,
    current: Stream,
    /// What follows the current one: the measured phase follows the warm-up.
    following: Option<Stream>,
    next: Option<Arrival>,
}

/// Arrivals that begin at one moment.
#[derive(Debug, Clone)]
struct Stream {
    start: Instant,
    course: Course,
    total: f64,
    /// Arrivals so far.
    index: u64,
    /// The value that the rate's integral has at the last arrival of a Poisson process.
    reached: f64,
    gaps: SmallRng,
    choices: SmallRng,
}

impl Arrivals {
    /// The arrivals for the connections `mine`: with the schedule's first rate from `start` over the warm-up, then along the
    /// schedule, which begins anew with its first arrival.
    pub(crate) fn new(plan: &Plan, mine: Range<u32>, start: Instant) -> Arrivals {
        let warmup = Schedule::constant(plan.schedule.first_rps()).course(plan.warmup);
        let measured_from = start.plus(plan.warmup.as_nanos() as u64);
        let mut arrivals = Arrivals {
            process: plan.process,
            assignment: plan.assignment,
            connections: plan.connections,
            mine,
            current: Stream::new(start, warmup, plan.seed, 0),
            following: Some(Stream::new(measured_from, plan.schedule.course(plan.duration), plan.seed, 1)),
            next: None,
        };
        arrivals.advance();
        arrivals
    }

    /// When the next one is due.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.next.map(|arrival| arrival.intended)
    }

    /// Takes the next one if it is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Arrival> {
        let due = self.next.filter(|arrival| arrival.intended <= now)?;
        self.advance();
        Some(due)
    }

    fn advance(&mut self) {
        self.next = loop {
            match self.draw() {
                Some(arrival) if self.mine.contains(&arrival.connection) => break Some(arrival),
                Some(_) => {}
                None => match self.following.take() {
                    Some(stream) => self.current = stream,
                    None => break None,
                },
            }
        };
    }

    /// The next arrival of the current stream, whosever it is.
    fn draw(&mut self) -> Option<Arrival> {
        let stream = &mut self.current;
        let reached = match self.process {
            Process::Fixed => stream.index as f64,
            Process::Bursts(size) => (stream.index - stream.index % size) as f64,
            Process::Poisson => {
                stream.reached += exponential(&mut stream.gaps);
                stream.reached
            }
        };
        let is_over = self.process != Process::Poisson && stream.index as f64 >= stream.total;
        if is_over {
            return None;
        }
        let after_ns = stream.course.reached_at_ns(reached)?;
        let connection = match self.assignment {
            Assignment::RoundRobin => (stream.index % u64::from(self.connections)) as u32,
            Assignment::Random => stream.choices.random_range(0..self.connections),
        };
        stream.index += 1;
        Some(Arrival { intended: stream.start.plus(after_ns), connection })
    }
}

impl Stream {
    fn new(start: Instant, course: Course, seed: u64, number: u64) -> Stream {
        let total = course.total();
        Stream {
            start,
            course,
            total,
            index: 0,
            reached: 0.0,
            gaps: generator(seed, b"gaps", number),
            choices: generator(seed, b"choices", number),
        }
    }
}

/// A generator of its own for each purpose, so that drawing for one does not move another.
pub(crate) fn generator(seed: u64, purpose: &[u8], number: u64) -> SmallRng {
    let mut label = [0; 24];
    let length = purpose.len().min(16);
    label[..length].copy_from_slice(&purpose[..length]);
    label[16..].copy_from_slice(&number.to_le_bytes());
    SmallRng::seed_from_u64(xxh3_64_with_seed(&label, seed))
}

/// A draw from the exponential distribution with mean 1.
pub(crate) fn exponential(rng: &mut SmallRng) -> f64 {
    // `random` is below 1, so the logarithm is finite.
    -(1.0 - rng.random::<f64>()).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const START: Instant = Instant::from_nanos(7 * SECOND);

    fn plan(schedule: &str, process: Process) -> Plan {
        let schedule: Schedule = schedule.parse().expect("the schedule is well-formed");
        Plan {
            duration: schedule.length().unwrap_or(Duration::from_secs(10)),
            schedule,
            process,
            assignment: Assignment::RoundRobin,
            connections: 10,
            seed: 5,
            warmup: Duration::ZERO,
        }
    }

    fn all(plan: &Plan, mine: Range<u32>) -> Vec<Arrival> {
        let mut arrivals = Arrivals::new(plan, mine, START);
        std::iter::from_fn(|| arrivals.pop_due(Instant::from_nanos(u64::MAX))).collect()
    }

    /// Seconds after the start.
    fn moments(plan: &Plan) -> Vec<f64> {
        let seconds = |arrival: Arrival| arrival.intended.saturating_since(START) as f64 / 1e9;
        all(plan, 0..plan.connections).into_iter().map(seconds).collect()
    }

    fn between(moments: &[f64], from: f64, to: f64) -> usize {
        moments.iter().filter(|&&moment| from <= moment && moment < to).count()
    }

    #[test]
    fn steps_and_ramps_offer_their_counts_exactly() {
        let plan = plan("1000 10s, 1000..5000 30s, 0 2s, 200 5s", Process::Fixed);
        let moments = moments(&plan);
        let counts = [(0.0, 10.0), (10.0, 40.0), (40.0, 42.0), (42.0, 47.0)];
        assert_eq!(counts.map(|(from, to)| between(&moments, from, to)), [10_000, 90_000, 0, 1_000]);
        assert_eq!(moments.len(), 101_000);
        // The ramp has offered 1000·15 + 66.7·15² of its arrivals after half its time.
        assert_eq!(between(&moments, 10.0, 25.0), 30_000);
        assert!(moments.is_sorted());
    }

    #[test]
    fn bursts_offer_their_counts_exactly_at_one_moment_each() {
        let moments = moments(&plan("1000", Process::Bursts(250)));
        assert_eq!(moments.len(), 10_000);
        for (number, burst) in moments.chunks(250).enumerate() {
            assert!(burst.iter().all(|&moment| moment == 0.25 * number as f64));
        }
        let uneven = all(&plan("1000", Process::Bursts(300)), 0..10);
        assert_eq!(uneven.len(), 10_000, "the last burst is cut short");
    }

    #[test]
    fn the_warm_up_has_the_first_rate_and_the_schedule_begins_anew_after_it() {
        let plan = Plan { warmup: Duration::from_millis(2500), ..plan("1000 1s, 10 1s", Process::Fixed) };
        let moments = moments(&plan);
        assert_eq!([between(&moments, 0.0, 2.5), between(&moments, 2.5, 3.5)], [2500, 1000]);
        assert_eq!(between(&moments, 3.5, 9.0), 10);
        assert_eq!(moments[2500], 2.5);
    }

    #[test]
    fn threads_share_the_same_arrivals_among_them() {
        for (process, assignment) in
            [(Process::Fixed, Assignment::RoundRobin), (Process::Poisson, Assignment::Random)]
        {
            let plan = Plan { assignment, ..plan("2000 1s, 0..3000 1s", process) };
            let mut shared = [0..3, 3..4, 4..10].map(|mine| all(&plan, mine)).concat();
            let mut whole = all(&plan, 0..10);
            for arrivals in [&mut shared, &mut whole] {
                arrivals.sort_by_key(|arrival| (arrival.intended, arrival.connection));
            }
            assert_eq!(shared, whole);
        }
    }

    #[test]
    fn the_seed_decides() {
        let with = |seed| all(&Plan { seed, ..plan("1000", Process::Poisson) }, 0..10);
        assert_eq!(with(1), with(1));
        assert_ne!(with(1), with(2));
    }

    #[test]
    fn nothing_arrives_before_it_is_due() {
        let mut arrivals = Arrivals::new(&plan("10", Process::Fixed), 0..10, START);
        assert_eq!(arrivals.pop_due(START.plus(0)), Some(Arrival { intended: START, connection: 0 }));
        let second = START.plus(SECOND / 10);
        assert_eq!(arrivals.next_at(), Some(second));
        assert_eq!(arrivals.pop_due(Instant::from_nanos(second.as_nanos() - 1)), None);
        assert_eq!(arrivals.pop_due(second), Some(Arrival { intended: second, connection: 1 }));
    }

    #[test]
    fn a_rate_of_zero_offers_nothing() {
        for process in [Process::Fixed, Process::Poisson, Process::Bursts(3)] {
            assert_eq!(all(&plan("0", process), 0..10), []);
        }
    }

    /// The largest distance between the empirical distribution and the exponential one with mean 1, times √n.
    fn kolmogorov_smirnov(mut gaps: Vec<f64>) -> f64 {
        gaps.sort_by(f64::total_cmp);
        let count = gaps.len() as f64;
        let distance = gaps.iter().enumerate().fold(0.0_f64, |largest, (index, gap)| {
            let expected = 1.0 - (-gap).exp();
            largest.max((index + 1) as f64 / count - expected).max(expected - index as f64 / count)
        });
        distance * count.sqrt()
    }

    /// Asymptotically, √n times the distance is above 1.628 in one of a hundred samples. The seeds are fixed.
    const KOLMOGOROV_1_PERCENT: f64 = 1.628;

    #[test]
    fn poisson_arrivals_have_exponential_gaps() {
        for seed in 1..=5 {
            let plan = Plan { seed, ..plan("2000", Process::Poisson) };
            let gaps = moments(&plan).windows(2).map(|pair| (pair[1] - pair[0]) * 2000.0).collect();
            let statistic = kolmogorov_smirnov(gaps);
            assert!(statistic < KOLMOGOROV_1_PERCENT, "seed {seed}: {statistic}");
        }
        let even = moments(&plan("2000", Process::Fixed));
        let gaps = even.windows(2).map(|pair| (pair[1] - pair[0]) * 2000.0).collect();
        assert!(kolmogorov_smirnov(gaps) > 50.0, "the test tells even gaps from exponential ones");
    }

    #[test]
    fn a_poisson_process_follows_a_ramp() {
        // With the time of each arrival replaced by the rate's integral there, gaps are exponential again.
        let moments = moments(&plan("1000..5000 5s", Process::Poisson));
        let integral = |t: f64| 1000.0 * t + 400.0 * t * t;
        let gaps = moments.windows(2).map(|pair| integral(pair[1]) - integral(pair[0])).collect();
        assert!(kolmogorov_smirnov(gaps) < KOLMOGOROV_1_PERCENT);
        // 15,000 expected, standard deviation 122: four of them to either side.
        assert!((14_510..=15_490).contains(&moments.len()), "{}", moments.len());
    }

    #[test]
    fn random_assignment_leaves_each_connection_a_poisson_process() {
        let plan = Plan { assignment: Assignment::Random, ..plan("20000", Process::Poisson) };
        let seconds = |arrival: Arrival| arrival.intended.saturating_since(START) as f64 / 1e9;
        let moments: Vec<f64> = all(&plan, 4..5).into_iter().map(seconds).collect();
        let gaps = moments.windows(2).map(|pair| (pair[1] - pair[0]) * 2000.0).collect();
        assert!(kolmogorov_smirnov(gaps) < KOLMOGOROV_1_PERCENT);
    }
}
