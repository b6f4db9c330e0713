//! How many descriptors the process may have, and for what.
//!
//! ```text
//!   0 ──────────┬────────────┬──────────────────────────────────┬── limit
//!     everything│ servers,   │ clients: --max-connections,      │
//!     else      │ held for   │ or what is left                  │
//!               │ servers    │                                  │
//! ```
//!
//! [`Descriptors`] owns the plan: the limit of the kernel, what threads, files, the admin port and servers need of it, and so how many
//! clients may be connected ([`ClientLimit`]). It also has the descriptors that are held for servers ([`Reserve`]). It raises the soft
//! limit to the hard one at the start, and is asked again when servers come or go, or somebody changes the limit (prlimit). It answers
//! with a notice where fewer clients may connect than `--max-connections` says.
//!
//! Two rules keep servers from waiting behind clients:
//!
//! - Connections to servers are counted as if all were open. For each server a loop or worker has its own, and one for large values. Each
//!   of these may have a second one, made before the first is given up.
//! - Where the process runs out all the same, a connection to a server takes a descriptor that is held. No client is let in before that
//!   is held again, and what a server's connection leaves is held first.

pub(crate) mod reserve;

use crate::{
    Config, Engine,
    connections::client_limit::ClientLimit,
    notices::notice::{Notice, Tell},
    process::error::RunError,
};
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use reserve::{Reserve, is_out_of_descriptors};
use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use weir_dataplane::Counters;
use weir_timing::Instant;

/// What shares of the limit there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// What the kernel allows.
    pub(crate) limit: usize,
    /// What is kept for everything but clients.
    pub(crate) reserved: usize,
    /// How many clients may be connected.
    pub(crate) clients: usize,
}

/// What a configuration needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Needs {
    /// Threads, files, the admin port.
    others: usize,
    /// One connection for each that serves to each server that it must reach.
    servers: usize,
    /// All connections to servers that there can be.
    servers_max: usize,
    /// How many clients may connect if there is room.
    clients: usize,
}

/// Asked by the acceptor, the reloader, and those that connect to servers.
pub(crate) struct Descriptors {
    inner: Mutex<Inner>,
    clients: Arc<ClientLimit>,
    for_servers: Reserve,
    tell: Tell,
}

struct Inner {
    needs: Needs,
    plan: Plan,
    /// How many connections to servers found no descriptor, since that was reported last.
    unreported: u64,
    /// Before this moment nothing more is reported of them.
    tell_at: Instant,
}

/// What became of a connection to a server for want of a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shortage {
    /// One that is held was used.
    lent: u64,
    /// There was none at all.
    refused: u64,
}

impl Shortage {
    /// Counts it among what a loop has counted.
    pub(crate) fn count(self, counters: &mut Counters) {
        counters.server_connects_reserved += self.lent;
        counters.server_connects_refused_descriptors += self.refused;
    }
}

/// Connections to the admin port at once.
pub(crate) const ADMIN_CONNECTIONS_MAX: usize = 64;

/// Standard streams, the first listener, files, what waits for signals and for names, and what is opened for a moment.
const SUNDRIES: usize = 32;

/// A thread that serves waits on one descriptor and is woken by another.
const OF_THREAD: usize = 2;

/// The admin port's own thread.
const OF_ADMIN: usize = 8;

/// Between two notices of the same kind. Nanoseconds.
pub(crate) const TELL_EVERY_NS: u64 = 1_000_000_000;

/// More than this are not held for servers: who lacks one waits until what another left is held again.
const HELD_MAX: usize = 64;

impl Needs {
    fn of(config: &Config) -> Self {
        let threads = config.serving_threads();
        // One for each loop or worker to each server of its group.
        let groups = (0..config.groups().all().len()).map(|number| config.of_group(number));
        let of_all: usize = groups.map(|group| group.serving_threads() * group.table.servers().len()).sum();
        let admin = if config.admin.is_some() { ADMIN_CONNECTIONS_MAX + OF_ADMIN } else { 0 };
        let reached = match config.settings.engine {
            // A reader of one server reaches others where a request has keys of several.
            Engine::Split => threads,
            Engine::Event | Engine::Pool => of_all,
        };
        let connections = match config.settings.engine {
            Engine::Event if !config.is_replicated() => 2,
            _ => 1,
        };
        Self {
            // Beside those that serve there are the acceptor and perhaps a network thread.
            others: SUNDRIES + config.listeners.len() - 1 + OF_THREAD * (threads + 2) + admin,
            servers: reached,
            servers_max: of_all * connections * 2,
            clients: config.settings.max_connections,
        }
    }

    /// How many are held for servers.
    fn held(self) -> usize {
        self.servers.min(HELD_MAX)
    }

    fn plan(self, limit: usize) -> Plan {
        let free = limit.saturating_sub(self.others + self.held());
        // Where not all connections that there can be have room, half of it is for clients, if servers have what they cannot do without.
        let servers = self.servers_max.min((free / 2).max(self.servers));
        let clients = free.saturating_sub(servers).min(self.clients);
        Plan { limit, reserved: self.others + self.held() + servers, clients }
    }
}

impl Descriptors {
    /// Raises the limit and holds what is held for servers. To be called before anything else is opened.
    pub(crate) fn start(config: &Config, tell: Tell) -> Result<Arc<Self>, RunError> {
        let limit = raise_limit();
        let needs = Needs::of(config);
        let plan = needs.plan(limit);
        if plan.clients == 0 {
            return Err(RunError::Descriptors { limit, needed: plan.reserved + 1 });
        }
        let descriptors = Self {
            for_servers: Reserve::new(needs.held()),
            inner: Mutex::new(Inner { needs, plan, unreported: 0, tell_at: Instant::ZERO }),
            clients: ClientLimit::new(plan.clients),
            tell,
        };
        if plan.clients < needs.clients {
            descriptors.say(needs, plan);
        }
        Ok(Arc::new(descriptors))
    }

    pub(crate) fn clients(&self) -> &Arc<ClientLimit> {
        &self.clients
    }

    pub(crate) fn plan(&self) -> Plan {
        self.inner().plan
    }

    /// Somebody may have changed the limit.
    pub(crate) fn look(&self) {
        let mut inner = self.inner();
        let limit = limit();
        if limit != inner.plan.limit {
            self.replan(&mut inner, limit);
        }
    }

    /// Servers have come or gone.
    pub(crate) fn take_config(&self, config: &Config) {
        let mut inner = self.inner();
        let clients = inner.needs.clients;
        inner.needs = Needs { clients, ..Needs::of(config) };
        let limit = inner.plan.limit;
        self.replan(&mut inner, limit);
    }

    fn replan(&self, inner: &mut Inner, limit: usize) {
        let plan = inner.needs.plan(limit);
        let is_other = plan.clients != inner.plan.clients;
        inner.plan = plan;
        self.clients.set_most(plan.clients);
        if is_other {
            self.say(inner.needs, plan);
        }
    }

    fn say(&self, needs: Needs, plan: Plan) {
        let Plan { limit, reserved, clients } = plan;
        (self.tell)(Notice::ClientsMax { wanted: needs.clients, most: clients, limit, reserved });
    }

    /// Opens what is lacking of the descriptors that are held for servers. Returns whether nothing is any more: a client may keep its own.
    pub(crate) fn refill(&self) -> bool {
        self.for_servers.refill()
    }

    /// Something was closed that can be held for servers, if that is lacking.
    pub(crate) fn note_closed(&self) {
        self.for_servers.refill();
    }

    /// Begins a connection to a server; where there is no descriptor for it, with one that is held.
    pub(crate) fn connect<T>(
        &self,
        shortage: &mut Shortage,
        now: Instant,
        connect: impl Fn() -> io::Result<T>,
    ) -> io::Result<T> {
        match connect() {
            Err(error) if is_out_of_descriptors(&error) => {
                let is_lent = self.for_servers.let_go();
                shortage.lent += u64::from(is_lent);
                let connected = if is_lent { connect() } else { Err(error) };
                shortage.refused += u64::from(connected.as_ref().is_err_and(is_out_of_descriptors));
                self.note_shortage(now);
                connected
            }
            other => other,
        }
    }

    #[cold]
    fn note_shortage(&self, now: Instant) {
        let mut inner = self.inner();
        inner.unreported += 1;
        if now >= inner.tell_at {
            inner.tell_at = now.plus(TELL_EVERY_NS);
            let count = std::mem::take(&mut inner.unreported);
            (self.tell)(Notice::DescriptorsLacking { count, limit: inner.plan.limit });
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Whatever is changed under the lock is whole at every step that could panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Raises the soft limit to the hard one, and returns what is allowed then.
fn raise_limit() -> usize {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // Where that is refused, the plan goes by what is allowed.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    limit()
}

/// What the kernel allows now. It cannot refuse to say.
fn limit() -> usize {
    let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(rlim_t::MAX, |(soft, _)| soft);
    usize::try_from(soft).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDS: Needs = Needs { others: 100, servers: 6, servers_max: 24, clients: 10_000 };

    #[test]
    fn clients_have_what_others_and_servers_leave() {
        let clients = |limit| NEEDS.plan(limit).clients;
        assert_eq!(clients(1 << 20), 10_000);
        assert_eq!(clients(1024), 1024 - 100 - 6 - 24);
        assert_eq!(NEEDS.plan(1024).reserved, 130);
        // Half of the rest, while servers have what they cannot do without.
        assert_eq!((clients(136), clients(120)), (15, 7));
        assert_eq!((clients(113), clients(112), clients(0)), (1, 0, 0));
    }
}
