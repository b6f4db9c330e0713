//! [`Reader`] follows a route to its [`Meaning`]; what has none in Weir is a refusal.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};

use serde_json::Value;
use weir_routing::{Options, Placement};

use super::meaning::{Meaning, Way};
use super::operations::Operations;
use super::pools::{self, Hosts, Object, only, placed};
use super::refusal;

/// Routes that lead to routes are followed so far.
const DEPTH_MAX: u32 = 32;

/// At most this many routes are looked at, over all: names that are used again and again could stand for very many.
const ROUTES_MAX: u32 = 100_000;

/// At most this many servers stand in the pools that one route of the file leads to, and in those of all of them: each is copied. The
/// largest table has 4,096 different ones.
const ROUTE_SERVERS_MAX: usize = 100_000;
const ALL_SERVERS_MAX: usize = 10_000_000;

/// What routes may name besides.
pub(super) struct Reader<'a> {
    pools: &'a Object,
    handles: HashMap<&'a str, &'a Value>,
    now_s: u64,
    looked_at: Cell<u32>,
    /// Servers of pools, of the route that is followed and of all.
    servers: Cell<(usize, usize)>,
    /// Pools that a route led to.
    seen: RefCell<BTreeSet<String>>,
}

impl<'a> Reader<'a> {
    /// Over the pools and the named handles of a file, at this time.
    pub(super) fn new(pools: &'a Object, handles: HashMap<&'a str, &'a Value>, now_s: u64) -> Self {
        Self {
            pools,
            handles,
            now_s,
            looked_at: Cell::default(),
            servers: Cell::default(),
            seen: RefCell::default(),
        }
    }

    /// Whether a route led to this pool.
    pub(super) fn has_seen(&self, pool: &str) -> bool {
        self.seen.borrow().contains(pool)
    }

    /// What a route means.
    pub(super) fn meaning(&self, route: &Value) -> Result<Meaning, String> {
        self.servers.set((0, self.servers.get().1));
        self.follow(route, 0)
    }

    fn follow(&self, route: &Value, depth: u32) -> Result<Meaning, String> {
        let mut list = self.list(route, depth)?;
        match list.len() {
            1 => Ok(list.remove(0)),
            0 => Err(refusal::of("NullRoute")),
            count => Err(format!(
                "a list of {count} servers where one route is wanted. Nearest: \"PoolRoute|NAME\" or \"HashRoute|Pool|NAME\". To \
                 convert, say which of the servers gets a key"
            )),
        }
    }

    /// The routes of a list, a name, or one route. Servers of a pool are one each.
    fn list(&self, route: &Value, depth: u32) -> Result<Vec<Meaning>, String> {
        self.looked_at.set(self.looked_at.get() + 1);
        if depth > DEPTH_MAX {
            return Err(format!("routes lead in a circle, or are more than {DEPTH_MAX} deep"));
        }
        if self.looked_at.get() > ROUTES_MAX {
            return Err(format!("the routes stand for more than {ROUTES_MAX}"));
        }
        match route {
            Value::Array(routes) => {
                let lists = routes.iter().map(|route| self.list(route, depth + 1));
                Ok(lists.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
            }
            Value::String(text) if text.is_empty() => Ok(Vec::new()),
            Value::String(text) => match (self.handles.get(text.as_str()), text.split_once('|')) {
                (Some(route), _) => self.list(route, depth + 1),
                (None, Some((kind, rest))) => self.short(kind, rest, depth),
                (None, None) => Err(refusal::of(text)),
            },
            Value::Object(object) => {
                let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
                self.long(kind, object, depth)
            }
            _ => Err("a route is neither a text nor an object".to_owned()),
        }
    }

    /// `PoolRoute|NAME`, `AllSyncRoute|Pool|NAME` and their like.
    fn short(&self, kind: &str, rest: &str, depth: u32) -> Result<Vec<Meaning>, String> {
        let mut object = Object::new();
        let what = match kind {
            "Pool" => "name",
            "PoolRoute" => "pool",
            _ => "children",
        };
        object.insert(what.to_owned(), rest.into());
        self.long(kind, &object, depth)
    }

    fn long(&self, kind: &str, route: &Object, depth: u32) -> Result<Vec<Meaning>, String> {
        if let Some(way) = Way::named(kind) {
            return self.of_way(way, route, depth).map(|meaning| vec![meaning]);
        }
        match kind {
            "Pool" => Ok(self.pool(route)?.hosts.each_alone().map(alone).collect()),
            "PoolRoute" => self.pool_route(route).map(|meaning| vec![meaning]),
            "HashRoute" => self.hash_route(route, depth).map(|meaning| vec![meaning]),
            "OperationSelectorRoute" | "PrefixPolicyRoute" => {
                self.operations(route, depth).map(|meaning| vec![meaning])
            }
            "MigrateRoute" => self.migration(route, depth).map(|meaning| vec![meaning]),
            other => Err(refusal::of(other)),
        }
    }

    /// A pool by its name, or as it stands there.
    fn pool(&self, pool: &Object) -> Result<pools::Pool, String> {
        let name = pool.get("name").and_then(Value::as_str).ok_or("a pool has no `name`")?;
        if pool.contains_key("servers") && !self.pools.contains_key(name) {
            let mut pool = pool.clone();
            pool.remove("type");
            let pool = pools::read(name, &pool).map_err(|reason| format!("pool {name}: {reason}"))?;
            return self.counted(pool);
        }
        self.named(name)
    }

    fn named(&self, name: &str) -> Result<pools::Pool, String> {
        self.seen.borrow_mut().insert(name.to_owned());
        self.counted(pools::named(self.pools, name)?)
    }

    fn counted(&self, pool: pools::Pool) -> Result<pools::Pool, String> {
        let (own, all) = self.servers.get();
        let count = pool.hosts.servers.len();
        self.servers.set((own + count, all + count));
        if own + count > ROUTE_SERVERS_MAX {
            return Err(format!("a route stands for more than {ROUTE_SERVERS_MAX} servers"));
        }
        if all + count > ALL_SERVERS_MAX {
            return Err(format!("the routes stand for more than {ALL_SERVERS_MAX} servers"));
        }
        Ok(pool)
    }

    fn pool_route(&self, route: &Object) -> Result<Meaning, String> {
        let pool = match route.get("pool").ok_or("PoolRoute has no `pool`")? {
            Value::String(name) => self.named(name)?,
            Value::Object(pool) => self.pool(pool)?,
            _ => return Err("`pool` of PoolRoute is neither a name nor an object".to_owned()),
        };
        let pools::Pool { mut hosts, mut hash } = pool;
        for (setting, value) in route {
            match setting.as_str() {
                "type" | "pool" | "name" | "hash" => {}
                "asynclog" | "asynclog_name" | "axonlog" | "max_outstanding" | "pool_id" | "rates" => {
                    hosts.note(format!("{setting} has no equal"));
                }
                "shadows" | "shadow_policy" => {
                    return Err(refusal::of("ShadowRoute").replacen(
                        "ShadowRoute",
                        &format!("`{setting}` of PoolRoute"),
                        1,
                    ));
                }
                "bucketize" | "distribution_enabled" if value == false => {}
                _ => only(route, &["type", "pool", "name", "hash"], "PoolRoute")?,
            }
        }
        match route.get("hash") {
            None => {}
            Some(Value::String(function)) => {
                hash.insert("hash_func".to_owned(), function.clone().into());
            }
            Some(Value::Object(settings)) => hash.extend(settings.clone()),
            Some(_) => return Err("`hash` is neither a text nor an object".to_owned()),
        }
        let options = placed(&mut hosts, &hash)
            .map_err(|reason| format!("PoolRoute, pool {}: {reason}", hosts.name))?;
        Ok(Meaning::One(hosts, options))
    }

    fn hash_route(&self, route: &Object, depth: u32) -> Result<Meaning, String> {
        let mut children = self.children(route, depth)?;
        if children.len() == 1 {
            return Ok(children.remove(0));
        }
        let mut hosts = single_servers("HashRoute", children)?;
        let mut settings = route.clone();
        settings.retain(|name, _| !["type", "name", "children"].contains(&name.as_str()));
        let options = placed(&mut hosts, &settings).map_err(|reason| format!("HashRoute: {reason}"))?;
        Ok(Meaning::One(hosts, options))
    }

    fn of_way(&self, way: Way, route: &Object, depth: u32) -> Result<Meaning, String> {
        let (kind, writes, _) = way.row();
        let mut children = self.children(route, depth)?;
        if children.len() == 1 {
            return Ok(children.remove(0));
        }
        let mut hosts = single_servers(kind, children)?;
        if writes.is_some() {
            only(route, &["type", "name", "children"], kind)?;
        } else {
            // These say when, and in which order, servers are asked that all have the key.
            for setting in route.keys().filter(|name| !["type", "name", "children"].contains(&name.as_str()))
            {
                hosts.note(format!("{setting} of {kind} has no equal"));
            }
        }
        Ok(Meaning::Any(way, hosts))
    }

    fn children(&self, route: &Object, depth: u32) -> Result<Vec<Meaning>, String> {
        let children =
            self.list(route.get("children").unwrap_or(&Value::String(String::new())), depth + 1)?;
        if children.is_empty() {
            Err(refusal::because("NullRoute", "a route has no children"))
        } else {
            Ok(children)
        }
    }

    fn migration(&self, route: &Object, depth: u32) -> Result<Meaning, String> {
        only(route, &["type", "name", "from", "to", "start_time", "interval"], "MigrateRoute")?;
        let part = |name: &str| route.get(name).ok_or_else(|| format!("MigrateRoute has no `{name}`"));
        let number = |name: &str, otherwise: Option<u64>| {
            let value = route.get(name).map_or(otherwise, Value::as_u64);
            value.ok_or_else(|| format!("MigrateRoute: `{name}` is no number of seconds"))
        };
        let (start, interval) = (number("start_time", None)?, number("interval", Some(3600))?);
        let to = self.follow(part("to")?, depth + 1)?;
        let is_over = self.now_s >= start.saturating_add(interval.saturating_mul(2));
        if is_over || part("from")? == part("to")? || self.follow(part("from")?, depth + 1)? == to {
            return Ok(to);
        }
        let state = if self.now_s < start { "has not begun" } else { "is under way" };
        Err(refusal::because("MigrateRoute", &format!("it {state}, and Weir moves no keys at a given time")))
    }

    fn operations(&self, route: &Object, depth: u32) -> Result<Meaning, String> {
        let kind = "OperationSelectorRoute";
        only(route, &["type", "name", "default_policy", "operation_policies"], kind)?;
        let none = Object::new();
        let policies = match route.get("operation_policies") {
            None => &none,
            Some(policies) => policies.as_object().ok_or("`operation_policies` is no object")?,
        };
        let follow = |name: &str, route: &Value| {
            self.follow(route, depth + 1).map_err(|reason| format!("{kind}, {name}: {reason}"))
        };
        let mut stated = Vec::new();
        for (operation, route) in policies {
            stated.push((operation.as_str(), follow(operation, route)?));
        }
        let default = route.get("default_policy").map(|route| follow("default_policy", route)).transpose()?;
        let operations = Operations { stated, default };
        if operations.stated.is_empty() {
            return operations.default.ok_or_else(|| format!("{kind} has neither policies nor a default"));
        }
        operations.meaning().map_err(|why| refusal::because(kind, &why))
    }
}

/// One server.
fn alone(host: Hosts) -> Meaning {
    Meaning::One(host, Options::new(Placement::McrouterCh3))
}

/// The servers of children that are one server each.
fn single_servers(kind: &str, children: Vec<Meaning>) -> Result<Hosts, String> {
    let mut hosts = Vec::new();
    for (place, child) in children.into_iter().enumerate() {
        match child {
            Meaning::One(host, _) if host.servers.len() == 1 => hosts.push(host),
            Meaning::One(host, _) => {
                let why = format!(
                    "child {} is pool {} with {} servers, and Weir keeps copies on single servers, not on pools",
                    place + 1,
                    host.name,
                    host.servers.len()
                );
                return Err(refusal::because(kind, &why));
            }
            Meaning::Any(..) | Meaning::Copies(_) => {
                let why = format!("child {} is a route to several servers at once", place + 1);
                return Err(refusal::because(kind, &why));
            }
        }
    }
    Ok(Hosts::together(hosts))
}
