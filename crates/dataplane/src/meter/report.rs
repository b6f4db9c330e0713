//! What a dataplane tells about itself.

use crate::{meter::counters::Counters, meter::server_window::worse_state, wire::version::Version};
use weir_timing::{Distribution, QueueReport, StationReport};

/// Everything that one dataplane measured and counted, or the sum over several.
#[derive(Clone, Debug)]
pub struct Report {
    /// Histograms, windows and loop turns.
    pub timing: weir_timing::Report,
    /// Counters.
    pub counters: Counters,
    /// Client connections that are open now.
    pub sessions: u64,
    /// Memory that the buffers of all dataplanes hold that share one budget.
    pub buffered_bytes: u64,
    /// The longest value that clients may store now, in bytes; over several loops the largest of theirs.
    pub value_bytes_max: usize,
    /// The lowest version that a server has reported, if one has.
    pub version: Option<Version>,
    /// Requests that wait for a worker, where the engine has such a queue.
    pub queue: Option<QueueReport>,
    /// Where requests wait and where they are served, where the engine has threads for that.
    pub stations: Vec<StationEntry>,
    /// One entry per server of the table in force, in its order.
    pub servers: Vec<ServerReport>,
}

/// A queue, or the threads that serve what was in it.
#[derive(Clone, Debug)]
pub struct StationEntry {
    /// `queue` and `workers`, or `read-queue`, `readers`, `write-queue` and `writer`.
    pub station: &'static str,
    /// The server that it belongs to; none where there is one for all.
    pub server: Option<String>,
    /// Threads that serve; none of a queue.
    pub threads: u64,
    /// Of a queue whose workers are counted: how many may serve at once.
    pub crew: Option<CrewSize>,
    /// What was measured.
    pub measured: StationReport,
}

/// How many workers of a queue may serve at once. It changes where threads wait for processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrewSize {
    /// At the last look.
    pub now: u64,
    /// The fewest since the start.
    pub least: u64,
    /// That number summed over time, in nanoseconds. What it grows by, divided by the time in which it does, is the mean number.
    pub time_integral_ns: u64,
}

/// One server as the proxy sees it.
#[derive(Clone, Debug)]
pub struct ServerReport {
    /// Its name.
    pub server: String,
    /// `up`, `down`, `connecting` or `idle` (not needed yet); over several loops the worst of theirs.
    pub state: &'static str,
    /// Whether any loop is connected to it, or was until a moment ago, and has not found it down.
    pub is_serving: bool,
    /// Messages that were queued for it.
    pub requests: u64,
    /// Error replies that it gave, and messages that got none.
    pub errors: u64,
    /// Messages that got no reply in time.
    pub timeouts: u64,
    /// Messages that wait to be handed to the kernel.
    pub queued: QueueReport,
    /// Messages that wait for their reply.
    pub in_flight: QueueReport,
    /// From the last byte of a message handed to the kernel to its reply complete, nanoseconds.
    pub time: Distribution,
    /// Keys that it missed and that are to be deleted there.
    pub journal: u64,
    /// Why it is not read, if it is not.
    pub unread: Option<&'static str>,
    /// Why a connection to it was given up last, if one ever was.
    pub last_trouble: Option<String>,
}

impl Report {
    /// Adds what another dataplane of the same proxy measured.
    pub fn merge(&mut self, other: &Self) {
        self.timing.merge(&other.timing);
        self.counters.merge(&other.counters);
        self.sessions += other.sessions;
        self.buffered_bytes = self.buffered_bytes.max(other.buffered_bytes);
        self.version = match (self.version.take(), other.version.clone()) {
            (Some(mine), Some(theirs)) => Some(mine.min(theirs)),
            (mine, theirs) => mine.or(theirs),
        };
        self.queue = match (self.queue, other.queue) {
            (Some(mut mine), Some(theirs)) => {
                mine += theirs;
                Some(mine)
            }
            (mine, theirs) => mine.or(theirs),
        };
        for theirs in &other.stations {
            let same =
                |mine: &&mut StationEntry| mine.station == theirs.station && mine.server == theirs.server;
            match self.stations.iter_mut().find(same) {
                Some(mine) => {
                    mine.threads += theirs.threads;
                    mine.crew = mine.crew.or(theirs.crew);
                    mine.measured += theirs.measured;
                }
                None => self.stations.push(theirs.clone()),
            }
        }
        self.value_bytes_max = self.value_bytes_max.max(other.value_bytes_max);
        for (place, theirs) in other.servers.iter().enumerate() {
            // While a table is taken by one loop after the other, they do not have the same servers.
            let same = |mine: &ServerReport| mine.server == theirs.server;
            let place = if self.servers.get(place).is_some_and(same) {
                Some(place)
            } else {
                self.servers.iter().position(same)
            };
            let Some(mine) = place.map(|place| &mut self.servers[place]) else {
                self.servers.push(theirs.clone());
                continue;
            };
            mine.state = worse_state(mine.state, theirs.state);
            mine.is_serving |= theirs.is_serving;
            mine.requests += theirs.requests;
            mine.errors += theirs.errors;
            mine.timeouts += theirs.timeouts;
            mine.queued += theirs.queued;
            mine.in_flight += theirs.in_flight;
            mine.time.merge(&theirs.time);
            mine.journal += theirs.journal;
            mine.unread = mine.unread.or(theirs.unread);
            mine.last_trouble = mine.last_trouble.take().or_else(|| theirs.last_trouble.clone());
        }
    }
}
