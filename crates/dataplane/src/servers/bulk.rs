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
//!
//! [`Bulk`] owns which server has such a connection, and whether any of those owes a reply. It is asked where a message goes, and looks at
//! the connections for that; it makes none.

use crate::{config::Config, servers::backend::Backend, servers::connections::Connections, wire::hash::hash};

/// Where a write goes.
pub(crate) enum Way {
    /// To the server's own connection.
    Own,
    /// To the other one, to be marked there with this.
    Bulk(usize, u32),
    /// Nowhere: its order could not be kept.
    Refused,
}

/// The bulk connections of a dataplane.
#[derive(Debug, Default)]
pub(super) struct Bulk {
    /// For each slot the one of its server's bulk connection, if it has one.
    by_server: Vec<Option<u16>>,
    /// Whether any of those owes a reply that counts, as of the beginning of the turn.
    is_busy: bool,
}

impl Bulk {
    /// The slot of a server's bulk connection, if it has one.
    #[inline]
    pub(super) fn of(&self, server: usize) -> Option<usize> {
        self.by_server.get(server).copied().flatten().map(usize::from)
    }

    /// Whether a bulk connection owes an answer that counts, as of the beginning of the turn.
    #[inline]
    pub(super) const fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// Whether any is being made for the first time.
    pub(super) fn is_opening(&self, connections: &Connections) -> bool {
        self.slots().any(|slot| connections[slot].link().is_opening())
    }

    fn slots(&self) -> impl Iterator<Item = usize> {
        self.by_server.iter().flatten().map(|&slot| usize::from(slot))
    }

    // ── told ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The server has its bulk connection in this slot.
    pub(super) fn note_opened(&mut self, server: usize, slot: usize) {
        if self.by_server.len() <= server {
            self.by_server.resize(server + 1, None);
        }
        self.by_server[server] = u16::try_from(slot).ok();
    }

    /// A message was sent on one.
    pub(super) const fn note_sent(&mut self) {
        self.is_busy = true;
    }

    /// Once per turn.
    #[inline]
    pub(super) fn look(&mut self, connections: &Connections) {
        if self.is_busy {
            let is_any_owing = self.slots().any(|slot| connections[slot].may_undo());
            self.is_busy = is_any_owing;
        }
    }

    /// A slot is free: nothing is beside it, and it is beside nothing.
    pub(super) fn forget(&mut self, slot: usize) {
        for (server, apart) in self.by_server.iter_mut().enumerate() {
            if server == slot || apart.map(usize::from) == Some(slot) {
                *apart = None;
            }
        }
    }

    // ── ways ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Where a write of this key goes, with a value of this length; to the server's own connection, if it has no other.
    pub(super) fn way_of_write(
        &self,
        (server, name, len): (usize, &[u8], usize),
        connections: &Connections,
        config: &Config,
    ) -> Way {
        let Some(apart) = self.of(server) else { return Way::Own };
        let mark = mark(name);
        if connections[apart].pipeline().has_part_marked(mark) {
            let is_refused = connections[server].pipeline().has_given_up();
            return if is_refused { Way::Refused } else { Way::Bulk(apart, mark) };
        }
        let goes = wants_bulk(&connections[server], len, config) && connections[apart].admit(config).is_ok();
        if goes { Way::Bulk(apart, mark) } else { Way::Own }
    }

    /// Where `flush_all` goes: behind everything that it must not be overtaken by.
    pub(super) fn way_of_flush(&self, server: usize, connections: &Connections) -> usize {
        self.of(server).filter(|&apart| connections[apart].may_undo()).unwrap_or(server)
    }

    /// The connection over which a read that brings much is asked for: the bulk connection if it serves.
    pub(super) fn way_of_read(&self, server: usize, connections: &Connections, config: &Config) -> usize {
        let serves =
            |slot: usize| connections[slot].link().is_up() && connections[slot].admit(config).is_ok();
        let is_up = connections[server].link().is_up();
        self.of(server).filter(|&slot| is_up && serves(slot)).unwrap_or(server)
    }
}

/// Whether a value of this length is to go apart from what its server is sent otherwise, if it can.
pub(super) fn wants_bulk(own: &Backend, len: usize, config: &Config) -> bool {
    len >= config.large_value_bytes && own.link().is_up() && !own.pipeline().has_given_up()
}

/// By what a key is known among the messages that went apart. Two keys that share it are kept in order without need, which is harmless.
fn mark(name: &[u8]) -> u32 {
    (hash(name) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_timing::Instant;

    const LARGE: usize = 1 << 20;

    /// A server in slot 0 and its bulk connection in slot 1, both up.
    fn two() -> (Bulk, Connections, Config) {
        let (mut bulk, mut connections) = (Bulk::default(), Connections::default());
        for slot in 0..2 {
            connections.put(slot, Backend::new(0, Instant::ZERO));
            connections[slot].link_mut().begin(Instant::ZERO);
            connections[slot].link_mut().open(Instant::ZERO);
        }
        bulk.note_opened(0, 1);
        (bulk, connections, Config { large_value_bytes: LARGE, ..Config::default() })
    }

    #[test]
    fn large_values_go_apart_where_both_connections_are_up() {
        let (mut bulk, mut connections, config) = two();
        let way = |bulk: &Bulk, connections: &Connections, len| {
            bulk.way_of_write((0, b"key", len), connections, &config)
        };
        assert!(matches!(way(&bulk, &connections, LARGE), Way::Bulk(1, _)));
        assert!(matches!(way(&bulk, &connections, LARGE - 1), Way::Own));
        assert_eq!((bulk.way_of_read(0, &connections, &config), bulk.way_of_flush(0, &connections)), (1, 0));
        connections[1].link_mut().silence();
        assert!(matches!(way(&bulk, &connections, LARGE), Way::Own));
        assert_eq!(bulk.way_of_read(0, &connections, &config), 0);
        bulk.forget(1);
        assert_eq!(bulk.of(0), None);
        assert!(matches!(way(&bulk, &connections, LARGE), Way::Own));
    }

    #[test]
    fn it_is_busy_until_nothing_is_owed_there() {
        let (mut bulk, connections, _) = two();
        assert!(!bulk.is_busy() && !bulk.is_opening(&connections));
        bulk.note_sent();
        assert!(bulk.is_busy());
        bulk.look(&connections);
        assert!(!bulk.is_busy());
    }
}
