//! MD5, and how rings cut it into points.

use md5::{Digest, Md5};

/// MD5 of `bytes`.
pub(crate) fn digest(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// The first four bytes of MD5, little-endian.
pub(super) fn low(key: &[u8]) -> u32 {
    let [a, b, c, d, ..] = digest(key);
    u32::from_le_bytes([a, b, c, d])
}

/// The four little-endian quarters of a digest: ketama's points.
pub(crate) fn points(digest: [u8; 16]) -> impl Iterator<Item = u32> {
    (0..4).map(move |number| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|byte| digest[number * 4 + byte]);
        u32::from_le_bytes([a, b, c, d])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_the_little_endian_quarters_of_a_digest() {
        let points: Vec<u32> = points(digest(b"server1-8")).collect();
        assert_eq!((points[0], points[3]), (3_853_726_576, 2_667_054_752));
    }
}
