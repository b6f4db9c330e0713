//! What one client changes, and what it reads around that.

use crate::world::{World, slot, unjoined};
use weir_dataplane::{Config, ReadPolicy};

/// A follower is asked for one of two keys, and lacks it; behind that its client has sent `request`, which asks for no other.
fn asks_again_behind(request: &str) -> bool {
    let mut config = unjoined();
    config.limits.flush_allowed = true;
    let mut world = World::with(2, 2, config);
    let client = world.client();
    let keys = world.keys_on(0, 2);
    world.send(client, &format!("get {} {}\r\n{}\r\n", keys[0], keys[1], request.replace("KEY", &keys[1])));
    let asked = [world.server_gets(0), world.server_gets(1)];
    assert!(asked[0].starts_with(&format!("get {}\r\n", keys[0])), "{asked:?}");
    assert!(asked[1].starts_with(&format!("get {}\r\n", keys[1])), "{asked:?}");
    world.server_says(1, "END\r\n");
    world.server_says(0, "END\r\n");
    let again = world.server_gets(0);
    assert!(again.is_empty() || again == format!("get {}\r\n", keys[1]), "{again:?}");
    let is_asked = !again.is_empty();
    assert_eq!(world.report().counters.keys_asked_again, u64::from(is_asked));
    is_asked
}

#[test]
fn a_multiget_is_not_asked_again_behind_what_its_client_changes() {
    for request in [
        "mg KEY N30",
        "mg KEY v k N30 R5",
        "mg KEY T60",
        "mg KEY v T-1",
        "mg KEY q N0\r\nmn",
        "mg KEY E7",
        "gat -1 KEY",
        "gats 10 KEY",
        "gat 0 KEY other",
        "md KEY",
        "md KEY I T30",
        "ma KEY N0 J5",
        "ms KEY 1 MA\r\nx",
        "set KEY 0 0 1\r\nx",
        "incr KEY 1",
        "touch KEY 0",
        "flush_all",
    ] {
        assert!(!asks_again_behind(request), "{request}");
    }
    for request in
        ["mg KEY v", "mg KEY k f t s l h c v O7", "mg KEY v q", "get KEY", "gets KEY", "me KEY", "version"]
    {
        assert!(asks_again_behind(request), "{request}");
    }
}

#[test]
fn a_read_whose_server_is_lost_is_not_asked_again_behind_what_its_client_changes() {
    for (request, may_be_asked) in [("mg KEY N30", false), ("gat 10 KEY", false), ("mg KEY v", true)] {
        let mut world = World::with(2, 2, unjoined());
        let client = world.client();
        let key = world.key_on(0);
        world.send(client, &format!("get {key}\r\n{}\r\n", request.replace("KEY", &key)));
        world.server_gets(0);
        world.dataplane.handle_server_disconnected(slot(0), world.now);
        world.turn();
        let asked = world.server_gets(1);
        assert_eq!(asked.starts_with(&format!("get {key}\r\n")), may_be_asked, "{request}: {asked:?}");
    }
}

#[test]
fn a_spread_read_is_not_asked_again_behind_what_its_client_changes() {
    let mut world = World::with(2, 2, Config { read_policy: ReadPolicy::Spread, ..unjoined() });
    let client = world.client();
    let key = world.key_on(0);
    let mut missed = 0;
    for _ in 0..4 {
        world.send(client, &format!("get {key}\r\nmg {key} N30 v\r\n"));
        let asked = [world.server_gets(0), world.server_gets(1)];
        if asked[1].is_empty() {
            world.server_says(0, "END\r\n");
        } else {
            world.server_says(1, "END\r\n");
            missed += 1;
        }
        world.server_says(0, "VA 0 W\r\n\r\n");
        assert_eq!(world.client_gets(client), "END\r\nVA 0 W\r\n\r\n");
    }
    assert_eq!(missed, 2);
    assert!(world.dataplane.is_quiet());
}
