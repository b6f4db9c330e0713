//! The order of one client's requests where they are served at different places.
//!
//! A client that sends `set a` and `get a` in one go must find what it has set. Requests that go over the same connections keep their order
//! by themselves; a write that is mailed to another loop does not. So a session counts which keys its requests in service read, and which
//! they write elsewhere. A request that would overtake one of them waits, and with it all that the client has sent behind it:
//!
//! - a read waits for mailed writes of its keys,
//! - a mailed write waits for reads of its key (other writes of that key are mailed to the same owner, in their order).
//!
//! Keys are distinguished by six bits of their hash: one that shares them waits without need, which is harmless. There is nothing to count
//! where no key has replicas, or where there is one loop.

use crate::{wire::hash::hash, wire::key::WireKey, wire::written::writes};
use weir_protocol::{Arithmetic, Deletion, Parsed, Request, Storage, Touch};

/// Keys that requests of one session read, or write elsewhere, while they are in service.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    reads: [u32; SETS],
    writes: [u32; SETS],
}

/// As many sets of keys are distinguished as there are bits in a word.
const SETS: usize = 64;

/// A read of more keys than this is taken to concern every set, as it most likely does: a line of megabytes has a million keys.
const KEYS_LOOKED_AT_MAX: usize = 512;

/// What one request does to which sets of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    /// A bit for each set.
    sets: u64,
    /// It writes, and elsewhere.
    writes: bool,
}

impl Claim {
    pub(crate) const NONE: Self = Self { sets: 0, writes: false };

    pub(crate) const fn is_empty(self) -> bool {
        self.sets == 0
    }

    fn sets(self) -> impl Iterator<Item = usize> {
        let mut rest = self.sets;
        std::iter::from_fn(move || {
            let set = rest.trailing_zeros() as usize;
            rest &= rest.wrapping_sub(1);
            (set < SETS).then_some(set)
        })
    }
}

impl Sequence {
    fn admits(&self, claim: Claim) -> bool {
        let excluding = if claim.writes { &self.reads } else { &self.writes };
        claim.sets().all(|set| excluding[set] == 0)
    }

    fn enter(&mut self, claim: Claim) {
        let counts = if claim.writes { &mut self.writes } else { &mut self.reads };
        claim.sets().for_each(|set| counts[set] += 1);
    }

    fn leave(&mut self, claim: Claim) {
        let counts = if claim.writes { &mut self.writes } else { &mut self.reads };
        claim.sets().for_each(|set| counts[set] -= 1);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.reads.iter().chain(&self.writes).all(|count| *count == 0)
    }
}

impl Default for Sequence {
    fn default() -> Self {
        Self { reads: [0; SETS], writes: [0; SETS] }
    }
}

/// The order of one session's requests.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    sequence: Option<Box<Sequence>>,
    /// What the request that is being taken claims.
    claim: Claim,
    /// The next request waits for an earlier one.
    is_waiting: bool,
}

impl Claims {
    /// Whether a request must wait for earlier ones. If not, what it claims is noted for [`Claims::enter`].
    pub(crate) fn waits(&mut self, claim: Claim) -> bool {
        if self.sequence.as_ref().is_some_and(|sequence| !sequence.admits(claim)) {
            self.is_waiting = true;
            return true;
        }
        self.claim = claim;
        false
    }

    /// The request that was noted last is in service.
    #[inline]
    pub(crate) fn enter(&mut self) -> Claim {
        if self.claim.is_empty() {
            return Claim::NONE;
        }
        let claim = std::mem::take(&mut self.claim);
        self.sequence.get_or_insert_default().enter(claim);
        claim
    }

    /// Whether the next request waits for an earlier one.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// A request is done. Returns whether one waited, and may go on.
    pub(crate) fn leave(&mut self, claim: Claim) -> bool {
        if let Some(sequence) = &mut self.sequence {
            sequence.leave(claim);
        }
        std::mem::take(&mut self.is_waiting)
    }

    /// Frees the memory of what is empty.
    pub(crate) fn give_memory_back(&mut self) {
        self.sequence.take_if(|sequence| sequence.is_empty());
    }
}

impl Claim {
    /// What a request claims; `goes_elsewhere` says of a key whether a write to it is served elsewhere.
    pub(crate) fn of(parsed: &Parsed<'_>, goes_elsewhere: impl Fn(&[u8]) -> bool) -> Self {
        let (wire, is_write) = match *parsed {
            Parsed::Request { request, .. } => match request {
                Request::Retrieval(retrieval) => {
                    if retrieval.key_count() > KEYS_LOOKED_AT_MAX {
                        return Self { sets: u64::MAX, writes: false };
                    }
                    return Self {
                        sets: retrieval.keys().fold(0, |sets, key| sets | set_of(key)),
                        writes: false,
                    };
                }
                Request::FlushAll { .. } | Request::ServerCommand { .. } => {
                    return Self { sets: u64::MAX, writes: false };
                }
                Request::Storage(Storage { key, .. })
                | Request::Deletion(Deletion { key, .. })
                | Request::Arithmetic(Arithmetic { key, .. })
                | Request::Touch(Touch { key, .. }) => (WireKey { bytes: key, base64: false }, true),
                Request::Meta(meta) => (WireKey::of(&meta), writes(&meta)),
                _ => return Self::NONE,
            },
            Parsed::TooLarge { key, base64, erases: true, .. } => (WireKey { bytes: key, base64 }, true),
            _ => return Self::NONE,
        };
        let decoded = wire.decoded();
        let name = wire.placement_name(decoded.as_ref());
        if is_write && !goes_elsewhere(name) {
            return Self::NONE;
        }
        Self { sets: set_of(name), writes: is_write }
    }
}

fn set_of(name: &[u8]) -> u64 {
    1 << (hash(name) % SETS as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &[u8], writes: bool) -> Claim {
        Claim { sets: set_of(name), writes }
    }

    #[test]
    fn reads_wait_for_writes_elsewhere_and_these_for_reads() {
        let mut sequence = Sequence::default();
        sequence.enter(claim(b"a", true));
        sequence.enter(claim(b"a", true));
        assert!(!sequence.admits(claim(b"a", false)));
        assert!(sequence.admits(claim(b"a", true)), "they take the same way");
        assert!(sequence.admits(claim(b"b", false)));
        sequence.leave(claim(b"a", true));
        assert!(!sequence.admits(claim(b"a", false)));
        sequence.leave(claim(b"a", true));
        sequence.enter(Claim { sets: u64::MAX, writes: false });
        assert!(!sequence.admits(claim(b"a", true)) && sequence.admits(claim(b"a", false)));
        assert!(!sequence.is_empty());
        sequence.leave(Claim { sets: u64::MAX, writes: false });
        assert!(sequence.is_empty());
        assert_eq!(Claim::default().sets().count(), 0);
        assert_eq!(
            Claim { sets: u64::MAX, writes: true }.sets().collect::<Vec<_>>(),
            (0..SETS).collect::<Vec<_>>()
        );
    }
}
