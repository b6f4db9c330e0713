//! Bob Jenkins's one-at-a-time and lookup3.

use super::{partial, signed};

pub(super) fn one_at_a_time(key: &[u8]) -> u32 {
    let mut hash = key.iter().fold(0u32, |hash, byte| {
        let hash = hash.wrapping_add(signed(*byte));
        let hash = hash.wrapping_add(hash << 10);
        hash ^ hash >> 6
    });
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

/// lookup3 (`hashlittle`) started from 13.
pub(super) fn lookup3(key: &[u8]) -> u32 {
    const START: u32 = 13;
    let start = 0xdead_beef_u32.wrapping_add(key.len() as u32).wrapping_add(START);
    let mut state = [start; 3];
    let mut rest = key;
    // The last block, full or not, is mixed differently: twelve bytes are a last block.
    while rest.len() > 12 {
        let (block, others) = rest.split_at(12);
        absorb(&mut state, block);
        mix(&mut state);
        rest = others;
    }
    if rest.is_empty() {
        return state[2];
    }
    absorb(&mut state, rest);
    finish(&mut state);
    state[2]
}

fn absorb(state: &mut [u32; 3], block: &[u8]) {
    for (word, bytes) in state.iter_mut().zip(block.chunks(4)) {
        *word = word.wrapping_add(partial(bytes) as u32);
    }
}

fn mix([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: &mut u32, z: &mut u32, rotation| {
        *x = x.wrapping_sub(*z) ^ z.rotate_left(rotation);
        *z = z.wrapping_add(*y);
    };
    step(a, b, c, 4);
    step(b, c, a, 6);
    step(c, a, b, 8);
    step(a, b, c, 16);
    step(b, c, a, 19);
    step(c, a, b, 4);
}

fn finish([a, b, c]: &mut [u32; 3]) {
    let step = |x: &mut u32, y: u32, rotation| *x = (*x ^ y).wrapping_sub(y.rotate_left(rotation));
    step(c, *b, 14);
    step(a, *c, 11);
    step(b, *a, 25);
    step(c, *b, 16);
    step(a, *c, 4);
    step(b, *a, 14);
    step(c, *b, 24);
}
