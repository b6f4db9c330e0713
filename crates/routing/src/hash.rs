//! The hash functions behind placements. Each is a promise to keys that are already stored: it cannot be bettered.

use md5::{Digest, Md5};

/// MD5 of `bytes`.
pub(crate) fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// The first four bytes of MD5, little-endian: libmemcached's `md5` key hash.
pub(crate) fn md5_low(key: &[u8]) -> u32 {
    let [a, b, c, d, ..] = md5(key);
    u32::from_le_bytes([a, b, c, d])
}

/// Java's `String.hashCode` with each byte taken as one character, 0 to 255.
pub(crate) fn java_string(key: &[u8]) -> i32 {
    key.iter().fold(0, |hash: i32, byte| hash.wrapping_mul(31).wrapping_add(i32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_vectors() {
        assert_eq!(md5_low(b"apple"), 3_195_025_439);
        // From the definition s[0]*31^(n-1) + ... + s[n-1] in java.lang.String, modulo 2^32, signed.
        assert_eq!(java_string(b""), 0);
        assert_eq!(java_string(b"a"), 97);
        assert_eq!(java_string(b"hello"), 99_162_322);
        assert_eq!(java_string(b"polygenelubricants"), i32::MIN);
        assert_eq!(java_string(&[0xff, 0x80]), 255 * 31 + 128);
    }
}
