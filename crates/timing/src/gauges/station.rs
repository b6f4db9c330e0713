use std::ops::AddAssign;

use serde::Serialize;

use crate::{Instant, QueueGauge, QueueReport, wide};

/// One station that requests go through: a queue, or the threads that serve.
///
/// Two things are measured separately: how many requests are in it, whenever that changes, and how long each had been in it, when it
/// leaves. So Little's law, population = throughput × residence time, can be checked and is not a definition. Over a short time those who
/// are there at its beginning and its end matter, so their ages are reported, too.
#[derive(Clone, Debug)]
pub struct Station {
    population: QueueGauge,
    departures: u64,
    residence_ns_sum: u128,
    /// Sum of the instants at which those came that are in it.
    entered_ns_sum: u128,
}

/// A [`Station`] at one moment.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StationReport {
    /// Requests in it: now, as arrivals met them, and over time.
    pub population: QueueReport,
    /// Requests that left.
    pub departures: u64,
    /// Sum over departures of the time that each had been in it, nanoseconds.
    #[serde(serialize_with = "wide::serialize")]
    pub residence_ns_sum: u128,
    /// Sum over those that are in it now of the time since they came, nanoseconds.
    #[serde(serialize_with = "wide::serialize")]
    pub age_ns_sum: u128,
}

impl Station {
    /// An empty one, observed from `now` on.
    pub fn new(now: Instant) -> Self {
        Self { population: QueueGauge::new(now), departures: 0, residence_ns_sum: 0, entered_ns_sum: 0 }
    }

    /// A request enters.
    #[inline]
    pub fn enter(&mut self, now: Instant) {
        self.population.enter(now);
        self.entered_ns_sum += u128::from(now.as_nanos());
    }

    /// A request leaves that came at `entered`.
    #[inline]
    pub fn leave(&mut self, entered: Instant, now: Instant) {
        self.population.leave(now);
        self.entered_ns_sum = self.entered_ns_sum.saturating_sub(u128::from(entered.as_nanos()));
        self.departures += 1;
        self.residence_ns_sum += u128::from(now.saturating_since(entered));
    }

    /// Requests in it now.
    pub fn length(&self) -> u64 {
        self.population.length()
    }

    /// Who was in it at the end of window `index` ([`QueueGauge::report_at_end`]).
    pub fn population_at_end(&self, index: u64) -> QueueReport {
        self.population.report_at_end(index)
    }

    /// The station at `now`.
    pub fn report(&self, now: Instant) -> StationReport {
        StationReport {
            population: self.population.report(now),
            departures: self.departures,
            residence_ns_sum: self.residence_ns_sum,
            age_ns_sum: (u128::from(self.population.length()) * u128::from(now.as_nanos()))
                .saturating_sub(self.entered_ns_sum),
        }
    }
}

impl AddAssign for StationReport {
    fn add_assign(&mut self, other: Self) {
        self.population += other.population;
        self.departures += other.departures;
        self.residence_ns_sum += other.residence_ns_sum;
        self.age_ns_sum += other.age_ns_sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_inside_are_counted_over_time_and_those_that_left_by_their_stay() {
        let at = Instant::from_nanos;
        let mut station = Station::new(at(0));
        station.enter(at(10));
        station.enter(at(20));
        station.leave(at(10), at(50));
        let report = station.report(at(60));
        assert_eq!(report.population.length, 1);
        assert_eq!(report.population.length_time_integral_ns, 10 + 2 * 30 + 10);
        assert_eq!((report.departures, report.residence_ns_sum, report.age_ns_sum), (1, 40, 40));
        station.leave(at(20), at(60));
        let report = station.report(at(60));
        assert_eq!(report.population.length_time_integral_ns, report.residence_ns_sum);
        assert_eq!(report.age_ns_sum, 0);
    }
}
