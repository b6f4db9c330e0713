//! Weights that a family can use, and why it refuses others.

use crate::options::placement::Placement;
use crate::router::error::RoutingError;
use crate::server::Server;
use crate::server::weight::Weight;

/// Why a family refuses servers.
pub(super) enum Refusal {
    /// It would ignore this server's weight.
    Weight(usize),
    /// It cannot use this server's weight.
    Range(usize, &'static str),
    /// The weights' sum, and the largest that it takes.
    TooHeavy(u64, u64),
}

impl Refusal {
    pub(super) fn explain(self, servers: &[Server], placement: Placement) -> RoutingError {
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
        }
    }
}

/// The servers' weights, where only whole ones can be used.
pub(super) fn whole_weights(servers: &[Server]) -> Result<Vec<u32>, Refusal> {
    let whole = |(place, server): (usize, &Server)| {
        server.weight.to_whole().ok_or(Refusal::Range(place, "whole weights only"))
    };
    servers.iter().enumerate().map(whole).collect()
}

/// The largest sum of weights where each unit is a slot.
pub(super) const SLOTS_MAX: u64 = 1 << 16;

/// The servers' weights, where each unit takes room.
pub(super) fn bounded_weights(servers: &[Server], sum_max: u64) -> Result<Vec<u32>, Refusal> {
    let weights = whole_weights(servers)?;
    match weights.iter().map(|weight| u64::from(*weight)).sum() {
        sum if sum > sum_max => Err(Refusal::TooHeavy(sum, sum_max)),
        _ => Ok(weights),
    }
}

/// Refuses weights other than 1.
pub(super) fn refuse_weights(servers: &[Server]) -> Result<(), Refusal> {
    match servers.iter().position(|server| server.weight != Weight::ONE) {
        Some(place) => Err(Refusal::Weight(place)),
        None => Ok(()),
    }
}

/// Slots held in the order of `servers`, each for as many as it weighs.
pub(super) fn slots(servers: impl IntoIterator<Item = (u16, u32)>) -> Vec<u16> {
    servers.into_iter().flat_map(|(place, weight)| std::iter::repeat_n(place, weight as usize)).collect()
}
