//! Requests that the driver took from their clients itself.

use crate::world::{TIMEOUT, World};
use weir_dataplane::{Config, SessionId, Taken, parse_whole};
use weir_protocol::Limits;
use weir_timing::Instant;

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

    fn hosted_reply(&mut self, session: SessionId) -> Option<String> {
        let reply = self.dataplane.hosted_reply(session)?.to_vec();
        self.dataplane.finish_hosted(session, reply.len(), self.now);
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
    assert_eq!(world.hosted_reply(session), None);
    world.server_says(0, "STORED\r\n");
    assert_eq!(world.hosted_reply(session).as_deref(), Some(""));
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
    assert_eq!(world.hosted_reply(session).as_deref(), Some("SERVER_ERROR timeout s:1\r\n"));
    // It may have been a hiccup.
    world.serve(session, &format!("get {silent}\r\n"), created);
    world.pass(TIMEOUT - 1);
    assert_eq!(world.hosted_reply(session), None);
    world.pass(1);
    assert_eq!(world.hosted_reply(session).as_deref(), Some("SERVER_ERROR timeout s:1\r\n"));
    world.serve(session, &format!("get {silent}\r\n"), created);
    assert_eq!(world.hosted_reply(session).as_deref(), Some("SERVER_ERROR timeout s:1\r\n"));
    // Another client's request, and those of other servers, have their time.
    world.serve(session, &format!("get {other}\r\n"), created);
    assert_eq!(world.hosted_reply(session), None);
    world.server_gets(1);
    world.server_says(1, "END\r\n");
    assert_eq!(world.hosted_reply(session).as_deref(), Some("END\r\n"));
    world.serve(session, &format!("get {silent}\r\n"), world.now);
    world.pass(TIMEOUT - 1);
    assert_eq!(world.hosted_reply(session), None);
    world.server_gets(0);
    world.server_says(0, "END\r\nEND\r\nVERSION 1.6.18\r\nEND\r\nEND\r\n");
    assert_eq!(world.hosted_reply(session).as_deref(), Some("END\r\n"));
    // It has spoken: who waited behind others waits for it, too.
    world.serve(session, &format!("get {silent}\r\n"), created);
    assert_eq!(world.hosted_reply(session), None);
}
