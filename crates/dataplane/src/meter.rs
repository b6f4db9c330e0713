//! What is counted, timed and told.

pub(crate) mod counters;
pub(crate) mod report;
pub(crate) mod trace;
pub(crate) mod window;
