//! Writes to keys that several servers hold, as requests in service: what replication answers is carried out here.
//!
//! Where a key is owned by another loop, its write is mailed there; what other loops have read and this one owns is served for them.

use crate::{
    Fault, Mutation, ReadRepair, SessionId,
    config::Config,
    replication::Advanced,
    replication::courier::Ticket,
    replication::key_lock::Stalled,
    replication::mailbox::{Outcome, Sender},
    replication::write::{Answered, Declined, Failure},
    requests::again::Found,
    requests::answer::Answer,
    requests::base::Base,
    requests::clock::Clock,
    requests::context::Context,
    requests::outcome::{fail_part, fail_with_line, note_refusal},
    requests::service::{Kind, Stage},
    requests::services::Services,
    wire::ids::{LoopId, RequestKey, Slot},
    wire::write::Write,
};
use std::{borrow::Cow, mem};
use weir_protocol::{Parsed, Reply};
use weir_timing::Instant;

/// Who owns this key, if it has replicas and another loop does.
pub(crate) fn other_owner(base: &Base, name: &[u8]) -> Option<LoopId> {
    base.replication.other_owner(&base.fleet.routes, name)
}

/// Sends a write to the owner of its key. Returns whether the request has its answer now, because too much is under way there.
pub(crate) fn mail_write(
    services: &mut Services,
    base: &mut Base,
    key: RequestKey,
    (owner, name): (LoopId, &[u8]),
    (write, context): (Write<'_>, Context),
) -> bool {
    let mut message = Vec::new();
    write.request.write_to(&mut message);
    let service = &mut services[key];
    let sent = base.replication.mail_write(owner, (key, message), (context.first_byte, context.now));
    match sent {
        Ok(()) => service.outstanding = 1,
        Err(fault) => {
            let fleet = &base.fleet;
            service.verdict.fail(fault, fleet.servers.slots().name(fleet.routes.primary(name)));
        }
    }
    sent.is_err()
}

/// Whether a session's next request has to wait, because it writes to a key that is locked.
pub(crate) fn waits_for_key(base: &mut Base, id: SessionId, parsed: &Parsed<'_>, now: Instant) -> bool {
    let Base { clients, replication, fleet, .. } = base;
    let session = &mut clients[id];
    let since = session.taken().map_or(now, |(taken, _)| taken.created.max(taken.enqueued));
    let until = wait_until(&fleet.config, since);
    replication.waits_for_key(id, parsed, (&mut session.stalled, until), now)
}

/// Until when a write waits for its key at most, whose time runs from `since` on.
pub(crate) fn wait_until(config: &Config, since: Instant) -> Option<Instant> {
    (!config.is_without(Mutation::Overdue)).then(|| since.plus(config.timeout_ns))
}

/// A session that had waited for a key has begun its write, or is gone.
pub(crate) fn leave_line(base: &mut Base, stalled: &Stalled) {
    let next = base.replication.leave_line(stalled);
    let_go_on(base, next);
}

/// A request has waited for its key, and now it is its turn, or its time is up: its session leaves the line.
#[cold]
#[inline(never)]
pub(crate) fn end_wait(
    services: &mut Services,
    base: &mut Base,
    key: RequestKey,
    stalled: &Stalled,
    now: Instant,
) {
    let service = &mut services[key];
    let id = service.session;
    if !base.clients[id].is_lent() {
        service.clock.set_created(stalled.created());
    }
    service.end_wait(stalled.is_overdue(now), &base.fleet.config, now);
    leave_line(base, stalled);
}

/// A request that another loop has read is taken into service.
#[cold]
#[inline(never)]
pub(crate) fn come_by_mail(services: &mut Services, base: &Base, key: RequestKey, now: Instant) {
    let service = &mut services[key];
    service.come_by_mail(base.replication.mail_waited(), &base.fleet.config, now);
}

/// The session that is next may go on, if one is.
pub(crate) fn let_go_on(base: &mut Base, next: Option<SessionId>) {
    next.into_iter().for_each(|id| base.clients.let_go_on(id));
}

/// What was served for another loop is done.
pub(crate) fn answer_by_mail(
    services: &mut Services,
    base: &mut Base,
    (key, sender): (RequestKey, Sender),
    reply: Option<&[u8]>,
) {
    let service = &mut services[key];
    base.clients[service.session].end_requests(1);
    let blame = service.verdict.blame();
    let reply = match (service.verdict.line(), reply, mem::take(&mut service.answer)) {
        (Some(line), ..) => line,
        (None, Some(reply), _) => reply.to_vec(),
        (None, None, Answer::Owned(reply)) => reply,
        (None, None, kept) => kept.as_slice().to_vec(),
    };
    let (stamps, first_sent) = (*service.clock.stamps(), service.clock.is_first_sent());
    let error = service.verdict.is_error().then(|| service.verdict.word());
    services.retire(key);
    base.replication.mail_outcome(sender, Outcome { reply, stamps, first_sent, error, blame });
}

/// The owner has answered. Returns why a server is to blame, if one is.
pub(crate) fn take_outcome(
    services: &mut Services,
    request: RequestKey,
    outcome: Outcome,
) -> Option<Option<Fault>> {
    let Outcome { reply, stamps, first_sent, error, blame } = outcome;
    let service = &mut services[request];
    service.outstanding = 0;
    service.clock.take_over(stamps, first_sent);
    if let Some(word) = error {
        if !first_sent && blame == Some(Some(Fault::Timeout)) {
            // Its time was up in its key's line.
            service.verdict.forget_refusal();
        }
        service.verdict.fail_elsewhere(word);
    }
    service.answer = Answer::Owned(reply);
    blame
}

// ── writes to several replicas ─────────────────────────────────────────────────────────────────────────────────────────────

/// Sends a write to the replicas of its key. Returns whether the request has its answer now, because none of them heard of it.
pub(crate) fn replicate(
    services: &mut Services,
    base: &mut Base,
    key: RequestKey,
    of: (&[u8], &[Slot]),
    write: Write<'_>,
    now: Instant,
) -> bool {
    if services[key].kind == Kind::Overdue {
        base.meter.counters().writes_overdue += 1;
        // A value that is too large was to delete the old one, which is still there.
        services[key].verdict.forget_refusal();
        note_refusal(services, base, (key, 0), (Fault::Timeout, of.1[0]));
        return true;
    }
    let service = &mut services[key];
    let kept_bytes_max = if write.is_conditional { base.copy_bytes_max() } else { 0 };
    let Base { replication, fleet, clients, .. } = base;
    let ticket = Ticket::new(key, service.begun());
    match replication.begin_write(fleet, ticket, of, (write, kept_bytes_max), now) {
        Ok(replicated) => {
            let kept_bytes = replicated.kept_bytes();
            service.outstanding = replicated.owed();
            service.write = Some(replicated);
            if write.is_conditional {
                service.kind = Kind::DecidedAlone;
                clients[service.session].begin_deciding();
                base.recharge_copy(0, kept_bytes);
            }
            return false;
        }
        Err(Declined::Refused(fault, server)) => note_refusal(services, base, (key, 0), (fault, server)),
        Err(Declined::Exists(Cow::Borrowed(line))) => service.answer = Answer::Fixed(line),
        Err(Declined::Exists(Cow::Owned(line))) => service.answer = Answer::Owned(line),
    }
    true
}

/// A replica answered a part of a write. Returns whether the request has its answer now.
pub(crate) fn take_write_reply(
    services: &mut Services,
    base: &mut Base,
    (key, part): (RequestKey, u32),
    (server, reply, bytes): (Slot, Reply, &[u8]),
    now: Instant,
) -> bool {
    let service = &mut services[key];
    let ticket = Ticket::new(key, service.begun());
    let Some(write) = service.write.as_deref_mut() else { return false };
    let Base { replication, fleet, .. } = base;
    let kept_bytes = write.kept_bytes();
    let advanced = replication.take_reply(fleet, (write, ticket), (server, part), (reply, bytes), now);
    carry_out(services, base, (key, kept_bytes), advanced)
}

/// A replica gave no answer to a part of a write. Returns whether the request has its answer now.
pub(crate) fn take_write_loss(
    services: &mut Services,
    base: &mut Base,
    (key, part): (RequestKey, u32),
    (fault, server): (Fault, Slot),
    now: Instant,
) -> bool {
    let service = &mut services[key];
    let ticket = Ticket::new(key, service.begun());
    let Some(write) = service.write.as_deref_mut() else { return false };
    let Base { replication, fleet, .. } = base;
    let kept_bytes = write.kept_bytes();
    let advanced = replication.take_loss(fleet, (write, ticket), (server, part), fault, now);
    carry_out(services, base, (key, kept_bytes), advanced)
}

/// What has come of a write is noted in its request, which kept so much for those that follow. Returns whether it has its answer now.
fn carry_out(
    services: &mut Services,
    base: &mut Base,
    (key, kept_bytes): (RequestKey, usize),
    mut advanced: Advanced,
) -> bool {
    let_go_on(base, advanced.next());
    let service = &mut services[key];
    if advanced.has_sent() {
        service.clock.begin_second_step();
    }
    let owed = service.write.as_ref().map_or(0, |write| write.owed());
    service.outstanding = owed;
    if owed == 0 {
        service.write = None;
    }
    if kept_bytes > 0 {
        base.recharge_copy(kept_bytes, service.write.as_ref().map_or(0, |write| write.kept_bytes()));
    }
    let answered = advanced.take_answer();
    let is_answered = answered.is_some();
    match answered {
        Some(Answered::Done(reply)) => service.answer = Answer::Owned(reply),
        Some(Answered::Failed(reply, failure)) => {
            service.answer = Answer::Owned(reply);
            match failure {
                Failure::Fault(fault, server) => fail_part(services, base, (key, 0), (fault, server)),
                Failure::Line(line, status) => fail_with_line(service, base, 0, (&line, status)),
            }
        }
        None if owed == 0 && service.stage == Stage::Lingering => services.remove(key),
        None => {}
    }
    is_answered
}

// ── copies that are missing ────────────────────────────────────────────────────────────────────────────────────────────────

/// A multi-get, or a `get` of one key, has its answer that has asked others for what a doubted server missed. What was found is put back.
#[cold]
pub(crate) fn learn_from_second_step(
    services: &mut Services,
    base: &mut Base,
    key: RequestKey,
    now: Instant,
) {
    let Some(mut gather) = services[key].gather.take() else { return };
    let doubted = gather.again.doubted();
    if let Some((server, asked)) = doubted {
        let mut found = 0;
        gather.again.for_each_found(|_| found += 1);
        base.fleet.replicas.learn_of_doubted(server, asked, found.min(asked));
    }
    let is_rescued = doubted.is_some() && base.fleet.config.puts_back();
    if is_rescued || base.fleet.config.read_repair == ReadRepair::On {
        // What one server lacked and another had is put back.
        gather.again.for_each_found(|Found { name, block_len }| {
            put_back_missed(services, base, (name, block_len), now);
        });
    }
    services[key].gather = Some(gather);
}

/// What a server lacks and another has is put back.
pub(crate) fn put_back_missed(
    services: &mut Services,
    base: &mut Base,
    (name, value_len): (&[u8], usize),
    now: Instant,
) {
    if base.replication.wants_repair(&base.fleet.routes, name, value_len) {
        begin_repair(services, base, (name, None), now);
    }
}

/// The owner of a key asks its decider for what the others are to have. Nobody waits for that.
pub(crate) fn begin_repair(
    services: &mut Services,
    base: &mut Base,
    (name, home): (&[u8], Option<LoopId>),
    now: Instant,
) {
    let begun = base.replication.begin_repair(&mut base.fleet, (name, home), || services.add(), now);
    if let Some((key, write)) = begun {
        let service = &mut services[key];
        service.clock = Clock::at(now);
        service.outstanding = write.owed();
        service.stage = Stage::Lingering;
        service.write = Some(write);
    }
}
