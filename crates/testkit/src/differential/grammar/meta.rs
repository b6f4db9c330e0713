//! The meta commands: `mg`, `ms`, `md`, `ma`, `mn`, `me`.

use super::{
    super::stream::Stream,
    Command,
    words::{self, Keys},
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use rand::{Rng as _, rngs::SmallRng, seq::IndexedRandom as _};

/// Flags of each command that have a meaning, with `=` behind those that take a token. The others are refused, or taken and
/// left unused; they are made too, now and then.
const GET_FLAGS: &[&[u8]] = &[
    b"c", b"f", b"h", b"k", b"l", b"q", b"s", b"t", b"u", b"v", b"v", b"v", b"N=", b"R=", b"T=", b"O=",
    b"E=", b"P=", b"L=",
];
const SET_FLAGS: &[&[u8]] =
    &[b"c", b"I", b"k", b"q", b"C=", b"F=", b"O=", b"T=", b"M=", b"E=", b"P=", b"L=", b"S="];
const DELETE_FLAGS: &[&[u8]] = &[b"I", b"k", b"q", b"C=", b"O=", b"T=", b"E=", b"x", b"P=", b"L="];
const ARITHMETIC_FLAGS: &[&[u8]] = &[
    b"q", b"t", b"c", b"v", b"v", b"k", b"C=", b"N=", b"J=", b"D=", b"T=", b"M=", b"O=", b"E=", b"P=", b"L=",
];

pub(super) fn command(keys: &Keys, rng: &mut SmallRng) -> Command {
    match rng.random_range(0..100) {
        0..30 => without_value(b"mg", GET_FLAGS, keys, rng),
        30..60 => set(keys, rng),
        60..74 => without_value(b"md", DELETE_FLAGS, keys, rng),
        74..90 => without_value(b"ma", ARITHMETIC_FLAGS, keys, rng),
        90..95 => without_value(b"me", &[b"q", b"k", b"v"], keys, rng),
        _ if rng.random_ratio(1, 4) => Command::new(vec![b"mn".to_vec(), words::noise(rng)]),
        _ => Command::new(vec![b"mn".to_vec()]),
    }
}

/// A command with a token that the subject gave.
pub(super) fn with_token(keys: &Keys, rng: &mut SmallRng) -> Command {
    let token = [b"C", Stream::CAS, &[b'0' + rng.random_range(0..4)]].concat();
    let mut command = match rng.random_range(0..3) {
        0 => without_value(b"md", DELETE_FLAGS, keys, rng),
        1 => without_value(b"ma", ARITHMETIC_FLAGS, keys, rng),
        _ => set(keys, rng),
    };
    command.words[1] = keys.plain(rng);
    command.words.retain(|word| word != b"b");
    command.words.push(token);
    command
}

fn set(keys: &Keys, rng: &mut SmallRng) -> Command {
    let value = words::value(rng);
    let mut words = key_and_flags(b"ms", SET_FLAGS, keys, rng);
    words.insert(2, words::length(value.len(), rng));
    Command::new(words).with_value(&value)
}

fn without_value(verb: &[u8], flags: &[&[u8]], keys: &Keys, rng: &mut SmallRng) -> Command {
    Command::new(key_and_flags(verb, flags, keys, rng))
}

fn key_and_flags(verb: &[u8], flags: &[&[u8]], keys: &Keys, rng: &mut SmallRng) -> Vec<Vec<u8>> {
    let mut words = vec![verb.to_vec(), keys.any(rng)];
    let count = if rng.random_ratio(1, 60) { rng.random_range(18..=30) } else { rng.random_range(0..=5) };
    words.extend((0..count).map(|_| flag(flags, rng)));
    if rng.random_ratio(1, 8) {
        make_binary(&mut words, keys, rng);
    }
    words
}

/// The key in base64, as the flag `b` asks for, or not quite.
fn make_binary(words: &mut Vec<Vec<u8>>, keys: &Keys, rng: &mut SmallRng) {
    let mut key = keys.any(rng);
    if rng.random() {
        // memcached shows the facts of an item whose key has a line feed, and Weir refuses to ask for them.
        key.extend_from_slice(if words[0] == b"me" { b"\0 \r\xff" } else { b"\0 \r\n\xff" });
    }
    let mut encoded = BASE64.encode(key).into_bytes();
    if rng.random_ratio(1, 6) {
        match rng.random_range(0..3) {
            0 => drop(encoded.pop()),
            1 => encoded.push(b'='),
            _ => encoded.insert(0, b'*'),
        }
    }
    words[1] = encoded;
    let at = rng.random_range(2..=words.len());
    words.insert(at, b"b".to_vec());
}

fn flag(flags: &[&[u8]], rng: &mut SmallRng) -> Vec<u8> {
    if rng.random_ratio(1, 40) {
        // Anything printable, with or without a token.
        let mut flag = vec![rng.random_range(33..127)];
        if rng.random() {
            flag.extend_from_slice(&words::delta(rng));
        }
        return flag;
    }
    let flag = flags.choose(rng).expect("not empty");
    let (name, takes_token) = (flag[0], flag.len() > 1);
    // Tokens where none belong, and none where one belongs.
    let takes_token = takes_token ^ rng.random_ratio(1, 25);
    let mut flag = vec![name];
    if takes_token {
        flag.extend_from_slice(&token(name, rng));
    }
    flag
}

fn token(name: u8, rng: &mut SmallRng) -> Vec<u8> {
    if rng.random_ratio(1, 20) {
        return words::odd_number(rng);
    }
    match name {
        b'N' | b'T' => words::exptime(rng),
        // Far from every time to live that is left: whether it is less may not depend on a tick.
        b'R' => [&b"30"[..], b"5000", b"100000", b"0", b"-1"].choose(rng).expect("not empty").to_vec(),
        b'C' | b'E' => words::cas(rng),
        b'F' => words::flags(rng),
        b'J' | b'D' => words::delta(rng),
        b'M' => {
            let modes: [&[u8]; 18] = [
                b"E", b"A", b"P", b"R", b"S", b"e", b"a", b"p", b"r", b"s", b"I", b"+", b"D", b"-", b"i",
                b"d", b"X", b"SET",
            ];
            modes.choose(rng).expect("not empty").to_vec()
        }
        b'O' | b'P' | b'L' => opaque(rng),
        _ => words::delta(rng),
    }
}

/// At most 32 bytes are an opaque.
fn opaque(rng: &mut SmallRng) -> Vec<u8> {
    let len = match rng.random_range(0..20) {
        0..17 => rng.random_range(0..8),
        17 => 31,
        18 => 32,
        _ => rng.random_range(33..40),
    };
    (0..len).map(|_| rng.random_range(33..127)).collect()
}
