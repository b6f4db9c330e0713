//! Gets of several requests in one message.
//!
//! A server pays for each message: it reads a line, and memcached hands the reply of each `get` to the kernel by a call of its own, however
//! many came together. So a `get` that comes to stand behind another one, of which nothing was handed to the driver yet, is put into its
//! message. Nobody waits for that: it is done with what would have left together anyway.
//!
//! ```text
//!   get a     ╮                              VALUE a …   the whole reply to `get a`, but for its END
//!   get b c   ├─ one message: get a b c d    VALUE c …   that to `get b c`: `b` is a miss
//!   get d     ╯                              END         that to `get d`: a miss
//! ```
//!
//! Each request keeps a part of its own, with its place, deadline and times. Values come in the order of the keys, so one that is not of
//! the head's keys says that the head has all that it will get. No key is asked for twice in a message for two parts: if it came or went
//! between the two, nobody could tell whose the only value is. A last line that is an error answers all parts that are still there.

use super::{Backend, NewPart, Part};
use crate::{Config, JoinGets, failover::Names};
use weir_protocol::{Expected, Reply, Retrieval, RetrievalVerb, Violation, Whose};
use weir_timing::Instant;

/// The last message, while it is a `get` to which others may be joined.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    /// Where in the stream to the server it begins.
    start: u64,
    /// One bit for each key, by some of its bytes: a key whose bit is not among these is not in the message.
    seen: u64,
    /// How many bytes of the noted keys are its, and of them those of its last part.
    key_bytes: usize,
    part_key_bytes: usize,
}

/// How far the keys of the head are compared with the values that have come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    /// In bytes of the noted keys.
    at: usize,
    ordinal: u32,
}

/// A message of so many bytes is not made longer. memcached has room for 2 KiB of any line, and reads a longer `get` by other code.
const LINE_BYTES_MAX: u64 = 1 << 10;

/// Parts with more keys than this have their own message: they keep a server busy for longer, and gain little.
const PART_KEYS_MAX: usize = 32;

impl Backend {
    /// Begins the message of a retrieval of `key_count` keys, or puts it into the one before: the caller adds the keys by
    /// [`Backend::push_key`], and then calls [`Backend::finish_retrieval`].
    // As a call of its own it costs every get forty instructions.
    #[inline(always)]
    pub(crate) fn begin_retrieval(
        &mut self,
        part: NewPart,
        (retrieval, key_count): (Retrieval<'_>, usize),
        config: &Config,
        now: Instant,
    ) {
        let may_be_joined = config.join_gets == JoinGets::On
            && retrieval.verb == RetrievalVerb::Get
            && key_count <= PART_KEYS_MAX;
        let joins = may_be_joined && self.has_open_line();
        if joins {
            let message = self.out.end();
            message.truncate(message.len() - LINE_END.len());
            let end = self.out_end();
            self.parts.back_mut().expect("a line is a part's").end = end;
        }
        self.begin_message(part, config, now);
        let part = self.parts.back_mut().expect("a message was begun");
        (part.may_be_joined, part.is_joined) = (may_be_joined, joins);
        if joins {
            self.line.part_key_bytes = 0;
        } else {
            self.line = Line { start: part.start, ..Line::default() };
            retrieval.write_head(self.message());
        }
    }

    /// All keys of the retrieval are there. Returns whether they stand in the message of another.
    pub(crate) fn finish_retrieval(&mut self) -> bool {
        self.out.end().extend_from_slice(LINE_END);
        self.finish_message();
        self.parts.back().is_some_and(|part| part.is_joined)
    }

    /// Whether the last message may be made longer.
    fn has_open_line(&self) -> bool {
        let is_open =
            self.parts.len() > self.dequeued && self.parts.back().is_some_and(|part| part.may_be_joined);
        is_open && self.out_end() - self.line.start < LINE_BYTES_MAX
    }

    /// A key is about to be added to the last part. If it must not stand behind those before it, the part becomes a message of its own.
    #[inline]
    pub(super) fn note_in_line(&mut self, key: &[u8]) {
        if !is_plain(key) {
            self.set_apart();
            self.parts.back_mut().expect("a message was begun").may_be_joined = false;
            return;
        }
        let bit = bit_of(key);
        if self.line.seen & bit != 0 && self.has_in_line(key) {
            self.set_apart();
        }
        self.line.seen |= bit;
        self.line.key_bytes += 1 + key.len();
        self.line.part_key_bytes += 1 + key.len();
    }

    fn has_in_line(&self, key: &[u8]) -> bool {
        let noted = self.keys.as_slice();
        Names(&noted[noted.len() - self.line.key_bytes..]).any(|other| other == key)
    }

    /// The last part, as far as it is composed, becomes a message of its own, if it is not.
    #[cold]
    fn set_apart(&mut self) {
        let (out_end, count) = (self.out_end(), self.parts.len());
        let part = self.parts.back_mut().expect("a message was begun");
        if !std::mem::take(&mut part.is_joined) {
            return;
        }
        let composed = usize::try_from(out_end - part.start).expect("it is composed in memory");
        part.start += LINE_END.len() as u64;
        let start = part.start;
        self.parts[count - 2].end = start;
        let message = self.out.end();
        let begin = message.len() - composed;
        message.extend_from_slice(LINE_END);
        message.extend_from_slice(VERB);
        message[begin..].rotate_right(LINE_END.len() + VERB.len());
        let noted = self.keys.as_slice();
        let own = Names(&noted[noted.len() - self.line.part_key_bytes..]);
        let seen = own.fold(0, |seen, key| seen | bit_of(key));
        let key_bytes = self.line.part_key_bytes;
        self.line = Line { start, seen, key_bytes, part_key_bytes: key_bytes };
    }

    /// The last part of the message in which this part stands.
    pub(super) fn last_of_message(&self, part: usize) -> usize {
        let joined = self.parts.range(part + 1..).take_while(|next| next.is_joined);
        part + joined.count()
    }

    /// Looks for the reply to the head, of which this is `expected`, at the front of `bytes`.
    #[inline]
    pub(crate) fn scan(&mut self, expected: Expected, bytes: &[u8]) -> Result<Option<Reply>, Violation> {
        if !self.is_head_followed() {
            return self.scanner.scan(expected, bytes);
        }
        self.scan_joined(bytes)
    }

    #[inline(never)]
    fn scan_joined(&mut self, bytes: &[u8]) -> Result<Option<Reply>, Violation> {
        let Self { parts, keys, ordinals, cursor, scanner, .. } = self;
        let key_count = parts[0].key_count;
        if *cursor == Cursor::default() {
            ordinals.clear();
        }
        scanner.scan_joined(bytes, |found| cursor.find(found, keys.as_slice(), key_count, ordinals))
    }

    /// Whether the reply to the head goes on with that to the part behind it.
    pub(super) fn is_head_followed(&self) -> bool {
        self.parts.get(1).is_some_and(|next| next.is_joined)
    }

    /// Takes the head's keys from those that are noted.
    #[inline]
    pub(super) fn forget_keys_of_head(&mut self) {
        let Cursor { mut at, ordinal } = std::mem::take(&mut self.cursor);
        let keys = self.keys.as_slice();
        for _ in ordinal..self.parts[0].key_count {
            at += 1 + usize::from(keys[at]);
        }
        self.keys.advance(at);
    }

    /// Whether the head stands in a message whose reply has begun with that to another part.
    pub(crate) fn is_within_message(&self) -> bool {
        self.parts.front().is_some_and(|part| part.is_joined)
    }

    /// The reply to a message has ended: takes the next part that stands in it and got nothing, if there is one.
    pub(crate) fn complete_joined(&mut self) -> Option<Part> {
        if !self.is_within_message() {
            return None;
        }
        self.ordinals.clear();
        self.scanner.reset();
        self.forget_keys_of_head();
        Some(self.take_head())
    }
}

impl Cursor {
    /// Whose the value of the key `found` is, whose positions among the keys of the head are noted in `ordinals`.
    pub(super) fn find(
        &mut self,
        found: &[u8],
        keys: &[u8],
        key_count: u32,
        ordinals: &mut Vec<u32>,
    ) -> Whose {
        while self.ordinal < key_count {
            let key = &keys[self.at + 1..self.at + 1 + usize::from(keys[self.at])];
            self.at += 1 + key.len();
            self.ordinal += 1;
            if key == found {
                ordinals.push(self.ordinal - 1);
                return if self.ordinal == key_count { Whose::HeadsLast } else { Whose::Heads };
            }
        }
        Whose::Others
    }
}

const VERB: &[u8] = b"get";
const LINE_END: &[u8] = b"\r\n";

/// Whether every server reads the key as it stands. What one might take for the end of a key, or refuse, shares no message.
fn is_plain(key: &[u8]) -> bool {
    let (words, _) = key.as_chunks();
    let last =
        key.last_chunk().map_or_else(|| last_word(key, *b"########"), |last| u64::from_le_bytes(*last));
    words.iter().copied().map(u64::from_le_bytes).all(is_plain_word) && is_plain_word(last)
}

/// Whether no byte is a control character or a space, all eight at once. (Hacker's Delight, 6-1.)
const fn is_plain_word(word: u64) -> bool {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHEST: u64 = ONES << 7;
    let is_delete = word ^ (ONES * 0x7f);
    let below = word.wrapping_sub(ONES * 0x21) & !word;
    (below | is_delete.wrapping_sub(ONES) & !is_delete) & HIGHEST == 0
}

/// Up to eight bytes in front of those of `others` behind them.
fn last_word(bytes: &[u8], mut others: [u8; 8]) -> u64 {
    others.iter_mut().zip(bytes).for_each(|(other, byte)| *other = *byte);
    u64::from_le_bytes(others)
}

/// One of 64 bits, by the last bytes of the key, in which keys differ most.
fn bit_of(key: &[u8]) -> u64 {
    let word = key.last_chunk().map_or_else(|| last_word(key, [0; 8]), |last| u64::from_le_bytes(*last));
    // The golden ratio mixes the bits upwards (Knuth, The Art of Computer Programming, volume 3, 6.4).
    1 << (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn plain_is_what_has_no_control_character(key in prop::collection::vec(prop_oneof![any::<u8>(), 0x1fu8..0x23, 0x7du8..0x82], 0..40)) {
            prop_assert_eq!(is_plain(&key), key.iter().all(|&byte| byte > b' ' && byte != 0x7f));
        }
    }
}
