//! Nothing of a client goes to a server before it has shown that it serves us.

use crate::world::{MS, World};
use weir_dataplane::{Config, Event};

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
    assert_eq!(world.events, [Event::Disconnect(0)]);
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
    assert_eq!(world.events, [Event::Disconnect(0)]);
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
        assert_eq!(world.events, [Event::Disconnect(0)]);
        assert_eq!(world.report().counters.server_violations, 1);
    }
}

#[test]
fn version_is_the_lowest_of_those_that_servers_have_told() {
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
}
