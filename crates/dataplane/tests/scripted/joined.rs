//! Gets of several requests in one message (`servers/pipeline/line.rs`): each client is answered as if it had asked alone.

use crate::world::{MS, TIMEOUT, World, slot};
use weir_dataplane::{Config, Event, JoinGets, ReadPolicy, SessionId};
use weir_protocol::Limits;
use weir_timing::{Operation, Stage};

/// One server, and this many clients.
fn world_of(clients: usize, config: Config) -> (World, Vec<SessionId>) {
    let mut world = World::with(1, 1, config);
    let clients = (0..clients).map(|_| world.client()).collect();
    (world, clients)
}

fn value(key: &str, data: &str) -> String {
    format!("VALUE {key} 0 {}\r\n{data}\r\n", data.len())
}

impl World {
    /// Each client sends one of these; what leaves for the server.
    fn all_ask(&mut self, clients: &[SessionId], requests: &[&str]) -> String {
        for (client, request) in clients.iter().zip(requests) {
            self.send(*client, &format!("{request}\r\n"));
        }
        self.server_gets(0)
    }

    fn all_get(&mut self, clients: &[SessionId]) -> Vec<String> {
        clients.iter().map(|client| self.client_gets(*client)).collect()
    }
}

#[test]
fn gets_that_leave_together_are_one_message_and_each_client_gets_its_own() {
    let (mut world, clients) = world_of(5, Config::default());
    let asked = world.all_ask(&clients, &["get a", "get b c", "get d", "get e f", "get g"]);
    assert_eq!(asked, "get a b c d e f g\r\n");
    world.server_says(
        0,
        &(value("a", "1") + &value("c", "three") + &value("e", "5") + &value("f", "6") + "END\r\n"),
    );
    let expected = [
        value("a", "1") + "END\r\n",
        value("c", "three") + "END\r\n",
        "END\r\n".to_owned(),
        value("e", "5") + &value("f", "6") + "END\r\n",
        "END\r\n".to_owned(),
    ];
    assert_eq!(world.all_get(&clients), expected);
    let report = world.report();
    assert_eq!(report.counters.gets_joined, 4);
    let get = report.timing.operation(Operation::Get);
    assert_eq!((get.requests, get.keys(), get.hits, get.misses()), (3, 3, 1, 2));
    let multiget = report.timing.operation(Operation::MultiGet);
    assert_eq!((multiget.requests, multiget.keys(), multiget.hits, multiget.misses()), (2, 4, 3, 1));
    assert!(world.dataplane.is_quiet(), "nothing is left behind");
    assert_eq!(world.all_ask(&clients, &["get a"]), "get a\r\n");
    assert_eq!(world.hears(clients[0], 0, "END\r\n"), "END\r\n");
}

#[test]
fn a_reply_may_be_cut_anywhere() {
    let requests = ["get a", "get b c", "get d", "get e", "get f g"];
    let whole =
        value("b", "END\r\nVALUE d 0 1") + &value("c", "") + &value("e", "VALUE f 0 1\r\nx") + "END\r\n";
    let mut expected: Option<Vec<String>> = None;
    for cut in 0..=whole.len() {
        for second_cut in [cut, (cut + 7).min(whole.len())] {
            let (mut world, clients) = world_of(5, Config::default());
            assert_eq!(world.all_ask(&clients, &requests), "get a b c d e f g\r\n");
            for piece in [&whole[..cut], &whole[cut..second_cut], &whole[second_cut..]] {
                world.server_says(0, piece);
            }
            let answers = world.all_get(&clients);
            assert_eq!(answers[0], "END\r\n");
            assert_eq!(answers[3], value("e", "VALUE f 0 1\r\nx") + "END\r\n");
            assert_eq!(
                *expected.get_or_insert_with(|| answers.clone()),
                answers,
                "cut at {cut} and {second_cut}"
            );
        }
    }
}

#[test]
fn a_value_that_is_there_is_passed_on_before_those_behind_it() {
    let (mut world, clients) = world_of(3, Config::default());
    world.all_ask(&clients, &["get a", "get b", "get c"]);
    assert_eq!(world.hears(clients[0], 0, &value("a", "1")), value("a", "1") + "END\r\n");
    assert_eq!(world.hears(clients[1], 0, "VALUE c 0 7\r\nnot "), "", "it may come later");
    assert_eq!(world.hears(clients[2], 0, "yet\r\nEN"), value("c", "not yet") + "END\r\n");
    assert_eq!(world.hears(clients[1], 0, "D\r\n"), "END\r\n", "the end says that it is a miss");
}

#[test]
fn one_client_may_ask_for_several_keys_at_once_in_requests_of_their_own() {
    let (mut world, clients) = world_of(1, Config::default());
    world.send(clients[0], "get a\r\nget b\r\nget c\r\n");
    assert_eq!(world.server_gets(0), "get a b c\r\n");
    let answer = world.hears(clients[0], 0, &(value("b", "2") + "END\r\n"));
    assert_eq!(answer, "END\r\n".to_owned() + &value("b", "2") + "END\r\n" + "END\r\n");
}

#[test]
fn nothing_but_gets_of_some_keys_is_joined() {
    let (mut world, clients) = world_of(5, Config::default());
    let asked = world.all_ask(&clients, &["get a", "gets a", "get b", "gat 0 c", "get c"]);
    assert_eq!(asked, "get a\r\ngets a\r\nget b\r\ngat 0 c\r\nget c\r\n");
    assert_eq!(world.report().counters.gets_joined, 0);
}

#[test]
fn a_key_is_asked_for_once_and_answered_to_all_who_want_it() {
    let gets = ["get a", "get b", "get a", "get c", "get x b c", "get c"];
    let hit = |values: &[(&str, &str)]| -> String {
        values.iter().map(|(key, data)| value(key, data)).collect::<String>() + "END\r\n"
    };
    for (reply, expected) in [
        // As it was asked for.
        (hit(&[("a", "1"), ("b", "2"), ("c", "3"), ("x", "4")]), [true; 4]),
        // In another order.
        (hit(&[("x", "4"), ("c", "3"), ("b", "2"), ("a", "1")]), [true; 4]),
        (hit(&[("c", "3"), ("a", "1")]), [true, false, true, false]),
        (hit(&[("b", "2")]), [false, true, false, false]),
        (hit(&[]), [false; 4]),
    ] {
        for cut in 0..reply.len() {
            let (mut world, clients) = world_of(6, Config::default());
            assert_eq!(world.all_ask(&clients, &gets), "get a b c x\r\n");
            world.server_says(0, &reply[..cut]);
            world.server_says(0, &reply[cut..]);
            let has = |wanted: &[(usize, &str, &str)]| -> String {
                let found = wanted.iter().filter(|(number, ..)| expected[*number]);
                found.map(|(_, key, data)| value(key, data)).collect::<String>() + "END\r\n"
            };
            let (a, b, c, x) = ((0, "a", "1"), (1, "b", "2"), (2, "c", "3"), (3, "x", "4"));
            let all = [has(&[a]), has(&[b]), has(&[a]), has(&[c]), has(&[x, b, c]), has(&[c])];
            assert_eq!(world.all_get(&clients), all, "cut at {cut} of {reply:?}");
            assert_eq!(world.report().counters.gets_joined, 5);
            assert!(world.dataplane.is_quiet(), "nothing is left behind");
        }
    }
}

#[test]
fn a_value_that_two_want_comes_once() {
    let (mut world, clients) = world_of(2, Config::default());
    world.all_ask(&clients, &["get a", "get a"]);
    world.server_says(0, &(value("a", "1") + &value("a", "2")));
    assert_eq!(world.all_get(&clients), vec![value("a", "1") + "END\r\n"; 2]);
    // Nobody asked for the second: the connection cannot be trusted.
    assert!(world.events.contains(&Event::Disconnect(slot(0))));
}

#[test]
fn whose_time_is_up_gets_nothing_of_what_others_still_wait_for() {
    let (mut world, clients) = world_of(2, Config::default());
    world.send(clients[0], "get a\r\n");
    world.pass(TIMEOUT / 2);
    world.send(clients[1], "get a\r\n");
    assert_eq!(world.server_gets(0), "get a\r\n");
    world.pass(TIMEOUT / 2);
    assert_eq!(world.client_gets(clients[0]), "SERVER_ERROR timeout s:1\r\n");
    world.server_says(0, &(value("a", "1") + "END\r\n"));
    assert_eq!(world.all_get(&clients), [String::new(), value("a", "1") + "END\r\n"]);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_write_goes_ahead_of_gets_that_wait_but_not_of_its_own_clients_get_of_the_key() {
    let (mut world, clients) = world_of(4, Config::default());
    world.send(clients[0], "get a\r\nset b 0 0 1\r\nx\r\nget b\r\n");
    world.send(clients[1], "delete a\r\nget c\r\n");
    world.send(clients[2], "mg d v\r\nget e\r\n");
    assert_eq!(world.server_gets(0), "set b 0 0 1\r\nx\r\ndelete a\r\nmg d v\r\nget a b c e\r\n");
    let said = "STORED\r\nDELETED\r\nEN\r\n".to_owned() + &value("b", "x") + "END\r\n";
    world.server_says(0, &said);
    let first = "END\r\nSTORED\r\n".to_owned() + &value("b", "x") + "END\r\n";
    assert_eq!(world.all_get(&clients[..3]), [&first, "DELETED\r\nEND\r\n", "EN\r\nEND\r\n"]);
    // What the client reads first, it reads before it writes.
    world.send(clients[3], "get a\r\nset a 0 0 1\r\nx\r\nget a\r\n");
    world.send(clients[0], "get b\r\n");
    assert_eq!(world.server_gets(0), "get a\r\nset a 0 0 1\r\nx\r\nget a b\r\n");
    let said = "END\r\nSTORED\r\n".to_owned() + &value("a", "x") + &value("b", "x") + "END\r\n";
    world.server_says(0, &said);
    assert_eq!(world.client_gets(clients[0]), value("b", "x") + "END\r\n");
    assert_eq!(world.client_gets(clients[3]), "END\r\nSTORED\r\n".to_owned() + &value("a", "x") + "END\r\n");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn what_has_no_one_key_and_what_is_long_goes_ahead_of_nothing() {
    let limits = Limits { flush_allowed: true, ..Limits::default() };
    let config = Config { limits, ..Config::default() };
    let (mut world, clients) = world_of(2, config);
    world.send(clients[0], "get a\r\n");
    world.send(clients[1], "flush_all\r\nget b\r\n");
    assert_eq!(world.server_gets(0), "get a\r\nflush_all\r\nget b\r\n");
    world.server_says(0, "END\r\nOK\r\nEND\r\n");
    let long = format!("set c 0 0 5000\r\n{}\r\n", "x".repeat(5000));
    world.send(clients[0], "get a\r\n");
    world.send(clients[1], &format!("{long}get b\r\n"));
    assert_eq!(world.server_gets(0), format!("get a\r\n{long}get b\r\n"));
}

#[test]
fn who_came_behind_and_is_late_first_is_given_up_first() {
    let (mut world, clients) = world_of(2, Config::default());
    world.send(clients[0], "get a\r\n");
    world.pass(MS);
    // It goes ahead of the get, and has more time.
    world.send(clients[1], "delete b\r\n");
    assert_eq!(world.server_gets(0), "delete b\r\nget a\r\n");
    world.pass(TIMEOUT - MS);
    assert_eq!(world.all_get(&clients), ["SERVER_ERROR timeout s:1\r\n", ""]);
    world.pass(MS);
    assert_eq!(world.all_get(&clients), ["", "SERVER_ERROR timeout s:1\r\n"]);
}

#[test]
fn after_an_error_a_key_is_asked_for_again_once() {
    let (mut world, clients) = world_of(5, Config::default());
    world.all_ask(&clients, &["get a", "get b", "get a", "get a", "get b c"]);
    let error = "SERVER_ERROR out of memory writing get response\r\n";
    world.server_says(0, error);
    assert_eq!(world.server_gets(0), "get a\r\nget b\r\nget b c\r\n");
    world.server_says(0, &(value("a", "1") + "END\r\n" + error + "END\r\n"));
    let a = value("a", "1") + "END\r\n";
    assert_eq!(world.all_get(&clients), [&a, error, &a, &a, "END\r\n"]);
    assert_eq!(world.report().counters.gets_asked_alone, 5);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_key_that_a_server_might_read_otherwise_has_a_message_of_its_own() {
    let (mut world, clients) = world_of(4, Config::default());
    let asked = world.all_ask(&clients, &["get a", "get b\u{1}c", "get d", "get e"]);
    assert_eq!(asked, "get a\r\nget b\u{1}c\r\nget d e\r\n");
}

#[test]
fn an_error_is_asked_about_again_by_all_that_got_nothing_yet() {
    let (mut world, clients) = world_of(4, Config::default());
    world.all_ask(&clients, &["get a", "get b c", "get d", "set e 0 0 1\r\nx"]);
    let error = "SERVER_ERROR out of memory writing get response\r\n";
    // The write went ahead of the gets.
    world.server_says(0, &("STORED\r\n".to_owned() + &value("a", "1") + &value("b", "2") + error));
    assert_eq!(world.all_get(&clients), [&(value("a", "1") + "END\r\n"), "", "", "STORED\r\n"]);
    assert_eq!(world.server_gets(0), "get b c\r\nget d\r\n");
    world.server_says(0, &(value("b", "2") + error + error));
    assert_eq!(world.all_get(&clients), ["", error, error, ""]);
    assert_eq!(world.report().counters.requests_failed_by_reply, 2);
    assert_eq!(world.report().counters.gets_asked_alone, 2);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_value_that_nobody_asked_for_ends_the_connection_and_is_nobodys_miss() {
    let (mut world, clients) = world_of(3, Config::default());
    world.all_ask(&clients, &["get a", "get b", "get c"]);
    world.server_says(0, &(value("a", "1") + &value("z", "1") + "END\r\n"));
    assert_eq!(world.all_get(&clients), [&(value("a", "1") + "END\r\n"), "", ""]);
    assert_eq!(world.events, [Event::Disconnect(slot(0)), Event::Connect(slot(0))]);
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.turn();
    assert_eq!(world.server_gets(0), "get c\r\nget b\r\n");
    world.server_says(0, &(value("c", "3") + "END\r\n" + &value("z", "1") + "END\r\n"));
    let answers = world.all_get(&clients);
    assert_eq!(answers, ["", "SERVER_ERROR protocol s:1\r\n", &(value("c", "3") + "END\r\n")]);
}

#[test]
fn a_connection_that_ends_fails_only_who_has_no_answer() {
    let (mut world, clients) = world_of(3, Config::default());
    world.all_ask(&clients, &["get a", "get b", "get c"]);
    world.server_says(0, &(value("a", "1") + "VALUE b 0 5\r\nhal"));
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.turn();
    let answers = world.all_get(&clients);
    assert_eq!(answers[0], value("a", "1") + "END\r\n");
    assert_eq!(answers[1..], ["SERVER_ERROR closed s:1\r\n", "SERVER_ERROR closed s:1\r\n"]);
    world.dataplane.handle_server_connected(slot(0), world.now);
    assert_eq!(world.all_ask(&clients, &["get b", "get a"]), "get b a\r\n");
    world.server_says(0, &(value("a", "1") + "END\r\n"));
    assert_eq!(world.all_get(&clients)[..2], ["END\r\n".to_owned(), value("a", "1") + "END\r\n"]);
}

#[test]
fn a_late_reply_to_some_harms_nobody_who_asks_later() {
    let (mut world, clients) = world_of(4, Config::default());
    world.all_ask(&clients[..2], &["get a", "get b"]);
    world.pass(TIMEOUT);
    assert_eq!(
        world.all_get(&clients[..2]),
        ["SERVER_ERROR timeout s:1\r\n", "SERVER_ERROR timeout s:1\r\n"]
    );
    assert_eq!(world.all_ask(&clients[2..], &["get b", "get c"]), "get b c\r\n");
    world.server_says(0, &(value("a", "1") + &value("b", "2") + "END\r\n" + &value("b", "3") + "END\r\n"));
    assert_eq!(world.all_get(&clients[2..]), [value("b", "3") + "END\r\n", "END\r\n".to_owned()]);
    assert_eq!(world.report().counters.server_replies_late, 2);
}

#[test]
fn each_has_the_deadline_of_its_own_request() {
    let (mut world, clients) = world_of(2, Config::default());
    world.send(clients[0], "get a\r\n");
    world.pass(TIMEOUT / 2);
    world.send(clients[1], "get b\r\n");
    assert_eq!(world.server_gets(0), "get a b\r\n");
    world.pass(TIMEOUT / 2);
    assert_eq!(world.client_gets(clients[0]), "SERVER_ERROR timeout s:1\r\n");
    world.server_says(0, &(value("a", "1") + &value("b", "2") + "END\r\n"));
    assert_eq!(world.client_gets(clients[1]), value("b", "2") + "END\r\n");
}

#[test]
fn a_value_too_large_to_be_kept_fails_its_own_request_alone() {
    let config = Config { server_buffer_bytes_max: 1000, ..Config::default() };
    for (requests, large, failed) in
        [(["get a", "get b", "get c"], "b", 1), (["get a", "get b", "get c"], "c", 2)]
    {
        let (mut world, clients) = world_of(3, config.clone());
        world.all_ask(&clients, &requests);
        world.server_says(0, &(value("a", "1") + &format!("VALUE {large} 0 5000\r\nxxx")));
        world.server_says(0, &"x".repeat(4997));
        let rest = if large == "b" { value("c", "3") } else { String::new() };
        world.server_says(0, &("\r\n".to_owned() + &rest + "END\r\n"));
        let mut expected = [value("a", "1") + "END\r\n", "END\r\n".to_owned(), rest + "END\r\n"];
        expected[failed] = "SERVER_ERROR buffer-full s:1\r\n".to_owned();
        assert_eq!(world.all_get(&clients), expected, "{large}");
        assert!(world.dataplane.is_quiet());
    }
}

#[test]
fn what_has_begun_to_leave_is_not_made_longer() {
    let (mut world, clients) = world_of(4, Config::default());
    world.send(clients[0], "get a\r\n");
    world.send(clients[1], "get b\r\n");
    assert_eq!(world.dataplane.poll_server_output(None, world.now), Some(slot(0)));
    world.dataplane.handle_server_written(slot(0), 5, world.now);
    world.send(clients[2], "get c\r\n");
    world.dataplane.handle_server_writable(slot(0));
    world.send(clients[3], "get d\r\n");
    assert_eq!(world.server_gets(0), " b\r\nget c d\r\n");
    world.server_says(0, &(value("b", "2") + "END\r\n" + &value("d", "4") + "END\r\n"));
    let expected = [
        "END\r\n".to_owned(),
        value("b", "2") + "END\r\n",
        "END\r\n".to_owned(),
        value("d", "4") + "END\r\n",
    ];
    assert_eq!(world.all_get(&clients), expected);
}

#[test]
fn all_of_a_message_is_forwarded_when_its_last_byte_is() {
    let (mut world, clients) = world_of(2, Config::default());
    world.send(clients[0], "get a\r\n");
    world.send(clients[1], "get b\r\n");
    assert_eq!(world.dataplane.poll_server_output(None, world.now), Some(slot(0)));
    world.dataplane.handle_server_written(slot(0), 6, world.now);
    world.pass(3 * MS);
    world.dataplane.handle_server_writable(slot(0));
    assert_eq!(world.server_gets(0), "b\r\n");
    world.pass(4 * MS);
    world.server_says(0, "END\r\n");
    assert_eq!(world.all_get(&clients), ["END\r\n", "END\r\n"]);
    let report = world.report();
    let get = report.timing.operation(Operation::Get);
    let sums = [Stage::Send, Stage::Backend].map(|stage| get.stage(stage).sum());
    assert_eq!(sums, [u128::from(2 * 3 * MS), u128::from(2 * 4 * MS)]);
}

#[test]
fn lines_have_a_bound_and_large_multigets_one_of_their_own() {
    let (mut world, clients) = world_of(40, Config::default());
    let requests: Vec<_> = (0..40).map(|number| format!("get {number:0>200}")).collect();
    let asked = world.all_ask(&clients, &requests.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(asked.lines().all(|line| line.len() < (1 << 10) + 250), "{}", asked.lines().count());
    assert!(asked.lines().count() < 10);
    let many: Vec<_> = (0..33).map(|number| format!("k{number}")).collect();
    let (mut world, clients) = world_of(3, Config::default());
    let many = format!("get {}", many.join(" "));
    assert_eq!(world.all_ask(&clients, &["get a", &many, "get b"]), format!("get a\r\n{many}\r\nget b\r\n"));
}

#[test]
fn messages_of_their_own_are_a_setting() {
    let (mut world, clients) = world_of(2, Config { join_gets: JoinGets::Off, ..Config::default() });
    assert_eq!(world.all_ask(&clients, &["get a", "get b"]), "get a\r\nget b\r\n");
    world.server_says(0, &("END\r\n".to_owned() + &value("b", "2") + "END\r\n"));
    assert_eq!(world.all_get(&clients), ["END\r\n".to_owned(), value("b", "2") + "END\r\n"]);
}

#[test]
fn parts_of_split_multigets_are_joined_at_each_server() {
    let mut world = World::new(2, 1);
    let clients = [world.client(), world.client()];
    let (first, second) = (world.keys_on(0, 3), world.keys_on(1, 2));
    world.send(clients[0], &format!("get {} {} {}\r\n", first[0], second[0], first[1]));
    world.send(clients[1], &format!("get {} {}\r\n", second[1], first[2]));
    assert_eq!(world.server_gets(0), format!("get {} {} {}\r\n", first[0], first[1], first[2]));
    assert_eq!(world.server_gets(1), format!("get {} {}\r\n", second[0], second[1]));
    world.server_says(0, &(value(&first[1], "1") + &value(&first[2], "2") + "END\r\n"));
    world.server_says(1, &(value(&second[0], "3") + "END\r\n"));
    assert_eq!(world.client_gets(clients[0]), value(&second[0], "3") + &value(&first[1], "1") + "END\r\n");
    assert_eq!(world.client_gets(clients[1]), value(&first[2], "2") + "END\r\n");
}

#[test]
fn what_another_replica_misses_is_asked_of_the_decider_also_if_it_was_joined() {
    let config = Config { read_policy: ReadPolicy::Spread, ..Config::default() };
    let mut world = World::with(2, 2, config);
    let clients = [world.client(), world.client(), world.client(), world.client()];
    let keys = world.keys_on(0, 4);
    for (client, key) in clients.iter().zip(&keys) {
        world.send(*client, &format!("get {key}\r\n"));
    }
    let asked = [world.server_gets(0), world.server_gets(1)];
    assert_eq!(
        asked.iter().map(|asked| asked.split_whitespace().count()).collect::<Vec<_>>(),
        [3, 3],
        "{asked:?}"
    );
    let at_other: Vec<_> = asked[1].split_whitespace().skip(1).collect();
    world.server_says(1, &(value(at_other[1], "there") + "END\r\n"));
    assert_eq!(world.server_gets(0), format!("get {}\r\n", at_other[0]));
    let at_decider: Vec<_> = asked[0].split_whitespace().skip(1).collect();
    world.server_says(
        0,
        &(value(at_decider[0], "first") + "END\r\n" + &value(at_other[0], "second") + "END\r\n"),
    );
    let answers = world.all_get(&clients).concat();
    for (key, data) in [(at_decider[0], "first"), (at_other[0], "second"), (at_other[1], "there")] {
        assert!(answers.contains(&(value(key, data) + "END\r\n")), "{answers}");
    }
    assert_eq!(answers.matches("END\r\n").count(), 4);
}

/// This many clients ask for a key each in one turn.
fn many(count: usize) -> (World, Vec<SessionId>, Vec<String>) {
    let (mut world, clients) = world_of(count, Config::default());
    let keys: Vec<_> = (0..count).map(|number| format!("key{number}")).collect();
    let requests: Vec<_> = keys.iter().map(|key| format!("get {key}")).collect();
    let asked = world.all_ask(&clients, &requests.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(asked, format!("get {}\r\n", keys.join(" ")));
    (world, clients, keys)
}

#[test]
fn a_server_may_answer_in_any_order() {
    for step in [1, 3, 7, 39] {
        let (mut world, clients, keys) = many(40);
        // 3, 7 and 39 have no divisor in common with 40; every fourth key is a miss.
        let order = (0..40).map(|at| at * step % 40).filter(|at| at % 4 > 0);
        let values: String = order.map(|at| value(&keys[at], &keys[at])).collect();
        world.server_says(0, &values);
        let hits = clients.iter().enumerate().filter(|(at, _)| at % 4 > 0);
        for (at, client) in hits {
            assert_eq!(world.client_gets(*client), value(&keys[at], &keys[at]) + "END\r\n", "step {step}");
        }
        assert_eq!(world.client_gets(clients[0]), "", "a miss is final at the end");
        world.server_says(0, "END\r\n");
        for client in clients.iter().step_by(4) {
            assert_eq!(world.client_gets(*client), "END\r\n");
        }
        let report = world.report();
        assert_eq!(report.counters.server_violations, 0);
        assert_eq!((report.servers[0].queued.length, report.servers[0].in_flight.length), (0, 0));
        let get = report.timing.operation(Operation::Get);
        assert_eq!((get.requests, get.hits, get.misses()), (40, 30, 10));
        assert!(world.dataplane.is_quiet(), "nothing is left behind");
    }
}

#[test]
fn several_values_of_one_request_may_come_in_any_order_and_between_those_of_others() {
    let (mut world, clients) = world_of(3, Config::default());
    let asked = world.all_ask(&clients, &["get a b c", "get d e", "get f g h"]);
    assert_eq!(asked, "get a b c d e f g h\r\n");
    let reply: String = ["e", "a", "h", "c", "f", "d", "b"].iter().map(|key| value(key, key)).collect();
    let whole = reply + "END\r\n";
    let of = |keys: &[&str]| keys.iter().map(|key| value(key, key)).collect::<String>() + "END\r\n";
    let expected = [of(&["a", "b", "c"]), of(&["d", "e"]), of(&["f", "h"])];
    for cut in 0..=whole.len() {
        world.server_says(0, &whole[..cut]);
        world.server_says(0, &whole[cut..]);
        assert_eq!(world.all_get(&clients), expected, "cut at {cut}");
        assert!(world.dataplane.is_quiet());
        world.all_ask(&clients, &["get a b c", "get d e", "get f g h"]);
    }
}

#[test]
fn an_error_for_one_key_costs_no_other_its_answer() {
    let (mut world, clients, keys) = many(40);
    let values: String = keys[..7].iter().map(|key| value(key, key)).collect();
    let error = "SERVER_ERROR out of memory writing get response\r\n";
    world.server_says(0, &(values + error));
    let again = world.server_gets(0);
    assert_eq!(again, keys[7..].iter().map(|key| format!("get {key}\r\n")).collect::<String>());
    let answer = |key: &String| if *key == keys[7] { error.to_owned() } else { value(key, key) + "END\r\n" };
    world.server_says(0, &keys[7..].iter().map(answer).collect::<String>());
    for (client, key) in clients.iter().zip(&keys) {
        assert_eq!(world.client_gets(*client), answer(key));
    }
    let counters = world.report().counters;
    assert_eq!((counters.gets_asked_alone, counters.requests_failed_by_reply), (33, 1));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_foreign_value_costs_no_other_its_answer() {
    let (mut world, clients, keys) = many(40);
    let foreign = value("foreign", "1");
    let error = "SERVER_ERROR protocol s:1\r\n";
    let at_of = |key: &str| keys.iter().position(|own| own == key).expect("a key");
    // The first of all is a miss, so the one in whose place something else comes is not the first without an answer.
    let says = |key: &str| match at_of(key) {
        0 => String::new(),
        7 => foreign.clone(),
        _ => value(key, key),
    };
    world.server_says(0, &keys.iter().map(|key| says(key)).collect::<String>());
    for _ in 0..3 {
        world.dataplane.handle_server_connected(slot(0), world.now);
        world.turn();
        let again = world.server_gets(0);
        let asked = again.lines().map(|line| says(&line["get ".len()..]) + "END\r\n");
        world.server_says(0, &asked.collect::<String>());
    }
    for (at, client) in clients.iter().enumerate() {
        let expected = if at == 7 { error.to_owned() } else { says(&keys[at]) + "END\r\n" };
        assert_eq!(world.client_gets(*client), expected, "{at}");
    }
    let counters = world.report().counters;
    assert_eq!((counters.server_violations, counters.requests_failed_protocol), (2, 1));
}

#[test]
fn who_has_sent_a_change_behind_its_get_gets_the_error() {
    let (mut world, clients) = world_of(2, Config::default());
    world.send(clients[1], "get c\r\nget d\r\n");
    world.send(clients[0], "get a\r\nset a 0 0 1 noreply\r\n1\r\n");
    assert_eq!(world.server_gets(0), "get c d a\r\nset a 0 0 1\r\n1\r\n");
    world.server_says(0, "SERVER_ERROR no\r\nSTORED\r\n");
    assert_eq!(world.client_gets(clients[0]), "SERVER_ERROR no\r\n", "it would read what it wrote later");
    assert_eq!(world.server_gets(0), "get c\r\nget d\r\n");
    world.server_says(0, &(value("c", "3") + "END\r\n" + "END\r\n"));
    assert_eq!(world.client_gets(clients[1]), value("c", "3") + "END\r\n" + "END\r\n");
}

#[test]
fn who_is_asked_for_again_keeps_its_deadline() {
    let (mut world, clients) = world_of(2, Config::default());
    world.all_ask(&clients, &["get a", "get b"]);
    world.pass(TIMEOUT - MS);
    world.server_says(0, "SERVER_ERROR no\r\n");
    assert_eq!(world.server_gets(0), "get a\r\nget b\r\n");
    world.pass(MS);
    assert_eq!(world.all_get(&clients), ["SERVER_ERROR timeout s:1\r\n", "SERVER_ERROR timeout s:1\r\n"]);
    world.server_says(0, &(value("a", "1") + "END\r\n" + "END\r\n"));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_part_of_a_split_multiget_is_asked_for_again_alone() {
    let mut world = World::new(2, 1);
    let clients = [world.client(), world.client()];
    let (first, second) = (world.keys_on(0, 3), world.keys_on(1, 1));
    world.send(clients[0], &format!("get {} {} {}\r\n", first[0], second[0], first[1]));
    world.send(clients[1], &format!("get {}\r\n", first[2]));
    assert_eq!(world.server_gets(0), format!("get {} {} {}\r\n", first[0], first[1], first[2]));
    world.server_gets(1);
    world.server_says(1, &(value(&second[0], "3") + "END\r\n"));
    world.server_says(0, &(value(&first[1], "2") + "SERVER_ERROR no\r\n"));
    assert_eq!(world.server_gets(0), format!("get {} {}\r\nget {}\r\n", first[0], first[1], first[2]));
    world.server_says(0, &(value(&first[1], "2") + "END\r\nSERVER_ERROR no\r\n"));
    assert_eq!(world.client_gets(clients[0]), value(&second[0], "3") + &value(&first[1], "2") + "END\r\n");
    assert_eq!(world.client_gets(clients[1]), "SERVER_ERROR no\r\n");
}

#[test]
fn a_value_of_a_later_part_that_is_too_large_fails_that_part_alone() {
    let config = Config { server_buffer_bytes_max: 1000, ..Config::default() };
    let (mut world, clients) = world_of(3, config);
    world.all_ask(&clients, &["get a", "get b b2", "get c"]);
    world.server_says(0, &(value("b2", "1") + "VALUE b 0 5000\r\nxxx"));
    world.server_says(0, &("x".repeat(4997) + "\r\n" + &value("c", "3") + "END\r\n"));
    let expected =
        ["END\r\n".to_owned(), "SERVER_ERROR buffer-full s:1\r\n".to_owned(), value("c", "3") + "END\r\n"];
    assert_eq!(world.all_get(&clients), expected);
    // What is kept for parts that lack values counts, too.
    world.all_ask(&clients, &["get a a2", "get b b2", "get c"]);
    let kept = value("a", &"x".repeat(600)) + &value("b", &"x".repeat(600));
    world.server_says(0, &(kept + &value("c", "3") + "END\r\n"));
    let expected = [value("a", &"x".repeat(600)) + "END\r\n", expected[1].clone(), expected[2].clone()];
    assert_eq!(world.all_get(&clients), expected);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn more_values_of_a_part_without_room_cost_no_other_its_answer() {
    let config = Config { server_buffer_bytes_max: 1000, ..Config::default() };
    let (mut world, clients) = world_of(3, config);
    for (gets, names) in
        [(["get a a2", "get b b2 b3", "get c"], "b2"), (["get a a2", "get b c", "get c"], "c")]
    {
        world.all_ask(&clients, &gets);
        let large = |name: &str| value(name, &"x".repeat(600));
        let more = if names == "c" { String::new() } else { value("b2", "2") + &value("b3", "3") };
        world.server_says(0, &(large("a") + &large("b") + &more + &value("c", "3") + "END\r\n"));
        assert!(
            world.events.iter().all(|event| !matches!(event, Event::Disconnect(_))),
            "{:?}",
            world.events
        );
        assert_eq!(world.client_gets(clients[0]), large("a") + "END\r\n");
        assert_eq!(world.client_gets(clients[2]), value("c", "3") + "END\r\n");
        let second = world.client_gets(clients[1]);
        if names == "c" {
            // Others want its keys, too: alone it needs no more room than its own values.
            assert_eq!((second.as_str(), &*world.server_gets(0)), ("", "get b c\r\n"));
            world.server_says(0, &(large("b") + &value("c", "3") + "END\r\n"));
            assert_eq!(world.client_gets(clients[1]), large("b") + &value("c", "3") + "END\r\n");
        } else {
            assert_eq!(second, "SERVER_ERROR buffer-full s:1\r\n");
        }
        assert!(world.dataplane.is_quiet());
    }
}

#[test]
fn a_reply_that_a_moved_server_never_ends_means_nothing_on_its_next_connection() {
    let (mut world, clients) = world_of(3, Config::default());
    world.all_ask(&clients, &["get a", "get b", "get c"]);
    world.server_says(0, &value("b", "2"));
    assert_eq!(world.client_gets(clients[1]), value("b", "2") + "END\r\n");
    world.dataplane.handle_server_moved(slot(0));
    world.events.clear();
    world.pass(TIMEOUT);
    assert_eq!(world.events, [Event::Disconnect(slot(0)), Event::Connect(slot(0))]);
    let late = "SERVER_ERROR timeout s:1\r\n";
    assert_eq!([clients[0], clients[2]].map(|client| world.client_gets(client)), [late, late]);
    world.dataplane.handle_server_connected(slot(0), world.now);
    assert_eq!(world.all_ask(&clients[..2], &["get d", "get e"]), "get d e\r\n");
    world.server_says(0, &(value("d", "4") + &value("e", "5") + "END\r\n"));
    let expected = [value("d", "4") + "END\r\n", value("e", "5") + "END\r\n"];
    assert_eq!(world.all_get(&clients[..2]), expected);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn what_many_ask_again_shares_messages_within_bounds() {
    // Beside the first of a message 255 stand, and with more than 1,024 in all nobody looks for the same question.
    for (count, messages) in [(600, 3), (1_024, 4), (2_000, 4 + 2_000 - 1_024)] {
        let (mut world, clients) = world_of(count, Config::default());
        assert_eq!(world.all_ask(&clients, &vec!["get a"; count]).lines().count(), count.div_ceil(256));
        world.server_says(0, "STORED\r\n");
        world.dataplane.handle_server_connected(slot(0), world.now);
        world.turn();
        assert_eq!(world.server_gets(0), "get a\r\n".repeat(messages), "{count} ask");
        world.server_says(0, &(value("a", "1") + "END\r\n").repeat(messages));
        assert_eq!(world.all_get(&clients), vec![value("a", "1") + "END\r\n"; count]);
        assert_eq!(world.report().counters.gets_asked_alone, count as u64);
        assert!(world.dataplane.is_quiet());
    }
}
