//! How much earlier than a frame is due the device must wake, so that half of all frames leave early and half leave late.
//!
//! A sleeper wakes late: the timer's interrupt, the way back from an idle processor, and the frames before it take their time. All of that
//! is measured with each frame that leaves, and the middle of it taken off. A median does not follow the few that are very late.

/// Frames between two corrections: few enough that it follows within a second at a hundred frames a second, and enough for their median to
/// be known to a tenth of the spread.
const WINDOW: usize = 64;
/// Part of the median that is taken off at once. Less than all: what was measured belongs to the correction before.
const STEP: f64 = 0.5;

/// The correction, and what it is learned from.
#[derive(Debug)]
pub(crate) struct Correction {
    is_on: bool,
    early_ns: i64,
    least_ns: i64,
    most_ns: i64,
    seen: Vec<i64>,
}

impl Correction {
    /// Begins with `early_ns`; never goes beyond `most_ns` either way.
    pub(crate) fn new(is_on: bool, early_ns: i64, most_ns: i64) -> Correction {
        let early_ns = if is_on { early_ns.clamp(-most_ns, most_ns) } else { 0 };
        Correction { is_on, early_ns, least_ns: -most_ns, most_ns, seen: Vec::with_capacity(WINDOW) }
    }

    /// How much earlier than due to wake.
    pub(crate) fn early_ns(&self) -> i64 {
        self.early_ns
    }

    /// Whether frames are later than can be made up for.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_on && self.early_ns == self.most_ns
    }

    /// A frame left so much after it was due.
    pub(crate) fn learn(&mut self, late_ns: i64) {
        if !self.is_on {
            return;
        }
        self.seen.push(late_ns);
        if self.seen.len() == WINDOW {
            let (_, median, _) = self.seen.select_nth_unstable(WINDOW / 2);
            let step = (*median as f64 * STEP).round() as i64;
            self.early_ns = (self.early_ns + step).clamp(self.least_ns, self.most_ns);
            self.seen.clear();
        }
    }
}

/// The median of some values; 0 for none.
pub(crate) fn median_ns(values: &mut [i64]) -> i64 {
    if values.is_empty() {
        return 0;
    }
    let middle = values.len() / 2;
    *values.select_nth_unstable(middle).1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waking takes 30 to 50 µs, and one time in fifty 3 ms.
    fn waking_ns(number: u64) -> i64 {
        let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        if mixed.is_multiple_of(50) { 3_000_000 } else { 30_000 + (mixed % 20_000) as i64 }
    }

    fn late_after(correction: &mut Correction, frames: u64) -> i64 {
        for number in 0..frames {
            let late = waking_ns(number) - correction.early_ns();
            correction.learn(late);
        }
        let mut rest: Vec<_> =
            (frames..frames + 1_000).map(|number| waking_ns(number) - correction.early_ns()).collect();
        median_ns(&mut rest)
    }

    #[test]
    fn the_median_comes_to_nothing_and_stays_there() {
        let mut correction = Correction::new(true, 0, 160_000);
        assert!(late_after(&mut correction, 0) > 39_000);
        assert!(late_after(&mut correction, 1_000).abs() < 2_000);
        assert!(late_after(&mut correction, 100_000).abs() < 2_000);
        assert!(!correction.is_spent());
    }

    #[test]
    fn it_goes_no_further_than_it_may_and_says_so() {
        let mut correction = Correction::new(true, 0, 20_000);
        late_after(&mut correction, 2_000);
        assert_eq!((correction.early_ns(), correction.is_spent()), (20_000, true));
    }

    #[test]
    fn switched_off_it_learns_nothing() {
        let mut correction = Correction::new(false, 40_000, 160_000);
        late_after(&mut correction, 1_000);
        assert_eq!(correction.early_ns(), 0);
    }
}
