//! Keys that several servers hold: who decides a write, what the others hear of it, and which of them may be read.

pub(crate) mod emptied;
pub(crate) mod fleet;
pub(crate) mod follow;
pub(crate) mod freshness;
pub(crate) mod journal;
pub(crate) mod key_lock;
pub(crate) mod ownership;
pub(crate) mod readers;
pub(crate) mod repair;
pub(crate) mod replica;
pub(crate) mod replicate;
pub(crate) mod token;

use crate::{
    config::Config,
    config::policy::ReadRepair,
    meter::counters::Counters,
    replication::key_lock::{Freed, KeyLock, KeyLocks, Stalled},
    replication::ownership::{Post, WriteByMail},
    replication::repair::Repairs,
    wire::written::written_key,
};
use weir_protocol::Parsed;
use weir_timing::Instant;

/// What one dataplane knows of writes to keys that several servers hold.
#[derive(Debug)]
pub(crate) struct Replication {
    counters: Counters,
    locks: KeyLocks,
    /// Copies that are being put back.
    pub(crate) repairs: Repairs,
    /// What goes to other loops and comes from them; none where there is one loop.
    pub(crate) post: Option<Box<Post>>,
}

impl Replication {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            counters: Counters::default(),
            locks: KeyLocks::default(),
            repairs: Repairs::new(config.read_repair == ReadRepair::On),
            post: None,
        }
    }
    pub(crate) const fn counters(&self) -> &Counters {
        &self.counters
    }

    // ── key locks ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Whether any key is locked, or somebody waits for one.
    #[inline]
    pub(crate) fn has_locks(&self) -> bool {
        !self.locks.is_empty()
    }

    /// Whether a write that another loop has read can begin at once.
    pub(crate) fn has_ready_mail(&self) -> bool {
        self.locks.has_ready()
    }

    /// Whether a session's next request has to wait, because it writes to a key that is locked. `stalled` is what the session remembers
    /// of it.
    #[cold]
    pub(crate) fn waits_for_key(
        &mut self,
        session: usize,
        parsed: &Parsed<'_>,
        stalled: &mut Option<Box<Stalled>>,
        now: Instant,
    ) -> bool {
        let Some(key) = written_key(parsed) else { return false };
        let is_new = stalled.is_none();
        let waits = self.locks.waits(session, key, stalled, now);
        self.counters.writes_held += u64::from(waits && is_new);
        waits
    }

    /// A session that had waited for a key has begun its write, or is gone. Returns the session that may go on, if one may.
    pub(crate) fn leave_line(&mut self, session: usize, stalled: &Stalled) -> Option<usize> {
        self.locks.leave(session, stalled)
    }

    /// A write that came by mail comes back if it may begin.
    pub(crate) fn admit_mail(&mut self, mail: WriteByMail) -> Option<WriteByMail> {
        let admitted = self.locks.admit_mail(mail);
        self.counters.writes_held += u64::from(admitted.is_none());
        admitted
    }

    /// A key that was freed for mail. When that has begun, [`Replication::next_after`] is to be asked.
    pub(crate) fn next_ready_mail(&mut self) -> Option<Freed> {
        self.locks.next_ready()
    }

    /// The session that may go on because nobody locks the key, if one may.
    pub(crate) fn next_after(&mut self, freed: &Freed) -> Option<usize> {
        self.locks.next(freed.key())
    }

    /// A conditional write to this key was begun.
    pub(crate) fn lock(&mut self, key: &[u8]) -> KeyLock {
        self.locks.lock(key)
    }

    /// Everybody was told, or there is nothing to tell. Returns the session that may go on, if one may.
    pub(crate) fn release(&mut self, lock: KeyLock) -> Option<usize> {
        self.locks.release(lock)
    }
}
