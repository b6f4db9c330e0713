//! A worker: takes requests from its queue, serves each to its end, writes the reply to the client.
//!
//! It is an event loop without clients of its own, so it notices servers that come and go, also while it has nothing to serve, and
//! keeps every rule of the dataplane. How many requests it has in service at once is its capacity. With one it is synchronous: what
//! else is in flight on its connections are replies that nobody waits for any more. With more it is a writer: it alone takes from its
//! queue, what is queued in one turn leaves together, and what writes to one key leaves in the order of the queue.

use crate::{
    engine::{
        event::event_loop::EventLoop,
        threaded::{
            client::{Client, Next},
            queue::{Call, Coming, Queue, order::Scope},
            queues::{By, Shared},
            request::Job,
        },
    },
    process::clock::Clock,
};
use mio::Events;
use std::{
    io, mem,
    sync::{Arc, atomic::Ordering},
};
use weir_dataplane::{Fault, SessionId};
use weir_protocol::Limits;
use weir_timing::Instant;

pub(crate) struct Worker {
    index: usize,
    event_loop: EventLoop,
    capacity: usize,
    /// Lent sessions with nothing in service.
    free: Vec<SessionId>,
    serving: Vec<(SessionId, Job)>,
    held: Held,
    limits: Limits,
    value_bytes_max: usize,
    queue: Arc<Queue>,
    shared: Arc<Shared>,
    clock: Clock,
    turn_began: Instant,
}

/// What was given up, and may still be carried out by a server that owes this worker the reply.
#[derive(Default)]
struct Held {
    /// By key, where others may write to it: with a capacity of one.
    scopes: Vec<Scope>,
    /// How many, where only times matter at which nobody writes.
    count: usize,
    /// Timeouts that were seen.
    timeouts: u64,
    /// There were some since the servers owed nothing.
    is_suspicious: bool,
}

/// What a [`Worker`] is made of.
pub(crate) struct WorkerConfig {
    /// Its place among the workers of its queue.
    pub(in crate::engine) index: usize,
    pub(in crate::engine) event_loop: EventLoop,
    /// How many requests it serves at once.
    pub(in crate::engine) capacity: usize,
    pub(in crate::engine) limits: Limits,
    pub(in crate::engine) queue: Arc<Queue>,
    pub(in crate::engine) shared: Arc<Shared>,
    pub(in crate::engine) clock: Clock,
    /// What workers of its queue are called in reports.
    pub(in crate::engine) station: &'static str,
}

/// Events taken per turn: a worker has few sockets.
const EVENTS_PER_TURN: usize = 64;

impl Worker {
    pub(crate) fn new(config: WorkerConfig) -> Self {
        let WorkerConfig { index, event_loop, capacity, limits, queue, shared, clock, station } = config;
        let now = clock.now();
        let event_loop = event_loop.with_station(station, now);
        let value_bytes_max = event_loop.dataplane().value_bytes_max();
        Self {
            index,
            event_loop,
            capacity,
            free: Vec::new(),
            serving: Vec::new(),
            held: Held::default(),
            limits,
            value_bytes_max,
            queue,
            shared,
            clock,
            turn_began: now,
        }
    }

    /// Serves until the queue has ended.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_PER_TURN);
        self.event_loop.settle_at(self.queue.home());
        while !self.queue.has_ended() {
            if let Some(coming) = self.queue.take_coming(self.index) {
                self.go_by(coming);
            }
            self.answer_and_take();
            self.event_loop.finish_turn(self.turn_began);
            if self.next_answerable(0).is_some() {
                // It failed at once, or its time was up.
                self.turn_began = self.event_loop.read_clock();
                continue;
            }
            self.queue.call_next();
            self.event_loop.wait(&mut events)?;
            self.turn_began = self.event_loop.read_clock();
            self.event_loop.read_ready(&events);
            self.tell_value_bytes_max();
        }
        self.event_loop.end();
        Ok(())
    }

    /// Answers what is complete, and takes requests until as many are in service as may be or there is none.
    fn answer_and_take(&mut self) {
        loop {
            self.answer_all();
            self.release_held();
            let is_full = self.take_all();
            if !is_full || self.next_answerable(0).is_none() {
                return;
            }
        }
    }

    fn answer_all(&mut self) {
        let mut from = 0;
        while let Some(place) = self.next_answerable(from) {
            let (session, job) = self.serving.swap_remove(place);
            // Before the client can know, and write again.
            let is_held = self.hold_if_given_up(&job);
            let dataplane = self.event_loop.dataplane_mut();
            let answered = (session, job.request.keys());
            let next = job.client.answer(dataplane, answered, self.clock).unwrap_or_default();
            self.free.push(session);
            self.event_loop.note_served(job.request.taken.dequeued);
            if !is_held {
                self.queue.finish(&job, self.by());
            }
            self.go_on(job.client, next);
            from = place;
        }
    }

    /// The place of the first request in service from this place on whose reply is complete.
    fn next_answerable(&self, from: usize) -> Option<usize> {
        let dataplane = self.event_loop.dataplane();
        (from..self.serving.len()).find(|&place| dataplane.lent_reply(self.serving[place].0).is_some())
    }

    /// Returns whether no more may be taken; otherwise nothing waits.
    fn take_all(&mut self) -> bool {
        while self.serving.len() < self.capacity {
            match self.queue.take(self.index) {
                Call::Serve(job) => self.serve_unless_late(job),
                Call::GoBy(coming) => self.go_by(coming),
                Call::Wait => return false,
            }
        }
        true
    }

    /// What is in service keeps the servers that it was sent to.
    fn go_by(&mut self, coming: Coming) {
        match coming {
            Coming::Routing(routing) => {
                self.event_loop.go_by(&routing);
                self.event_loop.settle_at(self.queue.home());
            }
            Coming::Addresses(book) => self.event_loop.renew_addresses(book),
        }
    }

    fn serve_unless_late(&mut self, job: Job) {
        let is_late = self.queue.is_late(&job);
        if is_late {
            self.event_loop.dataplane_mut().counters_mut().queue_timeouts += 1;
        }
        self.serve(job, is_late.then_some(Fault::Timeout));
    }

    fn serve(&mut self, job: Job, denied: Option<Fault>) {
        let dequeued = job.request.taken.dequeued;
        self.event_loop.note_serving(dequeued);
        let dataplane = self.event_loop.dataplane_mut();
        let session = self.free.pop().unwrap_or_else(|| dataplane.lend_session(dequeued));
        job.request.serve(dataplane, session, self.limits, denied);
        self.serving.push((session, job));
    }

    /// The client's next request goes to the end of its queue, or is refused at once.
    fn go_on(&mut self, client: Arc<Client>, next: Next) {
        if next.attention {
            self.shared.attention.ask(client.id());
        }
        let Some(request) = next.request else { return };
        if let Err(mut job) = self.shared.queues.push(Job::new(client, request), self.by()) {
            self.event_loop.dataplane_mut().counters_mut().queue_refusals_full += 1;
            // It has not waited, and is in service from now on.
            let now = self.clock.now();
            (job.request.taken.enqueued, job.request.taken.dequeued) = (now, now);
            self.serve(job, Some(Fault::Queue));
        }
    }

    fn by(&self) -> By {
        By::Worker(self.queue.number())
    }

    // ── writes that were given up ──────────────────────────────────────────────────────────────────────────────────────────

    /// Whether the servers may still carry out a write that is about to be answered.
    fn hold_if_given_up(&mut self, job: &Job) -> bool {
        let Some(scope) = &job.request.writes else { return false };
        if self.capacity > 1 {
            return self.hold_if_suspicious(job);
        }
        let given_up = self.event_loop.dataplane().is_given_up();
        if given_up {
            self.queue.hold(job);
            self.held.scopes.push(scope.clone());
        }
        given_up
    }

    /// Replies to many requests are owed at any time. After a timeout every one of them may be to something that was given up.
    fn hold_if_suspicious(&mut self, job: &Job) -> bool {
        if !self.queue.is_fenced(job) {
            return false;
        }
        let timeouts = self.event_loop.dataplane_mut().counters_mut().server_timeouts;
        self.held.is_suspicious |= mem::replace(&mut self.held.timeouts, timeouts) != timeouts;
        self.held.count += usize::from(self.held.is_suspicious);
        self.held.is_suspicious
    }

    /// What the servers owe while nothing is in service are replies to what was given up.
    fn release_held(&mut self) {
        let is_holding = self.held.is_suspicious || !self.held.scopes.is_empty();
        if !is_holding || !self.serving.is_empty() || self.event_loop.dataplane().is_owed_replies() {
            return;
        }
        for scope in mem::take(&mut self.held.scopes) {
            self.queue.finish_held(&scope);
        }
        self.held.is_suspicious = false;
        self.queue.leave_fence(mem::take(&mut self.held.count));
    }

    fn tell_value_bytes_max(&mut self) {
        let bytes = self.event_loop.dataplane().value_bytes_max();
        // Only what it has learned itself: a worker that has not met a server yet knows less than the others.
        if mem::replace(&mut self.value_bytes_max, bytes) != bytes {
            self.shared.value_bytes_max.store(bytes, Ordering::Relaxed);
        }
    }
}
