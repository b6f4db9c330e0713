//! Commands that concern the connection or the server itself: `version`, `verbosity`, `quit`, `flush_all`, `shutdown`.

use super::{Line, Request, is_noreply};
use crate::{Refusal, tokens::Tokens};

pub(super) fn parse<'a>(command: &'a [u8], tokens: Tokens<'a>) -> Line<'a> {
    match command {
        b"version" => Line::Request(Request::Version),
        b"quit" => Line::Request(Request::Quit),
        b"verbosity" => match tokens.with_optional::<1>() {
            Some(([level], last)) => {
                Line::Request(Request::Verbosity { noreply: is_noreply(last.unwrap_or(level)) })
            }
            None => Line::UNKNOWN,
        },
        b"flush_all" => match tokens.count() {
            0..=2 => Line::refused(Refusal::FlushNotAllowed, tokens.last().is_some_and(is_noreply)),
            _ => Line::UNKNOWN,
        },
        b"shutdown" if tokens.count() <= 1 => Line::refused(Refusal::ShutdownNotEnabled, false),
        _ if is_http(tokens) => Line::Hangup,
        _ => Line::UNKNOWN,
    }
}

/// Whether a browser, or somebody's browser without his knowledge, is talking to us. memcached hangs up on such lines.
fn is_http(tokens: Tokens<'_>) -> bool {
    tokens.last().is_some_and(|word| word.starts_with(b"HTTP/"))
}
