//! mcrouter's hash functions.

use super::weights::{Refusal, refuse_weights};
use crate::distribution::{ConstShard, Distribution, Furc, Rendezvous, Score, WeightedFurc};
use crate::server::Server;

pub(super) fn ch3(servers: &[Server]) -> Result<Distribution, Refusal> {
    refuse_weights(servers)?;
    Ok(Distribution::Furc(Furc::new(servers.len())))
}

pub(super) fn weighted_ch3(servers: &[Server]) -> Result<Distribution, Refusal> {
    let weights: Vec<f64> = servers.iter().map(|server| server.weight.to_f64()).collect();
    match weights.iter().position(|weight| *weight > 1.0) {
        Some(place) => Err(Refusal::Range(place, "weights up to 1")),
        None => Ok(Distribution::WeightedFurc(WeightedFurc::new(&weights))),
    }
}

/// The checksum's lower 31 bits modulo the number of servers.
pub(super) fn crc32(servers: &[Server]) -> Result<Distribution, Refusal> {
    refuse_weights(servers)?;
    Ok(Distribution::Crc32 { buckets: servers.len() })
}

pub(super) fn rendezvous(servers: &[Server]) -> Result<Distribution, Refusal> {
    refuse_weights(servers)?;
    let tags: Vec<String> = servers.iter().map(Server::full_label).collect();
    Ok(Distribution::Rendezvous(Rendezvous::new(Score::Mcrouter, &tags, None)))
}

pub(super) fn const_shard(servers: &[Server]) -> Result<Distribution, Refusal> {
    refuse_weights(servers)?;
    Ok(Distribution::ConstShard(ConstShard::new(servers.len())))
}
