//! The configuration file: pools by name, prefixes that lead to them, and settings of the proxy, as TOML.
//!
//! [`read`] makes a checked [`Config`] of a file, or says in which line it is wrong. [`FileTable`] is the schema;
//! `weir convert` writes it. docs/configuration.md tells of it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;
use weir_proxy::Multiget;
use weir_routing::{Endpoint, Options, Router, RoutingError, Server, Table, TableError};

use crate::pool::{Pool, PoolError, Routed};
use crate::settings::{Settings, SettingsTable};
use crate::units::{self, TimeText};

/// The largest file that is read, in bytes: far more than the largest pools need.
const BYTES_MAX: u64 = 16 << 20;

/// A file, checked.
#[derive(Debug)]
pub(crate) struct Config {
    /// By name; at least one.
    pub(crate) pools: BTreeMap<String, Pool>,
    /// The pool of keys that no route takes, if the file says so.
    pub(crate) default: Option<String>,
    /// Prefixes of keys, and the pools that they lead to.
    pub(crate) routes: Vec<(String, String)>,
    /// What it says about the proxy itself.
    pub(crate) settings: Settings,
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
    /// `"PREFIX" = "POOL"`.
    routes: Option<BTreeMap<Spanned<String>, Spanned<String>>>,
    /// The pool of keys that no route takes.
    default: Option<Spanned<String>>,
    proxy: Option<SettingsTable>,
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
    timeout: Option<Spanned<TimeText>>,
    /// `sharded`, `whole` or `auto`.
    multiget: Option<Spanned<String>>,
    /// `strict` or `degrade`.
    on_failure: Option<Spanned<String>>,
}

/// A reason, and the bytes of the file that it is about.
pub(crate) type Fault = (Option<Range<usize>>, String);

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
    config(text).map_err(|(span, reason)| {
        let line = span.map(|span| line_of(&text.as_bytes()[..span.start.min(text.len())]));
        FileError { file: file.to_owned(), line, reason }
    })
}

/// The number of the line that begins or goes on after `before`.
fn line_of(before: &[u8]) -> usize {
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

fn config(text: &str) -> Result<Config, Fault> {
    let table: FileTable = toml::from_str(text).map_err(|error| {
        let reason = error.message().lines().collect::<Vec<_>>().join("; ");
        (error.span(), reason)
    })?;
    if table.pools.is_empty() {
        let line = text.find("pools").unwrap_or(0);
        return Err((Some(line..line), "there is no pool: write [pools.NAME] and its servers".to_owned()));
    }
    let settings = table.proxy.map(SettingsTable::checked).transpose()?.unwrap_or_default();
    let places = Places::of(&table.pools, table.routes.as_ref());
    let pools = pools(table.pools, &settings)?;
    if let Some(name) = &table.default
        && !pools.contains_key(name.get_ref())
    {
        let known = pools.keys().cloned().collect::<Vec<_>>().join(", ");
        let reason = format!("default pool {:?} is not there: there are {known}", name.get_ref());
        return Err(fault(name.span(), &reason));
    }
    let routes = table.routes.into_iter().flatten();
    let routes = routes.map(|(prefix, pool)| (prefix.into_inner(), pool.into_inner())).collect();
    let config = Config { pools, default: table.default.map(Spanned::into_inner), routes, settings };
    if !config.routes.is_empty() {
        config.table(None).map_err(|error| (Some(places.of_error(&error)), error.to_string()))?;
    }
    Ok(config)
}

fn pools(
    tables: BTreeMap<Spanned<String>, PoolTable>,
    settings: &Settings,
) -> Result<BTreeMap<String, Pool>, Fault> {
    let mut pools = BTreeMap::new();
    let mut listeners: HashMap<String, String> = HashMap::new();
    for (name, table) in tables {
        let twice = |what: &str, span| {
            let reason = format!("pool {}: {what} is set in [proxy] already: remove one", name.get_ref());
            Err(fault(span, &reason))
        };
        for (what, of_pool, is_set) in [
            ("listen", span_of(table.listen.as_ref()), settings.listen.is_some()),
            ("timeout", span_of(table.timeout.as_ref()), settings.timeout.is_some()),
            ("multiget", span_of(table.multiget.as_ref()), settings.multiget.is_some()),
            ("on_failure", span_of(table.on_failure.as_ref()), settings.on_failure.is_some()),
        ] {
            if let Some(of_pool) = of_pool.filter(|_| is_set) {
                return twice(what, of_pool);
            }
        }
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

pub(crate) fn parsed<T>(text: Option<Spanned<String>>) -> Result<Option<T>, Fault>
where
    T: std::str::FromStr<Err: fmt::Display>,
{
    text.map(|text| text.get_ref().parse().map_err(|error| fault(text.span(), &error))).transpose()
}

pub(crate) fn checked_timeout(text: &Spanned<TimeText>) -> Result<Duration, Fault> {
    match units::duration(text.get_ref().as_ref()) {
        Ok(Duration::ZERO) => Err(fault(text.span(), &"timeout must be longer than nothing")),
        Ok(timeout) => Ok(timeout),
        Err(reason) => Err(fault(text.span(), &format!("timeout: {reason}"))),
    }
}

/// A name is looked up when it is used, so that a file can be checked anywhere; its form is that of a server.
pub(crate) fn checked_listen(text: Spanned<String>) -> Result<String, Fault> {
    match text.get_ref().parse::<Server>() {
        Ok(server) if server.address() == *text.get_ref() => Ok(text.into_inner()),
        Ok(server)
            if text.get_ref().starts_with('/') && server.address().ends_with(text.get_ref().as_str()) =>
        {
            Ok(text.into_inner())
        }
        _ => Err(fault(
            text.span(),
            &format!("listen {:?} is no address: write host:port or unix:/path", text.get_ref()),
        )),
    }
}

/// The same for what has no path.
pub(crate) fn checked_port(text: Spanned<String>) -> Result<String, Fault> {
    let span = text.span();
    let address = checked_listen(text)?;
    match address.parse::<Server>().map(|server| server.endpoint) {
        Ok(Endpoint::Tcp { .. }) => Ok(address),
        _ => Err(fault(span, &format!("admin {address:?} is no port: write host:port"))),
    }
}

fn span_of<T>(text: Option<&Spanned<T>>) -> Option<Range<usize>> {
    text.map(Spanned::span)
}

pub(crate) fn fault(span: Range<usize>, reason: &dyn fmt::Display) -> Fault {
    (Some(span), reason.to_string())
}

impl Config {
    /// All pools that keys can get to, the one of `wanted`, or of the file's `default`, first.
    pub(crate) fn table(&self, wanted: Option<&str>) -> Result<Routed, PoolError> {
        let first = self.first(wanted)?;
        if let Some((prefix, pool)) = self.routes.iter().find(|(_, pool)| !self.pools.contains_key(pool)) {
            let known = self.pools.keys().cloned().collect();
            return Err(TableError::NoSuchPool { prefix: prefix.clone(), pool: pool.clone(), known }.into());
        }
        let led_to = self.routes.iter().map(|(_, pool)| pool.as_str());
        let mut names: Vec<&str> = vec![first];
        names.extend(self.pools.keys().map(String::as_str).filter(|name| *name != first));
        names.retain(|name| *name == first || led_to.clone().any(|led_to| led_to == *name));
        let routers =
            names.iter().map(|name| ((*name).to_owned(), self.pools[*name].router.clone())).collect();
        let table = Table::new(routers, &self.routes)?;
        let shared = |name: &str| {
            let Pool { timeout, multiget, on_failure, .. } = &self.pools[name];
            (*timeout, *multiget, *on_failure)
        };
        if let Some(other) = names.iter().find(|name| shared(name) != shared(first)) {
            return Err(PoolError::Shared { first: first.to_owned(), other: (*other).to_owned() });
        }
        let (timeout, multiget, on_failure) = shared(first);
        let listen = self.pools[first].listen.clone();
        Ok(Routed {
            table,
            of_pools: Settings { listen, timeout, multiget, on_failure, ..Settings::default() },
        })
    }

    /// Whether the file has routes, and no key gets to this pool.
    pub(crate) fn is_lonely(&self, name: &str) -> bool {
        let led_to = self.routes.iter().any(|(_, pool)| pool == name);
        let is_default = self.first(None).is_ok_and(|first| first == name);
        !self.routes.is_empty() && !led_to && !is_default
    }

    fn first<'a>(&'a self, wanted: Option<&'a str>) -> Result<&'a str, PoolError> {
        let known = || self.pools.keys().cloned().collect::<Vec<_>>();
        match wanted.or(self.default.as_deref()) {
            Some(name) if self.pools.contains_key(name) => Ok(name),
            Some(name) => Err(PoolError::NoSuchPool { pool: name.to_owned(), known: known() }),
            None if self.pools.len() == 1 => Ok(self.pools.keys().next().expect("one pool")),
            None if self.routes.is_empty() => Err(PoolError::WhichPool { known: known() }),
            None => Err(PoolError::NoDefault { known: known() }),
        }
    }
}

/// Where pools and routes stand.
struct Places {
    /// Address and name of each server, of all pools in their order, with the place where it stands.
    servers: Vec<(String, Range<usize>)>,
    /// For each pool, what it should share with others.
    shared: HashMap<String, Range<usize>>,
    routes: HashMap<String, Range<usize>>,
    first_route: Range<usize>,
}

impl Places {
    fn of(
        pools: &BTreeMap<Spanned<String>, PoolTable>,
        routes: Option<&BTreeMap<Spanned<String>, Spanned<String>>>,
    ) -> Self {
        let servers = pools.values().flat_map(|pool| pool.servers.get_ref());
        let shared = pools.iter().map(|(name, pool)| {
            let settings = [
                span_of(pool.timeout.as_ref()),
                span_of(pool.multiget.as_ref()),
                span_of(pool.on_failure.as_ref()),
            ];
            let span = settings.into_iter().flatten().next().unwrap_or(name.span());
            (name.get_ref().clone(), span)
        });
        let prefixes = || routes.into_iter().flatten().map(|(prefix, _)| prefix);
        let first = prefixes().map(Spanned::span).min_by_key(|span| span.start);
        Self {
            servers: servers.map(|server| (server.get_ref().clone(), server.span())).collect(),
            shared: shared.collect(),
            routes: prefixes().map(|prefix| (prefix.get_ref().clone(), prefix.span())).collect(),
            first_route: first.unwrap_or(0..0),
        }
    }

    /// What to point at for an error: the route or the server that it is about.
    fn of_error(&self, error: &PoolError) -> Range<usize> {
        let found = match error {
            PoolError::Table(
                TableError::Prefix(prefix)
                | TableError::DuplicateRoute(prefix)
                | TableError::NoSuchPool { prefix, .. },
            ) => self.routes.get(prefix),
            PoolError::Table(TableError::AmbiguousServer { name, second, .. }) => {
                let is_second = |text: &str| {
                    text.parse::<Server>().is_ok_and(|it| it.name == *name && it.address() == *second)
                };
                self.servers.iter().find(|(text, _)| is_second(text)).map(|(_, span)| span)
            }
            PoolError::Shared { other, .. } => self.shared.get(other),
            _ => None,
        };
        found.unwrap_or(&self.first_route).clone()
    }
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

/// Why a text is refused, if it is.
#[cfg(test)]
pub(crate) fn refusal_of(text: &str) -> Option<String> {
    parse(text, "file").err().map(|error| error.reason)
}

#[cfg(test)]
mod tests;
