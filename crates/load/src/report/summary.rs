//! What is shown at the end of a run: its answer, its table, and times as people write them.

use std::fmt::{self, Write as _};

use weir_timing::DistributionReport;

use crate::report::{OperationReport, Report, ScheduledReport, ratio};

/// A report as a small table.
#[derive(Debug, Clone, Copy)]
pub struct Summary<'a>(&'a Report);

impl<'a> Summary<'a> {
    pub(crate) fn new(report: &'a Report) -> Summary<'a> {
        Summary(report)
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        let seconds = report.phases.measured.duration_ns as f64 / 1e9;
        let mut rows = vec![COLUMNS.map(str::to_owned)];
        for (name, operation) in &report.operations {
            rows.push(row(name, operation, seconds));
        }
        rows.push(row("all", &report.all_operations, seconds));
        if let Some(times) = &report.all_operations.response_time_from_send {
            let mut row = COLUMNS.map(|_| String::new());
            row[0] = "from send".to_owned();
            row[3..TIMES_END].clone_from_slice(&times_of(times));
            rows.push(row);
        }
        write_table(f, &rows)?;
        if let Some(scheduled) = &report.scheduled {
            write_scheduled(f, scheduled)?;
        }
        let per_request = report.cpu.per_request_ns.map_or("-".to_owned(), human_time);
        writeln!(
            f,
            "measured {seconds:.2} s; generator CPU {per_request} per request, {:.0} % of its threads' time",
            report.cpu.generator_busy * 100.0
        )?;
        match &report.bottleneck {
            Some(bottleneck) => writeln!(f, "{bottleneck}"),
            None => Ok(()),
        }
    }
}

fn write_table(f: &mut fmt::Formatter<'_>, rows: &[[String; COLUMNS.len()]]) -> fmt::Result {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    for row in rows {
        let mut line = format!("{:<first$}", row[0], first = width(0));
        for (column, cell) in row.iter().enumerate().skip(1) {
            write!(line, "  {cell:>width$}", width = width(column))?;
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

fn write_scheduled(f: &mut fmt::Formatter<'_>, scheduled: &ScheduledReport) -> fmt::Result {
    writeln!(
        f,
        "scheduled {} requests, {:.0}/s; {} late, lateness p99 {}; backlog at most {}; {} never sent",
        scheduled.arrivals,
        scheduled.offered_rate_rps,
        scheduled.late,
        time(scheduled.lateness.p99_ns.map(|nanos| nanos as f64)),
        scheduled.backlog_max,
        scheduled.unsent
    )
}

const COLUMNS: [&str; 12] =
    ["", "requests", "rate/s", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max", "misses", "errors"];
/// Times stand in the columns from 3 to before this one.
const TIMES_END: usize = 10;

fn row(name: &str, operation: &OperationReport, seconds: f64) -> [String; COLUMNS.len()] {
    let rate = ratio(operation.completed as f64, seconds);
    let [mean, p50, p90, p99, p999, p9999, max] = times_of(&operation.response_time);
    [
        name.to_owned(),
        operation.requests.to_string(),
        rate.map_or("-".to_owned(), |rate| format!("{rate:.0}")),
        mean,
        p50,
        p90,
        p99,
        p999,
        p9999,
        max,
        operation.misses.to_string(),
        operation.errors.to_string(),
    ]
}

fn times_of(times: &DistributionReport) -> [String; 7] {
    let whole = |nanos: Option<u64>| time(nanos.map(|nanos| nanos as f64));
    let DistributionReport { mean_ns, p50_ns, p90_ns, p99_ns, p999_ns, p9999_ns, max_ns, .. } = *times;
    [
        time(mean_ns),
        whole(p50_ns),
        whole(p90_ns),
        whole(p99_ns),
        whole(p999_ns),
        whole(p9999_ns),
        whole(max_ns),
    ]
}

/// A time, or a dash where there is none or too little was measured to tell.
fn time(nanos: Option<f64>) -> String {
    nanos.map_or("-".to_owned(), human_time)
}

/// A time with three significant digits and its unit.
pub(crate) fn human_time(nanos: f64) -> String {
    let (scaled, unit) = match nanos {
        nanos if nanos < 999.5 => (nanos, "ns"),
        nanos if nanos < 999.5e3 => (nanos / 1e3, "µs"),
        nanos if nanos < 999.5e6 => (nanos / 1e6, "ms"),
        _ => (nanos / 1e9, "s"),
    };
    let digits = if scaled < 9.995 { 2 } else { usize::from(scaled < 99.95) };
    format!("{scaled:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::report_of;

    #[test]
    fn the_table_withholds_what_the_sample_does_not_support() {
        let text = report_of(500).summary().to_string();
        let lines: Vec<&str> = text.lines().collect();
        let cells = |line: usize| lines[line].split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        assert_eq!(cells(0).collect::<Vec<_>>(), &COLUMNS[1..]);
        let all =
            ["all", "500", "200", "1.00 µs", "1.00 µs", "1.00 µs", "1.00 µs", "-", "-", "1.00 µs", "0", "0"];
        assert_eq!(cells(3).collect::<Vec<_>>(), all);
        assert!(lines[4].starts_with("measured 2.50 s; generator CPU 4.00 ms per request"), "{text}");
    }

    #[test]
    fn times_are_written_with_three_digits() {
        let pairs = [
            (0.0, "0.00 ns"),
            (999.0, "999 ns"),
            (1234.0, "1.23 µs"),
            (99_960.0, "100 µs"),
            (999_700.0, "1.00 ms"),
            (1.5e9, "1.50 s"),
            (123.4e9, "123 s"),
        ];
        for (nanos, text) in pairs {
            assert_eq!(human_time(nanos), text);
        }
    }
}
