//! Which request comes next on a connection.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use weir_timing::Operation;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::config::Config;
use crate::keyspace::Popularity;

/// Where a connection takes its requests from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// Nothing more is asked.
    Dry,
    /// A share of the keys, each set once.
    Prefill(Prefill),
    /// Reads and writes of random keys, without end.
    Mix(Mix),
    /// Given requests, for tests.
    #[cfg(test)]
    Script(std::collections::VecDeque<(Operation, Vec<u64>)>),
    /// The first key, without end, for tests.
    #[cfg(test)]
    FirstKey,
}

impl Source {
    /// The next request's operation, its keys appended to `keys`. `None` when there are no more.
    pub(crate) fn next(&mut self, keys: &mut Vec<u64>) -> Option<Operation> {
        match self {
            Source::Dry => None,
            Source::Prefill(prefill) => prefill.next(keys),
            Source::Mix(mix) => Some(mix.next(keys)),
            #[cfg(test)]
            Source::Script(requests) => requests.pop_front().map(|(operation, asked)| {
                keys.extend(asked);
                operation
            }),
            #[cfg(test)]
            Source::FirstKey => {
                keys.push(0);
                Some(Operation::Get)
            }
        }
    }

    /// Whether there are no more requests.
    pub(crate) fn is_dry(&self) -> bool {
        match self {
            Source::Dry => true,
            Source::Prefill(prefill) => prefill.next >= prefill.keys,
            Source::Mix(_) => false,
            #[cfg(test)]
            Source::Script(requests) => requests.is_empty(),
            #[cfg(test)]
            Source::FirstKey => false,
        }
    }
}

/// Every n-th key once.
#[derive(Debug, Clone)]
pub(crate) struct Prefill {
    next: u64,
    step: u64,
    keys: u64,
}

impl Prefill {
    /// The share of connection `id`, one of `config.connections`.
    pub(crate) fn new(config: &Config, id: u32) -> Prefill {
        Prefill { next: u64::from(id), step: config.connections as u64, keys: config.keys }
    }

    fn next(&mut self, keys: &mut Vec<u64>) -> Option<Operation> {
        if self.next >= self.keys {
            return None;
        }
        keys.push(self.next);
        self.next += self.step;
        Some(Operation::Set)
    }
}

/// Random requests in given shares.
#[derive(Debug, Clone)]
pub(crate) struct Mix {
    rng: SmallRng,
    write_ratio: f64,
    popularity: Popularity,
    keys: u64,
    multiget: usize,
}

impl Mix {
    /// The sequence of connection `id`: it depends on the seed and the connection alone, not on threads or on time.
    pub(crate) fn new(config: &Config, id: u32) -> Mix {
        Mix {
            rng: SmallRng::seed_from_u64(xxh3_64_with_seed(&id.to_le_bytes(), config.seed)),
            write_ratio: config.write_ratio,
            popularity: Popularity::Uniform,
            keys: config.keys,
            multiget: config.multiget,
        }
    }

    fn next(&mut self, keys: &mut Vec<u64>) -> Operation {
        if self.rng.random::<f64>() < self.write_ratio {
            keys.push(self.popularity.draw(self.keys, &mut self.rng));
            Operation::Set
        } else {
            self.popularity.draw_distinct(self.keys, self.multiget, &mut self.rng, keys);
            read_operation(self.multiget)
        }
    }
}

/// What a read of `multiget` keys is called.
pub(crate) fn read_operation(multiget: usize) -> Operation {
    if multiget > 1 { Operation::MultiGet } else { Operation::Get }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    fn config(change: impl FnOnce(&mut Settings)) -> Config {
        let mut settings = Settings::example();
        change(&mut settings);
        Config::check(settings).expect("the settings are valid")
    }

    fn take(mix: &mut Mix, requests: usize) -> Vec<(Operation, Vec<u64>)> {
        (0..requests)
            .map(|_| {
                let mut keys = Vec::new();
                let operation = mix.next(&mut keys);
                (operation, keys)
            })
            .collect()
    }

    #[test]
    fn prefill_sets_every_key_once() {
        let config = config(|s| (s.connections, s.keys) = (7, 100));
        let mut keys = Vec::new();
        for id in 0..7 {
            let mut source = Source::Prefill(Prefill::new(&config, id));
            while let Some(operation) = source.next(&mut keys) {
                assert_eq!(operation, Operation::Set);
            }
            assert!(source.is_dry());
        }
        keys.sort_unstable();
        assert_eq!(keys, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn more_connections_than_keys_leave_some_without_work() {
        let config = config(|s| (s.connections, s.keys) = (7, 3));
        assert!(Source::Prefill(Prefill::new(&config, 3)).is_dry());
    }

    #[test]
    fn shares_of_zero_and_one_are_exact() {
        for (write_ratio, operation) in [(0.0, Operation::Get), (1.0, Operation::Set)] {
            let mut mix = Mix::new(&config(|s| s.write_ratio = write_ratio), 0);
            assert!(take(&mut mix, 10_000).iter().all(|request| request.0 == operation));
        }
    }

    #[test]
    fn the_share_of_writes_is_kept() {
        let mut mix = Mix::new(&config(|s| s.write_ratio = 0.1), 0);
        let writes = take(&mut mix, 100_000).iter().filter(|request| request.0 == Operation::Set).count();
        // Binomial with mean 10,000 and standard deviation 95: five of them to either side. The seed is fixed.
        assert!((9_525..=10_475).contains(&writes), "{writes}");
    }

    #[test]
    fn a_multi_get_has_its_number_of_keys() {
        let mut mix = Mix::new(&config(|s| s.multiget = 6), 0);
        for (operation, keys) in take(&mut mix, 1000) {
            assert_eq!(keys.len(), if operation == Operation::Set { 1 } else { 6 });
            assert_ne!(operation, Operation::Get);
        }
    }

    #[test]
    fn the_sequence_depends_on_seed_and_connection() {
        let sequence = |seed, id| take(&mut Mix::new(&config(|s| s.seed = seed), id), 50);
        assert_eq!(sequence(1, 0), sequence(1, 0));
        assert_ne!(sequence(1, 0), sequence(1, 1));
        assert_ne!(sequence(1, 0), sequence(2, 0));
    }
}
