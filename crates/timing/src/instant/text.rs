//! Times as people write them.

use std::time::Duration;

/// A time: `500ms`, `10s`, `2m`, `1h`, `250us`. Nothing but 0 goes without its unit: one program takes 400 for seconds, the next
/// for milliseconds.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let scale = match unit {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("the unit {unit:?} is none of us, ms, s, m, h")),
    };
    let value: f64 =
        number.parse().map_err(|_| "a time is a number and a unit, such as 500ms or 10s".to_owned())?;
    if unit.is_empty() && value != 0.0 {
        return Err(format!(
            "{number} has no unit: write {number}us, {number}ms, {number}s, {number}m or {number}h"
        ));
    }
    Duration::try_from_secs_f64(value * scale).map_err(|error| error.to_string())
}

/// The same time as [`duration`] reads it, in the longest unit up to seconds that leaves no fraction.
pub fn duration_text(time: Duration) -> String {
    match time.as_nanos() {
        nanos if nanos.is_multiple_of(1_000_000_000) => format!("{}s", nanos / 1_000_000_000),
        nanos if nanos.is_multiple_of(1_000_000) => format!("{}ms", nanos / 1_000_000),
        nanos if nanos.is_multiple_of(1_000) => format!("{}us", nanos / 1_000),
        nanos => format!("{}us", nanos as f64 / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("250 us"), Ok(Duration::from_micros(250)));
        for bad in ["", "ms", "10 parsecs", "-1s", "1.2.3s", "1e400s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_time_without_its_unit_is_refused_but_for_0() {
        for zero in ["0", "0.0", "0ms", "0s"] {
            assert_eq!(duration(zero), Ok(Duration::ZERO), "{zero}");
        }
        for bare in ["400", "3", "0.5"] {
            let reason = duration(bare).unwrap_err();
            assert_eq!(
                reason,
                format!("{bare} has no unit: write {bare}us, {bare}ms, {bare}s, {bare}m or {bare}h")
            );
        }
    }

    #[test]
    fn a_time_is_written_as_it_is_read() {
        for (time, text) in
            [("0", "0s"), ("1.5s", "1500ms"), ("2m", "120s"), ("250 us", "250us"), ("0.5us", "0.5us")]
        {
            let read = duration(time).expect("a time");
            assert_eq!(duration_text(read), text);
            assert_eq!(duration(text), Ok(read));
        }
    }
}
