//! A run as a table, and times as people write them.

use std::fmt::{self, Write as _};

use crate::report::{OperationReport, Report, ratio};

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
        let columns = ["", "requests", "rate/s", "mean", "p50", "p90", "p99", "p99.9", "misses", "errors"];
        let mut rows = vec![columns.map(str::to_owned)];
        for (name, operation) in &report.operations {
            rows.push(row(name, operation, seconds));
        }
        rows.push(row("all", &report.all_operations, seconds));
        for row in &rows {
            let mut line = format!("{:<9}", row[0]);
            for (column, cell) in row.iter().enumerate().skip(1) {
                let width = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
                write!(line, "  {cell:>width$}")?;
            }
            writeln!(f, "{line}")?;
        }
        let per_request = report.cpu.per_request_ns.map_or("-".to_owned(), human_time);
        writeln!(
            f,
            "measured {seconds:.2} s; generator CPU {per_request} per request, {:.0} % of its threads' time",
            report.cpu.generator_busy * 100.0
        )
    }
}

fn row(name: &str, operation: &OperationReport, seconds: f64) -> [String; 10] {
    let time = |nanos: Option<f64>| nanos.map_or("-".to_owned(), human_time);
    let whole = |nanos: Option<u64>| time(nanos.map(|nanos| nanos as f64));
    let times = &operation.response_time;
    [
        name.to_owned(),
        operation.requests.to_string(),
        ratio(operation.requests as f64, seconds).map_or("-".to_owned(), |rate| format!("{rate:.0}")),
        time(times.mean_ns),
        whole(times.p50_ns),
        whole(times.p90_ns),
        whole(times.p99_ns),
        whole(times.p999_ns),
        operation.misses.to_string(),
        operation.errors.to_string(),
    ]
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
