//! Connections whose path swallows bytes, while new connections to the same server pass.

use crate::world::{MS, TIMEOUT, World, router, slot};
use weir_dataplane::{Config, Event, SessionId};

/// Three requests to server 0 that are not answered in time.
fn falls_silent(world: &mut World, client: SessionId) {
    world.events.clear();
    for key in world.keys_on(0, 3) {
        world.send(client, &format!("set {key} 0 0 1\r\nx\r\n"));
    }
    let servers = world.report().servers.len();
    for server in 0..servers {
        let asked = world.server_gets(server).matches("set ").count();
        if server > 0 {
            world.server_says(server, &"STORED\r\n".repeat(asked));
        }
    }
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(client).matches("SERVER_ERROR timeout s:1\r\n").count(), 3);
}

/// The second connection is made and answered.
fn is_contradicted(world: &mut World, second: usize) {
    world.dataplane.handle_server_connected(slot(second), world.now);
    assert_eq!(world.server_gets(second), "version\r\n");
    world.server_says(second, "VERSION 1.6.18\r\n");
}

/// The connection stayed, and every request to that server was late, for ever.
#[test]
fn a_silent_connection_is_replaced_when_its_server_answers_another() {
    for pause in [TIMEOUT, 125 * MS] {
        let mut world = World::new(1, 1);
        let client = world.client();
        falls_silent(&mut world, client);
        assert_eq!(world.events, [Event::Connect(slot(1))]);
        world.events.clear();
        is_contradicted(&mut world, 1);
        assert_eq!(world.events, [], "the old one may be about to answer");
        world.pass(pause);
        assert_eq!(
            world.events,
            [Event::Disconnect(slot(1)), Event::Disconnect(slot(0)), Event::Connect(slot(0))]
        );
        assert_eq!(world.report().servers[0].state, "connecting");
        world.send(client, "get a\r\n");
        world.dataplane.handle_server_connected(slot(0), world.now);
        assert_eq!(world.server_gets(0), "get a\r\n");
        assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
        let counters = world.report().counters;
        assert_eq!((counters.second_opinions, counters.server_connections_dead), (1, 1));
        assert!(world.dataplane.is_quiet());
        assert_eq!(world.report().servers.len(), 1);
    }
}

/// What the old connection swallowed may still come out of it: the server is not read before it has forgotten that twice.
#[test]
fn a_dead_connection_with_writes_on_it_is_quarantined() {
    let quarantine_ns = 3 * TIMEOUT;
    let mut world = World::with(2, 2, Config { quarantine_ns, ..Config::default() });
    let client = world.client();
    falls_silent(&mut world, client);
    is_contradicted(&mut world, 2);
    world.pass(TIMEOUT / 2);
    assert_eq!(world.report().counters.server_quarantines, 1);
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.turn();
    let key = world.key_on(0);
    world.send(client, &format!("get {key}\r\n"));
    assert_eq!((world.server_gets(0), world.server_gets(1)), (String::new(), format!("get {key}\r\n")));
    world.server_says(1, "END\r\n");
    for round in ["the first", "the second"] {
        assert_eq!(world.server_gets(0), "", "before {round}");
        world.pass(quarantine_ns);
        assert_eq!(world.server_gets(0).matches("delete ").count(), 3, "{round}");
        world.server_says(0, &"NOT_FOUND\r\n".repeat(3));
    }
    world.send(client, &format!("get {key}\r\n"));
    assert_eq!(world.server_gets(0), format!("get {key}\r\n"));
}

#[test]
fn a_frozen_server_keeps_its_connection_and_is_asked_again_now_and_then() {
    let mut world = World::new(1, 1);
    let client = world.client();
    falls_silent(&mut world, client);
    world.server_gets(0);
    assert_eq!(world.events, [Event::Connect(slot(1))]);
    for attempt in 1..8 {
        // Its kernel accepts the connection, and nobody answers.
        world.dataplane.handle_server_connected(slot(1), world.now);
        assert_eq!(world.server_gets(1), "version\r\n");
        world.events.clear();
        let ends = world.dataplane.poll_timeout().expect("it is asked again");
        let lasted = ends.saturating_since(world.now);
        assert!((TIMEOUT..=10 * TIMEOUT).contains(&lasted), "{attempt}: {lasted}");
        world.pass(lasted);
        assert_eq!(world.events, [Event::Disconnect(slot(1)), Event::Connect(slot(1))], "{attempt}");
    }
    world.events.clear();
    // It goes on, and the second connection's answer is there first.
    is_contradicted(&mut world, 1);
    world.pass(10 * MS);
    world.server_says(0, "STORED\r\nSTORED\r\nSTORED\r\nVERSION 1.6.18\r\n");
    world.pass(TIMEOUT);
    assert_eq!(world.events, [Event::Disconnect(slot(1))]);
    assert_eq!(world.report().servers[0].state, "up");
    assert_eq!(world.report().counters.server_connections_dead, 0);
    assert!(world.dataplane.is_quiet());
}

/// Both answers came in one turn, the old connection's first. It had nothing left to say after that, and was taken for dead.
#[test]
fn a_connection_that_answers_just_before_the_second_one_is_kept() {
    let mut world = World::new(1, 1);
    let client = world.client();
    falls_silent(&mut world, client);
    world.server_gets(0);
    world.dataplane.handle_server_connected(slot(1), world.now);
    assert_eq!(world.server_gets(1), "version\r\n");
    world.events.clear();
    let answers = b"STORED\r\nSTORED\r\nSTORED\r\nVERSION 1.6.18\r\n";
    world.dataplane.handle_server_bytes(slot(0), answers, world.now);
    world.server_says(1, "VERSION 1.6.18\r\n");
    world.pass(TIMEOUT);
    assert_eq!(world.events, [Event::Disconnect(slot(1))]);
    assert_eq!(world.report().counters.server_connections_dead, 0);
}

#[test]
fn a_second_connection_that_fails_proves_nothing_and_is_tried_again() {
    let mut world = World::new(1, 1);
    let client = world.client();
    falls_silent(&mut world, client);
    world.server_gets(0);
    for _ in 0..3 {
        world.events.clear();
        world.dataplane.handle_server_disconnected(slot(1), world.now);
        world.turn();
        assert_eq!(world.events, [Event::Disconnect(slot(1))]);
        let again = world.dataplane.poll_timeout().expect("it is tried again");
        world.pass(again.saturating_since(world.now));
        assert_eq!(world.events.last(), Some(&Event::Connect(slot(1))));
    }
    assert_eq!(world.report().servers[0].state, "down");
    is_contradicted(&mut world, 1);
    world.pass(TIMEOUT / 2);
    assert_eq!(world.events.last(), Some(&Event::Connect(slot(0))));
}

/// It had answered something, and then the path went dead: nothing more is sent, so nothing more is late.
#[test]
fn a_connection_that_dies_while_it_is_marked_down_is_replaced() {
    let mut world = World::new(1, 1);
    let client = world.client();
    falls_silent(&mut world, client);
    world.server_gets(0);
    world.server_says(0, "STORED\r\n");
    is_contradicted(&mut world, 1);
    world.pass(TIMEOUT / 2);
    assert_eq!(world.events.last(), Some(&Event::Connect(slot(0))));
}

#[test]
fn the_connection_for_large_values_is_replaced_by_itself() {
    let mut world = World::with(1, 1, Config { large_value_bytes: 100, ..Config::default() });
    let client = world.client();
    let set = |key: &str| format!("set {key} 0 0 100\r\n{}\r\n", "x".repeat(100));
    world.send(client, &set("first"));
    world.dataplane.handle_server_connected(slot(1), world.now);
    world.server_gets(1);
    assert_eq!(world.hears(client, 1, "STORED\r\n"), "STORED\r\n");
    for number in 0..3 {
        world.send(client, &set(&format!("k{number}")));
        world.server_gets(1);
        world.pass(TIMEOUT);
        world.client_gets(client);
    }
    assert_eq!(world.events.last(), Some(&Event::Connect(slot(2))));
    is_contradicted(&mut world, 2);
    world.events.clear();
    world.pass(TIMEOUT / 2);
    assert_eq!(
        world.events,
        [Event::Disconnect(slot(2)), Event::Disconnect(slot(1)), Event::Connect(slot(1))]
    );
    world.send(client, "get a\r\n");
    assert_eq!(world.server_gets(0), "get a\r\n", "the other connection is not concerned");
}

#[test]
fn a_server_that_leaves_takes_its_second_opinion_with_it() {
    let mut world = World::new(2, 1);
    let client = world.client();
    let keys = world.keys_on(0, 3);
    keys.iter().for_each(|key| world.send(client, &format!("get {key}\r\n")));
    world.server_gets(0);
    world.pass(TIMEOUT);
    world.client_gets(client);
    assert_eq!(world.events, [Event::Connect(slot(2))]);
    world.dataplane.handle_server_connected(slot(2), world.now);
    world.server_gets(2);
    world.reload(router(&["s:2"], 1));
    world.pass(10 * TIMEOUT);
    world.pass(10 * TIMEOUT);
    assert!(
        world.events.contains(&Event::Disconnect(slot(0)))
            && world.events.contains(&Event::Disconnect(slot(2)))
    );
    assert!(world.dataplane.is_quiet());
    assert_eq!(world.dataplane.connected_servers().collect::<Vec<_>>(), [slot(1)]);
    world.send(client, "get a\r\n");
    assert_eq!(world.server_gets(1), "get a\r\n");
}

/// It is asked nothing while it is marked down, so nothing more is late that would raise a doubt.
#[test]
fn a_silent_server_that_leaves_and_comes_back_is_asked_about_again() {
    let mut world = World::new(2, 1);
    let client = world.client();
    let keys = world.keys_on(0, 3);
    keys.iter().for_each(|key| world.send(client, &format!("get {key}\r\n")));
    world.server_gets(0);
    world.pass(TIMEOUT);
    world.client_gets(client);
    assert_eq!(world.events, [Event::Connect(slot(2))]);
    world.server_gets(0);
    // Something that is under way keeps it from leaving at once.
    world.reload(router(&["s:2"], 1));
    let events = world.reload(router(&["s:1", "s:2"], 1));
    assert!(
        events.iter().any(|event| matches!(event, Event::Connect(it) if [slot(2), slot(3)].contains(it))),
        "{events:?}"
    );
}
