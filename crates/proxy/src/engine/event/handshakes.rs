//! Handshakes of TLS clients: how long each may take, and how much of a turn all of them may.
//!
//! A step of a handshake is one read of a client that is in its handshake. The one that brings a client's first words costs a signature and
//! a key exchange, as much as tens to hundreds of requests (docs/operate/tls.md). So a turn takes [`STEPS_PER_TURN`] of them, and those
//! behind wait for the next turn, in their order: others are served in between.
//!
//! [`Handshakes`] owns the list of those under way, by the time at which they are over. As many may be in those of all loops as `--tls-handshakes` says.

use crate::config::nanos;
use std::{collections::VecDeque, time::Duration};
use weir_dataplane::SessionId;
use weir_timing::Instant;

/// Steps in a turn. A signature with RSA and 2048 bits takes about half a millisecond.
const STEPS_PER_TURN: u32 = 4;

#[derive(Debug)]
pub(super) struct Handshakes {
    timeout_ns: u64,
    steps_left: u32,
    /// All have the same time, so the first is over first.
    under_way: VecDeque<(Instant, SessionId)>,
}

impl Handshakes {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout_ns: nanos(timeout), steps_left: STEPS_PER_TURN, under_way: VecDeque::new() }
    }

    /// A client has connected that must do its handshake.
    pub(super) fn begin(&mut self, id: SessionId, now: Instant) {
        self.under_way.push_back((now.plus(self.timeout_ns), id));
    }

    /// Its handshake is over, however it ended.
    pub(super) fn end(&mut self, id: SessionId) {
        if let Some(place) = self.under_way.iter().position(|(_, other)| *other == id) {
            self.under_way.remove(place);
        }
    }

    /// A turn begins with a wait until `deadline`. Returns when that has to end for a handshake.
    #[inline]
    pub(super) fn begin_turn(&mut self, deadline: Option<Instant>) -> Option<Instant> {
        self.steps_left = STEPS_PER_TURN;
        match self.under_way.front() {
            None => deadline,
            Some(&(until, _)) => Some(deadline.map_or(until, |deadline| deadline.min(until))),
        }
    }

    /// Whether one more step may be done in this turn.
    pub(super) fn take_step(&mut self) -> bool {
        let may = self.steps_left > 0;
        self.steps_left = self.steps_left.saturating_sub(1);
        may
    }

    /// One whose time is over. It is under way no more.
    #[inline]
    pub(super) fn next_late(&mut self, now: Instant) -> Option<SessionId> {
        let &(until, id) = self.under_way.front()?;
        if until > now {
            return None;
        }
        self.under_way.pop_front();
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn a_turn_takes_so_many_steps_and_the_next_as_many_again() {
        let mut handshakes = Handshakes::new(Duration::from_nanos(100));
        for _ in 0..2 {
            let taken = (0..2 * STEPS_PER_TURN).filter(|_| handshakes.take_step()).count();
            assert_eq!(taken, STEPS_PER_TURN as usize);
            handshakes.begin_turn(None);
        }
    }

    #[test]
    fn each_has_its_time_and_who_is_done_is_not_late() {
        let mut handshakes = Handshakes::new(Duration::from_nanos(100));
        let ids: Vec<_> = (0..3).map(SessionId::from_index).collect();
        for (&id, begun) in ids.iter().zip([0, 10, 20]) {
            handshakes.begin(id, at(begun));
        }
        assert_eq!(handshakes.begin_turn(None), Some(at(100)));
        assert_eq!(handshakes.begin_turn(Some(at(50))), Some(at(50)));
        handshakes.end(ids[0]);
        assert_eq!(handshakes.next_late(at(109)), None);
        assert_eq!(handshakes.next_late(at(115)), Some(ids[1]));
        assert_eq!((handshakes.next_late(at(115)), handshakes.begin_turn(None)), (None, Some(at(120))));
    }
}
