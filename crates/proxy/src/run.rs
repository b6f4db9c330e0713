//! A proxy from its first to its last moment.

use crate::{
    Config, Engine,
    acceptor::{Acceptor, AcceptorConfig, AcceptorHandle},
    admin,
    clock::Clock,
    config::Listen,
    descriptors::Descriptors,
    event_loop::{EventLoop, LoopConfig, LoopHandle, Message},
    files::Files,
    heap,
    inband::{self, Question},
    keeper::{Keeper, KeeperHandle},
    listener,
    mail::MailRoom,
    names::AddressBook,
    notice::Notice,
    notices::{Notices, Showing},
    pool,
    reporter::Reporter,
    reserve::Reserve,
    server_link::Whereabouts,
    split,
    stopping::{Stop, Stopping},
    threaded::{
        Shared,
        network::{Network, NetworkConfig},
    },
    threads::{LoopThread, Watch, join},
    traces::Tracing,
    windows::{self, Collector, Hub, Ring},
};
use mio::Poll;
use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc, PoisonError, RwLock,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::Duration,
};
use weir_dataplane::{Budget, Freshness};

/// Why a proxy could not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A port could not be opened.
    #[error("cannot listen on {address} ({role}): {source}; {}", listener::advice(source, address))]
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
    /// A file of records could not be opened.
    #[error("cannot append records to {path}: {source}")]
    Record {
        /// The file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// No client could be served.
    #[error(
        "the process may have {limit} descriptors, and servers, threads and files need {needed} with one client: raise the limit \
         (LimitNOFILE of systemd, ulimit -n), or use fewer threads"
    )]
    Descriptors {
        /// How many it may have.
        limit: usize,
        /// How many it needs.
        needed: usize,
    },
    /// A thread ended that should not have.
    #[error("thread {name} has ended: {why}")]
    Thread {
        /// Which.
        name: String,
        /// Why.
        why: String,
    },
}

/// Serves until SIGTERM or SIGINT, then answers what was taken and returns. On SIGHUP the configuration is read again. `tell` shows
/// what an operator should see, on a thread of its own: each notice, and how many of its kind were left out before it.
pub fn run(config: &Config, tell: impl Fn(&Notice, u64) + Send + 'static) -> Result<(), RunError> {
    heap::give_large_buffers_back();
    let (clock, watch) = (Clock::start(), Watch::default());
    let showing = Notices::start(clock, &watch, tell)?;
    let served = serve(config, clock, &watch, &showing);
    showing.end();
    served
}

fn serve(config: &Config, clock: Clock, watch: &Watch, showing: &Showing) -> Result<(), RunError> {
    let (tell, notices) = (showing.tell(), showing.notices());
    // First of all: what is held has the lowest numbers.
    let spare = Reserve::new(SPARE_DESCRIPTORS);
    let admin_spare = Reserve::new(if config.admin.is_some() { ADMIN_SPARE_DESCRIPTORS } else { 0 });
    let descriptors = Descriptors::start(config, Arc::clone(&tell))?;
    let stopping = Stopping::begin(watch)?;
    let (questions, asked) = sync_channel(inband::QUESTIONS_MAX);
    let (keeper, keeper_handle) = Keeper::new(config, clock, Arc::clone(&descriptors), Arc::clone(&tell));
    let mut files = Files::open(config, clock, &tell, watch)?;
    let tracing = files.tracing();
    let (hub, parts, shared) = Hub::new(config.serving_threads());
    let making = Making {
        config: config.clone(),
        clock,
        budget: Budget::new(config.buffer_bytes_max),
        questions,
        book: keeper.book(),
        keeper: keeper_handle.clone(),
        freshness: Arc::default(),
        descriptors: Arc::clone(&descriptors),
        windows: hub,
        tracing,
        watch: watch.clone(),
        notices: Arc::clone(&notices),
    };
    let Started { reporting, doors, threads, queues } = start_engine(&making)?;
    // What collects, and what writes rows, ends when nobody is left who could hand over anything.
    drop(making);
    let windows = Arc::new(Ring::default());
    let collector = Collector::new(parts, shared, queues, Arc::clone(&windows), clock, files.windows_taker());
    let collector = watch.spawn("weir-windows".into(), move || collector.run())?;
    let (windows_file, trace_file) = files.counts();
    let (acceptor, handle) = bind_clients(AcceptorConfig {
        listen: &config.listen,
        tcp: config.tcp,
        loops: doors.clone(),
        descriptors: Arc::clone(&descriptors),
        spare,
        clock,
        tell: Arc::clone(&tell),
    })?;
    let admin = config.admin.map(bind_admin).transpose()?;
    // Where clients and operators come in, with the ports that the kernel chose if it was to.
    let mut bound = config.clone();
    if let Ok(Some(address)) = acceptor.address() {
        bound.listen = Listen::Tcp(address);
    }
    bound.admin = admin.as_ref().and_then(|admin| admin.local_addr().ok());
    let (acceptor, acceptor_thread) = (handle, watch.spawn("weir-accept".into(), move || acceptor.run())?);
    let kept = doors.clone();
    watch.spawn("weir-keeper".into(), move || keeper.run(&kept))?;
    let reporter = Reporter {
        config: bound.clone(),
        clock,
        crew: reporting,
        keeper: keeper_handle.clone(),
        windows,
        windows_file,
        trace_file,
        notices,
        stopping: stopping.flag(),
        admin: Arc::default(),
        descriptors,
    };
    start_reporting(&reporter, asked, admin, admin_spare, watch)?;
    tell(Notice::Ready(Box::new(bound)));

    let Stop { signal, delay } = stopping.wait(config.drain_delay, || keeper_handle.reload());
    if let Some(failure) = watch.failure() {
        return Err(failure);
    }
    tell(Notice::Stopping { signal, delay });
    stopping.pass(delay, || keeper_handle.reload());
    watch.stop();
    if let Some(failure) = watch.failure() {
        return Err(failure);
    }
    stopping.end_at_the_next();

    let system = |what| move |source| RunError::System { what, source };
    tell(Notice::Draining { timeout: config.drain_timeout });
    let began = clock.now();
    acceptor.stop().map_err(system("stop accepting"))?;
    join(acceptor_thread)?;
    for handle in &doors {
        handle.send(Message::Drain).map_err(system("drain an event loop"))?;
    }
    threads.into_iter().try_for_each(join)?;
    let drained = Duration::from_nanos(clock.now().saturating_since(began));
    join(collector)?;
    files.finish()?;
    tell(Notice::Stopped { drained });
    Ok(())
}

/// The threads of an engine.
pub(crate) struct Started {
    /// Those that have something to report.
    pub(crate) reporting: Crew,
    /// Those that take clients and tables, and are told to drain.
    pub(crate) doors: Vec<LoopHandle>,
    /// All, in the order in which they are waited for.
    pub(crate) threads: Vec<LoopThread>,
    /// Queues that are not a thread's own.
    pub(crate) queues: Vec<Arc<dyn windows::Queue>>,
}

/// The threads that have something to report; there may come more, and each keeps its number.
#[derive(Clone, Default)]
pub(crate) struct Crew(Arc<RwLock<Vec<LoopHandle>>>);

impl Crew {
    pub(crate) fn new(members: impl IntoIterator<Item = LoopHandle>) -> Self {
        Self(Arc::new(RwLock::new(members.into_iter().collect())))
    }

    pub(crate) fn add(&self, member: LoopHandle) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(member);
    }

    pub(crate) fn members(&self) -> Vec<LoopHandle> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// What an engine is made of.
#[derive(Clone)]
pub(crate) struct Making {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    /// The memory that all loops share.
    pub(crate) budget: Arc<Budget>,
    pub(crate) questions: SyncSender<Question>,
    /// Where the servers are.
    pub(crate) book: Arc<AddressBook>,
    pub(crate) keeper: KeeperHandle,
    /// What all dataplanes know together.
    pub(crate) freshness: Arc<Freshness>,
    pub(crate) descriptors: Arc<Descriptors>,
    pub(crate) windows: Hub,
    /// Where rows of sampled requests go, if anywhere.
    pub(crate) tracing: Option<Tracing>,
    /// Who notices that a thread has ended.
    pub(crate) watch: Watch,
    /// Where threads say what happened.
    pub(crate) notices: Arc<Notices>,
}

impl Making {
    /// The event loop with this number.
    pub(crate) fn event_loop(
        &self,
        index: usize,
        name: String,
        door: usize,
    ) -> io::Result<(EventLoop, LoopHandle)> {
        EventLoop::new(LoopConfig {
            index,
            name,
            door,
            windows: &self.windows,
            tracing: self.tracing.as_ref(),
            notices: Arc::clone(&self.notices),
            questions: self.questions.clone(),
            dataplane: self.config.dataplane(index),
            budget: Arc::clone(&self.budget),
            table: Arc::clone(&self.config.table),
            freshness: Arc::clone(&self.freshness),
            whereabouts: Whereabouts {
                book: Arc::clone(&self.book),
                keeper: self.keeper.clone(),
                descriptors: Arc::clone(&self.descriptors),
                tcp: self.config.tcp,
            },
            clock: self.clock,
            batching: self.config.batching,
            drain_timeout: self.config.drain_timeout,
        })
    }

    /// Starts the network thread of the workers that share `shared`; `number` as in [`NetworkConfig`].
    pub(crate) fn start_network(
        &self,
        (poll, mailbox): (Poll, Receiver<Message>),
        dataplane: weir_dataplane::Config,
        shared: Arc<Shared>,
        number: usize,
    ) -> Result<LoopThread, RunError> {
        let network = Network::new(NetworkConfig {
            poll,
            mailbox,
            dataplane,
            table: Arc::clone(&self.config.table),
            budget: Arc::clone(&self.budget),
            sessions_max: self.config.sessions_max,
            drain_timeout: self.config.drain_timeout,
            clock: self.clock,
            shared,
            windows: &self.windows,
            tracing: self.tracing.as_ref(),
            number,
        });
        self.watch.spawn("weir-network".into(), move || network.run())
    }
}

pub(crate) fn start_engine(making: &Making) -> Result<Started, RunError> {
    match making.config.engine {
        Engine::Event => start_loops(making),
        Engine::Pool { workers, queue_len_max } => pool::start(making, workers, queue_len_max),
        Engine::Split { readers, queue_len_max } => split::start(making, readers, queue_len_max),
    }
}

fn start_loops(making: &Making) -> Result<Started, RunError> {
    let made: io::Result<Vec<_>> = (0..making.config.threads)
        .map(|index| making.event_loop(index, format!("loop-{index}"), index))
        .collect();
    let made = made.map_err(|source| RunError::System { what: "make an event loop", source })?;
    let (loops, handles): (Vec<_>, Vec<_>) = made.into_iter().unzip();
    let mut threads = Vec::new();
    for (index, (event_loop, mail)) in loops.into_iter().zip(MailRoom::connect(&handles)).enumerate() {
        let event_loop = if handles.len() > 1 { event_loop.with_mail(mail) } else { event_loop };
        threads.push(making.watch.spawn(format!("weir-loop-{index}"), move || event_loop.run())?);
    }
    Ok(Started { reporting: Crew::new(handles.clone()), doors: handles, threads, queues: Vec::new() })
}

/// Descriptors that are held for clients that are refused: one is used at a time.
const SPARE_DESCRIPTORS: usize = 2;

/// Descriptors that are held for questions to the admin port: a probe and a scrape at once, and those before that are being closed.
const ADMIN_SPARE_DESCRIPTORS: usize = 4;

fn bind_clients(config: AcceptorConfig<'_>) -> Result<(Acceptor, AcceptorHandle), RunError> {
    let address = config.listen.to_string();
    Acceptor::bind(config).map_err(|source| RunError::Listen { role: "clients", address, source })
}

fn bind_admin(address: SocketAddr) -> Result<TcpListener, RunError> {
    TcpListener::bind(address).map_err(|source| RunError::Listen {
        role: "admin",
        address: address.to_string(),
        source,
    })
}

/// What answers questions about the proxy lives as long as the process; it is not waited for.
fn start_reporting(
    reporter: &Reporter,
    questions: Receiver<Question>,
    admin: Option<TcpListener>,
    admin_spare: Reserve,
    watch: &Watch,
) -> Result<(), RunError> {
    let asked = reporter.clone();
    watch.spawn("weir-stats".into(), move || inband::serve(&questions, &asked))?;
    let Some(listener) = admin else { return Ok(()) };
    let asked = reporter.clone();
    watch.spawn("weir-admin".into(), move || admin::serve(listener, asked, admin_spare))?;
    Ok(())
}
