//! `weir proxy`.

use crate::{
    config_file::Lines,
    log, notices,
    pool::{PoolArgs, Routed, Source},
    settings::Flags,
};
use clap::{ArgMatches, Args};
use std::{error::Error, mem, process::ExitCode, sync::Arc};
use weir_proxy::{Config, ConfigError, Layer, Settings};

/// Stand between memcached clients and memcached servers.
#[derive(Args, Debug)]
#[command(after_help = "\
Example: a proxy before two servers, whose admin port weir top can ask

  weir proxy --server 127.0.0.1:11211 --server 127.0.0.1:11212 \\
      --admin 127.0.0.1:21280

Each flag can be given as a variable of the environment, too: WEIR_ and its
name in capitals (--listen-mode: WEIR_LISTEN_MODE). A flag goes before a
variable, a variable before the file of --config, the file before the default.

TIME is a number with us, ms, s, m or h. BYTES is a number with b, k, m or g,
which count by 1,024.

SIGTERM and SIGINT stop it: it takes no more clients, answers what it has
taken, and ends with status 0. A second signal ends it at once. SIGHUP, or
POST /reload at the admin port, reads the file of --config again: servers come
and go, and no request is dropped. All of this: docs/operate/run.md")]
pub(crate) struct ProxyArgs {
    #[command(flatten)]
    pool: PoolArgs,
    #[command(flatten)]
    settings: Flags<Settings>,
}

impl ProxyArgs {
    /// Runs until it is stopped.
    pub(crate) fn run(&self, matches: &ArgMatches) -> ExitCode {
        let read = self.given(matches).and_then(|given| Ok((given.read()?, given)));
        let ((config, unserved), given) = match read {
            Ok(read) => read,
            Err(error) => return crate::fail(2, &error),
        };
        log::begin(config.settings.log_format, config.settings.log_level);
        notices::say_unserved(&unserved, given.source.pool());
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
        self.given(matches)?.read().map(|(config, _)| config)
    }

    /// What flags and environment say, of the proxy and of its pool.
    #[cfg(test)]
    pub(crate) fn said(&self) -> Layer {
        self.settings.layer().clone().over(self.pool.said().clone())
    }

    fn given(&self, matches: &ArgMatches) -> Result<Given, Box<dyn Error>> {
        Ok(Given { said: self.settings.layer().clone(), source: self.pool.source(matches)? })
    }
}

/// What was given by flags and environment, without what the file says.
#[derive(Clone, Debug)]
struct Given {
    said: Layer,
    source: Source,
}

impl Given {
    /// All layers together, checked, and the pools that no key gets to. Called again for every reload.
    fn read(&self) -> Result<(Config, Vec<String>), Box<dyn Error>> {
        // As every flag goes before the file.
        let (routed, of_file, lines) = self.source.read(self.said.get("listen").is_some())?;
        let unserved = routed.unserved().to_vec();
        let mut config = assembled(&self.said, of_file, routed)
            .map_err(|error| blamed(error, lines.as_ref(), &self.said))?;
        config.commit = crate::COMMIT;
        let given = self.clone();
        config.reread = Arc::new(move || given.reread());
        Ok((config, unserved))
    }

    fn reread(&self) -> Result<Config, String> {
        if let Source::Servers(_) = self.source {
            return Err(
                "there is no file to read again: the servers were given by --server; start with --config"
                    .into(),
            );
        }
        let (config, unserved) = self.read().map_err(|error| error.to_string())?;
        notices::say_unserved(&unserved, self.source.pool());
        Ok(config)
    }
}

/// The error with the file and the line that are to blame in front, where they are. `said`: what flags and environment say.
pub(crate) fn blamed(error: ConfigError, lines: Option<&Lines>, said: &Layer) -> Box<dyn Error> {
    match lines.and_then(|lines| lines.blamed(&error, said)) {
        Some(of_file) => of_file.into(),
        None => error.into(),
    }
}

/// The configuration of a proxy: what flags and environment say, what `[proxy]` of the file says, and what is served. `weir check` judges a
/// file by it as well.
pub(crate) fn assembled(said: &Layer, of_file: Layer, routed: Routed) -> Result<Config, ConfigError> {
    let (table, of_pools, mut only_of_file) = routed.into_parts();
    for own in only_of_file.servers.values_mut() {
        *own = said.clone().over(mem::take(own)).over(of_file.clone());
    }
    for pool in &mut only_of_file.pools {
        pool.said = said.clone().over(mem::take(&mut pool.said)).over(of_file.clone());
    }
    Config::of_file(table, &said.clone().over(of_file).over(of_pools), &only_of_file)
}
