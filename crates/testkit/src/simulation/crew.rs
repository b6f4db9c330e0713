//! The second door: clients whose requests the driver takes itself, lets wait in a queue, and hands in on lent sessions.
//!
//! ```text
//!   client ─▶ Intake ─▶ waiting (one at a time) ─▶ queue ─▶ lend_session, serve ─▶ lent_reply ─▶ client
//!                                                   │ too many wait, or too long        │ what the kernel did not take
//!                                                   └─▶ a dataplane without servers      └─▶ Unsent
//! ```
//!
//! It does what a worker and the network thread of the threaded engines do, one after the other, with the same intake and the same
//! [`KeptRequest`]. There is one of them in a world, which has one loop then.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::Rng;
use weir_dataplane::{
    Arrivals, Budget, Config, Dataplane, Event, Fault, Intake, KeptRequest, Report, SessionId, Taken, Unsent,
};
use weir_protocol::{Parsed, Request};
use weir_routing::Table;
use weir_timing::Instant;

use super::client::Arrival;
use super::rows::{self, Rows};
use super::scenario::Lent;
use super::script;
use super::watch::{Watch, Watching};
use super::world::{Happening, World};

/// A session takes this many requests beside the one in service.
const WAITING_MAX: usize = 8;

pub(super) struct Crew {
    lent: Lent,
    watching: Watching,
    config: Config,
    /// Where requests are answered that nobody serves.
    network: Dataplane,
    watch: Watch,
    network_session: SessionId,
    visitors: Vec<Visitor>,
    queue: VecDeque<Job>,
    free: Vec<SessionId>,
    serving: Vec<(SessionId, Job)>,
}

/// One client as the driver knows it.
struct Visitor {
    intake: Intake,
    arrivals: Arrivals,
    waiting: VecDeque<Job>,
    /// It has a request in the queue or in service, or its reply is not all with the kernel.
    busy: bool,
    unsent: Option<Unsent>,
    gone: bool,
}

struct Job {
    client: usize,
    request: KeptRequest,
    taken: Taken,
    /// How long servers might take when it was put into the queue.
    timeout_ns: u64,
}

impl Crew {
    pub(super) fn new(
        (lent, watching): (Lent, Watching),
        clients: usize,
        (config, budget): (&Config, &Arc<Budget>),
        table: &Arc<Table>,
    ) -> Self {
        let mut network = Dataplane::without_servers(config.clone(), Arc::clone(table), Instant::ZERO);
        network.share_budget(budget);
        let visitor = |_| Visitor {
            intake: Intake::new(config.limits, Instant::ZERO),
            arrivals: Arrivals::default(),
            waiting: VecDeque::new(),
            busy: false,
            unsent: None,
            gone: false,
        };
        Self {
            lent,
            watching,
            config: config.clone(),
            network_session: network.lend_session(Instant::ZERO),
            watch: Watch::new(watching, &mut network, config.seed ^ 1),
            network,
            visitors: (0..clients).map(visitor).collect(),
            queue: VecDeque::new(),
            free: Vec::new(),
            serving: Vec::new(),
        }
    }

    pub(super) fn take_table(&mut self, table: &Arc<Table>, now: Instant) {
        self.network.handle_table_unconnected(Arc::clone(table), now);
    }

    pub(super) fn take_timeout(&mut self, timeout_ns: u64) {
        self.config.timeout_ns = timeout_ns;
        self.network.set_timeout(timeout_ns);
    }

    /// Whether a client may connect.
    pub(super) fn accept(&mut self) -> bool {
        let counters = self.network.counters_mut();
        if counters.sessions_accepted - counters.sessions_closed >= self.config.sessions_max as u64 {
            counters.sessions_refused += 1;
            return false;
        }
        counters.sessions_accepted += 1;
        true
    }

    pub(super) fn wants_read(&self, client: usize) -> bool {
        self.visitors[client].intake.wants_read()
    }

    /// When the time of the first request in the queue is up, or the network thread wants to know the time.
    pub(super) fn timeout_ns(&self) -> Option<u64> {
        let front = self.queue.front().map(|job| Self::due(job).as_nanos());
        front.into_iter().chain(self.network.poll_timeout().map(Instant::as_nanos)).min()
    }

    fn due(job: &Job) -> Instant {
        job.taken.enqueued.plus(job.timeout_ns)
    }

    /// What stands in the output for a client.
    pub(super) fn output(&self, client: usize) -> &[u8] {
        self.visitors[client].unsent.as_ref().map_or(&[], Unsent::output)
    }

    /// Requests that were handed in and are not answered.
    pub(super) fn in_service(&self) -> usize {
        self.serving.len()
    }

    /// A turn is over.
    pub(super) fn end_turn(&mut self, now: Instant) -> Result<(), String> {
        self.watch.end_turn(&mut self.network, now)
    }

    /// The driver ends.
    pub(super) fn finish(&mut self, now: Instant) -> Result<(), String> {
        self.watch.finish(&mut self.network, now)
    }

    /// What the network thread has said of itself is what it reports.
    pub(super) fn verdict(&self, now: Instant) -> Result<(), String> {
        self.watch.verdict(&self.network.report(now), true)
    }

    pub(super) fn rows(&self) -> &Rows {
        self.watch.rows()
    }

    /// What was answered without a server.
    pub(super) fn report(&mut self, now: Instant) -> Report {
        self.network.handle_time(now);
        let mut report = self.network.report(now);
        // Of servers it knows nothing.
        report.servers.clear();
        report
    }

    /// Nothing waits, and nothing is in service.
    pub(super) fn is_quiet(&self) -> bool {
        let is_quiet = |it: &Visitor| !it.busy && it.waiting.is_empty() && it.unsent.is_none();
        self.queue.is_empty()
            && self.serving.is_empty()
            && self.network.is_quiet()
            && self.visitors.iter().all(is_quiet)
    }

    /// Cuts a client's bytes into requests; those whose turn it is go to the queue. `None`: those that were kept.
    fn cut(&mut self, client: usize, bytes: Option<&[u8]>, value_bytes_max: usize, now: Instant) {
        let Self { visitors, network, watching, .. } = self;
        let Visitor { intake, arrivals, waiting, .. } = &mut visitors[client];
        intake.set_value_bytes_max(value_bytes_max);
        let input = match bytes {
            Some(bytes) => {
                if watching.arrivals {
                    arrivals.note(intake.since(), now, rows::arrival(now));
                }
                intake.read(bytes, now)
            }
            None => intake.reread(),
        };
        let rest = input.rest();
        while !intake.is_paused() && intake.skip(&rest, now) {
            let bytes = rest.bytes();
            let parsed = intake.look(&rest, |_| true);
            if let Parsed::Incomplete { .. } = parsed {
                break;
            }
            let since = intake.take(&rest, &parsed, now);
            if let Parsed::Request { request: Request::Quit, .. } = parsed {
                network.counters_mut().requests += 1;
                intake.close();
            } else if let Some(request) = KeptRequest::new(&parsed, bytes) {
                let taken = Taken {
                    first_byte: since,
                    created: now,
                    client: client as u64,
                    arrived: arrivals.of(since),
                    ..Taken::default()
                };
                waiting.push_back(Job { client, request, taken, timeout_ns: 0 });
                if waiting.len() >= WAITING_MAX {
                    intake.pause();
                    network.counters_mut().sessions_paused += 1;
                }
            }
        }
        let left = rest.bytes().len();
        intake.keep(input, left);
    }

    /// A client's next request is put into the queue, if it is its turn. Gives it back if too many wait.
    fn go_on(&mut self, client: usize, now: Instant) -> Option<Job> {
        let visitor = &mut self.visitors[client];
        if visitor.busy {
            return None;
        }
        let mut job = visitor.waiting.pop_front()?;
        visitor.busy = true;
        job.taken.enqueued = now;
        job.timeout_ns = self.config.timeout_ns;
        job.taken.queue_length = self.queue.len() as u64;
        if self.queue.len() >= self.lent.length_max {
            return Some(job);
        }
        self.queue.push_back(job);
        None
    }
}

impl World {
    /// The driver of lent sessions, if this world has one.
    pub(super) fn crew(&mut self) -> &mut Crew {
        self.crew.as_mut().expect("this world's clients are served through lent sessions")
    }

    pub(super) fn visitor_sends(&mut self, client: usize, bytes: Option<&[u8]>) {
        let (now, value_bytes_max) = (self.now(), self.loops[0].dataplane.value_bytes_max());
        self.crew().cut(client, bytes, value_bytes_max, now);
        self.visitor_goes_on(client);
    }

    pub(super) fn visitor_finishes(&mut self, client: usize) {
        self.crew().visitors[client].intake.end_input();
        self.visitor_goes_on(client);
    }

    /// Its next request, if it has one, goes to the queue or is refused; and it is read again, or its connection is closed.
    fn visitor_goes_on(&mut self, client: usize) {
        loop {
            let now = self.now();
            let Some(job) = self.crew().go_on(client, now) else { break };
            self.crew().network.counters_mut().queue_refusals_full += 1;
            self.deny(job, Fault::Queue);
        }
        let visitor = &mut self.crew().visitors[client];
        if visitor.gone {
            return;
        }
        if visitor.intake.is_paused() && visitor.waiting.len() <= WAITING_MAX / 2 {
            visitor.intake.resume();
            self.visitor_sends(client, None);
            let visitor = &mut self.crew().visitors[client];
            if !visitor.intake.is_paused() {
                if visitor.intake.has_ended_input() {
                    return self.visitor_finishes(client);
                }
                self.happens(self.now_ns, Happening::Readable(client));
            }
            return;
        }
        if visitor.intake.is_closed() && !visitor.busy {
            self.close_visitor(client);
        }
    }

    /// The client's connection is gone. Its requests are carried out, and its replies are dropped.
    pub(super) fn visitor_leaves(&mut self, client: usize) {
        let crew = self.crew();
        crew.network.counters_mut().sessions_closed += 1;
        let visitor = &mut crew.visitors[client];
        visitor.gone = true;
        if visitor.unsent.take().is_some() {
            visitor.busy = false;
            crew.network.counters_mut().requests_orphaned += 1;
            self.visitor_goes_on(client);
        }
    }

    /// The kernel takes more of what is left of a reply.
    pub(super) fn write_unsent(&mut self, client: usize) {
        let Some(mut unsent) = self.crew().visitors[client].unsent.take() else { return };
        while !unsent.is_empty() {
            let offered = unsent.output().len();
            let count = self.accepted(offered);
            self.show(client, unsent.output());
            self.clients[client].note_written(count);
            unsent.advance(count);
            if count < offered {
                self.crew().visitors[client].unsent = Some(unsent);
                return self.writable_later(client);
            }
        }
        let now = self.now();
        self.crew().network.note_unsent_written(&mut unsent, now);
        self.crew().visitors[client].busy = false;
        self.visitor_goes_on(client);
    }

    fn writable_later(&mut self, client: usize) {
        let delay_ns = self.rng.random_range(0..=self.scenario.conduct.delay_max_ns * 3);
        self.happens(self.now_ns + delay_ns, Happening::VisitorWritable(client));
    }

    /// The client looks at what stands in the output for it.
    fn show(&mut self, client: usize, output: &[u8]) {
        let seen = self.clients[client].see(output, self.now_ns, &mut self.history);
        self.must(seen.map_err(|error| format!("client {client}: {error}")));
    }

    /// What the driver does in a turn: answers what is complete, takes as much as it may serve at once, expires what waits too long.
    pub(super) fn crew_works(&mut self) {
        if self.crew.is_none() {
            return;
        }
        let now = self.now();
        self.crew().network.handle_time(now);
        loop {
            let mut any = self.answer_all();
            while let Some(job) = self.next_late(now) {
                self.crew().network.counters_mut().queue_timeouts += 1;
                self.deny(job, Fault::Timeout);
                any = true;
            }
            any |= self.take_some(now);
            if !any {
                return;
            }
        }
    }

    fn next_late(&mut self, now: Instant) -> Option<Job> {
        let crew = self.crew();
        let is_late = crew.queue.front().is_some_and(|job| Crew::due(job) <= now);
        is_late.then(|| crew.queue.pop_front()).flatten()
    }

    fn take_some(&mut self, now: Instant) -> bool {
        let mut any = false;
        loop {
            let Self { crew: Some(crew), .. } = self else { return any };
            if crew.serving.len() >= crew.lent.capacity {
                return any;
            }
            let Some(mut job) = crew.queue.pop_front() else { return any };
            any = true;
            job.taken.dequeued = now;
            self.serve_visitor(job, None);
        }
    }

    fn serve_visitor(&mut self, job: Job, denied: Option<Fault>) {
        let Self { crew: Some(crew), loops, .. } = self else { return };
        let dataplane = &mut loops[0].dataplane;
        let session = crew.free.pop().unwrap_or_else(|| dataplane.lend_session(job.taken.dequeued));
        dataplane.serve(session, job.request.parsed(crew.config.limits), job.taken, denied);
        crew.serving.push((session, job));
    }

    fn answer_all(&mut self) -> bool {
        let mut any = false;
        let mut place = 0;
        loop {
            let Self { crew: Some(crew), loops, .. } = self else { return any };
            let Some(&(session, _)) = crew.serving.get(place) else { return any };
            if loops[0].dataplane.lent_reply(session).is_none() {
                place += 1;
                continue;
            }
            any = true;
            let (session, job) = crew.serving.swap_remove(place);
            crew.free.push(session);
            self.is_given_up_with_reason();
            self.answer_visitor(&job, Some(session));
        }
    }

    /// Where nothing goes wrong nothing is given up, and what is given up is owed.
    fn is_given_up_with_reason(&self) {
        let dataplane = &self.loops[0].dataplane;
        let (is_given_up, is_owed) = (dataplane.is_given_up(), dataplane.is_owed_replies());
        self.ensure(!is_given_up || is_owed, || "what is given up is not owed".to_owned());
        let is_alone = self.crew.as_ref().is_some_and(|crew| crew.lent.capacity == 1);
        let waits_for_all = self.scenario.replicas == 1;
        self.ensure(!(is_given_up && is_alone && waits_for_all && self.scenario.is_calm()), || {
            "a request is given up where nothing is wrong".to_owned()
        });
    }

    /// Answers a request that nobody serves: a worker does, if it has found that out, or the network thread.
    fn deny(&mut self, mut job: Job, fault: Fault) {
        let now = self.now();
        job.taken.dequeued = now;
        if self.rng.random_bool(0.5) {
            return self.serve_visitor(job, Some(fault));
        }
        let crew = self.crew();
        let Crew { network, network_session, config, .. } = crew;
        network.serve(*network_session, job.request.parsed(config.limits), job.taken, Some(fault));
        while let Some(event) = network.poll_event() {
            if let Event::Stats { request, .. } = event {
                network.handle_stats(request, script::STATISTICS.to_vec(), now);
            }
        }
        while network.poll_client_output().is_some() {}
        self.answer_visitor(&job, None);
    }

    /// Writes the reply that is complete: the one on a lent session, or the one of the network thread.
    fn answer_visitor(&mut self, job: &Job, session: Option<SessionId>) {
        let (client, now) = (job.client, self.now());
        let crew = self.crew.as_ref().expect("somebody has taken the request");
        let (dataplane, id) = match session {
            Some(session) => (&self.loops[0].dataplane, session),
            None => (&crew.network, crew.network_session),
        };
        let reply = dataplane.lent_reply(id).map(<[u8]>::to_vec);
        let due = Crew::due(job);
        let is_gone = crew.visitors[client].gone;
        let Some(reply) = reply else { return self.ensure(false, || "a denied request waits".to_owned()) };
        self.was_in_time(job, due);
        let takes = !is_gone && !reply.is_empty();
        if takes {
            self.note(7, &reply);
            self.show(client, &reply);
        }
        let count = if takes { self.accepted(reply.len()) } else { 0 };
        let Self { crew: Some(crew), loops, .. } = self else { return };
        let dataplane = if session.is_some() { &mut loops[0].dataplane } else { &mut crew.network };
        if is_gone && !reply.is_empty() {
            dataplane.abandon_lent(id);
            crew.visitors[client].busy = false;
            return self.visitor_goes_on(client);
        }
        let unsent = dataplane.release_lent(id, count, now);
        self.clients[client].note_written(count);
        match unsent {
            None => {
                self.crew().visitors[client].busy = false;
                self.visitor_goes_on(client);
            }
            Some(unsent) => {
                self.crew().visitors[client].unsent = Some(unsent);
                if count < reply.len() { self.writable_later(client) } else { self.write_unsent(client) }
            }
        }
    }

    /// From when it was put into the queue. What waited for its key may have waited for another's whole time first. A decision that began
    /// to arrive in time and was complete too late leaves the other replicas a time of their own.
    fn was_in_time(&self, job: &Job, due: Instant) {
        let deadlines =
            if self.cut_off || self.scenario.replicas > 1 && !self.scenario.is_calm() { 2 } else { 1 };
        let longest_ns =
            (deadlines - 1) * self.scenario.config.timeout_ns + 2 * self.scenario.conduct.delay_max_ns;
        let due = due.max(Instant::from_nanos(self.loops[0].former_until_ns));
        let has_held = || self.loops[0].dataplane.report(self.now()).counters.writes_held > 0;
        self.ensure(self.now() <= due.plus(longest_ns) || has_held(), || {
            let Taken { enqueued, dequeued, .. } = job.taken;
            format!(
                "client {}: put into the queue at {enqueued:?}, taken at {dequeued:?}, answered now: {:?}",
                job.client, job.request
            )
        });
    }

    /// What has arrived from a client is handed in, as long as the driver wants to read.
    pub(super) fn read_visitor(&mut self, number: usize) {
        loop {
            if self.clients[number].session.is_none() {
                return;
            }
            if !self.crew().wants_read(number) {
                // A connection that is gone is noticed without reading.
                if matches!(self.clients[number].unread.back(), Some(Arrival::Vanished)) {
                    self.lose_client(number, session_of(number));
                }
                return;
            }
            match self.clients[number].unread.pop_front() {
                None => return,
                Some(Arrival::Bytes(bytes)) => {
                    self.note(1, &bytes);
                    let due_ns = self.due_ns();
                    let arrived = (self.now_ns, due_ns, &self.loops[0].table);
                    self.clients[number].note_read(bytes.len(), arrived, &mut self.history);
                    self.visitor_sends(number, Some(&bytes));
                }
                Some(Arrival::Finished) => return self.visitor_finishes(number),
                Some(Arrival::Vanished) => return self.lose_client(number, session_of(number)),
            }
        }
    }

    /// All that it asked is answered, and it asks no more.
    fn close_visitor(&mut self, number: usize) {
        if self.clients[number].session.is_none() {
            return;
        }
        let quit = self.clients[number].check_closed(None, false);
        self.quits += u64::from(matches!(quit, Ok(true)));
        self.must(quit.map(|_| ()).map_err(|error| format!("client {number}: {error}")));
        self.lose_client(number, session_of(number));
    }
}

/// The session that is noted of a client that the crew serves. It says that the client is connected, and is no dataplane's number.
pub(super) fn session_of(client: usize) -> SessionId {
    SessionId::from_index(client)
}
