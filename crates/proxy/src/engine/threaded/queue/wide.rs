//! What a client's reads bring, and how many reads that bring much are in service at once.
//!
//! A worker that serves such a read is busy with it for long, and so are its server and the network. If all workers were, everybody
//! else's requests would wait behind them. So only some of a queue's workers serve them at once, and the others of them wait aside:
//!
//! ```text
//!   fifo ─▶ brings little ─────────────────────────────▶ any worker
//!       └─▶ brings much ─┬─ fewer than the limit are ──▶ any worker
//!                        └─ aside, in their order ─────▶ a worker that has served one
//! ```
//!
//! [`Habits`] learns what a client's reads brought, and answers whether the next one brings much. [`Aside`] learns which reads are in
//! service, and answers which of those that wait may go on.

use std::collections::VecDeque;

/// What the reads of one client bring: bytes per key, or nothing yet. More counts at once, less by halves.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine::threaded) struct Habits {
    bytes_per_key: Option<usize>,
}

/// A read that is expected to bring this many bytes brings much. A worker has copied as much in a tenth of a millisecond.
const MUCH_BYTES: usize = 256 << 10;

/// So does the read of a client of which nothing is known, if it has this many keys.
const MANY_KEYS: usize = 8;

impl Habits {
    /// Whether a read of this many keys is expected to bring much.
    pub(in crate::engine::threaded) fn expect_much(self, keys: usize) -> bool {
        match self.bytes_per_key {
            Some(bytes_per_key) => keys.saturating_mul(bytes_per_key) >= MUCH_BYTES,
            None => keys >= MANY_KEYS,
        }
    }

    /// A read of this many keys brought this many bytes.
    pub(in crate::engine::threaded) fn note(&mut self, keys: usize, bytes: usize) {
        if let Some(brought) = bytes.checked_div(keys) {
            let before = self.bytes_per_key.unwrap_or(0);
            self.bytes_per_key = Some(brought.max(before / 2));
        }
    }
}

/// Reads of one queue that bring much and wait for others of their kind.
#[derive(Debug)]
pub(in crate::engine::threaded) struct Aside<T> {
    waiting: VecDeque<T>,
    in_service: usize,
    in_service_max: usize,
}

impl<T> Aside<T> {
    /// For a queue from which this many workers take. One alone has nobody to leave to others.
    pub(in crate::engine::threaded) fn new(workers: usize) -> Self {
        let in_service_max = if workers > 1 { (workers / SHARE).max(1) } else { usize::MAX };
        Self { waiting: VecDeque::new(), in_service: 0, in_service_max }
    }

    fn has_room(&self) -> bool {
        self.in_service < self.in_service_max
    }

    /// Gives back what may be served at once, and keeps the rest.
    pub(in crate::engine::threaded) fn admit(&mut self, read: T) -> Option<T> {
        if self.has_room() {
            self.in_service += 1;
            return Some(read);
        }
        self.waiting.push_back(read);
        None
    }

    /// The first that waits and may go on.
    pub(in crate::engine::threaded) fn next(&mut self) -> Option<T> {
        let read = if self.has_room() { self.waiting.pop_front() } else { None };
        self.in_service += usize::from(read.is_some());
        read
    }

    /// One is served.
    pub(in crate::engine::threaded) fn leave(&mut self) {
        self.in_service -= 1;
    }

    /// How many may go on.
    pub(in crate::engine::threaded) fn ready(&self) -> usize {
        self.waiting.len().min(self.in_service_max.saturating_sub(self.in_service))
    }

    /// The first that waits.
    pub(in crate::engine::threaded) fn front(&self) -> Option<&T> {
        self.waiting.front()
    }

    /// Takes the first that waits out, whatever is in service.
    pub(in crate::engine::threaded) fn take_front(&mut self) -> Option<T> {
        self.waiting.pop_front()
    }
}

/// A share of 1 / this of the workers serves reads that bring much.
const SHARE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_read_brought_says_what_the_next_one_will() {
        let mut habits = Habits::default();
        assert!(!habits.expect_much(7) && habits.expect_much(8));
        habits.note(100, 10_000);
        assert!(!habits.expect_much(2000) && habits.expect_much(3000));
        habits.note(1, 1 << 20);
        assert!(habits.expect_much(1));
        // Misses.
        habits.note(1, 5);
        assert!(habits.expect_much(1));
        (0..3).for_each(|_| habits.note(1, 5));
        assert!(!habits.expect_much(1));
        habits.note(0, 5);
        assert!(!habits.expect_much(1), "a request without keys says nothing");
    }

    #[test]
    fn a_worker_alone_serves_all() {
        let mut aside = Aside::new(1);
        assert!((0..9).all(|read| aside.admit(read).is_some()));
        assert_eq!((aside.ready(), aside.front()), (0, None));
    }

    proptest! {
        /// Every read is served once, in the order in which they came, and never more at once than may be.
        #[test]
        fn no_more_are_served_at_once_and_all_in_their_order(workers in 2_usize..20, steps in prop::collection::vec(0..3, 1..200)) {
            let most = (workers / SHARE).max(1);
            let mut aside = Aside::new(workers);
            let (mut came, mut served, mut expired, mut in_service) = (0, Vec::new(), Vec::new(), 0);
            for step in steps {
                let begun = match step {
                    0 => {
                        came += 1;
                        aside.admit(came)
                    }
                    1 if in_service > 0 => {
                        aside.leave();
                        in_service -= 1;
                        aside.next()
                    }
                    2 => {
                        expired.extend(aside.take_front());
                        None
                    }
                    _ => aside.next(),
                };
                in_service += usize::from(begun.is_some());
                served.extend(begun);
                prop_assert!(in_service <= most);
                prop_assert!(in_service == most || aside.front().is_none(), "one waits though there is room");
            }
            prop_assert!(served.is_sorted());
            while let Some(read) = aside.take_front() {
                expired.push(read);
            }
            let mut all: Vec<_> = served.into_iter().chain(expired).collect();
            all.sort_unstable();
            prop_assert_eq!(all, (1..=came).collect::<Vec<_>>());
        }
    }
}
