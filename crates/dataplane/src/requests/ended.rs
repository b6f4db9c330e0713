//! What remains to be done of a request when its answer is known, when that is with the kernel, or when its client is gone.

use crate::{
    Fault,
    clients::bulk::Slicing,
    requests::Requests,
    requests::base::Base,
    requests::service::{Changes, Kind, Stage},
    requests::writes::leave_line,
    wire::ids::{RequestKey, SessionId},
};
use weir_timing::Instant;

impl Requests {
    /// What may change items has its answer.
    #[cold]
    pub(super) fn end_write(
        &mut self,
        base: &mut Base,
        key: RequestKey,
        blame: Option<Option<Fault>>,
        reply: Option<&[u8]>,
        now: Instant,
    ) {
        let service = &mut self.services[key];
        let Changes { written, is_split, is_in_line, .. } = service.changes;
        let was_sent = service.kind != Kind::Overdue;
        base.clients[service.session].end_write();
        // Where several servers are written, the one to blame may be another than those that something was sent to.
        let may_be_another = is_split || base.fleet.routes.is_replicated();
        let may_happen = |fault: Fault| was_sent && (fault.may_have_happened() || may_be_another);
        let is_unsure = blame.flatten().is_some_and(may_happen);
        self.ask_once.end_write(written, (is_unsure, !may_be_another), now);
        self.fill_once.end_write(written, now);
        if is_in_line {
            let is_stored = blame.is_none() && reply == Some(b"STORED\r\n");
            let routes = (&*base.fleet.routes, base.fleet.generation());
            let kept_before = self.near_written.kept_bytes();
            let is_kept = self.near_written.end(&mut self.near_cache, (key, written), is_stored, routes, now);
            base.recharge_copy(kept_before, self.near_written.kept_bytes());
            base.meter.counters().near_kept += u64::from(is_kept == Some(true));
            base.meter.counters().near_full += u64::from(is_kept == Some(false));
        }
    }

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
            leave_line(base, &stalled);
        }
        base.clients.free_if_done(id);
    }

    /// The request of a lent session is done, or its client is gone: the session is as new. Hands out the request that is owed a reply.
    pub(crate) fn free_lent(&mut self, base: &mut Base, id: SessionId) -> Option<RequestKey> {
        if let Some(stalled) = base.clients[id].stalled.take() {
            leave_line(base, &stalled);
        }
        base.clients.renew_lent(id)
    }
}
