//! What is sent, against memcached itself.

use std::io::Write;
use std::path::PathBuf;

use weir_load::{Popularity, Preset};

use super::*;

const ALL_COMMANDS: &str = "get=4,gets=1,gat=1,gats=1,set=2,add=1,replace=1,append=2,prepend=2,cas=2,delete=1,incr=1,decr=1,touch=1,mg=2,ms=1";

#[test]
fn memcached_passes_with_every_command_and_distribution() {
    for (one_writer, read_through) in [(true, true), (true, false), (false, true)] {
        let memcached = Memcached::start();
        let mut settings = settings(memcached.address);
        settings.content = Content {
            mix: ALL_COMMANDS.parse().expect("a mix"),
            key_prefix: "user:".to_owned(),
            key_first: 17,
            key_size: "etc-key".parse().expect("an amount"),
            value_size: "etc-value".parse().expect("an amount"),
            popularity: Popularity::Zipf { exponent: 1.0 },
            multiget: "1=1,2-9=1".parse().expect("an amount"),
            ttl: "0=3,1=1,600-2592000=1".parse().expect("an amount"),
            read_through,
            reconnect_after: Some("3-20".parse().expect("an amount")),
            one_writer,
            requests: None,
        };
        let (good, record) = run(settings).expect("memcached accepts connections");
        assert!(good, "{}", record["failures"]);
        assert_eq!(record["errors"], serde_json::json!({}));
        check_accounts(&record);
        for operation in [
            "get", "multiget", "gat", "set", "add", "replace", "append", "prepend", "cas", "delete", "incr",
            "decr", "touch",
        ] {
            assert!(record["operations"][operation]["requests"].as_u64() > Some(0), "{operation}");
        }
        let stats = memcached.stats();
        let connections = stats.iter().find_map(|line| line.strip_prefix("STAT total_connections "));
        assert!(
            connections.expect("a statistic").parse::<u64>().expect("a number") > 20,
            "connections were renewed"
        );
    }
}

#[test]
fn presets_pass_and_say_what_they_are_in_the_record() {
    for name in ["facebook-etc", "twitter-cluster53", "smallvalue", "largevalue"] {
        let memcached = Memcached::start();
        let content = Preset::named(name).and_then(Preset::content).expect("the preset exists");
        let mix = content.mix.to_string();
        let (good, record) =
            run(Settings { content, ..settings(memcached.address) }).expect("memcached accepts connections");
        assert!(good, "{name}: {}", record["failures"]);
        assert_eq!(record["config"]["content"]["mix"], mix);
    }
}

#[test]
fn a_number_of_requests_ends_the_run() {
    let memcached = Memcached::start();
    let mut settings = Settings {
        duration: Duration::from_secs(3600),
        warmup: Duration::ZERO,
        prefill: false,
        ..settings(memcached.address)
    };
    settings.content.requests = Some(4321);
    let (good, record) = run(settings).expect("memcached accepts connections");
    assert!(good);
    assert_eq!(record["phases"]["measured"]["requests"], 4321);
    check_accounts(&record);
}

/// Arrivals that waited when the last request was sent are none: there was nothing left for them.
#[test]
fn a_number_of_requests_ends_an_open_loop_with_its_accounts_in_order() {
    let memcached = Memcached::start();
    let mut settings = Settings {
        duration: Duration::from_secs(3600),
        warmup: Duration::ZERO,
        pacing: at_rate("500k"),
        ..settings(memcached.address)
    };
    settings.content.requests = Some(4321);
    let (good, record) = run(settings).expect("memcached accepts connections");
    assert!(good, "{}", record["failures"]);
    check_accounts(&record);
    assert_eq!(record["scheduled"]["arrivals"], 4321);
    assert_eq!(record["scheduled"]["unsent"], 0);
}

/// A file of the test's own, gone when dropped.
struct Sample(PathBuf);

impl Sample {
    fn new(name: &str, text: &str) -> Sample {
        let path = std::env::temp_dir().join(format!("weir-load-{}-{name}", std::process::id()));
        std::fs::File::create(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .expect("the folder can be written");
        Sample(path)
    }

    fn settings(&self, memcached: &Memcached) -> Settings {
        Settings {
            replay: Some(self.0.clone()),
            duration: Duration::from_secs(3600),
            warmup: Duration::ZERO,
            prefill: false,
            ..settings(memcached.address)
        }
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Lines in Twitter's format: every operation on a few keys of several sizes.
fn twitter_trace(lines: usize) -> String {
    let operations =
        ["set", "get", "get", "gets", "add", "append", "get", "cas", "replace", "prepend", "delete", "touch"];
    let line = |number: usize| {
        let (key, operation) = (number * 7 % 13, operations[number % operations.len()]);
        format!(
            "{},ns:{key},k,{},{},{},{operation},{}\n",
            number / 100,
            6 + key,
            10 * key,
            number % 5,
            number % 3 * 500
        )
    };
    (0..lines).map(line).collect()
}

#[test]
fn a_trace_is_replayed_whole_and_verified() {
    for read_through in [false, true] {
        let memcached = Memcached::start();
        let sample = Sample::new(&format!("trace-{read_through}"), &twitter_trace(6000));
        let mut settings = sample.settings(&memcached);
        settings.content.read_through = read_through;
        let (good, record) = run(settings).expect("memcached accepts connections");
        assert!(good, "{}", record["failures"]);
        check_accounts(&record);
        let requests = |operation: &str| record["operations"][operation]["requests"].as_u64().unwrap_or(0);
        // 500 lines each, but for reads: three of get and one of gets, and the gets that every cas begins with.
        assert_eq!(requests("get"), 500 * 5);
        assert_eq!((requests("delete"), requests("touch"), requests("replace")), (500, 500, 500));
        assert!(requests("cas") > 0);
        let sets = requests("set") + requests("append") + requests("prepend");
        let filled = if read_through { 1..10_000 } else { 0..1 };
        assert!(filled.contains(&(sets - 1500)), "{sets}");
    }
}

#[test]
fn a_trace_at_a_rate_ends_with_its_accounts_in_order() {
    let memcached = Memcached::start();
    let sample = Sample::new("paced", &twitter_trace(3000));
    let settings = Settings { pacing: at_rate("100k"), ..sample.settings(&memcached) };
    let (good, record) = run(settings).expect("memcached accepts connections");
    assert!(good, "{}", record["failures"]);
    check_accounts(&record);
    // A cas is one line and two requests.
    assert_eq!(record["scheduled"]["arrivals"], 3000);
}

#[test]
fn a_number_of_requests_ends_a_trace() {
    let memcached = Memcached::start();
    let sample = Sample::new("bounded", &twitter_trace(6000));
    let mut settings = sample.settings(&memcached);
    settings.content.requests = Some(100);
    let (good, record) = run(settings).expect("memcached accepts connections");
    assert!(good, "{}", record["failures"]);
    let requests = record["phases"]["measured"]["requests"].as_u64().expect("a count");
    // A cas is a second request of its line.
    let cas = record["operations"]["cas"]["requests"].as_u64().unwrap_or(0);
    assert_eq!(requests - cas, 100);
}

#[test]
fn what_memcached_logged_is_replayed() {
    let memcached = Memcached::start();
    let watcher = TcpStream::connect(memcached.address).expect("memcached accepts connections");
    (&watcher).write_all(b"watch fetchers mutations\r\n").expect("memcached reads");
    let mut log = BufReader::new(watcher).lines().map(|line| line.expect("memcached logs"));
    assert_eq!(log.next().as_deref(), Some("OK"));
    let client = TcpStream::connect(memcached.address).expect("memcached accepts connections");
    (&client)
        .write_all(b"set a 0 0 3\r\nabc\r\nget a b\r\nadd c 0 60 1\r\nx\r\nget a\r\n")
        .expect("memcached reads");
    let mut lines = vec!["OK".to_owned()];
    while lines.iter().filter(|line| line.contains("item_get key=a")).count() < 3 {
        lines.push(log.next().expect("the log goes on"));
    }
    let sample = Sample::new("watch", &(lines.join("\r\n") + "\r\n"));
    let (good, record) = run(sample.settings(&memcached)).expect("memcached accepts connections");
    let requests = |operation: &str| record["operations"][operation]["requests"].as_u64();
    assert_eq!(
        (requests("set"), requests("add"), requests("get")),
        (Some(1), Some(1), Some(3)),
        "{lines:#?}"
    );
    // Four connections share five lines, so that a read may find what the first client wrote, and says so.
    let failures = record["failures"]["first"].as_array().expect("a list");
    assert!(
        failures.iter().all(|text| text.as_str().is_some_and(|text| text.contains("get a: key a: "))),
        "{failures:?}"
    );
    assert_eq!(good, failures.is_empty());
}

#[test]
fn a_bad_line_ends_the_run_and_is_named() {
    let memcached = Memcached::start();
    let sample = Sample::new("bad", &(twitter_trace(100) + "what is this\n" + &twitter_trace(100)));
    let Err(error) = run(sample.settings(&memcached)) else { panic!("the trace has a bad line") };
    let error = error.to_string();
    assert!(error.contains("line 101: expected timestamp,key,key size,"), "{error}");
}
