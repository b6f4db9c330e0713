//! One client as the network thread sees it: its bytes are cut into requests.

use super::{client::Client, request::Request};
use std::sync::Arc;
use weir_dataplane::Arrivals;
use weir_protocol::{Limits, Parsed, RequestParser, binary};
use weir_timing::Instant;

#[derive(Debug)]
pub(super) struct Session {
    pub(super) client: Arc<Client>,
    parser: RequestParser,
    /// The beginning of a request that is not complete, or requests that wait while the session is paused.
    input: Vec<u8>,
    /// When the first byte of `input` was read.
    input_since: Instant,
    /// Nothing was taken from it yet.
    is_new: bool,
    /// How many bytes of a refused value are still to be thrown away.
    swallow: usize,
    /// Too much waits: nothing is read.
    pub(super) paused: bool,
    /// The client will send no more.
    pub(super) finished: bool,
    /// Nothing more is taken; the connection ends when all replies are out.
    pub(super) closing: bool,
    /// The connection is gone; the session stays until its requests are done, so that its number is not used again before.
    pub(super) gone: bool,
    /// How many sessions had been accepted with it.
    pub(super) number: u64,
    /// When the kernel received what was read, if that is asked for.
    arrivals: Arrivals,
    /// Requests that are answered by ending the connection, and by nothing else.
    pub(super) quits: u64,
}

impl Session {
    pub(super) fn new(client: Arc<Client>, limits: Limits, now: Instant) -> Self {
        Self {
            client,
            parser: RequestParser::new(limits),
            input: Vec::new(),
            input_since: now,
            is_new: true,
            swallow: 0,
            paused: false,
            finished: false,
            closing: false,
            gone: false,
            number: 0,
            arrivals: Arrivals::default(),
            quits: 0,
        }
    }

    pub(super) fn wants_read(&self) -> bool {
        !self.paused && !self.closing && !self.gone
    }

    pub(super) fn set_value_bytes_max(&mut self, bytes: usize) {
        self.parser.set_value_bytes_max(bytes);
    }

    /// The bytes that are about to be handed in with the same `now` were received by the kernel at `arrived`.
    pub(super) fn note_arrival(&mut self, now: Instant, arrived: Option<Instant>) {
        self.arrivals.note(self.input_since, now, arrived);
    }

    /// Bytes were read. Calls `offer` with each complete request; it returns whether no more should be offered now.
    pub(super) fn handle_bytes(&mut self, bytes: &[u8], now: Instant, offer: impl FnMut(Request) -> bool) {
        if self.input.is_empty() {
            self.input_since = now;
            let taken = self.consume(bytes, now, offer);
            self.input.extend_from_slice(&bytes[taken..]);
        } else {
            self.input.extend_from_slice(bytes);
            self.consume_input(now, offer);
        }
    }

    /// Takes what may be taken of the bytes that were kept.
    pub(super) fn consume_input(&mut self, now: Instant, offer: impl FnMut(Request) -> bool) {
        let mut input = std::mem::take(&mut self.input);
        let taken = self.consume(&input, now, offer);
        input.drain(..taken);
        if !input.is_empty() {
            self.input = input;
        }
    }

    fn consume(&mut self, bytes: &[u8], now: Instant, mut offer: impl FnMut(Request) -> bool) -> usize {
        let mut at = 0;
        while !self.paused {
            let swallowed = self.swallow.min(bytes.len() - at);
            self.swallow -= swallowed;
            at += swallowed;
            if self.closing {
                return bytes.len();
            }
            if at == bytes.len() {
                break;
            }
            let rest = &bytes[at..];
            if self.is_new && rest[0] == binary::MAGIC {
                let Some(header) = rest.first_chunk() else { break };
                offer(Request::binary(*header, self.input_since, now));
                self.closing = true;
                return bytes.len();
            }
            self.is_new = false;
            let parsed = self.parser.parse(rest);
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
}
