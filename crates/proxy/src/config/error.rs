//! Why a configuration was refused: what is wrong, and what to do.

use crate::config::engine::{Engine, READERS_MAX, SPLIT_THREADS_MAX, WORKERS_MAX};
use crate::config::{BATCH_PAUSE_MAX, BUFFER_BYTES_MIN, RESOLVE_EVERY_MIN, THREADS_MAX};
use std::net::SocketAddr;
use weir_dataplane::NotWhole;

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A name could not be resolved.
    #[error(
        "{role} `{address}` cannot be resolved: {source}; check the name, or give an address, for example 127.0.0.1:11211"
    )]
    Resolve {
        /// What the address is for.
        role: &'static str,
        /// As it was given.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// A text that is no address, whatever names there are.
    #[error("{role} `{address}` is no address: give HOST:PORT, for example 127.0.0.1:11211")]
    Address {
        /// What the address is for.
        role: &'static str,
        /// As it was given.
        address: String,
    },
    /// A path at which no socket can be.
    #[error(
        "--listen `{0}` is no path of a socket: give unix:/PATH of at most 107 bytes without spaces, commas and colons"
    )]
    Path(String),
    /// A name that no host has.
    #[error("--admin-host `{0}` is no name of a host: give names without port, with commas between them")]
    AdminHost(String),
    /// The number of threads is out of range.
    #[error("--threads {0} is out of range: give 1 to {THREADS_MAX}")]
    Threads(usize),
    /// The number of workers is out of range.
    #[error("--workers {0} is out of range: give 1 to {WORKERS_MAX}")]
    Workers(usize),
    /// The number of readers is out of range.
    #[error("--readers {0} is out of range: give 1 to {READERS_MAX}")]
    Readers(usize),
    /// There would be too many threads.
    #[error(
        "--readers {readers} and one writer for each of {servers} servers are more than {SPLIT_THREADS_MAX} threads: give fewer readers"
    )]
    SplitThreads {
        /// Readers of each server.
        readers: usize,
        /// How many servers there are.
        servers: usize,
    },
    /// A queue of nothing.
    #[error("--queue must be at least 1: every request would be refused")]
    Queue,
    /// A time of nothing.
    #[error("--timeout must be longer than nothing: every request would fail")]
    Timeout,
    /// No server could be connected to.
    #[error("--connect-timeout must be longer than nothing: no server could be connected to")]
    ConnectTimeout,
    /// With so little nobody could be served.
    #[error("{setting} {given} is too little: {why}; give at least {least}")]
    TooLittle {
        /// The setting.
        setting: &'static str,
        /// What it says.
        given: usize,
        /// What it must say at least.
        least: usize,
        /// What would happen.
        why: &'static str,
    },
    /// The proxy would be its own client.
    #[error(
        "server {server} is where --listen {listen} is: the proxy would ask itself; give memcached's port, or listen elsewhere"
    )]
    OwnServer {
        /// The server.
        server: String,
        /// Where clients connect.
        listen: SocketAddr,
    },
    /// Too little memory for anything.
    #[error("--buffer-limit {0} is too little to serve with: give at least {BUFFER_BYTES_MIN} bytes")]
    BufferLimit(usize),
    /// Requests would be held up.
    #[error("--batch-pause must be at most {BATCH_PAUSE_MAX:?}: requests would be held up for nothing")]
    BatchPause,
    /// Names would be looked up all the time.
    #[error("--resolve-every must be at least {RESOLVE_EVERY_MIN:?}")]
    ResolveEvery,
    /// The mode of a socket is none.
    #[error("--listen-mode {0:o} is no mode: give three octal digits, for example 660")]
    Mode(u32),
    /// No server of a pool has all keys of a multi-get.
    #[error("pool {pool}: --multiget whole: {reason}")]
    NotWhole {
        /// The pool.
        pool: String,
        /// Why.
        reason: NotWhole,
    },
    /// Nobody owns a key there.
    #[error(
        "--read-repair on needs --engine event: the engine {0} has no owner of a key that could put copies back in the order of its writes"
    )]
    ReadRepairEngine(Engine),
    /// A copy could be put back behind a flush.
    #[error(
        "--read-repair on cannot be used with --allow-flush: a copy that is being put back could outlive a client's flush_all"
    )]
    ReadRepairFlush,
}
