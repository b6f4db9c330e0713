//! Who of a process's clients may fill which missing key, and until when: what all dataplanes know together (`requests/fill_once.rs`).
//!
//! ```text
//!   get 1 misses   take: nobody has the lease ──▶ Own: its client is answered the miss, and may fill
//!   get 2 misses   take: another has it ─────────▶ Taken: it waits
//!   set            end, before its client is answered
//!   get 2          take: the key was written ────▶ Written: it is asked again
//! ```
//!
//! A lease ends when its time is up, when any write of its key has its answer, or when it is given up because its client is gone. It is
//! known to the process alone. No server hears of it, and nothing that a client may do depends on it.
//!
//! A lease is one word, so there is no lock. The end of a write is kept in it, too, until another takes the place: a get that was sent
//! before that end and missed is asked again.

use std::sync::atomic::{AtomicU64, Ordering};
use weir_timing::Instant;

/// A key, a time in units, and whether that is until when the lease is held or when a write of the key had ended:
///
/// ```text
///   63 ……………………………………… 23 22 …………………………………… 1 0
///   units since the clock's start   key's hash   was written
/// ```
///
/// The units last for more than four years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lease(u64);

/// What comes of a miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A write of the key has ended since the get was sent.
    Written,
    /// Nobody had the lease, and now it is the asker's.
    Own(Lease),
    /// Nobody has it, and the asker does not want it.
    Free,
    /// Another has it, or the asker had it before.
    Taken(Lease),
    /// There is no room for one more.
    Full,
}

/// The leases that all dataplanes of a process share.
#[derive(Debug)]
pub(crate) struct Leases {
    places: Box<[[AtomicU64; WAYS]]>,
}

/// The leases of one place fill a line of the processor's cache.
const WAYS: usize = 8;
const PLACES: usize = 1024;

/// How many there can be at once.
pub(crate) const LEASES_MAX: usize = WAYS * PLACES;

/// Time is counted in units of 65.5 µs.
const UNIT_BITS: u32 = 16;
pub(crate) const UNIT_NS: u64 = 1 << UNIT_BITS;

const KEY_BITS: u32 = 22;

/// How often a word is looked at anew that others change at the same moment.
const ATTEMPTS: usize = 4;

impl Default for Leases {
    fn default() -> Self {
        Self { places: (0..PLACES).map(|_| Default::default()).collect() }
    }
}

impl Leases {
    /// A get of the key with this hash, sent at `sent`, has missed. If it is `wanted`, its client gets the lease until then, if nobody has it.
    pub(crate) fn take(&self, hash: u32, sent: Instant, wanted: Option<Instant>, now: Instant) -> Found {
        for _ in 0..ATTEMPTS {
            let (found, vacant) = self.look(hash, sent, now);
            if let Some(found) = found {
                return found;
            }
            let Some(until) = wanted else { return Found::Free };
            let Some((word, seen)) = vacant else { return Found::Full };
            let own = Lease::held(hash, until.max(now.plus(UNIT_NS)));
            if word.compare_exchange(seen.0, own.0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return Found::Own(own);
            }
        }
        Found::Full
    }

    /// What is known about the key; and if that is nothing, a word for it, with what it says.
    fn look(&self, hash: u32, sent: Instant, now: Instant) -> (Option<Found>, Option<(&AtomicU64, Lease)>) {
        let mut vacant = None;
        for word in self.place(hash) {
            let lease = Lease(word.load(Ordering::SeqCst));
            if lease.has_key(hash) {
                if lease.was_written_since(sent) {
                    return (Some(Found::Written), None);
                }
                if lease.is_held(now) {
                    return (Some(Found::Taken(lease)), None);
                }
                vacant = Some((word, lease));
            } else if vacant.is_none() && !lease.is_held(now) {
                vacant = Some((word, lease));
            }
        }
        (None, vacant)
    }

    /// A write of the key with this hash has its answer, which nobody has seen. Returns whether somebody had the lease.
    pub(crate) fn end(&self, hash: u32, now: Instant) -> bool {
        let written = Lease::written(hash, now);
        let mut was_held = false;
        for word in self.place(hash) {
            for _ in 0..ATTEMPTS {
                let lease = Lease(word.load(Ordering::SeqCst));
                if !lease.has_key(hash) {
                    break;
                }
                if word.compare_exchange(lease.0, written.0, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                    was_held |= lease.is_held(now);
                    break;
                }
            }
        }
        was_held
    }

    /// Whose lease this was is gone. Returns whether it had not ended before.
    pub(crate) fn give_up(&self, hash: u32, lease: Lease) -> bool {
        self.place(hash)
            .iter()
            .any(|word| word.compare_exchange(lease.0, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok())
    }

    /// Whether this lease has not ended, but by its time: nobody has written the key, given it up, or taken its place.
    pub(crate) fn has(&self, hash: u32, lease: Lease) -> bool {
        self.place(hash).iter().any(|word| word.load(Ordering::Relaxed) == lease.0)
    }

    fn place(&self, hash: u32) -> &[AtomicU64; WAYS] {
        &self.places[hash as usize % PLACES]
    }
}

impl Lease {
    const fn held(hash: u32, until: Instant) -> Self {
        Self(units(until) << (KEY_BITS + 1) | key_of(hash) << 1)
    }

    const fn written(hash: u32, at: Instant) -> Self {
        Self(Self::held(hash, at).0 | 1)
    }

    const fn has_key(self, hash: u32) -> bool {
        self.0 != 0 && self.0 >> 1 & ((1 << KEY_BITS) - 1) == key_of(hash)
    }

    const fn units(self) -> u64 {
        self.0 >> (KEY_BITS + 1)
    }

    /// Whether somebody has it.
    pub(crate) const fn is_held(self, now: Instant) -> bool {
        self.0 & 1 == 0 && units(now) < self.units()
    }

    const fn was_written_since(self, then: Instant) -> bool {
        self.0 & 1 == 1 && units(then) <= self.units()
    }
}

/// What a place does not say of a hash already.
const fn key_of(hash: u32) -> u64 {
    (hash / PLACES as u32) as u64
}

const fn units(at: Instant) -> u64 {
    at.as_nanos() >> UNIT_BITS
}

const _: () = assert!(u32::MAX / PLACES as u32 == (1 << KEY_BITS) - 1, "a word has room for a key");

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: u32 = 0xdead_beef;
    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    fn take(leases: &Leases, hash: u32, sent: u64, now: u64) -> Found {
        leases.take(hash, at(sent), Some(at(now + 100)), at(now))
    }

    fn own(found: Found) -> Lease {
        match found {
            Found::Own(lease) => lease,
            other => panic!("it is to be had: {other:?}"),
        }
    }

    #[test]
    fn one_has_it_until_its_time_is_up() {
        let leases = Leases::default();
        assert_eq!(leases.take(HASH, at(5), None, at(5)), Found::Free);
        let lease = own(take(&leases, HASH, 5, 6));
        assert_eq!(take(&leases, HASH, 5, 105), Found::Taken(lease));
        assert_eq!(leases.take(HASH, at(5), None, at(105)), Found::Taken(lease));
        assert_ne!(own(take(&leases, HASH, 5, 107)), lease, "the next may have it");
        own(take(&leases, HASH + PLACES as u32, 5, 6));
        own(take(&leases, HASH + 1, 5, 6));
    }

    #[test]
    fn who_asked_before_a_write_ended_asks_again_and_who_asked_later_may_fill() {
        let leases = Leases::default();
        own(take(&leases, HASH, 5, 6));
        leases.end(HASH + 1, at(50));
        leases.end(HASH + PLACES as u32, at(50));
        assert!(matches!(take(&leases, HASH, 5, 50), Found::Taken(_)), "those are other keys");
        leases.end(HASH, at(50));
        assert_eq!(take(&leases, HASH, 50, 60), Found::Written);
        leases.end(HASH, at(70));
        assert_eq!(take(&leases, HASH, 60, 71), Found::Written, "the last write counts");
        own(take(&leases, HASH, 71, 71));
    }

    #[test]
    fn what_is_given_up_is_anothers_and_what_had_ended_stays_so() {
        let leases = Leases::default();
        let lease = own(take(&leases, HASH, 5, 6));
        leases.give_up(HASH, lease);
        let next = own(take(&leases, HASH, 5, 7));
        leases.give_up(HASH, lease);
        assert_eq!(take(&leases, HASH, 5, 7), Found::Taken(next), "that was the first one's");
        leases.end(HASH, at(8));
        leases.give_up(HASH, next);
        assert_eq!(take(&leases, HASH, 5, 9), Found::Written);
    }

    #[test]
    fn a_place_has_room_for_so_many_and_no_more() {
        let leases = Leases::default();
        let key = |number: usize| (number * PLACES) as u32;
        (0..WAYS).for_each(|number| _ = own(take(&leases, key(number), 5, 6)));
        assert_eq!(take(&leases, key(WAYS), 5, 6), Found::Full);
        assert!(matches!(take(&leases, key(3), 5, 6), Found::Taken(_)));
        leases.end(key(3), at(7));
        own(take(&leases, key(WAYS), 5, 8));
        assert!(matches!(take(&leases, key(2), 5, 8), Found::Taken(_)));
    }

    #[test]
    fn of_many_that_come_at_once_one_has_it() {
        let leases = Leases::default();
        let count = |hash| {
            std::thread::scope(|scope| {
                let all: Vec<_> = (0..4)
                    .map(|_| scope.spawn(|| matches!(take(&leases, hash, 5, 6), Found::Own(_))))
                    .collect();
                all.into_iter().map(|it| it.join().expect("it ends")).filter(|has| *has).count()
            })
        };
        assert!((0..50).all(|hash| count(hash) == 1));
    }
}
