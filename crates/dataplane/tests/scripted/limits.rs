//! Too much of anything, and the longest value.

use crate::world::{World, slot, unjoined};
use weir_dataplane::{Config, Event, ServerChange};

#[test]
fn too_much_for_a_server_is_refused() {
    let mut world = World::with(1, 1, Config { server_requests_max: 2, ..unjoined() });
    let client = world.client();
    world.send(client, "get a\r\nget b\r\nget c\r\n");
    assert_eq!(world.server_gets(0), "get a\r\nget b\r\n");
    world.server_says(0, "END\r\nEND\r\n");
    assert_eq!(world.client_gets(client), "END\r\nEND\r\nSERVER_ERROR queue-full s:1\r\n");
}

/// One client that sent faster than its server took filled what may wait there, and everybody else was refused.
#[test]
fn a_client_that_sends_faster_than_its_server_takes_leaves_room_for_others() {
    const LONG: usize = 5000;
    for replicas in [1, 2] {
        let config = Config { server_buffer_bytes_max: 32 * LONG, ..unjoined() };
        let mut world = World::with(2, replicas, config);
        let (bulky, other) = (world.client(), world.client());
        let keys = world.keys_on(0, 100);
        for key in &keys {
            if world.dataplane.wants_read(bulky) {
                world.send(bulky, &format!("set {key} 0 0 {LONG}\r\n{}\r\n", "x".repeat(LONG)));
            }
        }
        world.send(other, &format!("get {}\r\n", keys[0]));
        assert_eq!(world.client_gets(other), "", "it is asked for");
        assert_eq!(world.report().counters.crowd_waits, 1);
        // What has waited goes on when all before it is answered.
        let sent = (0..replicas).map(|server| world.server_gets(server).matches("set ").count()).max();
        let sent = sent.expect("there are servers");
        assert!((2..8).contains(&sent), "{sent} long values");
        (0..replicas).for_each(|server| world.server_says(server, &"STORED\r\n".repeat(sent)));
        assert_eq!(world.client_gets(bulky), "STORED\r\n".repeat(sent));
        assert!(world.server_gets(0).starts_with("set "));
        assert!(world.dataplane.wants_read(bulky));
    }
}

#[test]
fn a_reply_too_large_for_its_client_is_replaced() {
    let mut world = World::with(1, 1, Config { session_buffer_bytes_max: 64, ..unjoined() });
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
        ("mg a v q\r\nmn\r\n", format!("VA 2000\r\n{value}\r\n")),
        ("mg a v q T9\r\nmn\r\n", format!("VA 2000\r\n{value}\r\nMN\r\n")),
    ] {
        for cut in [1, 7, 333, 5000] {
            let mut world = World::with(1, 1, Config { server_buffer_bytes_max: 1000, ..unjoined() });
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
    let mut world = World::with(1, 1, Config { session_requests_max: 2, ..unjoined() });
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
    world.dataplane.handle_server_disconnected(slot(1), world.now);
    world.dataplane.handle_server_connected(slot(1), world.now);
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
    world.send(client, "get a\r\n");
    for _ in 0..3 {
        assert_eq!(world.server_gets(0), "stats settings\r\n");
        world.events.clear();
        world.dataplane.handle_server_disconnected(slot(0), world.now);
        world.turn();
        assert!(world.events.contains(&Event::Connect(slot(0))), "at once");
        world.dataplane.handle_server_connected(slot(0), world.now);
    }
    let changes: Vec<_> =
        std::iter::from_fn(|| world.dataplane.poll_change()).map(|change| change.what).collect();
    assert!(changes.contains(&ServerChange::QuestionUnknown), "{changes:?}");
    // What waited was not on those connections.
    assert_eq!(world.server_gets(0), "get a\r\n");
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
    let counters = world.report().counters;
    assert_eq!((counters.server_questions_closed, counters.server_connects_failed), (3, 0));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn what_waits_is_sent_when_the_question_is_answered() {
    let mut world =
        World::with(1, 1, Config { asks_item_size: true, greets_servers: true, ..Config::default() });
    let client = world.client();
    world.send(client, "get a\r\n");
    assert_eq!(world.server_gets(0), "version\r\n");
    world.server_says(0, "VERSION 1\r\n");
    assert_eq!(world.server_gets(0), "stats settings\r\n");
    world.server_says(0, "STAT item_size_max 10\r\n");
    assert_eq!(world.server_gets(0), "", "not before all of it is there");
    world.server_says(0, "END\r\n");
    assert_eq!(world.report().value_bytes_max, 10);
    assert_eq!(world.server_gets(0), "get a\r\n");
}

#[test]
fn a_server_that_does_not_know_the_question_is_asked_again_when_it_comes_back() {
    let mut world = World::with(1, 1, Config { asks_item_size: true, ..Config::default() });
    for _ in 0..5 {
        assert_eq!(world.server_gets(0), "stats settings\r\n");
        world.server_says(0, "ERROR\r\n");
        assert_eq!(world.report().value_bytes_max, 1 << 20);
        world.dataplane.handle_server_disconnected(slot(0), world.now);
        world.dataplane.handle_server_connected(slot(0), world.now);
    }
}
