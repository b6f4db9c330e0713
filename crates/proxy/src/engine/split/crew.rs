//! Makes stations: two queues, and the threads that take from them.

use crate::{
    connections::names::AddressBook,
    engine::{
        event::event_loop::EventLoop,
        making::{Making, ReportingThreads},
        threaded::{
            queue::{Limits, Queue, QueueConfig, fence::Fence},
            queues::Shared,
            start::DOOR,
            worker::{Worker, WorkerConfig},
        },
    },
    mailbox::{LoopHandle, Routing},
    process::{
        error::RunError,
        threads::{LoopThread, join},
    },
};
use std::{io, mem, sync::Arc, time::Duration};
use weir_routing::Server;

/// Writes that one writer has in service at once. More wait in its queue, where their number is bounded by a setting.
const WRITES_IN_SERVICE_MAX: usize = 1024;

/// Where the requests of one server wait. A station whose server has left is kept for the next that comes.
#[derive(Debug)]
pub(super) struct Station {
    pub(super) reads: Arc<Queue>,
    pub(super) writes: Arc<Queue>,
}

impl Station {
    pub(super) fn queues(&self) -> [&Arc<Queue>; 2] {
        [&self.reads, &self.writes]
    }

    /// Nothing waits there, and all its threads do.
    pub(super) fn is_at_rest(&self) -> bool {
        self.queues().into_iter().all(|queue| queue.is_at_rest())
    }
}

/// What stations are made of, and the threads of all that were made.
pub(super) struct Crew {
    /// By what table and book those who come begin.
    making: Making,
    reporting: ReportingThreads,
    network: LoopHandle,
    readers: usize,
    limits: Limits,
    fence: Option<Arc<Fence>>,
    threads: Vec<LoopThread>,
}

/// A queue, and those who will take from it.
struct Team {
    role: Role,
    queue: Arc<Queue>,
    loops: Vec<EventLoop>,
    handles: Vec<LoopHandle>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Reader,
    Writer,
}

impl Role {
    /// What a thread is called, by the number of its queue and its place there.
    fn thread(self, queue: usize, index: usize) -> String {
        match self {
            Self::Reader => format!("read-{}-{index}", queue / 2),
            Self::Writer => format!("write-{}", queue / 2),
        }
    }
}

impl Crew {
    /// Nobody yet. `readers` take from each queue of reads, and whoever is made is added to `reporting`.
    pub(super) fn new(
        making: &Making,
        reporting: ReportingThreads,
        network: LoopHandle,
        readers: usize,
        limits: Limits,
        fence: Option<Arc<Fence>>,
    ) -> Self {
        Self { making: making.clone(), reporting, network, readers, limits, fence, threads: Vec::new() }
    }

    pub(super) fn making(&self) -> &Making {
        &self.making
    }

    /// What the writers have in common, if keys have replicas.
    pub(super) fn fence(&self) -> Option<&Arc<Fence>> {
        self.fence.as_ref()
    }

    /// How many threads there will be with one more station.
    pub(super) fn threads_with_one_more(&self) -> usize {
        self.threads.len() + self.readers + 1
    }

    /// Those who come later go by this.
    pub(super) fn take_routing(&mut self, routing: &Routing) {
        self.making.config.table = Arc::clone(routing.table());
        self.making.config.settings.timeout = Duration::from_nanos(routing.timeout_ns());
        self.making.addresses.take_addresses(Arc::clone(routing.book()));
        self.making.addresses.take_outbounds(Arc::clone(routing.outbounds()));
        self.limits.timeout_ns = routing.timeout_ns();
    }

    /// Those who come later go by this book.
    pub(super) fn take_addresses(&mut self, book: &Arc<AddressBook>) {
        self.making.addresses.take_addresses(Arc::clone(book));
    }

    /// A station for `server`, with all its threads. `number` is that of its first queue.
    pub(super) fn make(
        &mut self,
        number: usize,
        server: &Server,
        shared: &Arc<Shared>,
    ) -> Result<Station, RunError> {
        let first = self.reporting.all().len();
        let reading = self.team(Role::Reader, number, first, server)?;
        let writing = self.team(Role::Writer, number + 1, first + self.readers, server)?;
        let station = Station { reads: Arc::clone(&reading.queue), writes: Arc::clone(&writing.queue) };
        for team in [reading, writing] {
            if let Err(error) = self.begin(team, shared) {
                // Those who have begun have nothing to do.
                station.queues().into_iter().for_each(|queue| queue.end());
                return Err(error);
            }
        }
        Ok(station)
    }

    fn team(&self, role: Role, number: usize, first: usize, server: &Server) -> Result<Team, RunError> {
        let (size, fence) = match role {
            Role::Reader => (self.readers, None),
            Role::Writer => (1, self.fence.clone()),
        };
        let made: io::Result<Vec<_>> = (0..size)
            .map(|index| EventLoop::new(&self.making, first + index, &role.thread(number, index), DOOR))
            .collect();
        let made = made.map_err(|source| RunError::System { what: "make a reader or a writer", source })?;
        let (loops, handles): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        if let Some(fence) = &fence {
            handles.iter().cloned().for_each(|writer| fence.add_writer(writer));
        }
        let queue = Arc::new(Queue::new(QueueConfig {
            number,
            limits: self.limits,
            clock: self.making.clock,
            network: self.network.clone(),
            workers: handles.clone(),
            home: Some(server.clone()),
            fence,
        }));
        Ok(Team { role, queue, loops, handles })
    }

    fn begin(&mut self, team: Team, shared: &Arc<Shared>) -> Result<(), RunError> {
        let (station, capacity) = match team.role {
            Role::Reader => ("readers", 1),
            Role::Writer => ("writer", WRITES_IN_SERVICE_MAX),
        };
        for (index, (event_loop, handle)) in team.loops.into_iter().zip(team.handles).enumerate() {
            let worker = Worker::new(WorkerConfig {
                index,
                event_loop,
                capacity,
                limits: self.making.config.dataplane(0).limits,
                queue: Arc::clone(&team.queue),
                shared: Arc::clone(shared),
                clock: self.making.clock,
                station,
            });
            let name = format!("weir-{}", team.role.thread(team.queue.number(), index));
            self.threads.push(self.making.watch.spawn(name, move || worker.run())?);
            self.reporting.add(handle);
        }
        Ok(())
    }

    /// Waits for all threads, whose queues have ended.
    pub(super) fn join(&mut self) -> io::Result<()> {
        for thread in mem::take(&mut self.threads) {
            join(thread).map_err(io::Error::other)?;
        }
        Ok(())
    }
}
