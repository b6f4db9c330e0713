//! Numbers with units, as people write them.

use std::time::Duration;

pub use weir_timing::duration;

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
