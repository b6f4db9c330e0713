//! The border to the driver: bytes and instants in, bytes and events out.
//!
//! A turn of a driver is: hand in everything that was read; [`Dataplane::handle_time`]; carry out
//! [`Dataplane::poll_event`]; write for [`Dataplane::poll_server_output`], then for [`Dataplane::poll_client_output`]; carry out
//! the events that came of it; wait until a socket is ready or [`Dataplane::poll_timeout`] has come.

use crate::{
    Budget, Change, Config, Counters, Event, Fault, Freshness, Login, LoopId, LoopWindow, Mail, Report,
    RequestKey, ServerLogins, SessionId, Slot, Taken, TopKeys, TraceRow, Unsent, Users,
    requests::admission::{consume, serve, take_mail},
    requests::base::Base,
    requests::deliver::deliver,
    requests::turn::{settle_all, take_coming_table, take_happened, take_turn},
    requests::{Requests, lent},
    servers::backend::Backend,
    servers::order::Order,
};
use std::sync::Arc;
use weir_protocol::Parsed;
use weir_routing::{Server, Table};
use weir_timing::Instant;

/// One event loop's proxy.
#[derive(Debug)]
pub struct Dataplane {
    requests: Requests,
    base: Base,
}

impl Dataplane {
    /// A dataplane that wants to be connected to all servers of `table`.
    pub fn new(config: Config, table: Arc<Table>, now: Instant) -> Self {
        Self::sharing(config, table, Arc::default(), now)
    }

    /// The same, in a process that has several: all of them share one [`Freshness`].
    pub fn sharing(config: Config, table: Arc<Table>, freshness: Arc<Freshness>, now: Instant) -> Self {
        let requests = Requests::new(&config, &freshness);
        let mut dataplane = Self { requests, base: Base::new(config, &table, freshness, now) };
        dataplane.base.open_mailbox(now);
        dataplane.handle_table(table, now);
        dataplane
    }

    // ── clients ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A client connected. `None`: there are too many; the connection is to be closed.
    pub fn handle_accept(&mut self, login: Login, now: Instant) -> Option<SessionId> {
        self.base.meter.use_window();
        self.base.clients.accept(login, now)
    }

    /// Bytes were read from a client; `now` is when that read returned. All of them are taken, but see [`Dataplane::wants_read`].
    pub fn handle_client_bytes(&mut self, id: SessionId, bytes: &[u8], now: Instant) {
        self.base.memory_is_used(now);
        let input = self.base.clients.read(id, bytes, now);
        consume(&mut self.requests, &mut self.base, id, input, now);
        self.base.clients.recharge(id);
    }

    /// Whether the driver should read from this client. Claims true again with [`Event::Resume`].
    pub fn wants_read(&self, id: SessionId) -> bool {
        self.base.clients.get(id).is_some_and(|session| session.intake.wants_read())
    }

    /// The client will send no more. What it sent is answered, then its connection is closed by [`Event::Close`].
    pub fn handle_client_finished(&mut self, id: SessionId) {
        self.base.clients.end_input(id);
    }

    /// The client's connection is gone, or was closed by the driver. Its requests are carried out, and nobody learns the outcome.
    pub fn handle_client_closed(&mut self, id: SessionId) {
        self.requests.close(&mut self.base, id);
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
        self.requests.note_written(&mut self.base, id, count, now);
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

    /// Who may log in, where clients must, and how the proxy logs in to servers that want it, from now on.
    pub fn handle_logins(&mut self, users: Option<&Arc<Users>>, logins: Option<&Arc<ServerLogins>>) {
        users.cloned().into_iter().for_each(|users| self.base.clients.set_users(users));
        self.base.fleet.servers.set_logins(logins);
    }

    /// The client has shown a certificate with these names. They are asked for if they may say who it is.
    pub fn handle_certificate(&mut self, id: SessionId, names: impl FnOnce() -> Vec<String>) {
        self.base.clients.show_certificate(id, names);
    }

    // ── servers ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The connection that [`Event::Connect`] asked for is there.
    pub fn handle_server_connected(&mut self, server: Slot, now: Instant) {
        self.base.fleet.servers.handle_connected(server, now);
        take_happened(&mut self.requests, &mut self.base, now);
    }

    /// The connection could not be made, or the server closed it: nothing of what was sent is carried out any more.
    pub fn handle_server_disconnected(&mut self, server: Slot, now: Instant) {
        self.base.fleet.servers.handle_disconnected(server, now);
        take_happened(&mut self.requests, &mut self.base, now);
    }

    /// An established connection broke without the server's doing: it may still carry out what was sent.
    pub fn handle_server_broken(&mut self, server: Slot, now: Instant) {
        self.base.fleet.servers.handle_broken(server, now);
        take_happened(&mut self.requests, &mut self.base, now);
    }

    /// Bytes were read from a server; `now` is when that read returned.
    pub fn handle_server_bytes(&mut self, server: Slot, bytes: &[u8], now: Instant) {
        deliver(&mut self.requests, &mut self.base, server, bytes, now);
    }

    /// Whether [`Dataplane::poll_server_output`] would name a server.
    pub fn has_server_output(&self) -> bool {
        self.base.fleet.servers.wants_write()
    }

    /// The next server after `after` for which there are bytes to write. What is queued for it now counts as taken from the queue.
    pub fn poll_server_output(&mut self, after: Option<Slot>, now: Instant) -> Option<Slot> {
        let servers = &mut self.base.fleet.servers;
        let (server, is_greeting) = servers.next_output(after.map_or(0, |server| server.index() + 1))?;
        if !is_greeting {
            servers.dequeue(server, now, |key, queue_length, name| {
                self.requests[key].note_dequeued(name, queue_length, now);
            });
        }
        Some(server)
    }

    /// Bytes for this server.
    pub fn server_output(&self, server: Slot) -> &[u8] {
        self.base.fleet.servers.output(server)
    }

    /// Where in [`Dataplane::server_output`] each message ends, in their order. There may be more of them than bytes to write now.
    pub fn server_message_ends(&self, server: Slot) -> impl Iterator<Item = usize> {
        self.base.fleet.servers.message_ends(server)
    }

    /// Whether this server's connection is established.
    pub fn server_is_up(&self, server: Slot) -> bool {
        self.base.fleet.servers.is_up(server)
    }

    /// The kernel takes bytes for this server again.
    pub fn handle_server_writable(&mut self, server: Slot) {
        self.base.fleet.servers.unblock(server);
    }

    /// `count` bytes of [`Dataplane::server_output`] were handed to the kernel by `now`. If that is less than all, the server is
    /// not named again before [`Dataplane::handle_server_writable`].
    pub fn handle_server_written(&mut self, server: Slot, count: usize, now: Instant) {
        self.base.meter.counters().server_bytes_written += count as u64;
        let servers = &mut self.base.fleet.servers;
        servers.handle_written(server, count, now, |key| self.requests[key].note_forwarded(now));
    }

    /// Where the server is that has this number: to be asked when [`Event::Connect`] names it.
    pub fn server(&self, slot: Slot) -> &Server {
        self.base.fleet.servers.slots().server(slot)
    }

    /// The numbers of the servers that are to be connected, leaving ones included.
    pub fn connected_servers(&self) -> impl Iterator<Item = Slot> {
        self.base.fleet.servers.slots().in_use()
    }

    /// The server is reached otherwise than it is connected to. The connection is made anew when all that was sent on it is answered; what
    /// comes meanwhile waits. One that leaves keeps its connection until it has answered.
    pub fn handle_server_moved(&mut self, slot: Slot) {
        self.base.fleet.servers.move_server(slot);
    }

    /// Connects to a server of the table, if nothing was sent to it yet: with [`crate::Config::connects_when_needed`].
    pub fn handle_server_wanted(&mut self, server: &Server, now: Instant) {
        self.base.fleet.servers.want(server, now);
    }

    /// Whether this is a further connection to a server that has one: for tests.
    pub fn is_second(&self, slot: Slot) -> bool {
        self.base.fleet.servers.is_second(slot)
    }

    /// How many requests on a connection that is in use were late since anything was heard of it: for tests.
    pub fn late_in_a_row(&self, slot: Slot) -> u32 {
        self.base.fleet.servers.late_in_a_row(slot)
    }

    /// The next change of a server's state that the operator may want to know.
    pub fn poll_change(&mut self) -> Option<Change> {
        self.base.fleet.servers.poll_change()
    }

    /// Whether [`Dataplane::poll_change`] has one.
    pub fn has_changes(&self) -> bool {
        self.base.fleet.servers.has_changes()
    }

    // ── tables ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// From now on keys go where `table` says. Nothing that is in service fails because of it: servers that it does not name answer what they
    /// were asked, and keep their places until then. Where they leave too little room for the table, it is taken as soon as there is enough.
    pub fn handle_table(&mut self, table: Arc<Table>, now: Instant) {
        self.base.fleet.offer(table);
        take_coming_table(&mut self.requests, &mut self.base, now);
    }

    /// [`Dataplane::handle_table`], for a dataplane [`Dataplane::without_servers`].
    pub fn handle_table_unconnected(&mut self, table: Arc<Table>, now: Instant) {
        self.handle_table(table, now);
        // Nobody waits for a reply of a server that leaves: all of them have left after this.
        settle_all(&mut self.requests, &mut self.base, now);
        self.forget_connections(now);
    }

    fn forget_connections(&mut self, now: Instant) {
        self.base.fleet.servers.forget_all(now);
        take_happened(&mut self.requests, &mut self.base, now);
    }

    /// How long servers may take, for requests that come later.
    pub fn set_timeout(&mut self, timeout_ns: u64) {
        self.base.fleet.config.timeout_ns = timeout_ns;
        self.base.fleet.servers.set_timeout(timeout_ns);
    }

    // ── other loops ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Mail for another dataplane of the same proxy, and the number of its loop.
    pub fn poll_mail(&mut self) -> Option<(LoopId, Mail)> {
        self.base.replication.poll_mail()
    }

    /// Mail has come; `now` is not earlier than the instant at which it was handed out.
    pub fn handle_mail(&mut self, mail: Mail, now: Instant) {
        take_mail(&mut self.requests, &mut self.base, mail, now);
    }

    // ── requests that the driver has read ───────────────────────────────────────────────────────────────────────────────────

    /// A dataplane that is connected to no server and will not be: it only answers what is refused, and counts.
    pub fn without_servers(config: Config, table: Arc<Table>, now: Instant) -> Self {
        let mut dataplane = Self::new(config, table, now);
        dataplane.forget_connections(now);
        dataplane
    }

    /// A session for [`Dataplane::serve`]. It counts nowhere, and lives as long as the dataplane.
    pub fn lend_session(&mut self, now: Instant) -> SessionId {
        self.base.clients.lend(now)
    }

    /// Takes a request into service that was taken from its client by somebody else. With a `denied`, no server is asked: who
    /// needs one is answered with that fault.
    pub fn serve(&mut self, id: SessionId, parsed: Parsed<'_>, taken: Taken, denied: Option<Fault>) {
        serve(&mut self.requests, &mut self.base, id, (parsed, taken), denied);
    }

    /// The reply, as soon as the request needs nothing more; empty where the client asked for silence. Of a large one what is to be written
    /// next: after [`Dataplane::release_lent`] the rest is handed out.
    pub fn lent_reply(&self, id: SessionId) -> Option<&[u8]> {
        lent::reply(&self.base, id)
    }

    /// `count` bytes of the reply were handed to the kernel by `now`. The session is free again; what is left of the reply is
    /// handed out, for [`Dataplane::note_unsent_written`].
    pub fn release_lent(&mut self, id: SessionId, count: usize, now: Instant) -> Option<Unsent> {
        lent::release(&mut self.requests, &mut self.base, id, count, now)
    }

    /// The client is gone. The session is free again.
    pub fn abandon_lent(&mut self, id: SessionId) {
        lent::abandon(&mut self.requests, &mut self.base, id);
    }

    /// The last byte of what was left of a reply is with the kernel.
    pub fn note_unsent_written(&mut self, unsent: &mut Unsent, now: Instant) {
        lent::note_unsent_written(&mut self.base, unsent, now);
    }

    /// Whether the request that was handed in last was answered without all its replies: some server may still carry it out.
    pub fn is_given_up(&self) -> bool {
        // Replies come in the order of the messages, so what is owed includes the last.
        self.base.fleet.servers.busy().any(|it| it.has_new_requests() && it.may_undo())
    }

    /// Whether a server still owes a reply. While no request is in service, that is one to a request that was given up.
    pub fn is_owed_replies(&self) -> bool {
        self.base.fleet.servers.busy().any(Backend::may_undo)
    }

    // ── time ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Time has passed: gives up what is late, tries dead servers again, lets paused clients go on, closes windows. To be
    /// called once per turn.
    #[inline]
    pub fn handle_time(&mut self, now: Instant) {
        take_turn(&mut self.requests, &mut self.base, now);
    }

    /// When [`Dataplane::handle_time`] must be called at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.requests.due(&self.base)
    }

    /// A turn of the driver took this long, from the end of its wait to the beginning of the next. What was given back in it is reported to
    /// the others.
    pub fn record_turn(&mut self, nanos: u64) {
        self.base.tell_held();
        self.base.meter.record_turn(nanos);
    }

    /// Whether [`Dataplane::poll_event`] has one.
    #[inline]
    pub fn has_events(&self) -> bool {
        self.base.fleet.servers.has_orders() || self.base.clients.has_events()
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

    // ── the end, and reports ────────────────────────────────────────────────────────────────────────────────────────────────

    /// No more sessions are accepted, no more requests are taken; every session is closed when its last reply is out.
    pub fn begin_drain(&mut self) {
        self.base.clients.drain();
    }

    /// Whether no client's session is left. Other loops may still have requests in service here.
    pub fn is_drained(&self) -> bool {
        self.base.clients.count() == 0
    }

    /// The answer to [`Event::Stats`], as it goes to the client.
    pub fn handle_stats(&mut self, request: RequestKey, text: Vec<u8>, now: Instant) {
        self.requests.answer_stats(&mut self.base, request, text, now);
    }

    /// Requests that were read and are not answered yet.
    pub fn in_service(&self) -> usize {
        self.requests.len()
    }

    /// Nothing is in service and nothing waits, anywhere: for tests.
    pub fn is_quiet(&self) -> bool {
        self.requests.is_quiet() && self.base.is_quiet()
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

    /// The keys that are asked for most, over the last 30 to 60 seconds.
    pub fn top_keys(&self, now: Instant) -> TopKeys {
        self.base.meter.top_keys(now)
    }

    /// From now on the limit of what buffers hold is one for all dataplanes that share this budget.
    pub fn share_budget(&mut self, budget: &Arc<Budget>) {
        self.base.share_budget(budget);
    }

    /// The budget that this dataplane shares.
    pub fn budget(&self) -> &Arc<Budget> {
        self.base.budget()
    }

    // ── windows and rows ────────────────────────────────────────────────────────────────────────────────────────────────────

    /// From now on windows are kept for [`Dataplane::poll_window`], and [`Dataplane::poll_timeout`] lets a driver that is idle wake at
    /// the end of one in which something happened.
    pub fn keep_windows(&mut self) {
        self.base.meter.keep_windows();
    }

    /// The oldest window that is over and was not handed out yet, to be called after [`Dataplane::handle_time`]. Seconds in which nothing
    /// happened are left out.
    pub fn poll_window(&mut self) -> Option<LoopWindow> {
        self.base.poll_window(self.requests.len())
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

#[cfg(test)]
mod tests;
