//! Words that nobody may read.

use std::fmt;

/// A word that nobody may read: it is compared, and written to the one server that wants it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

/// The longest password that is compared: a line of memcached's file is no longer.
const SECRET_BYTES_MAX: usize = 256;

impl Secret {
    /// It is this.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Whether that is it. The time that this takes depends on neither, as far as a compiler leaves it so.
    pub fn is(&self, said: &[u8]) -> bool {
        let mut differs = usize::from(self.0.len() != said.len() || said.len() > SECRET_BYTES_MAX);
        for place in 0..SECRET_BYTES_MAX {
            let ours = self.0.get(place).copied().unwrap_or(0);
            let theirs = said.get(place).copied().unwrap_or(0);
            differs |= std::hint::black_box(usize::from(ours ^ theirs));
        }
        differs == 0
    }

    /// Its bytes, for the one message that has them.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_is_the_same() {
        let secret = Secret::new(b"word");
        assert!(secret.is(b"word"));
        for other in ["", "wor", "words", "Word", "word\0"] {
            assert!(!secret.is(other.as_bytes()), "{other:?}");
        }
        assert!(!Secret::new(b"").is(b"\0"));
    }

    #[test]
    fn nothing_is_cut_off() {
        let long = vec![b'x'; SECRET_BYTES_MAX];
        assert!(Secret::new(&long).is(&long));
        let longer = [&long[..], b"y"].concat();
        assert!(!Secret::new(&longer).is(&longer), "longer than any");
        assert!(!Secret::new(&longer).is(&long) && !Secret::new(&long).is(&longer));
    }

    #[test]
    fn no_text_has_it() {
        assert_eq!(format!("{:?}", Secret::new(b"word")), "Secret");
    }
}
