//! The places of those who wait for keys.
//!
//! ```text
//!   line of key k:   first ▶ place 4 ⇄ place 0 ⇄ place 7 ◀ last          the place of each is the same as long as it waits
//!   deadlines:       (7 ms, place 0) (9 ms, place 4) (9 ms, place 7)      of all lines together
//! ```
//!
//! [`Places`] owns them, one for each who waits, and nothing of who has left. So whoever leaves costs the same wherever it stands in its
//! line, and however long that is. It is asked who is first in a line, and whose time is up. Which keys are locked it does not know.

use crate::{replication::mailbox::WriteByMail, wire::ids::SessionId};
use slab::Slab;
use std::collections::BTreeSet;
use weir_timing::Instant;

/// All that wait, in whichever line.
#[derive(Debug, Default)]
pub(super) struct Places {
    places: Slab<Waiting>,
    /// Until when those wait whose time is not known to be up.
    deadlines: BTreeSet<(Instant, Place)>,
}

/// Where somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(usize);

/// The first and the last place of a line, if anybody waits there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends(Option<(Place, Place)>);

/// Who waits for a key.
#[derive(Debug)]
pub(super) enum Waiter {
    /// The next request of the session with this number.
    Session(SessionId),
    /// A write that another loop has read.
    Mail(Box<WriteByMail>),
}

/// A place, and those beside it in its line.
#[derive(Debug)]
struct Waiting {
    waiter: Waiter,
    key: Box<[u8]>,
    until: Option<Instant>,
    before: Option<Place>,
    behind: Option<Place>,
}

/// This many free places are kept when nobody waits.
const FREE_KEPT: usize = 64;

impl Ends {
    /// Who is next.
    pub(super) fn first(self) -> Option<Place> {
        self.0.map(|(first, _)| first)
    }
}

impl Places {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The last place in the line of this key, which has these ends, until then.
    pub(super) fn take(
        &mut self,
        ends: &mut Ends,
        (waiter, key): (Waiter, Box<[u8]>),
        until: Option<Instant>,
    ) -> Place {
        let before = ends.0.map(|(_, last)| last);
        let place = Place(self.places.insert(Waiting { waiter, key, until, before, behind: None }));
        if let Some(it) = before.and_then(|before| self.places.get_mut(before.0)) {
            it.behind = Some(place);
        }
        *ends = Ends(Some((ends.first().unwrap_or(place), place)));
        self.deadlines.extend(until.map(|until| (until, place)));
        place
    }

    /// Who has this place.
    pub(super) fn waiter(&self, place: Place) -> Option<&Waiter> {
        self.places.get(place.0).map(|it| &it.waiter)
    }

    /// The key for which who has it waits.
    pub(super) fn key(&self, place: Place) -> Option<&[u8]> {
        self.places.get(place.0).map(|it| &*it.key)
    }

    /// Whoever had the place waits no more. `ends`: those of its line.
    pub(super) fn free(&mut self, ends: &mut Ends, place: Place) -> Option<Waiter> {
        let Waiting { waiter, until, before, behind, .. } = self.places.try_remove(place.0)?;
        if let Some(until) = until {
            self.deadlines.remove(&(until, place));
        }
        if let Some(it) = before.and_then(|before| self.places.get_mut(before.0)) {
            it.behind = behind;
        }
        if let Some(it) = behind.and_then(|behind| self.places.get_mut(behind.0)) {
            it.before = before;
        }
        if let Some((first, last)) = ends.0 {
            let first = if first == place { behind } else { Some(first) };
            let last = if last == place { before } else { Some(last) };
            *ends = Ends(first.zip(last));
        }
        if self.places.is_empty() && self.places.capacity() > FREE_KEPT {
            self.places = Slab::new();
        }
        Some(waiter)
    }

    /// When the time of the first of all is up.
    pub(super) fn due(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(until, _)| until)
    }

    /// One whose time is up, if there is one. Each is named once, and keeps its place.
    pub(super) fn next_overdue(&mut self, now: Instant) -> Option<Place> {
        let of = self.deadlines.first().copied().filter(|&(until, _)| until <= now)?;
        self.deadlines.remove(&of);
        Some(of.1)
    }

    /// How many places there are, free ones included: for tests.
    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.places.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Option<Instant> {
        Some(Instant::from_nanos(nanos))
    }

    /// The sessions that wait in a line, from either end.
    fn line(places: &Places, ends: Ends) -> Vec<usize> {
        let taken = |place: Place| &places.places[place.0];
        let number = |place: Place| match taken(place).waiter {
            Waiter::Session(id) => id.index(),
            Waiter::Mail(_) => panic!("there is no mail"),
        };
        let forth = std::iter::successors(ends.first(), |&place| taken(place).behind);
        let back = std::iter::successors(ends.0.map(|(_, last)| last), |&place| taken(place).before);
        let (forth, mut back): (Vec<_>, Vec<_>) = (forth.map(number).collect(), back.map(number).collect());
        back.reverse();
        assert_eq!(forth, back);
        forth
    }

    #[test]
    fn whoever_leaves_leaves_nothing_behind_and_the_others_keep_their_order() {
        let (mut places, mut ends) = (Places::default(), Ends::default());
        let take = |places: &mut Places, ends: &mut Ends, number: usize| {
            let waiter = Waiter::Session(SessionId::from_index(number));
            places.take(ends, (waiter, b"k"[..].into()), at(100 - number as u64))
        };
        let taken = [0, 1, 2, 3, 4].map(|number| take(&mut places, &mut ends, number));
        assert_eq!(places.due(), at(96));
        for (gone, left) in
            [(2, &[0, 1, 3, 4][..]), (4, &[0, 1, 3][..]), (0, &[1, 3][..]), (3, &[1][..]), (1, &[][..])]
        {
            assert!(places.free(&mut ends, taken[gone]).is_some());
            assert_eq!(line(&places, ends), left);
            assert_eq!(places.deadlines.len(), left.len());
        }
        assert!(places.is_empty() && ends.first().is_none() && places.due().is_none());
        // One who comes and leaves again and again takes one place.
        for number in 5..100 {
            let place = take(&mut places, &mut ends, number);
            places.free(&mut ends, place);
        }
        assert!(places.capacity() <= FREE_KEPT && places.deadlines.is_empty());
    }

    #[test]
    fn each_whose_time_is_up_is_named_once_in_the_order_of_their_times() {
        let (mut places, mut lines) = (Places::default(), [Ends::default(); 2]);
        for (number, until) in [(0, at(30)), (1, at(10)), (2, None), (3, at(20)), (4, at(40))] {
            let waiter = Waiter::Session(SessionId::from_index(number));
            places.take(&mut lines[number % 2], (waiter, b"k"[..].into()), until);
        }
        let overdue = std::iter::from_fn(|| places.next_overdue(Instant::from_nanos(30)));
        assert_eq!(overdue.map(|place| place.0).collect::<Vec<_>>(), [1, 3, 0]);
        assert_eq!(places.due(), at(40));
        assert_eq!(
            lines.map(|ends| line(&places, ends)),
            [vec![0, 2, 4], vec![1, 3]],
            "they keep their places"
        );
    }
}
