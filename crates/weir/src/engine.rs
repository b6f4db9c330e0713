//! Which engine serves, and what is said to it.

use clap::ValueEnum;
use std::str::FromStr;
use weir_proxy::Engine;

use crate::settings::Settings;

/// A way of serving, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineName {
    /// Event loops, each with few pipelined connections per server
    #[default]
    Event,
    /// One network thread, one queue, and workers, each with a connection of its own to every server
    Pool,
}

/// Something was said to an engine to which it means nothing.
#[derive(Debug, thiserror::Error)]
#[error("{flag} belongs to --engine {of}, and the engine is {engine}: leave it out, or change the engine")]
pub(crate) struct StrayError {
    flag: &'static str,
    of: &'static str,
    engine: &'static str,
}

/// Workers if nothing says otherwise.
const WORKERS: usize = 8;

/// Requests that may wait if nothing says otherwise: as many as there may be clients, each of which has one at most.
const QUEUE_LEN: usize = 10_000;

/// The engine of all layers together.
pub(crate) fn engine(settings: &Settings) -> Result<Engine, StrayError> {
    let name = settings.engine.unwrap_or_default();
    let given = [
        ("--threads", settings.threads.is_some(), EngineName::Event),
        ("--batch-pause", settings.batch_pause.is_some(), EngineName::Event),
        ("--workers", settings.workers.is_some(), EngineName::Pool),
        ("--queue", settings.queue.is_some(), EngineName::Pool),
    ];
    let stray = given.into_iter().find(|&(_, is_given, of)| is_given && of != name);
    if let Some((flag, _, of)) = stray {
        return Err(StrayError { flag, of: of.name(), engine: name.name() });
    }
    Ok(match name {
        EngineName::Event => Engine::Event,
        EngineName::Pool => Engine::Pool {
            workers: settings.workers.unwrap_or(WORKERS),
            queue_len_max: settings.queue.unwrap_or(QUEUE_LEN),
        },
    })
}

impl EngineName {
    fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Pool => "pool",
        }
    }
}

impl FromStr for EngineName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::value_variants().iter().copied().find(|engine| engine.name() == text);
        known.ok_or_else(|| format!("{text:?} is no engine: give event or pool"))
    }
}
