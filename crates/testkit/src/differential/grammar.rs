//! What clients send, right and wrong, as a function of a seed.
//!
//! A command is made right first: words, an ending, a data block. Then it may be made wrong: words dropped, doubled, exchanged,
//! blanks and control characters put in, a number replaced by none, a block cut short. So most of a wrong command is
//! right, and the mistakes meet all depths of a parser. Streams of noise alone would die at the first word.

mod classic;
mod meta;
mod mistakes;
mod sparing;
mod words;

use super::stream::{Phase, Stream};
use rand::{Rng as _, SeedableRng as _, rngs::SmallRng};
pub(super) use sparing::is_spared;
use sparing::{LINE_BYTES_MAX, spare};
use words::Keys;

/// Streams of one batch have different slots: the short keys of a stream come from its slot.
pub(super) const SLOTS: u64 = 32;

/// Stream number `number` of the seed.
pub fn generate(seed: u64, number: u64) -> Stream {
    // The golden ratio spreads neighbouring numbers; the generator's seeding does the rest.
    let mut rng = SmallRng::seed_from_u64(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let keys = Keys::new(seed, number);
    let mut stream = if rng.random_ratio(1, 10) {
        in_two_phases(&keys, &mut rng)
    } else {
        let mut bytes = if rng.random_ratio(1, 20) { Vec::new() } else { keys.preamble() };
        for _ in 0..rng.random_range(1..=12) {
            command(&keys, &mut rng).write_to(&mut bytes);
        }
        if rng.random_ratio(1, 40) {
            bytes.extend_from_slice(&words::noise(&mut rng));
        }
        let cuts = cuts(bytes.len(), &mut rng);
        Stream { phases: vec![Phase { bytes, cuts }] }
    };
    spare(&mut stream, &keys);
    stream
}

/// Stores and asks for tokens without a mistake; then uses the tokens, with mistakes.
fn in_two_phases(keys: &Keys, rng: &mut SmallRng) -> Stream {
    let mut first = keys.preamble();
    for _ in 0..rng.random_range(1..=4) {
        classic::plain_set(keys, rng).write_to(&mut first);
        classic::gets(keys, rng).write_to(&mut first);
    }
    let mut second = Vec::new();
    for _ in 0..rng.random_range(1..=8) {
        let command = match rng.random_range(0..6) {
            0..2 => meta::with_token(keys, rng),
            2..4 => classic::cas_with_token(keys, rng),
            _ => command(keys, rng),
        };
        command.write_to(&mut second);
    }
    let cuts = cuts(second.len(), rng);
    Stream { phases: vec![Phase { bytes: first, cuts: Vec::new() }, Phase { bytes: second, cuts }] }
}

fn command(keys: &Keys, rng: &mut SmallRng) -> Command {
    let mut command = match rng.random_range(0..100) {
        0..3 => mistakes::oddity(keys, rng),
        3..50 => meta::command(keys, rng),
        _ => classic::command(keys, rng),
    };
    if rng.random_ratio(1, 4) {
        mistakes::spoil(&mut command, keys, rng);
    }
    command
}

/// One command before it is written.
#[derive(Clone, Debug)]
struct Command {
    words: Vec<Vec<u8>>,
    /// Between the words.
    blank: &'static [u8],
    ending: &'static [u8],
    /// The data block with its ending, or empty.
    block: Vec<u8>,
}

impl Command {
    fn new(words: Vec<Vec<u8>>) -> Self {
        Self { words, blank: b" ", ending: b"\r\n", block: Vec::new() }
    }

    fn with_value(mut self, value: &[u8]) -> Self {
        self.block = [value, b"\r\n"].concat();
        self
    }

    fn write_to(&self, out: &mut Vec<u8>) {
        let mut line = self.words.join(self.blank);
        let retrieval = [&b"get "[..], b"gets "].iter().any(|verb| line.starts_with(verb));
        line.truncate(if retrieval { RETRIEVAL_BYTES_MAX } else { LINE_BYTES_MAX });
        out.extend_from_slice(&line);
        out.extend_from_slice(self.ending);
        out.extend_from_slice(&self.block);
    }
}

const RETRIEVAL_BYTES_MAX: usize = 20_000;

fn cuts(len: usize, rng: &mut SmallRng) -> Vec<usize> {
    let count = match rng.random_range(0..10) {
        0..3 => 0,
        3..8 => rng.random_range(1..=3),
        _ => rng.random_range(4..=12),
    };
    let mut cuts: Vec<_> =
        (0..count).map(|_| rng.random_range(0..=len)).filter(|&cut| 0 < cut && cut < len).collect();
    cuts.sort_unstable();
    cuts.dedup();
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_a_function_of_seed_and_number() {
        for number in 0..200 {
            assert_eq!(generate(7, number), generate(7, number));
        }
        assert_ne!(generate(7, 1), generate(7, 2));
    }

    #[test]
    fn streams_hold_right_and_wrong_commands() {
        let all: Vec<u8> =
            (0..2_000).flat_map(|number| generate(1, number).phases).flat_map(|phase| phase.bytes).collect();
        let text = String::from_utf8_lossy(&all);
        for sample in [
            "get ",
            "gats ",
            "cas ",
            " noreply",
            "HTTP/1",
            "flush_all",
            "mg ",
            "ma ",
            "me ",
            " q",
            "18446744073709551616",
            "\0",
            "\t",
            "<cas>0",
        ] {
            assert!(text.contains(sample), "no {sample:?} in 2,000 streams");
        }
    }
}
