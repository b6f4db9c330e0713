//! Starts the threads of a split.

use crate::{
    engine::{
        making::{Making, ReportingThreads, StartEngine, Started},
        split::{crew::Crew, stations::Stations},
        threaded::{
            queue::{Limits, fence::Fence},
            start::NetworkThread,
        },
    },
    process::error::RunError,
    records::traces::THREADS,
};
use std::sync::Arc;

/// A network thread, and for each server a writer and this many readers.
pub(crate) struct Split;

impl StartEngine for Split {
    fn start(&self, making: &Making) -> Result<Started, RunError> {
        let config = &making.config;
        let network = NetworkThread::new(making)?;
        let door = network.handle();
        // Others join when servers come.
        let reporting = ReportingThreads::new([door.clone()]);
        let dataplane = config.dataplane(0);
        let limits = Limits {
            length_max: config.settings.queue,
            timeout_ns: dataplane.timeout_ns,
            orders_writes: false,
            crew: config.settings.crew,
        };
        // Without replicas a key is on one server, to which its writes go in one order.
        let fence = config.is_replicated().then(|| Arc::new(Fence::default()));
        let crew = Crew::new(making, reporting.clone(), door.clone(), config.settings.readers, limits, fence);
        let stations = Arc::new(Stations::new(crew, dataplane.limits));
        let shared = network.share(Box::new(Arc::clone(&stations)), &dataplane);
        stations.open(&shared)?;
        // It waits for the others itself.
        let threads = vec![network.start(making, dataplane, shared, THREADS - 1)?];
        Ok(Started { reporting, doors: vec![door], threads, queues: stations.windows() })
    }
}
