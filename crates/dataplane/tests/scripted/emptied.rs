//! Servers that may have come back empty: what they miss is asked of another, and put back.

use crate::world::{World, slot, token, unjoined};
use std::sync::Arc;
use weir_dataplane::{Config, Freshness, LoopId, ReadPolicy, SessionId};

/// Server 0 has ended its connection, and is connected again. A client, and a key of which it is the primary.
fn restarted(servers: usize, replicas: usize, config: Config) -> (World, SessionId, String) {
    let mut world = World::with(servers, replicas, config);
    world.restart(0);
    let (client, key) = (world.client(), world.key_on(0));
    (world, client, key)
}

fn value(key: &str) -> String {
    format!("VALUE {key} 7 2\r\nab\r\nEND\r\n")
}

impl World {
    fn restart(&mut self, server: usize) {
        self.dataplane.handle_server_disconnected(slot(server), self.now);
        self.turn();
        self.dataplane.handle_server_connected(slot(server), self.now);
        self.turn();
    }

    /// `sent` leaves for this server, and it answers.
    fn answers(&mut self, server: usize, sent: &str, reply: &str) {
        assert_eq!(self.server_gets(server), sent);
        self.server_says(server, reply);
    }

    /// What server 1 holds of this key is put back at server 0.
    fn puts_back(&mut self, key: &str) {
        self.answers(1, &format!("mg {key} k v f t\r\n"), &format!("VA 2 k{key} f7 t-1\r\nab\r\n"));
        self.answers(0, &format!("ms {key} 2 ME F7\r\nab\r\n"), "HD\r\n");
    }

    fn is_settled(&mut self) -> bool {
        self.server_gets(0).is_empty() && self.server_gets(1).is_empty() && self.dataplane.is_quiet()
    }
}

#[test]
fn a_miss_is_asked_of_another_and_put_back() {
    let (mut world, client, key) = restarted(2, 2, unjoined());
    let get = format!("get {key}\r\n");
    world.send(client, &get);
    world.answers(0, &get, "END\r\n");
    assert_eq!(world.client_gets(client), "");
    world.answers(1, &get, &value(&key));
    assert_eq!(world.client_gets(client), value(&key));
    world.puts_back(&key);
    assert!(world.is_settled());
    let counters = world.report().counters;
    assert_eq!((counters.servers_doubted, counters.misses_rescued, counters.reads_repaired), (1, 1, 1));
    // It has it now; and what no one has is a miss.
    world.send(client, &get);
    world.answers(0, &get, &value(&key));
    assert_eq!(world.client_gets(client), value(&key));
    world.send(client, &get);
    world.answers(0, &get, "END\r\n");
    world.answers(1, &get, "END\r\n");
    assert_eq!(world.client_gets(client), "END\r\n");
    assert!(world.is_settled());
}

#[test]
fn a_miss_at_a_server_that_has_not_ended_a_connection_is_one() {
    let mut world = World::with(2, 2, unjoined());
    let (client, key) = (world.client(), world.key_on(0));
    for (request, miss) in [("get", "END\r\n"), ("gets", "END\r\n"), ("mg", "EN\r\n")] {
        let request = format!("{request} {key}\r\n");
        world.send(client, &request);
        world.answers(0, &request, miss);
        assert_eq!(world.client_gets(client), miss);
    }
    assert!(world.is_settled());
}

#[test]
fn tokens_and_meta_commands_are_asked_of_another_too() {
    let (mut world, client, key) = restarted(2, 2, unjoined());
    let gets = format!("gets {key}\r\n");
    world.send(client, &gets);
    world.answers(0, &gets, "END\r\n");
    world.answers(1, &gets, &format!("VALUE {key} 7 2 17\r\nab\r\nEND\r\n"));
    let shown = token(1, 17);
    assert_eq!(world.client_gets(client), format!("VALUE {key} 7 2 {shown}\r\nab\r\nEND\r\n"));
    world.puts_back(&key);
    assert!(world.is_settled());
    for (flags, miss, found, heard) in [
        ("v f", "EN\r\n", "VA 2 f7\r\nab\r\n", "VA 2 f7\r\nab\r\n"),
        ("v q", "EN\r\n", "VA 2\r\nab\r\n", "VA 2\r\nab\r\n"),
        ("s", "EN\r\n", "HD s2\r\n", "HD s2\r\n"),
    ] {
        let request = format!("mg {key} {flags}\r\n");
        let sent = request.replace(" q", "");
        world.send(client, &request);
        world.answers(0, &sent, miss);
        assert_eq!(world.client_gets(client), "");
        world.answers(1, &sent, found);
        assert_eq!(world.client_gets(client), heard);
        world.puts_back(&key);
        assert!(world.is_settled());
        // Nobody has it.
        world.send(client, &request);
        world.answers(0, &sent, miss);
        world.answers(1, &sent, miss);
        assert_eq!(world.client_gets(client), if flags.contains('q') { "" } else { miss });
        assert!(world.is_settled());
    }
    // What changes an item is asked of the decider alone.
    for (request, miss) in [("gat 10 KEY", "END\r\n"), ("mg KEY T30", "EN\r\n"), ("mg KEY N30", "HD W\r\n")] {
        let request = format!("{}\r\n", request.replace("KEY", &key));
        world.send(client, &request);
        world.answers(0, &request, miss);
        assert_eq!(world.client_gets(client), miss);
        assert!(world.is_settled());
    }
}

#[test]
fn of_a_multiget_each_key_that_is_missed_is_asked_of_another() {
    for read_policy in [ReadPolicy::Primary, ReadPolicy::Spread] {
        let (mut world, client, _) = restarted(2, 2, Config { read_policy, ..unjoined() });
        let keys = world.keys_on(0, 4);
        world.send(client, &format!("get {}\r\n", keys.join(" ")));
        let asked = [world.server_gets(0), world.server_gets(1)];
        let (mine, others) = (&asked[0], &asked[1]);
        let found: String =
            others.split_whitespace().skip(1).map(|key| value(key).replace("END\r\n", "")).collect();
        world.server_says(1, &format!("{found}END\r\n"));
        world.server_says(0, "END\r\n");
        assert_eq!(world.server_gets(1), *mine);
        let rest: String =
            mine.split_whitespace().skip(1).map(|key| value(key).replace("END\r\n", "")).collect();
        let rest = format!("{rest}END\r\n");
        let all: String = keys.iter().map(|key| value(key).replace("END\r\n", "")).collect();
        assert_eq!(world.hears(client, 1, &rest), format!("{all}END\r\n"));
        assert_eq!(world.report().counters.misses_rescued, 2);
    }
}

#[test]
fn a_miss_behind_which_its_client_has_sent_a_change_is_one() {
    for request in ["get", "mg"] {
        let (mut world, client, key) = restarted(2, 2, unjoined());
        world.send(client, &format!("{request} {key}\r\ndelete {key}\r\n"));
        let miss = if request == "mg" { "EN\r\n" } else { "END\r\n" };
        world.answers(0, &format!("{request} {key}\r\ndelete {key}\r\n"), &format!("{miss}NOT_FOUND\r\n"));
        world.answers(1, &format!("delete {key}\r\n"), "DELETED\r\n");
        assert_eq!(world.client_gets(client), format!("{miss}NOT_FOUND\r\n"));
        assert!(world.is_settled());
    }
}

#[test]
fn a_copy_is_put_back_neither_before_nor_behind_a_write() {
    for write in ["set KEY 0 0 1\r\nx\r\n", "delete KEY\r\n"] {
        // The write was there when the copy was found, and comes while the copy is asked for.
        for is_early in [true, false] {
            let (mut world, client, key) = restarted(2, 2, unjoined());
            let (other, write) = (world.client(), write.replace("KEY", &key));
            let get = format!("get {key}\r\n");
            world.send(client, &get);
            world.answers(0, &get, "END\r\n");
            if is_early {
                world.send(other, &write);
                assert_eq!(world.server_gets(0), write);
                assert_eq!(world.server_gets(1), format!("{get}{write}"));
                world.server_says(1, &value(&key));
                assert_eq!(world.server_gets(1), "", "{write}");
            } else {
                world.answers(1, &get, &value(&key));
                assert_eq!(world.server_gets(1), format!("mg {key} k v f t\r\n"));
                world.send(other, &write);
                world.server_says(1, &format!("VA 2 k{key} f7 t-1\r\nab\r\n"));
                assert_eq!(world.server_gets(0), write, "and nothing behind it");
            }
            assert_eq!(world.client_gets(client), value(&key), "it was there when it was asked for");
            assert_eq!(world.report().counters.reads_repaired, 0);
            assert_eq!(world.report().counters.repairs_dropped, 1);
        }
    }
}

#[test]
fn who_may_not_put_back_asks_others_all_the_same() {
    let mut flushing = unjoined();
    flushing.limits.flush_allowed = true;
    for config in [flushing, Config { owns_keys: false, ..unjoined() }] {
        let (mut world, client, key) = restarted(2, 2, config);
        for (request, found) in [
            (format!("get {key}\r\n"), value(&key)),
            (format!("mg {key} v\r\n"), "VA 2\r\nab\r\n".to_owned()),
        ] {
            world.send(client, &request);
            world.answers(0, &request, if request.starts_with("mg") { "EN\r\n" } else { "END\r\n" });
            world.answers(1, &request, &found);
            assert_eq!(world.client_gets(client), found);
            assert!(world.is_settled());
        }
        // A token of the other would be of no use for ever.
        for (request, miss) in [(format!("gets {key}\r\n"), "END\r\n"), (format!("mg {key} c\r\n"), "EN\r\n")]
        {
            world.send(client, &request);
            world.answers(0, &request, miss);
            assert_eq!(world.client_gets(client), miss);
            assert!(world.is_settled());
        }
    }
}

#[test]
fn who_was_emptied_last_is_asked_first_by_its_keys_and_knows_least() {
    let mut world = World::with(2, 2, unjoined());
    world.restart(1);
    world.restart(0);
    let client = world.client();
    // 1 was emptied before 0 was, so it may have what was written between.
    for (primary, is_asked_elsewhere) in [(0, true), (1, false)] {
        let get = format!("get {}\r\n", world.key_on(primary));
        world.send(client, &get);
        world.answers(primary, &get, "END\r\n");
        if is_asked_elsewhere {
            world.answers(1 - primary, &get, "END\r\n");
        }
        assert_eq!(world.client_gets(client), "END\r\n");
        assert!(world.is_settled());
    }
}

#[test]
fn a_server_is_trusted_again_when_long_nothing_was_found_elsewhere() {
    let (mut world, client, _) = restarted(2, 2, unjoined());
    let keys = world.keys_on(0, 64);
    let get = format!("get {}\r\n", keys.join(" "));
    let mut questions = 0;
    while world.report().counters.servers_trusted == 0 {
        world.send(client, &get);
        for server in [0, 1] {
            world.server_gets(server);
            world.server_says(server, "END\r\n");
        }
        // What either has missed is asked of the other.
        for server in [0, 1] {
            let again = world.server_gets(server);
            questions += if server == 1 { again.split_whitespace().skip(1).count() } else { 0 };
            world.server_says(server, if again.is_empty() { "" } else { "END\r\n" });
        }
        assert_eq!(world.client_gets(client), "END\r\n");
        assert!(questions <= 16_384, "there is an end to it");
    }
    assert_eq!(questions, 16_384);
    world.send(client, &format!("get {}\r\n", keys[0]));
    world.server_gets(0);
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
    assert!(world.is_settled());
}

#[test]
fn all_dataplanes_of_a_process_share_the_doubt() {
    let freshness = Arc::new(Freshness::default());
    let config = |index| Config { loop_index: LoopId::from_index(index), loop_count: 2, ..unjoined() };
    let mut one = World::sharing(2, 2, config(0), Arc::clone(&freshness));
    let mut other = World::sharing(2, 2, config(1), freshness);
    one.restart(0);
    let (client, key) = (other.client(), other.key_on(0));
    let get = format!("get {key}\r\n");
    other.send(client, &get);
    other.answers(0, &get, "END\r\n");
    other.answers(1, &get, "END\r\n");
    assert_eq!(other.client_gets(client), "END\r\n");
    assert_eq!(other.report().counters.servers_doubted, 0, "it has seen nothing itself");
}

/// Writes are distinguished only from the first copy on that is to be put back. Until those before it are done, nothing is.
#[test]
fn a_write_that_began_before_there_was_a_doubt_keeps_copies_from_being_put_back() {
    let mut world = World::with(3, 2, unjoined());
    let (client, other) = (world.client(), world.client());
    let (key, written) = (world.key_on(0), world.key_on(2));
    let set = format!("set {written} 0 0 1\r\nx\r\n");
    world.send(other, &set);
    assert_eq!([world.server_gets(2), world.server_gets(0)], [set.clone(), set]);
    world.restart(0);
    // It has not answered, so it forgets that key before it is read.
    world.answers(0, &format!("delete {written}\r\n"), "NOT_FOUND\r\n");
    let get = format!("get {key}\r\n");
    for is_done in [false, true] {
        if is_done {
            world.server_says(2, "STORED\r\n");
        }
        world.send(client, &get);
        world.answers(0, &get, "END\r\n");
        world.answers(1, &get, &value(&key));
        assert_eq!(world.client_gets(client), value(&key));
        let expected = if is_done { format!("mg {key} k v f t\r\n") } else { String::new() };
        assert_eq!(world.server_gets(1), expected);
        assert_eq!(world.report().counters.repairs_dropped, 1);
    }
}
