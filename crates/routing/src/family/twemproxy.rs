//! twemproxy's distributions.

use super::points::{ketama_shares, md5_ring_points};
use super::weights::{Refusal, SLOTS_MAX, bounded_weights, slots, whole_weights};
use crate::distribution::{Distribution, Hashed, Ring, Slots};
use crate::hash::KeyHash;
use crate::server::{Endpoint, Server};

/// twemproxy cuts the text of a point to this many bytes.
const LABEL_MAX: usize = 85;

pub(super) fn ketama(servers: &[Server], hash: KeyHash) -> Result<Distribution, Refusal> {
    let labels: Vec<String> = servers.iter().map(label).collect();
    let weights = whole_weights(servers)?;
    let shares: Vec<(u16, u32)> = ketama_shares(&weights).collect();
    let shares = by_name(&labels).into_iter().map(|place| shares[usize::from(place)]);
    let points = md5_ring_points(shares, |place, number| {
        let mut label = format!("{}-{number}", labels[place]).into_bytes();
        label.truncate(LABEL_MAX);
        label
    });
    Ok(Distribution::Hashed(Hashed::ring(Ring::new(points), hash).with_empty_at_zero()))
}

pub(super) fn modula(servers: &[Server], hash: KeyHash) -> Result<Distribution, Refusal> {
    let labels: Vec<String> = servers.iter().map(label).collect();
    let weights = bounded_weights(servers, SLOTS_MAX)?;
    let held = by_name(&labels).into_iter().map(|place| (place, weights[usize::from(place)]));
    Ok(Distribution::Hashed(Hashed::slots(Slots::new(slots(held)), hash).with_empty_at_zero()))
}

/// As [`Server::label`], but for a socket without a name: twemproxy takes its path with the colon that stands before the
/// weight.
fn label(server: &Server) -> String {
    match &server.endpoint {
        Endpoint::Unix { path } if !server.is_named() => format!("{path}:"),
        _ => server.label(),
    }
}

/// The servers in twemproxy's order of names: shorter ones first, those of one length by their bytes.
fn by_name(labels: &[String]) -> Vec<u16> {
    let mut places: Vec<u16> = (0u16..).take(labels.len()).collect();
    places.sort_by_key(|place| {
        let label = &labels[usize::from(*place)];
        (label.len(), label.as_bytes())
    });
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shorter_names_come_first() {
        let labels = ["bb", "a", "c", "aaa", "ba"].map(str::to_owned);
        assert_eq!(by_name(&labels), [1, 2, 4, 0, 3]);
    }
}
