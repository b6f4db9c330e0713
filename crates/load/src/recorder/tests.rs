use super::*;

const SECOND: u64 = 1_000_000_000;

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn recorder() -> Recorder {
    let mut recorder = Recorder::new(true);
    recorder.set_timeline(Timeline { warmup: at(SECOND), measured: at(2 * SECOND), end: at(6 * SECOND) });
    recorder
}

/// A request of a closed loop that was completed at `nanos`.
fn closed(nanos: u64, response_time_ns: u64) -> Times {
    Times { belongs_to: at(nanos), completed: at(nanos), response_time_ns, from_send_ns: None }
}

fn hit() -> Outcome {
    Outcome { keys: 1, hits: 1, ..Outcome::default() }
}

#[test]
fn completion_decides_the_phase() {
    let mut recorder = recorder();
    for nanos in [0, SECOND, 2 * SECOND - 1, 2 * SECOND, 6 * SECOND - 1, 6 * SECOND, 6 * SECOND + 1] {
        recorder.record_answer(closed(nanos, 5), Operation::Get, hit(), true);
    }
    assert_eq!(Phase::ALL.map(|phase| recorder.phase(phase).requests), [1, 2, 2, 2]);
    assert_eq!(recorder.total().requests, 7);
    assert_eq!(recorder.operation(Operation::Get).requests, 2);
    assert_eq!(recorder.operation(Operation::Get).response_time.count(), 2);
}

#[test]
fn windows_are_seconds_and_silent_ones_are_zero() {
    let mut recorder = recorder();
    recorder.record_answer(closed(2 * SECOND, 7), Operation::Get, hit(), true);
    recorder.record_answer(closed(3 * SECOND - 1, 8), Operation::Set, hit(), true);
    recorder.record_failure(at(5 * SECOND), &"lost");
    let first = recorder.window(0);
    assert_eq!((first.requests, first.response_time_sum_ns), (2, 15));
    assert_eq!(first.operations[Operation::Set.index()], 1);
    assert_eq!(recorder.window(1), WindowCounts::default());
    assert_eq!(recorder.window(3), WindowCounts { failures: 1, ..WindowCounts::default() });
    assert_eq!(recorder.window(9), WindowCounts::default());
}

#[test]
fn failed_answers_count_without_a_response_time() {
    let mut recorder = recorder();
    let outcome = Outcome { keys: 1, ..Outcome::default() };
    recorder.record_answer(closed(2 * SECOND, 5), Operation::Get, outcome, false);
    let counts = recorder.operation(Operation::Get);
    assert_eq!((counts.requests, counts.keys, counts.hits, counts.misses), (1, 1, 0, 0));
    assert!(counts.response_time.is_empty());
}

#[test]
fn merging_adds_everything() {
    let (mut one, mut other) = (recorder(), recorder());
    one.record_answer(closed(2 * SECOND, 1), Operation::Get, hit(), true);
    other.record_answer(closed(4 * SECOND, 3), Operation::Get, hit(), true);
    other.record_error_text(b"ERROR");
    other.record_failure(at(4 * SECOND), &"torn");
    other.record_foreign_values(2);
    one.merge(other);
    assert_eq!(one.phase(Phase::Measured).requests, 2);
    assert_eq!(one.operation(Operation::Get).response_time.sum(), 4);
    assert_eq!([0, 1, 2].map(|index| one.window(index).requests), [1, 0, 1]);
    assert_eq!(one.failures(), &Failures { count: 1, first: vec!["torn".to_owned()] });
    assert_eq!(one.errors().get("ERROR"), Some(&1));
    assert_eq!(one.foreign_values(), 2);
}

#[test]
fn texts_are_bounded_and_counts_are_not() {
    let mut recorder = recorder();
    for number in 0..100 {
        recorder.record_error_text(format!("SERVER_ERROR {number}").as_bytes());
        recorder.record_failure(at(0), &number);
    }
    assert_eq!(recorder.errors().len(), ERROR_TEXTS_MAX + 1);
    assert_eq!(recorder.errors().values().sum::<u64>(), 100);
    assert_eq!(recorder.failures().count, 100);
    assert_eq!(recorder.failures().first.len(), FAILURE_TEXTS_MAX);
}

#[test]
fn recent_times_are_taken_once() {
    let mut recorder = recorder();
    recorder.record_answer(closed(0, 9), Operation::Set, hit(), true);
    let mut recent = Distribution::new();
    recorder.take_recent(&mut recent);
    recorder.take_recent(&mut recent);
    assert_eq!((recent.count(), recent.sum()), (1, 9));
}
/// A request of an open loop that was to be sent at `intended` and was sent 10 ns before it was completed.
fn open(intended: u64, completed: u64) -> Times {
    let from_send_ns = Some(10);
    let response_time_ns = completed - intended;
    Times { belongs_to: at(intended), completed: at(completed), response_time_ns, from_send_ns }
}

#[test]
fn in_an_open_loop_the_intended_moment_decides() {
    let mut recorder = recorder();
    recorder.record_answer(open(2 * SECOND - 1, 3 * SECOND), Operation::Get, hit(), true);
    recorder.record_answer(open(5 * SECOND, 9 * SECOND), Operation::Get, hit(), true);
    assert_eq!(Phase::ALL.map(|phase| recorder.phase(phase).requests), [0, 1, 1, 0]);
    let counts = recorder.operation(Operation::Get);
    assert_eq!((counts.response_time.sum(), counts.response_time_from_send.sum()), (4 * 1_000_000_000, 10));
    let windows = [0, 1, 2, 3].map(|index| recorder.window(index));
    assert_eq!(windows.map(|window| window.requests), [0, 0, 0, 1]);
    assert_eq!(
        windows.map(|window| window.completed),
        [0, 1, 0, 0],
        "the second after the end does not count"
    );
}

#[test]
fn completions_count_where_they_happen_and_follow_ups_are_no_arrivals() {
    let mut recorder = recorder();
    let follow_up = Outcome { is_follow_up: true, ..hit() };
    for (intended, completed, outcome) in [
        (SECOND, 2 * SECOND, hit()),
        (2 * SECOND, 3 * SECOND, hit()),
        (2 * SECOND, 3 * SECOND, follow_up),
        (5 * SECOND, 8 * SECOND, hit()),
        (5 * SECOND, 8 * SECOND, follow_up),
    ] {
        recorder.record_answer(open(intended, completed), Operation::Get, outcome, true);
    }
    let counts = recorder.operation(Operation::Get);
    assert_eq!((counts.requests, counts.completed), (4, 3));
    let scheduled = recorder.scheduled();
    assert_eq!((scheduled.completed, scheduled.in_time), (2, 1));
    assert_eq!((scheduled.ages_at_end.count(), scheduled.ages_at_end.max()), (1, Some(SECOND)));
    assert_eq!(recorder.under_way(), UnderWay::default());
}

#[test]
fn a_closed_loop_keeps_what_its_end_cut_off() {
    let mut recorder = recorder();
    for (nanos, response_time_ns) in [(5 * SECOND, 9), (6 * SECOND, 7), (7 * SECOND, 2 * SECOND)] {
        recorder.record_answer(closed(nanos, response_time_ns), Operation::Get, hit(), true);
    }
    recorder.record_answer(closed(9 * SECOND, 4 * SECOND), Operation::Get, hit(), false);
    assert_eq!(recorder.under_way().slowest(), (2, 2 * SECOND));
}

#[test]
fn scheduled_requests_are_accounted_for_in_the_measured_phase_alone() {
    let mut recorder = recorder();
    recorder.set_late_after(100);
    for (intended, waiting, late_ns) in [(SECOND, 9, 500), (2 * SECOND, 3, 100), (3 * SECOND, 1, 101)] {
        recorder.record_arrival(at(intended), waiting);
        recorder.record_late(at(intended), late_ns);
        recorder.record_unsent(at(intended));
    }
    let counts = recorder.scheduled();
    assert_eq!((counts.arrivals, counts.unsent, counts.late, counts.backlog_max), (2, 2, 1, 3));
    assert_eq!(counts.lateness.sum(), 201);
    assert_eq!([0, 1].map(|index| recorder.window(index).arrivals), [1, 1]);
}

#[test]
fn intervals_are_taken_by_second_of_completion() {
    let mut recorder = recorder();
    recorder.keep_intervals();
    recorder.record_answer(open(2 * SECOND, 2 * SECOND + 20), Operation::Get, hit(), true);
    assert!(recorder.take_intervals(at(3 * SECOND - 1)).is_empty());
    recorder.record_answer(open(2 * SECOND, 4 * SECOND), Operation::Set, hit(), true);
    let seconds = |intervals: Vec<Interval>| -> Vec<_> {
        intervals.iter().map(|interval| (interval.second, interval.all().sum())).collect()
    };
    assert_eq!(seconds(recorder.take_intervals(at(4 * SECOND))), [(0, 20)]);
    assert_eq!(seconds(recorder.take_intervals(at(9 * SECOND))), [(2, 2_000_000_000)]);
}
