//! Whether one server should answer a whole multi-get, or all servers a part each: chosen by what either has cost.
//!
//! What one part costs is a fixed time and a time for each of its keys, so more parts have shorter work to do and more fixed time to pay. A
//! request waits for its slowest part, which is later than the mean of its parts. So the time of the request is measured: from the first
//! byte sent to a server until the last part is there. For each way it is fitted as `a + b · keys`, by least squares in which an
//! observation counts less with each one that follows it. The fits are made in classes of key counts, each twice as large as the one below:
//! what 1,000 keys cost says little about 4.
//!
//! One request in [`EXPLORATION`] goes the way that was thought slower, so that a change is noticed; that is also the bound on
//! what noticing costs. A stall counts for no more than [`SURPRISE_MAX`] times what was expected, and a lasting change gets
//! through step by step.

/// How a multi-get is asked for where every server holds every key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// One server is asked for all keys.
    Whole,
    /// Every server is asked for as many keys as any other.
    Sharded,
}

impl Way {
    const fn other(self) -> Self {
        match self {
            Self::Whole => Self::Sharded,
            Self::Sharded => Self::Whole,
        }
    }
}

/// Chooses a [`Way`] for each multi-get.
#[derive(Debug)]
pub(crate) struct Chooser {
    classes: [Class; CLASSES],
    /// State of a xorshift generator: choices of which requests explore need no better randomness.
    random: u64,
}

/// Multi-gets of about equally many keys.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    whole: Fit,
    sharded: Fit,
}

/// Time as `a + b · keys`, of the observations of late.
#[derive(Clone, Copy, Debug, Default)]
struct Fit {
    /// Observations, up to [`MEMORY`].
    count: u32,
    mean_keys: f64,
    mean_ns: f64,
    variance: f64,
    covariance: f64,
}

impl Chooser {
    /// `seed`: of the choice of requests that explore.
    pub(crate) fn new(seed: u64) -> Self {
        Self { classes: [Class::default(); CLASSES], random: seed | 1 }
    }

    /// The way for a request of this many keys.
    pub(crate) fn choose(&mut self, keys: usize) -> Way {
        let random = self.next_random() >> 16;
        let Class { whole, sharded } = &self.classes[class_of(keys)];
        if whole.count.min(sharded.count) < ACQUAINTANCE {
            return if random.is_multiple_of(2) { Way::Sharded } else { Way::Whole };
        }
        let keys = keys as f64;
        let best = if whole.at(keys) < sharded.at(keys) { Way::Whole } else { Way::Sharded };
        if random.is_multiple_of(EXPLORATION) { best.other() } else { best }
    }

    /// A request of this many keys went this way and took this long.
    pub(crate) fn observe(&mut self, way: Way, keys: usize, nanos: u64) {
        let class = &mut self.classes[class_of(keys)];
        let fit = match way {
            Way::Whole => &mut class.whole,
            Way::Sharded => &mut class.sharded,
        };
        fit.observe(keys as f64, nanos as f64);
    }

    fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

impl Fit {
    fn observe(&mut self, keys: f64, nanos: f64) {
        let nanos = if self.count < ACQUAINTANCE { nanos } else { nanos.min(SURPRISE_MAX * self.at(keys)) };
        self.count = (self.count + 1).min(MEMORY);
        let weight = 1.0 / f64::from(self.count);
        let (keys_off, nanos_off) = (keys - self.mean_keys, nanos - self.mean_ns);
        self.mean_keys += weight * keys_off;
        self.mean_ns += weight * nanos_off;
        self.variance = (1.0 - weight) * (self.variance + weight * keys_off * keys_off);
        self.covariance = (1.0 - weight) * (self.covariance + weight * keys_off * nanos_off);
    }

    /// The time to expect, in nanoseconds. More keys never take less; a slope that says so is noise.
    fn at(&self, keys: f64) -> f64 {
        let slope = if self.variance > 0.0 { (self.covariance / self.variance).max(0.0) } else { 0.0 };
        (self.mean_ns + slope * (keys - self.mean_keys)).max(1.0)
    }
}

fn class_of(keys: usize) -> usize {
    (keys.max(1).ilog2() as usize).min(CLASSES - 1)
}

/// Classes of key counts: 1, 2 to 3, 4 to 7, …; the last one has no end.
const CLASSES: usize = 16;

/// How many observations of each way come before the first comparison.
const ACQUAINTANCE: u32 = 4;

/// After this number of observations the weight of an older one falls by a factor of e.
const MEMORY: u32 = 32;

/// One of this many requests goes the way that was thought slower.
const EXPLORATION: u64 = 32;

/// An observation counts for no more than this many times what was expected.
const SURPRISE_MAX: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: u64 = 1000;

    /// Servers whose parts cost a fixed time and a time per key, in microseconds, with noise of a tenth.
    struct Servers {
        fixed: u64,
        per_key: u64,
        count: u64,
    }

    impl Servers {
        fn time(&self, way: Way, keys: usize, noise: u64) -> u64 {
            let keys = keys as u64;
            let micros = match way {
                Way::Whole => self.fixed + self.per_key * keys,
                // The fixed time is the proxy's and is paid once for each part.
                Way::Sharded => self.fixed * self.count + self.per_key * keys.div_ceil(self.count),
            };
            micros * MICROSECOND * (100 + noise % 11) / 105
        }

        /// How many of `requests` go whole, of which the first half is not counted.
        fn whole(&self, chooser: &mut Chooser, requests: usize, keys: impl Fn(usize) -> usize) -> usize {
            let mut whole = 0;
            for number in 0..requests {
                let keys = keys(number);
                let way = chooser.choose(keys);
                chooser.observe(way, keys, self.time(way, keys, number as u64 * 7));
                whole += usize::from(way == Way::Whole && number >= requests / 2);
            }
            whole
        }
    }

    #[test]
    fn few_keys_go_whole_and_many_go_to_all_servers() {
        let servers = Servers { fixed: 50, per_key: 2, count: 3 };
        let mut chooser = Chooser::new(7);
        let sizes = [2, 5, 500, 2000];
        // Whole: 54 to 56 µs and 60; sharded: 152 and 154. From 75 keys on it is the other way round.
        assert!(servers.whole(&mut chooser, 8000, |number| sizes[number % 2]) > 3800);
        assert!(servers.whole(&mut chooser, 8000, |number| sizes[2 + number % 2]) < 200);
        // What was learned of many keys did not change what is known of few.
        assert!(servers.whole(&mut chooser, 2000, |number| sizes[number % 2]) > 900);
    }

    #[test]
    fn within_a_class_the_slopes_tell() {
        // At 64 keys 178 µs whole and 194 sharded, at 127 keys 304 and 236.
        let servers = Servers { fixed: 50, per_key: 2, count: 3 };
        let mut chooser = Chooser::new(1);
        servers.whole(&mut chooser, 4000, |number| 64 + number % 64);
        let mut chosen = |keys| (0..1000).filter(|_| chooser.choose(keys) == Way::Whole).count();
        assert!(chosen(64) > 900);
        assert!(chosen(127) < 100);
    }

    #[test]
    fn it_changes_its_mind_when_the_servers_change() {
        let mut chooser = Chooser::new(3);
        let slow_start = Servers { fixed: 1000, per_key: 1, count: 3 };
        assert!(slow_start.whole(&mut chooser, 4000, |_| 100) > 1900);
        let slow_keys = Servers { fixed: 10, per_key: 100, count: 3 };
        assert!(slow_keys.whole(&mut chooser, 4000, |_| 100) < 100);
        assert!(slow_start.whole(&mut chooser, 40_000, |_| 100) > 19_000);
    }

    #[test]
    fn one_stall_decides_nothing() {
        let servers = Servers { fixed: 50, per_key: 2, count: 3 };
        let mut chooser = Chooser::new(5);
        servers.whole(&mut chooser, 1000, |_| 9);
        chooser.observe(Way::Whole, 9, 10_000_000 * MICROSECOND);
        assert!((0..100).filter(|_| chooser.choose(9) == Way::Whole).count() > 85);
    }

    #[test]
    fn exploring_is_bounded() {
        let servers = Servers { fixed: 50, per_key: 2, count: 3 };
        let mut chooser = Chooser::new(11);
        let sharded = 50_000 - servers.whole(&mut chooser, 100_000, |_| 4);
        let expected = 50_000 / EXPLORATION as usize;
        assert!((expected * 8 / 10..expected * 12 / 10).contains(&sharded), "{sharded} of 50,000 explored");
    }

    #[test]
    fn any_number_of_keys_has_a_class() {
        assert_eq!([0, 1, 2, 3, 4, 1000, 10_000, usize::MAX].map(class_of), [0, 0, 1, 1, 2, 9, 13, 15]);
    }

    #[test]
    fn times_of_nothing_are_no_trouble() {
        let mut chooser = Chooser::new(0);
        for _ in 0..100 {
            let way = chooser.choose(3);
            chooser.observe(way, 3, 0);
        }
        for fit in [chooser.classes[1].whole, chooser.classes[1].sharded] {
            assert!(fit.at(3.0).is_finite());
        }
    }
}
