//! `weir load`: from the command line to a run and its exit status.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use clap::Args;
use clap::builder::ArgPredicate;
use signal_hook::consts::{SIGINT, SIGTERM};
use weir_load::{Config, Progress, Report, Settings};

use crate::content::ContentArgs;
use crate::{fail, like, units};

/// The flags of `weir load`.
#[derive(Args, Debug)]
#[command(
    after_help = "weir load --like memtier OPTIONS… and weir load --like memaslap OPTIONS… take those tools' own options; \
                        with --print behind the tool's name the equal weir load line is shown instead of run."
)]
pub(crate) struct LoadArgs {
    /// Where to connect; connections go round-robin over several targets, which must serve the same keys
    #[arg(long = "target", value_name = "HOST:PORT", required_unless_present = "preset")]
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
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = units::duration,
          default_value_ifs([("requests", ArgPredicate::IsPresent, "24h"), ("replay", ArgPredicate::IsPresent, "24h")]))]
    duration: Duration,
    /// Length of the warm-up before it
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = units::duration,
          default_value_ifs([("requests", ArgPredicate::IsPresent, "0s"), ("replay", ArgPredicate::IsPresent, "0s")]))]
    warmup: Duration,
    #[command(flatten)]
    content: ContentArgs,
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

/// The words of a command line, those of `weir load --like TOOL …` as `weir load` has them. `Err`: there is nothing more to do.
pub(crate) fn translated(words: Vec<OsString>) -> Result<Vec<OsString>, ExitCode> {
    let [program, load, rest @ ..] = &words[..] else { return Ok(words) };
    if load != "load" {
        return Ok(words);
    }
    // Words that are no text are for clap to refuse.
    let Some(rest) = rest.iter().map(|word| word.to_str().map(str::to_owned)).collect::<Option<Vec<_>>>()
    else {
        return Ok(words);
    };
    let request = match like::translate(&rest) {
        None => return Ok(words),
        Some(Ok(request)) => request,
        Some(Err(error)) => return Err(fail(2, &error)),
    };
    for note in &request.translation.notes {
        let _ = writeln!(io::stderr(), "note: {note}");
    }
    if request.print {
        let printed = writeln!(io::stdout(), "{}", request.translation.line());
        return Err(printed.map_or_else(|error| fail(1, &error), |()| ExitCode::SUCCESS));
    }
    let flags = request.translation.flags.into_iter().map(OsString::from);
    Ok([program.clone(), load.clone()].into_iter().chain(flags).collect())
}

/// Runs the command. 0: all well; 1: a verification failed or nothing was answered; 2: a wrong command line.
pub(crate) fn run(args: LoadArgs) -> ExitCode {
    if let Some(list) = args.content.list() {
        return match io::stdout().write_all(list.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, &error),
        };
    }
    let (settings, json) = match args.into_settings() {
        Ok(settings) => settings,
        Err(error) => return fail(2, &error),
    };
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
    let report = match weir_load::run(&config, &stop, &mut progress) {
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
    fn into_settings(self) -> Result<(Settings, Option<PathBuf>), String> {
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
            duration: self.duration,
            warmup: self.warmup,
            timeout: self.timeout,
            seed: self.seed,
        };
        Ok((settings, self.json))
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
