//! `weir load`: from the command line to a run and its exit status.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use clap::builder::ArgPredicate;
use signal_hook::consts::{SIGINT, SIGTERM};
use weir_load::{
    Answer, Assignment, Config, HdrLog, Pacing, Process, Progress, Report, Schedule, Settings, ThinkTime,
    Threshold, Tls,
};

use crate::content::ContentArgs;
use crate::fail;
use weir_load::units;

/// The flags of `weir load`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples: as fast as 16 connections go, then at 5,000 requests per second

  weir load --target 127.0.0.1:21211 --connections 16 --duration 10s
  weir load --target 127.0.0.1:21211 --rate 5000 --duration 30s

TIME is a number with us, ms, s, m or h. Status 0: all well; 1: a reply was
wrong, or nothing was answered; 2: the command line is wrong; 3: a condition of
--fail-if came about. How to measure: docs/measure/load.md. What can be sent:
docs/measure/workloads.md

weir load --like memtier OPTIONS… and weir load --like memaslap OPTIONS… take
the options of those tools. With --print behind the tool's name the equal weir
load line is shown instead of run.")]
pub(crate) struct LoadArgs {
    /// Where to connect: HOST:PORT, or unix:/PATH for a socket in the file system. Repeat it for several targets: connections go
    /// round-robin over them, and they must serve the same keys
    #[arg(long = "target", value_name = "ADDRESS", required_unless_present = "preset")]
    targets: Vec<String>,
    /// Speak TLS to the targets, whose names are verified. Handshakes are done before anything is sent; only a connection that is
    /// made anew within the measured phase does its own in it
    #[arg(long, requires = "ca")]
    tls: bool,
    /// A PEM file with the authorities that sign the certificates of the targets
    #[arg(long, value_name = "FILE", requires = "tls")]
    ca: Option<PathBuf>,
    /// The name that their certificates have to have. Give it for a target by address [default: the host of the target]
    #[arg(long, value_name = "NAME", requires = "tls")]
    tls_name: Option<String>,
    /// A PEM file with a certificate that is shown to the targets. Give it where they demand one
    #[arg(long, value_name = "FILE", requires = "tls")]
    cert: Option<PathBuf>,
    /// A PEM file with the private key of --cert, without a passphrase [default: the file of --cert]
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Connections, over all threads. Set it to the number of clients that you expect
    #[arg(long, value_name = "N", default_value_t = 16)]
    connections: usize,
    /// Requests that each connection keeps outstanding. Raise it for clients that send before they have the last reply
    #[arg(long, value_name = "N", default_value_t = 1)]
    depth: usize,
    /// Threads that share the connections. Raise it if the generator itself is the bottleneck, which the result then says
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Length of the measured phase. Longer runs give steadier numbers [default: the length of --rate's schedule, 24h with --requests or --replay, or 10s]
    #[arg(long, value_name = "TIME", value_parser = units::duration,
          default_value_ifs([("requests", ArgPredicate::IsPresent, "24h"), ("replay", ArgPredicate::IsPresent, "24h")]))]
    duration: Option<Duration>,
    /// Length of the warm-up before it, which is not measured. Raise it if results still drift in the first seconds
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = units::duration,
          default_value_ifs([("requests", ArgPredicate::IsPresent, "0s"), ("replay", ArgPredicate::IsPresent, "0s")]))]
    warmup: Duration,
    /// Do not set every key before the warm-up. Use it for a cache that is already full, or to measure misses
    #[arg(long)]
    no_prefill: bool,
    /// How long a reply may take before the request counts as failed. Keep it above the slowest reply that you want measured
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = units::duration)]
    timeout: Duration,
    /// Seed of the random choices. Keep it to send the same requests again, change it for other ones
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Closed loop: how long a client waits between a reply and its next request: none, 10ms, or exp:10ms (exponentially
    /// distributed). Use it for clients that compute between requests
    #[arg(long, value_name = "TIME", default_value = "none", conflicts_with = "rate")]
    think_time: ThinkTime,
    /// Open loop: requests per second, as 1000, or over time, as '1000 10s, 1000..5000 30s, 2000 10s'. Use it for clients that do
    /// not wait for each other, and for latency at a given rate
    #[arg(long, value_name = "SCHEDULE")]
    rate: Option<Schedule>,
    /// How arrivals are spread within the rate: fixed, poisson, or bursts:N. Many independent clients are poisson
    #[arg(long, value_name = "PROCESS", default_value = "poisson", requires = "rate")]
    arrivals: Process,
    /// How arrivals are dealt out to connections: round-robin, or random. Use random for clients that do not take turns
    #[arg(long, value_name = "HOW", default_value = "round-robin", requires = "rate")]
    assign: Assignment,
    /// Arrivals that may wait on each connection. Raise it for long overload, if memory allows [default: 2000000 shared out, at least 1000]
    #[arg(long, value_name = "N", requires = "rate")]
    backlog: Option<usize>,
    /// Count requests as late that the generator itself sends later than this. Lower it if you measure shorter times
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = units::duration)]
    late_after: Duration,
    /// Begin the warm-up at this time, in seconds since 1970, so that several machines begin together. Give each a --seed of its own:
    /// with one seed all send the same requests at the same moments
    #[arg(long, value_name = "TIME", value_parser = units::unix_time)]
    start_at: Option<Duration>,
    /// Fail (exit status 3) under this condition, as 'p99>2ms', 'get.p99.9>5ms', 'errors>0', 'misses>1%', 'rate<1000'. Repeat it
    /// for several; use it in tests
    #[arg(long = "fail-if", value_name = "CONDITION")]
    fail_if: Vec<Threshold>,
    /// Write the response times of every second to this file, in HdrHistogram's log format, for tools that read it
    #[arg(long, value_name = "FILE")]
    hdr: Option<PathBuf>,
    /// Write the record (docs/reference/formats.md, weir.load/1) to this file; `-` is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    // The heading of a group goes on to the end: this one comes last.
    #[command(flatten)]
    content: ContentArgs,
}

/// Runs the command. 0: all well; 1: a verification failed or nothing was answered; 2: a wrong command line; 3: a
/// condition of `--fail-if` came about.
pub(crate) fn run(args: LoadArgs) -> ExitCode {
    if let Some(list) = args.content.list() {
        return match io::stdout().write_all(list.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, &error),
        };
    }
    let (settings, outputs) = match args.into_settings() {
        Ok(settings) => settings,
        Err(error) => return fail(2, &error),
    };
    let config = match Config::check(settings) {
        Ok(config) => config.with_tls(outputs.tls),
        Err(error) => return fail(2, &error),
    };
    // Opened before the run: a run whose record cannot be written is a run wasted.
    let opened = outputs.json.map(Output::open).transpose();
    let (mut record, mut log) =
        match opened.and_then(|record| Ok((record, open_log(outputs.hdr.as_deref())?))) {
            Ok(opened) => opened,
            Err(error) => return fail(2, &error),
        };
    let stop = match stop_on_signals() {
        Ok(stop) => stop,
        Err(error) => return fail(1, &format!("cannot listen for signals: {error}")),
    };
    let terminal = io::stderr().is_terminal();
    let mut progress = if terminal { Progress::redrawn(io::stderr()) } else { Progress::lines(io::stderr()) };
    let mut report = match weir_load::run(&config, &stop, &mut progress, log.as_mut()) {
        Ok(report) => report,
        Err(error) => {
            progress.clear();
            return fail(1, &error);
        }
    };
    progress.clear();
    report.judge(&outputs.fail_if);
    let logged = log.map_or(Ok(()), HdrLog::finish).map_err(|error| format!("--hdr: {error}"));
    match tell(&report, record.as_mut()).and(logged) {
        Err(error) => fail(1, &error),
        Ok(()) if !report.is_good() => ExitCode::from(1),
        Ok(()) if !report.crossed().is_empty() => ExitCode::from(3),
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// What is spoken to targets, and what becomes of a run's results.
struct Outputs {
    tls: Option<Tls>,
    json: Option<PathBuf>,
    hdr: Option<PathBuf>,
    fail_if: Vec<Threshold>,
}

impl LoadArgs {
    fn into_settings(self) -> Result<(Settings, Outputs), String> {
        let schedule_length = self.rate.as_ref().and_then(Schedule::length);
        let pacing = match self.rate {
            Some(schedule) => Pacing::Open { schedule, process: self.arrivals, assignment: self.assign },
            None => Pacing::Closed { think_time: self.think_time },
        };
        let shown = self.cert.map(|cert| (cert.clone(), self.key.unwrap_or(cert)));
        let tls = self.ca.map(|ca| Tls::new(ca, self.tls_name, shown));
        if let Some(target) = self.targets.iter().find(|target| tls.is_some() && target.starts_with("unix:"))
        {
            return Err(format!(
                "--tls: {target} is a socket of this machine, which is spoken to without TLS; leave one of both out"
            ));
        }
        let settings = Settings {
            content: self.content.content()?,
            keys: self.content.keys,
            // A trace names its keys as it goes.
            prefill: !self.no_prefill && self.content.replay.is_none(),
            replay: self.content.replay,
            targets: self.targets,
            connections: self.connections,
            depth: self.depth,
            threads: self.threads,
            duration: self.duration.or(schedule_length).unwrap_or(DURATION),
            warmup: self.warmup,
            timeout: self.timeout,
            seed: self.seed,
            pacing,
            backlog: self.backlog,
            late_after: self.late_after,
            start_at: self.start_at,
            commit: crate::COMMIT,
        };
        Ok((settings, Outputs { tls, json: self.json, hdr: self.hdr, fail_if: self.fail_if }))
    }
}

fn open_log(path: Option<&Path>) -> Result<Option<HdrLog>, String> {
    path.map(|path| match File::create(path) {
        Ok(file) => Ok(HdrLog::new(BufWriter::new(file))),
        Err(error) => Err(format!("--hdr {}: {error}", path.display())),
    })
    .transpose()
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
    let summary = format!("{}{}", Answer::new(report), report.summary());
    let shown = if matches!(record, Some(Output::Stdout)) {
        io::stderr().write_all(summary.as_bytes())
    } else {
        io::stdout().write_all(summary.as_bytes())
    };
    for warning in report.warnings() {
        let _ = writeln!(io::stderr(), "{warning}");
    }
    for crossed in report.crossed() {
        let _ = writeln!(io::stderr(), "--fail-if {crossed}");
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

/// Length of the measured phase where nothing says otherwise.
const DURATION: Duration = Duration::from_secs(10);
