//! How many writes of each key have begun and ended, over all dataplanes of a process: whether what a get has asked a server for can still be
//! what a later one would find (`requests/ask_once.rs`).
//!
//! ```text
//!   write   begin ──▶ servers ──▶ end ──▶ its client is answered
//!   get 1        look: none is under way? ──▶ server ……………………… reply
//!   get 2                                            is_same: none has begun since? ──▶ it takes that reply, too
//! ```
//!
//! So a reply is shared only where every write of the key was answered before the first get was sent, or begins after the second one came.
//! The second get then finds what it would have found by itself, whichever loop wrote.
//!
//! Two others look at what has ended only. A value that is kept (`requests/near_cache.rs`) is an answer until a write of its key has its
//! answer: until then nothing newer was acknowledged. What a write has stored is known when it has its answer, if no other loop has written
//! its key meanwhile (`requests/near_written.rs`). For a loop sends the writes of a key over one connection, in their order.
//!
//! Keys are counted by a hash: keys that share a count end each other's sharing, and nothing else. A write that got no answer may still be
//! carried out, so nothing is shared behind it until its server has answered it after all, or for a while (`doubts.rs`).

use crate::{replication::doubts::Doubts, wire::doubt::Doubt};
use std::sync::atomic::{AtomicU64, Ordering};
use weir_timing::Instant;

/// What a request may write. It was counted when it began, and is counted again when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Written {
    #[default]
    Nothing,
    /// The key with this hash, of which the lower half says which count is its.
    Key(u32),
    All,
}

/// The writes of a key that had begun, at a moment at which none was under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen(u64);

/// How many writes of a key one dataplane has begun and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Own {
    begun: u64,
    ended: u64,
}

/// How many writes of a key others have begun, and how many of all keys there were, at a moment at which none of these was under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Others {
    of_key: u64,
    of_all: u64,
}

/// The counts that all dataplanes of a process share.
#[derive(Debug)]
pub(crate) struct KeyWrites {
    by_key: Box<[Count]>,
    /// Those that may change any key.
    of_all: Count,
}

#[derive(Debug, Default)]
struct Count {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Writes that may be carried out though they got no answer.
    doubts: Doubts,
}

/// Writes that are under way at once rarely share a count, and the counts fit a processor's second cache.
pub(crate) const COUNTS: usize = 4096;

impl Own {
    /// One more, which all count as begun already.
    pub(crate) fn begin(&mut self) {
        self.begun += 1;
    }

    /// One of them, which all count as ended already.
    pub(crate) fn end(&mut self) {
        self.ended += 1;
    }
}

impl Default for KeyWrites {
    fn default() -> Self {
        Self { by_key: (0..COUNTS).map(|_| Count::default()).collect(), of_all: Count::default() }
    }
}

impl KeyWrites {
    /// The key with this hash is about to be written: before anything of that is sent.
    pub(crate) fn begin(&self, hash: u64) -> Written {
        self.by_key[place_of(hash)].begin();
        Written::Key(lower(hash))
    }

    /// The same, of any number of keys.
    pub(crate) fn begin_all(&self) -> Written {
        self.of_all.begin();
        Written::All
    }

    /// Before its client is answered. `is_unsure`: it got no answer, so it may be carried out later. Returns its name then, if it has one
    /// key: for [`KeyWrites::settle`].
    pub(crate) fn end(&self, written: Written, is_unsure: bool, now: Instant) -> Option<Doubt> {
        let (count, hash) = match written {
            Written::Nothing => return None,
            Written::Key(hash) => (&self.by_key[place_of(hash.into())], Some(hash)),
            Written::All => (&self.of_all, None),
        };
        let window = is_unsure.then(|| count.doubts.begin(now));
        count.ended.fetch_add(1, Ordering::SeqCst);
        hash.zip(window).map(|(hash, window)| Doubt::new(hash, window))
    }

    /// A write that had got no answer has one: it is not carried out later.
    pub(crate) fn settle(&self, doubt: Doubt) {
        self.by_key[place_of(doubt.hash().into())].doubts.end(doubt.window());
    }

    /// What has been written of the key with this hash, if no write of it is under way: before a get is sent.
    pub(crate) fn look(&self, hash: u64, now: Instant) -> Option<Seen> {
        let key = self.by_key[place_of(hash)].settled(now)?;
        Some(Seen(key.wrapping_add(self.of_all.settled(now)?)))
    }

    /// Whether no write of the key with this hash has begun since.
    pub(crate) fn is_same(&self, hash: u64, seen: Seen) -> bool {
        let begun = |count: &Count| count.begun.load(Ordering::SeqCst);
        begun(&self.by_key[place_of(hash)]).wrapping_add(begun(&self.of_all)) == seen.0
    }
}

impl KeyWrites {
    /// Whether no write of the key with this hash has ended since. One may have begun: its client has no answer yet.
    pub(crate) fn is_last_acknowledged(&self, hash: u64, seen: Seen) -> bool {
        let ended = |count: &Count| count.ended.load(Ordering::SeqCst);
        ended(&self.by_key[place_of(hash)]).wrapping_add(ended(&self.of_all)) == seen.0
    }

    /// What others have written of the key with this hash, if none of that is under way.
    pub(crate) fn others(&self, hash: u64, own: Own) -> Option<Others> {
        let count = &self.by_key[place_of(hash)];
        let of_all = self.of_all.all_ended(Own::default())?;
        Some(Others { of_key: count.all_ended(own)?, of_all })
    }

    /// What has been written of the key with this hash, now that a write of this dataplane has ended: if others have begun none since, and
    /// none is left that may be carried out late.
    pub(crate) fn look_behind(&self, hash: u64, own: Own, others: Others, now: Instant) -> Option<Seen> {
        let count = &self.by_key[place_of(hash)];
        let is_sure = |count: &Count| count.doubts.is_none(now);
        let begun = |count: &Count| count.begun.load(Ordering::SeqCst);
        let is_alone =
            begun(count).wrapping_sub(own.begun) == others.of_key && begun(&self.of_all) == others.of_all;
        // Not what the counts say now: another may have begun and ended since.
        let seen = own.ended.wrapping_add(others.of_key).wrapping_add(others.of_all);
        (is_alone && is_sure(count) && is_sure(&self.of_all)).then_some(Seen(seen))
    }
}

impl Count {
    /// How many others have begun, if all of theirs have ended.
    fn all_ended(&self, own: Own) -> Option<u64> {
        // In this order, as in `settled`.
        let ended = self.ended.load(Ordering::SeqCst).wrapping_sub(own.ended);
        let begun = self.begun.load(Ordering::SeqCst).wrapping_sub(own.begun);
        (begun == ended).then_some(begun)
    }

    fn begin(&self) {
        self.begun.fetch_add(1, Ordering::SeqCst);
    }

    /// How many have begun, if all of them have ended.
    fn settled(&self, now: Instant) -> Option<u64> {
        // In this order: what has begun is never less than what has ended, so if they are equal, none was under way at the first look.
        let ended = self.ended.load(Ordering::SeqCst);
        let begun = self.begun.load(Ordering::SeqCst);
        (begun == ended && self.doubts.is_none(now)).then_some(begun)
    }
}

/// The count of the key with this hash, as a number below [`COUNTS`].
pub(crate) const fn place_of(hash: u64) -> usize {
    (hash % COUNTS as u64) as usize
}

/// The lower half of a key's hash: what is remembered of it.
pub(crate) const fn lower(hash: u64) -> u32 {
    hash as u32
}

const _: () = assert!(COUNTS as u64 <= 1 << 32, "the lower half says which count it is");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::doubts::UNSURE_NS;

    const HASH: u64 = 7;
    const NOW: Instant = Instant::from_nanos(1_000);

    #[test]
    fn what_is_being_written_is_not_shared() {
        let writes = KeyWrites::default();
        let before = writes.look(HASH, NOW).expect("nobody writes");
        assert!(writes.is_same(HASH, before));
        let written = writes.begin(HASH);
        assert!(!writes.is_same(HASH, before), "a write has begun");
        assert_eq!(writes.look(HASH, NOW), None, "it is under way");
        assert!(writes.look(HASH + 1, NOW).is_some(), "another key is not written");
        writes.end(written, false, NOW);
        let after = writes.look(HASH, NOW).expect("it has ended");
        assert!(writes.is_same(HASH, after) && !writes.is_same(HASH, before));
    }

    #[test]
    fn one_of_two_that_has_ended_is_not_enough() {
        let writes = KeyWrites::default();
        let (first, second) = (writes.begin(HASH), writes.begin(HASH + COUNTS as u64));
        assert_ne!(first, second, "they are two keys, which share a count");
        writes.end(first, false, NOW);
        assert_eq!(writes.look(HASH, NOW), None);
        writes.end(second, false, NOW);
        assert!(writes.look(HASH, NOW).is_some());
    }

    #[test]
    fn what_may_change_any_key_counts_for_each() {
        let writes = KeyWrites::default();
        let before = writes.look(HASH, NOW).expect("nobody writes");
        let written = writes.begin_all();
        assert!(!writes.is_same(HASH, before) && writes.look(HASH, NOW).is_none());
        writes.end(written, false, NOW);
        assert!(!writes.is_same(HASH, before) && writes.look(HASH, NOW).is_some());
    }

    #[test]
    fn a_value_is_the_last_acknowledged_until_a_write_has_ended() {
        let writes = KeyWrites::default();
        let seen = writes.look(HASH, NOW).expect("nobody writes");
        let written = writes.begin(HASH);
        assert!(writes.is_last_acknowledged(HASH, seen), "it has begun");
        writes.end(written, false, NOW);
        assert!(!writes.is_last_acknowledged(HASH, seen), "it has ended");
    }

    #[test]
    fn what_a_write_has_stored_is_known_if_nobody_else_has_written() {
        let writes = KeyWrites::default();
        let mut own = Own::default();
        let mut begin = || {
            own.begin();
            (writes.begin(HASH), writes.others(HASH, own))
        };
        let ((first, before_first), (second, before_second)) = (begin(), begin());
        let mut end = |written| {
            writes.end(written, false, NOW);
            own.end();
            own
        };
        let own = end(first);
        let seen = writes.look_behind(HASH, own, before_first.expect("only ours"), NOW).expect("only ours");
        assert!(writes.is_last_acknowledged(HASH, seen), "the second one is under way");
        let own = end(second);
        assert!(!writes.is_last_acknowledged(HASH, seen));
        assert!(writes.look_behind(HASH, own, before_second.expect("only ours"), NOW).is_some());
        let other = writes.begin(HASH);
        assert_eq!(writes.others(HASH, own), None, "another is under way");
        assert_eq!(writes.look_behind(HASH, own, before_second.expect("only ours"), NOW), None);
        writes.end(other, false, NOW);
        assert_eq!(
            writes.look_behind(HASH, own, before_second.expect("only ours"), NOW),
            None,
            "it was meanwhile"
        );
        assert!(writes.others(HASH, own).is_some());
        writes.end(writes.begin_all(), true, NOW);
        let others = writes.others(HASH, own).expect("nothing is under way");
        assert_eq!(writes.look_behind(HASH, own, others, NOW), None, "it may be carried out late");
    }

    #[test]
    fn behind_a_write_without_an_answer_nothing_is_shared_for_a_while() {
        let writes = KeyWrites::default();
        let written = writes.begin(HASH);
        writes.end(written, true, NOW);
        assert_eq!(writes.look(HASH, NOW.plus(UNSURE_NS - 1)), None);
        assert!(writes.look(HASH, NOW.plus(UNSURE_NS + 10_000_000)).is_some());
        assert_eq!(writes.end(Written::Nothing, true, NOW), None);
    }

    #[test]
    fn a_write_whose_answer_comes_late_is_feared_no_more() {
        let writes = KeyWrites::default();
        let written = writes.begin(HASH);
        let doubt = writes.end(written, true, NOW).expect("it is of one key");
        assert_eq!(writes.look(HASH, NOW), None);
        writes.settle(doubt);
        assert!(writes.look(HASH, NOW).is_some());
        // Of what may change any key some server may never answer.
        assert_eq!(writes.end(writes.begin_all(), true, NOW), None);
        assert_eq!(writes.look(HASH, NOW), None);
    }
}
