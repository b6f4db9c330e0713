//! Requests that are answered without asking a server.

use crate::{
    requests::Requests,
    requests::answer::Answer,
    requests::ask_once::{Ended, name_of},
    requests::base::Base,
    requests::context::Context,
    requests::deciding::{Deciding, END},
    requests::near_cache::Looked,
    wire::hash::hash,
    wire::ids::RequestKey,
};
use weir_protocol::Retrieval;
use weir_timing::{Instant, Operation};

impl Requests {
    /// Answers a request without asking anybody.
    pub(crate) fn answer_locally(
        &mut self,
        base: &mut Base,
        answer: Answer,
        silent: bool,
        is_error: bool,
        context: Context,
    ) {
        let key = self.begin(base, Operation::Local, 0, silent, context);
        let service = &mut self.services[key];
        service.answer = answer;
        service.verdict.set_error(is_error);
        self.finish(base, key, None, context.now);
    }

    /// The driver has answered what it was asked for statistics.
    pub(crate) fn answer_stats(&mut self, base: &mut Base, key: RequestKey, text: Vec<u8>, now: Instant) {
        let service = &mut self.services[key];
        service.outstanding = 0;
        service.answer = Answer::Owned(text);
        self.finish(base, key, None, now);
    }

    // ── values that are kept ───────────────────────────────────────────────────────────────────────────────────────────────

    /// Answers a get with a value that is kept, if there is one that is an answer.
    pub(super) fn answer_near(
        &mut self,
        base: &mut Base,
        key: RequestKey,
        retrieval: &Retrieval<'_>,
        now: Instant,
    ) -> bool {
        let Some(name) = name_of(retrieval).filter(|_| self.near_cache.is_on()) else { return false };
        let near = match self.near_cache.look((name, hash(name)), base.fleet.generation(), now) {
            Looked::Found(near) => near,
            Looked::Outdated => {
                base.meter.counters().near_outdated += 1;
                return false;
            }
            Looked::Nothing => return false,
        };
        base.meter.counters().near_hits += 1;
        self.services[key].hits = 1;
        self.finish(base, key, Some(Deciding { bytes: &near.reply, lacks_end: false }), now);
        self.near_cache.give_back(near);
        true
    }

    /// A value has come: it is kept if its key is asked for often.
    pub(super) fn keep_near(
        &mut self,
        base: &mut Base,
        ended: &Ended,
        reply: Option<Deciding<'_>>,
        now: Instant,
    ) {
        let Some(Deciding { bytes, lacks_end }) = reply else { return };
        let end: &[u8] = if lacks_end { END } else { b"" };
        let is_kept = self.near_cache.keep(ended.hash, (bytes, end), ended.as_of(), now);
        base.meter.counters().near_kept += u64::from(is_kept == Some(true));
        base.meter.counters().near_full += u64::from(is_kept == Some(false));
    }

    /// Nothing that is kept is an answer any more.
    pub(super) fn forget_values(&mut self) {
        self.near_cache.clear();
    }
}
