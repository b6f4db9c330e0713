//! Weir in front of one memcached answers as memcached does: byte for byte, to right and wrong commands, cut anywhere.
//!
//! `regressions.rs` holds streams that were once answered differently, `intended.rs` the differences that are meant. Beyond
//! them, random streams must be answered alike:
//!
//! ```text
//! WEIR_DIFF_STREAMS=200000 WEIR_DIFF_SEED=7 cargo test --release -p weir --test differential
//! ```
//!
//! A stream that fails is made small and printed as it belongs into `regressions.rs`.

mod edges;
mod hung;
mod intended;
mod regressions;

use std::{env, path::Path};
use weir_testkit::differential::{World, run};

fn weir() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_weir"))
}

fn start() -> World {
    World::start(weir()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn random_streams_are_answered_alike() {
    let streams = number("WEIR_DIFF_STREAMS", 2_000);
    let seed = number("WEIR_DIFF_SEED", 1);
    println!("WEIR_DIFF_STREAMS={streams} WEIR_DIFF_SEED={seed}");
    let summary = run(weir(), seed, streams).unwrap_or_else(|error| panic!("{error}"));
    println!("{summary}");
    assert!(summary.is_agreement(), "WEIR_DIFF_SEED={seed}: {summary}");
}

fn number(name: &str, default: u64) -> u64 {
    match env::var(name) {
        Err(_) => default,
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{name}={text} is no number: {error}")),
    }
}
