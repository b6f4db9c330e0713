//! Runs a dataplane in a steady state for a number of turns, for callgrind: see `scripts/instructions`.

use std::env;

use weir_testkit::steady::{Load, Steady};

const ONE: Load = Load { clients: 1, depth: 1, keys: 1, set_every: 10, value_bytes: 128, servers: 3 };

/// Loads by name.
const LOADS: [(&str, Load); 7] = [
    ("one", ONE),
    ("one-4096", Load { value_bytes: 4096, ..ONE }),
    ("one-of-500", Load { servers: 500, ..ONE }),
    ("many", Load { clients: 64, ..ONE }),
    ("deep", Load { clients: 16, depth: 10, ..ONE }),
    ("multiget", Load { clients: 16, keys: 9, set_every: 0, ..ONE }),
    ("multiget-1000", Load { keys: 1_000, set_every: 0, ..ONE }),
];

#[expect(clippy::print_stdout, reason = "a command line tool")]
fn main() -> Result<(), String> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let usage = || "usage: steady LOAD TURNS".to_owned();
    let [name, turns] = &arguments[..] else { return Err(usage()) };
    let (_, load) = LOADS.into_iter().find(|(known, _)| known == name).ok_or_else(usage)?;
    let turns: usize = turns.parse().map_err(|_| usage())?;
    let mut steady = Steady::new(load);
    let requests: usize = (0..turns).map(|_| steady.turn()).sum();
    let (counted, failed) = steady.counts();
    if (counted, failed) != (requests as u64, 0) {
        return Err(format!("{requests} requests were sent, {counted} counted, {failed} failed"));
    }
    println!("{requests}");
    Ok(())
}
