//! The dataplane by script: bytes and instants in, bytes and events out.

use std::sync::Arc;
use weir_dataplane::{Config, Dataplane, Event, Report, SessionId};
use weir_routing::{Placement, Router, Server};
use weir_timing::{Instant, Operation, Stage};

const MS: u64 = 1_000_000;
const TIMEOUT: u64 = 500 * MS;

/// A dataplane with its driver's part played by the test. All servers are connected at the start.
struct World {
    dataplane: Dataplane,
    router: Arc<Router>,
    now: Instant,
    events: Vec<Event>,
}

impl World {
    fn new(servers: usize, replicas: usize) -> Self {
        Self::with(servers, replicas, Config::default())
    }

    fn with(servers: usize, replicas: usize, config: Config) -> Self {
        let servers: Vec<_> = (1..=servers).map(|port| Server::new("s", port as u16)).collect();
        let router = Arc::new(Router::new(servers, Placement::Modulo, replicas).expect("valid"));
        let now = Instant::from_nanos(MS);
        let dataplane = Dataplane::new(Config { timeout_ns: TIMEOUT, ..config }, Arc::clone(&router), now);
        let mut world = Self { dataplane, router, now, events: Vec::new() };
        for server in 0..world.router.servers().len() {
            world.dataplane.handle_server_connected(server, now);
        }
        world.turn();
        world.events.clear();
        world
    }

    fn client(&mut self) -> SessionId {
        self.dataplane.handle_accept(self.now).expect("there is room")
    }

    fn pass(&mut self, nanos: u64) {
        self.now = self.now.plus(nanos);
        self.turn();
    }

    fn turn(&mut self) {
        self.dataplane.handle_time(self.now);
        while let Some(event) = self.dataplane.poll_event() {
            self.events.push(event);
        }
    }

    fn send(&mut self, client: SessionId, bytes: &str) {
        self.dataplane.handle_client_bytes(client, bytes.as_bytes(), self.now);
        self.turn();
    }

    /// What leaves for one server; the kernel takes all of it.
    fn server_gets(&mut self, server: usize) -> String {
        if self.dataplane.poll_server_output(server.checked_sub(1), self.now) != Some(server) {
            return String::new();
        }
        let bytes = self.dataplane.server_output(server).to_vec();
        self.dataplane.handle_server_written(server, bytes.len(), self.now);
        String::from_utf8(bytes).expect("text")
    }

    fn server_says(&mut self, server: usize, bytes: &str) {
        self.dataplane.handle_server_bytes(server, bytes.as_bytes(), self.now);
        self.turn();
    }

    /// What leaves for one client; the kernel takes all of it.
    fn client_gets(&mut self, client: SessionId) -> String {
        let bytes = self.dataplane.client_output(client).to_vec();
        self.dataplane.handle_client_written(client, bytes.len(), self.now);
        self.turn();
        String::from_utf8(bytes).expect("text")
    }

    fn report(&self) -> Report {
        self.dataplane.report(self.now)
    }

    /// A key whose primary is `server`.
    fn key_on(&self, server: usize) -> String {
        self.keys_on(server, 1).remove(0)
    }

    fn keys_on(&self, server: usize, count: usize) -> Vec<String> {
        let mine = |key: &String| self.router.primary(key.as_bytes()) == server;
        (0..).map(|number| format!("k{number}")).filter(mine).take(count).collect()
    }
}

#[test]
fn a_request_goes_to_its_server_and_its_reply_comes_back() {
    let mut world = World::new(3, 1);
    let client = world.client();
    let key = world.key_on(1);
    world.send(client, &format!("get {key}\r\n"));
    assert_eq!(world.server_gets(0), "");
    assert_eq!(world.server_gets(1), format!("get {key}\r\n"));
    let reply = format!("VALUE {key} 0 5\r\nEND\r\n\r\nEND\r\n");
    world.server_says(1, &reply);
    assert_eq!(world.client_gets(client), reply);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn replies_wait_for_those_of_earlier_requests() {
    let mut world = World::new(2, 1);
    let client = world.client();
    let (first, second) = (world.key_on(0), world.key_on(1));
    world.send(client, &format!("get {first}\r\nget {second}\r\nversion\r\nbogus\r\n"));
    world.server_gets(0);
    world.server_gets(1);
    world.server_says(1, "END\r\n");
    assert_eq!(world.client_gets(client), "");
    world.server_says(0, &format!("VALUE {first} 0 1\r\nx\r\nEND\r\n"));
    let version = Config::default().version;
    assert_eq!(
        world.client_gets(client),
        format!("VALUE {first} 0 1\r\nx\r\nEND\r\nEND\r\nVERSION {version}\r\nERROR\r\n")
    );
}

#[test]
fn a_multi_get_is_split_and_merged_in_request_order() {
    let mut world = World::new(3, 1);
    let client = world.client();
    let [a, b, c] = [0, 1, 2].map(|server| world.keys_on(server, 2));
    world.send(client, &format!("gets {} {} {} {} {} {}\r\n", a[0], b[0], a[1], c[0], b[1], a[0]));
    assert_eq!(world.server_gets(0), format!("gets {} {} {}\r\n", a[0], a[1], a[0]));
    assert_eq!(world.server_gets(1), format!("gets {} {}\r\n", b[0], b[1]));
    assert_eq!(world.server_gets(2), format!("gets {}\r\n", c[0]));
    let value = |key: &str| format!("VALUE {key} 0 2 7\r\n{}\r\n", &key[..2]);
    // a[1] and b[0] are misses; c[0] comes in pieces.
    world.server_says(1, &format!("{}END\r\n", value(&b[1])));
    let (head, tail) = (value(&c[0]), "END\r\n");
    world.server_says(2, &head[..9]);
    world.server_says(0, &format!("{}{}END\r\n", value(&a[0]), value(&a[0])));
    world.server_says(2, &head[9..]);
    assert_eq!(world.client_gets(client), "");
    world.server_says(2, tail);
    let expected = [value(&a[0]), value(&c[0]), value(&b[1]), value(&a[0]), "END\r\n".into()].concat();
    assert_eq!(world.client_gets(client), expected);
    let report = world.report();
    let counts = report.timing.operation(Operation::MultiGet);
    assert_eq!((counts.requests, counts.keys, counts.hits, counts.misses), (1, 6, 4, 2));
}

#[test]
fn a_failed_part_fails_the_whole_multi_get_with_one_line() {
    let mut world = World::new(2, 1);
    let client = world.client();
    let (a, b) = (world.key_on(0), world.key_on(1));
    world.send(client, &format!("get {a} {b}\r\nversion\r\n"));
    world.server_gets(0);
    world.server_gets(1);
    world.server_says(0, &format!("VALUE {a} 0 1\r\nx\r\nEND\r\n"));
    world.server_says(
        1,
        &format!("VALUE {b} 0 1\r\nx\r\nSERVER_ERROR out of memory writing get response\r\n"),
    );
    let out = world.client_gets(client);
    assert!(out.starts_with("SERVER_ERROR out of memory writing get response\r\nVERSION "), "{out}");
}

#[test]
fn writes_go_to_all_replicas_and_the_primary_decides() {
    let mut world = World::new(3, 2);
    let client = world.client();
    let key = world.key_on(1);
    world.send(client, &format!("set {key} 0 0 1 noreply\r\nx\r\ntouch {key} 5\r\n"));
    assert_eq!(world.server_gets(0), "");
    assert_eq!(world.server_gets(1), format!("set {key} 0 0 1\r\nx\r\ntouch {key} 5\r\n"));
    assert_eq!(world.server_gets(2), format!("set {key} 0 0 1\r\nx\r\ntouch {key} 5\r\n"));
    world.server_says(2, "STORED\r\nNOT_FOUND\r\n");
    assert_eq!(world.client_gets(client), "");
    world.server_says(1, "STORED\r\nTOUCHED\r\n");
    assert_eq!(world.client_gets(client), "TOUCHED\r\n");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_conditional_write_is_decided_by_the_primary_and_then_the_others_forget_the_key() {
    let mut world = World::new(3, 3);
    let client = world.client();
    let key = world.key_on(1);
    world.send(client, &format!("incr {key} 5\r\n"));
    assert_eq!((world.server_gets(0), world.server_gets(2)), (String::new(), String::new()));
    assert_eq!(world.server_gets(1), format!("incr {key} 5\r\n"));
    world.server_says(1, "15\r\n");
    assert_eq!(world.client_gets(client), "");
    assert_eq!(world.server_gets(2), format!("delete {key}\r\n"));
    assert_eq!(world.server_gets(0), format!("delete {key}\r\n"));
    world.server_says(0, "NOT_FOUND\r\n");
    assert_eq!(world.client_gets(client), "");
    world.server_says(2, "DELETED\r\n");
    assert_eq!(world.client_gets(client), "15\r\n");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn what_the_primary_refuses_no_other_replica_hears_of() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    // E on ms and x on md are flags of later servers.
    for (request, reply) in [
        (format!("add {key} 0 0 1\r\nx\r\n"), "NOT_STORED\r\n"),
        (format!("cas {key} 0 0 1 7\r\nx\r\n"), "EXISTS\r\n"),
        (format!("decr {key} 1\r\n"), "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
        (format!("ms {key} 1 E7\r\nx\r\n"), "CLIENT_ERROR invalid flag\r\n"),
        (format!("md {key} x\r\n"), "CLIENT_ERROR invalid flag\r\n"),
        (format!("ma {key} N0 ~\r\n"), "CLIENT_ERROR invalid flag\r\n"),
        (format!("ms {key} 1 MA C7\r\nx\r\n"), "EX\r\n"),
    ] {
        world.send(client, &request);
        assert_eq!(world.server_gets(0), request);
        world.server_says(0, reply);
        assert_eq!(world.server_gets(1), "", "{request}");
        assert_eq!(world.client_gets(client), reply);
    }
    assert_eq!(world.report().counters.replicas_invalidated, 0);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn flags_of_later_servers_pass() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    for (request, reply, follower) in [
        (format!("ms {key} 1 E7 c\r\nx\r\n"), "HD c7\r\n", format!("delete {key}\r\n")),
        (format!("md {key} x\r\n"), "HD\r\n", format!("delete {key}\r\n")),
        (format!("ma {key} E9 t\r\n"), "HD t-1\r\n", format!("delete {key}\r\n")),
        (format!("mg {key} v ~\r\n"), "VA 1 ~\r\nx\r\n", String::new()),
    ] {
        world.send(client, &request);
        assert_eq!(world.server_gets(0), request);
        world.server_says(0, reply);
        assert_eq!(world.server_gets(1), follower, "{request}");
        if !follower.is_empty() {
            world.server_says(1, "DELETED\r\n");
        }
        assert_eq!(world.client_gets(client), reply);
    }
    assert!(world.dataplane.is_quiet());
}

#[test]
fn an_undecided_write_makes_the_others_forget_without_keeping_the_client() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    world.send(client, &format!("append {key} 0 0 1\r\nx\r\n"));
    world.server_gets(0);
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:1\r\n");
    assert_eq!(world.server_gets(1), format!("delete {key}\r\n"));
    world.server_says(1, "DELETED\r\n");
    world.server_says(0, "STORED\r\n");
    assert_eq!(world.client_gets(client), "");
    assert!(world.dataplane.is_quiet());
}

/// A message of the second step stands in its queue behind younger ones, and is late before them all the same.
#[test]
fn both_steps_of_a_conditional_write_share_one_deadline() {
    let mut world = World::new(2, 2);
    let (client, other) = (world.client(), world.client());
    let (key, younger) = (world.key_on(0), world.keys_on(1, 2));
    world.send(client, &format!("incr {key} 5\r\n"));
    world.server_gets(0);
    world.pass(TIMEOUT / 2);
    for key in &younger {
        world.send(other, &format!("get {key}\r\n"));
    }
    world.server_says(0, "15\r\n");
    world.server_gets(1);
    assert_eq!(world.dataplane.poll_timeout(), Some(world.now.plus(TIMEOUT / 2)));
    world.pass(TIMEOUT / 2);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:2\r\n");
    assert_eq!(world.dataplane.poll_timeout(), Some(world.now.plus(TIMEOUT / 2)));
    world.server_says(1, "END\r\nEND\r\nDELETED\r\n");
    assert_eq!(world.client_gets(other), "END\r\nEND\r\n");
    assert!(world.dataplane.is_quiet());
}

/// Deadlines were compared with the last message's only, and one for which nobody waited hid the younger ones before it.
#[test]
fn a_second_step_behind_an_unattended_message_is_late_in_time() {
    let mut world = World::new(2, 2);
    let (client, other) = (world.client(), world.client());
    let (keys, younger) = (world.keys_on(0, 2), world.key_on(1));
    world.send(client, &format!("append {} 0 0 1\r\nx\r\n", keys[0]));
    world.server_gets(0);
    world.pass(TIMEOUT / 2);
    world.send(client, &format!("incr {} 5\r\n", keys[1]));
    world.server_gets(0);
    world.pass(TIMEOUT / 2 - 1);
    world.send(other, &format!("get {younger}\r\n"));
    world.pass(1);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:1\r\n");
    world.server_says(0, "STORED\r\n15\r\n");
    assert_eq!(
        world.server_gets(1),
        format!("get {younger}\r\ndelete {}\r\ndelete {}\r\n", keys[0], keys[1])
    );
    world.pass(TIMEOUT / 2);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:2\r\n");
}

#[test]
fn a_replica_that_fails_fails_the_write() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    world.send(client, &format!("set {key} 0 0 1\r\nx\r\n"));
    world.server_gets(0);
    world.server_gets(1);
    world.server_says(0, "STORED\r\n");
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:2\r\n");
}

#[test]
fn a_late_reply_reaches_nobody() {
    let mut world = World::new(1, 1);
    let (slow, other) = (world.client(), world.client());
    world.send(slow, "get a\r\n");
    world.server_gets(0);
    assert_eq!(world.dataplane.poll_timeout(), Some(world.now.plus(TIMEOUT)));
    world.pass(TIMEOUT - 1);
    assert_eq!(world.client_gets(slow), "");
    world.send(other, "get b\r\n");
    world.server_gets(0);
    world.pass(1);
    assert_eq!(world.client_gets(slow), "SERVER_ERROR timeout s:1\r\n");
    world.server_says(0, "VALUE a 0 1\r\nA\r\nEND\r\nVALUE b 0 1\r\nB\r\nEND\r\n");
    assert_eq!(world.client_gets(slow), "");
    assert_eq!(world.client_gets(other), "VALUE b 0 1\r\nB\r\nEND\r\n");
    let counters = world.report().counters;
    assert_eq!((counters.server_timeouts, counters.server_replies_late), (1, 1));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_long_reply_must_make_progress_and_no_more() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "get a\r\n");
    world.server_gets(0);
    for piece in ["VALUE a ", "0 2\r", "\n1", "2"] {
        world.pass(TIMEOUT - 1);
        world.server_says(0, piece);
    }
    world.pass(TIMEOUT - 1);
    world.server_says(0, "\r\nEND\r\n");
    assert_eq!(world.client_gets(client), "VALUE a 0 2\r\n12\r\nEND\r\n");
    world.send(client, "get b\r\n");
    world.server_gets(0);
    world.server_says(0, "VALUE b 0 2\r\n1");
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:1\r\n");
}

#[test]
fn a_lost_connection_fails_what_was_on_it_and_is_made_again() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "get a\r\nset b 0 0 1\r\nx\r\n");
    world.server_gets(0);
    world.server_says(0, "VALUE a 0 1\r\n");
    world.dataplane.handle_server_disconnected(0, world.now);
    world.turn();
    assert_eq!(world.client_gets(client), "SERVER_ERROR closed s:1\r\nSERVER_ERROR closed s:1\r\n");
    assert_eq!(world.events, [Event::Connect(0)]);
    // What comes now waits for the new connection; nothing of the old reply is left.
    world.send(client, "get c\r\n");
    assert_eq!(world.server_gets(0), "");
    world.dataplane.handle_server_connected(0, world.now);
    assert_eq!(world.server_gets(0), "get c\r\n");
    world.server_says(0, "END\r\n");
    assert_eq!(world.client_gets(client), "END\r\n");
}

#[test]
fn a_dead_server_is_refused_at_once_and_tried_again_later() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.dataplane.handle_server_disconnected(0, world.now);
    world.send(client, "get a\r\n");
    world.dataplane.handle_server_disconnected(0, world.now);
    world.turn();
    assert_eq!(world.client_gets(client), "SERVER_ERROR connect s:1\r\n");
    world.send(client, "get a\r\nset a 0 0 1 noreply\r\nx\r\n");
    assert_eq!(world.client_gets(client), "SERVER_ERROR down s:1\r\n");
    world.events.clear();
    let retry = world.dataplane.poll_timeout().expect("a dead server is tried again");
    world.pass(retry.saturating_since(world.now));
    assert_eq!(world.events, [Event::Connect(0)]);
    world.send(client, "get a\r\n");
    assert_eq!(world.client_gets(client), "SERVER_ERROR down s:1\r\n");
    world.dataplane.handle_server_connected(0, world.now);
    world.send(client, "get a\r\n");
    assert_eq!(world.server_gets(0), "get a\r\n");
    assert_eq!(world.report().counters.requests_failed_silently, 1);
}

#[test]
fn a_connection_attempt_without_end_is_given_up() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.dataplane.handle_server_disconnected(0, world.now);
    world.send(client, "get a\r\n");
    world.events.clear();
    world.pass(TIMEOUT);
    assert_eq!(world.events, [Event::Disconnect(0)]);
    assert_eq!(world.client_gets(client), "SERVER_ERROR connect s:1\r\n");
}

#[test]
fn a_reply_to_nothing_or_to_something_else_costs_the_connection() {
    for (request, reply) in [
        ("", "END\r\n"),
        ("get a\r\n", "STORED\r\n"),
        ("get a\r\n", "VALUE b 0 1\r\nx\r\nEND\r\n"),
        ("get a b\r\n", "VALUE b 0 1\r\nx\r\nVALUE a 0 1\r\nx\r\nEND\r\n"),
        ("delete a\r\n", "END\r\n"),
    ] {
        let mut world = World::new(1, 1);
        let client = world.client();
        world.send(client, request);
        world.server_gets(0);
        world.server_says(0, reply);
        assert_eq!(world.events, [Event::Disconnect(0), Event::Connect(0)], "{request:?} {reply:?}");
        let expected = if request.is_empty() { "" } else { "SERVER_ERROR protocol s:1\r\n" };
        assert_eq!(world.client_gets(client), expected);
        assert_eq!(world.report().counters.server_violations, 1);
    }
}

#[test]
fn too_much_for_a_server_is_refused() {
    let mut world = World::with(1, 1, Config { server_requests_max: 2, ..Config::default() });
    let client = world.client();
    world.send(client, "get a\r\nget b\r\nget c\r\n");
    assert_eq!(world.server_gets(0), "get a\r\nget b\r\n");
    world.server_says(0, "END\r\nEND\r\n");
    assert_eq!(world.client_gets(client), "END\r\nEND\r\nSERVER_ERROR queue-full s:1\r\n");
}

#[test]
fn a_reply_too_large_for_its_client_is_replaced() {
    let mut world = World::with(1, 1, Config { session_buffer_bytes_max: 64, ..Config::default() });
    let client = world.client();
    world.send(client, "get a\r\nget b\r\n");
    world.server_gets(0);
    let value = "x".repeat(100);
    world.server_says(0, &format!("VALUE a 0 100\r\n{value}\r\nEND\r\nEND\r\n"));
    assert_eq!(world.client_gets(client), "SERVER_ERROR buffer-full client\r\nEND\r\n");
}

#[test]
fn a_reply_larger_than_the_buffer_of_a_server_is_thrown_away_and_harms_no_neighbour() {
    let value = "x".repeat(2000);
    let small = "VALUE b 0 1\r\ny\r\n";
    for (request, reply) in [
        ("get a\r\n", format!("VALUE a 0 2000\r\n{value}\r\nEND\r\n")),
        ("get b a b\r\n", format!("{small}VALUE a 0 2000\r\n{value}\r\n{small}END\r\n")),
        (
            "get b b b\r\n",
            format!("{}END\r\n", small.repeat(3).replace("1\r\ny", &format!("400\r\n{}", &value[..400]))),
        ),
        ("mg a v\r\n", format!("VA 2000\r\n{value}\r\n")),
        ("mg a v q\r\nmn\r\n", format!("VA 2000\r\n{value}\r\nMN\r\n")),
    ] {
        for cut in [1, 7, 333, 5000] {
            let mut world = World::with(1, 1, Config { server_buffer_bytes_max: 1000, ..Config::default() });
            let (client, other) = (world.client(), world.client());
            world.send(client, request);
            world.send(other, "get c\r\n");
            world.server_gets(0);
            let replies = format!("{reply}VALUE c 0 1\r\nz\r\nEND\r\n");
            for piece in replies.as_bytes().chunks(cut) {
                world.server_says(0, std::str::from_utf8(piece).expect("text"));
            }
            if cut < 5000 {
                let answer = world.client_gets(client);
                assert!(answer.starts_with("SERVER_ERROR buffer-full s:1\r\n"), "{request:?}: {answer}");
            }
            assert_eq!(world.client_gets(other), "VALUE c 0 1\r\nz\r\nEND\r\n", "{request:?}, cut by {cut}");
            assert_eq!(world.report().counters.server_disconnects, 0);
        }
    }
}

#[test]
fn a_session_with_too_much_in_service_is_paused_and_goes_on() {
    let mut world = World::with(1, 1, Config { session_requests_max: 2, ..Config::default() });
    let client = world.client();
    world.send(client, "get a\r\nget b\r\nget c\r\nget d\r\nget e\r\n");
    assert!(!world.dataplane.wants_read(client));
    let mut out = String::new();
    for expected in ["get a\r\nget b\r\n", "get c\r\nget d\r\n", "get e\r\n"] {
        assert_eq!(world.server_gets(0), expected);
        world.server_says(0, &"END\r\n".repeat(expected.matches("get").count()));
        out += &world.client_gets(client);
    }
    assert_eq!(out, "END\r\n".repeat(5));
    assert_eq!(world.events, [Event::Resume(client)]);
    assert!(world.dataplane.wants_read(client) && world.dataplane.is_quiet());
}

#[test]
fn quit_closes_after_the_replies_and_what_follows_is_not_read() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "get a\r\nquit\r\nget b\r\n");
    assert_eq!(world.server_gets(0), "get a\r\n");
    assert_eq!(world.events, []);
    world.server_says(0, "END\r\n");
    assert_eq!(world.client_gets(client), "END\r\n");
    assert_eq!(world.events, [Event::Close(client)]);
    world.dataplane.handle_client_closed(client);
    assert!(world.dataplane.is_drained());
}

#[test]
fn a_client_that_has_finished_sending_gets_its_replies() {
    let mut world = World::with(1, 1, Config { session_requests_max: 1, ..Config::default() });
    let client = world.client();
    world.send(client, "get a\r\nget b\r\nget c");
    world.dataplane.handle_client_finished(client);
    world.server_gets(0);
    world.server_says(0, "END\r\n");
    assert_eq!(world.client_gets(client), "END\r\n");
    assert_eq!(world.server_gets(0), "get b\r\n");
    world.server_says(0, "END\r\n");
    assert_eq!(world.client_gets(client), "END\r\n");
    assert_eq!(world.events.last(), Some(&Event::Close(client)));
}

#[test]
fn replies_for_a_client_that_has_gone_do_not_reach_the_next_one() {
    let mut world = World::new(2, 1);
    let gone = world.client();
    let (first, second) = (world.key_on(0), world.key_on(1));
    world.send(gone, &format!("get {first}\r\nget {second}\r\nset {first} 0 0 1 noreply\r\nx\r\n"));
    world.server_gets(0);
    world.server_gets(1);
    world.server_says(1, "END\r\n");
    world.dataplane.handle_client_closed(gone);
    let next = world.client();
    assert_ne!(next, gone, "the number is still in use");
    world.send(next, "version\r\n");
    world.client_gets(next);
    world.server_says(0, "END\r\nSTORED\r\n");
    assert_eq!(world.client_gets(next), "");
    assert!(world.dataplane.is_quiet());
    assert_eq!(world.client(), gone, "the number is free");
    assert_eq!(world.report().counters.requests_orphaned, 3);
}

#[test]
fn a_short_write_waits_until_the_kernel_takes_more() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "get a\r\n");
    assert_eq!(world.dataplane.poll_server_output(None, world.now), Some(0));
    world.dataplane.handle_server_written(0, 3, world.now);
    assert_eq!(world.dataplane.poll_server_output(None, world.now), None);
    world.dataplane.handle_server_writable(0);
    assert_eq!(world.server_gets(0), " a\r\n");
    world.server_says(0, "END\r\n");
    assert_eq!(world.dataplane.poll_client_output(), Some(client));
    world.dataplane.handle_client_written(client, 0, world.now);
    assert_eq!(world.dataplane.poll_client_output(), None);
    world.dataplane.handle_client_writable(client);
    assert_eq!(world.dataplane.poll_client_output(), Some(client));
    assert_eq!(world.client_gets(client), "END\r\n");
}

#[test]
fn a_value_that_is_too_large_is_swallowed() {
    let limits = weir_protocol::Limits { value_bytes_max: 4, ..Default::default() };
    let mut world = World::with(1, 1, Config { limits, ..Config::default() });
    let client = world.client();
    for piece in ["set a 0 0 10\r\n0123", "456789", "\r", "\nversion\r\n"] {
        world.send(client, piece);
    }
    // The old value is not what the client wanted to be there.
    assert_eq!(world.server_gets(0), "delete a\r\n");
    assert_eq!(world.client_gets(client), "");
    world.server_says(0, "DELETED\r\n");
    let out = world.client_gets(client);
    assert!(out.starts_with("SERVER_ERROR object too large for cache\r\nVERSION "), "{out}");
}

#[test]
fn the_longest_value_is_what_the_servers_say_that_they_store() {
    let mut world = World::with(2, 1, Config { asks_item_size: true, ..Config::default() });
    let client = world.client();
    assert_eq!(world.server_gets(0), "stats settings\r\n");
    assert_eq!(world.server_gets(1), "stats settings\r\n");
    world.server_says(0, "STAT maxbytes 67108864\r\nSTAT item_size_max 10\r\nSTAT maxconns 1024\r\nEND\r\n");
    let (first, second) = (world.key_on(0), world.key_on(1));
    world.send(client, &format!("set {first} 0 0 11\r\n12345678901\r\n"));
    assert_eq!(world.server_gets(0), format!("delete {first}\r\n"));
    world.server_says(0, "NOT_FOUND\r\n");
    assert_eq!(world.client_gets(client), "SERVER_ERROR object too large for cache\r\n");
    // The largest counts: what its own server does not store, that one refuses.
    world.server_says(1, "STAT item_size_max 20\r\nEND\r\n");
    assert_eq!(world.report().value_bytes_max, 20);
    world.send(client, &format!("set {second} 0 0 11\r\n12345678901\r\n"));
    assert_eq!(world.server_gets(1), format!("set {second} 0 0 11\r\n12345678901\r\n"));
    // A server that came back with another `-I`.
    world.dataplane.handle_server_disconnected(1, world.now);
    world.dataplane.handle_server_connected(1, world.now);
    assert_eq!(world.server_gets(1), "stats settings\r\n");
    world.server_says(1, "STAT item_size_max 15\r\nEND\r\n");
    assert_eq!(world.report().value_bytes_max, 15);
}

#[test]
fn no_value_is_longer_than_the_buffer_of_its_client() {
    let config = Config { asks_item_size: true, session_buffer_bytes_max: 100, ..Config::default() };
    let mut world = World::with(1, 1, config);
    world.server_gets(0);
    world.server_says(0, "STAT item_size_max 134217728\r\nEND\r\n");
    assert_eq!(world.report().value_bytes_max, 100);
}

/// Other proxies close the connection at a question they do not know; and so does memcached if it is just ending.
#[test]
fn a_server_that_ends_its_connections_over_the_question_is_asked_no_more() {
    let mut world = World::with(1, 1, Config { asks_item_size: true, ..Config::default() });
    let client = world.client();
    for _ in 0..3 {
        assert_eq!(world.server_gets(0), "stats settings\r\n");
        world.dataplane.handle_server_disconnected(0, world.now);
        world.dataplane.handle_server_connected(0, world.now);
    }
    world.send(client, "get a\r\n");
    assert_eq!(world.server_gets(0), "get a\r\n");
}

#[test]
fn a_server_that_does_not_know_the_question_is_asked_again_when_it_comes_back() {
    let mut world = World::with(1, 1, Config { asks_item_size: true, ..Config::default() });
    for _ in 0..5 {
        assert_eq!(world.server_gets(0), "stats settings\r\n");
        world.server_says(0, "ERROR\r\n");
        assert_eq!(world.report().value_bytes_max, 1 << 20);
        world.dataplane.handle_server_disconnected(0, world.now);
        world.dataplane.handle_server_connected(0, world.now);
    }
}

#[test]
fn quiet_meta_commands_say_what_their_server_says_and_keep_their_order() {
    let mut world = World::new(2, 1);
    let client = world.client();
    let (a, b) = (world.key_on(0), world.key_on(1));
    world.send(client, &format!("mg {a} v q\r\nmg {b} k q\r\nms {a} 1 q\r\nx\r\nmn\r\nmg {b} v O7\r\n"));
    assert_eq!(world.server_gets(0), format!("mg {a} v q\r\nmn\r\nms {a} 1 q\r\nx\r\nmn\r\n"));
    assert_eq!(world.server_gets(1), format!("mg {b} k q\r\nmn\r\nmg {b} v O7\r\n"));
    world.server_says(1, &format!("HD k{b}\r\nMN\r\nVA 3 O7\r\nMN\r\r\n"));
    assert_eq!(world.client_gets(client), "");
    world.server_says(0, "MN\r\nMN\r\n");
    assert_eq!(world.client_gets(client), format!("HD k{b}\r\nMN\r\nVA 3 O7\r\nMN\r\r\n"));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_quiet_meta_command_alone_ends_without_a_write() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "mg a q\r\n");
    world.server_gets(0);
    world.server_says(0, "MN\r\n");
    assert!(world.dataplane.is_quiet());
    let report = world.report();
    assert_eq!(report.timing.operation(Operation::Get).misses, 1);
}

#[test]
fn a_base64_key_has_the_place_of_what_it_stands_for() {
    let mut world = World::new(3, 1);
    let client = world.client();
    // "ab" and its base64 form.
    let server = world.router.primary(b"ab");
    world.send(client, "mg YWI= b v\r\n");
    assert_eq!(world.server_gets(server), "mg YWI= b v\r\n");
}

#[test]
fn a_key_that_would_forge_a_reply_is_not_created() {
    let mut world = World::new(1, 1);
    let client = world.client();
    // x CR LF HD CR LF
    world.send(
        client,
        "mg eA0KSEQNCg== b N30\r\nma eA0KSEQNCg== b N0\r\nmg eA0KSEQNCg== b v\r\nmg YWI= b N30\r\n",
    );
    assert_eq!(world.server_gets(0), "mg eA0KSEQNCg== b v\r\nmg YWI= b N30\r\n");
    world.server_says(0, "EN\r\nHD W\r\n");
    let refused = "CLIENT_ERROR bad command line format\r\n";
    assert_eq!(world.client_gets(client), format!("{refused}{refused}EN\r\nHD W\r\n"));
}

#[test]
fn a_meta_reply_that_repeats_another_key_costs_the_connection() {
    for (request, reply, good) in [
        ("mg a k\r\n", "HD ka\r\n", true),
        ("mg a k\r\n", "HD kb\r\n", false),
        ("mg a v k\r\n", "VA 1 kb\r\nx\r\n", false),
        ("mg YQ== b k\r\n", "HD kYQ== b\r\n", true),
        ("mg YR== b k\r\n", "HD kYQ== b\r\n", true),
        ("mg eA0KSEQ= b k\r\n", "HD kx\r\nHD\r\n", false),
        ("mg *Y-Q== b k\r\n", "HD kYQ== b\r\n", true),
        ("md \t k\r\n", "NF k\t\r\n", true),
        ("me a\r\n", "ME YQ== exp=-1\r\n", true),
        ("me a\r\n", "ME b exp=-1\r\n", false),
        ("mg a k !\r\n", "CLIENT_ERROR invalid flag k\r\n", true),
    ] {
        let mut world = World::new(1, 1);
        let client = world.client();
        world.send(client, request);
        world.server_gets(0);
        world.server_says(0, reply);
        let expected = if good { reply } else { "SERVER_ERROR protocol s:1\r\n" };
        assert_eq!(world.client_gets(client), expected, "{request:?}");
    }
}

#[test]
fn statistics_are_the_drivers_to_give_and_keep_their_place() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "get a\r\nstats\r\nstats items\r\n");
    world.server_gets(0);
    let Some(Event::Stats { request, .. }) = world.events.pop() else { panic!("nobody was asked") };
    world.dataplane.handle_stats(request, b"STAT pid 1\r\nEND\r\n".to_vec(), world.now);
    assert_eq!(world.client_gets(client), "");
    world.server_says(0, "END\r\n");
    assert_eq!(
        world.client_gets(client),
        "END\r\nSTAT pid 1\r\nEND\r\nCLIENT_ERROR these statistics belong to one server, ask it directly\r\n"
    );
}

#[test]
fn a_flush_reaches_every_server() {
    let limits = weir_protocol::Limits { flush_allowed: true, ..Default::default() };
    let mut world = World::with(2, 1, Config { limits, ..Config::default() });
    let client = world.client();
    world.send(client, "flush_all 10\r\n");
    for server in [1, 0] {
        assert_eq!(world.server_gets(server), "flush_all 10\r\n");
        assert_eq!(world.client_gets(client), "");
        world.server_says(server, "OK\r\n");
    }
    assert_eq!(world.client_gets(client), "OK\r\n");
}

#[test]
fn the_stamps_tell_where_the_time_went() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "get");
    world.pass(10);
    world.send(client, " a\r\n");
    world.pass(200);
    assert_eq!(world.dataplane.poll_server_output(None, world.now), Some(0));
    world.pass(3000);
    world.dataplane.handle_server_written(0, 7, world.now);
    world.pass(40_000);
    world.server_says(0, "END\r\n");
    world.pass(500_000);
    world.client_gets(client);
    let report = world.report();
    let get = report.timing.operation(Operation::Get);
    let sums = Stage::ALL.map(|stage| get.stage(stage).sum());
    assert_eq!(sums, [10, 0, 200, 3000, 40_000, 500_000], "read, dispatch, queue, send, backend, reply");
    assert_eq!(get.total.sum(), 543_210);
    assert_eq!(report.timing.server_time(0).sum(), 40_000);
    let server = &report.servers[0];
    assert_eq!(
        (server.queued.length_time_integral_ns, server.in_flight.length_time_integral_ns),
        (200, 43_000)
    );
}

#[test]
fn a_drain_answers_what_was_taken_and_accepts_nobody() {
    let mut world = World::new(1, 1);
    let (busy, idle) = (world.client(), world.client());
    world.send(busy, "get a\r\n");
    world.server_gets(0);
    world.dataplane.begin_drain();
    world.turn();
    assert_eq!(world.events, [Event::Close(idle)]);
    assert_eq!(world.dataplane.handle_accept(world.now), None);
    world.dataplane.handle_client_closed(idle);
    world.server_says(0, "END\r\n");
    assert_eq!(world.client_gets(busy), "END\r\n");
    assert_eq!(world.events, [Event::Close(idle), Event::Close(busy)]);
    world.dataplane.handle_client_closed(busy);
    assert!(world.dataplane.is_drained());
}
