//! The original libketama.

use super::points::md5_ring_points;
use super::weights::{Refusal, whole_weights};
use crate::distribution::{Distribution, Hashed, Ring};
use crate::hash::KeyHash;
use crate::server::Server;

/// Digests of a server of average weight.
const DIGESTS: f64 = 40.0;

pub(super) fn ketama(servers: &[Server]) -> Result<Distribution, Refusal> {
    let weights = whole_weights(servers)?;
    let sum: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    let digests = weights.iter().map(|weight| digests(*weight, sum, servers.len()));
    let labels: Vec<String> = servers.iter().map(Server::full_label).collect();
    let points = md5_ring_points((0..).zip(digests), |place, number| format!("{}-{number}", labels[place]));
    let ring = Ring::new(points);
    Ok(Distribution::Hashed(Hashed::ring(ring, KeyHash::Md5)))
}

/// A share in single precision, the product in double, and the result in single again, as its C code is compiled.
fn digests(weight: u32, sum: u64, servers: usize) -> u32 {
    let share = weight as f32 / sum as f32;
    (f64::from(share) * DIGESTS * servers as f64) as f32 as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_round_as_the_compiled_c_code_does() {
        // From a program with the C expression, floorf(share * 40.0 * (float)servers), for 1 to 1024 equal servers.
        let checksum = (1..=1024u64).fold(0u32, |sum, servers| {
            sum.wrapping_mul(31).wrapping_add(digests(1, servers, servers as usize))
        });
        assert_eq!(checksum, 2_051_527_007);
        assert_eq!([60, 61, 62].map(|servers| digests(1, servers, servers as usize)), [40, 39, 40]);
        assert_eq!([100, 1000].map(|weight| digests(weight, 4300, 8)), [7, 74]);
    }
}
