//! A client behind the proxy is answered as it would be by the memcached server itself.

use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weir_dataplane::{Config, Dataplane, Event, Login, SessionId};
use weir_routing::{Placement, Router, Server};
use weir_testkit::memcached::{self, Connection, Memcached};
use weir_testkit::requests::{self, Kind};
use weir_timing::Instant;

/// A dataplane before one server that is always well.
struct Proxied {
    dataplane: Dataplane,
    session: SessionId,
    server: Memcached,
    connection: Connection,
    answers: Vec<u8>,
    now: Instant,
}

impl Proxied {
    fn new() -> Self {
        let servers = vec![Server::new("server", 11211)];
        let router = Router::new(servers, Placement::default(), 1).expect("one server is a pool");
        let config = Config { version: memcached::VERSION.to_owned(), ..Config::default() };
        let mut dataplane = Dataplane::new(config, Arc::new(router.into()), Instant::ZERO);
        let session =
            dataplane.handle_accept(Login::Wanted, Instant::ZERO).expect("there is room for one session");
        Self {
            dataplane,
            session,
            server: Memcached::default(),
            connection: Connection::default(),
            answers: Vec::new(),
            now: Instant::ZERO,
        }
    }

    fn handle_bytes(&mut self, bytes: &[u8]) {
        self.now = self.now.plus(1);
        self.dataplane.handle_client_bytes(self.session, bytes, self.now);
        while self.turn() {}
    }

    /// Whether anything moved.
    fn turn(&mut self) -> bool {
        let mut moved = false;
        self.dataplane.handle_time(self.now);
        while let Some(event) = self.dataplane.poll_event() {
            match event {
                Event::Connect(server) => self.dataplane.handle_server_connected(server, self.now),
                other => panic!("nothing asks for {other:?}"),
            }
            moved = true;
        }
        while let Some(server) = self.dataplane.poll_server_output(None, self.now) {
            let output = self.dataplane.server_output(server).to_vec();
            self.dataplane.handle_server_written(server, output.len(), self.now);
            let mut replies = Vec::new();
            self.server.handle_bytes(&mut self.connection, &output, &mut replies);
            self.dataplane.handle_server_bytes(server, &replies, self.now);
            moved = true;
        }
        while let Some(session) = self.dataplane.poll_client_output() {
            let output = self.dataplane.client_output(session);
            let length = output.len();
            self.answers.extend_from_slice(output);
            self.dataplane.handle_client_written(session, length, self.now);
            moved = true;
        }
        moved
    }

    /// What the server holds: key, value, flags and cas token. When items expire is left out, because memcached touches
    /// the keys of a `gat` that stand before one that is too long, and the proxy does not ask it for any of them.
    fn held(server: &Memcached) -> Vec<(&[u8], &[u8], u32, u64)> {
        server.items().map(|(key, item)| (key, item.value.as_slice(), item.flags, item.cas)).collect()
    }
}

#[test]
fn random_requests_are_answered_alike() {
    for seed in 0..200 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (mut proxied, mut direct, mut connection) =
            (Proxied::new(), Memcached::default(), Connection::default());
        for number in 0..60 {
            let request = requests::random(&mut rng, Kind::All);
            let (mut rest, mut expected) = (request.as_slice(), Vec::new());
            direct.handle_bytes(&mut connection, &request, &mut expected);
            while !rest.is_empty() {
                let (piece, later) = rest.split_at(rng.random_range(1..=rest.len()));
                proxied.handle_bytes(piece);
                rest = later;
            }
            let found = std::mem::take(&mut proxied.answers);
            assert!(
                found == expected,
                "seed {seed}, request {number}: {:?}\nproxied {:?}\n direct {:?}",
                String::from_utf8_lossy(&request),
                String::from_utf8_lossy(&found),
                String::from_utf8_lossy(&expected)
            );
        }
        assert_eq!(Proxied::held(&proxied.server), Proxied::held(&direct), "seed {seed}");
    }
}

#[test]
fn a_value_that_is_too_large_erases_what_it_was_to_replace() {
    for verb in ["set", "add", "replace", "append"] {
        let mut request = format!("set a 0 0 3\r\nold\r\n{verb} a 0 0 1048577\r\n").into_bytes();
        request.resize(request.len() + 1_048_577, b'x');
        request.extend_from_slice(b"\r\nget a\r\n");
        let (mut proxied, mut direct, mut expected) = (Proxied::new(), Memcached::default(), Vec::new());
        direct.handle_bytes(&mut Connection::default(), &request, &mut expected);
        for piece in request.chunks(100_000) {
            proxied.handle_bytes(piece);
        }
        assert_eq!(String::from_utf8_lossy(&proxied.answers), String::from_utf8_lossy(&expected), "{verb}");
    }
}
