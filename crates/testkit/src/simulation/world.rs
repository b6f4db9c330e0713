//! The clock, and what will happen: to clients, to servers, and on the way between them and the proxy.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weir_dataplane::{Dataplane, OnFailure, SessionId};
use weir_routing::Table;
use weir_timing::Instant;

use super::Outcome;
use super::client::{Arrival, Client, Ending, Issued, Nature};
use super::scenario::Scenario;
use super::script::{self, Asked, Expected};
use super::server::{Fault, SimulatedServer};
use super::tables;

/// A dataplane that wants to be woken at once so many times in a row is running in circles.
const TURNS_PER_MOMENT_MAX: u32 = 10_000;

/// What will happen at some moment.
#[derive(Debug)]
pub(super) enum Happening {
    /// A client does its next step.
    Client(usize),
    /// Something arrives at the proxy from a client.
    FromClient(usize, Arrival),
    /// The driver reads again what a client has sent.
    Readable(usize),
    ClientWritable(SessionId),
    /// An attempt to connect has come to an end.
    Connected(usize, u64),
    /// Bytes arrive at a server.
    ToServer(usize, u64, Vec<u8>),
    /// A server that was frozen goes on.
    Thaw(usize),
    /// Bytes arrive at the proxy from a server, or the end of the connection.
    FromServer(usize, u64, Option<Vec<u8>>),
    ServerWritable(usize, u64),
    Fault(usize, Fault),
    /// The proxy gets another table.
    Table,
    /// A server's name has other addresses.
    Move(usize),
    /// The proxy is told to end.
    Drain,
    /// The statistics that a client has asked for are there.
    Stats(usize),
}

pub(super) struct World {
    seed: u64,
    pub(super) now_ns: u64,
    pub(super) scenario: Scenario,
    pub(super) dataplane: Dataplane,
    pub(super) table: Arc<Table>,
    pub(super) clients: Vec<Client>,
    pub(super) servers: Vec<SimulatedServer>,
    /// The number that each server has in the dataplane, while it is to be connected.
    slots: Vec<Option<usize>>,
    /// `quit`s that the dataplane has counted as requests and that are answered by nothing.
    pub(super) quits: u64,
    /// When the proxy was told to end.
    pub(super) drained_ns: Option<u64>,
    pub(super) rng: SmallRng,
    coming: BTreeMap<(u64, u64), Happening>,
    happenings: u64,
    issued: Issued,
    trace: u64,
}

impl World {
    pub(super) fn new(seed: u64, scenario: impl Fn(&mut SmallRng) -> Scenario) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let scenario = scenario(&mut rng);
        let table = tables::first(&scenario, &mut rng);
        let nature = Nature {
            forgetful: scenario.faults > 0,
            replicated: scenario.replicas > 1,
            fails_over: !scenario.is_calm(),
            degrades: scenario.config.on_failure == OnFailure::Degrade && !scenario.is_calm(),
            blind: scenario.hides_places(),
        };
        let clients = (0..scenario.clients)
            .map(|number| Client::new(number, scenario.requests, nature, &mut rng))
            .collect();
        let mut world = Self {
            seed,
            now_ns: 0,
            dataplane: Dataplane::new(scenario.config.clone(), Arc::clone(&table), Instant::ZERO),
            table,
            slots: vec![None; scenario.servers],
            clients,
            servers: (0..scenario.servers).map(|_| SimulatedServer::new()).collect(),
            quits: 0,
            drained_ns: None,
            scenario,
            rng,
            coming: BTreeMap::new(),
            happenings: 0,
            issued: Issued::new(),
            trace: 0xcbf2_9ce4_8422_2325,
        };
        world.plan();
        world
    }

    /// Clients and faults begin somewhere in the time that all of it will roughly take.
    fn plan(&mut self) {
        let length_ns = self.scenario.conduct.delay_max_ns * 4 * self.scenario.requests as u64;
        for client in 0..self.clients.len() {
            let start_ns = self.rng.random_range(0..=length_ns / 2);
            self.happens(start_ns, Happening::Client(client));
        }
        if self.scenario.drains {
            let at_ns = self.rng.random_range(0..=length_ns);
            self.happens(at_ns, Happening::Drain);
        }
        for _ in 0..self.scenario.reloads {
            let at_ns = self.rng.random_range(0..=length_ns);
            self.happens(at_ns, Happening::Table);
        }
        for _ in 0..self.scenario.moves {
            let server = self.rng.random_range(0..self.servers.len());
            let at_ns = self.rng.random_range(0..=length_ns);
            self.happens(at_ns, Happening::Move(server));
        }
        for _ in 0..self.scenario.faults {
            let server = self.rng.random_range(0..self.servers.len());
            let fault = Fault::random(self.scenario.config.timeout_ns, &mut self.rng);
            let at_ns = self.rng.random_range(0..=length_ns);
            self.happens(at_ns, Happening::Fault(server, fault));
        }
    }

    /// Lets everything happen until nothing more will.
    pub(super) fn run(mut self) -> Outcome {
        let mut turns = 0;
        self.turn();
        loop {
            let coming_ns = self.coming.first_key_value().map(|((at_ns, _), _)| *at_ns);
            let timeout_ns = self.dataplane.poll_timeout().map(Instant::as_nanos);
            let Some(next_ns) = [coming_ns, timeout_ns].into_iter().flatten().min() else { break };
            turns = if next_ns > self.now_ns { 0 } else { turns + 1 };
            self.ensure(turns < TURNS_PER_MOMENT_MAX, || "time stands still".to_owned());
            self.now_ns = self.now_ns.max(next_ns);
            while let Some(entry) = self.coming.first_entry().filter(|entry| entry.key().0 <= self.now_ns) {
                let happening = entry.remove();
                self.happen(happening);
            }
            self.turn();
        }
        // Close the window in which the last request was answered.
        self.now_ns += 2_000_000_000;
        self.dataplane.handle_time(self.now());
        let report = self.dataplane.report(self.now());
        self.must(self.verdict(&report));
        Outcome {
            trace: self.trace,
            replies: self.clients.iter().map(|client| client.tally.replies).sum(),
            failures: self.clients.iter().map(|client| client.tally.failures).sum(),
            counters: report.counters,
        }
    }

    pub(super) fn now(&self) -> Instant {
        Instant::from_nanos(self.now_ns)
    }

    pub(super) fn happens(&mut self, at_ns: u64, happening: Happening) {
        self.happenings += 1;
        self.coming.insert((at_ns.max(self.now_ns), self.happenings), happening);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Client(client) => self.step(client),
            Happening::FromClient(client, arrival) => {
                self.clients[client].unread.push_back(arrival);
                self.read_client(client);
            }
            Happening::Readable(client) => self.read_client(client),
            Happening::ClientWritable(session) => self.dataplane.handle_client_writable(session),
            Happening::Connected(server, attempt) => self.finish_connecting(server, attempt),
            Happening::ToServer(server, attempt, bytes) => {
                if self.servers[server].is_connected(attempt) {
                    self.servers[server].receive(bytes);
                    self.serve(server);
                }
            }
            Happening::Thaw(server) => self.serve(server),
            Happening::FromServer(server, attempt, bytes) => self.read_server(server, attempt, bytes),
            Happening::ServerWritable(server, attempt) => {
                if let Some(slot) = self.up(server, attempt) {
                    self.dataplane.handle_server_writable(slot);
                }
            }
            Happening::Stats(request) => {
                self.dataplane.handle_stats(request, script::STATISTICS.to_vec(), self.now());
            }
            Happening::Table => {
                self.table = tables::random(&self.scenario, &mut self.rng);
                self.dataplane.handle_table(Arc::clone(&self.table), self.now());
            }
            Happening::Move(server) => {
                if let Some(slot) = self.slots[server] {
                    self.dataplane.handle_server_moved(slot);
                }
            }
            Happening::Drain => {
                self.dataplane.begin_drain();
                self.drained_ns = Some(self.now_ns);
            }
            Happening::Fault(server, fault) => {
                let attempt = self.servers[server].attempt;
                if self.servers[server].befall(fault, self.now_ns) {
                    let at_ns = self.end_of_connection(server);
                    self.happens(at_ns, Happening::FromServer(server, attempt, None));
                }
            }
        }
    }

    // ── clients ─────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A client connects, sends some requests at once, or goes.
    fn step(&mut self, number: usize) {
        if self.clients[number].gone {
            return;
        }
        if self.clients[number].session.is_none() {
            let Some(session) = self.dataplane.handle_accept(self.now()) else { return };
            self.clients[number].session = Some(session);
        }
        let Scenario { config, conduct, .. } = self.scenario.clone();
        let client = &mut self.clients[number];
        let burst = self.rng.random_range(1..=8).min(client.remaining);
        client.remaining -= burst;
        let mut bytes = Vec::new();
        for _ in 0..burst {
            let asked = script::next(client, config.limits.value_bytes_max, &mut self.rng);
            note_issued(&asked, &mut self.issued);
            bytes.extend_from_slice(&asked.bytes);
            client.ask(asked);
        }
        let last = if client.remaining > 0 { None } else { Some(client.ending) };
        if last == Some(Ending::Quit) {
            let quit = Asked { bytes: b"quit\r\n".to_vec(), expected: Expected::Closed, noreply: false };
            bytes.extend_from_slice(&quit.bytes);
            client.ask(quit);
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
                let pause_ns = self.rng.random_range(0..=conduct.delay_max_ns * 20);
                self.happens(self.now_ns + pause_ns, Happening::Client(number));
            }
            Some(Ending::Quit) => {}
            Some(Ending::Finish) => self.happens(after_ns, Happening::FromClient(number, Arrival::Finished)),
            Some(Ending::Vanish) => self.happens(after_ns, Happening::FromClient(number, Arrival::Vanished)),
        }
    }

    /// Hands in what has arrived from a client, as long as the dataplane wants to read.
    fn read_client(&mut self, number: usize) {
        loop {
            let Some(session) = self.clients[number].session else { return };
            if !self.dataplane.wants_read(session) {
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
                    self.clients[number].note_read(bytes.len(), self.now_ns, &self.table);
                    self.dataplane.handle_client_bytes(session, &bytes, self.now());
                }
                Some(Arrival::Finished) => return self.dataplane.handle_client_finished(session),
                Some(Arrival::Vanished) => return self.lose_client(number, session),
            }
        }
    }

    fn lose_client(&mut self, number: usize, session: SessionId) {
        self.clients[number].session = None;
        self.clients[number].gone = true;
        self.clients[number].unread.clear();
        self.dataplane.handle_client_closed(session);
    }

    pub(super) fn close_client(&mut self, session: SessionId) {
        self.see_all();
        let Some(number) = self.client_of(session) else { return };
        let left = self.dataplane.client_output(session).len();
        self.ensure(left == 0, || format!("client {number} is closed with {left} bytes to write"));
        let paused = self.dataplane.report(self.now()).counters.sessions_paused > 0;
        let quit = self.clients[number].check_closed(self.drained_ns, paused);
        self.quits += u64::from(matches!(quit, Ok(true)));
        self.must(quit.map(|_| ()).map_err(|error| format!("client {number}: {error}")));
        self.lose_client(number, session);
    }

    pub(super) fn client_of(&self, session: SessionId) -> Option<usize> {
        self.clients.iter().position(|client| client.session == Some(session))
    }

    /// Every client looks at what stands in the output for it.
    pub(super) fn see_all(&mut self) {
        for number in 0..self.clients.len() {
            let Some(session) = self.clients[number].session else { continue };
            let output = self.dataplane.client_output(session);
            let seen = self.clients[number].see(output, self.now_ns, &self.issued);
            self.must(seen.map_err(|error| format!("client {number}: {error}")));
        }
    }

    // ── servers ─────────────────────────────────────────────────────────────────────────────────────────────────────

    pub(super) fn connect(&mut self, slot: usize) {
        let server = tables::number_of(self.dataplane.server(slot));
        self.servers[server].forget();
        self.slots[server] = Some(slot);
        let conduct = self.scenario.conduct;
        let (attempt, now_ns) = (self.servers[server].attempt, self.now_ns);
        let at_ns = self.servers[server].to_server.arrival(now_ns, conduct, &mut self.rng);
        self.happens(at_ns, Happening::Connected(server, attempt));
    }

    /// The slot may be another server's already.
    pub(super) fn disconnect(&mut self, slot: usize) {
        if let Some(server) = self.slots.iter().position(|of| *of == Some(slot)) {
            self.servers[server].forget();
            self.slots[server] = None;
        }
    }

    /// The number of a server whose connection is the one of this attempt.
    fn up(&self, server: usize, attempt: u64) -> Option<usize> {
        let slot = self.slots[server].filter(|_| self.servers[server].attempt == attempt);
        slot.filter(|slot| self.dataplane.server_is_up(*slot))
    }

    fn finish_connecting(&mut self, server: usize, attempt: u64) {
        let Some(slot) = self.slots[server].filter(|_| self.servers[server].attempt == attempt) else {
            return;
        };
        match self.servers[server].accepts(self.now_ns) {
            Some(true) => {
                self.servers[server].accept(attempt);
                self.dataplane.handle_server_connected(slot, self.now());
            }
            Some(false) => self.dataplane.handle_server_disconnected(slot, self.now()),
            None => {}
        }
    }

    /// A server reads and answers, or will when it is no longer frozen.
    fn serve(&mut self, server: usize) {
        let conduct = self.scenario.conduct;
        let mut answer = match self.servers[server].work(self.now_ns) {
            Ok(answer) => answer,
            Err(until_ns) => return self.happens(until_ns, Happening::Thaw(server)),
        };
        let attempt = self.servers[server].attempt;
        let closes = self.servers[server].closes_within(&answer);
        if closes {
            answer.truncate(self.rng.random_range(1..answer.len()));
        }
        let sent_ns = self.now_ns + self.servers[server].lateness_ns(self.now_ns);
        let pieces = self.servers[server].to_proxy.carry(&answer, sent_ns, conduct, &mut self.rng);
        for (at_ns, piece) in pieces {
            self.happens(at_ns, Happening::FromServer(server, attempt, Some(piece)));
        }
        if closes {
            let at_ns = self.servers[server].to_proxy.arrival(self.now_ns, conduct, &mut self.rng);
            self.happens(at_ns, Happening::FromServer(server, attempt, None));
        }
    }

    /// When the proxy learns that a server has closed its connection: after all that the server had sent, or earlier, and
    /// then the rest is lost, perhaps in the middle of a reply.
    fn end_of_connection(&mut self, server: usize) -> u64 {
        let conduct = self.scenario.conduct;
        if self.rng.random_bool(0.5) {
            self.now_ns + self.rng.random_range(0..=conduct.delay_max_ns)
        } else {
            self.servers[server].to_proxy.arrival(self.now_ns, conduct, &mut self.rng)
        }
    }

    fn read_server(&mut self, server: usize, attempt: u64, bytes: Option<Vec<u8>>) {
        let Some(slot) = self.up(server, attempt) else { return };
        match bytes {
            Some(bytes) => {
                self.note(2, &bytes);
                self.dataplane.handle_server_bytes(slot, &bytes, self.now());
            }
            None => {
                self.servers[server].forget();
                self.dataplane.handle_server_disconnected(slot, self.now());
            }
        }
    }

    // ── judgement ───────────────────────────────────────────────────────────────────────────────────────────────────

    /// FNV-1a over what goes in and out.
    pub(super) fn note(&mut self, kind: u8, bytes: &[u8]) {
        let head = self.now_ns.to_le_bytes();
        for byte in head.iter().chain([&kind]).chain(bytes) {
            self.trace = (self.trace ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn ensure(&self, holds: bool, reason: impl FnOnce() -> String) {
        self.must(if holds { Ok(()) } else { Err(reason()) });
    }

    pub(super) fn must(&self, result: Result<(), String>) {
        if let Err(reason) = result {
            panic!("seed {} after {} ns: {reason}\n{:?}", self.seed, self.now_ns, self.scenario);
        }
    }
}

/// Remembers every value that is written to a key, so that what is read can be told from what is made up.
fn note_issued(asked: &Asked, issued: &mut Issued) {
    if let Expected::OneOf(_) = asked.expected
        && asked.bytes.starts_with(b"set ")
        && let Some(newline) = asked.bytes.iter().position(|byte| *byte == b'\n')
        && let Some(key) = asked.bytes[4..].split(|byte| *byte == b' ').next()
    {
        let value = &asked.bytes[newline + 1..asked.bytes.len() - 2];
        issued.insert((key.to_vec(), value.to_vec()));
    }
}
