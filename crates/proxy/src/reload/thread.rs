//! The thread that reloads and resolves. It takes what is asked, one thing after the other, and gives each loop what has changed.

use crate::{
    Config,
    connections::{descriptors::Descriptors, names::AddressBook},
    mailbox::{LoopHandle, Message},
    notices::notice::Tell,
    process::{clock::Clock, service_manager::ServiceManager},
    reload::{
        handle::{Ask, ReloadHandle, ResolverHandle, handles},
        reloader::Reloader,
        resolver::{NameCounts, Resolver},
    },
};
use std::{
    io,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
};

pub(crate) struct ReloadThread {
    asks: Receiver<Ask>,
    handle: ReloadHandle,
    resolver_handle: ResolverHandle,
    reloader: Reloader,
    resolver: Resolver,
}

impl ReloadThread {
    /// Looks up all names, which takes its time.
    pub(crate) fn new(
        config: &Config,
        clock: Clock,
        descriptors: Arc<Descriptors>,
        tell: Tell,
        service_manager: ServiceManager,
    ) -> Self {
        let counts = Arc::<NameCounts>::default();
        let resolver = Resolver::new(config, clock, Arc::clone(&counts), Arc::clone(&tell));
        let (handle, resolver_handle, asks) = handles(config, counts);
        let reloader = Reloader::new(config, handle.clone(), descriptors, tell, service_manager);
        Self { asks, handle, resolver_handle, reloader, resolver }
    }

    /// Where the servers are.
    pub(crate) fn book(&self) -> Arc<AddressBook> {
        self.resolver.book()
    }

    /// Asks for reloads.
    pub(crate) fn reload_handle(&self) -> ReloadHandle {
        self.handle.clone()
    }

    /// Asks for addresses.
    pub(crate) fn resolver_handle(&self) -> ResolverHandle {
        self.resolver_handle.clone()
    }

    /// Serves as long as there are loops; these are those of each group.
    pub(crate) fn run(mut self, loops: &[Vec<LoopHandle>]) -> io::Result<()> {
        loop {
            self.resolver.begin_due(&self.resolver_handle);
            match self.asks.recv_timeout(self.resolver.wait_max()) {
                Ok(Ask::Reload(answer)) => {
                    // Whoever asked may have stopped waiting.
                    let _ = answer.send(self.reloader.reload(&mut self.resolver, loops)?);
                }
                Ok(Ask::LookUp(endpoint)) => self.resolver.note_due(endpoint),
                Ok(Ask::LookedUp(name)) => {
                    if let Some(book) = self.resolver.take_found(name) {
                        hand_out(&book, loops)?;
                    }
                }
                Ok(Ask::Wake) => {}
                Err(RecvTimeoutError::Timeout) => self.resolver.begin_period(),
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if self.handle.take_wanted() {
                // Nobody waits for the answer; the notice tells it.
                let _ = self.reloader.reload(&mut self.resolver, loops)?;
            }
        }
    }
}

fn hand_out(book: &Arc<AddressBook>, loops: &[Vec<LoopHandle>]) -> io::Result<()> {
    loops.iter().flatten().try_for_each(|handle| handle.send(Message::Addresses(Arc::clone(book))))
}
