//! Units on the command line.

use std::time::Duration;

/// `500ms`, `10s`, `2m`, `1h`, `250us`; a bare number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, unit) = text.split_at(digits);
    let scale = match unit.trim() {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("the unit {unit:?} is none of us, ms, s, m, h")),
    };
    let number: f64 =
        number.parse().map_err(|_| "a time is a number and a unit, such as 500ms or 10s".to_owned())?;
    Duration::try_from_secs_f64(number * scale).map_err(|error| error.to_string())
}

/// `4096`, `64k`, `1m`, `1g`, with or without `b` or `ib` behind the letter: powers of 1024, as memcached's own options.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(format!("the unit {unit:?} is none of k, m, g")),
    };
    let number: usize =
        number.parse().map_err(|_| "a size is a number, and perhaps a unit, such as 64k or 1m".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "that is more than can be counted".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("3"), Ok(Duration::from_secs(3)));
        for bad in ["", "ms", "10 parsecs", "-1s", "1.2.3s", "1e400s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("64k"), Ok(64 << 10));
        assert_eq!(bytes("1 MiB"), Ok(1 << 20));
        assert_eq!(bytes("2G"), Ok(2 << 30));
        for bad in ["", "m", "1.5m", "-1", "1t", "99999999999g", "99999999999999999999"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }
}
