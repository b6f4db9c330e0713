//! A key between the two steps of a conditional write.
//!
//! The decider has been asked, the others have not been sent the outcome. Another write to the key that went to all now would reach the
//! decider behind the first and the others before it. So the key is locked, and the other write waits until the others have been sent the
//! outcome (not until they have answered: each connection keeps its order from there). Whoever waits does so in the order in which they
//! came, until their own time is up: then they leave the line, wherever they stand there. Such a write fails, and nobody hears of it. One
//! whose turn comes in time has its whole time from then on. No server is to blame for what a write has waited in its line.
//!
//! ```text
//!   lock ─▶ KeyLock, which the write has ─▶ release ─▶ the session that is next, or mail that is ready
//!   waits ─▶ Stalled, which the session has ─▶ waits says no, or leave ─▶ the same
//!                                           ╰▶ next_overdue: the session, for which waits says no, or mail
//! ```
//!
//! [`KeyLocks`] owns the keys that are locked and the line of each. It is asked whether a write must wait, and answers who is next when a lock
//! ends. There are no more who wait than sessions, and what they sent waits where it would if they were paused. A write that another loop
//! has read waits here itself; mail is bounded (`mailbox.rs`). Who has left takes no place (`key_lock/places.rs`).

mod places;

use crate::{
    replication::key_lock::places::{Ends, Place, Places, Waiter},
    replication::mailbox::WriteByMail,
    wire::ids::SessionId,
    wire::kept::KeptRequest,
};
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use weir_timing::Instant;

/// The keys that are locked, and those for which somebody waits.
#[derive(Debug, Default)]
pub(crate) struct KeyLocks {
    lines: HashMap<Box<[u8]>, Line>,
    /// Those that wait in these.
    places: Places,
    /// Keys that are free, and for which mail waits first.
    ready: VecDeque<Box<[u8]>>,
    /// A lock was dropped that was not given back.
    is_one_lost: Arc<AtomicBool>,
}

/// One key's.
#[derive(Debug, Default)]
struct Line {
    /// A write is between its steps. If none is, the first that waits may begin.
    is_locked: bool,
    /// It is among those that are ready.
    is_ready: bool,
    ends: Ends,
}

/// The right to be between the two steps of a write to a key. It is given back by [`KeyLocks::release`], once; who waits for the key
/// would wait for ever behind one that is dropped, so that is noticed.
#[derive(Debug)]
#[must_use]
pub(crate) struct KeyLock {
    /// None once it was given back.
    key: Option<Box<[u8]>>,
    is_one_lost: Arc<AtomicBool>,
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        if self.key.is_some() {
            self.is_one_lost.store(true, Ordering::Relaxed);
        }
    }
}

/// What a session whose next request is a write to a locked key remembers of it.
#[derive(Debug)]
pub(crate) struct Stalled {
    place: Place,
    created: Instant,
    until: Option<Instant>,
    /// The request, if its session is lent and does not have its bytes.
    kept: Option<KeptRequest>,
}

impl Stalled {
    /// When the request was complete.
    pub(crate) const fn created(&self) -> Instant {
        self.created
    }

    /// Whether its time is up.
    pub(crate) fn is_overdue(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Keeps the request until its key is free.
    pub(crate) fn keep(&mut self, request: Option<KeptRequest>) {
        self.kept = request;
    }

    /// Hands it out again.
    pub(crate) fn take_kept(&mut self) -> Option<KeptRequest> {
        self.kept.take()
    }
}

/// Somebody whose time was up in its key's line.
#[derive(Debug)]
pub(crate) enum Overdue {
    /// It leaves its place when its request has begun.
    Session(SessionId),
    /// It has left.
    Mail(Freed),
}

/// A key for which mail has waited.
#[derive(Debug)]
pub(crate) struct Freed {
    key: Box<[u8]>,
    mail: Option<Box<WriteByMail>>,
}

impl Freed {
    /// The write that begins now, if nobody came before it.
    pub(crate) fn take_mail(&mut self) -> Option<Box<WriteByMail>> {
        self.mail.take()
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }
}

impl KeyLocks {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        debug_assert!(
            !self.is_one_lost.load(Ordering::Relaxed),
            "a lock was dropped that was not given back"
        );
        // Who waits for a key has a place in its line.
        self.lines.is_empty()
    }

    /// Whether anybody waits.
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        !self.places.is_empty()
    }

    /// When there is something to do for those that wait: a write from another loop can begin at once, or somebody's time is up.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.ready.is_empty() { self.places.due() } else { Some(Instant::ZERO) }
    }

    /// Whether a session's next request, a write to this key, has to wait. `stalled` is what the session remembers of it; `until`: when the
    /// time of one that has not waited before is up.
    pub(super) fn waits(
        &mut self,
        session: SessionId,
        key: Box<[u8]>,
        (stalled, until): (&mut Option<Box<Stalled>>, Option<Instant>),
        now: Instant,
    ) -> bool {
        let Some(line) = self.lines.get_mut(&key) else { return false };
        let Some(it) = stalled.as_deref() else {
            // Nobody waits for a key that nobody locks, so it is locked, or others are before this one.
            let place = self.places.take(&mut line.ends, (Waiter::Session(session), key), until);
            *stalled = Some(Box::new(Stalled { place, created: now, until, kept: None }));
            return true;
        };
        // It leaves the line when it has begun.
        !it.is_overdue(now) && (line.is_locked || line.ends.first() != Some(it.place))
    }

    /// A write that came by mail, whose time is up at `until`, comes back if it may begin.
    pub(super) fn admit_mail(
        &mut self,
        mut mail: WriteByMail,
        until: Option<Instant>,
    ) -> Option<WriteByMail> {
        if self.is_empty() {
            return Some(mail);
        }
        let Some(key) = mail.written_key() else { return Some(mail) };
        let Some(line) = self.lines.get_mut(&key) else { return Some(mail) };
        mail.wait(until);
        self.places.take(&mut line.ends, (Waiter::Mail(Box::new(mail)), key), until);
        None
    }

    /// A key that was freed for mail. When that has begun, [`KeyLocks::next`] is asked.
    pub(super) fn next_ready(&mut self) -> Option<Freed> {
        while let Some(key) = self.ready.pop_front() {
            let Some(line) = self.lines.get_mut(&key) else { continue };
            line.is_ready = false;
            if line.is_locked {
                continue;
            }
            let mail = line.ends.first().and_then(|first| self.take_mail(&key, first));
            return Some(Freed { key, mail });
        }
        None
    }

    /// One whose time is up, if there is one. When the write of mail is answered, [`KeyLocks::next`] is asked.
    pub(super) fn next_overdue(&mut self, now: Instant) -> Option<Overdue> {
        let place = self.places.next_overdue(now)?;
        if let Waiter::Session(session) = *self.places.waiter(place)? {
            return Some(Overdue::Session(session));
        }
        let key: Box<[u8]> = self.places.key(place)?.into();
        let mail = self.take_mail(&key, place);
        Some(Overdue::Mail(Freed { key, mail }))
    }

    /// Takes the mail out of the line of this key that has this place, if it is mail.
    fn take_mail(&mut self, key: &[u8], place: Place) -> Option<Box<WriteByMail>> {
        if let Waiter::Session(_) = self.places.waiter(place)? {
            return None;
        }
        match self.places.free(&mut self.lines.get_mut(key)?.ends, place)? {
            Waiter::Mail(mail) => Some(mail),
            Waiter::Session(_) => None,
        }
    }

    /// A conditional write to this key was begun.
    pub(super) fn lock(&mut self, key: &[u8]) -> KeyLock {
        if let Some(line) = self.lines.get_mut(key) {
            line.is_locked = true;
        } else {
            self.lines.insert(key.into(), Line { is_locked: true, ..Line::default() });
        }
        KeyLock { key: Some(key.into()), is_one_lost: Arc::clone(&self.is_one_lost) }
    }

    /// Everybody was sent the outcome, or there is nothing to send. Returns the session that is next, if one is.
    pub(super) fn release(&mut self, mut lock: KeyLock) -> Option<SessionId> {
        let key = lock.key.take()?;
        if let Some(line) = self.lines.get_mut(&key) {
            line.is_locked = false;
        }
        self.next(&key)
    }

    /// A session that had waited has begun its write, or is gone. Returns the session that is next, if one is.
    pub(super) fn leave(&mut self, stalled: &Stalled) -> Option<SessionId> {
        let key: Box<[u8]> = self.places.key(stalled.place)?.into();
        self.places.free(&mut self.lines.get_mut(&key)?.ends, stalled.place);
        self.next(&key)
    }

    /// If nobody locks the key: the session that is next, if one is. Mail is taken once per turn. A key for which nobody waits is
    /// forgotten.
    pub(super) fn next(&mut self, key: &[u8]) -> Option<SessionId> {
        let line = self.lines.get_mut(key).filter(|line| !line.is_locked)?;
        match line.ends.first().and_then(|first| self.places.waiter(first)) {
            Some(Waiter::Session(session)) => return Some(*session),
            // Once, however many leave behind it.
            Some(Waiter::Mail(_)) if line.is_ready => {}
            Some(Waiter::Mail(_)) => {
                line.is_ready = true;
                self.ready.push_back(key.into());
            }
            None => _ = self.lines.remove(key),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;
    const FIRST: SessionId = SessionId::from_index(1);
    const SECOND: SessionId = SessionId::from_index(2);

    #[test]
    fn who_waits_for_a_key_begins_in_the_order_in_which_they_came() {
        let mut locks = KeyLocks::default();
        let (mut first, mut second) = (None, None);
        assert!(!locks.waits(FIRST, b"k"[..].into(), (&mut first, None), NOW));
        let lock = locks.lock(b"k");
        assert!(!locks.waits(FIRST, b"other"[..].into(), (&mut first, None), NOW) && first.is_none());
        assert!(locks.waits(FIRST, b"k"[..].into(), (&mut first, None), NOW));
        assert!(locks.waits(SECOND, b"k"[..].into(), (&mut second, None), NOW));
        assert!(locks.waits(FIRST, b"k"[..].into(), (&mut first, None), NOW), "the key is locked");
        assert_eq!(locks.release(lock), Some(FIRST));
        assert!(locks.waits(SECOND, b"k"[..].into(), (&mut second, None), NOW), "another is before it");
        assert!(!locks.waits(FIRST, b"k"[..].into(), (&mut first, None), NOW));
        let lock = locks.lock(b"k");
        assert_eq!(locks.leave(&first.take().expect("it had waited")), None, "it has locked the key");
        assert_eq!(locks.release(lock), Some(SECOND));
        assert_eq!(locks.leave(&second.take().expect("it had waited")), None);
        assert!(locks.is_empty());
    }

    #[test]
    fn a_client_that_leaves_lets_the_next_one_go_on() {
        let mut locks = KeyLocks::default();
        let (mut first, mut second) = (None, None);
        let lock = locks.lock(b"k");
        assert!(locks.waits(FIRST, b"k"[..].into(), (&mut first, None), NOW));
        assert!(locks.waits(SECOND, b"k"[..].into(), (&mut second, None), NOW));
        assert_eq!(locks.release(lock), Some(FIRST));
        assert_eq!(locks.leave(&first.take().expect("it had waited")), Some(SECOND));
    }

    #[test]
    fn whose_time_is_up_waits_no_more_wherever_it_stands() {
        let mut locks = KeyLocks::default();
        let lock = locks.lock(b"k");
        let until = [30, 10, 20].map(|nanos| Some(Instant::from_nanos(nanos)));
        let mut stalled = [None, None, None];
        let mut waits = |locks: &mut KeyLocks, number: usize, now: u64| {
            let of = (&mut stalled[number], until[number]);
            locks.waits(SessionId::from_index(number), b"k"[..].into(), of, Instant::from_nanos(now))
        };
        assert!((0..3).all(|number| waits(&mut locks, number, 1)));
        assert_eq!(locks.due(), until[1]);
        let overdue = |locks: &mut KeyLocks| match locks.next_overdue(Instant::from_nanos(10)) {
            Some(Overdue::Session(session)) => Some(session.index()),
            Some(Overdue::Mail(_)) => panic!("there is no mail"),
            None => None,
        };
        assert_eq!((overdue(&mut locks), overdue(&mut locks)), (Some(1), None));
        assert_eq!([0, 1, 2].map(|number| waits(&mut locks, number, 10)), [true, false, true]);
        assert_eq!(locks.leave(&stalled[1].take().expect("it had waited")), None, "the key is locked");
        assert_eq!(locks.due(), until[2]);
        assert_eq!(locks.release(lock).map(SessionId::index), Some(0));
        assert_eq!(locks.leave(&stalled[0].take().expect("it had waited")).map(SessionId::index), Some(2));
        assert_eq!(locks.leave(&stalled[2].take().expect("it had waited")), None);
        assert!(locks.is_empty() && !locks.has_waiting() && locks.due().is_none());
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a lock was dropped")]
    fn a_lock_that_is_not_given_back_is_noticed() {
        let mut locks = KeyLocks::default();
        drop(locks.lock(b"k"));
        locks.is_empty();
    }
}
