//! Finding a byte that stands near: words and short lines.
//!
//! A vectorised search costs more to begin than most words and command lines take to be looked through eight bytes at a time.

use memchr::memchr;

/// As many bytes are looked at at once.
const WORD: usize = size_of::<u64>();

/// Farther than this a vectorised search is the better one. A whole number of words.
const NEAR_BYTES: usize = 8 * WORD;

/// No key is longer than this, with the byte behind it. A whole number of words.
const WORD_BYTES_MAX: usize = 256;

/// Where `byte` first stands in `text`.
#[inline]
pub(crate) fn find(byte: u8, text: &[u8]) -> Option<usize> {
    let near = &text[..text.len().min(NEAR_BYTES)];
    let (words, last) = near.as_chunks();
    let mut at = 0;
    for word in words {
        if let Some(place) = place_in(*word, byte) {
            return Some(at + place);
        }
        at += WORD;
    }
    if last.is_empty() {
        return if near.len() < text.len() { find_far(byte, text) } else { None };
    }
    match near.last_chunk() {
        // What of it was looked at before is another byte.
        Some(word) => place_in(*word, byte).map(|place| near.len() - WORD + place),
        None => last.iter().position(|&found| found == byte),
    }
}

/// Where the first byte stands that no plain word has: a control character or a space. Of long texts only the front is looked at.
#[inline(always)]
pub(crate) fn find_blank(text: &[u8]) -> Option<usize> {
    let near = &text[..text.len().min(WORD_BYTES_MAX)];
    let (words, last) = near.as_chunks();
    let mut at = 0;
    for word in words {
        if let Some(place) = blank_in(*word) {
            return Some(at + place);
        }
        at += WORD;
    }
    if last.is_empty() {
        return None;
    }
    match near.last_chunk() {
        // What of it was looked at before is no blank.
        Some(word) => blank_in(*word).map(|place| near.len() - WORD + place),
        None => last.iter().position(|&found| found <= b' '),
    }
}

#[inline(never)]
fn find_far(byte: u8, text: &[u8]) -> Option<usize> {
    memchr(byte, text)
}

/// Where `byte` first stands among eight: the lowest byte that is zero after the exclusive or (H. S. Warren, Hacker's Delight, 6-1).
/// Of the others the test may be wrong, but only above that one.
#[inline]
fn place_in(word: [u8; WORD], byte: u8) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([0x01; WORD]);
    const TOPS: u64 = u64::from_ne_bytes([0x80; WORD]);
    let differences = u64::from_le_bytes(word) ^ (ONES * byte as u64);
    let zeros = differences.wrapping_sub(ONES) & !differences & TOPS;
    (zeros != 0).then(|| zeros.trailing_zeros() as usize / 8)
}

/// Where the first byte stands among eight that is at most a space: the lowest that is less after the subtraction and was not high before
/// it. Of those above it the test may be wrong. (Hacker's Delight, 6-1.)
#[inline]
fn blank_in(word: [u8; WORD]) -> Option<usize> {
    const ONES: u64 = u64::from_ne_bytes([0x01; WORD]);
    const TOPS: u64 = u64::from_ne_bytes([0x80; WORD]);
    let word = u64::from_le_bytes(word);
    let blanks = word.wrapping_sub(ONES * (b' ' as u64 + 1)) & !word & TOPS;
    (blanks != 0).then(|| blanks.trailing_zeros() as usize / 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_blank_is_found_where_it_first_stands(
            text in prop::collection::vec(prop_oneof![Just(b' '), Just(b'!'), Just(0xa0), Just(0), Just(0x80), any::<u8>()], 0..300),
            quiet in 0..300usize,
        ) {
            let text = [vec![b'!'; quiet], text].concat();
            for start in 0..text.len().min(20) {
                let text = &text[start..];
                let place = text.iter().take(WORD_BYTES_MAX).position(|&found| found <= b' ');
                prop_assert_eq!(find_blank(text), place);
            }
        }

        /// Bytes that are alike in all but one bit are those that the test for zero could take for each other.
        #[test]
        fn it_is_found_where_it_first_stands(
            text in prop::collection::vec(prop_oneof![Just(b' '), Just(b'!'), Just(0xa0), Just(0), Just(1), any::<u8>()], 0..150),
            quiet in 0..150usize,
            byte in prop_oneof![Just(b' '), Just(0), any::<u8>()],
        ) {
            let filler = if byte == b'!' { b' ' } else { b'!' };
            let text = [vec![filler; quiet], text].concat();
            for start in 0..text.len().min(20) {
                let text = &text[start..];
                prop_assert_eq!(find(byte, text), text.iter().position(|&found| found == byte));
            }
        }
    }
}
