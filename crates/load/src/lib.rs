//! A load generator for memcached's protocols that can be trusted. Every reply is verified, and every request is accounted for. In an open
//! loop response times count from the moment at which a request should have been sent.
//!
//! Start at [`run`]: it connects, sets every key, warms up, measures, drains and hands out a [`Report`]. What decides and
//! verifies knows neither sockets nor clock; `driver` alone talks to the kernel.
//!
//! ```text
//! config     what is asked for                     engine      the phases of a run, its threads
//! content    commands, sizes, popularity           driver      sockets, clock, CPU time, timers, event loop
//! pacing     when requests are sent                recorder    counts and times, per phase, operation, window
//! workload   what is sent, what a reply must be    report      the record, the table, the verdicts, what is shown meanwhile
//! connection requests out, replies in              units       times and rates as people write them
//! ```

#[cfg(test)]
mod allocations;
mod config;
mod connection;
mod content;
mod driver;
mod engine;
mod pacing;
mod recorder;
mod report;
#[cfg(test)]
mod simulation;
pub mod units;
mod workload;

pub use config::{Config, ConfigError, Pacing, Settings, Tls};
pub use content::{Amount, Command, Content, Mix, Part, Popularity, Preset, PresetError, Tail};
pub use engine::{LoadError, run};
pub use pacing::arrivals::Assignment;
pub use pacing::schedule::{Process, Schedule, Stretch, ThinkTime};
pub use recorder::Failures;
pub use recorder::hdr::HdrLog;
pub use report::Report;
pub use report::answer::Answer;
pub use report::progress::Progress;
pub use report::summary::Summary;
pub use report::thresholds::{Judgement, Threshold};
pub use workload::replay::TraceError;
