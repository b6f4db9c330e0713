//! Of the meta protocol what a proxy uses that copies an item, and what clients of simulated worlds send. That is `mg` with the flags `k`,
//! `v`, `f`, `t`, `c`, `C`, `N` and `O`, `ms` with `F`, `T` and its modes, and `ma` with `D`, `J`, `N` and its modes. Everything else is refused.

use super::{
    Block, Memcached, Next,
    commands::{NOT_A_NUMBER, Store, answer, change_number},
    number,
};

const BAD_LINE: &[u8] = b"CLIENT_ERROR bad command line format\r\n";

/// `mg KEY FLAG…`
pub(super) fn get(server: &mut Memcached, words: &[&[u8]], out: &mut Vec<u8>) -> Next {
    let (key, flags) = (words[1], &words[2..]);
    let lifetime = |flag: &[u8]| number::exptime(flag.strip_prefix(b"N")?);
    let token = |flag: &[u8]| number::unsigned(flag.strip_prefix(b"C")?);
    let is_known = |flag: &&[u8]| {
        matches!(*flag, b"k" | b"v" | b"f" | b"t" | b"c" | [b'O', ..])
            || lifetime(flag).is_some()
            || token(flag).is_some()
    };
    if !flags.iter().all(is_known) {
        out.extend_from_slice(BAD_LINE);
        return Next::Done;
    }
    let mut mark = "";
    match (server.item(key), flags.iter().find_map(|flag| lifetime(flag))) {
        (None, Some(exptime)) => {
            server.link(key, Vec::new(), 0, server.expires(exptime));
            server.items.get_mut(key).expect("it was stored").is_awaited = true;
            mark = " W";
        }
        (Some(item), _) if item.is_awaited => mark = " Z",
        _ => {}
    }
    let Some(item) = server.item(key) else {
        out.extend_from_slice(b"EN");
        for flag in flags {
            match *flag {
                b"k" => out.extend_from_slice(&[b" k", key].concat()),
                [b'O', ..] => out.extend_from_slice(&[b" ", *flag].concat()),
                _ => {}
            }
        }
        out.extend_from_slice(b"\r\n");
        return Next::Done;
    };
    let is_same = server.is_conditional && flags.iter().any(|flag| token(flag) == Some(item.cas));
    let with_value = flags.contains(&&b"v"[..]) && !is_same;
    out.extend_from_slice(if with_value { b"VA " } else { b"HD" });
    if with_value {
        out.extend_from_slice(item.value.len().to_string().as_bytes());
    }
    for flag in flags {
        match *flag {
            b"k" => out.extend_from_slice(&[b" k", key].concat()),
            b"c" => out.extend_from_slice(format!(" c{}", item.cas).as_bytes()),
            b"f" => out.extend_from_slice(format!(" f{}", item.flags).as_bytes()),
            b"t" => match server.rest_s(item) {
                Some(rest_s) => out.extend_from_slice(format!(" t{rest_s}").as_bytes()),
                None => out.extend_from_slice(b" t-1"),
            },
            [b'O', ..] => out.extend_from_slice(&[b" ", *flag].concat()),
            _ => {}
        }
    }
    out.extend_from_slice(mark.as_bytes());
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
                [b'M', b'S'] => verb = "set",
                [b'M', b'E'] => verb = "add",
                [b'M', b'R'] => verb = "replace",
                [b'M', b'A'] => verb = "append",
                [b'M', b'P'] => verb = "prepend",
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

/// `ma KEY FLAG…`
pub(super) fn arithmetic(server: &mut Memcached, words: &[&[u8]], out: &mut Vec<u8>) {
    let parsed = (|| {
        let (mut up, mut delta, mut initial, mut created) = (true, 1, 0, None);
        for flag in &words[2..] {
            match *flag {
                b"MI" => up = true,
                b"MD" => up = false,
                [b'D', digits @ ..] => delta = number::unsigned(digits)?,
                [b'J', digits @ ..] => initial = number::unsigned(digits)?,
                [b'N', digits @ ..] => created = Some(number::exptime(digits)?),
                _ => return None,
            }
        }
        Some(((up, delta), initial, created))
    })();
    let Some((step, initial, created)) = parsed else { return out.extend_from_slice(BAD_LINE) };
    let line = match (server.item(words[1]).cloned(), created) {
        (Some(item), _) => match number::unsigned(&item.value) {
            Some(before) => {
                change_number(server, words[1], &item, before, step);
                "HD"
            }
            None => NOT_A_NUMBER,
        },
        (None, Some(exptime)) => {
            server.link(words[1], initial.to_string().into_bytes(), 0, server.expires(exptime));
            "HD"
        }
        (None, None) => "NF",
    };
    answer(out, false, line);
}

/// What a storage command's word is in the meta protocol.
pub(super) fn word(line: &str) -> &str {
    match line {
        "STORED" => "HD",
        "NOT_STORED" => "NS",
        line => line,
    }
}
