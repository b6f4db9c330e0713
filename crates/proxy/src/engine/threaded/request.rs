//! A request on its way from the bytes of a client to a worker.

use crate::engine::threaded::{
    client::Client,
    queue::{order::Scope, wide::Habits},
};
use std::sync::Arc;
use weir_dataplane::{
    Budget, Charge, Dataplane, Fault, KeptRequest, SessionId, Taken, read_key, written_key,
};
use weir_protocol::{Limits, Parsed, Request as Parts};
use weir_timing::Instant;

/// A complete request, or what is to be answered in its place.
#[derive(Debug)]
pub(crate) struct Request {
    what: KeptRequest,
    /// What it writes to, if it does.
    pub(in crate::engine) writes: Option<Scope>,
    pub(in crate::engine) taken: Taken,
    /// How many keys it reads.
    keys: usize,
    /// It is expected to bring much.
    is_wide: bool,
    /// What a long one counts against the limit on all buffers.
    charge: Option<Charge>,
}

impl Request {
    /// What was found at the front of `bytes`; `None` if that wants no answer.
    pub(crate) fn new(
        parsed: &Parsed<'_>,
        bytes: &[u8],
        first_byte: Instant,
        created: Instant,
    ) -> Option<Self> {
        let what = KeptRequest::new(parsed, bytes)?;
        let writes = match parsed {
            Parsed::Request { request: Parts::FlushAll { .. } | Parts::ServerCommand { .. }, .. } => {
                Some(Scope::Everything)
            }
            _ => written_key(parsed).map(|key| Scope::Key(key.into())),
        };
        let keys = match parsed {
            Parsed::Request { request: Parts::Retrieval(retrieval), .. } => retrieval.key_count(),
            _ => 0,
        };
        let taken = stamped(first_byte, created);
        Some(Self { what, writes, taken, keys, is_wide: false, charge: None })
    }

    /// Counts it, if it is long, until it is dropped.
    pub(crate) fn charge(&mut self, budget: &Arc<Budget>) {
        let bytes = self.bytes();
        self.charge = (bytes > CHARGED_BYTES_MIN).then(|| budget.charge(bytes));
    }

    /// How much memory it keeps that is not counted yet.
    pub(crate) fn uncharged_bytes(&self) -> usize {
        if self.charge.is_some() { 0 } else { self.bytes() }
    }

    /// How many keys it reads.
    pub(crate) fn keys(&self) -> usize {
        self.keys
    }

    /// Whether it is expected to bring much.
    pub(crate) fn is_wide(&self) -> bool {
        self.is_wide
    }

    /// It is the client's turn: what is expected of it by what the last ones brought.
    pub(super) fn expect(&mut self, habits: Habits) {
        self.is_wide = habits.expect_much(self.keys);
    }

    /// The key by which it is asked, if it only reads.
    pub(crate) fn read_key(&self, limits: Limits) -> Option<Box<[u8]>> {
        read_key(&self.what.parsed(limits))
    }

    /// How much memory it keeps, in bytes, about.
    pub(crate) fn bytes(&self) -> usize {
        self.what.capacity() + size_of::<Self>()
    }

    /// Puts it into service on a lent session.
    pub(crate) fn serve(
        &self,
        dataplane: &mut Dataplane,
        session: SessionId,
        limits: Limits,
        denied: Option<Fault>,
    ) {
        dataplane.serve(session, self.what.parsed(limits), self.taken, denied);
    }
}

/// Shorter requests are counted together, where many of them wait.
const CHARGED_BYTES_MIN: usize = 16 << 10;

/// It has not waited yet.
fn stamped(first_byte: Instant, created: Instant) -> Taken {
    Taken { first_byte, created, enqueued: created, dequeued: created, ..Taken::default() }
}

/// A request and who waits for the reply.
#[derive(Debug)]
pub(crate) struct Job {
    pub(in crate::engine) client: Arc<Client>,
    pub(in crate::engine) request: Request,
    /// Nobody else may write to what it writes to before it is done.
    pub(in crate::engine) owns: bool,
    /// It counts among the reads in service that bring much.
    is_counted: bool,
    /// When it came into the queue where it waits, or waited last.
    pub(in crate::engine) waits_since: Instant,
    pub(in crate::engine) has_waited: bool,
}

impl Job {
    pub(crate) fn new(client: Arc<Client>, request: Request) -> Self {
        let waits_since = request.taken.created;
        Self { client, request, owns: false, is_counted: false, waits_since, has_waited: false }
    }

    /// It counts from now on among the reads in service that bring much.
    pub(crate) fn counted(self) -> Self {
        Self { is_counted: true, ..self }
    }

    /// Whether it does.
    pub(crate) fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// It is put into a queue of this length. A queue that it leaves only to wait in another one is part of the same waiting.
    pub(crate) fn begin_waiting(&mut self, length: u64, now: Instant) {
        self.waits_since = now;
        if !std::mem::replace(&mut self.has_waited, true) {
            self.request.taken.enqueued = now;
            self.request.taken.queue_length = length;
        }
    }
}
