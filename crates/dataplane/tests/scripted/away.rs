//! Servers that were away: what they missed is deleted there before they are read again.

use crate::world::{MS, TIMEOUT, World, slot};
use std::sync::Arc;
use weir_dataplane::{Config, Event, Freshness, OnStale, ReplicasRequired, SessionId};

impl World {
    /// The server refuses connections.
    pub(crate) fn goes_down(&mut self, server: usize) {
        self.dataplane.handle_server_disconnected(slot(server), self.now);
        self.turn();
        self.dataplane.handle_server_disconnected(slot(server), self.now);
        self.turn();
    }

    /// The next attempt to connect succeeds.
    pub(crate) fn comes_back(&mut self, server: usize) {
        for _ in 0..100 {
            self.events.clear();
            let next = self.dataplane.poll_timeout().expect("a dead server is tried again");
            self.pass(next.saturating_since(self.now));
            if self.events.contains(&Event::Connect(slot(server))) {
                self.dataplane.handle_server_connected(slot(server), self.now);
                return self.turn();
            }
        }
        panic!("server {server} was not tried again");
    }

    /// What a get of this key is answered, and by whom. Every server has the same to say.
    fn reads(&mut self, client: SessionId, key: &str) -> (Option<usize>, String) {
        self.send(client, &format!("get {key}\r\n"));
        for server in 0..self.router.servers().len() {
            if !self.server_gets(server).is_empty() {
                return (Some(server), self.hears(client, server, "END\r\n"));
            }
        }
        (None, self.client_gets(client))
    }
}

fn set(key: &str) -> String {
    format!("set {key} 0 0 1\r\nx\r\n")
}

#[test]
fn a_write_goes_to_the_others_while_a_server_is_down_and_its_copy_is_deleted_before_it_is_read() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    world.goes_down(0);
    world.send(client, &set(&key));
    assert_eq!(world.server_gets(1), set(&key));
    assert_eq!(world.hears(client, 1, "STORED\r\n"), "STORED\r\n");
    assert_eq!(world.report().counters.copies_skipped, 1);
    world.comes_back(0);
    // It is connected, and may still hold the old value.
    assert_eq!(world.server_gets(0), format!("delete {key}\r\n"));
    assert_eq!(world.reads(client, &key).0, Some(1));
    world.server_says(0, "DELETED\r\n");
    // It may have come back empty, so another is asked for what it misses.
    assert_eq!(world.reads(client, &key), (Some(0), String::new()));
    assert_eq!(world.server_gets(1), format!("get {key}\r\n"));
    assert_eq!(world.hears(client, 1, "END\r\n"), "END\r\n");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn no_replica_that_may_be_read_is_an_error_at_once() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    world.goes_down(0);
    world.send(client, &set(&key));
    world.server_gets(1);
    assert_eq!(world.hears(client, 1, "STORED\r\n"), "STORED\r\n");
    world.goes_down(1);
    world.send(client, &set(&key));
    assert_eq!(world.client_gets(client), "SERVER_ERROR down s:1\r\n");
    world.comes_back(0);
    assert_eq!(world.server_gets(0), format!("delete {key}\r\n"));
    let stale = (None, "SERVER_ERROR stale s:1\r\n".to_owned());
    assert_eq!(world.reads(client, &key), stale);
    world.send(client, &format!("incr {key} 1\r\n"));
    assert_eq!(world.client_gets(client), stale.1, "nobody can decide it");
    assert_eq!(world.report().counters.server_refusals_stale, 2);
    // Nothing is read to carry this out.
    world.send(client, &set(&key));
    assert_eq!(world.server_gets(0), set(&key));
    assert_eq!(world.hears(client, 0, "DELETED\r\nSTORED\r\n"), "STORED\r\n");
    assert_eq!(world.reads(client, &key).0, Some(0));
}

#[test]
fn where_all_are_required_a_server_that_is_down_fails_the_write_before_anybody_hears_of_it() {
    let config = Config { replicas_required: ReplicasRequired::AllConfigured, ..Config::default() };
    let mut world = World::with(2, 2, config);
    let client = world.client();
    let key = world.key_on(0);
    world.goes_down(1);
    for request in [set(&key), format!("incr {key} 1\r\n"), format!("delete {key}\r\n")] {
        world.send(client, &request);
        assert_eq!(world.server_gets(0), "");
        assert_eq!(world.client_gets(client), "SERVER_ERROR down s:2\r\n");
    }
    world.comes_back(1);
    assert_eq!(world.server_gets(1), "", "it missed nothing");
}

#[test]
fn what_a_frozen_server_may_still_carry_out_is_deleted_behind_it_on_the_same_connection() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    world.send(client, &set(&key));
    assert_eq!((world.server_gets(0), world.server_gets(1)), (set(&key), set(&key)));
    world.server_says(1, "STORED\r\n");
    world.pass(TIMEOUT);
    // It is stale before the client knows.
    assert_eq!(world.report().servers[0].journal, 1);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:1\r\n");
    assert_eq!(world.events, [], "the connection is not closed");
    assert_eq!(world.server_gets(0), format!("delete {key}\r\n"));
    assert_eq!(world.reads(client, &key).0, Some(1));
    world.server_says(0, "STORED\r\n");
    assert_eq!(world.reads(client, &key).0, Some(1), "the delete is not confirmed");
    world.server_says(0, "DELETED\r\n");
    assert_eq!(world.reads(client, &key).0, Some(0));
    assert_eq!(world.report().servers[0].unread, None);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_connection_that_the_server_closed_leaves_nothing_behind() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    world.send(client, &set(&key));
    world.server_gets(0);
    world.server_gets(1);
    world.server_says(1, "STORED\r\n");
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.turn();
    assert_eq!(world.client_gets(client), "SERVER_ERROR closed s:1\r\n");
    assert_eq!(world.reads(client, &key).0, Some(1));
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.turn();
    assert_eq!(world.server_gets(0), format!("delete {key}\r\n"));
    world.server_says(0, "NOT_FOUND\r\n");
    assert_eq!(world.reads(client, &key).0, Some(0));
}

#[test]
fn a_connection_that_broke_otherwise_is_waited_for_and_everything_is_deleted_twice() {
    let pause = 300 * MS;
    for is_garbage in [false, true] {
        let mut world = World::with(2, 2, Config { quarantine_ns: pause, ..Config::default() });
        let client = world.client();
        let key = world.key_on(0);
        world.send(client, &set(&key));
        world.server_gets(0);
        world.server_gets(1);
        world.server_says(1, "STORED\r\n");
        if is_garbage {
            world.server_says(0, "EHLO\r\n");
        } else {
            world.dataplane.handle_server_broken(slot(0), world.now);
        }
        world.turn();
        assert!(world.client_gets(client).starts_with("SERVER_ERROR "));
        world.dataplane.handle_server_connected(slot(0), world.now);
        for _ in 0..2 {
            world.pass(pause - 1);
            assert_eq!(world.server_gets(0), "");
            assert_eq!(world.reads(client, &key).0, Some(1));
            world.pass(1);
            assert_eq!(world.server_gets(0), format!("delete {key}\r\n"));
            world.server_says(0, "DELETED\r\n");
        }
        assert_eq!(world.reads(client, &key).0, Some(0));
        assert_eq!(world.report().counters.server_quarantines, 1);
    }
}

#[test]
fn a_connection_without_unanswered_writes_needs_no_quarantine() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    world.send(client, &format!("get {key}\r\n"));
    world.server_gets(0);
    world.dataplane.handle_server_broken(slot(0), world.now);
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.turn();
    world.client_gets(client);
    assert_eq!(world.report().counters.server_quarantines, 0);
    assert_eq!(world.reads(client, &key).0, Some(0));
}

#[test]
fn a_server_that_missed_more_than_is_remembered_is_flushed() {
    let mut world = World::with(2, 2, Config { journal_keys_max: 2, ..Config::default() });
    let client = world.client();
    let keys = world.keys_on(0, 3);
    world.goes_down(0);
    for key in &keys {
        world.send(client, &set(key));
        world.server_gets(1);
        assert_eq!(world.hears(client, 1, "STORED\r\n"), "STORED\r\n");
    }
    world.comes_back(0);
    assert_eq!(world.server_gets(0), "flush_all\r\n");
    assert_eq!(world.reads(client, &keys[0]).0, Some(1));
    world.server_says(0, "OK\r\n");
    assert_eq!(world.reads(client, &keys[0]).0, Some(0));
    assert_eq!(world.report().counters.journal_overflows, 1);
}

#[test]
fn a_server_that_refuses_to_be_flushed_stays_unread_and_says_why() {
    let mut world = World::with(2, 2, Config { journal_keys_max: 0, ..Config::default() });
    let client = world.client();
    let key = world.key_on(0);
    world.goes_down(0);
    world.send(client, &set(&key));
    world.server_gets(1);
    world.hears(client, 1, "STORED\r\n");
    world.comes_back(0);
    assert_eq!(world.server_gets(0), "flush_all\r\n");
    world.server_says(0, "CLIENT_ERROR flush_all not allowed\r\n");
    let why = world.report().servers[0].unread.expect("a reason");
    assert!(why.contains("refuses flush_all"), "{why}");
    assert_eq!(world.reads(client, &key).0, Some(1));
    // It is asked again on the next connection: it may have been started anew.
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.turn();
    assert_eq!(world.server_gets(0), "flush_all\r\n");
    world.server_says(0, "OK\r\n");
    assert_eq!(world.reads(client, &key).0, Some(0));
    assert_eq!(world.report().counters.journal_flushes_refused, 1);
}

#[test]
fn no_replica_that_may_be_read_is_a_miss_where_that_is_wanted() {
    let mut world = World::with(2, 2, Config { on_stale: OnStale::Miss, ..Config::default() });
    let client = world.client();
    let key = world.key_on(0);
    world.goes_down(0);
    world.send(client, &set(&key));
    world.server_gets(1);
    assert_eq!(world.hears(client, 1, "STORED\r\n"), "STORED\r\n");
    world.goes_down(1);
    world.comes_back(0);
    // Its delete is not answered yet.
    assert_eq!(world.server_gets(0), format!("delete {key}\r\n"));
    for (request, answer) in [
        (format!("get {key}\r\n"), "END\r\n".to_owned()),
        (format!("get {key} other\r\n"), "END\r\n".to_owned()),
        (format!("mg {key} v k\r\n"), format!("EN k{key}\r\n")),
        (format!("incr {key} 1\r\n"), "SERVER_ERROR stale s:1\r\n".to_owned()),
    ] {
        world.send(client, &request);
        assert_eq!(world.client_gets(client), answer, "{request}");
    }
    assert_eq!(world.report().counters.keys_degraded, 4);
    // What is down is no miss.
    world.goes_down(0);
    world.send(client, &format!("get {key}\r\n"));
    assert_eq!(world.client_gets(client), "SERVER_ERROR down s:1\r\n");
}

#[test]
fn one_that_refuses_what_others_did_forgets_the_key_and_is_read_meanwhile() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    let full = "SERVER_ERROR out of memory storing object\r\n";
    world.send(client, &set(&key));
    world.server_gets(0);
    world.server_gets(1);
    world.server_says(1, full);
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "", "it may still hold the old value");
    assert_eq!(world.report().servers[1].journal, 0, "what a client writes makes no server unread");
    assert_eq!(world.server_gets(1), format!("delete {key}\r\n"));
    assert_eq!(world.hears(client, 1, "NOT_FOUND\r\n"), full);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn who_all_refuse_agree() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    world.send(client, &set(&key));
    world.server_gets(0);
    world.server_gets(1);
    world.server_says(0, "CLIENT_ERROR bad\r\n");
    assert_eq!(world.hears(client, 1, "CLIENT_ERROR bad\r\n"), "CLIENT_ERROR bad\r\n");
    assert_eq!(world.server_gets(0) + &world.server_gets(1), "");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn what_one_loop_knows_no_other_reads() {
    let freshness = Arc::new(Freshness::default());
    let mut worlds = [0, 1].map(|_| World::sharing(2, 2, Config::default(), Arc::clone(&freshness)));
    let clients = [0, 1].map(|index: usize| worlds[index].client());
    let key = worlds[0].key_on(0);
    worlds[0].send(clients[0], &set(&key));
    worlds[0].server_gets(0);
    worlds[0].server_gets(1);
    worlds[0].server_says(1, "STORED\r\n");
    assert_eq!(worlds[1].reads(clients[1], &key).0, Some(0));
    worlds[0].pass(TIMEOUT);
    assert_eq!(worlds[1].reads(clients[1], &key).0, Some(1));
    worlds[0].server_gets(0);
    worlds[0].server_says(0, "STORED\r\nDELETED\r\n");
    assert_eq!(worlds[1].reads(clients[1], &key).0, Some(0));
}
