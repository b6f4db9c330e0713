//! What becomes of servers, as this dataplane sees it, told to its driver as values.
//!
//! [`Changes`] owns what was not asked for yet. It is told of a change where that happens; the driver asks for it once per turn, by
//! [`crate::Dataplane::poll_change`]. Nothing is told about slots that leave, but that they do: whoever puts together what several dataplanes
//! see forgets them then. A change may be told again that is known: each failed attempt to connect is one. So whoever has missed a
//! change, because too many waited, knows after the next attempt.

use crate::servers::Servers;
use std::{collections::VecDeque, sync::Arc};

/// Something has become of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its number in this dataplane, or that of its connection for large values.
    pub slot: usize,
    /// Its name.
    pub server: Arc<str>,
    /// What.
    pub what: ServerChange,
}

/// What may become of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerChange {
    /// Requests are sent there.
    Up,
    /// Requests are refused at once.
    Down(DownReason),
    /// It is connected, and has left so many requests in a row without an answer that none is sent there any more.
    MarkedDown {
        /// How many.
        timeouts: u32,
    },
    /// A connection is made anew that the server had not ended.
    Replaced(ReplacedReason),
    /// It lacks a write, or may; it is not read until it has forgotten the key.
    Stale,
    /// A connection broke that carried writes: it may still carry them out, and is not read for a time.
    Quarantined,
    /// It has missed more than is remembered, and will be flushed.
    FlushWanted,
    /// It would not be flushed.
    FlushRefused,
    /// It was flushed.
    Flushed,
    /// It may be read again.
    Fresh,
    /// It closes its connections at a question of the proxy's own, and is not asked it any more.
    QuestionUnknown,
    /// This dataplane has no more to do with it.
    Left,
}

/// Why a server is down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DownReason {
    /// It could not be connected to.
    Unreachable,
    /// It closes its connections before it has answered.
    Closes,
    /// It takes connections, and answers nothing.
    Unanswered,
    /// It answers what no memcached would.
    Garbage {
        /// Its words, or what is wrong with them.
        said: String,
    },
    /// It wants a login.
    LoginWanted,
}

/// Why a connection is made anew that the server had not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplacedReason {
    /// The server answers on another one.
    Dead,
    /// A reply did not fit its request.
    Garbage {
        /// What is wrong with it.
        said: String,
    },
}

/// Changes that may wait: far more than there are in a turn, but where a driver never asks.
const CHANGES_MAX: usize = 4096;

/// What the driver has not asked for yet.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    waiting: VecDeque<Change>,
}

impl Changes {
    /// Whether there was room.
    fn push(&mut self, change: Change) -> bool {
        let has_room = self.waiting.len() < CHANGES_MAX;
        if has_room {
            self.waiting.push_back(change);
        }
        has_room
    }
}

impl Servers {
    /// The next change of a server's state that the operator may want to know.
    #[inline]
    pub(crate) fn poll_change(&mut self) -> Option<Change> {
        self.changes.waiting.pop_front()
    }

    /// Whether [`Servers::poll_change`] has one.
    #[inline]
    pub(crate) fn has_changes(&self) -> bool {
        !self.changes.waiting.is_empty()
    }

    /// Something has become of the server of this slot.
    #[cold]
    pub(crate) fn note_change(&mut self, slot: usize, what: ServerChange) {
        if self.slots.is_serving(slot) || what == ServerChange::Left {
            let change = Change { slot, server: Arc::clone(self.slots.name(slot)), what };
            self.counters.server_changes_dropped += u64::from(!self.changes.push(change));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, routes::Routes};
    use weir_routing::{Placement, Router, Server, Table};
    use weir_timing::Instant;

    #[test]
    fn changes_that_nobody_asks_for_are_bounded_and_counted() {
        let router = Router::new(vec![Server::new("a", 1)], Placement::Modulo, 1);
        let table: Arc<Table> = Arc::new(router.expect("one server is a pool").into());
        let mut servers = Servers::new(&Config::default(), &Arc::new(Routes::nowhere(&table)));
        servers.assign(&table.servers()[0], Instant::ZERO);
        assert!(!servers.has_changes(), "it is being connected to for the first time");
        for _ in 0..CHANGES_MAX + 7 {
            servers.note_change(0, ServerChange::Up);
        }
        assert_eq!(servers.counters().server_changes_dropped, 7);
        let polled = std::iter::from_fn(|| servers.poll_change()).count();
        assert_eq!(polled, CHANGES_MAX);
        servers.slots.leave(0);
        servers.note_change(0, ServerChange::Up);
        assert!(!servers.has_changes(), "nothing is told of who leaves");
    }
}
