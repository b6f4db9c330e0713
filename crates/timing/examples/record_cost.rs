//! What recording one request costs: `cargo run --release -p weir-timing --example record_cost`.

use std::hint::black_box;

use weir_timing::{Instant, Operation, Outcome, Recorder, Stamps};

const REQUESTS: u64 = 10_000_000;

#[expect(clippy::disallowed_methods, reason = "measures the crate from outside")]
#[expect(clippy::print_stdout, reason = "prints its result")]
fn main() {
    let mut recorder = Recorder::new(Instant::ZERO, 1);
    let mut seed = 1u64;
    let mut step = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % 200_000
    };
    let requests: Vec<(Operation, Stamps)> = (0..65_536u64)
        .map(|number| {
            let mut stamps = Stamps::at(Instant::from_nanos(number * 1000));
            stamps.dequeued = stamps.enqueued.plus(step());
            stamps.forwarded = stamps.dequeued.plus(step() / 10);
            stamps.received = stamps.forwarded.plus(step());
            stamps.answered = stamps.received.plus(step() / 10);
            (if number % 10 == 0 { Operation::Set } else { Operation::Get }, stamps)
        })
        .collect();
    let outcome = Outcome { error: false, keys: 1, hits: 1 };

    let started = std::time::Instant::now();
    for (operation, stamps) in requests.iter().cycle().take(REQUESTS as usize) {
        recorder.record_request(*operation, outcome, black_box(stamps));
    }
    let recording = started.elapsed();
    let report = recorder.report();
    let copied = started.elapsed() - recording;
    println!("record_request: {:.1} ns", recording.as_nanos() as f64 / REQUESTS as f64);
    println!(
        "report of {} gets: {:.2} ms",
        report.operation(Operation::Get).requests,
        copied.as_secs_f64() * 1e3
    );
}
