//! The event engine: a thin readiness loop over one dataplane.
//!
//! One turn reads everything that is ready, then writes once per server, then once per client. So all requests of a turn
//! leave in one write per server, and all its replies in one write per client.

use crate::{
    connections::{
        client_limit::Admitted,
        descriptors::Shortage,
        names::AddressBook,
        reads::Reads,
        sockets::Stream,
        tls::news::News,
        transport::{Ended, Over, Transport},
    },
    engine::{
        door::{self, Door, EVENTS_PER_TURN, Host},
        event::{
            batching::{self, Batcher},
            handshakes::Handshakes,
            mail::MailRoom,
            peer::{Peer, peer, token},
            server_links::{Progress, ServerLinks},
            serving::Serving,
        },
        making::Making,
    },
    mailbox::{BUSY, LoopHandle, Question, Routing},
    notices::{
        notice::{Notice, ServerNotice},
        showing::Notices,
    },
    process::{clock::Clock, cpu_contention::CpuContention},
    records::{traces::Traces, windows::Outlet},
};
use mio::{Events, Token};
use std::{
    io,
    sync::{
        Arc,
        mpsc::{Sender, SyncSender},
    },
    thread,
    time::Duration,
};
use weir_dataplane::{Counters, Dataplane, Event, Report, RequestKey, SessionId, Slot, StatsTopic, TopKeys};
use weir_routing::Server;
use weir_timing::Instant;

pub(crate) struct EventLoop {
    door: Door,
    clock: Clock,
    /// What the clock said last.
    now: Instant,
    batcher: Batcher,
    dataplane: Dataplane,
    outlet: Outlet,
    traces: Option<Traces>,
    servers: ServerLinks,
    clients: Vec<Option<Admitted>>,
    handshakes: Handshakes,
    /// Clients with TLS whose writing ended although the kernel takes more.
    unfinished: Vec<SessionId>,
    /// Whether any connection of it has spoken TLS. Where none has, requests cost nothing for it.
    has_tls: bool,
    /// Its number among all threads.
    index: usize,
    notices: Arc<Notices>,
    questions: SyncSender<Question>,
    /// What it serves from a queue, if it does.
    serving: Option<Serving>,
    /// Where there are other loops.
    mail: Option<MailRoom>,
}

impl EventLoop {
    /// The loop with this number in its group. `name` is what its thread is called in records, `at_door` the thread that accepts its clients.
    pub(crate) fn new(
        making: &Making,
        index: usize,
        name: &str,
        at_door: usize,
    ) -> io::Result<(Self, LoopHandle)> {
        let (config, clock, tracing) = (&making.config, making.clock, making.tracing.as_ref());
        let (door, handle) = Door::new(clock, tracing.is_some(), config.settings.drain_timeout)?;
        let (now, number) = (clock.now(), making.first_thread + index);
        let (table, freshness) = (Arc::clone(&config.table), Arc::clone(&making.freshness));
        let mut dataplane = Dataplane::sharing(making.dataplane(index), table, freshness, now);
        dataplane.share_budget(&making.budget);
        dataplane.handle_logins(config.logins().users(), config.logins().servers());
        let event_loop = Self {
            outlet: making.windows.add_thread(name, &mut dataplane),
            traces: tracing.map(|tracing| tracing.begin(number, at_door, &mut dataplane)),
            dataplane,
            servers: ServerLinks::new(making.addresses.clone()),
            door,
            clock,
            now,
            batcher: Batcher::new(config.batching(), now),
            clients: Vec::new(),
            handshakes: Handshakes::new(config.settings.tls_handshake_timeout),
            unfinished: Vec::new(),
            has_tls: false,
            index: number,
            notices: Arc::clone(&making.notices),
            questions: making.questions.clone(),
            serving: None,
            mail: None,
        };
        Ok((event_loop, handle))
    }

    /// There are other loops, to which writes of their keys go.
    pub(crate) fn with_mail(mut self, mail: MailRoom) -> Self {
        self.mail = Some(mail);
        self
    }

    /// It serves from a queue, as this station.
    pub(crate) fn with_station(mut self, station: &'static str, now: Instant) -> Self {
        self.serving = Some(Serving::new(station, now));
        self
    }

    pub(crate) fn dataplane(&self) -> &Dataplane {
        &self.dataplane
    }

    pub(crate) fn dataplane_mut(&mut self) -> &mut Dataplane {
        &mut self.dataplane
    }

    /// Serves until it is asked to drain and has drained.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_PER_TURN);
        batching::allow_short_pauses();
        // Here, for it belongs to the thread that makes it.
        let mut contention = CpuContention::at_one_in(batching::CONTENDED_ONE_IN);
        // The servers of the first table are to be connected to. Nobody wakes a loop for that, and its first wait may be long.
        self.carry_out_events();
        while !self.is_done() {
            self.wait(&mut events)?;
            let began = self.read_clock();
            self.read_ready(&events);
            if let Some(is_contended) = contention.look(self.now) {
                self.batcher.note_contention(is_contended);
            }
            self.gather_more(&mut events)?;
            self.finish_turn(began);
            self.batcher.note_turn(self.dataplane.in_service());
            self.send_mail()?;
        }
        self.end();
        Ok(())
    }

    /// Hands over what was measured last.
    pub(crate) fn end(mut self) {
        self.outlet.finish(&mut self.dataplane, |_| {});
    }

    /// Waits a moment for more, if that costs nobody anything, and reads what has come. (`batching.rs`.)
    #[expect(
        clippy::disallowed_methods,
        reason = "a bounded pause that gathers a larger batch; there is no readiness for that"
    )]
    fn gather_more(&mut self, events: &mut Events) -> io::Result<()> {
        let pause_ns = self.batcher.pause_ns(self.dataplane.counters_mut().requests, self.now);
        if pause_ns > 0 {
            thread::sleep(Duration::from_nanos(pause_ns));
            self.door.look(events)?;
            self.read_ready(events);
        }
        Ok(())
    }

    /// What follows from all that was read in a turn that began at `began`.
    pub(crate) fn finish_turn(&mut self, began: Instant) {
        if self.has_tls {
            self.end_late_handshakes();
        }
        self.dataplane.handle_time(self.now);
        self.carry_out_events();
        self.write_all();
        if self.carry_out_events() {
            self.read_clock();
        }
        if self.dataplane.has_changes() {
            self.tell_changes();
        }
        self.dataplane.record_turn(self.now.saturating_since(began));
        self.outlet.hand_over(&mut self.dataplane, |_| {});
        if let Some(traces) = &self.traces {
            traces.hand_over(&mut self.dataplane);
        }
    }

    /// The clock is read after each call to the kernel, and before what waits for servers leaves its queue; the rest of a turn goes
    /// by the last reading. (It costs a fiftieth of a request, and every turn needs several.)
    #[inline]
    pub(crate) fn read_clock(&mut self) -> Instant {
        self.now = self.clock.now();
        self.now
    }

    /// The clock where it is read for a stamp alone; deadlines would do with one reading per turn.
    #[inline]
    fn stamp(&mut self) -> Instant {
        if cfg!(feature = "untimed") { self.now } else { self.read_clock() }
    }

    fn is_done(&mut self) -> bool {
        self.door.drain_until().is_some_and(|until| self.has_drained() || self.now >= until)
    }

    fn has_drained(&mut self) -> bool {
        self.dataplane.is_drained() && self.mail.as_mut().is_none_or(MailRoom::note_drained)
    }

    /// After the writes of a turn: they may have lost a server, and what waited for it may be another loop's.
    fn send_mail(&mut self) -> io::Result<()> {
        self.mail.as_mut().map_or(Ok(()), |mail| mail.send(&mut self.dataplane))
    }

    fn take_mail(&mut self) {
        while self.mail.as_mut().is_some_and(MailRoom::open) {
            let now = self.read_clock();
            while let Some(mail) = self.mail.as_mut().and_then(MailRoom::receive) {
                self.dataplane.handle_mail(mail, now);
            }
        }
    }

    #[inline]
    pub(crate) fn wait(&mut self, events: &mut Events) -> io::Result<()> {
        let mut deadline = self.dataplane.poll_timeout();
        if self.has_tls {
            deadline = self.handshakes.begin_turn(deadline);
            deadline = if self.unfinished.is_empty() { deadline } else { Some(self.now) };
        }
        let waited = self.door.wait(events, deadline, self.now);
        if self.has_tls {
            // Before anybody takes them for clients that do not read.
            self.unfinished.drain(..).for_each(|id| self.dataplane.handle_client_writable(id));
        }
        waited
    }

    /// Reads what is ready, and takes what has come by mail.
    #[inline]
    pub(crate) fn read_ready(&mut self, events: &Events) {
        door::read_ready(self, events);
    }

    // ── writing ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    fn write_all(&mut self) {
        if self.dataplane.has_server_output() {
            self.write_servers();
        }
        while let Some(id) = self.dataplane.poll_client_output() {
            self.write_client(id);
        }
    }

    fn write_servers(&mut self) {
        let now = self.stamp();
        let mut last = None;
        while let Some(server) = self.dataplane.poll_server_output(last, now) {
            self.write_server(server);
            last = Some(server);
        }
    }

    fn write_server(&mut self, server: Slot) {
        let Some(mut line) = self.servers.line(server) else { return };
        let ends = || self.dataplane.server_message_ends(server);
        match line.write_messages(self.dataplane.server_output(server), ends) {
            Ok(count) => {
                let now = self.stamp();
                self.dataplane.handle_server_written(server, count, now);
            }
            Err(ended) => self.lose_server(server, ended),
        }
    }

    fn write_client(&mut self, id: SessionId) {
        let Some(Some(client)) = self.clients.get_mut(id.index()) else { return };
        let mut line = client.line();
        match line.write(self.dataplane.client_output(id)) {
            Ok(count) => {
                if line.has_rest() {
                    self.unfinished.push(id);
                }
                let now = self.stamp();
                self.dataplane.handle_client_written(id, count, now);
            }
            Err(_) => self.close_client(id),
        }
    }

    // ── connections ────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Returns whether there were any.
    #[inline]
    fn carry_out_events(&mut self) -> bool {
        let has_events = self.dataplane.has_events();
        if has_events {
            self.carry_out_all();
        }
        has_events
    }

    #[cold]
    #[inline(never)]
    fn carry_out_all(&mut self) {
        while let Some(event) = self.dataplane.poll_event() {
            match event {
                Event::Connect(server) => self.connect(server),
                Event::Disconnect(server) => self.disconnect(server),
                Event::Close(id) => self.close_client(id),
                Event::Resume(id) => self.door.read_later(token(Peer::Client(id))),
                Event::Stats { request, topic } => self.ask(request, topic),
            }
        }
    }

    /// What has become of servers; together with what other threads see it may be a line in a log.
    #[cold]
    fn tell_changes(&mut self) {
        while let Some(change) = self.dataplane.poll_change() {
            self.notices.note_server(self.index, &change);
        }
    }

    /// A loop never waits for the others; the thread that it asks does.
    fn ask(&mut self, request: RequestKey, topic: StatsTopic) {
        if self.questions.try_send(Question { from: self.index, request, topic }).is_err() {
            Host::answer_stats(self, request, BUSY.to_vec());
        }
    }

    /// Keys go where this table says from now on.
    pub(crate) fn go_by(&mut self, routing: &Routing) {
        self.dataplane.set_timeout(routing.timeout_ns());
        self.dataplane.handle_logins(routing.logins().users(), routing.logins().servers());
        self.dataplane.handle_table(Arc::clone(routing.table()), self.clock.now());
        self.servers.take_outbounds(Arc::clone(routing.outbounds()));
        self.renew_addresses(Arc::clone(routing.book()));
    }

    #[inline(never)]
    fn end_late_handshakes(&mut self) {
        while let Some(id) = self.handshakes.next_late(self.now) {
            self.dataplane.counters_mut().tls_handshakes_timed_out += 1;
            self.close_client(id);
        }
    }

    /// Sends what TLS has to say to a client, and notes what has become of its connection. Returns whether the kernel took something.
    #[inline(never)]
    fn tend_client(&mut self, id: SessionId) -> bool {
        let client = self.clients.get_mut(id.index()).and_then(Option::as_mut);
        let Some(tended) = client.and_then(Admitted::tend) else { return false };
        if let Some(news) = tended.news() {
            news.count(self.dataplane.counters_mut());
            self.handshakes.end(id);
            if let (News::Shaken { .. }, Some(Some(client))) = (news, self.clients.get(id.index())) {
                // Before anything that it says.
                self.dataplane.handle_certificate(id, || client.certificate_names());
            }
        }
        tended.takes_bytes()
    }

    fn close_client(&mut self, id: SessionId) {
        if let Some(client) = self.clients[id.index()].take() {
            if client.speaks_tls() {
                self.handshakes.end(id);
            }
            client.close();
        }
        self.dataplane.handle_client_closed(id);
    }

    // ── connections to servers ─────────────────────────────────────────────────────────────────────────────────────────────

    /// The dataplane wants a connection to this server.
    fn connect(&mut self, slot: Slot) {
        let (server, door) = (self.dataplane.server(slot), &self.door);
        let watch = |stream: &mut Stream| door.watch(token(Peer::Server(slot)), stream);
        let begun = self.servers.connect(slot, server, self.now, watch);
        self.note_begun(slot, begun);
    }

    fn try_next_address(&mut self, slot: Slot) {
        let (endpoint, door) = (&self.dataplane.server(slot).endpoint, &self.door);
        let watch = |stream: &mut Stream| door.watch(token(Peer::Server(slot)), stream);
        let begun = self.servers.try_next_address(slot, endpoint, self.now, watch);
        self.note_begun(slot, begun);
    }

    fn note_begun(&mut self, slot: Slot, (progress, shortage): (Progress, Shortage)) {
        if shortage != Shortage::default() {
            shortage.count(self.dataplane.counters_mut());
        }
        self.has_tls |= self.servers.speaks_tls(slot);
        if progress == Progress::Failed {
            self.lose_server(slot, Ended::ByPeer);
        }
    }

    /// A connection that was begun has become ready for something.
    #[cold]
    #[inline(never)]
    fn finish_connecting(&mut self, slot: Slot) {
        match self.servers.look(slot) {
            Progress::Connected => {
                let now = self.read_clock();
                self.dataplane.handle_server_connected(slot, now);
                self.renew_if_moved(slot);
            }
            Progress::Failed => self.try_next_address(slot),
            Progress::NoTls(reason) => {
                self.tell_no_tls(slot, reason);
                self.try_next_address(slot);
            }
            Progress::Open => {}
        }
    }

    /// Something has come from a server to which a connection is being made.
    #[cold]
    #[inline(never)]
    fn go_on_shaking(&mut self, slot: Slot) {
        if self.servers.is_shaking(slot) {
            self.finish_connecting(slot);
        }
    }

    /// Sends what TLS has to say to a server, and notes why the connection is broken if TLS is to blame.
    #[inline(never)]
    fn tend_server(&mut self, slot: Slot) {
        if let Some(reason) = self.servers.tend(slot) {
            self.tell_no_tls(slot, reason);
        }
    }

    /// A server with which no TLS can be spoken is down, as one that cannot be connected to.
    #[cold]
    fn tell_no_tls(&mut self, slot: Slot, reason: String) {
        self.dataplane.counters_mut().tls_servers_failed += 1;
        self.servers.note_no_tls(slot, &reason);
        let server = self.dataplane.server(slot).name.as_str().into();
        self.notices.tell(Notice::Server { server, what: ServerNotice::NoTls { reason } });
    }

    /// The dataplane wants no connection to this number's server any more.
    fn disconnect(&mut self, slot: Slot) {
        let is_kept = self.dataplane.connected_servers().any(|connected| connected == slot);
        self.servers.disconnect(slot, is_kept);
    }

    fn lose_server(&mut self, slot: Slot, ended: Ended) {
        self.servers.lose(slot);
        let now = self.read_clock();
        match ended {
            Ended::ByPeer => self.dataplane.handle_server_disconnected(slot, now),
            Ended::Otherwise => self.dataplane.handle_server_broken(slot, now),
        }
    }

    /// Some names have other addresses.
    pub(crate) fn renew_addresses(&mut self, book: Arc<AddressBook>) {
        self.servers.take_addresses(book);
        self.servers.slots().for_each(|slot| self.renew_if_moved(slot));
    }

    fn renew_if_moved(&mut self, slot: Slot) {
        if self.servers.has_moved(slot, self.dataplane.server(slot)) {
            self.dataplane.handle_server_moved(slot);
        }
    }

    // ── service from a queue ───────────────────────────────────────────────────────────────────────────────────────────────

    /// Connects to the server to whose queue it belongs; to others it does when they are needed.
    pub(crate) fn settle_at(&mut self, home: Option<Server>) {
        let now = self.read_clock();
        if let Some(home) = &home {
            self.dataplane.handle_server_wanted(home, now);
        }
        if let Some(serving) = &mut self.serving {
            serving.settle_at(home, now);
        }
    }

    /// A request came into service.
    pub(crate) fn note_serving(&mut self, now: Instant) {
        if let Some(serving) = &mut self.serving {
            serving.enter(now);
        }
    }

    /// A request that came into service at `since` is answered, as far as the kernel took the answer.
    pub(crate) fn note_served(&mut self, since: Instant) {
        let now = self.read_clock();
        if let Some(serving) = &mut self.serving {
            serving.leave(since, now);
        }
    }
}

impl Host for EventLoop {
    type Peer = Peer;
    type Client = SessionId;

    #[inline]
    fn door(&mut self) -> &mut Door {
        &mut self.door
    }

    #[inline]
    fn peer(token: Token) -> Peer {
        peer(token)
    }

    fn token(peer: Peer) -> Token {
        token(peer)
    }

    fn client(id: SessionId) -> Peer {
        Peer::Client(id)
    }

    #[inline]
    fn is_client(peer: Peer) -> bool {
        matches!(peer, Peer::Client(_))
    }

    fn admit(&mut self, client: &Admitted) -> Option<SessionId> {
        self.dataplane.handle_accept(client.login(), self.clock.now())
    }

    fn seat(&mut self, id: SessionId, client: Admitted) {
        if id.index() >= self.clients.len() {
            self.clients.resize_with(id.index() + 1, || None);
        }
        self.has_tls |= client.speaks_tls();
        if client.is_shaking() {
            self.handshakes.begin(id, self.clock.now());
        }
        self.clients[id.index()] = Some(client);
    }

    fn unseat(&mut self, id: SessionId) {
        self.dataplane.handle_client_closed(id);
    }

    fn client_ids(&self) -> Vec<SessionId> {
        (0..self.clients.len()).map(SessionId::from_index).collect()
    }

    // Twice per request: inlined, with what TLS alone needs out of line.
    #[inline(always)]
    fn transport(&mut self, peer: Peer) -> Option<impl Transport> {
        match peer {
            // What is left of a client that is not to be read is read after `Event::Resume`.
            Peer::Client(id) if self.dataplane.wants_read(id) => {
                let client = self.clients.get_mut(id.index())?.as_mut()?;
                if self.has_tls && client.is_shaking() && !self.handshakes.take_step() {
                    put_off(&mut self.dataplane, &mut self.door, peer);
                    return None;
                }
                Some(client.line())
            }
            Peer::Server(server) if self.dataplane.server_is_up(server) => self.servers.line(server),
            Peer::Server(server) => {
                self.go_on_shaking(server);
                None
            }
            Peer::Client(_) => None,
        }
    }

    #[inline]
    fn handle_bytes(&mut self, peer: Peer, reads: &Reads, count: usize) {
        let now = self.stamp();
        match peer {
            Peer::Server(server) => self.dataplane.handle_server_bytes(server, reads.bytes(count), now),
            Peer::Client(id) => {
                if let Some(arrived) = reads.arrival(self.clock, now) {
                    self.dataplane.note_arrival(id, now, arrived);
                }
                self.batcher.note_read(id);
                self.dataplane.handle_client_bytes(id, reads.bytes(count), now);
            }
        }
    }

    fn handle_over(&mut self, peer: Peer, how: Over) {
        match (peer, how) {
            (Peer::Client(id), Over::End) => self.dataplane.handle_client_finished(id),
            (Peer::Client(id), Over::Reset | Over::Broken) => self.close_client(id),
            (Peer::Server(server), Over::End | Over::Reset) => self.lose_server(server, Ended::ByPeer),
            (Peer::Server(server), Over::Broken) => self.lose_server(server, Ended::Otherwise),
        }
    }

    // As `transport`: the kernel says with everything that it reports that a socket can be written to.
    #[inline(always)]
    fn handle_writable(&mut self, peer: Peer) {
        match peer {
            Peer::Client(id) => {
                if self.has_tls {
                    self.tend_client(id);
                }
                self.dataplane.handle_client_writable(id);
            }
            Peer::Server(server) if self.dataplane.server_is_up(server) => {
                if self.has_tls {
                    self.tend_server(server);
                }
                self.dataplane.handle_server_writable(server);
            }
            Peer::Server(server) => self.finish_connecting(server),
        }
    }

    /// A client that talks may still take nothing of its replies.
    fn tend(&mut self, peer: Peer) {
        match peer {
            Peer::Client(id) => {
                if self.tend_client(id) {
                    self.dataplane.handle_client_writable(id);
                }
            }
            Peer::Server(_) => self.handle_writable(peer),
        }
    }

    fn begin_drain(&mut self) {
        self.dataplane.begin_drain();
    }

    fn counters(&mut self) -> &mut Counters {
        self.dataplane.counters_mut()
    }

    fn report(&mut self, reply: Sender<Report>) {
        let now = self.clock.now();
        self.dataplane.handle_time(now);
        let mut report = self.dataplane.report(now);
        report.stations.extend(self.serving.as_ref().and_then(|serving| serving.entry(now)));
        for (slot, reason) in self.servers.without_tls() {
            let name = &self.dataplane.server(slot).name;
            if let Some(server) = report.servers.iter_mut().find(|it| it.server == *name) {
                server.last_trouble = Some(reason.to_owned());
            }
        }
        // Whoever asked may have stopped waiting.
        let _ = reply.send(report);
    }

    fn tell_top_keys(&mut self, reply: &Sender<TopKeys>) {
        // Whoever asked may have stopped waiting.
        let _ = reply.send(self.dataplane.top_keys(self.clock.now()));
    }

    fn answer_stats(&mut self, request: RequestKey, text: Vec<u8>) {
        self.dataplane.counters_mut().stats_refused += u64::from(text == BUSY);
        self.dataplane.handle_stats(request, text, self.clock.now());
    }

    fn take_routing(&mut self, routing: Routing) {
        self.go_by(&routing);
    }

    fn take_addresses(&mut self, book: Arc<AddressBook>) {
        self.renew_addresses(book);
    }

    /// Writes of its keys may have come from other loops.
    fn handle_woken(&mut self) {
        self.take_mail();
    }
}

/// A client's handshake goes on in the next turn.
#[cold]
fn put_off(dataplane: &mut Dataplane, door: &mut Door, client: Peer) {
    dataplane.counters_mut().tls_handshakes_put_off += 1;
    door.read_later(token(client));
}
