//! An item as a server says that it holds it, and as another server is sent it.

use crate::wire::key::WireKey;
use std::io::Write as _;

/// memcached takes a longer time to live for a date.
const RELATIVE_TTL_MAX_S: u32 = 60 * 60 * 24 * 30;

/// What a server holds, as it answers to `mg KEY k v f t`, and with `c`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    pub(super) value: &'a [u8],
    /// A number, as the server wrote it.
    flags: &'a [u8],
    /// Seconds; none if it lives for ever.
    ttl_s: Option<u32>,
    /// The item's cas token; 0 if the server has not said it, or keeps none (memcached `-C`).
    token: u64,
    /// It is marked as stale, or is there for somebody who fetches it.
    pub(super) is_marked: bool,
    /// Asking for it has made us the one who is to fetch it anew.
    pub(super) has_won: bool,
}

impl<'a> Item<'a> {
    pub(crate) fn parse(reply: &'a [u8]) -> Option<Self> {
        let line_len = reply.iter().position(|&byte| byte == b'\n')?;
        // Before 1.6.18 memcached put two spaces here and there.
        let words = reply[..line_len].trim_ascii_end().split(|&byte| byte == b' ').skip(1);
        let mut words = words.filter(|word| !word.is_empty());
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u32>().ok();
        let len = usize::try_from(number(words.next()?)?).ok()?;
        let mut item = Self { value: reply[line_len + 1..].get(..len)?, ..Self::default() };
        let mut has_ttl = false;
        for word in words {
            match word {
                [b'f', flags @ ..] => _ = number(flags).map(|_| item.flags = flags),
                b"t-1" => has_ttl = true,
                [b't', ttl @ ..] => (item.ttl_s, has_ttl) = (Some(number(ttl)?), true),
                [b'c', token @ ..] => item.token = parse_token(token)?,
                b"W" => (item.is_marked, item.has_won) = (true, true),
                b"X" | b"Z" => item.is_marked = true,
                _ => {}
            }
        }
        (has_ttl && !item.flags.is_empty()).then_some(item)
    }

    /// The item's cas token; 0 if there is none.
    pub(crate) const fn token(&self) -> u64 {
        self.token
    }

    /// How long it lives at least, in whole seconds; none if for ever. The second that has begun may be over at any time: memcached's clock
    /// has whole seconds.
    pub(crate) fn lives_s(&self) -> Option<u32> {
        self.ttl_s.map(|ttl_s| ttl_s.saturating_sub(1))
    }

    /// Whether it is marked as stale, or is there for somebody who fetches it.
    pub(crate) const fn is_marked(&self) -> bool {
        self.is_marked
    }

    /// Whether asking for it has made us the one who is to fetch it anew.
    pub(crate) const fn has_won(&self) -> bool {
        self.has_won
    }

    /// The reply to a `get` of this key that brings it, with its end.
    pub(crate) fn to_get_reply(&self, key: &[u8]) -> Vec<u8> {
        let len = self.value.len().to_string();
        [b"VALUE ", key, b" ", self.flags, b" ", len.as_bytes(), b"\r\n", self.value, b"\r\nEND\r\n"].concat()
    }

    /// Appends what makes another server hold the same, if it holds nothing. `false`: it would be gone at once.
    pub(super) fn write_add(&self, key: &[u8], out: &mut Vec<u8>) -> bool {
        self.write(WireKey { bytes: key, base64: false }, " ME", out)
    }

    /// The same, whatever the other server holds.
    pub(super) fn write_set(&self, key: WireKey<'_>, out: &mut Vec<u8>) -> bool {
        self.write(key, "", out)
    }

    fn write(&self, key: WireKey<'_>, mode: &str, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(b"ms ");
        out.extend_from_slice(&key.spelling());
        let base64 = if key.base64 { " b" } else { "" };
        write!(out, " {}{base64}{mode} F", self.value.len()).expect("writing to a vector cannot fail");
        out.extend_from_slice(self.flags);
        if let Some(ttl_s) = self.ttl_s {
            // The second that has begun may be over there when this arrives.
            let rest_s = ttl_s.saturating_sub(1).min(RELATIVE_TTL_MAX_S);
            if rest_s == 0 {
                return false;
            }
            write!(out, " T{rest_s}").expect("writing to a vector cannot fail");
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(self.value);
        out.extend_from_slice(b"\r\n");
        true
    }
}

/// A cas token, as it stands in a reply.
pub(crate) fn parse_token(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(reply: &str) -> Option<String> {
        let item = Item::parse(reply.as_bytes()).expect("an item");
        let mut out = Vec::new();
        item.write_add(b"k", &mut out).then(|| String::from_utf8(out).expect("text"))
    }

    #[test]
    fn a_copy_has_the_flags_and_less_than_the_rest_of_the_time() {
        assert_eq!(add("VA 2 kk f7 t-1\r\nab\r\n").as_deref(), Some("ms k 2 ME F7\r\nab\r\n"));
        assert_eq!(add("VA 0 kk f0 t60\r\n\r\n").as_deref(), Some("ms k 0 ME F0 T59\r\n\r\n"));
        // A longer time would be taken for a date, in 1970.
        assert_eq!(add("VA 1 kk f0 t9000000\r\nx\r\n").as_deref(), Some("ms k 1 ME F0 T2592000\r\nx\r\n"));
        assert_eq!([add("VA 1 kk f0 t1\r\nx\r\n"), add("VA 1 kk f0 t0\r\nx\r\n")], [None, None]);
    }

    #[test]
    fn what_is_marked_is_seen() {
        let marks = |reply: &str| {
            let item = Item::parse(reply.as_bytes()).expect("an item");
            (item.is_marked, item.has_won)
        };
        assert_eq!(marks("VA 1 kk f0 t-1\r\nX\r\n"), (false, false));
        assert_eq!(marks("VA 1 kk f0 t-1 W X\r\nx\r\n"), (true, true));
        assert_eq!(marks("VA 1 kk f0 t-1 X Z\r\nx\r\n"), (true, false));
        assert_eq!(marks("VA 0 kk f0 t30 Z\r\n\r\n"), (true, false));
    }

    #[test]
    fn a_get_of_it_has_its_flags_and_its_bytes() {
        let item = Item::parse(b"VA 4 kk c18446744073709551615 f7 t30\r\na\r\nb\r\n").expect("an item");
        assert_eq!(item.to_get_reply(b"k"), b"VALUE k 7 4\r\na\r\nb\r\nEND\r\n");
        assert_eq!((item.token(), item.lives_s()), (u64::MAX, Some(29)));
        let empty = Item::parse(b"VA 0  f0 t-1\r\n\r\n").expect("an item");
        assert_eq!(empty.to_get_reply(b"k"), b"VALUE k 0 0\r\n\r\nEND\r\n");
        assert_eq!((empty.token(), empty.lives_s()), (0, None));
    }

    #[test]
    fn what_is_no_item_is_none() {
        for reply in
            ["VA 5 kk f0 t1\r\nab\r\n", "VA 1 kk f0\r\nx\r\n", "VA 1 kk t1\r\nx\r\n", "VA", "VA x\r\n"]
        {
            assert_eq!(Item::parse(reply.as_bytes()), None, "{reply:?}");
        }
        assert_eq!(Item::parse(b"VA 1 kk fx t1\r\nx\r\n"), None);
        assert_eq!(Item::parse(b"VA 1 kk f1 tx\r\nx\r\n"), None);
        assert_eq!(Item::parse(b"VA 1 kk c-1 f1 t1\r\nx\r\n"), None);
    }
}
