//! Clients that must log in, what each of them may do then, and the proxy's own login to servers.

use crate::world::{MS, TIMEOUT, World, router, slot};
use std::sync::Arc;
use weir_dataplane::{
    ClientTimeouts, Config, Credentials, DownReason, Event, Secret, ServerChange, ServerLogins, SessionId,
    User, Users,
};
use weir_protocol::Limits;
use weir_routing::Table;

const LOGIN: &str = "set any 0 0 13\r\nuser password\r\n";
const UNAUTHENTICATED: &str = "CLIENT_ERROR unauthenticated\r\n";
const FAILURE: &str = "CLIENT_ERROR authentication failure\r\n";

fn user(name: &str, change: impl FnOnce(&mut User)) -> User {
    let mut user = User::new(name.as_bytes());
    user.add_password(Secret::new(b"password"));
    change(&mut user);
    user
}

/// `user` may do everything, `reader` only read, `other` only use the pool `other`.
fn users() -> Users {
    Users::new([
        user("user", |_| {}),
        user("reader", User::set_read_only),
        user("other", |user| user.set_pools(vec!["other".into()])),
        user("shown", |user| user.set_certificate("shown.example")),
    ])
}

fn locked(servers: usize, replicas: usize, config: Config) -> World {
    let mut world = World::with(servers, replicas, config);
    world.dataplane.handle_logins(Some(&Arc::new(users())), None);
    world
}

/// Two pools: keys that begin with `o:` belong to `other`.
fn pools() -> Table {
    let pools = [("main", "s:1"), ("other", "s:2")];
    let pools = pools.map(|(name, server)| (name.to_owned(), router(&[server], 1)));
    Table::new(pools.into(), &[("o:".to_owned(), "other".to_owned())]).expect("a table")
}

impl World {
    fn asked(&mut self, client: SessionId, bytes: &str) -> String {
        self.send(client, bytes);
        self.client_gets(client)
    }

    fn logged_in(&mut self, name: &str) -> SessionId {
        let client = self.client();
        let login = format!("set any 0 0 {}\r\n{name} password\r\n", name.len() + 9);
        assert_eq!(self.asked(client, &login), "STORED\r\n");
        client
    }
}

#[test]
fn nothing_of_a_client_goes_anywhere_before_its_login_and_the_login_never_does() {
    for (servers, replicas) in [(1, 1), (2, 2)] {
        let mut world = locked(servers, replicas, Config::default());
        let client = world.client();
        for request in
            ["get a\r\n", "version\r\n", "stats\r\n", "quit\r\n", "mg a v\r\n", "delete a noreply\r\n"]
        {
            assert_eq!(world.asked(client, request), UNAUTHENTICATED, "{request}");
        }
        assert_eq!(world.asked(client, "set a 0 0 10 noreply\r\nuser wrong\r\n"), FAILURE);
        assert_eq!(world.asked(client, LOGIN), "STORED\r\n");
        for server in 0..servers {
            assert_eq!(world.server_gets(server), "");
        }
        // The next one is a set as any other.
        let key = world.key_on(0);
        let set = LOGIN.replace("any", &key);
        world.send(client, &set);
        for server in 0..servers {
            assert_eq!(world.server_gets(server), set);
            world.server_says(server, "STORED\r\n");
        }
        assert_eq!(world.client_gets(client), "STORED\r\n");
        let counters = world.report().counters;
        assert_eq!((counters.requests_refused_unauthenticated, counters.requests_refused), (6, 7));
        assert_eq!((counters.logins, counters.logins_failed), (1, 1));
        assert_eq!(counters.requests, 9);
        assert!(world.dataplane.is_quiet());
    }
}

#[test]
fn a_login_may_be_cut_anywhere_and_be_followed_at_once() {
    let text = format!("get a\r\n{LOGIN}get b\r\n");
    for cut in 0..=text.len() {
        let mut world = locked(1, 1, Config::default());
        let client = world.client();
        world.send(client, &text[..cut]);
        world.send(client, &text[cut..]);
        assert_eq!(world.server_gets(0), "get b\r\n", "cut at {cut}");
        assert_eq!(world.hears(client, 0, "END\r\n"), format!("{UNAUTHENTICATED}STORED\r\nEND\r\n"));
    }
}

#[test]
fn a_login_is_of_its_session_alone_also_where_the_number_is_used_again() {
    let mut world = locked(1, 1, Config::default());
    let (one, other) = (world.logged_in("user"), world.client());
    assert_eq!(world.asked(other, "get a\r\n"), UNAUTHENTICATED);
    world.dataplane.handle_client_closed(one);
    let next = world.client();
    assert_eq!(next, one, "the number is used again");
    assert_eq!(world.asked(next, "get a\r\n"), UNAUTHENTICATED);
    assert_eq!(world.server_gets(0), "");
}

#[test]
fn who_does_not_log_in_in_time_is_closed_whatever_it_says_meanwhile() {
    let client_timeouts = ClientTimeouts { login_ns: 1000 * MS, ..ClientTimeouts::default() };
    let mut world = locked(1, 1, Config { client_timeouts, ..Config::default() });
    let (silent, busy, good) = (world.client(), world.client(), world.logged_in("user"));
    for _ in 0..9 {
        world.pass(110 * MS);
        assert_eq!(world.asked(busy, "version\r\n"), UNAUTHENTICATED);
    }
    assert_eq!(world.events, []);
    world.pass(11 * MS);
    world.pass(130 * MS);
    world.events.sort_by_key(|event| format!("{event:?}"));
    assert_eq!(world.events, [Event::Close(silent), Event::Close(busy)]);
    assert_eq!(world.report().counters.sessions_closed_login, 2);
    world.pass(10_000 * MS);
    assert!(world.asked(good, "version\r\n").starts_with("VERSION"));
}

/// A client that is not logged in, asks and reads nothing.
#[test]
fn little_is_kept_of_who_is_not_logged_in() {
    let mut world = locked(1, 1, Config { slice_bytes: 1 << 20, ..Config::default() });
    let client = world.client();
    let asks = "get a\r\n".repeat(9000);
    world.events.clear();
    world.send(client, &asks);
    assert_eq!(world.events, [Event::Close(client)], "63 KB would wait behind a few answers");
    assert_eq!(world.report().counters.sessions_closed_login, 1);
    assert!(world.dataplane.client_output(client).len() < 1024);
    world.dataplane.handle_client_closed(client);
    // Who has logged in by then is served.
    let good = world.client();
    world.send(good, &format!("{LOGIN}{asks}"));
    assert!(world.dataplane.wants_read(good) || world.report().counters.sessions_paused > 0);
    assert_eq!(world.report().counters.sessions_closed_login, 1);
}

#[test]
fn a_long_first_value_is_thrown_away_as_it_comes() {
    let mut world = locked(1, 1, Config::default());
    let client = world.client();
    assert_eq!(world.asked(client, "set a 0 0 9000\r\n"), FAILURE);
    let before = world.report().buffered_bytes;
    assert_eq!(world.asked(client, &"x".repeat(9000)), "");
    assert_eq!(world.report().buffered_bytes, before);
    assert_eq!(world.asked(client, &format!("\r\n{LOGIN}")), "STORED\r\n");
}

#[test]
fn a_reader_changes_nothing_by_any_command() {
    let limits = Limits {
        value_bytes_max: 100,
        flush_allowed: true,
        server_commands_allowed: true,
        ..Limits::default()
    };
    for replicas in [1, 2] {
        let mut world = locked(2, replicas, Config { limits, ..Config::default() });
        let reader = world.logged_in("reader");
        let large = format!("set a 0 0 101\r\n{}\r\n", "x".repeat(101));
        for request in [
            "set a 0 0 1\r\nx\r\n",
            "add a 0 0 1\r\nx\r\n",
            "replace a 0 0 1\r\nx\r\n",
            "append a 0 0 1\r\nx\r\n",
            "prepend a 0 0 1\r\nx\r\n",
            "cas a 0 0 1 1\r\nx\r\n",
            "delete a\r\n",
            "incr a 1\r\n",
            "decr a 1\r\n",
            "touch a 1\r\n",
            "gat 1 a\r\n",
            "gats 1 a\r\n",
            "ms a 1\r\nx\r\n",
            "md a q\r\n",
            "ma a\r\n",
            "mg a T30\r\n",
            "mg a N30\r\n",
            "mg a R30\r\n",
            "flush_all\r\n",
            "cache_memlimit 64\r\n",
            large.as_str(),
        ] {
            assert_eq!(world.asked(reader, request), "CLIENT_ERROR write not allowed\r\n", "{request}");
        }
        assert_eq!(
            world.asked(reader, "set a 0 0 1 noreply\r\nx\r\nmn\r\n"),
            "MN\r\n",
            "silence was asked for"
        );
        assert_eq!((world.server_gets(0), world.server_gets(1)), (String::new(), String::new()));
        assert_eq!(world.report().counters.requests_refused_read_only, 22);
        let key = world.key_on(0);
        for request in [format!("get {key}\r\n"), format!("mg {key} v\r\n")] {
            world.send(reader, &request);
            assert_eq!(world.server_gets(0), request);
            let reply = if request.starts_with("get") { "END\r\n" } else { "EN\r\n" };
            assert_eq!(world.hears(reader, 0, reply), reply);
        }
    }
}

#[test]
fn a_user_of_one_pool_gets_at_no_key_of_another() {
    let limits = Limits { value_bytes_max: 100, flush_allowed: true, ..Limits::default() };
    let mut world = locked(1, 1, Config { limits, ..Config::default() });
    world.reload(pools());
    world.dataplane.handle_server_connected(slot(1), world.now);
    let client = world.logged_in("other");
    let large = format!("set a 0 0 101\r\n{}\r\n", "x".repeat(101));
    for request in [
        "get a\r\n",
        "get o:1 a o:2\r\n",
        "gat 1 o:1 a\r\n",
        "set a 0 0 1\r\nx\r\n",
        "delete a\r\n",
        "incr a 1\r\n",
        "touch a 1\r\n",
        "mg a v\r\n",
        "me a\r\n",
        "mg YQ== b v\r\n",
        "ms YQ== 1 b\r\nx\r\n",
        "md a\r\n",
        "flush_all\r\n",
        "stats hot\r\n",
        large.as_str(),
    ] {
        assert_eq!(world.asked(client, request), "CLIENT_ERROR pool not allowed\r\n", "{request}");
    }
    assert_eq!((world.server_gets(0), world.server_gets(1)), (String::new(), String::new()));
    assert_eq!(world.report().counters.requests_refused_pool, 15);
    // In base64 it is judged by what it stands for: `bzox` is `o:1`.
    for (request, reply) in [("get o:1 o:2\r\n", "END\r\n"), ("mg bzox b v\r\n", "EN\r\n")] {
        world.send(client, request);
        assert_eq!(world.server_gets(1), request);
        assert_eq!(world.hears(client, 1, reply), reply);
    }
    assert!(world.asked(client, "version\r\n").starts_with("VERSION"));
    // The prefix leads elsewhere now.
    let main = [("main".to_owned(), router(&["s:1"], 1)), ("other".to_owned(), router(&["s:2"], 1))];
    world.reload(Table::new(main.into(), &[("p:".to_owned(), "other".to_owned())]).expect("a table"));
    assert_eq!(world.asked(client, "get o:1\r\n"), "CLIENT_ERROR pool not allowed\r\n");
}

/// All keys of a `get` of megabytes were looked at before the first was asked for, and all others of the loop waited for that.
#[test]
fn keys_of_a_long_get_are_judged_when_they_are_asked_for() {
    const REFUSED: &str = "CLIENT_ERROR pool not allowed\r\n";
    let config = Config { slice_bytes: 1 << 20, large_value_bytes: usize::MAX, ..Config::default() };
    let mut world = locked(1, 1, config);
    world.reload(pools());
    world.dataplane.handle_server_connected(slot(1), world.now);
    let client = world.logged_in("other");
    let good: String = (0..5000).map(|number| format!(" o:{number}")).collect();
    for (keys, last) in [(good.clone(), "END\r\n"), (format!("{good} a"), REFUSED)] {
        world.send(client, &format!("get{keys}\r\n"));
        let (mut asked, mut heard) = (String::new(), String::new());
        while heard.is_empty() {
            let slice = world.server_gets(1);
            assert_ne!(slice, "");
            asked += slice.strip_prefix("get").and_then(|slice| slice.strip_suffix("\r\n")).expect("a slice");
            heard = world.hears(client, 1, "END\r\n");
        }
        assert_eq!((heard.as_str(), asked.len() > 16 * 4), (last, true));
        assert!(
            good.starts_with(&asked) && (last == REFUSED || asked == good),
            "the slice with the other key"
        );
    }
    let counters = world.report().counters;
    assert_eq!((counters.requests_refused_pool, counters.requests_refused), (1, 1));
    // What has no more keys than a slice is refused whole, and so is what names the other key early.
    let few: String = (0..4095).map(|number| format!(" o:{number}")).collect();
    for request in [format!("get{few} a\r\n"), format!("get a{good}\r\n")] {
        assert_eq!(world.asked(client, &request), REFUSED);
    }
    assert_eq!((world.server_gets(0), world.server_gets(1)), (String::new(), String::new()));
    assert!(world.asked(client, "version\r\n").starts_with("VERSION"));
    assert!(world.dataplane.is_quiet());
}

#[test]
fn a_reload_changes_what_a_session_may_at_once_and_ends_those_of_users_that_are_gone() {
    let mut world = locked(1, 1, Config::default());
    let (kept, gone, locked) = (world.logged_in("user"), world.logged_in("reader"), world.client());
    // What it asked before is answered.
    world.send(gone, "get a\r\n");
    assert_eq!(world.server_gets(0), "get a\r\n");
    let mut user = User::new(b"user");
    user.add_password(Secret::new(b"another"));
    user.set_read_only();
    world.events.clear();
    world.dataplane.handle_logins(Some(&Arc::new(Users::new([user]))), None);
    assert_eq!(world.asked(kept, "delete a\r\n"), "CLIENT_ERROR write not allowed\r\n");
    assert_eq!(world.events, []);
    assert_eq!(world.hears(gone, 0, "END\r\n"), "END\r\n");
    assert_eq!(world.events, [Event::Close(gone)]);
    assert_eq!(world.report().counters.sessions_closed_revoked, 1);
    assert_eq!(world.asked(locked, LOGIN), FAILURE);
    assert_eq!(world.asked(locked, "set any 0 0 12\r\nuser another\r\n"), "STORED\r\n");
}

#[test]
fn a_certificate_says_who_a_client_is_or_nothing() {
    let mut world = locked(1, 1, Config::default());
    let client = world.client();
    world.dataplane.handle_certificate(client, || vec!["another".into(), "x".into()]);
    assert_eq!(world.asked(client, "get a\r\n"), UNAUTHENTICATED);
    let client = world.client();
    world.dataplane.handle_certificate(client, || vec!["another".into(), "shown.example".into()]);
    assert!(world.asked(client, "version\r\n").starts_with("VERSION"));
    assert_eq!(world.report().counters.logins_by_certificate, 1);
    let mut open = World::new(1, 1);
    let client = open.client();
    open.dataplane.handle_certificate(client, || unreachable!("nobody is asked who he is"));
}

#[test]
fn a_password_that_comes_first_behind_a_certificate_is_not_stored() {
    let certified = |world: &mut World| {
        let client = world.client();
        world.dataplane.handle_certificate(client, || vec!["shown.example".into()]);
        client
    };
    let mut world = locked(1, 1, Config::default());
    let client = certified(&mut world);
    for end in 1..LOGIN.len() {
        world.send(client, &LOGIN[end - 1..end]);
        assert_eq!(world.server_gets(0), "", "{end}");
    }
    assert_eq!(world.asked(client, &LOGIN[LOGIN.len() - 1..]), "STORED\r\n");
    assert_eq!(world.server_gets(0), "");
    assert_eq!(world.report().counters.logins, 2);
    // From then on, and if it is nobody's, it is a set as any other.
    for (first, second) in [("version\r\n", LOGIN), ("", "set any 0 0 10\r\nuser wrong\r\n")] {
        let client = certified(&mut world);
        world.asked(client, first);
        world.send(client, second);
        assert_eq!(world.server_gets(0), second);
        world.server_says(0, "STORED\r\n");
        assert_eq!(world.client_gets(client), "STORED\r\n");
    }
}

#[test]
fn a_reload_between_a_certificate_and_its_password_stores_no_password() {
    let mut world = locked(1, 1, Config::default());
    let client = world.client();
    world.dataplane.handle_certificate(client, || vec!["shown.example".into()]);
    world.dataplane.handle_logins(Some(&Arc::new(users())), None);
    assert_eq!(world.asked(client, LOGIN), "STORED\r\n");
    assert_eq!(world.server_gets(0), "", "everybody could read it there");
    assert_eq!(world.report().counters.logins, 2);
}

#[test]
fn other_protocols_are_refused_as_where_nobody_logs_in() {
    let mut world = locked(1, 1, Config::default());
    let client = world.client();
    assert!(world.asked(client, "GET / HTTP/1.1\r\n").starts_with("HTTP/1.1 400"));
}

// ── the proxy's own login ──────────────────────────────────────────────────────────────────────────────────────────────────

const OURS: &str = "set weir-login 0 0 9\r\nweir word\r\n";

/// The first servers get these passwords.
fn logins_of(world: &World, passwords: &[&str]) -> Arc<ServerLogins> {
    let mut logins = ServerLogins::default();
    for (server, password) in world.router.servers().iter().zip(passwords) {
        logins.say(server, &Arc::new(Credentials::new(b"weir", password.as_bytes())));
    }
    Arc::new(logins)
}

fn greeting(config: Config) -> World {
    let mut world = World::with(1, 1, Config { greets_servers: true, ..config });
    let logins = logins_of(&world, &["word"]);
    world.dataplane.handle_logins(None, Some(&logins));
    // The first connection was greeted before.
    world.dataplane.handle_server_disconnected(slot(0), world.now);
    world.comes_back(0);
    world
}

fn changes(world: &mut World) -> Vec<ServerChange> {
    std::iter::from_fn(|| world.dataplane.poll_change()).map(|change| change.what).collect()
}

#[test]
fn a_server_that_wants_a_login_gets_ours_before_anything_else() {
    let mut world = greeting(Config { asks_item_size: true, ..Config::default() });
    let client = world.client();
    assert_eq!(world.server_gets(0), "version\r\n");
    world.server_says(0, UNAUTHENTICATED);
    assert_eq!(world.server_gets(0), OURS);
    world.server_says(0, "STORED\r\n");
    assert_eq!(world.server_gets(0), "version\r\n");
    world.server_says(0, "VERSION 1.6.18\r\n");
    assert_eq!(world.server_gets(0), "stats settings\r\n");
    world.server_says(0, "END\r\n");
    world.send(client, "get a\r\n");
    assert_eq!(world.server_gets(0), "get a\r\n");
    assert_eq!(world.hears(client, 0, "END\r\n"), "END\r\n");
    let counters = world.report().counters;
    assert_eq!(
        (counters.server_logins, counters.server_logins_wanted, counters.server_logins_refused),
        (1, 0, 0)
    );
    assert!(world.dataplane.is_quiet());
}

#[test]
fn each_server_gets_its_own_login_and_no_other() {
    let mut world = World::with(3, 1, Config { greets_servers: true, ..Config::default() });
    changes(&mut world);
    // Of the last one nothing was said.
    let logins = logins_of(&world, &["word", "other"]);
    world.dataplane.handle_logins(None, Some(&logins));
    for server in 0..3 {
        world.dataplane.handle_server_disconnected(slot(server), world.now);
        world.comes_back(server);
        world.server_gets(server);
        world.server_says(server, UNAUTHENTICATED);
    }
    let sent = [0, 1, 2].map(|server| world.server_gets(server));
    assert_eq!(sent, [OURS.to_owned(), "set weir-login 0 0 10\r\nweir other\r\n".to_owned(), String::new()]);
    let changes = changes(&mut world);
    assert!(changes.contains(&ServerChange::Down(DownReason::LoginWanted)), "{changes:?}");
    assert!(!changes.contains(&ServerChange::Down(DownReason::LoginRefused)), "{changes:?}");
}

/// It would keep it as an item.
#[test]
fn a_server_that_wants_no_login_gets_none() {
    let mut world = greeting(Config::default());
    let client = world.client();
    assert_eq!(world.server_gets(0), "version\r\n");
    world.server_says(0, "VERSION 1.6.18\r\n");
    world.send(client, "get a\r\n");
    assert_eq!(world.server_gets(0), "get a\r\n");
}

#[test]
fn a_server_that_refuses_our_login_is_down_for_that_reason() {
    for refused in ["CLIENT_ERROR authentication failure\r\n", "ERROR\r\n"] {
        let mut world = greeting(Config::default());
        changes(&mut world);
        let client = world.client();
        world.server_gets(0);
        world.server_says(0, UNAUTHENTICATED);
        assert_eq!(world.server_gets(0), OURS);
        world.events.clear();
        world.server_says(0, refused);
        assert_eq!(world.events, [Event::Disconnect(slot(0))]);
        assert_eq!(changes(&mut world), [ServerChange::Down(DownReason::LoginRefused)]);
        world.send(client, "get a\r\n");
        assert_eq!(world.client_gets(client), "SERVER_ERROR unauthenticated s:1\r\n");
        assert_eq!(world.report().counters.server_logins_refused, 1);
        // Another password is tried on the next connection.
        let logins = logins_of(&world, &["good"]);
        world.dataplane.handle_logins(None, Some(&logins));
        world.comes_back(0);
        world.server_gets(0);
        world.server_says(0, UNAUTHENTICATED);
        assert_eq!(world.server_gets(0), OURS.replace("word", "good"));
        world.server_says(0, "STORED\r\n");
        world.server_gets(0);
        world.server_says(0, "VERSION 1\r\n");
        world.send(client, "get a\r\n");
        assert_eq!(world.server_gets(0), "get a\r\n");
    }
}

/// Without end it would be logged in again and again.
#[test]
fn a_server_that_takes_our_login_and_wants_another_is_down() {
    let mut world = greeting(Config::default());
    changes(&mut world);
    world.server_gets(0);
    world.server_says(0, UNAUTHENTICATED);
    world.server_gets(0);
    world.server_says(0, "STORED\r\n");
    assert_eq!(world.server_gets(0), "version\r\n");
    world.server_says(0, UNAUTHENTICATED);
    assert_eq!(changes(&mut world), [ServerChange::Down(DownReason::LoginRefused)]);
    assert_eq!(world.server_gets(0), "");
}

#[test]
fn a_server_that_repeats_our_password_is_not_quoted() {
    for before in 0..3 {
        let mut world = greeting(Config::default());
        changes(&mut world);
        world.server_gets(0);
        world.server_says(0, UNAUTHENTICATED);
        world.server_gets(0);
        for reply in ["STORED\r\n", "VERSION 1\r\n"].iter().take(before) {
            world.server_says(0, reply);
            world.server_gets(0);
        }
        let client = world.client();
        world.send(client, "get a\r\n");
        world.server_gets(0);
        world.server_says(0, "400 Bad Request: weir word\r\n");
        let said = format!("{:?} {:?}", changes(&mut world), world.report().servers[0].last_trouble);
        assert!(said.contains("Garbage") && !said.contains("word\""), "{said}");
        assert!(!said.replace("password", "").contains("word"), "{said}");
    }
}

#[test]
fn a_connection_for_large_values_logs_in_by_itself() {
    let mut world = greeting(Config { large_value_bytes: 10, ..Config::default() });
    for reply in [UNAUTHENTICATED, "STORED\r\n", "VERSION 1\r\n"] {
        world.server_gets(0);
        world.server_says(0, reply);
    }
    let client = world.client();
    let set = "set a 0 0 12\r\nabcdefghijkl\r\n";
    world.send(client, set);
    world.dataplane.handle_server_connected(slot(1), world.now);
    for (asked, reply) in
        [("version\r\n", UNAUTHENTICATED), (OURS, "STORED\r\n"), ("version\r\n", "VERSION 1\r\n")]
    {
        assert_eq!(world.server_gets(1), asked);
        world.server_says(1, reply);
    }
    assert_eq!(world.server_gets(1), set);
    assert_eq!(world.hears(client, 1, "STORED\r\n"), "STORED\r\n");
    assert_eq!(world.report().counters.server_logins, 2);
}

/// It is only to be heard of: what it answers does not matter, and nothing of a client goes there.
#[test]
fn a_second_opinion_is_given_without_a_login() {
    let mut world = greeting(Config::default());
    for reply in [UNAUTHENTICATED, "STORED\r\n", "VERSION 1\r\n"] {
        world.server_gets(0);
        world.server_says(0, reply);
    }
    let client = world.client();
    for _ in 0..3 {
        world.send(client, "get a\r\n");
    }
    world.server_gets(0);
    world.events.clear();
    world.pass(TIMEOUT);
    assert_eq!(world.events, [Event::Connect(slot(1))]);
    world.dataplane.handle_server_connected(slot(1), world.now);
    assert_eq!(world.server_gets(1), "version\r\n");
    world.server_says(1, UNAUTHENTICATED);
    assert_eq!(world.server_gets(1), "");
    world.events.clear();
    world.pass(TIMEOUT);
    assert!(
        world.events.contains(&Event::Disconnect(slot(0))),
        "the silent one is replaced: {:?}",
        world.events
    );
    assert_eq!(world.report().counters.server_connections_dead, 1);
}

/// It was the first of those who wait for the key, and took nothing more, so that all behind it waited until its connection was gone.
#[test]
fn a_write_of_who_is_a_user_no_more_leaves_the_line_of_its_key() {
    let mut world = locked(2, 2, Config::default());
    let [first, gone, other] = ["shown", "user", "shown"].map(|name| world.logged_in(name));
    let key = world.key_on(0);
    let incr = format!("incr {key} 1\r\n");
    world.send(first, &incr);
    assert_eq!(world.server_gets(0), incr);
    // It leaves a reply unread, so its connection stays for a while.
    world.send(gone, &format!("version\r\n{incr}"));
    world.send(other, &incr);
    let remaining = Users::new([user("shown", |user| user.set_certificate("shown.example"))]);
    world.dataplane.handle_logins(Some(&Arc::new(remaining)), None);
    world.server_says(0, "1\r\n");
    assert_eq!(world.server_gets(0), incr, "the other client's");
    world.server_says(0, "2\r\n");
    assert_eq!(world.server_gets(1), incr.repeat(2));
    world.server_says(1, "1\r\n2\r\n");
    assert_eq!(world.all_hear(&[first, other]), ["1\r\n", "2\r\n"]);
    assert!(world.client_gets(gone).starts_with("VERSION "));
    assert!(world.events.contains(&Event::Close(gone)), "{:?}", world.events);
    assert!(world.dataplane.is_quiet());
}
