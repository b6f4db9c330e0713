//! Requests that somebody else took from their clients.
//!
//! A driver may read its clients itself, let requests wait in a queue of its own, and hand them in one by one, each complete. For
//! that it borrows a session that belongs to no connection:
//!
//! ```text
//!   lend_session ─▶ serve ─▶ (as always: poll_server_output, handle_server_bytes, handle_time, …) ─▶ lent_reply
//!                     ▲                                                                                  │ written
//!                     └──────────────────────────── release_lent, or abandon_lent ◀──────────────────────┘
//! ```
//!
//! One request at a time is in service on a lent session. What it went through before comes along as [`crate::Taken`], so that its stamps
//! and its deadline are those of its whole life.

use crate::{Charge, SessionId, TraceRow, clients::outbox::Outbox, requests::Requests, requests::base::Base};
use weir_timing::{Instant, Operation, Outcome, Stamps};

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

/// The reply of a lent session, as soon as its request needs nothing more.
pub(crate) fn reply(base: &Base, id: SessionId) -> Option<&[u8]> {
    let session = &base.clients[id];
    (session.stalled.is_none() && session.all_are_appended()).then(|| session.replies.output())
}

/// `count` bytes of the reply were handed to the kernel. The session is free again; what is left of the reply is handed out.
pub(crate) fn release(
    requests: &mut Requests,
    base: &mut Base,
    id: SessionId,
    count: usize,
    now: Instant,
) -> Option<Unsent> {
    requests.note_written(base, id, count, now);
    let session = &mut base.clients[id];
    if session.replies.output().is_empty() {
        return None;
    }
    let out = session.replies.take_unsent();
    let charge = base.budget().charge(out.len());
    let request = requests.free_lent(base, id)?;
    let service = &mut requests.services[request];
    let row = service.take_row().map(Box::new);
    let (operation, outcome, stamps) = (service.operation, service.outcome(), *service.clock.stamps());
    requests.services.retire(request);
    Some(Unsent { row, out, operation, outcome, stamps, _charge: charge })
}

/// The client is gone. The session is free again.
pub(crate) fn abandon(requests: &mut Requests, base: &mut Base, id: SessionId) {
    base.meter.counters().requests_orphaned += 1;
    if let Some(request) = requests.free_lent(base, id) {
        requests.services.retire(request);
    }
}

/// The last byte of what was left of a reply is with the kernel.
pub(crate) fn note_unsent_written(base: &mut Base, unsent: &mut Unsent, now: Instant) {
    let stamps = Stamps { answered: now, ..unsent.stamps };
    if let Some(row) = unsent.row.take() {
        base.meter.keep_row(TraceRow { stamps: stamps.in_order(), ..*row });
    }
    base.advance(now);
    base.meter.record_request(unsent.operation, unsent.outcome, &stamps);
}
