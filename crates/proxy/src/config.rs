//! What a proxy goes by, checked once.

pub(crate) mod admin_access;
mod error;
pub(crate) mod groups;
pub(crate) mod listeners;
pub(crate) mod logins;
pub(crate) mod settings;
mod tls;

use crate::{
    config::{
        admin_access::AdminAccess,
        groups::{Group, Groups, PoolOfPlaces},
        listeners::{Listen, ListenPlace, ListenRow, resolve},
        logins::{Logins, UserRow},
        settings::{
            Engine, Layer, PoolSettings, SPLIT_THREADS_MAX, SaidOfServers, Setting, Settings, Table as _,
        },
    },
    connections::{
        names::{Resolve, SystemResolver},
        tcp_timeouts::TcpTimeouts,
        tls::{Inbound, Outbounds},
    },
    engine::event::batching::Batching,
    records::traces::Sampling,
};
pub use error::{ConfigError, Subject};
use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};
use weir_dataplane::{ClientTimeouts, LoopId, ReadRepair};
use weir_routing::{Endpoint, Options, Table};

/// A proxy's configuration. Everything in it has been checked.
#[derive(Clone)]
pub struct Config {
    /// All settings but those of pools.
    pub settings: Settings,
    /// Where clients connect; at least one place.
    pub listeners: Vec<ListenPlace>,
    /// Where `/metrics`, `/snapshot` and `/reload` are answered, if anywhere.
    pub admin: Option<SocketAddr>,
    /// Keys to servers: the tables of all groups side by side.
    pub table: Arc<Table>,
    /// Who looks names up.
    pub resolver: Arc<dyn Resolve>,
    /// Reads the configuration again, for a reload.
    pub reread: Reread,
    /// What the program was built from, for metrics and records.
    pub commit: &'static str,
    /// What is spoken to clients, if that is TLS.
    inbound: Option<Arc<Inbound>>,
    /// What each server is spoken to in.
    outbounds: Arc<Outbounds>,
    /// Who may log in, and how the proxy does.
    logins: Logins,
    /// What the admin port asks for.
    admin_access: Arc<AdminAccess>,
    /// Which clients are served together.
    groups: Groups,
}

/// What only a file can say of a proxy, beside settings.
#[derive(Clone, Debug, Default)]
pub struct OfFile {
    /// Of servers.
    pub servers: SaidOfServers,
    /// Of users.
    pub users: Vec<UserRow>,
    /// Of places where clients connect; none: the setting `listen` says where.
    pub listeners: Vec<ListenRow>,
    /// The pools that places name, each once.
    pub pools: Vec<PoolOfPlaces>,
}

/// How a configuration is read again: a new one, or a line that says why not.
pub type Reread = Arc<dyn Fn() -> Result<Config, String> + Send + Sync>;

impl Config {
    /// A proxy in front of the table's servers: checks what can be wrong about settings together. Each for itself was checked before.
    pub fn new(table: Table, said: &Layer) -> Result<Self, ConfigError> {
        Self::of_file(Some(table), said, &OfFile::default())
    }

    /// The same, with what only a file can say. `routed`: where keys of clients go whose place names no pool; `None` if there is no such
    /// place.
    pub fn of_file(routed: Option<Table>, said: &Layer, of_file: &OfFile) -> Result<Self, ConfigError> {
        let OfFile { servers: of_servers, users, listeners, pools } = of_file;
        let mut settings = Settings::of(said);
        let engine = settings.engine;
        let is_said = |name| of_servers.values().chain([said]).any(|said| said.get(name).is_some());
        let is_stray =
            |row: &&Setting| !row.engines.is_empty() && !row.engines.contains(&engine) && is_said(row.name);
        if let Some(row) = Settings::ROWS.iter().find(is_stray) {
            return Err(ConfigError::Stray { row, engine });
        }
        if settings.read_repair == ReadRepair::On && engine != Engine::Event {
            return Err(ConfigError::ReadRepairEngine(engine));
        }
        if settings.read_repair == ReadRepair::On && settings.allow_flush {
            return Err(ConfigError::ReadRepairFlush);
        }
        if !pools.is_empty() && engine != Engine::Event {
            return Err(ConfigError::ListenPoolEngine(engine));
        }
        let groups = Groups::new(routed, pools)?;
        groups.all().iter().try_for_each(|group| check_multigets(group, &settings))?;
        let table = groups.table()?;
        let inbound = tls::inbound(&settings)?.map(Arc::new);
        let logins = Logins::read(&settings, users, &table, of_servers)?;
        let places = listeners::places(listeners, &settings, inbound.is_some(), logins.users().is_some())?;
        if let Some(place) = places.iter().find(|place| groups.of_place(place.pool.as_deref()).is_none()) {
            return Err(ConfigError::ListenPool { address: place.at.to_string(), pool: place.pool.clone() });
        }
        if let Some(first) = listeners.first() {
            settings.listen.clone_from(&first.address);
        }
        let config = Self {
            listeners: places,
            admin: settings.admin.as_deref().map(|address| resolve("admin", address)).transpose()?,
            inbound,
            outbounds: Arc::new(tls::outbounds(&settings, &table, of_servers)?),
            logins,
            admin_access: Arc::new(AdminAccess::read(&settings)?),
            settings,
            table,
            groups,
            resolver: Arc::new(SystemResolver),
            reread: Arc::new(|| Err("there is nothing to read again".to_owned())),
            commit: "unknown",
        };
        if let Some(refusal) = config.too_many_threads(&config.table) {
            return Err(refusal);
        }
        match config.own_server(&config.table) {
            Some(refusal) => Err(refusal),
            None => Ok(config),
        }
    }

    /// What is spoken to clients, if that is TLS.
    pub(crate) fn inbound(&self) -> Option<&Arc<Inbound>> {
        self.inbound.as_ref()
    }

    /// What each server is spoken to in.
    pub(crate) fn outbounds(&self) -> &Arc<Outbounds> {
        &self.outbounds
    }

    /// Who may log in, and how the proxy does.
    pub(crate) fn logins(&self) -> &Logins {
        &self.logins
    }

    /// Where the admin port is, for a browser: `https://` where TLS is spoken there.
    pub fn admin_url(&self) -> Option<String> {
        let scheme = if self.admin_access.terms().is_some() { "https" } else { "http" };
        self.admin.map(|address| format!("{scheme}://{address}"))
    }

    /// What the admin port asks for.
    pub(crate) fn admin_access(&self) -> &AdminAccess {
        &self.admin_access
    }

    /// Which clients are served together.
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    /// What one group goes by, as if it were alone: with its table, its settings, and as many event loops as it has.
    pub(crate) fn of_group(&self, number: usize) -> Self {
        let group = &self.groups.all()[number];
        let mut settings = group.settings(&self.settings).clone();
        settings.threads = self.groups.share(self.settings.threads);
        let table = Arc::clone(group.table());
        Self { settings, table, groups: self.groups.only(number), ..self.clone() }
    }

    /// Event loops, or workers, or readers and writers.
    pub fn serving_threads(&self) -> usize {
        match self.settings.engine {
            Engine::Event => self.groups.all().len() * self.groups.share(self.settings.threads),
            Engine::Pool => self.settings.workers,
            Engine::Split => split_threads(self.settings.readers, &self.table),
        }
    }

    fn too_many_threads(&self, table: &Table) -> Option<ConfigError> {
        let (readers, servers) = (self.settings.readers, table.servers().len());
        let is_too_many =
            self.settings.engine == Engine::Split && split_threads(readers, table) > SPLIT_THREADS_MAX;
        is_too_many.then_some(ConfigError::SplitThreads { readers, servers })
    }

    /// The server of this table at which this proxy would ask itself.
    fn own_server(&self, table: &Table) -> Option<ConfigError> {
        let own = |listen: &Listen| table.servers().iter().find(|server| is_at(&server.endpoint, listen));
        let found = self.listeners.iter().find_map(|place| own(&place.at).map(|server| (server, &place.at)));
        let (server, listen) = found?;
        Some(ConfigError::OwnServer { server: server.to_string(), listen: listen.to_string() })
    }

    /// Where clients connect, for people: each place, with commas between.
    pub fn addresses(&self) -> String {
        let places: Vec<_> = self.listeners.iter().map(|place| place.at.to_string()).collect();
        places.join(", ")
    }

    /// Whether any key has more than one server.
    pub(crate) fn is_replicated(&self) -> bool {
        self.table.pools().iter().any(|pool| pool.router().replicas() > 1)
    }

    /// Why a configuration that was read again cannot be gone by, if it cannot.
    pub(crate) fn refusal(&self, read: &Self) -> Option<String> {
        let changes = self.is_replicated() != read.is_replicated();
        // Writes in service are in no order yet, or waited for by nobody; docs/understand/engines.md.
        if changes && self.settings.engine != Engine::Event {
            return Some(format!(
                "engine {} cannot change between one replica and several while it serves; restart the proxy",
                self.settings.engine
            ));
        }
        if self.inbound.is_some() != read.inbound.is_some() {
            return Some(
                "clients cannot change between TLS and none while it serves (tls-cert); restart the proxy"
                    .to_owned(),
            );
        }
        if self.logins.users().is_some() != read.logins.users().is_some() {
            return Some(
                "clients cannot change between logging in and not while it serves (auth-file, [[users]]); restart the proxy"
                    .to_owned(),
            );
        }
        // Without `admin` the port stays as it is (`take`).
        if self.admin.is_some()
            && read.admin.is_some()
            && let Some(refusal) = self.admin_access.refusal(&read.admin_access)
        {
            return Some(refusal.to_owned());
        }
        // Places stay until a restart, whatever the file says of them now.
        if let Some(refusal) = self.own_server(&read.table).or_else(|| self.too_many_threads(&read.table)) {
            return Some(refusal.to_string());
        }
        let renewed = self.groups.renewed(&read.groups);
        renewed.and_then(|groups| groups.table().map_err(|error| error.to_string())).err()
    }

    /// Goes by a configuration that was read again, as far as that is possible without a restart.
    pub(crate) fn take(&mut self, read: &Self) {
        if let (Some(ours), Some(read)) = (&self.inbound, &read.inbound) {
            ours.renew(read);
        }
        let mut settings = read.settings.clone();
        if read.admin.is_some() {
            self.admin_access.renew(&read.admin_access);
        } else {
            // The port stays until a restart, and so does what it asks for.
            settings.admin_token_file.clone_from(&self.settings.admin_token_file);
            settings.admin_tls_cert.clone_from(&self.settings.admin_tls_cert);
            settings.admin_tls_key.clone_from(&self.settings.admin_tls_key);
        }
        self.logins = read.logins.clone();
        // What has no equal there was refused (`refusal`).
        if let Ok(groups) = self.groups.renewed(&read.groups)
            && let Ok(table) = groups.table()
        {
            (self.groups, self.table) = (groups, table);
        }
        self.outbounds = Arc::clone(&read.outbounds);
        self.settings.take_reloadable(&settings);
    }

    /// When a loop gathers more before it writes.
    pub(crate) fn batching(&self) -> Batching {
        match nanos(self.settings.batch_pause) {
            0 => Batching::Off,
            pause_ns if self.settings.batch_always => Batching::Always { pause_ns },
            pause_max_ns => Batching::Adaptive { pause_max_ns },
        }
    }

    /// How long the kernel waits for the machine at the other end of a connection.
    pub(crate) fn tcp(&self) -> TcpTimeouts {
        TcpTimeouts::new(self.settings.keepalive, self.settings.tcp_user_timeout)
    }

    /// Which requests are sampled.
    pub(crate) fn sampling(&self) -> Sampling {
        Sampling::new(self.settings.trace_sample, self.settings.trace_seed)
    }

    /// The configuration of the dataplane of loop number `index`.
    pub(crate) fn dataplane(&self, index: usize) -> weir_dataplane::Config {
        let (settings, defaults) = (&self.settings, weir_dataplane::Config::default());
        let value_bytes_max = settings.max_value.unwrap_or(defaults.limits.value_bytes_max);
        let is_event = settings.engine == Engine::Event;
        weir_dataplane::Config {
            loop_index: LoopId::from_index(index),
            // Workers of a pool share nothing: the pool has its own order of writes.
            loop_count: if is_event { settings.threads } else { 1 },
            owns_keys: is_event,
            timeout_ns: nanos(settings.timeout),
            progress_bytes_min: settings.progress,
            connect_timeout_ns: nanos(settings.connect_timeout),
            client_timeouts: ClientTimeouts {
                idle_ns: nanos(settings.idle_timeout),
                login_ns: nanos(settings.auth_timeout),
                request_ns: nanos(settings.request_timeout),
                unread_ns: nanos(settings.client_timeout),
                progress_bytes: settings.progress,
            },
            buffer_bytes_max: settings.buffer_limit,
            // A worker's connections are shared by nobody.
            large_value_bytes: if is_event { settings.large_value } else { usize::MAX },
            slice_bytes: if is_event { SLICE_BYTES } else { usize::MAX },
            multiget: settings.multiget,
            join_gets: settings.join_gets,
            ask_once: settings.ask_once,
            fill_wait_ns: nanos(settings.fill_wait),
            near_cache_entries: settings.near_cache,
            near_cache_bytes: settings.near_cache_bytes,
            near_cache_age_ns: nanos(settings.near_cache_age),
            near_cache_check: settings.near_cache_check,
            on_failure: settings.on_failure,
            write_policy: settings.write_policy,
            replicas_required: settings.replicas_required,
            read_policy: settings.read,
            on_stale: settings.on_stale,
            read_repair: settings.read_repair,
            journal_keys_max: settings.journal_keys,
            journal_bytes_max: settings.journal_bytes,
            quarantine_ns: nanos(settings.quarantine),
            hot_keys: settings.hot_keys,
            mark_down_timeouts: settings.mark_down_timeouts,
            mark_down_share_percent: settings.mark_down_share,
            // All clients may come to one loop: who may is decided for the process (`client_limit.rs`).
            sessions_max: settings.max_connections,
            limits: weir_protocol::Limits {
                value_bytes_max: value_bytes_max.min(settings.client_buffer),
                flush_allowed: settings.allow_flush,
                server_commands_allowed: settings.allow_server_commands,
                ..defaults.limits
            },
            greets_servers: true,
            asks_item_size: settings.max_value.is_none(),
            connects_when_needed: settings.engine == Engine::Split,
            session_buffer_bytes_max: settings.client_buffer,
            server_buffer_bytes_max: settings.server_buffer,
            seed: defaults.seed + index as u64,
            ..defaults
        }
    }
}

impl PoolSettings {
    /// The same for a router.
    pub fn options(&self) -> Options {
        let Self { replicas, placement, hash, hash_tag, salt } = self.clone();
        Options { placement, hash, hash_tag, salt, replicas }
    }
}

impl From<&Options> for PoolSettings {
    fn from(options: &Options) -> Self {
        let Options { placement, hash, hash_tag, salt, replicas } = options.clone();
        Self { replicas, placement, hash, hash_tag, salt }
    }
}

/// Whether the multi-gets of a group can be asked for as its settings say.
fn check_multigets(group: &Group, of_proxy: &Settings) -> Result<(), ConfigError> {
    let multiget = group.settings(of_proxy).multiget;
    group.table().pools().iter().try_for_each(|pool| {
        let (servers, replicas) = (pool.router().servers().len(), pool.router().replicas());
        let refused = |reason| ConfigError::NotWhole { pool: pool.name().to_owned(), reason };
        multiget.check(servers, replicas).map_err(refused)
    })
}

fn split_threads(readers: usize, table: &Table) -> usize {
    (readers + 1) * table.servers().len()
}

/// As the dataplane counts time.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Whether whoever connects there comes to this port of ours. Names are not looked up for that.
fn is_at(endpoint: &Endpoint, listen: &Listen) -> bool {
    match (endpoint, listen) {
        (Endpoint::Tcp { host, port }, Listen::Tcp(listen)) => {
            let Ok(address) = host.parse::<IpAddr>() else { return false };
            *port == listen.port()
                && (address == listen.ip() || (listen.ip().is_unspecified() && address.is_loopback()))
        }
        (Endpoint::Unix { path }, Listen::Unix { path: listen, .. }) => Path::new(path) == listen.as_path(),
        _ => false,
    }
}

/// What a read is asked for at a time: longer than most replies, and a millisecond of a fast link.
const SLICE_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests;
