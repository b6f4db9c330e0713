use std::fmt;
use std::str::FromStr;

/// A server's share of the keys relative to the other servers: a decimal number above 0 with at most nine digits on
/// either side of the point. Most placements take whole numbers alone.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight {
    billionths: u64,
}

/// A text that is no weight.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("weight {0:?} is no number above 0 with at most nine digits before and after the point")]
pub struct WeightError(String);

const ONE: u64 = 1_000_000_000;
const DIGITS: usize = 9;

impl Weight {
    /// What servers weigh unless something else is said.
    pub const ONE: Self = Self { billionths: ONE };

    /// A whole weight. Zero is one that no pool accepts.
    pub const fn whole(weight: u32) -> Self {
        Self { billionths: weight as u64 * ONE }
    }

    /// Whether it is 0.
    pub const fn is_zero(self) -> bool {
        self.billionths == 0
    }

    /// The weight, if it is a whole number that fits.
    pub fn to_whole(self) -> Option<u32> {
        self.billionths.is_multiple_of(ONE).then(|| u32::try_from(self.billionths / ONE).ok()).flatten()
    }

    /// The nearest float: the one that the decimal number is read as everywhere.
    pub fn to_f64(self) -> f64 {
        // Below 2^53 and exact: the quotient of two exact numbers is rounded once.
        self.billionths as f64 / ONE as f64
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.billionths % ONE {
            0 => write!(formatter, "{}", self.billionths / ONE),
            part => {
                let part = format!("{part:09}");
                write!(formatter, "{}.{}", self.billionths / ONE, part.trim_end_matches('0'))
            }
        }
    }
}

impl FromStr for Weight {
    type Err = WeightError;

    fn from_str(text: &str) -> Result<Self, WeightError> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let number = |digits: &str| {
            let valid = (1..=DIGITS).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
            digits.parse::<u64>().ok().filter(|_| valid)
        };
        let billionths = number(whole)
            .zip(number(part))
            .map(|(whole, value)| whole * ONE + value * 10u64.pow((DIGITS - part.len()) as u32));
        match billionths {
            Some(billionths) if billionths > 0 => Ok(Self { billionths }),
            _ => Err(WeightError(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        for (text, whole, float) in [
            ("1", Some(1), 1.0),
            ("0.333", None, 0.333),
            ("2.50", None, 2.5),
            ("999999999", Some(999_999_999), 999_999_999.0),
        ] {
            let weight: Weight = text.parse().unwrap();
            assert_eq!((weight.to_whole(), weight.to_f64()), (whole, float));
        }
        assert_eq!("2.50".parse::<Weight>().unwrap().to_string(), "2.5");
        assert_eq!("0.000000001".parse::<Weight>().unwrap().to_string(), "0.000000001");
    }

    #[test]
    fn what_is_no_weight_is_refused() {
        for text in
            ["", "0", "0.0", "-1", "+1", "1.", ".5", "1e3", "x", "1234567890", "0.1234567891", "1.2.3"]
        {
            assert_eq!(text.parse::<Weight>(), Err(WeightError(text.to_owned())), "{text}");
        }
    }
}
