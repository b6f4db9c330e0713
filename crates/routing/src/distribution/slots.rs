use super::circle::Circle;
use crate::hash::KeyHash;

/// A list of slots, each held by a server: a hash modulo their number is the slot.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    owners: Circle,
}

impl Slots {
    /// Slots held by `owners`, of which there is at least one.
    pub(crate) fn new(owners: Vec<u16>) -> Self {
        Self { owners: Circle::new(owners) }
    }

    /// The same, for keys that have up to `replicas` servers each.
    pub(crate) fn for_replicas(self, replicas: usize) -> Self {
        Self { owners: self.owners.for_replicas(replicas) }
    }

    /// How many slots there are.
    pub(crate) const fn len(&self) -> usize {
        self.owners.len()
    }

    /// The server that holds the slot of `digest`.
    pub(crate) fn owner(&self, hash: KeyHash, digest: u32) -> usize {
        self.owners.owner(self.slot(hash, digest))
    }

    /// The holders of the digest's slot and of the slots after it, as [`Circle::owners_from`] has them.
    pub(crate) fn owners_from(&self, hash: KeyHash, digest: u32) -> impl Iterator<Item = u16> {
        self.owners.owners_from(self.slot(hash, digest))
    }

    /// Java's hashes may be negative. Their modulo is the floored one: a truncated remainder would be negative, too.
    fn slot(&self, hash: KeyHash, digest: u32) -> usize {
        let digest = if hash == KeyHash::Java { i64::from(digest.cast_signed()) } else { i64::from(digest) };
        digest.rem_euclid(self.owners.len() as i64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(hash: KeyHash, key: &[u8], slots: u16) -> usize {
        Slots::new((0..slots).collect()).owner(hash, hash.digest(key))
    }

    #[test]
    fn negative_hashes_are_placed_by_floored_modulo() {
        assert_eq!(slot(KeyHash::Java, b"hello", 10), 2);
        // hashCode is -2147483648; its truncated remainder by 3 is -2.
        assert_eq!(slot(KeyHash::Java, b"polygenelubricants", 3), 1);
        assert_eq!(slot(KeyHash::Java, b"polygenelubricants", 10), 2);
    }

    #[test]
    fn other_hashes_are_not_negative() {
        assert_eq!(slot(KeyHash::Crc32a, b"apple", 10), 8); // 2838417488 has the upper bit set
    }
}
