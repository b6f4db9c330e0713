//! A request becomes messages to servers.
//!
//! | request | to whom | whose reply counts |
//! |---|---|---|
//! | retrieval | as `multiget.rs` plans, one message per server | all, merged in the order of the request |
//! | `set`, `delete`, `touch` | all R replicas at once (`replicate.rs`) | the decider's |
//! | other writes | the decider; the other replicas follow (`follow.rs`) | the decider's |
//! | `mg`, `me` | the decider: the first of the key's replicas that may be read (`read.rs`) | its |
//! | `ms`, `md`, `ma` | as `set`, `delete` and other writes, by their flags | the decider's |
//! | a value above the limit | for `set` and `ms`, a `delete` to all R servers | none: the refusal |
//! | `flush_all`, if allowed | every server | all must agree |
//! | `cache_memlimit`, `slabs`, `lru`, `lru_crawler`, if allowed | every server | all must agree |
//! | `version`, `verbosity`, `mn`, `stats`, mistakes | nobody | |

use crate::{
    Dataplane, Event, Fault, SessionId, StatsTopic,
    meter::trace::Traced,
    requests::answer::Answer,
    requests::bulk_reads::is_bulk_read,
    requests::bulk_writes::note_bulk,
    requests::degrade::{Degrades, meta_miss},
    requests::failover::remember,
    requests::outcome::{fail_with_line, note_refusal},
    requests::plan::{Asker, Plan},
    requests::retrieval::send_plan,
    requests::send::{Message, send},
    requests::service::retrieval_operation,
    requests::writes::{leave_line, replicate},
    requests::{Requests, auto, reread},
    servers::backend::{Backend, RequestKey},
    servers::bulk::Way,
    servers::message::write_message,
    wire::key::WireKey,
    wire::write::{Write, invalidation, value_len, without_noreply},
};
use std::sync::Arc;
use weir_protocol::Retrieval;
use weir_protocol::Status;
use weir_protocol::{
    Arithmetic, Deletion, Expected, Meta, MetaVerb, Refusal, Request, Storage, Touch, door::Foreign,
};
use weir_routing::REPLICAS_MAX;
use weir_timing::{Instant, Operation};

/// One session's request, on its way.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub(crate) session: SessionId,
    /// When the read that brought its first byte returned.
    pub(crate) first_byte: Instant,
    /// When it was complete.
    pub(crate) now: Instant,
    /// How long it is.
    pub(crate) request_bytes: usize,
}

impl Dataplane {
    /// Sends a request on its way.
    pub(crate) fn dispatch(&mut self, request: Request<'_>, context: Context) {
        self.base.meter.counters().requests += 1;
        self.carry_out(request, context);
    }

    pub(crate) fn carry_out(&mut self, request: Request<'_>, context: Context) {
        // Asked in the arms, where it is known what the request is.
        match request {
            Request::Retrieval(retrieval) => {
                self.count_change(&request, context);
                self.retrieve(retrieval, context);
            }
            Request::Meta(meta) => {
                self.count_change(&request, context);
                self.meta(meta, context);
            }
            Request::Storage(Storage { key, .. })
            | Request::Deletion(Deletion { key, .. })
            | Request::Touch(Touch { key, .. })
            | Request::Arithmetic(Arithmetic { key, .. }) => {
                self.count_change(&request, context);
                self.write(key, Write::classic(request), context);
            }
            Request::FlushAll { .. } => {
                self.count_change(&request, context);
                self.flush_all(request, context);
            }
            Request::ServerCommand { .. } => {
                self.count_change(&request, context);
                self.command_servers(request, context);
            }
            Request::Stats { arguments } => self.stats(arguments, context),
            Request::MetaNoop => self.answer_locally(Answer::Fixed(b"MN\r\n"), false, false, context),
            Request::Version => {
                let reply = self.base.version_reply();
                self.answer_locally(Answer::Owned(reply), false, false, context);
            }
            Request::Verbosity { noreply } => {
                self.answer_locally(Answer::Fixed(b"OK\r\n"), noreply, false, context);
            }
            Request::Quit => self.base.clients.hang_up(context.session),
        }
    }

    /// What the session sent before this is not asked again behind it, if this may change items.
    #[inline(always)]
    fn count_change(&mut self, request: &Request<'_>, context: Context) {
        if self.base.fleet.config.is_change(request) {
            self.base.clients[context.session].count_change();
        }
    }

    /// Answers a client's own mistake.
    pub(crate) fn refuse(&mut self, refusal: Refusal, silent: bool, context: Context) {
        self.base.meter.counters().requests += 1;
        self.base.meter.counters().requests_refused += 1;
        self.answer_locally(Answer::Fixed(refusal.reply()), silent, true, context);
    }

    /// Answers a client whose first bytes are of another protocol, and closes its connection.
    #[cold]
    pub(crate) fn refuse_foreign(&mut self, foreign: &Foreign, context: Context) {
        self.base.meter.counters().note_foreign(foreign);
        let answer = Answer::Owned(foreign.answer());
        self.answer_locally(answer, false, true, context);
        self.base.clients.hang_up(context.session);
    }

    /// Answers a request to store a value above the limit, whose data block is thrown away. The old value is not what the client
    /// wanted to be there, so it is deleted, as memcached does.
    pub(crate) fn refuse_large(&mut self, large: Large<'_>, context: Context) {
        if !large.erases {
            return self.refuse(large.refusal, large.silent, context);
        }
        self.base.meter.counters().requests += 1;
        self.base.meter.counters().requests_refused += 1;
        self.base.clients[context.session].count_change();
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
        if let Some(owner) = self.other_owner(name) {
            return self.mail_write((owner, name), write, Some(Refusal::TooLarge), context);
        }
        let key = self.begin(Operation::Set, 1, large.silent, context);
        self.requests.services[key].refuse(large.refusal);
        self.send_to_replicas(key, name, write, context.now);
    }

    fn meta(&mut self, meta: Meta<'_>, context: Context) {
        let wire = WireKey::of(&meta);
        let decoded = wire.decoded();
        if meta.may_create() && decoded.as_ref().is_some_and(|decoded| !decoded.is_plain()) {
            // memcached 1.6 forgets that such a key is binary, and would repeat its bytes as they are: a line ending among
            // them would forge a reply on a connection that many clients share.
            self.base.meter.counters().requests_refused += 1;
            let refusal = Answer::Fixed(Refusal::BadCommandLine.reply());
            return self.answer_locally(refusal, false, true, context);
        }
        let name = wire.placement_name(decoded.as_ref());
        let request = Request::Meta(meta);
        let expected = if meta.is_quiet() { Expected::MetaThenNoop } else { Expected::Meta };
        let (operation, is_conditional) = match meta.verb {
            MetaVerb::Get | MetaVerb::Debug => {
                let key = self.begin(Operation::Get, 1, false, context);
                let service = &mut self.requests.services[key];
                if meta.verb == MetaVerb::Get {
                    service.answer_failures_with(Degrades::of(&self.base.fleet.config), || meta_miss(meta));
                }
                if self.base.fleet.routes.is_replicated() {
                    service.is_replicated_read = self.base.fleet.routes.replicates(name);
                    remember(service, &self.base, reread::Message::of_meta(meta, name, expected));
                }
                match self.base.fleet.decider(name) {
                    Ok(server) => self.send(key, server, expected, true, context.now, |backend| {
                        write_message(request, expected, backend);
                    }),
                    Err((fault, server)) => self.note_refusal(key, fault, server),
                }
                return self.finish_if_nothing_is_outstanding(key, context.now);
            }
            MetaVerb::Set => (Operation::Set, meta.is_conditional()),
            MetaVerb::Delete => (Operation::Delete, meta.is_conditional()),
            MetaVerb::Arithmetic => (Operation::Incr, true),
        };
        let spelling = wire.spelling();
        let key = WireKey { bytes: &spelling, ..wire };
        let write = Write { request, expected, key, is_conditional, operation, silent: false };
        self.write(name, write, context);
    }

    fn write(&mut self, name: &[u8], write: Write<'_>, context: Context) {
        if let Some(owner) = self.other_owner(name) {
            return self.mail_write((owner, name), write, None, context);
        }
        let key = self.begin(write.operation, 1, write.silent, context);
        self.send_to_replicas(key, name, write, context.now);
    }

    fn send_to_replicas(&mut self, key: RequestKey, name: &[u8], write: Write<'_>, now: Instant) {
        let mut replicas = [0; REPLICAS_MAX];
        let count = self.base.fleet.routes.replicas_of(name, &mut replicas);
        let len = value_len(&write.request);
        if count == 1 && self.base.fleet.servers.may_go_bulk(len) {
            let server = &mut replicas[0];
            match self.base.fleet.servers.way_of_write(usize::from(*server), name, len, now) {
                Way::Own => {}
                Way::Bulk(slot, mark) => return self.send_bulk(key, (slot, mark), write, now),
                Way::Refused => {
                    self.note_refusal(key, Fault::Timeout, usize::from(*server));
                    return self.finish(key, None, now);
                }
            }
        }
        if count > 1 {
            let Self { base, requests: Requests { services, .. }, .. } = self;
            if replicate(services, base, key, (name, &replicas[..count]), write, now) {
                self.finish(key, None, now);
            }
            return;
        }
        self.send(key, usize::from(replicas[0]), write.expected, true, now, |backend| {
            write_message(write.request, write.expected, backend);
        });
        self.finish_if_nothing_is_outstanding(key, now);
    }

    fn send_bulk(&mut self, key: RequestKey, (slot, mark): (usize, u32), write: Write<'_>, now: Instant) {
        self.send(key, slot, write.expected, true, now, |backend| {
            write_message(write.request, write.expected, backend);
        });
        note_bulk(&mut self.requests.services[key], &mut self.base, slot, mark);
        self.finish_if_nothing_is_outstanding(key, now);
    }

    fn flush_all(&mut self, request: Request<'_>, context: Context) {
        let key = self.begin(Operation::Local, 0, request.noreply(), context);
        let message = without_noreply(request);
        let routes = Arc::clone(&self.base.fleet.routes);
        for (rank, &server) in routes.servers().iter().enumerate() {
            let own = usize::from(server);
            let server = self.base.fleet.servers.way_of_flush(own);
            self.send(key, server, Expected::Flush, rank == 0, context.now, |backend| {
                message.write_to(backend.message());
            });
            if server != own && !self.requests.services[key].apart {
                note_bulk(&mut self.requests.services[key], &mut self.base, server, FLUSH_MARK);
            }
        }
        self.finish_if_nothing_is_outstanding(key, context.now);
    }

    /// Passes on what concerns whole servers.
    #[cold]
    fn command_servers(&mut self, request: Request<'_>, context: Context) {
        let key = self.begin(Operation::Local, 0, request.noreply(), context);
        let message = without_noreply(request);
        let routes = Arc::clone(&self.base.fleet.routes);
        for (rank, &server) in routes.servers().iter().enumerate() {
            let server = usize::from(server);
            self.send(key, server, Expected::ServerCommand, rank == 0, context.now, |backend| {
                message.write_to(backend.message());
            });
        }
        self.finish_if_nothing_is_outstanding(key, context.now);
    }

    /// Asks the driver, which alone can see all loops. It answers by [`Dataplane::handle_stats`].
    fn stats(&mut self, arguments: &[u8], context: Context) {
        let Some(topic) = StatsTopic::parse(arguments) else {
            let (answer, is_error) = StatsTopic::fixed(arguments);
            return self.answer_locally(Answer::Fixed(answer), false, is_error, context);
        };
        let request = self.begin(Operation::Local, 0, false, context);
        self.requests.services[request].outstanding = 1;
        self.base.clients.ask(Event::Stats { request, topic });
    }

    pub(crate) fn answer_locally(&mut self, answer: Answer, silent: bool, error: bool, context: Context) {
        let key = self.begin(Operation::Local, 0, silent, context);
        let service = &mut self.requests.services[key];
        service.answer = answer;
        service.error = error;
        self.finish(key, None, context.now);
    }

    /// Takes a request into service.
    pub(crate) fn begin(
        &mut self,
        operation: Operation,
        keys: usize,
        silent: bool,
        context: Context,
    ) -> RequestKey {
        let Context { session: id, first_byte, now, request_bytes } = context;
        let keys = u32::try_from(keys).unwrap_or(u32::MAX);
        let key = self.requests.services.add();
        let service = &mut self.requests.services[key];
        service.begin(id, operation, keys, silent, first_byte, now);
        let session = &mut self.base.clients[id];
        session.begin_request();
        service.changes_before = session.changes();
        if let Some((taken, sender)) = session.taken() {
            service.adopt(taken, sender);
            if sender.is_some() {
                return key;
            }
        }
        if !silent {
            session.replies.owe(key);
        }
        service.claim = session.turns.enter();
        if let Some(stalled) = session.stalled.take() {
            if !session.is_lent() {
                service.stamps.created = stalled.created();
            }
            leave_line(&mut self.base, id, &stalled);
        }
        if self.base.meter.samples_next() {
            self.sample(key, request_bytes);
        }
        key
    }

    #[cold]
    fn sample(&mut self, key: RequestKey, request_bytes: usize) {
        let service = &mut self.requests.services[key];
        let (client, queue_length, arrived) =
            self.base.clients[service.session].source(service.stamps.first_byte);
        service.traced = Some(Box::new(Traced::of(client, request_bytes as u64, queue_length, arrived)));
    }

    /// Queues one message for one server, or notes why it could not be.
    pub(crate) fn send(
        &mut self,
        request: RequestKey,
        server: usize,
        expected: Expected,
        decides: bool,
        now: Instant,
        compose: impl FnOnce(&mut Backend),
    ) {
        let message = Message { server, expected, decides };
        send(&mut self.requests.services, &mut self.base, request, message, now, compose);
    }

    pub(crate) fn note_refusal(&mut self, key: RequestKey, fault: Fault, server: usize) {
        note_refusal(&mut self.requests.services, &mut self.base, (key, 0), (fault, server));
    }

    pub(crate) fn fail_with_line(&mut self, (key, part): (RequestKey, u32), line: &[u8], status: Status) {
        fail_with_line(&mut self.requests.services[key], &mut self.base, part, (line, status));
    }

    fn retrieve(&mut self, retrieval: Retrieval<'_>, context: Context) {
        let operation = retrieval_operation(retrieval.verb, retrieval.key_count());
        if retrieval.key_count() == 0 {
            return self.answer_locally(Answer::Fixed(b"END\r\n"), false, false, context);
        }
        let key = self.begin(operation, retrieval.key_count(), false, context);
        let service = &mut self.requests.services[key];
        let degrades = Degrades::of(&self.base.fleet.config);
        service.answer_failures_with(degrades, || Answer::Fixed(b"END\r\n"));
        if self.base.fleet.routes.is_replicated() {
            remember(service, &self.base, reread::Message::of(retrieval.verb));
        }
        if is_bulk_read(&self.base.clients[context.session], &retrieval) {
            let Self { requests: Requests { services, bulk_reads, .. }, base, .. } = self;
            let slice = bulk_reads.begin(base, (key, &mut services[key]), retrieval);
            return self.send_slice(key, slice, context.now);
        }
        let asker = Asker::from(&self.base.clients[context.session]);
        let plan = self.requests.planner.plan(&mut self.base.fleet, retrieval, asker);
        self.send_plan(key, plan, retrieval, context.now);
    }

    fn send_slice(&mut self, key: RequestKey, slice: Retrieval<'_>, now: Instant) {
        let Requests { services, planner, bulk_reads, .. } = &mut self.requests;
        let plan = bulk_reads.plan(&mut self.base, planner, (key, services[key].session), slice);
        self.send_plan(key, plan, slice, now);
    }

    /// The client of a read in slices has taken something of the values that came before.
    pub(crate) fn go_on_with_slices(&mut self, id: SessionId, now: Instant) {
        let Some((key, slices, count)) = self.requests.bulk_reads.go_on(&mut self.base, id) else { return };
        let slice = slices.next(count);
        let Requests { services, bulk_reads, .. } = &mut self.requests;
        bulk_reads.begin_slice(&self.base, (key, &mut services[key]), (&slices, slice), now);
        self.send_slice(key, slice, now);
    }

    /// Asks whom the plan names.
    #[inline(always)]
    pub(crate) fn send_plan(&mut self, key: RequestKey, plan: Plan, retrieval: Retrieval<'_>, now: Instant) {
        if let Plan::Parts(_, Some(way)) = &plan {
            let counters = self.base.meter.counters();
            counters.multigets_auto_whole += u64::from(*way == auto::Way::Whole);
            counters.multigets_auto_sharded += u64::from(*way == auto::Way::Sharded);
        }
        send_plan(&mut self.requests.services, &mut self.base, key, (plan, retrieval), now);
        self.finish_if_nothing_is_outstanding(key, now);
    }

    pub(crate) fn finish_if_nothing_is_outstanding(&mut self, key: RequestKey, now: Instant) {
        if self.requests.services[key].outstanding == 0 {
            self.finish(key, None, now);
        }
    }
}

/// A request to store a value above the limit.
#[derive(Clone, Copy)]
pub(crate) struct Large<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) base64: bool,
    pub(crate) silent: bool,
    pub(crate) erases: bool,
    pub(crate) refusal: Refusal,
}

/// A `flush_all` that went over a bulk connection is known by no key.
const FLUSH_MARK: u32 = 0;
