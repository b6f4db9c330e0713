//! Reads whose server is lost before it has answered.

use crate::world::{TIMEOUT, World, slot, token};
use weir_dataplane::{Config, OnFailure, ReadPolicy};

impl World {
    pub(crate) fn closes(&mut self, server: usize) {
        self.dataplane.handle_server_disconnected(slot(server), self.now);
        self.turn();
    }
}

#[test]
fn a_read_whose_server_closes_is_asked_of_the_next_replica() {
    for read_policy in [ReadPolicy::Primary, ReadPolicy::Nearest] {
        let mut world = World::with(3, 3, Config { read_policy, ..Config::default() });
        let client = world.client();
        let key = world.key_on(1);
        for (request, reply) in [
            (format!("get {key}\r\n"), format!("VALUE {key} 0 1\r\nx\r\nEND\r\n")),
            (format!("mg {key} v k s\r\n"), format!("VA 1 k{key} s1\r\nx\r\n")),
            (format!("mg {key} q\r\n"), String::new()),
        ] {
            world.send(client, &request);
            let message = request.replace(" q", "");
            let first = (0..3).find(|&server| world.server_gets(server) == message).expect("one is asked");
            // The beginning of a reply is none.
            world.server_says(first, &reply[..reply.len() / 2]);
            world.closes(first);
            assert_eq!(world.client_gets(client), "");
            let second =
                (0..3).find(|&server| world.server_gets(server) == message).expect("another is asked");
            assert_ne!(first, second);
            let end = if reply.is_empty() { "EN\r\n" } else { "" };
            assert_eq!(world.hears(client, second, &format!("{reply}{end}")), reply);
            world.dataplane.handle_server_connected(slot(first), world.now);
            world.turn();
        }
        assert_eq!(world.report().counters.reads_retried, 3);
        assert_eq!(world.report().counters.requests_failed, 0);
        assert!(world.dataplane.is_quiet());
    }
}

#[test]
fn each_replica_is_asked_once_and_then_it_is_an_error() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    let get = format!("get {key}\r\n");
    world.send(client, &get);
    assert_eq!(world.server_gets(0), get);
    world.closes(0);
    world.dataplane.handle_server_connected(slot(0), world.now);
    assert_eq!(world.server_gets(1), get);
    world.closes(1);
    // The first is there again, and has lost it once.
    assert_eq!(world.server_gets(0), "");
    assert_eq!(world.client_gets(client), "SERVER_ERROR closed s:2\r\n");
    assert_eq!(world.report().counters.reads_retried, 1);
}

#[test]
fn with_one_replica_a_lost_read_is_an_error() {
    let mut world = World::new(2, 1);
    let client = world.client();
    let key = world.key_on(0);
    world.send(client, &format!("get {key}\r\n"));
    world.server_gets(0);
    world.closes(0);
    assert_eq!(world.client_gets(client), "SERVER_ERROR closed s:1\r\n");
    assert_eq!((world.server_gets(1).as_str(), world.report().counters.reads_retried), ("", 0));
}

#[test]
fn a_read_that_waits_for_a_connection_goes_elsewhere_when_it_is_refused() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    let get = format!("get {key}\r\n");
    world.closes(0);
    world.closes(1);
    // Both are being connected to.
    world.send(client, &get);
    assert_eq!((world.server_gets(0), world.server_gets(1)), (String::new(), String::new()));
    world.closes(0);
    world.pass(1_000);
    world.dataplane.handle_server_connected(slot(1), world.now);
    assert_eq!(world.server_gets(1), get);
    world.pass(1_000);
    assert_eq!(world.hears(client, 1, "END\r\n"), "END\r\n");
    let report = world.report();
    assert_eq!((report.counters.reads_retried, report.counters.stamps_clamped), (1, 0));
}

#[test]
fn garbage_costs_nobody_a_read() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    let gets = format!("gets {key}\r\nget {key}\r\n");
    world.send(client, &gets);
    assert_eq!(world.server_gets(0), gets);
    world.server_says(0, "EHLO\r\n");
    assert_eq!(world.server_gets(1), gets);
    assert_eq!(world.hears(client, 1, "END\r\nEND\r\n"), "END\r\nEND\r\n");
}

/// The second message would come behind the write, and the client would read what it wrote later.
#[test]
fn a_client_that_wrote_behind_its_read_gets_the_error() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    let set = format!("set {key} 0 0 1\r\nx\r\n");
    world.send(client, &format!("get {key}\r\n{set}"));
    world.server_gets(0);
    assert_eq!(world.server_gets(1), set);
    world.closes(0);
    assert_eq!(world.server_gets(1), "");
    world.server_says(1, "STORED\r\n");
    assert_eq!(world.client_gets(client), "SERVER_ERROR closed s:1\r\nSERVER_ERROR closed s:1\r\n");
}

#[test]
fn a_server_that_lacks_a_write_is_not_asked_instead() {
    let mut world = World::new(2, 2);
    let (client, other) = (world.client(), world.client());
    let key = world.key_on(0);
    world.send(other, &format!("set {key} 0 0 1\r\nx\r\n"));
    world.server_gets(0);
    world.server_gets(1);
    world.server_says(0, "STORED\r\n");
    world.pass(TIMEOUT);
    world.send(client, &format!("get {key}\r\n"));
    assert_eq!(world.server_gets(0), format!("get {key}\r\n"));
    world.closes(0);
    assert_eq!(world.server_gets(1), format!("delete {key}\r\n"));
    assert_eq!(world.client_gets(client), "SERVER_ERROR closed s:1\r\n");
}

#[test]
fn what_writes_and_what_is_late_is_not_asked_twice() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    for request in [format!("gat 5 {key}\r\n"), format!("mg {key} v T5\r\n"), format!("mg {key} v ~\r\n")] {
        world.send(client, &request);
        assert_eq!(world.server_gets(0), request);
        world.closes(0);
        assert_eq!(world.server_gets(1), "");
        assert_eq!(world.client_gets(client), "SERVER_ERROR closed s:1\r\n");
        world.dataplane.handle_server_connected(slot(0), world.now);
    }
    world.send(client, &format!("get {key}\r\n"));
    world.server_gets(0);
    world.now = world.now.plus(TIMEOUT);
    world.closes(0);
    assert_eq!(world.client_gets(client), "SERVER_ERROR closed s:1\r\n");
    assert_eq!(world.report().counters.reads_retried, 0);
}

#[test]
fn a_lost_part_goes_where_another_part_is_under_way() {
    let mut world = World::new(3, 2);
    let client = world.client();
    let keys: Vec<String> = (0..3).map(|server| world.key_on(server)).collect();
    let value = |key: &str, cas: u64| format!("VALUE {key} 0 1 {cas}\r\nx\r\n");
    world.send(client, &format!("gets {} {} {}\r\n", keys[0], keys[1], keys[2]));
    let asked: Vec<String> = (0..3).map(|server| world.server_gets(server)).collect();
    assert_eq!(asked, keys.iter().map(|key| format!("gets {key}\r\n")).collect::<Vec<_>>());
    world.server_says(2, &format!("{}END\r\n", value(&keys[2], 2)));
    world.closes(0);
    assert_eq!(world.server_gets(1), asked[0], "its second replica");
    world.server_says(1, &format!("{}END\r\n", value(&keys[1], 1)));
    assert_eq!(world.client_gets(client), "");
    let reply = world.hears(client, 1, &format!("{}END\r\n", value(&keys[0], 3)));
    // Each token is that of the server that answered.
    let seen = [(0, token(1, 3)), (1, token(1, 1)), (2, token(2, 2))];
    let seen: String = seen.iter().map(|&(of, cas)| value(&keys[of], cas)).collect();
    assert_eq!(reply, format!("{seen}END\r\n"));
    assert_eq!(world.report().counters.reads_retried, 1);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_split_multi_get_loses_a_part_and_keeps_its_order() {
    let mut world = World::new(3, 3);
    let client = world.client();
    let keys = world.keys_on(0, 6);
    world.send(client, &format!("get {}\r\n", keys.join(" ")));
    let value = |key: &str| format!("VALUE {key} 0 1\r\nx\r\n");
    let asked: Vec<String> = (0..3).map(|server| world.server_gets(server)).collect();
    world.closes(2);
    assert_eq!(world.server_gets(0), asked[2], "the decider");
    // It has one of them; the other is nowhere, as the decider knows.
    let names: Vec<&str> = asked[2].split_ascii_whitespace().skip(1).collect();
    for (server, message) in asked.iter().enumerate().take(2) {
        let found: String = message.split_ascii_whitespace().skip(1).map(value).collect();
        world.server_says(server, &format!("{found}END\r\n"));
    }
    assert_eq!(world.client_gets(client), "");
    let reply = world.hears(client, 0, &format!("{}END\r\n", value(names[1])));
    let expected: String = keys.iter().filter(|key| *key != names[0]).map(|key| value(key)).collect();
    assert_eq!(reply, format!("{expected}END\r\n"));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn where_failures_are_misses_only_what_nobody_else_has_is_missed() {
    let mut world = World::with(3, 2, Config { on_failure: OnFailure::Degrade, ..Config::default() });
    let client = world.client();
    // Replicas of the first key: 0 and 1; of the second: 2 and 0.
    let keys = [world.key_on(0), world.key_on(2)];
    world.closes(2);
    world.closes(2);
    // The third server is down, so both keys are asked of the first.
    world.send(client, &format!("gets {} {}\r\n", keys[0], keys[1]));
    assert_eq!(world.server_gets(0), format!("gets {} {}\r\n", keys[0], keys[1]));
    world.closes(0);
    assert_eq!(world.server_gets(1), format!("gets {}\r\n", keys[0]));
    let value = |cas: u64| format!("VALUE {} 0 1 {cas}\r\nx\r\nEND\r\n", keys[0]);
    assert_eq!(world.hears(client, 1, &value(7)), value(token(1, 7)));
    let counters = world.report().counters;
    assert_eq!((counters.keys_degraded, counters.reads_retried, counters.requests_failed), (1, 1, 0));
    assert!(world.dataplane.is_quiet());
}
