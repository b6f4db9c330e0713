//! Values that say whose they are, so that every reply can be verified.
//!
//! ```text
//! | checksum (8) | key index (8) | version (8) | body ...            |
//!                \_______________ covered by the checksum __________/
//! ```
//!
//! Numbers are little-endian; the checksum is xxh3. The body is a stretch of a fixed pseudo-random block that begins at a place derived
//! from key and version. So two values of one key differ throughout, and a mixture of them is found. A value too small for the header is a
//! digest of the key instead: it tells a wrong key, but neither versions nor tears between two values of one key, which are all alike.

use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Composes and verifies values.
#[derive(Debug)]
pub(crate) struct Values {
    block: Vec<u8>,
}

impl Values {
    /// For values of at most `size_max` bytes.
    pub(crate) fn new(size_max: usize) -> Values {
        let mut block = vec![0; size_max.max(PIECE_BYTES) - HEADER_BYTES + BODY_STARTS];
        SmallRng::seed_from_u64(BLOCK_SEED).fill_bytes(&mut block);
        Values { block }
    }

    /// Appends the value of `key` at `version`, `size` bytes long.
    pub(crate) fn append(&self, key: u64, version: u64, size: usize, output: &mut Vec<u8>) {
        if size < HEADER_BYTES {
            output.extend(digest(key).take(size));
            return;
        }
        let start = output.len();
        output.extend_from_slice(&[0; CHECKSUM_BYTES]);
        output.extend_from_slice(&key.to_le_bytes());
        output.extend_from_slice(&version.to_le_bytes());
        let body_bytes = size - HEADER_BYTES;
        if body_bytes > 0 {
            let from = body_start(key, version);
            output.extend_from_slice(&self.block[from..from + body_bytes]);
        }
        let checksum = xxh3_64(&output[start + CHECKSUM_BYTES..]);
        output[start..start + CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Verifies that `value` is one of `key`, whatever its size, and returns its version; `None` where the value is too small
/// to hold one.
pub(crate) fn verify(key: u64, value: &[u8]) -> Result<Option<u64>, ValueFault> {
    if value.len() < HEADER_BYTES {
        let right = digest(key).zip(value).all(|(expected, &found)| expected == found);
        return if right { Ok(None) } else { Err(ValueFault::Digest) };
    }
    if xxh3_64(&value[CHECKSUM_BYTES..]) != number_at(value, 0) {
        return Err(ValueFault::Checksum);
    }
    let found = number_at(value, CHECKSUM_BYTES);
    if found != key {
        return Err(ValueFault::Key { found });
    }
    Ok(Some(number_at(value, 2 * CHECKSUM_BYTES)))
}

/// Verifies that `value` is one of `key` with `size` bytes, or with any where `size` is unknown, to which pieces may have
/// been added if `pieced`. Hands the version of the value and of each piece to `versions`.
pub(crate) fn verify_pieces<E: From<ValueFault>>(
    key: u64,
    value: &[u8],
    size: Option<usize>,
    pieced: bool,
    mut versions: impl FnMut(u64) -> Result<(), E>,
) -> Result<(), E> {
    let mut base = value;
    // A value's own beginning or end never passes for a piece: the checksum tells.
    while let Some((piece, rest)) =
        base.split_at_checked(PIECE_BYTES).filter(|_| pieced && base.len() > PIECE_BYTES)
    {
        let Ok(Some(version)) = verify(key, piece) else { break };
        versions(version)?;
        base = rest;
    }
    while let Some(at) = base.len().checked_sub(PIECE_BYTES).filter(|&at| pieced && at > 0) {
        let Ok(Some(version)) = verify(key, &base[at..]) else { break };
        versions(version)?;
        base = &base[..at];
    }
    // Where the value itself has the size of a piece, or none, the last part looks like one.
    let expected = size.unwrap_or(base.len());
    if base.len() != expected && !(pieced && expected == 0 && base.len() == PIECE_BYTES) {
        let torn = pieced && value.len() > expected && (value.len() - expected).is_multiple_of(PIECE_BYTES);
        let size = ValueFault::Size { found: value.len(), expected };
        return Err(if torn { ValueFault::Checksum } else { size }.into());
    }
    verify(key, base)?.map_or(Ok(()), versions)
}

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ValueFault {
    #[error("the value has {found} bytes instead of {expected}")]
    Size { found: usize, expected: usize },
    #[error("the value's checksum is wrong: it is torn or corrupted")]
    Checksum,
    #[error("the value belongs to key index {found}")]
    Key { found: u64 },
    #[error("the value is not the digest of its key")]
    Digest,
}

fn body_start(key: u64, version: u64) -> usize {
    let mixed = (key ^ version.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize % BODY_STARTS
}

/// A stream of bytes that depends on the key alone.
fn digest(key: u64) -> impl Iterator<Item = u8> {
    (0..).flat_map(move |part| xxh3_64_with_seed(&key.to_le_bytes(), part).to_le_bytes())
}

fn number_at(value: &[u8], at: usize) -> u64 {
    let bytes = value[at..at + 8].try_into().expect("the caller has checked that the header is whole");
    u64::from_le_bytes(bytes)
}

const CHECKSUM_BYTES: usize = 8;
/// What one `append` or `prepend` adds.
pub(crate) const PIECE_BYTES: usize = 32;
/// The smallest value that holds a checksum, its key and its version.
pub(crate) const HEADER_BYTES: usize = 24;
/// Number of places in the block where a body may begin.
const BODY_STARTS: usize = 4096;
/// The same in all runs, so that a value can be composed again from key and version.
const BLOCK_SEED: u64 = 0x7765_6972;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn compose(size: usize, key: u64, version: u64) -> Vec<u8> {
        let mut value = Vec::new();
        Values::new(size).append(key, version, size, &mut value);
        value
    }

    /// The versions in a value of `size` bytes with pieces.
    fn versions(key: u64, value: &[u8], size: Option<usize>) -> Result<Vec<u64>, ValueFault> {
        let mut versions = Vec::new();
        verify_pieces(key, value, size, true, |version| {
            versions.push(version);
            Ok::<_, ValueFault>(())
        })?;
        Ok(versions)
    }

    proptest! {
        #[test]
        fn round_trip(size in 0..2000_usize, key in any::<u64>(), version in any::<u64>()) {
            let value = compose(size, key, version);
            prop_assert_eq!(value.len(), size);
            let version = (size >= HEADER_BYTES).then_some(version);
            prop_assert_eq!(verify(key, &value), Ok(version));
            prop_assert_eq!(versions(key, &value, Some(size)), Ok(Vec::from_iter(version)));
            prop_assert_eq!(versions(key, &value, None), Ok(Vec::from_iter(version)));
        }

        #[test]
        fn any_changed_byte_is_found(size in HEADER_BYTES..300, key in any::<u64>(), at in any::<usize>(), change in 1..=255_u8) {
            let mut value = compose(size, key, 1);
            value[at % size] ^= change;
            prop_assert!(verify(key, &value).is_err());
        }

        #[test]
        fn a_mixture_of_two_versions_is_found(size in HEADER_BYTES + 8..300, key in any::<u64>(), version in 0..1000_u64, cut in any::<usize>()) {
            let (old, new) = (compose(size, key, version), compose(size, key, version + 1));
            let cut = 17 + cut % (size - 17 - 4);
            let torn = [&new[..cut], &old[cut..]].concat();
            prop_assume!(torn != new && torn != old);
            prop_assert_eq!(verify(key, &torn), Err(ValueFault::Checksum));
        }

        #[test]
        fn another_keys_value_is_found(size in 8..300_usize, key in any::<u64>(), other in any::<u64>()) {
            prop_assume!(key != other);
            prop_assert!(verify(key, &compose(size, other, 1)).is_err());
        }

        #[test]
        fn pieces_before_and_behind_are_verified(
            size in 0..200_usize,
            before in 0..5_u64,
            behind in 0..5_u64,
            key in any::<u64>(),
            at in any::<usize>(),
        ) {
            let piece = |version| compose(PIECE_BYTES, key, version);
            let mut value: Vec<u8> = (1..=before).flat_map(piece).collect();
            value.extend(compose(size, key, 100));
            value.extend((11..11 + behind).flat_map(piece));
            let mut expected: Vec<u64> = (1..=before).chain(11..11 + behind).collect();
            expected.extend((size >= HEADER_BYTES).then_some(100));
            expected.sort_unstable();
            for size in [Some(size), None] {
                let mut found = versions(key, &value, size).expect("every part is right");
                found.sort_unstable();
                prop_assert_eq!(&found, &expected);
            }
            if !value.is_empty() {
                let at = at % value.len();
                value[at] ^= 1;
                prop_assert!(versions(key, &value, Some(size)).is_err());
                prop_assert!(versions(key, &value, None).is_err());
                value[at] ^= 1;
                value.remove(at);
                prop_assert!(versions(key, &value, Some(size)).is_err());
            }
        }
    }

    #[test]
    fn each_fault_has_its_name() {
        let check = |value: &[u8], size| versions(1, value, Some(size));
        assert_eq!(check(&[0; 63], 64), Err(ValueFault::Size { found: 63, expected: 64 }));
        assert_eq!(check(&compose(64, 2, 1), 64), Err(ValueFault::Key { found: 2 }));
        assert_eq!(check(&compose(8, 2, 1), 8), Err(ValueFault::Digest));
        let foreign = [compose(64, 1, 1), compose(PIECE_BYTES, 2, 1)].concat();
        assert_eq!(check(&foreign, 64), Err(ValueFault::Checksum));
        let unpieced = verify_pieces(1, &[0; 96], Some(64), false, |_| Ok::<_, ValueFault>(()));
        assert_eq!(unpieced, Err(ValueFault::Size { found: 96, expected: 64 }));
    }

    #[test]
    fn small_values_do_not_depend_on_the_version() {
        assert_eq!(compose(23, 5, 1), compose(23, 5, 2));
        assert_ne!(compose(24, 5, 1), compose(24, 5, 2));
    }
}
