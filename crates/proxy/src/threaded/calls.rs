//! Who of a queue's workers waits to be called, and who has been called and has not come yet.
//!
//! A call costs a system call and a switch of threads, so not every request is worth one: a worker that is on its way takes what is
//! there when it comes, and so does one that has finished another request in the meantime. Therefore no more are on their way at once
//! than half of the machine's cores, the other half of which carries those who ask and those who answer; and a worker that has taken a
//! request calls the next one, if others still wait, when it is about to wait itself.
//!
//! Where threads wait for processors (`crowding.rs`), one more at work makes nothing faster: it would be woken twice for each request,
//! once to take it and once for its reply, and those who are at work wait behind it. There nobody is called while they will take all
//! that waits within a moment, at the pace at which they come back.
//!
//! Nothing is left waiting by that: while requests wait and workers are idle, one at least is on its way or about to call, or the queue
//! was told to ask again in a moment, for those at work may wait for a server.

use std::thread;
use weir_timing::Instant;

#[derive(Debug)]
pub(super) struct Calls {
    /// Workers that wait to be called, the last to become idle at the end: its caches are the warmest.
    idle: Vec<usize>,
    /// What is known of each.
    whereabouts: Vec<Whereabouts>,
    /// How many are on their way.
    coming: usize,
    coming_max: usize,
    /// Time from one worker that came back to the next, of late.
    interval_ns: u64,
    /// When the last one came back.
    back: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// Serves, or has not been here yet.
    Busy,
    Idle,
    /// Was called, and has not come yet.
    Coming,
}

/// Whether anybody is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    This(usize),
    /// All are at work, or enough are on their way.
    Nobody,
    /// Those at work will be back sooner. Should they not be, the question is to be asked again after [`AGAIN_NS`].
    NobodyYet,
}

/// How long a request may be left to workers that do not come back.
pub(super) const AGAIN_NS: u64 = 1_000_000;

/// In how long those at work must take all that waits.
const PATIENCE_NS: u64 = 500_000;

/// The weight of the last one of a running mean, as a divisor.
const MEMORY: u64 = 8;

impl Calls {
    /// Of `workers` workers, none of whom is idle yet.
    pub(super) fn new(workers: usize) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self::with_coming_max(workers, (cores / 2).max(1))
    }

    fn with_coming_max(workers: usize, coming_max: usize) -> Self {
        Self {
            idle: Vec::with_capacity(workers),
            whereabouts: vec![Whereabouts::Busy; workers],
            coming: 0,
            coming_max,
            interval_ns: 0,
            back: Instant::ZERO,
        }
    }

    /// Whom to call now that so many requests wait, if anybody.
    pub(super) fn call(&mut self, waiting: usize, is_crowded: bool, now: Instant) -> Choice {
        if is_crowded && self.will_be_taken_soon(waiting, now) && !self.idle.is_empty() {
            Choice::NobodyYet
        } else {
            self.call_anyway(waiting)
        }
    }

    /// The same, whoever may be back soon.
    pub(super) fn call_anyway(&mut self, waiting: usize) -> Choice {
        if self.coming >= self.coming_max.min(waiting) {
            return Choice::Nobody;
        }
        let Some(worker) = self.idle.pop() else { return Choice::Nobody };
        self.whereabouts[worker] = Whereabouts::Coming;
        self.coming += 1;
        Choice::This(worker)
    }

    /// Whether all that wait will probably have been taken within a moment by workers that come back.
    fn will_be_taken_soon(&self, waiting: usize, now: Instant) -> bool {
        let at_work = self.whereabouts.len() - self.idle.len() - self.coming;
        // If nobody has come for longer than usual, that is the pace.
        let interval_ns = self.interval_ns.max(now.saturating_since(self.back));
        at_work > 0 && interval_ns.saturating_mul(waiting as u64) < PATIENCE_NS
    }

    /// This worker looks for something to take: it is on its way no more, or back from another request.
    pub(super) fn note_arrival(&mut self, worker: usize, now: Instant) {
        match self.whereabouts[worker] {
            Whereabouts::Coming => {
                self.whereabouts[worker] = Whereabouts::Busy;
                self.coming -= 1;
            }
            Whereabouts::Busy => {
                let interval_ns = now.saturating_since(self.back).min(PATIENCE_NS);
                self.interval_ns = self.interval_ns - self.interval_ns / MEMORY + interval_ns / MEMORY;
                self.back = now;
            }
            Whereabouts::Idle => {}
        }
    }

    /// It has taken something.
    pub(super) fn note_busy(&mut self, worker: usize) {
        if self.whereabouts[worker] == Whereabouts::Idle {
            // It came for something else, a report perhaps.
            self.idle.retain(|&idle| idle != worker);
        }
        self.whereabouts[worker] = Whereabouts::Busy;
    }

    /// It has found nothing, and waits to be called.
    pub(super) fn note_idle(&mut self, worker: usize) {
        if self.whereabouts[worker] != Whereabouts::Idle {
            self.whereabouts[worker] = Whereabouts::Idle;
            self.idle.push(worker);
        }
    }

    /// How many wait to be called.
    pub(super) fn idle_len(&self) -> usize {
        self.idle.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn idle(workers: usize, coming_max: usize) -> Calls {
        let mut calls = Calls::with_coming_max(workers, coming_max);
        (0..workers).for_each(|worker| calls.note_idle(worker));
        calls
    }

    /// Worker 0 comes back every `interval_ns` and takes the next request; the others are idle.
    fn paced(workers: usize, interval_ns: u64) -> (Calls, Instant) {
        let mut calls = idle(workers, 2);
        calls.note_busy(0);
        let mut now = at(1_000_000_000);
        for _ in 0..100 {
            now = now.plus(interval_ns);
            calls.note_arrival(0, now);
            calls.note_busy(0);
        }
        (calls, now)
    }

    #[test]
    fn the_last_to_become_idle_is_called_first() {
        let mut calls = idle(3, 3);
        assert_eq!(calls.call_anyway(9), Choice::This(2));
        assert_eq!(calls.call_anyway(9), Choice::This(1));
    }

    #[test]
    fn no_more_are_called_than_requests_wait_or_than_the_machine_can_run() {
        let mut calls = idle(8, 2);
        assert_eq!(calls.call_anyway(0), Choice::Nobody);
        assert_eq!(calls.call_anyway(1), Choice::This(7));
        assert_eq!(calls.call_anyway(1), Choice::Nobody, "one is on its way for it");
        assert_eq!(calls.call_anyway(2), Choice::This(6));
        assert_eq!(calls.call_anyway(8), Choice::Nobody);
        calls.note_arrival(7, at(0));
        assert_eq!(calls.call_anyway(7), Choice::This(5));
    }

    #[test]
    fn a_worker_that_comes_uncalled_and_takes_something_is_not_called_for_it() {
        let mut calls = idle(2, 2);
        calls.note_arrival(1, at(0));
        calls.note_busy(1);
        assert_eq!(calls.call_anyway(2), Choice::This(0));
        assert_eq!(calls.call_anyway(2), Choice::Nobody);
    }

    #[test]
    fn nobody_is_called_on_a_crowded_machine_while_those_at_work_will_take_all_in_a_moment() {
        let (mut calls, now) = paced(4, 20_000);
        assert_eq!(calls.call(20, true, now), Choice::NobodyYet, "in 400 us");
        assert_eq!(calls.call(30, true, now), Choice::This(3), "in 600");
        assert_eq!(calls.call(20, false, now), Choice::This(2), "there are processors for another");
    }

    #[test]
    fn one_is_called_if_those_at_work_do_not_come_back() {
        let (mut calls, now) = paced(4, 20_000);
        assert_eq!(calls.call(1, true, now.plus(PATIENCE_NS - 1)), Choice::NobodyYet);
        assert_eq!(calls.call(1, true, now.plus(PATIENCE_NS)), Choice::This(3));
    }

    #[test]
    fn one_is_called_at_once_where_nobody_is_at_work() {
        let (mut calls, now) = paced(4, 20_000);
        calls.note_idle(0);
        assert_eq!(calls.call(1, true, now), Choice::This(0));
    }

    /// What can happen to a queue, with the worker that it happens to.
    #[derive(Clone, Debug)]
    enum Step {
        Push,
        /// A worker that has taken something is about to wait for its servers.
        Wait(usize),
        /// A worker wakes up: because it was called, or for something else.
        Wake(usize),
        /// A worker has served what it took, and looks for more.
        Finish(usize),
        /// The moment is over after which the queue asks again.
        Again,
    }

    fn steps(workers: usize) -> impl Strategy<Value = Vec<(Step, u64)>> {
        let step = prop_oneof![
            2 => Just(Step::Push),
            2 => (0..workers).prop_map(Step::Wait),
            1 => (0..workers).prop_map(Step::Wake),
            1 => (0..workers).prop_map(Step::Finish),
            1 => Just(Step::Again),
        ];
        prop::collection::vec((step, 0_u64..100_000), 1..200)
    }

    proptest! {
        /// The rule that nothing is left waiting, as the queue follows it.
        #[test]
        fn while_requests_wait_somebody_is_on_the_way_or_will_call(coming_max in 1_usize..4, steps in steps(5), is_crowded: bool) {
            let mut calls = idle(5, coming_max);
            let (mut waiting, mut serving, mut about_to_call) = (0_usize, [false; 5], [false; 5]);
            let (mut now, mut asks_again) = (at(1_000_000_000), false);
            for (step, pause) in steps {
                now = now.plus(pause);
                match step {
                    Step::Push => {
                        waiting += 1;
                        asks_again |= calls.call(waiting, is_crowded, now) == Choice::NobodyYet;
                    }
                    Step::Wait(worker) => {
                        if about_to_call[worker] {
                            if asks_again { calls.call(waiting, is_crowded, now) } else { calls.call_anyway(waiting) };
                        }
                        about_to_call[worker] = false;
                    }
                    Step::Again => {
                        calls.call_anyway(waiting);
                        asks_again = waiting > 0 && calls.idle_len() > 0;
                    }
                    Step::Wake(worker) if serving[worker] => {}
                    Step::Finish(worker) if about_to_call[worker] => {}
                    Step::Wake(worker) | Step::Finish(worker) => {
                        calls.note_arrival(worker, now);
                        serving[worker] = waiting > 0;
                        if serving[worker] {
                            waiting -= 1;
                            calls.note_busy(worker);
                            about_to_call[worker] = true;
                        } else {
                            calls.note_idle(worker);
                        }
                    }
                }
                let will_call = asks_again || about_to_call.contains(&true);
                prop_assert!(waiting == 0 || calls.coming > 0 || will_call || serving.iter().all(|&serves| serves));
                let coming = calls.whereabouts.iter().filter(|it| **it == Whereabouts::Coming).count();
                prop_assert_eq!(calls.coming, coming);
                prop_assert!(calls.coming <= coming_max);
            }
        }
    }
}
