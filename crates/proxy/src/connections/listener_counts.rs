//! How many clients came in at each place, and how many of them are here.
//!
//! [`ListenerCounts`] belongs to one listener. The acceptor notes who came in; a [`Here`] goes with the client's connection, and counts it
//! until it is dropped.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The counts of one listener.
#[derive(Debug)]
pub(crate) struct ListenerCounts {
    /// Where it is, as metrics name it.
    at: String,
    /// The pool of all keys of its clients, if the place names one.
    pool: Option<String>,
    accepted: AtomicU64,
    refused: AtomicU64,
    open: AtomicU64,
}

/// One client, until it is dropped.
#[derive(Debug)]
pub(crate) struct Here(Arc<ListenerCounts>);

impl ListenerCounts {
    pub(crate) fn new(at: String, pool: Option<String>) -> Arc<Self> {
        Arc::new(Self {
            at,
            pool,
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            open: AtomicU64::new(0),
        })
    }

    /// A client came in and is served.
    pub(crate) fn enter(self: &Arc<Self>) -> Here {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        Here(Arc::clone(self))
    }

    /// A client came in and cannot be served.
    pub(crate) fn note_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn at(&self) -> &str {
        &self.at
    }

    pub(crate) fn pool(&self) -> Option<&str> {
        self.pool.as_deref()
    }

    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(crate) fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }
}

impl Drop for Here {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_counted_while_it_is_here() {
        let counts = ListenerCounts::new("127.0.0.1:1".to_owned(), None);
        let (one, other) = (counts.enter(), counts.enter());
        drop(one);
        counts.note_refused();
        assert_eq!(
            (counts.at(), counts.accepted(), counts.refused(), counts.open()),
            ("127.0.0.1:1", 2, 1, 1)
        );
        drop(other);
        assert_eq!(counts.open(), 0);
    }
}
