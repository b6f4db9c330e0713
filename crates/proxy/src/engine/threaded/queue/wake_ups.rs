//! Who of a queue's workers waits to be called, and who has been called and has not come yet.
//!
//! A call costs a system call and a switch of threads, so not every request is worth one. A worker that is on its way takes what is there
//! when it comes, and so does one that has finished another request in the meantime. Therefore no more are on their way at once than half
//! of the machine's cores. The other half carries those who ask and those who answer. A worker that has taken a request calls the next one
//! when it is about to wait itself, if others still wait.
//!
//! Where threads wait for processors, no more are at work than bring something (`concurrency.rs`). Nobody is called while that number is at
//! work, as long as they come back. A worker that comes back when more are at work rests, although requests wait.
//!
//! Nothing is left waiting by that. While requests wait and workers are idle, at least one is on its way or about to call. If none is, the
//! queue asks again in a moment whom to call, for those at work may wait for a server.

use crate::{config::settings::CrewPolicy, engine::threaded::queue::concurrency::Concurrency};
use std::{mem, thread};
use weir_dataplane::CrewSize;
use weir_timing::Instant;

#[derive(Debug)]
pub(super) struct WakeUps {
    /// Workers that wait to be called, the last to become idle at the end: its caches are the warmest.
    idle: Vec<usize>,
    /// What is known of each.
    workers: Vec<WorkerState>,
    /// How many are on their way.
    coming: usize,
    coming_max: usize,
    crew: CrewPolicy,
    concurrency: Concurrency,
    /// What became of the size of the crew, and when it was looked at.
    size: CrewSize,
    looked: Instant,
    /// How many came back since the crew was looked at.
    returns: u64,
    /// When the last one came back.
    back: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerState {
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
    /// Enough are at work. Should they not be, the question is to be asked again after [`AGAIN_NS`].
    NobodyYet,
}

/// How long a request may be left to workers that do not come back.
pub(super) const AGAIN_NS: u64 = 1_000_000;

/// If nobody has come back for so long, those at work wait for servers, and it takes others.
const RETURN_MAX_NS: u64 = 500_000;

impl WakeUps {
    /// Of `workers` workers, none of whom is idle yet.
    pub(super) fn new(workers: usize, crew: CrewPolicy) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self::with_coming_max(workers, (cores / 2).max(1), crew)
    }

    fn with_coming_max(workers: usize, coming_max: usize, crew: CrewPolicy) -> Self {
        Self {
            idle: Vec::with_capacity(workers),
            workers: vec![WorkerState::Busy; workers],
            coming: 0,
            coming_max,
            crew,
            concurrency: Concurrency::of(workers),
            size: CrewSize { now: workers as u64, least: workers as u64, time_integral_ns: 0 },
            looked: Instant::ZERO,
            returns: 0,
            back: Instant::ZERO,
        }
    }

    /// Whom to call now that this many requests wait, if anybody.
    pub(super) fn call(&mut self, waiting: usize, now: Instant) -> Choice {
        let are_enough = self.at_work() + self.coming >= self.concurrency.limit();
        if are_enough && !self.idle.is_empty() && now.saturating_since(self.back) < RETURN_MAX_NS {
            Choice::NobodyYet
        } else {
            self.call_anyway(waiting)
        }
    }

    /// The same, however many are at work.
    pub(super) fn call_anyway(&mut self, waiting: usize) -> Choice {
        if self.coming >= self.coming_max.min(waiting) {
            return Choice::Nobody;
        }
        let Some(worker) = self.idle.pop() else { return Choice::Nobody };
        self.workers[worker] = WorkerState::Coming;
        self.coming += 1;
        Choice::This(worker)
    }

    fn at_work(&self) -> usize {
        self.workers.len() - self.idle.len() - self.coming
    }

    /// To be called every few milliseconds: whether threads wait for processors.
    pub(super) fn look(&mut self, is_contended: bool, now: Instant) {
        let is_contended = is_contended && self.crew == CrewPolicy::Adaptive;
        self.concurrency.look(mem::take(&mut self.returns), is_contended, now);
        let elapsed_ns = now.saturating_since(mem::replace(&mut self.looked, now));
        let size = &mut self.size;
        size.time_integral_ns = size.time_integral_ns.saturating_add(size.now.saturating_mul(elapsed_ns));
        size.now = self.concurrency.limit() as u64;
        size.least = size.least.min(size.now);
    }

    /// How many may serve at once, as it was at the last look.
    pub(super) fn crew(&self, now: Instant) -> CrewSize {
        let since_ns = self.size.now.saturating_mul(now.saturating_since(self.looked));
        CrewSize { time_integral_ns: self.size.time_integral_ns.saturating_add(since_ns), ..self.size }
    }

    /// Whether a worker that is back rests. To be asked only where it is asked again in a moment whom to call.
    pub(super) fn rests(&self) -> bool {
        self.at_work() > self.concurrency.limit()
    }

    /// This worker looks for something to take: it is on its way no more, or back from another request. Returns whether it is back.
    pub(super) fn note_arrival(&mut self, worker: usize, now: Instant) -> bool {
        match self.workers[worker] {
            WorkerState::Coming => {
                self.workers[worker] = WorkerState::Busy;
                self.coming -= 1;
                false
            }
            WorkerState::Busy => {
                self.returns += 1;
                self.back = now;
                true
            }
            WorkerState::Idle => false,
        }
    }

    /// It has taken something.
    pub(super) fn note_busy(&mut self, worker: usize) {
        if self.workers[worker] == WorkerState::Idle {
            // It came for something else, a report perhaps.
            self.idle.retain(|&idle| idle != worker);
        }
        self.workers[worker] = WorkerState::Busy;
    }

    /// It has found nothing, and waits to be called.
    pub(super) fn note_idle(&mut self, worker: usize) {
        if self.workers[worker] != WorkerState::Idle {
            self.workers[worker] = WorkerState::Idle;
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

    fn idle(workers: usize, coming_max: usize) -> WakeUps {
        let mut wake_ups = WakeUps::with_coming_max(workers, coming_max, CrewPolicy::Adaptive);
        (0..workers).for_each(|worker| wake_ups.note_idle(worker));
        wake_ups
    }

    /// Of 64 workers this number is at work where threads wait for processors, and the last came back at the returned moment. The limit is
    /// that of a crew that brought the same with fewer and fewer.
    fn contended(at_work: usize) -> (WakeUps, Instant) {
        contended_crew(at_work, CrewPolicy::Adaptive)
    }

    fn contended_crew(at_work: usize, crew: CrewPolicy) -> (WakeUps, Instant) {
        let mut wake_ups = WakeUps { crew, ..idle(64, 2) };
        (0..at_work).for_each(|worker| wake_ups.note_busy(worker));
        let mut now = at(1_000_000_000);
        for _ in 0..40 {
            now = now.plus(20_000_000);
            wake_ups.note_arrival(0, now);
            wake_ups.note_busy(0);
            wake_ups.look(true, now);
        }
        (wake_ups, now)
    }

    #[test]
    fn the_last_to_become_idle_is_called_first() {
        let mut wake_ups = idle(3, 3);
        assert_eq!(wake_ups.call_anyway(9), Choice::This(2));
        assert_eq!(wake_ups.call_anyway(9), Choice::This(1));
    }

    #[test]
    fn no_more_are_called_than_requests_wait_or_than_the_machine_can_run() {
        let mut wake_ups = idle(8, 2);
        assert_eq!(wake_ups.call_anyway(0), Choice::Nobody);
        assert_eq!(wake_ups.call_anyway(1), Choice::This(7));
        assert_eq!(wake_ups.call_anyway(1), Choice::Nobody, "one is on its way for it");
        assert_eq!(wake_ups.call_anyway(2), Choice::This(6));
        assert_eq!(wake_ups.call_anyway(8), Choice::Nobody);
        wake_ups.note_arrival(7, at(0));
        assert_eq!(wake_ups.call_anyway(7), Choice::This(5));
    }

    #[test]
    fn a_worker_that_comes_uncalled_and_takes_something_is_not_called_for_it() {
        let mut wake_ups = idle(2, 2);
        wake_ups.note_arrival(1, at(0));
        wake_ups.note_busy(1);
        assert_eq!(wake_ups.call_anyway(2), Choice::This(0));
        assert_eq!(wake_ups.call_anyway(2), Choice::Nobody);
    }

    #[test]
    fn nobody_is_called_on_a_contended_machine_while_enough_are_at_work_and_come_back() {
        let (mut wake_ups, now) = contended(40);
        assert!(wake_ups.concurrency.limit() < 40, "{:?}", wake_ups.concurrency);
        assert_eq!(wake_ups.call(20, now.plus(RETURN_MAX_NS - 1)), Choice::NobodyYet);
        assert!(
            matches!(wake_ups.call(20, now.plus(RETURN_MAX_NS)), Choice::This(_)),
            "they wait for servers"
        );
        assert!(matches!(wake_ups.call_anyway(20), Choice::This(_)));
    }

    #[test]
    fn a_fixed_crew_is_never_cut() {
        let (mut wake_ups, now) = contended_crew(40, CrewPolicy::Fixed);
        assert!(matches!(wake_ups.call(20, now), Choice::This(_)));
        assert!(!wake_ups.rests());
    }

    #[test]
    fn a_crew_tells_its_fewest_and_its_mean() {
        let (mut fixed, now) = contended_crew(40, CrewPolicy::Fixed);
        assert_eq!((fixed.crew(now).now, fixed.crew(now).least), (64, 64));
        assert_eq!(fixed.crew(now).time_integral_ns, 64 * now.as_nanos());
        let later = now.plus(1_000_000);
        assert_eq!(fixed.crew(later).time_integral_ns, 64 * later.as_nanos(), "between two looks, too");
        fixed.look(true, later);
        assert_eq!(fixed.crew(later).time_integral_ns, 64 * later.as_nanos());
        let (mut adaptive, now) = contended(40);
        let small = adaptive.crew(now);
        assert!(small.least < 64, "{small:?}");
        assert!(small.time_integral_ns < 64 * now.as_nanos());
        (1..9).for_each(|look| adaptive.look(false, now.plus(look * 20_000_000)));
        let free = adaptive.crew(now);
        assert_eq!((free.now, free.least), (64, small.least), "the fewest is kept when all serve again");
    }

    #[test]
    fn one_is_called_on_a_contended_machine_while_fewer_are_at_work() {
        let (mut wake_ups, now) = contended(2);
        assert!(matches!(wake_ups.call(1, now), Choice::This(_)));
    }

    #[test]
    fn those_who_are_too_many_rest_as_they_come_back() {
        let (mut wake_ups, _) = contended(40);
        let limit = wake_ups.concurrency.limit();
        for worker in 0..40 {
            if wake_ups.rests() {
                wake_ups.note_idle(worker);
            }
        }
        assert_eq!(wake_ups.at_work(), limit);
        let all = idle(4, 2);
        assert!(!all.rests());
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
        fn while_requests_wait_somebody_is_on_the_way_or_will_call(coming_max in 1_usize..4, steps in steps(5), limit in 1_usize..=5) {
            let mut wake_ups = idle(5, coming_max);
            wake_ups.concurrency = Concurrency::limited_to(5, limit);
            let (mut waiting, mut serving, mut about_to_call) = (0_usize, [false; 5], [false; 5]);
            let (mut now, mut asks_again) = (at(1_000_000_000), false);
            for (step, pause) in steps {
                now = now.plus(pause);
                match step {
                    Step::Push => {
                        waiting += 1;
                        asks_again |= wake_ups.call(waiting, now) == Choice::NobodyYet;
                    }
                    Step::Wait(worker) => {
                        if about_to_call[worker] {
                            if asks_again { wake_ups.call(waiting, now) } else { wake_ups.call_anyway(waiting) };
                        }
                        about_to_call[worker] = false;
                    }
                    Step::Again => {
                        wake_ups.call(waiting, now);
                        asks_again = waiting > 0 && wake_ups.idle_len() > 0;
                    }
                    Step::Wake(worker) if serving[worker] => {}
                    Step::Finish(worker) if about_to_call[worker] => {}
                    Step::Wake(worker) | Step::Finish(worker) => {
                        let rests = wake_ups.note_arrival(worker, now) && asks_again && wake_ups.rests();
                        serving[worker] = waiting > 0 && !rests;
                        if serving[worker] {
                            waiting -= 1;
                            wake_ups.note_busy(worker);
                            about_to_call[worker] = true;
                        } else {
                            wake_ups.note_idle(worker);
                        }
                    }
                }
                let will_call = asks_again || about_to_call.contains(&true);
                prop_assert!(waiting == 0 || wake_ups.coming > 0 || will_call || serving.iter().all(|&serves| serves));
                let coming = wake_ups.workers.iter().filter(|it| **it == WorkerState::Coming).count();
                prop_assert_eq!(wake_ups.coming, coming);
                prop_assert!(wake_ups.coming <= coming_max);
            }
        }
    }
}
