//! What of a file is served: pools and routes for the places that go by them, and the pools that places name.

use weir_proxy::{Layer, ListenRow, OfFile, Place, PoolOfPlaces, SaidOfServers};
use weir_routing::{Table, TableError};

use super::{Config, of_proxy_or_pools};
use crate::pool::{PoolError, Routed};

impl Config {
    /// What a proxy serves that listens where the file says: the pools that places name, and for the other places, if there are any,
    /// pools and routes ([`Config::table`]).
    pub(crate) fn served(&self, wanted: Option<&str>) -> Result<Routed, PoolError> {
        let named = self.pools_of_places();
        if named.is_empty() {
            return self.table(wanted);
        }
        let goes_by_routes = self.listeners.iter().any(|row| row.pool.is_none());
        let mut routed = match (goes_by_routes, wanted, self.routes.first()) {
            (true, _, _) => self.table(wanted)?,
            (false, Some(pool), _) => return self.alone(pool),
            (false, None, Some((prefix, _))) => {
                return Err(PoolError::RouteOfNoPlace { prefix: prefix.clone() });
            }
            (false, None, None) => Routed::new(None, Layer::default(), self.of_all(), Vec::new()),
        };
        let is_routed =
            |name: &str| routed.table().is_some_and(|it| it.pools().iter().any(|pool| pool.name() == name));
        if let Some(pool) = named.iter().find(|name| is_routed(name)) {
            return Err(PoolError::PoolTwoWays { pool: (*pool).to_owned() });
        }
        let is_unserved = |name: &String| !is_routed(name) && !named.contains(&name.as_str());
        let unserved = self.pools.keys().filter(|name| is_unserved(name)).cloned().collect();
        let of_file = routed.of_file_mut();
        of_file.servers.extend(self.of_servers(&named));
        of_file.pools = named.iter().map(|name| self.pool_of_places(name)).collect::<Result<_, _>>()?;
        Ok(routed.with_unserved(unserved))
    }

    /// One of the pools that places name, at its places, as if the file had no other.
    fn alone(&self, pool: &str) -> Result<Routed, PoolError> {
        let mut routed = self.table(Some(pool))?;
        let rows = self.listeners.iter().filter(|row| row.pool.as_deref() == Some(pool));
        let rows: Vec<_> = rows.map(|row| ListenRow { pool: None, ..row.clone() }).collect();
        if rows.is_empty() {
            return Err(PoolError::PoolOfNoPlace { pool: pool.to_owned() });
        }
        routed.of_file_mut().listeners = rows;
        Ok(routed)
    }

    /// The pools that places name, each once.
    fn pools_of_places(&self) -> Vec<&str> {
        let mut named: Vec<&str> = Vec::new();
        for pool in self.listeners.iter().filter_map(|row| row.pool.as_deref()) {
            if !named.contains(&pool) {
                named.push(pool);
            }
        }
        named
    }

    fn pool_of_places(&self, name: &str) -> Result<PoolOfPlaces, PoolError> {
        let pool = &self.pools[name];
        let stray = of_proxy_or_pools()
            .find(|row| row.place == Place::DefaultPool && pool.said.get(row.name).is_some());
        if let Some(row) = stray {
            return Err(PoolError::OfAllClients { pool: name.to_owned(), setting: row.name });
        }
        Table::separate(name, pool.router.clone())?;
        let mut said = Layer::default();
        for row in of_proxy_or_pools() {
            if let Some(text) = pool.said.get(row.name) {
                said.say(row, text).expect("it was said before");
            }
        }
        Ok(PoolOfPlaces { name: name.to_owned(), router: pool.router.clone(), said })
    }

    /// Where the file's keys can go in more ways than one.
    pub(super) fn has_routes_or_places(&self) -> bool {
        !self.routes.is_empty() || self.listeners.iter().any(|row| row.pool.is_some())
    }

    /// Where clients connect, as the file says it.
    pub(crate) fn listeners(&self) -> &[ListenRow] {
        &self.listeners
    }

    /// Where the keys go of clients of this pool, as the proxy that serves it says: its own table where places name it.
    pub(crate) fn seen_by(&self, wanted: Option<&str>) -> Result<Table, PoolError> {
        match wanted.filter(|name| self.pools_of_places().contains(name)) {
            Some(name) => Ok(Table::separate(name, self.pools[name].router.clone())?),
            None => Ok(self.table(wanted)?.into_table().expect("there are pools that routes lead to")),
        }
    }

    fn of_servers(&self, pools: &[&str]) -> SaidOfServers {
        let of_pool = |name: &&str| {
            let pool = (*name).to_owned();
            let own = self.pools[*name].of_servers().iter();
            own.map(move |(server, said)| ((pool.clone(), server.clone()), said.clone())).collect::<Vec<_>>()
        };
        pools.iter().flat_map(of_pool).collect()
    }

    /// All pools that keys can get to by routes, the one of `wanted`, or of the file's `default`, first.
    pub(crate) fn table(&self, wanted: Option<&str>) -> Result<Routed, PoolError> {
        let first = self.first(wanted)?;
        if let Some((prefix, pool)) = self.routes.iter().find(|(_, pool)| !self.pools.contains_key(pool)) {
            let known = self.pools.keys().cloned().collect();
            return Err(TableError::NoSuchPool { prefix: prefix.clone(), pool: pool.clone(), known }.into());
        }
        let led_to = self.routes.iter().map(|(_, pool)| pool.as_str());
        let mut names: Vec<&str> = vec![first];
        names.extend(self.pools.keys().map(String::as_str).filter(|name| *name != first));
        let is_served = |name: &str| name == first || led_to.clone().any(|led_to| led_to == name);
        let unserved = self.pools.keys().filter(|name| !is_served(name)).cloned().collect();
        names.retain(|name| is_served(name));
        let routers =
            names.iter().map(|name| ((*name).to_owned(), self.pools[*name].router.clone())).collect();
        let table = Table::new(routers, &self.routes)?;
        let mut of_pools = Layer::default();
        for row in of_proxy_or_pools() {
            let said = |name: &str| self.pools[name].said.get(row.name);
            if row.place == Place::AllPools
                && let Some(other) = names.iter().find(|name| said(name) != said(first))
            {
                let (first, other) = (first.to_owned(), (*other).to_owned());
                return Err(PoolError::Shared { first, other, setting: row.name });
            }
            if let Some(text) = said(first) {
                of_pools.say(row, text).expect("it was said before");
            }
        }
        let of_file = OfFile { servers: self.of_servers(&names), ..self.of_all() };
        Ok(Routed::new(Some(table), of_pools, of_file, unserved))
    }

    /// What pools say of clients that is said for nobody: keys get to these pools by routes, and clients by the first pool. A sentence each.
    pub(crate) fn unheeded(&self, table: &Table) -> Vec<String> {
        let (first, others) = table.pools().split_first().expect("a table has a pool");
        let of_clients = |name: &str| {
            let said = &self.pools[name].said;
            let rows = of_proxy_or_pools().filter(|row| row.place == Place::DefaultPool);
            rows.filter(|row| said.get(row.name).is_some()).map(|row| row.name).collect::<Vec<_>>().join(", ")
        };
        let sentence = |name: &str| {
            let names = of_clients(name);
            let first = first.name();
            (!names.is_empty()).then(|| {
                format!("pool {name}: {names} mean nothing here: clients come in by pool {first}, and only keys get to this one")
            })
        };
        others.iter().filter_map(|pool| sentence(pool.name())).collect()
    }

    /// What only a file can say, whichever pools are served.
    fn of_all(&self) -> OfFile {
        OfFile { users: self.users.clone(), listeners: self.listeners.clone(), ..OfFile::default() }
    }

    fn first<'a>(&'a self, wanted: Option<&'a str>) -> Result<&'a str, PoolError> {
        let known = || self.pools.keys().cloned().collect::<Vec<_>>();
        match wanted.or(self.default.as_deref()) {
            Some(name) if self.pools.contains_key(name) => Ok(name),
            Some(name) => Err(PoolError::NoSuchPool { pool: name.to_owned(), known: known() }),
            None if self.pools.len() == 1 => Ok(self.pools.keys().next().expect("one pool")),
            None if self.routes.is_empty() => Err(PoolError::WhichPool { known: known() }),
            None => Err(PoolError::NoDefault { known: known() }),
        }
    }
}
