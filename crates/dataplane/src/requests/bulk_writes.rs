//! Writes of large values: over the bulk connections of their servers (`servers/bulk.rs`), one at a time for each session.

use crate::{Dataplane, SessionId, wire::written::written_key};
use weir_protocol::{Meta, Parsed, Request, Storage};

impl Dataplane {
    /// Whether a request must wait because it goes apart, and its session has something in service. It is tried again when something
    /// of that was answered.
    #[cold]
    pub(crate) fn waits_to_go_bulk(&mut self, id: SessionId, parsed: &Parsed<'_>) -> bool {
        let session = &self.base.clients[id];
        let waits = session.in_service() > 0 && !session.is_lent() && self.goes_bulk(parsed);
        self.base.meter.counters().large_waits += u64::from(waits);
        waits
    }

    fn goes_bulk(&self, parsed: &Parsed<'_>) -> bool {
        if let Parsed::Request { request: Request::FlushAll { .. }, .. } = parsed {
            return self.base.fleet.servers.is_bulk_busy();
        }
        let len = if let Parsed::Request { request, .. } = parsed { value_len(request) } else { 0 };
        if self.base.fleet.routes.is_replicated() || !self.base.fleet.servers.may_go_bulk(len) {
            return false;
        }
        written_key(parsed).is_some_and(|name| {
            self.base.fleet.servers.goes_bulk(self.base.fleet.routes.primary(&name), &name, len)
        })
    }

    /// A request went over a bulk connection: its session waits for it.
    pub(crate) fn note_bulk(&mut self, request: usize, bulk: usize, mark: u32) {
        let service = &mut self.requests.services[request];
        if service.outstanding == 0 {
            return;
        }
        service.apart = true;
        self.base.clients[service.session].bulk.writes += 1;
        self.base.fleet.servers.note_bulk(bulk, mark);
    }
}

/// How long the value is that a request stores.
pub(crate) fn value_len(request: &Request<'_>) -> usize {
    match request {
        Request::Storage(Storage { value, .. }) => value.len(),
        Request::Meta(Meta { block, .. }) => block.len(),
        _ => 0,
    }
}
