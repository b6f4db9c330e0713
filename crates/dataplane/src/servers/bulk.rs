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

use crate::{servers::Servers, servers::happened::Happened, wire::hash::hash};
use weir_timing::Instant;

/// Where a write goes.
pub(crate) enum Way {
    /// To the server's own connection.
    Own,
    /// To the other one, to be marked there with this.
    Bulk(usize, u32),
    /// Nowhere: its order could not be kept.
    Refused,
}

impl Servers {
    /// Whether a request, or a value, of so many bytes may be one that goes over a bulk connection.
    #[inline]
    pub(crate) fn may_go_bulk(&self, len: usize) -> bool {
        len >= self.config.large_value_bytes || self.is_bulk_busy
    }

    /// Whether a bulk connection owes an answer that counts, as of the beginning of the turn.
    pub(crate) const fn is_bulk_busy(&self) -> bool {
        self.is_bulk_busy
    }

    /// Whether this is a further connection to a server that has one.
    pub(crate) fn is_second(&self, slot: usize) -> bool {
        self.slots.beside(slot).is_some()
    }

    /// Whether a write of this key, with a value of this length, goes over the bulk connection of its server, or would if there were one.
    pub(crate) fn goes_bulk(&self, server: usize, name: &[u8], len: usize) -> bool {
        !matches!(self.way_of(server, name, len), Way::Own) || self.wants_bulk(server, len)
    }

    /// Whether a value of this length is to go apart from what its server is sent otherwise, if it can.
    fn wants_bulk(&self, server: usize, len: usize) -> bool {
        let own = &self[server];
        len >= self.config.large_value_bytes && own.link().is_up() && !own.pipeline().has_given_up()
    }

    /// Where a write of this key goes whose server has a connection apart already.
    fn way_of(&self, server: usize, name: &[u8], len: usize) -> Way {
        let Some(apart) = self.bulk_of(server) else { return Way::Own };
        let mark = mark(name);
        if self[apart].pipeline().has_part_marked(mark) {
            return if self[server].pipeline().has_given_up() {
                Way::Refused
            } else {
                Way::Bulk(apart, mark)
            };
        }
        let goes = self.wants_bulk(server, len) && self[apart].admit(&self.config).is_ok();
        if goes { Way::Bulk(apart, mark) } else { Way::Own }
    }

    /// Where a write goes: `server` is where it goes otherwise.
    #[cold]
    pub(crate) fn way_of_write(&mut self, server: usize, name: &[u8], len: usize, now: Instant) -> Way {
        if self.routes.is_replicated() {
            return Way::Own;
        }
        if self.bulk_of(server).is_none() && self.wants_bulk(server, len) {
            self.open_bulk(server, now);
        }
        self.way_of(server, name, len)
    }

    /// Where `flush_all` goes: behind everything that it must not be overtaken by.
    pub(crate) fn way_of_flush(&self, server: usize) -> usize {
        let busy = self.bulk_of(server).filter(|&apart| self[apart].may_undo());
        busy.unwrap_or(server)
    }

    /// The message that was composed last, for this bulk connection, is known by `mark`.
    pub(crate) fn note_bulk(&mut self, bulk: usize, mark: u32) {
        self[bulk].pipeline_mut().mark_last(mark);
        self.counters.requests_apart += 1;
        self.is_bulk_busy = true;
    }

    /// Once per turn.
    pub(crate) fn look_at_bulk(&mut self) {
        if self.is_bulk_busy {
            let mut apart = self.bulk.iter().flatten().map(|&slot| usize::from(slot));
            self.is_bulk_busy = apart.any(|slot| self[slot].may_undo());
        }
    }

    /// The slot of a server's second connection, if it has one.
    pub(crate) fn bulk_of(&self, server: usize) -> Option<usize> {
        self.bulk.get(server).copied().flatten().map(usize::from)
    }

    pub(crate) fn open_bulk(&mut self, server: usize, now: Instant) {
        let Some(slot) = self.open_beside(server, now) else { return };
        if self.bulk.len() <= server {
            self.bulk.resize(server + 1, None);
        }
        self.bulk[server] = u16::try_from(slot).ok();
        self.happened.push_back(Happened::Begun(slot));
        self.connect(slot, now);
    }

    /// Connects to every server of the table a second time that is up.
    pub(crate) fn open_all_bulk(&mut self, now: Instant) {
        for server in 0..self.slots.len() {
            let is_own = self.slots.beside(server).is_none() && self.slots.is_serving(server);
            if is_own && self[server].link().is_up() && self.bulk_of(server).is_none() {
                self.open_bulk(server, now);
            }
        }
    }

    /// Whether any bulk connection is being made for the first time.
    pub(crate) fn is_opening_bulk(&self) -> bool {
        self.bulk.iter().flatten().any(|&slot| self[usize::from(slot)].link().is_opening())
    }

    /// The connection over which a read that brings much is asked for: the bulk connection if it serves.
    pub(crate) fn way_of_read(&self, server: usize) -> usize {
        let serves = |slot: &usize| {
            let backend = &self[*slot];
            backend.link().is_up() && backend.admit(&self.config).is_ok()
        };
        let is_up = self[server].link().is_up();
        self.bulk_of(server).filter(|slot| is_up && serves(slot)).unwrap_or(server)
    }

    /// A slot is free: nothing is beside it, and it is beside nothing.
    pub(crate) fn forget_bulk(&mut self, slot: usize) {
        for (server, apart) in self.bulk.iter_mut().enumerate() {
            if server == slot || apart.map(usize::from) == Some(slot) {
                *apart = None;
            }
        }
    }
}

/// By what a key is known among the messages that went apart. Two keys that share it are kept in order without need, which is harmless.
fn mark(name: &[u8]) -> u32 {
    (hash(name) as u32).max(1)
}
