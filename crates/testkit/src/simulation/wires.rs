//! Connections between the loops and the servers, as they are made, used and lost.

use rand::Rng;

use super::server::Wire;
use super::tables;
use super::world::{Happening, World};

impl World {
    /// A loop connects.
    pub(super) fn connect(&mut self, home: usize, slot: usize) {
        let server = tables::number_of(self.loops[home].dataplane.server(slot));
        self.forget(home, server);
        self.loops[home].slots[server] = Some(slot);
        let (conduct, now_ns) = (self.scenario.conduct, self.now_ns);
        let wire = Wire { server, home, attempt: self.servers[server].attempt(home) };
        let at_ns = self.servers[server].way_there(home).arrival(now_ns, conduct, &mut self.rng);
        self.happens(at_ns, Happening::Connected(wire));
    }

    /// A loop drops a connection. The slot may be another server's already.
    pub(super) fn disconnect(&mut self, home: usize, slot: usize) {
        if let Some(server) = self.loops[home].slots.iter().position(|of| *of == Some(slot)) {
            self.forget(home, server);
            self.loops[home].slots[server] = None;
        }
    }

    fn forget(&mut self, home: usize, server: usize) {
        // The setting is an assumption about the network: nothing that was sent on a broken connection is carried out later than that.
        let lingers_ns = if self.scenario.lingers { self.scenario.config.quarantine_ns } else { 0 };
        self.servers[server].forget(home, self.now_ns + lingers_ns);
    }

    /// The number of a server in the loop whose connection this is, if it is up.
    pub(super) fn up(&self, wire: Wire) -> Option<usize> {
        self.slot(wire).filter(|slot| self.loops[wire.home].dataplane.server_is_up(*slot))
    }

    fn slot(&self, wire: Wire) -> Option<usize> {
        self.loops[wire.home].slots[wire.server].filter(|_| self.servers[wire.server].is_latest(wire))
    }

    /// The proxy hears that a connection is broken, and the server does not.
    pub(super) fn break_one(&mut self, server: usize) {
        let home = self.rng.random_range(0..self.loops.len());
        let wire = Wire { server, home, attempt: self.servers[server].attempt(home) };
        let (Some(slot), now) = (self.up(wire), self.now()) else { return };
        self.forget(home, server);
        self.loops[home].dataplane.handle_server_broken(slot, now);
    }

    pub(super) fn finish_connecting(&mut self, wire: Wire) {
        let (Some(slot), now) = (self.slot(wire), self.now()) else { return };
        let dataplane = &mut self.loops[wire.home].dataplane;
        match self.servers[wire.server].accepts(self.now_ns) {
            Some(true) => {
                self.servers[wire.server].accept(wire, self.now_ns);
                dataplane.handle_server_connected(slot, now);
            }
            Some(false) => dataplane.handle_server_disconnected(slot, now),
            None => {}
        }
    }

    /// A server reads and answers, or will when it is no longer frozen.
    pub(super) fn serve(&mut self, server: usize) {
        match self.servers[server].work(self.now_ns, &mut self.rng) {
            Err(until_ns) => self.happens(until_ns, Happening::Thaw(server)),
            Ok(answers) => {
                for (wire, answer) in answers {
                    if self.servers[server].is_latest(wire) {
                        self.answer(wire, answer);
                    }
                }
            }
        }
    }

    fn answer(&mut self, wire: Wire, mut answer: Vec<u8>) {
        let (conduct, now_ns) = (self.scenario.conduct, self.now_ns);
        let server = &mut self.servers[wire.server];
        let closes = server.closes_within(wire, &answer);
        if closes {
            answer.truncate(self.rng.random_range(1..answer.len()));
        }
        let sent_ns = now_ns + server.lateness_ns(now_ns);
        let pieces = server.way_back(wire.home).carry(&answer, sent_ns, conduct, &mut self.rng);
        for (at_ns, piece) in pieces {
            self.happens(at_ns, Happening::FromServer(wire, Some(piece)));
        }
        if closes {
            let at_ns = self.servers[wire.server].way_back(wire.home).arrival(now_ns, conduct, &mut self.rng);
            self.happens(at_ns, Happening::FromServer(wire, None));
        }
    }

    /// When the proxy learns that a server has closed a connection: after all that the server had sent, or earlier, and
    /// then the rest is lost, perhaps in the middle of a reply.
    pub(super) fn end_of_connection(&mut self, wire: Wire) -> u64 {
        let conduct = self.scenario.conduct;
        if self.rng.random_bool(0.5) || !self.servers[wire.server].is_latest(wire) {
            self.now_ns + self.rng.random_range(0..=conduct.delay_max_ns)
        } else {
            self.servers[wire.server].way_back(wire.home).arrival(self.now_ns, conduct, &mut self.rng)
        }
    }

    pub(super) fn read_server(&mut self, wire: Wire, bytes: Option<Vec<u8>>) {
        let Some(slot) = self.up(wire) else { return };
        let now = self.now();
        match bytes {
            Some(bytes) => {
                self.note(2, &bytes);
                self.loops[wire.home].dataplane.handle_server_bytes(slot, &bytes, now);
            }
            None => {
                self.forget(wire.home, wire.server);
                self.loops[wire.home].dataplane.handle_server_disconnected(slot, now);
            }
        }
    }
}
