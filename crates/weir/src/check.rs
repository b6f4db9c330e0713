//! `weir check`: whether a configuration file is good.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::config_file::{self, Config};
use crate::pool::Pool;

/// The flags of `weir check`.
#[derive(Args, Debug)]
#[command(after_help = "\
Ends with status 0 if the file is good, and with status 2 and FILE:LINE: REASON if it is not.")]
pub(crate) struct CheckArgs {
    /// The file, as `weir proxy --config` takes it
    file: PathBuf,
}

impl CheckArgs {
    /// Checks the file, and says what it describes or what is wrong with it.
    pub(crate) fn run(&self) -> ExitCode {
        match config_file::read(&self.file) {
            Ok(config) => match io::stdout().write_all(summary(&config).as_bytes()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => crate::fail(1, &format!("cannot write the summary: {error}")),
            },
            Err(error) => crate::fail(2, &error),
        }
    }
}

/// A line per pool, and one per route.
fn summary(config: &Config) -> String {
    let pool = |(name, pool): (&String, &Pool)| {
        let (router, options) = (&pool.router, pool.router.options());
        let hash = options.key_hash().map(|hash| format!(", hash {hash}")).unwrap_or_default();
        let (servers, replicas) = (router.servers().len(), router.replicas());
        let light: String = router
            .without_keys()
            .map(|server| {
                format!("{name}: server {server} is so light among the others that it gets no keys\n")
            })
            .collect();
        format!(
            "{name}: {servers} servers, placement {}{hash}, replicas {replicas}\n{light}",
            options.placement
        )
    };
    let route = |(prefix, pool): &(String, String)| format!("{prefix:?}: to pool {pool}\n");
    let lonely = config.pools.keys().filter(|name| config.is_lonely(name));
    let lonely = lonely.map(|name| format!("{name}: no route leads to it\n"));
    config.pools.iter().map(pool).chain(config.routes.iter().map(route)).chain(lonely).collect()
}
