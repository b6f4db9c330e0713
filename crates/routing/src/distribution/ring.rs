use super::circle::Circle;

/// A place on the circle, and the server that owns it.
pub(crate) type Point = (u32, u16);

/// A circle of 2^32 on which every server owns points: a hash belongs to the first point at or after it, around the end
/// if there is none.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    /// Ascending. Separate from their owners, so that a search touches as few cache lines as it can.
    points: Vec<u32>,
    /// The server of each point.
    owners: Circle,
}

impl Ring {
    /// The ring of `points`, of which there is at least one. Points that fall together belong to the earlier in the
    /// list: sorting keeps their order, as the C libraries do in practice where they do not say so.
    pub(crate) fn new(mut points: Vec<Point>) -> Self {
        points.sort_by_key(|(point, _)| *point);
        let (points, owners) = points.into_iter().unzip();
        Self { points, owners: Circle::new(owners) }
    }

    /// The same, for keys that have up to `replicas` servers each.
    pub(crate) fn for_replicas(self, replicas: usize) -> Self {
        Self { owners: self.owners.for_replicas(replicas), ..self }
    }

    /// How many points there are.
    pub(crate) const fn len(&self) -> usize {
        self.points.len()
    }

    /// The server that owns `hash`.
    pub(crate) fn owner(&self, hash: u32) -> usize {
        self.owners.owner(self.place(hash))
    }

    /// The owners of the hash's point and of the points after it, as [`Circle::owners_from`] has them.
    pub(crate) fn owners_from(&self, hash: u32) -> impl Iterator<Item = u16> {
        self.owners.owners_from(self.place(hash))
    }

    /// Whether `server` owns a point.
    pub(crate) fn has(&self, server: u16) -> bool {
        self.owners.has(server)
    }

    fn place(&self, hash: u32) -> usize {
        let place = self.points.partition_point(|point| *point < hash);
        if place == self.points.len() { 0 } else { place }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_belongs_to_the_first_point_at_or_after_it() {
        let ring = Ring::new(vec![(30, 2), (10, 0), (20, 1)]).for_replicas(3);
        let owners: Vec<usize> = [0, 10, 11, 20, 21, 30, 31, u32::MAX].map(|hash| ring.owner(hash)).into();
        assert_eq!(owners, [0, 0, 1, 1, 2, 2, 0, 0]);
        assert_eq!(ring.owners_from(25).collect::<Vec<_>>(), [2, 0, 1, 2]);
        assert_eq!(ring.owners_from(31).take(3).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn points_that_fall_together_keep_their_order() {
        let ring = Ring::new(vec![(7, 3), (5, 1), (7, 0)]);
        assert_eq!(ring.owner(6), 3);
        assert_eq!([0, 1, 2, 3].map(|server| ring.has(server)), [true, true, false, true]);
    }
}
