//! From bytes to requests: the end of the line, the family of the command, the data block behind it.

use super::arithmetic::{self, ArithmeticVerb};
use super::command::Request;
use super::line::Line;
use super::meta::{self, MetaVerb};
use super::parsed::{Limits, Parsed};
use super::refused::Refused;
use super::retrieval::{self, RetrievalVerb};
use super::storage::{self, StorageVerb};
use super::{admin, data_block, deletion, touch};
use crate::{Refusal, near, tokens::Tokens};

/// Finds the request at the front of a buffer that grows at its end.
///
/// The parser remembers how far it has looked, so no byte is searched twice for the end of a line, however small the pieces
/// are in which it arrives. Whenever it returns anything but [`Parsed::Incomplete`] it is ready for the next request.
#[derive(Clone, Debug, Default)]
pub struct RequestParser {
    limits: Limits,
    /// Bytes at the front of the buffer in which there is no line ending.
    searched: usize,
    /// Length that the buffer must reach before parsing is worth a try.
    needed: usize,
}

impl RequestParser {
    /// A parser with these limits.
    pub const fn new(limits: Limits) -> Self {
        Self { limits, searched: 0, needed: 0 }
    }

    /// What a client may send at most.
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// Sets the longest value that is taken, from the next call on.
    pub const fn set_value_bytes_max(&mut self, bytes: usize) {
        self.limits.value_bytes_max = bytes;
    }

    /// Parses the front of `buffer`, which begins where the last request ended and holds at least all the bytes that it held
    /// at the last call, if that returned [`Parsed::Incomplete`].
    pub fn parse<'a>(&mut self, buffer: &'a [u8]) -> Parsed<'a> {
        if self.searched == 0
            && let Some((retrieval, len)) = retrieval::parse_plain(buffer)
            && len <= self.limits.line_bytes_max
        {
            self.needed = 0;
            return Parsed::Request { request: Request::Retrieval(retrieval), len };
        }
        self.parse_other(buffer)
    }

    /// The same of what is no plain `get`.
    fn parse_other<'a>(&mut self, buffer: &'a [u8]) -> Parsed<'a> {
        if self.searched == 0
            && let Some((set, line_len, len)) = storage::parse_plain(buffer)
            && line_len <= self.limits.line_bytes_max
            && set.value.len() <= self.limits.value_bytes_max
        {
            self.needed = 0;
            return Parsed::Request { request: Request::Storage(set), len };
        }
        self.parse_any(buffer)
    }

    /// The same, however the request is written.
    fn parse_any<'a>(&mut self, buffer: &'a [u8]) -> Parsed<'a> {
        if buffer.len() < self.needed {
            return Parsed::Incomplete { needed: self.needed };
        }
        let Some(newline) = near::find(b'\n', &buffer[self.searched..]).map(|at| self.searched + at) else {
            return self.without_line_ending(buffer);
        };
        if newline >= self.limits.line_bytes_max {
            return self.too_long();
        }
        let parsed = parse_line(line_before(buffer, newline), newline + 1, buffer, &self.limits);
        match parsed {
            Parsed::Incomplete { needed } => {
                self.searched = newline;
                self.needed = needed;
            }
            _ => self.reset(),
        }
        parsed
    }

    fn without_line_ending<'a>(&mut self, buffer: &[u8]) -> Parsed<'a> {
        if buffer.len() >= self.limits.line_bytes_max {
            return self.too_long();
        }
        self.searched = buffer.len();
        self.needed = buffer.len() + 1;
        Parsed::Incomplete { needed: self.needed }
    }

    fn too_long<'a>(&mut self) -> Parsed<'a> {
        self.reset();
        Parsed::Hangup { refusal: Some(Refusal::LineTooLong) }
    }

    fn reset(&mut self) {
        self.searched = 0;
        self.needed = 0;
    }
}

/// The line that ends at `newline`, without its ending. An empty line keeps its carriage return, as in memcached.
fn line_before(buffer: &[u8], newline: usize) -> &[u8] {
    match newline {
        2.. if buffer[newline - 1] == b'\r' => &buffer[..newline - 1],
        _ => &buffer[..newline],
    }
}

fn parse_line<'a>(line: &'a [u8], len: usize, buffer: &'a [u8], limits: &Limits) -> Parsed<'a> {
    let is_too_long = line.len() >= SHORT_LINE_BYTES_MAX && !may_be_long(line);
    if is_too_long && is_meta_alone(line) {
        // Its flags may be a million, each with something to say.
        return Parsed::Refused { refusal: Refusal::LineTooLong, silent: false, len };
    }
    match family(line, limits) {
        Line::Request(_) if is_too_long => {
            Parsed::Refused { refusal: Refusal::LineTooLong, silent: false, len }
        }
        // The data block behind it must not be read as commands.
        Line::Storage { .. } | Line::Meta { .. } if is_too_long => {
            Parsed::Hangup { refusal: Some(Refusal::LineTooLong) }
        }
        Line::Request(request) => Parsed::Request { request, len },
        Line::Refused(Refused { refusal, silent }) => Parsed::Refused { refusal, silent, len },
        Line::Storage { header, value_len } => {
            data_block::behind_storage(header, value_len, len, buffer, limits)
        }
        Line::Meta { header, value_len } => data_block::behind_meta(header, value_len, len, buffer, limits),
        Line::Hangup => Parsed::Hangup { refusal: None },
    }
}

/// memcached closes a connection on which a longer line begins that is neither `get` nor `gets`, if it arrives in pieces. A server's
/// connection is shared by many clients, so such lines are never passed on. The carriage return counts, the line feed does not.
const SHORT_LINE_BYTES_MAX: usize = 2048;

fn may_be_long(line: &[u8]) -> bool {
    matches!(begin_of_command(line), b"get" | b"gets" | b"bget")
}

/// Whether it is a meta command without a data block.
fn is_meta_alone(line: &[u8]) -> bool {
    matches!(begin_of_command(line), b"mg" | b"md" | b"ma" | b"me")
}

/// The first word, or as much of it as tells it from those above. The line may have megabytes, which are not looked at.
fn begin_of_command(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|&byte| byte != b' ').unwrap_or(line.len());
    let front = &line[start..line.len().min(start + b"bget".len() + 1)];
    Tokens::new(front).next().unwrap_or_default()
}

fn family<'a>(line: &'a [u8], limits: &Limits) -> Line<'a> {
    let mut tokens = Tokens::new(line);
    let Some(command) = tokens.next() else { return Line::UNKNOWN };
    match command {
        b"get" | b"bget" => Line::request(retrieval::parse(RetrievalVerb::Get, tokens), Request::Retrieval),
        b"gets" => Line::request(retrieval::parse(RetrievalVerb::Gets, tokens), Request::Retrieval),
        b"gat" => Line::request(retrieval::parse(RetrievalVerb::Gat, tokens), Request::Retrieval),
        b"gats" => Line::request(retrieval::parse(RetrievalVerb::Gats, tokens), Request::Retrieval),
        b"set" => Line::storage(storage::parse(StorageVerb::Set, tokens)),
        b"add" => Line::storage(storage::parse(StorageVerb::Add, tokens)),
        b"replace" => Line::storage(storage::parse(StorageVerb::Replace, tokens)),
        b"append" => Line::storage(storage::parse(StorageVerb::Append, tokens)),
        b"prepend" => Line::storage(storage::parse(StorageVerb::Prepend, tokens)),
        b"cas" => Line::storage(storage::parse(StorageVerb::Cas, tokens)),
        b"delete" => Line::request(deletion::parse(tokens), Request::Deletion),
        b"incr" => Line::request(arithmetic::parse(ArithmeticVerb::Incr, tokens), Request::Arithmetic),
        b"decr" => Line::request(arithmetic::parse(ArithmeticVerb::Decr, tokens), Request::Arithmetic),
        b"touch" => Line::request(touch::parse(tokens), Request::Touch),
        b"mg" => Line::meta(meta::parse(MetaVerb::Get, tokens)),
        b"ms" => Line::meta(meta::parse(MetaVerb::Set, tokens)),
        b"md" => Line::meta(meta::parse(MetaVerb::Delete, tokens)),
        b"ma" => Line::meta(meta::parse(MetaVerb::Arithmetic, tokens)),
        b"me" => Line::meta(meta::parse(MetaVerb::Debug, tokens)),
        b"mn" => Line::Request(Request::MetaNoop),
        _ => admin::parse(command, tokens, limits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn word() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![4 => Just(b'k'), 1 => Just(0x7f), 1 => Just(0xff), 1 => Just(0), 1 => 0..b'!'];
        let odd = prop::collection::vec(byte, 0..20);
        prop_oneof![4 => Just(b"key:0001".to_vec()), 1 => odd, 1 => (245..255usize).prop_map(|len| vec![b'k'; len])]
    }

    proptest! {
        /// A `get` is the same request whether it is looked at by the way for plain ones or not.
        #[test]
        fn a_plain_get_is_read_as_any(
            words in prop::collection::vec(word(), 0..6),
            ending in prop::sample::select(vec!["\r\n", "\n", " \r\n", "\r", "", "\r\nget x\r\n"]),
            line_bytes_max in prop_oneof![Just(1 << 20), 1..60usize],
        ) {
            let mut text = b"get".to_vec();
            words.iter().for_each(|word| text.extend([b" ", word.as_slice()].concat()));
            text.extend_from_slice(ending.as_bytes());
            let limits = Limits { line_bytes_max, ..Limits::default() };
            let (mut plainly, mut closely) = (RequestParser::new(limits), RequestParser::new(limits));
            prop_assert_eq!(plainly.parse(&text), closely.parse_any(&text));
            prop_assert_eq!((plainly.searched, plainly.needed), (closely.searched, closely.needed));
        }

        /// So is one whose keys are counted many at a time, whole or in pieces.
        #[test]
        fn a_long_get_has_the_keys_that_stand_between_its_spaces(
            words in prop::collection::vec(prop_oneof![20 => word(), 1 => Just(Vec::new())], 1..40),
            verb in prop::sample::select(vec!["get", "gets", "bget"]),
            times in 1..120usize,
            piece in prop_oneof![Just(usize::MAX), 1000..70_000usize],
        ) {
            let names: Vec<&[u8]> = words.iter().map(Vec::as_slice).filter(|word| !word.iter().any(|byte| b"\0\n".contains(byte))).collect();
            let mut text = verb.as_bytes().to_vec();
            (0..times).flat_map(|_| &names).for_each(|word| text.extend([b" ", *word].concat()));
            text.extend_from_slice(b"\r\n");
            let mut parser = RequestParser::default();
            let mut parsed = parser.parse(&text[..piece.min(text.len())]);
            let mut len = piece.min(text.len());
            while len < text.len() {
                let is_incomplete = matches!(parsed, Parsed::Incomplete { .. });
                prop_assert!(is_incomplete);
                len = (len + piece).min(text.len());
                parsed = parser.parse(&text[..len]);
            }
            let line = &text[verb.len()..text.len() - 2];
            let keys: Vec<&[u8]> = line.split(|&byte| byte == b' ').filter(|key| !key.is_empty()).collect();
            let is_any_too_long = keys.iter().any(|key| key.len() > 250);
            match parsed {
                Parsed::Request { request: Request::Retrieval(retrieval), len } => {
                    prop_assert!(!is_any_too_long && len == text.len());
                    prop_assert_eq!(retrieval.key_count(), keys.len());
                    prop_assert!(retrieval.keys().eq(keys.iter().copied()));
                }
                Parsed::Refused { len, .. } => {
                    prop_assert!((is_any_too_long || keys.is_empty()) && len == text.len());
                }
                other => panic!("{other:?}"),
            }
        }

        /// So is a `set`.
        #[test]
        fn a_plain_set_is_read_as_any(
            key in word(),
            numbers in prop::collection::vec(number(), 2..5),
            value_len in prop_oneof![8 => Just("5"), 1 => Just("4"), 1 => Just("05"), 1 => Just("1048577"), 1 => Just("-5")],
            last in prop::sample::select(vec!["", "", "", " noreply", " ", " 7"]),
            block in prop::sample::select(vec!["\r\nvalue\r\n", "\r\nvalue\r\nget x\r\n", "\nvalue\r\n", "\r\nvalue", "\r\nvalue\n\n", "\r\nval\r\n\r\n", "\r\n", "\r"]),
            value_bytes_max in prop_oneof![8 => Just(1 << 20), 1 => 3..7usize],
            line_bytes_max in prop_oneof![8 => Just(1 << 20), 1 => 1..60usize],
        ) {
            let words = [numbers.join(" ").as_str(), value_len].join(" ");
            let text = [b"set ", key.as_slice(), b" ", words.as_bytes(), last.as_bytes(), block.as_bytes()].concat();
            let limits = Limits { line_bytes_max, value_bytes_max, ..Limits::default() };
            let (mut plainly, mut closely) = (RequestParser::new(limits), RequestParser::new(limits));
            prop_assert_eq!(plainly.parse(&text), closely.parse_any(&text));
            prop_assert_eq!((plainly.searched, plainly.needed), (closely.searched, closely.needed));
        }
    }

    fn number() -> impl Strategy<Value = String> {
        let odd = prop::sample::select(vec![
            "",
            "-1",
            "+1",
            "1x",
            "4294967296",
            "18446744073709551616",
            "000000000001",
        ]);
        prop_oneof![8 => (0..2_000_000_000u32).prop_map(|number| number.to_string()), 1 => odd.prop_map(str::to_owned)]
    }
}
