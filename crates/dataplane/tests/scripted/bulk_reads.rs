//! Reads that bring much: in slices, over bulk connections, and at no other client's expense.

use crate::world::{TIMEOUT, World, slot};
use weir_dataplane::{Config, Event};

/// New sessions expect 100 bytes of a key: slices of 16.
const SLICE_BYTES: usize = 1600;

fn config() -> Config {
    Config { slice_bytes: SLICE_BYTES, ..Config::default() }
}

/// One server, whose number is 0. Its bulk connection is number 1, and there already.
fn world() -> World {
    let mut world = World::with(1, 1, config());
    let client = world.client();
    world.send(client, &get(0..20));
    assert_eq!(world.events, [Event::Connect(slot(1))]);
    assert_eq!(world.server_gets(0), "", "the read waits for the connection");
    world.dataplane.handle_server_connected(slot(1), world.now);
    world.turn();
    assert_eq!(world.server_gets(1), get(0..16));
    assert_eq!(world.hears(client, 1, "END\r\n"), "");
    assert_eq!(world.server_gets(1), get(16..20));
    assert_eq!(world.hears(client, 1, "END\r\n"), "END\r\n");
    world.dataplane.handle_client_closed(client);
    world.events.clear();
    world
}

fn get(keys: std::ops::Range<usize>) -> String {
    format!("get{}\r\n", keys.map(|number| format!(" k{number}")).collect::<String>())
}

/// Values of this many bytes.
fn values(keys: std::ops::Range<usize>, length: usize) -> String {
    keys.map(|number| format!("VALUE k{number} 0 {length}\r\n{}\r\n", "x".repeat(length))).collect()
}

#[test]
fn a_read_of_many_keys_is_asked_for_in_slices_and_answered_as_one() {
    let mut world = world();
    let before = world.report();
    let client = world.client();
    world.send(client, &get(0..40));
    assert_eq!(world.server_gets(1), get(0..16));
    assert_eq!(world.hears(client, 1, &(values(0..16, 100) + "END\r\n")), values(0..16, 100));
    assert_eq!(world.server_gets(1), get(16..29), "a key brought 118 bytes with its header");
    assert_eq!(world.hears(client, 1, "END\r\n"), "");
    assert_eq!(world.server_gets(1), get(29..40), "nothing was there: the next slice may have more keys");
    let last = values(39..40, 1) + "END\r\n";
    assert_eq!(world.hears(client, 1, &last), last);
    let now = world.report();
    assert_eq!(now.counters.requests - before.counters.requests, 1);
    assert_eq!(now.counters.bulk_read_slices - before.counters.bulk_read_slices, 2);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_slice_of_absent_keys_is_bounded_too() {
    let mut world = World::with(1, 1, Config { slice_bytes: 1 << 20, ..Config::default() });
    let client = world.client();
    world.send(client, &("get".to_owned() + &" k".repeat(20_000) + "\r\n"));
    world.dataplane.handle_server_connected(slot(1), world.now);
    world.turn();
    let (mut keys, mut reply) = (Vec::new(), String::new());
    while reply.is_empty() {
        keys.push(world.server_gets(1).matches(" k").count());
        reply = world.hears(client, 1, "END\r\n");
    }
    assert_eq!((keys.iter().sum(), reply.as_str()), (20_000, "END\r\n"));
    assert_eq!(keys, [16, 128, 1024, 4096, 4096, 4096, 4096, 2448]);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_small_get_does_not_wait_behind_large_replies() {
    let mut world = world();
    let (bulky, other) = (world.client(), world.client());
    world.send(bulky, &get(0..40));
    world.send(other, "get small\r\n");
    assert_eq!(world.server_gets(0), "get small\r\n");
    assert_eq!(world.hears(other, 0, "END\r\n"), "END\r\n");
    assert_eq!(world.server_gets(1), get(0..16));
}

#[test]
fn who_reads_nothing_is_asked_for_no_more() {
    let mut world = world();
    let client = world.client();
    world.send(client, &get(0..40));
    assert_eq!(world.server_gets(1), get(0..16));
    let large = values(0..16, 100_000);
    world.server_says(1, &(large.clone() + "END\r\n"));
    world.dataplane.handle_client_written(client, 0, world.now);
    world.turn();
    assert_eq!(world.server_gets(1), "");
    world.pass(TIMEOUT / 2);
    assert_eq!(world.server_gets(1), "");
    world.dataplane.handle_client_writable(client);
    let mut taken = String::new();
    while taken.len() < large.len() {
        taken += &world.client_gets(client);
    }
    assert_eq!(taken, large);
    assert_eq!(world.server_gets(1), get(16..17), "a key brings more than a slice");
}

#[test]
fn a_read_waits_for_what_its_client_sent_before_and_what_comes_after_waits_for_it() {
    let mut world = world();
    let client = world.client();
    let set = |value: &str| format!("set k3 0 0 1\r\n{value}\r\n");
    world.send(client, &(set("a") + &get(0..20) + &set("b") + "version\r\n"));
    assert_eq!((world.server_gets(0), world.server_gets(1)), (set("a"), String::new()));
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "STORED\r\n");
    assert_eq!((world.server_gets(0), world.server_gets(1)), (String::new(), get(0..16)));
    assert_eq!(world.hears(client, 1, "END\r\n"), "");
    assert_eq!((world.server_gets(0), world.server_gets(1)), (String::new(), get(16..20)));
    assert_eq!(world.hears(client, 1, "END\r\n"), "END\r\n");
    assert_eq!(world.server_gets(0), set("b"));
    assert!(world.hears(client, 0, "STORED\r\n").starts_with("STORED\r\nVERSION "));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn reads_of_one_slice_are_pipelined_and_one_of_several_is_alone() {
    let mut world = world();
    let client = world.client();
    // Nothing is known of the client yet.
    world.send(client, &(get(0..5) + &get(5..10) + &get(10..15) + &get(0..300)));
    assert_eq!(world.server_gets(1), get(0..5));
    assert_eq!(world.hears(client, 1, "END\r\n"), "END\r\n");
    // It brought nothing: these are like any other now.
    assert_eq!(
        (world.server_gets(0), world.server_gets(1)),
        ("get k5 k6 k7 k8 k9 k10 k11 k12 k13 k14\r\n".into(), String::new())
    );
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\nEND\r\n");
    assert_eq!(world.server_gets(1), get(0..133));
}

/// It would be parsed once for each, and it may be megabytes long.
#[test]
fn a_read_that_waits_is_not_looked_at_for_each_request_before_it() {
    let mut world = world();
    let client = world.client();
    world.send(client, &"mg key v h\r\n".repeat(2048));
    // Each time that it has waited, twice as many may be in service.
    loop {
        let asked = world.server_gets(0).matches("mg key").count();
        if asked == 0 {
            break;
        }
        assert_eq!(world.hears(client, 0, &"EN\r\n".repeat(asked)).len(), 4 * asked);
    }
    let before = world.report().counters.bulk_read_waits;
    world.send(client, &("set a 0 0 1 noreply\r\nx\r\n".repeat(1000) + "get x\r\n" + &get(0..1000)));
    assert_eq!(world.server_gets(0).matches("set a").count(), 1000);
    world.server_says(0, &("STORED\r\n".repeat(1000) + "END\r\n"));
    assert_eq!(world.server_gets(1), "", "nobody has heard of the end of the read before it");
    assert_eq!(world.client_gets(client), "END\r\n");
    let waits = world.report().counters.bulk_read_waits - before;
    assert!(waits <= 2, "it was looked at {waits} times");
    assert_eq!(world.server_gets(1), get(0..16));
}

#[test]
fn what_waits_for_reads_of_its_client_is_looked_at_when_all_are_done() {
    let mut world = world();
    let client = world.client();
    world.send(client, &get(0..5));
    world.server_gets(1);
    world.hears(client, 1, "END\r\n");
    let before = world.report().counters.bulk_read_waits;
    world.send(client, &(get(0..20).repeat(3) + "gat 9 k0 k1\r\n"));
    assert_eq!(world.server_gets(1), get(0..20).repeat(3));
    for _ in 0..3 {
        assert_eq!(world.server_gets(0), "");
        assert_eq!(world.hears(client, 1, "END\r\n"), "END\r\n");
    }
    assert_eq!(world.server_gets(0), "gat 9 k0 k1\r\n");
    assert_eq!(world.report().counters.bulk_read_waits - before, 1);
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn the_first_small_multi_get_of_a_client_makes_no_connection() {
    let mut world = World::with(1, 1, config());
    let client = world.client();
    for reply in ["END\r\n", "END\r\n"] {
        world.send(client, &get(0..9));
        assert_eq!(world.server_gets(0), get(0..9));
        assert_eq!(world.hears(client, 0, reply), reply);
    }
    assert_eq!(world.events, []);
    assert_eq!(world.report().counters.bulk_reads, 1);
}

#[test]
fn the_values_of_slices_stand_before_the_error_of_a_later_one() {
    let mut world = world();
    let client = world.client();
    world.send(client, &(get(0..40) + "get after\r\n"));
    world.server_gets(1);
    let first = values(2..3, 5);
    assert_eq!(world.hears(client, 1, &(first.clone() + "END\r\n")), first);
    assert_eq!(world.server_gets(1), get(16..40));
    assert_eq!(
        world.hears(client, 1, "SERVER_ERROR out of memory writing get response\r\n"),
        "SERVER_ERROR out of memory writing get response\r\n"
    );
    assert_eq!(world.server_gets(0), "get after\r\n");
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn each_slice_has_the_time_of_a_request() {
    let mut world = world();
    let client = world.client();
    world.send(client, &get(0..40));
    world.server_gets(1);
    world.pass(TIMEOUT * 3 / 4);
    assert_eq!(world.hears(client, 1, "END\r\n"), "");
    assert_eq!(world.server_gets(1), get(16..40));
    world.pass(TIMEOUT * 3 / 4);
    assert_eq!(world.client_gets(client), "");
    world.pass(TIMEOUT / 4);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:1\r\n");
}

#[test]
fn a_client_that_goes_between_slices_leaves_nothing() {
    let mut world = world();
    let client = world.client();
    world.send(client, &get(0..40));
    world.server_gets(1);
    world.server_says(1, &(values(0..1, 5) + "END\r\n"));
    world.dataplane.handle_client_closed(client);
    world.turn();
    assert_eq!(world.server_gets(1), "");
    assert!(world.dataplane.is_quiet());
    let report = world.report();
    assert_eq!((report.counters.requests_orphaned, report.sessions), (1, 0));
}

#[test]
fn a_client_that_goes_while_a_slice_is_in_service_leaves_nothing() {
    let mut world = world();
    let client = world.client();
    world.send(client, &get(0..40));
    world.server_gets(1);
    world.dataplane.handle_client_closed(client);
    world.server_says(1, &(values(0..1, 5) + "END\r\n"));
    assert_eq!(world.server_gets(1), "");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn few_slices_are_in_service_and_the_others_wait_their_turn() {
    let mut world = world();
    let clients: Vec<_> = (0..6).map(|_| world.client()).collect();
    for client in &clients {
        world.send(*client, &get(0..40));
    }
    assert_eq!(world.server_gets(1), get(0..16).repeat(4));
    world.server_says(1, "END\r\n");
    assert_eq!(world.client_gets(clients[0]), "");
    // The two that waited come first.
    assert_eq!(world.server_gets(1), get(0..16));
    for _ in 0..3 {
        world.server_says(1, "END\r\n");
    }
    let next = world.server_gets(1);
    assert!(next.starts_with(get(0..16).trim_end()), "{next}");
}

/// Two servers, without further connections, and the keys of each.
fn two_servers() -> (World, [Vec<String>; 2]) {
    let world = World::with(2, 1, Config { mark_down_timeouts: 0, ..config() });
    let keys = [world.keys_on(0, 16), world.keys_on(1, 16)];
    (world, keys)
}

fn get_of(keys: &[String]) -> String {
    format!("get {}\r\n", keys.join(" "))
}

/// Slices that one server did not answer took the room for reads of all others.
#[test]
fn a_server_that_does_not_answer_keeps_nobody_from_reading_much_of_another() {
    let (mut world, [silent, fast]) = two_servers();
    let clients: Vec<_> = (0..6).map(|_| world.client()).collect();
    for client in &clients {
        world.send(*client, &get_of(&silent));
    }
    assert_eq!(world.server_gets(0), get_of(&silent).repeat(4));
    for _ in 0..8 {
        let client = world.client();
        world.send(client, &get_of(&fast));
        assert_eq!(world.server_gets(1), get_of(&fast));
        assert_eq!(world.hears(client, 1, "END\r\n"), "END\r\n");
    }
    assert_eq!(world.report().counters.bulk_read_waits, 2);
    for _ in 0..2 {
        assert_eq!(world.server_gets(0), "");
        world.server_says(0, "END\r\n");
        assert_eq!(world.server_gets(0), get_of(&silent), "the two that waited");
    }
    world.server_says(0, &"END\r\n".repeat(4));
    assert_eq!(world.all_hear(&clients), ["END\r\n"; 6]);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn what_has_come_of_a_read_takes_no_room_at_its_server() {
    let (mut world, [silent, fast]) = two_servers();
    let both = get_of(&[&silent[..8], &fast[..8]].concat());
    for _ in 0..8 {
        let client = world.client();
        world.send(client, &both);
        assert_eq!(world.server_gets(0), get_of(&silent[..8]));
        assert_eq!(world.server_gets(1), get_of(&fast[..8]));
        world.server_says(1, "END\r\n");
    }
    let (first, second) = (world.client(), world.client());
    world.send(first, &both);
    assert_eq!((world.server_gets(0), world.server_gets(1)), (String::new(), String::new()));
    world.send(second, &get_of(&fast));
    assert_eq!(world.server_gets(1), get_of(&fast));
    assert_eq!(world.hears(second, 1, "END\r\n"), "END\r\n");
    world.server_says(0, &"END\r\n".repeat(8));
    assert_eq!(world.server_gets(0), get_of(&silent[..8]));
    assert_eq!(world.server_gets(1), get_of(&fast[..8]));
}

/// What is expected of a server is forgotten with the reads that it has not answered in time.
#[test]
fn reads_that_a_server_does_not_answer_in_time_make_room_for_others() {
    let (mut world, [silent, fast]) = two_servers();
    let both = get_of(&[&silent[..8], &fast[..8]].concat());
    let clients: Vec<_> = (0..9).map(|_| world.client()).collect();
    for client in &clients {
        world.send(*client, &both);
    }
    assert_eq!(world.server_gets(0), get_of(&silent[..8]).repeat(8));
    assert_eq!(world.server_gets(1), get_of(&fast[..8]).repeat(8));
    world.server_says(1, &"END\r\n".repeat(8));
    world.pass(TIMEOUT);
    assert_eq!(world.all_hear(&clients[..8]), ["SERVER_ERROR timeout s:1\r\n"; 8]);
    assert_eq!(world.server_gets(1), get_of(&fast[..8]), "the one that waited");
}

#[test]
fn where_no_second_connection_can_be_made_the_first_serves() {
    let mut world = World::with(1, 1, config());
    let client = world.client();
    world.send(client, &get(0..20));
    assert_eq!(world.events, [Event::Connect(slot(1))]);
    world.dataplane.handle_server_disconnected(slot(1), world.now);
    world.turn();
    assert_eq!(world.server_gets(0), get(0..16));
}

#[test]
fn where_keys_have_several_servers_slices_stay_on_the_first_connections() {
    let mut world = World::with(2, 2, config());
    let client = world.client();
    world.send(client, &("gets".to_owned() + &get(0..20)[3..]));
    assert_eq!(world.events, []);
    let sent = [world.server_gets(0), world.server_gets(1)];
    let keys: usize = sent.iter().map(|line| line.split_whitespace().count().saturating_sub(1)).sum();
    assert_eq!(keys, 16);
}

#[test]
fn a_new_client_has_few_requests_in_service_until_it_was_answered() {
    let mut world = world();
    let client = world.client();
    world.send(client, &"mg key v h\r\n".repeat(30));
    let sent = |world: &mut World| world.server_gets(0).matches("mg key v h\r\n").count();
    assert_eq!(sent(&mut world), 8);
    assert_eq!(world.hears(client, 0, "EN\r\n"), "EN\r\n");
    assert_eq!(sent(&mut world), 9, "sixteen may be");
    // A large value is a sign of more.
    let large = "x".repeat(300_000);
    world.server_says(0, &format!("VA 300000\r\n{large}\r\n"));
    world.client_gets(client);
    world.server_says(0, &"EN\r\n".repeat(12));
    world.client_gets(client);
    assert!(sent(&mut world) <= 8);
}

#[test]
fn who_was_sent_a_large_value_reads_the_next_over_the_second_connection() {
    let mut world = world();
    let client = world.client();
    world.send(client, "get k0\r\n");
    assert_eq!(world.server_gets(0), "get k0\r\n");
    let reply = values(0..1, 300_000) + "END\r\n";
    world.server_says(0, &reply);
    assert_eq!(world.client_gets(client).len() + world.client_gets(client).len(), reply.len());
    world.send(client, "get k0\r\n");
    assert_eq!((world.server_gets(0), world.server_gets(1)), (String::new(), "get k0\r\n".into()));
}

#[test]
fn windows_count_what_goes_over_bulk_connections() {
    let mut world = World::with(1, 1, config());
    world.dataplane.keep_windows();
    let client = world.client();
    world.send(client, &get(0..20));
    world.dataplane.handle_server_connected(slot(1), world.now);
    world.turn();
    for _ in 0..2 {
        assert!(world.server_gets(1).starts_with("get k"));
        world.hears(client, 1, "END\r\n");
    }
    world.pass(1_000_000_000);
    let window = world.dataplane.poll_window().expect("a second is over");
    let (server, report) = (&window.servers[0], world.report());
    assert_eq!((server.requests, report.servers[0].requests), (2, 2));
    assert_eq!((server.queued.arrivals, server.in_flight.arrivals), (2, 2));
    assert_eq!(server.time.count(), 2);
}

#[test]
fn a_server_that_is_sending_a_long_reply_is_not_silent() {
    let mut world = World::with(1, 1, Config { mark_down_timeouts: 3, ..Config::default() });
    let clients: Vec<_> = (0..10).map(|_| world.client()).collect();
    for client in &clients {
        world.send(*client, "mg key v h\r\n");
    }
    world.server_gets(0);
    world.server_says(0, "VA 1000000\r\n");
    for _ in 0..10 {
        world.pass(TIMEOUT / 4);
        world.server_says(0, &"x".repeat(70_000));
    }
    assert_eq!(world.client_gets(clients[1]), "SERVER_ERROR timeout s:1\r\n");
    let report = world.report();
    assert_eq!((report.counters.servers_marked_down, report.counters.server_timeouts), (0, 9));
    let other = world.client();
    world.send(other, "mg other v\r\n");
    assert_eq!(world.server_gets(0), "mg other v\r\n");
}
