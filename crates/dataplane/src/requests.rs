//! Requests in service: what each asks of which servers, and what becomes of the replies.
//!
//! [`Requests`] owns the requests in service, what plans retrievals, the reads that bring much, and memory that is kept to be used again. It is
//! given replies and losses, part by part, and answers clients by their sessions. No file below names one above it:
//!
//! ```text
//!   turn (time, losses, tables), deliver (replies), coalesced (one reply for several), filled (misses that others may fill),
//!   asked_by_meta (gets whose servers are asked for more)
//!      └▶ admission (what is read becomes requests), lent ──▶ dispatch (requests become messages), send_ahead, local (answers without a server)
//!            └▶ Requests (begin, take_reply, finish, answers)
//!                  └▶ ask_once, fill_once, near_cache, opaques, writes, second_step, failover, ask_alone, bulk_reads: say whether there is something to wait for
//!                        └▶ plan, chooser, retrieval, send, outcome
//!                              └▶ services, service: clock, verdict, degrade, answer, gather, again, reread ──▶ Base
//! ```

pub(crate) mod admission;
pub(crate) mod again;
pub(crate) mod answer;
pub(crate) mod ask_alone;
pub(crate) mod ask_once;
mod asked_by_meta;
pub(crate) mod base;
pub(crate) mod bulk_reads;
mod bulk_room;
pub(crate) mod bulk_writes;
pub(crate) mod chooser;
pub(crate) mod clock;
mod coalesced;
pub(crate) mod context;
pub(crate) mod deciding;
pub(crate) mod degrade;
pub(crate) mod deliver;
pub(crate) mod dispatch;
mod ended;
pub(crate) mod failover;
pub(crate) mod fill_once;
mod filled;
pub(crate) mod gather;
pub(crate) mod lent;
mod local;
pub(crate) mod near_cache;
pub(crate) mod near_written;
mod opaques;
pub(crate) mod outcome;
pub(crate) mod plan;
pub(crate) mod reread;
pub(crate) mod retrieval;
pub(crate) mod second_step;
pub(crate) mod send;
mod send_ahead;
pub(crate) mod service;
pub(crate) mod services;
pub(crate) mod turn;
pub(crate) mod verdict;
pub(crate) mod watched;
pub(crate) mod writes;

use crate::{
    Fault,
    clients::outbox::{Outbox, SharedBytes},
    clients::sequence::Claim,
    config::Config,
    memory::budget::SMALL_REPLY_BYTES,
    memory::buffer_pool::BufferPool,
    meter::counters::has_result,
    replication::fleet::Fleet,
    replication::freshness::Freshness,
    replication::key_writes::Written,
    requests::answer::Answer,
    requests::ask_once::AskOnce,
    requests::base::Base,
    requests::bulk_reads::BulkReads,
    requests::context::Context,
    requests::deciding::{Deciding, END, write_answer},
    requests::failover::{Asked, rescue_meta},
    requests::fill_once::FillOnce,
    requests::gather::Gather,
    requests::near_cache::NearCache,
    requests::near_written::NearWritten,
    requests::opaques::Opaques,
    requests::outcome::{fail_part, fail_with_line},
    requests::plan::Planner,
    requests::second_step::ask_deciders,
    requests::send::{Message, send},
    requests::service::{Changes, Kind, Service, Stage},
    requests::services::Services,
    requests::watched::{note_answer, note_request},
    requests::writes::{
        answer_by_mail, come_by_mail, end_wait, learn_from_second_step, put_back_missed, take_write_loss,
        take_write_reply,
    },
    servers::backend::Backend,
    servers::part::Part,
    wire::ids::{RequestKey, SessionId, Slot},
};
use std::{
    mem,
    ops::{Index, IndexMut},
    sync::Arc,
};
use weir_protocol::{Reply, Status, ValueSpan};
use weir_timing::{Instant, Operation};

/// The requests in service, and what serves them.
#[derive(Debug)]
pub(crate) struct Requests {
    services: Services,
    planner: Planner,
    /// Memory of answers that were parked, to be used again.
    answers: BufferPool,
    /// Reads that bring much.
    bulk_reads: BulkReads,
    /// Gets that wait for the reply to another.
    ask_once: AskOnce,
    /// Gets that wait for others to fill what they miss.
    fill_once: FillOnce,
    /// Values of keys that are asked for most.
    near_cache: NearCache,
    near_written: NearWritten,
    /// What those call an `mg` who share that of another.
    opaques: Opaques,
    /// What is being delivered of a server, where that is kept because it is large.
    large_input: Option<Arc<Vec<u8>>>,
}

impl Requests {
    pub(crate) fn new(config: &Config, freshness: &Freshness) -> Self {
        Self {
            services: Services::default(),
            planner: Planner::new(config.seed),
            answers: BufferPool::default(),
            bulk_reads: BulkReads::new(config),
            ask_once: AskOnce::new(config, freshness),
            fill_once: FillOnce::new(config, freshness),
            near_cache: NearCache::new(config, freshness),
            near_written: NearWritten::new(config, freshness),
            opaques: Opaques::default(),
            large_input: None,
        }
    }

    /// How many are in service.
    pub(crate) fn len(&self) -> usize {
        self.services.len()
    }

    /// None is in service, and nothing waits: for tests.
    pub(crate) fn is_quiet(&self) -> bool {
        self.services.is_empty()
            && self.bulk_reads.is_quiet()
            && self.ask_once.is_quiet()
            && self.fill_once.is_quiet()
    }

    /// Frees memory that is kept to be used again.
    pub(crate) fn give_memory_back(&mut self) {
        self.answers.give_memory_back();
        self.planner.give_memory_back();
        self.ask_once.give_memory_back();
        if self.services.is_empty() {
            self.opaques.give_memory_back();
            self.near_written.give_memory_back();
        }
    }

    /// How much memory is kept to be used again: for tests.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.planner.capacity()
    }

    // ── the beginning ──────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Takes a request into service.
    #[inline(always)]
    pub(crate) fn begin(
        &mut self,
        base: &mut Base,
        operation: Operation,
        keys: usize,
        silent: bool,
        context: Context,
    ) -> RequestKey {
        let Context { session: id, first_byte, now, request_bytes } = context;
        let keys = u32::try_from(keys).unwrap_or(u32::MAX);
        let key = self.services.add();
        let service = &mut self.services[key];
        service.begin(id, operation, keys, silent, first_byte, now);
        let session = &mut base.clients[id];
        session.begin_request();
        service.changes = Changes { before: session.changes(), ..Changes::NONE };
        if self.ask_once.is_on() {
            service.changes.written = self.ask_once.take_begun();
            session.begin_write(service.changes.written != Written::Nothing);
        }
        if let Some((taken, sender)) = session.taken() {
            service.adopt(taken, sender);
            if sender.is_some() {
                come_by_mail(&mut self.services, base, key, now);
                return key;
            }
        }
        if !silent {
            session.replies.owe(key);
        }
        service.claim = session.claims.enter();
        if let Some(stalled) = session.stalled.take() {
            end_wait(&mut self.services, base, key, &stalled, now);
        }
        if base.meter.notes_next() {
            note_request(&mut self.services[key], base, request_bytes);
        }
        key
    }

    /// Queues one message of a request for one server, or notes why it could not be. `compose` writes it.
    pub(crate) fn send(
        &mut self,
        base: &mut Base,
        (key, message): (RequestKey, Message),
        now: Instant,
        compose: impl FnOnce(&mut Backend),
    ) {
        send(&mut self.services, base, key, message, now, compose);
    }

    /// Everything that can be sent of a request was: if nobody owes it a reply, it is done.
    #[inline]
    pub(crate) fn finish_if_nothing_is_outstanding(
        &mut self,
        base: &mut Base,
        key: RequestKey,
        now: Instant,
    ) {
        if self.services[key].outstanding == 0 {
            self.finish(base, key, None, now);
        }
    }

    // ── replies ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// What becomes of a reply that a request waited for. `values`: where its values lie, if not where the scanner has found them.
    // As a call of its own it costs every request some fifty instructions, for a case that most never have.
    #[inline(always)]
    pub(crate) fn take_reply(
        &mut self,
        base: &mut Base,
        server: Slot,
        (key, part): (RequestKey, Part),
        (reply, bytes, values): (Reply, &[u8], Option<&[ValueSpan]>),
        now: Instant,
    ) {
        let backend = base.fleet.servers.at(server);
        let service = &mut self.services[key];
        service.outstanding -= 1;
        if service.write.is_some() {
            let services = &mut self.services;
            if take_write_reply(services, base, (key, part.index()), (server, reply, bytes), now) {
                self.finish(base, key, None, now);
            }
            return;
        }
        let mut deciding = None;
        if reply.status.is_error() {
            backend.count_error();
            let line = &bytes[reply.last_line..reply.answer_len];
            fail_with_line(service, base, part.index(), (line, reply.status));
            self.bulk_reads.note_part(key, part.index());
        } else if let Some(gather) = &mut service.gather {
            service.hits += backend.ordinals().len() as u32;
            if service.kind == Kind::Bulk {
                self.bulk_reads.note_part(key, part.index());
            }
            let (session, held) = base.clients.with_held(service.session);
            let more =
                session.replies.buffered_bytes() + bytes.len() > base.fleet.config.session_buffer_bytes_max;
            let small = bytes.len() <= SMALL_REPLY_BYTES && !session.replies.is_blocked();
            if !small && (more || !held.admits(bytes.len(), session.replies.is_blocked())) {
                let whose = if more { "client" } else { "proxy" };
                base.meter.counters().session_refusals_full += u64::from(more);
                base.meter.counters().buffer_refusals_full += u64::from(!more);
                service.verdict.fail(Fault::Buffer, &Arc::from(whose));
            } else {
                let values = values.unwrap_or_else(|| backend.values());
                let large = self.large_input.as_ref().and_then(|all| SharedBytes::of(all, bytes));
                gather.store(part.index(), (bytes, large), values, backend.ordinals());
                let id = service.session;
                session.replies.gather(service.gathered_bytes, gather.values_len());
                service.gathered_bytes = gather.values_len();
                base.clients.recharge(id);
            }
        } else if part.decides() {
            let (service, backend) = if part.expected().is_meta() && service.reread.is_some() {
                if self.is_rescued(base, key, (server, part), reply.status, now) {
                    return;
                }
                (&mut self.services[key], base.fleet.servers.at(server))
            } else {
                (service, backend)
            };
            service.hits = match reply.status {
                Status::MetaValue | Status::MetaDone => 1,
                _ => backend.ordinals().len() as u32,
            };
            deciding = Some(Deciding {
                bytes: &bytes[..reply.answer_len],
                lacks_end: reply.status == Status::Values,
            });
        }
        let service = &mut self.services[key];
        if service.outstanding == 0 {
            self.finish(base, key, deciding, now);
        } else if let Some(deciding) = deciding {
            service.answer = Answer::Owned(deciding.to_vec());
        }
    }

    /// One of the servers that a request needs did not answer its part.
    pub(crate) fn part_failed(
        &mut self,
        base: &mut Base,
        (key, part): (RequestKey, u32),
        fault: Fault,
        server: Slot,
        now: Instant,
    ) {
        base.fleet.note_failed(server);
        self.services[key].outstanding -= 1;
        if self.services[key].write.is_some() {
            let services = &mut self.services;
            if take_write_loss(services, base, (key, part), (fault, server), now) {
                self.finish(base, key, None, now);
            }
            return;
        }
        self.bulk_reads.note_part(key, part);
        fail_part(&mut self.services, base, (key, part), (fault, server));
        if self.services[key].outstanding == 0 {
            self.finish(base, key, None, now);
        }
    }

    /// Everything that a request needs has come, or failed. `reply` is the deciding reply, unless it was kept in the service.
    fn finish(&mut self, base: &mut Base, key: RequestKey, reply: Option<Deciding<'_>>, now: Instant) {
        if self.services[key].gather.is_some() {
            if ask_deciders(&mut self.services, base, key, now) {
                return;
            }
            if self.services[key].gather.as_ref().is_some_and(|gather| gather.again.is_under_way()) {
                learn_from_second_step(&mut self.services, base, key, now);
            }
            self.learn_way(base, key, now);
        }
        let service = &mut self.services[key];
        service.clock.receive(now);
        if service.kind != Kind::Nothing && self.ends_otherwise(base, key, reply, now) {
            return;
        }
        let service = &mut self.services[key];
        if let Some(sender) = service.sender {
            return answer_by_mail(&mut self.services, base, (key, sender), reply.map(|reply| reply.bytes));
        }
        let blame = service.verdict.blame();
        self.conclude(base, key, blame, reply, now);
    }

    /// A request about which something is special has come to its end. Returns whether that was seen to here.
    #[inline(never)]
    fn ends_otherwise(
        &mut self,
        base: &mut Base,
        key: RequestKey,
        reply: Option<Deciding<'_>>,
        now: Instant,
    ) -> bool {
        let Requests { services, planner, bulk_reads, .. } = self;
        let service = &mut services[key];
        match service.kind {
            Kind::Nothing | Kind::Replicated | Kind::Overdue => false,
            Kind::DecidedAlone => {
                base.clients[service.session].end_deciding();
                false
            }
            Kind::Bulk => {
                bulk_reads.come_back(base, planner, (key, service), reply.map(|reply| reply.bytes.len()))
            }
            Kind::Leads | Kind::LeadsAgain => {
                self.finish_for_all(base, key, reply, now);
                true
            }
        }
    }

    /// A request of a client is done. `blame`: which server is to blame for a failure: why it gave no answer, or nothing if it said so itself.
    // As a call of its own it costs every request thirty instructions.
    #[inline(always)]
    fn conclude(
        &mut self,
        base: &mut Base,
        key: RequestKey,
        blame: Option<Option<Fault>>,
        reply: Option<Deciding<'_>>,
        now: Instant,
    ) {
        let service = &self.services[key];
        let (id, claim, operation, silent) =
            (service.session, service.claim, service.operation, service.silent);
        if service.changes.written != Written::Nothing {
            // Before anybody can know that it is done.
            self.end_write(base, key, blame, reply.map(|reply| reply.bytes), now);
        }
        if let Some(fault) = blame {
            base.meter.counters().count_failure(fault);
            base.meter.counters().requests_failed_silently += u64::from(silent);
        }
        if has_result(operation) {
            self.note_result(base, key, reply.map(|reply| reply.bytes));
        }
        if !claim.is_empty() {
            self.leave_claim(base, id, claim);
        }
        if base.clients[id].is_gone() || silent {
            return self.finish_silently(base, key, now);
        }
        self.answer(base, key, reply);
        self.append_parked(base, id);
        let session = &mut base.clients[id];
        if session.replies.output().is_empty() {
            // The answer was to say nothing (a quiet meta command), so there is no write that would end the request.
            return self.note_written(base, id, 0, now);
        }
        let lingers = session.replies.is_blocked();
        base.clients.list(id);
        if lingers {
            base.clients.recharge(id);
        }
    }

    /// [`Requests::conclude`], where it is not the usual end.
    #[cold]
    fn conclude_elsewhere(
        &mut self,
        base: &mut Base,
        key: RequestKey,
        blame: Option<Option<Fault>>,
        reply: Option<Deciding<'_>>,
        now: Instant,
    ) {
        self.conclude(base, key, blame, reply, now);
    }

    #[cold]
    fn leave_claim(&mut self, base: &mut Base, id: SessionId, claim: Claim) {
        if base.clients[id].claims.leave(claim) {
            base.clients.let_go_on(id);
        }
    }

    // Separate, so that what a retrieval needs stays in registers.
    #[cold]
    fn note_result(&mut self, base: &mut Base, key: RequestKey, reply: Option<&[u8]>) {
        let service = &self.services[key];
        if !service.verdict.is_error() {
            base.meter.counters().note_result(service.operation, reply.unwrap_or(service.answer.as_slice()));
        }
    }

    fn finish_silently(&mut self, base: &mut Base, key: RequestKey, now: Instant) {
        let service = &mut self.services[key];
        let id = service.session;
        if let Some(gather) = service.gather.take() {
            base.clients[id].replies.gather(service.gathered_bytes, 0);
            self.recycle(base, gather);
            base.clients.recharge(id);
        }
        base.advance(now);
        let session = &mut base.clients[id];
        session.end_requests(1);
        if session.is_gone() {
            base.meter.counters().requests_orphaned += 1;
        } else {
            let service = &mut self.services[key];
            service.record(now, &mut base.meter);
            base.clients.look_at_paused(id);
            base.clients.close_if_settled(id);
        }
        self.services.retire(key);
        base.clients.free_if_done(id);
    }

    /// Appends the answer to the client's bytes if it is its turn, or parks it in the service.
    // Here and below: as calls of their own they cost every request some twenty instructions each.
    #[inline(always)]
    fn answer(&mut self, base: &mut Base, key: RequestKey, reply: Option<Deciding<'_>>) {
        if reply.is_none_or(|reply| !self.answer_at_once(base, key, reply)) {
            self.answer_with_care(base, key, reply);
        }
    }

    /// Appends a reply that needs nothing else and is not large, if it is its turn. Returns whether it was.
    #[inline(always)]
    fn answer_at_once(&mut self, base: &mut Base, key: RequestKey, reply: Deciding<'_>) -> bool {
        let Base { clients, fleet: Fleet { config, .. }, meter, .. } = base;
        let service = &mut self.services[key];
        let (session, held) = clients.with_held(service.session);
        let replies = &mut session.replies;
        let end = if reply.lacks_end { END } else { b"" };
        let len = reply.bytes.len() + end.len();
        let is_usual = (len <= SMALL_REPLY_BYTES
            || len < config.large_value_bytes && held.admits(len, false))
            && !service.verdict.is_error()
            && service.gather.is_none()
            && self.large_input.is_none()
            && !replies.is_blocked()
            && replies.buffered_bytes() + len <= config.session_buffer_bytes_max
            && replies.next_to_append() == Some(key);
        if is_usual {
            if service.noted.is_any() {
                note_answer(meter, &mut service.noted, len, Ok(reply.bytes));
            }
            replies.append(|out| {
                out.append(len, |out| {
                    out.extend_from_slice(reply.bytes);
                    out.extend_from_slice(end);
                });
            });
        }
        is_usual
    }

    /// The same, whatever the answer is.
    #[inline(never)]
    fn answer_with_care(&mut self, base: &mut Base, key: RequestKey, reply: Option<Deciding<'_>>) {
        let Base { clients, fleet: Fleet { config, .. }, meter, .. } = base;
        let Self { services, answers: buffer_pool, large_input, .. } = self;
        let service = &mut services[key];
        let (session, held) = clients.with_held(service.session);
        let mut gather = service.gather.take();
        if gather.is_some() {
            session.replies.gather(mem::take(&mut service.gathered_bytes), 0);
        }
        let kept = mem::take(&mut service.answer);
        let failure = if service.verdict.is_error() { service.verdict.line() } else { None };
        // `None`: what was gathered.
        let mut bytes = match (&failure, &gather) {
            (Some(line), _) => Some(line.as_slice()),
            (None, Some(_)) => None,
            (None, None) => Some(reply.map_or_else(|| kept.as_slice(), |reply| reply.bytes)),
        };
        let lacks_end = failure.is_none() && reply.is_some_and(|reply| reply.lacks_end);
        let mut end = if lacks_end { END } else { b"" };
        let mut len = bytes.map_or_else(|| gather.as_ref().map_or(0, |gather| gather.len()), <[u8]>::len);
        len += end.len();
        let whose = if session.replies.buffered_bytes() + len > config.session_buffer_bytes_max {
            meter.counters().session_refusals_full += 1;
            Some("client")
        } else if len > SMALL_REPLY_BYTES || session.replies.is_blocked() {
            if len >= config.large_value_bytes {
                session.bulk.habits.note_large(len / service.keys.max(1) as usize);
            }
            let is_refused = !held.admits(len, session.replies.is_blocked());
            meter.counters().buffer_refusals_full += u64::from(is_refused);
            is_refused.then_some("proxy")
        } else {
            None
        };
        let refusal;
        if let Some(whose) = whose {
            service.verdict.set_error(true);
            let mut line = Vec::new();
            Fault::Buffer.write_to(whose, &mut line);
            refusal = line;
            len = refusal.len();
            (bytes, end) = (Some(refusal.as_slice()), b"");
        }
        if service.noted.is_any() {
            note_answer(meter, &mut service.noted, len, bytes.ok_or(gather.as_deref()));
        }
        let is_next = session.replies.next_to_append() == Some(key);
        if let Some(bytes) = bytes.filter(|_| is_next && large_input.is_none()) {
            session.replies.append(|out| {
                out.append(len, |out| {
                    out.extend_from_slice(bytes);
                    out.extend_from_slice(end);
                });
            });
        } else if is_next {
            session.replies.append(|out| write_answer(out, (bytes, end), &mut gather, large_input.as_ref()));
        } else {
            let mut parked = buffer_pool.take();
            if let Some(bytes) = bytes.filter(|_| large_input.is_none()) {
                parked.reserve(len);
                parked.extend_from_slice(bytes);
                parked.extend_from_slice(end);
                session.replies.park(parked.len());
                service.answer = Answer::Owned(parked);
            } else {
                let mut parked = Outbox::from(parked);
                write_answer(&mut parked, (bytes, end), &mut gather, large_input.as_ref());
                session.replies.park(parked.len());
                service.answer = parked.into_copied().map_or_else(Answer::Pieces, Answer::Owned);
            }
            service.stage = Stage::Parked;
            let id = service.session;
            base.clients.recharge(id);
        }
        if let Some(gather) = gather.take() {
            self.recycle(base, gather);
        }
    }

    /// Appends the answers that waited for the one that was appended last.
    #[inline(always)]
    fn append_parked(&mut self, base: &mut Base, id: SessionId) {
        if base.clients[id].replies.next_to_append().is_some() {
            self.append_all_parked(base, id);
        }
    }

    #[inline(never)]
    fn append_all_parked(&mut self, base: &mut Base, id: SessionId) {
        let session = &mut base.clients[id];
        while let Some(next) = session.replies.next_to_append() {
            let service = &mut self.services[next];
            if service.stage != Stage::Parked {
                break;
            }
            match mem::take(&mut service.answer) {
                Answer::Owned(bytes) => {
                    let append =
                        |out: &mut Outbox| out.append(bytes.len(), |out| out.extend_from_slice(&bytes));
                    session.replies.append_parked(append);
                    self.answers.keep(bytes);
                }
                parked => session.replies.append_parked(|out| parked.append_to(out)),
            }
        }
    }

    pub(crate) fn recycle(&mut self, base: &mut Base, gather: Box<Gather>) {
        let is_scarce = base.clients.held().is_pressed();
        self.planner.recycle(gather, is_scarce);
    }

    /// An `mg` was answered that may be asked for again. Returns whether there is another answer to wait for.
    #[cold]
    fn is_rescued(
        &mut self,
        base: &mut Base,
        key: RequestKey,
        (server, part): (Slot, Part),
        status: Status,
        now: Instant,
    ) -> bool {
        let asked = Asked { key, part, server, keys: &[] };
        let rescue = rescue_meta(&mut self.services, base, asked, status, now);
        if let Some(name) = rescue.put_back {
            put_back_missed(&mut self.services, base, (&name, 0), now);
        }
        rescue.is_asked
    }

    /// A request whose way was chosen by measurement has come to its end. One that failed counts as if it had taken all the time
    /// that it might have.
    fn learn_way(&mut self, base: &mut Base, key: RequestKey, now: Instant) {
        let service = &self.services[key];
        if let Some(way) = service.chosen
            && let Some(first_sent) = service.clock.first_sent()
        {
            let took = now.saturating_since(first_sent);
            let nanos =
                if service.verdict.is_impaired() { took.max(base.fleet.config.timeout_ns) } else { took };
            self.planner.learn(way, service.keys as usize, nanos);
        }
    }
}

impl Index<RequestKey> for Requests {
    type Output = Service;

    #[inline]
    fn index(&self, key: RequestKey) -> &Service {
        &self.services[key]
    }
}

impl IndexMut<RequestKey> for Requests {
    #[inline]
    fn index_mut(&mut self, key: RequestKey) -> &mut Service {
        &mut self.services[key]
    }
}
