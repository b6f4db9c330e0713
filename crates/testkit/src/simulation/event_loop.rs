//! One loop of the proxy: a dataplane, and what its driver knows.

use std::sync::Arc;

use weir_dataplane::{Config, Dataplane, Freshness};
use weir_routing::Table;
use weir_timing::Instant;

use super::link::Link;
use super::scenario::Scenario;
use super::server::LINES;
use super::told::Told;

pub(super) struct Loop {
    pub(super) dataplane: Dataplane,
    /// The table that it goes by.
    pub(super) table: Arc<Table>,
    table_number: usize,
    /// The numbers that each of the world's servers has in the dataplane, while it is to be connected: that of its connection, and
    /// those of others.
    pub(super) slots: Vec<[Option<usize>; LINES]>,
    /// The numbers of servers that were silent when the last turn ended.
    pub(super) silent: Vec<Option<usize>>,
    /// The ways of its mail to the other loops.
    pub(super) mail: Vec<Link>,
    /// What it has told of its servers.
    pub(super) told: Told,
    /// When it was told to end.
    pub(super) drained_ns: Option<u64>,
}

impl Loop {
    pub(super) fn new(
        index: usize,
        scenario: &Scenario,
        table: &Arc<Table>,
        freshness: &Arc<Freshness>,
    ) -> Self {
        let config = Config {
            loop_index: index,
            loop_count: scenario.loops,
            seed: scenario.config.seed.wrapping_add(index as u64),
            ..scenario.config.clone()
        };
        Self {
            dataplane: Dataplane::sharing(config, Arc::clone(table), Arc::clone(freshness), Instant::ZERO),
            table: Arc::clone(table),
            table_number: 0,
            slots: vec![[None; LINES]; scenario.servers],
            silent: vec![None; scenario.servers],
            mail: (0..scenario.loops).map(|_| Link::default()).collect(),
            told: Told::default(),
            drained_ns: None,
        }
    }

    /// When its dataplane wants to be told the time.
    pub(super) fn timeout_ns(&self) -> Option<u64> {
        self.dataplane.poll_timeout().map(Instant::as_nanos)
    }

    /// Tables come in the order in which they were given out.
    pub(super) fn take_table(&mut self, (number, table): (usize, &Arc<Table>), now: Instant) {
        if number > self.table_number {
            self.table_number = number;
            self.table = Arc::clone(table);
            self.dataplane.handle_table(Arc::clone(table), now);
        }
    }
}
