//! Looks up the names of servers: all at the start, and each again when it may have other addresses.
//!
//! ```text
//!   note_due ─▶ due: each name once ─▶ begin_due: some at once ─▶ take_found: a new book, if the name has other addresses
//!   the period is over ─▶ all names are due
//! ```
//!
//! [`Resolver`] owns the book that is in force. It begins to look up what is due, gets what was found, and answers with a new book where
//! that has changed something. A name that cannot be looked up keeps the addresses that it had.
//!
//! A name for which no name server answers takes a thread for seconds. So those that were not found the last time may have half of the
//! threads at once, and the others do not wait for them.

use crate::{
    Config,
    config::nanos,
    connections::names::{self, AddressBook, Found, LOOK_UPS_MAX, Resolve, ResolveError},
    notices::notice::{Notice, Tell},
    process::clock::Clock,
    reload::handle::ResolverHandle,
};
use std::{
    collections::{HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use weir_routing::{Endpoint, Table};
use weir_timing::Instant;

/// How long names are waited for at the start, and for a reload, before those that are left are put off: each may take seconds where no name
/// server answers.
pub const NAMES_WAIT_MAX: Duration = Duration::from_secs(10);

/// Of the names that are looked up at once, as many may be some that were not found the last time.
const UNFOUND_MAX: usize = LOOK_UPS_MAX / 2;

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

/// What was found of a name.
pub(super) struct LookedUp {
    name: Endpoint,
    /// It was not found the time before.
    was_unfound: bool,
    found: Found,
}

pub(super) struct Resolver {
    book: Arc<AddressBook>,
    lookup: Arc<dyn Resolve>,
    every: Duration,
    /// Names that are to be looked up, each once.
    due: VecDeque<Endpoint>,
    /// Those of them that were not found the last time.
    due_unfound: VecDeque<Endpoint>,
    /// Names that are due or under way.
    asked: HashSet<Endpoint>,
    /// How many are under way, and how many of them were not found the last time.
    under_way: usize,
    under_way_unfound: usize,
    /// Names that were not found the last time.
    unfound: HashSet<Endpoint>,
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
            due_unfound: VecDeque::new(),
            asked: HashSet::new(),
            under_way: 0,
            under_way_unfound: 0,
            unfound: HashSet::new(),
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
        let (book, unresolved) =
            AddressBook::of(table.servers(), &self.book, &self.lookup, Some(NAMES_WAIT_MAX));
        self.unfound.retain(|name| book.has(name));
        self.unfound.extend(book.names().filter(|name| book.lacks(name)).cloned());
        self.book = Arc::new(book);
        unresolved.iter().for_each(|error| (self.tell)(Notice::NameUnknown(error.to_string())));
        unresolved
    }

    /// How long until the period is over.
    pub(super) fn wait_max(&self) -> Duration {
        Duration::from_nanos(self.next_period.saturating_since(self.clock.now()))
    }

    /// The period is over: all names may have other addresses now.
    pub(super) fn begin_period(&mut self) {
        self.next_period = self.clock.now().plus(nanos(self.every));
        let book = self.book();
        book.names().for_each(|name| self.note_due(name.clone()));
    }

    /// This name may have other addresses now.
    pub(super) fn note_due(&mut self, name: Endpoint) {
        if self.asked.insert(name.clone()) {
            let due = if self.unfound.contains(&name) { &mut self.due_unfound } else { &mut self.due };
            due.push_back(name);
        }
    }

    /// Begins to look up what is due, as far as threads may wait for it. `answers`: what is found is said there.
    pub(super) fn begin_due(&mut self, answers: &ResolverHandle) {
        while let Some((name, was_unfound)) = self.next_due() {
            add_one(&self.counts.looked_up);
            self.under_way += 1;
            self.under_way_unfound += usize::from(was_unfound);
            let answers = answers.clone();
            let answer = move |name, found| answers.hand_over(LookedUp { name, was_unfound, found });
            if let Err(error) = names::begin_look_up(&name, &self.lookup, answer) {
                // It is due again with the next period.
                self.take_found(LookedUp { name, was_unfound, found: Err(error) });
            }
        }
    }

    /// The next name that may be begun, and whether it was not found the last time.
    fn next_due(&mut self) -> Option<(Endpoint, bool)> {
        if self.under_way >= LOOK_UPS_MAX {
            return None;
        }
        let found = self.due.pop_front().map(|name| (name, false));
        found.or_else(|| {
            let may = self.under_way_unfound < UNFOUND_MAX;
            may.then(|| self.due_unfound.pop_front().map(|name| (name, true))).flatten()
        })
    }

    /// Returns the new book, if there is one.
    pub(super) fn take_found(&mut self, looked_up: LookedUp) -> Option<Arc<AddressBook>> {
        let LookedUp { name, was_unfound, found } = looked_up;
        self.under_way -= 1;
        self.under_way_unfound -= usize::from(was_unfound);
        self.asked.remove(&name);
        let Ok(addresses) = found else {
            // What is known stays: a name server that is away must not take the servers with it.
            add_one(&self.counts.failed);
            if self.book.has(&name) {
                self.unfound.insert(name);
            }
            return None;
        };
        self.unfound.remove(&name);
        let book = self.book.with(&name, &addresses)?;
        add_one(&self.counts.changed);
        if self.book.lacks(&name) {
            (self.tell)(Notice::NameKnown(name.to_string()));
        }
        self.book = Arc::new(book);
        Some(self.book())
    }
}
