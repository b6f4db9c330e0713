//! The network thread of an engine with workers, from its mailbox to its start.
//!
//! Queues and workers must know how to wake it before it runs, and it must know them: so its mailbox is made first.

use crate::{
    engine::{
        door::Door,
        making::Making,
        threaded::{
            attention::Attention,
            network::Network,
            queues::{Queues, Shared},
        },
    },
    mailbox::LoopHandle,
    process::{error::RunError, threads::LoopThread},
};
use std::sync::{Arc, atomic::AtomicUsize};

/// The network thread's number among those that accept clients.
pub(crate) const DOOR: usize = 0;

/// A network thread that does not run yet.
pub(crate) struct NetworkThread {
    door: Door,
    handle: LoopHandle,
}

impl NetworkThread {
    pub(crate) fn new(making: &Making) -> Result<Self, RunError> {
        let is_traced = making.tracing.is_some();
        let made = Door::new(making.clock, is_traced, making.config.settings.drain_timeout);
        let system = |source| RunError::System { what: "make the network thread", source };
        let (door, handle) = made.map_err(system)?;
        Ok(Self { door, handle })
    }

    /// Reaches it from other threads.
    pub(crate) fn handle(&self) -> LoopHandle {
        self.handle.clone()
    }

    /// What it shares with the workers of these queues.
    pub(crate) fn share(&self, queues: Box<dyn Queues>, dataplane: &weir_dataplane::Config) -> Arc<Shared> {
        let value_bytes_max = AtomicUsize::new(dataplane.limits.value_bytes_max);
        Arc::new(Shared { queues, attention: Attention::new(self.handle()), value_bytes_max })
    }

    /// `number` tells its choice of requests to trace from those of the other threads.
    pub(crate) fn start(
        self,
        making: &Making,
        dataplane: weir_dataplane::Config,
        shared: Arc<Shared>,
        number: usize,
    ) -> Result<LoopThread, RunError> {
        let network = Network::new(making, self.door, dataplane, shared, number);
        making.watch.spawn("weir-network".into(), move || network.run())
    }
}
