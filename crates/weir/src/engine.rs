//! Which engine serves, and what is said to it.

use clap::ValueEnum;
use std::{str::FromStr, sync::OnceLock, thread};
use weir_proxy::{Engine, THREADS_MAX};

use crate::settings::Settings;

/// A way of serving, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineName {
    /// Event loops, each with few pipelined connections per server
    #[default]
    Event,
    /// One network thread, one queue, and workers, each with a connection of its own to every server
    Pool,
    /// One network thread; for each server a queue of reads with readers, and a queue of writes with one writer
    Split,
}

/// Something was said to an engine to which it means nothing.
#[derive(Debug, thiserror::Error)]
#[error("{flag} belongs to {of}, and the engine is {engine}: leave it out, or change the engine")]
pub(crate) struct StrayError {
    flag: &'static str,
    of: &'static str,
    engine: &'static str,
}

/// Workers if nothing says otherwise.
const WORKERS: usize = 8;

/// Readers of each server if nothing says otherwise.
const READERS: usize = 8;

/// Event loops if nothing says otherwise: one for each core that affinity and quota leave to the process. What the first look found
/// counts, so that a reload finds the same.
pub(crate) fn loops() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX))
}

/// Requests that may wait if nothing says otherwise: as many as there may be clients, each of which has one at most.
const QUEUE_LEN: usize = 10_000;

/// The engine of all layers together.
pub(crate) fn engine(settings: &Settings) -> Result<Engine, StrayError> {
    let name = settings.engine.unwrap_or_default();
    let given = [
        ("--threads", settings.threads.is_some(), "--engine event", name == EngineName::Event),
        ("--batch-pause", settings.batch_pause.is_some(), "--engine event", name == EngineName::Event),
        ("--workers", settings.workers.is_some(), "--engine pool", name == EngineName::Pool),
        ("--readers", settings.readers.is_some(), "--engine split", name == EngineName::Split),
        ("--queue", settings.queue.is_some(), "--engine pool or split", name != EngineName::Event),
    ];
    let stray = given.into_iter().find(|&(_, is_given, _, belongs)| is_given && !belongs);
    if let Some((flag, _, of, _)) = stray {
        return Err(StrayError { flag, of, engine: name.name() });
    }
    Ok(match name {
        EngineName::Event => Engine::Event,
        EngineName::Pool => Engine::Pool {
            workers: settings.workers.unwrap_or(WORKERS),
            queue_len_max: settings.queue.unwrap_or(QUEUE_LEN),
        },
        EngineName::Split => Engine::Split {
            readers: settings.readers.unwrap_or(READERS),
            queue_len_max: settings.queue.unwrap_or(QUEUE_LEN),
        },
    })
}

impl EngineName {
    fn name(self) -> &'static str {
        match self {
            Self::Event => "event",
            Self::Pool => "pool",
            Self::Split => "split",
        }
    }
}

impl FromStr for EngineName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::value_variants().iter().copied().find(|engine| engine.name() == text);
        known.ok_or_else(|| format!("{text:?} is no engine: give event, pool or split"))
    }
}
