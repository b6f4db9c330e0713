//! From twemproxy's YAML.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use weir_proxy::LISTENERS_MAX;
use weir_routing::{Endpoint, HashTag, KeyHash, Options, Placement, Server};

use super::converted::{Converted, ConvertedPlace, ConvertedPool};

/// The whole file: pools by name, in its order. A name that is there twice is refused, as nutcracker does.
#[derive(Debug)]
struct FileYaml(Vec<(String, PoolYaml)>);

impl<'de> Deserialize<'de> for FileYaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfFile;
        impl<'de> Visitor<'de> for OfFile {
            type Value = FileYaml;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("pools by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FileYaml, A::Error> {
                let (mut pools, mut names) = (Vec::new(), HashSet::new());
                while let Some((name, yaml)) = map.next_entry::<String, PoolYaml>()? {
                    if !names.insert(name.clone()) {
                        return Err(A::Error::custom(format!("pool {name} is there twice")));
                    }
                    pools.push((name, yaml));
                }
                Ok(FileYaml(pools))
            }
        }
        deserializer.deserialize_map(OfFile)
    }
}

/// A pool of nutcracker's file: every setting that version 0.5.0 knows.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolYaml {
    listen: String,
    servers: Vec<String>,
    hash: Option<String>,
    hash_tag: Option<String>,
    distribution: Option<String>,
    timeout: Option<i64>,
    redis: Option<bool>,
    auto_eject_hosts: Option<bool>,
    backlog: Option<i64>,
    client_connections: Option<i64>,
    preconnect: Option<bool>,
    redis_auth: Option<String>,
    redis_db: Option<i64>,
    reuse_port: Option<bool>,
    server_connections: Option<i64>,
    server_failure_limit: Option<i64>,
    server_retry_timeout: Option<i64>,
    tcpkeepalive: Option<bool>,
}

/// memcached's port, which nutcracker leaves out of the names that it makes.
const DEFAULT_PORT: u16 = 11_211;

/// The pools that place keys as nutcracker does.
pub(super) fn convert(text: &str) -> Result<Converted, String> {
    let FileYaml(pools) = serde_norway::from_str(text)
        .map_err(|error| format!("cannot be read as nutcracker's YAML: {error}"))?;
    if pools.is_empty() {
        return Err("there is no pool".to_owned());
    }
    let (redis, memcached): (Vec<_>, Vec<_>) =
        pools.into_iter().partition(|(_, yaml)| yaml.redis == Some(true));
    let left_out = |(name, _): &(String, PoolYaml)| format!("pool {name} is for Redis and has no equal");
    let notes: Vec<String> = redis.iter().map(left_out).collect();
    if memcached.is_empty() {
        return Err(format!("{}: there is no other pool", notes.join(", ")));
    }
    if memcached.len() > LISTENERS_MAX {
        let count = memcached.len();
        return Err(format!(
            "there are {count} pools: one proxy of Weir has at most {LISTENERS_MAX} places; split the file"
        ));
    }
    let is_one = memcached.len() == 1;
    let pools = memcached.into_iter().map(|(name, yaml)| {
        pool(name.clone(), &yaml, is_one).map_err(|reason| format!("pool {name}: {reason}"))
    });
    let mut pools: Vec<ConvertedPool> = pools.collect::<Result<_, _>>()?;
    let places = pools.iter_mut().filter(|_| !is_one).filter_map(place).collect();
    Ok(Converted { pools, places, notes, ..Converted::default() })
}

/// Where clients connect of a pool that is one of several.
fn place(pool: &mut ConvertedPool) -> Option<ConvertedPlace> {
    let (address, mode) = (pool.listen.take()?, pool.listen_mode.take());
    Some(ConvertedPlace { address, mode, pool: pool.name.clone() })
}

/// `is_one`: there is no other.
fn pool(name: String, yaml: &PoolYaml, is_one: bool) -> Result<ConvertedPool, String> {
    let placement = match yaml.distribution.as_deref() {
        None | Some("ketama") => Placement::TwemproxyKetama,
        Some("modula") => Placement::TwemproxyModula,
        Some(other) => return Err(format!("`distribution: {other}` has no equal: keys would have no place")),
    };
    let hash = hash(yaml.hash.as_deref(), placement)?;
    let hash_tag = match yaml.hash_tag.as_deref() {
        None | Some("") => None,
        Some(pair) => Some(pair.parse::<HashTag>().map_err(|error| error.to_string())?),
    };
    let mut notes = Vec::new();
    let (listen, mode) = yaml.listen.split_once(' ').unwrap_or((&yaml.listen, "0"));
    let listen_mode = socket_mode(mode)?;
    if listen.starts_with('/') && listen_mode.is_none() {
        let setting = if is_one { "listen_mode" } else { "mode of its [[listen]]" };
        notes.push(format!(
            "without a mode the socket's was what nutcracker's umask left; here it is 660: set {setting} if others connect"
        ));
    }
    let listen = Some(listen.to_owned());
    let max_connections =
        yaml.client_connections.and_then(|count| u64::try_from(count).ok()).filter(|count| *count > 0);
    if max_connections.is_some() {
        let became = if is_one {
            "client_connections became max_connections: nutcracker 0.5.0 reads it and lets more clients in, Weir does not"
        } else {
            "client_connections has no equal for one of several pools: max_connections in [proxy] is for the clients of all"
        };
        notes.push(became.to_owned());
    }
    let max_connections = max_connections.filter(|_| is_one);
    let timeout_ms =
        yaml.timeout.and_then(|timeout| u64::try_from(timeout).ok()).filter(|timeout| *timeout > 0);
    if timeout_ms.is_none() {
        notes.push("without a timeout nutcracker waits for ever; Weir answers after 500 ms".to_owned());
    }
    notes.extend(without_equal(yaml));
    let servers = yaml.servers.iter().map(|text| server(text)).collect::<Result<_, _>>()?;
    let options = Options { hash: Some(hash), hash_tag, ..Options::new(placement) };
    let pool = ConvertedPool::new(name, servers, options);
    Ok(ConvertedPool { listen, listen_mode, max_connections, timeout_ms, notes, ..pool })
}

/// The octal digits behind a socket's path; nutcracker takes 0 for none.
fn socket_mode(text: &str) -> Result<Option<u32>, String> {
    match u32::from_str_radix(text, 8) {
        Ok(0) => Ok(None),
        Ok(mode) if mode <= 0o777 => Ok(Some(mode)),
        _ => Err(format!("listen: {text:?} is no mode of a socket: it has octal digits, such as 0666")),
    }
}

/// The hash is written out even where it is the default: a reader should see which it is.
fn hash(name: Option<&str>, placement: Placement) -> Result<KeyHash, String> {
    let Some(name) = name else { return Ok(KeyHash::Fnv1a64) };
    let known = placement.hashes().iter().find(|hash| hash.name() == name);
    known.copied().ok_or_else(|| format!("`hash: {name}` is none of nutcracker's hashes"))
}

/// `HOST:PORT:WEIGHT` or `HOST:PORT:WEIGHT NAME`.
fn server(text: &str) -> Result<Server, String> {
    let address = text.split(' ').next().unwrap_or(text);
    let (parts, form) = if text.starts_with('/') { (2, "/path:weight") } else { (3, "host:port:weight") };
    if address.split(':').count() < parts {
        return Err(format!("server {text:?} has no weight: nutcracker wants {form}"));
    }
    let server: Server = text.parse().map_err(|error: weir_routing::ServerError| error.to_string())?;
    let named = text.len() > address.len();
    let on_default_port = matches!(server.endpoint, Endpoint::Tcp { port: DEFAULT_PORT, .. });
    if named && !server.is_named() && on_default_port {
        return Err(format!(
            "server {text:?} has its own address as its name, which nutcracker hashes with the port and Weir \
             without: give it another name in both"
        ));
    }
    Ok(server)
}

/// Settings that do not decide where keys go, and that Weir has no setting for.
fn without_equal(yaml: &PoolYaml) -> Vec<String> {
    let mut notes = Vec::new();
    let mut note = |set: bool, setting: &str, reason: &str| {
        if set {
            notes.push(format!("{setting} has no equal: {reason}"));
        }
    };
    note(
        yaml.auto_eject_hosts == Some(true),
        "auto_eject_hosts: true",
        "keys never move because a server is down",
    );
    let not_ejected = "no server is ejected; one that is down is tried again by itself, and one that is silent is marked down after \
                       mark_down_timeouts";
    note(yaml.server_retry_timeout.is_some(), "server_retry_timeout", not_ejected);
    note(yaml.server_failure_limit.is_some(), "server_failure_limit", not_ejected);
    note(
        yaml.server_connections.is_some_and(|n| n != 1),
        "server_connections",
        "every event loop has one connection to each server, and one more for large values",
    );
    note(yaml.backlog.is_some(), "backlog", "listen_backlog in [proxy] is for all clients, 1024 by default");
    note(yaml.preconnect == Some(false), "preconnect: false", "servers are connected to at the start");
    note(
        yaml.tcpkeepalive == Some(false),
        "tcpkeepalive: false",
        "it is on, also for clients; keepalive = \"0s\" in [proxy] turns it off",
    );
    note(
        yaml.reuse_port == Some(true),
        "reuse_port: true",
        "one process serves with all cores, and no other may listen at its port",
    );
    note(yaml.redis_auth.is_some(), "redis_auth", "it is for Redis");
    note(yaml.redis_db.is_some(), "redis_db", "it is for Redis");
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "
alpha:
  listen: 127.0.0.1:22121
  hash: md5
  hash_tag: \"{}\"
  distribution: modula
  auto_eject_hosts: true
  timeout: 400
  client_connections: 500
  server_retry_timeout: 2000
  preconnect: true
  tcpkeepalive: true
  backlog: 512
  servers:
   - 127.0.0.1:11211:1 red
   - 127.0.0.1:11212:2
beta:
  listen: /tmp/socket 0666
  servers:
   - cache-1.example:11211:1
";

    #[test]
    fn pools_become_toml_each_with_its_place() {
        let expected = "\
[[listen]]
address = \"127.0.0.1:22121\"
pool = \"alpha\"

[[listen]]
address = \"/tmp/socket\"
mode = \"666\"
pool = \"beta\"

[pools.alpha]
# client_connections has no equal for one of several pools: max_connections in [proxy] is for the clients of all
# auto_eject_hosts: true has no equal: keys never move because a server is down
# server_retry_timeout has no equal: no server is ejected; one that is down is tried again by itself, and one that is silent is marked down after mark_down_timeouts
# backlog has no equal: listen_backlog in [proxy] is for all clients, 1024 by default
servers = [
  \"127.0.0.1:11211:1 red\",
  \"127.0.0.1:11212:2\",
]
placement = \"twemproxy/modula\"
hash = \"md5\"
hash_tag = \"{}\"
timeout = \"400ms\"

[pools.beta]
# without a timeout nutcracker waits for ever; Weir answers after 500 ms
servers = [
  \"cache-1.example:11211:1\",
]
placement = \"twemproxy/ketama\"
hash = \"fnv1a_64\"
";
        let text = convert(GOOD).unwrap().to_toml();
        assert_eq!(text, expected);
        crate::config_file::parse(&text, "file").unwrap();
    }

    #[test]
    fn a_pool_alone_says_itself_where_it_listens() {
        let alone = &GOOD[..GOOD.find("beta:").unwrap()];
        let expected = "\
[pools.alpha]
# client_connections became max_connections: nutcracker 0.5.0 reads it and lets more clients in, Weir does not
";
        let text = convert(alone).unwrap().to_toml();
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("\nlisten = \"127.0.0.1:22121\"\nmax_connections = 500\nservers"), "{text}");
        assert!(!text.contains("[[listen]]"), "{text}");
    }

    #[test]
    fn pools_keep_their_order_and_are_there_once() {
        let pool = |name: &str| format!("{name}: {{listen: \"127.0.0.1:1\", servers: [\"a:1:1\"]}}\n");
        let text = [pool("sessions"), pool("pages"), pool("users")].concat();
        let names: Vec<_> = convert(&text).unwrap().pools.into_iter().map(|pool| pool.name).collect();
        assert_eq!(names, ["sessions", "pages", "users"]);
        let error = convert(&(text + &pool("pages"))).unwrap_err();
        assert!(error.contains("pool pages is there twice"), "{error}");
    }

    #[test]
    fn more_pools_than_one_proxy_has_places_for_are_refused() {
        let pools = |count: usize| {
            let pool =
                |number| format!("p{number}: {{listen: \"127.0.0.1:{number}\", servers: [\"a:1:1\"]}}\n");
            (1..=count).map(pool).collect::<String>()
        };
        assert_eq!(convert(&pools(LISTENERS_MAX)).unwrap().places.len(), LISTENERS_MAX);
        let error = convert(&pools(LISTENERS_MAX + 1)).unwrap_err();
        assert!(error.starts_with("there are 65 pools: one proxy of Weir has at most 64 places"), "{error}");
    }

    #[test]
    fn settings_that_are_weir_s_own_default_need_no_note() {
        let text = convert(GOOD).unwrap().to_toml();
        assert!(!text.contains("preconnect") && !text.contains("tcpkeepalive"), "{text}");
        let others = GOOD
            .replace("preconnect: true", "preconnect: false")
            .replace("tcpkeepalive: true", "tcpkeepalive: false");
        let text = convert(&others).unwrap().to_toml();
        assert!(
            text.contains("# preconnect: false has no equal: servers are connected to at the start\n"),
            "{text}"
        );
        assert!(text.contains("# tcpkeepalive: false has no equal: it is on, "), "{text}");
    }

    #[test]
    fn a_socket_without_a_mode_is_open_to_fewer() {
        for listen in ["/tmp/socket", "/tmp/socket 0"] {
            let text = convert(&GOOD.replace("/tmp/socket 0666", listen)).unwrap().to_toml();
            assert!(text.contains("address = \"/tmp/socket\"\npool = \"beta\"\n"), "{text}");
            assert!(
                text.contains(
                    "# without a mode the socket's was what nutcracker's umask left; here it is 660: set mode of its [[listen]]"
                ),
                "{text}"
            );
        }
    }

    #[test]
    fn pools_for_redis_are_left_out() {
        let text = convert(&GOOD.replace("auto_eject_hosts", "redis")).unwrap().to_toml();
        assert!(text.starts_with("# pool alpha is for Redis and has no equal\n\n[pools.beta]\n"), "{text}");
        let only = "alpha: {listen: \"127.0.0.1:1\", servers: [\"a:1:1\"], redis: true}";
        let error = convert(only).unwrap_err();
        assert_eq!(error, "pool alpha is for Redis and has no equal: there is no other pool");
    }

    #[test]
    fn what_would_move_keys_is_refused() {
        let check = |from: &str, to: &str, expected: &str| {
            assert!(GOOD.contains(from), "{from}");
            let message = convert(&GOOD.replace(from, to)).unwrap_err();
            assert!(message.contains(expected), "{message}");
        };
        check(
            "distribution: modula",
            "distribution: random",
            "pool alpha: `distribution: random` has no equal",
        );
        check("hash: md5", "hash: sha1", "pool alpha: `hash: sha1` is none of nutcracker's hashes");
        check("hash: md5", "hush: md5", "unknown field `hush`");
        check("hash: md5", "hash: murmur3", "is none of nutcracker's");
        check("\"{}\"", "\"{\"", "hash tag \"{\" is no pair");
        check("127.0.0.1:11212:2", "/tmp/memcached", "has no weight: nutcracker wants /path:weight");
        check("127.0.0.1:11212:2", "127.0.0.1:11212", "has no weight");
        check("11211:1 red", "11211:1 127.0.0.1:11211", "has its own address as its name");
        check("/tmp/socket 0666", "/tmp/socket 0999", "pool beta: listen: \"0999\" is no mode of a socket");
        check("/tmp/socket 0666", "/tmp/socket 01777", "is no mode of a socket");
        check("timeout: 400", "timeout: soon", "cannot be read as nutcracker's YAML");
        assert!(convert("alpha: [").unwrap_err().starts_with("cannot be read as nutcracker's YAML: "));
        assert_eq!(convert("{}").unwrap_err(), "there is no pool");
    }

    /// Whatever a slip does to a file, it is converted or refused.
    #[test]
    fn no_changed_byte_panics() {
        let good = GOOD.to_owned();
        for place in 0..good.len() {
            for other in ["", "\"", "[", "]", "{", ":", "\n", "#", "-", "0", "&a", "*a", "é"] {
                let mut text = good.clone();
                text.replace_range(place..=place, other);
                if let Ok(converted) = convert(&text) {
                    assert!(!converted.to_toml().is_empty());
                }
            }
        }
    }
}
