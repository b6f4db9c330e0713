//! What memcached does with a command line.

use std::ops::RangeInclusive;

use super::{Block, Item, Memcached, Next, VERSION, meta, number};

const KEY_BYTES_MAX: usize = 250;

const ERROR: &str = "ERROR";
const BAD_LINE: &str = "CLIENT_ERROR bad command line format";
pub(super) const NOT_A_NUMBER: &str = "CLIENT_ERROR cannot increment or decrement non-numeric value";
const OUT_OF_MEMORY: &str = "SERVER_ERROR out of memory storing object";
const BAD_EXPTIME: &str = "CLIENT_ERROR invalid exptime argument";

/// A storage command, all but its value.
pub(super) struct Store {
    verb: String,
    key: Vec<u8>,
    flags: u32,
    exptime: i32,
    cas: u64,
    pub(super) noreply: bool,
    is_meta: bool,
}

impl Store {
    /// One of the meta protocol.
    pub(super) fn meta(verb: &str, key: &[u8], flags: u32, exptime: i32) -> Self {
        let (verb, key) = (verb.to_owned(), key.to_vec());
        Self { verb, key, flags, exptime, cas: 0, noreply: false, is_meta: true }
    }
}

/// Carries out the command in `line`, which has no line ending any more.
pub(super) fn carry_out(server: &mut Memcached, line: &[u8], out: &mut Vec<u8>) -> Next {
    let words = split(line);
    let verb = words.first().map_or("", |word| std::str::from_utf8(word).unwrap_or("?"));
    // Words in a wrong number are no command at all, and then `noreply` has no meaning either.
    const NONE: RangeInclusive<usize> = usize::MAX..=usize::MAX;
    let counts = match verb {
        "get" | "gets" | "gat" | "gats" | "bget" | "mg" | "ma" => 2..=usize::MAX,
        "ms" => 3..=usize::MAX,
        "set" | "add" | "replace" | "append" | "prepend" => 5..=6,
        "cas" => 6..=7,
        "incr" | "decr" | "touch" => 3..=4,
        "delete" => 2..=4,
        "verbosity" => 2..=3,
        "flush_all" => 1..=3,
        "version" | "quit" => 1..=usize::MAX,
        "stats" if words.get(1) == Some(&&b"settings"[..]) => 2..=2,
        _ if is_http(&words) => return Next::Close,
        _ => NONE,
    };
    if !counts.contains(&words.len()) {
        answer(out, false, ERROR);
        return Next::Done;
    }
    let noreply = words.last() == Some(&&b"noreply"[..]);
    match verb {
        "get" | "gets" | "bget" => retrieve(server, &words[1..], None, verb == "gets", out),
        "gat" | "gats" => match number::exptime(words[1]) {
            Some(exptime) => {
                let expires = server.expires(exptime);
                retrieve(server, &words[2..], Some(expires), verb == "gats", out);
            }
            None => answer(out, false, BAD_EXPTIME),
        },
        "mg" => return meta::get(server, &words, out),
        "ms" => return meta::begin_set(&words, out),
        "ma" => meta::arithmetic(server, &words, out),
        "delete" => delete(server, &words, noreply, out),
        "incr" | "decr" => arithmetic(server, verb == "incr", &words, noreply, out),
        "touch" => touch(server, &words, noreply, out),
        "flush_all" => {
            server.clear();
            answer(out, noreply, "OK");
        }
        "version" => answer(out, false, &format!("VERSION {VERSION}")),
        "stats" => answer(out, false, &format!("STAT item_size_max {}\r\nEND", server.item_bytes_max)),
        "verbosity" => {
            let valid = number::unsigned(words[1]).is_some();
            answer(out, noreply, if valid { "OK" } else { BAD_LINE });
        }
        "quit" => return Next::Close,
        _ => return begin_store(server, verb, &words, noreply, out),
    }
    Next::Done
}

/// Appends a line, unless the client wants none.
pub(super) fn answer(out: &mut Vec<u8>, noreply: bool, line: &str) {
    if !noreply {
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
}

/// Carries out a storage command whose value has come.
pub(super) fn store(server: &mut Memcached, command: Store, value: &[u8], out: &mut Vec<u8>) {
    let Store { verb, key, flags, exptime, cas, noreply, is_meta } = command;
    let expires = server.expires(exptime);
    let found = server.item(&key).cloned();
    if server.is_full && verb != "cas" {
        // What was there is not what the client wanted to be there.
        if verb == "set" && !server.keeps_refused {
            server.items.remove(&key);
        }
        return answer(out, noreply, OUT_OF_MEMORY);
    }
    let line = match (verb.as_str(), found) {
        ("set", _) | ("add", None) | ("replace", Some(_)) => {
            server.link(&key, value.to_vec(), flags, expires);
            "STORED"
        }
        // A failed `add` counts as a use of the item, but that shows in evictions alone.
        ("append", Some(item)) => {
            server.link(&key, [&item.value, value].concat(), item.flags, item.expires_s);
            "STORED"
        }
        ("prepend", Some(item)) => {
            server.link(&key, [value, &item.value].concat(), item.flags, item.expires_s);
            "STORED"
        }
        ("cas", Some(item)) if item.cas == cas => {
            server.link(&key, value.to_vec(), flags, expires);
            "STORED"
        }
        ("cas", Some(_)) => "EXISTS",
        ("cas", None) => "NOT_FOUND",
        _ => "NOT_STORED",
    };
    answer(out, noreply, if is_meta { meta::word(line) } else { line });
}

fn begin_store(
    server: &mut Memcached,
    verb: &str,
    words: &[&[u8]],
    noreply: bool,
    out: &mut Vec<u8>,
) -> Next {
    let key = words[1];
    let parsed = (|| {
        let flags = number::flags(words[2])?;
        let exptime = number::exptime(words[3])?;
        let length = number::length(words[4])?;
        let cas = if verb == "cas" { number::unsigned(words[5])? } else { 0 };
        let length = usize::try_from(length).ok().filter(|_| length <= i32::MAX - 2)?;
        (key.len() <= KEY_BYTES_MAX).then_some((flags, exptime, length, cas))
    })();
    let Some((flags, exptime, length, cas)) = parsed else {
        answer(out, noreply, BAD_LINE);
        return Next::Done;
    };
    if !server.fits(key, flags, length) {
        answer(out, noreply, "SERVER_ERROR object too large for cache");
        // An older value must not outlive the newer one that was refused.
        if verb == "set" && !server.keeps_refused {
            server.items.remove(key);
        }
        return Next::Swallow(length + 2);
    }
    let command =
        Store { verb: verb.to_owned(), key: key.to_vec(), flags, exptime, cas, noreply, is_meta: false };
    Next::Block(Block { command, length })
}

/// Finds the items of `keys`; sets when they expire if that is given.
fn retrieve(
    server: &mut Memcached,
    keys: &[&[u8]],
    expires: Option<Option<u64>>,
    with_cas: bool,
    out: &mut Vec<u8>,
) {
    let mut values = Vec::new();
    for key in keys {
        if key.len() > KEY_BYTES_MAX {
            return answer(out, false, BAD_LINE);
        }
        let Some(item) = server.item(key) else { continue };
        values.extend_from_slice(b"VALUE ");
        values.extend_from_slice(key);
        values.extend_from_slice(format!(" {} {}", item.flags, item.value.len()).as_bytes());
        if with_cas {
            values.extend_from_slice(format!(" {}", item.cas).as_bytes());
        }
        values.extend_from_slice(b"\r\n");
        values.extend_from_slice(&item.value);
        values.extend_from_slice(b"\r\n");
        if let (Some(expires), Some(item)) = (expires, server.items.get_mut(*key)) {
            item.expires_s = expires;
        }
    }
    out.extend_from_slice(&values);
    answer(out, false, "END");
}

fn delete(server: &mut Memcached, words: &[&[u8]], noreply: bool, out: &mut Vec<u8>) {
    let valid = match words[2..] {
        [] => true,
        [only] => only == b"0" || noreply,
        [hold, ..] => hold == b"0" && noreply,
    };
    if !valid {
        answer(out, noreply, "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]");
    } else if words[1].len() > KEY_BYTES_MAX {
        answer(out, noreply, BAD_LINE);
    } else {
        let found = server.item(words[1]).is_some();
        server.items.remove(words[1]);
        answer(out, noreply, if found { "DELETED" } else { "NOT_FOUND" });
    }
}

fn touch(server: &mut Memcached, words: &[&[u8]], noreply: bool, out: &mut Vec<u8>) {
    let line = match number::exptime(words[2]) {
        _ if words[1].len() > KEY_BYTES_MAX => BAD_LINE,
        None => BAD_EXPTIME,
        Some(_) if server.item(words[1]).is_none() => "NOT_FOUND",
        Some(exptime) => {
            let expires_s = server.expires(exptime);
            if let Some(item) = server.items.get_mut(words[1]) {
                item.expires_s = expires_s;
            }
            "TOUCHED"
        }
    };
    answer(out, noreply, line);
}

fn arithmetic(server: &mut Memcached, up: bool, words: &[&[u8]], noreply: bool, out: &mut Vec<u8>) {
    if words[1].len() > KEY_BYTES_MAX {
        return answer(out, noreply, BAD_LINE);
    }
    let Some(delta) = number::unsigned(words[2]) else {
        return answer(out, noreply, "CLIENT_ERROR invalid numeric delta argument");
    };
    let Some(item) = server.item(words[1]).cloned() else { return answer(out, noreply, "NOT_FOUND") };
    let Some(before) = number::unsigned(&item.value) else {
        return answer(out, noreply, NOT_A_NUMBER);
    };
    let after = change_number(server, words[1], &item, before, (up, delta));
    answer(out, noreply, &after.to_string());
}

/// Stores the number that comes `delta` above or below `before`, which the item is, and returns it.
pub(super) fn change_number(
    server: &mut Memcached,
    key: &[u8],
    item: &Item,
    before: u64,
    (up, delta): (bool, u64),
) -> u64 {
    let after = if up { before.wrapping_add(delta) } else { before.saturating_sub(delta) };
    // A shorter number is written over the longer one, and the rest is filled with spaces.
    let value = format!("{after:<width$}", width = item.value.len());
    server.link(key, value.into_bytes(), item.flags, item.expires_s);
    after
}

/// Words are separated by spaces alone, and the line ends at its first NUL.
fn split(line: &[u8]) -> Vec<&[u8]> {
    let line = line.split(|byte| *byte == 0).next().unwrap_or_default();
    line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).collect()
}

/// memcached hangs up on what a browser might have been tricked into sending.
fn is_http(words: &[&[u8]]) -> bool {
    words.last().is_some_and(|word| word.starts_with(b"HTTP/"))
}
