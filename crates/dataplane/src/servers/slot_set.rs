//! A set of slots, walked in their order at the cost of those that are in it.

use crate::wire::ids::Slot;

/// Each bit of the words is a slot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SlotSet(Vec<u64>);

const BITS: usize = u64::BITS as usize;

impl SlotSet {
    /// Makes room for slots below `len`.
    pub(crate) fn grow(&mut self, len: usize) {
        self.0.resize(len.div_ceil(BITS).max(self.0.len()), 0);
    }

    /// Adds a slot, for which there is room.
    #[inline]
    pub(crate) fn insert(&mut self, slot: Slot) {
        self.0[slot.index() / BITS] |= 1 << (slot.index() % BITS);
    }

    /// The first slot whose place is `from` or behind it.
    #[inline]
    pub(crate) fn next(&self, from: usize) -> Option<Slot> {
        let mut index = from / BITS;
        let mut word = self.0.get(index)? & (u64::MAX << (from % BITS));
        while word == 0 {
            index += 1;
            word = *self.0.get(index)?;
        }
        Some(slot(index, word.trailing_zeros()))
    }

    /// Calls `visit` for each slot, in their order.
    #[inline]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(Slot)) {
        for (index, &word) in self.0.iter().enumerate() {
            let mut left = word;
            while left != 0 {
                visit(slot(index, left.trailing_zeros()));
                left &= left - 1;
            }
        }
    }

    /// All slots, in their order.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> {
        self.0.iter().enumerate().flat_map(|(index, &word)| bits(word, index))
    }

    /// Asks `stays` of each slot, in their order, and removes those that do not.
    #[inline]
    pub(crate) fn retain(&mut self, mut stays: impl FnMut(Slot) -> bool) {
        for (index, word) in self.0.iter_mut().enumerate() {
            let mut left = *word;
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                if !stays(slot(index, bit)) {
                    *word &= !(1 << bit);
                }
            }
        }
    }
}

/// The slot of this bit of the word with this index.
#[inline]
fn slot(index: usize, bit: u32) -> Slot {
    Slot::from_index(index * BITS + bit as usize)
}

/// The slots of the bits of the word with this index.
#[inline]
fn bits(mut word: u64, index: usize) -> impl Iterator<Item = Slot> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(slot(index, bit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_holds_what_a_set_holds(
            steps in prop::collection::vec((0usize..9000, any::<bool>()), 0..200),
            from in 0usize..9100,
        ) {
            let (mut slots, mut model) = (SlotSet::default(), BTreeSet::new());
            prop_assert_eq!(slots.next(from), None);
            slots.grow(9000);
            for (slot, is_added) in steps.into_iter().map(|(it, is_added)| (Slot::from_index(it), is_added)) {
                if is_added {
                    slots.insert(slot);
                    model.insert(slot);
                } else {
                    slots.retain(|it| it != slot);
                    model.remove(&slot);
                }
            }
            prop_assert_eq!(slots.next(from), model.range(Slot::from_index(from)..).next().copied());
            prop_assert_eq!(slots.iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
            let mut seen = Vec::new();
            slots.retain(|slot| {
                seen.push(slot);
                slot.index() % 3 == from % 3
            });
            prop_assert_eq!(seen, model.iter().copied().collect::<Vec<_>>());
            model.retain(|slot| slot.index() % 3 == from % 3);
            prop_assert_eq!(slots.next(from), model.range(Slot::from_index(from)..).next().copied());
            prop_assert_eq!(slots.iter().collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn it_grows_and_keeps_what_it_has() {
        let mut slots = SlotSet::default();
        slots.grow(1);
        slots.insert(Slot::from_index(0));
        slots.grow(65);
        slots.insert(Slot::from_index(64));
        slots.grow(5);
        assert_eq!(slots.iter().collect::<Vec<_>>(), [0, 64].map(Slot::from_index));
    }
}
