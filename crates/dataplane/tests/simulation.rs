//! The dataplane in simulated worlds: see `weir_testkit::simulation` for what each run must show.
//!
//! `WEIR_SEED=7` runs one seed; `WEIR_SEEDS=100000` runs more of them than usual.

use std::{
    ops::Range,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use weir_testkit::simulation::{self, Outcome};

const SEEDS: u64 = 400;

/// Says which seed to run again when a run panics, also where the reason is an assertion deep inside.
struct Running(u64);

impl Drop for Running {
    #[expect(clippy::print_stderr, reason = "tells how to see it again")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("to see it again: WEIR_SEED={} cargo test -p weir-dataplane --test simulation", self.0);
        }
    }
}

fn run(seed: u64) -> Outcome {
    let _running = Running(seed);
    simulation::run(seed)
}

fn run_lent(seed: u64) -> Outcome {
    let _running = Running(seed);
    simulation::run_lent(seed)
}

/// Over all processors, in any order.
fn run_all(seeds: Range<u64>, run: fn(u64) -> Outcome) -> Vec<Outcome> {
    let (next, outcomes) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) {
                return;
            }
            let outcome = run(seed);
            outcomes.lock().expect("nobody panics while he holds it").push(outcome);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    outcomes.into_inner().expect("nobody panics while he holds it")
}

fn variable(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|error| panic!("{name}={value}: {error}")))
}

fn seeds() -> Range<u64> {
    match variable("WEIR_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..variable("WEIR_SEEDS").unwrap_or(SEEDS),
    }
}

#[test]
fn every_world_ends_well() {
    let outcomes = run_all(seeds(), run);
    if variable("WEIR_SEED").is_some() {
        println!("{:#?}", outcomes[0]);
        return;
    }
    // Seeds that never meet a trouble prove nothing about it.
    let sum = |count: fn(&Outcome) -> u64| outcomes.iter().map(count).sum::<u64>();
    for (trouble, count) in [
        ("replies", sum(|outcome| outcome.replies)),
        ("failures", sum(|outcome| outcome.failures)),
        ("timeouts", sum(|outcome| outcome.counters.server_timeouts)),
        ("late replies", sum(|outcome| outcome.counters.server_replies_late)),
        ("lost connections", sum(|outcome| outcome.counters.server_disconnects)),
        ("failed connects", sum(|outcome| outcome.counters.server_connects_failed)),
        ("refusals by a server that is down", sum(|outcome| outcome.counters.server_refusals_down)),
        ("refusals by a full server", sum(|outcome| outcome.counters.server_refusals_full)),
        ("refusals by a full session", sum(|outcome| outcome.counters.session_refusals_full)),
        ("refused sessions", sum(|outcome| outcome.counters.sessions_refused)),
        ("pauses", sum(|outcome| outcome.counters.sessions_paused)),
        ("writes carried out by another loop", sum(|outcome| outcome.counters.requests_mailed)),
        ("waits for an earlier request of the session", sum(|outcome| outcome.counters.session_order_waits)),
        ("refusals by full mail", sum(|outcome| outcome.counters.mail_refusals_full)),
        ("keys in a journal", sum(|outcome| outcome.counters.journal_keys)),
        ("writes that waited for a held key", sum(|outcome| outcome.counters.writes_held)),
        ("writes that waited for too long for that", sum(|outcome| outcome.counters.writes_overdue)),
        ("quarantines", sum(|outcome| outcome.counters.server_quarantines)),
        ("servers marked down", sum(|outcome| outcome.counters.servers_marked_down)),
        ("servers that answered again", sum(|outcome| outcome.counters.servers_marked_up)),
        ("reads that were moved in time", sum(|outcome| outcome.counters.reads_moved)),
        ("second opinions", sum(|outcome| outcome.counters.second_opinions)),
        ("dead connections", sum(|outcome| outcome.counters.server_connections_dead)),
        ("flushed servers", sum(|outcome| outcome.counters.journal_flushes)),
        ("orphans", sum(|outcome| outcome.counters.requests_orphaned)),
        ("invalidated replicas", sum(|outcome| outcome.counters.replicas_invalidated)),
        ("replaced tables", sum(|outcome| outcome.counters.tables_replaced)),
        ("servers that left", sum(|outcome| outcome.counters.servers_left)),
        ("renewed connections", sum(|outcome| outcome.counters.server_renewals)),
        ("degraded keys", sum(|outcome| outcome.counters.keys_degraded)),
        ("reads at another replica", sum(|outcome| outcome.counters.reads_failed_over)),
        ("joined gets", sum(|outcome| outcome.counters.gets_joined)),
        ("reads by mg that another one answers", sum(|outcome| outcome.counters.mgs_joined)),
        ("gets asked alone", sum(|outcome| outcome.counters.gets_asked_alone)),
        ("coalesced gets", sum(|outcome| outcome.counters.gets_coalesced)),
        ("coalesced gets that were asked again", sum(|outcome| outcome.counters.gets_coalesced_again)),
        ("misses that a client may fill", sum(|outcome| outcome.counters.fill_leases)),
        ("gets that wait for that", sum(|outcome| outcome.counters.fill_waits)),
        ("gets asked again because of a write", sum(|outcome| outcome.counters.fill_waits_again)),
        ("gets answered from what is kept", sum(|outcome| outcome.counters.near_hits)),
        ("gets asked for by meta commands", sum(|outcome| outcome.counters.near_asked)),
        ("values that had not changed", sum(|outcome| outcome.counters.near_same)),
        ("values that were outdated", sum(|outcome| outcome.counters.near_outdated)),
        ("keys asked again", sum(|outcome| outcome.counters.keys_asked_again)),
        ("repaired copies", sum(|outcome| outcome.counters.reads_repaired)),
        ("doubted servers", sum(|outcome| outcome.counters.servers_doubted)),
        ("misses that another server had", sum(|outcome| outcome.counters.misses_rescued)),
        ("repairs that were dropped", sum(|outcome| outcome.counters.repairs_dropped)),
        ("repairs that failed", sum(|outcome| outcome.counters.repairs_failed)),
        ("multi-gets chosen to be whole", sum(|outcome| outcome.counters.multigets_auto_whole)),
        ("multi-gets chosen to be sharded", sum(|outcome| outcome.counters.multigets_auto_sharded)),
        ("reads that may bring much", sum(|outcome| outcome.counters.bulk_reads)),
        ("slices", sum(|outcome| outcome.counters.bulk_read_slices)),
        ("waits for such reads", sum(|outcome| outcome.counters.bulk_read_waits)),
        ("silent failures", sum(|outcome| outcome.counters.requests_failed_silently)),
    ] {
        println!("{trouble}: {count}");
        assert!(count > 0, "no world met any {trouble}");
    }
}

/// Clients whose requests the driver takes itself, as the threaded engines do.
#[test]
fn every_world_of_lent_sessions_ends_well() {
    let outcomes = run_all(seeds(), run_lent);
    if variable("WEIR_SEED").is_some() {
        println!("{:#?}", outcomes[0]);
        return;
    }
    let sum = |count: fn(&Outcome) -> u64| outcomes.iter().map(count).sum::<u64>();
    for (trouble, count) in [
        ("replies", sum(|outcome| outcome.replies)),
        ("failures", sum(|outcome| outcome.failures)),
        ("refusals by a full queue", sum(|outcome| outcome.counters.queue_refusals_full)),
        ("timeouts in the queue", sum(|outcome| outcome.counters.queue_timeouts)),
        ("timeouts", sum(|outcome| outcome.counters.server_timeouts)),
        ("lost connections", sum(|outcome| outcome.counters.server_disconnects)),
        ("pauses", sum(|outcome| outcome.counters.sessions_paused)),
        ("writes that waited for a held key", sum(|outcome| outcome.counters.writes_held)),
        ("orphans", sum(|outcome| outcome.counters.requests_orphaned)),
        ("quarantines", sum(|outcome| outcome.counters.server_quarantines)),
        ("replaced tables", sum(|outcome| outcome.counters.tables_replaced)),
        ("reads at another replica", sum(|outcome| outcome.counters.reads_failed_over)),
        ("repaired copies", sum(|outcome| outcome.counters.reads_repaired)),
    ] {
        println!("{trouble}: {count}");
        assert!(count > 0, "no world met any {trouble}");
    }
}

#[test]
fn the_same_seed_gives_the_same_world() {
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed), "seed {seed}");
        assert_eq!(run_lent(seed), run_lent(seed), "seed {seed}");
    }
    assert_ne!(run(1).trace, run(2).trace);
}
