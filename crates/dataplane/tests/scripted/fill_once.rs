//! Gets that wait for another client to fill what they miss (`requests/fill_once.rs`).

use crate::world::{MS, TIMEOUT, World, router, slot};
use std::sync::Arc;
use weir_dataplane::{AskOnce, Config, Freshness, LoopId, Secret, SessionId, User, Users, owner_of};
use weir_timing::{Operation, Stage};

const WAIT: u64 = 100 * MS;

fn on() -> Config {
    Config { fill_wait_ns: WAIT, ..Config::default() }
}

/// One server, and this many clients, of whom the first has missed `a`, and the others wait for it.
fn world_of(clients: usize, config: Config) -> (World, Vec<SessionId>) {
    let mut world = World::with(1, 1, config);
    let clients: Vec<_> = (0..clients).map(|_| world.client()).collect();
    assert_eq!(world.misses(clients[0]), "END\r\n", "the first may fill");
    for client in &clients[1..] {
        assert_eq!(world.misses(*client), "", "the others wait");
    }
    (world, clients)
}

/// Two loops of one process.
fn two_loops() -> (World, World) {
    let freshness = Arc::<Freshness>::default();
    let of = |index| {
        let config = Config { loop_index: LoopId::from_index(index), loop_count: 2, ..on() };
        World::sharing(1, 1, config, Arc::clone(&freshness))
    };
    (of(0), of(1))
}

const VALUE: &str = "VALUE a 0 1\r\nx\r\nEND\r\n";
const SET: &str = "set a 0 0 1\r\nx";

impl World {
    /// The client asks for `a`, and the server has nothing; what the client hears.
    fn misses(&mut self, client: SessionId) -> String {
        assert_eq!(self.asks(client, "get a"), "get a\r\n");
        self.hears(client, 0, "END\r\n")
    }

    /// The client fills `a`; what leaves for the server then.
    fn fills(&mut self, client: SessionId) -> String {
        assert_eq!(self.asks(client, SET), format!("{SET}\r\n"));
        assert_eq!(self.hears(client, 0, "STORED\r\n"), "STORED\r\n");
        self.server_gets(0)
    }
}

#[test]
fn one_fills_and_the_others_get_what_it_stored() {
    let (mut world, clients) = world_of(4, on());
    world.pass(20 * MS);
    assert_eq!(world.all_hear(&clients), [""; 4]);
    assert_eq!(world.fills(clients[0]), "get a\r\n", "all are asked again, in one message");
    world.server_says(0, VALUE);
    assert_eq!(world.all_hear(&clients), ["", VALUE, VALUE, VALUE]);
    let report = world.report();
    let counters = &report.counters;
    assert_eq!((counters.fill_leases, counters.fill_waits, counters.fill_waits_again), (1, 3, 3));
    assert_eq!((counters.fill_waits_late, counters.fill_waits_full, counters.gets_coalesced), (0, 0, 0));
    let get = report.timing.operation(Operation::Get);
    assert_eq!((get.requests, get.hits, get.misses()), (4, 3, 1), "each counts as a request");
    let waited = get.stage(Stage::Backend).max().expect("they were answered");
    assert!((20 * MS..21 * MS).contains(&waited), "their wait is time at the server: {waited}");
    assert!(world.dataplane.is_quiet(), "nothing is left behind");
    world.pass(MS);
    assert_eq!(world.misses(clients[1]), "END\r\n", "a later miss is the first of the next");
}

#[test]
fn without_the_setting_each_hears_its_miss() {
    let mut world = World::new(1, 1);
    let clients = [world.client(), world.client()];
    assert_eq!([world.misses(clients[0]), world.misses(clients[1])], ["END\r\n", "END\r\n"]);
    assert_eq!(world.report().counters.fill_leases, 0);
}

#[test]
fn late_is_a_miss_and_the_next_one_may_fill() {
    let (mut world, clients) = world_of(2, on());
    world.pass(30 * MS);
    let later = [world.client(), world.client()];
    later.iter().for_each(|client| assert_eq!(world.misses(*client), ""));
    world.pass(WAIT - 31 * MS);
    assert_eq!(world.client_gets(clients[1]), "", "a millisecond is left");
    assert_eq!(world.dataplane.poll_timeout(), Some(world.now.plus(MS)), "and the driver knows it");
    world.pass(MS);
    assert_eq!(world.client_gets(clients[1]), "END\r\n", "it has the lease now");
    assert_eq!(world.all_hear(&later), ["", ""]);
    world.pass(30 * MS);
    assert_eq!(world.all_hear(&later), ["END\r\n", "END\r\n"], "these have waited for long enough");
    assert_eq!(world.fills(clients[1]), "", "nobody waits for it");
    let counters = world.report().counters;
    assert_eq!((counters.fill_leases, counters.fill_waits, counters.fill_waits_late), (2, 3, 2));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn nobody_waits_beyond_the_time_of_its_request() {
    let (mut world, clients) = world_of(2, Config { fill_wait_ns: 10 * TIMEOUT, ..Config::default() });
    world.pass(TIMEOUT - 2 * MS);
    assert_eq!(world.client_gets(clients[1]), "");
    world.pass(MS);
    assert_eq!(world.client_gets(clients[1]), "END\r\n", "before its time is up");
}

#[test]
fn a_get_whose_second_question_is_not_answered_in_time_is_answered_the_miss_that_it_had() {
    let (mut world, clients) = world_of(2, Config { fill_wait_ns: 10 * TIMEOUT, ..Config::default() });
    world.pass(TIMEOUT - 2 * MS);
    assert_eq!(world.fills(clients[0]), "get a\r\n", "little of its time is left");
    world.pass(2 * MS);
    assert_eq!(world.client_gets(clients[1]), "END\r\n");
    let counters = world.report().counters;
    assert_eq!((counters.fill_waits_again, counters.fill_waits_late, counters.server_timeouts), (1, 1, 1));
    assert_eq!((counters.keys_degraded, counters.requests_failed), (0, 0));
    let third = world.client();
    world.server_says(0, VALUE);
    assert_eq!(world.asks(third, "get a"), "get a\r\n");
    assert_eq!(world.hears(third, 0, VALUE), VALUE, "what came late is nobody else's");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_get_whose_server_fails_when_it_is_asked_again_is_answered_the_miss_that_it_had() {
    for error in ["", "SERVER_ERROR out of memory writing get response\r\n"] {
        let (mut world, clients) = world_of(2, on());
        assert_eq!(world.fills(clients[0]), "get a\r\n");
        if error.is_empty() {
            world.dataplane.handle_server_disconnected(slot(0), world.now);
            world.turn();
        } else {
            world.server_says(0, error);
        }
        assert_eq!(world.client_gets(clients[1]), "END\r\n", "{error}");
        assert_eq!(world.report().counters.fill_waits_late, 1, "{error}");
        assert!(world.dataplane.is_quiet());
    }
}

#[test]
fn if_the_first_one_leaves_the_next_may_fill() {
    let (mut world, clients) = world_of(4, on());
    world.dataplane.handle_client_closed(clients[0]);
    world.turn();
    assert_eq!(world.all_hear(&clients[1..]), ["END\r\n", "", ""], "without another question to the server");
    assert_eq!(world.fills(clients[1]), "get a\r\n");
    world.server_says(0, VALUE);
    assert_eq!(world.all_hear(&clients[2..]), [VALUE, VALUE]);
}

#[test]
fn those_that_leave_while_they_wait_are_forgotten() {
    let (mut world, clients) = world_of(3, on());
    world.dataplane.handle_client_closed(clients[1]);
    assert_eq!(world.fills(clients[0]), "get a\r\n");
    assert_eq!(world.hears(clients[2], 0, VALUE), VALUE);
    assert!(world.dataplane.is_quiet());
    assert_eq!(world.report().counters.requests_orphaned, 1);
}

/// Writes that leave the key missing: what the client sends, what the server gets, and its reply.
const REMOVALS: [(&str, &str, &str); 6] = [
    ("delete a", "delete a\r\n", "NOT_FOUND\r\n"),
    ("gat 0 a", "gat 0 a\r\n", "END\r\n"),
    ("touch a 0", "touch a 0\r\n", "NOT_FOUND\r\n"),
    ("replace a 0 0 1\r\nx", "replace a 0 0 1\r\nx\r\n", "NOT_STORED\r\n"),
    ("set a 0 0 1\r\nx", "set a 0 0 1\r\nx\r\n", "SERVER_ERROR out of memory storing object\r\n"),
    ("set a 0 0 9\r\n123456789", "delete a\r\n", "NOT_FOUND\r\n"),
];

#[test]
fn if_the_first_one_does_not_fill_the_key_the_next_may() {
    for (write, message, reply) in REMOVALS {
        let mut config = on();
        config.limits.value_bytes_max = 8;
        let (mut world, clients) = world_of(3, config);
        assert_eq!(world.asks(clients[0], write), message);
        world.server_says(0, reply);
        assert_eq!(world.server_gets(0), "get a\r\n", "{write}");
        world.server_says(0, "END\r\n");
        assert_eq!(world.all_hear(&clients[1..]), ["END\r\n", ""], "{write}");
    }
}

#[test]
fn whoever_fills_the_key_ends_the_wait_and_however() {
    for (write, reply) in [
        ("add a 0 0 1\r\nx", "STORED\r\n"),
        ("cas a 0 0 1 7\r\nx", "STORED\r\n"),
        ("set a 0 0 1 noreply\r\nx", "STORED\r\n"),
        ("ms YQ== 1 b\r\nx", "HD\r\n"),
        ("incr a 1", "2\r\n"),
        ("mg a N30 v", "EN\r\n"),
    ] {
        let (mut world, clients) = world_of(2, on());
        let another = world.client();
        assert_ne!(world.asks(another, write), "", "{write}");
        assert_eq!(world.server_gets(0), "", "{write}");
        world.server_says(0, reply);
        assert_eq!(world.server_gets(0), "get a\r\n", "{write}");
        assert_eq!(world.hears(clients[1], 0, VALUE), VALUE);
    }
}

#[test]
fn a_write_without_an_answer_ends_the_wait_too() {
    let (mut world, clients) = world_of(1, Config { fill_wait_ns: TIMEOUT, ..Config::default() });
    assert_eq!(world.asks(clients[0], SET), format!("{SET}\r\n"));
    world.pass(TIMEOUT - 10 * MS);
    let second = world.client();
    assert_eq!(world.asks(second, "get a"), "get a\r\n");
    world.pass(10 * MS);
    assert_eq!(world.client_gets(clients[0]), "SERVER_ERROR timeout s:1\r\n");
    world.server_says(0, "STORED\r\nEND\r\n");
    assert_eq!(world.server_gets(0), "get a\r\n", "it was sent before the write had ended");
    assert_eq!(world.hears(second, 0, VALUE), VALUE);
}

#[test]
fn whose_lease_it_is_never_waits_for_itself() {
    let (mut world, clients) = world_of(2, on());
    assert_eq!(world.misses(clients[0]), "END\r\n");
    assert_eq!(world.fills(clients[0]), "get a\r\n", "and the lease is still its own");
    assert_eq!(world.report().counters.fill_leases, 1);
}

#[test]
fn who_has_sent_a_change_behind_its_get_is_not_asked_again() {
    // It would read what it wrote itself, later.
    let (mut world, clients) = world_of(2, on());
    assert_eq!(world.asks(clients[1], SET), format!("{SET}\r\n"));
    assert_eq!(world.hears(clients[1], 0, "STORED\r\n"), "END\r\nSTORED\r\n");
    assert_eq!(world.server_gets(0), "");
    let (mut world, clients) = world_of(2, on());
    assert_eq!(world.asks(clients[1], "set b 0 0 1\r\nx"), "set b 0 0 1\r\nx\r\n");
    world.pass(MS);
    assert_eq!(world.client_gets(clients[1]), "END\r\n", "so it need not wait");
    assert_eq!(world.hears(clients[1], 0, "STORED\r\n"), "STORED\r\n");
}

#[test]
fn a_change_that_waits_for_the_get_before_it_ends_the_wait() {
    // Another loop owns the key, so its writes go there, and not before the client's reads of it are done.
    let config = Config { loop_index: LoopId::from_index(0), loop_count: 2, ..on() };
    let mut world = World::with(2, 2, config);
    let clients = [world.client(), world.client()];
    let name =
        (0..).map(|number| format!("k{number}")).find(|name| owner_of(name.as_bytes(), 2).index() == 1);
    let name = name.expect("there is one");
    let server = world.router.primary(name.as_bytes());
    for client in clients {
        world.send(client, &format!("get {name}\r\n"));
        assert_eq!(world.server_gets(server), format!("get {name}\r\n"));
        world.server_says(server, "END\r\n");
    }
    assert_eq!(world.all_hear(&clients), ["END\r\n", ""]);
    world.send(clients[1], &format!("set {name} 0 0 1\r\nx\r\n"));
    assert!(world.dataplane.poll_mail().is_none());
    world.pass(MS);
    assert_eq!(world.client_gets(clients[1]), "END\r\n");
    assert!(world.dataplane.poll_mail().is_some());
}

#[test]
fn another_loops_clients_fill_for_all() {
    let (mut first, mut second) = two_loops();
    let (filler, waiter, early) = (first.client(), second.client(), second.client());
    assert_eq!(first.misses(filler), "END\r\n");
    assert_eq!(second.misses(waiter), "");
    assert_eq!(second.asks(early, "get a"), "get a\r\n");
    first.now = first.now.plus(MS / 2);
    assert_eq!(first.fills(filler), "");
    assert_eq!(second.server_gets(0), "", "it is looked at each millisecond");
    assert_eq!(second.dataplane.poll_timeout(), Some(second.now.plus(MS)));
    second.pass(MS);
    assert_eq!(second.server_gets(0), "get a\r\n");
    assert_eq!(second.hears(early, 0, "END\r\n"), "", "its server was asked before the key was filled");
    assert_eq!(second.server_gets(0), "get a\r\n");
    second.server_says(0, &VALUE.repeat(2));
    assert_eq!(second.all_hear(&[waiter, early]), [VALUE, VALUE]);
    assert_eq!(second.report().counters.fill_leases, 0);
}

#[test]
fn who_may_only_read_waits_and_never_fills() {
    let mut world = World::with(1, 1, on());
    let mut reader = User::new(b"reader");
    reader.add_password(Secret::new(b"password"));
    reader.set_read_only();
    let other = world.client();
    world.dataplane.handle_logins(Some(&Arc::new(Users::new([reader]))), None);
    let reader = world.client();
    world.send(reader, "set any 0 0 15\r\nreader password\r\n");
    assert_eq!(world.client_gets(reader), "STORED\r\n");
    assert_eq!(world.misses(reader), "END\r\n");
    assert_eq!(world.report().counters.fill_leases, 0);
    assert_eq!(world.misses(other), "END\r\n", "this one may fill");
    assert_eq!(world.misses(reader), "");
}

#[test]
fn only_gets_of_one_key_wait() {
    let (mut world, clients) = world_of(2, on());
    let another = world.client();
    for (request, reply) in [("gets a", "END\r\n"), ("get a b", "END\r\n"), ("mg a v", "EN\r\n")] {
        assert_eq!(world.asks(another, request), format!("{request}\r\n"));
        assert_eq!(world.hears(another, 0, reply), reply, "{request}");
    }
    assert_eq!(world.misses(another), "", "and it is no client that has none of it");
    assert_eq!(world.client_gets(clients[1]), "");
}

#[test]
fn an_error_is_no_miss() {
    let mut world = World::with(1, 1, on());
    let clients = [world.client(), world.client()];
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    let error = "SERVER_ERROR out of memory writing get response\r\n";
    assert_eq!(world.hears(clients[0], 0, error), error);
    assert_eq!(world.misses(clients[1]), "END\r\n");
    assert_eq!(world.misses(clients[0]), "");
}

#[test]
fn gets_that_wait_for_each_other_miss_together_and_one_fills() {
    let mut world = World::with(1, 1, Config { ask_once: AskOnce::On, ..on() });
    let clients = [world.client(), world.client(), world.client()];
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    assert_eq!(world.asks(clients[1], "get a"), "");
    assert_eq!(world.asks(clients[2], "get a"), "");
    world.server_says(0, "END\r\n");
    assert_eq!(world.all_hear(&clients), ["END\r\n", "", ""]);
    assert_eq!(world.fills(clients[0]), "get a\r\n");
    world.server_says(0, VALUE);
    assert_eq!(world.all_hear(&clients), ["", VALUE, VALUE]);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn after_a_reload_it_is_asked_where_the_key_is_then() {
    let mut world = World::with(2, 1, on());
    let clients = [world.client(), world.client()];
    let key = world.key_on(0);
    for client in clients {
        world.send(client, &format!("get {key}\r\n"));
        world.server_gets(0);
        world.server_says(0, "END\r\n");
    }
    assert_eq!(world.all_hear(&clients), ["END\r\n", ""]);
    world.reload(router(&["s:2", "s:1"], 1));
    world.send(clients[0], &format!("set {key} 0 0 1\r\nx\r\n"));
    assert_eq!(world.server_gets(1), format!("set {key} 0 0 1\r\nx\r\n"));
    world.server_says(1, "STORED\r\n");
    assert_eq!(world.server_gets(1), format!("get {key}\r\n"));
}

#[test]
fn a_key_that_is_written_again_and_again_and_never_there_is_asked_for_so_often_and_no_more() {
    let (mut first, mut second) = two_loops();
    let (writer, waiter) = (first.client(), second.client());
    let mut delete = || {
        first.pass(MS);
        assert_eq!(first.asks(writer, "delete a"), "delete a\r\n");
        assert_eq!(first.hears(writer, 0, "NOT_FOUND\r\n"), "NOT_FOUND\r\n");
    };
    delete();
    let filler = second.client();
    assert_eq!(second.misses(filler), "END\r\n");
    assert_eq!(second.misses(waiter), "");
    delete();
    second.pass(MS);
    for _ in 0..8 {
        assert_eq!(second.server_gets(0), "get a\r\n");
        delete();
        second.server_says(0, "END\r\n");
    }
    assert_eq!(second.server_gets(0), "");
    assert_eq!(second.client_gets(waiter), "END\r\n");
    let counters = second.report().counters;
    assert_eq!((counters.fill_waits, counters.fill_waits_again, counters.fill_waits_late), (1, 8, 1));
}

#[test]
fn no_more_wait_than_there_is_room_for() {
    const ROOM: usize = 4096;
    let config = Config { session_requests_max: ROOM + 1, ..on() };
    let (mut world, clients) = world_of(1, config);
    let another = world.client();
    let mut left = ROOM + 1;
    while left > 0 {
        let count = left.min(1024);
        world.send(another, &"get a\r\n".repeat(count));
        let sent = world.server_gets(0);
        world.server_says(0, &"END\r\n".repeat(sent.matches("get").count()));
        left -= count;
    }
    let counters = world.report().counters;
    assert_eq!((counters.fill_waits, counters.fill_waits_full), (ROOM as u64, 1));
    world.dataplane.handle_client_closed(another);
    world.dataplane.handle_client_closed(clients[0]);
    world.turn();
    assert!(!world.dataplane.is_quiet(), "where more than 1,024 wait, they are not looked at in every turn");
    world.pass(4 * MS);
    assert!(world.dataplane.is_quiet());
}
