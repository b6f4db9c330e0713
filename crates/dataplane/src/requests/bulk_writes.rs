//! Writes of large values: over the bulk connections of their servers (`servers/bulk.rs`), one at a time for each session. And long ones for a
//! server, or another loop, for which much waits already: one at a time for each session, too, so that no session fills what all share.

use crate::{
    clients::bulk::Awaits,
    requests::base::Base,
    requests::service::{Kind, Service},
    servers::may_crowd,
    wire::ids::{SessionId, Slot},
    wire::write::value_len,
    wire::written::written_key,
};
use weir_protocol::{Parsed, Request};
use weir_routing::REPLICAS_MAX;

/// Whether a request must wait because it goes over a bulk connection, or where much waits, and its session has something in service. It is
/// tried again when all of that was answered.
#[inline]
pub(crate) fn waits(base: &mut Base, id: SessionId, parsed: &Parsed<'_>) -> bool {
    base.fleet.servers.may_have_to_wait(length_of(parsed)) && must_wait(base, id, parsed)
}

/// The same where requests may be another loop's, for what waits there.
pub(crate) fn waits_for_mail(base: &mut Base, id: SessionId, parsed: &Parsed<'_>) -> bool {
    may_crowd(length_of(parsed)) && must_wait(base, id, parsed)
}

#[cold]
fn must_wait(base: &mut Base, id: SessionId, parsed: &Parsed<'_>) -> bool {
    let session = &base.clients[id];
    if session.in_service() == 0 || session.is_lent() {
        return false;
    }
    let (goes_bulk, joins_crowd) = (goes_bulk(base, parsed), joins_crowd(base, id, parsed));
    let waits = goes_bulk || joins_crowd;
    if waits {
        base.clients[id].bulk.wait_for(Awaits::All);
        base.meter.counters().large_waits += u64::from(goes_bulk);
        base.meter.counters().crowd_waits += u64::from(!goes_bulk);
    }
    waits
}

/// Whether this is a long write, and much waits where it goes. Who has waited for its key does not wait for this: others wait behind it.
fn joins_crowd(base: &Base, id: SessionId, parsed: &Parsed<'_>) -> bool {
    let Base { clients, replication, fleet, .. } = base;
    if !may_crowd(length_of(parsed)) || clients[id].stalled.is_some() {
        return false;
    }
    let Some(name) = written_key(parsed) else { return false };
    if let Some(owner) = replication.other_owner(&fleet.routes, &name) {
        return replication.is_crowded(owner);
    }
    let mut replicas = [Slot::FIRST; REPLICAS_MAX];
    let count = fleet.routes.replicas_of(&name, &mut replicas);
    replicas[..count].iter().any(|&server| fleet.servers.is_crowded(server))
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
