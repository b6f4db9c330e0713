//! Gets that have missed and wait until another client fills their key (`--fill-wait`).
//!
//! ```text
//!   client 1   get a ──▶ END: it has the lease, and may fill ………… set a ──▶ STORED
//!   client 2   get a ──▶ (END) ─ waits ………………………………………………………………………… asked again ──▶ VALUE a … ──▶ client 2
//!   client 3   get a ──▶ (END) ─ waits ………………… its time is up ──▶ END ──▶ client 3
//! ```
//!
//! Nothing is kept of what was written: who waits asks its server again. So it is answered what the server holds at that time, or the miss
//! that it had: both are what a get may be answered that takes so long. It is the miss, too, where no server answers in what is left of its
//! time. That is asked for again only where its session has sent no change behind it, as everywhere (`failover.rs`).
//!
//! The wait is over when a write of the key has its answer, whoever sent it (`replication/leases.rs`). Where the lease ends otherwise, the
//! next one that waits gets it, with the miss. Who has it never waits for itself. Who may not write never gets it.
//!
//! [`FillOnce`] owns who waits here, and which leases the sessions of this dataplane have. It learns what has missed, which writes end, and
//! which sessions do. It answers what becomes of a miss; `filled.rs` carries that out.

use crate::{
    clients::session::Session,
    config::Config,
    replication::{
        freshness::Freshness,
        key_writes::Written,
        leases::{Found, LEASES_MAX, Lease, Leases},
    },
    wire::ids::{RequestKey, SessionId},
};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use weir_timing::Instant;

/// Who waits for what to be filled.
#[derive(Debug, Default)]
pub(crate) struct FillOnce {
    /// `None`: nobody waits.
    leases: Option<Arc<Leases>>,
    wait_ns: u64,
    /// The leases of sessions, by the key's hash; those that have ended, too, until there are many.
    own: BTreeMap<(SessionId, u32), Lease>,
    /// How many these were after the last look for ended ones.
    own_left: usize,
    waiting: VecDeque<Waiting>,
    /// When those that wait were looked at last.
    looked: Instant,
    /// One has ended here.
    is_stirred: bool,
}

/// A get that has missed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Missed {
    pub(super) request: RequestKey,
    /// The lower half of its key's hash.
    pub(super) hash: u32,
    pub(super) sent: Instant,
    pub(super) wait: FillWait,
}

/// How long a get still waits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FillWait {
    /// Until when, if it has missed before.
    until: Option<Instant>,
    /// How often it was asked again.
    asked_again: u8,
}

/// A get that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(super) missed: Missed,
    pub(super) name: Box<[u8]>,
}

/// What becomes of a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is the answer.
    Miss,
    /// It is, and its client may fill.
    Fill,
    /// It is, because there is no room to wait.
    NoRoom,
    /// It is, because it has waited for long enough.
    Late,
    /// The get waits.
    Wait,
    /// It is asked again.
    AskAgain,
}

/// More do not wait in one dataplane. With the longest names they take 1.3 MiB.
const WAITING_MAX: usize = 4096;

/// A get is asked again so often: each time the key was written and is missing all the same.
const ASKED_AGAIN_MAX: u8 = 8;

/// How often those that wait are looked at: a lease may have ended elsewhere, and their time may be up. Where more than this number wait,
/// less often, so that it takes no more than one or two of a hundred parts of a processor's time.
const LOOK_NS: u64 = 1_000_000;
const LOOKED_AT_MAX: usize = 1024;

impl FillWait {
    /// Whether the get has missed before.
    pub(super) const fn is_tried(self) -> bool {
        self.until.is_some()
    }
}

impl FillOnce {
    pub(crate) fn new(config: &Config, freshness: &Freshness) -> Self {
        let leases = (config.fill_wait_ns > 0).then(|| freshness.leases());
        Self { leases, wait_ns: config.fill_wait_ns, ..Self::default() }
    }

    /// Whether gets wait to be filled.
    #[inline]
    pub(crate) const fn is_on(&self) -> bool {
        self.leases.is_some()
    }

    // ── misses ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A get of this session has missed, whose deadline is `deadline`. `may_ask`: its session has sent no change behind it. How long it waits
    /// is noted in it.
    pub(crate) fn judge(
        &mut self,
        missed: &mut Missed,
        (id, session): (SessionId, &Session),
        (deadline, may_ask): (Instant, bool),
        now: Instant,
    ) -> Fate {
        let Some(leases) = self.leases.as_ref().filter(|_| !session.is_gone()) else { return Fate::Miss };
        // So that it is looked at before its deadline once more, where no more wait than are looked at in one go.
        let last = Instant::from_nanos(deadline.as_nanos().saturating_sub(LOOK_NS));
        let until = *missed.wait.until.get_or_insert_with(|| now.plus(self.wait_ns).min(last));
        let is_read_only = session.gate().user().is_some_and(|user| user.is_read_only());
        let wanted = (!is_read_only).then(|| now.plus(self.wait_ns));
        match leases.take(missed.hash, missed.sent, wanted, now) {
            Found::Free => Fate::Miss,
            Found::Full => Fate::NoRoom,
            Found::Own(lease) => {
                self.note_own((id, missed.hash), lease);
                Fate::Fill
            }
            Found::Taken(lease) if self.own.get(&(id, missed.hash)) == Some(&lease) => Fate::Miss,
            Found::Taken(_) | Found::Written if !may_ask => Fate::Miss,
            Found::Written if deadline > now && missed.wait.asked_again < ASKED_AGAIN_MAX => {
                missed.wait.asked_again += 1;
                Fate::AskAgain
            }
            Found::Written => Fate::Late,
            Found::Taken(_) if until <= now => Fate::Late,
            Found::Taken(_) if self.waiting.len() >= WAITING_MAX => Fate::NoRoom,
            Found::Taken(_) => Fate::Wait,
        }
    }

    /// Ended leases are looked for when as many were added as there can be at once, so that each costs a step or two, whatever clients ask.
    fn note_own(&mut self, of: (SessionId, u32), lease: Lease) {
        if self.own.len() >= self.own_left + LEASES_MAX
            && let Some(leases) = &self.leases
        {
            // A write ends a lease long before its time is up, and the copy here does not say so.
            self.own.retain(|&(_, hash), lease| leases.has(hash, *lease));
            self.own_left = self.own.len();
        }
        self.own.insert(of, lease);
    }

    /// A write has its answer, and nobody has seen it.
    pub(crate) fn end_write(&mut self, written: Written, now: Instant) {
        if let (Some(leases), Written::Key(hash)) = (&self.leases, written) {
            self.is_stirred |= leases.end(hash, now);
        }
    }

    /// The session's connection is gone: others may fill what it was to.
    pub(crate) fn end_session(&mut self, id: SessionId) {
        let Some(leases) = self.leases.as_ref().filter(|_| !self.own.is_empty()) else { return };
        let own: Vec<_> = self.own.range((id, 0)..=(id, u32::MAX)).map(|(of, lease)| (*of, *lease)).collect();
        for (of, lease) in own {
            self.own.remove(&of);
            self.is_stirred |= leases.give_up(of.1, lease);
        }
    }

    // ── those that wait ────────────────────────────────────────────────────────────────────────────────────────────────────

    /// It waits from now on, or goes on waiting.
    pub(crate) fn wait(&mut self, waiting: Waiting, now: Instant) {
        if self.waiting.is_empty() {
            self.looked = now;
        }
        self.waiting.push_back(waiting);
    }

    /// When those that wait are to be looked at, if any do.
    #[inline]
    pub(crate) fn due(&self) -> Option<Instant> {
        if self.waiting.is_empty() {
            return None;
        }
        let pauses = self.waiting.len() / LOOKED_AT_MAX + usize::from(!self.is_stirred);
        Some(self.looked.plus(LOOK_NS * pauses as u64))
    }

    /// All that wait are looked at now. Returns how many these are, to take as many: who is to wait on is handed in again.
    pub(crate) fn begin_look(&mut self, now: Instant) -> usize {
        (self.is_stirred, self.looked) = (false, now);
        self.waiting.len()
    }

    /// The one that has waited for longest since it was looked at.
    pub(crate) fn take_first(&mut self) -> Option<Waiting> {
        self.waiting.pop_front()
    }

    /// How many leases of sessions are kept: for tests.
    #[cfg(test)]
    fn own(&self) -> usize {
        self.own.len()
    }

    /// Nobody waits: for tests.
    pub(crate) fn is_quiet(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_that_writes_have_ended_are_forgotten_long_before_their_time_is_up() {
        let leases = Arc::new(Leases::default());
        let mut fill_once =
            FillOnce { leases: Some(Arc::clone(&leases)), wait_ns: 10_000_000_000, ..FillOnce::default() };
        let (id, now) = (SessionId::from_index(0), Instant::from_nanos(1_000_000_000));
        for hash in 0..10 * LEASES_MAX as u32 {
            let Found::Own(lease) = leases.take(hash, now, Some(now.plus(10_000_000_000)), now) else {
                panic!("nobody has the lease of {hash}")
            };
            fill_once.note_own((id, hash), lease);
            fill_once.end_write(Written::Key(hash), now);
            assert!(fill_once.own() <= LEASES_MAX + 1, "{} after {hash} keys", fill_once.own());
        }
    }

    #[test]
    fn leases_that_are_held_are_kept_and_given_up_with_their_session() {
        let leases = Arc::new(Leases::default());
        let mut fill_once = FillOnce { leases: Some(Arc::clone(&leases)), ..FillOnce::default() };
        let now = Instant::from_nanos(1_000_000_000);
        let until = Some(now.plus(1_000_000_000));
        let (one, other) = (SessionId::from_index(0), SessionId::from_index(1));
        let Found::Own(held) = leases.take(7, now, until, now) else { panic!("nobody has it") };
        fill_once.note_own((one, 7), held);
        for hash in 1000..1000 + 4 * LEASES_MAX as u32 {
            if let Found::Own(lease) = leases.take(hash, now, until, now) {
                fill_once.note_own((other, hash), lease);
                fill_once.end_write(Written::Key(hash), now);
            }
        }
        assert!(matches!(leases.take(7, now, until, now), Found::Taken(lease) if lease == held));
        fill_once.end_session(one);
        assert!(matches!(leases.take(7, now, until, now), Found::Own(_)), "the next may fill");
    }
}
