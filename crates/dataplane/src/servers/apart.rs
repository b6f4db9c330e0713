//! Large values, on a connection of their own.
//!
//! A value that takes long to reach its server would make every message behind it wait, whoever sent it. So a server to which such
//! values are written gets a second connection, for them alone (its slot is one more number, `Slot::beside` names the server's
//! own). Two connections to one server keep no order between them, so three rules keep it:
//!
//! - A request goes apart when its session has nothing else in service, and the session sends nothing more until it is answered.
//! - While a key is being written apart, or a write of it was given up there and may still be carried out, every later write of that key
//!   goes apart as well, behind it. So does `flush_all` while anything is apart.
//! - Nothing goes apart that could overtake a write that was given up on the server's own connection: while that owes such an answer,
//!   large values stay on it. A write for which both rules hold is refused.
//!
//! Where keys have several replicas the one connection per server is what orders their writes, so there nothing goes apart.

use crate::{
    Dataplane, SessionId,
    replication::ownership::hash,
    requests::hosted::written_key,
    routes::{Slot, SlotState},
    servers::backend::{Backend, State},
};
use weir_protocol::{Meta, Parsed, Request, Storage};
use weir_timing::Instant;

/// Where a write goes.
pub(crate) enum Way {
    /// To the server's own connection.
    Own,
    /// To the other one, to be marked there with this.
    Apart(usize, u32),
    /// Nowhere: its order could not be kept.
    Refused,
}

impl Dataplane {
    /// Whether a request, or a value, of so many bytes may be one that goes apart.
    #[inline]
    pub(crate) fn may_go_apart(&self, len: usize) -> bool {
        len >= self.config.large_value_bytes || self.is_apart_busy
    }

    /// Whether a request must wait because it goes apart, and its session has something in service. It is tried again when something
    /// of that was answered.
    #[cold]
    pub(crate) fn waits_to_go_apart(&mut self, id: SessionId, parsed: &Parsed<'_>) -> bool {
        let session = &self.sessions[id];
        let waits = session.in_service > 0 && session.hosted.is_none() && self.goes_apart(parsed);
        self.counters.large_waits += u64::from(waits);
        waits
    }

    /// Whether this is a further connection to a server that has one: for tests.
    pub fn is_second(&self, slot: usize) -> bool {
        self.slots[slot].beside.is_some()
    }

    fn goes_apart(&self, parsed: &Parsed<'_>) -> bool {
        if let Parsed::Request { request: Request::FlushAll { .. }, .. } = parsed {
            return self.is_apart_busy;
        }
        let len = if let Parsed::Request { request, .. } = parsed { value_len(request) } else { 0 };
        if self.router.is_replicated() || !self.may_go_apart(len) {
            return false;
        }
        written_key(parsed).is_some_and(|name| {
            let server = self.router.primary(&name);
            !matches!(self.way_of(server, &name, len), Way::Own) || self.wants_apart(server, len)
        })
    }

    /// Whether a value of this length is to go apart from what its server is sent otherwise, if it can.
    fn wants_apart(&self, server: usize, len: usize) -> bool {
        let own = &self.backends[server];
        len >= self.config.large_value_bytes && own.state == State::Up && !own.has_given_up()
    }

    /// Where a write of this key goes whose server has a connection apart already.
    fn way_of(&self, server: usize, name: &[u8], len: usize) -> Way {
        let Some(apart) = self.apart_from(server) else { return Way::Own };
        let mark = mark(name);
        if self.backends[apart].has_part_marked(mark) {
            return if self.backends[server].has_given_up() { Way::Refused } else { Way::Apart(apart, mark) };
        }
        let goes = self.wants_apart(server, len) && self.backends[apart].admit(&self.config).is_ok();
        if goes { Way::Apart(apart, mark) } else { Way::Own }
    }

    /// Where a write goes: `server` is where it goes otherwise.
    #[cold]
    pub(crate) fn way_of_write(&mut self, server: usize, name: &[u8], len: usize, now: Instant) -> Way {
        if self.router.is_replicated() {
            return Way::Own;
        }
        if self.apart_from(server).is_none() && self.wants_apart(server, len) {
            self.open_apart(server, now);
        }
        self.way_of(server, name, len)
    }

    /// Where `flush_all` goes: behind everything that it must not be overtaken by.
    pub(crate) fn way_of_flush(&self, server: usize) -> usize {
        let busy = self.apart_from(server).filter(|&apart| self.backends[apart].may_undo());
        busy.unwrap_or(server)
    }

    /// A request went apart: its session waits for it.
    pub(crate) fn note_apart(&mut self, request: usize, apart: usize, mark: u32) {
        let service = &mut self.services[request];
        if service.outstanding == 0 {
            return;
        }
        service.apart = true;
        self.sessions[service.session].apart += 1;
        self.backends[apart].mark_last(mark);
        self.counters.requests_apart += 1;
        self.is_apart_busy = true;
    }

    /// Once per turn.
    pub(crate) fn look_apart(&mut self) {
        if self.is_apart_busy {
            let mut apart = self.apart.iter().flatten().map(|&slot| usize::from(slot));
            self.is_apart_busy = apart.any(|slot| self.backends[slot].may_undo());
        }
    }

    /// The slot of a server's second connection, if it has one.
    pub(crate) fn apart_from(&self, server: usize) -> Option<usize> {
        self.apart.get(server).copied().flatten().map(usize::from)
    }

    pub(crate) fn open_apart(&mut self, server: usize, now: Instant) {
        let Some(slot) = self.free_slot(Slot {
            server: self.slots[server].server.clone(),
            name: self.slots[server].name.clone(),
            state: SlotState::Serving,
            beside: Some(server),
        }) else {
            return;
        };
        self.backends[slot] = Backend::new(server, now);
        if self.apart.len() <= server {
            self.apart.resize(server + 1, None);
        }
        self.apart[server] = u16::try_from(slot).ok();
        self.recorder.begin_server(slot);
        self.connect(slot, now);
    }

    /// A slot is free: nothing is beside it, and it is beside nothing.
    pub(crate) fn forget_apart(&mut self, slot: usize) {
        for (server, apart) in self.apart.iter_mut().enumerate() {
            if server == slot || apart.map(usize::from) == Some(slot) {
                *apart = None;
            }
        }
    }
}

/// How long the value is that a request stores.
pub(crate) fn value_len(request: &Request<'_>) -> usize {
    match request {
        Request::Storage(Storage { value, .. }) => value.len(),
        Request::Meta(Meta { block, .. }) => block.len(),
        _ => 0,
    }
}

/// By what a key is known among the messages that went apart. Two keys that share it are kept in order without need, which is harmless.
fn mark(name: &[u8]) -> u32 {
    (hash(name) as u32).max(1)
}
