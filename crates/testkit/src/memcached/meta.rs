//! Of the meta protocol what a proxy uses that copies an item: `mg` with the flags `k`, `v`, `f` and `t`, and `ms` with `F`, `T` and the
//! mode of `add`. Everything else of it is refused.

use super::{Block, Memcached, Next, commands::Store, number};

const BAD_LINE: &[u8] = b"CLIENT_ERROR bad command line format\r\n";

/// `mg KEY FLAG…`
pub(super) fn get(server: &Memcached, words: &[&[u8]], out: &mut Vec<u8>) -> Next {
    let (key, flags) = (words[1], &words[2..]);
    if !flags.iter().all(|flag| matches!(*flag, b"k" | b"v" | b"f" | b"t")) {
        out.extend_from_slice(BAD_LINE);
        return Next::Done;
    }
    let Some(item) = server.item(key) else {
        out.extend_from_slice(b"EN");
        if flags.contains(&&b"k"[..]) {
            out.extend_from_slice(b" k");
            out.extend_from_slice(key);
        }
        out.extend_from_slice(b"\r\n");
        return Next::Done;
    };
    let with_value = flags.contains(&&b"v"[..]);
    out.extend_from_slice(if with_value { b"VA " } else { b"HD" });
    if with_value {
        out.extend_from_slice(item.value.len().to_string().as_bytes());
    }
    for flag in flags {
        match *flag {
            b"k" => out.extend_from_slice(&[b" k", key].concat()),
            b"f" => out.extend_from_slice(format!(" f{}", item.flags).as_bytes()),
            b"t" => match server.rest_s(item) {
                Some(rest_s) => out.extend_from_slice(format!(" t{rest_s}").as_bytes()),
                None => out.extend_from_slice(b" t-1"),
            },
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
    if with_value {
        out.extend_from_slice(&item.value);
        out.extend_from_slice(b"\r\n");
    }
    Next::Done
}

/// `ms KEY LENGTH FLAG…`
pub(super) fn begin_set(words: &[&[u8]], out: &mut Vec<u8>) -> Next {
    let parsed = (|| {
        let length = usize::try_from(number::length(words[2])?).ok()?;
        let (mut verb, mut flags, mut exptime) = ("set", 0, 0);
        for flag in &words[3..] {
            match *flag {
                [b'M', b'E'] => verb = "add",
                [b'F', number @ ..] => flags = number::flags(number)?,
                [b'T', number @ ..] => exptime = number::exptime(number)?,
                _ => return None,
            }
        }
        let command = Store::meta(verb, words[1], flags, exptime);
        Some(Block { command, length })
    })();
    if let Some(block) = parsed {
        return Next::Block(block);
    }
    out.extend_from_slice(BAD_LINE);
    Next::Done
}

/// What a storage command's word is in the meta protocol.
pub(super) fn word(line: &str) -> &str {
    match line {
        "STORED" => "HD",
        "NOT_STORED" => "NS",
        line => line,
    }
}
