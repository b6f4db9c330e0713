//! A worker: takes a request, serves it to its end, writes the reply to the client, takes the next.
//!
//! It is an event loop without clients of its own, so it notices servers that come and go, also while it has nothing to serve, and
//! keeps every rule of the dataplane. Only one request is in service at a time; what else is in flight on its connections are replies
//! that nobody waits for any more.

use super::{
    client::{Client, Next},
    network::Attention,
    order::Scope,
    queue::{By, Call, Coming, Queue},
    request::Job,
};
use crate::{clock::Clock, event_loop::EventLoop, windows};
use mio::Events;
use std::{
    io, mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use weir_dataplane::{Fault, SessionId};
use weir_protocol::Limits;
use weir_timing::{Instant, QueueReport};

pub(crate) struct Worker {
    index: usize,
    event_loop: EventLoop,
    session: SessionId,
    serving: Option<Job>,
    /// What was given up, and may still be carried out by a server that owes this worker the reply.
    held: Vec<Scope>,
    limits: Limits,
    value_bytes_max: usize,
    shared: Arc<Shared>,
    clock: Clock,
    turn_began: Instant,
}

/// What all threads of a pool share.
pub(crate) struct Shared {
    pub(crate) queue: Queue,
    pub(crate) attention: Attention,
    /// The longest value that is taken, as the workers learn it from the servers.
    pub(crate) value_bytes_max: AtomicUsize,
}

impl windows::Queue for Shared {
    fn name(&self) -> String {
        "workers".to_owned()
    }

    fn report_at_end(&self, index: u64) -> QueueReport {
        self.queue.report_at_end(index)
    }
}

/// Events taken per turn: a worker has few sockets.
const EVENTS_PER_TURN: usize = 64;

impl Worker {
    pub(crate) fn new(
        index: usize,
        mut event_loop: EventLoop,
        limits: Limits,
        shared: Arc<Shared>,
        clock: Clock,
    ) -> Self {
        let now = clock.now();
        let session = event_loop.dataplane.lend_session(now);
        let value_bytes_max = event_loop.dataplane.value_bytes_max();
        Self {
            index,
            event_loop,
            session,
            serving: None,
            held: Vec::new(),
            limits,
            value_bytes_max,
            shared,
            clock,
            turn_began: now,
        }
    }

    /// Serves until the queue has ended.
    pub(crate) fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_PER_TURN);
        while !self.shared.queue.has_ended() {
            if let Some(coming) = self.shared.queue.coming(self.index) {
                self.go_by(coming);
            }
            self.answer_and_take();
            self.event_loop.finish_turn(self.turn_began);
            if self.is_answerable() {
                // It failed at once, or its time was up.
                self.turn_began = self.event_loop.read_clock();
                continue;
            }
            self.event_loop.wait(&mut events)?;
            self.turn_began = self.event_loop.read_clock();
            self.event_loop.read_ready(&events);
            self.tell_value_bytes_max();
        }
        self.event_loop.end();
        Ok(())
    }

    fn is_answerable(&self) -> bool {
        self.serving.is_some() && self.event_loop.dataplane.hosted_reply(self.session).is_some()
    }

    /// Answers what is complete, and takes requests until one is in service or there is none.
    fn answer_and_take(&mut self) {
        loop {
            if self.serving.is_some() && !self.is_answerable() {
                return;
            }
            if let Some(job) = self.serving.take() {
                // Before the client can know, and write again.
                let is_held = self.hold_if_given_up(&job);
                let dataplane = &mut self.event_loop.dataplane;
                let next = job.client.answer(dataplane, self.session, self.clock).unwrap_or_default();
                if !is_held {
                    self.shared.queue.finish(&job, By::Worker);
                }
                self.go_on(job.client, next);
            }
            self.release_held();
            if self.serving.is_some() {
                continue;
            }
            match self.shared.queue.take(self.index) {
                Call::Serve(job) => self.serve_unless_late(job),
                Call::GoBy(coming) => self.go_by(coming),
                Call::Wait => return,
            }
        }
    }

    /// What is in service keeps the servers that it was sent to.
    fn go_by(&mut self, coming: Coming) {
        match coming {
            Coming::Routing(routing) => self.event_loop.take_routing(routing),
            Coming::Addresses(book) => self.event_loop.take_addresses(book),
        }
    }

    fn serve_unless_late(&mut self, job: Job) {
        let is_late = self.shared.queue.is_late(&job);
        if is_late {
            self.event_loop.dataplane.counters_mut().queue_timeouts += 1;
        }
        self.serve(job, is_late.then_some(Fault::Timeout));
    }

    fn serve(&mut self, job: Job, denied: Option<Fault>) {
        job.request.serve(&mut self.event_loop.dataplane, self.session, self.limits, denied);
        self.serving = Some(job);
    }

    /// The client's next request goes to the end of the queue, or is refused at once.
    fn go_on(&mut self, client: Arc<Client>, next: Next) {
        if next.attention {
            self.shared.attention.ask(client.id);
        }
        let Some(request) = next.request else { return };
        if let Err(job) = self.shared.queue.push(Job::new(client, request), By::Worker) {
            self.event_loop.dataplane.counters_mut().queue_refusals_full += 1;
            self.serve(job, Some(Fault::Queue));
        }
    }

    /// Whether the servers may still carry out a write that is about to be answered.
    fn hold_if_given_up(&mut self, job: &Job) -> bool {
        let Some(scope) = &job.request.writes else { return false };
        let given_up = self.event_loop.dataplane.is_given_up();
        if given_up {
            self.shared.queue.hold(job);
            self.held.push(scope.clone());
        }
        given_up
    }

    /// Nothing is in service, so a reply that is owed is one to something that was given up.
    fn release_held(&mut self) {
        if self.held.is_empty() || self.serving.is_some() || self.event_loop.dataplane.is_owed_replies() {
            return;
        }
        for scope in mem::take(&mut self.held) {
            self.shared.queue.finish_held(&scope);
        }
    }

    fn tell_value_bytes_max(&mut self) {
        let bytes = self.event_loop.dataplane.value_bytes_max();
        // Only what it has learned itself: a worker that has not met a server yet knows less than the others.
        if mem::replace(&mut self.value_bytes_max, bytes) != bytes {
            self.shared.value_bytes_max.store(bytes, Ordering::Relaxed);
        }
    }
}
