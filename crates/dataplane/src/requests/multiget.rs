//! Retrievals: which servers are asked for which keys.
//!
//! | request | R = 1 | R > 1 |
//! |---|---|---|
//! | `get` of one key | the primary | the decider: the first replica that may be read (`read.rs`), or another as [`ReadPolicy`] says |
//! | `get` of several | each key's primary, one message per server | as [`Multiget`] says |
//! | `gets`, `gat`, `gats` | each key's primary | each key's decider: tokens and expiry times are a server's own |
//!
//! What another replica than the decider does not have is asked of the decider in a second step (`again.rs`).
//!
//! A client may send a `get` behind a write that the decider decides before that one is answered. The other replicas hear of the
//! write only then, so until it is done all reads of its session go to deciders: a client never reads what it has overwritten.
//!
//! A server that may not be read now, is down or full is left out where another replica can be asked. Where none can, the request is refused
//! before anything of it is sent, or its keys are misses, as [`OnFailure`](crate::OnFailure) says (`degrade.rs`).

use crate::{Dataplane, Fault, Multiget, ReadPolicy, replication::fleet::Fleet, replication::readers::Readers, requests::{Requests, SPARE_BYTES_MAX}, requests::auto::{Chooser, Way}, requests::base::Base, requests::dispatch::Context, requests::gather::Gather, requests::service::{Answer, retrieval_operation}, routes::PoolSlots, servers::backend::{NewPart, RequestKey}};
use std::sync::Arc;
use weir_protocol::{Expected, Retrieval, RetrievalVerb};
use weir_routing::{Balance, REPLICAS_MAX};
use weir_timing::Instant;

/// What plans retrievals, kept from one to the next.
#[derive(Debug)]
pub(crate) struct Planner {
    /// The server that answers for the first part of the next even split.
    first: usize,
    /// Servers of the request that is being planned.
    servers: Vec<usize>,
    pub(crate) balance: Balance,
    chooser: Chooser,
}

/// Whom to ask.
pub(crate) enum Plan {
    /// One server, whose reply is the answer; or why there is none.
    One(Result<usize, (Fault, usize)>),
    /// Each server of the gather for the keys that are assigned to it.
    Parts(Box<Gather>),
}

impl Planner {
    pub(crate) fn new(seed: u64) -> Self {
        Self { first: 0, servers: Vec::new(), balance: Balance::default(), chooser: Chooser::new(seed) }
    }

    /// Frees memory that is kept to be used again.
    pub(crate) fn give_memory_back(&mut self) {
        if self.balance.capacity() > SPARE_BYTES_MAX {
            self.balance = Balance::default();
        }
    }
}

impl Dataplane {
    pub(crate) fn retrieve(&mut self, retrieval: Retrieval<'_>, context: Context) {
        let operation = retrieval_operation(retrieval.verb, retrieval.key_count());
        if retrieval.key_count() == 0 {
            return self.answer_locally(Answer::Fixed(b"END\r\n"), false, false, context);
        }
        let key = self.begin(operation, retrieval.key_count(), false, context);
        self.answer_failures_with(key, || Answer::Fixed(b"END\r\n"));
        if self.base.fleet.routes.is_replicated() {
            self.may_reread(key, retrieval.verb);
        }
        if self.is_bulk_read(context.session, &retrieval) {
            return self.begin_bulk_read(key, retrieval, context.now);
        }
        let plan = self.plan(key, retrieval);
        self.send_plan(key, plan, retrieval, context.now);
    }

    /// Asks whom the plan names.
    // Here and below: as calls of their own they cost every `get` some seventy instructions.
    #[inline(always)]
    pub(crate) fn send_plan(&mut self, key: RequestKey, plan: Plan, retrieval: Retrieval<'_>, now: Instant) {
        match plan {
            Plan::One(Err((fault, server))) => self.note_refusal(key, fault, server),
            Plan::One(Ok(server)) => self.send_whole(key, server, retrieval, now),
            Plan::Parts(gather) => self.send_parts(key, retrieval, gather, now),
        }
        self.finish_if_nothing_is_outstanding(key, now);
    }

    #[inline(always)]
    pub(crate) fn plan(&mut self, key: RequestKey, retrieval: Retrieval<'_>) -> Plan {
        let first = retrieval.keys().next().expect("a retrieval with a key count above 0 has a key");
        if retrieval.key_count() == 1 {
            return self.plan_one(key, retrieval.verb, first);
        }
        let routes = Arc::clone(&self.base.fleet.routes);
        // A request that needs several pools is asked as if no key had a second server.
        let pool = routes.pool_of_all(retrieval.keys());
        if let Some(PoolSlots { servers: &[only], .. }) = pool {
            return Plan::One(Ok(usize::from(only)));
        }
        let session = &self.base.clients[self.requests.services[key].session];
        let (undecided, changes) = (session.has_undecided(), session.changes());
        let replicated = pool.filter(|pool| pool.replicas > 1);
        let Some(PoolSlots { servers, replicas }) =
            replicated.filter(|_| retrieval.verb == RetrievalVerb::Get && !undecided)
        else {
            return Plan::Parts(self.by_decider(key, retrieval));
        };
        let mut gather = if replicas < servers.len() {
            self.balanced(retrieval, replicas)
        } else {
            let split = match self.way(key, retrieval.key_count()) {
                Way::Whole => None,
                Way::Sharded => self.evenly(retrieval, servers),
            };
            split.unwrap_or_else(|| self.at_one(first, retrieval.key_count()))
        };
        gather.again.allow(retrieval.keys(), changes, self.base.fleet.generation());
        Plan::Parts(gather)
    }

    /// A key alone. What another replica than the decider does not have is asked of the decider.
    #[inline(always)]
    fn plan_one(&mut self, key: RequestKey, verb: RetrievalVerb, name: &[u8]) -> Plan {
        let decider = self.base.fleet.decider(name);
        if !self.base.fleet.routes.is_replicated() {
            return Plan::One(decider);
        }
        if let Ok(server) = decider
            && self.base.fleet.replicas.is_doubted(server)
        {
            return self.plan_doubted(key, verb, (name, server));
        }
        let session = &self.base.clients[self.requests.services[key].session];
        let (is_free, changes) = (!session.has_undecided(), session.changes());
        if self.base.fleet.config.read_policy == ReadPolicy::Primary || verb != RetrievalVerb::Get || !is_free
        {
            return Plan::One(decider);
        }
        let Ok(decider) = decider else { return Plan::One(decider) };
        let reader = self.base.fleet.reader(name, decider);
        if reader == decider {
            return Plan::One(Ok(decider));
        }
        let mut gather = self.requests.gathers.pop().unwrap_or_default();
        gather.assign(reader);
        gather.again.allow(std::iter::once(name), changes, self.base.fleet.generation());
        Plan::Parts(gather)
    }

    /// A key alone whose decider may have come back empty.
    #[cold]
    fn plan_doubted(
        &mut self,
        key: RequestKey,
        verb: RetrievalVerb,
        (name, decider): (&[u8], usize),
    ) -> Plan {
        let is_free = !self.base.clients[self.requests.services[key].session].has_undecided();
        let may_spread = verb == RetrievalVerb::Get && is_free;
        let server = if may_spread { self.base.fleet.reader(name, decider) } else { decider };
        let mut gather = self.requests.gathers.pop().unwrap_or_default();
        gather.assign(server);
        self.allow_again(key, &mut gather, (verb, std::iter::once(name)));
        Plan::Parts(gather)
    }

    /// How a multi-get of so many keys is asked for where every server holds every key.
    fn way(&mut self, key: RequestKey, keys: usize) -> Way {
        match self.base.fleet.config.multiget {
            Multiget::Whole => Way::Whole,
            Multiget::Sharded => Way::Sharded,
            Multiget::Auto => {
                let way = self.requests.planner.chooser.choose(keys);
                match way {
                    Way::Whole => self.base.meter.counters().multigets_auto_whole += 1,
                    Way::Sharded => self.base.meter.counters().multigets_auto_sharded += 1,
                }
                self.requests.services[key].chosen = Some(way);
                way
            }
        }
    }

    /// A request whose way was chosen by measurement has come to its end. One that failed counts as if it had taken all the time
    /// that it might have.
    pub(crate) fn learn_way(&mut self, key: RequestKey, now: Instant) {
        let service = &self.requests.services[key];
        if let Some(way) = service.chosen
            && service.first_sent
        {
            let took = now.saturating_since(service.stamps.first_sent);
            let nanos =
                if service.is_impaired() { took.max(self.base.fleet.config.timeout_ns) } else { took };
            self.requests.planner.chooser.observe(way, service.keys as usize, nanos);
        }
    }

    /// Each key's decider; where there is none, a server that will be found to be none.
    fn by_decider(&mut self, key: RequestKey, retrieval: Retrieval<'_>) -> Box<Gather> {
        let mut gather = self.requests.gathers.pop().unwrap_or_default();
        if !self.base.fleet.routes.is_replicated() {
            let assign = |servers: &[u16]| gather.assign(usize::from(servers[0]));
            self.base.fleet.routes.replicas_of_each(retrieval.keys(), &mut [0], assign);
            return gather;
        }
        let mut is_doubted = false;
        for name in retrieval.keys() {
            let server = self.base.fleet.decider(name).unwrap_or_else(|(_, server)| server);
            is_doubted |= self.base.fleet.replicas.is_doubted(server);
            gather.assign(server);
        }
        if is_doubted {
            self.allow_again(key, &mut gather, (retrieval.verb, retrieval.keys()));
        }
        gather
    }

    /// What is missed where a server may have come back empty is asked of others, where nothing is changed by that. A token of another
    /// server than the decider is of use only until the key is put back.
    #[cold]
    fn allow_again<'a>(
        &self,
        key: RequestKey,
        gather: &mut Gather,
        (verb, keys): (RetrievalVerb, impl Iterator<Item = &'a [u8]>),
    ) {
        let with_tokens = verb == RetrievalVerb::Gets;
        if verb != RetrievalVerb::Get && !(with_tokens && self.base.fleet.config.puts_back()) {
            return;
        }
        gather.again.allow(
            keys,
            self.base.clients[self.requests.services[key].session].changes(),
            self.base.fleet.generation(),
        );
        if with_tokens {
            gather.again.show_tokens();
        }
    }

    /// One server, by the first key.
    fn at_one(&mut self, first: &[u8], keys: usize) -> Box<Gather> {
        let server = self.base.fleet.decider(first).unwrap_or_else(|(_, server)| server);
        let mut gather = self.requests.gathers.pop().unwrap_or_default();
        (0..keys).for_each(|_| gather.assign(server));
        gather
    }

    /// As many servers as there are keys, or all, for equal parts of the keys in their order. The server that comes first is
    /// another one with each request. `None`: none can be asked.
    fn evenly(&mut self, retrieval: Retrieval<'_>, of: &[u16]) -> Option<Box<Gather>> {
        let Self {
            base: Base { fleet: Fleet { servers: backends, replicas: copies, .. }, .. },
            requests: Requests { planner: Planner { first, servers, .. }, .. },
            ..
        } = self;
        let rotated = (0..of.len()).map(|step| usize::from(of[(*first + step) % of.len()]));
        servers.clear();
        let readers = Readers { servers: backends, replicas: copies };
        servers.extend(rotated.filter(|&server| readers.is_readable(server)).take(retrieval.key_count()));
        *first = (*first + 1) % of.len();
        if servers.is_empty() {
            return None;
        }
        let (size, longer) = (retrieval.key_count() / servers.len(), retrieval.key_count() % servers.len());
        let mut gather = self.requests.gathers.pop().unwrap_or_default();
        for (part, &server) in servers.iter().enumerate() {
            (0..size + usize::from(part < longer)).for_each(|_| gather.assign(server));
        }
        Some(gather)
    }

    /// One of each key's replicas, so that the parts are as equal as can be.
    fn balanced(&mut self, retrieval: Retrieval<'_>, replicas_max: usize) -> Box<Gather> {
        let Self {
            base: Base { fleet: Fleet { routes: router, servers, replicas: copies, .. }, .. },
            requests: Requests { planner: Planner { balance, .. }, .. },
            ..
        } = self;
        let readers = Readers { servers, replicas: copies };
        balance.begin(servers.len(), replicas_max);
        let mut replicas = [0; REPLICAS_MAX];
        router.replicas_of_each(retrieval.keys(), &mut replicas, |replicas| {
            balance.add(replicas, |server| readers.is_readable(usize::from(server)));
        });
        balance.finish();
        let mut gather = self.requests.gathers.pop().unwrap_or_default();
        (0..retrieval.key_count()).for_each(|key| gather.assign(usize::from(balance.take(key))));
        gather
    }

    /// One message, or part of one.
    #[inline(always)]
    fn send_whole(&mut self, key: RequestKey, server: usize, retrieval: Retrieval<'_>, now: Instant) {
        let backend = &mut self.base.fleet.servers[server];
        if let Err(fault) = backend.admit(&self.base.fleet.config) {
            return self.note_refusal(key, fault, server);
        }
        let service = &mut self.requests.services[key];
        let (request, created) = (Some(key), service.begun());
        let part = NewPart { request, expected: Expected::Retrieval, decides: true, index: 0, created };
        backend.begin_retrieval(part, (retrieval, retrieval.key_count()), &self.base.fleet.config, now);
        retrieval.keys().for_each(|key| backend.push_key(key));
        self.base.meter.counters().gets_joined += u64::from(backend.finish_retrieval());
        service.outstanding += 1;
    }

    /// One message per server. If one cannot be asked, nothing is sent; where failures are misses, nothing to that one.
    fn send_parts(&mut self, key: RequestKey, retrieval: Retrieval<'_>, gather: Box<Gather>, now: Instant) {
        let parts = gather.part_count();
        self.requests.services[key].gather = Some(gather);
        for part in 0..parts {
            let Self {
                base: Base { fleet: Fleet { servers, replicas, .. }, .. },
                requests: Requests { services, .. },
                ..
            } = self;
            let gather = services[key].gather.as_mut().expect("it was put there");
            let server = gather.server_of(part);
            if let Err(fault) = (Readers { servers, replicas }).admit(server) {
                gather.leave_out(part);
                self.note_part_refusal((key, part), fault, server);
                if !self.requests.services[key].degrades.covers(fault) {
                    return;
                }
            }
        }
        let Self {
            base: Base { fleet: Fleet { servers: backends, config, .. }, meter, .. },
            requests: Requests { services, .. },
            ..
        } = self;
        let service = &mut services[key];
        let gather = service.gather.as_ref().expect("it was put there");
        for (index, server) in gather.asked() {
            let (request, created) = (Some(key), service.begun());
            let part = NewPart { request, expected: Expected::Retrieval, decides: true, index, created };
            let key_count = gather.keys_of(index) as usize;
            backends[server].begin_retrieval(part, (retrieval, key_count), config, now);
            service.outstanding += 1;
        }
        for (name, server) in retrieval.keys().zip(gather.owners()) {
            if let Some(server) = server {
                backends[server].push_key(name);
            }
        }
        for (_, server) in gather.asked() {
            meter.counters().gets_joined += u64::from(backends[server].finish_retrieval());
        }
    }
}
