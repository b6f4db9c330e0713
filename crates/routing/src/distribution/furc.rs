//! mcrouter's Ch3, called furc in its sources: a consistent hash that walks a binary tree.

use crate::hash::{murmur64a, rehash64a, spooky32};
use crate::key::with_suffix;

const SEED: u64 = 4_193_360_111;
const TRIES: u32 = 32;
/// Bits of the stream between two that are read.
const STRIDE: u32 = 23;

/// Ch3.
#[derive(Clone, Debug)]
pub(crate) struct Furc {
    buckets: u32,
}

impl Furc {
    /// Over `buckets` servers, at most 2^23.
    pub(crate) fn new(buckets: usize) -> Self {
        Self { buckets: buckets as u32 }
    }

    /// The bucket of `key`.
    pub(crate) fn bucket(&self, key: &[u8]) -> usize {
        furc(key, self.buckets) as usize
    }
}

/// WeightedCh3: Ch3, and where a server refuses the key, Ch3 of the key with a number after it.
#[derive(Clone, Debug)]
pub(crate) struct WeightedFurc {
    /// Of 2^32 - 1, how many hashes the server accepts.
    accepted: Vec<u64>,
}

impl WeightedFurc {
    /// Over servers of `weights` from 0 to 1.
    pub(crate) fn new(weights: &[f64]) -> Self {
        Self { accepted: weights.iter().map(|weight| (weight * f64::from(u32::MAX)) as u64).collect() }
    }

    /// The bucket of `key`.
    pub(crate) fn bucket(&self, key: &[u8]) -> usize {
        const SEED: u32 = 0xface_2014;
        let attempt = |key: &[u8]| {
            let bucket = furc(key, self.accepted.len() as u32) as usize;
            (bucket, u64::from(spooky32(key, SEED)) < self.accepted[bucket])
        };
        let mut found = attempt(key);
        for number in 0..TRIES - 1 {
            if found.1 {
                break;
            }
            // The number's digits, the last one first.
            let digits = [b'0' + (number % 10) as u8, b'0' + (number / 10) as u8];
            found = with_suffix(key, if number < 10 { &digits[..1] } else { &digits }, attempt);
        }
        found.0
    }
}

fn furc(key: &[u8], buckets: u32) -> u32 {
    if buckets <= 1 {
        return 0;
    }
    let mut bits = Bits::new(key);
    let mut depth = u32::BITS - (buckets - 1).leading_zeros();
    let mut place = depth;
    for _ in 0..TRIES {
        while !bits.at(place) {
            depth -= 1;
            if depth == 0 {
                return 0;
            }
            place = depth;
        }
        place += STRIDE;
        let mut bucket = 1;
        for _ in 1..depth {
            bucket = bucket << 1 | u32::from(bits.at(place));
            place += STRIDE;
        }
        if bucket < buckets {
            return bucket;
        }
    }
    0
}

/// A stream of bits from a key: its hash, the hash of that, and so on. Reading goes forward, or back to the first word.
struct Bits {
    first: u64,
    index: u32,
    word: u64,
}

impl Bits {
    fn new(key: &[u8]) -> Self {
        let first = murmur64a(key, SEED);
        Self { first, index: 0, word: first }
    }

    fn at(&mut self, place: u32) -> bool {
        let index = place / u64::BITS;
        if index < self.index {
            (self.index, self.word) = (0, self.first);
        }
        while self.index < index {
            self.word = rehash64a(self.word, SEED);
            self.index += 1;
        }
        self.word >> (place % u64::BITS) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_fall_where_mcrouter_puts_them() {
        assert_eq!(furc(b"sample", 100), 97);
        assert_eq!(furc(b"", 100), 72);
        assert_eq!(furc(b"sample", 1 << 23), 5_167_780);
        let mut counts = [0; 10];
        (0..10_000).for_each(|number: u32| counts[furc(number.to_string().as_bytes(), 10) as usize] += 1);
        assert_eq!(counts, [995, 955, 1046, 968, 1032, 972, 1016, 1038, 1010, 968]);
    }

    fn checksum(keys: u32, bucket: impl Fn(&[u8]) -> u32) -> u32 {
        (0..keys).fold(0, |sum: u32, number| {
            sum.wrapping_mul(31).wrapping_add(bucket(format!("k{number}").as_bytes()))
        })
    }

    #[test]
    fn many_keys_fall_where_mcrouter_puts_them() {
        assert_eq!(checksum(100_000, |key| furc(key, 7)), 4_252_552_508);
        assert_eq!(checksum(100_000, |key| furc(key, 1000)), 2_251_851_331);
        let half = WeightedFurc::new(&[0.5; 10]);
        assert_eq!(checksum(10_000, |key| half.bucket(key) as u32), 547_444_706);
    }

    #[test]
    fn the_largest_pools_and_a_server_of_no_weight_end() {
        for buckets in [2, 3, (1 << 22) + 1, (1 << 23) - 1, 1 << 23] {
            assert!((0..2000u32).all(|number| furc(&number.to_le_bytes(), buckets) < buckets));
        }
        let none = WeightedFurc::new(&[0.0; 3]);
        assert!((0..100u32).all(|number| none.bucket(&number.to_le_bytes()) < 3));
    }
}
