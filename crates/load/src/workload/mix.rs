//! Which request comes next on a connection.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::config::Config;
use crate::content::popularity::Picker;
use crate::content::{Amount, Command, Mix};

/// Where a connection takes its requests from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// Nothing more is asked.
    Dry,
    /// A share of the keys, each set once.
    Prefill(Prefill),
    /// Random commands on random keys.
    Mix(Box<MixSource>),
    /// The next line of the trace that all connections share.
    Replay,
    /// Given requests, for tests.
    #[cfg(test)]
    Script(std::collections::VecDeque<(Command, Vec<u64>)>),
    /// The first key, without end, for tests. It is set where it is not found, if `fill`.
    #[cfg(test)]
    FirstKey { fill: bool },
}

/// A request as it was decided on, but for its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) command: Command,
    /// In how many seconds what is written expires; 0 never.
    pub(crate) ttl: u32,
    /// The value's size in bytes, where it is not that of the key.
    pub(crate) value_size: Option<u32>,
    /// The token that a `cas` sends.
    pub(crate) cas: u64,
    /// What follows the answer.
    pub(crate) then: Then,
    /// Whether an answer has asked for it. In an open loop it is no arrival then.
    pub(crate) is_follow_up: bool,
}

/// What follows the answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing.
    Nothing,
    /// A key that was not found is set.
    Fill,
    /// A key that was found is written with its token; one that was not is set if `fill`.
    Cas { fill: bool },
}

impl Ask {
    /// A request that nothing follows, with a value of its key's size that never expires.
    pub(crate) fn of(command: Command) -> Ask {
        Ask { command, ttl: 0, value_size: None, cas: 0, then: Then::Nothing, is_follow_up: false }
    }

    /// A request for `command` as a run makes it: a `cas` begins with a `gets`, and where runs read through, a key that
    /// is not found is set.
    pub(crate) fn begin(command: Command, ttl: u32, value_size: Option<u32>, fill: bool) -> Ask {
        let (command, then) = match command {
            Command::Cas => (Command::Gets, Then::Cas { fill }),
            read if fill && (read.is_read() || read.is_arithmetic()) => (read, Then::Fill),
            other => (other, Then::Nothing),
        };
        Ask { ttl, value_size, then, ..Ask::of(command) }
    }
}

impl Source {
    /// What connection `id` does while the load is on.
    pub(crate) fn of_load(config: &Config, id: u32) -> Source {
        if config.replay.is_some() {
            Source::Replay
        } else {
            Source::Mix(Box::new(MixSource::new(config, id)))
        }
    }

    /// The next request, its keys appended to `keys`. `None` when there are no more.
    pub(crate) fn next(&mut self, keys: &mut Vec<u64>) -> Option<Ask> {
        match self {
            Source::Dry | Source::Replay => None,
            Source::Prefill(prefill) => prefill.next(keys),
            Source::Mix(mix) => mix.next(keys),
            #[cfg(test)]
            Source::Script(requests) => requests.pop_front().map(|(command, asked)| {
                keys.extend(asked);
                Ask::of(command)
            }),
            #[cfg(test)]
            Source::FirstKey { fill } => {
                keys.push(0);
                Some(Ask::begin(Command::Get, 0, None, *fill))
            }
        }
    }

    /// Whether there are no more requests. Whether a trace has ended, its reader knows.
    pub(crate) fn is_dry(&self) -> bool {
        match self {
            Source::Dry => true,
            Source::Prefill(prefill) => prefill.next >= prefill.keys,
            Source::Mix(mix) => mix.left == 0,
            Source::Replay => false,
            #[cfg(test)]
            Source::Script(requests) => requests.is_empty(),
            #[cfg(test)]
            Source::FirstKey { .. } => false,
        }
    }
}

/// Every n-th key once.
#[derive(Debug, Clone)]
pub(crate) struct Prefill {
    next: u64,
    step: u64,
    keys: u64,
    rng: SmallRng,
    ttl: Amount,
}

impl Prefill {
    /// The share of connection `id`, one of `config.connections`.
    pub(crate) fn new(config: &Config, id: u32) -> Prefill {
        Prefill {
            next: u64::from(id),
            step: config.connections as u64,
            keys: config.all_keys(),
            rng: rng(config.seed, id, PREFILL),
            ttl: config.content.ttl.clone(),
        }
    }

    fn next(&mut self, keys: &mut Vec<u64>) -> Option<Ask> {
        if self.next >= self.keys {
            return None;
        }
        keys.push(self.next);
        self.next += self.step;
        Some(Ask { ttl: draw_ttl(&self.ttl, &mut self.rng), ..Ask::of(Command::Set) })
    }
}

/// Random requests in given shares.
#[derive(Debug, Clone)]
pub(crate) struct MixSource {
    rng: SmallRng,
    mix: Mix,
    keys: u64,
    picker: Picker,
    multiget: Amount,
    ttl: Amount,
    fill: bool,
    writers: Option<Writers>,
    left: u64,
}

/// Which keys this connection may write, where each key has one writer.
#[derive(Debug, Clone, Copy)]
struct Writers {
    id: u64,
    connections: u64,
    /// Whether it may read those keys only, because a read may lead to a write.
    reads_too: bool,
}

impl MixSource {
    /// The sequence of connection `id`: it depends on the seed and the connection alone, not on threads or on time.
    pub(crate) fn new(config: &Config, id: u32) -> MixSource {
        let content = &config.content;
        let connections = config.connections as u64;
        let writers = Writers { id: u64::from(id), connections, reads_too: content.read_through };
        let share =
            |requests: u64| requests / connections + u64::from(u64::from(id) < requests % connections);
        MixSource {
            rng: rng(config.seed, id, LOAD),
            mix: content.mix.clone(),
            keys: config.keys,
            picker: Picker::new(content.popularity, config.keys, f64::from(id) / connections as f64),
            multiget: content.multiget.clone(),
            ttl: content.ttl.clone(),
            fill: content.read_through,
            writers: (config.content.one_writer && connections > 1).then_some(writers),
            left: content.requests.map_or(u64::MAX, share),
        }
    }

    fn next(&mut self, keys: &mut Vec<u64>) -> Option<Ask> {
        if self.left == 0 {
            return None;
        }
        // Without a bound this counts down for 500,000 years at a million requests a second.
        self.left -= 1;
        let command = self.mix.at(self.rng.random());
        let asked = if command.takes_many() { self.draw_multiget() } else { 1 };
        if asked > 1 {
            self.picker.draw_distinct(asked, &mut self.rng, keys);
        } else {
            keys.push(self.picker.draw(&mut self.rng));
        }
        if let Some(writers) = self.writers
            && (command.is_write() || writers.reads_too)
        {
            let start = keys.len() - asked;
            keys[start..].iter_mut().for_each(|key| *key = writers.own(*key, self.keys));
            let written = distinct(&mut keys[start..]);
            keys.truncate(start + written);
        }
        if command.is_arithmetic() {
            // Numbers have keys of their own, behind those of the values.
            keys.iter_mut().for_each(|key| *key += self.keys);
        }
        Some(Ask::begin(command, draw_ttl(&self.ttl, &mut self.rng), None, self.fill))
    }

    fn draw_multiget(&mut self) -> usize {
        let asked = match self.multiget {
            Amount::Fixed(asked) => asked,
            ref amount => amount.at(self.rng.random()),
        };
        asked.clamp(1, self.keys) as usize
    }
}

impl Writers {
    /// The key of this connection next to `key`: every block of as many keys as there are connections has one.
    fn own(&self, key: u64, keys: u64) -> u64 {
        let own = key - key % self.connections + self.id;
        if own < keys { own } else { own - self.connections }
    }
}

/// Brings the first of equal numbers to the front, in their order, and returns how many there are.
fn distinct(keys: &mut [u64]) -> usize {
    let mut kept = 0;
    for at in 0..keys.len() {
        if !keys[..kept].contains(&keys[at]) {
            keys[kept] = keys[at];
            kept += 1;
        }
    }
    kept
}

/// An expiry time as it is sent.
pub(crate) fn draw_ttl(ttl: &Amount, rng: &mut SmallRng) -> u32 {
    let seconds = match ttl {
        Amount::Fixed(seconds) => *seconds,
        drawn => drawn.at(rng.random()),
    };
    seconds.min(TTL_MAX) as u32
}

/// Thirty days: above that, memcached takes a number for a moment since 1970 (`protocol.txt`, "Expiration times").
const TTL_MAX: u64 = 30 * 86_400;

/// Random numbers that depend on the seed, the connection and what they are for.
pub(crate) fn rng(seed: u64, id: u32, purpose: u64) -> SmallRng {
    SmallRng::seed_from_u64(xxh3_64_with_seed(&id.to_le_bytes(), seed ^ purpose))
}

const LOAD: u64 = 0;
const PREFILL: u64 = 0x7072_6566_696c_6c00;
/// For the number of requests after which a connection is opened anew.
pub(crate) const RECONNECT: u64 = 0x7265_636f_6e6e_6563;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::content::Popularity;

    fn config(change: impl FnOnce(&mut Settings)) -> Config {
        let mut settings = Settings::example();
        change(&mut settings);
        Config::check(settings).expect("the settings are valid")
    }

    fn take(mix: &mut MixSource, requests: usize) -> Vec<(Ask, Vec<u64>)> {
        let draws = std::iter::from_fn(|| {
            let mut keys = Vec::new();
            mix.next(&mut keys).map(|ask| (ask, keys))
        });
        draws.take(requests).collect()
    }

    #[test]
    fn prefill_sets_every_key_once() {
        for (mix, keys_set) in [("get=1", 100), ("get=1,incr=1", 200)] {
            let config = config(|s| {
                (s.connections, s.keys) = (7, 100);
                s.content.mix = mix.parse().expect("a mix");
            });
            let mut keys = Vec::new();
            for id in 0..7 {
                let mut source = Source::Prefill(Prefill::new(&config, id));
                while let Some(ask) = source.next(&mut keys) {
                    assert_eq!(ask.command, Command::Set);
                }
                assert!(source.is_dry());
            }
            keys.sort_unstable();
            assert_eq!(keys, (0..keys_set).collect::<Vec<_>>());
        }
    }

    #[test]
    fn more_connections_than_keys_leave_some_without_work() {
        let config = config(|s| (s.connections, s.keys) = (7, 3));
        assert!(Source::Prefill(Prefill::new(&config, 3)).is_dry());
    }

    #[test]
    fn shares_of_zero_and_one_are_exact() {
        for (writes, command) in [(0.0, Command::Get), (1.0, Command::Set)] {
            let mut mix = MixSource::new(&config(|s| s.content.mix = Mix::of_writes(writes)), 0);
            assert!(take(&mut mix, 10_000).iter().all(|(ask, _)| ask.command == command));
        }
    }

    #[test]
    fn the_shares_of_the_commands_are_kept() {
        let text = "get=0.5,set=0.2,gat=0.1,touch=0.05,delete=0.05,ms=0.1";
        let mut mix = MixSource::new(&config(|s| s.content.mix = text.parse().expect("a mix")), 0);
        let drawn = take(&mut mix, 100_000);
        let shares = Mix::shares(&mix.mix).to_vec();
        let observed: Vec<u64> = shares
            .iter()
            .map(|(command, _)| drawn.iter().filter(|(ask, _)| ask.command == *command).count() as u64)
            .collect();
        let expected: Vec<f64> = shares.iter().map(|(_, share)| share * 100_000.0).collect();
        let statistic = crate::content::fit::chi_square_of(&observed, &expected);
        assert!(statistic < crate::content::fit::chi_square_bound(5), "{statistic}: {observed:?}");
    }

    #[test]
    fn a_multi_get_has_its_number_of_keys() {
        let mut mix =
            MixSource::new(&config(|s| s.content.multiget = Amount::Uniform { least: 2, most: 6 }), 0);
        let mut sizes = [0; 7];
        for (ask, keys) in take(&mut mix, 6000) {
            let range = if ask.command == Command::Set { 1..=1 } else { 2..=6 };
            assert!(range.contains(&keys.len()));
            sizes[keys.len()] += 1;
        }
        assert!(sizes[1..].iter().all(|&count| (400..1600).contains(&count)), "{sizes:?}");
    }

    #[test]
    fn each_key_has_one_writer() {
        for (keys, read_through) in [(10, false), (11, true), (4, false)] {
            let config = config(|s| {
                (s.connections, s.keys) = (4, keys);
                s.content.one_writer = true;
                s.content.read_through = read_through;
                s.content.multiget = Amount::Fixed(3);
                s.content.mix = "get=1,set=1,delete=1,cas=1".parse().expect("a mix");
            });
            let mut written = vec![0; keys as usize];
            for id in 0..4 {
                for (ask, asked) in take(&mut MixSource::new(&config, id), 2000) {
                    let writes = ask.command.is_write() || ask.then != Then::Nothing;
                    assert!(!writes || asked.iter().all(|key| key % 4 == u64::from(id)), "{ask:?} {asked:?}");
                    asked.iter().filter(|_| writes).for_each(|&key| written[key as usize] += 1);
                }
            }
            assert!(written.iter().all(|&writes| writes > 0), "every key is written: {written:?}");
        }
    }

    #[test]
    fn numbers_have_keys_of_their_own() {
        let mut mix =
            MixSource::new(&config(|s| s.content.mix = "get=1,incr=1,decr=1".parse().expect("a mix")), 0);
        for (ask, keys) in take(&mut mix, 1000) {
            assert_eq!(keys[0] >= 10_000, ask.command.is_arithmetic());
            assert!(keys[0] < 20_000);
        }
    }

    #[test]
    fn a_bound_on_requests_is_shared_out_and_kept() {
        let config = config(|s| {
            s.connections = 3;
            s.content.requests = Some(100);
        });
        let taken = [0, 1, 2].map(|id| take(&mut MixSource::new(&config, id), 1000).len());
        assert_eq!(taken, [34, 33, 33]);
    }

    #[test]
    fn expiry_times_are_those_that_memcached_takes_for_seconds() {
        let ttl = Amount::Uniform { least: 60, most: 10_000_000 };
        let mut mix = MixSource::new(&config(|s| s.content.ttl = ttl), 0);
        let ttls: Vec<u32> = take(&mut mix, 1000).iter().map(|(ask, _)| ask.ttl).collect();
        assert!(ttls.iter().all(|ttl| (60..=2_592_000).contains(ttl)));
        assert!(ttls.contains(&2_592_000) && ttls.iter().any(|&ttl| ttl < 2_592_000));
    }

    #[test]
    fn the_sequence_depends_on_seed_and_connection() {
        let sequence = |seed, id| {
            let config = config(|s| {
                s.seed = seed;
                s.content.popularity = Popularity::Zipf { exponent: 0.9 };
            });
            take(&mut MixSource::new(&config, id), 50)
        };
        assert_eq!(sequence(1, 0), sequence(1, 0));
        assert_ne!(sequence(1, 0), sequence(1, 1));
        assert_ne!(sequence(1, 0), sequence(2, 0));
    }
}
