//! Who of a queue's workers waits to be called, and who has been called and has not come yet.
//!
//! A call costs a system call and a switch of threads, so not every request is worth one: a worker that is on its way takes what is
//! there when it comes, and so does one that has finished another request in the meantime. Therefore no more are on their way at once
//! than half of the machine's cores, the other half of which carries those who ask and those who answer; and a worker that has taken a
//! request calls the next one, if others still wait, when it is about to wait itself.
//!
//! Nothing is left waiting by that: while requests wait and workers are idle, one at least is on its way or about to call.

use std::thread;

#[derive(Debug)]
pub(super) struct Calls {
    /// Workers that wait to be called, the last to become idle at the end: its caches are the warmest.
    idle: Vec<usize>,
    /// What is known of each.
    whereabouts: Vec<Whereabouts>,
    /// How many are on their way.
    coming: usize,
    coming_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// Serves, or has not been here yet.
    Busy,
    Idle,
    /// Was called, and has not come yet.
    Coming,
}

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
        }
    }

    /// Whom to call now that so many requests wait, if anybody.
    pub(super) fn call(&mut self, waiting: usize) -> Option<usize> {
        if self.coming >= self.coming_max.min(waiting) {
            return None;
        }
        let worker = self.idle.pop()?;
        self.whereabouts[worker] = Whereabouts::Coming;
        self.coming += 1;
        Some(worker)
    }

    /// This worker looks for something to take: it is on its way no more.
    pub(super) fn note_arrival(&mut self, worker: usize) {
        if self.whereabouts[worker] == Whereabouts::Coming {
            self.whereabouts[worker] = Whereabouts::Busy;
            self.coming -= 1;
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

    fn idle(workers: usize, coming_max: usize) -> Calls {
        let mut calls = Calls::with_coming_max(workers, coming_max);
        (0..workers).for_each(|worker| calls.note_idle(worker));
        calls
    }

    #[test]
    fn the_last_to_become_idle_is_called_first() {
        let mut calls = idle(3, 3);
        assert_eq!(calls.call(9), Some(2));
        assert_eq!(calls.call(9), Some(1));
    }

    #[test]
    fn no_more_are_called_than_requests_wait_or_than_the_machine_can_run() {
        let mut calls = idle(8, 2);
        assert_eq!(calls.call(0), None);
        assert_eq!(calls.call(1), Some(7));
        assert_eq!(calls.call(1), None, "one is on its way for it");
        assert_eq!(calls.call(2), Some(6));
        assert_eq!(calls.call(8), None);
        calls.note_arrival(7);
        assert_eq!(calls.call(7), Some(5));
    }

    #[test]
    fn a_worker_that_comes_uncalled_and_takes_something_is_not_called_for_it() {
        let mut calls = idle(2, 2);
        calls.note_arrival(1);
        calls.note_busy(1);
        assert_eq!(calls.call(2), Some(0));
        assert_eq!(calls.call(2), None);
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
    }

    fn steps(workers: usize) -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            2 => Just(Step::Push),
            2 => (0..workers).prop_map(Step::Wait),
            1 => (0..workers).prop_map(Step::Wake),
            1 => (0..workers).prop_map(Step::Finish),
        ];
        prop::collection::vec(step, 1..200)
    }

    proptest! {
        /// The rule that nothing is left waiting, as the queue follows it.
        #[test]
        fn while_requests_wait_somebody_is_on_the_way_or_about_to_call(coming_max in 1_usize..4, steps in steps(5)) {
            let mut calls = idle(5, coming_max);
            let (mut waiting, mut serving, mut about_to_call) = (0_usize, [false; 5], [false; 5]);
            for step in steps {
                match step {
                    Step::Push => {
                        waiting += 1;
                        calls.call(waiting);
                    }
                    Step::Wait(worker) => {
                        if about_to_call[worker] {
                            calls.call(waiting);
                        }
                        about_to_call[worker] = false;
                    }
                    Step::Wake(worker) if serving[worker] => {}
                    Step::Finish(worker) if about_to_call[worker] => {}
                    Step::Wake(worker) | Step::Finish(worker) => {
                        calls.note_arrival(worker);
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
                let is_about_to_call = about_to_call.contains(&true);
                prop_assert!(waiting == 0 || calls.coming > 0 || is_about_to_call || serving.iter().all(|&serves| serves));
                prop_assert_eq!(calls.coming, calls.whereabouts.iter().filter(|it| **it == Whereabouts::Coming).count());
                prop_assert!(calls.coming <= coming_max);
            }
        }
    }
}
