//! A request on its way from the bytes of a client to a worker.

use super::{client::Client, order::Scope};
use std::sync::Arc;
use weir_dataplane::{Budget, Charge, Dataplane, Fault, SessionId, Taken, parse_whole, written_key};
use weir_protocol::{Limits, Parsed, Refusal, Request as Parts, binary};
use weir_timing::Instant;

/// A complete request, or what is to be answered in its place.
#[derive(Debug)]
pub(crate) struct Request {
    what: What,
    /// What it writes to, if it does.
    pub(super) writes: Option<Scope>,
    pub(super) taken: Taken,
    /// What a long one counts against the limit on all buffers.
    charge: Option<Charge>,
}

#[derive(Debug)]
enum What {
    Whole(Vec<u8>),
    Refused { refusal: Refusal, silent: bool },
    TooLarge { refusal: Refusal, key: Box<[u8]>, base64: bool, silent: bool, erases: bool },
    Binary([u8; binary::HEADER_BYTES]),
}

impl Request {
    /// What was found at the front of `bytes`; `None` if that wants no answer.
    pub(super) fn new(
        parsed: &Parsed<'_>,
        bytes: &[u8],
        first_byte: Instant,
        created: Instant,
    ) -> Option<Self> {
        let what = match *parsed {
            Parsed::Request { len, .. } => What::Whole(bytes[..len].to_vec()),
            Parsed::Refused { refusal, silent, .. } => What::Refused { refusal, silent },
            Parsed::TooLarge { refusal, key, base64, silent, erases, .. } => {
                What::TooLarge { refusal, key: key.into(), base64, silent, erases }
            }
            Parsed::Hangup { refusal: Some(refusal) } => What::Refused { refusal, silent: false },
            Parsed::Hangup { refusal: None } | Parsed::Incomplete { .. } => return None,
        };
        let writes = match parsed {
            Parsed::Request { request: Parts::FlushAll { .. }, .. } => Some(Scope::Everything),
            _ => written_key(parsed).map(|key| Scope::Key(key.into())),
        };
        Some(Self { what, writes, taken: stamped(first_byte, created), charge: None })
    }

    /// The first bytes of a client that speaks the binary protocol.
    pub(super) fn binary(header: [u8; binary::HEADER_BYTES], first_byte: Instant, created: Instant) -> Self {
        Self { what: What::Binary(header), writes: None, taken: stamped(first_byte, created), charge: None }
    }

    /// Counts it, if it is long, until it is dropped.
    pub(super) fn charge(&mut self, budget: &Arc<Budget>) {
        let bytes = self.bytes();
        self.charge = (bytes > CHARGED_BYTES_MIN).then(|| budget.charge(bytes));
    }

    /// How much memory it keeps that is not counted yet.
    pub(super) fn uncharged_bytes(&self) -> usize {
        if self.charge.is_some() { 0 } else { self.bytes() }
    }

    /// How much memory it keeps, in bytes, about.
    pub(super) fn bytes(&self) -> usize {
        let bytes = if let What::Whole(bytes) = &self.what { bytes.capacity() } else { 0 };
        bytes + size_of::<Self>()
    }

    /// Puts it into service on a lent session.
    pub(super) fn serve(
        &self,
        dataplane: &mut Dataplane,
        session: SessionId,
        limits: Limits,
        denied: Option<Fault>,
    ) {
        let parsed = match &self.what {
            What::Whole(bytes) => parse_whole(bytes, limits),
            What::Refused { refusal, silent } => {
                Parsed::Refused { refusal: *refusal, silent: *silent, len: 0 }
            }
            What::TooLarge { refusal, key, base64, silent, erases } => Parsed::TooLarge {
                refusal: *refusal,
                key,
                base64: *base64,
                silent: *silent,
                erases: *erases,
                len: 0,
                swallow: 0,
            },
            What::Binary(header) => return dataplane.serve_binary(session, header, self.taken),
        };
        dataplane.serve(session, parsed, self.taken, denied);
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
    pub(super) client: Arc<Client>,
    pub(super) request: Request,
    /// Nobody else may write to what it writes to before it is done.
    pub(super) owns: bool,
}

impl Job {
    pub(super) fn new(client: Arc<Client>, request: Request) -> Self {
        Self { client, request, owns: false }
    }
}
