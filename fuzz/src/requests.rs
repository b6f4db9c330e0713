//! Anything that a client can send, cut anywhere.
//!
//! Input: one line, then the client's bytes. The line says where they are cut (see [`ends`]); an `s` at its front makes the limits
//! small.
//!
//! Checked: nothing panics. The same messages come out however the bytes are cut, and whatever the parser remembers. No message is longer
//! than what is there. What a request is composed to is parsed to the same request, and is no line on which a server would close a
//! connection. The same bytes of a client that must log in are bounded in what is kept of them.

use crate::input::{ends, split};
use weir_protocol::{KEY_BYTES_MAX, LOGIN_BYTES_MAX, Limits, Meta, Parsed, Request, RequestParser, parse_login};

const USUAL: Limits = Limits {
    line_bytes_max: 3000,
    value_bytes_max: 1024,
    flush_allowed: false,
    server_commands_allowed: false,
};
const SMALL: Limits =
    Limits { line_bytes_max: 64, value_bytes_max: 8, flush_allowed: true, server_commands_allowed: true };

/// For what was parsed under any of the others: a line that ended in a bare line feed is one byte longer when it is composed.
const ROOMY: Limits = Limits {
    line_bytes_max: 1 << 20,
    value_bytes_max: 1 << 20,
    flush_allowed: true,
    server_commands_allowed: true,
};

/// memcached closes a connection on which this many bytes have come without a line feed, unless they begin a `get` or `gets`.
const SERVER_LINE_BYTES_MAX: usize = 2048;

/// Runs one input.
pub fn check(input: &[u8]) {
    let (head, bytes) = split(input, b'\n');
    check_login(bytes);
    let (limits, cuts) = match head {
        [b's', cuts @ ..] => (SMALL, cuts),
        cuts => (USUAL, cuts),
    };
    let whole = parse(limits, bytes, std::iter::once(bytes.len()));
    let cut = parse(limits, bytes, ends(bytes.len(), cuts));
    assert_eq!(whole, cut, "the cuts {} made a difference", cuts.escape_ascii());
    for (_, message) in whole.messages {
        if let Parsed::Request { request, .. } = message {
            check_keys(request);
            check_composed(request);
        }
    }
}

/// Before a login everything is read otherwise.
fn check_login(bytes: &[u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let (len, swallow) = match parse_login(rest) {
            Parsed::Incomplete { needed } => {
                assert!(needed > rest.len(), "asks for bytes that are there");
                assert!(rest.len() <= 2 * LOGIN_BYTES_MAX, "{} bytes are kept", rest.len());
                return;
            }
            Parsed::Hangup { refusal: None } => return,
            Parsed::Login { name, password, len } => {
                assert!([name, password].iter().all(|word| !word.is_empty() && !word.contains(&b' ')));
                (len, 0)
            }
            Parsed::Refused { len, .. } => (len, 0),
            Parsed::TooLarge { len, swallow, erases: false, .. } => (len, swallow),
            other => panic!("{other:?} before a login"),
        };
        assert!((1..=rest.len()).contains(&len), "{len} bytes of {} were taken", rest.len());
        at += len + swallow;
    }
}

/// What a stream of bytes is.
#[derive(Debug, PartialEq)]
struct Stream<'a> {
    /// Each message with the place at which it begins.
    messages: Vec<(usize, Parsed<'a>)>,
    /// How many bytes were taken.
    taken: usize,
}

/// Parses `bytes`, of which more and more is there: up to each of `ends`.
fn parse(limits: Limits, bytes: &[u8], ends: impl Iterator<Item = usize>) -> Stream<'_> {
    let mut parser = RequestParser::new(limits);
    let (mut messages, mut at, mut swallow) = (Vec::new(), 0, 0_usize);
    for end in ends {
        loop {
            let swallowed = swallow.min(end - at);
            swallow -= swallowed;
            at += swallowed;
            if at == end {
                break;
            }
            let buffer = &bytes[at..end];
            let parsed = parser.parse(buffer);
            assert_eq!(parsed, RequestParser::new(limits).parse(buffer), "what the parser remembers differs");
            let len = match parsed {
                Parsed::Incomplete { needed } => {
                    assert!(needed > buffer.len(), "asks for bytes that are there");
                    break;
                }
                Parsed::Foreign { .. } | Parsed::Login { .. } | Parsed::Hangup { .. } => {
                    messages.push((at, parsed));
                    return Stream { messages, taken: at };
                }
                Parsed::Request { len, .. } | Parsed::Refused { len, .. } => len,
                Parsed::TooLarge { len, swallow: block, .. } => {
                    swallow = block;
                    len
                }
            };
            assert!((1..=buffer.len()).contains(&len), "{len} bytes of {} were taken", buffer.len());
            messages.push((at, parsed));
            at += len;
        }
    }
    Stream { messages, taken: at }
}

/// What later code relies on.
fn check_keys(request: Request<'_>) {
    let check = |key: &[u8]| {
        assert!((1..=KEY_BYTES_MAX).contains(&key.len()), "a key has {} bytes", key.len());
        assert!(!key.iter().any(|byte| b" \n\0".contains(byte)), "{} is no key", key.escape_ascii());
    };
    match request {
        Request::Retrieval(retrieval) => {
            assert_eq!(retrieval.keys().count(), retrieval.key_count());
            retrieval.keys().for_each(check);
        }
        Request::Storage(storage) => check(storage.key),
        Request::Deletion(deletion) => check(deletion.key),
        Request::Arithmetic(arithmetic) => check(arithmetic.key),
        Request::Touch(touch) => check(touch.key),
        Request::Meta(meta) => {
            check(meta.key);
            check_flags(meta);
        }
        _ => {}
    }
}

/// The questions about a meta command that look at its flags have an answer.
fn check_flags(meta: Meta<'_>) {
    let _ = (meta.is_quiet(), meta.is_base64(), meta.is_conditional());
    assert!(meta.flags().all(|flag| !flag.is_empty()));
}

fn check_composed(request: Request<'_>) {
    let mut text = Vec::new();
    request.write_to(&mut text);
    let Parsed::Request { request: again, len } = RequestParser::new(ROOMY).parse(&text) else {
        panic!("{request:?} is composed to {}, which is no request", text.escape_ascii());
    };
    assert_eq!(len, text.len());
    assert!(is_same(request, again), "{request:?} is composed to {}", text.escape_ascii());
    let mut twice = Vec::new();
    again.write_to(&mut twice);
    assert!(text == twice, "{} is composed to {}", text.escape_ascii(), twice.escape_ascii());
    let (line, _) = split(&text, b'\n');
    assert!(
        line.len() <= SERVER_LINE_BYTES_MAX || line.starts_with(b"get"),
        "a server would close its connection on {}",
        line.escape_ascii()
    );
}

/// Whether two requests say the same. Those with several keys may differ in the spaces between them.
fn is_same(one: Request<'_>, other: Request<'_>) -> bool {
    match (one, other) {
        (Request::Retrieval(one), Request::Retrieval(other)) => {
            (one.verb, one.exptime) == (other.verb, other.exptime) && one.keys().eq(other.keys())
        }
        _ => one == other,
    }
}
