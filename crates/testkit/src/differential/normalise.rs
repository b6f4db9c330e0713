//! What may differ between two servers that answer alike. Cas tokens may, because each server counts them for itself. The version may.
//! Times may, because they may be read on two sides of a tick. A key that a reply repeats may be in base64 or not: memcached repeats it as
//! it was stored, and Weir as it was asked for.

use std::collections::HashMap;
use weir_protocol::Base64Key;

/// A transcript in which nothing is left that may differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Normal {
    /// The answers. Cas tokens are numbered in the order of their first appearance, so that equal ones stay equal.
    pub bytes: Vec<u8>,
    /// Times in seconds (remaining, or since the last access), in order; each left a `#` in `bytes`.
    pub times: Vec<i64>,
    /// The cas tokens in order, as the subject gave them.
    pub cas: Vec<u64>,
}

/// Two clocks that tick once a second may differ by one when a time is set and by one when it is read; one more for a machine
/// that was busy in between.
const TIME_TOLERANCE_S: i64 = 3;

impl Normal {
    /// Whether two subjects answered alike.
    pub fn is_like(&self, other: &Self) -> bool {
        let near = |(a, b): (&i64, &i64)| a.abs_diff(*b) <= TIME_TOLERANCE_S.unsigned_abs();
        self.bytes == other.bytes
            && self.times.len() == other.times.len()
            && self.times.iter().zip(&other.times).all(near)
    }

    /// `bytes` without the blanks behind numbers in data blocks, and with the lengths of those.
    ///
    /// memcached writes the shorter result of a `decr` over the longer number and fills the rest with blanks. It does not while an answer
    /// that holds the item is still to be sent: then it makes a new item without any. Which of the two happens depends on how the bytes of
    /// a pipeline arrive.
    pub fn without_padding(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len());
        let mut rest = &self.bytes[..];
        while !rest.is_empty() {
            let len = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| at + 1);
            let (line, after) = rest.split_at(len);
            let words: Vec<_> = line.trim_ascii_end().split(|&byte| byte == b' ').collect();
            let place = match words[..] {
                [b"VALUE", _, _, _, ..] => 3,
                [b"VA", _, ..] => 1,
                _ => usize::MAX,
            };
            let block = words.get(place).map_or(0, |length| block_len(length)).min(after.len());
            let value = after[..block].trim_ascii_end();
            let is_whole = after[..block].ends_with(b"\r\n");
            if is_whole && !value.is_empty() && value.iter().all(u8::is_ascii_digit) {
                let length = value.len().to_string().into_bytes();
                let mut words = words;
                words[place] = &length;
                out.extend_from_slice(&words.join(&b' '));
                out.extend_from_slice(b"\r\n");
                out.extend_from_slice(value);
                out.extend_from_slice(b"\r\n");
            } else {
                out.extend_from_slice(line);
                out.extend_from_slice(&after[..block]);
            }
            rest = &after[block..];
        }
        out
    }
}

/// Normalises a transcript. Data blocks are skipped by their length, so what clients stored is never touched.
pub fn normalise(transcript: &[u8]) -> Normal {
    let mut normal = Normal::default();
    let mut names = HashMap::new();
    let mut rest = transcript;
    while !rest.is_empty() {
        let len = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| at + 1);
        let (line, after) = rest.split_at(len);
        let block = normal.push_line(line, &mut names).min(after.len());
        normal.bytes.extend_from_slice(&after[..block]);
        rest = &after[block..];
    }
    normal
}

impl Normal {
    /// Appends a line; returns how many bytes of data follow it.
    fn push_line(&mut self, line: &[u8], names: &mut HashMap<u64, usize>) -> usize {
        let end = line.iter().rposition(|byte| !b"\r\n".contains(byte)).map_or(0, |at| at + 1);
        let (text, ending) = line.split_at(end);
        let words: Vec<_> = text.split(|&byte| byte == b' ').collect();
        let mut block = 0;
        match words[..] {
            [b"VERSION", ..] => self.bytes.extend_from_slice(b"VERSION #"),
            [b"VALUE", _, _, length] => {
                block = block_len(length);
                self.bytes.extend_from_slice(text);
            }
            [b"VALUE", _, _, length, cas] => {
                block = block_len(length);
                self.bytes.extend_from_slice(&text[..text.len() - cas.len()]);
                self.push_cas(cas, names);
            }
            [b"VA", length, ref flags @ ..] => {
                block = block_len(length);
                self.bytes.extend_from_slice(b"VA ");
                self.bytes.extend_from_slice(length);
                self.push_flags(flags, names);
            }
            [code @ (b"HD" | b"NS" | b"EX" | b"NF" | b"EN"), ref flags @ ..] => {
                self.bytes.extend_from_slice(code);
                self.push_flags(flags, names);
            }
            [b"ME", key, ref facts @ ..] => {
                self.bytes.extend_from_slice(b"ME ");
                self.bytes.extend_from_slice(key);
                self.push_facts(facts, names);
            }
            _ => self.bytes.extend_from_slice(text),
        }
        self.bytes.extend_from_slice(ending);
        block
    }

    fn push_flags(&mut self, flags: &[&[u8]], names: &mut HashMap<u64, usize>) {
        let mut flags = flags.iter().peekable();
        while let Some(flag) = flags.next() {
            self.bytes.push(b' ');
            match *flag {
                [b'k', key @ ..] => {
                    let is_base64 = flags.next_if(|next| **next == b"b").is_some();
                    let decoded = if is_base64 { Base64Key::decode(key) } else { None };
                    self.bytes.push(b'k');
                    self.bytes.extend_from_slice(decoded.as_ref().map_or(key, Base64Key::as_slice));
                }
                [b'c', cas @ ..] => {
                    self.bytes.push(b'c');
                    self.push_cas(cas, names);
                }
                [name @ (b't' | b'l'), time @ ..] => {
                    self.bytes.push(*name);
                    self.push_time(time);
                }
                _ => self.bytes.extend_from_slice(flag),
            }
        }
    }

    fn push_facts(&mut self, facts: &[&[u8]], names: &mut HashMap<u64, usize>) {
        for fact in facts {
            self.bytes.push(b' ');
            let (name, value) =
                fact.split_at(fact.iter().position(|&byte| byte == b'=').map_or(0, |at| at + 1));
            self.bytes.extend_from_slice(name);
            match name {
                b"cas=" => self.push_cas(value, names),
                b"exp=" | b"la=" => self.push_time(value),
                _ => self.bytes.extend_from_slice(value),
            }
        }
    }

    /// 0 says that there is no token, and stays.
    fn push_cas(&mut self, word: &[u8], names: &mut HashMap<u64, usize>) {
        match number::<u64>(word) {
            Some(cas) if cas != 0 => {
                self.cas.push(cas);
                let next = names.len();
                let name = *names.entry(cas).or_insert(next);
                self.bytes.extend_from_slice(format!("cas#{name}").as_bytes());
            }
            _ => self.bytes.extend_from_slice(word),
        }
    }

    /// -1 says that there is no end, and stays.
    fn push_time(&mut self, word: &[u8]) {
        match number::<i64>(word) {
            Some(time) if time != -1 => {
                self.times.push(time);
                self.bytes.push(b'#');
            }
            _ => self.bytes.extend_from_slice(word),
        }
    }
}

/// A data block and its line ending.
fn block_len(length: &[u8]) -> usize {
    number::<usize>(length).map_or(0, |length| length.saturating_add(2))
}

fn number<N: std::str::FromStr>(word: &[u8]) -> Option<N> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(transcript: &[u8]) -> String {
        String::from_utf8(normalise(transcript).bytes).expect("the answers of these tests are text")
    }

    #[test]
    fn tokens_keep_what_they_have_in_common() {
        assert_eq!(
            text(b"VALUE a 0 1 77\r\nx\r\nVALUE b 0 1 78\r\ny\r\nEND\r\nHD c77 c0\r\n"),
            "VALUE a 0 1 cas#0\r\nx\r\nVALUE b 0 1 cas#1\r\ny\r\nEND\r\nHD cas#0 c0\r\n"
                .replace("HD cas", "HD ccas")
        );
        assert_eq!(normalise(b"VALUE a 0 1 77\r\nx\r\n").cas, [77]);
    }

    #[test]
    fn data_is_left_alone() {
        let answer = "VALUE a 0 14\r\nVALUE b 0 1 77\r\nEND\r\nVA 5 t#\r\nHD c1\r\n";
        assert_eq!(text(answer.replace("t#", "t9").as_bytes()), answer);
    }

    #[test]
    fn times_are_compared_with_tolerance() {
        let normal = normalise(b"ME a exp=98 la=0 cas=5 fetch=no cls=1 size=63\r\nHD t-1\r\n");
        assert_eq!(normal.bytes, b"ME a exp=# la=# cas=cas#0 fetch=no cls=1 size=63\r\nHD t-1\r\n");
        assert_eq!(normal.times, [98, 0]);
        assert!(normalise(b"HD t10\r\n").is_like(&normalise(b"HD t12\r\n")));
        assert!(!normalise(b"HD t10\r\n").is_like(&normalise(b"HD t20\r\n")));
        assert!(!normalise(b"HD t10\r\n").is_like(&normalise(b"HD t-1\r\n")));
    }

    #[test]
    fn padding_is_dropped_behind_numbers_only() {
        let without = |transcript: &[u8]| {
            String::from_utf8(normalise(transcript).without_padding()).expect("these answers are text")
        };
        assert_eq!(
            without(b"VALUE a 0 3 9\r\n2  \r\nEND\r\nVA 2 t-1\r\n5 \r\nHD\r\n"),
            "VALUE a 0 1 cas#0\r\n2\r\nEND\r\nVA 1 t-1\r\n5\r\nHD\r\n"
        );
        for other in [
            "VALUE a 0 2\r\nx \r\nEND\r\n",
            "VALUE a 0 2\r\n 7\r\n",
            "VA 0\r\n\r\n",
            "VA 2\r\n  \r\n",
            "VA 9\r\n5 ",
        ] {
            assert_eq!(without(other.as_bytes()), other);
        }
    }

    #[test]
    fn a_key_is_one_however_it_is_written() {
        assert_eq!(
            text(b"HD kYQ== b O1\r\nHD ka O1\r\nHD kYQ== O1\r\n"),
            "HD ka O1\r\nHD ka O1\r\nHD kYQ== O1\r\n"
        );
    }

    #[test]
    fn versions_are_not_compared() {
        assert_eq!(text(b"VERSION 1.6.18\r\nVERSION\n"), "VERSION #\r\nVERSION #\n");
    }
}
