//! What a part of a request that failed means: an error, or misses (`degrade.rs`).
//!
//! Of several failures `verdict.rs` keeps the first, and `wire/fault.rs` has the words. A refusal for lack of room is decided where it arises.

use crate::{
    Fault,
    requests::base::Base,
    requests::degrade::Degrades,
    requests::service::Service,
    requests::services::Services,
    wire::ids::{RequestKey, Slot},
};
use weir_protocol::Status;

/// The server of this part of a request cannot be asked.
pub(crate) fn note_refusal(
    services: &mut Services,
    base: &mut Base,
    (key, part): (RequestKey, u32),
    (fault, server): (Fault, Slot),
) {
    let counters = base.meter.counters();
    match fault {
        Fault::Full => counters.server_refusals_full += 1,
        Fault::Down => counters.server_refusals_down += 1,
        Fault::Stale => counters.server_refusals_stale += 1,
        // Counted by whoever denied the request. A full queue is no server's failure, so it makes no misses either.
        Fault::Queue => return services[key].verdict.fail(fault, base.fleet.servers.slots().name(server)),
        _ => return fail_part(services, base, (key, part), (fault, server)),
    }
    base.fleet.servers[server].count_error();
    fail_part(services, base, (key, part), (fault, server));
}

/// The server of this part of a request gave no answer.
pub(crate) fn fail_part(
    services: &mut Services,
    base: &mut Base,
    (key, part): (RequestKey, u32),
    (fault, server): (Fault, Slot),
) {
    let service = &mut services[key];
    if service.verdict.degrades().covers(fault) {
        return degrade_part(service, base, part);
    }
    // A server that lets nobody in is down for that reason, and says so.
    let why = base.fleet.servers[server].refusal().filter(|_| fault == Fault::Down);
    service.verdict.fail(why.unwrap_or(fault), base.fleet.servers.slots().name(server));
}

/// A server answered a part with an error line. What it says to a mistake of the client stays.
pub(crate) fn fail_with_line(
    service: &mut Service,
    base: &mut Base,
    part: u32,
    (line, status): (&[u8], Status),
) {
    if service.verdict.degrades().covers_all() && status == Status::ServerError {
        degrade_part(service, base, part);
    } else {
        service.verdict.fail_with_line(line, status);
    }
}

/// The keys of this part are misses.
pub(crate) fn degrade_part(service: &mut Service, base: &mut Base, part: u32) {
    service.verdict.degrade();
    if service.verdict.degrades() == Degrades::AfterMiss {
        base.meter.counters().fill_waits_late += 1;
        return;
    }
    let keys = service.gather.as_ref().map_or(service.keys, |gather| gather.keys_of(part));
    base.meter.counters().keys_degraded += u64::from(keys);
}
