//! Replies: what servers answer.
//!
//! A reply is one line, or for retrievals any number of `VALUE <key> <flags> <bytes> [<cas>]` lines, each with its data block,
//! and then `END`. It is read by the lengths it states. What a server may not answer to a request is a [`Violation`]: after one,
//! the connection cannot be trusted to be in step, and is closed.

pub(crate) mod values;

use crate::{KEY_BYTES_MAX, near, number, tokens::Tokens};
use std::{fmt, ops::Range};

/// Which replies fit a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expected {
    /// To `get`, `gets`, `gat`, `gats`.
    Retrieval,
    /// To `set`, `add`, `replace`, `append`, `prepend`, `cas`.
    Storage,
    /// To `delete`.
    Deletion,
    /// To `incr`, `decr`.
    Arithmetic,
    /// To `touch`.
    Touch,
    /// To `version`.
    Version,
    /// To `flush_all`.
    Flush,
    /// To a command to a whole server ([`crate::Request::ServerCommand`]): `OK`, or one line that says why not.
    ServerCommand,
    /// To `stats settings`: any number of `STAT <name> <value>`, then `END`.
    Settings,
    /// To a meta command that is always answered.
    Meta,
    /// The same of a quiet `mg` that was sent without its `q`: a miss is nothing for the client.
    MetaUnlessMiss,
    /// To a quiet meta command followed by `mn`: the reply, if there is one, and then `MN`, which counts as part of it.
    MetaThenNoop,
}

impl Expected {
    /// Whether it is the reply to a meta command.
    #[inline]
    pub const fn is_meta(self) -> bool {
        matches!(self, Self::Meta | Self::MetaUnlessMiss | Self::MetaThenNoop)
    }
}

/// What a reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// `END`, after the values that were found.
    End,
    /// Values of one of several retrievals that were asked for in one message. No `END` stands behind them: what follows may belong to
    /// another one.
    Values,
    /// `STORED`.
    Stored,
    /// `NOT_STORED`.
    NotStored,
    /// `EXISTS`: the item changed since the `gets`.
    Exists,
    /// `NOT_FOUND`.
    NotFound,
    /// `DELETED`.
    Deleted,
    /// `TOUCHED`.
    Touched,
    /// The new number after `incr` or `decr`.
    Number,
    /// `VERSION …`.
    Version,
    /// `OK`.
    Ok,
    /// A meta reply with a value: `VA …`.
    MetaValue,
    /// `HD …`, or `ME …`.
    MetaDone,
    /// `EN`: a miss.
    MetaMiss,
    /// `NF …`, `NS …` or `EX …`.
    MetaNotDone,
    /// A quiet meta command had nothing to say.
    MetaSilent,
    /// `ERROR`.
    Error,
    /// `CLIENT_ERROR …`.
    ClientError,
    /// `SERVER_ERROR …`.
    ServerError,
}

impl Status {
    /// Whether the server refused.
    pub const fn is_error(self) -> bool {
        matches!(self, Self::Error | Self::ClientError | Self::ServerError)
    }
}

/// A complete reply at the front of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// How many bytes it takes.
    pub len: usize,
    /// How many of them are for the client: all, but for the `MN` of [`Expected::MetaThenNoop`] and the miss of
    /// [`Expected::MetaUnlessMiss`].
    pub answer_len: usize,
    /// What it says. An error may stand behind values that were already sent; then those do not count.
    pub status: Status,
    /// Where its last line begins.
    pub last_line: usize,
}

impl Reply {
    /// The same for a client that does not want to hear of a miss.
    #[must_use]
    pub const fn unless_miss(self) -> Self {
        match self.status {
            Status::MetaMiss => Self { answer_len: 0, status: Status::MetaSilent, ..self },
            _ => self,
        }
    }
}

/// Where one value lies in the buffer that was scanned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueSpan {
    /// The whole block, from `VALUE` to the line ending behind the data.
    pub block: Range<usize>,
    /// The key.
    pub key: Range<usize>,
    /// The data, without the line ending behind it.
    pub data: Range<usize>,
    /// The flags.
    pub flags: u32,
    /// The cas token, if the server sent one.
    pub cas: Option<u64>,
}

/// Whose a value is, in a reply to several retrievals that were asked for in one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// That of the first retrieval that has not got all its values.
    Heads,
    /// The same, and now it has all.
    HeadsLast,
    /// That of another. What has come for the first stands in front of it.
    Others,
}

/// A reply that does not fit the request, or is none at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A line that is no answer to this request. The first bytes of it are kept.
    UnexpectedLine(String),
    /// A `VALUE` line that cannot be read.
    BadValueLine(String),
    /// A data block that does not end where its length said.
    BadDataBlock,
    /// A line without end.
    LineTooLong,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnexpectedLine(line) => write!(f, "the reply {line:?} does not fit the request"),
            Self::BadValueLine(line) => write!(f, "the value header {line:?} cannot be read"),
            Self::BadDataBlock => f.write_str("a value does not end where its length said"),
            Self::LineTooLong => write!(f, "a reply line is longer than {LINE_BYTES_MAX} bytes"),
        }
    }
}

impl std::error::Error for Violation {}

/// The longest reply line that is waited for. memcached's own stay below 512 bytes; a header with a 250-byte key is the longest.
const LINE_BYTES_MAX: usize = 4096;

/// Room for the notes of this many values is not given back: 72 KiB.
const VALUES_USUAL: usize = 1024;

/// Finds the reply at the front of a buffer that grows at its end.
///
/// The scanner remembers the values that it has seen and where it stopped, so that a reply of many values that arrives in
/// pieces costs no more than one that arrives whole.
#[derive(Clone, Debug, Default)]
pub struct ReplyScanner {
    values: Vec<ValueSpan>,
    /// Where the next line begins.
    position: usize,
    /// Length that the buffer must reach before scanning is worth a try.
    needed: usize,
    /// Whose the value is whose header was read last, while its data is not all there.
    whose: Option<Whose>,
    done: bool,
}

impl ReplyScanner {
    /// Scans the front of `buffer` for one whole reply. `None`: more bytes are needed; call again with the same bytes and more.
    /// After a reply, the next call begins a new one, with a buffer from which [`Reply::len`] bytes were taken.
    // As a call of its own it costs every request a hundred instructions.
    #[inline(always)]
    pub fn scan(&mut self, expected: Expected, buffer: &[u8]) -> Result<Option<Reply>, Violation> {
        if self.done {
            self.reset();
        }
        while buffer.len() >= self.needed {
            if expected == Expected::Retrieval
                && let Some((header, line)) = self.plain_header(buffer)
            {
                if !self.value(header, line, buffer)? {
                    return Ok(None);
                }
                continue;
            }
            let Some(line) = self.line(buffer)? else { return Ok(None) };
            let text = &buffer[self.position..line.end];
            if expected.is_meta() {
                return self.meta(expected, text, line, buffer);
            }
            if expected == Expected::Settings && text.starts_with(b"STAT ") {
                self.position = line.next;
                self.needed = self.position + 1;
                continue;
            }
            if expected == Expected::Retrieval && text.starts_with(VALUE_WORD) {
                if !self.value(ValueHeader::parse(text)?, line, buffer)? {
                    return Ok(None);
                }
                continue;
            }
            return self.last_line(expected, text, line);
        }
        Ok(None)
    }

    /// Scans the front of `buffer` for values of the first of several retrievals that were asked for in one message. `whose` is asked for
    /// each value in turn, by its key, as soon as its header is there.
    ///
    /// A reply of [`Status::Values`] ends behind the last value of the first retrieval, or where a value of another begins, and may be
    /// empty. With any other status all have ended.
    pub fn scan_joined(
        &mut self,
        buffer: &[u8],
        mut whose: impl FnMut(&[u8]) -> Whose,
    ) -> Result<Option<Reply>, Violation> {
        if self.done {
            self.reset();
        }
        while buffer.len() >= self.needed {
            let (header, line) = match self.plain_header(buffer) {
                Some(found) => found,
                None => {
                    let Some(line) = self.line(buffer)? else { return Ok(None) };
                    let text = &buffer[self.position..line.end];
                    if !text.starts_with(VALUE_WORD) {
                        return self.last_line(Expected::Retrieval, text, line);
                    }
                    (ValueHeader::parse(text)?, line)
                }
            };
            let key = &buffer[self.position + VALUE_WORD.len()..][..header.key_len];
            let owner = *self.whose.get_or_insert_with(|| whose(key));
            if owner != Whose::Others && !self.value(header, line, buffer)? {
                return Ok(None);
            }
            self.whose = None;
            if owner != Whose::Heads {
                self.done = true;
                let len = self.position;
                return Ok(Some(Reply { len, answer_len: len, status: Status::Values, last_line: len }));
            }
        }
        Ok(None)
    }

    /// Takes the line `text`, which ends a reply.
    #[inline]
    fn last_line(&mut self, expected: Expected, text: &[u8], line: Line) -> Result<Option<Reply>, Violation> {
        let status = status(expected, text).ok_or_else(|| Violation::UnexpectedLine(excerpt(text)))?;
        self.done = true;
        Ok(Some(Reply { len: line.next, answer_len: line.next, status, last_line: self.position }))
    }

    /// The values of the reply that was found last, in the order in which they came.
    pub fn values(&self) -> &[ValueSpan] {
        &self.values
    }

    /// Length that the buffer must reach before another call can tell more.
    pub const fn needed(&self) -> usize {
        self.needed
    }

    /// Where the value or line begins that is not complete.
    pub const fn position(&self) -> usize {
        self.position
    }

    /// Whether a reply has begun and is not complete.
    pub const fn is_within_reply(&self) -> bool {
        !self.done && self.position > 0
    }

    /// Forgets a reply that is not complete.
    pub fn reset(&mut self) {
        self.values.clear();
        self.position = 0;
        self.needed = 0;
        self.whose = None;
        self.done = false;
    }

    /// What is kept to note values, beyond what the largest replies of every day need, in bytes.
    pub fn held_bytes(&self) -> usize {
        self.values.capacity().saturating_sub(VALUES_USUAL) * size_of::<ValueSpan>()
    }

    /// Frees that, between replies.
    pub fn give_memory_back(&mut self) {
        if self.values.capacity() > VALUES_USUAL && (self.done || self.position == 0) {
            self.reset();
            self.values = Vec::new();
        }
    }

    /// Takes a meta reply whose first line is `text`, and the `MN` behind it if one is expected.
    fn meta(
        &mut self,
        expected: Expected,
        text: &[u8],
        line: Line,
        buffer: &[u8],
    ) -> Result<Option<Reply>, Violation> {
        let unexpected = || Violation::UnexpectedLine(excerpt(text));
        if expected == Expected::MetaThenNoop && text == b"MN" {
            self.done = true;
            return Ok(Some(Reply {
                len: line.next,
                answer_len: 0,
                status: Status::MetaSilent,
                last_line: 0,
            }));
        }
        let (status, value_len) = meta_status(text).ok_or_else(unexpected)?;
        let answer_len = match value_len {
            None => line.next,
            Some(value_len) => match self.data_block(line.next, value_len, buffer)? {
                Some(end) => end,
                None => return Ok(None),
            },
        };
        let mut len = answer_len;
        if expected == Expected::MetaThenNoop {
            let Some(noop) = buffer.get(answer_len..answer_len + NOOP.len()) else {
                self.needed = answer_len + NOOP.len();
                return Ok(None);
            };
            if noop != NOOP {
                return Err(Violation::UnexpectedLine(excerpt(noop)));
            }
            len += NOOP.len();
        }
        self.done = true;
        let reply = Reply { len, answer_len, status, last_line: 0 };
        Ok(Some(if expected == Expected::MetaUnlessMiss { reply.unless_miss() } else { reply }))
    }

    /// Where the data block that begins at `start` ends, line ending included; `None` if it is not all there.
    fn data_block(&mut self, start: usize, len: usize, buffer: &[u8]) -> Result<Option<usize>, Violation> {
        let end = start.checked_add(len).and_then(|end| end.checked_add(2)).ok_or(Violation::BadDataBlock)?;
        match buffer.get(end - 2..end) {
            Some(b"\r\n") => Ok(Some(end)),
            Some(_) => Err(Violation::BadDataBlock),
            None => {
                self.needed = end;
                Ok(None)
            }
        }
    }

    /// The header of a value at the scanner's position, if it is there and written as memcached writes it for a `get`. Of what is written in
    /// another way nothing is said.
    #[inline(always)]
    fn plain_header(&self, buffer: &[u8]) -> Option<(ValueHeader, Line)> {
        let words = buffer[self.position..].strip_prefix(VALUE_WORD)?;
        let key_len = near::find_blank(words).filter(|len| (1..=KEY_BYTES_MAX).contains(len))?;
        let (flags, rest) = number::few_digits(words[key_len..].strip_prefix(b" ")?)?;
        let (bytes, rest) = number::few_digits(rest.strip_prefix(b" ")?)?;
        let rest = rest.strip_prefix(b"\r\n")?;
        let next = buffer.len() - rest.len();
        let header = ValueHeader { key_len, flags, bytes: acceptable_len(bytes.into())?, cas: None };
        Some((header, Line { end: next - 2, next }))
    }

    #[inline]
    fn line(&mut self, buffer: &[u8]) -> Result<Option<Line>, Violation> {
        let rest = &buffer[self.position..];
        match near::find(b'\n', &rest[..rest.len().min(LINE_BYTES_MAX)]) {
            Some(at) => {
                let end = if at > 0 && rest[at - 1] == b'\r' { at - 1 } else { at };
                Ok(Some(Line { end: self.position + end, next: self.position + at + 1 }))
            }
            None if rest.len() >= LINE_BYTES_MAX => Err(Violation::LineTooLong),
            None => {
                self.needed = buffer.len() + 1;
                Ok(None)
            }
        }
    }

    /// Takes the value with this header; `false` if its data block is not all there.
    #[inline]
    fn value(&mut self, header: ValueHeader, line: Line, buffer: &[u8]) -> Result<bool, Violation> {
        let Some(block_end) = self.data_block(line.next, header.bytes, buffer)? else { return Ok(false) };
        let key_start = self.position + VALUE_WORD.len();
        self.values.push(ValueSpan {
            block: self.position..block_end,
            key: key_start..key_start + header.key_len,
            data: line.next..block_end - 2,
            flags: header.flags,
            cas: header.cas,
        });
        self.position = block_end;
        Ok(true)
    }
}

/// Where the line that begins at the scanner's position ends, without and with its line ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    end: usize,
    next: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ValueHeader {
    key_len: usize,
    flags: u32,
    bytes: usize,
    cas: Option<u64>,
}

impl ValueHeader {
    /// `text` begins with `VALUE `. Its key must follow at once, because its place is computed from that.
    #[inline]
    fn parse(text: &[u8]) -> Result<Self, Violation> {
        Self::words(&text[VALUE_WORD.len()..]).ok_or_else(|| Violation::BadValueLine(excerpt(text)))
    }

    #[inline]
    fn words(words: &[u8]) -> Option<Self> {
        let key_len = near::find(b' ', words).filter(|len| (1..=KEY_BYTES_MAX).contains(len))?;
        let (flags, words) = number::next_digits(&words[key_len..])?;
        let (bytes, words) = number::next_digits(words)?;
        let cas = if words.is_empty() { None } else { cas_token(words)? };
        Some(Self { key_len, flags: u32::try_from(flags).ok()?, bytes: acceptable_len(bytes)?, cas })
    }
}

const VALUE_WORD: &[u8] = b"VALUE ";

/// The key and the length of the value that this line announces, if it does.
fn value_of_line(text: &[u8]) -> Option<(&[u8], usize)> {
    let words = text.strip_prefix(VALUE_WORD)?;
    let header = ValueHeader::words(words)?;
    Some((&words[..header.key_len], header.bytes))
}

/// What stands behind the length of a value: its cas token, or nothing but spaces.
fn cas_token(words: &[u8]) -> Option<Option<u64>> {
    match words.trim_ascii() {
        [] => Some(None),
        word => number::digits(word).map(Some),
    }
}

fn status(expected: Expected, text: &[u8]) -> Option<Status> {
    use Expected as E;
    Some(match (text, expected) {
        (b"END", E::Retrieval | E::Settings) => Status::End,
        (b"STORED", E::Storage) => Status::Stored,
        (b"NOT_STORED", E::Storage) => Status::NotStored,
        (b"EXISTS", E::Storage) => Status::Exists,
        (b"NOT_FOUND", E::Storage | E::Deletion | E::Arithmetic | E::Touch) => Status::NotFound,
        (b"DELETED", E::Deletion) => Status::Deleted,
        (b"TOUCHED", E::Touch) => Status::Touched,
        (b"ERROR", _) => Status::Error,
        (text, E::Arithmetic) if text.first().is_some_and(u8::is_ascii_digit) => {
            // `decr` pads the number with spaces where it got shorter.
            number::digits(text.trim_ascii_end()).map(|_| Status::Number)?
        }
        (b"OK", E::Flush | E::ServerCommand) => Status::Ok,
        (text, E::ServerCommand) if is_declined(text) => Status::ServerError,
        (text, E::Version) if text.starts_with(b"VERSION ") => Status::Version,
        (text, _) if text.starts_with(b"CLIENT_ERROR") => Status::ClientError,
        (text, _) if text.starts_with(b"SERVER_ERROR") => Status::ServerError,
        _ => return None,
    })
}

/// What servers say that do not do what a command to them wants.
fn is_declined(text: &[u8]) -> bool {
    matches!(
        Tokens::new(text).next(),
        Some(
            b"BADCLASS"
                | b"BUSY"
                | b"ERROR"
                | b"MEMLIMIT_ADJUST_FAILED"
                | b"MEMLIMIT_TOO_SMALL"
                | b"NOSPARE"
                | b"NOTSTARTED"
                | b"SAME"
        )
    )
}

/// A length that a server may state. memcached has no larger items; waiting for the end of a larger one would be waiting for ever.
fn value_len(word: &[u8]) -> Option<usize> {
    acceptable_len(number::digits(word)?)
}

fn acceptable_len(len: u64) -> Option<usize> {
    usize::try_from(len).ok().filter(|&len| len <= VALUE_BYTES_MAX)
}

/// The largest item that memcached can be set to store (`-I`) is 1 GiB.
const VALUE_BYTES_MAX: usize = 1 << 30;

/// The reply to `mn`.
const NOOP: &[u8] = b"MN\r\n";

/// What the first line of a meta reply says, and the length of the data block behind it if there is one.
fn meta_status(text: &[u8]) -> Option<(Status, Option<usize>)> {
    let mut words = Tokens::new(text);
    let status = match words.next()? {
        b"VA" => {
            return Some((Status::MetaValue, Some(value_len(words.next()?)?)));
        }
        b"HD" | b"ME" => Status::MetaDone,
        b"EN" => Status::MetaMiss,
        b"NF" | b"NS" | b"EX" => Status::MetaNotDone,
        b"ERROR" => Status::Error,
        b"CLIENT_ERROR" => Status::ClientError,
        b"SERVER_ERROR" => Status::ServerError,
        _ => return None,
    };
    Some((status, None))
}

/// The first bytes of a line, fit to be printed.
fn excerpt(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(60)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn word() -> impl Strategy<Value = String> {
        let number = (any::<u64>(), 0..64u32).prop_map(|(number, shift)| (number >> shift).to_string());
        prop_oneof![4 => "[a-z]{1,20}", 8 => number, 1 => Just(String::new()), 1 => "[ \t\u{0}]", 1 => "[k]{248,252}"]
    }

    proptest! {
        /// A value's header says the same whether it is looked at by the way for plain ones or not.
        #[test]
        fn a_plain_header_is_read_as_any(
            words in prop::collection::vec(word(), 1..6),
            ending in prop::sample::select(vec!["\r\n", "\n", " \r\n", "\r", "", "\r\nvalue\r\n"]),
        ) {
            let text = format!("VALUE {}{ending}", words.join(" "));
            let mut scanner = ReplyScanner::default();
            if let Some((header, line)) = scanner.plain_header(text.as_bytes()) {
                prop_assert_eq!(scanner.line(text.as_bytes()), Ok(Some(line)));
                prop_assert_eq!(ValueHeader::parse(&text.as_bytes()[..line.end]), Ok(header));
            }
        }

        #[test]
        fn what_memcached_writes_is_plain(key in "[!-~]{1,250}", flags in 0..999_999_999u32, bytes in 0..999_999_999usize) {
            let text = format!("VALUE {key} {flags} {bytes}\r\n");
            let (header, line) = ReplyScanner::default().plain_header(text.as_bytes()).expect("it is plain");
            prop_assert_eq!(header, ValueHeader { key_len: key.len(), flags, bytes, cas: None });
            prop_assert_eq!(line.next, text.len());
        }
    }
}
