//! Servers that are connected and do not answer.

use crate::world::{TIMEOUT, World, slot};
use weir_dataplane::{Config, Event, OnFailure, SessionId};

impl World {
    /// Requests to one server that it does not answer in time.
    fn times_out(&mut self, client: SessionId, server: usize, count: usize) {
        for key in self.keys_on(server, count) {
            self.send(client, &format!("gets {key}\r\n"));
        }
        self.server_gets(server);
        self.pass(TIMEOUT);
        assert_eq!(self.client_gets(client).matches("SERVER_ERROR timeout").count(), count);
    }
}

#[test]
fn a_server_that_was_late_three_times_in_a_row_is_left_alone_until_it_answers() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    world.times_out(client, 0, 2);
    assert_eq!(world.report().servers[0].state, "up");
    world.times_out(client, 0, 1);
    assert_eq!(world.report().servers[0].state, "down");
    assert_eq!(world.server_gets(0), "version\r\n");
    // Reads and writes go on without it.
    world.send(client, &format!("get {key}\r\nset {key} 0 0 1\r\nx\r\n"));
    assert_eq!(world.server_gets(0), "");
    assert_eq!(world.server_gets(1), format!("get {key}\r\nset {key} 0 0 1\r\nx\r\n"));
    assert_eq!(world.hears(client, 1, "END\r\nSTORED\r\n"), "END\r\nSTORED\r\n");
    // Old replies show nothing: the question stands behind all that it may still do.
    world.server_says(0, "END\r\nEND\r\n");
    assert_eq!(world.report().servers[0].state, "down");
    world.server_says(0, "END\r\nVERSION 1.6.18\r\n");
    assert_eq!(world.report().servers[0].state, "up");
    assert_eq!(world.server_gets(0), format!("delete {key}\r\n"), "it missed a write");
    world.send(client, &format!("get {key}\r\n"));
    assert_eq!(world.server_gets(1), format!("get {key}\r\n"));
    world.server_says(0, "NOT_FOUND\r\n");
    world.send(client, &format!("get {key}\r\n"));
    assert_eq!(world.server_gets(0), format!("get {key}\r\n"));
    let counters = world.report().counters;
    assert_eq!((counters.servers_marked_down, counters.servers_marked_up), (1, 1));
}

#[test]
fn a_reply_between_them_begins_the_row_anew() {
    let mut world = World::new(2, 2);
    let client = world.client();
    for _ in 0..3 {
        world.times_out(client, 0, 2);
        world.pass(1);
        world.server_says(0, "END\r\nEND\r\n");
    }
    assert_eq!(world.report().servers[0].state, "up");
    assert_eq!(world.report().counters.servers_marked_down, 0);
}

/// Marks these servers down, or tries to: three requests to each are late.
fn fall_silent(world: &mut World, client: SessionId, silent: &[usize]) {
    for &server in silent {
        // At each key's primary, whichever servers are still asked.
        for key in world.keys_on(server, 3) {
            world.send(client, &format!("set {key} 0 0 1\r\nx\r\n"));
        }
    }
    let servers = world.report().servers.len();
    for server in 0..servers {
        let asked = world.server_gets(server).matches("set ").count();
        if !silent.contains(&server) {
            world.server_says(server, &"STORED\r\n".repeat(asked));
        }
    }
    world.pass(TIMEOUT);
}

fn marked_down(world: &World) -> usize {
    world.report().servers.iter().filter(|server| server.state == "down").count()
}

#[test]
fn no_more_than_half_of_a_pool_is_marked_down_by_timeouts_while_others_answer() {
    for (servers, silent, marked) in [(3, 2, 1), (4, 3, 2), (5, 3, 2)] {
        let mut world = World::new(servers, 2);
        let client = world.client();
        let silent: Vec<usize> = (0..silent).collect();
        fall_silent(&mut world, client, &silent);
        assert_eq!(marked_down(&world), marked, "{silent:?} of {servers}");
    }
}

/// Nothing goes anywhere else because of it, so there is nothing to be spared: whoever asks gets an error at once.
#[test]
fn where_all_servers_fell_silent_at_once_all_are_marked_down() {
    for (servers, share) in [(2, 50), (3, 50), (3, 0)] {
        let config = Config { mark_down_share_percent: share, ..Config::default() };
        let mut world = World::with(servers, 2, config);
        let client = world.client();
        let all: Vec<usize> = (0..servers).collect();
        fall_silent(&mut world, client, &all);
        world.client_gets(client);
        // Who was late before the last of them fell silent is marked down with its next timeout.
        fall_silent(&mut world, client, &all);
        world.client_gets(client);
        assert_eq!(marked_down(&world), servers, "of {servers}");
        let key = world.key_on(0);
        world.send(client, &format!("set {key} 0 0 1\r\nx\r\n"));
        assert_eq!(world.client_gets(client), "SERVER_ERROR down s:1\r\n");
    }
}

/// It cost each request the whole timeout for ever, because marking a server down was for keys with several servers.
#[test]
fn a_silent_server_whose_keys_have_no_other_is_answered_for_at_once() {
    for (on_failure, answer) in
        [(OnFailure::Strict, "SERVER_ERROR down s:1\r\n"), (OnFailure::Degrade, "END\r\n")]
    {
        let mut world = World::with(1, 1, Config { on_failure, ..Config::default() });
        let client = world.client();
        for key in world.keys_on(0, 3) {
            world.send(client, &format!("gets {key}\r\n"));
        }
        world.server_gets(0);
        world.pass(TIMEOUT);
        world.client_gets(client);
        assert_eq!(world.report().servers[0].state, "down");
        assert_eq!(world.server_gets(0), "version\r\n");
        world.send(client, "get a\r\nget b\r\n");
        assert_eq!(world.client_gets(client), answer.repeat(2));
        world.send(client, "set a 0 0 1\r\nx\r\n");
        assert_eq!(world.client_gets(client), "SERVER_ERROR down s:1\r\n");
        // One question is under way, and no second one, however long it takes.
        world.pass(100 * TIMEOUT);
        assert_eq!(world.server_gets(0), "");
        world.server_says(0, "END\r\nEND\r\nEND\r\nVERSION 1.6.18\r\n");
        assert_eq!(world.report().servers[0].state, "up");
        world.send(client, "get a\r\n");
        assert_eq!(world.server_gets(0), "get a\r\n");
        assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
    }
}

#[test]
fn a_silent_server_that_ends_its_connection_is_connected_anew() {
    let mut world = World::new(2, 2);
    let client = world.client();
    world.times_out(client, 0, 3);
    assert_eq!(world.report().servers[0].state, "down");
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    assert_eq!(world.report().servers[0].state, "connecting");
    world.dataplane.handle_server_connected(slot(0), world.now);
    assert_eq!(world.report().servers[0].state, "up");
}

#[test]
fn where_it_is_not_wanted_nobody_is_marked_down_by_timeouts() {
    for replicas in [1, 2] {
        let mut world = World::with(2, replicas, Config { mark_down_timeouts: 0, ..Config::default() });
        let client = world.client();
        world.times_out(client, 0, 9);
        assert_eq!(world.report().servers[0].state, "up");
    }
}

impl World {
    fn sets(&mut self, client: SessionId, key: &str) {
        self.send(client, &format!("set {key} 0 0 1\r\nx\r\n"));
        assert_eq!(self.server_gets(0), format!("set {key} 0 0 1\r\nx\r\n"));
    }
}

#[test]
fn a_server_that_swallowed_a_request_is_found_out_of_step_and_connected_to_anew() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.sets(client, "swallowed");
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:1\r\n");
    assert_eq!(world.server_gets(0), "", "it may only be slow");
    world.sets(client, "a");
    world.pass(1);
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "", "taken for the reply to the one that was swallowed");
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:1\r\n");
    assert_eq!(world.server_gets(0), "version\r\n");
    world.events.clear();
    world.server_says(0, "VERSION 1.6.18\r\n");
    assert_eq!(world.events, [Event::Disconnect(slot(0)), Event::Connect(slot(0))]);
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.sets(client, "b");
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "STORED\r\n");
    let counters = world.report().counters;
    assert_eq!((counters.server_step_checks, counters.server_violations), (1, 1));
}

#[test]
fn a_reply_in_the_place_of_the_version_shows_it_too() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.sets(client, "swallowed");
    world.pass(TIMEOUT);
    world.sets(client, "a");
    world.pass(1);
    world.server_says(0, "STORED\r\n");
    world.pass(TIMEOUT);
    // The question is swallowed as well.
    assert_eq!(world.server_gets(0), "version\r\n");
    world.sets(client, "b");
    world.sets(client, "c");
    world.events.clear();
    world.server_says(0, "STORED\r\nSTORED\r\n");
    assert_eq!(world.events, [Event::Disconnect(slot(0)), Event::Connect(slot(0))]);
}

#[test]
fn a_server_that_is_only_slow_is_in_step_and_keeps_its_connection() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.sets(client, "a");
    for round in 1..=3 {
        world.pass(TIMEOUT);
        world.client_gets(client);
        world.sets(client, "b");
        world.pass(1);
        world.server_says(0, "STORED\r\n");
        world.pass(TIMEOUT);
        assert_eq!(world.server_gets(0), "version\r\n");
        world.sets(client, "c");
        world.events.clear();
        world.server_says(0, "STORED\r\nVERSION 1.6.18\r\n");
        assert_eq!(world.events, []);
        assert_eq!(world.report().counters.server_step_checks, round);
    }
}

/// A worker of the pool held a key for ever: the question was lost as well, the next reply was taken for the one that was waited for, and then
/// the question stood where nobody looked.
#[test]
fn a_server_that_swallowed_the_question_too_is_asked_again_though_its_place_comes_next() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.sets(client, "swallowed");
    world.pass(TIMEOUT);
    for pause in [1, 2] {
        world.pass(pause * TIMEOUT);
        assert_eq!(world.server_gets(0), "version\r\n", "swallowed as well");
    }
    world.client_gets(client);
    world.sets(client, "a");
    world.pass(1);
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "", "taken for the reply to the one that was swallowed");
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:1\r\n");
    world.pass(3 * TIMEOUT);
    assert_eq!(world.server_gets(0), "version\r\n".repeat(3), "one more than were swallowed");
    world.events.clear();
    world.server_says(0, &"VERSION 1.6.18\r\n".repeat(3));
    assert_eq!(world.events, [Event::Disconnect(slot(0)), Event::Connect(slot(0))]);
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.pass(100 * TIMEOUT);
    assert_eq!(world.server_gets(0), "");
}

/// It is found all the same: each time those that were lost become fewer.
#[test]
fn a_server_that_swallowed_many_questions_is_asked_a_bounded_number_at_once() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.sets(client, "swallowed");
    world.pass(TIMEOUT);
    for _ in 0..40 {
        world.pass(64 * TIMEOUT);
        assert_eq!(world.server_gets(0), "version\r\n", "swallowed as well");
    }
    world.client_gets(client);
    world.sets(client, "a");
    world.pass(1);
    world.server_says(0, "STORED\r\n");
    world.pass(TIMEOUT);
    world.client_gets(client);
    world.events.clear();
    for asked in [32, 9] {
        world.pass(64 * TIMEOUT);
        assert_eq!(world.server_gets(0), "version\r\n".repeat(asked));
        world.server_says(0, &"VERSION 1.6.18\r\n".repeat(asked));
    }
    assert_eq!(world.events, [Event::Disconnect(slot(0)), Event::Connect(slot(0))]);
}

#[test]
fn a_server_whose_lost_request_is_waited_for_is_asked_though_nobody_wants_anything() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.sets(client, "swallowed");
    world.pass(TIMEOUT);
    for pause in [1, 2, 4] {
        world.pass(pause * TIMEOUT - 1);
        assert_eq!(world.server_gets(0), "");
        assert_eq!(world.dataplane.poll_timeout(), Some(world.now.plus(1)));
        world.pass(1);
        assert_eq!(world.server_gets(0), "version\r\n", "all but the last are swallowed as well");
    }
    world.events.clear();
    world.server_says(0, "VERSION 1.6.18\r\n");
    assert_eq!(world.events, [Event::Disconnect(slot(0)), Event::Connect(slot(0))]);
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.pass(100 * TIMEOUT);
    assert_eq!(world.server_gets(0), "");
}
