//! Which servers may be read where keys have several: what all dataplanes of one process know together.
//!
//! A dataplane is *unclean* at a server from the moment at which it knows, or must fear, that the server lacks a write or may still
//! carry out an old one, until it has made the server forget every such key (`journal.rs`). It becomes unclean before the write is
//! answered. A server is read only while no dataplane is unclean there: who was answered, and then reads through whichever loop or
//! worker, finds the mark.
//!
//! Servers are known by their names, so that the mark outlives a reload. The lock is taken when a table comes, never for a request.

use crate::{replication::emptied::Doubt, servers::version::Versions};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

/// What the dataplanes of one process share. Each is given the same one by [`crate::Dataplane::sharing`].
#[derive(Debug, Default)]
pub struct Standing {
    servers: Mutex<HashMap<Box<str>, Arc<ServerStanding>>>,
    /// How many connections servers have ended.
    ends: Arc<AtomicU64>,
    /// What they say to `version`.
    pub(crate) versions: Versions,
}

/// One server's.
#[derive(Debug, Default)]
struct ServerStanding {
    /// How many dataplanes are unclean there.
    unclean: AtomicU32,
    /// How many of them do not go by it any more: whoever does so next must flush it.
    forsaken: AtomicU32,
    /// Whether it may have come back empty (`emptied.rs`).
    doubt: Doubt,
}

/// One dataplane's share in a server's standing.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<ServerStanding>,
    ends: Arc<AtomicU64>,
    is_unclean: bool,
}

impl Standing {
    /// A share in the standing of the server with this name, and whether a dataplane went away from it without having cleaned it; then
    /// the share is unclean.
    pub(crate) fn share(&self, name: &str) -> (Share, bool) {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        // Names that no table has any more, and about which there is nothing to remember.
        servers.retain(|_, it| Arc::strong_count(it) > 1 || it.unclean.load(Ordering::SeqCst) > 0);
        let of = Arc::clone(servers.entry(name.into()).or_default());
        let mut share = Share { of, ends: Arc::clone(&self.ends), is_unclean: false };
        let forsaken = share.of.forsaken.swap(0, Ordering::SeqCst);
        if forsaken > 0 {
            share.soil();
            share.of.unclean.fetch_sub(forsaken, Ordering::SeqCst);
        }
        (share, forsaken > 0)
    }
}

impl Share {
    /// Whether no dataplane is unclean there.
    #[inline]
    pub(crate) fn is_clean_everywhere(&self) -> bool {
        self.of.unclean.load(Ordering::Acquire) == 0
    }

    /// Whether this dataplane is unclean there.
    pub(crate) const fn is_unclean(&self) -> bool {
        self.is_unclean
    }

    /// The server has ended a connection. Returns whether it had been trusted.
    pub(crate) fn doubt(&self) -> bool {
        self.of.doubt.begin(self.ends.fetch_add(1, Ordering::Relaxed) + 1)
    }

    #[inline]
    pub(crate) fn doubt_rank(&self) -> u64 {
        self.of.doubt.rank()
    }

    /// Of so many keys that the server missed others had `found`. Returns whether it is trusted again.
    pub(crate) fn learn(&self, asked: u32, found: u32) -> bool {
        self.of.doubt.learn(asked, found)
    }

    /// From now on nobody reads there. Returns whether this dataplane would have.
    pub(crate) fn soil(&mut self) -> bool {
        let is_new = !self.is_unclean;
        if is_new {
            self.is_unclean = true;
            self.of.unclean.fetch_add(1, Ordering::SeqCst);
        }
        is_new
    }

    /// As far as this dataplane is concerned, the server may be read.
    pub(crate) fn clean(&mut self) {
        if self.is_unclean {
            self.is_unclean = false;
            self.of.unclean.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Share {
    /// What the dataplane knew is lost; that it was unclean is not.
    fn drop(&mut self) {
        if self.is_unclean {
            self.of.forsaken.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_unclean_is_enough() {
        let standing = Standing::default();
        let ((mut a, _), (mut b, _)) = (standing.share("s"), standing.share("s"));
        let (other, _) = standing.share("t");
        a.soil();
        a.soil();
        b.soil();
        a.clean();
        assert!(!a.is_clean_everywhere() && !b.is_clean_everywhere());
        assert!(other.is_clean_everywhere());
        b.clean();
        assert!(a.is_clean_everywhere());
    }

    #[test]
    fn what_was_forsaken_falls_to_the_next() {
        let standing = Standing::default();
        let (mut share, _) = standing.share("s");
        share.soil();
        drop(share);
        let (mut next, is_inherited) = standing.share("s");
        assert!(is_inherited && next.is_unclean() && !next.is_clean_everywhere());
        let (another, is_inherited) = standing.share("s");
        assert!(!is_inherited && !another.is_unclean());
        next.clean();
        assert!(another.is_clean_everywhere());
        drop((next, another));
        standing.share("t");
        assert_eq!(
            standing.servers.lock().expect("no test panicked").len(),
            1,
            "forgotten names are dropped"
        );
    }
}
