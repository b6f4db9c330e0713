//! What remains to be done of a request when its answer is with the kernel, or its client is gone.

use crate::{
    clients::bulk::Slicing,
    requests::Requests,
    requests::base::Base,
    requests::service::Stage,
    requests::writes::leave_line,
    wire::ids::{RequestKey, SessionId},
};
use weir_timing::Instant;

impl Requests {
    /// `count` bytes for this client were handed to the kernel.
    pub(crate) fn note_written(&mut self, base: &mut Base, id: SessionId, count: usize, now: Instant) {
        base.advance(now);
        let Base { clients, meter, .. } = base;
        let services = &mut self.services;
        let is_charged = clients.handle_written(id, count, now, |key| {
            services[key].record(now, meter);
            services.retire(key);
        });
        if is_charged == Some(true) {
            // It is to be given back, and nothing else may happen here for long.
            base.memory_is_used(now);
        }
        base.clients.close_if_settled(id);
    }

    /// A client's connection is gone. Its requests are carried out, and nobody learns the outcome.
    pub(crate) fn close(&mut self, base: &mut Base, id: SessionId) {
        let services = &mut self.services;
        let Some(slicing) = base.clients.get(id).map(|session| session.bulk.slicing) else { return };
        let is_closed = base.clients.close(id, |key, appended| {
            // The others are still at their servers; they find the session gone when they come back.
            let is_done = appended || services[key].stage == Stage::Parked || slicing == Slicing::Ready(key);
            if is_done {
                services.retire(key);
            }
            is_done
        });
        if !is_closed {
            return;
        }
        base.meter.use_window();
        self.fill_once.end_session(id);
        self.bulk_reads.drop_sliced(slicing);
        if let Some(stalled) = base.clients[id].stalled.take() {
            leave_line(base, id, &stalled);
        }
        base.clients.free_if_done(id);
    }

    /// The request of a lent session is done, or its client is gone: the session is as new. Hands out the request that is owed a reply.
    pub(crate) fn free_lent(&mut self, base: &mut Base, id: SessionId) -> Option<RequestKey> {
        if let Some(stalled) = base.clients[id].stalled.take() {
            leave_line(base, id, &stalled);
        }
        base.clients.renew_lent(id)
    }
}
