//! The servers that a command is about, from flags or from a configuration file.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use weir_proxy::{Multiget, OnFailure};
use weir_routing::{HashTag, KeyHash, Options, Placement, Router, RoutingError, Server, ServerError};

use crate::config_file::{self, Config, FileError};

/// Flags that say which servers there are and how keys are placed on them.
#[derive(Args, Debug)]
pub(crate) struct PoolArgs {
    /// A memcached server as HOST:PORT, HOST:PORT:WEIGHT or "HOST:PORT:WEIGHT NAME"; repeat it for each
    #[arg(long = "server", value_name = "SERVER", required_unless_present = "config")]
    servers: Vec<String>,
    /// On how many servers each key is kept
    #[arg(long, value_name = "R", default_value_t = 1)]
    replicas: usize,
    /// How keys are placed on servers (docs/placement.md): modulo, ring, jump, rendezvous, libmemcached/…, twemproxy/…,
    /// mcrouter/…, memcached-proxy/…, spymemcached, ketama
    #[arg(long, value_name = "NAME", default_value_t = Placement::default())]
    placement: Placement,
    /// The hash function of keys, where the placement has a choice; by default its own
    #[arg(long, value_name = "NAME")]
    hash: Option<KeyHash>,
    /// Two characters: of keys with text between them, that text alone decides
    #[arg(long, value_name = "PAIR")]
    hash_tag: Option<HashTag>,
    /// mcrouter's salt, or the seed text of memcached's proxy (jump)
    #[arg(long, value_name = "TEXT", default_value = "")]
    salt: String,
    /// Take servers and placement from this file instead (docs/placement.md; `weir check` checks it)
    #[arg(long, value_name = "FILE",
          conflicts_with_all = ["servers", "replicas", "placement", "hash", "hash_tag", "salt"])]
    config: Option<PathBuf>,
    /// Which of the file's pools, if it has several
    #[arg(long, value_name = "NAME", requires = "config")]
    pool: Option<String>,
}

/// A pool, ready to use.
#[derive(Debug)]
pub(crate) struct Pool {
    /// Keys to servers.
    pub(crate) router: Router,
    /// Where its clients connect, if the file says so.
    pub(crate) listen: Option<String>,
    /// How long its servers may take, if the file says so.
    pub(crate) timeout: Option<Duration>,
    /// How multi-gets are asked for, if the file says so.
    pub(crate) multiget: Option<Multiget>,
    /// What becomes of retrievals of which a part got no answer, if the file says so.
    pub(crate) on_failure: Option<OnFailure>,
}

/// Why there is no pool.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PoolError {
    #[error(transparent)]
    Server(#[from] ServerError),
    #[error(transparent)]
    Routing(#[from] RoutingError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{file} has no pool {pool:?}: it has {}", known.join(", "))]
    NoSuchPool { file: String, pool: String, known: Vec<String> },
    #[error("{file} has {} pools: choose one with --pool: {}", known.len(), known.join(", "))]
    WhichPool { file: String, known: Vec<String> },
}

impl PoolArgs {
    /// The pool that the flags or the file describe.
    pub(crate) fn load(&self) -> Result<Pool, PoolError> {
        if let Some(file) = &self.config {
            let config = config_file::read(file)?;
            return choose(config, self.pool.as_deref(), &file.display().to_string());
        }
        let servers = self.servers.iter().map(|text| text.parse()).collect::<Result<Vec<Server>, _>>()?;
        let options = Options {
            placement: self.placement,
            hash: self.hash,
            hash_tag: self.hash_tag,
            salt: self.salt.clone(),
            replicas: self.replicas,
        };
        Ok(Pool {
            router: Router::with_options(servers, options)?,
            listen: None,
            timeout: None,
            multiget: None,
            on_failure: None,
        })
    }
}

fn choose(mut config: Config, wanted: Option<&str>, file: &str) -> Result<Pool, PoolError> {
    let known: Vec<String> = config.pools.keys().cloned().collect();
    let file = file.to_owned();
    let name = match (wanted, known.as_slice()) {
        (Some(name), _) => name.to_owned(),
        (None, [only]) => only.clone(),
        (None, _) => return Err(PoolError::WhichPool { file, known }),
    };
    config.pools.remove(&name).ok_or(PoolError::NoSuchPool { file, pool: name, known })
}
