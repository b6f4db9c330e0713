//! A run in two sentences, above its table and made of its values: what was reached, and whether anything speaks against it.

use std::fmt;

use weir_timing::DistributionReport;

use crate::report::bottleneck::Bottleneck;
use crate::report::summary::human_time;
use crate::report::{PacingReport, Report, ratio};

/// What a reader takes away, one sentence per line.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a>(&'a Report);

impl<'a> Answer<'a> {
    /// Of a run that is over.
    pub fn new(report: &'a Report) -> Answer<'a> {
        Answer(report)
    }
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", reached(self.0))?;
        writeln!(f, "{}", trust(self.0))
    }
}

/// Rate, errors and times. The rate is that of the record: what was completed in the measured phase. Beside a rate that was offered stands
/// that of the arrivals alone.
fn reached(report: &Report) -> String {
    if is_empty(report) {
        return "Nothing was answered in the measured phase.".to_owned();
    }
    let (all, rate) = (&report.all_operations, report.throughput_rps);
    let answered = match (&report.config.pacing, &report.scheduled) {
        (PacingReport::Open { .. }, Some(scheduled)) => {
            let offered = scheduled.offered_rate_rps;
            let measured_s = report.phases.measured.duration_ns as f64 / 1e9;
            let arrivals = ratio(scheduled.completed as f64, measured_s).unwrap_or(0.0);
            let with_follow_ups = if scheduled.completed < all.completed {
                format!(" ({rate:.0} with those that answers asked for)")
            } else {
                String::new()
            };
            format!("Offered {offered:.0} requests/s, answered {arrivals:.0}{with_follow_ups}")
        }
        _ => format!("Answered {rate:.0} requests/s"),
    };
    let errors = match all.errors {
        0 => "no error replies".to_owned(),
        errors => counted(errors, "error reply", "error replies"),
    };
    format!("{answered}, {errors}; {}.", percentiles(&all.response_time))
}

fn percentiles(times: &DistributionReport) -> String {
    let human = |nanos: u64| human_time(nanos as f64);
    match (times.p50_ns, times.p99_ns) {
        (Some(p50), Some(p99)) => format!("p50 {}, p99 {}", human(p50), human(p99)),
        (Some(p50), None) => format!("p50 {}, too few requests for p99", human(p50)),
        (None, _) => "no response times".to_owned(),
    }
}

fn trust(report: &Report) -> String {
    let doubts = doubts(report);
    if !doubts.is_empty() {
        return format!("Look before you trust this: {}.", doubts.join("; "));
    }
    if is_empty(report) {
        return "Measure for longer (--duration), or look whether the target answers.".to_owned();
    }
    "You can trust this: every reply passed verification, and the generator kept up.".to_owned()
}

/// Each in a few words; warnings and table say more of it.
fn doubts(report: &Report) -> Vec<String> {
    let mut doubts = Vec::new();
    if report.failures.count > 0 {
        doubts.push(counted(report.failures.count, "failure", "failures"));
    }
    match report.bottleneck {
        Some(Bottleneck::Generator { .. }) => doubts.push("the generator was the bottleneck".to_owned()),
        Some(Bottleneck::Target { kept_up: Some(_), .. }) => {
            doubts.push("the target fell behind, so times grow with the run's length".to_owned());
            doubts.extend(own_delay(report));
        }
        _ => doubts.extend(own_delay(report)),
    }
    if let Some(scheduled) = report.scheduled.as_ref().filter(|scheduled| scheduled.unsent > 0) {
        doubts.push(format!("{} of {} requests were never sent", scheduled.unsent, scheduled.arrivals));
    }
    doubts.extend(cut_off(report));
    let outside = report.errors.values().sum::<u64>().saturating_sub(report.all_operations.errors);
    if report.all_operations.errors > 0 {
        doubts.push("error replies count as answers".to_owned());
    } else if outside > 0 {
        let errors = counted(outside, "error reply", "error replies");
        doubts.push(format!("{errors} outside of the measured phase"));
    }
    if report.foreign_values > 0 {
        let values = counted(report.foreign_values, "value was", "values were");
        doubts.push(format!("{values} written by another run"));
    }
    doubts
}

/// In an open loop, what the generator itself adds to the times, if that is much of them.
fn own_delay(report: &Report) -> Option<String> {
    let (PacingReport::Open { .. }, Some(scheduled)) = (&report.config.pacing, &report.scheduled) else {
        return None;
    };
    let (own, all) = (scheduled.lateness.p99_ns? as f64, report.all_operations.response_time.p99_ns? as f64);
    let (own_time, all_time) = (human_time(own), human_time(all));
    (own > OWN_DELAY_MAX * all).then(|| {
        format!("the generator's own delay is much of the times: its p99 is {own_time} of {all_time}")
    })
}

/// In a closed loop, requests under way at the end, if the times do not show how long one of them took.
fn cut_off(report: &Report) -> Option<String> {
    let (requests, slowest_ns) = report.under_way.slowest();
    let longest_ns = report.all_operations.response_time.max_ns;
    if requests == 0 || longest_ns.is_some_and(|longest_ns| slowest_ns <= longest_ns) {
        return None;
    }
    let answers = counted(requests, "answer", "answers");
    let slowest = human_time(slowest_ns as f64);
    Some(format!("{answers} came after the end, the slowest after {slowest}, which no time shows"))
}

/// Whether the measured phase has no answer at all.
fn is_empty(report: &Report) -> bool {
    report.all_operations.requests == 0 && report.throughput_rps == 0.0
}

fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// Above this share of the response times' 99th percentile, that of the lateness speaks against them.
const OWN_DELAY_MAX: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::pacing::schedule::Process;
    use crate::recorder::{Outcome, Recorder, Times};
    use crate::report::tests::{at, report, report_with};
    use weir_timing::Operation;

    const SECOND: u64 = 1_000_000_000;
    const TRUSTED: &str = "You can trust this: every reply passed verification, and the generator kept up.";

    fn check(report: &Report, expected: [&str; 2]) {
        assert_eq!(Answer(report).to_string().lines().collect::<Vec<_>>(), expected);
    }

    /// Answers of 1 µs in the measured phase, of which these many are errors.
    fn answered(recorder: &mut Recorder, gets: u64, errors: u64) {
        for number in 0..gets {
            let moment = at(3 * SECOND + number);
            let times =
                Times { belongs_to: moment, completed: moment, response_time_ns: 1000, from_send_ns: None };
            let outcome = Outcome { error: number < errors, keys: 1, ..Outcome::default() };
            recorder.record_answer(times, Operation::Get, outcome, true);
        }
        (0..errors).for_each(|_| recorder.record_error_text(b"SERVER_ERROR busy"));
    }

    /// 2.5 s in which every millisecond something arrives.
    fn open(record: impl FnOnce(&mut Recorder)) -> Report {
        let settings = Settings { pacing: Settings::offered("1000", Process::Fixed), ..Settings::example() };
        report_with(settings, |recorder| {
            recorder.set_late_after(SECOND);
            (0..2500).for_each(|number| recorder.record_arrival(at(2 * SECOND + number * 1_000_000), 0));
            record(recorder);
        })
    }

    #[test]
    fn a_sound_run_says_its_rate_and_times_and_that_nothing_speaks_against_it() {
        let closed = report(|recorder| answered(recorder, 500, 0));
        check(&closed, ["Answered 200 requests/s, no error replies; p50 1.00 µs, p99 1.00 µs.", TRUSTED]);
        let few = report(|recorder| answered(recorder, 5, 0));
        check(
            &few,
            ["Answered 2 requests/s, no error replies; p50 1.00 µs, too few requests for p99.", TRUSTED],
        );
        let open = open(|recorder| answered(recorder, 2500, 0));
        let reached = "Offered 1000 requests/s, answered 1000, no error replies; p50 1.00 µs, p99 1.00 µs.";
        check(&open, [reached, TRUSTED]);
    }

    #[test]
    fn the_rate_is_that_of_the_record_and_the_times_are_those_of_the_table() {
        let report = report(|recorder| answered(recorder, 777, 0));
        let json: serde_json::Value =
            serde_json::from_str(&report.to_json().expect("it serializes")).expect("it is JSON");
        let said = Answer(&report).to_string();
        let rate = json["throughput_rps"].as_f64().expect("a number");
        assert!(said.starts_with(&format!("Answered {rate:.0} requests/s")), "{said}");
        let summary = report.summary().to_string();
        let all = summary.lines().find(|line| line.starts_with("all")).expect("a row of all operations");
        assert!(all.contains(&format!("  {rate:.0}  ")), "{all}");
        let p99 = json["operations"]["get"]["response_time"]["p99_ns"].as_f64().expect("a number");
        assert!(
            said.contains(&format!("p99 {}.", human_time(p99))) && all.contains(&human_time(p99)),
            "{said}"
        );
    }

    #[test]
    fn what_speaks_against_a_run_is_named() {
        let refused = report(|recorder| {
            answered(recorder, 500, 2);
            recorder.record_failure(at(3 * SECOND), &"torn");
            recorder.record_foreign_values(1);
        });
        check(
            &refused,
            [
                "Answered 200 requests/s, 2 error replies; p50 1.00 µs, p99 1.00 µs.",
                "Look before you trust this: 1 failure; error replies count as answers; 1 value was written by another run.",
            ],
        );
        let before = report(|recorder| {
            answered(recorder, 500, 0);
            recorder.record_error_text(b"SERVER_ERROR busy");
        });
        assert!(Answer(&before).to_string().contains(": 1 error reply outside of the measured phase."));
    }

    #[test]
    fn an_open_loop_that_fell_behind_is_no_number_to_repeat() {
        let behind = open(|recorder| {
            answered(recorder, 1000, 0);
            (0..500).for_each(|number| recorder.record_unsent(at(3 * SECOND + number)));
        });
        check(
            &behind,
            [
                "Offered 1000 requests/s, answered 400, no error replies; p50 1.00 µs, p99 1.00 µs.",
                "Look before you trust this: the target fell behind, so times grow with the run's length; \
                 500 of 2500 requests were never sent.",
            ],
        );
        let late = open(|recorder| {
            answered(recorder, 2500, 0);
            (0..100).for_each(|number| recorder.record_late(at(3 * SECOND + number), 2 * SECOND));
        });
        assert!(Answer(&late).to_string().ends_with(": the generator was the bottleneck.\n"));
    }

    /// Requests of an open loop that became due in the measured phase and were answered `response_time_ns` later.
    fn arrived(recorder: &mut Recorder, gets: u64, response_time_ns: u64) {
        for number in 0..gets {
            let belongs_to = at(2 * SECOND + number * 1_000_000);
            let completed = belongs_to.plus(response_time_ns);
            let from_send_ns = Some(1000);
            let times = Times { belongs_to, completed, response_time_ns, from_send_ns };
            recorder.record_answer(times, Operation::Get, Outcome { keys: 1, ..Outcome::default() }, true);
        }
    }

    #[test]
    fn a_target_that_answers_only_after_the_end_fell_behind() {
        let late = open(|recorder| arrived(recorder, 2500, 3 * SECOND));
        check(
            &late,
            [
                "Offered 1000 requests/s, answered 0, no error replies; p50 3.00 s, p99 3.00 s.",
                "Look before you trust this: the target fell behind, so times grow with the run's length.",
            ],
        );
    }

    #[test]
    fn what_answers_asked_for_is_no_part_of_what_was_offered() {
        let twice = open(|recorder| {
            arrived(recorder, 2500, 1000);
            for number in 0..2500 {
                let moment = at(2 * SECOND + number * 1_000_000);
                let times = Times {
                    belongs_to: moment,
                    completed: moment,
                    response_time_ns: 1000,
                    from_send_ns: Some(1000),
                };
                let outcome = Outcome { keys: 1, is_follow_up: true, ..Outcome::default() };
                recorder.record_answer(times, Operation::Set, outcome, true);
            }
        });
        let reached = "Offered 1000 requests/s, answered 1000 (2000 with those that answers asked for), \
                       no error replies; p50 1.00 µs, p99 1.00 µs.";
        check(&twice, [reached, TRUSTED]);
        assert_eq!(twice.throughput_rps, 2000.0);
    }

    #[test]
    fn times_of_which_much_is_the_generators_own_are_doubted() {
        let with_lateness = |late_ns| {
            let report = open(|recorder| {
                arrived(recorder, 2500, 1000);
                (0..2500).for_each(|number| recorder.record_late(at(3 * SECOND + number), late_ns));
            });
            Answer(&report).to_string().lines().nth(1).expect("two sentences").to_owned()
        };
        assert_eq!(with_lateness(100), TRUSTED);
        assert_eq!(
            with_lateness(900),
            "Look before you trust this: the generator's own delay is much of the times: its p99 is 900 ns of 1.00 µs."
        );
    }

    #[test]
    fn a_stall_that_runs_into_the_end_is_named_where_the_times_do_not_show_it() {
        let stalled = |response_time_ns| {
            let report = report(|recorder| {
                answered(recorder, 500, 0);
                for number in 0..3 {
                    let moment = at(5 * SECOND + number);
                    let times = Times {
                        belongs_to: moment,
                        completed: moment,
                        response_time_ns: response_time_ns + number,
                        from_send_ns: None,
                    };
                    recorder.record_answer(times, Operation::Get, Outcome::default(), true);
                }
            });
            Answer(&report).to_string().lines().nth(1).expect("two sentences").to_owned()
        };
        assert_eq!(stalled(998), TRUSTED);
        assert_eq!(
            stalled(2 * SECOND),
            "Look before you trust this: 3 answers came after the end, the slowest after 2.00 s, which no time shows."
        );
    }

    #[test]
    fn where_nothing_was_measured_it_says_what_to_do() {
        let nothing = "Nothing was answered in the measured phase.";
        check(
            &report(|_| {}),
            [nothing, "Measure for longer (--duration), or look whether the target answers."],
        );
        let failed = report(|recorder| recorder.record_failure(at(3 * SECOND), &"no answer"));
        check(&failed, [nothing, "Look before you trust this: 1 failure."]);
    }
}
