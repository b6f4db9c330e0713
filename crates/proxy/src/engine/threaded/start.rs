//! The network thread of an engine with workers, from its mailbox to its start.
//!
//! Queues and workers must know how to wake it before it runs, and it must know them: so its mailbox is made first.

use crate::{
    engine::{
        making::Making,
        threaded::{
            attention::Attention,
            network::Network,
            queues::{Queues, Shared},
        },
    },
    mailbox::{LoopHandle, Message},
    process::{error::RunError, threads::LoopThread},
};
use mio::Poll;
use std::sync::{Arc, atomic::AtomicUsize, mpsc::Receiver};

/// The network thread's number among those that accept clients.
pub(crate) const DOOR: usize = 0;

/// A network thread that does not run yet.
pub(crate) struct NetworkThread {
    poll: Poll,
    mailbox: Receiver<Message>,
    handle: LoopHandle,
}

impl NetworkThread {
    pub(crate) fn new() -> Result<Self, RunError> {
        let system = |source| RunError::System { what: "make the network thread", source };
        let poll = Poll::new().map_err(system)?;
        let (handle, mailbox) = LoopHandle::new(&poll).map_err(system)?;
        Ok(Self { poll, mailbox, handle })
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
        let network = Network::new(making, self.poll, self.mailbox, dataplane, shared, number);
        making.watch.spawn("weir-network".into(), move || network.run())
    }
}
