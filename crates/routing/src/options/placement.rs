use std::fmt;
use std::str::FromStr;

use crate::hash::KeyHash;
use crate::hash::KeyHash::{
    Crc16, Crc32, Crc32a, Fnv1_32, Fnv1_64, Fnv1a32, Fnv1a64, Hsieh, Java, Jenkins, Md5, Murmur, Murmur3,
    OneAtATime, Xxh3,
};

/// The rule that places keys on servers. `docs/understand/placement.md` tells which fleet each is for.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Placement {
    /// The key's hash modulo the number of servers, in configured order. Adding a server moves nearly every key.
    Modulo,
    /// Weir's ring: 160 points per unit of weight, so that a server that comes or goes moves no other's keys.
    Ring,
    /// Jump consistent hashing: even to the last key, for pools that grow and shrink at their end.
    Jump,
    /// Rendezvous hashing: the most even rule by weight in which any server may leave.
    Rendezvous,
    /// libmemcached as it comes: the hash modulo the number of servers.
    LibmemcachedDefault,
    /// libmemcached with `DISTRIBUTION_CONSISTENT`: 100 points per server, by the key's hash function.
    LibmemcachedConsistent,
    /// libmemcached with `KETAMA`: the same under another name.
    LibmemcachedKetama,
    /// libmemcached with `KETAMA_WEIGHTED`, and most client libraries after it: 160 points per server of average
    /// weight.
    #[default]
    LibmemcachedKetamaWeighted,
    /// libmemcached with `DISTRIBUTION_CONSISTENT_KETAMA_SPY`, for fleets that spymemcached shares.
    Spymemcached,
    /// The original libketama.
    Ketama,
    /// twemproxy with `distribution: ketama`.
    TwemproxyKetama,
    /// twemproxy with `distribution: modula`.
    TwemproxyModula,
    /// memcached's proxy with `dist_jump_hash`, its default.
    MemcachedProxyJump,
    /// memcached's proxy with `dist_ring_hash`.
    MemcachedProxyRingDefault,
    /// memcached's proxy with `dist_ring_hash` and `omode = "ketama"`.
    MemcachedProxyRingKetama,
    /// memcached's proxy with `dist_ring_hash` and `omode = "twemproxy"`.
    MemcachedProxyRingTwemproxy,
    /// memcached's proxy with `dist_ring_hash` and `omode = "evcache"`.
    MemcachedProxyRingEvcache,
    /// mcrouter's `Ch3`, its default.
    McrouterCh3,
    /// mcrouter's `WeightedCh3`: weights from 0 to 1.
    McrouterWeightedCh3,
    /// mcrouter's `Crc32`.
    McrouterCrc32,
    /// mcrouter's `Rendezvous`: a server's name is its tag.
    McrouterRendezvous,
    /// mcrouter's `ConstShard`: a key `x:2:y` goes to server 2.
    McrouterConstShard,
}

/// A placement's name that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown placement {name:?}: use one of {}", Placement::ALL.map(Placement::name).join(", "))]
pub struct UnknownPlacement {
    name: String,
}

/// twemproxy's own order of names, its default first.
const TWEMPROXY: &[KeyHash] =
    &[Fnv1a64, OneAtATime, Md5, Crc16, Crc32, Crc32a, Fnv1_64, Fnv1_32, Fnv1a32, Hsieh, Murmur, Jenkins];
const LIBMEMCACHED: &[KeyHash] =
    &[OneAtATime, Md5, Crc32, Fnv1_64, Fnv1a64, Fnv1_32, Fnv1a32, Hsieh, Murmur, Jenkins, Murmur3];
const LIBMEMCACHED_WEIGHTED: &[KeyHash] =
    &[Md5, OneAtATime, Crc32, Fnv1_64, Fnv1a64, Fnv1_32, Fnv1a32, Hsieh, Murmur, Jenkins, Murmur3];
const JAVA_FIRST: &[KeyHash] = &[
    Java, Xxh3, OneAtATime, Md5, Crc16, Crc32, Crc32a, Fnv1_64, Fnv1a64, Fnv1_32, Fnv1a32, Hsieh, Murmur,
    Jenkins, Murmur3,
];
const XXH3_FIRST: &[KeyHash] = &[
    Xxh3, Java, OneAtATime, Md5, Crc16, Crc32, Crc32a, Fnv1_64, Fnv1a64, Fnv1_32, Fnv1a32, Hsieh, Murmur,
    Jenkins, Murmur3,
];

impl Placement {
    /// All of them.
    pub const ALL: [Self; 22] = [
        Self::Modulo,
        Self::Ring,
        Self::Jump,
        Self::Rendezvous,
        Self::LibmemcachedDefault,
        Self::LibmemcachedConsistent,
        Self::LibmemcachedKetama,
        Self::LibmemcachedKetamaWeighted,
        Self::Spymemcached,
        Self::Ketama,
        Self::TwemproxyKetama,
        Self::TwemproxyModula,
        Self::MemcachedProxyJump,
        Self::MemcachedProxyRingDefault,
        Self::MemcachedProxyRingKetama,
        Self::MemcachedProxyRingTwemproxy,
        Self::MemcachedProxyRingEvcache,
        Self::McrouterCh3,
        Self::McrouterWeightedCh3,
        Self::McrouterCrc32,
        Self::McrouterRendezvous,
        Self::McrouterConstShard,
    ];

    /// The placement's name in configuration and records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Modulo => "modulo",
            Self::Ring => "ring",
            Self::Jump => "jump",
            Self::Rendezvous => "rendezvous",
            Self::LibmemcachedDefault => "libmemcached/default",
            Self::LibmemcachedConsistent => "libmemcached/consistent",
            Self::LibmemcachedKetama => "libmemcached/ketama",
            Self::LibmemcachedKetamaWeighted => "libmemcached/ketama-weighted",
            Self::Spymemcached => "spymemcached",
            Self::Ketama => "ketama",
            Self::TwemproxyKetama => "twemproxy/ketama",
            Self::TwemproxyModula => "twemproxy/modula",
            Self::MemcachedProxyJump => "memcached-proxy/jump",
            Self::MemcachedProxyRingDefault => "memcached-proxy/ring-default",
            Self::MemcachedProxyRingKetama => "memcached-proxy/ring-ketama",
            Self::MemcachedProxyRingTwemproxy => "memcached-proxy/ring-twemproxy",
            Self::MemcachedProxyRingEvcache => "memcached-proxy/ring-evcache",
            Self::McrouterCh3 => "mcrouter/Ch3",
            Self::McrouterWeightedCh3 => "mcrouter/WeightedCh3",
            Self::McrouterCrc32 => "mcrouter/Crc32",
            Self::McrouterRendezvous => "mcrouter/Rendezvous",
            Self::McrouterConstShard => "mcrouter/ConstShard",
        }
    }

    /// The key hashes it can be used with, its default first.
    pub const fn hashes(self) -> &'static [KeyHash] {
        match self {
            Self::Modulo => JAVA_FIRST,
            Self::Ring => XXH3_FIRST,
            Self::LibmemcachedDefault | Self::LibmemcachedConsistent | Self::LibmemcachedKetama => {
                LIBMEMCACHED
            }
            Self::LibmemcachedKetamaWeighted => LIBMEMCACHED_WEIGHTED,
            Self::Spymemcached | Self::Ketama => &[Md5],
            Self::TwemproxyKetama | Self::TwemproxyModula => TWEMPROXY,
            Self::MemcachedProxyRingDefault
            | Self::MemcachedProxyRingKetama
            | Self::MemcachedProxyRingTwemproxy
            | Self::MemcachedProxyRingEvcache => &[Xxh3, Md5],
            Self::Jump | Self::Rendezvous | Self::MemcachedProxyJump => &[Xxh3],
            Self::McrouterCrc32 => &[Crc32a],
            Self::McrouterCh3
            | Self::McrouterWeightedCh3
            | Self::McrouterRendezvous
            | Self::McrouterConstShard => &[],
        }
    }

    /// Whether servers have points on a ring, so that their shares of the keys differ by the luck of those points.
    pub const fn has_points(self) -> bool {
        matches!(
            self,
            Self::Ring
                | Self::LibmemcachedConsistent
                | Self::LibmemcachedKetama
                | Self::LibmemcachedKetamaWeighted
                | Self::Spymemcached
                | Self::Ketama
                | Self::TwemproxyKetama
                | Self::MemcachedProxyRingDefault
                | Self::MemcachedProxyRingKetama
                | Self::MemcachedProxyRingTwemproxy
                | Self::MemcachedProxyRingEvcache
        )
    }

    /// Whether it is one of mcrouter's, which cut keys in their own way.
    pub const fn is_mcrouter(self) -> bool {
        matches!(
            self,
            Self::McrouterCh3
                | Self::McrouterWeightedCh3
                | Self::McrouterCrc32
                | Self::McrouterRendezvous
                | Self::McrouterConstShard
        )
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for Placement {
    type Err = UnknownPlacement;

    fn from_str(name: &str) -> Result<Self, UnknownPlacement> {
        Self::ALL
            .into_iter()
            .find(|placement| placement.name() == name)
            .ok_or_else(|| UnknownPlacement { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for placement in Placement::ALL {
            assert_eq!(placement.to_string().parse(), Ok(placement));
        }
        let error = "Ketama".parse::<Placement>().unwrap_err().to_string();
        assert!(
            error.starts_with("unknown placement \"Ketama\": use one of modulo, ring, jump, "),
            "{error}"
        );
    }

    #[test]
    fn twemproxy_has_its_twelve_hashes() {
        let names: std::collections::HashSet<_> = TWEMPROXY.iter().map(|hash| hash.name()).collect();
        assert_eq!(names.len(), 12);
    }
}
