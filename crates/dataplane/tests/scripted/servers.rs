//! Servers that are late, lost, dead, or out of step.

use crate::world::{MS, TIMEOUT, World, slot};
use weir_dataplane::{Config, Event, SessionId};

#[test]
fn a_late_reply_reaches_nobody() {
    let mut world = World::new(1, 1);
    let (slow, other) = (world.client(), world.client());
    world.send(slow, "get a\r\n");
    world.server_gets(0);
    assert_eq!(world.dataplane.poll_timeout(), Some(world.now.plus(TIMEOUT)));
    world.pass(TIMEOUT - 1);
    assert_eq!(world.client_gets(slow), "");
    world.send(other, "get b\r\n");
    world.server_gets(0);
    world.pass(1);
    assert_eq!(world.client_gets(slow), "SERVER_ERROR timeout s:1\r\n");
    world.server_says(0, "VALUE a 0 1\r\nA\r\nEND\r\nVALUE b 0 1\r\nB\r\nEND\r\n");
    assert_eq!(world.client_gets(slow), "");
    assert_eq!(world.client_gets(other), "VALUE b 0 1\r\nB\r\nEND\r\n");
    let counters = world.report().counters;
    assert_eq!((counters.server_timeouts, counters.server_replies_late), (1, 1));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_long_reply_must_make_progress_and_no_more() {
    const PIECE: usize = 64 << 10;
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "get a\r\n");
    world.server_gets(0);
    let value = "x".repeat(3 * PIECE);
    world.pass(TIMEOUT - 1);
    world.server_says(0, &format!("VALUE a 0 {}\r\n", value.len()));
    for piece in 0..3 {
        // Half of it early, half of it late: what counts is the sum.
        world.server_says(0, &value[piece * PIECE..][..PIECE / 2]);
        world.pass(TIMEOUT - 1);
        world.server_says(0, &value[piece * PIECE..][..PIECE / 2]);
    }
    world.pass(TIMEOUT - 1);
    world.server_says(0, "\r\nEND\r\n");
    assert_eq!(world.client_gets(client), format!("VALUE a 0 {}\r\n{value}\r\nEND\r\n", value.len()));
    // A drip is no progress.
    world.send(client, "get b\r\n");
    world.server_gets(0);
    world.server_says(0, "VALUE b 0 2000\r\n1");
    for _ in 0..9 {
        world.pass(TIMEOUT / 10);
        world.server_says(0, "1");
    }
    assert_eq!(world.client_gets(client), "");
    world.pass(TIMEOUT / 10);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:1\r\n");
}

/// What is noted of a value is five times as long as the shortest one: a server that sent these without end made the process take
/// gigabytes that no limit counted.
#[test]
fn a_reply_ends_at_the_first_value_more_than_there_are_keys() {
    let mut world = World::new(1, 1);
    let client = world.client();
    assert_eq!(world.asks(client, "get a a"), "get a a\r\n");
    world.events.clear();
    for _ in 0..2 {
        world.server_says(0, "VALUE a 0 0\r\n\r\n");
        assert_eq!(world.events, []);
    }
    world.server_says(0, "VALUE a 0 0\r\n\r\n");
    assert!(world.events.contains(&Event::Disconnect(slot(0))), "{:?}", world.events);
}

#[test]
fn a_long_request_has_time_to_leave_as_long_as_it_makes_progress() {
    const PIECE: usize = 64 << 10;
    let mut world = World::with(1, 1, Config { large_value_bytes: usize::MAX, ..Config::default() });
    let client = world.client();
    let value = "x".repeat(4 * PIECE);
    let request = format!("set a 0 0 {}\r\n{value}\r\n", value.len());
    let leave = |world: &mut World, count| {
        assert_eq!(world.dataplane.poll_server_output(None, world.now), Some(slot(0)));
        world.dataplane.handle_server_written(slot(0), count, world.now);
        world.dataplane.handle_server_writable(slot(0));
    };
    world.send(client, &request);
    for _ in 0..4 {
        world.pass(TIMEOUT - 1);
        leave(&mut world, PIECE);
    }
    world.server_gets(0);
    world.pass(TIMEOUT - 1);
    assert_eq!(world.hears(client, 0, "STORED\r\n"), "STORED\r\n");
    world.send(client, &request);
    leave(&mut world, PIECE);
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:1\r\n");
}

/// As many bytes as come in 3.3 s by 100 Mbit/s, the studies' link.
#[test]
fn a_get_of_10_000_keys_completes_over_a_slow_link() {
    let mut world = World::new(1, 1);
    let client = world.client();
    let keys: Vec<String> = (0..10_000).map(|number| format!("key-{number}")).collect();
    let began = world.now;
    world.send(client, &format!("get {}\r\n", keys.join(" ")));
    world.server_gets(0);
    let value = "v".repeat(4096);
    let mut reply = String::new();
    keys.iter().for_each(|key| reply += &format!("VALUE {key} 0 4096\r\n{value}\r\n"));
    reply += "END\r\n";
    // 12,500 bytes in each millisecond, in segments of about 10.
    for piece in reply.as_bytes().chunks(125_000) {
        world.pass(10 * MS);
        world.server_says(0, std::str::from_utf8(piece).expect("text"));
    }
    assert!(world.now.saturating_since(began) > 3 * 1000 * MS);
    let heard = world.client_gets(client);
    assert_eq!(heard.len(), reply.len());
    assert!(heard == reply, "the reply is another one");
    assert_eq!(world.report().counters.server_timeouts, 0);
}

#[test]
fn to_connect_has_a_time_of_its_own() {
    let mut world = World::with(1, 1, Config { connect_timeout_ns: 3 * TIMEOUT, ..Config::default() });
    let client = world.client();
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.turn();
    assert_eq!(world.events, [Event::Connect(slot(0))]);
    world.send(client, "get a\r\n");
    world.pass(TIMEOUT);
    assert_eq!(world.client_gets(client), "SERVER_ERROR timeout s:1\r\n");
    world.pass(2 * TIMEOUT - 1);
    assert_eq!(world.events, [Event::Connect(slot(0))]);
    world.pass(1);
    assert_eq!(world.events, [Event::Connect(slot(0)), Event::Disconnect(slot(0))]);
    assert_eq!(world.report().counters.server_connects_failed, 1);
}

#[test]
fn a_lost_connection_fails_what_was_on_it_and_is_made_again() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.send(client, "get a\r\nset a 0 0 1\r\nx\r\n");
    world.server_gets(0);
    world.server_says(0, "VALUE a 0 1\r\n");
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.turn();
    assert_eq!(world.client_gets(client), "SERVER_ERROR closed s:1\r\nSERVER_ERROR closed s:1\r\n");
    assert_eq!(world.events, [Event::Connect(slot(0))]);
    // What comes now waits for the new connection; nothing of the old reply is left.
    world.send(client, "get c\r\n");
    assert_eq!(world.server_gets(0), "");
    world.dataplane.handle_server_connected(slot(0), world.now);
    assert_eq!(world.server_gets(0), "get c\r\n");
    world.server_says(0, "END\r\n");
    assert_eq!(world.client_gets(client), "END\r\n");
}

#[test]
fn a_dead_server_is_refused_at_once_and_tried_again_later() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.send(client, "get a\r\n");
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.turn();
    assert_eq!(world.client_gets(client), "SERVER_ERROR connect s:1\r\n");
    world.send(client, "get a\r\nset a 0 0 1 noreply\r\nx\r\n");
    assert_eq!(world.client_gets(client), "SERVER_ERROR down s:1\r\n");
    world.events.clear();
    let retry = world.dataplane.poll_timeout().expect("a dead server is tried again");
    world.pass(retry.saturating_since(world.now));
    assert_eq!(world.events, [Event::Connect(slot(0))]);
    world.send(client, "get a\r\n");
    assert_eq!(world.client_gets(client), "SERVER_ERROR down s:1\r\n");
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.send(client, "get a\r\n");
    assert_eq!(world.server_gets(0), "get a\r\n");
    assert_eq!(world.report().counters.requests_failed_silently, 1);
}

#[test]
fn a_connection_attempt_without_end_is_given_up() {
    let mut world = World::new(1, 1);
    let client = world.client();
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.send(client, "get a\r\n");
    world.events.clear();
    world.pass(TIMEOUT);
    assert_eq!(world.events, [Event::Disconnect(slot(0))]);
    assert_eq!(world.client_gets(client), "SERVER_ERROR connect s:1\r\n");
}

#[test]
fn a_reply_to_nothing_or_to_something_else_costs_the_connection() {
    for (request, reply) in [
        ("", "END\r\n"),
        ("get a\r\n", "STORED\r\n"),
        ("get a\r\n", "VALUE b 0 1\r\nx\r\nEND\r\n"),
        ("get a b\r\n", "VALUE b 0 1\r\nx\r\nVALUE a 0 1\r\nx\r\nEND\r\n"),
        ("delete a\r\n", "END\r\n"),
    ] {
        let mut world = World::new(1, 1);
        let client = world.client();
        world.send(client, request);
        world.server_gets(0);
        world.server_says(0, reply);
        assert_eq!(
            world.events,
            [Event::Disconnect(slot(0)), Event::Connect(slot(0))],
            "{request:?} {reply:?}"
        );
        let expected = if request.is_empty() { "" } else { "SERVER_ERROR protocol s:1\r\n" };
        assert_eq!(world.client_gets(client), expected);
        assert_eq!(world.report().counters.server_violations, 1);
    }
}

#[test]
fn a_meta_reply_that_repeats_another_key_costs_its_request_alone() {
    for (request, reply, good) in [
        ("mg a k\r\n", "HD ka\r\n", true),
        ("mg a k\r\n", "HD kYQ== b\r\n", true),
        ("mg a k\r\n", "HD kb\r\n", false),
        ("mg a v k\r\n", "VA 1 kb\r\nx\r\n", false),
        ("ms a 1 k\r\nx\r\n", "HD kb\r\n", false),
        ("md \t k\r\n", "NF k\t\r\n", true),
        ("me a\r\n", "ME YQ== exp=-1\r\n", true),
        ("me YQ== b\r\n", "ME a exp=-1\r\n", true),
        ("me a\r\n", "ME b exp=-1\r\n", false),
        ("mg a k !\r\n", "CLIENT_ERROR invalid flag k\r\n", true),
    ] {
        let mut world = World::new(1, 1);
        let (client, other) = (world.client(), world.client());
        world.send(client, request);
        world.send(other, "get b\r\n");
        world.server_gets(0);
        world.server_says(0, reply);
        let expected = if good { reply } else { "SERVER_ERROR protocol s:1\r\n" };
        assert_eq!(world.client_gets(client), expected, "{request:?}");
        assert_eq!(world.hears(other, 0, "END\r\n"), "END\r\n", "{request:?}");
        let counters = world.report().counters;
        assert_eq!((counters.server_echoes_wrong, counters.server_disconnects), (u64::from(!good), 0));
        assert!(world.dataplane.is_quiet());
    }
}

#[test]
fn a_server_that_answers_and_then_talks_nonsense_is_left_alone_ever_longer() {
    let config =
        Config { reconnect_delay_min_ns: 50 * MS, reconnect_delay_max_ns: 5000 * MS, ..Config::default() };
    let mut world = World::with(1, 1, config);
    let client = world.client();
    for round in 0..4 {
        world.send(client, "get a\r\n");
        world.server_gets(0);
        assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
        world.events.clear();
        world.server_says(0, "NONSENSE\r\n");
        if round == 0 {
            assert_eq!(
                world.events,
                [Event::Disconnect(slot(0)), Event::Connect(slot(0))],
                "once may be chance"
            );
            world.dataplane.handle_server_connected(slot(0), world.now);
            continue;
        }
        assert_eq!(world.events, [Event::Disconnect(slot(0))], "round {round}");
        let due = world.dataplane.poll_timeout().expect("it is tried again").saturating_since(world.now);
        assert!(due >= (25 * MS) << round, "round {round}: {due}");
        world.comes_back(0);
    }
}

#[test]
fn a_server_that_closes_every_connection_before_it_has_answered_is_left_alone() {
    let config =
        Config { reconnect_delay_min_ns: 50 * MS, reconnect_delay_max_ns: 200 * MS, ..Config::default() };
    let mut world = World::with(1, 1, config);
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.turn();
    assert_eq!(world.events, [Event::Connect(slot(0))], "once may be chance");
    for pause in [100 * MS, 200 * MS, 200 * MS] {
        world.dataplane.handle_server_connected(slot(0), world.now);
        world.turn();
        world.events.clear();
        world.dataplane.handle_server_disconnected(slot(0), world.now);
        world.turn();
        assert_eq!((world.events.as_slice(), world.report().servers[0].state), (&[][..], "down"));
        world.pass(pause / 2 - 1);
        assert_eq!(world.events, [], "half of the pause is jitter");
        world.pass(pause / 2 + 2);
        assert_eq!(world.events, [Event::Connect(slot(0))]);
    }
    // An answer makes up for all that.
    world.dataplane.handle_server_connected(slot(0), world.now);
    let client = world.client();
    world.send(client, "get a\r\n");
    world.server_gets(0);
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
    world.events.clear();
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.turn();
    assert_eq!(world.events, [Event::Connect(slot(0))]);
    // And so does a connection that has lasted: it is idle, and the server does not like that.
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.pass(200 * MS);
    world.events.clear();
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.turn();
    assert_eq!(world.events, [Event::Connect(slot(0))]);
}

/// One request on each connection was answered, so it was connected to again at once, as fast as it answered and closed.
#[test]
fn a_server_that_closes_behind_each_answer_is_left_alone_ever_longer() {
    let config =
        Config { reconnect_delay_min_ns: 50 * MS, reconnect_delay_max_ns: 400 * MS, ..Config::default() };
    let mut world = World::with(1, 1, config);
    let client = world.client();
    for _ in 0..8 {
        assert_eq!(world.closes_behind_an_answer(client), [Event::Connect(slot(0))], "it may be chance");
        world.dataplane.handle_server_connected(slot(0), world.now);
    }
    for pause in [100 * MS, 200 * MS, 400 * MS, 400 * MS] {
        assert_eq!((world.closes_behind_an_answer(client).as_slice(), world.state()), (&[][..], "down"));
        world.send(client, "get a\r\n");
        assert_eq!(world.client_gets(client), "SERVER_ERROR down s:1\r\n");
        world.pass(pause / 2 - 1);
        assert_eq!(world.events, [], "half of the pause is jitter");
        world.pass(pause / 2 + 2);
        assert_eq!(world.events, [Event::Connect(slot(0))]);
        world.dataplane.handle_server_connected(slot(0), world.now);
    }
    assert_eq!(world.report().counters.server_reconnects_paused, 4);
    // One that lives for as long as the pause would have been makes up for all that.
    world.pass(400 * MS);
    for _ in 0..2 {
        assert_eq!(world.closes_behind_an_answer(client), [Event::Connect(slot(0))]);
        world.dataplane.handle_server_connected(slot(0), world.now);
    }
    assert_eq!(world.report().counters.server_reconnects_paused, 4);
}

/// As one does that closes connections which are idle for a while, or that is started anew now and then.
#[test]
fn a_server_whose_connections_live_for_longer_than_a_pause_is_connected_to_at_once() {
    let config = Config { reconnect_delay_min_ns: 50 * MS, ..Config::default() };
    let mut world = World::with(1, 1, config);
    let client = world.client();
    for _ in 0..20 {
        world.pass(50 * MS);
        assert_eq!(world.closes_behind_an_answer(client), [Event::Connect(slot(0))]);
        world.dataplane.handle_server_connected(slot(0), world.now);
    }
    assert_eq!(world.report().counters.server_reconnects_paused, 0);
}

/// Other proxies close their connections at what they do not know, and show that at the questions that they are asked first. A client could
/// have taken such a server from all others with commands of that kind.
#[test]
fn a_server_that_closes_at_what_it_does_not_know_is_connected_to_at_once() {
    let mut world = World::with(1, 1, Config { asks_item_size: true, ..Config::default() });
    let client = world.client();
    for _ in 0..3 {
        assert_eq!(world.server_gets(0), "stats settings\r\n");
        world.dataplane.handle_server_disconnected(slot(0), world.now);
        world.turn();
        world.dataplane.handle_server_connected(slot(0), world.now);
    }
    for _ in 0..50 {
        assert_eq!(world.closes_behind_an_answer(client), [Event::Connect(slot(0))]);
        world.dataplane.handle_server_connected(slot(0), world.now);
    }
    assert_eq!(world.report().counters.server_reconnects_paused, 0);
}

impl World {
    /// The first server answers a request and closes its connection. What the driver is asked for then.
    fn closes_behind_an_answer(&mut self, client: SessionId) -> Vec<Event> {
        assert_eq!(self.asks(client, "get a"), "get a\r\n");
        assert_eq!(self.hears(client, 0, "END\r\n"), "END\r\n");
        self.events.clear();
        self.dataplane.handle_server_disconnected(slot(0), self.now);
        self.turn();
        self.events.clone()
    }

    fn state(&self) -> &'static str {
        self.report().servers[0].state
    }
}

/// All proxies had the same seed, and tried a server that all had lost at the same moments, again and again.
#[test]
fn dataplanes_that_lose_a_server_together_try_it_again_at_moments_of_their_own() {
    let moments = |jitter_seed| {
        let mut world = World::with(1, 1, Config { jitter_seed, ..Config::default() });
        world.dataplane.handle_server_disconnected(slot(0), world.now);
        let tried_again = |_| {
            world.dataplane.handle_server_disconnected(slot(0), world.now);
            world.turn();
            world.events.clear();
            while world.events.is_empty() {
                world.pass(MS);
            }
            assert_eq!(world.events, [Event::Connect(slot(0))]);
            world.now
        };
        (0..8).map(tried_again).collect::<Vec<_>>()
    };
    assert_eq!(moments(7), moments(7), "a world can be replayed");
    let (one, other) = (moments(7), moments(8 << 32));
    assert!(one.iter().zip(&other).all(|(one, other)| one != other), "{one:?} {other:?}");
}
