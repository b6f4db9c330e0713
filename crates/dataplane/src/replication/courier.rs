//! What a write is given for one step: the servers, the moment, and what is counted.
//!
//! [`Courier`] sends messages in the name of one request and counts them, so that its write knows how many replies are owed to it. It answers
//! whether a replica was sent something, and why not. The request itself it knows by a [`Ticket`] alone.

use crate::{
    meter::counters::Counters,
    replication::fleet::Fleet,
    servers::backend::Backend,
    servers::begun::Begun,
    servers::part::NewPart,
    wire::fault::Fault,
    wire::ids::{RequestKey, Slot},
};
use weir_protocol::Expected;
use weir_timing::Instant;

/// A request, and from when its deadline runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    request: RequestKey,
    begun: Begun,
}

impl Ticket {
    #[inline]
    pub(crate) const fn new(request: RequestKey, begun: Begun) -> Self {
        Self { request, begun }
    }
}

/// One step of one write.
#[derive(Debug)]
pub(super) struct Courier<'a> {
    pub(super) fleet: &'a mut Fleet,
    pub(super) counters: &'a mut Counters,
    ticket: Ticket,
    pub(super) now: Instant,
    sent: u32,
}

impl<'a> Courier<'a> {
    #[inline]
    pub(super) const fn new(
        fleet: &'a mut Fleet,
        counters: &'a mut Counters,
        ticket: Ticket,
        now: Instant,
    ) -> Self {
        Self { fleet, counters, ticket, now, sent: 0 }
    }

    /// How many messages were sent in this step.
    #[inline]
    pub(super) const fn sent(&self) -> u32 {
        self.sent
    }

    /// Sends what belongs to the first message of a write, whose deadline it shares.
    #[inline]
    pub(super) fn send_first(
        &mut self,
        (server, expected): (Slot, Expected),
        (decides, index): (bool, u32),
        compose: impl FnOnce(&mut Backend),
    ) {
        self.queue(server, (expected, decides, index), self.ticket.begun, compose);
    }

    /// Sends another message to a replica, if it can take one. Both steps share the request's deadline; where the first has used it up, nobody
    /// waits for the second, which has its own.
    pub(super) fn send_further(
        &mut self,
        (server, expected, index): (Slot, Expected, u32),
        compose: impl FnOnce(&mut Backend),
    ) -> Result<(), Fault> {
        let config = &self.fleet.config;
        self.fleet.servers.admit(server)?;
        let is_late = self.fleet.servers[server].deadline_of(self.ticket.begun, config, self.now) <= self.now;
        let created = if is_late { Begun::at(self.now) } else { self.ticket.begun };
        self.queue(server, (expected, false, index), created, compose);
        Ok(())
    }

    /// Sends what nobody waits for. Its deadline is its own.
    pub(super) fn send_aside(&mut self, server: Slot, compose: impl FnOnce(&mut Backend)) {
        self.queue(server, (Expected::Meta, false, 0), Begun::at(self.now), compose);
    }

    #[inline]
    fn queue(
        &mut self,
        server: Slot,
        (expected, decides, index): (Expected, bool, u32),
        created: Begun,
        compose: impl FnOnce(&mut Backend),
    ) {
        let part = NewPart::of(self.ticket.request, expected, created).deciding(decides).at(index);
        let backend = &mut self.fleet.servers[server];
        backend.begin_message(part, &self.fleet.config, self.now);
        compose(backend);
        backend.end_message();
        self.sent += 1;
    }
}
