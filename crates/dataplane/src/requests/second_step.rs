//! Keys that another replica than the decider did not have, asked for again.
//!
//! After a write that the decider decided it may be the only one that has the key (`follow.rs`). So what a multi-get did not find elsewhere
//! is asked of the deciders in a second step, one message for each; a key that nobody has costs that step, too. A decider that is down
//! or full is not asked: the miss stands, as it does for a get of one key that another replica was asked for.
//!
//! What a decider missed that may have come back empty (`emptied.rs`) is asked of another in the same way.
//!
//! A session that has sent a change behind its multi-get (a write, and what else may change an item: `gat`, `mg` with `N` or `T`) is not
//! asked for again. The second message would come after that change, and the client would read what it did later.

use crate::{
    requests::base::Base,
    requests::services::Services,
    servers::backend::NewPart,
    wire::ids::{RequestKey, Slot},
};
use weir_protocol::{Expected, Retrieval};
use weir_routing::REPLICAS_MAX;
use weir_timing::Instant;

/// A multi-get has all its parts: asks the deciders for what others did not have. Returns whether there is anything to wait for.
pub(crate) fn ask_deciders(services: &mut Services, base: &mut Base, key: RequestKey, now: Instant) -> bool {
    let Base { clients, fleet, meter, .. } = base;
    let service = &mut services[key];
    let session = &clients[service.session];
    let created = service.begun();
    let Some(gather) =
        service.gather.as_deref_mut().filter(|_| !service.verdict.is_error() && !session.is_gone())
    else {
        return false;
    };
    let is_late = created.deadline(fleet.config.timeout_ns, false) <= now;
    if is_late || !gather.again.may_begin(session.changes(), fleet.generation()) {
        return false;
    }
    let mut again = std::mem::take(&mut gather.again);
    again.choose(gather, |name, server| {
        let mut replicas = [Slot::FIRST; REPLICAS_MAX];
        let count = fleet.routes.replicas_of(name, &mut replicas);
        let next = fleet.readers().next_for_miss(&replicas[..count], server)?;
        Some((next, fleet.replicas.is_doubted(server)))
    });
    for (index, server) in again.asked() {
        let part = NewPart::of(key, Expected::Retrieval, created).deciding(true).at(index);
        // Keys are added one by one.
        let retrieval = Retrieval::of(again.verb(), b"", 0);
        let key_count = again.keys_of(index) as usize;
        fleet.servers[server].begin_retrieval((part, false), (retrieval, key_count), &fleet.config, now);
        service.outstanding += 1;
    }
    again.keys().for_each(|(name, server)| fleet.servers[server].push_key(name));
    for (_, server) in again.asked() {
        meter.counters().gets_joined += u64::from(fleet.servers[server].end_retrieval());
    }
    meter.counters().keys_asked_again += again.key_count() as u64;
    gather.again = again;
    let is_asked = service.outstanding > 0;
    if is_asked {
        service.clock.begin_second_step();
    }
    is_asked
}
