//! Numbers with units, as people write them.

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

/// A moment in seconds since 1970, as `date +%s` writes it; it may have a fraction.
pub fn unix_time(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .filter(|time| time.as_nanos() <= u128::from(u64::MAX))
        .ok_or_else(|| format!("{text:?} is no time: seconds since 1970, as 'date +%s' writes them"))
}

/// A rate in requests per second: `1000`, `2.5k`, `1M`.
pub fn rate(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.char_indices().last() {
        Some((at, 'k')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        _ => (text, 1.0),
    };
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number * scale),
        _ => Err(format!("{text:?} is no rate: a number of requests per second, such as 1000, 2.5k or 1M")),
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
    fn moments_are_seconds_since_1970() {
        assert_eq!(unix_time("1700000000.5"), Ok(Duration::from_millis(1_700_000_000_500)));
        for bad in ["", "now", "-1", "1e30", "NaN"] {
            assert!(unix_time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates_may_be_thousands_and_millions() {
        assert_eq!(rate("1000"), Ok(1000.0));
        assert_eq!(rate("2.5k"), Ok(2500.0));
        assert_eq!(rate("1M"), Ok(1e6));
        assert_eq!(rate("0"), Ok(0.0));
        for bad in ["", "k", "-1", "inf", "NaN", "1G", "1e999"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }
}
