//! Where servers are that are given by name.
//!
//! Nothing in an event loop waits for a name: loops hold an [`AddressBook`], an immutable map that is replaced whole whenever a name
//! turns out to have other addresses. Who looks names up is a [`Resolve`].
//!
//! A name without an address is in the book with none. Its server cannot be connected to, and is down until the name has one. Where keys
//! go depends on names alone, never on this book.

use crate::{config::nanos, process::clock::Clock};
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    sync::Arc,
    time::Duration,
};
use weir_routing::{Endpoint, Server, Table};

/// Looks names up.
pub trait Resolve: Send + Sync {
    /// The addresses of a name, in the order in which they should be tried. May take its time.
    fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The system's own resolver: `/etc/hosts`, DNS, whatever `nsswitch.conf` says.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        (host, port).to_socket_addrs().map(Iterator::collect)
    }
}

/// More addresses of one name are not tried.
const ADDRESSES_MAX: usize = 64;

/// The addresses of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AddressBook {
    by_endpoint: HashMap<Endpoint, Arc<[SocketAddr]>>,
}

/// Why a server's name cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("server {server} cannot be resolved: {source}; check the name, or give its address")]
pub struct ResolveError {
    server: String,
    source: io::Error,
}

/// All servers of a table whose names have no address now, each with the reason. After `wait_max`, if there is one, no more names are
/// looked up, and count among them.
pub fn unresolved(table: &Table, resolver: &dyn Resolve, wait_max: Option<Duration>) -> Vec<ResolveError> {
    let clock = Clock::start();
    let until = wait_max.map(|wait_max| clock.now().plus(nanos(wait_max)));
    let may_go_on = || until.is_none_or(|until| clock.now() < until);
    AddressBook::of(table.servers(), &AddressBook::default(), resolver, &may_go_on).1
}

impl AddressBook {
    /// Looks all of them up, but for those that `known` has, as long as it `may` go on. What was not looked up, or not found, has no
    /// address; the second value says why.
    pub(crate) fn of(
        servers: &[Server],
        known: &Self,
        resolver: &dyn Resolve,
        may_go_on: &dyn Fn() -> bool,
    ) -> (Self, Vec<ResolveError>) {
        let (mut book, mut unresolved) = (Self::default(), Vec::new());
        for server in servers {
            let found = match known.by_endpoint.get(&server.endpoint) {
                Some(addresses) if !addresses.is_empty() => Ok(Arc::clone(addresses)),
                _ if is_name(&server.endpoint) && !may_go_on() => {
                    Err(io::Error::other("other names took all the time that there was"))
                }
                _ => look_up(&server.endpoint, resolver),
            };
            let addresses = found.unwrap_or_else(|source| {
                unresolved.push(ResolveError { server: server.name.clone(), source });
                Arc::new([])
            });
            book.by_endpoint.insert(server.endpoint.clone(), addresses);
        }
        (book, unresolved)
    }

    /// Addresses to be tried in turn; none for a socket in the file system.
    pub(crate) fn addresses(&self, endpoint: &Endpoint) -> &[SocketAddr] {
        self.by_endpoint.get(endpoint).map_or(&[], |addresses| addresses)
    }

    /// The servers that are given by name.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Endpoint> {
        self.by_endpoint.keys().filter(|endpoint| is_name(endpoint))
    }

    /// Whether this is a name that has no address yet.
    pub(crate) fn lacks(&self, endpoint: &Endpoint) -> bool {
        is_name(endpoint) && self.addresses(endpoint).is_empty()
    }

    /// The book in which this name has these addresses; `None` if it is this one. The order does not matter: name servers turn it.
    pub(crate) fn with(&self, endpoint: &Endpoint, addresses: &Arc<[SocketAddr]>) -> Option<Self> {
        let known = self.by_endpoint.get(endpoint)?;
        let same = known.len() == addresses.len() && addresses.iter().all(|address| known.contains(address));
        (!same).then(|| {
            let mut book = self.clone();
            book.by_endpoint.insert(endpoint.clone(), Arc::clone(addresses));
            book
        })
    }
}

/// Whether a server is given by a name, whose addresses may change.
pub(crate) fn is_name(endpoint: &Endpoint) -> bool {
    matches!(endpoint, Endpoint::Tcp { host, .. } if host.parse::<IpAddr>().is_err())
}

/// The addresses of a server, at least one unless it is a socket in the file system.
pub(crate) fn look_up(endpoint: &Endpoint, resolver: &dyn Resolve) -> io::Result<Arc<[SocketAddr]>> {
    let Endpoint::Tcp { host, port } = endpoint else { return Ok(Arc::new([])) };
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(Arc::new([SocketAddr::new(address, *port)]));
    }
    let mut addresses = resolver.resolve(host, *port)?;
    addresses.truncate(ADDRESSES_MAX);
    if addresses.is_empty() {
        return Err(io::Error::other("the name has no address"));
    }
    Ok(addresses.into())
}
