//! The border to the driver: bytes and instants in, bytes and events out.
//!
//! A turn of a driver is: hand in everything that was read; [`Dataplane::handle_time`]; carry out
//! [`Dataplane::poll_event`]; write for [`Dataplane::poll_server_output`], then for [`Dataplane::poll_client_output`]; carry out
//! the events that came of it; wait until a socket is ready or [`Dataplane::poll_timeout`] has come.

use crate::{
    Change, Config, Event, SessionId,
    clients::bulk::Slicing,
    clients::intake::Input,
    clients::sequence::Claim,
    memory::budget::Budget,
    meter::counters::Counters,
    meter::report::Report,
    meter::trace::TraceRow,
    meter::window::LoopWindow,
    replication::fleet::Fleet,
    replication::freshness::Freshness,
    requests::answer::Answer,
    requests::ask_alone::{Sharer, ask_alone},
    requests::base::Base,
    requests::dispatch::{Context, Large},
    requests::failover::{Asked, fail_over, move_late_read},
    requests::writes::leave_line,
    requests::{Requests, bulk_writes},
    servers::backend::sooner,
    servers::happened::{Happened, Lost, Retry},
    servers::order::Order,
};
use std::sync::Arc;
use weir_protocol::Parsed;
use weir_routing::{Server, Table};
use weir_timing::Instant;

/// One event loop's proxy.
#[derive(Debug)]
pub struct Dataplane {
    pub(crate) requests: Requests,
    pub(crate) base: Base,
}

impl Dataplane {
    /// A dataplane that wants to be connected to all servers of `table`.
    pub fn new(config: Config, table: Arc<Table>, now: Instant) -> Self {
        Self::sharing(config, table, Arc::default(), now)
    }

    /// The same, in a process that has several: all of them share one [`Freshness`].
    pub fn sharing(config: Config, table: Arc<Table>, freshness: Arc<Freshness>, now: Instant) -> Self {
        let mut dataplane =
            Self { requests: Requests::new(&config), base: Base::new(config, &table, freshness, now) };
        dataplane.open_mailbox(now);
        dataplane.handle_table(table, now);
        dataplane
    }

    // ── clients ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A client connected. `None`: there are too many; the connection is to be closed.
    pub fn handle_accept(&mut self, now: Instant) -> Option<SessionId> {
        self.base.meter.use_window();
        self.base.clients.accept(now)
    }

    /// Bytes were read from a client; `now` is when that read returned. All of them are taken, but see [`Dataplane::wants_read`].
    pub fn handle_client_bytes(&mut self, id: SessionId, bytes: &[u8], now: Instant) {
        self.base.memory_is_used(now);
        let input = self.base.clients.read(id, bytes, now);
        self.consume(id, input, now);
        self.base.clients.recharge(id);
    }

    /// Whether the driver should read from this client. Turns true again with [`Event::Resume`].
    pub fn wants_read(&self, id: SessionId) -> bool {
        self.base.clients.get(id).is_some_and(|session| session.intake.wants_read())
    }

    /// The client will send no more. What it sent is answered, then its connection is closed by [`Event::Close`].
    pub fn handle_client_finished(&mut self, id: SessionId) {
        self.base.clients.finish(id);
    }

    /// The client's connection is gone, or was closed by the driver. Its requests are carried out, and nobody is told.
    pub fn handle_client_closed(&mut self, id: SessionId) {
        let Self { base: Base { clients, meter, .. }, requests: Requests { services, .. }, .. } = self;
        let Some(slicing) = clients.get(id).map(|session| session.bulk.slicing) else { return };
        let is_closed = clients.close(id, |key, appended| {
            // The others are still at their servers; they find the session gone when they come back.
            let is_done = appended || services[key].complete || slicing == Slicing::Ready(key);
            if is_done {
                services.retire(key);
            }
            is_done
        });
        if !is_closed {
            return;
        }
        meter.use_window();
        if slicing != Slicing::No {
            self.requests.bulk_reads.drop_sliced(slicing);
        }
        if let Some(stalled) = self.base.clients[id].stalled.take() {
            leave_line(&mut self.base, id, &stalled);
        }
        self.base.clients.free_if_done(id);
    }

    /// Bytes for this client, if [`Dataplane::poll_client_output`] named it or an earlier write was short.
    pub fn client_output(&self, id: SessionId) -> &[u8] {
        self.base.clients.get(id).map_or(&[], |session| session.replies.output())
    }

    /// The next client for which there are bytes to write.
    pub fn poll_client_output(&mut self) -> Option<SessionId> {
        self.base.clients.poll_output()
    }

    /// `count` bytes of [`Dataplane::client_output`] were handed to the kernel by `now`. If that is less than all, the client is
    /// not named again before [`Dataplane::handle_client_writable`]; else it is if there is more.
    pub fn handle_client_written(&mut self, id: SessionId, count: usize, now: Instant) {
        self.base.advance(now);
        let Self { base: Base { clients, meter, .. }, requests: Requests { services, .. }, .. } = self;
        let is_charged = clients.handle_written(id, count, now, |key| {
            services[key].record(now, meter);
            services.retire(key);
        });
        if is_charged == Some(true) {
            // It is to be given back, and nothing else may happen here for long.
            self.base.memory_is_used(now);
        }
        self.base.clients.close_if_settled(id);
    }

    /// The kernel takes bytes for this client again.
    pub fn handle_client_writable(&mut self, id: SessionId) {
        self.base.clients.handle_writable(id);
    }

    /// The bytes that are about to be handed in by [`Dataplane::handle_client_bytes`] with the same `now` were received by the kernel at
    /// `arrived`. To be called for every read of a session, or for none.
    pub fn note_arrival(&mut self, id: SessionId, now: Instant, arrived: Option<Instant>) {
        if self.base.clients.get(id).is_some() {
            self.base.clients[id].note_arrival(now, arrived);
        }
    }

    /// Takes requests from the front of `input` while the session may have more in service, and keeps the rest.
    fn consume(&mut self, id: SessionId, input: Input<'_>, now: Instant) {
        let rest = input.rest();
        while let Some(parsed) = self.base.clients.next_request(id, &rest, now) {
            let waits = self.waits(id, &parsed, now);
            let intake = &mut self.base.clients[id].intake;
            if waits {
                intake.pause();
                break;
            }
            let first_byte = intake.take(&rest, &parsed, now);
            self.take(id, parsed, first_byte, now);
        }
        let left = rest.bytes().len();
        self.base.clients.keep(id, input, left, now);
    }

    /// Whether the next request of a session waits for something before it.
    #[inline(always)]
    fn waits(&mut self, id: SessionId, parsed: &Parsed<'_>, now: Instant) -> bool {
        (self.is_spread() && self.waits_for_earlier(id, parsed))
            || bulk_writes::waits(&mut self.base, id, parsed)
            || self.requests.bulk_reads.waits(&mut self.base, id, parsed, now)
            || (self.base.replication.has_locks() && self.waits_for_key(id, parsed, now))
    }

    /// Whether requests of one session may be served at different places.
    #[inline]
    fn is_spread(&self) -> bool {
        self.base.replication.has_mailbox() && self.base.fleet.routes.is_replicated()
    }

    /// Whether a request must wait for earlier ones of its session. If not, what it claims is noted when it is taken.
    fn waits_for_earlier(&mut self, id: SessionId, parsed: &Parsed<'_>) -> bool {
        let claim = Claim::of(parsed, |name| self.other_owner(name).is_some());
        let waits = self.base.clients[id].turns.waits(claim);
        self.base.meter.counters().session_order_waits += u64::from(waits);
        waits
    }

    pub(crate) fn resume(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.base.clients.get(id).filter(|session| !session.is_gone()) else { return };
        if session.is_lent() {
            return self.resume_hosted(id, now);
        }
        if !session.intake.is_paused() {
            return;
        }
        if session.bulk.slicing != Slicing::No {
            return self.go_on_with_slices(id, now);
        }
        let input = self.base.clients.go_on(id);
        self.consume(id, input, now);
        self.base.clients.read_on(id);
    }

    /// Takes what was parsed into service, or refuses it.
    // As a call of its own it costs every request forty instructions.
    #[inline(always)]
    pub(crate) fn take(&mut self, id: SessionId, parsed: Parsed<'_>, first_byte: Instant, now: Instant) {
        let context = |len| Context { session: id, first_byte, now, request_bytes: len };
        match parsed {
            Parsed::Request { request, len } => self.dispatch(request, context(len)),
            Parsed::Refused { refusal, silent, len } => self.refuse(refusal, silent, context(len)),
            Parsed::TooLarge { refusal, key, base64, silent, erases, len, .. } => {
                let large = Large { key, base64, silent, erases, refusal };
                self.refuse_large(large, context(len));
            }
            Parsed::Incomplete { .. } => {}
            Parsed::Hangup { refusal } => {
                if let Some(refusal) = refusal {
                    self.refuse(refusal, false, context(0));
                }
                self.base.clients.hang_up(id);
            }
            Parsed::Foreign { foreign } => self.refuse_foreign(&foreign, context(0)),
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
        self.base.meter.counters().server_bytes_read += bytes.len() as u64;
        self.base.memory_is_used(now);
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
        self.base.fleet.servers.unblock(server);
    }

    /// `count` bytes of [`Dataplane::server_output`] were handed to the kernel by `now`. If that is less than all, the server is
    /// not named again before [`Dataplane::handle_server_writable`].
    pub fn handle_server_written(&mut self, server: usize, count: usize, now: Instant) {
        self.base.meter.counters().server_bytes_written += count as u64;
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
                Happened::Begun(slot) => self.base.meter.begin_server(slot),
                Happened::Times(server, times) => self.base.meter.add_server_times(server, &times),
                Happened::Tried => self.base.meter.use_window(),
                Happened::MayBeEmpty(server) => self.base.fleet.replicas.note_may_be_empty(server),
                Happened::Freed(slot) => self.base.fleet.replicas.forget(slot),
                Happened::Version(server, version) => self.base.fleet.note_version(server, version),
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
        let Lost { request: key, part, keys, server, fault, retry } = lost;
        let (services, base) = (&mut self.requests.services, &mut self.base);
        let asked = Asked { key, part, server, keys: &keys };
        let is_asked = retry != Retry::Never && fail_over(services, base, asked, now)
            || retry == Retry::ElsewhereOrAlone
                && ask_alone(services, base, &Sharer { part, keys: keys.clone() }, server, now);
        if !is_asked {
            self.part_failed((key, part.index()), fault, server, now);
        }
    }

    /// The longest value that any server stores: larger ones are refused before they are read.
    fn learn_item_size(&mut self, largest: usize) {
        // A request is kept whole until it is complete, and counts for its client.
        let bytes = largest.min(self.base.fleet.config.session_buffer_bytes_max);
        if bytes != self.base.fleet.config.limits.value_bytes_max {
            self.base.fleet.config.limits.value_bytes_max = bytes;
            self.base.clients.set_value_bytes_max(bytes);
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
        self.base.meter.counters().tables_replaced += u64::from(self.base.fleet.take_coming_table(now));
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
        self.base.publish_held(held_by_servers, now);
        self.base.clients.close_overdue(now);
        if self.requests.bulk_reads.is_waited_for() {
            self.requests.bulk_reads.look(&self.base);
            while let Some(id) = self.requests.bulk_reads.next(&mut self.base) {
                self.resume(id, now);
            }
        }
        while let Some(id) = self.base.clients.next_to_go_on() {
            self.resume(id, now);
        }
        self.base.advance(now);
        if self.base.give_memory_back(now) {
            self.requests.give_memory_back();
        }
    }

    /// When [`Dataplane::handle_time`] must be called at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.base.clients.is_any_to_go_on() || self.base.replication.has_ready_mail() {
            return Some(Instant::ZERO);
        }
        let settled = self.base.fleet.next_settled();
        let earliest = sooner(sooner(self.base.due(), settled), self.base.fleet.servers.due());
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
                let asked = Asked { key, part, server, keys: &keys };
                if move_late_read(&mut self.requests.services, &mut self.base, asked, now) {
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
        self.base.clients.tell_held();
        self.base.meter.record_turn(nanos);
    }

    /// What the driver is to do next.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(order) = self.base.fleet.servers.poll_order() {
            return Some(match order {
                Order::Connect(server) => Event::Connect(server),
                Order::Disconnect(server) => Event::Disconnect(server),
            });
        }
        self.base.clients.poll_event()
    }

    // ── the end, and reports ───────────────────────────────────────────────────────────────────────────────────────────────

    /// No more sessions are accepted, no more requests are taken; every session is closed when its last reply is out.
    pub fn begin_drain(&mut self) {
        self.base.clients.drain();
    }

    /// Whether no client's session is left. Other loops may still have requests in service here.
    pub fn is_drained(&self) -> bool {
        self.base.clients.count() == 0
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
            && !self.base.clients.is_any_to_go_on()
            && self.base.replication.is_quiet()
            && self.requests.bulk_reads.is_quiet()
    }

    /// The longest value that is taken from clients, in bytes: it changes when a server tells what it stores.
    pub fn value_bytes_max(&self) -> usize {
        self.base.fleet.config.limits.value_bytes_max
    }

    /// The counters, for what a driver does in the place of the dataplane.
    pub fn counters_mut(&mut self) -> &mut Counters {
        self.base.meter.use_window();
        self.base.meter.counters()
    }

    /// Everything that was measured and counted.
    pub fn report(&self, now: Instant) -> Report {
        self.base.report(now)
    }

    /// From now on the limit of what buffers hold is one for all dataplanes that share this budget.
    pub fn share_budget(&mut self, budget: &Arc<Budget>) {
        self.base.clients.share_budget(budget);
    }

    /// The budget that this dataplane shares.
    pub fn budget(&self) -> &Arc<Budget> {
        self.base.budget()
    }

    // ── windows and rows ───────────────────────────────────────────────────────────────────────────────────────────────────

    /// From now on windows are kept for [`Dataplane::poll_window`], and [`Dataplane::poll_timeout`] lets a driver that is idle wake at
    /// the end of one in which something happened.
    pub fn keep_windows(&mut self) {
        self.base.meter.keep_windows();
    }

    /// The oldest window that is over and was not handed out yet, to be called after [`Dataplane::handle_time`]. Seconds in which nothing
    /// happened are left out.
    pub fn poll_window(&mut self) -> Option<LoopWindow> {
        self.base.poll_window(self.requests.services.len())
    }

    /// Whether [`Dataplane::poll_window`] would hand out a window.
    #[inline]
    pub fn has_window(&self) -> bool {
        self.base.meter.has_window()
    }

    /// The open window, if it will be handed out when it is over.
    pub fn used_window(&self) -> Option<u64> {
        self.base.meter.used_window().map(|(index, _)| index)
    }

    /// The open window is over, because the driver ends.
    pub fn end_window(&mut self) {
        if let Some((_, ends)) = self.base.meter.used_window() {
            self.base.advance(ends);
        }
    }

    /// From now on each request is sampled with this probability (above 0, at most 1), by choices that depend on the seed alone. Rows are
    /// kept for [`Dataplane::take_traces`].
    pub fn trace(&mut self, share: f64, seed: u64) {
        self.base.meter.trace(share, seed);
    }

    /// The rows of sampled requests that were answered since the last call, and how many more there were than are kept.
    pub fn take_traces(&mut self, take: impl FnMut(TraceRow)) -> u64 {
        self.base.meter.take_rows(take)
    }
}
