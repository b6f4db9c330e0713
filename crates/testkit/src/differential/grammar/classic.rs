//! The classic text protocol, without mistakes but for odd keys and numbers.

use super::{
    super::stream::Stream,
    Command,
    words::{self, Keys},
};
use rand::{Rng as _, rngs::SmallRng, seq::IndexedRandom as _};

pub(super) fn command(keys: &Keys, rng: &mut SmallRng) -> Command {
    match rng.random_range(0..100) {
        0..32 => storage(keys, rng),
        32..56 => retrieval(keys, rng),
        56..64 => touching_retrieval(keys, rng),
        64..76 => arithmetic(keys, rng),
        76..86 => deletion(keys, rng),
        86..94 => {
            let words = vec![b"touch".to_vec(), keys.any(rng), words::exptime(rng)];
            maybe_noreply(words, rng)
        }
        _ => administration(rng),
    }
}

/// A `set` that works.
pub(super) fn plain_set(keys: &Keys, rng: &mut SmallRng) -> Command {
    let value = words::value(rng);
    let words = vec![
        b"set".to_vec(),
        keys.plain(rng),
        b"0".to_vec(),
        b"0".to_vec(),
        value.len().to_string().into_bytes(),
    ];
    Command::new(words).with_value(&value)
}

/// A `gets` of plain keys.
pub(super) fn gets(keys: &Keys, rng: &mut SmallRng) -> Command {
    let mut words = vec![b"gets".to_vec()];
    words.extend((0..rng.random_range(1..=3)).map(|_| keys.plain(rng)));
    Command::new(words)
}

/// A `cas` with a token that the subject gave, not always for this key and not always the last.
pub(super) fn cas_with_token(keys: &Keys, rng: &mut SmallRng) -> Command {
    let value = words::value(rng);
    let token = [Stream::CAS, &[b'0' + rng.random_range(0..4)]].concat();
    let words = vec![
        b"cas".to_vec(),
        keys.plain(rng),
        words::flags(rng),
        words::exptime(rng),
        value.len().to_string().into_bytes(),
        token,
    ];
    maybe_noreply(words, rng).with_value(&value)
}

fn storage(keys: &Keys, rng: &mut SmallRng) -> Command {
    let verbs: [&[u8]; 9] =
        [b"set", b"set", b"set", b"set", b"add", b"replace", b"append", b"prepend", b"cas"];
    let verb = verbs.choose(rng).expect("not empty").to_vec();
    let value = words::value(rng);
    let is_cas = verb == b"cas";
    let mut words =
        vec![verb, keys.any(rng), words::flags(rng), words::exptime(rng), words::length(value.len(), rng)];
    if is_cas {
        words.push(words::cas(rng));
    }
    maybe_noreply(words, rng).with_value(&value)
}

fn retrieval(keys: &Keys, rng: &mut SmallRng) -> Command {
    let verb = [&b"get"[..], b"get", b"gets", b"bget"].choose(rng).expect("not empty").to_vec();
    let mut words = vec![verb];
    words.extend(some_keys(keys, rng));
    Command::new(words)
}

fn touching_retrieval(keys: &Keys, rng: &mut SmallRng) -> Command {
    let verb = [&b"gat"[..], b"gats"].choose(rng).expect("not empty").to_vec();
    let mut words = vec![verb, words::exptime(rng)];
    words.extend(some_keys(keys, rng));
    Command::new(words)
}

/// memcached cuts lines into 24 words at a time, so the numbers around that matter most.
fn some_keys(keys: &Keys, rng: &mut SmallRng) -> Vec<Vec<u8>> {
    let count = match rng.random_range(0..60) {
        0..36 => 1,
        36..54 => rng.random_range(2..=6),
        54..57 => rng.random_range(20..=27),
        57..59 => rng.random_range(44..=100),
        _ => rng.random_range(200..=900),
    };
    (0..count).map(|_| if count > 6 { keys.plain(rng) } else { keys.any(rng) }).collect()
}

fn arithmetic(keys: &Keys, rng: &mut SmallRng) -> Command {
    let verb = [&b"incr"[..], b"decr"].choose(rng).expect("not empty").to_vec();
    let words = vec![verb, keys.any(rng), words::delta(rng)];
    maybe_noreply(words, rng)
}

fn deletion(keys: &Keys, rng: &mut SmallRng) -> Command {
    let mut words = vec![b"delete".to_vec(), keys.any(rng)];
    match rng.random_range(0..10) {
        0 => words.push(b"0".to_vec()),
        1 => words.push(words::odd_number(rng)),
        _ => {}
    }
    maybe_noreply(words, rng)
}

fn administration(rng: &mut SmallRng) -> Command {
    let lines: [&[&[u8]]; 16] = [
        &[b"version"],
        &[b"version"],
        &[b"version", b"now"],
        &[b"verbosity", b"0"],
        &[b"verbosity"],
        &[b"verbosity", b"abc"],
        &[b"verbosity", b"0", b"noreply"],
        &[b"verbosity", b"0", b"0", b"0"],
        &[b"flush_all"],
        &[b"flush_all", b"10"],
        &[b"flush_all", b"abc"],
        &[b"flush_all", b"0", b"noreply"],
        &[b"flush_all", b"noreply"],
        &[b"shutdown"],
        &[b"shutdown", b"graceful"],
        &[b"shutdown", b"now", b"please"],
    ];
    Command::new(lines.choose(rng).expect("not empty").iter().map(|word| word.to_vec()).collect())
}

fn maybe_noreply(mut words: Vec<Vec<u8>>, rng: &mut SmallRng) -> Command {
    if rng.random_ratio(1, 8) {
        words.push(b"noreply".to_vec());
    }
    Command::new(words)
}
