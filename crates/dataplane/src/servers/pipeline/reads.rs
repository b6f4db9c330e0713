//! Reads by `mg` that wait, each in a message of its own, and those that ask the same and share it.
//!
//! ```text
//!   mg a v O1   ╮                       VA 3 O1   client 1: as it is
//!   mg b v O1   │  mg a v O1                      client 3: VA 3 O9, its own opaque
//!   mg a v O9   ╯  mg b v O1            EN O1     client 2
//! ```
//!
//! Nothing of the message has left, so the server looks the key up after all of them asked. memcached gathers the replies to many `mg` as it
//! is: unlike `get` they need no common line, and no opaque of ours.
//!
//! Who shares a message stands ahead of what came in between. Nobody can tell, but for its own client: so nothing of that may stand there which
//! has the same key, or writes.
//!
//! To share a message costs a look at each part behind it. So no more than [`BEHIND_MAX`] stand there, and what one read costs does not grow
//! with what waits.
//!
//! [`Reads`] owns where such reads wait. It learns of each, and answers which may be the same (`places.rs` looks whether they are).

/// Reads that wait for the driver.
#[derive(Debug, Default)]
pub(super) struct Reads {
    /// The latest, in the order of their messages.
    waiting: Vec<Read>,
    /// One bit for each, by its tag: one whose bit is not among these does not wait.
    seen: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    /// Where in the stream to the server its message begins.
    start: u64,
    /// Of the key by which it is placed: keys with other tags are others.
    tag: u16,
    /// How many parts share the message.
    parts: u16,
}

impl Read {
    /// Where in the stream to the server its message begins.
    pub(super) const fn start(self) -> u64 {
        self.start
    }

    /// How many parts share the message.
    pub(super) fn parts(self) -> usize {
        self.parts.into()
    }
}

/// A message that has more parts behind it is not shared any more.
pub(super) const BEHIND_MAX: usize = 64;

/// No more share one.
const PARTS_MAX: u16 = 256;

/// With more reads than these the older half is forgotten: as many have come behind each of them as may stand there.
const WAITING_MAX: usize = 2 * BEHIND_MAX;

impl Reads {
    pub(super) fn note(&mut self, start: u64, tag: u16) {
        if self.waiting.len() == WAITING_MAX {
            self.forget_older();
        }
        self.waiting.push(Read { start, tag, parts: 1 });
        self.seen |= bit_of(tag);
    }

    #[cold]
    fn forget_older(&mut self) {
        self.waiting.drain(..WAITING_MAX / 2);
        self.seen = self.waiting.iter().fold(0, |seen, read| seen | bit_of(read.tag));
    }

    /// Those that may be of a key with this tag, and that more may share.
    pub(super) fn of(&self, tag: u16) -> impl Iterator<Item = Read> {
        let known: &[Read] = if self.seen & bit_of(tag) == 0 { &[] } else { &self.waiting };
        known.iter().copied().filter(move |read| read.tag == tag && read.parts < PARTS_MAX)
    }

    /// The tag of the one whose message begins there.
    pub(super) fn tag_at(&self, start: u64) -> Option<u16> {
        let found = self.waiting.binary_search_by_key(&start, |read| read.start).ok()?;
        Some(self.waiting[found].tag)
    }

    /// Another part shares the message that begins there.
    pub(super) fn note_sharer(&mut self, start: u64) {
        if let Ok(found) = self.waiting.binary_search_by_key(&start, |read| read.start) {
            self.waiting[found].parts += 1;
        }
    }

    /// All were taken by the driver.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.seen = 0;
    }

    /// Frees the memory that it keeps for later reads.
    pub(super) fn give_back(&mut self) {
        self.waiting = Vec::new();
        self.seen = 0;
    }
}

/// Whether two messages have the same words, but for what they are called: the words from the third on that begin with `O`.
pub(super) fn is_same_question(one: &[u8], other: &[u8]) -> bool {
    if one == other {
        return true;
    }
    let words = |message| <[u8]>::split(message, |byte| matches!(byte, b' ' | b'\r' | b'\n'));
    let (mut one, mut other) = (words(one), words(other));
    let mut number = 0;
    loop {
        let is_opaque = |word: Option<&[u8]>| number > 1 && word.is_some_and(|word| word.starts_with(b"O"));
        match (one.next(), other.next()) {
            (None, None) => return true,
            (one, other) if one == other || is_opaque(one) && is_opaque(other) => number += 1,
            _ => return false,
        }
    }
}

/// One of 64 bits.
const fn bit_of(tag: u16) -> u64 {
    1 << (tag >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_the_same_whatever_they_are_called() {
        let same = |one: &str, other: &str| {
            is_same_question(format!("mg {one}\r\n").as_bytes(), format!("mg {other}\r\n").as_bytes())
        };
        assert!(same("a v", "a v") && same("a O1 v", "a O22 v") && same("O v O", "O v O9"));
        for other in ["b O1 v", "a v O1", "a v", "a O1", "a O1 v t", "a O1 vx", "O1 O1 v"] {
            assert!(!same("a O1 v", other), "{other}");
        }
        assert!(!same("O1", "O2"), "a key is no opaque");
    }

    #[test]
    fn the_latest_reads_are_known_and_as_many_as_may_stand_behind_one() {
        let mut reads = Reads::default();
        for number in 0..1000_u16 {
            reads.note(number.into(), number);
            assert!(reads.waiting.len() <= WAITING_MAX);
            let oldest = number.saturating_sub(u16::try_from(BEHIND_MAX).expect("it is small"));
            for known in oldest..=number {
                assert_eq!(reads.tag_at(known.into()), Some(known));
                assert_eq!(reads.of(known).count(), 1);
            }
        }
        assert_eq!(reads.of(0).count(), 0, "it was forgotten");
    }
}
