//! What a parser says of the bytes at hand, and how much a client may send.

use super::command::Request;
use crate::{Refusal, door::Foreign};

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
    /// The client speaks another protocol: it gets an error in that protocol, and the connection is closed. A parser never says this; who
    /// judges a connection's first bytes does ([`crate::door`]).
    Foreign {
        /// Which one.
        foreign: Foreign,
    },
    /// A client that is not logged in says who it is. No parser of requests says this: [`crate::parse_login`] does, and who judges requests may.
    Login {
        /// Who it says it is.
        name: &'a [u8],
        /// What is to prove that.
        password: &'a [u8],
        /// How many bytes to consume.
        len: usize,
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
