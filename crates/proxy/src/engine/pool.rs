//! The pool engine: one network thread, one first-in-first-out queue, W workers, each with its own connection to every server.
//!
//! ```text
//!                 ┌─────────────────┐  Job   ┌───────┐ take  ┌──────────────────────┐
//!   clients ─────▶│ network thread  │───────▶│ Queue │──────▶│ worker 0: Dataplane  │──▶ servers
//!      ▲          │ cuts requests   │        └───────┘       │ worker 1: Dataplane …│──▶ servers
//!      │          └─────────────────┘                        └───────────┬──────────┘
//!      └───────────────────────────── replies ───────────────────────────┘
//! ```
//!
//! Everything that it is made of is in `threaded`; here it is put together.

use crate::{
    connections::names::AddressBook,
    engine::{
        event::event_loop::EventLoop,
        making::{Making, ReportingThreads, StartEngine, Started},
        threaded::{
            queue::{Limits, Queue, QueueConfig, QueueState},
            queues::{By, Queues, Shared},
            request::Job,
            start::{DOOR, NetworkThread},
            worker::{Worker, WorkerConfig},
        },
    },
    mailbox::Routing,
    process::error::RunError,
    records::windows,
};
use std::{io, sync::Arc};
use weir_dataplane::{Report, StationEntry};
use weir_timing::{Instant, QueueReport};

/// Workers, and their network thread.
pub(super) struct Pool;

impl StartEngine for Pool {
    fn start(&self, making: &Making) -> Result<Started, RunError> {
        let (config, clock) = (&making.config, making.clock);
        let workers = config.settings.workers;
        let network = NetworkThread::new(making)?;
        let made: io::Result<Vec<_>> = (0..workers)
            .map(|index| EventLoop::new(making, index, &format!("worker-{index}"), DOOR))
            .collect();
        let made = made.map_err(|source| RunError::System { what: "make a worker", source })?;
        let (loops, handles): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        let dataplane = config.dataplane(workers);
        let limits = Limits {
            length_max: config.settings.queue,
            timeout_ns: dataplane.timeout_ns,
            orders_writes: config.is_replicated(),
            crew: config.settings.crew,
        };
        let queue = Arc::new(Queue::new(QueueConfig {
            number: 0,
            limits,
            clock,
            network: network.handle(),
            workers: handles.clone(),
            home: None,
            fence: None,
        }));
        let shared = network.share(Box::new(OneQueue(Arc::clone(&queue))), &dataplane);
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
        let door = network.handle();
        // The network thread ends first, and the workers by its doing.
        threads.insert(0, network.start(making, dataplane, shared, workers)?);
        // Reports are asked of the workers first: they know the servers.
        let reporting = ReportingThreads::new(handles.into_iter().chain([door.clone()]));
        Ok(Started { reporting, doors: vec![door], threads, queues: vec![Arc::new(OneQueue(queue))] })
    }
}

impl windows::Queue for OneQueue {
    fn name(&self) -> String {
        "workers".to_owned()
    }

    fn report_at_end(&self, index: u64) -> QueueReport {
        self.0.report_at_end(index)
    }

    fn crew(&self) -> u64 {
        self.0.crew()
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

    fn look(&self, is_contended: bool, now: Instant) {
        self.0.look(is_contended, now);
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
        let QueueState { measured, key_waits, crew, .. } = self.0.report();
        report.queue = Some(measured.population);
        report.stations.push(StationEntry {
            station: "queue",
            server: None,
            threads: 0,
            crew: Some(crew),
            measured,
        });
        report.counters.queue_key_waits = key_waits;
    }
}
