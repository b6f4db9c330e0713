//! All buffers together: who is not read, what is refused, and what is given back.

use crate::world::{MS, World, slot};
use std::sync::Arc;
use weir_dataplane::{AskOnce, Budget, Config, Event, JoinGets, SessionId};

const LIMIT: usize = 1 << 20;

fn config() -> Config {
    Config { buffer_bytes_max: LIMIT, large_value_bytes: usize::MAX, ..Config::default() }
}

fn world() -> World {
    World::with(1, 1, config())
}

/// A reply with a value of this many bytes.
fn reply(length: usize) -> String {
    format!("VALUE a 0 {length}\r\n{}\r\nEND\r\n", "x".repeat(length))
}

/// A client that asks, and takes only the first byte of the reply.
fn unread(world: &mut World, length: usize) -> SessionId {
    let client = world.client();
    world.send(client, "get a\r\n");
    world.server_gets(0);
    world.server_says(0, &reply(length));
    assert!(world.dataplane.client_output(client).len() > length, "it was refused");
    world.dataplane.handle_client_written(client, 1, world.now);
    world.turn();
    client
}

fn held(world: &World) -> usize {
    world.dataplane.budget().held()
}

#[test]
fn a_client_that_leaves_replies_unread_is_not_read_while_much_is_held() {
    let mut world = world();
    let clients: Vec<_> = (0..4).map(|_| unread(&mut world, LIMIT / 6)).collect();
    assert!(held(&world) > LIMIT / 2 && held(&world) < LIMIT);
    world.send(clients[0], "get b\r\n");
    assert!(!world.dataplane.wants_read(clients[0]));
    assert_eq!(world.server_gets(0), "", "it is not taken");
    // Whoever reads is served.
    let other = world.client();
    world.send(other, "get c\r\n");
    assert_eq!(world.server_gets(0), "get c\r\n");
    assert_eq!(world.hears(other, 0, "END\r\n"), "END\r\n");
    // When it reads, it goes on.
    world.dataplane.handle_client_writable(clients[0]);
    world.client_gets(clients[0]);
    assert!(world.events.contains(&Event::Resume(clients[0])));
    assert_eq!(world.server_gets(0), "get b\r\n");
    assert_eq!(world.hears(clients[0], 0, "END\r\n"), "END\r\n");
    assert_eq!(world.report().counters.sessions_paused_memory, 1);
    for client in clients {
        world.dataplane.handle_client_closed(client);
    }
    world.pass(2_000_000_000);
    assert_eq!(held(&world), 0);
}

#[test]
fn replies_for_clients_that_do_not_read_are_refused_before_those_for_others() {
    let mut world = World::with(1, 1, Config { join_gets: JoinGets::Off, ..config() });
    let deaf = world.client();
    world.send(deaf, &"get a\r\n".repeat(10));
    world.server_gets(0);
    world.server_says(0, &reply(LIMIT / 5));
    world.dataplane.handle_client_written(deaf, 1, world.now);
    for _ in 0..9 {
        world.server_says(0, &reply(LIMIT / 5));
        assert!(held(&world) <= LIMIT, "{}", held(&world));
    }
    let refused = world.report().counters.buffer_refusals_full;
    assert!((5..9).contains(&refused), "{refused}");
    let other = world.client();
    world.send(other, "get a\r\n");
    world.server_gets(0);
    assert_eq!(world.hears(other, 0, &reply(LIMIT / 8)), reply(LIMIT / 8));
    world.dataplane.handle_client_writable(deaf);
    let out = world.client_gets(deaf);
    assert_eq!(out.matches("SERVER_ERROR buffer-full proxy\r\n").count() as u64, refused);
    assert_eq!(out.matches("END\r\n").count() as u64, 10 - refused);
}

#[test]
fn one_value_for_many_who_want_it_does_not_go_beyond_the_limit() {
    let mut world = world();
    let clients: Vec<_> = (0..20).map(|_| world.client()).collect();
    for client in &clients {
        world.send(*client, "get a\r\n");
    }
    assert_eq!(world.server_gets(0), "get a\r\n");
    world.server_says(0, &reply(LIMIT / 5));
    assert!(held(&world) <= LIMIT, "{}", held(&world));
    let answers: Vec<_> = clients.iter().map(|client| world.client_gets(*client)).collect();
    let refused = answers.iter().filter(|answer| *answer == "SERVER_ERROR buffer-full proxy\r\n").count();
    assert_eq!(world.report().counters.buffer_refusals_full, refused as u64);
    assert!((14..20).contains(&refused), "{refused}");
    assert!(answers.iter().all(|answer| answer.starts_with("SERVER_ERROR") || *answer == reply(LIMIT / 5)));
}

#[test]
fn one_reply_for_many_who_wait_for_it_does_not_go_beyond_the_limit() {
    let mut world = World::with(1, 1, Config { ask_once: AskOnce::On, ..config() });
    let clients: Vec<_> = (0..40).map(|_| world.client()).collect();
    assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
    for client in &clients[1..] {
        assert_eq!(world.asks(*client, "get a"), "", "it waits");
    }
    let reply = reply(60_000);
    world.server_says(0, &reply);
    let then_held = held(&world);
    let (refused, served) = refused_and_served(&mut world, &clients);
    assert_eq!((refused, refused + served), (40 - LIMIT / reply.len(), 40));
    assert!((served * reply.len()..=LIMIT).contains(&then_held), "{then_held}");
}

#[test]
fn kept_values_for_clients_that_go_on_in_one_turn_do_not_go_beyond_the_limit() {
    const EACH: usize = 16;
    for (length, is_long) in [(4_000, false), (60_000, true)] {
        let config = Config { near_cache_entries: 64, session_requests_max: EACH, ..config() };
        let mut world = World::with(1, 1, config);
        let reply = reply(length);
        let first = world.client();
        for _ in 0..3 {
            assert_eq!(world.asks(first, "get a"), "get a\r\n");
            assert!(world.hears(first, 0, &reply) == reply);
        }
        let clients: Vec<_> = (0..4).map(|_| world.client()).collect();
        for client in &clients {
            world.send(*client, &("gets b\r\n".repeat(EACH) + &"get a\r\n".repeat(EACH)));
        }
        let all = EACH * clients.len();
        assert_eq!(world.server_gets(0), "gets b\r\n".repeat(all), "each waits for its own");
        world.server_says(0, &"END\r\n".repeat(all));
        for client in &clients {
            let len = world.dataplane.client_output(*client).len();
            world.dataplane.handle_client_written(*client, len, world.now);
        }
        // All go on, and then it is known what they hold.
        world.turn();
        world.turn();
        let then_held = held(&world);
        let (refused, served) = refused_and_served(&mut world, &clients);
        assert_eq!((refused > 0, refused + served), (is_long, all), "{length} bytes: {refused}");
        assert!(served * reply.len() <= LIMIT, "{length} bytes: {served}");
        let held_max = LIMIT + reply.len();
        assert!((served * reply.len()..=held_max).contains(&then_held), "{length} bytes: {then_held}");
    }
}

/// How many answers of these clients are refusals for lack of room, and how many are replies.
fn refused_and_served(world: &mut World, clients: &[SessionId]) -> (usize, usize) {
    let heard = world.all_hear(clients).concat();
    let refused = heard.matches("SERVER_ERROR buffer-full proxy\r\n").count();
    assert_eq!(world.report().counters.buffer_refusals_full, refused as u64);
    (refused, heard.matches("END\r\n").count())
}

#[test]
fn beyond_the_limit_long_replies_are_refused_and_short_ones_are_not() {
    let budget = Budget::new(LIMIT);
    let mut world = world();
    world.dataplane.share_budget(&budget);
    let others = budget.charge(LIMIT);
    world.turn();
    let client = world.client();
    for (length, expected) in [(100, reply(100)), (5000, "SERVER_ERROR buffer-full proxy\r\n".to_owned())] {
        world.send(client, "get a\r\n");
        world.server_gets(0);
        assert_eq!(world.hears(client, 0, &reply(length)), expected);
    }
    drop(others);
    world.turn();
    world.send(client, "get a\r\n");
    world.server_gets(0);
    assert_eq!(world.hears(client, 0, &reply(5000)), reply(5000));
}

#[test]
fn a_long_value_for_which_there_is_no_room_is_swallowed_and_the_old_one_deleted() {
    let mut world = world();
    let budget = Arc::clone(world.dataplane.budget());
    let others = budget.charge(LIMIT / 2);
    world.turn();
    let client = world.client();
    let value = "x".repeat(LIMIT / 3);
    for piece in
        [&format!("set a 0 0 {}\r\n{}", value.len(), &value[..10])[..], &value[10..], "\r\nversion\r\n"]
    {
        world.send(client, piece);
    }
    assert_eq!(world.server_gets(0), "delete a\r\n");
    let out = world.hears(client, 0, "DELETED\r\n");
    assert!(out.starts_with("SERVER_ERROR out of memory storing object\r\nVERSION "), "{out}");
    assert_eq!(world.report().counters.requests_refused_memory, 1);
    // A short one is stored all the same.
    world.send(client, "set a 0 0 1\r\nx\r\n");
    assert_eq!(world.server_gets(0), "set a 0 0 1\r\nx\r\n");
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "STORED\r\n");
    drop(others);
    world.turn();
    world.send(client, &format!("set a 0 0 {}\r\n", value.len()));
    world.send(client, &value);
    world.send(client, "\r\n");
    assert_eq!(world.server_gets(0).len(), value.len() + "set a 0 0 349525\r\n\r\n".len());
}

#[test]
fn a_line_without_end_for_which_there_is_no_room_ends_the_connection() {
    let mut world = world();
    let _others = world.dataplane.budget().charge(LIMIT);
    world.turn();
    let client = world.client();
    world.send(client, &format!("get {}", "k ".repeat(40_000)));
    assert_eq!(world.client_gets(client), "SERVER_ERROR out of memory storing object\r\n");
    assert_eq!(world.events, [Event::Close(client)]);
}

/// They are kept until the replies have come that are compared with them.
#[test]
fn keys_of_gets_that_are_not_answered_count() {
    let mut world = world();
    let client = world.client();
    let keys: String = (0..31).map(|number| format!(" {number:0>250}")).collect();
    for _ in 0..20 {
        world.send(client, &format!("get{keys}\r\n"));
        assert!(!world.server_gets(0).is_empty(), "it has left");
    }
    world.turn();
    assert!(held(&world) >= 20 * keys.len(), "{}", held(&world));
    world.server_says(0, &"END\r\n".repeat(20));
    assert_eq!(world.client_gets(client), "END\r\n".repeat(20));
    world.pass(1_000_000_000);
    world.dataplane.record_turn(0);
    assert_eq!(held(&world), 0);
}

#[test]
fn values_of_a_split_multi_get_count_while_they_wait_for_the_others() {
    let mut world = World::with(2, 1, Config { buffer_bytes_max: LIMIT, ..Config::default() });
    let client = world.client();
    let (first, second) = (world.key_on(0), world.key_on(1));
    let of = |key: &str, length: usize| reply(length).replace("VALUE a", &format!("VALUE {key}"));
    world.send(client, &format!("get {first} {second}\r\n"));
    world.server_gets(0);
    world.server_gets(1);
    world.server_says(0, &of(&first, LIMIT / 2));
    world.turn();
    assert!(held(&world) > LIMIT / 2);
    world.server_says(1, &of(&second, LIMIT / 2));
    assert_eq!(world.client_gets(client), "SERVER_ERROR buffer-full proxy\r\n");
    world.dataplane.handle_client_closed(client);
    world.pass(2_000_000_000);
    assert_eq!(held(&world), 0);
}

#[test]
fn while_memory_is_scarce_clients_that_take_nothing_are_closed_the_longest_silent_first() {
    let mut world = world();
    let mut clients = Vec::new();
    // The last of them is admitted because it is not known yet not to read.
    for _ in 0..5 {
        clients.push(unread(&mut world, LIMIT / 6));
        world.pass(100 * MS);
    }
    assert!(held(&world) > LIMIT / 4 * 3);
    assert_eq!(world.events, []);
    world.pass(100 * MS);
    assert_eq!(world.events, [Event::Close(clients[0])]);
    world.dataplane.handle_client_closed(clients[0]);
    assert_eq!(world.report().counters.sessions_closed_memory, 1);
    world.pass(1000 * MS);
    world.pass(1000 * MS);
    assert_eq!(world.events, [Event::Close(clients[0])], "there is enough again");
}

/// They kept three quarters of the memory of all for as long as they liked.
#[test]
fn while_memory_is_scarce_clients_that_take_a_little_now_and_then_are_closed_too() {
    let mut world = world();
    let slow: Vec<_> = (0..4).map(|_| unread(&mut world, LIMIT / 5)).collect();
    assert!(held(&world) > LIMIT / 4 * 3, "{}", held(&world));
    for _ in 0..6 {
        world.pass(100 * MS);
        if !world.events.is_empty() {
            break;
        }
        for (number, client) in slow.iter().enumerate() {
            world.dataplane.handle_client_writable(*client);
            let count = if number == 0 { 30_000 } else { 1 };
            world.dataplane.handle_client_written(*client, count, world.now);
        }
    }
    assert_eq!(world.events, [Event::Close(slow[1])], "one is enough, and the first goes on");
    world.dataplane.handle_client_closed(slow[1]);
    assert_eq!(world.report().counters.sessions_closed_memory, 1);
    world.pass(1000 * MS);
    assert_eq!(world.events.len(), 1, "there is enough again");
}

#[test]
fn what_others_gave_back_is_known_before_anything_is_refused() {
    let mut world = world();
    let budget = Arc::clone(world.dataplane.budget());
    let client = world.client();
    let value = "x".repeat(LIMIT / 3);
    // This loop knows that others hold all, and then sleeps while they give it back.
    let others = budget.charge(LIMIT);
    world.turn();
    drop(others);
    world.dataplane.handle_client_bytes(client, b"get a\r\n", world.now);
    world.server_gets(0);
    world.dataplane.handle_server_bytes(slot(0), reply(LIMIT / 8).as_bytes(), world.now);
    assert_eq!(world.client_gets(client).len(), reply(LIMIT / 8).len());
    let others = budget.charge(LIMIT);
    world.turn();
    drop(others);
    world.dataplane.handle_client_bytes(
        client,
        format!("set a 0 0 {}\r\n", value.len()).as_bytes(),
        world.now,
    );
    world.dataplane.handle_client_bytes(client, format!("{value}\r\n").as_bytes(), world.now);
    assert_eq!(world.server_gets(0).len(), value.len() + "set a 0 0 349525\r\n\r\n".len());
    assert_eq!(world.report().counters.requests_refused_memory, 0);
}

#[test]
fn what_a_loop_gives_back_in_a_turn_is_reported_with_it() {
    let mut world = world();
    let client = unread(&mut world, LIMIT / 6);
    assert!(held(&world) > LIMIT / 6);
    world.dataplane.handle_client_writable(client);
    world.client_gets(client);
    // A second later its buffers are freed. Nothing wakes this loop soon after that.
    world.pass(1_000_000_000);
    world.dataplane.record_turn(0);
    assert!(world.dataplane.poll_timeout().is_none_or(|at| at > world.now.plus(5_000_000_000)));
    assert_eq!(held(&world), 0);
    // The same where a client leaves after everything else of a turn.
    let client = unread(&mut world, LIMIT / 6);
    assert!(held(&world) > LIMIT / 6);
    world.pass(1_000_000_000);
    world.dataplane.handle_client_closed(client);
    world.dataplane.record_turn(0);
    assert_eq!(held(&world), 0);
}

#[test]
fn what_a_slow_client_has_taken_is_given_back_although_nothing_else_happens() {
    let mut world = world();
    let client = unread(&mut world, LIMIT / 6);
    world.pass(2_000_000_000);
    world.dataplane.handle_client_writable(client);
    world.client_gets(client);
    world.dataplane.record_turn(0);
    while let Some(at) = world.dataplane.poll_timeout().filter(|_| held(&world) > 0) {
        world.now = world.now.max(at);
        world.turn();
        world.dataplane.record_turn(0);
    }
    assert_eq!(held(&world), 0);
}

#[test]
fn a_client_that_was_not_read_because_of_what_others_held_is_read_when_they_gave_it_back() {
    let mut world = world();
    let budget = Arc::clone(world.dataplane.budget());
    let others = budget.charge(LIMIT / 5 * 3);
    let client = unread(&mut world, 10_000);
    // It sends before it takes the rest: it would wait for us as we wait for it.
    world.send(client, "get b\r\n");
    assert!(!world.dataplane.wants_read(client));
    assert_eq!(world.server_gets(0), "", "it is not taken");
    world.pass(200 * MS);
    assert!(!world.dataplane.wants_read(client), "others still hold much");
    drop(others);
    let look = world.dataplane.poll_timeout().expect("it looks again");
    assert!(look <= world.now.plus(200 * MS), "and soon");
    world.now = look;
    world.turn();
    assert!(world.dataplane.wants_read(client));
    assert_eq!(world.server_gets(0), "get b\r\n");
}

/// Reads of many keys go over the bulk connection, whose number is 1, in slices.
fn world_of_slices() -> World {
    World::with(1, 1, Config { buffer_bytes_max: LIMIT, slice_bytes: 1 << 20, ..Config::default() })
}

#[test]
fn keys_that_are_still_to_be_asked_for_count() {
    let mut world = world_of_slices();
    let line = format!("get{}\r\n", (0..30_000).map(|number| format!(" key{number}")).collect::<String>());
    let rest = line.len() - 1000;
    let clients: Vec<_> = (0..3).map(|_| world.client()).collect();
    for (number, client) in clients.iter().enumerate() {
        world.send(*client, &line);
        world.dataplane.handle_server_connected(slot(1), world.now);
        world.turn();
        assert!(!world.server_gets(1).is_empty(), "its first slice is asked for");
        // The line is not kept once it was taken; its keys are.
        world.dataplane.handle_time(world.now);
        assert!(held(&world) > (number + 1) * rest, "{} of {number} more than {rest}", held(&world));
    }
    for client in clients {
        world.dataplane.handle_client_closed(client);
    }
    world.server_says(1, &"END\r\n".repeat(3));
    world.pass(2_000_000_000);
    world.pass(2_000_000_000);
    assert_eq!(held(&world), 0);
}

#[test]
fn keys_of_a_read_that_is_over_count_no_more() {
    let mut world = world_of_slices();
    let client = world.client();
    world.send(client, &format!("get{}\r\n", " k".repeat(60_000)));
    world.dataplane.handle_server_connected(slot(1), world.now);
    world.turn();
    let mut reply = String::new();
    while reply.is_empty() {
        assert!(held(&world) > 2 * 59_000, "{}", held(&world));
        assert!(!world.server_gets(1).is_empty(), "a slice is asked for");
        reply = world.hears(client, 1, "END\r\n");
    }
    assert_eq!(reply, "END\r\n");
    world.pass(2_000_000_000);
    world.pass(2_000_000_000);
    assert_eq!(held(&world), 0);
    assert!(world.dataplane.is_quiet());
}
