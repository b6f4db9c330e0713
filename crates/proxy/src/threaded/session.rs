//! One client as the network thread sees it: its bytes are cut into requests.

use super::{client::Client, request::Request};
use std::sync::Arc;
use weir_dataplane::{Arrivals, Budget, Charge, Doing, ROOM_CHECKED_MIN, without_room};
use weir_protocol::{
    Limits, Parsed, RequestParser,
    door::{self, Opening},
};
use weir_timing::Instant;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    parser: RequestParser,
    limits: Limits,
    /// The beginning of a request that is not complete, or requests that wait while the session is paused.
    input: Vec<u8>,
    /// When the first byte of `input` was read.
    input_since: Instant,
    /// Nothing was taken from it yet.
    is_new: bool,
    /// How many bytes of a refused value are still to be thrown away, and how many there were.
    swallow: usize,
    swallow_from: usize,
    /// How long the request that is arriving will be, as far as there is room for that.
    expected: usize,
    /// What `input` counts against the limit on all buffers.
    charge: Charge,
    /// Requests that there was no room for.
    pub(crate) turned_away: u64,
    /// Too much waits: nothing is read.
    pub(crate) paused: bool,
    /// The client will send no more.
    pub(crate) finished: bool,
    /// Nothing more is taken; the connection ends when all replies are out.
    pub(crate) closing: bool,
    /// The connection is gone; the session stays until its requests are done, so that its number is not used again before.
    pub(crate) gone: bool,
    /// How many sessions had been accepted with it.
    pub(crate) number: u64,
    /// When the kernel received what was read, if that is asked for.
    arrivals: Arrivals,
    /// Requests that are answered by ending the connection, and by nothing else.
    pub(crate) quits: u64,
}

impl Session {
    pub(crate) fn new(client: Arc<Client>, limits: Limits, budget: &Arc<Budget>, now: Instant) -> Self {
        Self {
            client,
            parser: RequestParser::new(limits),
            limits,
            input: Vec::new(),
            input_since: now,
            is_new: true,
            swallow: 0,
            swallow_from: 0,
            expected: 0,
            charge: budget.charge(0),
            turned_away: 0,
            paused: false,
            finished: false,
            closing: false,
            gone: false,
            number: 0,
            arrivals: Arrivals::default(),
            quits: 0,
        }
    }

    pub(crate) fn wants_read(&self) -> bool {
        !self.paused && !self.closing && !self.gone
    }

    pub(crate) fn set_value_bytes_max(&mut self, bytes: usize) {
        self.limits.value_bytes_max = bytes;
        self.parser.set_value_bytes_max(bytes);
    }

    /// The bytes that are about to be handed in with the same `now` were received by the kernel at `arrived`.
    pub(crate) fn note_arrival(&mut self, now: Instant, arrived: Option<Instant>) {
        self.arrivals.note(self.input_since, now, arrived);
    }

    /// Bytes were read. Calls `offer` with each complete request; it returns whether no more should be offered now.
    pub(crate) fn handle_bytes(&mut self, bytes: &[u8], now: Instant, offer: impl FnMut(Request) -> bool) {
        if self.input.is_empty() {
            if self.swallow == 0 {
                self.input_since = now;
            }
            let taken = self.consume(bytes, now, offer);
            self.keep(&bytes[taken..]);
        } else {
            self.keep(bytes);
            self.consume_input(now, offer);
        }
        self.recharge();
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.expected > self.input.capacity() {
            self.input.reserve_exact(self.expected - self.input.len());
        }
        self.input.extend_from_slice(bytes);
    }

    fn recharge(&mut self) {
        let bytes = if self.input.capacity() > CHARGED_BYTES_MIN { self.input.capacity() } else { 0 };
        if bytes != self.charge.bytes() {
            self.charge.set(bytes);
        }
    }

    /// What the client is doing, as far as it may take too long. `None`: nothing of it can be overdue.
    pub(crate) fn doing(&self) -> Option<Doing> {
        if self.gone {
            return None;
        }
        let arrived = if self.swallow > 0 { self.swallow_from - self.swallow } else { self.input.len() };
        // While we do not read it, it is not the client that takes long.
        let is_arriving = !self.paused && !self.closing && (arrived > 0 || self.swallow > 0);
        let (is_free, unread_since) = self.client.owed();
        let is_idle = is_free && self.input.is_empty() && self.swallow == 0;
        Some(Doing {
            idle_since: is_idle.then_some(self.input_since),
            request: is_arriving.then_some((self.input_since, arrived)),
            unread_since,
        })
    }

    /// Whether a request has begun to arrive and is not complete.
    pub(crate) fn is_within_request(&self) -> bool {
        !self.input.is_empty() || self.swallow > 0
    }

    /// Takes what may be taken of the bytes that were kept.
    pub(crate) fn consume_input(&mut self, now: Instant, offer: impl FnMut(Request) -> bool) {
        let mut input = std::mem::take(&mut self.input);
        let taken = self.consume(&input, now, offer);
        input.drain(..taken);
        if !input.is_empty() {
            self.input = input;
        }
        self.recharge();
    }

    fn consume(&mut self, bytes: &[u8], now: Instant, mut offer: impl FnMut(Request) -> bool) -> usize {
        let mut at = 0;
        while !self.paused {
            let swallowed = self.swallow.min(bytes.len() - at);
            self.swallow -= swallowed;
            at += swallowed;
            if swallowed > 0 && self.swallow == 0 {
                self.input_since = now;
            }
            if self.closing {
                return bytes.len();
            }
            if at == bytes.len() {
                break;
            }
            let rest = &bytes[at..];
            if self.is_new {
                match door::judge(rest) {
                    Opening::Undecided => break,
                    Opening::Text => self.is_new = false,
                    Opening::Foreign(foreign) => {
                        offer(Request::foreign(foreign, self.input_since, now));
                        self.closing = true;
                        return bytes.len();
                    }
                }
            }
            let parsed = match self.parser.parse(rest) {
                Parsed::Incomplete { needed } if self.has_room(needed) => break,
                Parsed::Incomplete { .. } => {
                    self.turned_away += 1;
                    self.parser = RequestParser::new(self.limits);
                    without_room(rest, self.limits)
                }
                parsed => parsed,
            };
            self.expected = 0;
            match parsed {
                Parsed::Incomplete { .. } => break,
                Parsed::Request { request: weir_protocol::Request::Quit, .. } => {
                    self.quits += 1;
                    self.closing = true;
                    continue;
                }
                Parsed::Request { len, .. } | Parsed::Refused { len, .. } => at += len,
                Parsed::TooLarge { len, swallow, .. } => {
                    at += len;
                    self.swallow = swallow;
                    self.swallow_from = swallow;
                }
                Parsed::Hangup { .. } => self.closing = true,
            }
            if let Some(mut request) = Request::new(&parsed, rest, self.input_since, now) {
                request.taken.client = self.number;
                request.taken.arrived = self.arrivals.of(self.input_since);
                self.paused = offer(request);
            }
            self.input_since = now;
        }
        at
    }

    /// Whether there is room for a request of so many bytes, of which some have arrived.
    fn has_room(&mut self, needed: usize) -> bool {
        if needed > ROOM_CHECKED_MIN && needed > self.expected {
            // It lies here, and then also among what waits for its server.
            if !self.charge.budget().admits(2 * needed) {
                return false;
            }
            self.expected = needed;
        }
        true
    }
}

/// Shorter beginnings of requests are not counted: they are no larger than what an idle session may cost.
const CHARGED_BYTES_MIN: usize = 4 << 10;
