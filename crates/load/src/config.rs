//! What a run is asked to do: [`Settings`] as given, [`Config`] once checked.

mod content;
mod tls;

use std::fmt::Debug;
use std::ops::Deref;
use std::path::PathBuf;
use std::time::Duration;

pub use tls::Tls;

use crate::content::{Amount, Content};
use crate::pacing::arrivals::{Assignment, Plan};
use crate::pacing::schedule::{Process, Schedule, ThinkTime};

/// What the command line asks for, not yet checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Where to connect, each `HOST:PORT`. Connections go round-robin over them, so every target must serve the same keys.
    pub targets: Vec<String>,
    /// Connections over all threads.
    pub connections: usize,
    /// Requests that each connection keeps outstanding.
    pub depth: usize,
    /// Threads, each with an event loop and its share of the connections.
    pub threads: usize,
    /// Length of the measured phase.
    pub duration: Duration,
    /// Length of the warm-up before it.
    pub warmup: Duration,
    /// What is sent.
    pub content: Content,
    /// Number of keys that hold values.
    pub keys: u64,
    /// A trace whose requests are sent instead of random ones; `-` is standard input.
    pub replay: Option<PathBuf>,
    /// Whether every key is set once before the warm-up.
    pub prefill: bool,
    /// How long an answer may take.
    pub timeout: Duration,
    /// Seed of the random choices: the same seed gives each connection the same sequence of requests.
    pub seed: u64,
    /// When requests are sent.
    pub pacing: Pacing,
    /// Open loop: arrivals that may wait on each connection. `None`: two million shared out, but at least a thousand.
    pub backlog: Option<usize>,
    /// A request that is sent later than this, though nothing but the generator kept it, is counted as late.
    pub late_after: Duration,
    /// When the warm-up begins, since 1970: for several machines that begin together. `None`: as soon as possible.
    pub start_at: Option<Duration>,
    /// What the program was built from, for the record.
    pub commit: &'static str,
}

/// What decides when requests are sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Pacing {
    /// A fixed number of clients, each with one request at a time: [`Settings::depth`] on each connection.
    Closed {
        /// How long a client waits between an answer and its next request.
        think_time: ThinkTime,
    },
    /// Arrivals at moments that are fixed in advance and do not wait for answers.
    Open {
        /// The offered rate over time.
        schedule: Schedule,
        /// How arrivals are spread within it.
        process: Process,
        /// Which connection each arrival goes to.
        assignment: Assignment,
    },
}

/// Settings that a run can be made with. The only way to one is [`Config::check`].
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    settings: Settings,
    tls: Option<Tls>,
}

impl Config {
    /// Checks the settings.
    pub fn check(settings: Settings) -> Result<Config, ConfigError> {
        if settings.targets.is_empty() {
            return Err(ConfigError::NoTarget);
        }
        for target in &settings.targets {
            check_target(target)?;
        }
        within("--connections", settings.connections as u64, 1, CONNECTIONS_MAX)?;
        within("--depth", settings.depth as u64, 1, DEPTH_MAX)?;
        within("--threads", settings.threads as u64, 1, THREADS_MAX.min(settings.connections as u64))?;
        within("--keys", settings.keys, 1, KEYS_MAX)?;
        content::check_content(&settings)?;
        within("--duration", settings.duration, Duration::from_millis(1), DURATION_MAX)?;
        within("--warmup", settings.warmup, Duration::ZERO, DURATION_MAX)?;
        within("--timeout", settings.timeout, Duration::from_millis(1), TIMEOUT_MAX)?;
        within("--late-after", settings.late_after, Duration::from_micros(1), TIMEOUT_MAX)?;
        if let Some(backlog) = settings.backlog {
            within("--backlog", backlog as u64, 1, BACKLOG_MAX)?;
        }
        check_pacing(&settings)?;
        let config = Config { settings, tls: None };
        let bytes = config.buffer_bytes_max();
        if bytes > BUFFER_BYTES_MAX {
            return Err(ConfigError::Memory { bytes });
        }
        Ok(config)
    }

    /// Targets are spoken to in TLS, if this is given.
    #[must_use]
    pub fn with_tls(self, tls: Option<Tls>) -> Config {
        Config { tls, ..self }
    }

    /// How targets are spoken to in TLS, if they are.
    pub(crate) fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// Whether requests are sent at moments that are fixed in advance.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.pacing, Pacing::Open { .. })
    }

    /// Whether requests are due at certain moments: arrivals, or clients that have finished thinking.
    pub(crate) fn is_scheduled(&self) -> bool {
        self.pacing != Pacing::Closed { think_time: ThinkTime::None }
    }

    /// Arrivals that may wait on each connection.
    pub(crate) fn backlog_max(&self) -> usize {
        self.backlog.unwrap_or((BACKLOG_SHARED / self.connections).max(BACKLOG_SHARE_MIN))
    }

    /// What an open loop's arrivals are made of.
    pub(crate) fn plan(&self) -> Option<Plan> {
        let Pacing::Open { schedule, process, assignment } = &self.pacing else { return None };
        Some(Plan {
            schedule: schedule.clone(),
            process: *process,
            assignment: *assignment,
            connections: self.connections as u32,
            seed: self.seed,
            warmup: self.warmup,
            duration: self.duration,
        })
    }

    /// The most that all connections together may have to hold, in bytes: what is going out, taken for four times the mean
    /// where sizes differ, one reply each, and the backlog.
    fn buffer_bytes_max(&self) -> u64 {
        let requests = self.depth as u64 * self.request_bytes_mean();
        let backlog = if self.is_open() { BACKLOG_BYTES * self.backlog_max() as u64 } else { 0 };
        self.connections as u64 * (requests + self.reply_bytes_max() as u64 + backlog)
    }
}

impl Deref for Config {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

/// Why settings cannot be run.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// No target was named.
    #[error("no target: name at least one with --target HOST:PORT or --target unix:/PATH")]
    NoTarget,
    /// A target is not `HOST:PORT`, nor `unix:/PATH`.
    #[error(
        "--target {target}: {reason}; expected HOST:PORT, as 127.0.0.1:11211 or [::1]:11211, or unix:/PATH, as unix:/run/weir.sock"
    )]
    Target {
        /// The target as given.
        target: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A number or a duration is outside its bounds.
    #[error("{flag} {given}: must be between {least} and {most}")]
    Bounds {
        /// The flag.
        flag: &'static str,
        /// What was given.
        given: String,
        /// The least it may be.
        least: String,
        /// The most it may be.
        most: String,
    },
    /// A distribution reaches outside its bounds.
    #[error("{flag} {given}: must lie between {least} and {most}")]
    Amount {
        /// The flag.
        flag: &'static str,
        /// The distribution given.
        given: Amount,
        /// The least it may give.
        least: u64,
        /// The most it may give.
        most: u64,
    },
    /// The content cannot be sent.
    #[error("{0}")]
    Content(String),
    /// The rate is no rate.
    #[error("--rate: {given} requests per second: must be above 0 and at most {RATE_MAX}")]
    Rate {
        /// The highest rate of the schedule.
        given: f64,
    },
    /// The schedule and the measured phase do not have the same length.
    #[error(
        "--rate: the schedule is {schedule:?} long, the measured phase {duration:?}: leave out --duration, or the last stretch's length"
    )]
    ScheduleLength {
        /// The length of all stretches that have one.
        schedule: Duration,
        /// The length of the measured phase.
        duration: Duration,
    },
    /// Requests and replies under way could fill too much memory.
    #[error(
        "requests, replies and arrivals under way could take {bytes} bytes, more than {BUFFER_BYTES_MAX}: lower --connections, --depth, --multiget, --value-size or --backlog"
    )]
    Memory {
        /// The bytes they could take.
        bytes: u64,
    },
}

fn check_target(target: &str) -> Result<(), ConfigError> {
    let error = |reason| Err(ConfigError::Target { target: target.to_owned(), reason });
    if let Some(path) = target.strip_prefix(SOCKET_SCHEME) {
        return match path.len() {
            _ if !path.starts_with('/') => error("it has no path that begins with /"),
            0..=SOCKET_PATH_MAX => Ok(()),
            _ => error("its path has more than the 107 bytes that one of a socket may have"),
        };
    }
    let Some((host, port)) = target.rsplit_once(':') else {
        return error("it has no port");
    };
    if host.is_empty() {
        return error("it has no host");
    }
    if host.contains(':') && !(host.starts_with('[') && host.ends_with(']')) {
        return error("an IPv6 address needs brackets");
    }
    match port.parse::<u16>() {
        Ok(0) | Err(_) => error("the port is not a number between 1 and 65535"),
        Ok(_) => Ok(()),
    }
}

fn check_pacing(settings: &Settings) -> Result<(), ConfigError> {
    match &settings.pacing {
        Pacing::Closed { think_time: ThinkTime::None } => Ok(()),
        Pacing::Closed { think_time: ThinkTime::Fixed(time) | ThinkTime::Exponential(time) } => {
            within("--think-time", *time, Duration::from_micros(1), TIMEOUT_MAX)
        }
        Pacing::Open { schedule, .. } => {
            let given = schedule.rps_max();
            if !(given > 0.0 && given <= RATE_MAX) {
                return Err(ConfigError::Rate { given });
            }
            let (length, duration) = (schedule.fixed_length(), settings.duration);
            let fits = schedule.length().map_or(length < duration, |length| length == duration);
            if fits { Ok(()) } else { Err(ConfigError::ScheduleLength { schedule: length, duration }) }
        }
    }
}

fn within<T: PartialOrd + Debug>(flag: &'static str, given: T, least: T, most: T) -> Result<(), ConfigError> {
    if (&least..=&most).contains(&&given) {
        Ok(())
    } else {
        let [given, least, most] = [given, least, most].map(|it| format!("{it:?}"));
        Err(ConfigError::Bounds { flag, given, least, most })
    }
}

/// What stands before the path of a target that is a socket in the file system.
pub(crate) const SOCKET_SCHEME: &str = "unix:";
/// The longest path of a socket, in bytes (unix(7): 108 with the zero at its end).
const SOCKET_PATH_MAX: usize = 107;
const CONNECTIONS_MAX: u64 = 20_000;
const DEPTH_MAX: u64 = 10_000;
const THREADS_MAX: u64 = 256;
/// Eight bytes are kept per key, for the last version issued.
const KEYS_MAX: u64 = 100_000_000;
const DURATION_MAX: Duration = Duration::from_secs(7 * 86_400);
const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);
const BUFFER_BYTES_MAX: u64 = 4 << 30;
/// Requests per second.
const RATE_MAX: f64 = 1e8;
const BACKLOG_MAX: u64 = 100_000_000;
/// Two moments are kept per arrival that waits.
const BACKLOG_BYTES: u64 = 16;
const BACKLOG_SHARED: usize = 2_000_000;
const BACKLOG_SHARE_MIN: usize = 1_000;

#[cfg(test)]
impl Settings {
    /// Settings that pass every check, for tests to vary.
    pub(crate) fn example() -> Settings {
        Settings {
            targets: vec!["127.0.0.1:11211".to_owned()],
            connections: 1,
            depth: 1,
            threads: 1,
            duration: Duration::from_secs(10),
            warmup: Duration::from_secs(2),
            content: Content::default(),
            keys: 10_000,
            replay: None,
            prefill: true,
            timeout: Duration::from_secs(5),
            seed: 1,
            pacing: Pacing::Closed { think_time: ThinkTime::None },
            backlog: None,
            late_after: Duration::from_millis(1),
            start_at: None,
            commit: "unknown",
        }
    }

    /// Arrivals for [`Settings::pacing`], one after the other, from a schedule as on the command line.
    pub(crate) fn offered(schedule: &str, process: Process) -> Pacing {
        let schedule = schedule.parse().expect("the schedule is well-formed");
        Pacing::Open { schedule, process, assignment: Assignment::RoundRobin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::Popularity;

    pub(super) fn check(change: impl FnOnce(&mut Settings)) -> Result<Config, ConfigError> {
        let mut settings = Settings::example();
        change(&mut settings);
        Config::check(settings)
    }

    pub(super) fn refused_flag(change: impl FnOnce(&mut Settings)) -> String {
        check(change).expect_err("the settings must be refused").to_string()
    }

    #[test]
    fn the_example_passes() {
        assert!(check(|_| {}).is_ok());
    }

    #[test]
    fn each_bound_is_kept_and_names_its_flag() {
        assert!(refused_flag(|s| s.targets.clear()).contains("--target"));
        assert!(refused_flag(|s| s.connections = 0).starts_with("--connections 0"));
        assert!(refused_flag(|s| s.depth = 0).starts_with("--depth 0"));
        assert!(refused_flag(|s| s.threads = 2).starts_with("--threads 2: must be between 1 and 1"));
        assert!(refused_flag(|s| s.keys = 0).starts_with("--keys 0"));
        assert!(refused_flag(|s| s.content.key_size = Amount::Fixed(251)).starts_with("--key-size 251"));
        assert!(refused_flag(|s| s.content.multiget = Amount::Fixed(10_001)).starts_with("--multiget 10001"));
        assert!(refused_flag(|s| s.content.multiget = Amount::EtcValue).starts_with("--multiget etc-value"));
        assert!(refused_flag(|s| s.content.requests = Some(0)).starts_with("--requests 0"));
        assert!(refused_flag(|s| s.content.key_prefix = "a b".to_owned()).starts_with("--key-prefix"));
        assert!(
            refused_flag(|s| s.content.reconnect_after = Some(Amount::Fixed(0)))
                .starts_with("--reconnect-after 0")
        );
        let beyond = Popularity::Zipf { exponent: f64::NAN };
        assert!(refused_flag(|s| s.content.popularity = beyond).starts_with("--popularity zipf:NaN"));
        assert!(
            refused_flag(|s| (s.content.one_writer, s.connections, s.keys) = (true, 9, 8))
                .starts_with("--one-writer")
        );
        assert!(refused_flag(|s| s.duration = Duration::ZERO).starts_with("--duration 0ns"));
        assert!(refused_flag(|s| s.timeout = Duration::ZERO).starts_with("--timeout 0ns"));
    }

    #[test]
    fn memory_is_bounded() {
        let error = refused_flag(|s| {
            (s.connections, s.depth, s.content.value_size) = (10_000, 100, Amount::Fixed(1 << 20));
        });
        assert!(error.contains("lower --connections"), "{error}");
    }

    #[test]
    fn a_schedule_is_as_long_as_the_measured_phase() {
        let offered = |schedule| check(|s| s.pacing = Settings::offered(schedule, Process::Fixed));
        for good in ["1000", "1000 4s, 10..20 6s", "1000 9s, 0"] {
            assert!(offered(good).is_ok(), "{good}");
        }
        for bad in ["1000 9s", "1000 11s", "1000 10s, 5"] {
            let error = offered(bad).expect_err(bad).to_string();
            assert!(error.ends_with("leave out --duration, or the last stretch's length"), "{error}");
        }
        for bad in ["0", "200M"] {
            let error = offered(bad).expect_err(bad).to_string();
            assert!(error.contains("must be above 0 and at most 100000000"), "{error}");
        }
    }

    #[test]
    fn a_backlog_and_a_think_time_have_bounds() {
        assert!(refused_flag(|s| s.backlog = Some(0)).starts_with("--backlog 0"));
        assert!(refused_flag(|s| s.late_after = Duration::ZERO).starts_with("--late-after 0ns"));
        let long = ThinkTime::Fixed(Duration::from_secs(3601));
        assert!(refused_flag(|s| s.pacing = Pacing::Closed { think_time: long }).starts_with("--think-time"));
        let error = refused_flag(|s| {
            s.pacing = Settings::offered("10", Process::Poisson);
            (s.connections, s.backlog) = (1000, Some(1_000_000));
        });
        assert!(error.contains("--backlog"), "{error}");
    }

    #[test]
    fn targets_are_host_and_port_or_a_socket() {
        let longest = format!("unix:/{}", "s".repeat(106));
        for good in ["127.0.0.1:11211", "[::1]:11211", "cache.example:1", "unix:/run/weir.sock", &longest] {
            assert_eq!(check_target(good), Ok(()));
        }
        for bad in ["unix:", "unix:weir.sock", "/run/weir.sock", &format!("{longest}s")] {
            assert!(check_target(bad).is_err(), "{bad}");
        }
        for bad in ["", "localhost", ":11211", "::1:11211", "h:", "h:0", "h:65536", "h:x"] {
            assert!(check_target(bad).is_err(), "{bad}");
        }
    }
}
