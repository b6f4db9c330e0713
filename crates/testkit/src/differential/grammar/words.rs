//! Keys, numbers, values, noise.

use rand::rngs::SmallRng;
use rand::{Rng as _, seq::IndexedRandom as _};

/// The keys of one stream. Streams that are served at the same time share none.
pub(super) struct Keys {
    prefix: Vec<u8>,
    short: u8,
}

/// The longest key that is legal.
pub(super) const KEY_BYTES_MAX: usize = 250;

impl Keys {
    pub(super) fn new(seed: u64, number: u64) -> Self {
        let short = b'A' + u8::try_from(number % super::SLOTS).expect("there are fewer slots than letters");
        Self { prefix: format!("k{seed:x}.{number:x}:").into_bytes(), short }
    }

    /// What every key of the stream begins with, unless it begins with [`Self::short`].
    pub(super) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The letter of the stream's slot.
    pub(super) fn short(&self) -> u8 {
        self.short
    }

    /// The short key is used by many streams; each begins without it.
    pub(super) fn preamble(&self) -> Vec<u8> {
        [b"delete ", &[self.short][..], b" noreply\r\n"].concat()
    }

    /// A key, nearly always a legal one, and often one that the stream has used before.
    pub(super) fn any(&self, rng: &mut SmallRng) -> Vec<u8> {
        let mut key = self.prefix.clone();
        match rng.random_range(0..100) {
            0..80 => key.push(b'a' + rng.random_range(0..3)),
            80..86 => return vec![self.short],
            86..89 => key.resize(KEY_BYTES_MAX - 1, b'x'),
            89..92 => key.resize(KEY_BYTES_MAX, b'x'),
            92..95 => key.resize(KEY_BYTES_MAX + 1, b'x'),
            95 => key.resize(rng.random_range(KEY_BYTES_MAX..KEY_BYTES_MAX + 60), b'x'),
            96 => key.push(rng.random_range(1..32)),
            97 => key.extend_from_slice(b"\t\x7f\x80\xff"),
            98 => key.extend_from_slice(
                [&b"noreply"[..], b"END", b"VALUE", b"HTTP/", b"\r"].choose(rng).expect("not empty"),
            ),
            _ => key.extend_from_slice(b"\0b"),
        }
        key
    }

    /// One of few legal keys.
    pub(super) fn plain(&self, rng: &mut SmallRng) -> Vec<u8> {
        [&self.prefix[..], &[b'a' + rng.random_range(0..3)]].concat()
    }
}

/// An exptime that does not end within the test: relative, absolute, never, or long ago.
pub(super) fn exptime(rng: &mut SmallRng) -> Vec<u8> {
    let times: [&[u8]; 14] = [
        b"0",
        b"0",
        b"0",
        b"0",
        b"1000",
        b"86400",
        b"2592000",
        b"2592001",
        b"-1",
        b"-2147483648",
        b"4102444800",
        b"2147483647",
        b"4294967296",
        b"-99",
    ];
    or_odd_number(times.choose(rng).expect("not empty"), rng)
}

/// Client flags.
pub(super) fn flags(rng: &mut SmallRng) -> Vec<u8> {
    let flags: [&[u8]; 8] = [b"0", b"0", b"0", b"1", b"65535", b"65536", b"4294967295", b"4294967296"];
    or_odd_number(flags.choose(rng).expect("not empty"), rng)
}

/// What is added or subtracted.
pub(super) fn delta(rng: &mut SmallRng) -> Vec<u8> {
    let deltas: [&[u8]; 7] =
        [b"1", b"5", b"10", b"1000", b"0", b"18446744073709551615", b"9223372036854775808"];
    or_odd_number(deltas.choose(rng).expect("not empty"), rng)
}

/// A cas token that is no item's: the servers have counted past the small ones.
pub(super) fn cas(rng: &mut SmallRng) -> Vec<u8> {
    let tokens: [&[u8]; 5] = [b"1", b"2", b"0", b"18446744073709551615", b"9223372036854775807"];
    or_odd_number(tokens.choose(rng).expect("not empty"), rng)
}

/// The length of a value as it is written, nearly always the right one.
pub(super) fn length(len: usize, rng: &mut SmallRng) -> Vec<u8> {
    let len = len.to_string().into_bytes();
    match rng.random_range(0..200) {
        0..190 => len,
        190 => [b"0", &len[..]].concat(),
        191 => [b"+", &len[..]].concat(),
        192 => [&len[..], b"\t"].concat(),
        193 => [b"\t", &len[..]].concat(),
        194 => [b"-", &len[..]].concat(),
        195 => [&len[..], b"x"].concat(),
        196 => odd_number(rng),
        _ => len,
    }
}

fn or_odd_number(number: &[u8], rng: &mut SmallRng) -> Vec<u8> {
    match rng.random_range(0..40) {
        0 => odd_number(rng),
        1 => [b"+", number].concat(),
        2 => [b"00", number].concat(),
        3 => [number, b"\t"].concat(),
        _ => number.to_vec(),
    }
}

/// Numbers at the borders of their types, and words that are nearly numbers.
pub(super) fn odd_number(rng: &mut SmallRng) -> Vec<u8> {
    let numbers: [&[u8]; 48] = [
        b"-1",
        b"+1",
        b"-0",
        b"+0",
        b"00",
        b"007",
        b"-5",
        b"--1",
        b"+-1",
        b"-",
        b"+",
        b"1-",
        b"abc",
        b"1a",
        b"a1",
        b"0x10",
        b"1.5",
        b"1e3",
        b"1,",
        b"1\t",
        b"\t1",
        b"\t",
        b"\x0b1",
        b"1\x0b",
        b"1\r",
        b"\r1",
        b"1\x00",
        b"1\x01",
        b"1\xff",
        b"\xb2",
        b"2147483645",
        b"2147483646",
        b"2147483647",
        b"2147483648",
        b"-2147483648",
        b"-2147483649",
        b"4294967295",
        b"4294967296",
        b"9223372036854775807",
        b"9223372036854775808",
        b"-9223372036854775808",
        b"-9223372036854775809",
        b"18446744073709551614",
        b"18446744073709551615",
        b"18446744073709551616",
        b"-18446744073709551615",
        b"99999999999999999999999999",
        b"00000000000000000000000000000000000001",
    ];
    numbers.choose(rng).expect("not empty").to_vec()
}

/// A value: a number, words of the protocol, line endings, anything. Rarely a long one.
pub(super) fn value(rng: &mut SmallRng) -> Vec<u8> {
    let samples: [&[u8]; 17] = [
        b"",
        b"0",
        b"5",
        b"99",
        b"18446744073709551615",
        b"18446744073709551616",
        b" 7",
        b"7 ",
        b"-3",
        b"abc",
        b"\r\n",
        b"\n",
        b"END\r\n",
        b"\r\nEND\r\n",
        b"VALUE a 0 1\r\nx\r\nEND",
        b"get a\r\nSTORED\r\n",
        b"\0\0",
    ];
    let len = match rng.random_range(0..1_000) {
        0..700 => return samples.choose(rng).expect("not empty").to_vec(),
        700..960 => rng.random_range(0..64),
        960..998 => rng.random_range(64..5_000),
        998 => rng.random_range(5_000..60_000),
        _ => rng.random_range(60_000..300_000),
    };
    // Long values repeat: their bytes matter less than their length. Where one is taken for commands, its lines are short.
    let mut unit: Vec<u8> = (0..len.min(64)).map(|_| rng.random()).collect();
    if len > 64 {
        unit[0] = b'\n';
    }
    unit.iter().copied().cycle().take(len).collect()
}

/// Bytes without a plan, short, and often made of what the protocol is made of.
pub(super) fn noise(rng: &mut SmallRng) -> Vec<u8> {
    const ALPHABET: &[u8] = b"\r\n\n  \t\0gets0123456789-+:bmnvkqcdeaACM";
    let len = rng.random_range(1..40);
    if rng.random() {
        (0..len).map(|_| *ALPHABET.choose(rng).expect("not empty")).collect()
    } else {
        (0..len).map(|_| rng.random()).collect()
    }
}
