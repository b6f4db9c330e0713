//! An item as a server says that it holds it, and as another server is sent it.

use crate::wire::key::WireKey;
use std::io::Write as _;

/// memcached takes a longer time to live for a date.
const RELATIVE_TTL_MAX_S: u32 = 60 * 60 * 24 * 30;

/// What a decider holds, as it answers to `mg KEY k v f t`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Item<'a> {
    pub(super) value: &'a [u8],
    /// A number, as the server wrote it.
    flags: &'a [u8],
    /// Seconds; none if it lives for ever.
    ttl_s: Option<u32>,
    /// It is marked as stale, or is there for somebody who fetches it.
    pub(super) is_marked: bool,
    /// Asking for it has made us the one who is to fetch it anew.
    pub(super) has_won: bool,
}

impl<'a> Item<'a> {
    pub(super) fn parse(reply: &'a [u8]) -> Option<Self> {
        let line_len = reply.iter().position(|&byte| byte == b'\n')?;
        let mut words = reply[..line_len].trim_ascii_end().split(|&byte| byte == b' ').skip(1);
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u32>().ok();
        let len = usize::try_from(number(words.next()?)?).ok()?;
        let mut item = Self { value: reply[line_len + 1..].get(..len)?, ..Self::default() };
        let mut has_ttl = false;
        for word in words {
            match word {
                [b'f', flags @ ..] => _ = number(flags).map(|_| item.flags = flags),
                b"t-1" => has_ttl = true,
                [b't', ttl @ ..] => (item.ttl_s, has_ttl) = (Some(number(ttl)?), true),
                b"W" => (item.is_marked, item.has_won) = (true, true),
                b"X" | b"Z" => item.is_marked = true,
                _ => {}
            }
        }
        (has_ttl && !item.flags.is_empty()).then_some(item)
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
    fn what_is_no_item_is_none() {
        for reply in
            ["VA 5 kk f0 t1\r\nab\r\n", "VA 1 kk f0\r\nx\r\n", "VA 1 kk t1\r\nx\r\n", "VA", "VA x\r\n"]
        {
            assert_eq!(Item::parse(reply.as_bytes()), None, "{reply:?}");
        }
        assert_eq!(Item::parse(b"VA 1 kk fx t1\r\nx\r\n"), None);
        assert_eq!(Item::parse(b"VA 1 kk f1 tx\r\nx\r\n"), None);
    }
}
