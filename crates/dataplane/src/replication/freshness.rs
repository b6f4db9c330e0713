//! Which servers may be read where keys have several: what all dataplanes of one process know together.
//!
//! A server is *stale* to a dataplane from the moment at which it knows, or must fear, that the server lacks a write or may still carry out
//! an old one. It is stale until the dataplane has made the server forget every such key (`journal.rs`). It becomes stale before the write
//! is answered. A server is read only while it is stale to no dataplane: who was answered, and then reads through whichever loop or worker,
//! finds the mark.
//!
//! Servers are known by their names, so that the mark outlives a reload. The lock is taken when a table comes, never for a request.

use crate::{
    replication::emptied::Doubt, replication::key_writes::KeyWrites, replication::leases::Leases,
    wire::version::Versions,
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

/// What the dataplanes of one process share. Each is given the same one by [`crate::Dataplane::sharing`].
#[derive(Debug, Default)]
pub struct Freshness {
    servers: Mutex<HashMap<Box<str>, Arc<ServerFreshness>>>,
    /// How many connections servers have ended.
    ends: Arc<AtomicU64>,
    /// What they say to `version`.
    pub(crate) versions: Versions,
    /// Which keys are being written, if anybody wants to know.
    key_writes: OnceLock<Arc<KeyWrites>>,
    /// Who may fill which keys, where others wait for that.
    leases: OnceLock<Arc<Leases>>,
}

/// One server's.
#[derive(Debug, Default)]
struct ServerFreshness {
    /// To how many dataplanes it is stale.
    stale: AtomicU32,
    /// How many of these dataplanes do not use it any more: whichever does so next must flush it.
    orphaned: AtomicU32,
    /// Whether it may have come back empty (`emptied.rs`).
    doubt: Doubt,
}

/// One dataplane's share in a server's freshness.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<ServerFreshness>,
    ends: Arc<AtomicU64>,
    is_stale: bool,
}

impl Freshness {
    /// The counts of writes that all dataplanes share.
    pub(crate) fn key_writes(&self) -> Arc<KeyWrites> {
        Arc::clone(self.key_writes.get_or_init(Arc::default))
    }

    /// The leases that all dataplanes share.
    pub(crate) fn leases(&self) -> Arc<Leases> {
        Arc::clone(self.leases.get_or_init(Arc::default))
    }

    /// A share in the freshness of the server with this name. And whether a dataplane went away from the server while it was stale: then it
    /// is stale to the new share, too.
    pub(crate) fn share(&self, name: &str) -> (Share, bool) {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        // Names that no table has any more, and about which there is nothing to remember.
        servers.retain(|_, it| Arc::strong_count(it) > 1 || it.stale.load(Ordering::SeqCst) > 0);
        let of = Arc::clone(servers.entry(name.into()).or_default());
        let mut share = Share { of, ends: Arc::clone(&self.ends), is_stale: false };
        let orphaned = share.of.orphaned.swap(0, Ordering::SeqCst);
        if orphaned > 0 {
            share.mark_stale();
            share.of.stale.fetch_sub(orphaned, Ordering::SeqCst);
        }
        (share, orphaned > 0)
    }
}

impl Share {
    /// Whether the server is stale to no dataplane.
    #[inline]
    pub(crate) fn is_fresh(&self) -> bool {
        self.of.stale.load(Ordering::Acquire) == 0
    }

    /// Whether the server is stale to this dataplane.
    pub(crate) const fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// The server has ended a connection. Returns whether it had been trusted.
    pub(crate) fn doubt(&self) -> bool {
        self.of.doubt.begin(self.ends.fetch_add(1, Ordering::Relaxed) + 1)
    }

    #[inline]
    pub(crate) fn doubt_rank(&self) -> u64 {
        self.of.doubt.rank()
    }

    /// Of this many keys that the server missed, others had `found`. Returns whether it is trusted again.
    pub(crate) fn learn(&self, asked: u32, found: u32) -> bool {
        self.of.doubt.learn(asked, found)
    }

    /// From now on nobody reads there. Returns whether this dataplane would have.
    pub(crate) fn mark_stale(&mut self) -> bool {
        let is_new = !self.is_stale;
        if is_new {
            self.is_stale = true;
            self.of.stale.fetch_add(1, Ordering::SeqCst);
        }
        is_new
    }

    /// As far as this dataplane is concerned, the server may be read.
    pub(crate) fn mark_fresh(&mut self) {
        if self.is_stale {
            self.is_stale = false;
            self.of.stale.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Share {
    /// What the dataplane knew is lost; that the server was stale to it is not.
    fn drop(&mut self) {
        if self.is_stale {
            self.of.orphaned.fetch_add(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_stale_is_enough() {
        let freshness = Freshness::default();
        let ((mut a, _), (mut b, _)) = (freshness.share("s"), freshness.share("s"));
        let (other, _) = freshness.share("t");
        a.mark_stale();
        a.mark_stale();
        b.mark_stale();
        a.mark_fresh();
        assert!(!a.is_fresh() && !b.is_fresh());
        assert!(other.is_fresh());
        b.mark_fresh();
        assert!(a.is_fresh());
    }

    #[test]
    fn what_was_orphaned_falls_to_the_next() {
        let freshness = Freshness::default();
        let (mut share, _) = freshness.share("s");
        share.mark_stale();
        drop(share);
        let (mut next, is_inherited) = freshness.share("s");
        assert!(is_inherited && next.is_stale() && !next.is_fresh());
        let (another, is_inherited) = freshness.share("s");
        assert!(!is_inherited && !another.is_stale());
        next.mark_fresh();
        assert!(another.is_fresh());
        drop((next, another));
        freshness.share("t");
        assert_eq!(
            freshness.servers.lock().expect("no test panicked").len(),
            1,
            "forgotten names are dropped"
        );
    }
}
