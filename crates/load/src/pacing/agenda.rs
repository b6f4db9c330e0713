//! What a thread has to do at which moment: arrivals of an open loop, or clients that have finished thinking.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use weir_timing::Instant;

use crate::pacing::arrivals::{Arrival, Arrivals, Plan};

/// The agenda of one thread.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    arrivals: Option<Arrivals>,
    /// Never longer than there are clients that can think.
    thinking: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl Agenda {
    /// An open loop's: the arrivals for the connections `mine`, from `start`.
    pub(crate) fn open(plan: &Plan, mine: Range<u32>, start: Instant) -> Agenda {
        Agenda { arrivals: Some(Arrivals::new(plan, mine, start)), thinking: BinaryHeap::new() }
    }

    /// A closed loop's, for at most `clients` clients.
    pub(crate) fn closed(clients: usize) -> Agenda {
        Agenda { arrivals: None, thinking: BinaryHeap::with_capacity(clients) }
    }

    /// A client of `connection` will have finished thinking at `ready`.
    pub(crate) fn add(&mut self, connection: u32, ready: Instant) {
        self.thinking.push(Reverse((ready, connection)));
    }

    /// When the next thing is to be done.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        match &self.arrivals {
            Some(arrivals) => arrivals.next_at(),
            None => self.thinking.peek().map(|Reverse((ready, _))| *ready),
        }
    }

    /// Takes the next thing that is due at `now`: which connection has a request to send, and since when.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<Arrival> {
        match &mut self.arrivals {
            Some(arrivals) => arrivals.pop_due(now),
            None => {
                self.thinking.peek().filter(|Reverse((ready, _))| *ready <= now)?;
                let Reverse((intended, connection)) = self.thinking.pop()?;
                Some(Arrival { intended, connection })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_become_ready_in_the_order_of_time() {
        let mut agenda = Agenda::closed(3);
        for (connection, nanos) in [(1, 30), (2, 10), (3, 20)] {
            agenda.add(connection, Instant::from_nanos(nanos));
        }
        assert_eq!(agenda.next_at(), Some(Instant::from_nanos(10)));
        let now = Instant::from_nanos(20);
        let due: Vec<_> =
            std::iter::from_fn(|| agenda.pop_due(now)).map(|arrival| arrival.connection).collect();
        assert_eq!(due, [2, 3]);
        assert_eq!(agenda.next_at(), Some(Instant::from_nanos(30)));
    }
}
