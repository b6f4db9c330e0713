//! A proxy from its first to its last moment.

mod service;

use crate::{
    Config,
    admin::{http::AdminPort, reporter::Reporter, stats},
    connections::{
        descriptors::{Descriptors, reserve::Reserve},
        inherited::Ports,
    },
    engine::{
        self,
        acceptor::Acceptor,
        event::server_links::AddressBookHandle,
        making::{Making, ReportingGroups},
    },
    mailbox::{Message, QUESTIONS_MAX, Question},
    notices::{
        notice::{Notice, Tell},
        showing::{Notices, Showing},
    },
    process::{
        clock::Clock,
        error::RunError,
        heap,
        service_manager::ServiceManager,
        stopping::{Stop, Stopping},
        threads::{Watch, join},
    },
    records::{
        files::Files,
        windows::{
            Hub,
            collector::{Collector, Ring},
        },
    },
    reload::thread::ReloadThread,
};
use service::Service;
use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::{
        Arc,
        mpsc::{Receiver, sync_channel},
    },
    time::Duration,
};

/// Serves until SIGTERM or SIGINT, then answers what was taken and returns. On SIGHUP the configuration is read again. `tell` shows
/// what an operator should see, on a thread of its own: each notice, and how many of its kind were left out before it.
///
/// What a service manager hands over is taken from the environment (`LISTEN_FDS`), so no other thread may run yet that reads or changes it.
pub fn run(config: &Config, tell: impl Fn(&Notice, u64) + Send + 'static) -> Result<(), RunError> {
    // Before there is a thread: variables are removed.
    let ports = Ports::inherited(&config.listeners, config.admin)?;
    heap::give_large_buffers_back();
    let (clock, watch) = (Clock::start(), Watch::default());
    let showing = Notices::start(clock, &watch, tell)?;
    let served = serve(config, ports, clock, &watch, &showing);
    showing.end();
    served
}

fn serve(
    config: &Config,
    ports: Ports,
    clock: Clock,
    watch: &Watch,
    showing: &Showing,
) -> Result<(), RunError> {
    let (tell, notices) = (showing.tell(), showing.notices());
    // First of all: what is held has the lowest numbers.
    let spare = Reserve::new(SPARE_DESCRIPTORS);
    let admin_spare = Reserve::new(if config.admin.is_some() { ADMIN_SPARE_DESCRIPTORS } else { 0 });
    let descriptors = Descriptors::start(config, Arc::clone(&tell))?;
    let service_manager = service_manager(&tell);
    let stopping = Stopping::begin(watch)?;
    let (questions, asked) = sync_channel(QUESTIONS_MAX);
    let reload = ReloadThread::new(
        config,
        clock,
        Arc::clone(&descriptors),
        Arc::clone(&tell),
        service_manager.clone(),
    );
    let (reload_handle, resolver) = (reload.reload_handle(), reload.resolver_handle());
    let mut files = Files::open(config, clock, &tell, watch)?;
    let tracing = files.take_tracing();
    let (hub, parts, shared) = Hub::new(config.serving_threads());
    let addresses =
        AddressBookHandle::new(reload.book(), resolver.clone(), Arc::clone(&descriptors), config.tcp())
            .with_outbounds(Arc::clone(config.outbounds()));
    let making = Making::new(config, clock, watch, addresses, Arc::clone(&notices), questions, hub)
        .with_tracing(tracing);
    let groups = engine::start_all(&making)?;
    // What collects, and what writes rows, ends when nobody is left who could hand over anything.
    drop(making);
    let (mut reporting, mut doors, mut threads, mut queues) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for started in groups {
        reporting.push(started.reporting);
        doors.push(started.doors);
        threads.extend(started.threads);
        queues.extend(started.queues);
    }
    let windows = Arc::new(Ring::default());
    let collector =
        Collector::new(parts, shared, queues, Arc::clone(&windows), clock, files.take_windows_taker());
    let collector = watch.spawn("weir-windows".into(), move || collector.run())?;
    let file_counts = files.counts();
    let inherited = ports.addresses();
    let (clients_ports, admin_port) = ports.into_both();
    let admin = config.admin.map(|address| bind_admin(address, admin_port)).transpose()?;
    // Last of all that needs descriptors: whoever can connect finds a proxy that lacks none of its own.
    let (acceptor, handle) = Acceptor::bind(
        config,
        clients_ports,
        doors.clone(),
        Arc::clone(&descriptors),
        spare,
        clock,
        Arc::clone(&tell),
    )
    .map_err(|(place, source)| cannot_listen("clients", &place, source))?;
    // Where clients and operators come in, with the ports that the kernel chose if it was to.
    let mut bound = config.clone();
    for (place, at) in bound.listeners.iter_mut().zip(acceptor.places()) {
        place.at = at;
    }
    bound.admin = admin.as_ref().and_then(AdminPort::address);
    bound.settings.listen = bound.listeners[0].at.to_string();
    bound.settings.admin = bound.admin.map(|address| address.to_string());
    let listeners = acceptor.counts();
    let (acceptor, acceptor_thread) = (handle, watch.spawn("weir-accept".into(), move || acceptor.run())?);
    let kept = doors.clone();
    watch.spawn("weir-reloader".into(), move || reload.run(&kept))?;
    let reporter = Reporter {
        config: bound.clone(),
        clock,
        reporting: ReportingGroups::new(reporting),
        reload: reload_handle.clone(),
        resolver,
        windows,
        files: file_counts,
        notices,
        stopping: stopping.flag(),
        admin: Arc::default(),
        descriptors,
        listeners,
    };
    start_reporting(&reporter, asked, admin, admin_spare, watch)?;
    if !inherited.is_empty() {
        tell(Notice::Inherited(inherited));
    }
    tell(Notice::Ready(Box::new(bound)));
    let _serving = Service::new(service_manager.clone(), reporter, Arc::clone(&tell)).start(watch)?;

    let Stop { signal, delay } = stopping.wait(config.settings.drain_delay, || reload_handle.reload());
    if let Some(failure) = watch.failure() {
        return Err(failure);
    }
    tell(Notice::Stopping { signal, delay });
    service_manager.stopping(&match delay {
        Duration::ZERO => format!("{signal}: stopping"),
        delay => format!("{signal}: not ready any more, and still serving for {delay:?}"),
    });
    stopping.pass(delay, || reload_handle.reload());
    watch.stop();
    if let Some(failure) = watch.failure() {
        return Err(failure);
    }
    stopping.end_at_the_next()?;

    let system = |what| move |source| RunError::System { what, source };
    let timeout = config.settings.drain_timeout;
    tell(Notice::Draining { timeout });
    service_manager.status(&format!("draining: what was taken is answered, within {timeout:?}"));
    let began = clock.now();
    acceptor.stop().map_err(system("stop accepting"))?;
    join(acceptor_thread)?;
    for handle in doors.iter().flatten() {
        handle.send(Message::Drain).map_err(system("drain an event loop"))?;
    }
    threads.into_iter().try_for_each(join)?;
    let drained = Duration::from_nanos(clock.now().saturating_since(began));
    join(collector)?;
    files.finish()?;
    tell(Notice::Stopped { drained });
    Ok(())
}

/// Descriptors that are held for clients that are refused: one is used at a time.
const SPARE_DESCRIPTORS: usize = 2;

/// Descriptors that are held for questions to the admin port: a probe and a scrape at once, and those before that are being closed.
const ADMIN_SPARE_DESCRIPTORS: usize = 4;

/// Whoever looks after the process, if anybody does. That it cannot be reached is a line in the log.
fn service_manager(tell: &Tell) -> ServiceManager {
    let tell = Arc::clone(tell);
    ServiceManager::from_env(move |reason| tell(Notice::ServiceManagerAway(reason)))
}

fn bind_admin(address: SocketAddr, port: Option<TcpListener>) -> Result<AdminPort, RunError> {
    AdminPort::bind(address, port).map_err(|source| cannot_listen("admin", &address, source))
}

fn cannot_listen(role: &'static str, address: &impl ToString, source: io::Error) -> RunError {
    RunError::Listen { role, address: address.to_string(), source }
}

/// What answers questions about the proxy lives as long as the process; it is not waited for.
fn start_reporting(
    reporter: &Reporter,
    questions: Receiver<Question>,
    admin: Option<AdminPort>,
    admin_spare: Reserve,
    watch: &Watch,
) -> Result<(), RunError> {
    let asked = reporter.clone();
    watch.spawn("weir-stats".into(), move || stats::serve(&questions, &asked))?;
    let Some(admin) = admin else { return Ok(()) };
    let asked = reporter.clone();
    watch.spawn("weir-admin".into(), move || admin.serve(asked, admin_spare))?;
    Ok(())
}
