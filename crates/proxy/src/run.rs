//! A proxy from its first to its last moment.

use crate::{
    Config, Engine,
    acceptor::{Acceptor, AcceptorHandle},
    admin,
    clock::Clock,
    event_loop::{EventLoop, LoopConfig, LoopHandle, Message},
    inband::{self, Question},
    pool,
    reporter::Reporter,
};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::{self, JoinHandle},
};

/// Why a proxy could not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A port could not be opened.
    #[error("cannot listen on {address} ({role}): {source}; is another process using it?")]
    Listen {
        /// What the port is for.
        role: &'static str,
        /// The port.
        address: SocketAddr,
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
    /// A thread ended that should not have.
    #[error("an event loop has ended: {0}")]
    Loop(String),
}

/// Serves until SIGTERM or SIGINT, then answers what was taken and returns. `ready` is called once, when clients can connect.
pub fn run(config: &Config, ready: impl FnOnce(&Config)) -> Result<(), RunError> {
    let clock = Clock::start();
    let mut signals = Signals::new([SIGTERM, SIGINT])
        .map_err(|source| RunError::System { what: "handle signals", source })?;
    let (questions, asked) = sync_channel(inband::QUESTIONS_MAX);
    let Started { reporting, doors, threads } = match config.engine {
        Engine::Event => start_loops(config, clock, &questions)?,
        Engine::Pool { workers, queue_len_max } => {
            pool::start(config, workers, queue_len_max, clock, &questions)?
        }
    };
    let (acceptor, acceptor_thread) = start_acceptor(config, &doors)?;
    start_reporting(&Reporter { config: config.clone(), clock, loops: reporting }, asked)?;
    ready(config);

    signals.forever().next();
    // A second signal ends the process at once.
    thread::spawn(move || signals.forever().next().map(|_| std::process::exit(1)));

    let system = |what| move |source| RunError::System { what, source };
    acceptor.stop().map_err(system("stop accepting"))?;
    join(acceptor_thread)?;
    for handle in &doors {
        handle.send(Message::Drain).map_err(system("drain an event loop"))?;
    }
    threads.into_iter().try_for_each(join)
}

type LoopThread = JoinHandle<io::Result<()>>;

/// The threads of an engine.
pub(crate) struct Started {
    /// Those that have something to report.
    pub(crate) reporting: Vec<LoopHandle>,
    /// Those that take clients, and are told to drain.
    pub(crate) doors: Vec<LoopHandle>,
    /// All, in the order in which they are waited for.
    pub(crate) threads: Vec<LoopThread>,
}

fn start_loops(config: &Config, clock: Clock, questions: &SyncSender<Question>) -> Result<Started, RunError> {
    let router = Arc::new(config.router.clone());
    let (mut handles, mut threads) = (Vec::new(), Vec::new());
    for index in 0..config.threads {
        let (event_loop, handle) = EventLoop::new(LoopConfig {
            index,
            questions: questions.clone(),
            dataplane: config.dataplane(index),
            router: Arc::clone(&router),
            server_addresses: config.server_addresses.clone(),
            clock,
            drain_timeout: config.drain_timeout,
        })
        .map_err(|source| RunError::System { what: "make an event loop", source })?;
        threads.push(spawn(format!("weir-loop-{index}"), move || event_loop.run())?);
        handles.push(handle);
    }
    Ok(Started { reporting: handles.clone(), doors: handles, threads })
}

fn start_acceptor(config: &Config, loops: &[LoopHandle]) -> Result<(AcceptorHandle, LoopThread), RunError> {
    let address = config.listen;
    let (acceptor, handle) = Acceptor::bind(address, loops.to_vec()).map_err(|source| RunError::Listen {
        role: "clients",
        address,
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
        address,
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
