//! The driver's part, played by a script, with every promise of the dataplane checked at each turn.

use super::lent::Crew;
use super::script::{Action, CLIENTS, Door, Setting};
use std::{collections::VecDeque, sync::Arc};
use weir_dataplane::{Config, Counters, Dataplane, Event, Login, Multiget, OnFailure, RequestKey, SessionId, Slot};
use weir_protocol::{
    Limits, binary,
    door::{self, Opening},
};
use weir_routing::{Placement, Router, Server as Address};
use weir_testkit::memcached::{Connection, Memcached};
use weir_timing::{Instant, Operation};

/// A dataplane that takes more turns than this before it rests never will: an input has fewer bytes.
const TURNS_MAX: usize = 10_000;

/// Longer than any message but for its value: a line, and what is added to it.
const MESSAGE_ROOM_BYTES: usize = 100;

/// The longest answer that is not a server's: a line, or what a client of another protocol gets.
const REFUSAL_BYTES_MAX: usize = 200;

pub(super) struct World {
    pub(super) config: Config,
    pub(super) dataplane: Dataplane,
    pub(super) now: Instant,
    pub(super) clients: [Client; CLIENTS],
    /// Who serves the clients through lent sessions, if that is done.
    pub(super) crew: Option<Crew>,
    servers: Vec<Server>,
    answers_at_once: bool,
    statistics_wait: bool,
    /// Statistics that were asked for and not given.
    questions: Vec<RequestKey>,
}

/// One client's connection, if it has one.
#[derive(Default)]
pub(super) struct Client {
    session: Option<SessionId>,
    unread: VecDeque<Arrival>,
    /// How many bytes the dataplane was given.
    sent_bytes: usize,
    sent_line: bool,
    /// The beginning of that: other protocols than the text protocol have no lines.
    first_bytes: Vec<u8>,
    takes_bytes: usize,
}

/// What the kernel holds for the driver to read.
enum Arrival {
    Bytes(Vec<u8>),
    End,
}

struct Server {
    door: Door,
    link: Link,
    memcached: Memcached,
    connection: Connection,
    /// What the model has answered and the script has not let through.
    answers: Vec<u8>,
    takes_bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    None,
    Attempted,
    Up,
}

impl World {
    pub(super) fn new(setting: &Setting, is_lent: bool) -> Self {
        let config = if setting.small { small() } else { usual() };
        let addresses = (1..).take(setting.servers).map(|port| Address::new("s", port)).collect();
        let placement = if setting.ketama { Placement::Ketama } else { Placement::Modulo };
        let router = Router::new(addresses, placement, setting.replicas).expect("a possible pool");
        let now = Instant::from_nanos(1_000_000);
        let mut world = Self {
            dataplane: Dataplane::new(config.clone(), Arc::new(router.into()), now),
            config,
            now,
            clients: Default::default(),
            crew: is_lent.then(Crew::default),
            servers: (0..setting.servers).map(|_| Server::new()).collect(),
            answers_at_once: setting.answers_at_once,
            statistics_wait: setting.statistics_wait,
            questions: Vec::new(),
        };
        world.rest();
        world
    }

    pub(super) fn act(&mut self, action: Action<'_>) {
        match action {
            Action::Send { client, bytes } if self.crew.is_some() => {
                if !std::mem::replace(&mut self.clients[client].sent_line, true) {
                    self.clients[client].takes_bytes = usize::MAX;
                }
                self.send_lent(client, bytes);
            }
            Action::Finish { .. } if self.crew.is_some() => {}
            Action::Vanish { client } if self.crew.is_some() => self.lose_lent(client),
            Action::ClientTakes { client, bytes } if self.crew.is_some() => {
                self.clients[client].takes_bytes = bytes;
            }
            Action::Send { client, bytes } => self.send(client, bytes),
            Action::Finish { client } => self.clients[client].unread.push_back(Arrival::End),
            Action::Vanish { client } => self.lose_client(client),
            Action::ClientTakes { client, bytes } => {
                self.clients[client].takes_bytes = bytes;
                if let Some(session) = self.clients[client].session {
                    self.dataplane.handle_client_writable(session);
                }
            }
            Action::Pass { nanos } => self.now = self.now.plus(nanos),
            Action::Statistics => self.give_statistics(),
            Action::Drain => self.dataplane.begin_drain(),
            Action::Say { server, .. }
            | Action::Answer { server, .. }
            | Action::ServerTakes { server, .. }
            | Action::Close { server }
            | Action::Door { server, .. } => {
                if server < self.servers.len() {
                    self.act_on_server(server, action);
                }
            }
        }
        self.rest();
    }

    fn act_on_server(&mut self, number: usize, action: Action<'_>) {
        let server = &mut self.servers[number];
        match action {
            Action::Say { bytes, .. } => self.say(number, bytes),
            Action::Answer { bytes, .. } => self.answer(number, bytes),
            Action::ServerTakes { bytes, .. } => {
                server.takes_bytes = bytes;
                if server.link == Link::Up {
                    self.dataplane.handle_server_writable(Slot::from_index(number));
                }
            }
            Action::Close { .. } if server.link == Link::Up => self.lose_server(number),
            Action::Door { door, .. } => {
                server.door = door;
                self.finish_connecting(number);
            }
            _ => {}
        }
    }

    /// All has been said and done: whatever the servers have left open, every request ends, and so does every session.
    pub(super) fn end(mut self) {
        self.answers_at_once = false;
        self.statistics_wait = false;
        self.give_statistics();
        for client in 0..CLIENTS {
            self.act(Action::ClientTakes { client, bytes: usize::MAX });
        }
        self.act(Action::Drain);
        for _ in 0..TURNS_MAX {
            if self.dataplane.is_drained() && self.crew.as_ref().is_none_or(Crew::is_at_rest) {
                break;
            }
            self.act(Action::Pass { nanos: self.config.timeout_ns });
        }
        assert!(self.crew.as_ref().is_none_or(Crew::is_at_rest), "a request is never answered");
        assert!(self.dataplane.is_drained(), "a session cannot be drained: {:#?}", self.counters());
        for server in 0..self.servers.len() {
            self.servers[server].door = Door::Silent;
            if self.servers[server].link == Link::Up {
                self.lose_server(server);
            }
        }
        // What nobody waits for, such as the invalidation of a replica, is kept for a server while it may still be connected to.
        self.act(Action::Pass { nanos: self.config.timeout_ns });
        // A server that missed writes stays unread, and its journal stays, until it comes back; here it never does.
        let is_unread = self.dataplane.report(self.now).servers.iter().any(|server| server.unread.is_some());
        assert!(self.dataplane.is_quiet() || is_unread, "something is left: {:#?}", self.counters());
        self.check_counts();
    }

    /// Every request is answered or orphaned, once. Only `quit` is neither, and ends its session.
    fn check_counts(&self) {
        let report = self.dataplane.report(self.now);
        let answered: u64 =
            Operation::ALL.map(|operation| report.timing.operation(operation).requests).iter().sum();
        let counters = &report.counters;
        let ended = answered + counters.requests_orphaned;
        let lent = self.crew.as_ref().map(Crew::counts);
        let quits_max = ended + counters.sessions_accepted;
        let foreign = counters.requests_refused;
        if let Some((served, _)) = lent {
            // Who speaks another protocol has asked for nothing that is counted.
            assert!(counters.requests <= served, "{served} requests were handed in, {counters:#?}");
            assert!(foreign <= counters.requests, "{counters:#?}");
        }
        assert!(
            (ended..=quits_max).contains(&counters.requests),
            "{answered} requests were answered, and {counters:#?}"
        );
        assert_eq!(counters.sessions_accepted, counters.sessions_closed);
        assert_eq!(report.sessions, 0);
    }

    fn counters(&self) -> Counters {
        self.dataplane.report(self.now).counters
    }

    // ── turns ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Takes turns until there is nothing to do before something else happens.
    fn rest(&mut self) {
        for _ in 0..TURNS_MAX {
            let read = self.read_clients();
            self.dataplane.handle_time(self.now);
            self.carry_out_events();
            self.check_output();
            self.write_all();
            self.carry_out_events();
            let served = self.crew.is_some() && self.serve_lent();
            let answered = self.answers_at_once && self.answer_all() || served;
            let until = self.dataplane.poll_timeout().into_iter().chain(self.lent_due()).min();
            let due = until.is_some_and(|until| until <= self.now);
            if !read && !answered && !due && !self.can_read() {
                return;
            }
        }
        panic!("the dataplane never rests: {:#?}", self.counters());
    }

    fn carry_out_events(&mut self) {
        while let Some(event) = self.dataplane.poll_event() {
            match event {
                Event::Connect(server) => self.connect(server.index()),
                Event::Disconnect(server) => self.servers[server.index()].hang_up(),
                Event::Close(session) => {
                    let left = self.dataplane.client_output(session).len();
                    assert!(
                        left == 0 || self.has_closed_overdue(),
                        "a client is to be closed before its last {left} bytes are out"
                    );
                    let client = self.client_of(session);
                    self.lose_client(client);
                }
                // `can_read` sees it; but the number must still be the client's.
                Event::Resume(session) => _ = self.client_of(session),
                Event::Stats { request, .. } => {
                    self.questions.push(request);
                    if !self.statistics_wait {
                        self.give_statistics();
                    }
                }
            }
        }
    }

    /// Whether a client was closed because it took too long, with what it had not read.
    fn has_closed_overdue(&self) -> bool {
        let counters = self.counters();
        counters.sessions_closed_unread + counters.sessions_closed_slow + counters.sessions_closed_memory > 0
    }

    fn give_statistics(&mut self) {
        for request in std::mem::take(&mut self.questions) {
            self.dataplane.handle_stats(request, b"STAT x 1\r\nEND\r\n".to_vec(), self.now);
        }
    }

    fn check_output(&self) {
        let Config {
            limits, session_buffer_bytes_max, session_requests_max, server_buffer_bytes_max, ..
        } = &self.config;
        for client in self.clients.iter().filter(|_| self.crew.is_none()) {
            let Some(session) = client.session else { continue };
            let waiting = self.dataplane.client_output(session).len();
            let may_be_answered = client.sent_line
                || client.sent_bytes >= limits.line_bytes_max
                || matches!(door::judge(&client.first_bytes), Opening::Foreign(_));
            assert!(waiting == 0 || may_be_answered, "a client is answered that has asked for nothing");
            let bound = session_buffer_bytes_max + session_requests_max * REFUSAL_BYTES_MAX;
            assert!(waiting <= bound, "{waiting} bytes wait for a client");
        }
        let message_max = limits.line_bytes_max + limits.value_bytes_max + MESSAGE_ROOM_BYTES;
        for server in 0..self.servers.len() {
            let waiting = self.dataplane.server_output(Slot::from_index(server)).len();
            assert!(waiting <= server_buffer_bytes_max + message_max, "{waiting} bytes wait for a server");
        }
    }

    fn write_all(&mut self) {
        let mut last = None;
        while let Some(server) = self.dataplane.poll_server_output(last, self.now) {
            let at = server.index();
            assert_eq!(self.servers[at].link, Link::Up, "bytes for a server that is not connected");
            let count = self.servers[at].take(self.dataplane.server_output(server));
            self.dataplane.handle_server_written(server, count, self.now);
            last = Some(server);
        }
        while let Some(session) = self.dataplane.poll_client_output() {
            if self.crew.is_some() {
                continue;
            }
            let client = self.client_of(session);
            let count =
                accepted(&mut self.clients[client].takes_bytes, self.dataplane.client_output(session).len());
            self.dataplane.handle_client_written(session, count, self.now);
        }
    }

    // ── clients ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

    fn send(&mut self, client: usize, bytes: &[u8]) {
        if self.clients[client].session.is_none() {
            let Some(session) = self.dataplane.handle_accept(Login::Wanted, self.now) else { return };
            self.clients[client] =
                Client { session: Some(session), takes_bytes: usize::MAX, ..Client::default() };
        }
        self.clients[client].unread.push_back(Arrival::Bytes(bytes.to_vec()));
    }

    /// Whether a client has sent something that the dataplane wants to read.
    fn can_read(&self) -> bool {
        self.crew.is_none()
            && self.clients.iter().any(|client| {
                !client.unread.is_empty()
                    && client.session.is_some_and(|session| self.dataplane.wants_read(session))
            })
    }

    /// Hands in what has arrived from clients; returns whether there was anything.
    fn read_clients(&mut self) -> bool {
        let mut any = false;
        if self.crew.is_some() {
            return false;
        }
        for client in &mut self.clients {
            let Some(session) = client.session else { continue };
            while self.dataplane.wants_read(session) {
                match client.unread.pop_front() {
                    None => break,
                    Some(Arrival::Bytes(bytes)) => {
                        let missing = binary::HEADER_BYTES.saturating_sub(client.sent_bytes);
                        client.first_bytes.extend(bytes.iter().take(missing));
                        client.sent_bytes += bytes.len();
                        client.sent_line |= bytes.contains(&b'\n');
                        self.dataplane.handle_client_bytes(session, &bytes, self.now);
                    }
                    Some(Arrival::End) => self.dataplane.handle_client_finished(session),
                }
                any = true;
            }
        }
        any
    }

    fn lose_client(&mut self, client: usize) {
        if let Some(session) = self.clients[client].session.take() {
            self.clients[client].unread.clear();
            self.dataplane.handle_client_closed(session);
        }
    }

    fn client_of(&self, session: SessionId) -> usize {
        self.clients
            .iter()
            .position(|client| client.session == Some(session))
            .unwrap_or_else(|| panic!("session {session:?} belongs to nobody"))
    }

    // ── servers ────────────────────────────────────────────────────────────────────────────────────────────────────────────────

    fn connect(&mut self, server: usize) {
        if server >= self.servers.len() {
            // The second connection to a server that is silent. What is stored there nobody reads over it.
            self.servers.resize_with(server + 1, Server::new);
        }
        assert_ne!(self.servers[server].link, Link::Up, "a second connection is wanted");
        self.servers[server].link = Link::Attempted;
        self.finish_connecting(server);
    }

    fn finish_connecting(&mut self, number: usize) {
        let server = &mut self.servers[number];
        if server.link != Link::Attempted {
            return;
        }
        match server.door {
            Door::Open => {
                server.link = Link::Up;
                self.dataplane.handle_server_connected(Slot::from_index(number), self.now);
            }
            Door::Closed => self.lose_server(number),
            Door::Silent => {}
        }
    }

    fn lose_server(&mut self, server: usize) {
        self.servers[server].hang_up();
        self.dataplane.handle_server_disconnected(Slot::from_index(server), self.now);
    }

    fn say(&mut self, server: usize, bytes: &[u8]) {
        let is_up = self.servers[server].link == Link::Up;
        assert_eq!(
            is_up,
            self.dataplane.server_is_up(Slot::from_index(server)),
            "driver and dataplane disagree"
        );
        if is_up && !bytes.is_empty() {
            self.dataplane.handle_server_bytes(Slot::from_index(server), bytes, self.now);
        }
    }

    /// Sends what the model has answered, or `bytes` of it; then, if the model did so, closes the connection.
    fn answer(&mut self, number: usize, bytes: usize) {
        let server = &mut self.servers[number];
        let count = server.answers.len().min(bytes);
        let answer: Vec<u8> = server.answers.drain(..count).collect();
        let closes = server.connection.is_closed() && server.answers.is_empty();
        self.say(number, &answer);
        // What the server said may have cost it the connection already.
        if closes
            && self.servers[number].link == Link::Up
            && self.dataplane.server_is_up(Slot::from_index(number))
        {
            self.lose_server(number);
        }
    }

    fn answer_all(&mut self) -> bool {
        let mut any = false;
        for server in 0..self.servers.len() {
            if !self.servers[server].answers.is_empty() || self.servers[server].connection.is_closed() {
                self.answer(server, usize::MAX);
                any = true;
            }
        }
        any
    }
}

impl Client {
    /// How much of `len` bytes the kernel takes for it.
    pub(super) fn accepts(&mut self, len: usize) -> usize {
        accepted(&mut self.takes_bytes, len)
    }
}

impl Server {
    fn new() -> Self {
        Self {
            door: Door::Open,
            link: Link::None,
            memcached: Memcached::new(1_000_000),
            connection: Connection::default(),
            answers: Vec::new(),
            takes_bytes: usize::MAX,
        }
    }

    /// The kernel takes as much of `output` as it does; what it takes reaches the model.
    fn take(&mut self, output: &[u8]) -> usize {
        let count = accepted(&mut self.takes_bytes, output.len());
        self.memcached.handle_bytes(&mut self.connection, &output[..count], &mut self.answers);
        count
    }

    fn hang_up(&mut self) {
        self.link = Link::None;
        self.connection = Connection::default();
        self.answers.clear();
        self.takes_bytes = usize::MAX;
    }
}

/// How much of `len` bytes the kernel takes.
fn accepted(takes_bytes: &mut usize, len: usize) -> usize {
    let count = len.min(*takes_bytes);
    if *takes_bytes != usize::MAX {
        *takes_bytes -= count;
    }
    count
}

fn usual() -> Config {
    Config {
        timeout_ns: 500_000_000,
        limits: Limits {
            line_bytes_max: 3000,
            value_bytes_max: 1024,
            flush_allowed: false,
            server_commands_allowed: false,
        },
        sessions_max: CLIENTS,
        session_requests_max: 64,
        session_buffer_bytes_max: 8 << 10,
        server_requests_max: 256,
        server_buffer_bytes_max: 8 << 10,
        multiget: Multiget::Auto,
        ..Config::default()
    }
}

fn small() -> Config {
    Config {
        limits: Limits {
            line_bytes_max: 64,
            value_bytes_max: 8,
            flush_allowed: true,
            server_commands_allowed: false,
        },
        sessions_max: CLIENTS - 1,
        session_requests_max: 2,
        session_buffer_bytes_max: 64,
        server_requests_max: 3,
        server_buffer_bytes_max: 64,
        on_failure: OnFailure::Degrade,
        greets_servers: true,
        ..usual()
    }
}
