//! Keys that are written in base64 stand for other bytes, by which they are placed and compared.
//!
//! ```text
//!   client ── mg *Y-Q== b t k ──▶ Weir ── mg YQ== b t ──▶ server
//!   client ◀── HD t-1 k*Y-Q== b ── Weir ◀── HD t-1 ────── server
//! ```
//!
//! Servers get one spelling of a key, and are not asked to repeat it. memcached repeats a key as it was stored, not as it was asked for. It
//! repeats the bytes as they are where it has forgotten that they came in base64. A line ending among them would forge a reply on a
//! connection that many clients share. The client reads its own spelling.

use crate::wire::tagged::Tagged;
use std::borrow::Cow;
use weir_protocol::{Base64Key, Meta, MetaVerb, Reply, Request, Status};

/// A key as a request names it.
#[derive(Clone, Copy)]
pub(crate) struct WireKey<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) base64: bool,
}

impl<'a> WireKey<'a> {
    /// The key of a meta request, as its client wrote it.
    pub(crate) fn of(meta: &Meta<'a>) -> Self {
        Self { bytes: meta.key, base64: meta.is_base64() }
    }

    /// What it stands for, if that is something else than itself.
    pub(crate) fn decoded(&self) -> Option<Base64Key> {
        if self.base64 { Base64Key::decode(self.bytes) } else { None }
    }

    /// The bytes by which it is placed: those that it stands for, so that a key has one place however it is written.
    pub(crate) fn placement_name<'b>(&self, decoded: Option<&'b Base64Key>) -> &'b [u8]
    where
        'a: 'b,
    {
        decoded.map_or(self.bytes, Base64Key::as_slice)
    }

    /// As servers get it.
    pub(crate) fn spelling(&self) -> Cow<'a, [u8]> {
        self.decoded().map_or(Cow::Borrowed(self.bytes), |key| {
            let mut spelling = Vec::new();
            key.encode(&mut spelling);
            Cow::Owned(spelling)
        })
    }
}

/// Whether `echo`, in a reply, is the key of the request, which was written as `key`. memcached remembers of each item whether it was
/// stored under a key in base64 and repeats keys as they were then.
pub(crate) fn is_same(echo: &[u8], key: WireKey<'_>) -> bool {
    if echo == key.bytes {
        return true;
    }
    let decoded = key.decoded();
    let wanted = key.placement_name(decoded.as_ref());
    echo == wanted || Base64Key::decode(echo).is_some_and(|echo| echo.as_slice() == wanted)
}

/// Who repeats the key in the reply to a meta request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Echo {
    Nobody,
    /// The server, and what it repeats is compared with the key, which may be in base64.
    Server {
        key: Box<[u8]>,
        base64: bool,
    },
    /// The proxy.
    Proxy(Spelling),
}

/// A client's spelling of its key, and where it belongs in the reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spelling {
    key: Box<[u8]>,
    /// One bit for each ASCII letter: the flags in front of `k`. What answers them stands in front of the key.
    before: u128,
}

/// Appends a meta request as servers are asked for it, and returns who repeats its key.
pub(crate) fn write_meta(meta: Meta<'_>, out: &mut Vec<u8>) -> Echo {
    let key = WireKey::of(&meta);
    let echoes = meta.echoes_key();
    if !key.base64 {
        Request::Meta(meta).write_to(out);
        return if echoes { Echo::Server { key: meta.key.into(), base64: false } } else { Echo::Nobody };
    }
    let spelling = key.spelling();
    let mut flags = Vec::with_capacity(meta.flags.len());
    let (mut before, mut is_before) = (0, true);
    for word in meta.flags() {
        is_before &= word[0] != b'k';
        if is_before {
            before |= bit_of(word[0]);
        }
        if word[0] != b'k' || meta.verb == MetaVerb::Debug {
            flags.extend_from_slice(if flags.is_empty() { b"" } else { b" " });
            flags.extend_from_slice(word);
        }
    }
    Request::Meta(Meta { key: &spelling, flags: &flags, ..meta }).write_to(out);
    match meta.verb {
        MetaVerb::Debug => Echo::Server { key: meta.key.into(), base64: true },
        _ if echoes => Echo::Proxy(Spelling { key: meta.key.into(), before }),
        _ => Echo::Nobody,
    }
}

fn bit_of(letter: u8) -> u128 {
    1_u128.checked_shl(u32::from(letter)).unwrap_or(0)
}

impl Spelling {
    /// What [`Spelling::of`] makes it of again.
    pub(crate) fn parts(&self) -> [Vec<u8>; 2] {
        [self.key.to_vec(), self.before.to_le_bytes().to_vec()]
    }

    pub(crate) fn of(key: &[u8], before: &[u8]) -> Self {
        let before = before.first_chunk().map_or(0, |bytes| u128::from_le_bytes(*bytes));
        Self { key: key.into(), before }
    }

    /// The reply as the client reads it; `None` if it names no key.
    pub(crate) fn put_into(&self, reply: Reply, bytes: &[u8]) -> Option<Tagged> {
        let names_key = matches!(
            reply.status,
            Status::MetaDone | Status::MetaValue | Status::MetaMiss | Status::MetaNotDone
        );
        let end = bytes.iter().position(|&byte| byte == b'\r' || byte == b'\n')?;
        if !names_key || reply.answer_len == 0 {
            return None;
        }
        // The word that says what it is, and for a value its length.
        let mut left = if reply.status == Status::MetaValue { 2 } else { 1 };
        let (mut at, mut place) = (0, 0);
        for word in bytes[..end].split(|&byte| byte == b' ') {
            let stands_before =
                left > 0 || word.first().is_some_and(|&letter| self.before & bit_of(letter) != 0);
            if !stands_before {
                break;
            }
            left -= usize::from(left > 0);
            at += word.len() + 1;
            place = at - 1;
        }
        let bytes_of_key = [b" k", &*self.key, b" b"].concat();
        let out = [&bytes[..place], &bytes_of_key, &bytes[place..]].concat();
        Some(Tagged::new(reply, bytes.len(), out, Vec::new()))
    }
}
