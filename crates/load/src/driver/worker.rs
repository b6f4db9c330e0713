//! The event loop of one thread.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mio::{Events, Poll, Token};
use weir_timing::{Distribution, Instant};

use super::clock::Clock;
use super::link::{Context, Link};
use super::timer::Timer;
use crate::config::Config;
use crate::pacing::agenda::Agenda;
use crate::pacing::pace::Pace;
use crate::recorder::intervals::{Gathering, Interval};
use crate::recorder::phase::{NEVER, Timeline};
use crate::recorder::{PhaseCounts, Recorder};
use crate::workload::mix::{Prefill, RECONNECT, Source, rng};
use crate::workload::replay::TraceError;

/// The links of one thread, and what they have recorded.
#[derive(Debug)]
pub(crate) struct Worker {
    clock: Clock,
    poll: Poll,
    timer: Timer,
    /// With the numbers of their connections, which are consecutive.
    links: Vec<(u32, Link)>,
    agenda: Agenda,
    /// Links that have something to send.
    listed: Vec<usize>,
    recorder: Recorder,
    number: usize,
    timeout_ns: u64,
    /// For how long a backlog is sent after the end.
    drain_ns: u64,
    tick_ns: u64,
    /// When it last had nothing left to do.
    ended: Instant,
}

/// What the threads and the one that conducts them tell each other during a phase.
#[derive(Debug)]
pub(crate) struct Conduct {
    end_ns: AtomicU64,
    watched: Mutex<Observed>,
    gathered: Option<Mutex<Gathering>>,
}

/// What somebody who watches is shown.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) counts: PhaseCounts,
    pub(crate) recent: Distribution,
}

impl Conduct {
    /// No request is issued at or after `end`.
    pub(crate) fn new(end: Instant) -> Conduct {
        let end_ns = AtomicU64::new(end.as_nanos());
        Conduct { end_ns, watched: Mutex::default(), gathered: None }
    }

    /// Response times are gathered by second from this number of threads.
    pub(crate) fn gather(&mut self, threads: usize) {
        self.gathered = Some(Mutex::new(Gathering::new(threads)));
    }

    pub(crate) fn end(&self) -> Instant {
        Instant::from_nanos(self.end_ns.load(Ordering::Relaxed))
    }

    /// Brings the end forward. Threads notice within [`TICK_NS_MAX`].
    pub(crate) fn end_by(&self, end: Instant) {
        self.end_ns.fetch_min(end.as_nanos(), Ordering::Relaxed);
    }

    /// Takes what was observed since the last call.
    pub(crate) fn take_observed(&self) -> Observed {
        std::mem::take(&mut *lock(&self.watched))
    }

    /// Takes the seconds that are over for all threads.
    pub(crate) fn take_intervals(&self) -> Vec<Interval> {
        self.gathered.as_ref().map(|gathered| lock(gathered).take_over()).unwrap_or_default()
    }
}

impl Worker {
    /// Worker `number` over `links`, each with the number of its connection.
    pub(crate) fn new(
        number: usize,
        clock: Clock,
        mut links: Vec<(u32, Link)>,
        config: &Config,
    ) -> io::Result<Worker> {
        let poll = Poll::new()?;
        for (index, (_, link)) in links.iter_mut().enumerate() {
            link.register(poll.registry(), Token(index))?;
        }
        let timer = Timer::new(poll.registry(), TIMER)?;
        let timeout_ns = config.timeout.as_nanos() as u64;
        let mut recorder = Recorder::new(true);
        recorder.set_late_after(config.late_after.as_nanos() as u64);
        Ok(Worker {
            clock,
            poll,
            timer,
            listed: Vec::with_capacity(links.len()),
            links,
            agenda: Agenda::default(),
            recorder,
            number,
            timeout_ns,
            drain_ns: 0,
            tick_ns: (timeout_ns / 4).clamp(TICK_NS_MIN, TICK_NS_MAX),
            ended: Instant::ZERO,
        })
    }

    /// Sets this worker's share of the keys once, and returns when all are answered or lost.
    pub(crate) fn prefill(&mut self, config: &Config, conduct: &Conduct) -> io::Result<()> {
        // As many requests as fill a good write: one at a time would be slow, all at once would need their memory.
        let depth = (PREFILL_BYTES / config.request_bytes_max()).clamp(1, PREFILL_DEPTH_MAX);
        self.begin(conduct, |id, _| (Source::Prefill(Prefill::new(config, id)), Pace::eager(), depth));
        self.serve(conduct)
    }

    /// Keeps the load up until the timeline's end, and returns when all requests are answered or lost.
    pub(crate) fn load(&mut self, config: &Config, timeline: Timeline, conduct: &Conduct) -> io::Result<()> {
        self.recorder.set_timeline(timeline);
        if conduct.gathered.is_some() {
            self.recorder.keep_intervals();
        }
        self.drain_ns = if config.is_open() { self.timeout_ns } else { 0 };
        let first = self.first_connection();
        let mine = first..first + self.links.len() as u32;
        self.agenda = match config.plan() {
            Some(plan) => Agenda::open(&plan, mine, timeline.warmup),
            None => Agenda::closed(self.links.len() * config.depth),
        };
        if let Some(every) = &config.content.reconnect_after {
            for (id, link) in &mut self.links {
                link.connection.set_renewal(every.clone(), rng(config.seed, *id, RECONNECT));
            }
        }
        self.wait_for(timeline.warmup)?;
        self.begin(conduct, |id, now| {
            let mut pace = Pace::new(config, id);
            pace.begin(now, config.depth, (f64::from(id) + 0.5) / config.connections as f64);
            (Source::of_load(config, id), pace, config.depth)
        });
        self.serve(conduct)
    }

    /// Does nothing until `moment`.
    fn wait_for(&mut self, moment: Instant) -> io::Result<()> {
        let mut events = Events::with_capacity(1);
        loop {
            if self.clock.now() >= moment {
                return Ok(());
            }
            self.wait(&mut events, moment)?;
        }
    }

    /// Accounts for what was left when this thread ended, which may be before the others did: until the `end` of the measured phase it
    /// waited, and what became due in an open loop it did not send.
    pub(crate) fn close(&mut self, end: Instant) {
        self.recorder.set_end(end);
        self.recorder.record_wait(self.ended, end);
        for (_, link) in &mut self.links {
            link.connection.abandon(&mut self.recorder);
        }
        // It alone drains: only an open loop has arrivals.
        if self.drain_ns == 0 {
            return;
        }
        let first = self.first_connection();
        let until = Instant::from_nanos(end.as_nanos().saturating_sub(1));
        while let Some(arrival) = self.agenda.pop_due(until) {
            let link = &mut self.links[(arrival.connection - first) as usize].1;
            link.handle_unnoticed(arrival.intended, &mut self.recorder);
        }
    }

    /// Why the trace that is replayed ended before its end.
    pub(crate) fn trace_fault(&self) -> Option<TraceError> {
        self.links.first().and_then(|(_, link)| link.connection.trace_fault())
    }

    /// What was recorded.
    pub(crate) fn into_recorder(self) -> Recorder {
        self.recorder
    }

    fn first_connection(&self) -> u32 {
        self.links.first().map_or(0, |(id, _)| *id)
    }

    fn begin(&mut self, conduct: &Conduct, source: impl Fn(u32, Instant) -> (Source, Pace, usize)) {
        let end = conduct.end();
        self.each_link(end, |_, id, link, context| {
            let (source, pace, depth) = source(id, context.now);
            link.begin(source, pace, depth, context);
        });
        for (id, link) in &mut self.links {
            note_ready(*id, link, &mut self.agenda);
        }
    }

    fn serve(&mut self, conduct: &Conduct) -> io::Result<()> {
        let mut end = conduct.end();
        let mut issue_until = end.plus(self.drain_ns);
        let mut events = Events::with_capacity((self.links.len() + 1).min(EVENTS_MAX));
        let mut shown = self.recorder.total();
        let mut next_tick = self.clock.now().plus(self.tick_ns);
        let mut is_ending = false;
        loop {
            let now = self.clock.now();
            if now >= next_tick {
                next_tick = now.plus(self.tick_ns);
                end = self.tick(now, issue_until, conduct);
                self.show(now, conduct, &mut shown);
            }
            self.dispatch(now, end, issue_until);
            if now >= end && !is_ending {
                is_ending = true;
                for (_, link) in &mut self.links {
                    if self.drain_ns == 0 {
                        link.connection.abandon(&mut self.recorder);
                    }
                    link.connection.stop();
                }
            }
            // Only a backlog is sent after the end.
            issue_until = end.plus(self.drain_ns);
            if now >= issue_until {
                self.links.iter_mut().for_each(|(_, link)| link.connection.abandon(&mut self.recorder));
            }
            if self.links.iter().all(|(_, link)| link.is_done()) {
                break;
            }
            let wake = if is_ending { next_tick } else { self.next_due().min(next_tick).min(end) };
            self.wait(&mut events, wake)?;
            self.handle_events(&events, issue_until);
        }
        self.ended = self.clock.now();
        self.tick(self.ended, issue_until, conduct);
        self.show(NEVER, conduct, &mut shown);
        Ok(())
    }

    fn next_due(&self) -> Instant {
        self.agenda.next_at().unwrap_or(NEVER)
    }

    /// Tells links of what is due, and has them send it.
    fn dispatch(&mut self, now: Instant, end: Instant, issue_until: Instant) {
        let until = now.min(Instant::from_nanos(end.as_nanos().saturating_sub(1)));
        if self.next_due() > until || now >= issue_until {
            return;
        }
        let first = self.first_connection();
        for _ in 0..DISPATCHED_MAX {
            let Some(arrival) = self.agenda.pop_due(until) else { break };
            let index = (arrival.connection - first) as usize;
            let link = &mut self.links[index].1;
            link.handle_due(arrival.intended, now, &mut self.recorder);
            if !link.is_listed {
                link.is_listed = true;
                self.listed.push(index);
            }
        }
        let mut listed = std::mem::take(&mut self.listed);
        let (mut context, links, _) = self.split(issue_until);
        // What was due in time is sent, even if the end has come meanwhile.
        context.now = now;
        for index in listed.drain(..) {
            let link = &mut links[index].1;
            link.is_listed = false;
            link.issue(&mut context);
        }
        self.listed = listed;
    }

    /// Waits for events, until `wake` at most.
    fn wait(&mut self, events: &mut Events, wake: Instant) -> io::Result<()> {
        let now = self.clock.now();
        let at_most = self.timer.set(now, wake)?;
        match self.poll.poll(events, at_most) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
            polled => polled?,
        }
        self.recorder.record_wait(now, self.clock.now());
        Ok(())
    }

    fn handle_events(&mut self, events: &Events, issue_until: Instant) {
        let (mut context, links, agenda) = self.split(issue_until);
        for event in events {
            // The timer's event only ends the wait.
            let Some((id, link)) = links.get_mut(event.token().0) else { continue };
            link.handle_event(event, &mut context);
            note_ready(*id, link, agenda);
        }
    }

    /// Looks after deadlines and reconnections, and returns the end of issuing, which may have been brought forward.
    fn tick(&mut self, now: Instant, issue_until: Instant, conduct: &Conduct) -> Instant {
        let end = conduct.end();
        self.recorder.set_end(end);
        self.each_link(issue_until, |token, _, link, context| link.handle_tick(now, token, context));
        for (id, link) in &mut self.links {
            note_ready(*id, link, &mut self.agenda);
        }
        end
    }

    /// Publishes what was recorded since it was last shown. Nothing is recorded any more for a second that was over at `now`.
    fn show(&mut self, now: Instant, conduct: &Conduct, shown: &mut PhaseCounts) {
        if let Some(gathered) = &conduct.gathered {
            let intervals = self.recorder.take_intervals(now);
            lock(gathered).publish(self.number, &intervals, self.recorder.second_at(now));
        }
        let total = self.recorder.total();
        let mut observed = lock(&conduct.watched);
        observed.counts.add(total.since(*shown));
        self.recorder.take_recent(&mut observed.recent);
        *shown = total;
    }

    fn each_link(
        &mut self,
        issue_until: Instant,
        mut visit: impl FnMut(Token, u32, &mut Link, &mut Context<'_>),
    ) {
        let (mut context, links, _) = self.split(issue_until);
        for (index, (id, link)) in links.iter_mut().enumerate() {
            visit(Token(index), *id, link, &mut context);
        }
    }

    fn split(&mut self, issue_until: Instant) -> (Context<'_>, &mut [(u32, Link)], &mut Agenda) {
        let context = Context {
            clock: self.clock,
            now: self.clock.now(),
            registry: self.poll.registry(),
            recorder: &mut self.recorder,
            issue_until,
            timeout: Duration::from_nanos(self.timeout_ns),
        };
        (context, &mut self.links, &mut self.agenda)
    }
}

/// Puts down when the clients of a link that began to think will be ready.
fn note_ready(id: u32, link: &mut Link, agenda: &mut Agenda) {
    while let Some(ready) = link.connection.pace().pop_ready() {
        agenda.add(id, ready);
    }
}

/// Nothing that can panic is done while the lock is held, and counts are whole at any time.
fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// How long a thread may leave deadlines, reconnections and news from the conductor unnoticed.
pub(crate) const TICK_NS_MAX: u64 = 100_000_000;
const TICK_NS_MIN: u64 = 1_000_000;
const EVENTS_MAX: usize = 1024;
/// At most this many requests become due in one turn; then replies are looked after again.
const DISPATCHED_MAX: usize = 1024;
/// No link has this number.
const TIMER: Token = Token(usize::MAX - 1);
const PREFILL_BYTES: usize = 16 << 10;
const PREFILL_DEPTH_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::Settings;
    use crate::connection::Connection;
    use crate::pacing::schedule::Process;
    use crate::workload::Workload;

    /// What a worker without a connection that works has recorded of ten seconds: it ends at their beginning.
    fn recorded(settings: Settings) -> Recorder {
        let config = Config::check(settings).expect("the settings are valid");
        let workload = Arc::new(Workload::new(&config, 7, None));
        let link = Link::given_up(Connection::new(0, "here:1".into(), workload));
        let clock = Clock::start();
        let mut worker =
            Worker::new(0, clock, vec![(0, link)], &config).expect("the kernel has a poll to give");
        let measured = clock.now();
        let timeline = Timeline { warmup: measured, measured, end: measured.plus(10_000_000_000) };
        let conduct = Conduct::new(timeline.end);
        worker.load(&config, timeline, &conduct).expect("the kernel can be asked for events");
        worker.close(timeline.end);
        let mut all = Recorder::new(false);
        all.set_timeline(timeline);
        all.merge(worker.into_recorder());
        all
    }

    #[test]
    fn a_thread_that_ends_before_the_others_waits_from_then_on() {
        let recorder = recorded(Settings::example());
        let waited_ns = recorder.threads_waited_ns()[0];
        assert!((9_000_000_000..=10_000_000_000).contains(&waited_ns), "{waited_ns}");
    }

    #[test]
    fn what_becomes_due_after_a_thread_has_ended_is_never_sent() {
        let pacing = Settings::offered("1000", Process::Fixed);
        let recorder = recorded(Settings { pacing, ..Settings::example() });
        assert_eq!((recorder.scheduled().arrivals, recorder.scheduled().unsent), (10_000, 10_000));
    }
}
