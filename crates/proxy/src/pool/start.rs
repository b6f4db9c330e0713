//! Starts the threads of a pool.

use super::{
    network::{Attention, DOOR, Network, NetworkConfig},
    queue::{Limits, Queue},
    worker::{Shared, Worker},
};
use crate::{
    event_loop::LoopHandle,
    run::{Making, RunError, Started, spawn},
};
use mio::Poll;
use std::sync::{Arc, atomic::AtomicUsize};

/// Starts `workers` workers and their network thread.
pub(crate) fn start(making: &Making<'_>, workers: usize, queue_len_max: usize) -> Result<Started, RunError> {
    let system = |what| move |source| RunError::System { what, source };
    let (config, clock) = (making.config, making.clock);
    let poll = Poll::new().map_err(system("make the network thread"))?;
    let (network, mailbox) = LoopHandle::new(&poll).map_err(system("make the network thread"))?;
    let (mut loops, mut handles) = (Vec::new(), Vec::new());
    for index in 0..workers {
        let (event_loop, handle) =
            making.event_loop(index, format!("worker-{index}"), DOOR).map_err(system("make a worker"))?;
        loops.push(event_loop);
        handles.push(handle);
    }
    let dataplane = config.dataplane(workers);
    let limits = Limits {
        length_max: queue_len_max,
        timeout_ns: dataplane.timeout_ns,
        orders_writes: config.is_replicated(),
    };
    let shared = Arc::new(Shared {
        queue: Queue::new(limits, clock, network.clone(), handles.clone()),
        attention: Attention::new(network.clone()),
        value_bytes_max: AtomicUsize::new(dataplane.limits.value_bytes_max),
    });
    let mut threads = Vec::new();
    for (index, event_loop) in loops.into_iter().enumerate() {
        let worker = Worker::new(index, event_loop, dataplane.limits, Arc::clone(&shared), clock);
        threads.push(spawn(format!("weir-worker-{index}"), move || worker.run())?);
    }
    let thread = Network::new(NetworkConfig {
        poll,
        mailbox,
        dataplane,
        table: Arc::clone(&config.table),
        budget: Arc::clone(&making.budget),
        sessions_max: config.sessions_max,
        drain_timeout: config.drain_timeout,
        clock,
        shared: Arc::clone(&shared),
        windows: making.windows,
        tracing: making.tracing,
        workers,
    });
    // The network thread ends first, and the workers by its doing.
    threads.insert(0, spawn("weir-network".into(), move || thread.run())?);
    // Reports are asked of the workers first: they know the servers.
    let reporting = handles.into_iter().chain([network.clone()]).collect();
    Ok(Started { reporting, doors: vec![network], threads, queues: vec![shared] })
}
