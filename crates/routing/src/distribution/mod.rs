//! Distributions: from a key to the places of its servers in the pool.
//!
//! One file per rule. Each answers for the first server of a key, and for the servers after it, in an order that never
//! depends on how many are asked for. All are immutable, and none allocates to answer.

mod furc;
mod jump;
mod rendezvous;
mod ring;
mod shard;
mod slots;

pub(crate) use self::furc::{Furc, WeightedFurc};
pub(crate) use self::jump::Jump;
pub(crate) use self::rendezvous::{Rendezvous, Score};
pub(crate) use self::ring::{Point, Ring};
pub(crate) use self::shard::ConstShard;
pub(crate) use self::slots::Slots;

use crate::hash::{KeyHash, crc32a};

/// A pool's distribution, ready to answer.
#[derive(Clone, Debug)]
pub(crate) enum Distribution {
    /// One server holds everything, and nothing is hashed.
    Single,
    /// Points on a circle. An empty key hashes to 0 where `empty_is_zero`.
    Ring { ring: Ring, hash: KeyHash, empty_is_zero: bool },
    /// The hash modulo a list of slots.
    Slots { slots: Slots, hash: KeyHash, empty_is_zero: bool },
    /// Jump consistent hashing.
    Jump(Jump),
    /// The highest score wins.
    Rendezvous(Rendezvous),
    /// mcrouter's Crc32.
    Crc32 {
        /// Servers.
        buckets: usize,
    },
    /// mcrouter's Ch3.
    Furc(Furc),
    /// mcrouter's WeightedCh3.
    WeightedFurc(WeightedFurc),
    /// mcrouter's ConstShard.
    ConstShard(ConstShard),
}

impl Distribution {
    /// The place of the key's first server.
    pub(crate) fn primary(&self, key: &[u8]) -> usize {
        match self {
            Self::Single => 0,
            Self::Ring { ring, hash, empty_is_zero } => ring.owner(digest(*hash, *empty_is_zero, key)),
            Self::Slots { slots, hash, empty_is_zero } => {
                slots.owner(*hash, digest(*hash, *empty_is_zero, key))
            }
            Self::Jump(jump) => jump.bucket(key),
            Self::Rendezvous(rendezvous) => rendezvous.primary(key),
            Self::Crc32 { buckets } => crc32_bucket(key, *buckets),
            Self::Furc(furc) => furc.bucket(key),
            Self::WeightedFurc(furc) => furc.bucket(key),
            Self::ConstShard(shards) => shards.bucket(key),
        }
    }

    /// Fills `out`, which is no longer than the pool of `servers`, with the key's distinct servers, the first one first.
    ///
    /// Rings go on around the circle, slots down their list, scores by rank; rules that know one server alone go on
    /// through the pool in its configured order.
    pub(crate) fn fill(&self, key: &[u8], servers: usize, out: &mut [u16]) {
        match self {
            Self::Ring { ring, hash, empty_is_zero } => {
                fill_distinct(ring.owners_from(digest(*hash, *empty_is_zero, key)), out);
            }
            Self::Slots { slots, hash, empty_is_zero } => {
                fill_distinct(slots.owners_from(*hash, digest(*hash, *empty_is_zero, key)), out);
            }
            Self::Rendezvous(rendezvous) => rendezvous.fill(key, out),
            _ => {
                let primary = self.primary(key);
                for (step, server) in out.iter_mut().enumerate() {
                    *server = ((primary + step) % servers) as u16;
                }
            }
        }
    }
}

fn digest(hash: KeyHash, empty_is_zero: bool, key: &[u8]) -> u32 {
    if empty_is_zero && key.is_empty() { 0 } else { hash.digest(key) }
}

/// The lower 31 bits of the true CRC-32: neither libmemcached's function nor PHP's.
fn crc32_bucket(key: &[u8], buckets: usize) -> usize {
    (crc32a(key) & 0x7fff_ffff) as usize % buckets
}

/// Fills `out` with the first distinct owners. Every server owns something, so once around meets enough.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_fall_where_mcrouter_puts_them() {
        assert_eq!(crc32_bucket(b"sample", 100), 7);
        assert_eq!(crc32_bucket(b"sample", (1 << 30) - 1), 822_834_884);
    }
}
