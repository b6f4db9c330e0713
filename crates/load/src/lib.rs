//! A load generator for memcached's protocols that can be trusted: every reply is verified, every request is accounted for,
//! and in an open loop response times count from the moment at which a request should have been sent.
//!
//! Start at [`run`]: it connects, sets every key, warms up, measures, drains and hands out a [`Report`]. What decides and
//! verifies knows neither sockets nor clock; `driver` alone talks to the kernel.
//!
//! ```text
//! config     what is asked for            schedule    the offered rate over time, think times
//! content    commands, sizes, popularity  arrivals    the moments of an open loop, fixed in advance
//! keyspace   key index <-> key bytes      agenda      what a thread has to do when
//! value      values that say whose        pace        when a connection's next request is due, its backlog
//! versions   what has been written        connection  requests out, replies in, per connection
//! mix        which request comes next     verify      does the reply answer the request?
//! replay     requests from a trace        recorder    counts and times, per phase, operation, window
//! workload   the bytes of requests        engine      the phases of a run, its threads
//!                                         driver      sockets, clock, CPU time, timers, event loop
//!
//! report     the record                   bottleneck  who set the pace: generator, target or neither
//! summary    the table                    thresholds  conditions under which a run fails
//! progress   what is shown meanwhile      intervals, hdr   response times second by second
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
