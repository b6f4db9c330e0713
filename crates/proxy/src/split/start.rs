//! Starts the threads of a split.

use super::{staff::Staff, stations::Stations};
use crate::{
    event_loop::LoopHandle,
    run::{Crew, Making, RunError, Started},
    threaded::{Shared, fence::Fence, network::Attention, queue::Limits},
    traces::THREADS,
};
use mio::Poll;
use std::sync::{Arc, atomic::AtomicUsize};

/// Writes that one writer has in service at once. More wait in its queue, where their number is bounded by a setting.
pub(super) const WRITES_IN_SERVICE_MAX: usize = 1024;

/// Starts the network thread, and `readers` readers and a writer for each server.
pub(crate) fn start(making: &Making, readers: usize, queue_len_max: usize) -> Result<Started, RunError> {
    let system = |source| RunError::System { what: "make the network thread", source };
    let config = &making.config;
    let poll = Poll::new().map_err(system)?;
    let (network, mailbox) = LoopHandle::new(&poll).map_err(system)?;
    // Others join when servers come.
    let crew = Crew::new([network.clone()]);
    let dataplane = config.dataplane(0);
    let staff = Staff {
        making: making.clone(),
        crew: crew.clone(),
        network: network.clone(),
        readers,
        limits: Limits { length_max: queue_len_max, timeout_ns: dataplane.timeout_ns, orders_writes: false },
        // Without replicas a key is on one server, to which its writes go in one order.
        fence: config.is_replicated().then(|| Arc::new(Fence::default())),
        threads: Vec::new(),
    };
    let stations = Arc::new(Stations::new(staff, dataplane.limits));
    let shared = Arc::new(Shared {
        queues: Box::new(Arc::clone(&stations)),
        attention: Attention::new(network.clone()),
        value_bytes_max: AtomicUsize::new(dataplane.limits.value_bytes_max),
    });
    stations.open(&shared)?;
    // It waits for the others itself.
    let threads = vec![making.start_network((poll, mailbox), dataplane, shared, THREADS - 1)?];
    Ok(Started { reporting: crew, doors: vec![network], threads, queues: stations.windows() })
}
