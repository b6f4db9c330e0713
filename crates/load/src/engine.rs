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
use crate::driver::clock::Clock;
use crate::driver::cpu::CpuTime;
use crate::driver::link::Link;
use crate::driver::target::Target;
use crate::driver::worker::{Conduct, TICK_NS_MAX, Worker};
use crate::phase::{NEVER, Phase, Timeline};
use crate::progress::Progress;
use crate::recorder::Recorder;
use crate::replay::{Trace, TraceError};
use crate::report::{Measurements, Report};
use crate::workload::Workload;

/// Makes a run and reports it. When `stop` becomes true, the run ends soon and cleanly, and what was measured so far is
/// reported.
pub fn run(config: &Config, stop: &AtomicBool, progress: &mut Progress) -> Result<Report, LoadError> {
    let clock = Clock::start();
    let run = Run { config, stop, clock };
    let mut workers = run.connect(progress.is_watched())?;

    let prefill_began = clock.now();
    let mut interrupted = None;
    if config.prefill {
        (workers, interrupted) = run.prefill(workers, progress)?;
    }
    let warmup = clock.now();
    let measured = warmup.plus(config.warmup.as_nanos() as u64);
    let planned = Timeline { warmup, measured, end: measured.plus(config.duration.as_nanos() as u64) };

    let (workers, timeline, cpu) = match interrupted {
        Some(end) => (workers, Timeline { warmup: end, measured: end, end }, CpuTime::default()),
        None => run.load(workers, planned, progress)?,
    };
    let finished = clock.now();
    if let Some(fault) = workers.iter().find_map(Worker::trace_fault) {
        return Err(fault.into());
    }
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
    #[error("target {target}: cannot find its address: {source}")]
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

struct Run<'a> {
    config: &'a Config,
    stop: &'a AtomicBool,
    clock: Clock,
}

impl Run<'_> {
    /// Opens all connections and deals them out to the workers.
    fn connect(&self, watched: bool) -> Result<Vec<Worker>, LoadError> {
        let config = self.config;
        let targets = config
            .targets
            .iter()
            .map(|target| {
                Target::resolve(target)
                    .map_err(|source| LoadError::Resolve { target: target.clone(), source })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let origin = self.clock.unix_ns(Instant::ZERO) ^ u64::from(std::process::id()).rotate_left(40);
        let open = |path: &PathBuf| Trace::open(path, config.content.read_through);
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
            shares[number * config.threads / config.connections]
                .push((number as u32, Link::new(connection, stream, address, config)));
        }
        let workers = shares.into_iter().map(|links| Worker::new(self.clock, links, config, watched));
        Ok(workers.collect::<io::Result<_>>()?)
    }

    /// Sets all keys. Returns the moment of the end if that was cut short.
    fn prefill(
        &self,
        workers: Vec<Worker>,
        progress: &mut Progress,
    ) -> Result<(Vec<Worker>, Option<Instant>), LoadError> {
        progress.begin(Phase::Prefill, &format!("{} keys", self.config.keys));
        let conduct = Conduct::new(NEVER, progress.is_watched());
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

    /// Keeps the load up over warm-up and measured phase and drains it. Returns the timeline as it came about, and the CPU
    /// time of the measured phase.
    fn load(
        &self,
        workers: Vec<Worker>,
        mut timeline: Timeline,
        progress: &mut Progress,
    ) -> Result<(Vec<Worker>, Timeline, CpuTime), LoadError> {
        let conduct = Conduct::new(timeline.end, progress.is_watched());
        let planned = timeline;
        let serve = |worker: &mut Worker| worker.load(self.config, planned, &conduct);
        let mut cpu = CpuTime::default();
        let workers = in_threads(workers, serve, |ended| {
            self.wait_until(|| planned.measured.min(conduct.end()), Phase::Warmup, ended, &conduct, progress);
            let cpu_began = CpuTime::now();
            self.wait_until(|| conduct.end(), Phase::Measured, ended, &conduct, progress);
            cpu = CpuTime::now().since(cpu_began);
            progress.begin(Phase::Drain, &format!("at most {:.1} s", self.config.timeout.as_secs_f64()));
            self.wait_until(|| NEVER, Phase::Drain, ended, &conduct, progress);
            // Where every connection was given up, the threads end before their time.
            timeline.end = conduct.end().min(ended.at(self.clock));
        })?;
        Ok((workers, timeline, cpu))
    }

    /// Waits until the moment that `edge` tells, or until the threads have ended.
    fn wait_until(
        &self,
        edge: impl Fn() -> Instant,
        phase: Phase,
        ended: &mut Ended,
        conduct: &Conduct,
        progress: &mut Progress,
    ) {
        let now = self.clock.now();
        if now < edge() && phase != Phase::Drain {
            let length = Duration::from_nanos(edge().saturating_since(now));
            progress.begin(phase, &format!("{:.1} s", length.as_secs_f64()));
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
            progress.show(phase, left, self.clock.now(), conduct);
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
