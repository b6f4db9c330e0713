//! A retrieval becomes messages to servers, by its plan.
//!
//! A server that may not be read now, is down or full is left out where another replica can be asked. Where none can, the request is refused
//! before anything of it is sent, or its keys are misses, as [`OnFailure`](crate::OnFailure) says (`degrade.rs`).

use crate::{
    requests::base::Base,
    requests::gather::Gather,
    requests::outcome::note_refusal,
    requests::plan::Plan,
    requests::service::Kind,
    requests::services::Services,
    servers::backend::NewPart,
    wire::ids::{RequestKey, Slot},
};
use weir_protocol::{Expected, Retrieval, RetrievalVerb};
use weir_timing::Instant;

/// Asks whom the plan names.
// Here and below: as calls of their own they cost every `get` some seventy instructions.
#[inline(always)]
pub(crate) fn send_plan(
    services: &mut Services,
    base: &mut Base,
    key: RequestKey,
    (plan, retrieval): (Plan, Retrieval<'_>),
    now: Instant,
) {
    match plan {
        Plan::One(Err(refusal)) => note_refusal(services, base, (key, 0), refusal),
        Plan::One(Ok(server)) => send_whole(services, base, (key, server), retrieval, now),
        Plan::Parts(gather, way) => {
            services[key].chosen = way;
            send_parts(services, base, (key, gather), retrieval, now);
        }
    }
}

/// One message, or part of one.
#[inline(always)]
fn send_whole(
    services: &mut Services,
    base: &mut Base,
    (key, server): (RequestKey, Slot),
    retrieval: Retrieval<'_>,
    now: Instant,
) {
    let backend = &mut base.fleet.servers[server];
    if let Err(fault) = backend.admit(&base.fleet.config) {
        return note_refusal(services, base, (key, 0), (fault, server));
    }
    let service = &mut services[key];
    let part = NewPart::of(key, Expected::Retrieval, service.begun()).deciding(true);
    let is_bulky = service.kind == Kind::Bulk;
    backend.begin_retrieval((part, is_bulky), (retrieval, retrieval.key_count()), &base.fleet.config, now);
    // `for_each` would be a call of its own, of twenty instructions.
    for key in retrieval.keys() {
        backend.push_key(key);
    }
    base.meter.counters().gets_joined += u64::from(backend.end_retrieval());
    service.outstanding += 1;
}

/// One message per server. If one cannot be asked, nothing is sent; where failures are misses, nothing to that one.
fn send_parts(
    services: &mut Services,
    base: &mut Base,
    (key, mut gather): (RequestKey, Box<Gather>),
    retrieval: Retrieval<'_>,
    now: Instant,
) {
    let mut refusals = Vec::new();
    for part in 0..gather.part_count() {
        let server = gather.server_of(part);
        if let Err(fault) = base.fleet.readers().admit(server) {
            gather.leave_out(part);
            refusals.push((part, fault, server));
        }
    }
    services[key].gather = Some(gather);
    for (part, fault, server) in refusals {
        note_refusal(services, base, (key, part), (fault, server));
        if !services[key].verdict.degrades().covers(fault) {
            return;
        }
    }
    let Base { fleet, meter, .. } = base;
    let service = &mut services[key];
    service.changes.is_split = true;
    let gather = service.gather.as_ref().expect("it was put there");
    for (index, server) in gather.asked() {
        let part = NewPart::of(key, Expected::Retrieval, service.begun()).deciding(true).at(index);
        let key_count = gather.keys_of(index) as usize;
        let is_bulky = service.kind == Kind::Bulk;
        fleet.servers[server].begin_retrieval((part, is_bulky), (retrieval, key_count), &fleet.config, now);
        service.outstanding += 1;
    }
    for (name, server) in retrieval.keys().zip(gather.owners()) {
        if let Some(server) = server {
            fleet.servers[server].push_key(name);
        }
    }
    for (_, server) in gather.asked() {
        meter.counters().gets_joined += u64::from(fleet.servers[server].end_retrieval());
    }
}

/// Asks a server for `key_count` keys, because another server was lost.
pub(crate) fn ask_again<'a>(
    base: &mut Base,
    server: Slot,
    (part, verb): (NewPart, RetrievalVerb),
    (keys, key_count): (impl Iterator<Item = &'a [u8]>, usize),
    now: Instant,
) {
    let Base { fleet, meter, .. } = base;
    let backend = &mut fleet.servers[server];
    // Keys are added one by one.
    let retrieval = Retrieval::of(verb, b"", 0);
    backend.begin_retrieval((part, false), (retrieval, key_count), &fleet.config, now);
    keys.for_each(|name| backend.push_key(name));
    meter.counters().gets_joined += u64::from(backend.end_retrieval());
}
