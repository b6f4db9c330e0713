//! One memcached server as one event loop sees it, over one connection.
//!
//! [`Backend`] puts together what has a value of its own, and keeps them in step with each other:
//!
//! | value | owns |
//! |---|---|
//! | `Link` (`link.rs`) | the state of the connection, its greeting, when it is tried again |
//! | `Pipeline` (`pipeline.rs`) | the messages: their order, bytes and keys |
//! | `Deadlines` (`deadlines.rs`) | when they are late, and when reads may be asked elsewhere |
//! | `Replies` (`replies.rs`) | what has come of the next reply |
//! | `Health`, `InStep` (`health.rs`, `in_step.rs`) | what late requests and answers say about it |
//! | `Tally` (`tally.rs`) | what is counted |
//!
//! It is given messages, bytes and instants. It answers what is to be written, whose a reply is, what is late, and what is lost when
//! the connection ends. It decides nothing about its server: what follows from silence or from a lost connection is decided by those who
//! own all of them (`lifecycle.rs`).

pub(crate) use crate::servers::{
    deadlines::sooner,
    part::{NewPart, Part, Purpose, Repeated},
    replies::{Kept, Sorted},
};
mod given_up;
mod shared;
#[cfg(test)]
mod tests;

use crate::{
    Config, Fault, JoinGets,
    meter::server_window::ServerWindow,
    servers::begun::Begun,
    servers::deadlines::{Deadlines, LateRead, Terms},
    servers::greeting::Questions,
    servers::health::Health,
    servers::in_step::InStep,
    servers::link::{Link, State},
    servers::part::GivenUp,
    servers::pipeline::{LostMessages, PART_KEYS_MAX, Pipeline},
    servers::replies::Replies,
    servers::tally::Tally,
    wire::ids::{RequestKey, Slot},
    wire::key::Echo,
    wire::names::Names,
    wire::tagged::Tagged,
};
use std::sync::Arc;
use weir_protocol::{Expected, Reply, Retrieval, RetrievalVerb, ValueSpan, Violation};
use weir_timing::{Distribution, Instant};

/// One connection to one server.
#[derive(Debug)]
pub(crate) struct Backend {
    link: Link,
    pipeline: Pipeline,
    deadlines: Deadlines,
    replies: Replies,
    health: Health,
    /// Whether its replies are in step.
    in_step: InStep,
    tally: Tally,
    /// Which questions of the proxy's own it knows.
    questions: Questions,
    /// Its `item_size_max`, in bytes, once it said so.
    item_size: Option<usize>,
    last_trouble: Option<Violation>,
    /// Why nothing may be added now, if that is the driver's wish.
    denial: Option<Fault>,
    /// Keys of it have other servers, too.
    has_copies: bool,
    /// It lacks a write, or may, and is to be made to forget the key.
    is_stale: bool,
}

impl Backend {
    /// Idle; its replies are timed for the server in slot `timed_as`.
    pub(super) fn new(timed_as: Slot, now: Instant) -> Self {
        Self {
            link: Link::new(now),
            pipeline: Pipeline::default(),
            deadlines: Deadlines::new(now),
            replies: Replies::default(),
            health: Health::default(),
            in_step: InStep::default(),
            tally: Tally::new(timed_as, now),
            questions: Questions::default(),
            item_size: None,
            last_trouble: None,
            denial: None,
            has_copies: false,
            is_stale: false,
        }
    }

    // ── its values ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    #[inline]
    pub(super) const fn link(&self) -> &Link {
        &self.link
    }

    #[inline]
    pub(super) const fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }

    #[inline]
    pub(super) const fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    #[inline]
    pub(super) const fn pipeline_mut(&mut self) -> &mut Pipeline {
        &mut self.pipeline
    }

    #[inline]
    pub(super) const fn health(&self) -> &Health {
        &self.health
    }

    #[inline]
    pub(super) const fn health_mut(&mut self) -> &mut Health {
        &mut self.health
    }

    pub(super) const fn in_step_mut(&mut self) -> &mut InStep {
        &mut self.in_step
    }

    pub(crate) const fn tally(&self) -> &Tally {
        &self.tally
    }

    #[inline]
    pub(super) const fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// The times of the open window, with the server whose they are, if there are any.
    pub(super) fn into_times(self) -> Option<(Slot, Distribution)> {
        self.tally.into_times()
    }

    pub(super) const fn questions(&self) -> Questions {
        self.questions
    }

    pub(super) const fn questions_mut(&mut self) -> &mut Questions {
        &mut self.questions
    }

    /// Its `item_size_max`, in bytes, once it said so.
    pub(super) const fn item_size(&self) -> Option<usize> {
        self.item_size
    }

    pub(super) const fn set_item_size(&mut self, bytes: usize) {
        self.item_size = Some(bytes);
    }

    pub(super) fn note_trouble(&mut self, trouble: Violation) {
        self.last_trouble = Some(trouble);
    }

    /// While there is a fault, nothing is sent there because of it.
    pub(super) const fn deny(&mut self, fault: Option<Fault>) {
        self.denial = fault;
    }

    // ── how it is ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// How its connection is.
    #[inline]
    pub(crate) const fn state(&self) -> State {
        self.link.state()
    }

    /// Whether requests can be sent to it, or wait for a connection that is made anew after it had one.
    pub(crate) const fn is_serving(&self) -> bool {
        self.link.is_serving()
    }

    /// Why it is down, if it lets nobody in.
    pub(crate) const fn refusal(&self) -> Option<Fault> {
        self.link.refusal()
    }

    /// Why a connection to it was given up last, if one ever was.
    pub(crate) fn last_trouble(&self) -> Option<String> {
        self.last_trouble.as_ref().map(ToString::to_string)
    }

    /// Keys of it have other servers, too.
    pub(super) const fn have_copies(&mut self) {
        self.has_copies = true;
    }

    #[inline]
    pub(crate) const fn has_copies(&self) -> bool {
        self.has_copies
    }

    /// `is_stale`: it lacks a write, or may, and is to be made to forget the key. Otherwise it has forgotten.
    pub(super) const fn keep_stale(&mut self, is_stale: bool) {
        self.is_stale = is_stale;
    }

    /// Whether the proxy's own messages may be sent there.
    pub(super) fn takes_repair_messages(&self) -> bool {
        self.link.is_up() && !self.link.is_renewing()
    }

    /// Whether a message may be added now.
    #[inline]
    pub(crate) fn admit(&self, config: &Config) -> Result<(), Fault> {
        if let Some(fault) = self.denial {
            return Err(fault);
        }
        if self.link.state().is_down() {
            return Err(Fault::Down);
        }
        if self.pipeline.is_full(config) { Err(Fault::Full) } else { Ok(()) }
    }

    /// Whether no time to come means anything to it: it is connected, or nobody wants it to be, and it owes nothing.
    #[inline]
    pub(super) fn waits_for_nothing(&self) -> bool {
        self.pipeline.is_empty() && matches!(self.link.state(), State::Up | State::Idle) && !self.is_stale
    }

    /// Nothing waits for it, and nothing is kept: for tests.
    pub(super) fn is_quiet(&self) -> bool {
        !self.is_stale && self.pipeline.is_quiet() && self.replies.is_quiet()
    }

    // ── what is counted ────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A message got an error, or no answer.
    #[inline]
    pub(crate) const fn count_error(&mut self) {
        self.tally.count_errors(1);
    }

    /// A reply is complete whose message was handed to the kernel then.
    #[inline]
    pub(crate) fn record(&mut self, sent: Instant, now: Instant) {
        self.tally.record(sent, now);
    }

    /// It took so long to answer, or to be given up.
    #[inline]
    pub(crate) fn observe(&mut self, nanos: u64) {
        self.health.observe(nanos);
    }

    /// Whether a message was queued since it was looked at last.
    pub(crate) const fn has_new_requests(&self) -> bool {
        self.tally.has_new_requests()
    }

    /// What the window with this index adds to its counts; `time`: the times of the window.
    pub(crate) fn end_window(&mut self, index: u64, server: Arc<str>, time: Distribution) -> ServerWindow {
        self.tally.end_window(index, (server, self.link.state().name()), time)
    }

    // ── messages ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Begins a message: the caller appends its bytes to [`Backend::message`] and its keys by [`Backend::push_key`], and
    /// then calls [`Backend::end_message`].
    #[inline(always)]
    pub(crate) fn begin_message(&mut self, part: NewPart, config: &Config, now: Instant) {
        self.begin_part(part, Purpose::Request, config, now);
        self.tally.note_queued(now);
    }

    /// The same for a message that no request asked for. Nobody waits for its reply, and it is no load.
    #[inline(never)]
    pub(super) fn begin_own_message(
        &mut self,
        purpose: Purpose,
        expected: Expected,
        config: &Config,
        now: Instant,
    ) {
        self.begin_part(NewPart::of_nobody(expected, Begun::at(now)), purpose, config, now);
    }

    // As a call of its own it costs every message some twenty instructions.
    #[inline(always)]
    fn begin_part(&mut self, part: NewPart, purpose: Purpose, config: &Config, now: Instant) {
        let deadline = self.add_deadline(part, config, now);
        self.pipeline.begin(part, purpose, deadline, now);
    }

    /// The deadline that a part of such a request has here.
    #[inline(always)]
    pub(crate) fn deadline_of(&self, begun: Begun, config: &Config, now: Instant) -> Instant {
        begun.deadline(config.timeout_ns, self.health.is_silent(config.timeout_ns, now))
    }

    #[inline(always)]
    fn add_deadline(&mut self, part: NewPart, config: &Config, now: Instant) -> Instant {
        let deadline = self.deadline_of(part.created(), config, now);
        let moves_after = self.has_copies.then_some(config.timeout_ns);
        self.deadlines.add(deadline, part.is_awaited(), moves_after);
        deadline
    }

    /// The bytes of the message that was begun last.
    #[inline]
    pub(crate) fn message(&mut self) -> &mut Vec<u8> {
        self.pipeline.message()
    }

    #[inline]
    pub(crate) fn end_message(&mut self) {
        self.pipeline.end_message();
    }

    /// Begins the message of a retrieval of `key_count` keys, or puts it into the one before (`pipeline/line.rs`): the caller adds the keys
    /// by [`Backend::push_key`], and then calls [`Backend::end_retrieval`]. One that `is_bulky` shares its message with no other: its values
    /// would have to be kept while those of others come.
    // As a call of its own it costs every get forty instructions.
    #[inline(always)]
    pub(crate) fn begin_retrieval(
        &mut self,
        (part, is_bulky): (NewPart, bool),
        (retrieval, key_count): (Retrieval<'_>, usize),
        config: &Config,
        now: Instant,
    ) {
        let may_be_joined = config.join_gets == JoinGets::On
            && !is_bulky
            && retrieval.verb == RetrievalVerb::Get
            && key_count <= PART_KEYS_MAX;
        let joins = may_be_joined && self.pipeline.open_line();
        self.begin_message(part, config, now);
        self.pipeline.begin_retrieval(retrieval, may_be_joined, joins);
    }

    /// All keys of the retrieval are there. Returns whether they stand in the message of another.
    #[inline]
    pub(crate) fn end_retrieval(&mut self) -> bool {
        self.pipeline.end_retrieval()
    }

    /// Adds a key to the message that was begun last: to its bytes and to what its reply is checked against.
    #[inline]
    pub(crate) fn push_key(&mut self, key: &[u8]) {
        self.pipeline.push_key(key);
    }

    /// Asks for these keys, each after its length, in a message that nothing is joined to but the same question. It was asked so often.
    #[cold]
    pub(crate) fn ask_alone(
        &mut self,
        part: NewPart,
        (keys, tries): (&[u8], u8),
        config: &Config,
        now: Instant,
    ) {
        let place = self.pipeline.place_beside(keys, tries);
        if let Some(place) = place.filter(|place| self.deadlines.may_insert(*place)) {
            let deadline = self.add_deadline(part, config, now);
            self.pipeline.insert_beside(place, part, deadline, now);
            self.deadlines.note_inserted(self.pipeline.parts(), place);
            self.tally.note_queued(now);
            return;
        }
        self.begin_message(part, config, now);
        self.message().extend_from_slice(RetrievalVerb::Get.as_bytes());
        Names(keys).for_each(|key| self.push_key(key));
        self.message().extend_from_slice(b"\r\n");
        self.end_message();
        self.pipeline.note_try(tries);
    }

    /// Who repeats the key in the reply to the meta message that was begun last.
    pub(crate) fn expect_echo(&mut self, echo: &Echo) {
        self.pipeline.expect_echo(echo);
    }

    // ── they leave ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Whether the driver should be asked to write.
    #[inline]
    pub(super) fn wants_write(&self) -> bool {
        self.link.is_connected()
            && !self.link.is_blocked()
            && self.pipeline.has_output(self.link.is_renewing())
    }

    /// What is to be written. While the connection is being renewed nothing new is begun on it.
    #[inline]
    pub(super) fn output(&self) -> &[u8] {
        self.pipeline.output(self.link.is_renewing())
    }

    /// Where in it each message ends, in their order. There may be more of them than what is to be written now.
    pub(super) fn message_ends(&self) -> impl Iterator<Item = usize> {
        self.pipeline.message_ends()
    }

    /// Everything queued is being taken by the driver; calls `taken` for each request that leaves the queue, with how many
    /// left it before.
    #[inline]
    pub(super) fn dequeue(&mut self, now: Instant, taken: impl FnMut(RequestKey, u64)) {
        let count = self.pipeline.dequeue(self.link.is_renewing(), taken);
        self.tally.note_dequeued(count, now);
    }

    /// `count` bytes were handed to the kernel; calls `forwarded` for each request whose message is complete there.
    #[inline]
    pub(super) fn handle_written(
        &mut self,
        count: usize,
        progress_min: usize,
        now: Instant,
        forwarded: impl FnMut(RequestKey),
    ) {
        if let Some(goes_on) = self.pipeline.long_head_leaving() {
            self.deadlines.note_progress(count, goes_on, progress_min, now);
        }
        // Of a connection that is being renewed less than all is offered; the kernel may well have taken that.
        let blocked = count < self.output().len();
        self.link.set_blocked(blocked);
        self.pipeline.note_written(count, now, forwarded);
    }

    // ── replies ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The part that owns the next reply, if it has been sent at least in part.
    #[inline]
    pub(crate) fn head(&self) -> Option<&Part> {
        self.pipeline.head()
    }

    /// Takes the beginning of the reply that has come, to be given back by [`Backend::keep_input`].
    #[inline]
    pub(crate) fn take_input(&mut self) -> Vec<u8> {
        self.replies.take_input()
    }

    /// `count` bytes came, of which this is the beginning of a reply that is not complete; `goes_on` if it is the one of before. Returns
    /// how many bytes of that there must be before looking at it again can find more, if it has begun.
    #[inline]
    pub(crate) fn keep_input(
        &mut self,
        input: Vec<u8>,
        (count, goes_on): (usize, bool),
        progress_min: usize,
        now: Instant,
    ) -> usize {
        self.health.note_heard();
        self.deadlines.note_progress(count, goes_on, progress_min, now);
        let needed = if input.is_empty() { 0 } else { self.replies.needed() };
        self.replies.keep(input);
        needed
    }

    pub(crate) const fn input_len(&self) -> usize {
        self.replies.input_len()
    }

    /// How many bytes of the reply there must be before looking at it again can find more.
    #[inline]
    pub(crate) fn needed(&self) -> usize {
        self.replies.needed()
    }

    /// This many bytes came. Returns how many of them are a value's that is thrown away, and whether that is complete with them.
    #[inline]
    pub(crate) fn skip(&mut self, len: usize) -> (usize, bool) {
        self.replies.skip(len)
    }

    /// Looks at the front of `bytes` for a complete reply. Where there is none, [`Self::look_for_too_many`] is to be asked: as a part of this
    /// it would cost every complete reply, too.
    #[inline]
    pub(crate) fn scan(&mut self, expected: Expected, bytes: &[u8]) -> Result<Option<Reply>, Violation> {
        self.replies.scan(expected, bytes)
    }

    /// A reply that is not complete has no more values than the head has keys: what is noted of each is longer than the shortest of them.
    #[cold]
    pub(crate) fn look_for_too_many(&self, bytes: &[u8]) -> Result<(), Violation> {
        let asked = self.pipeline.head().map_or(0, |head| head.key_count() as usize);
        let Some(value) = self.replies.values().get(asked) else { return Ok(()) };
        let line = String::from_utf8_lossy(&bytes[value.key.clone()]).into_owned();
        Err(Violation::UnexpectedLine(format!("VALUE {line}")))
    }

    /// Where the values lie in the reply that was scanned last.
    #[inline]
    pub(crate) fn values(&self) -> &[ValueSpan] {
        self.replies.values()
    }

    /// Positions, among the keys of the part, of the values in the reply that was checked last.
    #[inline]
    pub(crate) fn ordinals(&self) -> &[u32] {
        self.replies.ordinals()
    }

    /// The reply that is delivered next has these values.
    pub(crate) fn take_ordinals_of(&mut self, kept: &Kept) {
        self.replies.take_ordinals_of(kept);
    }

    /// The reply that was checked last, with the key as its client wrote it.
    pub(crate) fn spell(&self, reply: Reply, bytes: &[u8]) -> Option<Tagged> {
        self.replies.spell(reply, bytes)
    }

    /// Takes the part whose reply is complete, after checking that the values in it are the ones that were asked for.
    /// [`Backend::note_replied`] must follow.
    #[inline]
    pub(crate) fn complete_head(&mut self, reply: &[u8]) -> Result<Part, Violation> {
        self.replies.check_keys(&mut self.pipeline, reply, &mut self.last_trouble)?;
        Ok(self.take_head())
    }

    #[inline]
    fn take_head(&mut self) -> Part {
        self.link.note_answered();
        let part = self.pipeline.take_head();
        self.deadlines.note_left(1);
        self.tally.note_reply(part.is_load());
        part
    }

    /// All that came at `now` was taken: its requests are in flight no more.
    #[inline]
    pub(crate) fn note_replied(&mut self, now: Instant) {
        self.tally.note_replied(now);
    }

    /// A reply came to a request that had been given up.
    pub(crate) const fn note_late_reply(&mut self, now: Instant) {
        self.in_step.note_late_reply(now);
    }

    /// The answer to the question whether the replies are in step came in its turn.
    pub(crate) const fn note_in_step(&mut self) {
        self.in_step.note_confirmed();
    }

    /// What has come of the reply is forgotten, and so will be what is still to come of the value at its end. Returns the requests that
    /// waited for that, and which part of each.
    pub(crate) fn throw_reply_away(&mut self) -> Vec<(RequestKey, u32)> {
        self.replies.throw_away(&mut self.pipeline)
    }

    /// Nobody waits for the reply to the head: the values that have come of it are forgotten.
    pub(crate) fn drop_values(&mut self) {
        self.replies.drop_values();
    }

    // ── time ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Whether time may have run out for something of it, or it is wanted and not connected.
    #[inline]
    pub(super) fn may_be_late(&self, now: Instant) -> bool {
        match self.link.state() {
            State::Up | State::Silent => self.deadlines.may_be_late(now),
            State::Idle => !self.waits_for_nothing(),
            State::Connecting { .. }
            | State::Greeting { .. }
            | State::Down { .. }
            | State::Probing { .. } => true,
        }
    }

    /// When something of it is late next, or may be asked elsewhere.
    #[inline]
    pub(super) fn next_deadline(&self, timeout_ns: u64) -> Option<Instant> {
        self.deadlines.next(&self.pipeline, self.terms(timeout_ns))
    }

    /// What its deadlines depend on. A server that is marked down was asked with that whether its replies are in step (`mark_down.rs`), and
    /// a second connection finds out what becomes of it (`second_opinion.rs`).
    #[inline]
    fn terms(&self, timeout_ns: u64) -> Terms {
        let step_due = if self.link.state() == State::Silent { None } else { self.in_step.due() };
        Terms::new(timeout_ns, self.has_copies, self.replies.has_begun(), step_due)
    }

    /// Takes the request from every part whose time is up, and calls `expired` for it. Returns how many parts are late besides whose
    /// requests another server was asked for.
    pub(super) fn expire(
        &mut self,
        now: Instant,
        timeout_ns: u64,
        mut expired: impl FnMut(RequestKey, Part),
    ) -> usize {
        let (mut timeouts, mut moved) = (0, 0);
        let terms = self.terms(timeout_ns);
        self.deadlines.expire(&mut self.pipeline, terms, now, |what, part| {
            timeouts += 1;
            match what {
                GivenUp::Request(request) => expired(request, part),
                GivenUp::Moved => moved += 1,
            }
        });
        self.tally.count_timeouts(timeouts);
        if timeouts > 0 {
            self.in_step.note_given_up(now, timeout_ns);
        }
        self.deadlines.reckon(&self.pipeline, self.terms(timeout_ns));
        moved
    }

    /// The reads that may be asked of another server, if there is one and the server has said nothing for half of the timeout.
    pub(super) fn late_reads(&mut self, timeout_ns: u64, now: Instant) -> Vec<LateRead> {
        let at = self.deadlines.reads_late_at(&self.pipeline, self.terms(timeout_ns));
        if at.is_none_or(|at| at > now) {
            return Vec::new();
        }
        self.deadlines.late_reads(&self.pipeline, timeout_ns, now)
    }

    /// The read in this place was asked of another server. It is still counted when its time is up.
    pub(crate) fn note_moved(&mut self, place: usize) {
        self.pipeline.parts_mut()[place].note_moved();
    }

    /// Whether a long reply is coming, and has made progress: what waits behind it may be late, and the server is not silent.
    pub(super) fn is_answering(&self, now: Instant, timeout_ns: u64) -> bool {
        self.replies.is_coming() && self.deadlines.has_progressed(timeout_ns, now)
    }

    // ── the connection ends ────────────────────────────────────────────────────────────────────────────────────────────────

    /// The connection is gone: everything that was queued or in flight on it is handed to `lost`, each part with the keys that were
    /// noted of it.
    pub(super) fn disconnect(&mut self, now: Instant, mut lost: impl FnMut(RequestKey, Part, &[u8])) {
        let dequeued = self.pipeline.dequeued();
        for (index, (part, keys)) in self.pipeline.parts_with_keys().enumerate() {
            if !part.is_load() {
                continue;
            }
            self.tally.note_over(index < dequeued, now);
            if let Some(request) = part.request() {
                lost(request, *part, keys);
            }
        }
        self.link.lose();
        self.pipeline.clear();
        self.deadlines.clear();
        self.replies.reset();
        self.in_step = InStep::default();
    }

    /// The connection is replaced: what was begun on it is over, what waits stays. Returns what that means for the journal.
    pub(super) fn renew(&mut self, now: Instant) -> LostMessages {
        let Self { pipeline, tally, .. } = self;
        let (begun, lost) = pipeline.drop_begun(|part| {
            if part.is_load() {
                tally.note_over(true, now);
            }
        });
        self.link.replace();
        self.deadlines.note_left(begun);
        self.replies.reset();
        self.in_step = InStep::default();
        lost
    }

    /// Whether something was sent that could undo a later write on another connection.
    pub(crate) fn may_undo(&self) -> bool {
        self.pipeline.may_undo(self.has_copies)
    }

    /// When nothing waits any more for a reply, so that the connection can be ended; `only_begun`: to what was begun on it.
    pub(super) fn settled_at(&self, only_begun: bool) -> Option<Instant> {
        if only_begun { self.pipeline.begun_settled_at() } else { self.pipeline.settled_at() }
    }

    // ── memory ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The memory that its buffers keep, in bytes.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        self.replies.held_bytes() + self.pipeline.held_bytes()
    }

    /// Frees the buffers that are empty.
    pub(super) fn give_memory_back(&mut self) {
        self.replies.give_memory_back();
        self.pipeline.give_memory_back();
    }
}
