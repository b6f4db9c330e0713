//! Requests: what clients send.
//!
//! ```text
//!   bytes ─▶ line ─▶ words ─▶ family (retrieval, storage, …) ─▶ Request, or Refusal
//!                                └ storage: and a data block of the stated length
//! ```

mod admin;
mod arithmetic;
mod change;
mod deletion;
mod meta;
mod retrieval;
mod storage;
mod touch;

pub use arithmetic::{Arithmetic, ArithmeticVerb};
pub use deletion::Deletion;
pub use meta::{Meta, MetaVerb};
pub use retrieval::{Keys, Retrieval, RetrievalVerb};
pub use storage::{Storage, StorageVerb};
pub use touch::Touch;

use crate::{KEY_BYTES_MAX, Refusal, door::Foreign, near, tokens::Tokens};

/// One complete and valid request, borrowing from the bytes it was parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// `get`, `gets`, `gat`, `gats`.
    Retrieval(Retrieval<'a>),
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`.
    Storage(Storage<'a>),
    /// `delete`.
    Deletion(Deletion<'a>),
    /// `incr`, `decr`.
    Arithmetic(Arithmetic<'a>),
    /// `touch`.
    Touch(Touch<'a>),
    /// `mg`, `ms`, `md`, `ma`, `me`.
    Meta(Meta<'a>),
    /// `mn`: answered when everything before it is.
    MetaNoop,
    /// `flush_all`, where the proxy allows it.
    FlushAll {
        /// The delay in seconds, as written; empty if there is none.
        delay: &'a [u8],
        /// No reply is wanted.
        noreply: bool,
    },
    /// `cache_memlimit`, `slabs`, `lru` or `lru_crawler`, where the proxy allows them: for every server, which understands the rest.
    ServerCommand {
        /// The first word.
        command: &'a [u8],
        /// What follows it.
        arguments: &'a [u8],
        /// No reply is wanted.
        noreply: bool,
    },
    /// `stats`.
    Stats {
        /// What follows the command.
        arguments: &'a [u8],
    },
    /// `version`.
    Version,
    /// `verbosity`, whose level concerns servers and is ignored here.
    Verbosity {
        /// No reply is wanted.
        noreply: bool,
    },
    /// `quit`: the client wants the connection closed, without a reply.
    Quit,
}

impl Request<'_> {
    /// Whether the client asked for silence.
    pub const fn noreply(&self) -> bool {
        match self {
            Self::Storage(storage) => storage.noreply,
            Self::Deletion(deletion) => deletion.noreply,
            Self::Arithmetic(arithmetic) => arithmetic.noreply,
            Self::Touch(touch) => touch.noreply,
            Self::Verbosity { noreply }
            | Self::FlushAll { noreply, .. }
            | Self::ServerCommand { noreply, .. } => *noreply,
            Self::Retrieval(_) | Self::Meta(_) | Self::MetaNoop => false,
            Self::Stats { .. } | Self::Version | Self::Quit => false,
        }
    }

    /// Appends the request to `out` as a client would send it.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Retrieval(retrieval) => retrieval.write_to(out),
            Self::Storage(storage) => storage.write_to(out),
            Self::Deletion(deletion) => deletion.write_to(out),
            Self::Arithmetic(arithmetic) => arithmetic.write_to(out),
            Self::Touch(touch) => touch.write_to(out),
            Self::Meta(meta) => meta.write_to(out),
            Self::MetaNoop => out.extend_from_slice(b"mn\r\n"),
            Self::FlushAll { delay, noreply } => {
                out.extend_from_slice(b"flush_all");
                write_optional(out, delay);
                end_line(out, *noreply);
            }
            Self::ServerCommand { command, arguments, noreply } => {
                out.extend_from_slice(command);
                write_optional(out, arguments);
                end_line(out, *noreply);
            }
            Self::Stats { arguments } => {
                out.extend_from_slice(b"stats");
                write_optional(out, arguments);
                end_line(out, false);
            }
            Self::Version => out.extend_from_slice(b"version\r\n"),
            Self::Verbosity { noreply } => {
                out.extend_from_slice(b"verbosity 0");
                end_line(out, *noreply);
            }
            Self::Quit => out.extend_from_slice(b"quit\r\n"),
        }
    }
}

/// What the front of a client's bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<'a> {
    /// A complete request of `len` bytes.
    Request {
        /// The request.
        request: Request<'a>,
        /// How many bytes it took, line ending and data block included.
        len: usize,
    },
    /// `len` bytes that are answered without asking a server; the connection goes on after them.
    Refused {
        /// What to answer.
        refusal: Refusal,
        /// Whether the answer is kept back, because memcached is silent here.
        silent: bool,
        /// How many bytes to consume now.
        len: usize,
    },
    /// A request to store a value above the limit.
    TooLarge {
        /// What to answer: [`Refusal::TooLarge`], unless whoever asked for a lower limit knows better.
        refusal: Refusal,
        /// The key.
        key: &'a [u8],
        /// The key is written in base64.
        base64: bool,
        /// No reply is wanted.
        silent: bool,
        /// The old value is to be deleted: it is not what the client wanted to be there.
        erases: bool,
        /// How many bytes to consume now.
        len: usize,
        /// How many bytes after those are to be thrown away, unseen: the data block.
        swallow: usize,
    },
    /// Nothing can be said before the buffer holds at least `needed` bytes.
    Incomplete {
        /// Length that the buffer must reach before another call can tell more.
        needed: usize,
    },
    /// The client speaks another protocol: it is told so in that one's words, and the connection is closed. A parser never says this; who
    /// judges a connection's first bytes does ([`crate::door`]).
    Foreign {
        /// Which one.
        foreign: Foreign,
    },
    /// The connection must be closed, after `refusal` if there is one.
    Hangup {
        /// What to answer first.
        refusal: Option<Refusal>,
    },
}

/// What a client may send at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest command line, in bytes, its line ending included.
    pub line_bytes_max: usize,
    /// The longest value, in bytes.
    pub value_bytes_max: usize,
    /// Whether `flush_all` is allowed.
    pub flush_allowed: bool,
    /// Whether commands to whole servers are allowed ([`Request::ServerCommand`]).
    pub server_commands_allowed: bool,
}

impl Default for Limits {
    /// 4 MiB lines (a `get` of 10,000 keys of 250 bytes fits) and memcached's own default of 1 MiB per value.
    fn default() -> Self {
        Self {
            line_bytes_max: 4 << 20,
            value_bytes_max: 1 << 20,
            flush_allowed: false,
            server_commands_allowed: false,
        }
    }
}

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

/// What one family of commands makes of its line.
enum Line<'a> {
    Request(Request<'a>),
    Refused {
        refusal: Refusal,
        silent: bool,
    },
    /// A storage command whose data block is still to be read.
    Storage {
        header: Storage<'a>,
        value_len: usize,
    },
    /// The same for `ms`.
    Meta {
        header: Meta<'a>,
        value_len: usize,
    },
    Hangup,
}

impl Line<'_> {
    const UNKNOWN: Self = Self::Refused { refusal: Refusal::Unknown, silent: false };

    const fn refused(refusal: Refusal, silent: bool) -> Self {
        Self::Refused { refusal, silent }
    }
}

fn parse_line<'a>(line: &'a [u8], len: usize, buffer: &'a [u8], limits: &Limits) -> Parsed<'a> {
    let is_too_long = line.len() >= SHORT_LINE_BYTES_MAX && !may_be_long(line);
    match family(line, limits) {
        Line::Request(_) if is_too_long => {
            Parsed::Refused { refusal: Refusal::LineTooLong, silent: false, len }
        }
        // The data block behind it must not be read as commands.
        Line::Storage { .. } | Line::Meta { .. } if is_too_long => {
            Parsed::Hangup { refusal: Some(Refusal::LineTooLong) }
        }
        Line::Request(request) => Parsed::Request { request, len },
        Line::Refused { refusal, silent } => Parsed::Refused { refusal, silent, len },
        Line::Storage { header, value_len } => {
            storage::with_data_block(header, value_len, len, buffer, limits)
        }
        Line::Meta { header, value_len } => meta::with_data_block(header, value_len, len, buffer, limits),
        Line::Hangup => Parsed::Hangup { refusal: None },
    }
}

/// memcached closes a connection on which a longer line begins that is neither `get` nor `gets`, if it arrives in pieces. A server's
/// connection is shared by many clients, so such lines are never passed on. The carriage return counts, the line feed does not.
const SHORT_LINE_BYTES_MAX: usize = 2048;

fn may_be_long(line: &[u8]) -> bool {
    matches!(Tokens::new(line).next(), Some(b"get" | b"gets" | b"bget"))
}

fn family<'a>(line: &'a [u8], limits: &Limits) -> Line<'a> {
    let mut tokens = Tokens::new(line);
    let Some(command) = tokens.next() else { return Line::UNKNOWN };
    match command {
        b"get" | b"bget" => retrieval::parse(RetrievalVerb::Get, tokens),
        b"gets" => retrieval::parse(RetrievalVerb::Gets, tokens),
        b"gat" => retrieval::parse(RetrievalVerb::Gat, tokens),
        b"gats" => retrieval::parse(RetrievalVerb::Gats, tokens),
        b"set" => storage::parse(StorageVerb::Set, tokens),
        b"add" => storage::parse(StorageVerb::Add, tokens),
        b"replace" => storage::parse(StorageVerb::Replace, tokens),
        b"append" => storage::parse(StorageVerb::Append, tokens),
        b"prepend" => storage::parse(StorageVerb::Prepend, tokens),
        b"cas" => storage::parse(StorageVerb::Cas, tokens),
        b"delete" => deletion::parse(tokens),
        b"incr" => arithmetic::parse(ArithmeticVerb::Incr, tokens),
        b"decr" => arithmetic::parse(ArithmeticVerb::Decr, tokens),
        b"touch" => touch::parse(tokens),
        b"mg" => meta::parse(MetaVerb::Get, tokens),
        b"ms" => meta::parse(MetaVerb::Set, tokens),
        b"md" => meta::parse(MetaVerb::Delete, tokens),
        b"ma" => meta::parse(MetaVerb::Arithmetic, tokens),
        b"me" => meta::parse(MetaVerb::Debug, tokens),
        b"mn" => Line::Request(Request::MetaNoop),
        _ => admin::parse(command, tokens, limits),
    }
}

/// The largest length that memcached takes as one: `INT_MAX` less the line ending of the data block.
const LENGTH_MAX: i32 = i32::MAX - 2;

/// Whether a key is longer than memcached accepts. (An empty one cannot be written in a command line.)
fn too_long_for_key(key: &[u8]) -> bool {
    key.len() > KEY_BYTES_MAX
}

/// Whether the last word of a command asks for silence. memcached looks at the last word wherever it stands, even in the place
/// of a number, and is then silent about the number that is missing.
fn is_noreply(last_word: &[u8]) -> bool {
    last_word == b"noreply"
}

fn end_line(out: &mut Vec<u8>, noreply: bool) {
    out.extend_from_slice(if noreply { b" noreply\r\n" } else { b"\r\n" });
}

/// Appends a space and a word, if there is one.
fn write_optional(out: &mut Vec<u8>, word: &[u8]) {
    if !word.is_empty() {
        out.push(b' ');
        out.extend_from_slice(word);
    }
}

/// Appends words with one space between them.
fn write_words(out: &mut Vec<u8>, words: &[&[u8]]) {
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
}
