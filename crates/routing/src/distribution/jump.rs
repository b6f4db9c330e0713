use crate::hash::xxh3_64_with_seed;

/// Jump consistent hashing (Lamping and Veach, 2014) of the key's 64-bit XXH3.
#[derive(Clone, Debug)]
pub(crate) struct Jump {
    buckets: u32,
    seed: u64,
}

impl Jump {
    /// Over `buckets` servers, at least one.
    pub(crate) fn new(buckets: usize, seed: u64) -> Self {
        Self { buckets: buckets as u32, seed }
    }

    /// The bucket of `key`.
    pub(crate) fn bucket(&self, key: &[u8]) -> usize {
        jump(xxh3_64_with_seed(key, self.seed), self.buckets)
    }
}

/// Each jump is to the bucket where the key would move next if buckets were added one by one.
fn jump(mut hash: u64, buckets: u32) -> usize {
    let (mut bucket, mut next) = (0u64, 0u64);
    while next < u64::from(buckets) {
        bucket = next;
        hash = hash.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let stretch = (1u64 << 31) as f64 / ((hash >> 33) + 1) as f64;
        next = ((bucket + 1) as f64 * stretch) as u64;
    }
    bucket as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_more_moves_keys_to_it_alone() {
        for hash in (0..2000u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            for buckets in 1..20 {
                let (before, after) = (jump(hash, buckets), jump(hash, buckets + 1));
                assert!(after == before || after == buckets as usize);
            }
        }
    }
}
