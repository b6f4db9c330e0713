//! Keys that are written in base64 (meta flag `b`), read exactly as memcached reads them.
//!
//! memcached's decoder looks at the bytes of the alphabet and at `=`, and passes over all others. It works on groups of four. The first
//! group with a `=` in it ends the key, whatever stands behind it. So one key has many spellings: `YQ==`, `*Y-Q==` and `YQ==YQ==` are all
//! `a`. Who places keys must read all of them in this way; who sends a key on should send the one spelling of [`Base64Key::encode`].

use crate::KEY_BYTES_MAX;

/// The bytes that a key in base64 stands for: at least one, at most [`KEY_BYTES_MAX`].
#[derive(Clone, Copy, Debug)]
pub struct Base64Key {
    bytes: [u8; KEY_BYTES_MAX],
    len: usize,
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What a byte is worth; `NONE` for bytes that are passed over. A `=` is worth 0, and is counted besides.
const VALUES: [u8; 256] = {
    let mut values = [NONE; 256];
    let mut at = 0;
    while at < 64 {
        values[ALPHABET[at] as usize] = at as u8;
        at += 1;
    }
    values[b'=' as usize] = 0;
    values
};

const NONE: u8 = 0x80;

impl Base64Key {
    /// Reads a key; `None` if memcached would refuse it.
    pub fn decode(key: &[u8]) -> Option<Self> {
        let count = key.iter().filter(|&&byte| VALUES[usize::from(byte)] != NONE).count();
        if count == 0 || !count.is_multiple_of(4) {
            return None;
        }
        let mut read = Self { bytes: [0; KEY_BYTES_MAX], len: 0 };
        let (mut group, mut filled, mut padding) = (0_u32, 0, 0);
        for &byte in key {
            let value = VALUES[usize::from(byte)];
            if value == NONE {
                continue;
            }
            padding += usize::from(byte == b'=');
            group = group << 6 | u32::from(value);
            filled += 1;
            if filled < 4 {
                continue;
            }
            let [_, bytes @ ..] = group.to_be_bytes();
            let kept = 3_usize.checked_sub(padding).filter(|kept| *kept > 0)?;
            read.bytes.get_mut(read.len..read.len + kept)?.copy_from_slice(&bytes[..kept]);
            read.len += kept;
            if padding > 0 {
                break;
            }
            (group, filled) = (0, 0);
        }
        Some(read)
    }

    /// The key itself.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Whether the key could be written in a command line as it is.
    pub fn is_plain(&self) -> bool {
        self.as_slice().iter().all(|&byte| byte > b' ' && byte != 0x7f)
    }

    /// Appends the key in base64 with padding (RFC 4648, section 4): one spelling for each key. It is never longer than the spelling that
    /// was read.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for chunk in self.as_slice().chunks(3) {
            let group = chunk
                .iter()
                .enumerate()
                .fold(0, |group, (at, byte)| group | u32::from(*byte) << (16 - 8 * at));
            for at in 0..4 {
                let index = (group >> (18 - 6 * at) & 63) as usize;
                out.push(if at <= chunk.len() { ALPHABET[index] } else { b'=' });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    use proptest::prelude::*;

    fn decode(key: &[u8]) -> Option<Vec<u8>> {
        Base64Key::decode(key).map(|key| key.as_slice().to_vec())
    }

    /// Each was asked of memcached 1.6.18, which showed what it had read.
    #[test]
    fn odd_spellings_are_read_as_memcached_reads_them() {
        for spelling in ["YQ==", "*Y-Q==", "YQ==YQ==", "Y!Q==", "\u{80}YQ=="] {
            assert_eq!(decode(spelling.as_bytes()).as_deref(), Some(&b"a"[..]), "{spelling}");
        }
        assert_eq!(decode(b"YR==").as_deref(), Some(&b"a"[..]), "bits behind the last byte");
        assert_eq!(decode(b"=AAA").as_deref(), Some(&[0, 0][..]));
        assert_eq!(decode(b"Y=Q=").as_deref(), Some(&b"`"[..]));
        for refused in ["!!!", "", "====", "A===", "YWFhYQ=", "zzz"] {
            assert_eq!(decode(refused.as_bytes()), None, "{refused}");
        }
    }

    #[test]
    fn bytes_that_end_lines_are_not_plain() {
        let plain = |key: &[u8]| Base64Key::decode(key).expect("base64").is_plain();
        assert!(plain(b"YWI="));
        assert!(plain(b"/w=="));
        assert!(!plain(b"eA0KSEQ="), "x CR LF HD");
        assert!(!plain(b"YSBi"), "a b");
    }

    proptest! {
        #[test]
        fn a_key_is_read_from_its_one_spelling(key in prop::collection::vec(any::<u8>(), 1..186)) {
            let spelling = STANDARD.encode(&key);
            let read = Base64Key::decode(spelling.as_bytes()).expect("base64");
            prop_assert_eq!(read.as_slice(), &key[..]);
            let mut encoded = Vec::new();
            read.encode(&mut encoded);
            prop_assert_eq!(encoded, spelling.into_bytes());
        }

        #[test]
        fn no_bytes_are_read_longer_than_they_are(spelling in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b"AQ=/+z"[..])], 0..251)) {
            if let Some(key) = Base64Key::decode(&spelling) {
                let mut encoded = Vec::new();
                key.encode(&mut encoded);
                prop_assert!(!key.as_slice().is_empty() && encoded.len() <= spelling.len());
                let again = Base64Key::decode(&encoded).expect("it was encoded");
                prop_assert_eq!(again.as_slice(), key.as_slice());
            }
        }
    }
}
