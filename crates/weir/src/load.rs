//! `weir load`: from the command line to a run and its exit status.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use weir_load::{Config, Pacing, Progress, Report, Settings, ThinkTime};

use crate::{fail, units};

/// The flags of `weir load`.
#[derive(Args, Debug)]
pub(crate) struct LoadArgs {
    /// Where to connect; connections go round-robin over several targets, which must serve the same keys
    #[arg(long = "target", value_name = "HOST:PORT", required = true)]
    targets: Vec<String>,
    /// Connections over all threads
    #[arg(long, value_name = "N", default_value_t = 16)]
    connections: usize,
    /// Requests that each connection keeps outstanding
    #[arg(long, value_name = "N", default_value_t = 1)]
    depth: usize,
    /// Threads that share the connections
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Length of the measured phase
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration)]
    duration: Duration,
    /// Length of the warm-up before it
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = units::duration)]
    warmup: Duration,
    /// Share of requests that are writes, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    writes: f64,
    /// Size of every value, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 128)]
    value_size: usize,
    /// Size of every key, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    key_size: usize,
    /// Number of keys
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    keys: u64,
    /// Keys per read
    #[arg(long, value_name = "N", default_value_t = 1)]
    multiget: usize,
    /// Do not set every key before the warm-up
    #[arg(long)]
    no_prefill: bool,
    /// How long an answer may take
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::duration)]
    timeout: Duration,
    /// Seed of the random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Write the record (docs/formats.md, weir.load/1) to this file; `-` is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs the command. 0: all well; 1: a verification failed or nothing was answered; 2: a wrong command line.
pub(crate) fn run(args: LoadArgs) -> ExitCode {
    let (settings, json) = args.into_settings();
    let config = match Config::check(settings) {
        Ok(config) => config,
        Err(error) => return fail(2, &error),
    };
    // Opened before the run: a run whose record cannot be written is a run wasted.
    let mut record = match json.map(Output::open).transpose() {
        Ok(record) => record,
        Err(error) => return fail(2, &error),
    };
    let stop = match stop_on_signals() {
        Ok(stop) => stop,
        Err(error) => return fail(1, &format!("cannot listen for signals: {error}")),
    };
    let terminal = io::stderr().is_terminal();
    let mut progress = if terminal { Progress::redrawn(io::stderr()) } else { Progress::lines(io::stderr()) };
    let report = match weir_load::run(&config, &stop, &mut progress, None) {
        Ok(report) => report,
        Err(error) => {
            progress.clear();
            return fail(1, &error);
        }
    };
    progress.clear();
    match tell(&report, record.as_mut()) {
        Ok(()) if report.is_good() => ExitCode::SUCCESS,
        Ok(()) => ExitCode::from(1),
        Err(error) => fail(1, &error),
    }
}

impl LoadArgs {
    fn into_settings(self) -> (Settings, Option<PathBuf>) {
        let settings = Settings {
            targets: self.targets,
            connections: self.connections,
            depth: self.depth,
            threads: self.threads,
            duration: self.duration,
            warmup: self.warmup,
            write_ratio: self.writes,
            value_size: self.value_size,
            key_size: self.key_size,
            keys: self.keys,
            multiget: self.multiget,
            prefill: !self.no_prefill,
            timeout: self.timeout,
            seed: self.seed,
            pacing: Pacing::Closed { think_time: ThinkTime::None },
            backlog: None,
            late_after: Duration::from_millis(1),
            start_at: None,
        };
        (settings, self.json)
    }
}

/// Where the record goes.
enum Output {
    Stdout,
    File(File, PathBuf),
}

impl Output {
    fn open(path: PathBuf) -> Result<Output, String> {
        if path.as_os_str() == "-" {
            return Ok(Output::Stdout);
        }
        match File::create(&path) {
            Ok(file) => Ok(Output::File(file, path)),
            Err(error) => Err(format!("--json {}: {error}", path.display())),
        }
    }

    fn write(&mut self, text: &str) -> Result<(), String> {
        match self {
            Output::Stdout => {
                io::stdout().write_all(text.as_bytes()).map_err(|error| format!("--json -: {error}"))
            }
            Output::File(file, path) => {
                file.write_all(text.as_bytes()).map_err(|error| format!("--json {}: {error}", path.display()))
            }
        }
    }
}

/// Writes the record, the table, and what should be known before trusting them.
fn tell(report: &Report, mut record: Option<&mut Output>) -> Result<(), String> {
    let summary = report.summary().to_string();
    let shown = if matches!(record, Some(Output::Stdout)) {
        io::stderr().write_all(summary.as_bytes())
    } else {
        io::stdout().write_all(summary.as_bytes())
    };
    for warning in report.warnings() {
        let _ = writeln!(io::stderr(), "{warning}");
    }
    if let Some(record) = &mut record {
        record.write(&report.to_json().map_err(|error| format!("cannot write the record: {error}"))?)?;
    }
    shown.map_err(|error| format!("cannot write the summary: {error}"))
}

/// Becomes true at the first SIGINT or SIGTERM; the second ends the process at once.
fn stop_on_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}
