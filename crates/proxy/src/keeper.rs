//! Keeps what is in force: reads the configuration again when it is asked to, and looks up names.
//!
//! ```text
//!   SIGHUP, POST /reload ─▶ read, check, look up new names ─▶ every loop takes the table ─▶ answered
//!   a loop reconnects, or the period is over ─▶ one name after the other ─▶ every loop gets the new addresses
//! ```
//!
//! This thread alone waits for files and for names. Between two names it looks for something more urgent, so a reload waits for one
//! lookup at most.

use crate::{
    Config,
    clock::{self, Clock},
    config::nanos,
    descriptors::Descriptors,
    event_loop::{LoopHandle, Message, Routing},
    names::{self, AddressBook, ResolveError},
    notice::{Notice, Tell},
};
use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, channel, sync_channel},
    },
    time::Duration,
};
use tokio::sync::oneshot;
use weir_routing::{Endpoint, Table};
use weir_timing::Instant;

/// How long names are looked up at the start, and for a reload, before those that are left are put off: each may take seconds where no
/// name server answers.
pub const NAMES_PATIENCE: Duration = Duration::from_secs(10);

/// Questions that may wait. More names than that are only looked up with the period.
const QUESTIONS_MAX: usize = 256;

/// How long a loop may take to take a table: it does between two turns, within milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

/// What may be asked of the keeper.
enum Ask {
    /// Read the configuration again, and say what came of it.
    Reload(oneshot::Sender<Result<String, String>>),
    /// Look this name up.
    LookUp(Endpoint),
    /// Something was left in the handle.
    Wake,
}

/// Reaches the keeper from other threads; none of them waits for it.
#[derive(Clone)]
pub(crate) struct KeeperHandle {
    asks: SyncSender<Ask>,
    reload_wanted: Arc<AtomicBool>,
    in_force: Arc<Mutex<InForce>>,
    counts: Arc<NameCounts>,
}

/// What a proxy goes by at this moment.
#[derive(Clone)]
pub(crate) struct InForce {
    /// How many configurations have been, the first included.
    pub(crate) generation: u64,
    pub(crate) loaded_unix_ns: u64,
    pub(crate) table: Arc<Table>,
    pub(crate) timeout: Duration,
    /// How many were refused.
    pub(crate) refused: u64,
    /// Whether the one that was read last was.
    pub(crate) refused_last: bool,
}

/// Counts of what is done about names.
#[derive(Default)]
pub(crate) struct NameCounts {
    pub(crate) looked_up: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) changed: AtomicU64,
    /// Questions of loops that were not asked because too many waited.
    pub(crate) refused: AtomicU64,
}

impl KeeperHandle {
    /// Where a signal says so. It is answered by a notice.
    pub(crate) fn reload(&self) {
        self.reload_wanted.store(true, Ordering::Release);
        // Full: it is awake, and will see what it is wanted for.
        let _ = self.asks.try_send(Ask::Wake);
    }

    /// Reads the configuration again; what comes of it can be waited for. `None`: too much is asked at once.
    pub(crate) fn try_reload(&self) -> Option<oneshot::Receiver<Result<String, String>>> {
        let (sender, receiver) = oneshot::channel();
        self.asks.try_send(Ask::Reload(sender)).ok().map(|()| receiver)
    }

    /// A connection to this name is made anew; it may have other addresses now.
    pub(crate) fn look_up(&self, endpoint: &Endpoint) {
        if names::is_name(endpoint) && self.asks.try_send(Ask::LookUp(endpoint.clone())).is_err() {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn in_force(&self) -> InForce {
        self.lock().clone()
    }

    pub(crate) fn name_counts(&self) -> &NameCounts {
        &self.counts
    }

    fn lock(&self) -> MutexGuard<'_, InForce> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's part.
pub(crate) struct Keeper {
    asks: Receiver<Ask>,
    handle: KeeperHandle,
    /// As it was at the start, but for what reloads have changed.
    config: Config,
    book: Arc<AddressBook>,
    clock: Clock,
    /// Names that are to be looked up, each once.
    due: VecDeque<Endpoint>,
    next_period: Instant,
    descriptors: Arc<Descriptors>,
    tell: Tell,
}

impl Keeper {
    /// Looks up all names, which takes its time. Those that have no address are looked up again.
    pub(crate) fn new(
        config: &Config,
        clock: Clock,
        descriptors: Arc<Descriptors>,
        tell: Tell,
    ) -> (Self, KeeperHandle) {
        let (book, unresolved) = look_up_all(config, &AddressBook::default(), clock);
        unresolved.iter().for_each(|error| tell(Notice::NameUnknown(error.to_string())));
        let (sender, asks) = sync_channel(QUESTIONS_MAX);
        let in_force = InForce {
            generation: 1,
            loaded_unix_ns: clock::unix_ns(),
            table: Arc::clone(&config.table),
            timeout: config.timeout,
            refused: 0,
            refused_last: false,
        };
        let handle = KeeperHandle {
            asks: sender,
            reload_wanted: Arc::default(),
            in_force: Arc::new(Mutex::new(in_force)),
            counts: Arc::default(),
        };
        let keeper = Self {
            asks,
            handle: handle.clone(),
            config: config.clone(),
            book: Arc::new(book),
            clock,
            due: VecDeque::new(),
            next_period: clock.now().plus(nanos(config.resolve_every)),
            descriptors,
            tell,
        };
        (keeper, handle)
    }

    /// Where the servers are.
    pub(crate) fn book(&self) -> Arc<AddressBook> {
        Arc::clone(&self.book)
    }

    /// Serves as long as there are loops.
    pub(crate) fn run(mut self, loops: &[LoopHandle]) -> io::Result<()> {
        loop {
            let patience = if self.due.is_empty() {
                Duration::from_nanos(self.next_period.saturating_since(self.clock.now()))
            } else {
                Duration::ZERO
            };
            match self.asks.recv_timeout(patience) {
                Ok(Ask::Reload(answer)) => {
                    // Whoever asked may have stopped waiting.
                    let _ = answer.send(self.reload(loops)?);
                }
                Ok(Ask::LookUp(endpoint)) => self.is_due(endpoint),
                Ok(Ask::Wake) => {}
                Err(RecvTimeoutError::Timeout) => self.look_up_next(loops)?,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if self.handle.reload_wanted.swap(false, Ordering::AcqRel) {
                // Nobody waits for the answer; the notice tells it.
                let _ = self.reload(loops)?;
            }
        }
    }

    /// The outer error: a loop has ended.
    fn reload(&mut self, loops: &[LoopHandle]) -> io::Result<Result<String, String>> {
        let read = (self.config.reread)().and_then(|config| match self.config.refusal(&config) {
            Some(reason) => Err(reason),
            None => Ok(config),
        });
        let config = match read {
            Ok(read) => read,
            Err(reason) => {
                let mut in_force = self.handle.lock();
                in_force.refused += 1;
                in_force.refused_last = true;
                drop(in_force);
                (self.tell)(Notice::ReloadRefused(reason.clone()));
                return Ok(Err(reason));
            }
        };
        let (book, unresolved) = look_up_all(&config, &self.book, self.clock);
        let mut told = self.told(&config);
        for error in &unresolved {
            (self.tell)(Notice::NameUnknown(error.to_string()));
            told.push_str(&format!("; {error}"));
        }
        self.config.table = Arc::clone(&config.table);
        self.config.timeout = config.timeout;
        self.config.resolve_every = config.resolve_every;
        self.next_period = self.next_period.min(self.clock.now().plus(nanos(config.resolve_every)));
        self.book = Arc::new(book);
        self.descriptors.take_config(&self.config);
        self.hand_out(loops)?;
        let generation = {
            let mut in_force = self.handle.lock();
            in_force.generation += 1;
            in_force.refused_last = false;
            in_force.loaded_unix_ns = clock::unix_ns();
            in_force.table = config.table;
            in_force.timeout = config.timeout;
            in_force.generation
        };
        let answer = format!("generation {generation}: {told}");
        (self.tell)(Notice::Reloaded { generation, told });
        Ok(Ok(answer))
    }

    /// Returns when every loop goes by the new table, or is very slow.
    fn hand_out(&self, loops: &[LoopHandle]) -> io::Result<()> {
        let (sender, taken) = channel();
        for handle in loops {
            handle.send(Message::Table(Routing {
                table: Arc::clone(&self.config.table),
                book: Arc::clone(&self.book),
                timeout_ns: nanos(self.config.timeout),
                taken: sender.clone(),
            }))?;
        }
        drop(sender);
        // Ends when all have dropped theirs. One that is slower than this finds the table when it looks.
        let _ = taken.recv_timeout(PATIENCE);
        Ok(())
    }

    /// What a reload changes, and what it cannot.
    fn told(&self, config: &Config) -> String {
        let names = |table: &Table| {
            table.servers().iter().map(|it| (it.address(), it.name.clone())).collect::<Vec<_>>()
        };
        let (old, new) = (names(&self.config.table), names(&config.table));
        let added = new.iter().filter(|it| !old.contains(it)).count();
        let removed = old.iter().filter(|it| !new.contains(it)).count();
        let mut told = format!("{} servers, {added} of them new, {removed} removed", new.len());
        for line in self.config.unchangeable(config) {
            told.push_str("; ");
            told.push_str(&line);
        }
        told
    }

    fn is_due(&mut self, endpoint: Endpoint) {
        if !self.due.contains(&endpoint) {
            self.due.push_back(endpoint);
        }
    }

    /// One name; or, where none is due, all become due.
    fn look_up_next(&mut self, loops: &[LoopHandle]) -> io::Result<()> {
        let Some(endpoint) = self.due.pop_front() else {
            self.next_period = self.clock.now().plus(nanos(self.config.resolve_every));
            let names: Vec<Endpoint> = self.book.names().cloned().collect();
            names.into_iter().for_each(|name| self.is_due(name));
            return Ok(());
        };
        let counts = &self.handle.counts;
        counts.looked_up.fetch_add(1, Ordering::Relaxed);
        let Ok(addresses) = names::look_up(&endpoint, &*self.config.resolver) else {
            // What is known stays: a name server that is away must not take the servers with it.
            counts.failed.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        if let Some(book) = self.book.with(&endpoint, &addresses) {
            counts.changed.fetch_add(1, Ordering::Relaxed);
            if self.book.lacks(&endpoint) {
                (self.tell)(Notice::NameKnown(endpoint.to_string()));
            }
            self.book = Arc::new(book);
            for handle in loops {
                handle.send(Message::Addresses(Arc::clone(&self.book)))?;
            }
        }
        Ok(())
    }
}

fn look_up_all(config: &Config, known: &AddressBook, clock: Clock) -> (AddressBook, Vec<ResolveError>) {
    let until = clock.now().plus(nanos(NAMES_PATIENCE));
    AddressBook::of(config.table.servers(), known, &*config.resolver, &|| clock.now() < until)
}
