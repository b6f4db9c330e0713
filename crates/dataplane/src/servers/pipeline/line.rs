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

/// The last message that is a `get` to which others may be joined.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Where in the stream to the server it begins.
    start: u64,
    /// One bit for each key that is asked for, by its tag: a key whose bit is not among these is not in the message.
    seen: [u64; 4],
    /// The tag of each key that is asked for, in their order: keys with other tags are others. They lie close, so that many are compared at
    /// once.
    tags: Vec<u16>,
    /// The keys that are asked for, in the same order.
    asked: Vec<AskedKey>,
    /// How many parts it has.
    parts: usize,
    /// How many bytes of the noted keys are its.
    key_bytes: usize,
}

/// A key that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AskedKey {
    /// Where it begins, in bytes of the noted keys of the message.
    pub(super) at: u16,
    /// The part that asks for it, by its number in the message.
    pub(super) part: u16,
}

/// A message of this many bytes is not made longer. memcached has room for 2 KiB of any line, and reads a longer `get` by other code.
const LINE_BYTES_MAX: u64 = 1 << 10;

/// Nor is one with this many parts, or whose noted keys have this many bytes: they can be many more than those that are asked for.
const PARTS_MAX: usize = 256;
const KEY_BYTES_MAX: usize = 4 << 10;

/// Tags that are compared before it is asked whether one was the same.
const TAGS_AT_ONCE: usize = 16;

pub(super) const VERB: &[u8] = b"get";
pub(super) const LINE_END: &[u8] = b"\r\n";

impl Line {
    /// A message begins there, with one part without keys.
    #[inline]
    pub(super) fn begin(&mut self, start: u64) {
        (self.start, self.parts, self.key_bytes) = (start, 1, 0);
        self.seen = [0; 4];
        self.tags.clear();
        self.asked.clear();
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

    /// The key of the message that is `key`, if it asks for that. The last of `noted` are the message's.
    #[inline]
    pub(super) fn find(&self, key: &[u8], noted: &[u8]) -> Option<AskedKey> {
        let tag = tag_of(key);
        let (word, bit) = bit_of(tag);
        if self.seen[word] & bit == 0 {
            return None;
        }
        self.find_tag(tag, key, noted)
    }

    #[inline(never)]
    fn find_tag(&self, tag: u16, key: &[u8], noted: &[u8]) -> Option<AskedKey> {
        // Without a way out, so that several are compared by one instruction.
        let has_tag = |tags: &[u16]| tags.iter().fold(false, |has, other| has | (*other == tag));
        let own = noted.len() - self.key_bytes;
        for (tags, asked) in self.tags.chunks(TAGS_AT_ONCE).zip(self.asked.chunks(TAGS_AT_ONCE)) {
            if !has_tag(tags) {
                continue;
            }
            let same = |asked: &AskedKey| {
                let at = own + usize::from(asked.at);
                noted[at..].first().is_some_and(|len| noted[at + 1..].get(..usize::from(*len)) == Some(key))
            };
            let found = tags.iter().zip(asked).find(|(other, asked)| **other == tag && same(asked));
            if let Some((_, asked)) = found {
                return Some(*asked);
            }
        }
        None
    }

    /// A key is noted. `is_asked`: the message asks for it, because it did not before.
    #[inline]
    pub(super) fn note(&mut self, key: &[u8], is_asked: bool) {
        if is_asked {
            let small = |number| u16::try_from(number).expect("a line has few parts and keys");
            let tag = tag_of(key);
            let (word, bit) = bit_of(tag);
            self.seen[word] |= bit;
            self.tags.push(tag);
            self.asked.push(AskedKey { at: small(self.key_bytes), part: small(self.parts - 1) });
        }
        self.key_bytes += 1 + key.len();
    }

    /// Frees the memory that it keeps for later messages.
    pub(super) fn give_back(&mut self) {
        (self.tags, self.asked) = (Vec::new(), Vec::new());
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

/// By the last bytes of the key, in which keys differ most.
#[inline]
pub(super) fn tag_of(key: &[u8]) -> u16 {
    let word = key.last_chunk().map_or_else(|| last_word(key, [0; 8]), |last| u64::from_le_bytes(*last));
    // The golden ratio mixes the bits upwards (Knuth, The Art of Computer Programming, volume 3, 6.4).
    let mixed = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48;
    u16::try_from(mixed).expect("the others were shifted out")
}

/// Which of four words, and which bit of it.
#[inline]
const fn bit_of(tag: u16) -> (usize, u64) {
    ((tag >> 14) as usize, 1 << (tag >> 8 & 63))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn noted(keys: &[&[u8]]) -> Vec<u8> {
        keys.iter().flat_map(|key| [&[key.len() as u8], *key].concat()).collect()
    }

    fn line_at(start: u64) -> Line {
        let mut line = Line::default();
        line.begin(start);
        line
    }

    #[test]
    fn a_key_is_found_among_those_that_the_message_asks_for() {
        let mut line = line_at(100);
        line.note(b"bb", true);
        line.begin_part();
        line.note(b"bb", false);
        line.note(b"cc", true);
        let keys = noted(&[b"aa", b"bb", b"bb", b"cc"]);
        let found = [b"aa", b"bb", b"cc"].map(|key| line.find(key, &keys));
        assert_eq!(found, [None, Some(AskedKey { at: 0, part: 0 }), Some(AskedKey { at: 6, part: 1 })]);
        assert!(line.has_room(100 + LINE_BYTES_MAX - 1) && !line.has_room(100 + LINE_BYTES_MAX));
        assert_eq!((line.parts(), line.key_bytes()), (2, 9));
        line.begin(200);
        assert_eq!((line.find(b"cc", &keys), line.parts(), line.key_bytes()), (None, 1, 0));
    }

    #[test]
    fn keys_with_the_same_tag_are_distinguished() {
        // Their last eight bytes are the same.
        let names: Vec<_> = (0..100).map(|number| format!("{number:03}-the-same-end")).collect();
        let mut line = line_at(0);
        names.iter().for_each(|name| line.note(name.as_bytes(), true));
        let keys = noted(&names.iter().map(String::as_bytes).collect::<Vec<_>>());
        for (number, name) in names.iter().enumerate() {
            let at = u16::try_from(number * (1 + name.len())).expect("it is small");
            assert_eq!(line.find(name.as_bytes(), &keys), Some(AskedKey { at, part: 0 }));
        }
        assert_eq!(line.find(b"100-the-same-end", &keys), None);
    }

    #[test]
    fn a_line_has_no_room_for_any_number_of_parts_that_ask_for_the_same() {
        let mut line = line_at(0);
        (1..PARTS_MAX).for_each(|_| line.begin_part());
        assert!(!line.has_room(10));
        let mut line = line_at(0);
        (0..KEY_BYTES_MAX / 2).for_each(|_| line.note(b"k", false));
        assert!(!line.has_room(10));
    }

    proptest! {
        #[test]
        fn plain_is_what_has_no_control_character(key in prop::collection::vec(prop_oneof![any::<u8>(), 0x1fu8..0x23, 0x7du8..0x82], 0..40)) {
            prop_assert_eq!(is_plain(&key), key.iter().all(|&byte| byte > b' ' && byte != 0x7f));
        }
    }
}
