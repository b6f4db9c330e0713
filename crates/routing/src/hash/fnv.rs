//! Fowler, Noll and Vo's hashes, with characters folded in signed.

use super::signed;

const OFFSET_32: u32 = 0x811c_9dc5;
const PRIME_32: u32 = 0x0100_0193;
const OFFSET_64: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME_64: u64 = 0x0100_0000_01b3;

pub(super) fn fnv1_32(key: &[u8]) -> u32 {
    key.iter().fold(OFFSET_32, |hash, byte| hash.wrapping_mul(PRIME_32) ^ signed(*byte))
}

pub(super) fn fnv1a_32(key: &[u8]) -> u32 {
    key.iter().fold(OFFSET_32, |hash, byte| (hash ^ signed(*byte)).wrapping_mul(PRIME_32))
}

/// The lower half is all that is used, and bits of a product never move down.
pub(super) fn fnv1_64(key: &[u8]) -> u32 {
    key.iter().fold(OFFSET_64 as u32, |hash, byte| hash.wrapping_mul(PRIME_64 as u32) ^ signed(*byte))
}

pub(super) fn fnv1a_64(key: &[u8]) -> u32 {
    key.iter().fold(OFFSET_64 as u32, |hash, byte| (hash ^ signed(*byte)).wrapping_mul(PRIME_64 as u32))
}
