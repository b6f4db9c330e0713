//! Connections between the loops and the servers, as they are made, used and lost.

use rand::Rng;
use weir_dataplane::Slot;

use super::server::{Dead, Line, Wire};
use super::tables;
use super::world::{Happening, World};

/// The kernel ends a connection this many timeouts after its path has died. All troubles of a server together are shorter.
const KERNEL_TIMEOUTS: u64 = 60;

impl World {
    /// A loop connects.
    pub(super) fn connect(&mut self, home: usize, slot: Slot) {
        let server = tables::number_of(self.loops[home].dataplane.server(slot));
        let slots = &self.loops[home].slots[server];
        let free = (1..slots.len()).find(|&place| slots[place].is_none());
        let known = slots.iter().position(|of| *of == Some(slot));
        let place = if self.loops[home].dataplane.is_second(slot) { known.or(free) } else { Some(0) };
        let line = Line { home, place: place.expect("a loop has few connections to a server") };
        self.forget(server, line);
        self.loops[home].slots[server][line.place] = Some(slot);
        self.loops[home].tried[server] |= line.place == 0;
        let (conduct, now_ns) = (self.scenario.conduct, self.now_ns);
        let wire = Wire { server, line, attempt: self.servers[server].attempt(line) };
        let at_ns = self.servers[server].way_there(line).arrival(now_ns, conduct, &mut self.rng);
        self.happens(at_ns, Happening::Connected(wire));
    }

    /// A loop drops a connection. The slot may be another server's already.
    pub(super) fn disconnect(&mut self, home: usize, slot: Slot) {
        if let Some((server, line)) = self.line_of(home, slot) {
            self.forget(server, line);
            let it = &mut self.loops[home];
            it.slots[server][line.place] = None;
            it.tried[server] &= line.place > 0 || it.dataplane.connected_servers().any(|kept| kept == slot);
        }
    }

    /// Somebody wants one of a loop's servers to be connected to: if it was not needed yet, that is done now.
    pub(super) fn want(&mut self, home: usize) {
        let now = self.now();
        let it = &mut self.loops[home];
        let server = it.table.servers()[self.rng.random_range(0..it.table.servers().len())].clone();
        it.dataplane.handle_server_wanted(&server, now);
        self.carry_out_events(home);
        let is_tried = self.loops[home].tried[tables::number_of(&server)];
        self.ensure(is_tried, || format!("{server} is wanted, and loop {home} does not connect"));
    }

    /// Which server a slot of a loop is, and which connection to it.
    pub(super) fn line_of(&self, home: usize, slot: Slot) -> Option<(usize, Line)> {
        let slots = self.loops[home].slots.iter().enumerate();
        let mut found =
            slots.filter_map(|(server, of)| Some((server, of.iter().position(|it| *it == Some(slot))?)));
        found.next().map(|(server, place)| (server, Line { home, place }))
    }

    fn forget(&mut self, server: usize, line: Line) {
        self.history.change_deciders();
        // The setting is an assumption about the network: nothing that was sent on a broken connection is carried out later than that.
        let lingers_ns = if self.scenario.lingers { self.scenario.config.quarantine_ns } else { 0 };
        self.servers[server].forget(line, self.now_ns + lingers_ns);
    }

    /// The number of a server in the loop whose connection this is, if it is up.
    pub(super) fn up(&self, wire: Wire) -> Option<Slot> {
        self.slot(wire).filter(|slot| self.loops[wire.line.home].dataplane.server_is_up(*slot))
    }

    fn slot(&self, wire: Wire) -> Option<Slot> {
        let slot = self.loops[wire.line.home].slots[wire.server][wire.line.place];
        slot.filter(|_| self.servers[wire.server].is_latest(wire))
    }

    /// The connection of any loop to a server, if it is up, and the slot that it has there.
    fn any_up(&mut self, server: usize) -> Option<(Wire, Slot)> {
        let line = Line { home: self.rng.random_range(0..self.loops.len()), place: 0 };
        let wire = Wire { server, line, attempt: self.servers[server].attempt(line) };
        self.up(wire).map(|slot| (wire, slot))
    }

    /// The proxy hears that a connection is broken, and the server does not.
    pub(super) fn break_one(&mut self, server: usize) {
        if let Some((wire, slot)) = self.any_up(server) {
            self.break_wire(wire, slot);
        }
    }

    fn break_wire(&mut self, wire: Wire, slot: Slot) {
        let now = self.now();
        self.forget(wire.server, wire.line);
        self.loops[wire.line.home].dataplane.handle_server_broken(slot, now);
    }

    /// The path of a connection dies. The kernel will end it, a long time later.
    pub(super) fn swallow(&mut self, server: usize, dead: Dead) {
        let Some((wire, _)) = self.any_up(server) else { return };
        self.servers[server].die(wire.line, dead);
        self.cut_off = true;
        let at_ns = self.now_ns + KERNEL_TIMEOUTS * self.scenario.config.timeout_ns;
        self.happens(at_ns, Happening::KernelEnds(wire, false));
    }

    /// The kernel has waited for long enough. A connection that should have been replaced, because too many requests on it were late, is
    /// looked at once more: the last of them may have been late just now, and its server in trouble.
    pub(super) fn kernel_ends(&mut self, wire: Wire, was_doubted: bool) {
        let Some(slot) = self.up(wire) else { return };
        let limit = self.scenario.config.mark_down_timeouts;
        let is_doubted = limit > 0 && self.loops[wire.line.home].dataplane.late_in_a_row(slot) >= limit;
        self.ensure(!(was_doubted && is_doubted), || format!("{wire:?} is dead, and is not replaced"));
        if is_doubted {
            let at_ns = self.now_ns + KERNEL_TIMEOUTS * self.scenario.config.timeout_ns;
            return self.happens(at_ns, Happening::KernelEnds(wire, true));
        }
        self.break_wire(wire, slot);
    }

    /// The server does not read one of its connections for a while.
    pub(super) fn stick(&mut self, server: usize, length_ns: u64) {
        let Some((wire, _)) = self.any_up(server) else { return };
        let until_ns = self.now_ns + length_ns;
        self.servers[server].stick(wire, until_ns);
        self.happens(until_ns, Happening::Thaw(server));
    }

    pub(super) fn finish_connecting(&mut self, wire: Wire) {
        let (Some(slot), now) = (self.slot(wire), self.now()) else { return };
        let dataplane = &mut self.loops[wire.line.home].dataplane;
        match self.servers[wire.server].accepts(self.now_ns) {
            Some(true) => {
                self.servers[wire.server].accept(wire, self.now_ns);
                self.history.change_deciders();
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
                for wire in self.servers[server].take_closed() {
                    let at_ns = self.end_of_connection(wire);
                    self.happens(at_ns, Happening::FromServer(wire, None));
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
        let pieces = server.way_back(wire.line).carry(&answer, sent_ns, conduct, &mut self.rng);
        for (at_ns, piece) in pieces {
            self.happens(at_ns, Happening::FromServer(wire, Some(piece)));
        }
        if closes {
            let at_ns = self.servers[wire.server].way_back(wire.line).arrival(now_ns, conduct, &mut self.rng);
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
            self.servers[wire.server].way_back(wire.line).arrival(self.now_ns, conduct, &mut self.rng)
        }
    }

    pub(super) fn read_server(&mut self, wire: Wire, bytes: Option<Vec<u8>>) {
        let Some(slot) = self.up(wire) else { return };
        if self.servers[wire.server].dead(wire.line) != Dead::Nothing {
            return;
        }
        let now = self.now();
        match bytes {
            Some(bytes) => {
                self.note(2, &bytes);
                self.loops[wire.line.home].dataplane.handle_server_bytes(slot, &bytes, now);
            }
            None => {
                self.forget(wire.server, wire.line);
                self.loops[wire.line.home].dataplane.handle_server_disconnected(slot, now);
            }
        }
    }
}
