//! Whole runs over real sockets: against memcached, and against servers that misbehave.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use weir_load::{Amount, Config, Content, LoadError, Mix, Pacing, Progress, Settings, ThinkTime};

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
