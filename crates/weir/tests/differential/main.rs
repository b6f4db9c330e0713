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

use std::env;
use weir_testkit::differential::{Summary, Weir, World, run};

/// Every way of serving.
const ENGINES: [&str; 3] = ["event", "pool", "split"];

fn weir(engine: &'static str) -> Weir {
    Weir { binary: env!("CARGO_BIN_EXE_weir").into(), flags: vec!["--engine", engine] }
}

fn start() -> World {
    start_with(ENGINES[0])
}

fn start_with(engine: &'static str) -> World {
    World::start(&weir(engine)).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn random_streams_are_answered_alike() {
    let summary = run_random_streams("event", 2_000);
    println!("{summary}");
    assert!(summary.is_agreement(), "WEIR_DIFF_SEED={}: {summary}", seed());
}

#[test]
fn random_streams_are_answered_alike_by_a_pool() {
    let summary = run_random_streams("pool", 500);
    println!("{summary}");
    assert!(summary.is_agreement(), "WEIR_DIFF_SEED={}: {summary}", seed());
}

#[test]
fn random_streams_are_answered_alike_by_a_split() {
    let summary = run_random_streams("split", 500);
    println!("{summary}");
    assert!(summary.is_agreement(), "WEIR_DIFF_SEED={}: {summary}", seed());
}

fn run_random_streams(engine: &'static str, streams: u64) -> Summary {
    let streams = number("WEIR_DIFF_STREAMS", streams);
    run(&weir(engine), seed(), streams).unwrap_or_else(|error| panic!("{error}"))
}

fn seed() -> u64 {
    number("WEIR_DIFF_SEED", 1)
}

fn number(name: &str, default: u64) -> u64 {
    match env::var(name) {
        Err(_) => default,
        Ok(text) => text.parse().unwrap_or_else(|error| panic!("{name}={text} is no number: {error}")),
    }
}
