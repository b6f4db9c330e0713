//! Requests that are answered without asking a server.

use crate::{
    Mutation,
    requests::Requests,
    requests::answer::Answer,
    requests::ask_once::{Ended, name_of},
    requests::asked_by_meta::{Wish, may_ask_by_meta},
    requests::base::Base,
    requests::context::Context,
    requests::deciding::{Deciding, END},
    requests::near_cache::{Looked, Said},
    wire::hash::hash,
    wire::ids::{RequestKey, Slot},
};
use weir_protocol::{Request, Retrieval};
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

    /// Answers a get with a value that is kept, if there is one that is an answer. If not: how its server is to be asked.
    pub(super) fn answer_near(
        &mut self,
        base: &mut Base,
        key: RequestKey,
        retrieval: &Retrieval<'_>,
        now: Instant,
    ) -> Option<Wish> {
        let Some(name) = name_of(retrieval).filter(|_| self.near_cache.is_on()) else {
            return Some(Wish::AsGet);
        };
        let id = self.services[key].session;
        let is_writing = base.clients[id].is_writing();
        let asker =
            (base.fleet.generation(), is_writing && !base.fleet.config.is_without(Mutation::NearOwnWrites));
        let value = match self.near_cache.look((name, hash(name)), asker, now) {
            Looked::Answer(value) => value,
            Looked::Check(value) => return Some(Wish::ToCheck(value)),
            Looked::Outdated => {
                base.meter.counters().near_outdated += 1;
                return Some(Wish::ToKeep);
            }
            Looked::Wanted => return Some(Wish::ToKeep),
            Looked::Nothing => return Some(Wish::AsGet),
        };
        base.meter.counters().near_hits += 1;
        self.services[key].hits = 1;
        let since = base.clients[id].may_wait_from(now);
        self.finish(base, key, Some(Deciding { bytes: value.reply(), lacks_end: false }), now);
        base.clients.let_wait(id, since);
        base.count_copy(id, value.reply().len());
        None
    }

    /// A value has come: it is kept if its key is asked for often. A server that could have said how long it lives was to be asked that.
    pub(super) fn keep_near(
        &mut self,
        base: &mut Base,
        (ended, said): (&Ended, Option<Said>),
        reply: Option<Deciding<'_>>,
        now: Instant,
    ) {
        let Some(Deciding { bytes, lacks_end }) = reply else { return };
        if said.is_none() && may_ask_by_meta(base, base.fleet.routes.primary(&ended.name), &ended.name) {
            return;
        }
        let end: &[u8] = if lacks_end { END } else { b"" };
        let of = (ended.as_of(), said);
        let is_kept = self.near_cache.keep(ended.hash, (bytes, end), of, &base.fleet.routes, now);
        base.meter.counters().near_kept += u64::from(is_kept == Some(true));
        base.meter.counters().near_full += u64::from(is_kept == Some(false));
    }

    /// A write of one key is about to be sent to its one server, in line with the others.
    #[cold]
    pub(super) fn note_write_in_line(
        &mut self,
        base: &mut Base,
        key: RequestKey,
        request: &Request<'_>,
        now: Instant,
    ) {
        let storage = match request {
            Request::Storage(storage) => Some(storage),
            _ => None,
        };
        let written = self.services[key].changes.written;
        let is_scarce = base.copy_bytes_max() != usize::MAX;
        let at = (base.fleet.generation(), is_scarce, now);
        let kept_before = self.near_written.kept_bytes();
        let is_in_line = self.near_written.begin(&self.near_cache, (key, written), storage, at);
        self.services[key].changes.is_in_line = is_in_line;
        base.recharge_copy(kept_before, self.near_written.kept_bytes());
    }

    /// A connection to this server is lost: nothing of it that is kept is an answer any more.
    pub(super) fn forget_values_of(&mut self, server: Slot) {
        self.near_cache.lose_server(server);
    }
}
