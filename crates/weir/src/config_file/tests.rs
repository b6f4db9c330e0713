use super::*;

const GOOD: &str = r#"
[pools.main]
listen = "127.0.0.1:22121"
servers = [
  "127.0.0.1:11211:1 red",
  "127.0.0.1:11212:2 blue",
]
placement = "twemproxy/ketama"
hash = "fnv1a_64"
hash_tag = "{}"
replicas = 2
timeout = "400ms"
multiget = "whole"
on_failure = "degrade"
"#;

fn refusal(text: &str) -> String {
    parse(text, "file").unwrap_err().to_string()
}

#[test]
fn a_good_file_is_read() {
    let config = parse(GOOD, "file").unwrap();
    let pool = &config.pools["main"];
    assert_eq!(pool.router.placement().name(), "twemproxy/ketama");
    assert_eq!((pool.router.servers().len(), pool.router.replicas()), (2, 2));
    let read = ["listen", "timeout", "multiget", "on_failure"].map(|name| pool.said.get(name));
    assert_eq!(read, ["127.0.0.1:22121", "400ms", "whole", "degrade"].map(Some));
}

/// A file of 20 KB took gigabytes and minutes, on a reload in the process that serves.
#[test]
fn a_file_of_too_many_or_too_heavy_pools_is_refused_before_they_are_built() {
    let pool = |number: usize, weight: u32| {
        format!(
            "[pools.p{number:03}]\nservers = [\"10.0.0.1:1:{weight}\", \"10.0.0.2:1\"]\nplacement = \"modulo\"\n"
        )
    };
    let many: String = (0..257).map(|number| pool(number, 1)).collect();
    assert_eq!(
        refusal(&format!("default = \"p000\"\n{many}")),
        "file: there are 257 pools: a file has at most 256"
    );
    let heavy: String = (0..256).map(|number| pool(number, 65_535)).collect();
    assert_eq!(
        refusal(&format!("default = \"p000\"\n{heavy}")),
        "file:185: pool p061: with it the pools of the file have 4063232 points or slots to place keys by, and more than 4000000 take \
         too much time and memory: lower weights"
    );
    let routes: String = (0..4097).map(|number| format!("\"{number}:\" = \"p000\"\n")).collect();
    assert_eq!(
        refusal(&format!("[routes]\n{routes}{}", pool(0, 1))),
        "file: there are 4097 routes: a file has at most 4096"
    );
}

/// What tests/processes/test_configuration.py does not try, and one of each that it does.
#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (from, to, expected) in [
        ("hash = ", "hsh = ", "9: pool main: unknown field `hsh`, expected one of `servers`, `replicas`, "),
        ("replicas = 2", "replicas = \"2\"", "11: pool main: replicas: expected a whole number, found \"2\""),
        ("replicas = 2", "replicas = 3", "11: pool main: 3 replicas are impossible with 2 servers"),
        ("11212:2 blue", "11211:1 red", "6: pool main: server red is in the pool twice"),
        ("replicas = 2", "replicas = 1", "13: pool main: multi-gets cannot be asked whole: each key"),
        ("\"whole\"", "\"all\"", "13: pool main: multiget: \"all\" is none of sharded, whole, auto"),
        ("degrade", "ignore", "14: pool main: on_failure: \"ignore\" is none of strict, degrade"),
        ("127.0.0.1:22121", "localhost", "3: pool main: listen: \"localhost\" is no address"),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let message = refusal(&GOOD.replace(from, to));
        assert!(message.starts_with(&format!("file:{expected}")), "{message}");
    }
}

#[test]
fn a_file_that_ends_too_early_is_refused() {
    let complete = [GOOD.len() - 1, GOOD.len()];
    let whole: Vec<usize> = (0..=GOOD.len()).filter(|end| parse(&GOOD[..*end], "file").is_ok()).collect();
    assert!(complete.iter().all(|end| whole.contains(end)));
    // Cut between settings that may be left out, it is a file; cut inside one, it never is.
    for end in whole {
        let (before, after) = GOOD.split_at(end);
        assert!(before.ends_with('\n') || after.starts_with('\n') || after.is_empty(), "{before}");
    }
    assert!(refusal(&GOOD[..60]).starts_with("file:"), "{}", refusal(&GOOD[..60]));
    assert_eq!(refusal(""), "file:1: missing field `pools`");
    assert_eq!(refusal("[pools]\n"), "file: there is no pool: write [pools.NAME] and its servers");
}

/// Whatever a slip does to a file, it is read or refused.
#[test]
fn no_changed_byte_panics() {
    for place in 0..GOOD.len() {
        for other in ["", "\"", "[", "]", "=", "\n", "#", "0", "\u{7f}", "é"] {
            let mut text = GOOD.to_owned();
            text.replace_range(place..=place, other);
            if let Err(error) = parse(&text, "file") {
                assert!(error.line.is_none_or(|line| line <= text.lines().count() + 1), "{error}");
            }
        }
    }
}

const ROUTED: &str = r#"
default = "main"
[proxy]
threads = 2
client_buffer = "1m"
allow_flush = true
[pools.main]
timeout = "1s"
servers = ["a:1"]
[pools.users]
servers = ["b:1 red", "c:1"]
timeout = "1s"
[pools.sessions]
servers = ["b:1:3 red", "/run/m.sock"]
timeout = "1s"
[routes]
"user:" = "users"
"user:x:" = "main"
"#;

#[test]
fn routes_lead_to_pools_of_one_table() {
    let config = parse(ROUTED, "file").unwrap();
    let routed = config.table(None).unwrap();
    let names: Vec<_> = routed.table().unwrap().pools().iter().map(weir_routing::Pool::name).collect();
    assert_eq!(names, ["main", "users"]);
    assert_eq!(routed.unserved(), ["sessions"]);
    let by_wish = config.table(Some("sessions")).unwrap();
    assert!(by_wish.unserved().is_empty(), "routes lead to the others");
    assert_eq!(by_wish.table().unwrap().pools()[0].name(), "sessions");
    assert_eq!(by_wish.table().unwrap().servers().len(), 4);
    let read = ["threads", "client_buffer", "allow_flush"].map(|name| config.settings.get(name));
    assert_eq!(read, ["2", "1m", "true"].map(Some));
    assert_eq!(routed.of_pools.get("timeout"), Some("1s"));
}

const USERS: &str = r#"
default = "main"
[pools.main]
servers = ["a:1"]
[pools.other]
servers = ["b:1"]
[routes]
"o:" = "other"
[[users]]
name = "reports"
pools = ["main", "other"]
read_only = true
[[users]]
name = "app"
certificate = "app.example"
"#;

#[test]
fn users_are_read_and_what_is_wrong_with_one_is_said_with_its_line() {
    let config = parse(USERS, "file").unwrap();
    let reports = UserRow {
        name: "reports".into(),
        certificate: None,
        pools: Some(vec!["main".into(), "other".into()]),
        read_only: true,
    };
    let app = UserRow { name: "app".into(), certificate: Some("app.example".into()), ..UserRow::default() };
    assert_eq!(config.users, [reports, app]);
    assert_eq!(config.table(None).unwrap().into_parts().2.users, config.users);
    for (from, to, expected) in [
        ("\"app\"", "\"reports\"", "14: user reports is there twice: remove one"),
        ("\"app\"", "\"a b\"", "14: \"a b\" is no name of a user"),
        (
            "\"other\"]\nread",
            "\"othr\"]\nread",
            "11: user reports: there is no pool \"othr\": there are main, other",
        ),
        ("[\"main\", \"other\"]", "[]", "11: user reports: it may use no pool"),
        (
            "read_only = true",
            "certificate = \"app.example\"",
            "15: user app: another user has the certificate",
        ),
        ("read_only", "readonly", "12: unknown field `readonly`"),
        ("name = \"app\"", "", "13: missing field `name`"),
    ] {
        assert!(USERS.contains(from), "{from}");
        let message = refusal(&USERS.replacen(from, to, 1));
        assert!(message.starts_with(&format!("file:{expected}")), "{message}");
    }
}

#[test]
fn pools_and_listeners_are_there_once() {
    let twice = format!("{GOOD}{}", GOOD.replace("pools.main", "pools.other"));
    assert_eq!(refusal(&twice), "file:17: pool main listens on 127.0.0.1:22121 already");
    let duplicate = format!("{GOOD}{GOOD}");
    assert!(refusal(&duplicate).starts_with("file:16: duplicate key"), "{}", refusal(&duplicate));
}

/// What is said of each server of a pool, by their names.
fn of_servers(text: &str) -> Vec<(String, String)> {
    let routed = parse(text, "file").unwrap_or_else(|error| panic!("{error}")).table(None).unwrap();
    let said = |layer: &Layer| {
        ["server_tls", "server_ca", "server_name"].map(|name| layer.get(name).unwrap_or("-")).join(" ")
    };
    let mut all: Vec<_> =
        routed.of_servers().iter().map(|((_, server), it)| (server.clone(), said(it))).collect();
    all.sort();
    all
}

#[test]
fn a_pool_and_a_server_of_it_say_what_they_are_spoken_to_in() {
    let text = r#"
[proxy]
server_ca = "ca.crt"
[pools.main]
servers = ["a:1", { server = "b:1:2 red", server_tls = true, server_name = "red.test" }, "c:1"]
"#;
    assert_eq!(of_servers(text), [("red".to_owned(), "true - red.test".to_owned())]);
    let text = r#"
[pools.main]
servers = ["a:1", { server = "b:1", server_tls = false }, { server = "c:1", server_ca = "other.crt" }]
server_tls = true
server_ca = "ca.crt"
"#;
    let said = [("a:1", "true ca.crt -"), ("b:1", "false ca.crt -"), ("c:1", "true other.crt -")];
    assert_eq!(of_servers(text), said.map(|(server, said)| (server.to_owned(), said.to_owned())));
    assert_eq!(of_servers("[proxy]\nserver_tls = true\n[pools.main]\nservers = [\"a:1\"]\n"), []);
}

#[test]
fn a_pool_and_a_server_of_it_say_how_they_are_logged_in_to() {
    let text = r#"
[proxy]
server_auth_file = "all"
[pools.main]
servers = ["a:1", { server = "b:1", server_auth_file = "of-b" }]
server_auth_file = "of-main"
[pools.other]
servers = ["c:1", { server = "d:1", server_auth_file = "of-d" }]
[routes]
"o:" = "other"
"#;
    let text = format!("default = \"main\"\n{text}");
    let routed = parse(&text, "file").unwrap_or_else(|error| panic!("{error}")).table(None).unwrap();
    let said = |(name, layer): (&(String, String), &Layer)| {
        format!("{}/{} {}", name.0, name.1, layer.get("server_auth_file").unwrap_or("-"))
    };
    let mut all: Vec<_> = routed.of_servers().iter().map(said).collect();
    all.sort();
    assert_eq!(all, ["main/a:1 of-main", "main/b:1 of-b", "other/d:1 of-d"]);
}

#[test]
fn what_would_leave_a_server_without_tls_by_mistake_is_refused() {
    for (text, expected) in [
        (
            "[pools.main]\nservers = [\"a:1\"]\nserver_ca = \"ca.crt\"\n",
            "file:3: pool main: server_ca means nothing without server_tls = true",
        ),
        (
            "[pools.main]\nservers = [\n{ server = \"a:1\", server_tls = true },\n{ server = \"b:1\", server_name = \"b\" }]\n",
            "file:4: pool main: server_name means nothing without server_tls = true",
        ),
        ("[pools.main]\nservers = [{ server_tls = true }]\n", "file:2: missing field `server`"),
        (
            "[pools.main]\nservers = [{ server = \"a:1\", timeout = \"1s\" }]\n",
            "file:2: pool main: unknown field `timeout`, expected one of `server`, `server_tls`, `server_ca`, `server_cert`, \
             `server_key`, `server_name`, `server_auth_file`",
        ),
    ] {
        assert_eq!(refusal(text), expected);
    }
}

#[test]
fn places_where_clients_connect_are_read() {
    let text = r#"
[[listen]]
address = "0.0.0.0:21211"
tls = true
[[listen]]
address = "unix:/run/weir/weir.sock"
mode = "600"
login = false
[pools.main]
servers = ["127.0.0.1:11211"]
"#;
    let config = parse(text, "file").unwrap_or_else(|error| panic!("{error}"));
    let expected = [
        ListenRow { address: "0.0.0.0:21211".into(), tls: Some(true), ..ListenRow::default() },
        ListenRow {
            address: "unix:/run/weir/weir.sock".into(),
            mode: Some(0o600),
            login: Some(false),
            ..ListenRow::default()
        },
    ];
    assert_eq!(config.listeners, expected);
    assert_eq!(config.table(None).unwrap().into_parts().2.listeners, expected);
    for (from, to, expected) in [
        ("0.0.0.0:21211", "nowhere", "3: address: "),
        ("tls = true", "tls = 1", "4: invalid type: integer `1`, expected a boolean"),
        ("\"600\"", "\"999\"", "7: mode: \"999\" is no mode: give three octal digits, such as 660"),
        ("unix:/run/weir/weir.sock", "0.0.0.0:21211", "6: [[listen]] 0.0.0.0:21211 is there twice"),
        ("address = \"0", "adress = \"0", "3: unknown field `adress`"),
        ("[pools.main]\n", "[pools.main]\nlisten = \"127.0.0.1:1\"\n", "10: listen stands beside [[listen]]"),
        ("[pools.main]\n", "[proxy]\nlisten = \"127.0.0.1:1\"\n[pools.main]\n", "10: listen stands beside"),
    ] {
        assert!(text.contains(from), "{from}");
        let message = refusal(&text.replacen(from, to, 1));
        assert!(message.starts_with(&format!("file:{expected}")), "{message}");
    }
}

/// One place goes by routes, two name one pool, and one another.
const PLACED: &str = r#"
default = "main"
[[listen]]
address = "127.0.0.1:1"
[[listen]]
address = "127.0.0.1:2"
pool = "pages"
[[listen]]
address = "unix:/run/pages"
pool = "pages"
[[listen]]
address = "127.0.0.1:3"
pool = "users"
[pools.main]
servers = ["a:1"]
[pools.other]
servers = ["a:1", "b:1"]
[pools.pages]
servers = ["a:1", "z:1 b:1"]
timeout = "1s"
on_failure = "degrade"
[pools.users]
servers = ["y:1:2 a:1", { server = "z:1", server_tls = true }]
placement = "modulo"
replicas = 2
multiget = "whole"
[pools.spare]
servers = ["a:1"]
[routes]
"o:" = "other"
"#;

/// What is served: pools by routes, pools of places with what each says, and pools that nobody gets to.
fn served(text: &str, wanted: Option<&str>) -> Result<[String; 3], String> {
    let config = parse(text, "file").map_err(|error| error.to_string())?;
    let routed = config.served(wanted).map_err(|error| error.to_string())?;
    let unserved = routed.unserved().join(" ");
    let by_routes = routed.table().map(|table| table.pools().iter().map(|it| it.name().to_owned()).collect());
    let (_, _, of_file) = routed.into_parts();
    let said = |pool: &weir_proxy::PoolOfPlaces| {
        let said = ["timeout", "on_failure", "multiget"].map(|name| pool.said.get(name).unwrap_or("-"));
        format!("{} {}", pool.name, said.join(" "))
    };
    let of_places: Vec<_> = of_file.pools.iter().map(said).collect();
    Ok([by_routes.unwrap_or_else(Vec::new).join(" "), of_places.join(", "), unserved])
}

#[test]
fn pools_of_places_are_served_beside_the_routes() {
    let all = served(PLACED, None).unwrap();
    assert_eq!(all, ["main other", "pages 1s degrade -, users - - whole", "spare"]);
    let by_wish = served(PLACED, Some("spare")).unwrap();
    assert_eq!(by_wish, ["spare other", "pages 1s degrade -, users - - whole", "main"]);
    let config = parse(PLACED, "file").unwrap();
    let tls = config.served(None).unwrap();
    let tls =
        tls.of_servers().get(&("users".to_owned(), "z:1".to_owned())).and_then(|it| it.get("server_tls"));
    assert_eq!(tls, Some("true"));
    let names = |wanted| {
        let table = config.seen_by(wanted).unwrap();
        table.servers().iter().map(|it| it.name.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(None), "a:1 b:1");
    assert_eq!(names(Some("pages")), "pages/a:1 pages/b:1");
    assert_eq!(names(Some("spare")), "a:1 b:1");
}

#[test]
fn where_every_place_names_its_pool_nothing_goes_by_routes() {
    let text = PLACED.replacen("\"127.0.0.1:1\"\n", "\"127.0.0.1:1\"\npool = \"main\"\n", 1);
    let refused = served(&text, None).unwrap_err();
    assert!(
        refused.starts_with("file:31: every [[listen]] names its pool, so no key would go by route \"o:\""),
        "{refused}"
    );
    let text = text.replace("[routes]\n\"o:\" = \"other\"\n", "");
    assert_eq!(
        served(&text, None).unwrap(),
        ["", "main - - -, pages 1s degrade -, users - - whole", "other spare"]
    );
    // One of them alone is served as if there were no other.
    assert_eq!(served(&text, Some("pages")).unwrap(), ["pages", "", "main other spare users"]);
    let alone = parse(&text, "file").unwrap().served(Some("pages")).unwrap();
    let listeners = alone.into_parts().2.listeners;
    let rows: Vec<_> = listeners.iter().map(|row| (row.address.as_str(), &row.pool)).collect();
    assert_eq!(rows, [("127.0.0.1:2", &None), ("unix:/run/pages", &None)]);
    let refused = served(&text, Some("spare")).unwrap_err();
    assert!(refused.starts_with("every [[listen]] names its pool, and none names spare"), "{refused}");
}

#[test]
fn pools_that_places_cannot_have_are_refused_with_their_lines() {
    for (from, to, expected) in [
        (
            "pool = \"users\"",
            "pool = \"user\"",
            "13: [[listen]] 127.0.0.1:3: there is no pool \"user\": there are main, ",
        ),
        (
            "pool = \"users\"",
            "pool = \"other\"",
            "13: pool other belongs to a [[listen]] and is where routes",
        ),
        ("pool = \"users\"", "pool = \"main\"", "13: pool main belongs to a [[listen]]"),
        ("pages", "\"odd name\"", "7: "),
        (
            "timeout = \"1s\"",
            "max_connections = 5",
            "20: pool pages belongs to a [[listen]], and max_connections is for all",
        ),
    ] {
        assert!(PLACED.contains(from), "{from}");
        let text = if from == "pages" {
            PLACED.replace("\"pages\"", to).replace("pools.pages", "pools.\"odd name\"")
        } else {
            PLACED.replacen(from, to, 1)
        };
        let message = served(&text, None).unwrap_err();
        assert!(message.starts_with(&format!("file:{expected}")), "{message}");
    }
}
