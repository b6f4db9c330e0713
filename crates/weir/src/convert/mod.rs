//! `weir convert`: the configuration that equals another proxy's.
//!
//! One file per proxy, each from text to [`Converted`] pools. What decides where keys go is converted or refused, never
//! dropped; other settings without an equal become comments.

mod mcrouter;
mod nutcracker;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use weir_routing::{Options, Router, Server};

use crate::config_file;

/// The largest file that is converted, in bytes.
const BYTES_MAX: u64 = 16 << 20;

/// The flags of `weir convert`.
#[derive(Args, Debug)]
#[command(after_help = "\
Prints TOML for `weir proxy --config`. Settings without an equal are named in comments; where keys would move, or where
the file is wrong, there is no output and the status is 2.")]
pub(crate) struct ConvertArgs {
    #[command(subcommand)]
    from: From,
}

#[derive(Subcommand, Debug)]
enum From {
    /// From twemproxy's YAML
    Nutcracker {
        /// The file, as `nutcracker --conf-file` takes it; `-` is standard input
        file: PathBuf,
    },
    /// From mcrouter's JSON, without comments and macros
    Mcrouter {
        /// The file, as `mcrouter --config file:` takes it; `-` is standard input
        file: PathBuf,
    },
}

/// Pools that place every key where the other proxy does.
#[derive(Debug)]
struct Converted {
    pools: Vec<ConvertedPool>,
    /// What has no equal, about the whole file.
    notes: Vec<String>,
}

#[derive(Debug)]
struct ConvertedPool {
    name: String,
    listen: Option<String>,
    /// Permission bits of a socket in the file system.
    listen_mode: Option<u32>,
    max_connections: Option<u64>,
    servers: Vec<Server>,
    options: Options,
    timeout_ms: Option<u64>,
    /// What has no equal.
    notes: Vec<String>,
}

impl ConvertArgs {
    /// Prints the equal configuration, or says what has none.
    pub(crate) fn run(&self) -> ExitCode {
        let text = match &self.from {
            From::Nutcracker { file } => convert(file, nutcracker::convert),
            From::Mcrouter { file } => convert(file, mcrouter::convert),
        };
        match text {
            Ok(text) => match io::stdout().write_all(text.as_bytes()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => crate::fail(1, &format!("cannot write the configuration: {error}")),
            },
            Err(reason) => crate::fail(2, &reason),
        }
    }
}

fn convert(file: &Path, read: impl Fn(&str) -> Result<Converted, String>) -> Result<String, String> {
    let (name, text) = if file.as_os_str() == "-" {
        let name = "standard input".to_owned();
        (name.clone(), config_file::text_of(io::stdin().lock(), &name, BYTES_MAX))
    } else {
        (file.display().to_string(), config_file::read_text(file, BYTES_MAX))
    };
    let text = text.map_err(|error| error.to_string())?;
    let of_file = |reason: String| format!("{name}: {reason}");
    let converted = read(&text).map_err(of_file)?;
    for pool in &converted.pools {
        let refused = |error| of_file(format!("pool {}: {error}", pool.name));
        Router::with_options(pool.servers.clone(), pool.options.clone()).map_err(refused)?;
    }
    Ok(converted.to_toml())
}

impl Converted {
    /// The text of a configuration file.
    fn to_toml(&self) -> String {
        let mut text = String::new();
        comments(&mut text, &self.notes);
        for (place, pool) in self.pools.iter().enumerate() {
            if place > 0 || !self.notes.is_empty() {
                text.push('\n');
            }
            pool.write_toml(&mut text);
        }
        text
    }
}

impl ConvertedPool {
    fn write_toml(&self, text: &mut String) {
        let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        let plain = !self.name.is_empty() && self.name.bytes().all(bare);
        let name = if plain { self.name.clone() } else { quoted(&self.name) };
        let _ = writeln!(text, "[pools.{name}]");
        comments(text, &self.notes);
        let mut setting = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                let _ = writeln!(text, "{key} = {value}");
            }
        };
        let servers: String =
            self.servers.iter().map(|server| format!("  {},\n", quoted(&server_text(server)))).collect();
        let Options { placement, hash, hash_tag, salt, replicas } = &self.options;
        setting("listen", self.listen.as_deref().map(quoted));
        setting("listen_mode", self.listen_mode.map(|mode| quoted(&format!("{mode:o}"))));
        setting("max_connections", self.max_connections.map(|count| count.to_string()));
        setting("servers", Some(format!("[\n{servers}]")));
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

fn comments(text: &mut String, notes: &[String]) {
    for note in notes {
        let _ = writeln!(text, "# {note}");
    }
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
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
            options: options.clone(),
            timeout_ms: Some(250),
            notes: vec!["a note".into()],
        };
        let text = Converted { pools: vec![pool], notes: vec!["first".into()] }.to_toml();
        let file = std::env::temp_dir().join(format!("weir-convert-{}.toml", std::process::id()));
        std::fs::write(&file, &text).unwrap();
        let read = config_file::read(&file);
        std::fs::remove_file(&file).unwrap();
        let pool = &read.unwrap().pools["odd name"];
        assert_eq!(pool.router.servers(), &servers[1..]);
        assert_eq!(pool.router.options(), &options);
        let told = ["listen", "listen_mode", "max_connections"].map(|name| pool.said.get(name));
        assert_eq!(told, ["/run/weir.sock", "666", "100"].map(Some));
        assert_eq!(server_text(&servers[0]), "10.0.0.1:11211:2 red");
        assert!(text.starts_with("# first\n\n[pools.\"odd name\"]\n# a note\nlisten = "), "{text}");
    }
}
