//! Asks every event loop what it measured, and adds it up. Whoever waits for it must not be an event loop.

use crate::{
    Config,
    admin::places::Places,
    config::settings::{Settings, Table as _},
    connections::{descriptors::Descriptors, listener_counts::ListenerCounts},
    engine::making::{ReportingGroups, ReportingThreads},
    mailbox::{LoopHandle, Message},
    notices::showing::Notices,
    process::clock::Clock,
    records::{files::FileCounts, windows::collector::Ring},
    reload::handle::{ReloadHandle, ResolverHandle},
};
use std::{
    io,
    ops::Deref,
    slice,
    sync::{
        Arc,
        atomic::AtomicBool,
        mpsc::{self, Sender},
    },
    time::Duration,
};
use weir_dataplane::{Report, TopKeys};

/// How long loops may take to tell what they measured. They answer between two turns, within milliseconds.
const WAIT_MAX_NS: u64 = 2_000_000_000;

#[derive(Clone)]
pub(crate) struct Reporter {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) reporting: ReportingGroups,
    pub(crate) reload: ReloadHandle,
    pub(crate) resolver: ResolverHandle,
    pub(crate) windows: Arc<Ring>,
    pub(crate) files: FileCounts,
    pub(crate) notices: Arc<Notices>,
    /// Whether the proxy is about to stop.
    pub(crate) stopping: Arc<AtomicBool>,
    pub(crate) admin: Arc<Places>,
    pub(crate) descriptors: Arc<Descriptors>,
    /// What each listener counts.
    pub(crate) listeners: Vec<Arc<ListenerCounts>>,
}

/// What all loops have answered: the sum over all of them, and that of each group of clients.
#[derive(Clone, Debug)]
pub(crate) struct Sums<T> {
    all: T,
    /// Nothing where there is one group: it is all.
    of_groups: Vec<T>,
}

impl<T: Clone> Sums<T> {
    /// `None`: there is no group.
    fn of(mut groups: Vec<T>, merge: fn(&mut T, &T)) -> Option<Self> {
        if groups.len() == 1 {
            return Some(Self { all: groups.pop()?, of_groups: Vec::new() });
        }
        let (first, others) = groups.split_first()?;
        let mut all = first.clone();
        others.iter().for_each(|other| merge(&mut all, other));
        Some(Self { all, of_groups: groups })
    }

    /// The sums of the groups, in their order.
    pub(crate) fn of_groups(&self) -> &[T] {
        if self.of_groups.is_empty() { slice::from_ref(&self.all) } else { &self.of_groups }
    }
}

/// Over all loops.
impl<T> Deref for Sums<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.all
    }
}

impl Reporter {
    /// The settings in force.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = self.config.settings.clone();
        settings.take_reloadable(self.reload.in_force().settings());
        settings
    }

    /// What was measured: the sum over all loops, each taken between two of its turns.
    pub(crate) fn report(&self) -> io::Result<Sums<Report>> {
        self.ask_all(Message::Report, Report::merge)
    }

    /// The same over the loops of one group.
    pub(crate) fn report_of(&self, group: usize) -> io::Result<Report> {
        self.ask_group(group, Message::Report, Report::merge)
    }

    /// The keys that are asked for most, over all loops.
    pub(crate) fn top_keys(&self) -> io::Result<Sums<TopKeys>> {
        self.ask_all(Message::TopKeys, TopKeys::merge)
    }

    /// The same over the loops of one group.
    pub(crate) fn top_keys_of(&self, group: usize) -> io::Result<TopKeys> {
        self.ask_group(group, Message::TopKeys, TopKeys::merge)
    }

    fn ask_all<T: Clone>(
        &self,
        question: fn(Sender<T>) -> Message,
        merge: fn(&mut T, &T),
    ) -> io::Result<Sums<T>> {
        let of_groups = self.ask(self.reporting.groups(), question, merge)?;
        Sums::of(of_groups, merge).ok_or_else(nobody)
    }

    fn ask_group<T>(
        &self,
        group: usize,
        question: fn(Sender<T>) -> Message,
        merge: fn(&mut T, &T),
    ) -> io::Result<T> {
        let threads = &self.reporting.groups()[group];
        self.ask(slice::from_ref(threads), question, merge)?.pop().ok_or_else(nobody)
    }

    /// The sum of what the threads of each group answer, those of all groups asked at once.
    fn ask<T>(
        &self,
        groups: &[ReportingThreads],
        question: fn(Sender<T>) -> Message,
        merge: fn(&mut T, &T),
    ) -> io::Result<Vec<T>> {
        // All at once: each may have to wait for a turn of its thread.
        let ask = |handle: LoopHandle| {
            let (sender, receiver) = mpsc::channel();
            handle.send(question(sender)).map(|()| receiver)
        };
        let mut asked = Vec::new();
        for group in groups {
            asked.push(group.all().into_iter().map(ask).collect::<io::Result<Vec<_>>>()?);
        }
        let until = self.clock.now().plus(WAIT_MAX_NS);
        let mut of_groups = Vec::new();
        for receivers in asked {
            let mut sum: Option<T> = None;
            for receiver in receivers {
                let left = Duration::from_nanos(until.saturating_since(self.clock.now()));
                let answer = receiver.recv_timeout(left).map_err(io::Error::other)?;
                match &mut sum {
                    Some(sum) => merge(sum, &answer),
                    None => sum = Some(answer),
                }
            }
            of_groups.extend(sum);
        }
        Ok(of_groups)
    }
}

fn nobody() -> io::Error {
    io::Error::other("there is no event loop")
}
