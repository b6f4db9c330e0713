//! Pools of mcrouter's file: their servers, and what is said with them.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use weir_routing::{Options, Placement, SERVERS_MAX, Server, Weight};

pub(super) type Object = Map<String, Value>;

/// Pools that inherit from each other are followed so far.
const INHERITED_MAX: usize = 32;

/// More settings of one pool, or more values of one, are a mistake: mcrouter knows some forty. All are copied for each route.
const SETTINGS_MAX: usize = 256;

/// Servers in their order, and what holds for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hosts {
    /// The pool that they belong to.
    pub(super) name: String,
    pub(super) servers: Vec<Server>,
    /// The addresses of those that are spoken to in TLS, and perhaps of others.
    pub(super) tls: BTreeSet<String>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) connect_timeout_ms: Option<u64>,
    /// Whether keys go to them with their `/region/cluster/`.
    pub(super) keeps_prefix: bool,
    /// What has no equal.
    pub(super) notes: Vec<String>,
}

/// A pool, and what it says of how a `PoolRoute` places keys on it.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) hosts: Hosts,
    pub(super) hash: Object,
}

impl Hosts {
    /// Each of them alone.
    pub(super) fn each_alone(&self) -> impl Iterator<Item = Self> {
        self.servers.iter().map(|server| Self {
            name: self.name.clone(),
            servers: vec![server.clone()],
            tls: self.tls.get(&server.address()).cloned().into_iter().collect(),
            notes: self.notes.clone(),
            ..*self
        })
    }

    /// All of them as one.
    pub(super) fn together(hosts: impl IntoIterator<Item = Self>) -> Self {
        let mut hosts = hosts.into_iter();
        let mut all = hosts.next().unwrap_or_default();
        for one in hosts {
            all.servers.extend(one.servers);
            all.tls.extend(one.tls);
            all.timeout_ms = longest(all.timeout_ms, one.timeout_ms);
            all.connect_timeout_ms = longest(all.connect_timeout_ms, one.connect_timeout_ms);
            all.keeps_prefix &= one.keeps_prefix;
            for note in one.notes {
                all.note(note);
            }
        }
        all
    }

    /// Whether they are the same servers, in any order.
    pub(super) fn are(&self, others: &Self) -> bool {
        let sorted = |hosts: &Self| {
            let mut addresses: Vec<_> = hosts.servers.iter().map(Server::address).collect();
            addresses.sort_unstable();
            addresses
        };
        sorted(self) == sorted(others)
    }

    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// mcrouter waits for a second where nothing is said: `--server-timeout`.
const TIMEOUT_MS: u64 = 1000;

/// The longer of two timeouts, of which one or both may be mcrouter's own.
pub(super) fn longest(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (None, None) => None,
        _ => Some(one.unwrap_or(TIMEOUT_MS).max(other.unwrap_or(TIMEOUT_MS))),
    }
}

/// A pool of `pools`, with what it inherits.
pub(super) fn named(pools: &Object, name: &str) -> Result<Pool, String> {
    let mut merged = Object::new();
    let mut next = name.to_owned();
    for _ in 0..INHERITED_MAX {
        let pool = pools.get(&next).ok_or_else(|| format!("pool {next:?} is none of the pools"))?;
        let pool = pool.as_object().ok_or_else(|| format!("pool {next}: is no object"))?;
        for (setting, value) in pool.iter().filter(|(setting, _)| *setting != "inherit") {
            merged.entry(setting).or_insert_with(|| value.clone());
        }
        match pool.get("inherit") {
            None => return read(name, &merged).map_err(|reason| format!("pool {name}: {reason}")),
            Some(Value::String(other)) => next.clone_from(other),
            Some(_) => return Err(format!("pool {next}: `inherit` is no text")),
        }
    }
    Err(format!("pool {name}: it inherits from more than {INHERITED_MAX} pools, or from itself"))
}

/// A pool of this name.
pub(super) fn read(name: &str, pool: &Object) -> Result<Pool, String> {
    let mut hosts = Hosts { name: name.to_owned(), ..Hosts::default() };
    let mut hash = Object::new();
    let is_tls = security(pool)?;
    if pool.len() > SETTINGS_MAX {
        return Err(format!("has {} settings: at most {SETTINGS_MAX} are read", pool.len()));
    }
    if let Some((setting, values)) = pool
        .iter()
        .filter_map(|(setting, value)| value.as_array().map(|values| (setting, values)))
        .find(|(_, values)| values.len() > SERVERS_MAX)
    {
        return Err(format!("{setting}: {} values: at most {SERVERS_MAX} are supported", values.len()));
    }
    for (setting, value) in pool {
        match setting.as_str() {
            "servers" | "name" => {}
            "protocol" => check_protocol(value.as_str().unwrap_or_default())?,
            "server_timeout" => hosts.timeout_ms = Some(milliseconds(setting, value)?),
            "connect_timeout" => hosts.connect_timeout_ms = Some(milliseconds(setting, value)?),
            "security_mech" | "use_ssl" | "security_mech_within_dc" | "security_mech_cross_dc" => {}
            "keep_routing_prefix" => hosts.keeps_prefix = value == true,
            "weights" => {
                hash.insert("hash_func".to_owned(), "WeightedCh3".into());
                hash.insert("weights".to_owned(), value.clone());
            }
            "tags" => {
                hash.insert("tags".to_owned(), value.clone());
            }
            // These change keys or servers.
            "hash"
            | "port_override"
            | "port_override_within_dc"
            | "port_override_cross_dc"
            | "additional_fanout"
            | "services" => {
                return Err(format!(
                    "`{setting}` has no equal: it changes where keys go. To convert, write what it makes of `servers` \
                     there, and remove it"
                ));
            }
            other => hosts.note(format!("{other} has no equal")),
        }
    }
    let list = pool.get("servers").and_then(Value::as_array).ok_or("has no list of `servers`")?;
    for one in list {
        let (server, own) = server(one)?;
        if own.unwrap_or(is_tls) {
            hosts.tls.insert(server.address());
        }
        hosts.servers.push(server);
    }
    if !hosts.tls.is_empty() {
        hosts.note(TLS_NOTE.to_owned());
    }
    Ok(Pool { hosts, hash })
}

fn milliseconds(setting: &str, value: &Value) -> Result<u64, String> {
    let number = value.as_u64().filter(|number| *number > 0);
    number.ok_or_else(|| format!("`{setting}` is no number of milliseconds"))
}

const TLS_NOTE: &str = "server_tls: give server_ca in [proxy], the file with the authorities that sign the servers' certificates (mcrouter's \
                        --pem-ca-path), and server_cert if servers demand one (--pem-cert-path). Weir verifies the servers' names, \
                        which mcrouter may not: server_name gives one for all";

/// Whether a pool's servers are spoken to in TLS, where nothing else is said of one.
fn security(pool: &Object) -> Result<bool, String> {
    let is_tls = match (pool.get("security_mech"), pool.get("use_ssl")) {
        (Some(mechanism), _) => is_tls(mechanism.as_str().unwrap_or_default())
            .map_err(|reason| format!("`security_mech`: {reason}"))?,
        (None, ssl) => ssl.is_some_and(|ssl| ssl == true),
    };
    for setting in ["security_mech_within_dc", "security_mech_cross_dc"] {
        let Some(mechanism) = pool.get(setting) else { continue };
        let here = self::is_tls(mechanism.as_str().unwrap_or_default());
        if here.map_err(|reason| format!("`{setting}`: {reason}"))? != is_tls {
            return Err(format!(
                "`{setting}` has no equal: whether there is TLS would depend on where mcrouter is. Nearest: `security_mech`. To \
                 convert, say there what holds here, and remove `{setting}`"
            ));
        }
    }
    Ok(is_tls)
}

/// Whether that is TLS on the wire.
fn is_tls(mechanism: &str) -> Result<bool, String> {
    match mechanism {
        "" | "plain" => Ok(false),
        "tls" | "ssl" | "fizz" | "ktls12" => Ok(true),
        _ => Err(format!(
            "`{mechanism}` has no equal: Weir speaks plain TCP or TLS to servers. Nearest: `tls`. To convert, write `plain` or `tls`"
        )),
    }
}

fn check_protocol(protocol: &str) -> Result<(), String> {
    if protocol.is_empty() || protocol.eq_ignore_ascii_case("ascii") {
        return Ok(());
    }
    Err(format!(
        "`{protocol}` has no equal: Weir speaks memcached's text protocol. Nearest: `ascii`. To convert, give the address where \
         memcached itself listens, and `ascii`"
    ))
}

/// `HOST:PORT` or `unix:/PATH`, and what may follow: `:ascii:plain:notcompressed`. And whether it is spoken to in TLS, if it says so.
fn server(text: &Value) -> Result<(Server, Option<bool>), String> {
    let Some(text) = text.as_str() else {
        return Err(format!(
            "server {text} has no equal: a route in the place of a server. Nearest: a server's address. To convert, list the \
             servers that it leads to"
        ));
    };
    // The first colon is before the port, or in `unix:`; those of an IPv6 address stand in brackets.
    let start = text.find(']').unwrap_or(0);
    let mut colons = text[start..].match_indices(':').map(|(place, _)| start + place);
    let end = colons.nth(1).unwrap_or(text.len());
    let mut options = text[end..].split(':').skip(1);
    let mut reasons = Vec::new();
    reasons.extend(check_protocol(options.next().unwrap_or_default()).err());
    let mechanism = options.next().unwrap_or_default();
    let own = is_tls(mechanism);
    reasons.extend(own.as_ref().err().cloned());
    if !["", "notcompressed", "compressed"].contains(&options.next().unwrap_or_default())
        || options.next().is_some()
    {
        reasons.push("it is no HOST:PORT:PROTOCOL:SECURITY:COMPRESSION".to_owned());
    }
    if !reasons.is_empty() {
        return Err(format!("server {text:?}: {}", reasons.join("; ")));
    }
    let server = text[..end].parse().map_err(|error: weir_routing::ServerError| error.to_string())?;
    Ok((server, own.ok().filter(|_| !mechanism.is_empty())))
}

/// How hash settings place keys on these hosts, which get the weights or names that belong to it.
pub(super) fn placed(hosts: &mut Hosts, settings: &Object) -> Result<Options, String> {
    only(settings, &["hash_func", "salt", "weights", "tags"], "the hash")?;
    // Where there is no choice, mcrouter looks at nothing of it.
    if hosts.servers.len() == 1 {
        return Ok(Options::new(Placement::McrouterCh3));
    }
    let function = match settings.get("hash_func") {
        None => "Ch3",
        Some(function) => function.as_str().ok_or("`hash_func` is no text")?,
    };
    let name = format!("mcrouter/{function}");
    let known = Placement::ALL.into_iter().filter(|placement| placement.is_mcrouter());
    let Some(placement) = known.clone().find(|placement| placement.name() == name) else {
        let names: Vec<_> = known.filter_map(|placement| placement.name().split('/').nth(1)).collect();
        return Err(format!(
            "the hash function {function:?} has no equal. Nearest: {}. To convert, take one of them; keys will move",
            names.join(", ")
        ));
    };
    match placement {
        Placement::McrouterWeightedCh3 => weigh(hosts, settings)?,
        Placement::McrouterRendezvous => tag(&mut hosts.servers, settings)?,
        _ => {}
    }
    let salt = match settings.get("salt") {
        None => String::new(),
        Some(salt) => salt.as_str().ok_or("`salt` is no text")?.to_owned(),
    };
    Ok(Options { salt, ..Options::new(placement) })
}

/// Gives servers the hash's weights, and 0.5 where there are too few, as mcrouter does.
fn weigh(hosts: &mut Hosts, settings: &Object) -> Result<(), String> {
    let weights =
        settings.get("weights").and_then(Value::as_array).ok_or("WeightedCh3 has no list of `weights`")?;
    if weights.len() < hosts.servers.len() {
        hosts.note("servers without a weight have 0.5, as in mcrouter".to_owned());
    }
    for (place, server) in hosts.servers.iter_mut().enumerate() {
        let text = weights.get(place).map_or("0.5".to_owned(), Value::to_string);
        server.weight = text.parse::<Weight>().map_err(|error| {
            let address = server.address();
            if weights.get(place).and_then(Value::as_f64) == Some(0.0) {
                format!(
                    "server {address}: a weight of 0 has no equal. Nearest: 0.000000001, a key in a thousand million. To \
                     convert, write that"
                )
            } else {
                format!("server {address}: {error}")
            }
        })?;
    }
    Ok(())
}

/// Names servers by the hash's tags.
fn tag(servers: &mut [Server], settings: &Object) -> Result<(), String> {
    let tags = settings.get("tags").and_then(Value::as_array).ok_or("Rendezvous has no list of `tags`")?;
    if tags.len() != servers.len() {
        return Err(format!("Rendezvous has {} tags for {} servers", tags.len(), servers.len()));
    }
    for (server, tag) in servers.iter_mut().zip(tags) {
        let tag = tag.as_str().ok_or("a tag is no text")?;
        let text = format!("{} {tag}", server.address());
        *server = text.parse().map_err(|error: weir_routing::ServerError| error.to_string())?;
    }
    Ok(())
}

/// Refuses what nobody here knows: it may decide where keys go.
pub(super) fn only(object: &Object, known: &[&str], what: &str) -> Result<(), String> {
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!(
            "{what}: `{key}` has no equal, and may decide where keys go. To convert, remove it if it does not"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Server, String> {
        server(&Value::String(text.to_owned())).map(|(server, _)| server)
    }

    #[test]
    fn what_follows_an_address_is_understood() {
        for (text, address) in [
            ("10.0.0.1:11211", "10.0.0.1:11211"),
            ("10.0.0.1:11211:ascii", "10.0.0.1:11211"),
            ("10.0.0.1:11211:ascii:plain:notcompressed", "10.0.0.1:11211"),
            ("[::1]:11211:ascii:plain", "[::1]:11211"),
            ("unix:/run/m.sock", "unix:/run/m.sock"),
            ("unix:/run/m.sock:ascii:plain", "unix:/run/m.sock"),
        ] {
            assert_eq!(parsed(text).unwrap().address(), address);
        }
        let check = |text: &str, expected: &str| {
            let reason = parsed(text).unwrap_err();
            assert!(reason.contains(expected), "{text}: {reason}");
        };
        check("10.0.0.1:11211:caret", "`caret` has no equal: Weir speaks memcached's text protocol");
        check(
            "10.0.0.1:11211:ascii:tls_to_plain",
            "`tls_to_plain` has no equal: Weir speaks plain TCP or TLS",
        );
        check("10.0.0.1:11211:caret:buzz", "`caret` has no equal");
        check("10.0.0.1:11211:caret:buzz", "; `buzz` has no equal");
        check("10.0.0.1:11211:ascii:plain:compressed:more", "it is no HOST:PORT:");
        check("10.0.0.1", "has no port");
        check("unix:", "has no valid path");
    }

    #[test]
    fn what_a_server_says_of_tls_goes_before_its_pool() {
        let tls = |pool: &str| {
            let pool: Value = serde_json::from_str(pool).unwrap();
            read("A", pool.as_object().unwrap())
                .map(|pool| pool.hosts.tls.into_iter().collect::<Vec<_>>().join(" "))
        };
        let servers = r#""servers": ["a:1:ascii:tls", "b:1", "c:1:ascii:plain"]"#;
        for (said, expected) in [
            ("", "a:1"),
            (r#""security_mech": "plain", "#, "a:1"),
            (r#""security_mech": "tls", "#, "a:1 b:1"),
            (r#""security_mech": "fizz", "security_mech_cross_dc": "tls", "#, "a:1 b:1"),
            (r#""use_ssl": true, "#, "a:1 b:1"),
            (r#""use_ssl": false, "#, "a:1"),
        ] {
            assert_eq!(tls(&format!("{{{said}{servers}}}")).unwrap(), expected, "{said}");
        }
        let refused = |said: &str| tls(&format!("{{{said}, {servers}}}")).unwrap_err();
        assert!(refused(r#""security_mech_cross_dc": "tls""#).contains("would depend on where mcrouter is"));
        assert!(
            refused(r#""security_mech": "tls_to_plain""#).contains("`security_mech`: `tls_to_plain` has no")
        );
    }

    #[test]
    fn the_longer_timeout_counts() {
        assert_eq!(longest(None, None), None);
        assert_eq!(longest(Some(200), None), Some(TIMEOUT_MS));
        assert_eq!(longest(None, Some(5000)), Some(5000));
        assert_eq!(longest(Some(200), Some(300)), Some(300));
    }
}
