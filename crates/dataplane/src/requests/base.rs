//! What requests are served with.

use crate::{
    clients::Clients, config::Config, meter::Meter, replication::Replication, replication::fleet::Fleet,
    replication::freshness::Freshness,
};
use std::sync::Arc;
use weir_routing::Table;
use weir_timing::Instant;

/// The owners below the requests.
#[derive(Debug)]
pub(crate) struct Base {
    pub(crate) clients: Clients,
    pub(crate) replication: Replication,
    pub(crate) fleet: Fleet,
    pub(crate) meter: Meter,
}

impl Base {
    pub(crate) fn new(config: Config, table: &Arc<Table>, freshness: Arc<Freshness>, now: Instant) -> Self {
        Self {
            clients: Clients::new(&config),
            replication: Replication::new(&config),
            fleet: Fleet::new(config, table, freshness),
            meter: Meter::new(now),
        }
    }
}
