//! Clients that end, go, or do not read.

use crate::world::{World, slot};
use weir_dataplane::{Config, Event, Login};

#[test]
fn a_client_of_the_binary_protocol_gets_an_error_and_is_closed() {
    let mut world = World::new(1, 1);
    let client = world.client();
    // What libmemcached asks first: the version, with an opaque.
    let request = [0x80, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 8, 7, 6, 0, 0, 0, 0, 0, 0, 0, 0];
    for piece in [&request[..1], &request[1..23], &request[23..]] {
        assert_eq!(world.dataplane.client_output(client), b"");
        world.dataplane.handle_client_bytes(client, piece, world.now);
    }
    let reply = world.dataplane.client_output(client).to_vec();
    assert_eq!(
        (reply[0], reply[1], &reply[6..8], &reply[12..16]),
        (0x81, 0x0b, &[0, 0x81][..], &[9, 8, 7, 6][..])
    );
    world.dataplane.handle_client_written(client, reply.len(), world.now);
    world.turn();
    assert_eq!(world.events, [Event::Close(client)]);
    assert_eq!(world.server_gets(0), "");
    // Later than at its beginning the byte has no such meaning.
    let other = world.client();
    world.send(other, "version\r\n");
    world.client_gets(other);
    world.dataplane.handle_client_bytes(other, b"\x80\r\n", world.now);
    assert_eq!(world.client_gets(other), "ERROR\r\n");
}

#[test]
fn a_client_whose_first_bytes_are_tls_or_http_is_answered_and_closed_at_once_wherever_they_are_cut() {
    let hello: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
    let browser: &[u8] = b"GET /index.html HTTP/1.1\r\nHost: cache\r\n\r\nset a 0 0 1\r\nx\r\n";
    for (bytes, answer, decided) in [(hello, "\x15\x03\x03", 2), (browser, "HTTP/1.1 400 ", 26)] {
        for cut in 0..bytes.len() {
            let mut world = World::new(1, 1);
            let (neighbour, client) = (world.client(), world.client());
            world.send(neighbour, "get a\r\n");
            world.dataplane.handle_client_bytes(client, &bytes[..cut], world.now);
            assert_eq!(
                world.dataplane.client_output(client).is_empty(),
                cut < decided,
                "{cut} bytes of {bytes:?}"
            );
            world.dataplane.handle_client_bytes(client, &bytes[cut..], world.now);
            let said = world.client_gets(client);
            assert!(said.starts_with(answer), "{said:?}");
            assert_eq!(world.events, [Event::Close(client)]);
            assert_eq!(world.server_gets(0), "get a\r\n", "nothing of it is read as a command");
            world.server_says(0, "END\r\n");
            assert_eq!(world.client_gets(neighbour), "END\r\n");
        }
    }
}

#[test]
fn only_a_connections_first_bytes_can_be_of_another_protocol() {
    let mut world = World::new(1, 1);
    for (line, answer) in [("\x16\x03\x01\r\n", "ERROR\r\n"), ("GET / HTTP/1.1\r\n", "")] {
        let client = world.client();
        world.send(client, "version\r\n");
        world.client_gets(client);
        world.events.clear();
        world.send(client, line);
        assert_eq!(world.client_gets(client), answer);
        // memcached hangs up on lines of HTTP without a word.
        assert_eq!(world.events.contains(&Event::Close(client)), answer.is_empty());
    }
    let report = world.report();
    let counters = &report.counters;
    assert_eq!((counters.sessions_refused_tls, counters.sessions_refused_http), (0, 0));
    for line in ["GET / HTTP/1.1\n", "\x16\x03"] {
        let client = world.client();
        world.send(client, line);
    }
    let report = world.report();
    let counters = &report.counters;
    assert_eq!((counters.sessions_refused_tls, counters.sessions_refused_http), (1, 1));
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
    assert_eq!(world.dataplane.poll_server_output(None, world.now), Some(slot(0)));
    world.dataplane.handle_server_written(slot(0), 3, world.now);
    assert_eq!(world.dataplane.poll_server_output(None, world.now), None);
    world.dataplane.handle_server_writable(slot(0));
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
fn a_drain_answers_what_was_taken_and_accepts_nobody() {
    let mut world = World::new(1, 1);
    let (busy, idle) = (world.client(), world.client());
    world.send(busy, "get a\r\n");
    world.server_gets(0);
    world.dataplane.begin_drain();
    world.turn();
    assert_eq!(world.events, [Event::Close(idle)]);
    assert_eq!(world.dataplane.handle_accept(Login::Wanted, world.now), None);
    world.dataplane.handle_client_closed(idle);
    world.server_says(0, "END\r\n");
    assert_eq!(world.client_gets(busy), "END\r\n");
    assert_eq!(world.events, [Event::Close(idle), Event::Close(busy)]);
    world.dataplane.handle_client_closed(busy);
    assert!(world.dataplane.is_drained());
}
