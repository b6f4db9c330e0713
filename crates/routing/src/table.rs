//! Pools over one list of servers, and which pool a key belongs to.

use std::collections::{HashMap, HashSet};

use crate::router::Router;
use crate::server::Server;

/// The most pools of one table.
pub const POOLS_MAX: usize = 256;

/// The most servers of one table, over all its pools.
pub const TABLE_SERVERS_MAX: usize = 4096;

/// The most prefixes of one table.
pub const ROUTES_MAX: usize = 4096;

/// The longest prefix, in bytes: as long as memcached's keys may be.
const PREFIX_MAX: usize = 250;

/// The longest name of a pool that stands before the names of its servers, in bytes: as long as those may be.
const POOL_NAME_MAX: usize = 255;

/// All that decides where keys go. Immutable: build it once, share it in an `Arc`, replace it whole.
///
/// A key belongs to the pool that the longest of its prefixes leads to, and to the first pool if none leads anywhere. Keys
/// are passed on unchanged: no prefix is taken off.
///
/// Several tables may be there at once, one for each set of clients: [`Table::separate`] has one pool for all keys of its clients, and
/// [`Table::side_by_side`] is what somebody sees who looks at all of them.
#[derive(Clone, Debug)]
pub struct Table {
    servers: Vec<Server>,
    pools: Vec<Pool>,
    /// In the order of their prefixes.
    routes: Vec<Route>,
}

/// Servers with a placement, as part of a [`Table`].
#[derive(Clone, Debug)]
pub struct Pool {
    name: String,
    router: Router,
    /// For each of the router's servers its place in the table.
    places: Vec<u16>,
}

#[derive(Clone, Debug)]
struct Route {
    prefix: Box<[u8]>,
    pool: usize,
    /// The longest other route whose prefix begins this one's.
    shorter: Option<usize>,
}

/// Why pools and routes do not make a table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// There is no pool.
    #[error("there is no pool: give at least one")]
    NoPools,
    /// More pools than [`POOLS_MAX`].
    #[error("there are {0} pools: at most {POOLS_MAX} are supported")]
    TooManyPools(usize),
    /// More servers than [`TABLE_SERVERS_MAX`].
    #[error("the pools have {0} different servers: at most {TABLE_SERVERS_MAX} are supported")]
    TooManyServers(usize),
    /// More routes than [`ROUTES_MAX`].
    #[error("there are {0} routes: at most {ROUTES_MAX} are supported")]
    TooManyRoutes(usize),
    /// Two pools have the same name.
    #[error("pool {0} is there twice: give the pools different names")]
    DuplicatePool(String),
    /// One name for two servers: replies and metrics could not tell which is meant.
    #[error("server name {name} stands for {first} and for {second}: give different servers different names")]
    AmbiguousServer {
        /// The name.
        name: String,
        /// Where the one is.
        first: String,
        /// Where the other is.
        second: String,
    },
    /// The name of a pool that cannot stand before the names of its servers.
    #[error(
        "pool {0:?} cannot stand before the names of its servers: give it a name of 1 to {POOL_NAME_MAX} bytes without spaces, commas and control characters"
    )]
    PoolName(String),
    /// A prefix that no key can have.
    #[error(
        "route {0:?} is no prefix of a key: write 1 to {PREFIX_MAX} bytes without spaces and control characters"
    )]
    Prefix(String),
    /// The same prefix leads to two pools.
    #[error("route {0:?} is there twice: remove one")]
    DuplicateRoute(String),
    /// A route to nowhere.
    #[error("route {prefix:?} leads to pool {pool:?}, which is not there: there are {}", known.join(", "))]
    NoSuchPool {
        /// The route.
        prefix: String,
        /// Where it leads.
        pool: String,
        /// The pools that there are.
        known: Vec<String>,
    },
}

impl From<Router> for Table {
    /// One pool, called `main`, for all keys.
    fn from(router: Router) -> Self {
        let servers = router.servers().to_vec();
        let places = (0u16..).take(servers.len()).collect();
        Self { servers, pools: vec![Pool { name: "main".to_owned(), router, places }], routes: Vec::new() }
    }
}

impl Table {
    /// The first of `pools` takes the keys that none of `routes` (prefix, name of a pool) takes.
    pub fn new(pools: Vec<(String, Router)>, routes: &[(String, String)]) -> Result<Self, TableError> {
        check_names(pools.iter().map(|(name, _)| name.as_str()))?;
        let servers = distinct_servers(&pools)?;
        let place_of: HashMap<(String, String), u16> =
            (0u16..).zip(&servers).map(|(place, it)| (identity(it), place)).collect();
        let pool = |(name, router): (String, Router)| {
            let places = router.servers().iter().map(|server| place_of[&identity(server)]).collect();
            Pool { name, router, places }
        };
        let pools: Vec<Pool> = pools.into_iter().map(pool).collect();
        let routes = sorted_routes(&pools, routes)?;
        Ok(Self { servers, pools, routes })
    }

    /// A table of its own for one pool, to which all keys belong. Its servers are called `POOL/NAME` in records and metrics, because those
    /// of other tables may have the same names. Where keys go is decided by the names that they were given.
    pub fn separate(pool: &str, router: Router) -> Result<Self, TableError> {
        let is_name = (1..=POOL_NAME_MAX).contains(&pool.len());
        if !is_name || pool.contains(|it: char| it.is_whitespace() || it.is_control() || it == ',') {
            return Err(TableError::PoolName(pool.to_owned()));
        }
        let mut table = Self::from(router);
        pool.clone_into(&mut table.pools[0].name);
        table.servers.iter_mut().for_each(|server| server.name = format!("{pool}/{}", server.name));
        Ok(table)
    }

    /// The pools and servers of all of these. They keep their keys to themselves: [`Self::replicas_of`] knows only those of the first
    /// table, [`Self::replicas_in`] those of any pool.
    pub fn side_by_side(tables: &[&Self]) -> Result<Self, TableError> {
        let mut all = Self { servers: Vec::new(), pools: Vec::new(), routes: Vec::new() };
        for table in tables {
            let before = all.servers.len();
            if before + table.servers.len() > TABLE_SERVERS_MAX {
                let count = tables.iter().map(|table| table.servers.len()).sum();
                return Err(TableError::TooManyServers(count));
            }
            let place = |place: &u16| place + u16::try_from(before).expect("a table has few servers");
            all.pools.extend(table.pools.iter().map(|pool| Pool {
                name: pool.name.clone(),
                router: pool.router.clone(),
                places: pool.places.iter().map(place).collect(),
            }));
            all.servers.extend(table.servers.iter().cloned());
        }
        check_names(all.pools.iter().map(Pool::name))?;
        check_servers(&all.servers)?;
        if let Some(first) = tables.first() {
            all.routes.clone_from(&first.routes);
        }
        Ok(all)
    }

    /// All servers of all pools, each once. Servers differ by address and name; the weight is that of its first pool.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The pools; the first takes the keys that no route takes.
    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// Prefixes and the names of the pools that they lead to, in the order of the prefixes.
    pub fn routes(&self) -> impl Iterator<Item = (&[u8], &str)> {
        self.routes.iter().map(|route| (&*route.prefix, self.pools[route.pool].name()))
    }

    /// The place, among [`Self::pools`], of the pool that the key belongs to.
    #[inline]
    pub fn pool_of(&self, key: &[u8]) -> usize {
        if self.routes.is_empty() { 0 } else { self.routed(key).unwrap_or(0) }
    }

    /// The servers of a pool of this table, as the table calls them, in the pool's order.
    pub fn servers_of<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = &'a Server> {
        pool.places.iter().map(|place| &self.servers[usize::from(*place)])
    }

    /// Writes the places, among [`Self::servers`], of the key's servers into `out`, the primary first, and returns how many.
    pub fn replicas_of(&self, key: &[u8], out: &mut [u16]) -> usize {
        self.replicas_in(self.pool_of(key), key, out)
    }

    /// The same for a key of the pool with this place among [`Self::pools`], whatever the routes say.
    pub fn replicas_in(&self, pool: usize, key: &[u8], out: &mut [u16]) -> usize {
        let pool = &self.pools[pool];
        let count = pool.router.replicas_of(key, out);
        out[..count].iter_mut().for_each(|place| *place = pool.places[usize::from(*place)]);
        count
    }

    /// Every prefix of the key stands before it in the order, and behind the longest of them stand only prefixes that this one begins. So
    /// the nearest one before the key is the longest of its prefixes, or begins with it.
    fn routed(&self, key: &[u8]) -> Option<usize> {
        let behind = self.routes.partition_point(|route| *route.prefix <= *key);
        let mut nearest = behind.checked_sub(1);
        while let Some(route) = nearest.map(|place| &self.routes[place]) {
            if key.starts_with(&route.prefix) {
                return Some(route.pool);
            }
            nearest = route.shorter;
        }
        None
    }
}

impl Pool {
    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its keys to its servers.
    pub fn router(&self) -> &Router {
        &self.router
    }

    /// For each of the router's servers its place among [`Table::servers`].
    pub fn places(&self) -> &[u16] {
        &self.places
    }
}

fn check_names<'a>(mut pools: impl ExactSizeIterator<Item = &'a str>) -> Result<(), TableError> {
    match pools.len() {
        0 => return Err(TableError::NoPools),
        count if count > POOLS_MAX => return Err(TableError::TooManyPools(count)),
        _ => {}
    }
    let mut names = HashSet::new();
    match pools.find(|name| !names.insert(*name)) {
        Some(name) => Err(TableError::DuplicatePool(name.to_owned())),
        None => Ok(()),
    }
}

/// No two servers of different tables have one name, wherever they are: each table counts for itself what it sends to them.
fn check_servers(servers: &[Server]) -> Result<(), TableError> {
    let mut address_of: HashMap<&str, &Server> = HashMap::new();
    for server in servers {
        if let Some(first) = address_of.insert(&server.name, server) {
            let (name, first, second) = (server.name.clone(), first.address(), server.address());
            return Err(TableError::AmbiguousServer { name, first, second });
        }
    }
    Ok(())
}

/// What makes two servers one: reached under the same address and called the same.
fn identity(server: &Server) -> (String, String) {
    (server.address(), server.name.clone())
}

fn distinct_servers(pools: &[(String, Router)]) -> Result<Vec<Server>, TableError> {
    let mut address_of: HashMap<&str, String> = HashMap::new();
    let mut servers = Vec::new();
    for server in pools.iter().flat_map(|(_, router)| router.servers()) {
        match address_of.get(server.name.as_str()) {
            None => {
                address_of.insert(&server.name, server.address());
                servers.push(server.clone());
            }
            Some(first) if *first == server.address() => {}
            Some(first) => {
                let (name, second) = (server.name.clone(), server.address());
                return Err(TableError::AmbiguousServer { name, first: first.clone(), second });
            }
        }
    }
    match servers.len() {
        count if count > TABLE_SERVERS_MAX => Err(TableError::TooManyServers(count)),
        _ => Ok(servers),
    }
}

fn sorted_routes(pools: &[Pool], routes: &[(String, String)]) -> Result<Vec<Route>, TableError> {
    if routes.len() > ROUTES_MAX {
        return Err(TableError::TooManyRoutes(routes.len()));
    }
    let mut sorted = Vec::new();
    for (prefix, name) in routes {
        let is_prefix = (1..=PREFIX_MAX).contains(&prefix.len());
        if !is_prefix || prefix.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(TableError::Prefix(prefix.clone()));
        }
        let Some(pool) = pools.iter().position(|pool| pool.name == *name) else {
            let known = pools.iter().map(|pool| pool.name.clone()).collect();
            return Err(TableError::NoSuchPool { prefix: prefix.clone(), pool: name.clone(), known });
        };
        sorted.push(Route { prefix: prefix.as_bytes().into(), pool, shorter: None });
    }
    sorted.sort_by(|one, other| one.prefix.cmp(&other.prefix));
    for place in 1..sorted.len() {
        let (before, rest) = sorted.split_at_mut(place);
        let route = &mut rest[0];
        let mut nearest = Some(place - 1);
        while let Some(candidate) = nearest
            && !route.prefix.starts_with(&before[candidate].prefix)
        {
            nearest = before[candidate].shorter;
        }
        if nearest.is_some_and(|shorter| before[shorter].prefix == route.prefix) {
            return Err(TableError::DuplicateRoute(String::from_utf8_lossy(&route.prefix).into_owned()));
        }
        route.shorter = nearest;
    }
    Ok(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::placement::Placement;
    use proptest::prelude::*;

    fn pool(name: &str, servers: &[&str]) -> (String, Router) {
        let servers = servers.iter().map(|text| text.parse().unwrap()).collect();
        (name.to_owned(), Router::new(servers, Placement::Modulo, 1).unwrap())
    }

    fn pairs(routes: &[(&str, &str)]) -> Vec<(String, String)> {
        routes.iter().map(|(prefix, pool)| ((*prefix).to_owned(), (*pool).to_owned())).collect()
    }

    fn three_pools(routes: &[(&str, &str)]) -> Result<Table, TableError> {
        let pools =
            vec![pool("main", &["a:1", "b:1"]), pool("users", &["b:1:2", "c:1 red"]), pool("old", &["d:1"])];
        Table::new(pools, &pairs(routes))
    }

    #[test]
    fn the_longest_prefix_leads() {
        let table =
            three_pools(&[("user:", "users"), ("u", "old"), ("user:x:", "main"), ("z", "old")]).unwrap();
        let name = |key: &str| table.pools()[table.pool_of(key.as_bytes())].name();
        for (key, expected) in [
            ("", "main"),
            ("t", "main"),
            ("u", "old"),
            ("user", "old"),
            ("user:", "users"),
            ("user:1", "users"),
            ("user:x", "users"),
            ("user:x:1", "main"),
            ("user:y", "users"),
            ("uz", "old"),
            ("v", "main"),
            ("z\u{ff}", "old"),
        ] {
            assert_eq!(name(key), expected, "{key}");
        }
    }

    #[test]
    fn a_server_of_two_pools_is_one() {
        let table = three_pools(&[("user:", "users")]).unwrap();
        let names: Vec<_> = table.servers().iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["a:1", "b:1", "red", "d:1"]);
        assert_eq!(table.pools()[1].places(), [1, 2]);
        let mut out = [0; 4];
        let places: HashSet<u16> = (0..20)
            .map(|number| {
                assert_eq!(table.replicas_of(format!("user:{number}").as_bytes(), &mut out), 1);
                out[0]
            })
            .collect();
        assert_eq!(places, HashSet::from([1, 2]));
    }

    #[test]
    fn what_makes_no_table_is_refused_with_a_reason() {
        let refusal = |routes: &[(&str, &str)]| three_pools(routes).unwrap_err().to_string();
        assert!(
            refusal(&[("", "users")]).starts_with("route \"\" is no prefix of a key: write 1 to 250 bytes")
        );
        assert!(refusal(&[("a b", "users")]).contains("without spaces"));
        assert!(refusal(&[(&"k".repeat(251), "users")]).contains("is no prefix"));
        assert_eq!(
            refusal(&[("a", "users"), ("b", "old"), ("a", "old")]),
            "route \"a\" is there twice: remove one"
        );
        assert_eq!(
            refusal(&[("a", "user")]),
            "route \"a\" leads to pool \"user\", which is not there: there are main, users, old"
        );
        assert_eq!(Table::new(vec![], &[]).unwrap_err(), TableError::NoPools);
        let twice = vec![pool("main", &["a:1"]), pool("main", &["b:1"])];
        assert_eq!(Table::new(twice, &[]).unwrap_err(), TableError::DuplicatePool("main".into()));
        let two_reds = vec![pool("main", &["a:1 red"]), pool("other", &["b:1 red"])];
        assert_eq!(
            Table::new(two_reds, &[]).unwrap_err().to_string(),
            "server name red stands for a:1 and for b:1: give different servers different names"
        );
        let many = (0..=POOLS_MAX).map(|number| pool(&number.to_string(), &["a:1"])).collect();
        assert_eq!(Table::new(many, &[]).unwrap_err(), TableError::TooManyPools(POOLS_MAX + 1));
    }

    fn separate(name: &str, servers: &[&str]) -> Table {
        let (name, router) = pool(name, servers);
        Table::separate(&name, router).unwrap()
    }

    #[test]
    fn tables_side_by_side_keep_their_keys_to_themselves() {
        let routed = three_pools(&[("user:", "users")]).unwrap();
        // Names and addresses of the other pools, and of the routes.
        let (red, blue) = (separate("red", &["a:1", "z:1 b:1"]), separate("blue", &["a:1", "y:1 b:1"]));
        let all = Table::side_by_side(&[&routed, &red, &blue]).unwrap();
        let names = |table: &Table| table.servers().iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&red), ["red/a:1", "red/b:1"]);
        assert_eq!(names(&all), [names(&routed), names(&red), names(&blue)].concat());
        assert_eq!(
            all.pools().iter().map(Pool::name).collect::<Vec<_>>(),
            ["main", "users", "old", "red", "blue"]
        );
        let placed = |table: &Table, pool: usize, key: &[u8]| {
            let mut out = [0; 4];
            let count = table.replicas_in(pool, key, &mut out);
            out[..count].iter().map(|&place| table.servers()[usize::from(place)].clone()).collect::<Vec<_>>()
        };
        for number in 0..50 {
            let key = format!("user:{number}");
            assert_eq!(placed(&all, 3, key.as_bytes()), placed(&red, 0, key.as_bytes()));
            assert_eq!(placed(&all, 4, key.as_bytes()), placed(&blue, 0, key.as_bytes()));
            // Where it goes is decided by the given names: the two pools have the same.
            assert_eq!(
                placed(&red, 0, key.as_bytes())[0].name.strip_prefix("red"),
                placed(&blue, 0, key.as_bytes())[0].name.strip_prefix("blue"),
            );
            assert_eq!(all.pool_of(key.as_bytes()), 1, "the routes are those of the first");
        }
        let of_blue: Vec<_> = all.servers_of(&all.pools()[4]).map(Server::address).collect();
        assert_eq!(of_blue, ["a:1", "y:1"]);
    }

    #[test]
    fn tables_that_could_be_mistaken_for_each_other_are_refused() {
        let (red, routed) = (separate("red", &["a:1"]), three_pools(&[]).unwrap());
        let refusal = |tables: &[&Table]| Table::side_by_side(tables).unwrap_err();
        assert_eq!(refusal(&[&red, &red]), TableError::DuplicatePool("red".into()));
        assert_eq!(
            refusal(&[&routed, &separate("users", &["q:1"])]),
            TableError::DuplicatePool("users".into())
        );
        let (_, named) = pool("named", &["q:1 red/a:1"]);
        let error = refusal(&[&named.into(), &red]).to_string();
        assert!(error.starts_with("server name red/a:1 stands for q:1 and for a:1"), "{error}");
        assert_eq!(refusal(&[]), TableError::NoPools);
        for name in ["", "a b", "a,b", "a\r\nb", &"x".repeat(256)] {
            let (_, router) = pool("any", &["a:1"]);
            assert_eq!(Table::separate(name, router).unwrap_err(), TableError::PoolName(name.into()));
        }
    }

    proptest! {
        /// Against the definition: of all prefixes that begin the key, the longest.
        #[test]
        fn routing_is_what_its_definition_says(
            prefixes in prop::collection::btree_set("[ab]{1,5}", 0..20),
            keys in prop::collection::vec("[abc]{0,7}", 20),
        ) {
            let name = |number: usize| ["main", "users", "old"][number % 3];
            let routes: Vec<(&str, &str)> =
                prefixes.iter().enumerate().map(|(number, prefix)| (prefix.as_str(), name(number))).collect();
            let table = three_pools(&routes).unwrap();
            for key in keys {
                let fitting = routes.iter().filter(|(prefix, _)| key.starts_with(prefix));
                let expected = fitting.max_by_key(|(prefix, _)| prefix.len()).map_or("main", |(_, pool)| pool);
                prop_assert_eq!(table.pools()[table.pool_of(key.as_bytes())].name(), expected, "{}", key);
            }
        }
    }
}
