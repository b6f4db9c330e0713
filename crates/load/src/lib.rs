//! A closed-loop load generator for memcached's text protocol that can be trusted: every reply is verified, and every
//! request is accounted for.
//!
//! Start at [`run`]: it connects, sets every key, warms up, measures, drains and hands out a [`Report`]. What decides and
//! verifies knows neither sockets nor clock; `driver` alone talks to the kernel.
//!
//! ```text
//! config     what is asked for            connection  requests out, replies in, per connection
//! content    commands, sizes, popularity  verify      does the reply answer the request?
//! keyspace   key index <-> key bytes      replay      requests from a trace
//! value      values that say whose        recorder    counts and times, per phase, operation, window
//! versions   what has been written        engine      the phases of a run, its threads
//! mix        which request comes next     driver      sockets, clock, CPU time, event loop
//! workload   the bytes of requests        report      the record; summary: the table; progress: what is shown meanwhile
//! ```

mod agenda;
#[cfg(test)]
mod allocations;
mod arrivals;
mod bottleneck;
mod config;
mod connection;
mod content;
mod driver;
mod engine;
mod hdr;
mod intervals;
mod keyspace;
mod mix;
mod pace;
mod phase;
mod progress;
mod recorder;
mod replay;
mod report;
mod schedule;
#[cfg(test)]
mod simulation;
mod summary;
mod thresholds;
pub mod units;
mod value;
mod verify;
mod versions;
mod workload;

pub use arrivals::Assignment;
pub use config::{Config, ConfigError, Pacing, Settings};
pub use content::{Amount, Command, Content, Mix, Part, Popularity, Preset, PresetError, Tail};
pub use engine::{LoadError, run};
pub use hdr::HdrLog;
pub use progress::Progress;
pub use recorder::Failures;
pub use replay::TraceError;
pub use report::Report;
pub use schedule::{Process, Schedule, Stretch, ThinkTime};
pub use summary::Summary;
pub use thresholds::{Judgement, Threshold};
