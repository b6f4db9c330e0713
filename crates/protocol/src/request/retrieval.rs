//! `get <key>*`, `gets <key>*`, `gat <exptime> <key>*`, `gats <exptime> <key>*`.

use super::refused::Refused;
use super::words::{plain_key_len, too_long_for_key, write_words};
use crate::{KEY_BYTES_MAX, Refusal, near, number, tokens::Tokens};

/// The commands of this family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RetrievalVerb {
    /// Values.
    Get,
    /// Values with their cas tokens.
    Gets,
    /// Values, after setting their exptime.
    Gat,
    /// Values with their cas tokens, after setting their exptime.
    Gats,
}

impl RetrievalVerb {
    /// The word on the wire.
    pub const fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::Get => b"get",
            Self::Gets => b"gets",
            Self::Gat => b"gat",
            Self::Gats => b"gats",
        }
    }
}

/// A request for the values of some keys. There may be none: memcached answers `gat 0` with `END`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retrieval<'a> {
    /// Which command it is.
    pub verb: RetrievalVerb,
    /// The exptime of `gat` and `gats`, as written; empty for the others.
    pub exptime: &'a [u8],
    /// The first key: most retrievals have no other, so it is found once. Empty if there is none.
    first: &'a [u8],
    /// The others, with the spaces before them.
    others: &'a [u8],
    key_count: usize,
}

impl<'a> Retrieval<'a> {
    /// The keys in the order of the request.
    pub const fn keys(&self) -> Keys<'a> {
        Keys { first: self.first, others: self.others }
    }

    /// The keys as they stand in the request, with the spaces between them: the first one, and what follows it.
    pub const fn keys_text(&self) -> [&'a [u8]; 2] {
        [self.first, self.others]
    }

    /// How many keys there are.
    pub const fn key_count(&self) -> usize {
        self.key_count
    }

    /// The first `count` keys, and the others. There must be at least `count`.
    pub fn split(&self, count: usize) -> (Self, Self) {
        let mut rest = self.keys();
        if let Some(last) = count.checked_sub(1) {
            rest.nth(last);
        }
        let first =
            Self { others: &self.others[..self.others.len() - rest.others.len()], key_count: count, ..*self };
        (first, Self::of(self.verb, rest.others, self.key_count - count))
    }

    /// A `get` or `gets` of `key_count` keys, which stand in `text` with spaces between them.
    pub fn of(verb: RetrievalVerb, text: &'a [u8], key_count: usize) -> Self {
        let (first, others) = cut(text).unwrap_or_default();
        Self { verb, exptime: &[], first, others, key_count }
    }

    /// Appends the request to `out` as a client would send it.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        self.write_head(out);
        for key in self.keys() {
            out.push(b' ');
            out.extend_from_slice(key);
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Appends the request up to its keys: `get`, or `gat 10`. The keys follow, each after a space, and then a line ending.
    #[inline]
    pub fn write_head(&self, out: &mut Vec<u8>) {
        if self.exptime.is_empty() {
            out.extend_from_slice(self.verb.as_bytes());
        } else {
            write_words(out, &[self.verb.as_bytes(), self.exptime]);
        }
    }
}

/// Iterator over the keys of a [`Retrieval`].
#[derive(Clone, Debug)]
pub struct Keys<'a> {
    /// Empty once it was handed out.
    first: &'a [u8],
    others: &'a [u8],
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        if !self.first.is_empty() {
            return Some(std::mem::take(&mut self.first));
        }
        if self.others.is_empty() {
            return None;
        }
        let (key, others) = cut(self.others)?;
        self.others = others;
        Some(key)
    }

    /// Without a look at each of those that are left out: there may be a million.
    fn nth(&mut self, mut count: usize) -> Option<&'a [u8]> {
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            if count == 0 {
                return Some(first);
            }
            count -= 1;
        }
        let at = near::find_word(self.others, count).unwrap_or(self.others.len());
        self.others = &self.others[at..];
        self.next()
    }
}

/// The first word of a text that is known to hold no NUL, and what follows it.
fn cut(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut word = text;
    while let [b' ', rest @ ..] = word {
        word = rest;
    }
    let end = near::find(b' ', word).unwrap_or(word.len());
    (end > 0).then(|| word.split_at(end))
}

/// Lines with more keys are read by [`parse`], where a key costs less.
const PLAIN_BYTES_MAX: usize = 32 << 10;

/// Keys that take more are counted many at a time.
const MANY_BYTES_MIN: usize = 2 << 10;

/// The `get` at the front of `buffer`, and how many bytes it takes with its line ending, if it is written as most are. It is all there, with
/// one space before each key, and nothing in the keys that one could take for their end. Of what is written in another way nothing is said.
#[inline(always)]
pub(super) fn parse_plain(buffer: &[u8]) -> Option<(Retrieval<'_>, usize)> {
    let text = buffer.strip_prefix(b"get ")?;
    let first_len = plain_key_len(text)?;
    let (mut end, mut key_count) = (first_len, 1);
    if text[end] == b' ' {
        let text = &text[..text.len().min(PLAIN_BYTES_MAX)];
        while text[end] == b' ' {
            let key = &text[end + 1..];
            end += 1 + plain_key_len(key)?;
            key_count += 1;
        }
    }
    let ending = match text[end..] {
        [b'\r', b'\n', ..] => 2,
        [b'\n', ..] => 1,
        _ => return None,
    };
    let (first, others) = text[..end].split_at(first_len);
    let retrieval = Retrieval { verb: RetrievalVerb::Get, exptime: &[], first, others, key_count };
    Some((retrieval, b"get ".len() + end + ending))
}

// As a call of its own it costs every `get` some sixteen instructions, for what it returns is copied.
#[inline(always)]
pub(super) fn parse(verb: RetrievalVerb, mut tokens: Tokens<'_>) -> Result<Retrieval<'_>, Refused> {
    let exptime = match verb {
        RetrievalVerb::Get | RetrievalVerb::Gets => &[],
        RetrievalVerb::Gat | RetrievalVerb::Gats => match tokens.next() {
            None => return Err(Refused::UNKNOWN),
            Some(word) if number::signed(word).is_none() => {
                return Err(Refused::new(Refusal::BadExptime, false));
            }
            Some(word) => word,
        },
    };
    let (first, others) = cut(tokens.rest()).unwrap_or_default();
    let key_count = if others.len() < MANY_BYTES_MIN {
        let mut keys = Keys { first, others };
        keys.try_fold(0, |count, key| (!too_long_for_key(key)).then_some(count + 1))
    } else {
        count_many(first, others)
    };
    let Some(key_count) = key_count else { return Err(Refused::new(Refusal::BadCommandLine, false)) };
    if key_count == 0 && exptime.is_empty() {
        return Err(Refused::UNKNOWN);
    }
    Ok(Retrieval { verb, exptime, first, others, key_count })
}

/// How many keys there are, if none is too long.
#[cold]
#[inline(never)]
fn count_many(first: &[u8], others: &[u8]) -> Option<usize> {
    let others = near::count_words(others, KEY_BYTES_MAX)?;
    (!too_long_for_key(first)).then_some(1 + others)
}
