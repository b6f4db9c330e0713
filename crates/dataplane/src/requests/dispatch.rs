//! A request becomes messages to servers.
//!
//! | request | to whom | whose reply counts |
//! |---|---|---|
//! | retrieval | as `plan.rs` plans, one message per server | all, merged in the order of the request |
//! | `set`, `delete`, `touch` | all R replicas at once (`replication/write.rs`) | the decider's |
//! | other writes | the decider; the other replicas follow (`follow.rs`) | the decider's |
//! | `mg`, `me` | the decider: the first of the key's replicas that may be read (`replication/fleet.rs`) | its |
//! | `ms`, `md`, `ma` | as `set`, `delete` and other writes, by their flags | the decider's |
//! | a value above the limit | for `set` and `ms`, a `delete` to all R servers | none: the refusal |
//! | `flush_all`, if allowed | every server | all must agree |
//! | `cache_memlimit`, `slabs`, `lru`, `lru_crawler`, if allowed | every server | all must agree |
//! | `version`, `verbosity`, `mn`, `stats`, mistakes | nobody | |

use crate::{
    Event, Fault, Mutation, SessionId, StatsTopic,
    replication::key_writes::Written,
    requests::answer::Answer,
    requests::base::Base,
    requests::bulk_reads::is_bulk_read,
    requests::bulk_writes::note_bulk,
    requests::degrade::{Degrades, meta_miss},
    requests::failover::remember,
    requests::outcome::note_refusal,
    requests::plan::{Asker, Plan},
    requests::retrieval::send_plan,
    requests::send::Message,
    requests::service::{Kind, retrieval_operation},
    requests::watched::look_at,
    requests::writes::{mail_write, other_owner, replicate},
    requests::{Context, Requests, chooser, reread},
    servers::bulk::Way,
    servers::message::{expected_of, flags_aloud, write_message},
    wire::ids::{LoopId, RequestKey, Slot},
    wire::key::WireKey,
    wire::write::{Write, invalidation, value_len, without_noreply},
};
use std::sync::Arc;
use weir_protocol::Retrieval;
use weir_protocol::{
    Arithmetic, Deletion, Expected, Meta, MetaVerb, Refusal, Request, Storage, Touch, door::Foreign,
};
use weir_routing::REPLICAS_MAX;
use weir_timing::{Instant, Operation};

/// Sends a request on its way.
#[inline(always)]
pub(crate) fn dispatch(requests: &mut Requests, base: &mut Base, request: Request<'_>, context: Context) {
    base.meter.counters().requests += 1;
    if base.meter.hot_keys().is_due() {
        look_at(&mut base.meter, &request, context.now);
    }
    carry_out(requests, base, request, context);
}

pub(crate) fn carry_out(requests: &mut Requests, base: &mut Base, request: Request<'_>, context: Context) {
    // Asked in the arms, where it is known what the request is.
    match request {
        Request::Retrieval(retrieval) => {
            count_change(requests, base, &request, context);
            retrieve(requests, base, retrieval, context);
        }
        Request::Meta(meta) => {
            count_change(requests, base, &request, context);
            begin_meta(requests, base, meta, context);
        }
        Request::Storage(Storage { key, .. })
        | Request::Deletion(Deletion { key, .. })
        | Request::Touch(Touch { key, .. })
        | Request::Arithmetic(Arithmetic { key, .. }) => {
            count_change(requests, base, &request, context);
            begin_write(requests, base, key, Write::classic(request), context);
        }
        Request::FlushAll { .. } => {
            count_change(requests, base, &request, context);
            flush_all(requests, base, request, context);
        }
        Request::ServerCommand { .. } => {
            count_change(requests, base, &request, context);
            command_servers(requests, base, request, context);
        }
        Request::Stats { arguments } => stats(requests, base, arguments, context),
        Request::MetaNoop => requests.answer_locally(base, Answer::Fixed(b"MN\r\n"), false, false, context),
        Request::Version => {
            let reply = base.version_reply();
            requests.answer_locally(base, Answer::Owned(reply), false, false, context);
        }
        Request::Verbosity { noreply } => {
            requests.answer_locally(base, Answer::Fixed(b"OK\r\n"), noreply, false, context);
        }
        Request::Quit => base.clients.hang_up(context.session),
    }
}

/// What the session sent before this is not asked again behind it, if this may change items; and what it changes is counted until it is
/// answered.
#[inline(always)]
fn count_change(requests: &mut Requests, base: &mut Base, request: &Request<'_>, context: Context) {
    let is_left_out = base.fleet.config.is_without(Mutation::Changes)
        && matches!(request, Request::Retrieval(_) | Request::Meta(Meta { verb: MetaVerb::Get, .. }));
    if request.may_change_items() && !is_left_out {
        let session = &mut base.clients[context.session];
        session.count_change();
        // What another loop has read is counted there.
        if requests.ask_once.is_on() && !session.is_lent() {
            requests.ask_once.begin_write(request);
        }
    }
}

/// Answers a client's own mistake.
pub(crate) fn refuse(
    requests: &mut Requests,
    base: &mut Base,
    refusal: Refusal,
    silent: bool,
    context: Context,
) {
    base.meter.counters().note_refusal(refusal);
    requests.answer_locally(base, Answer::Fixed(refusal.reply()), silent, true, context);
}

/// Answers a client whose first bytes belong to another protocol, and closes its connection.
#[cold]
pub(crate) fn refuse_foreign(requests: &mut Requests, base: &mut Base, foreign: &Foreign, context: Context) {
    base.meter.counters().note_foreign(foreign);
    let answer = Answer::Owned(foreign.answer());
    requests.answer_locally(base, answer, false, true, context);
    base.clients.hang_up(context.session);
}

/// Answers a request to store a value above the limit, whose data block is thrown away. The old value is not what the client
/// wanted to be there, so it is deleted, as memcached does.
pub(crate) fn refuse_large(requests: &mut Requests, base: &mut Base, large: Large<'_>, context: Context) {
    if !large.erases {
        return refuse(requests, base, large.refusal, large.silent, context);
    }
    base.meter.counters().requests += 1;
    base.meter.counters().requests_refused += 1;
    let session = &mut base.clients[context.session];
    session.count_change();
    let is_lent = session.is_lent();
    let wire = WireKey { bytes: large.key, base64: large.base64 };
    let spelling = wire.spelling();
    let wire = WireKey { bytes: &spelling, ..wire };
    let (request, expected) = invalidation(wire);
    let write = Write {
        request,
        expected,
        key: wire,
        is_conditional: false,
        operation: Operation::Set,
        silent: large.silent,
    };
    let decoded = wire.decoded();
    let name = wire.placement_name(decoded.as_ref());
    if !is_lent {
        requests.ask_once.begin_write_of(name);
    }
    if let Some(owner) = other_owner(base, name) {
        return mail(requests, base, (owner, name), write, Some(Refusal::TooLarge), context);
    }
    let key = requests.begin(base, Operation::Set, 1, large.silent, context);
    requests.services[key].verdict.refuse(large.refusal);
    send_to_replicas(requests, base, key, name, write, context.now);
}

fn begin_meta(requests: &mut Requests, base: &mut Base, meta: Meta<'_>, context: Context) {
    let wire = WireKey::of(&meta);
    let decoded = wire.decoded();
    if meta.may_create() && decoded.as_ref().is_some_and(|decoded| !decoded.is_plain()) {
        // memcached 1.6 forgets that such a key is binary, and would repeat its bytes as they are: a line ending among
        // them would forge a reply on a connection that many clients share.
        base.meter.counters().requests_refused += 1;
        let refusal = Answer::Fixed(Refusal::BadCommandLine.reply());
        return requests.answer_locally(base, refusal, false, true, context);
    }
    let name = wire.placement_name(decoded.as_ref());
    let expected = expected_of(&meta);
    let aloud;
    let asked = if expected == Expected::MetaUnlessMiss {
        aloud = flags_aloud(&meta);
        Meta { flags: &aloud, ..meta }
    } else {
        meta
    };
    let request = Request::Meta(asked);
    let (operation, is_conditional) = match meta.verb {
        MetaVerb::Get | MetaVerb::Debug => {
            let key = requests.begin(base, Operation::Get, 1, false, context);
            let service = &mut requests.services[key];
            if meta.verb == MetaVerb::Get {
                service.answer_failures_with(Degrades::of(&base.fleet.config), || meta_miss(meta));
            }
            if base.fleet.routes.is_replicated() {
                if base.fleet.routes.replicates(name) {
                    service.kind = Kind::Replicated;
                }
                remember(service, base, reread::Question::of_meta(asked, name, expected));
            }
            match base.fleet.decider(name) {
                Ok(server) => {
                    let message = Message { server, expected, decides: true };
                    requests.send_read(base, (key, message), (name, &asked), context.now);
                }
                Err((fault, server)) => note_refusal(&mut requests.services, base, (key, 0), (fault, server)),
            }
            return requests.finish_if_nothing_is_outstanding(base, key, context.now);
        }
        MetaVerb::Set => (Operation::Set, meta.is_conditional()),
        MetaVerb::Delete => (Operation::Delete, meta.is_conditional()),
        MetaVerb::Arithmetic => (Operation::Incr, true),
    };
    let spelling = wire.spelling();
    let key = WireKey { bytes: &spelling, ..wire };
    let write = Write { request, expected, key, is_conditional, operation, silent: false };
    begin_write(requests, base, name, write, context);
}

fn begin_write(requests: &mut Requests, base: &mut Base, name: &[u8], write: Write<'_>, context: Context) {
    if let Some(owner) = other_owner(base, name) {
        return mail(requests, base, (owner, name), write, None, context);
    }
    let key = requests.begin(base, write.operation, 1, write.silent, context);
    send_to_replicas(requests, base, key, name, write, context.now);
}

/// The owner of its key carries the write out. The client gets `refusal`, if there is one, whatever comes of it.
fn mail(
    requests: &mut Requests,
    base: &mut Base,
    to: (LoopId, &[u8]),
    write: Write<'_>,
    refusal: Option<Refusal>,
    context: Context,
) {
    let key = requests.begin(base, write.operation, 1, write.silent, context);
    if let Some(refusal) = refusal {
        requests.services[key].verdict.refuse(refusal);
    }
    if mail_write(&mut requests.services, base, key, to, (write, context)) {
        requests.finish(base, key, None, context.now);
    }
}

fn send_to_replicas(
    requests: &mut Requests,
    base: &mut Base,
    key: RequestKey,
    name: &[u8],
    write: Write<'_>,
    now: Instant,
) {
    let mut replicas = [Slot::FIRST; REPLICAS_MAX];
    let count = base.fleet.replicas_of(name, &mut replicas);
    let len = value_len(&write.request);
    if count > 1 || requests.services[key].kind == Kind::Overdue {
        if replicate(&mut requests.services, base, key, (name, &replicas[..count]), write, now) {
            requests.finish(base, key, None, now);
        }
        return;
    }
    if base.fleet.servers.may_go_bulk(len) {
        let server = &mut replicas[0];
        match base.fleet.servers.way_of_write(*server, name, len, now) {
            Way::Own => {}
            Way::Bulk(slot, mark) => return send_bulk(requests, base, key, (slot, mark), write, now),
            Way::Refused => {
                note_refusal(&mut requests.services, base, (key, 0), (Fault::Timeout, *server));
                return requests.finish(base, key, None, now);
            }
        }
    }
    if requests.services[key].changes.written != Written::Nothing {
        requests.note_write_in_line(base, key, &write.request, now);
    }
    requests.send_ahead(
        base,
        (key, Message { server: replicas[0], expected: write.expected, decides: true }),
        name,
        now,
        |backend| {
            write_message(write.request, write.expected, backend);
        },
    );
    requests.finish_if_nothing_is_outstanding(base, key, now);
}

fn send_bulk(
    requests: &mut Requests,
    base: &mut Base,
    key: RequestKey,
    (slot, mark): (Slot, u32),
    write: Write<'_>,
    now: Instant,
) {
    requests.send(
        base,
        (key, Message { server: slot, expected: write.expected, decides: true }),
        now,
        |backend| {
            write_message(write.request, write.expected, backend);
        },
    );
    note_bulk(&mut requests.services[key], base, slot, mark);
    requests.finish_if_nothing_is_outstanding(base, key, now);
}

fn flush_all(requests: &mut Requests, base: &mut Base, request: Request<'_>, context: Context) {
    let key = requests.begin(base, Operation::Local, 0, request.noreply(), context);
    requests.services[key].changes.is_split = true;
    let message = without_noreply(request);
    let routes = Arc::clone(&base.fleet.routes);
    for (rank, &server) in routes.servers().iter().enumerate() {
        let own = server;
        let server = base.fleet.servers.way_of_flush(own);
        requests.send(
            base,
            (key, Message { server, expected: Expected::Flush, decides: rank == 0 }),
            context.now,
            |backend| {
                message.write_to(backend.message());
            },
        );
        if server != own && requests.services[key].kind != Kind::Bulk {
            note_bulk(&mut requests.services[key], base, server, FLUSH_MARK);
        }
    }
    requests.finish_if_nothing_is_outstanding(base, key, context.now);
}

/// Passes on what concerns whole servers.
#[cold]
fn command_servers(requests: &mut Requests, base: &mut Base, request: Request<'_>, context: Context) {
    let key = requests.begin(base, Operation::Local, 0, request.noreply(), context);
    requests.services[key].changes.is_split = true;
    let message = without_noreply(request);
    let routes = Arc::clone(&base.fleet.routes);
    for (rank, &server) in routes.servers().iter().enumerate() {
        requests.send(
            base,
            (key, Message { server, expected: Expected::ServerCommand, decides: rank == 0 }),
            context.now,
            |backend| {
                message.write_to(backend.message());
            },
        );
    }
    requests.finish_if_nothing_is_outstanding(base, key, context.now);
}

/// Asks the driver, which alone can see all loops. It answers by [`crate::Dataplane::handle_stats`].
fn stats(requests: &mut Requests, base: &mut Base, arguments: &[u8], context: Context) {
    let Some(topic) = StatsTopic::parse(arguments) else {
        let (answer, is_error) = StatsTopic::fixed(arguments);
        return requests.answer_locally(base, Answer::Fixed(answer), false, is_error, context);
    };
    let request = requests.begin(base, Operation::Local, 0, false, context);
    requests.services[request].outstanding = 1;
    base.clients.ask(Event::Stats { request, topic });
}

fn retrieve(requests: &mut Requests, base: &mut Base, retrieval: Retrieval<'_>, context: Context) {
    let operation = retrieval_operation(retrieval.verb, retrieval.key_count());
    if retrieval.key_count() == 0 {
        return requests.answer_locally(base, Answer::Fixed(b"END\r\n"), false, false, context);
    }
    let key = requests.begin(base, operation, retrieval.key_count(), false, context);
    let service = &mut requests.services[key];
    let degrades = Degrades::of(&base.fleet.config);
    service.answer_failures_with(degrades, || Answer::Fixed(b"END\r\n"));
    if base.fleet.routes.is_replicated() {
        remember(service, base, reread::Question::of(retrieval.verb));
    }
    if is_bulk_read(&base.clients[context.session], &retrieval) {
        let Requests { services, bulk_reads, .. } = requests;
        let slice = bulk_reads.begin(base, (key, &mut services[key]), retrieval);
        return send_slice(requests, base, key, slice, context.now);
    }
    if requests.ask_once.is_on() {
        return retrieve_once(requests, base, (key, retrieval), context);
    }
    let asker = Asker::from(&base.clients[context.session]);
    let plan = requests.planner.plan(&mut base.fleet, retrieval, asker);
    ask(requests, base, key, plan, retrieval, context.now);
}

/// Takes a value that is kept or the reply to an earlier get, or lets others take the reply to this one (`ask_once.rs`).
#[cold]
fn retrieve_once(
    requests: &mut Requests,
    base: &mut Base,
    (key, retrieval): (RequestKey, Retrieval<'_>),
    context: Context,
) {
    let session = &base.clients[context.session];
    let (may_share, asker) = (!session.is_lent(), Asker::from(session));
    if !may_share {
        let plan = requests.planner.plan(&mut base.fleet, retrieval, asker);
        return ask(requests, base, key, plan, retrieval, context.now);
    }
    let Some(wish) = requests.answer_near(base, key, &retrieval, context.now) else { return };
    let Requests { services, ask_once, planner, .. } = requests;
    if ask_once.join(services, base, (key, &retrieval)) {
        return;
    }
    let plan = planner.plan(&mut base.fleet, retrieval, asker);
    if let Plan::One(Ok(server)) = plan {
        ask_once.lead(services, base, (key, &retrieval), context.now);
        if requests.ask_by_meta(base, (key, &retrieval), (wish, server), context.now) {
            return;
        }
    }
    ask(requests, base, key, plan, retrieval, context.now);
}

fn send_slice(requests: &mut Requests, base: &mut Base, key: RequestKey, slice: Retrieval<'_>, now: Instant) {
    let Requests { services, planner, bulk_reads, .. } = requests;
    let plan = bulk_reads.plan(base, planner, (key, services[key].session), slice);
    ask(requests, base, key, plan, slice, now);
}

/// The client of a read in slices has taken something of the values that came before.
pub(crate) fn go_on_with_slices(requests: &mut Requests, base: &mut Base, id: SessionId, now: Instant) {
    let Some((key, slices, count)) = requests.bulk_reads.go_on(base, id) else { return };
    let slice = slices.next(count);
    let Requests { services, bulk_reads, .. } = requests;
    bulk_reads.begin_slice((key, &mut services[key]), (&slices, slice), now);
    if let Some(refusal) = base.clients[id].gate().refusal_of_slice(slice, &base.fleet.routes) {
        base.meter.counters().note_refusal_of_slice();
        requests.services[key].verdict.refuse(refusal);
        return requests.finish_if_nothing_is_outstanding(base, key, now);
    }
    send_slice(requests, base, key, slice, now);
}

/// Asks whom the plan names.
#[inline(always)]
fn ask(
    requests: &mut Requests,
    base: &mut Base,
    key: RequestKey,
    plan: Plan,
    retrieval: Retrieval<'_>,
    now: Instant,
) {
    if let Plan::Parts(_, Some(way)) = &plan {
        let counters = base.meter.counters();
        counters.multigets_auto_whole += u64::from(*way == chooser::Way::Whole);
        counters.multigets_auto_sharded += u64::from(*way == chooser::Way::Sharded);
    }
    send_plan(&mut requests.services, base, key, (plan, retrieval), now);
    requests.finish_if_nothing_is_outstanding(base, key, now);
}

/// A request to store a value above the limit.
#[derive(Clone, Copy)]
pub(crate) struct Large<'a> {
    pub(super) key: &'a [u8],
    pub(super) base64: bool,
    pub(super) silent: bool,
    pub(super) erases: bool,
    pub(super) refusal: Refusal,
}

/// A `flush_all` that went over a bulk connection is known by no key.
const FLUSH_MARK: u32 = 0;
