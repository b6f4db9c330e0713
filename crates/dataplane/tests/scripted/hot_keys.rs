//! Which keys are asked for most: from bytes of clients and servers to what is reported.

use crate::world::{MS, TIMEOUT, World, slot};
use weir_dataplane::{Config, JoinGets, KeyCounts, LoopId, SessionId, Taken, owner_of, parse_whole};
use weir_protocol::Limits;

/// Every request is looked at.
fn all() -> Config {
    Config { hot_keys_one_in: 1, join_gets: JoinGets::Off, ..Config::default() }
}

impl World {
    /// What is reported of each key: reads, writes and bytes.
    fn hot(&self) -> Vec<(String, [u64; 3])> {
        let top = self.dataplane.top_keys(self.now);
        let mut keys: Vec<_> =
            top.hottest(99).into_iter().map(|(key, it)| (text(key), numbers(it))).collect();
        keys.sort();
        keys
    }
}

/// A client's request, and the server's reply. A slash stands for a line ending.
fn answered(world: &mut World, client: SessionId, request: &str, reply: &str) {
    world.send(client, &request.replace('/', "\r\n"));
    assert_ne!(world.server_gets(0), "", "{request}");
    world.hears(client, 0, &reply.replace('/', "\r\n"));
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

fn numbers(counts: &KeyCounts) -> [u64; 3] {
    assert_eq!(counts.error, 0, "there is room for all keys");
    [counts.reads, counts.writes, counts.bytes]
}

fn said(keys: &[(&str, [u64; 3])]) -> Vec<(String, [u64; 3])> {
    let mut keys: Vec<_> = keys.iter().map(|(key, numbers)| ((*key).to_owned(), *numbers)).collect();
    keys.sort();
    keys
}

#[test]
fn reads_and_writes_and_the_bytes_of_their_values_are_counted_by_key() {
    let mut world = World::with(1, 1, all());
    let client = world.client();
    for (request, reply) in [
        ("get a/", "VALUE a 0 5/hello/END/"),
        ("gets a b/", "VALUE a 0 5 7/hello/END/"),
        ("gat 0 b/", "END/"),
        ("mg a v/", "VA 5/hello/"),
        ("mg a/", "HD/"),
        // The same key in base64.
        ("mg YQ== b v/", "VA 6/hello!/"),
        ("mg c v q/mn/", "EN/"),
        ("me a/", "ME a exp=-1/"),
        ("get c/", "SERVER_ERROR out of memory/"),
    ] {
        answered(&mut world, client, request, reply);
    }
    assert_eq!(world.hot(), said(&[("a", [6, 0, 21]), ("b", [2, 0, 0]), ("c", [2, 0, 0])]));
    for (request, reply) in [
        ("set d 0 0 5/hello/", "STORED/"),
        ("append d 0 0 1 noreply/x/", "STORED/"),
        ("cas d 0 0 2 7/xy/", "EXISTS/"),
        ("ms d 3/abc/", "HD/"),
        ("incr e 1/", "6/"),
        ("touch e 0/", "TOUCHED/"),
        ("md e/", "HD/"),
        ("ma e/", "HD/"),
        ("delete e/", "DELETED/"),
    ] {
        answered(&mut world, client, request, reply);
    }
    let writes = world.hot().split_off(3);
    assert_eq!(writes, said(&[("d", [0, 4, 11]), ("e", [0, 5, 0])]));
    assert_eq!(world.dataplane.top_keys(world.now).looked_at(), 19);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn what_is_refused_counts_for_no_key() {
    let config = Config { limits: Limits { value_bytes_max: 10, ..Limits::default() }, ..all() };
    let mut world = World::with(1, 1, config);
    let client = world.client();
    let long = "k".repeat(251);
    for request in [
        "get\r\n".to_owned(),
        format!("get {long}\r\n"),
        "set a 0 0 x\r\n".to_owned(),
        "set a 0 0 11 noreply\r\nhello world\r\n".to_owned(),
        "version\r\n".to_owned(),
        "mn\r\n".to_owned(),
        "flush_all\r\n".to_owned(),
        "stats nothing\r\n".to_owned(),
    ] {
        world.send(client, &request);
    }
    assert_eq!(world.hot(), []);
    assert_eq!(world.dataplane.top_keys(world.now).looked_at(), 0);
}

#[test]
fn a_value_counts_where_its_client_gets_it() {
    let mut world = World::with(2, 1, all());
    let client = world.client();
    let [near, far] = [0, 1].map(|server| world.key_on(server));
    // One answer waits for the other, which is late.
    world.send(client, &format!("get {near}\r\nget {far}\r\n"));
    world.server_gets(0);
    world.server_gets(1);
    world.server_says(1, &format!("VALUE {far} 0 2\r\nxy\r\nEND\r\n"));
    world.pass(TIMEOUT);
    assert_eq!(world.hot(), said(&[(&near, [1, 0, 0]), (&far, [1, 0, 2])]));
    // Both servers have a part of a get.
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.pass(60 * MS);
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.send(client, &format!("get {near} {far}\r\n"));
    world.server_gets(0);
    world.server_gets(1);
    world.server_says(0, &format!("VALUE {near} 0 3\r\nabc\r\nEND\r\n"));
    world.server_says(1, &format!("VALUE {far} 0 4\r\nabcd\r\nEND\r\n"));
    assert_eq!(world.hot(), said(&[(&near, [2, 0, 3]), (&far, [2, 0, 6])]));
    // A client that is gone gets nothing.
    world.send(client, &format!("get {near}\r\n"));
    world.server_gets(0);
    world.dataplane.handle_client_closed(client);
    world.server_says(0, &format!("VALUE {near} 0 3\r\nabc\r\nEND\r\n"));
    assert_eq!(world.hot(), said(&[(&near, [3, 0, 3]), (&far, [2, 0, 6])]));
}

#[test]
fn values_that_share_a_message_come_to_their_keys() {
    let mut world = World::with(1, 1, Config { join_gets: JoinGets::On, ..all() });
    let clients = [world.client(), world.client()];
    world.send(clients[0], "get a\r\n");
    world.send(clients[1], "get b c\r\n");
    assert_eq!(world.server_gets(0), "get a b c\r\n");
    world.server_says(0, "VALUE a 0 1\r\nx\r\nVALUE c 0 2\r\nxy\r\nEND\r\n");
    assert_eq!(world.hot(), said(&[("a", [1, 0, 1]), ("b", [1, 0, 0]), ("c", [1, 0, 2])]));
}

#[test]
fn slices_of_a_read_come_to_their_keys() {
    // New sessions expect 100 bytes of a key: slices of 16.
    let mut world = World::with(1, 1, Config { slice_bytes: 1600, hot_keys: 64, ..all() });
    let client = world.client();
    let keys: String = (10..30).map(|number| format!(" k{number}")).collect();
    world.send(client, &format!("get{keys}\r\n"));
    world.dataplane.handle_server_connected(slot(1), world.now);
    world.turn();
    assert_ne!(world.server_gets(1), "");
    world.hears(client, 1, "VALUE k10 0 3\r\nabc\r\nEND\r\n");
    assert_ne!(world.server_gets(1), "");
    world.hears(client, 1, "VALUE k29 0 2\r\nxy\r\nEND\r\n");
    let hot = world.hot();
    assert_eq!((hot.len(), hot[0].1, hot[1].1, hot[19].1), (20, [1, 0, 3], [1, 0, 0], [1, 0, 2]));
}

#[test]
fn values_that_another_replica_had_come_to_their_keys() {
    let policy = weir_dataplane::ReadPolicy::Spread;
    let mut world = World::with(2, 2, Config { read_policy: policy, ..all() });
    let client = world.client();
    // In turn: one of these is asked of the replica that does not decide, and then of the decider.
    for _ in 0..2 {
        world.send(client, "get a\r\n");
        while !world.dataplane.is_quiet() {
            let of = if world.server_gets(0).is_empty() { 1 } else { 0 };
            if of == 1 {
                assert_ne!(world.server_gets(1), "");
            }
            let is_decider = world.router.primary(b"a") == of;
            world.server_says(of, if is_decider { "VALUE a 0 3\r\nabc\r\nEND\r\n" } else { "END\r\n" });
            world.client_gets(client);
        }
    }
    assert_eq!(world.hot(), said(&[("a", [2, 0, 6])]));
}

#[test]
fn a_request_that_a_driver_hands_in_counts_too() {
    let mut world = World::with(1, 1, all());
    let session = world.dataplane.lend_session(world.now);
    let parsed = parse_whole(b"get a\r\n", Limits::default());
    let taken = Taken { dequeued: world.now, ..Taken::default() };
    world.dataplane.serve(session, parsed, taken, None);
    world.server_gets(0);
    world.server_says(0, "VALUE a 0 3\r\nabc\r\nEND\r\n");
    assert!(world.dataplane.lent_reply(session).is_some());
    assert_eq!(world.hot(), said(&[("a", [1, 0, 3])]));
}

#[test]
fn a_write_that_another_loop_carries_out_counts_where_it_was_read() {
    let world =
        |index| World::with(2, 2, Config { loop_index: LoopId::from_index(index), loop_count: 2, ..all() });
    let (mut home, mut owner) = (world(0), world(1));
    let is_others = |key: &String| owner_of(key.as_bytes(), 2) == LoopId::from_index(1);
    let key = (0..).map(|number| format!("k{number}")).find(is_others).expect("half of all keys are");
    let client = home.client();
    home.send(client, &format!("set {key} 0 0 5\r\nhello\r\n"));
    let (_, mail) = home.dataplane.poll_mail().expect("the other loop owns the key");
    owner.dataplane.handle_mail(mail, owner.now);
    owner.turn();
    assert_ne!(owner.server_gets(0), "");
    assert_eq!((home.hot(), owner.hot()), (said(&[(&key, [0, 1, 5])]), Vec::new()));
    let mut sum = home.dataplane.top_keys(home.now);
    sum.merge(&owner.dataplane.top_keys(owner.now));
    assert_eq!((sum.looked_at(), sum.hottest(1)[0].0), (1, key.as_bytes()));
}

/// A line of 4 MiB has more than a million keys, and noting one costs about 100 ns.
#[test]
fn of_a_request_with_very_many_keys_some_hundred_are_noted() {
    let mut world = World::with(1, 1, Config { hot_keys: 4096, ..all() });
    let (other, client) = (world.client(), world.client());
    for _ in 0..40 {
        answered(&mut world, other, "get hot/", "END/");
    }
    let keys: String = (0..100_000).map(|number| format!(" k{number}")).collect();
    world.send(client, &format!("get{keys}\r\n"));
    let top = world.dataplane.top_keys(world.now);
    assert_eq!(top.looked_at(), 40 + 100_000, "all of them are counted");
    let hottest = top.hottest(usize::MAX);
    assert!((400..=1 + 512).contains(&hottest.len()), "{}", hottest.len());
    assert_eq!((hottest[0].0, hottest[0].1.reads), (b"hot".as_slice(), 40));
}

#[test]
fn shares_of_keys_in_requests_with_many_are_right_on_average() {
    let mut world = World::with(1, 1, Config { hot_keys: 256, ..all() });
    let client = world.client();
    // One in fifty of these is hot, at another place each time.
    let mut truth = 0;
    for request in 0..40 {
        let keys: String = (0..2_000)
            .map(
                |number| {
                    if (number * 7 + request) % 50 == 0 { " hot".to_owned() } else { format!(" k{number}") }
                },
            )
            .collect();
        truth += keys.matches(" hot").count() as u64;
        world.send(client, &format!("get{keys}\r\n"));
        while !world.dataplane.is_quiet() {
            let of = world.dataplane.poll_server_output(None, world.now);
            let Some(of) = of else {
                world.dataplane.handle_server_connected(slot(1), world.now);
                world.turn();
                continue;
            };
            let len = world.dataplane.server_output(of).len();
            world.dataplane.handle_server_written(of, len, world.now);
            world.dataplane.handle_server_bytes(of, b"END\r\n", world.now);
            world.turn();
            world.client_gets(client);
        }
    }
    let top = world.dataplane.top_keys(world.now);
    let (key, counts) = top.hottest(1)[0];
    assert_eq!((text(key), truth), ("hot".to_owned(), 1_600));
    // One in four is noted: six standard deviations.
    let noise = 6.0 * (truth as f64 * 3.0).sqrt();
    assert!((counts.count() as f64 - truth as f64).abs() < noise, "{counts:?}");
    assert!(top.looked_at().abs_diff(80_000) <= 40 * 4, "{}", top.looked_at());
    assert!(top.floor() <= top.looked_at() / 256);
}

#[test]
fn requests_are_traced_beside_and_nothing_is_looked_at_where_it_is_off() {
    let mut world = World::with(1, 1, all());
    world.dataplane.trace(1.0, 1);
    let client = world.client();
    answered(&mut world, client, "get a/", "VALUE a 0 5/hello/END/");
    answered(&mut world, client, "set a 0 0 1/x/", "STORED/");
    let mut rows = 0;
    world.dataplane.take_traces(|_| rows += 1);
    assert_eq!((rows, world.hot()), (2, said(&[("a", [1, 1, 6])])));
    let mut off = World::with(1, 1, Config { hot_keys: 0, ..all() });
    let client = off.client();
    answered(&mut off, client, "get a/", "VALUE a 0 5/hello/END/");
    assert_eq!((off.hot(), off.dataplane.top_keys(off.now).one_in()), (Vec::new(), 0));
}

#[test]
fn a_client_with_many_keys_pushes_no_hot_one_out() {
    let mut world = World::with(1, 1, Config { hot_keys: 16, ..all() });
    let clients = [world.client(), world.client()];
    for number in 0..1_000 {
        world.send(clients[0], &format!("get many{number}\r\n"));
        if number % 10 == 0 {
            world.send(clients[1], "get hot\r\n");
        }
        while !world.dataplane.is_quiet() {
            world.server_gets(0);
            world.server_says(0, "END\r\n");
            for client in clients {
                world.client_gets(client);
            }
        }
    }
    let top = world.dataplane.top_keys(world.now);
    let (key, counts) = top.hottest(1)[0];
    assert_eq!(text(key), "hot");
    assert!(counts.reads <= 100 && 100 <= counts.count(), "{counts:?}");
    assert!(counts.error <= top.floor() && top.floor() <= 1_100 / 16, "{top:?}");
}
