//! What a converted file says, and how it is written down.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use weir_routing::{Options, Router, Server};

/// A configuration that places every key where the other system does.
#[derive(Debug, Default)]
pub(super) struct Converted {
    pub(super) pools: Vec<ConvertedPool>,
    /// Where clients of each pool connect, where one process serves several.
    pub(super) places: Vec<ConvertedPlace>,
    /// Prefixes of keys, and the pools that they lead to.
    pub(super) routes: Vec<(String, String)>,
    /// The pool of keys that no route takes, where there are several.
    pub(super) default: Option<String>,
    /// Of `[proxy]`: names, and their texts.
    pub(super) proxy: Vec<(&'static str, String)>,
    /// What has no equal, about the whole file.
    pub(super) notes: Vec<String>,
}

/// A place where clients of one pool connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConvertedPlace {
    pub(super) address: String,
    /// Permission bits of a socket in the file system.
    pub(super) mode: Option<u32>,
    pub(super) pool: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConvertedPool {
    pub(super) name: String,
    pub(super) listen: Option<String>,
    /// Permission bits of a socket in the file system.
    pub(super) listen_mode: Option<u32>,
    pub(super) max_connections: Option<u64>,
    pub(super) servers: Vec<Server>,
    /// The addresses of servers that are spoken to in TLS.
    pub(super) tls: BTreeSet<String>,
    pub(super) options: Options,
    pub(super) timeout_ms: Option<u64>,
    /// What has no equal.
    pub(super) notes: Vec<String>,
}

impl Converted {
    /// Says which pool Weir would refuse, and why.
    pub(super) fn check(&self) -> Result<(), String> {
        for pool in &self.pools {
            let refused = |error| format!("pool {}: {error}", pool.name);
            Router::with_options(pool.servers.clone(), pool.options.clone()).map_err(refused)?;
        }
        Ok(())
    }

    /// The text of a configuration file.
    pub(super) fn to_toml(&self) -> String {
        let mut text = String::new();
        comments(&mut text, &self.notes);
        if let Some(default) = &self.default {
            let _ = writeln!(text, "default = {}", quoted(default));
        }
        if !self.proxy.is_empty() {
            begin(&mut text, "proxy");
            for (name, value) in &self.proxy {
                let _ = writeln!(text, "{name} = {}", quoted(value));
            }
        }
        for ConvertedPlace { address, mode, pool } in &self.places {
            begin(&mut text, "[listen]");
            let _ = writeln!(text, "address = {}", quoted(address));
            if let Some(mode) = mode {
                let _ = writeln!(text, "mode = {}", quoted(&format!("{mode:o}")));
            }
            let _ = writeln!(text, "pool = {}", quoted(pool));
        }
        for pool in &self.pools {
            begin(&mut text, &format!("pools.{}", key(&pool.name)));
            pool.write_toml(&mut text);
        }
        if !self.routes.is_empty() {
            begin(&mut text, "routes");
            for (prefix, pool) in &self.routes {
                let _ = writeln!(text, "{} = {}", quoted(prefix), quoted(pool));
            }
        }
        text
    }
}

impl ConvertedPool {
    /// A pool of which no more is known.
    pub(super) fn new(name: String, servers: Vec<Server>, options: Options) -> Self {
        Self {
            name,
            listen: None,
            listen_mode: None,
            max_connections: None,
            servers,
            tls: BTreeSet::new(),
            options,
            timeout_ms: None,
            notes: Vec::new(),
        }
    }

    /// Whether all of them are spoken to in TLS; `None` where some are.
    fn all_tls(&self) -> Option<bool> {
        let count = self.servers.iter().filter(|server| self.tls.contains(&server.address())).count();
        match count {
            0 => Some(false),
            count => (count == self.servers.len()).then_some(true),
        }
    }

    fn server_line(&self, server: &Server) -> String {
        let text = quoted(&server_text(server));
        if self.all_tls().is_none() && self.tls.contains(&server.address()) {
            format!("  {{ server = {text}, server_tls = true }},\n")
        } else {
            format!("  {text},\n")
        }
    }

    fn write_toml(&self, text: &mut String) {
        comments(text, &self.notes);
        let mut setting = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = writeln!(text, "{key} = {value}");
            }
        };
        let servers: String = self.servers.iter().map(|server| self.server_line(server)).collect();
        let Options { placement, hash, hash_tag, salt, replicas } = &self.options;
        setting("listen", self.listen.as_deref().map(quoted));
        setting("listen_mode", self.listen_mode.map(|mode| quoted(&format!("{mode:o}"))));
        setting("max_connections", self.max_connections.map(|count| count.to_string()));
        setting("servers", Some(format!("[\n{servers}]")));
        setting("server_tls", (self.all_tls() == Some(true)).then(|| "true".to_owned()));
        setting("placement", Some(quoted(placement.name())));
        setting("hash", hash.map(|hash| quoted(hash.name())));
        setting("hash_tag", hash_tag.map(|tag| quoted(&tag.to_string())));
        setting("salt", (!salt.is_empty()).then(|| quoted(salt)));
        setting("replicas", (*replicas != 1).then(|| replicas.to_string()));
        setting("timeout", self.timeout_ms.map(|timeout| quoted(&format!("{timeout}ms"))));
    }
}

/// A server as the file has it.
fn server_text(server: &Server) -> String {
    let name = if server.is_named() { format!(" {}", server.name) } else { String::new() };
    format!("{}:{}{name}", server.address(), server.weight)
}

/// The head of a table, an empty line before it.
fn begin(text: &mut String, name: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    let _ = writeln!(text, "[{name}]");
}

/// One line each, whatever names of the other file stand in them.
fn comments(text: &mut String, notes: &[String]) {
    for note in notes {
        let _ = writeln!(text, "# {}", note.replace(char::is_control, " "));
    }
}

/// A name as a key of the file.
fn key(name: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let plain = !name.is_empty() && name.bytes().all(bare);
    if plain { name.to_owned() } else { quoted(name) }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config_file, pool::Pool};
    use weir_routing::Placement;

    #[test]
    fn what_is_written_is_read_back() {
        let servers = ["10.0.0.1:11211:2 red", "[::1]:11211", "cache:11212:0.25"];
        let servers: Vec<Server> = servers.map(|text| text.parse().unwrap()).into();
        let options =
            Options { salt: "a\"b".into(), replicas: 2, ..Options::new(Placement::McrouterWeightedCh3) };
        let pool = ConvertedPool {
            name: "odd name".into(),
            listen: Some("/run/weir.sock".into()),
            listen_mode: Some(0o666),
            max_connections: Some(100),
            servers: servers[1..].to_vec(),
            tls: BTreeSet::from(["cache:11212".to_owned()]),
            options: options.clone(),
            timeout_ms: Some(250),
            notes: vec!["a note".into()],
        };
        let all_tls =
            ConvertedPool { tls: servers[1..].iter().map(Server::address).collect(), ..pool.clone() };
        let converted = Converted { pools: vec![pool], notes: vec!["first".into()], ..Converted::default() };
        let text = converted.to_toml();
        let read = config_file::parse(&text, "file").unwrap();
        let pool = &read.pools["odd name"];
        assert_eq!(pool.router.servers(), &servers[1..]);
        assert_eq!(pool.router.options(), &options);
        let read = ["listen", "listen_mode", "max_connections"].map(|name| pool.said.get(name));
        assert_eq!(read, ["/run/weir.sock", "666", "100"].map(Some));
        let tls = |pool: &Pool, server: &str| {
            pool.of_servers().get(server).and_then(|said| said.get("server_tls")).map(ToOwned::to_owned)
        };
        assert_eq!(tls(pool, "cache:11212").as_deref(), Some("true"));
        assert_eq!(tls(pool, "[::1]:11211"), None);
        let text = Converted { pools: vec![all_tls], ..Converted::default() }.to_toml();
        assert!(text.contains("\nserver_tls = true\n"), "{text}");
        let read = config_file::parse(&text, "file").unwrap();
        assert_eq!(tls(&read.pools["odd name"], "[::1]:11211").as_deref(), Some("true"));
        let text = converted.to_toml();
        assert_eq!(server_text(&servers[0]), "10.0.0.1:11211:2 red");
        assert!(text.starts_with("# first\n\n[pools.\"odd name\"]\n# a note\nlisten = "), "{text}");
    }

    /// A name of the other file that has a line break in it would end the comment, and begin a setting.
    #[test]
    fn a_note_stays_a_comment() {
        let mut pool = ConvertedPool::new("a".into(), vec![Server::new("a", 1)], Options::default());
        pool.notes = vec!["pool x\nreplicas = 2\r\u{85} is not converted".into()];
        let text = Converted { pools: vec![pool], ..Converted::default() }.to_toml();
        assert!(text.contains("# pool x replicas = 2   is not converted\n"), "{text}");
        assert_eq!(config_file::parse(&text, "file").unwrap().pools["a"].router.replicas(), 1);
    }

    #[test]
    fn routes_default_and_settings_are_read_back() {
        let pool = |name: &str| {
            let servers = vec![format!("{name}.example:11211").parse().unwrap()];
            ConvertedPool::new(name.to_owned(), servers, Options::new(Placement::McrouterCh3))
        };
        let converted = Converted {
            pools: vec![pool("a"), pool("b")],
            routes: vec![("user\"s:".into(), "b".into())],
            default: Some("a".into()),
            proxy: vec![("write_policy", "first".into())],
            ..Converted::default()
        };
        let read = config_file::parse(&converted.to_toml(), "file").unwrap();
        assert_eq!(read.routes, converted.routes);
        assert_eq!(read.default, converted.default);
        assert_eq!(read.settings.get("write_policy"), Some("first"));
    }

    #[test]
    fn places_of_pools_are_read_back() {
        let pool = |name: &str| {
            let servers = vec![format!("{name}.example:11211").parse().unwrap()];
            ConvertedPool::new(name.to_owned(), servers, Options::new(Placement::McrouterCh3))
        };
        let place = |address: &str, mode, pool: &str| ConvertedPlace {
            address: address.to_owned(),
            mode,
            pool: pool.to_owned(),
        };
        let places = vec![place("127.0.0.1:1", None, "a"), place("/run/b", Some(0o600), "b")];
        let converted = Converted { pools: vec![pool("a"), pool("b")], places, ..Converted::default() };
        let text = converted.to_toml();
        assert!(
            text.starts_with("[[listen]]\naddress = \"127.0.0.1:1\"\npool = \"a\"\n\n[[listen]]\n"),
            "{text}"
        );
        let read = config_file::parse(&text, "file").unwrap();
        let rows = read.listeners().iter().map(|row| (row.address.as_str(), row.mode, row.pool.as_deref()));
        let expected = [("127.0.0.1:1", None, Some("a")), ("/run/b", Some(0o600), Some("b"))];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }
}
