/// Places in a circle, each owned by a server.
///
/// A key's servers are the first distinct owners from its place on. Where one server owns thousands of places and another a
/// single one, the way from the first to the second is long. So the circle is cut into blocks, and the start of each knows the
/// owners from there on: a look-up walks to the end of its block, and no farther.
#[derive(Clone, Debug)]
pub(crate) struct Circle {
    owners: Vec<u16>,
    /// The first distinct owners from the start of each block on, [`Self::kept`] for each.
    heads: Vec<u16>,
    /// As many as a key has servers, or all owners if they are fewer; 0 where a key has one server.
    kept: usize,
}

impl Circle {
    /// Places of a block: two cache lines of owners.
    const BLOCK: usize = 64;

    /// Places owned by `owners`, of which there is at least one; for keys of one server each.
    pub(crate) fn new(owners: Vec<u16>) -> Self {
        Self { owners, heads: Vec::new(), kept: 0 }
    }

    /// The same, for keys that have up to `replicas` servers each.
    pub(crate) fn for_replicas(self, replicas: usize) -> Self {
        let owners = self.owners;
        if replicas < 2 {
            return Self::new(owners);
        }
        // The owners that follow the last place are those from the first one on.
        let mut following = Vec::with_capacity(replicas + 1);
        for owner in &owners {
            if following.len() == replicas {
                break;
            }
            if !following.contains(owner) {
                following.push(*owner);
            }
        }
        let kept = following.len();
        let blocks = owners.len().div_ceil(Self::BLOCK);
        let mut heads = vec![0; blocks * kept];
        // From the last place to the first, the owner of each moves to the front: so the list has the owners from there on, in
        // their order.
        for (place, owner) in owners.iter().enumerate().rev() {
            move_to_front(&mut following, *owner, replicas);
            if place.is_multiple_of(Self::BLOCK) {
                heads[place / Self::BLOCK * kept..][..kept].copy_from_slice(&following);
            }
        }
        Self { owners, heads, kept }
    }

    /// How many places there are.
    pub(crate) const fn len(&self) -> usize {
        self.owners.len()
    }

    /// The server that owns `place`.
    pub(crate) fn owner(&self, place: usize) -> usize {
        usize::from(self.owners[place])
    }

    /// Whether `server` owns a place.
    pub(crate) fn has(&self, server: u16) -> bool {
        self.owners.contains(&server)
    }

    /// The owners from `place` on, some of them more than once: the first distinct ones are a key's servers, and there are as
    /// many as [`Self::for_replicas`] was given, or all.
    #[inline]
    pub(crate) fn owners_from(&self, place: usize) -> impl Iterator<Item = u16> {
        let block = place / Self::BLOCK;
        let end = self.owners.len().min((block + 1) * Self::BLOCK);
        let next = if end == self.owners.len() { 0 } else { block + 1 };
        self.owners[place..end].iter().chain(&self.heads[next * self.kept..][..self.kept]).copied()
    }
}

/// Keeps the `most` owners that were named last, the last one first.
fn move_to_front(following: &mut Vec<u16>, owner: u16, most: usize) {
    if let Some(place) = following.iter().position(|other| *other == owner) {
        following[..=place].rotate_right(1);
    } else {
        following.insert(0, owner);
        following.truncate(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The first distinct of `owners`, at most `most`.
    fn distinct(owners: impl Iterator<Item = u16>, most: usize) -> Vec<u16> {
        let mut found = Vec::new();
        for owner in owners {
            if !found.contains(&owner) {
                found.push(owner);
            }
        }
        found.truncate(most);
        found
    }

    #[test]
    fn one_heavy_server_makes_no_look_up_long() {
        let circle = Circle::new([vec![0; 65_535], vec![1]].concat()).for_replicas(2);
        for place in 0..circle.len() {
            assert!(circle.owners_from(place).count() <= Circle::BLOCK + 2);
        }
        assert_eq!(distinct(circle.owners_from(1), 2), [0, 1]);
        assert_eq!(distinct(circle.owners_from(65_535), 2), [1, 0]);
    }

    proptest! {
        #[test]
        fn blocks_change_no_answer(
            runs in prop::collection::vec((0u16..9, 1usize..150), 1..12),
            replicas in 1usize..6,
        ) {
            let owners: Vec<u16> = runs.iter().flat_map(|(owner, places)| vec![*owner; *places]).collect();
            let circle = Circle::new(owners.clone()).for_replicas(replicas);
            for place in 0..owners.len() {
                let around = owners[place..].iter().chain(&owners[..place]).copied();
                prop_assert_eq!(distinct(circle.owners_from(place), replicas), distinct(around, replicas));
            }
        }
    }
}
