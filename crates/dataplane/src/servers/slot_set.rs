//! A set of slots, walked in their order at the cost of those that are in it.

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
    pub(crate) fn insert(&mut self, slot: usize) {
        self.0[slot / BITS] |= 1 << (slot % BITS);
    }

    /// The first slot from `from` on.
    #[inline]
    pub(crate) fn next(&self, from: usize) -> Option<usize> {
        let mut index = from / BITS;
        let mut word = self.0.get(index)? & (u64::MAX << (from % BITS));
        while word == 0 {
            index += 1;
            word = *self.0.get(index)?;
        }
        Some(index * BITS + word.trailing_zeros() as usize)
    }

    /// Calls `visit` for each slot, in their order.
    #[inline]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(usize)) {
        for (index, &word) in self.0.iter().enumerate() {
            let mut left = word;
            while left != 0 {
                visit(index * BITS + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }

    /// All slots, in their order.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(index, &word)| bits(word, index))
    }

    /// Asks `stays` of each slot, in their order, and removes those that do not.
    #[inline]
    pub(crate) fn retain(&mut self, mut stays: impl FnMut(usize) -> bool) {
        for (index, word) in self.0.iter_mut().enumerate() {
            let mut left = *word;
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left - 1;
                if !stays(index * BITS + bit as usize) {
                    *word &= !(1 << bit);
                }
            }
        }
    }
}

/// The numbers of the bits of the word with this index.
#[inline]
fn bits(mut word: u64, index: usize) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(index * BITS + bit)
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
            for (slot, is_added) in steps {
                if is_added {
                    slots.insert(slot);
                    model.insert(slot);
                } else {
                    slots.retain(|it| it != slot);
                    model.remove(&slot);
                }
            }
            prop_assert_eq!(slots.next(from), model.range(from..).next().copied());
            prop_assert_eq!(slots.iter().collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
            let mut seen = Vec::new();
            slots.retain(|slot| {
                seen.push(slot);
                slot % 3 == from % 3
            });
            prop_assert_eq!(seen, model.iter().copied().collect::<Vec<_>>());
            model.retain(|slot| slot % 3 == from % 3);
            prop_assert_eq!(slots.next(from), model.range(from..).next().copied());
            prop_assert_eq!(slots.iter().collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn it_grows_and_keeps_what_it_has() {
        let mut slots = SlotSet::default();
        slots.grow(1);
        slots.insert(0);
        slots.grow(65);
        slots.insert(64);
        slots.grow(5);
        assert_eq!(slots.iter().collect::<Vec<_>>(), [0, 64]);
    }
}
