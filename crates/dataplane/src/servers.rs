//! The connections to servers, by slot.
//!
//! [`Servers`] owns the slots, what is queued and in flight on each connection, the state of the connection, its health, and the further
//! connections beside a server's own. It is given messages, bytes and instants. It answers which server takes a message, what is to be written
//! and when to look again. What becomes of requests and servers without a reply it tells upwards ([`Happened`]); what the driver is to do, as
//! [`Order`]. It knows requests by number alone, and nobody above it.
//!
//! ```text
//!   servers.rs        the border: slots and tables, where messages go, what is written
//!     ├▶ bulk.rs      which server has a second connection for large values
//!     └▶ lifecycle.rs a connection is made, greeted, silent, asked about, lost
//!          ├▶ greeting.rs  mark_down.rs  second_opinion.rs  notices.rs (orders, what happened, changes)
//!          └▶ connections.rs  which are busy; a turn looks at those alone
//!               └▶ backend.rs     one server: keeps its values in step
//!                    └▶ link.rs  pipeline.rs  deadlines.rs  replies.rs  health.rs  in_step.rs  tally.rs
//!                         └▶ part.rs  twins.rs
//! ```
//!
//! Arrows point at what is used, and none points back.

pub(crate) mod backend;
pub(crate) mod begun;
pub(crate) mod bulk;
pub(crate) mod changes;
mod connections;
pub(crate) mod credentials;
pub(crate) mod deadlines;
mod greeting;
pub(crate) mod happened;
mod health;
mod in_step;
mod item_size;
mod lifecycle;
mod link;
mod mark_down;
pub(crate) mod message;
mod notices;
pub(crate) mod order;
pub(crate) mod part;
mod pipeline;
mod replies;
mod second_opinion;
mod slot_set;
pub(crate) mod slots;
pub(crate) mod tally;
mod twins;

use crate::{
    config::Config,
    meter::counters::Counters,
    routes::Routes,
    servers::backend::{Backend, Purpose, sooner},
    servers::bulk::{Bulk, Way, wants_bulk},
    servers::changes::{Change, ServerChange},
    servers::credentials::ServerLogins,
    servers::deadlines::LateRead,
    servers::happened::Happened,
    servers::lifecycle::Lifecycle,
    servers::link::State,
    servers::order::Order,
    servers::slots::{SlotState, Slots},
    wire::fault::Fault,
    wire::ids::{RequestKey, Slot},
};
use std::{
    ops::{Index, IndexMut},
    sync::Arc,
};
use weir_protocol::{Expected, Violation};
use weir_routing::Server;
use weir_timing::{Distribution, Instant};

/// The connections of one dataplane to its servers.
#[derive(Debug)]
pub(crate) struct Servers {
    lifecycle: Lifecycle,
    bulk: Bulk,
    /// Whether the connection of any is to be ended when it is settled.
    settling: bool,
}

/// Much waits where this part of what may wait does.
pub(crate) const CROWD_PART: usize = 16;

/// Shorter writes do not wait because of that: as many as a session may have in service are little.
const CROWD_BYTES_MIN: usize = 4 << 10;

/// Whether a request of this many bytes is not to go where much waits while its session has others in service.
#[inline]
pub(crate) const fn may_crowd(len: usize) -> bool {
    len >= CROWD_BYTES_MIN
}

impl Servers {
    pub(crate) fn new(config: &Config, routes: &Arc<Routes>) -> Self {
        Self { lifecycle: Lifecycle::new(config, routes), bulk: Bulk::default(), settling: false }
    }

    /// How long servers may take, for requests that come later.
    pub(crate) fn set_timeout(&mut self, timeout_ns: u64) {
        self.lifecycle.set_timeout(timeout_ns);
    }

    pub(crate) const fn counters(&self) -> &Counters {
        self.lifecycle.counters()
    }

    /// Which numbers servers have.
    #[inline]
    pub(crate) const fn slots(&self) -> &Slots {
        self.lifecycle.slots()
    }

    pub(crate) fn len(&self) -> usize {
        self.lifecycle.connections().len()
    }

    // ── what others learn ──────────────────────────────────────────────────────────────────────────────────────────────────

    /// What has happened and was not reported yet, in its order.
    #[inline]
    pub(crate) fn poll_happened(&mut self) -> Option<Happened> {
        self.lifecycle.notices_mut().poll_happened()
    }

    /// What the driver is to do next.
    #[inline]
    pub(crate) fn poll_order(&mut self) -> Option<Order> {
        self.lifecycle.notices_mut().poll_order()
    }

    /// Whether [`Servers::poll_order`] has one.
    #[inline]
    pub(crate) fn has_orders(&self) -> bool {
        self.lifecycle.notices().has_orders()
    }

    /// The next change of a server's state that the operator may want to know.
    #[inline]
    pub(crate) fn poll_change(&mut self) -> Option<Change> {
        self.lifecycle.notices_mut().poll_change()
    }

    /// Whether [`Servers::poll_change`] has one.
    #[inline]
    pub(crate) fn has_changes(&self) -> bool {
        self.lifecycle.notices().has_changes()
    }

    /// Something has become of the server of this slot.
    #[cold]
    pub(crate) fn note_change(&mut self, slot: Slot, what: ServerChange) {
        self.lifecycle.note_change(slot, what);
    }

    // ── slots ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The slot of a server of a table, its old one if it has one. There is room for all of the table's.
    pub(crate) fn assign(&mut self, server: &Server, now: Instant) -> Slot {
        if let Some(slot) = self.slots().of(server) {
            for slot in [Some(slot), self.bulk_of(slot)].into_iter().flatten() {
                self.lifecycle.slots_mut().serve(slot);
                self.lifecycle.doubt_if_silent(slot, now);
            }
            return slot;
        }
        self.lifecycle.take_slot(server, now)
    }

    /// From now on keys go by these routes: servers that they do not name leave.
    pub(crate) fn follow(&mut self, routes: &Arc<Routes>) {
        self.settling |= self.lifecycle.follow(routes);
    }

    /// Connects to a server of the table, if nothing was sent to it yet.
    pub(crate) fn want(&mut self, server: &Server, now: Instant) {
        let wanted = self.slots().of(server).filter(|&slot| self.slots().is_serving(slot));
        if let Some(slot) = wanted.filter(|&slot| self[slot].state() == State::Idle) {
            self.lifecycle.connect(slot, now);
        }
    }

    /// The server's name has other addresses than the one that it is connected to.
    pub(crate) fn move_server(&mut self, slot: Slot) {
        let renewing = self.is_up(slot) && self.slots().is_serving(slot);
        self[slot].link_mut().set_renewing(renewing);
        self.settling = true;
    }

    /// Nobody is connected to and nobody will be.
    pub(crate) fn forget_all(&mut self, now: Instant) {
        self.lifecycle.forget_all(now);
    }

    /// Whether any connection is to be ended when it is settled.
    #[inline]
    pub(crate) const fn is_any_to_settle(&self) -> bool {
        self.settling
    }

    /// Once per turn: ends connections that have waited for their last replies. `is_pledged` says of a slot whether a write that is being
    /// decided may still be sent there. Returns whether a slot is free because of it.
    pub(crate) fn settle_all(&mut self, is_pledged: impl Fn(Slot) -> bool, now: Instant) -> bool {
        let mut is_any_free = false;
        for slot in self.slots().all() {
            if self.settled_at(slot, &is_pledged).is_some_and(|at| at <= now) {
                is_any_free |= self.settle(slot, now);
            }
        }
        let is_any_renewed = self.lifecycle.connections().iter().any(|backend| backend.link().is_renewing());
        self.settling = is_any_renewed || self.slots().is_any_leaving();
        is_any_free
    }

    /// When the first of them can be ended at the latest.
    pub(crate) fn next_settled(&self, is_pledged: impl Fn(Slot) -> bool) -> Option<Instant> {
        let slots = self.slots().all().filter(|_| self.settling);
        slots.filter_map(|slot| self.settled_at(slot, &is_pledged)).min()
    }

    /// Returns whether the slot is free.
    fn settle(&mut self, slot: Slot, now: Instant) -> bool {
        let is_free = !self.slots().is_serving(slot);
        if is_free {
            self.lifecycle.free_slot(slot, now);
            self.bulk.forget(slot);
        } else {
            self.lifecycle.replace_connection(slot, now);
        }
        is_free
    }

    /// When nothing waits any more for a reply on a connection that is to be ended: at the latest then it can be.
    fn settled_at(&self, slot: Slot, is_pledged: impl Fn(Slot) -> bool) -> Option<Instant> {
        let backend = &self[slot];
        match self.slots().state(slot) {
            SlotState::Leaving if !is_pledged(slot) => backend.settled_at(false),
            SlotState::Serving if backend.link().is_renewing() => backend.settled_at(true),
            _ => None,
        }
    }

    // ── what is written ────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Whether anything is to be written to any.
    #[inline]
    pub(crate) fn wants_write(&self) -> bool {
        self.lifecycle.connections().wants_write()
    }

    /// The first server from `from` on to which something is to be written, and whether that is the proxy's own question.
    #[inline(always)]
    pub(crate) fn next_output(&self, from: usize) -> Option<(Slot, bool)> {
        self.lifecycle.connections().next_output(from)
    }

    /// Bytes for this server.
    #[inline]
    pub(crate) fn output(&self, server: Slot) -> &[u8] {
        self.lifecycle.connections().output(server)
    }

    /// Where in them each message ends, in their order. There may be more of them than what is to be written now.
    pub(crate) fn message_ends(&self, server: Slot) -> impl Iterator<Item = usize> {
        self.lifecycle.connections().message_ends(server)
    }

    /// `count` of them were handed to the kernel; calls `forwarded` for each request whose message is complete there.
    #[inline]
    pub(crate) fn handle_written(
        &mut self,
        server: Slot,
        count: usize,
        now: Instant,
        forwarded: impl FnMut(RequestKey),
    ) {
        let progress_min = self.lifecycle.config().progress_bytes_min;
        let connections = self.lifecycle.connections_mut();
        connections.handle_written(server, count, (progress_min, now), forwarded);
    }

    /// The kernel takes bytes for this server again.
    #[inline]
    pub(crate) fn unblock(&mut self, server: Slot) {
        // The kernel says so with everything that it reports of a socket. A server that is looked at as if there were something to do costs
        // the turn time.
        if self.lifecycle.connections()[server].link().is_blocked() {
            self[server].link_mut().set_blocked(false);
        }
    }

    /// What is queued for a server is being taken by the driver; calls `taken` for each request, with how many left the queue before it,
    /// and the server's name.
    #[inline]
    pub(crate) fn dequeue(
        &mut self,
        server: Slot,
        now: Instant,
        taken: impl FnMut(RequestKey, u64, &Arc<str>),
    ) {
        self.lifecycle.dequeue(server, now, taken);
    }

    /// Whether this server's connection is established.
    pub(crate) fn is_up(&self, server: Slot) -> bool {
        self[server].link().is_established()
    }

    /// Whether a message may be added to those for this server now.
    #[inline]
    pub(crate) fn admit(&self, server: Slot) -> Result<(), Fault> {
        self[server].admit(self.lifecycle.config())
    }

    /// Whether a server is connected and not marked down, or is connected to for what is sent there.
    #[inline]
    pub(crate) fn answers(&self, server: Slot) -> bool {
        match self[server].state() {
            State::Up => true,
            State::Idle => self.lifecycle.config().connects_when_needed,
            State::Connecting { .. }
            | State::Greeting { .. }
            | State::Silent
            | State::Down { .. }
            | State::Probing { .. } => false,
        }
    }

    /// How long it took to answer of late, in nanoseconds; 0 before the first reply.
    pub(crate) fn smoothed_ns(&self, server: Slot) -> u64 {
        self[server].health().smoothed_ns()
    }

    /// Keys of this server have others, too. `is_stale`: it lacks a write of them, or may.
    pub(crate) fn have_copies(&mut self, server: Slot, is_stale: bool) {
        self[server].have_copies();
        self[server].keep_stale(is_stale);
    }

    /// `is_stale`: the server lacks a write, or may, and is to be made to forget the key; it is connected to for that. Otherwise it has
    /// forgotten.
    pub(crate) fn keep_stale(&mut self, server: Slot, is_stale: bool) {
        self[server].keep_stale(is_stale);
    }

    /// Whether messages of the proxy's own may be sent to this server.
    pub(crate) fn takes_repair_messages(&self, server: Slot) -> bool {
        self[server].takes_repair_messages()
    }

    /// Whether this server may be asked by `mg`.
    pub(crate) fn knows_meta(&self, server: Slot) -> bool {
        self[server].questions().knows_meta()
    }

    /// This server has refused `mg`. It is not asked by it before it has named its version on another connection.
    pub(crate) fn note_meta_refused(&mut self, server: Slot) {
        self[server].questions_mut().note_meta_refused();
    }

    /// Sends a message that no request asked for.
    pub(crate) fn send_own(
        &mut self,
        server: Slot,
        what: (Purpose, Expected),
        now: Instant,
        compose: impl FnOnce(&mut Backend),
    ) {
        self.lifecycle.send_own(server, what, now, compose);
    }

    // ── large values ───────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Whether a request, or a value, of this many bytes may be one that goes over a bulk connection.
    #[inline]
    pub(crate) fn may_go_bulk(&self, len: usize) -> bool {
        len >= self.lifecycle.config().large_value_bytes || self.bulk.is_busy()
    }

    /// Whether a request of this many bytes may have to wait for what its session has in service, as of the beginning of the turn: it may go
    /// over a bulk connection, or much waits for a server.
    #[inline]
    pub(crate) fn may_have_to_wait(&self, len: usize) -> bool {
        self.may_go_bulk(len) || may_crowd(len) && self.may_be_crowded()
    }

    /// Whether all servers together hold as much as is much for one.
    fn may_be_crowded(&self) -> bool {
        self.lifecycle.connections().held() >= self.lifecycle.config().server_buffer_bytes_max / CROWD_PART
    }

    /// Whether much waits for this server.
    pub(crate) fn is_crowded(&self, server: Slot) -> bool {
        let most = self.lifecycle.config().server_buffer_bytes_max;
        self[server].pipeline().waiting_bytes() >= most / CROWD_PART
    }

    /// Whether a bulk connection owes an answer that counts, as of the beginning of the turn.
    pub(crate) const fn is_bulk_busy(&self) -> bool {
        self.bulk.is_busy()
    }

    /// Whether this is a further connection to a server that has one.
    pub(crate) fn is_second(&self, slot: Slot) -> bool {
        self.slots().beside(slot).is_some()
    }

    /// The slot of a server's bulk connection, if it has one.
    pub(crate) fn bulk_of(&self, server: Slot) -> Option<Slot> {
        self.bulk.of(server)
    }

    /// Whether a write of this key, with a value of this length, goes over the bulk connection of its server, or would if there were one.
    pub(crate) fn goes_bulk(&self, server: Slot, name: &[u8], len: usize) -> bool {
        let (connections, config) = (self.lifecycle.connections(), self.lifecycle.config());
        let way = self.bulk.way_of_write((server, name, len), connections, config);
        !matches!(way, Way::Own) || wants_bulk(&connections[server], len, config)
    }

    /// Where a write goes: `server` is where it goes otherwise.
    #[cold]
    pub(crate) fn way_of_write(&mut self, server: Slot, name: &[u8], len: usize, now: Instant) -> Way {
        if self.lifecycle.routes().is_replicated() {
            return Way::Own;
        }
        if self.bulk_of(server).is_none() && wants_bulk(&self[server], len, self.lifecycle.config()) {
            self.open_bulk(server, now);
        }
        let (connections, config) = (self.lifecycle.connections(), self.lifecycle.config());
        self.bulk.way_of_write((server, name, len), connections, config)
    }

    /// Where `flush_all` goes: behind everything that it must not be overtaken by.
    pub(crate) fn way_of_flush(&self, server: Slot) -> Slot {
        self.bulk.way_of_flush(server, self.lifecycle.connections())
    }

    /// The connection over which a read that brings much is asked for: the bulk connection if it serves.
    pub(crate) fn way_of_read(&self, server: Slot) -> Slot {
        self.bulk.way_of_read(server, self.lifecycle.connections(), self.lifecycle.config())
    }

    /// The message that was composed last, for this bulk connection, is known by `mark`.
    pub(crate) fn note_bulk(&mut self, bulk: Slot, mark: u32) {
        self[bulk].pipeline_mut().mark_last(mark);
        self.lifecycle.counters_mut().requests_apart += 1;
        self.bulk.note_sent();
    }

    /// Once per turn.
    #[inline]
    pub(crate) fn look_at_bulk(&mut self) {
        self.bulk.look(self.lifecycle.connections());
    }

    fn open_bulk(&mut self, server: Slot, now: Instant) {
        let Some(slot) = self.lifecycle.take_slot_beside(server, now) else { return };
        self.bulk.note_opened(server, slot);
        self.lifecycle.notices_mut().tell(Happened::Begun(slot));
        self.lifecycle.connect(slot, now);
    }

    /// Connects to every server of the table a second time that is up.
    pub(crate) fn open_all_bulk(&mut self, now: Instant) {
        for server in self.slots().all() {
            let is_own = !self.is_second(server) && self.slots().is_serving(server);
            if is_own && self[server].link().is_up() && self.bulk_of(server).is_none() {
                self.open_bulk(server, now);
            }
        }
    }

    /// Whether any bulk connection is being made for the first time.
    pub(crate) fn is_opening_bulk(&self) -> bool {
        self.bulk.is_opening(self.lifecycle.connections())
    }

    // ── what becomes of connections ────────────────────────────────────────────────────────────────────────────────────────

    /// The connection that was asked for is there.
    pub(crate) fn handle_connected(&mut self, server: Slot, now: Instant) {
        self.lifecycle.handle_connected(server, now);
    }

    /// The connection could not be made, or the server closed it.
    pub(crate) fn handle_disconnected(&mut self, server: Slot, now: Instant) {
        self.lifecycle.handle_disconnected(server, now);
    }

    /// An established connection broke without the server's doing.
    pub(crate) fn handle_broken(&mut self, server: Slot, now: Instant) {
        self.lifecycle.handle_broken(server, now);
    }

    /// Whether nothing of a client goes to this server yet.
    #[inline]
    pub(crate) fn is_greeting(&self, server: Slot) -> bool {
        self.lifecycle.connections().is_greeting(server)
    }

    /// Connections that are made from now on are logged in so where that is wanted.
    pub(crate) fn set_logins(&mut self, logins: Option<&Arc<ServerLogins>>) {
        self.lifecycle.set_logins(logins);
    }

    /// What a server says to a greeting.
    #[cold]
    pub(crate) fn take_greeting(&mut self, server: Slot, bytes: &[u8], now: Instant) {
        self.lifecycle.take_greeting(server, bytes, now);
    }

    /// A server that was marked down has answered, and with that everything that was sent before.
    #[cold]
    pub(crate) fn mark_up(&mut self, server: Slot, now: Instant) {
        self.lifecycle.mark_up(server, now);
    }

    /// A reply cannot be read: the connection is made anew.
    pub(crate) fn give_up_connection(&mut self, server: Slot, reason: Violation, now: Instant) {
        self.lifecycle.give_up_connection(server, reason, now);
    }

    /// How many requests on a connection that is in use were late since anything was heard of it.
    pub(crate) fn late_in_a_row(&self, slot: Slot) -> u32 {
        let backend = &self[slot];
        if backend.link().is_connected() { backend.health().late_in_a_row() } else { 0 }
    }

    /// Whether any connection is silent, and asked about over another one.
    #[inline]
    pub(crate) const fn pursues_second_opinions(&self) -> bool {
        !self.lifecycle.second_opinions().is_empty()
    }

    /// Once per turn.
    #[cold]
    pub(crate) fn pursue_second_opinions(&mut self, now: Instant) {
        self.lifecycle.pursue_second_opinions(now);
    }

    // ── time ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// When something of any is late, or is to be tried again.
    #[inline]
    pub(crate) fn due(&self) -> Option<Instant> {
        let config = self.lifecycle.config();
        let due = self.lifecycle.connections().due(config.timeout_ns, config.connect_timeout_ns);
        sooner(self.lifecycle.second_opinions().due(), due)
    }

    /// Time may have run out for this server: it is connected to, tried again, or given up. Returns the reads that may be asked of others.
    pub(crate) fn look_at_time(&mut self, server: Slot, now: Instant) -> Vec<LateRead> {
        self.lifecycle.look_at_time(server, now)
    }

    /// Gives up what of this server is late.
    pub(crate) fn give_up_late(&mut self, server: Slot, now: Instant) {
        self.lifecycle.give_up_late(server, now);
    }

    /// Those for which there may be something to do, in the order of their slots.
    #[inline]
    pub(crate) fn busy(&self) -> impl Iterator<Item = &Backend> {
        self.lifecycle.connections().busy()
    }

    /// There may be something to do for this server.
    #[inline]
    pub(crate) fn wake(&mut self, slot: Slot) {
        self.lifecycle.connections_mut().wake(slot);
    }

    /// A server that is busy.
    #[inline]
    pub(crate) fn at(&mut self, slot: Slot) -> &mut Backend {
        self.lifecycle.connections_mut().at(slot)
    }

    /// The first busy slot from `from` on.
    #[inline]
    pub(crate) fn next_busy(&self, from: usize) -> Option<Slot> {
        self.lifecycle.connections().next_busy(from)
    }

    /// Once per turn: whether time may have run out for something of any, and what all hold, in bytes. Those for which there is nothing to do
    /// are forgotten.
    #[inline]
    pub(crate) fn look(&mut self, now: Instant) -> (bool, usize) {
        self.lifecycle.connections_mut().look(now)
    }

    /// Nothing waits for any and nobody is asked a second time, and none leaves: for tests.
    pub(crate) fn is_quiet(&self) -> bool {
        let is_any_leaving = self.slots().is_any_leaving();
        let are_quiet = self.lifecycle.connections().iter().all(Backend::is_quiet);
        are_quiet && !self.pursues_second_opinions() && !is_any_leaving
    }

    // ── all of them ────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Hands out the times of all that have some, with the server whose they are, and forgets them.
    pub(crate) fn take_times(&mut self, take: impl FnMut(Slot, &Distribution)) {
        self.lifecycle.connections_mut().take_times(take);
    }

    /// While there is a fault, nothing is sent to any because of it.
    pub(crate) fn deny(&mut self, fault: Option<Fault>) {
        self.lifecycle.connections_mut().deny(fault);
    }

    /// From now on requests count for [`Backend::has_new_requests`].
    pub(crate) fn note_requests(&mut self) {
        self.lifecycle.connections_mut().note_requests();
    }

    /// Frees the buffers that are empty. Returns what the others hold, in bytes.
    #[cold]
    pub(crate) fn give_memory_back(&mut self) -> usize {
        self.lifecycle.connections_mut().give_memory_back()
    }
}

impl Index<Slot> for Servers {
    type Output = Backend;

    #[inline]
    fn index(&self, slot: Slot) -> &Backend {
        &self.lifecycle.connections()[slot]
    }
}

impl IndexMut<Slot> for Servers {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Backend {
        &mut self.lifecycle.connections_mut()[slot]
    }
}

#[cfg(test)]
impl Servers {
    /// All slots that are free belong to servers that are leaving.
    pub(crate) fn fill_with_leaving(&mut self, now: Instant) {
        self.lifecycle.fill_with_leaving(now);
        self.settling = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_routing::{Placement, Router, Table};

    #[test]
    fn changes_without_room_are_counted_and_nothing_is_reported_of_who_leaves() {
        let router =
            Router::new(vec![Server::new("a", 1)], Placement::Modulo, 1).expect("one server is a pool");
        let table: Arc<Table> = Arc::new(router.into());
        let routes = Arc::new(Routes::nowhere(&table));
        let mut servers = Servers::new(&Config::default(), &routes);
        let slot = servers.assign(&table.servers()[0], Instant::ZERO);
        assert!(!servers.has_changes(), "it is being connected to for the first time");
        let noted = 2 * changes::CHANGES_MAX;
        (0..noted).for_each(|_| servers.note_change(slot, ServerChange::Up));
        let polled = std::iter::from_fn(|| servers.poll_change()).count();
        assert_eq!(servers.counters().server_changes_dropped, (noted - polled) as u64);
        servers.follow(&routes);
        assert_eq!(servers.poll_change().map(|change| change.what), Some(ServerChange::Left));
        servers.note_change(slot, ServerChange::Up);
        assert!(!servers.has_changes());
    }
}
