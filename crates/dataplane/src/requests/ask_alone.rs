//! Gets that shared a message and got no answer, asked for again in messages of their own.
//!
//! A server that answers one key with an error, or with a value that nobody asked for, says so in the reply to all that share the
//! message (`backend/joined.rs`). Whoever has no answer then is asked for again alone, within its deadline: so it gets what it would have got
//! without the others. A message of one get is asked for again when it is lost behind the reply that cannot be read, and no more: an error
//! is its answer.
//!
//! Nothing but `get` is asked twice. A session that has sent a change behind its get is not asked for again, because it would read what it
//! wrote later.

use crate::{
    Dataplane,
    replication::fleet::Fleet,
    requests::Requests,
    requests::base::Base,
    servers::backend::{NewPart, Part},
    wire::names::Names,
};
use weir_protocol::Expected;
use weir_timing::Instant;

/// A part of a message that others share, with its keys, each after its length.
#[derive(Debug)]
pub(crate) struct Sharer {
    pub(crate) part: Part,
    pub(crate) keys: Box<[u8]>,
}

/// A get is asked for alone so often: once because it shared a message, and once because it stood behind one that is the trouble.
const TRIES_MAX: u8 = 2;

impl Dataplane {
    /// Asks the server for the part again, in a message of its own. Returns whether that may be.
    #[cold]
    pub(crate) fn ask_alone(&mut self, sharer: &Sharer, server: usize, now: Instant) -> bool {
        let Self {
            base: Base { clients, fleet: Fleet { servers: backends, replicas, config, .. }, meter, .. },
            requests: Requests { services, .. },
            ..
        } = self;
        let Sharer { part, keys } = sharer;
        let Some(key) = part.request else { return false };
        let (service, backend) = (&mut services[key], &mut backends[server]);
        let session = &clients[service.session];
        let created = service.begun();
        let may = part.tries < TRIES_MAX
            && !service.error
            && !session.is_gone()
            && session.changes() == service.changes_before
            && created.deadline(config.timeout_ns, false) > now
            && backend.admit(config).is_ok()
            && replicas.is_fresh(server);
        if !may {
            return false;
        }
        let (decides, index) = (part.decides, part.index);
        let new = NewPart { request: Some(key), expected: Expected::Retrieval, decides, index, created };
        backend.begin_message(new, config, now);
        backend.message().extend_from_slice(b"get");
        Names(keys).for_each(|name| backend.push_key(name));
        backend.message().extend_from_slice(b"\r\n");
        backend.finish_message();
        backend.note_try(part.tries + 1);
        // What was sent first is a part of the time at the servers.
        service.following |= service.first_sent;
        meter.counters().gets_asked_alone += 1;
        true
    }
}
