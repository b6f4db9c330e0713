//! A request becomes messages to servers.
//!
//! | request | to whom | whose reply counts |
//! |---|---|---|
//! | retrieval of one key | the key's primary | its |
//! | retrieval of several | each key's primary, one message per server | all, merged in the order of the request |
//! | `set`, `delete`, `touch` | all R replicas at once | the primary's, unless any failed |
//! | other writes | the primary; the other replicas get a `delete` | the primary's, unless any failed |
//! | `version`, `verbosity`, mistakes | nobody | |
//!
//! The other replicas of a conditional write cannot follow it without knowing how the primary decided; deleting there keeps
//! them from ever holding an older value.

use crate::{
    Dataplane, Fault, SessionId,
    backend::{Backend, NewPart, RequestKey},
    service::{Answer, Service, retrieval_operation},
};
use weir_protocol::{ArithmeticVerb, Deletion, Expected, Refusal, Request, Retrieval, StorageVerb};
use weir_timing::{Instant, Operation};

/// One session's request, on its way.
#[derive(Clone, Copy)]
struct Context {
    session: SessionId,
    first_byte: Instant,
    now: Instant,
}

impl Dataplane {
    /// Sends a request on its way. `first_byte`: when the read that brought its first byte returned; `now`: when it was complete.
    pub(crate) fn dispatch(
        &mut self,
        session: SessionId,
        request: Request<'_>,
        first_byte: Instant,
        now: Instant,
    ) {
        self.counters.requests += 1;
        let context = Context { session, first_byte, now };
        match request {
            Request::Retrieval(retrieval) => self.retrieve(retrieval, context),
            Request::Storage(storage) => {
                let expected = Expected::Storage;
                let follow = if storage.verb == StorageVerb::Set { Follow::Same } else { Follow::Invalidate };
                self.write(storage.key, request, storage_operation(storage.verb), expected, follow, context);
            }
            Request::Deletion(deletion) => {
                self.write(
                    deletion.key,
                    request,
                    Operation::Delete,
                    Expected::Deletion,
                    Follow::Same,
                    context,
                );
            }
            Request::Touch(touch) => {
                self.write(touch.key, request, Operation::Touch, Expected::Touch, Follow::Same, context);
            }
            Request::Arithmetic(arithmetic) => {
                let operation = match arithmetic.verb {
                    ArithmeticVerb::Incr => Operation::Incr,
                    ArithmeticVerb::Decr => Operation::Decr,
                };
                self.write(
                    arithmetic.key,
                    request,
                    operation,
                    Expected::Arithmetic,
                    Follow::Invalidate,
                    context,
                );
            }
            Request::Version => {
                let reply = format!("VERSION {}\r\n", self.config.version).into_bytes();
                self.answer_locally(Answer::Owned(reply), false, false, context);
            }
            Request::Verbosity { noreply } => {
                self.answer_locally(Answer::Fixed(b"OK\r\n"), noreply, false, context);
            }
            Request::Quit => self.hang_up(session),
        }
    }

    /// Answers a client's own mistake.
    pub(crate) fn refuse(
        &mut self,
        session: SessionId,
        refusal: Refusal,
        silent: bool,
        first_byte: Instant,
        now: Instant,
    ) {
        self.counters.requests += 1;
        self.counters.requests_refused += 1;
        self.answer_locally(
            Answer::Fixed(refusal.reply()),
            silent,
            true,
            Context { session, first_byte, now },
        );
    }

    fn retrieve(&mut self, retrieval: Retrieval<'_>, context: Context) {
        let operation = retrieval_operation(retrieval.verb, retrieval.key_count());
        if retrieval.key_count() == 0 {
            return self.answer_locally(Answer::Fixed(b"END\r\n"), false, false, context);
        }
        let key = self.begin(operation, retrieval.key_count(), false, context);
        if retrieval.key_count() == 1 || self.router.servers().len() == 1 {
            let first = retrieval.keys().next().expect("a retrieval with a key count above 0 has a key");
            let server = self.router.primary(first);
            self.send(key, server, Expected::Retrieval, true, context.now, |backend| {
                retrieval.write_head(backend.message());
                retrieval.keys().for_each(|key| backend.push_key(key));
                backend.message().extend_from_slice(b"\r\n");
            });
        } else {
            self.retrieve_split(key, retrieval, context.now);
        }
        self.finish_if_nothing_is_outstanding(key, context.now);
    }

    /// One message per server that has any of the keys. Nothing is sent if one of them cannot be asked.
    fn retrieve_split(&mut self, key: RequestKey, retrieval: Retrieval<'_>, now: Instant) {
        let mut gather = self.spare_gathers.pop().unwrap_or_default();
        for name in retrieval.keys() {
            gather.assign(self.router.primary(name));
        }
        let servers = || (0..gather.part_count()).map(|part| gather.server_of(part));
        let refused =
            servers().find_map(|server| Some((server, self.backends[server].admit(&self.config).err()?)));
        if let Some((server, fault)) = refused {
            self.note_refusal(key, fault, server);
        } else {
            let created = now;
            for (index, server) in (0..).zip(servers()) {
                let part =
                    NewPart { request: key, expected: Expected::Retrieval, decides: true, index, created };
                self.backends[server].begin_message(part, &self.config, now);
                retrieval.write_head(self.backends[server].message());
            }
            for (name, part) in retrieval.keys().zip(gather.owners()) {
                self.backends[gather.server_of(part)].push_key(name);
            }
            for server in servers() {
                self.backends[server].message().extend_from_slice(b"\r\n");
                self.backends[server].finish_message();
                self.services[key].outstanding += 1;
            }
        }
        self.services[key].gather = Some(gather);
    }

    fn write(
        &mut self,
        name: &[u8],
        request: Request<'_>,
        operation: Operation,
        expected: Expected,
        follow: Follow,
        context: Context,
    ) {
        let key = self.begin(operation, 1, request.noreply(), context);
        let request = without_noreply(request);
        let mut replicas = [0; REPLICAS_MAX];
        let count = self.router.replicas_of(name, &mut replicas);
        for (rank, &server) in replicas[..count].iter().enumerate() {
            let decides = rank == 0;
            let (message, expected) = match follow {
                Follow::Invalidate if !decides => {
                    (Request::Deletion(Deletion { key: name, noreply: false }), Expected::Deletion)
                }
                _ => (request, expected),
            };
            self.send(key, usize::from(server), expected, decides, context.now, |backend| {
                message.write_to(backend.message());
            });
        }
        self.finish_if_nothing_is_outstanding(key, context.now);
    }

    fn answer_locally(&mut self, answer: Answer, silent: bool, error: bool, context: Context) {
        let key = self.begin(Operation::Local, 0, silent, context);
        let service = &mut self.services[key];
        service.answer = answer;
        service.error = error;
        self.finish(key, None, context.now);
    }

    /// Takes a request into service.
    fn begin(&mut self, operation: Operation, keys: usize, silent: bool, context: Context) -> RequestKey {
        let Context { session, first_byte, now } = context;
        let keys = u32::try_from(keys).unwrap_or(u32::MAX);
        let key = self.services.insert(Service::new(session, operation, keys, silent, first_byte, now));
        let session = &mut self.sessions[session];
        session.in_service += 1;
        if !silent {
            session.owe(key);
        }
        key
    }

    /// Queues one message for one server, or notes why it could not be.
    fn send(
        &mut self,
        request: RequestKey,
        server: usize,
        expected: Expected,
        decides: bool,
        now: Instant,
        compose: impl FnOnce(&mut Backend),
    ) {
        let backend = &mut self.backends[server];
        match backend.admit(&self.config) {
            Ok(()) => {
                let part = NewPart { request, expected, decides, index: 0, created: now };
                backend.begin_message(part, &self.config, now);
                compose(backend);
                backend.finish_message();
                self.services[request].outstanding += 1;
            }
            Err(fault) => self.note_refusal(request, fault, server),
        }
    }

    fn note_refusal(&mut self, key: RequestKey, fault: Fault, server: usize) {
        match fault {
            Fault::Full => self.counters.server_refusals_full += 1,
            _ => self.counters.server_refusals_down += 1,
        }
        self.backends[server].errors += 1;
        self.services[key].fail(fault, server);
    }

    fn finish_if_nothing_is_outstanding(&mut self, key: RequestKey, now: Instant) {
        if self.services[key].outstanding == 0 {
            self.finish(key, None, now);
        }
    }
}

/// What the replicas after the primary get.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Follow {
    Same,
    Invalidate,
}

/// The most replicas that a key can have.
const REPLICAS_MAX: usize = 64;

fn storage_operation(verb: StorageVerb) -> Operation {
    match verb {
        StorageVerb::Set => Operation::Set,
        StorageVerb::Add => Operation::Add,
        StorageVerb::Replace => Operation::Replace,
        StorageVerb::Append => Operation::Append,
        StorageVerb::Prepend => Operation::Prepend,
        StorageVerb::Cas => Operation::Cas,
    }
}

/// Servers are always asked to reply: only so can it be known whether they did what was asked, and when.
fn without_noreply(request: Request<'_>) -> Request<'_> {
    match request {
        Request::Storage(storage) => Request::Storage(weir_protocol::Storage { noreply: false, ..storage }),
        Request::Deletion(deletion) => Request::Deletion(Deletion { noreply: false, ..deletion }),
        Request::Arithmetic(it) => Request::Arithmetic(weir_protocol::Arithmetic { noreply: false, ..it }),
        Request::Touch(touch) => Request::Touch(weir_protocol::Touch { noreply: false, ..touch }),
        other => other,
    }
}
