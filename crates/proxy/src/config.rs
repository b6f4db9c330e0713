//! What a proxy is told, checked once.

pub(crate) mod engine;
mod error;
mod useless;

use crate::config::engine::{Engine, READERS_MAX, SPLIT_THREADS_MAX, WORKERS_MAX};
use crate::connections::names::{Resolve, SystemResolver};
use crate::connections::tcp_timeouts::TcpTimeouts;
use crate::engine::event::batching::Batching;
use crate::records::traces::Sampling;
pub use error::ConfigError;
use std::{
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use weir_dataplane::{
    JoinGets, Multiget, OnFailure, OnStale, Patience, ReadPolicy, ReadRepair, ReplicasRequired, WritePolicy,
};
use weir_routing::{Endpoint, Server, Table};

/// A proxy's configuration. Everything in it has been checked.
#[derive(Clone)]
pub struct Config {
    /// Where clients connect.
    pub listen: Listen,
    /// Where `/metrics`, `/snapshot` and `/reload` are answered, if anywhere.
    pub admin: Option<SocketAddr>,
    /// Names by which it may be asked, beside addresses and names without a dot.
    pub admin_hosts: Vec<String>,
    /// Keys to servers.
    pub table: Arc<Table>,
    /// How requests are served.
    pub engine: Engine,
    /// Event loops, where the engine is that.
    pub threads: usize,
    /// When a loop gathers more before it writes (engine event).
    pub batching: Batching,
    /// How long a server may take to answer.
    pub timeout: Duration,
    /// How much of a reply, or of a request, must move within each further `timeout` after its first byte, in bytes.
    pub progress_bytes_min: usize,
    /// How long an attempt to connect to a server may take.
    pub connect_timeout: Duration,
    /// How long the kernel waits for the machine at the other end of a connection.
    pub tcp: TcpTimeouts,
    /// How long clients may take.
    pub patience: Patience,
    /// How multi-gets are asked for where keys have several replicas.
    pub multiget: Multiget,
    /// Whether gets of several requests are put into one message to a server.
    pub join_gets: JoinGets,
    /// What becomes of retrievals of which a part got no answer.
    pub on_failure: OnFailure,
    /// What replicas owe, where keys have several.
    pub replication: Replication,
    /// How long sessions may take to end after a signal to stop.
    pub drain_timeout: Duration,
    /// For how long it goes on serving after SIGTERM, while it says that it is not ready.
    pub drain_delay: Duration,
    /// The most client connections at once, over all loops.
    pub sessions_max: usize,
    /// The longest value that a client may send, in bytes. `None`: what the servers say that they store, and 1 MiB until one has.
    pub value_bytes_max: Option<usize>,
    /// How much one client may make a loop keep, in bytes: of an incomplete request, and of replies that it does not read.
    pub client_buffer_bytes_max: usize,
    /// How much may wait for one server, in bytes, and how much of an incomplete reply is kept.
    pub server_buffer_bytes_max: usize,
    /// How much memory all buffers together may take, in bytes.
    pub buffer_bytes_max: usize,
    /// Values that are at least so long go over a connection of their own, where keys have one replica (engine event).
    pub large_value_bytes: usize,
    /// The file to which a record per second is appended, if there is one.
    pub windows_file: Option<PathBuf>,
    /// The file to which a row per sampled request is appended, if there is one.
    pub trace_file: Option<PathBuf>,
    /// Which requests are sampled for it.
    pub sampling: Sampling,
    /// Whether clients may `flush_all`.
    pub flush_allowed: bool,
    /// Whether clients may use commands that act on whole servers: `cache_memlimit`, `slabs`, `lru`, `lru_crawler`.
    pub server_commands_allowed: bool,
    /// How often names of servers are looked up again.
    pub resolve_every: Duration,
    /// Who looks names up.
    pub resolver: Arc<dyn Resolve>,
    /// Reads the configuration again, for a reload.
    pub reread: Reread,
}

/// How a configuration is read again: a new one, or a line that says why not.
pub type Reread = Arc<dyn Fn() -> Result<Config, String> + Send + Sync>;

/// How writes and reads go where keys have several servers, and what is remembered of servers that were away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replication {
    /// When writes are answered.
    pub write_policy: WritePolicy,
    /// Which replicas a write needs that is to reach all.
    pub replicas_required: ReplicasRequired,
    /// Which replica is read.
    pub read_policy: ReadPolicy,
    /// What reads are answered where every server of a key lacks writes, or may.
    pub on_stale: OnStale,
    /// Whether copies that reads find missing are put back.
    pub read_repair: ReadRepair,
    /// How many keys that a server missed are remembered, per loop.
    pub journal_keys_max: usize,
    /// The same, in bytes of keys.
    pub journal_bytes_max: usize,
    /// How long a server may still carry out what was sent on a connection that broke.
    pub quarantine: Duration,
    /// After how many timeouts in a row a server is marked down. 0: never.
    pub mark_down_timeouts: u32,
    /// How many servers of a pool may be so at once, in percent.
    pub mark_down_share_percent: u32,
}

impl Default for Replication {
    fn default() -> Self {
        let defaults = weir_dataplane::Config::default();
        Self {
            write_policy: defaults.write_policy,
            replicas_required: defaults.replicas_required,
            read_policy: defaults.read_policy,
            on_stale: defaults.on_stale,
            read_repair: defaults.read_repair,
            journal_keys_max: defaults.journal_keys_max,
            journal_bytes_max: defaults.journal_bytes_max,
            quarantine: Duration::from_nanos(defaults.quarantine_ns),
            mark_down_timeouts: defaults.mark_down_timeouts,
            mark_down_share_percent: defaults.mark_down_share_percent,
        }
    }
}

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// By TCP.
    Tcp(SocketAddr),
    /// By a socket in the file system.
    Unix {
        /// Its path.
        path: PathBuf,
        /// Its permission bits: who may write to it may connect.
        mode: u32,
    },
}

impl fmt::Display for Listen {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(formatter, "{address}"),
            Self::Unix { path, .. } => write!(formatter, "unix:{}", path.display()),
        }
    }
}

/// Event loops that a proxy may have: more than this are a mistake.
pub const THREADS_MAX: usize = 256;

/// Names that are looked up more often than this burden those who know them.
const RESOLVE_EVERY_MIN: Duration = Duration::from_millis(100);

/// Less memory than this for all buffers would refuse what one client may ask for.
const BUFFER_BYTES_MIN: usize = 16 << 20;
/// Longer pauses gain nothing: more clients than can be read in one turn have come by then.
const BATCH_PAUSE_MAX: Duration = Duration::from_millis(1);

/// Who may connect to a socket unless something else is said: the same user and group.
pub const LISTEN_MODE: u32 = 0o660;

impl Config {
    /// A proxy in front of the table's servers: checks what can be wrong and fills in the defaults of the rest.
    pub fn new(listen: &str, table: Table, threads: usize) -> Result<Self, ConfigError> {
        if !(1..=THREADS_MAX).contains(&threads) {
            return Err(ConfigError::Threads(threads));
        }
        let defaults = weir_dataplane::Config::default();
        Ok(Self {
            listen: parse_listen(listen)?,
            admin: None,
            admin_hosts: Vec::new(),
            table: Arc::new(table),
            engine: Engine::default(),
            threads,
            batching: Batching::default(),
            timeout: Duration::from_millis(500),
            progress_bytes_min: defaults.progress_bytes_min,
            connect_timeout: Duration::from_nanos(defaults.connect_timeout_ns),
            tcp: TcpTimeouts::default(),
            patience: defaults.patience,
            multiget: Multiget::default(),
            join_gets: JoinGets::default(),
            on_failure: OnFailure::default(),
            replication: Replication::default(),
            drain_timeout: Duration::from_secs(10),
            drain_delay: Duration::ZERO,
            sessions_max: 10_000,
            value_bytes_max: None,
            client_buffer_bytes_max: defaults.session_buffer_bytes_max,
            server_buffer_bytes_max: defaults.server_buffer_bytes_max,
            buffer_bytes_max: defaults.buffer_bytes_max,
            large_value_bytes: defaults.large_value_bytes,
            windows_file: None,
            trace_file: None,
            sampling: Sampling::default(),
            flush_allowed: false,
            server_commands_allowed: false,
            resolve_every: Duration::from_secs(30),
            resolver: Arc::new(SystemResolver),
            reread: Arc::new(|| Err("there is nothing to read again".to_owned())),
        })
    }

    /// Opens the admin port.
    pub fn with_admin(mut self, admin: Option<&str>) -> Result<Self, ConfigError> {
        self.admin = admin.map(|address| resolve("--admin", address)).transpose()?;
        Ok(self)
    }

    /// Sets the names by which the admin port may be asked, with commas between them.
    pub fn with_admin_hosts(mut self, names: Option<&str>) -> Result<Self, ConfigError> {
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte))
        };
        for name in names.into_iter().flat_map(|names| names.split(',')).map(str::trim) {
            if !is_name(name) {
                return Err(ConfigError::AdminHost(name.to_owned()));
            }
            self.admin_hosts.push(name.trim_end_matches('.').to_owned());
        }
        Ok(self)
    }

    /// Sets who may connect to the socket, where clients connect by one.
    pub fn with_listen_mode(mut self, wanted: u32) -> Result<Self, ConfigError> {
        if wanted > 0o777 {
            return Err(ConfigError::Mode(wanted));
        }
        if let Listen::Unix { mode, .. } = &mut self.listen {
            *mode = wanted;
        }
        Ok(self)
    }

    /// Sets how long a server may take.
    pub fn with_timeout(mut self, timeout: Duration) -> Result<Self, ConfigError> {
        if timeout.is_zero() {
            return Err(ConfigError::Timeout);
        }
        self.timeout = timeout;
        Ok(self)
    }

    /// Sets how long an attempt to connect to a server may take.
    pub fn with_connect_timeout(mut self, timeout: Duration) -> Result<Self, ConfigError> {
        if timeout.is_zero() {
            return Err(ConfigError::ConnectTimeout);
        }
        self.connect_timeout = timeout;
        Ok(self)
    }

    /// Sets how much memory all buffers together may take.
    pub fn with_buffer_limit(mut self, bytes: usize) -> Result<Self, ConfigError> {
        if bytes < BUFFER_BYTES_MIN {
            return Err(ConfigError::BufferLimit(bytes));
        }
        self.buffer_bytes_max = bytes;
        Ok(self)
    }

    /// Sets how long a loop may wait for more before it writes; nothing: never. With `always` it waits as long in every turn, which is
    /// for tests and benchmarks.
    pub fn with_batch_pause(mut self, pause: Duration, always: bool) -> Result<Self, ConfigError> {
        if pause > BATCH_PAUSE_MAX {
            return Err(ConfigError::BatchPause);
        }
        self.batching = match nanos(pause) {
            0 => Batching::Off,
            pause_ns if always => Batching::Always { pause_ns },
            pause_max_ns => Batching::Adaptive { pause_max_ns },
        };
        Ok(self)
    }

    /// Chooses how requests are served.
    pub fn with_engine(mut self, engine: Engine) -> Result<Self, ConfigError> {
        match engine {
            Engine::Pool { workers, .. } if !(1..=WORKERS_MAX).contains(&workers) => {
                return Err(ConfigError::Workers(workers));
            }
            Engine::Split { readers, .. } if !(1..=READERS_MAX).contains(&readers) => {
                return Err(ConfigError::Readers(readers));
            }
            Engine::Split { readers, .. } if self.split_threads(readers) > SPLIT_THREADS_MAX => {
                return Err(ConfigError::SplitThreads { readers, servers: self.table.servers().len() });
            }
            Engine::Pool { queue_len_max: 0, .. } | Engine::Split { queue_len_max: 0, .. } => {
                return Err(ConfigError::Queue);
            }
            Engine::Event | Engine::Pool { .. } | Engine::Split { .. } => {}
        }
        self.engine = engine;
        Ok(self)
    }

    /// Event loops, or workers, or readers and writers.
    pub fn serving_threads(&self) -> usize {
        match self.engine {
            Engine::Event => self.threads,
            Engine::Pool { workers, .. } => workers,
            Engine::Split { readers, .. } => self.split_threads(readers),
        }
    }

    fn split_threads(&self, readers: usize) -> usize {
        (readers + 1) * self.table.servers().len()
    }

    /// Whether any key has more than one server.
    pub(crate) fn is_replicated(&self) -> bool {
        self.table.pools().iter().any(|pool| pool.router().replicas() > 1)
    }

    /// Why a configuration that was read again cannot be gone by, if it cannot.
    pub(crate) fn refusal(&self, read: &Self) -> Option<String> {
        let changes = self.is_replicated() != read.is_replicated();
        // Writes in service are in no order yet, or waited for by nobody; docs/engines.md.
        if changes && self.engine != Engine::Event {
            return Some(format!(
                "engine {} cannot change between one replica and several while it serves; restart the proxy",
                self.engine
            ));
        }
        match self.engine {
            Engine::Split { readers, .. } if read.split_threads(readers) > SPLIT_THREADS_MAX => {
                Some(ConfigError::SplitThreads { readers, servers: read.table.servers().len() }.to_string())
            }
            _ => None,
        }
    }

    /// Sets how often names are looked up again.
    pub fn with_resolve_every(mut self, period: Duration) -> Result<Self, ConfigError> {
        if period < RESOLVE_EVERY_MIN {
            return Err(ConfigError::ResolveEvery);
        }
        self.resolve_every = period;
        Ok(self)
    }

    /// What of a configuration that was read again only a restart would change, a line each.
    pub(crate) fn unchangeable(&self, read: &Self) -> Vec<String> {
        let admin = |config: &Self| config.admin.map_or("nowhere".to_owned(), |address| address.to_string());
        let listen = |config: &Self| match &config.listen {
            Listen::Unix { mode, .. } => format!("{} (mode {mode:o})", config.listen),
            Listen::Tcp(_) => config.listen.to_string(),
        };
        let value = |config: &Self| {
            config.value_bytes_max.map_or("what the servers store".to_owned(), |it| it.to_string())
        };
        type Told<'a> = &'a dyn Fn(&Config) -> String;
        let limits = |config: &Self| match config.engine {
            Engine::Event => (0, 0),
            Engine::Pool { workers, queue_len_max } => (workers, queue_len_max),
            Engine::Split { queue_len_max, .. } => (0, queue_len_max),
        };
        let readers = |config: &Self| match config.engine {
            Engine::Split { readers, .. } => readers,
            Engine::Event | Engine::Pool { .. } => 0,
        };
        let patience = |of: fn(&Patience) -> u64| {
            move |it: &Self| format!("{:?}", Duration::from_nanos(of(&it.patience)))
        };
        let settings: [(&str, Told<'_>); 43] = [
            ("listen", &listen),
            ("admin", &admin),
            ("admin-host", &|it| it.admin_hosts.join(",")),
            ("engine", &|it| it.engine.to_string()),
            ("workers", &|it| limits(it).0.to_string()),
            ("readers", &|it| readers(it).to_string()),
            ("queue", &|it| limits(it).1.to_string()),
            ("threads", &|it| it.threads.to_string()),
            ("batch-pause", &|it| it.batching.to_string()),
            ("drain-timeout", &|it| format!("{:?}", it.drain_timeout)),
            ("drain-delay", &|it| format!("{:?}", it.drain_delay)),
            ("max-connections", &|it| it.sessions_max.to_string()),
            ("max-value", &value),
            ("progress", &|it| it.progress_bytes_min.to_string()),
            ("connect-timeout", &|it| format!("{:?}", it.connect_timeout)),
            ("keepalive", &|it| format!("{:?}", it.tcp.keepalive)),
            ("tcp-user-timeout", &|it| format!("{:?}", it.tcp.user_timeout)),
            ("client-timeout", &patience(|it| it.unread_ns)),
            ("request-timeout", &patience(|it| it.request_ns)),
            ("idle-timeout", &patience(|it| it.idle_ns)),
            ("large-value", &|it| it.large_value_bytes.to_string()),
            ("buffer-limit", &|it| it.buffer_bytes_max.to_string()),
            ("client-buffer", &|it| it.client_buffer_bytes_max.to_string()),
            ("server-buffer", &|it| it.server_buffer_bytes_max.to_string()),
            ("windows", &|it| file(it.windows_file.as_deref())),
            ("trace", &|it| file(it.trace_file.as_deref())),
            ("trace-sample", &|it| it.sampling.share.to_string()),
            ("trace-seed", &|it| it.sampling.seed.to_string()),
            ("allow-flush", &|it| it.flush_allowed.to_string()),
            ("allow-server-commands", &|it| it.server_commands_allowed.to_string()),
            ("multiget", &|it| it.multiget.to_string()),
            ("join-gets", &|it| it.join_gets.to_string()),
            ("on-failure", &|it| it.on_failure.to_string()),
            ("write-policy", &|it| it.replication.write_policy.to_string()),
            ("replicas-required", &|it| it.replication.replicas_required.to_string()),
            ("read", &|it| it.replication.read_policy.to_string()),
            ("on-stale", &|it| it.replication.on_stale.to_string()),
            ("read-repair", &|it| it.replication.read_repair.to_string()),
            ("journal-keys", &|it| it.replication.journal_keys_max.to_string()),
            ("journal-bytes", &|it| it.replication.journal_bytes_max.to_string()),
            ("quarantine", &|it| format!("{:?}", it.replication.quarantine)),
            ("mark-down-timeouts", &|it| it.replication.mark_down_timeouts.to_string()),
            ("mark-down-share", &|it| it.replication.mark_down_share_percent.to_string()),
        ];
        let changed = settings.iter().map(|(name, told)| (name, told(self), told(read)));
        changed
            .filter(|(_, now, then)| now != then)
            .map(|(name, now, then)| format!("{name} stays {now}: {then} needs a restart"))
            .collect()
    }

    /// Sets how writes and reads go where keys have several servers, and whether clients may flush all.
    pub fn with_replication(
        mut self,
        replication: Replication,
        flush_allowed: bool,
    ) -> Result<Self, ConfigError> {
        if replication.read_repair == ReadRepair::On {
            if self.engine != Engine::Event {
                return Err(ConfigError::ReadRepairEngine(self.engine));
            }
            if flush_allowed {
                return Err(ConfigError::ReadRepairFlush);
            }
        }
        (self.replication, self.flush_allowed) = (replication, flush_allowed);
        Ok(self)
    }

    /// Sets how multi-gets are asked for.
    pub fn with_multiget(mut self, multiget: Multiget) -> Result<Self, ConfigError> {
        for pool in self.table.pools() {
            let (servers, replicas) = (pool.router().servers().len(), pool.router().replicas());
            let refused = |reason| ConfigError::NotWhole { pool: pool.name().to_owned(), reason };
            multiget.check(servers, replicas).map_err(refused)?;
        }
        self.multiget = multiget;
        Ok(self)
    }

    /// What the dataplane of loop number `index` is told.
    pub(crate) fn dataplane(&self, index: usize) -> weir_dataplane::Config {
        let defaults = weir_dataplane::Config::default();
        let value_bytes_max = self.value_bytes_max.unwrap_or(defaults.limits.value_bytes_max);
        weir_dataplane::Config {
            loop_index: index,
            // Workers of a pool share nothing: the pool has its own order of writes.
            loop_count: if self.engine == Engine::Event { self.threads } else { 1 },
            owns_keys: self.engine == Engine::Event,
            timeout_ns: nanos(self.timeout),
            progress_bytes_min: self.progress_bytes_min,
            connect_timeout_ns: nanos(self.connect_timeout),
            patience: Patience { progress_bytes: self.progress_bytes_min, ..self.patience },
            buffer_bytes_max: self.buffer_bytes_max,
            // A worker's connections are shared by nobody.
            large_value_bytes: match self.engine {
                Engine::Event => self.large_value_bytes,
                _ => usize::MAX,
            },
            slice_bytes: match self.engine {
                Engine::Event => SLICE_BYTES,
                _ => usize::MAX,
            },
            multiget: self.multiget,
            join_gets: self.join_gets,
            on_failure: self.on_failure,
            write_policy: self.replication.write_policy,
            replicas_required: self.replication.replicas_required,
            read_policy: self.replication.read_policy,
            on_stale: self.replication.on_stale,
            read_repair: self.replication.read_repair,
            journal_keys_max: self.replication.journal_keys_max,
            journal_bytes_max: self.replication.journal_bytes_max,
            quarantine_ns: nanos(self.replication.quarantine),
            mark_down_timeouts: self.replication.mark_down_timeouts,
            mark_down_share_percent: self.replication.mark_down_share_percent,
            // All clients may come to one loop: who may is decided for the process (`client_limit.rs`).
            sessions_max: self.sessions_max,
            limits: weir_protocol::Limits {
                value_bytes_max: value_bytes_max.min(self.client_buffer_bytes_max),
                flush_allowed: self.flush_allowed,
                server_commands_allowed: self.server_commands_allowed,
                ..defaults.limits
            },
            greets_servers: true,
            asks_item_size: self.value_bytes_max.is_none(),
            connects_when_needed: matches!(self.engine, Engine::Split { .. }),
            session_buffer_bytes_max: self.client_buffer_bytes_max,
            server_buffer_bytes_max: self.server_buffer_bytes_max,
            seed: defaults.seed + index as u64,
            ..defaults
        }
    }
}

fn file(path: Option<&Path>) -> String {
    path.map_or("nowhere".to_owned(), |path| path.display().to_string())
}

/// As the dataplane counts time.
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn parse_listen(text: &str) -> Result<Listen, ConfigError> {
    if !text.starts_with("unix:") && !text.starts_with('/') {
        return Ok(Listen::Tcp(resolve("--listen", text)?));
    }
    match text.parse::<Server>().map(|server| (server.is_named(), server.endpoint)) {
        Ok((false, Endpoint::Unix { path })) if text.ends_with(&path) => {
            Ok(Listen::Unix { path: Path::new(&path).to_owned(), mode: LISTEN_MODE })
        }
        _ => Err(ConfigError::Path(text.to_owned())),
    }
}

fn resolve(role: &'static str, address: &str) -> Result<SocketAddr, ConfigError> {
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    if !address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && is_port(port)) {
        return Err(ConfigError::Address { role, address: address.to_owned() });
    }
    let failed = |source| ConfigError::Resolve { role, address: address.to_owned(), source };
    let found = std::net::ToSocketAddrs::to_socket_addrs(address).map_err(failed)?.next();
    found.ok_or_else(|| failed(std::io::Error::other("the name has no address")))
}

/// What a read is asked for at a time: longer than most replies, and a millisecond of a fast link.
const SLICE_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use weir_routing::{Placement, Router};

    fn config(listen: &str, threads: usize) -> Result<Config, ConfigError> {
        let router = Router::new(vec![Server::new("a", 1)], Placement::Modulo, 1);
        Config::new(listen, router.expect("one server is a pool").into(), threads)
    }

    #[test]
    fn sockets_are_told_from_addresses() {
        for text in ["unix:/run/weir.sock", "/run/weir.sock"] {
            let listen = config(text, 1).map(|config| config.listen.to_string());
            assert_eq!(listen.ok().as_deref(), Some("unix:/run/weir.sock"), "{text}");
        }
        for text in ["unix:run/weir.sock", "/run/weir.sock:2", "/run/weir.sock name", "unix:"] {
            assert!(matches!(config(text, 1), Err(ConfigError::Path(_))), "{text}");
        }
        assert!(matches!(config("127.0.0.1:21211", 1).map(|it| it.listen), Ok(Listen::Tcp(_))));
    }

    #[test]
    fn read_repair_is_refused_where_it_could_break_a_promise() {
        let repairing = Replication { read_repair: ReadRepair::On, ..Replication::default() };
        let repair = |engine, flush_allowed| {
            let config = config("127.0.0.1:21211", 1).expect("valid").with_engine(engine).expect("valid");
            config.with_replication(repairing.clone(), flush_allowed).map(|it| it.dataplane(0).read_repair)
        };
        assert!(matches!(repair(Engine::Event, false), Ok(ReadRepair::On)));
        assert!(matches!(repair(Engine::Event, true), Err(ConfigError::ReadRepairFlush)));
        for engine in
            [Engine::Pool { workers: 1, queue_len_max: 1 }, Engine::Split { readers: 1, queue_len_max: 1 }]
        {
            let refusal = repair(engine, false).map_err(|error| error.to_string());
            assert!(refusal.is_err_and(|it| it.starts_with("--read-repair on needs --engine event")));
        }
    }

    #[test]
    fn what_needs_a_restart_is_said() {
        let old = config("127.0.0.1:21211", 1).expect("valid");
        let mut new = config("/run/weir.sock", 2).expect("valid");
        new.timeout = Duration::from_secs(1);
        let expected = [
            "listen stays 127.0.0.1:21211: unix:/run/weir.sock (mode 660) needs a restart",
            "threads stays 1: 2 needs a restart",
        ];
        assert_eq!(old.unchangeable(&new), expected);
        assert!(old.unchangeable(&old).is_empty());
    }
}
