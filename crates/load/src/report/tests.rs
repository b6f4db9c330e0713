use super::*;
use crate::config::Settings;
use crate::pacing::schedule::Process;
use crate::recorder::{Outcome, Times};

const SECOND: u64 = 1_000_000_000;

pub(crate) fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

pub(crate) fn report(record: impl FnOnce(&mut Recorder)) -> Report {
    report_with(Settings::example(), record)
}

pub(crate) fn report_with(settings: Settings, record: impl FnOnce(&mut Recorder)) -> Report {
    let config = Config::check(settings).expect("the settings are valid");
    let timeline =
        Timeline { warmup: at(SECOND), measured: at(2 * SECOND), end: at(5 * SECOND - SECOND / 2) };
    let mut recorder = Recorder::new(false);
    recorder.set_timeline(timeline);
    record(&mut recorder);
    let cpu = CpuTime { user_ns: SECOND, system_ns: SECOND };
    let (prefill_began, finished) = (at(SECOND / 2), at(5 * SECOND));
    let clock = Clock::start();
    Report::new(&config, &Measurements { recorder, clock, prefill_began, timeline, finished, cpu })
}

/// A run with `gets` gets of 1000 ns in 2.5 s.
pub(crate) fn report_of(gets: u64) -> Report {
    report(|recorder| (0..gets).for_each(|number| get(recorder, 3 * SECOND + number)))
}

fn get(recorder: &mut Recorder, nanos: u64) {
    let outcome = Outcome { keys: 1, hits: 1, ..Outcome::default() };
    let times =
        Times { belongs_to: at(nanos), completed: at(nanos), response_time_ns: 1000, from_send_ns: None };
    recorder.record_answer(times, Operation::Get, outcome, true);
}

#[test]
fn the_record_has_the_documented_fields() {
    let report = report(|recorder| get(recorder, 3 * SECOND));
    let json: serde_json::Value =
        serde_json::from_str(&report.to_json().expect("it serializes")).expect("it is JSON");
    let keys = |value: &serde_json::Value| -> Vec<String> {
        value.as_object().expect("an object").keys().cloned().collect()
    };
    for field in [
        "schema",
        "weir_version",
        "weir_commit",
        "config",
        "phases",
        "operations",
        "throughput_rps",
        "under_way",
        "windows",
        "cpu",
        "failures",
        "errors",
    ] {
        assert!(keys(&json).contains(&field.to_owned()), "{field}");
    }
    assert_eq!(json["schema"], "weir.load/1");
    assert_eq!(keys(&json["operations"]), ["get", "set"]);
    assert_eq!(
        keys(&json["operations"]["get"]),
        [
            "completed",
            "errors",
            "hits",
            "keys",
            "misses",
            "requests",
            "response_time",
            "response_time_from_send"
        ]
    );
    assert_eq!(keys(&json["phases"]), ["drain", "measured", "prefill", "warmup"]);
    assert_eq!(
        keys(&json["phases"]["drain"]),
        ["duration_ns", "errors", "failures", "keys", "misses", "requests", "start_unix_ns"]
    );
    assert_eq!(
        keys(&json["windows"][0]),
        [
            "arrivals",
            "completed",
            "errors",
            "failures",
            "index",
            "length_ns",
            "misses",
            "operations",
            "requests",
            "response_time_sum_ns",
            "start_ns"
        ]
    );
    assert_eq!(json["operations"]["set"]["response_time"]["histogram"], serde_json::Value::Null);
    assert_eq!(json["config"]["value_size_bytes"], 128);
}

#[test]
fn windows_cover_the_measured_phase_without_gaps() {
    let report = report(|recorder| {
        get(recorder, 2 * SECOND);
        get(recorder, 4 * SECOND + 1);
    });
    let shape: Vec<_> =
        report.windows.iter().map(|window| (window.start_ns, window.length_ns, window.requests)).collect();
    assert_eq!(shape, [(0, SECOND, 1), (SECOND, SECOND, 0), (2 * SECOND, SECOND / 2, 1)]);
    let lengths: u64 = report.windows.iter().map(|window| window.length_ns).sum();
    assert_eq!(lengths, report.phases.measured.duration_ns);
}

#[test]
fn throughput_is_counted_and_cpu_is_shared_out() {
    let report = report(|recorder| (0..5).for_each(|number| get(recorder, 3 * SECOND + number)));
    assert_eq!(report.throughput_rps, 2.0);
    assert_eq!(report.cpu.per_request_ns, Some(4e8));
    assert_eq!(report.cpu.generator_busy, 0.8);
    assert!(report.is_good() && report.warnings().is_empty());
}

#[test]
fn a_run_without_answers_or_with_failures_is_not_good() {
    assert!(!report(|_| {}).is_good());
    let failed = report(|recorder| {
        get(recorder, 0);
        recorder.record_failure(at(0), &"connection 1 to here, request 5: get k: torn");
    });
    assert!(!failed.is_good());
    assert_eq!(
        failed.warnings(),
        ["1 failures; the first:", "  connection 1 to here, request 5: get k: torn"]
    );
}

#[test]
fn who_set_the_pace_stands_below_the_table_and_is_no_warning() {
    let settings = Settings { pacing: Settings::offered("1000", Process::Fixed), ..Settings::example() };
    let late = report_with(settings, |recorder| {
        recorder.set_late_after(SECOND);
        recorder.record_arrival(at(2 * SECOND), 0);
        get(recorder, 3 * SECOND);
        recorder.record_late(at(3 * SECOND), 2 * SECOND);
    });
    let summary = late.summary().to_string();
    let last = summary.lines().last().expect("a summary has lines");
    assert!(last.starts_with("the generator was the bottleneck: it sent "), "{summary}");
    assert!(late.warnings().is_empty(), "{:?}", late.warnings());
}
