//! What clients send is taken into service, while their sessions may have more there: the gate of all requests.
//!
//! ```text
//!   client's bytes ──▶ consume ──▶ may he? ──▶ waits? ──▶ take ──▶ dispatch       may he: `clients/gate.rs`
//!   lent session   ──▶ serve   ──▶ waits? ──▶ take          a driver that reads its clients itself
//!   another loop   ──▶ mail    ──▶ locked? ──▶ carry out    a write of a key that this loop owns
//! ```

use crate::{
    Fault, Mail, Mutation, SessionId, Taken,
    clients::bulk::{Awaits, Slicing},
    clients::intake::Input,
    clients::sequence::Claim,
    replication::key_lock::{Freed, Overdue},
    replication::mailbox::{Came, WriteByMail},
    requests::answer::Answer,
    requests::base::Base,
    requests::dispatch::{
        Large, carry_out, dispatch, go_on_with_slices, refuse, refuse_foreign, refuse_large,
    },
    requests::writes::{
        begin_repair, leave_line, let_go_on, other_owner, take_outcome, wait_until, waits_for_key,
    },
    requests::{Context, Requests, bulk_writes},
    wire::kept::KeptRequest,
};
use weir_protocol::{Parsed, Refusal, Request};
use weir_timing::Instant;

/// Takes requests from the front of `input` while the session may have more in service, and keeps the rest.
pub(crate) fn consume(
    requests: &mut Requests,
    base: &mut Base,
    id: SessionId,
    input: Input<'_>,
    now: Instant,
) {
    let rest = input.rest();
    while let Some(parsed) = base.clients.next_request(id, &rest, &base.fleet.routes, now) {
        let waits = waits(requests, base, id, &parsed, now);
        let intake = &mut base.clients[id].intake;
        if waits {
            intake.pause();
            break;
        }
        let first_byte = intake.take(&rest, &parsed, now);
        take(requests, base, id, parsed, first_byte, now);
    }
    let left = rest.bytes().len();
    base.clients.keep(id, input, left, now);
}

/// Whether the next request of a session waits for something before it.
#[inline(always)]
fn waits(requests: &mut Requests, base: &mut Base, id: SessionId, parsed: &Parsed<'_>, now: Instant) -> bool {
    (is_spread(base)
        && (waits_for_earlier(base, id, parsed) || bulk_writes::waits_for_mail(base, id, parsed)))
        || bulk_writes::waits(base, id, parsed)
        || requests.bulk_reads.waits(base, id, parsed, now)
        || (base.replication.has_locks() && waits_for_key(base, id, parsed, now))
}

/// Whether requests of one session may be served at different places.
#[inline]
fn is_spread(base: &Base) -> bool {
    base.replication.has_mailbox() && base.fleet.routes.is_replicated()
}

/// Whether a request must wait for earlier ones of its session. If not, what it claims is noted when it is taken.
fn waits_for_earlier(base: &mut Base, id: SessionId, parsed: &Parsed<'_>) -> bool {
    let claim = Claim::of(parsed, |name| other_owner(base, name).is_some());
    let session = &mut base.clients[id];
    let waits = session.claims.waits(claim);
    if waits && is_long_read(parsed) {
        // Else it would be parsed again each time that one of them is done.
        session.bulk.wait_for(Awaits::All);
    }
    base.meter.counters().session_order_waits += u64::from(waits);
    waits
}

/// Whether it takes long to look at the keys of a request.
fn is_long_read(parsed: &Parsed<'_>) -> bool {
    matches!(parsed, Parsed::Request { request: Request::Retrieval(_), len } if *len > LONG_BYTES_MIN)
}

/// Reads with longer lines are not looked at more often than they must be.
const LONG_BYTES_MIN: usize = 64 << 10;

/// A session that waited for something may go on.
pub(crate) fn resume(requests: &mut Requests, base: &mut Base, id: SessionId, now: Instant) {
    let Some(session) = base.clients.get(id).filter(|session| !session.is_gone()) else { return };
    if session.is_lent() {
        return resume_lent(requests, base, id, now);
    }
    if !session.intake.is_paused() {
        return;
    }
    if session.bulk.slicing != Slicing::No {
        return go_on_with_slices(requests, base, id, now);
    }
    if !session.may_be_looked_at() {
        return;
    }
    let input = base.clients.go_on(id);
    consume(requests, base, id, input, now);
    if !base.clients[id].intake.is_paused() {
        leave_line_untaken(base, id);
    }
    // It may have been answered without a server, and others go on in the same turn.
    base.clients.recharge(id);
    base.clients.read_on(id);
}

/// The write that this session has waited with was not taken in its turn: nothing more is, or the rest of it is still to come. Whoever waits
/// behind it may go on. When it is whole it waits anew.
#[cold]
fn leave_line_untaken(base: &mut Base, id: SessionId) {
    if let Some(stalled) = base.clients[id].stalled.take() {
        leave_line(base, &stalled);
    }
}

/// Takes what was parsed into service, or refuses it.
// As a call of its own it costs every request forty instructions.
#[inline(always)]
fn take(
    requests: &mut Requests,
    base: &mut Base,
    id: SessionId,
    parsed: Parsed<'_>,
    first_byte: Instant,
    now: Instant,
) {
    let context = |len| Context { session: id, first_byte, now, request_bytes: len };
    match parsed {
        Parsed::Request { request, len } => dispatch(requests, base, request, context(len)),
        Parsed::Refused { refusal, silent, len } => refuse(requests, base, refusal, silent, context(len)),
        Parsed::TooLarge { refusal, key, base64, silent, erases, len, .. } => {
            let large = Large { key, base64, silent, erases, refusal };
            refuse_large(requests, base, large, context(len));
        }
        Parsed::Incomplete { .. } => {}
        Parsed::Hangup { refusal } => {
            if let Some(refusal) = refusal {
                refuse(requests, base, refusal, false, context(0));
            }
            base.clients.hang_up(id);
        }
        Parsed::Foreign { foreign } => refuse_foreign(requests, base, &foreign, context(0)),
        Parsed::Login { name, password, len } => log_in(requests, base, (name, password), context(len)),
    }
}

/// A client that must log in says who it is. Nobody else hears what it has said.
#[cold]
fn log_in(requests: &mut Requests, base: &mut Base, (name, password): (&[u8], &[u8]), context: Context) {
    let is_so = base.clients.log_in(context.session, name, password);
    if !is_so {
        return refuse(requests, base, Refusal::LoginFailed, false, context);
    }
    base.meter.counters().requests += 1;
    requests.answer_locally(base, Answer::Fixed(b"STORED\r\n"), false, false, context);
}

// ── requests that somebody else has read ───────────────────────────────────────────────────────────────────────────────────

/// Takes a request of a lent session into service. With a `denied`, no server is asked: who needs one is answered with that fault.
pub(crate) fn serve(
    requests: &mut Requests,
    base: &mut Base,
    id: SessionId,
    (parsed, taken): (Parsed<'_>, Taken),
    denied: Option<Fault>,
) {
    base.memory_is_used(taken.dequeued);
    base.clients[id].hand_in(taken, None);
    base.fleet.servers.note_requests();
    let holds = !base.fleet.config.is_without(Mutation::LentHold);
    let may_wait = denied.is_none() && holds && base.replication.has_locks();
    if may_wait && waits_for_key(base, id, &parsed, taken.dequeued) {
        return stall(base, id, KeptRequest::of(&parsed));
    }
    if denied.is_none() {
        return take(requests, base, id, parsed, taken.first_byte, taken.dequeued);
    }
    base.fleet.servers.deny(denied);
    take(requests, base, id, parsed, taken.first_byte, taken.dequeued);
    if !base.fleet.config.is_without(Mutation::LentDenial) {
        base.fleet.servers.deny(None);
    }
}

/// The request is taken when its key is free.
fn stall(base: &mut Base, id: SessionId, kept: Option<KeptRequest>) {
    if let Some(stalled) = &mut base.clients[id].stalled {
        stalled.keep(kept);
    }
}

/// The key for which the request of a lent session waits may be free.
fn resume_lent(requests: &mut Requests, base: &mut Base, id: SessionId, now: Instant) {
    let session = &mut base.clients[id];
    let taken = session.taken().map_or_else(Taken::default, |(taken, _)| taken);
    let Some(kept) = session.stalled.as_mut().and_then(|stalled| stalled.take_kept()) else { return };
    let parsed = kept.parsed(base.fleet.config.limits);
    if waits_for_key(base, id, &parsed, now) {
        return stall(base, id, Some(kept));
    }
    take(requests, base, id, parsed, taken.first_byte, now);
}

// ── mail ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────

/// Mail of another loop has come.
pub(crate) fn take_mail(requests: &mut Requests, base: &mut Base, mail: Mail, now: Instant) {
    match base.replication.take_mail(mail) {
        Came::Write(mail) => {
            base.memory_is_used(now);
            let until = wait_until(&base.fleet.config, mail.times().1);
            if let Some(mail) = base.replication.admit_mail(mail, until) {
                serve_mail(requests, base, &mail, now);
            }
        }
        Came::Reply(request, outcome) => {
            let blame = take_outcome(&mut requests.services, request, *outcome);
            requests.conclude_elsewhere(base, request, blame, None, now);
        }
        Came::Repair { home, name } => begin_repair(&mut requests.services, base, (&name, Some(home)), now),
        Came::Repaired => base.replication.end_repair(),
    }
}

/// Once per turn, if anybody waits for a key: answers those whose time is up, and begins writes that came by mail and whose keys are free.
#[cold]
pub(crate) fn look_at_lines(requests: &mut Requests, base: &mut Base, now: Instant) {
    while let Some(overdue) = base.replication.next_overdue(now) {
        match overdue {
            // It finds that it waits no more.
            Overdue::Session(id) => base.clients.let_go_on(id),
            Overdue::Mail(freed) => serve_freed(requests, base, freed, now),
        }
    }
    while let Some(freed) = base.replication.next_ready_mail() {
        serve_freed(requests, base, freed, now);
    }
}

/// A write that came by mail waits for its key no more.
fn serve_freed(requests: &mut Requests, base: &mut Base, mut freed: Freed, now: Instant) {
    if let Some(mail) = freed.take_mail() {
        serve_mail(requests, base, &mail, now);
    }
    let next = base.replication.next_after(&freed);
    let_go_on(base, next);
}

/// Begins a write that another loop has read.
fn serve_mail(requests: &mut Requests, base: &mut Base, mail: &WriteByMail, now: Instant) {
    let (first_byte, created) = mail.times();
    let taken = Taken { first_byte, created, enqueued: created, dequeued: now, ..Taken::default() };
    let id = base.replication.serve_mail(mail, now);
    base.clients[id].hand_in(taken, Some(mail.sender()));
    let context = Context { session: id, first_byte, now, request_bytes: mail.len() };
    match mail.parsed() {
        Parsed::Request { request, .. } => carry_out(requests, base, request, context),
        // It was a request when it was sent: the two loops would have to disagree about the protocol.
        _ => {
            let refusal = Answer::Fixed(Refusal::BadCommandLine.reply());
            requests.answer_locally(base, refusal, false, true, context);
        }
    }
}
