//! A proxy from its first to its last moment.

use crate::{
    Config, Engine,
    acceptor::{Acceptor, AcceptorHandle},
    admin,
    clock::Clock,
    event_loop::{EventLoop, LoopConfig, LoopHandle, Message},
    inband::{self, Question},
    keeper::{Keeper, KeeperHandle, Notice, Tell},
    names::ResolveError,
    pool,
    reporter::Reporter,
    server_link::Whereabouts,
};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    io,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};
use weir_dataplane::Standing;

/// Why a proxy could not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A port could not be opened.
    #[error("cannot listen on {address} ({role}): {source}; is another process using it?")]
    Listen {
        /// What the port is for.
        role: &'static str,
        /// The port.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The kernel refused something that a proxy cannot do without.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// A server's name has no address.
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    /// A thread ended that should not have.
    #[error("an event loop has ended: {0}")]
    Loop(String),
}

/// Serves until SIGTERM or SIGINT, then answers what was taken and returns. On SIGHUP the configuration is read again. `tell` shows
/// what an operator should see.
pub fn run(config: &Config, tell: impl Fn(Notice<'_>) + Send + Sync + 'static) -> Result<(), RunError> {
    let clock = Clock::start();
    let tell: Tell = Arc::new(tell);
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])
        .map_err(|source| RunError::System { what: "handle signals", source })?;
    let (questions, asked) = sync_channel(inband::QUESTIONS_MAX);
    let (keeper, keeper_handle) = Keeper::new(config, clock, Arc::clone(&tell))?;
    let making = Making {
        config,
        clock,
        questions: &questions,
        keeper: &keeper,
        keeper_handle: &keeper_handle,
        standing: Arc::default(),
    };
    let Started { reporting, doors, threads } = start_engine(&making)?;
    let (acceptor, acceptor_thread) = start_acceptor(config, &doors)?;
    let kept = doors.clone();
    spawn("weir-keeper".into(), move || keeper.run(&kept))?;
    let keeper = keeper_handle.clone();
    start_reporting(&Reporter { config: config.clone(), clock, loops: reporting, keeper }, asked)?;
    tell(Notice::Ready(config));

    while signals.forever().next() == Some(SIGHUP) {
        keeper_handle.reload();
    }
    // A second signal ends the process at once.
    thread::spawn(move || signals.forever().find(|&signal| signal != SIGHUP).map(|_| std::process::exit(1)));

    let system = |what| move |source| RunError::System { what, source };
    acceptor.stop().map_err(system("stop accepting"))?;
    join(acceptor_thread)?;
    for handle in &doors {
        handle.send(Message::Drain).map_err(system("drain an event loop"))?;
    }
    threads.into_iter().try_for_each(join)
}

pub(crate) type LoopThread = JoinHandle<io::Result<()>>;

/// The threads of an engine.
pub(crate) struct Started {
    /// Those that have something to report.
    pub(crate) reporting: Vec<LoopHandle>,
    /// Those that take clients and tables, and are told to drain.
    pub(crate) doors: Vec<LoopHandle>,
    /// All, in the order in which they are waited for.
    pub(crate) threads: Vec<LoopThread>,
}

/// What an engine is made of.
pub(crate) struct Making<'a> {
    pub(crate) config: &'a Config,
    pub(crate) clock: Clock,
    pub(crate) questions: &'a SyncSender<Question>,
    pub(crate) keeper: &'a Keeper,
    pub(crate) keeper_handle: &'a KeeperHandle,
    /// What all dataplanes know together.
    pub(crate) standing: Arc<Standing>,
}

impl Making<'_> {
    /// The event loop with this number.
    pub(crate) fn event_loop(&self, index: usize) -> io::Result<(EventLoop, LoopHandle)> {
        EventLoop::new(LoopConfig {
            index,
            questions: self.questions.clone(),
            dataplane: self.config.dataplane(index),
            table: Arc::clone(&self.config.table),
            standing: Arc::clone(&self.standing),
            whereabouts: Whereabouts { book: self.keeper.book(), keeper: self.keeper_handle.clone() },
            clock: self.clock,
            drain_timeout: self.config.drain_timeout,
        })
    }
}

pub(crate) fn start_engine(making: &Making<'_>) -> Result<Started, RunError> {
    match making.config.engine {
        Engine::Event => start_loops(making),
        Engine::Pool { workers, queue_len_max } => pool::start(making, workers, queue_len_max),
    }
}

fn start_loops(making: &Making<'_>) -> Result<Started, RunError> {
    let (mut handles, mut threads) = (Vec::new(), Vec::new());
    for index in 0..making.config.threads {
        let made = making.event_loop(index);
        let (event_loop, handle) =
            made.map_err(|source| RunError::System { what: "make an event loop", source })?;
        threads.push(spawn(format!("weir-loop-{index}"), move || event_loop.run())?);
        handles.push(handle);
    }
    Ok(Started { reporting: handles.clone(), doors: handles, threads })
}

fn start_acceptor(config: &Config, loops: &[LoopHandle]) -> Result<(AcceptorHandle, LoopThread), RunError> {
    let bound = Acceptor::bind(&config.listen, loops.to_vec());
    let (acceptor, handle) = bound.map_err(|source| RunError::Listen {
        role: "clients",
        address: config.listen.to_string(),
        source,
    })?;
    Ok((handle, spawn("weir-accept".into(), move || acceptor.run())?))
}

/// What answers questions about the proxy lives as long as the process; it is not waited for.
fn start_reporting(reporter: &Reporter, questions: Receiver<Question>) -> Result<(), RunError> {
    let asked = reporter.clone();
    spawn("weir-stats".into(), move || inband::serve(&questions, &asked))?;
    let Some(address) = reporter.config.admin else { return Ok(()) };
    let listener = std::net::TcpListener::bind(address).map_err(|source| RunError::Listen {
        role: "admin",
        address: address.to_string(),
        source,
    })?;
    let asked = reporter.clone();
    spawn("weir-admin".into(), move || admin::serve(listener, asked))?;
    Ok(())
}

pub(crate) fn spawn(
    name: String,
    work: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<LoopThread, RunError> {
    thread::Builder::new()
        .name(name)
        .spawn(work)
        .map_err(|source| RunError::System { what: "start a thread", source })
}

fn join(thread: LoopThread) -> Result<(), RunError> {
    match thread.join() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(RunError::Loop(error.to_string())),
        Err(_) => Err(RunError::Loop("it panicked; please report this".into())),
    }
}
