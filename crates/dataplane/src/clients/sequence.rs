//! The order of one client's requests where they are served at different places.
//!
//! A client that sends `set a` and `get a` in one go must find what it has set. Requests that go over the same connections keep their
//! order by themselves; a write that is mailed to another loop does not. So a session counts which keys its requests in service read,
//! and which they write elsewhere, and a request that would overtake one of them waits, and with it all that the client has sent behind
//! it:
//!
//! - a read waits for mailed writes of its keys,
//! - a mailed write waits for reads of its key (other writes of that key are mailed to the same owner, in their order).
//!
//! Keys are told apart by six bits of their hash: one that shares them waits without need, which is harmless. There is nothing to count
//! where no key has replicas, or where there is one loop.

use crate::{Dataplane, SessionId, requests::hosted::writes, wire::hash::hash, wire::key::WireKey};
use weir_protocol::{Arithmetic, Deletion, Meta, Parsed, Request, Storage, Touch};

/// Keys that requests of one session read, or write elsewhere, while they are in service.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    reads: [u32; SETS],
    writes: [u32; SETS],
}

/// As many sets of keys are told apart: as there are bits in a word.
const SETS: usize = 64;

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

impl Dataplane {
    /// Whether requests of one session may be served at different places.
    #[inline]
    pub(crate) fn is_spread(&self) -> bool {
        self.base.replication.post.is_some() && self.base.fleet.routes.is_replicated()
    }

    /// Whether a request must wait for earlier ones of its session. If not, what it claims is noted when it is taken.
    pub(crate) fn waits_for_earlier(&mut self, id: SessionId, parsed: &Parsed<'_>) -> bool {
        let claim = self.claim(parsed);
        let session = &mut self.base.clients.sessions[id];
        if session.sequence.as_ref().is_some_and(|sequence| !sequence.admits(claim)) {
            session.waits = true;
            self.base.meter.counters.session_order_waits += 1;
            return true;
        }
        if let Some(post) = &mut self.base.replication.post {
            post.claim = claim;
        }
        false
    }

    fn claim(&self, parsed: &Parsed<'_>) -> Claim {
        let (wire, is_write) = match *parsed {
            Parsed::Request { request, .. } => match request {
                Request::Retrieval(retrieval) => {
                    return Claim {
                        sets: retrieval.keys().fold(0, |sets, key| sets | set_of(key)),
                        writes: false,
                    };
                }
                Request::FlushAll { .. } | Request::ServerCommand { .. } => {
                    return Claim { sets: u64::MAX, writes: false };
                }
                Request::Storage(Storage { key, .. })
                | Request::Deletion(Deletion { key, .. })
                | Request::Arithmetic(Arithmetic { key, .. })
                | Request::Touch(Touch { key, .. }) => (WireKey { bytes: key, base64: false }, true),
                Request::Meta(meta) => (wire_key(&meta), writes(&meta)),
                _ => return Claim::default(),
            },
            Parsed::TooLarge { key, base64, erases: true, .. } => (WireKey { bytes: key, base64 }, true),
            _ => return Claim::default(),
        };
        let decoded = wire.decoded();
        let name = wire.placement_name(decoded.as_ref());
        if is_write && self.other_owner(name).is_none() {
            return Claim::default();
        }
        Claim { sets: set_of(name), writes: is_write }
    }

    /// A request that was begun claims its keys.
    pub(crate) fn enter_claim(&mut self, id: SessionId, claim: Claim) {
        self.base.clients.sessions[id].sequence.get_or_insert_default().enter(claim);
    }

    /// A request is done; one that waited for it may go on.
    pub(crate) fn leave_claim(&mut self, id: SessionId, claim: Claim) {
        let session = &mut self.base.clients.sessions[id];
        if let Some(sequence) = &mut session.sequence {
            sequence.leave(claim);
        }
        if std::mem::take(&mut session.waits) {
            self.base.clients.resumable.push_back(id);
        }
    }
}

fn wire_key<'a>(meta: &Meta<'a>) -> WireKey<'a> {
    WireKey::of(meta)
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
