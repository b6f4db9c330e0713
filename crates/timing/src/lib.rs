//! The stamps of a request, its stages, histograms, windows and queue gauges.
//!
//! The crate turns instants into numbers that can be trusted. It knows nothing of protocols, servers' addresses or sockets. It never reads
//! a clock, so that a simulated run and a real one are measured by the same code.
//!
//! Start at [`Recorder`], which one event loop owns and tells of every answered request; it hands out a [`Report`],
//! the reports of several loops merge into one, and its parts serialize as `docs/reference/formats.md` says. Below it:
//!
//! | file | holds |
//! |---|---|
//! | `instant` | [`Instant`], nanoseconds since the process's clock origin, and [`duration`]s as people write them |
//! | `stamps` | [`Stamps`] of one request and the [`Stage`]s between them |
//! | `operation` | [`Operation`], what was asked, and [`Outcome`], how it went |
//! | `distribution` | [`Distribution`], exact sums and a histogram of recorded times |
//! | `distribution/compact` | [`CompactDistribution`], one that is kept for a while |
//! | `gauges` | [`QueueGauge`], the length that arrivals meet and its time average; [`Station`], who is in it over time, and how long each had been there |
//! | `window` | one-second [`Window`]s of counts and sums |
//! | `measurements` | [`Measurements`], all histograms of some time |
//! | `recorder`, `report` | the two ends of the story |

mod distribution;
mod gauges;
mod instant;
mod measurements;
mod operation;
mod recorder;
mod report;
mod stamps;
mod wide;
mod window;

pub use distribution::compact::CompactDistribution;
pub use distribution::{Distribution, DistributionReport};
pub use gauges::queue::{QueueGauge, QueueReport};
pub use gauges::station::{Station, StationReport};
pub use instant::{Instant, duration, duration_text};
pub use measurements::Measurements;
pub use operation::{Operation, Outcome};
pub use recorder::{EndedWindow, Recorder};
pub use report::{LoopReport, OperationReport, Operations, Report, Windows};
pub use stamps::{Stage, Stamps};
pub use window::{Window, WindowCounts};
