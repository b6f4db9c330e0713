//! Gets that are put to their server as meta commands, because their values are to be kept or are kept (`requests/asked_by_meta.rs`).

use crate::world::{CHANGES, MS, World, router, slot, value};
use weir_dataplane::{AskOnce, Config, NearCheck, SessionId};
use weir_timing::Operation;

const SECOND: u64 = 1_000 * MS;
const AGE: u64 = 60 * SECOND;

/// What a server is asked to keep `a`, and to see whether it has changed.
const TO_KEEP: &str = "mg a k c f t v\r\n";
const TO_CHECK: &str = "mg a k C7 c f t v\r\n";

fn on() -> Config {
    Config { near_cache_entries: 64, near_cache_age_ns: AGE, greets_servers: true, ..Config::default() }
}

fn checked() -> Config {
    Config { near_cache_check: NearCheck::On, near_cache_check_bytes_min: 0, ..on() }
}

/// A value with what a server says besides.
fn item(data: &str, token: u64, rest: &str) -> String {
    format!("VA {} ka c{token} f0 t{rest}\r\n{data}\r\n", data.len())
}

/// One server of this version, and this many clients; `a` was asked for so often that what comes next is kept.
fn world_of(version: &str, clients: usize, config: Config) -> (World, Vec<SessionId>) {
    let mut world = World::with(1, 1, config);
    world.greets(version);
    let clients: Vec<_> = (0..clients).map(|_| world.client()).collect();
    for _ in 0..2 {
        assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
        assert_eq!(world.hears(clients[0], 0, &value("a", "old")), value("a", "old"));
    }
    (world, clients)
}

/// The same, and `old` is kept under the token 7.
fn world_with(config: Config) -> (World, Vec<SessionId>) {
    let (mut world, clients) = world_of("1.6.45", 2, config);
    world.keeps(clients[0], "-1");
    (world, clients)
}

impl World {
    fn greets(&mut self, version: &str) {
        assert_eq!(self.server_gets(0), "version\r\n");
        self.server_says(0, &format!("VERSION {version}\r\n"));
    }

    /// `a` is asked for, and `old` comes with so much of its time left.
    fn keeps(&mut self, client: SessionId, rest: &str) {
        assert_eq!(self.asks(client, "get a"), TO_KEEP);
        assert_eq!(self.hears(client, 0, &item("old", 7, rest)), value("a", "old"));
    }

    /// Whether `a` is answered without its server.
    fn has(&mut self, client: SessionId) -> bool {
        let asked = self.asks(client, "get a");
        if asked.is_empty() {
            return self.client_gets(client) == value("a", "old");
        }
        assert_eq!(
            self.hears(client, 0, if asked.starts_with("mg") { "EN\r\n" } else { "END\r\n" }),
            "END\r\n"
        );
        false
    }
}

// ── how long an item lives ─────────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_client_reads_what_a_get_would_have_brought() {
    for (reply, expected) in [
        ("VA 3 ka c7 f5 t-1\r\nold\r\n", "VALUE a 5 3\r\nold\r\nEND\r\n"),
        ("VA 4 ka c7 f4294967295 t30\r\n\r\n\r\n\r\n", "VALUE a 4294967295 4\r\n\r\n\r\n\r\nEND\r\n"),
        // As memcached wrote before 1.6.18.
        ("VA 0  ka c7 f0 t30 \r\n\r\n", "VALUE a 0 0\r\n\r\nEND\r\n"),
        ("EN\r\n", "END\r\n"),
        ("SERVER_ERROR out of memory\r\n", "SERVER_ERROR out of memory\r\n"),
    ] {
        let (mut world, clients) = world_of("1.6.18", 2, on());
        assert_eq!(world.asks(clients[0], "get a"), TO_KEEP);
        assert_eq!(world.hears(clients[0], 0, reply), expected);
        let is_kept = expected.starts_with("VALUE");
        assert_eq!(world.asks(clients[1], "get a"), if is_kept { "" } else { TO_KEEP });
        if is_kept {
            assert_eq!(world.client_gets(clients[1]), expected);
            assert!(world.dataplane.is_quiet());
        }
    }
}

#[test]
fn it_counts_as_the_get_that_it_is() {
    let (mut world, clients) = world_of("1.6.18", 1, on());
    world.keeps(clients[0], "-1");
    assert!(world.has(clients[0]));
    let report = world.report();
    let get = report.timing.operation(Operation::Get);
    assert_eq!((get.requests, get.hits, get.misses()), (4, 4, 0));
    assert_eq!((report.counters.near_asked, report.counters.near_kept, report.counters.near_hits), (1, 1, 1));
}

#[test]
fn no_value_is_an_answer_for_longer_than_its_item_lives() {
    let (mut world, clients) = world_of("1.6.18", 1, on());
    world.keeps(clients[0], "30");
    // The thirtieth second may be over at any time.
    world.pass(29 * SECOND - 1);
    assert!(world.has(clients[0]));
    world.pass(1);
    assert!(!world.has(clients[0]));
    // From when the get is sent, and not from its reply.
    assert_eq!(world.asks(clients[0], "get a"), TO_KEEP);
    world.pass(400 * MS);
    assert_eq!(world.hears(clients[0], 0, &item("old", 8, "2")), value("a", "old"));
    world.pass(600 * MS - 1);
    assert!(world.has(clients[0]));
    world.pass(1);
    assert!(!world.has(clients[0]));
}

#[test]
fn its_age_still_bounds_a_value_that_lives_longer() {
    for rest in ["-1", "4000000"] {
        let (mut world, clients) = world_of("1.6.18", 1, on());
        world.keeps(clients[0], rest);
        world.pass(AGE - 1);
        assert!(world.has(clients[0]));
        world.pass(1);
        assert!(!world.has(clients[0]));
    }
}

#[test]
fn what_is_not_kept_is_a_plain_get_for_a_while() {
    for rest in ["1", "0"] {
        let (mut world, clients) = world_of("1.6.18", 1, on());
        world.keeps(clients[0], rest);
        world.pass(AGE - 1);
        assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
        assert_eq!(world.hears(clients[0], 0, &value("a", "old")), value("a", "old"));
        world.pass(1);
        world.keeps(clients[0], "-1");
        assert!(world.has(clients[0]));
    }
}

#[test]
fn a_key_that_nobody_has_is_a_plain_get_for_a_while() {
    let (mut world, clients) = world_of("1.6.18", 1, on());
    let misses = |world: &mut World, asked: &str| {
        assert_eq!(world.asks(clients[0], "get a"), asked);
        let reply = if asked == TO_KEEP { "EN\r\n" } else { "END\r\n" };
        assert_eq!(world.hears(clients[0], 0, reply), "END\r\n");
    };
    // Once it may just have come to its end.
    misses(&mut world, TO_KEEP);
    misses(&mut world, TO_KEEP);
    world.pass(AGE - 1);
    misses(&mut world, "get a\r\n");
    world.pass(1);
    misses(&mut world, TO_KEEP);
    misses(&mut world, "get a\r\n");
    // What is stored is kept at once.
    assert_ne!(world.asks(clients[0], "set a 0 0 3\r\nold"), "");
    assert_eq!(world.hears(clients[0], 0, "STORED\r\n"), "STORED\r\n");
    assert!(world.has(clients[0]));
    world.pass(AGE);
    misses(&mut world, TO_KEEP);
    misses(&mut world, TO_KEEP);
}

#[test]
fn a_change_counts_as_where_nothing_is_said() {
    for change in CHANGES {
        let (mut world, clients) = world_of("1.6.18", 2, on());
        let fails = "SERVER_ERROR out of memory\r\n";
        // During the question.
        assert_eq!(world.asks(clients[0], "get a"), TO_KEEP);
        assert_ne!(world.asks(clients[1], change), "", "{change}");
        world.server_says(0, &(item("old", 7, "-1") + fails));
        assert_eq!(world.client_gets(clients[0]), value("a", "old"));
        assert_ne!(world.asks(clients[0], "get a"), "", "{change}");
        // Behind it.
        let (mut world, clients) = world_of("1.6.18", 2, on());
        world.keeps(clients[0], "-1");
        assert_ne!(world.asks(clients[1], change), "", "{change}");
        world.server_says(0, fails);
        assert_ne!(world.asks(clients[0], "get a"), "", "{change}");
    }
}

#[test]
fn what_one_client_sends_is_answered_in_its_order() {
    let (mut world, clients) = world_of("1.6.18", 1, on());
    let sent = world.asks(clients[0], "get b\r\nget a\r\nset a 0 0 1\r\nx\r\nget a");
    assert_eq!(sent, format!("{TO_KEEP}set a 0 0 1\r\nx\r\nget b a\r\n"));
    let new = "VALUE a 0 1\r\nx\r\nEND\r\n";
    world.server_says(0, &(item("old", 7, "-1") + "STORED\r\nVALUE b 0 1\r\n1\r\n" + new));
    let expected = value("b", "1") + &value("a", "old") + "STORED\r\n" + new;
    assert_eq!(world.client_gets(clients[0]), expected);
    assert!(world.dataplane.is_quiet());
}

// ── servers that do not answer so ──────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_server_that_names_an_older_version_or_none_is_asked_as_ever() {
    for version in ["1.5.22", "1.4.39", "0.5.0", "mcrouter 1.0"] {
        let (mut world, clients) = world_of(version, 1, on());
        assert_eq!(world.asks(clients[0], "get a"), "get a\r\n", "{version}");
        assert_eq!(world.hears(clients[0], 0, &value("a", "old")), value("a", "old"));
        assert!(world.has(clients[0]), "{version}");
        world.pass(AGE);
        assert!(!world.has(clients[0]), "{version}");
    }
}

#[test]
fn a_server_that_refuses_is_asked_again_at_once_and_not_so_after_that() {
    for refusal in ["ERROR\r\n", "CLIENT_ERROR bad command line format\r\n", "HD\r\n", "VA 1 ka\r\nx\r\n"] {
        let (mut world, clients) = world_of("1.6.18", 1, on());
        assert_eq!(world.asks(clients[0], "get a"), TO_KEEP);
        world.server_says(0, refusal);
        assert_eq!(world.client_gets(clients[0]), "", "{refusal}");
        assert_eq!(world.server_gets(0), "get a\r\n", "{refusal}");
        assert_eq!(world.hears(clients[0], 0, &value("a", "old")), value("a", "old"));
        assert_eq!(world.report().timing.operation(Operation::Get).errors, 0);
        assert_eq!(world.asks(clients[0], "get a"), "get a\r\n", "{refusal}");
        assert_eq!(world.hears(clients[0], 0, &value("a", "old")), value("a", "old"));
        assert!(world.has(clients[0]), "{refusal}");
        assert!(world.dataplane.is_quiet());
    }
}

#[test]
fn it_is_not_asked_again_behind_its_own_clients_change() {
    for (refusal, heard) in [("ERROR\r\n", "ERROR\r\n"), ("HD\r\n", "SERVER_ERROR protocol s:1\r\n")] {
        let (mut world, clients) = world_of("1.6.18", 1, on());
        let change = "set a 0 0 1\r\nx";
        assert_eq!(world.asks(clients[0], &format!("get a\r\n{change}")), format!("{TO_KEEP}{change}\r\n"));
        world.server_says(0, &format!("{refusal}STORED\r\n"));
        assert_eq!(world.client_gets(clients[0]), format!("{heard}STORED\r\n"));
        assert!(world.dataplane.is_quiet());
    }
}

#[test]
fn a_reply_of_another_key_is_no_answer() {
    let (mut world, clients) = world_of("1.6.18", 1, on());
    assert_eq!(world.asks(clients[0], "get a"), TO_KEEP);
    let heard = world.hears(clients[0], 0, "VA 1 kb c7 f0 t-1\r\nx\r\n");
    assert_eq!(heard, "SERVER_ERROR protocol s:1\r\n");
    assert_eq!(world.report().counters.near_kept, 0);
}

#[test]
fn a_lost_server_fails_it_as_it_fails_a_get() {
    let (mut world, clients) = world_of("1.6.18", 1, on());
    assert_eq!(world.asks(clients[0], "get a"), TO_KEEP);
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.turn();
    assert_eq!(world.client_gets(clients[0]), "SERVER_ERROR closed s:1\r\n");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn keys_with_several_servers_are_asked_for_as_ever() {
    let mut world = World::with(2, 2, on());
    for server in 0..2 {
        assert_eq!(world.server_gets(server), "version\r\n");
        world.server_says(server, "VERSION 1.6.45\r\n");
    }
    let (client, key) = (world.client(), world.key_on(0));
    for _ in 0..3 {
        assert_eq!(world.asks(client, &format!("get {key}")), format!("get {key}\r\n"));
        assert_eq!(world.hears(client, 0, &value(&key, "1")), value(&key, "1"));
    }
    assert_eq!(world.asks(client, &format!("get {key}")), "");
}

#[test]
fn an_item_that_is_marked_as_stale_is_left_to_its_clients() {
    for (mark, again) in [(" W X", "md a I C7\r\n"), (" X Z", "")] {
        let (mut world, clients) = world_of("1.6.18", 1, on());
        assert_eq!(world.asks(clients[0], "get a"), TO_KEEP);
        let reply = item("old", 7, "30").replacen("t30", &format!("t30{mark}"), 1);
        assert_eq!(world.hears(clients[0], 0, &reply), value("a", "old"));
        assert_eq!(world.server_gets(0), again);
        if !again.is_empty() {
            assert_eq!(world.hears(clients[0], 0, "HD\r\n"), "");
        }
        assert!(world.dataplane.is_quiet());
        assert_eq!(
            world.asks(clients[0], "get a"),
            "get a\r\n",
            "it is not kept, and not asked for so for a while"
        );
    }
}

// ── whether an item has changed ────────────────────────────────────────────────────────────────────────────────────────────────

#[test]
fn a_value_is_answered_when_its_server_says_that_it_has_not_changed() {
    let (mut world, clients) = world_with(checked());
    for client in &clients {
        assert_eq!(world.asks(*client, "get a"), TO_CHECK);
        assert_eq!(world.client_gets(*client), "", "not before");
        assert_eq!(world.hears(*client, 0, "HD ka c7 f0 t-1\r\n"), value("a", "old"));
    }
    let counters = world.report().counters;
    assert_eq!((counters.near_same, counters.near_hits, counters.near_outdated), (2, 0, 0));
    let get = world.report().timing.operation(Operation::Get).clone();
    assert_eq!((get.requests, get.hits), (5, 5));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn it_is_asked_about_however_old_it_is() {
    let (mut world, clients) = world_with(checked());
    world.pass(10 * AGE);
    assert_eq!(world.asks(clients[0], "get a"), TO_CHECK);
    assert_eq!(world.hears(clients[0], 0, "HD ka c7 f0 t1\r\n"), value("a", "old"));
}

/// Its server says of another value under the same token that nothing has changed, and clients may choose tokens.
#[test]
fn what_was_written_through_the_process_since_is_not_asked_about() {
    for write in ["ms a 1 E7\r\nx", "ma a E7", "md a x E7", "set a 0 0 1\r\nx"] {
        let (mut world, clients) = world_with(checked());
        assert_eq!(world.asks(clients[1], write), format!("{write}\r\n"));
        assert_eq!(world.asks(clients[1], "get a"), "get a\r\n", "{write}");
        let written = if write.starts_with("set") { "STORED\r\n" } else { "HD\r\n" };
        let said = format!("{written}{}", value("a", "x"));
        assert_eq!(world.hears(clients[1], 0, &said), said, "{write}");
        assert_eq!(world.asks(clients[0], "get a"), TO_KEEP, "{write}");
    }
}

#[test]
fn what_has_changed_takes_its_place() {
    let (mut world, clients) = world_with(checked());
    assert_eq!(world.asks(clients[0], "get a"), TO_CHECK);
    assert_eq!(world.hears(clients[0], 0, &item("new", 8, "-1")), value("a", "new"));
    assert_eq!(world.report().counters.near_outdated, 1);
    assert_eq!(world.asks(clients[0], "get a"), "mg a k C8 c f t v\r\n");
    assert_eq!(world.hears(clients[0], 0, "HD ka c8 f0 t-1\r\n"), value("a", "new"));
    assert_eq!(world.asks(clients[0], "get a"), "mg a k C8 c f t v\r\n");
    assert_eq!(world.hears(clients[0], 0, "EN\r\n"), "END\r\n");
    assert_eq!(world.asks(clients[0], "get a"), TO_KEEP, "what is gone is forgotten");
}

#[test]
fn a_server_that_sends_the_value_all_the_same_is_right() {
    let (mut world, clients) = world_with(checked());
    assert_eq!(world.asks(clients[0], "get a"), TO_CHECK);
    assert_eq!(world.hears(clients[0], 0, &item("old", 7, "-1")), value("a", "old"));
    let counters = world.report().counters;
    assert_eq!((counters.near_same, counters.near_outdated), (0, 0));
    assert_eq!(world.asks(clients[0], "get a"), TO_CHECK);
}

#[test]
fn each_who_asks_is_answered_what_was_there_when_it_asked() {
    let (mut world, clients) = world_with(checked());
    assert_eq!(world.asks(clients[0], "get a"), TO_CHECK);
    assert_eq!(world.asks(clients[1], "get a"), TO_CHECK);
    // Another writes in between. And the value that the second one was asked about is not kept any more when it is answered.
    world.server_says(0, &(item("new", 8, "-1") + "HD ka c7 f0 t-1\r\n"));
    assert_eq!(world.all_hear(&clients), [value("a", "new"), value("a", "old")]);
    assert_eq!(world.asks(clients[0], "get a"), "mg a k C8 c f t v\r\n");
}

#[test]
fn a_token_that_is_not_the_one_that_was_asked_about_is_no_answer() {
    for reply in ["HD ka c8 f0 t-1\r\n", "HD ka\r\n"] {
        let (mut world, clients) = world_with(checked());
        assert_eq!(world.asks(clients[0], "get a"), TO_CHECK);
        assert_eq!(world.hears(clients[0], 0, reply), "");
        assert_eq!(world.server_gets(0), "get a\r\n");
        assert_eq!(world.hears(clients[0], 0, &value("a", "new")), value("a", "new"));
    }
}

#[test]
fn another_table_and_a_lost_server_end_all_tokens() {
    let (mut world, clients) = world_with(checked());
    world.reload(router(&["s:1"], 1));
    world.keeps(clients[0], "-1");
    assert_eq!(world.asks(clients[0], "get a"), TO_CHECK);
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.turn();
    assert_eq!(world.client_gets(clients[0]), "SERVER_ERROR closed s:1\r\n");
    world.pass(100 * MS);
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.greets("1.6.45");
    // It may have come back empty, and counts its tokens from one on.
    world.keeps(clients[0], "-1");
}

#[test]
fn a_token_counts_though_another_server_is_lost() {
    let mut world = World::with(2, 1, checked());
    let client = world.client();
    let key = world.key_on(0);
    for server in 0..2 {
        assert_eq!(world.server_gets(server), "version\r\n");
        world.server_says(server, "VERSION 1.6.45\r\n");
    }
    for reply in [value(&key, "1"), value(&key, "1"), format!("VA 1 k{key} c7 f0 t-1\r\n1\r\n")] {
        world.send(client, &format!("get {key}\r\n"));
        assert_ne!(world.server_gets(0), "");
        assert_eq!(world.hears(client, 0, &reply), value(&key, "1"));
    }
    world.send(client, &format!("get {key}\r\n"));
    assert_eq!(world.server_gets(0), format!("mg {key} k C7 c f t v\r\n"));
    world.dataplane.handle_server_disconnected(slot(1), world.now);
    assert_eq!(world.hears(client, 0, &format!("HD k{key} c7 f0 t-1\r\n")), value(&key, "1"));
    assert_eq!(world.report().counters.near_same, 1);
}

#[test]
fn a_token_of_another_connection_means_nothing() {
    let (mut world, clients) = world_with(checked());
    // The question waits until its server, whose name has another address now, is connected to anew.
    world.asks(clients[1], "get b");
    world.dataplane.handle_server_moved(slot(0));
    world.send(clients[0], "get a\r\n");
    assert_eq!(world.hears(clients[1], 0, &value("b", "1")), value("b", "1"));
    world.turn();
    assert_eq!(world.report().counters.server_renewals, 1);
    world.dataplane.handle_server_connected(slot(0), world.now);
    world.greets("1.6.45");
    assert_eq!(world.server_gets(0), TO_CHECK);
    assert_eq!(world.hears(clients[0], 0, "HD ka c7 f0 t-1\r\n"), "", "that is the token of something else");
    assert_eq!(world.server_gets(0), "get a\r\n");
    assert_eq!(world.hears(clients[0], 0, &value("a", "new")), value("a", "new"));
    world.keeps(clients[0], "-1");
    assert!(world.dataplane.is_quiet());
}

#[test]
fn what_has_no_token_or_is_not_worth_it_is_a_plain_get() {
    let short = Config { near_cache_check_bytes_min: value("a", "old").len() + 1, ..checked() };
    for (config, token) in [(short, 7), (checked(), 0)] {
        let (mut world, clients) = world_of("1.6.45", 1, config);
        assert_eq!(world.asks(clients[0], "get a"), TO_KEEP);
        assert_eq!(world.hears(clients[0], 0, &item("old", token, "-1")), value("a", "old"));
        assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
        world.hears(clients[0], 0, "END\r\n");
        let counters = world.report().counters;
        assert_eq!((counters.near_kept, counters.near_full), (0, 0));
    }
    // Who does not know `mg` cannot be asked.
    let (mut world, clients) = world_of("1.5.22", 1, checked());
    for _ in 0..3 {
        assert_eq!(world.asks(clients[0], "get a"), "get a\r\n");
        assert_eq!(world.hears(clients[0], 0, &value("a", "old")), value("a", "old"));
    }
}

#[test]
fn what_does_not_travel_is_the_value() {
    let (mut world, clients) = world_of("1.6.45", 1, Config { near_cache_check: NearCheck::On, ..on() });
    let data = "x".repeat(4000);
    assert_eq!(world.asks(clients[0], "get a"), TO_KEEP);
    assert_eq!(world.hears(clients[0], 0, &item(&data, 7, "-1")), value("a", &data));
    let before = world.report().counters.server_bytes_read;
    for _ in 0..10 {
        assert_eq!(world.asks(clients[0], "get a"), TO_CHECK);
        assert_eq!(world.hears(clients[0], 0, "HD ka c7 f0 t-1\r\n"), value("a", &data));
    }
    assert_eq!(world.report().counters.server_bytes_read - before, 10 * "HD ka c7 f0 t-1\r\n".len() as u64);
}

#[test]
fn what_comes_before_a_question_has_left_is_answered_with_it() {
    for config in [on(), checked()] {
        let (mut world, mut clients) = world_of("1.6.45", 3, config);
        clients.iter().for_each(|client| world.send(*client, "get a\r\n"));
        assert_eq!(world.server_gets(0), TO_KEEP);
        world.server_says(0, &item("old", 7, "-1"));
        assert_eq!(world.all_hear(&clients), [value("a", "old"), value("a", "old"), value("a", "old")]);
        // Not over a change. What is kept and needs no question is answered until that is acknowledged.
        if world.has(clients[0]) {
            continue;
        }
        let writer = clients.pop().expect("one of them");
        world.send(writer, "set a 0 0 1\r\nx\r\n");
        world.send(clients[0], "get a\r\n");
        assert!(world.server_gets(0).starts_with("set a 0 0 1\r\nx\r\n"));
        world.server_says(0, &("STORED\r\n".to_owned() + &value("a", "x")));
        assert_eq!(world.all_hear(&clients), [value("a", "x"), String::new()]);
    }
}

#[test]
fn a_question_passes_no_get_of_its_key() {
    let mut world = World::with(1, 1, on());
    world.greets("1.6.18");
    let clients = [world.client(), world.client()];
    world.send(clients[0], "get a\r\nget b\r\n");
    world.send(clients[1], "get a\r\n");
    world.send(clients[1], "get a\r\n");
    world.send(clients[0], "get a\r\n");
    let sent = world.server_gets(0);
    assert_eq!(sent, format!("get a b\r\n{TO_KEEP}"));
    world.server_says(0, "VALUE a 0 3\r\nold\r\nVALUE b 0 1\r\n1\r\nEND\r\n");
    world.server_says(0, &item("new", 7, "-1"));
    let (old, new) = (value("a", "old"), value("a", "new"));
    assert_eq!(world.all_hear(&clients), [old.clone() + &value("b", "1") + &new, old + &new]);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn gets_that_wait_for_the_question_are_answered_with_it() {
    let (mut world, clients) = world_with(Config { ask_once: AskOnce::On, ..checked() });
    assert_eq!(world.asks(clients[0], "get a"), TO_CHECK);
    assert_eq!(world.asks(clients[1], "get a"), "");
    world.server_says(0, "HD ka c7 f0 t-1\r\n");
    assert_eq!(world.all_hear(&clients), [value("a", "old"), value("a", "old")]);
    assert_eq!(world.asks(clients[0], "get a"), TO_CHECK);
    assert_eq!(world.asks(clients[1], "get a"), "");
    world.server_says(0, "ERROR\r\n");
    assert_eq!(world.server_gets(0), "get a\r\n");
    world.server_says(0, &value("a", "new"));
    assert_eq!(world.all_hear(&clients), [value("a", "new"), value("a", "new")]);
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_miss_is_filled_once_whichever_way_it_was_asked_for() {
    let (mut world, clients) = world_of("1.6.18", 2, Config { fill_wait_ns: 100 * MS, ..on() });
    assert_eq!(world.asks(clients[0], "get a"), TO_KEEP);
    assert_eq!(world.hears(clients[0], 0, "EN\r\n"), "END\r\n");
    assert_eq!(world.asks(clients[1], "get a"), TO_KEEP);
    assert_eq!(world.hears(clients[1], 0, "EN\r\n"), "", "it waits");
    let set = "set a 0 0 1\r\nx";
    assert_eq!(world.asks(clients[0], set), format!("{set}\r\n"));
    assert_eq!(world.hears(clients[0], 0, "STORED\r\n"), "STORED\r\n");
    world.pass(MS);
    assert_eq!(world.server_gets(0), "get a\r\n");
    assert_eq!(world.hears(clients[1], 0, &value("a", "x")), value("a", "x"));
    assert!(world.dataplane.is_quiet());
}
