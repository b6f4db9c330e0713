//! One memcached server as one event loop sees it: a pipelined connection, what waits for it and what is in flight on it.
//!
//! ```text
//!            enqueue                poll_output            handle_written              reply
//!   request ────────▶ queued ─────────────────▶ leaving ──────────────▶ in flight ──────────▶ done
//!                     │  parts[sent..], bytes in `out`                  │  parts[..sent]
//!                     └───────────── deadline: the part is abandoned ───┴▶ stays in its place, its reply is thrown away
//!
//!   Idle ──connect──▶ Connecting ──▶ Greeting ──▶ Up ──lost──▶ Connecting
//!                        │              │          ╲──silent──▶ Silent: marked down, and up again when it answers
//!                        │ failed       │ refused                 Down: requests are refused at once
//!                        └──────▶ Down ◀┘ ──pause──▶ Probing ──▶ Greeting ──▶ Up
//! ```
//!
//! Replies come in the order of the messages, so the head of `parts` owns the next reply. A part whose request has been
//! answered already (its time was up) keeps its place and loses its request: that is why a late reply cannot reach anybody.

mod deadlines;
mod joined;
mod keys;
mod late_reads;
mod renewal;
mod scattered;

pub(crate) use crate::servers::part::{NewPart, Part, Purpose, Repeated, RequestKey};
use crate::{
    Config, Fault,
    memory::buffer::ByteQueue,
    servers::begun::Begun,
    servers::greeting::Questions,
    servers::happened::LostErrands,
    servers::health::Health,
    servers::in_step::InStep,
    servers::link::{Link, State},
    servers::tally::Tally,
    servers::window::ServerWindow,
    wire::key::Spelling,
};
use joined::{Cursor, Line};
use scattered::Scattered;
pub(crate) use scattered::{Kept, Taken};
use std::collections::VecDeque;
use std::sync::Arc;
use weir_protocol::{Expected, ReplyScanner, Violation};
use weir_timing::{Distribution, Instant};

/// No deadline.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

#[derive(Debug)]
pub(crate) struct Backend {
    link: Link,
    health: Health,
    tally: Tally,
    parts: VecDeque<Part>,
    /// How many of `parts` are completely handed to the kernel.
    sent: usize,
    /// How many of `parts` were taken from the queue by the driver.
    dequeued: usize,
    /// Parts before this one were checked for their deadline (except the first of all, whose reply may be on its way).
    unexpired: usize,
    /// Parts before this one were looked at for reads that may be asked elsewhere.
    looked_at: usize,
    /// No part that stands behind one with a later deadline has an earlier deadline than this. `None`: all stand in the order of
    /// their deadlines.
    overtaking: Option<Instant>,
    /// The latest deadline of any part.
    latest: Instant,
    /// No part is late before this.
    soonest: Instant,
    pub(crate) out: ByteQueue,
    out_start: u64,
    /// The keys of the retrievals in `parts`, each after its length, against which replies are checked.
    pub(crate) keys: ByteQueue,
    line: Line,
    cursor: Cursor,
    scattered: Scattered,
    pub(crate) scanner: ReplyScanner,
    /// The beginning of a reply that is not complete.
    pub(crate) input: Vec<u8>,
    /// How many bytes are still to come of a value that is thrown away.
    pub(crate) skip: usize,
    /// Since when the head goes on, and how many bytes of it have moved since then.
    progress: (Instant, usize),
    /// Positions, among the keys of the part, of the values in the reply that was checked last.
    pub(crate) ordinals: Vec<u32>,
    /// Which questions of the proxy's own it knows.
    pub(crate) questions: Questions,
    /// Its `item_size_max`, in bytes, once it was told.
    pub(crate) item_size: Option<usize>,
    last_trouble: Option<Violation>,
    /// Why nothing may be added now, if that is the driver's wish.
    denial: Option<Fault>,
    /// Whether its replies are in step.
    pub(crate) in_step: InStep,
    /// What the proxy puts into the reply that was checked last, where it repeats the key.
    pub(crate) spelling: Spelling,
    /// Keys of it have other servers, too.
    has_copies: bool,
    /// It lacks a write, or may, and is to be told to forget it.
    is_stale: bool,
}

impl Backend {
    /// Idle; its replies are timed for the server in slot `timed_as`.
    pub(crate) fn new(timed_as: usize, now: Instant) -> Self {
        Self {
            link: Link::new(now),
            health: Health::default(),
            tally: Tally::new(timed_as, now),
            parts: VecDeque::new(),
            sent: 0,
            dequeued: 0,
            unexpired: 0,
            looked_at: 0,
            overtaking: None,
            latest: Instant::ZERO,
            soonest: NEVER,
            out: ByteQueue::default(),
            out_start: 0,
            keys: ByteQueue::default(),
            line: Line::default(),
            cursor: Cursor::default(),
            scattered: Scattered::default(),
            scanner: ReplyScanner::default(),
            input: Vec::new(),
            skip: 0,
            progress: (now, 0),
            ordinals: Vec::new(),
            questions: Questions::default(),
            item_size: None,
            last_trouble: None,
            denial: None,
            in_step: InStep::default(),
            spelling: Spelling::default(),
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
    pub(super) const fn health(&self) -> &Health {
        &self.health
    }

    #[inline]
    pub(super) const fn health_mut(&mut self) -> &mut Health {
        &mut self.health
    }

    pub(crate) const fn tally(&self) -> &Tally {
        &self.tally
    }

    #[inline]
    pub(super) const fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// The times of the open window, with the server whose they are, if there are any.
    pub(super) fn into_times(self) -> Option<(usize, Distribution)> {
        self.tally.into_times()
    }

    // ── what is counted ────────────────────────────────────────────────────────────────────────────────────────────────────

    /// How its connection is.
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

    /// Something came from it.
    #[inline]
    pub(crate) const fn note_heard(&mut self) {
        self.health.note_heard();
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

    /// Why a connection to it was given up last, if one ever was.
    pub(crate) fn last_trouble(&self) -> Option<String> {
        self.last_trouble.as_ref().map(ToString::to_string)
    }

    pub(super) fn note_trouble(&mut self, trouble: Violation) {
        self.last_trouble = Some(trouble);
    }

    /// While there is a fault, nothing is sent there because of it.
    pub(super) const fn deny(&mut self, fault: Option<Fault>) {
        self.denial = fault;
    }

    /// Keys of it have other servers, too.
    pub(crate) const fn have_copies(&mut self) {
        self.has_copies = true;
    }

    #[inline]
    pub(crate) const fn has_copies(&self) -> bool {
        self.has_copies
    }

    /// It lacks a write, or may, and is to be told to forget it; or it was told.
    pub(crate) const fn keep_stale(&mut self, is_stale: bool) {
        self.is_stale = is_stale;
    }

    /// Whether the proxy's own messages may be sent there.
    pub(crate) fn takes_errands(&self) -> bool {
        self.link.is_up() && !self.link.is_renewing()
    }

    /// Whether a message may be added now.
    pub(crate) fn admit(&self, config: &Config) -> Result<(), Fault> {
        if let Some(fault) = self.denial {
            return Err(fault);
        }
        if self.link.state().is_down() {
            return Err(Fault::Down);
        }
        let full = self.parts.len() >= config.server_requests_max
            || self.out.len() >= config.server_buffer_bytes_max;
        if full { Err(Fault::Full) } else { Ok(()) }
    }

    /// Whether no time to come means anything to it: it is connected, or nobody wants it to be, and it owes nothing.
    pub(crate) fn waits_for_nothing(&self) -> bool {
        self.parts.is_empty() && matches!(self.link.state(), State::Up | State::Idle) && !self.is_stale
    }

    /// Whether time may have run out for something of it, or it is wanted and not connected.
    #[inline]
    pub(crate) fn may_be_late(&self, now: Instant) -> bool {
        match self.link.state() {
            State::Up | State::Silent => self.soonest <= now,
            State::Idle => !self.waits_for_nothing(),
            State::Connecting { .. }
            | State::Greeting { .. }
            | State::Down { .. }
            | State::Probing { .. } => true,
        }
    }

    /// Begins a message: the caller appends its bytes to [`Backend::message`] and its keys by [`Backend::push_key`], and
    /// then calls [`Backend::finish_message`].
    #[inline(always)]
    pub(crate) fn begin_message(&mut self, part: NewPart, config: &Config, now: Instant) {
        self.begin_part(part, Purpose::Request, config, now);
        self.tally.note_queued(now);
    }

    /// The same for a message that no request asked for. Nobody waits for its reply, and it is nobody's load.
    #[inline(never)]
    pub(crate) fn begin_own_message(
        &mut self,
        purpose: Purpose,
        expected: Expected,
        config: &Config,
        now: Instant,
    ) {
        let part = NewPart { request: None, expected, decides: false, index: 0, created: Begun::at(now) };
        self.begin_part(part, purpose, config, now);
    }

    // As a call of its own it costs every message some twenty instructions.
    #[inline(always)]
    fn begin_part(&mut self, part: NewPart, purpose: Purpose, config: &Config, now: Instant) {
        let start = self.out_end();
        let deadline =
            part.created.deadline(config.timeout_ns, self.health.is_silent(config.timeout_ns, now));
        if part.request.is_some() && deadline < self.latest {
            self.overtaking = Some(self.overtaking.map_or(deadline, |earliest| earliest.min(deadline)));
        }
        self.latest = self.latest.max(deadline);
        let first =
            if self.has_copies { late_reads::half_time(deadline, config.timeout_ns) } else { deadline };
        self.soonest = self.soonest.min(first);
        self.parts.push_back(Part::new(part, purpose, start, deadline, now));
    }

    pub(crate) fn message(&mut self) -> &mut Vec<u8> {
        self.out.end()
    }

    pub(crate) fn finish_message(&mut self) {
        let end = self.out_end();
        self.parts.back_mut().expect("a message was begun").set_end(end);
    }

    fn out_end(&self) -> u64 {
        self.out_start + self.out.len() as u64
    }

    /// Whether the driver should be asked to write.
    pub(crate) fn wants_write(&self) -> bool {
        !self.out.is_empty()
            && self.link.is_connected()
            && !self.link.is_blocked()
            && !self.output().is_empty()
    }

    pub(crate) fn output(&self) -> &[u8] {
        let out = self.out.as_slice();
        if self.link.is_renewing() { &out[..self.begun_bytes()] } else { out }
    }

    /// Everything queued is being taken by the driver; calls `taken` for each request that leaves the queue, with how many
    /// left it before: as long was the queue when it entered.
    pub(crate) fn dequeue(&mut self, now: Instant, mut taken: impl FnMut(RequestKey, u64)) {
        let taken_now =
            if self.link.is_renewing() { self.begun().max(self.dequeued) } else { self.parts.len() };
        let mut count = 0;
        for part in self.parts.range(self.dequeued..taken_now) {
            if let Some(request) = part.request() {
                taken(request, count);
            }
            count += u64::from(part.is_load());
        }
        self.tally.note_dequeued(count, now);
        self.dequeued = taken_now;
    }

    /// `count` bytes were handed to the kernel; calls `forwarded` for each request whose message is complete there.
    pub(crate) fn handle_written(
        &mut self,
        count: usize,
        progress_min: usize,
        now: Instant,
        mut forwarded: impl FnMut(RequestKey),
    ) {
        if self.sent == 0
            && let Some(head) = self.parts.front().filter(|head| head.is_long())
        {
            self.note_progress(count, head.start() < self.out_start, progress_min, now);
        }
        // Of a connection that is being renewed less than all is offered; the kernel may well have taken that.
        let blocked = count < self.output().len();
        self.link.set_blocked(blocked);
        self.out.advance(count);
        self.out_start += count as u64;
        while self.sent < self.parts.len() {
            let last = self.last_of_message(self.sent);
            if self.parts[last].end() > self.out_start {
                break;
            }
            for part in self.sent..=last {
                let part = &mut self.parts[part];
                part.note_sent(now);
                if let Some(request) = part.request() {
                    forwarded(request);
                }
            }
            self.sent = last + 1;
        }
    }

    /// The part that owns the next reply, if it has been sent at least in part.
    pub(crate) fn head(&self) -> Option<&Part> {
        self.parts.front().filter(|part| part.start() < self.out_start)
    }

    /// So many bytes came from the server, or went there; `goes_on` if the head was under way before them.
    pub(crate) fn note_progress(&mut self, count: usize, goes_on: bool, progress_min: usize, now: Instant) {
        let (since, moved) = self.progress;
        let moved = moved.saturating_add(count);
        self.progress = if goes_on && moved < progress_min { (since, moved) } else { (now, 0) };
    }

    /// What has come of the head's reply is forgotten, and so will be what is still to come of the value at its end. Returns the
    /// part that waited for it, and whose.
    pub(crate) fn throw_reply_away(&mut self) -> Option<(RequestKey, u32)> {
        self.drop_values();
        let whose = self.scattered.throw_away();
        self.parts.get_mut(whose).and_then(|part| Some((part.take_request()?, part.index())))
    }

    /// Takes the part whose reply is complete, after checking that the values in it are the ones that were asked for.
    /// [`Backend::note_replied`] must follow.
    pub(crate) fn complete_head(&mut self, reply: &[u8]) -> Result<Part, Violation> {
        self.check_keys(reply)?;
        self.link.note_answered();
        Ok(self.take_head())
    }

    fn take_head(&mut self) -> Part {
        let part = self.parts.pop_front().expect("a reply was scanned for the head");
        self.tally.note_reply(part.is_load());
        self.sent = self.sent.saturating_sub(1);
        self.dequeued = self.dequeued.saturating_sub(1);
        self.unexpired = self.unexpired.saturating_sub(1);
        self.looked_at = self.looked_at.saturating_sub(1);
        part
    }

    /// All that came at `now` was taken: its requests are in flight no more.
    pub(crate) fn note_replied(&mut self, now: Instant) {
        self.tally.note_replied(now);
    }

    /// The connection is gone: everything that was queued or in flight on it is handed to `lost`, each part with the keys that were
    /// noted of it.
    pub(crate) fn disconnect(&mut self, now: Instant, mut lost: impl FnMut(RequestKey, Part, &[u8])) {
        let mut keys = self.keys.as_slice();
        for (index, part) in self.parts.iter().enumerate() {
            let mut len = 0;
            (0..part.key_count()).for_each(|_| len += 1 + usize::from(keys[len]));
            let (own, rest) = keys.split_at(len);
            keys = rest;
            if !part.is_load() {
                continue;
            }
            self.tally.note_over(index < self.dequeued, now);
            if let Some(request) = part.request() {
                lost(request, *part, own);
            }
        }
        self.link.lose();
        self.parts.clear();
        (self.sent, self.dequeued, self.unexpired, self.looked_at) = (0, 0, 0, 0);
        self.overtaking = None;
        self.in_step = InStep::default();
        self.out.clear();
        self.out_start = 0;
        self.keys.clear();
        self.cursor = Cursor::default();
        self.scattered.end();
        self.scanner.reset();
        self.input = Vec::new();
        self.skip = 0;
    }

    /// Whether something was sent that could undo a later write on another connection. What was given up where keys have replicas
    /// cannot: its key is in the journal.
    pub(crate) fn may_undo(&self) -> bool {
        let may = |part: &Part| part.request().is_some() || !self.has_copies && !part.is_answered();
        self.parts.iter().any(|part| part.is_load() && may(part))
    }

    /// What the journal has at stake if the first `count` parts are lost with the connection.
    pub(crate) fn errands_among(&self, count: usize) -> LostErrands {
        let mut lost = LostErrands::default();
        for part in self.parts.range(..count) {
            match part.purpose() {
                Purpose::Delete => lost.deletes += 1,
                Purpose::Flush => lost.flush = true,
                Purpose::Barrier | Purpose::Step => {}
                Purpose::Request => {
                    lost.writes |= part.expected() != Expected::Retrieval && part.start() < self.out_start;
                }
            }
        }
        lost
    }

    pub(crate) fn part_count(&self) -> usize {
        self.parts.len()
    }

    /// Whether a reply to something that was given up is still to come.
    pub(crate) fn has_given_up(&self) -> bool {
        self.parts.iter().any(Part::is_given_up)
    }

    /// The message that was finished last is known by `mark`, which is none of a split multi-get's numbers.
    pub(crate) fn mark_last(&mut self, mark: u32) {
        self.parts.back_mut().expect("a message was begun").set_index(mark);
    }

    /// Whether a message with this mark waits, or waits for its reply.
    pub(crate) fn has_part_marked(&self, mark: u32) -> bool {
        self.parts.iter().any(|part| part.index() == mark)
    }

    pub(crate) fn is_quiet(&self) -> bool {
        !self.is_stale
            && self.parts.is_empty()
            && self.out.is_empty()
            && self.keys.is_empty()
            && self.input.is_empty()
    }
}

/// The earlier of two times, of which there may be none.
pub(crate) fn sooner(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
