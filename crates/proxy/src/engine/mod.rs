//! The engines: how requests are served (`docs/understand/engines.md`), from the threads that read clients to the last written reply.
//!
//! | room | holds |
//! |---|---|
//! | `making` | what an engine is made of, and what it has started: [`making::StartEngine`] |
//! | `event` | event loops, each with clients and servers of its own |
//! | `pool` | one queue, and workers |
//! | `split` | queues of reads and of writes for each server, and those who take from them |
//! | `threaded` | what pool and split share: the network thread, clients, queues, workers |
//! | `watchdog` | whether all threads that serve go on |
//! | `acceptor` | the thread that accepts clients, and hands them to those who serve |
//! | `door` | what the event loop and the network thread share: how clients come in, are read, and leave |

pub(crate) mod acceptor;
pub(crate) mod door;
pub(crate) mod event;
pub(crate) mod making;
mod pool;
mod split;
mod threaded;
pub(crate) mod watchdog;

use crate::{config::settings::Engine, process::error::RunError};
use making::{Making, StartEngine, Started};

/// Starts the threads of each group of clients (`config/groups.rs`), in the order of the groups.
pub(crate) fn start_all(making: &Making) -> Result<Vec<Started>, RunError> {
    let mut first = 0;
    let groups = 0..making.config.groups().all().len();
    groups
        .map(|group| {
            let started = start(&making.of_group(group, first))?;
            first += started.reporting.all().len();
            Ok(started)
        })
        .collect()
}

/// Starts the threads of the engine that the configuration says.
pub(crate) fn start(making: &Making) -> Result<Started, RunError> {
    let engine: &dyn StartEngine = match making.config.settings.engine {
        Engine::Event => &event::start::Loops,
        Engine::Pool => &pool::Pool,
        Engine::Split => &split::start::Split,
    };
    engine.start(making)
}
