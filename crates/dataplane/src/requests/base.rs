//! What requests are served with.
//!
//! [`Base`] holds the owners below the requests, and does what concerns several of them: time and memory.

use crate::{
    clients::Clients,
    config::Config,
    memory::budget::{Budget, SMALL_REPLY_BYTES},
    memory::copies::Copies,
    meter::Meter,
    meter::counters::Counters,
    meter::report::Report,
    meter::window::LoopWindow,
    replication::Replication,
    replication::fleet::Fleet,
    replication::freshness::Freshness,
    servers::deadlines::sooner,
    wire::ids::SessionId,
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
    /// What requests in service keep of values.
    copies: Copies,
    /// When memory that nobody uses is given back; `None` while there was nothing to do since the last time.
    memory_due: Option<Instant>,
}

impl Base {
    pub(crate) fn new(config: Config, table: &Arc<Table>, freshness: Arc<Freshness>, now: Instant) -> Self {
        let clients = Clients::new(&config);
        Self {
            copies: Copies::new(clients.held().budget()),
            clients,
            replication: Replication::new(&config),
            meter: Meter::new(&config, now),
            fleet: Fleet::new(config, table, freshness),
            memory_due: None,
        }
    }

    // ── time ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Closes the windows that are over at `now`. Before something is recorded.
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant) {
        if self.meter.is_over(now) {
            self.end_windows(now);
        }
    }

    /// The times of servers belong to the open window.
    #[cold]
    #[inline(never)]
    fn end_windows(&mut self, now: Instant) {
        let Self { fleet, meter, .. } = self;
        fleet.servers.take_times(|server, times| meter.add_server_times(server, times));
        meter.advance(now);
    }

    /// When there is something to do at the latest.
    #[inline]
    pub(crate) fn due(&self) -> Option<Instant> {
        if self.clients.is_any_to_go_on() {
            return Some(Instant::ZERO);
        }
        let window = self.meter.used_window().map(|(_, ends)| ends);
        let due = sooner(sooner(sooner(self.memory_due, self.clients.due()), window), self.fleet.due());
        if self.replication.has_waiting() { sooner(due, self.replication.due()) } else { due }
    }

    // ── servers and other loops ────────────────────────────────────────────────────────────────────────────────────────────

    /// The longest value that any server stores: larger ones are refused before they are read.
    pub(crate) fn learn_item_size(&mut self, largest: usize) {
        // A request is kept whole until it is complete, and counts for its client.
        let config = &mut self.fleet.config;
        let bytes = largest.min(config.session_buffer_bytes_max);
        if bytes != config.limits.value_bytes_max {
            config.limits.value_bytes_max = bytes;
            self.clients.set_value_bytes_max(bytes);
        }
    }

    /// If this dataplane has others beside it, they may send it mail.
    pub(crate) fn open_mailbox(&mut self, now: Instant) {
        if self.fleet.config.has_owners() {
            self.replication.open_mailbox(&self.fleet.config, self.clients.lend(now));
        }
    }

    /// Nothing waits, anywhere: for tests.
    pub(crate) fn is_quiet(&self) -> bool {
        self.fleet.servers.is_quiet()
            && !self.fleet.is_one_coming()
            && !self.clients.is_any_to_go_on()
            && self.replication.is_quiet()
            && self.copies.is_empty()
    }

    // ── memory ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Something is going on, so there may be memory to give back a while later.
    #[inline]
    pub(crate) fn memory_is_used(&mut self, now: Instant) {
        self.meter.use_window();
        if self.memory_due.is_none() {
            self.memory_due = Some(now.plus(MEMORY_PAUSE_NS));
        }
    }

    /// Frees the buffers that are empty, if it is time. Returns whether it was.
    #[inline]
    pub(crate) fn give_memory_back(&mut self, now: Instant) -> bool {
        let is_due = self.memory_due.is_some_and(|due| now >= due);
        if is_due {
            self.memory_due = None;
            self.free_empty_buffers();
        }
        is_due
    }

    /// Frees the buffers of clients and servers that are empty.
    #[cold]
    pub(crate) fn free_empty_buffers(&mut self) {
        let servers = self.fleet.servers.give_memory_back();
        self.clients.give_memory_back(servers);
    }

    /// A client was answered with this many bytes, which others are answered with, too: what the first hold counts for the next.
    #[inline]
    pub(crate) fn count_copy(&mut self, id: SessionId, len: usize) {
        if len > SMALL_REPLY_BYTES && self.clients.get(id).is_some() {
            self.clients.recharge(id);
        }
    }

    /// Once per turn, with what all connections to servers hold.
    #[inline]
    pub(crate) fn publish_held(&mut self, servers: usize, now: Instant) {
        if self.clients.publish_held(servers) {
            let servers = self.fleet.servers.give_memory_back();
            self.clients.relieve(servers, now);
        }
    }

    /// At the end of a turn: tells the others what is held, if that has changed.
    #[inline]
    pub(crate) fn tell_held(&mut self) {
        self.copies.tell();
        self.clients.tell_held();
    }

    /// How long a copy of a value may be that a request in service is to keep until its server has answered.
    #[inline]
    pub(crate) fn copy_bytes_max(&self) -> usize {
        self.copies.bytes_max(self.clients.held())
    }

    /// A request in service keeps so much of a value, and kept so much `before`.
    #[inline]
    pub(crate) const fn recharge_copy(&mut self, before: usize, now: usize) {
        self.copies.recharge(before, now);
    }

    /// From now on the limit is one for all dataplanes that share this budget.
    pub(crate) fn share_budget(&mut self, budget: &Arc<Budget>) {
        self.clients.share_budget(budget);
        self.copies.share(budget);
    }

    /// The budget that this dataplane shares.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        self.clients.held().budget()
    }

    // ── reports ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// What was counted, by all.
    pub(crate) fn counters(&self) -> Counters {
        let Self { clients, fleet, meter, replication, .. } = self;
        let replication = replication.counters();
        meter.total([clients.counters(), fleet.servers.counters(), fleet.replicas.counters(), replication])
    }

    /// Everything that was measured and counted.
    pub(crate) fn report(&self, now: Instant) -> Report {
        Report {
            timing: self.meter.timing(),
            counters: self.counters(),
            sessions: self.clients.count() as u64,
            buffered_bytes: self.budget().held() as u64,
            value_bytes_max: self.fleet.config.limits.value_bytes_max,
            version: self.fleet.lowest_version(),
            queue: None,
            stations: Vec::new(),
            servers: self.fleet.reports(|slot| self.meter.server_time(slot), now),
        }
    }

    /// The oldest window that is over and was not handed out yet, while this many requests are in service.
    pub(crate) fn poll_window(&mut self, in_service: usize) -> Option<LoopWindow> {
        let mut ended = self.meter.poll_ended()?;
        let total = self.counters();
        if in_service > 0 {
            // Queues have a length in the next second even if nothing happens in it.
            self.meter.use_window();
        }
        Some(LoopWindow {
            index: ended.index,
            counters: self.meter.counted_since(total),
            sessions: self.clients.count() as u64,
            in_service: in_service as u64,
            servers: self.fleet.end_window(ended.index, |slot| ended.measured.take_server_time(slot.index())),
            measured: ended.measured,
        })
    }

    /// The reply to `version`.
    #[cold]
    pub(crate) fn version_reply(&mut self) -> Vec<u8> {
        let reply = self.fleet.version_for_client().map(|version| format!("VERSION {version}\r\n"));
        reply.unwrap_or_else(|| format!("VERSION {}\r\n", self.fleet.config.version)).into_bytes()
    }
}

/// How long memory is kept after it was needed.
pub(crate) const MEMORY_PAUSE_NS: u64 = 1_000_000_000;
