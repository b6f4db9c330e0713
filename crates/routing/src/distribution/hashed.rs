use super::ring::Ring;
use super::slots::Slots;
use crate::hash::{KeyHash, MD5_LANES, md5_of_each};

/// A rule by which 32 bits of hash decide: where they fall on a circle, or which slot they stand for.
#[derive(Clone, Debug)]
pub(crate) struct Hashed {
    hash: KeyHash,
    /// An empty key hashes to 0.
    empty_is_zero: bool,
    owners: Owners,
}

#[derive(Clone, Debug)]
enum Owners {
    Ring(Ring),
    Slots(Slots),
}

impl Hashed {
    /// How many points or slots there are.
    pub(crate) fn len(&self) -> usize {
        match &self.owners {
            Owners::Ring(ring) => ring.len(),
            Owners::Slots(slots) => slots.len(),
        }
    }

    /// The most keys of [`Self::fill_each`].
    pub(crate) const KEYS_AT_ONCE: usize = MD5_LANES;

    /// The first point at or after the hash has the key.
    pub(crate) fn ring(ring: Ring, hash: KeyHash) -> Self {
        Self { hash, empty_is_zero: false, owners: Owners::Ring(ring) }
    }

    /// The hash modulo the slots is the key's.
    pub(crate) fn slots(slots: Slots, hash: KeyHash) -> Self {
        Self { hash, empty_is_zero: false, owners: Owners::Slots(slots) }
    }

    /// The same, for keys that have up to `replicas` servers each. Without it they have one.
    pub(crate) fn for_replicas(self, replicas: usize) -> Self {
        let owners = match self.owners {
            Owners::Ring(ring) => Owners::Ring(ring.for_replicas(replicas)),
            Owners::Slots(slots) => Owners::Slots(slots.for_replicas(replicas)),
        };
        Self { owners, ..self }
    }

    /// The same, where an empty key is not hashed.
    pub(crate) fn with_empty_at_zero(self) -> Self {
        Self { empty_is_zero: true, ..self }
    }

    /// The place of the key's first server.
    pub(crate) fn primary(&self, key: &[u8]) -> usize {
        let digest = self.digest(key);
        match &self.owners {
            Owners::Ring(ring) => ring.owner(digest),
            Owners::Slots(slots) => slots.owner(self.hash, digest),
        }
    }

    /// Whether `server` is the first of any key.
    pub(crate) fn has(&self, server: u16) -> bool {
        match &self.owners {
            Owners::Ring(ring) => ring.has(server),
            Owners::Slots(_) => true,
        }
    }

    /// Fills `out` with the key's distinct servers, of a pool of `servers`.
    pub(crate) fn fill(&self, key: &[u8], servers: usize, out: &mut [u16]) {
        self.fill_at(self.digest(key), servers, out);
    }

    /// Whether keys go by their MD5: several are hashed in hardly more time than one.
    pub(crate) fn is_by_md5(&self) -> bool {
        self.hash == KeyHash::Md5
    }

    /// Fills `out` for each of `keys`, and calls `each` with it, where keys go by their MD5. There are at most
    /// [`Self::KEYS_AT_ONCE`].
    pub(crate) fn fill_each(
        &self,
        keys: &[&[u8]],
        servers: usize,
        out: &mut [u16],
        mut each: impl FnMut(&mut [u16]),
    ) {
        for (key, digest) in keys.iter().zip(md5_of_each(keys)) {
            self.fill_at(if self.is_zero(key) { 0 } else { digest }, servers, out);
            each(out);
        }
    }

    fn digest(&self, key: &[u8]) -> u32 {
        if self.is_zero(key) { 0 } else { self.hash.digest(key) }
    }

    fn is_zero(&self, key: &[u8]) -> bool {
        self.empty_is_zero && key.is_empty()
    }

    #[inline]
    fn fill_at(&self, digest: u32, servers: usize, out: &mut [u16]) {
        match (&self.owners, out) {
            (Owners::Ring(ring), [only]) => *only = ring.owner(digest) as u16,
            (Owners::Ring(ring), out) => {
                // A server too light for a point comes last, so that every list is long enough.
                let pointless = (0u16..).take(servers);
                fill_distinct(ring.owners_from(digest).chain(pointless), out);
            }
            (Owners::Slots(slots), [only]) => *only = slots.owner(self.hash, digest) as u16,
            (Owners::Slots(slots), out) => fill_distinct(slots.owners_from(self.hash, digest), out),
        }
    }
}

/// Fills `out` with the first distinct owners, of whom there are enough.
fn fill_distinct(owners: impl Iterator<Item = u16>, out: &mut [u16]) {
    let mut filled = 0;
    for owner in owners {
        if filled == out.len() {
            return;
        }
        if !out[..filled].contains(&owner) {
            out[filled] = owner;
            filled += 1;
        }
    }
    debug_assert_eq!(filled, out.len(), "it was made for fewer replicas");
}
