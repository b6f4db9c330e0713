//! How often each key is asked for.

use std::fmt;
use std::str::FromStr;

use rand::Rng;

/// How requests are spread over the keys. Key 0 is the most popular one where keys differ, but for `Gaussian`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Popularity {
    /// Every key as often as every other.
    Uniform,
    /// One key after the other; each connection begins at its own place in the round.
    Sequential,
    /// The key of rank r, counted from 1, with a probability proportional to 1 / r^exponent.
    Zipf {
        /// 0 is uniform; production caches lie between 0.3 and 2.7.
        exponent: f64,
    },
    /// Around a key in the middle, by a normal distribution cut off at the first and the last key.
    Gaussian {
        /// Where its middle lies, as a share of the keys.
        center: f64,
        /// Its standard deviation, as a share of the keys.
        deviation: f64,
    },
    /// A share of the keys gets a share of the requests; within both parts all keys are alike.
    Hot {
        /// Share of the keys that are hot.
        keys: f64,
        /// Share of the requests that go to them.
        requests: f64,
    },
}

/// Draws keys with a popularity, at a cost that does not depend on their number.
#[derive(Debug, Clone)]
pub(crate) struct Picker {
    keys: u64,
    kind: Kind,
}

#[derive(Debug, Clone)]
enum Kind {
    Uniform,
    Sequential { next: u64 },
    Zipf(Zipf),
    Gaussian { center: f64, deviation: f64 },
    Hot { hot: u64, requests: f64 },
}

impl Picker {
    /// Draws from keys `0..keys`. `place` is where a sequential round begins, as a share of the keys.
    pub(crate) fn new(popularity: Popularity, keys: u64, place: f64) -> Picker {
        let kind = match popularity {
            Popularity::Sequential => Kind::Sequential { next: ((place * keys as f64) as u64).min(keys - 1) },
            Popularity::Zipf { exponent } if exponent > 0.0 => Kind::Zipf(Zipf::new(keys, exponent)),
            Popularity::Uniform | Popularity::Zipf { .. } => Kind::Uniform,
            Popularity::Gaussian { center, deviation } => {
                Kind::Gaussian { center: center * keys as f64, deviation: deviation * keys as f64 }
            }
            Popularity::Hot { keys: share, requests } => {
                Kind::Hot { hot: ((share * keys as f64).round() as u64).clamp(1, keys), requests }
            }
        };
        Picker { keys, kind }
    }

    /// Draws one key.
    #[inline]
    pub(crate) fn draw(&mut self, rng: &mut impl Rng) -> u64 {
        match &mut self.kind {
            Kind::Uniform => rng.random_range(0..self.keys),
            Kind::Sequential { next } => {
                let key = *next;
                *next = if key + 1 < self.keys { key + 1 } else { 0 };
                key
            }
            Kind::Zipf(zipf) => zipf.draw(rng) - 1,
            Kind::Gaussian { center, deviation } => gaussian(*center, *deviation, self.keys, rng),
            Kind::Hot { hot, requests } => {
                if *hot == self.keys || rng.random::<f64>() < *requests {
                    rng.random_range(0..*hot)
                } else {
                    rng.random_range(*hot..self.keys)
                }
            }
        }
    }

    /// Appends `count` distinct keys. There must be at least as many keys.
    pub(crate) fn draw_distinct(&mut self, count: usize, rng: &mut impl Rng, drawn: &mut Vec<u64>) {
        let start = drawn.len();
        while drawn.len() < start + count {
            let mut key = self.draw(rng);
            let mut draws = 1;
            while drawn[start..].contains(&key) {
                draws += 1;
                // Where nearly all keys are asked for at once, drawing again would go on for long: take the next free one.
                key = if draws <= DRAWS_MAX { self.draw(rng) } else { (key + 1) % self.keys };
            }
            drawn.push(key);
        }
    }
}

/// Zipf's distribution over ranks from 1, by rejection-inversion: W. Hörmann and G. Derflinger, "Rejection-inversion to
/// generate variates from monotone discrete distributions", ACM TOMACS 6(3), 1996.
///
/// The area under x^-exponent is inverted, and the rank next to the point found is rejected where that area overstates its
/// probability. Less than one draw in ten is, for any exponent and any number of keys.
#[derive(Debug, Clone)]
struct Zipf {
    exponent: f64,
    keys: f64,
    /// The area up to half a rank before the first, and up to half a rank behind the last.
    area_first: f64,
    area_last: f64,
    /// Points closer than this before a rank are never rejected.
    squeeze: f64,
}

impl Zipf {
    fn new(keys: u64, exponent: f64) -> Zipf {
        let keys = keys as f64;
        let mut zipf = Zipf { exponent, keys, area_first: 0.0, area_last: 0.0, squeeze: 0.0 };
        zipf.area_first = zipf.area(1.5) - 1.0;
        zipf.area_last = zipf.area(keys + 0.5);
        zipf.squeeze = 2.0 - zipf.area_inverse(zipf.area(2.5) - zipf.weight(2.0));
        zipf
    }

    fn draw(&self, rng: &mut impl Rng) -> u64 {
        loop {
            let area = self.area_last + rng.random::<f64>() * (self.area_first - self.area_last);
            let point = self.area_inverse(area);
            let rank = point.round().clamp(1.0, self.keys);
            if rank - point <= self.squeeze || area >= self.area(rank + 0.5) - self.weight(rank) {
                return rank as u64;
            }
        }
    }

    fn weight(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    /// The integral of x^-exponent from 1 to x, written so that it is exact where the exponent is 1 or close to it.
    fn area(&self, x: f64) -> f64 {
        let log = x.ln();
        expm1_over((1.0 - self.exponent) * log) * log
    }

    fn area_inverse(&self, area: f64) -> f64 {
        // Rounding may lead below -1, of which there is no logarithm.
        let t = (area * (1.0 - self.exponent)).max(-1.0);
        (ln1p_over(t) * area).exp()
    }
}

/// (e^x - 1) / x, also where x is 0.
fn expm1_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.exp_m1() / x } else { 1.0 + x / 2.0 * (1.0 + x / 3.0) }
}

/// ln(1 + x) / x, also where x is 0.
fn ln1p_over(x: f64) -> f64 {
    if x.abs() > 1e-8 { x.ln_1p() / x } else { 1.0 - x * (0.5 - x / 3.0) }
}

/// A key near `center`, by Box and Muller's method. What lies outside is drawn again, and in the end put at the border.
fn gaussian(center: f64, deviation: f64, keys: u64, rng: &mut impl Rng) -> u64 {
    let mut point = center;
    for _ in 0..DRAWS_MAX {
        let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
        let angle = std::f64::consts::TAU * rng.random::<f64>();
        point = center + deviation * radius * angle.cos();
        if (0.0..keys as f64).contains(&point) {
            break;
        }
    }
    (point.max(0.0) as u64).min(keys - 1)
}

const DRAWS_MAX: usize = 16;

impl Popularity {
    /// Why no run can be made with it.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let share = |number: f64| (0.0..=1.0).contains(&number);
        match *self {
            Popularity::Zipf { exponent } if !(0.0..=EXPONENT_MAX).contains(&exponent) => {
                Some("the exponent must be between 0 and 10")
            }
            Popularity::Gaussian { center, deviation }
                if !share(center) || !share(deviation) || deviation == 0.0 =>
            {
                Some("center and deviation are shares of the keys, and the deviation is above 0")
            }
            Popularity::Hot { keys, requests } if !share(keys) || !share(requests) || keys == 0.0 => {
                Some("both are shares between 0 and 1, and that of the keys is above 0")
            }
            _ => None,
        }
    }
}

/// Above it practically every request goes to one key.
const EXPONENT_MAX: f64 = 10.0;

impl fmt::Display for Popularity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Popularity::Uniform => f.write_str("uniform"),
            Popularity::Sequential => f.write_str("sequential"),
            Popularity::Zipf { exponent } => write!(f, "zipf:{exponent}"),
            Popularity::Gaussian { center, deviation } => write!(f, "gaussian:{center},{deviation}"),
            Popularity::Hot { keys, requests } => write!(f, "hot:{keys},{requests}"),
        }
    }
}

impl FromStr for Popularity {
    type Err = String;

    /// `uniform`, `sequential`, `zipf:EXPONENT`, `gaussian:CENTER,DEVIATION`, `hot:KEYS,REQUESTS` (shares).
    fn from_str(text: &str) -> Result<Popularity, String> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let numbers = parameters
            .split(',')
            .filter(|number| !number.is_empty())
            .map(str::parse::<f64>)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| format!("{text:?}: the parameters are numbers"))?;
        let popularity = match (name, &numbers[..]) {
            ("uniform", []) => Popularity::Uniform,
            ("sequential", []) => Popularity::Sequential,
            ("zipf", &[exponent]) => Popularity::Zipf { exponent },
            ("gaussian", []) => Popularity::Gaussian { center: 0.5, deviation: 1.0 / 6.0 },
            ("gaussian", &[center, deviation]) => Popularity::Gaussian { center, deviation },
            ("hot", &[keys, requests]) => Popularity::Hot { keys, requests },
            _ => {
                return Err(format!(
                    "{text:?} is none of: uniform, sequential, zipf:EXPONENT, gaussian:CENTER,DEVIATION, hot:KEYS,REQUESTS"
                ));
            }
        };
        popularity.fault().map_or(Ok(popularity), |fault| Err(format!("{text:?}: {fault}")))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand::rngs::SmallRng;

    use super::*;
    use crate::content::fit::{chi_square_bound, chi_square_of};

    /// Draws pass a chi-square test at 0.001 against the probabilities of the keys, rare ones taken together.
    fn check_fit(popularity: &str, keys: u64, probability: impl Fn(u64) -> f64) {
        let mut picker = Picker::new(popularity.parse().expect("a popularity"), keys, 0.0);
        let mut rng = SmallRng::seed_from_u64(5);
        let mut counts = vec![0_u64; keys as usize];
        for _ in 0..DRAWS {
            counts[picker.draw(&mut rng) as usize] += 1;
        }
        let (mut observed, mut expected) = (vec![0], vec![0.0]);
        for key in 0..keys {
            *observed.last_mut().expect("never empty") += counts[key as usize];
            *expected.last_mut().expect("never empty") += probability(key) * DRAWS as f64;
            if *expected.last().expect("never empty") >= 20.0 && key + 1 < keys {
                observed.push(0);
                expected.push(0.0);
            }
        }
        let total: f64 = expected.iter().sum();
        assert!(
            (total / DRAWS as f64 - 1.0).abs() < 1e-6,
            "{popularity}: the probabilities add up to {total}"
        );
        let (statistic, bound) = (chi_square_of(&observed, &expected), chi_square_bound(observed.len() - 1));
        assert!(statistic < bound, "{popularity} over {keys} keys: {statistic} is above {bound}");
    }

    const DRAWS: u64 = 300_000;

    #[test]
    fn zipf_draws_follow_the_power_law_for_any_exponent() {
        for exponent in [0.0, 0.0242, 0.5, 0.99, 1.0, 1.000_000_01, 1.2, 2.0, 2.6774] {
            for keys in [1_u64, 2, 10, 5_000] {
                let norm: f64 = (1..=keys).map(|rank| (rank as f64).powf(-exponent)).sum();
                check_fit(&format!("zipf:{exponent}"), keys, |key| ((key + 1) as f64).powf(-exponent) / norm);
            }
        }
    }

    #[test]
    fn gaussian_draws_follow_the_normal_distribution() {
        let (center, deviation) = (500.0, 150.0);
        let density = |key: u64| {
            // Simpson's rule over the key's interval is exact to far below what the test can see.
            let at = |x: f64| (-(x - center) * (x - center) / (2.0 * deviation * deviation)).exp();
            (at(key as f64) + 4.0 * at(key as f64 + 0.5) + at(key as f64 + 1.0)) / 6.0
        };
        let norm: f64 = (0..1000).map(density).sum();
        check_fit("gaussian:0.5,0.15", 1000, |key| density(key) / norm);
    }

    #[test]
    fn uniform_and_hot_draws_follow_their_shares() {
        check_fit("uniform", 100, |_| 0.01);
        check_fit("hot:0.1,0.9", 200, |key| if key < 20 { 0.9 / 20.0 } else { 0.1 / 180.0 });
        check_fit("hot:1,0.5", 50, |_| 0.02);
    }

    #[test]
    fn sequential_draws_go_round_from_their_place() {
        let mut picker = Picker::new(Popularity::Sequential, 5, 0.6);
        let mut rng = SmallRng::seed_from_u64(1);
        let drawn: Vec<u64> = (0..7).map(|_| picker.draw(&mut rng)).collect();
        assert_eq!(drawn, [3, 4, 0, 1, 2, 3, 4]);
    }

    #[test]
    fn popularities_are_read_as_they_are_written() {
        for text in ["uniform", "sequential", "zipf:0.99", "gaussian:0.5,0.1", "hot:0.1,0.9"] {
            assert_eq!(text.parse::<Popularity>().expect("a popularity").to_string(), text);
        }
        for bad in [
            "",
            "zipf",
            "zipf:-1",
            "zipf:NaN",
            "zipf:11",
            "hot:0,1",
            "hot:2,1",
            "gaussian:0.5,0",
            "uniform:1",
            "zipf:x",
        ] {
            assert!(bad.parse::<Popularity>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn drawn_keys_are_keys_and_distinct_ones_distinct(
            kind in 0..5_usize,
            parameter in 0.0..10.0_f64,
            keys in 1..200_u64,
            share in 0.0..=1.0_f64,
            seed in any::<u64>(),
        ) {
            let part = (parameter / 10.0).max(0.001);
            let popularity = [
                Popularity::Uniform,
                Popularity::Sequential,
                Popularity::Zipf { exponent: parameter },
                Popularity::Gaussian { center: share, deviation: part },
                Popularity::Hot { keys: part, requests: share },
            ][kind];
            let count = 1 + ((keys - 1) as f64 * share) as usize;
            let mut drawn = vec![7; 3];
            let mut rng = SmallRng::seed_from_u64(seed);
            Picker::new(popularity, keys, share).draw_distinct(count, &mut rng, &mut drawn);
            let mut drawn = drawn.split_off(3);
            prop_assert!(drawn.iter().all(|&key| key < keys));
            drawn.sort_unstable();
            drawn.dedup();
            prop_assert_eq!(drawn.len(), count);
        }
    }
}
