//! Clients come, ask, look at their replies, and go.

use rand::Rng;
use weir_dataplane::{Report, SessionId};

use super::client::{Arrival, Ending};
use super::crew::session_of;
use super::event_loop::Loop;
use super::logins;
use super::rows;
use super::scenario::Scenario;
use super::script::{self, Asked, Expected};
use super::world::{Happening, World};

impl World {
    /// A client connects, sends some requests at once, or goes.
    pub(super) fn step(&mut self, number: usize) {
        if self.clients[number].gone {
            return;
        }
        if self.clients[number].session.is_none() {
            let (home, now) = (self.clients[number].home, self.now());
            let accepted = match &mut self.crew {
                Some(crew) => crew.accept().then(|| session_of(number)),
                None => logins::accept(&mut self.loops[home].dataplane, now),
            };
            let Some(session) = accepted else { return };
            self.clients[number].session = Some(session);
            self.clients[number].row_number = Some(match self.crew {
                Some(_) => number as u64,
                None => {
                    self.loops[home].accepted += 1;
                    self.loops[home].accepted
                }
            });
        }
        let Scenario { config, conduct, races, .. } = self.scenario.clone();
        let client = &mut self.clients[number];
        let burst = self.rng.random_range(1..=8).min(client.remaining);
        client.remaining -= burst;
        let mut bytes = Vec::new();
        for _ in 0..burst {
            let asked = script::next(client, config.limits.value_bytes_max, &mut self.rng);
            bytes.extend_from_slice(&asked.bytes);
            client.ask(asked, &mut self.history);
        }
        let last = if client.remaining > 0 { None } else { Some(client.ending) };
        if last == Some(Ending::Quit) {
            let quit = Asked {
                bytes: b"quit\r\n".to_vec(),
                expected: Expected::Closed,
                noreply: false,
                shared: None,
            };
            bytes.extend_from_slice(&quit.bytes);
            client.ask(quit, &mut self.history);
        }
        if last == Some(Ending::Vanish) {
            bytes.truncate(self.rng.random_range(0..=bytes.len()));
        }
        for (at_ns, piece) in client.link.carry(&bytes, self.now_ns, conduct, &mut self.rng) {
            self.happens(at_ns, Happening::FromClient(number, Arrival::Bytes(piece)));
        }
        let client = &mut self.clients[number];
        let after_ns = client.link.arrival(self.now_ns, conduct, &mut self.rng);
        match last {
            None => {
                let pause_ns = self.rng.random_range(0..=conduct.delay_max_ns * if races { 2 } else { 20 });
                self.happens(self.now_ns + pause_ns, Happening::Client(number));
            }
            Some(Ending::Quit) => {}
            Some(Ending::Finish) => self.happens(after_ns, Happening::FromClient(number, Arrival::Finished)),
            Some(Ending::Vanish) => self.happens(after_ns, Happening::FromClient(number, Arrival::Vanished)),
        }
    }

    /// Hands in what has arrived from a client, as long as the dataplane wants to read.
    pub(super) fn read_client(&mut self, number: usize) {
        if self.crew.is_some() {
            return self.read_visitor(number);
        }
        let (home, now) = (self.clients[number].home, self.now());
        loop {
            let Some(session) = self.clients[number].session else { return };
            if !self.loops[home].dataplane.wants_read(session) {
                // A connection that is gone is noticed without reading.
                let vanished = self.clients[number].unread.back();
                if matches!(vanished, Some(Arrival::Vanished)) {
                    self.lose_client(number, session);
                }
                return;
            }
            match self.clients[number].unread.pop_front() {
                None => return,
                Some(Arrival::Bytes(bytes)) => {
                    self.note(1, &bytes);
                    let due_ns = self.due_ns();
                    let arrived = (self.now_ns, due_ns, &self.loops[home].table);
                    self.clients[number].note_read(bytes.len(), arrived, &mut self.history);
                    if self.scenario.watching.arrivals {
                        self.loops[home].dataplane.note_arrival(session, now, rows::arrival(now));
                    }
                    self.loops[home].dataplane.handle_client_bytes(session, &bytes, now);
                }
                Some(Arrival::Finished) => {
                    return self.loops[home].dataplane.handle_client_finished(session);
                }
                Some(Arrival::Vanished) => return self.lose_client(number, session),
            }
        }
    }

    /// Until when servers may take for a request that is read now, whichever loop it comes to: not all have heard of the last change. Behind
    /// one that came before the change it may wait as long as that.
    pub(super) fn due_ns(&self) -> u64 {
        let due = |it: &Loop| it.former_until_ns.max(self.now_ns + it.timeout_ns);
        self.loops.iter().map(due).max().expect("a proxy has a loop")
    }

    pub(super) fn lose_client(&mut self, number: usize, session: SessionId) {
        let home = self.clients[number].home;
        self.clients[number].session = None;
        self.clients[number].gone = true;
        self.clients[number].unread.clear();
        if self.crew.is_some() {
            return self.visitor_leaves(number);
        }
        self.loops[home].dataplane.handle_client_closed(session);
    }

    pub(super) fn close_client(&mut self, home: usize, session: SessionId) {
        self.see_all();
        let Some(number) = self.client_of(home, session) else { return };
        let dataplane = &self.loops[home].dataplane;
        let left = dataplane.client_output(session).len();
        let report = dataplane.report(self.now());
        self.nothing_is_lost(home, &report);
        let counters = report.counters;
        let paused = counters.sessions_paused + counters.session_order_waits > 0;
        self.ensure(left == 0, || format!("client {number} is closed with {left} bytes to write"));
        let drained_ns = self.loops[home].drained_ns;
        let quit = self.clients[number].check_closed(drained_ns, paused);
        self.quits += u64::from(matches!(quit, Ok(true)));
        self.must(quit.map(|_| ()).map_err(|error| format!("client {number}: {error}")));
        self.lose_client(number, session);
    }

    /// Of one loop, and where nothing lingers after its answer: what was taken is answered, orphaned, a `quit`, or in service.
    fn nothing_is_lost(&self, home: usize, report: &Report) {
        let paused = report.counters.sessions_paused + report.counters.session_order_waits > 0;
        // Whether a `quit` was taken before the proxy began to drain cannot be seen of a session that was paused.
        let is_hidden = paused && self.loops[home].drained_ns.is_some();
        if self.loops.len() > 1 || self.scenario.replicas > 1 || is_hidden {
            return;
        }
        let answered: u64 = report.timing.operations().iter().map(|(_, operation)| operation.requests).sum();
        let in_service = self.loops[home].dataplane.in_service() as u64;
        let known = answered + report.counters.requests_orphaned + self.quits + in_service;
        // It may have taken those of clients that are connected, too.
        let quits =
            self.clients.iter().filter(|client| client.ending == Ending::Quit && client.session.is_some());
        let most = known + quits.count() as u64;
        self.ensure((known..=most).contains(&report.counters.requests), || {
            format!("{} requests were taken, {known} are answered or in service", report.counters.requests)
        });
    }

    pub(super) fn client_of(&self, home: usize, session: SessionId) -> Option<usize> {
        self.clients.iter().position(|client| client.home == home && client.session == Some(session))
    }

    /// Every client looks at what stands in the output for it.
    pub(super) fn see_all(&mut self) {
        self.history.advance();
        for number in 0..self.clients.len() {
            let Some(session) = self.clients[number].session else { continue };
            let output = match &self.crew {
                Some(crew) => crew.output(number),
                None => self.loops[self.clients[number].home].dataplane.client_output(session),
            };
            let seen = self.clients[number].see(output, self.now_ns, &mut self.history);
            self.must(seen.map_err(|error| format!("client {number}: {error}")));
        }
    }
}
