//! Connections to servers: made, greeted, tried again, marked down, asked about, given up, lost.
//!
//! [`Lifecycle`] owns all connections with their slots, and decides what becomes of one when it is made, answers, is silent or ends. It
//! learns what the driver did and what came; the values of each server (`backend.rs`) say what that means. What the driver is to do and
//! what whoever asks servers has to know goes into [`Notices`].

mod greeted;
#[cfg(test)]
mod tests;

use crate::{
    Mutation,
    config::Config,
    meter::counters::Counters,
    routes::Routes,
    servers::backend::{Backend, Part, Purpose},
    servers::changes::{Change, DownReason, ReplacedReason, ServerChange},
    servers::connections::Connections,
    servers::credentials::{Credentials, ServerLogins},
    servers::deadlines::LateRead,
    servers::happened::{Ending, Happened, Lost, Retry},
    servers::in_step::InStep,
    servers::item_size::item_size,
    servers::link::{Jitter, State},
    servers::mark_down,
    servers::notices::Notices,
    servers::second_opinion::{SecondOpinions, Silence, Step, silence},
    servers::slots::Slots,
    wire::fault::Fault,
    wire::ids::{RequestKey, Slot},
};
use std::{collections::BTreeSet, sync::Arc};
use weir_protocol::{Expected, Violation};
use weir_routing::Server;
use weir_timing::Instant;

/// The connections of a dataplane, and what becomes of them.
#[derive(Debug)]
pub(super) struct Lifecycle {
    config: Config,
    counters: Counters,
    /// The table in force.
    routes: Arc<Routes>,
    slots: Slots,
    connections: Connections,
    /// Connections that are silent, and what second ones say of them.
    second_opinions: SecondOpinions,
    notices: Notices,
    jitter: Jitter,
    /// How we log in where that is wanted.
    logins: Option<Arc<ServerLogins>>,
}

impl Lifecycle {
    pub(super) fn new(config: &Config, routes: &Arc<Routes>) -> Self {
        Self {
            config: config.clone(),
            counters: Counters::default(),
            routes: Arc::clone(routes),
            slots: Slots::default(),
            connections: Connections::default(),
            second_opinions: SecondOpinions::default(),
            notices: Notices::default(),
            jitter: Jitter::new(config.jitter_seed),
            logins: None,
        }
    }

    // ── its values ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    #[inline]
    pub(super) const fn config(&self) -> &Config {
        &self.config
    }

    pub(super) const fn set_timeout(&mut self, timeout_ns: u64) {
        self.config.timeout_ns = timeout_ns;
    }

    /// Connections that are made from now on are logged in so.
    pub(super) fn set_logins(&mut self, logins: Option<&Arc<ServerLogins>>) {
        self.logins = logins.cloned();
    }

    /// What this server gets if it wants a login.
    fn credentials(&self, server: Slot) -> Option<&Arc<Credentials>> {
        self.logins.as_ref()?.of(self.slots.server(server))
    }

    pub(super) const fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) const fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    pub(super) const fn routes(&self) -> &Arc<Routes> {
        &self.routes
    }

    #[inline]
    pub(super) const fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(super) const fn slots_mut(&mut self) -> &mut Slots {
        &mut self.slots
    }

    #[inline]
    pub(super) const fn connections(&self) -> &Connections {
        &self.connections
    }

    #[inline]
    pub(super) const fn connections_mut(&mut self) -> &mut Connections {
        &mut self.connections
    }

    #[inline]
    pub(super) const fn notices(&self) -> &Notices {
        &self.notices
    }

    #[inline]
    pub(super) const fn notices_mut(&mut self) -> &mut Notices {
        &mut self.notices
    }

    /// What is queued for a server is being taken by the driver; calls `taken` for each request, with how many left the queue before it,
    /// and the server's name.
    #[inline]
    pub(super) fn dequeue(
        &mut self,
        server: Slot,
        now: Instant,
        mut taken: impl FnMut(RequestKey, u64, &Arc<str>),
    ) {
        let Self { connections, slots, .. } = self;
        let backend = connections.at(server);
        backend.dequeue(now, |request, queue_length| taken(request, queue_length, slots.name(server)));
    }

    /// Something has become of the server of this slot.
    #[cold]
    pub(super) fn note_change(&mut self, slot: Slot, what: ServerChange) {
        if self.slots.is_serving(slot) || what == ServerChange::Left {
            let change = Change { slot, server: Arc::clone(self.slots.name(slot)), what };
            self.counters.server_changes_dropped += u64::from(!self.notices.note_change(change));
        }
    }

    // ── slots ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A slot for a server that has none. There is room for all of a table's.
    pub(super) fn take_slot(&mut self, server: &Server, now: Instant) -> Slot {
        let slot = self.slots.take(server.clone(), None).expect("there is room for the table");
        self.renew_slot(slot, slot, now);
        self.notices.tell(Happened::Begun(slot));
        if !self.config.connects_when_needed {
            self.connect(slot, now);
        }
        slot
    }

    /// A slot for another connection to a server, if one is free.
    pub(super) fn take_slot_beside(&mut self, server: Slot, now: Instant) -> Option<Slot> {
        let slot = self.slots.take(self.slots.server(server).clone(), Some(server))?;
        self.renew_slot(slot, server, now);
        Some(slot)
    }

    /// Puts a new connection into a slot, whose replies are timed for the server of slot `timed_as`.
    fn renew_slot(&mut self, slot: Slot, timed_as: Slot, now: Instant) {
        let Some(before) = self.connections.put(slot, Backend::new(timed_as, now)) else { return };
        if before.has_copies() {
            self.notices.tell(Happened::Freed(slot));
        }
        if let Some((server, times)) = before.into_times() {
            self.notices.tell(Happened::Times(server, Box::new(times)));
        }
    }

    /// From now on keys go by these routes: servers that they do not name leave. Returns whether any does.
    pub(super) fn follow(&mut self, routes: &Arc<Routes>) -> bool {
        self.routes = Arc::clone(routes);
        let named: BTreeSet<_> = routes.servers().iter().copied().collect();
        let mut is_any_leaving = false;
        for slot in self.slots.all() {
            if self.slots.is_serving(slot) && !named.contains(&self.slots.own(slot)) {
                self.slots.leave(slot);
                is_any_leaving = true;
                // There will be no other connection: what waits is sent on this one.
                self.connections[slot].link_mut().set_renewing(false);
                self.note_change(slot, ServerChange::Left);
            }
        }
        is_any_leaving
    }

    /// A slot is not used any more: its connection ends, and nothing is asked about it.
    pub(super) fn free_slot(&mut self, slot: Slot, now: Instant) {
        self.notices.disconnect_for_good(slot);
        self.slots.free(slot);
        self.counters.servers_left += u64::from(self.slots.beside(slot).is_none());
        self.second_opinions.forget(slot);
        self.renew_slot(slot, slot, now);
    }

    /// The connection of a slot is replaced: everything that was begun on it is answered.
    pub(super) fn replace_connection(&mut self, slot: Slot, now: Instant) {
        self.notices.disconnect_for_good(slot);
        let lost = self.connections[slot].renew(now);
        self.notices.tell_ended((slot, self.slots.own(slot)), lost, Ending::Otherwise);
        self.counters.server_renewals += 1;
        // Another process may stand at the new address.
        self.notices.tell(Happened::MayBeEmpty(slot));
        self.connect(slot, now);
    }

    /// Nobody is connected to and nobody will be.
    pub(super) fn forget_all(&mut self, now: Instant) {
        self.notices.forget();
        self.slots.all().for_each(|slot| self.renew_slot(slot, slot, now));
    }

    // ── the proxy's own messages ───────────────────────────────────────────────────────────────────────────────────────────

    /// Sends a message that no request asked for.
    pub(super) fn send_own(
        &mut self,
        server: Slot,
        (purpose, expected): (Purpose, Expected),
        now: Instant,
        compose: impl FnOnce(&mut Backend),
    ) {
        let backend = &mut self.connections[server];
        backend.begin_own_message(purpose, expected, &self.config, now);
        compose(backend);
        backend.end_message();
    }

    /// Asks a server for its version: who answers has answered all that came before.
    fn ask_version(&mut self, server: Slot, purpose: Purpose, now: Instant) {
        self.send_own(server, (purpose, Expected::Version), now, |backend| {
            backend.message().extend_from_slice(b"version\r\n");
        });
    }

    /// Asks a server whose replies may be out of step as many questions as tell.
    #[cold]
    fn ask_in_step(&mut self, server: Slot, questions: usize, now: Instant) {
        let backend = &mut self.connections[server];
        // Who does not know the question would end the connection, with all that is on it.
        if !backend.link().is_established() || backend.questions().lacks_version() {
            return;
        }
        backend.in_step_mut().note_asked();
        self.counters.server_step_checks += 1;
        for _ in 0..questions {
            self.ask_version(server, Purpose::Step, now);
        }
    }

    /// Whether a server that was just connected is asked what it stores. One that has closed several connections instead of answering is not:
    /// not everything that speaks memcached's protocol knows the question.
    fn is_asked_item_size(&self, server: Slot) -> bool {
        let is_own = self.slots.beside(server).is_none();
        let may_know = self.connections[server].questions().may_know_settings()
            || self.config.is_without(Mutation::ClosedQuestion);
        self.config.asks_item_size && is_own && may_know
    }

    /// A server has said what it stores.
    fn learn_item_size(&mut self, server: Slot, reply: &[u8]) {
        if let Some(bytes) = item_size(reply) {
            self.connections[server].set_item_size(bytes);
        }
        if let Some(largest) = self.connections.iter().filter_map(Backend::item_size).max() {
            self.notices.tell(Happened::ItemSize(largest));
        }
    }

    // ── made ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    pub(super) fn connect(&mut self, server: Slot, now: Instant) {
        self.connections[server].link_mut().begin(now);
        self.connections.count_greetings();
        self.notices.connect(server);
    }

    /// The connection that was asked for is there.
    pub(super) fn handle_connected(&mut self, server: Slot, now: Instant) {
        if self.second_opinions.has(server) {
            return self.ask_second_opinion(server, now);
        }
        self.counters.server_connects += 1;
        self.notices.tell(Happened::Tried);
        self.greet(server, now);
    }

    /// The connection could not be made, or the server closed it.
    pub(super) fn handle_disconnected(&mut self, server: Slot, now: Instant) {
        self.notices.tell(Happened::MayBeEmpty(server));
        match self.connections[server].state() {
            State::Up | State::Silent => self.lose_ended(server, Ending::ByServer, now),
            State::Greeting { .. } if self.note_closed_at_question(server) => self.connect(server, now),
            State::Connecting { .. } | State::Greeting { .. } | State::Probing { .. } => {
                self.connect_failed(server, Fault::Connect, now);
            }
            State::Idle | State::Down { .. } => {}
        }
    }

    /// An established connection broke without the server's doing.
    pub(super) fn handle_broken(&mut self, server: Slot, now: Instant) {
        if !self.connections[server].link().is_connected() {
            return self.handle_disconnected(server, now);
        }
        self.notices.tell(Happened::MayBeEmpty(server));
        self.lose_ended(server, Ending::Otherwise, now);
    }

    /// The server or the network has ended a connection.
    fn lose_ended(&mut self, server: Slot, ending: Ending, now: Instant) {
        self.lose_connection(server, Fault::Closed, ending, now);
        // Another proxy closes at what it does not know, which a client may have sent: it must not take the server from others with that.
        let questions = self.connections[self.slots.own(server)].questions();
        if questions.may_know_settings() && !questions.lacks_version() {
            let bounds = self.pauses();
            let is_too_often = self.connections[server].link_mut().note_ended(bounds, now);
            self.counters.server_reconnects_paused += u64::from(is_too_often);
        }
        self.connect_again(server, DownReason::Closes, now);
    }

    // ── tried again ────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A connection is lost. A server that has accepted two in a row and answered nothing on either is left alone for a while, as one that
    /// refuses them; and one of which several in a row ended soon. What listens there may be no memcached, and would be connected to without
    /// end.
    fn connect_again(&mut self, server: Slot, reason: DownReason, now: Instant) {
        if self.second_opinions.has(server) {
            return self.lose_second_opinion(server, now);
        }
        let longest_ns = self.config.reconnect_delay_max_ns;
        if self.connections[server].link_mut().may_connect_at_once(longest_ns, now) {
            return self.connect(server, now);
        }
        self.leave_alone(server, reason, now);
    }

    /// The shortest and the longest pause between attempts to connect.
    const fn pauses(&self) -> (u64, u64) {
        (self.config.reconnect_delay_min_ns, self.config.reconnect_delay_max_ns)
    }

    fn leave_alone(&mut self, server: Slot, reason: DownReason, now: Instant) {
        let bounds = self.pauses();
        let link = self.connections[server].link_mut();
        let pause = link.pause(bounds, &mut self.jitter);
        link.leave_alone(now.plus(pause));
        self.note_change(server, ServerChange::Down(reason));
    }

    // ── given up ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Time may have run out: connects to a server if it is needed, tries it again, gives an attempt up that takes too long. Returns the
    /// reads that may be asked of others.
    pub(super) fn look_at_time(&mut self, server: Slot, now: Instant) -> Vec<LateRead> {
        if !self.connections[server].may_be_late(now) {
            return Vec::new();
        }
        match self.connections[server].state() {
            // It is needed first now.
            State::Idle => self.connect(server, now),
            State::Down { until } if until <= now => {
                self.connections[server].link_mut().probe(now);
                self.notices.connect(server);
            }
            State::Connecting { since } | State::Greeting { since, .. } | State::Probing { since }
                if since.plus(self.config.connect_timeout_ns) <= now =>
            {
                self.note_silent_at_question(server);
                self.notices.disconnect(server);
                self.connect_failed(server, Fault::Connect, now);
            }
            _ => {}
        }
        let timeout_ns = self.config.timeout_ns;
        self.connections[server].late_reads(timeout_ns, now)
    }

    /// Gives up what of this server is late.
    pub(super) fn give_up_late(&mut self, server: Slot, now: Instant) {
        if !self.connections[server].may_be_late(now) {
            return;
        }
        let timeout_ns = self.config.timeout_ns;
        let backend = &mut self.connections[server];
        let (mut late, in_step) = (Vec::new(), *backend.in_step_mut());
        let questions = backend.pipeline().questions_that_tell();
        let mut asks = backend.in_step_mut().is_to_ask(questions.is_some(), timeout_ns, now);
        let moved = backend.expire(now, timeout_ns, |request, part| {
            asks |= in_step.is_doubted_by(&part);
            late.push((request, part));
        });
        // Only where the rule is switched off, for a test (`Mutation::Barrier`).
        let is_given_up = self.config.is_without(Mutation::Barrier);
        let count = late.len() + moved;
        if count > 0 {
            self.counters.server_timeouts += count as u64;
            self.connections[server].tally_mut().count_errors(moved as u64);
            if !is_given_up && !self.connections[server].is_answering(now, timeout_ns) {
                self.note_late(server, count, now);
            }
        }
        // Who is marked down was asked with that.
        if asks && self.connections[server].state() != State::Silent {
            self.ask_in_step(server, questions.unwrap_or(1), now);
        }
        for (request, part) in late {
            let (keys, fault, retry) = (Box::default(), Fault::Timeout, Retry::Never);
            self.notices.tell_lost(Lost { request, part, keys, server, fault, retry });
        }
        if count > 0 && is_given_up && self.connections[server].link().is_established() {
            self.notices.disconnect(server);
            self.lose_connection(server, Fault::Timeout, Ending::ByServer, now);
            self.connect(server, now);
        }
    }

    /// No connection could be made that can be used.
    fn connect_failed(&mut self, server: Slot, fault: Fault, now: Instant) {
        if self.second_opinions.has(server) {
            return self.lose_second_opinion(server, now);
        }
        self.counters.server_connects_failed += 1;
        self.notices.tell(Happened::Tried);
        let backend = &self.connections[server];
        let time = (self.config.connect_timeout_ns, now);
        let reason = backend.link().down_reason(fault, backend.last_trouble(), time);
        self.leave_alone(server, reason, now);
        self.lose_parts(server, fault, now);
        self.connections.count_greetings();
    }

    // ── lost ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A reply cannot be read: the connection is made anew.
    pub(super) fn give_up_connection(&mut self, server: Slot, reason: Violation, now: Instant) {
        self.counters.server_violations += 1;
        self.notices.disconnect(server);
        let reason = match self.credentials(server) {
            Some(credentials) => credentials.leave_out_of(reason),
            None => reason,
        };
        let said = reason.to_string();
        self.connections[server].note_trouble(reason);
        self.note_change(server, ServerChange::Replaced(ReplacedReason::Garbage { said: said.clone() }));
        // Those who have only shared a message with the trouble.
        let mut sharers: Vec<(Part, Box<[u8]>)> = Vec::new();
        self.connections[server].pipeline_mut().take_sharers(|part, keys| sharers.push((part, keys.into())));
        self.lose_connection(server, Fault::Protocol, Ending::Otherwise, now);
        let longest_ns = self.config.reconnect_delay_max_ns;
        // Of gets that share a message each is asked again alone: the one that is the trouble shows it there, and is counted then.
        let counts = sharers.iter().all(|(part, _)| part.tries() > 0);
        self.connections[server].link_mut().note_violation(counts, longest_ns, now);
        self.connect_again(server, DownReason::Garbage { said }, now);
        // The first is most likely the trouble. Asked last, it costs the others no second connection.
        for (part, keys) in sharers.into_iter().rev() {
            if let Some(request) = part.request() {
                let (fault, retry) = (Fault::Protocol, Retry::ElsewhereOrAlone);
                self.notices.tell_lost(Lost { request, part, keys, server, fault, retry });
            }
        }
    }

    fn lose_connection(&mut self, server: Slot, fault: Fault, ending: Ending, now: Instant) {
        self.counters.server_disconnects += 1;
        let backend = &self.connections[server];
        let lost = backend.pipeline().lost_messages();
        self.lose_parts(server, fault, now);
        self.notices.tell_ended((server, self.slots.own(server)), lost, ending);
    }

    fn lose_parts(&mut self, server: Slot, fault: Fault, now: Instant) {
        let is_replicated = self.routes.is_replicated();
        let mut lost = Vec::new();
        self.connections[server].disconnect(now, |request, part, keys| {
            let keys = if is_replicated { keys.into() } else { Box::default() };
            lost.push((request, part, keys));
        });
        for (request, part, keys) in lost {
            let retry = Retry::Elsewhere;
            self.notices.tell_lost(Lost { request, part, keys, server, fault, retry });
        }
    }

    // ── marked down ────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// This many requests to a server were late.
    fn note_late(&mut self, server: Slot, count: usize, now: Instant) {
        let backend = &mut self.connections[server];
        let late = backend.health_mut().note_late(count, now);
        if !mark_down::is_silent(backend, late, &self.config) || !self.slots.is_serving(server) {
            return;
        }
        self.doubt(server, now);
        let is_second = self.slots.beside(server).is_some();
        if mark_down::may_mark_down((server, is_second), &self.connections, &self.routes, &self.config) {
            self.mark_down(server, now);
        }
    }

    fn mark_down(&mut self, server: Slot, now: Instant) {
        self.counters.servers_marked_down += 1;
        let timeouts = self.connections[server].health().late_in_a_row();
        self.connections[server].link_mut().silence();
        self.ask_version(server, Purpose::Barrier, now);
        self.note_change(server, ServerChange::MarkedDown { timeouts });
    }

    /// It has answered, and with that everything that was sent before.
    #[cold]
    pub(super) fn mark_up(&mut self, server: Slot, now: Instant) {
        if self.second_opinions.has(server) {
            return self.take_second_opinion(server, now);
        }
        let backend = &mut self.connections[server];
        if backend.link_mut().wake() {
            // The answer came in its turn.
            *backend.in_step_mut() = InStep::default();
            self.counters.servers_marked_up += 1;
            self.note_change(server, ServerChange::Up);
        }
    }

    // ── asked about ────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A connection has been silent for as many timeouts as mark a server down.
    #[cold]
    fn doubt(&mut self, slot: Slot, now: Instant) {
        if !self.config.is_without(Mutation::SecondOpinion) {
            self.second_opinions.begin(slot, now);
        }
    }

    /// A server is in the table again that was leaving. Whoever leaves is not asked about.
    pub(super) fn doubt_if_silent(&mut self, slot: Slot, now: Instant) {
        if self.connections[slot].state() == State::Silent {
            self.doubt(slot, now);
        } else {
            // It may have been silent for long enough while it was leaving, and nobody asks it now.
            self.note_late(slot, 0, now);
        }
    }

    /// Which questions about silent connections are open.
    #[inline]
    pub(super) const fn second_opinions(&self) -> &SecondOpinions {
        &self.second_opinions
    }

    /// Once per turn.
    #[cold]
    pub(super) fn pursue_second_opinions(&mut self, now: Instant) {
        loop {
            let Self { second_opinions, connections, slots, .. } = self;
            match second_opinions.next(|slot| silence(&connections[slot], slots.is_serving(slot)), now) {
                Some(Step::Ask(about)) => self.ask_beside(about, now),
                Some(Step::Drop(second)) => self.drop_second(second, now),
                Some(Step::Replace { about, second }) => {
                    self.drop_second(second, now);
                    self.replace_dead(about, now);
                }
                None => return,
            }
        }
    }

    fn ask_beside(&mut self, about: Slot, now: Instant) {
        let second = self.take_slot_beside(self.slots.own(about), now);
        let times = (self.config.timeout_ns, self.config.reconnect_delay_max_ns);
        self.second_opinions.note_asked(about, second, times, now);
        if let Some(second) = second {
            self.counters.second_opinions += 1;
            self.connect(second, now);
        }
    }

    fn drop_second(&mut self, second: Slot, now: Instant) {
        self.notices.disconnect_for_good(second);
        self.slots.free(second);
        self.renew_slot(second, second, now);
    }

    /// The server answers others, and not this connection. Nobody knows what it still has of it.
    fn replace_dead(&mut self, about: Slot, now: Instant) {
        self.counters.server_connections_dead += 1;
        self.notices.disconnect(about);
        self.note_change(about, ServerChange::Replaced(ReplacedReason::Dead));
        let is_lost = self.config.is_without(Mutation::DeadEnding);
        let ending = if is_lost { Ending::ByServer } else { Ending::Otherwise };
        self.lose_connection(about, Fault::Closed, ending, now);
        self.connect_again(about, DownReason::Unanswered, now);
    }

    /// A second connection was made.
    fn ask_second_opinion(&mut self, second: Slot, now: Instant) {
        self.connections[second].link_mut().open(now);
        self.ask_version(second, Purpose::Barrier, now);
    }

    /// A second connection was answered, whatever the answer was.
    pub(super) fn take_second_opinion(&mut self, second: Slot, now: Instant) {
        let Some(about) = self.second_opinions.note_answered(second, self.config.timeout_ns, now) else {
            return;
        };
        let backend = &mut self.connections[about];
        // One that was heard in this turn and is used again may have nothing more to say.
        if silence(backend, self.slots.is_serving(about)) != Silence::Over {
            backend.health_mut().listen();
        }
    }

    /// A second connection is lost, or could not be made.
    fn lose_second_opinion(&mut self, second: Slot, now: Instant) {
        self.second_opinions.note_lost(second);
        self.drop_second(second, now);
    }
}
