//! Gets of several requests in one message.
//!
//! A server pays for each message: it reads a line, and memcached hands the reply of each `get` to the kernel by a call of its own, however
//! many came together. So a `get` of at most 32 keys (`PART_KEYS_MAX`) that comes to stand behind another such `get`, of which nothing was
//! handed to the driver yet, is put into its message. Nobody waits for that: it is done with what would have left together anyway.
//!
//! ```text
//!   get a     ╮                              VALUE a …   the whole reply to `get a`, but for its END
//!   get b c   ├─ one message: get a b c d    VALUE c …   `get b c` waits for the end
//!   get d     ╯                              VALUE d …   the whole reply to `get d`, but for its END
//!                                            END         `b` is a miss, and `get b c` is answered
//! ```
//!
//! Each request keeps a part of its own, with its place, deadline and times. A part that has all its values is answered at once: each was
//! complete, and asked for. Most come in the order of the parts; from the first on that does not, `scattered.rs` finds whose they are. That
//! a key has no value is known at the end alone.
//!
//! A key that stands in the message already is not asked for again: its value, or that there is none, is the answer to all parts that want
//! it. Nothing of the message has left, so the server looks the key up after all of them came.
//!
//! What comes behind the line, and has one key, goes ahead of it (`Pipeline::place_ahead`), so that the gets that follow find the line
//! still at the end. The gets and it come from different clients, or have different keys, and nothing of them has left: so no client
//! can tell in which order they came. A get of the same client and key stays ahead.
//!
//! ```text
//!   get a │ set b │ get c     leaves as     set b │ get a c
//! ```
//!
//! A last line that is an error, and a value that nobody asked for, may be the trouble of one key alone. So each part that has no answer
//! is asked for again in a message of its own (`ask_alone.rs`).
//!
//! [`Line`] owns which keys the last message has. It learns of each, and answers whether another one stands there.

use crate::wire::names::Names;

/// The last message that is a `get` to which others may be joined.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    /// Where in the stream to the server it begins.
    start: u64,
    /// One bit for each key, by some of its bytes: a key whose bit is not among these is not in the message.
    seen: [u64; 4],
    /// How many parts it has.
    parts: usize,
    /// How many bytes of the noted keys are its.
    key_bytes: usize,
}

/// A message of this many bytes is not made longer. memcached has room for 2 KiB of any line, and reads a longer `get` by other code.
const LINE_BYTES_MAX: u64 = 1 << 10;

/// Nor is one with this many parts, or whose noted keys have this many bytes: they can be many more than those that are asked for.
const PARTS_MAX: usize = 256;
const KEY_BYTES_MAX: usize = 4 << 10;

pub(super) const VERB: &[u8] = b"get";
pub(super) const LINE_END: &[u8] = b"\r\n";

impl Line {
    /// A message that begins there, with one part without keys.
    #[inline]
    pub(super) fn at(start: u64) -> Self {
        Self { start, parts: 1, ..Self::default() }
    }

    #[inline]
    pub(super) const fn start(&self) -> u64 {
        self.start
    }

    /// How many parts it has.
    #[inline]
    pub(super) const fn parts(&self) -> usize {
        self.parts
    }

    /// How many bytes of the noted keys are its.
    #[inline]
    pub(super) const fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Whether it may be made longer that ends there.
    #[inline]
    pub(super) const fn has_room(&self, end: u64) -> bool {
        end - self.start < LINE_BYTES_MAX && self.parts < PARTS_MAX && self.key_bytes < KEY_BYTES_MAX
    }

    /// The keys that follow are another part's.
    #[inline]
    pub(super) const fn begin_part(&mut self) {
        self.parts += 1;
    }

    /// The number of a key among those of the message, if it stands there. The last of `noted` are the message's.
    #[inline]
    pub(super) fn find(&self, key: &[u8], noted: &[u8]) -> Option<usize> {
        let (word, bit) = bit_of(key);
        if self.seen[word] & bit == 0 {
            return None;
        }
        Names(&noted[noted.len() - self.key_bytes..]).position(|other| other == key)
    }

    /// A key is noted.
    #[inline]
    pub(super) fn note(&mut self, key: &[u8]) {
        let (word, bit) = bit_of(key);
        self.seen[word] |= bit;
        self.key_bytes += 1 + key.len();
    }

    /// A message of this many bytes goes ahead of it.
    pub(super) const fn move_behind(&mut self, bytes: u64) {
        self.start += bytes;
    }
}

/// Whether every server reads the key as it stands. What one might take for the end of a key, or refuse, shares no message.
#[inline]
pub(super) fn is_plain(key: &[u8]) -> bool {
    let (words, _) = key.as_chunks();
    let last =
        key.last_chunk().map_or_else(|| last_word(key, *b"########"), |last| u64::from_le_bytes(*last));
    words.iter().copied().map(u64::from_le_bytes).all(is_plain_word) && is_plain_word(last)
}

/// Whether no byte is a control character or a space, all eight at once. (Hacker's Delight, 6-1.)
#[inline(always)]
const fn is_plain_word(word: u64) -> bool {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHEST: u64 = ONES << 7;
    let is_delete = word ^ (ONES * 0x7f);
    let below = word.wrapping_sub(ONES * 0x21) & !word;
    (below | is_delete.wrapping_sub(ONES) & !is_delete) & HIGHEST == 0
}

/// Up to eight bytes in front of those of `others` behind them.
#[inline]
fn last_word(bytes: &[u8], mut others: [u8; 8]) -> u64 {
    others.iter_mut().zip(bytes).for_each(|(other, byte)| *other = *byte);
    u64::from_le_bytes(others)
}

/// One of 256 bits, by the last bytes of the key, in which keys differ most: which of four words, and which bit of it.
#[inline]
fn bit_of(key: &[u8]) -> (usize, u64) {
    let word = key.last_chunk().map_or_else(|| last_word(key, [0; 8]), |last| u64::from_le_bytes(*last));
    // The golden ratio mixes the bits upwards (Knuth, The Art of Computer Programming, volume 3, 6.4).
    let mixed = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    ((mixed >> 6) as usize, 1 << (mixed & 63))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn noted(keys: &[&[u8]]) -> Vec<u8> {
        keys.iter().flat_map(|key| [&[key.len() as u8], *key].concat()).collect()
    }

    #[test]
    fn a_key_is_found_among_those_of_the_message_alone() {
        let mut line = Line::at(100);
        line.note(b"bb");
        line.begin_part();
        line.note(b"cc");
        let keys = noted(&[b"aa", b"bb", b"cc"]);
        assert_eq!([b"aa", b"bb", b"cc"].map(|key| line.find(key, &keys)), [None, Some(0), Some(1)]);
        assert!(line.has_room(100 + LINE_BYTES_MAX - 1) && !line.has_room(100 + LINE_BYTES_MAX));
        assert_eq!((line.parts(), line.key_bytes()), (2, 6));
    }

    #[test]
    fn a_line_has_no_room_for_any_number_of_parts_that_ask_for_the_same() {
        let mut line = Line::at(0);
        (1..PARTS_MAX).for_each(|_| line.begin_part());
        assert!(!line.has_room(10));
        let mut line = Line::at(0);
        (0..KEY_BYTES_MAX / 2).for_each(|_| line.note(b"k"));
        assert!(!line.has_room(10));
    }

    proptest! {
        #[test]
        fn plain_is_what_has_no_control_character(key in prop::collection::vec(prop_oneof![any::<u8>(), 0x1fu8..0x23, 0x7du8..0x82], 0..40)) {
            prop_assert_eq!(is_plain(&key), key.iter().all(|&byte| byte > b' ' && byte != 0x7f));
        }
    }
}
