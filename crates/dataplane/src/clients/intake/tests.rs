//! Bytes in any cut are the same requests.

use super::*;
use proptest::prelude::*;
use weir_protocol::Request;

const LIMITS: Limits = Limits {
    line_bytes_max: 200_000,
    value_bytes_max: 100_000,
    flush_allowed: false,
    server_commands_allowed: false,
};

/// A connection that is served like this: each request as soon as it is there, but none while it is paused.
struct Connection {
    intake: Intake,
    now: u64,
    /// Each request with when its first byte came.
    taken: Vec<(u64, String)>,
    /// Pauses before this many requests more.
    pause_after: Option<usize>,
    memory: usize,
}

impl Connection {
    fn new() -> Self {
        let intake = Intake::new(LIMITS, Instant::ZERO);
        Self { intake, now: 0, taken: Vec::new(), pause_after: None, memory: usize::MAX }
    }

    fn reads(&mut self, bytes: &[u8]) {
        self.now += 1;
        let input = self.intake.read(bytes, Instant::from_nanos(self.now));
        self.consume(input);
    }

    fn goes_on(&mut self) {
        self.now += 1;
        self.intake.resume();
        let input = self.intake.reread();
        self.consume(input);
    }

    fn consume(&mut self, input: Input<'_>) {
        let rest = input.rest();
        let now = Instant::from_nanos(self.now);
        while self.intake.skip(&rest, now) {
            let parsed = self.intake.look(&rest, |bytes| bytes <= self.memory);
            if let Parsed::Incomplete { .. } = parsed {
                break;
            }
            match &mut self.pause_after {
                Some(0) => {
                    self.intake.pause();
                    break;
                }
                Some(left) => *left -= 1,
                None => {}
            }
            let since = self.intake.take(&rest, &parsed, now);
            self.taken.push((since.as_nanos(), described(&parsed)));
            if let Parsed::Request { request: Request::Quit, .. } = parsed {
                self.intake.close();
            }
        }
        let left = rest.bytes().len();
        self.intake.keep(input, left);
    }

    fn requests(&self) -> Vec<&str> {
        self.taken.iter().map(|(_, what)| what.as_str()).collect()
    }
}

fn described(parsed: &Parsed<'_>) -> String {
    let Parsed::Request { request, len } = parsed else { return format!("{parsed:?}") };
    let mut bytes = format!("Request of {len}: ").into_bytes();
    request.write_to(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What clients send: well-formed, refused, too large, foreign, and what ends the connection.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[a-c]{1,3}".prop_map(|key| format!("get {key}\r\n").into_bytes()),
        3 => (0_usize..40).prop_map(|len| [format!("set k 0 0 {len}\r\n").into_bytes(), vec![b'\n'; len], b"\r\n".to_vec()].concat()),
        1 => (100_001_usize..100_020).prop_map(|len| [format!("set k 0 0 {len}\r\n").into_bytes(), vec![b'g'; len], b"\r\n".to_vec()].concat()),
        1 => Just(b"ms k S100003\r\n".iter().copied().chain([b'x'; 100_005]).collect()),
        1 => (65_000_usize..66_000).prop_map(|len| [format!("set k 0 0 {len}\r\n").into_bytes(), vec![b'v'; len], b"\r\n".to_vec()].concat()),
        1 => prop::sample::select(vec![&b"GET / HTTP/1.1\r\n"[..], b"GET a\r\n", b"\x16\x03\x01", b"\x80\x01", b"\n", b"quit\r\n", b"nonsense\r\n"])
            .prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..30),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bytes_in_any_cut_are_the_same_requests(
        pieces in prop::collection::vec(pieces(), 1..12),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        pauses in prop::collection::vec(0_usize..4, 0..12),
    ) {
        let bytes = pieces.concat();
        let mut whole = Connection::new();
        whole.reads(&bytes);
        let mut ends: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        ends.sort_unstable();
        ends.push(bytes.len());
        let mut cut = Connection::new();
        let (mut at, mut pauses) = (0, pauses.into_iter());
        cut.pause_after = pauses.next();
        for end in ends {
            cut.reads(&bytes[at..end]);
            at = end;
            while cut.intake.is_paused() {
                prop_assert!(!cut.intake.wants_read());
                cut.pause_after = pauses.next();
                cut.goes_on();
            }
        }
        prop_assert_eq!(whole.requests(), cut.requests());
        prop_assert_eq!(whole.intake.is_closed(), cut.intake.is_closed());
        prop_assert_eq!(&whole.intake.buffer, &cut.intake.buffer);
        prop_assert_eq!(whole.intake.state, cut.intake.state);
    }
}

#[test]
fn a_request_came_when_its_first_byte_did() {
    let mut connection = Connection::new();
    connection.reads(b"get a\r\nget ");
    connection.reads(b"b\r\nget c\r\n");
    connection.reads(b"get d\r\n");
    let times: Vec<_> = connection.taken.iter().map(|(since, _)| *since).collect();
    assert_eq!(times, [1, 1, 2, 3]);
    assert_eq!(connection.intake.idle_since(), Some(Instant::from_nanos(3)));
}

#[test]
fn a_value_that_is_too_large_is_answered_and_not_read() {
    let mut connection = Connection::new();
    connection.reads(b"set a 0 0 100001\r\n");
    assert!(connection.taken[0].1.starts_with("TooLarge"), "{:?}", connection.taken);
    assert_eq!(connection.intake.arriving(), Some((Instant::from_nanos(1), 0)));
    connection.reads(&[b'\n'; 100_000]);
    assert_eq!(connection.intake.arriving(), Some((Instant::from_nanos(1), 100_000)));
    assert_eq!(connection.intake.capacity(), 0, "nothing of it is kept");
    connection.reads(b"x\r\nget b\r\n");
    assert_eq!((connection.taken.len(), connection.taken[1].0), (2, 3));
    assert_eq!(connection.intake.arriving(), None);
}

#[test]
fn a_request_for_which_there_is_no_memory_is_answered_and_the_next_one_served() {
    let mut connection = Connection { memory: 2 * ROOM_CHECKED_MIN, ..Connection::new() };
    connection.reads(b"set a 0 0 99990\r\n");
    assert!(connection.taken[0].1.contains("OutOfMemory"), "{:?}", connection.taken);
    connection.reads(&[b'x'; 99_990]);
    connection.memory = usize::MAX;
    connection.reads(b"\r\nset b 0 0 99990\r\n");
    assert_eq!(connection.taken.len(), 1, "there is room for this one");
    assert!(connection.intake.expected > 99_990);
    connection.memory = 0;
    connection.reads(&[b'x'; 99_990]);
    connection.reads(b"\r\n");
    assert!(connection.taken[1].1.starts_with("Request"), "it was let in, and is not asked about again");
    assert!(connection.intake.capacity() < 101_000, "and has moved once: {}", connection.intake.capacity());
}

#[test]
fn a_line_without_end_for_which_there_is_no_memory_ends_the_connection() {
    let mut connection = Connection { memory: 0, ..Connection::new() };
    connection.reads(&[b"get ".to_vec(), vec![b'k'; ROOM_CHECKED_MIN]].concat());
    assert!(connection.taken[0].1.starts_with("Hangup"), "{:?}", connection.taken);
    connection.reads(b"\r\nget a\r\n");
    assert_eq!(connection.taken.len(), 1);
    assert!(connection.intake.is_closed() && !connection.intake.is_within_request());
}

#[test]
fn a_client_that_sends_no_more_is_served_to_the_end() {
    let mut connection = Connection { pause_after: Some(1), ..Connection::new() };
    connection.reads(b"get a\r\nget b\r\n");
    connection.intake.end_input();
    assert!(connection.intake.has_ended_input() && !connection.intake.is_closed());
    assert_eq!(connection.intake.arriving(), None, "it is not the client that takes long");
    connection.pause_after = None;
    connection.goes_on();
    assert_eq!(connection.taken.len(), 2);
    connection.intake.end_input();
    assert!(connection.intake.is_closed());
}

#[test]
fn another_protocol_is_answered_once_and_nothing_is_taken_behind_it() {
    let mut connection = Connection::new();
    connection.reads(b"GET / HT");
    assert!(connection.taken.is_empty());
    connection.reads(b"TP/1.1\r\nget a\r\n");
    connection.reads(b"get b\r\n");
    assert_eq!(connection.requests(), ["Foreign { foreign: Http }"]);
}

#[test]
fn memory_is_given_back_when_nothing_waits() {
    let mut connection = Connection { pause_after: Some(0), ..Connection::new() };
    connection.reads(&b"get a\r\n".repeat(1000));
    connection.intake.give_all_memory_back();
    assert!(connection.intake.capacity() >= 7000);
    connection.pause_after = None;
    connection.goes_on();
    assert!(connection.intake.capacity() >= 7000, "it may be needed again");
    connection.intake.give_memory_back();
    assert_eq!(connection.intake.capacity(), 0);
}
