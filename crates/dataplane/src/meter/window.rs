//! What one dataplane tells about one second.

use crate::{Counters, Dataplane, servers::window::ServerWindow};
use std::sync::Arc;
use weir_timing::{Distribution, Instant, Measurements};

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

impl Dataplane {
    /// From now on windows are kept for [`Dataplane::poll_window`], and [`Dataplane::poll_timeout`] lets a driver that is idle wake at
    /// the end of one in which something happened.
    pub fn keep_windows(&mut self) {
        self.base.meter.recorder.keep_ended();
    }

    /// The oldest window that is over and was not handed out yet, to be called after [`Dataplane::handle_time`]. Seconds in which nothing
    /// happened are left out.
    pub fn poll_window(&mut self) -> Option<LoopWindow> {
        let ended = self.base.meter.recorder.poll_ended()?;
        let now = self.counters_now();
        let counters = now.since(&std::mem::replace(&mut self.base.meter.told, now.clone()));
        let slots = self.base.fleet.routes.servers().iter().map(|&slot| usize::from(slot));
        let mut servers = Vec::with_capacity(self.base.fleet.routes.servers().len());
        for slot in slots {
            let time = ended.measured.server_time(slot).clone();
            let name = Arc::clone(self.base.fleet.servers.slots.name(slot));
            let mut window = self.base.fleet.servers[slot].end_window(ended.index, name, time);
            if let Some(apart) = self.base.fleet.servers.bulk_of(slot) {
                window.add(&self.base.fleet.servers[apart].end_window(
                    ended.index,
                    Arc::default(),
                    Distribution::new(),
                ));
            }
            servers.push(window);
        }
        if !self.requests.services.is_empty() {
            // Queues have a length in the next second even if nothing happens in it.
            self.base.meter.recorder.use_window();
        }
        Some(LoopWindow {
            index: ended.index,
            measured: ended.measured,
            counters,
            sessions: self
                .base
                .clients
                .sessions
                .iter()
                .filter(|(_, session)| session.hosted.is_none())
                .count() as u64,
            in_service: self.requests.services.len() as u64,
            servers,
        })
    }

    /// Whether [`Dataplane::poll_window`] would hand out a window.
    #[inline]
    pub fn has_window(&self) -> bool {
        self.base.meter.recorder.has_ended()
    }

    /// The open window, if it will be handed out when it is over.
    pub fn used_window(&self) -> Option<u64> {
        self.base.meter.recorder.used_window().map(|(index, _)| index)
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
        if self.base.meter.recorder.is_over(now) {
            self.hand_times_over();
            self.base.meter.recorder.advance(now);
        }
    }

    /// The times of servers belong to the open window.
    #[cold]
    #[inline(never)]
    pub(crate) fn hand_times_over(&mut self) {
        self.base
            .fleet
            .servers
            .take_times(|server, times| self.base.meter.recorder.add_server_times(server, times));
    }

    pub(crate) fn window_ends(&self) -> Option<Instant> {
        self.base.meter.recorder.used_window().map(|(_, ends)| ends)
    }

    pub(crate) fn counters_now(&self) -> Counters {
        let mut counters = Counters {
            stamps_clamped: self.base.meter.recorder.stamps_clamped(),
            ..self.base.meter.counters.clone()
        };
        counters.merge(self.base.fleet.servers.counters());
        counters.merge(self.base.fleet.replicas.counters());
        counters
    }
}
