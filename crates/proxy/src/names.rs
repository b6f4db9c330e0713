//! Where servers are that are given by name.
//!
//! Nothing in an event loop waits for a name: loops hold an [`AddressBook`], an immutable map that is replaced whole whenever a name
//! turns out to have other addresses. Who looks names up is a [`Resolve`].

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    sync::Arc,
};
use weir_routing::{Endpoint, Server};

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

/// Why a server's name is of no use.
#[derive(Debug, thiserror::Error)]
#[error("server {server} cannot be resolved: {source}; check the name, or give its address")]
pub struct ResolveError {
    server: String,
    source: io::Error,
}

impl AddressBook {
    /// Looks all of them up, but for those that `known` has.
    pub(crate) fn of(servers: &[Server], known: &Self, resolver: &dyn Resolve) -> Result<Self, ResolveError> {
        let mut book = Self::default();
        for server in servers {
            let addresses = match known.by_endpoint.get(&server.endpoint) {
                Some(addresses) => Arc::clone(addresses),
                None => look_up(&server.endpoint, resolver)
                    .map_err(|source| ResolveError { server: server.name.clone(), source })?,
            };
            book.by_endpoint.insert(server.endpoint.clone(), addresses);
        }
        Ok(book)
    }

    /// Addresses to be tried in turn; none for a socket in the file system.
    pub(crate) fn addresses(&self, endpoint: &Endpoint) -> &[SocketAddr] {
        self.by_endpoint.get(endpoint).map_or(&[], |addresses| addresses)
    }

    /// The servers that are given by name.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Endpoint> {
        self.by_endpoint.keys().filter(|endpoint| is_name(endpoint))
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
