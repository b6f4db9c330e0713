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
    servers::greeting::{Greeting, Questions},
    servers::happened::LostErrands,
    servers::in_step::InStep,
    servers::window::Told,
    wire::key::Spelling,
};
use joined::{Cursor, Line};
use scattered::Scattered;
pub(crate) use scattered::{Kept, Taken};
use std::collections::VecDeque;
use weir_protocol::{Expected, ReplyScanner, Violation};
use weir_timing::{Distribution, Instant, QueueGauge};

/// No deadline.
const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Its kind in a byte of its own is read faster than out of the other fields, and it is read several times per server and turn.
#[repr(u8)]
pub(crate) enum State {
    Idle,
    Connecting {
        since: Instant,
    },
    /// Connected, and not yet known to serve us (`greeting.rs`). `is_probe`: it was down before.
    Greeting {
        since: Instant,
        is_probe: bool,
    },
    Up,
    /// Connected, and marked down because it does not answer (`mark_down.rs`).
    Silent,
    Down {
        until: Instant,
    },
    Probing {
        since: Instant,
    },
}

impl State {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Connecting { .. } | Self::Greeting { is_probe: false, .. } => "connecting",
            Self::Up => "up",
            Self::Silent
            | Self::Down { .. }
            | Self::Probing { .. }
            | Self::Greeting { is_probe: true, .. } => "down",
        }
    }

    /// Whether requests are refused at once.
    pub(crate) const fn is_down(self) -> bool {
        matches!(
            self,
            Self::Down { .. } | Self::Probing { .. } | Self::Silent | Self::Greeting { is_probe: true, .. }
        )
    }
}

#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) state: State,
    /// The kernel took less than was offered; it will say when it takes more.
    pub(crate) blocked: bool,
    /// What is said before anything of a client, until it is answered.
    pub(crate) greeting: Option<Box<Greeting>>,
    /// Why it is down, if it lets nobody in.
    pub(crate) refusal: Option<Fault>,
    /// The connection is to be replaced when all that was begun on it is answered.
    pub(crate) renewing: bool,
    /// Attempts to connect that failed, and connections that were lost, since it answered anything.
    pub(crate) failures: u32,
    /// Connections in a row that did not last because of what the server said on them.
    pub(crate) violations: u32,
    /// When the connection was made.
    pub(crate) connected: Instant,
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
    pub(crate) queued: QueueGauge,
    pub(crate) in_flight: QueueGauge,
    /// Requests among `in_flight` whose replies came with the bytes that are being taken.
    replied: u64,
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) timeouts: u64,
    /// What of it was told with the windows before.
    pub(crate) told: Told,
    pub(crate) last_trouble: Option<Violation>,
    /// The server that its replies are timed for: itself, or the one whose second connection this is (`bulk.rs`).
    pub(crate) timed_as: usize,
    /// How long those of the open window took, from the request handed to the kernel until the reply is complete.
    pub(crate) times: Distribution,
    /// Why nothing may be added now, if that is the driver's wish.
    pub(crate) denial: Option<Fault>,
    /// `requests` when the last request was handed in by the driver.
    pub(crate) requests_before: u64,
    /// Requests that were late since it was last heard of.
    pub(crate) late_in_a_row: u32,
    /// When the first of them was found late.
    pub(crate) late_since: Instant,
    /// Whether its replies are in step.
    pub(crate) in_step: InStep,
    /// How long it took to answer of late, nanoseconds; 0 before the first reply.
    pub(crate) smoothed_ns: u64,
    /// What the proxy puts into the reply that was checked last, where it repeats the key.
    pub(crate) spelling: Spelling,
    /// Keys of it have other servers, too.
    has_copies: bool,
    /// It lacks a write, or may, and is to be told to forget it.
    is_stale: bool,
}

impl Backend {
    /// Whether requests can be sent to it, or wait for a connection that is made anew after it had one.
    pub(crate) fn is_serving(&self) -> bool {
        match self.state {
            State::Up => true,
            State::Connecting { .. } | State::Greeting { is_probe: false, .. } => self.failures > 0,
            _ => false,
        }
    }

    /// Idle; its replies are timed for the server in slot `timed_as`.
    pub(crate) fn new(timed_as: usize, now: Instant) -> Self {
        Self {
            state: State::Idle,
            blocked: false,
            greeting: None,
            refusal: None,
            renewing: false,
            failures: 0,
            violations: 0,
            connected: now,
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
            queued: QueueGauge::new(now),
            in_flight: QueueGauge::new(now),
            replied: 0,
            requests: 0,
            errors: 0,
            timeouts: 0,
            told: Told::default(),
            last_trouble: None,
            timed_as,
            times: Distribution::new(),
            denial: None,
            requests_before: 0,
            late_in_a_row: 0,
            late_since: Instant::ZERO,
            in_step: InStep::default(),
            smoothed_ns: 0,
            spelling: Spelling::default(),
            has_copies: false,
            is_stale: false,
        }
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
        self.state == State::Up && !self.renewing
    }

    /// It took so long to answer, or to be given up. An eighth counts, as in TCP's smoothed round-trip time (RFC 6298).
    pub(crate) fn observe(&mut self, nanos: u64) {
        self.smoothed_ns = if self.smoothed_ns == 0 { nanos } else { self.smoothed_ns / 8 * 7 + nanos / 8 };
    }

    /// Whether a message may be added now.
    pub(crate) fn admit(&self, config: &Config) -> Result<(), Fault> {
        if let Some(fault) = self.denial {
            return Err(fault);
        }
        if self.state.is_down() {
            return Err(Fault::Down);
        }
        let full = self.parts.len() >= config.server_requests_max
            || self.out.len() >= config.server_buffer_bytes_max;
        if full { Err(Fault::Full) } else { Ok(()) }
    }

    /// Whether no time to come means anything to it: it is connected, or nobody wants it to be, and it owes nothing.
    pub(crate) fn waits_for_nothing(&self) -> bool {
        self.parts.is_empty() && matches!(self.state, State::Up | State::Idle) && !self.is_stale
    }

    /// Whether time may have run out for something of it, or it is wanted and not connected.
    #[inline]
    pub(crate) fn may_be_late(&self, now: Instant) -> bool {
        match self.state {
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
        self.requests += 1;
        self.queued.enter(now);
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
        let deadline = part.created.deadline(config.timeout_ns, self.is_silent(config, now));
        if part.request.is_some() && deadline < self.latest {
            self.overtaking = Some(self.overtaking.map_or(deadline, |earliest| earliest.min(deadline)));
        }
        self.latest = self.latest.max(deadline);
        let first =
            if self.has_copies { late_reads::half_time(deadline, config.timeout_ns) } else { deadline };
        self.soonest = self.soonest.min(first);
        self.parts.push_back(Part::new(part, purpose, start, deadline, now));
    }

    /// Whether it has said nothing for a whole timeout after a request was late.
    #[inline]
    fn is_silent(&self, config: &Config, now: Instant) -> bool {
        self.late_in_a_row > 0 && self.late_since.plus(config.timeout_ns) <= now
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

    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.state, State::Up | State::Silent)
    }

    /// Whether the driver should be asked to write.
    pub(crate) fn wants_write(&self) -> bool {
        !self.out.is_empty() && self.is_connected() && !self.blocked && !self.output().is_empty()
    }

    /// The same for what is said before anything of a client.
    pub(crate) fn wants_to_greet(&self) -> bool {
        !self.blocked && self.greeting.as_ref().is_some_and(|greeting| !greeting.output().is_empty())
    }

    pub(crate) fn is_greeting(&self) -> bool {
        matches!(self.state, State::Greeting { .. })
    }

    pub(crate) fn output(&self) -> &[u8] {
        let out = self.out.as_slice();
        if self.renewing { &out[..self.begun_bytes()] } else { out }
    }

    /// Everything queued is being taken by the driver; calls `taken` for each request that leaves the queue, with how many
    /// left it before: as long was the queue when it entered.
    pub(crate) fn dequeue(&mut self, now: Instant, mut taken: impl FnMut(RequestKey, u64)) {
        let taken_now = if self.renewing { self.begun().max(self.dequeued) } else { self.parts.len() };
        let mut count = 0;
        for part in self.parts.range(self.dequeued..taken_now) {
            if let Some(request) = part.request() {
                taken(request, count);
            }
            count += u64::from(part.is_load());
        }
        self.queued.leave_many(count, now);
        self.in_flight.enter_many(count, now);
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
        self.blocked = count < self.output().len();
        self.out.advance(count);
        self.out_start += count as u64;
        while self.sent < self.parts.len() {
            let last = self.last_of_message(self.sent);
            if self.parts[last].end() > self.out_start {
                break;
            }
            for part in self.parts.range_mut(self.sent..=last) {
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
        self.failures = 0;
        Ok(self.take_head())
    }

    fn take_head(&mut self) -> Part {
        let part = self.parts.pop_front().expect("a reply was scanned for the head");
        self.replied += u64::from(part.is_load());
        self.sent = self.sent.saturating_sub(1);
        self.dequeued = self.dequeued.saturating_sub(1);
        self.unexpired = self.unexpired.saturating_sub(1);
        self.looked_at = self.looked_at.saturating_sub(1);
        part
    }

    /// All that came at `now` was taken: its requests are in flight no more.
    pub(crate) fn note_replied(&mut self, now: Instant) {
        self.in_flight.leave_many(std::mem::take(&mut self.replied), now);
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
            if index < self.dequeued {
                self.in_flight.leave(now);
            } else {
                self.queued.leave(now);
            }
            if let Some(request) = part.request() {
                lost(request, *part, own);
            }
        }
        (self.blocked, self.renewing, self.greeting) = (false, false, None);
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
