//! The event loop of one thread.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mio::{Events, Poll, Token};
use weir_timing::{Distribution, Instant};

use super::clock::Clock;
use super::link::{Context, Link};
use crate::config::Config;
use crate::mix::{Prefill, RECONNECT, Source, rng};
use crate::phase::Timeline;
use crate::recorder::{PhaseCounts, Recorder};
use crate::replay::TraceError;

/// The links of one thread, and what they have recorded.
#[derive(Debug)]
pub(crate) struct Worker {
    clock: Clock,
    poll: Poll,
    links: Vec<(u32, Link)>,
    recorder: Recorder,
    timeout: Duration,
    tick_ns: u64,
}

/// What the threads and the one that conducts them tell each other during a phase.
#[derive(Debug)]
pub(crate) struct Conduct {
    end_ns: AtomicU64,
    watched: Option<Mutex<Observed>>,
}

/// What somebody who watches is shown.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) counts: PhaseCounts,
    pub(crate) recent: Distribution,
}

impl Conduct {
    /// No request is issued at or after `end`.
    pub(crate) fn new(end: Instant, watched: bool) -> Conduct {
        Conduct { end_ns: AtomicU64::new(end.as_nanos()), watched: watched.then(Mutex::default) }
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
        self.watched.as_ref().map(|observed| std::mem::take(&mut *lock(observed))).unwrap_or_default()
    }
}

impl Worker {
    /// A worker over `links`, each with the number of its connection. `watched`: whether it keeps recent response times.
    pub(crate) fn new(
        clock: Clock,
        mut links: Vec<(u32, Link)>,
        config: &Config,
        watched: bool,
    ) -> io::Result<Worker> {
        let poll = Poll::new()?;
        for (index, (_, link)) in links.iter_mut().enumerate() {
            link.register(poll.registry(), Token(index))?;
        }
        let tick_ns = (config.timeout.as_nanos() as u64 / 4).clamp(TICK_NS_MIN, TICK_NS_MAX);
        Ok(Worker { clock, poll, links, recorder: Recorder::new(watched), timeout: config.timeout, tick_ns })
    }

    /// Sets this worker's share of the keys once, and returns when all are answered or lost.
    pub(crate) fn prefill(&mut self, config: &Config, conduct: &Conduct) -> io::Result<()> {
        // As many requests as fill a good write: one at a time would be slow, all at once would need their memory.
        let depth = (PREFILL_BYTES / config.request_bytes_max()).clamp(1, PREFILL_DEPTH_MAX);
        self.serve(conduct, |id| (Source::Prefill(Prefill::new(config, id)), depth))
    }

    /// Keeps the load up until the timeline's end, and returns when all requests are answered or lost.
    pub(crate) fn load(&mut self, config: &Config, timeline: Timeline, conduct: &Conduct) -> io::Result<()> {
        self.recorder.set_timeline(timeline);
        if let Some(every) = &config.content.reconnect_after {
            for (id, link) in &mut self.links {
                link.connection.set_renewal(every.clone(), rng(config.seed, *id, RECONNECT));
            }
        }
        self.serve(conduct, |id| (Source::of_load(config, id), config.depth))
    }

    /// Why the trace that is replayed ended before its end.
    pub(crate) fn trace_fault(&self) -> Option<TraceError> {
        self.links.first().and_then(|(_, link)| link.connection.trace_fault())
    }

    /// What was recorded.
    pub(crate) fn into_recorder(self) -> Recorder {
        self.recorder
    }

    fn serve(&mut self, conduct: &Conduct, source: impl Fn(u32) -> (Source, usize)) -> io::Result<()> {
        let mut end = conduct.end();
        self.each_link(end, |_, id, link, context| {
            let (source, depth) = source(id);
            link.begin(source, depth, context);
        });
        let mut events = Events::with_capacity(self.links.len().clamp(1, EVENTS_MAX));
        let mut shown = self.recorder.total();
        let mut next_tick = self.clock.now().plus(self.tick_ns);
        loop {
            let now = self.clock.now();
            if now >= next_tick {
                next_tick = now.plus(self.tick_ns);
                end = self.tick(now, conduct);
                self.show(conduct, &mut shown);
            }
            let ending = now >= end;
            if ending {
                self.each_link(end, |_, _, link, _| link.connection.stop());
            }
            if self.links.iter().all(|(_, link)| link.is_done()) {
                break;
            }
            let wake = if ending { next_tick } else { next_tick.min(end) };
            self.wait(&mut events, wake.saturating_since(now))?;
            self.handle_events(&events, end);
        }
        self.tick(self.clock.now(), conduct);
        self.show(conduct, &mut shown);
        Ok(())
    }

    fn wait(&mut self, events: &mut Events, nanos: u64) -> io::Result<()> {
        match self.poll.poll(events, Some(Duration::from_nanos(nanos))) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            polled => polled,
        }
    }

    fn handle_events(&mut self, events: &Events, end: Instant) {
        let mut context = Context {
            clock: self.clock,
            now: self.clock.now(),
            registry: self.poll.registry(),
            recorder: &mut self.recorder,
            end,
            timeout: self.timeout,
        };
        for event in events {
            self.links[event.token().0].1.handle_event(event, &mut context);
        }
    }

    /// Looks after deadlines and reconnections, and returns the end of issuing, which may have been brought forward.
    fn tick(&mut self, now: Instant, conduct: &Conduct) -> Instant {
        let end = conduct.end();
        self.recorder.set_end(end);
        self.each_link(end, |token, _, link, context| link.handle_tick(now, token, context));
        end
    }

    /// Publishes what was recorded since it was last shown.
    fn show(&mut self, conduct: &Conduct, shown: &mut PhaseCounts) {
        let Some(observed) = &conduct.watched else { return };
        let total = self.recorder.total();
        let mut observed = lock(observed);
        observed.counts.add(total.since(*shown));
        self.recorder.take_recent(&mut observed.recent);
        *shown = total;
    }

    fn each_link(&mut self, end: Instant, mut visit: impl FnMut(Token, u32, &mut Link, &mut Context<'_>)) {
        let mut context = Context {
            clock: self.clock,
            now: self.clock.now(),
            registry: self.poll.registry(),
            recorder: &mut self.recorder,
            end,
            timeout: self.timeout,
        };
        for (index, (id, link)) in self.links.iter_mut().enumerate() {
            visit(Token(index), *id, link, &mut context);
        }
    }
}

/// Nothing that can panic is done while the lock is held, and counts are whole at any time.
fn lock(observed: &Mutex<Observed>) -> std::sync::MutexGuard<'_, Observed> {
    observed.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// How long a thread may leave deadlines, reconnections and news from the conductor unnoticed.
pub(crate) const TICK_NS_MAX: u64 = 100_000_000;
const TICK_NS_MIN: u64 = 1_000_000;
const EVENTS_MAX: usize = 1024;
const PREFILL_BYTES: usize = 16 << 10;
const PREFILL_DEPTH_MAX: usize = 32;
