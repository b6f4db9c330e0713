//! What is counted, timed and told.

pub(crate) mod counters;
pub(crate) mod report;
pub(crate) mod trace;
pub(crate) mod window;

use counters::Counters;
use trace::Tracer;
use weir_timing::{Instant, Recorder};

/// What one dataplane has counted and timed.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) recorder: Recorder,
    pub(crate) tracer: Tracer,
    pub(crate) counters: Counters,
    /// The counters as they were when the last window was handed out.
    pub(crate) told: Counters,
}

impl Meter {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            recorder: Recorder::new(now, 0),
            tracer: Tracer::default(),
            counters: Counters::default(),
            told: Counters::default(),
        }
    }
}
