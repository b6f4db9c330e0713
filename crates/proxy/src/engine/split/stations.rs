//! Which queue a request belongs into, and how that changes.
//!
//! | request | waits in |
//! |---|---|
//! | one that writes a key | the writes of the key's primary |
//! | one that reads | the reads of the primary of its key, or of its first key |
//! | `flush_all` | the writes of the table's first server |
//! | one that needs no server, and mistakes | the writes of any server: a writer is never held by a server that is slow |
//!
//! Whoever puts a request into a queue holds the lock of the map meanwhile, so that none is put where nobody looks any more.

use crate::engine::split::crew::{Crew, Station};
use crate::{
    config::settings::SPLIT_THREADS_MAX,
    connections::names::AddressBook,
    engine::{
        event::serving::is_same,
        threaded::{
            queue::{Queue, QueueState, fence::Fence, order::Scope},
            queues::{By, Queues, Shared},
            request::Job,
        },
    },
    mailbox::Routing,
    process::error::RunError,
    records::windows,
};
use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard},
};
use weir_dataplane::{Report, StationEntry};
use weir_protocol::Limits;
use weir_routing::{Server, Table};
use weir_timing::{Instant, QueueReport};

pub(super) struct Stations {
    map: Arc<RwLock<Map>>,
    crew: Mutex<Crew>,
    limits: Limits,
    fence: Option<Arc<Fence>>,
    clock: crate::process::clock::Clock,
}

struct Map {
    table: Arc<Table>,
    /// By the table's servers. None: there are no threads for it.
    serving: Vec<Option<Arc<Station>>>,
    /// All that were made, those whose servers have left included.
    all: Vec<Arc<Station>>,
}

impl Map {
    /// Where a request waits, if there is somebody to serve it.
    fn queue_of(&self, job: &Job, limits: Limits) -> Option<&Queue> {
        let (place, writes) = match &job.request.writes {
            Some(Scope::Key(key)) => (self.primary(key), true),
            Some(Scope::Everything) => (0, true),
            None => match job.request.read_key(limits) {
                Some(key) => (self.primary(&key), false),
                None => (job.client.id() % self.serving.len(), true),
            },
        };
        let station = self.serving[place].as_ref()?;
        Some(if writes { &station.writes } else { &station.reads })
    }

    /// The place of the key's first server among the table's.
    fn primary(&self, key: &[u8]) -> usize {
        let pool = &self.table.pools()[self.table.pool_of(key)];
        usize::from(pool.places()[pool.router().primary(key)])
    }

    fn queues(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.all.iter().flat_map(|station| station.queues())
    }
}

impl Stations {
    pub(super) fn new(crew: Crew, limits: Limits) -> Self {
        let map =
            Map { table: Arc::clone(&crew.making().config.table), serving: Vec::new(), all: Vec::new() };
        let (fence, clock) = (crew.fence().cloned(), crew.making().clock);
        Self { map: Arc::new(RwLock::new(map)), crew: Mutex::new(crew), limits, fence, clock }
    }

    /// Makes the stations of the first table.
    pub(super) fn open(&self, shared: &Arc<Shared>) -> Result<(), RunError> {
        let mut crew = self.crew();
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        let table = Arc::clone(&map.table);
        for server in table.servers() {
            let station = Arc::new(crew.make(2 * map.all.len(), server, shared)?);
            map.all.push(Arc::clone(&station));
            map.serving.push(Some(station));
        }
        Ok(())
    }

    fn map(&self) -> RwLockReadGuard<'_, Map> {
        read(&self.map)
    }

    /// What is reported of the queues in windows: those of reads together, and those of writes.
    pub(super) fn windows(&self) -> Vec<Arc<dyn windows::Queue>> {
        let of = |name, pick| Arc::new(Kind { name, pick, map: Arc::clone(&self.map) });
        vec![of("read-queues", |station| &station.reads), of("write-queues", |station| &station.writes)]
    }

    fn crew(&self) -> MutexGuard<'_, Crew> {
        self.crew.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A station for each server of the table, and all that there are then: a server that stays keeps its own, one that comes gets one
    /// that nobody needs any more, or a new one.
    fn assign(&self, table: &Table, shared: &Arc<Shared>) -> (Vec<Option<Arc<Station>>>, Vec<Arc<Station>>) {
        let mut all = self.map().all.clone();
        let mut free = all.clone();
        let own = |server: &Server| {
            let place = free.iter().position(|it| is_same(it.reads.home().as_ref(), Some(server)));
            place.map(|place| free.remove(place))
        };
        let mut serving: Vec<_> = table.servers().iter().map(own).collect();
        let mut crew = self.crew();
        for (server, station) in table.servers().iter().zip(&mut serving) {
            if station.is_none() {
                let rested = free.iter().position(|it| it.is_at_rest()).map(|place| free.remove(place));
                // One whose threads still wait for a server that has left is better than none.
                *station =
                    rested.or_else(|| make(&mut crew, &mut all, server, shared)).or_else(|| free.pop());
            }
        }
        (serving, all)
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }
}

/// A new station, if the machine has room for it.
fn make(
    crew: &mut Crew,
    all: &mut Vec<Arc<Station>>,
    server: &Server,
    shared: &Arc<Shared>,
) -> Option<Arc<Station>> {
    if crew.threads_with_one_more() > THREADS_MAX {
        return None;
    }
    let station = Arc::new(crew.make(2 * all.len(), server, shared).ok()?);
    all.push(Arc::clone(&station));
    Some(station)
}

/// Twice as many threads as one table may need: those of servers that have left may still wait for them.
const THREADS_MAX: usize = 2 * SPLIT_THREADS_MAX;

fn read(map: &RwLock<Map>) -> RwLockReadGuard<'_, Map> {
    // Whatever is changed under the lock is whole at every step that could panic.
    map.read().unwrap_or_else(PoisonError::into_inner)
}

/// All queues of one kind. It holds none of what threads hand over by: whoever collects that waits until nobody does.
struct Kind {
    name: &'static str,
    pick: fn(&Station) -> &Arc<Queue>,
    map: Arc<RwLock<Map>>,
}

impl windows::Queue for Kind {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn report_at_end(&self, index: u64) -> QueueReport {
        let mut sum = QueueReport::default();
        for station in &read(&self.map).all {
            sum += (self.pick)(station).report_at_end(index);
        }
        sum
    }

    fn crew(&self) -> u64 {
        read(&self.map).all.iter().map(|station| (self.pick)(station).crew()).sum()
    }
}

impl Queues for Arc<Stations> {
    fn push(&self, job: Job, by: By) -> Result<(), Job> {
        let map = self.map();
        match map.queue_of(&job, self.limits) {
            Some(queue) => queue.push(job, by),
            None => Err(job),
        }
    }

    fn finish(&self, _: &Job) {
        // Nobody waits for what was never taken.
    }

    fn alarm(&self) -> Option<Instant> {
        let queues = self.map().queues().filter_map(|queue| queue.alarm()).min();
        queues.into_iter().chain(self.fence.as_ref().and_then(|fence| fence.alarm())).min()
    }

    fn expire(&self, now: Instant) -> Vec<Job> {
        if let Some(fence) = &self.fence {
            fence.expire(now);
        }
        self.map().queues().flat_map(|queue| queue.expire(now)).collect()
    }

    fn look(&self, is_contended: bool, now: Instant) {
        self.map().queues().for_each(|queue| queue.look(is_contended, now));
    }

    fn take_routing(&self, routing: Routing, shared: &Arc<Shared>) -> Vec<Job> {
        self.crew().take_routing(&routing);
        let (serving, all) = self.assign(routing.table(), shared);
        let home = |station: &Arc<Station>| {
            let is_it = |it: &Option<Arc<Station>>| it.as_ref().is_some_and(|it| Arc::ptr_eq(it, station));
            serving.iter().position(is_it).map(|place| &routing.table().servers()[place])
        };
        let mut map = self.map.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(fence) = &self.fence {
            fence.close_for_table(self.now().plus(routing.timeout_ns()));
        }
        let mut waiting = Vec::new();
        for station in &all {
            for queue in station.queues() {
                waiting.extend(queue.reassign(&routing, home(station)));
            }
        }
        *map = Map { table: Arc::clone(routing.table()), serving, all };
        drop(map);
        waiting.into_iter().filter_map(|job| self.push(job, By::Network).err()).collect()
    }

    fn take_addresses(&self, book: &Arc<AddressBook>) {
        self.crew().take_addresses(book);
        self.map().queues().for_each(|queue| queue.take_addresses(book));
    }

    fn end(&self) -> io::Result<()> {
        self.map().queues().for_each(|queue| queue.end());
        self.crew().join()
    }

    fn key_waits(&self) -> u64 {
        // Writes to one key have one writer, and wait in its queue.
        0
    }

    fn report(&self, report: &mut Report) {
        let map = self.map();
        let mut queue = QueueReport::default();
        for station in &map.all {
            for (name, of) in [("read-queue", &station.reads), ("write-queue", &station.writes)] {
                let QueueState { measured, ever, home, crew, .. } = of.report();
                queue += ever.population;
                let server = home.map(|server| server.name);
                if server.is_some() || measured.population.length > 0 {
                    report.stations.push(StationEntry {
                        station: name,
                        server,
                        threads: 0,
                        crew: Some(crew),
                        measured,
                    });
                }
            }
        }
        report.queue = Some(queue);
    }
}
