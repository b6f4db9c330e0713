//! `weir proxy`.

use crate::{pool::PoolArgs, units};
use clap::Args;
use std::{error::Error, process::ExitCode, time::Duration};
use weir_proxy::{Config, Multiget, OnFailure};

/// Stand between memcached clients and memcached servers.
#[derive(Args, Debug)]
#[command(after_help = "\
Example: weir proxy --listen 127.0.0.1:21211 --server 127.0.0.1:11211 --server 127.0.0.1:11212 --admin 127.0.0.1:21280

SIGTERM and SIGINT stop it: no more clients are accepted, what was taken is answered, and it ends with status 0.")]
pub(crate) struct ProxyArgs {
    /// Where clients connect [default: the file's, or 127.0.0.1:21211]
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    #[command(flatten)]
    pool: PoolArgs,
    /// Event loops
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Where /metrics and /snapshot are answered; nowhere by default
    #[arg(long, value_name = "HOST:PORT")]
    admin: Option<String>,
    /// How long a server may take to answer before the client gets SERVER_ERROR [default: the file's, or 500ms]
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    timeout: Option<Duration>,
    /// How multi-gets are asked for where keys have several replicas: sharded over them, whole from one server (which must hold
    /// every key: --replicas as many as servers), or auto: whichever was faster of late [default: the file's, or sharded]
    #[arg(long, value_name = "HOW")]
    multiget: Option<Multiget>,
    /// What becomes of a get of which a server gave no answer: strict: SERVER_ERROR, or degrade: its keys are misses
    /// [default: the file's, or strict]
    #[arg(long, value_name = "HOW")]
    on_failure: Option<OnFailure>,
    /// How long sessions may take to end after a signal to stop
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration)]
    drain_timeout: Duration,
    /// Client connections at once; more are told so and closed
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    max_connections: usize,
    /// The longest value that a client may store, such as 1m; by default what the servers say that they store (item_size_max)
    #[arg(long, value_name = "BYTES", value_parser = units::bytes)]
    max_value: Option<usize>,
    /// How much one client may make the proxy keep: of a request that is not complete, and of replies that it does not read. Larger
    /// values and replies are refused with SERVER_ERROR
    #[arg(long, value_name = "BYTES", default_value = "64m", value_parser = units::bytes)]
    client_buffer: usize,
    /// How much may wait for one server, and how much of an incomplete reply is kept. More is refused with SERVER_ERROR
    #[arg(long, value_name = "BYTES", default_value = "64m", value_parser = units::bytes)]
    server_buffer: usize,
    /// Let clients flush_all, on all servers; otherwise they get CLIENT_ERROR
    #[arg(long)]
    allow_flush: bool,
}

impl ProxyArgs {
    /// Runs until it is stopped.
    pub(crate) fn run(&self) -> ExitCode {
        let config = match self.config() {
            Ok(config) => config,
            Err(error) => return crate::fail(2, &error),
        };
        match weir_proxy::run(&config, announce) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => crate::fail(1, &error),
        }
    }

    fn config(&self) -> Result<Config, Box<dyn Error>> {
        let pool = self.pool.load()?;
        let listen = self.listen.as_deref().or(pool.listen.as_deref()).unwrap_or(LISTEN);
        let mut config = Config::new(listen, pool.router, self.threads)?
            .with_admin(self.admin.as_deref())?
            .with_timeout(self.timeout.or(pool.timeout).unwrap_or(TIMEOUT))?
            .with_multiget(self.multiget.or(pool.multiget).unwrap_or_default())?;
        config.on_failure = self.on_failure.or(pool.on_failure).unwrap_or_default();
        config.drain_timeout = self.drain_timeout;
        config.sessions_max = self.max_connections;
        config.value_bytes_max = self.max_value;
        config.client_buffer_bytes_max = self.client_buffer;
        config.server_buffer_bytes_max = self.server_buffer;
        config.flush_allowed = self.allow_flush;
        Ok(config)
    }
}

/// Where clients connect if nothing says otherwise.
const LISTEN: &str = "127.0.0.1:21211";

/// How long a server may take if nothing says otherwise.
const TIMEOUT: Duration = Duration::from_millis(500);

/// One line when clients can connect, on standard error, where logs go; before it, one for each server without keys.
#[expect(clippy::print_stderr, reason = "the command line talks to people")]
fn announce(config: &Config) {
    for server in config.router.without_keys() {
        eprintln!("weir proxy: server {server} is so light among the others that it gets no keys");
    }
    let servers = config.router.servers().len();
    let admin = config.admin.map(|address| format!(", admin on http://{address}")).unwrap_or_default();
    eprintln!(
        "weir proxy {}: listening on {}, {servers} server{}, replicas {}, threads {}{admin}",
        env!("CARGO_PKG_VERSION"),
        config.listen,
        if servers == 1 { "" } else { "s" },
        config.router.replicas(),
        config.threads,
    );
}
