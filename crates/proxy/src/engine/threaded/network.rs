//! The network thread: accepts, reads, cuts bytes into requests, queues them, writes what workers could not, closes.
//!
//! It serves nothing. Its dataplane is connected to no server: it answers requests that are refused, because too many wait or because
//! their time was up in the queue, and counts what belongs to clients.

use crate::{
    connections::{
        client_limit::Admitted,
        names::AddressBook,
        reads::Reads,
        transport::{Over, Transport},
    },
    engine::{
        door::{self, Door, EVENTS_PER_TURN, Host},
        making::Making,
        threaded::{
            client::{Client, Next},
            queues::{By, Shared},
            request::{Job, Request},
            session::Session,
            start::DOOR,
        },
    },
    mailbox::{BUSY, Routing},
    process::{clock::Clock, cpu_contention::CpuContention},
    records::{traces::Traces, windows::Outlet},
};
use mio::{Events, Token};
use slab::Slab;
use std::{
    io, mem,
    sync::{Arc, atomic::Ordering, mpsc::Sender},
};
use weir_dataplane::{
    Counters, Dataplane, Event, Fault, Report, RequestKey, SCARCE_LOOK_NS, SessionId, TopKeys,
};
use weir_timing::Instant;

/// Threads wait for processors if the network thread does so for at least 1 / this of the time in which it could run.
const CONTENDED_ONE_IN: u64 = 4;

pub(crate) struct Network {
    door: Door,
    clock: Clock,
    shared: Arc<Shared>,
    sessions: Slab<Session>,
    sessions_max: usize,
    config: weir_dataplane::Config,
    dataplane: Dataplane,
    outlet: Outlet,
    traces: Option<Traces>,
    /// How many writes had waited for another one when the last window was handed over.
    key_waits_reported: u64,
    /// Where refused requests are answered.
    refusals: SessionId,
    /// When the first client may be overdue; `None` if none can be.
    clients_due: Option<Instant>,
}

impl Network {
    /// `number` tells its choice of requests to trace from those of the other threads.
    pub(super) fn new(
        making: &Making,
        door: Door,
        config: weir_dataplane::Config,
        shared: Arc<Shared>,
        number: usize,
    ) -> Self {
        let (clock, tracing) = (making.clock, making.tracing.as_ref());
        let now = clock.now();
        let table = Arc::clone(&making.config.table);
        let mut dataplane = Dataplane::without_servers(config.clone(), table, now);
        dataplane.share_budget(&making.budget);
        Self {
            refusals: dataplane.lend_session(now),
            outlet: making.windows.add_thread("network", &mut dataplane),
            traces: tracing.map(|tracing| tracing.begin(number, DOOR, &mut dataplane)),
            key_waits_reported: 0,
            door,
            clock,
            shared,
            sessions: Slab::new(),
            sessions_max: making.config.settings.max_connections,
            config,
            dataplane,
            clients_due: None,
        }
    }

    /// Serves until it is asked to drain and has drained; then the workers end too.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let served = self.serve();
        let ended = self.shared.queues.end();
        self.dataplane.end_window();
        self.hand_over();
        served.and(ended)
    }

    fn serve(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_PER_TURN);
        let mut contention = CpuContention::at_one_in(CONTENDED_ONE_IN);
        while !self.is_done() {
            self.wait(&mut events)?;
            let began = self.clock.now();
            if let Some(is_contended) = contention.look(began) {
                self.shared.queues.look(is_contended, began);
            }
            door::read_ready(self, &events);
            self.attend();
            self.expire();
            self.close_overdue();
            self.dataplane.handle_time(began);
            self.dataplane.record_turn(self.clock.now().saturating_since(began));
            self.hand_over();
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.door.drain_until().is_some_and(|until| self.sessions.is_empty() || self.clock.now() >= until)
    }

    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        let times = [self.shared.queues.alarm(), self.dataplane.poll_timeout(), self.clients_due];
        self.door.wait(events, times.into_iter().flatten().min(), self.clock.now())
    }

    // ── reading ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Lets a session cut its bytes into requests, and queues those whose turn it is.
    fn cut(&mut self, id: usize, cut: impl FnOnce(&mut Session, Instant, &mut dyn FnMut(Request) -> bool)) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        let mut refused = Vec::new();
        let (shared, client) = (&self.shared, Arc::clone(&session.client));
        // Replies count as much again, so that one client cannot make the proxy keep more than it may.
        let bytes_max = self.config.session_buffer_bytes_max / 2;
        session.intake.set_value_bytes_max(shared.value_bytes_max.load(Ordering::Relaxed));
        cut(session, self.clock.now(), &mut |request| {
            let offered = client.offer(request, bytes_max);
            if let Some(request) = offered.request {
                refused.extend(shared.queues.push(Job::new(Arc::clone(&client), request), By::Network).err());
            }
            offered.is_full
        });
        let counters = self.dataplane.counters_mut();
        counters.requests += mem::take(&mut session.quits);
        counters.sessions_paused += u64::from(session.intake.is_paused());
        counters.requests_refused_memory += mem::take(&mut session.turned_away);
        let is_within_request = session.intake.is_within_request();
        if session.intake.is_paused() && self.dataplane.budget().is_pressed() {
            self.watch_clients(SCARCE_LOOK_NS);
        }
        if is_within_request {
            self.watch_clients(self.config.client_timeouts.request_ns);
        }
        refused.into_iter().for_each(|job| self.deny(job, Fault::Queue));
        self.close_if_settled(id);
    }

    /// The client will send no more: what it sent is answered.
    fn handle_finished(&mut self, id: usize) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.intake.end_input();
        self.close_if_settled(id);
    }

    // ── answering ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Answers a request that no worker will serve, and all behind it that nobody will serve either.
    fn deny(&mut self, job: Job, fault: Fault) {
        let mut denied = Some((job, fault));
        while let Some((job, fault)) = denied.take() {
            let counters = self.dataplane.counters_mut();
            match fault {
                Fault::Queue => counters.queue_refusals_full += 1,
                _ => counters.queue_timeouts += 1,
            }
            job.request.serve(&mut self.dataplane, self.refusals, self.config.limits, Some(fault));
            while let Some(event) = self.dataplane.poll_event() {
                if let Event::Stats { request, .. } = event {
                    self.dataplane.counters_mut().stats_refused += 1;
                    self.dataplane.handle_stats(request, BUSY.to_vec(), self.clock.now());
                }
            }
            while self.dataplane.poll_client_output().is_some() {}
            let next =
                job.client.answer(&mut self.dataplane, (self.refusals, 0), self.clock).unwrap_or_default();
            self.shared.queues.finish(&job);
            denied = self.go_on(&job.client, next).map(|job| (job, Fault::Queue));
        }
    }

    /// Queues the client's next request; gives it back if too many wait.
    fn go_on(&mut self, client: &Arc<Client>, next: Next) -> Option<Job> {
        if next.attention {
            self.shared.attention.ask(client.id());
        }
        let request = next.request?;
        self.shared.queues.push(Job::new(Arc::clone(client), request), By::Network).err()
    }

    fn write_unsent(&mut self, id: usize) {
        let Some(session) = self.sessions.get(id) else { return };
        let client = Arc::clone(&session.client);
        let next = client.write_unsent(&mut self.dataplane, self.clock);
        if let Some(job) = self.go_on(&client, next) {
            self.deny(job, Fault::Queue);
        }
    }

    fn expire(&mut self) {
        for job in self.shared.queues.expire(self.clock.now()) {
            self.deny(job, Fault::Timeout);
        }
    }

    // ── connections ────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Looks at the clients of which a worker said that something changed.
    fn attend(&mut self) {
        for id in self.shared.attention.take() {
            let Some(session) = self.sessions.get(id) else { continue };
            if session.gone || session.client.is_broken() {
                self.lose(id);
            } else if session.intake.is_paused() && !session.client.is_full() {
                self.resume(id);
            } else {
                self.close_if_settled(id);
                self.watch_clients(self.config.client_timeouts.unread_ns);
                let budget = self.dataplane.budget();
                if budget.excess_of(budget.held()) > 0 {
                    self.watch_clients(SCARCE_LOOK_NS);
                }
            }
        }
    }

    /// Something of a client's has begun that may take this long and no longer.
    fn watch_clients(&mut self, limit_ns: u64) {
        if limit_ns > 0 {
            let at = self.clock.now().plus(limit_ns);
            self.clients_due = Some(self.clients_due.map_or(at, |due| due.min(at)));
        }
    }

    /// Closes the connections of clients that are overdue, if it is time to look for any.
    fn close_overdue(&mut self) {
        let Some(due) = self.clients_due else { return };
        let now = self.clock.now();
        if now < due {
            return;
        }
        let budget = self.dataplane.budget();
        let excess = budget.excess_of(budget.held());
        let doing =
            |(id, session): (usize, &Session)| Some((id, session.doing()?, session.client.unsent_bytes()));
        let found = self.config.client_timeouts.look(self.sessions.iter().filter_map(doing), excess, now);
        self.clients_due = found.next_look;
        if excess > 0 {
            self.watch_clients(SCARCE_LOOK_NS);
        }
        self.look_at_paused();
        for (id, why) in found.overdue {
            self.dataplane.counters_mut().note_overdue(why);
            self.lose(id);
        }
    }

    /// Clients that are not read because of what all buffers held are read again when less is held.
    fn look_at_paused(&mut self) {
        let paused = self.sessions.iter().filter(|(_, session)| session.intake.is_paused() && !session.gone);
        let (relaxed, others): (Vec<_>, Vec<_>) =
            paused.map(|(id, _)| id).partition(|&id| self.sessions[id].client.relax());
        relaxed.into_iter().for_each(|id| self.resume(id));
        if !others.is_empty() && self.dataplane.budget().is_pressed() {
            self.watch_clients(SCARCE_LOOK_NS);
        }
    }

    fn resume(&mut self, id: usize) {
        self.cut(id, |session, now, offer| session.resume(now, offer));
        let Some(session) = self.sessions.get(id).filter(|session| !session.intake.is_paused()) else {
            return;
        };
        if session.intake.has_ended_input() {
            self.handle_finished(id);
        } else {
            self.door.read_later(<Self as Host>::token(id));
        }
    }

    /// The connection is gone. The session stays until its requests are done.
    fn lose(&mut self, id: usize) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if !mem::replace(&mut session.gone, true) {
            self.dataplane.counters_mut().sessions_closed += 1;
        }
        let client = Arc::clone(&session.client);
        let next = client.break_off(&mut self.dataplane);
        if let Some(job) = self.go_on(&client, next) {
            self.deny(job, Fault::Queue);
        }
        if client.finish() {
            self.sessions.try_remove(id);
        }
    }

    /// Ends a connection whose replies are all out, if it is to end then.
    fn close_if_settled(&mut self, id: usize) {
        let Some(session) = self.sessions.get(id) else { return };
        if session.intake.is_closed() && !session.gone && session.client.finish() {
            self.sessions.remove(id);
            self.dataplane.counters_mut().sessions_closed += 1;
        }
    }

    // ── the end, and reports ───────────────────────────────────────────────────────────────────────────────────────────────

    /// Tells of the seconds that are over.
    fn hand_over(&mut self) {
        if let Some(traces) = &self.traces {
            traces.hand_over(&mut self.dataplane);
        }
        let Self { outlet, dataplane, sessions, shared, key_waits_reported, .. } = self;
        outlet.hand_over(dataplane, |window| {
            let key_waits = shared.queues.key_waits();
            window.counters.queue_key_waits = key_waits - mem::replace(key_waits_reported, key_waits);
            window.sessions = sessions.iter().filter(|(_, session)| !session.gone).count() as u64;
            // Of servers it knows nothing.
            window.servers.clear();
        });
    }
}

impl Host for Network {
    type Peer = usize;
    type Client = usize;

    #[inline]
    fn door(&mut self) -> &mut Door {
        &mut self.door
    }

    /// The waker's token is the one before.
    fn peer(token: Token) -> usize {
        token.0 - 1
    }

    fn token(id: usize) -> Token {
        Token(1 + id)
    }

    fn client(id: usize) -> usize {
        id
    }

    fn is_client(_: usize) -> bool {
        true
    }

    fn admit(&mut self, _: &Admitted) -> Option<usize> {
        let is_refused = self.sessions.len() >= self.sessions_max || self.door.drain_until().is_some();
        let counters = self.dataplane.counters_mut();
        counters.sessions_refused += u64::from(is_refused);
        counters.sessions_accepted += u64::from(!is_refused);
        (!is_refused).then(|| self.sessions.vacant_key())
    }

    fn seat(&mut self, id: usize, connection: Admitted) {
        let number = self.dataplane.counters_mut().sessions_accepted;
        let budget = self.dataplane.budget();
        let client = Arc::new(Client::new(id, connection, budget));
        let session = Session::new(client, number, self.config.limits, budget, self.clock.now());
        let key = self.sessions.insert(session);
        debug_assert_eq!(key, id, "nobody came in between");
        self.watch_clients(self.config.client_timeouts.idle_ns);
    }

    fn unseat(&mut self, _: usize) {
        self.dataplane.counters_mut().sessions_closed += 1;
    }

    fn client_ids(&self) -> Vec<usize> {
        self.sessions.iter().map(|(id, _)| id).collect()
    }

    #[inline]
    fn transport(&mut self, id: usize) -> Option<impl Transport> {
        let session = self.sessions.get(id).filter(|session| session.wants_read())?;
        Some(session.client.transport())
    }

    fn handle_bytes(&mut self, id: usize, reads: &Reads, count: usize) {
        self.dataplane.counters_mut().client_bytes_read += count as u64;
        let clock = self.clock;
        self.cut(id, |session, now, offer| {
            if let Some(arrived) = reads.arrival(clock, now) {
                session.note_arrival(now, arrived);
            }
            session.handle_bytes(reads.bytes(count), now, offer);
        });
    }

    fn handle_over(&mut self, id: usize, how: Over) {
        match how {
            Over::End => self.handle_finished(id),
            Over::Reset | Over::Broken => self.lose(id),
        }
    }

    fn handle_writable(&mut self, id: usize) {
        self.write_unsent(id);
    }

    fn begin_drain(&mut self) {
        self.client_ids().into_iter().for_each(|id| self.handle_finished(id));
    }

    fn counters(&mut self) -> &mut Counters {
        self.dataplane.counters_mut()
    }

    /// Nothing is asked here that would be answered so.
    fn answer_stats(&mut self, _: RequestKey, _: Vec<u8>) {}

    fn take_routing(&mut self, routing: Routing) {
        let now = self.clock.now();
        self.dataplane.set_timeout(routing.timeout_ns());
        self.dataplane.handle_table_unconnected(Arc::clone(routing.table()), now);
        let homeless = self.shared.queues.take_routing(routing, &self.shared);
        homeless.into_iter().for_each(|job| self.deny(job, Fault::Queue));
    }

    fn take_addresses(&mut self, book: Arc<AddressBook>) {
        self.shared.queues.take_addresses(&book);
    }

    fn report(&mut self, reply: Sender<Report>) {
        let now = self.clock.now();
        self.dataplane.handle_time(now);
        let mut report = self.dataplane.report(now);
        self.shared.queues.report(&mut report);
        report.sessions = self.sessions.iter().filter(|(_, session)| !session.gone).count() as u64;
        report.value_bytes_max = self.shared.value_bytes_max.load(Ordering::Relaxed);
        // Of servers it knows nothing.
        report.servers.clear();
        // Whoever asked may have stopped waiting.
        let _ = reply.send(report);
    }

    fn tell_top_keys(&mut self, reply: &Sender<TopKeys>) {
        // Whoever asked may have stopped waiting.
        let _ = reply.send(self.dataplane.top_keys(self.clock.now()));
    }
}
