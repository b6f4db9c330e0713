//! Where keys go: a table, with the slots that its servers have in this dataplane.
//!
//! A table that comes later finds the servers that stay by address and name and leaves them their slots, with connection, queue and counts
//! (`servers/slots.rs`). Requests keep the routes with which they were begun.

pub(crate) mod placement_cache;

use crate::wire::ids::Slot;
use std::sync::Arc;
use weir_routing::{REPLICAS_MAX, Table};

/// A table, with the slots that its servers have in this dataplane.
#[derive(Debug)]
pub(crate) struct Routes {
    table: Arc<Table>,
    /// For each pool, the slots of its servers in the pool's order.
    pools: Vec<Vec<Slot>>,
    /// The slots of all servers, in the table's order.
    servers: Vec<Slot>,
    /// Whether any key has more than one server.
    replicated: bool,
}

/// One pool, as a request that needs no other sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolSlots<'a> {
    /// The slots of its servers.
    pub(crate) servers: &'a [Slot],
    /// How many of them hold each key.
    pub(crate) replicas: usize,
}

impl Routes {
    /// Before the first table is taken.
    pub(crate) fn nowhere(table: &Arc<Table>) -> Self {
        Self { table: Arc::clone(table), pools: Vec::new(), servers: Vec::new(), replicated: false }
    }

    pub(crate) fn new(table: Arc<Table>, servers: Vec<Slot>) -> Self {
        let slot = |place: &u16| servers[usize::from(*place)];
        let pools = table.pools().iter().map(|pool| pool.places().iter().map(slot).collect()).collect();
        let replicated = table.pools().iter().any(|pool| pool.router().replicas() > 1);
        Self { table, pools, servers, replicated }
    }

    /// Whether any key goes by its MD5.
    pub(crate) fn is_any_by_md5(&self) -> bool {
        self.table.pools().iter().any(|pool| pool.router().is_by_md5())
    }

    /// The slot of the key's first server.
    #[inline]
    pub(crate) fn primary(&self, key: &[u8]) -> Slot {
        let pool = self.table.pool_of(key);
        self.pools[pool][self.table.pools()[pool].router().primary(key)]
    }

    /// Writes the slots of the key's servers into `out`, the primary first, and returns how many.
    pub(crate) fn replicas_of(&self, key: &[u8], out: &mut [Slot]) -> usize {
        let pool = self.table.pool_of(key);
        let mut places = [0; REPLICAS_MAX];
        let count = self.table.pools()[pool].router().replicas_of(key, &mut places);
        let slots = places[..count].iter().map(|&place| self.pools[pool][usize::from(place)]);
        out.iter_mut().zip(slots).for_each(|(out, slot)| *out = slot);
        count.min(out.len())
    }

    /// Calls `each` with the slots of the servers of each of `keys`, in their order: the first `N` of them. Cheaper than as many calls of
    /// [`Self::replicas_of`] where all belong to one pool.
    pub(crate) fn replicas_of_each<'a, const N: usize>(
        &self,
        keys: impl Iterator<Item = &'a [u8]> + Clone,
        mut each: impl FnMut(&[Slot]),
    ) {
        let mut out = [Slot::FIRST; N];
        let Some(number) = self.number_of_all(keys.clone()) else {
            return keys.for_each(|key| {
                let count = self.replicas_of(key, &mut out);
                each(&out[..count]);
            });
        };
        let (router, slots) = (self.table.pools()[number].router(), &self.pools[number]);
        router.replicas_of_each(keys, &mut [0; N], |places| {
            let found = places.iter().map(|&place| slots[usize::from(place)]);
            out.iter_mut().zip(found).for_each(|(out, slot)| *out = slot);
            each(&out[..places.len()]);
        });
    }

    /// The pool that all these keys belong to, if it is one.
    pub(crate) fn pool_of_all<'a>(&self, keys: impl Iterator<Item = &'a [u8]>) -> Option<PoolSlots<'_>> {
        let number = self.number_of_all(keys)?;
        let replicas = self.table.pools()[number].router().replicas();
        Some(PoolSlots { servers: &self.pools[number], replicas })
    }

    fn number_of_all<'a>(&self, mut keys: impl Iterator<Item = &'a [u8]>) -> Option<usize> {
        if self.table.routes().next().is_none() {
            return Some(0);
        }
        let number = keys.next().map_or(0, |key| self.table.pool_of(key));
        keys.all(|key| self.table.pool_of(key) == number).then_some(number)
    }

    /// Whether any key has more than one server.
    pub(crate) fn is_replicated(&self) -> bool {
        self.replicated
    }

    /// Each pool that this server belongs to.
    pub(crate) fn pools_with(&self, slot: Slot) -> impl Iterator<Item = PoolSlots<'_>> {
        let pools = self.table.pools().iter().zip(&self.pools);
        let pools = pools.map(|(pool, servers)| PoolSlots { servers, replicas: pool.router().replicas() });
        pools.filter(move |pool| pool.servers.contains(&slot))
    }

    /// The slots of servers whose keys have others besides.
    pub(crate) fn replicated_slots(&self) -> impl Iterator<Item = Slot> {
        let replicated = self.table.pools().iter().zip(&self.pools);
        let replicated = replicated.filter(|(pool, _)| pool.router().replicas() > 1);
        replicated.flat_map(|(_, slots)| slots).copied()
    }

    /// What the key's pool is called.
    pub(crate) fn pool_name(&self, key: &[u8]) -> &str {
        self.table.pools()[self.table.pool_of(key)].name()
    }

    /// Whether this key has more than one server.
    pub(crate) fn replicates(&self, key: &[u8]) -> bool {
        self.table.pools()[self.table.pool_of(key)].router().replicas() > 1
    }

    /// The slots of all servers, in the table's order.
    pub(crate) fn servers(&self) -> &[Slot] {
        &self.servers
    }
}
