//! Writes with several replicas.

use crate::world::{MS, TIMEOUT, World, router, token, unjoined};

#[test]
fn writes_go_to_all_replicas_and_the_primary_decides() {
    let mut world = World::new(3, 2);
    let client = world.client();
    let key = world.key_on(1);
    world.send(client, &format!("set {key} 0 0 1 noreply\r\nx\r\ntouch {key} 5\r\n"));
    assert_eq!(world.server_gets(0), "");
    assert_eq!(world.server_gets(1), format!("set {key} 0 0 1\r\nx\r\ntouch {key} 5\r\n"));
    assert_eq!(world.server_gets(2), format!("set {key} 0 0 1\r\nx\r\ntouch {key} 5\r\n"));
    world.server_says(2, "STORED\r\nNOT_FOUND\r\n");
    assert_eq!(world.client_gets(client), "");
    world.server_says(1, "STORED\r\nTOUCHED\r\n");
    assert_eq!(world.client_gets(client), "TOUCHED\r\n");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_conditional_write_is_decided_by_the_primary_and_then_the_others_follow() {
    let mut world = World::new(3, 3);
    let client = world.client();
    let key = world.key_on(1);
    world.send(client, &format!("incr {key} 5\r\n"));
    assert_eq!((world.server_gets(0), world.server_gets(2)), (String::new(), String::new()));
    assert_eq!(world.server_gets(1), format!("incr {key} 5\r\n"));
    world.server_says(1, "15\r\n");
    assert_eq!(world.client_gets(client), "");
    assert_eq!(world.server_gets(2), format!("incr {key} 5\r\n"));
    assert_eq!(world.server_gets(0), format!("incr {key} 5\r\n"));
    world.server_says(0, "NOT_FOUND\r\n");
    assert_eq!(world.client_gets(client), "");
    world.server_says(2, "15\r\n");
    assert_eq!(world.client_gets(client), "15\r\n");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn what_the_primary_refuses_no_other_replica_hears_of() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    // E on ms and x on md are flags of later servers.
    for (request, reply) in [
        (format!("add {key} 0 0 1\r\nx\r\n"), "NOT_STORED\r\n"),
        (format!("decr {key} 1\r\n"), "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
        (format!("ms {key} 1 E7\r\nx\r\n"), "CLIENT_ERROR invalid flag\r\n"),
        (format!("md {key} x\r\n"), "CLIENT_ERROR invalid flag\r\n"),
        (format!("ma {key} N0 ~\r\n"), "CLIENT_ERROR invalid flag\r\n"),
    ] {
        world.send(client, &request);
        let asked = world.server_gets(0);
        world.server_says(0, reply);
        if request.starts_with("ma ") {
            // What it holds, whatever that is, does not matter.
            assert_eq!(asked, format!("{request}mg {key} k v f t\r\n"));
            world.server_says(0, &format!("VA 1 k{key} f0 t-1\r\n7\r\n"));
        } else {
            assert_eq!(asked, request);
        }
        assert_eq!(world.server_gets(1), "", "{request}");
        assert_eq!(world.client_gets(client), reply);
    }
    for (request, reply) in
        [("cas KEY 0 0 1 TOKEN\r\nx\r\n", "EXISTS\r\n"), ("ms KEY 1 MA CTOKEN\r\nx\r\n", "EX\r\n")]
    {
        let with = |cas: u64| request.replace("KEY", &key).replace("TOKEN", &cas.to_string());
        world.send(client, &with(token(0, 7)));
        assert_eq!(world.server_gets(0), with(7));
        world.server_says(0, reply);
        assert_eq!(world.server_gets(1), "", "{request}");
        assert_eq!(world.client_gets(client), reply);
    }
    assert_eq!(world.report().counters.replicas_invalidated, 0);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn flags_of_later_servers_pass() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    let shown = format!("HD c{}\r\n", token(0, 7));
    for (request, reply, follower) in [
        (format!("ms {key} 1 E7 c\r\nx\r\n"), "HD c7\r\n", format!("ms {key} 1\r\nx\r\n")),
        (format!("ms {key} 1 ~\r\nx\r\n"), "HD\r\n", format!("delete {key}\r\n")),
        (format!("md {key} x\r\n"), "HD\r\n", format!("delete {key}\r\n")),
        (format!("mg {key} v ~\r\n"), "VA 1 ~\r\nx\r\n", String::new()),
    ] {
        world.send(client, &request);
        assert_eq!(world.server_gets(0), request);
        world.server_says(0, reply);
        assert_eq!(world.server_gets(1), follower, "{request}");
        if !follower.is_empty() {
            world.server_says(1, if follower.starts_with("ms ") { "HD\r\n" } else { "DELETED\r\n" });
        }
        assert_eq!(world.client_gets(client), if reply == "HD c7\r\n" { &shown } else { reply });
    }
    assert!(world.dataplane.is_quiet());
}

#[test]
fn an_undecided_write_makes_the_others_forget_without_keeping_the_client() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    world.send(client, &format!("append {key} 0 0 1\r\nx\r\n"));
    world.server_gets(0);
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:1\r\n");
    assert_eq!(world.server_gets(1), format!("delete {key}\r\n"));
    world.server_says(1, "DELETED\r\n");
    assert_eq!(world.server_gets(0), format!("delete {key}\r\n"), "it may have done it");
    world.server_says(0, "STORED\r\nDELETED\r\n");
    assert_eq!(world.client_gets(client), "");
    assert!(world.dataplane.is_quiet());
}

/// A message of the second step is given up before those that stand before it. When these are answered nothing is late any more.
#[test]
fn what_was_given_up_behind_others_is_no_deadline_later() {
    let mut world = World::with(2, 2, unjoined());
    let (client, other) = (world.client(), world.client());
    let (key, younger) = (world.key_on(0), world.keys_on(1, 2));
    world.send(client, &format!("incr {key} 5\r\n"));
    world.server_gets(0);
    world.pass(TIMEOUT / 2);
    for key in &younger {
        // It is not asked elsewhere: it may store something.
        world.send(other, &format!("mg {key} N30\r\n"));
    }
    world.server_says(0, "15\r\n");
    world.server_gets(1);
    world.pass(TIMEOUT / 2);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:2\r\n");
    world.server_gets(1);
    assert_eq!(world.hears(other, 1, "EN\r\n"), "EN\r\n");
    let next = world.dataplane.poll_timeout().expect("a get is not answered");
    assert!(next > world.now, "{next:?} is past at {:?}", world.now);
}

/// A message of the second step stands in its queue behind younger ones, and is late before them all the same.
#[test]
fn both_steps_of_a_conditional_write_share_one_deadline() {
    let mut world = World::with(2, 2, unjoined());
    let (client, other) = (world.client(), world.client());
    let (key, younger) = (world.key_on(0), world.keys_on(1, 2));
    world.send(client, &format!("incr {key} 5\r\n"));
    world.server_gets(0);
    world.pass(TIMEOUT / 2);
    for key in &younger {
        // It is not asked elsewhere: it may store something.
        world.send(other, &format!("mg {key} N30\r\n"));
    }
    world.server_says(0, "15\r\n");
    world.server_gets(1);
    assert_eq!(world.dataplane.poll_timeout(), Some(world.now.plus(TIMEOUT / 2)));
    world.pass(TIMEOUT / 2);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:2\r\n");
    assert_eq!(world.dataplane.poll_timeout(), Some(world.now.plus(TIMEOUT / 2)));
    // It may lack the write, so it forgets the key behind it.
    assert_eq!(world.server_gets(1), format!("delete {key}\r\n"));
    world.server_says(1, "EN\r\nEN\r\n15\r\nDELETED\r\n");
    assert_eq!(world.client_gets(other), "EN\r\nEN\r\n");
    assert!(world.dataplane.is_quiet());
}

/// Deadlines were compared with the last message's only, and one for which nobody waited hid the younger ones before it.
#[test]
fn a_second_step_behind_an_unattended_message_is_late_in_time() {
    let mut world = World::new(2, 2);
    let (client, other) = (world.client(), world.client());
    let (keys, younger) = (world.keys_on(0, 2), world.key_on(1));
    world.send(client, &format!("append {} 0 0 1\r\nx\r\n", keys[0]));
    world.server_gets(0);
    world.pass(TIMEOUT / 2);
    world.send(client, &format!("incr {} 5\r\n", keys[1]));
    world.server_gets(0);
    world.pass(TIMEOUT / 2 - 1);
    world.send(other, &format!("get {younger}\r\n"));
    world.pass(1);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:1\r\n");
    world.server_says(0, "STORED\r\n15\r\n");
    assert_eq!(
        world.server_gets(1),
        format!("get {younger}\r\ndelete {}\r\nincr {} 5\r\n", keys[0], keys[1])
    );
    world.pass(TIMEOUT / 2);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:2\r\n");
}

#[test]
fn a_replica_that_fails_fails_the_write() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    world.send(client, &format!("set {key} 0 0 1\r\nx\r\n"));
    world.server_gets(0);
    world.server_gets(1);
    world.server_says(0, "STORED\r\n");
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:2\r\n");
}

/// Clients whose writes wait for one key.
#[test]
fn a_write_whose_time_is_up_in_its_keys_line_asks_nobody_and_no_server_is_blamed() {
    let mut world = World::new(2, 2);
    let key = world.key_on(0);
    let clients = [0; 6].map(|_| world.client());
    let incr = format!("incr {key} 1\r\n");
    // A value that is too large deletes the old one, in its turn. Where it was not deleted the client hears that.
    clients[..4].iter().for_each(|&client| world.send(client, &incr));
    world.send(clients[4], &format!("set {key} 0 0 1048577 noreply\r\n"));
    world.send(clients[5], &format!("set {key} 0 0 1048577\r\n"));
    assert_eq!(world.server_gets(0), incr);
    world.pass(TIMEOUT - MS);
    world.server_says(0, "1\r\n");
    assert_eq!(world.server_gets(1), incr);
    world.server_says(1, "1\r\n");
    // It has waited for nearly as long as a server may take. That is not the server's fault.
    assert_eq!(world.server_gets(0), incr);
    world.pass(2 * MS);
    world.server_says(0, "2\r\n");
    assert_eq!(world.server_gets(0), "");
    assert_eq!(world.server_gets(1), incr);
    world.server_says(1, "2\r\n");
    let timeout = "SERVER_ERROR timeout s:1\r\n";
    assert_eq!(world.all_hear(&clients), ["1\r\n", "2\r\n", timeout, timeout, "", timeout]);
    let counters = world.report().counters;
    assert_eq!((counters.writes_held, counters.writes_overdue), (5, 4));
    assert_eq!((counters.server_timeouts, counters.journal_keys, counters.replicas_invalidated), (0, 0, 0));
    assert!(world.dataplane.is_quiet());
}

/// It was answered when its turn came: after up to two timeouts, for the one before it has a whole time of its own.
#[test]
fn a_write_in_its_keys_line_is_answered_when_its_time_is_up_whoever_stands_before_it() {
    let mut world = World::new(2, 2);
    let key = world.key_on(0);
    let clients = [0; 4].map(|_| world.client());
    let incr = format!("incr {key} 1\r\n");
    clients[..2].iter().for_each(|&client| world.send(client, &incr));
    assert_eq!(world.server_gets(0), incr);
    world.pass(10 * MS);
    world.send(clients[2], &format!("{incr}mn\r\n"));
    world.pass(TIMEOUT - 11 * MS);
    world.send(clients[3], &incr);
    world.server_says(0, "1\r\n");
    assert_eq!(world.server_gets(1), incr);
    world.server_says(1, "1\r\n");
    assert_eq!(world.server_gets(0), incr, "the second one's turn comes in time");
    world.pass(MS);
    assert_eq!(world.dataplane.poll_timeout(), Some(world.now.plus(10 * MS)));
    world.pass(10 * MS - 1);
    assert_eq!(world.all_hear(&clients), ["1\r\n", "", "", ""]);
    world.pass(1);
    let timeout = "SERVER_ERROR timeout s:1\r\nMN\r\n";
    assert_eq!(world.all_hear(&clients), ["", "", timeout, ""], "the second one is with its server");
    world.server_says(0, "2\r\n");
    assert_eq!(
        (world.server_gets(0), world.server_gets(1)),
        (incr.clone(), incr.clone()),
        "the last one's turn"
    );
    world.server_says(1, "2\r\n");
    world.server_says(0, "3\r\n");
    assert_eq!(world.server_gets(1), incr);
    world.server_says(1, "3\r\n");
    assert_eq!(world.all_hear(&clients), ["", "2\r\n", "", "3\r\n"]);
    let counters = world.report().counters;
    assert_eq!((counters.writes_held, counters.writes_overdue, counters.server_timeouts), (3, 1, 0));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn who_leaves_a_keys_line_lets_the_others_keep_their_order() {
    let mut world = World::new(2, 2);
    let key = world.key_on(0);
    let clients = [0; 5].map(|_| world.client());
    let append = |number: usize| format!("append {key} 0 0 1\r\n{number}\r\n");
    for (number, &client) in clients.iter().enumerate() {
        world.send(client, &append(number));
    }
    for gone in [2, 4] {
        world.dataplane.handle_client_closed(clients[gone]);
    }
    for number in [0, 1, 3] {
        assert_eq!(world.server_gets(0), append(number));
        world.server_says(0, "STORED\r\n");
        let followed = world.server_gets(1);
        assert_eq!(followed, append(number));
        world.server_says(1, "STORED\r\n");
        assert_eq!(world.client_gets(clients[number]), "STORED\r\n");
    }
    assert!(world.dataplane.is_quiet());
}

/// It was sent, because only writes to several servers were looked at.
#[test]
fn a_write_whose_time_is_up_is_not_sent_though_its_key_has_one_server_by_then() {
    let mut world = World::new(2, 2);
    let key = world.key_on(0);
    let clients = [0; 2].map(|_| world.client());
    let incr = format!("incr {key} 1\r\n");
    clients.iter().for_each(|&client| world.send(client, &incr));
    assert_eq!(world.server_gets(0), incr);
    world.reload(router(&["s:1", "s:2"], 1));
    world.pass(TIMEOUT);
    let timeout = "SERVER_ERROR timeout s:1\r\n";
    assert_eq!(world.all_hear(&clients), [timeout, timeout]);
    assert!(!world.server_gets(0).contains("incr"));
    assert_eq!(world.report().counters.writes_overdue, 1);
}

/// The first step of a write has the whole timeout from its turn on; at a silent follower the time of the second ran from when it came.
#[test]
fn a_follower_that_is_silent_has_time_for_the_second_step() {
    let mut world = World::new(2, 2);
    let (key, others) = (world.key_on(0), world.key_on(1));
    let [reader, first, second] = [0; 3].map(|_| world.client());
    world.send(reader, &format!("get {others}\r\n"));
    world.pass(2 * TIMEOUT);
    world.pass(TIMEOUT);
    let incr = format!("incr {key} 1\r\n");
    [first, second].iter().for_each(|&client| world.send(client, &incr));
    assert_eq!(world.server_gets(0), incr);
    world.pass(TIMEOUT - MS);
    world.server_says(0, "1\r\n");
    assert_eq!(world.server_gets(0), incr, "the second one's turn comes in time");
    world.pass(2 * MS);
    let late = world.report().counters.server_timeouts;
    world.server_says(0, "2\r\n");
    world.turn();
    assert_eq!(world.report().counters.server_timeouts, late, "it has had no time yet");
}

/// Its head came while there was no room for its value, and there is when it is its turn: the rest may come late or never.
#[test]
fn a_write_that_is_not_whole_in_its_turn_holds_up_nobody_behind_it() {
    const LIMIT: usize = 8 << 20;
    let mut world =
        World::with(2, 2, weir_dataplane::Config { buffer_bytes_max: LIMIT, ..Default::default() });
    let key = world.key_on(0);
    let [first, slow, other] = [0; 3].map(|_| world.client());
    let incr = format!("incr {key} 1\r\n");
    world.send(first, &incr);
    assert_eq!(world.server_gets(0), incr);
    let others = world.dataplane.budget().charge(LIMIT);
    world.turn();
    world.send(slow, &format!("set {key} 0 0 900000\r\nx"));
    drop(others);
    world.send(other, &incr);
    assert_eq!(world.report().counters.writes_held, 2);
    world.server_says(0, "1\r\n");
    assert_eq!(world.server_gets(1), incr);
    world.server_says(1, "1\r\n");
    world.turn();
    assert_eq!(world.server_gets(0), incr, "the other one's write begins");
    world.server_says(0, "2\r\n");
    assert_eq!(world.server_gets(1), incr);
    world.server_says(1, "2\r\n");
    assert_eq!(world.all_hear(&[first, slow, other]), ["1\r\n", "", "2\r\n"]);
}

/// A line moves no faster than its key's server, which has its whole time for each: who has waited is late only at a silent one.
#[test]
fn a_silent_server_is_not_waited_for_again_by_each_of_a_line() {
    let mut world = World::new(2, 2);
    let key = world.key_on(0);
    let clients = [0; 4].map(|_| world.client());
    let incr = format!("incr {key} 1\r\n");
    clients.iter().for_each(|&client| world.send(client, &incr));
    assert_eq!(world.server_gets(0), incr);
    world.pass(TIMEOUT);
    let timeout = "SERVER_ERROR timeout s:1\r\n";
    let heard = world.all_hear(&clients);
    assert_eq!(heard[0], timeout);
    assert!(heard[1..].iter().all(|it| it.starts_with("SERVER_ERROR timeout ")), "{heard:?}");
    assert_eq!(world.report().counters.server_timeouts, 1);
}
