//! Meta commands that one server decides: what the other servers of the key learn of them.

use crate::world::{MS, TIMEOUT, World, slot};
use weir_dataplane::SessionId;

/// A key with two servers, of which 0 decides.
fn world() -> (World, SessionId, String) {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    (world, client, key)
}

/// What the decider is asked for behind a command.
fn item_of(key: &str) -> String {
    format!("mg {key} k v f t\r\n")
}

#[test]
fn a_meta_command_is_followed_like_a_classic_one() {
    for (request, reply, expected) in [
        ("ms KEY 2 ME F7 T60 c", "HD c17", "ms KEY 2 F7 T60"),
        ("ms KEY 2 MR", "HD", "ms KEY 2"),
        ("ms KEY 2 MA k", "HD kKEY", "ms KEY 2 MA"),
        ("ms KEY 2 MP", "HD", "ms KEY 2 MP"),
    ] {
        let (mut world, client, key) = world();
        let fill = |text: &str| text.replace("KEY", &key);
        world.send(client, &format!("{}\r\n41\r\n", fill(request)));
        assert_eq!(world.server_gets(0), format!("{}\r\n41\r\n", fill(request)));
        assert_eq!(world.server_gets(1), "");
        world.server_says(0, &format!("{}\r\n", fill(reply)));
        assert_eq!(world.server_gets(1), format!("{}\r\n41\r\n", fill(expected)), "{request}");
        assert_eq!(world.client_gets(client), "");
        assert!(world.hears(client, 1, "HD\r\n").starts_with("HD"), "{request}");
        assert_eq!(world.report().counters.replicas_followed, 1);
        assert!(world.dataplane.is_quiet());
    }
}

#[test]
fn what_arithmetic_made_is_asked_of_the_decider_and_set_at_the_others() {
    for (request, reply, heard) in [
        ("ma KEY N0 J41", "HD", "HD"),
        ("ma KEY N30 J41 v", "VA 2/41", "VA 2/41"),
        ("ma KEY D3 MD t", "HD t60", "HD t60"),
        // It has done it, or not, and says nothing.
        ("ma KEY q", "MN", ""),
        ("ma KEY N0 q", "HD/MN", "HD"),
    ] {
        let (mut world, client, key) = world();
        let fill = |text: &str| format!("{}\r\n", text.replace("KEY", &key).replace('/', "\r\n"));
        let noop = if request.ends_with('q') { "mn\r\n" } else { "" };
        world.send(client, &fill(request));
        assert_eq!(world.server_gets(0), format!("{}{noop}{}", fill(request), item_of(&key)));
        world.server_says(0, &fill(reply));
        assert_eq!((world.server_gets(1), world.client_gets(client)), (String::new(), String::new()));
        world.server_says(0, &format!("VA 2 k{key} f7 t60\r\n41\r\n"));
        assert_eq!(world.server_gets(1), format!("ms {key} 2 F7 T59\r\n41\r\n"), "{request}");
        assert_eq!(world.client_gets(client), "");
        let expected = if heard.is_empty() { String::new() } else { fill(heard) };
        assert_eq!(world.hears(client, 1, "HD\r\n"), expected, "{request}");
        assert!(world.dataplane.is_quiet());
    }
}

#[test]
fn what_is_no_copy_to_be_spread_is_forgotten_by_the_others() {
    for (item, is_given_back) in [
        ("EN", false),
        ("VA 2 kKEY f0 t1\r\n41", false),
        ("VA 2 kKEY f0 t-1 Z\r\n41", false),
        ("VA 2 kKEY f0 t-1 W X\r\n41", true),
        ("SERVER_ERROR out of memory writing get response", false),
    ] {
        let (mut world, client, key) = world();
        world.send(client, &format!("ma {key}\r\n"));
        world.server_gets(0);
        world.server_says(0, &format!("HD\r\n{}\r\n", item.replace("KEY", &key)));
        assert_eq!(world.server_gets(1), format!("delete {key}\r\n"), "{item}");
        let expected = if is_given_back { format!("md {key} I\r\n") } else { String::new() };
        assert_eq!(world.server_gets(0), expected, "{item}");
        if is_given_back {
            world.server_says(0, "HD\r\n");
        }
        assert_eq!(world.hears(client, 1, "DELETED\r\n"), "HD\r\n", "{item}");
        assert!(world.dataplane.is_quiet());
    }
}

#[test]
fn other_writes_wait_until_the_others_have_been_sent_it() {
    let (mut world, client, key) = world();
    let other = world.client();
    world.send(client, &format!("ma {key}\r\n"));
    world.send(other, &format!("set {key} 0 0 1\r\nx\r\n"));
    assert_eq!(world.server_gets(0), format!("ma {key}\r\n{}", item_of(&key)));
    world.server_says(0, "HD\r\n");
    assert_eq!((world.server_gets(0), world.server_gets(1)), (String::new(), String::new()));
    world.server_says(0, &format!("VA 2 k{key} f0 t-1\r\n42\r\n"));
    let set = format!("set {key} 0 0 1\r\nx\r\n");
    assert_eq!(world.server_gets(1), format!("ms {key} 2 F0\r\n42\r\n{set}"));
    assert_eq!(world.server_gets(0), set);
    world.server_says(0, "STORED\r\n");
    world.server_says(1, "HD\r\nSTORED\r\n");
    assert_eq!((world.client_gets(client), world.client_gets(other)), ("HD\r\n".into(), "STORED\r\n".into()));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_decider_that_is_lost_before_it_has_answered_makes_the_others_forget() {
    // Before its answer nobody knows what it did; behind it that is known.
    for (reply, heard) in [("", "SERVER_ERROR closed s:1\r\n"), ("HD\r\n", "HD\r\n")] {
        let (mut world, client, key) = world();
        world.send(client, &format!("ma {key}\r\n"));
        world.server_gets(0);
        world.server_says(0, reply);
        world.dataplane.handle_server_disconnected(slot(0), world.now);
        world.turn();
        assert_eq!(world.server_gets(1), format!("delete {key}\r\n"), "{reply:?}");
        let first = world.client_gets(client);
        let second = world.hears(client, 1, "DELETED\r\n");
        assert_eq!(first + &second, heard);
    }
}

#[test]
fn a_decider_that_tells_too_late_makes_the_others_forget() {
    let (mut world, client, key) = world();
    world.send(client, &format!("ma {key}\r\n"));
    world.server_gets(0);
    world.pass(MS);
    world.server_says(0, "HD\r\n");
    world.pass(TIMEOUT);
    assert_eq!(world.server_gets(1), format!("delete {key}\r\n"));
    world.server_says(1, "DELETED\r\n");
    assert_eq!(world.client_gets(client), "HD\r\n", "it was done");
    world.server_says(0, &format!("VA 2 k{key} f0 t-1\r\n42\r\n"));
    assert!(world.dataplane.is_quiet());
}
