//! What kind of world a seed makes.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use weir_dataplane::{
    AskOnce, Config, Multiget, NearCheck, OnFailure, ReadPolicy, ReadRepair, ReplicasRequired, WritePolicy,
};
use weir_routing::Placement;

use super::link::Conduct;
use super::watch::Watching;
use crate::memcached::VERSION;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000_000;

/// Where writes wait long for their keys, a server may take this many of the longest delays. It needs two, one each way.
const LONG_WAIT_DELAYS: u64 = 6;

/// The constants of one world.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) config: Config,
    /// Loops of the proxy, over which the clients are spread.
    pub(super) loops: usize,
    /// All clients write few keys at the same time.
    pub(super) races: bool,
    /// Nothing goes wrong, and writes may wait for their keys for longer than a server may take.
    pub(super) waits_long: bool,
    /// A server carries out what lies on a connection that the proxy has dropped.
    pub(super) lingers: bool,
    pub(super) servers: usize,
    pub(super) replicas: usize,
    pub(super) placement: Placement,
    pub(super) clients: usize,
    /// Requests of each client.
    pub(super) requests: usize,
    pub(super) conduct: Conduct,
    /// How often the kernel takes less than it is given.
    pub(super) short_write: f64,
    /// How many things happen to servers. In a calm world nothing does, and no request may fail.
    pub(super) faults: usize,
    /// These are none but that servers answer gets oddly. Clients read much then.
    pub(super) odd: bool,
    /// How often besides one server evicts all that it has, so that there are copies to be put back.
    pub(super) evictions: usize,
    /// Limits are so small that requests are refused and sessions are paused.
    pub(super) tight: bool,
    /// How often another table is taken, and how often a server's name gets other addresses.
    pub(super) reloads: usize,
    pub(super) moves: usize,
    /// How often it is changed how long servers may take.
    pub(super) timeouts: usize,
    /// The proxy is asked to end while clients are asking.
    pub(super) drains: bool,
    /// The servers are other proxies, which close a connection at `stats settings`.
    pub(super) before_proxies: bool,
    /// What the driver asks of dataplanes besides.
    pub(super) watching: Watching,
    /// How the driver serves clients itself, if it does.
    pub(super) lent: Option<Lent>,
}

/// A driver that takes requests from its clients itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lent {
    /// How many requests it serves at once.
    pub(super) capacity: usize,
    /// How many may wait for that.
    pub(super) length_max: usize,
}

impl Scenario {
    pub(super) fn random(rng: &mut SmallRng) -> Self {
        let scenario = Self::drawn(rng);
        let may_wait_long = scenario.races && scenario.is_calm() && scenario.replicas > 1;
        if may_wait_long && scenario.config.seed >> 13 & 1 == 1 { scenario.waiting_long() } else { scenario }
    }

    fn drawn(rng: &mut SmallRng) -> Self {
        let reloads = if rng.random_bool(0.5) { rng.random_range(1..=8) } else { 0 };
        let servers = rng.random_range(1..=if reloads > 0 { 6 } else { 4 });
        // All loops write the same keys until the end; without faults nothing excuses replicas that differ then.
        let races = reloads == 0 && servers > 1 && rng.random_bool(0.4);
        let races_calmly = races && rng.random_bool(0.6);
        let faults = if !races_calmly && rng.random_bool(0.7) { rng.random_range(1..=12) } else { 0 };
        let tight = !races_calmly && rng.random_bool(0.3);
        let delay_max_ns = rng.random_range(10 * MICROSECOND..=MILLISECOND);
        // A calm world's requests must never be late, however often a write is cut short.
        let slack = if faults == 0 { 1000 } else { rng.random_range(40..=100) };
        let replicas_max = if reloads > 0 && rng.random_bool(0.6) { 1 } else { servers.min(3) };
        let asks_once = rng.random_bool(0.4);
        // What one loop's clients wait for while another one's write the same key.
        let shares = asks_once && races_calmly && rng.random_bool(0.5);
        let replicas = if shares { 1 } else { rng.random_range(if races { 2 } else { 1 }..=replicas_max) };
        let mut config = config(rng, tight, delay_max_ns * slack);
        config.multiget = *Multiget::ALL.choose(rng).expect("some ways");
        if config.multiget.check(servers, replicas).is_err() {
            config.multiget = Multiget::Sharded;
        }
        config.ask_once = if asks_once { AskOnce::On } else { AskOnce::Off };
        config.fill_wait_ns = delay_max_ns * [0, 1, 3, 40][(config.seed >> 3) as usize % 4];
        config.near_cache_entries = [0, 0, 2, 64][(config.seed >> 5) as usize % 4];
        config.near_cache_age_ns = delay_max_ns * [5, 1_000_000][(config.seed >> 7) as usize % 2];
        config.near_cache_check = [NearCheck::Off, NearCheck::On][(config.seed >> 8) as usize % 2];
        config.near_cache_check_bytes_min = 0;
        config.near_cache_points_min = 1;
        config.on_failure = if rng.random_bool(0.3) { OnFailure::Degrade } else { OnFailure::Strict };
        if replicas > 1 {
            replicate(&mut config, rng);
        }
        if faults == 0 {
            // A server may lack a write because it was full. Flushed for that, it loses what nothing excuses.
            config.journal_keys_max = 65_536;
        }
        let repairs = replicas > 1 && faults > 0 && config.read_repair == ReadRepair::On;
        let evictions = if repairs { rng.random_range(5..=40) } else { 0 };
        let loops = *[if races { 2 } else { 1 }, 1, 2, 2, 3].choose(rng).expect("some counts");
        Self {
            config,
            loops,
            lingers: replicas > 1 && reloads == 0,
            servers,
            replicas,
            placement: *[Placement::Ketama, Placement::Modulo].choose(rng).expect("two placements"),
            clients: if races { rng.random_range(3..=6) } else { rng.random_range(1..=5) },
            races,
            waits_long: false,
            requests: match races {
                _ if evictions > 0 => rng.random_range(20..=60),
                true => rng.random_range(3..=15),
                false => rng.random_range(5..=40),
            },
            conduct: Conduct { delay_max_ns, piece_bytes_max: piece_bytes_max(rng) },
            short_write: *[0.0, 0.05, 0.4].choose(rng).expect("three shares"),
            faults,
            evictions,
            tight,
            reloads,
            moves: if rng.random_bool(0.3) { rng.random_range(1..=5) } else { 0 },
            drains: rng.random_bool(0.2),
            odd: faults > 0 && replicas == 1 && rng.random_bool(0.4),
            before_proxies: rng.random_bool(0.15),
            watching: watching(rng),
            timeouts: if faults > 0 && rng.random_bool(0.3) { rng.random_range(1..=3) } else { 0 },
            lent: None,
        }
    }

    /// The same with servers that may take little time, and need less: only writes to one key wait for longer, for each other.
    fn waiting_long(mut self) -> Self {
        self.config.timeout_ns = self.conduct.delay_max_ns * LONG_WAIT_DELAYS;
        (self.config.greets_servers, self.config.asks_item_size) = (false, false);
        Self { waits_long: true, short_write: 0.0, moves: 0, before_proxies: false, ..self }
    }

    /// Clients are served through lent sessions, by one loop.
    pub(super) fn lent(rng: &mut SmallRng) -> Self {
        let scenario = Self::drawn(rng);
        let capacity = *[1, 1, 2, 1000, 1000].choose(rng).expect("some capacities");
        // Where nothing is wrong nothing fails but what there was no room for in the queue; a miss would not tell that it did.
        let is_short = !scenario.is_calm() || scenario.config.on_failure == OnFailure::Strict;
        let length_max = if is_short { rng.random_range(1..=scenario.clients) } else { scenario.clients };
        let mut scenario =
            Self { loops: 1, drains: false, lent: Some(Lent { capacity, length_max }), ..scenario };
        scenario.config.connects_when_needed = rng.random_bool(0.4);
        scenario
    }

    /// Where a session is paused, it cannot be seen from outside by which table its requests will go. And what copies hold that an
    /// earlier table had elsewhere is not followed.
    ///
    /// A write that its owner gave up may still be carried out after a read over another loop's connection. One that not all replicas had
    /// to do may be missing where it is read.
    pub(super) fn hides_places(&self) -> bool {
        let races = self.loops > 1 && self.replicas > 1 && self.faults > 0;
        let is_loose = self.replicas > 1 && self.config.write_policy != WritePolicy::All;
        let waits = self.tight || self.config.slice_bytes < usize::MAX || self.lent.is_some();
        races || is_loose || self.reloads > 0 && (waits || self.replicas > 1)
    }

    /// Whether what is read of a key that all clients write is never older than what was acknowledged.
    pub(super) fn keeps_order(&self) -> bool {
        let waits_for_all = self.replicas == 1 || self.config.write_policy == WritePolicy::All;
        self.reloads == 0 && waits_for_all && (self.replicas > 1 || self.faults == 0)
    }

    /// Whether replicas are equal when all is quiet, whatever has happened.
    pub(super) fn converges(&self) -> bool {
        self.reloads == 0 && self.replicas > 1
    }

    /// Whether clients read few keys again and again, so that values are kept.
    pub(super) fn is_hot(&self) -> bool {
        self.config.near_cache_entries > 0 && self.config.seed >> 10 & 1 == 1
    }

    /// Whether clients often read the same by `mg`: where gets wait for others, few such reads share a message.
    pub(super) fn repeats(&self) -> bool {
        let Config { ask_once, fill_wait_ns, near_cache_entries, .. } = self.config;
        self.replicas == 1 && (ask_once, fill_wait_ns, near_cache_entries) == (AskOnce::Off, 0, 0)
    }

    /// Whether they read by `mg` at all. Worlds in which gets wait for others are rare enough.
    pub(super) fn reads_by_meta(&self) -> bool {
        self.repeats() || self.replicas > 1 && self.config.seed >> 11 & 3 == 0
    }

    pub(super) fn is_calm(&self) -> bool {
        self.faults == 0 && !self.tight
    }
}

/// What the driver asks of dataplanes besides.
fn watching(rng: &mut SmallRng) -> Watching {
    Watching {
        windows: rng.random_bool(0.4),
        share: *[None, None, None, Some(0.2), Some(1.0)].choose(rng).expect("some shares"),
        arrivals: rng.random_bool(0.5),
    }
}

/// Where keys have several replicas.
fn replicate(config: &mut Config, rng: &mut SmallRng) {
    // What is promised of the others is less, so there is less to check.
    let all = rng.random_bool(0.7);
    config.write_policy =
        if all { WritePolicy::All } else { *WritePolicy::ALL.choose(rng).expect("some policies") };
    config.read_policy = *ReadPolicy::ALL.choose(rng).expect("some policies");
    if rng.random_bool(0.6) {
        config.read_repair = ReadRepair::On;
        // Who reads deciders alone finds nothing missing elsewhere, but with multi-gets.
        config.read_policy = ReadPolicy::Spread;
    }
    if rng.random_bool(0.2) {
        config.replicas_required = ReplicasRequired::AllConfigured;
    }
    config.mark_down_timeouts = *[0, 1, 3].choose(rng).expect("some counts");
    config.mark_down_share_percent = *[0, 34, 50, 100].choose(rng).expect("some shares");
    config.journal_keys_max = *[0, 3, 65_536, 65_536].choose(rng).expect("some bounds");
    config.quarantine_ns = config.timeout_ns * rng.random_range(1..=3);
}

/// Single bytes now and then only: they make long runs.
fn piece_bytes_max(rng: &mut SmallRng) -> usize {
    *[3, 20, 20, 200, 200, 200, 5000, 5000, 5000, 5000].choose(rng).expect("some sizes")
}

/// The longest value that clients may store, and what servers tell of their items.
pub(super) const VALUE_BYTES_MAX: usize = 4000;

fn config(rng: &mut SmallRng, tight: bool, timeout_ns: u64) -> Config {
    let mut config = Config {
        timeout_ns,
        reconnect_delay_min_ns: timeout_ns / 10,
        reconnect_delay_max_ns: timeout_ns,
        seed: rng.random(),
        version: VERSION.to_owned(),
        // Few entries, and half of the requests are looked at, so that entries change hands.
        hot_keys: 4,
        hot_keys_one_in: 2,
        ..Config::default()
    };
    config.limits.value_bytes_max = VALUE_BYTES_MAX;
    config.asks_item_size = !tight && rng.random_bool(0.5);
    config.greets_servers = rng.random_bool(0.7);
    config.slice_bytes =
        [16, 64, 500, 4000, 1 << 20, usize::MAX, usize::MAX, usize::MAX][config.seed as usize % 8];
    if tight {
        config.sessions_max = rng.random_range(2..=5);
        config.session_requests_max = rng.random_range(1..=8);
        config.session_buffer_bytes_max = rng.random_range(200..=10_000);
        config.server_requests_max = rng.random_range(1..=20);
        config.buffer_bytes_max = *[30_000, 100_000, 1 << 30, 1 << 30].choose(rng).expect("some budgets");
        config.mail_requests_max = config.server_requests_max.min(2);
        config.server_buffer_bytes_max = rng.random_range(5_000..=20_000);
    }
    config
}
