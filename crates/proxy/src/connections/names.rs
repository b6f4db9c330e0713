//! Where servers are that are given by name.
//!
//! Nothing in an event loop waits for a name: loops hold an [`AddressBook`], an immutable map that is replaced whole whenever a name
//! turns out to have other addresses. Who looks names up is a [`Resolve`], in a thread of its own for each: one that no name server answers
//! for takes seconds, and the others do not wait for it.
//!
//! A name without an address is in the book with none. Its server cannot be connected to, and is down until the name has one. Where keys
//! go depends on names alone, never on this book.

use crate::{
    config::nanos,
    process::{clock::Clock, threads},
};
use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    sync::{Arc, mpsc::channel},
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

/// Names that are looked up at once. Each takes a thread until it is answered.
pub(crate) const LOOK_UPS_MAX: usize = 16;

/// The addresses of a name, or why there are none.
pub(crate) type Found = io::Result<Arc<[SocketAddr]>>;

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
    source: Arc<io::Error>,
}

/// All servers of a table whose names have no address now, each with the reason. Names that are not answered within `wait_max`, if there is
/// one, count among them.
pub fn unresolved(
    table: &Table,
    resolver: &Arc<dyn Resolve>,
    wait_max: Option<Duration>,
) -> Vec<ResolveError> {
    AddressBook::of(table.servers(), &AddressBook::default(), resolver, wait_max).1
}

impl AddressBook {
    /// Looks all of them up, but for those that `known` has, for no longer than `wait_max`. What was not found until then has no address;
    /// the second value says why.
    pub(crate) fn of(
        servers: &[Server],
        known: &Self,
        resolver: &Arc<dyn Resolve>,
        wait_max: Option<Duration>,
    ) -> (Self, Vec<ResolveError>) {
        let (mut book, mut unresolved) = (Self::default(), Vec::new());
        let mut wanted = Vec::new();
        for endpoint in servers.iter().map(|server| &server.endpoint) {
            let addresses = match known.by_endpoint.get(endpoint) {
                Some(addresses) if !addresses.is_empty() => Arc::clone(addresses),
                _ => addresses_of(endpoint).unwrap_or_default(),
            };
            let is_new = book.by_endpoint.insert(endpoint.clone(), addresses).is_none();
            if is_new && book.lacks(endpoint) {
                wanted.push(endpoint.clone());
            }
        }
        let mut reasons = HashMap::new();
        for (endpoint, found) in look_up_all(wanted, resolver, wait_max) {
            match found {
                Ok(addresses) => drop(book.by_endpoint.insert(endpoint, addresses)),
                Err(reason) => drop(reasons.insert(endpoint, Arc::new(reason))),
            }
        }
        for server in servers.iter().filter(|server| book.lacks(&server.endpoint)) {
            let late = || Arc::new(io::Error::other("no answer within the time that there was"));
            let source = reasons.get(&server.endpoint).cloned().unwrap_or_else(late);
            unresolved.push(ResolveError { server: server.name.clone(), source });
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

    /// Whether it knows of this server, with addresses or without.
    pub(crate) fn has(&self, endpoint: &Endpoint) -> bool {
        self.by_endpoint.contains_key(endpoint)
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

/// The addresses of a server that is given by its address, or by a socket in the file system, which has none; `None`: it is given by name.
fn addresses_of(endpoint: &Endpoint) -> Option<Arc<[SocketAddr]>> {
    let Endpoint::Tcp { host, port } = endpoint else { return Some(Arc::default()) };
    let address = host.parse::<IpAddr>().ok()?;
    Some(Arc::new([SocketAddr::new(address, *port)]))
}

/// What is found of each of these names; those of which nothing is known when `wait_max` is over are left out.
fn look_up_all(
    names: Vec<Endpoint>,
    resolver: &Arc<dyn Resolve>,
    wait_max: Option<Duration>,
) -> HashMap<Endpoint, Found> {
    let clock = Clock::start();
    let until = wait_max.map(|wait_max| clock.now().plus(nanos(wait_max)));
    let (sender, answers) = channel();
    let (mut found, mut left, mut under_way) = (HashMap::new(), names.into_iter(), 0);
    loop {
        while under_way < LOOK_UPS_MAX
            && let Some(name) = left.next()
        {
            let sender = sender.clone();
            // Whoever waits for the answer may have gone.
            let answer = move |name, found| drop(sender.send((name, found)));
            match begin_look_up(&name, resolver, answer) {
                Ok(()) => under_way += 1,
                Err(error) => drop(found.insert(name, Err(error))),
            }
        }
        if under_way == 0 {
            return found;
        }
        let answer = match until {
            None => answers.recv().ok(),
            Some(until) => {
                answers.recv_timeout(Duration::from_nanos(until.saturating_since(clock.now()))).ok()
            }
        };
        let Some((name, addresses)) = answer else { return found };
        under_way -= 1;
        found.insert(name, addresses);
    }
}

/// Looks this name up in a thread of its own, which hands over what it has found, at least one address. The error: there is no such thread.
pub(crate) fn begin_look_up(
    name: &Endpoint,
    resolver: &Arc<dyn Resolve>,
    hand_over: impl FnOnce(Endpoint, Found) + Send + 'static,
) -> io::Result<()> {
    let (asked, resolver, name) = (name.clone(), Arc::clone(resolver), name.clone());
    let work = move || look_up(&asked, &*resolver);
    threads::begin("weir-name", work, move |found| {
        hand_over(name, found.unwrap_or_else(|| Err(io::Error::other("its look-up has panicked"))));
    })
}

fn look_up(name: &Endpoint, resolver: &dyn Resolve) -> Found {
    let Endpoint::Tcp { host, port } = name else { return Ok(Arc::default()) };
    let mut addresses = resolver.resolve(host, *port)?;
    addresses.truncate(ADDRESSES_MAX);
    if addresses.is_empty() {
        return Err(io::Error::other("the name has no address"));
    }
    Ok(addresses.into())
}
