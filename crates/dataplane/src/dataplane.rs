//! The border to the driver: bytes and instants in, bytes and events out.
//!
//! A turn of a driver is: hand in everything that was read; [`Dataplane::handle_time`]; carry out
//! [`Dataplane::poll_event`]; write for [`Dataplane::poll_server_output`], then for [`Dataplane::poll_client_output`]; carry out
//! the events that came of it; wait until a socket is ready or [`Dataplane::poll_timeout`] has come.

use crate::{
    Config, Counters, DownReason, Fault, ReadRepair, StatsTopic,
    clients::session::Session,
    memory::budget::{Budget, Held},
    memory::spare::SpareAnswers,
    meter::trace::Tracer,
    replication::hold::Holds,
    replication::ownership::Post,
    replication::repair::Repairs,
    replication::replica::Ending,
    replication::replicate::retire,
    replication::standing::Standing,
    requests::bulk_reads::{BulkReads, Slicing},
    requests::gather::Gather,
    requests::multiget::Planner,
    requests::service::Answer,
    requests::services::Services,
    routes::{Routes, Slot},
    servers::Servers,
    servers::backend::{Backend, State, sooner},
    servers::changes::Changes,
    servers::second_opinion::SecondOpinions,
};
use slab::Slab;
use std::{collections::VecDeque, mem, sync::Arc};
use weir_routing::Table;
use weir_timing::{Instant, Recorder};

/// Names one client connection until [`Dataplane::handle_client_closed`] was called for it and its requests are done; the
/// number is used again after that.
pub type SessionId = usize;

/// What the driver is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Begin to connect to this server; then call [`Dataplane::handle_server_connected`] or
    /// [`Dataplane::handle_server_disconnected`].
    Connect(usize),
    /// Drop the connection to this server, without telling.
    Disconnect(usize),
    /// Close this client's connection and call [`Dataplane::handle_client_closed`].
    Close(SessionId),
    /// Read from this client again: [`Dataplane::wants_read`] had been false.
    Resume(SessionId),
    /// A client asks for statistics: answer by [`Dataplane::handle_stats`] with this request's number.
    Stats {
        /// Names the request.
        request: usize,
        /// What is asked for.
        topic: StatsTopic,
    },
}

/// One event loop's proxy.
#[derive(Debug)]
pub struct Dataplane {
    pub(crate) config: Config,
    pub(crate) standing: Arc<Standing>,
    pub(crate) router: Arc<Routes>,
    /// Earlier ones, with which writes were begun that are being decided.
    pub(crate) former: Vec<Arc<Routes>>,
    /// What `router` will become as soon as there is room for its servers.
    pub(crate) coming: Option<Arc<Table>>,
    /// How many tables have been.
    pub(crate) generation: u64,
    /// Which server has which number, beside `backends`.
    pub(crate) slots: Vec<Slot>,
    /// Whether the connection of any of them is to be ended when it is settled.
    pub(crate) settling: bool,
    pub(crate) sessions: Slab<Session>,
    pub(crate) backends: Servers,
    /// How many of them are being greeted (`greeting.rs`).
    pub(crate) greetings: usize,
    /// Whether any of them has a journal.
    pub(crate) keeps_journals: bool,
    pub(crate) services: Services,
    pub(crate) recorder: Recorder,
    pub(crate) counters: Counters,
    /// The counters as they were when the last window was handed out.
    pub(crate) counters_told: Counters,
    pub(crate) tracer: Tracer,
    pub(crate) events: VecDeque<Event>,
    pub(crate) changes: Changes,
    pub(crate) dirty: VecDeque<SessionId>,
    /// Sessions that were paused and may go on.
    pub(crate) resumable: VecDeque<SessionId>,
    /// Gathers that wait to be used again.
    #[expect(clippy::vec_box, reason = "a gather moves between here and its service without being copied")]
    pub(crate) spare_gathers: Vec<Box<Gather>>,
    pub(crate) planner: Planner,
    /// Keys to which writes wait.
    pub(crate) holds: Holds,
    /// Copies that are being put back.
    pub(crate) repairs: Repairs,
    /// Memory of answers that were parked, to be used again.
    pub(crate) spare_answers: SpareAnswers,
    /// What goes to other loops and comes from them; none where there is one loop.
    pub(crate) post: Option<Box<Post>>,
    /// When memory that nobody uses is given back; `None` while there was nothing to do since the last time.
    pub(crate) memory_due: Option<Instant>,
    /// When the first client may be overdue; `None` if none can be.
    pub(crate) clients_due: Option<Instant>,
    pub(crate) held: Held,
    /// What is being delivered of a server, where that is kept because it is large.
    pub(crate) large_input: Option<Arc<Vec<u8>>>,
    /// For each slot the one of its server's connection for large values, if it has one.
    pub(crate) apart: Vec<Option<u16>>,
    /// Whether any of those owes a reply, as of the beginning of the turn.
    pub(crate) is_apart_busy: bool,
    /// Reads that bring much.
    pub(crate) bulk_reads: BulkReads,
    /// Connections that are silent, and what second ones say of them.
    pub(crate) second_opinions: SecondOpinions,
    draining: bool,
    pub(crate) jitter: u64,
}

impl Dataplane {
    /// A dataplane that wants to be connected to all servers of `table`.
    pub fn new(config: Config, table: Arc<Table>, now: Instant) -> Self {
        Self::sharing(config, table, Arc::default(), now)
    }

    /// The same, in a process that has several: all of them share one [`Standing`].
    pub fn sharing(config: Config, table: Arc<Table>, standing: Arc<Standing>, now: Instant) -> Self {
        let mut dataplane = Self {
            standing,
            router: Arc::new(Routes::nowhere(&table)),
            former: Vec::new(),
            coming: None,
            generation: 0,
            slots: Vec::new(),
            settling: false,
            backends: Servers::default(),
            greetings: 0,
            keeps_journals: false,
            recorder: Recorder::new(now, 0),
            sessions: Slab::new(),
            services: Services::default(),
            counters: Counters::default(),
            counters_told: Counters::default(),
            tracer: Tracer::default(),
            events: VecDeque::new(),
            changes: Changes::default(),
            dirty: VecDeque::new(),
            resumable: VecDeque::new(),
            spare_gathers: Vec::new(),
            planner: Planner::new(config.seed),
            holds: Holds::default(),
            repairs: Repairs::new(config.read_repair == ReadRepair::On),
            spare_answers: SpareAnswers::default(),
            post: None,
            memory_due: None,
            clients_due: None,
            apart: Vec::new(),
            is_apart_busy: false,
            bulk_reads: BulkReads::default(),
            second_opinions: SecondOpinions::default(),
            large_input: None,
            held: Held::new(&Budget::new(config.buffer_bytes_max)),
            draining: false,
            jitter: config.seed | 1,
            config,
        };
        dataplane.open_post(now);
        dataplane.handle_table(table, now);
        dataplane
    }

    // ── clients ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A client connected. `None`: there are too many; the connection is to be closed.
    pub fn handle_accept(&mut self, now: Instant) -> Option<SessionId> {
        let clients = self.sessions.len() - usize::from(self.post.is_some());
        if clients >= self.config.sessions_max || self.draining {
            self.counters.sessions_refused += 1;
            return None;
        }
        self.counters.sessions_accepted += 1;
        self.watch_clients(self.config.patience.idle_ns, now);
        self.recorder.use_window();
        let mut session = Session::new(&self.config, now);
        session.number = self.counters.sessions_accepted;
        Some(self.sessions.insert(session))
    }

    /// Bytes were read from a client; `now` is when that read returned. All of them are taken, but see [`Dataplane::wants_read`].
    pub fn handle_client_bytes(&mut self, id: SessionId, bytes: &[u8], now: Instant) {
        self.counters.client_bytes_read += bytes.len() as u64;
        self.memory_is_used(now);
        let input = self.sessions[id].intake.read(bytes, now);
        self.consume(id, input, now);
        if self.sessions[id].intake.is_within_request() {
            self.watch_clients(self.config.patience.request_ns, now);
        }
        self.recharge(id);
    }

    /// Whether the driver should read from this client. Turns true again with [`Event::Resume`].
    pub fn wants_read(&self, id: SessionId) -> bool {
        self.sessions.get(id).is_some_and(|session| session.intake.wants_read())
    }

    /// The client will send no more. What it sent is answered, then its connection is closed by [`Event::Close`].
    pub fn handle_client_finished(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.intake.finish();
        }
        self.close_if_settled(id);
    }

    /// The client's connection is gone, or was closed by the driver. Its requests are carried out, and nobody is told.
    pub fn handle_client_closed(&mut self, id: SessionId) {
        let Self { sessions, services, counters, recorder, .. } = self;
        let Some(session) = sessions.get_mut(id).filter(|session| !session.gone) else { return };
        counters.sessions_closed += 1;
        recorder.use_window();
        let mut done = 0;
        let slicing = session.slicing;
        session.abandon(|key, appended| {
            // The others are still at their servers; they find the session gone when they come back.
            if appended || services[key].complete || slicing == Slicing::Ready(key) {
                retire(services, key);
                counters.requests_orphaned += 1;
                done += 1;
            }
        });
        session.in_service -= done;
        if slicing != Slicing::No {
            self.drop_sliced(slicing);
        }
        let session = &mut self.sessions[id];
        if let Some(stalled) = session.stalled.take() {
            self.leave_line(id, &stalled);
        }
        self.recharge(id);
        // The number may soon be another client's.
        self.events.retain(|event| !matches!(event, Event::Close(of) | Event::Resume(of) if *of == id));
        self.free_if_done(id);
    }

    /// Bytes for this client, if [`Dataplane::poll_client_output`] named it or an earlier write was short.
    pub fn client_output(&self, id: SessionId) -> &[u8] {
        self.sessions.get(id).map_or(&[], Session::output)
    }

    /// The next client for which there are bytes to write.
    pub fn poll_client_output(&mut self) -> Option<SessionId> {
        loop {
            let id = self.dirty.pop_front()?;
            let Some(session) = self.sessions.get_mut(id) else { continue };
            session.dirty = false;
            if !session.blocked && !session.output().is_empty() {
                return Some(id);
            }
        }
    }

    /// `count` bytes of [`Dataplane::client_output`] were handed to the kernel by `now`. If that is less than all, the client is
    /// not named again before [`Dataplane::handle_client_writable`]; else it is if there is more.
    pub fn handle_client_written(&mut self, id: SessionId, count: usize, now: Instant) {
        self.counters.client_bytes_written += count as u64;
        self.advance(now);
        let Self { sessions, services, recorder, config, resumable, held, tracer, .. } = self;
        let Some(session) = sessions.get_mut(id) else { return };
        let was_blocked = session.blocked;
        let mut answered = 0;
        session.handle_written(count, |key| {
            let service = &mut services[key];
            service.stamps.answered = now;
            recorder.record_request(service.operation, service.outcome(), &service.stamps);
            tracer.note_answer(service);
            retire(services, key);
            answered += 1;
        });
        session.in_service -= answered;
        if session.intake.is_paused() && may_go_on(session, config, held) {
            resumable.push_back(id);
        }
        if session.blocked {
            if count > 0 || !was_blocked {
                session.unread_since = now;
            }
            self.watch_clients(self.config.patience.unread_ns, now);
        } else if session.out.has_pieces() {
            // Of large replies one after the other is written.
            session.dirty = true;
            self.dirty.push_back(id);
        } else if held.is_pressed() {
            session.out.give_back();
        }
        self.recharge(id);
        if self.sessions[id].charged > 0 {
            // It is to be given back, and nothing else may happen here for long.
            self.memory_is_used(now);
        }
        self.close_if_settled(id);
    }

    /// The kernel takes bytes for this client again.
    pub fn handle_client_writable(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if mem::take(&mut session.blocked) {
            session.dirty = true;
            self.dirty.push_back(id);
        }
    }

    // ── servers ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The connection that [`Event::Connect`] asked for is there.
    pub fn handle_server_connected(&mut self, server: usize, now: Instant) {
        if self.is_second_opinion(server) {
            return self.ask_second_opinion(server, now);
        }
        self.counters.server_connects += 1;
        self.recorder.use_window();
        self.greet(server, now);
    }

    /// The connection could not be made, or the server closed it: nothing of what was sent is carried out any more.
    pub fn handle_server_disconnected(&mut self, server: usize, now: Instant) {
        self.note_may_be_empty(server);
        let state = self.backends[server].state;
        match state {
            State::Up | State::Silent => {
                self.lose_connection(server, Fault::Closed, Ending::ByServer, now);
                self.connect_again(server, DownReason::Closes, now);
            }
            State::Greeting { .. } if self.note_closed_at_question(server) => self.connect(server, now),
            State::Connecting { .. } | State::Greeting { .. } | State::Probing { .. } => {
                self.connect_failed(server, Fault::Connect, now);
            }
            State::Idle | State::Down { .. } => {}
        }
    }

    /// An established connection broke without the server's doing: it may still carry out what was sent.
    pub fn handle_server_broken(&mut self, server: usize, now: Instant) {
        if self.backends[server].is_connected() {
            self.note_may_be_empty(server);
            self.lose_connection(server, Fault::Closed, Ending::Otherwise, now);
            self.connect_again(server, DownReason::Closes, now);
        } else {
            self.handle_server_disconnected(server, now);
        }
    }

    /// Bytes were read from a server; `now` is when that read returned.
    pub fn handle_server_bytes(&mut self, server: usize, bytes: &[u8], now: Instant) {
        self.counters.server_bytes_read += bytes.len() as u64;
        self.memory_is_used(now);
        if self.greetings > 0 && self.backends[server].greeting.is_some() {
            return self.take_greeting(server, bytes, now);
        }
        let delivered = self.deliver_replies(server, bytes, now);
        self.backends.at(server).note_replied(now);
        if let Err(reason) = delivered {
            self.give_up_connection(server, reason, now);
        }
    }

    /// Whether [`Dataplane::poll_server_output`] would name a server.
    pub fn has_server_output(&self) -> bool {
        self.greetings > 0 || self.backends.next_to_write(0).is_some()
    }

    /// The next server after `after` for which there are bytes to write. What is queued for it now counts as taken from the queue.
    pub fn poll_server_output(&mut self, after: Option<usize>, now: Instant) -> Option<usize> {
        let first = after.map_or(0, |server| server + 1);
        if self.greetings > 0
            && let Some(server) = self.next_greeted(first)
        {
            return Some(server);
        }
        let server = self.backends.next_to_write(first)?;
        let Self { backends, services, slots, .. } = self;
        backends.at(server).dequeue(now, |key, queue_length| {
            let service = &mut services[key];
            if let Some(traced) = &mut service.traced {
                // A queue of the driver's is the one that it waited in.
                traced.note_server(&slots[server].name, if service.hosted { 0 } else { queue_length });
            }
            if !service.following && !service.hosted {
                service.stamps.dequeued = now;
            }
        });
        Some(server)
    }

    /// Bytes for this server.
    pub fn server_output(&self, server: usize) -> &[u8] {
        let backend = &self.backends[server];
        if self.greetings > 0
            && let Some(greeting) = &backend.greeting
        {
            return greeting.output();
        }
        backend.output()
    }

    /// Whether this server's connection is established.
    pub fn server_is_up(&self, server: usize) -> bool {
        let backend = &self.backends[server];
        backend.is_connected() || backend.is_greeting()
    }

    /// The kernel takes bytes for this server again.
    pub fn handle_server_writable(&mut self, server: usize) {
        self.backends[server].blocked = false;
    }

    /// `count` bytes of [`Dataplane::server_output`] were handed to the kernel by `now`. If that is less than all, the server is
    /// not named again before [`Dataplane::handle_server_writable`].
    pub fn handle_server_written(&mut self, server: usize, count: usize, now: Instant) {
        self.counters.server_bytes_written += count as u64;
        if self.greetings > 0 && self.note_greeted(server, count) {
            return;
        }
        let Self { backends, services, config, .. } = self;
        backends.at(server).handle_written(count, config.progress_bytes_min, now, |key| {
            let service = &mut services[key];
            if !service.first_sent {
                service.first_sent = true;
                service.stamps.first_sent = now;
            }
            if !service.following {
                service.stamps.forwarded = now;
            }
        });
    }

    // ── time ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Time has passed: gives up what is late, tries dead servers again, lets paused clients go on, closes windows. To be
    /// called once per turn.
    pub fn handle_time(&mut self, now: Instant) {
        let (is_any_late, held_by_backends) = self.backends.look(now);
        if is_any_late {
            self.expire_all(now);
        }
        self.pursue_second_opinions(now);
        self.settle_all(now);
        self.look_apart();
        self.serve_ready_mail(now);
        if self.keeps_journals {
            self.work_on_journals(now);
        }
        self.publish_held(held_by_backends, now);
        self.close_overdue(now);
        if self.bulk_reads.is_waited_for() {
            self.serve_bulk_reads(now);
        }
        while let Some(id) = self.resumable.pop_front() {
            self.resume(id, now);
        }
        self.advance(now);
        self.give_memory_back(now);
    }

    /// When [`Dataplane::handle_time`] must be called at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if !self.resumable.is_empty() || self.holds.has_ready() {
            return Some(Instant::ZERO);
        }
        let timeout = self.config.timeout_ns;
        let waits = sooner(sooner(self.memory_due, self.clients_due), self.next_settled());
        let waits = sooner(waits, self.second_opinions.due());
        let mut earliest = sooner(waits, self.window_ends());
        self.backends.for_each_busy(|backend| {
            if backend.waits_for_nothing() {
                return;
            }
            let connection = match backend.state {
                State::Down { until } => Some(until),
                State::Connecting { since } | State::Greeting { since, .. } | State::Probing { since } => {
                    Some(since.plus(self.config.connect_timeout_ns))
                }
                State::Idle | State::Up | State::Silent => None,
            };
            let errands = sooner(connection, backend.errands_due());
            earliest = sooner(sooner(earliest, errands), backend.next_deadline(timeout));
        });
        earliest
    }

    /// A turn of the driver took this long, from the end of its wait to the beginning of the next. What was given back in it is told to
    /// the others.
    pub fn record_turn(&mut self, nanos: u64) {
        self.held.tell();
        self.recorder.record_turn(nanos);
    }

    /// What the driver is to do next.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    // ── the end, and reports ───────────────────────────────────────────────────────────────────────────────────────────────

    /// No more sessions are accepted, no more requests are taken; every session is closed when its last reply is out.
    pub fn begin_drain(&mut self) {
        self.draining = true;
        let clients = self.sessions.iter().filter(|(_, session)| session.hosted.is_none());
        let ids: Vec<_> = clients.map(|(id, _)| id).collect();
        for id in ids {
            self.handle_client_finished(id);
        }
    }

    /// Whether no client's session is left. Other loops may still have requests in service here.
    pub fn is_drained(&self) -> bool {
        self.sessions.iter().all(|(_, session)| session.hosted.is_some())
    }

    /// The answer to [`Event::Stats`], as it goes to the client.
    pub fn handle_stats(&mut self, request: usize, text: Vec<u8>, now: Instant) {
        let service = &mut self.services[request];
        service.outstanding = 0;
        service.answer = Answer::Owned(text);
        self.finish(request, None, now);
    }

    /// Requests that were read and are not answered yet.
    pub fn in_service(&self) -> usize {
        self.services.len()
    }

    /// Nothing is in service and nothing waits, anywhere: for tests.
    pub fn is_quiet(&self) -> bool {
        self.services.is_empty()
            && self.backends.iter().all(Backend::is_quiet)
            && self.resumable.is_empty()
            && self.holds.is_empty()
            && self.slots_are_settled()
            && self.post_is_quiet()
            && self.repairs.is_quiet()
            && self.bulk_reads.is_quiet()
            && self.second_opinions.is_empty()
    }

    // ── sessions ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    pub(crate) fn close_if_settled(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.hosted.is_some() {
            return;
        }
        if session.intake.is_closed() && session.is_settled() && !session.close_asked && !session.gone {
            session.close_asked = true;
            self.events.push_back(Event::Close(id));
        }
    }

    /// A session outlives its connection until its requests are done, so that no reply can meet another client.
    pub(crate) fn free_if_done(&mut self, id: SessionId) {
        if self.sessions.get(id).is_some_and(|session| session.gone && session.in_service == 0) {
            self.release(id);
            self.sessions.remove(id);
        }
    }
}

/// Whether more requests of this session may be taken.
pub(crate) fn may_take(session: &Session, config: &Config, held: &Held) -> bool {
    session.in_service < session.habits.requests_max() && reads(session, config, held) && session.apart == 0
}

/// Whether a session that is paused may go on.
pub(crate) fn may_go_on(session: &Session, config: &Config, held: &Held) -> bool {
    match session.slicing {
        Slicing::No => may_take(session, config, held),
        Slicing::InService => false,
        Slicing::Ready(_) => reads(session, config, held),
    }
}

/// Whether a client takes what it is sent.
#[inline]
fn reads(session: &Session, config: &Config, held: &Held) -> bool {
    session.buffered_bytes() <= config.session_buffer_bytes_max / 2
        && !(session.blocked && (held.is_pressed() || session.buffered_bytes() > UNREAD_BYTES_MAX))
}

/// Nothing is taken from a client that leaves more than this unread.
const UNREAD_BYTES_MAX: usize = 1 << 20;
