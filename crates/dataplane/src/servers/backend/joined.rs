//! Gets of several requests in one message.
//!
//! A server pays for each message: it reads a line, and memcached hands the reply of each `get` to the kernel by a call of its own, however
//! many came together. So a `get` that comes to stand behind another one, of which nothing was handed to the driver yet, is put into its
//! message. Nobody waits for that: it is done with what would have left together anyway.
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
//! a key has no value is known at the end alone. No key is asked for twice in a message for two parts: if it came or went between the two,
//! nobody could tell whose the only value is.
//!
//! A last line that is an error, and a value that nobody asked for, may be the trouble of one key alone. So each part that has no answer
//! is asked for again in a message of its own (`ask_alone.rs`).

use super::{
    Backend, NewPart, Part,
    scattered::{Kept, Taken},
};
use crate::{Config, JoinGets, servers::part::Sharing, wire::names::Names};
use weir_protocol::{Reply, Retrieval, RetrievalVerb, Status, Violation, Whose};
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
            self.parts.back_mut().expect("a line is a part's").set_end(end);
        }
        self.begin_message(part, config, now);
        let part = self.parts.back_mut().expect("a message was begun");
        part.set_sharing(match (may_be_joined, joins) {
            (false, _) => Sharing::Alone,
            (true, false) => Sharing::MayBeJoined,
            (true, true) => Sharing::Joined,
        });
        if joins {
            self.line.part_key_bytes = 0;
        } else {
            self.line = Line { start: part.start(), ..Line::default() };
            retrieval.write_head(self.message());
        }
    }

    /// All keys of the retrieval are there. Returns whether they stand in the message of another.
    pub(crate) fn finish_retrieval(&mut self) -> bool {
        self.out.end().extend_from_slice(LINE_END);
        self.finish_message();
        self.parts.back().is_some_and(Part::is_joined)
    }

    /// Whether the last message may be made longer.
    fn has_open_line(&self) -> bool {
        let is_open = self.parts.len() > self.dequeued && self.parts.back().is_some_and(Part::may_be_joined);
        is_open && self.out_end() - self.line.start < LINE_BYTES_MAX
    }

    /// A key is about to be added to the last part. If it must not stand behind those before it, the part becomes a message of its own.
    #[inline]
    pub(super) fn note_in_line(&mut self, key: &[u8]) {
        if !is_plain(key) {
            self.set_apart();
            self.parts.back_mut().expect("a message was begun").set_sharing(Sharing::Alone);
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
        if !part.is_joined() {
            return;
        }
        part.set_sharing(Sharing::MayBeJoined);
        let composed = usize::try_from(out_end - part.start()).expect("it is composed in memory");
        let start = part.start() + LINE_END.len() as u64;
        part.set_start(start);
        self.parts[count - 2].set_end(start);
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
    #[inline]
    pub(super) fn last_of_message(&self, part: usize) -> usize {
        let mut last = part;
        while self.parts.get(last + 1).is_some_and(Part::is_joined) {
            last += 1;
        }
        last
    }

    /// Looks at the front of `bytes` for the reply to the head, whose message others share: for all its values, and then `true`, or for
    /// what else is to be taken by [`Backend::take_values`] or ends the message.
    #[inline(never)]
    pub(crate) fn scan_joined(&mut self, bytes: &[u8]) -> Result<Option<(Reply, bool)>, Violation> {
        let Self { parts, keys, ordinals, cursor, scanner, scattered, .. } = self;
        if scattered.is_under_way() {
            let found = scattered.scan(scanner, bytes, parts, keys.as_slice())?;
            return Ok(found.map(|reply| (reply, false)));
        }
        let key_count = parts[0].key_count();
        if *cursor == Cursor::default() {
            ordinals.clear();
        }
        let found =
            scanner.scan_joined(bytes, |found| cursor.find(found, keys.as_slice(), key_count, ordinals))?;
        let Some(reply) = found else { return Ok(None) };
        let has_all = reply.status == Status::Values && ordinals.len() == key_count as usize;
        Ok(Some((reply, has_all)))
    }

    /// Takes the head, which has got all its values, and whose message others share.
    #[inline]
    pub(crate) fn complete_joined(&mut self) -> Part {
        self.forget_keys_of_head();
        self.link.note_answered();
        self.take_head()
    }

    /// Whether the reply to the head goes on with that to the part behind it.
    #[inline]
    pub(crate) fn is_head_followed(&self) -> bool {
        self.parts.get(1).is_some_and(Part::is_joined)
    }

    /// Takes the head's keys from those that are noted.
    #[inline]
    pub(super) fn forget_keys_of_head(&mut self) {
        let Cursor { mut at, ordinal } = std::mem::take(&mut self.cursor);
        let keys = self.keys.as_slice();
        for _ in ordinal..self.parts[0].key_count() {
            at += 1 + usize::from(keys[at]);
        }
        self.keys.advance(at);
    }

    /// Values in the reply to a message of several parts, the first of which has not got all of its own: whose they are, and whether these
    /// are all of it. No more than `kept_max` bytes are kept for parts that lack some.
    pub(crate) fn take_values(&mut self, bytes: &[u8], kept_max: usize) -> Taken {
        let Self { parts, cursor, ordinals, scanner, scattered, .. } = self;
        self.link.note_answered();
        if !scattered.is_under_way() {
            let last = parts.range(1..).take_while(|next| next.is_joined()).count();
            scattered.begin(1 + last, cursor.ordinal, cursor.at);
        }
        let taken = scattered.take(parts, (bytes, scanner.values()), ordinals, kept_max);
        if matches!(taken, Taken::Only(_)) {
            ordinals.clear();
            ordinals.push(0);
        }
        taken
    }

    /// Whether the head stands in the message of the part that was before it.
    pub(crate) fn is_within_message(&self) -> bool {
        self.parts.front().is_some_and(Part::is_joined)
    }

    /// Whether values of a message have come, and none of its parts has left its place since.
    pub(crate) fn is_scattered(&self) -> bool {
        self.scattered.is_under_way()
    }

    /// The reply to a message of several parts has ended: takes the next one, with what was kept for it.
    pub(crate) fn end_part(&mut self) -> (Part, Option<Kept>) {
        let kept = self.scattered.end_part();
        self.link.note_answered();
        self.ordinals.clear();
        self.scanner.reset();
        self.forget_keys_of_head();
        let part = self.take_head();
        if !self.is_within_message() {
            self.scattered.end();
        }
        (part, kept)
    }

    /// What values of parts that lack others take, in bytes.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.scattered.held_bytes()
    }

    /// The keys of the head, each after its length.
    pub(crate) fn keys_of_head(&self) -> &[u8] {
        let keys = self.keys.as_slice();
        let len = (0..self.parts[0].key_count()).fold(0, |len, _| len + 1 + usize::from(keys[len]));
        &keys[..len]
    }

    /// The head's reply cannot be read: takes the requests of those parts that have done nothing but to share a message with another, or
    /// did. `taken` is called for each, with its keys.
    pub(crate) fn take_sharers(&mut self, mut taken: impl FnMut(Part, &[u8])) {
        let mut keys = self.keys.as_slice();
        for index in 0..self.parts.len() {
            let is_followed = self.parts.get(index + 1).is_some_and(Part::is_joined);
            let part = &mut self.parts[index];
            let len = (0..part.key_count()).fold(0, |len, _| len + 1 + usize::from(keys[len]));
            let (own, rest) = keys.split_at(len);
            keys = rest;
            let shares = part.is_joined() || is_followed || part.tries() == 1 && index > 0;
            if shares && part.request().is_some() {
                taken(*part, own);
                part.take_request();
            }
        }
    }

    /// The message that was begun last is a part's of another one that is asked for again, for the so-manieth time.
    pub(crate) fn note_try(&mut self, tries: u8) {
        self.parts.back_mut().expect("a message was begun").set_tries(tries);
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
                let has_all = ordinals.len() == key_count as usize;
                return if has_all { Whose::HeadsLast } else { Whose::Heads };
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
