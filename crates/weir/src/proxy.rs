//! `weir proxy`.

use crate::{
    engine::{self, engine},
    log::{self, LogFormat, LogLevel},
    notices,
    pool::{PoolArgs, Routed, Source},
    settings::Settings,
    units::Share,
};
use clap::{ArgMatches, Args};
use std::{error::Error, path::PathBuf, process::ExitCode, sync::Arc, time::Duration};
use weir_proxy::{Config, LISTEN_MODE, PAUSE_MAX_NS, Patience, Replication, Sampling};

/// Stand between memcached clients and memcached servers.
#[derive(Args, Debug)]
#[command(after_help = "\
Example: weir proxy --listen 127.0.0.1:21211 --server 127.0.0.1:11211 --server 127.0.0.1:11212 --admin 127.0.0.1:21280

Flags come before the environment, the environment before the file of --config, and the file before the defaults
(docs/configuration.md).

SIGTERM and SIGINT stop it: no more clients are accepted, what was taken is answered, and it ends with status 0. A second signal ends
it at once.
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
        let (config, log) = match self.given(matches).and_then(|given| given.read()) {
            Ok(read) => read,
            Err(error) => return crate::fail(2, &error),
        };
        log::begin(log.format, log.level);
        match weir_proxy::run(&config, notices::say) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                tracing::error!(event = "failed", "{error}");
                ExitCode::FAILURE
            }
        }
    }
}

impl ProxyArgs {
    /// All that was said, by whichever layer, checked.
    #[cfg(test)]
    pub(crate) fn config(&self, matches: &ArgMatches) -> Result<Config, Box<dyn Error>> {
        Ok(self.given(matches)?.read()?.0)
    }

    fn given(&self, matches: &ArgMatches) -> Result<Given, Box<dyn Error>> {
        Ok(Given { settings: self.settings.clone(), source: self.pool.source(matches)? })
    }
}

/// What is said about the log.
struct LogConfig {
    format: LogFormat,
    level: LogLevel,
}

/// What was given by flags and environment, without what the file says.
#[derive(Clone, Debug)]
pub(crate) struct Given {
    settings: Settings,
    source: Source,
}

impl Given {
    /// All layers together, checked. Called again for every reload, which leaves the log as it is.
    fn read(&self) -> Result<(Config, LogConfig), Box<dyn Error>> {
        let (routed, of_file) = self.source.read()?;
        let settings = self.settings.clone().over(of_file);
        let log = LogConfig {
            format: settings.log_format.unwrap_or_default(),
            level: settings.log_level.unwrap_or_default(),
        };
        let mut config = Self::assembled(settings, routed)?;
        let given = self.clone();
        config.reread = Arc::new(move || given.reread());
        Ok((config, log))
    }

    /// What a proxy goes by that was told this. `weir check` judges a file by it as well.
    pub(crate) fn assembled(settings: Settings, routed: Routed) -> Result<Config, Box<dyn Error>> {
        let settings = settings.over(routed.of_pools);
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
        config.server_commands_allowed = settings.allow_server_commands.unwrap_or(false);
        config.drain_timeout = settings.drain_timeout.unwrap_or(DRAIN_TIMEOUT);
        config.drain_delay = settings.drain_delay.unwrap_or_default();
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
        Ok(config.checked()?)
    }

    fn reread(&self) -> Result<Config, String> {
        if let Source::Servers(_) = self.source {
            return Err(
                "there is no file to read again: the servers were given by --server; start with --config"
                    .into(),
            );
        }
        self.read().map(|(config, _)| config).map_err(|error| error.to_string())
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
