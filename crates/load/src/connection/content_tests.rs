//! Every command against a cache that behaves, and against ones that do not.

use super::cache::{Cache, Item};
use super::*;
use crate::allocations;
use crate::config::{Config, Settings};
use crate::recorder::phase::{NEVER, Timeline};
use crate::workload::mix::{MixSource, Prefill};

/// Two connections of a run and the cache that they share.
struct Run {
    config: Config,
    connections: Vec<Connection>,
    recorder: Recorder,
    cache: Cache,
}

const ALL_COMMANDS: &str = "get=4,gets=1,gat=1,gats=1,set=2,add=1,replace=1,append=2,prepend=2,cas=2,delete=1,incr=1,decr=1,touch=1,mg=2,ms=1";

impl Run {
    fn new(mix: &str, change: impl FnOnce(&mut Settings)) -> Run {
        let mut settings = Settings { keys: 20, connections: 2, depth: 4, ..Settings::example() };
        settings.content.mix = mix.parse().expect("a mix");
        settings.content.value_size = "20-90".parse().expect("an amount");
        settings.content.key_size = "4-12".parse().expect("an amount");
        change(&mut settings);
        let config = Config::check(settings).expect("the settings are valid");
        let workload = Arc::new(Workload::new(&config, 7, None));
        let connections = (0..config.connections as u32)
            .map(|id| Connection::new(id, "here:1".into(), workload.clone()))
            .collect();
        let mut recorder = Recorder::new(false);
        recorder.set_timeline(Timeline { warmup: Instant::ZERO, measured: Instant::ZERO, end: NEVER });
        Run { config, connections, recorder, cache: Cache::default() }
    }

    fn prefilled(mix: &str, change: impl FnOnce(&mut Settings)) -> Run {
        let mut run = Run::new(mix, change);
        for (id, connection) in run.connections.iter_mut().enumerate() {
            connection.set_source(Source::Prefill(Prefill::new(&run.config, id as u32)), Pace::eager(), 4);
        }
        while run.turn(|_, _| {}) > 0 {}
        run
    }

    /// Sets all connections to work.
    fn load(mut self) -> Run {
        for (id, connection) in self.connections.iter_mut().enumerate() {
            let source = Source::Mix(Box::new(MixSource::new(&self.config, id as u32)));
            connection.set_source(source, Pace::eager(), self.config.depth);
        }
        self
    }

    /// Each connection in turn sends what is due, and gets its replies after `harm` has had its way with them. Returns the
    /// number of replies.
    fn turn(&mut self, mut harm: impl FnMut(&mut Vec<Vec<u8>>, &mut Cache)) -> usize {
        let mut answered = 0;
        for connection in &mut self.connections {
            let mut requests = Vec::new();
            connection.poll_requests(Instant::ZERO, &mut requests, &mut self.recorder);
            connection.handle_sent(requests.len(), Instant::ZERO);
            let mut replies = self.cache.answer(&requests);
            if replies.is_empty() {
                continue;
            }
            harm(&mut replies, &mut self.cache);
            answered += replies.len();
            let bytes = replies.concat();
            let taken = connection.handle_bytes(&bytes, Instant::from_nanos(1), &mut self.recorder);
            assert_eq!(taken, Ok(bytes.len()));
        }
        answered
    }

    fn turns(&mut self, turns: usize) {
        (0..turns).for_each(|_| assert!(self.turn(|_, _| {}) > 0));
    }

    fn failures(&self) -> &[String] {
        &self.recorder.failures().first
    }

    /// A connection of its own with these requests, on the run's keys and cache.
    fn ask(&mut self, requests: &[(Command, Vec<u64>)]) {
        self.connections[0].set_source(
            Source::Script(requests.iter().cloned().collect()),
            Pace::eager(),
            requests.len(),
        );
        self.connections[1..].iter_mut().for_each(Connection::stop);
    }

    fn key(&self, index: u64) -> String {
        let mut key = Vec::new();
        self.connections[0].workload.keyspace.append(index, &mut key);
        String::from_utf8(key).expect("keys are text")
    }

    fn item(&mut self, index: u64) -> &mut Item {
        let key = self.key(index);
        self.cache.items.get_mut(&key).expect("the key was set")
    }
}

#[test]
fn every_command_passes_against_a_cache_that_behaves() {
    for (one_writer, read_through, multiget) in
        [(false, false, "1"), (true, false, "1-5"), (true, true, "3"), (false, true, "1")]
    {
        for prefilled in [true, false] {
            let begin = if prefilled { Run::prefilled } else { Run::new };
            let mut run = begin(ALL_COMMANDS, |s: &mut Settings| {
                s.content.one_writer = one_writer;
                s.content.read_through = read_through;
                s.content.multiget = multiget.parse().expect("an amount");
                s.prefill = prefilled;
            })
            .load();
            run.turns(3000);
            assert_eq!(run.failures(), &[] as &[String]);
            assert_eq!(run.recorder.errors().len(), 0);
            for operation in Operation::ALL {
                let asked = run.recorder.operation(operation).requests > 0;
                let expected = run.config.operations().contains(&operation);
                assert_eq!(asked, expected, "{} {}", multiget, operation.name());
            }
            let appended = run.cache.items.values().map(|item| item.data.len()).max();
            assert!(appended > Some(90), "some value was added to");
            assert!(appended < Some(90 + 32 * 40), "and none without end");
        }
    }
}

#[test]
fn a_key_that_is_missed_is_set_where_runs_read_through() {
    let mut run = Run::new("get=1", |s| {
        s.content.read_through = true;
        s.content.multiget = "3".parse().expect("an amount");
        s.prefill = false;
    })
    .load();
    run.turns(200);
    assert_eq!(run.cache.items.len(), 20);
    let gets = run.recorder.operation(Operation::MultiGet);
    let sets = run.recorder.operation(Operation::Set);
    assert_eq!((gets.misses, gets.hits + gets.misses), (sets.requests, gets.keys));
    assert_eq!(run.failures(), &[] as &[String]);
}

#[test]
fn a_cas_is_sent_with_the_token_that_the_gets_brought() {
    let mut run = Run::prefilled("cas=1", |s| s.content.one_writer = true).load();
    run.turns(500);
    let (gets, cas) = (run.recorder.operation(Operation::Get), run.recorder.operation(Operation::Cas));
    assert_eq!(gets.misses, 0);
    assert!(cas.requests > 900 && gets.requests - cas.requests <= 8, "{} {}", gets.requests, cas.requests);
    assert_eq!(run.failures(), &[] as &[String]);
}

#[test]
fn swapped_replies_are_found_for_every_read() {
    for command in [Command::Get, Command::Gets, Command::Gat, Command::Gats, Command::MetaGet] {
        let mut run = Run::prefilled("get=1", |_| {});
        run.ask(&[(command, vec![1]), (command, vec![2])]);
        run.turn(|replies, _| replies.reverse());
        assert_eq!(run.failures().len(), 2, "{}: {:?}", command.name(), run.failures());
        let expected = format!(
            "request 11: {} {}: a value came for {}, which was not asked for",
            command.name(),
            run.key(1),
            run.key(2)
        );
        assert!(run.failures()[0].ends_with(&expected), "{:?}", run.failures());
    }
}

#[test]
fn torn_values_are_found_for_every_read_and_every_part() {
    for command in [Command::Get, Command::Gats, Command::MetaGet] {
        let mut run = Run::prefilled("append=1", |s| s.content.value_size = "40".parse().expect("an amount"));
        run.ask(&[(Command::Append, vec![1]), (Command::Prepend, vec![1])]);
        run.turn(|_, _| {});
        let whole = run.item(1).data.clone();
        assert_eq!(whole.len(), 40 + 2 * 32);
        for at in [3, 20, 40, 71, 90] {
            run.item(1).data = whole.clone();
            run.item(1).data[at] ^= 4;
            run.ask(&[(command, vec![1])]);
            let before = run.recorder.failures().count;
            run.turn(|_, _| {});
            assert_eq!(run.recorder.failures().count, before + 1, "{} at {at}", command.name());
        }
        assert!(
            run.failures()[0].ends_with("the value's checksum is wrong: it is torn or corrupted"),
            "{:?}",
            run.failures()
        );
    }
}

/// Reads of key 1 after its value went back to what it was before `write`.
fn outdated(write: Command, settings: impl FnOnce(&mut Settings)) -> Vec<String> {
    let mut run = Run::prefilled(ALL_COMMANDS, |s| {
        s.content.value_size = "64".parse().expect("an amount");
        settings(s);
    });
    let old = run.item(1).clone();
    run.ask(&[(write, vec![1])]);
    run.turn(|_, _| {});
    let key = run.key(1);
    run.cache.items.insert(key, old);
    run.ask(&[(Command::Get, vec![1]), (Command::MetaGet, vec![1])]);
    run.turn(|_, _| {});
    run.failures().to_vec()
}

#[test]
fn outdated_values_are_found_after_every_write_of_the_one_writer() {
    for write in
        [Command::Set, Command::MetaSet, Command::Replace, Command::Append, Command::Prepend, Command::Delete]
    {
        let failures = outdated(write, |s| s.content.one_writer = true);
        assert_eq!(failures.len(), 2, "{}: {failures:?}", write.name());
        let expected = "version 1 is outdated: version 2 was acknowledged before the request was sent";
        assert!(failures[0].ends_with(expected), "{failures:?}");
        assert_eq!(outdated(write, |_| {}), [] as [&str; 0], "with several writers there is no telling");
    }
    assert_eq!(outdated(Command::Add, |s| s.content.one_writer = true), [] as [&str; 0], "nothing was added");
    let alone = outdated(Command::Set, |s| s.connections = 1);
    assert_eq!(alone.len(), 2, "a single connection is one writer: {alone:?}");
}

#[test]
fn a_read_that_was_sent_before_the_acknowledgement_may_bring_either_value() {
    let mut run = Run::prefilled("get=1", |s| {
        s.content.one_writer = true;
        s.content.value_size = "64".parse().expect("an amount");
    });
    let old = run.item(1).clone();
    run.ask(&[(Command::Set, vec![1]), (Command::Get, vec![1])]);
    run.turn(|replies, cache| {
        let line = replies[1].windows(2).position(|bytes| bytes == b"\r\n").expect("a line");
        let tail = b"\r\nEND\r\n";
        replies[1] = [&replies[1][..line + 2], &old.data, &tail[..]].concat();
        assert_eq!(cache.items.len(), 20);
    });
    assert_eq!(run.failures(), &[] as &[String]);
}

#[test]
fn a_write_that_was_lost_may_come_late() {
    let mut run = Run::prefilled("get=1", |s| s.content.one_writer = true);
    run.ask(&[(Command::Set, vec![1])]);
    let mut requests = Vec::new();
    run.connections[0].poll_requests(Instant::ZERO, &mut requests, &mut run.recorder);
    run.connections[0].handle_broken(&Fault::Closed, Instant::ZERO, &mut run.recorder);
    run.ask(&[(Command::Set, vec![1])]);
    run.turn(|_, _| {});
    run.cache.answer(&requests);
    run.ask(&[(Command::Get, vec![1])]);
    run.turn(|_, _| {});
    assert_eq!(run.failures().len(), 1, "only the lost request: {:?}", run.failures());
}

#[test]
fn a_reply_that_is_lost_puts_all_later_ones_out_of_place() {
    let mut run = Run::prefilled("get=1", |_| {});
    run.ask(&[(Command::Get, vec![1]), (Command::Get, vec![2]), (Command::Get, vec![3])]);
    run.turn(|replies, _| drop(replies.remove(1)));
    assert!(run.failures()[0].contains(&format!("get {}: a value came for {}", run.key(2), run.key(3))));
    assert!(!run.connections[0].is_done(), "the last request waits, until its time is over");
    let late = Instant::from_nanos(2_000_000_000);
    assert!(run.connections[0].is_overdue(late, Duration::from_secs(1)));
    run.connections[0].handle_broken(&Fault::Timeout(Duration::from_secs(1)), late, &mut run.recorder);
    assert!(
        run.failures()[1].ends_with(&format!("request 13: get {}: no answer within 1s", run.key(3))),
        "{:?}",
        run.failures()
    );
}

#[test]
fn a_number_that_was_never_reached_is_found() {
    let mut run = Run::prefilled("incr=1", |_| {});
    let number = run.config.keys + 3;
    run.ask(&[(Command::Incr, vec![number]), (Command::Incr, vec![number]), (Command::Decr, vec![number])]);
    run.turn(|replies, _| {
        assert_eq!(replies.concat(), b"1\r\n2\r\n1\r\n");
        replies[1] = b"7\r\n".to_vec();
    });
    let expected = "the number is 7, but no more than 3 can have been counted";
    assert_eq!(run.failures().len(), 1);
    assert!(run.failures()[0].ends_with(expected), "{:?}", run.failures());
}

#[test]
fn replies_that_do_not_fit_their_command_are_failures() {
    for (command, reply) in [
        (Command::Set, "NOT_STORED"),
        (Command::Set, "EXISTS"),
        (Command::Set, "NOT_FOUND"),
        (Command::Add, "EXISTS"),
        (Command::Replace, "NOT_FOUND"),
        (Command::MetaSet, "EN"),
        (Command::MetaSet, "NS"),
        (Command::MetaGet, "HD"),
        (Command::MetaGet, "VA 1\r\nx"),
        (Command::MetaSet, "VA 1 f1 kx\r\nx"),
    ] {
        let mut run = Run::prefilled("set=1", |_| {});
        run.ask(&[(command, vec![1])]);
        run.turn(|replies, _| *replies = vec![format!("{reply}\r\n").into_bytes()]);
        assert_eq!(run.failures().len(), 1, "{} {reply}: {:?}", command.name(), run.failures());
    }
}

/// The scanner takes it for a whole reply. Once the header was looked for as far as the first `\r\n`, which is behind the data.
#[test]
fn a_header_that_ends_in_a_bare_line_feed_harms_nobody() {
    let mut run = Run::prefilled("mg=1", |_| {});
    let key = run.key(1);
    for words in ["s3", "k", "f1 s3"] {
        run.ask(&[(Command::MetaGet, vec![1])]);
        run.turn(|replies, _| *replies = vec![format!("VA 3 k{key} f24301 {words}\nabc\r\n").into_bytes()]);
    }
    assert_eq!(run.recorder.failures().count, 3, "{:?}", run.failures());
    assert!(run.failures()[0].contains("the value has 3 bytes instead of "), "{:?}", run.failures());
}

#[test]
fn a_value_without_the_token_that_was_asked_for_is_a_failure() {
    for command in [Command::Gets, Command::Gats] {
        let mut run = Run::prefilled("set=1", |_| {});
        run.ask(&[(command, vec![1])]);
        run.turn(|replies, cache| {
            let key = String::from_utf8_lossy(&replies[0]).split(' ').nth(1).expect("a key").to_owned();
            *replies = cache.answer(format!("get {key}\r\n").as_bytes());
        });
        assert_eq!(run.failures().len(), 1, "{}", command.name());
        assert!(run.failures()[0].ends_with("the value came without a cas token"), "{:?}", run.failures());
    }
}

#[test]
fn a_connection_is_renewed_after_its_number_of_requests() {
    let mut run = Run::prefilled("get=1", |s| s.connections = 1);
    let seed = crate::workload::mix::rng(1, 0, crate::workload::mix::RECONNECT);
    run.connections[0].set_renewal("3-9".parse().expect("an amount"), seed);
    run = run.load();
    for _ in 0..100 {
        let before = run.recorder.total().requests;
        while !run.connections[0].is_spent() {
            assert!(run.turn(|_, _| {}) > 0);
        }
        assert!((3..=9).contains(&(run.recorder.total().requests - before)));
        let mut requests = Vec::new();
        run.connections[0].poll_requests(Instant::ZERO, &mut requests, &mut run.recorder);
        assert!(requests.is_empty(), "nothing is sent on a socket that has served");
        run.connections[0].handle_renewed();
    }
}

#[test]
fn nothing_is_allocated_per_request() {
    let mut run = Run::prefilled(ALL_COMMANDS, |s| {
        s.content.multiget = "1-5".parse().expect("an amount");
        s.content.popularity = "zipf:1".parse().expect("a popularity");
        s.content.read_through = true;
        s.content.ttl = "1=1,60-600=2".parse().expect("an amount");
        s.connections = 1;
    })
    .load();
    let (mut requests, mut allocated) = (Vec::new(), 0);
    for round in 0..6000 {
        requests.clear();
        let before = allocations::count();
        run.connections[0].poll_requests(Instant::ZERO, &mut requests, &mut run.recorder);
        run.connections[0].handle_sent(requests.len(), Instant::ZERO);
        // Rounds before this one bring every buffer to its size.
        let steady = round >= 4000;
        allocated += if steady { allocations::count() - before } else { 0 };
        let replies = run.cache.answer(&requests).concat();
        let before = allocations::count();
        let taken = run.connections[0].handle_bytes(&replies, Instant::from_nanos(1), &mut run.recorder);
        allocated += if steady { allocations::count() - before } else { 0 };
        assert_eq!(taken, Ok(replies.len()));
    }
    assert_eq!(run.failures(), &[] as &[String]);
    assert_eq!(allocated, 0);
}
