//! Messages that need not wait behind all that wait: those of one key go ahead of gets, and a read by `mg` shares the message of an equal one.
//!
//! Nobody can tell, because nothing of what waits has left: nobody but the client itself, which must not overtake what it has sent.

use crate::{
    JoinGets, Mutation,
    requests::Requests,
    requests::base::Base,
    requests::send::Message,
    servers::backend::Backend,
    servers::message::{is_sharable, write_message},
    wire::ids::RequestKey,
};
use weir_protocol::{Meta, Request};
use weir_timing::Instant;

impl Requests {
    /// Queues a message of this one key, or notes why it could not be. It may go ahead of gets that wait (`servers/pipeline/line.rs`).
    pub(crate) fn send_ahead(
        &mut self,
        base: &mut Base,
        (key, message): (RequestKey, Message),
        name: &[u8],
        now: Instant,
        compose: impl FnOnce(&mut Backend),
    ) {
        let before = self.services[key].outstanding;
        self.send(base, (key, message), now, compose);
        if self.services[key].outstanding > before {
            let (services, session) = (&self.services, self.services[key].session);
            let keeps_order = !base.fleet.config.is_without(Mutation::OwnOrder);
            _ = base.fleet.servers[message.server]
                .let_ahead(name, |other| keeps_order && services[other].session == session);
        }
    }

    /// The same for an `mg`, which shares the message of an equal one that waits, if it may (`servers/pipeline/reads.rs`).
    pub(crate) fn send_read(
        &mut self,
        base: &mut Base,
        (key, message): (RequestKey, Message),
        (name, meta): (&[u8], &Meta<'_>),
        now: Instant,
    ) {
        let compose = |backend: &mut Backend| write_message(Request::Meta(*meta), message.expected, backend);
        let (config, session) = (&base.fleet.config, self.services[key].session);
        // Where gets wait for others, not all that its client has asked stands in the queue of the server.
        let may_share = config.join_gets == JoinGets::On
            && !base.fleet.servers[message.server].has_copies()
            && (!self.ask_once.is_on() || base.clients[session].in_service() == 1)
            && is_sharable(meta);
        if !may_share {
            return self.send_ahead(base, (key, message), name, now, compose);
        }
        let keeps_order = !config.is_without(Mutation::OwnOrder);
        let before = self.services[key].outstanding;
        self.send(base, (key, message), now, compose);
        if self.services[key].outstanding == before {
            return;
        }
        let services = &self.services;
        let is_own = |other: RequestKey| keeps_order && services[other].session == session;
        if base.fleet.servers[message.server].share_read(name, is_own) {
            base.meter.counters().mgs_joined += 1;
            self.opaques.note(key, meta);
        }
    }
}
