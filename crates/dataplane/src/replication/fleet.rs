//! The servers, the table by which keys are placed on them, and what is known of their copies.
//!
//! [`Fleet`] owns the routes in force, the connections, and what replicas lack. It keeps older routes while a write that was begun with
//! them is being decided. It is given tables. It answers where a key is, and which of its servers decides or may be read.

use crate::{
    Config, Fault, Mutation, ReadPolicy, meter::report::ServerReport, meter::server_window::ServerWindow,
    replication::freshness::Freshness, replication::readers::Readers, replication::replica::Replicas,
    routes::Routes, routes::placement_cache::PlacementCache, servers::Servers, servers::deadlines::sooner,
    wire::ids::Slot, wire::tagged::Tagged, wire::version::Lowest, wire::version::Version,
};
use std::{mem, sync::Arc};
use weir_protocol::{Expected, Reply, Status};
use weir_routing::{REPLICAS_MAX, Table};
use weir_timing::Distribution;
use weir_timing::Instant;

/// Servers, and what is on them.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) config: Config,
    pub(crate) routes: Arc<Routes>,
    /// Where `routes` have led lately.
    placement_cache: PlacementCache,
    /// Earlier ones, with which writes were begun that are being decided.
    former: Vec<Arc<Routes>>,
    /// What `routes` will become as soon as there is room for its servers.
    coming: Option<Arc<Table>>,
    /// How many tables have been.
    generation: u64,
    pub(crate) servers: Servers,
    /// What those lack of which others have copies.
    pub(crate) replicas: Replicas,
    /// Reads that chose among replicas, or that were asked of another than the first.
    turn: usize,
    /// What clients learn of `routes`' servers.
    lowest_version: Lowest,
}

impl Fleet {
    /// Before the first table is taken.
    pub(crate) fn new(config: Config, table: &Arc<Table>, freshness: Arc<Freshness>) -> Self {
        let routes = Arc::new(Routes::nowhere(table));
        Self {
            former: Vec::new(),
            coming: None,
            generation: 0,
            servers: Servers::new(&config, &routes),
            placement_cache: PlacementCache::new(config.seed),
            routes,
            replicas: Replicas::new(&config, freshness),
            turn: 0,
            lowest_version: Lowest::default(),
            config,
        }
    }

    // ── tables ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The table that is to be taken as soon as there is room for its servers.
    pub(crate) fn offer(&mut self, table: Arc<Table>) {
        self.coming = Some(table);
    }

    /// Whether a table waits for room.
    pub(crate) fn is_one_coming(&self) -> bool {
        self.coming.is_some()
    }

    /// The number of the table in force.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Takes the table that waits, if there is room. Returns whether another one was in force before.
    pub(crate) fn take_coming_table(&mut self, now: Instant) -> bool {
        let Some(table) = self.coming.take_if(|table| self.servers.slots().has_room(table)) else {
            return false;
        };
        let slots = table.servers().iter().map(|server| self.servers.assign(server, now)).collect();
        let routes = Arc::new(Routes::new(table, slots));
        self.servers.follow(&routes);
        if self.generation == 0 || !self.config.is_without(Mutation::PlacementOfTable) {
            self.placement_cache.empty(routes.is_any_by_md5());
        }
        let former = mem::replace(&mut self.routes, routes);
        self.lowest_version = Lowest::default();
        let is_first = former.servers().is_empty();
        self.generation += 1;
        self.former.push(former);
        self.former.retain(|routes| Arc::strong_count(routes) > 1);
        !is_first
    }

    /// Servers that hold copies of what others hold get what that needs: when what has happened because of the table was taken.
    pub(crate) fn prepare(&mut self) {
        self.replicas.prepare(&self.routes, &mut self.servers);
    }

    /// Ends connections that have waited for their last replies. Returns whether a slot is free because of it.
    pub(crate) fn settle_all(&mut self, now: Instant) -> bool {
        let Self { servers, former, .. } = self;
        servers.settle_all(|slot| is_pledged(former, slot), now)
    }

    /// When the first of them can be ended at the latest.
    #[inline]
    pub(crate) fn next_settled(&self) -> Option<Instant> {
        self.servers.next_settled(|slot| is_pledged(&self.former, slot))
    }

    // ── time ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Once per turn: makes servers forget what they missed.
    #[inline]
    pub(crate) fn work(&mut self, now: Instant) {
        if !self.replicas.is_empty() {
            self.replicas.work(&mut self.servers, now);
        }
    }

    /// When something of any server is late, or is to be tried, ended or sent.
    #[inline]
    pub(crate) fn due(&self) -> Option<Instant> {
        let earliest = sooner(self.next_settled(), self.servers.due());
        if self.replicas.is_empty() { earliest } else { sooner(earliest, self.replicas.due(&self.servers)) }
    }

    // ── reports ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// One entry for each server of the table in force, in its order. `time`: what was handed over of how long its slot took.
    pub(crate) fn reports(&self, time: impl Fn(Slot) -> Distribution, now: Instant) -> Vec<ServerReport> {
        let slots = self.routes.servers().iter().copied();
        slots.map(|slot| self.report_of(slot, time(slot), now)).collect()
    }

    fn report_of(&self, slot: Slot, time: Distribution, now: Instant) -> ServerReport {
        let backend = &self.servers[slot];
        let mut it = ServerReport {
            server: self.servers.slots().server(slot).name.clone(),
            state: backend.state().name(),
            is_serving: backend.is_serving(),
            requests: backend.tally().requests(),
            errors: backend.tally().errors(),
            timeouts: backend.tally().timeouts(),
            queued: backend.tally().queued(now),
            in_flight: backend.tally().in_flight(now),
            time,
            journal: self.replicas.missed(slot),
            unread: self.replicas.trouble(slot, now),
            last_trouble: backend.last_trouble(),
        };
        it.time.merge(backend.tally().times());
        if let Some(bulk) = self.servers.bulk_of(slot).map(|slot| &self.servers[slot]) {
            it.time.merge(bulk.tally().times());
            it.requests += bulk.tally().requests();
            it.errors += bulk.tally().errors();
            it.timeouts += bulk.tally().timeouts();
            it.queued += bulk.tally().queued(now);
            it.in_flight += bulk.tally().in_flight(now);
        }
        it
    }

    /// The same of the window with this number, which is over. `time`: how long the server of a slot took in it.
    pub(crate) fn end_window(
        &mut self,
        index: u64,
        mut time: impl FnMut(Slot) -> Distribution,
    ) -> Vec<ServerWindow> {
        let Self { servers, routes, .. } = self;
        let slots = routes.servers().iter().copied();
        let of = |slot: Slot| {
            let name = Arc::clone(servers.slots().name(slot));
            let mut window = servers[slot].end_window(index, name, time(slot));
            if let Some(bulk) = servers.bulk_of(slot) {
                window.add(&servers[bulk].end_window(index, Arc::default(), Distribution::new()));
            }
            window
        };
        slots.map(of).collect()
    }

    /// A server has reported its version.
    #[cold]
    pub(crate) fn note_version(&self, server: Slot, version: Version) {
        let name = self.servers.slots().name(server);
        self.replicas.freshness().versions.note(name, version, self.names());
    }

    /// The lowest version that a server has reported, of those of the table in force.
    #[cold]
    pub(crate) fn lowest_version(&self) -> Option<Version> {
        self.replicas.freshness().versions.lowest(self.names())
    }

    /// The same for a client, which may ask again at once: servers are looked up where something may have changed.
    #[cold]
    pub(crate) fn version_for_client(&mut self) -> Option<&Version> {
        let Self { lowest_version, replicas, routes, servers, .. } = self;
        lowest_version.get(&replicas.freshness().versions, names(routes, servers))
    }

    fn names(&self) -> impl Iterator<Item = &str> + Clone {
        names(&self.routes, &self.servers)
    }

    // ── questions ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Which servers may be read.
    #[inline]
    pub(crate) const fn readers(&self) -> Readers<'_> {
        Readers { servers: &self.servers, replicas: &self.replicas }
    }

    /// A server did not answer a part of a request.
    pub(crate) fn note_failed(&mut self, server: Slot) {
        let backend = &mut self.servers[server];
        backend.count_error();
        backend.observe(self.config.timeout_ns);
    }

    /// The first of the key's servers.
    #[inline]
    pub(crate) fn primary(&mut self, name: &[u8]) -> Slot {
        self.placement_cache.find(name, |name| self.routes.primary(name))
    }

    /// Writes the key's servers into `out`, the primary first, and returns how many.
    #[inline]
    pub(crate) fn replicas_of(&mut self, name: &[u8], out: &mut [Slot; REPLICAS_MAX]) -> usize {
        if self.routes.is_replicated() {
            return self.routes.replicas_of(name, out);
        }
        out[0] = self.primary(name);
        1
    }

    /// The server that decides what a key's value is.
    #[inline]
    pub(crate) fn decider(&mut self, name: &[u8]) -> Result<Slot, (Fault, Slot)> {
        let primary = self.primary(name);
        // Without replicas whoever sends finds out what is wrong with it.
        if !self.routes.is_replicated() || self.readers().is_readable(primary) {
            return Ok(primary);
        }
        self.other_decider(name, primary)
    }

    /// The decider of a key whose first server cannot be read.
    #[cold]
    fn other_decider(&mut self, name: &[u8], primary: Slot) -> Result<Slot, (Fault, Slot)> {
        let mut replicas = [Slot::FIRST; REPLICAS_MAX];
        let count = self.routes.replicas_of(name, &mut replicas);
        if count == 1 {
            return Ok(primary);
        }
        let decider = self.readers().first(&replicas[..count])?;
        self.replicas.note_failed_over(decider != primary);
        Ok(decider)
    }

    /// The reply of a server with its tag in the tokens that it has; `None` where it has none, or its keys have no other server.
    /// `is_replicated`: whether it is to a request for a key that has several.
    #[cold]
    pub(crate) fn tag_reply(
        &self,
        (server, expected): (Slot, Expected),
        (reply, bytes): (Reply, &[u8]),
        is_replicated: bool,
    ) -> Option<Tagged> {
        let tag = self.replicas.tag(server)?;
        match reply.status {
            Status::End if expected == Expected::Retrieval => {
                // A server may belong to several pools.
                let is_replicated = |name: &[u8]| self.routes.replicates(name);
                tag.in_values((reply, bytes), self.servers[server].values(), is_replicated)
            }
            // A line about an item, for whoever looks for mistakes, shows what the server has.
            Status::MetaDone if bytes.starts_with(b"ME") => None,
            Status::MetaDone | Status::MetaValue if is_replicated => tag.in_meta(reply, bytes),
            _ => None,
        }
    }

    /// The server that a `get` of one key is sent to, where another than the decider may be asked.
    pub(crate) fn reader(&mut self, name: &[u8], decider: Slot) -> Slot {
        let mut replicas = [Slot::FIRST; REPLICAS_MAX];
        let count = self.routes.replicas_of(name, &mut replicas);
        self.turn = self.turn.wrapping_add(1);
        let readers = self.readers();
        let readable = || {
            let servers = replicas[..count].iter().copied();
            servers.filter(|&server| readers.is_readable(server))
        };
        let in_turn = || readable().nth(self.turn % readable().count().max(1));
        let chosen = match self.config.read_policy {
            ReadPolicy::Primary => None,
            ReadPolicy::Spread => in_turn(),
            ReadPolicy::Nearest if self.turn.is_multiple_of(TRIAL_EVERY) => in_turn(),
            ReadPolicy::Nearest => readable().min_by_key(|&server| readers.servers.smoothed_ns(server)),
        };
        chosen.unwrap_or(decider)
    }
}

/// Of the servers of these routes, in their order.
fn names<'a>(routes: &'a Routes, servers: &'a Servers) -> impl Iterator<Item = &'a str> + Clone {
    routes.servers().iter().map(|&slot| &**servers.slots().name(slot))
}

/// Whether a write that is being decided may still be sent to this server: it keeps the routes that it was begun with.
fn is_pledged(former: &[Arc<Routes>], slot: Slot) -> bool {
    let mut undecided = former.iter().filter(|routes| Arc::strong_count(routes) > 1);
    undecided.any(|routes| routes.servers().contains(&slot))
}

/// One of this many reads is a trial of whichever replica's turn it is, so that a server that became faster is noticed.
const TRIAL_EVERY: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::slots::SLOTS_MAX;
    use weir_routing::{Placement, Router, Server};

    fn table(host: &str) -> Arc<Table> {
        let router = Router::new(vec![Server::new(host, 1)], Placement::Modulo, 1);
        Arc::new(router.expect("one server is a pool").into())
    }

    #[test]
    fn a_key_goes_where_the_table_in_force_leads() {
        let ring = |hosts: &[&str]| {
            let servers = hosts.iter().map(|host| Server::new(*host, 1)).collect();
            Arc::new(Table::from(Router::new(servers, Placement::Ketama, 1).expect("servers are a pool")))
        };
        let mut fleet = Fleet::new(Config::default(), &ring(&["a"]), Arc::default());
        let keys: Vec<_> = (0..100).map(|number| format!("key:{number}")).collect();
        for hosts in [&["a", "b"][..], &["c", "a", "b"], &["b"]] {
            fleet.offer(ring(hosts));
            fleet.take_coming_table(Instant::ZERO);
            for key in keys.iter().chain(&keys) {
                let expected = fleet.routes.primary(key.as_bytes());
                assert_eq!(fleet.primary(key.as_bytes()), expected, "{key} of {hosts:?}");
                let mut out = [Slot::FIRST; REPLICAS_MAX];
                assert_eq!((fleet.replicas_of(key.as_bytes(), &mut out), out[0]), (1, expected));
            }
        }
    }

    #[test]
    fn a_table_waits_until_there_is_room_for_its_servers() {
        let mut fleet = Fleet::new(Config::default(), &table("a"), Arc::default());
        let offer = |fleet: &mut Fleet, host: &str| {
            fleet.offer(table(host));
            fleet.take_coming_table(Instant::ZERO)
        };
        let first = |fleet: &Fleet| fleet.servers.slots().name(fleet.routes.servers()[0]).to_string();
        assert!(!offer(&mut fleet, "a"), "it is the first");
        fleet.servers.fill_with_leaving(Instant::ZERO);
        assert_eq!(fleet.servers.slots().len(), SLOTS_MAX);
        assert!(!offer(&mut fleet, "b") && !offer(&mut fleet, "c"));
        assert_eq!((first(&fleet), fleet.next_settled()), ("a:1".into(), Some(Instant::ZERO)));
        assert!(fleet.settle_all(Instant::ZERO));
        assert!(fleet.take_coming_table(Instant::ZERO));
        assert_eq!(first(&fleet), "c:1");
        assert_eq!(fleet.servers.slots().len(), SLOTS_MAX);
    }
}
