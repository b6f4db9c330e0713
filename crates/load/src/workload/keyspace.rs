//! Keys: from an index to its bytes and back.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::content::Amount;

/// The keys of a run, each a prefix and a decimal number padded with zeros to the key's size.
///
/// Indices from 0 are the keys of values; behind them lie as many keys of numbers, where a run counts.
#[derive(Debug, Clone)]
pub(crate) struct Keyspace {
    keys: u64,
    prefix: Vec<u8>,
    first: u64,
    sizes: PerKey,
}

impl Keyspace {
    /// `keys` keys in all, numbered from `first`.
    pub(crate) fn new(keys: u64, prefix: &str, first: u64, sizes: PerKey) -> Keyspace {
        Keyspace { keys, prefix: prefix.as_bytes().to_vec(), first, sizes }
    }

    /// Appends the bytes of key `index`.
    pub(crate) fn append(&self, index: u64, output: &mut Vec<u8>) {
        let start = output.len();
        let number = self.first + index;
        output.extend_from_slice(&self.prefix);
        output.resize(start + self.size(index), b'0');
        let mut rest = number;
        for byte in output[start + self.prefix.len()..].iter_mut().rev() {
            if rest == 0 {
                break;
            }
            *byte = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }

    /// The index whose key these bytes are.
    pub(crate) fn index_of(&self, key: &[u8]) -> Option<u64> {
        let digits = key.strip_prefix(&self.prefix[..])?;
        let mut number: u64 = 0;
        for &byte in digits {
            if !byte.is_ascii_digit() {
                return None;
            }
            number = number.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
        }
        let index = number.checked_sub(self.first)?;
        (index < self.keys && key.len() == self.size(index)).then_some(index)
    }

    fn size(&self, index: u64) -> usize {
        let needed = self.prefix.len() + digits(self.first + index);
        self.sizes.of(index).min(KEY_SIZE_MAX).max(needed)
    }
}

/// An amount that each key has once and for all: a function of the key's index and the seed.
#[derive(Debug, Clone)]
pub(crate) struct PerKey {
    amount: Amount,
    seed: u64,
}

impl PerKey {
    pub(crate) fn new(amount: Amount, seed: u64) -> PerKey {
        PerKey { amount, seed }
    }

    #[inline]
    pub(crate) fn of(&self, index: u64) -> usize {
        match &self.amount {
            Amount::Fixed(amount) => *amount as usize,
            amount => amount.at(share(xxh3_64_with_seed(&index.to_le_bytes(), self.seed))) as usize,
        }
    }
}

impl PerKey {
    /// The amount, where all keys have the same.
    pub(crate) fn fixed(&self) -> Option<usize> {
        if let Amount::Fixed(amount) = self.amount { Some(amount as usize) } else { None }
    }
}

/// A hash as a number from 0 to below 1.
fn share(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

/// Decimal digits of a number.
pub(crate) fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// memcached's own limit.
pub(crate) const KEY_SIZE_MAX: usize = 250;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::content::fit::{chi_square_bound, chi_square_of};

    fn keyspace(keys: u64, size: &str, seed: u64) -> Keyspace {
        Keyspace::new(keys, "", 0, PerKey::new(size.parse().expect("an amount"), seed))
    }

    fn key(keyspace: &Keyspace, index: u64) -> Vec<u8> {
        let mut key = Vec::new();
        keyspace.append(index, &mut key);
        key
    }

    #[test]
    fn keys_are_padded_numbers() {
        let keyspace = keyspace(10_000, "16", 1);
        assert_eq!(key(&keyspace, 1234), b"0000000000001234");
        assert_eq!(keyspace.index_of(b"0000000000010000"), None, "beyond the last key");
        assert_eq!(keyspace.index_of(b"000000000000001x"), None);
        assert_eq!(keyspace.index_of(b"1234"), None);
    }

    #[test]
    fn keys_may_have_a_prefix_a_first_number_and_no_padding() {
        let keyspace = Keyspace::new(1000, "memtier-", 1, PerKey::new(Amount::Fixed(0), 1));
        assert_eq!(key(&keyspace, 0), b"memtier-1");
        assert_eq!(key(&keyspace, 999), b"memtier-1000");
        assert_eq!(keyspace.index_of(b"memtier-1000"), Some(999));
        for stranger in [&b"memtier-0"[..], b"memtier-1001", b"memtier-01", b"memtier-", b"1", b"memtier"] {
            assert_eq!(keyspace.index_of(stranger), None);
        }
    }

    #[test]
    fn sizes_of_keys_follow_their_distribution() {
        let sizes = PerKey::new("20=5,30-33=4,40=1".parse().expect("an amount"), 3);
        let mut counts = [0_u64; 6];
        for index in 0..100_000 {
            counts[[20, 30, 31, 32, 33, 40]
                .iter()
                .position(|&size| size == sizes.of(index))
                .expect("a size")] += 1;
        }
        let expected = [50_000.0, 10_000.0, 10_000.0, 10_000.0, 10_000.0, 10_000.0];
        assert!(chi_square_of(&counts, &expected) < chi_square_bound(5), "{counts:?}");
    }

    #[test]
    fn the_seed_decides_which_key_has_which_size() {
        let sizes = |seed| {
            let keyspace = keyspace(1000, "etc-key", seed);
            (0..1000).map(|index| key(&keyspace, index).len()).collect::<Vec<_>>()
        };
        assert_eq!(sizes(1), sizes(1));
        assert_ne!(sizes(1), sizes(2));
    }

    proptest! {
        #[test]
        fn key_bytes_round_trip(
            keys in 1..=100_000_000_u64,
            pick in any::<u64>(),
            first in 0..1000_u64,
            kind in 0..4_usize,
            seed in any::<u64>(),
            prefix in "[a-z:]{0,20}",
        ) {
            let size = ["200", "0", "0-250", "etc-key"][kind];
            let keyspace = Keyspace::new(keys, &prefix, first, PerKey::new(size.parse().expect("an amount"), seed));
            let bytes = key(&keyspace, pick % keys);
            prop_assert!(bytes.len() <= 250);
            prop_assert_eq!(keyspace.index_of(&bytes), Some(pick % keys));
        }
    }
}
