//! What a run found: as a record (`docs/reference/formats.md`, `weir.load/1`), and as sentences (`answer`) above a table (`summary`).
//!
//! `bottleneck` says who set the pace: generator, target or neither; `thresholds` are conditions under which a run fails;
//! `progress` is what is shown meanwhile.

pub(crate) mod answer;
pub(crate) mod bottleneck;
pub(crate) mod progress;
pub(crate) mod summary;
pub(crate) mod thresholds;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use weir_timing::{DistributionReport, Instant, Operation};

use crate::config::{Config, Pacing};
use crate::content::Content;
use crate::driver::clock::Clock;
use crate::driver::cpu::CpuTime;
use crate::recorder::phase::{Phase, Timeline};
use crate::recorder::{Failures, OperationCounts, Recorder, UnderWay, WINDOW_NS};
use crate::report::bottleneck::{Bottleneck, Evidence, kept_up};
use crate::report::summary::Summary;
use crate::report::thresholds::{Judgement, Threshold, describe};
use crate::workload::VALUE_SIZE_DRAWN_MAX;
use crate::workload::keyspace::KEY_SIZE_MAX;

/// A run's record. Serialized, it is the schema `weir.load/1`.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    schema: &'static str,
    weir_version: &'static str,
    weir_commit: &'static str,
    config: ConfigReport,
    pub(crate) phases: Phases,
    pub(crate) operations: BTreeMap<&'static str, OperationReport>,
    pub(crate) throughput_rps: f64,
    under_way: UnderWay,
    pub(crate) scheduled: Option<ScheduledReport>,
    windows: Vec<WindowReport>,
    pub(crate) cpu: CpuReport,
    pub(crate) bottleneck: Option<Bottleneck>,
    thresholds: Vec<Judgement>,
    failures: Failures,
    errors: BTreeMap<String, u64>,
    foreign_values: u64,
    #[serde(skip)]
    pub(crate) all_operations: OperationReport,
    /// Thresholds that were crossed, as sentences.
    #[serde(skip)]
    crossed: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
struct ConfigReport {
    targets: Vec<String>,
    connections: usize,
    depth: usize,
    threads: usize,
    duration_ns: u64,
    warmup_ns: u64,
    write_ratio: f64,
    value_size_bytes: u64,
    key_size_bytes: u64,
    keys: u64,
    multiget_keys: u64,
    content: Content,
    replay: Option<PathBuf>,
    prefill: bool,
    timeout_ns: u64,
    seed: u64,
    pacing: PacingReport,
    start_at_unix_ns: Option<u64>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "loop", rename_all = "snake_case")]
enum PacingReport {
    Closed { think_time: String },
    Open { rate: String, arrivals: String, assignment: &'static str, backlog: usize, late_after_ns: u64 },
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Phases {
    prefill: PhaseReport,
    warmup: PhaseReport,
    pub(crate) measured: PhaseReport,
    drain: PhaseReport,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct PhaseReport {
    start_unix_ns: u64,
    pub(crate) duration_ns: u64,
    requests: u64,
    errors: u64,
    misses: u64,
    keys: u64,
    failures: u64,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct OperationReport {
    pub(crate) requests: u64,
    pub(crate) keys: u64,
    hits: u64,
    pub(crate) misses: u64,
    pub(crate) errors: u64,
    /// Requests of any moment that were completed in the measured phase.
    completed: u64,
    pub(crate) response_time: DistributionReport,
    /// Open loop: from sending.
    pub(crate) response_time_from_send: Option<DistributionReport>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct ScheduledReport {
    pub(crate) arrivals: u64,
    pub(crate) offered_rate_rps: f64,
    /// Requests of any moment that were answered in the measured phase, without those that answers had asked for.
    completed: u64,
    pub(crate) unsent: u64,
    pub(crate) late: u64,
    pub(crate) backlog_max: u64,
    pub(crate) lateness: DistributionReport,
}

#[derive(Debug, Clone, Serialize)]
struct WindowReport {
    index: usize,
    start_ns: u64,
    length_ns: u64,
    requests: u64,
    errors: u64,
    misses: u64,
    failures: u64,
    response_time_sum_ns: u64,
    completed: u64,
    arrivals: u64,
    operations: BTreeMap<&'static str, u64>,
}

#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct CpuReport {
    user_ns: u64,
    system_ns: u64,
    /// `null` where no request was measured.
    pub(crate) per_request_ns: Option<f64>,
    /// Share of the threads' time in the measured phase that was CPU time.
    pub(crate) generator_busy: f64,
    /// The largest share of the measured phase in which one thread had something to do.
    pub(crate) busiest_thread: f64,
}

/// What a report is made of.
pub(crate) struct Measurements {
    pub(crate) recorder: Recorder,
    pub(crate) clock: Clock,
    pub(crate) prefill_began: Instant,
    pub(crate) timeline: Timeline,
    pub(crate) finished: Instant,
    /// CPU time of the measured phase.
    pub(crate) cpu: CpuTime,
}

impl Report {
    pub(crate) fn new(config: &Config, measurements: &Measurements) -> Report {
        let Measurements { recorder, timeline, .. } = measurements;
        let expected = config.operations();
        let names: Vec<Operation> = Operation::ALL
            .into_iter()
            .filter(|name| {
                let counts = recorder.operation(*name);
                expected.contains(name) || counts.requests > 0 || counts.completed > 0
            })
            .collect();
        let mut all = OperationCounts::default();
        for &operation in &names {
            all.add(recorder.operation(operation));
        }
        let measured_ns = timeline.measured_ns();
        let windows = windows(recorder, measured_ns, &names);
        let completed: u64 = windows.iter().map(|window| window.completed).sum();
        let per_second = |count: u64| ratio(count as f64 * 1e9, measured_ns as f64).unwrap_or(0.0);
        let cpu = CpuReport::new(config, measurements, completed);
        let scheduled = config.is_scheduled().then(|| ScheduledReport::new(recorder, per_second));
        let all_operations = OperationReport::new(&all, config.is_open());
        let evidence = Evidence {
            pacing: &config.pacing,
            completed,
            kept_up: kept_up(recorder.scheduled(), all_operations.response_time.p25_ns, measured_ns),
            busiest: cpu.busiest_thread.max(cpu.generator_busy),
            scheduled: recorder.scheduled(),
            mean_response_ns: all_operations.response_time.mean_ns,
        };
        Report {
            schema: "weir.load/1",
            weir_version: env!("CARGO_PKG_VERSION"),
            weir_commit: config.commit,
            config: ConfigReport::new(config),
            phases: Phases::new(measurements),
            operations: names
                .iter()
                .map(|&name| (name.name(), OperationReport::new(recorder.operation(name), config.is_open())))
                .collect(),
            throughput_rps: per_second(completed),
            under_way: recorder.under_way(),
            scheduled,
            windows,
            cpu,
            bottleneck: evidence.bottleneck(),
            thresholds: Vec::new(),
            failures: recorder.failures().clone(),
            errors: recorder.errors().clone(),
            foreign_values: recorder.foreign_values(),
            all_operations,
            crossed: Vec::new(),
        }
    }

    /// Holds the run against thresholds, which become part of the record.
    pub fn judge(&mut self, thresholds: &[Threshold]) {
        for threshold in thresholds {
            let judgement = threshold.judge(self);
            if judgement.crossed {
                self.crossed.push(describe(threshold, &judgement));
            }
            self.thresholds.push(judgement);
        }
    }

    /// The thresholds that were crossed, one sentence each.
    pub fn crossed(&self) -> &[String] {
        &self.crossed
    }

    /// Whether something was answered, and everything that was passed verification.
    pub fn is_good(&self) -> bool {
        self.failures.count == 0 && self.is_answered()
    }

    pub(crate) fn failures_count(&self) -> u64 {
        self.failures.count
    }

    fn is_answered(&self) -> bool {
        let Phases { prefill, warmup, measured, drain } = self.phases;
        [prefill, warmup, measured, drain].iter().any(|phase| phase.requests > 0)
    }

    /// What the user should know before trusting the numbers, one sentence each. Who set the pace stands in the summary.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.is_answered() {
            warnings.push("no request was ever answered".to_owned());
        }
        if self.failures.count > 0 {
            warnings.push(format!("{} failures; the first:", self.failures.count));
            warnings
                .extend(self.failures.first.iter().take(FAILURES_SHOWN).map(|first| format!("  {first}")));
        }
        for (text, count) in &self.errors {
            warnings.push(format!("{count} error replies: {text}"));
        }
        if let Some(scheduled) = self.scheduled.as_ref().filter(|scheduled| scheduled.unsent > 0) {
            warnings.push(format!(
                "{} of {} arrivals were never sent: the backlog was full, the connection was given up, or the time for draining was over; \
                 response times leave them out",
                scheduled.unsent, scheduled.arrivals
            ));
        }
        if self.foreign_values > 0 {
            warnings.push(format!("{} values read were written by another run", self.foreign_values));
        }
        warnings
    }

    /// The table that is shown at the end, below the [`Answer`](crate::Answer).
    pub fn summary(&self) -> Summary<'_> {
        Summary::new(self)
    }

    /// The record as JSON, with a line end.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|json| json + "\n")
    }
}

impl ConfigReport {
    fn new(config: &Config) -> ConfigReport {
        ConfigReport {
            targets: config.targets.clone(),
            connections: config.connections,
            depth: config.depth,
            threads: config.threads,
            duration_ns: config.duration.as_nanos() as u64,
            warmup_ns: config.warmup.as_nanos() as u64,
            write_ratio: config.content.mix.write_ratio(),
            value_size_bytes: config.content.value_size.mean(VALUE_SIZE_DRAWN_MAX as u64).round() as u64,
            key_size_bytes: config.content.key_size.mean(KEY_SIZE_MAX as u64).round() as u64,
            keys: config.keys,
            multiget_keys: config.content.multiget.mean(u64::MAX).round() as u64,
            content: config.content.clone(),
            replay: config.replay.clone(),
            prefill: config.prefill,
            timeout_ns: config.timeout.as_nanos() as u64,
            seed: config.seed,
            pacing: PacingReport::new(config),
            start_at_unix_ns: config.start_at.map(|start| start.as_nanos() as u64),
        }
    }
}

impl PacingReport {
    fn new(config: &Config) -> PacingReport {
        match &config.pacing {
            Pacing::Closed { think_time } => PacingReport::Closed { think_time: think_time.to_string() },
            Pacing::Open { schedule, process, assignment } => PacingReport::Open {
                rate: schedule.to_string(),
                arrivals: process.to_string(),
                assignment: assignment.name(),
                backlog: config.backlog_max(),
                late_after_ns: config.late_after.as_nanos() as u64,
            },
        }
    }
}

impl CpuReport {
    fn new(config: &Config, measurements: &Measurements, completed: u64) -> CpuReport {
        let Measurements { recorder, timeline, cpu, .. } = measurements;
        let measured_ns = timeline.measured_ns();
        let least_waited_ns = recorder.threads_waited_ns().iter().min().copied().unwrap_or(measured_ns);
        let busiest_ns = measured_ns.saturating_sub(least_waited_ns);
        CpuReport {
            user_ns: cpu.user_ns,
            system_ns: cpu.system_ns,
            per_request_ns: ratio(cpu.total_ns() as f64, completed as f64),
            generator_busy: ratio(cpu.total_ns() as f64, measured_ns as f64 * config.threads as f64)
                .unwrap_or(0.0),
            busiest_thread: ratio(busiest_ns as f64, measured_ns as f64).unwrap_or(0.0),
        }
    }
}

impl ScheduledReport {
    fn new(recorder: &Recorder, per_second: impl Fn(u64) -> f64) -> ScheduledReport {
        let counts = recorder.scheduled();
        ScheduledReport {
            arrivals: counts.arrivals,
            offered_rate_rps: per_second(counts.arrivals),
            completed: counts.completed,
            unsent: counts.unsent,
            late: counts.late,
            backlog_max: counts.backlog_max,
            lateness: counts.lateness.report(),
        }
    }
}

impl Phases {
    fn new(measurements: &Measurements) -> Phases {
        let Measurements { recorder, clock, prefill_began, timeline, finished, .. } = measurements;
        let phase = |phase, start, duration_ns| {
            let counts = recorder.phase(phase);
            PhaseReport {
                start_unix_ns: clock.unix_ns(start),
                duration_ns,
                requests: counts.requests,
                errors: counts.errors,
                misses: counts.misses,
                keys: counts.keys,
                failures: counts.failures,
            }
        };
        let measured = timeline.measured.min(timeline.end);
        Phases {
            prefill: phase(Phase::Prefill, *prefill_began, timeline.warmup.saturating_since(*prefill_began)),
            warmup: phase(Phase::Warmup, timeline.warmup, timeline.warmup_ns()),
            measured: phase(Phase::Measured, measured, timeline.measured_ns()),
            drain: phase(Phase::Drain, timeline.end, finished.saturating_since(timeline.end)),
        }
    }
}

impl OperationReport {
    fn new(counts: &OperationCounts, is_open: bool) -> OperationReport {
        OperationReport {
            requests: counts.requests,
            keys: counts.keys,
            hits: counts.hits,
            misses: counts.misses,
            errors: counts.errors,
            completed: counts.completed,
            response_time: counts.response_time.report(),
            response_time_from_send: is_open.then(|| counts.response_time_from_send.report()),
        }
    }
}

/// Consecutive windows over the measured phase; the last may be shorter.
fn windows(recorder: &Recorder, measured_ns: u64, operations: &[Operation]) -> Vec<WindowReport> {
    (0..measured_ns.div_ceil(WINDOW_NS))
        .map(|index| {
            let counts = recorder.window(index as usize);
            let start_ns = index * WINDOW_NS;
            WindowReport {
                index: index as usize,
                start_ns,
                length_ns: WINDOW_NS.min(measured_ns - start_ns),
                requests: counts.requests,
                errors: counts.errors,
                misses: counts.misses,
                failures: counts.failures,
                response_time_sum_ns: counts.response_time_sum_ns,
                completed: counts.completed,
                arrivals: counts.arrivals,
                operations: operations
                    .iter()
                    .map(|name| (name.name(), counts.operations[name.index()]))
                    .collect(),
            }
        })
        .collect()
}

/// A quotient, where there is one.
pub(crate) fn ratio(numerator: f64, denominator: f64) -> Option<f64> {
    (denominator > 0.0).then(|| numerator / denominator)
}

const FAILURES_SHOWN: usize = 5;

#[cfg(test)]
pub(crate) mod tests;
