//! What random streams keep away from: values near the largest, keys that are too long to be asked for, long lines. They would be slow, or
//! memcached answers them by accident when they stand among other things.

use super::{ENGINES, start, start_with};
use weir_testkit::differential::{Pair, Phase, Stream, Transcript, Verdict, World, judge};

const KEY_BYTES_MAX: usize = 250;
/// memcached closes a connection on which more than this came without a line feed, unless it begins a `get`.
const LINE_BYTES_MAX: usize = 2048;
/// The largest item of memcached, its header included, and the largest value of Weir.
const ITEM_BYTES_MAX: usize = 1 << 20;

/// Sends streams, each alone, and then in pieces; both subjects must answer alike.
fn check(streams: impl IntoIterator<Item = Vec<Vec<u8>>>) {
    // Every engine has the same parsers; what differs is who meets the pieces.
    let [event, pool, split] = ENGINES;
    let mut worlds =
        [(start_with(event), &[1, 2, 7][..]), (start_with(pool), &[2]), (start_with(split), &[2])];
    for phases in streams {
        worlds.iter_mut().for_each(|(world, pieces)| check_stream(world, &phases, pieces));
    }
}

fn check_stream(world: &mut World, phases: &[Vec<u8>], in_pieces: &[usize]) {
    for &pieces in in_pieces {
        let phase = |bytes: &Vec<u8>| {
            let cuts = (1..pieces).map(|piece| bytes.len() * piece / pieces).collect();
            Phase { bytes: bytes.clone(), cuts }
        };
        let stream = Stream { phases: phases.iter().map(phase).collect() };
        let answers = ask(world, &stream);
        assert_eq!(
            judge(&answers),
            Verdict::Alike,
            "{}, in {pieces} pieces:\n{}\nmemcached {}\nweir      {}",
            world.flags().join(" "),
            phases.iter().map(|bytes| shown(bytes)).collect::<Vec<_>>().join("\n"),
            shown(&answers.plain.bytes),
            shown(&answers.weir.bytes),
        );
    }
}

fn ask(world: &mut World, stream: &Stream) -> Pair<Transcript> {
    world.scrub(&Stream::whole(b"a b key")).unwrap_or_else(|error| panic!("{error}"));
    let answers = world.exchange(std::slice::from_ref(stream)).unwrap_or_else(|error| panic!("{error}"));
    answers.into_iter().next().expect("one stream has one answer")
}

/// Enough to recognise it by.
fn shown(bytes: &[u8]) -> String {
    let ends = (&bytes[..bytes.len().min(200)], &bytes[bytes.len().saturating_sub(200)..]);
    format!("{} bytes: {} … {}", bytes.len(), ends.0.escape_ascii(), ends.1.escape_ascii())
}

/// Where a refused value is read as commands, its lines are short.
fn value(len: usize) -> Vec<u8> {
    b"0123456789abcdef0123456789abcde\n".iter().copied().cycle().take(len).collect()
}

fn stored(head: &str, len: usize) -> Vec<u8> {
    [head.replace("LEN", &len.to_string()).as_bytes(), b"\r\n", &value(len), b"\r\n"].concat()
}

#[test]
fn values_near_the_largest_are_answered_alike() {
    // Just below the largest item, at the border that depends on the header, at Weir's border, and beyond.
    let lengths =
        [-1000, -60, -50, -1, 0, 1, 2, 50_000].map(|distance| ITEM_BYTES_MAX.strict_add_signed(distance));
    let after = b"get a\r\nmg a v\r\nset b 0 0 1\r\ny\r\nget b\r\n";
    let heads = ["set a 0 0 LEN", "set a 0 0 LEN noreply", "ms a LEN"];
    let set = lengths.iter().flat_map(|&len| {
        heads.map(|head| vec![[b"set a 0 0 1\r\nx\r\n", &stored(head, len)[..], after].concat()])
    });
    check(set);
}

#[test]
fn large_values_of_other_commands_are_answered_alike() {
    let heads = [
        "add a 0 0 LEN",
        "replace a 0 0 LEN",
        "append a 0 0 LEN",
        "prepend a 0 0 LEN noreply",
        "cas a 0 0 LEN 1",
        "ms a LEN MA",
        "ms a LEN ME",
        "ms a LEN q",
        "ms a LEN C1",
    ];
    let after = b"get a\r\nset b 0 0 1\r\ny\r\nget b\r\n";
    check([ITEM_BYTES_MAX - 100, ITEM_BYTES_MAX, ITEM_BYTES_MAX + 1].iter().flat_map(|&len| {
        heads.map(|head| vec![[b"set a 0 0 1\r\nx\r\n", &stored(head, len)[..], after].concat()])
    }));
}

/// Nothing is sent before that could be forgotten; what is sent behind is answered.
#[test]
fn keys_that_are_too_long_are_answered_alike() {
    let long = "k".repeat(KEY_BYTES_MAX + 1);
    let longer = "k".repeat(1_000);
    let longest = "k".repeat(KEY_BYTES_MAX);
    let lines = [
        format!("get {long}"),
        format!("gets {long}"),
        format!("get {longer}"),
        format!("gat 0 {long}"),
        format!("gats 0 {longer}"),
        format!("get {longest} {longest}"),
        format!("get {long} a"),
        format!("gat 0 {long} a"),
        format!("get {} {long}", "b ".repeat(30)),
        format!("mg {long} v"),
        format!("mg {longer} v q"),
        format!("get {longest}"),
        format!("mg {longest} k v"),
    ];
    let first = b"set a 0 0 1\r\nx\r\n";
    check(lines.map(|line| {
        vec![first.to_vec(), format!("{line}\r\n").into_bytes(), b"get a\r\ngets b\r\nmn\r\n".to_vec()]
    }));
}

/// A line with keys of `len` bytes, its line feed not counted.
fn line_of(verb: &str, len: usize) -> Vec<u8> {
    let mut line = verb.as_bytes().to_vec();
    while line.len() + 8 < len {
        line.extend_from_slice(b" key");
    }
    line.push(b' ');
    line.resize(len - 1, b'k');
    [&line[..], b"\r\n"].concat()
}

#[test]
fn lines_up_to_the_longest_are_answered_alike() {
    let short = ["gat 0", "gats 100"].into_iter().flat_map(|verb| {
        [LINE_BYTES_MAX - 200, LINE_BYTES_MAX - 2, LINE_BYTES_MAX - 1].map(|len| (verb, len))
    });
    let long = ["get", "gets"].into_iter().flat_map(|verb| {
        [LINE_BYTES_MAX - 1, LINE_BYTES_MAX, LINE_BYTES_MAX + 1, 5_000, 20_000, 100_000]
            .map(|len| (verb, len))
    });
    let first = b"set key 0 0 1\r\nx\r\n";
    check(
        short
            .chain(long)
            .map(|(verb, len)| vec![first.to_vec(), [&line_of(verb, len)[..], b"get key\r\n"].concat()]),
    );
}

/// Streams of few requests seldom have two.
#[test]
fn equal_reads_by_mg_are_answered_alike() {
    let first = b"ms a 3 F7\r\nabc\r\nms b 4 T0\r\nEN\r\n\r\n".to_vec();
    let reads = "mg KEY v O1\r\nmg KEY q v O22\r\nmg KEY v O3 q\r\nmg KEY k q t\r\nmg KEY k t\r\nmg KEY h v\r\nmg KEY h v\r\n\
                 get KEY\r\nmg KEY v O4\r\nmg KEY v q\r\nmg KEY v\r\nmn\r\n";
    let stale =
        |key: &str| format!("md {key} I\r\n") + &reads.replace("KEY", key) + &reads.replace("KEY", key);
    check([
        reads.replace("KEY", "a") + &reads.replace("KEY", "none") + &reads.replace("KEY", "b"),
        stale("a") + &stale("b"),
        "mg YQ== b v O1\r\nmg *Y-Q== v O1 b\r\nmg *Y-Q== b v O2\r\nmg YQ== b v q O3\r\nmg Yg== b q O4\r\nmg Yw== b q O5\r\nmn\r\n".to_owned(),
        "mg a v O1\r\nset a 0 0 1\r\ny\r\nmg a v O2\r\nmg a v O3\r\ndelete a noreply\r\nmg a v q O4\r\nmg a v O5\r\n".to_owned(),
    ].map(|second| vec![first.clone(), second.into_bytes()]));
}

/// An intended difference: memcached obeys a long `gat` that comes at once and closes the connection on one that does not.
#[test]
fn longer_gats_are_refused_however_they_come() {
    let mut world = start();
    for len in [LINE_BYTES_MAX + 1, 3_000, 8_000] {
        let line = line_of("gat 0", len);
        for cuts in [vec![], vec![len - 10]] {
            let may_close = !cuts.is_empty();
            let stream = Stream { phases: vec![Phase { bytes: line.clone(), cuts }] };
            let Pair { plain, weir } = ask(&mut world, &stream);
            // The kernel may put the pieces together again.
            let obeyed = plain.complete && plain.bytes == b"END\r\nERROR\r\n";
            let closed = may_close && !plain.complete && plain.bytes.is_empty();
            assert!(obeyed || closed, "{plain:?}");
            assert!(weir.complete && weir.bytes == b"CLIENT_ERROR line too long\r\nERROR\r\n", "{weir:?}");
        }
    }
}
