//! A request in service: from the moment it is parsed until its reply is in the kernel.

use crate::{
    Fault,
    clients::sequence::Claim,
    clients::session::REQUEST_BYTES,
    clients::taken::Taken,
    meter::Meter,
    meter::trace::{Ended, TraceRow, Traced},
    replication::mailbox::Sender,
    replication::write::Replicated,
    requests::answer::Answer,
    requests::auto::Way,
    requests::degrade::Degrades,
    requests::gather::Gather,
    requests::reread::Reread,
    servers::begun::Begun,
};
use std::sync::Arc;
use weir_protocol::{Refusal, RetrievalVerb, Status};
use weir_timing::{Instant, Operation, Outcome, Stamps};

#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) session: usize,
    /// The client asked for silence.
    pub(crate) silent: bool,
    pub(crate) operation: Operation,
    pub(crate) stamps: Stamps,
    /// How many changes its session had sent before it.
    pub(crate) changes_before: u64,
    /// Replies of servers that are still to come.
    pub(crate) outstanding: u32,
    pub(crate) keys: u32,
    pub(crate) hits: u32,
    /// The answer is an error.
    pub(crate) error: bool,
    failure: Option<Failure>,
    /// The answer, whatever servers say.
    refusal: Option<Refusal>,
    /// Whether anything of the request was handed to the kernel yet.
    pub(crate) first_sent: bool,
    /// The reply that decides, kept while others are outstanding or while earlier requests are unanswered.
    pub(crate) answer: Answer,
    /// That reply has no `END` of its own: it came with those to others (`pipeline/line.rs`).
    pub(crate) lacks_end: bool,
    /// Bytes of values that `gather` keeps, as far as they were counted.
    pub(crate) gathered_bytes: usize,
    /// The parts of a split multi-get.
    pub(crate) gather: Option<Box<Gather>>,
    /// Which failures of parts make their keys misses; `answer` is what is said if no server answers.
    pub(crate) degrades: Degrades,
    /// A part has failed, and its keys are misses.
    pub(crate) degraded: bool,
    /// How the multi-get is asked for, where that was chosen by measurement.
    pub(crate) chosen: Option<Way>,
    /// What it takes to ask another replica, where it is a read of keys that have several.
    pub(crate) reread: Option<Reread>,
    /// It reads one key, which has several servers.
    pub(crate) is_replicated_read: bool,
    /// The write goes to several replicas.
    pub(crate) write: Option<Box<Replicated>>,
    /// It is answered, and stays because replicas still owe it replies.
    pub(crate) lingers: bool,
    /// Until this is done its session's reads go to deciders: other replicas may still hold what it changes.
    pub(crate) is_decided_alone: bool,
    /// It went over a server's connection for large values, or is a read that may have (`bulk_reads.rs`).
    pub(crate) apart: bool,
    /// One has decided, and the followers are being told; or others have answered, and the deciders are being asked.
    /// That is part of the time at the servers.
    pub(crate) following: bool,
    /// All replies came; only the order keeps the answer back.
    pub(crate) complete: bool,
    /// What is noted of it, if it is sampled.
    pub(crate) traced: Option<Box<Traced>>,
    /// It waited in a queue of the driver's, which says when it was taken from there.
    pub(crate) hosted: bool,
    /// Another loop has read it, and gets the reply.
    pub(crate) sender: Option<Sender>,
    /// What it claims of the order of its session.
    pub(crate) claim: Claim,
}

/// Why a request failed.
#[derive(Clone, Debug)]
enum Failure {
    /// A server did not answer.
    Fault(Fault, Arc<str>),
    /// A server answered with an error line.
    Line { line: Vec<u8>, status: Status },
}

impl Service {
    /// Nobody's.
    pub(crate) const VACANT: Self = Self {
        session: usize::MAX,
        silent: false,
        operation: Operation::Local,
        stamps: Stamps::at(Instant::ZERO),
        changes_before: 0,
        outstanding: 0,
        keys: 0,
        hits: 0,
        error: false,
        failure: None,
        refusal: None,
        first_sent: false,
        answer: Answer::None,
        lacks_end: false,
        gathered_bytes: 0,
        gather: None,
        degrades: Degrades::Never,
        degraded: false,
        chosen: None,
        reread: None,
        is_replicated_read: false,
        write: None,
        lingers: false,
        is_decided_alone: false,
        apart: false,
        following: false,
        complete: false,
        traced: None,
        hosted: false,
        sender: None,
        claim: Claim::NONE,
    };

    /// The place is a request's that has just been taken. What it holds of its own was dropped when it became vacant.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        session: usize,
        operation: Operation,
        keys: u32,
        silent: bool,
        first_byte: Instant,
        now: Instant,
    ) {
        debug_assert_eq!(self.session, usize::MAX, "the place is a request's already");
        self.session = session;
        self.operation = operation;
        self.keys = keys;
        self.silent = silent;
        self.stamps = Stamps { first_byte, ..Stamps::at(now) };
    }

    /// The place is nobody's any more.
    #[inline]
    pub(crate) fn end(&mut self) {
        // Every field is named, so that none is forgotten.
        let Self {
            session,
            // These `begin` sets.
            stamps: _,
            operation: _,
            keys: _,
            silent: _,
            changes_before: _,
            outstanding,
            hits,
            error,
            failure,
            refusal,
            first_sent,
            answer,
            lacks_end,
            gathered_bytes,
            gather,
            degrades,
            degraded,
            chosen,
            reread,
            is_replicated_read,
            write,
            lingers,
            is_decided_alone,
            apart,
            following,
            complete,
            traced,
            hosted,
            sender,
            claim,
        } = self;
        *session = usize::MAX;
        (*outstanding, *hits, *gathered_bytes) = (0, 0, 0);
        (*error, *first_sent, *degraded, *lingers) = (false, false, false, false);
        (*is_decided_alone, *apart, *following, *complete, *hosted) = (false, false, false, false, false);
        (*is_replicated_read, *lacks_end) = (false, false);
        *degrades = Degrades::Never;
        (*refusal, *chosen, *sender, *claim) = (None, None, None, Claim::NONE);
        *answer = Answer::None;
        (*failure, *gather, *reread, *write, *traced) = (None, None, None, None, None);
    }

    /// From when its deadline runs: one that has waited behind its own client's others in the driver's hands has its turn when it is put
    /// into the driver's queue.
    #[inline]
    pub(crate) fn begun(&self) -> Begun {
        if self.hosted {
            Begun::in_turn(self.stamps.created, self.stamps.enqueued)
        } else {
            Begun::at(self.stamps.created)
        }
    }

    /// The request waited in a queue of the driver's, which stamped it.
    pub(crate) fn adopt(&mut self, taken: Taken, sender: Option<Sender>) {
        let Taken { first_byte, created, enqueued, dequeued, .. } = taken;
        self.stamps = Stamps { first_byte, created, enqueued, ..Stamps::at(dequeued) };
        // What came by mail waits in the queues of the servers, as if it had been read here.
        self.hosted = sender.is_none();
        self.sender = sender;
    }

    /// If failures are misses, this is what the request is answered when no server answers it.
    #[inline]
    pub(crate) fn answer_failures_with(&mut self, degrades: Degrades, miss: impl FnOnce() -> Answer) {
        if degrades != Degrades::Never {
            self.degrades = degrades;
            self.answer = miss();
        }
    }

    /// The request is refused, and what it made servers do does not change that.
    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        self.error = true;
        self.refusal = Some(refusal);
    }

    /// A server did not answer. The first failure is the one that is told.
    pub(crate) fn fail(&mut self, fault: Fault, server: &Arc<str>) {
        self.error = true;
        self.failure.get_or_insert_with(|| Failure::Fault(fault, Arc::clone(server)));
    }

    /// A server answered with an error line.
    pub(crate) fn fail_with_line(&mut self, line: &[u8], status: Status) {
        self.error = true;
        self.failure.get_or_insert_with(|| Failure::Line { line: line.to_vec(), status });
    }

    /// What the client is told instead of an answer, if anything failed.
    pub(crate) fn failure_line(&self) -> Option<Vec<u8>> {
        if let Some(refusal) = self.refusal {
            return Some(refusal.reply().to_vec());
        }
        Some(match self.failure.as_ref()? {
            Failure::Line { line, .. } => line.clone(),
            Failure::Fault(fault, server) => {
                let mut line = Vec::new();
                fault.write_to(server, &mut line);
                line
            }
        })
    }

    /// Whether it is a request for one key, and that has several servers.
    #[inline]
    pub(crate) const fn is_of_replicated_key(&self) -> bool {
        self.write.is_some() || self.is_replicated_read
    }

    /// Whether anything of it failed.
    pub(crate) const fn is_impaired(&self) -> bool {
        self.error || self.degraded
    }

    /// Whether a server is to blame for the failure, and not the client's own request.
    pub(crate) fn has_failed(&self) -> bool {
        match &self.failure {
            Some(Failure::Fault(..)) => true,
            Some(Failure::Line { status, .. }) => *status == Status::ServerError,
            None => false,
        }
    }

    /// Why no server answered; `None` where one answered with an error of its own, or nothing failed.
    pub(crate) fn fault(&self) -> Option<Fault> {
        match &self.failure {
            Some(Failure::Fault(fault, _)) => Some(*fault),
            _ => None,
        }
    }

    /// How it went, in a word for records.
    pub(crate) fn outcome_word(&self) -> &'static str {
        match &self.failure {
            _ if !self.error => {
                if self.degraded {
                    "degraded"
                } else {
                    "ok"
                }
            }
            Some(Failure::Fault(fault, _)) => fault.name(),
            Some(Failure::Line { status: Status::ServerError, .. }) => "server-error",
            Some(Failure::Line { .. }) => "client-error",
            None => "refused",
        }
    }

    /// A message of it left the queue of a server, which is named so, at `now`; so many had left before it.
    #[inline]
    pub(crate) fn note_dequeued(&mut self, server: &Arc<str>, queue_length: u64, now: Instant) {
        if let Some(traced) = &mut self.traced {
            // A queue of the driver's is the one that it waited in.
            traced.note_server(server, if self.hosted { 0 } else { queue_length });
        }
        if !self.following && !self.hosted {
            self.stamps.dequeued = now;
        }
    }

    /// A message of it was handed to the kernel at `now`.
    #[inline]
    pub(crate) fn note_forwarded(&mut self, now: Instant) {
        if !self.first_sent {
            self.first_sent = true;
            self.stamps.first_sent = now;
        }
        if !self.following {
            self.stamps.forwarded = now;
        }
    }

    /// The last byte of its reply was handed to the kernel at `now`.
    #[inline]
    pub(crate) fn record(&mut self, now: Instant, meter: &mut Meter) {
        self.stamps.answered = now;
        meter.record_request(self.operation, self.outcome(), &self.stamps);
        if self.traced.is_some() {
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
    pub(crate) fn take_row(&mut self) -> Option<TraceRow> {
        let traced = self.traced.take()?;
        let (operation, outcome, word) = (self.operation, self.outcome(), self.outcome_word());
        Some(traced.into_row(Ended { operation, outcome, word, stamps: self.stamps }))
    }

    #[inline]
    pub(crate) fn outcome(&self) -> Outcome {
        Outcome { error: self.error, keys: self.keys, hits: self.hits }
    }
}

const _: () = assert!(
    size_of::<Service>() <= REQUEST_BYTES && size_of::<Service>() * 4 >= REQUEST_BYTES * 3,
    "sessions are charged for it"
);

/// The operation under which a retrieval is counted.
pub(crate) fn retrieval_operation(verb: RetrievalVerb, key_count: usize) -> Operation {
    match verb {
        RetrievalVerb::Get | RetrievalVerb::Gets if key_count == 1 => Operation::Get,
        RetrievalVerb::Get | RetrievalVerb::Gets => Operation::MultiGet,
        RetrievalVerb::Gat | RetrievalVerb::Gats => Operation::Gat,
    }
}
