//! A dataplane whose driver is the test.

use std::sync::Arc;
use weir_dataplane::{Config, Dataplane, Event, Freshness, JoinGets, Login, Report, SessionId, Slot};
use weir_routing::{Placement, Router, Server, Table};
use weir_timing::Instant;

pub(crate) const MS: u64 = 1_000_000;
pub(crate) const TIMEOUT: u64 = 500 * MS;

/// A dataplane with its driver's part played by the test. All servers are connected at the start.
pub(crate) struct World {
    pub(crate) dataplane: Dataplane,
    pub(crate) router: Router,
    pub(crate) now: Instant,
    pub(crate) events: Vec<Event>,
}

impl World {
    pub(crate) fn new(servers: usize, replicas: usize) -> Self {
        Self::with(servers, replicas, Config::default())
    }

    pub(crate) fn with(servers: usize, replicas: usize, config: Config) -> Self {
        Self::sharing(servers, replicas, config, Arc::default())
    }

    /// One of several dataplanes of a process.
    pub(crate) fn sharing(
        servers: usize,
        replicas: usize,
        config: Config,
        freshness: Arc<Freshness>,
    ) -> Self {
        let names: Vec<_> = (1..=servers).map(|port| format!("s:{port}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let router = router(&names, replicas);
        let now = Instant::from_nanos(MS);
        let dataplane = Dataplane::sharing(
            Config { timeout_ns: TIMEOUT, ..config },
            Arc::new(Table::from(router.clone())),
            freshness,
            now,
        );
        let mut world = Self { dataplane, router, now, events: Vec::new() };
        for server in 0..world.router.servers().len() {
            world.dataplane.handle_server_connected(slot(server), now);
        }
        world.turn();
        world.events.clear();
        world
    }

    /// Another table; what the driver is asked to do because of it.
    pub(crate) fn reload(&mut self, table: impl Into<Table>) -> Vec<Event> {
        self.events.clear();
        self.dataplane.handle_table(Arc::new(table.into()), self.now);
        self.turn();
        self.events.clone()
    }

    pub(crate) fn client(&mut self) -> SessionId {
        self.dataplane.handle_accept(Login::Wanted, self.now).expect("there is room")
    }

    pub(crate) fn pass(&mut self, nanos: u64) {
        self.now = self.now.plus(nanos);
        self.turn();
    }

    pub(crate) fn turn(&mut self) {
        self.dataplane.handle_time(self.now);
        while let Some(event) = self.dataplane.poll_event() {
            self.events.push(event);
        }
    }

    pub(crate) fn send(&mut self, client: SessionId, bytes: &str) {
        self.dataplane.handle_client_bytes(client, bytes.as_bytes(), self.now);
        self.turn();
    }

    /// What leaves for one server; the kernel takes all of it.
    pub(crate) fn server_gets(&mut self, server: usize) -> String {
        if self.dataplane.poll_server_output(server.checked_sub(1).map(slot), self.now) != Some(slot(server))
        {
            return String::new();
        }
        let bytes = self.dataplane.server_output(slot(server)).to_vec();
        self.dataplane.handle_server_written(slot(server), bytes.len(), self.now);
        String::from_utf8(bytes).expect("text")
    }

    pub(crate) fn server_says(&mut self, server: usize, bytes: &str) {
        self.dataplane.handle_server_bytes(slot(server), bytes.as_bytes(), self.now);
        self.turn();
    }

    /// The client sends this; what leaves for the first server.
    pub(crate) fn asks(&mut self, client: SessionId, request: &str) -> String {
        self.send(client, &format!("{request}\r\n"));
        self.server_gets(0)
    }

    /// What leaves for each of these clients.
    pub(crate) fn all_hear(&mut self, clients: &[SessionId]) -> Vec<String> {
        clients.iter().map(|client| self.client_gets(*client)).collect()
    }

    /// What leaves for one client; the kernel takes all of it.
    pub(crate) fn client_gets(&mut self, client: SessionId) -> String {
        let bytes = self.dataplane.client_output(client).to_vec();
        self.dataplane.handle_client_written(client, bytes.len(), self.now);
        self.turn();
        String::from_utf8(bytes).expect("text")
    }

    pub(crate) fn report(&self) -> Report {
        self.dataplane.report(self.now)
    }

    /// What leaves for one client after a reply of a server.
    pub(crate) fn hears(&mut self, client: SessionId, server: usize, reply: &str) -> String {
        self.server_says(server, reply);
        self.client_gets(client)
    }

    /// A key whose primary is `server`.
    pub(crate) fn key_on(&self, server: usize) -> String {
        self.keys_on(server, 1).remove(0)
    }

    pub(crate) fn keys_on(&self, server: usize, count: usize) -> Vec<String> {
        let mine = |key: &String| self.router.primary(key.as_bytes()) == server;
        (0..).map(|number| format!("k{number}")).filter(mine).take(count).collect()
    }
}

/// The slot with this number.
pub(crate) fn slot(index: usize) -> Slot {
    Slot::from_index(index)
}

/// Every request has messages of its own.
pub(crate) fn unjoined() -> Config {
    Config { join_gets: JoinGets::Off, ..Config::default() }
}

/// The cas token that clients see for a number of server `s:1`, `s:2` or `s:3`, where keys have several servers.
pub(crate) fn token(server: usize, number: u64) -> u64 {
    // What the servers' names come to must not change: clients hold tokens while a proxy is started anew as another version.
    const TAGS: [u64; 3] = [0x6fd1, 0x6e09, 0x16e3];
    TAGS[server] << 48 | number
}

/// Keys over servers, by their bytes modulo the number of servers.
pub(crate) fn router(servers: &[&str], replicas: usize) -> Router {
    let servers: Vec<Server> = servers.iter().map(|text| text.parse().expect("a server")).collect();
    Router::new(servers, Placement::Modulo, replicas).expect("valid")
}

/// What may change the key `a`, whoever sends it.
pub(crate) const CHANGES: [&str; 12] = [
    "set a 0 0 1\r\nx",
    "set a 0 0 1 noreply\r\nx",
    "add a 0 0 1\r\nx",
    "append a 0 0 1\r\nx",
    "cas a 0 0 1 7\r\nx",
    "delete a",
    "incr a 1",
    "touch a 0",
    "gat 0 a",
    "gat 0 b a",
    "ms a 1\r\nx",
    "mg YQ== b N30 v",
];

/// As a server replies it to a get, with its end.
pub(crate) fn value(key: &str, data: &str) -> String {
    format!("VALUE {key} 0 {}\r\n{data}\r\nEND\r\n", data.len())
}
