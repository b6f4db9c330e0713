//! A run from beginning to end: connect, prefill, warm up, measure, drain, report.

use std::io;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use weir_timing::Instant;

use crate::config::Config;
use crate::connection::Connection;
use crate::content::Content;
use crate::driver::clock::Clock;
use crate::driver::cpu::CpuTime;
use crate::driver::link::Link;
use crate::driver::socket::Terms;
use crate::driver::target::Target;
use crate::driver::worker::{Conduct, TICK_NS_MAX, Worker};
use crate::recorder::Recorder;
use crate::recorder::hdr::HdrLog;
use crate::recorder::phase::{NEVER, Phase, Timeline};
use crate::report::progress::Progress;
use crate::report::{Measurements, Report};
use crate::workload::Workload;
use crate::workload::replay::{Trace, TraceError};

/// Makes a run and reports it. When `stop` becomes true, the run ends soon and cleanly, and what was measured so far is
/// reported. `log` gets the response times of every second.
pub fn run(
    config: &Config,
    stop: &AtomicBool,
    progress: &mut Progress,
    log: Option<&mut HdrLog>,
) -> Result<Report, LoadError> {
    let clock = Clock::start();
    let run = Run { config, stop, clock };
    let mut workers = run.connect()?;

    let prefill_began = clock.now();
    let mut interrupted = None;
    if config.prefill {
        (workers, interrupted) = run.prefill(workers, progress)?;
    }
    let mut warmup = clock.now().plus(THREADS_BEGIN.as_nanos() as u64);
    if let (Some(start_at), None) = (config.start_at, interrupted) {
        (warmup, interrupted) = run.wait_for_start(start_at, progress)?;
    }
    let measured = warmup.plus(config.warmup.as_nanos() as u64);
    let planned = Timeline { warmup, measured, end: measured.plus(config.duration.as_nanos() as u64) };

    let (workers, timeline, cpu) = match interrupted {
        Some(end) => (workers, Timeline { warmup: end, measured: end, end }, CpuTime::default()),
        None => run.load(workers, planned, &mut Onlookers { progress, log })?,
    };
    let finished = clock.now();
    if let Some(fault) = workers.iter().find_map(Worker::trace_fault) {
        return Err(fault.into());
    }
    // Each goes through what it did not send: with many of them that takes time.
    let close = |worker: &mut Worker| {
        worker.close(timeline.end);
        Ok(())
    };
    let workers = in_threads(workers, close, |_| ())?;
    let mut recorder = Recorder::new(false);
    for worker in workers {
        recorder.merge(worker.into_recorder());
    }
    Ok(Report::new(config, &Measurements { recorder, clock, prefill_began, timeline, finished, cpu }))
}

/// Why a run did not come about.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A target's name has no address.
    #[error("target {target}: cannot find its address: {source}; check the name, or give its address")]
    Resolve {
        /// The target as given.
        target: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// A target does not accept connections.
    #[error("target {target}: cannot open connection {number} of {connections}: {source}{}", advice(source))]
    Connect {
        /// The target as given.
        target: String,
        /// Which connection failed, counted from 1.
        number: usize,
        /// How many connections the run has.
        connections: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// What TLS needs is not there.
    #[error("{0}")]
    Tls(String),
    /// The time at which the load was to begin has passed.
    #[error(
        "--start-at: that moment was {late:?} ago when the connections were open and the keys set; choose a later one"
    )]
    StartPassed {
        /// How long ago it was.
        late: Duration,
    },
    /// A trace cannot be replayed.
    #[error("{0}")]
    Trace(#[from] TraceError),
    /// The kernel refused something else.
    #[error("cannot wait for events: {0}")]
    Poll(#[from] io::Error),
}

/// What to do about a connection that cannot be opened.
fn advice(error: &io::Error) -> &'static str {
    if error.raw_os_error() == Some(libc::EMFILE) {
        return "; raise the limit of open files (ulimit -n)";
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "; is it running, and is that its port?",
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            "; does a firewall stand between, or is it too busy to accept?"
        }
        _ => "",
    }
}

/// Who hears of a run that is under way.
struct Onlookers<'a> {
    progress: &'a mut Progress,
    log: Option<&'a mut HdrLog>,
}

impl Onlookers<'_> {
    /// Writes down the seconds that are over.
    fn keep(&mut self, conduct: &Conduct) {
        if let Some(log) = &mut self.log {
            log.write(&conduct.take_intervals());
        }
    }
}

struct Run<'a> {
    config: &'a Config,
    stop: &'a AtomicBool,
    clock: Clock,
}

impl Run<'_> {
    /// Opens all connections and deals them out to the workers.
    fn connect(&self) -> Result<Vec<Worker>, LoadError> {
        let config = self.config;
        let targets = config
            .targets
            .iter()
            .map(|target| {
                let terms = config.tls().map(|tls| Terms::read(tls, target)).transpose();
                let terms = terms.map_err(LoadError::Tls)?;
                Target::resolve(target)
                    .map(|resolved| resolved.speaking(terms))
                    .map_err(|source| LoadError::Resolve { target: target.clone(), source })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let origin = self.clock.unix_ns(Instant::ZERO) ^ u64::from(std::process::id()).rotate_left(40);
        let Content { read_through, requests, .. } = config.content;
        let open = |path: &PathBuf| Trace::open(path, read_through, requests);
        let trace = config.replay.as_ref().map(open).transpose()?;
        let run = xxhash_rust::xxh3::xxh3_64(&origin.to_le_bytes());
        let workload = Arc::new(Workload::new(config, run, trace));
        let mut shares: Vec<Vec<(u32, Link)>> = (0..config.threads).map(|_| Vec::new()).collect();
        for number in 0..config.connections {
            let target = &targets[number % targets.len()];
            let (stream, address) = target.open(config.timeout).map_err(|source| LoadError::Connect {
                target: target.name().to_string(),
                number: number + 1,
                connections: config.connections,
                source,
            })?;
            let connection = Connection::new(number as u32, target.name().clone(), workload.clone());
            // Blocks of neighbours, so that every thread has connections to all targets.
            shares[number * config.threads / config.connections].push((
                number as u32,
                Link::new(connection, stream, address, target.terms().cloned(), config),
            ));
        }
        let workers = shares
            .into_iter()
            .enumerate()
            .map(|(number, links)| Worker::new(number, self.clock, links, config));
        Ok(workers.collect::<io::Result<_>>()?)
    }

    /// Sets all keys. Returns the moment of the end if that was cut short.
    fn prefill(
        &self,
        workers: Vec<Worker>,
        progress: &mut Progress,
    ) -> Result<(Vec<Worker>, Option<Instant>), LoadError> {
        progress.begin(Phase::Prefill, &format!("{} keys", self.config.keys));
        let conduct = Conduct::new(NEVER);
        let serve = |worker: &mut Worker| worker.prefill(self.config, &conduct);
        let workers = in_threads(workers, serve, |ended| {
            while !ended.wait(PROGRESS_PAUSE) {
                self.heed_stop(&conduct);
                progress.show(Phase::Prefill, None, self.clock.now(), &conduct);
            }
        })?;
        let interrupted = self.stop.load(Ordering::Relaxed).then(|| conduct.end().min(self.clock.now()));
        Ok((workers, interrupted))
    }

    /// Waits for the moment `start_at`, since 1970. Returns it, and the moment of the end if that came before.
    fn wait_for_start(
        &self,
        start_at: Duration,
        progress: &mut Progress,
    ) -> Result<(Instant, Option<Instant>), LoadError> {
        let now = self.clock.now();
        let start_unix_ns = start_at.as_nanos() as u64;
        let Some(left_ns) = start_unix_ns.checked_sub(self.clock.unix_ns(now)) else {
            let late = Duration::from_nanos(self.clock.unix_ns(now) - start_unix_ns);
            return Err(LoadError::StartPassed { late });
        };
        let start = now.plus(left_ns);
        progress.wait(Duration::from_nanos(left_ns));
        // A channel on which nothing comes: it only passes the time.
        let (_sender, nothing) = mpsc::channel::<()>();
        loop {
            let now = self.clock.now();
            if self.stop.load(Ordering::Relaxed) {
                return Ok((now, Some(now)));
            }
            let left = Duration::from_nanos(start.saturating_since(now)).saturating_sub(THREADS_BEGIN);
            if left.is_zero() {
                return Ok((start, None));
            }
            let _ = nothing.recv_timeout(PROGRESS_PAUSE.min(left));
        }
    }

    /// Keeps the load up over warm-up and measured phase and drains it. Returns the timeline as it came about, and the CPU
    /// time of the measured phase.
    fn load(
        &self,
        workers: Vec<Worker>,
        mut timeline: Timeline,
        onlookers: &mut Onlookers<'_>,
    ) -> Result<(Vec<Worker>, Timeline, CpuTime), LoadError> {
        let mut conduct = Conduct::new(timeline.end);
        if let Some(log) = &mut onlookers.log {
            conduct.gather(workers.len());
            log.begin(self.clock.unix_ns(timeline.measured));
        }
        let planned = timeline;
        let serve = |worker: &mut Worker| worker.load(self.config, planned, &conduct);
        let mut cpu = CpuTime::default();
        let workers = in_threads(workers, serve, |ended| {
            let measured = || planned.measured.min(conduct.end());
            self.wait_until(measured, Phase::Warmup, ended, &conduct, onlookers);
            let cpu_began = CpuTime::now();
            self.wait_until(|| conduct.end(), Phase::Measured, ended, &conduct, onlookers);
            cpu = CpuTime::now().since(cpu_began);
            let limit = format!("at most {:.1} s", self.config.timeout.as_secs_f64());
            onlookers.progress.begin(Phase::Drain, &limit);
            self.wait_until(|| NEVER, Phase::Drain, ended, &conduct, onlookers);
            // Where every connection was given up, the threads end before their time.
            timeline.end = conduct.end().min(ended.at(self.clock));
        })?;
        onlookers.keep(&conduct);
        Ok((workers, timeline, cpu))
    }

    /// Waits until the moment that `edge` tells, or until the threads have ended.
    fn wait_until(
        &self,
        edge: impl Fn() -> Instant,
        phase: Phase,
        ended: &mut Ended,
        conduct: &Conduct,
        onlookers: &mut Onlookers<'_>,
    ) {
        let now = self.clock.now();
        if now < edge() && phase != Phase::Drain {
            let length = Duration::from_nanos(edge().saturating_since(now));
            onlookers.progress.begin(phase, &format!("{:.1} s", length.as_secs_f64()));
        }
        loop {
            let now = self.clock.now();
            let left = edge().saturating_since(now);
            if left == 0 || ended.wait(PROGRESS_PAUSE.min(Duration::from_nanos(left))) {
                ended.note(self.clock);
                return;
            }
            self.heed_stop(conduct);
            let left = (phase != Phase::Drain).then(|| Duration::from_nanos(left));
            onlookers.progress.show(phase, left, self.clock.now(), conduct);
            onlookers.keep(conduct);
        }
    }

    fn heed_stop(&self, conduct: &Conduct) {
        if self.stop.load(Ordering::Relaxed) {
            // Far enough ahead that every thread knows of the end before it comes.
            conduct.end_by(self.clock.now().plus(2 * TICK_NS_MAX));
        }
    }
}

/// Runs `serve` for each worker in a thread of its own, and `conduct` in this one.
fn in_threads(
    workers: Vec<Worker>,
    serve: impl Fn(&mut Worker) -> io::Result<()> + Sync,
    conduct: impl FnOnce(&mut Ended),
) -> Result<Vec<Worker>, LoadError> {
    thread::scope(|scope| {
        let (alive, deaths) = mpsc::channel::<()>();
        let threads: Vec<_> = workers
            .into_iter()
            .map(|mut worker| {
                let (alive, serve) = (alive.clone(), &serve);
                scope.spawn(move || {
                    let served = serve(&mut worker).map(|()| worker);
                    drop(alive);
                    served
                })
            })
            .collect();
        drop(alive);
        conduct(&mut Ended { deaths, at: None });
        let joined =
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        Ok(joined.collect::<io::Result<_>>()?)
    })
}

/// Whether all threads have ended, and when that was noticed.
struct Ended {
    /// Nothing is sent here: it is closed when the last thread drops its end.
    deaths: mpsc::Receiver<()>,
    at: Option<Instant>,
}

impl Ended {
    /// Waits for at most `pause`, and tells whether all threads have ended.
    fn wait(&mut self, pause: Duration) -> bool {
        self.deaths.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected)
    }

    fn note(&mut self, clock: Clock) {
        if self.at.is_none() && self.wait(Duration::ZERO) {
            self.at = Some(clock.now());
        }
    }

    fn at(&self, clock: Clock) -> Instant {
        self.at.unwrap_or_else(|| clock.now())
    }
}

/// How often the conducting thread looks for a wish to stop and redraws the progress line.
const PROGRESS_PAUSE: Duration = Duration::from_millis(100);
/// How long before the load begins its threads are started, so that none misses the beginning.
const THREADS_BEGIN: Duration = Duration::from_millis(5);
