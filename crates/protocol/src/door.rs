//! What a connection's first bytes say: the text protocol, or another one that is not spoken here.
//!
//! ```text
//!   first bytes ──▶ judge ──▶ Undecided: wait for more
//!                        ├──▶ Text: the parser reads them, and nobody judges again
//!                        └──▶ Foreign: one answer in that protocol's words, then the connection ends
//! ```
//!
//! It is asked for a connection's first bytes only, from the first one on, until it has decided. It keeps nothing: its callers hand
//! in all bytes that have come. It must be clear after [`HTTP_LINE_BYTES_MAX`] bytes.
//!
//! Without it a TLS client would wait for a greeting, and Weir for the end of a line, until a timeout ends both.

use crate::binary;

/// A request line of HTTP that is longer is read as text. memcached hangs up on it, and so does the parser.
pub const HTTP_LINE_BYTES_MAX: usize = 8 << 10;

/// What a connection's first bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// More bytes must come first.
    Undecided,
    /// The text protocol, or what memcached would read as that.
    Text,
    /// Another protocol.
    Foreign(Foreign),
}

/// A protocol that is recognised, so that its client gets an answer at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// memcached's binary protocol, with the header of the first request.
    Binary([u8; binary::HEADER_BYTES]),
    /// The beginning of a TLS handshake.
    Tls,
    /// HTTP, of any version whose request line names it.
    Http,
}

/// What every record of a TLS handshake begins with: its type, and the version's first byte, which is 3 in SSL 3.0 and all of TLS.
const TLS_HANDSHAKE: [u8; 2] = [0x16, 0x03];

/// A fatal alert: unexpected message (RFC 8446, 6.2). Its record has the version that every client reads.
const TLS_ALERT: &[u8] = &[0x15, 0x03, 0x03, 0x00, 0x02, 0x02, 0x0a];

const HTTP_ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 62\r\n\
    Connection: close\r\n\
    \r\n\
    This port speaks the text protocol of memcached and not HTTP.\n";

/// RFC 9110 and 5789, and the first word of a connection with HTTP/2 (RFC 9113).
const HTTP_METHODS: [&[u8]; 10] =
    [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH", b"PRI"];

/// Says what `bytes`, all that a connection has brought so far, begin.
pub fn judge(bytes: &[u8]) -> Opening {
    match *bytes {
        [] => Opening::Undecided,
        [binary::MAGIC, ..] => bytes
            .first_chunk()
            .map_or(Opening::Undecided, |header| Opening::Foreign(Foreign::Binary(*header))),
        [first, ..] if first == TLS_HANDSHAKE[0] => match bytes.get(1) {
            None => Opening::Undecided,
            Some(&second) if second == TLS_HANDSHAKE[1] => Opening::Foreign(Foreign::Tls),
            Some(_) => Opening::Text,
        },
        // Every command of memcached begins with a small letter.
        [b'A'..=b'Z', ..] => judge_line(bytes),
        _ => Opening::Text,
    }
}

/// What memcached answers with `ERROR` stays text: only a whole request line with its version is HTTP.
#[cold]
fn judge_line(bytes: &[u8]) -> Opening {
    let head = &bytes[..bytes.len().min(HTTP_LINE_BYTES_MAX)];
    let Some(newline) = head.iter().position(|&byte| byte == b'\n') else {
        let is_possible = head.len() < HTTP_LINE_BYTES_MAX && HTTP_METHODS.iter().any(|it| may_be(it, head));
        return if is_possible { Opening::Undecided } else { Opening::Text };
    };
    let line = head[..newline].strip_suffix(b"\r").unwrap_or(&head[..newline]);
    let mut words = line.split(|&byte| byte == b' ');
    let is_http = words.next().is_some_and(|method| HTTP_METHODS.contains(&method))
        && words.next().is_some_and(|target| !target.is_empty())
        && words.next().is_some_and(|version| version.starts_with(b"HTTP/"))
        && words.next().is_none();
    if is_http { Opening::Foreign(Foreign::Http) } else { Opening::Text }
}

/// Whether bytes without a line ending may become a request with this method.
fn may_be(method: &[u8], head: &[u8]) -> bool {
    match head.strip_prefix(method) {
        Some(rest) => rest.first().is_none_or(|&byte| byte == b' '),
        None => method.starts_with(head),
    }
}

impl Foreign {
    /// What a client of that protocol reads before its connection ends.
    pub fn answer(&self) -> Vec<u8> {
        match self {
            Self::Binary(header) => binary::refusal(header),
            Self::Tls => TLS_ALERT.to_vec(),
            Self::Http => HTTP_ANSWER.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], decided: Opening, after: usize) {
        for len in 0..after {
            assert_eq!(judge(&bytes[..len]), Opening::Undecided, "{len} bytes of {bytes:?}");
        }
        for len in after..=bytes.len() {
            assert_eq!(judge(&bytes[..len]), decided, "{len} bytes of {bytes:?}");
        }
    }

    #[test]
    fn what_is_foreign_is_so_at_its_first_bytes_wherever_they_are_cut() {
        let mut header = [0; binary::HEADER_BYTES];
        header[0] = binary::MAGIC;
        check(&[&header[..], b"key"].concat(), Opening::Foreign(Foreign::Binary(header)), 24);
        for version in 0..=4 {
            check(&[0x16, 3, version, 1, 0, 1], Opening::Foreign(Foreign::Tls), 2);
        }
        for line in
            ["GET / HTTP/1.1\r\n", "POST /x HTTP/1.0\n", "PRI * HTTP/2.0\r\n", "OPTIONS * HTTP/1.1\r\n"]
        {
            check(&[line.as_bytes(), b"Host: a\r\n"].concat(), Opening::Foreign(Foreign::Http), line.len());
        }
    }

    #[test]
    fn what_memcached_reads_as_text_stays_text() {
        check(b"get / HTTP/1.1\r\n", Opening::Text, 1);
        check(b"\r\n", Opening::Text, 1);
        check(b"\x16\n", Opening::Text, 2);
        check(b"ERROR\r\n", Opening::Text, 1);
        check(b"GETS a\r\n", Opening::Text, 4);
        check(b"GET a\r\n", Opening::Text, 7);
        check(b"GET a HTTP\r\n", Opening::Text, 12);
        check(b"GET  HTTP/1.1\r\n", Opening::Text, 15);
        check(b"GET a b HTTP/1.1\r\n", Opening::Text, 18);
        let long = [&b"GET /"[..], &vec![b'x'; 2 * HTTP_LINE_BYTES_MAX], b" HTTP/1.1\r\n"].concat();
        check(&long, Opening::Text, HTTP_LINE_BYTES_MAX);
    }

    #[test]
    fn the_answer_to_http_is_as_long_as_it_says() {
        let answer = String::from_utf8(Foreign::Http.answer()).expect("it is ASCII");
        let (head, body) = answer.split_once("\r\n\r\n").expect("there is a head");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{}", body.len());
    }
}
