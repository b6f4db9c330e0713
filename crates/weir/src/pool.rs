//! The servers that a command is about, from flags, from the environment or from a configuration file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgMatches, Args};
#[cfg(test)]
use weir_proxy::SaidOfServers;
use weir_proxy::{Layer, OfFile, PoolSettings, Table as _};
use weir_routing::{Router, RoutingError, Server, ServerError, Table, TableError};

use crate::config_file::{self, FileError, Lines};
use crate::settings::{Flags, variable};

/// Where the help has all this.
const HEADING: &str = PoolSettings::ROWS[0].heading;

/// Which servers there are and how keys are placed on them; or where that is written.
#[derive(Args, Debug)]
pub(crate) struct PoolArgs {
    /// A memcached server as HOST:PORT or unix:/PATH, with :WEIGHT or ":WEIGHT NAME" behind it. Repeat it for each server, or
    /// write commas between them
    #[arg(long = "server", value_name = "SERVER", env = "WEIR_SERVER", hide_env = true, value_delimiter = ',', help_heading = HEADING)]
    servers: Vec<String>,
    #[command(flatten)]
    placing: Flags<PoolSettings>,
    /// Take pools, routes and settings from this file, and no --server (docs/reference/configuration.md; `weir check` checks it).
    /// Use it for several pools, and for changes without a restart
    #[arg(long, value_name = "FILE", env = "WEIR_CONFIG", hide_env = true, help_heading = HEADING)]
    config: Option<PathBuf>,
    /// Which of the file's pools takes the keys that no route takes; by default the file's `default`, or its only one. Where every
    /// place where clients connect names a pool, only those with this one are served. Give it to serve another pool from a shared file
    #[arg(long, value_name = "NAME", env = "WEIR_POOL", hide_env = true, help_heading = HEADING)]
    pool: Option<String>,
}

/// Where servers are written down.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// On the command line, or in the environment: all of it.
    Servers(Box<Table>),
    /// In a file, of which this pool is asked for.
    File { file: PathBuf, pool: Option<String> },
}

/// One pool of a file, ready to use.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Keys to servers.
    pub(crate) router: Router,
    /// What the file says there of settings that `[proxy]` may say, too.
    pub(crate) said: Layer,
    /// What it says of servers, by their names, beside the pool.
    of_servers: HashMap<String, Layer>,
}

impl Pool {
    /// `of_servers`: what is said of servers, by their names.
    pub(crate) fn new(router: Router, said: Layer, of_servers: HashMap<String, Layer>) -> Self {
        Self { router, said, of_servers }
    }

    /// What is said of servers, by their names.
    pub(crate) fn of_servers(&self) -> &HashMap<String, Layer> {
        &self.of_servers
    }
}

/// What a proxy serves, ready to use.
#[derive(Debug, Default)]
pub(crate) struct Routed {
    /// Pools and routes; `None` where every place where clients connect names its pool.
    table: Option<Table>,
    /// What the pools of the table say: the first where clients connect, all of them the rest.
    pub(crate) of_pools: Layer,
    /// What only a file can say.
    of_file: OfFile,
    /// Pools of the file that no key gets to.
    unserved: Vec<String>,
}

impl Routed {
    /// `unserved`: pools of the file that no key gets to.
    pub(crate) fn new(table: Option<Table>, of_pools: Layer, of_file: OfFile, unserved: Vec<String>) -> Self {
        Self { table, of_pools, of_file, unserved }
    }

    /// The same, with these pools that no key gets to.
    pub(crate) fn with_unserved(self, unserved: Vec<String>) -> Self {
        Self { unserved, ..self }
    }

    /// What only a file can say, to be changed.
    pub(crate) fn of_file_mut(&mut self) -> &mut OfFile {
        &mut self.of_file
    }

    /// Pools and routes, where any place goes by them.
    pub(crate) fn table(&self) -> Option<&Table> {
        self.table.as_ref()
    }

    /// The same, and nothing else.
    pub(crate) fn into_table(self) -> Option<Table> {
        self.table
    }

    /// The table, what its pools say, and what only a file can say.
    pub(crate) fn into_parts(self) -> (Option<Table>, Layer, OfFile) {
        (self.table, self.of_pools, self.of_file)
    }

    /// What is said of servers in their pools.
    #[cfg(test)]
    pub(crate) fn of_servers(&self) -> &SaidOfServers {
        &self.of_file.servers
    }

    /// Pools of the file that no key gets to.
    pub(crate) fn unserved(&self) -> &[String] {
        &self.unserved
    }
}

/// Why there is no pool.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PoolError {
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Routing(#[from] RoutingError),
    #[error(transparent)]
    Table(#[from] TableError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("there is no pool {pool:?}: choose one of {}", known.join(", "))]
    NoSuchPool { pool: String, known: Vec<String> },
    #[error("there are {} pools: choose one with --pool, or write default = \"NAME\": {}", known.len(), known.join(", "))]
    WhichPool { known: Vec<String> },
    #[error("which pool takes the keys that no route takes? write default = \"NAME\" at the top: {}", known.join(", "))]
    NoDefault { known: Vec<String> },
    #[error(
        "pools {first} and {other} are served together and differ in {setting}: give them the same, or write it in [proxy]"
    )]
    Shared { first: String, other: String, setting: &'static str },
    #[error(
        "every [[listen]] names its pool, and none names {pool}: give --listen with --pool {pool}, or another pool"
    )]
    PoolOfNoPlace { pool: String },
    #[error(
        "every [[listen]] names its pool, so no key would go by route {prefix:?}: remove it, or add a [[listen]] without a pool"
    )]
    RouteOfNoPlace { prefix: String },
    #[error(
        "pool {pool} belongs to a [[listen]] and is where routes or the default lead, too: two ways to one pool would write its keys in two orders; leave one out"
    )]
    PoolTwoWays { pool: String },
    #[error(
        "pool {pool} belongs to a [[listen]], and {setting} is for all clients of the proxy: write it in [proxy] or in [[listen]]"
    )]
    OfAllClients { pool: String, setting: &'static str },
    #[error("{0}: {1}")]
    OfFile(String, Box<PoolError>),
    #[error("--pool names a pool of a file: give --config FILE")]
    PoolOfNoFile,
    #[error("there is no server: give --server for each, or --config FILE")]
    Nothing,
    #[error(
        "{0} and {1} cannot both be given: the file of --config has servers and placement; leave one out"
    )]
    Both(String, String),
}

impl PoolArgs {
    /// Where the servers are written down. A file that was given on the command line comes before servers of the environment, and the
    /// other way round.
    pub(crate) fn source(&self, matches: &ArgMatches) -> Result<Source, PoolError> {
        let layer = |id: &str| matches.value_source(id);
        // What a file has instead.
        let names = || ["servers"].into_iter().chain(PoolSettings::ROWS.iter().map(|row| row.name));
        let flag = |name: &str| {
            if name == "servers" { "--server".to_owned() } else { format!("--{}", name.replace('_', "-")) }
        };
        let given = |wanted: ValueSource| names().find(|name| layer(name) == Some(wanted)).map(flag);
        let file = match (&self.config, layer("config")) {
            (Some(file), Some(ValueSource::CommandLine)) => match given(ValueSource::CommandLine) {
                Some(flag) => return Err(PoolError::Both("--config".into(), flag)),
                None => Some(file),
            },
            (Some(file), _) => match (given(ValueSource::CommandLine), given(ValueSource::EnvVariable)) {
                (Some(_), _) => None,
                (None, Some(flag)) => {
                    return Err(PoolError::Both("WEIR_CONFIG".into(), variable(&flag)));
                }
                (None, None) => Some(file),
            },
            (None, _) => None,
        };
        match file {
            Some(file) => Ok(Source::File { file: file.clone(), pool: self.pool.clone() }),
            None if layer("pool") == Some(ValueSource::CommandLine) => Err(PoolError::PoolOfNoFile),
            None if self.servers.is_empty() => Err(PoolError::Nothing),
            None => self.table().map(|table| Source::Servers(Box::new(table))),
        }
    }

    /// How keys are placed, as flags and environment say.
    pub(crate) const fn said(&self) -> &Layer {
        self.placing.layer()
    }

    fn table(&self) -> Result<Table, PoolError> {
        let servers = self.servers.iter().map(|text| text.parse()).collect::<Result<Vec<Server>, _>>()?;
        let options = PoolSettings::of(self.said()).options();
        Ok(Router::with_options(servers, options)?.into())
    }
}

impl Source {
    /// The pool that was asked for.
    pub(crate) fn pool(&self) -> Option<&str> {
        match self {
            Self::Servers(_) => None,
            Self::File { pool, .. } => pool.as_deref(),
        }
    }

    /// The servers, what is written with them about the proxy, and where, if in a file. A file is read now. `listens_elsewhere`: flags say
    /// where clients connect, so places of the file do not count.
    pub(crate) fn read(&self, listens_elsewhere: bool) -> Result<(Routed, Layer, Option<Lines>), PoolError> {
        match self {
            Self::Servers(table) => {
                let routed = Routed { table: Some((**table).clone()), ..Routed::default() };
                Ok((routed, Layer::default(), None))
            }
            Self::File { file, pool } => {
                let config = config_file::read(file)?;
                let routed = if listens_elsewhere {
                    config.table(pool.as_deref())
                } else {
                    config.served(pool.as_deref())
                };
                let mut routed = routed.map_err(|error| of_file(file, error))?;
                if listens_elsewhere {
                    routed.of_file.listeners.clear();
                }
                Ok((routed, config.settings, Some(config.lines)))
            }
        }
    }

    /// Where keys go of clients of the pool that was asked for. A file is read now.
    pub(crate) fn table(&self) -> Result<Table, PoolError> {
        match self {
            Self::Servers(table) => Ok((**table).clone()),
            Self::File { file, pool } => {
                let config = config_file::read(file)?;
                config.seen_by(pool.as_deref()).map_err(|error| of_file(file, error))
            }
        }
    }
}

/// What is served of a file that was read from `file`, with this pool for the keys that no route takes.
pub(crate) fn served(
    file: &Path,
    config: &config_file::Config,
    pool: Option<&str>,
) -> Result<Routed, PoolError> {
    config.served(pool).map_err(|error| of_file(file, error))
}

fn of_file(file: &Path, error: PoolError) -> PoolError {
    PoolError::OfFile(file.display().to_string(), Box::new(error))
}

/// Why no key gets to a pool of a file, where this one was asked for.
pub(crate) fn why_unserved(wanted: Option<&str>) -> String {
    match wanted {
        Some(pool) => format!("no route leads there, and --pool is {pool}"),
        None => "no route, no default and no [[listen]] leads there".to_owned(),
    }
}
