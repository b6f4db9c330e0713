//! Clients that take too long.

use crate::world::{MS, World};
use weir_dataplane::{ClientTimeouts, Config, Event};

const LIMIT: u64 = 8000 * MS;

fn world(client_timeouts: ClientTimeouts) -> World {
    World::with(1, 1, Config { client_timeouts, ..Config::default() })
}

const NEVER: ClientTimeouts =
    ClientTimeouts { idle_ns: 0, login_ns: 0, request_ns: 0, unread_ns: 0, progress_bytes: 1000 };

#[test]
fn a_client_that_says_nothing_is_closed_and_one_that_waits_for_its_reply_is_not() {
    let mut world = world(ClientTimeouts { idle_ns: LIMIT, ..NEVER });
    let (idle, waiting, busy) = (world.client(), world.client(), world.client());
    world.send(waiting, "get a\r\n");
    world.server_gets(0);
    for _ in 0..2 {
        world.pass(LIMIT / 2 - 1);
        world.send(busy, "version\r\n");
        world.client_gets(busy);
    }
    assert_eq!(world.events, []);
    world.pass(2);
    assert_eq!(world.events, [Event::Close(idle)]);
    world.dataplane.handle_client_closed(idle);
    world.events.clear();
    world.client_gets(waiting);
    world.server_says(0, "END\r\n");
    world.pass(LIMIT);
    world.pass(LIMIT / 8);
    world.events.sort_by_key(|event| format!("{event:?}"));
    assert_eq!(world.events, [Event::Close(waiting), Event::Close(busy)]);
    assert_eq!(world.report().counters.sessions_closed_idle, 3);
    world.dataplane.handle_client_closed(waiting);
    world.dataplane.handle_client_closed(busy);
    world.turn();
    assert_eq!(world.dataplane.poll_timeout(), None);
}

#[test]
fn a_request_must_be_complete_some_time_after_its_first_byte() {
    let mut world = world(ClientTimeouts { request_ns: LIMIT, ..NEVER });
    let (dripping, prompt) = (world.client(), world.client());
    world.send(dripping, "ge");
    world.pass(LIMIT / 2);
    world.send(dripping, "t");
    world.send(prompt, "vers");
    world.pass(LIMIT / 2 - 1);
    world.send(prompt, "ion\r\n");
    assert!(world.client_gets(prompt).starts_with("VERSION"));
    assert_eq!(world.events, []);
    world.pass(1);
    assert_eq!(world.events, [Event::Close(dripping)]);
    world.dataplane.handle_client_closed(dripping);
    assert_eq!(world.report().counters.sessions_closed_slow, 1);
    world.pass(LIMIT);
    assert_eq!(world.dataplane.poll_timeout(), None, "nothing is looked at any more");
}

#[test]
fn a_long_value_may_take_as_long_as_it_goes_on() {
    for (length, refused) in [(5000, false), (2 << 20, true)] {
        let mut world = world(ClientTimeouts { request_ns: LIMIT, ..NEVER });
        let client = world.client();
        world.send(client, &format!("set a 0 0 {length}\r\n"));
        for _ in 0..4 {
            world.pass(LIMIT - 1);
            world.send(client, &"x".repeat(1000));
        }
        assert_eq!(world.events, [], "{length}");
        if refused {
            world.server_gets(0);
            world.server_says(0, "NOT_FOUND\r\n");
            assert_eq!(world.client_gets(client), "SERVER_ERROR object too large for cache\r\n");
        }
        world.pass(LIMIT + 5);
        assert_eq!(world.events, [Event::Close(client)], "{length}");
    }
}

#[test]
fn a_client_that_takes_nothing_of_its_replies_is_closed() {
    let mut world = world(ClientTimeouts { unread_ns: LIMIT, ..NEVER });
    let (deaf, slow) = (world.client(), world.client());
    for client in [deaf, slow] {
        world.send(client, "get a\r\n");
        world.server_gets(0);
        world.server_says(0, "VALUE a 0 10\r\n0123456789\r\nEND\r\n");
        world.dataplane.handle_client_written(client, 5, world.now);
    }
    for _ in 0..3 {
        world.pass(LIMIT / 3);
        world.dataplane.handle_client_writable(slow);
        world.dataplane.handle_client_written(slow, 1, world.now);
    }
    world.pass(LIMIT / 8);
    assert_eq!(world.events, [Event::Close(deaf)]);
    world.dataplane.handle_client_closed(deaf);
    assert_eq!(world.report().counters.sessions_closed_unread, 1);
    world.dataplane.handle_client_writable(slow);
    assert!(!world.client_gets(slow).is_empty());
    world.pass(2 * LIMIT);
    assert_eq!(world.events, [Event::Close(deaf)]);
}
