//! A server's reply becomes, or becomes part of, the reply to a client.

mod large;
mod shared;

use crate::{
    Dataplane, Fault, SessionId,
    clients::outbox::{LARGE_REPLY_BYTES, Outbox, SharedBytes},
    clients::sequence::Claim,
    memory::budget::SMALL_REPLY_BYTES,
    meter::counters::has_result,
    replication::fleet::Fleet,
    requests::Requests,
    requests::answer::Answer,
    requests::base::Base,
    requests::failover::{Asked, rescue_meta},
    requests::gather::Gather,
    requests::outcome::fail_part,
    requests::second_step::ask_deciders,
    requests::writes::{
        answer_by_mail, learn_from_second_step, put_back_missed, take_write_loss, take_write_reply,
    },
    servers::backend::{Part, Purpose, Repeated, RequestKey},
    wire::tagged::Tagged,
};
use std::{mem, sync::Arc};
use weir_protocol::{Expected, Reply, Status, ValueSpan, Violation};
use weir_timing::Instant;

impl Dataplane {
    /// Takes all replies that are complete; keeps the beginning of one that is not.
    pub(crate) fn deliver_replies(
        &mut self,
        server: usize,
        bytes: &[u8],
        now: Instant,
    ) -> Result<(), Violation> {
        let bytes = self.skip(server, bytes)?;
        let mut kept = self.base.fleet.servers.at(server).take_input();
        let mut goes_on = !kept.is_empty();
        let mut rest = bytes;
        if !kept.is_empty() && self.base.fleet.servers[server].needed() >= LARGE_REPLY_BYTES {
            rest = self.deliver_large(server, &mut kept, rest, now)?;
            goes_on = !kept.is_empty();
        }
        if kept.is_empty() {
            let taken = self.deliver_from(server, rest, now)?;
            kept.extend_from_slice(&rest[taken..]);
        } else {
            kept.extend_from_slice(rest);
            // Looking is cheap only when there is something to find.
            if !rest.is_empty() && kept.len() >= self.base.fleet.servers[server].needed() {
                let taken = self.deliver_from(server, &kept, now)?;
                kept.drain(..taken);
                goes_on &= taken == 0;
            }
        }
        let backend = self.base.fleet.servers.at(server);
        let needed =
            backend.keep_input(kept, (bytes.len(), goes_on), self.base.fleet.config.progress_bytes_min, now);
        if needed > self.base.fleet.config.server_buffer_bytes_max {
            self.throw_reply_away(server, now);
        } else if needed >= LARGE_REPLY_BYTES {
            self.limit_large(server, needed, now);
        }
        Ok(())
    }

    /// A reply is coming of which more would have to be kept than is allowed. Its request fails; those behind it do not.
    fn throw_reply_away(&mut self, server: usize, now: Instant) {
        if let Some((request, part)) = self.base.fleet.servers.at(server).throw_reply_away() {
            self.base.meter.counters().server_replies_too_large += 1;
            self.part_failed((request, part), Fault::Buffer, server, now);
        }
    }

    /// Takes the bytes that belong to a value that is thrown away; returns those behind it.
    fn skip<'a>(&mut self, server: usize, bytes: &'a [u8]) -> Result<&'a [u8], Violation> {
        let backend = self.base.fleet.servers.at(server);
        let (skipped, was_last) = backend.skip(bytes.len());
        if was_last && backend.head().is_some_and(|head| head.expected() == Expected::Meta) {
            // Nothing follows the value in a meta reply.
            backend.complete_head(b"")?;
            self.base.meter.counters().server_replies_late += 1;
        }
        Ok(&bytes[skipped..])
    }

    fn deliver_from(&mut self, server: usize, input: &[u8], now: Instant) -> Result<usize, Violation> {
        let mut at = 0;
        while at < input.len() {
            let backend = self.base.fleet.servers.at(server);
            let Some(expected) = backend.head().map(Part::expected) else {
                let line = String::from_utf8_lossy(&input[at..input.len().min(at + 60)]).into_owned();
                return Err(Violation::UnexpectedLine(line));
            };
            let rest = &input[at..];
            if backend.is_head_followed() {
                let Some(len) = self.deliver_joined(server, rest, now)? else { break };
                at += len;
                continue;
            }
            let Some(reply) = backend.scan(expected, rest)? else { break };
            let bytes = &rest[..reply.len];
            at += reply.len;
            if reply.status.is_error() && backend.is_within_message() {
                self.deliver_shared(server, reply, bytes, now);
                continue;
            }
            let part = backend.complete_head(bytes)?;
            self.deliver(server, part, reply, bytes, now);
        }
        Ok(at)
    }

    /// Delivers what is complete of the reply to several gets that share a message; returns its length if anything is.
    fn deliver_joined(
        &mut self,
        server: usize,
        rest: &[u8],
        now: Instant,
    ) -> Result<Option<usize>, Violation> {
        let backend = self.base.fleet.servers.at(server);
        let Some((reply, is_whole)) = backend.scan_joined(rest)? else { return Ok(None) };
        let (len, bytes) = (reply.len, &rest[..reply.len]);
        if is_whole {
            let part = backend.complete_joined();
            self.deliver(server, part, reply, bytes, now);
        } else {
            self.deliver_shared(server, reply, bytes, now);
        }
        Ok(Some(len))
    }

    // As a call of its own it costs every request a hundred instructions.
    #[inline(always)]
    fn deliver(&mut self, server: usize, part: Part, reply: Reply, bytes: &[u8], now: Instant) {
        let Some(key) = part.request() else {
            match part.purpose() {
                Purpose::Request => {
                    self.base.meter.counters().server_replies_late += 1;
                    self.base.fleet.servers[server].note_late_reply(now);
                }
                Purpose::Step => self.base.fleet.servers[server].note_in_step(),
                Purpose::Barrier => self.base.fleet.servers.mark_up(server, now),
                Purpose::Delete | Purpose::Flush => {
                    let Self { base: Base { fleet: Fleet { replicas, servers, .. }, .. }, .. } = self;
                    replicas.errand_replied(server, (part.purpose(), reply), servers, now);
                }
            }
            return;
        };
        let backend = self.base.fleet.servers.at(server);
        backend.record(part.sent(), now);
        if matches!(part.repeated(), Repeated::ByProxy | Repeated::Wrong) {
            return self.deliver_odd(server, (key, part), (reply, bytes), now);
        }
        let mut tagged = None;
        if backend.has_copies() {
            backend.observe(now.saturating_since(part.sent()));
            let is_replicated = self.requests.services[key].is_of_replicated_key();
            tagged = self.base.fleet.tag_reply((server, part.expected()), (reply, bytes), is_replicated);
        }
        let taken = match &tagged {
            Some(Tagged { reply, bytes, values }) => (*reply, bytes.as_slice(), Some(values.as_slice())),
            None => (reply, bytes, None),
        };
        self.take_reply(server, (key, part), taken, now);
    }

    /// A reply into which the proxy puts the key, or that names another one.
    #[cold]
    fn deliver_odd(
        &mut self,
        server: usize,
        (key, part): (RequestKey, Part),
        (reply, bytes): (Reply, &[u8]),
        now: Instant,
    ) {
        let backend = self.base.fleet.servers.at(server);
        backend.observe(now.saturating_since(part.sent()));
        if part.repeated() == Repeated::Wrong {
            self.base.meter.counters().server_echoes_wrong += 1;
            return self.part_failed((key, part.index()), Fault::Protocol, server, now);
        }
        let spelled = backend.spell(reply, bytes);
        let (reply, bytes) = spelled.as_ref().map_or((reply, bytes), |it| (it.reply, it.bytes.as_slice()));
        let is_replicated = self.requests.services[key].is_of_replicated_key();
        let tagged = self.base.fleet.tag_reply((server, part.expected()), (reply, bytes), is_replicated);
        let (reply, bytes) = tagged.as_ref().map_or((reply, bytes), |it| (it.reply, it.bytes.as_slice()));
        self.take_reply(server, (key, part), (reply, bytes, None), now);
    }

    /// What becomes of a reply that a request waited for. `values`: where its values lie, if not where the scanner has found them.
    // As a call of its own it costs every request some fifty instructions, for a case that most never have.
    #[inline(always)]
    fn take_reply(
        &mut self,
        server: usize,
        (key, part): (RequestKey, Part),
        (reply, bytes, values): (Reply, &[u8], Option<&[ValueSpan]>),
        now: Instant,
    ) {
        let backend = self.base.fleet.servers.at(server);
        let service = &mut self.requests.services[key];
        service.outstanding -= 1;
        if service.write.is_some() {
            let Self { base, requests: Requests { services, .. }, .. } = self;
            if take_write_reply(services, base, (key, part.index()), (server, reply, bytes), now) {
                self.finish(key, None, now);
            }
            return;
        }
        let mut deciding = None;
        if reply.status.is_error() {
            backend.count_error();
            let line = &bytes[reply.last_line..reply.answer_len];
            self.fail_with_line((key, part.index()), line, reply.status);
        } else if let Some(gather) = &mut service.gather {
            service.hits += backend.ordinals().len() as u32;
            let (session, held) = self.base.clients.with_held(service.session);
            let more = session.replies.buffered_bytes() + bytes.len()
                > self.base.fleet.config.session_buffer_bytes_max;
            let small = bytes.len() <= SMALL_REPLY_BYTES && !session.replies.is_blocked();
            if !small && (more || !held.admits(bytes.len(), session.replies.is_blocked())) {
                let whose = if more { "client" } else { "proxy" };
                self.base.meter.counters().session_refusals_full += u64::from(more);
                self.base.meter.counters().buffer_refusals_full += u64::from(!more);
                service.fail(Fault::Buffer, &Arc::from(whose));
            } else {
                let values = values.unwrap_or_else(|| backend.values());
                let large = self.requests.large_input.as_ref().and_then(|all| SharedBytes::of(all, bytes));
                gather.store(part.index(), (bytes, large), values, backend.ordinals());
                let id = service.session;
                session.replies.gather(service.gathered_bytes, gather.values_len());
                service.gathered_bytes = gather.values_len();
                self.base.clients.recharge(id);
            }
        } else if part.decides() {
            let is_meta = matches!(part.expected(), Expected::Meta | Expected::MetaThenNoop);
            let (service, backend) = if is_meta && service.reread.is_some() {
                if self.is_rescued(key, (server, part), reply.status, now) {
                    return;
                }
                (&mut self.requests.services[key], self.base.fleet.servers.at(server))
            } else {
                (service, backend)
            };
            service.hits = match reply.status {
                Status::MetaValue | Status::MetaDone => 1,
                _ => backend.ordinals().len() as u32,
            };
            service.lacks_end = reply.status == Status::Values;
            deciding = Some(&bytes[..reply.answer_len]);
        }
        let service = &mut self.requests.services[key];
        if service.outstanding == 0 {
            self.finish(key, deciding, now);
        } else if let Some(bytes) = deciding {
            service.answer = Answer::Owned(bytes.to_vec());
        }
    }

    /// One of the servers that a request needs did not answer its part.
    pub(crate) fn part_failed(
        &mut self,
        (key, part): (RequestKey, u32),
        fault: Fault,
        server: usize,
        now: Instant,
    ) {
        self.base.fleet.note_failed(server);
        self.requests.services[key].outstanding -= 1;
        if self.requests.services[key].write.is_some() {
            let Self { base, requests: Requests { services, .. }, .. } = self;
            if take_write_loss(services, base, (key, part), (fault, server), now) {
                self.finish(key, None, now);
            }
            return;
        }
        fail_part(&mut self.requests.services, &mut self.base, (key, part), (fault, server));
        if self.requests.services[key].outstanding == 0 {
            self.finish(key, None, now);
        }
    }

    /// Everything that a request needs has come, or failed. `reply` is the deciding reply, unless it was kept in the service.
    pub(crate) fn finish(&mut self, key: RequestKey, reply: Option<&[u8]>, now: Instant) {
        if self.requests.services[key].gather.is_some() {
            if ask_deciders(&mut self.requests.services, &mut self.base, key, now) {
                return;
            }
            if self.requests.services[key].gather.as_ref().is_some_and(|gather| gather.again.is_under_way()) {
                learn_from_second_step(&mut self.requests.services, &mut self.base, key, now);
            }
            self.learn_way(key, now);
        }
        let service = &mut self.requests.services[key];
        service.stamps.received = now;
        let id = service.session;
        if service.is_decided_alone {
            self.base.clients[id].end_deciding();
        }
        if service.apart {
            let Requests { services, planner, bulk_reads, .. } = &mut self.requests;
            let reply_len = reply.map(<[u8]>::len);
            if bulk_reads.come_back(&mut self.base, planner, (key, &mut services[key]), reply_len) {
                return;
            }
        }
        let service = &mut self.requests.services[key];
        if let Some(sender) = service.sender {
            return answer_by_mail(&mut self.requests.services, &mut self.base, (key, sender), reply);
        }
        let blame = service.has_failed().then(|| service.fault());
        self.conclude(key, blame, reply, now);
    }

    /// A request of a client is done. `blame`: a server is to blame for that it failed, and why, unless it said so itself.
    pub(crate) fn conclude(
        &mut self,
        key: RequestKey,
        blame: Option<Option<Fault>>,
        reply: Option<&[u8]>,
        now: Instant,
    ) {
        let service = &mut self.requests.services[key];
        let (id, claim, operation) = (service.session, service.claim, service.operation);
        if let Some(fault) = blame {
            self.base.meter.counters().count_failure(fault);
            self.base.meter.counters().requests_failed_silently += u64::from(service.silent);
        }
        if has_result(operation) {
            self.note_result(key, reply);
        }
        if !claim.is_empty() {
            self.leave_turn(id, claim);
        }
        if self.base.clients[id].is_gone() || self.requests.services[key].silent {
            return self.finish_silently(key, now);
        }
        self.answer(key, reply);
        self.append_parked(id);
        let session = &mut self.base.clients[id];
        if session.replies.output().is_empty() {
            // The answer was to say nothing (a quiet meta command), so there is no write that would end the request.
            return self.handle_client_written(id, 0, now);
        }
        let lingers = session.replies.is_blocked();
        self.base.clients.list(id);
        if lingers {
            self.base.clients.recharge(id);
        }
    }

    #[cold]
    fn leave_turn(&mut self, id: SessionId, claim: Claim) {
        if self.base.clients[id].turns.leave(claim) {
            self.base.clients.let_go_on(id);
        }
    }

    // Apart, so that what a retrieval needs stays in registers.
    #[cold]
    fn note_result(&mut self, key: RequestKey, reply: Option<&[u8]>) {
        let service = &self.requests.services[key];
        if !service.error {
            self.base
                .meter
                .counters()
                .note_result(service.operation, reply.unwrap_or(service.answer.as_slice()));
        }
    }

    fn finish_silently(&mut self, key: RequestKey, now: Instant) {
        let service = &mut self.requests.services[key];
        let id = service.session;
        if let Some(gather) = service.gather.take() {
            self.base.clients[id].replies.gather(service.gathered_bytes, 0);
            self.recycle(gather);
            self.base.clients.recharge(id);
        }
        self.base.advance(now);
        let session = &mut self.base.clients[id];
        session.end_requests(1);
        if session.is_gone() {
            self.base.meter.counters().requests_orphaned += 1;
        } else {
            let service = &mut self.requests.services[key];
            service.record(now, &mut self.base.meter);
            self.base.clients.look_at_paused(id);
            self.base.clients.close_if_settled(id);
        }
        self.requests.services.retire(key);
        self.base.clients.free_if_done(id);
    }

    /// Appends the answer to the client's bytes if it is its turn, or parks it in the service.
    fn answer(&mut self, key: RequestKey, reply: Option<&[u8]>) {
        let Self {
            base: Base { clients, fleet: Fleet { config, .. }, meter, .. },
            requests: Requests { services, answers: spare_answers, large_input, .. },
            ..
        } = self;
        let service = &mut services[key];
        let (session, held) = clients.with_held(service.session);
        let mut gather = service.gather.take();
        if gather.is_some() {
            session.replies.gather(mem::take(&mut service.gathered_bytes), 0);
        }
        let kept = mem::take(&mut service.answer);
        let failure = if service.error { service.failure_line() } else { None };
        // `None`: what was gathered.
        let mut bytes = match (&failure, &gather) {
            (Some(line), _) => Some(line.as_slice()),
            (None, Some(_)) => None,
            (None, None) => Some(reply.unwrap_or_else(|| kept.as_slice())),
        };
        let mut end = if failure.is_none() && service.lacks_end { END } else { b"" };
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
            service.error = true;
            refusal = format!("SERVER_ERROR {} {whose}\r\n", Fault::Buffer.name()).into_bytes();
            len = refusal.len();
            (bytes, end) = (Some(refusal.as_slice()), b"");
        }
        if let Some(traced) = &mut service.traced {
            traced.note_reply(len);
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
            let mut parked = spare_answers.take();
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
            service.complete = true;
            let id = service.session;
            self.base.clients.recharge(id);
        }
        if let Some(gather) = gather.take() {
            self.recycle(gather);
        }
    }

    /// Appends the answers that waited for the one that was appended last.
    fn append_parked(&mut self, id: SessionId) {
        let session = &mut self.base.clients[id];
        while let Some(next) = session.replies.next_to_append() {
            let service = &mut self.requests.services[next];
            if !service.complete {
                break;
            }
            match mem::take(&mut service.answer) {
                Answer::Owned(bytes) => {
                    let append =
                        |out: &mut Outbox| out.append(bytes.len(), |out| out.extend_from_slice(&bytes));
                    session.replies.append_parked(append);
                    self.requests.answers.keep(bytes);
                }
                parked => session.replies.append_parked(|out| parked.append_to(out)),
            }
        }
    }

    pub(crate) fn recycle(&mut self, gather: Box<Gather>) {
        let is_scarce = self.base.clients.held().is_pressed();
        self.requests.planner.recycle(gather, is_scarce);
    }

    /// An `mg` was answered that may be asked for again. Returns whether there is another answer to wait for.
    #[cold]
    fn is_rescued(
        &mut self,
        key: RequestKey,
        (server, part): (usize, Part),
        status: Status,
        now: Instant,
    ) -> bool {
        let asked = Asked { key, part, server, keys: &[] };
        let rescue = rescue_meta(&mut self.requests.services, &mut self.base, asked, status, now);
        if let Some(name) = rescue.put_back {
            put_back_missed(&mut self.requests.services, &mut self.base, (&name, 0), now);
        }
        rescue.is_asked
    }

    /// A request whose way was chosen by measurement has come to its end. One that failed counts as if it had taken all the time
    /// that it might have.
    fn learn_way(&mut self, key: RequestKey, now: Instant) {
        let service = &self.requests.services[key];
        if let Some(way) = service.chosen
            && service.first_sent
        {
            let took = now.saturating_since(service.stamps.first_sent);
            let nanos =
                if service.is_impaired() { took.max(self.base.fleet.config.timeout_ns) } else { took };
            self.requests.planner.learn(way, service.keys as usize, nanos);
        }
    }
}

/// Appends an answer: these bytes, or what was gathered.
fn write_answer(
    out: &mut Outbox,
    (bytes, end): (Option<&[u8]>, &[u8]),
    gather: &mut Option<Box<Gather>>,
    large_input: Option<&Arc<Vec<u8>>>,
) {
    let Some(bytes) = bytes else {
        return gather.iter_mut().for_each(|gather| gather.merge_into(out));
    };
    match large_input.and_then(|all| SharedBytes::of(all, bytes)) {
        Some(large) => {
            out.push(large);
            out.append(end.len(), |out| out.extend_from_slice(end));
        }
        None => out.append(bytes.len() + end.len(), |out| {
            out.extend_from_slice(bytes);
            out.extend_from_slice(end);
        }),
    }
}

/// What ends the answer to a retrieval.
const END: &[u8] = b"END\r\n";
