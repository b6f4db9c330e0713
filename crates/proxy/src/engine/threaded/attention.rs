//! Clients that the network thread must look at, because of what a worker found.

use crate::mailbox::LoopHandle;
use std::{
    mem,
    sync::{Mutex, PoisonError},
};

#[derive(Debug)]
pub(crate) struct Attention {
    ids: Mutex<Vec<usize>>,
    network: LoopHandle,
}

impl Attention {
    pub(crate) fn new(network: LoopHandle) -> Self {
        Self { ids: Mutex::default(), network }
    }

    /// There are not more of them than sessions with a request in service: each asks when it is done with one.
    pub(crate) fn ask(&self, id: usize) {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        // Fails only if the network thread is gone, and with it all clients.
        let _ = self.network.wake();
    }

    /// Those that were asked for since this was called last.
    pub(crate) fn take(&self) -> Vec<usize> {
        mem::take(&mut self.ids.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
