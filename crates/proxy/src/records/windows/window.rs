//! One second of the whole proxy: summed up, kept in little memory, and written as `weir.window/1` of `docs/reference/formats.md`.

use crate::process::clock;
use crate::records::windows::Queue;
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, mem, sync::Arc};
use weir_dataplane::{Counters, LoopWindow, ServerWindow};
use weir_timing::{CompactDistribution, Distribution, Measurements, Operation, QueueReport, Stage};

/// A window that is being summed up.
#[derive(Default)]
pub(super) struct Sum {
    measured: Measurements,
    counters: Counters,
    servers: Vec<ServerWindow>,
    threads: BTreeMap<usize, Turns>,
    latest: BTreeMap<usize, Latest>,
    /// As they were at the end, since they began.
    pub(super) queues: Vec<QueueReport>,
    /// How many workers of each queue might serve at once at the end.
    pub(super) crews: Vec<u64>,
    cpu_ns: u64,
}

#[derive(Clone, Copy, Default)]
struct Turns {
    count: u64,
    busy_ns: u128,
}

/// What a thread said last. A thread that says nothing has not changed.
#[derive(Clone, Default)]
struct Latest {
    sessions: u64,
    in_service: u64,
    servers: Vec<ServerWindow>,
}

impl Sum {
    /// What was before the first window.
    pub(super) fn begin(queues: &[Arc<dyn Queue>]) -> Self {
        Self { queues: vec![QueueReport::default(); queues.len()], ..Self::default() }
    }

    pub(super) fn add(&mut self, thread: usize, part: LoopWindow) {
        self.counters.merge(&part.counters);
        let turns = self.threads.entry(thread).or_default();
        turns.count += part.measured.turn_time().count();
        turns.busy_ns += part.measured.turn_time().sum();
        self.measured.merge_requests_and_turns(&part.measured);
        let servers = part.servers.iter().map(ServerWindow::quiet).collect();
        self.latest.insert(thread, Latest { sessions: part.sessions, in_service: part.in_service, servers });
        add_servers(&mut self.servers, part.servers);
    }

    /// `before`: what the threads said last, and the queues at the end of the window before; is brought up to this one.
    pub(super) fn close(
        mut self,
        index: u64,
        length_ns: u64,
        before: &mut Self,
        names: &[Arc<str>],
        queues: &[Arc<dyn Queue>],
    ) -> Window {
        before.latest.append(&mut self.latest);
        // Servers stand in the order of who knows the table; those of threads that were silent are added with what they are now.
        let silent = before.latest.iter().filter(|(thread, _)| !self.threads.contains_key(thread));
        let mut sum = mem::take(&mut self.servers);
        silent.for_each(|(_, latest)| add_servers(&mut sum, latest.servers.clone()));
        self.servers = sum;
        let queue_reports: Vec<_> = mem::take(&mut self.queues);
        let cpu_now = clock::process_cpu_ns();
        let window = Window {
            index,
            length_ns,
            ended_unix_ns: clock::unix_ns(),
            sessions: before.latest.values().map(|latest| latest.sessions).sum(),
            in_service: before.latest.values().map(|latest| latest.in_service).sum(),
            cpu_ns: cpu_now.saturating_sub(before.cpu_ns),
            operations: self.measured.operations().map(|(name, it)| (name, Kept::of(it))).collect(),
            total: total(&self.measured),
            servers: self.servers.into_iter().map(KeptServer::of).collect(),
            queues: queues
                .iter()
                .zip(queue_reports.iter().zip(&before.queues))
                .map(|(queue, (now, then))| (queue.name(), now.since(then)))
                .collect(),
            crews: queues
                .iter()
                .zip(mem::take(&mut self.crews))
                .map(|(queue, crew)| (queue.name(), crew))
                .collect(),
            turn_time: self.measured.turn_time().into(),
            threads: names
                .iter()
                .enumerate()
                .map(|(number, name)| {
                    (Arc::clone(name), self.threads.get(&number).copied().unwrap_or_default())
                })
                .collect(),
            counters: self.counters,
        };
        before.cpu_ns = cpu_now;
        before.queues = queue_reports;
        window
    }
}

/// While a table is taken by one thread after the other, they do not have the same servers; else they do, in the same order.
fn add_servers(sum: &mut Vec<ServerWindow>, more: Vec<ServerWindow>) {
    if sum.is_empty() {
        *sum = more;
        return;
    }
    for (place, server) in more.into_iter().enumerate() {
        let same = |mine: &ServerWindow| mine.server == server.server;
        let known = if sum.get(place).is_some_and(same) { Some(place) } else { sum.iter().position(same) };
        match known {
            Some(place) => sum[place].merge(&server),
            None => sum.push(server),
        }
    }
}

fn total(measured: &Measurements) -> CompactDistribution {
    let mut total = Distribution::new();
    measured.operations().for_each(|(_, report)| total.merge(&report.total));
    (&total).into()
}

/// A window that is over.
pub(crate) struct Window {
    index: u64,
    length_ns: u64,
    ended_unix_ns: u64,
    sessions: u64,
    in_service: u64,
    cpu_ns: u64,
    operations: Vec<(Operation, Kept)>,
    total: CompactDistribution,
    servers: Vec<KeptServer>,
    queues: Vec<(String, QueueReport)>,
    crews: Vec<(String, u64)>,
    turn_time: CompactDistribution,
    threads: Vec<(Arc<str>, Turns)>,
    counters: Counters,
}

/// One operation.
struct Kept {
    requests: u64,
    errors: u64,
    keys: u64,
    hits: u64,
    misses: u64,
    stages: [CompactDistribution; Stage::COUNT],
    total: CompactDistribution,
}

struct KeptServer {
    /// Its times are in `time`.
    counts: ServerWindow,
    time: CompactDistribution,
}

impl Kept {
    fn of(report: &weir_timing::OperationReport) -> Self {
        Self {
            requests: report.requests,
            errors: report.errors,
            keys: report.keys(),
            hits: report.hits,
            misses: report.misses(),
            stages: Stage::ALL.map(|stage| report.stage(stage).into()),
            total: (&report.total).into(),
        }
    }

    fn bytes(&self) -> usize {
        self.stages.iter().chain([&self.total]).map(CompactDistribution::bytes).sum()
    }
}

impl KeptServer {
    fn of(server: ServerWindow) -> Self {
        Self { time: (&server.time).into(), counts: server.without_times() }
    }
}

impl Window {
    /// Which second of the proxy's life it is.
    pub(crate) fn index(&self) -> u64 {
        self.index
    }

    /// How much memory it takes, about.
    pub(super) fn bytes(&self) -> usize {
        let operations: usize = self.operations.iter().map(|(_, kept)| kept.bytes()).sum();
        let servers: usize = self.servers.iter().map(|it| size_of::<KeptServer>() + it.time.bytes()).sum();
        size_of::<Self>() + operations + servers + self.total.bytes() + self.turn_time.bytes()
    }
}

/// `weir.window/1`. `dropped`: how many records the file has lost so far.
pub(crate) fn record(window: &Window, dropped: u64) -> Value {
    let times = |times: &CompactDistribution| json!(times.expand().report());
    let operations: Map<_, _> = window
        .operations
        .iter()
        .map(|(operation, it)| (operation.name().to_owned(), operation_record(it)))
        .collect();
    let counters: Map<_, _> = window
        .counters
        .entries()
        .filter(|(_, _, value)| *value > 0)
        .map(|(name, _, value)| (name.to_owned(), json!(value)))
        .collect();
    let servers: Vec<_> = window
        .servers
        .iter()
        .map(|KeptServer { counts, time }| {
            json!({
                "server": &*counts.server,
                "state": counts.state,
                "requests": counts.requests,
                "errors": counts.errors,
                "timeouts": counts.timeouts,
                "queued": queue(&counts.queued),
                "in_flight": queue(&counts.in_flight),
                "server_time": times(time),
            })
        })
        .collect();
    let queues: Map<_, _> = window.queues.iter().map(|(name, it)| (name.clone(), queue(it))).collect();
    let threads: Vec<_> = window
        .threads
        .iter()
        .map(|(name, turns)| json!({"thread": &**name, "turns": turns.count, "busy_ns": clip(turns.busy_ns)}))
        .collect();
    json!({
        "schema": "weir.window/1",
        "index": window.index,
        "start_ns": window.index * 1_000_000_000,
        "length_ns": window.length_ns,
        "collected_unix_ns": window.ended_unix_ns,
        "requests": window.operations.iter().map(|(_, it)| it.requests).sum::<u64>(),
        "errors": window.operations.iter().map(|(_, it)| it.errors).sum::<u64>(),
        "sessions": window.sessions,
        "in_service": window.in_service,
        "cpu_ns": window.cpu_ns,
        "operations": operations,
        "total": times(&window.total),
        "servers": servers,
        "queues": queues,
        "crew": window.crews.iter().map(|(name, now)| (name.clone(), json!(now))).collect::<Map<_, _>>(),
        "turn_time": times(&window.turn_time),
        "threads": threads,
        "counters": counters,
        "records_dropped": dropped,
    })
}

fn operation_record(it: &Kept) -> Value {
    let stages: Map<_, _> = Stage::ALL
        .into_iter()
        .zip(&it.stages)
        .map(|(stage, times)| (stage.name().to_owned(), json!(times.expand().report())))
        .collect();
    json!({
        "requests": it.requests,
        "errors": it.errors,
        "keys": it.keys,
        "hits": it.hits,
        "misses": it.misses,
        "stages": stages,
        "total": it.total.expand().report(),
    })
}

fn queue(report: &QueueReport) -> Value {
    json!({
        "length": report.length,
        "arrivals": report.arrivals,
        "length_met_sum": clip(report.length_met_sum),
        "length_time_integral_ns": clip(report.length_time_integral_ns),
    })
}

fn clip(wide: u128) -> u64 {
    u64::try_from(wide).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_timing::{Instant, Outcome, QueueGauge, Recorder, Stamps};

    struct Workers;

    impl Queue for Workers {
        fn name(&self) -> String {
            "workers".into()
        }

        fn report_at_end(&self, _: u64) -> QueueReport {
            unreachable!("the sum is given the reports")
        }

        fn crew(&self) -> u64 {
            unreachable!("the sum is given the sizes")
        }
    }

    /// What a thread measured in second 7: a get and an error.
    fn part(state: &'static str) -> LoopWindow {
        let mut recorder = Recorder::new(Instant::from_nanos(7_000_000_000), 0);
        recorder.keep_ended();
        let mut stamps = Stamps::at(Instant::from_nanos(7_200_000_000));
        stamps.received = stamps.received.plus(1500);
        stamps.answered = stamps.received.plus(500);
        let outcome = Outcome { error: false, keys: 1, hits: 1 };
        recorder.record_request(Operation::Get, outcome, &stamps);
        let outcome = Outcome { error: true, keys: 1, hits: 0 };
        recorder.record_request(Operation::Set, outcome, &stamps);
        recorder.record_turn(3000);
        recorder.advance(Instant::from_nanos(8_000_000_000));
        let ended = recorder.poll_ended().expect("it was used");
        let mut queue = QueueGauge::new(Instant::ZERO);
        queue.enter(Instant::from_nanos(10));
        queue.leave(Instant::from_nanos(1510));
        let queue = queue.report(Instant::from_nanos(2000));
        let mut time = Distribution::new();
        time.record(1500);
        let server = ServerWindow {
            server: "127.0.0.1:11211".into(),
            state,
            requests: 1,
            errors: 0,
            timeouts: 0,
            queued: QueueReport { length_time_integral_ns: 0, ..queue },
            in_flight: queue,
            time,
        };
        LoopWindow {
            index: ended.index,
            measured: ended.measured,
            counters: Counters { requests: 2, requests_failed_down: 1, ..Counters::default() },
            sessions: 1,
            in_service: 0,
            servers: vec![server],
        }
    }

    fn window(parts: impl IntoIterator<Item = LoopWindow>, before: &mut Sum) -> Window {
        let queues: Vec<Arc<dyn Queue>> = vec![Arc::new(Workers)];
        let mut sum = Sum::default();
        parts.into_iter().enumerate().for_each(|(thread, part)| sum.add(thread, part));
        sum.crews = vec![12];
        sum.queues = vec![QueueReport { length: 1, arrivals: 5, ..QueueReport::default() }];
        let mut window = sum.close(7, 1_000_000_000, before, &["loop-0".into(), "loop-1".into()], &queues);
        (window.ended_unix_ns, window.cpu_ns) = (1_700_000_000_000_000_000, 4000);
        window
    }

    fn nothing_before() -> Sum {
        Sum { queues: vec![QueueReport::default()], ..Sum::default() }
    }

    #[test]
    fn a_record_is_as_the_sample_says() {
        let written = record(&window([part("up"), part("down")], &mut nothing_before()), 3);
        let sample = include_str!("../../../../../docs/samples/window.json");
        let sample: Value = serde_json::from_str(sample).expect("the sample is JSON");
        assert_eq!(written, sample, "{written:#}");
    }

    #[test]
    fn threads_that_say_nothing_have_not_changed() {
        let mut before = nothing_before();
        window([part("up"), part("down")], &mut before);
        let silent = record(&window([], &mut before), 0);
        assert_eq!(silent["requests"], 0);
        assert_eq!(silent["sessions"], 2);
        assert_eq!(silent["servers"][0]["state"], "down");
        assert_eq!(silent["servers"][0]["requests"], 0);
        assert_eq!(silent["queues"]["workers"]["arrivals"], 0, "it shows what came in this second");
        assert_eq!(silent["queues"]["workers"]["length"], 1);
        assert_eq!(silent["total"]["count"], 0);
    }
}
