//! Keys that are written in base64 stand for other bytes, by which they are placed and compared.

use base64::{
    Engine as _,
    alphabet::STANDARD,
    engine::{GeneralPurpose, GeneralPurposeConfig},
};
use weir_protocol::KEY_BYTES_MAX;

/// As lenient as memcached, so that two ways to write a key are one key here too.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// The bytes that a key in base64 stands for.
pub(crate) struct Decoded {
    bytes: [u8; KEY_BYTES_MAX],
    len: usize,
}

impl Decoded {
    /// `None`: it is no base64.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        let mut bytes = [0; KEY_BYTES_MAX];
        let len = BASE64.decode_slice(key, &mut bytes).ok()?;
        Some(Self { bytes, len })
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Whether the bytes could be written in a command line as they are.
    pub(crate) fn is_plain(&self) -> bool {
        self.as_slice().iter().all(|&byte| byte > b' ' && byte != 0x7f)
    }
}

/// Whether `echo` is the key that `key` stands for, in base64 or, as memcached 1.6 repeats keys that `mg` or `ma` created, as it is.
pub(crate) fn same_in_base64(echo: &[u8], key: &[u8]) -> bool {
    let Some(wanted) = Decoded::new(key) else { return false };
    echo == wanted.as_slice() || Decoded::new(echo).is_some_and(|echo| echo.as_slice() == wanted.as_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ways_to_write_a_key_are_one_key() {
        assert!(same_in_base64(b"YQ==", b"YQ=="));
        assert!(same_in_base64(b"YR==", b"YQ=="));
        assert!(same_in_base64(b"a", b"YQ=="));
        assert!(!same_in_base64(b"YWI=", b"YQ=="));
        assert!(!same_in_base64(b"YQ==", b"!"));
    }

    #[test]
    fn bytes_that_end_lines_are_not_plain() {
        let plain = |key: &[u8]| Decoded::new(key).expect("base64").is_plain();
        assert!(plain(b"YWI="));
        assert!(plain(b"/w=="));
        assert!(!plain(b"eA0KSEQ="), "x CR LF HD");
        assert!(!plain(b"YSBi"), "a b");
    }
}
