//! MD5 of several keys at once, each in its lane of the processor's vectors.
//!
//! ```text
//!            lane 0   1     2         15
//!   word 0   "user"  "user" "sess" … "cart"    the first four bytes of each key
//!   word 1   ":101"  ":102" "ion:" … ":7"      64 steps on sixteen words at a time, key by key in its own column;
//!     …                                        then the next 64 bytes of the keys that are longer
//!   word 15
//! ```
//!
//! Each step of MD5 waits for the step before it, so one key leaves most of a processor idle. Sixteen keys take hardly
//! longer than two. What vectors a processor has (SSE2 to AVX-512, NEON) is found out when the program starts
//! (`fearless_simd`); all give the same hashes. Steps and constants are those of RFC 1321, section 3.4.

use super::low;
use fearless_simd::{Level, Simd, SimdInt, dispatch, u32x8, u32x16};

/// The most keys at once.
pub(crate) const LANES: usize = 16;

/// Word by word of a block, the words of all lanes.
type Words = [[u32; LANES]; 16];

/// What MD5 begins with.
const INITIAL: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// How far each of four steps in a row rotates, by round.
const ROTATIONS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// What each step adds: the whole part of 2^32 × |sin(step)|, counted from 1.
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee, 0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be, 0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa, 0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed, 0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c, 0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05, 0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039, 0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1, 0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

/// [`low`] of each of `keys`, of which there are at most [`LANES`], in their order.
pub(crate) fn low_of_each(keys: &[&[u8]]) -> [u32; LANES] {
    low_at(Level::new(), keys)
}

fn low_at(level: Level, keys: &[&[u8]]) -> [u32; LANES] {
    let mut found = [0; LANES];
    match keys.len() {
        // One after the other they are done sooner.
        0..3 => found.iter_mut().zip(keys).for_each(|(found, key)| *found = low(key)),
        3..=8 => dispatch!(level, simd => hash::<_, u32x8<_>>(simd, keys, &mut found)),
        _ => dispatch!(level, simd => hash::<_, u32x16<_>>(simd, keys, &mut found)),
    }
    found
}

/// Puts the first word of each key's MD5 into `found`. `V` has a lane for each key.
#[inline(always)]
fn hash<S: Simd, V: SimdInt<S, Element = u32>>(simd: S, keys: &[&[u8]], found: &mut [u32; LANES]) {
    let mut state = INITIAL.map(|word| V::splat(simd, word));
    let longest = keys.iter().map(|key| key.len()).max().unwrap_or(0);
    for number in 0..blocks(longest) {
        let mut words: Words = [[0; LANES]; 16];
        for (lane, key) in (0..LANES).zip(keys) {
            put(&mut words, lane, key, number);
        }
        state = compress(simd, state, &words);
        // A lane whose key has ended goes on with nothing of use.
        for ((found, word), key) in found.iter_mut().zip(state[0].as_slice()).zip(keys) {
            if blocks(key.len()) == number + 1 {
                *found = *word;
            }
        }
    }
}

/// How many blocks a key of this length has: behind it stand one byte and eight for the length.
#[inline(always)]
const fn blocks(length: usize) -> usize {
    (length + 8) / 64 + 1
}

/// Puts a block of a key into its lane, with what stands behind a key: a bit, zeros, and how many bits the key has. All is zero
/// before, and stays so if the key has no such block.
#[inline(always)]
fn put(words: &mut Words, lane: usize, key: &[u8], number: usize) {
    if let Some(rest) = key.get(number * 64..) {
        let (whole, tail) = rest[..rest.len().min(64)].as_chunks();
        for (row, bytes) in words.iter_mut().zip(whole) {
            row[lane] = u32::from_le_bytes(*bytes);
        }
        if let Some(row) = words.get_mut(whole.len()) {
            row[lane] = tail.iter().rev().fold(0x80, |word, byte| word << 8 | u32::from(*byte));
        }
    }
    if number + 1 == blocks(key.len()) {
        let bits = key.len() as u64 * 8;
        (words[14][lane], words[15][lane]) = (bits as u32, (bits >> 32) as u32);
    }
}

/// The state after one more block.
#[inline(always)]
fn compress<S: Simd, V: SimdInt<S, Element = u32>>(simd: S, before: [V; 4], words: &Words) -> [V; 4] {
    let mut state = before;
    macro_rules! steps {
        ($($step:literal)*) => { $( state = step::<$step, S, V>(simd, state, words); )* };
    }
    // Written out, so that step, word and rotation are constants.
    steps!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    steps!(16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
    steps!(32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47);
    steps!(48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);
    let [a, b, c, d] = state;
    [before[0] + a, before[1] + b, before[2] + c, before[3] + d]
}

/// One step.
#[inline(always)]
fn step<const STEP: usize, S: Simd, V: SimdInt<S, Element = u32>>(
    simd: S,
    [a, b, c, d]: [V; 4],
    words: &Words,
) -> [V; 4] {
    let (mixed, word) = match STEP / 16 {
        0 => (d ^ (b & (c ^ d)), STEP),
        1 => (c ^ (d & (b ^ c)), 5 * STEP + 1),
        2 => (b ^ c ^ d, 3 * STEP + 5),
        _ => (c ^ (b | !d), 7 * STEP),
    };
    let word = V::from_slice(simd, &words[word % 16][..V::LEN]);
    let sum = a + word + SINES[STEP] + mixed;
    let rotation = ROTATIONS[STEP / 16][STEP % 4];
    [d, b + (sum << rotation | sum >> (32 - rotation)), b, c]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Of each level that this processor has, the vectors of which are used where it has no better ones.
    fn levels() -> Vec<Level> {
        let mut levels = vec![Level::baseline(), Level::new()];
        #[cfg(target_arch = "x86_64")]
        {
            let level = Level::new();
            levels.extend(level.as_sse2().map(Simd::level));
            levels.extend(level.as_sse4_2().map(Simd::level));
            levels.extend(level.as_avx2().map(Simd::level));
            levels.extend(level.as_avx512().map(Simd::level));
        }
        levels
    }

    fn check(keys: &[Vec<u8>]) {
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let expected: Vec<u32> = keys.iter().map(|key| low(key)).collect();
        for level in levels() {
            assert_eq!(low_at(level, &keys)[..keys.len()], expected, "{level:?}, {keys:?}");
        }
    }

    #[test]
    fn every_number_of_keys_is_hashed_as_one_key_is() {
        for count in 0..=LANES {
            check(&(0..count).map(|number| format!("key:{number}").into_bytes()).collect::<Vec<_>>());
        }
    }

    /// Among them those at which a block more begins: 55 and 56 bytes, 119 and 120.
    #[test]
    fn keys_of_every_length_are_hashed_as_one_key_is() {
        for length in 0..=260 {
            check(&[vec![b'k'; length], b"short".to_vec(), vec![0xff; length]]);
        }
    }

    proptest! {
        #[test]
        fn keys_of_different_lengths_are_hashed_as_each_alone_is(
            keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..=LANES),
        ) {
            check(&keys);
        }
    }
}
