//! libmemcached's distributions.

use super::points::{ketama_shares, md5_ring_points};
use super::weights::{Refusal, refuse_weights, slots, whole_weights};
use crate::distribution::{Distribution, Hashed, Ring, Slots};
use crate::hash::KeyHash;
use crate::server::Server;

/// Points of a server on the unweighted ring.
const POINTS_PER_SERVER: u32 = 100;

pub(super) fn default(servers: &[Server], hash: KeyHash) -> Result<Distribution, Refusal> {
    refuse_weights(servers)?;
    let owners = slots((0..).zip(servers.iter().map(|_| 1)));
    Ok(Distribution::Hashed(Hashed::slots(Slots::new(owners), hash)))
}

/// The unweighted ring; the weighted one as soon as a server weighs more than 1, as in the library.
pub(super) fn consistent(servers: &[Server], hash: KeyHash) -> Result<Distribution, Refusal> {
    if whole_weights(servers)?.iter().any(|weight| *weight > 1) {
        return weighted(servers, hash);
    }
    let points = (0u16..).zip(servers).flat_map(|(place, server)| {
        let label = server.label();
        (0..POINTS_PER_SERVER).map(move |number| (hash.digest(format!("{label}-{number}").as_bytes()), place))
    });
    Ok(Distribution::Hashed(Hashed::ring(Ring::new(points.collect()), hash)))
}

pub(super) fn weighted(servers: &[Server], hash: KeyHash) -> Result<Distribution, Refusal> {
    let labels: Vec<String> = servers.iter().map(Server::label).collect();
    weighted_ring(servers, hash, |place, number| format!("{}-{number}", labels[place]))
}

pub(super) fn spymemcached(servers: &[Server]) -> Result<Distribution, Refusal> {
    let labels: Vec<String> = servers.iter().map(Server::full_label).collect();
    weighted_ring(servers, KeyHash::Md5, |place, number| format!("/{}-{number}", labels[place]))
}

fn weighted_ring(
    servers: &[Server],
    hash: KeyHash,
    label: impl Fn(usize, u32) -> String,
) -> Result<Distribution, Refusal> {
    let weights = whole_weights(servers)?;
    let points = md5_ring_points(ketama_shares(&weights), label);
    Ok(Distribution::Hashed(Hashed::ring(Ring::new(points), hash)))
}
