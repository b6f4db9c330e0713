//! What an engine is made of, and what it has started.
//!
//! [`Making`] owns what all threads of an engine begin with. Each engine is a [`StartEngine`]: it is given a `Making`, and answers with
//! the threads that it has [`Started`].

use crate::{
    Config,
    engine::event::server_links::AddressBookHandle,
    mailbox::{LoopHandle, Question},
    notices::showing::Notices,
    process::{
        clock::Clock,
        error::RunError,
        threads::{LoopThread, Watch},
    },
    records::{
        traces::Tracing,
        windows::{self, Hub},
    },
};
use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, PoisonError, RwLock, mpsc::SyncSender},
};
use weir_dataplane::{Budget, Freshness};

/// Starts the threads of one engine.
pub(super) trait StartEngine {
    fn start(&self, making: &Making) -> Result<Started, RunError>;
}

/// What an engine is made of.
#[derive(Clone)]
pub(crate) struct Making {
    pub(super) config: Config,
    /// The number of the first thread: those of other groups have the numbers before it.
    pub(super) first_thread: usize,
    pub(super) clock: Clock,
    /// Who notices that a thread has ended.
    pub(super) watch: Watch,
    /// Where the servers are.
    pub(super) addresses: AddressBookHandle,
    /// Where threads say what happened.
    pub(super) notices: Arc<Notices>,
    /// Where threads ask what they cannot answer themselves.
    pub(super) questions: SyncSender<Question>,
    pub(super) windows: Hub,
    /// Where rows of sampled requests go, if anywhere.
    pub(super) tracing: Option<Tracing>,
    /// The memory that all loops share.
    pub(super) budget: Arc<Budget>,
    /// What all dataplanes know together.
    pub(super) freshness: Arc<Freshness>,
}

impl Making {
    pub(crate) fn new(
        config: &Config,
        clock: Clock,
        watch: &Watch,
        addresses: AddressBookHandle,
        notices: Arc<Notices>,
        questions: SyncSender<Question>,
        windows: Hub,
    ) -> Self {
        Self {
            config: config.clone(),
            first_thread: 0,
            clock,
            watch: watch.clone(),
            addresses,
            notices,
            questions,
            windows,
            tracing: None,
            budget: Budget::new(config.settings.buffer_limit),
            freshness: Arc::default(),
        }
    }

    /// For the threads of one group, of which the first has this number. Its dataplanes know nothing of those of other groups.
    pub(super) fn of_group(&self, group: usize, first_thread: usize) -> Self {
        Self { config: self.config.of_group(group), first_thread, freshness: Arc::default(), ..self.clone() }
    }

    /// The configuration of the dataplane of loop number `index`.
    pub(super) fn dataplane(&self, index: usize) -> weir_dataplane::Config {
        weir_dataplane::Config { jitter_seed: jitter_seed(), ..self.config.dataplane(index) }
    }

    /// Rows of sampled requests go there, if anywhere.
    pub(crate) fn with_tracing(self, tracing: Option<Tracing>) -> Self {
        Self { tracing, ..self }
    }
}

/// The threads of an engine.
pub(crate) struct Started {
    /// Those that have something to report.
    pub(crate) reporting: ReportingThreads,
    /// Those that take clients and tables, and are asked to drain.
    pub(crate) doors: Vec<LoopHandle>,
    /// All, in the order in which they are waited for.
    pub(crate) threads: Vec<LoopThread>,
    /// Queues that are not a thread's own.
    pub(crate) queues: Vec<Arc<dyn windows::Queue>>,
}

/// The threads that have something to report; there may come more, and each keeps its number.
#[derive(Clone, Default)]
pub(crate) struct ReportingThreads(Arc<RwLock<Vec<LoopHandle>>>);

impl ReportingThreads {
    pub(super) fn new(threads: impl IntoIterator<Item = LoopHandle>) -> Self {
        Self(Arc::new(RwLock::new(threads.into_iter().collect())))
    }

    pub(super) fn add(&self, thread: LoopHandle) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(thread);
    }

    /// All that there are now, by their numbers.
    pub(crate) fn all(&self) -> Vec<LoopHandle> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The threads that report, by group of clients (`config/groups.rs`).
#[derive(Clone)]
pub(crate) struct ReportingGroups {
    all: ReportingThreads,
    groups: Vec<ReportingThreads>,
}

impl ReportingGroups {
    /// Where there are several groups, no more threads come.
    pub(crate) fn new(groups: Vec<ReportingThreads>) -> Self {
        let all = match groups.as_slice() {
            [only] => only.clone(),
            groups => ReportingThreads::new(groups.iter().flat_map(ReportingThreads::all)),
        };
        Self { all, groups }
    }

    /// Those of all groups.
    pub(crate) fn all(&self) -> &ReportingThreads {
        &self.all
    }

    /// Those of each, in the order of the groups.
    pub(crate) fn groups(&self) -> &[ReportingThreads] {
        &self.groups
    }

    /// The number of the group that the thread with this number serves.
    pub(crate) fn of_thread(&self, thread: usize) -> usize {
        let mut before = 0;
        let ends = |threads: &ReportingThreads| {
            before += threads.all().len();
            thread < before
        };
        self.groups.iter().position(ends).unwrap_or_default()
    }
}

/// Another number for each loop of each process: those that lose a server at one moment are to try it again at moments of their own.
fn jitter_seed() -> u64 {
    // Its keys are random, and others each time.
    RandomState::new().hash_one(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Every process began with the same seeds. All proxies of a fleet tried a server that they had lost at the same moments, again and again.
    #[test]
    fn no_two_loops_have_the_same_jitter() {
        let seeds: BTreeSet<_> = (0..64).map(|_| jitter_seed()).collect();
        assert_eq!(seeds.len(), 64);
    }
}
