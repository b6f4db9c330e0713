//! Keys that stand once in a message, and that several of its parts want.
//!
//! ```text
//!   get a    ╮                          twins: the second key of part 1 is the one at byte 0,
//!   get b a  ├─ get a b                        the first key of part 2 is the one at byte 0
//!   get a    ╯
//! ```
//!
//! [`Twins`] owns them, for all messages of a connection that wait or are in flight. It learns of each when the key is composed, so nothing has to be looked
//! for when the value comes. How many belong to a message its first part knows.

use std::{cmp::Ordering, collections::VecDeque};

/// A key of a part that is asked for by an earlier part of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Twin {
    /// Where that key begins, in bytes of the noted keys of the message.
    pub(super) asked_at: u32,
    /// The part, by its number in the message.
    pub(super) part: u32,
    /// The number of the key among those of the part.
    pub(super) ordinal: u32,
}

/// The twins of all messages, in the order of the messages.
#[derive(Debug, Default)]
pub(super) struct Twins {
    all: VecDeque<Twin>,
}

impl Twin {
    /// Its part, by its number in the message, and its number among the keys of that.
    pub(super) const fn place(self) -> (usize, u32) {
        (self.part as usize, self.ordinal)
    }
}

impl Twins {
    /// The last message has another one.
    pub(super) fn push(&mut self, twin: Twin) {
        self.all.push_back(twin);
    }

    /// A message in front of which there are `before` twins, its own among them, has another one.
    pub(super) fn insert(&mut self, before: usize, twin: Twin) {
        self.all.insert(before, twin);
    }

    /// The part with this number, the last one of the last message, leaves that. Returns how many twins it had.
    pub(super) fn take_last_part(&mut self, part: u32, of_message: u32) -> u32 {
        let own =
            self.all.iter().rev().take(of_message as usize).take_while(|twin| twin.part == part).count();
        self.all.truncate(self.all.len() - own);
        u32::try_from(own).expect("it is a part of a number of this type")
    }

    /// The first messages, which have this many, are over.
    #[inline]
    pub(super) fn drop_first(&mut self, count: u32) {
        if count > 0 {
            self.all.drain(..count as usize);
        }
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
    }

    /// Of the first `count` twins, from number `from` on, the first of the key at this byte, with its number.
    #[inline]
    pub(super) fn find(&self, asked_at: usize, from: usize, count: usize) -> Option<(usize, Twin)> {
        let range = self.all.range(from..count).enumerate();
        let mut own = range.filter(|(_, twin)| twin.asked_at as usize == asked_at);
        own.next().map(|(number, twin)| (from + number, *twin))
    }

    /// Whether this key of the first message, which has `count` twins, is one of them. They stand in the order of the parts and their keys.
    #[inline]
    pub(super) fn has(&self, place: (usize, u32), count: usize) -> bool {
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.all[middle].place().cmp(&place) {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return true,
                Ordering::Greater => high = middle,
            }
        }
        false
    }

    /// The memory that is kept, in bytes.
    pub(super) fn capacity(&self) -> usize {
        self.all.capacity() * size_of::<Twin>()
    }

    /// Frees the memory if there are none.
    pub(super) fn give_back(&mut self) {
        if self.all.is_empty() {
            self.all = VecDeque::new();
        }
    }
}
