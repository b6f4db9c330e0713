//! A request, whichever command it is: one type over the families.

use super::arithmetic::Arithmetic;
use super::deletion::Deletion;
use super::meta::Meta;
use super::retrieval::Retrieval;
use super::storage::Storage;
use super::touch::Touch;
use super::words::{end_line, write_optional};

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
