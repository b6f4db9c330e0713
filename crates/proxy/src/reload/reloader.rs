//! Reads the configuration again, checks it, and hands its table to every loop.
//!
//! [`Reloader`] owns the configuration that is in force. It is asked to reload, and answers what has changed, or why nothing has.

use crate::{
    Config,
    config::{nanos, settings::Table as _},
    connections::descriptors::Descriptors,
    mailbox::{LoopHandle, Message, Routing},
    notices::notice::{Notice, Tell},
    process::service_manager::ServiceManager,
    reload::{
        handle::{ReloadHandle, Reloaded},
        resolver::Resolver,
    },
};
use std::{
    collections::HashSet,
    io,
    sync::{Arc, mpsc::channel},
    time::Duration,
};
use weir_routing::Table;

/// How long a loop may take to take a table: it does between two turns, within milliseconds.
const WAIT_MAX: Duration = Duration::from_secs(10);

pub(super) struct Reloader {
    /// As it was at the start, but for what reloads have changed.
    config: Config,
    handle: ReloadHandle,
    descriptors: Arc<Descriptors>,
    tell: Tell,
    service_manager: ServiceManager,
}

impl Reloader {
    pub(super) fn new(
        config: &Config,
        handle: ReloadHandle,
        descriptors: Arc<Descriptors>,
        tell: Tell,
        service_manager: ServiceManager,
    ) -> Self {
        Self { config: config.clone(), handle, descriptors, tell, service_manager }
    }

    /// The outer error: a loop has ended.
    pub(super) fn reload(
        &mut self,
        resolver: &mut Resolver,
        loops: &[Vec<LoopHandle>],
    ) -> io::Result<Reloaded> {
        // Until this returns, whatever comes of it.
        let _reloading = self.service_manager.reloading();
        let read = (self.config.reread)().and_then(|config| match self.config.refusal(&config) {
            Some(reason) => Err(reason),
            None => Ok(config),
        });
        let config = match read {
            Ok(read) => read,
            Err(reason) => {
                self.handle.note_refused();
                (self.tell)(Notice::ReloadRefused(reason.clone()));
                return Ok(Err(reason));
            }
        };
        let before = Arc::clone(&self.config.table);
        let mut summary = self.summary(&config);
        self.config.take(&config);
        summary.insert_str(0, &servers(&before, &self.config.table));
        for error in resolver.take_table(&self.config.table, self.config.settings.resolve_every) {
            summary.push_str(&format!("; {error}"));
        }
        self.descriptors.take_config(&self.config);
        self.hand_out(resolver, loops)?;
        let generation = self.handle.note_in_force(&self.config);
        let answer = format!("generation {generation}: {summary}");
        (self.tell)(Notice::Reloaded { generation, summary });
        Ok(Ok(answer))
    }

    /// Returns when every loop goes by the new table of its group, or is very slow. `loops`: by group.
    fn hand_out(&self, resolver: &Resolver, loops: &[Vec<LoopHandle>]) -> io::Result<()> {
        let (sender, taken) = channel();
        let groups = self.config.groups().all().iter().zip(loops);
        for (group, handle) in groups.flat_map(|(group, loops)| loops.iter().map(move |it| (group, it))) {
            let timeout_ns = nanos(group.settings(&self.config.settings).timeout);
            let table = Arc::clone(group.table());
            let outbounds = Arc::clone(self.config.outbounds());
            let routing = Routing::new(table, resolver.book(), outbounds, timeout_ns, sender.clone())
                .with_logins(self.config.logins().clone());
            handle.send(Message::Table(routing))?;
        }
        drop(sender);
        // Ends when all have dropped theirs. One that is slower than this finds the table when it looks.
        let _ = taken.recv_timeout(WAIT_MAX);
        Ok(())
    }

    /// What a reload changes beside servers, and what it cannot.
    fn summary(&self, config: &Config) -> String {
        let mut summary = String::new();
        if config.inbound().is_some() {
            summary.push_str("; clients that connect from now on get the certificate that was read");
        }
        if let Some(users) = config.logins().users() {
            let (count, plural) = (users.count(), if users.count() == 1 { "" } else { "s" });
            summary.push_str(&format!("; {count} user{plural} may log in"));
        }
        if self.config.listeners != config.listeners && self.config.settings.listen == config.settings.listen
        {
            summary.push_str("; listeners stay as they are: those of [[listen]] need a restart");
        }
        let mut lines = self.config.settings.unchangeable(&config.settings);
        lines.extend(self.config.groups().unchangeable(config.groups(), &lines));
        for line in lines {
            summary.push_str("; ");
            summary.push_str(&line);
        }
        summary
    }
}

/// How many servers there are, and what has changed about them.
fn servers(old: &Table, new: &Table) -> String {
    let all = |table: &Table| {
        table.servers().iter().map(|it| (it.address(), it.name.clone())).collect::<HashSet<_>>()
    };
    let (before, now) = (all(old), all(new));
    let (added, removed) = (now.difference(&before).count(), before.difference(&now).count());
    format!("{} servers, {added} of them new, {removed} removed", new.servers().len())
}
