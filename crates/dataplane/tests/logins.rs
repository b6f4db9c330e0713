//! Whoever never logged in reads nothing and changes nothing, in any order of what all do.
//!
//! Many sessions before a few servers, interleaved at random from a seed: their requests are cut anywhere, they come and go, their numbers
//! are used again, users change while they are served. Values are `secret`; what strangers send has `stranger` in it.

use rand::{Rng, SeedableRng, rngs::SmallRng, seq::IndexedRandom};
use std::{collections::VecDeque, sync::Arc};
use weir_dataplane::{Config, Dataplane, Event, Login, Secret, SessionId, User, Users};
use weir_routing::{Placement, Router, Server};
use weir_testkit::memcached::{Connection, Memcached};
use weir_timing::Instant;

const SEEDS: u64 = 300;
const STEPS: usize = 400;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Never logs in.
    Stranger,
    /// Tries, with wrong passwords.
    Guesser,
    /// Logs in at some time, and writes and reads.
    User,
    /// Logs in at some time, and may only read.
    Reader,
    /// Came in where nobody has to log in, and writes and reads.
    Local,
}

struct Client {
    id: SessionId,
    kind: Kind,
    is_logged_in: bool,
    /// What it will still send of what it has begun.
    unsent: VecDeque<u8>,
    read: Vec<u8>,
}

struct World {
    rng: SmallRng,
    dataplane: Dataplane,
    servers: Vec<(Memcached, Connection)>,
    clients: Vec<Client>,
    now: Instant,
    /// How often somebody read a value.
    read: usize,
}

fn users(reader_may_write: bool) -> Arc<Users> {
    let mut user = User::new(b"user");
    user.add_password(Secret::new(b"password"));
    let mut reader = User::new(b"reader");
    reader.add_password(Secret::new(b"password"));
    if !reader_may_write {
        reader.set_read_only();
    }
    Arc::new(Users::new([user, reader]))
}

impl World {
    fn new(seed: u64, replicas: usize) -> Self {
        let servers: Vec<_> = (1..=3).map(|port| Server::new("s", port)).collect();
        let router = Router::new(servers, Placement::Modulo, replicas).expect("a pool");
        let mut dataplane = Dataplane::new(Config::default(), Arc::new(router.into()), Instant::ZERO);
        dataplane.handle_logins(Some(&users(false)), None);
        let servers = (0..3).map(|_| (Memcached::default(), Connection::default())).collect();
        let mut world = Self {
            rng: SmallRng::seed_from_u64(seed),
            dataplane,
            servers,
            clients: Vec::new(),
            now: Instant::ZERO,
            read: 0,
        };
        world.carry_out_events();
        world
    }

    fn step(&mut self) {
        self.now = self.now.plus(1000);
        match self.rng.random_range(0..20) {
            0 | 1 if self.clients.len() < 8 => self.accept(),
            2 if !self.clients.is_empty() => self.leave(),
            3 => self.dataplane.handle_logins(Some(&users(false)), None),
            4..=12 if !self.clients.is_empty() => self.send(),
            13..=16 => self.servers_answer(),
            _ => self.clients_read(),
        }
        self.dataplane.handle_time(self.now);
        self.carry_out_events();
    }

    fn accept(&mut self) {
        let kinds = [Kind::Stranger, Kind::Guesser, Kind::User, Kind::Reader, Kind::Local];
        let kind = *kinds.choose(&mut self.rng).expect("some");
        let login = if kind == Kind::Local { Login::NotWanted } else { Login::Wanted };
        let id = self.dataplane.handle_accept(login, self.now).expect("there is room");
        self.clients.push(Client {
            id,
            kind,
            is_logged_in: false,
            unsent: VecDeque::new(),
            read: Vec::new(),
        });
    }

    fn leave(&mut self) {
        let place = self.rng.random_range(0..self.clients.len());
        let client = self.clients.swap_remove(place);
        self.dataplane.handle_client_closed(client.id);
    }

    /// Some client sends a piece of a request.
    fn send(&mut self) {
        let place = self.rng.random_range(0..self.clients.len());
        let key = self.rng.random_range(0..6);
        let client = &mut self.clients[place];
        if client.unsent.is_empty() {
            client.unsent = request(client, key, &mut self.rng).into();
        }
        if !self.dataplane.wants_read(client.id) {
            return;
        }
        let count = self.rng.random_range(1..=client.unsent.len());
        let piece: Vec<u8> = client.unsent.drain(..count).collect();
        self.dataplane.handle_client_bytes(client.id, &piece, self.now);
    }

    fn servers_answer(&mut self) {
        while let Some(slot) = self.dataplane.poll_server_output(None, self.now) {
            let bytes = self.dataplane.server_output(slot).to_vec();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("stranger") && !text.contains("password"), "a server gets {text:?}");
            self.dataplane.handle_server_written(slot, bytes.len(), self.now);
            let (server, connection) = &mut self.servers[slot.index()];
            let mut replies = Vec::new();
            server.handle_bytes(connection, &bytes, &mut replies);
            self.dataplane.handle_server_bytes(slot, &replies, self.now);
        }
    }

    fn clients_read(&mut self) {
        while let Some(id) = self.dataplane.poll_client_output() {
            let bytes = self.dataplane.client_output(id).to_vec();
            let count = self.rng.random_range(1..=bytes.len());
            self.dataplane.handle_client_written(id, count, self.now);
            if count < bytes.len() {
                self.dataplane.handle_client_writable(id);
            }
            let client =
                self.clients.iter_mut().find(|client| client.id == id).expect("nobody else is written to");
            client.read.extend_from_slice(&bytes[..count]);
            self.read += check(client);
        }
    }

    fn carry_out_events(&mut self) {
        while let Some(event) = self.dataplane.poll_event() {
            match event {
                Event::Connect(slot) => self.dataplane.handle_server_connected(slot, self.now),
                Event::Close(id) => {
                    self.clients.retain(|client| client.id != id);
                    self.dataplane.handle_client_closed(id);
                }
                Event::Stats { request, .. } => {
                    self.dataplane.handle_stats(request, b"secret\r\n".into(), self.now);
                }
                Event::Disconnect(_) | Event::Resume(_) => {}
            }
        }
    }
}

fn request(client: &mut Client, key: u32, rng: &mut SmallRng) -> Vec<u8> {
    let asks = [
        format!("get k{key}\r\n"),
        format!("gets k{key} k0\r\n"),
        format!("mg k{key} v k\r\n"),
        "stats\r\n".to_owned(),
        "version\r\n".to_owned(),
    ];
    let ask = asks.choose(rng).expect("there are some").clone();
    let login = |name: &str, password: &str| {
        let words = format!("{name} {password}");
        format!("set k{key} 0 0 {}\r\n{words}\r\n", words.len())
    };
    let text = match client.kind {
        Kind::Stranger => match key {
            0 => "add stranger 0 0 8\r\nstranger\r\n".to_owned(),
            1 => "delete stranger\r\n".to_owned(),
            2 => "ms stranger 8\r\nstranger\r\n".to_owned(),
            3 => "set stranger 0 0 8\r\nstranger\r\n".to_owned(),
            _ => ask,
        },
        Kind::Guesser => match key {
            0 | 1 => login("user", "stranger"),
            2 => login("stranger", "password"),
            3 => login("reader", "passwor"),
            _ => ask,
        },
        Kind::User | Kind::Reader if !client.is_logged_in => match key {
            0..=3 => {
                client.is_logged_in = true;
                login(if client.kind == Kind::User { "user" } else { "reader" }, "password")
            }
            _ => ask,
        },
        Kind::User | Kind::Local if key < 3 => format!("set k{key} 0 0 6\r\nsecret\r\n"),
        Kind::Reader if key < 2 => format!("set k{key} 0 0 8\r\nstranger\r\n"),
        Kind::User | Kind::Reader | Kind::Local => ask,
    };
    text.into_bytes()
}

/// What a client reads, as far as its lines are complete. Returns in how many of them a value was.
fn check(client: &Client) -> usize {
    let text = String::from_utf8_lossy(&client.read);
    assert!(!text.contains("stranger") && !text.contains("password"), "{:?} reads {text:?}", client.kind);
    if matches!(client.kind, Kind::Stranger | Kind::Guesser) {
        for line in text.split_inclusive("\r\n").filter(|line| line.ends_with('\n')) {
            let is_refused = line.starts_with("CLIENT_ERROR unauthenticated")
                || line.starts_with("CLIENT_ERROR authentication failure")
                || line.starts_with("CLIENT_ERROR bad authentication token format");
            assert!(is_refused, "{:?} reads {text:?}", client.kind);
        }
        assert!(!text.contains("secret"), "{text:?}");
    }
    if client.kind == Kind::Local {
        assert!(!text.contains("unauthenticated") && !text.contains("authentication"), "{text:?}");
    }
    text.matches("secret").count()
}

#[test]
fn a_client_that_never_logged_in_reads_nothing_in_any_order_of_logins_of_others() {
    for replicas in [1, 2] {
        let (mut read, mut refused) = (0, 0);
        for seed in 0..SEEDS {
            let mut world = World::new(seed, replicas);
            for _ in 0..STEPS {
                world.step();
            }
            read += world.read;
            for (server, _) in &world.servers {
                for (key, item) in server.items() {
                    assert_eq!(item.value, b"secret", "{} of seed {seed}", key.escape_ascii());
                }
            }
            refused += world.dataplane.report(world.now).counters.requests_refused_unauthenticated;
        }
        assert!(read > 1000, "users read what they wrote, {read} times");
        assert!(refused > 1000, "strangers were refused {refused} times");
    }
}
