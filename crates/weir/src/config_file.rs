//! The configuration file: pools by name, prefixes that lead to them, and settings of the proxy, as TOML.
//!
//! [`read`] makes a checked [`Config`] of a file, or says in which line it is wrong. [`FileTable`] is the schema;
//! `weir convert` writes it. docs/reference/configuration.md tells of it.

mod blame;
mod served;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use toml::{Spanned, Value};
use weir_proxy::{
    Form, LISTENERS_MAX, Layer, ListenRow, Place, PoolSettings, Setting, Settings, Table as _, UserRow,
    read_file,
};
use weir_routing::{POOLS_MAX, ROUTES_MAX, Router, RoutingError, Server, ServerError, TableError};

use self::blame::line_of;
pub(crate) use self::blame::{FileError, Lines};
use crate::pool::{Pool, PoolError};

/// Points of rings, and slots, of all pools of a file: three of the largest rings, built in some seconds.
const POINTS_MAX: usize = 4_000_000;

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
    pub(crate) settings: Layer,
    /// What it says of users.
    users: Vec<UserRow>,
    /// What it says of places where clients connect.
    listeners: Vec<ListenRow>,
    /// Where it says what.
    pub(crate) lines: Lines,
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
    proxy: Option<Entries>,
    users: Option<Vec<UserTable>>,
    listen: Option<Vec<ListenTable>>,
}

/// One user, `[[users]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UserTable {
    name: Spanned<String>,
    certificate: Option<Spanned<String>>,
    pools: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    read_only: bool,
}

/// One place where clients connect, `[[listen]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListenTable {
    address: Spanned<String>,
    mode: Option<Spanned<String>>,
    tls: Option<bool>,
    login: Option<bool>,
    pool: Option<Spanned<String>>,
}

/// Settings as they stand there: names and values.
type Entries = BTreeMap<Spanned<String>, Spanned<Value>>;

/// One pool, `[pools.NAME]`.
#[derive(Debug)]
struct PoolTable {
    servers: Option<Spanned<Vec<Spanned<ServerEntry>>>>,
    entries: Entries,
}

/// One server of a pool.
#[derive(Debug)]
struct ServerEntry {
    /// `HOST:PORT`, `HOST:PORT:WEIGHT` or `HOST:PORT:WEIGHT NAME`.
    text: String,
    /// What is said of it alone.
    entries: Entries,
}

impl<'de> Deserialize<'de> for PoolTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfPool;
        impl<'de> Visitor<'de> for OfPool {
            type Value = PoolTable;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a table with the servers of a pool")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PoolTable, A::Error> {
                let mut table = PoolTable { servers: None, entries: Entries::new() };
                while let Some(name) = map.next_key::<Spanned<String>>()? {
                    if name.get_ref() == "servers" {
                        table.servers = Some(map.next_value()?);
                    } else {
                        table.entries.insert(name, map.next_value()?);
                    }
                }
                Ok(table)
            }
        }
        deserializer.deserialize_map(OfPool)
    }
}

impl<'de> Deserialize<'de> for ServerEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfServer;
        impl<'de> Visitor<'de> for OfServer {
            type Value = ServerEntry;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(formatter, "a string, or a table with `{SERVER}`")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ServerEntry, E> {
                Ok(ServerEntry { text: text.to_owned(), entries: Entries::new() })
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ServerEntry, A::Error> {
                let (mut text, mut entries) = (None, Entries::new());
                while let Some(name) = map.next_key::<Spanned<String>>()? {
                    if name.get_ref() == SERVER {
                        text = Some(map.next_value()?);
                    } else {
                        entries.insert(name, map.next_value()?);
                    }
                }
                let text = text.ok_or_else(|| serde::de::Error::missing_field(SERVER))?;
                Ok(ServerEntry { text, entries })
            }
        }
        deserializer.deserialize_any(OfServer)
    }
}

/// What a table of one server calls the server itself.
const SERVER: &str = "server";

/// Where settings stand.
type Spans = HashMap<&'static str, Range<usize>>;

/// What a table of settings says, each value checked, and where.
#[derive(Debug, Default)]
struct Said {
    layer: Layer,
    spans: Spans,
}

impl Said {
    /// The first mistake is what is reported.
    fn of(entries: Entries, rows: &[&'static Setting], beside: &[&str]) -> Result<Self, Fault> {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_by_key(|(name, _)| name.span().start);
        let mut said = Self::default();
        for (name, value) in entries {
            let Some(row) = rows.iter().find(|row| row.name == name.get_ref()) else {
                let known = beside.iter().copied().chain(rows.iter().map(|row| row.name));
                let known: Vec<_> = known.map(|name| format!("`{name}`")).collect();
                let reason =
                    format!("unknown field `{}`, expected one of {}", name.get_ref(), known.join(", "));
                return Err(fault(name.span(), &reason));
            };
            let span = value.span();
            let refused = |reason: &str| fault(span.clone(), &format!("{}: {reason}", row.name));
            let text = written(row.form, value.get_ref()).map_err(|reason| refused(&reason))?;
            said.layer.say(row, &text).map_err(|reason| refused(&reason))?;
            said.spans.insert(row.name, span);
        }
        Ok(said)
    }
}

/// A value of this form, as a flag takes it.
fn written(form: Form, value: &Value) -> Result<String, String> {
    match (form, value) {
        (Form::Text | Form::Time | Form::Size, Value::String(text)) => Ok(text.clone()),
        (Form::Number, Value::Integer(number)) if *number >= 0 => Ok(number.to_string()),
        (Form::Share, Value::Integer(_) | Value::Float(_)) | (Form::Truth, Value::Boolean(_)) => {
            Ok(value.to_string())
        }
        (_, Value::String(text)) => Err(format!("expected {}, found {text:?}", form.expected())),
        (_, Value::Array(_) | Value::Table(_)) => {
            Err(format!("expected {}, found a {}", form.expected(), value.type_str()))
        }
        _ => Err(format!("expected {}, found {value}", form.expected())),
    }
}

/// What `[proxy]` may say.
fn of_proxy() -> Vec<&'static Setting> {
    Settings::ROWS.iter().filter(|row| row.place != Place::Flag).collect()
}

/// Of these, what pools may say.
fn of_proxy_or_pools() -> impl Iterator<Item = &'static Setting> {
    Settings::ROWS.iter().filter(|row| matches!(row.place, Place::DefaultPool | Place::AllPools))
}

/// Of all, what may be said of one server.
fn of_servers() -> impl Iterator<Item = &'static Setting> {
    Settings::ROWS.iter().filter(|row| row.place == Place::Server)
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
    let name = file.display().to_string();
    match read_file(file, bytes_max) {
        Ok(bytes) => text_of(&bytes[..], &name, bytes_max),
        Err(error) => Err(FileError { file: name, line: None, reason: format!("cannot be read: {error}") }),
    }
}

/// The same for what is open already, and is called `name`.
pub(crate) fn text_of(opened: impl Read, name: &str, bytes_max: u64) -> Result<String, FileError> {
    let refused = |reason: String| FileError { file: name.to_owned(), line: None, reason };
    let mut bytes = Vec::new();
    let read = opened.take(bytes_max + 1).read_to_end(&mut bytes);
    read.map_err(|error| refused(format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > bytes_max {
        return Err(refused(format!("is larger than {bytes_max} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        FileError { line: Some(line_of(valid)), ..refused("is not UTF-8 text".to_owned()) }
    })
}

/// Checks a text, and calls it `file` where it is wrong.
pub(crate) fn parse(text: &str, file: &str) -> Result<Config, FileError> {
    let config = config(text).map_err(|(span, reason)| {
        let line = span.map(|span| line_of(&text.as_bytes()[..span.start.min(text.len())]));
        FileError { file: file.to_owned(), line, reason }
    })?;
    Ok(Config { lines: config.lines.called(file), ..config })
}

fn config(text: &str) -> Result<Config, Fault> {
    let table: FileTable = toml::from_str(text).map_err(|error| {
        let reason = error.message().lines().collect::<Vec<_>>().join("; ");
        (error.span(), reason)
    })?;
    if table.pools.is_empty() {
        return Err((None, "there is no pool: write [pools.NAME] and its servers".to_owned()));
    }
    let places = table.listen.as_ref().map_or(0, Vec::len);
    for (count, most, what) in [
        (table.pools.len(), POOLS_MAX, "pools"),
        (table.routes.as_ref().map_or(0, BTreeMap::len), ROUTES_MAX, "routes"),
        (places, LISTENERS_MAX, "[[listen]]"),
    ] {
        if count > most {
            return Err((None, format!("there are {count} {what}: a file has at most {most}")));
        }
    }
    let Said { layer: settings, spans: proxy_spans } =
        Said::of(table.proxy.unwrap_or_default(), &of_proxy(), &[])?;
    let mut places = Places::of(&table.pools, table.routes.as_ref());
    let pools = pools(table.pools, &settings, &mut places)?;
    if let Some(name) = &table.default
        && !pools.contains_key(name.get_ref())
    {
        let known = pools.keys().cloned().collect::<Vec<_>>().join(", ");
        let reason = format!("default pool {:?} is not there: there are {known}", name.get_ref());
        return Err(fault(name.span(), &reason));
    }
    let user_tables = table.users.unwrap_or_default();
    let rows = table.listen.unwrap_or_default();
    let of_pools = places.settings.values().flat_map(|(_, spans)| spans);
    let of_servers = places.of_servers.iter().map(|(name, span)| (*name, span.start));
    let settings_at =
        proxy_spans.iter().chain(of_pools).map(|(name, span)| (*name, span.start)).chain(of_servers);
    let users_at = user_tables.iter().map(|it| (it.name.get_ref().as_str(), it.name.span().start));
    let rows_at = rows.iter().map(|it| (it.address.get_ref().as_str(), it.address.span().start));
    let lines = Lines::of(text, settings_at, users_at, rows_at);
    let users = users(user_tables, &pools)?;
    let beside = places.of_setting("listen").or_else(|| proxy_spans.get("listen").cloned());
    places.note_listeners(&rows);
    let listeners = listeners(rows, beside, &pools)?;
    let routes = table.routes.into_iter().flatten();
    let routes = routes.map(|(prefix, pool)| (prefix.into_inner(), pool.into_inner())).collect();
    let default = table.default.map(Spanned::into_inner);
    let config = Config { pools, default, routes, settings, users, listeners, lines };
    match config.served(None) {
        // Which pool takes the keys that no route takes may still be said by a flag.
        Err(PoolError::WhichPool { .. }) => Ok(config),
        Err(error) if config.has_routes_or_places() => Err((places.of_error(&error), error.to_string())),
        _ => Ok(config),
    }
}

fn pools(
    tables: BTreeMap<Spanned<String>, PoolTable>,
    settings: &Layer,
    places: &mut Places,
) -> Result<BTreeMap<String, Pool>, Fault> {
    let mut pools = BTreeMap::new();
    let mut points = 0;
    let mut listeners: HashMap<String, String> = HashMap::new();
    for (name, table) in tables {
        let in_pool = |(span, reason): Fault| {
            (span.or(Some(name.span())), format!("pool {}: {reason}", name.get_ref()))
        };
        let (pool, spans, of_servers) = pool(table, settings).map_err(in_pool)?;
        places.of_servers.extend(of_servers);
        points += pool.router.points();
        if points > POINTS_MAX {
            let reason = format!(
                "with it the pools of the file have {points} points or slots to place keys by, and more than {POINTS_MAX} take too much time and memory: lower weights"
            );
            return Err(in_pool((None, reason)));
        }
        for row in of_proxy_or_pools().filter(|row| settings.get(row.name).is_some()) {
            if let Some(span) = spans.get(row.name) {
                let reason = format!("{} is set in [proxy] already: remove one", row.name);
                return Err(in_pool(fault(span.clone(), &reason)));
            }
        }
        if let Some(listen) = pool.said.get("listen")
            && let Some(other) = listeners.insert(listen.to_owned(), name.get_ref().clone())
        {
            return Err((spans.get("listen").cloned(), format!("pool {other} listens on {listen} already")));
        }
        places.settings.insert(name.get_ref().clone(), (name.span(), spans));
        pools.insert(name.into_inner(), pool);
    }
    Ok(pools)
}

/// Whether users can log in is seen where their passwords are read.
fn users(tables: Vec<UserTable>, pools: &BTreeMap<String, Pool>) -> Result<Vec<UserRow>, Fault> {
    let (mut names, mut certificates) = (HashSet::new(), HashSet::new());
    for UserTable { name, certificate, pools: named, .. } in &tables {
        let user = name.get_ref();
        if user.is_empty() || user.bytes().any(|byte| [b' ', b':', b'\r', b'\n', 0].contains(&byte)) {
            let reason =
                format!("{user:?} is no name of a user: write one without spaces, colons and line endings");
            return Err(fault(name.span(), &reason));
        }
        if !names.insert(user) {
            return Err(fault(name.span(), &format!("user {user} is there twice: remove one")));
        }
        if let Some(certificate) = certificate.as_ref().filter(|it| !certificates.insert(it.get_ref())) {
            let reason = format!("user {user}: another user has the certificate {:?}", certificate.get_ref());
            return Err(fault(certificate.span(), &reason));
        }
        if let Some(named) = named.as_ref().filter(|named| named.get_ref().is_empty()) {
            let reason = format!("user {user}: it may use no pool: name one, or leave the line out for all");
            return Err(fault(named.span(), &reason));
        }
        let mut named = named.iter().flat_map(Spanned::get_ref);
        if let Some(pool) = named.find(|pool| !pools.contains_key(pool.get_ref())) {
            let known = pools.keys().cloned().collect::<Vec<_>>().join(", ");
            let reason = format!("user {user}: there is no pool {:?}: there are {known}", pool.get_ref());
            return Err(fault(pool.span(), &reason));
        }
    }
    let row = |user: UserTable| UserRow {
        name: user.name.into_inner(),
        certificate: user.certificate.map(Spanned::into_inner),
        pools: user.pools.map(|pools| pools.into_inner().into_iter().map(Spanned::into_inner).collect()),
        read_only: user.read_only,
    };
    Ok(tables.into_iter().map(row).collect())
}

/// Places where clients connect. `beside`: where the file says `listen` too, if it does.
fn listeners(
    tables: Vec<ListenTable>,
    beside: Option<Range<usize>>,
    pools: &BTreeMap<String, Pool>,
) -> Result<Vec<ListenRow>, Fault> {
    if let (Some(span), false) = (beside, tables.is_empty()) {
        let reason = "listen stands beside [[listen]]: write it as an [[listen]] of its own, or remove it";
        return Err(fault(span, &reason));
    }
    let named = |name| Settings::ROWS.iter().find(|row| row.name == name).expect("there is that setting");
    let (address_row, mode_row) = (named("listen"), named("listen_mode"));
    let mut known = HashSet::new();
    let row = |table: ListenTable| {
        let span = table.address.span();
        let address = table.address.into_inner();
        address_row.check(&address).map_err(|reason| fault(span.clone(), &format!("address: {reason}")))?;
        if !known.insert(address.clone()) {
            return Err(fault(span, &format!("[[listen]] {address} is there twice: remove one")));
        }
        let mode = table.mode.map(|mode| {
            let refused = |reason: String| fault(mode.span(), &format!("mode: {reason}"));
            mode_row.check(mode.get_ref()).map_err(refused)?;
            u32::from_str_radix(mode.get_ref(), 8).map_err(|error| refused(error.to_string()))
        });
        if let Some(pool) = table.pool.as_ref().filter(|pool| !pools.contains_key(pool.get_ref())) {
            let known = pools.keys().cloned().collect::<Vec<_>>().join(", ");
            let reason =
                format!("[[listen]] {address}: there is no pool {:?}: there are {known}", pool.get_ref());
            return Err(fault(pool.span(), &reason));
        }
        let pool = table.pool.map(Spanned::into_inner);
        Ok(ListenRow { address, mode: mode.transpose()?, tls: table.tls, login: table.login, pool })
    };
    tables.into_iter().map(row).collect()
}

/// Settings of servers, and where they stand.
type SpansOfServers = Vec<(&'static str, Range<usize>)>;

/// A pool, and where its settings stand, and those of its servers.
fn pool(table: PoolTable, of_proxy: &Layer) -> Result<(Pool, Spans, SpansOfServers), Fault> {
    let rows: Vec<_> = PoolSettings::ROWS.iter().chain(of_proxy_or_pools()).chain(of_servers()).collect();
    let Said { layer, spans } = Said::of(table.entries, &rows, &["servers"])?;
    let list = table.servers.ok_or_else(|| (None, "missing field `servers`".to_owned()))?;
    let servers_span = list.span();
    let list = servers(list.into_inner())?;
    let of_servers = said_of_servers(&list, &layer, &spans, of_proxy)?;
    let own = list.iter().flat_map(|(_, own, _)| &own.spans);
    let spans_of_servers = own.map(|(name, span)| (*name, span.clone())).collect();
    let (servers, server_spans): (Vec<Server>, Vec<Range<usize>>) =
        list.into_iter().map(|(server, _, span)| (server, span)).unzip();
    let names: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    let router = Router::with_options(servers, PoolSettings::of(&layer).options()).map_err(|error| {
        let span = match place_of(&error, &names) {
            Some(Blame::Setting(name)) => spans.get(name),
            Some(Blame::Server(place)) => server_spans.get(place),
            None => None,
        };
        (Some(span.unwrap_or(&servers_span).clone()), error.to_string())
    })?;
    Settings::of(&layer)
        .multiget
        .check(router.servers().len(), router.replicas())
        .map_err(|error| (spans.get("multiget").cloned(), error.to_string()))?;
    Ok((Pool::new(router, layer, of_servers), spans, spans_of_servers))
}

/// What an error is about.
enum Blame {
    Setting(&'static str),
    /// By its place in the list.
    Server(usize),
}

fn place_of(error: &RoutingError, names: &[String]) -> Option<Blame> {
    match error {
        RoutingError::Replicas { .. } | RoutingError::TooManyReplicas(_) => Some(Blame::Setting("replicas")),
        RoutingError::Hash { .. } => Some(Blame::Setting("hash")),
        RoutingError::HashTag(_) => Some(Blame::Setting("hash_tag")),
        RoutingError::Salt(_) => Some(Blame::Setting("salt")),
        // The later of two equals: the earlier one was right when it was written.
        RoutingError::Duplicate(server)
        | RoutingError::NoWeight(server)
        | RoutingError::WeightIgnored { server, .. }
        | RoutingError::WeightOutOfRange { server, .. } => {
            names.iter().rposition(|name| name == server).map(Blame::Server)
        }
        RoutingError::NoServers | RoutingError::TooManyServers(_) | RoutingError::TooHeavy { .. } => None,
    }
}

/// A server, what is said of it alone, and where it stands.
type OwnServer = (Server, Said, Range<usize>);

fn servers(list: Vec<Spanned<ServerEntry>>) -> Result<Vec<OwnServer>, Fault> {
    let rows: Vec<_> = of_servers().collect();
    let server = |entry: Spanned<ServerEntry>| {
        let span = entry.span();
        let ServerEntry { text, entries } = entry.into_inner();
        let server = text.parse().map_err(|error: ServerError| fault(span.clone(), &error))?;
        Ok((server, Said::of(entries, &rows, &[SERVER])?, span))
    };
    list.into_iter().map(server).collect()
}

/// What is said of each server, by itself or by its pool. What would mean nothing is refused: whoever wrote it would believe that the
/// server is spoken to in TLS.
fn said_of_servers(
    list: &[OwnServer],
    of_pool: &Layer,
    pool_spans: &Spans,
    of_proxy: &Layer,
) -> Result<HashMap<String, Layer>, Fault> {
    let stray = |layer: &Layer, spans: &Spans, speak: bool| {
        let is_of_tls = |row: &&Setting| ![TLS, LOGIN].contains(&row.name);
        let row = of_servers().filter(is_of_tls).find(|row| layer.get(row.name).is_some())?;
        let reason = format!("{} means nothing without {TLS} = true", row.name);
        (!speak).then(|| (spans.get(row.name).cloned(), reason))
    };
    let mut of_servers_all = HashMap::new();
    let mut any_speaks = false;
    for (server, own, _) in list {
        let said = own.layer.clone().over(only_of_servers(of_pool));
        let speaks = said.clone().over(of_proxy.clone()).get(TLS) == Some("true");
        if let Some(fault) = stray(&own.layer, &own.spans, speaks) {
            return Err(fault);
        }
        any_speaks |= speaks;
        if said != Layer::default() {
            of_servers_all.insert(server.name.clone(), said);
        }
    }
    match stray(of_pool, pool_spans, any_speaks) {
        Some(fault) => Err(fault),
        None => Ok(of_servers_all),
    }
}

/// Whether a server is spoken to in TLS.
const TLS: &str = "server_tls";

/// How the proxy logs in to a server. That needs no TLS.
const LOGIN: &str = "server_auth_file";

/// Of what a pool says, what concerns its servers one by one.
fn only_of_servers(said: &Layer) -> Layer {
    let mut only = Layer::default();
    for row in of_servers() {
        if let Some(text) = said.get(row.name) {
            only.say(row, text).expect("it was said before");
        }
    }
    only
}

fn fault(span: Range<usize>, reason: &dyn fmt::Display) -> Fault {
    (Some(span), reason.to_string())
}

/// Where pools and routes stand.
struct Places {
    /// Address and name of each server, of all pools in their order, with the place where it stands.
    servers: Vec<(String, Range<usize>)>,
    /// For each pool its name, and its settings.
    settings: HashMap<String, (Range<usize>, Spans)>,
    /// The settings that stand with servers, of all pools.
    of_servers: SpansOfServers,
    routes: HashMap<String, Range<usize>>,
    /// The pools that places name, and where the first does.
    listeners: HashMap<String, Range<usize>>,
}

impl Places {
    fn of(
        pools: &BTreeMap<Spanned<String>, PoolTable>,
        routes: Option<&BTreeMap<Spanned<String>, Spanned<String>>>,
    ) -> Self {
        let servers = pools.values().filter_map(|pool| pool.servers.as_ref()).flat_map(Spanned::get_ref);
        let prefixes = || routes.into_iter().flatten().map(|(prefix, _)| prefix);
        Self {
            servers: servers.map(|server| (server.get_ref().text.clone(), server.span())).collect(),
            settings: HashMap::new(),
            of_servers: Vec::new(),
            routes: prefixes().map(|prefix| (prefix.get_ref().clone(), prefix.span())).collect(),
            listeners: HashMap::new(),
        }
    }

    fn note_listeners(&mut self, rows: &[ListenTable]) {
        for pool in rows.iter().filter_map(|row| row.pool.as_ref()) {
            self.listeners.entry(pool.get_ref().clone()).or_insert_with(|| pool.span());
        }
    }

    /// Where a pool says this, if any does.
    fn of_setting(&self, name: &str) -> Option<Range<usize>> {
        let all = self.settings.values().filter_map(|(_, spans)| spans.get(name));
        all.min_by_key(|span| span.start).cloned()
    }

    /// What to point at for an error: the route, the place or the server that it is about.
    fn of_error(&self, error: &PoolError) -> Option<Range<usize>> {
        match error {
            PoolError::Table(
                TableError::Prefix(prefix)
                | TableError::DuplicateRoute(prefix)
                | TableError::NoSuchPool { prefix, .. },
            )
            | PoolError::RouteOfNoPlace { prefix } => self.routes.get(prefix),
            PoolError::PoolTwoWays { pool } | PoolError::Table(TableError::PoolName(pool)) => {
                self.listeners.get(pool)
            }
            PoolError::OfAllClients { pool, setting } => {
                self.settings.get(pool).and_then(|(_, settings)| settings.get(setting))
            }
            PoolError::Table(TableError::AmbiguousServer { name, second, .. }) => {
                let is_second = |text: &str| {
                    text.parse::<Server>().is_ok_and(|it| it.name == *name && it.address() == *second)
                };
                self.servers.iter().find(|(text, _)| is_second(text)).map(|(_, span)| span)
            }
            PoolError::NoDefault { .. } => self.routes.values().min_by_key(|span| span.start),
            PoolError::Shared { other, setting, .. } => {
                self.settings.get(other).map(|(name, settings)| settings.get(setting).unwrap_or(name))
            }
            _ => None,
        }
        .cloned()
    }
}

/// What a good text with one pool says of it, and of the proxy.
#[cfg(test)]
pub(crate) fn said_by(text: &str) -> Layer {
    let config = parse(text, "file").unwrap_or_else(|error| panic!("{error}"));
    let pool = config.pools.into_values().next().expect("there is a pool");
    pool.said.over(config.settings)
}

#[cfg(test)]
mod tests;
