//! How much may be asked for at once by reads that bring much, and who waits until there is room.
//!
//! ```text
//!   read ──▶ room in this loop? ──▶ room at each of its servers? ──▶ asked
//!             the loop's line         that server's line
//! ```
//!
//! What is expected of a server counts there until it has come, and no longer: the parts of a read count by themselves. So a server that is
//! slow, or says nothing, keeps waiting whoever reads much of it, and nobody else.
//!
//! [`BulkRoom`] owns what is expected of each server, and the lines. It learns what is asked and what has come. It answers whether a read must
//! wait, and who is next.

use crate::wire::ids::{SessionId, Slot};
use std::collections::VecDeque;

/// What slices in service are expected to bring at most, in slices: from one server, and from all together.
const SLICES_OF_SERVER: usize = 4;
const SLICES_OF_ALL: usize = 4 * SLICES_OF_SERVER;

/// What is expected, and who waits.
#[derive(Debug)]
pub(super) struct BulkRoom {
    of_server_max: usize,
    of_all_max: usize,
    bytes: usize,
    /// By slot: of a server's own connection, whichever is used.
    servers: Vec<OfServer>,
    /// How many servers have no room.
    full: usize,
    /// Sessions that wait for room in the loop, in the order in which they came.
    line: VecDeque<SessionId>,
    /// Servers for which any waits.
    waited_for: Vec<Slot>,
}

/// One server's.
#[derive(Debug, Default)]
struct OfServer {
    bytes: usize,
    line: VecDeque<SessionId>,
}

/// What is expected of one server for a part of a read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) part: u32,
    pub(super) server: Slot,
    pub(super) bytes: usize,
}

/// In which line a read waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    OfAll,
    OfServer(Slot),
}

impl BulkRoom {
    pub(super) fn new(slice_bytes: usize) -> Self {
        Self {
            of_server_max: slice_bytes.saturating_mul(SLICES_OF_SERVER),
            of_all_max: slice_bytes.saturating_mul(SLICES_OF_ALL),
            bytes: 0,
            servers: Vec::new(),
            full: 0,
            line: VecDeque::new(),
            waited_for: Vec::new(),
        }
    }

    /// This is asked for.
    pub(super) fn enter(&mut self, expected: Expected) {
        let number = expected.server.index();
        if self.servers.len() <= number {
            self.servers.resize_with(number + 1, OfServer::default);
        }
        let was_full = self.is_full(expected.server);
        self.servers[number].bytes += expected.bytes;
        self.bytes += expected.bytes;
        self.full += usize::from(!was_full && self.is_full(expected.server));
    }

    /// It has come, or will not.
    pub(super) fn leave(&mut self, expected: Expected) {
        let was_full = self.is_full(expected.server);
        self.servers[expected.server.index()].bytes -= expected.bytes;
        self.bytes -= expected.bytes;
        self.full -= usize::from(was_full && !self.is_full(expected.server));
    }

    fn is_full(&self, server: Slot) -> bool {
        self.servers.get(server.index()).is_some_and(|it| it.bytes >= self.of_server_max)
    }

    /// Where a read must wait, if it must. `servers`: those of its keys, which are asked for only where any has no room.
    pub(super) fn line_of(&self, mut servers: impl Iterator<Item = Slot>) -> Option<Line> {
        if self.bytes >= self.of_all_max {
            return Some(Line::OfAll);
        }
        if self.full == 0 {
            return None;
        }
        servers.find(|server| self.is_full(*server)).map(Line::OfServer)
    }

    /// This session waits.
    pub(super) fn wait(&mut self, id: SessionId, line: Line) {
        match line {
            Line::OfAll => self.line.push_back(id),
            Line::OfServer(server) => {
                let line = &mut self.servers[server.index()].line;
                if line.is_empty() {
                    self.waited_for.push(server);
                }
                line.push_back(id);
            }
        }
    }

    /// The next session that waits for room, if there is some.
    pub(super) fn next(&mut self) -> Option<SessionId> {
        if self.bytes >= self.of_all_max {
            return None;
        }
        if let Some(id) = self.line.pop_front() {
            return Some(id);
        }
        let place = self.waited_for.iter().position(|server| !self.is_full(*server))?;
        let line = &mut self.servers[self.waited_for[place].index()].line;
        let id = line.pop_front();
        if line.is_empty() {
            self.waited_for.remove(place);
        }
        id
    }

    /// Whether anybody waits.
    #[inline]
    pub(super) fn is_waited_for(&self) -> bool {
        !self.line.is_empty() || !self.waited_for.is_empty()
    }

    /// Nobody waits and nothing is expected: for tests.
    pub(super) fn is_quiet(&self) -> bool {
        !self.is_waited_for() && self.bytes == 0 && self.full == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ids::slot;

    const SLICE: usize = 100;

    fn expected(server: usize, bytes: usize) -> Expected {
        Expected { part: 0, server: slot(server), bytes }
    }

    fn id(number: usize) -> SessionId {
        SessionId::from_index(number)
    }

    #[test]
    fn a_server_without_room_is_waited_for_and_no_other() {
        let mut room = BulkRoom::new(SLICE);
        room.enter(expected(1, SLICES_OF_SERVER * SLICE - 1));
        assert_eq!(room.line_of([slot(1)].into_iter()), None, "one more is always taken");
        room.enter(expected(1, SLICE));
        assert_eq!(room.line_of([slot(0), slot(1)].into_iter()), Some(Line::OfServer(slot(1))));
        assert_eq!(room.line_of([slot(0), slot(2)].into_iter()), None);
        (0..3).for_each(|number| room.wait(id(number), Line::OfServer(slot(1))));
        assert!(room.is_waited_for() && room.next().is_none());
        room.leave(expected(1, SLICE));
        assert_eq!(room.next(), Some(id(0)));
        room.enter(expected(1, SLICE));
        assert_eq!(room.next(), None);
        room.leave(expected(1, SLICE));
        assert_eq!([room.next(), room.next(), room.next()], [Some(id(1)), Some(id(2)), None]);
        room.leave(expected(1, SLICES_OF_SERVER * SLICE - 1));
        assert!(room.is_quiet());
    }

    #[test]
    fn all_servers_together_have_no_more_than_a_few() {
        let mut room = BulkRoom::new(SLICE);
        let all: Vec<_> =
            (0..SLICES_OF_ALL / SLICES_OF_SERVER).map(|it| expected(it, SLICES_OF_SERVER * SLICE)).collect();
        all.iter().for_each(|it| room.enter(*it));
        assert_eq!(room.line_of([slot(100)].into_iter()), Some(Line::OfAll));
        room.wait(id(7), Line::OfAll);
        assert_eq!(room.next(), None);
        room.leave(all[0]);
        assert_eq!((room.next(), room.next()), (Some(id(7)), None));
    }
}
