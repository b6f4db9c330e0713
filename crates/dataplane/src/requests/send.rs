//! A request's message to one server.

use crate::{
    requests::base::Base,
    requests::outcome::note_refusal,
    requests::services::Services,
    servers::backend::{Backend, NewPart},
    wire::ids::{RequestKey, Slot},
};
use weir_protocol::Expected;
use weir_timing::Instant;

/// A message, and what its reply is to the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(super) server: Slot,
    pub(super) expected: Expected,
    /// The reply is the answer, if it is no error.
    pub(super) decides: bool,
}

/// Queues one message of a request for one server, or notes why it could not be. `compose` writes it.
pub(crate) fn send(
    services: &mut Services,
    base: &mut Base,
    key: RequestKey,
    message: Message,
    now: Instant,
    compose: impl FnOnce(&mut Backend),
) {
    let Message { server, expected, decides } = message;
    let backend = &mut base.fleet.servers[server];
    match backend.admit(&base.fleet.config) {
        Ok(()) => {
            let service = &mut services[key];
            let part = NewPart::of(key, expected, service.begun()).deciding(decides);
            backend.begin_message(part, &base.fleet.config, now);
            compose(backend);
            backend.end_message();
            service.outstanding += 1;
        }
        Err(fault) => note_refusal(services, base, (key, 0), (fault, server)),
    }
}
