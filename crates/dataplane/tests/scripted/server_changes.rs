//! What becomes of servers is reported as it happens, once for each thing.

use crate::world::{MS, World, slot};
use weir_dataplane::{Config, DownReason, ReplacedReason, ServerChange, WritePolicy};

fn reported(world: &mut World) -> Vec<ServerChange> {
    std::iter::from_fn(|| world.dataplane.poll_change()).map(|change| change.what).collect()
}

#[test]
fn a_server_that_is_killed_and_comes_back_is_down_and_up() {
    let mut world = World::new(1, 1);
    reported(&mut world);
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.turn();
    assert_eq!(reported(&mut world), [], "it may be back at once");
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    assert_eq!(reported(&mut world), [ServerChange::Down(DownReason::Unreachable)]);
    world.comes_back(0);
    assert_eq!(reported(&mut world), [ServerChange::Up]);
}

#[test]
fn a_server_that_answers_no_greeting_and_one_that_wants_a_login_are_distinguished() {
    for (reply, reason) in [
        ("", DownReason::Unanswered),
        ("CLIENT_ERROR unauthenticated\r\n", DownReason::LoginWanted),
        (
            "HTTP/1.1 400\r\n",
            DownReason::Garbage { said: "the reply \"HTTP/1.1 400\" does not fit the request".into() },
        ),
    ] {
        let mut world = World::with(1, 1, Config { greets_servers: true, ..Config::default() });
        world.server_gets(0);
        assert_eq!(reported(&mut world), [], "it has not answered yet");
        world.server_says(0, reply);
        world.pass(500 * MS);
        assert_eq!(reported(&mut world), [ServerChange::Down(reason)]);
    }
}

#[test]
fn a_reply_that_is_none_replaces_the_connection_and_two_make_the_server_down() {
    let mut world = World::new(1, 1);
    reported(&mut world);
    let client = world.client();
    let said = "the reply \"nonsense\" does not fit the request".to_owned();
    let replaced = ServerChange::Replaced(ReplacedReason::Garbage { said: said.clone() });
    world.send(client, "get a\r\n");
    world.server_gets(0);
    world.server_says(0, "nonsense\r\n");
    assert_eq!(reported(&mut world), std::slice::from_ref(&replaced));
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.send(client, "get a\r\n");
    world.server_gets(0);
    world.server_says(0, "nonsense\r\n");
    assert_eq!(
        reported(&mut world),
        [ServerChange::Up, replaced, ServerChange::Down(DownReason::Garbage { said })]
    );
}

#[test]
fn a_server_that_freezes_is_marked_down_and_goes_on() {
    let mut world = World::new(1, 1);
    reported(&mut world);
    let client = world.client();
    for _ in 0..3 {
        world.send(client, "get a\r\n");
        world.pass(500 * MS);
    }
    assert_eq!(reported(&mut world), [ServerChange::MarkedDown { timeouts: 3 }]);
    let asked = world.server_gets(0);
    world.server_says(0, &asked.replace("get a", "END").replace("version", "VERSION 1"));
    assert_eq!(reported(&mut world), [ServerChange::Up]);
}

#[test]
fn a_copy_that_missed_a_write_is_stale_until_it_has_forgotten_the_key() {
    let config = Config { write_policy: WritePolicy::All, ..Config::default() };
    let mut world = World::with(2, 2, config);
    reported(&mut world);
    let client = world.client();
    world.dataplane.handle_server_disconnected(slot(1), world.now);
    world.dataplane.handle_server_disconnected(slot(1), world.now);
    let key = world.key_on(0);
    world.send(client, &format!("set {key} 0 0 1\r\na\r\n"));
    world.server_gets(0);
    world.server_says(0, "STORED\r\n");
    let down = ServerChange::Down(DownReason::Unreachable);
    assert_eq!(reported(&mut world), [down, ServerChange::Stale]);
    world.comes_back(1);
    assert!(world.server_gets(1).contains("delete"), "it is made to forget the key");
    world.server_says(1, "DELETED\r\n");
    assert_eq!(reported(&mut world), [ServerChange::Up, ServerChange::Fresh]);
}
