//! The copies that one write goes to, by their rank.
//!
//! [`Copies`] owns which servers have one, and how far the write is with each. A rank is a copy's place in its key's order of servers: of
//! two servers that answer, the lower rank's is reported first.

use crate::wire::ids::Slot;
use std::ops::{Index, IndexMut};

/// One for each replica, the first in the key's order first.
#[derive(Debug)]
pub(super) struct Copies(Vec<Copy>);

/// The place of a copy among those of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(super) struct Rank(usize);

#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    server: Slot,
    pub(super) state: CopyState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyState {
    /// Nothing was sent there.
    Unsent,
    /// It was sent the write.
    Asked,
    /// It was sent a delete.
    Forgetting,
    /// It did what was asked, or holds nothing.
    Done,
    /// It answered with an error.
    Refused,
    /// So it did, and it has forgotten the key since.
    Cleared,
    /// The key is in its journal.
    Missed,
}

impl Copies {
    /// No copy was sent the write.
    pub(super) fn unsent(replicas: &[Slot]) -> Self {
        Self(replicas.iter().map(|&server| Copy { server, state: CopyState::Unsent }).collect())
    }

    /// In the order of the key's servers.
    pub(super) fn ranks(&self) -> impl Iterator<Item = Rank> + use<> {
        (0..self.0.len()).map(Rank)
    }

    /// That of a server that has one.
    pub(super) fn rank_of(&self, server: Slot) -> Rank {
        Rank(self.0.iter().position(|copy| copy.server == server).expect("it was asked, so it is a replica"))
    }

    /// How many are like this.
    pub(super) fn count(&self, state: CopyState) -> usize {
        self.0.iter().filter(|copy| copy.state == state).count()
    }

    /// The server of the first that is like this.
    pub(super) fn first(&self, state: CopyState) -> Option<Slot> {
        self.0.iter().find(|copy| copy.state == state).map(|copy| copy.server)
    }
}

impl Copy {
    pub(super) const fn server(&self) -> Slot {
        self.server
    }
}

impl Index<Rank> for Copies {
    type Output = Copy;

    #[inline]
    fn index(&self, rank: Rank) -> &Copy {
        &self.0[rank.0]
    }
}

impl IndexMut<Rank> for Copies {
    #[inline]
    fn index_mut(&mut self, rank: Rank) -> &mut Copy {
        &mut self.0[rank.0]
    }
}
