//! A request in service: from the moment it is parsed until its reply is in the kernel.

use crate::{
    Mutation,
    clients::sequence::Claim,
    clients::session::REQUEST_BYTES,
    clients::taken::Taken,
    config::Config,
    meter::Meter,
    meter::noted::Noted,
    meter::trace::{Ended, TraceRow},
    replication::key_writes::Written,
    replication::mailbox::{Sender, Waited},
    replication::write::Replicated,
    requests::answer::Answer,
    requests::chooser::Way,
    requests::clock::Clock,
    requests::degrade::Degrades,
    requests::gather::Gather,
    requests::reread::Reread,
    requests::verdict::Verdict,
    servers::begun::Begun,
    wire::ids::SessionId,
};
use std::sync::Arc;
use weir_protocol::RetrievalVerb;
use weir_timing::{Instant, Operation, Outcome};

/// The session of a place that no request has.
const NO_SESSION: SessionId = SessionId::from_index(usize::MAX);

/// The state of one request in service.
#[derive(Debug)]
pub(crate) struct Service {
    pub(super) session: SessionId,
    /// The client asked for silence.
    pub(super) silent: bool,
    pub(super) operation: Operation,
    pub(super) clock: Clock,
    pub(super) changes: Changes,
    /// Replies of servers that are still to come.
    pub(super) outstanding: u32,
    pub(super) keys: u32,
    pub(super) hits: u32,
    pub(super) verdict: Verdict,
    /// The reply that decides, kept while others are outstanding or while earlier requests are unanswered; before that, what is said if no
    /// server answers.
    pub(super) answer: Answer,
    /// Bytes of values that `gather` keeps, as far as they were counted.
    pub(super) gathered_bytes: usize,
    /// The parts of a split multi-get.
    pub(super) gather: Option<Box<Gather>>,
    /// How the multi-get is asked for, where that was chosen by measurement.
    pub(super) chosen: Option<Way>,
    /// What it takes to ask another replica, where it is a read of keys that have several.
    pub(super) reread: Option<Reread>,
    /// The write goes to several replicas.
    pub(super) write: Option<Box<Replicated>>,
    pub(super) kind: Kind,
    pub(super) stage: Stage,
    /// What is noted of it, if anything is.
    pub(super) noted: Noted,
    /// Another loop has read it, and gets the reply.
    pub(super) sender: Option<Sender>,
    /// What it claims of the order of its session.
    pub(super) claim: Claim,
}

/// What is known of changes to items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changes {
    /// How many its session had sent before it.
    pub(super) before: u64,
    /// What it may change itself, where that is counted.
    pub(super) written: Written,
    /// Several servers were sent something of it, or may have been.
    pub(super) is_split: bool,
    /// It went over its server's connection for all writes (`near_written.rs`).
    pub(super) is_in_line: bool,
}

impl Changes {
    pub(super) const NONE: Self =
        Self { before: 0, written: Written::Nothing, is_split: false, is_in_line: false };
}

/// What is special about a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    Nothing,
    /// It reads one key by a meta command, and the key has several servers: tokens in the reply are shown as Weir's.
    Replicated,
    /// Until this is done its session's reads go to deciders: other replicas may still hold what it changes.
    DecidedAlone,
    /// A write whose time was up before it was its turn: no replica hears of it.
    Overdue,
    /// It went over a server's bulk connection, or is a read that may have (`bulk_reads.rs`).
    Bulk,
    /// A get that others may wait for (`ask_once.rs`).
    Leads,
    /// The same, when its server was lost and it was asked for again: nobody else waits for it from then on.
    LeadsAgain,
}

/// How far a request is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    #[default]
    InService,
    /// All replies came; only the order keeps the answer back.
    Parked,
    /// It is answered, and stays because replicas still owe it replies.
    Lingering,
}

impl Service {
    /// A free place.
    pub(super) const VACANT: Self = Self {
        session: NO_SESSION,
        silent: false,
        operation: Operation::Local,
        clock: Clock::at(Instant::ZERO),
        changes: Changes::NONE,
        outstanding: 0,
        keys: 0,
        hits: 0,
        verdict: Verdict::NONE,
        answer: Answer::None,
        gathered_bytes: 0,
        gather: None,
        chosen: None,
        reread: None,
        write: None,
        kind: Kind::Nothing,
        stage: Stage::InService,
        noted: Noted::Nothing,
        sender: None,
        claim: Claim::NONE,
    };

    /// The place is a request's that has just been taken. What it holds of its own was dropped when it became vacant.
    #[inline]
    pub(super) fn begin(
        &mut self,
        session: SessionId,
        operation: Operation,
        keys: u32,
        silent: bool,
        first_byte: Instant,
        now: Instant,
    ) {
        debug_assert_eq!(self.session, NO_SESSION, "the place is a request's already");
        self.session = session;
        self.operation = operation;
        self.keys = keys;
        self.silent = silent;
        self.clock = Clock::begun(first_byte, now);
    }

    /// No request has the place any more.
    #[inline(always)]
    pub(super) fn end(&mut self) {
        // Every field is named, so that none is forgotten.
        let Self {
            session,
            // These `begin` sets.
            clock: _,
            operation: _,
            keys: _,
            silent: _,
            changes: _,
            outstanding,
            hits,
            verdict,
            answer,
            gathered_bytes,
            gather,
            chosen,
            reread,
            write,
            kind,
            stage,
            noted,
            sender,
            claim,
        } = self;
        *session = NO_SESSION;
        (*outstanding, *hits, *gathered_bytes) = (0, 0, 0);
        (*kind, *stage, *chosen, *sender, *claim) =
            (Kind::Nothing, Stage::InService, None, None, Claim::NONE);
        noted.clear();
        *verdict = Verdict::NONE;
        *answer = Answer::None;
        (*gather, *reread, *write) = (None, None, None);
    }

    /// From when its deadline runs.
    #[inline]
    pub(super) fn begun(&self) -> Begun {
        self.clock.begun_at()
    }

    /// The driver or another loop has read it, and stamped it.
    pub(super) fn adopt(&mut self, taken: Taken, sender: Option<Sender>) {
        self.clock.adopt(taken, sender.is_some());
        self.sender = sender;
    }

    /// It has waited for its key, and now it is its turn, or it `is_overdue`.
    pub(super) fn end_wait(&mut self, is_overdue: bool, config: &Config, now: Instant) {
        if config.is_without(Mutation::Overdue) {
            return;
        }
        self.clock.end_wait(now);
        if is_overdue {
            self.kind = Kind::Overdue;
        }
    }

    /// Another loop has read it, and it has come from there, or has waited for its key since.
    pub(super) fn come_by_mail(&mut self, waited: Waited, config: &Config, now: Instant) {
        match waited {
            Waited::Nothing if self.clock.is_overdue(config.timeout_ns, now) => self.kind = Kind::Overdue,
            Waited::Nothing => {}
            Waited::InTime | Waited::TooLong => self.end_wait(waited == Waited::TooLong, config, now),
        }
    }

    /// If failures are misses, this is what the request is answered when no server answers it.
    #[inline]
    pub(super) fn answer_failures_with(&mut self, degrades: Degrades, miss: impl FnOnce() -> Answer) {
        if degrades != Degrades::Never {
            self.verdict.degrade_with(degrades);
            self.answer = miss();
        }
    }

    /// Whether it is a request for one key, and that has several servers.
    #[inline]
    pub(super) const fn is_of_replicated_key(&self) -> bool {
        self.write.is_some() || matches!(self.kind, Kind::Replicated)
    }

    /// It is asked for what a server did not answer.
    pub(super) fn begin_second_try(&mut self) {
        self.clock.begin_second_try();
        if self.kind == Kind::Leads {
            self.kind = Kind::LeadsAgain;
        }
    }

    /// A message of it left the queue of a server, which is named so; this many had left before it.
    #[inline]
    pub(crate) fn note_dequeued(&mut self, server: &Arc<str>, queue_length: u64, now: Instant) {
        let queue_length = self.clock.dequeue(queue_length, now);
        self.noted.note_server(server, queue_length);
    }

    /// A message of it was handed to the kernel.
    #[inline]
    pub(crate) fn note_forwarded(&mut self, now: Instant) {
        self.clock.forward(now);
    }

    /// The last byte of its reply was handed to the kernel.
    // As a call of its own it costs every request some twenty instructions.
    #[inline(always)]
    pub(super) fn record(&mut self, now: Instant, meter: &mut Meter) {
        self.clock.answer(now);
        meter.record_request(self.operation, self.outcome(), self.clock.stamps());
        if self.noted.is_any() {
            self.keep_row(meter);
        }
    }

    #[cold]
    fn keep_row(&mut self, meter: &mut Meter) {
        if let Some(row) = self.take_row() {
            meter.keep_row(row);
        }
    }

    /// What is noted of it, if it is sampled, as a row.
    pub(super) fn take_row(&mut self) -> Option<TraceRow> {
        let traced = self.noted.take_row()?;
        let (operation, outcome, word) = (self.operation, self.outcome(), self.verdict.word());
        Some(traced.into_row(Ended { operation, outcome, word, stamps: *self.clock.stamps() }))
    }

    #[inline]
    pub(super) fn outcome(&self) -> Outcome {
        Outcome { error: self.verdict.is_error(), keys: self.keys, hits: self.hits }
    }
}

const _: () = assert!(
    size_of::<Service>() <= REQUEST_BYTES && size_of::<Service>() * 4 >= REQUEST_BYTES * 3,
    "sessions are charged for it"
);

/// The operation under which a retrieval is counted.
pub(super) fn retrieval_operation(verb: RetrievalVerb, key_count: usize) -> Operation {
    match verb {
        RetrievalVerb::Get | RetrievalVerb::Gets if key_count == 1 => Operation::Get,
        RetrievalVerb::Get | RetrievalVerb::Gets => Operation::MultiGet,
        RetrievalVerb::Gat | RetrievalVerb::Gats => Operation::Gat,
    }
}
