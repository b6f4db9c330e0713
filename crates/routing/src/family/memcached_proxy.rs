//! The distributions of memcached's built-in proxy, as of memcached 1.6.45: the default ring of earlier versions had
//! one point per server.

use super::points::md5_ring_points;
use super::weights::{Refusal, refuse_weights};
use crate::distribution::{Distribution, Hashed, Jump, Ring};
use crate::hash::{KeyHash, xxh3_64};
use crate::options::placement::Placement;
use crate::server::Server;

const POINTS_PER_SERVER: u32 = 160;
const POINTS_PER_DIGEST: u32 = 4;

/// Jump hashing, its seed made of a text unless that is empty.
pub(super) fn jump(servers: &[Server], seed: &str) -> Result<Distribution, Refusal> {
    refuse_weights(servers)?;
    let seed = if seed.is_empty() { 0 } else { xxh3_64(seed.as_bytes()) };
    Ok(Distribution::Jump(Jump::new(servers.len(), seed)))
}

pub(super) fn ring(servers: &[Server], mode: Placement, hash: KeyHash) -> Result<Distribution, Refusal> {
    refuse_weights(servers)?;
    let name = |place: usize| match mode {
        Placement::MemcachedProxyRingTwemproxy => servers[place].label(),
        Placement::MemcachedProxyRingEvcache => {
            format!("{}/{}", servers[place].host(), servers[place].full_label())
        }
        _ => servers[place].full_label(),
    };
    let places = (0u16..).take(servers.len());
    let points = if mode == Placement::MemcachedProxyRingDefault {
        let numbered = places.flat_map(|place| (0..POINTS_PER_SERVER).map(move |number| (place, number)));
        numbered
            .map(|(place, number)| {
                let label = format!("{}-{number}", name(usize::from(place)));
                (xxh3_64(label.as_bytes()) as u32, place)
            })
            .collect()
    } else {
        let digests = places.map(|place| (place, POINTS_PER_SERVER / POINTS_PER_DIGEST));
        md5_ring_points(digests, |place, number| format!("{}-{number}", name(place)))
    };
    Ok(Distribution::Hashed(Hashed::ring(Ring::new(points), hash)))
}
