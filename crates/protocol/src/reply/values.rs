//! What values a reply brings, after it was scanned: for whoever counts them.

use crate::{near, reply, tokens::Tokens};

/// The values at the front of a reply to a retrieval: the key and the length of each. Ends at what is no whole value.
pub const fn values(reply: &[u8]) -> Values<'_> {
    Values(reply)
}

/// See [`values`].
#[derive(Clone, Copy, Debug)]
pub struct Values<'a>(&'a [u8]);

impl<'a> Iterator for Values<'a> {
    type Item = (&'a [u8], usize);

    fn next(&mut self) -> Option<Self::Item> {
        let line_len = near::find(b'\n', self.0)?;
        let line = self.0[..line_len].strip_suffix(b"\r").unwrap_or(&self.0[..line_len]);
        let (key, len) = reply::value_of_line(line)?;
        self.0 = self.0.get(line_len + 1 + len + b"\r\n".len()..)?;
        Some((key, len))
    }
}

/// The length of the value in a reply to a meta command, if it brings one.
pub fn meta_value_len(reply: &[u8]) -> Option<usize> {
    let mut words = Tokens::new(&reply[..near::find(b'\r', reply)?]);
    let is_value = words.next()? == b"VA";
    reply::value_len(words.next()?).filter(|_| is_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_lengths() {
        let reply = b"VALUE a 0 5\r\nEND\r\n\r\nVALUE bc 7 0 12\r\n\r\nVALUE c 0 1\r\nx\r\nEND\r\n";
        let found: Vec<_> = values(reply).collect();
        assert_eq!(found, [(b"a".as_slice(), 5), (b"bc", 0), (b"c", 1)]);
    }

    #[test]
    fn what_is_no_whole_value_ends_them() {
        for reply in [
            "",
            "END\r\n",
            "VALUE ",
            "VALUE\r\n",
            "VALUE a 0\r\nx\r\n",
            "VALUE a 0 5\r\nxxxx\r\n",
            "VALUE a 0 18446744073709551615\r\nx\r\n",
            "SERVER_ERROR timeout s:1\r\n",
            "VA 5 f0\r\nhello\r\n",
        ] {
            assert_eq!(values(reply.as_bytes()).count(), 0, "{reply:?}");
        }
    }

    #[test]
    fn a_meta_reply_says_how_long_its_value_is() {
        for (reply, len) in [
            ("VA 5 f0\r\nhello\r\n", Some(5)),
            ("VA 0\r\n\r\n", Some(0)),
            ("HD f5\r\n", None),
            ("EN\r\n", None),
            ("VA", None),
            ("VA x\r\n", None),
            ("", None),
        ] {
            assert_eq!(meta_value_len(reply.as_bytes()), len, "{reply:?}");
        }
    }
}
