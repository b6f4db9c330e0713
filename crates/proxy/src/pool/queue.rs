//! The one queue: who waits, in which order, and which worker is called.
//!
//! ```text
//!   push ──▶ ┌─────────── fifo ───────────┐ ──take──▶ a worker
//!            └────────────────────────────┘
//!                ▲ first again        │ a write to a key that is being written
//!                └── WriteOrder ◀─────┘
//! ```
//!
//! A worker that finds nothing to take is listed as idle and waits for its sockets and its mailbox; who brings a request calls the one
//! that has been idle for the shortest time, whose caches are the warmest. A request is measured as queued until a worker has
//! taken it to serve it, wherever it waits: so the queue's length over time and the sum of the queueing times are the same number.

use super::{order::WriteOrder, request::Job};
use crate::{clock::Clock, event_loop::LoopHandle};
use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use weir_timing::{Instant, QueueGauge, QueueReport};

/// What bounds a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests that may wait.
    pub(crate) length_max: usize,
    /// How long a request may take from `created` on.
    pub(crate) timeout_ns: u64,
    /// Whether every key has one write in service at a time.
    pub(crate) orders_writes: bool,
}

#[derive(Debug)]
pub(crate) struct Queue {
    inner: Mutex<Inner>,
    limits: Limits,
    clock: Clock,
    network: LoopHandle,
    workers: Vec<LoopHandle>,
    /// When the network thread looks for requests whose time is up: the `inner.alarm` of the last change.
    alarm_ns: AtomicU64,
    ended: AtomicBool,
}

#[derive(Debug)]
struct Inner {
    fifo: VecDeque<Job>,
    order: WriteOrder<Job>,
    gauge: QueueGauge,
    key_waits: u64,
    /// Workers that wait to be called, the last to become idle at the end.
    idle: Vec<usize>,
    alarm: Option<Instant>,
}

/// Who puts a request into the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A worker must be called for it.
    Network,
    /// The worker takes one itself right after; the network thread must know when its time is up.
    Worker,
}

const NO_ALARM: u64 = u64::MAX;

impl Queue {
    pub(crate) fn new(limits: Limits, clock: Clock, network: LoopHandle, workers: Vec<LoopHandle>) -> Self {
        let inner = Inner {
            fifo: VecDeque::new(),
            order: WriteOrder::new(limits.orders_writes),
            gauge: QueueGauge::new(clock.now()),
            key_waits: 0,
            idle: Vec::with_capacity(workers.len()),
            alarm: None,
        };
        Self {
            inner: Mutex::new(inner),
            limits,
            clock,
            network,
            workers,
            alarm_ns: AtomicU64::new(NO_ALARM),
            ended: AtomicBool::new(false),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Whatever is changed under the lock is whole at every step that could panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a request at the end; gives it back if too many wait.
    pub(super) fn push(&self, mut job: Job, by: By) -> Result<(), Job> {
        let mut inner = self.inner();
        if inner.gauge.length() >= self.limits.length_max as u64 {
            return Err(job);
        }
        let now = self.clock.now();
        job.request.taken.enqueued = now;
        inner.gauge.enter(now);
        let deadline = self.deadline(&job);
        inner.fifo.push_back(job);
        let rings_earlier = inner.alarm.is_none_or(|alarm| deadline < alarm);
        if rings_earlier {
            self.set_alarm(&mut inner, Some(deadline));
        }
        let called = if by == By::Network { inner.idle.pop() } else { None };
        drop(inner);
        if let Some(worker) = called {
            self.wake(&self.workers[worker]);
        }
        if rings_earlier && by == By::Worker {
            self.wake(&self.network);
        }
        Ok(())
    }

    /// The next request for `worker`. If there is none, the worker is called when there is.
    pub(super) fn take(&self, worker: usize) -> Option<Job> {
        let mut guard = self.inner();
        let inner = &mut *guard;
        while let Some(job) = inner.fifo.pop_front() {
            let Some(mut job) = self.admit(inner, job) else { continue };
            let now = self.clock.now();
            job.request.taken.dequeued = now;
            inner.gauge.leave(now);
            // It was called for something else, a report perhaps.
            inner.idle.retain(|&idle| idle != worker);
            return Some(job);
        }
        if !inner.idle.contains(&worker) {
            inner.idle.push(worker);
        }
        None
    }

    /// Whether a request may be served now; a write may have to wait for another.
    fn admit(&self, inner: &mut Inner, job: Job) -> Option<Job> {
        let Some(scope) = job.request.writes.clone().filter(|_| !job.owns) else { return Some(job) };
        let admitted = inner.order.admit(&scope, job);
        inner.key_waits += u64::from(admitted.is_none());
        admitted.map(|job| Job { owns: self.limits.orders_writes, ..job })
    }

    /// A request is done. Others may write now to what it wrote to.
    pub(super) fn finish(&self, job: &Job, by: By) {
        if let Some(scope) = job.request.writes.as_ref().filter(|_| job.owns) {
            self.release(scope, by);
        }
    }

    /// A write is about to be answered that its servers may still carry out: it is not done before [`Queue::finish_held`].
    pub(super) fn hold(&self, job: &Job) {
        if let Some(scope) = job.request.writes.as_ref().filter(|_| !job.owns) {
            self.inner().order.hold(scope);
        }
    }

    /// The servers have answered a write that was given up.
    pub(super) fn finish_held(&self, scope: &super::order::Scope) {
        self.release(scope, By::Network);
    }

    /// Lets the next writes be taken, before all others: they came earlier.
    fn release(&self, scope: &super::order::Scope, by: By) {
        let mut called = Vec::new();
        let mut inner = self.inner();
        let released = inner.order.finish(scope);
        // A worker that is about to take a request needs nobody for the first.
        let calls = released.len().saturating_sub(usize::from(by == By::Worker));
        for job in released.into_iter().rev() {
            inner.fifo.push_front(Job { owns: true, ..job });
        }
        for _ in 0..calls {
            called.extend(inner.idle.pop());
        }
        drop(inner);
        called.into_iter().for_each(|worker| self.wake(&self.workers[worker]));
    }

    // ── time ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// When [`Queue::expire`] must be called at the latest.
    pub(super) fn alarm(&self) -> Option<Instant> {
        let nanos = self.alarm_ns.load(Ordering::Acquire);
        (nanos != NO_ALARM).then(|| Instant::from_nanos(nanos))
    }

    /// Takes out the requests whose time is up, if it is time to look for any. They are not served any more, only answered.
    pub(super) fn expire(&self, now: Instant) -> Vec<Job> {
        let mut late = Vec::new();
        if self.alarm().is_none_or(|alarm| now < alarm) {
            return late;
        }
        let mut guard = self.inner();
        let inner = &mut *guard;
        while inner.fifo.front().is_some_and(|job| self.deadline(job) <= now) {
            late.extend(inner.fifo.pop_front());
        }
        inner.order.expire(|job| self.deadline(job) <= now, |job| late.push(job));
        for job in &mut late {
            let now = self.clock.now();
            job.request.taken.dequeued = now;
            inner.gauge.leave(now);
        }
        let oldest = inner.fifo.front().into_iter().chain(inner.order.oldest());
        let next = oldest.map(|job| self.deadline(job)).min();
        self.set_alarm(inner, next);
        late
    }

    /// Whether a request's time is up.
    pub(super) fn is_late(&self, job: &Job) -> bool {
        self.deadline(job) <= job.request.taken.dequeued
    }

    fn deadline(&self, job: &Job) -> Instant {
        job.request.taken.created.plus(self.limits.timeout_ns)
    }

    fn set_alarm(&self, inner: &mut Inner, alarm: Option<Instant>) {
        inner.alarm = alarm;
        self.alarm_ns.store(alarm.map_or(NO_ALARM, Instant::as_nanos), Ordering::Release);
    }

    // ── the end, and reports ───────────────────────────────────────────────────────────────────────────────────────────────

    /// All workers are to end, whatever they do.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.workers.iter().for_each(|worker| self.wake(worker));
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// The queue, and how many writes had to wait for another.
    pub(super) fn report(&self) -> (QueueReport, u64) {
        let inner = self.inner();
        (inner.gauge.report(self.clock.now()), inner.key_waits)
    }

    /// Waking fails only if the descriptor is gone, and with it whoever would be woken.
    fn wake(&self, handle: &LoopHandle) {
        let _ = handle.wake();
    }
}
