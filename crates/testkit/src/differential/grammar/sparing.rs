//! What streams keep away from, because memcached 1.6.18 does not answer it in the same way each time, or answers by accident.
//!
//! - A retrieval of a key that is too long makes it forget all answers that it has not sent yet. That is tested separately, with all bytes
//!   in one piece.
//! - A long line that is no `get` makes it close the connection if the line comes in pieces. That is tested separately, too. (Where a data
//!   block ends within a long `get`, the rest of that is such a line.)
//! - `incr`, `decr` and `ma` of a value that is nothing but white space read on behind it, into what an older item has left there:
//!   the number found, if any, is somebody else's. So where there is arithmetic, no value is all white space.
//! - Of a value from 2^63 on they read behind the digits in search of a minus, and may find one that an older item has left there. So no minus is
//!   ever stored, in a key or a value.
//! - What ends after some seconds is there or not, depending on when it is looked for. So nothing ends within a run.
//! - Two clients who use one key at the same time see each other. So a stream has keys of its own: where a mistake puts another
//!   word in a key's place, its first byte becomes the stream's own letter.
//!
//! They also keep away from what Weir answers otherwise on purpose. Weir refuses `mg` or `ma` that create a binary key which could forge a
//! reply. It answers first bytes of another protocol with an error that says so.
//!
//! Keys, times and values are found as Weir's parser finds them. Every change keeps all lengths, so a mistake stays the mistake that it was.

use super::{
    super::stream::{Phase, Stream},
    words::{KEY_BYTES_MAX, Keys},
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use weir_protocol::{
    Limits, Meta, Parsed, Request, RequestParser,
    door::{self, Opening},
};

/// Lines of anything but a retrieval stay below the length at which memcached begins to close connections, depending on how
/// they were cut.
pub(super) const LINE_BYTES_MAX: usize = 2_000;

/// What ends earlier may end within a run.
const LIFETIME_MIN_S: i32 = 600;

/// A change may make another one necessary: a line that is now valid has a key.
const ROUNDS_MAX: usize = 16;

/// Makes a stream so that it can be compared.
pub(super) fn spare(stream: &mut Stream, keys: &Keys) {
    stream.phases.iter_mut().for_each(spare_lines);
    spare_opening(stream);
    let tail = stream.filler();
    for _ in 0..ROUNDS_MAX {
        let counts = stream.phases.iter().any(|phase| has_arithmetic(&phase.bytes));
        let mut changed = false;
        for phase in &mut stream.phases {
            // A block that is left open is filled by what follows the stream.
            let shadow = [&as_if_filled_in(&phase.bytes)[..], &tail].concat();
            let changes = changes(&shadow, keys, counts);
            for (at, byte) in changes {
                if let Some(place) = phase.bytes.get_mut(at) {
                    changed |= *place != byte;
                    *place = byte;
                }
            }
        }
        if !changed {
            return;
        }
    }
}

/// Whether no line of the stream meets what memcached does not answer in the same way each time.
pub(in super::super) fn is_spared(stream: &Stream) -> bool {
    let mut spared = stream.clone();
    spared.phases.iter_mut().for_each(spare_lines);
    spare_opening(&mut spared);
    spared == *stream
}

/// Makes a stream that begins like another protocol begin like a misspelt command.
fn spare_opening(stream: &mut Stream) {
    if let Some(first) = stream.phases.first_mut()
        && matches!(door::judge(&first.bytes), Opening::Foreign(_))
    {
        first.bytes[0] = b'x';
    }
}

fn spare_lines(phase: &mut Phase) {
    let mut lines: Vec<_> = phase.bytes.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    for line in &mut lines {
        let end = line.len().saturating_sub(2);
        if line.len() > LINE_BYTES_MAX && !may_be_long(line) {
            line.drain(LINE_BYTES_MAX.min(end)..end);
        }
        if line.windows(3).any(|verb| verb == b"get" || verb == b"gat") {
            let mut len = 0;
            line.retain(|byte| {
                len = if b" \n".contains(byte) { 0 } else { len + 1 };
                len <= KEY_BYTES_MAX
            });
        }
        if line.windows(3).any(|verb| verb == b"mg " || verb == b"ma ") && has_word(line, b'b') {
            create_nothing(line);
        }
    }
    phase.bytes = lines.concat();
}

/// memcached skips spaces, and then knows two commands for which it goes on reading.
fn may_be_long(line: &[u8]) -> bool {
    let start = &line[line.iter().take_while(|&&byte| byte == b' ').count()..];
    start.starts_with(b"get ") || start.starts_with(b"gets ")
}

fn has_word(line: &[u8], first: u8) -> bool {
    line.split(|&byte| byte == b' ').any(|word| word.first() == Some(&first))
}

/// Makes `N`, which creates what it misses, an opaque.
fn create_nothing(line: &mut [u8]) {
    for at in 1..line.len() {
        if line[at - 1] == b' ' && line[at] == b'N' {
            line[at] = b'O';
        }
    }
}

/// The bytes with numbers of the same length where cas tokens will be.
fn as_if_filled_in(bytes: &[u8]) -> Vec<u8> {
    let mut filled = bytes.to_vec();
    for at in 0..bytes.len().saturating_sub(Stream::CAS.len()) {
        if bytes[at..].starts_with(Stream::CAS) {
            filled[at..at + Stream::CAS.len()].fill(b'1');
        }
    }
    filled
}

/// The bytes to change, and what they become.
fn changes(bytes: &[u8], keys: &Keys, counts: bool) -> Vec<(usize, u8)> {
    let mut changes = Vec::new();
    let mut change = |part: &[u8], byte| changes.push((offset(bytes, part), byte));
    for_each_message(bytes, |line, request| {
        if line.len() > LINE_BYTES_MAX && !may_be_long(line) {
            line.chunks_exact(LINE_BYTES_MAX / 2).for_each(|part| change(&part[part.len() - 1..], b'\n'));
        }
        let Some(request) = request else { return };
        let mut key = |key: &[u8], is_base64| {
            key.chunks(1).filter(|&byte| byte == b"-").for_each(|minus| change(minus, b'_'));
            if is_base64 && !is_own_base64(key, keys) {
                change(key, NO_BASE64);
            } else if !is_base64 && !is_own(key, keys) {
                change(key, keys.short());
            }
        };
        match request {
            Found::TooLarge { key: of, is_base64 } => key(of, is_base64),
            Found::Request(Request::Retrieval(retrieval)) => retrieval.keys().for_each(|of| key(of, false)),
            Found::Request(Request::Storage(storage)) => key(storage.key, false),
            Found::Request(Request::Deletion(deletion)) => key(deletion.key, false),
            Found::Request(Request::Arithmetic(arithmetic)) => key(arithmetic.key, false),
            Found::Request(Request::Touch(touch)) => key(touch.key, false),
            Found::Request(Request::Meta(meta)) => key(meta.key, meta.is_base64()),
            Found::Request(_) => {}
        }
        let Found::Request(request) = request else { return };
        let value = match request {
            Request::Storage(storage) => storage.value,
            Request::Meta(Meta { block, .. }) => &block[..block.len().saturating_sub(2)],
            _ => &[],
        };
        value.chunks(1).filter(|&byte| byte == b"-").for_each(|minus| change(minus, b'_'));
        if counts && !value.is_empty() && value.iter().all(|byte| b" \t\n\x0b\x0c\r".contains(byte)) {
            change(&value[..1], b'w');
        }
        for_each_time(request, |time| {
            if ends_soon(time) {
                let digits = time.chunks(1).filter(|byte| byte[0].is_ascii_digit());
                digits.for_each(|digit| change(digit, b'0'));
            }
        });
    });
    changes
}

enum Found<'a> {
    Request(Request<'a>),
    TooLarge { key: &'a [u8], is_base64: bool },
}

/// Calls `with` for each message: its line, and what is asked for if it is understood.
fn for_each_message<'a>(bytes: &'a [u8], mut with: impl FnMut(&'a [u8], Option<Found<'a>>)) {
    let limits = Limits {
        line_bytes_max: 4 << 20,
        value_bytes_max: 1 << 20,
        flush_allowed: false,
        server_commands_allowed: false,
    };
    let (mut parser, mut at) = (RequestParser::new(limits), 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let line = rest.split(|&byte| byte == b'\n').next().unwrap_or(rest);
        let (found, len) = match parser.parse(rest) {
            Parsed::Request { request: Request::Quit, .. }
            | Parsed::Incomplete { .. }
            | Parsed::Foreign { .. }
            | Parsed::Login { .. }
            | Parsed::Hangup { .. } => return with(line, None),
            Parsed::Request { request, len } => (Some(Found::Request(request)), len),
            Parsed::Refused { len, .. } => (None, len),
            Parsed::TooLarge { key, base64, len, swallow, .. } => {
                (Some(Found::TooLarge { key, is_base64: base64 }), len.saturating_add(swallow))
            }
        };
        with(line, found);
        at = at.saturating_add(len);
    }
}

fn has_arithmetic(bytes: &[u8]) -> bool {
    // Also where it is not understood: what is changed later may make it so.
    bytes.windows(3).any(|verb| verb == b"ma ")
        || bytes.windows(4).any(|verb| verb == b"incr" || verb == b"decr")
}

fn is_own(key: &[u8], keys: &Keys) -> bool {
    key.first() == Some(&keys.short()) || key.starts_with(keys.prefix())
}

/// With this in it, a word is no base64, and no stream's key.
const NO_BASE64: u8 = b'*';

fn is_own_base64(key: &[u8], keys: &Keys) -> bool {
    let own_start = BASE64.encode(&keys.prefix()[..keys.prefix().len() / 3 * 3]);
    match BASE64.decode(key) {
        Ok(key) => is_own(&key, keys),
        Err(_) => key.contains(&NO_BASE64) || key.starts_with(own_start.as_bytes()),
    }
}

fn for_each_time<'a>(request: Request<'a>, mut with: impl FnMut(&'a [u8])) {
    match request {
        Request::Storage(storage) => with(storage.exptime),
        Request::Touch(touch) => with(touch.exptime),
        Request::Retrieval(retrieval) => with(retrieval.exptime),
        Request::Meta(meta) => {
            meta.flags().filter(|flag| b"TN".contains(&flag[0])).for_each(|flag| with(&flag[1..]));
        }
        _ => {}
    }
}

/// Whether a time, as C reads numbers, is a lifetime that ends within the run.
fn ends_soon(time: &[u8]) -> bool {
    let start = time.iter().position(|byte| !b" \t\n\x0b\x0c\r".contains(byte)).unwrap_or(0);
    let (negative, digits) = match &time[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    let number = digits
        .iter()
        .map_while(|&byte| byte.is_ascii_digit().then(|| i32::from(byte - b'0')))
        .fold(0_i32, |number, digit| number.wrapping_mul(10).wrapping_add(digit));
    // Of a long number the low 32 bits count.
    (1..LIFETIME_MIN_S).contains(&if negative { number.wrapping_neg() } else { number })
}

fn offset(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr() - whole.as_ptr().addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stream number 2 of seed 1: its keys begin with `k1.2:` or `C`.
    fn spared(bytes: &[u8]) -> String {
        let mut stream = Stream::whole(bytes);
        spare(&mut stream, &Keys::new(1, 2));
        stream.phases[0].bytes.escape_ascii().to_string()
    }

    #[test]
    fn keys_of_others_become_own() {
        assert_eq!(spared(b"get k1.2:a 0 C b\r\n"), r"get k1.2:a C C C\r\n");
        assert_eq!(spared(b"set k1.3:a 0 0 1\r\nx\r\n"), r"set C1.3:a 0 0 1\r\nx\r\n");
        assert_eq!(
            spared(b"me k q\r\nmd azEuMjph b\r\nmd azEuMzph b\r\n"),
            r"me C q\r\nmd azEuMjph b\r\nmd *zEuMzph b\r\n"
        );
        // In a block that is read as commands, and with a token that is not known yet.
        assert_eq!(
            spared(b"set k1.2:a 0 0 x\r\nget d\r\ncas e 0 0 1 <cas>1\r\nx\r\n"),
            r"set k1.2:a 0 0 x\r\nget C\r\ncas C 0 0 1 <cas>1\r\nx\r\n"
        );
        assert_eq!(spared(b"set k1.2:a 0 0 7\r\nget d\r\n\r\n"), r"set k1.2:a 0 0 7\r\nget d\r\n\r\n");
    }

    #[test]
    fn keys_in_base64_become_none() {
        // `TA==` is another stream's letter, `Qw==` its own; `azEuM` begins like a key of its own and is none.
        assert_eq!(
            spared(b"mg TA== b\r\nmg Qw== b\r\nmg azEuM b\r\n"),
            r"mg *A== b\r\nmg Qw== b\r\nmg azEuM b\r\n"
        );
    }

    /// The block takes the command; what is left is too long for a line.
    #[test]
    fn the_rest_of_a_long_line_is_made_short() {
        let get = [&b"get"[..], &b" C".repeat(1_500)].concat();
        let text = spared(&[b"set C 0 0 2\r\n", &get[..], b"\r\n"].concat());
        assert_eq!(text.matches(r"\n").count(), 5, "{text}");
        let text = spared(&[b"set C 0 0 2\r\n7\r\n\r\n", &get[..], b"\r\n"].concat());
        assert_eq!(text.matches(r"\n").count(), 4, "{text}");
    }

    #[test]
    fn nothing_ends_soon() {
        assert_eq!(
            spared(b"touch C 5\r\ntouch C +007\r\ntouch C 1000\r\n"),
            r"touch C 0\r\ntouch C +000\r\ntouch C 1000\r\n"
        );
        assert_eq!(
            spared(b"gat 1\t C\r\nmg C T30 N-4294967295\r\n"),
            r"gat 0\t C\r\nmg C T00 N-0000000000\r\n"
        );
        assert_eq!(spared(b"touch C -1\r\ntouch C 4102444800\r\n"), r"touch C -1\r\ntouch C 4102444800\r\n");
    }

    #[test]
    fn where_there_is_arithmetic_no_value_is_all_white() {
        assert_eq!(spared(b"set C 0 0 2\r\n\r\n\r\nget C\r\n"), r"set C 0 0 2\r\n\r\n\r\nget C\r\n");
        assert_eq!(spared(b"set C 0 0 2\r\n\r\n\r\nincr C 1\r\n"), r"set C 0 0 2\r\nw\n\r\nincr C 1\r\n");
        assert_eq!(spared(b"ms C 1\r\n\n\r\nma C\r\n"), r"ms C 1\r\nw\r\nma C\r\n");
        assert_eq!(spared(b"set C 0 0 0\r\n\r\nincr C 1\r\n"), r"set C 0 0 0\r\n\r\nincr C 1\r\n");
    }

    #[test]
    fn no_minus_is_stored() {
        assert_eq!(spared(b"set k1.2:-a 0 -1 2\r\n-3\r\n"), r"set k1.2:_a 0 -1 2\r\n_3\r\n");
        assert_eq!(spared(b"ms C 3 T-1\r\n-x-\r\n"), r"ms C 3 T-1\r\n_x_\r\n");
    }

    #[test]
    fn no_binary_key_is_created() {
        assert_eq!(spared(b"mg azEuMjph N30 b Nx\r\n"), r"mg azEuMjph O30 b Ox\r\n");
        assert_eq!(spared(b"mg k1.2:a N3000\r\n"), r"mg k1.2:a N3000\r\n");
    }
}
