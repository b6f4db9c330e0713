//! What one dataplane tells about one second.

use crate::{Counters, Dataplane, meter::report::worse_state, servers::backend::Backend};
use std::sync::Arc;
use weir_timing::{Distribution, Instant, Measurements, QueueReport};

/// One second of one dataplane. Requests belong to the second in which they were answered; counters, and the messages of servers, to
/// the one that ended last before they were handed out, which is in the first turn after its end.
#[derive(Debug)]
pub struct LoopWindow {
    /// The window covers this second of the proxy's clock, counted from 0.
    pub index: u64,
    /// Histograms and counts of requests; a server's times are in `servers`.
    pub measured: Measurements,
    /// What was counted.
    pub counters: Counters,
    /// Client connections that are open.
    pub sessions: u64,
    /// Requests in service.
    pub in_service: u64,
    /// One entry per server of the table in force, in its order.
    pub servers: Vec<ServerWindow>,
}

/// One second of one server, as one dataplane sees it. The fields are those of [`ServerReport`](crate::ServerReport).
#[derive(Clone, Debug)]
pub struct ServerWindow {
    /// Its name.
    pub server: Arc<str>,
    /// `up`, `down`, `connecting` or `idle`.
    pub state: &'static str,
    /// Messages that were queued for it.
    pub requests: u64,
    /// Error replies that it gave, and messages that got none.
    pub errors: u64,
    /// Messages that got no reply in time.
    pub timeouts: u64,
    /// Messages that waited to be handed to the kernel; cut at the window's end.
    pub queued: QueueReport,
    /// Messages that waited for their reply; cut at the window's end.
    pub in_flight: QueueReport,
    /// From the last byte of a message handed to the kernel to its reply complete, nanoseconds.
    pub time: Distribution,
}

impl ServerWindow {
    /// The server in a second in which nothing happened after this one.
    #[must_use]
    pub fn quiet(&self) -> Self {
        let quiet = |queue: &QueueReport| QueueReport { length: queue.length, ..QueueReport::default() };
        Self {
            server: Arc::clone(&self.server),
            state: self.state,
            requests: 0,
            errors: 0,
            timeouts: 0,
            queued: quiet(&self.queued),
            in_flight: quiet(&self.in_flight),
            time: Distribution::new(),
        }
    }

    /// The same without the times.
    #[must_use]
    pub fn without_times(self) -> Self {
        Self { time: Distribution::new(), ..self }
    }

    /// Adds what another dataplane of the same proxy saw of the same server.
    pub fn merge(&mut self, other: &Self) {
        self.state = worse_state(self.state, other.state);
        self.requests += other.requests;
        self.errors += other.errors;
        self.timeouts += other.timeouts;
        self.queued += other.queued;
        self.in_flight += other.in_flight;
        self.time.merge(&other.time);
    }
}

/// What was told of a server with earlier windows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    requests: u64,
    errors: u64,
    timeouts: u64,
    queued: QueueReport,
    in_flight: QueueReport,
}

impl Dataplane {
    /// From now on windows are kept for [`Dataplane::poll_window`], and [`Dataplane::poll_timeout`] lets a driver that is idle wake at
    /// the end of one in which something happened.
    pub fn keep_windows(&mut self) {
        self.recorder.keep_ended();
    }

    /// The oldest window that is over and was not handed out yet, to be called after [`Dataplane::handle_time`]. Seconds in which nothing
    /// happened are left out.
    pub fn poll_window(&mut self) -> Option<LoopWindow> {
        let ended = self.recorder.poll_ended()?;
        let now = self.counters_now();
        let counters = now.since(&std::mem::replace(&mut self.counters_told, now.clone()));
        let slots = self.router.servers().iter().map(|&slot| usize::from(slot));
        let mut servers = Vec::with_capacity(self.router.servers().len());
        for slot in slots {
            let time = ended.measured.server_time(slot).clone();
            let name = Arc::clone(self.servers.slots.name(slot));
            let mut window = self.servers[slot].end_window(ended.index, name, time);
            if let Some(apart) = self.servers.bulk_of(slot) {
                window.add(&self.servers[apart].end_window(ended.index, Arc::default(), Distribution::new()));
            }
            servers.push(window);
        }
        if !self.services.is_empty() {
            // Queues have a length in the next second even if nothing happens in it.
            self.recorder.use_window();
        }
        Some(LoopWindow {
            index: ended.index,
            measured: ended.measured,
            counters,
            sessions: self.sessions.iter().filter(|(_, session)| session.hosted.is_none()).count() as u64,
            in_service: self.services.len() as u64,
            servers,
        })
    }

    /// Whether [`Dataplane::poll_window`] would hand out a window.
    #[inline]
    pub fn has_window(&self) -> bool {
        self.recorder.has_ended()
    }

    /// The open window, if it will be handed out when it is over.
    pub fn used_window(&self) -> Option<u64> {
        self.recorder.used_window().map(|(index, _)| index)
    }

    /// The open window is over, because the driver ends.
    pub fn end_window(&mut self) {
        if let Some(ends) = self.window_ends() {
            self.advance(ends);
        }
    }

    /// Closes the windows that are over at `now`. Before something is recorded.
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant) {
        if self.recorder.is_over(now) {
            self.hand_times_over();
            self.recorder.advance(now);
        }
    }

    /// The times of servers belong to the open window.
    #[cold]
    #[inline(never)]
    pub(crate) fn hand_times_over(&mut self) {
        self.servers.take_times(|server, times| self.recorder.add_server_times(server, times));
    }

    pub(crate) fn window_ends(&self) -> Option<Instant> {
        self.recorder.used_window().map(|(_, ends)| ends)
    }

    pub(crate) fn counters_now(&self) -> Counters {
        let mut counters =
            Counters { stamps_clamped: self.recorder.stamps_clamped(), ..self.counters.clone() };
        counters.merge(self.servers.counters());
        counters
    }
}

impl ServerWindow {
    /// Adds what went over another connection to the same server, whose times are counted already.
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.timeouts += other.timeouts;
        self.queued += other.queued;
        self.in_flight += other.in_flight;
    }
}

impl Backend {
    fn end_window(&mut self, index: u64, server: Arc<str>, time: Distribution) -> ServerWindow {
        let now = Told {
            requests: self.requests,
            errors: self.errors,
            timeouts: self.timeouts,
            queued: self.queued.report_at_end(index),
            in_flight: self.in_flight.report_at_end(index),
        };
        let before = std::mem::replace(&mut self.told, now);
        ServerWindow {
            server,
            state: self.state.name(),
            requests: now.requests.saturating_sub(before.requests),
            errors: now.errors.saturating_sub(before.errors),
            timeouts: now.timeouts.saturating_sub(before.timeouts),
            queued: now.queued.since(&before.queued),
            in_flight: now.in_flight.since(&before.in_flight),
            time,
        }
    }
}
