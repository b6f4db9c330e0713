//! Gets that shared a message and got no answer, asked for again in messages of their own.
//!
//! A server that answers one key with an error, or with a value that nobody asked for, says so in the reply to all that share the
//! message (`pipeline/line.rs`). Whoever has no answer then is asked for again alone, within its deadline: so it gets what it would have got
//! without the others. A message of one get is asked for again when it is lost behind the reply that cannot be read, and no more: an error
//! is its answer. Where several want the same keys, one message is for all of them, or for each 256 of them.
//!
//! To find the same question is to walk the keys of all that stand before it. Where thousands wait or are in flight nobody looks, and each has a
//! message of its own: a server that has a bad moment must not take the time of those who ask others.
//!
//! Nothing but `get` is asked twice. A session that has sent a change behind its get is not asked for again, because it would read what it
//! wrote later.

use crate::{
    requests::base::Base,
    requests::services::Services,
    servers::backend::{NewPart, Part},
    wire::ids::Slot,
};
use weir_protocol::Expected;
use weir_timing::Instant;

/// A part of a message that others share, with its keys, each after its length.
#[derive(Debug)]
pub(crate) struct Sharer {
    pub(super) part: Part,
    pub(super) keys: Box<[u8]>,
}

/// A get is asked for alone so often: once because it shared a message, and once because it stood behind one that is the trouble.
const TRIES_MAX: u8 = 2;

/// Asks the server for the part again, in a message of its own. Returns whether that may be.
#[cold]
pub(crate) fn ask_alone(
    services: &mut Services,
    base: &mut Base,
    sharer: &Sharer,
    server: Slot,
    now: Instant,
) -> bool {
    let Base { clients, fleet, meter, .. } = base;
    let Sharer { part, keys } = sharer;
    let Some(key) = part.request() else { return false };
    let service = &mut services[key];
    let session = &clients[service.session];
    let created = service.begun();
    let may = part.tries() < TRIES_MAX
        && !service.verdict.is_error()
        && !session.is_gone()
        && session.changes() == service.changes.before
        && created.deadline(fleet.config.timeout_ns, false) > now
        && fleet.readers().admit(server).is_ok();
    if !may {
        return false;
    }
    let backend = &mut fleet.servers[server];
    let new = NewPart::of(key, Expected::Retrieval, created).deciding(part.decides()).at(part.index());
    backend.ask_alone(new, (keys, part.tries() + 1), &fleet.config, now);
    // What was sent first is a part of the time at the servers.
    service.begin_second_try();
    meter.counters().gets_asked_alone += 1;
    true
}
