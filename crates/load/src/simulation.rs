//! For tests: whole runs in simulated time, against a server whose every service time is known.
//!
//! Everything of the load generator but its driver takes part: agenda, pace, connection, recorder. The driver's place is
//! taken by [`World::run`], which never sends late.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use rand::rngs::SmallRng;
use weir_timing::{Distribution, Instant, Operation};

use crate::config::{Config, Pacing, Settings};
use crate::connection::Connection;
use crate::driver::clock::Clock;
use crate::driver::cpu::CpuTime;
use crate::pacing::agenda::Agenda;
use crate::pacing::arrivals::{exponential, generator};
use crate::pacing::pace::Pace;
use crate::pacing::schedule::{Process, ThinkTime};
use crate::recorder::Recorder;
use crate::recorder::phase::{Phase, Timeline};
use crate::report::answer::Answer;
use crate::report::bottleneck::Bottleneck;
use crate::report::{Measurements, Report};
use crate::workload::Workload;
use crate::workload::mix::Source;

/// One run.
struct World {
    config: Config,
    connections: Vec<Connection>,
    agenda: Agenda,
    recorder: Recorder,
    server: Server,
    timeline: Timeline,
    output: Vec<u8>,
    /// Memory asked for by what is under test since [`World::count_from`].
    allocations: u64,
    count_from: Instant,
    is_stopped: bool,
}

/// One station that serves requests of all connections in the order in which they come. It stores nothing.
struct Server {
    service: Service,
    rng: SmallRng,
    /// While this lasts it does nothing.
    frozen: (Instant, Instant),
    /// How long replies are on their way.
    path_ns: u64,
    /// When it arrives, and on which connection, in order.
    replies: VecDeque<(Instant, usize, &'static [u8])>,
    last_departure: Instant,
}

#[derive(Clone, Copy)]
enum Service {
    Fixed(f64),
    /// With this mean.
    Exponential(f64),
}

fn at(seconds: f64) -> Instant {
    Instant::from_nanos((seconds * 1e9) as u64)
}

fn settings(pacing: Pacing, duration_s: f64) -> Settings {
    Settings {
        pacing,
        warmup: Duration::ZERO,
        duration: Duration::from_secs_f64(duration_s),
        ..Settings::example()
    }
}

impl World {
    fn new(settings: Settings, service: Service) -> World {
        let config = Config::check(settings).expect("the settings are valid");
        let workload = Arc::new(Workload::new(&config, 7, None));
        let timeline = {
            let measured = Instant::ZERO.plus(config.warmup.as_nanos() as u64);
            let end = measured.plus(config.duration.as_nanos() as u64);
            Timeline { warmup: Instant::ZERO, measured, end }
        };
        let mut agenda = match config.plan() {
            Some(plan) => Agenda::open(&plan, 0..config.connections as u32, timeline.warmup),
            None => Agenda::closed(config.connections * config.depth),
        };
        let connections = (0..config.connections as u32)
            .map(|id| {
                let mut connection = Connection::new(id, "here:1".into(), workload.clone());
                let mut pace = Pace::new(&config, id);
                pace.begin(timeline.warmup, config.depth, 0.5);
                let source = Source::FirstKey { fill: config.content.read_through };
                connection.set_source(source, pace, config.depth);
                while let Some(ready) = connection.pace().pop_ready() {
                    agenda.add(id, ready);
                }
                connection
            })
            .collect();
        let mut recorder = Recorder::new(false);
        recorder.set_timeline(timeline);
        let server = Server {
            service,
            rng: generator(config.seed, b"service", 0),
            frozen: (Instant::ZERO, Instant::ZERO),
            path_ns: 0,
            replies: VecDeque::new(),
            last_departure: Instant::ZERO,
        };
        World {
            config,
            connections,
            agenda,
            recorder,
            server,
            timeline,
            output: Vec::new(),
            allocations: 0,
            count_from: crate::recorder::phase::NEVER,
            is_stopped: false,
        }
    }

    fn frozen(mut self, from_s: f64, until_s: f64) -> World {
        self.server.frozen = (at(from_s), at(until_s));
        self
    }

    fn over_a_path(mut self, length: Duration) -> World {
        self.server.path_ns = length.as_nanos() as u64;
        self
    }

    fn report(self) -> Report {
        let World { config, recorder, timeline, .. } = self;
        let (finished, cpu) = (timeline.end, CpuTime::default());
        let prefill_began = timeline.warmup;
        let clock = Clock::start();
        Report::new(&config, &Measurements { recorder, clock, prefill_began, timeline, finished, cpu })
    }

    /// Runs to the end, and drains without a limit.
    fn run(mut self) -> World {
        let end = self.timeline.end;
        loop {
            let due = self.agenda.next_at().filter(|due| *due < end);
            let replied = self.server.replies.front().map(|(arrival, ..)| *arrival);
            let next = due.into_iter().chain(replied).min();
            if !self.is_stopped && next.is_none_or(|next| next >= end) {
                self.is_stopped = true;
                self.connections.iter_mut().for_each(Connection::stop);
            }
            match (due, replied) {
                (Some(due), replied) if replied.is_none_or(|arrival| due <= arrival) => {
                    self.dispatch(due);
                }
                (_, Some(arrival)) => self.reply(arrival),
                (_, None) => break,
            }
        }
        for connection in &mut self.connections {
            assert!(connection.is_done(), "everything that was due is answered");
        }
        self
    }

    fn dispatch(&mut self, now: Instant) {
        let before = crate::allocations::count();
        let arrival = self.agenda.pop_due(now).expect("something is due");
        let pace = self.connections[arrival.connection as usize].pace();
        self.recorder.record_arrival(arrival.intended, pace.waiting());
        if !pace.handle_due(arrival.intended, now) {
            self.recorder.record_unsent(arrival.intended);
        }
        self.count(now, before);
        self.issue(arrival.connection as usize, now);
    }

    fn reply(&mut self, now: Instant) {
        let (_, number, bytes) = self.server.replies.pop_front().expect("a reply has come");
        let before = crate::allocations::count();
        let connection = &mut self.connections[number];
        let taken = connection.handle_bytes(bytes, now, &mut self.recorder);
        assert_eq!(taken, Ok(bytes.len()));
        while let Some(ready) = connection.pace().pop_ready() {
            self.agenda.add(number as u32, ready);
        }
        self.count(now, before);
        self.issue(number, now);
    }

    fn issue(&mut self, number: usize, now: Instant) {
        let before = crate::allocations::count();
        self.output.clear();
        let connection = &mut self.connections[number];
        connection.poll_requests(now, &mut self.output, &mut self.recorder);
        connection.handle_sent(self.output.len(), now);
        self.count(now, before);
        let mut requests = &self.output[..];
        while let Some(bytes) = answered(&mut requests) {
            let arrival = self.server.departure(now).plus(self.server.path_ns);
            self.server.replies.push_back((arrival, number, bytes));
        }
    }

    fn count(&mut self, now: Instant, before: u64) {
        if (self.count_from..self.timeline.end).contains(&now) {
            self.allocations += crate::allocations::count() - before;
        }
    }

    fn get(&self) -> &crate::recorder::OperationCounts {
        self.recorder.operation(Operation::Get)
    }

    fn mean_s(&self) -> f64 {
        self.get().response_time.mean().expect("something was measured") / 1e9
    }
}

impl Server {
    fn departure(&mut self, now: Instant) -> Instant {
        let service_s = match self.service {
            Service::Fixed(length) => length,
            Service::Exponential(mean) => mean * exponential(&mut self.rng),
        };
        let service_ns = (service_s * 1e9) as u64;
        let begins = now.max(self.last_departure);
        let (frozen, thawed) = self.frozen;
        let departure = begins.plus(service_ns);
        self.last_departure = if departure <= frozen || begins >= thawed {
            departure
        } else if begins < frozen {
            departure.plus(thawed.saturating_since(frozen))
        } else {
            thawed.plus(service_ns)
        };
        self.last_departure
    }
}

/// Takes the first of `requests`, which are `get` and `set`, and answers it as a cache that holds nothing.
fn answered(requests: &mut &[u8]) -> Option<&'static [u8]> {
    let all = *requests;
    let line_end = all.iter().position(|byte| *byte == b'\n')?;
    let (line, rest) = all.split_at(line_end + 1);
    if line.starts_with(b"get ") {
        *requests = rest;
        return Some(b"END\r\n");
    }
    let line = std::str::from_utf8(line).expect("a request's line is text");
    let size = line.split_whitespace().last().expect("a set has words");
    let size: usize = size.parse().expect("the last is the size of its value");
    *requests = &rest[size + 2..];
    Some(b"STORED\r\n")
}

/// A quantile in seconds.
fn quantile(times: &Distribution, quantile: f64) -> f64 {
    times.quantile(quantile).expect("something was measured") as f64 / 1e9
}

fn assert_within(found: f64, expected: f64, share: f64, what: &str) {
    assert!((found - expected).abs() <= share * expected, "{what}: {found} instead of {expected}");
}

/// A fifth of all requests fall into the two seconds in which the server does nothing, and wait evenly between nothing and two seconds. So
/// the 90th percentile is one second, the 99th 1.9, the 99.9th 1.99.
#[test]
fn a_freeze_is_seen_by_all_requests_that_should_have_been_sent_meanwhile() {
    for connections in [1, 10, 100] {
        let pacing = Settings::offered("1000", Process::Fixed);
        let settings = Settings { connections, ..settings(pacing, 10.0) };
        let world = World::new(settings, Service::Fixed(2e-6)).frozen(4.0, 6.0).run();
        let times = &world.get().response_time;
        assert_eq!(times.count(), 10_000, "{connections} connections");
        assert_within(quantile(times, 0.9), 1.0, 0.02, "p90");
        assert_within(quantile(times, 0.99), 1.9, 0.02, "p99");
        assert_within(quantile(times, 0.999), 1.99, 0.02, "p99.9");
        assert!(quantile(times, 0.5) < 0.005);

        // Who counts from sending sees as many slow requests as there are connections.
        let from_send = &world.get().response_time_from_send;
        let share = connections as f64 / 10_000.0;
        assert!(quantile(from_send, 1.0 - share - 1e-4) < 0.005, "{connections} connections");
        assert!(quantile(from_send, 1.0) > 1.9, "{connections} connections");

        let scheduled = world.recorder.scheduled();
        assert_eq!((scheduled.arrivals, scheduled.unsent, scheduled.late), (10_000, 0, 0));
        // Of the 2000 and the one that comes with the thaw, one is outstanding on each connection and the last one does not
        // count itself.
        assert_eq!(scheduled.backlog_max as usize, 2000 / connections - 1);
        assert_eq!([4, 5].map(|second| world.recorder.window(second).completed), [0, 0]);
        assert_eq!([4, 5].map(|second| world.recorder.window(second).arrivals), [1000, 1000]);
    }
}

#[test]
fn requests_of_the_last_moment_are_waited_for() {
    let pacing = Settings::offered("1000", Process::Fixed);
    let world = World::new(settings(pacing, 10.0), Service::Fixed(2e-6)).frozen(9.0, 12.0).run();
    let times = &world.get().response_time;
    assert_eq!(times.count(), 10_000);
    assert_within(quantile(times, 1.0), 3.0, 0.01, "the request of second 9");
    assert_eq!(
        world.recorder.phase(Phase::Drain).requests,
        0,
        "they belong to when they should have been sent"
    );
    let completed: u64 = (0..10).map(|second| world.recorder.window(second).completed).sum();
    assert_eq!(completed, 9_000);
}

/// 99.9 % quantile of Student's t with 15 degrees of freedom, two-sided.
const T_15: f64 = 4.073;

/// Mean response times of independent runs at 70 % utilization; checks that their mean agrees with `expected`.
fn check_queue(service: Service, expected_s: f64, what: &str) -> Vec<World> {
    let worlds: Vec<World> = (1..=16)
        .map(|seed| {
            let pacing = Settings::offered("2000", Process::Poisson);
            let settings = Settings {
                seed,
                depth: 10_000,
                keys: 10,
                warmup: Duration::from_millis(500),
                ..settings(pacing, 6.0)
            };
            World::new(settings, service).run()
        })
        .collect();
    let means: Vec<f64> = worlds.iter().map(World::mean_s).collect();
    let count = means.len() as f64;
    let mean = means.iter().sum::<f64>() / count;
    let variance = means.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half_width = T_15 * (variance / count).sqrt();
    assert!(half_width < 0.08 * expected_s, "{what}: the interval ±{half_width} could show a difference");
    assert!((mean - expected_s).abs() < half_width, "{what}: {mean} ± {half_width} instead of {expected_s}");
    worlds
}

/// Mean response time of the queue M/D/1: S (1 + ρ / (2 (1 − ρ))).
#[test]
fn response_times_of_a_server_with_constant_service_agree_with_theory() {
    let (service, load) = (350e-6, 0.7);
    let expected = service * (1.0 + load / (2.0 * (1.0 - load)));
    check_queue(Service::Fixed(service), expected, "M/D/1");
}

/// Mean response time of the queue M/M/1: S / (1 − ρ), and exponentially distributed.
#[test]
fn response_times_of_a_server_with_exponential_service_agree_with_theory() {
    let (service, load) = (350e-6, 0.7);
    let expected = service / (1.0 - load);
    let worlds = check_queue(Service::Exponential(service), expected, "M/M/1");
    let mut all = Distribution::new();
    worlds.iter().for_each(|world| all.merge(&world.get().response_time));
    for q in [0.5, 0.9, 0.99] {
        assert_within(quantile(&all, q), -(1.0_f64 - q).ln() * expected, 0.1, "quantile of M/M/1");
    }
}

/// Throughput of N clients that think for Z before a server with exponential service: the machine repairman's queue.
#[test]
fn thinking_clients_obey_the_interactive_law_and_theory() {
    let (clients, think, service) = (20, 10e-3, 1e-3);
    let pacing = Pacing::Closed { think_time: ThinkTime::Exponential(Duration::from_secs_f64(think)) };
    let settings =
        Settings { connections: 5, depth: 4, warmup: Duration::from_secs(1), ..settings(pacing, 60.0) };
    let world = World::new(settings, Service::Exponential(service)).run();
    let throughput = world.get().requests as f64 / 60.0;
    let by_law = f64::from(clients) / (world.mean_s() + think);
    assert_within(throughput, by_law, 0.01, "interactive law");
    // p(n) = N! / (N − n)! (S / Z)^n p(0); X = (1 − p(0)) / S.
    let weights: f64 = (0..=clients)
        .scan(1.0, |weight, served| {
            let here = *weight;
            *weight *= f64::from(clients - served) * service / think;
            Some(here)
        })
        .sum();
    assert_within(throughput, (1.0 - 1.0 / weights) / service, 0.02, "machine repairman");
    let lateness = &world.recorder.scheduled().lateness;
    assert_eq!(lateness.max(), Some(0), "nothing but the generator could be late, and it is not");
}

#[test]
fn clients_that_think_for_a_fixed_time_keep_a_fixed_cycle() {
    let think_time = ThinkTime::Fixed(Duration::from_millis(9));
    let settings = Settings { connections: 10, ..settings(Pacing::Closed { think_time }, 1.0) };
    let world = World::new(settings, Service::Fixed(1e-3)).run();
    // Ten clients with a cycle of 10 ms fill one server: after the first, each is served when it comes.
    assert!((990..=1010).contains(&world.get().requests), "{}", world.get().requests);
}

#[test]
fn an_overloaded_open_loop_fills_a_bounded_backlog_and_accounts_for_every_arrival() {
    let pacing = Settings::offered("1000", Process::Poisson);
    let settings = Settings { connections: 2, backlog: Some(50), ..settings(pacing, 4.0) };
    let world = World::new(settings, Service::Fixed(2e-3)).run();
    let scheduled = world.recorder.scheduled();
    assert!(scheduled.unsent > 1500, "half of the load is too much: {}", scheduled.unsent);
    assert_eq!(scheduled.arrivals, world.get().requests + scheduled.unsent);
    assert_eq!(scheduled.backlog_max, 50);
    let arrivals: u64 = (0..4).map(|second| world.recorder.window(second).arrivals).sum();
    assert_eq!(arrivals, scheduled.arrivals);
}

/// The share of arrivals that the target kept up with, where the run says that it fell behind.
fn fell_behind(world: World) -> Option<f64> {
    let report = world.report();
    let said = Answer::new(&report).to_string();
    let kept_up = match report.bottleneck {
        Some(Bottleneck::Target { kept_up, .. }) => kept_up,
        _ => None,
    };
    assert_eq!(kept_up.is_some(), said.contains("the target fell behind"), "{said}");
    kept_up
}

/// Each arrival is a `get` that misses and the `set` behind it, so that the server answers more requests than arrive, and bears two thirds of the
/// arrivals.
#[test]
fn what_answers_ask_for_hides_no_overload() {
    let mut settings = settings(Settings::offered("1000", Process::Fixed), 4.0);
    settings.connections = 2;
    settings.content.read_through = true;
    let world = World::new(settings, Service::Fixed(0.75e-3)).run();
    let completed: u64 = (0..4).map(|second| world.recorder.window(second).completed).sum();
    assert!(completed > 5000, "{completed}");
    let kept_up = fell_behind(world).expect("a third is too much");
    assert_within(kept_up, 2.0 / 3.0, 0.01, "kept up");
}

#[test]
fn what_is_on_its_way_at_the_end_is_no_overload() {
    let path = Duration::from_millis(30);
    let ramp = Settings::offered("0..10000 1s", Process::Fixed);
    let settings = Settings { connections: 4, depth: 1000, ..settings(ramp, 1.0) };
    let world = World::new(settings, Service::Fixed(1e-6)).over_a_path(path).run();
    let completed = world.recorder.window(0).completed;
    assert!(completed < 4800, "6 % are under way: {completed}");
    assert_eq!(fell_behind(world), None);
}

#[test]
fn overload_is_found_in_the_pipe_as_in_the_backlog() {
    for depth in [1, 10_000] {
        let settings = Settings { depth, ..settings(Settings::offered("1050", Process::Fixed), 10.0) };
        let kept_up = fell_behind(World::new(settings, Service::Fixed(1e-3)).run());
        assert!(kept_up.is_some_and(|share| (0.95..0.98).contains(&share)), "depth {depth}: {kept_up:?}");
    }
}

#[test]
fn a_target_that_stands_still_for_the_whole_measured_phase_fell_behind() {
    let settings = settings(Settings::offered("1000", Process::Fixed), 2.0);
    let kept_up = fell_behind(World::new(settings, Service::Fixed(2e-6)).frozen(0.0, 4.0).run());
    assert!(kept_up.is_some_and(|share| share <= 0.101), "{kept_up:?}");
}

#[test]
fn a_closed_loop_says_which_times_its_end_cut_off() {
    let pacing = Pacing::Closed { think_time: ThinkTime::Fixed(Duration::from_millis(1)) };
    let settings = Settings { connections: 4, ..settings(pacing, 10.0) };
    let report = World::new(settings, Service::Fixed(1e-4)).frozen(9.0, 12.0).run().report();
    let said = Answer::new(&report).to_string();
    assert!(
        said.contains("4 answers came after the end, the slowest after 3.00 s, which no time shows"),
        "{said}"
    );
}

#[test]
fn a_steady_open_loop_asks_for_no_memory() {
    for (process, think_time) in [(Some(Process::Poisson), None), (None, Some(Duration::from_millis(4)))] {
        let pacing = match (process, think_time) {
            (Some(process), _) => Settings::offered("10000", process),
            (None, think_time) => Pacing::Closed {
                think_time: ThinkTime::Exponential(think_time.expect("one of both is given")),
            },
        };
        let settings = Settings { connections: 8, depth: 8, ..settings(pacing, 4.0) };
        let mut world = World::new(settings, Service::Fixed(30e-6));
        // Until then every buffer has come to its size, and every power of two in the distributions has been met.
        world.count_from = at(2.0);
        let world = world.run();
        assert!(world.get().requests > 20_000);
        assert_eq!(world.allocations, 0, "{:?}", world.config.pacing);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// This holds whatever is offered, and however slow or frozen the server is. Every arrival is answered or counted as never sent. Every
    /// answer has its times. Nothing is answered before it should have been sent, and the generator is never to blame.
    #[test]
    fn every_arrival_is_accounted_for(
        (from, to) in (0u32..3000, 1u32..3000),
        process in prop_oneof![Just(Process::Fixed), Just(Process::Poisson), (1u64..50).prop_map(Process::Bursts)],
        connections in 1usize..20,
        depth in 1usize..6,
        backlog in 1usize..200,
        service_us in 1u32..3000,
        (frozen_from, frozen_for) in (0.0f64..2.0, 0.0f64..1.0),
        seed in any::<u64>(),
    ) {
        let pacing = Settings::offered(&format!("{from}..{to} 1s, {to} 200ms"), process);
        let settings = Settings { connections, depth, backlog: Some(backlog), seed, ..settings(pacing, 1.2) };
        let service = Service::Exponential(f64::from(service_us) * 1e-6);
        let world = World::new(settings, service).frozen(frozen_from, frozen_from + frozen_for).run();
        let scheduled = world.recorder.scheduled();
        let get = world.get();
        prop_assert_eq!(scheduled.arrivals, get.requests + scheduled.unsent);
        if process != Process::Poisson {
            let offered = (f64::from(from) + f64::from(to)) / 2.0 + f64::from(to) * 0.2;
            prop_assert_eq!(scheduled.arrivals, offered.ceil() as u64);
        }
        prop_assert_eq!(get.response_time.count(), get.requests);
        prop_assert_eq!(get.response_time_from_send.count(), get.requests);
        prop_assert!(get.response_time.sum() >= get.response_time_from_send.sum());
        prop_assert!(scheduled.backlog_max <= backlog as u64);
        prop_assert_eq!(scheduled.lateness.sum(), 0);
        let windows = [0, 1].map(|index| world.recorder.window(index));
        prop_assert_eq!(windows.iter().map(|window| window.requests).sum::<u64>(), get.requests);
        prop_assert_eq!(windows.iter().map(|window| window.arrivals).sum::<u64>(), scheduled.arrivals);
        prop_assert_eq!(world.recorder.total().requests, get.requests);
    }
}
