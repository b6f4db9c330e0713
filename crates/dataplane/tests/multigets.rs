//! Every way to ask a multi-get, with every number of replicas. Servers are up, down or fail on the way, and failures get either answer.
//! All that is held against an oracle that sees what each server was asked.
//!
//! The oracle knows what is stored and who was asked for what; from that the reply follows to the byte. That the parts are
//! as equal as can be, that nobody is asked twice, and that a key is only missed when its server failed is checked on the way.

use std::{collections::BTreeSet, sync::Arc};

use rand::{
    Rng, SeedableRng,
    rngs::SmallRng,
    seq::{IndexedRandom, IteratorRandom},
};
use weir_dataplane::{Config, Dataplane, Event, Login, Multiget, OnFailure, SessionId, Slot};
use weir_routing::{Placement, Router, Server};
use weir_testkit::memcached::{Connection, Memcached};
use weir_timing::Instant;

const SERVERS: usize = 3;
const KEYS: usize = 30;
const REQUESTS: usize = 60;
const SEEDS: u64 = 4;
const TIMEOUT_NS: u64 = 1_000_000;

/// What is wrong with the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    /// One is down from the beginning to the end.
    Down,
    /// Now and then one fails after it was asked.
    OnTheWay,
}

/// How a server fails after it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// It answers when nobody waits any more.
    Late,
    /// It closes the connection before its reply, or within it.
    Closed,
    /// It has values, and then no memory for more.
    Error,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    multiget: Multiget,
    replicas: usize,
    trouble: Trouble,
    on_failure: OnFailure,
    seed: u64,
}

/// What each server was asked for, in order; `None`: nothing.
type Asked = Vec<Option<Vec<String>>>;

/// What servers were asked, and how those failed that did.
#[derive(Debug)]
struct Step {
    asked: Asked,
    failures: Vec<Option<Failure>>,
}

impl Step {
    /// How many keys were asked of servers that failed.
    fn failed(&self) -> u64 {
        let parts = self.asked.iter().zip(&self.failures).filter(|(_, failure)| failure.is_some());
        parts.map(|(part, _)| part.as_ref().map_or(0, Vec::len) as u64).sum()
    }
}

struct Fleet {
    case: Case,
    dataplane: Dataplane,
    router: Arc<Router>,
    client: SessionId,
    servers: Vec<Memcached>,
    connections: Vec<Connection>,
    down: Option<usize>,
    /// Servers that have ever closed a connection.
    have_closed: BTreeSet<usize>,
    now: Instant,
    rng: SmallRng,
    /// The server that an even split should begin at.
    first: usize,
    degraded: u64,
    failed: u64,
}

impl Fleet {
    fn new(case: Case) -> Self {
        let mut rng = SmallRng::seed_from_u64(case.seed);
        let pool = (0..SERVERS).map(|number| Server::new(format!("s{number}"), 1)).collect();
        let router = Arc::new(Router::new(pool, Placement::Ketama, case.replicas).expect("a possible pool"));
        let config = Config {
            multiget: case.multiget,
            on_failure: case.on_failure,
            timeout_ns: TIMEOUT_NS,
            seed: case.seed,
            ..Config::default()
        };
        let mut dataplane = Dataplane::new(config, Arc::new((*router).clone().into()), Instant::ZERO);
        let client = dataplane.handle_accept(Login::Wanted, Instant::ZERO).expect("there is room");
        let down = (case.trouble == Trouble::Down).then(|| rng.random_range(0..SERVERS));
        let mut fleet = Self {
            case,
            dataplane,
            router,
            client,
            servers: (0..SERVERS).map(|_| Memcached::default()).collect(),
            connections: (0..SERVERS).map(|_| Connection::default()).collect(),
            have_closed: BTreeSet::new(),
            down,
            now: Instant::ZERO,
            rng,
            first: 0,
            degraded: 0,
            failed: 0,
        };
        fleet.store();
        fleet.connect();
        fleet
    }

    /// Four keys of five are there: three on all their replicas, one on its primary alone.
    fn store(&mut self) {
        for number in (0..KEYS).filter(|number| number % 5 != 4) {
            let key = format!("key{number}");
            let copies = if number % 5 == 3 { 1 } else { SERVERS };
            for server in self.replicas_of(&key).into_iter().take(copies) {
                self.servers[server].put(key.as_bytes(), value(number), number as u32);
            }
        }
    }

    fn connect(&mut self) {
        self.dataplane.handle_time(self.now);
        while let Some(event) = self.dataplane.poll_event() {
            match event {
                Event::Connect(server) if self.down == Some(server.index()) => {
                    self.dataplane.handle_server_disconnected(server, self.now);
                }
                Event::Connect(server) => {
                    self.connections[server.index()] = Connection::default();
                    self.dataplane.handle_server_connected(server, self.now);
                }
                other => panic!("nothing asks for {other:?}"),
            }
        }
    }

    /// A server that has closed twice before it answered is connected to again after a pause.
    fn wait_for_servers(&mut self) {
        self.now = self.now.plus(Config::default().reconnect_delay_max_ns);
        self.connect();
    }

    fn replicas_of(&self, key: &str) -> Vec<usize> {
        let mut out = [0; SERVERS];
        let count = self.router.replicas_of(key.as_bytes(), &mut out);
        out[..count].iter().map(|&server| usize::from(server)).collect()
    }

    /// Who may be asked for a key, the one that is asked alone first.
    fn candidates(&self, key: &str) -> Vec<usize> {
        let mut servers = self.replicas_of(key);
        servers.retain(|&server| self.down != Some(server));
        servers
    }

    /// Who decides what a key's value is.
    fn decider(&self, key: &str) -> Option<usize> {
        self.candidates(key).first().copied()
    }

    /// One request from the client to its reply.
    fn request(&mut self) {
        self.wait_for_servers();
        let verb = if self.rng.random_bool(0.8) { "get" } else { "gets" };
        let count = *[1, 2, 3, 4, 7, 8, 13].choose(&mut self.rng).expect("some sizes");
        let keys: Vec<String> =
            (0..count).map(|_| format!("key{}", self.rng.random_range(0..KEYS))).collect();
        let line = format!("{verb} {}\r\n", keys.join(" "));
        self.dataplane.handle_client_bytes(self.client, line.as_bytes(), self.now);
        let (asked, outputs) = self.take_messages(verb);
        self.check_plan(verb, &keys, &asked);
        let failures = self.answer(&asked, &outputs);
        let (again, outputs_again) = self.take_messages(verb);
        self.check_again(verb, &keys, (&asked, &failures), &again);
        let failures_again = self.answer(&again, &outputs_again);
        let steps = [Step { asked, failures }, Step { asked: again, failures: failures_again }];
        let reply = self.take_reply();
        self.check_reply(verb, &keys, &steps, &reply);
        self.hear_late(&steps[0].failures, &outputs);
        self.hear_late(&steps[1].failures, &outputs_again);
        assert_eq!(self.take_reply(), "", "{:?}", self.case);
        assert!(self.dataplane.is_quiet(), "{:?}", self.case);
    }

    /// What leaves for the servers: at most one message for each.
    fn take_messages(&mut self, verb: &str) -> (Asked, Vec<Vec<u8>>) {
        let mut outputs = vec![Vec::new(); SERVERS];
        let mut last = None;
        while let Some(server) = self.dataplane.poll_server_output(last, self.now) {
            let output = self.dataplane.server_output(server).to_vec();
            self.dataplane.handle_server_written(server, output.len(), self.now);
            outputs[server.index()] = output;
            last = Some(server);
        }
        let keys_in = |output: &Vec<u8>| {
            let text = String::from_utf8(output.clone()).expect("text");
            let line = text.strip_suffix("\r\n")?;
            let keys = line.strip_prefix(verb).unwrap_or_else(|| panic!("{line:?}, {:?}", self.case));
            assert!(!keys.contains('\n'), "two messages to one server, {:?}", self.case);
            Some(keys.split_whitespace().map(str::to_owned).collect())
        };
        (outputs.iter().map(keys_in).collect(), outputs)
    }

    /// The servers answer, in any order; some fail. Returns how each failed.
    fn answer(&mut self, asked: &Asked, outputs: &[Vec<u8>]) -> Vec<Option<Failure>> {
        let mut failures = vec![None; SERVERS];
        let mut order: Vec<usize> = (0..SERVERS).filter(|&server| asked[server].is_some()).collect();
        rand::seq::SliceRandom::shuffle(&mut order[..], &mut self.rng);
        for server in order {
            self.now = self.now.plus(self.rng.random_range(1..100));
            if self.case.trouble == Trouble::OnTheWay && self.rng.random_bool(0.2) {
                let kinds = [Failure::Late, Failure::Closed, Failure::Error];
                // With replicas others are asked instead, which has its own test.
                let kinds =
                    kinds.into_iter().filter(|kind| self.case.replicas == 1 || *kind != Failure::Closed);
                failures[server] = kinds.choose(&mut self.rng);
            }
            let mut reply = Vec::new();
            if failures[server] != Some(Failure::Late) {
                self.servers[server].handle_bytes(
                    &mut self.connections[server],
                    &outputs[server],
                    &mut reply,
                );
            }
            match failures[server] {
                None => self.hear(server, &reply),
                Some(Failure::Late) => {}
                Some(Failure::Error) => {
                    reply.truncate(reply.len() - b"END\r\n".len());
                    reply.extend_from_slice(b"SERVER_ERROR out of memory\r\n");
                    self.hear(server, &reply);
                }
                Some(Failure::Closed) => {
                    reply.truncate(self.rng.random_range(0..reply.len()));
                    self.hear(server, &reply);
                    self.dataplane.handle_server_disconnected(Slot::from_index(server), self.now);
                    self.connect();
                }
            }
        }
        if failures.contains(&Some(Failure::Late)) {
            self.now = self.now.plus(TIMEOUT_NS);
        }
        self.connect();
        failures
    }

    fn hear(&mut self, server: usize, reply: &[u8]) {
        let cut = self.rng.random_range(0..=reply.len());
        for piece in [&reply[..cut], &reply[cut..]] {
            if !piece.is_empty() {
                self.dataplane.handle_server_bytes(Slot::from_index(server), piece, self.now);
            }
        }
    }

    fn take_reply(&mut self) -> String {
        let reply = self.dataplane.client_output(self.client).to_vec();
        self.dataplane.handle_client_written(self.client, reply.len(), self.now);
        String::from_utf8(reply).expect("text")
    }

    /// Late replies come, and reach nobody.
    fn hear_late(&mut self, failures: &[Option<Failure>], outputs: &[Vec<u8>]) {
        for (server, _) in failures.iter().enumerate().filter(|(_, it)| **it == Some(Failure::Late)) {
            let mut reply = Vec::new();
            self.servers[server].handle_bytes(&mut self.connections[server], &outputs[server], &mut reply);
            self.hear(server, &reply);
        }
    }

    /// One request of which one server closes the connection before its reply, or within it. Returns whether one did.
    fn request_and_close_one(&mut self) -> bool {
        self.wait_for_servers();
        let verb = if self.rng.random_bool(0.5) { "get" } else { "gets" };
        let count = self.rng.random_range(1..12);
        let numbers: Vec<usize> = (0..count).map(|_| self.rng.random_range(0..KEYS)).collect();
        let line: String = numbers.iter().map(|number| format!(" key{number}")).collect();
        self.dataplane.handle_client_bytes(self.client, format!("{verb}{line}\r\n").as_bytes(), self.now);
        let mut closed = None;
        loop {
            let mut last = None;
            let mut asked = Vec::new();
            while let Some(server) = self.dataplane.poll_server_output(last, self.now) {
                let output = self.dataplane.server_output(server).to_vec();
                self.dataplane.handle_server_written(server, output.len(), self.now);
                asked.push((server.index(), output));
                last = Some(server);
            }
            if asked.is_empty() {
                break;
            }
            for (server, output) in asked {
                let mut reply = Vec::new();
                self.servers[server].handle_bytes(&mut self.connections[server], &output, &mut reply);
                if closed.is_none() && self.rng.random_bool(0.4) {
                    closed = Some(server);
                    self.have_closed.insert(server);
                    reply.truncate(self.rng.random_range(0..reply.len()));
                    self.hear(server, &reply);
                    self.dataplane.handle_server_disconnected(Slot::from_index(server), self.now);
                    self.connect();
                } else {
                    self.hear(server, &reply);
                }
            }
        }
        let reply = self.take_reply();
        let mut rest = reply.as_str();
        for number in numbers {
            let key = format!("key{number}");
            let holders = self.replicas_of(&key).into_iter().filter_map(|server| {
                Some((server, self.token(server, self.servers[server].item(key.as_bytes())?.cas)))
            });
            let holders: Vec<_> = holders.collect();
            let text = String::from_utf8(value(number)).expect("text");
            let found = holders.iter().find_map(|(_, token)| {
                let token = if verb == "gets" { format!(" {token}") } else { String::new() };
                rest.strip_prefix(&*format!("VALUE {key} {number} {}{token}\r\n{text}\r\n", text.len()))
            });
            // Who closed may have been the only one that has it. Of three servers of which two have ever closed, the third is asked.
            let has_choice = self.case.replicas > 2;
            let may_miss = holders.iter().all(|(server, _)| {
                closed == Some(*server) || has_choice && self.have_closed.contains(server)
            });
            assert!(found.is_some() || may_miss, "{:?}: {key} is not at {rest:?} of {reply:?}", self.case);
            rest = found.unwrap_or(rest);
        }
        assert_eq!(rest, "END\r\n", "{:?}: {reply:?}", self.case);
        closed.is_some()
    }

    // ── the oracle ──────────────────────────────────────────────────────────────────────────────────────────────────

    fn check_plan(&mut self, verb: &str, keys: &[String], asked: &Asked) {
        let case = self.case;
        let live = SERVERS - usize::from(self.down.is_some());
        let unreachable = keys.iter().filter(|key| self.candidates(key).is_empty()).count();
        let sent: usize = asked.iter().flatten().map(Vec::len).sum();
        if unreachable > 0 && case.on_failure == OnFailure::Strict {
            return assert_eq!(sent, 0, "{case:?}: nothing is sent that cannot be answered");
        }
        assert_eq!(sent, keys.len() - unreachable, "{case:?}");
        for (server, part) in asked.iter().enumerate() {
            for key in part.iter().flatten() {
                assert!(self.candidates(key).contains(&server), "{case:?}: {key} of server {server}");
            }
        }
        let parts: Vec<usize> = asked.iter().flatten().map(Vec::len).collect();
        let largest = parts.iter().copied().max().unwrap_or(0);
        if keys.len() == 1 || verb == "gets" {
            for (server, part) in asked.iter().enumerate() {
                for key in part.iter().flatten() {
                    assert_eq!(self.candidates(key)[0], server, "{case:?}");
                }
            }
        } else if case.replicas < SERVERS {
            if keys.len() <= 8 {
                let choices: Vec<_> = keys.iter().map(|key| self.candidates(key)).collect();
                assert_eq!(largest, smallest_largest(&choices, &mut [0; SERVERS]), "{case:?}: {asked:?}");
            }
        } else if parts.len() == 1 && case.multiget != Multiget::Sharded {
            assert_eq!(asked[self.candidates(&keys[0])[0]].as_deref(), Some(keys), "{case:?}");
        } else {
            assert_ne!(case.multiget, Multiget::Whole, "{case:?}: {asked:?}");
            assert_eq!(parts.len(), live.min(keys.len()), "{case:?}");
            assert!(largest - parts.iter().min().expect("some parts") <= 1, "{case:?}: {parts:?}");
            self.check_even_split(keys, asked);
        }
    }

    /// The parts are ranges of the keys, and begin at the next server with every request.
    fn check_even_split(&mut self, keys: &[String], asked: &Asked) {
        let parts = (0..SERVERS).filter_map(|step| asked[(self.first + step) % SERVERS].as_ref());
        let in_order: Vec<&String> = parts.flatten().collect();
        assert_eq!(in_order, keys.iter().collect::<Vec<_>>(), "{:?}", self.case);
        self.first = (self.first + 1) % SERVERS;
    }

    /// What other servers than the decider do not have is asked of the decider, unless it is too late, or no use.
    fn check_again(&self, verb: &str, keys: &[String], first: (&Asked, &[Option<Failure>]), again: &Asked) {
        let (asked, failures) = first;
        let strict = self.case.on_failure == OnFailure::Strict;
        let useless = strict && failures.iter().any(Option::is_some);
        let mut expected = vec![Vec::new(); SERVERS];
        if verb == "get" && keys.len() > 1 && !useless && !failures.contains(&Some(Failure::Late)) {
            for server in (0..SERVERS).filter(|&server| failures[server].is_none()) {
                for key in asked[server].iter().flatten() {
                    let decider = self.decider(key).expect("somebody was asked");
                    let has = self.servers[server].item(key.as_bytes()).is_some();
                    if !has && decider != server {
                        expected[decider].push(key.clone());
                    }
                }
            }
        }
        for (part, expected) in again.iter().zip(&mut expected) {
            let mut part = part.clone().unwrap_or_default();
            part.sort();
            expected.sort();
            assert_eq!(part, *expected, "{:?}", self.case);
        }
    }

    fn check_reply(&mut self, verb: &str, keys: &[String], steps: &[Step; 2], reply: &str) {
        let case = self.case;
        let missed: u64 = (keys.len() - steps[0].asked.iter().flatten().map(Vec::len).sum::<usize>()) as u64;
        let failed = steps.iter().map(Step::failed).sum::<u64>() + missed;
        if failed > 0 && case.on_failure == OnFailure::Strict {
            self.failed += 1;
            let is_one_line =
                reply.starts_with("SERVER_ERROR ") && reply.find("\r\n") == Some(reply.len() - 2);
            return assert!(is_one_line, "{case:?}: {reply:?}");
        }
        self.degraded += failed;
        let mut expected = BTreeSet::new();
        let mut parts = Vec::new();
        for step in steps {
            parts.extend(step.asked.iter().map(|part| part.as_deref().unwrap_or_default()));
        }
        self.replies(verb, keys, &mut parts, steps, String::new(), &mut expected);
        assert!(expected.contains(reply), "{case:?}: {keys:?}, {steps:?}\n{reply:?}\n{expected:?}");
    }

    /// Every reply that fits: which of two equal keys went to which server cannot always be seen. `parts` are what is left of the
    /// parts of both steps.
    fn replies(
        &self,
        verb: &str,
        keys: &[String],
        parts: &mut Vec<&[String]>,
        steps: &[Step; 2],
        reply: String,
        out: &mut BTreeSet<String>,
    ) {
        let Some((key, rest)) = keys.split_first() else {
            if parts.iter().all(|part| part.is_empty()) {
                out.insert(reply + "END\r\n");
            }
            return;
        };
        let takers: Vec<usize> = (0..SERVERS).filter(|&server| parts[server].first() == Some(key)).collect();
        if takers.is_empty() {
            return self.replies(verb, rest, parts, steps, reply, out);
        }
        let mut seen = BTreeSet::new();
        for server in takers {
            let before = parts.clone();
            parts[server] = &before[server][1..];
            let mut block = self.block(verb, server, key, &steps[0]);
            let decider = self.decider(key).expect("somebody was asked");
            let second = SERVERS + decider;
            let was_missed = block.is_empty() && steps[0].failures[server].is_none() && decider != server;
            if was_missed
                && let Some((_, left)) = parts[second].split_first().filter(|(first, _)| *first == key)
            {
                parts[second] = left;
                block = self.block(verb, decider, key, &steps[1]);
            }
            // Where it makes no difference to the reply, one way stands for all that leave equal rests.
            if seen.insert((block.clone(), parts.clone())) {
                self.replies(verb, rest, parts, steps, format!("{reply}{block}"), out);
            }
            *parts = before;
        }
    }

    /// What a server answers for a key.
    fn block(&self, verb: &str, server: usize, key: &str, step: &Step) -> String {
        if step.failures[server].is_some() {
            return String::new();
        }
        let Some(item) = self.servers[server].item(key.as_bytes()) else { return String::new() };
        let token = if verb == "gets" { format!(" {}", self.token(server, item.cas)) } else { String::new() };
        let text = String::from_utf8(item.value.clone()).expect("text");
        format!("VALUE {key} {} {}{token}\r\n{text}\r\n", item.flags, text.len())
    }

    /// What clients see for a server's number: with its tag, where keys have several servers.
    fn token(&self, server: usize, number: u64) -> u64 {
        if self.case.replicas > 1 { TAGS[server] << 48 | number } else { number }
    }
}

/// What tells the tokens of `s0:1`, `s1:1` and `s2:1` from each other.
const TAGS: [u64; SERVERS] = [0x4f1a, 0x4004, 0x388d];

fn value(number: usize) -> Vec<u8> {
    // Bytes that look like replies must do no harm.
    format!("{number}\r\nEND\r\nVALUE key1 0 1\r\n").repeat(number % 5).into_bytes()
}

/// The size of the largest part if the keys are spread as well as can be, by trying every way.
fn smallest_largest(choices: &[Vec<usize>], loads: &mut [usize; SERVERS]) -> usize {
    let Some((first, rest)) = choices.split_first() else {
        return *loads.iter().max().expect("some servers");
    };
    if first.is_empty() {
        return smallest_largest(rest, loads);
    }
    let ways = first.iter().map(|&server| {
        loads[server] += 1;
        let largest = smallest_largest(rest, loads);
        loads[server] -= 1;
        largest
    });
    ways.min().expect("a key has a server")
}

#[test]
fn every_mode_is_right_whatever_befalls_the_servers() {
    for multiget in Multiget::ALL {
        for replicas in 1..=SERVERS {
            if multiget.check(SERVERS, replicas).is_err() {
                continue;
            }
            let (mut degraded, mut failed, mut again) = (0, 0, 0);
            for trouble in [Trouble::None, Trouble::Down, Trouble::OnTheWay] {
                for on_failure in OnFailure::ALL {
                    for seed in 0..SEEDS {
                        let mut fleet = Fleet::new(Case { multiget, replicas, trouble, on_failure, seed });
                        (0..REQUESTS).for_each(|_| fleet.request());
                        let counters = fleet.dataplane.report(fleet.now).counters;
                        assert_eq!(counters.keys_degraded, fleet.degraded, "{:?}", fleet.case);
                        assert_eq!(counters.requests_failed, fleet.failed, "{:?}", fleet.case);
                        assert!(trouble != Trouble::None || fleet.degraded + fleet.failed == 0);
                        degraded += fleet.degraded;
                        failed += fleet.failed;
                        again += counters.keys_asked_again;
                    }
                }
            }
            assert!(degraded > 0 && failed > 0, "{multiget}, {replicas} replicas: no server ever failed");
            assert_eq!(again > 0, replicas > 1, "{multiget}, {replicas} replicas");
        }
    }
}

#[test]
fn a_server_that_closes_costs_nobody_a_read_where_keys_have_another() {
    for multiget in Multiget::ALL {
        for replicas in (2..=SERVERS).filter(|&replicas| multiget.check(SERVERS, replicas).is_ok()) {
            for on_failure in OnFailure::ALL {
                for seed in 0..SEEDS {
                    let mut fleet =
                        Fleet::new(Case { multiget, replicas, trouble: Trouble::None, on_failure, seed });
                    let closed = (0..REQUESTS).filter(|_| fleet.request_and_close_one()).count();
                    let counters = fleet.dataplane.report(fleet.now).counters;
                    assert!(closed > 0 && counters.reads_retried > 0);
                    assert_eq!(
                        (counters.requests_failed, counters.keys_degraded),
                        (0, 0),
                        "{:?}",
                        fleet.case
                    );
                    assert!(fleet.dataplane.is_quiet(), "{:?}", fleet.case);
                }
            }
        }
    }
}
