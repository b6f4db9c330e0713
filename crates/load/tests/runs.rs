//! Whole runs over real sockets: against memcached, and against servers that misbehave.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use serde_json::Value;
use weir_load::{
    Amount, Assignment, Config, Content, HdrLog, LoadError, Mix, Pacing, Progress, Settings, ThinkTime,
};

fn settings(target: SocketAddr) -> Settings {
    Settings {
        targets: vec![target.to_string()],
        connections: 4,
        depth: 3,
        threads: 2,
        duration: Duration::from_millis(300),
        warmup: Duration::from_millis(50),
        content: Content {
            mix: Mix::of_writes(0.2),
            key_size: Amount::Fixed(8),
            value_size: Amount::Fixed(100),
            ..Content::default()
        },
        keys: 500,
        replay: None,
        prefill: true,
        timeout: Duration::from_secs(20),
        seed: 1,
        pacing: Pacing::Closed { think_time: ThinkTime::None },
        backlog: None,
        late_after: Duration::from_millis(1),
        start_at: None,
        commit: "unknown",
    }
}

/// Arrivals that come evenly.
fn at_rate(schedule: &str) -> Pacing {
    Pacing::Open {
        schedule: schedule.parse().expect("a schedule"),
        process: "fixed".parse().expect("a process"),
        assignment: Assignment::RoundRobin,
    }
}

fn run_until(settings: Settings, stop: &AtomicBool) -> Result<(bool, Value), LoadError> {
    let config = Config::check(settings).expect("the settings are valid");
    let report = weir_load::run(&config, stop, &mut Progress::lines(std::io::sink()), None)?;
    let json = report.to_json().expect("a report serializes");
    Ok((report.is_good(), serde_json::from_str(&json).expect("a record is JSON")))
}

fn run(settings: Settings) -> Result<(bool, Value), LoadError> {
    run_until(settings, &AtomicBool::new(false))
}

/// Counts in a record that must hold in every run, whatever happened.
fn check_accounts(record: &Value) {
    let number = |value: &Value| value.as_u64().expect("a count");
    let measured = &record["phases"]["measured"];
    let operations = record["operations"].as_object().expect("operations");
    let windows = record["windows"].as_array().expect("windows");
    let over = |rows: &mut dyn Iterator<Item = &Value>, field: &str| -> u64 {
        rows.map(|row| number(&row[field])).sum()
    };
    let scheduled = &record["scheduled"];
    if scheduled.is_object() {
        assert_eq!(over(&mut windows.iter(), "arrivals"), number(&scheduled["arrivals"]));
        // Sent late or not, every request that was sent is in the lateness.
        let sent = number(&scheduled["lateness"]["count"]);
        assert_eq!(sent + number(&scheduled["unsent"]), number(&scheduled["arrivals"]));
    }
    for field in ["requests", "errors", "misses"] {
        assert_eq!(over(&mut operations.values(), field), number(&measured[field]), "{field}");
        assert_eq!(over(&mut windows.iter(), field), number(&measured[field]), "{field}");
    }
    assert_eq!(over(&mut windows.iter(), "length_ns"), number(&measured["duration_ns"]));
    let phases = record["phases"].as_object().expect("phases");
    assert_eq!(over(&mut phases.values(), "failures"), number(&record["failures"]["count"]));
    let times: u64 = operations.values().map(|operation| number(&operation["response_time"]["sum_ns"])).sum();
    assert_eq!(over(&mut windows.iter(), "response_time_sum_ns"), times);
}

#[test]
fn memcached_passes_and_agrees_on_the_counts() {
    for (multiget, depth, value_size) in [(1, 1, 128), (1, 20, 20), (7, 3, 128), (1, 2, 100_000)] {
        let memcached = Memcached::start();
        let mut settings = Settings { depth, ..settings(memcached.address) };
        settings.content.multiget = Amount::Fixed(multiget);
        settings.content.value_size = Amount::Fixed(value_size);
        let (good, record) = run(settings).expect("memcached accepts connections");
        assert!(good, "{}", record["failures"]);
        check_accounts(&record);
        assert_eq!(record["phases"]["prefill"]["requests"], 500);
        let total = |field: &str| -> u64 {
            let phases = record["phases"].as_object().expect("phases");
            phases.values().map(|phase| phase[field].as_u64().expect("a count")).sum()
        };
        assert_eq!((total("misses"), total("errors")), (0, 0));
        let stats = memcached.stats();
        let stat = |name: &str| -> u64 {
            let line = stats.iter().find_map(|line| line.strip_prefix(&format!("STAT {name} ")));
            line.expect("memcached has this statistic").parse().expect("a number")
        };
        assert_eq!(stat("cmd_get") + stat("cmd_set"), total("keys"));
        assert_eq!(stat("get_misses"), 0);
    }
}

#[test]
fn without_prefill_an_empty_memcached_misses() {
    let memcached = Memcached::start();
    let mut settings = Settings { prefill: false, ..settings(memcached.address) };
    settings.content.mix = Mix::of_writes(0.0);
    let (good, record) = run(settings).expect("memcached accepts connections");
    assert!(good);
    check_accounts(&record);
    let get = &record["operations"]["get"];
    assert_eq!((&get["hits"], &get["misses"]), (&Value::from(0), &get["requests"]));
    assert_eq!(record["phases"]["prefill"]["requests"], 0);
}

#[test]
fn an_open_loop_sends_every_arrival_and_answers_are_accounted_for() {
    for (schedule, process, arrivals) in [
        ("2000 300ms", "fixed", Some(600)),
        ("1000..3000 200ms, 0 50ms, 1000 50ms", "bursts:7", Some(450)),
        ("2000 300ms", "poisson", None),
    ] {
        let memcached = Memcached::start();
        let pacing = Pacing::Open {
            schedule: schedule.parse().expect("a schedule"),
            process: process.parse().expect("a process"),
            assignment: Assignment::Random,
        };
        let (good, record) = run(Settings { pacing, ..settings(memcached.address) }).expect("a run");
        assert!(good, "{}", record["failures"]);
        check_accounts(&record);
        let measured = &record["phases"]["measured"];
        assert_eq!(record["scheduled"]["arrivals"], measured["requests"], "the backlog is sent in the drain");
        if let Some(arrivals) = arrivals {
            assert_eq!(measured["requests"], arrivals, "{schedule}");
        }
        let operation = &record["operations"]["get"];
        let (from_intended, from_send) = (&operation["response_time"], &operation["response_time_from_send"]);
        assert_eq!(from_intended["count"], from_send["count"]);
        assert!(from_intended["sum_ns"].as_u64() >= from_send["sum_ns"].as_u64());
    }
}

/// Far more than anybody can send: what was not even handed to a connection when the time for draining was over was offered all the same.
#[test]
fn an_open_loop_counts_what_it_did_not_come_to() {
    let memcached = Memcached::start();
    let pacing = at_rate("100M");
    let (duration, timeout) = (Duration::from_millis(100), Duration::from_millis(100));
    let warmup = Duration::ZERO;
    let settings = Settings { pacing, duration, warmup, timeout, ..settings(memcached.address) };
    let (_, record) = run(settings).expect("a run");
    check_accounts(&record);
    assert_eq!(record["scheduled"]["arrivals"], 10_000_000);
}

#[test]
fn clients_that_think_send_one_request_at_a_time() {
    let memcached = Memcached::start();
    let think_time = ThinkTime::Fixed(Duration::from_millis(10));
    let settings = Settings { pacing: Pacing::Closed { think_time }, ..settings(memcached.address) };
    let (good, record) = run(settings).expect("a run");
    assert!(good, "{}", record["failures"]);
    check_accounts(&record);
    // Twelve clients with cycles of at least 10 ms over 300 ms; a busy machine makes it fewer.
    let requests = record["phases"]["measured"]["requests"].as_u64().expect("a count");
    assert!((1..=12 * 31).contains(&requests), "{requests}");
}

#[test]
fn the_log_of_every_second_holds_every_request() {
    let memcached = Memcached::start();
    let path = std::env::temp_dir().join(format!("weir-load-{}.hlog", memcached.address.port()));
    let mut log = HdrLog::new(File::create(&path).expect("the temporary folder can be written to"));
    let duration = Duration::from_millis(2100);
    let config = Config::check(Settings { duration, ..settings(memcached.address) }).expect("valid settings");
    let stop = AtomicBool::new(false);
    let report =
        weir_load::run(&config, &stop, &mut Progress::lines(std::io::sink()), Some(&mut log)).expect("a run");
    log.finish().expect("the log is written");
    let text = std::fs::read_to_string(&path).expect("the log is text");
    std::fs::remove_file(&path).expect("the log is ours");
    let all: Vec<&str> = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).collect();
    assert_eq!(all.iter().map(|line| &line[..6]).collect::<Vec<_>>(), ["0.000,", "1.000,", "2.000,"]);
    let logged: u64 = all
        .iter()
        .map(|line| {
            let encoded = line.rsplit(',').next().expect("a line has columns");
            let bytes = STANDARD.decode(encoded).expect("base64");
            let histogram: Histogram<u64> =
                Deserializer::new().deserialize(&mut bytes.as_slice()).expect("a histogram");
            histogram.len()
        })
        .sum();
    let record: Value = serde_json::from_str(&report.to_json().expect("it serializes")).expect("JSON");
    assert_eq!(record["phases"]["measured"]["requests"], logged);
}

#[test]
fn a_start_that_has_passed_is_an_error_and_one_that_has_not_is_waited_for() {
    let memcached = Memcached::start();
    let start_at = Some(Duration::from_secs(1));
    let error =
        run(Settings { start_at, ..settings(memcached.address) }).expect_err("1970 is over").to_string();
    assert!(error.starts_with("--start-at: that moment was "), "{error}");
    #[expect(clippy::disallowed_methods, reason = "a moment of the wall clock is what is asked for")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is past 1970");
    let start = now + Duration::from_secs(2);
    let (_, record) = run(Settings { start_at: Some(start), prefill: false, ..settings(memcached.address) })
        .expect("a run");
    let warmup = &record["phases"]["warmup"]["start_unix_ns"];
    let off = warmup.as_u64().expect("a moment").abs_diff(start.as_nanos() as u64);
    assert!(off < 1_000_000, "the same clock tells both: {off} ns");
}

#[test]
fn a_wish_to_stop_ends_the_run_with_a_record() {
    let memcached = Memcached::start();
    let settings = Settings { duration: Duration::from_secs(3600), ..settings(memcached.address) };
    let (good, record) = run_until(settings, &AtomicBool::new(true)).expect("memcached accepts connections");
    assert!(good, "what was answered was right");
    check_accounts(&record);
    assert_eq!(record["phases"]["measured"]["requests"], 0);
}

#[test]
fn a_target_that_nobody_serves_is_named() {
    let listener = listen();
    let address = listener.local_addr().expect("a bound listener has an address");
    drop(listener);
    let error = run(settings(address)).expect_err("nobody listens").to_string();
    assert!(error.starts_with(&format!("target {address}: cannot open connection 1 of 4: ")), "{error}");
}

#[test]
fn a_server_that_hangs_up_costs_failures_and_is_called_again() {
    let server = Server::start(|stream| {
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        for _ in 0..5 {
            lines.next().transpose()?;
            (&stream).write_all(b"END\r\n")?;
        }
        lines.next().transpose().map(drop)
    });
    let mut settings = Settings { prefill: false, depth: 1, ..settings(server.address) };
    settings.content.mix = Mix::of_writes(0.0);
    let (good, record) = run(settings).expect("the server accepts connections");
    assert!(!good);
    check_accounts(&record);
    let answered: u64 = record["phases"]
        .as_object()
        .expect("phases")
        .values()
        .map(|phase| phase["requests"].as_u64().expect("a count"))
        .sum();
    assert!(answered > 4 * 5, "each of four connections was opened again: {answered}");
    let first = record["failures"]["first"][0].as_str().expect("a failure is text");
    assert!(first.contains("request 6: get 0"), "{first}");
}

#[test]
fn a_server_that_never_answers_is_a_failure_and_no_hang() {
    let server = Server::start(|stream| BufReader::new(stream).lines().try_for_each(|line| line.map(drop)));
    let timeout = Duration::from_millis(20);
    let mut settings = Settings { prefill: false, timeout, ..settings(server.address) };
    settings.content.mix = Mix::of_writes(0.0);
    let (good, record) = run(settings).expect("the server accepts connections");
    assert!(!good);
    check_accounts(&record);
    let first = record["failures"]["first"][0].as_str().expect("a failure is text");
    assert!(first.contains("request 1: ") && first.ends_with("no answer within 20ms"), "{first}");
}

#[test]
fn a_server_that_lies_is_found_out() {
    let server = Server::start(|stream| {
        BufReader::new(stream.try_clone()?).lines().try_for_each(|line| {
            line.and_then(|_| (&stream).write_all(b"VALUE 00000000 0 1\r\nx\r\nEND\r\n"))
        })
    });
    let mut settings = Settings { prefill: false, ..settings(server.address) };
    settings.content.mix = Mix::of_writes(0.0);
    let (good, record) = run(settings).expect("the server accepts connections");
    assert!(!good);
    check_accounts(&record);
    let measured = &record["phases"]["measured"];
    assert!(measured["requests"].as_u64() > Some(0));
    assert_eq!(measured["failures"], measured["requests"]);
    assert_eq!(record["operations"]["get"]["response_time"]["count"], 0);
}

/// A memcached on a port of its own, killed when dropped.
struct Memcached {
    child: Child,
    address: SocketAddr,
}

impl Memcached {
    fn start() -> Memcached {
        for _ in 0..20 {
            let listener = listen();
            let address = listener.local_addr().expect("a bound listener has an address");
            drop(listener);
            let port = address.port().to_string();
            let child = Command::new("memcached")
                .args(["-l", "127.0.0.1", "-p", &port, "-U", "0", "-t", "1", "-m", "256", "-u", "root"])
                .stdin(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("memcached is installed: these tests need it in the path");
            let mut memcached = Memcached { child, address };
            if memcached.is_up() {
                return memcached;
            }
        }
        panic!("memcached found no free port in twenty attempts");
    }

    /// Whether the process accepts connections before it ends; a port that was taken meanwhile makes it end.
    fn is_up(&mut self) -> bool {
        for _ in 0..500_000 {
            if TcpStream::connect(self.address).is_ok() {
                return self.child.try_wait().is_ok_and(|status| status.is_none());
            }
            if !self.child.try_wait().is_ok_and(|status| status.is_none()) {
                return false;
            }
            thread::yield_now();
        }
        false
    }

    fn stats(&self) -> Vec<String> {
        let stream = TcpStream::connect(self.address).expect("memcached accepts connections");
        (&stream).write_all(b"stats\r\n").expect("memcached reads");
        let lines = BufReader::new(stream).lines().map(|line| line.expect("memcached answers"));
        lines.take_while(|line| line != "END").collect()
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server of one's own making, one thread per connection. Threads end with their connections, and the accepting one
/// when the server is dropped.
struct Server {
    address: SocketAddr,
    stop: std::sync::Arc<AtomicBool>,
}

impl Server {
    fn start(serve: fn(TcpStream) -> std::io::Result<()>) -> Server {
        let listener = listen();
        let address = listener.local_addr().expect("a bound listener has an address");
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    return;
                }
                thread::spawn(move || serve(stream));
            }
        });
        Server { address, stop }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// A listener on a free port below the range from which the kernel takes ports for outgoing connections.
fn listen() -> TcpListener {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = 20_000 + (std::process::id() % 10_000) as u16;
    for _ in 0..2_000 {
        let port = base + NEXT.fetch_add(1, Ordering::Relaxed) % 2_000;
        if let Ok(listener) = TcpListener::bind(("127.0.0.1", port)) {
            return listener;
        }
    }
    panic!("no free port between {base} and {}", base + 2_000);
}

#[path = "runs/content.rs"]
mod content;
