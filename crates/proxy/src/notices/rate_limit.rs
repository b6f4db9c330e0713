//! How many notices of one kind are shown.
//!
//! Of each kind the first few of a while are shown as they come. Those that come then are held back: only the last of them is kept, and is
//! shown when the while is over, with the number of the others. A kind that goes on like that shows nothing else, until a while has passed
//! in which nothing came. So a log does not grow with a server that flaps, and its last line about a server is always what is
//! true now, at most a while late.
//!
//! [`RateLimit`] owns what is held back. It is offered things, and says which are to be shown now; it says when it has more.

use std::{collections::HashMap, hash::Hash, mem};
use weir_timing::Instant;

/// How long a while is: as late as the last line may be, and as often as a flapping server has one.
const WHILE_NS: u64 = 30_000_000_000;

#[derive(Debug)]
pub(crate) struct RateLimit<K, T> {
    /// What was shown of late, and what is held back; a kind of which there is neither is not here.
    kinds: HashMap<K, Kind<T>>,
}

#[derive(Debug)]
struct Kind<T> {
    /// When the while is over.
    until: Instant,
    shown: u32,
    /// The last that was held back, and how many were before it.
    held: Option<(T, u64)>,
}

impl<K, T> Default for RateLimit<K, T> {
    fn default() -> Self {
        Self { kinds: HashMap::new() }
    }
}

impl<K: Hash + Eq + Clone, T> RateLimit<K, T> {
    /// Returns the thing if it is to be shown now, and how many before it were not.
    pub(crate) fn offer(&mut self, kind: K, shown_max: u32, thing: T, now: Instant) -> Option<(T, u64)> {
        let fresh = || Kind { until: now.plus(WHILE_NS), shown: 0, held: None };
        let kind = self.kinds.entry(kind).or_insert_with(fresh);
        if kind.until <= now
            && let Some((_, before)) = mem::replace(kind, fresh()).held
        {
            kind.shown = shown_max;
            return Some((thing, before + 1));
        }
        if kind.shown < shown_max {
            kind.shown += 1;
            return Some((thing, 0));
        }
        let before = kind.held.take().map_or(0, |(_, before)| before + 1);
        kind.held = Some((thing, before));
        None
    }

    /// When [`RateLimit::poll`] is to be called.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.kinds.values().map(|kind| kind.until).min()
    }

    /// What was held back long enough, and how many more of its kind there were.
    pub(crate) fn poll(&mut self, now: Instant) -> Vec<(T, u64)> {
        let mut shown = Vec::new();
        self.kinds.retain(|_, kind| {
            if kind.until > now {
                return true;
            }
            let held = kind.held.take();
            let is_kept = held.is_some();
            shown.extend(held);
            (kind.until, kind.shown) = (now.plus(WHILE_NS), u32::MAX);
            is_kept
        });
        shown
    }

    /// All that is held back.
    pub(crate) fn drain(&mut self) -> Vec<(T, u64)> {
        self.kinds.drain().filter_map(|(_, kind)| kind.held).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn the_first_are_shown_and_the_last_of_the_rest_with_their_number() {
        let mut limit = RateLimit::default();
        let shown: Vec<_> = (0..7).filter_map(|number| limit.offer("a", 3, number, at(number))).collect();
        assert_eq!(shown, [(0, 0), (1, 0), (2, 0)]);
        assert_eq!(limit.due(), Some(at(30)));
        assert_eq!(limit.poll(at(29)), []);
        assert_eq!(limit.poll(at(30)), [(6, 3)], "3, 4 and 5 are the others");
        assert_eq!(limit.offer("a", 3, 7, at(31)), None, "it goes on");
        assert_eq!(limit.poll(at(60)), [(7, 0)]);
        assert_eq!(limit.poll(at(90)), []);
        assert_eq!(limit.due(), None, "nothing is kept");
        assert_eq!(limit.offer("a", 3, 8, at(91)), Some((8, 0)));
    }

    #[test]
    fn who_comes_after_the_while_takes_the_number_along() {
        let mut limit = RateLimit::default();
        assert_eq!(limit.offer("a", 1, 0, at(0)), Some((0, 0)));
        assert_eq!(limit.offer("a", 1, 1, at(1)), None);
        assert_eq!(limit.offer("a", 1, 2, at(2)), None);
        assert_eq!(limit.offer("a", 1, 3, at(32)), Some((3, 2)));
        assert_eq!(limit.offer("a", 1, 4, at(33)), None);
    }

    #[test]
    fn kinds_do_not_know_of_each_other_and_nothing_is_lost_at_the_end() {
        let mut limit = RateLimit::default();
        assert!(limit.offer("a", 1, 0, at(0)).is_some());
        assert!(limit.offer("b", 1, 1, at(0)).is_some());
        assert!(limit.offer("b", 1, 2, at(0)).is_none());
        assert_eq!(limit.drain(), [(2, 0)]);
        assert_eq!(limit.drain(), []);
    }
}
