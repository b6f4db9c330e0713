//! The configuration file: pools by name, as TOML.
//!
//! [`read`] makes a checked [`Config`] of a file, or says in which line it is wrong. [`PoolTable`] is the schema;
//! `weir convert` writes it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use weir_proxy::Multiget;
use weir_routing::{Options, Router, RoutingError, Server};

use crate::pool::Pool;
use crate::units;

/// The largest file that is read, in bytes: far more than the largest pools need.
const BYTES_MAX: u64 = 16 << 20;

/// A file's pools, checked.
#[derive(Debug)]
pub(crate) struct Config {
    /// By name; at least one.
    pub(crate) pools: BTreeMap<String, Pool>,
}

/// Why a file is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) struct FileError {
    /// As it was given.
    file: String,
    /// From 1, where one line is at fault.
    line: Option<usize>,
    reason: String,
}

impl fmt::Display for FileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(formatter, "{}:{line}: {}", self.file, self.reason),
            None => write!(formatter, "{}: {}", self.file, self.reason),
        }
    }
}

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    pools: BTreeMap<Spanned<String>, PoolTable>,
}

/// One pool, `[pools.NAME]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolTable {
    /// `HOST:PORT`, `HOST:PORT:WEIGHT` or `HOST:PORT:WEIGHT NAME`, in order.
    servers: Spanned<Vec<Spanned<String>>>,
    placement: Option<Spanned<String>>,
    hash: Option<Spanned<String>>,
    hash_tag: Option<Spanned<String>>,
    salt: Option<Spanned<String>>,
    replicas: Option<Spanned<usize>>,
    /// `HOST:PORT`: where clients connect.
    listen: Option<Spanned<String>>,
    /// A number and a unit: how long a server may take.
    timeout: Option<Spanned<String>>,
    /// `sharded`, `whole` or `auto`.
    multiget: Option<Spanned<String>>,
    /// `strict` or `degrade`.
    on_failure: Option<Spanned<String>>,
}

/// A reason, and the bytes of the file that it is about.
type Fault = (Option<Range<usize>>, String);

/// Reads and checks a file.
pub(crate) fn read(file: &Path) -> Result<Config, FileError> {
    let text = read_text(file, BYTES_MAX)?;
    parse(&text, &file.display().to_string())
}

/// A file's text, if it is text and no larger than `bytes_max`.
pub(crate) fn read_text(file: &Path, bytes_max: u64) -> Result<String, FileError> {
    let refused = |reason: String| FileError { file: file.display().to_string(), line: None, reason };
    let read = || -> std::io::Result<Option<Vec<u8>>> {
        let mut bytes = Vec::new();
        let opened = std::fs::File::open(file)?;
        std::io::Read::read_to_end(&mut std::io::Read::take(opened, bytes_max + 1), &mut bytes)?;
        Ok((bytes.len() as u64 <= bytes_max).then_some(bytes))
    };
    let bytes = read().map_err(|error| refused(format!("cannot be read: {error}")))?;
    let bytes = bytes.ok_or_else(|| refused(format!("is larger than {bytes_max} bytes")))?;
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        FileError { line: Some(line_of(valid)), ..refused("is not UTF-8 text".to_owned()) }
    })
}

fn parse(text: &str, file: &str) -> Result<Config, FileError> {
    pools(text).map(|pools| Config { pools }).map_err(|(span, reason)| {
        let line = span.map(|span| line_of(&text.as_bytes()[..span.start.min(text.len())]));
        FileError { file: file.to_owned(), line, reason }
    })
}

/// The number of the line that begins or goes on after `before`.
fn line_of(before: &[u8]) -> usize {
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

fn pools(text: &str) -> Result<BTreeMap<String, Pool>, Fault> {
    let table: FileTable = toml::from_str(text).map_err(|error| {
        let reason = error.message().lines().collect::<Vec<_>>().join("; ");
        (error.span(), reason)
    })?;
    if table.pools.is_empty() {
        return Err((None, "there is no pool: write [pools.NAME] and its servers".to_owned()));
    }
    let mut pools = BTreeMap::new();
    let mut listeners: HashMap<String, String> = HashMap::new();
    for (name, table) in table.pools {
        if let Some(listen) = &table.listen
            && let Some(other) = listeners.insert(listen.get_ref().clone(), name.get_ref().clone())
        {
            let reason = format!("pool {other} listens on {} already", listen.get_ref());
            return Err((Some(listen.span()), reason));
        }
        let pool = pool(table).map_err(|(span, reason)| {
            (span.or(Some(name.span())), format!("pool {}: {reason}", name.get_ref()))
        })?;
        pools.insert(name.into_inner(), pool);
    }
    Ok(pools)
}

fn pool(table: PoolTable) -> Result<Pool, Fault> {
    let servers_span = table.servers.span();
    let servers = servers(table.servers.into_inner())?;
    let spans = Spans {
        servers: servers_span,
        replicas: table.replicas.as_ref().map(Spanned::span),
        hash: table.hash.as_ref().map(Spanned::span),
        hash_tag: table.hash_tag.as_ref().map(Spanned::span),
        salt: table.salt.as_ref().map(Spanned::span),
    };
    let options = Options {
        placement: parsed(table.placement)?.unwrap_or_default(),
        hash: parsed(table.hash)?,
        hash_tag: parsed(table.hash_tag)?,
        salt: table.salt.map(Spanned::into_inner).unwrap_or_default(),
        replicas: table.replicas.map_or(1, Spanned::into_inner),
    };
    let (parsed_servers, server_spans): (Vec<Server>, Vec<Range<usize>>) = servers.into_iter().unzip();
    let names: Vec<String> = parsed_servers.iter().map(|server| server.name.clone()).collect();
    let router = Router::with_options(parsed_servers, options)
        .map_err(|error| (Some(spans.of(&error, &names, &server_spans)), error.to_string()))?;
    let timeout = table.timeout.as_ref().map(checked_timeout).transpose()?;
    let listen = table.listen.map(checked_listen).transpose()?;
    let multiget_span = table.multiget.as_ref().map(Spanned::span);
    let multiget: Option<Multiget> = parsed(table.multiget)?;
    multiget
        .unwrap_or_default()
        .check(router.servers().len(), router.replicas())
        .map_err(|error| (multiget_span, error.to_string()))?;
    let on_failure = parsed(table.on_failure)?;
    Ok(Pool { router, listen, timeout, multiget, on_failure })
}

fn servers(list: Vec<Spanned<String>>) -> Result<Vec<(Server, Range<usize>)>, Fault> {
    let server = |text: Spanned<String>| {
        let span = text.span();
        text.get_ref().parse().map(|server| (server, span.clone())).map_err(|error| fault(span, &error))
    };
    list.into_iter().map(server).collect()
}

fn parsed<T>(text: Option<Spanned<String>>) -> Result<Option<T>, Fault>
where
    T: std::str::FromStr<Err: fmt::Display>,
{
    text.map(|text| text.get_ref().parse().map_err(|error| fault(text.span(), &error))).transpose()
}

fn checked_timeout(text: &Spanned<String>) -> Result<Duration, Fault> {
    match units::duration(text.get_ref()) {
        Ok(Duration::ZERO) => Err(fault(text.span(), &"timeout must be longer than nothing")),
        Ok(timeout) => Ok(timeout),
        Err(reason) => Err(fault(text.span(), &format!("timeout: {reason}"))),
    }
}

/// A name is looked up when it is used, so that a file can be checked anywhere; its form is that of a server.
fn checked_listen(text: Spanned<String>) -> Result<String, Fault> {
    match text.get_ref().parse::<Server>() {
        Ok(server) if server.address() == *text.get_ref() => Ok(text.into_inner()),
        _ => Err(fault(text.span(), &format!("listen {:?} is no address: write host:port", text.get_ref()))),
    }
}

fn fault(span: Range<usize>, reason: &dyn fmt::Display) -> Fault {
    (Some(span), reason.to_string())
}

/// Where a pool's settings stand.
struct Spans {
    servers: Range<usize>,
    replicas: Option<Range<usize>>,
    hash: Option<Range<usize>>,
    hash_tag: Option<Range<usize>>,
    salt: Option<Range<usize>>,
}

impl Spans {
    /// What to point at for an error: the server that it is about, or the setting.
    fn of(&self, error: &RoutingError, names: &[String], servers: &[Range<usize>]) -> Range<usize> {
        let setting = match error {
            RoutingError::Replicas { .. } | RoutingError::TooManyReplicas(_) => self.replicas.clone(),
            RoutingError::Hash { .. } => self.hash.clone(),
            RoutingError::HashTag(_) => self.hash_tag.clone(),
            RoutingError::Salt(_) => self.salt.clone(),
            // The later of two equals: the earlier one was right when it was written.
            RoutingError::Duplicate(server)
            | RoutingError::NoWeight(server)
            | RoutingError::WeightIgnored { server, .. }
            | RoutingError::WeightOutOfRange { server, .. } => {
                names.iter().rposition(|name| name == server).map(|place| servers[place].clone())
            }
            RoutingError::NoServers | RoutingError::TooManyServers(_) | RoutingError::TooHeavy { .. } => None,
        };
        setting.unwrap_or_else(|| self.servers.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use weir_proxy::OnFailure;

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
        assert_eq!(pool.listen.as_deref(), Some("127.0.0.1:22121"));
        assert_eq!(pool.timeout, Some(Duration::from_millis(400)));
        assert_eq!((pool.multiget, pool.on_failure), (Some(Multiget::Whole), Some(OnFailure::Degrade)));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let check = |from: &str, to: &str, expected: &str| {
            assert!(GOOD.contains(from), "{from}");
            let message = refusal(&GOOD.replace(from, to));
            assert!(message.starts_with(expected), "{message}");
        };
        check("hash = ", "hsh = ", "file:9: unknown field `hsh`, expected one of `servers`, `placement`, ");
        check("replicas = 2", "replicas = \"2\"", "file:11: invalid type: string \"2\", expected usize");
        check("replicas = 2", "replicas = -2", "file:11: invalid value: integer `-2`, expected usize");
        check("replicas = 2", "replicas = 3", "file:11: pool main: 3 replicas are impossible with 2 servers");
        check("11212:2 blue", "11211:1 red", "file:6: pool main: server red is in the pool twice");
        check(
            ":2 blue",
            ":0 blue",
            "file:6: pool main: server \"127.0.0.1:11212:0 blue\": weight \"0\" is no",
        );
        check("twemproxy/ketama", "ketam", "file:8: pool main: unknown placement \"ketam\": use one of ");
        check("fnv1a_64", "sha1", "file:9: pool main: unknown hash \"sha1\"");
        check(
            "twemproxy/ketama",
            "ketama",
            "file:9: pool main: placement ketama knows no hash fnv1a_64: use md5",
        );
        check("\"{}\"", "\"{\"", "file:10: pool main: hash tag \"{\" is no pair");
        check("400ms", "fast", "file:12: pool main: timeout: ");
        check("400ms", "0s", "file:12: pool main: timeout must be longer than nothing");
        check(
            "replicas = 2",
            "replicas = 1",
            "file:13: pool main: multi-gets cannot be asked whole: each key",
        );
        check("\"whole\"", "\"all\"", "file:13: pool main: \"all\" is none of sharded, whole, auto");
        check("degrade", "ignore", "file:14: pool main: \"ignore\" is none of strict, degrade");
        check("127.0.0.1:22121", "localhost", "file:3: pool main: listen \"localhost\" is no address");
        check("127.0.0.1:11212:2 blue", "localhost", "file:6: pool main: server \"localhost\" has no port");
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

    #[test]
    fn pools_and_listeners_are_there_once() {
        let twice = format!("{GOOD}{}", GOOD.replace("pools.main", "pools.other"));
        assert_eq!(refusal(&twice), "file:17: pool main listens on 127.0.0.1:22121 already");
        let duplicate = format!("{GOOD}{GOOD}");
        assert!(refusal(&duplicate).starts_with("file:16: duplicate key"), "{}", refusal(&duplicate));
    }
}
