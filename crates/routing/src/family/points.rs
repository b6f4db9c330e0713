//! Points on a ring, made of MD5 digests.

use crate::distribution::Point;
use crate::hash::{md5_digest, md5_points};

/// Points of `digests` MD5 digests per server, made of what `label` calls the server's k-th.
pub(super) fn md5_ring_points<Label: AsRef<[u8]>>(
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

/// How many MD5 digests a server puts on the rings of libmemcached and twemproxy: 40 for average weight.
///
/// The arithmetic is theirs, single precision included: with some numbers of servers the quotient is a hair below 40
/// and a server gets 39 digests. To round it better would move keys.
pub(super) fn ketama_digests(weight: u32, weight_sum: u64, servers: usize) -> u32 {
    const POINTS_PER_SERVER: f32 = 160.0;
    const POINTS_PER_DIGEST: f32 = 4.0;
    let share = weight as f32 / weight_sum as f32;
    let digests = share * POINTS_PER_SERVER / POINTS_PER_DIGEST * servers as f32;
    (f64::from(digests) + 0.000_000_000_1) as f32 as u32
}

/// Each server with the digests that it puts on such a ring.
pub(super) fn ketama_shares(weights: &[u32]) -> impl Iterator<Item = (u16, u32)> {
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
