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

/// The lowest bit of each byte, and the top one.
const ONES: u64 = u64::from_ne_bytes([0x01; WORD]);
const TOPS: u64 = u64::from_ne_bytes([0x80; WORD]);

/// The top bit of the first byte.
const FIRST_TOP: u64 = 0x80;

/// How far the last byte is shifted to become the first.
const LAST_BYTE: u32 = 56;

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

// ── many words ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

/// How many words there are between the spaces of a text; `None` if one has more than `longest` bytes, which are eight or more. A million
/// words take a millisecond or two.
pub(crate) fn count_words(text: &[u8], longest: usize) -> Option<usize> {
    debug_assert!(longest >= WORD, "what begins and ends among eight bytes is not measured");
    let (mut count, mut before, mut is_too_long) = (0, FIRST_TOP, false);
    // How much has come of the word that goes on.
    let mut open = 0;
    eights(text).for_each(|word| {
        let spaces = spaces_in(word);
        count += count_tops(starts_in(spaces, before));
        before = spaces >> LAST_BYTE;
        if spaces == 0 {
            open += WORD;
        } else {
            is_too_long |= open + spaces.trailing_zeros() as usize / 8 > longest;
            open = spaces.leading_zeros() as usize / 8;
        }
    });
    (!is_too_long).then_some(count)
}

/// Where the word begins in a text that has this many others before it.
pub(crate) fn find_word(text: &[u8], others: usize) -> Option<usize> {
    let (mut left, mut before, mut at) = (others, FIRST_TOP, 0);
    for word in eights(text) {
        let spaces = spaces_in(word);
        let mut starts = starts_in(spaces, before);
        let count = count_tops(starts);
        if left < count {
            (0..left).for_each(|_| starts &= starts - 1);
            return Some(at + starts.trailing_zeros() as usize / 8);
        }
        left -= count;
        before = spaces >> LAST_BYTE;
        at += WORD;
    }
    None
}

/// A text, eight bytes at a time, with spaces behind it.
fn eights(text: &[u8]) -> impl Iterator<Item = [u8; WORD]> {
    let (words, last) = text.as_chunks();
    let mut end = [b' '; WORD];
    end[..last.len()].copy_from_slice(last);
    words.iter().copied().chain([end])
}

/// The top bits of those bytes that are spaces. It is right for each: nothing is carried from one to the next (Hacker's Delight, 6-1).
#[inline]
fn spaces_in(word: [u8; WORD]) -> u64 {
    let differences = u64::from_le_bytes(word) ^ (ONES * b' ' as u64);
    !(((differences & !TOPS) + !TOPS) | differences) & TOPS
}

/// The top bits of those bytes with which words begin. `before`: the first one's, if a space stands before it.
#[inline]
const fn starts_in(spaces: u64, before: u64) -> u64 {
    !spaces & (spaces << 8 | before) & TOPS
}

/// How many of the top bits are set.
#[inline]
const fn count_tops(tops: u64) -> usize {
    // Their sum comes to stand in the last byte.
    ((tops >> 7).wrapping_mul(ONES) >> LAST_BYTE) as usize
}

#[inline(never)]
fn find_far(byte: u8, text: &[u8]) -> Option<usize> {
    memchr(byte, text)
}

/// Where `byte` first stands among eight: the lowest byte that is zero after the exclusive or (H. S. Warren, Hacker's Delight, 6-1).
/// Of the others the test may be wrong, but only above that one.
#[inline]
fn place_in(word: [u8; WORD], byte: u8) -> Option<usize> {
    let differences = u64::from_le_bytes(word) ^ (ONES * byte as u64);
    let zeros = differences.wrapping_sub(ONES) & !differences & TOPS;
    (zeros != 0).then(|| zeros.trailing_zeros() as usize / 8)
}

/// Where the first byte stands among eight that is at most a space: the lowest that is less after the subtraction and was not high before
/// it. Of those above it the test may be wrong. (Hacker's Delight, 6-1.)
#[inline]
fn blank_in(word: [u8; WORD]) -> Option<usize> {
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

        #[test]
        fn words_are_counted_and_found_as_they_stand_between_spaces(
            words in prop::collection::vec((0..4_usize, 0..40_usize, any::<u8>()), 0..60),
            longest in 8..40_usize,
        ) {
            let mut text = Vec::new();
            for (spaces, len, byte) in words {
                text.extend(std::iter::repeat_n(b' ', spaces));
                text.extend(std::iter::repeat_n(byte, len));
            }
            let words: Vec<&[u8]> = text.split(|&byte| byte == b' ').filter(|word| !word.is_empty()).collect();
            let is_any_too_long = words.iter().any(|word| word.len() > longest);
            prop_assert_eq!(count_words(&text, longest), (!is_any_too_long).then_some(words.len()));
            for (others, word) in words.iter().enumerate() {
                let at = word.as_ptr().addr() - text.as_ptr().addr();
                prop_assert_eq!(find_word(&text, others), Some(at));
            }
            prop_assert_eq!(find_word(&text, words.len()), None);
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
