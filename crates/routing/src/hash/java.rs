//! Java's string hash.

/// `String.hashCode` with each byte taken as one character, 0 to 255.
pub(super) fn string_hash_code(key: &[u8]) -> i32 {
    key.iter().fold(0, |hash: i32, byte| hash.wrapping_mul(31).wrapping_add(i32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_vectors() {
        // From the definition s[0]*31^(n-1) + ... + s[n-1] in java.lang.String, modulo 2^32, signed.
        assert_eq!(string_hash_code(b""), 0);
        assert_eq!(string_hash_code(b"a"), 97);
        assert_eq!(string_hash_code(b"hello"), 99_162_322);
        assert_eq!(string_hash_code(b"polygenelubricants"), i32::MIN);
        assert_eq!(string_hash_code(&[0xff, 0x80]), 255 * 31 + 128);
    }
}
