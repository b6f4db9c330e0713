//! A hash of keys that no placement uses.

/// FNV-1a, with the last step of MurmurHash3 behind it, because FNV's upper bits are uneven for short keys. Another hash than any
/// placement's: the keys of one server must not have one owner.
pub(crate) fn hash(name: &[u8]) -> u64 {
    let mut hash = name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}
