//! The clock, and what will happen: to clients, to servers, and on the way between them and the proxy.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weir_dataplane::{Budget, Mail, OnFailure, Report, RequestKey, SessionId};
use weir_routing::Table;
use weir_timing::Instant;

use super::Outcome;
use super::client::{Arrival, Client, Nature};
use super::crew::Crew;
use super::event_loop::Loop;
use super::history::History;
use super::scenario::Scenario;
use super::script;
use super::server::{Fault, SimulatedServer, Wire};
use super::tables;

/// A dataplane that wants to be woken at once this number of times in a row is running in circles.
const TURNS_PER_MOMENT_MAX: u32 = 10_000;

/// A world that is not over after this many turns goes on for ever.
const TURNS_MAX: u32 = 1_000_000;

/// What will happen at some moment.
#[derive(Debug)]
pub(super) enum Happening {
    /// A client does its next step.
    Client(usize),
    /// Something arrives at the proxy from a client.
    FromClient(usize, Arrival),
    /// The driver reads again what a client has sent.
    Readable(usize),
    /// The kernel takes bytes for a client of this loop again.
    ClientWritable(usize, SessionId),
    /// The same of a client that the crew serves.
    VisitorWritable(usize),
    /// An attempt to connect has come to an end.
    Connected(Wire),
    /// Bytes arrive at a server.
    ToServer(Wire, Vec<u8>),
    /// A server that was frozen goes on.
    Thaw(usize),
    /// Bytes arrive at the proxy from a server, or the end of the connection.
    FromServer(Wire, Option<Vec<u8>>),
    ServerWritable(Wire),
    Fault(usize, Fault),
    /// The kernel ends a connection whose path is dead, unless it should have been replaced; and whether that was seen before.
    KernelEnds(Wire, bool),
    /// The proxy gets another table.
    Table,
    /// One of its loops takes the table that was given out with this number.
    TakeTable(usize, usize),
    /// A reload changes how long servers may take.
    Timeout(u64),
    /// One of the loops hears of that.
    TakeTimeout(usize, u64),
    /// Somebody wants a server to be connected to before it is needed.
    Want(usize),
    /// A server's name has other addresses.
    Move(usize),
    /// The proxy is asked to end.
    Drain,
    /// One of its loops hears of that.
    DrainLoop(usize),
    /// A batch of mail of one loop arrives at another.
    Mail(usize, Vec<Mail>),
    /// The statistics that a client of this loop has asked for are there.
    Stats(usize, RequestKey),
}

pub(super) struct World {
    seed: u64,
    pub(super) now_ns: u64,
    pub(super) scenario: Scenario,
    pub(super) loops: Vec<Loop>,
    /// Who serves the clients through lent sessions, if that is done.
    pub(super) crew: Option<Crew>,
    /// What all of them may hold together.
    pub(super) budget: Arc<Budget>,
    /// All tables that were given out.
    pub(super) tables: Vec<Arc<Table>>,
    pub(super) clients: Vec<Client>,
    pub(super) servers: Vec<SimulatedServer>,
    /// `quit`s that the proxy has counted as requests and that are answered by nothing.
    pub(super) quits: u64,
    pub(super) rng: SmallRng,
    coming: BTreeMap<(u64, u64), Happening>,
    happenings: u64,
    pub(super) history: History,
    /// The path of some connection died, perhaps in the middle of a reply.
    pub(super) cut_off: bool,
    trace: u64,
}

impl World {
    pub(super) fn new(seed: u64, scenario: impl Fn(&mut SmallRng) -> Scenario) -> Self {
        let mut rng = SmallRng::seed_from_u64(seed);
        let scenario = scenario(&mut rng);
        let table = tables::first(&scenario, &mut rng);
        let nature = Nature {
            forgetful: scenario.faults > 0 && !scenario.odd,
            odd: scenario.odd,
            replicated: scenario.replicas > 1,
            fails_over: !scenario.is_calm(),
            degrades: scenario.config.on_failure == OnFailure::Degrade && !scenario.is_calm(),
            slices: scenario.config.slice_bytes < usize::MAX,
            blind: scenario.hides_places(),
            races: scenario.races,
            rereads: scenario.evictions > 0 || scenario.is_hot(),
            hushes: !scenario.tight && !scenario.drains && scenario.lent.is_none(),
            reads_by_meta: scenario.reads_by_meta(),
            repeats: scenario.repeats(),
            ordered: scenario.keeps_order(),
            agrees: scenario.is_calm() && scenario.reloads == 0,
        };
        let clients = (0..scenario.clients)
            .map(|number| {
                let home = rng.random_range(0..scenario.loops);
                Client::new((number, home), scenario.requests, nature, &mut rng)
            })
            .collect();
        let freshness = Arc::default();
        let budget = Budget::new(scenario.config.buffer_bytes_max);
        let crew = scenario.lent.map(|lent| {
            let config = (&scenario.config, &budget);
            Crew::new((lent, scenario.watching), scenario.clients, config, &table)
        });
        let shared = (&freshness, &budget);
        let mut world = Self {
            seed,
            crew,
            now_ns: 0,
            loops: (0..scenario.loops).map(|index| Loop::new(index, &scenario, &table, shared)).collect(),
            budget,
            tables: vec![table],
            clients,
            servers: (0..scenario.servers)
                .map(|_| {
                    match SimulatedServer::new(scenario.loops)
                        .with_conditional_gets(scenario.config.seed >> 9 & 1 == 1)
                    {
                        server if scenario.before_proxies => server.without_settings(),
                        server => server,
                    }
                })
                .collect(),
            quits: 0,
            scenario,
            rng,
            coming: BTreeMap::new(),
            happenings: 0,
            history: History::default(),
            cut_off: false,
            trace: 0xcbf2_9ce4_8422_2325,
        };
        world.plan();
        world
    }

    /// Clients and faults begin somewhere in the time that all of it will roughly take.
    fn plan(&mut self) {
        let length_ns = self.scenario.conduct.delay_max_ns * 4 * self.scenario.requests as u64;
        for client in 0..self.clients.len() {
            let latest_ns = if self.scenario.races { 0 } else { length_ns / 2 };
            let start_ns = self.rng.random_range(0..=latest_ns);
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
        self.plan_reloads(length_ns);
        // Always the same one, so that the others have what it lacks.
        let server = self.rng.random_range(0..self.servers.len());
        for _ in 0..self.scenario.evictions {
            let at_ns = self.rng.random_range(0..=length_ns);
            self.happens(at_ns, Happening::Fault(server, Fault::Evict));
        }
        for _ in 0..self.scenario.faults {
            let server = self.rng.random_range(0..self.servers.len());
            let Scenario { config, lingers, replicas, odd, .. } = &self.scenario;
            let kinds = (*lingers, *lingers || *replicas == 1, config.greets_servers);
            let fault = if *odd {
                Fault::odd(config.timeout_ns, &mut self.rng)
            } else {
                Fault::random(config.timeout_ns, kinds, &mut self.rng)
            };
            let at_ns = self.rng.random_range(0..=length_ns);
            self.happens(at_ns, Happening::Fault(server, fault));
        }
    }

    /// What operators change while clients ask.
    fn plan_reloads(&mut self, length_ns: u64) {
        let mut timeout_ns = self.scenario.config.timeout_ns;
        let mut times: Vec<_> =
            (0..self.scenario.timeouts).map(|_| self.rng.random_range(0..=length_ns)).collect();
        times.sort_unstable();
        for at_ns in times {
            // Shorter each time: who asks later never waits longer.
            timeout_ns = timeout_ns / 4 * 3;
            self.happens(at_ns, Happening::Timeout(timeout_ns));
        }
        for _ in 0..if self.scenario.config.connects_when_needed { 3 } else { 0 } {
            let (home, at_ns) =
                (self.rng.random_range(0..self.loops.len()), self.rng.random_range(0..=length_ns));
            self.happens(at_ns, Happening::Want(home));
        }
    }

    /// Lets everything happen until nothing more will.
    pub(super) fn run(mut self) -> Outcome {
        let mut turns = 0;
        let mut left = TURNS_MAX;
        self.turn();
        loop {
            let coming_ns = self.coming.first_key_value().map(|((at_ns, _), _)| *at_ns);
            let crew_ns = self.crew.as_ref().and_then(Crew::timeout_ns);
            let timeout_ns = self.loops.iter().filter_map(Loop::timeout_ns).chain(crew_ns).min();
            let Some(next_ns) = [coming_ns, timeout_ns].into_iter().flatten().min() else { break };
            turns = if next_ns > self.now_ns { 0 } else { turns + 1 };
            self.ensure(turns < TURNS_PER_MOMENT_MAX, || "time stands still".to_owned());
            self.ensure(left > 0, || "it never ends".to_owned());
            left -= 1;
            self.now_ns = self.now_ns.max(next_ns);
            while let Some(entry) = self.coming.first_entry().filter(|entry| entry.key().0 <= self.now_ns) {
                let happening = entry.remove();
                self.happen(happening);
            }
            self.turn();
        }
        self.finish();
        // What nobody uses is given back meanwhile.
        self.now_ns += 2_000_000_000;
        let report = self.report();
        self.must(self.verdict(&report));
        Outcome {
            trace: self.trace,
            replies: self.clients.iter().map(|client| client.tally.replies).sum(),
            failures: self.clients.iter().map(|client| client.tally.failures).sum(),
            counters: report.counters,
        }
    }

    /// The drivers end: what dataplanes have not reported yet they report now.
    fn finish(&mut self) {
        let now = self.now();
        for home in 0..self.loops.len() {
            let reported = self.loops[home].finish(now);
            self.must(reported);
        }
        let reported = self.crew.as_mut().map_or(Ok(()), |crew| crew.finish(now));
        self.must(reported);
    }

    /// What all loops have measured together.
    fn report(&mut self) -> Report {
        let now = self.now();
        for home in 0..self.loops.len() {
            self.loops[home].dataplane.handle_time(now);
            let reported = self.loops[home].end_turn(now);
            self.must(reported);
        }
        let mut reports = self.loops.iter().map(|it| it.dataplane.report(now));
        let first = reports.next().expect("a proxy has a loop");
        let crew = self.crew.as_mut().map(|crew| crew.report(now));
        reports.chain(crew).fold(first, |mut sum, report| {
            sum.merge(&report);
            sum
        })
    }

    pub(super) fn now(&self) -> Instant {
        Instant::from_nanos(self.now_ns)
    }

    pub(super) fn happens(&mut self, at_ns: u64, happening: Happening) {
        self.happenings += 1;
        self.coming.insert((at_ns.max(self.now_ns), self.happenings), happening);
    }

    fn happen(&mut self, happening: Happening) {
        self.history.advance();
        if !self.scenario.is_calm() {
            // A server may be down or stale from now on, or neither any more.
            self.history.change_deciders();
        }
        match happening {
            Happening::Client(client) => self.step(client),
            Happening::FromClient(client, arrival) => {
                self.clients[client].unread.push_back(arrival);
                self.read_client(client);
            }
            Happening::Readable(client) => self.read_client(client),
            Happening::VisitorWritable(client) => self.write_unsent(client),
            Happening::ClientWritable(home, session) => {
                self.loops[home].dataplane.handle_client_writable(session);
            }
            Happening::Connected(wire) => self.finish_connecting(wire),
            Happening::ToServer(wire, bytes) => {
                if self.servers[wire.server].receive(wire, bytes) {
                    self.serve(wire.server);
                }
            }
            Happening::Thaw(server) => self.serve(server),
            Happening::FromServer(wire, bytes) => self.read_server(wire, bytes),
            Happening::ServerWritable(wire) => {
                if let Some(slot) = self.up(wire) {
                    self.loops[wire.line.home].dataplane.handle_server_writable(slot);
                }
            }
            Happening::Stats(home, request) => {
                let now = self.now();
                self.loops[home].dataplane.handle_stats(request, script::STATISTICS.to_vec(), now);
            }
            Happening::Mail(home, batch) => {
                let now = self.now();
                self.note(6, &[home as u8]);
                batch.into_iter().for_each(|mail| self.loops[home].dataplane.handle_mail(mail, now));
            }
            Happening::Table => self.give_table_out(),
            Happening::TakeTable(home, number) => {
                let now = self.now();
                self.loops[home].take_table((number, &self.tables[number]), now);
                if let Some(crew) = &mut self.crew {
                    crew.take_table(&self.loops[home].table, now);
                }
            }
            Happening::Timeout(timeout_ns) => {
                for home in 0..self.loops.len() {
                    let at_ns = self.now_ns + self.loop_delay_ns(home);
                    self.happens(at_ns, Happening::TakeTimeout(home, timeout_ns));
                }
            }
            Happening::TakeTimeout(home, timeout_ns) => {
                self.loops[home].take_timeout(timeout_ns, self.now_ns);
                if let Some(crew) = &mut self.crew {
                    crew.take_timeout(timeout_ns);
                }
            }
            Happening::Want(home) => self.want(home),
            Happening::Move(server) => {
                for it in &mut self.loops {
                    if let Some(slot) = it.slots[server][0] {
                        it.dataplane.handle_server_moved(slot);
                    }
                }
            }
            Happening::Drain => {
                for home in 0..self.loops.len() {
                    let at_ns = self.now_ns + self.loop_delay_ns(home);
                    self.happens(at_ns, Happening::DrainLoop(home));
                }
            }
            Happening::DrainLoop(home) => {
                self.loops[home].dataplane.begin_drain();
                self.loops[home].drained_ns = Some(self.now_ns);
            }
            Happening::Fault(server, Fault::Break) => self.break_one(server),
            Happening::Fault(server, Fault::Swallow(dead)) => self.swallow(server, dead),
            Happening::Fault(server, Fault::Stick(length_ns)) => self.stick(server, length_ns),
            Happening::KernelEnds(wire, was_doubted) => self.kernel_ends(wire, was_doubted),
            Happening::Fault(server, fault) => {
                for wire in self.servers[server].befall(fault, self.now_ns) {
                    let at_ns = self.end_of_connection(wire);
                    self.happens(at_ns, Happening::FromServer(wire, None));
                }
            }
        }
    }

    /// One loop takes the table at once, the others when they come to it.
    fn give_table_out(&mut self) {
        let number = self.tables.len();
        let table = tables::random(&self.scenario, &mut self.rng);
        self.tables.push(table);
        for home in 0..self.loops.len() {
            let at_ns = self.now_ns + self.loop_delay_ns(home);
            self.happens(at_ns, Happening::TakeTable(home, number));
        }
    }

    /// How long a message to a loop takes.
    pub(super) fn loop_delay_ns(&mut self, home: usize) -> u64 {
        let longest_ns = self.scenario.conduct.delay_max_ns;
        if home == 0 { 0 } else { self.rng.random_range(0..=longest_ns) }
    }

    // ── judgement ───────────────────────────────────────────────────────────────────────────────────────────────────

    /// FNV-1a over what goes in and out.
    pub(super) fn note(&mut self, kind: u8, bytes: &[u8]) {
        let head = self.now_ns.to_le_bytes();
        for byte in head.iter().chain([&kind]).chain(bytes) {
            self.trace = (self.trace ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    pub(super) fn ensure(&self, holds: bool, reason: impl FnOnce() -> String) {
        self.must(if holds { Ok(()) } else { Err(reason()) });
    }

    pub(super) fn must(&self, result: Result<(), String>) {
        if let Err(reason) = result {
            panic!("seed {} after {} ns: {reason}\n{:?}", self.seed, self.now_ns, self.scenario);
        }
    }
}
