//! cas tokens of keys that have several servers.

use crate::world::{World, router, slot, token};
use weir_dataplane::{Config, SessionId, WritePolicy};
use weir_routing::Table;

impl World {
    /// What a client hears at once, when no server hears of its request.
    fn answers_alone(&mut self, client: SessionId, request: &str) -> String {
        self.send(client, request);
        for server in 0..self.router.servers().len() {
            assert_eq!(self.server_gets(server), "", "server {server} was asked {request:?}");
        }
        self.client_gets(client)
    }

    /// What a client hears when one server, which is asked `sent`, says `reply`. Asked behind that what it holds, it says: nothing.
    fn exchange(
        &mut self,
        client: SessionId,
        request: &str,
        (server, sent, reply): (usize, &str, &str),
    ) -> String {
        self.send(client, request);
        let asked = self.server_gets(server);
        let item =
            asked.strip_prefix(sent).filter(|rest| rest.starts_with("mg ") && rest.ends_with(" v f t\r\n"));
        assert_eq!(asked.strip_suffix(item.unwrap_or_default()), Some(sent), "{request:?}");
        self.hears(client, server, &format!("{reply}{}", if item.is_some() { "EN\r\n" } else { "" }))
    }
}

/// A key with two of three servers: 0 decides, 1 follows.
fn world() -> (World, SessionId, String) {
    let mut world = World::new(3, 2);
    let client = world.client();
    let key = world.key_on(0);
    (world, client, key)
}

fn value(key: &str, cas: u64) -> String {
    format!("VALUE {key} 7 3 {cas}\r\nabc\r\nEND\r\n")
}

fn cas(key: &str, cas: impl std::fmt::Display) -> String {
    format!("cas {key} 0 0 1 {cas}\r\nx\r\n")
}

#[test]
fn a_token_carries_the_tag_of_its_server_and_the_server_does_not_see_it() {
    let (mut world, client, key) = world();
    for verb in ["gets", "gats 100"] {
        let request = format!("{verb} {key}\r\n");
        let heard = world.exchange(client, &request, (0, &request, &value(&key, 17)));
        assert_eq!(heard, value(&key, token(0, 17)));
    }
    let request = cas(&key, token(0, 17));
    assert_eq!(world.exchange(client, &request, (0, &cas(&key, 17), "STORED\r\n")), "");
    let follows = format!("set {key} 0 0 1\r\nx\r\n");
    assert_eq!(world.server_gets(1), follows);
    assert_eq!(world.hears(client, 1, "STORED\r\n"), "STORED\r\n");
    // It has been changed since.
    assert_eq!(world.exchange(client, &request, (0, &cas(&key, 17), "EXISTS\r\n")), "EXISTS\r\n");
    assert_eq!(world.exchange(client, &request, (0, &cas(&key, 17), "NOT_FOUND\r\n")), "NOT_FOUND\r\n");
    assert_eq!(world.report().counters.tokens_outdated, 0);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn plain_values_and_keys_with_one_server_have_what_the_server_says() {
    let (mut world, client, key) = world();
    let get = format!("get {key}\r\n");
    let plain = format!("VALUE {key} 7 3\r\nabc\r\nEND\r\n");
    assert_eq!(world.exchange(client, &get, (0, &get, &plain)), plain);
    let me = format!("me {key}\r\n");
    let line = format!("ME {key} exp=-1 la=2 cas=17 fetch=no cls=1 c17\r\n");
    assert_eq!(world.exchange(client, &me, (0, &me, &line)), line);

    let mut world = World::new(2, 1);
    let client = world.client();
    let key = world.key_on(0);
    let (gets, mg) = (format!("gets {key}\r\n"), format!("mg {key} c\r\n"));
    assert_eq!(world.exchange(client, &gets, (0, &gets, &value(&key, 17))), value(&key, 17));
    assert_eq!(world.exchange(client, &mg, (0, &mg, "HD c17\r\n")), "HD c17\r\n");
    for token in [17, token(1, 17), u64::MAX] {
        let request = cas(&key, token);
        assert_eq!(world.exchange(client, &request, (0, &request, "STORED\r\n")), "STORED\r\n");
    }
    assert_eq!(world.report().counters.tokens_outdated, 0);
}

#[test]
fn when_another_server_decides_the_tokens_of_the_one_before_give_exists_and_nobody_is_asked() {
    let (mut world, client, key) = world();
    let gets = format!("gets {key}\r\n");
    assert_eq!(world.exchange(client, &gets, (0, &gets, &value(&key, 17))), value(&key, token(0, 17)));
    world.goes_down(0);
    assert_eq!(world.answers_alone(client, &cas(&key, token(0, 17))), "EXISTS\r\n");
    // By accident it would be valid there.
    let heard = world.exchange(client, &gets, (1, &gets, &value(&key, 17)));
    assert_eq!(heard, value(&key, token(1, 17)));
    assert_eq!(
        world.exchange(client, &cas(&key, token(1, 17)), (1, &cas(&key, 17), "STORED\r\n")),
        "STORED\r\n"
    );
    assert_eq!(world.report().counters.tokens_outdated, 1);

    // The first is back, and has forgotten what it missed.
    world.comes_back(0);
    assert_eq!(world.server_gets(0), format!("delete {key}\r\n"));
    assert_eq!(
        world.exchange(client, &cas(&key, token(1, 17)), (1, &cas(&key, 17), "EXISTS\r\n")),
        "EXISTS\r\n"
    );
    world.server_says(0, "DELETED\r\n");
    assert_eq!(world.answers_alone(client, &cas(&key, token(1, 18))), "EXISTS\r\n");
    assert_eq!(
        world.exchange(client, &cas(&key, token(0, 17)), (0, &cas(&key, 17), "NOT_FOUND\r\n")),
        "NOT_FOUND\r\n"
    );
    assert_eq!(world.report().counters.tokens_outdated, 2);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn with_no_server_that_may_decide_there_is_no_telling() {
    let mut world = World::new(2, 2);
    let client = world.client();
    let key = world.key_on(0);
    world.goes_down(0);
    world.goes_down(1);
    assert_eq!(world.answers_alone(client, &cas(&key, token(0, 17))), "SERVER_ERROR down s:1\r\n");
}

#[test]
fn who_wants_no_reply_hears_nothing_and_the_next_reply_is_the_next_requests() {
    let (mut world, client, key) = world();
    let old = format!("cas {key} 0 0 1 {} noreply\r\nx\r\n", token(1, 17));
    assert_eq!(world.answers_alone(client, &format!("{old}{old}version\r\n")), "VERSION 1.6.18\r\n");
    let present = format!("cas {key} 0 0 1 {} noreply\r\nx\r\nversion\r\n", token(0, 17));
    assert_eq!(world.exchange(client, &present, (0, &cas(&key, 17), "EXISTS\r\n")), "VERSION 1.6.18\r\n");
    assert_eq!(world.report().counters.tokens_outdated, 2);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn an_answer_that_needs_no_server_waits_for_its_turn() {
    let (mut world, client, key) = world();
    let get = format!("get {key}\r\n");
    world.send(client, &get);
    assert_eq!(world.server_gets(0), get);
    assert_eq!(world.answers_alone(client, &cas(&key, 17)), "");
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\nEXISTS\r\n");
}

#[test]
fn tokens_are_read_as_memcached_reads_them() {
    let (mut world, client, key) = world();
    let present = token(0, 17);
    for text in [format!("+{present}"), format!("000{present}"), format!("\t{present}\tx")] {
        let heard = world.exchange(client, &cas(&key, text), (0, &cas(&key, 17), "EXISTS\r\n"));
        assert_eq!(heard, "EXISTS\r\n");
    }
    // Those of no server, or of another.
    for token in [0, 17, (1 << 48) - 1, 1 << 48 | 17, token(1, 17), token(2, 17), present | 1 << 63, u64::MAX]
    {
        assert_eq!(world.answers_alone(client, &cas(&key, token)), "EXISTS\r\n", "{token}");
    }
    for text in ["abc", "-17", "18446744073709551616", "1.5", "0x11"] {
        let heard = world.answers_alone(client, &cas(&key, text));
        assert_eq!(heard, "CLIENT_ERROR bad command line format\r\nERROR\r\n", "{text}");
    }
    assert_eq!(world.report().counters.tokens_outdated, 8);
}

#[test]
fn a_number_without_room_for_a_tag_is_shown_without_one_and_never_compared() {
    let (mut world, client, key) = world();
    let gets = format!("gets {key}\r\n");
    for (number, shown) in [
        (0, token(0, 0)),
        ((1 << 48) - 1, token(0, (1 << 48) - 1)),
        (1 << 48, 0),
        (1 << 48 | 17, 17),
        (token(0, 17), 17),
        (u64::MAX, (1 << 48) - 1),
    ] {
        assert_eq!(world.exchange(client, &gets, (0, &gets, &value(&key, number))), value(&key, shown));
        let request = cas(&key, shown);
        if number < 1 << 48 {
            let heard = world.exchange(client, &request, (0, &cas(&key, number), "EXISTS\r\n"));
            assert_eq!(heard, "EXISTS\r\n");
        } else {
            assert_eq!(world.answers_alone(client, &request), "EXISTS\r\n");
        }
    }
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_multi_get_shows_the_tag_of_each_keys_own_server() {
    let mut world = World::new(3, 2);
    let client = world.client();
    let keys: Vec<String> = (0..3).flat_map(|server| world.keys_on(server, 2)).collect();
    let order: Vec<usize> = vec![3, 0, 5, 1, 2, 4];
    let asked: Vec<&str> = order.iter().map(|&key| keys[key].as_str()).collect();
    let large = "x".repeat(100_000);
    let item = |key: &str, cas: u64| format!("VALUE {key} 7 {} {cas}\r\n{large}\r\n", large.len());
    world.send(client, &format!("gets {}\r\n", asked.join(" ")));
    for server in [2, 0, 1] {
        let parts = world.server_gets(server);
        let own: Vec<&str> = asked
            .iter()
            .copied()
            .filter(|key| keys[2 * server..2 * server + 2].iter().any(|it| it == key))
            .collect();
        assert_eq!(parts, format!("gets {}\r\n", own.join(" ")));
        // The fourth key is nowhere.
        let found = own.iter().filter(|key| **key != keys[1]).map(|key| item(key, 5)).collect::<String>();
        world.server_says(server, &format!("{found}END\r\n"));
    }
    let found = order.iter().filter(|&&key| key != 1).map(|&key| item(&keys[key], token(key / 2, 5)));
    assert_eq!(world.client_gets(client), format!("{}END\r\n", found.collect::<String>()));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_token_is_that_of_the_server_that_answered_in_the_end() {
    let (mut world, client, key) = world();
    for (request, reply, shown) in [
        (format!("gets {key}\r\n"), value(&key, 17), value(&key, token(1, 17))),
        (
            format!("mg {key} c v\r\n"),
            "VA 1 c17\r\nx\r\n".to_owned(),
            format!("VA 1 c{}\r\nx\r\n", token(1, 17)),
        ),
    ] {
        world.send(client, &request);
        assert_eq!(world.server_gets(0), request);
        // The beginning of an answer is none.
        world.server_says(0, &reply[..reply.len() - 1]);
        world.closes(0);
        assert_eq!(world.server_gets(1), request);
        assert_eq!(world.hears(client, 1, &reply), shown);
        world.dataplane.handle_server_connected(slot(0), world.now);
        world.turn();
    }
    assert_eq!(world.report().counters.reads_retried, 2);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn meta_commands_show_and_compare_tagged_tokens() {
    let (mut world, client, key) = world();
    let (old, present) = (token(1, 17), token(0, 17));
    let base64 = "a2V5"; // It stands for "key", whose servers are others.
    let decider = world.router.primary(b"key");
    for (request, server, sent, reply, heard) in [
        ("mg KEY c", 0, "mg KEY c", "HD c17", "HD cTOKEN"),
        ("mg KEY k c v Oc17", 0, "mg KEY k c v Oc17", "VA 3 kKEY c17 Oc17/c17", "VA 3 kKEY cTOKEN Oc17/c17"),
        ("mg KEY c s t", 0, "mg KEY c s t", "EN", "EN"),
        ("mg KEY c v q", 0, "mg KEY c v", "EN", ""),
        ("mg KEY c v q", 0, "mg KEY c v", "VA 3 c17/abc", "VA 3 cTOKEN/abc"),
        ("ms KEY 1 C@ c/x", 0, "ms KEY 1 C17 c/x", "EX c0", "EX c0"),
        ("ms KEY 1 c C@ q/x", 0, "ms KEY 1 c C17 q/x/mn", "NF c0/MN", "NF c0"),
        ("ms KEY 1 T9 C@ I O1/x", 0, "ms KEY 1 T9 C17 I O1/x", "NF O1", "NF O1"),
        ("md KEY C@ q k", 0, "md KEY C17 q k/mn", "EX kKEY/MN", "EX kKEY"),
        ("ma KEY C@ N0 J5", 0, "ma KEY C17 N0 J5", "NF", "NF"),
        ("ma B64 C# b k", decider, "ma B64 C17 b", "EX", "EX kB64 b"),
    ] {
        let fill = |text: &str, cas: u64| {
            let text = format!("{text}\r\n").replace('/', "\r\n").replace("KEY", &key);
            let text = text.replace("B64", base64).replace('#', &token(decider, 17).to_string());
            text.replace('@', &cas.to_string()).replace("TOKEN", &cas.to_string())
        };
        let heard = if heard.is_empty() { String::new() } else { fill(heard, present) };
        let (sent, reply) = (fill(sent, present), fill(reply, present));
        assert_eq!(
            world.exchange(client, &fill(request, present), (server, &sent, &reply)),
            heard,
            "{request}"
        );
    }
    for (request, heard) in [
        ("ms KEY 1 C@/x", "EX"),
        ("ms KEY 1 c C@ k O12 q/x", "EX c0 kKEY O12"),
        ("ms KEY 1 T-1 F5 MA C@ I Oc/x", "EX Oc"),
        ("md KEY C@", "EX"),
        ("md KEY q k O1 c I T30 C@", "EX kKEY O1"),
        ("ma KEY C@", "EX"),
        ("ma KEY N5 J3 D2 MD C@ O9 k c", "EX O9 kKEY"),
        ("ma B64 O9 k b C@", "EX O9 kB64 b"),
        ("ms KEY 1 C17/x", "EX"),
    ] {
        let fill = |text: &str, cas: u64| {
            let text = format!("{text}\r\n").replace('/', "\r\n").replace("KEY", &key).replace("B64", base64);
            text.replace('@', &cas.to_string())
        };
        let foreign = if request.contains("B64") { token((decider + 1) % 3, 17) } else { old };
        assert_eq!(world.answers_alone(client, &fill(request, foreign)), fill(heard, 0), "{request}");
    }
    assert_eq!(world.report().counters.tokens_outdated, 9);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn what_a_meta_write_did_is_shown_with_the_deciders_tag() {
    let (mut world, client, key) = world();
    let shown = format!("HD c{} Oc5\r\n", token(0, 18));
    // To all at once, and to the decider first.
    for flags in ["", &format!(" C{}", token(0, 17))] {
        let request = format!("ms {key} 1 c Oc5{flags}\r\nx\r\n");
        let sent = request.replace(&token(0, 17).to_string(), "17");
        assert_eq!(world.exchange(client, &request, (0, &sent, "HD c18 Oc5\r\n")), "");
        let (expected, reply) = if flags.is_empty() {
            (sent, "HD c3 Oc5\r\n")
        } else {
            (format!("ms {key} 1\r\nx\r\n"), "HD\r\n")
        };
        assert_eq!(world.server_gets(1), expected);
        assert_eq!(world.hears(client, 1, reply), shown);
    }
    let request = format!("ma {key} c v\r\n");
    assert_eq!(world.exchange(client, &request, (0, &request, "VA 2 c19\r\nc7\r\n")), "");
    assert_eq!(world.server_gets(1), format!("delete {key}\r\n"));
    assert_eq!(world.hears(client, 1, "NOT_FOUND\r\n"), format!("VA 2 c{}\r\nc7\r\n", token(0, 19)));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_reply_of_another_than_the_decider_has_its_own_tag() {
    let mut world = World::with(3, 2, Config { write_policy: WritePolicy::First, ..Config::default() });
    let client = world.client();
    let key = world.key_on(0);
    let request = format!("ms {key} 1 c\r\nx\r\n");
    world.send(client, &request);
    assert_eq!((world.server_gets(0), world.server_gets(1)), (request.clone(), request));
    assert_eq!(world.hears(client, 1, "HD c17\r\n"), format!("HD c{}\r\n", token(1, 17)));
    world.server_says(0, "HD c17\r\n");
    // It would be valid at the decider.
    assert_eq!(world.answers_alone(client, &cas(&key, token(1, 17))), "EXISTS\r\n");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn who_makes_another_mistake_gets_the_servers_error() {
    let (mut world, client, key) = world();
    let old = token(1, 17);
    let none = u64::MAX;
    for (request, sent) in [
        ("ms KEY 1 Cabc\r\nx\r\n".to_owned(), "ms KEY 1 Cabc\r\nx\r\n".to_owned()),
        ("md KEY C".to_owned() + "\r\n", "md KEY C\r\n".to_owned()),
        (format!("md KEY C{old} ~\r\n"), format!("md KEY C{none} ~\r\n")),
        (format!("md KEY C{old} C17\r\n"), format!("md KEY C{none} C{none}\r\n")),
        (format!("md KEY C{} C{old}\r\n", token(0, 17)), format!("md KEY C17 C{none}\r\n")),
        (format!("md KEY q q C{old}\r\n"), format!("md KEY q q C{none}\r\nmn\r\n")),
        (format!("ma KEY Dx C{old}\r\n"), format!("ma KEY Dx C{none}\r\n")),
        (format!("ma KEY MX C{old}\r\n"), format!("ma KEY MX C{none}\r\n")),
        (format!("ms KEY 1 T C{old}\r\nx\r\n"), format!("ms KEY 1 T C{none}\r\nx\r\n")),
        (format!("ms KEY 1 ME C{old}\r\nx\r\n"), format!("ms KEY 1 ME C{none}\r\nx\r\n")),
        (
            format!("ms KEY 1 O{} C17\r\nx\r\n", "o".repeat(32)),
            format!("ms KEY 1 O{} C{none}\r\nx\r\n", "o".repeat(32)),
        ),
        (format!("ms KEY 1 C{old}\r\nxyz"), format!("ms KEY 1 C{none}\r\nxyz")),
    ] {
        let [request, sent] = [request, sent].map(|text| text.replace("KEY", &key));
        let (reply, noop) =
            ("CLIENT_ERROR invalid flag\r\n", if sent.ends_with("mn\r\n") { "MN\r\n" } else { "" });
        assert_eq!(
            world.exchange(client, &request, (0, &sent, &format!("{reply}{noop}"))),
            reply,
            "{request}"
        );
    }
    // A longer line could be too long for the server.
    let flags = "z".repeat(1024);
    assert_eq!(world.answers_alone(client, &format!("md {key} {flags} C17\r\n")), "EX\r\n");
    assert!(world.dataplane.is_quiet());
}

/// `E` gives an item a number of the client's own. A tag that the decider would put back is taken off, and nothing else.
#[test]
fn a_number_that_a_client_gives_is_passed_on() {
    let (mut world, client, key) = world();
    for (given, sent, shown) in [
        (7, 7, token(0, 7)),
        (token(0, 7), 7, token(0, 7)),
        (token(1, 7), token(1, 7), 7),
        (1 << 48, 1 << 48, 0),
    ] {
        let [request, asked] = [given, sent].map(|number: u64| format!("ms {key} 1 E{number} c\r\nx\r\n"));
        assert_eq!(world.exchange(client, &request, (0, &asked, &format!("HD c{sent}\r\n"))), "");
        assert_eq!(world.server_gets(1), format!("ms {key} 1\r\nx\r\n"));
        assert_eq!(world.hears(client, 1, "HD\r\n"), format!("HD c{shown}\r\n"));
    }
    let both = format!("ms {key} 1 E9 C{}\r\nx\r\n", token(1, 7));
    let sent = format!("ms {key} 1 E9 C{}\r\nx\r\n", u64::MAX);
    assert_eq!(world.exchange(client, &both, (0, &sent, "EX\r\n")), "EX\r\n");
}

#[test]
fn replies_with_tokens_may_be_cut_anywhere() {
    let whole = {
        let (mut world, client, key) = world();
        ask_for_tokens(&mut world, client, &key);
        world.hears(client, 0, &replies_with_tokens(&key))
    };
    let (shown, large) = (token(0, 17), "c17 ".repeat(100));
    let (_, _, key) = world();
    assert_eq!(
        whole,
        format!(
            "VALUE {key} 4294967295 400 {shown}\r\n{large}\r\nEND\r\nHD c{shown}\r\nVA 3 c{shown} k{key}\r\nc17\r\nEND\r\nEN\r\n"
        )
    );
    let replies = replies_with_tokens(&key);
    for cut in 1..replies.len() {
        let (mut world, client, _) = self::world();
        ask_for_tokens(&mut world, client, &key);
        let heard = world.hears(client, 0, &replies[..cut]) + &world.hears(client, 0, &replies[cut..]);
        assert_eq!(heard, whole, "cut at {cut}");
        assert!(world.dataplane.is_quiet());
    }
    let (mut world, client, _) = self::world();
    ask_for_tokens(&mut world, client, &key);
    let heard: String = (0..replies.len()).map(|at| world.hears(client, 0, &replies[at..=at])).collect();
    assert_eq!(heard, whole);
}

fn ask_for_tokens(world: &mut World, client: SessionId, key: &str) {
    world.send(
        client,
        &format!("gets {key}\r\nmg {key} c\r\nmg {key} c v k q\r\ngets {key}\r\nmg {key} c\r\n"),
    );
    assert_ne!(world.server_gets(0), "");
}

fn replies_with_tokens(key: &str) -> String {
    let large = "c17 ".repeat(100);
    format!(
        "VALUE {key} 4294967295 400 17\r\n{large}\r\nEND\r\nHD c17\r\nVA 3 c17 k{key}\r\nc17\r\nEND\r\nEN\r\n"
    )
}

/// What counts against a limit is what the client is sent.
#[test]
fn a_reply_that_a_tag_makes_too_long_is_refused() {
    let (_, _, key) = world();
    let shown = value(&key, token(0, 17)).len();
    for (room, fits) in [(shown, true), (shown - 1, false)] {
        let config = Config { session_buffer_bytes_max: room, ..Config::default() };
        let mut world = World::with(3, 2, config);
        let client = world.client();
        let gets = format!("gets {key}\r\n");
        let heard = world.exchange(client, &gets, (0, &gets, &value(&key, 17)));
        let expected =
            if fits { value(&key, token(0, 17)) } else { "SERVER_ERROR buffer-full client\r\n".to_owned() };
        assert_eq!(heard, expected);
    }
}

/// One server may belong to two pools, of which one has copies.
#[test]
fn in_a_pool_without_copies_the_numbers_of_a_shared_server_stay() {
    let mut world = World::new(2, 1);
    let client = world.client();
    let pools =
        vec![("main".to_owned(), router(&["s:1"], 1)), ("copied".to_owned(), router(&["s:1", "s:2"], 2))];
    world.reload(Table::new(pools, &[("c:".to_owned(), "copied".to_owned())]).expect("a table"));
    let copied = (0..).map(|number| format!("c:{number}"));
    let copied = copied
        .filter(|key| router(&["s:1", "s:2"], 2).primary(key.as_bytes()) == 0)
        .take(1)
        .collect::<String>();
    let gets = format!("gets a {copied}\r\n");
    let item = |key: &str, cas: u64| format!("VALUE {key} 0 1 {cas}\r\nx\r\n");
    let reply = format!("{}{}END\r\n", item("a", 17), item(&copied, 18));
    let shown = format!("{}{}END\r\n", item("a", 17), item(&copied, token(0, 18)));
    assert_eq!(world.exchange(client, &gets, (0, &gets, &reply)), shown);
    for (key, number, seen) in [("a", 17, 17), (&*copied, 18, token(0, 18))] {
        let mg = format!("mg {key} c\r\n");
        let heard = world.exchange(client, &mg, (0, &mg, &format!("HD c{number}\r\n")));
        assert_eq!(heard, format!("HD c{seen}\r\n"));
        assert_eq!(
            world.exchange(client, &cas(key, seen), (0, &cas(key, number), "EXISTS\r\n")),
            "EXISTS\r\n"
        );
    }
    let ms = "ms a 1 c\r\nx\r\n";
    assert_eq!(world.exchange(client, ms, (0, ms, "HD c19\r\n")), "HD c19\r\n");
}

#[test]
fn a_token_outlives_a_reload_that_leaves_its_server_the_decider() {
    let (mut world, client, key) = world();
    let gets = format!("gets {key}\r\n");
    world.send(client, &gets);
    assert_eq!(world.server_gets(0), gets);
    world.reload(router(&["s:1", "s:2", "s:4"], 2));
    assert_eq!(world.hears(client, 0, &value(&key, 17)), value(&key, token(0, 17)));
    assert_eq!(
        world.exchange(client, &cas(&key, token(0, 17)), (0, &cas(&key, 17), "EXISTS\r\n")),
        "EXISTS\r\n"
    );
    // Another order makes another server the decider.
    world.reload(router(&["s:2", "s:1", "s:4"], 2));
    assert_eq!(world.answers_alone(client, &cas(&key, token(0, 17))), "EXISTS\r\n");
    // Without copies numbers are the servers' own, and no server has counted so far.
    world.reload(router(&["s:1", "s:2", "s:4"], 1));
    let request = cas(&key, token(0, 17));
    assert_eq!(world.exchange(client, &request, (0, &request, "EXISTS\r\n")), "EXISTS\r\n");
}
