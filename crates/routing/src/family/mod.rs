//! Families: how each system turns a list of servers into a distribution. One file per system.

mod ketama;
mod libmemcached;
mod mcrouter;
mod memcached_proxy;
mod twemproxy;
mod weir;

use crate::distribution::{Distribution, Point, Ring};
use crate::error::RoutingError;
use crate::hash::{KeyHash, md5_digest, md5_points};
use crate::options::Options;
use crate::placement::Placement;
use crate::server::Server;

/// The distribution of keys over `servers`, which are checked but for their weights, by the `hash` in force.
pub(crate) fn distribution(servers: &[Server], options: &Options) -> Result<Distribution, RoutingError> {
    let placement = options.placement;
    let hash = options.key_hash();
    let built = match placement {
        Placement::Modulo => weir::modulo(servers, chosen(hash)),
        Placement::Ring => weir::ring(servers, chosen(hash)),
        Placement::Jump => weir::jump(servers),
        Placement::Rendezvous => weir::rendezvous(servers),
        Placement::LibmemcachedDefault => libmemcached::default(servers, chosen(hash)),
        Placement::LibmemcachedConsistent | Placement::LibmemcachedKetama => {
            libmemcached::consistent(servers, chosen(hash))
        }
        Placement::LibmemcachedKetamaWeighted => libmemcached::weighted(servers, chosen(hash)),
        Placement::Spymemcached => libmemcached::spymemcached(servers),
        Placement::Ketama => ketama::ketama(servers),
        Placement::TwemproxyKetama => twemproxy::ketama(servers, chosen(hash)),
        Placement::TwemproxyModula => twemproxy::modula(servers, chosen(hash)),
        Placement::MemcachedProxyJump => memcached_proxy::jump(servers, &options.salt),
        Placement::MemcachedProxyRingDefault
        | Placement::MemcachedProxyRingKetama
        | Placement::MemcachedProxyRingTwemproxy
        | Placement::MemcachedProxyRingEvcache => memcached_proxy::ring(servers, placement, chosen(hash)),
        Placement::McrouterCh3 => mcrouter::ch3(servers),
        Placement::McrouterWeightedCh3 => mcrouter::weighted_ch3(servers),
        Placement::McrouterCrc32 => mcrouter::crc32(servers),
        Placement::McrouterRendezvous => mcrouter::rendezvous(servers),
        Placement::McrouterConstShard => mcrouter::const_shard(servers),
    }
    .map_err(|refusal| refusal.explain(servers, placement))?;
    // One server holds everything; its weight and name were looked at all the same.
    Ok(if servers.len() == 1 { Distribution::Single } else { built })
}

/// Why a family refuses servers.
enum Refusal {
    /// It would ignore this server's weight.
    Weight(usize),
    /// It cannot use this server's weight.
    Range(usize, &'static str),
    /// The weights' sum, and the largest that it takes.
    TooHeavy(u64, u64),
    TooLight(usize),
}

impl Refusal {
    fn explain(self, servers: &[Server], placement: Placement) -> RoutingError {
        let of = |place: usize| (servers[place].name.clone(), servers[place].weight);
        match self {
            Self::Weight(place) => {
                let (server, weight) = of(place);
                RoutingError::WeightIgnored { server, weight, placement }
            }
            Self::Range(place, expected) => {
                let (server, weight) = of(place);
                RoutingError::WeightOutOfRange { server, weight, placement, expected }
            }
            Self::TooHeavy(sum, sum_max) => RoutingError::TooHeavy { sum, sum_max },
            Self::TooLight(place) => RoutingError::TooLight(of(place).0),
        }
    }
}

/// The hash of a family that always has one.
fn chosen(hash: Option<KeyHash>) -> KeyHash {
    hash.expect("placements that ask for a hash list at least one")
}

/// The servers' weights, where only whole ones can be used.
fn whole_weights(servers: &[Server]) -> Result<Vec<u32>, Refusal> {
    let whole = |(place, server): (usize, &Server)| {
        server.weight.to_whole().ok_or(Refusal::Range(place, "whole weights only"))
    };
    servers.iter().enumerate().map(whole).collect()
}

/// The largest sum of weights where each unit is a slot.
const SLOTS_MAX: u64 = 1 << 16;

/// The servers' weights, where each unit takes room.
fn bounded_weights(servers: &[Server], sum_max: u64) -> Result<Vec<u32>, Refusal> {
    let weights = whole_weights(servers)?;
    match weights.iter().map(|weight| u64::from(*weight)).sum() {
        sum if sum > sum_max => Err(Refusal::TooHeavy(sum, sum_max)),
        _ => Ok(weights),
    }
}

/// Refuses weights other than 1.
fn refuse_weights(servers: &[Server]) -> Result<(), Refusal> {
    match servers.iter().position(|server| server.weight != crate::Weight::ONE) {
        Some(place) => Err(Refusal::Weight(place)),
        None => Ok(()),
    }
}

/// Slots held in the order of `servers`, each for as many as it weighs.
fn slots(servers: impl IntoIterator<Item = (u16, u32)>) -> Vec<u16> {
    servers.into_iter().flat_map(|(place, weight)| std::iter::repeat_n(place, weight as usize)).collect()
}

/// Points of `digests` MD5 digests per server, made of what `label` calls the server's k-th.
fn md5_ring_points<Label: AsRef<[u8]>>(
    digests: impl IntoIterator<Item = (u16, u32)>,
    label: impl Fn(usize, u32) -> Label,
) -> Vec<Point> {
    let mut points = Vec::new();
    for (place, count) in digests {
        for number in 0..count {
            let digest = md5_digest(label(usize::from(place), number).as_ref());
            points.extend(md5_points(digest).map(|point| (point, place)));
        }
    }
    points
}

/// The ring, if every server has a point on it.
fn checked_ring(points: Vec<Point>, servers: usize) -> Result<Ring, Refusal> {
    let ring = Ring::new(points);
    match ring.without_points(servers) {
        Some(place) => Err(Refusal::TooLight(place)),
        None => Ok(ring),
    }
}

/// How many MD5 digests a server puts on the rings of libmemcached and twemproxy: 40 for average weight.
///
/// The arithmetic is theirs, single precision included: with some numbers of servers the quotient is a hair below 40
/// and a server gets 39 digests. To round it better would move keys.
fn ketama_digests(weight: u32, weight_sum: u64, servers: usize) -> u32 {
    const POINTS_PER_SERVER: f32 = 160.0;
    const POINTS_PER_DIGEST: f32 = 4.0;
    let share = weight as f32 / weight_sum as f32;
    let digests = share * POINTS_PER_SERVER / POINTS_PER_DIGEST * servers as f32;
    (f64::from(digests) + 0.000_000_000_1) as f32 as u32
}

/// Each server with the digests that it puts on such a ring.
fn ketama_shares(weights: &[u32]) -> impl Iterator<Item = (u16, u32)> {
    let sum = weights.iter().map(|weight| u64::from(*weight)).sum();
    (0u16..).zip(weights).map(move |(place, weight)| (place, ketama_digests(*weight, sum, weights.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_digests_keeps_the_rounding_of_single_precision() {
        assert_eq!([24, 25, 26].map(|servers| ketama_digests(1, servers, servers as usize)), [40, 39, 40]);
        assert_eq!([100, 1000].map(|weight| ketama_digests(weight, 4300, 8)), [7, 74]);
    }
}
