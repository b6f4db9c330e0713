//! Bob Jenkins's SpookyHash V2: a short form below 192 bytes, a long one from there on.

use super::partial;

const BLANK: u64 = 0xdead_beef_dead_beef;
const VARIABLES: usize = 12;
const BLOCK: usize = VARIABLES * 8;

/// The lower 32 of SpookyHash's 128 bits, both seeds being `seed`.
pub(crate) fn spooky32(key: &[u8], seed: u32) -> u32 {
    let seed = u64::from(seed);
    (if key.len() < 2 * BLOCK { short(key, seed) } else { long(key, seed) }) as u32
}

fn short(key: &[u8], seed: u64) -> u64 {
    let mut state = [seed, seed, BLANK, BLANK];
    let mut rest = key;
    while rest.len() >= 16 {
        let (pair, others) = rest.split_at(16);
        state[2] = state[2].wrapping_add(partial(&pair[..8]));
        state[3] = state[3].wrapping_add(partial(&pair[8..]));
        stir(&mut state);
        rest = others;
        if let Some((pair, others)) = rest.split_at_checked(16) {
            state[0] = state[0].wrapping_add(partial(&pair[..8]));
            state[1] = state[1].wrapping_add(partial(&pair[8..]));
            rest = others;
        }
    }
    let (low, high) = rest.split_at(rest.len().min(8));
    let nothing = if rest.is_empty() { BLANK } else { 0 };
    state[2] = state[2].wrapping_add(partial(low)).wrapping_add(nothing);
    let length = (key.len() as u64) << 56;
    state[3] = state[3].wrapping_add(partial(high)).wrapping_add(nothing).wrapping_add(length);
    settle(&mut state);
    state[0]
}

/// Three rounds over four variables, starting at the third.
fn stir(state: &mut [u64; 4]) {
    const ROTATIONS: [u32; 12] = [50, 52, 30, 41, 54, 48, 38, 37, 62, 34, 5, 36];
    for (step, rotation) in ROTATIONS.into_iter().enumerate() {
        let [own, next, opposite] = [step + 2, step + 3, step].map(|place| place % 4);
        state[own] = state[own].rotate_left(rotation).wrapping_add(state[next]);
        state[opposite] ^= state[own];
    }
}

fn settle(state: &mut [u64; 4]) {
    const ROTATIONS: [u32; 11] = [15, 52, 26, 51, 28, 9, 47, 54, 32, 25, 63];
    for (step, rotation) in ROTATIONS.into_iter().enumerate() {
        let [own, before] = [step + 3, step + 2].map(|place| place % 4);
        state[own] ^= state[before];
        state[before] = state[before].rotate_left(rotation);
        state[own] = state[own].wrapping_add(state[before]);
    }
}

fn long(key: &[u8], seed: u64) -> u64 {
    let mut state = [seed, seed, BLANK, seed, seed, BLANK, seed, seed, BLANK, seed, seed, BLANK];
    let blocks = key.chunks_exact(BLOCK);
    let tail = blocks.remainder();
    for block in blocks {
        blend(&mut state, block);
    }
    let mut last = [0; BLOCK];
    last[..tail.len()].copy_from_slice(tail);
    last[BLOCK - 1] = tail.len() as u8;
    for (variable, word) in state.iter_mut().zip(last.chunks_exact(8)) {
        *variable = variable.wrapping_add(partial(word));
    }
    for _ in 0..3 {
        end(&mut state);
    }
    state[0]
}

fn blend(state: &mut [u64; VARIABLES], block: &[u8]) {
    const ROTATIONS: [u32; VARIABLES] = [11, 32, 43, 31, 17, 28, 39, 57, 55, 54, 22, 46];
    for (own, (word, rotation)) in block.chunks_exact(8).zip(ROTATIONS).enumerate() {
        let [next, second, tenth, before] = [1, 2, 10, 11].map(|step| (own + step) % VARIABLES);
        state[own] = state[own].wrapping_add(partial(word));
        state[second] ^= state[tenth];
        state[before] ^= state[own];
        state[own] = state[own].rotate_left(rotation);
        state[before] = state[before].wrapping_add(state[next]);
    }
}

fn end(state: &mut [u64; VARIABLES]) {
    const ROTATIONS: [u32; VARIABLES] = [44, 15, 34, 21, 38, 33, 10, 13, 38, 53, 42, 54];
    for (step, rotation) in ROTATIONS.into_iter().enumerate() {
        let [before, own, next] = [step + 11, step + 1, step + 2].map(|place| place % VARIABLES);
        state[before] = state[before].wrapping_add(state[own]);
        state[next] ^= state[before];
        state[own] = state[own].rotate_left(rotation);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(length: usize) -> Vec<u8> {
        (0..length).map(|place| (place * 7 + length) as u8).collect()
    }

    /// Values of the `spookyhash` package 2.1.1 for Python, which wraps the author's own code.
    #[test]
    fn agrees_with_the_reference_at_every_length() {
        let checksum = (0..400)
            .fold(0u32, |sum, length| sum.wrapping_mul(31).wrapping_add(spooky32(&key(length), 0xface_2014)));
        assert_eq!(checksum, 1_459_270_166);
    }
}
