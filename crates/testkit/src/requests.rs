//! Random requests, right and wrong ones, over few keys, so that they meet.

use rand::Rng;
use rand::seq::IndexedRandom;

const KEYS: [&str; 6] = ["a", "b", "n", "number", "key:with:colons", "\u{e9}clair"];

const NUMBERS: [&str; 21] = [
    "0",
    "1",
    "7",
    "-1",
    "+3",
    "007",
    "\t5",
    "5\tx",
    "x",
    "1x",
    "-",
    "2147483646",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-18446744073709551615",
    "000000000000000000000000001",
    "noreply",
];

/// Lines that are wrong, odd, or end in an unusual way.
const ODD_LINES: [&str; 44] = [
    "\r\n",
    "\n",
    " \r\n",
    "\r\r\n",
    "g\r\n",
    "get\r\n",
    "gets\r\n",
    "gat\r\n",
    "gat 0\r\n",
    "gat x\r\n",
    "gat x a\r\n",
    "gats 0 a\r\n",
    "get a\n",
    "get a\r\r\n",
    "  get  a   b \r\n",
    "get a\tb\r\n",
    "get a\0 b\r\n",
    "GET a\r\n",
    "bogus\r\n",
    "bogus noreply\r\n",
    "set\r\n",
    "set a 0 0\r\n",
    "set a 0 0 noreply\r\n",
    "set a 0 0 abc\r\n",
    "set a 0 0 -1\r\n",
    "set a 0 0 -1 noreply\r\n",
    "set a 0 0 1 2 3\r\n",
    "cas a 0 0 1\r\n",
    "cas a 0 0 1 x\r\n",
    "delete\r\n",
    "delete a 1\r\n",
    "delete a 0\r\n",
    "delete a 1 noreply\r\n",
    "delete a 0 noreply\r\n",
    "delete a 0 1\r\n",
    "delete a 0 noreply x\r\n",
    "touch a\r\n",
    "incr a\r\n",
    "version 1 2 3\r\n",
    "verbosity\r\n",
    "verbosity 1\r\n",
    "verbosity x\r\n",
    "verbosity 1 noreply\r\n",
    "verbosity 1 2 3\r\n",
];

/// Which requests a stream holds.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Every request that the model knows.
    All,
    /// Those whose answers do not depend on how many requests the real memcached reads at once. It writes `decr` over
    /// a longer number only if the item is not being sent to somebody, and a retrieval with a key that is too long
    /// makes it forget the answers before.
    Pipelined,
}

/// The bytes of one random request. Mostly it is valid.
pub fn random(rng: &mut impl Rng, kind: Kind) -> Vec<u8> {
    let key = random_key(rng);
    let noreply = if rng.random_bool(0.1) { " noreply" } else { "" };
    match rng.random_range(0..100) {
        0..25 => {
            let mut keys: Vec<_> = (0..rng.random_range(1..5)).map(|_| random_key(rng)).collect();
            keys.retain(|key| kind == Kind::All || key.len() <= 250);
            let verb = pick(rng, &["get", "get", "gets", "gat 0", "gats 0", "gat 9999", "bget"]);
            format!("{verb} {}\r\n", keys.join(" ")).into_bytes()
        }
        25..55 => storage(rng, &key, noreply),
        55..62 => format!("delete {key}{noreply}\r\n").into_bytes(),
        62..78 if kind == Kind::All => {
            let verb = pick(rng, &["incr", "decr"]);
            format!("{verb} {key} {}{noreply}\r\n", number(rng)).into_bytes()
        }
        62..84 => format!("touch {key} {}{noreply}\r\n", exptime(rng)).into_bytes(),
        84..86 => b"version\r\n".to_vec(),
        86..98 => odd(rng, kind),
        _ => raw_line(rng, kind),
    }
}

fn storage(rng: &mut impl Rng, key: &str, noreply: &str) -> Vec<u8> {
    let value = random_value(rng);
    let verb = pick(rng, &["set", "set", "set", "add", "replace", "append", "prepend", "cas"]);
    let flags =
        if rng.random_bool(0.9) { rng.random_range(0..9u32).to_string() } else { number(rng).to_owned() };
    let cas = if verb == "cas" { format!(" {}", rng.random_range(0..40)) } else { String::new() };
    // Now and then the stated length is wrong, and the block is cut or runs into the next command.
    let length = match rng.random_range(0..40) {
        0 => value.len() + 1,
        1 => value.len().saturating_sub(1),
        _ => value.len(),
    };
    let mut request =
        format!("{verb} {key} {flags} {} {length}{cas}{noreply}\r\n", exptime(rng)).into_bytes();
    request.extend_from_slice(&value);
    request.extend_from_slice(b"\r\n");
    request
}

fn random_value(rng: &mut impl Rng) -> Vec<u8> {
    match rng.random_range(0..10) {
        0..4 => rng.random_range(0..120u32).to_string().into_bytes(),
        4 => number(rng).as_bytes().to_vec(),
        5 => b"END\r\nVALUE a 0 1\r\n".to_vec(),
        // Where such a value is taken for a command line, memcached must not find it too long to wait for its end.
        6 => vec![b'x'; rng.random_range(0..1500)],
        _ => (0..rng.random_range(0..30)).map(|_| rng.random()).collect(),
    }
}

fn random_key(rng: &mut impl Rng) -> String {
    match rng.random_range(0..60) {
        0 => "k".repeat(251),
        1 => "k".repeat(250),
        _ => pick(rng, &KEYS).to_owned(),
    }
}

/// Never a time that passes while a test runs.
fn exptime(rng: &mut impl Rng) -> &'static str {
    pick(
        rng,
        &["0", "0", "0", "0", "100000", "-1", "x", "4000000", "2000000000", "2147483647", "99999999999"],
    )
}

fn number(rng: &mut impl Rng) -> &'static str {
    if rng.random_bool(0.6) { pick(rng, &["1", "2", "9", "95"]) } else { pick(rng, &NUMBERS) }
}

/// A command line that is wrong, odd, or ends in an unusual way. None of them stores anything.
pub fn odd_line(rng: &mut impl Rng) -> &'static str {
    pick(rng, &ODD_LINES)
}

fn odd(rng: &mut impl Rng, kind: Kind) -> Vec<u8> {
    let line = odd_line(rng);
    if kind == Kind::Pipelined && line.starts_with("incr") {
        return b"\r\n".to_vec();
    }
    line.as_bytes().to_vec()
}

/// A command line of random words.
fn raw_line(rng: &mut impl Rng, kind: Kind) -> Vec<u8> {
    let verbs: &[&str] = match kind {
        Kind::All => &["set", "cas", "incr", "decr", "touch", "delete", "gat", "add"],
        Kind::Pipelined => &["set", "cas", "touch", "delete", "gat", "add"],
    };
    let mut line = pick(rng, verbs).to_owned();
    for _ in 0..rng.random_range(0..8) {
        line.push(' ');
        line.push_str(if rng.random_bool(0.3) { pick(rng, &KEYS) } else { pick(rng, &NUMBERS) });
    }
    line.push_str("\r\n");
    line.into_bytes()
}

fn pick(rng: &mut impl Rng, from: &[&'static str]) -> &'static str {
    from.choose(rng).expect("there is something to choose from")
}
