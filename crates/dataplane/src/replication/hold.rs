//! A key between the two steps of a conditional write.
//!
//! The decider has been asked, the others have not been told. Another write to the key that went to all now would reach the decider behind
//! the first and the others before it. So it waits: its session takes nothing more until the others are told (not until they have
//! answered: each connection keeps its order from there). Whoever waits does so in the order in which they came, so each begins before
//! its own deadline if the one before it keeps its.
//!
//! There are no more of them than sessions, and what they sent waits where it would if they were paused. A write that another loop has read
//! waits here itself; mail is bounded (`ownership.rs`).

use crate::{
    Dataplane, SessionId, replication::Replication, replication::ownership::WriteByMail,
    requests::base::Base, wire::kept::KeptRequest, wire::written::written_key,
};
use std::collections::{HashMap, VecDeque};
use weir_protocol::Parsed;
use weir_timing::Instant;

/// The keys that are held.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    keys: HashMap<Box<[u8]>, Hold>,
    /// Keys that are free, and for which mail waits first.
    ready: VecDeque<Box<[u8]>>,
}

#[derive(Debug, Default)]
struct Hold {
    /// A write is between its steps. If none is, the first that waits may begin.
    is_active: bool,
    waiting: VecDeque<Waiter>,
}

/// Who waits for a key.
#[derive(Debug)]
enum Waiter {
    /// This session's next request.
    Session(SessionId),
    /// A write that another loop has read.
    Mail(Box<WriteByMail>),
}

/// What a session whose next request is a write to a held key remembers of it.
#[derive(Debug)]
pub(crate) struct Stalled {
    key: Box<[u8]>,
    /// When the request was complete.
    pub(crate) created: Instant,
    /// The request, if its session is lent and does not have its bytes.
    kept: Option<KeptRequest>,
}

impl Stalled {
    /// Keeps the request until its key is free.
    pub(crate) fn keep(&mut self, request: Option<KeptRequest>) {
        self.kept = request;
    }

    /// Hands it out again.
    pub(crate) fn take_kept(&mut self) -> Option<KeptRequest> {
        self.kept.take()
    }
}

impl Holds {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.ready.is_empty()
    }

    /// Whether a write from another loop can begin at once.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Nobody holds the key any more, or who did has gone: the session that is next, if it is one. Mail is taken once per turn. A key for
    /// which nobody waits is forgotten.
    fn next(&mut self, key: &[u8]) -> Option<SessionId> {
        let hold = self.keys.get(key).filter(|hold| !hold.is_active)?;
        match hold.waiting.front() {
            Some(Waiter::Session(id)) => return Some(*id),
            Some(Waiter::Mail(_)) => self.ready.push_back(key.into()),
            None => _ = self.keys.remove(key),
        }
        None
    }
}

impl Dataplane {
    /// Whether a session's next request has to wait, because it writes to a key that is held.
    #[cold]
    pub(crate) fn waits_for_key(&mut self, id: SessionId, parsed: &Parsed<'_>, now: Instant) -> bool {
        let Some(key) = written_key(parsed) else { return false };
        let Self { base: Base { replication: Replication { holds, .. }, clients, meter, .. }, .. } = self;
        let Some(hold) = holds.keys.get_mut(&key) else { return false };
        let session = &mut clients[id];
        if session.stalled.is_none() {
            // Nobody waits for a key that nobody holds, so it is held, or others are before this one.
            meter.counters().writes_held += 1;
            session.stalled = Some(Box::new(Stalled { key, created: now, kept: None }));
            hold.waiting.push_back(Waiter::Session(id));
            return true;
        }
        if hold.is_active || !matches!(hold.waiting.front(), Some(Waiter::Session(first)) if *first == id) {
            return true;
        }
        hold.waiting.pop_front();
        false
    }

    /// A write that came by mail comes back if it may begin.
    pub(crate) fn admit_mail(&mut self, mail: WriteByMail) -> Option<WriteByMail> {
        if self.base.replication.holds.is_empty() {
            return Some(mail);
        }
        let Some(hold) = mail.written_key().and_then(|key| self.base.replication.holds.keys.get_mut(&key))
        else {
            return Some(mail);
        };
        self.base.meter.counters().writes_held += 1;
        hold.waiting.push_back(Waiter::Mail(Box::new(mail)));
        None
    }

    /// Once per turn: begins writes that came by mail and whose keys are free.
    pub(crate) fn serve_ready_mail(&mut self, now: Instant) {
        while let Some(key) = self.base.replication.holds.ready.pop_front() {
            let Some(hold) = self.base.replication.holds.keys.get_mut(&key).filter(|hold| !hold.is_active)
            else {
                continue;
            };
            match hold.waiting.pop_front() {
                Some(Waiter::Mail(mail)) => self.serve_mail(*mail, now),
                Some(session) => hold.waiting.push_front(session),
                None => {}
            }
            self.let_next_write(&key);
        }
    }

    /// A conditional write to this key was begun.
    pub(crate) fn hold(&mut self, key: &[u8]) {
        if let Some(hold) = self.base.replication.holds.keys.get_mut(key) {
            hold.is_active = true;
        } else {
            self.base
                .replication
                .holds
                .keys
                .insert(key.into(), Hold { is_active: true, waiting: VecDeque::new() });
        }
    }

    /// Everybody was told, or there is nothing to tell.
    pub(crate) fn release_key(&mut self, key: &[u8]) {
        if let Some(hold) = self.base.replication.holds.keys.get_mut(key) {
            hold.is_active = false;
        }
        self.let_next_write(key);
    }

    /// A session that had waited has begun its write, or is gone.
    pub(crate) fn leave_line(&mut self, id: SessionId, stalled: &Stalled) {
        if let Some(hold) = self.base.replication.holds.keys.get_mut(&stalled.key) {
            hold.waiting.retain(|waiter| !matches!(waiter, Waiter::Session(waiting) if *waiting == id));
        }
        self.let_next_write(&stalled.key);
    }

    fn let_next_write(&mut self, key: &[u8]) {
        if let Some(next) = self.base.replication.holds.next(key) {
            self.base.clients.let_go_on(next);
        }
    }
}
