//! One reply answers several gets: the one that asked, and those that wait for it (`ask_once.rs`).

use crate::{
    Fault,
    requests::Requests,
    requests::ask_once::{Asked, Ended, SHARED_REPLY_BYTES_MAX},
    requests::base::Base,
    requests::deciding::Deciding,
    requests::fill_once::FillWait,
    requests::near_cache::Said,
    requests::outcome::fail_part,
    requests::service::Kind,
    wire::ids::RequestKey,
};
use weir_timing::Instant;

/// What a get has brought for those that wait for it.
#[derive(Clone, Copy)]
struct Shared<'a> {
    /// The reply, if it is an answer to all of them.
    reply: Option<Deciding<'a>>,
    hits: u32,
    /// Why there is none.
    fault: Fault,
    /// Its server was lost, and it was asked for again: later than those that wait may have been sent.
    was_asked_again: bool,
}

impl Shared<'_> {
    /// How long the reply is.
    fn len(&self) -> usize {
        self.reply.map_or(0, |reply| reply.bytes.len())
    }
}

impl Requests {
    /// A get is done for which others may wait (`ask_once.rs`).
    pub(super) fn finish_for_all(
        &mut self,
        base: &mut Base,
        key: RequestKey,
        reply: Option<Deciding<'_>>,
        now: Instant,
    ) {
        match self.ask_once.take_asked(key) {
            Asked::AsGet => self.finish_all(base, key, (reply, None), now),
            Asked::ByMeta(kept) => self.finish_by_meta(base, key, (reply, kept), now),
        }
    }

    /// The same of one that has an answer as to a `get`. `said`: what its server has said besides, if it was asked.
    pub(super) fn finish_all(
        &mut self,
        base: &mut Base,
        key: RequestKey,
        (reply, said): (Option<Deciding<'_>>, Option<Said>),
        now: Instant,
    ) {
        let service = &mut self.services[key];
        let id = service.session;
        let shared = Shared {
            reply: reply.filter(|_| !service.verdict.is_impaired()),
            hits: service.hits,
            fault: service.verdict.blame().flatten().unwrap_or(Fault::Closed),
            was_asked_again: service.kind == Kind::LeadsAgain,
        };
        let is_first_try = service.kind == Kind::Leads;
        service.kind = Kind::Nothing;
        let blame = service.verdict.blame();
        let ended = self.ask_once.end(key);
        if is_first_try && shared.hits > 0 && self.near_cache.is_on() {
            self.keep_near(base, (&ended, said), shared.reply, now);
        }
        if !self.may_be_filled(base, key, (&ended, &shared), now) {
            self.conclude_elsewhere(base, key, blame, reply, now);
            base.count_copy(id, shared.len());
        }
        for &waiter in &ended.waiters {
            self.finish_waiter(base, waiter, (&ended, &shared), now);
        }
        self.ask_once.recycle(key, ended);
    }

    /// Whether this get has missed, and goes on because another client may fill its key (`fill_once.rs`).
    fn may_be_filled(
        &mut self,
        base: &mut Base,
        key: RequestKey,
        (ended, shared): (&Ended, &Shared<'_>),
        now: Instant,
    ) -> bool {
        let has_missed = shared.reply.is_some() && shared.hits == 0;
        self.fill_once.is_on()
            && has_missed
            && self.goes_on_after_miss(base, (ended.missed(key), &ended.name), now)
    }

    /// The get is done for whose reply this one waited: it takes that, or asks by itself.
    fn finish_waiter(
        &mut self,
        base: &mut Base,
        waiter: RequestKey,
        (ended, shared): (&Ended, &Shared<'_>),
        now: Instant,
    ) {
        let service = &mut self.services[waiter];
        let id = service.session;
        let session = &base.clients[id];
        // What its client has sent behind it must not be seen by it.
        let has_changed = session.changes() != service.changes.before;
        let may_ask = !session.is_gone()
            && !has_changed
            && service.begun().deadline(base.fleet.config.timeout_ns, false) > now;
        let reply = shared.reply.filter(|reply| {
            let is_before = !(shared.was_asked_again && has_changed);
            is_before && (reply.bytes.len() <= SHARED_REPLY_BYTES_MAX || !may_ask)
        });
        service.outstanding = 0;
        if reply.is_some() {
            service.hits = shared.hits;
            if !self.may_be_filled(base, waiter, (ended, shared), now) {
                self.finish(base, waiter, reply, now);
                base.count_copy(id, shared.len());
            }
            return;
        }
        if !may_ask {
            let server = base.fleet.routes.primary(&ended.name);
            fail_part(&mut self.services, base, (waiter, 0), (shared.fault, server));
            return self.finish(base, waiter, None, now);
        }
        base.meter.counters().gets_coalesced_again += 1;
        self.ask_by_itself(base, (waiter, &ended.name), FillWait::default(), now);
    }
}
