//! Which servers there are, where keys go among them, and how both change while requests are in service.
//!
//! Every server has a slot, which is its number in this dataplane and at its driver. A table that comes later finds the servers that
//! stay by address and name and leaves them their slots, with connection, queue and counts. The others leave:
//!
//! ```text
//!   free ──table names it──▶ serving ──table does not──▶ leaving ──answered, or given up──▶ free
//!                               ▲                           │      (the connection is dropped)
//!                               └────── table names it ─────┘
//! ```
//!
//! A slot that leaves gets no message of a request that comes later; it is free when nothing on it waits for a reply and no write that
//! is being decided may still be sent there. So a number in a request never changes its meaning.

use crate::{
    Dataplane, Event, ServerChange,
    replication::replica::{Ending, Replica},
    servers::backend::{Backend, State},
};
use std::{mem, sync::Arc};
use weir_routing::{Server, TABLE_SERVERS_MAX, Table};
use weir_timing::Instant;

/// A table, with the slots that its servers have in this dataplane.
#[derive(Debug)]
pub(crate) struct Routes {
    table: Arc<Table>,
    /// For each pool, the slots of its servers in the pool's order.
    pools: Vec<Vec<u16>>,
    /// The slots of all servers, in the table's order.
    servers: Vec<u16>,
    /// Whether any key has more than one server.
    replicated: bool,
}

/// One pool, as a request that needs no other sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolSlots<'a> {
    /// The slots of its servers.
    pub(crate) servers: &'a [u16],
    /// How many of them hold each key.
    pub(crate) replicas: usize,
}

impl Routes {
    /// Before the first table is taken.
    pub(crate) fn nowhere(table: &Arc<Table>) -> Self {
        Self { table: Arc::clone(table), pools: Vec::new(), servers: Vec::new(), replicated: false }
    }

    fn new(table: Arc<Table>, servers: Vec<u16>) -> Self {
        let slot = |place: &u16| servers[usize::from(*place)];
        let pools = table.pools().iter().map(|pool| pool.places().iter().map(slot).collect()).collect();
        let replicated = table.pools().iter().any(|pool| pool.router().replicas() > 1);
        Self { table, pools, servers, replicated }
    }

    /// The slot of the key's first server.
    #[inline]
    pub(crate) fn primary(&self, key: &[u8]) -> usize {
        let pool = self.table.pool_of(key);
        usize::from(self.pools[pool][self.table.pools()[pool].router().primary(key)])
    }

    /// Writes the slots of the key's servers into `out`, the primary first, and returns how many.
    pub(crate) fn replicas_of(&self, key: &[u8], out: &mut [u16]) -> usize {
        let pool = self.table.pool_of(key);
        let count = self.table.pools()[pool].router().replicas_of(key, out);
        out[..count].iter_mut().for_each(|place| *place = self.pools[pool][usize::from(*place)]);
        count
    }

    /// The pool that all these keys belong to, if it is one.
    pub(crate) fn pool_of_all<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>) -> Option<PoolSlots<'_>> {
        let mut number = 0;
        if self.table.routes().next().is_some() {
            number = keys.next().map_or(0, |key| self.table.pool_of(key));
            if keys.any(|key| self.table.pool_of(key) != number) {
                return None;
            }
        }
        let replicas = self.table.pools()[number].router().replicas();
        Some(PoolSlots { servers: &self.pools[number], replicas })
    }

    /// Whether any key has more than one server.
    pub(crate) fn is_replicated(&self) -> bool {
        self.replicated
    }

    /// Each pool that this server belongs to.
    pub(crate) fn pools_with(&self, slot: usize) -> impl Iterator<Item = PoolSlots<'_>> {
        let pools = self.table.pools().iter().zip(&self.pools);
        let pools = pools.map(|(pool, servers)| PoolSlots { servers, replicas: pool.router().replicas() });
        pools.filter(move |pool| pool.servers.contains(&index(slot)))
    }

    /// The slots of servers whose keys have others besides.
    pub(crate) fn replicated_slots(&self) -> impl Iterator<Item = usize> {
        let replicated = self.table.pools().iter().zip(&self.pools);
        let replicated = replicated.filter(|(pool, _)| pool.router().replicas() > 1);
        replicated.flat_map(|(_, slots)| slots).map(|&slot| usize::from(slot))
    }

    /// Whether this key has more than one server.
    pub(crate) fn replicates(&self, key: &[u8]) -> bool {
        self.table.pools()[self.table.pool_of(key)].router().replicas() > 1
    }

    /// The slots of all servers, in the table's order.
    pub(crate) fn servers(&self) -> &[u16] {
        &self.servers
    }
}

/// A number that a server may have.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) server: Server,
    /// The server's name, as requests that failed because of it remember it.
    pub(crate) name: Arc<str>,
    pub(crate) state: SlotState,
    /// The server whose second connection this is, if it is one.
    pub(crate) beside: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotState {
    Serving,
    Leaving,
    Free,
}

/// Twice as many as a table has servers would do if reloads were rare; more are only used while servers of several earlier tables do
/// not answer.
const SLOTS_MAX: usize = 4 * TABLE_SERVERS_MAX;

impl Dataplane {
    /// From now on keys go where `table` says. Nothing that is in service fails because of it: servers that the table does not name
    /// answer what they were asked, then their connections are dropped. Where so many servers of earlier tables have not answered yet
    /// that there is no room for more, the table is taken as soon as there is.
    pub fn handle_table(&mut self, table: Arc<Table>, now: Instant) {
        self.coming = Some(table);
        self.take_coming_table(now);
    }

    /// How long servers may take, for requests that come later.
    pub fn set_timeout(&mut self, timeout_ns: u64) {
        self.config.timeout_ns = timeout_ns;
    }

    /// Connects to a server of the table, if nothing was sent to it yet: with [`crate::Config::connects_when_needed`].
    pub fn handle_server_wanted(&mut self, server: &Server, now: Instant) {
        let wanted =
            self.slots.iter().position(|slot| slot.is_of(server) && slot.state == SlotState::Serving);
        if let Some(slot) = wanted.filter(|&slot| self.backends[slot].state == State::Idle) {
            self.connect(slot, now);
        }
    }

    /// Where the server is that has this number: to be asked when [`Event::Connect`] names it.
    pub fn server(&self, slot: usize) -> &Server {
        &self.slots[slot].server
    }

    /// The numbers of the servers that are to be connected, leaving ones included.
    pub fn connected_servers(&self) -> impl Iterator<Item = usize> {
        (0..self.slots.len()).filter(|&slot| self.slots[slot].state != SlotState::Free)
    }

    /// The server's name has other addresses than the one that it is connected to. The connection is made anew when all that was
    /// sent on it is answered; what comes meanwhile waits. One that leaves keeps its connection until it has answered.
    pub fn handle_server_moved(&mut self, slot: usize) {
        self.backends[slot].renewing =
            self.server_is_up(slot) && self.slots[slot].state == SlotState::Serving;
        self.settling = true;
    }

    fn take_coming_table(&mut self, now: Instant) {
        let Some(table) = self.coming.take_if(|table| has_room(&self.slots, table)) else { return };
        let servers: Vec<u16> = table.servers().iter().map(|server| self.assign_slot(server, now)).collect();
        let mut named = vec![false; self.slots.len()];
        servers.iter().for_each(|&slot| named[usize::from(slot)] = true);
        let mut left = Vec::new();
        for (number, slot) in self.slots.iter_mut().enumerate() {
            if slot.state == SlotState::Serving && !named[slot.beside.unwrap_or(number)] {
                slot.state = SlotState::Leaving;
                self.settling = true;
                // There will be no other connection: what waits is sent on this one.
                self.backends[number].renewing = false;
                left.push(number);
            }
        }
        left.into_iter().for_each(|slot| self.note_change(slot, ServerChange::Left));
        let routes = Routes::new(table, servers);
        self.prepare_replicas(&routes);
        let former = mem::replace(&mut self.router, Arc::new(routes));
        self.counters.tables_replaced += u64::from(!former.servers.is_empty());
        self.generation += 1;
        self.former.push(former);
        self.former.retain(|routes| Arc::strong_count(routes) > 1);
    }

    /// Servers that hold copies of what others hold get what that needs. Who has it keeps it.
    fn prepare_replicas(&mut self, routes: &Routes) {
        self.keeps_journals |= routes.is_replicated();
        for slot in routes.replicated_slots() {
            let replica = || Box::new(Replica::new(&self.standing, &self.slots[slot].name));
            if self.backends[slot].replica.is_none() {
                let replica = self.backends[slot].replica.insert(replica());
                if replica.share.is_unclean() {
                    // Who went by it before has left it like that.
                    self.note_change(slot, ServerChange::FlushWanted);
                }
            }
        }
    }

    /// The slot of a server, its old one if it has one.
    pub(crate) fn assign_slot(&mut self, server: &Server, now: Instant) -> u16 {
        if let Some(slot) = self.slots.iter().position(|slot| slot.is_of(server)) {
            for slot in [Some(slot), self.apart_from(slot)].into_iter().flatten() {
                self.slots[slot].state = SlotState::Serving;
                self.doubt_if_silent(slot, now);
            }
            return index(slot);
        }
        let new = Slot {
            server: server.clone(),
            name: server.name.as_str().into(),
            state: SlotState::Serving,
            beside: None,
        };
        let slot = self.free_slot(new).expect("there is room for the table");
        self.backends[slot] = Backend::new(slot, now);
        self.recorder.begin_server(slot);
        if !self.config.connects_when_needed {
            self.connect(slot, now);
        }
        index(slot)
    }

    /// Puts this into a slot that is free; `None` if there is none.
    pub(crate) fn free_slot(&mut self, new: Slot) -> Option<usize> {
        if let Some(slot) = self.slots.iter().position(|slot| slot.state == SlotState::Free) {
            self.slots[slot] = new;
            return Some(slot);
        }
        if self.slots.len() >= SLOTS_MAX {
            return None;
        }
        self.slots.push(new);
        self.backends.push(Backend::new(self.backends.len(), Instant::ZERO));
        Some(self.slots.len() - 1)
    }

    /// Once per turn: ends connections that have waited for their last replies.
    pub(crate) fn settle_all(&mut self, now: Instant) {
        if self.settling {
            (0..self.slots.len()).for_each(|slot| self.settle(slot, now));
            let waits =
                |slot: usize| self.slots[slot].state == SlotState::Leaving || self.backends[slot].renewing;
            self.settling = (0..self.slots.len()).any(waits);
        }
    }

    /// When the first of them can be ended at the latest.
    pub(crate) fn next_settled(&self) -> Option<Instant> {
        let slots = if self.settling { 0..self.slots.len() } else { 0..0 };
        slots.filter_map(|slot| self.settled_at(slot)).min()
    }

    fn settle(&mut self, slot: usize, now: Instant) {
        if self.settled_at(slot).is_none_or(|at| at > now) {
            return;
        }
        self.events.retain(|event| *event != Event::Connect(slot));
        self.events.push_back(Event::Disconnect(slot));
        if self.slots[slot].state == SlotState::Leaving {
            self.slots[slot].state = SlotState::Free;
            self.counters.servers_left += u64::from(self.slots[slot].beside.is_none());
            self.forget_apart(slot);
            self.second_opinions.forget(slot);
            self.hand_times_over();
            self.backends[slot] = Backend::new(slot, now);
            self.count_greetings();
            self.take_coming_table(now);
        } else {
            let lost = self.backends[slot].renew(now);
            self.lose_errands(slot, lost, Ending::Otherwise, now);
            self.counters.server_renewals += 1;
            // Another process may stand at the new address.
            self.note_may_be_empty(slot);
            self.connect(slot, now);
        }
    }

    /// When nothing waits any more for a reply on a connection that is to be ended: at the latest then it can be.
    fn settled_at(&self, slot: usize) -> Option<Instant> {
        let backend = &self.backends[slot];
        match self.slots[slot].state {
            SlotState::Leaving if !self.is_pledged(slot) => backend.settled_at(),
            SlotState::Serving if backend.renewing => backend.begun_settled_at(),
            _ => None,
        }
    }

    /// Whether a write that is being decided may still be sent to this server: it keeps the routes that it was begun with.
    fn is_pledged(&self, slot: usize) -> bool {
        let undecided = self.former.iter().filter(|routes| Arc::strong_count(routes) > 1);
        undecided.into_iter().any(|routes| routes.servers.contains(&index(slot)))
    }

    /// No server is leaving, and no table waits: for tests.
    pub(crate) fn slots_are_settled(&self) -> bool {
        self.coming.is_none() && self.slots.iter().all(|slot| slot.state != SlotState::Leaving)
    }
}

impl Slot {
    /// Whether this is where that server is: reached under the same address and called the same.
    fn is_of(&self, server: &Server) -> bool {
        let same = self.server.endpoint == server.endpoint && self.server.name == server.name;
        self.state != SlotState::Free && self.beside.is_none() && same
    }
}

fn has_room(slots: &[Slot], table: &Table) -> bool {
    let used = slots.iter().filter(|slot| slot.state != SlotState::Free).count();
    used + table.servers().len() <= SLOTS_MAX
}

fn index(slot: usize) -> u16 {
    u16::try_from(slot).expect("there are no more slots than SLOTS_MAX")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use weir_routing::{Placement, Router};

    fn table(host: &str) -> Arc<Table> {
        let router = Router::new(vec![Server::new(host, 1)], Placement::Modulo, 1);
        Arc::new(router.expect("one server is a pool").into())
    }

    #[test]
    fn a_table_waits_until_there_is_room_for_its_servers() {
        let mut dataplane = Dataplane::new(Config::default(), table("a"), Instant::ZERO);
        for number in 1..SLOTS_MAX {
            let server = Server::new(format!("old-{number}"), 1);
            let name = server.name.as_str().into();
            dataplane.slots.push(Slot { server, name, state: SlotState::Leaving, beside: None });
            dataplane.backends.push(Backend::new(number, Instant::ZERO));
        }
        dataplane.settling = true;
        dataplane.handle_table(table("b"), Instant::ZERO);
        dataplane.handle_table(table("c"), Instant::ZERO);
        assert_eq!(dataplane.report(Instant::ZERO).servers[0].server, "a:1");
        assert_eq!(dataplane.poll_timeout(), Some(Instant::ZERO));
        dataplane.handle_time(Instant::ZERO);
        assert_eq!(dataplane.report(Instant::ZERO).servers[0].server, "c:1");
        assert_eq!(dataplane.slots.len(), SLOTS_MAX);
    }
}
