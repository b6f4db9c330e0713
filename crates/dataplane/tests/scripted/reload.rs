//! Another table while requests are in service: servers stay, come and go, prefixes lead elsewhere.

use crate::world::{TIMEOUT, World, router, slot};
use weir_dataplane::{Config, Event, Multiget};
use weir_routing::Table;

#[test]
fn a_server_that_stays_keeps_its_connection_and_answers_what_it_was_asked() {
    let mut world = World::new(2, 1);
    let client = world.client();
    let key = world.key_on(1);
    world.send(client, &format!("get {key}\r\n"));
    assert_eq!(world.server_gets(1), format!("get {key}\r\n"));
    // Its place in the pool is another; its number is the same.
    assert_eq!(world.reload(router(&["s:2", "s:1", "s:3"], 1)), [Event::Connect(slot(2))]);
    assert_eq!(world.hears(client, 1, "END\r\n"), "END\r\n");
    assert_eq!(world.report().counters.tables_replaced, 1);
    let names: Vec<_> = world.report().servers.iter().map(|server| server.server.clone()).collect();
    assert_eq!(names, ["s:2", "s:1", "s:3"]);
}

#[test]
fn a_server_that_leaves_answers_first_and_gets_nothing_new() {
    let mut world = World::new(2, 1);
    let client = world.client();
    let key = world.key_on(1);
    world.send(client, &format!("get {key}\r\nget {key}\r\n"));
    world.server_gets(1);
    world.send(client, &format!("touch {key} 0\r\n"));
    assert_eq!(world.reload(router(&["s:1"], 1)), []);
    // What waited before the reload is sent, what comes later goes to the other.
    world.send(client, &format!("get {key}\r\n"));
    assert_eq!(world.server_gets(1), format!("touch {key} 0\r\n"));
    assert_eq!(world.server_gets(0), format!("get {key}\r\n"));
    world.server_says(0, "END\r\n");
    // The key was asked for once.
    assert_eq!(world.hears(client, 1, "END\r\n"), "END\r\nEND\r\n");
    assert_eq!(world.events, []);
    assert_eq!(world.hears(client, 1, "TOUCHED\r\n"), "TOUCHED\r\nEND\r\n");
    assert_eq!(world.events, [Event::Disconnect(slot(1))]);
    assert_eq!(world.report().counters.servers_left, 1);
    assert_eq!(world.report().counters.server_disconnects, 0);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_server_that_leaves_without_a_word_is_given_the_time_of_its_requests() {
    let mut world = World::new(2, 1);
    let client = world.client();
    let key = world.key_on(1);
    world.send(client, &format!("get {key}\r\n"));
    world.server_gets(1);
    assert_eq!(world.reload(router(&["s:1"], 1)), []);
    world.pass(TIMEOUT - 1);
    assert_eq!(world.events, []);
    world.pass(1);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:2\r\n");
    assert_eq!(world.events, [Event::Disconnect(slot(1))]);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn what_waits_for_a_server_that_is_not_connected_yet_survives_that_it_leaves() {
    let mut world = World::new(1, 1);
    let client = world.client();
    assert_eq!(world.reload(router(&["s:2"], 1)), [Event::Connect(slot(1)), Event::Disconnect(slot(0))]);
    world.send(client, "get a\r\n");
    assert_eq!(world.server_gets(1), "");
    assert_eq!(world.reload(router(&["s:1"], 1)), [Event::Connect(slot(0))]);
    world.dataplane.handle_server_connected(slot(1), world.now);
    assert_eq!(world.server_gets(1), "get a\r\n");
    assert_eq!(world.hears(client, 1, "END\r\n"), "END\r\n");
    assert_eq!(world.events.last(), Some(&Event::Disconnect(slot(1))));
}

#[test]
fn a_server_that_comes_back_before_it_has_left_never_went() {
    let mut world = World::new(2, 1);
    let client = world.client();
    let key = world.key_on(1);
    world.send(client, &format!("set {key} 0 0 1\r\nx\r\n"));
    world.server_gets(1);
    assert_eq!(world.reload(router(&["s:1"], 1)), []);
    assert_eq!(world.reload(router(&["s:1", "s:2"], 1)), []);
    // On the same connection, so that it cannot overtake the write.
    world.send(client, &format!("get {key}\r\n"));
    assert_eq!(world.server_gets(1), format!("get {key}\r\n"));
    assert_eq!(world.hears(client, 1, "STORED\r\nEND\r\n"), "STORED\r\nEND\r\n");
    assert_eq!(world.events, []);
}

#[test]
fn the_same_address_under_another_name_is_another_server() {
    let mut world = World::new(1, 1);
    let events = world.reload(router(&["s:1:1 red"], 1));
    assert_eq!(events, [Event::Connect(slot(1)), Event::Disconnect(slot(0))]);
    assert_eq!(world.dataplane.server(slot(1)).name, "red");
}

#[test]
fn a_write_that_is_being_decided_keeps_its_replicas() {
    let mut world = World::new(3, 2);
    let client = world.client();
    let key = world.key_on(0);
    world.send(client, &format!("incr {key} 1\r\n"));
    world.server_gets(0);
    // The follower leaves: nothing is outstanding there, but it may yet be made to forget the key.
    assert_eq!(world.reload(router(&["s:1", "s:3"], 2)), []);
    world.server_says(0, "5\r\n");
    assert_eq!(world.server_gets(2), "");
    assert_eq!(world.server_gets(1), format!("incr {key} 1\r\n"));
    assert_eq!(world.client_gets(client), "");
    assert_eq!(world.hears(client, 1, "5\r\n"), "5\r\n");
    assert_eq!(world.events, [Event::Disconnect(slot(1))]);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_write_that_is_refused_releases_the_replicas_that_it_kept() {
    let mut world = World::new(3, 2);
    let client = world.client();
    let key = world.key_on(0);
    world.send(client, &format!("incr {key} 1\r\n"));
    world.server_gets(0);
    assert_eq!(world.reload(router(&["s:1", "s:3"], 2)), []);
    assert_eq!(world.hears(client, 0, "NOT_FOUND\r\n"), "NOT_FOUND\r\n");
    assert_eq!(world.events, [Event::Disconnect(slot(1))]);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_failure_names_the_server_that_had_the_number_when_it_happened() {
    let mut world = World::with(2, 1, Config::default());
    let client = world.client();
    let keys = [world.key_on(0), world.key_on(1)];
    world.send(client, &format!("get {} {}\r\n", keys[0], keys[1]));
    world.server_gets(0);
    world.server_gets(1);
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.turn();
    // The failed server's number becomes another's while the request waits for the second.
    world.reload(router(&["s:2"], 1));
    world.reload(router(&["s:2", "s:9"], 1));
    assert_eq!(world.dataplane.server(slot(0)).name, "s:9");
    assert_eq!(world.hears(client, 1, "END\r\n"), "SERVER_ERROR closed s:1\r\n");
}

#[test]
fn prefixes_lead_to_pools_and_a_multiget_may_need_several() {
    let mut world = World::new(1, 1);
    let client = world.client();
    let pools =
        vec![("main".to_owned(), router(&["s:1"], 1)), ("users".to_owned(), router(&["s:2", "s:3"], 1))];
    let routes = [("user:".to_owned(), "users".to_owned()), ("user:x".to_owned(), "main".to_owned())];
    let table = Table::new(pools, &routes).expect("a table");
    assert_eq!(world.reload(table), [Event::Connect(slot(1)), Event::Connect(slot(2))]);
    for server in [1, 2] {
        world.dataplane.handle_server_connected(slot(server), world.now);
    }
    world.send(client, "get a user:1 user:2 user:x\r\n");
    assert_eq!(world.server_gets(0), "get a user:x\r\n");
    // The key is passed on as it is. '1' and '2' differ by one, so one is on each server.
    let gets = [world.server_gets(1), world.server_gets(2)];
    assert!(
        gets.contains(&"get user:1\r\n".to_owned()) && gets.contains(&"get user:2\r\n".to_owned()),
        "{gets:?}"
    );
    let value = |key: &str| format!("VALUE {key} 0 1\r\nv\r\n");
    for (server, get) in [(1, &gets[0]), (2, &gets[1])] {
        let key = get.trim().strip_prefix("get ").expect("a get");
        world.server_says(server, &format!("{}END\r\n", value(key)));
    }
    world.server_says(0, &format!("{}END\r\n", value("user:x")));
    let expected = format!("{}{}{}END\r\n", value("user:1"), value("user:2"), value("user:x"));
    assert_eq!(world.client_gets(client), expected);
}

#[test]
fn a_moved_server_is_reconnected_when_its_requests_are_answered() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "get a\r\nset a 0 0 3\r\nabc\r\n");
    // The kernel takes the first message and a part of the second.
    assert_eq!(world.dataplane.poll_server_output(None, world.now), Some(slot(0)));
    world.dataplane.handle_server_written(slot(0), 12, world.now);
    world.dataplane.handle_server_moved(slot(0));
    world.send(client, "get b\r\n");
    world.dataplane.handle_server_writable(slot(0));
    // A message that was begun is finished; what comes later waits for the new connection.
    assert_eq!(world.server_gets(0), " 0 0 3\r\nabc\r\n");
    assert_eq!(world.server_gets(0), "");
    world.events.clear();
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
    assert_eq!(world.events, []);
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "STORED\r\n");
    assert_eq!(world.events, [Event::Disconnect(slot(0)), Event::Connect(slot(0))]);
    world.dataplane.handle_server_connected(slot(0), world.now);
    assert_eq!(world.server_gets(0), "get b\r\n");
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
    let counters = world.report().counters;
    assert_eq!((counters.server_renewals, counters.server_disconnects, counters.requests_failed), (1, 0, 0));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_moved_server_that_does_not_answer_is_reconnected_when_the_time_is_up() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "get a b\r\n");
    world.server_gets(0);
    world.dataplane.handle_server_moved(slot(0));
    world.pass(1);
    world.send(client, "get c\r\n");
    world.events.clear();
    world.pass(TIMEOUT - 1);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:1\r\n");
    assert_eq!(world.events, [Event::Disconnect(slot(0)), Event::Connect(slot(0))]);
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.turn();
    // The late request has its own deadline, which is later by the time that passed before it came.
    assert_eq!(world.server_gets(0), "get c\r\n");
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_moved_server_that_leaves_sends_what_waits_on_the_connection_that_it_has() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "get a\r\n");
    world.server_gets(0);
    world.dataplane.handle_server_moved(slot(0));
    world.send(client, "get b\r\n");
    assert_eq!(world.server_gets(0), "");
    world.reload(router(&["s:2"], 1));
    assert_eq!(world.server_gets(0), "get b\r\n");
    assert_eq!(world.hears(client, 0, "END\r\nEND\r\n"), "END\r\nEND\r\n");
    assert_eq!(world.events.last(), Some(&Event::Disconnect(slot(0))));
}

/// The rest of a begun message was taken whole by the kernel, which so never says that it takes more: what waited behind it waited for
/// ever once the server had left the table.
#[test]
fn a_moved_server_that_leaves_is_not_blocked_by_the_message_that_was_begun_before() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "set a 0 0 3\r\nabc\r\n");
    assert_eq!(world.dataplane.poll_server_output(None, world.now), Some(slot(0)));
    world.dataplane.handle_server_written(slot(0), 12, world.now);
    world.dataplane.handle_server_moved(slot(0));
    world.send(client, "get b\r\n");
    world.dataplane.handle_server_writable(slot(0));
    assert_eq!(world.server_gets(0), "\nabc\r\n");
    world.reload(router(&["s:2"], 1));
    assert_eq!(world.server_gets(0), "get b\r\n");
    assert_eq!(world.hears(client, 0, "STORED\r\nEND\r\n"), "STORED\r\nEND\r\n");
}

/// A server that refuses a value says so before it has all of it. The rest of the value went over the next connection, where it was read as
/// requests.
#[test]
fn the_rest_of_a_value_that_was_refused_early_goes_over_no_other_connection() {
    for behind in ["", "get b\r\n"] {
        let mut world = World::new(1, 1);
        let client = world.client();
        world.send(client, &format!("set a 0 0 11\r\nflush_all\r\n\r\n{behind}"));
        assert_eq!(world.dataplane.poll_server_output(None, world.now), Some(slot(0)));
        world.dataplane.handle_server_written(slot(0), "set a 0 0 11\r\n".len(), world.now);
        let refusal = "SERVER_ERROR out of memory storing object\r\n";
        assert_eq!(world.hears(client, 0, refusal), refusal);
        world.events.clear();
        world.dataplane.handle_server_moved(slot(0));
        world.turn();
        assert_eq!(world.events, [Event::Disconnect(slot(0)), Event::Connect(slot(0))]);
        world.dataplane.handle_server_connected(slot(0), world.now);
        world.turn();
        assert_eq!(world.server_gets(0), behind);
    }
}

/// Nothing is begun on a connection that is to be replaced, and that of a server that has left never is: what waited there timed out.
#[test]
fn a_server_that_has_left_and_is_moved_then_sends_what_waits() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "get a\r\n");
    world.reload(router(&["s:2"], 1));
    world.dataplane.handle_server_moved(slot(0));
    assert_eq!(world.server_gets(0), "get a\r\n");
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
    assert_eq!(world.events.last(), Some(&Event::Disconnect(slot(0))));
}

#[test]
fn a_multiget_is_spread_within_the_pool_of_its_keys() {
    for (multiget, messages) in [(Multiget::Sharded, 2), (Multiget::Whole, 1)] {
        let mut world = World::with(1, 1, Config { multiget, ..Config::default() });
        let client = world.client();
        let users = router(&["s:2", "s:3"], 2);
        let pools = vec![("main".to_owned(), router(&["s:1"], 1)), ("users".to_owned(), users)];
        let table = Table::new(pools, &[("user:".to_owned(), "users".to_owned())]).expect("a table");
        world.reload(table);
        for server in [1, 2] {
            world.dataplane.handle_server_connected(slot(server), world.now);
        }
        world.send(client, "get user:1 user:2 user:3 user:4\r\n");
        let asked = [0, 1, 2].map(|server| world.server_gets(server));
        assert_eq!(asked[0], "", "it holds none of them");
        assert_eq!(asked.iter().filter(|message| !message.is_empty()).count(), messages, "{asked:?}");
        // With a key of another pool among them, each key's first server is asked.
        let other = world.client();
        world.send(other, "get a user:1\r\n");
        assert_eq!(world.server_gets(0), "get a\r\n");
    }
}

#[test]
fn what_another_replica_did_not_have_is_not_asked_of_another_table() {
    let mut world = World::new(3, 2);
    let client = world.client();
    let keys = world.keys_on(0, 4).join(" ");
    world.send(client, &format!("get {keys}\r\n"));
    let asked: Vec<usize> = (0..3).filter(|&server| !world.server_gets(server).is_empty()).collect();
    assert_eq!(asked, [0, 1], "two replicas share the keys");
    world.reload(router(&["s:2", "s:1", "s:3"], 2));
    world.server_says(0, "END\r\n");
    assert_eq!(world.hears(client, 1, "END\r\n"), "END\r\n");
    assert_eq!(world.report().counters.keys_asked_again, 0);
    assert!(world.dataplane.is_quiet());
}
