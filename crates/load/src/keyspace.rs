//! Keys: from an index to its bytes, and which index is asked for next.

use rand::Rng;

/// The keys of a run: indices `0..keys`, each written as a decimal number padded with zeros to the key size.
#[derive(Debug, Clone)]
pub(crate) struct Keyspace {
    keys: u64,
    key_size: usize,
}

impl Keyspace {
    pub(crate) fn new(keys: u64, key_size: usize) -> Keyspace {
        Keyspace { keys, key_size }
    }

    /// Appends the bytes of key `index`.
    pub(crate) fn append(&self, index: u64, output: &mut Vec<u8>) {
        let start = output.len();
        output.resize(start + self.key_size, b'0');
        let mut rest = index;
        for byte in output[start..].iter_mut().rev() {
            if rest == 0 {
                break;
            }
            *byte = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
    }

    /// The index whose key these bytes are.
    pub(crate) fn index_of(&self, key: &[u8]) -> Option<u64> {
        if key.len() != self.key_size {
            return None;
        }
        let mut index: u64 = 0;
        for &byte in key {
            if !byte.is_ascii_digit() {
                return None;
            }
            index = index.checked_mul(10)?.checked_add(u64::from(byte - b'0'))?;
        }
        (index < self.keys).then_some(index)
    }
}

/// How often each key is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Popularity {
    /// Every key as often as every other.
    Uniform,
}

impl Popularity {
    /// Draws one key.
    pub(crate) fn draw(self, keys: u64, rng: &mut impl Rng) -> u64 {
        match self {
            Popularity::Uniform => rng.random_range(0..keys),
        }
    }

    /// Appends `count` distinct keys. There must be at least as many keys.
    pub(crate) fn draw_distinct(self, keys: u64, count: usize, rng: &mut impl Rng, drawn: &mut Vec<u64>) {
        let start = drawn.len();
        while drawn.len() < start + count {
            let mut key = self.draw(keys, rng);
            let mut draws = 1;
            while drawn[start..].contains(&key) {
                draws += 1;
                // Where nearly all keys are asked for at once, drawing again would go on for long: take the next free one.
                key = if draws <= DRAWS_MAX { self.draw(keys, rng) } else { (key + 1) % keys };
            }
            drawn.push(key);
        }
    }
}

const DRAWS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;

    #[test]
    fn keys_are_padded_numbers() {
        let keyspace = Keyspace::new(10_000, 16);
        let mut key = Vec::new();
        keyspace.append(1234, &mut key);
        assert_eq!(key, b"0000000000001234");
        assert_eq!(keyspace.index_of(b"0000000000010000"), None, "beyond the last key");
        assert_eq!(keyspace.index_of(b"000000000000001x"), None);
        assert_eq!(keyspace.index_of(b"1234"), None);
    }

    proptest! {
        #[test]
        fn key_bytes_round_trip(keys in 1..=100_000_000_u64, pick in any::<u64>(), padding in 0..200_usize) {
            let keyspace = Keyspace::new(keys, (keys - 1).to_string().len() + padding);
            let mut key = Vec::new();
            keyspace.append(pick % keys, &mut key);
            prop_assert_eq!(keyspace.index_of(&key), Some(pick % keys));
        }

        #[test]
        fn distinct_keys_are_distinct(keys in 1..200_u64, share in 0.0..=1.0_f64, seed in any::<u64>()) {
            let count = 1 + ((keys - 1) as f64 * share) as usize;
            let mut drawn = vec![7; 3];
            let mut rng = SmallRng::seed_from_u64(seed);
            Popularity::Uniform.draw_distinct(keys, count, &mut rng, &mut drawn);
            let mut drawn = drawn.split_off(3);
            prop_assert!(drawn.iter().all(|&key| key < keys));
            drawn.sort_unstable();
            drawn.dedup();
            prop_assert_eq!(drawn.len(), count);
        }
    }

    #[test]
    fn uniform_draws_reach_all_keys_alike() {
        let mut rng = SmallRng::seed_from_u64(1);
        let mut counts = [0_u32; 100];
        for _ in 0..100_000 {
            counts[Popularity::Uniform.draw(100, &mut rng) as usize] += 1;
        }
        // Chi-square with 99 degrees of freedom: above 148.2 with a probability of 0.001. The seed is fixed.
        let chi_square: f64 = counts.iter().map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi_square < 148.2, "{chi_square}");
    }
}
