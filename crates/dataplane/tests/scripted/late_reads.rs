//! Reads whose server says nothing for half of their time, where keys have several servers.

use crate::world::{TIMEOUT, World, slot};

const HALF: u64 = TIMEOUT / 2;

/// It was answered `SERVER_ERROR timeout`, though another server had the key.
#[test]
fn a_read_whose_server_is_silent_is_asked_of_the_next_one_in_time() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    for (request, miss) in [("get", "END\r\n"), ("gets", "END\r\n"), ("mg", "EN\r\n")] {
        let request = format!("{request} {key}\r\n");
        world.send(client, &request);
        assert_eq!(world.server_gets(0), request);
        world.pass(HALF - 1);
        assert_eq!(world.server_gets(1), "");
        assert_eq!(world.dataplane.poll_timeout(), Some(world.now.plus(1)));
        world.pass(1);
        assert_eq!(world.server_gets(1), request);
        assert_eq!(world.hears(client, 1, miss), miss);
        // What the first one says is heard by nobody.
        world.server_says(0, miss);
        assert_eq!(world.client_gets(client), "");
    }
    let counters = world.report().counters;
    assert_eq!((counters.reads_moved, counters.reads_retried, counters.server_timeouts), (3, 0, 0));
    assert_eq!((counters.server_replies_late, counters.requests_failed), (3, 0));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_server_that_answers_something_keeps_its_reads() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let keys = world.keys_on(0, 2);
    world.send(client, &format!("gets {}\r\n", keys[0]));
    world.server_gets(0);
    world.pass(HALF - 1);
    world.send(client, &format!("gets {}\r\n", keys[1]));
    world.server_gets(0);
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
    // The second one has waited for half of its time, and the server for less since it said something.
    world.pass(HALF - 1);
    assert_eq!(world.server_gets(1), "");
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
    assert_eq!(world.report().counters.reads_moved, 0);
}

#[test]
fn a_read_is_moved_once_and_keeps_its_deadline() {
    let mut world = World::new(3, 3);
    let client = world.client();
    let key = world.key_on(0);
    world.send(client, &format!("gets {key}\r\n"));
    world.server_gets(0);
    world.pass(HALF);
    assert_eq!(world.server_gets(1), format!("gets {key}\r\n"));
    world.pass(HALF - 1);
    assert_eq!((world.client_gets(client), world.server_gets(2)), (String::new(), String::new()));
    world.pass(1);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:2\r\n");
    let report = world.report();
    assert_eq!((report.counters.reads_moved, report.counters.server_timeouts), (1, 2));
    assert_eq!(
        [report.servers[0].timeouts, report.servers[1].timeouts, report.servers[2].timeouts],
        [1, 1, 0]
    );
}

#[test]
fn what_its_client_has_sent_a_write_behind_is_not_moved() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    world.send(client, &format!("get {key}\r\nset {key} 0 0 1\r\nx\r\n"));
    (0..2).for_each(|server| _ = world.server_gets(server));
    world.server_says(1, "STORED\r\n");
    world.pass(HALF);
    assert_eq!(world.server_gets(1), "");
    world.pass(HALF);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:1\r\nSERVER_ERROR timeout s:1\r\n");
    assert_eq!(world.report().counters.reads_moved, 0);
}

#[test]
fn a_server_that_lacks_writes_is_not_asked_instead() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let (key, other) = (world.key_on(0), world.keys_on(0, 2).remove(1));
    // The second server misses a write.
    world.send(client, &format!("set {other} 0 0 1\r\nx\r\n"));
    (0..2).for_each(|server| _ = world.server_gets(server));
    world.server_says(0, "STORED\r\n");
    world.dataplane.handle_server_broken(slot(1), world.now);
    world.client_gets(client);
    world.dataplane.handle_server_connected(slot(1), world.now);
    assert!(world.report().servers[1].unread.is_some());
    world.send(client, &format!("get {key}\r\n"));
    world.server_gets(0);
    world.pass(HALF);
    assert!(!world.server_gets(1).contains("get"));
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n", "it is still waited for");
}

#[test]
fn moved_reads_count_for_marking_down() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let keys = world.keys_on(0, 3);
    for key in &keys {
        world.send(client, &format!("gets {key}\r\n"));
    }
    world.server_gets(0);
    world.pass(HALF);
    assert_eq!(world.server_gets(1).matches("gets").count(), 3);
    assert_eq!(world.hears(client, 1, &"END\r\n".repeat(3)), "END\r\n".repeat(3));
    assert_eq!(world.report().servers[0].state, "up");
    world.pass(HALF);
    assert_eq!(world.report().servers[0].state, "down");
    assert_eq!(world.report().counters.server_timeouts, 3);
    world.server_says(0, &"END\r\n".repeat(3));
    world.server_gets(0);
    world.server_says(0, "VERSION 1.6.18\r\n");
    assert_eq!(world.report().servers[0].state, "up");
}

#[test]
fn a_part_of_a_multi_get_is_moved_and_the_others_stay() {
    let mut world = World::new(3, 2);
    let client = world.client();
    let (slow, quick) = (world.key_on(0), world.key_on(1));
    world.send(client, &format!("get {slow} {quick}\r\n"));
    assert_eq!(world.server_gets(0), format!("get {slow}\r\n"));
    assert_eq!(world.server_gets(1), format!("get {quick}\r\n"));
    world.server_says(1, &format!("VALUE {quick} 0 1\r\nq\r\nEND\r\n"));
    world.pass(HALF);
    assert_eq!(world.server_gets(1), format!("get {slow}\r\n"));
    let values = format!("VALUE {slow} 0 1\r\ns\r\nVALUE {quick} 0 1\r\nq\r\nEND\r\n");
    assert_eq!(world.hears(client, 1, &format!("VALUE {slow} 0 1\r\ns\r\nEND\r\n")), values);
    world.server_says(0, "END\r\n");
    assert!(world.dataplane.is_quiet());
}
