//! What requests in service keep of the values that clients have sent, until their servers have answered.
//!
//! A server that reads everything and answers nothing makes them pile up: what was sent to it waits nowhere else any more. So they count
//! against the budget, and none is made that would count while much is held. What is no longer than an idle client's buffer does not count.
//!
//! [`Copies`] owns the sum of one dataplane. As with all else, the others learn of it at the end of a turn.

use crate::memory::{
    budget::{Budget, Charge, Held},
    buffer::IDLE_BYTES_MAX,
};
use std::sync::Arc;

/// How much all copies of one dataplane keep.
#[derive(Debug)]
pub(crate) struct Copies {
    /// What was reported.
    charge: Charge,
    bytes: usize,
}

impl Copies {
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self { charge: budget.charge(0), bytes: 0 }
    }

    /// From now on they count against this budget.
    pub(crate) fn share(&mut self, budget: &Arc<Budget>) {
        *self = Self { bytes: self.bytes, ..Self::new(budget) };
    }

    /// How long one more may be. `held`: what clients and servers of this dataplane hold.
    #[inline]
    pub(crate) fn bytes_max(&self, held: &Held) -> usize {
        let unreported = self.bytes.saturating_sub(self.charge.bytes());
        if held.would_be_pressed(unreported) { IDLE_BYTES_MAX } else { usize::MAX }
    }

    /// A request keeps so much, and kept so much `before`.
    #[inline]
    pub(crate) const fn recharge(&mut self, before: usize, now: usize) {
        self.bytes = self.bytes + now - before;
    }

    /// Tells the others, if it has changed.
    #[inline]
    pub(crate) fn tell(&mut self) {
        if self.bytes != self.charge.bytes() {
            self.charge.set(self.bytes);
        }
    }

    /// Nothing is kept: for tests.
    pub(crate) const fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_counts_at_once_here_and_at_the_end_of_the_turn_for_others() {
        let budget = Budget::new(4 * IDLE_BYTES_MAX);
        let (held, mut copies) = (Held::new(&budget), Copies::new(&budget));
        let half = 2 * IDLE_BYTES_MAX;
        copies.recharge(0, half);
        assert_eq!((copies.bytes_max(&held), budget.held()), (usize::MAX, 0), "a half is not yet much");
        copies.recharge(0, 1);
        assert_eq!((copies.bytes_max(&held), budget.held()), (IDLE_BYTES_MAX, 0));
        copies.tell();
        assert_eq!((copies.bytes_max(&held), budget.held()), (IDLE_BYTES_MAX, half + 1));
        let other = Budget::new(usize::MAX);
        copies.share(&other);
        assert_eq!((budget.held(), copies.bytes_max(&Held::new(&other))), (0, usize::MAX));
        copies.recharge(half + 1, 0);
        assert!(copies.is_empty());
    }
}
