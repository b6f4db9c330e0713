//! One client connection, or what stands in its place: what it sends, what it is owed, and what of it is in service.
//!
//! [`Session`] owns the bytes of requests that have not all come (`intake.rs`), the replies (`replies.rs`), and the counts that say whether
//! more may be taken from it and what its next request must wait for. It learns which requests begin and end. It answers whether it may go
//! on, and whether it is settled.

use crate::{
    Arrivals, Intake, Taken,
    clients::bulk::{Bulk, Slicing},
    clients::gate::Gate,
    clients::habits::Habits,
    clients::intake::Takes,
    clients::overdue::Doing,
    clients::replies::Replies,
    clients::sequence::Claims,
    config::Config,
    memory::budget::Held,
    memory::buffer::beyond_idle,
    replication::key_lock::Stalled,
    replication::mailbox::Sender,
    wire::ids::RequestKey,
};
use weir_timing::Instant;

/// One client's.
#[derive(Debug)]
pub(crate) struct Session {
    /// What it sends becomes requests.
    pub(crate) intake: Intake,
    /// Who it is.
    gate: Gate,
    /// What it is owed.
    pub(crate) replies: Replies,
    /// Its large requests.
    pub(crate) bulk: Bulk,
    /// The order of its requests where they are served at different places.
    pub(crate) claims: Claims,
    /// Its next request waits for a key.
    pub(crate) stalled: Option<Box<Stalled>>,
    origin: Origin,
    stage: Stage,
    /// Requests that are not yet answered, silent ones included.
    in_service: usize,
    /// How many of its requests may have changed items: what came before one is not asked again behind it.
    changes: u64,
    /// Of those in service, writes that a key's primary decides and that the other replicas have not heard of yet.
    undecided: usize,
    /// Of these, requests that may change items, where that is counted for all loops.
    writing: u32,
    /// The session is in the list of those with something to write.
    is_listed: bool,
    /// All that there is to write may wait a moment for more: the first of it came then.
    may_wait_since: Option<Instant>,
    /// It is in the list of those that wait so.
    is_held_back: bool,
    /// It is in the list of those that go on.
    goes_on: bool,
    /// How many events about it the driver has not heard of.
    events: u32,
    /// Memory that was counted for it, in bytes.
    charged: usize,
}

/// Whose requests they are.
#[derive(Clone, Copy, Debug)]
enum Origin {
    /// A client's, that this dataplane reads: how many had been accepted with it, and when the kernel received what was read.
    Client { number: u64, arrivals: Arrivals },
    /// Somebody else's, who reads and closes the connection and hands in requests with what happened to them before; with who has read the
    /// request that is being taken, where that is another loop.
    Lent { taken: Taken, sender: Option<Sender> },
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    /// The driver was asked to close it.
    CloseAsked,
    /// It is gone; the session stays until its requests are done.
    Gone,
}

impl Session {
    /// A client's; as many had been accepted with it.
    pub(crate) fn new(config: &Config, number: u64, now: Instant) -> Self {
        Self::of(Origin::Client { number, arrivals: Arrivals::default() }, config, now)
    }

    /// One for requests that somebody else reads.
    pub(crate) fn lent(config: &Config, now: Instant) -> Self {
        Self::of(Origin::Lent { taken: Taken::default(), sender: None }, config, now)
    }

    fn of(origin: Origin, config: &Config, now: Instant) -> Self {
        Self {
            intake: Intake::new(config.limits, now),
            gate: Gate::Open,
            replies: Replies::default(),
            bulk: Bulk::new(config),
            claims: Claims::default(),
            stalled: None,
            origin,
            stage: Stage::Open,
            in_service: 0,
            changes: 0,
            undecided: 0,
            writing: 0,
            is_listed: false,
            may_wait_since: None,
            is_held_back: false,
            goes_on: false,
            events: 0,
            charged: 0,
        }
    }

    // ── of which client ────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Whether somebody else reads and closes the connection.
    #[inline]
    pub(crate) const fn is_lent(&self) -> bool {
        matches!(self.origin, Origin::Lent { .. })
    }

    /// What happened to the request that is being taken before it was handed in, and who has read it, if that is another loop; `None` for
    /// a client's.
    #[inline]
    pub(crate) const fn taken(&self) -> Option<(Taken, Option<Sender>)> {
        match self.origin {
            Origin::Lent { taken, sender } => Some((taken, sender)),
            Origin::Client { .. } => None,
        }
    }

    /// This is handed in next.
    pub(crate) fn hand_in(&mut self, taken: Taken, sender: Option<Sender>) {
        self.origin = Origin::Lent { taken, sender };
    }

    /// The kernel received at `arrived` what a read brings that returned at `now`.
    pub(crate) fn note_arrival(&mut self, now: Instant, arrived: Option<Instant>) {
        if let Origin::Client { arrivals, .. } = &mut self.origin {
            arrivals.note(self.intake.since(), now, arrived);
        }
    }

    /// Its client's number, how many waited in the driver's queue before its request, and when the kernel received that.
    pub(crate) fn source(&self, first_byte: Instant) -> (u64, u64, Option<Instant>) {
        match self.origin {
            Origin::Client { number, arrivals } => (number, 0, arrivals.of(first_byte)),
            Origin::Lent { taken, .. } => (taken.client, taken.queue_length, taken.arrived),
        }
    }

    // ── who it is ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Who it is and what is known of its reads, beside what it sends.
    #[inline]
    pub(crate) const fn gate_and_intake(&mut self) -> (&Gate, &Habits, &mut Intake) {
        (&self.gate, &self.bulk.habits, &mut self.intake)
    }

    /// Who it is.
    pub(crate) const fn gate(&self) -> &Gate {
        &self.gate
    }

    /// It is this from now on.
    pub(crate) fn pass(&mut self, gate: Gate) {
        self.intake.set_takes(match &gate {
            Gate::Locked(_) => Takes::Login,
            Gate::Shown(..) => Takes::Judged,
            Gate::User(user) if user.is_limited() => Takes::Judged,
            Gate::User(_) | Gate::Open => Takes::All,
        });
        self.gate = gate;
    }

    // ── its requests ───────────────────────────────────────────────────────────────────────────────────────────────────────

    /// One more is in service.
    #[inline]
    pub(crate) fn begin_request(&mut self) {
        self.in_service += 1;
    }

    /// This many are done.
    #[inline]
    pub(crate) fn end_requests(&mut self, count: usize) {
        self.in_service -= count;
    }

    /// How many are in service.
    #[inline]
    pub(crate) const fn in_service(&self) -> usize {
        self.in_service
    }

    /// One of them may change items.
    #[inline]
    pub(crate) fn count_change(&mut self) {
        self.changes += 1;
    }

    /// One of them changes items, if it does, and is counted until it is answered.
    #[inline]
    pub(crate) fn begin_write(&mut self, is_write: bool) {
        self.writing += u32::from(is_write);
    }

    /// It has its answer.
    pub(crate) fn end_write(&mut self) {
        self.writing -= 1;
    }

    /// Whether any of these is in service.
    pub(crate) const fn is_writing(&self) -> bool {
        self.writing > 0
    }

    /// How many of them may have changed items.
    #[inline]
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// One of them is decided by one replica, and the others have not heard of it yet.
    pub(crate) fn begin_deciding(&mut self) {
        self.undecided += 1;
    }

    /// One of these was decided, and the others have heard of it.
    pub(crate) fn end_deciding(&mut self) {
        self.undecided -= 1;
    }

    /// Whether any of these is in service: all reads go to deciders then.
    #[inline]
    pub(crate) const fn has_undecided(&self) -> bool {
        self.undecided > 0
    }

    /// Whether every request in service has its reply among the bytes for the client.
    pub(crate) const fn all_are_appended(&self) -> bool {
        self.in_service == self.replies.appended()
    }

    /// Whether everything that was taken is answered.
    pub(crate) fn is_settled(&self) -> bool {
        self.in_service == 0 && self.replies.is_empty()
    }

    // ── its end ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Whether its connection is gone.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.stage == Stage::Gone
    }

    /// The connection is to be closed. Returns whether the driver was not asked to already.
    pub(crate) fn ask_to_close(&mut self) -> bool {
        let is_open = self.stage == Stage::Open;
        if is_open {
            self.stage = Stage::CloseAsked;
        }
        is_open
    }

    /// The connection is gone: drops what waits for it, and hands out every request that is owed a reply, with whether that
    /// reply was already appended.
    pub(crate) fn abandon(&mut self, orphaned: impl FnMut(RequestKey, bool)) {
        self.stage = Stage::Gone;
        self.intake.forget();
        self.replies.abandon(orphaned);
    }

    /// Whether it may be dropped.
    pub(crate) fn is_done(&self) -> bool {
        self.is_gone() && self.in_service == 0
    }

    /// A lent session whose request is done, or whose client is gone, is as new. Hands out the request that is owed a reply.
    pub(crate) fn renew(&mut self, config: &Config) -> Option<RequestKey> {
        let mut request = None;
        self.abandon(|key, _| request = Some(key));
        // It may still be in the lists of those with something to write and of those that go on; once is enough.
        let Self { is_listed, goes_on, .. } = *self;
        *self = Self { is_listed, goes_on, ..Self::lent(config, Instant::ZERO) };
        request
    }

    // ── what it may, and what it keeps ─────────────────────────────────────────────────────────────────────────────────────

    /// Whether more requests of it may be taken.
    #[inline]
    pub(crate) fn may_take(&self, config: &Config, held: &Held) -> bool {
        self.in_service < self.bulk.habits.requests_max() && self.reads(config, held) && self.bulk.writes == 0
    }

    /// Whether its next request may be looked at, as far as that waits for others to be done.
    pub(crate) const fn may_be_looked_at(&self) -> bool {
        self.bulk.may_be_looked_at(self.in_service)
    }

    /// Whether it may go on, if it is paused.
    pub(crate) fn may_go_on(&self, config: &Config, held: &Held) -> bool {
        match self.bulk.slicing {
            Slicing::No => self.may_be_looked_at() && self.may_take(config, held),
            Slicing::InService => false,
            Slicing::Ready(_) => self.reads(config, held),
        }
    }

    /// Whether its client takes what it is sent.
    #[inline]
    fn reads(&self, config: &Config, held: &Held) -> bool {
        let bytes = self.replies.buffered_bytes();
        bytes <= config.session_buffer_bytes_max / 2
            && !(self.replies.is_blocked() && (held.is_pressed() || bytes > UNREAD_BYTES_MAX))
    }

    /// What it is doing, as far as that may take too long. `None`: nothing of it can be overdue.
    pub(crate) fn doing(&self) -> Option<Doing> {
        if self.stage != Stage::Open || self.is_lent() {
            return None;
        }
        Some(Doing {
            idle_since: self.intake.idle_since().filter(|_| self.is_settled()),
            locked_since: self.gate.locked_since(),
            request: self.intake.arriving(),
            unread_since: self.replies.blocked_since(),
            slow_since: self.replies.slow_since(),
        })
    }

    /// The memory that its buffers keep, that the keys of a read in slices take, and that its requests in service take while it does not read
    /// their replies.
    pub(crate) fn held_bytes(&self) -> usize {
        let services = if self.replies.is_blocked() { self.in_service * REQUEST_BYTES } else { 0 };
        beyond_idle(self.intake.capacity()) + self.replies.held_bytes() + self.bulk.rest_bytes() + services
    }

    /// What was counted for it, in bytes.
    pub(crate) fn charged(&self) -> usize {
        self.charged
    }

    /// So much is counted for it. Returns what was before.
    #[inline]
    pub(crate) fn charge(&mut self, bytes: usize) -> usize {
        std::mem::replace(&mut self.charged, bytes)
    }

    /// It is in the list of those with something to write. Returns whether it was not.
    #[inline]
    pub(crate) fn list(&mut self) -> bool {
        !std::mem::replace(&mut self.is_listed, true)
    }

    /// It was taken from that list.
    pub(crate) fn unlist(&mut self) {
        self.is_listed = false;
    }

    /// Since when all that there is to write may wait a moment for more, if what comes now may.
    pub(crate) fn may_wait_from(&self, now: Instant) -> Option<Instant> {
        let is_client = matches!(self.origin, Origin::Client { .. });
        let new = Some(now).filter(|_| !self.is_listed);
        self.may_wait_since.or(new).filter(|_| is_client)
    }

    /// Sets since when that is so; `None`: what there is to write is to leave.
    #[inline]
    pub(crate) fn let_wait(&mut self, since: Option<Instant>) {
        self.may_wait_since = since;
    }

    /// Since when what there is to write waits for more, if there is more to come.
    #[inline]
    pub(crate) fn waits_since(&self) -> Option<Instant> {
        self.may_wait_since.filter(|_| self.replies.next_to_append().is_some())
    }

    /// It is in the list of those that wait so. Returns whether it was not.
    pub(crate) fn hold_back(&mut self) -> bool {
        !std::mem::replace(&mut self.is_held_back, true)
    }

    /// It was taken from that list. Returns whether what there is to write still waits.
    pub(crate) fn end_holding_back(&mut self) -> bool {
        self.is_held_back = false;
        self.may_wait()
    }

    /// Whether what there is to write may wait a moment for more.
    pub(crate) fn may_wait(&self) -> bool {
        self.may_wait_since.is_some()
    }

    /// It is in the list of those that go on. Returns whether it was not.
    #[inline]
    pub(crate) fn list_to_go_on(&mut self) -> bool {
        !std::mem::replace(&mut self.goes_on, true)
    }

    /// It was taken from that list.
    pub(crate) fn unlist_to_go_on(&mut self) {
        self.goes_on = false;
    }

    /// The driver is to hear of one more event about it.
    pub(crate) const fn note_event(&mut self) {
        self.events += 1;
    }

    /// The driver has heard of one.
    pub(crate) const fn note_heard(&mut self) {
        self.events = self.events.saturating_sub(1);
    }

    /// The driver is to hear of none any more. Returns whether it was.
    pub(crate) const fn forget_events(&mut self) -> bool {
        std::mem::replace(&mut self.events, 0) > 0
    }

    /// Frees the memory of what is empty.
    pub(crate) fn give_memory_back(&mut self) {
        self.intake.give_memory_back();
        self.replies.give_memory_back();
        self.claims.give_memory_back();
    }
}

/// Nothing is taken from a client that leaves more than this unread.
const UNREAD_BYTES_MAX: usize = 1 << 20;

/// What a request in service takes at most, in bytes.
pub(crate) const REQUEST_BYTES: usize = 384;
