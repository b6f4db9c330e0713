//! Anything that a server can send, cut anywhere.
//!
//! Input: two lines, then the server's bytes. The first line says what the replies are expected to be, one letter each (see
//! [`expected`]), again and again; the second where the bytes are cut (see [`ends`]).
//!
//! Checked: nothing panics. The same replies, values and violations come out however the bytes are cut, and whatever the scanner remembers.
//! Every part of a reply lies within it, and its values fill it up to its last line.

use crate::input::{ends, split};
use weir_protocol::{Expected, KEY_BYTES_MAX, Reply, ReplyScanner, Status, ValueSpan, Violation};

/// Runs one input.
pub fn check(input: &[u8]) {
    let (letters, rest) = split(input, b'\n');
    let (cuts, bytes) = split(rest, b'\n');
    let known: Vec<Expected> = letters.iter().filter_map(|&letter| expected(letter)).collect();
    let sequence = if known.is_empty() { vec![Expected::Retrieval] } else { known };
    let whole = scan(&sequence, bytes, std::iter::once(bytes.len()));
    let cut = scan(&sequence, bytes, ends(bytes.len(), cuts));
    assert_eq!(whole, cut, "the cuts {} made a difference", cuts.escape_ascii());
}

/// What a letter of the first line stands for.
fn expected(letter: u8) -> Option<Expected> {
    Some(match letter {
        b'g' => Expected::Retrieval,
        b's' => Expected::Storage,
        b'd' => Expected::Deletion,
        b'i' => Expected::Arithmetic,
        b't' => Expected::Touch,
        b'v' => Expected::Version,
        b'f' => Expected::Flush,
        b'c' => Expected::ServerCommand,
        b'm' => Expected::Meta,
        b'M' => Expected::MetaUnlessMiss,
        b'q' => Expected::MetaThenNoop,
        _ => return None,
    })
}

/// What a stream of bytes is.
#[derive(Debug, PartialEq)]
struct Stream {
    replies: Vec<(Reply, Vec<ValueSpan>)>,
    /// How many bytes were taken.
    taken: usize,
    violation: Option<Violation>,
}

/// Scans `bytes`, of which more and more is there: up to each of `ends`.
fn scan(sequence: &[Expected], bytes: &[u8], ends: impl Iterator<Item = usize>) -> Stream {
    let mut scanner = ReplyScanner::default();
    let mut stream = Stream { replies: Vec::new(), taken: 0, violation: None };
    for end in ends {
        while stream.taken < end {
            let buffer = &bytes[stream.taken..end];
            let expected = sequence[stream.replies.len() % sequence.len()];
            let found = scanner.scan(expected, buffer);
            let mut forgetful = ReplyScanner::default();
            assert_eq!(found, forgetful.scan(expected, buffer), "what the scanner remembers differs");
            match found {
                Ok(None) => {
                    assert!(scanner.needed() > buffer.len(), "asks for bytes that are there");
                    break;
                }
                Ok(Some(reply)) => {
                    assert_eq!(scanner.values(), forgetful.values());
                    assert!(!scanner.is_within_reply());
                    check_reply(expected, &reply, scanner.values(), buffer);
                    stream.replies.push((reply, scanner.values().to_vec()));
                    stream.taken += reply.len;
                }
                Err(violation) => {
                    // It is shown to operators.
                    assert!(!violation.to_string().is_empty());
                    return Stream { violation: Some(violation), ..stream };
                }
            }
        }
    }
    stream
}

fn check_reply(expected: Expected, reply: &Reply, values: &[ValueSpan], buffer: &[u8]) {
    assert!((1..=buffer.len()).contains(&reply.len), "a reply takes {} of {}", reply.len, buffer.len());
    assert!(reply.answer_len <= reply.len && reply.last_line <= reply.answer_len);
    let answer = &buffer[..reply.answer_len];
    assert_eq!(answer.is_empty(), reply.status == Status::MetaSilent);
    assert!(answer.is_empty() || answer.ends_with(b"\n"), "an answer does not end with its line");
    assert!(values.is_empty() || expected == Expected::Retrieval);
    let mut filled = 0;
    for value in values {
        assert_eq!(value.block.start, filled, "something lies between two values");
        filled = value.block.end;
        assert!(value.block.start < value.key.start && value.key.end < value.data.start);
        assert_eq!(value.data.end + 2, value.block.end);
        assert!(buffer[value.block.clone()].ends_with(b"\r\n"));
        let key = &buffer[value.key.clone()];
        assert!((1..=KEY_BYTES_MAX).contains(&key.len()) && !key.contains(&b' '));
    }
    assert_eq!(filled, reply.last_line, "something lies before the last line");
}
