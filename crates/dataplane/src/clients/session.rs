//! One client connection: what it sends, and the order of the replies.
//!
//! ```text
//!   order:   ┌──── in `out`, not yet in the kernel ────┬──── in service, or complete and waiting for earlier ones ────┐
//!            0                                     appended                                                        len
//! ```
//!
//! A reply is appended to `out` when all before it are there; so the first one in service goes straight from the server's bytes
//! into the client's, and only a reply that overtook another is kept aside (parked) in its request.

use crate::{
    Arrivals, Config, Intake, Taken,
    clients::outbox::Outbox,
    clients::sequence::Sequence,
    memory::budget::Held,
    replication::hold::Stalled,
    replication::ownership::Sender,
    requests::bulk_reads::{Habits, Slicing},
    servers::backend::RequestKey,
};
use std::collections::VecDeque;
use weir_timing::Instant;

/// A reply that is owed to the client.
#[derive(Clone, Copy, Debug)]
struct Owed {
    request: RequestKey,
    /// Where in the stream to the client the reply ends, once it was appended.
    end: u64,
}

#[derive(Debug)]
pub(crate) struct Session {
    /// What it sends becomes requests.
    pub(crate) intake: Intake,
    /// Memory that was counted for it, in bytes.
    pub(crate) charged: usize,
    order: VecDeque<Owed>,
    appended: usize,
    pub(crate) out: Outbox,
    out_start: u64,
    /// Bytes of replies that are complete and wait in their requests for earlier ones.
    pub(crate) parked_bytes: usize,
    /// Bytes of values that wait in split multi-gets for those of other servers.
    pub(crate) gathered_bytes: usize,
    /// Requests that are not yet answered, silent ones included.
    pub(crate) in_service: usize,
    /// How many of its requests may have changed items: what came before one is not asked again behind it.
    pub(crate) changes: u64,
    /// Of those in service, writes that a key's primary decides and that the other replicas have not heard of yet.
    pub(crate) undecided: usize,
    /// Of those in service, writes that went over bulk connections (`requests/bulk_writes.rs`).
    pub(crate) apart: usize,
    /// Of those in service, reads that went over bulk connections (`bulk_reads.rs`).
    pub(crate) reads_apart: usize,
    /// What is known of its reads.
    pub(crate) habits: Habits,
    /// How far a read of it is that is carried out in slices.
    pub(crate) slicing: Slicing,
    /// Its next request waits until there is room for reads that bring much.
    pub(crate) is_in_line: bool,
    /// Its next request waits for a key.
    pub(crate) stalled: Option<Box<Stalled>>,
    /// The driver was asked to close the connection.
    pub(crate) close_asked: bool,
    /// The connection is gone; the session stays until its requests are done.
    pub(crate) gone: bool,
    /// The kernel took less than was offered; it will say when it takes more.
    pub(crate) blocked: bool,
    /// While it is blocked: when the kernel took something last.
    pub(crate) unread_since: Instant,
    /// The session is in the list of those with something to write.
    pub(crate) dirty: bool,
    /// How many sessions had been accepted with it.
    pub(crate) number: u64,
    /// When the kernel received what was read, if the driver tells.
    pub(crate) arrivals: Arrivals,
    /// The driver reads and closes the connection itself, and hands in requests with what happened to them before.
    pub(crate) hosted: Option<Taken>,
    /// Who has read the request that is being taken, where that is another loop.
    pub(crate) sender: Option<Sender>,
    /// The keys of requests in service, where these are served at different places.
    pub(crate) sequence: Option<Box<Sequence>>,
    /// The next request waits for an earlier one.
    pub(crate) waits: bool,
}

impl Session {
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        Self {
            intake: Intake::new(config.limits, now),
            charged: 0,
            order: VecDeque::new(),
            appended: 0,
            out: Outbox::default(),
            out_start: 0,
            parked_bytes: 0,
            gathered_bytes: 0,
            in_service: 0,
            changes: 0,
            undecided: 0,
            apart: 0,
            reads_apart: 0,
            habits: Habits::new(config),
            slicing: Slicing::No,
            is_in_line: false,
            stalled: None,
            close_asked: false,
            gone: false,
            blocked: false,
            unread_since: now,
            dirty: false,
            number: 0,
            arrivals: Arrivals::default(),
            hosted: None,
            sender: None,
            sequence: None,
            waits: false,
        }
    }

    /// The request's reply will come after all that are owed now.
    pub(crate) fn owe(&mut self, request: RequestKey) {
        self.order.push_back(Owed { request, end: 0 });
    }

    /// The request whose reply must be appended next.
    pub(crate) fn next_to_append(&self) -> Option<RequestKey> {
        self.order.get(self.appended).map(|owed| owed.request)
    }

    /// Appends the reply of [`Session::next_to_append`].
    #[inline(always)]
    pub(crate) fn append_reply(&mut self, write: impl FnOnce(&mut Outbox)) {
        write(&mut self.out);
        let end = self.out_start + self.out.len() as u64;
        self.order[self.appended].end = end;
        self.appended += 1;
    }

    /// `count` bytes were handed to the kernel; calls `answered` for each request whose reply is complete there.
    pub(crate) fn handle_written(&mut self, count: usize, mut answered: impl FnMut(RequestKey)) {
        self.blocked = count < self.out.as_slice().len();
        self.out.advance(count);
        self.out_start += count as u64;
        while self.appended > 0 && self.order[0].end <= self.out_start {
            let owed = self.order.pop_front().expect("an appended reply is in the order");
            self.appended -= 1;
            answered(owed.request);
        }
    }

    /// Frees the memory of the order of replies, if none is owed.
    pub(crate) fn give_order_back(&mut self) {
        if self.order.is_empty() {
            self.order = VecDeque::new();
        }
    }

    /// What is to be written next.
    #[inline(always)]
    pub(crate) fn output(&self) -> &[u8] {
        self.out.as_slice()
    }

    /// Bytes that wait for this client.
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.out.len() + self.parked_bytes + self.gathered_bytes
    }

    /// Whether every request in service has its reply among the bytes for the client.
    pub(crate) fn all_are_appended(&self) -> bool {
        self.in_service == self.appended
    }

    /// Whether everything that was taken is answered.
    pub(crate) fn is_settled(&self) -> bool {
        self.in_service == 0 && self.out.is_empty()
    }

    /// The connection is gone: drops what waits for it, and hands out every request that is owed a reply, with whether that
    /// reply was already appended.
    pub(crate) fn abandon(&mut self, mut orphaned: impl FnMut(RequestKey, bool)) {
        self.gone = true;
        self.intake.forget();
        self.out = Outbox::default();
        for (index, owed) in self.order.drain(..).enumerate() {
            orphaned(owed.request, index < self.appended);
        }
        self.appended = 0;
    }
}

/// Whether more requests of this session may be taken.
pub(crate) fn may_take(session: &Session, config: &Config, held: &Held) -> bool {
    session.in_service < session.habits.requests_max() && reads(session, config, held) && session.apart == 0
}

/// Whether a session that is paused may go on.
pub(crate) fn may_go_on(session: &Session, config: &Config, held: &Held) -> bool {
    match session.slicing {
        Slicing::No => may_take(session, config, held),
        Slicing::InService => false,
        Slicing::Ready(_) => reads(session, config, held),
    }
}

/// Whether a client takes what it is sent.
#[inline]
fn reads(session: &Session, config: &Config, held: &Held) -> bool {
    session.buffered_bytes() <= config.session_buffer_bytes_max / 2
        && !(session.blocked && (held.is_pressed() || session.buffered_bytes() > UNREAD_BYTES_MAX))
}

/// Nothing is taken from a client that leaves more than this unread.
const UNREAD_BYTES_MAX: usize = 1 << 20;
