//! Requests: memcached's answers to good and bad lines as vectors, round trips, and any cut of the bytes.

use proptest::prelude::*;
use weir_protocol::{Limits, Parsed, Refusal, Request, RequestParser};

/// What a stream of bytes is parsed into, in words; the stream ends where the parser wants more.
fn parse_all(bytes: &[u8], limits: Limits) -> Vec<String> {
    let mut parser = RequestParser::new(limits);
    parse_some(&mut parser, bytes).0
}

/// Parses all that is complete at the front of `bytes`: what it was, and how many bytes it took.
fn parse_some(parser: &mut RequestParser, bytes: &[u8]) -> (Vec<String>, usize) {
    let (mut seen, mut at) = (Vec::new(), 0);
    loop {
        match parser.parse(&bytes[at..]) {
            Parsed::Request { request, len } => {
                let mut text = Vec::new();
                request.write_to(&mut text);
                seen.push(String::from_utf8_lossy(&text).into_owned());
                at += len;
            }
            Parsed::Refused { refusal, silent, len } => {
                seen.push(format!("{refusal:?} silent={silent}"));
                at += len;
            }
            Parsed::TooLarge { key, silent, erases, len, swallow, .. } => {
                seen.push(format!("too large {} {silent} {erases} {swallow}", key.escape_ascii()));
                at += len;
            }
            Parsed::Incomplete { needed } => {
                assert!(needed > bytes.len() - at, "asks for bytes that are there");
                return (seen, at);
            }
            Parsed::Foreign { .. } | Parsed::Login { .. } => panic!("a parser says no such thing"),
            Parsed::Hangup { refusal } => {
                seen.push(format!("hangup {refusal:?}"));
                return (seen, bytes.len());
            }
        }
    }
}

fn check(bytes: &[u8], expected: &[&str]) {
    assert_eq!(parse_all(bytes, Limits::default()), expected, "{}", bytes.escape_ascii());
}

#[test]
fn good_lines_are_requests() {
    check(b"get a\r\n", &["get a\r\n"]);
    check(b"  get  a   b \n", &["get a b\r\n"]);
    check(b"bget a\r\n", &["get a\r\n"]);
    check(b"gat 10 a b\r\n", &["gat 10 a b\r\n"]);
    check(b"gats 0\r\n", &["gats 0\r\n"]);
    check(b"get a\r\r\n", &["get a\r\r\n"]);
    check(b"get a\0b c\r\n", &["get a\r\n"]);
    check(b"set a 0 0 3\r\nabc\r\n", &["set a 0 0 3\r\nabc\r\n"]);
    check(b"set a 0 -1 +3 noreply \nabc\r\n", &["set a 0 -1 3 noreply\r\nabc\r\n"]);
    check(b"set a 0 0 3 bogus\r\nabc\r\n", &["set a 0 0 3\r\nabc\r\n"]);
    check(b"set a 0 0 9\r\nEND\r\nget \r\n", &["set a 0 0 9\r\nEND\r\nget \r\n"]);
    check(b"cas a 0 0 1 7\r\nx\r\n", &["cas a 0 0 1 7\r\nx\r\n"]);
    check(b"delete a\r\ndelete a 0\r\n", &["delete a\r\n", "delete a\r\n"]);
    check(b"delete a 0 noreply\r\n", &["delete a noreply\r\n"]);
    check(b"incr a 5\r\ndecr a 5 noreply\r\n", &["incr a 5\r\n", "decr a 5 noreply\r\n"]);
    check(b"touch a -1\r\n", &["touch a -1\r\n"]);
    check(b"version\r\nverbosity 1\r\nquit\r\n", &["version\r\n", "verbosity 0\r\n", "quit\r\n"]);
}

#[test]
fn mistakes_are_answered_as_memcached_answers() {
    let unknown = "Unknown silent=false";
    for line in [
        "",
        " ",
        "g",
        "get",
        "gat",
        "gets ",
        "GET a",
        "bogus noreply",
        "set a 0 noreply",
        "cas a 0 0 3",
        "delete",
    ] {
        check(format!("{line}\r\n").as_bytes(), &[unknown]);
    }
    for line in
        ["incr a", "touch a", "delete a 0 1 2", "set a 0 0 3 a b", "mx", "verbosity", "verbosity a b c"]
    {
        check(format!("{line}\r\n").as_bytes(), &[unknown]);
    }
    let bad = "BadCommandLine silent=false";
    check(b"set a 0 0 abc\r\n", &[bad]);
    check(b"set a 0 0 -1\r\n", &[bad]);
    check(b"set a x 0 3\r\nabc\r\n", &[bad, unknown]);
    check(b"set a x 0 3 noreply\r\n", &["BadCommandLine silent=true"]);
    check(b"set a 0 0 2147483646\r\n", &[bad]);
    check(b"set a 0 0 2147483648\r\n", &[bad]);
    // Of a length, 32 bits count.
    check(b"set a 0 0 4294967299\r\nabc\r\n", &["set a 0 0 3\r\nabc\r\n"]);
    check(b"ms a -4294967293\r\nabc\r\n", &["ms a 3\r\nabc\r\n"]);
    check(b"cas a 0 0 3 x\r\n", &[bad]);
    check(b"set a 0 0 3\r\nabcdef\r\n", &["BadDataChunk silent=false", unknown]);
    check(b"delete a 1\r\n", &["BadDelete silent=false"]);
    check(b"gat x a\r\n", &["BadExptime silent=false"]);
    check(b"touch a x\r\n", &["BadExptime silent=false"]);
    check(b"incr a -1\r\n", &["BadDelta silent=false"]);
    check(b"incr a x noreply\r\n", &["BadDelta silent=true"]);
    check(b"incr a noreply\r\n", &["BadDelta silent=true"]);
    check(b"touch a noreply\r\n", &["BadExptime silent=true"]);
    check(b"set a 0 0 noreply\r\n", &["BadCommandLine silent=true"]);
    check(b"verbosity noreply\r\n", &["BadCommandLine silent=true"]);
    check(b"verbosity x\r\n", &["BadCommandLine silent=false"]);
    check(b"flush_all\r\n", &["NotAllowed(FlushAll) silent=false"]);
    check(b"flush_all 0 noreply\r\n", &["NotAllowed(FlushAll) silent=true"]);
    check(b"cache_memlimit 64\r\n", &["NotAllowed(CacheMemlimit) silent=false"]);
    check(b"cache_memlimit 64 noreply\r\n", &["NotAllowed(CacheMemlimit) silent=true"]);
    check(b"slabs automove 0 noreply\r\n", &["NotAllowed(Slabs) silent=false"]);
    check(b"shutdown\r\n", &["ShutdownNotEnabled silent=false"]);
    check(b"shutdown a b c\r\n", &["ShutdownNotEnabled silent=false"]);
    for line in ["xx HTTP/1.1", "GET / HTTP/1.0", "HTTP/1.1", "mxx HTTP/1.1"] {
        check(format!("{line}\r\n").as_bytes(), &["hangup None"]);
    }
    for line in ["x HTTP/1.1", "mx HTTP/1.1", "gopher HTTP/1.1", "trace / HTTP/1.1"] {
        check(format!("{line}\r\n").as_bytes(), &[unknown]);
    }
    let words = |count| ["x"].repeat(count).join(" ");
    check(format!("xx {} HTTP/1.1\r\n", words(21)).as_bytes(), &["hangup None"]);
    check(format!("xx {} HTTP/1.1\r\n", words(22)).as_bytes(), &[unknown]);
}

#[test]
fn keys_end_at_250_bytes() {
    let (good, bad) = ("k".repeat(250), "k".repeat(251));
    check(format!("get {good}\r\n").as_bytes(), &[&format!("get {good}\r\n")]);
    for line in
        [format!("get {bad}"), format!("get a {bad}"), format!("gat 0 {bad}"), format!("delete {bad}")]
    {
        check(format!("{line}\r\n").as_bytes(), &["BadCommandLine silent=false"]);
    }
}

#[test]
fn commands_to_whole_servers_are_passed_on_where_one_line_answers_them() {
    let limits = Limits { server_commands_allowed: true, ..Limits::default() };
    for (line, passed_on) in [
        ("cache_memlimit  64 ", "cache_memlimit 64\r\n"),
        ("cache_memlimit 64 noreply", "cache_memlimit 64 noreply\r\n"),
        ("slabs reassign 1 2", "slabs reassign 1 2\r\n"),
        ("slabs automove 0", "slabs automove 0\r\n"),
        ("lru mode flat", "lru mode flat\r\n"),
        ("lru_crawler crawl all", "lru_crawler crawl all\r\n"),
        ("lru_crawler metadump all", "NotAllowed(LruCrawler) silent=false"),
        ("lru_crawler mgdump all", "NotAllowed(LruCrawler) silent=false"),
        ("slabs dump", "NotAllowed(Slabs) silent=false"),
        ("watch fetchers", "NotAllowed(Watch) silent=false"),
        ("cache_memlimit", "Unknown silent=false"),
    ] {
        assert_eq!(parse_all(format!("{line}\r\n").as_bytes(), limits), [passed_on], "{line}");
    }
}

#[test]
fn values_over_the_limit_are_swallowed() {
    let limits = Limits { value_bytes_max: 10, ..Limits::default() };
    assert_eq!(parse_all(b"set a 0 0 11\r\n", limits), ["too large a false true 13"]);
    assert_eq!(parse_all(b"set a 0 0 10\r\n0123456789\r\n", limits).len(), 1);
}

#[test]
fn lines_without_end_close_the_connection() {
    let limits = Limits { line_bytes_max: 64, ..Limits::default() };
    let expected = format!("hangup {:?}", Some(Refusal::LineTooLong));
    assert_eq!(parse_all(&[b'a'; 64], limits), [&*expected]);
    let mut ended = [b'a'; 66];
    ended[65] = b'\n';
    assert_eq!(parse_all(&ended, limits), [&*expected]);
}

#[test]
fn no_line_is_passed_on_on_which_a_server_would_close_its_connection() {
    let line = |head: &str, len: usize| format!("{head}{}\r\n", "1".repeat(len - head.len()));
    // With the carriage return, these are 2048 bytes before the line feed.
    let longest = line("mg a O", 2047);
    check(longest.as_bytes(), &[&longest]);
    let longest = line("ms a 1 O", 2047) + "x\r\n";
    check(longest.as_bytes(), &[&longest]);
    check(line("mg a O", 2048).as_bytes(), &["LineTooLong silent=false"]);
    // Whatever else is wrong with it.
    check(format!("  mg YQ b{}\r\n", " k".repeat(1_024)).as_bytes(), &["LineTooLong silent=false"]);
    check(line("incr a 0000", 2048).as_bytes(), &["BadDelta silent=false"]);
    let hangup = format!("hangup {:?}", Some(Refusal::LineTooLong));
    for head in ["ms a 1 O", "set a 0 0 1 "] {
        check((line(head, 2048) + "x\r\n").as_bytes(), &[&hangup]);
    }
    let flags = "0".repeat(2048);
    check(format!("set a {flags} 0 1\r\nx\r\n").as_bytes(), &[&hangup]);
}

/// Words that are likely to be taken for something else.
fn word() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-zA-Z0-9_:.-]{1,12}",
        1 => "[\\x01-\\x09\\x0b-\\x1f!-~]{1,20}",
        1 => prop_oneof![Just("noreply"), Just("END"), Just("VALUE"), Just("STORED"), Just("0"), Just("-1")].prop_map(String::from),
    ]
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => prop::collection::vec(any::<u8>(), 0..64),
        1 => prop_oneof![Just(b"END\r\n".to_vec()), Just(b"\r\n".to_vec()), Just(b"get a\r\nSTORED\r\n".to_vec())],
    ]
}

/// A valid request, as text in the form in which requests are composed.
fn request() -> impl Strategy<Value = Vec<u8>> {
    let noreply = prop_oneof![Just(""), Just(" noreply")];
    let storage = (
        prop_oneof![Just("set"), Just("add"), Just("replace"), Just("append"), Just("prepend"), Just("cas")],
        (word(), any::<u32>(), any::<i32>(), any::<u64>()),
        value(),
        noreply.clone(),
    )
        .prop_map(|(verb, (key, flags, exptime, cas), value, noreply)| {
            let cas = if verb == "cas" { format!(" {cas}") } else { String::new() };
            let line = format!("{verb} {key} {flags} {exptime} {}{cas}{noreply}\r\n", value.len());
            [line.as_bytes(), &value, b"\r\n"].concat()
        });
    let retrieval = (
        prop_oneof![Just("get".into()), Just("gets".into()), any::<i32>().prop_map(|t| format!("gat {t}"))],
        prop::collection::vec(word(), 1..30),
    )
        .prop_map(|(verb, keys): (String, _)| format!("{verb} {}\r\n", keys.join(" ")).into_bytes());
    let others = (word(), any::<u32>(), noreply, 0..5).prop_map(|(key, number, noreply, which)| {
        match which {
            0 => format!("delete {key}{noreply}\r\n"),
            1 => format!("incr {key} {number}{noreply}\r\n"),
            2 => format!("touch {key} {number}{noreply}\r\n"),
            3 => "version\r\n".into(),
            _ => format!("verbosity 0{noreply}\r\n"),
        }
        .into_bytes()
    });
    prop_oneof![3 => storage, 3 => retrieval, 2 => others]
}

/// Anything a client might send, right or wrong.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let junk =
        prop::collection::vec(word(), 0..8).prop_map(|words| format!("{}\r\n", words.join(" ")).into_bytes());
    let noise = prop::collection::vec(any::<u8>(), 0..20);
    prop::collection::vec(prop_oneof![6 => request(), 2 => junk, 1 => noise], 0..12)
        .prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn parse_of_compose_is_the_same_request(text in request()) {
        let Parsed::Request { request, len } = RequestParser::default().parse(&text) else {
            panic!("not a request: {}", text.escape_ascii());
        };
        prop_assert_eq!(len, text.len());
        let mut composed = Vec::new();
        request.write_to(&mut composed);
        prop_assert_eq!(composed.escape_ascii().to_string(), text.escape_ascii().to_string());
        prop_assert_eq!(RequestParser::default().parse(&composed), Parsed::Request { request, len });
    }

    #[test]
    fn any_cut_of_the_bytes_gives_the_same_requests(bytes in stream(), cuts in prop::collection::vec(1..40_usize, 1..200)) {
        let whole = parse_all(&bytes, Limits::default());
        let mut parser = RequestParser::default();
        let (mut pieces, mut start, mut end) = (Vec::new(), 0, 0);
        let mut cuts = cuts.iter().cycle();
        while end < bytes.len() {
            end = bytes.len().min(end + cuts.next().expect("a cycle has no end"));
            let (seen, taken) = parse_some(&mut parser, &bytes[start..end]);
            pieces.extend(seen);
            start += taken;
            if pieces.last().is_some_and(|last| last.starts_with("hangup")) {
                break;
            }
        }
        prop_assert_eq!(pieces, whole);
    }
}

#[test]
fn noreply_is_recognised() {
    let mut parser = RequestParser::default();
    let Parsed::Request { request, .. } = parser.parse(b"touch a 1 noreply\r\n") else {
        panic!("not a request")
    };
    assert!(request.noreply());
    let Parsed::Request { request, .. } = parser.parse(b"get noreply\r\n") else { panic!("not a request") };
    assert!(!request.noreply() && matches!(request, Request::Retrieval(_)));
}
