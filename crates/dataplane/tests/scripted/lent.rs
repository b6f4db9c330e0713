//! Requests that the driver took from their clients itself.

use crate::world::{MS, TIMEOUT, World, router, slot};
use std::sync::Arc;
use weir_dataplane::{Config, Dataplane, Event, Fault, SessionId, Taken, parse_whole};
use weir_protocol::{Limits, Parsed, Refusal, door::Foreign};
use weir_timing::{Instant, Operation};

impl World {
    /// Hands in a request that was created then, and that it has been the turn of since now.
    fn serve(&mut self, session: SessionId, bytes: &str, created: Instant) {
        let parsed = parse_whole(bytes.as_bytes(), Limits::default());
        let taken = Taken {
            first_byte: created,
            created,
            enqueued: self.now,
            dequeued: self.now,
            ..Taken::default()
        };
        self.dataplane.serve(session, parsed, taken, None);
        self.turn();
    }

    fn lent_reply(&mut self, session: SessionId) -> Option<String> {
        let reply = self.dataplane.lent_reply(session)?.to_vec();
        self.dataplane.release_lent(session, reply.len(), self.now);
        Some(String::from_utf8(reply).expect("text"))
    }
}

#[test]
fn a_request_that_waited_behind_its_own_clients_others_has_its_whole_time() {
    let mut world = World::new(1, 1);
    let (session, created) = (world.dataplane.lend_session(world.now), world.now);
    world.pass(5 * TIMEOUT);
    world.serve(session, "set a 0 0 1 noreply\r\nx\r\n", created);
    assert_eq!(world.server_gets(0), "set a 0 0 1\r\nx\r\n");
    world.pass(TIMEOUT - 1);
    assert_eq!(world.lent_reply(session), None);
    world.server_says(0, "STORED\r\n");
    assert_eq!(world.lent_reply(session).as_deref(), Some(""));
    assert_eq!(world.report().counters.requests_failed, 0);
}

#[test]
fn it_does_not_wait_for_a_silent_server_again_and_again() {
    // Where it is not marked down for it.
    let mut world = World::with(2, 1, Config { mark_down_timeouts: 0, ..Config::default() });
    let (session, created) = (world.dataplane.lend_session(world.now), world.now);
    let [silent, other] = [0, 1].map(|server| world.key_on(server));
    world.serve(session, &format!("get {silent}\r\n"), created);
    world.server_gets(0);
    world.pass(TIMEOUT);
    assert_eq!(world.lent_reply(session).as_deref(), Some("SERVER_ERROR timeout s:1\r\n"));
    // It may have been a hiccup.
    world.serve(session, &format!("get {silent}\r\n"), created);
    world.pass(TIMEOUT - 1);
    assert_eq!(world.lent_reply(session), None);
    world.pass(1);
    assert_eq!(world.lent_reply(session).as_deref(), Some("SERVER_ERROR timeout s:1\r\n"));
    world.serve(session, &format!("get {silent}\r\n"), created);
    assert_eq!(world.lent_reply(session).as_deref(), Some("SERVER_ERROR timeout s:1\r\n"));
    // Another client's request, and those of other servers, have their time.
    world.serve(session, &format!("get {other}\r\n"), created);
    assert_eq!(world.lent_reply(session), None);
    world.server_gets(1);
    world.server_says(1, "END\r\n");
    assert_eq!(world.lent_reply(session).as_deref(), Some("END\r\n"));
    world.serve(session, &format!("get {silent}\r\n"), world.now);
    world.pass(TIMEOUT - 1);
    assert_eq!(world.lent_reply(session), None);
    world.server_gets(0);
    // The last two were asked in one message.
    world.server_says(0, "END\r\nEND\r\nVERSION 1.6.18\r\nEND\r\n");
    assert_eq!(world.lent_reply(session).as_deref(), Some("END\r\n"));
    // It has spoken: who waited behind others waits for it, too.
    world.serve(session, &format!("get {silent}\r\n"), created);
    assert_eq!(world.lent_reply(session), None);
}

/// A whole request that has waited for nothing.
fn taken_at(now: Instant) -> Taken {
    Taken { first_byte: now, created: now, enqueued: now, dequeued: now, ..Taken::default() }
}

#[test]
fn a_value_that_is_too_large_for_a_key_that_is_held_is_refused_when_the_key_is_free() {
    let mut world = World::new(2, 2);
    let key = world.key_on(0);
    let [first, second] = [0; 2].map(|_| world.dataplane.lend_session(world.now));
    world.serve(first, &format!("add {key} 0 0 1\r\nx\r\n"), world.now);
    assert_eq!(world.server_gets(0), format!("add {key} 0 0 1\r\nx\r\n"));
    let too_large = Parsed::TooLarge {
        refusal: Refusal::TooLarge,
        key: key.as_bytes(),
        base64: false,
        silent: false,
        erases: true,
        len: 0,
        swallow: 0,
    };
    world.dataplane.serve(second, too_large, taken_at(world.now), None);
    world.turn();
    assert_eq!(world.lent_reply(second), None, "the key is held");
    world.server_says(0, "STORED\r\n");
    // The other server gets what was decided, and then both that the value is gone.
    assert_eq!(world.server_gets(0), format!("delete {key}\r\n"));
    assert_eq!(world.server_gets(1), format!("set {key} 0 0 1\r\nx\r\ndelete {key}\r\n"));
    world.server_says(1, "STORED\r\nDELETED\r\n");
    world.server_says(0, "DELETED\r\n");
    assert_eq!(world.lent_reply(first).as_deref(), Some("STORED\r\n"));
    assert_eq!(world.lent_reply(second).as_deref(), Some("SERVER_ERROR object too large for cache\r\n"));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_large_value_that_another_worker_has_learned_of_is_stored_though_its_key_was_held() {
    let config = Config { limits: Limits { value_bytes_max: 4, ..Limits::default() }, ..Config::default() };
    let mut world = World::with(2, 2, config);
    let key = world.key_on(0);
    let [first, second] = [0; 2].map(|_| world.dataplane.lend_session(world.now));
    world.serve(first, &format!("add {key} 0 0 1\r\nx\r\n"), world.now);
    world.serve(second, &format!("set {key} 0 0 8\r\n01234567\r\n"), world.now);
    assert_eq!(world.lent_reply(second), None);
    world.server_gets(0);
    world.server_says(0, "NOT_STORED\r\n");
    assert_eq!(world.server_gets(0), format!("set {key} 0 0 8\r\n01234567\r\n"));
}

#[test]
fn the_stages_of_a_write_that_waited_for_its_key_are_in_order() {
    let mut world = World::new(2, 2);
    let key = world.key_on(0);
    world.dataplane.trace(1.0, 7);
    let [first, second] = [0; 2].map(|_| world.dataplane.lend_session(world.now));
    world.serve(first, &format!("add {key} 0 0 1\r\nx\r\n"), world.now);
    let created = world.now;
    world.pass(10);
    let enqueued = world.now;
    world.pass(20);
    let delete = format!("delete {key}\r\n");
    let parsed = parse_whole(delete.as_bytes(), Limits::default());
    let taken =
        Taken { first_byte: created, created, enqueued, dequeued: world.now, client: 5, ..Taken::default() };
    world.dataplane.serve(second, parsed, taken, None);
    world.turn();
    world.server_gets(0);
    world.pass(30);
    world.server_says(0, "NOT_STORED\r\n");
    assert_eq!(world.lent_reply(first).as_deref(), Some("NOT_STORED\r\n"));
    world.server_gets(0);
    world.server_gets(1);
    world.server_says(0, "NOT_FOUND\r\n");
    world.server_says(1, "NOT_FOUND\r\n");
    assert_eq!(world.lent_reply(second).as_deref(), Some("NOT_FOUND\r\n"));
    let mut rows = Vec::new();
    world.dataplane.take_traces(|row| rows.push(row));
    let row = rows.iter().find(|row| row.client == 5).expect("all are sampled");
    assert_eq!(
        (row.stamps.created, row.stamps.enqueued, row.stamps.dequeued),
        (created, enqueued, taken.dequeued)
    );
}

#[test]
fn a_lent_write_whose_time_is_up_in_its_keys_line_asks_nobody_and_no_server_is_blamed() {
    let mut world = World::new(2, 2);
    let key = world.key_on(0);
    let sessions = [0; 4].map(|_| world.dataplane.lend_session(world.now));
    let incr = format!("incr {key} 1\r\n");
    // Behind others of their own clients they have waited, too: their time runs from their turn.
    let created = world.now;
    world.pass(2 * TIMEOUT);
    sessions.iter().for_each(|&session| world.serve(session, &incr, created));
    assert_eq!(world.server_gets(0), incr);
    world.pass(TIMEOUT - MS);
    world.server_says(0, "1\r\n");
    assert_eq!((world.server_gets(0), world.server_gets(1)), (incr.clone(), incr.clone()));
    world.server_says(1, "1\r\n");
    world.pass(2 * MS);
    world.server_says(0, "2\r\n");
    assert_eq!((world.server_gets(0), world.server_gets(1)), (String::new(), incr));
    world.server_says(1, "2\r\n");
    let replies = sessions.map(|session| world.lent_reply(session).expect("it is answered"));
    let timeout = "SERVER_ERROR timeout s:1\r\n";
    assert_eq!(replies, ["1\r\n", "2\r\n", timeout, timeout]);
    let counters = world.report().counters;
    assert_eq!((counters.writes_overdue, counters.server_timeouts, counters.journal_keys), (2, 0, 0));
    assert!(world.dataplane.is_quiet());
}

/// It was answered when its turn came.
#[test]
fn a_lent_write_in_its_keys_line_is_answered_when_its_time_is_up_whoever_stands_before_it() {
    let mut world = World::new(2, 2);
    let key = world.key_on(0);
    let sessions = [0; 3].map(|_| world.dataplane.lend_session(world.now));
    let incr = format!("incr {key} 1\r\n");
    let created = world.now;
    world.serve(sessions[0], &incr, created);
    world.serve(sessions[1], &incr, created);
    assert_eq!(world.server_gets(0), incr);
    // Its time runs from when it was put into the driver's queue.
    world.pass(10 * MS);
    world.serve(sessions[2], &incr, created);
    world.pass(TIMEOUT - 11 * MS);
    world.server_says(0, "1\r\n");
    assert_eq!((world.server_gets(0), world.server_gets(1)), (incr.clone(), incr.clone()));
    world.server_says(1, "1\r\n");
    world.pass(11 * MS - 1);
    assert_eq!(world.lent_reply(sessions[2]), None);
    world.pass(1);
    assert_eq!(world.lent_reply(sessions[2]).as_deref(), Some("SERVER_ERROR timeout s:1\r\n"));
    world.server_says(0, "2\r\n");
    assert_eq!((world.server_gets(0), world.server_gets(1)), (String::new(), incr));
    world.server_says(1, "2\r\n");
    let replies = [0, 1].map(|number| world.lent_reply(sessions[number]));
    assert_eq!(replies, [Some("1\r\n".to_owned()), Some("2\r\n".to_owned())]);
    let counters = world.report().counters;
    assert_eq!((counters.writes_overdue, counters.server_timeouts), (1, 0));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_denied_request_asks_nobody_and_denies_no_other() {
    let mut world = World::new(2, 1);
    let session = world.dataplane.lend_session(world.now);
    let key = world.key_on(1);
    for (request, reply) in [
        (format!("get {key}\r\n"), "SERVER_ERROR queue-full proxy\r\n"),
        (format!("set {key} 0 0 1\r\nx\r\n"), "SERVER_ERROR queue-full proxy\r\n"),
        (format!("set {key} 0 0 1 noreply\r\nx\r\n"), ""),
        ("mn\r\n".to_owned(), "MN\r\n"),
    ] {
        let parsed = parse_whole(request.as_bytes(), Limits::default());
        world.dataplane.serve(session, parsed, taken_at(world.now), Some(Fault::Queue));
        world.turn();
        assert_eq!(world.lent_reply(session).as_deref(), Some(reply), "{request}");
        assert!(!world.dataplane.has_server_output(), "{request}");
    }
    world.serve(session, &format!("get {key}\r\n"), world.now);
    assert_eq!(world.server_gets(1), format!("get {key}\r\n"));
}

#[test]
fn another_protocol_is_answered_in_its_words() {
    let mut world = World::new(1, 1);
    let session = world.dataplane.lend_session(world.now);
    let parsed = Parsed::Foreign { foreign: Foreign::Http };
    world.dataplane.serve(session, parsed, taken_at(world.now), None);
    assert!(world.lent_reply(session).expect("at once").starts_with("HTTP/1.1 400 "));
    assert!(world.events.is_empty(), "its connection is not this dataplane's to close");
    world.serve(session, "mn\r\n", world.now);
    assert_eq!(world.lent_reply(session).as_deref(), Some("MN\r\n"), "the session is free again");
}

#[test]
fn what_the_kernel_did_not_take_is_recorded_when_it_has() {
    let mut world = World::new(1, 1);
    world.dataplane.trace(1.0, 7);
    let budget = Arc::clone(world.dataplane.budget());
    let session = world.dataplane.lend_session(world.now);
    world.serve(session, "get a\r\n", world.now);
    world.server_gets(0);
    world.server_says(0, "VALUE a 0 5\r\nabcde\r\nEND\r\n");
    let reply = world.dataplane.lent_reply(session).expect("it is complete").to_vec();
    let mut unsent = world.dataplane.release_lent(session, 10, world.now).expect("some is left");
    assert_eq!((unsent.output(), unsent.len()), (&reply[10..], reply.len() - 10));
    assert_eq!(budget.held(), reply.len() - 10);
    // The session is another request's already.
    world.serve(session, "get b\r\n", world.now);
    assert_eq!(world.server_gets(0), "get b\r\n");
    let recorded = |world: &World| world.report().timing.operation(Operation::Get).requests;
    assert_eq!(recorded(&world), 0);
    world.pass(5);
    unsent.advance(reply.len() - 10);
    assert!(unsent.is_empty());
    world.dataplane.note_unsent_written(&mut unsent, world.now);
    drop(unsent);
    assert_eq!((recorded(&world), budget.held()), (1, 0));
    let mut rows = Vec::new();
    world.dataplane.take_traces(|row| rows.push(row.stamps.answered));
    assert_eq!(rows, [world.now], "once");
    world.server_says(0, "END\r\n");
    assert_eq!(world.lent_reply(session).as_deref(), Some("END\r\n"));
    assert_eq!(recorded(&world), 2);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_client_that_is_gone_is_counted_and_its_session_serves_others() {
    let mut world = World::new(1, 1);
    let session = world.dataplane.lend_session(world.now);
    world.serve(session, "get a\r\n", world.now);
    world.server_gets(0);
    world.server_says(0, "VALUE a 0 1\r\nx\r\nEND\r\n");
    assert!(world.dataplane.lent_reply(session).is_some());
    world.dataplane.abandon_lent(session);
    world.serve(session, "get b\r\n", world.now);
    world.server_gets(0);
    world.server_says(0, "END\r\n");
    assert_eq!(world.lent_reply(session).as_deref(), Some("END\r\n"));
    let report = world.report();
    assert_eq!((report.counters.requests, report.counters.requests_orphaned), (2, 1));
    assert_eq!(report.timing.operation(Operation::Get).requests, 1);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_request_is_given_up_while_the_server_of_its_last_message_owes_the_reply() {
    let mut world = World::with(2, 1, Config { mark_down_timeouts: 0, ..Config::default() });
    let [one, other] = [0, 1].map(|server| world.key_on(server));
    let session = world.dataplane.lend_session(world.now);
    world.serve(session, &format!("set {one} 0 0 1\r\nx\r\n"), world.now);
    world.server_gets(0);
    world.pass(TIMEOUT);
    assert_eq!(world.lent_reply(session).as_deref(), Some("SERVER_ERROR timeout s:1\r\n"));
    assert!(world.dataplane.is_given_up() && world.dataplane.is_owed_replies());
    // The next one has nothing to do with that server.
    world.serve(session, &format!("set {other} 0 0 1\r\nx\r\n"), world.now);
    assert!(world.dataplane.lent_reply(session).is_none());
    world.server_gets(1);
    world.server_says(1, "STORED\r\n");
    assert_eq!(world.lent_reply(session).as_deref(), Some("STORED\r\n"));
    assert!(!world.dataplane.is_given_up() && world.dataplane.is_owed_replies());
    world.server_says(0, "STORED\r\nVERSION 1.6.18\r\n");
    assert!(!world.dataplane.is_owed_replies());
}

#[test]
fn a_dataplane_without_servers_wants_no_connection_whatever_table_comes() {
    let now = Instant::from_nanos(1);
    let mut dataplane =
        Dataplane::without_servers(Config::default(), Arc::new(router(&["a:1", "b:2"], 2).into()), now);
    let session = dataplane.lend_session(now);
    let check = |dataplane: &mut Dataplane, name: &str, later: u64| {
        let now = now.plus(later);
        dataplane.handle_time(now);
        assert_eq!((dataplane.poll_event(), dataplane.poll_change()), (None, None));
        let parsed = parse_whole(b"get k\r\n", Limits::default());
        dataplane.serve(session, parsed, taken_at(now), Some(Fault::Timeout));
        let reply = dataplane.lent_reply(session).expect("at once").to_vec();
        assert_eq!(String::from_utf8_lossy(&reply), format!("SERVER_ERROR timeout {name}\r\n"));
        assert!(dataplane.release_lent(session, reply.len(), now).is_none());
        while dataplane.poll_client_output().is_some() {}
        assert!(!dataplane.has_server_output() && dataplane.is_quiet());
    };
    let name = |dataplane: &Dataplane| dataplane.report(now).servers.len();
    assert_eq!(name(&dataplane), 2);
    let primary = if router(&["a:1", "b:2"], 2).primary(b"k") == 0 { "a:1" } else { "b:2" };
    check(&mut dataplane, primary, 0);
    dataplane.handle_table_unconnected(Arc::new(router(&["c:3"], 1).into()), now);
    check(&mut dataplane, "c:3", 1);
    dataplane.handle_table_unconnected(Arc::new(router(&["c:3", "d:4"], 1).into()), now);
    dataplane.counters_mut().queue_timeouts += 1;
    check(
        &mut dataplane,
        if router(&["c:3", "d:4"], 1).primary(b"k") == 0 { "c:3" } else { "d:4" },
        100_000_000_000,
    );
    assert_eq!(dataplane.report(now).counters.queue_timeouts, 1);
}

#[test]
fn a_server_tells_what_it_stores_to_those_who_cut_requests() {
    let mut world =
        World::with(1, 1, Config { greets_servers: true, asks_item_size: true, ..Config::default() });
    assert_eq!(world.dataplane.value_bytes_max(), 1 << 20);
    assert_eq!(world.server_gets(0), "version\r\n");
    world.server_says(0, "VERSION 1.6.18\r\n");
    assert_eq!(world.server_gets(0), "stats settings\r\n");
    world.server_says(0, "STAT item_size_max 4194304\r\nEND\r\n");
    assert_eq!(world.dataplane.value_bytes_max(), 4 << 20);
}

#[test]
fn a_server_that_is_needed_after_the_time_was_known_is_connected_to_at_once() {
    let config = Config { connects_when_needed: true, ..Config::default() };
    let (table, now) = (Arc::new(router(&["a:1"], 1).into()), Instant::ZERO);
    let mut dataplane = Dataplane::new(config, table, now);
    let session = dataplane.lend_session(now);
    dataplane.handle_time(now);
    assert_eq!((dataplane.poll_event(), dataplane.poll_timeout()), (None, None));
    let taken = Taken { enqueued: now, dequeued: now, ..Taken::default() };
    dataplane.serve(session, parse_whole(b"get a\r\n", Limits::default()), taken, None);
    assert_eq!(dataplane.poll_timeout(), Some(now), "nobody else may wake the driver");
    dataplane.handle_time(now);
    assert_eq!(dataplane.poll_event(), Some(Event::Connect(slot(0))));
}
