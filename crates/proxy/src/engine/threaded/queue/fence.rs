//! What several writers have in common where keys have replicas: times at which none of them writes.
//!
//! Each writer keeps the order of the keys that are its own. Two things concern the keys of all: `flush_all`, which must stand between
//! the same writes at every server; and a new table, by which a key may belong to another writer, whose connections are others.
//!
//! ```text
//!   flush_all at the front of a queue ─▶ closed: no write begins ─▶ the last one inside is done ─▶ it is served ─▶ open
//!   a new table                       ─▶ closed: no write begins ─▶ the last one inside is done ─▶ open
//! ```
//!
//! A flush that waits gives up at its deadline, like every request that waits. A table waits for no longer than a request may take. A
//! server that is frozen for longer may carry out what it was sent before, and the next write to that key belongs to another writer then.

use crate::mailbox::LoopHandle;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_timing::Instant;

#[derive(Debug, Default)]
pub(crate) struct Fence {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Writes in service, and those that were given up and that a server may still carry out.
    inside: usize,
    /// The queue whose flush waits for them, or is in service.
    closed_by: Option<usize>,
    /// That flush is in service.
    flushing: bool,
    /// A new table waits for them, until then at the latest.
    table_waits_until: Option<Instant>,
    writers: Vec<LoopHandle>,
}

impl Inner {
    fn is_open(&self) -> bool {
        self.closed_by.is_none() && self.table_waits_until.is_none()
    }
}

impl Fence {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Whatever is changed under the lock is whole at every step that could panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody more to be called when it opens.
    pub(crate) fn add_writer(&self, writer: LoopHandle) {
        self.inner().writers.push(writer);
    }

    /// Whether a write to one key may begin: it is inside then, until [`Fence::leave`].
    pub(crate) fn enter(&self) -> bool {
        let mut inner = self.inner();
        let is_open = inner.is_open();
        inner.inside += usize::from(is_open);
        is_open
    }

    /// This many writes are done.
    pub(crate) fn leave(&self, count: usize) {
        let mut inner = self.inner();
        inner.inside -= count;
        if inner.inside == 0 && !inner.is_open() {
            inner.table_waits_until = None;
            call_all(inner);
        }
    }

    /// Whether a flush of this queue may begin: nobody is inside then, and nobody enters before [`Fence::open`].
    pub(crate) fn close(&self, queue: usize) -> bool {
        let mut inner = self.inner();
        if inner.closed_by.is_some_and(|other| other != queue) {
            return false;
        }
        inner.closed_by = Some(queue);
        inner.flushing = inner.inside == 0;
        inner.flushing
    }

    /// The flush of this queue is done.
    pub(crate) fn open(&self, queue: usize) {
        let mut inner = self.inner();
        if inner.closed_by == Some(queue) {
            inner.closed_by = None;
            inner.flushing = false;
            call_all(inner);
        }
    }

    /// The flush that stood at the front of this queue does so no more.
    pub(crate) fn withdraw(&self, queue: usize) {
        let mut inner = self.inner();
        if inner.closed_by == Some(queue) && !inner.flushing {
            inner.closed_by = None;
            call_all(inner);
        }
    }

    /// Keys may belong to other writers from now on.
    pub(crate) fn close_for_table(&self, until: Instant) {
        let mut inner = self.inner();
        inner.table_waits_until = (inner.inside > 0).then_some(until);
    }

    /// When [`Fence::expire`] must be called.
    pub(crate) fn alarm(&self) -> Option<Instant> {
        self.inner().table_waits_until
    }

    /// The table has waited for long enough.
    pub(crate) fn expire(&self, now: Instant) {
        let mut inner = self.inner();
        if inner.table_waits_until.is_some_and(|until| until <= now) {
            inner.table_waits_until = None;
            call_all(inner);
        }
    }
}

/// Calling fails only if the descriptor is gone, and with it whoever would be called.
fn call_all(inner: MutexGuard<'_, Inner>) {
    let writers = inner.writers.clone();
    drop(inner);
    for writer in writers {
        let _ = writer.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_begins_when_the_last_write_is_done_and_no_write_begins_meanwhile() {
        let fence = Fence::default();
        assert!(fence.enter() && fence.enter());
        assert!(!fence.close(1));
        assert!(!fence.enter());
        assert!(!fence.close(2), "one flush at a time");
        fence.leave(1);
        assert!(!fence.close(1));
        fence.leave(1);
        assert!(!fence.enter(), "the flush is before it");
        assert!(fence.close(1));
        assert!(!fence.close(2));
        fence.open(1);
        assert!(fence.enter());
    }

    #[test]
    fn a_flush_that_gives_up_lets_the_others_go_on() {
        let fence = Fence::default();
        assert!(fence.enter());
        assert!(!fence.close(1));
        fence.withdraw(2);
        assert!(!fence.enter(), "that was another's");
        fence.withdraw(1);
        assert!(fence.enter());
        fence.leave(2);
        assert!(fence.close(1));
        fence.withdraw(1);
        assert!(!fence.enter(), "it is in service");
        fence.open(1);
        assert!(fence.enter());
    }

    #[test]
    fn a_table_waits_for_those_inside_and_not_for_ever() {
        let (fence, until) = (Fence::default(), Instant::from_nanos(10));
        fence.close_for_table(until);
        assert!(fence.enter(), "there was nothing to wait for");
        fence.close_for_table(until);
        assert!(!fence.enter());
        fence.leave(1);
        assert!(fence.enter());
        fence.close_for_table(until);
        assert_eq!(fence.alarm(), Some(until));
        fence.expire(Instant::from_nanos(9));
        assert!(!fence.enter());
        fence.expire(until);
        assert!(fence.enter());
        assert_eq!(fence.alarm(), None);
    }
}
