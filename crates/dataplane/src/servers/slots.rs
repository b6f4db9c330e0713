//! The numbers that servers have in this dataplane and at its driver.
//!
//! ```text
//!   free ──table names it──▶ serving ──table does not──▶ leaving ──answered, or given up──▶ free
//!                               ▲                           │      (the connection is dropped)
//!                               └────── table names it ─────┘
//! ```
//!
//! Every connection has a slot: that of a server itself, and further ones beside it, for large values (`bulk.rs`) and for second opinions
//! (`second_opinion.rs`). A slot that leaves gets no message of a request that comes later; it is free when nothing on it waits for a reply
//! and no write that is being decided may still be sent there. So a number in a request never changes its meaning.

use std::sync::Arc;
use weir_routing::{Server, TABLE_SERVERS_MAX, Table};

/// A number that a server may have.
#[derive(Debug)]
pub(crate) struct Slot {
    server: Server,
    /// The server's name, as requests that failed because of it remember it.
    name: Arc<str>,
    state: SlotState,
    /// The server whose second connection this is, if it is one.
    beside: Option<usize>,
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
pub(crate) struct Slots(Vec<Slot>);

impl Slots {
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Where the server is.
    pub(crate) fn server(&self, slot: usize) -> &Server {
        &self.0[slot].server
    }

    pub(crate) fn name(&self, slot: usize) -> &Arc<str> {
        &self.0[slot].name
    }

    pub(crate) fn state(&self, slot: usize) -> SlotState {
        self.0[slot].state
    }

    /// Whether the table in force names it.
    pub(crate) fn is_serving(&self, slot: usize) -> bool {
        self.state(slot) == SlotState::Serving
    }

    /// The server whose second connection this is, if it is one.
    pub(crate) fn beside(&self, slot: usize) -> Option<usize> {
        self.0[slot].beside
    }

    /// The slot of the server itself, whichever of its connections this is.
    pub(crate) fn own(&self, slot: usize) -> usize {
        self.beside(slot).unwrap_or(slot)
    }

    /// The slot of this server, if it has one: reached under the same address and called the same.
    pub(crate) fn of(&self, server: &Server) -> Option<usize> {
        self.0.iter().position(|slot| {
            let same = slot.server.endpoint == server.endpoint && slot.server.name == server.name;
            slot.state != SlotState::Free && slot.beside.is_none() && same
        })
    }

    /// Whether there is room for all servers of a table, should none of them have a slot yet.
    pub(crate) fn has_room(&self, table: &Table) -> bool {
        let used = self.0.iter().filter(|slot| slot.state != SlotState::Free).count();
        used + table.servers().len() <= SLOTS_MAX
    }

    /// Gives a free slot to this server, or to another connection `beside` it; `None` if there is none.
    pub(crate) fn take(&mut self, server: Server, beside: Option<usize>) -> Option<usize> {
        let name = match beside {
            Some(own) => Arc::clone(&self.0[own].name),
            None => server.name.as_str().into(),
        };
        let new = Slot { server, name, state: SlotState::Serving, beside };
        if let Some(slot) = self.0.iter().position(|slot| slot.state == SlotState::Free) {
            self.0[slot] = new;
            return Some(slot);
        }
        if self.0.len() >= SLOTS_MAX {
            return None;
        }
        self.0.push(new);
        Some(self.0.len() - 1)
    }

    pub(crate) fn serve(&mut self, slot: usize) {
        self.0[slot].state = SlotState::Serving;
    }

    pub(crate) fn leave(&mut self, slot: usize) {
        self.0[slot].state = SlotState::Leaving;
    }

    pub(crate) fn free(&mut self, slot: usize) {
        self.0[slot].state = SlotState::Free;
    }

    /// Whether any is leaving.
    pub(crate) fn is_any_leaving(&self) -> bool {
        self.0.iter().any(|slot| slot.state == SlotState::Leaving)
    }

    /// The numbers of servers that are to be connected, leaving ones included.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = usize> {
        (0..self.0.len()).filter(|&slot| self.0[slot].state != SlotState::Free)
    }
}
