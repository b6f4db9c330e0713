//! Commands that concern the connection or the server itself: `version`, `verbosity`, `quit`, `stats`, `flush_all [delay] [noreply]`,
//! `shutdown`, and those to whole servers, which a proxy for many clients refuses unless a setting lets it pass them on.

use super::command::Request;
use super::line::Line;
use super::parsed::Limits;
use super::words::is_noreply;
use crate::{Denied, Refusal, number, tokens::Tokens};

pub(super) fn parse<'a>(command: &'a [u8], tokens: Tokens<'a>, limits: &Limits) -> Line<'a> {
    match command {
        b"version" => Line::Request(Request::Version),
        b"quit" => Line::Request(Request::Quit),
        b"verbosity" => verbosity(tokens),
        b"stats" => Line::Request(Request::Stats { arguments: tokens.rest() }),
        b"flush_all" => flush_all(tokens, limits),
        b"cache_memlimit" | b"slabs" | b"lru" | b"lru_crawler" | b"watch" | b"metadump" | b"cachedump"
            if tokens.count() > 0 =>
        {
            server_command(command, tokens, limits)
        }
        b"shutdown" => Line::refused(Refusal::ShutdownNotEnabled, false),
        _ if is_http(command, tokens) => Line::Hangup,
        _ => Line::UNKNOWN,
    }
}

/// Whether a browser, or somebody's browser without his knowledge, is talking to us. memcached closes the connection at such lines,
/// unless the command is so short, or begins so, that memcached takes it for a misspelt one of its own. It cuts a line into 23 words at
/// first.
fn is_http(command: &[u8], tokens: Tokens<'_>) -> bool {
    let misspelt = match command {
        [_] | [b'm', _] => true,
        [first, ..] => b"gsacidt".contains(first),
        [] => true,
    };
    !misspelt && tokens.take(22).last().unwrap_or(command).starts_with(b"HTTP/")
}

fn verbosity(tokens: Tokens<'_>) -> Line<'_> {
    let Some(([level], last)) = tokens.with_optional() else { return Line::UNKNOWN };
    let noreply = is_noreply(last.unwrap_or(level));
    match number::unsigned(level) {
        Some(_) => Line::Request(Request::Verbosity { noreply }),
        None => Line::refused(Refusal::BadCommandLine, noreply),
    }
}

fn flush_all<'a>(mut tokens: Tokens<'a>, limits: &Limits) -> Line<'a> {
    let count = tokens.count();
    let noreply = tokens.last().is_some_and(is_noreply);
    if count > 2 {
        return Line::UNKNOWN;
    }
    if !limits.flush_allowed {
        return Line::refused(Refusal::NotAllowed(Denied::FlushAll), noreply);
    }
    let has_delay = count > usize::from(noreply);
    let delay = if has_delay { tokens.next().unwrap_or_default() } else { &[] };
    if has_delay && number::signed(delay).is_none() {
        return Line::refused(Refusal::BadExptime, noreply);
    }
    Line::Request(Request::FlushAll { delay, noreply })
}

/// What acts on a whole server, and is answered by it in one line. (`watch`, `lru_crawler metadump` and `mgdump` are answered without end.)
fn server_command<'a>(command: &'a [u8], mut tokens: Tokens<'a>, limits: &Limits) -> Line<'a> {
    let noreply = command == b"cache_memlimit" && tokens.last().is_some_and(is_noreply);
    let arguments = tokens.rest().trim_ascii_end();
    let is_allowed = limits.server_commands_allowed
        && match command {
            b"cache_memlimit" => true,
            b"slabs" => matches!(tokens.next(), Some(b"reassign" | b"automove")),
            b"lru" => matches!(tokens.next(), Some(b"mode" | b"tune" | b"temp_ttl")),
            b"lru_crawler" => {
                matches!(tokens.next(), Some(b"enable" | b"disable" | b"sleep" | b"tocrawl" | b"crawl"))
            }
            _ => false,
        };
    if !is_allowed {
        return Line::refused(Refusal::NotAllowed(denied(command)), noreply);
    }
    let arguments = match arguments.strip_suffix(b"noreply") {
        Some(before) if noreply => before.trim_ascii_end(),
        _ => arguments,
    };
    Line::Request(Request::ServerCommand { command, arguments, noreply })
}

fn denied(command: &[u8]) -> Denied {
    match command {
        b"cache_memlimit" => Denied::CacheMemlimit,
        b"slabs" => Denied::Slabs,
        b"lru" => Denied::Lru,
        b"lru_crawler" => Denied::LruCrawler,
        b"watch" => Denied::Watch,
        b"metadump" => Denied::Metadump,
        _ => Denied::Cachedump,
    }
}
