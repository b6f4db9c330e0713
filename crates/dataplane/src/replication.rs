//! Keys that several servers hold: who decides a write, what the others hear of it, and which of them may be read.

pub(crate) mod emptied;
pub(crate) mod fleet;
pub(crate) mod follow;
pub(crate) mod freshness;
pub(crate) mod journal;
pub(crate) mod key_lock;
pub(crate) mod mailbox;
pub(crate) mod owner;
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
    replication::mailbox::{Came, Mail, Mailbox, Outcome, Sender, WriteByMail},
    replication::repair::Repairs,
    routes::Routes,
    servers::backend::RequestKey,
    wire::fault::Fault,
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
    mailbox: Option<Box<Mailbox>>,
}

impl Replication {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            counters: Counters::default(),
            locks: KeyLocks::default(),
            repairs: Repairs::new(config.read_repair == ReadRepair::On),
            mailbox: None,
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
    // ── mail ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// There are other dataplanes beside this one. `session`: the number of the one to which belongs what is served for them.
    pub(crate) fn open_mailbox(&mut self, config: &Config, session: usize) {
        self.mailbox = Some(Box::new(Mailbox::new(config, session)));
    }

    /// Whether there are.
    #[inline]
    pub(crate) const fn has_mailbox(&self) -> bool {
        self.mailbox.is_some()
    }

    /// The session to which belongs what is served for others.
    pub(crate) fn mail_session(&self) -> usize {
        self.mailbox.as_ref().expect("mail comes where there is a mailbox").session()
    }

    /// Mail for another dataplane of the same proxy, and the number of its loop.
    pub(crate) fn poll_mail(&mut self) -> Option<(usize, Mail)> {
        self.mailbox.as_mut()?.poll()
    }

    /// Mail has come.
    pub(crate) fn take_mail(&mut self, mail: Mail) -> Came {
        self.mail().take(mail)
    }

    /// Who owns this key, if it has replicas and another loop does.
    pub(crate) fn other_owner(&self, routes: &Routes, name: &[u8]) -> Option<usize> {
        let mailbox = self.mailbox.as_ref()?;
        if !routes.is_replicated() || !routes.replicates(name) {
            return None;
        }
        mailbox.other_owner(name)
    }

    /// Sends a write to the owner of its key, unless too much is under way there. `times`: when its first byte was read, and when it was
    /// complete.
    pub(crate) fn mail_write(
        &mut self,
        owner: usize,
        (request, message): (RequestKey, Vec<u8>),
        times: (Instant, Instant),
    ) -> Result<(), Fault> {
        let sent = self.mail().send_write(owner, (request, message), times);
        self.counters.mail_refusals_full += u64::from(sent.is_err());
        self.counters.requests_mailed += u64::from(sent.is_ok());
        sent
    }

    /// What was served for another loop is done.
    pub(crate) fn mail_outcome(&mut self, sender: Sender, outcome: Outcome) {
        self.mail().reply(sender, outcome);
    }

    /// Whether nothing that was mailed, in either direction, waits for anything: for tests.
    pub(crate) fn mail_is_quiet(&self) -> bool {
        self.mailbox.as_ref().is_none_or(|mailbox| mailbox.is_quiet())
    }

    fn mail(&mut self) -> &mut Mailbox {
        self.mailbox.as_mut().expect("who has no mailbox knows no other owner, and gets no mail")
    }

    // ── repairs ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A repair that this dataplane had asked for is done, or could not be.
    pub(crate) fn finish_repair(&mut self) {
        self.repairs.finish_one();
    }
}
