//! The hash functions behind placements. Each is a promise to keys that are already stored: it cannot be bettered,
//! and its oddities (signed characters, halved sums) are part of it.
//!
//! One file per family; [`KeyHash`] names those that can be chosen.

mod crc;
mod fnv;
mod hsieh;
mod java;
mod jenkins;
mod md5;
mod murmur;
mod spooky;

use std::fmt;
use std::str::FromStr;

pub(crate) use self::crc::crc32a;
pub(crate) use self::md5::{
    LANES as MD5_LANES, digest as md5_digest, low_of_each as md5_of_each, points as md5_points,
};
pub(crate) use self::murmur::{mix64, murmur64a, rehash64a};
pub(crate) use self::spooky::spooky32;
pub(crate) use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// A short name for a key, for whoever must not or cannot show the key itself: the first 16 digits of its MD5, as `md5sum` prints it. It is no
/// secret: who guesses the key can check the guess.
pub fn fingerprint(key: &[u8]) -> String {
    md5_digest(key)[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A hash function that turns a key into 32 bits.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum KeyHash {
    /// Bob Jenkins's one-at-a-time: the default of libmemcached.
    OneAtATime,
    /// The first four bytes of MD5, little-endian.
    Md5,
    /// CRC-16 (CCITT), with the sum never cut to 16 bits.
    Crc16,
    /// CRC-32 as libmemcached has it: fifteen bits of the sum.
    Crc32,
    /// CRC-32 as everyone else has it.
    Crc32a,
    /// FNV-1 with 32 bits.
    Fnv1_32,
    /// FNV-1a with 32 bits.
    Fnv1a32,
    /// The lower half of FNV-1 with 64 bits.
    Fnv1_64,
    /// What twemproxy and libmemcached call FNV-1a with 64 bits: its constants cut to 32 bits. twemproxy's default.
    Fnv1a64,
    /// Paul Hsieh's SuperFastHash.
    Hsieh,
    /// MurmurHash2 with a seed made of the length.
    Murmur,
    /// MurmurHash3 (x86, 32 bits) with a seed made of the length.
    Murmur3,
    /// Bob Jenkins's lookup3.
    Jenkins,
    /// Java's `String.hashCode` with each byte taken as one character, 0 to 255. Its 32 bits are a signed number.
    Java,
    /// The lower half of XXH3 with 64 bits.
    Xxh3,
}

/// A hash's name that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown hash {name:?}: use one of {}", KeyHash::names(&KeyHash::ALL))]
pub struct UnknownHash {
    name: String,
}

impl KeyHash {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::OneAtATime,
        Self::Md5,
        Self::Crc16,
        Self::Crc32,
        Self::Crc32a,
        Self::Fnv1_32,
        Self::Fnv1a32,
        Self::Fnv1_64,
        Self::Fnv1a64,
        Self::Hsieh,
        Self::Murmur,
        Self::Murmur3,
        Self::Jenkins,
        Self::Java,
        Self::Xxh3,
    ];

    /// The name in configuration: twemproxy's and libmemcached's, where they have one.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneAtATime => "one_at_a_time",
            Self::Md5 => "md5",
            Self::Crc16 => "crc16",
            Self::Crc32 => "crc32",
            Self::Crc32a => "crc32a",
            Self::Fnv1_32 => "fnv1_32",
            Self::Fnv1a32 => "fnv1a_32",
            Self::Fnv1_64 => "fnv1_64",
            Self::Fnv1a64 => "fnv1a_64",
            Self::Hsieh => "hsieh",
            Self::Murmur => "murmur",
            Self::Murmur3 => "murmur3",
            Self::Jenkins => "jenkins",
            Self::Java => "java",
            Self::Xxh3 => "xxh3",
        }
    }

    /// The hash of `key`.
    #[inline]
    pub fn digest(self, key: &[u8]) -> u32 {
        match self {
            Self::OneAtATime => jenkins::one_at_a_time(key),
            Self::Md5 => md5::low(key),
            Self::Crc16 => crc::crc16(key),
            Self::Crc32 => crc::crc32(key),
            Self::Crc32a => crc::crc32a(key),
            Self::Fnv1_32 => fnv::fnv1_32(key),
            Self::Fnv1a32 => fnv::fnv1a_32(key),
            Self::Fnv1_64 => fnv::fnv1_64(key),
            Self::Fnv1a64 => fnv::fnv1a_64(key),
            Self::Hsieh => hsieh::hsieh(key),
            Self::Murmur => murmur::murmur2(key),
            Self::Murmur3 => murmur::murmur3(key),
            Self::Jenkins => jenkins::lookup3(key),
            Self::Java => java::string_hash_code(key).cast_unsigned(),
            Self::Xxh3 => xxh3_64(key) as u32,
        }
    }

    /// The names of `hashes`, as a message lists them.
    pub(crate) fn names(hashes: &[Self]) -> String {
        hashes.iter().map(|hash| hash.name()).collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl FromStr for KeyHash {
    type Err = UnknownHash;

    fn from_str(name: &str) -> Result<Self, UnknownHash> {
        Self::ALL
            .into_iter()
            .find(|hash| hash.name() == name)
            .ok_or_else(|| UnknownHash { name: name.to_owned() })
    }
}

/// A byte as C's signed `char` widened to 32 bits: what several of these functions fold in.
fn signed(byte: u8) -> u32 {
    i32::from(byte.cast_signed()).cast_unsigned()
}

/// The bytes of a partial word, as the lower bytes of a little-endian number.
fn partial(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From twemproxy's own tests.
    #[test]
    fn apple_hashes_as_in_twemproxy() {
        let expected = [
            ("one_at_a_time", 2_297_466_611),
            ("md5", 3_195_025_439),
            ("crc16", 3_662_830_516),
            ("crc32", 10_542),
            ("crc32a", 2_838_417_488),
            ("fnv1_32", 67_176_023),
            ("fnv1a_32", 280_767_167),
            ("fnv1_64", 473_199_127),
            ("fnv1a_64", 1_488_911_807),
            ("hsieh", 3_738_850_110),
            ("murmur", 4_142_305_122),
            ("jenkins", 1_442_444_624),
        ];
        for (name, hash) in expected {
            assert_eq!(name.parse::<KeyHash>().unwrap().digest(b"apple"), hash, "{name}");
        }
    }

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for hash in KeyHash::ALL {
            assert_eq!(hash.to_string().parse(), Ok(hash));
        }
        let error = "MD5".parse::<KeyHash>().unwrap_err().to_string();
        assert!(error.starts_with("unknown hash \"MD5\": use one of one_at_a_time, md5, "), "{error}");
    }

    #[test]
    fn every_byte_string_has_a_hash() {
        for hash in KeyHash::ALL {
            for length in 0..300 {
                hash.digest(&vec![0xff; length]);
            }
        }
    }
}
