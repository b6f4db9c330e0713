//! Amounts that differ: sizes of keys and values, keys of a multi-get, expiry times, requests of a connection.
//!
//! Every amount is its distribution's quantile function at a number between 0 and 1. Where that number is random the amount
//! is drawn anew; where it is a hash of a key, the key has the same amount at any time and on any connection.

use std::fmt;
use std::str::FromStr;

/// A distribution over whole numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Amount {
    /// Always the same.
    Fixed(u64),
    /// Every whole number between two, both included, as often as every other.
    Uniform {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// Numbers or ranges of them, each with a weight.
    List(Vec<Part>),
    /// The generalised Pareto distribution, rounded to the nearest whole number and at least 0.
    Pareto(Tail),
    /// The generalised extreme value distribution, rounded to the nearest whole number and at least 0.
    Extreme(Tail),
    /// The value sizes of Facebook's ETC pool: a table up to 14 bytes, a generalised Pareto tail from 15.
    ///
    /// Atikoglu, Xu, Frachtenberg, Jiang and Paleczny, "Workload analysis of a large-scale key-value store", SIGMETRICS 2012,
    /// section 5: the first fifteen sizes with their shares, and theta 0, sigma 214.476, k 0.348238 for what lies above them.
    EtcValue,
}

/// A part of a list: the numbers from `least` to `most`, with `weight` together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part {
    /// The least.
    pub least: u64,
    /// The most.
    pub most: u64,
    /// Its weight against those of the other parts; above 0.
    pub weight: f64,
}

/// Parameters of a distribution with a tail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tail {
    /// Where it lies.
    pub location: f64,
    /// How wide it is; above 0.
    pub scale: f64,
    /// How heavy its tail is: above 0 without end, 0 exponential, below 0 with an end.
    pub shape: f64,
}

impl Amount {
    /// The key sizes of Facebook's ETC pool: a generalised extreme value distribution with the parameters of the article
    /// that [`Amount::EtcValue`] names. Its shape is the article's, whose tail is heavy for a positive one.
    pub const ETC_KEY: Amount = Amount::Extreme(Tail { location: 30.7984, scale: 8.20449, shape: 0.078688 });

    /// The amount below which a share `quantile` of all amounts lies; `quantile` is at least 0 and below 1.
    #[inline]
    pub(crate) fn at(&self, quantile: f64) -> u64 {
        match self {
            Amount::Fixed(amount) => *amount,
            Amount::Uniform { least, most } => within(*least, *most, quantile),
            Amount::List(parts) => at_list(parts, quantile),
            Amount::Pareto(tail) => tail.pareto(quantile).round() as u64,
            Amount::Extreme(tail) => tail.extreme(quantile).round() as u64,
            Amount::EtcValue => at_etc_value(quantile),
        }
    }

    /// The least that can be drawn.
    pub(crate) fn least(&self) -> u64 {
        match self {
            Amount::List(parts) => parts.iter().map(|part| part.least).min().unwrap_or(0),
            other => other.at(0.0),
        }
    }

    /// The most that can be drawn, given that a distribution is cut off at `bound`.
    pub(crate) fn most(&self, bound: u64) -> u64 {
        match self {
            Amount::Fixed(amount) => *amount,
            Amount::Uniform { most, .. } => bound.min(*most),
            Amount::List(parts) => bound.min(parts.iter().map(|part| part.most).max().unwrap_or(0)),
            Amount::Pareto(_) | Amount::Extreme(_) | Amount::EtcValue => bound.min(self.at(ALMOST_ONE)),
        }
    }

    /// The mean of what is drawn where a distribution is cut off at `bound`, from a fine grid of quantiles.
    pub(crate) fn mean(&self, bound: u64) -> f64 {
        if let Amount::Fixed(amount) = self {
            return *amount as f64;
        }
        let sum: f64 = (0..MEAN_POINTS)
            .map(|n| self.at((f64::from(n) + 0.5) / f64::from(MEAN_POINTS)).min(bound) as f64)
            .sum();
        sum / f64::from(MEAN_POINTS)
    }
}

impl Tail {
    fn pareto(&self, quantile: f64) -> f64 {
        let rest = 1.0 - quantile;
        let above = if self.shape == 0.0 { -rest.ln() } else { (rest.powf(-self.shape) - 1.0) / self.shape };
        self.location + self.scale * above
    }

    fn extreme(&self, quantile: f64) -> f64 {
        let hazard = -quantile.max(f64::MIN_POSITIVE).ln();
        let above =
            if self.shape == 0.0 { -hazard.ln() } else { (hazard.powf(-self.shape) - 1.0) / self.shape };
        self.location + self.scale * above
    }
}

fn within(least: u64, most: u64, quantile: f64) -> u64 {
    least + ((quantile * ((most - least) as f64 + 1.0)) as u64).min(most - least)
}

fn at_list(parts: &[Part], quantile: f64) -> u64 {
    let total: f64 = parts.iter().map(|part| part.weight).sum();
    let mut rest = quantile * total;
    for part in parts {
        if rest < part.weight {
            return within(part.least, part.most, rest / part.weight);
        }
        rest -= part.weight;
    }
    // Rounding may leave a rest behind the last part.
    parts.last().map_or(0, |part| part.most)
}

fn at_etc_value(quantile: f64) -> u64 {
    let mut below = 0.0;
    for (size, share) in ETC_SMALL_VALUES.iter().enumerate() {
        below += share;
        if quantile < below {
            return size as u64;
        }
    }
    let tail = Tail { location: ETC_SMALL_VALUES.len() as f64, scale: 214.476, shape: 0.348238 };
    tail.pareto((quantile - below) / (1.0 - below)).round() as u64
}

/// Shares of values of 0 to 14 bytes, as published; together 0.44155.
const ETC_SMALL_VALUES: [f64; 15] = [
    0.00536, 0.00047, 0.17820, 0.09239, 0.00018, 0.02740, 0.00065, 0.00606, 0.00023, 0.00837, 0.00837,
    0.08989, 0.00092, 0.00326, 0.01980,
];
/// The largest number below 1 that a random draw gives.
const ALMOST_ONE: f64 = 1.0 - f64::EPSILON / 2.0;
const MEAN_POINTS: u32 = 100_000;
/// Long lists are searched part by part at every draw.
const PARTS_MAX: usize = 256;

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Fixed(amount) => write!(f, "{amount}"),
            Amount::Uniform { least, most } => write!(f, "{least}-{most}"),
            Amount::List(parts) => {
                for (number, part) in parts.iter().enumerate() {
                    let comma = if number == 0 { "" } else { "," };
                    if part.least == part.most {
                        write!(f, "{comma}{}={}", part.least, part.weight)?;
                    } else {
                        write!(f, "{comma}{}-{}={}", part.least, part.most, part.weight)?;
                    }
                }
                Ok(())
            }
            Amount::Pareto(tail) => write!(f, "pareto:{tail}"),
            Amount::Extreme(_) if *self == Amount::ETC_KEY => f.write_str("etc-key"),
            Amount::Extreme(tail) => write!(f, "gev:{tail}"),
            Amount::EtcValue => f.write_str("etc-value"),
        }
    }
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.location, self.scale, self.shape)
    }
}

impl FromStr for Amount {
    type Err = String;

    /// `128`, `16-64`, `64=0.7,1024-2048=0.3`, `pareto:LOCATION,SCALE,SHAPE`, `gev:LOCATION,SCALE,SHAPE`, `etc-key`,
    /// `etc-value`.
    fn from_str(text: &str) -> Result<Amount, String> {
        if let Some(parameters) = text.strip_prefix("pareto:") {
            return parameters.parse().map(Amount::Pareto);
        }
        if let Some(parameters) = text.strip_prefix("gev:") {
            return parameters.parse().map(Amount::Extreme);
        }
        match text {
            "etc-key" => return Ok(Amount::ETC_KEY),
            "etc-value" => return Ok(Amount::EtcValue),
            _ => {}
        }
        if text.contains('=') {
            return parse_list(text);
        }
        let (least, most) = parse_range(text)?;
        Ok(if least == most { Amount::Fixed(least) } else { Amount::Uniform { least, most } })
    }
}

impl FromStr for Tail {
    type Err = String;

    fn from_str(text: &str) -> Result<Tail, String> {
        let numbers: Vec<f64> = text
            .split(',')
            .map(|number| number.parse().ok().filter(|number: &f64| number.is_finite()))
            .collect::<Option<_>>()
            .ok_or_else(|| {
                format!("{text:?}: a location, a scale and a shape are numbers, such as 0,214.476,0.348")
            })?;
        match numbers[..] {
            [location, scale, shape] if scale > 0.0 => Ok(Tail { location, scale, shape }),
            [_, _, _] => Err(format!("{text:?}: the scale must be above 0")),
            _ => Err(format!("{text:?}: three numbers are needed, a location, a scale and a shape")),
        }
    }
}

fn parse_list(text: &str) -> Result<Amount, String> {
    let parts = text
        .split(',')
        .map(|part| {
            let (range, weight) = part
                .split_once('=')
                .ok_or_else(|| format!("{part:?} has no weight: a list is written 64=0.7,1024=0.3"))?;
            let (least, most) = parse_range(range)?;
            let weight: f64 = weight.parse().map_err(|_| format!("{part:?}: the weight is no number"))?;
            if !weight.is_finite() || weight < 0.0 {
                return Err(format!("{part:?}: a weight is a number of at least 0"));
            }
            Ok(Part { least, most, weight })
        })
        .filter(|part| !matches!(part, Ok(Part { weight: 0.0, .. })))
        .collect::<Result<Vec<_>, _>>()?;
    match parts.len() {
        0 => Err(format!("{text:?}: at least one weight must be above 0")),
        1..=PARTS_MAX => Ok(Amount::List(parts)),
        more => Err(format!("{more} parts are more than {PARTS_MAX}")),
    }
}

fn parse_range(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| {
        text.trim().parse::<u64>().map_err(|_| {
            format!("{text:?} is none of: a number, LEAST-MOST, N=WEIGHT,…, pareto:L,S,K, gev:L,S,K, etc-key, etc-value")
        })
    };
    let (least, most) = match text.split_once('-') {
        Some((least, most)) => (number(least)?, number(most)?),
        None => (number(text)?, number(text)?),
    };
    if least > most {
        return Err(format!("{text:?}: the range is empty"));
    }
    Ok((least, most))
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::content::fit::{chi_square_bound, chi_square_of};

    fn draws(amount: &Amount, count: usize) -> Vec<u64> {
        let mut rng = SmallRng::seed_from_u64(11);
        (0..count).map(|_| amount.at(rng.random())).collect()
    }

    /// Draws pass a chi-square test at 0.001 against the probabilities that `cdf` gives to the bins between `edges`.
    fn check_fit(amount: &str, edges: &[f64], cdf: impl Fn(f64) -> f64) {
        let amount: Amount = amount.parse().expect("a distribution");
        let drawn = draws(&amount, 200_000);
        let mut observed = vec![0_u64; edges.len() + 1];
        for value in &drawn {
            observed[edges.partition_point(|&edge| edge < *value as f64)] += 1;
        }
        let mut below = 0.0;
        let mut expected = Vec::new();
        for &edge in edges {
            expected.push((cdf(edge) - below) * drawn.len() as f64);
            below = cdf(edge);
        }
        expected.push((1.0 - below) * drawn.len() as f64);
        let statistic = chi_square_of(&observed, &expected);
        let bound = chi_square_bound(edges.len());
        assert!(
            statistic < bound,
            "{amount}: {statistic} is above {bound}: {observed:?} against {expected:?}"
        );
    }

    fn pareto_cdf(location: f64, scale: f64, shape: f64) -> impl Fn(f64) -> f64 {
        move |x| 1.0 - (1.0 + shape * (x - location).max(0.0) / scale).powf(-1.0 / shape)
    }

    #[test]
    fn generalised_pareto_draws_follow_its_distribution() {
        // Amounts are rounded, so bins end between two whole numbers.
        let edges = [9.5, 49.5, 99.5, 200.5, 400.5, 800.5, 1600.5, 3200.5];
        check_fit("pareto:0,214.476,0.348238", &edges, pareto_cdf(0.0, 214.476, 0.348238));
        check_fit("pareto:5,100,0", &edges[..5], |x| 1.0 - (-(x - 5.0).max(0.0) / 100.0).exp());
        check_fit("pareto:0,1000,-0.5", &edges[..6], pareto_cdf(0.0, 1000.0, -0.5));
    }

    #[test]
    fn generalised_extreme_value_draws_follow_its_distribution() {
        let edges = [15.5, 20.5, 25.5, 30.5, 35.5, 40.5, 50.5, 60.5, 80.5];
        let gev = |x: f64| (-(1.0 + 0.078688 * (x - 30.7984) / 8.20449).powf(-1.0 / 0.078688)).exp();
        check_fit("etc-key", &edges, gev);
        check_fit("gev:30,8,0", &edges, |x| (-(-(x - 30.0) / 8.0).exp()).exp());
    }

    #[test]
    fn the_small_values_of_etc_follow_the_published_table() {
        let edges: Vec<f64> =
            (0..15).map(|size| f64::from(size) + 0.5).chain([50.5, 100.5, 300.5, 1000.5, 4000.5]).collect();
        let small: f64 = ETC_SMALL_VALUES.iter().sum();
        assert!((small - 0.44155).abs() < 1e-12, "the published shares add up to {small}");
        let tail = pareto_cdf(15.0, 214.476, 0.348238);
        check_fit("etc-value", &edges, |x| {
            if x < 15.0 {
                ETC_SMALL_VALUES[..=x as usize].iter().sum()
            } else {
                small + (1.0 - small) * tail(x)
            }
        });
    }

    #[test]
    fn lists_and_ranges_follow_their_weights() {
        check_fit("10-19", &(10..19).map(|n| f64::from(n) + 0.5).collect::<Vec<_>>(), |x| (x - 9.5) / 10.0);
        check_fit("1=6,2=3,10-19=1", &[1.5, 2.5, 14.5], |x| match x as u64 {
            1 => 0.6,
            2 => 0.9,
            _ => 0.95,
        });
    }

    #[test]
    fn amounts_are_read_as_they_are_written() {
        for text in [
            "0",
            "128",
            "16-64",
            "64=0.7,1024-2048=0.3",
            "pareto:0,214.476,0.348238",
            "gev:30,8,0",
            "etc-value",
            "etc-key",
        ] {
            let amount: Amount = text.parse().expect("an amount");
            assert_eq!(amount.to_string(), text);
        }
        for bad in [
            "",
            "x",
            "-1",
            "9-1",
            "1=,2=1",
            "1=0",
            "1=-1",
            "1=NaN",
            "1=inf",
            "pareto:1,2",
            "pareto:1,0,1",
            "gev:a,b,c",
            "64=1,65",
        ] {
            assert!(bad.parse::<Amount>().is_err(), "{bad}");
        }
    }

    #[test]
    fn bounds_hold_for_every_draw() {
        for text in ["7", "3-9", "1=1,5-8=2", "pareto:0,1000,-0.5", "etc-key", "etc-value"] {
            let amount: Amount = text.parse().expect("an amount");
            let (least, most) = (amount.least(), amount.most(u64::MAX));
            assert!(draws(&amount, 10_000).iter().all(|drawn| (least..=most).contains(drawn)), "{text}");
        }
        // The table's part and that of the tail, (15 + sigma / (1 - k)) (1 - 0.44155), added up by hand.
        let mean = Amount::EtcValue.mean(1_000_000);
        assert!((mean - 194.4).abs() < 0.5, "{mean}");
    }
}
