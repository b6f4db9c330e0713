//! Austin Appleby's MurmurHash2 (32 and 64 bits) and MurmurHash3 (32 bits).

use super::partial;

const M64: u64 = 0xc6a4_a793_5bd1_e995;

/// MurmurHash2, seeded with a multiple of the length, as twemproxy and libmemcached do.
pub(super) fn murmur2(key: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let length = key.len() as u32;
    let words = key.chunks_exact(4);
    let tail = words.remainder();
    let mut hash = 0xdead_beef_u32.wrapping_mul(length) ^ length;
    for word in words {
        let word = (partial(word) as u32).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ (word ^ word >> 24).wrapping_mul(M);
    }
    if !tail.is_empty() {
        hash = (hash ^ partial(tail) as u32).wrapping_mul(M);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M);
    hash ^ hash >> 15
}

/// MurmurHash3 for x86 with 32 bits, seeded with a multiple of the length, as libmemcached does.
pub(super) fn murmur3(key: &[u8]) -> u32 {
    let scramble =
        |word: u64| (word as u32).wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let length = key.len() as u32;
    let words = key.chunks_exact(4);
    let tail = words.remainder();
    let mut hash = 0xdead_beef_u32.wrapping_mul(length);
    for word in words {
        hash = (hash ^ scramble(partial(word))).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    hash ^= scramble(partial(tail)) ^ length;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// MurmurHash64A.
pub(crate) fn murmur64a(key: &[u8], seed: u64) -> u64 {
    let words = key.chunks_exact(8);
    let tail = words.remainder();
    let mut hash = seed ^ (key.len() as u64).wrapping_mul(M64);
    for word in words {
        hash = absorb64(hash, partial(word));
    }
    if !tail.is_empty() {
        hash = (hash ^ partial(tail)).wrapping_mul(M64);
    }
    finish64(hash)
}

/// MurmurHash64A of a number's eight bytes.
pub(crate) fn rehash64a(word: u64, seed: u64) -> u64 {
    finish64(absorb64(seed ^ M64.wrapping_mul(8), word))
}

/// MurmurHash3's finishing step for 64 bits: a permutation that moves every bit.
pub(crate) fn mix64(mut word: u64) -> u64 {
    word = (word ^ word >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    word = (word ^ word >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}

fn absorb64(hash: u64, word: u64) -> u64 {
    let word = word.wrapping_mul(M64);
    (hash ^ (word ^ word >> 47).wrapping_mul(M64)).wrapping_mul(M64)
}

fn finish64(hash: u64) -> u64 {
    let hash = (hash ^ hash >> 47).wrapping_mul(M64);
    hash ^ hash >> 47
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_rehashes_as_its_bytes_do() {
        for word in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX] {
            assert_eq!(rehash64a(word, 4_193_360_111), murmur64a(&word.to_le_bytes(), 4_193_360_111));
        }
    }
}
