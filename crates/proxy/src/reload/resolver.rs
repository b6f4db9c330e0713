//! Looks up the names of servers: all at the start, and each again when it may have other addresses.
//!
//! ```text
//!   note_due ─▶ due: each name once ─▶ look_up_next ─▶ a new book, if the name has other addresses
//!   the period is over ─▶ all names are due
//! ```
//!
//! [`Resolver`] owns the book that is in force. It is asked to look up the next name that is due, and answers with a new book where that
//! has changed something. A name that cannot be looked up keeps the addresses that it had.

use crate::{
    Config,
    config::nanos,
    connections::names::{self, AddressBook, Resolve, ResolveError},
    notices::notice::{Notice, Tell},
    process::clock::Clock,
};
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use weir_routing::{Endpoint, Table};
use weir_timing::Instant;

/// How long names are looked up at the start, and for a reload, before those that are left are put off: each may take seconds where no
/// name server answers.
pub const NAMES_WAIT_MAX: Duration = Duration::from_secs(10);

/// Counts of what is done about names.
#[derive(Debug, Default)]
pub(crate) struct NameCounts {
    looked_up: AtomicU64,
    failed: AtomicU64,
    changed: AtomicU64,
    refused: AtomicU64,
}

impl NameCounts {
    pub(crate) fn looked_up(&self) -> u64 {
        self.looked_up.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(crate) fn changed(&self) -> u64 {
        self.changed.load(Ordering::Relaxed)
    }

    /// Questions of loops that were not asked because too many waited.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    pub(super) fn note_refused(&self) {
        add_one(&self.refused);
    }
}

fn add_one(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

pub(super) struct Resolver {
    book: Arc<AddressBook>,
    lookup: Arc<dyn Resolve>,
    every: Duration,
    /// Names that are to be looked up, each once.
    due: VecDeque<Endpoint>,
    next_period: Instant,
    clock: Clock,
    counts: Arc<NameCounts>,
    tell: Tell,
}

impl Resolver {
    /// Looks up all names, which takes its time. Those that have no address are looked up again.
    pub(super) fn new(config: &Config, clock: Clock, counts: Arc<NameCounts>, tell: Tell) -> Self {
        let mut resolver = Self {
            book: Arc::default(),
            lookup: Arc::clone(&config.resolver),
            every: config.settings.resolve_every,
            due: VecDeque::new(),
            next_period: Instant::ZERO,
            clock,
            counts,
            tell,
        };
        resolver.look_up_new(&config.table);
        resolver.next_period = clock.now().plus(nanos(config.settings.resolve_every));
        resolver
    }

    /// Where the servers are.
    pub(super) fn book(&self) -> Arc<AddressBook> {
        Arc::clone(&self.book)
    }

    /// Servers have come or gone. Looks up the names that are not known yet, and returns those that have no address.
    pub(super) fn take_table(&mut self, table: &Table, every: Duration) -> Vec<ResolveError> {
        let unresolved = self.look_up_new(table);
        self.every = every;
        self.next_period = self.next_period.min(self.clock.now().plus(nanos(every)));
        unresolved
    }

    fn look_up_new(&mut self, table: &Table) -> Vec<ResolveError> {
        let until = self.clock.now().plus(nanos(NAMES_WAIT_MAX));
        let may_go_on = || self.clock.now() < until;
        let (book, unresolved) = AddressBook::of(table.servers(), &self.book, &*self.lookup, &may_go_on);
        self.book = Arc::new(book);
        unresolved.iter().for_each(|error| (self.tell)(Notice::NameUnknown(error.to_string())));
        unresolved
    }

    /// How long until [`Resolver::look_up_next`] has something to do.
    pub(super) fn wait_max(&self) -> Duration {
        if self.due.is_empty() {
            Duration::from_nanos(self.next_period.saturating_since(self.clock.now()))
        } else {
            Duration::ZERO
        }
    }

    /// This name may have other addresses now.
    pub(super) fn note_due(&mut self, endpoint: Endpoint) {
        if !self.due.contains(&endpoint) {
            self.due.push_back(endpoint);
        }
    }

    /// Looks up one name; or, where none is due, all become due. Returns the new book, if there is one.
    pub(super) fn look_up_next(&mut self) -> Option<Arc<AddressBook>> {
        let Some(endpoint) = self.due.pop_front() else {
            self.next_period = self.clock.now().plus(nanos(self.every));
            let names: Vec<Endpoint> = self.book.names().cloned().collect();
            names.into_iter().for_each(|name| self.note_due(name));
            return None;
        };
        add_one(&self.counts.looked_up);
        let Ok(addresses) = names::look_up(&endpoint, &*self.lookup) else {
            // What is known stays: a name server that is away must not take the servers with it.
            add_one(&self.counts.failed);
            return None;
        };
        let book = self.book.with(&endpoint, &addresses)?;
        add_one(&self.counts.changed);
        if self.book.lacks(&endpoint) {
            (self.tell)(Notice::NameKnown(endpoint.to_string()));
        }
        self.book = Arc::new(book);
        Some(self.book())
    }
}
