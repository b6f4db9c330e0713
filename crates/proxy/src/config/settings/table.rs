//! The settings: one row each, in the order of the help.
//!
//! A row is the help text, the name in the file, the kind of its values, and the columns of [`Setting`] that it needs. From it come
//! the flag `--some-name`, the variable `WEIR_SOME_NAME`, the key `some_name` of the file, `/config`, `stats settings`, what a reload
//! reports, and the table of docs/reference/configuration.md (`WEIR_WRITE_DOCS=1 cargo test -p weir options_table`). What is to be done with a
//! setting is said elsewhere, where its value is used: look for its name.

use super::{
    CrewPolicy, Engine, Layer, LogFormat, LogLevel, Place, Setting, Table,
    kinds::{
        Address, Choice, File, Hosts, Kind, Loops, Maybe, Mode, Named, Number, Port, Share, Size, Text, Time,
        Truth,
    },
};
use weir_dataplane::{
    JoinGets, Multiget, OnFailure, OnStale, ReadPolicy, ReadRepair, ReplicasRequired, WritePolicy,
};
use weir_routing::{HashTag, KeyHash, Placement};

macro_rules! settings {
    ($(#[$about:meta])* pub struct $table:ident {
        $($(#[doc = $help:literal])+ $name:ident: $kind:ty { $($column:ident: $value:expr),* },)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $table {
            $($(#[doc = $help])+ pub $name: <$kind as Kind>::Value,)+
        }

        impl Table for $table {
            const ROWS: &'static [Setting] = &[
                $(Setting {
                    $($column: $value,)*
                    ..Setting::of::<$kind>(stringify!($name), concat!($($help),+))
                },)+
            ];

            fn of(layer: &Layer) -> Self {
                let mut rows = Self::ROWS.iter();
                $(let $name = {
                    let row = rows.next().expect("there is a row for each field");
                    match layer.get(row.name) {
                        Some(text) => <$kind>::parse(text).expect("a layer has only what its rows take"),
                        None => <$kind>::otherwise(row),
                    }
                };)+
                Self { $($name,)+ }
            }

            fn entries(&self) -> Vec<(&'static Setting, Option<String>)> {
                Self::ROWS.iter().zip([$(<$kind>::text(&self.$name),)+]).collect()
            }

            fn take_reloadable(&mut self, read: &Self) {
                let mut rows = Self::ROWS.iter();
                $(if rows.next().is_some_and(|row| row.reloads) {
                    self.$name.clone_from(&read.$name);
                })+
            }
        }

        impl Default for $table {
            fn default() -> Self {
                Self::of(&Layer::default())
            }
        }
    };
}

const EVENT: &[Engine] = &[Engine::Event];
const POOL: &[Engine] = &[Engine::Pool];
const SPLIT: &[Engine] = &[Engine::Split];
const THREADED: &[Engine] = &[Engine::Pool, Engine::Split];

/// More threads than this, over all servers, are too many for a machine: each has a stack and several descriptors.
pub(crate) const SPLIT_THREADS_MAX: usize = 4096;

settings! {
    /// What a proxy goes by besides its pools.
    pub struct Settings {
        /// Where clients connect: HOST:PORT, or unix:/PATH for a socket in the file system; with port 0 the kernel chooses one,
        /// which is said at the start
        listen: Address { default: "127.0.0.1:21211", place: Place::DefaultPool },
        /// Who may connect to a socket in the file system, as octal digits
        listen_mode: Mode { default: "660", place: Place::DefaultPool },
        /// Where /metrics, /snapshot, /ready and /reload are answered, as HOST:PORT; nowhere by default
        admin: Maybe<Port> {},
        /// Names by which the admin port may be asked, beside addresses, localhost and names without a dot; commas between several
        /// (docs/operate/run.md)
        admin_host: Hosts {},
        /// How requests are served (docs/understand/engines.md)
        engine: Choice<Engine> { default: "event", value: "NAME", lists_words: true },
        /// Event loops; by default one for each core that the process may use
        threads: Loops { least: "1", most: "256", engines: EVENT },
        /// How long a loop may wait for more before it writes, when enough clients are active for this to cost nobody; 0ms: never
        batch_pause: Time { default: "200us", most: "1ms", why: "requests would be held up for nothing", engines: EVENT },
        /// Wait that long in every turn: for tests and benchmarks
        batch_always: Truth { default: "false", place: Place::Flag, hidden: true },
        /// Workers, each with a connection of its own to every server
        workers: Number<usize> { default: "8", value: "W", least: "1", most: "1024", engines: POOL },
        /// Threads that read from each server, each with a connection of its own
        readers: Number<usize> { default: "8", value: "T", least: "1", most: "256", engines: SPLIT },
        /// How many requests may wait in one queue; more are refused with SERVER_ERROR
        queue: Number<usize> { default: "10000", least: "1", why: "every request would be refused", engines: THREADED },
        /// How many workers of a queue serve at once where threads wait for processors: adaptive: as few as bring as much, or fixed:
        /// always all of them
        crew: Choice<CrewPolicy> { default: "adaptive", engines: THREADED },
        /// How long a server may take until the first byte of its answer before the client gets SERVER_ERROR
        timeout: Time { default: "500ms", place: Place::AllPools, reloads: true, least: "1us", why: "every request would fail" },
        /// How much of a reply must come within each further --timeout after its first byte, and how much of a long request within
        /// each further --timeout or --request-timeout
        progress: Size { default: "64k" },
        /// How long an attempt to connect to a server may take
        connect_timeout: Time { default: "500ms", least: "1us", why: "no server could be connected to" },
        /// How long nothing may come from a client or a server before the kernel asks whether its machine is still there, in whole
        /// seconds; after three questions without an answer the connection ends; 0s: never
        keepalive: Time { default: "60s" },
        /// How long a server's machine may leave unacknowledged what was sent to it before the kernel ends the connection; 0s: as
        /// long as the kernel does by itself
        tcp_user_timeout: Time { default: "20s" },
        /// How long a client may take nothing of the replies that wait for it before it is disconnected; 0s: for ever
        client_timeout: Time { default: "30s" },
        /// How long a request may take from its first byte until it is complete, and again for each --progress of it, before the
        /// client is disconnected; 0s: for ever
        request_timeout: Time { default: "10s" },
        /// How long a client may say nothing while it is owed nothing before it is disconnected; 0s: for ever
        idle_timeout: Time { default: "0s" },
        /// How multi-gets are asked for where keys have several replicas: sharded over them, whole from one server (which must hold
        /// every key: --replicas as many as servers), or auto: whichever was faster of late
        multiget: Choice<Multiget> { default: "sharded", place: Place::AllPools },
        /// Whether gets of several requests that leave for a server together are put into one message, which costs it less: on or
        /// off
        join_gets: Choice<JoinGets> { default: "on" },
        /// What becomes of a get of which a server gave no answer: strict: SERVER_ERROR, or degrade: its keys are misses
        on_failure: Choice<OnFailure> { default: "strict", place: Place::AllPools },
        /// When a write to several replicas is answered: all that are not marked down have done it, a quorum of all, the first, or
        /// (async) the one that decides (docs/understand/replication.md)
        write_policy: Choice<WritePolicy> { default: "all", value: "POLICY" },
        /// Which replicas a write needs with --write-policy all: live ones, or all-configured: it fails while one is marked down
        replicas_required: Choice<ReplicasRequired> { default: "live", value: "WHICH" },
        /// Which replica answers a get: primary, spread over all in turn, or nearest: the fastest of late
        read: Choice<ReadPolicy> { default: "primary", value: "POLICY" },
        /// What a get is answered where every server of its key lacks writes, or may: error (SERVER_ERROR stale), or miss
        /// (docs/understand/replication.md)
        on_stale: Choice<OnStale> { default: "error" },
        /// Whether a copy that a get found missing is put back, with its flags and the rest of its time to live: on or off; only
        /// with --engine event, and not with --allow-flush (docs/understand/replication.md)
        read_repair: Choice<ReadRepair> { default: "off" },
        /// How many keys that a server missed are remembered, to be deleted there before it is read again; with more of them it is
        /// flushed
        journal_keys: Number<usize> { default: "65536" },
        /// The same, in bytes of keys
        journal_bytes: Size { default: "4m" },
        /// How long a server may still carry out writes of a connection that broke without its doing; twice as long it is not read
        quarantine: Time { default: "2s" },
        /// After how many timeouts in a row, without a byte between them, a server is marked down, and a second connection asks
        /// whether it is the server or only its connection that is silent; 0: never
        mark_down_timeouts: Number<u32> { default: "3" },
        /// The most servers of a pool that may be marked down by timeouts at once, in percent of them, where keys have several
        /// servers and some of the pool answer
        mark_down_share: Number<u32> { default: "50", value: "PERCENT", most: "100" },
        /// How long sessions may take to end after a signal to stop
        drain_timeout: Time { default: "10s" },
        /// For how long it goes on serving after SIGTERM while /readyz says that it is not ready, so that no more clients are sent
        /// to it
        drain_delay: Time { default: "0s" },
        /// Client connections at once, over all loops; more get an error and are closed. Fewer where descriptors do not suffice, which
        /// is said at the start (docs/operate/run.md)
        max_connections: Number<usize> { default: "10000", place: Place::DefaultPool, least: "1", why: "no client could connect" },
        /// The longest value that a client may store, such as 1m; by default what the servers say that they store (item_size_max)
        max_value: Maybe<Size> { least: "1b", why: "clients could store nothing" },
        /// How much one client may make the proxy keep: of a request that is not complete, and of replies that it does not read.
        /// Larger values and replies are refused with SERVER_ERROR
        client_buffer: Size { default: "64m", least: "4k", why: "no reply would fit that is longer" },
        /// How much may wait for one server, and how much of an incomplete reply is kept. More is refused with SERVER_ERROR
        server_buffer: Size { default: "64m", least: "4k", why: "no reply would fit that is longer" },
        /// How much memory all buffers may take together, over all clients and servers (docs/operate/limits.md); beyond it, long replies
        /// and values are refused with SERVER_ERROR
        buffer_limit: Size { default: "1g", least: "16m", why: "one client may ask for more" },
        /// Values that are at least so long go to their server over a connection of their own, so that nobody waits behind them
        /// (engine event, one replica)
        large_value: Size { default: "256k" },
        /// Let clients flush_all, on all servers; otherwise they get CLIENT_ERROR
        allow_flush: Truth { default: "false" },
        /// Let clients use cache_memlimit, slabs, lru and lru_crawler, which act on all servers; otherwise they get CLIENT_ERROR
        allow_server_commands: Truth { default: "false" },
        /// A file to which one record of measurements is appended per second, as a line of JSON (docs/reference/formats.md); none by default
        windows: Maybe<File> {},
        /// A file to which a row per sampled request is appended, as CSV (docs/reference/formats.md); none by default
        trace: Maybe<File> {},
        /// The probability with which each request is sampled for --trace, above 0 and at most 1
        trace_sample: Share { default: "0.01" },
        /// What the choices of --trace-sample depend on
        trace_seed: Number<u64> { default: "1", value: "NUMBER" },
        /// How lines of the log look, which go to standard error (docs/operate/run.md)
        log_format: Choice<LogFormat> { default: "text", value: "FORMAT", lists_words: true },
        /// From which level on lines are written: error, warn or info
        log_level: Choice<LogLevel> { default: "info", value: "LEVEL", lists_words: true },
        /// How often names of servers are looked up again; a server whose name has other addresses is connected to anew
        resolve_every: Time { default: "30s", least: "100ms", reloads: true },
    }
}

settings! {
    /// How keys are placed on the servers of a pool.
    pub struct PoolSettings {
        /// On how many servers each key is kept
        replicas: Number<usize> { default: "1", value: "R", reloads: true, place: Place::Pool },
        /// How keys are placed on servers (docs/understand/placement.md): modulo, ring, jump, rendezvous, libmemcached/…, twemproxy/…, mcrouter/…,
        /// memcached-proxy/…, spymemcached, ketama
        placement: Named<Placement> { default: "libmemcached/ketama-weighted", reloads: true, place: Place::Pool },
        /// The hash function of keys, where the placement has a choice; by default its own
        hash: Maybe<Named<KeyHash>> { reloads: true, place: Place::Pool },
        /// Two characters: of keys with text between them, that text alone decides
        hash_tag: Maybe<Named<HashTag>> { value: "PAIR", reloads: true, place: Place::Pool },
        /// mcrouter's salt, or the seed text of memcached's proxy (jump)
        salt: Text { reloads: true, place: Place::Pool },
    }
}
