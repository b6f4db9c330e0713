//! What is to be reported to others: the driver, whoever asks servers, and the operator.
//!
//! [`Notices`] owns what was not asked for yet, each in its order: [`Order`]s for the driver, [`Happened`] for whoever asks servers, and
//! [`Change`]s for the operator.

use crate::{
    servers::changes::{Change, Changes},
    servers::happened::{Ending, Happened, Lost},
    servers::order::Order,
    servers::pipeline::LostMessages,
    wire::ids::Slot,
};
use std::collections::VecDeque;

/// What was not reported yet.
#[derive(Debug, Default)]
pub(super) struct Notices {
    orders: VecDeque<Order>,
    happened: VecDeque<Happened>,
    changes: Changes,
}

impl Notices {
    #[inline]
    pub(super) fn poll_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    #[inline]
    pub(super) fn has_orders(&self) -> bool {
        !self.orders.is_empty()
    }

    #[inline]
    pub(super) fn poll_happened(&mut self) -> Option<Happened> {
        self.happened.pop_front()
    }

    #[inline]
    pub(super) fn poll_change(&mut self) -> Option<Change> {
        self.changes.poll()
    }

    #[inline]
    pub(super) fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    pub(super) fn connect(&mut self, slot: Slot) {
        self.orders.push_back(Order::Connect(slot));
    }

    pub(super) fn disconnect(&mut self, slot: Slot) {
        self.orders.push_back(Order::Disconnect(slot));
    }

    /// The same for a slot of which the driver may not know that it was to be connected.
    pub(super) fn disconnect_for_good(&mut self, slot: Slot) {
        self.orders.retain(|order| *order != Order::Connect(slot));
        self.disconnect(slot);
    }

    pub(super) fn tell(&mut self, happened: Happened) {
        self.happened.push_back(happened);
    }

    pub(super) fn tell_lost(&mut self, lost: Lost) {
        self.tell(Happened::Lost(Box::new(lost)));
    }

    pub(super) fn tell_ended(&mut self, (server, own): (Slot, Slot), lost: LostMessages, ending: Ending) {
        self.tell(Happened::Ended { server, own, lost, ending });
    }

    /// Whether there was room for it.
    pub(super) fn note_change(&mut self, change: Change) -> bool {
        self.changes.push(change)
    }

    /// The driver is to do nothing of what it was to do, and no change is worth a line: the servers are forgotten.
    pub(super) fn forget(&mut self) {
        self.orders.clear();
        self.changes = Changes::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ids::slot;

    #[test]
    fn what_was_not_begun_is_not_begun_when_the_slot_is_given_up() {
        let mut notices = Notices::default();
        notices.connect(slot(1));
        notices.connect(slot(2));
        notices.disconnect_for_good(slot(1));
        notices.tell(Happened::Tried);
        let orders: Vec<_> = std::iter::from_fn(|| notices.poll_order()).collect();
        assert_eq!(orders, [Order::Connect(slot(2)), Order::Disconnect(slot(1))]);
        notices.connect(slot(3));
        notices.forget();
        assert!(notices.poll_order().is_none() && notices.poll_happened().is_some());
    }
}
