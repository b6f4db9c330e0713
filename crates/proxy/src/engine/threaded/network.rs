//! The network thread: accepts, reads, cuts bytes into requests, queues them, writes what workers could not, closes.
//!
//! It serves nothing. Its dataplane is connected to no server: it answers requests that are refused, because too many wait or because
//! their time was up in the queue, and counts what belongs to clients.

use crate::{
    admin::question::BUSY,
    connections::{
        client_limit::Admitted,
        sockets::{self, Arrived, Reads},
    },
    engine::{
        door::{EVENTS_PER_TURN, READS_PER_TURN},
        making::Making,
        threaded::{
            client::{Client, Next},
            queues::{By, Shared},
            request::{Job, Request},
            session::Session,
            start::DOOR,
        },
    },
    mailbox::{Message, WAKER},
    process::{clock::Clock, cpu_contention::CpuContention},
    records::{traces::Traces, windows::Outlet},
};
use mio::{Events, Interest, Poll, Token, event::Event as Readiness};
use slab::Slab;
use std::{
    io::{self, ErrorKind},
    mem,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, Sender},
    },
    time::Duration,
};
use weir_dataplane::{Dataplane, Event, Fault, Report, SCARCE_LOOK_NS, SessionId};
use weir_timing::Instant;

/// Threads wait for processors if the network thread does for one part in so many of the time in which it could run.
const CROWDED_ONE_IN: u64 = 4;

pub(crate) struct Network {
    poll: Poll,
    mailbox: Receiver<Message>,
    clock: Clock,
    shared: Arc<Shared>,
    sessions: Slab<Session>,
    sessions_max: usize,
    config: weir_dataplane::Config,
    dataplane: Dataplane,
    outlet: Outlet,
    traces: Option<Traces>,
    reads: Reads,
    /// How many writes had waited for another one when the last window was handed over.
    key_waits_told: u64,
    /// Where refused requests are answered.
    refusals: SessionId,
    /// Clients that had more to read than one turn allows, or may be read again.
    unread: Vec<usize>,
    /// When the first client may be overdue; `None` if none can be.
    clients_due: Option<Instant>,
    drain_timeout: Duration,
    drain_until: Option<Instant>,
}

impl Network {
    /// `number` tells its choice of requests to trace from those of the other threads.
    pub(super) fn new(
        making: &Making,
        poll: Poll,
        mailbox: Receiver<Message>,
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
            outlet: making.windows.outlet("network", &mut dataplane),
            reads: Reads::new(tracing.is_some()),
            traces: tracing.map(|tracing| tracing.begin(number, DOOR, &mut dataplane)),
            key_waits_told: 0,
            poll,
            mailbox,
            clock,
            shared,
            sessions: Slab::new(),
            sessions_max: making.config.sessions_max,
            config,
            dataplane,
            unread: Vec::new(),
            clients_due: None,
            drain_timeout: making.config.drain_timeout,
            drain_until: None,
        }
    }

    /// Serves until it was told to drain and has; then the workers end too.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let served = self.serve();
        let ended = self.shared.queues.end();
        self.dataplane.end_window();
        self.hand_over();
        served.and(ended)
    }

    fn serve(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_PER_TURN);
        let mut contention = CpuContention::at_one_in(CROWDED_ONE_IN);
        while !self.is_done() {
            self.wait(&mut events)?;
            let began = self.clock.now();
            if let Some(is_crowded) = contention.look(began) {
                self.shared.queues.look(is_crowded, began);
            }
            self.read_ready(&events);
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
        self.drain_until.is_some_and(|until| self.sessions.is_empty() || self.clock.now() >= until)
    }

    fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        let timeout = if self.unread.is_empty() {
            let times = [
                self.shared.queues.alarm(),
                self.drain_until,
                self.dataplane.poll_timeout(),
                self.clients_due,
            ];
            let until = times.into_iter().flatten().min();
            until.map(|until| Duration::from_nanos(until.saturating_since(self.clock.now())))
        } else {
            Some(Duration::ZERO)
        };
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                events.clear();
                Ok(())
            }
            other => other,
        }
    }

    // ── reading ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    fn read_ready(&mut self, events: &Events) {
        for id in mem::take(&mut self.unread) {
            // Its readiness, and the end of its stream, may have been told while it was not read; they are not told again.
            self.read_client(id, true);
        }
        for event in events {
            if event.token() == WAKER { self.take_messages() } else { self.handle_readiness(event) }
        }
    }

    fn handle_readiness(&mut self, event: &Readiness) {
        let id = event.token().0 - 1;
        if event.is_writable() || event.is_error() || event.is_write_closed() {
            self.write_unsent(id);
        }
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            self.read_client(id, event.is_read_closed());
        }
    }

    fn read_client(&mut self, id: usize, to_the_end: bool) {
        for _ in 0..READS_PER_TURN {
            let Some(session) = self.sessions.get(id).filter(|session| session.wants_read()) else { return };
            match self.reads.read_client(&session.client.connection.stream) {
                Arrived::Bytes(count) => {
                    self.handle_bytes(id, count);
                    // A short read means that the kernel has no more; an end of the stream would not be told again.
                    if self.reads.is_short(count) && !to_the_end {
                        return;
                    }
                }
                Arrived::Nothing => return,
                Arrived::End => return self.handle_finished(id),
                Arrived::Reset | Arrived::Broken => return self.lose(id),
            }
        }
        self.unread.push(id);
    }

    fn handle_bytes(&mut self, id: usize, count: usize) {
        self.dataplane.counters_mut().client_bytes_read += count as u64;
        let (reads, clock) = (mem::take(&mut self.reads), self.clock);
        self.cut(id, |session, now, offer| {
            if let Some(arrived) = reads.arrival(clock, now) {
                session.note_arrival(now, arrived);
            }
            session.handle_bytes(reads.bytes(count), now, offer);
        });
        self.reads = reads;
    }

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
            self.watch_clients(self.config.patience.request_ns);
        }
        refused.into_iter().for_each(|job| self.deny(job, Fault::Queue));
        self.close_if_settled(id);
    }

    /// The client will send no more: what it sent is answered.
    fn handle_finished(&mut self, id: usize) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.intake.finish();
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
            self.shared.attention.ask(client.id);
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

    fn take_messages(&mut self) {
        while let Ok(message) = self.mailbox.try_recv() {
            match message {
                Message::Accept(client) => self.accept(client),
                Message::Refused(refused) => refused.count(self.dataplane.counters_mut()),
                Message::Report(reply) => self.report(&reply),
                // Nothing is asked here that would be answered so.
                Message::Stats { .. } => {}
                Message::Table(routing) => {
                    let now = self.clock.now();
                    self.dataplane.set_timeout(routing.timeout_ns);
                    self.dataplane.handle_table_unconnected(Arc::clone(&routing.table), now);
                    let homeless = self.shared.queues.take_routing(routing, &self.shared);
                    homeless.into_iter().for_each(|job| self.deny(job, Fault::Queue));
                }
                Message::Addresses(book) => self.shared.queues.take_addresses(&book),
                Message::Drain => self.begin_drain(),
            }
        }
    }

    fn accept(&mut self, mut connection: Admitted) {
        let counters = self.dataplane.counters_mut();
        if self.sessions.len() >= self.sessions_max || self.drain_until.is_some() {
            counters.sessions_refused += 1;
            return sockets::refuse(connection.stream);
        }
        counters.sessions_accepted += 1;
        let number = counters.sessions_accepted;
        self.reads.begin_client(&connection.stream);
        let entry = self.sessions.vacant_entry();
        let id = entry.key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        if self.poll.registry().register(&mut connection.stream, Token(1 + id), interest).is_err() {
            counters.sessions_closed += 1;
            return;
        }
        let budget = self.dataplane.budget();
        let client = Arc::new(Client::new(id, connection, budget));
        let mut session = Session::new(client, self.config.limits, budget, self.clock.now());
        session.number = number;
        entry.insert(session);
        self.watch_clients(self.config.patience.idle_ns);
    }

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
                self.watch_clients(self.config.patience.unread_ns);
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
        let found = self.config.patience.look(self.sessions.iter().filter_map(doing), excess, now);
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
        if session.intake.is_finished() {
            self.handle_finished(id);
        } else {
            self.unread.push(id);
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

    /// Requests that had reached this machine are still taken.
    fn begin_drain(&mut self) {
        let ids: Vec<_> = self.sessions.iter().map(|(id, _)| id).collect();
        for id in ids {
            self.read_client(id, false);
            self.handle_finished(id);
        }
        let patience = u64::try_from(self.drain_timeout.as_nanos()).unwrap_or(u64::MAX);
        self.drain_until.get_or_insert(self.clock.now().plus(patience));
    }

    /// Tells of the seconds that are over.
    fn hand_over(&mut self) {
        if let Some(traces) = &self.traces {
            traces.hand_over(&mut self.dataplane);
        }
        let Self { outlet, dataplane, sessions, shared, key_waits_told, .. } = self;
        outlet.hand_over(dataplane, |window| {
            let key_waits = shared.queues.key_waits();
            window.counters.queue_key_waits = key_waits - mem::replace(key_waits_told, key_waits);
            window.sessions = sessions.iter().filter(|(_, session)| !session.gone).count() as u64;
            // Of servers it knows nothing.
            window.servers.clear();
        });
    }

    fn report(&mut self, reply: &Sender<Report>) {
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
}
