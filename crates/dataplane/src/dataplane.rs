//! The border to the driver: bytes and instants in, bytes and events out.
//!
//! A turn of a driver is: hand in everything that was read; [`Dataplane::handle_time`]; carry out
//! [`Dataplane::poll_event`]; write for [`Dataplane::poll_server_output`], then for [`Dataplane::poll_client_output`]; carry out
//! the events that came of it; wait until a socket is ready or [`Dataplane::poll_timeout`] has come.

use crate::{
    Change, Config, SessionId, StatsTopic,
    clients::Clients,
    clients::session::{Session, may_go_on},
    meter::Meter,
    replication::fleet::Fleet,
    replication::freshness::Freshness,
    replication::replicate::retire,
    requests::Requests,
    requests::ask_alone::Sharer,
    requests::base::Base,
    requests::bulk_reads::Slicing,
    requests::service::Answer,
    servers::backend::sooner,
    servers::happened::{Happened, Lost, Retry},
    servers::order::Order,
};
use std::{mem, sync::Arc};
use weir_routing::{Server, Table};
use weir_timing::Instant;

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
    pub(crate) requests: Requests,
    pub(crate) base: Base,
    /// When memory that nobody uses is given back; `None` while there was nothing to do since the last time.
    pub(crate) memory_due: Option<Instant>,
    draining: bool,
}

impl Dataplane {
    /// A dataplane that wants to be connected to all servers of `table`.
    pub fn new(config: Config, table: Arc<Table>, now: Instant) -> Self {
        Self::sharing(config, table, Arc::default(), now)
    }

    /// The same, in a process that has several: all of them share one [`Freshness`].
    pub fn sharing(config: Config, table: Arc<Table>, freshness: Arc<Freshness>, now: Instant) -> Self {
        let mut dataplane = Self {
            requests: Requests::new(&config),
            base: Base::new(config, &table, freshness, now),
            memory_due: None,
            draining: false,
        };
        dataplane.open_post(now);
        dataplane.handle_table(table, now);
        dataplane
    }

    // ── clients ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A client connected. `None`: there are too many; the connection is to be closed.
    pub fn handle_accept(&mut self, now: Instant) -> Option<SessionId> {
        let clients = self.base.clients.sessions.len() - usize::from(self.base.replication.post.is_some());
        if clients >= self.base.fleet.config.sessions_max || self.draining {
            self.base.meter.counters.sessions_refused += 1;
            return None;
        }
        self.base.meter.counters.sessions_accepted += 1;
        self.watch_clients(self.base.fleet.config.patience.idle_ns, now);
        self.base.meter.recorder.use_window();
        let mut session = Session::new(&self.base.fleet.config, now);
        session.number = self.base.meter.counters.sessions_accepted;
        Some(self.base.clients.sessions.insert(session))
    }

    /// Bytes were read from a client; `now` is when that read returned. All of them are taken, but see [`Dataplane::wants_read`].
    pub fn handle_client_bytes(&mut self, id: SessionId, bytes: &[u8], now: Instant) {
        self.base.meter.counters.client_bytes_read += bytes.len() as u64;
        self.memory_is_used(now);
        let input = self.base.clients.sessions[id].intake.read(bytes, now);
        self.consume(id, input, now);
        self.recharge(id);
    }

    /// Whether the driver should read from this client. Turns true again with [`Event::Resume`].
    pub fn wants_read(&self, id: SessionId) -> bool {
        self.base.clients.sessions.get(id).is_some_and(|session| session.intake.wants_read())
    }

    /// The client will send no more. What it sent is answered, then its connection is closed by [`Event::Close`].
    pub fn handle_client_finished(&mut self, id: SessionId) {
        if let Some(session) = self.base.clients.sessions.get_mut(id) {
            session.intake.finish();
        }
        self.close_if_settled(id);
    }

    /// The client's connection is gone, or was closed by the driver. Its requests are carried out, and nobody is told.
    pub fn handle_client_closed(&mut self, id: SessionId) {
        let Self {
            base: Base { clients: Clients { sessions, .. }, meter: Meter { counters, recorder, .. }, .. },
            requests: Requests { services, .. },
            ..
        } = self;
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
        let session = &mut self.base.clients.sessions[id];
        if let Some(stalled) = session.stalled.take() {
            self.leave_line(id, &stalled);
        }
        self.recharge(id);
        // The number may soon be another client's.
        self.base
            .clients
            .events
            .retain(|event| !matches!(event, Event::Close(of) | Event::Resume(of) if *of == id));
        self.free_if_done(id);
    }

    /// Bytes for this client, if [`Dataplane::poll_client_output`] named it or an earlier write was short.
    pub fn client_output(&self, id: SessionId) -> &[u8] {
        self.base.clients.sessions.get(id).map_or(&[], Session::output)
    }

    /// The next client for which there are bytes to write.
    pub fn poll_client_output(&mut self) -> Option<SessionId> {
        loop {
            let id = self.base.clients.dirty.pop_front()?;
            let Some(session) = self.base.clients.sessions.get_mut(id) else { continue };
            session.dirty = false;
            if !session.blocked && !session.output().is_empty() {
                return Some(id);
            }
        }
    }

    /// `count` bytes of [`Dataplane::client_output`] were handed to the kernel by `now`. If that is less than all, the client is
    /// not named again before [`Dataplane::handle_client_writable`]; else it is if there is more.
    pub fn handle_client_written(&mut self, id: SessionId, count: usize, now: Instant) {
        self.base.meter.counters.client_bytes_written += count as u64;
        self.advance(now);
        let Self {
            base:
                Base {
                    clients: Clients { sessions, resumable, held, .. },
                    meter: Meter { recorder, tracer, .. },
                    fleet: Fleet { config, .. },
                    ..
                },
            requests: Requests { services, .. },
            ..
        } = self;
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
            self.watch_clients(self.base.fleet.config.patience.unread_ns, now);
        } else if session.out.has_pieces() {
            // Of large replies one after the other is written.
            session.dirty = true;
            self.base.clients.dirty.push_back(id);
        } else if held.is_pressed() {
            session.out.give_back();
        }
        self.recharge(id);
        if self.base.clients.sessions[id].charged > 0 {
            // It is to be given back, and nothing else may happen here for long.
            self.memory_is_used(now);
        }
        self.close_if_settled(id);
    }

    /// The kernel takes bytes for this client again.
    pub fn handle_client_writable(&mut self, id: SessionId) {
        let Some(session) = self.base.clients.sessions.get_mut(id) else { return };
        if mem::take(&mut session.blocked) {
            session.dirty = true;
            self.base.clients.dirty.push_back(id);
        }
    }

    // ── servers ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The connection that [`Event::Connect`] asked for is there.
    pub fn handle_server_connected(&mut self, server: usize, now: Instant) {
        self.base.fleet.servers.handle_connected(server, now);
        self.take_happened(now);
    }

    /// The connection could not be made, or the server closed it: nothing of what was sent is carried out any more.
    pub fn handle_server_disconnected(&mut self, server: usize, now: Instant) {
        self.base.fleet.servers.handle_disconnected(server, now);
        self.take_happened(now);
    }

    /// An established connection broke without the server's doing: it may still carry out what was sent.
    pub fn handle_server_broken(&mut self, server: usize, now: Instant) {
        self.base.fleet.servers.handle_broken(server, now);
        self.take_happened(now);
    }

    /// Bytes were read from a server; `now` is when that read returned.
    pub fn handle_server_bytes(&mut self, server: usize, bytes: &[u8], now: Instant) {
        self.base.meter.counters.server_bytes_read += bytes.len() as u64;
        self.memory_is_used(now);
        if self.base.fleet.servers.is_greeting(server) {
            self.base.fleet.servers.take_greeting(server, bytes, now);
            return self.take_happened(now);
        }
        // A server may speak that owes nothing.
        self.base.fleet.servers.wake(server);
        let delivered = self.deliver_replies(server, bytes, now);
        self.base.fleet.servers.at(server).note_replied(now);
        if let Err(reason) = delivered {
            self.base.fleet.servers.give_up_connection(server, reason, now);
            self.take_happened(now);
        }
    }

    /// Whether [`Dataplane::poll_server_output`] would name a server.
    pub fn has_server_output(&self) -> bool {
        self.base.fleet.servers.wants_write()
    }

    /// The next server after `after` for which there are bytes to write. What is queued for it now counts as taken from the queue.
    pub fn poll_server_output(&mut self, after: Option<usize>, now: Instant) -> Option<usize> {
        let (server, is_greeting) =
            self.base.fleet.servers.next_output(after.map_or(0, |server| server + 1))?;
        if is_greeting {
            return Some(server);
        }
        let Self {
            base: Base { fleet: Fleet { servers, .. }, .. }, requests: Requests { services, .. }, ..
        } = self;
        servers.dequeue(server, now, |key, queue_length, name| {
            let service = &mut services[key];
            if let Some(traced) = &mut service.traced {
                // A queue of the driver's is the one that it waited in.
                traced.note_server(name, if service.hosted { 0 } else { queue_length });
            }
            if !service.following && !service.hosted {
                service.stamps.dequeued = now;
            }
        });
        Some(server)
    }

    /// Bytes for this server.
    pub fn server_output(&self, server: usize) -> &[u8] {
        self.base.fleet.servers.output(server)
    }

    /// Whether this server's connection is established.
    pub fn server_is_up(&self, server: usize) -> bool {
        self.base.fleet.servers.is_up(server)
    }

    /// The kernel takes bytes for this server again.
    pub fn handle_server_writable(&mut self, server: usize) {
        self.base.fleet.servers[server].blocked = false;
    }

    /// `count` bytes of [`Dataplane::server_output`] were handed to the kernel by `now`. If that is less than all, the server is
    /// not named again before [`Dataplane::handle_server_writable`].
    pub fn handle_server_written(&mut self, server: usize, count: usize, now: Instant) {
        self.base.meter.counters.server_bytes_written += count as u64;
        let Self {
            base: Base { fleet: Fleet { servers, .. }, .. }, requests: Requests { services, .. }, ..
        } = self;
        servers.handle_written(server, count, now, |key| {
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

    /// What has become of requests and servers without a reply, in its order.
    #[cold]
    pub(crate) fn take_happened(&mut self, now: Instant) {
        while let Some(happened) = self.base.fleet.servers.poll_happened() {
            match happened {
                Happened::Begun(slot) => self.base.meter.recorder.begin_server(slot),
                Happened::Times(server, times) => self.base.meter.recorder.add_server_times(server, &times),
                Happened::Tried => self.base.meter.recorder.use_window(),
                Happened::MayBeEmpty(server) => self.base.fleet.replicas.note_may_be_empty(server),
                Happened::Freed(slot) => self.base.fleet.replicas.forget(slot),
                Happened::Version(server, version) => self.note_version(server, version),
                Happened::ItemSize(bytes) => self.learn_item_size(bytes),
                Happened::Lost(lost) => self.lose(*lost, now),
                Happened::Ended { server, errands, ending } => {
                    let Self { base: Base { fleet: Fleet { replicas, servers, .. }, .. }, .. } = self;
                    replicas.lose_errands(server, (errands, ending), servers, now);
                }
            }
        }
    }

    /// A part of a request got no answer: it is asked for again, or its request fails.
    fn lose(&mut self, lost: Lost, now: Instant) {
        let Lost { request, part, keys, server, fault, retry } = lost;
        let is_asked = match retry {
            Retry::Never => false,
            Retry::Elsewhere => self.fail_over(request, part, server, &keys, now),
            Retry::ElsewhereOrAlone => {
                self.fail_over(request, part, server, &keys, now)
                    || self.ask_alone(&Sharer { part, keys }, server, now)
            }
        };
        if !is_asked {
            self.part_failed((request, part.index), fault, server, now);
        }
    }

    /// The longest value that any server stores: larger ones are refused before they are read.
    fn learn_item_size(&mut self, largest: usize) {
        // A request is kept whole until it is complete, and counts for its client.
        let bytes = largest.min(self.base.fleet.config.session_buffer_bytes_max);
        if bytes != self.base.fleet.config.limits.value_bytes_max {
            self.base.fleet.config.limits.value_bytes_max = bytes;
            self.base
                .clients
                .sessions
                .iter_mut()
                .for_each(|(_, session)| session.intake.set_value_bytes_max(bytes));
        }
    }

    // ── tables ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// From now on keys go where `table` says. Nothing that is in service fails because of it: servers that the table does not name
    /// answer what they were asked, then their connections are dropped. Where so many servers of earlier tables have not answered yet
    /// that there is no room for more, the table is taken as soon as there is.
    pub fn handle_table(&mut self, table: Arc<Table>, now: Instant) {
        self.base.fleet.offer(table);
        self.take_coming_table(now);
    }

    fn take_coming_table(&mut self, now: Instant) {
        self.base.meter.counters.tables_replaced += u64::from(self.base.fleet.take_coming_table(now));
        self.take_happened(now);
        self.base.fleet.prepare();
    }

    /// How long servers may take, for requests that come later.
    pub fn set_timeout(&mut self, timeout_ns: u64) {
        self.base.fleet.config.timeout_ns = timeout_ns;
        self.base.fleet.servers.set_timeout(timeout_ns);
    }

    /// Connects to a server of the table, if nothing was sent to it yet: with [`crate::Config::connects_when_needed`].
    pub fn handle_server_wanted(&mut self, server: &Server, now: Instant) {
        self.base.fleet.servers.want(server, now);
    }

    /// Where the server is that has this number: to be asked when [`Event::Connect`] names it.
    pub fn server(&self, slot: usize) -> &Server {
        self.base.fleet.servers.slots.server(slot)
    }

    /// The numbers of the servers that are to be connected, leaving ones included.
    pub fn connected_servers(&self) -> impl Iterator<Item = usize> {
        self.base.fleet.servers.slots.in_use()
    }

    /// The server's name has other addresses than the one that it is connected to. The connection is made anew when all that was
    /// sent on it is answered; what comes meanwhile waits. One that leaves keeps its connection until it has answered.
    pub fn handle_server_moved(&mut self, slot: usize) {
        self.base.fleet.servers.move_server(slot);
    }

    /// Whether this is a further connection to a server that has one: for tests.
    pub fn is_second(&self, slot: usize) -> bool {
        self.base.fleet.servers.is_second(slot)
    }

    /// How many requests on a connection that is in use were late since anything was heard of it: for tests.
    pub fn late_in_a_row(&self, slot: usize) -> u32 {
        self.base.fleet.servers.late_in_a_row(slot)
    }

    /// The next change of a server's state that the operator may want to know.
    #[inline]
    pub fn poll_change(&mut self) -> Option<Change> {
        self.base.fleet.servers.poll_change()
    }

    /// Whether [`Dataplane::poll_change`] has one.
    #[inline]
    pub fn has_changes(&self) -> bool {
        self.base.fleet.servers.has_changes()
    }

    // ── time ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Time has passed: gives up what is late, tries dead servers again, lets paused clients go on, closes windows. To be
    /// called once per turn.
    pub fn handle_time(&mut self, now: Instant) {
        let (is_any_late, held_by_servers) = self.base.fleet.servers.look(now);
        if is_any_late {
            self.expire_all(now);
        }
        if self.base.fleet.servers.pursues_second_opinions() {
            self.base.fleet.servers.pursue_second_opinions(now);
            self.take_happened(now);
        }
        self.settle_all(now);
        self.base.fleet.servers.look_at_bulk();
        self.serve_ready_mail(now);
        if !self.base.fleet.replicas.is_empty() {
            self.base.fleet.replicas.work(&mut self.base.fleet.servers, now);
        }
        self.publish_held(held_by_servers, now);
        self.close_overdue(now);
        if self.requests.bulk_reads.is_waited_for() {
            self.serve_bulk_reads(now);
        }
        while let Some(id) = self.base.clients.resumable.pop_front() {
            self.resume(id, now);
        }
        self.advance(now);
        self.give_memory_back(now);
    }

    /// When [`Dataplane::handle_time`] must be called at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if !self.base.clients.resumable.is_empty() || self.base.replication.holds.has_ready() {
            return Some(Instant::ZERO);
        }
        let waits = sooner(sooner(self.memory_due, self.base.clients.due), self.window_ends());
        let settled = self.base.fleet.next_settled();
        let earliest = sooner(sooner(waits, settled), self.base.fleet.servers.due());
        if self.base.fleet.replicas.is_empty() {
            earliest
        } else {
            sooner(earliest, self.base.fleet.replicas.due(&self.base.fleet.servers))
        }
    }

    /// Gives up what is late, server by server.
    #[cold]
    fn expire_all(&mut self, now: Instant) {
        let mut next = 0;
        while let Some(server) = self.base.fleet.servers.next_busy(next) {
            let late = self.base.fleet.servers.look_at_time(server, now);
            self.take_happened(now);
            for (place, key, part, keys) in late {
                if self.move_late_read((key, part), server, &keys, now) {
                    self.base.fleet.servers[server].note_moved(place);
                }
            }
            self.base.fleet.servers.give_up_late(server, now);
            self.take_happened(now);
            next = server + 1;
        }
    }

    /// Ends connections that have waited for their last replies.
    pub(crate) fn settle_all(&mut self, now: Instant) {
        if !self.base.fleet.servers.is_any_to_settle() {
            return;
        }
        let is_any_free = self.base.fleet.settle_all(now);
        self.take_happened(now);
        if is_any_free {
            self.take_coming_table(now);
        }
    }

    /// A turn of the driver took this long, from the end of its wait to the beginning of the next. What was given back in it is told to
    /// the others.
    pub fn record_turn(&mut self, nanos: u64) {
        self.base.clients.held.tell();
        self.base.meter.recorder.record_turn(nanos);
    }

    /// What the driver is to do next.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(order) = self.base.fleet.servers.poll_order() {
            return Some(match order {
                Order::Connect(server) => Event::Connect(server),
                Order::Disconnect(server) => Event::Disconnect(server),
            });
        }
        self.base.clients.events.pop_front()
    }

    // ── the end, and reports ───────────────────────────────────────────────────────────────────────────────────────────────

    /// No more sessions are accepted, no more requests are taken; every session is closed when its last reply is out.
    pub fn begin_drain(&mut self) {
        self.draining = true;
        let clients = self.base.clients.sessions.iter().filter(|(_, session)| session.hosted.is_none());
        let ids: Vec<_> = clients.map(|(id, _)| id).collect();
        for id in ids {
            self.handle_client_finished(id);
        }
    }

    /// Whether no client's session is left. Other loops may still have requests in service here.
    pub fn is_drained(&self) -> bool {
        self.base.clients.sessions.iter().all(|(_, session)| session.hosted.is_some())
    }

    /// The answer to [`Event::Stats`], as it goes to the client.
    pub fn handle_stats(&mut self, request: usize, text: Vec<u8>, now: Instant) {
        let service = &mut self.requests.services[request];
        service.outstanding = 0;
        service.answer = Answer::Owned(text);
        self.finish(request, None, now);
    }

    /// Requests that were read and are not answered yet.
    pub fn in_service(&self) -> usize {
        self.requests.services.len()
    }

    /// Nothing is in service and nothing waits, anywhere: for tests.
    pub fn is_quiet(&self) -> bool {
        self.requests.services.is_empty()
            && self.base.fleet.servers.is_quiet()
            && !self.base.fleet.is_one_coming()
            && self.base.clients.resumable.is_empty()
            && self.base.replication.holds.is_empty()
            && self.post_is_quiet()
            && self.base.replication.repairs.is_quiet()
            && self.requests.bulk_reads.is_quiet()
    }

    // ── sessions ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    pub(crate) fn close_if_settled(&mut self, id: SessionId) {
        let Some(session) = self.base.clients.sessions.get_mut(id) else { return };
        if session.hosted.is_some() {
            return;
        }
        if session.intake.is_closed() && session.is_settled() && !session.close_asked && !session.gone {
            session.close_asked = true;
            self.base.clients.events.push_back(Event::Close(id));
        }
    }

    /// A session outlives its connection until its requests are done, so that no reply can meet another client.
    pub(crate) fn free_if_done(&mut self, id: SessionId) {
        if self.base.clients.sessions.get(id).is_some_and(|session| session.gone && session.in_service == 0) {
            self.release(id);
            self.base.clients.sessions.remove(id);
        }
    }
}
