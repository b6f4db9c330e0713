//! Values that requests in service keep until their server has answered: they count, and none is kept while much is held.

use crate::world::{TIMEOUT, World, unjoined};
use weir_dataplane::{Config, SessionId};

const LIMIT: usize = 1 << 20;
const VALUE: usize = 60_000;

/// More than may be kept of `LIMIT`.
const COUNT: usize = 40;

fn config() -> Config {
    Config { buffer_bytes_max: LIMIT, large_value_bytes: usize::MAX, ..unjoined() }
}

fn held(world: &World) -> usize {
    world.dataplane.budget().held()
}

/// Each client sends one of these in the same turn, and the first server gets all and says nothing.
fn send_all(world: &mut World, requests: &[String]) -> Vec<SessionId> {
    let clients: Vec<_> = requests.iter().map(|_| world.client()).collect();
    for (client, request) in clients.iter().zip(requests) {
        world.dataplane.handle_client_bytes(*client, request.as_bytes(), world.now);
    }
    assert_eq!(world.server_gets(0).len(), requests.concat().len());
    world.turn();
    world.dataplane.record_turn(0);
    clients
}

fn value() -> String {
    "x".repeat(VALUE)
}

/// The last messages to the other replica: how many store the value, and how many delete the key.
fn followed(world: &mut World, keys: &[String]) -> (usize, usize) {
    let sent = world.server_gets(1);
    let count =
        |message: &dyn Fn(&String) -> String| keys.iter().filter(|key| sent.contains(&message(key))).count();
    let stored = count(&|key| format!("set {key} 0 0 {VALUE}\r\n{}\r\n", value()));
    let deleted = count(&|key| format!("delete {key}\r\n"));
    (stored, deleted)
}

#[test]
fn what_followers_are_to_be_sent_counts_and_is_not_kept_while_much_is_held() {
    let mut world = World::with(2, 2, config());
    let keys = world.keys_on(0, COUNT);
    let adds: Vec<_> = keys.iter().map(|key| format!("add {key} 0 0 {VALUE}\r\n{}\r\n", value())).collect();
    let clients = send_all(&mut world, &adds);
    let kept = held(&world) / VALUE;
    assert!((LIMIT / 2..LIMIT / 2 + 2 * VALUE).contains(&held(&world)), "{} bytes are seen", held(&world));
    assert!(kept < COUNT, "{kept}");
    // Others learn of it at the end of the turn in which it is given back.
    world.dataplane.handle_server_bytes(
        crate::world::slot(0),
        "STORED\r\n".repeat(COUNT).as_bytes(),
        world.now,
    );
    assert_eq!(followed(&mut world, &keys), (kept, COUNT - kept), "each copy is the same, or is missing");
    world.dataplane.handle_server_bytes(
        crate::world::slot(1),
        // In the order in which the keys were decided.
        ("STORED\r\n".repeat(kept) + &"DELETED\r\n".repeat(COUNT - kept)).as_bytes(),
        world.now,
    );
    world.turn();
    assert_eq!(world.all_hear(&clients), vec!["STORED\r\n"; COUNT]);
    let counters = world.report().counters;
    assert_eq!(counters.replicas_followed, kept as u64);
    assert_eq!(
        (counters.replicas_invalidated, counters.follow_refusals_memory),
        ((COUNT - kept) as u64, (COUNT - kept) as u64)
    );
    world.pass(2_000_000_000);
    world.dataplane.record_turn(0);
    assert_eq!(held(&world), 0);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn what_followers_are_not_sent_any_more_is_given_back_before_they_have_answered() {
    let mut world = World::with(2, 2, config());
    let keys = world.keys_on(0, 4);
    let adds: Vec<_> = keys.iter().map(|key| format!("add {key} 0 0 {VALUE}\r\n{}\r\n", value())).collect();
    let clients = send_all(&mut world, &adds);
    let before = held(&world);
    world.pass(TIMEOUT);
    assert_eq!(world.all_hear(&clients), vec!["SERVER_ERROR timeout s:1\r\n"; 4]);
    assert_eq!(followed(&mut world, &keys), (0, 4));
    world.dataplane.record_turn(0);
    assert!(before - held(&world) >= 4 * VALUE, "{before} bytes were seen, and then {}", held(&world));
}

#[test]
fn short_values_are_followed_however_much_is_held() {
    let mut world = World::with(2, 2, config());
    let others = world.dataplane.budget().charge(LIMIT);
    world.turn();
    let (client, key) = (world.client(), world.key_on(0));
    for (request, reply, followed) in [
        (format!("add {key} 0 0 5\r\nhello\r\n"), "STORED\r\n", format!("set {key} 0 0 5\r\nhello\r\n")),
        (format!("incr {key} 1\r\n"), "6\r\n", format!("incr {key} 1\r\n")),
        (format!("ms {key} 5 ME\r\nhello\r\n"), "HD\r\n", format!("ms {key} 5\r\nhello\r\n")),
    ] {
        world.send(client, &request);
        assert_eq!(world.server_gets(0), request);
        world.server_says(0, reply);
        assert_eq!(world.server_gets(1), followed);
        assert_eq!(world.hears(client, 1, reply), reply);
    }
    // Of a longer one it is the length that counts, wherever in the message it is.
    for request in [
        format!("add {key} 0 0 2000\r\n{}\r\n", "x".repeat(2000)),
        format!("add {key} {}7 0 1\r\nx\r\n", "0".repeat(2000)),
        format!("incr {key} {}1\r\n", "0".repeat(2000)),
        format!("ms {key} 2000 ME\r\n{}\r\n", "x".repeat(2000)),
    ] {
        world.send(client, &request);
        assert_ne!(world.server_gets(0), "", "{request}");
        let reply = if request.starts_with('i') {
            "7\r\n"
        } else if request.starts_with('m') {
            "HD\r\n"
        } else {
            "STORED\r\n"
        };
        world.server_says(0, reply);
        assert_eq!(world.server_gets(1), format!("delete {key}\r\n"), "{request}");
        assert_eq!(world.hears(client, 1, "DELETED\r\n"), reply);
    }
    drop(others);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn what_is_stored_under_near_keys_counts_and_is_not_kept_while_much_is_held() {
    let mut world = World::with(1, 1, Config { near_cache_entries: 256, ..config() });
    let client = world.client();
    let keys = world.keys_on(0, COUNT);
    for key in keys.iter().flat_map(|key| [key; 3]) {
        assert_eq!(world.asks(client, &format!("get {key}")), format!("get {key}\r\n"));
        world.hears(client, 0, "END\r\n");
    }
    let near = world.report().counters.near_full;
    let sets: Vec<_> = keys.iter().map(|key| format!("set {key} 0 0 {VALUE}\r\n{}\r\n", value())).collect();
    let clients = send_all(&mut world, &sets);
    let kept = held(&world) / VALUE;
    assert!((LIMIT / 2..LIMIT / 2 + 2 * VALUE).contains(&held(&world)), "{} bytes are seen", held(&world));
    assert!(kept < COUNT, "{kept}");
    world.server_says(0, &"STORED\r\n".repeat(COUNT));
    assert_eq!(world.all_hear(&clients), vec!["STORED\r\n"; COUNT]);
    let counters = world.report().counters;
    assert_eq!((counters.near_kept, counters.near_full - near), (kept as u64, (COUNT - kept) as u64));
    world.dataplane.record_turn(0);
    // Whether it was kept or is asked for, it is the value that was stored.
    for (number, key) in keys.iter().enumerate() {
        let expected = format!("VALUE {key} 0 {VALUE}\r\n{}\r\nEND\r\n", value());
        let asked = world.asks(client, &format!("get {key}"));
        // Keys that share a count are asked for.
        assert!(!asked.is_empty() || number < kept, "{key}");
        if !asked.is_empty() {
            world.server_says(0, &expected);
        }
        assert!(world.client_gets(client) == expected, "{key}");
    }
    assert!(world.report().counters.near_hits > 0);
    world.pass(2_000_000_000);
    world.dataplane.record_turn(0);
    assert_eq!(held(&world), 0);
    assert!(world.dataplane.is_quiet());
}
