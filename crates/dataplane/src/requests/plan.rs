//! Whom a retrieval is asked of.
//!
//! | request | R = 1 | R > 1 |
//! |---|---|---|
//! | `get` of one key | the primary | the decider: the first replica that may be read, or another as [`ReadPolicy`] says |
//! | `get` of several | each key's primary, one message per server | as [`Multiget`] says |
//! | `gets`, `gat`, `gats` | each key's primary | each key's decider: tokens and expiry times are a server's own |
//!
//! What another replica than the decider does not have is asked of the decider in a second step (`second_step.rs`).
//!
//! A client may send a `get` behind a write that the decider decides before that one is answered. The other replicas hear of the
//! write only then, so until it is done all reads of its session go to deciders: a client never reads what it has overwritten.
//!
//! [`Planner`] owns the turns and measurements by which it chooses, and gathers that wait to be used again. It is given the keys, what the
//! session has in service, and the fleet. It answers with a [`Plan`], and sends nothing.

use crate::{
    Fault, Multiget, ReadPolicy,
    clients::session::Session,
    replication::fleet::Fleet,
    replication::readers::Readers,
    requests::chooser::{Chooser, Way},
    requests::gather::Gather,
    routes::PoolSlots,
    wire::ids::Slot,
};
use std::sync::Arc;
use weir_protocol::{Retrieval, RetrievalVerb};
use weir_routing::{Balance, REPLICAS_MAX};

/// Whom to ask.
#[derive(Debug)]
pub(crate) enum Plan {
    /// One server, whose reply is the answer; or why there is none.
    One(Result<Slot, (Fault, Slot)>),
    /// Each server of the gather for the keys that are assigned to it; and how it is asked for, where that was chosen by measurement.
    Parts(Box<Gather>, Option<Way>),
}

/// What plans retrievals, kept from one to the next.
#[derive(Debug)]
pub(crate) struct Planner {
    /// The server that answers for the first part of the next even split.
    first: usize,
    /// Servers of the request that is being planned.
    servers: Vec<Slot>,
    balance: Balance,
    chooser: Chooser,
    /// Gathers that wait to be used again.
    #[expect(clippy::vec_box, reason = "a gather moves between here and its service without being copied")]
    gathers: Vec<Box<Gather>>,
}

/// What is known of whoever asks, when it asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker {
    /// Only deciders may be asked.
    needs_deciders: bool,
    /// How many changes it has sent.
    changes: u64,
}

impl From<&Session> for Asker {
    #[inline]
    fn from(session: &Session) -> Self {
        Self { needs_deciders: session.has_undecided(), changes: session.changes() }
    }
}

impl Planner {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            first: 0,
            servers: Vec::new(),
            balance: Balance::default(),
            chooser: Chooser::new(seed),
            gathers: Vec::new(),
        }
    }

    /// A gather in which nothing is.
    #[inline]
    pub(crate) fn gather(&mut self) -> Box<Gather> {
        self.gathers.pop().unwrap_or_default()
    }

    /// A gather of which nothing is needed any more; `is_scarce`: memory is.
    pub(crate) fn recycle(&mut self, mut gather: Box<Gather>, is_scarce: bool) {
        let is_large = gather.capacity() > GATHER_BYTES_MAX;
        if self.gathers.len() < GATHERS_MAX && !(is_large && is_scarce) {
            gather.clear();
            self.gathers.push(gather);
        }
    }

    /// Frees memory that is kept to be used again.
    pub(crate) fn give_memory_back(&mut self) {
        self.gathers.retain(|gather| gather.capacity() <= KEPT_BYTES_MAX);
        if self.balance.capacity() > KEPT_BYTES_MAX {
            self.balance = Balance::default();
        }
    }

    /// How much memory the gathers keep that wait to be used again: for tests.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.gathers.iter().map(|gather| gather.capacity()).sum()
    }

    /// A request whose way was chosen took this long, and had this many keys.
    pub(crate) fn learn(&mut self, way: Way, keys: usize, nanos: u64) {
        self.chooser.observe(way, keys, nanos);
    }

    /// Plans a retrieval of at least one key.
    #[inline(always)]
    pub(crate) fn plan(&mut self, fleet: &mut Fleet, retrieval: Retrieval<'_>, asker: Asker) -> Plan {
        let first = retrieval.keys().next().expect("a retrieval with a key count above 0 has a key");
        if retrieval.key_count() == 1 {
            return self.plan_one(fleet, retrieval.verb, first, asker);
        }
        let routes = Arc::clone(&fleet.routes);
        // A request that needs several pools is asked as if no key had a second server.
        let pool = routes.pool_of_all(retrieval.keys());
        if let Some(PoolSlots { servers: &[only], .. }) = pool {
            return Plan::One(Ok(only));
        }
        let replicated = pool.filter(|pool| pool.replicas > 1);
        let Some(PoolSlots { servers, replicas }) =
            replicated.filter(|_| retrieval.verb == RetrievalVerb::Get && !asker.needs_deciders)
        else {
            return Plan::Parts(self.by_decider(fleet, retrieval, asker), None);
        };
        let mut chosen = None;
        let mut gather = if replicas < servers.len() {
            self.balanced(fleet, retrieval, replicas)
        } else {
            let way = match fleet.config.multiget {
                Multiget::Whole => Way::Whole,
                Multiget::Sharded => Way::Sharded,
                Multiget::Auto => *chosen.insert(self.chooser.choose(retrieval.key_count())),
            };
            let split = if way == Way::Sharded { self.evenly(fleet, retrieval, servers) } else { None };
            split.unwrap_or_else(|| self.at_one(fleet, first, retrieval.key_count()))
        };
        gather.again.allow(retrieval.keys(), asker.changes, fleet.generation());
        Plan::Parts(gather, chosen)
    }

    /// A key alone. What another replica than the decider does not have is asked of the decider.
    #[inline(always)]
    fn plan_one(&mut self, fleet: &mut Fleet, verb: RetrievalVerb, name: &[u8], asker: Asker) -> Plan {
        let decider = fleet.decider(name);
        if !fleet.routes.is_replicated() {
            return Plan::One(decider);
        }
        if let Ok(server) = decider
            && fleet.replicas.is_doubted(server)
        {
            return self.plan_doubted(fleet, verb, (name, server), asker);
        }
        let Ok(decider) = decider else { return Plan::One(decider) };
        let may_spread = verb == RetrievalVerb::Get && !asker.needs_deciders;
        if fleet.config.read_policy == ReadPolicy::Primary || !may_spread {
            return Plan::One(Ok(decider));
        }
        let reader = fleet.reader(name, decider);
        if reader == decider {
            return Plan::One(Ok(decider));
        }
        let mut gather = self.gather();
        gather.assign(reader);
        gather.again.allow(std::iter::once(name), asker.changes, fleet.generation());
        Plan::Parts(gather, None)
    }

    /// A key alone whose decider may have come back empty.
    #[cold]
    fn plan_doubted(
        &mut self,
        fleet: &mut Fleet,
        verb: RetrievalVerb,
        (name, decider): (&[u8], Slot),
        asker: Asker,
    ) -> Plan {
        let may_spread = verb == RetrievalVerb::Get && !asker.needs_deciders;
        let server = if may_spread { fleet.reader(name, decider) } else { decider };
        let mut gather = self.gather();
        gather.assign(server);
        allow_again(fleet, &mut gather, (verb, std::iter::once(name)), asker);
        Plan::Parts(gather, None)
    }

    /// Each key's decider; where there is none, a server that will be found to be none.
    fn by_decider(&mut self, fleet: &mut Fleet, retrieval: Retrieval<'_>, asker: Asker) -> Box<Gather> {
        let mut gather = self.gather();
        if !fleet.routes.is_replicated() {
            let assign = |servers: &[Slot]| gather.assign(servers[0]);
            fleet.routes.replicas_of_each::<1>(retrieval.keys(), assign);
            return gather;
        }
        let mut is_doubted = false;
        for name in retrieval.keys() {
            let server = fleet.decider(name).unwrap_or_else(|(_, server)| server);
            is_doubted |= fleet.replicas.is_doubted(server);
            gather.assign(server);
        }
        if is_doubted {
            allow_again(fleet, &mut gather, (retrieval.verb, retrieval.keys()), asker);
        }
        gather
    }

    /// One server, by the first key.
    fn at_one(&mut self, fleet: &mut Fleet, first: &[u8], keys: usize) -> Box<Gather> {
        let server = fleet.decider(first).unwrap_or_else(|(_, server)| server);
        let mut gather = self.gather();
        (0..keys).for_each(|_| gather.assign(server));
        gather
    }

    /// As many servers as there are keys, or all, for equal parts of the keys in their order. The server that comes first is
    /// another one with each request. `None`: none can be asked.
    fn evenly(&mut self, fleet: &Fleet, retrieval: Retrieval<'_>, of: &[Slot]) -> Option<Box<Gather>> {
        let Self { first, servers, .. } = self;
        let rotated = (0..of.len()).map(|step| of[(*first + step) % of.len()]);
        servers.clear();
        let readers = fleet.readers();
        servers.extend(rotated.filter(|&server| readers.is_readable(server)).take(retrieval.key_count()));
        *first = (*first + 1) % of.len();
        if servers.is_empty() {
            return None;
        }
        let (size, longer) = (retrieval.key_count() / servers.len(), retrieval.key_count() % servers.len());
        let mut gather = self.gathers.pop().unwrap_or_default();
        for (part, &server) in servers.iter().enumerate() {
            (0..size + usize::from(part < longer)).for_each(|_| gather.assign(server));
        }
        Some(gather)
    }

    /// One of each key's replicas, so that the parts are as equal as can be.
    fn balanced(&mut self, fleet: &Fleet, retrieval: Retrieval<'_>, replicas_max: usize) -> Box<Gather> {
        let readers: Readers<'_> = fleet.readers();
        self.balance.begin(fleet.servers.len(), replicas_max);
        let mut numbers = [0; REPLICAS_MAX];
        fleet.routes.replicas_of_each::<REPLICAS_MAX>(retrieval.keys(), |replicas| {
            numbers.iter_mut().zip(replicas).for_each(|(number, replica)| *number = replica.number());
            let numbers = &numbers[..replicas.len()];
            self.balance.add(numbers, |number| readers.is_readable(Slot::from_number(number)));
        });
        self.balance.finish();
        let mut gather = self.gather();
        (0..retrieval.key_count()).for_each(|key| gather.assign(Slot::from_number(self.balance.take(key))));
        gather
    }
}

/// What is missed where a server may have come back empty is asked of others, where nothing is changed by that. A token of another server
/// than the decider counts only until the key is put back.
#[cold]
fn allow_again<'a>(
    fleet: &Fleet,
    gather: &mut Gather,
    (verb, keys): (RetrievalVerb, impl Iterator<Item = &'a [u8]>),
    asker: Asker,
) {
    let with_tokens = verb == RetrievalVerb::Gets;
    if verb != RetrievalVerb::Get && !(with_tokens && fleet.config.puts_back()) {
        return;
    }
    gather.again.allow(keys, asker.changes, fleet.generation());
    if with_tokens {
        gather.again.show_tokens();
    }
}

/// Gathers that keep more memory than this are dropped when memory is scarce.
const GATHER_BYTES_MAX: usize = 64 << 10;

/// More multi-gets than this are rarely in service at once; the memory of the others is given back.
const GATHERS_MAX: usize = 256;

/// What is kept to be used again, and keeps no more memory than this, is left alone.
const KEPT_BYTES_MAX: usize = 4 << 10;
