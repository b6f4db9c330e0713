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

/// memcached's decoder looks at nothing but these bytes and passes over all others.
fn is_in_alphabet(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// A key as the client wrote it.
#[derive(Clone, Copy)]
pub(crate) struct WireKey<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) base64: bool,
}

impl<'a> WireKey<'a> {
    /// What it stands for, if that is something else than itself. What is no base64 stands for nothing else; its server will
    /// refuse it.
    pub(crate) fn decoded(&self) -> Option<Decoded> {
        if self.base64 { Decoded::new(self.bytes) } else { None }
    }

    /// The bytes by which it is placed: those that it stands for, so that a key has one place however it is written.
    pub(crate) fn placement_name<'b>(&self, decoded: Option<&'b Decoded>) -> &'b [u8]
    where
        'a: 'b,
    {
        decoded.map_or(self.bytes, Decoded::as_slice)
    }
}

/// The bytes that a key in base64 stands for.
pub(crate) struct Decoded {
    bytes: [u8; KEY_BYTES_MAX],
    len: usize,
}

impl Decoded {
    /// `None`: it is no base64.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        let mut written = [0; KEY_BYTES_MAX];
        let mut count = 0;
        for &byte in key.iter().filter(|&&byte| is_in_alphabet(byte)) {
            *written.get_mut(count)? = byte;
            count += 1;
        }
        let mut bytes = [0; KEY_BYTES_MAX];
        let len = BASE64.decode_slice(&written[..count], &mut bytes).ok()?;
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

/// Whether `echo`, in a reply, is the key of the request, which was written as `key`. memcached remembers of each item whether it was
/// stored under a key in base64 and repeats keys as they were then, and it forgets that of items that `mg` or `ma` created.
pub(crate) fn is_same(echo: &[u8], key: &[u8], base64: bool) -> bool {
    if echo == key {
        return true;
    }
    let decoded = if base64 { Decoded::new(key) } else { None };
    let wanted = decoded.as_ref().map_or(key, Decoded::as_slice);
    echo == wanted || Decoded::new(echo).is_some_and(|echo| echo.as_slice() == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ways_to_write_a_key_are_one_key() {
        assert!(is_same(b"YQ==", b"YQ==", true));
        assert!(is_same(b"YQ==", b"a", false));
        assert!(!is_same(b"a", b"YQ==", false));
        assert!(is_same(b"YR==", b"YQ==", true));
        assert!(is_same(b"YQ==", b"*Y-Q==", true));
        assert!(is_same(b"a", b"YQ==", true));
        assert!(!is_same(b"YWI=", b"YQ==", true));
        assert!(!is_same(b"YQ==", b"!", true));
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
