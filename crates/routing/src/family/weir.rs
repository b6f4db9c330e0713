//! Weir's own placements.

use super::weights::{Refusal, SLOTS_MAX, bounded_weights, refuse_weights, slots, whole_weights};
use crate::distribution::{Distribution, Hashed, Jump, Rendezvous, Ring, Score, Slots};
use crate::hash::{KeyHash, xxh3_64};
use crate::server::Server;

/// Points on the ring per unit of weight.
const POINTS_PER_WEIGHT: u32 = 160;

/// The largest sum of weights on the ring: 1.3 million points, which are made in a second.
const WEIGHT_SUM_MAX: u64 = 1 << 13;

pub(super) fn modulo(servers: &[Server], hash: KeyHash) -> Result<Distribution, Refusal> {
    let weights = bounded_weights(servers, SLOTS_MAX)?;
    Ok(Distribution::Hashed(Hashed::slots(Slots::new(slots((0..).zip(weights))), hash)))
}

/// A server's points depend on itself alone: one that comes, goes or changes weight moves no key between the others.
pub(super) fn ring(servers: &[Server], hash: KeyHash) -> Result<Distribution, Refusal> {
    let mut points = Vec::new();
    for (place, (server, weight)) in
        (0u16..).zip(servers.iter().zip(bounded_weights(servers, WEIGHT_SUM_MAX)?))
    {
        let label = server.full_label();
        let point = |number| (xxh3_64(format!("{label}-{number}").as_bytes()) as u32, place);
        points.extend((0..weight * POINTS_PER_WEIGHT).map(point));
    }
    Ok(Distribution::Hashed(Hashed::ring(Ring::new(points), hash)))
}

pub(super) fn jump(servers: &[Server]) -> Result<Distribution, Refusal> {
    refuse_weights(servers)?;
    Ok(Distribution::Jump(Jump::new(servers.len(), 0)))
}

pub(super) fn rendezvous(servers: &[Server]) -> Result<Distribution, Refusal> {
    let labels: Vec<String> = servers.iter().map(Server::full_label).collect();
    let weights = whole_weights(servers)?;
    let alike = weights.windows(2).all(|pair| pair[0] == pair[1]);
    let weights = (!alike).then(|| weights.into_iter().map(f64::from).collect());
    Ok(Distribution::Rendezvous(Rendezvous::new(Score::Weir, &labels, weights)))
}
