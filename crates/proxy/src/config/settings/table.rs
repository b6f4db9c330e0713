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
    AskOnce, JoinGets, Multiget, NearCheck, OnFailure, OnStale, ReadPolicy, ReadRepair, ReplicasRequired,
    WritePolicy,
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

/// Headings of the help, in its order: flags that are looked for together.
const ADDRESSES: &str = "Addresses";
const TLS: &str = "TLS";
const LOGINS: &str = "Logins";
const SERVING: &str = "Engine and threads";
const TIMEOUTS: &str = "Timeouts";
const FAILURES: &str = "Failures of servers";
const REPLICAS: &str = "Replicas and multi-gets";
const LIMITS: &str = "Limits";
const RECORDS: &str = "Measurements and log";
const SERVERS: &str = "Servers and placement";

/// More threads than this, over all servers, are too many for a machine: each has a stack and several descriptors.
pub(crate) const SPLIT_THREADS_MAX: usize = 4096;

settings! {
    /// What a proxy goes by besides its pools.
    pub struct Settings {
        /// Where clients connect: HOST:PORT, or unix:/PATH for a socket in the file system. Give 0.0.0.0:PORT to serve other
        /// machines. With port 0 the kernel chooses one, and the log names it at the start
        listen: Address { heading: ADDRESSES, default: "127.0.0.1:21211", place: Place::DefaultPool },
        /// Permissions of a socket in the file system, as octal digits: who may connect to it. Give 666 where clients run as other
        /// users
        listen_mode: Mode { heading: ADDRESSES, default: "660", place: Place::DefaultPool },
        /// Where /metrics, /snapshot, /ready and /reload are answered, as HOST:PORT; off by default. Give it for monitoring and
        /// weir top, on an address that only they can reach
        admin: Maybe<Port> { heading: ADDRESSES },
        /// Names by which the admin port may be asked, with commas between several; addresses, localhost and names without a dot
        /// are always taken. Needed where monitoring uses a full name (docs/operate/security.md)
        admin_host: Hosts { heading: ADDRESSES },
        /// A file with one line, the token that questions to the admin port must show (Authorization: Bearer TOKEN), all but
        /// /healthz and /readyz; read again by a reload. Give it where others can reach the port (docs/operate/security.md)
        admin_token_file: Maybe<File> { heading: ADDRESSES, reloads: true },
        /// Speak TLS at the admin port, with the certificate of this PEM file and those behind it that lead to its authority;
        /// read again by a reload. Give it where the network between the port and monitoring is not yours alone
        admin_tls_cert: Maybe<File> { heading: ADDRESSES, reloads: true },
        /// A PEM file with the private key of --admin-tls-cert; by default the same file; read again by a reload
        admin_tls_key: Maybe<File> { heading: ADDRESSES, reloads: true },
        /// Speak TLS to clients, with the certificate of this PEM file and those behind it that lead to its authority; read again
        /// by a reload. Give it where the network between clients and proxy is not yours alone (docs/operate/tls.md)
        tls_cert: Maybe<File> { heading: TLS, engines: EVENT, reloads: true },
        /// A PEM file with the private key of --tls-cert, without a passphrase; by default the same file; read again by a reload
        tls_key: Maybe<File> { heading: TLS, engines: EVENT, reloads: true },
        /// Demand a certificate of every client, signed by an authority of this PEM file; read again by a reload. Give it where
        /// only programs with a certificate may use the cache
        tls_client_ca: Maybe<File> { heading: TLS, engines: EVENT, reloads: true },
        /// How long a client may take from its connection to the end of its TLS handshake before it is disconnected. Raise it for
        /// clients on slow links
        tls_handshake_timeout: Time { heading: TLS, default: "10s", least: "1ms", why: "no client could connect", engines: EVENT },
        /// How many TLS handshakes of clients may be under way at once, over all loops; more are closed. One address may have as
        /// many as are free then, alone half of them. Raise it where more clients connect at once
        tls_handshakes: Number<usize> { heading: TLS, default: "2048", least: "1", why: "no client could connect", engines: EVENT },
        /// Speak TLS to servers, whose names are verified. Turn it on where the network between proxy and servers is not yours
        /// alone (docs/operate/tls.md)
        server_tls: Truth { heading: TLS, default: "false", engines: EVENT, reloads: true, place: Place::Server },
        /// A PEM file with the authorities that sign the certificates of servers; read again by a reload. Needed with --server-tls
        server_ca: Maybe<File> { heading: TLS, engines: EVENT, reloads: true, place: Place::Server },
        /// A PEM file with a certificate that the proxy shows to servers; read again by a reload. Give it where servers demand one
        server_cert: Maybe<File> { heading: TLS, engines: EVENT, reloads: true, place: Place::Server },
        /// A PEM file with the private key of --server-cert, without a passphrase; by default the same file
        server_key: Maybe<File> { heading: TLS, engines: EVENT, reloads: true, place: Place::Server },
        /// The name that the certificate of every server has to have; by default the host as the server is given. Give it for
        /// servers by address, or by socket, with one certificate
        server_name: Maybe<Text> { heading: TLS, value: "NAME", engines: EVENT, reloads: true, place: Place::Server },
        /// Clients must log in, as to memcached -Y: with a name and a password of this file, which has a line user:password for each;
        /// read again by a reload. Give it where not everybody who reaches the port may use the cache (docs/operate/logins.md)
        auth_file: Maybe<File> { heading: LOGINS, engines: EVENT, reloads: true },
        /// How long a client may take from its connection to its login before it is disconnected; 0s: for ever. Raise it for
        /// clients on slow links
        auth_timeout: Time { heading: LOGINS, default: "10s", engines: EVENT },
        /// A file whose first line, user:password, is how the proxy logs in to servers that want it (memcached -Y); read again by a
        /// reload. Give it where servers are started with -Y
        server_auth_file: Maybe<File> { heading: LOGINS, engines: EVENT, reloads: true, place: Place::Server },
        /// How requests are served (docs/understand/engines.md). Keep event, unless you compare ways of serving
        engine: Choice<Engine> { heading: SERVING, default: "event", value: "NAME", lists_words: true },
        /// Event loops; by default one for each core that the process may use. Give fewer where other programs need the cores
        threads: Loops { heading: SERVING, least: "1", most: "256", engines: EVENT },
        /// How long a loop may wait for more requests to send together, when enough clients are active for this to cost nobody;
        /// 0ms: never. Give 0ms to rule it out as a cause when you look into latency
        batch_pause: Time { heading: SERVING, default: "200us", most: "1ms", why: "requests would be held up for nothing", engines: EVENT },
        /// Wait that long in every turn: for tests and benchmarks
        batch_always: Truth { heading: SERVING, default: "false", place: Place::Flag, hidden: true },
        /// Worker threads, each with a connection of its own to every server. More of them wait for more servers at once, and need
        /// more memory and connections
        workers: Number<usize> { heading: SERVING, default: "8", value: "W", least: "1", most: "1024", engines: POOL },
        /// Threads that read from each server, each with a connection of its own. More of them read more at once, and need more
        /// memory and connections
        readers: Number<usize> { heading: SERVING, default: "8", value: "T", least: "1", most: "256", engines: SPLIT },
        /// How many requests may wait in one queue; more are refused with SERVER_ERROR. Lower it to refuse sooner under overload,
        /// raise it to take longer bursts
        queue: Number<usize> { heading: SERVING, default: "10000", least: "1", why: "every request would be refused", engines: THREADED },
        /// How many threads of a queue serve at once where threads wait for processors: adaptive: as few as bring the same
        /// throughput, or fixed: always all of them. Use fixed to compare numbers of threads
        crew: Choice<CrewPolicy> { heading: SERVING, default: "adaptive", engines: THREADED },
        /// How long a server may take until the first byte of its reply before the client gets SERVER_ERROR. Keep it above the
        /// slowest reply of a healthy server and below the timeout of your clients
        timeout: Time { heading: TIMEOUTS, default: "500ms", place: Place::AllPools, reloads: true, least: "1us", why: "every request would fail" },
        /// How many bytes of a reply must come within each further --timeout after its first byte, and of a long request within
        /// each further --timeout or --request-timeout. Lower it for slow links
        progress: Size { heading: TIMEOUTS, default: "64k" },
        /// How long an attempt to connect to a server may take. Raise it for servers that are far away
        connect_timeout: Time { heading: TIMEOUTS, default: "500ms", least: "1us", why: "no server could be connected to" },
        /// After how long without a byte from a client or a server the kernel asks whether its machine is still there, in whole
        /// seconds; after three questions without an answer the connection ends; 0s: never. Lower it where a firewall forgets idle
        /// connections sooner
        keepalive: Time { heading: TIMEOUTS, default: "60s" },
        /// How long a server's machine may leave unacknowledged what was sent to it before the kernel ends the connection; 0s: as
        /// long as the kernel does by itself. Lower it to notice dead machines sooner
        tcp_user_timeout: Time { heading: TIMEOUTS, default: "20s" },
        /// How long a client may leave its replies unread before it is disconnected; 0s: for ever. Raise it for clients that pause
        /// in the middle of reading
        client_timeout: Time { heading: TIMEOUTS, default: "30s" },
        /// How long a request may take from its first byte until it is complete, and again for each --progress of it, before the
        /// client is disconnected; 0s: for ever. Raise it for clients on slow links
        request_timeout: Time { heading: TIMEOUTS, default: "10s" },
        /// How long a client may send nothing while no reply is due before it is disconnected; 0s: for ever. Set it where clients
        /// leave connections open
        idle_timeout: Time { heading: TIMEOUTS, default: "0s" },
        /// How long clients may take to finish after a signal to stop. Keep it below the time after which your supervisor kills the
        /// process
        drain_timeout: Time { heading: TIMEOUTS, default: "10s" },
        /// How long to go on serving after SIGTERM while /readyz says that it is not ready, so that no more clients are sent to it.
        /// Set it a little above the interval at which your load balancer asks
        drain_delay: Time { heading: TIMEOUTS, default: "0s" },
        /// How often names of servers are looked up again; a server whose name has other addresses is connected to anew. Lower it
        /// where addresses change often
        resolve_every: Time { heading: TIMEOUTS, default: "30s", least: "100ms", reloads: true },
        /// What a get is answered when a server gave no reply: strict: SERVER_ERROR, or degrade: its keys are misses. Use degrade
        /// if your application copes better with misses than with errors
        on_failure: Choice<OnFailure> { heading: FAILURES, default: "strict", place: Place::AllPools },
        /// After how many timeouts in a row, without a byte between them, a server is marked down and asked over a second
        /// connection; 0: never. Raise it if healthy servers pause for longer
        mark_down_timeouts: Number<u32> { heading: FAILURES, default: "3" },
        /// The most servers of a pool that timeouts may mark down at once, in percent, where keys have several servers and some of
        /// the pool answer. Lower it to keep more servers in use when the network is slow
        mark_down_share: Number<u32> { heading: FAILURES, default: "50", value: "PERCENT", most: "100" },
        /// How multi-gets are asked for where keys have several replicas: sharded: split over them, whole: from one server (which
        /// must hold every key: --replicas as many as servers), or auto: whichever was faster lately. Try auto where most reads
        /// are multi-gets
        multiget: Choice<Multiget> { heading: REPLICAS, default: "sharded", place: Place::AllPools },
        /// When a write to several replicas is answered: all: each that is not marked down has done it; quorum: most of all have;
        /// first: one has; async: the one that decides has. Those further on answer sooner and promise less
        /// (docs/understand/replication.md)
        write_policy: Choice<WritePolicy> { heading: REPLICAS, default: "all", value: "POLICY" },
        /// Which replicas a write needs with --write-policy all: live: those not marked down, or all-configured: it fails while one
        /// is marked down. Use all-configured where a write must never be on fewer servers
        replicas_required: Choice<ReplicasRequired> { heading: REPLICAS, default: "live", value: "WHICH" },
        /// Which replica answers a get: primary, spread: all in turn, or nearest: the fastest lately. Use spread to share out the
        /// reads of popular keys, nearest where some servers are further away
        read: Choice<ReadPolicy> { heading: REPLICAS, default: "primary", value: "POLICY" },
        /// What a get is answered when every server of its key lacks writes, or may: error (SERVER_ERROR stale), or miss. Use miss
        /// if your application then reads from its database (docs/understand/replication.md)
        on_stale: Choice<OnStale> { heading: REPLICAS, default: "error" },
        /// Whether a copy that a get found missing is put back, with its flags and the rest of its time to live: on or off. Turn it
        /// on to refill servers that were restarted; only with --engine event, and not with --allow-flush
        /// (docs/understand/replication.md)
        read_repair: Choice<ReadRepair> { heading: REPLICAS, default: "off" },
        /// How many keys that a server missed are remembered, to be deleted there before it is read again; with more of them it is
        /// flushed. Raise it if a server is flushed after short outages
        journal_keys: Number<usize> { heading: REPLICAS, default: "65536" },
        /// The same limit, in bytes of keys. Raise both together
        journal_bytes: Size { heading: REPLICAS, default: "4m" },
        /// How long a server may still carry out writes of a connection that the proxy or the kernel ended; for twice as long it is
        /// not read. Raise it if servers may freeze for longer (docs/understand/replication.md)
        quarantine: Time { heading: REPLICAS, default: "2s" },
        /// Whether gets of several requests that leave for a server together are put into one message, which costs the server less:
        /// on or off. Use off to see every request by itself at the server
        join_gets: Choice<JoinGets> { heading: REPLICAS, default: "on" },
        /// Whether a get waits for the reply to an earlier get of its key that is with the server already: on or off. Turn it on
        /// where many clients ask for the same keys at once, and all that write those keys come through this process
        /// (docs/operate/hot-keys.md)
        ask_once: Choice<AskOnce> { heading: REPLICAS, default: "off", engines: EVENT },
        /// How long a get that has missed waits for another client to fill the key, which missed it before; 0ms: not at all. Turn it
        /// on where many clients miss the same key and each asks the database then; give a little more than it takes to fill a
        /// key (docs/operate/hot-keys.md)
        fill_wait: Time { heading: REPLICAS, default: "0s", most: "10s", why: "clients would wait for what nobody fills", engines: EVENT },
        /// How many values of the keys that are asked for most each loop keeps, to answer gets itself; 0: none. Turn it on where few
        /// keys have most of the reads, and all that write those keys come through this process (docs/operate/hot-keys.md)
        near_cache: Number<usize> { heading: REPLICAS, default: "0", value: "COUNT", most: "65536", engines: EVENT },
        /// How much memory these values may take in each loop. Raise it if near_full counts
        near_cache_bytes: Size { heading: REPLICAS, default: "8m", least: "4k", why: "no value would be kept", engines: EVENT },
        /// How long after it was asked for a value may be answered: by this it may be older than what another proxy wrote. Lower it
        /// if your clients cannot bear that, or turn --near-cache-check on
        near_cache_age: Time { heading: REPLICAS, default: "1s", least: "1ms", most: "60s", why: "values would be old for long", engines: EVENT },
        /// Whether its server is asked, before a value is answered, if the item has changed: on or off. Turn it on where others
        /// write the keys, too, and values are long: only their way is saved (docs/operate/hot-keys.md)
        near_cache_check: Choice<NearCheck> { heading: REPLICAS, default: "off", engines: EVENT },
        /// Client connections at once, over all loops; more get an error and are closed. Raise it together with the limit of file
        /// descriptors: with too few of them it is lowered, as the log says at the start (docs/operate/run.md)
        max_connections: Number<usize> { heading: LIMITS, default: "10000", place: Place::DefaultPool, least: "1", why: "no client could connect" },
        /// How many connections the kernel keeps until the proxy accepts them; more have to try again, a second later. Raise it,
        /// and net.core.somaxconn, where many clients connect at once
        listen_backlog: Number<u32> { heading: LIMITS, default: "1024", least: "1", most: "65535" },
        /// The longest value that a client may store, such as 1m; by default what the servers say that they store (item_size_max).
        /// Give it to allow less
        max_value: Maybe<Size> { heading: LIMITS, least: "1b", why: "clients could store nothing" },
        /// How much one client may make the proxy keep: of an incomplete request, and of replies that it does not read. Larger
        /// values and replies are refused with SERVER_ERROR. Raise it for multi-gets of large values
        client_buffer: Size { heading: LIMITS, default: "64m", least: "4k", why: "no reply would fit that is longer" },
        /// How much may wait for one server, and how much of an incomplete reply is kept. More is refused with SERVER_ERROR. Raise
        /// it for values that are larger
        server_buffer: Size { heading: LIMITS, default: "64m", least: "4k", why: "no reply would fit that is longer" },
        /// How much memory all buffers may take together, over all clients and servers; beyond it, long replies and values are
        /// refused with SERVER_ERROR. Keep it below the memory that the process may use (docs/operate/limits.md)
        buffer_limit: Size { heading: LIMITS, default: "1g", least: "16m", why: "one client may ask for more" },
        /// Values of at least this size go to their server over a connection of their own, so that nobody waits behind them (engine
        /// event, one replica). Lower it where small requests wait behind values of less
        large_value: Size { heading: LIMITS, default: "256k" },
        /// Let clients use flush_all, on all servers; otherwise they get CLIENT_ERROR. Leave it off where several applications
        /// share the cache
        allow_flush: Truth { heading: LIMITS, default: "false" },
        /// Let clients use cache_memlimit, slabs, lru and lru_crawler, which act on all servers; otherwise they get CLIENT_ERROR.
        /// Turn it on for tools that tune servers through the proxy
        allow_server_commands: Truth { heading: LIMITS, default: "false" },
        /// A file to which one record of measurements is appended per second, as a line of JSON (docs/reference/formats.md); none
        /// by default. Give it to keep measurements for later
        windows: Maybe<File> { heading: RECORDS },
        /// A file to which a row per sampled request is appended, as CSV (docs/reference/formats.md); none by default. Give it to
        /// see the stages of single requests
        trace: Maybe<File> { heading: RECORDS },
        /// The probability with which a request is sampled for --trace, above 0 and at most 1. Raise it to see rare requests; the
        /// file grows with it
        trace_sample: Share { heading: RECORDS, default: "0.01" },
        /// Seed of the random choices of --trace-sample. Another seed samples other requests
        trace_seed: Number<u64> { heading: RECORDS, default: "1", value: "NUMBER" },
        /// How many of the keys that are asked for most each thread keeps count of, for /hot, stats hot and weir top
        /// (docs/operate/hot-keys.md); 0: none. Raise it to see keys that are less hot, too
        hot_keys: Number<usize> { heading: RECORDS, default: "256", value: "COUNT", most: "1024" },
        /// Let /hot, stats hot and weir top show keys as they are; otherwise they show hashes of them. Leave it off where a key
        /// says something that not everybody who may connect is to know (docs/operate/security.md)
        show_keys: Truth { heading: RECORDS, default: "false", reloads: true },
        /// How lines of the log look, which go to standard error (docs/operate/run.md). Use json where a program reads them
        log_format: Choice<LogFormat> { heading: RECORDS, default: "text", value: "FORMAT", lists_words: true },
        /// From which level on lines are written: error, warn or info. Use warn to leave out what is normal
        log_level: Choice<LogLevel> { heading: RECORDS, default: "info", value: "LEVEL", lists_words: true },
    }
}

settings! {
    /// How keys are placed on the servers of a pool.
    pub struct PoolSettings {
        /// On how many servers each key is kept. With 2 or more, keys can be read while a server is down
        /// (docs/understand/replication.md)
        replicas: Number<usize> { heading: SERVERS, default: "1", value: "R", reloads: true, place: Place::Pool },
        /// How keys are placed on servers (docs/understand/placement.md): modulo, ring, jump, rendezvous, libmemcached/…,
        /// twemproxy/…, mcrouter/…, memcached-proxy/…, spymemcached, ketama. Give the one that filled your servers, or keys move
        placement: Named<Placement> { heading: SERVERS, default: "libmemcached/ketama-weighted", reloads: true, place: Place::Pool },
        /// The hash function of keys, where the placement has a choice; by default its own. Give the one that your old proxy or
        /// clients used
        hash: Maybe<Named<KeyHash>> { heading: SERVERS, reloads: true, place: Place::Pool },
        /// Two characters, such as {}: of a key with text between them, only that text decides where it goes. Use it to keep
        /// related keys on one server
        hash_tag: Maybe<Named<HashTag>> { heading: SERVERS, value: "PAIR", reloads: true, place: Place::Pool },
        /// mcrouter's salt, or the seed text of memcached's proxy (jump). Give it if your old configuration has one
        salt: Text { heading: SERVERS, reloads: true, place: Place::Pool },
    }
}
