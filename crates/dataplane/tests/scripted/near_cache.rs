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

#[test]
fn without_the_setting_nothing_is_kept() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.heats(client, "a", "old");
    assert!(!world.is_near(client));
}

#[test]
fn a_change_that_has_begun_makes_the_value_worthless() {
    for change in CHANGES {
        let (mut world, clients) = world_of(2, on());
        assert!(world.is_near(clients[1]), "{change}");
        assert_ne!(world.asks(clients[0], change), "", "{change}");
        assert_eq!(world.asks(clients[1], "get a"), "get a\r\n", "{change}");
        assert_eq!(world.report().counters.near_outdated, 1, "{change}");
    }
}

#[test]
fn what_was_asked_for_before_a_change_or_during_it_is_not_kept() {
    let (mut world, clients) = world_of(3, on());
    let set = "set a 0 0 1\r\nx";
    assert_eq!(world.asks(clients[0], set), format!("{set}\r\n"));
    assert_eq!(world.asks(clients[1], "get a"), "get a\r\n", "during it");
    world.server_says(0, &("STORED\r\n".to_owned() + &value("a", "x")));
    assert_eq!(world.client_gets(clients[1]), value("a", "x"));
    assert_eq!(world.asks(clients[1], "get a"), "get a\r\n", "before the next one");
    assert_eq!(world.asks(clients[0], set), format!("{set}\r\n"));
    world.server_says(0, &(value("a", "x") + "STORED\r\n"));
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
    assert!(!first.is_near(reader));
}

#[test]
fn a_change_without_an_answer_counts_for_a_minute() {
    let (mut world, clients) = world_of(2, on());
    assert_eq!(world.asks(clients[0], "delete a"), "delete a\r\n");
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(clients[0]), "SERVER_ERROR timeout s:1\r\n");
    world.server_says(0, "DELETED\r\n");
    world.warms(clients[1]);
    assert!(!world.is_near(clients[1]), "the server may delete it late");
    world.pass(60_000 * MS);
    world.warms(clients[1]);
    assert!(world.is_near(clients[1]));
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
