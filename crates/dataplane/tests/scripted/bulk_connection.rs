//! Large values, on a connection of their own.

use crate::world::{TIMEOUT, World, router, slot};
use weir_dataplane::{Config, Event};

const LARGE: usize = 100;

/// One server, whose number is 0; its connection for large values is number 1.
fn world() -> World {
    World::with(1, 1, Config { large_value_bytes: LARGE, ..Config::default() })
}

fn set(key: &str, length: usize) -> String {
    format!("set {key} 0 0 {length}\r\n{}\r\n", "x".repeat(length))
}

/// A world in which a large value was stored before, so that both connections are there.
fn connected() -> World {
    let mut world = world();
    let client = world.client();
    world.send(client, &set("first", LARGE));
    assert_eq!(world.events, [Event::Connect(slot(1))]);
    world.dataplane.handle_server_connected(slot(1), world.now);
    assert_eq!(world.server_gets(1), set("first", LARGE));
    assert_eq!(world.hears(client, 1, "STORED\r\n"), "STORED\r\n");
    world.dataplane.handle_client_closed(client);
    world.events.clear();
    world
}

#[test]
fn a_large_value_delays_nobody_behind_it() {
    let mut world = connected();
    let (bulky, other) = (world.client(), world.client());
    world.send(bulky, &set("a", LARGE));
    world.send(other, &(set("b", LARGE - 1) + "get c\r\n"));
    assert_eq!(world.server_gets(0), set("b", LARGE - 1) + "get c\r\n");
    assert_eq!(world.hears(other, 0, "STORED\r\nEND\r\n"), "STORED\r\nEND\r\n");
    assert_eq!(world.server_gets(1), set("a", LARGE));
    assert_eq!(world.hears(bulky, 1, "STORED\r\n"), "STORED\r\n");
    let report = world.report();
    assert_eq!(report.counters.requests_apart, 2);
    assert_eq!((report.servers.len(), report.servers[0].requests), (1, 4));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_session_does_nothing_beside_its_large_value() {
    let mut world = connected();
    let client = world.client();
    world.send(client, &format!("get a\r\n{}get a\r\n", set("a", LARGE)));
    assert_eq!((world.server_gets(0), world.server_gets(1)), ("get a\r\n".to_owned(), String::new()));
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
    assert_eq!((world.server_gets(0), world.server_gets(1)), (String::new(), set("a", LARGE)));
    assert_eq!(world.hears(client, 1, "STORED\r\n"), "STORED\r\n");
    assert_eq!(world.server_gets(0), "get a\r\n");
    assert_eq!(world.hears(client, 0, "VALUE a 0 1\r\nx\r\nEND\r\n"), "VALUE a 0 1\r\nx\r\nEND\r\n");
    assert_eq!(world.report().counters.large_waits, 1);
}

#[test]
fn a_large_value_that_waits_is_not_looked_at_for_each_request_before_it() {
    let mut world = connected();
    let client = world.client();
    world.send(client, &("set a 0 0 1 noreply\r\nx\r\n".repeat(5) + "get b\r\n" + &set("a", LARGE)));
    assert_eq!(world.server_gets(0).matches("set a").count(), 5);
    world.server_says(0, &"STORED\r\n".repeat(5));
    assert_eq!(world.server_gets(1), "");
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
    assert_eq!(world.report().counters.large_waits, 1);
    assert_eq!(world.server_gets(1), set("a", LARGE));
    assert_eq!(world.hears(client, 1, "STORED\r\n"), "STORED\r\n");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn silent_large_values_are_stored_one_after_the_other() {
    let mut world = connected();
    let client = world.client();
    let silent = |key: &str| set(key, LARGE).replacen("\r\n", " noreply\r\n", 1);
    world.send(client, &(silent("a") + &silent("b") + "version\r\n"));
    for key in ["a", "b"] {
        assert_eq!(world.server_gets(1), set(key, LARGE));
        assert_eq!(world.client_gets(client), "");
        world.server_says(1, "STORED\r\n");
    }
    assert!(world.client_gets(client).starts_with("VERSION "));
}

#[test]
fn later_writes_of_a_key_follow_the_one_on_it_even_when_it_was_given_up() {
    let mut world = connected();
    let (first, second, third) = (world.client(), world.client(), world.client());
    world.send(first, &set("a", LARGE));
    world.server_gets(1);
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(first), "SERVER_ERROR timeout s:1\r\n");
    world.send(second, "delete a\r\n");
    world.send(third, "delete b\r\n");
    assert_eq!((world.server_gets(0), world.server_gets(1)), ("delete b\r\n".into(), "delete a\r\n".into()));
    world.server_says(1, "STORED\r\nDELETED\r\n");
    assert_eq!(world.client_gets(second), "DELETED\r\n");
    assert_eq!(world.hears(third, 0, "DELETED\r\n"), "DELETED\r\n");
    world.send(second, "delete a\r\n");
    assert_eq!(world.server_gets(0), "delete a\r\n", "nothing is on the bulk connection any more");
}

#[test]
fn nothing_goes_over_it_that_could_overtake_what_was_given_up() {
    let mut world = connected();
    let (first, second) = (world.client(), world.client());
    world.send(first, "delete a\r\n");
    world.server_gets(0);
    world.pass(TIMEOUT);
    world.client_gets(first);
    world.send(second, &set("a", LARGE));
    assert_eq!(world.server_gets(0), set("a", LARGE));
    world.server_says(0, "DELETED\r\nSTORED\r\n");
    assert_eq!(world.client_gets(second), "STORED\r\n");
    // Given up on both: there is no place behind both.
    world.send(first, &set("a", LARGE));
    world.send(second, "delete b\r\n");
    world.server_gets(0);
    world.server_gets(1);
    world.pass(TIMEOUT);
    world.client_gets(first);
    world.client_gets(second);
    world.send(first, "delete a\r\n");
    assert_eq!(world.client_gets(first), "SERVER_ERROR timeout s:1\r\n");
    assert_eq!((world.server_gets(0), world.server_gets(1)), (String::new(), String::new()));
}

#[test]
fn flush_all_goes_behind_what_is_on_it() {
    let limits = weir_protocol::Limits { flush_allowed: true, ..Default::default() };
    let mut world = World::with(1, 1, Config { limits, large_value_bytes: LARGE, ..Config::default() });
    let (bulky, flusher) = (world.client(), world.client());
    world.send(bulky, &set("a", LARGE));
    world.dataplane.handle_server_connected(slot(1), world.now);
    world.send(flusher, "flush_all\r\nget a\r\n");
    assert_eq!(world.server_gets(0), "");
    assert_eq!(world.server_gets(1), set("a", LARGE) + "flush_all\r\n");
    world.server_says(1, "STORED\r\nOK\r\n");
    assert_eq!(world.client_gets(flusher), "OK\r\n");
    assert_eq!(world.server_gets(0), "get a\r\n");
}

#[test]
fn one_that_cannot_be_made_is_done_without() {
    let mut world = world();
    let client = world.client();
    world.send(client, &set("a", LARGE));
    world.dataplane.handle_server_disconnected(slot(1), world.now);
    world.turn();
    assert_eq!(world.client_gets(client), "SERVER_ERROR connect s:1\r\n");
    world.send(client, &set("a", LARGE));
    assert_eq!(world.server_gets(0), set("a", LARGE));
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "STORED\r\n");
}

#[test]
fn one_leaves_with_its_server_and_comes_back_with_it() {
    let mut world = connected();
    let client = world.client();
    assert_eq!(
        world.reload(router(&["t:1"], 1)),
        [Event::Connect(slot(2)), Event::Disconnect(slot(0)), Event::Disconnect(slot(1))]
    );
    assert_eq!(world.report().counters.servers_left, 1);
    world.dataplane.handle_server_connected(slot(2), world.now);
    world.events.clear();
    world.send(client, &set("a", LARGE));
    assert_eq!(world.events, [Event::Connect(slot(0))], "the number is used again");
    world.dataplane.handle_server_connected(slot(0), world.now);
    assert_eq!(world.server_gets(0), set("a", LARGE));
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "STORED\r\n");
    assert_eq!(
        world.reload(router(&["s:1"], 1)),
        [Event::Connect(slot(1)), Event::Disconnect(slot(0)), Event::Disconnect(slot(2))]
    );
}

#[test]
fn keys_with_replicas_keep_their_one_connection() {
    let mut world = World::with(2, 2, Config { large_value_bytes: LARGE, ..Config::default() });
    let client = world.client();
    world.send(client, &set("a", LARGE));
    assert_eq!(world.events, []);
    assert_eq!((world.server_gets(0), world.server_gets(1)), (set("a", LARGE), set("a", LARGE)));
}
