//! Response times second by second, for who wants to see how they changed over a run.

use std::collections::BTreeMap;

use weir_timing::{Distribution, Operation};

/// Response times of requests that were completed in one second of the measured phase, or after it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interval {
    /// Seconds since the beginning of the measured phase.
    pub(crate) second: u64,
    operations: [Distribution; Operation::COUNT],
}

impl Interval {
    /// The operations that there were, with their response times.
    pub(crate) fn operations(&self) -> impl Iterator<Item = (Operation, &Distribution)> {
        Operation::ALL.into_iter().zip(&self.operations).filter(|(_, times)| !times.is_empty())
    }

    /// The response times of all operations.
    pub(crate) fn all(&self) -> Distribution {
        let mut all = Distribution::new();
        self.operations.iter().for_each(|times| all.merge(times));
        all
    }

    /// Adds what another thread has recorded in the same second.
    pub(crate) fn merge(&mut self, other: &Interval) {
        for (mine, theirs) in self.operations.iter_mut().zip(&other.operations) {
            mine.merge(theirs);
        }
    }
}

/// The intervals of one thread that nobody has taken yet. They are taken every tick, so that there are few of them.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    open: Interval,
    closed: Vec<Interval>,
}

impl Intervals {
    pub(crate) fn record(&mut self, second: u64, operation: Operation, nanos: u64) {
        if second != self.open.second {
            self.close(second);
        }
        self.open.operations[operation.index()].record(nanos);
    }

    /// Takes the intervals that are over when `second` has begun.
    pub(crate) fn take_before(&mut self, second: u64) -> Vec<Interval> {
        if second > self.open.second {
            self.close(second);
        }
        std::mem::take(&mut self.closed)
    }

    /// Begins the interval of `second`. Empty ones are not kept: whoever merges them knows which are missing.
    #[cold]
    fn close(&mut self, second: u64) {
        let next = Interval { second, ..Interval::default() };
        let over = std::mem::replace(&mut self.open, next);
        if over.operations().next().is_some() {
            self.closed.push(over);
        }
    }
}

/// The intervals of all threads, brought together.
#[derive(Debug)]
pub(crate) struct Gathering {
    seconds: BTreeMap<u64, Interval>,
    /// For each thread: everything before this second is here.
    over: Vec<u64>,
    /// Everything before this second has been taken.
    taken: u64,
}

impl Gathering {
    pub(crate) fn new(threads: usize) -> Gathering {
        Gathering { seconds: BTreeMap::new(), over: vec![0; threads], taken: 0 }
    }

    /// A thread has recorded `intervals`, and will record nothing more before second `over`.
    pub(crate) fn publish(&mut self, thread: usize, intervals: &[Interval], over: u64) {
        for interval in intervals {
            let empty = || Interval { second: interval.second, ..Interval::default() };
            self.seconds.entry(interval.second).or_insert_with(empty).merge(interval);
        }
        self.over[thread] = over;
    }

    /// Takes the intervals to which no thread will add anything, without gaps: a second in which nothing was completed is an
    /// empty interval, unless nothing is after it.
    pub(crate) fn take_over(&mut self) -> Vec<Interval> {
        let over = self.over.iter().copied().min().unwrap_or(0);
        let later = self.seconds.split_off(&over);
        let mut over_ones = std::mem::replace(&mut self.seconds, later);
        let Some(last) = over_ones.last_key_value().map(|(second, _)| *second) else { return Vec::new() };
        let first = std::mem::replace(&mut self.taken, last + 1);
        (first..=last)
            .map(|second| over_ones.remove(&second).unwrap_or(Interval { second, ..Interval::default() }))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(second: u64, nanos: u64) -> Interval {
        let mut intervals = Intervals::default();
        intervals.record(second, Operation::Get, nanos);
        intervals.take_before(second + 1).remove(0)
    }

    fn shape(intervals: &[Interval]) -> Vec<(u64, u64)> {
        intervals.iter().map(|interval| (interval.second, interval.all().count())).collect()
    }

    #[test]
    fn operations_are_kept_separately_and_empty_seconds_are_not_kept() {
        let mut intervals = Intervals::default();
        intervals.record(0, Operation::Get, 5);
        intervals.record(0, Operation::Set, 6);
        intervals.record(3, Operation::Set, 7);
        let over = intervals.take_before(3);
        assert_eq!(shape(&over), [(0, 2)]);
        let names: Vec<_> = over[0].operations().map(|(operation, times)| (operation, times.sum())).collect();
        assert_eq!(names, [(Operation::Get, 5), (Operation::Set, 6)]);
        assert_eq!(shape(&intervals.take_before(9)), [(3, 1)]);
        assert!(intervals.take_before(10).is_empty());
    }

    #[test]
    fn a_second_is_taken_when_every_thread_is_past_it() {
        let mut gathering = Gathering::new(2);
        gathering.publish(0, &[interval(1, 10)], 3);
        assert!(gathering.take_over().is_empty());
        gathering.publish(1, &[interval(1, 20), interval(4, 30)], 5);
        assert_eq!(shape(&gathering.take_over()), [(0, 0), (1, 2)]);
        assert!(gathering.take_over().is_empty());
        gathering.publish(0, &[], u64::MAX);
        gathering.publish(1, &[], u64::MAX);
        assert_eq!(shape(&gathering.take_over()), [(2, 0), (3, 0), (4, 1)]);
    }
}
