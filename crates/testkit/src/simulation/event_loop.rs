//! One loop of the proxy: a dataplane, and what its driver knows.

use std::sync::Arc;

use weir_dataplane::{Budget, Config, Dataplane, Freshness, LoopId, Slot};
use weir_routing::Table;
use weir_timing::Instant;

use super::link::Link;
use super::logins::Logins;
use super::reported::Reported;
use super::scenario::Scenario;
use super::server::LINES;
use super::watch::Watch;

pub(super) struct Loop {
    pub(super) dataplane: Dataplane,
    /// The table that it goes by.
    pub(super) table: Arc<Table>,
    table_number: usize,
    logins: Logins,
    /// How long servers may take.
    pub(super) timeout_ns: u64,
    /// Until when requests may wait that came before that was changed, and others behind them.
    pub(super) former_until_ns: u64,
    /// How many clients it has accepted.
    pub(super) accepted: u64,
    /// The world's servers to which it has connected.
    pub(super) tried: Vec<bool>,
    /// The numbers that each of the world's servers has in the dataplane, while it is to be connected: that of its connection, and
    /// those of others.
    pub(super) slots: Vec<[Option<Slot>; LINES]>,
    /// The numbers of servers that were silent when the last turn ended.
    pub(super) silent: Vec<Option<Slot>>,
    /// The ways of its mail to the other loops.
    pub(super) mail: Vec<Link>,
    /// What it has reported of its servers.
    pub(super) reported: Reported,
    /// What else it says of itself.
    pub(super) watch: Watch,
    /// When it was asked to end.
    pub(super) drained_ns: Option<u64>,
}

impl Loop {
    pub(super) fn new(
        index: usize,
        scenario: &Scenario,
        table: &Arc<Table>,
        (freshness, budget): (&Arc<Freshness>, &Arc<Budget>),
    ) -> Self {
        let seed = scenario.config.seed.wrapping_add(index as u64);
        let config = Config {
            loop_index: LoopId::from_index(index),
            loop_count: scenario.loops,
            jitter_seed: seed,
            seed,
            ..scenario.config.clone()
        };
        let (table, now) = (Arc::clone(table), Instant::ZERO);
        // One that is alone shares its knowledge with nobody.
        let mut dataplane = match scenario.loops {
            1 => Dataplane::new(config, Arc::clone(&table), now),
            _ => Dataplane::sharing(config, Arc::clone(&table), Arc::clone(freshness), now),
        };
        dataplane.share_budget(budget);
        let logins = Logins::of(scenario);
        logins.begin(&mut dataplane);
        Self {
            watch: Watch::new(scenario.watching, &mut dataplane, seed),
            dataplane,
            table,
            table_number: 0,
            logins,
            timeout_ns: scenario.config.timeout_ns,
            former_until_ns: 0,
            accepted: 0,
            tried: vec![false; scenario.servers],
            slots: vec![[None; LINES]; scenario.servers],
            silent: vec![None; scenario.servers],
            mail: (0..scenario.loops).map(|_| Link::default()).collect(),
            reported: Reported::default(),
            drained_ns: None,
        }
    }

    /// When its dataplane wants to know the time.
    pub(super) fn timeout_ns(&self) -> Option<u64> {
        self.dataplane.poll_timeout().map(Instant::as_nanos)
    }

    /// A turn is over.
    pub(super) fn end_turn(&mut self, now: Instant) -> Result<(), String> {
        self.watch.end_turn(&mut self.dataplane, now)
    }

    /// The driver ends.
    pub(super) fn finish(&mut self, now: Instant) -> Result<(), String> {
        self.watch.finish(&mut self.dataplane, now)
    }

    /// A reload has changed how long servers may take.
    pub(super) fn take_timeout(&mut self, timeout_ns: u64, now_ns: u64) {
        self.former_until_ns = self.former_until_ns.max(now_ns + self.timeout_ns);
        self.timeout_ns = timeout_ns;
        self.dataplane.set_timeout(timeout_ns);
    }

    /// Tables come in the order in which they were given out.
    pub(super) fn take_table(&mut self, (number, table): (usize, &Arc<Table>), now: Instant) {
        if number > self.table_number {
            self.table_number = number;
            self.table = Arc::clone(table);
            self.dataplane.handle_table(Arc::clone(table), now);
            self.logins.begin(&mut self.dataplane);
        }
    }
}
