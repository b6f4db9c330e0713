//! Gets that wait for the reply to an earlier one (`requests/ask_once.rs`): each client is answered what it would have been answered alone.

use crate::world::{CHANGES, MS, TIMEOUT, World, router, slot, value};
use std::sync::Arc;
use weir_dataplane::{AskOnce, Config, Freshness, LoopId, SessionId};
use weir_timing::{Operation, Stage};

fn on() -> Config {
    Config { ask_once: AskOnce::On, ..Config::default() }
}

/// One server, and this many clients.
fn world_of(clients: usize, config: Config) -> (World, Vec<SessionId>) {
    let mut world = World::with(1, 1, config);
    let clients = (0..clients).map(|_| world.client()).collect();
    (world, clients)
}

#[test]
fn a_key_in_flight_is_asked_for_once() {
    let (mut world, clients) = world_of(4, on());
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    world.pass(MS);
    for client in &clients[1..] {
        assert_eq!(world.asks(*client, "get a"), "", "it waits");
    }
    assert_eq!(world.asks(clients[1], "get b"), "get b\r\n", "another key is asked for");
    world.pass(MS);
    world.server_says(0, &(value("a", "one") + "END\r\n"));
    let expected = [value("a", "one"), value("a", "one") + "END\r\n", value("a", "one"), value("a", "one")];
    assert_eq!(world.all_hear(&clients), expected);
    let report = world.report();
    assert_eq!((report.counters.gets_coalesced, report.counters.gets_coalesced_again), (3, 0));
    let get = report.timing.operation(Operation::Get);
    assert_eq!((get.requests, get.hits, get.misses()), (5, 4, 1), "each counts as a request");
    assert_eq!(report.servers[0].requests, 2, "the server had two");
    let waited = get.stage(Stage::Backend).max().expect("they were answered");
    assert!((2 * MS..3 * MS).contains(&waited), "their wait is time at the server: {waited}");
    assert!(world.dataplane.is_quiet(), "nothing is left behind");
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n", "what is answered is asked for again");
    assert_eq!(world.hears(clients[0], 0, "END\r\n"), "END\r\n");
}

#[test]
fn a_miss_is_a_miss_for_all() {
    let (mut world, clients) = world_of(2, on());
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    assert_eq!(world.asks(clients[1], "get a"), "");
    world.server_says(0, "END\r\n");
    assert_eq!(world.all_hear(&clients), ["END\r\n", "END\r\n"]);
    assert_eq!(world.report().timing.operation(Operation::Get).misses(), 2);
}

#[test]
fn without_the_setting_each_is_asked_for() {
    let (mut world, clients) = world_of(2, Config::default());
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    assert_eq!(world.asks(clients[1], "get a"), "get a\r\n");
    assert_eq!(world.report().counters.gets_coalesced, 0);
}

#[test]
fn only_gets_of_one_key_wait() {
    let (mut world, clients) = world_of(2, on());
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    for request in ["gets a", "get a b", "gat 0 a", "mg a v"] {
        assert_eq!(world.asks(clients[1], request), format!("{request}\r\n"));
    }
}

#[test]
fn a_get_that_comes_after_a_change_is_asked_for() {
    for change in CHANGES {
        let (mut world, clients) = world_of(3, on());
        assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
        assert_ne!(world.asks(clients[1], change), "", "{change}");
        assert_eq!(world.asks(clients[2], "get a"), "get a\r\n", "{change}");
        assert_eq!(world.report().counters.gets_coalesced, 0, "{change}");
    }
}

#[test]
fn nobody_waits_for_a_get_that_was_sent_while_a_change_was_under_way() {
    // The change may be carried out after the get, and seen by somebody before the second get comes.
    let (mut world, clients) = world_of(3, on());
    assert_eq!(world.asks(clients[1], "set a 0 0 1\r\nx"), "set a 0 0 1\r\nx\r\n");
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    assert_eq!(world.asks(clients[2], "get a"), "get a\r\n");
    assert_eq!(world.hears(clients[1], 0, "STORED\r\n"), "STORED\r\n");
    assert_eq!(
        world.asks(clients[2], "get a"),
        "get a\r\n",
        "it was answered; a get that was sent before tells nothing"
    );
    assert_eq!(world.asks(clients[0], "get a"), "", "and one that was sent after it does");
}

#[test]
fn a_flush_counts_for_every_key() {
    let mut config = on();
    config.limits.flush_allowed = true;
    let (mut world, clients) = world_of(2, config);
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    assert_eq!(world.asks(clients[1], "flush_all"), "flush_all\r\n");
    assert_eq!(world.asks(clients[1], "get a"), "get a\r\n");
}

#[test]
fn a_value_that_is_refused_and_erases_the_old_one_counts() {
    let mut config = on();
    config.limits.value_bytes_max = 10;
    let (mut world, clients) = world_of(2, config);
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    assert_eq!(world.asks(clients[1], "set a 0 0 11\r\n01234567890"), "delete a\r\n");
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
}

#[test]
fn a_change_through_another_loop_counts() {
    let freshness = Arc::<Freshness>::default();
    let of = |index| {
        let config = Config { loop_index: LoopId::from_index(index), loop_count: 2, ..on() };
        World::sharing(1, 1, config, Arc::clone(&freshness))
    };
    let (mut first, mut second) = (of(0), of(1));
    let (reader, writer) = (first.client(), second.client());
    assert_eq!(first.asks(reader, "get a"), "get a\r\n");
    assert_eq!(second.asks(writer, "delete a"), "delete a\r\n");
    assert_eq!(first.asks(reader, "get a"), "get a\r\n");
}

#[test]
fn behind_a_change_without_an_answer_nobody_waits_for_a_minute() {
    let (mut world, clients) = world_of(2, on());
    assert_eq!(world.asks(clients[0], "set a 0 0 1\r\nx"), "set a 0 0 1\r\nx\r\n");
    // Nobody knows what the server still has of it.
    world.dataplane.handle_server_broken(slot(0), world.now);
    world.turn();
    assert_eq!(world.client_gets(clients[0]), "SERVER_ERROR closed s:1\r\n");
    world.dataplane.handle_server_connected(slot(0), world.now);
    for client in &clients {
        assert_eq!(world.asks(*client, "get a"), "get a\r\n", "the server may store it late");
    }
    world.server_says(0, "END\r\nEND\r\n");
    assert_eq!(world.all_hear(&clients), ["END\r\n", "END\r\n"]);
    world.pass(60_002 * MS);
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    assert_eq!(world.asks(clients[1], "get a"), "");
}

/// For a minute every get was asked for, of a server that was slow already.
#[test]
fn behind_a_change_that_is_answered_late_gets_wait_for_each_other_again() {
    let (mut world, clients) = world_of(3, on());
    let set = "set a 0 0 1\r\nx";
    assert_eq!(world.asks(clients[0], set), format!("{set}\r\n"));
    world.pass(MS);
    assert_eq!(world.asks(clients[1], set), format!("{set}\r\n"));
    world.pass(TIMEOUT);
    let timeout = "SERVER_ERROR timeout s:1\r\n";
    assert_eq!(world.all_hear(&clients), [timeout, timeout, ""]);
    world.server_gets(0);
    for client in &clients[..2] {
        assert_eq!(world.asks(*client, "get a"), "get a\r\n", "the server may store both late");
    }
    world.server_says(0, "STORED\r\n");
    assert_eq!(world.asks(clients[2], "get a"), "get a\r\n", "it may store the second one late");
    world.server_says(0, "STORED\r\n");
    assert_eq!(world.report().counters.server_replies_late, 2);
    assert_eq!(
        world.asks(clients[0], "get a"),
        "get a\r\n",
        "those before it were sent before that was known"
    );
    assert_eq!(world.asks(clients[1], "get a"), "");
}

#[test]
fn a_change_that_is_answered_late_is_known_to_all_loops() {
    let freshness = Arc::<Freshness>::default();
    let of = |index| {
        let config = Config { loop_index: LoopId::from_index(index), loop_count: 2, ..on() };
        World::sharing(1, 1, config, Arc::clone(&freshness))
    };
    let (mut first, mut second) = (of(0), of(1));
    let readers = [first.client(), first.client()];
    let writer = second.client();
    assert_eq!(second.asks(writer, "delete a"), "delete a\r\n");
    second.pass(TIMEOUT);
    assert_eq!(second.client_gets(writer), "SERVER_ERROR timeout s:1\r\n");
    first.pass(TIMEOUT);
    for reader in readers {
        assert_eq!(first.asks(reader, "get a"), "get a\r\n", "it may be deleted late");
    }
    second.server_says(0, "DELETED\r\n");
    assert_eq!(first.asks(readers[0], "get a"), "get a\r\n");
    assert_eq!(first.asks(readers[1], "get a"), "");
}

/// Of a key's other servers each may carry it out late.
#[test]
fn where_a_key_has_several_servers_a_late_answer_of_one_is_not_enough() {
    let mut world = World::with(2, 2, on());
    let clients = [world.client(), world.client()];
    let key = world.key_on(0);
    world.send(clients[0], &format!("set {key} 0 0 1\r\nx\r\n"));
    (0..2).for_each(|server| _ = world.server_gets(server));
    world.server_says(0, "STORED\r\n");
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(clients[0]), "SERVER_ERROR timeout s:2\r\n");
    world.server_says(1, "STORED\r\n");
    for client in clients {
        world.send(client, &format!("get {key}\r\n"));
        assert_eq!(world.server_gets(0), format!("get {key}\r\n"));
    }
}

/// Its time was up in its key's line, and for a minute it was feared.
#[test]
fn a_write_that_was_never_sent_ends_no_sharing() {
    let mut world = World::with(2, 2, on());
    let clients = [0; 5].map(|_| world.client());
    let key = world.key_on(0);
    let (incr, get) = (format!("incr {key} 1\r\n"), format!("get {key}\r\n"));
    clients[..2].iter().for_each(|&client| world.send(client, &incr));
    assert_eq!(world.server_gets(0), incr);
    world.pass(10 * MS);
    world.send(clients[2], &incr);
    world.pass(TIMEOUT - 11 * MS);
    for (reply, follows) in [("1\r\n", incr.as_str()), ("2\r\n", "")] {
        world.server_says(0, reply);
        assert_eq!((world.server_gets(0).as_str(), world.server_gets(1)), (follows, incr.clone()));
        world.server_says(1, reply);
        world.pass(11 * MS);
    }
    let timeout = "SERVER_ERROR timeout s:1\r\n";
    assert_eq!(world.all_hear(&clients[..3]), ["1\r\n", "2\r\n", timeout]);
    world.send(clients[3], &get);
    assert_eq!(world.server_gets(0), get);
    world.send(clients[4], &get);
    assert_eq!(world.server_gets(0), "", "it waits");
}

#[test]
fn what_one_client_sends_is_answered_in_its_order() {
    let (mut world, clients) = world_of(2, on());
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    let sent = world.asks(clients[1], "get b\r\nget a\r\nget a\r\nset a 0 0 1\r\nx\r\nget a");
    assert_eq!(sent, "set a 0 0 1\r\nx\r\nget b a\r\n", "two wait, and what is behind a change does not");
    world.server_says(0, &value("a", "old"));
    assert_eq!(world.all_hear(&clients), [value("a", "old"), String::new()], "the answer to b comes first");
    world.server_says(0, &("STORED\r\nVALUE b 0 1\r\n1\r\n".to_owned() + &value("a", "x")));
    let expected = value("b", "1") + &value("a", "old").repeat(2) + "STORED\r\n" + &value("a", "x");
    assert_eq!(world.client_gets(clients[1]), expected);
}

#[test]
fn whose_earlier_get_is_late_asks_alone_and_keeps_its_own_time() {
    let (mut world, clients) = world_of(3, on());
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    world.pass(TIMEOUT / 2);
    assert_eq!(world.asks(clients[1], "get a"), "");
    assert_eq!(world.asks(clients[2], "get a\r\nset a 0 0 1\r\nx"), "set a 0 0 1\r\nx\r\n");
    world.pass(TIMEOUT / 2);
    assert_eq!(world.client_gets(clients[0]), "SERVER_ERROR timeout s:1\r\n");
    assert_eq!(world.server_gets(0), "get a\r\n", "the second asks by itself");
    assert_eq!(
        world.client_gets(clients[2]),
        "SERVER_ERROR timeout s:1\r\n",
        "the third would read what it wrote behind its get"
    );
    world.server_says(0, &(value("a", "late") + "STORED\r\n" + &value("a", "x")));
    assert_eq!(world.all_hear(&clients), [String::new(), value("a", "x"), "STORED\r\n".to_owned()]);
    assert_eq!(world.report().counters.gets_coalesced_again, 1);
    world.pass(TIMEOUT);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn behind_a_get_that_is_late_the_next_ones_wait_for_each_other() {
    let (mut world, clients) = world_of(3, on());
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(clients[0]), "SERVER_ERROR timeout s:1\r\n");
    assert_eq!(world.asks(clients[1], "get a"), "get a\r\n");
    assert_eq!(world.asks(clients[2], "get a"), "", "a get that is late changes nothing");
}

#[test]
fn an_error_of_the_server_is_the_answer_to_the_first_alone() {
    let (mut world, clients) = world_of(2, on());
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    assert_eq!(world.asks(clients[1], "get a"), "");
    world.server_says(0, "SERVER_ERROR out of memory writing get response\r\n");
    assert_eq!(world.server_gets(0), "get a\r\n");
    world.server_says(0, &value("a", "1"));
    let refused = "SERVER_ERROR out of memory writing get response\r\n".to_owned();
    assert_eq!(world.all_hear(&clients), [refused, value("a", "1")]);
}

#[test]
fn clients_that_leave_take_nothing_from_those_that_stay() {
    let (mut world, clients) = world_of(3, on());
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    assert_eq!(world.asks(clients[1], "get a"), "");
    assert_eq!(world.asks(clients[2], "get a"), "");
    for leaver in [clients[0], clients[2]] {
        world.dataplane.handle_client_closed(leaver);
    }
    assert_eq!(world.hears(clients[1], 0, &value("a", "1")), value("a", "1"));
    assert!(world.dataplane.is_quiet());
    assert_eq!(world.report().counters.requests_orphaned, 2);
}

#[test]
fn a_long_value_is_asked_for_by_each() {
    let (mut world, clients) = world_of(2, on());
    let long = value("a", &"x".repeat(65 << 10));
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    assert_eq!(world.asks(clients[1], "get a"), "");
    assert!(world.hears(clients[0], 0, &long) == long, "the first has it");
    assert_eq!(world.server_gets(0), "get a\r\n");
    assert!(world.hears(clients[1], 0, &long) == long, "and the second, which asked for it");
}

#[test]
fn no_more_wait_for_one_get_than_are_answered_in_one_go() {
    let config = Config { session_requests_max: 2_000, ..on() };
    let (mut world, clients) = world_of(2, config);
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    assert_eq!(world.asks(clients[1], &["get a"; 1024].join("\r\n")), "");
    assert_eq!(world.asks(clients[1], "get a"), "get a\r\n");
    assert_eq!(world.asks(clients[1], "get a"), "", "which others wait for then");
    let counters = world.report().counters;
    assert_eq!((counters.gets_coalesced, counters.gets_coalesced_full), (1025, 1));
    world.server_says(0, "END\r\nEND\r\n");
    assert_eq!(world.all_hear(&clients), ["END\r\n".to_owned(), "END\r\n".repeat(1026)]);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_get_of_an_earlier_table_is_waited_for_by_nobody() {
    let mut world = World::with(2, 1, on());
    let clients = [world.client(), world.client()];
    let key = world.key_on(0);
    world.send(clients[0], &format!("get {key}\r\n"));
    assert_eq!(world.server_gets(0), format!("get {key}\r\n"));
    world.reload(router(&["s:1", "s:2"], 1));
    world.send(clients[1], &format!("get {key}\r\n"));
    assert_eq!(world.server_gets(0), format!("get {key}\r\n"));
}

#[test]
fn what_was_asked_again_elsewhere_is_no_answer_to_who_has_written_since() {
    let mut world = World::with(2, 2, on());
    let clients = [world.client(), world.client(), world.client()];
    let key = world.key_on(0);
    for client in clients {
        world.send(client, &format!("get {key}\r\n"));
        if client == clients[0] {
            assert_eq!(world.server_gets(0), format!("get {key}\r\n"));
        }
    }
    assert_eq!(world.server_gets(0), "", "two wait");
    world.send(clients[2], &format!("set {key} 0 0 3\r\nnew\r\n"));
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.turn();
    let sent = world.server_gets(1);
    assert!(
        sent.ends_with(&format!("get {key}\r\n")),
        "the first is asked again, behind the change: {sent:?}"
    );
    world.server_says(1, "STORED\r\n");
    world.server_says(1, &value(&key, "new"));
    assert_eq!(world.client_gets(clients[0]), value(&key, "new"));
    assert_eq!(world.client_gets(clients[1]), value(&key, "new"));
    let third = world.client_gets(clients[2]);
    assert!(third.starts_with("SERVER_ERROR closed s:1\r\n"), "{third:?}");
}

#[test]
fn memory_is_not_given_back_of_a_get_whose_later_twin_was_refused() {
    // The refused one had taken the place of the key's latest get with it, so nothing seemed to be left.
    const OTHERS: usize = 70;
    let (mut world, clients) = world_of(2, Config { server_requests_max: OTHERS + 1, ..on() });
    let many = |verb: &str| (0..OTHERS).map(|key| format!("{verb} k{key}\r\n")).collect::<String>();
    world.send(clients[0], &many("get"));
    world.server_gets(0);
    world.server_says(0, "END\r\n");
    world.client_gets(clients[0]);
    world.pass(900 * MS);
    world.send(clients[0], &many("gets"));
    world.send(clients[0], "get a\r\n");
    world.send(clients[1], "get a\r\n");
    assert_eq!(world.client_gets(clients[1]), "SERVER_ERROR queue-full s:1\r\n");
    world.server_gets(0);
    world.pass(200 * MS);
    world.server_says(0, &("END\r\n".repeat(OTHERS) + &value("a", "1")));
    assert_eq!(world.client_gets(clients[0]), "END\r\n".repeat(OTHERS) + &value("a", "1"));
    assert!(world.dataplane.is_quiet());
}
