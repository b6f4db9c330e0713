//! One client as the network thread sees it: its bytes are cut into requests.

use super::{client::Client, request::Request};
use std::sync::Arc;
use weir_protocol::{Limits, Parsed, RequestParser, binary};
use weir_timing::Instant;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
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
    pub(crate) paused: bool,
    /// The client will send no more.
    pub(crate) finished: bool,
    /// Nothing more is taken; the connection ends when all replies are out.
    pub(crate) closing: bool,
    /// The connection is gone; the session stays until its requests are done, so that its number is not used again before.
    pub(crate) gone: bool,
    /// Requests that are answered by ending the connection, and by nothing else.
    pub(crate) quits: u64,
}

impl Session {
    pub(crate) fn new(client: Arc<Client>, limits: Limits, now: Instant) -> Self {
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
            quits: 0,
        }
    }

    pub(crate) fn wants_read(&self) -> bool {
        !self.paused && !self.closing && !self.gone
    }

    pub(crate) fn set_value_bytes_max(&mut self, bytes: usize) {
        self.parser.set_value_bytes_max(bytes);
    }

    /// Bytes were read. Calls `offer` with each complete request; it returns whether no more should be offered now.
    pub(crate) fn handle_bytes(&mut self, bytes: &[u8], now: Instant, offer: impl FnMut(Request) -> bool) {
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
    pub(crate) fn consume_input(&mut self, now: Instant, offer: impl FnMut(Request) -> bool) {
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
            if let Some(request) = Request::new(&parsed, rest, self.input_since, now) {
                self.paused = offer(request);
            }
            self.input_since = now;
        }
        at
    }
}
