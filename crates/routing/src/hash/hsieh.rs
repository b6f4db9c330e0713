//! Paul Hsieh's SuperFastHash, written from its description.

use super::{partial, signed};

pub(super) fn hsieh(key: &[u8]) -> u32 {
    let (mut hash, words) = (0u32, key.chunks_exact(4));
    let tail = words.remainder();
    for word in words {
        hash = hash.wrapping_add(partial(&word[..2]) as u32);
        hash = hash << 16 ^ ((partial(&word[2..]) as u32) << 11 ^ hash);
        hash = hash.wrapping_add(hash >> 11);
    }
    match tail {
        [] => {}
        [byte] => {
            hash = hash.wrapping_add(u32::from(*byte));
            hash ^= hash << 10;
            hash = hash.wrapping_add(hash >> 1);
        }
        [_, _] => {
            hash = hash.wrapping_add(partial(tail) as u32);
            hash ^= hash << 11;
            hash = hash.wrapping_add(hash >> 17);
        }
        [.., last] => {
            hash = hash.wrapping_add(partial(&tail[..2]) as u32);
            hash ^= hash << 16;
            hash ^= signed(*last) << 18;
            hash = hash.wrapping_add(hash >> 11);
        }
    }
    avalanche(hash)
}

fn avalanche(mut hash: u32) -> u32 {
    hash ^= hash << 3;
    hash = hash.wrapping_add(hash >> 5);
    hash ^= hash << 4;
    hash = hash.wrapping_add(hash >> 17);
    hash ^= hash << 25;
    hash.wrapping_add(hash >> 6)
}
