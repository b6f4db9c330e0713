//! Which bytes of a key decide where it goes.

use std::fmt;
use std::str::FromStr;

/// A pair of characters: of a key with text between them, that text alone decides where the key goes, so that keys can
/// be kept together. As twemproxy's `hash_tag`: the first opening character counts, then the first closing one after
/// it; with nothing between them, or one of them missing, the whole key decides.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct HashTag {
    open: u8,
    close: u8,
}

/// A text that is no hash tag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hash tag {0:?} is no pair: give two printable ASCII characters, such as {{}}")]
pub struct HashTagError(String);

impl FromStr for HashTag {
    type Err = HashTagError;

    fn from_str(text: &str) -> Result<Self, HashTagError> {
        match text.as_bytes() {
            [open, close] if open.is_ascii_graphic() && close.is_ascii_graphic() => {
                Ok(Self { open: *open, close: *close })
            }
            _ => Err(HashTagError(text.to_owned())),
        }
    }
}

impl fmt::Display for HashTag {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", char::from(self.open), char::from(self.close))
    }
}

/// How a pool cuts keys.
#[derive(Clone, Debug)]
pub(crate) enum KeyPart {
    /// The whole key.
    Whole,
    /// What stands in the tag, if there is one.
    Tagged(HashTag),
    /// mcrouter's routing key: without a leading `/region/cluster/`, up to the first `|#|`; then the salt.
    Mcrouter { salt: Vec<u8> },
}

impl KeyPart {
    /// Calls `use_part` with the bytes that decide.
    #[inline]
    pub(crate) fn with<T>(&self, key: &[u8], use_part: impl FnOnce(&[u8]) -> T) -> T {
        match self {
            Self::Mcrouter { salt } if !salt.is_empty() => with_suffix(self.cut(key), salt, use_part),
            _ => use_part(self.cut(key)),
        }
    }

    /// The bytes that decide, where there is no salt behind them.
    #[inline]
    pub(crate) fn cut<'key>(&self, key: &'key [u8]) -> &'key [u8] {
        match self {
            Self::Whole => key,
            Self::Tagged(tag) => tagged(*tag, key),
            Self::Mcrouter { .. } => routing_key(key),
        }
    }

    /// Whether bytes that are not the key's decide, too.
    pub(crate) fn has_salt(&self) -> bool {
        matches!(self, Self::Mcrouter { salt } if !salt.is_empty())
    }
}

fn tagged(tag: HashTag, key: &[u8]) -> &[u8] {
    let find = |wanted: u8, bytes: &[u8]| bytes.iter().position(|byte| *byte == wanted);
    let Some(open) = find(tag.open, key) else { return key };
    let inside = &key[open + 1..];
    match find(tag.close, inside) {
        Some(length) if length > 0 => &inside[..length],
        _ => key,
    }
}

fn routing_key(key: &[u8]) -> &[u8] {
    let key = match key {
        [b'/', rest @ ..] => rest.splitn(3, |byte| *byte == b'/').nth(2).unwrap_or(key),
        _ => key,
    };
    let end = key.windows(3).position(|window| window == b"|#|").unwrap_or(key.len());
    &key[..end]
}

/// Calls `use_both` with `key` and then `suffix` in one piece: on the stack, unless they are longer than any key that
/// memcached takes.
pub(crate) fn with_suffix<T>(key: &[u8], suffix: &[u8], use_both: impl FnOnce(&[u8]) -> T) -> T {
    const ROOM: usize = 320;
    let length = key.len() + suffix.len();
    if length > ROOM {
        return use_both(&[key, suffix].concat());
    }
    let mut both = [0; ROOM];
    both[..key.len()].copy_from_slice(key);
    both[key.len()..length].copy_from_slice(suffix);
    use_both(&both[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_in_the_first_tag_decides() {
        let check = |key: &str, part: &str| {
            let tag = "{}".parse().unwrap();
            assert_eq!(tagged(tag, key.as_bytes()), part.as_bytes(), "{key}");
        };
        check("user:{42}:name", "42");
        check("{a}{b}", "a");
        check("}x{a}", "a");
        check("{{a}}", "{a");
        for key in ["", "plain", "{}empty", "{open", "close}", "{}{a}"] {
            check(key, key);
        }
        let same: HashTag = "$$".parse().unwrap();
        assert_eq!(tagged(same, b"a$b$c"), b"b");
    }

    #[test]
    fn tags_are_pairs() {
        assert_eq!("{}".parse::<HashTag>().unwrap().to_string(), "{}");
        for bad in ["", "{", "{}}", "é", "a ", "\n\n"] {
            assert_eq!(bad.parse::<HashTag>(), Err(HashTagError(bad.to_owned())));
        }
    }

    #[test]
    fn mcrouter_s_prefix_and_suffix_do_not_count() {
        let check = |key: &str, part: &str| assert_eq!(routing_key(key.as_bytes()), part.as_bytes(), "{key}");
        check("/region/cluster/key", "key");
        check("/region/cluster/", "");
        check("///key", "key");
        check("/a/b/c/d", "c/d");
        check("key|#|more|#|most", "key");
        check("/r/c/key|#|more", "key");
        for key in ["", "/", "/region", "/region/cluster", "region/cluster/key", "a|#", "|"] {
            check(key, key);
        }
    }

    #[test]
    fn salt_comes_after_the_routing_key() {
        let part = KeyPart::Mcrouter { salt: b"salt".into() };
        assert_eq!(part.with(b"/r/c/key|#|x", <[u8]>::to_vec), b"keysalt");
        let long = vec![b'k'; 400];
        assert_eq!(part.with(&long, <[u8]>::to_vec), [long.as_slice(), b"salt"].concat());
    }
}
