use crate::hash;

/// The server at the hash of the key modulo the number of servers, in configured order.
///
/// The modulo is the floored one: hashes may be negative, and a truncated remainder would be, too.
pub(crate) fn primary(key: &[u8], servers: usize) -> usize {
    i64::from(hash::java_string(key)).rem_euclid(servers as i64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_hashes_are_placed_by_floored_modulo() {
        assert_eq!(primary(b"hello", 10), 2);
        // hashCode is -2147483648; its truncated remainder by 3 is -2.
        assert_eq!(primary(b"polygenelubricants", 3), 1);
        assert_eq!(primary(b"polygenelubricants", 10), 2);
    }
}
