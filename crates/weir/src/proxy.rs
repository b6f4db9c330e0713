//! `weir proxy`.

use crate::{
    engine::{self, engine},
    pool::{PoolArgs, Source},
    settings::Settings,
    units::Share,
};
use clap::{ArgMatches, Args};
use std::{error::Error, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};
use weir_proxy::{Config, Engine, LISTEN_MODE, Notice, PAUSE_MAX_NS, Patience, Replication, Sampling};

/// Stand between memcached clients and memcached servers.
#[derive(Args, Debug)]
#[command(after_help = "\
Example: weir proxy --listen 127.0.0.1:21211 --server 127.0.0.1:11211 --server 127.0.0.1:11212 --admin 127.0.0.1:21280

Flags come before the environment, the environment before the file of --config, and the file before the defaults
(docs/configuration.md).

SIGTERM and SIGINT stop it: no more clients are accepted, what was taken is answered, and it ends with status 0.
SIGHUP, or POST /reload at the admin port, reads the file of --config again: servers come and go, and no request is dropped.")]
pub(crate) struct ProxyArgs {
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    pool: PoolArgs,
}

impl ProxyArgs {
    /// Runs until it is stopped.
    pub(crate) fn run(&self, matches: &ArgMatches) -> ExitCode {
        let config = match self.config(matches) {
            Ok(config) => config,
            Err(error) => return crate::fail(2, &error),
        };
        match weir_proxy::run(&config, |notice| announce(&notice)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => crate::fail(1, &error),
        }
    }
}

impl ProxyArgs {
    /// All that was said, by whichever layer, checked.
    pub(crate) fn config(&self, matches: &ArgMatches) -> Result<Config, Box<dyn Error>> {
        Given { settings: self.settings.clone(), source: self.pool.source(matches)? }.config()
    }
}

/// What was given by flags and environment, without what the file says.
#[derive(Clone, Debug)]
struct Given {
    settings: Settings,
    source: Source,
}

impl Given {
    /// All layers together, checked. Called again for every reload.
    fn config(&self) -> Result<Config, Box<dyn Error>> {
        let (routed, of_file) = self.source.read()?;
        let settings = self.settings.clone().over(of_file).over(routed.of_pools);
        let mut config = Config::new(
            settings.listen.as_deref().unwrap_or(LISTEN),
            routed.table,
            settings.threads.unwrap_or_else(engine::loops),
        )?
        .with_engine(engine(&settings)?)?
        .with_replication(replication(&settings), settings.allow_flush.unwrap_or(false))?
        .with_listen_mode(settings.listen_mode.unwrap_or(LISTEN_MODE))?
        .with_admin(settings.admin.as_deref())?
        .with_admin_hosts(settings.admin_host.as_deref())?
        .with_timeout(settings.timeout.unwrap_or(TIMEOUT))?
        .with_connect_timeout(settings.connect_timeout.unwrap_or(TIMEOUT))?
        .with_buffer_limit(settings.buffer_limit.unwrap_or(BUFFER_LIMIT))?
        .with_multiget(settings.multiget.unwrap_or_default())?
        .with_batch_pause(settings.batch_pause.unwrap_or(BATCH_PAUSE), settings.batch_always == Some(true))?
        .with_resolve_every(settings.resolve_every.unwrap_or(RESOLVE_EVERY))?;
        config.join_gets = settings.join_gets.unwrap_or_default();
        config.on_failure = settings.on_failure.unwrap_or_default();
        config.drain_timeout = settings.drain_timeout.unwrap_or(DRAIN_TIMEOUT);
        config.sessions_max = settings.max_connections.unwrap_or(MAX_CONNECTIONS);
        config.value_bytes_max = settings.max_value;
        config.client_buffer_bytes_max = settings.client_buffer.unwrap_or(BUFFER);
        config.server_buffer_bytes_max = settings.server_buffer.unwrap_or(BUFFER);
        config.progress_bytes_min = settings.progress.unwrap_or(PROGRESS);
        config.patience = patience(&settings);
        config.tcp.keepalive = settings.keepalive.unwrap_or(config.tcp.keepalive);
        config.tcp.user_timeout = settings.tcp_user_timeout.unwrap_or(config.tcp.user_timeout);
        config.large_value_bytes = settings.large_value.unwrap_or(LARGE_VALUE);
        config.windows_file = settings.windows.map(PathBuf::from);
        config.trace_file = settings.trace.map(PathBuf::from);
        let sampling = Sampling::default();
        config.sampling = Sampling {
            share: settings.trace_sample.map_or(sampling.share, Share::get),
            seed: settings.trace_seed.unwrap_or(sampling.seed),
        };
        let given = self.clone();
        config.reread = Arc::new(move || given.reread());
        Ok(config.checked()?)
    }

    fn reread(&self) -> Result<Config, String> {
        if let Source::Servers(_) = self.source {
            return Err(
                "there is no file to read again: the servers were given by --server; start with --config"
                    .into(),
            );
        }
        self.config().map_err(|error| error.to_string())
    }
}

/// What is said about replicas, over the defaults.
fn replication(settings: &Settings) -> Replication {
    let defaults = Replication::default();
    Replication {
        write_policy: settings.write_policy.unwrap_or(defaults.write_policy),
        replicas_required: settings.replicas_required.unwrap_or(defaults.replicas_required),
        read_policy: settings.read.unwrap_or(defaults.read_policy),
        on_stale: settings.on_stale.unwrap_or(defaults.on_stale),
        read_repair: settings.read_repair.unwrap_or(defaults.read_repair),
        journal_keys_max: settings.journal_keys.unwrap_or(defaults.journal_keys_max),
        journal_bytes_max: settings.journal_bytes.unwrap_or(defaults.journal_bytes_max),
        quarantine: settings.quarantine.unwrap_or(defaults.quarantine),
        mark_down_timeouts: settings.mark_down_timeouts.unwrap_or(defaults.mark_down_timeouts),
        mark_down_share_percent: settings.mark_down_share.unwrap_or(defaults.mark_down_share_percent),
    }
}

/// How long clients may take.
fn patience(settings: &Settings) -> Patience {
    let defaults = Patience::default();
    let nanos = |time: Option<Duration>, default| {
        time.map_or(default, |time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    };
    Patience {
        idle_ns: nanos(settings.idle_timeout, defaults.idle_ns),
        request_ns: nanos(settings.request_timeout, defaults.request_ns),
        unread_ns: nanos(settings.client_timeout, defaults.unread_ns),
        ..defaults
    }
}

/// Where clients connect if nothing says otherwise.
const LISTEN: &str = "127.0.0.1:21211";

/// How long a server may take if nothing says otherwise.
const TIMEOUT: Duration = Duration::from_millis(500);

/// How long a loop may wait for more before it writes if nothing says otherwise.
const BATCH_PAUSE: Duration = Duration::from_nanos(PAUSE_MAX_NS);

/// How long sessions may take to end if nothing says otherwise.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// How often names are looked up if nothing says otherwise.
const RESOLVE_EVERY: Duration = Duration::from_secs(30);

/// Client connections at once if nothing says otherwise.
const MAX_CONNECTIONS: usize = 10_000;

/// How much must move within each further timeout if nothing says otherwise.
const PROGRESS: usize = 64 << 10;

/// From which length on a value goes over a connection of its own if nothing says otherwise.
const LARGE_VALUE: usize = 256 << 10;

/// How much memory all buffers may take if nothing says otherwise.
const BUFFER_LIMIT: usize = 1 << 30;

/// How much may be kept for a client, and for a server, if nothing says otherwise.
const BUFFER: usize = 64 << 20;

/// Lines on standard error, where logs go.
#[expect(clippy::print_stderr, reason = "the command line talks to people")]
fn announce(notice: &Notice<'_>) {
    match notice {
        Notice::Ready(config) => announce_start(config),
        Notice::Reloaded { generation, told } => {
            eprintln!("weir proxy: the configuration was read again; generation {generation}: {told}");
        }
        Notice::ClientsMax { wanted, most, limit, .. } if most == wanted => {
            eprintln!(
                "weir proxy: --max-connections is {most} again: the process may have {limit} descriptors"
            );
        }
        Notice::ClientsMax { wanted, most, limit, reserved } => eprintln!(
            "weir proxy: --max-connections is lowered from {wanted} to {most}: the process may have {limit} descriptors, and {reserved} are kept \
             for servers, the admin port and files; raise the limit (LimitNOFILE of systemd, ulimit -n), or ask for fewer connections"
        ),
        Notice::ClientsRefused { too_many, no_descriptor, clients_max } => eprintln!(
            "weir proxy: clients were refused: {too_many} because {clients_max} may be connected, {no_descriptor} because the process has \
             no descriptor left"
        ),
        Notice::DescriptorsLacking { count, limit } => eprintln!(
            "weir proxy: the process has no descriptor left (it may have {limit}): {count} connections to servers needed one of those \
             that are held for that"
        ),
        Notice::RecordsLost(reason) => eprintln!("weir proxy: {reason}"),
        Notice::LoginWanted(server) => eprintln!(
            "weir proxy: server {server} wants a login (memcached -Y), and Weir has none: nothing is sent there; start it without -Y, or \
             take it out (docs/security.md)"
        ),
        Notice::ReloadRefused(reason) => {
            eprintln!(
                "weir proxy: the configuration was read again and refused, the old one stays: {reason}"
            );
        }
    }
}

/// One line when clients can connect; before it, one for each server without keys.
#[expect(clippy::print_stderr, reason = "the command line talks to people")]
fn announce_start(config: &Config) {
    for server in config.table.pools().iter().flat_map(|pool| pool.router().without_keys()) {
        eprintln!("weir proxy: server {server} is so light among the others that it gets no keys");
    }
    let servers = config.table.servers().len();
    let pools = match config.table.pools().len() {
        1 => String::new(),
        count => format!(" in {count} pools"),
    };
    let admin = config.admin.map(|address| format!(", admin on http://{address}")).unwrap_or_default();
    eprintln!(
        "weir proxy {}: listening on {}, {servers} server{}{pools}, replicas {}, {}{admin}",
        env!("CARGO_PKG_VERSION"),
        config.listen,
        if servers == 1 { "" } else { "s" },
        config.table.pools()[0].router().replicas(),
        match config.engine {
            Engine::Event => format!("threads {}", config.threads),
            Engine::Pool { workers, .. } => format!("engine pool, workers {workers}"),
            Engine::Split { readers, .. } => format!("engine split, readers {readers} for each server"),
        },
    );
}
