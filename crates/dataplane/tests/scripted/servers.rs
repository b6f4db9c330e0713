//! Servers that are late, lost, dead, or out of step.

use crate::world::{TIMEOUT, World};
use weir_dataplane::Event;

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
