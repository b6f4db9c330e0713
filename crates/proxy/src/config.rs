//! What a proxy is told, checked once.

use std::{
    net::{SocketAddr, ToSocketAddrs},
    time::Duration,
};
use weir_dataplane::{Multiget, NotWhole, OnFailure};
use weir_routing::{Placement, Router};

/// A proxy's configuration. Everything in it has been checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Where `/metrics` and `/snapshot` are answered, if anywhere.
    pub admin: Option<SocketAddr>,
    /// Keys to servers.
    pub router: Router,
    /// Addresses of the router's servers, in the same order.
    pub server_addresses: Vec<SocketAddr>,
    /// Name of the placement.
    pub placement: Placement,
    /// Event loops.
    pub threads: usize,
    /// How long a server may take to answer.
    pub timeout: Duration,
    /// How multi-gets are asked for where keys have several replicas.
    pub multiget: Multiget,
    /// What becomes of retrievals of which a part got no answer.
    pub on_failure: OnFailure,
    /// How long sessions may take to end after a signal to stop.
    pub drain_timeout: Duration,
    /// The most client connections at once, over all loops.
    pub sessions_max: usize,
    /// The longest value that a client may send, in bytes. `None`: what the servers say that they store, and 1 MiB until one has.
    pub value_bytes_max: Option<usize>,
    /// How much one client may make a loop keep, in bytes: of an incomplete request, and of replies that it does not read.
    pub client_buffer_bytes_max: usize,
    /// How much may wait for one server, in bytes, and how much of an incomplete reply is kept.
    pub server_buffer_bytes_max: usize,
    /// Whether clients may `flush_all`.
    pub flush_allowed: bool,
}

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A name could not be resolved.
    #[error("{role} `{address}` cannot be resolved: {source}; give HOST:PORT, for example 127.0.0.1:11211")]
    Resolve {
        /// What the address is for.
        role: &'static str,
        /// As it was given.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// The number of threads is out of range.
    #[error("--threads {0} is out of range: give 1 to {THREADS_MAX}")]
    Threads(usize),
    /// A time of nothing.
    #[error("--timeout must be longer than nothing: every request would fail")]
    Timeout,
    /// No server has all keys of a multi-get.
    #[error("--multiget whole: {0}")]
    NotWhole(#[from] NotWhole),
}

/// More loops than this are a mistake.
const THREADS_MAX: usize = 256;

impl Config {
    /// A proxy in front of the router's servers: checks what can be wrong and fills in the defaults of the rest.
    pub fn new(listen: &str, router: Router, threads: usize) -> Result<Self, ConfigError> {
        let servers = router.servers().iter();
        let server_addresses =
            servers.map(|server| resolve("--server", &server.address())).collect::<Result<Vec<_>, _>>()?;
        if !(1..=THREADS_MAX).contains(&threads) {
            return Err(ConfigError::Threads(threads));
        }
        let defaults = weir_dataplane::Config::default();
        Ok(Self {
            listen: resolve("--listen", listen)?,
            admin: None,
            placement: router.placement(),
            router,
            server_addresses,
            threads,
            timeout: Duration::from_millis(500),
            multiget: Multiget::default(),
            on_failure: OnFailure::default(),
            drain_timeout: Duration::from_secs(10),
            sessions_max: 10_000,
            value_bytes_max: None,
            client_buffer_bytes_max: defaults.session_buffer_bytes_max,
            server_buffer_bytes_max: defaults.server_buffer_bytes_max,
            flush_allowed: false,
        })
    }

    /// Opens the admin port.
    pub fn with_admin(mut self, admin: Option<&str>) -> Result<Self, ConfigError> {
        self.admin = admin.map(|address| resolve("--admin", address)).transpose()?;
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

    /// Sets how multi-gets are asked for.
    pub fn with_multiget(mut self, multiget: Multiget) -> Result<Self, ConfigError> {
        multiget.check(self.router.servers().len(), self.router.replicas())?;
        self.multiget = multiget;
        Ok(self)
    }

    /// What the dataplane of loop number `index` is told.
    pub(crate) fn dataplane(&self, index: usize) -> weir_dataplane::Config {
        let defaults = weir_dataplane::Config::default();
        let value_bytes_max = self.value_bytes_max.unwrap_or(defaults.limits.value_bytes_max);
        weir_dataplane::Config {
            timeout_ns: u64::try_from(self.timeout.as_nanos()).unwrap_or(u64::MAX),
            multiget: self.multiget,
            on_failure: self.on_failure,
            sessions_max: self.sessions_max.div_ceil(self.threads),
            limits: weir_protocol::Limits {
                value_bytes_max: value_bytes_max.min(self.client_buffer_bytes_max),
                flush_allowed: self.flush_allowed,
                ..defaults.limits
            },
            asks_item_size: self.value_bytes_max.is_none(),
            session_buffer_bytes_max: self.client_buffer_bytes_max,
            server_buffer_bytes_max: self.server_buffer_bytes_max,
            seed: defaults.seed + index as u64,
            ..defaults
        }
    }
}

fn resolve(role: &'static str, address: &str) -> Result<SocketAddr, ConfigError> {
    let failed = |source| ConfigError::Resolve { role, address: address.to_owned(), source };
    let nothing = || std::io::Error::other("the name has no address");
    address.to_socket_addrs().map_err(failed)?.next().ok_or_else(nothing).map_err(failed)
}
