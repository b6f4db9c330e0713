//! Clients: what they send, what they are owed, and who of them takes too long.
//!
//! [`Clients`] owns the sessions, the lists of those with something to write and of those that may go on, and what their buffers hold of the
//! memory that all share. It is given bytes and instants. It hands out requests one by one ([`Clients::next_request`]), bytes for the kernel,
//! and what the driver is asked to do ([`Event`]). What requests are, and what becomes of them, it does not know.

pub(crate) mod bulk;
pub(crate) mod event;
pub(crate) mod gate;
pub(crate) mod habits;
pub(crate) mod intake;
pub(crate) mod outbox;
pub(crate) mod overdue;
pub(crate) mod replies;
pub(crate) mod sequence;
pub(crate) mod session;
pub(crate) mod taken;
pub(crate) mod users;

use crate::{
    ClientTimeouts,
    clients::bulk::Awaits,
    clients::event::Event,
    clients::gate::{Gate, Login},
    clients::intake::{Input, Rest, Takes},
    clients::overdue::Overdue,
    clients::replies::Written,
    clients::session::Session,
    clients::users::Users,
    config::Config,
    memory::budget::{Budget, Held, SCARCE_LOOK_NS},
    meter::counters::Counters,
    routes::Routes,
    wire::ids::{RequestKey, SessionId},
};
use slab::Slab;
use std::{
    collections::VecDeque,
    ops::{Index, IndexMut},
    sync::Arc,
};
use weir_protocol::Parsed;
use weir_timing::Instant;

/// How long a reply for which nobody was asked waits for the next one of its client: about as long as a server takes that is near. A driver
/// that waits by the millisecond makes one of it, if nothing else happens.
const HELD_BACK_NS: u64 = 200_000;

/// The clients of one dataplane.
#[derive(Debug)]
pub(crate) struct Clients {
    config: Config,
    counters: Counters,
    sessions: Slab<Session>,
    /// How many of them are lent.
    lent: usize,
    /// Sessions for which there are bytes to write.
    listed: VecDeque<SessionId>,
    /// Sessions whose bytes wait for more, each once, with the moment from which on they do not.
    held_back: VecDeque<(SessionId, Instant)>,
    /// Sessions that were paused and may go on, each once.
    resumable: VecDeque<SessionId>,
    /// When the first client may be overdue; `None` if none can be.
    due: Option<Instant>,
    held: Held,
    /// What was not reported to the driver yet.
    events: VecDeque<Event>,
    is_draining: bool,
    /// Who may log in, if clients must.
    users: Option<Arc<Users>>,
    /// How long they may take for that. In the configuration it is nothing before there are users.
    login_ns: u64,
}

impl Clients {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            counters: Counters::default(),
            sessions: Slab::new(),
            lent: 0,
            listed: VecDeque::new(),
            held_back: VecDeque::new(),
            resumable: VecDeque::new(),
            due: None,
            held: Held::new(&Budget::new(config.buffer_bytes_max)),
            events: VecDeque::new(),
            is_draining: false,
            users: None,
            login_ns: config.client_timeouts.login_ns,
            config: Config {
                client_timeouts: ClientTimeouts { login_ns: 0, ..config.client_timeouts },
                ..config.clone()
            },
        }
    }

    pub(crate) const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The longest value that is taken from clients.
    pub(crate) fn set_value_bytes_max(&mut self, bytes: usize) {
        self.config.limits.value_bytes_max = bytes;
        self.sessions.iter_mut().for_each(|(_, session)| session.intake.set_value_bytes_max(bytes));
    }

    // ── their connections ──────────────────────────────────────────────────────────────────────────────────────────────────

    /// A client connected. `None`: there are too many, or no more are wanted.
    pub(crate) fn accept(&mut self, login: Login, now: Instant) -> Option<SessionId> {
        if self.count() >= self.config.sessions_max || self.is_draining {
            self.counters.sessions_refused += 1;
            return None;
        }
        self.counters.sessions_accepted += 1;
        self.watch(self.config.client_timeouts.idle_ns, now);
        let mut session = Session::new(&self.config, self.counters.sessions_accepted, now);
        if self.users.is_some() && login == Login::Wanted {
            self.watch(self.config.client_timeouts.login_ns, now);
            session.pass(Gate::Locked(now));
        }
        Some(SessionId::from_index(self.sessions.insert(session)))
    }

    /// A session for requests that somebody else reads.
    pub(crate) fn lend(&mut self, now: Instant) -> SessionId {
        self.lent += 1;
        SessionId::from_index(self.sessions.insert(Session::lent(&self.config, now)))
    }

    /// A session, and what all buffers hold.
    #[inline]
    pub(crate) fn with_held(&mut self, id: SessionId) -> (&mut Session, &Held) {
        (&mut self.sessions[id.index()], &self.held)
    }

    /// How many clients are connected here, or were and have requests in service.
    pub(crate) fn count(&self) -> usize {
        self.sessions.len() - self.lent
    }

    /// A session, if it is there.
    pub(crate) fn get(&self, id: SessionId) -> Option<&Session> {
        self.sessions.get(id.index())
    }

    /// The client will send no more.
    pub(crate) fn end_input(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id.index()) {
            session.intake.end_input();
        }
        self.close_if_settled(id);
    }

    /// No more are accepted, and those that are there are closed when all is answered.
    pub(crate) fn drain(&mut self) {
        self.is_draining = true;
        let clients = self.sessions.iter().filter(|(_, session)| !session.is_lent());
        let ids: Vec<_> = clients.map(|(index, _)| SessionId::from_index(index)).collect();
        ids.into_iter().for_each(|id| self.end_input(id));
    }

    /// Takes nothing more from this client, and closes its connection when all replies are out.
    pub(crate) fn hang_up(&mut self, id: SessionId) {
        self.sessions[id.index()].intake.close();
        self.close_if_settled(id);
    }

    /// Asks the driver to close a connection of which everything is answered, and that is to be closed then.
    pub(crate) fn close_if_settled(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id.index()).filter(|session| !session.is_lent()) else {
            return;
        };
        if session.intake.is_closed() && session.is_settled() && session.ask_to_close() {
            self.queue(id, Event::Close(id));
        }
    }

    /// The connection is gone. Hands out every request that is owed a reply, with whether that was appended; `orphaned` says of each whether it
    /// is done. Returns whether the session was there.
    pub(crate) fn close(
        &mut self,
        id: SessionId,
        mut orphaned: impl FnMut(RequestKey, bool) -> bool,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(id.index()).filter(|session| !session.is_gone()) else {
            return false;
        };
        self.counters.sessions_closed += 1;
        let mut done = 0;
        session.abandon(|key, appended| done += usize::from(orphaned(key, appended)));
        session.end_requests(done);
        self.counters.requests_orphaned += done as u64;
        self.recharge(id);
        // The number may soon be another client's. Where many are closed at once, a look at all events for each would take long.
        if self.sessions[id.index()].forget_events() {
            self.events.retain(|event| event.of_client() != Some(id));
        }
        true
    }

    /// A session outlives its connection until its requests are done, so that no reply can meet another client.
    pub(crate) fn free_if_done(&mut self, id: SessionId) {
        if self.sessions.get(id.index()).is_some_and(Session::is_done) {
            self.release(id);
            self.sessions.remove(id.index());
        }
    }

    /// The request of a lent session is done, or its client is gone: the session is as new. Hands out the request that is owed a reply.
    pub(crate) fn renew_lent(&mut self, id: SessionId) -> Option<RequestKey> {
        self.release(id);
        self.sessions[id.index()].renew(&self.config)
    }

    /// What the driver is to do next.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Some(session) = event.of_client().and_then(|id| self.sessions.get_mut(id.index())) {
            session.note_heard();
        }
        Some(event)
    }

    /// The driver is to do this with a client that is there.
    fn queue(&mut self, id: SessionId, event: Event) {
        self.sessions[id.index()].note_event();
        self.events.push_back(event);
    }

    /// Whether [`Clients::poll_event`] has one.
    #[inline]
    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Asks the driver for something.
    pub(crate) fn ask(&mut self, event: Event) {
        self.events.push_back(event);
    }

    // ── who they are ───────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Who may log in, from now on. Whoever has logged in keeps that, with what he may do now; whoever is a user no more is not served any
    /// longer. Before the first client, or if clients had to log in before.
    pub(crate) fn set_users(&mut self, users: Arc<Users>) {
        let mut gone = Vec::new();
        for (index, session) in &mut self.sessions {
            let Some(user) = session.gate().user() else { continue };
            let has_only_shown = session.gate().shown().is_some();
            match users.named(user.name()).cloned() {
                // It may still say its password.
                Some(user) if has_only_shown => session.pass(Gate::Shown(user, Arc::clone(&users))),
                Some(user) => session.pass(Gate::User(user)),
                None => gone.push(SessionId::from_index(index)),
            }
        }
        self.config.client_timeouts.login_ns = self.login_ns;
        self.users = Some(users);
        self.counters.sessions_closed_revoked += gone.len() as u64;
        gone.into_iter().for_each(|id| self.hang_up(id));
    }

    /// A client says who it is. Returns whether that is so.
    pub(crate) fn log_in(&mut self, id: SessionId, name: &[u8], password: &[u8]) -> bool {
        let user = self.users.as_ref().and_then(|users| users.with_password(name, password)).cloned();
        let Some(user) = user else {
            self.counters.logins_failed += 1;
            return false;
        };
        self.counters.logins += 1;
        self.sessions[id.index()].pass(Gate::User(user));
        true
    }

    /// A client has shown a certificate, whose names are asked for if they may be somebody's.
    pub(crate) fn show_certificate(&mut self, id: SessionId, names: impl FnOnce() -> Vec<String>) {
        let Some(users) = self.users.as_ref().filter(|users| users.have_certificates()) else { return };
        let user = users.with_certificate(&names()).cloned();
        if let (Some(user), Some(session)) = (user, self.sessions.get_mut(id.index())) {
            self.counters.logins += 1;
            self.counters.logins_by_certificate += 1;
            session.pass(Gate::Shown(user, Arc::clone(users)));
        }
    }

    // ── what they send ─────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Bytes were read from a client.
    #[inline]
    pub(crate) fn read<'a>(&mut self, id: SessionId, bytes: &'a [u8], now: Instant) -> Input<'a> {
        self.counters.client_bytes_read += bytes.len() as u64;
        self.sessions[id.index()].intake.read(bytes, now)
    }

    /// The next request of this input, if it may be taken now.
    #[inline(always)]
    pub(crate) fn next_request<'a>(
        &mut self,
        id: SessionId,
        rest: &Rest<'a>,
        routes: &Routes,
        now: Instant,
    ) -> Option<Parsed<'a>> {
        let Self { sessions, config, held, counters, .. } = self;
        let session = &mut sessions[id.index()];
        if !session.intake.skip(rest, now) {
            return None;
        }
        // Who has waited for a key was let in before.
        if !session.may_take(config, held) && session.stalled.is_none() {
            self.pause(id, now);
            return None;
        }
        let admits = |bytes| {
            let is_admitted = held.admits(bytes, false);
            counters.requests_refused_memory += u64::from(!is_admitted);
            is_admitted
        };
        let (gate, habits, intake) = session.gate_and_intake();
        let parsed = intake.look_and_judge(rest, admits, |parsed| gate.judge(parsed, routes, habits));
        if let Parsed::Incomplete { .. } = parsed {
            return None;
        }
        if let Some(user) = session.gate().shown() {
            session.pass(Gate::User(user));
        }
        Some(parsed)
    }

    /// The session has as much in service as it may, or leaves too much unread.
    fn pause(&mut self, id: SessionId, now: Instant) {
        let session = &mut self.sessions[id.index()];
        session.intake.pause();
        self.counters.sessions_paused += 1;
        if session.replies.is_blocked() && self.held.is_pressed() {
            self.counters.sessions_paused_memory += 1;
            self.watch(SCARCE_LOOK_NS, now);
        }
    }

    /// No more is taken of this input: what is `left` of it is kept.
    #[inline(always)]
    pub(crate) fn keep(&mut self, id: SessionId, input: Input<'_>, left: usize, now: Instant) {
        let intake = &mut self.sessions[id.index()].intake;
        if intake.keep(input, left) && self.held.is_pressed() {
            intake.give_all_memory_back();
        }
        if intake.is_within_request() {
            let keeps_too_much = intake.takes() == Takes::Login && left > LOCKED_BYTES_MAX;
            self.watch(self.config.client_timeouts.request_ns, now);
            if keeps_too_much {
                self.close_for(id, Overdue::Login);
            }
        }
    }

    /// A session that was paused goes on with what was kept.
    pub(crate) fn go_on<'a>(&mut self, id: SessionId) -> Input<'a> {
        let session = &mut self.sessions[id.index()];
        session.intake.resume();
        session.bulk.wait_for(Awaits::Nothing);
        session.bulk.habits.grow(self.config.session_requests_max);
        session.intake.reread()
    }

    /// A session that was paused has gone on with what was kept: if it is not paused again, the driver reads from it.
    pub(crate) fn read_on(&mut self, id: SessionId) {
        let intake = &self.sessions[id.index()].intake;
        if intake.is_paused() {
            return;
        }
        if intake.has_ended_input() {
            self.hang_up(id);
        } else {
            self.queue(id, Event::Resume(id));
        }
    }

    /// A session waits for something no more: it goes on in this turn or the next, once however often this is said.
    #[inline]
    pub(crate) fn let_go_on(&mut self, id: SessionId) {
        if self.sessions.get_mut(id.index()).is_some_and(Session::list_to_go_on) {
            self.resumable.push_back(id);
        }
    }

    /// The next session that goes on.
    #[inline]
    pub(crate) fn next_to_go_on(&mut self) -> Option<SessionId> {
        let id = self.resumable.pop_front()?;
        if let Some(session) = self.sessions.get_mut(id.index()) {
            session.unlist_to_go_on();
        }
        Some(id)
    }

    /// Whether there is one.
    #[inline]
    pub(crate) fn is_any_to_go_on(&self) -> bool {
        !self.resumable.is_empty()
    }

    /// A request of this session is done: if it is paused, it may perhaps go on.
    #[inline]
    pub(crate) fn look_at_paused(&mut self, id: SessionId) {
        let session = &self.sessions[id.index()];
        if session.intake.is_paused() && session.may_go_on(&self.config, &self.held) {
            self.let_go_on(id);
        }
    }

    // ── what they are sent ─────────────────────────────────────────────────────────────────────────────────────────────────

    /// There are bytes to write to this client.
    #[inline]
    pub(crate) fn list(&mut self, id: SessionId) {
        let session = &mut self.sessions[id.index()];
        session.let_wait(None);
        if session.list() {
            self.listed.push_back(id);
        }
    }

    /// Bytes that were listed belong to a reply for which nobody was asked. Where more replies are to come, they leave with these, or a moment
    /// later: to a client that has sent much at once each write costs as much as the others. `since`: what [`Session::may_wait_from`] said
    /// before they were listed.
    pub(crate) fn let_wait(&mut self, id: SessionId, since: Option<Instant>) {
        if let Some(session) = self.sessions.get_mut(id.index()) {
            session.let_wait(since);
        }
    }

    /// What has waited for a moment leaves.
    #[inline]
    pub(crate) fn release_held_back(&mut self, now: Instant) {
        // In nearly every turn there is none.
        if !self.held_back.is_empty() {
            self.release_those_held_back(now);
        }
    }

    #[inline(never)]
    fn release_those_held_back(&mut self, now: Instant) {
        while let Some(&(id, until)) = self.held_back.front() {
            // Listed or not: what counts is the time.
            if self.get(id).is_some_and(Session::may_wait) && until > now {
                return;
            }
            self.held_back.pop_front();
            if self.sessions.get_mut(id.index()).is_some_and(Session::end_holding_back) {
                self.list(id);
            }
        }
    }

    /// The next client for which there are bytes to write.
    #[inline]
    pub(crate) fn poll_output(&mut self) -> Option<SessionId> {
        loop {
            let id = self.listed.pop_front()?;
            let Some(session) = self.sessions.get_mut(id.index()) else { continue };
            session.unlist();
            if let Some(since) = session.waits_since() {
                if session.hold_back() {
                    self.held_back.push_back((id, since.plus(HELD_BACK_NS)));
                }
                continue;
            }
            session.let_wait(None);
            if !session.replies.is_blocked() && !session.replies.output().is_empty() {
                return Some(id);
            }
        }
    }

    /// `count` bytes were handed to the kernel; calls `answered` for each request whose reply is complete there. Returns whether the session is
    /// there, and memory is counted for it.
    #[inline(always)]
    pub(crate) fn handle_written(
        &mut self,
        id: SessionId,
        count: usize,
        now: Instant,
        mut answered: impl FnMut(RequestKey),
    ) -> Option<bool> {
        self.counters.client_bytes_written += count as u64;
        let session = self.sessions.get_mut(id.index())?;
        let mut done = 0;
        let progress_min = self.config.client_timeouts.progress_bytes;
        let written = session.replies.handle_written((count, progress_min), now, |key| {
            answered(key);
            done += 1;
        });
        session.end_requests(done);
        if session.intake.is_paused()
            && session.may_go_on(&self.config, &self.held)
            && session.list_to_go_on()
        {
            self.resumable.push_back(id);
        }
        match written {
            Written::Blocked => self.watch(self.config.client_timeouts.unread_ns, now),
            Written::More => self.list(id),
            Written::All if self.held.is_pressed() => session.replies.give_bytes_back(),
            Written::All => {}
        }
        self.recharge(id);
        Some(self.sessions[id.index()].charged() > 0)
    }

    /// The kernel takes bytes for this client again.
    pub(crate) fn handle_writable(&mut self, id: SessionId) {
        if self.sessions.get_mut(id.index()).is_some_and(|session| session.replies.unblock()) {
            self.list(id);
        }
    }

    // ── who takes too long ─────────────────────────────────────────────────────────────────────────────────────────────────

    /// Something of a client's has begun that may take this long and no longer.
    #[inline]
    pub(crate) fn watch(&mut self, limit_ns: u64, now: Instant) {
        if limit_ns > 0 {
            let at = now.plus(limit_ns);
            self.due = Some(self.due.map_or(at, |due| due.min(at)));
        }
    }

    /// When to look for any that are overdue, or whose bytes have waited for more.
    #[inline]
    pub(crate) fn due(&self) -> Option<Instant> {
        let held = self.held_back.front().map(|&(_, until)| until);
        held.into_iter().chain(self.due).min()
    }

    /// Closes the connections of clients that are overdue, if it is time to look for any.
    #[inline]
    pub(crate) fn close_overdue(&mut self, now: Instant) {
        if self.due.is_some_and(|due| now >= due) {
            self.look_for_overdue(now);
        }
    }

    #[cold]
    fn look_for_overdue(&mut self, now: Instant) {
        let mut are_paused = false;
        for (index, session) in &mut self.sessions {
            if session.intake.is_paused() && session.replies.is_blocked() {
                // Perhaps because of what all buffers held.
                let may_go_on = session.may_go_on(&self.config, &self.held);
                are_paused |= !may_go_on;
                if may_go_on && session.list_to_go_on() {
                    self.resumable.push_back(SessionId::from_index(index));
                }
            }
        }
        let doing = |(index, session): (usize, &Session)| {
            Some((SessionId::from_index(index), session.doing()?, session.held_bytes()))
        };
        let clients = self.sessions.iter().filter_map(doing);
        let found = self.config.client_timeouts.look(clients, self.held.excess(), now);
        self.due = found.next_look;
        if are_paused && self.held.is_pressed() {
            self.watch(SCARCE_LOOK_NS, now);
        }
        found.overdue.into_iter().for_each(|(id, why)| self.close_for(id, why));
    }

    fn close_for(&mut self, id: SessionId, why: Overdue) {
        self.counters.note_overdue(why);
        self.sessions[id.index()].ask_to_close();
        self.queue(id, Event::Close(id));
    }

    // ── memory ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// What all buffers hold, and may.
    #[inline]
    pub(crate) const fn held(&self) -> &Held {
        &self.held
    }

    /// From now on the limit is one for all dataplanes that share this budget.
    pub(crate) fn share_budget(&mut self, budget: &Arc<Budget>) {
        self.held.share(budget);
    }

    /// Tells the others what is held, if that has changed.
    pub(crate) fn tell_held(&mut self) {
        self.held.tell();
    }

    /// Once per turn, with what all connections to servers hold. Returns whether so much is held that they should give back what they can.
    #[inline]
    pub(crate) fn publish_held(&mut self, servers: usize) -> bool {
        self.held.publish(servers)
    }

    /// Much is held, and connections to servers have given back what they could: clients that leave much unread are looked for.
    #[cold]
    pub(crate) fn relieve(&mut self, servers: usize, now: Instant) {
        self.held.publish(servers);
        if self.held.is_scarce() {
            self.watch(SCARCE_LOOK_NS, now);
        }
    }

    /// A session may hold more or less than it did.
    #[inline]
    pub(crate) fn recharge(&mut self, id: SessionId) {
        let session = &mut self.sessions[id.index()];
        let bytes = session.held_bytes();
        if bytes != session.charged() {
            self.held.recharge(session.charge(bytes), bytes);
        }
    }

    /// A session is dropped, or is about to be.
    fn release(&mut self, id: SessionId) {
        self.held.recharge(self.sessions[id.index()].charge(0), 0);
    }

    /// Frees the buffers that are empty. `servers`: what connections to servers hold after that.
    #[cold]
    pub(crate) fn give_memory_back(&mut self, servers: usize) {
        let mut charged = 0;
        for (_, session) in &mut self.sessions {
            session.give_memory_back();
            let bytes = session.held_bytes();
            session.charge(bytes);
            charged += bytes;
        }
        self.held.set(charged, servers);
    }
}

/// What is kept of a client that has not logged in, leaves what it is answered unread, and goes on sending: as much as memcached reads.
const LOCKED_BYTES_MAX: usize = 16 << 10;

impl Index<SessionId> for Clients {
    type Output = Session;

    #[inline]
    fn index(&self, id: SessionId) -> &Session {
        &self.sessions[id.index()]
    }
}

impl IndexMut<SessionId> for Clients {
    #[inline]
    fn index_mut(&mut self, id: SessionId) -> &mut Session {
        &mut self.sessions[id.index()]
    }
}
