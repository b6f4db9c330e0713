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
use std::{
    collections::{BTreeSet, HashMap},
    mem,
    sync::Arc,
};
use weir_routing::{Endpoint, Server, TABLE_SERVERS_MAX, Table};

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

/// What makes servers of two tables the same: reached under the same address and called the same.
type Identity = (Endpoint, String);

/// All slots, by number.
///
/// All clients of a loop wait while it takes a table. So no server of thousands is searched for among the slots.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    held: Vec<Held>,
    /// Of servers themselves, those that are not free.
    own: HashMap<Identity, Slot>,
    /// The lowest one is taken first.
    free: BTreeSet<Slot>,
    leaving: usize,
}

impl Slots {
    #[cfg(test)]
    pub(crate) const fn len(&self) -> usize {
        self.held.len()
    }

    /// Every number that was ever a server's.
    pub(crate) fn all(&self) -> impl Iterator<Item = Slot> + use<> {
        (0..self.held.len()).map(Slot::from_index)
    }

    /// Where the server is.
    pub(crate) fn server(&self, slot: Slot) -> &Server {
        &self.held[slot.index()].server
    }

    pub(crate) fn name(&self, slot: Slot) -> &Arc<str> {
        &self.held[slot.index()].name
    }

    pub(crate) fn state(&self, slot: Slot) -> SlotState {
        self.held[slot.index()].state
    }

    /// Whether the table in force names it.
    pub(crate) fn is_serving(&self, slot: Slot) -> bool {
        self.state(slot) == SlotState::Serving
    }

    /// The server whose second connection this is, if it is one.
    pub(crate) fn beside(&self, slot: Slot) -> Option<Slot> {
        self.held[slot.index()].beside
    }

    /// The slot of the server itself, whichever of its connections this is.
    pub(crate) fn own(&self, slot: Slot) -> Slot {
        self.beside(slot).unwrap_or(slot)
    }

    /// The slot of this server, if it has one.
    pub(crate) fn of(&self, server: &Server) -> Option<Slot> {
        self.own.get(&identity(server)).copied()
    }

    /// Whether there is room for all servers of a table, should none of them have a slot yet.
    pub(crate) fn has_room(&self, table: &Table) -> bool {
        let used = self.held.len() - self.free.len();
        used + table.servers().len() <= SLOTS_MAX
    }

    /// Gives a free slot to this server, which has none, or to another connection `beside` it; `None` if there is none.
    pub(crate) fn take(&mut self, server: Server, beside: Option<Slot>) -> Option<Slot> {
        let name = match beside {
            Some(own) => Arc::clone(&self.held[own.index()].name),
            None => server.name.as_str().into(),
        };
        let identity = beside.is_none().then(|| identity(&server));
        let new = Held { server, name, state: SlotState::Serving, beside };
        let slot = if let Some(slot) = self.free.pop_first() {
            self.held[slot.index()] = new;
            slot
        } else if self.held.len() < SLOTS_MAX {
            self.held.push(new);
            Slot::from_index(self.held.len() - 1)
        } else {
            return None;
        };
        self.own.extend(identity.map(|identity| (identity, slot)));
        Some(slot)
    }

    pub(crate) fn serve(&mut self, slot: Slot) {
        self.set_state(slot, SlotState::Serving);
    }

    pub(crate) fn leave(&mut self, slot: Slot) {
        self.set_state(slot, SlotState::Leaving);
    }

    pub(crate) fn free(&mut self, slot: Slot) {
        self.set_state(slot, SlotState::Free);
        self.free.insert(slot);
        if self.beside(slot).is_none() {
            self.own.remove(&identity(self.server(slot)));
        }
    }

    fn set_state(&mut self, slot: Slot, state: SlotState) {
        let before = mem::replace(&mut self.held[slot.index()].state, state);
        self.leaving -= usize::from(before == SlotState::Leaving);
        self.leaving += usize::from(state == SlotState::Leaving);
    }

    /// Whether any is leaving.
    pub(crate) const fn is_any_leaving(&self) -> bool {
        self.leaving > 0
    }

    /// The numbers of servers that are to be connected, leaving ones included.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = Slot> {
        self.all().filter(|&slot| self.state(slot) != SlotState::Free)
    }
}

fn identity(server: &Server) -> Identity {
    (server.endpoint.clone(), server.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};

    /// As it was before: the first slot of all that fits.
    fn searched(slots: &Slots, server: &Server) -> Option<Slot> {
        let fits = |slot: &Slot| {
            let held = &slots.held[slot.index()];
            let same = held.server.endpoint == server.endpoint && held.server.name == server.name;
            held.state != SlotState::Free && held.beside.is_none() && same
        };
        slots.all().find(fits)
    }

    #[test]
    fn what_is_known_of_slots_is_what_a_search_finds() {
        let mut random = SmallRng::seed_from_u64(29);
        let mut slots = Slots::default();
        for _ in 0..20_000 {
            let number = random.random_range(0..60);
            // Some are called the same and are elsewhere.
            let mut server = Server::new(format!("server-{}", number % 40), 1);
            if number >= 40 {
                server.name = "same".to_owned();
            }
            let found = slots.of(&server);
            assert_eq!(found, searched(&slots, &server));
            match (found, random.random_range(0..4)) {
                (None, _) => drop(slots.take(server, None)),
                (Some(slot), 0) => slots.leave(slot),
                (Some(slot), 1) => slots.serve(slot),
                (Some(slot), 2) => slots.free(slot),
                (Some(slot), _) => {
                    let beside = slots.take(server, Some(slot)).expect("there is room");
                    assert_eq!(slots.own(beside), slot);
                    slots.free(beside);
                }
            }
            let states = || slots.all().map(|slot| slots.state(slot));
            assert_eq!(slots.is_any_leaving(), states().any(|it| it == SlotState::Leaving));
            assert_eq!(slots.free.len(), states().filter(|it| *it == SlotState::Free).count());
        }
        // The lowest free ones are taken first, so that there are never more than were in use at once, and one beside.
        assert!(slots.len() <= 61, "{}", slots.len());
    }
}
