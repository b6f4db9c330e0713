//! What clients do wrong.

use super::{
    Command,
    words::{self, Keys},
};
use rand::{Rng as _, rngs::SmallRng, seq::IndexedRandom as _};

/// Makes a command wrong in one or two ways.
pub(super) fn spoil(command: &mut Command, keys: &Keys, rng: &mut SmallRng) {
    for _ in 0..rng.random_range(1..=2) {
        spoil_once(command, keys, rng);
    }
}

fn spoil_once(command: &mut Command, keys: &Keys, rng: &mut SmallRng) {
    let words = &mut command.words;
    if words.is_empty() {
        return;
    }
    let at = rng.random_range(0..words.len());
    match rng.random_range(0..21) {
        0 | 1 => drop(words.remove(at)),
        2 => words.insert(at, words[at].clone()),
        3 => {
            let with = rng.random_range(0..words.len());
            words.swap(at, with);
        }
        4 | 5 => words[at] = words::odd_number(rng),
        6 => words.insert(at, words::odd_number(rng)),
        7 => words.insert(at, keys.any(rng)),
        8 => words.push(b"noreply".to_vec()),
        9 => words.push(words::odd_number(rng)),
        10 => words[at].make_ascii_uppercase(),
        11 => {
            let byte = *b"\t\r\0\x01\x0b\x7f\xff n".choose(rng).expect("not empty");
            let place = rng.random_range(0..=words[at].len());
            words[at].insert(place, byte);
        }
        12 => words.insert(0, Vec::new()),
        13 => words.push(Vec::new()),
        14 => command.blank = [&b"  "[..], b"\t", b" \t "].choose(rng).expect("not empty"),
        15 | 16 => {
            command.ending = [&b"\n"[..], b"\n", b" \r\n", b"\r\r\n", b"\r", b"", b"\0\r\n"]
                .choose(rng)
                .expect("not empty");
        }
        17 => drop(words[at].pop()),
        18 => words.push(b"HTTP/1.1".to_vec()),
        _ => spoil_block(command, rng),
    }
}

/// Too short, too long, or ended otherwise than it must be.
fn spoil_block(command: &mut Command, rng: &mut SmallRng) {
    let block = &mut command.block;
    match rng.random_range(0..5) {
        0 => drop(block.pop()),
        1 => block.truncate(block.len().saturating_sub(rng.random_range(2..6))),
        2 => block.insert(0, b'x'),
        3 => block.extend_from_slice(b"\r\n"),
        _ => {
            if let Some(byte) = block.iter_mut().rev().nth(1) {
                *byte = b'x';
            }
        }
    }
}

/// Lines that belong to no command, or to none of ours.
pub(super) fn oddity(keys: &Keys, rng: &mut SmallRng) -> Command {
    let lines: [&[&[u8]]; 17] = [
        &[b""],
        &[b""],
        &[b" "],
        &[b"\0"],
        &[b"GET", b"/", b"HTTP/1.1"],
        &[b"POST", b"/x", b"HTTP/1.1"],
        &[b"HTTP/1.1", b"200", b"OK"],
        &[b"HTTP/1.1"],
        &[b"gopher", b"/", b"HTTP/1.1"],
        &[b"Host:", b"localhost"],
        &[b"quit"],
        &[b"quit", b"noreply"],
        &[b"ERROR"],
        &[b"END"],
        &[b"VALUE", b"a", b"0", b"1"],
        &[b"STORED"],
        &[b"bogus", b"1", b"2", b"3", b"4", b"5"],
    ];
    match rng.random_range(0..10) {
        0 => Command::new(vec![words::noise(rng)]),
        1 => Command::new(vec![words::noise(rng), keys.any(rng), words::noise(rng)]),
        _ => Command::new(lines.choose(rng).expect("not empty").iter().map(|word| word.to_vec()).collect()),
    }
}
