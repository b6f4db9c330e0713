//! The same world whose clients are served through lent sessions: the driver cuts their bytes into requests, lets them wait, and hands
//! them in, two at once. Requests that find two others waiting, or wait for longer than the timeout, are denied.

use super::{script::CLIENTS, world::World};
use std::collections::VecDeque;
use weir_dataplane::{Config, Fault, Intake, KeptRequest, SessionId, Taken, Unsent};
use weir_protocol::{Parsed, Request};
use weir_timing::Instant;

/// Requests in service at once, and in the queue.
const CAPACITY: usize = 2;
const QUEUE_MAX: usize = 2;

#[derive(Default)]
pub(super) struct Crew {
    clients: [Option<Visitor>; CLIENTS],
    queue: VecDeque<Job>,
    free: Vec<SessionId>,
    serving: Vec<(SessionId, Job)>,
    /// `quit`s, which nobody answers.
    quits: u64,
    /// What was handed in.
    served: u64,
}

struct Visitor {
    intake: Intake,
    waiting: VecDeque<Job>,
    busy: bool,
    unsent: Option<Unsent>,
    /// Nobody reads what is written to it. It does not come back.
    gone: bool,
}

struct Job {
    client: usize,
    request: KeptRequest,
    taken: Taken,
}

impl Crew {
    pub(super) fn is_at_rest(&self) -> bool {
        let is_free = |it: &Visitor| !it.busy && it.waiting.is_empty() && it.unsent.is_none();
        self.queue.is_empty() && self.serving.is_empty() && self.clients.iter().flatten().all(is_free)
    }

    /// How many requests came to it, and how many of them nobody was to answer.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.served, self.quits)
    }
}

impl World {
    fn crew(&mut self) -> &mut Crew {
        self.crew.as_mut().expect("clients are served through lent sessions")
    }

    pub(super) fn send_lent(&mut self, client: usize, bytes: &[u8]) {
        let (now, limits) = (self.now, self.config.limits);
        let crew = self.crew();
        let visitor = crew.clients[client].get_or_insert_with(|| Visitor {
            intake: Intake::new(limits, now),
            waiting: VecDeque::new(),
            busy: false,
            unsent: None,
            gone: false,
        });
        if visitor.gone {
            return;
        }
        let input = visitor.intake.read(bytes, now);
        let rest = input.rest();
        while visitor.intake.skip(&rest, now) {
            let bytes = rest.bytes();
            let parsed = visitor.intake.look(&rest, |_| true);
            if let Parsed::Incomplete { needed } = parsed {
                assert!(needed > bytes.len(), "asks for bytes that are there");
                break;
            }
            let first_byte = visitor.intake.take(&rest, &parsed, now);
            if let Parsed::Request { request: Request::Quit, .. } = parsed {
                crew.quits += 1;
                visitor.intake.close();
            } else if let Some(request) = KeptRequest::new(&parsed, bytes) {
                assert_eq!(
                    std::mem::discriminant(&request.parsed(limits)),
                    std::mem::discriminant(&without_hangup(parsed)),
                    "what is kept is something else"
                );
                let taken = Taken { first_byte, created: now, client: client as u64, ..Taken::default() };
                visitor.waiting.push_back(Job { client, request, taken });
            }
        }
        let left = rest.bytes().len();
        visitor.intake.keep(input, left);
        self.go_on(client);
    }

    /// The client is gone: what waits of it is still served.
    pub(super) fn lose_lent(&mut self, client: usize) {
        let Some(visitor) = &mut self.crew().clients[client] else { return };
        let is_cut_off = visitor.unsent.take().is_some();
        visitor.busy &= !is_cut_off;
        visitor.gone = true;
        visitor.intake.close();
        self.dataplane.counters_mut().requests_orphaned += u64::from(is_cut_off);
        self.go_on(client);
    }

    fn go_on(&mut self, client: usize) {
        let now = self.now;
        let crew = self.crew();
        let Some(visitor) = &mut crew.clients[client] else { return };
        if visitor.busy {
            return;
        }
        let Some(mut job) = visitor.waiting.pop_front() else { return };
        visitor.busy = true;
        job.taken.enqueued = now;
        if crew.queue.len() < QUEUE_MAX {
            crew.queue.push_back(job);
        } else {
            self.serve(job, Some(Fault::Queue));
        }
    }

    fn serve(&mut self, mut job: Job, denied: Option<Fault>) {
        job.taken.dequeued = self.now;
        let Self { dataplane, crew: Some(crew), config: Config { limits, .. }, .. } = self else { return };
        let session = crew.free.pop().unwrap_or_else(|| dataplane.lend_session(job.taken.dequeued));
        dataplane.serve(session, job.request.parsed(*limits), job.taken, denied);
        crew.served += 1;
        crew.serving.push((session, job));
    }

    /// Answers what is complete, and takes what waits. Returns whether there was anything.
    pub(super) fn serve_lent(&mut self) -> bool {
        let mut any = self.write_unsent();
        while let Some((session, job)) = self.next_answerable() {
            any = true;
            self.answer_lent(session, &job);
        }
        loop {
            let timeout_ns = self.config.timeout_ns;
            let (now, crew) = (self.now, self.crew());
            let is_late = |job: &Job| job.taken.enqueued.plus(timeout_ns) <= now;
            let denied = crew.queue.front().is_some_and(is_late).then_some(Fault::Timeout);
            if denied.is_none() && crew.serving.len() >= CAPACITY {
                return any;
            }
            let Some(job) = crew.queue.pop_front() else { return any };
            self.serve(job, denied);
            any = true;
        }
    }

    fn next_answerable(&mut self) -> Option<(SessionId, Job)> {
        let Self { dataplane, crew: Some(crew), .. } = self else { return None };
        let place =
            crew.serving.iter().position(|(session, _)| dataplane.lent_reply(*session).is_some())?;
        Some(crew.serving.swap_remove(place))
    }

    fn answer_lent(&mut self, session: SessionId, job: &Job) {
        let reply = self.dataplane.lent_reply(session).expect("it is answerable").len();
        assert!(
            !self.dataplane.is_given_up() || self.dataplane.is_owed_replies(),
            "what is given up is owed"
        );
        let is_gone = self.crew().clients[job.client].as_ref().is_some_and(|it| it.gone);
        if is_gone && reply > 0 {
            self.dataplane.abandon_lent(session);
        } else {
            let count = self.clients[job.client].accepts(reply);
            let unsent = self.dataplane.release_lent(session, count, self.now);
            assert!(count == reply || unsent.is_some(), "what the kernel did not take is lost");
            if let Some(visitor) = &mut self.crew().clients[job.client] {
                visitor.unsent = unsent;
            }
        }
        let crew = self.crew();
        crew.free.push(session);
        if let Some(visitor) = &mut crew.clients[job.client] {
            visitor.busy = visitor.unsent.is_some();
        }
        self.go_on(job.client);
    }

    /// Writes what the kernel takes now of what it did not take before.
    fn write_unsent(&mut self) -> bool {
        let mut any = false;
        for client in 0..CLIENTS {
            let Some(visitor) = &mut self.crew().clients[client] else { continue };
            let Some(mut unsent) = visitor.unsent.take() else { continue };
            while !unsent.is_empty() {
                let count = self.clients[client].accepts(unsent.output().len());
                unsent.advance(count);
                if count == 0 {
                    break;
                }
                any = true;
            }
            let is_over = unsent.is_empty();
            if is_over {
                self.dataplane.note_unsent_written(&mut unsent, self.now);
            }
            if let Some(visitor) = &mut self.crew().clients[client] {
                visitor.busy = !is_over;
                visitor.unsent = (!is_over).then_some(unsent);
            }
            if is_over {
                self.go_on(client);
            }
        }
        any
    }

    /// When the first in the queue is late.
    pub(super) fn lent_due(&self) -> Option<Instant> {
        let job = self.crew.as_ref()?.queue.front()?;
        Some(job.taken.enqueued.plus(self.config.timeout_ns))
    }
}

/// A refusal that ends a connection is kept as a refusal.
fn without_hangup(parsed: Parsed<'_>) -> Parsed<'_> {
    match parsed {
        Parsed::Hangup { refusal: Some(refusal) } => Parsed::Refused { refusal, silent: false, len: 0 },
        parsed => parsed,
    }
}
