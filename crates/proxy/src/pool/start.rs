//! Starts the threads of a pool.

use crate::{
    event_loop::{LoopHandle, Routing},
    names::AddressBook,
    run::{Crew, Making, RunError, Started},
    threaded::{
        By, Queues, Shared,
        network::{Attention, DOOR},
        queue::{Limits, Queue, QueueConfig, QueueState},
        request::Job,
        worker::{Worker, WorkerConfig},
    },
    windows,
};
use mio::Poll;
use std::{
    io,
    sync::{Arc, atomic::AtomicUsize},
};
use weir_dataplane::{Report, StationEntry};
use weir_timing::{Instant, QueueReport};

/// Starts `workers` workers and their network thread.
pub(crate) fn start(making: &Making, workers: usize, queue_len_max: usize) -> Result<Started, RunError> {
    let system = |what| move |source| RunError::System { what, source };
    let (config, clock) = (&making.config, making.clock);
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
    let queue = Arc::new(Queue::new(QueueConfig {
        number: 0,
        limits,
        clock,
        network: network.clone(),
        workers: handles.clone(),
        home: None,
        fence: None,
    }));
    let shared = Arc::new(Shared {
        queues: Box::new(OneQueue(Arc::clone(&queue))),
        attention: Attention::new(network.clone()),
        value_bytes_max: AtomicUsize::new(dataplane.limits.value_bytes_max),
    });
    let mut threads = Vec::new();
    for (index, event_loop) in loops.into_iter().enumerate() {
        let worker = Worker::new(WorkerConfig {
            index,
            event_loop,
            capacity: 1,
            limits: dataplane.limits,
            queue: Arc::clone(&queue),
            shared: Arc::clone(&shared),
            clock,
            station: "workers",
        });
        threads.push(making.watch.spawn(format!("weir-worker-{index}"), move || worker.run())?);
    }
    // The network thread ends first, and the workers by its doing.
    threads.insert(0, making.start_network((poll, mailbox), dataplane, shared, workers)?);
    // Reports are asked of the workers first: they know the servers.
    let reporting = Crew::new(handles.into_iter().chain([network.clone()]));
    Ok(Started { reporting, doors: vec![network], threads, queues: vec![Arc::new(OneQueue(queue))] })
}

impl windows::Queue for OneQueue {
    fn name(&self) -> String {
        "workers".to_owned()
    }

    fn report_at_end(&self, index: u64) -> QueueReport {
        self.0.report_at_end(index)
    }
}

/// Every request belongs into the same queue.
struct OneQueue(Arc<Queue>);

impl Queues for OneQueue {
    fn push(&self, job: Job, by: By) -> Result<(), Job> {
        self.0.push(job, by)
    }

    fn finish(&self, job: &Job) {
        self.0.finish(job, By::Network);
    }

    fn alarm(&self) -> Option<Instant> {
        self.0.alarm()
    }

    fn expire(&self, now: Instant) -> Vec<Job> {
        self.0.expire(now)
    }

    fn look(&self, is_crowded: bool, now: Instant) {
        self.0.look(is_crowded, now);
    }

    fn take_routing(&self, routing: Routing, _: &Arc<Shared>) -> Vec<Job> {
        self.0.take_routing(&routing);
        Vec::new()
    }

    fn take_addresses(&self, book: &Arc<AddressBook>) {
        self.0.take_addresses(book);
    }

    fn end(&self) -> io::Result<()> {
        self.0.end();
        Ok(())
    }

    fn key_waits(&self) -> u64 {
        self.0.report().key_waits
    }

    fn report(&self, report: &mut Report) {
        let QueueState { measured, key_waits, .. } = self.0.report();
        report.queue = Some(measured.population);
        report.stations.push(StationEntry { station: "queue", server: None, threads: 0, measured });
        report.counters.queue_key_waits = key_waits;
    }
}
