//! What a client sends becomes requests: bytes are cut into requests while the session may have more in service.

use crate::{
    Dataplane, Event, SessionId, budget::SCARCE_LOOK_NS, bulk_reads::Slicing, dataplane::may_take,
    dispatch::Large,
};
use std::mem;
use weir_protocol::{
    Parsed,
    door::{self, Opening},
};
use weir_timing::Instant;

impl Dataplane {
    pub(crate) fn consume_input(&mut self, id: SessionId, now: Instant) {
        let mut input = mem::take(&mut self.sessions[id].input);
        let taken = self.consume(id, &input, now);
        input.drain(..taken);
        let session = &mut self.sessions[id];
        if input.is_empty() && self.held.is_pressed() {
            input = Vec::new();
        }
        session.input = input;
    }

    /// Takes requests from the front of `bytes` while the session may have more in service; returns how many bytes were taken.
    pub(crate) fn consume(&mut self, id: SessionId, bytes: &[u8], now: Instant) -> usize {
        let mut at = 0;
        let mut first_byte = self.sessions[id].input_since;
        loop {
            let session = &mut self.sessions[id];
            if session.swallow > 0 {
                let swallowed = session.swallow.min(bytes.len() - at);
                session.swallow -= swallowed;
                at += swallowed;
                if session.swallow == 0 {
                    first_byte = now;
                }
            }
            if session.closing {
                return bytes.len();
            }
            if at == bytes.len() {
                break;
            }
            // Who has waited for a key was let in before.
            if !may_take(session, &self.config, &self.held) && session.stalled.is_none() {
                session.paused = true;
                self.counters.sessions_paused += 1;
                if session.blocked && self.held.is_pressed() {
                    self.counters.sessions_paused_memory += 1;
                    self.watch_clients(SCARCE_LOOK_NS, now);
                }
                break;
            }
            if session.is_new {
                match door::judge(&bytes[at..]) {
                    Opening::Undecided => break,
                    Opening::Text => session.is_new = false,
                    Opening::Foreign(foreign) => {
                        self.refuse_foreign(id, &foreign, first_byte, now);
                        return bytes.len();
                    }
                }
            }
            let mut parsed = session.parser.parse(&bytes[at..]);
            if let Parsed::Incomplete { needed } = parsed {
                if self.has_room(id, needed) {
                    break;
                }
                parsed = self.turn_away(id, &bytes[at..]);
            }
            if self.is_spread() && self.waits_for_earlier(id, &parsed) {
                self.sessions[id].paused = true;
                break;
            }
            if self.may_go_apart(length_of(&parsed)) && self.waits_to_go_apart(id, &parsed) {
                self.sessions[id].paused = true;
                break;
            }
            if self.concerns_bulk_reads(id, &parsed) && self.waits_for_bulk_reads(id, &parsed, now) {
                self.sessions[id].paused = true;
                break;
            }
            if !self.holds.is_empty() && self.waits_for_key(id, &parsed, now) {
                self.sessions[id].paused = true;
                break;
            }
            let session = &mut self.sessions[id];
            session.expected = 0;
            if let Parsed::TooLarge { swallow, .. } = parsed {
                session.begin_to_swallow(swallow);
            }
            at += self.take(id, parsed, first_byte, now);
            first_byte = now;
        }
        self.sessions[id].input_since = first_byte;
        at
    }

    /// Takes what was parsed into service, or refuses it; returns how many bytes it was.
    pub(crate) fn take(
        &mut self,
        id: SessionId,
        parsed: Parsed<'_>,
        first_byte: Instant,
        now: Instant,
    ) -> usize {
        match parsed {
            Parsed::Request { request, len } => {
                self.tracer.request_bytes = len as u64;
                self.dispatch(id, request, first_byte, now);
                len
            }
            Parsed::Refused { refusal, silent, len } => {
                self.tracer.request_bytes = len as u64;
                self.refuse(id, refusal, silent, first_byte, now);
                len
            }
            Parsed::TooLarge { refusal, key, base64, silent, erases, len, .. } => {
                self.tracer.request_bytes = len as u64;
                let large = Large { key, base64, silent, erases, refusal };
                self.refuse_large(id, large, first_byte, now);
                len
            }
            Parsed::Incomplete { .. } => 0,
            Parsed::Hangup { refusal } => {
                if let Some(refusal) = refusal {
                    self.refuse(id, refusal, false, first_byte, now);
                }
                self.hang_up(id);
                0
            }
        }
    }

    /// Takes nothing more from this client, and closes its connection when all replies are out.
    pub(crate) fn hang_up(&mut self, id: SessionId) {
        self.sessions[id].closing = true;
        self.close_if_settled(id);
    }

    pub(crate) fn resume(&mut self, id: SessionId, now: Instant) {
        let Some(session) = self.sessions.get_mut(id).filter(|session| session.paused && !session.gone)
        else {
            return;
        };
        if session.slicing != Slicing::No {
            return self.go_on_with_slices(id, now);
        }
        session.paused = false;
        session.habits.grow(self.config.session_requests_max);
        self.consume_input(id, now);
        let session = &mut self.sessions[id];
        if session.paused {
            return;
        }
        if session.finished {
            self.hang_up(id);
        } else if session.hosted.is_none() {
            self.events.push_back(Event::Resume(id));
        }
    }
}

fn length_of(parsed: &Parsed<'_>) -> usize {
    if let Parsed::Request { len, .. } = *parsed { len } else { 0 }
}
