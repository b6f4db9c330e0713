use super::*;
use crate::connections::tls::Spoken;
use std::path::PathBuf;
use weir_dataplane::Credentials;
use weir_routing::{Placement, Router, Server};

fn table(port: u16) -> Table {
    Router::new(vec![Server::new("127.0.0.1", port)], Placement::Modulo, 1)
        .expect("one server is a pool")
        .into()
}

fn config(said: &[(&str, &str)]) -> Result<Config, ConfigError> {
    Config::new(table(21_210), &Layer::of(said))
}

fn refusal(said: &[(&str, &str)]) -> String {
    config(said).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn sockets_are_distinguished_from_addresses() {
    for text in ["unix:/run/weir.sock", "/run/weir.sock"] {
        let listen = config(&[("listen", text)]).map(|config| config.addresses());
        assert_eq!(listen.ok().as_deref(), Some("unix:/run/weir.sock"), "{text}");
    }
    assert_eq!(config(&[]).map(|it| it.addresses()).ok().as_deref(), Some("127.0.0.1:21211"));
}

#[test]
fn errors_name_settings_that_there_are() {
    let text = String::new;
    for error in [
        ConfigError::ReadRepairFlush,
        ConfigError::SplitThreads { readers: 1, servers: 1 },
        ConfigError::ServerName { name: text() },
        ConfigError::AdminToken { path: PathBuf::new(), reason: text() },
        ConfigError::OwnServer { server: text(), listen: text() },
    ] {
        let Some(Subject::Setting(name)) = error.subject() else { panic!("{error} is about a setting") };
        assert!(Settings::ROWS.iter().any(|row| row.name == name), "{name}");
    }
}

#[test]
fn read_repair_is_refused_where_it_could_break_a_promise() {
    let repairing = ("read_repair", "on");
    let good = config(&[repairing]).map(|it| it.dataplane(0).read_repair);
    assert!(matches!(good, Ok(ReadRepair::On)));
    assert!(refusal(&[repairing, ("allow_flush", "true")]).contains("cannot be used with --allow-flush"));
    for engine in ["pool", "split"] {
        let refusal = refusal(&[repairing, ("engine", engine)]);
        assert!(refusal.starts_with("--read-repair on needs --engine event"), "{refusal}");
    }
}

#[test]
fn what_belongs_to_another_engine_is_refused() {
    for (said, expected) in [
        (("workers", "2"), "--workers belongs to --engine pool, and the engine is event"),
        (("queue", "2"), "--queue belongs to --engine pool or split, and the engine is event"),
    ] {
        assert!(refusal(&[said]).starts_with(expected), "{}", refusal(&[said]));
    }
    assert_eq!(refusal(&[("engine", "split"), ("queue", "2"), ("readers", "2")]), "");
}

#[test]
fn what_needs_a_restart_is_said() {
    let old = config(&[]).expect("valid");
    let new = config(&[("listen", "/run/weir.sock"), ("queue", "5"), ("engine", "pool"), ("timeout", "1s")]);
    let new = new.expect("valid");
    let expected = [
        "listen stays 127.0.0.1:21211: /run/weir.sock needs a restart",
        "engine stays event: pool needs a restart",
        "queue stays 10000: 5 needs a restart",
    ];
    assert_eq!(old.settings.unchangeable(&new.settings), expected);
    assert!(old.settings.unchangeable(&old.settings).is_empty());
    let mut taken = old.clone();
    taken.take(&new);
    assert_eq!(taken.settings.timeout, Duration::from_secs(1));
    assert_eq!((taken.settings.queue, taken.settings.listen), (old.settings.queue, old.settings.listen));
}

#[test]
fn a_proxy_that_would_be_its_own_server_is_refused() {
    for (listen, is_own) in [
        ("127.0.0.1:21211", true),
        ("0.0.0.0:21211", true),
        ("127.0.0.2:21211", false),
        ("0.0.0.0:21212", false),
    ] {
        let refused = Config::new(table(21_211), &Layer::of(&[("listen", listen)]));
        let refused = refused.err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(refused.contains("would ask itself"), is_own, "{listen} {refused}");
    }
    let socket: Server = "unix:/run/weir.sock".parse().expect("a path");
    let table = Router::new(vec![socket], Placement::Modulo, 1).expect("one server is a pool");
    let refused = Config::new(table.into(), &Layer::of(&[("listen", "unix:/run/weir.sock")]));
    assert!(refused.err().expect("it is its own server").to_string().contains("would ask itself"));
}

/// Its places stay until a restart, so that a file which names another one does not make its old port a server.
#[test]
fn a_reload_makes_no_proxy_its_own_server() {
    let old = Config::new(table(11_211), &Layer::of(&[("listen", "127.0.0.1:21211")])).expect("valid");
    let new = Config::new(table(21_211), &Layer::of(&[("listen", "127.0.0.1:9")])).expect("valid");
    assert!(old.refusal(&new).expect("it would ask itself").contains("would ask itself"));
    assert_eq!(new.refusal(&old), None);
}

/// The dataplane's own defaults are for its own tests; they say the same.
#[test]
fn the_defaults_of_the_dataplane_are_those_of_the_table() {
    let made = config(&[("threads", "1")]).expect("valid").dataplane(0);
    let defaults = weir_dataplane::Config::default();
    let expected = weir_dataplane::Config {
        greets_servers: true,
        asks_item_size: true,
        slice_bytes: SLICE_BYTES,
        ..defaults
    };
    assert_eq!(made, expected);
}

/// A file with this text, removed at the end.
struct Written(PathBuf);

impl Written {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir-{}-{name}", std::process::id()));
        std::fs::write(&path, text).expect("it can be written");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("it is text")
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn with_users(said: &[(&str, &str)], users: &[UserRow]) -> Result<Config, String> {
    Config::of_file(
        Some(table(21_210)),
        &Layer::of(said),
        &OfFile { users: users.to_vec(), ..OfFile::default() },
    )
    .map_err(|error| error.to_string())
}

#[test]
fn users_are_those_of_the_file_and_what_is_said_of_them() {
    let file = Written::new("users", "app:password\napp:other\nreports:password\n");
    let said = [("auth_file", file.path())];
    let count = |config: &Config| config.logins().users().map(|users| users.count());
    let reports = UserRow { name: "reports".into(), read_only: true, ..UserRow::default() };
    assert_eq!(with_users(&said, &[reports]).map(|config| count(&config)), Ok(Some(2)));
    assert_eq!(with_users(&[], &[]).map(|config| count(&config)), Ok(None));
    let nobody = UserRow { name: "nobody".into(), ..UserRow::default() };
    let refusal = with_users(&said, std::slice::from_ref(&nobody)).err().unwrap_or_default();
    assert!(
        refusal.starts_with("user nobody of [[users]] has neither a password in --auth-file nor"),
        "{refusal}"
    );
    let shown = UserRow { certificate: Some("x".into()), ..nobody };
    let refusal = with_users(&said, std::slice::from_ref(&shown)).err().unwrap_or_default();
    assert!(
        refusal.contains("a certificate, which no client is asked for: give --tls-client-ca"),
        "{refusal}"
    );
    for engine in ["pool", "split"] {
        let refusal =
            with_users(&[("engine", engine)], std::slice::from_ref(&shown)).err().unwrap_or_default();
        assert!(refusal.starts_with("[[users]] belong to --engine event"), "{refusal}");
        for setting in ["auth_file", "server_auth_file"] {
            let refusal = refusal_of(engine, setting, file.path());
            let flag = setting.replace('_', "-");
            assert!(refusal.starts_with(&format!("--{flag} belongs to --engine event")), "{refusal}");
        }
    }
}

fn refusal_of(engine: &str, setting: &str, value: &str) -> String {
    refusal(&[("engine", engine), (setting, value)])
}

#[test]
fn a_file_of_passwords_that_cannot_be_used_is_named_and_not_quoted() {
    let bad = Written::new("bad", "app:password\nhidden\n");
    for setting in ["auth_file", "server_auth_file"] {
        let flag = setting.replace('_', "-");
        let line = refusal(&[(setting, bad.path())]);
        assert!(line.starts_with(&format!("--{flag} {}:2: there is no colon", bad.path())), "{line}");
        assert!(!line.contains("hidden") && !line.contains("password:"), "{line}");
        let line = refusal(&[(setting, "/nowhere/auth")]);
        assert!(line.starts_with(&format!("--{flag} /nowhere/auth: it cannot be read")), "{line}");
    }
}

#[test]
fn servers_get_the_login_of_their_pool_or_their_own() {
    let files =
        ["all", "red", "blue"].map(|name| Written::new(name, &format!("weir:{name}\nnobody:at-all\n")));
    let [all, red, blue] = files.each_ref().map(Written::path);
    let made = |said: &[(&str, &str)], of_file: &[(&str, &str, &str)]| {
        let servers = of_file.iter().flat_map(|&(pool, server, file)| {
            let said: &[_] = &[("server_auth_file", file)];
            of_servers(&[(pool, server, said)])
        });
        let of_file = OfFile {
            servers: servers.collect(),
            listeners: places_of(&[ROUTES, RED, BLUE]),
            pools: red_and_blue(),
            ..OfFile::default()
        };
        Config::of_file(Some(table(21_210)), &Layer::of(said), &of_file)
    };
    // Of the server of the routes, red/a, red/b, blue/a.
    let words = |config: &Config| {
        let logins = config.logins().servers();
        let word = |server: &Server| {
            let Some(found) = logins.and_then(|logins| logins.of(server)) else { return "-" };
            let is = |word: &&str| **found == Credentials::new(b"weir", word.as_bytes());
            ["all", "red", "blue"].into_iter().find(is).expect("it is of one of the files")
        };
        config.table.servers().iter().map(word).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(made(&[], &[]).map(|it| words(&it)).ok().as_deref(), Some("- - - -"));
    let mut config = made(&[], &[("red", "a", red), ("blue", "a", blue)]).expect("valid");
    assert_eq!(words(&config), "- red - blue");
    let read = made(&[("server_auth_file", all)], &[("red", "b", red)]).expect("valid");
    assert_eq!(words(&read), "all all red all");
    assert_eq!(config.refusal(&read), None);
    config.take(&read);
    assert_eq!(words(&config), "all all red all");
    let error = made(&[], &[("red", "a", "/nowhere")]).err().map(|it| it.to_string()).unwrap_or_default();
    assert!(error.starts_with("--server-auth-file /nowhere: it cannot be read"), "{error}");
}

#[test]
fn pools_with_one_server_log_in_there_in_one_way() {
    let file = Written::new("shared", "weir:word\n");
    let said: &[_] = &[("server_auth_file", file.path())];
    let made = |own: &[Own<'_>]| {
        let of_file = OfFile { servers: of_servers(own), ..OfFile::default() };
        let table = two_pools(&["localhost:1"], &["localhost:1"]);
        Config::of_file(Some(table), &Layer::default(), &of_file).map(drop).map_err(|error| error.to_string())
    };
    let (a, b) = (("a", "localhost:1", said), ("b", "localhost:1", said));
    assert_eq!(made(&[a, b]), Ok(()));
    for own in [a, b] {
        let error = made(&[own]).expect_err("they differ");
        assert!(
            error.contains("localhost:1 is in several pools, which differ in its server_auth_file"),
            "{error}"
        );
    }
}

#[test]
fn a_reload_cannot_begin_or_end_logins() {
    let file = Written::new("reload", "app:password\n");
    let (with, without) = (with_users(&[("auth_file", file.path())], &[]), with_users(&[], &[]));
    let (with, without) = (with.expect("it is good"), without.expect("it is good"));
    assert_eq!(with.refusal(&with), None);
    for (ours, read) in [(&with, &without), (&without, &with)] {
        let refusal = ours.refusal(read).unwrap_or_default();
        assert!(refusal.contains("auth-file") && refusal.ends_with("restart the proxy"), "{refusal}");
    }
}

#[test]
fn a_reload_takes_nothing_away_that_the_admin_port_asks_for() {
    let (token, newer) = (Written::new("token", "word\n"), Written::new("newer", "newer\n"));
    let both = concat!(env!("CARGO_MANIFEST_DIR"), "/src/connections/tls/tests/both.pem");
    let (admin, locked, tls) =
        (("admin", "127.0.0.1:0"), ("admin_token_file", token.path()), ("admin_tls_cert", both));
    let read = |said: &[(&str, &str)]| config(said).expect("valid");
    let refusal =
        |ours: &[_], said: &[_]| read(ours).refusal(&read(said)).unwrap_or_else(|| "none".to_owned());
    for (refusal, named) in [
        (refusal(&[admin, locked, tls], &[admin, tls]), "admin-token-file"),
        (refusal(&[admin, locked], &[admin]), "admin-token-file"),
        (refusal(&[admin, locked, tls], &[admin, locked]), "admin-tls-cert"),
        (refusal(&[admin, locked], &[admin, locked, tls]), "admin-tls-cert"),
    ] {
        assert!(refusal.contains(named) && refusal.ends_with("restart the proxy"), "{refusal}");
    }
    assert_eq!(refusal(&[admin, tls], &[admin, locked, tls]), "none", "a token may come");
    let mut config = read(&[admin, locked, tls]);
    assert_eq!(config.refusal(&config), None);
    // The port itself needs a restart.
    let without = read(&[]);
    assert_eq!(config.refusal(&without), None);
    config.take(&without);
    let access = config.admin_access();
    assert!(access.takes(Some(b"word")) && !access.takes(None) && access.terms().is_some());
    assert_eq!(config.settings.admin_token_file, Some(token.path().into()));
    assert!(config.refusal(&read(&[admin])).is_some(), "it asks for a token still");
    config.take(&read(&[admin, ("admin_token_file", newer.path()), tls]));
    assert!(config.admin_access().takes(Some(b"newer")) && !config.admin_access().takes(Some(b"word")));
}

const CA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/connections/tls/tests/ca.pem");

/// Pools `a` and `b` of these servers.
fn two_pools(a: &[&str], b: &[&str]) -> Table {
    let pool = |name: &str, servers: &[&str]| {
        let servers = servers.iter().map(|text| text.parse().expect("a server")).collect();
        (name.to_owned(), Router::new(servers, Placement::Modulo, 1).expect("a pool"))
    };
    Table::new(vec![pool("a", a), pool("b", b)], &[]).expect("a table")
}

/// What is said of a server in a pool: names of settings, and texts.
type Own<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

fn of_servers(said: &[Own<'_>]) -> SaidOfServers {
    let entry =
        |(pool, server, said): &Own<'_>| (((*pool).to_owned(), (*server).to_owned()), Layer::of(said));
    said.iter().map(entry).collect()
}

#[test]
fn each_server_is_spoken_to_as_is_said_of_it() {
    let tls: &[_] = &[("server_tls", "true"), ("server_ca", CA)];
    let own = of_servers(&[("b", "localhost:2", tls)]);
    let table = two_pools(&["localhost:1"], &["localhost:2", "localhost:3"]);
    let config = Config::of_file(
        Some(table),
        &Layer::of(&[("server_ca", CA)]),
        &OfFile { servers: own.clone(), ..OfFile::default() },
    )
    .expect("valid");
    let speaks =
        |port| config.outbounds().of(&Server::new("localhost", port)).map(|it| matches!(it, Spoken::Tls(_)));
    assert_eq!([1, 2, 3, 4].map(speaks), [Some(false), Some(true), Some(false), None]);
    let plain: &[_] = &[("server_tls", "false"), ("server_ca", CA)];
    let (table, own) =
        (two_pools(&["localhost:1"], &["localhost:2"]), of_servers(&[("b", "localhost:2", plain)]));
    let config =
        Config::of_file(Some(table), &Layer::of(tls), &OfFile { servers: own.clone(), ..OfFile::default() })
            .expect("valid");
    let speaks =
        |port| config.outbounds().of(&Server::new("localhost", port)).map(|it| matches!(it, Spoken::Tls(_)));
    assert_eq!([1, 2].map(speaks), [Some(true), Some(false)]);
}

#[test]
fn what_cannot_be_spoken_is_refused() {
    let tls: &[_] = &[("server_tls", "true"), ("server_ca", CA)];
    let refusal = |said: &[(&str, &str)], own: &[Own<'_>]| {
        let table = two_pools(&["localhost:1"], &["localhost:1", "unix:/run/m.sock"]);
        let refused = Config::of_file(
            Some(table),
            &Layer::of(said),
            &OfFile { servers: of_servers(own), ..OfFile::default() },
        )
        .err();
        refused.map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(
        refusal(&[], &[("a", "localhost:1", tls)]),
        "server localhost:1 is in several pools, which differ in its TLS: say the same of it in each"
    );
    assert_eq!(refusal(&[], &[("a", "localhost:1", tls), ("b", "localhost:1", tls)]), "");
    let unnamed = refusal(tls, &[]);
    assert!(unnamed.starts_with("server unix:/run/m.sock has no name"), "{unnamed}");
    let stray = refusal(&[("server_ca", CA)], &[]);
    assert!(stray.starts_with("--server-ca means nothing without --server-tls"), "{stray}");
    let needs = refusal(&[], &[("a", "localhost:1", &[("server_tls", "true")])]);
    assert!(needs.starts_with("--server-tls means nothing without --server-ca"), "{needs}");
    let engine =
        refusal(&[("engine", "split"), ("readers", "1"), ("queue", "1")], &[("a", "localhost:1", tls)]);
    assert!(engine.starts_with("--server-tls belongs to --engine event"), "{engine}");
}

/// A pool of this name with places of its own, and what is said for its clients.
fn own_pool(name: &str, servers: &[&str], said: &[(&str, &str)]) -> PoolOfPlaces {
    let servers = servers.iter().map(|text| text.parse().expect("a server")).collect();
    let router = Router::new(servers, Placement::Modulo, 1).expect("a pool");
    PoolOfPlaces { name: name.to_owned(), router, said: Layer::of(said) }
}

/// A place for each: a port, and the pool of its clients.
fn places_of(places: &[(&str, Option<&str>)]) -> Vec<ListenRow> {
    let row = |(address, pool): &(&str, Option<&str>)| ListenRow {
        address: (*address).to_owned(),
        pool: pool.map(ToOwned::to_owned),
        ..ListenRow::default()
    };
    places.iter().map(row).collect()
}

fn with_pools(
    routed: Option<Table>,
    places: &[(&str, Option<&str>)],
    pools: Vec<PoolOfPlaces>,
    said: &[(&str, &str)],
) -> Result<Config, ConfigError> {
    let of_file = OfFile { listeners: places_of(places), pools, ..OfFile::default() };
    Config::of_file(routed, &Layer::of(said), &of_file)
}

const ROUTES: (&str, Option<&str>) = ("127.0.0.1:1", None);
const RED: (&str, Option<&str>) = ("127.0.0.1:2", Some("red"));
const BLUE: (&str, Option<&str>) = ("127.0.0.1:3", Some("blue"));

fn red_and_blue() -> Vec<PoolOfPlaces> {
    let red = own_pool("red", &["127.0.0.1:9 a", "127.0.0.1:8 b"], &[("timeout", "1s")]);
    vec![red, own_pool("blue", &["127.0.0.1:7 a"], &[])]
}

#[test]
fn clients_of_a_place_with_a_pool_are_served_by_that_pool_alone() {
    let said = [("threads", "4"), ("timeout", "2s")];
    let config = with_pools(Some(table(21_210)), &[ROUTES, RED, BLUE], red_and_blue(), &said).expect("valid");
    let served = |number: usize| {
        let it = config.of_group(number);
        let servers =
            it.table.servers().iter().map(|server| server.name.clone()).collect::<Vec<_>>().join(" ");
        (servers, it.dataplane(0).timeout_ns / 1_000_000, it.serving_threads(), it.dataplane(0).loop_count)
    };
    assert_eq!(served(0), ("127.0.0.1:21210".to_owned(), 2_000, 2, 2));
    assert_eq!(served(1), ("red/a red/b".to_owned(), 1_000, 2, 2));
    assert_eq!(served(2), ("blue/a".to_owned(), 500, 2, 2));
    assert_eq!(config.serving_threads(), 6, "four, shared out and rounded up");
    let groups: Vec<_> =
        config.listeners.iter().map(|it| config.groups().of_place(it.pool.as_deref())).collect();
    assert_eq!(groups, [Some(0), Some(1), Some(2)]);
    let all: Vec<_> = config.table.servers().iter().map(|server| server.name.as_str()).collect();
    assert_eq!(all, ["127.0.0.1:21210", "red/a", "red/b", "blue/a"]);
    assert!(config.table.servers().iter().all(|server| config.outbounds().of(server).is_some()));
}

#[test]
fn without_a_pool_at_a_place_there_is_one_group_that_goes_by_all_settings() {
    let mut config = config(&[("threads", "3")]).expect("valid");
    // Whoever has a configuration may change it.
    config.settings.timeout = Duration::from_millis(7);
    let alone = config.of_group(0);
    assert_eq!((alone.serving_threads(), alone.dataplane(0).timeout_ns), (3, 7_000_000));
    assert!(Arc::ptr_eq(&alone.table, &config.table));
}

#[test]
fn where_every_place_has_a_pool_no_routes_are_needed() {
    let config = with_pools(None, &[RED, BLUE], red_and_blue(), &[("threads", "1")]).expect("valid");
    assert_eq!((config.serving_threads(), config.table.pools().len()), (2, 2));
    let refused = |places: &[_], pools, said: &[_]| {
        with_pools(None, places, pools, said).err().map(|error| error.to_string()).unwrap_or_default()
    };
    let error = refused(&[RED, ROUTES], red_and_blue(), &[]);
    assert_eq!(error, "[[listen]] 127.0.0.1:1: there is no pool that takes keys by routes for its clients");
    let error = refused(&[RED, ("127.0.0.1:4", Some("green"))], red_and_blue(), &[]);
    assert_eq!(error, "[[listen]] 127.0.0.1:4: there is no pool green for its clients");
    assert_eq!(refused(&[RED], Vec::new(), &[]), "there is no pool: give at least one");
    for engine in ["pool", "split"] {
        let error = refused(&[RED, BLUE], red_and_blue(), &[("engine", engine)]);
        assert!(error.starts_with("[[listen]] with a pool belongs to --engine event"), "{error}");
    }
    let whole = own_pool("red", &["127.0.0.1:9", "127.0.0.1:8"], &[("multiget", "whole")]);
    assert!(refused(&[RED], vec![whole], &[]).starts_with("pool red: --multiget whole: "));
    let own = own_pool("red", &["127.0.0.1:3"], &[]);
    assert!(
        refused(&[RED, BLUE], vec![own, own_pool("blue", &["127.0.0.1:7"], &[])], &[])
            .contains("would ask itself")
    );
}

#[test]
fn a_reload_changes_pools_of_places_and_cannot_take_them_away() {
    let mut config =
        with_pools(Some(table(21_210)), &[ROUTES, RED, BLUE], red_and_blue(), &[]).expect("valid");
    let names = |config: &Config| {
        config.table.servers().iter().map(|server| server.name.clone()).collect::<Vec<_>>().join(" ")
    };
    let green = own_pool("green", &["127.0.0.1:6"], &[]);
    let said = [("timeout", "3s"), ("on_failure", "degrade"), ("progress", "1k")];
    let changed = own_pool("red", &["127.0.0.1:9 a", "127.0.0.1:5 c"], &said);
    let pools = vec![green, own_pool("blue", &["127.0.0.1:7 a"], &[]), changed];
    let read =
        with_pools(Some(table(21_220)), &[BLUE, RED, ROUTES, ("127.0.0.1:4", Some("green"))], pools, &[]);
    let read = read.expect("valid");
    assert_eq!(config.refusal(&read), None);
    // What holds for all clients is said once.
    let of_proxy = ["progress stays 64k: 1k needs a restart".to_owned()];
    let lines = config.groups().unchangeable(read.groups(), &of_proxy);
    assert_eq!(lines, ["pool red: on-failure stays strict: degrade needs a restart"]);
    config.take(&read);
    assert_eq!(
        names(&config),
        "127.0.0.1:21220 red/a red/c blue/a",
        "in the order of the start; green needs a restart"
    );
    assert_eq!(config.of_group(1).settings.timeout, Duration::from_secs(3));
    assert!(config.table.servers().iter().all(|server| config.outbounds().of(server).is_some()));

    let without_blue = with_pools(Some(table(21_210)), &[ROUTES, RED], vec![red_and_blue().remove(0)], &[]);
    let refusal = config.refusal(&without_blue.expect("valid")).unwrap_or_default();
    assert!(refusal.starts_with("[[listen]] has no place any more for pool blue"), "{refusal}");
    let without_routes = with_pools(None, &[RED, BLUE], red_and_blue(), &[]).expect("valid");
    let refusal = config.refusal(&without_routes).unwrap_or_default();
    assert!(refusal.contains("no place any more for keys that go by the routes"), "{refusal}");
}
