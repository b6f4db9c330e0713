//! What a proxy is told besides its pools: by flags, by the environment, or by `[proxy]` of the configuration file.
//!
//! [`Settings`] are one layer, each value checked for itself; [`SettingsTable`] is the file's, before that. What a layer does not say,
//! the next one may: flags over environment over file over defaults.

use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use toml::Spanned;

use weir_proxy::{
    JoinGets, Multiget, OnFailure, OnStale, ReadPolicy, ReadRepair, ReplicasRequired, WritePolicy,
};

use crate::config_file::{Fault, checked_listen, checked_port, checked_timeout, fault, parsed};
use crate::engine::EngineName;
use crate::log::{LogFormat, LogLevel};
use crate::units::{self, Share, SizeText, TimeText};

/// Settings of a proxy. `None`: this layer says nothing.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Where clients connect: HOST:PORT, or unix:/PATH for a socket in the file system; with port 0 the kernel
    /// chooses one, which is said at the start [default: 127.0.0.1:21211]
    #[arg(long, value_name = "ADDRESS", env = "WEIR_LISTEN")]
    pub(crate) listen: Option<String>,
    /// Who may connect to a socket in the file system, as octal digits [default: 660]
    #[arg(long, value_name = "MODE", env = "WEIR_LISTEN_MODE", value_parser = mode)]
    pub(crate) listen_mode: Option<u32>,
    /// Where /metrics, /snapshot, /ready and /reload are answered, as HOST:PORT; nowhere by default
    #[arg(long, value_name = "ADDRESS", env = "WEIR_ADMIN")]
    pub(crate) admin: Option<String>,
    /// Names by which the admin port may be asked, beside addresses, localhost and names without a dot; commas between several
    /// (docs/operations.md)
    #[arg(long, value_name = "NAMES", env = "WEIR_ADMIN_HOST")]
    pub(crate) admin_host: Option<String>,
    /// How requests are served (docs/engines.md) [default: event]
    #[arg(long, value_name = "NAME", env = "WEIR_ENGINE", value_enum)]
    pub(crate) engine: Option<EngineName>,
    /// Event loops; by default one for each core that the process may use (engine event)
    #[arg(long, value_name = "N", env = "WEIR_THREADS")]
    pub(crate) threads: Option<usize>,
    /// How long a loop may wait for more before it writes, when so many clients are active that this costs nobody; 0ms: never
    /// (engine event) [default: 200us]
    #[arg(long, value_name = "TIME", env = "WEIR_BATCH_PAUSE", value_parser = units::duration)]
    pub(crate) batch_pause: Option<Duration>,
    /// Wait that long in every turn: for tests and benchmarks
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) batch_always: Option<bool>,
    /// Workers, each with a connection of its own to every server (engine pool) [default: 8]
    #[arg(long, value_name = "W", env = "WEIR_WORKERS")]
    pub(crate) workers: Option<usize>,
    /// Threads that read from each server, each with a connection of its own (engine split) [default: 8]
    #[arg(long, value_name = "T", env = "WEIR_READERS")]
    pub(crate) readers: Option<usize>,
    /// How many requests may wait in one queue; more are refused with SERVER_ERROR (engine pool or split) [default: 10000]
    #[arg(long, value_name = "N", env = "WEIR_QUEUE")]
    pub(crate) queue: Option<usize>,
    /// How long a server may take until the first byte of its answer before the client gets SERVER_ERROR [default: 500ms]
    #[arg(long, value_name = "TIME", env = "WEIR_TIMEOUT", value_parser = units::duration)]
    pub(crate) timeout: Option<Duration>,
    /// How much of a reply must come within each further --timeout after its first byte, and how much of a long request within
    /// each further --timeout or --request-timeout [default: 64k]
    #[arg(long, value_name = "BYTES", env = "WEIR_PROGRESS", value_parser = units::bytes)]
    pub(crate) progress: Option<usize>,
    /// How long an attempt to connect to a server may take [default: 500ms]
    #[arg(long, value_name = "TIME", env = "WEIR_CONNECT_TIMEOUT", value_parser = units::duration)]
    pub(crate) connect_timeout: Option<Duration>,
    /// How long nothing may come from a client or a server before the kernel asks whether its machine is still there, in whole seconds;
    /// after three questions without an answer the connection ends; 0s: never [default: 60s]
    #[arg(long, value_name = "TIME", env = "WEIR_KEEPALIVE", value_parser = units::duration)]
    pub(crate) keepalive: Option<Duration>,
    /// How long a server's machine may leave unacknowledged what was sent to it before the kernel ends the connection; 0s: as long as
    /// the kernel does by itself [default: 20s]
    #[arg(long, value_name = "TIME", env = "WEIR_TCP_USER_TIMEOUT", value_parser = units::duration)]
    pub(crate) tcp_user_timeout: Option<Duration>,
    /// How long a client may take nothing of the replies that wait for it before it is disconnected; 0s: for ever [default: 30s]
    #[arg(long, value_name = "TIME", env = "WEIR_CLIENT_TIMEOUT", value_parser = units::duration)]
    pub(crate) client_timeout: Option<Duration>,
    /// How long a request may take from its first byte until it is complete, and again for each --progress of it, before the client
    /// is disconnected; 0s: for ever [default: 10s]
    #[arg(long, value_name = "TIME", env = "WEIR_REQUEST_TIMEOUT", value_parser = units::duration)]
    pub(crate) request_timeout: Option<Duration>,
    /// How long a client may say nothing while it is owed nothing before it is disconnected; 0s: for ever [default: 0s]
    #[arg(long, value_name = "TIME", env = "WEIR_IDLE_TIMEOUT", value_parser = units::duration)]
    pub(crate) idle_timeout: Option<Duration>,
    /// How multi-gets are asked for where keys have several replicas: sharded over them, whole from one server (which must hold
    /// every key: --replicas as many as servers), or auto: whichever was faster of late [default: sharded]
    #[arg(long, value_name = "HOW", env = "WEIR_MULTIGET")]
    pub(crate) multiget: Option<Multiget>,
    /// Whether gets of several requests that leave for a server together are put into one message, which costs it less: on or off
    /// [default: on]
    #[arg(long, value_name = "HOW", env = "WEIR_JOIN_GETS")]
    pub(crate) join_gets: Option<JoinGets>,
    /// What becomes of a get of which a server gave no answer: strict: SERVER_ERROR, or degrade: its keys are misses
    /// [default: strict]
    #[arg(long, value_name = "HOW", env = "WEIR_ON_FAILURE")]
    pub(crate) on_failure: Option<OnFailure>,
    /// When a write to several replicas is answered: all that are not marked down have done it, a quorum of all, the first, or
    /// (async) the one that decides (docs/replication.md) [default: all]
    #[arg(long, value_name = "POLICY", env = "WEIR_WRITE_POLICY")]
    pub(crate) write_policy: Option<WritePolicy>,
    /// Which replicas a write needs with --write-policy all: live ones, or all-configured: it fails while one is marked down
    /// [default: live]
    #[arg(long, value_name = "WHICH", env = "WEIR_REPLICAS_REQUIRED")]
    pub(crate) replicas_required: Option<ReplicasRequired>,
    /// Which replica answers a get: primary, spread over all in turn, or nearest: the fastest of late [default: primary]
    #[arg(long, value_name = "POLICY", env = "WEIR_READ")]
    pub(crate) read: Option<ReadPolicy>,
    /// What a get is answered where every server of its key lacks writes, or may: error (SERVER_ERROR stale), or miss
    /// (docs/replication.md) [default: error]
    #[arg(long, value_name = "HOW", env = "WEIR_ON_STALE")]
    pub(crate) on_stale: Option<OnStale>,
    /// Whether a copy that a get found missing is put back, with its flags and the rest of its time to live: on or off; only with
    /// --engine event, and not with --allow-flush (docs/replication.md) [default: off]
    #[arg(long, value_name = "HOW", env = "WEIR_READ_REPAIR")]
    pub(crate) read_repair: Option<ReadRepair>,
    /// How many keys that a server missed are remembered, to be deleted there before it is read again; with more of them it is
    /// flushed [default: 65536]
    #[arg(long, value_name = "N", env = "WEIR_JOURNAL_KEYS")]
    pub(crate) journal_keys: Option<usize>,
    /// The same, in bytes of keys [default: 4m]
    #[arg(long, value_name = "BYTES", env = "WEIR_JOURNAL_BYTES", value_parser = units::bytes)]
    pub(crate) journal_bytes: Option<usize>,
    /// How long a server may still carry out writes of a connection that broke without its doing; twice as long it is not read
    /// [default: 2s]
    #[arg(long, value_name = "TIME", env = "WEIR_QUARANTINE", value_parser = units::duration)]
    pub(crate) quarantine: Option<Duration>,
    /// After how many timeouts in a row, without a byte between them, a server is marked down, and a second connection asks whether it
    /// is the server or only its connection that is silent; 0: never [default: 3]
    #[arg(long, value_name = "N", env = "WEIR_MARK_DOWN_TIMEOUTS")]
    pub(crate) mark_down_timeouts: Option<u32>,
    /// The most servers of a pool that may be marked down by timeouts at once, in percent of them, where keys have several servers and
    /// some of the pool answer [default: 50]
    #[arg(long, value_name = "PERCENT", env = "WEIR_MARK_DOWN_SHARE", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub(crate) mark_down_share: Option<u32>,
    /// How long sessions may take to end after a signal to stop [default: 10s]
    #[arg(long, value_name = "TIME", env = "WEIR_DRAIN_TIMEOUT", value_parser = units::duration)]
    pub(crate) drain_timeout: Option<Duration>,
    /// For how long it goes on serving after SIGTERM while /readyz says that it is not ready, so that no more clients are sent to it
    /// [default: 0s]
    #[arg(long, value_name = "TIME", env = "WEIR_DRAIN_DELAY", value_parser = units::duration)]
    pub(crate) drain_delay: Option<Duration>,
    /// Client connections at once, over all loops; more are told so and closed. Fewer where descriptors do not suffice, which is said at
    /// the start (docs/operations.md) [default: 10000]
    #[arg(long, value_name = "N", env = "WEIR_MAX_CONNECTIONS")]
    pub(crate) max_connections: Option<usize>,
    /// The longest value that a client may store, such as 1m; by default what the servers say that they store (item_size_max)
    #[arg(long, value_name = "BYTES", env = "WEIR_MAX_VALUE", value_parser = units::bytes)]
    pub(crate) max_value: Option<usize>,
    /// How much one client may make the proxy keep: of a request that is not complete, and of replies that it does not read. Larger
    /// values and replies are refused with SERVER_ERROR [default: 64m]
    #[arg(long, value_name = "BYTES", env = "WEIR_CLIENT_BUFFER", value_parser = units::bytes)]
    pub(crate) client_buffer: Option<usize>,
    /// How much may wait for one server, and how much of an incomplete reply is kept. More is refused with SERVER_ERROR
    /// [default: 64m]
    #[arg(long, value_name = "BYTES", env = "WEIR_SERVER_BUFFER", value_parser = units::bytes)]
    pub(crate) server_buffer: Option<usize>,
    /// How much memory all buffers may take together, over all clients and servers (docs/bounds.md); beyond it, long replies and
    /// values are refused with SERVER_ERROR [default: 1g]
    #[arg(long, value_name = "BYTES", env = "WEIR_BUFFER_LIMIT", value_parser = units::bytes)]
    pub(crate) buffer_limit: Option<usize>,
    /// Values that are at least so long go to their server over a connection of their own, so that nobody waits behind them
    /// (engine event, one replica) [default: 256k]
    #[arg(long, value_name = "BYTES", env = "WEIR_LARGE_VALUE", value_parser = units::bytes)]
    pub(crate) large_value: Option<usize>,
    /// Let clients flush_all, on all servers; otherwise they get CLIENT_ERROR [default: false]
    #[arg(long, value_name = "BOOL", env = "WEIR_ALLOW_FLUSH", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    pub(crate) allow_flush: Option<bool>,
    /// Let clients use cache_memlimit, slabs, lru and lru_crawler, which act on all servers; otherwise they get CLIENT_ERROR
    /// [default: false]
    #[arg(long, value_name = "BOOL", env = "WEIR_ALLOW_SERVER_COMMANDS", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    pub(crate) allow_server_commands: Option<bool>,
    /// A file to which one record of measurements is appended per second, as a line of JSON (docs/formats.md); none by default
    #[arg(long, value_name = "FILE", env = "WEIR_WINDOWS")]
    pub(crate) windows: Option<String>,
    /// A file to which a row per sampled request is appended, as CSV (docs/formats.md); none by default
    #[arg(long, value_name = "FILE", env = "WEIR_TRACE")]
    pub(crate) trace: Option<String>,
    /// The probability with which each request is sampled for --trace, above 0 and at most 1 [default: 0.01]
    #[arg(long, value_name = "SHARE", env = "WEIR_TRACE_SAMPLE")]
    pub(crate) trace_sample: Option<Share>,
    /// What the choices of --trace-sample depend on [default: 1]
    #[arg(long, value_name = "NUMBER", env = "WEIR_TRACE_SEED")]
    pub(crate) trace_seed: Option<u64>,
    /// How lines of the log look, which go to standard error (docs/operations.md) [default: text]
    #[arg(long, value_name = "FORMAT", env = "WEIR_LOG_FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormat>,
    /// From which level on lines are written: error, warn or info [default: info]
    #[arg(long, value_name = "LEVEL", env = "WEIR_LOG_LEVEL", value_enum)]
    pub(crate) log_level: Option<LogLevel>,
    /// How often names of servers are looked up again; a server whose name has other addresses is connected to anew [default: 30s]
    #[arg(long, value_name = "TIME", env = "WEIR_RESOLVE_EVERY", value_parser = units::duration)]
    pub(crate) resolve_every: Option<Duration>,
}

impl Settings {
    /// What this layer says, and else what the one below it says.
    pub(crate) fn over(self, below: Self) -> Self {
        Self {
            listen: self.listen.or(below.listen),
            listen_mode: self.listen_mode.or(below.listen_mode),
            admin: self.admin.or(below.admin),
            admin_host: self.admin_host.or(below.admin_host),
            engine: self.engine.or(below.engine),
            threads: self.threads.or(below.threads),
            batch_pause: self.batch_pause.or(below.batch_pause),
            batch_always: self.batch_always.or(below.batch_always),
            workers: self.workers.or(below.workers),
            readers: self.readers.or(below.readers),
            queue: self.queue.or(below.queue),
            timeout: self.timeout.or(below.timeout),
            progress: self.progress.or(below.progress),
            connect_timeout: self.connect_timeout.or(below.connect_timeout),
            keepalive: self.keepalive.or(below.keepalive),
            tcp_user_timeout: self.tcp_user_timeout.or(below.tcp_user_timeout),
            client_timeout: self.client_timeout.or(below.client_timeout),
            request_timeout: self.request_timeout.or(below.request_timeout),
            idle_timeout: self.idle_timeout.or(below.idle_timeout),
            multiget: self.multiget.or(below.multiget),
            join_gets: self.join_gets.or(below.join_gets),
            on_failure: self.on_failure.or(below.on_failure),
            write_policy: self.write_policy.or(below.write_policy),
            replicas_required: self.replicas_required.or(below.replicas_required),
            read: self.read.or(below.read),
            on_stale: self.on_stale.or(below.on_stale),
            read_repair: self.read_repair.or(below.read_repair),
            journal_keys: self.journal_keys.or(below.journal_keys),
            journal_bytes: self.journal_bytes.or(below.journal_bytes),
            quarantine: self.quarantine.or(below.quarantine),
            mark_down_timeouts: self.mark_down_timeouts.or(below.mark_down_timeouts),
            mark_down_share: self.mark_down_share.or(below.mark_down_share),
            drain_timeout: self.drain_timeout.or(below.drain_timeout),
            drain_delay: self.drain_delay.or(below.drain_delay),
            max_connections: self.max_connections.or(below.max_connections),
            max_value: self.max_value.or(below.max_value),
            client_buffer: self.client_buffer.or(below.client_buffer),
            server_buffer: self.server_buffer.or(below.server_buffer),
            buffer_limit: self.buffer_limit.or(below.buffer_limit),
            large_value: self.large_value.or(below.large_value),
            allow_flush: self.allow_flush.or(below.allow_flush),
            allow_server_commands: self.allow_server_commands.or(below.allow_server_commands),
            windows: self.windows.or(below.windows),
            trace: self.trace.or(below.trace),
            trace_sample: self.trace_sample.or(below.trace_sample),
            trace_seed: self.trace_seed.or(below.trace_seed),
            log_format: self.log_format.or(below.log_format),
            log_level: self.log_level.or(below.log_level),
            resolve_every: self.resolve_every.or(below.resolve_every),
        }
    }
}

/// `[proxy]` of a configuration file: the names are those of the flags, the values what the flags take, numbers and truth values
/// without quotes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettingsTable {
    listen: Option<Spanned<String>>,
    listen_mode: Option<Spanned<String>>,
    admin: Option<Spanned<String>>,
    admin_host: Option<String>,
    engine: Option<Spanned<String>>,
    threads: Option<usize>,
    batch_pause: Option<Spanned<TimeText>>,
    workers: Option<usize>,
    readers: Option<usize>,
    queue: Option<usize>,
    timeout: Option<Spanned<TimeText>>,
    progress: Option<Spanned<SizeText>>,
    connect_timeout: Option<Spanned<TimeText>>,
    keepalive: Option<Spanned<TimeText>>,
    tcp_user_timeout: Option<Spanned<TimeText>>,
    client_timeout: Option<Spanned<TimeText>>,
    request_timeout: Option<Spanned<TimeText>>,
    idle_timeout: Option<Spanned<TimeText>>,
    multiget: Option<Spanned<String>>,
    join_gets: Option<Spanned<String>>,
    on_failure: Option<Spanned<String>>,
    write_policy: Option<Spanned<String>>,
    replicas_required: Option<Spanned<String>>,
    read: Option<Spanned<String>>,
    on_stale: Option<Spanned<String>>,
    read_repair: Option<Spanned<String>>,
    journal_keys: Option<usize>,
    journal_bytes: Option<Spanned<SizeText>>,
    quarantine: Option<Spanned<TimeText>>,
    mark_down_timeouts: Option<u32>,
    mark_down_share: Option<Spanned<u32>>,
    drain_timeout: Option<Spanned<TimeText>>,
    drain_delay: Option<Spanned<TimeText>>,
    log_format: Option<Spanned<String>>,
    log_level: Option<Spanned<String>>,
    max_connections: Option<usize>,
    max_value: Option<Spanned<SizeText>>,
    client_buffer: Option<Spanned<SizeText>>,
    server_buffer: Option<Spanned<SizeText>>,
    buffer_limit: Option<Spanned<SizeText>>,
    large_value: Option<Spanned<SizeText>>,
    allow_flush: Option<bool>,
    allow_server_commands: Option<bool>,
    windows: Option<String>,
    trace: Option<String>,
    trace_sample: Option<Share>,
    trace_seed: Option<u64>,
    resolve_every: Option<Spanned<TimeText>>,
}

impl SettingsTable {
    /// What it says, if each is a value that the flag would take.
    pub(crate) fn checked(self) -> Result<Settings, Fault> {
        Ok(Settings {
            listen: self.listen.map(checked_listen).transpose()?,
            listen_mode: read("listen_mode", self.listen_mode.as_ref(), mode)?,
            admin: self.admin.map(checked_port).transpose()?,
            admin_host: self.admin_host.clone(),
            engine: read("engine", self.engine.as_ref(), str::parse)?,
            threads: self.threads,
            batch_pause: read("batch_pause", self.batch_pause.as_ref(), units::duration)?,
            batch_always: None,
            workers: self.workers,
            readers: self.readers,
            queue: self.queue,
            timeout: self.timeout.as_ref().map(checked_timeout).transpose()?,
            progress: read("progress", self.progress.as_ref(), units::bytes)?,
            connect_timeout: read("connect_timeout", self.connect_timeout.as_ref(), units::duration)?,
            keepalive: read("keepalive", self.keepalive.as_ref(), units::duration)?,
            tcp_user_timeout: read("tcp_user_timeout", self.tcp_user_timeout.as_ref(), units::duration)?,
            client_timeout: read("client_timeout", self.client_timeout.as_ref(), units::duration)?,
            request_timeout: read("request_timeout", self.request_timeout.as_ref(), units::duration)?,
            idle_timeout: read("idle_timeout", self.idle_timeout.as_ref(), units::duration)?,
            multiget: parsed(self.multiget)?,
            join_gets: parsed(self.join_gets)?,
            on_failure: parsed(self.on_failure)?,
            write_policy: parsed(self.write_policy)?,
            replicas_required: parsed(self.replicas_required)?,
            read: parsed(self.read)?,
            on_stale: parsed(self.on_stale)?,
            read_repair: parsed(self.read_repair)?,
            journal_keys: self.journal_keys,
            journal_bytes: read("journal_bytes", self.journal_bytes.as_ref(), units::bytes)?,
            quarantine: read("quarantine", self.quarantine.as_ref(), units::duration)?,
            mark_down_timeouts: self.mark_down_timeouts,
            mark_down_share: self.mark_down_share.as_ref().map(percent).transpose()?,
            drain_timeout: read("drain_timeout", self.drain_timeout.as_ref(), units::duration)?,
            drain_delay: read("drain_delay", self.drain_delay.as_ref(), units::duration)?,
            log_format: read("log_format", self.log_format.as_ref(), str::parse)?,
            log_level: read("log_level", self.log_level.as_ref(), str::parse)?,
            max_connections: self.max_connections,
            max_value: read("max_value", self.max_value.as_ref(), units::bytes)?,
            client_buffer: read("client_buffer", self.client_buffer.as_ref(), units::bytes)?,
            server_buffer: read("server_buffer", self.server_buffer.as_ref(), units::bytes)?,
            buffer_limit: read("buffer_limit", self.buffer_limit.as_ref(), units::bytes)?,
            large_value: read("large_value", self.large_value.as_ref(), units::bytes)?,
            allow_flush: self.allow_flush,
            allow_server_commands: self.allow_server_commands,
            windows: self.windows.clone(),
            trace: self.trace.clone(),
            trace_sample: self.trace_sample,
            trace_seed: self.trace_seed,
            resolve_every: read("resolve_every", self.resolve_every.as_ref(), units::duration)?,
        })
    }
}

fn percent(share: &Spanned<u32>) -> Result<u32, Fault> {
    let value = *share.get_ref();
    let refused = || fault(share.span(), &format!("mark_down_share: {value} is more than 100 percent"));
    (value <= 100).then_some(value).ok_or_else(refused)
}

pub(crate) fn read<T>(
    name: &str,
    text: Option<&Spanned<impl AsRef<str>>>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Fault> {
    text.map(|text| {
        parse(text.get_ref().as_ref()).map_err(|reason| fault(text.span(), &format!("{name}: {reason}")))
    })
    .transpose()
}

/// Octal digits, as chmod(1) takes them.
pub(crate) fn mode(text: &str) -> Result<u32, String> {
    let digits = (1..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let mode = digits.then(|| u32::from_str_radix(text, 8).ok()).flatten();
    mode.filter(|mode| *mode <= 0o777)
        .ok_or_else(|| format!("{text:?} is no mode: give three octal digits, such as 660"))
}
