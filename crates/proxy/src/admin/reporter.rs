//! Asks every event loop what it measured, and adds it up. Whoever waits for it must not be an event loop.

use crate::{
    Config,
    admin::places::Places,
    config::settings::{Settings, Table as _},
    connections::{descriptors::Descriptors, listener_counts::ListenerCounts},
    engine::making::ReportingThreads,
    mailbox::{LoopHandle, Message},
    notices::showing::Notices,
    process::clock::Clock,
    records::{files::FileCounts, windows::collector::Ring},
    reload::handle::{ReloadHandle, ResolverHandle},
};
use std::{
    io,
    sync::{
        Arc,
        atomic::AtomicBool,
        mpsc::{self, Sender},
    },
    time::Duration,
};
use weir_dataplane::{Report, TopKeys};

/// How long a loop may take to tell what it measured. Loops answer between two turns, within milliseconds.
const WAIT_MAX: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(crate) struct Reporter {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) reporting: ReportingThreads,
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

impl Reporter {
    /// The settings in force.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = self.config.settings.clone();
        settings.take_reloadable(self.reload.in_force().settings());
        settings
    }

    /// What was measured: the sum over all loops, each taken between two of its turns.
    pub(crate) fn report(&self) -> io::Result<Report> {
        self.ask_all(Message::Report, Report::merge)
    }

    /// The keys that are asked for most, over all loops.
    pub(crate) fn top_keys(&self) -> io::Result<TopKeys> {
        self.ask_all(Message::TopKeys, TopKeys::merge)
    }

    fn ask_all<T>(&self, question: fn(Sender<T>) -> Message, merge: fn(&mut T, &T)) -> io::Result<T> {
        // All at once: each may have to wait for a turn of its thread.
        let ask = |handle: LoopHandle| {
            let (sender, receiver) = mpsc::channel();
            handle.send(question(sender)).map(|()| receiver)
        };
        let asked: Vec<_> = self.reporting.all().into_iter().map(ask).collect::<io::Result<_>>()?;
        let mut sum: Option<T> = None;
        for receiver in asked {
            let answer = receiver.recv_timeout(WAIT_MAX).map_err(io::Error::other)?;
            match &mut sum {
                Some(sum) => merge(sum, &answer),
                None => sum = Some(answer),
            }
        }
        sum.ok_or_else(|| io::Error::other("there is no event loop"))
    }
}
