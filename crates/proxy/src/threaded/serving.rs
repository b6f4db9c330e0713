//! What an event loop that serves queued requests tells about that: how many it has in service over time, and how long each was.

use super::queue::is_same;
use crate::event_loop::EventLoop;
use weir_dataplane::StationEntry;
use weir_routing::Server;
use weir_timing::{Instant, Station};

#[derive(Debug)]
pub(crate) struct Serving {
    name: &'static str,
    /// The server to whose queue it belongs, if to one.
    home: Option<Server>,
    /// Its server has left, and no other has come.
    is_spare: bool,
    station: Station,
}

impl Serving {
    pub(crate) fn new(name: &'static str, now: Instant) -> Self {
        Self { name, home: None, is_spare: false, station: Station::new(now) }
    }

    /// None while it belongs nowhere.
    pub(crate) fn entry(&self, now: Instant) -> Option<StationEntry> {
        let entry = StationEntry {
            station: self.name,
            server: self.home.as_ref().map(|server| server.name.clone()),
            threads: 1,
            measured: self.station.report(now),
        };
        (!self.is_spare || self.station.length() > 0).then_some(entry)
    }
}

impl EventLoop {
    /// Connects to the server to whose queue it belongs; to others it does when they are needed.
    pub(crate) fn settle_at(&mut self, home: Option<Server>) {
        let now = self.read_clock();
        if let Some(home) = &home {
            self.dataplane.handle_server_wanted(home, now);
        }
        let Some(serving) = &mut self.serving else { return };
        if !is_same(serving.home.as_ref(), home.as_ref()) {
            if serving.station.length() == 0 {
                // What was measured was another server's.
                serving.station = Station::new(now);
            }
            serving.is_spare = home.is_none();
            serving.home = home;
        }
    }

    /// A request came into service.
    pub(crate) fn note_serving(&mut self, now: Instant) {
        if let Some(serving) = &mut self.serving {
            serving.station.enter(now);
        }
    }

    /// A request that came into service at `since` is answered, as far as the kernel took the answer.
    pub(crate) fn note_served(&mut self, since: Instant) {
        let now = self.read_clock();
        if let Some(serving) = &mut self.serving {
            serving.station.leave(since, now);
        }
    }
}
