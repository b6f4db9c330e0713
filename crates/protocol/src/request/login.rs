//! What a client sends before it is logged in, read as memcached reads it that was started with `-Y`.
//!
//! ```text
//!   set <key> <flags> <exptime> <length>\r\n      the first word and the fifth count, the others are not looked at
//!   <name> <password>\r\n                         further words are not looked at either
//! ```
//!
//! Every other line is answered [`Refusal::Unauthenticated`], by itself: no data block is expected behind it. The login is answered whatever
//! stands behind its length, `noreply` included.
//!
//! Nothing is remembered between two calls: a login is short. A longer data block is refused before it has come, and thrown away as it
//! comes; behind a length that memcached's buffer does not hold the connection ends, as there.
//!
//! Source: `protocol.txt` of memcached 1.6.18, "Authentication", and that server's observed answers (`tests/processes/test_login_answers.py`).

use super::parsed::Parsed;
use crate::{Refusal, near, number, tokens::Tokens};

/// The longest data block of a login that is kept, in bytes, its line ending included.
pub const LOGIN_BYTES_MAX: usize = 2048;

/// A line without end that is longer ends the connection.
const LINE_BYTES_MAX: usize = 2048;

/// memcached ends the connection behind a longer data block, line ending included.
const BLOCK_BYTES_MAX: usize = 16 << 10;

/// What is at the front of the bytes of a client that is not logged in.
pub fn parse_login(bytes: &[u8]) -> Parsed<'_> {
    // memcached looks when there are two bytes: an empty line waits for what follows.
    if bytes.len() < 2 {
        return Parsed::Incomplete { needed: 2 };
    }
    let Some(newline) = near::find(b'\n', bytes) else {
        return match bytes.len() > LINE_BYTES_MAX {
            true => Parsed::Hangup { refusal: None },
            false => Parsed::Incomplete { needed: bytes.len() + 1 },
        };
    };
    let len = newline + 1;
    let Some(block_len) = block_len(&bytes[..newline]) else {
        return refused(Refusal::Unauthenticated, len);
    };
    if block_len > BLOCK_BYTES_MAX || len > LINE_BYTES_MAX {
        return Parsed::Hangup { refusal: None };
    }
    if block_len > LOGIN_BYTES_MAX {
        return Parsed::TooLarge {
            refusal: Refusal::LoginFailed,
            key: &[],
            base64: false,
            silent: false,
            erases: false,
            len,
            swallow: block_len,
        };
    }
    let needed = len + block_len;
    let Some(block) = bytes.get(len..needed) else { return Parsed::Incomplete { needed } };
    let Some(words) = block.strip_suffix(b"\r\n") else {
        return refused(Refusal::BadLoginEnd, needed);
    };
    match login_words(words) {
        Some((name, password)) => Parsed::Login { name, password, len: needed },
        None => refused(Refusal::BadLogin, needed),
    }
}

/// The name and the password in this data block, which is without its line ending; `None` if it is too short, or too long, to be a login.
pub fn login_words(block: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut words = Tokens::new(block);
    words.next().zip(words.next()).filter(|_| block.len() + 2 <= LOGIN_BYTES_MAX)
}

/// How long the data block behind this line is, its ending included; `None` if it is no login.
fn block_len(line: &[u8]) -> Option<usize> {
    let mut words = Tokens::new(line);
    if words.next()? != b"set" {
        return None;
    }
    // memcached reads 64 bits and keeps 32.
    let len = number::unsigned(words.nth(3)?)? as u32;
    Some(len as usize + 2)
}

fn refused<'a>(refusal: Refusal, len: usize) -> Parsed<'a> {
    Parsed::Refused { refusal, silent: false, len }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in bytes of which more and more is there, as words.
    #[track_caller]
    fn check(text: &[u8], expected: &str) {
        let shown = |parsed: Parsed<'_>| match parsed {
            Parsed::Login { name, password, len } => {
                format!("login {} {} {len}", name.escape_ascii(), password.escape_ascii())
            }
            Parsed::Refused { refusal, silent: false, len } => format!("{refusal:?} {len}"),
            Parsed::TooLarge { refusal, len, swallow, .. } => format!("{refusal:?} {len}+{swallow}"),
            Parsed::Hangup { refusal: None } => "hangup".to_owned(),
            Parsed::Incomplete { needed } => format!("needs {needed}"),
            other => panic!("{other:?}"),
        };
        assert_eq!(shown(parse_login(text)), expected, "{}", text.escape_ascii());
        // Whatever is cut off of it needs more bytes than there are, and no more than there will be.
        let whole = match parse_login(text) {
            Parsed::Login { len, .. } | Parsed::Refused { len, .. } | Parsed::TooLarge { len, .. } => len,
            _ => return,
        };
        for end in 0..whole {
            match parse_login(&text[..end]) {
                Parsed::Incomplete { needed } => {
                    assert!((end + 1..=whole.max(2)).contains(&needed), "{end}: {needed}");
                }
                other => assert!(whole > LINE_BYTES_MAX, "{end} of {}: {other:?}", text.escape_ascii()),
            }
        }
    }

    #[test]
    fn a_set_is_a_login_whatever_its_key_flags_and_time_are() {
        check(b"set k 0 0 3\r\nu p\r\n", "login u p 18");
        check(b"set k 0 0 3\nu p\r\nget a\r\n", "login u p 17");
        check(b"  set  k x y  +3 noreply and more\r\nu p\r\n", "login u p 40");
        check(b"set k 0 0 9\r\n u  p:q r\r\n", "login u p:q 24");
        check(b"set k 0 0 5\r\nu p\0x\r\n", "login u p 20");
        check(b"set k 0 0 4\r\nu p\r\r\n", "login u p\\r 19");
        check(b"set k 0 0 4294967299\r\nu p\r\n", "login u p 27");
    }

    #[test]
    fn other_lines_are_refused_one_by_one() {
        for line in [
            "get a",
            "",
            "version",
            "quit",
            "mn",
            "mg a v",
            "ms a 5",
            "add k 0 0 3",
            "SET k 0 0 3",
            "set k 0 3",
        ] {
            check(format!("{line}\r\n").as_bytes(), &format!("Unauthenticated {}", line.len() + 2));
        }
        for len in ["x", "-1", "3x", ""] {
            let line = format!("set k 0 0 {len}\r\n");
            check(line.as_bytes(), &format!("Unauthenticated {}", line.len()));
        }
        check(b"\n", "needs 2");
        check(b"\n\n", "Unauthenticated 1");
    }

    #[test]
    fn a_block_that_is_no_login_says_what_is_wrong() {
        check(b"set k 0 0 3\r\nu pxy", "BadLoginEnd 18");
        check(b"set k 0 0 1\r\nu\r\n", "BadLogin 16");
        check(b"set k 0 0 0\r\n\r\n", "BadLogin 15");
        check(b"set k 0 0 3\r\nu\tp\r\n", "BadLogin 18");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        check(b"set k 0 0 2046\r\n", "needs 2064");
        check(b"set k 0 0 2047\r\n", "LoginFailed 16+2049");
        check(b"set k 0 0 16382\r\n", "LoginFailed 17+16384");
        check(b"set k 0 0 16383\r\n", "hangup");
        check(b"set k 0 0 4294967295\r\n", "hangup");
        check(&[b'x'; 2048], "needs 2049");
        check(&[b'x'; 2049], "hangup");
        check(&[&[b'x'; 3000][..], b"\r\n"].concat(), "Unauthenticated 3002");
        check(&[b"set ", &[b'x'; 3000][..], b" 0 0 3\r\nu p\r\n"].concat(), "hangup");
    }
}
