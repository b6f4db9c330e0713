//! Requests go to their servers, and replies come back in order.

use crate::world::{World, slot};
use weir_dataplane::{Config, Event};
use weir_timing::{Operation, Stage};

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
    assert_eq!((counts.requests, counts.keys(), counts.hits, counts.misses()), (1, 6, 4, 2));
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
fn quiet_meta_commands_say_what_their_server_says_and_keep_their_order() {
    let mut world = World::new(2, 1);
    let client = world.client();
    let (a, b) = (world.key_on(0), world.key_on(1));
    world.send(client, &format!("mg {a} v q\r\nmg {b} k q\r\nms {a} 1 q\r\nx\r\nmn\r\nmg {b} v O7\r\n"));
    assert_eq!(world.server_gets(0), format!("mg {a} v\r\nms {a} 1 q\r\nx\r\nmn\r\n"));
    assert_eq!(world.server_gets(1), format!("mg {b} k\r\nmg {b} v O7\r\n"));
    world.server_says(1, &format!("HD k{b}\r\nVA 3 O7\r\nMN\r\r\n"));
    assert_eq!(world.client_gets(client), "");
    world.server_says(0, "EN\r\nMN\r\n");
    assert_eq!(world.client_gets(client), format!("HD k{b}\r\nMN\r\nVA 3 O7\r\nMN\r\r\n"));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_quiet_meta_command_alone_ends_without_a_write() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "mg a q\r\n");
    assert_eq!(world.server_gets(0), "mg a\r\n");
    world.server_says(0, "EN\r\n");
    assert!(world.dataplane.is_quiet());
    let report = world.report();
    assert_eq!(report.timing.operation(Operation::Get).misses(), 1);
}

#[test]
fn a_quiet_read_is_asked_aloud_and_its_miss_is_kept_from_the_client() {
    let mut world = World::new(1, 1);
    let client = world.client();
    for (request, sent, reply, heard) in [
        ("mg a q v k O7", "mg a v k O7", "EN ka O7/", ""),
        ("mg a v q", "mg a v", "VA 4/EN//", "VA 4/EN//"),
        ("mg a q", "mg a", "HD/", "HD/"),
        ("mg a t q s", "mg a t s", "HD t-1 s3 Z X/", "HD t-1 s3 Z X/"),
        ("mg a q v", "mg a v", "SERVER_ERROR out of memory/", "SERVER_ERROR out of memory/"),
        ("mg a q v", "mg a v", "CLIENT_ERROR bad/", "CLIENT_ERROR bad/"),
        // What is no plain read is for its server to judge, with all its flags.
        ("mg a q N30", "mg a q N30/mn", "HD W/MN/", "HD W/"),
        ("mg a q T30", "mg a q T30/mn", "MN/", ""),
        ("mg a q v ~", "mg a q v ~/mn", "CLIENT_ERROR invalid flag/MN/", "CLIENT_ERROR invalid flag/"),
        ("mg a q q", "mg a q q/mn", "CLIENT_ERROR duplicate flag/MN/", "CLIENT_ERROR duplicate flag/"),
    ] {
        let text = |text: &str| text.replace('/', "\r\n");
        assert_eq!(world.asks(client, request), text(sent) + "\r\n", "{request}");
        for byte in text(reply).chars() {
            world.server_says(0, &byte.to_string());
        }
        assert_eq!(world.client_gets(client), text(heard), "{request}");
        assert!(world.dataplane.is_quiet());
    }
    let opaque = "1".repeat(32);
    let asked = world.asks(client, &format!("mg a q O{opaque}"));
    assert_eq!(asked, format!("mg a q O{opaque}\r\nmn\r\n"), "it is too long");
}

#[test]
fn a_miss_of_a_quiet_read_is_nothing_between_its_clients_answers() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "mg a v q O1\r\nget b\r\nmg c v q O2\r\nmg d v O3\r\nmn\r\n");
    assert_eq!(world.server_gets(0), "mg a v O1\r\nmg c v O2\r\nmg d v O3\r\nget b\r\n");
    world.server_says(0, "EN O1\r\nVA 1 O2\r\nx\r\nEN O3\r\n");
    assert_eq!(world.client_gets(client), "", "the answer to the get comes first");
    let answers = "END\r\nVA 1 O2\r\nx\r\nEN O3\r\nMN\r\n";
    assert_eq!(world.hears(client, 0, "END\r\n"), answers);
    assert!(world.dataplane.is_quiet());
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
fn statistics_are_the_drivers_to_give_and_keep_their_place() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "get a\r\nstats\r\nstats cachedump 1 1\r\n");
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
fn a_command_to_whole_servers_reaches_every_server_and_is_done_if_all_have_done_it() {
    let limits = weir_protocol::Limits { server_commands_allowed: true, ..Default::default() };
    let mut world = World::with(2, 1, Config { limits, ..Config::default() });
    let client = world.client();
    for (answer, expected) in [
        ("OK\r\n", "OK\r\n"),
        (
            "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n",
            "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m\r\n",
        ),
        ("BUSY currently processing reassign request\r\n", "BUSY currently processing reassign request\r\n"),
        ("ERROR\r\n", "ERROR\r\n"),
    ] {
        world.send(client, "cache_memlimit 64\r\n");
        for (server, says) in [(1, answer), (0, "OK\r\n")] {
            assert_eq!(world.server_gets(server), "cache_memlimit 64\r\n");
            assert_eq!(world.client_gets(client), "");
            world.server_says(server, says);
        }
        assert_eq!(world.client_gets(client), expected);
    }
    world.send(client, "cache_memlimit 64 noreply\r\nmn\r\n");
    for server in [0, 1] {
        assert_eq!(world.server_gets(server), "cache_memlimit 64\r\n");
        world.server_says(server, "OK\r\n");
    }
    assert_eq!(world.client_gets(client), "MN\r\n");
}

#[test]
fn the_stamps_tell_where_the_time_went() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "get");
    world.pass(10);
    world.send(client, " a\r\n");
    world.pass(200);
    assert_eq!(world.dataplane.poll_server_output(None, world.now), Some(slot(0)));
    world.pass(3000);
    world.dataplane.handle_server_written(slot(0), 7, world.now);
    world.pass(40_000);
    world.server_says(0, "END\r\n");
    world.pass(500_000);
    world.client_gets(client);
    let report = world.report();
    let get = report.timing.operation(Operation::Get);
    let sums = Stage::ALL.map(|stage| get.stage(stage).sum());
    assert_eq!(sums, [10, 0, 200, 3000, 40_000, 500_000], "read, dispatch, queue, send, backend, reply");
    assert_eq!(get.total.sum(), 543_210);
    assert_eq!(report.servers[0].time.sum(), 40_000);
    let server = &report.servers[0];
    assert_eq!(
        (server.queued.length_time_integral_ns, server.in_flight.length_time_integral_ns),
        (200, 43_000)
    );
}
