//! What becomes of servers, as this dataplane sees it, reported to its driver as values.
//!
//! [`Changes`] owns what was not asked for yet. It learns of a change where that happens; the driver asks for it once per turn, by
//! [`crate::Dataplane::poll_change`]. Of slots that leave only that is reported: whoever puts together what several dataplanes see forgets
//! them then. A change may be reported again that is known: each failed attempt to connect is one. So whoever has missed a change, because
//! too many waited, knows after the next attempt.

use crate::wire::ids::Slot;
use std::{collections::VecDeque, sync::Arc};

/// Something has become of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its number in this dataplane, or that of its connection for large values.
    pub slot: Slot,
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
    /// It is connected, and no request is sent there any more: it has left several requests in a row without an answer.
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
    /// It closes its connections before it has answered, or soon after they were made.
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
    /// It does not take the login that it gets.
    LoginRefused,
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
pub(super) const CHANGES_MAX: usize = 4096;

/// What the driver has not asked for yet.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    waiting: VecDeque<Change>,
}

impl Changes {
    /// Whether there was room.
    pub(super) fn push(&mut self, change: Change) -> bool {
        let has_room = self.waiting.len() < CHANGES_MAX;
        if has_room {
            self.waiting.push_back(change);
        }
        has_room
    }

    /// The oldest one.
    #[inline]
    pub(super) fn poll(&mut self) -> Option<Change> {
        self.waiting.pop_front()
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_that_nobody_asks_for_are_bounded() {
        let mut changes = Changes::default();
        let change = Change { slot: Slot::from_index(0), server: "a".into(), what: ServerChange::Up };
        let pushed = (0..CHANGES_MAX + 7).filter(|_| changes.push(change.clone())).count();
        assert_eq!(pushed, CHANGES_MAX);
        let polled = std::iter::from_fn(|| changes.poll()).count();
        assert!(polled == CHANGES_MAX && changes.is_empty());
        assert!(changes.push(change), "there is room again");
    }
}
