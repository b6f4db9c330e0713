//! Units on the command line and in the file.

use serde::{Deserialize, Deserializer, de};
use std::{fmt, str::FromStr};

pub(crate) use weir_load::units::{duration, unix_time};

/// `4096b`, `64k`, `1m`, `1g`, with or without `b` or `ib` behind the letter: powers of 1024, as memcached's own options. Nothing but 0
/// goes without its unit: one program takes 64 for bytes, the next for megabytes.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim();
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        _ => return Err(format!("the unit {unit:?} is none of b, k, m, g")),
    };
    let is_number = !number.is_empty();
    let value: usize = number.parse().map_err(|_| match is_number {
        true => "that is more than can be counted".to_owned(),
        false => "a size is a number and a unit, such as 64k or 1m".to_owned(),
    })?;
    if unit.is_empty() && value != 0 {
        return Err(format!(
            "{number} has no unit: write {number}b for bytes, {number}k, {number}m or {number}g"
        ));
    }
    value.checked_mul(1 << shift).ok_or_else(|| "that is more than can be counted".to_owned())
}

/// A text of the file that says how much: what is no text is told which units there are.
macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $expected:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub(crate) struct $name(String);

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visitor;
                impl de::Visitor<'_> for Visitor {
                    type Value = $name;

                    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                        formatter.write_str($expected)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        Ok($name(text.to_owned()))
                    }
                }
                deserializer.deserialize_str(Visitor)
            }
        }
    };
}

quantity! {
    /// For [`duration`].
    TimeText, "a time with its unit (us, ms, s, m, h), in quotes, such as \"400ms\""
}

quantity! {
    /// For [`bytes`].
    SizeText, "a size with its unit (b, k, m, g), in quotes, such as \"64k\""
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
        assert_eq!(bytes("4096b"), Ok(4096));
        assert_eq!(bytes("0"), Ok(0));
        assert_eq!(bytes("64k"), Ok(64 << 10));
        assert_eq!(bytes("1 MiB"), Ok(1 << 20));
        assert_eq!(bytes("2G"), Ok(2 << 30));
        for bad in ["", "m", "1.5m", "-1", "1t", "99999999999g", "99999999999999999999"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_size_without_its_unit_is_refused() {
        let reason = bytes("64").unwrap_err();
        assert_eq!(reason, "64 has no unit: write 64b for bytes, 64k, 64m or 64g");
    }
}
