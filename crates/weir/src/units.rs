//! Units on the command line.

use serde::Deserialize;
use std::str::FromStr;

pub(crate) use weir_load::units::{duration, unix_time};

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

/// A part of a whole: above 0, at most 1.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub(crate) struct Share(f64);

/// It is never `NaN`.
impl Eq for Share {}

impl Share {
    pub(crate) const fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Share {
    type Error = String;

    fn try_from(share: f64) -> Result<Self, String> {
        let is_share = share > 0.0 && share <= 1.0;
        is_share.then_some(Self(share)).ok_or_else(|| format!("{share} is not above 0 and at most 1"))
    }
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let share: f64 =
            text.parse().map_err(|_| "a share is a number above 0 and at most 1, such as 0.01".to_owned())?;
        share.try_into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_above_nothing_and_no_more_than_all() {
        assert_eq!("0.25".parse::<Share>().map(Share::get), Ok(0.25));
        assert_eq!("1".parse::<Share>().map(Share::get), Ok(1.0));
        for bad in ["0", "-0.1", "1.01", "NaN", "inf", "", "1%"] {
            assert!(bad.parse::<Share>().is_err(), "{bad}");
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
