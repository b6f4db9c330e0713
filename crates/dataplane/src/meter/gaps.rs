//! How far it is to the next request that is chosen at random.
//!
//! Each request is chosen with the same probability, whatever its neighbours are. So the gaps have the geometric distribution: they are drawn
//! by inverting it.

/// Draws gaps, by choices that depend on the seed alone.
#[derive(Debug)]
pub(crate) struct Gaps {
    random: u64,
    /// 1 over the logarithm of the probability that a request is not chosen; `None`: all are chosen.
    scale: Option<f64>,
}

impl Gaps {
    /// Each request is chosen with this probability (above 0, at most 1).
    pub(crate) fn new(share: f64, seed: u64) -> Self {
        // Neighbouring seeds must not begin alike, and 0 would stay 0.
        let random = (seed.wrapping_add(1)).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        Self { random, scale: (share < 1.0).then(|| (-share).ln_1p().recip()) }
    }

    /// Requests until the next one that is chosen, itself counted.
    pub(crate) fn next(&mut self) -> u64 {
        let bits = self.draw();
        let Some(scale) = self.scale else { return 1 };
        // The upper 53 bits are a number above 0 and up to 1.
        let uniform = ((bits >> 11) + 1) as f64 / (1u64 << 53) as f64;
        // The number of trials up to the first success has the geometric distribution. A cast stays within 64 bits.
        ((uniform.ln() * scale) as u64).saturating_add(1)
    }

    /// A number below this one, which is not 0; each is as likely.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.draw()) * end as u128) >> 64) as usize
    }

    /// 64 random bits, by xorshift64*.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(share: f64, seed: u64, count: usize) -> Vec<u64> {
        let mut gaps = Gaps::new(share, seed);
        (0..count).map(|_| gaps.next()).collect()
    }

    #[test]
    fn each_request_is_chosen_with_the_same_probability() {
        for share in [0.5, 0.1, 0.01] {
            let gaps = gaps(share, 7, 200_000);
            let count = gaps.len() as f64;
            let mean = gaps.iter().sum::<u64>() as f64 / count;
            // Six standard errors of the mean of a geometric distribution.
            let error = 6.0 * ((1.0 - share) / (share * share) / count).sqrt();
            assert!((mean - 1.0 / share).abs() < error, "{share}: {mean}");
            // A success follows another at once as often as after any other gap.
            let at_once = gaps.iter().filter(|gap| **gap == 1).count() as f64 / count;
            assert!(
                (at_once - share).abs() < 6.0 * (share * (1.0 - share) / count).sqrt(),
                "{share}: {at_once}"
            );
        }
        assert!(gaps(1.0, 7, 100).iter().all(|gap| *gap == 1));
    }

    #[test]
    fn each_number_below_another_is_as_likely() {
        let mut gaps = Gaps::new(0.5, 7);
        let mut counts = [0_i32; 5];
        (0..50_000).for_each(|_| counts[gaps.below(5)] += 1);
        // Six standard deviations around 10,000.
        assert!(counts.iter().all(|count| (count - 10_000).abs() < 540), "{counts:?}");
        assert_eq!(gaps.below(1), 0);
    }

    #[test]
    fn choices_depend_on_the_seed() {
        assert_eq!(gaps(0.01, 5, 50), gaps(0.01, 5, 50));
        assert_ne!(gaps(0.01, 5, 50), gaps(0.01, 6, 50));
    }
}
