//! Distributions: from a key to the places of its servers in the pool.
//!
//! One file per rule. Each answers for the first server of a key, and for the servers after it, in an order that never
//! depends on how many are asked for. All are immutable, and none allocates to answer.

mod circle;
mod furc;
mod hashed;
mod jump;
mod rendezvous;
mod ring;
mod shard;
mod slots;

pub(crate) use self::furc::{Furc, WeightedFurc};
pub(crate) use self::hashed::Hashed;
pub(crate) use self::jump::Jump;
pub(crate) use self::rendezvous::{Rendezvous, Score};
pub(crate) use self::ring::{Point, Ring};
pub(crate) use self::shard::ConstShard;
pub(crate) use self::slots::Slots;

use crate::hash::crc32a;

/// A pool's distribution, ready to answer.
#[derive(Clone, Debug)]
pub(crate) enum Distribution {
    /// One server holds everything, and nothing is hashed.
    Single,
    /// Points on a circle, or the hash modulo a list of slots.
    Hashed(Hashed),
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
            Self::Hashed(hashed) => hashed.primary(key),
            Self::Jump(jump) => jump.bucket(key),
            Self::Rendezvous(rendezvous) => rendezvous.primary(key),
            Self::Crc32 { buckets } => crc32_bucket(key, *buckets),
            Self::Furc(furc) => furc.bucket(key),
            Self::WeightedFurc(furc) => furc.bucket(key),
            Self::ConstShard(shards) => shards.bucket(key),
        }
    }

    /// Whether the server at `place` is the first of any key.
    pub(crate) fn has_keys(&self, place: u16) -> bool {
        match self {
            Self::Hashed(hashed) => hashed.has(place),
            _ => true,
        }
    }

    /// Fills `out`, which is no longer than the pool of `servers`, with the key's distinct servers, the first one first.
    ///
    /// Rings go on around the circle, slots down their list, scores by rank; rules that know one server alone go on
    /// through the pool in its configured order.
    pub(crate) fn fill(&self, key: &[u8], servers: usize, out: &mut [u16]) {
        match self {
            Self::Hashed(hashed) => hashed.fill(key, servers, out),
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

/// The lower 31 bits of the true CRC-32: neither libmemcached's function nor PHP's.
fn crc32_bucket(key: &[u8], buckets: usize) -> usize {
    (crc32a(key) & 0x7fff_ffff) as usize % buckets
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
