//! What one connection sends becomes requests: the same whoever serves them.
//!
//! ```text
//!   read ─▶ Input ─▶ skip ─▶ look ─▶ Parsed ─┬─ take ─▶ it is served, or answered in its place
//!             ▲                   ▲          │     │
//!             │                   └──────────┼─────┘
//!             │                              └─ it must wait: pause
//!             └── reread when it goes on ◀── keep: what is left when nothing more may be taken
//! ```
//!
//! Owns: the parser, the bytes that wait, when the first of them came, what is still to be thrown away of a value that is too large, and
//! whether the connection's first bytes were judged. Owns, too, what is taken behind these: requests, or first of all a login. Nothing else
//! knows how any of them is kept.
//!
//! Asked: what the front of the bytes is, whether more should be read, how long a request has been arriving.
//!
//! Answers: one [`Parsed`] at a time, which stays at the front until it is taken. A client that speaks another protocol and a request for
//! which there is no memory are answers like others.
//!
//! It knows nobody who uses it. Whether a request may be taken now, and what becomes of it, is theirs to say.

use crate::memory::buffer::give_back;
use std::{cell::Cell, mem};
use weir_protocol::{
    Limits, Parsed, Refusal, RequestParser,
    door::{self, Opening},
    parse_login,
};
use weir_timing::Instant;

/// The bytes of one connection, on their way to become requests.
#[derive(Debug)]
pub struct Intake {
    parser: RequestParser,
    /// The beginning of a request that is not complete, or requests that wait while nothing is taken.
    buffer: Vec<u8>,
    /// When the first byte of `buffer` was read; when the last request was taken if nothing waits.
    since: Instant,
    /// How long the request that is arriving will be, as far as there is room for that.
    expected: usize,
    state: State,
    takes: Takes,
    /// Nothing is read or taken while this is set.
    is_paused: bool,
    /// The client said that it will send no more.
    has_ended_input: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing was taken yet: the first bytes are still to be judged.
    New,
    /// Requests are taken, whatever they are.
    Open,
    /// So is what [`Takes`] says.
    Watched,
    /// A value is thrown away: how many bytes of it have come, and how many there are.
    Swallows { arrived: usize, all: usize },
    /// Nothing more is taken.
    Closed,
}

/// What is taken of a client that speaks the text protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Takes {
    /// Requests.
    #[default]
    All,
    /// Requests, of which each is judged before.
    Judged,
    /// A login.
    Login,
}

/// Bytes in hand: those that were kept and those that were read just now. To be given to [`Intake::keep`] in the end.
#[derive(Debug)]
#[must_use = "what is not taken of it must be kept"]
pub struct Input<'a> {
    kept: Vec<u8>,
    /// Used where nothing was kept.
    read: &'a [u8],
}

/// What was not taken yet of an [`Input`].
#[derive(Debug)]
pub struct Rest<'i>(Cell<&'i [u8]>);

impl Input<'_> {
    /// All of it.
    #[inline]
    pub fn rest(&self) -> Rest<'_> {
        Rest(Cell::new(if self.kept.is_empty() { self.read } else { &self.kept }))
    }
}

impl<'i> Rest<'i> {
    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &'i [u8] {
        self.0.get()
    }

    #[inline]
    fn advance(&self, count: usize) {
        self.0.set(&self.bytes()[count..]);
    }
}

impl Intake {
    /// Of a connection from which nothing was read.
    pub const fn new(limits: Limits, now: Instant) -> Self {
        Self {
            parser: RequestParser::new(limits),
            buffer: Vec::new(),
            since: now,
            expected: 0,
            state: State::New,
            takes: Takes::All,
            is_paused: false,
            has_ended_input: false,
        }
    }

    /// Sets the longest value that is taken, from the next request on.
    pub const fn set_value_bytes_max(&mut self, bytes: usize) {
        self.parser.set_value_bytes_max(bytes);
    }

    /// From now on this is taken.
    pub fn set_takes(&mut self, takes: Takes) {
        self.takes = takes;
        if matches!(self.state, State::Open | State::Watched) {
            self.state = self.opened();
        }
    }

    /// What is taken.
    pub const fn takes(&self) -> Takes {
        self.takes
    }

    /// The state in which that is taken.
    const fn opened(&self) -> State {
        match self.takes {
            Takes::All => State::Open,
            Takes::Judged | Takes::Login => State::Watched,
        }
    }

    // ── bytes ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Bytes were read; `now` is when that read returned.
    #[inline]
    pub fn read<'a>(&mut self, bytes: &'a [u8], now: Instant) -> Input<'a> {
        if self.buffer.is_empty() {
            if !self.swallows() {
                self.since = now;
            }
            return Input { kept: Vec::new(), read: bytes };
        }
        self.append(bytes);
        self.reread()
    }

    /// Looks again at what was kept.
    pub fn reread<'a>(&mut self) -> Input<'a> {
        Input { kept: mem::take(&mut self.buffer), read: &[] }
    }

    /// Keeps the last `left` bytes, which were not taken. Returns whether that is nothing, and something was kept before: its memory may be given back.
    #[inline]
    pub fn keep(&mut self, input: Input<'_>, left: usize) -> bool {
        let Input { mut kept, read } = input;
        if kept.capacity() > 0 {
            kept.drain(..kept.len() - left);
            self.buffer = kept;
            return left == 0;
        }
        if left > 0 {
            self.append(&read[read.len() - left..]);
        }
        false
    }

    /// The rest of a request that is not complete will find its place without moving what is there again and again.
    fn append(&mut self, bytes: &[u8]) {
        if self.expected > self.buffer.capacity() {
            self.buffer.reserve_exact(self.expected - self.buffer.len());
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The connection is gone: forgets what waits.
    pub fn forget(&mut self) {
        self.buffer = Vec::new();
    }

    /// Frees the memory of an empty buffer, unless it is small.
    pub fn give_memory_back(&mut self) {
        give_back(&mut self.buffer);
    }

    /// Frees the memory of an empty buffer, however small.
    pub fn give_all_memory_back(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = Vec::new();
        }
    }

    /// How much memory the bytes that wait take, in bytes.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    // ── requests ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Throws away what is to be thrown away; whether something is left to be looked at.
    #[inline]
    pub fn skip(&mut self, rest: &Rest<'_>, now: Instant) -> bool {
        if !matches!(self.state, State::Open) {
            self.skip_some(rest, now);
        }
        !rest.bytes().is_empty()
    }

    #[cold]
    fn skip_some(&mut self, rest: &Rest<'_>, now: Instant) {
        match &mut self.state {
            State::Swallows { arrived, all } => {
                let count = rest.bytes().len().min(*all - *arrived);
                rest.advance(count);
                *arrived += count;
                if arrived == all {
                    self.state = self.opened();
                    self.since = now;
                }
            }
            State::Closed => rest.0.set(&[]),
            State::New | State::Open | State::Watched => {}
        }
    }

    /// What the front of the bytes is. [`Parsed::Incomplete`]: nothing can be said before more bytes have come. A long request is taken
    /// only if there is memory for it, which `admits` says; it is asked with how much will be held.
    #[inline]
    pub fn look<'i>(&mut self, rest: &Rest<'i>, admits: impl FnOnce(usize) -> bool) -> Parsed<'i> {
        self.look_and_judge(rest, admits, |parsed| parsed)
    }

    /// The same where requests may have to be judged before they are taken ([`Takes::Judged`]): what `judge` makes of one is what is found.
    #[inline]
    pub fn look_and_judge<'i>(
        &mut self,
        rest: &Rest<'i>,
        admits: impl FnOnce(usize) -> bool,
        judge: impl FnOnce(Parsed<'i>) -> Parsed<'i>,
    ) -> Parsed<'i> {
        if matches!(self.state, State::Open) {
            return self.parse(rest.bytes(), admits);
        }
        self.look_closely(rest.bytes(), admits, judge)
    }

    /// A call of its own, so that those of whom nothing is asked do not pay for it.
    #[cold]
    #[inline(never)]
    fn look_closely<'i>(
        &mut self,
        bytes: &'i [u8],
        admits: impl FnOnce(usize) -> bool,
        judge: impl FnOnce(Parsed<'i>) -> Parsed<'i>,
    ) -> Parsed<'i> {
        if let Some(parsed) = self.look_first(bytes) {
            return parsed;
        }
        match self.parse(bytes, admits) {
            incomplete @ Parsed::Incomplete { .. } => incomplete,
            parsed if self.takes == Takes::Judged => judge(parsed),
            parsed => parsed,
        }
    }

    /// What there is to say before requests are parsed. `None`: nothing, they are.
    fn look_first<'i>(&mut self, bytes: &'i [u8]) -> Option<Parsed<'i>> {
        if matches!(self.state, State::New) {
            match door::judge(bytes) {
                Opening::Undecided => return Some(Parsed::Incomplete { needed: bytes.len() + 1 }),
                Opening::Text => self.state = self.opened(),
                Opening::Foreign(foreign) => return Some(Parsed::Foreign { foreign }),
            }
        }
        (self.takes == Takes::Login).then(|| parse_login(bytes))
    }

    #[inline(always)]
    fn parse<'i>(&mut self, bytes: &'i [u8], admits: impl FnOnce(usize) -> bool) -> Parsed<'i> {
        let parsed = self.parser.parse(bytes);
        if let Parsed::Incomplete { needed } = parsed
            && !self.has_room(needed, admits)
        {
            return self.turn_away(bytes);
        }
        parsed
    }

    /// More of a request is to come than has arrived, `needed` bytes in all: whether there is room for them.
    fn has_room(&mut self, needed: usize, admits: impl FnOnce(usize) -> bool) -> bool {
        if needed > ROOM_CHECKED_MIN && needed > self.expected {
            // It lies here, and then also among what waits for its server.
            if !admits(2 * needed) {
                return false;
            }
            self.expected = needed;
        }
        true
    }

    /// What becomes of a request that begins with `bytes` and for which there is no memory. What is still to come of a value is thrown
    /// away. A line without end cannot be answered in its place and ends the connection.
    #[cold]
    fn turn_away<'i>(&mut self, bytes: &'i [u8]) -> Parsed<'i> {
        let limits = self.parser.limits();
        self.parser = RequestParser::new(limits);
        let refusal = Refusal::OutOfMemory;
        match RequestParser::new(Limits { value_bytes_max: 0, ..limits }).parse(bytes) {
            Parsed::TooLarge { key, base64, silent, erases, len, swallow, .. } => {
                Parsed::TooLarge { refusal, key, base64, silent, erases, len, swallow }
            }
            _ => Parsed::Hangup { refusal: Some(refusal) },
        }
    }

    /// What [`Intake::look`] found is taken from the front. Returns when its first byte was read.
    #[inline]
    pub fn take(&mut self, rest: &Rest<'_>, parsed: &Parsed<'_>, now: Instant) -> Instant {
        self.expected = 0;
        match *parsed {
            Parsed::Request { len, .. } | Parsed::Refused { len, .. } | Parsed::Login { len, .. } => {
                rest.advance(len);
            }
            Parsed::TooLarge { len, swallow, .. } => {
                rest.advance(len);
                if swallow > 0 {
                    self.state = State::Swallows { arrived: 0, all: swallow };
                }
            }
            Parsed::Hangup { .. } | Parsed::Foreign { .. } => self.close(),
            Parsed::Incomplete { .. } => {}
        }
        mem::replace(&mut self.since, now)
    }

    // ── what may come ──────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Nothing is read or taken for now.
    #[inline]
    pub const fn pause(&mut self) {
        self.is_paused = true;
    }

    /// Goes on. What was kept is to be looked at again.
    pub const fn resume(&mut self) {
        self.is_paused = false;
    }

    /// Whether it was asked to pause.
    #[inline]
    pub const fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Takes nothing more: hangs up.
    pub const fn close(&mut self) {
        self.state = State::Closed;
    }

    /// Whether nothing more is taken.
    #[inline]
    pub const fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    const fn swallows(&self) -> bool {
        matches!(self.state, State::Swallows { .. })
    }

    /// The client will send no more. Complete requests may wait because of a pause; they are still taken.
    pub const fn end_input(&mut self) {
        self.has_ended_input = true;
        if !self.is_paused {
            self.close();
        }
    }

    /// Whether the client said that it will send no more.
    pub const fn has_ended_input(&self) -> bool {
        self.has_ended_input
    }

    /// Whether more should be read.
    #[inline]
    pub const fn wants_read(&self) -> bool {
        !self.is_paused && !self.is_closed()
    }

    // ── time ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// When the first byte of what is arriving was read.
    #[inline]
    pub const fn since(&self) -> Instant {
        self.since
    }

    /// Whether a request has begun to arrive and is not complete.
    #[inline]
    pub const fn is_within_request(&self) -> bool {
        !self.buffer.is_empty() || self.swallows()
    }

    /// Since when a request has been arriving, and how many bytes of it are there. While nothing is read it is not the client that takes
    /// long.
    pub fn arriving(&self) -> Option<(Instant, usize)> {
        let arrived = match self.state {
            State::Swallows { arrived, .. } => arrived,
            _ => self.buffer.len(),
        };
        (self.is_within_request() && self.wants_read()).then_some((self.since, arrived))
    }

    /// Since when nothing has come, if the last request is complete.
    pub fn idle_since(&self) -> Option<Instant> {
        (!self.is_within_request()).then_some(self.since)
    }
}

/// Requests that are no longer than this, headers included, are taken whatever is held: a client that is within its rights gets its
/// answer. There are as many at once as there may be sessions.
const ROOM_CHECKED_MIN: usize = 64 << 10;

#[cfg(test)]
mod tests;
