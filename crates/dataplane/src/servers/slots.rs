//! The numbers that servers have in this dataplane and at its driver.
//!
//! ```text
//!   free ──table names it──▶ serving ──table does not──▶ leaving ──answered, or given up──▶ free
//!                               ▲                           │      (the connection is dropped)
//!                               └────── table names it ─────┘
//! ```
//!
//! Every connection has a slot: that of a server itself, and further ones beside it, for large values (`bulk.rs`) and for second opinions
//! (`second_opinion.rs`). A slot that leaves gets no message of a request that comes later. It is free when nothing on it waits for a reply
//! and no write that is being decided may still be sent there. So a number in a request never changes its meaning.

use crate::wire::ids::Slot;
use std::sync::Arc;
use weir_routing::{Server, TABLE_SERVERS_MAX, Table};

/// What is in a slot: a server, or a further connection to one.
#[derive(Debug)]
struct Held {
    server: Server,
    /// The server's name, as requests that failed because of it remember it.
    name: Arc<str>,
    state: SlotState,
    /// The server whose second connection this is, if it is one.
    beside: Option<Slot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    Serving,
    Leaving,
    Free,
}

/// Twice as many as a table has servers would do if reloads were rare; more are only used while servers of several earlier tables do
/// not answer.
pub(crate) const SLOTS_MAX: usize = 4 * TABLE_SERVERS_MAX;

/// All slots, by number.
#[derive(Debug, Default)]
pub(crate) struct Slots(Vec<Held>);

impl Slots {
    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Every number that was ever a server's.
    pub(crate) fn all(&self) -> impl Iterator<Item = Slot> + use<> {
        (0..self.0.len()).map(Slot::from_index)
    }

    /// Where the server is.
    pub(crate) fn server(&self, slot: Slot) -> &Server {
        &self.0[slot.index()].server
    }

    pub(crate) fn name(&self, slot: Slot) -> &Arc<str> {
        &self.0[slot.index()].name
    }

    pub(crate) fn state(&self, slot: Slot) -> SlotState {
        self.0[slot.index()].state
    }

    /// Whether the table in force names it.
    pub(crate) fn is_serving(&self, slot: Slot) -> bool {
        self.state(slot) == SlotState::Serving
    }

    /// The server whose second connection this is, if it is one.
    pub(crate) fn beside(&self, slot: Slot) -> Option<Slot> {
        self.0[slot.index()].beside
    }

    /// The slot of the server itself, whichever of its connections this is.
    pub(crate) fn own(&self, slot: Slot) -> Slot {
        self.beside(slot).unwrap_or(slot)
    }

    /// The slot of this server, if it has one: reached under the same address and called the same.
    pub(crate) fn of(&self, server: &Server) -> Option<Slot> {
        let found = self.0.iter().position(|slot| {
            let same = slot.server.endpoint == server.endpoint && slot.server.name == server.name;
            slot.state != SlotState::Free && slot.beside.is_none() && same
        });
        found.map(Slot::from_index)
    }

    /// Whether there is room for all servers of a table, should none of them have a slot yet.
    pub(crate) fn has_room(&self, table: &Table) -> bool {
        let used = self.0.iter().filter(|slot| slot.state != SlotState::Free).count();
        used + table.servers().len() <= SLOTS_MAX
    }

    /// Gives a free slot to this server, or to another connection `beside` it; `None` if there is none.
    pub(crate) fn take(&mut self, server: Server, beside: Option<Slot>) -> Option<Slot> {
        let name = match beside {
            Some(own) => Arc::clone(&self.0[own.index()].name),
            None => server.name.as_str().into(),
        };
        let new = Held { server, name, state: SlotState::Serving, beside };
        if let Some(slot) = self.0.iter().position(|slot| slot.state == SlotState::Free) {
            self.0[slot] = new;
            return Some(Slot::from_index(slot));
        }
        if self.0.len() >= SLOTS_MAX {
            return None;
        }
        self.0.push(new);
        Some(Slot::from_index(self.0.len() - 1))
    }

    pub(crate) fn serve(&mut self, slot: Slot) {
        self.0[slot.index()].state = SlotState::Serving;
    }

    pub(crate) fn leave(&mut self, slot: Slot) {
        self.0[slot.index()].state = SlotState::Leaving;
    }

    pub(crate) fn free(&mut self, slot: Slot) {
        self.0[slot.index()].state = SlotState::Free;
    }

    /// Whether any is leaving.
    pub(crate) fn is_any_leaving(&self) -> bool {
        self.0.iter().any(|slot| slot.state == SlotState::Leaving)
    }

    /// The numbers of servers that are to be connected, leaving ones included.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = Slot> {
        self.all().filter(|&slot| self.state(slot) != SlotState::Free)
    }
}
