//! When a write to several replicas is answered, and with what.

use crate::world::{TIMEOUT, World, slot};
use weir_dataplane::{Config, SessionId, WritePolicy};

const FULL: &str = "SERVER_ERROR out of memory storing object\r\n";

impl World {
    /// Three servers, a client, and a key whose replicas are 0, 1 and 2 in this order.
    fn writing(write_policy: WritePolicy) -> (Self, SessionId, String) {
        let mut world = Self::with(3, 3, Config { write_policy, ..Config::default() });
        let client = world.client();
        let key = world.key_on(0);
        (world, client, key)
    }

    /// Sends a request, and takes what these servers get of it.
    fn ask(&mut self, client: SessionId, request: &str, servers: &[usize]) {
        self.send(client, request);
        for server in 0..3 {
            let expected = if servers.contains(&server) { request } else { "" };
            assert_eq!(self.server_gets(server), expected, "server {server}");
        }
    }

    fn refuses_connections(&mut self, server: usize) {
        for _ in 0..2 {
            self.dataplane.handle_server_disconnected(slot(server), self.now);
            self.turn();
        }
    }

    fn journals(&self) -> Vec<u64> {
        self.report().servers.iter().map(|server| server.journal).collect()
    }
}

fn set(key: &str) -> String {
    format!("set {key} 0 0 1\r\nx\r\n")
}

#[test]
fn a_quorum_is_more_than_half_and_the_deciders_reply_is_the_answer_if_it_is_there() {
    let (mut world, client, key) = World::writing(WritePolicy::Quorum);
    let touch = format!("touch {key} 5\r\n");
    world.ask(client, &touch, &[0, 1, 2]);
    assert_eq!(world.hears(client, 2, "NOT_FOUND\r\n"), "");
    // Two of three have answered. The reply of the lower rank is the answer.
    assert_eq!(world.hears(client, 1, "TOUCHED\r\n"), "TOUCHED\r\n");
    assert_eq!(world.hears(client, 0, "TOUCHED\r\n"), "");
    assert!(world.dataplane.is_quiet());
    world.ask(client, &touch, &[0, 1, 2]);
    assert_eq!(world.hears(client, 0, "NOT_FOUND\r\n"), "");
    assert_eq!(world.hears(client, 2, "TOUCHED\r\n"), "NOT_FOUND\r\n");
    world.server_says(1, "TOUCHED\r\n");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn one_of_three_may_fail_a_quorum_and_forgets_the_key() {
    let (mut world, client, key) = World::writing(WritePolicy::Quorum);
    world.ask(client, &set(&key), &[0, 1, 2]);
    assert_eq!(world.hears(client, 1, FULL), "");
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "");
    assert_eq!(world.server_gets(1), format!("delete {key}\r\n"));
    assert_eq!(world.hears(client, 2, "STORED\r\n"), "", "one may still hold the old value");
    assert_eq!(world.hears(client, 1, "DELETED\r\n"), "STORED\r\n");
    assert_eq!(world.journals(), [0, 0, 0]);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_quorum_that_cannot_be_had_any_more_is_an_error_before_all_have_answered() {
    let (mut world, client, key) = World::writing(WritePolicy::Quorum);
    world.ask(client, &set(&key), &[0, 1, 2]);
    assert_eq!(world.hears(client, 0, FULL), "");
    assert_eq!(world.hears(client, 2, FULL), FULL);
    // It did it, and the others did not.
    assert_eq!(world.hears(client, 1, "STORED\r\n"), "");
    for server in [0, 2] {
        assert_eq!(world.server_gets(server), format!("delete {key}\r\n"));
        assert_eq!(world.hears(client, server, "DELETED\r\n"), "");
    }
    assert_eq!(world.journals(), [0, 0, 0]);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn servers_that_are_down_count_in_a_quorum() {
    let (mut world, client, key) = World::writing(WritePolicy::Quorum);
    world.refuses_connections(2);
    world.ask(client, &set(&key), &[0, 1]);
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "");
    assert_eq!(world.hears(client, 1, "STORED\r\n"), "STORED\r\n");
    assert_eq!(world.journals(), [0, 0, 1]);
    world.refuses_connections(1);
    world.ask(client, &set(&key), &[]);
    assert_eq!(world.client_gets(client), "SERVER_ERROR down s:2\r\n");
    assert_eq!(world.journals(), [0, 0, 1], "nobody has heard of it");
}

#[test]
fn the_first_success_is_enough_and_what_fails_later_is_journalled() {
    let (mut world, client, key) = World::writing(WritePolicy::First);
    world.ask(client, &set(&key), &[0, 1, 2]);
    assert_eq!(world.hears(client, 0, FULL), "");
    assert_eq!(world.hears(client, 2, "STORED\r\n"), "STORED\r\n");
    assert_eq!(world.server_gets(0), format!("delete {key}\r\n"));
    world.server_says(0, "NOT_FOUND\r\n");
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(client), "");
    assert_eq!(world.journals(), [0, 1, 0]);
    assert_eq!(world.report().counters.requests_failed, 0);
}

#[test]
fn nobodys_success_is_an_error() {
    let (mut world, client, key) = World::writing(WritePolicy::First);
    world.ask(client, &set(&key), &[0, 1, 2]);
    assert_eq!(world.hears(client, 1, FULL), "");
    assert_eq!(world.hears(client, 0, FULL), "");
    assert_eq!(world.hears(client, 2, FULL), FULL);
    assert_eq!(world.journals(), [0, 0, 0], "they agree");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn the_decider_alone_answers_an_async_write() {
    let (mut world, client, key) = World::writing(WritePolicy::Async);
    world.ask(client, &set(&key), &[0, 1, 2]);
    assert_eq!(world.hears(client, 1, "STORED\r\n"), "");
    assert_eq!(world.hears(client, 2, "STORED\r\n"), "");
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "STORED\r\n");
    assert!(world.dataplane.is_quiet());
    world.ask(client, &set(&key), &[0, 1, 2]);
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "STORED\r\n");
    world.pass(TIMEOUT);
    assert_eq!(world.journals(), [0, 1, 1]);
    assert_eq!(world.client_gets(client), "");
}

#[test]
fn an_async_write_that_the_decider_does_not_do_is_an_error_though_others_did_it() {
    let (mut world, client, key) = World::writing(WritePolicy::Async);
    world.ask(client, &set(&key), &[0, 1, 2]);
    assert_eq!(world.hears(client, 1, "STORED\r\n"), "");
    assert_eq!(world.hears(client, 0, FULL), FULL);
    assert_eq!(world.hears(client, 2, "STORED\r\n"), "");
    assert_eq!(world.server_gets(0), format!("delete {key}\r\n"));
    world.server_says(0, "NOT_FOUND\r\n");
    assert_eq!(world.journals(), [0, 0, 0]);
    assert!(world.dataplane.is_quiet());
}

/// The policy says how many of the followers are waited for, not who decides.
#[test]
fn conditional_writes_are_decided_first_under_every_policy() {
    for (policy, waits_for) in
        [(WritePolicy::All, 2), (WritePolicy::Quorum, 1), (WritePolicy::First, 0), (WritePolicy::Async, 0)]
    {
        let (mut world, client, key) = World::writing(policy);
        let incr = format!("incr {key} 5\r\n");
        world.ask(client, &incr, &[0]);
        world.server_says(0, "15\r\n");
        assert_eq!((world.server_gets(1), world.server_gets(2)), (incr.clone(), incr));
        let mut reply = world.client_gets(client);
        for follower in 1..=2 {
            let is_answered = !reply.is_empty();
            assert_eq!(is_answered, follower > waits_for, "{policy:?}");
            reply += &world.hears(client, follower, "15\r\n");
        }
        assert_eq!(reply, "15\r\n", "{policy:?}");
        assert_eq!(world.report().counters.replicas_invalidated, 0, "they agree");
        assert!(world.dataplane.is_quiet());
    }
}

#[test]
fn what_the_decider_refuses_is_refused_under_every_policy() {
    for policy in WritePolicy::ALL {
        let (mut world, client, key) = World::writing(policy);
        let add = format!("add {key} 0 0 1\r\nx\r\n");
        world.ask(client, &add, &[0]);
        assert_eq!(world.hears(client, 0, "NOT_STORED\r\n"), "NOT_STORED\r\n");
        assert_eq!((world.server_gets(1), world.server_gets(2)), (String::new(), String::new()));
        assert!(world.dataplane.is_quiet());
    }
}
