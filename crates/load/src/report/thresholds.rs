//! What a run may not come to: conditions such as `p99>2ms` under which it counts as failed.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use weir_timing::{DistributionReport, Operation};

use crate::report::summary::human_time;
use crate::report::{OperationReport, Report, ratio};
use crate::units;

/// A condition under which a run fails: `[OPERATION.]METRIC COMPARISON VALUE`.
///
/// Metrics of response times are `mean`, `max`, `p50`, `p90`, `p95`, `p99`, `p99.9` and `p99.99`. `rate` is what was answered within the
/// measured phase, in requests per second.
/// `requests`, `errors`, `misses`, `failures`, `unsent` and `late` are counts, or with `%` shares of the requests (`misses`: of the keys).
/// With an operation's name and a dot before it, a metric is that operation's alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    text: String,
    operation: Option<Operation>,
    metric: Metric,
    comparison: Comparison,
    value: f64,
    is_share: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Metric {
    Mean,
    Max,
    P50,
    P90,
    P95,
    P99,
    P999,
    P9999,
    Rate,
    Requests,
    Errors,
    Misses,
    Failures,
    Unsent,
    Late,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// What a run came to, held against one threshold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// The threshold as given.
    pub threshold: String,
    /// What was measured: nanoseconds, requests per second, a count or a share. `None` where it is withheld or there is none.
    pub value: Option<f64>,
    /// Whether the run fails by it. A value that is unknown fails.
    pub crossed: bool,
}

impl FromStr for Threshold {
    type Err = String;

    fn from_str(text: &str) -> Result<Threshold, String> {
        let at =
            text.find(['<', '>']).ok_or_else(|| format!("{text:?} compares nothing: as in 'p99>2ms'"))?;
        let (name, rest) = (text[..at].trim(), &text[at..]);
        let (comparison, value) = Comparison::split(rest);
        let (operation, metric) = parse_name(name)?;
        if operation.is_some() && metric.is_of_the_run() {
            return Err(format!("{name}: that is counted for all operations together"));
        }
        let value = value.trim();
        let (value, is_share) = match value.strip_suffix('%') {
            Some(percent) if metric.is_count() => (units::rate(percent.trim())? / 100.0, true),
            _ if metric.is_time() => (units::duration(value)?.as_nanos() as f64, false),
            _ => (units::rate(value)?, false),
        };
        Ok(Threshold { text: text.to_owned(), operation, metric, comparison, value, is_share })
    }
}

fn parse_name(name: &str) -> Result<(Option<Operation>, Metric), String> {
    if let Some(metric) = Metric::named(name) {
        return Ok((None, metric));
    }
    let unknown = || {
        let names: Vec<_> = Metric::ALL.iter().map(|(name, _)| *name).collect();
        format!(
            "{name:?} is no metric: there are {}, each also of one operation, as get.p99",
            names.join(", ")
        )
    };
    let (operation, metric) = name.split_once('.').ok_or_else(unknown)?;
    let operation = Operation::ALL.into_iter().find(|known| known.name() == operation).ok_or_else(unknown)?;
    Ok((Some(operation), Metric::named(metric).ok_or_else(unknown)?))
}

impl Metric {
    const ALL: [(&str, Metric); 15] = [
        ("mean", Metric::Mean),
        ("max", Metric::Max),
        ("p50", Metric::P50),
        ("p90", Metric::P90),
        ("p95", Metric::P95),
        ("p99", Metric::P99),
        ("p99.9", Metric::P999),
        ("p99.99", Metric::P9999),
        ("rate", Metric::Rate),
        ("requests", Metric::Requests),
        ("errors", Metric::Errors),
        ("misses", Metric::Misses),
        ("failures", Metric::Failures),
        ("unsent", Metric::Unsent),
        ("late", Metric::Late),
    ];

    fn named(name: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find_map(|(known, metric)| (known == name).then_some(metric))
    }

    fn is_count(self) -> bool {
        use Metric::{Errors, Failures, Late, Misses, Unsent};
        matches!(self, Errors | Misses | Failures | Unsent | Late)
    }

    fn is_of_the_run(self) -> bool {
        matches!(self, Metric::Failures | Metric::Unsent | Metric::Late)
    }

    fn is_time(self) -> bool {
        !self.is_count() && !matches!(self, Metric::Rate | Metric::Requests)
    }

    fn of_times(self, times: &DistributionReport) -> Option<f64> {
        let whole = match self {
            Metric::Mean => return times.mean_ns,
            Metric::Max => times.max_ns,
            Metric::P50 => times.p50_ns,
            Metric::P90 => times.p90_ns,
            Metric::P95 => times.p95_ns,
            Metric::P99 => times.p99_ns,
            Metric::P999 => times.p999_ns,
            Metric::P9999 => times.p9999_ns,
            _ => None,
        };
        whole.map(|nanos| nanos as f64)
    }
}

impl Comparison {
    /// The comparison at the beginning of `text`, and what follows it.
    fn split(text: &str) -> (Comparison, &str) {
        for (sign, comparison) in [
            (">=", Comparison::AtLeast),
            ("<=", Comparison::AtMost),
            (">", Comparison::Above),
            ("<", Comparison::Below),
        ] {
            if let Some(rest) = text.strip_prefix(sign) {
                return (comparison, rest);
            }
        }
        (Comparison::Above, text)
    }

    fn holds(self, found: f64, value: f64) -> bool {
        match self {
            Comparison::Above => found > value,
            Comparison::AtLeast => found >= value,
            Comparison::Below => found < value,
            Comparison::AtMost => found <= value,
        }
    }
}

impl Threshold {
    /// Holds a run against the threshold.
    pub(crate) fn judge(&self, report: &Report) -> Judgement {
        let value = match self.operation {
            None => self.value_of(&report.all_operations, report),
            Some(operation) => {
                report.operations.get(operation.name()).and_then(|operation| self.value_of(operation, report))
            }
        };
        let crossed = value.is_none_or(|found| self.comparison.holds(found, self.value));
        Judgement { threshold: self.text.clone(), value, crossed }
    }

    fn value_of(&self, operation: &OperationReport, report: &Report) -> Option<f64> {
        let measured_s = report.phases.measured.duration_ns as f64 / 1e9;
        let scheduled = report.scheduled.as_ref();
        let (count, of) = match self.metric {
            Metric::Rate => return ratio(operation.completed as f64, measured_s),
            Metric::Requests => (operation.requests, operation.requests),
            Metric::Errors => (operation.errors, operation.requests),
            Metric::Misses => (operation.misses, operation.keys),
            Metric::Failures => (report.failures_count(), operation.requests),
            // Where nothing is scheduled, nothing is late.
            Metric::Unsent => scheduled.map_or((0, 1), |counts| (counts.unsent, counts.arrivals)),
            Metric::Late => scheduled.map_or((0, 1), |counts| (counts.late, counts.arrivals)),
            time => return time.of_times(&operation.response_time),
        };
        if self.is_share { ratio(count as f64, of as f64) } else { Some(count as f64) }
    }

    fn is_time(&self) -> bool {
        self.metric.is_time()
    }
}

/// `p99>2ms: it is 3.10 ms`.
pub(crate) fn describe(threshold: &Threshold, judgement: &Judgement) -> String {
    match judgement.value {
        None => format!("{threshold}: too little was measured to tell"),
        Some(nanos) if threshold.is_time() => format!("{threshold}: it is {}", human_time(nanos)),
        Some(share) if threshold.is_share => format!("{threshold}: it is {:.3} %", share * 100.0),
        Some(number) => format!("{threshold}: it is {number:.0}"),
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::pacing::schedule::Process;
    use crate::recorder::{Outcome, Times};
    use crate::report::tests::{at, report_of, report_with};

    fn threshold(text: &str) -> Threshold {
        text.parse().expect("the threshold is well-formed")
    }

    #[test]
    fn what_is_no_threshold_is_refused_with_a_reason() {
        for (text, reason) in [
            ("p99", "compares nothing"),
            ("p98>2ms", "is no metric"),
            ("frob.p99>2ms", "is no metric"),
            ("p99>x", "is none of us"),
            ("rate<1ms", "is no rate"),
            ("p99>2%", "is none of"),
            ("get.failures>0", "all operations together"),
        ] {
            let error = text.parse::<Threshold>().expect_err(text);
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    /// A hundred gets of 1000 ns in 2.5 s.
    #[test]
    fn runs_are_judged() {
        let report = report_of(100);
        for (text, value, crossed) in [
            ("p50>2us", Some(1000.0), false),
            ("p50 >= 1us", Some(1000.0), true),
            ("p50>1us", Some(1000.0), false),
            ("get.max<1ms", Some(1000.0), true),
            ("mean<=1us", Some(1000.0), true),
            ("rate<50", Some(40.0), true),
            ("rate<40", Some(40.0), false),
            ("get.rate<=40", Some(40.0), true),
            ("requests<100", Some(100.0), false),
            ("errors>0", Some(0.0), false),
            ("misses>0.1%", Some(0.0), false),
            ("failures>0", Some(0.0), false),
            ("p99>1s", None, true),
            ("p99.9>1s", None, true),
            ("set.p50>1s", None, true),
            ("unsent>0", Some(0.0), false),
            ("late>1%", Some(0.0), false),
        ] {
            let judgement = threshold(text).judge(&report);
            assert_eq!((judgement.value, judgement.crossed), (value, crossed), "{text}");
        }
    }

    /// Of 2500 arrivals in 2.5 s the last 1500 are answered after the end.
    #[test]
    fn a_rate_is_what_was_answered_within_the_measured_phase() {
        let settings = Settings { pacing: Settings::offered("1000", Process::Fixed), ..Settings::example() };
        let report = report_with(settings, |recorder| {
            for number in 0..2500 {
                let belongs_to = at(2_000_000_000 + number * 1_000_000);
                let response_time_ns = if number < 1000 { 1000 } else { 4_000_000_000 };
                let completed = belongs_to.plus(response_time_ns);
                let times = Times { belongs_to, completed, response_time_ns, from_send_ns: Some(1000) };
                recorder.record_answer(times, Operation::Get, Outcome::default(), true);
            }
        });
        for (text, value, crossed) in [
            ("rate<401", Some(400.0), true),
            ("get.rate<400", Some(400.0), false),
            ("set.rate<1", Some(0.0), true),
            ("requests<2500", Some(2500.0), false),
        ] {
            let judgement = threshold(text).judge(&report);
            assert_eq!((judgement.value, judgement.crossed), (value, crossed), "{text}");
        }
        let summary = report.summary().to_string();
        let all = summary.lines().find(|line| line.starts_with("all")).expect("a row of all operations");
        assert!(all.split_whitespace().take(3).eq(["all", "2500", "400"]), "{all}");
    }

    #[test]
    fn a_crossed_threshold_says_what_was_found() {
        let report = report_of(100);
        for (text, expected) in [
            ("p50>500us", "p50>500us: it is 1.00 µs"),
            ("p99.9>1s", "p99.9>1s: too little was measured to tell"),
            ("errors>=0%", "errors>=0%: it is 0.000 %"),
            ("rate<1k", "rate<1k: it is 40"),
        ] {
            let threshold = threshold(text);
            assert_eq!(describe(&threshold, &threshold.judge(&report)), expected);
        }
    }
}
