//! The connections to servers, by slot.
//!
//! [`Servers`] owns the slots, what is queued and in flight on each connection, the state of the connection, its health, and the further
//! connections beside a server's own. It is given messages, bytes and instants. It answers which server takes a message, what is to be written
//! and when to look again. What becomes of requests and servers without a reply it tells upwards ([`Happened`]); what the driver is to do, as
//! [`Order`]. It knows requests by number alone, and nobody above it.
//!
//! A turn costs what it does, and not how many servers there are. A connection is *busy* from the moment at which anybody could have changed
//! it until the turn in which nothing is to be written to it, it owes nothing, and no time means anything to it. Only busy ones are looked
//! at: for what is to be written, for what is late, and for the memory that they hold.

pub(crate) mod backend;
pub(crate) mod begun;
pub(crate) mod bulk;
pub(crate) mod changes;
pub(crate) mod connection;
pub(crate) mod deadlines;
pub(crate) mod greeting;
pub(crate) mod happened;
mod health;
pub(crate) mod in_step;
pub(crate) mod item_size;
mod link;
pub(crate) mod mark_down;
pub(crate) mod message;
pub(crate) mod order;
pub(crate) mod part;
mod pipeline;
mod replies;
pub(crate) mod second_opinion;
mod slot_set;
pub(crate) mod slots;
pub(crate) mod tally;
pub(crate) mod version;
pub(crate) mod window;

use crate::{
    config::Config,
    meter::counters::Counters,
    routes::Routes,
    servers::backend::{Backend, sooner},
    servers::changes::{Changes, ServerChange},
    servers::happened::{Ending, Happened},
    servers::link::{Jitter, State},
    servers::order::Order,
    servers::part::{Purpose, RequestKey},
    servers::second_opinion::SecondOpinions,
    servers::slots::Slots,
    wire::fault::Fault,
};
use slot_set::SlotSet;
use std::{
    collections::VecDeque,
    ops::{Index, IndexMut},
    sync::Arc,
};
use weir_protocol::Expected;
use weir_routing::Server;
use weir_timing::{Distribution, Instant};

/// The connections of one dataplane to its servers.
#[derive(Debug)]
pub(crate) struct Servers {
    config: Config,
    counters: Counters,
    /// The table in force.
    routes: Arc<Routes>,
    pub(crate) slots: Slots,
    /// By slot.
    all: Vec<Backend>,
    busy: SlotSet,
    /// What each held when it was counted last, in bytes, and the sum.
    held: Vec<usize>,
    held_sum: usize,
    /// How many are being greeted (`greeting.rs`).
    greetings: usize,
    /// Whether the connection of any is to be ended when it is settled.
    settling: bool,
    /// For each slot the one of its server's bulk connection, if it has one (`bulk.rs`).
    bulk: Vec<Option<u16>>,
    /// Whether any of those owes a reply, as of the beginning of the turn.
    is_bulk_busy: bool,
    /// Connections that are silent, and what second ones say of them.
    second_opinions: SecondOpinions,
    /// What the driver was not told yet.
    orders: VecDeque<Order>,
    changes: Changes,
    /// What whoever asks servers was not told yet.
    happened: VecDeque<Happened>,
    jitter: Jitter,
}

impl Servers {
    pub(crate) fn new(config: &Config, routes: &Arc<Routes>) -> Self {
        Self {
            counters: Counters::default(),
            routes: Arc::clone(routes),
            slots: Slots::default(),
            all: Vec::new(),
            busy: SlotSet::default(),
            held: Vec::new(),
            held_sum: 0,
            greetings: 0,
            settling: false,
            bulk: Vec::new(),
            is_bulk_busy: false,
            second_opinions: SecondOpinions::default(),
            orders: VecDeque::new(),
            changes: Changes::default(),
            happened: VecDeque::new(),
            jitter: Jitter::new(config.seed),
            config: config.clone(),
        }
    }

    /// How long servers may take, for requests that come later.
    pub(crate) fn set_timeout(&mut self, timeout_ns: u64) {
        self.config.timeout_ns = timeout_ns;
    }

    pub(crate) const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What has happened and was not told yet, in its order.
    #[inline]
    pub(crate) fn poll_happened(&mut self) -> Option<Happened> {
        self.happened.pop_front()
    }

    /// What the driver is to do next.
    #[inline]
    pub(crate) fn poll_order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    // ── slots ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The slot of a server of a table, its old one if it has one. There is room for all of the table's.
    pub(crate) fn assign(&mut self, server: &Server, now: Instant) -> u16 {
        if let Some(slot) = self.slots.of(server) {
            for slot in [Some(slot), self.bulk_of(slot)].into_iter().flatten() {
                self.slots.serve(slot);
                self.doubt_if_silent(slot, now);
            }
            return slots::index(slot);
        }
        let slot = self.slots.take(server.clone(), None).expect("there is room for the table");
        self.renew_slot(slot, slot, now);
        self.happened.push_back(Happened::Begun(slot));
        if !self.config.connects_when_needed {
            self.connect(slot, now);
        }
        slots::index(slot)
    }

    /// From now on keys go by these routes: servers that they do not name leave.
    pub(crate) fn follow(&mut self, routes: &Arc<Routes>) {
        self.routes = Arc::clone(routes);
        let mut named = vec![false; self.slots.len()];
        routes.servers().iter().for_each(|&slot| named[usize::from(slot)] = true);
        for (slot, _) in named.iter().enumerate() {
            if self.slots.is_serving(slot) && !named[self.slots.own(slot)] {
                self.slots.leave(slot);
                self.settling = true;
                // There will be no other connection: what waits is sent on this one.
                self[slot].link_mut().set_renewing(false);
                self.note_change(slot, ServerChange::Left);
            }
        }
    }

    /// Connects to a server of the table, if nothing was sent to it yet.
    pub(crate) fn want(&mut self, server: &Server, now: Instant) {
        let wanted = self.slots.of(server).filter(|&slot| self.slots.is_serving(slot));
        if let Some(slot) = wanted.filter(|&slot| self[slot].state() == State::Idle) {
            self.connect(slot, now);
        }
    }

    /// The server's name has other addresses than the one that it is connected to.
    pub(crate) fn move_server(&mut self, slot: usize) {
        let renewing = self.is_up(slot) && self.slots.is_serving(slot);
        self[slot].link_mut().set_renewing(renewing);
        self.settling = true;
    }

    /// Puts a new connection into a slot, whose replies are timed for the server of slot `timed_as`.
    fn renew_slot(&mut self, slot: usize, timed_as: usize, now: Instant) {
        if slot == self.all.len() {
            self.all.push(Backend::new(timed_as, now));
            self.held.push(0);
            self.busy.grow(self.all.len());
            self.busy.insert(slot);
            return;
        }
        let before = std::mem::replace(&mut self[slot], Backend::new(timed_as, now));
        if before.has_copies() {
            self.happened.push_back(Happened::Freed(slot));
        }
        if let Some((server, times)) = before.into_times() {
            self.happened.push_back(Happened::Times(server, Box::new(times)));
        }
        self.count_greetings();
    }

    /// A slot for another connection to a server, if one is free.
    fn open_beside(&mut self, server: usize, now: Instant) -> Option<usize> {
        let slot = self.slots.take(self.slots.server(server).clone(), Some(server))?;
        self.renew_slot(slot, server, now);
        Some(slot)
    }

    /// Nobody is connected to and nobody will be.
    pub(crate) fn forget_all(&mut self, now: Instant) {
        self.orders.clear();
        self.changes = Changes::default();
        (0..self.all.len()).for_each(|slot| self.renew_slot(slot, slot, now));
    }

    /// Whether any connection is to be ended when it is settled.
    #[inline]
    pub(crate) const fn is_any_to_settle(&self) -> bool {
        self.settling
    }

    /// Once per turn: ends connections that have waited for their last replies. `is_pledged` says of a slot whether a write that is being
    /// decided may still be sent there. Returns whether a slot is free because of it.
    pub(crate) fn settle_all(&mut self, is_pledged: impl Fn(usize) -> bool, now: Instant) -> bool {
        let mut is_any_free = false;
        for slot in 0..self.slots.len() {
            if self.settled_at(slot, &is_pledged).is_some_and(|at| at <= now) {
                is_any_free |= self.settle(slot, now);
            }
        }
        let is_any_renewed = self.all.iter().any(|backend| backend.link().is_renewing());
        self.settling = is_any_renewed || self.slots.is_any_leaving();
        is_any_free
    }

    /// When the first of them can be ended at the latest.
    pub(crate) fn next_settled(&self, is_pledged: impl Fn(usize) -> bool) -> Option<Instant> {
        let slots = if self.settling { 0..self.slots.len() } else { 0..0 };
        slots.filter_map(|slot| self.settled_at(slot, &is_pledged)).min()
    }

    /// Returns whether the slot is free.
    fn settle(&mut self, slot: usize, now: Instant) -> bool {
        self.orders.retain(|order| *order != Order::Connect(slot));
        self.orders.push_back(Order::Disconnect(slot));
        if self.slots.is_serving(slot) {
            let lost = self[slot].renew(now);
            self.tell_ended(slot, lost, Ending::Otherwise);
            self.counters.server_renewals += 1;
            // Another process may stand at the new address.
            self.happened.push_back(Happened::MayBeEmpty(slot));
            self.connect(slot, now);
            return false;
        }
        self.slots.free(slot);
        self.counters.servers_left += u64::from(self.slots.beside(slot).is_none());
        self.forget_bulk(slot);
        self.second_opinions.forget(slot);
        self.renew_slot(slot, slot, now);
        true
    }

    /// When nothing waits any more for a reply on a connection that is to be ended: at the latest then it can be.
    fn settled_at(&self, slot: usize, is_pledged: impl Fn(usize) -> bool) -> Option<Instant> {
        let backend = &self[slot];
        match self.slots.state(slot) {
            slots::SlotState::Leaving if !is_pledged(slot) => backend.settled_at(false),
            slots::SlotState::Serving if backend.link().is_renewing() => backend.settled_at(true),
            _ => None,
        }
    }

    // ── what is written ────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Whether anything is to be written to any.
    #[inline]
    pub(crate) fn wants_write(&self) -> bool {
        self.greetings > 0 || self.next_to_write(0).is_some()
    }

    /// The first server from `from` on to which something is to be written, and whether that is the proxy's own question.
    #[inline]
    pub(crate) fn next_output(&self, from: usize) -> Option<(usize, bool)> {
        if self.greetings > 0
            && let Some(server) = self.next_greeted(from)
        {
            return Some((server, true));
        }
        Some((self.next_to_write(from)?, false))
    }

    /// Bytes for this server.
    #[inline]
    pub(crate) fn output(&self, server: usize) -> &[u8] {
        let backend = &self.all[server];
        if self.greetings > 0
            && let Some(greeting) = backend.link().greeting_output()
        {
            return greeting;
        }
        backend.output()
    }

    /// `count` of them were handed to the kernel; calls `forwarded` for each request whose message is complete there.
    #[inline]
    pub(crate) fn handle_written(
        &mut self,
        server: usize,
        count: usize,
        now: Instant,
        forwarded: impl FnMut(RequestKey),
    ) {
        if self.greetings > 0 && self.note_greeted(server, count) {
            return;
        }
        let progress_min = self.config.progress_bytes_min;
        self.at(server).handle_written(count, progress_min, now, forwarded);
    }

    /// The kernel takes bytes for this server again.
    pub(crate) fn unblock(&mut self, server: usize) {
        self[server].link_mut().set_blocked(false);
    }

    /// What is queued for a server is being taken by the driver; calls `taken` for each request, with how many left the queue before it,
    /// and the server's name.
    #[inline]
    pub(crate) fn dequeue(
        &mut self,
        server: usize,
        now: Instant,
        mut taken: impl FnMut(RequestKey, u64, &Arc<str>),
    ) {
        let Self { all, slots, .. } = self;
        all[server].dequeue(now, |request, queue_length| taken(request, queue_length, slots.name(server)));
    }

    /// Whether this server's connection is established.
    pub(crate) fn is_up(&self, server: usize) -> bool {
        let link = self[server].link();
        link.is_connected() || link.is_greeting()
    }

    /// Whether a message may be added to those for this server now.
    #[inline]
    pub(crate) fn admit(&self, server: usize) -> Result<(), Fault> {
        self.all[server].admit(&self.config)
    }

    /// Whether a server is connected and not marked down, or is connected to for what is sent there.
    #[inline]
    pub(crate) fn answers(&self, server: usize) -> bool {
        match self.all[server].state() {
            State::Up => true,
            State::Idle => self.config.connects_when_needed,
            State::Connecting { .. }
            | State::Greeting { .. }
            | State::Silent
            | State::Down { .. }
            | State::Probing { .. } => false,
        }
    }

    /// How long it took to answer of late, in nanoseconds; 0 before the first reply.
    pub(crate) fn smoothed_ns(&self, server: usize) -> u64 {
        self.all[server].health().smoothed_ns()
    }

    /// Keys of this server have others, too. `is_stale`: it lacks a write of them, or may.
    pub(crate) fn have_copies(&mut self, server: usize, is_stale: bool) {
        self[server].have_copies();
        self[server].keep_stale(is_stale);
    }

    /// A server lacks a write, or may, and is to be told to forget it: it is connected to for that. Or it was told.
    pub(crate) fn keep_stale(&mut self, server: usize, is_stale: bool) {
        self[server].keep_stale(is_stale);
    }

    /// Whether messages of the proxy's own may be sent to this server.
    pub(crate) fn takes_errands(&self, server: usize) -> bool {
        self.all[server].takes_errands()
    }

    /// Sends a message that no request asked for.
    pub(crate) fn send_own(
        &mut self,
        server: usize,
        (purpose, expected): (Purpose, Expected),
        now: Instant,
        compose: impl FnOnce(&mut Backend),
    ) {
        self.busy.insert(server);
        let backend = &mut self.all[server];
        backend.begin_own_message(purpose, expected, &self.config, now);
        compose(backend);
        backend.finish_message();
    }

    /// Asks a server for its version: who answers has answered all that came before.
    fn ask_version(&mut self, server: usize, purpose: Purpose, now: Instant) {
        self.send_own(server, (purpose, Expected::Version), now, |backend| {
            backend.message().extend_from_slice(b"version\r\n");
        });
    }

    // ── time ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// When something of any is late, or is to be tried again.
    #[inline]
    pub(crate) fn due(&self) -> Option<Instant> {
        let mut earliest = self.second_opinions.due();
        self.busy.for_each(|slot| {
            let backend = &self.all[slot];
            if backend.waits_for_nothing() {
                return;
            }
            let connection = backend.link().due(self.config.connect_timeout_ns);
            earliest = sooner(sooner(earliest, connection), backend.next_deadline(self.config.timeout_ns));
        });
        earliest
    }

    /// Nothing waits for any and nobody is asked a second time, and none leaves: for tests.
    pub(crate) fn is_quiet(&self) -> bool {
        let is_any_leaving = self.slots.is_any_leaving();
        self.all.iter().all(Backend::is_quiet) && self.second_opinions.is_empty() && !is_any_leaving
    }

    /// Those for which there may be something to do, in the order of their slots.
    #[inline]
    pub(crate) fn busy(&self) -> impl Iterator<Item = &Backend> {
        self.busy.iter().map(|slot| &self.all[slot])
    }

    /// There may be something to do for this server.
    #[inline]
    pub(crate) fn wake(&mut self, slot: usize) {
        self.busy.insert(slot);
    }

    /// A server that is busy.
    #[inline]
    pub(crate) fn at(&mut self, slot: usize) -> &mut Backend {
        debug_assert_eq!(self.busy.next(slot), Some(slot), "who is not busy is not looked at");
        &mut self.all[slot]
    }

    /// The first such slot from `from` on.
    #[inline]
    pub(crate) fn next_busy(&self, from: usize) -> Option<usize> {
        self.busy.next(from)
    }

    /// The first slot from `from` on of a server to which requests are to be written.
    #[inline]
    pub(crate) fn next_to_write(&self, mut from: usize) -> Option<usize> {
        loop {
            let slot = self.busy.next(from)?;
            if self.all[slot].wants_write() {
                return Some(slot);
            }
            from = slot + 1;
        }
    }

    /// Once per turn: whether time may have run out for something of any, and what all hold, in bytes. Those for which there is nothing to do
    /// are forgotten.
    #[inline]
    pub(crate) fn look(&mut self, now: Instant) -> (bool, usize) {
        let Self { all, busy, held: counted, held_sum, .. } = self;
        let mut is_any_late = false;
        busy.retain(|slot| {
            let server = &mut all[slot];
            is_any_late |= server.may_be_late(now);
            let held = server.held_bytes();
            if held != counted[slot] {
                *held_sum = *held_sum + held - counted[slot];
                counted[slot] = held;
            }
            let is_busy = !server.waits_for_nothing() || server.wants_write();
            if !is_busy {
                server.tally_mut().note_looked_at();
            }
            is_busy
        });
        (is_any_late, *held_sum)
    }

    /// Hands out the times of all that have some, with the server whose they are, and forgets them.
    pub(crate) fn take_times(&mut self, mut take: impl FnMut(usize, &Distribution)) {
        self.all.iter_mut().for_each(|server| server.tally_mut().take_times(&mut take));
    }

    /// While there is a fault, nothing is sent to any because of it.
    pub(crate) fn deny(&mut self, fault: Option<Fault>) {
        self.all.iter_mut().for_each(|backend| backend.deny(fault));
    }

    /// From now on requests count for [`Backend::has_new_requests`].
    pub(crate) fn note_requests(&mut self) {
        // Of the others it was noted when they were looked at last.
        for slot in self.busy.iter() {
            self.all[slot].tally_mut().note_looked_at();
        }
    }

    /// Frees the buffers that are empty. Returns what the others hold, in bytes.
    #[cold]
    pub(crate) fn give_memory_back(&mut self) -> usize {
        self.held_sum = 0;
        for (server, held) in self.all.iter_mut().zip(&mut self.held) {
            server.give_memory_back();
            *held = server.held_bytes();
            self.held_sum += *held;
        }
        self.held_sum
    }
}

#[cfg(test)]
impl Servers {
    /// All slots that are free are of servers that are leaving.
    pub(crate) fn fill_with_leaving(&mut self, now: Instant) {
        for number in self.slots.len().. {
            let Some(slot) = self.slots.take(Server::new(format!("old-{number}"), 1), None) else { break };
            self.renew_slot(slot, slot, now);
            self.slots.leave(slot);
        }
        self.settling = true;
    }
}

impl Index<usize> for Servers {
    type Output = Backend;

    #[inline]
    fn index(&self, slot: usize) -> &Backend {
        &self.all[slot]
    }
}

impl IndexMut<usize> for Servers {
    #[inline]
    fn index_mut(&mut self, slot: usize) -> &mut Backend {
        self.busy.insert(slot);
        &mut self.all[slot]
    }
}
