//! Large values, on a connection of their own.
//!
//! A value that takes long to reach its server would make every message behind it wait, whoever sent it. So a server to which such
//! values are written gets a second connection, for them alone (its slot is one more number, `Slot::beside` names the server's
//! own). Two connections to one server keep no order between them, so three rules keep it:
//!
//! - A request goes over the bulk connection when its session has nothing else in service, and the session sends nothing more until it is
//!   answered.
//! - While a key is being written over the bulk connection, or a write of it was given up there and may still be carried out, every later
//!   write of that key goes there as well, behind it. So does `flush_all` while anything is under way there.
//! - Nothing goes there that could overtake a write that was given up on the server's own connection: while that owes such an answer, large
//!   values stay on it. A write for which both rules hold is refused.
//!
//! Where keys have several replicas the one connection per server is what orders their writes, so there nothing goes over a bulk
//! connection.
//!
//! [`Bulk`] owns which server has such a connection, and whether any of those owes a reply. It is asked where a message goes, and looks at
//! the connections for that; it makes none.

use crate::{
    config::Config, servers::backend::Backend, servers::connections::Connections, wire::hash::hash,
    wire::ids::Slot,
};

/// Where a write goes.
pub(crate) enum Way {
    /// To the server's own connection.
    Own,
    /// To the other one, to be marked there with this.
    Bulk(Slot, u32),
    /// Nowhere: its order could not be kept.
    Refused,
}

/// The bulk connections of a dataplane.
#[derive(Debug, Default)]
pub(super) struct Bulk {
    /// For each slot the one of its server's bulk connection, if it has one.
    by_server: Vec<Option<Slot>>,
    /// Whether any of those owes a reply that counts, as of the beginning of the turn.
    is_busy: bool,
}

impl Bulk {
    /// The slot of a server's bulk connection, if it has one.
    #[inline]
    pub(super) fn of(&self, server: Slot) -> Option<Slot> {
        self.by_server.get(server.index()).copied().flatten()
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

    fn slots(&self) -> impl Iterator<Item = Slot> {
        self.by_server.iter().flatten().copied()
    }

    // ── notes ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The server has its bulk connection in this slot.
    pub(super) fn note_opened(&mut self, server: Slot, slot: Slot) {
        if self.by_server.len() <= server.index() {
            self.by_server.resize(server.index() + 1, None);
        }
        self.by_server[server.index()] = Some(slot);
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
    pub(super) fn forget(&mut self, slot: Slot) {
        for (server, bulk) in self.by_server.iter_mut().enumerate() {
            if server == slot.index() || *bulk == Some(slot) {
                *bulk = None;
            }
        }
    }

    // ── ways ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Where a write of this key goes, with a value of this length; to the server's own connection, if it has no other.
    pub(super) fn way_of_write(
        &self,
        (server, name, len): (Slot, &[u8], usize),
        connections: &Connections,
        config: &Config,
    ) -> Way {
        let Some(bulk) = self.of(server) else { return Way::Own };
        let mark = mark(name);
        if connections[bulk].pipeline().has_part_marked(mark) {
            let is_refused = connections[server].pipeline().has_given_up();
            return if is_refused { Way::Refused } else { Way::Bulk(bulk, mark) };
        }
        let goes = wants_bulk(&connections[server], len, config) && connections[bulk].admit(config).is_ok();
        if goes { Way::Bulk(bulk, mark) } else { Way::Own }
    }

    /// Where `flush_all` goes: behind everything that it must not be overtaken by.
    pub(super) fn way_of_flush(&self, server: Slot, connections: &Connections) -> Slot {
        self.of(server).filter(|&bulk| connections[bulk].may_undo()).unwrap_or(server)
    }

    /// The connection over which a read that brings much is asked for: the bulk connection if it serves.
    pub(super) fn way_of_read(&self, server: Slot, connections: &Connections, config: &Config) -> Slot {
        let serves = |slot: Slot| connections[slot].link().is_up() && connections[slot].admit(config).is_ok();
        let is_up = connections[server].link().is_up();
        self.of(server).filter(|&slot| is_up && serves(slot)).unwrap_or(server)
    }
}

/// Whether a value of this length is to go over the bulk connection, if it can.
pub(super) fn wants_bulk(own: &Backend, len: usize, config: &Config) -> bool {
    len >= config.large_value_bytes && own.link().is_up() && !own.pipeline().has_given_up()
}

/// By what a key is known among the messages on the bulk connection. Two keys that share it are kept in order without need, which is
/// harmless.
fn mark(name: &[u8]) -> u32 {
    (hash(name) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ids::slot;
    use weir_timing::Instant;

    const LARGE: usize = 1 << 20;

    /// A server in slot 0 and its bulk connection in slot 1, both up.
    fn two() -> (Bulk, Connections, Config) {
        let (mut bulk, mut connections) = (Bulk::default(), Connections::default());
        for it in (0..2).map(slot) {
            connections.put(it, Backend::new(slot(0), Instant::ZERO));
            connections[it].link_mut().begin(Instant::ZERO);
            connections[it].link_mut().open(Instant::ZERO);
        }
        bulk.note_opened(slot(0), slot(1));
        (bulk, connections, Config { large_value_bytes: LARGE, ..Config::default() })
    }

    #[test]
    fn large_values_go_over_it_where_both_connections_are_up() {
        let (mut bulk, mut connections, config) = two();
        let way = |bulk: &Bulk, connections: &Connections, len| {
            bulk.way_of_write((slot(0), b"key", len), connections, &config)
        };
        assert!(matches!(way(&bulk, &connections, LARGE), Way::Bulk(it, _) if it == slot(1)));
        assert!(matches!(way(&bulk, &connections, LARGE - 1), Way::Own));
        assert_eq!(
            (bulk.way_of_read(slot(0), &connections, &config), bulk.way_of_flush(slot(0), &connections)),
            (slot(1), slot(0))
        );
        connections[slot(1)].link_mut().silence();
        assert!(matches!(way(&bulk, &connections, LARGE), Way::Own));
        assert_eq!(bulk.way_of_read(slot(0), &connections, &config), slot(0));
        bulk.forget(slot(1));
        assert_eq!(bulk.of(slot(0)), None);
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
