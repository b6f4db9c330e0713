//! MD5: of one key (`fast-md5`), of several keys at once (`lanes`), and how rings cut it into points.

mod lanes;

pub(crate) use self::lanes::{LANES, low_of_each};

/// MD5 of `bytes`.
pub(crate) fn digest(bytes: &[u8]) -> [u8; 16] {
    fast_md5::digest(bytes)
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
mod tests;
