//! Gets that are answered with a value that is kept (`requests/near_cache.rs`): what the server would have answered.

use crate::world::{CHANGES, MS, TIMEOUT, World, router, slot, value};
use std::sync::Arc;
use weir_dataplane::{Config, Freshness, LoopId, SessionId};
use weir_timing::Operation;

const AGE: u64 = 1_000 * MS;

fn on() -> Config {
    Config { near_cache_entries: 64, ..Config::default() }
}

/// One server, and this many clients; `a` is `old`, and is asked for so often that it is kept.
fn world_of(clients: usize, config: Config) -> (World, Vec<SessionId>) {
    let mut world = World::with(1, 1, config);
    let clients: Vec<_> = (0..clients).map(|_| world.client()).collect();
    world.heats(clients[0], "a", "old");
    (world, clients)
}

impl World {
    /// The key is asked for three times.
    fn heats(&mut self, client: SessionId, key: &str, data: &str) {
        for _ in 0..3 {
            assert_eq!(self.asks(client, &format!("get {key}")), format!("get {key}\r\n"));
            assert_eq!(self.hears(client, 0, &value(key, data)), value(key, data));
        }
    }

    /// `a` is asked for, which is known to be asked for often.
    fn warms(&mut self, client: SessionId) {
        assert_eq!(self.asks(client, "get a"), "get a\r\n");
        assert_eq!(self.hears(client, 0, &value("a", "old")), value("a", "old"));
    }

    /// Whether `a` is answered without its server.
    fn is_near(&mut self, client: SessionId) -> bool {
        let asked = self.asks(client, "get a");
        if asked.is_empty() {
            return self.client_gets(client) == value("a", "old");
        }
        assert_eq!(self.hears(client, 0, "END\r\n"), "END\r\n");
        false
    }
}

#[test]
fn a_key_that_is_asked_for_often_is_answered_without_its_server() {
    let (mut world, clients) = world_of(2, on());
    for client in &clients {
        assert_eq!(world.asks(*client, "get a"), "");
        assert_eq!(world.client_gets(*client), value("a", "old"));
    }
    let report = world.report();
    assert_eq!((report.counters.near_hits, report.counters.near_kept), (2, 1));
    let get = report.timing.operation(Operation::Get);
    assert_eq!((get.requests, get.hits, get.misses()), (5, 5, 0), "each counts as a request");
    assert_eq!(report.servers[0].requests, 3);
    assert!(world.dataplane.is_quiet());
}

/// A pipeline of ten gets left in two writes where five were answered at once, and each write costs as much as the rest of them.
#[test]
fn what_is_answered_at_once_leaves_with_what_its_client_waits_for() {
    let (mut world, clients) = world_of(2, on());
    while world.dataplane.poll_client_output().is_some() {}
    assert_eq!(world.asks(clients[0], "get a\r\nget b\r\nget a"), "get b\r\n");
    assert_eq!(world.dataplane.poll_client_output(), None);
    assert!(world.dataplane.poll_timeout() <= Some(world.now.plus(MS / 5)));
    world.server_says(0, &value("b", "x"));
    assert_eq!(world.dataplane.poll_client_output(), Some(clients[0]));
    assert_eq!(world.client_gets(clients[0]), value("a", "old") + &value("b", "x") + &value("a", "old"));
    // With nothing to wait for it does not.
    assert_eq!(world.asks(clients[1], "get a\r\nget a"), "");
    assert_eq!(world.dataplane.poll_client_output(), Some(clients[1]));
}

#[test]
fn it_waits_for_a_moment_and_no_longer() {
    let (mut world, clients) = world_of(1, on());
    for _ in 0..3 {
        while world.dataplane.poll_client_output().is_some() {}
        assert_eq!(world.asks(clients[0], "get a\r\nget b"), "get b\r\n");
        world.pass(MS / 5 - 1);
        assert_eq!(world.dataplane.poll_client_output(), None);
        world.pass(1);
        assert_eq!(world.dataplane.poll_client_output(), Some(clients[0]));
        assert_eq!(world.client_gets(clients[0]), value("a", "old"));
        assert_eq!(world.hears(clients[0], 0, "END\r\n"), "END\r\n");
    }
}

/// A client that went on asking for what is kept had its first reply when its server had answered another get.
#[test]
fn more_of_the_same_does_not_put_it_off() {
    let (mut world, clients) = world_of(1, on());
    while world.dataplane.poll_client_output().is_some() {}
    assert_eq!(world.asks(clients[0], "get a\r\nget b"), "get b\r\n");
    let mut passed = 0;
    while world.dataplane.poll_client_output().is_none() {
        assert!(passed < MS / 5, "it is late by {} ns", passed - MS / 5);
        // As a driver does: it reads, then time passes, then it writes.
        world.now = world.now.plus(MS / 20);
        passed += MS / 20;
        assert_eq!(world.asks(clients[0], "get a"), "");
    }
    assert_eq!(passed, MS / 5);
    assert_eq!(world.client_gets(clients[0]), value("a", "old"));
    assert_eq!(world.hears(clients[0], 0, "END\r\n"), format!("END\r\n{}", value("a", "old").repeat(4)));
}

#[test]
fn only_replies_that_nobody_was_asked_for_wait() {
    for sent in ["version\r\nget a\r\nget b", "get a\r\nversion\r\nget b"] {
        let (mut world, clients) = world_of(1, on());
        while world.dataplane.poll_client_output().is_some() {}
        assert_eq!(world.asks(clients[0], sent), "get b\r\n");
        assert_eq!(world.dataplane.poll_client_output(), Some(clients[0]), "{sent}");
    }
}

#[test]
fn without_the_setting_nothing_is_kept() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.heats(client, "a", "old");
    assert!(!world.is_near(client));
}

#[test]
fn a_change_makes_the_value_worthless_before_it_is_acknowledged() {
    for change in CHANGES {
        let (mut world, clients) = world_of(3, on());
        assert!(world.is_near(clients[1]), "{change}");
        assert_ne!(world.asks(clients[0], change), "", "{change}");
        assert!(world.is_near(clients[1]), "{change}: nobody knows of it yet");
        // What has failed may have changed the item all the same.
        world.server_says(0, "SERVER_ERROR out of memory\r\n");
        assert_eq!(world.asks(clients[1], "get a"), "get a\r\n", "{change}");
        assert_eq!(world.report().counters.near_outdated, 1, "{change}");
    }
}

#[test]
fn who_changes_a_key_reads_it_behind_that() {
    for change in CHANGES {
        let (mut world, clients) = world_of(2, on());
        assert_ne!(world.asks(clients[0], change), "", "{change}");
        assert_eq!(world.asks(clients[0], "get a"), "get a\r\n", "{change}");
        assert!(world.is_near(clients[1]), "{change}");
    }
    let (mut world, clients) = world_of(1, on());
    assert_ne!(world.asks(clients[0], "set b 0 0 1\r\nx"), "");
    assert_eq!(world.asks(clients[0], "get a"), "", "it waits for another key");
}

// ── what is stored ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn what_is_stored_under_a_key_that_is_asked_for_often_is_kept() {
    for (set, flags) in
        [("set a 0 0 3", "0"), ("set a 007 0 3", "7"), ("set a 4294967295 60 3 noreply", "4294967295")]
    {
        let (mut world, clients) = world_of(2, on());
        let sent = set.replace(" noreply", "");
        assert_eq!(world.asks(clients[0], &format!("{set}\r\nnew")), format!("{sent}\r\nnew\r\n"), "{set}");
        world.server_says(0, "STORED\r\n");
        let said = if set == sent { "STORED\r\n" } else { "" };
        assert_eq!(world.client_gets(clients[0]), said, "{set}");
        for client in &clients {
            assert_eq!(world.asks(*client, "get a"), "", "{set}");
            assert_eq!(world.client_gets(*client), format!("VALUE a {flags} 3\r\nnew\r\nEND\r\n"), "{set}");
        }
        assert_eq!(world.report().counters.near_kept, 2, "{set}");
    }
}

#[test]
fn of_several_sets_the_last_that_was_acknowledged_is_read() {
    let (mut world, clients) = world_of(4, on());
    for (client, data) in clients.iter().zip(["1", "2", "3"]) {
        let set = format!("set a 0 0 1\r\n{data}");
        assert_eq!(world.asks(*client, &set), format!("{set}\r\n"));
    }
    for (data, before) in [("1", "old"), ("2", "1"), ("3", "2")] {
        assert_eq!(world.asks(clients[3], "get a"), "", "{data}");
        assert_eq!(world.client_gets(clients[3]), value("a", before));
        world.server_says(0, "STORED\r\n");
        assert_eq!(world.asks(clients[3], "get a"), "", "{data}");
        assert_eq!(world.client_gets(clients[3]), value("a", data));
    }
}

#[test]
fn what_else_writes_a_key_is_not_kept() {
    let others = [
        ("set a 0 0 1\r\nx", "SERVER_ERROR out of memory storing object\r\n"),
        ("set a 0 1 1\r\nx", "STORED\r\n"),
        ("set a 0 -1 1\r\nx", "STORED\r\n"),
        ("set a 0 1900000000 1\r\nx", "STORED\r\n"),
        ("add a 0 0 1\r\nx", "STORED\r\n"),
        ("replace a 0 0 1\r\nx", "STORED\r\n"),
        ("append a 0 0 1\r\nx", "STORED\r\n"),
        ("cas a 0 0 1 7\r\nx", "STORED\r\n"),
        ("ms a 1\r\nx", "HD\r\n"),
    ];
    for (set, reply) in others {
        let (mut world, clients) = world_of(2, on());
        assert_ne!(world.asks(clients[0], set), "", "{set}");
        world.server_says(0, reply);
        assert_eq!(world.asks(clients[1], "get a"), "get a\r\n", "{set}");
    }
    let (mut world, clients) = world_of(2, on());
    assert_ne!(world.asks(clients[0], "set b 0 0 1\r\nx"), "");
    world.server_says(0, "STORED\r\n");
    assert_eq!(world.asks(clients[1], "get b"), "get b\r\n", "nobody asks for it");
}

#[test]
fn what_is_stored_lives_as_long_as_it_says() {
    let (mut world, clients) = world_of(2, Config { near_cache_age_ns: 100 * AGE, ..on() });
    assert_ne!(world.asks(clients[0], "set a 0 3 3\r\nold"), "");
    // Its server counts from when it has it, which may be a moment after it was sent.
    world.pass(100 * MS);
    world.server_says(0, "STORED\r\n");
    world.pass(1_899 * MS);
    assert!(world.is_near(clients[1]));
    world.pass(MS);
    assert!(!world.is_near(clients[1]), "its server has whole seconds");
}

#[test]
fn what_is_stored_while_another_loop_writes_is_not_kept() {
    for overlap in ["before", "meanwhile", "behind"] {
        let freshness = Arc::<Freshness>::default();
        let of = |index| {
            let config = Config { loop_index: LoopId::from_index(index), loop_count: 2, ..on() };
            World::sharing(1, 1, config, Arc::clone(&freshness))
        };
        let (mut first, mut second) = (of(0), of(1));
        let (reader, writer, other) = (first.client(), first.client(), second.client());
        first.heats(reader, "a", "old");
        let other_begins = |second: &mut World| assert_eq!(second.asks(other, "delete a"), "delete a\r\n");
        let other_ends = |second: &mut World| second.server_says(0, "DELETED\r\n");
        if overlap == "before" {
            other_begins(&mut second);
        }
        assert_ne!(first.asks(writer, "set a 0 0 1\r\nx"), "");
        match overlap {
            "before" => other_ends(&mut second),
            "meanwhile" => {
                other_begins(&mut second);
                other_ends(&mut second);
            }
            _ => other_begins(&mut second),
        }
        first.server_says(0, "STORED\r\n");
        assert_eq!(first.asks(reader, "get a"), "get a\r\n", "{overlap}: which came last at the server?");
    }
}

#[test]
fn what_is_stored_by_another_table_or_over_another_connection_is_not_kept() {
    let (mut world, clients) = world_of(2, on());
    assert_ne!(world.asks(clients[0], "set a 0 0 1\r\nx"), "");
    world.reload(router(&["s:1"], 1));
    world.server_says(0, "STORED\r\n");
    assert_eq!(world.asks(clients[1], "get a"), "get a\r\n");
    let mut config = on();
    config.large_value_bytes = 10;
    let (mut world, clients) = world_of(3, config);
    world.send(clients[0], "set a 0 0 11\r\n01234567890\r\n");
    world.dataplane.handle_server_connected(slot(1), world.now);
    assert_eq!(world.server_gets(1), "set a 0 0 11\r\n01234567890\r\n");
    world.send(clients[1], "set a 0 0 1\r\nx\r\n");
    world.server_says(1, "STORED\r\n");
    assert_eq!(world.asks(clients[2], "get a"), "get a\r\n", "a large one has a connection of its own");
}

#[test]
fn what_was_asked_for_before_a_change_or_during_it_is_not_kept() {
    let (mut world, clients) = world_of(3, on());
    assert_eq!(world.asks(clients[0], "delete a"), "delete a\r\n");
    world.server_says(0, "DELETED\r\n");
    assert_eq!(world.asks(clients[0], "delete a"), "delete a\r\n");
    assert_eq!(world.asks(clients[1], "get a"), "get a\r\n", "during it");
    world.server_says(0, &("DELETED\r\n".to_owned() + &value("a", "x")));
    assert_eq!(world.client_gets(clients[1]), value("a", "x"));
    assert_eq!(world.asks(clients[1], "get a"), "get a\r\n", "before the next one");
    assert_eq!(world.asks(clients[0], "delete a"), "delete a\r\n");
    world.server_says(0, &(value("a", "x") + "DELETED\r\n"));
    assert_eq!(world.asks(clients[2], "get a"), "get a\r\n");
    world.server_says(0, &value("a", "old"));
    assert_eq!(world.client_gets(clients[2]), value("a", "old"));
    assert!(world.is_near(clients[2]), "that was asked for after it");
}

#[test]
fn another_loops_changes_count() {
    let freshness = Arc::<Freshness>::default();
    let of = |index| {
        let config = Config { loop_index: LoopId::from_index(index), loop_count: 2, ..on() };
        World::sharing(1, 1, config, Arc::clone(&freshness))
    };
    let (mut first, mut second) = (of(0), of(1));
    let (reader, writer) = (first.client(), second.client());
    first.heats(reader, "a", "old");
    assert!(first.is_near(reader));
    assert_eq!(second.asks(writer, "delete a"), "delete a\r\n");
    assert!(first.is_near(reader), "nobody knows of it yet");
    assert_eq!(second.hears(writer, 0, "DELETED\r\n"), "DELETED\r\n");
    assert!(!first.is_near(reader));
}

#[test]
fn a_change_without_an_answer_counts_for_a_minute() {
    let (mut world, clients) = world_of(2, on());
    assert_eq!(world.asks(clients[0], "delete a"), "delete a\r\n");
    // Nobody knows what the server still has of it.
    world.dataplane.handle_server_broken(slot(0), world.now);
    world.turn();
    assert_eq!(world.client_gets(clients[0]), "SERVER_ERROR closed s:1\r\n");
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.warms(clients[1]);
    assert!(!world.is_near(clients[1]), "the server may delete it late");
    world.pass(60_002 * MS);
    world.warms(clients[1]);
    assert!(world.is_near(clients[1]));
}

#[test]
fn a_change_that_is_answered_late_counts_until_then() {
    let (mut world, clients) = world_of(2, on());
    assert_eq!(world.asks(clients[0], "touch a 0"), "touch a 0\r\n");
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(clients[0]), "SERVER_ERROR timeout s:1\r\n");
    assert_eq!(world.asks(clients[1], "get a"), "get a\r\n", "what was kept may be outdated");
    world.server_says(0, "TOUCHED\r\n");
    assert_eq!(world.hears(clients[1], 0, &value("a", "old")), value("a", "old"));
    assert!(!world.is_near(clients[1]), "it was asked for when the server might still touch it");
    world.warms(clients[1]);
    assert!(world.is_near(clients[1]));
}

#[test]
fn a_change_that_was_never_sent_counts_for_nothing() {
    let (mut world, clients) = world_of(2, on());
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.send(clients[0], "delete a\r\n");
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.turn();
    assert_eq!(world.client_gets(clients[0]), "SERVER_ERROR connect s:1\r\n");
    world.send(clients[0], "delete a\r\n");
    assert_eq!(world.client_gets(clients[0]), "SERVER_ERROR down s:1\r\n");
    let retry = world.dataplane.poll_timeout().expect("a dead server is tried again");
    world.pass(retry.saturating_since(world.now));
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.warms(clients[1]);
    assert!(world.is_near(clients[1]), "as soon as its server is there again");
}

#[test]
fn a_gat_of_several_keys_that_was_never_sent_counts_for_nothing() {
    // What one server is sent of it may be carried out late, whatever the other one says.
    for (losses, said) in [(2, "down"), (1, "connect"), (0, "closed")] {
        let mut world = World::with(2, 1, on());
        let client = world.client();
        let (there, elsewhere) = (world.key_on(0), world.key_on(1));
        let loses = |world: &mut World| {
            world.dataplane.handle_server_disconnected(slot(1), world.now);
            world.turn();
        };
        (0..losses).for_each(|_| loses(&mut world));
        let sent = world.asks(client, &format!("gat 0 {there} {elsewhere}"));
        assert_eq!(sent, if losses == 2 { String::new() } else { format!("gat 0 {there}\r\n") }, "{said}");
        if losses < 2 {
            loses(&mut world);
            world.server_says(0, "END\r\n");
        }
        assert_eq!(world.client_gets(client), format!("SERVER_ERROR {said} s:2\r\n"));
        world.heats(client, &there, "1");
        let is_kept = world.asks(client, &format!("get {there}")).is_empty();
        assert_eq!(is_kept, losses == 2, "{said}");
    }
}

#[test]
fn a_flush_counts_for_every_key() {
    let mut config = on();
    config.limits.flush_allowed = true;
    let (mut world, clients) = world_of(1, config);
    assert_eq!(world.asks(clients[0], "flush_all"), "flush_all\r\n");
    assert_eq!(world.hears(clients[0], 0, "OK\r\n"), "OK\r\n");
    assert!(!world.is_near(clients[0]));
}

#[test]
fn no_value_is_an_answer_for_longer_than_its_age_since_it_was_asked_for() {
    let (mut world, clients) = world_of(1, on());
    world.pass(AGE - 1);
    assert!(world.is_near(clients[0]));
    world.pass(1);
    assert!(!world.is_near(clients[0]));
    // The age begins when the get is sent, and not with its reply.
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    world.pass(400 * MS);
    world.server_says(0, &value("a", "old"));
    assert_eq!(world.client_gets(clients[0]), value("a", "old"));
    world.pass(AGE - 400 * MS);
    assert!(!world.is_near(clients[0]));
}

#[test]
fn another_table_and_a_lost_server_end_all_values() {
    let (mut world, clients) = world_of(1, on());
    world.reload(router(&["s:1"], 1));
    assert!(!world.is_near(clients[0]));
    world.warms(clients[0]);
    assert!(world.is_near(clients[0]));
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.turn();
    world.pass(100 * MS);
    world.dataplane.handle_server_connected(slot(0), world.now);
    assert!(!world.is_near(clients[0]));
}

/// One of many servers that lost its connections again and again took the near cache from all keys: the servers of the hottest had all their
/// reads.
#[test]
fn a_lost_server_ends_its_own_values_alone() {
    let mut world = World::with(2, 1, on());
    let client = world.client();
    let keys = [world.key_on(0), world.key_on(1)];
    for (server, key) in keys.iter().enumerate() {
        for _ in 0..3 {
            world.send(client, &format!("get {key}\r\n"));
            assert_eq!(world.server_gets(server), format!("get {key}\r\n"));
            assert_eq!(world.hears(client, server, &value(key, "1")), value(key, "1"));
        }
    }
    // What a `set` has stored is its server's, too.
    world.send(client, &format!("set {} 0 0 1\r\n2\r\n", keys[0]));
    assert_ne!(world.server_gets(0), "");
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "STORED\r\n");
    for lost in [1, 0] {
        world.dataplane.handle_server_disconnected(slot(lost), world.now);
        world.turn();
        world.dataplane.handle_server_connected(slot(lost), world.now);
        world.send(client, &format!("get {}\r\n", keys[lost]));
        assert_eq!(world.server_gets(lost), format!("get {}\r\n", keys[lost]));
        assert_eq!(world.hears(client, lost, "END\r\n"), "END\r\n");
        if lost == 1 {
            world.send(client, &format!("get {}\r\n", keys[0]));
            assert_eq!(world.server_gets(0), "");
            assert_eq!(world.client_gets(client), value(&keys[0], "2"));
        }
    }
}

#[test]
fn whichever_of_its_connections_a_server_loses_its_values_end() {
    let (mut world, clients) = world_of(2, Config { large_value_bytes: 10, ..on() });
    world.send(clients[0], "set b 0 0 11\r\n01234567890\r\n");
    world.dataplane.handle_server_connected(slot(1), world.now);
    assert_eq!(world.server_gets(1), "set b 0 0 11\r\n01234567890\r\n");
    world.server_says(1, "STORED\r\n");
    assert!(world.is_near(clients[1]));
    world.dataplane.handle_server_disconnected(slot(1), world.now);
    world.turn();
    assert!(!world.is_near(clients[1]));
}

/// Which of them it was asked of nobody remembers.
#[test]
fn any_lost_server_ends_the_values_of_keys_with_several() {
    let mut world = World::with(3, 2, on());
    let client = world.client();
    let key = world.key_on(0);
    let asked = format!("get {key}\r\n");
    for _ in 0..3 {
        world.send(client, &asked);
        assert_eq!(world.server_gets(0), asked);
        assert_eq!(world.hears(client, 0, &value(&key, "1")), value(&key, "1"));
    }
    world.send(client, &asked);
    assert_eq!((world.server_gets(0), world.client_gets(client)), (String::new(), value(&key, "1")));
    world.dataplane.handle_server_disconnected(slot(2), world.now);
    world.send(client, &asked);
    assert_eq!(world.server_gets(0), asked);
}

#[test]
fn what_one_client_sends_is_answered_in_its_order() {
    let (mut world, clients) = world_of(1, on());
    let sent = world.asks(clients[0], "get b\r\nget a\r\nset a 0 0 1\r\nx\r\nget a");
    assert_eq!(sent, "set a 0 0 1\r\nx\r\nget b a\r\n");
    world.server_says(0, &("STORED\r\nVALUE b 0 1\r\n1\r\n".to_owned() + &value("a", "x")));
    let expected = value("b", "1") + &value("a", "old") + "STORED\r\n" + &value("a", "x");
    assert_eq!(world.client_gets(clients[0]), expected);
}

#[test]
fn only_gets_of_one_key_are_answered_so() {
    for request in ["gets a", "get a b", "mg a v"] {
        let (mut world, clients) = world_of(1, on());
        assert_eq!(world.asks(clients[0], request), format!("{request}\r\n"));
    }
}

#[test]
fn many_other_keys_do_not_push_out_one_that_is_asked_for_more() {
    let (mut world, clients) = world_of(1, Config { near_cache_entries: 4, ..on() });
    for key in 0..200 {
        assert_eq!(world.asks(clients[0], &format!("get k{key}")), format!("get k{key}\r\n"));
        assert_eq!(
            world.hears(clients[0], 0, &value(&format!("k{key}"), "1")),
            value(&format!("k{key}"), "1")
        );
        assert!(world.is_near(clients[0]), "{key}");
    }
    for _ in 0..300 {
        for key in 0..5 {
            world.asks(clients[0], &format!("get k{key}"));
            world.server_says(0, "END\r\n");
            world.client_gets(clients[0]);
        }
    }
    assert!(!world.is_near(clients[0]), "it was not asked for for long");
}

#[test]
fn values_have_no_more_room_than_they_are_given() {
    let (mut world, clients) =
        world_of(1, Config { near_cache_entries: 4096, near_cache_bytes: 16 * 50, ..on() });
    world.heats(clients[0], "b", &"x".repeat(50));
    assert_eq!(world.asks(clients[0], "get b"), "get b\r\n", "it is longer than its share");
    world.hears(clients[0], 0, "END\r\n");
    assert_eq!(world.report().counters.near_full, 1);
    for key in 0..40 {
        world.heats(clients[0], &format!("k{key}"), "0123456789");
    }
    let counters = world.report().counters;
    assert!((16..40).contains(&counters.near_kept), "{}", counters.near_kept);
    assert_eq!(counters.near_kept + counters.near_full, 1 + 1 + 40);
    world.pass(AGE);
    world.heats(clients[0], "c", "1");
    assert_eq!(world.asks(clients[0], "get c"), "", "what is too old makes room");
}
