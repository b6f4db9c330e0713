//! Which replica is read.

use crate::world::{MS, World, slot};
use weir_dataplane::{Config, ReadPolicy, SessionId};

fn reading(read_policy: ReadPolicy) -> Config {
    Config { read_policy, ..Config::default() }
}

impl World {
    /// Who is asked for a key; it has it, and takes this long to say so.
    fn read(&mut self, client: SessionId, key: &str, nanos: [u64; 3]) -> usize {
        let value = format!("VALUE {key} 0 1\r\nx\r\nEND\r\n");
        self.send(client, &format!("get {key}\r\n"));
        let asked = (0..3).find(|&server| !self.server_gets(server).is_empty()).expect("somebody is asked");
        self.pass(nanos[asked]);
        assert_eq!(self.hears(client, asked, &value), value);
        asked
    }
}

#[test]
fn spread_reads_ask_all_that_may_be_read_in_turn() {
    let mut world = World::with(3, 3, reading(ReadPolicy::Spread));
    let client = world.client();
    let key = world.key_on(0);
    let mut asked: Vec<usize> = (0..6).map(|_| world.read(client, &key, [0; 3])).collect();
    asked.sort_unstable();
    assert_eq!(asked, [0, 0, 1, 1, 2, 2]);
    world.dataplane.handle_server_disconnected(slot(1), world.now);
    assert!((0..6).all(|_| world.read(client, &key, [0; 3]) != 1));
}

#[test]
fn what_a_spread_read_does_not_find_is_asked_of_the_decider() {
    let mut world = World::with(2, 2, reading(ReadPolicy::Spread));
    let client = world.client();
    let key = world.key_on(0);
    let get = format!("get {key}\r\n");
    let mut asked_again = 0;
    for _ in 0..4 {
        world.send(client, &get);
        if world.server_gets(1) == get {
            world.server_says(1, "END\r\n");
            assert_eq!(world.client_gets(client), "");
            assert_eq!(world.server_gets(0), get);
            asked_again += 1;
        } else {
            assert_eq!(world.server_gets(0), get);
        }
        assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
    }
    assert_eq!((asked_again, world.report().counters.keys_asked_again), (2, 2));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_client_reads_its_own_undecided_write_where_it_is_decided() {
    let mut world = World::with(2, 2, reading(ReadPolicy::Spread));
    let client = world.client();
    let key = world.key_on(0);
    for _ in 0..4 {
        world.send(client, &format!("incr {key} 1\r\nget {key}\r\n"));
        assert_eq!(world.server_gets(0), format!("incr {key} 1\r\nget {key}\r\n"));
        world.server_says(0, "NOT_FOUND\r\nEND\r\n");
        assert_eq!(world.client_gets(client), "NOT_FOUND\r\nEND\r\n");
    }
}

#[test]
fn nearest_asks_who_answers_fastest_and_tries_the_others_now_and_then() {
    let mut world = World::with(3, 3, reading(ReadPolicy::Nearest));
    let client = world.client();
    let key = world.key_on(0);
    let count = |world: &mut World, nanos: [u64; 3]| {
        let mut counts = [0; 3];
        (0..960).for_each(|_| counts[world.read(client, &key, nanos)] += 1);
        counts
    };
    let counts = count(&mut world, [3 * MS, 2 * MS, MS]);
    assert!(counts[2] > 900 && counts[0] > 0 && counts[1] > 0, "{counts:?}");
    // It becomes slow; the others are known to be faster.
    let counts = count(&mut world, [3 * MS, 2 * MS, 9 * MS]);
    assert!(counts[1] > 800, "{counts:?}");
    // Another becomes fast, which only trials can show.
    let counts = count(&mut world, [MS / 10, 2 * MS, 9 * MS]);
    assert!(counts[0] > 400, "{counts:?}");
}
