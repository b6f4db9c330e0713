//! Writes of large values: over the bulk connections of their servers (`servers/bulk.rs`), one at a time for each session.

use crate::{
    clients::bulk::Awaits,
    requests::base::Base,
    requests::service::{Kind, Service},
    wire::ids::{SessionId, Slot},
    wire::write::value_len,
    wire::written::written_key,
};
use weir_protocol::{Parsed, Request};

/// Whether a request must wait because it goes over a bulk connection, and its session has something in service. It is tried again when
/// all of that was answered.
#[inline]
pub(crate) fn waits(base: &mut Base, id: SessionId, parsed: &Parsed<'_>) -> bool {
    base.fleet.servers.may_go_bulk(length_of(parsed)) && must_wait(base, id, parsed)
}

#[cold]
fn must_wait(base: &mut Base, id: SessionId, parsed: &Parsed<'_>) -> bool {
    let session = &base.clients[id];
    let waits = session.in_service() > 0 && !session.is_lent() && goes_bulk(base, parsed);
    if waits {
        base.clients[id].bulk.wait_for(Awaits::All);
        base.meter.counters().large_waits += 1;
    }
    waits
}

fn goes_bulk(base: &Base, parsed: &Parsed<'_>) -> bool {
    let fleet = &base.fleet;
    if let Parsed::Request { request: Request::FlushAll { .. }, .. } = parsed {
        return fleet.servers.is_bulk_busy();
    }
    let len = if let Parsed::Request { request, .. } = parsed { value_len(request) } else { 0 };
    if fleet.routes.is_replicated() || !fleet.servers.may_go_bulk(len) {
        return false;
    }
    written_key(parsed).is_some_and(|name| fleet.servers.goes_bulk(fleet.routes.primary(&name), &name, len))
}

/// A request went over a bulk connection: its session waits for it.
pub(crate) fn note_bulk(service: &mut Service, base: &mut Base, bulk: Slot, mark: u32) {
    if service.outstanding > 0 {
        service.kind = Kind::Bulk;
        base.clients[service.session].bulk.writes += 1;
        base.fleet.servers.note_bulk(bulk, mark);
    }
}

fn length_of(parsed: &Parsed<'_>) -> usize {
    if let Parsed::Request { len, .. } = *parsed { len } else { 0 }
}
