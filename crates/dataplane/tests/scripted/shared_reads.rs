//! Equal reads by `mg` that share a message (`servers/pipeline/reads.rs`): each client is answered as if it had asked alone.

use crate::world::{MS, TIMEOUT, World, slot, unjoined};
use weir_dataplane::{AskOnce, Config, SessionId};

/// One server, and this many clients.
fn world_of(clients: usize, config: Config) -> (World, Vec<SessionId>) {
    let mut world = World::with(1, 1, config);
    let clients = (0..clients).map(|_| world.client()).collect();
    (world, clients)
}

/// A slash stands for a line ending.
fn text(text: &str) -> String {
    text.replace('/', "\r\n")
}

/// Each client sends one of these; what leaves for the server.
fn asked(world: &mut World, clients: &[SessionId], requests: &[&str]) -> String {
    for (client, request) in clients.iter().zip(requests) {
        world.send(*client, &text(&format!("{request}/")));
    }
    world.server_gets(0).replace("\r\n", "/")
}

/// What they read once the server has said this.
fn heard(world: &mut World, clients: &[SessionId], reply: &str) -> Vec<String> {
    world.server_says(0, &text(reply));
    world.all_hear(clients).iter().map(|heard| heard.replace("\r\n", "/")).collect()
}

#[test]
fn what_several_ask_is_asked_once_and_each_reads_its_own_opaque() {
    let requests =
        ["mg a v O1", "mg b v O1", "mg a v O22", "mg a q v Ox", "mg a O v", "mg b q v O2", "mg b v k"];
    for (replies, expected) in [
        (
            "VA 4 O1/a O1/VA 1 O1/b/VA 2 O/aa/VA 1 kb/b/",
            [
                "VA 4 O1/a O1/",
                "VA 1 O1/b/",
                "VA 4 O22/a O1/",
                "VA 4 Ox/a O1/",
                "VA 2 O/aa/",
                "VA 1 O2/b/",
                "VA 1 kb/b/",
            ],
        ),
        ("EN O1/EN O1/EN O/EN kb/", ["EN O1/", "EN O1/", "EN O22/", "", "EN O/", "", "EN kb/"]),
        (
            "SERVER_ERROR O1/ERROR/CLIENT_ERROR W/EN kb/",
            [
                "SERVER_ERROR O1/",
                "ERROR/",
                "SERVER_ERROR O1/",
                "SERVER_ERROR O1/",
                "CLIENT_ERROR W/",
                "ERROR/",
                "EN kb/",
            ],
        ),
    ] {
        let whole = text(replies);
        for cut in 0..whole.len() {
            let (mut world, clients) = world_of(7, Config::default());
            assert_eq!(asked(&mut world, &clients, &requests), "mg a v O1/mg b v O1/mg a O v/mg b v k/");
            world.server_says(0, &whole[..cut]);
            assert_eq!(heard(&mut world, &clients, &whole[cut..]), expected, "cut at {cut}");
            assert_eq!(world.report().counters.mgs_joined, 3);
            assert!(world.dataplane.is_quiet(), "nothing is left behind");
        }
    }
}

#[test]
fn quiet_reads_of_several_clients_are_ended_by_each_ones_own_noop() {
    let (mut world, clients) = world_of(2, Config::default());
    let sent = asked(&mut world, &clients, &["mg a v q O1/mg b v q O2/mn", "mg b v q O1/mg a v q O2/mn"]);
    assert_eq!(sent, "mg a v O1/mg b v O2/", "nothing ends them at the server");
    let expected = ["VA 1 O2/b/MN/", "VA 1 O1/b/MN/"];
    assert_eq!(heard(&mut world, &clients, "EN O1/VA 1 O2/b/"), expected);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn what_is_not_the_same_question_or_answer_has_a_message_of_its_own() {
    for (first, second) in [
        ("mg a v", "mg a"),
        ("mg a v O1", "mg a O1 v"),
        ("mg a v O1", "mg a v"),
        ("mg a v", "mg b v"),
        ("mg a v", "get a"),
        // Who asks second is to read that the first has hit it just now.
        ("mg a h", "mg a h"),
        ("mg a l v", "mg a l v"),
        // These change the item, or may.
        ("mg a v N30", "mg a v N30"),
        ("mg a v R30", "mg a v R30"),
        ("mg a v T30", "mg a v T30"),
        ("mg a v E7", "mg a v E7"),
        ("mg a v ~", "mg a v ~"),
        ("mg a v v", "mg a v v"),
        // The key is spelled as its client did.
        ("mg YQ== b v k", "mg YQ== b v k"),
        ("me a", "me a"),
    ] {
        let (mut world, clients) = world_of(2, Config::default());
        let sent = asked(&mut world, &clients, &[first, second]);
        assert_eq!(sent.matches('/').count(), 2, "{first} and {second} leave as {sent}");
        assert_eq!(world.report().counters.mgs_joined, 0);
    }
    let requests = ["mg a v", "mg a v"];
    let (mut world, clients) = world_of(2, unjoined());
    assert_eq!(asked(&mut world, &clients, &requests), "mg a v/mg a v/", "nothing is joined");
    let mut world = World::new(2, 2);
    let clients = [world.client(), world.client()];
    let key = world.key_on(0);
    let sent = asked(&mut world, &clients, &requests.map(|_| &*format!("mg {key} v").leak()));
    assert_eq!(sent, format!("mg {key} v/mg {key} v/"), "it has several servers");
}

#[test]
fn spellings_of_one_key_in_base64_are_the_same_key() {
    let (mut world, clients) = world_of(3, Config::default());
    let sent = asked(&mut world, &clients, &["mg YQ== b v O1", "mg *Y-Q== b v O2", "mg a v O3"]);
    assert_eq!(sent, "mg YQ== b v O1/mg a v O3/");
    let expected = ["VA 1 O1/x/", "VA 1 O2/x/", "VA 1 O3/x/"];
    assert_eq!(heard(&mut world, &clients, "VA 1 O1/x/VA 1 O3/x/"), expected);
}

#[test]
fn one_client_alone_is_to_fetch_a_stale_item_anew() {
    let (mut world, clients) = world_of(3, Config::default());
    assert_eq!(asked(&mut world, &clients, &["mg a v O1", "mg a v O2", "mg a v q O3"]), "mg a v O1/");
    let expected = ["VA 1 O1 X W/x/", "VA 1 O2 Z X/x/", "VA 1 O3 Z X/x/"];
    assert_eq!(heard(&mut world, &clients, "VA 1 O1 X W/x/"), expected);
}

#[test]
fn what_has_left_is_not_shared() {
    let (mut world, clients) = world_of(2, Config::default());
    assert_eq!(asked(&mut world, &clients[..1], &["mg a v"]), "mg a v/");
    assert_eq!(asked(&mut world, &clients[1..], &["mg a v"]), "mg a v/");
    assert_eq!(heard(&mut world, &clients, "EN/VA 1/x/"), ["EN/", "VA 1/x/"]);
}

#[test]
fn nobody_overtakes_what_it_has_sent_itself() {
    // What one client has sent when another's `mg a v` waits, and then asks the same: whether it shares that.
    for (own, shares) in [
        ("", true),
        ("mg b v", true),
        ("mg b v q O1", true),
        ("get b", true),
        ("get b c", true),
        ("mn", true),
        // Reads of the key that would see what comes later.
        ("get a", false),
        ("get b a", false),
        ("mg a s", false),
        ("mg YQ== b v", false),
        ("gets a", false),
        // Writes, whatever their key.
        ("set a 0 0 1/x", false),
        ("delete a", false),
        ("delete a noreply", false),
        ("ms YQ== 1 b q/x", false),
        ("mg a T30", false),
        ("set b 0 0 1/x", false),
    ] {
        let (mut world, clients) = world_of(3, Config::default());
        world.send(clients[0], "mg a v\r\n");
        world.send(clients[2], "set a 0 0 1\r\ny\r\nget c\r\n");
        let own = if own.is_empty() { String::new() } else { text(&format!("{own}/")) };
        world.send(clients[1], &(own.clone() + "mg a v\r\n"));
        let sent = world.server_gets(0);
        assert_eq!(sent.matches("mg a v\r\n").count(), if shares { 1 } else { 2 }, "{own:?}: {sent:?}");
    }
}

#[test]
fn where_gets_wait_for_others_only_who_asks_nothing_else_shares() {
    let (mut world, clients) = world_of(3, Config { ask_once: AskOnce::On, ..Config::default() });
    assert_eq!(asked(&mut world, &clients[..1], &["get a"]), "get a/");
    // The get of the third waits for the reply to the first one.
    let sent = asked(&mut world, &clients, &["mg b v", "mg a v", "get a/mg a v"]);
    assert_eq!(sent, "mg b v/mg a v/mg a v/");
    let expected = ["END/EN/", "EN/", "END/EN/"];
    assert_eq!(heard(&mut world, &clients, "END/EN/EN/EN/"), expected);
    assert_eq!(asked(&mut world, &clients, &["mg a v", "mg a v", "mg a v"]), "mg a v/");
    assert_eq!(heard(&mut world, &clients, "VA 1/x/"), ["VA 1/x/"; 3]);
}

#[test]
fn a_write_of_another_client_is_passed() {
    let (mut world, clients) = world_of(3, Config::default());
    world.send(clients[0], "mg a v O1\r\n");
    world.send(clients[1], "set a 0 0 1\r\ny\r\n");
    world.send(clients[2], "mg a v O2\r\nset a 0 0 1\r\nz\r\nmg a v O3\r\n");
    let sent = world.server_gets(0);
    assert_eq!(sent, text("mg a v O1/set a 0 0 1/y/set a 0 0 1/z/mg a v O3/"));
    let expected = ["VA 1 O1/x/", "STORED/", "VA 1 O2/x/STORED/VA 1 O3/z/"];
    assert_eq!(heard(&mut world, &clients, "VA 1 O1/x/STORED/STORED/VA 1 O3/z/"), expected);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn gets_that_wait_are_joined_as_before() {
    let (mut world, clients) = world_of(4, Config::default());
    let sent = asked(&mut world, &clients, &["get a", "mg a v O1", "mg a v O2/get b", "mg b v k/mg b v k"]);
    assert_eq!(sent, "mg a v O1/mg b v k/get a b/");
    let replies = "VA 1 O1/x/VA 1 kb/y/VALUE a 0 1/x/VALUE b 0 1/y/END/";
    let expected =
        ["VALUE a 0 1/x/END/", "VA 1 O1/x/", "VA 1 O2/x/VALUE b 0 1/y/END/", "VA 1 kb/y/VA 1 kb/y/"];
    assert_eq!(heard(&mut world, &clients, replies), expected);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_connection_that_ends_fails_all_who_ask() {
    let (mut world, clients) = world_of(3, Config::default());
    assert_eq!(asked(&mut world, &clients, &["mg a v O1", "mg a v O2", "mg a v q O3"]), "mg a v O1/");
    world.server_says(0, "VA 5 O1\r\nhal");
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.turn();
    assert_eq!(heard(&mut world, &clients, ""), ["SERVER_ERROR closed s:1/"; 3]);
    world.dataplane.handle_server_connected(slot(0), world.now);
    assert_eq!(asked(&mut world, &clients, &["mg a v O1", "mg a v O2", "mg b v"]), "mg a v O1/mg b v/");
    assert_eq!(heard(&mut world, &clients, "EN O1/EN/"), ["EN O1/", "EN O2/", "EN/"]);
}

#[test]
fn what_is_no_answer_is_none_to_all_who_ask() {
    let protocol = "SERVER_ERROR protocol s:1/";
    // Another key than was asked for costs nobody else anything.
    let (mut world, clients) = world_of(3, Config::default());
    assert_eq!(asked(&mut world, &clients, &["mg a k O1", "mg a k O2", "get b"]), "mg a k O1/get b/");
    assert_eq!(heard(&mut world, &clients, "HD kz O1/END/"), [protocol, protocol, "END/"]);
    assert_eq!(world.report().counters.server_disconnects, 0);
    // Garbage ends the connection.
    let (mut world, clients) = world_of(3, Config::default());
    assert_eq!(asked(&mut world, &clients, &["mg a k O1", "mg a k O2", "get b"]), "mg a k O1/get b/");
    assert_eq!(heard(&mut world, &clients, "STORED/"), [protocol, protocol, "SERVER_ERROR protocol s:1/"]);
    assert_eq!(world.report().counters.server_disconnects, 1);
    assert_eq!(world.report().counters.gets_asked_alone, 0);
}

#[test]
fn each_has_the_deadline_of_its_own_request_and_may_leave() {
    let (mut world, clients) = world_of(4, Config::default());
    world.send(clients[0], "mg a v O1\r\n");
    world.pass(TIMEOUT / 2);
    for (client, opaque) in clients.iter().zip(1..).skip(1) {
        world.send(*client, &format!("mg a v O{opaque}\r\n"));
    }
    assert_eq!(world.server_gets(0), "mg a v O1\r\n");
    world.dataplane.handle_client_closed(clients[2]);
    world.pass(TIMEOUT / 2);
    assert_eq!(world.client_gets(clients[0]), "SERVER_ERROR timeout s:1\r\n");
    let stay = [clients[0], clients[1], clients[3]];
    assert_eq!(heard(&mut world, &stay, "VA 1 O1/x/"), ["", "VA 1 O2/x/", "VA 1 O4/x/"]);
    assert!(world.dataplane.is_quiet());
    world.pass(MS);
    assert_eq!(asked(&mut world, &clients[..2], &["mg a v O5", "mg a v O6"]), "mg a v O5/");
    world.pass(TIMEOUT);
    assert_eq!(heard(&mut world, &stay[..2], ""), ["SERVER_ERROR timeout s:1/"; 2]);
    assert_eq!(asked(&mut world, &clients[3..], &["mg b v O7"]), "mg b v O7/");
    assert_eq!(heard(&mut world, &stay, "VA 1 O5/x/EN O7/"), ["", "", "EN O7/"], "a late reply is nobody's");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_value_without_room_fails_all_who_ask_and_nobody_else() {
    for cut in [3, 50, 333, 1500] {
        let config = Config { server_buffer_bytes_max: 1000, ..Config::default() };
        let (mut world, clients) = world_of(4, config);
        let sent = asked(&mut world, &clients, &["mg a v O1", "mg a v O2", "mg a v q O3", "mg b v"]);
        assert_eq!(sent, "mg a v O1/mg b v/");
        let replies = text(&format!("VA 2000 O1/{}/VA 1/y/", "x".repeat(2000)));
        for piece in replies.as_bytes().chunks(cut) {
            world.server_says(0, std::str::from_utf8(piece).expect("text"));
        }
        let full = "SERVER_ERROR buffer-full s:1/";
        assert_eq!(heard(&mut world, &clients, ""), [full, full, full, "VA 1/y/"], "cut by {cut}");
        assert_eq!(world.report().counters.server_disconnects, 0);
        assert!(world.dataplane.is_quiet());
    }
}

#[test]
fn a_large_value_is_copied_for_those_who_call_it_otherwise() {
    let (mut world, clients) = world_of(3, Config::default());
    assert_eq!(asked(&mut world, &clients, &["mg a v O1", "mg a v O1", "mg a v O2"]), "mg a v O1/");
    let value = "x".repeat(300_000);
    for piece in text(&format!("VA 300000 O1/{value}/")).as_bytes().chunks(65_536) {
        world.server_says(0, std::str::from_utf8(piece).expect("text"));
    }
    let expected = ["O1", "O1", "O2"].map(|opaque| format!("VA 300000 {opaque}/{value}/"));
    assert!(heard(&mut world, &clients, "") == expected);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn only_so_many_share_a_message() {
    let (mut world, clients) = world_of(300, Config::default());
    for client in &clients {
        world.send(*client, "mg a v\r\n");
    }
    assert_eq!(world.server_gets(0), "mg a v\r\nmg a v\r\n");
    assert!(
        heard(&mut world, &clients, "EN/VA 1/x/")
            .iter()
            .enumerate()
            .all(|(number, heard)| { heard == if number < 256 { "EN/" } else { "VA 1/x/" } })
    );
    assert!(world.dataplane.is_quiet());
}

#[test]
fn no_more_may_stand_behind_a_message_that_is_shared_than_is_looked_at_each_time() {
    for (between, shares) in [(64, true), (65, false)] {
        let (mut world, clients) = world_of(3, Config::default());
        world.send(clients[0], "mg a v O1\r\n");
        world.send(clients[1], &(0..between).map(|key| format!("mg k{key} v\r\n")).collect::<String>());
        world.send(clients[2], "mg a v O2\r\n");
        let sent = world.server_gets(0);
        assert_eq!(sent.matches("mg a v").count(), if shares { 1 } else { 2 }, "{between} between them");
        assert_eq!(world.report().counters.mgs_joined, u64::from(shares), "{between} between them");
        let last = if shares { "" } else { "VA 1 O2/x/" };
        let replies = "VA 1 O1/x/".to_owned() + &"EN/".repeat(between) + last;
        let expected = ["VA 1 O1/x/", &"EN/".repeat(between), "VA 1 O2/x/"];
        assert_eq!(heard(&mut world, &clients, &replies), expected, "{between} between them");
        assert!(world.dataplane.is_quiet());
    }
}

#[test]
fn what_everybody_asks_is_asked_once_for_each_65_other_questions_however_many_wait() {
    // Half of what eight clients send in one turn is for one key, and the rest for one key each.
    const EACH: usize = 100;
    let (mut world, clients) = world_of(8, Config::default());
    for (number, client) in clients.iter().enumerate() {
        let pair = |key| format!("mg hot v\r\nmg c{number}k{key} v\r\n");
        world.send(*client, &(0..EACH).map(pair).collect::<String>());
    }
    let (sent, messages) = (world.server_gets(0), (8 * EACH).div_ceil(65));
    assert_eq!(sent.matches("mg hot v\r\n").count(), messages);
    assert_eq!(world.report().counters.mgs_joined, (8 * EACH - messages) as u64);
    let reply = |asked: &str| if asked == "mg hot v" { "VA 1/x/" } else { "EN/" };
    let heard = heard(&mut world, &clients, &sent.lines().map(reply).collect::<String>());
    assert!(heard.iter().all(|heard| *heard == "VA 1/x/EN/".repeat(EACH)));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn where_much_is_in_flight_nobody_with_a_get_behind_it_shares_a_message() {
    // Keys are found by walking those of all parts, so whether that get asks for the key is not looked up.
    for (in_flight, shares) in [(1_000, true), (1_100, false)] {
        let (mut world, clients) = world_of(5, Config::default());
        for client in &clients[..2] {
            world.send(*client, &"gets c\r\n".repeat(in_flight / 2));
        }
        world.server_gets(0);
        assert_eq!(asked(&mut world, &clients[2..4], &["mg a v", "mg a v"]), "mg a v/", "no get is between");
        let own = ["mg b v", "get d/mg b v", "mg b v"];
        let sent = asked(&mut world, &clients[2..], &own);
        let expected = if shares { "mg b v/get d/" } else { "mg b v/mg b v/get d/" };
        assert_eq!(sent, expected, "{in_flight} in flight");
    }
}
