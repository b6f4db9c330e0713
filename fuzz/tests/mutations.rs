//! The checks of the fuzz targets on any toolchain: the committed seeds, and a fixed number of mutations of them. Nothing here knows
//! what an input reached, so this finds less than `scripts/fuzz`; it is what every run of the tests can afford.
//!
//! `WEIR_FUZZ_MUTATIONS` sets how many mutations each target gets, `WEIR_FUZZ_SEED` which.

use rand::{Rng as _, SeedableRng as _, rngs::SmallRng, seq::IndexedRandom as _};
use std::{env, fs, panic, path::Path};

/// As for the fuzzer (scripts/fuzz).
const INPUT_BYTES_MAX: usize = 4096;

#[test]
fn request_parser() {
    check("request_parser", weir_fuzz::requests::check, 100_000);
}

#[test]
fn reply_parser() {
    check("reply_parser", weir_fuzz::replies::check, 100_000);
}

#[test]
fn session() {
    check("session", weir_fuzz::session::check, 50_000);
}

#[test]
fn lent() {
    check("lent", weir_fuzz::session::check_lent, 50_000);
}

/// Each input does a handshake, which costs as much as many inputs of the others: so a fiftieth of what `WEIR_FUZZ_MUTATIONS` says.
#[test]
fn tls() {
    check_some("tls", weir_proxy::fuzzing::check, number("WEIR_FUZZ_MUTATIONS", 100_000) / 50);
}

fn check(target: &str, run: fn(&[u8]), usual_mutations: u64) {
    check_some(target, run, number("WEIR_FUZZ_MUTATIONS", usual_mutations));
}

fn check_some(target: &str, run: fn(&[u8]), mutations: u64) {
    let seeds = seeds(target);
    let words = dictionary();
    let seed = number("WEIR_FUZZ_SEED", 1);
    let mut rng = SmallRng::seed_from_u64(seed);
    let run = |input: &[u8], what: &str| {
        if let Err(cause) = panic::catch_unwind(|| run(input)) {
            eprintln!("{target}: {what} fails; the input is b\"{}\"", input.escape_ascii());
            panic::resume_unwind(cause);
        }
    };
    for input in &seeds {
        run(input, "a seed");
    }
    for number in 0..mutations {
        let mut input = seeds.choose(&mut rng).expect("there are seeds").clone();
        for _ in 0..rng.random_range(1..=5) {
            mutate(&mut input, &seeds, &words, &mut rng);
        }
        run(&input, &format!("mutation {number} of WEIR_FUZZ_SEED={seed}"));
    }
    println!("{target}: {} seeds and {mutations} mutations of WEIR_FUZZ_SEED={seed}", seeds.len());
}

/// One of the changes that fuzzers make.
fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[Vec<u8>], rng: &mut SmallRng) {
    let at = rng.random_range(0..=input.len());
    let end = rng.random_range(at..=input.len().min(at + 40));
    match rng.random_range(0..9) {
        0 | 1 => drop(input.splice(at..at, words.choose(rng).expect("there are words").iter().copied())),
        2 => drop(input.splice(at..end, words.choose(rng).expect("there are words").iter().copied())),
        3 => drop(input.drain(at..end)),
        4 => {
            let part = input[at..end].to_vec();
            let to = rng.random_range(0..=input.len());
            input.splice(to..to, part);
        }
        5 => input.insert(at, rng.random()),
        6 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << rng.random_range(0..8);
            }
        }
        7 => {
            if let Some(digit) = input.iter_mut().skip(at).find(|byte| byte.is_ascii_digit()) {
                *digit = b'0' + rng.random_range(0..10);
            }
        }
        _ => {
            let other = seeds.choose(rng).expect("there are seeds");
            let from = rng.random_range(0..=other.len());
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
    }
    input.truncate(INPUT_BYTES_MAX);
}

/// In the order of their names, so that a number means the same everywhere.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus-seed").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a folder can be listed").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} holds no seeds", folder.display());
    paths.iter().map(|path| fs::read(path).expect("a seed can be read")).collect()
}

/// The words of `dict/memcached.dict`: what stands between the outer quotes of a line, with its escapes.
fn dictionary() -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("dict/memcached.dict");
    let text = fs::read_to_string(path).expect("the dictionary can be read");
    let words: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| Some(&line[line.find('"')? + 1..line.rfind('"')?]))
        .map(unescaped)
        .collect();
    assert!(words.len() > 10, "the dictionary has {} words", words.len());
    words
}

fn unescaped(text: &str) -> Vec<u8> {
    let mut bytes = text.bytes();
    let mut word = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            word.push(byte);
            continue;
        }
        match bytes.next().expect("an escape is not the last byte of a word") {
            b'x' => {
                let digits = [bytes.next(), bytes.next()].map(|digit| digit.expect("two hex digits"));
                let digits = std::str::from_utf8(&digits).expect("two hex digits");
                word.push(u8::from_str_radix(digits, 16).expect("two hex digits"));
            }
            other => word.push(other),
        }
    }
    word
}

fn number(name: &str, default: u64) -> u64 {
    match env::var(name) {
        Err(_) => default,
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{name}={text} is no number: {error}")),
    }
}
