use proptest::prelude::*;

use super::*;
use crate::config::{Config, Settings};
use crate::pacing::schedule::Process;
use crate::recorder::PhaseCounts;
use crate::recorder::phase::{NEVER, Timeline};
use crate::workload::FLAGS;

/// A connection whose requests and replies are given, with keys `0000` to `0009` and values of 64 bytes.
struct Pair {
    connection: Connection,
    workload: Arc<Workload>,
    recorder: Recorder,
}

/// All is measured.
const MEASURED: Timeline = Timeline { warmup: Instant::ZERO, measured: Instant::ZERO, end: NEVER };

type Request = (Command, Vec<u64>);

fn get(key: u64) -> Request {
    (Command::Get, vec![key])
}

fn multiget(keys: &[u64]) -> Request {
    (Command::Get, keys.to_vec())
}

fn set(key: u64) -> Request {
    (Command::Set, vec![key])
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

impl Pair {
    fn new(depth: usize, requests: impl IntoIterator<Item = Request>) -> Pair {
        Pair::with(depth, requests, |_| {})
    }

    /// A pair of two connections' run, unless `change` makes it another.
    fn with(
        depth: usize,
        requests: impl IntoIterator<Item = Request>,
        change: impl FnOnce(&mut Settings),
    ) -> Pair {
        let mut settings = Settings { keys: 10, connections: 2, ..Settings::example() };
        (settings.content.key_size, settings.content.value_size) = (Amount::Fixed(4), Amount::Fixed(64));
        change(&mut settings);
        let config = Config::check(settings).expect("the settings are valid");
        let workload = Arc::new(Workload::new(&config, 7, None));
        let mut connection = Connection::new(3, "here:1".into(), workload.clone());
        connection.set_source(Source::Script(requests.into_iter().collect()), Pace::eager(), depth);
        Pair { connection, workload, recorder: Recorder::new(false) }
    }

    /// A pair whose requests are all sent at moment 1000.
    fn sent(requests: impl IntoIterator<Item = Request>) -> Pair {
        let mut pair = Pair::new(100, requests);
        let bytes = pair.poll(at(900));
        pair.connection.handle_sent(bytes.len(), at(1000));
        pair
    }

    fn poll(&mut self, now: Instant) -> Vec<u8> {
        let mut output = Vec::new();
        self.connection.poll_requests(now, &mut output, &mut self.recorder);
        output
    }

    /// What a right server holds under `key`, after it was written once more.
    fn value(&self, key: u64) -> Vec<u8> {
        self.value_of(key, key, self.workload.versions.issue(key), FLAGS)
    }

    fn value_of(&self, key: u64, written_to: u64, version: u64, flags: u32) -> Vec<u8> {
        let mut value = format!("VALUE {key:04} {flags} 64\r\n").into_bytes();
        self.workload.values.append(written_to, version, 64, &mut value);
        value.extend_from_slice(b"\r\n");
        value
    }

    /// Handles bytes as they come, in pieces that end at `cuts`.
    fn handle(&mut self, bytes: &[u8], cuts: &[usize]) -> Result<usize, Fault> {
        let mut taken = 0;
        for &end in cuts.iter().chain([&bytes.len()]) {
            taken += self.connection.handle_bytes(&bytes[taken..end], at(1500), &mut self.recorder)?;
        }
        Ok(taken)
    }

    fn counts(&self) -> PhaseCounts {
        self.recorder.total()
    }

    fn first_failure(&self) -> &str {
        self.recorder.failures().first.first().map_or("", String::as_str)
    }
}

fn end() -> Vec<u8> {
    b"END\r\n".to_vec()
}

/// Gives a connection with `requests` outstanding a reply, whole and cut at every byte, and checks that the first failure
/// is `failure`, or that there is none where it is empty.
fn check(requests: &[Request], reply: impl Fn(&Pair) -> Vec<u8>, failure: &str) -> PhaseCounts {
    let run = |cut: Option<usize>| {
        let mut pair = Pair::sent(requests.iter().cloned());
        let bytes = reply(&pair);
        let handled = pair.handle(&bytes, &cut.map_or(vec![], |at| vec![at.min(bytes.len())]));
        assert_eq!(handled, Ok(bytes.len()), "cut at {cut:?}");
        assert!(pair.connection.is_done(), "cut at {cut:?}");
        assert_eq!(pair.first_failure(), failure, "cut at {cut:?}");
        (pair.counts(), bytes.len())
    };
    let (whole, length) = run(None);
    for cut in 0..length {
        assert_eq!(run(Some(cut)).0, whole, "cut at {cut}");
    }
    whole
}

/// Like [`check`], for replies after which the connection is out of step.
fn check_broken(requests: &[Request], reply: impl Fn(&Pair) -> Vec<u8>, fault: &Fault) {
    let mut pair = Pair::sent(requests.iter().cloned());
    let bytes = reply(&pair);
    assert_eq!(pair.handle(&bytes, &[]).as_ref(), Err(fault));
    for cut in 0..bytes.len() {
        let mut pair = Pair::sent(requests.iter().cloned());
        let bytes = reply(&pair);
        assert!(pair.handle(&bytes, &[cut]).is_err(), "cut at {cut}");
    }
}

#[test]
fn right_replies_are_served() {
    let counts = check(&[get(1)], |pair| [pair.value(1), end()].concat(), "");
    assert_eq!(counts, PhaseCounts { requests: 1, keys: 1, ..PhaseCounts::default() });
    let counts = check(&[get(1)], |_| end(), "");
    assert_eq!(counts, PhaseCounts { requests: 1, keys: 1, misses: 1, ..PhaseCounts::default() });
    let counts = check(&[set(1)], |_| b"STORED\r\n".to_vec(), "");
    assert_eq!(counts, PhaseCounts { requests: 1, keys: 1, ..PhaseCounts::default() });
}

#[test]
fn a_multi_get_may_miss_any_of_its_keys() {
    for found in [&[][..], &[4], &[1], &[9], &[4, 9], &[4, 1, 9]] {
        let reply =
            |pair: &Pair| found.iter().flat_map(|&key| pair.value(key)).chain(end()).collect::<Vec<u8>>();
        let counts = check(&[multiget(&[4, 1, 9])], reply, "");
        assert_eq!((counts.requests, counts.keys, counts.misses), (1, 3, 3 - found.len() as u64));
    }
}

#[test]
fn swapped_replies_fail_both_requests() {
    let swapped = |pair: &Pair| [pair.value(2), end(), pair.value(1), end()].concat();
    let counts = check(
        &[get(1), get(2)],
        swapped,
        "connection 3 to here:1, request 1: get 0001: a value came for 0002, which was not asked for",
    );
    assert_eq!((counts.requests, counts.failures, counts.misses), (2, 2, 0));
}

#[test]
fn keys_out_of_request_order_or_twice_fail() {
    let expected = "connection 3 to here:1, request 1: multiget 0001 0002: the value for 0001 came out of request order, or twice";
    check(&[multiget(&[1, 2])], |pair| [pair.value(2), pair.value(1), end()].concat(), expected);
    check(&[multiget(&[1, 2])], |pair| [pair.value(1), pair.value(1), end()].concat(), expected);
}

#[test]
fn a_key_of_nobody_fails() {
    check(
        &[get(1)],
        |_| b"VALUE weird 0 0\r\n\r\nEND\r\n".to_vec(),
        "connection 3 to here:1, request 1: get 0001: a value came for weird, which is no key of this run",
    );
}

#[test]
fn a_torn_value_fails() {
    let torn = |pair: &Pair| {
        let (old, mut new) = (pair.value(5), pair.value(5));
        let middle = new.len() - 20;
        new[middle..].copy_from_slice(&old[middle..]);
        [new, end()].concat()
    };
    check(
        &[get(5)],
        torn,
        "connection 3 to here:1, request 1: get 0005: key 0005: the value's checksum is wrong: it is torn or corrupted",
    );
}

#[test]
fn another_keys_value_fails() {
    let other = |pair: &Pair| {
        let version = pair.workload.versions.issue(6);
        [pair.value_of(5, 6, version, FLAGS), end()].concat()
    };
    check(
        &[get(5)],
        other,
        "connection 3 to here:1, request 1: get 0005: key 0005: the value belongs to key index 6",
    );
}

#[test]
fn a_version_that_was_never_written_fails() {
    let unwritten = |pair: &Pair| {
        let version = pair.workload.versions.issue(5) + 1;
        [pair.value_of(5, 5, version, FLAGS), end()].concat()
    };
    check(
        &[get(5)],
        unwritten,
        "connection 3 to here:1, request 1: get 0005: key 0005: version 2 was never written, the last one issued is 1",
    );
}

#[test]
fn a_version_of_another_run_is_counted_as_foreign() {
    let mut pair = Pair::sent([get(5)]);
    let bytes = [pair.value_of(5, 5, 1, FLAGS), end()].concat();
    pair.handle(&bytes, &[]).expect("the reply is right");
    assert_eq!((pair.counts().failures, pair.recorder.foreign_values()), (0, 1));
}

#[test]
fn lost_flags_and_sizes_fail() {
    let unflagged = |pair: &Pair| {
        let version = pair.workload.versions.issue(5);
        [pair.value_of(5, 5, version, 0), end()].concat()
    };
    let expected = "connection 3 to here:1, request 1: get 0005: key 0005: the flags are 0 instead of 24301";
    check(&[get(5)], unflagged, expected);
    let expected =
        "connection 3 to here:1, request 1: get 0005: key 0005: the value has 3 bytes instead of 64";
    check(&[get(5)], |_| b"VALUE 0005 0 3\r\nabc\r\nEND\r\n".to_vec(), expected);
}

#[test]
fn error_replies_are_errors_and_no_failures() {
    for line in ["SERVER_ERROR timeout here:2", "CLIENT_ERROR bad data chunk", "ERROR"] {
        for request in [get(1), set(1), multiget(&[1, 2])] {
            let keys = request.1.len() as u64;
            let counts = check(&[request], |_| format!("{line}\r\n").into_bytes(), "");
            assert_eq!(counts, PhaseCounts { requests: 1, errors: 1, keys, ..PhaseCounts::default() });
        }
    }
    let mut pair = Pair::sent([get(1)]);
    pair.handle(b"SERVER_ERROR timeout here:2\r\n", &[]).expect("an error reply is a reply");
    assert_eq!(pair.recorder.errors().get("SERVER_ERROR timeout here:2"), Some(&1));
}

#[test]
fn an_error_behind_values_is_an_error() {
    let counts =
        check(&[multiget(&[1, 2])], |pair| [pair.value(1), b"SERVER_ERROR lost\r\n".to_vec()].concat(), "");
    assert_eq!((counts.errors, counts.misses), (1, 0));
}

#[test]
fn a_set_that_is_not_stored_fails() {
    check(
        &[set(1)],
        |_| b"NOT_STORED\r\n".to_vec(),
        "connection 3 to here:1, request 1: set 0001: the reply \"NOT_STORED\" does not fit the request",
    );
}

#[test]
fn replies_of_another_kind_break_the_connection() {
    let malformed = |line: &str| Fault::Malformed(weir_protocol::Violation::UnexpectedLine(line.to_owned()));
    check_broken(&[get(1)], |_| b"STORED\r\n".to_vec(), &malformed("STORED"));
    check_broken(&[set(1)], |_| b"END\r\n".to_vec(), &malformed("END"));
    check_broken(&[get(1)], |_| b"hello\r\n".to_vec(), &malformed("hello"));
}

#[test]
fn bytes_that_nobody_asked_for_break_the_connection() {
    let mut pair = Pair::sent([get(1)]);
    let fault = Fault::Unasked { bytes: "END\\r\\n".to_owned() };
    assert_eq!(pair.handle(b"END\r\nEND\r\n", &[]), Err(fault));
}

#[test]
fn a_broken_connection_loses_what_is_outstanding_and_begins_anew() {
    let mut pair = Pair::sent([get(1), multiget(&[3, 4, 5, 6]), set(2), get(7)]);
    let bytes = [end(), pair.value(3)].concat();
    assert_eq!(pair.handle(&bytes, &[]), Ok(5), "the second reply has only begun");
    pair.connection.handle_broken(&Fault::Closed, at(2000), &mut pair.recorder);
    let name = "connection 3 to here:1, request";
    let closed = "the connection was closed by the other side";
    assert_eq!(
        pair.recorder.failures().first,
        [
            format!("{name} 2: multiget 0003 0004 0005 and 1 more keys: {closed}"),
            format!("{name} 3: set 0002: {closed}"),
            format!("{name} 4: get 0007: {closed}")
        ]
    );
    assert_eq!((pair.counts().requests, pair.counts().failures), (1, 3));

    pair.connection.set_source(Source::Script([set(8)].into()), Pace::eager(), 1);
    let bytes = pair.poll(at(3000));
    pair.connection.handle_sent(bytes.len(), at(3000));
    assert_eq!(pair.handle(b"STORED\r\n", &[]), Ok(8));
    assert_eq!((pair.counts().requests, pair.counts().failures), (2, 3));
}

#[test]
fn an_idle_connection_that_breaks_is_one_failure() {
    let mut pair = Pair::new(1, []);
    pair.connection.handle_broken(&Fault::Closed, at(1), &mut pair.recorder);
    assert_eq!(pair.first_failure(), "connection 3 to here:1: the connection was closed by the other side");
    assert_eq!(pair.counts().failures, 1);
}

#[test]
fn the_oldest_request_decides_whether_an_answer_is_overdue() {
    let mut pair = Pair::new(2, [get(1), get(2), get(3)]);
    let limit = Duration::from_nanos(100);
    assert!(!pair.connection.is_overdue(at(1_000_000), limit), "nothing is outstanding");
    let bytes = pair.poll(at(1000));
    pair.connection.handle_sent(bytes.len(), at(1400));
    assert!(!pair.connection.is_overdue(at(1500), limit));
    assert!(pair.connection.is_overdue(at(1501), limit));
    pair.handle(b"END\r\n", &[]).expect("a miss");
    let bytes = pair.poll(at(1500));
    pair.connection.handle_sent(bytes.len(), at(1500));
    assert!(pair.connection.is_overdue(at(1501), limit), "the second request waits since 1400");
}

#[test]
fn requests_that_the_kernel_does_not_take_become_overdue() {
    let mut pair = Pair::new(1, [get(1)]);
    pair.poll(at(1000));
    assert!(pair.connection.is_overdue(at(1101), Duration::from_nanos(100)));
}

#[test]
fn a_server_that_takes_a_request_byte_by_byte_does_not_put_its_time_off() {
    let limit = Duration::from_nanos(100);
    let mut pair = Pair::new(2, [set(1), set(2)]);
    let length = pair.poll(at(1000)).len() / 2;
    for nanos in [1000, 1040, 1080] {
        pair.connection.handle_sent(1, at(nanos));
    }
    assert!(!pair.connection.is_overdue(at(1100), limit));
    assert!(pair.connection.is_overdue(at(1101), limit));
    // The turn of the second comes with the last byte of the first.
    pair.connection.handle_sent(length - 3, at(1090));
    pair.handle(b"STORED\r\n", &[]).expect("a reply");
    pair.connection.handle_sent(1, at(1180));
    assert!(!pair.connection.is_overdue(at(1190), limit));
    assert!(pair.connection.is_overdue(at(1191), limit));
}

/// An open loop with three arrivals, one of which is sent, and then the end.
fn abandoned(requests: usize) -> (u64, u64, u64) {
    let mut pair = Pair::new(1, []);
    pair.recorder.set_timeline(MEASURED);
    let settings = Settings { pacing: Settings::offered("10", Process::Fixed), ..Settings::example() };
    let config = Config::check(settings).expect("the settings are valid");
    let source = Source::Script(std::iter::repeat_with(|| get(1)).take(requests).collect());
    pair.connection.set_source(source, Pace::new(&config, 3), 1);
    for nanos in [1, 2, 3] {
        pair.recorder.record_arrival(at(nanos), 0);
        assert!(pair.connection.pace().handle_due(at(nanos), at(nanos)));
    }
    let bytes = pair.poll(at(5));
    pair.connection.handle_sent(bytes.len(), at(5));
    pair.handle(b"END\r\n", &[]).expect("a miss");
    // Again and again, as a thread does until it ends.
    (0..2).for_each(|_| pair.connection.abandon(&mut pair.recorder));
    pair.connection.miss_arrival(at(6), &mut pair.recorder);
    let scheduled = pair.recorder.scheduled();
    (scheduled.arrivals, scheduled.unsent, scheduled.lateness.count())
}

#[test]
fn arrivals_are_unsent_unless_the_source_has_nothing_left_for_them() {
    assert_eq!(abandoned(9), (4, 3, 1));
    assert_eq!(abandoned(1), (1, 0, 1));
}

#[test]
fn depth_requests_are_kept_outstanding() {
    let mut pair = Pair::new(2, (0..5).map(get));
    assert_eq!(pair.poll(at(0)), b"get 0000\r\nget 0001\r\n");
    assert_eq!(pair.poll(at(0)), b"");
    pair.connection.handle_sent(20, at(0));
    pair.handle(b"END\r\n", &[]).expect("a miss");
    assert_eq!(pair.poll(at(0)), b"get 0002\r\n");
    pair.connection.stop();
    pair.connection.handle_sent(10, at(0));
    pair.handle(b"END\r\nEND\r\n", &[]).expect("two misses");
    assert_eq!(pair.poll(at(0)), b"", "nothing is issued after a stop");
    assert!(pair.connection.is_done());
}

#[test]
fn response_time_runs_from_the_call_that_took_the_last_byte() {
    let mut pair = Pair::new(3, [get(1), get(2), get(3)]);
    pair.recorder.set_timeline(MEASURED);
    let length = pair.poll(at(500)).len() / 3;
    pair.connection.handle_sent(length + 1, at(1000));
    pair.connection.handle_sent(length - 1, at(1100));
    pair.connection.handle_sent(length, at(1200));
    pair.handle(b"END\r\nEND\r\nEND\r\n", &[]).expect("three misses");
    let times = &pair.recorder.operation(Operation::Get).response_time;
    assert_eq!((times.min(), times.max(), times.sum()), (Some(300), Some(500), 500 + 400 + 300));
}

#[test]
fn an_answer_may_overtake_the_end_of_its_request() {
    let mut pair = Pair::new(2, [set(1), get(2)]);
    pair.recorder.set_timeline(MEASURED);
    let bytes = pair.poll(at(0));
    pair.connection.handle_sent(10, at(100));
    assert_eq!(pair.handle(b"SERVER_ERROR object too large for cache\r\n", &[]), Ok(41));
    pair.connection.handle_sent(bytes.len() - 10, at(200));
    assert_eq!(pair.handle(b"END\r\n", &[]), Ok(5));
    assert_eq!((pair.counts().requests, pair.counts().errors, pair.counts().failures), (2, 1, 0));
    let times = &pair.recorder.operation(Operation::Set).response_time;
    assert_eq!(times.max(), Some(1400), "from the last call that took a part of it");
}

proptest! {
    /// Whatever is asked, however the replies are cut and whenever the connection breaks: every request is answered or lost.
    #[test]
    fn requests_are_conserved(
        kinds in prop::collection::vec((0..3_usize, 0..4_usize), 1..40),
        depth in 1..8_usize,
        cut in 1..200_usize,
        breaks_after in prop_oneof![0..30_usize, Just(usize::MAX)],
    ) {
        let requests: Vec<Request> = kinds
            .iter()
            .map(|&(kind, _)| [get(1), set(2), multiget(&[3, 4, 5])][kind].clone())
            .collect();
        let mut pair = Pair::new(depth, requests);
        let (mut issued, mut replied, mut wire, mut seen) = (0, 0, Vec::new(), 0);
        loop {
            let sent = pair.poll(at(1)).len();
            pair.connection.handle_sent(sent, at(2));
            issued = (pair.connection.issued as usize).max(issued);
            while replied < issued {
                wire.extend(answer(&pair, kinds[replied]));
                replied += 1;
            }
            if pair.connection.is_done() || seen >= breaks_after {
                break;
            }
            let end = wire.len().min(cut);
            let taken = pair.connection.handle_bytes(&wire[..end], at(3), &mut pair.recorder).unwrap();
            seen += 1;
            wire.drain(..taken);
            if taken == 0 {
                // The piece held no whole reply: the next one is all there is.
                let taken = pair.connection.handle_bytes(&wire, at(3), &mut pair.recorder).unwrap();
                prop_assert!(taken > 0, "all that was sent is answered");
                wire.drain(..taken);
            }
        }
        let lost = pair.connection.outstanding.len() as u64;
        let failed_before = pair.counts().failures;
        if lost > 0 {
            pair.connection.handle_broken(&Fault::Closed, at(4), &mut pair.recorder);
        }
        prop_assert_eq!(failed_before, 0);
        prop_assert_eq!(pair.counts().requests + lost, issued as u64);
        prop_assert_eq!(pair.counts().failures, lost);
        prop_assert!(pair.connection.keys.is_empty() && pair.connection.outstanding.is_empty());
        if breaks_after == usize::MAX {
            prop_assert_eq!(lost, 0);
        }
    }

    /// Nothing that a peer can send makes the connection panic, and what is recorded stays within what was asked.
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(peer_bytes(), 0..20), cut in 0..100_usize) {
        let bytes = bytes.concat();
        let mut pair = Pair::sent([
            get(1), set(2), multiget(&[3, 4, 5]), (Command::MetaGet, vec![1]), (Command::Gats, vec![1]),
        ]);
        let cut = cut.min(bytes.len());
        let fault = pair.handle(&bytes, &[cut]).err().unwrap_or(Fault::Closed);
        let answered = pair.counts().requests;
        pair.connection.handle_broken(&fault, at(9), &mut pair.recorder);
        prop_assert!(answered <= 5 && pair.counts().failures >= 5 - answered);
    }

    /// The same for a request that comes first, so that more of what is sent reaches its verification.
    #[test]
    fn no_meta_reply_panics(words in prop::collection::vec(meta_words(), 0..8), line_end in 0..2_usize) {
        let words: String = words.into_iter().flat_map(|word| [" ", word]).collect();
        let bytes = format!("VA 3{words}{}abc\r\n", ["\r\n", "\n"][line_end]).into_bytes();
        let mut pair = Pair::sent([(Command::MetaGet, vec![1])]);
        prop_assert_eq!(pair.handle(&bytes, &[]), Ok(bytes.len()));
        prop_assert_eq!((pair.counts().requests, pair.counts().failures), (1, 1));
    }
}

fn meta_words() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        3 => Just("k0001"),
        3 => Just("f24301"),
        3 => Just("s3"),
        2 => prop::sample::select(vec!["k0002", "k", "f", "f0", "fx", "Omg", "", "t-1", "W"]),
    ]
}

fn answer(pair: &Pair, (kind, how): (usize, usize)) -> Vec<u8> {
    match (kind, how) {
        (_, 0) => b"SERVER_ERROR out of order\r\n".to_vec(),
        (0, 1) | (2, 1) => end(),
        (0, _) => [pair.value(1), end()].concat(),
        (2, _) => [pair.value(3), pair.value(5), end()].concat(),
        _ => b"STORED\r\n".to_vec(),
    }
}

fn peer_bytes() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "VALUE ",
        "0001",
        " ",
        "0",
        "64",
        "\r\n",
        "END\r\n",
        "STORED\r\n",
        "ERROR\r\n",
        "SERVER_ERROR ",
        "VALUE 0001 24301 3\r\nabc\r\n",
        "VALUE 0003 0 18446744073709551615\r\n",
        "VALUE 0001 24301 3 7\r\nabc\r\n",
        "VA ",
        "3",
        " k0001",
        " f24301",
        "abc\r\n",
        "EN\r\n",
        "HD\r\n",
        "\n",
        "-1",
    ];
    prop_oneof![
        prop::sample::select(words.map(|word| word.as_bytes().to_vec()).to_vec()),
        prop::collection::vec(any::<u8>(), 0..30),
    ]
}
