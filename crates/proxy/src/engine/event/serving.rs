//! What an event loop that serves queued requests tells about that: how many it has in service over time, and how long each was.

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
            crew: None,
            measured: self.station.report(now),
        };
        (!self.is_spare || self.station.length() > 0).then_some(entry)
    }

    /// It belongs to the queue of this server from now on.
    pub(crate) fn settle_at(&mut self, home: Option<Server>, now: Instant) {
        if !is_same(self.home.as_ref(), home.as_ref()) {
            if self.station.length() == 0 {
                // What was measured was another server's.
                self.station = Station::new(now);
            }
            self.is_spare = home.is_none();
            self.home = home;
        }
    }

    /// A request came into service.
    pub(crate) fn enter(&mut self, now: Instant) {
        self.station.enter(now);
    }

    /// A request that came into service at `since` is answered, as far as the kernel took the answer.
    pub(crate) fn leave(&mut self, since: Instant, now: Instant) {
        self.station.leave(since, now);
    }
}

/// Whether both are the same server, reached under the same address and called the same.
pub(crate) fn is_same(one: Option<&Server>, other: Option<&Server>) -> bool {
    let identity = |server: Option<&Server>| server.map(|it| (it.endpoint.clone(), it.name.clone()));
    identity(one) == identity(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// How many have come since it was measured anew, and at whose queue; `None` while it belongs nowhere.
    fn check(serving: &Serving) -> Option<(u64, Option<String>)> {
        let entry = serving.entry(at(100))?;
        Some((entry.measured.population.arrivals, entry.server))
    }

    #[test]
    fn what_was_measured_at_another_server_is_forgotten_and_a_spare_tells_nothing() {
        let (one, other) = (Server::new("127.0.0.1", 1), Server::new("127.0.0.1", 2));
        let mut serving = Serving::new("readers", at(0));
        assert_eq!(check(&serving), Some((0, None)), "a worker of any server");
        serving.settle_at(Some(one.clone()), at(1));
        serving.enter(at(2));
        serving.leave(at(2), at(3));
        serving.settle_at(Some(one.clone()), at(4));
        assert_eq!(check(&serving), Some((1, Some(one.name.clone()))), "it has not moved");
        serving.settle_at(Some(other.clone()), at(5));
        assert_eq!(check(&serving), Some((0, Some(other.name.clone()))));
        serving.enter(at(6));
        serving.settle_at(None, at(7));
        assert_eq!(check(&serving), Some((1, None)), "a request is still in service");
        serving.leave(at(6), at(8));
        assert_eq!(check(&serving), None);
    }

    #[test]
    fn a_server_is_the_same_by_its_address_and_its_name() {
        let one = Server::new("127.0.0.1", 1);
        let renamed = Server { name: "other".into(), ..one.clone() };
        assert!(is_same(Some(&one), Some(&one.clone())) && is_same(None, None));
        assert!(!is_same(Some(&one), Some(&renamed)) && !is_same(Some(&one), None));
    }
}
