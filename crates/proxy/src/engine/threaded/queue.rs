//! One queue: who waits, in which order, and which worker is called.
//!
//! ```text
//!   push ──▶ ┌─────────── fifo ───────────┐ ──take──▶ a worker
//!            └────────────────────────────┘
//!                ▲ first again        │ a write to a key that is being written
//!                └── WriteOrder ◀─────┘
//! ```
//!
//! Reads that bring much are served by some of the workers at once, and wait aside for that (`queue/wide.rs`).
//!
//! A worker that finds nothing to take is listed as idle and waits for its sockets and its mailbox, until it is called (`queue/wake_ups.rs`). A
//! request is measured as queued until a worker has taken it to serve it, wherever it waits: so the queue's length over time and the
//! sum of the queueing times are the same number.

mod concurrency;
pub(crate) mod fence;
pub(crate) mod order;
mod wake_ups;
pub(crate) mod wide;

use crate::engine::event::serving::is_same;
use crate::engine::threaded::{
    queue::{
        fence::Fence,
        order::{Scope, WriteOrder},
        wake_ups::{Choice, WakeUps},
        wide::Aside,
    },
    queues::By,
    request::Job,
};
use crate::{
    config::settings::CrewPolicy,
    connections::names::AddressBook,
    mailbox::{LoopHandle, Routing},
    process::clock::Clock,
};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use weir_dataplane::CrewSize;
use weir_routing::Server;
use weir_timing::{Instant, QueueReport, Station, StationReport};

/// What a queue is made of.
pub(crate) struct QueueConfig {
    /// Names it among the queues of its engine.
    pub(in crate::engine) number: usize,
    pub(in crate::engine) limits: Limits,
    pub(in crate::engine) clock: Clock,
    pub(in crate::engine) network: LoopHandle,
    /// Who takes from it.
    pub(in crate::engine) workers: Vec<LoopHandle>,
    /// The server that all workers are connected to, if they belong to one.
    pub(in crate::engine) home: Option<Server>,
    /// What writers of several queues have in common.
    pub(in crate::engine) fence: Option<Arc<Fence>>,
}

/// What bounds a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests that may wait.
    pub(in crate::engine) length_max: usize,
    /// How long a request may take from when it is queued first, until a reload says something else.
    pub(in crate::engine) timeout_ns: u64,
    /// Whether every key has one write in service at a time.
    pub(in crate::engine) orders_writes: bool,
    /// How many of its workers serve at once.
    pub(in crate::engine) crew: CrewPolicy,
}

#[derive(Debug)]
pub(crate) struct Queue {
    number: usize,
    inner: Mutex<Inner>,
    limits: Limits,
    /// How long a request may take from when it is queued first.
    timeout_ns: AtomicU64,
    /// Whether there is something for each worker in `inner.coming`.
    has_coming: Vec<AtomicBool>,
    clock: Clock,
    network: LoopHandle,
    workers: Vec<LoopHandle>,
    /// Whether `inner.fifo` has held something since a request was last taken.
    has_waiting: AtomicBool,
    /// When the network thread looks for requests whose time is up: the `inner.alarm` of the last change.
    alarm_ns: AtomicU64,
    ended: AtomicBool,
    fence: Option<Arc<Fence>>,
}

#[derive(Debug)]
struct Inner {
    fifo: VecDeque<Job>,
    /// Of those that were at the front, reads that bring much and wait for others of their kind.
    aside: Aside<Job>,
    order: WriteOrder<Job>,
    station: Station,
    /// What was measured while the workers belonged to other servers.
    former: StationReport,
    home: Option<Server>,
    key_waits: u64,
    wake_ups: WakeUps,
    alarm: Option<Instant>,
    /// What each worker has still to go by.
    coming: Vec<Option<Coming>>,
}

/// A queue at one moment.
pub(crate) struct QueueState {
    /// Since its workers belong where they do.
    pub(in crate::engine) measured: StationReport,
    /// Since the beginning.
    pub(in crate::engine) ever: StationReport,
    /// How many writes had to wait for another.
    pub(in crate::engine) key_waits: u64,
    pub(in crate::engine) home: Option<Server>,
    /// How many of its workers may serve at once.
    pub(in crate::engine) crew: CrewSize,
}

/// What a worker goes by for every request that it takes later.
#[derive(Clone, Debug)]
pub(crate) enum Coming {
    Routing(Routing),
    Addresses(Arc<AddressBook>),
}

/// What a worker does next.
#[derive(Debug)]
pub(crate) enum Call {
    Serve(Job),
    /// Go by this, then ask again.
    GoBy(Coming),
    /// Wait to be called.
    Wait,
}

const NO_ALARM: u64 = u64::MAX;

impl Inner {
    /// How many could be served if there were workers enough.
    fn waiting(&self) -> usize {
        self.fifo.len() + self.aside.ready()
    }
}

/// Whether the network thread will ask in a moment whom to call.
fn is_asked_again(inner: &Inner, now: Instant) -> bool {
    inner.alarm.is_some_and(|alarm| alarm <= now.plus(wake_ups::AGAIN_NS))
}

impl Queue {
    pub(crate) fn new(config: QueueConfig) -> Self {
        let QueueConfig { number, limits, clock, network, workers, home, fence } = config;
        let inner = Inner {
            fifo: VecDeque::new(),
            aside: Aside::new(workers.len()),
            order: WriteOrder::new(limits.orders_writes),
            station: Station::new(clock.now()),
            former: StationReport::default(),
            home,
            key_waits: 0,
            wake_ups: WakeUps::new(workers.len(), limits.crew),
            alarm: None,
            coming: vec![None; workers.len()],
        };
        Self {
            number,
            inner: Mutex::new(inner),
            timeout_ns: AtomicU64::new(limits.timeout_ns),
            has_coming: workers.iter().map(|_| AtomicBool::new(false)).collect(),
            limits,
            clock,
            network,
            workers,
            has_waiting: AtomicBool::new(false),
            alarm_ns: AtomicU64::new(NO_ALARM),
            ended: AtomicBool::new(false),
            fence,
        }
    }

    /// Names it among the queues of its engine.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Whatever is changed under the lock is whole at every step that could panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a request at the end; gives it back if too many wait.
    #[expect(clippy::result_large_err, reason = "what is given back is the request itself, moved once")]
    pub(crate) fn push(&self, mut job: Job, by: By) -> Result<(), Job> {
        let mut inner = self.inner();
        if inner.station.length() >= self.limits.length_max as u64 {
            return Err(job);
        }
        let now = self.clock.now();
        job.begin_waiting(inner.station.length(), now);
        inner.station.enter(now);
        let deadline = self.deadline(&job);
        inner.fifo.push_back(job);
        self.has_waiting.store(true, Ordering::Release);
        let waiting = inner.waiting();
        let choice = match by {
            By::Network => inner.wake_ups.call(waiting, now),
            By::Worker(number) if number == self.number => Choice::Nobody,
            By::Worker(_) => inner.wake_ups.call_anyway(waiting),
        };
        // The network thread looks when its next alarm rings before it waits.
        let rings =
            if choice == Choice::NobodyYet { deadline.min(now.plus(wake_ups::AGAIN_NS)) } else { deadline };
        let rings_earlier = inner.alarm.is_none_or(|alarm| rings < alarm);
        if rings_earlier {
            self.set_alarm(&mut inner, Some(rings));
        }
        drop(inner);
        self.call(choice);
        if rings_earlier && by != By::Network {
            self.wake(&self.network);
        }
        Ok(())
    }

    /// The next request for `worker`. If there is none, the worker is called when there is; if there is one, it owes the others a
    /// [`Queue::call_next`] before it waits. What has come to go by is given first: a
    /// request that is taken after another was taken by a new table is not served by an older one.
    pub(crate) fn take(&self, worker: usize) -> Call {
        let mut guard = self.inner();
        let inner = &mut *guard;
        let now = self.clock.now();
        let is_back = inner.wake_ups.note_arrival(worker, now);
        if let Some(coming) = self.take_from(inner, worker) {
            return Call::GoBy(coming);
        }
        if is_back && is_asked_again(inner, now) && inner.wake_ups.rests() {
            inner.wake_ups.note_idle(worker);
            return Call::Wait;
        }
        let Some(mut job) = self.next(inner) else {
            self.note_waiting(inner);
            inner.wake_ups.note_idle(worker);
            return Call::Wait;
        };
        job.request.taken.dequeued = now;
        inner.station.leave(job.waits_since, now);
        inner.wake_ups.note_busy(worker);
        self.note_waiting(inner);
        Call::Serve(job)
    }

    /// The first request that may be served now.
    fn next(&self, inner: &mut Inner) -> Option<Job> {
        if let Some(job) = inner.aside.next() {
            return Some(job.counted());
        }
        while self.passes_fence(inner.fifo.front())
            && let Some(job) = inner.fifo.pop_front()
        {
            let Some(job) = self.admit(inner, job) else { continue };
            if !job.request.is_wide() {
                return Some(job);
            }
            if let Some(job) = inner.aside.admit(job) {
                return Some(job.counted());
            }
        }
        None
    }

    /// A worker that has taken a request is about to wait: if others still wait to be taken, the next worker is called. Those that have
    /// come by themselves meanwhile needed no call.
    pub(crate) fn call_next(&self) {
        if self.has_waiting.load(Ordering::Acquire) {
            let mut inner = self.inner();
            let (waiting, now) = (inner.waiting(), self.clock.now());
            let choice = if is_asked_again(&inner, now) {
                inner.wake_ups.call(waiting, now)
            } else {
                inner.wake_ups.call_anyway(waiting)
            };
            drop(inner);
            self.call(choice);
        }
    }

    /// To be called every few milliseconds: whether threads wait for processors, as far as the network thread knows.
    pub(crate) fn look(&self, is_contended: bool, now: Instant) {
        self.inner().wake_ups.look(is_contended, now);
    }

    fn note_waiting(&self, inner: &Inner) {
        self.has_waiting.store(inner.waiting() > 0, Ordering::Release);
    }

    // ── reloads ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Every request that is taken from now on is served by this.
    pub(crate) fn take_routing(&self, routing: &Routing) {
        self.go_by(self.inner(), routing);
    }

    /// The same; the workers belong to this server from now on. Those that wait are given back, to be queued where they belong now.
    pub(crate) fn reassign(&self, routing: &Routing, home: Option<&Server>) -> Vec<Job> {
        let mut guard = self.inner();
        let inner = &mut *guard;
        let now = self.clock.now();
        let aside = std::iter::from_fn(|| inner.aside.take_front());
        let waiting: Vec<_> = aside.chain(inner.fifo.drain(..)).collect();
        waiting.iter().for_each(|job| inner.station.leave(job.waits_since, now));
        if !is_same(inner.home.as_ref(), home) {
            inner.former += inner.station.report(now);
            inner.station = Station::new(now);
            inner.home = home.cloned();
        }
        self.set_alarm(inner, None);
        self.withdraw_flushes(&waiting);
        self.go_by(guard, routing);
        waiting
    }

    fn go_by(&self, mut inner: MutexGuard<'_, Inner>, routing: &Routing) {
        self.timeout_ns.store(routing.timeout_ns(), Ordering::Relaxed);
        if inner.alarm.is_some() {
            // Those that wait may be late by the new timeout.
            let now = self.clock.now();
            self.set_alarm(&mut inner, Some(now));
        }
        inner.coming.fill(Some(Coming::Routing(routing.clone())));
        self.call_all(inner);
    }

    /// Some names of servers have other addresses.
    pub(crate) fn take_addresses(&self, book: &Arc<AddressBook>) {
        let mut inner = self.inner();
        for coming in &mut inner.coming {
            match coming {
                Some(Coming::Routing(routing)) => routing.set_book(Arc::clone(book)),
                _ => *coming = Some(Coming::Addresses(Arc::clone(book))),
            }
        }
        self.call_all(inner);
    }

    /// Takes what has come for a worker that is serving.
    pub(crate) fn take_coming(&self, worker: usize) -> Option<Coming> {
        let has_coming = self.has_coming[worker].load(Ordering::Acquire);
        has_coming.then(|| self.take_from(&mut self.inner(), worker)).flatten()
    }

    fn take_from(&self, inner: &mut Inner, worker: usize) -> Option<Coming> {
        let coming = inner.coming[worker].take()?;
        self.has_coming[worker].store(false, Ordering::Release);
        Some(coming)
    }

    fn call_all(&self, inner: MutexGuard<'_, Inner>) {
        self.has_coming.iter().for_each(|has_coming| has_coming.store(true, Ordering::Release));
        drop(inner);
        self.workers.iter().for_each(|worker| self.wake(worker));
    }

    // ── the order of writes ────────────────────────────────────────────────────────────────────────────────────────────────

    /// Whether the request at the front may be taken, as far as other queues are concerned.
    fn passes_fence(&self, front: Option<&Job>) -> bool {
        let (Some(fence), Some(job)) = (&self.fence, front) else { return true };
        match job.request.writes {
            None => true,
            Some(Scope::Key(_)) => fence.enter(),
            Some(Scope::Everything) => fence.close(self.number),
        }
    }

    /// Whether others wait for this write to be done, though not for its key.
    pub(crate) fn is_fenced(&self, job: &Job) -> bool {
        self.fence.is_some() && job.owns && matches!(job.request.writes, Some(Scope::Key(_)))
    }

    /// This many writes of that kind are done that were given up.
    pub(crate) fn leave_fence(&self, count: usize) {
        if let Some(fence) = self.fence.as_ref().filter(|_| count > 0) {
            fence.leave(count);
        }
    }

    /// These do not wait here any more, and were not taken.
    fn withdraw_flushes(&self, jobs: &[Job]) {
        if let Some(fence) = &self.fence
            && jobs.iter().any(|job| job.request.writes == Some(Scope::Everything))
        {
            fence.withdraw(self.number);
        }
    }

    /// Whether a request may be served now; a write may have to wait for another.
    fn admit(&self, inner: &mut Inner, job: Job) -> Option<Job> {
        let Some(scope) = job.request.writes.clone().filter(|_| !job.owns) else { return Some(job) };
        let admitted = inner.order.admit(&scope, job);
        inner.key_waits += u64::from(admitted.is_none());
        admitted.map(|mut job| {
            job.owns = self.limits.orders_writes || self.fence.is_some();
            job
        })
    }

    /// A request is done. Others may write now to what it wrote to.
    pub(crate) fn finish(&self, job: &Job, by: By) {
        if job.is_counted() {
            let mut inner = self.inner();
            inner.aside.leave();
            // Whoever has served it takes the next one, unless it rests.
            self.note_waiting(&inner);
        }
        let Some(scope) = job.request.writes.as_ref().filter(|_| job.owns) else { return };
        match (&self.fence, scope) {
            (None, _) => self.release(scope, by),
            (Some(fence), Scope::Key(_)) => fence.leave(1),
            (Some(fence), Scope::Everything) => fence.open(self.number),
        }
    }

    /// A write is about to be answered that its servers may still carry out: it is not done before [`Queue::finish_held`].
    pub(crate) fn hold(&self, job: &Job) {
        if let Some(scope) = job.request.writes.as_ref().filter(|_| !job.owns) {
            self.inner().order.hold(scope);
        }
    }

    /// The servers have answered a write that was given up.
    pub(crate) fn finish_held(&self, scope: &Scope) {
        self.release(scope, By::Network);
    }

    /// Lets the next writes be taken, before all others: they came earlier.
    fn release(&self, scope: &Scope, by: By) {
        let mut called = Vec::new();
        let mut inner = self.inner();
        let released = inner.order.finish(scope);
        // A worker that is about to take a request needs nobody for the first.
        let calls = released.len().saturating_sub(usize::from(by == By::Worker(self.number)));
        for mut job in released.into_iter().rev() {
            job.owns = true;
            inner.fifo.push_front(job);
            self.has_waiting.store(true, Ordering::Release);
        }
        let waiting = inner.waiting();
        for _ in 0..calls {
            called.push(inner.wake_ups.call_anyway(waiting));
        }
        drop(inner);
        called.into_iter().for_each(|choice| self.call(choice));
    }

    // ── time ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// When [`Queue::expire`] must be called at the latest.
    pub(crate) fn alarm(&self) -> Option<Instant> {
        let nanos = self.alarm_ns.load(Ordering::Acquire);
        (nanos != NO_ALARM).then(|| Instant::from_nanos(nanos))
    }

    /// Calls a worker for those that were left to workers who should have been back by now, and takes out the requests whose time is
    /// up, if it is time to look for any. They are not served any more, only answered.
    pub(crate) fn expire(&self, now: Instant) -> Vec<Job> {
        let mut late = Vec::new();
        if self.alarm().is_none_or(|alarm| now < alarm) {
            return late;
        }
        let mut guard = self.inner();
        let inner = &mut *guard;
        while inner.fifo.front().is_some_and(|job| self.deadline(job) <= now) {
            late.extend(inner.fifo.pop_front());
        }
        while inner.aside.front().is_some_and(|job| self.deadline(job) <= now) {
            late.extend(inner.aside.take_front());
        }
        inner.order.expire(|job| self.deadline(job) <= now, |job| late.push(job));
        for job in &mut late {
            let now = self.clock.now();
            job.request.taken.dequeued = now;
            inner.station.leave(job.waits_since, now);
        }
        let fronts = inner.fifo.front().into_iter().chain(inner.aside.front());
        let oldest = fronts.chain(inner.order.oldest());
        let next = oldest.map(|job| self.deadline(job)).min();
        let choice = inner.wake_ups.call(inner.waiting(), now);
        let is_enough = inner.waiting() == 0 || inner.wake_ups.idle_len() == 0;
        let again = (!is_enough).then(|| now.plus(wake_ups::AGAIN_NS));
        self.set_alarm(inner, next.into_iter().chain(again).min());
        drop(guard);
        self.call(choice);
        self.withdraw_flushes(&late);
        late
    }

    /// Whether a request's time is up.
    pub(crate) fn is_late(&self, job: &Job) -> bool {
        self.deadline(job) <= job.request.taken.dequeued
    }

    /// It runs from when it was the request's turn among its client's: whoever waits behind others of its own has not asked yet.
    fn deadline(&self, job: &Job) -> Instant {
        job.request.taken.enqueued.plus(self.timeout_ns.load(Ordering::Relaxed))
    }

    fn set_alarm(&self, inner: &mut Inner, alarm: Option<Instant>) {
        inner.alarm = alarm;
        self.alarm_ns.store(alarm.map_or(NO_ALARM, Instant::as_nanos), Ordering::Release);
    }

    // ── the end, and reports ───────────────────────────────────────────────────────────────────────────────────────────────

    /// Nothing waits, and every worker does.
    pub(crate) fn is_at_rest(&self) -> bool {
        let inner = self.inner();
        inner.station.length() == 0 && inner.wake_ups.idle_len() == self.workers.len()
    }

    /// All workers are to end, whatever they do.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.workers.iter().for_each(|worker| self.wake(worker));
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn report(&self) -> QueueState {
        let inner = self.inner();
        let now = self.clock.now();
        let measured = inner.station.report(now);
        let mut ever = measured;
        ever += inner.former;
        let crew = inner.wake_ups.crew(now);
        QueueState { measured, ever, key_waits: inner.key_waits, home: inner.home.clone(), crew }
    }

    /// The server that those who take from it are connected to, if they belong to one.
    pub(crate) fn home(&self) -> Option<Server> {
        self.inner().home.clone()
    }

    /// How many of its workers may serve at once, now.
    pub(crate) fn crew(&self) -> u64 {
        self.inner().wake_ups.crew(self.clock.now()).now
    }

    /// The queue as it was at the end of window `index`.
    pub(crate) fn report_at_end(&self, index: u64) -> QueueReport {
        let inner = self.inner();
        let mut report = inner.station.population_at_end(index);
        report += inner.former.population;
        report
    }

    fn call(&self, choice: Choice) {
        if let Choice::This(worker) = choice {
            self.wake(&self.workers[worker]);
        }
    }

    /// Waking fails only if the descriptor is gone, and with it whoever would be woken.
    fn wake(&self, handle: &LoopHandle) {
        let _ = handle.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        connections::{
            client_limit::{Admitted, ClientLimit},
            sockets::Stream,
        },
        engine::threaded::{client::Client, request::Request},
    };
    use mio::{Poll, net::UnixStream};
    use std::sync::mpsc::{Receiver, TryRecvError, channel};
    use weir_protocol::{Parsed, door::Foreign};
    use weir_routing::{Placement, Router};

    fn queue(workers: usize, clock: Clock) -> (Queue, Poll) {
        let poll = Poll::new().expect("descriptors are free");
        let (handle, _) = LoopHandle::new(&poll).expect("descriptors are free");
        let config = QueueConfig {
            number: 0,
            limits: Limits {
                length_max: 10,
                timeout_ns: u64::MAX / 2,
                orders_writes: true,
                crew: CrewPolicy::Adaptive,
            },
            clock,
            network: handle.clone(),
            workers: vec![handle; workers],
            home: None,
            fence: None,
        };
        (Queue::new(config), poll)
    }

    fn job(clock: Clock) -> Job {
        let (stream, _) = UnixStream::pair().expect("descriptors are free");
        let place = ClientLimit::new(1).enter().expect("one is free");
        let admitted = Admitted::new(Stream::Unix(stream), place);
        let client = Arc::new(Client::new(0, admitted, &weir_dataplane::Budget::new(usize::MAX)));
        let now = clock.now();
        Job::new(
            client,
            Request::new(&Parsed::Foreign { foreign: Foreign::Tls }, b"", now, now)
                .expect("it wants an answer"),
        )
    }

    fn routing(timeout_ns: u64) -> (Routing, Receiver<std::convert::Infallible>) {
        let table =
            Router::new(vec![Server::new("a", 1)], Placement::Modulo, 1).expect("one server is a pool");
        let (taken, all_have) = channel();
        let book = Arc::new(AddressBook::default());
        (Routing::new(Arc::new(table.into()), book, Arc::default(), timeout_ns, taken), all_have)
    }

    #[test]
    fn no_worker_takes_a_request_before_the_table_that_came_with_it() {
        let clock = Clock::start();
        let (queue, _poll) = queue(2, clock);
        queue.push(job(clock), By::Network).expect("there is room");
        queue.push(job(clock), By::Network).expect("there is room");
        let (routing, all_have) = routing(u64::MAX / 2);
        queue.take_routing(&routing);
        drop(routing);
        for worker in 0..2 {
            assert_eq!(all_have.try_recv(), Err(TryRecvError::Empty), "worker {worker} has not taken it");
            assert!(matches!(queue.take(worker), Call::GoBy(Coming::Routing(_))));
            assert!(matches!(queue.take(worker), Call::Serve(_)));
            assert!(queue.take_coming(worker).is_none());
        }
        assert_eq!(all_have.try_recv(), Err(TryRecvError::Disconnected), "all have taken it");
        assert!(matches!(queue.take(0), Call::Wait));
    }

    #[test]
    fn addresses_that_come_after_a_table_are_not_undone_by_it() {
        let clock = Clock::start();
        let (queue, _poll) = queue(1, clock);
        let (routing, _all_have) = routing(1);
        queue.take_routing(&routing);
        let book = Arc::new(AddressBook::default());
        queue.take_addresses(&book);
        let Some(Coming::Routing(coming)) = queue.take_coming(0) else { panic!("the table is lost") };
        assert!(Arc::ptr_eq(coming.book(), &book));
        assert!(queue.take_coming(0).is_none());
        queue.take_addresses(&book);
        assert!(matches!(queue.take(0), Call::GoBy(Coming::Addresses(_))));
    }

    #[test]
    fn a_shorter_timeout_is_one_of_those_that_wait_too() {
        let clock = Clock::start();
        let (queue, _poll) = queue(1, clock);
        queue.push(job(clock), By::Network).expect("there is room");
        assert!(queue.expire(clock.now()).is_empty());
        let (routing, _all_have) = routing(0);
        queue.take_routing(&routing);
        assert_eq!(queue.expire(clock.now()).len(), 1);
        assert!(queue.alarm().is_none());
    }
}
