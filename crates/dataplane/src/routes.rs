//! Where keys go: a table, with the slots that its servers have in this dataplane.
//!
//! A table that comes later finds the servers that stay by address and name and leaves them their slots, with connection, queue and counts
//! (`servers/slots.rs`). Requests keep the routes with which they were begun.

use std::sync::Arc;
use weir_routing::Table;

/// A table, with the slots that its servers have in this dataplane.
#[derive(Debug)]
pub(crate) struct Routes {
    table: Arc<Table>,
    /// For each pool, the slots of its servers in the pool's order.
    pools: Vec<Vec<u16>>,
    /// The slots of all servers, in the table's order.
    servers: Vec<u16>,
    /// Whether any key has more than one server.
    replicated: bool,
}

/// One pool, as a request that needs no other sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolSlots<'a> {
    /// The slots of its servers.
    pub(crate) servers: &'a [u16],
    /// How many of them hold each key.
    pub(crate) replicas: usize,
}

impl Routes {
    /// Before the first table is taken.
    pub(crate) fn nowhere(table: &Arc<Table>) -> Self {
        Self { table: Arc::clone(table), pools: Vec::new(), servers: Vec::new(), replicated: false }
    }

    pub(crate) fn new(table: Arc<Table>, servers: Vec<u16>) -> Self {
        let slot = |place: &u16| servers[usize::from(*place)];
        let pools = table.pools().iter().map(|pool| pool.places().iter().map(slot).collect()).collect();
        let replicated = table.pools().iter().any(|pool| pool.router().replicas() > 1);
        Self { table, pools, servers, replicated }
    }

    /// The slot of the key's first server.
    #[inline]
    pub(crate) fn primary(&self, key: &[u8]) -> usize {
        let pool = self.table.pool_of(key);
        usize::from(self.pools[pool][self.table.pools()[pool].router().primary(key)])
    }

    /// Writes the slots of the key's servers into `out`, the primary first, and returns how many.
    pub(crate) fn replicas_of(&self, key: &[u8], out: &mut [u16]) -> usize {
        let pool = self.table.pool_of(key);
        let count = self.table.pools()[pool].router().replicas_of(key, out);
        out[..count].iter_mut().for_each(|place| *place = self.pools[pool][usize::from(*place)]);
        count
    }

    /// Calls `each` with the slots of the servers of each of `keys`, in their order: the first `out.len()` of them. Cheaper than as
    /// many calls of [`Self::replicas_of`] where all are of one pool.
    pub(crate) fn replicas_of_each<'a>(
        &self,
        keys: impl Iterator<Item = &'a [u8]> + Clone,
        out: &mut [u16],
        mut each: impl FnMut(&[u16]),
    ) {
        let Some(number) = self.number_of_all(keys.clone()) else {
            return keys.for_each(|key| {
                let count = self.replicas_of(key, out);
                each(&out[..count]);
            });
        };
        let (router, slots) = (self.table.pools()[number].router(), &self.pools[number]);
        router.replicas_of_each(keys, out, |places| {
            places.iter_mut().for_each(|place| *place = slots[usize::from(*place)]);
            each(places);
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
    pub(crate) fn pools_with(&self, slot: usize) -> impl Iterator<Item = PoolSlots<'_>> {
        let pools = self.table.pools().iter().zip(&self.pools);
        let pools = pools.map(|(pool, servers)| PoolSlots { servers, replicas: pool.router().replicas() });
        pools.filter(move |pool| pool.servers.contains(&index(slot)))
    }

    /// The slots of servers whose keys have others besides.
    pub(crate) fn replicated_slots(&self) -> impl Iterator<Item = usize> {
        let replicated = self.table.pools().iter().zip(&self.pools);
        let replicated = replicated.filter(|(pool, _)| pool.router().replicas() > 1);
        replicated.flat_map(|(_, slots)| slots).map(|&slot| usize::from(slot))
    }

    /// Whether this key has more than one server.
    pub(crate) fn replicates(&self, key: &[u8]) -> bool {
        self.table.pools()[self.table.pool_of(key)].router().replicas() > 1
    }

    /// The slots of all servers, in the table's order.
    pub(crate) fn servers(&self) -> &[u16] {
        &self.servers
    }
}

/// The number of a slot, as tables of routes keep it.
pub(crate) fn index(slot: usize) -> u16 {
    u16::try_from(slot).expect("there are no more slots than SLOTS_MAX")
}
