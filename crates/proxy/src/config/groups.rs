//! Which clients are served together, and by what.
//!
//! ```text
//!   places without a pool ─▶ the group of the routes    its pools, prefixes and a default
//!   [[listen]] pool = "a" ─▶ the group of pool a        all keys of its clients belong to a
//!   [[listen]] pool = "b" ─▶ the group of pool b
//! ```
//!
//! A [`Group`] has a table, settings, event loops and connections to servers of its own. So nothing that is kept by a key's name can meet a
//! key of another group: locks, journals, replies that several clients wait for. [`Groups`] owns all of them, at least one, and never
//! changes; a reload brings others. It is asked which group a place belongs to, and what a configuration that was read again makes of it.

use crate::config::{
    error::ConfigError,
    settings::{Layer, Settings, Table as _},
};
use std::sync::Arc;
use weir_routing::{Router, Table};

/// A pool that has places of its own, as the file says it.
#[derive(Clone, Debug)]
pub struct PoolOfPlaces {
    /// What it is called.
    pub name: String,
    /// Its keys to its servers.
    pub router: Router,
    /// All that is said for its clients, by whichever layer.
    pub said: Layer,
}

/// Clients that are served together.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// The pool of all their keys; `None`: keys go by the routes.
    pool: Option<Arc<str>>,
    table: Arc<Table>,
    /// What it goes by; `None`: what the proxy does.
    own: Option<Settings>,
}

/// All groups.
#[derive(Clone, Debug)]
pub(crate) struct Groups(Vec<Group>);

impl Group {
    /// The pool of all its keys; `None`: keys go by the routes.
    pub(crate) fn pool(&self) -> Option<&Arc<str>> {
        self.pool.as_ref()
    }

    /// Where its keys go.
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// What it goes by, where the proxy goes by these.
    pub(crate) fn settings<'a>(&'a self, of_proxy: &'a Settings) -> &'a Settings {
        self.own.as_ref().unwrap_or(of_proxy)
    }

    /// For people.
    fn keys(&self) -> String {
        self.pool
            .as_ref()
            .map_or_else(|| "keys that go by the routes".to_owned(), |pool| format!("pool {pool}"))
    }
}

impl Groups {
    /// The group of the routes, where some place goes by them, and one for each of these pools.
    pub(super) fn new(routed: Option<Table>, pools: &[PoolOfPlaces]) -> Result<Self, ConfigError> {
        let routed = routed.map(|table| Group { pool: None, table: Arc::new(table), own: None });
        let own = pools.iter().map(|pool| {
            let table = Table::separate(&pool.name, pool.router.clone())?;
            let own = Some(Settings::of(&pool.said));
            Ok(Group { pool: Some(pool.name.as_str().into()), table: Arc::new(table), own })
        });
        let groups: Vec<_> = routed.into_iter().map(Ok).chain(own).collect::<Result<_, ConfigError>>()?;
        if groups.is_empty() {
            return Err(ConfigError::NobodyServed);
        }
        Ok(Self(groups))
    }

    /// All of them, by their numbers.
    pub(crate) fn all(&self) -> &[Group] {
        &self.0
    }

    /// The number of the group to which a place with this pool belongs.
    pub(crate) fn of_place(&self, pool: Option<&str>) -> Option<usize> {
        self.0.iter().position(|group| group.pool.as_deref() == pool)
    }

    /// The tables of all, as somebody sees them who looks at the whole proxy.
    pub(super) fn table(&self) -> Result<Arc<Table>, ConfigError> {
        match self.0.as_slice() {
            [only] => Ok(Arc::clone(&only.table)),
            groups => {
                let tables: Vec<_> = groups.iter().map(|group| &*group.table).collect();
                Ok(Arc::new(Table::side_by_side(&tables)?))
            }
        }
    }

    /// These groups as others say that were read again; or which of them those do not have. Groups are there from the start to the end:
    /// their threads are.
    pub(super) fn renewed(&self, read: &Self) -> Result<Self, String> {
        let groups = self.0.iter().map(|group| {
            let found = read.0.iter().find(|it| it.pool == group.pool).ok_or_else(|| {
                let keys = group.keys();
                format!("[[listen]] has no place any more for {keys}, whose clients may be here; restart the proxy")
            })?;
            let mut own = group.own.clone();
            if let (Some(own), Some(read)) = (&mut own, &found.own) {
                own.take_reloadable(read);
            }
            Ok(Group { own, table: Arc::clone(&found.table), ..group.clone() })
        });
        groups.collect::<Result<_, String>>().map(Self)
    }

    /// What of pools that were read again only a restart would change, a line each; `of_proxy`: what was said of all already.
    pub(crate) fn unchangeable(&self, read: &Self, of_proxy: &[String]) -> Vec<String> {
        let mut lines = Vec::new();
        for group in &self.0 {
            let found = read.0.iter().find(|it| it.pool == group.pool).and_then(|it| it.own.as_ref());
            if let (Some(pool), Some(own), Some(found)) = (&group.pool, &group.own, found) {
                let own = own.unchangeable(found).into_iter().filter(|line| !of_proxy.contains(line));
                lines.extend(own.map(|line| format!("pool {pool}: {line}")));
            }
        }
        lines
    }

    /// How many event loops each has of this many: all have one.
    pub(super) fn share(&self, threads: usize) -> usize {
        threads.div_ceil(self.0.len())
    }

    /// This one alone.
    pub(super) fn only(&self, number: usize) -> Self {
        Self(vec![self.0[number].clone()])
    }
}
