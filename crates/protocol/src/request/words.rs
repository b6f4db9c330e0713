//! The words of a command line: what memcached accepts of any command, and how they are written.

use crate::{KEY_BYTES_MAX, near};

/// The largest length that memcached takes as one: `INT_MAX` less the line ending of the data block.
pub(super) const LENGTH_MAX: i32 = i32::MAX - 2;

/// Whether a key is longer than memcached accepts. (An empty one cannot be written in a command line.)
pub(super) fn too_long_for_key(key: &[u8]) -> bool {
    key.len() > KEY_BYTES_MAX
}

/// How long the key is at the front of `text`, if what ends it is there and a space or a control character.
#[inline(always)]
pub(super) fn plain_key_len(text: &[u8]) -> Option<usize> {
    near::find_blank(text).filter(|len| (1..=KEY_BYTES_MAX).contains(len))
}

/// Whether the last word of a command asks for silence. memcached looks at the last word wherever it stands, even in the place
/// of a number, and is then silent about the number that is missing.
pub(super) fn is_noreply(last_word: &[u8]) -> bool {
    last_word == b"noreply"
}

pub(super) fn end_line(out: &mut Vec<u8>, noreply: bool) {
    out.extend_from_slice(if noreply { b" noreply\r\n" } else { b"\r\n" });
}

/// Appends a space and a word, if there is one.
pub(super) fn write_optional(out: &mut Vec<u8>, word: &[u8]) {
    if !word.is_empty() {
        out.push(b' ');
        out.extend_from_slice(word);
    }
}

/// Appends words with one space between them.
pub(super) fn write_words(out: &mut Vec<u8>, words: &[&[u8]]) {
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
}
