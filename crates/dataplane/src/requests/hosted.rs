//! Requests that somebody else took from their clients.
//!
//! A driver may read its clients itself, let requests wait in a queue of its own, and hand them in one by one, each complete. For
//! that it borrows a session that belongs to no connection:
//!
//! ```text
//!   lend_session ─▶ serve ─▶ (as always: poll_server_output, handle_server_bytes, handle_time, …) ─▶ hosted_reply
//!                     ▲                                                                                  │ written
//!                     └───────────────────────────── finish_hosted, or abandon_hosted ◀──────────────────┘
//! ```
//!
//! One request at a time is in service on a lent session. What it went through before comes along as [`Taken`], so that its stamps
//! and its deadline are those of its whole life.

use crate::{
    Charge, Dataplane, Fault, SessionId, TraceRow,
    clients::outbox::Outbox,
    clients::taken::Taken,
    requests::writes::leave_line,
    servers::backend::{Backend, RequestKey},
    wire::kept::KeptRequest,
};
use weir_protocol::Parsed;
use weir_routing::Table;
use weir_timing::{Instant, Operation, Outcome, Stamps};

use std::sync::Arc;

/// The rest of a reply that the kernel did not take, and what is to be recorded when it has.
#[derive(Debug)]
pub struct Unsent {
    out: Outbox,
    operation: Operation,
    outcome: Outcome,
    stamps: Stamps,
    row: Option<Box<TraceRow>>,
    _charge: Charge,
}

impl Unsent {
    /// The bytes that are to be written next.
    pub fn output(&self) -> &[u8] {
        self.out.as_slice()
    }

    /// `count` of them were handed to the kernel.
    pub fn advance(&mut self, count: usize) {
        self.out.advance(count);
    }

    /// How many bytes are left.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }
}

impl Dataplane {
    /// A dataplane that is connected to no server and will not be: it only answers what is refused, and counts.
    pub fn without_servers(config: crate::Config, table: Arc<Table>, now: Instant) -> Self {
        let mut dataplane = Self::new(config, table, now);
        dataplane.forget_connections(now);
        dataplane
    }

    /// [`Dataplane::handle_table`], for a dataplane [`Dataplane::without_servers`].
    pub fn handle_table_unconnected(&mut self, table: Arc<Table>, now: Instant) {
        self.handle_table(table, now);
        // Nobody waits for a reply of a server that leaves: all of them have left after this.
        self.settle_all(now);
        self.forget_connections(now);
    }

    fn forget_connections(&mut self, now: Instant) {
        self.base.fleet.servers.forget_all(now);
        self.take_happened(now);
    }

    /// A session for [`Dataplane::serve`]. It counts nowhere, and lives as long as the dataplane.
    pub fn lend_session(&mut self, now: Instant) -> SessionId {
        self.base.clients.lend(now)
    }

    /// Takes a request into service that was taken from its client by somebody else. With a `denied`, no server is asked: who
    /// needs one is answered with that fault.
    pub fn serve(&mut self, id: SessionId, parsed: Parsed<'_>, taken: Taken, denied: Option<Fault>) {
        self.base.memory_is_used(taken.dequeued);
        self.base.clients[id].hand_in(taken, None);
        self.base.fleet.servers.note_requests();
        let may_wait =
            denied.is_none() && self.base.fleet.config.holds_lent() && self.base.replication.has_locks();
        if may_wait && self.waits_for_key(id, &parsed, taken.dequeued) {
            return self.stall_hosted(id, KeptRequest::of(&parsed));
        }
        if denied.is_none() {
            self.take(id, parsed, taken.first_byte, taken.dequeued);
            return;
        }
        self.deny(denied);
        self.take(id, parsed, taken.first_byte, taken.dequeued);
        if self.base.fleet.config.ends_denial() {
            self.deny(None);
        }
    }

    /// The reply, as soon as the request needs nothing more; empty where the client asked for silence. Of a large one what is to be written
    /// next: after [`Dataplane::finish_hosted`] the rest is handed out.
    pub fn hosted_reply(&self, id: SessionId) -> Option<&[u8]> {
        let session = &self.base.clients[id];
        (session.stalled.is_none() && session.all_are_appended()).then(|| session.replies.output())
    }

    /// `count` bytes of the reply were handed to the kernel by `now`. The session is free again; what is left of the reply is
    /// handed out, for [`Dataplane::finish_unsent`].
    pub fn finish_hosted(&mut self, id: SessionId, count: usize, now: Instant) -> Option<Unsent> {
        self.handle_client_written(id, count, now);
        let session = &mut self.base.clients[id];
        if session.replies.output().is_empty() {
            return None;
        }
        let out = session.replies.take_unsent();
        let charge = self.base.budget().charge(out.len());
        let request = self.free_hosted(id)?;
        let service = &mut self.requests.services[request];
        let row = service.take_row().map(Box::new);
        let (operation, outcome, stamps) = (service.operation, service.outcome(), service.stamps);
        self.requests.services.retire(request);
        Some(Unsent { row, out, operation, outcome, stamps, _charge: charge })
    }

    /// The client is gone. The session is free again.
    pub fn abandon_hosted(&mut self, id: SessionId) {
        self.base.meter.counters().requests_orphaned += 1;
        if let Some(request) = self.free_hosted(id) {
            self.requests.services.retire(request);
        }
    }

    /// The last byte of what was left of a reply is with the kernel.
    pub fn finish_unsent(&mut self, unsent: &mut Unsent, now: Instant) {
        let stamps = Stamps { answered: now, ..unsent.stamps };
        if let Some(row) = unsent.row.take() {
            self.base.meter.keep_row(TraceRow { stamps: stamps.in_order(), ..*row });
        }
        self.base.advance(now);
        self.base.meter.record_request(unsent.operation, unsent.outcome, &stamps);
    }

    /// Whether the request that was handed in last was answered without all its replies: some server may still carry it out.
    pub fn is_given_up(&self) -> bool {
        // Replies come in the order of the messages, so what is owed includes the last.
        self.base.fleet.servers.busy().any(|it| it.has_new_requests() && it.may_undo())
    }

    /// Whether a server still owes a reply. While no request is in service, that is one to a request that was given up.
    pub fn is_owed_replies(&self) -> bool {
        self.base.fleet.servers.busy().any(Backend::may_undo)
    }

    /// The request is taken when its key is free.
    fn stall_hosted(&mut self, id: SessionId, kept: Option<KeptRequest>) {
        if let Some(stalled) = &mut self.base.clients[id].stalled {
            stalled.keep(kept);
        }
    }

    /// The key for which the request of a lent session waits may be free.
    pub(crate) fn resume_hosted(&mut self, id: SessionId, now: Instant) {
        let session = &mut self.base.clients[id];
        let taken = session.taken().map_or_else(Taken::default, |(taken, _)| taken);
        let Some(kept) = session.stalled.as_mut().and_then(|stalled| stalled.take_kept()) else { return };
        let parsed = kept.parsed(self.base.fleet.config.limits);
        if self.waits_for_key(id, &parsed, now) {
            return self.stall_hosted(id, Some(kept));
        }
        self.take(id, parsed, taken.first_byte, now);
    }

    fn deny(&mut self, fault: Option<Fault>) {
        self.base.fleet.servers.deny(fault);
    }

    fn free_hosted(&mut self, id: SessionId) -> Option<RequestKey> {
        if let Some(stalled) = self.base.clients[id].stalled.take() {
            leave_line(&mut self.base, id, &stalled);
        }
        self.base.clients.renew_lent(id)
    }
}
