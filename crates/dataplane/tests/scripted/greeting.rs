//! Nothing of a client goes to a server before it has shown that it serves us.

use crate::world::{MS, World, router, slot};
use std::sync::Arc;
use weir_dataplane::{Config, Dataplane, Event, ServerChange};
use weir_timing::Instant;

const SET: &str = "set auth 0 0 3\r\nu p\r\n";

fn greeting_world() -> World {
    World::with(1, 1, Config { greets_servers: true, ..Config::default() })
}

#[test]
fn what_waits_is_sent_when_the_server_has_answered() {
    let mut world = greeting_world();
    let client = world.client();
    world.send(client, SET);
    assert_eq!(world.server_gets(0), "version\r\n");
    world.server_says(0, "VERSION");
    assert_eq!(world.server_gets(0), "", "not before all of it is there");
    world.server_says(0, " 1.6.18\r\n");
    assert_eq!(world.server_gets(0), SET);
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "STORED\r\n");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn no_client_logs_in_a_connection_that_others_share() {
    let mut world = greeting_world();
    let client = world.client();
    world.send(client, SET);
    assert_eq!(world.server_gets(0), "version\r\n");
    world.events.clear();
    world.server_says(0, "CLIENT_ERROR unauthenticated\r\n");
    assert_eq!(world.events, [Event::Disconnect(slot(0))]);
    assert_eq!(world.client_gets(client), "SERVER_ERROR unauthenticated s:1\r\n");
    world.send(client, "get a\r\n");
    assert_eq!(world.client_gets(client), "SERVER_ERROR unauthenticated s:1\r\n", "as long as it is down");
    assert_eq!(world.report().counters.server_logins_wanted, 1);
    assert_eq!(world.report().counters.requests_failed_unauthenticated, 2);
    // Another attempt, of which nobody knows yet what it will come to.
    world.comes_back(0);
    world.send(client, "get a\r\n");
    assert_eq!(world.client_gets(client), "SERVER_ERROR unauthenticated s:1\r\n");
    assert_eq!(world.server_gets(0), "version\r\n");
    world.server_says(0, "VERSION 1.6.18\r\n");
    world.send(client, "get a\r\n");
    assert_eq!(world.server_gets(0), "get a\r\n");
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_server_that_does_not_answer_the_greeting_is_down_after_the_connect_timeout() {
    let mut world = greeting_world();
    let client = world.client();
    world.send(client, "get a\r\n");
    world.server_gets(0);
    world.events.clear();
    world.pass(500 * MS);
    assert_eq!(world.events, [Event::Disconnect(slot(0))]);
    let lost = world.client_gets(client);
    assert!(
        ["SERVER_ERROR connect s:1\r\n", "SERVER_ERROR timeout s:1\r\n"].contains(&lost.as_str()),
        "{lost}"
    );
    world.send(client, "get a\r\n");
    assert_eq!(world.client_gets(client), "SERVER_ERROR down s:1\r\n");
}

#[test]
fn nonsense_instead_of_a_greeting_ends_the_connection() {
    for nonsense in ["HTTP/1.1 400 Bad Request\r\n", "VERSION 1\r\nVERSION 1\r\n"] {
        let mut world = greeting_world();
        world.server_gets(0);
        world.events.clear();
        world.server_says(0, nonsense);
        assert_eq!(world.events, [Event::Disconnect(slot(0))]);
        assert_eq!(world.report().counters.server_violations, 1);
    }
}

#[test]
fn version_is_the_lowest_of_those_that_servers_have_reported() {
    let mut world = World::with(3, 1, Config { greets_servers: true, ..Config::default() });
    let client = world.client();
    let version = |world: &mut World| {
        world.send(client, "version\r\n");
        world.client_gets(client)
    };
    assert_eq!(version(&mut world), "VERSION 1.6.18\r\n", "nobody was asked yet");
    for (server, says, lowest) in [
        (2, "VERSION 1.6.31\r\n", "VERSION 1.6.31\r\n"),
        (0, "ERROR\r\n", "VERSION 1.6.31\r\n"),
        (1, "VERSION 1.6.9\r\n", "VERSION 1.6.9\r\n"),
    ] {
        assert_eq!(world.server_gets(server), "version\r\n");
        world.server_says(server, says);
        assert_eq!(version(&mut world), lowest);
    }
    world.reload(router(&["s:1", "s:3"], 1));
    assert_eq!(version(&mut world), "VERSION 1.6.31\r\n", "who had the lowest has left");
}

/// Ends the connection that the server has, and makes the next one when it is due. Returns what the driver was asked for.
fn closes(world: &mut World) -> Vec<Event> {
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.events.clear();
    world.turn();
    while !world.events.contains(&Event::Connect(slot(0))) {
        world.pass(10 * MS);
    }
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.events.clone()
}

/// Whether it was reported that a server closes its connections at a question.
fn hears_of_question(world: &mut World) -> bool {
    let mut changes = std::iter::from_fn(|| world.dataplane.poll_change());
    changes.any(|change| change.what == ServerChange::QuestionUnknown)
}

/// twemproxy before 0.5.0 closes its connection at `version`; it was never used.
#[test]
fn a_server_that_closes_at_the_greeting_is_greeted_otherwise() {
    let mut world = greeting_world();
    for _ in 0..2 {
        assert_eq!(world.server_gets(0), "version\r\n");
        closes(&mut world);
        assert!(!hears_of_question(&mut world));
    }
    assert_eq!(world.server_gets(0), "version\r\n");
    closes(&mut world);
    assert!(hears_of_question(&mut world));
    assert_eq!(world.server_gets(0), "get weir-greeting-3\r\n");
    world.server_says(0, "END\r\n");
    let client = world.client();
    world.send(client, SET);
    assert_eq!(world.server_gets(0), SET);
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "STORED\r\n");
    // It is known now.
    closes(&mut world);
    assert_eq!(world.server_gets(0), "get weir-greeting-3\r\n");
    assert_eq!(world.report().counters.server_questions_closed, 3);
}

/// What is answered there is no request: it does not make up for anything.
#[test]
fn a_server_that_closes_behind_each_greeting_is_left_alone() {
    let mut world = greeting_world();
    for round in 0..5 {
        assert_eq!(world.server_gets(0), "version\r\n");
        world.server_says(0, "VERSION 1.6.18\r\n");
        let before = world.now;
        closes(&mut world);
        let paused_ns = world.now.saturating_since(before);
        let shortest_ns = if round == 0 { 0 } else { (25 * MS) << round };
        assert!((shortest_ns..=2 * shortest_ns + 10 * MS).contains(&paused_ns), "{round}: {paused_ns}");
    }
}

/// Whoever accepted connections and closed them may give way to a memcached that wants a login.
#[test]
fn no_client_logs_in_after_a_server_has_closed_at_greetings() {
    for closed in 0..=7 {
        let mut world = greeting_world();
        for _ in 0..closed {
            assert!(!world.server_gets(0).is_empty());
            closes(&mut world);
        }
        let client = world.client();
        world.send(client, SET);
        let question = world.server_gets(0);
        assert!(
            ["version\r\n", "get weir-greeting-"].iter().any(|it| question.starts_with(it)),
            "{question}"
        );
        world.events.clear();
        world.server_says(0, "CLIENT_ERROR unauthenticated\r\n");
        assert_eq!(world.events, [Event::Disconnect(slot(0))]);
        assert_eq!(world.server_gets(0), "");
    }
}

/// A server that is gone before it was asked has shown nothing.
#[test]
fn only_a_question_that_was_asked_in_full_counts() {
    let mut world = greeting_world();
    for _ in 0..7 {
        closes(&mut world);
    }
    assert_eq!(world.server_gets(0), "version\r\n");
    assert_eq!(world.report().counters.server_questions_closed, 0);
}

/// The connection for large values is the same server's.
#[test]
fn the_connection_for_large_values_is_greeted_as_its_server_knows() {
    let mut world =
        World::with(1, 1, Config { greets_servers: true, large_value_bytes: 10, ..Config::default() });
    for _ in 0..3 {
        world.server_gets(0);
        closes(&mut world);
    }
    assert_eq!(world.server_gets(0), "get weir-greeting-3\r\n");
    world.server_says(0, "END\r\n");
    let client = world.client();
    world.send(client, "set a 0 0 12\r\nabcdefghijkl\r\n");
    assert!(world.events.contains(&Event::Connect(slot(1))), "{:?}", world.events);
    world.dataplane.handle_server_connected(slot(1), world.now);
    assert_eq!(world.server_gets(1), "get weir-greeting-3\r\n");
}

/// Something answers `version`, and ignores what it does not know.
#[test]
fn a_server_that_says_nothing_to_a_question_is_used_without_it() {
    let config = Config { greets_servers: true, asks_item_size: true, ..Config::default() };
    let mut world = World::with(1, 1, config);
    for _ in 0..3 {
        assert_eq!(world.server_gets(0), "version\r\n");
        world.server_says(0, "VERSION 1\r\n");
        assert_eq!(world.server_gets(0), "stats settings\r\n");
        world.events.clear();
        world.pass(500 * MS);
        assert!(world.events.contains(&Event::Disconnect(slot(0))), "{:?}", world.events);
        while !world.events.contains(&Event::Connect(slot(0))) {
            world.pass(10 * MS);
        }
        world.dataplane.handle_server_connected(slot(0), world.now);
    }
    assert!(hears_of_question(&mut world));
    assert_eq!(world.server_gets(0), "version\r\n");
    world.server_says(0, "VERSION 1\r\n");
    let client = world.client();
    world.send(client, "get a\r\n");
    assert_eq!(world.server_gets(0), "get a\r\n");
}

/// On a machine that was busy the two questions together took longer than a connection may take to be made.
#[test]
fn the_second_question_has_as_long_as_a_request() {
    let config = Config {
        greets_servers: true,
        asks_item_size: true,
        connect_timeout_ns: 100 * MS,
        ..Config::default()
    };
    let mut world = World::with(1, 1, config);
    assert_eq!(world.server_gets(0), "version\r\n");
    world.pass(90 * MS);
    world.server_says(0, "VERSION 1\r\n");
    assert_eq!(world.server_gets(0), "stats settings\r\n");
    world.events.clear();
    world.pass(490 * MS);
    assert_eq!(world.events, []);
    world.server_says(0, "END\r\n");
    assert_eq!(world.report().servers[0].state, "up");
}

#[test]
fn nothing_is_to_be_written_while_the_answer_to_a_greeting_is_awaited() {
    let config = Config { greets_servers: true, ..Config::default() };
    let now = Instant::ZERO;
    let mut dataplane = Dataplane::new(config, Arc::new(router(&["a:1"], 1).into()), now);
    assert_eq!(dataplane.poll_event(), Some(Event::Connect(slot(0))));
    dataplane.handle_server_connected(slot(0), now);
    assert!(dataplane.has_server_output());
    assert_eq!(dataplane.poll_server_output(None, now), Some(slot(0)));
    let length = dataplane.server_output(slot(0)).len();
    dataplane.handle_server_written(slot(0), length, now);
    assert_eq!((dataplane.poll_server_output(None, now), dataplane.has_server_output()), (None, false));
}
