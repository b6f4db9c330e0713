//! Whom a retrieval is asked of, and what is answered when some of them do not answer.

use crate::world::{TIMEOUT, World, slot};
use weir_dataplane::{Config, Multiget, OnFailure};
use weir_timing::{Operation, Stage};

fn sharded() -> Config {
    Config::default()
}

fn whole() -> Config {
    Config { multiget: Multiget::Whole, ..Config::default() }
}

fn degrade() -> Config {
    Config { on_failure: OnFailure::Degrade, ..Config::default() }
}

/// `get` of these keys.
fn get(keys: &[String]) -> String {
    format!("get {}\r\n", keys.join(" "))
}

/// The reply in which each of these keys has its own name as its value.
fn values(keys: &[String]) -> String {
    keys.iter().map(|key| format!("VALUE {key} 0 {}\r\n{key}\r\n", key.len())).collect::<String>() + "END\r\n"
}

fn counts(asked: &[String]) -> Vec<usize> {
    asked.iter().map(|asked| asked.split_whitespace().count().saturating_sub(1)).collect()
}

fn keys(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("key{number}")).collect()
}

impl World {
    /// The server's connection is lost and cannot be made again.
    fn kill(&mut self, server: usize) {
        self.dataplane.handle_server_disconnected(slot(server), self.now);
        self.dataplane.handle_server_disconnected(slot(server), self.now);
        self.turn();
    }

    /// What leaves for each server.
    fn servers_get(&mut self) -> Vec<String> {
        (0..self.router.servers().len()).map(|server| self.server_gets(server)).collect()
    }

    /// How many keys each server is asked for.
    fn key_counts(&mut self) -> Vec<usize> {
        counts(&self.servers_get())
    }

    /// Every server answers what it was asked, with every key.
    fn servers_answer(&mut self) {
        for server in 0..self.router.servers().len() {
            let asked = self.server_gets(server);
            let replies: String = asked
                .lines()
                .map(|line| values(&line.split(' ').skip(1).map(str::to_owned).collect::<Vec<_>>()))
                .collect();
            self.server_says(server, &replies);
        }
    }
}

#[test]
fn where_every_server_has_every_key_parts_are_equal_and_the_first_server_rotates() {
    let mut world = World::with(3, 3, sharded());
    let client = world.client();
    let keys = keys(8);
    for first in [0, 1, 2, 0] {
        world.send(client, &get(&keys));
        let mut parts = ["".to_owned(), String::new(), String::new()];
        for (step, range) in [0..3, 3..6, 6..8].into_iter().enumerate() {
            parts[(first + step) % 3] = get(&keys[range]);
        }
        let asked = world.servers_get();
        assert_eq!(asked, parts);
        // The last part is answered first.
        for step in [2, 0, 1] {
            let server = (first + step) % 3;
            let part: Vec<_> = asked[server].split_whitespace().skip(1).map(str::to_owned).collect();
            world.server_says(server, &values(&part));
        }
        assert_eq!(world.client_gets(client), values(&keys));
    }
    assert_eq!(world.report().counters.reads_failed_over, 0);
}

#[test]
fn with_fewer_keys_than_servers_each_part_has_one_key() {
    let mut world = World::with(4, 4, sharded());
    let client = world.client();
    let keys = keys(2);
    for first in 0..5 {
        world.send(client, &get(&keys));
        let asked = world.servers_get();
        for (server, asked) in asked.iter().enumerate() {
            let expected = match (server + 4 - first % 4) % 4 {
                part @ (0 | 1) => get(&keys[part..=part]),
                _ => String::new(),
            };
            assert_eq!(*asked, expected, "request {first}, server {server}");
            if !asked.is_empty() {
                let part = asked.trim_end().rsplit(' ').next().map(str::to_owned);
                world.server_says(server, &values(&part.into_iter().collect::<Vec<_>>()));
            }
        }
        assert_eq!(world.client_gets(client), values(&keys));
    }
}

#[test]
fn a_key_that_is_asked_for_twice_comes_twice() {
    for (servers, replicas, config) in
        [(3, 3, sharded()), (3, 2, sharded()), (3, 3, whole()), (3, 1, sharded())]
    {
        let mut world = World::with(servers, replicas, config);
        let client = world.client();
        let keys = ["a", "b", "a", "c", "a", "a"].map(str::to_owned);
        world.send(client, &get(&keys));
        world.servers_answer();
        assert_eq!(world.client_gets(client), values(&keys), "{servers} {replicas}");
        assert!(world.dataplane.is_quiet());
    }
}

#[test]
fn with_fewer_replicas_than_servers_parts_are_as_equal_as_placement_allows() {
    let mut world = World::with(3, 2, sharded());
    let client = world.client();
    // All of them are on 0 and 1; by primaries one server would answer for all.
    let keys = world.keys_on(0, 6);
    world.send(client, &get(&keys));
    let asked = world.servers_get();
    assert_eq!(counts(&asked), [3, 3, 0]);
    for (server, asked) in asked.iter().enumerate().take(2) {
        let part: Vec<_> = asked.split_whitespace().skip(1).map(str::to_owned).collect();
        world.server_says(server, &values(&part));
    }
    assert_eq!(world.client_gets(client), values(&keys));
    // One more on 1 and 2 relieves 1.
    let more = [keys, world.keys_on(1, 3)].concat();
    world.send(client, &get(&more));
    assert_eq!(world.key_counts(), [3, 3, 3]);
}

#[test]
fn servers_that_are_down_or_full_are_left_out() {
    let keys = keys(9);
    let mut world = World::with(3, 3, sharded());
    let client = world.client();
    world.kill(1);
    for _ in 0..3 {
        world.send(client, &get(&keys));
        let mut parts = world.key_counts();
        parts.sort_unstable();
        assert_eq!(parts, [0, 4, 5]);
    }
    assert_eq!(world.report().counters.server_refusals_down, 0);

    let mut world = World::with(3, 2, sharded());
    let client = world.client();
    world.kill(1);
    world.send(client, &get(&world.keys_on(1, 4)));
    assert_eq!(world.key_counts(), [0, 0, 4]);

    let mut world = World::with(2, 2, Config { server_requests_max: 1, ..sharded() });
    let client = world.client();
    let key = world.key_on(0);
    world.send(client, &format!("gets {key}\r\n{}", get(&keys)));
    assert_eq!(world.key_counts(), [1, 9]);
}

#[test]
fn tokens_and_expiry_times_are_asked_of_the_deciders() {
    for (replicas, config) in [(3, sharded()), (3, whole()), (2, sharded())] {
        let mut world = World::with(3, replicas, config);
        let (client, other) = (world.client(), world.client());
        let keys = world.keys_on(1, 2);
        for (session, request) in [(client, "gets"), (other, "gat 10"), (other, "gats 10")] {
            let request = format!("{request} {}\r\n", keys.join(" "));
            world.send(session, &request);
            assert_eq!(world.servers_get(), ["", request.as_str(), ""]);
        }
        world.kill(1);
        // What changes nothing is asked of the next one at once.
        assert_eq!(world.servers_get(), ["", "", format!("gets {}\r\n", keys.join(" ")).as_str()]);
        assert_eq!(world.hears(client, 2, "END\r\n"), "END\r\n");
        assert!(world.client_gets(other).starts_with("SERVER_ERROR "));
        for request in ["gets", "gat 10", "gats 10"] {
            world.send(client, &format!("{request} {}\r\n{request} {}\r\n", keys.join(" "), keys[0]));
            // The next replica decides.
            let both = format!("{request} {}\r\n{request} {}\r\n", keys.join(" "), keys[0]);
            assert_eq!(world.servers_get(), ["", "", both.as_str()]);
            assert_eq!(world.hears(client, 2, "END\r\nEND\r\n"), "END\r\nEND\r\n");
        }
    }
}

#[test]
fn a_get_of_one_key_asks_the_next_live_replica_when_the_primary_is_down() {
    let mut world = World::with(4, 3, sharded());
    let client = world.client();
    let key = world.key_on(3);
    for (killed, expected) in [(None, 3), (Some(3), 0), (Some(0), 1)] {
        if let Some(killed) = killed {
            world.kill(killed);
        }
        world.send(client, &format!("get {key}\r\nmg {key} v\r\n"));
        let asked = world.servers_get();
        assert_eq!(asked[expected], format!("get {key}\r\nmg {key} v\r\n"));
        assert_eq!(asked.concat().len(), asked[expected].len());
        world.server_says(expected, "END\r\nEN\r\n");
        assert_eq!(world.client_gets(client), "END\r\nEN\r\n");
    }
    assert_eq!(world.report().counters.reads_failed_over, 4);
    world.kill(1);
    world.send(client, &format!("get {key}\r\n"));
    assert_eq!(world.servers_get().concat(), "");
    assert_eq!(world.client_gets(client), "SERVER_ERROR down s:4\r\n");
}

#[test]
fn a_meta_get_is_asked_of_the_next_replica_when_the_primary_is_down() {
    let mut world = World::with(2, 2, sharded());
    let client = world.client();
    let key = world.key_on(0);
    world.kill(0);
    for flags in [" c", " v T30", " v N30", "", " k O7 q"] {
        world.send(client, &format!("mg {key}{flags}\r\n"));
    }
    assert_eq!((world.server_gets(0).len(), world.server_gets(1).matches("mg ").count()), (0, 5));
}

#[test]
fn whole_asks_the_server_of_the_first_key_or_the_next_live_one() {
    let mut world = World::with(3, 3, whole());
    let client = world.client();
    let keys = [world.keys_on(1, 1), world.keys_on(0, 2), world.keys_on(2, 2)].concat();
    for (killed, expected) in [(None, 1), (Some(1), 2), (Some(2), 0)] {
        if let Some(killed) = killed {
            world.kill(killed);
        }
        world.send(client, &get(&keys));
        let mut parts = [""; 3];
        let request = get(&keys);
        parts[expected] = &request;
        assert_eq!(world.servers_get(), parts);
        world.server_says(expected, &values(&keys));
        assert_eq!(world.client_gets(client), values(&keys));
    }
    world.kill(0);
    world.send(client, &get(&keys));
    assert_eq!(world.client_gets(client), "SERVER_ERROR down s:2\r\n");
}

#[test]
fn auto_tries_both_ways_and_settles() {
    let mut world = World::with(3, 3, Config { multiget: Multiget::Auto, ..Config::default() });
    let client = world.client();
    let keys = keys(6);
    // Each message takes a millisecond, one after the other; keys take nothing. Whole is faster.
    for _ in 0..400 {
        world.send(client, &get(&keys));
        let asked = world.servers_get();
        for (server, asked) in asked.iter().enumerate().filter(|(_, asked)| !asked.is_empty()) {
            world.pass(1_000_000);
            let part: Vec<_> = asked.split_whitespace().skip(1).map(str::to_owned).collect();
            world.server_says(server, &values(&part));
        }
        assert_eq!(world.client_gets(client), values(&keys));
    }
    let counters = world.report().counters;
    assert_eq!(counters.multigets_auto_whole + counters.multigets_auto_sharded, 400);
    assert!((5..50).contains(&counters.multigets_auto_sharded), "{}", counters.multigets_auto_sharded);
}

#[test]
fn auto_is_sharded_where_no_server_has_all() {
    let mut world = World::with(3, 2, Config { multiget: Multiget::Auto, ..Config::default() });
    let client = world.client();
    world.send(client, &get(&world.keys_on(0, 4)));
    assert_eq!(world.key_counts(), [2, 2, 0]);
    assert_eq!(world.report().counters.multigets_auto_sharded, 0);
}

#[test]
fn what_a_follower_does_not_have_is_asked_of_the_primary() {
    let mut world = World::with(3, 3, sharded());
    let client = world.client();
    let keys = [world.keys_on(0, 3), world.keys_on(1, 3)].concat();
    world.send(client, &get(&keys));
    assert_eq!(world.servers_get(), [get(&keys[..2]), get(&keys[2..4]), get(&keys[4..])]);
    // 0 is the primary of its keys: what it has not is not there. 1 has none of its two, 2 only the first.
    world.server_says(0, &values(&keys[..1]));
    world.server_says(1, &values(&[]));
    world.pass(1000);
    world.server_says(2, &values(&keys[4..5]));
    assert_eq!(world.client_gets(client), "");
    assert_eq!(world.servers_get(), [get(&keys[2..3]), get(&keys[5..]), String::new()]);
    world.server_says(1, &values(&keys[5..]));
    world.pass(500);
    world.server_says(0, &values(&keys[2..3]));
    let found = [0, 2, 4, 5].map(|number| keys[number].clone());
    assert_eq!(world.client_gets(client), values(&found));
    let report = world.report();
    assert_eq!((report.counters.keys_asked_again, report.counters.keys_degraded), (2, 0));
    let counts = report.timing.operation(Operation::MultiGet);
    assert_eq!((counts.hits, counts.misses()), (4, 2));
    assert_eq!(counts.stage(Stage::Backend).sum(), 1500, "both steps are time at the servers");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn nothing_is_asked_again_where_it_is_no_use() {
    // R = 1; a primary that is down; a write of the same client behind; a client that has gone; strict and failed.
    for case in 0..5 {
        let replicas = if case == 0 { 1 } else { 2 };
        let mut world = World::with(2, replicas, sharded());
        let client = world.client();
        let keys = [world.keys_on(1, 1), world.keys_on(0, 1)].concat();
        if case == 1 {
            world.kill(1);
        }
        world.send(client, &get(&keys));
        if case == 2 {
            world.send(client, &format!("set {} 0 0 1\r\nx\r\n", keys[0]));
        }
        let asked = world.servers_get();
        if case == 3 {
            world.dataplane.handle_client_closed(client);
        }
        for (server, asked) in asked.iter().enumerate() {
            if case == 4 && server == 1 {
                world.server_says(1, "SERVER_ERROR out of memory\r\n");
            } else if !asked.is_empty() {
                world.server_says(server, "END\r\n");
            }
            if asked.contains("set ") {
                world.server_says(server, "STORED\r\n");
            }
        }
        assert_eq!(world.servers_get(), ["", ""], "case {case}");
        let expected = match case {
            2 => "END\r\nSTORED\r\n",
            3 => "",
            4 => "SERVER_ERROR out of memory\r\n",
            _ => "END\r\n",
        };
        assert_eq!(world.client_gets(client), expected, "case {case}");
        assert_eq!(world.report().counters.keys_asked_again, 0);
        assert!(world.dataplane.is_quiet());
    }
}

#[test]
fn a_failure_of_the_second_step_is_one_like_any_other() {
    for config in [sharded(), degrade()] {
        let degrades = config.on_failure == OnFailure::Degrade;
        let mut world = World::with(2, 2, config);
        let client = world.client();
        let keys = [world.keys_on(0, 1), world.keys_on(0, 1)].concat();
        world.send(client, &get(&keys));
        assert_eq!(world.key_counts(), [1, 1]);
        world.server_says(0, &values(&keys[..1]));
        world.server_says(1, &values(&[]));
        assert_eq!(world.server_gets(0), get(&keys[1..]));
        world.pass(TIMEOUT);
        let expected = if degrades { values(&keys[..1]) } else { "SERVER_ERROR timeout s:1\r\n".to_owned() };
        assert_eq!(world.client_gets(client), expected);
        assert_eq!(world.report().counters.keys_degraded, u64::from(degrades));
    }
}

#[test]
fn a_client_never_reads_at_a_follower_what_it_has_overwritten() {
    let mut world = World::with(2, 2, sharded());
    let (client, other) = (world.client(), world.client());
    let keys = world.keys_on(0, 2);
    // The follower hears of the write only when the primary has decided it.
    world.send(client, &format!("incr {} 1\r\n{}", keys[0], get(&keys)));
    assert_eq!(world.servers_get(), [format!("incr {} 1\r\n{}", keys[0], get(&keys)), String::new()]);
    world.send(other, &get(&keys));
    assert_eq!(world.key_counts(), [1, 1]);
    world.server_says(0, &format!("2\r\n{}{}", values(&keys), values(&keys[..1])));
    assert_eq!(world.server_gets(1), format!("incr {} 1\r\n", keys[0]));
    world.server_says(1, &format!("{}2\r\n", values(&keys[1..])));
    assert_eq!(world.client_gets(client), format!("2\r\n{}", values(&keys)));
    assert_eq!(world.client_gets(other), values(&keys));
    world.send(client, &get(&keys));
    assert_eq!(world.key_counts(), [1, 1]);
}

#[test]
fn strict_is_one_error_whatever_the_other_parts_say() {
    let mut world = World::with(3, 1, sharded());
    let client = world.client();
    let keys: Vec<_> = (0..3).map(|server| world.key_on(server)).collect();
    // Timeout, lost connection, and an error of a server, each in the middle.
    for failure in 0..3 {
        world.send(client, &get(&keys));
        world.servers_get();
        world.server_says(0, &values(&keys[..1]));
        world.server_says(2, &values(&keys[2..]));
        let expected = match failure {
            0 => {
                world.pass(TIMEOUT);
                world.server_says(1, "END\r\n");
                "SERVER_ERROR timeout s:2\r\n"
            }
            1 => {
                world.server_says(1, "VALUE k");
                world.dataplane.handle_server_disconnected(slot(1), world.now);
                world.dataplane.handle_server_connected(slot(1), world.now);
                world.turn();
                "SERVER_ERROR closed s:2\r\n"
            }
            _ => {
                let value = values(&keys[1..2]).replace("END\r\n", "");
                world.server_says(1, &format!("{value}SERVER_ERROR out of memory\r\n"));
                "SERVER_ERROR out of memory\r\n"
            }
        };
        assert_eq!(world.client_gets(client), expected);
    }
    world.kill(1);
    world.send(client, &get(&keys));
    assert_eq!(world.servers_get(), ["", "", ""], "nothing is sent that cannot be answered");
    assert_eq!(world.client_gets(client), "SERVER_ERROR down s:2\r\n");
    let counters = world.report().counters;
    assert_eq!((counters.keys_degraded, counters.requests_failed), (0, 4));
}

#[test]
fn degrade_makes_misses_of_the_keys_of_parts_that_fail() {
    let mut world = World::with(3, 1, degrade());
    let client = world.client();
    let keys: Vec<_> = [0, 1, 2, 1].into_iter().map(|server| world.key_on(server)).collect();
    let found = values(&[keys[0].clone(), keys[2].clone()]);
    for failure in 0..4 {
        if failure == 3 {
            world.kill(1);
        }
        world.send(client, &get(&keys));
        let asked = world.servers_get();
        assert_eq!(asked[1].is_empty(), failure == 3);
        world.server_says(0, &values(&keys[..1]));
        world.server_says(2, &values(&keys[2..3]));
        match failure {
            0 => world.pass(TIMEOUT),
            1 => {
                world.server_says(1, "VALUE k");
                world.dataplane.handle_server_disconnected(slot(1), world.now);
                world.dataplane.handle_server_connected(slot(1), world.now);
                world.turn();
            }
            2 => {
                let value = values(&keys[1..2]).replace("END\r\n", "");
                world.server_says(1, &format!("{value}SERVER_ERROR out of memory\r\n"));
            }
            _ => {}
        }
        assert_eq!(world.client_gets(client), found, "failure {failure}");
    }
    let report = world.report();
    assert_eq!((report.counters.keys_degraded, report.counters.requests_failed), (8, 0));
    let counts = report.timing.operation(Operation::MultiGet);
    assert_eq!((counts.requests, counts.errors, counts.hits, counts.misses()), (4, 0, 8, 8));
}

#[test]
fn degrade_answers_even_when_nobody_can_be_asked() {
    for (replicas, multiget) in
        [(1, Multiget::Sharded), (2, Multiget::Sharded), (3, Multiget::Sharded), (3, Multiget::Whole)]
    {
        let mut world = World::with(3, replicas, Config { multiget, ..degrade() });
        let client = world.client();
        let keys = keys(5);
        (0..3).for_each(|server| world.kill(server));
        world.send(client, &format!("{}gets {}\r\nget a\r\ngat 5 a\r\n", get(&keys), keys.join(" ")));
        assert_eq!(world.client_gets(client), "END\r\n".repeat(4));
        assert_eq!(world.report().counters.keys_degraded, 12);
        // Writes are not reads.
        world.send(client, "set a 0 0 1\r\nx\r\nincr a 1\r\nme a\r\n");
        assert_eq!(world.client_gets(client).matches("SERVER_ERROR down ").count(), 3);
        assert!(world.dataplane.is_quiet());
    }
}

#[test]
fn degrade_makes_a_miss_of_a_get_of_one_key() {
    let mut world = World::with(1, 1, degrade());
    let client = world.client();
    world.send(client, "get a\r\n");
    world.server_gets(0);
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(client), "END\r\n");
    // The late reply reaches nobody.
    world.server_says(0, "VALUE a 0 1\r\nx\r\nEND\r\n");
    world.send(client, "get b\r\n");
    world.server_gets(0);
    world.server_says(0, "SERVER_ERROR out of memory\r\n");
    assert_eq!(world.client_gets(client), "END\r\n");
    let report = world.report();
    assert_eq!((report.counters.keys_degraded, report.counters.server_timeouts), (2, 1));
    assert_eq!(report.timing.operation(Operation::Get).misses(), 2);
}

#[test]
fn what_a_server_says_to_a_mistake_stays() {
    let mut world = World::with(1, 1, degrade());
    let client = world.client();
    for (request, reply) in [
        ("mg a !\r\n", "CLIENT_ERROR invalid flag\r\n"),
        ("get a b\r\n", "CLIENT_ERROR line format\r\n"),
        ("gets a\r\n", "ERROR\r\n"),
    ] {
        world.send(client, request);
        world.server_gets(0);
        world.server_says(0, reply);
        assert_eq!(world.client_gets(client), reply);
    }
    assert_eq!(world.report().counters.keys_degraded, 0);
}

#[test]
fn degrade_makes_a_miss_of_a_meta_get_and_keeps_its_barrier() {
    let mut world = World::with(2, 1, degrade());
    let client = world.client();
    let (dead, live) = (world.key_on(0), world.key_on(1));
    for at_dispatch in [false, true] {
        if at_dispatch {
            world.kill(0);
        }
        let request =
            format!("mg {dead} v q\r\nmg {live} v k q\r\nmg {dead} k v O9\r\nmn\r\nmg {dead} v\r\n");
        world.send(client, &request);
        world.servers_get();
        world.server_says(1, &format!("VA 1 k{live}\r\nx\r\n"));
        if !at_dispatch {
            assert_eq!(world.client_gets(client), "", "the first one may still come");
            world.dataplane.handle_server_disconnected(slot(0), world.now);
            world.turn();
        }
        let expected = format!("VA 1 k{live}\r\nx\r\nEN k{dead} O9\r\nMN\r\nEN\r\n");
        assert_eq!(world.client_gets(client), expected);
    }
    assert_eq!(world.report().counters.keys_degraded, 6);
    assert!(world.dataplane.is_quiet());
}
