//! `set|add|replace|append|prepend <key> <flags> <exptime> <bytes> [noreply]` and
//! `cas <key> <flags> <exptime> <bytes> <cas> [noreply]`, each followed by a data block.

use super::refused::Refused;
use super::words::{
    LENGTH_MAX, end_line, is_noreply, plain_key_len, too_long_for_key, write_optional, write_words,
};
use crate::{Refusal, number, tokens::Tokens};

/// The commands of this family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StorageVerb {
    /// Store.
    Set,
    /// Store if absent.
    Add,
    /// Store if present.
    Replace,
    /// Put behind the value that is there.
    Append,
    /// Put before the value that is there.
    Prepend,
    /// Store if unchanged since a `gets`.
    Cas,
}

impl StorageVerb {
    /// The word on the wire.
    pub const fn as_bytes(self) -> &'static [u8] {
        match self {
            Self::Set => b"set",
            Self::Add => b"add",
            Self::Replace => b"replace",
            Self::Append => b"append",
            Self::Prepend => b"prepend",
            Self::Cas => b"cas",
        }
    }
}

/// A request to store a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storage<'a> {
    /// Which command it is.
    pub verb: StorageVerb,
    /// The key.
    pub key: &'a [u8],
    /// Flags, as written.
    pub flags: &'a [u8],
    /// Exptime, as written.
    pub exptime: &'a [u8],
    /// The token of `cas`, as written; empty for the others.
    pub cas: &'a [u8],
    /// The data block, without the line ending behind it.
    pub value: &'a [u8],
    /// No reply is wanted.
    pub noreply: bool,
}

impl Storage<'_> {
    /// Appends the request to `out` as a client would send it.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        let mut length = itoa::Buffer::new();
        let length = length.format(self.value.len()).as_bytes();
        out.reserve(self.key.len() + self.value.len() + 64);
        write_words(out, &[self.verb.as_bytes(), self.key, self.flags, self.exptime, length]);
        write_optional(out, self.cas);
        end_line(out, self.noreply);
        out.extend_from_slice(self.value);
        out.extend_from_slice(b"\r\n");
    }
}

/// The `set` at the front of `buffer`, with its data block, and the length of its line and of all of it, if it is written as most are. It is
/// all there, with one space between words, nothing in the key that one could take for its end, and behind it only numbers of few digits.
/// Of what is written in another way nothing is said.
pub(super) fn parse_plain(buffer: &[u8]) -> Option<(Storage<'_>, usize, usize)> {
    let text = buffer.strip_prefix(b"set ")?;
    let (key, behind) = text.split_at(plain_key_len(text)?);
    let (flags, _, behind) = plain_number(behind)?;
    let (exptime, _, behind) = plain_number(behind)?;
    let (_, value_len, behind) = plain_number(behind)?;
    let behind = behind.strip_prefix(b"\r\n")?;
    let line_len = buffer.len() - behind.len();
    let (value, behind) = behind.split_at_checked(value_len as usize)?;
    let len = buffer.len() - behind.strip_prefix(b"\r\n")?.len();
    let set = Storage { verb: StorageVerb::Set, key, flags, exptime, cas: &[], value, noreply: false };
    Some((set, line_len, len))
}

/// A space and a number: its digits, what they say, and what follows them.
#[inline(always)]
fn plain_number(text: &[u8]) -> Option<(&[u8], u32, &[u8])> {
    let text = text.strip_prefix(b" ")?;
    let (number, behind) = number::few_digits(text)?;
    Some((&text[..text.len() - behind.len()], number, behind))
}

/// The request without its value, and how long that will be.
pub(super) fn parse(verb: StorageVerb, tokens: Tokens<'_>) -> Result<(Storage<'_>, usize), Refused> {
    // The number of words is checked before anything else: with a wrong count even `noreply` is answered.
    let (words, cas, last) = if verb == StorageVerb::Cas {
        let Some(([key, flags, exptime, length, cas], last)) = tokens.with_optional() else {
            return Err(Refused::UNKNOWN);
        };
        ([key, flags, exptime, length], cas, last)
    } else {
        let Some((words, last)) = tokens.with_optional::<4>() else { return Err(Refused::UNKNOWN) };
        (words, &[][..], last)
    };
    let [key, flags, exptime, length] = words;
    let noreply = is_noreply(last.unwrap_or(if cas.is_empty() { length } else { cas }));
    let value_len = number::signed_32(length).filter(|length| (0..=LENGTH_MAX).contains(length));
    let valid = !too_long_for_key(key)
        && number::unsigned(flags).is_some()
        && number::signed(exptime).is_some()
        && (cas.is_empty() || number::unsigned(cas).is_some());
    match value_len {
        Some(length) if valid => {
            let length = usize::try_from(length).expect("a length between 0 and INT_MAX - 2 fits usize");
            Ok((Storage { verb, key, flags, exptime, cas, value: &[], noreply }, length))
        }
        _ => Err(Refused::new(Refusal::BadCommandLine, noreply)),
    }
}
