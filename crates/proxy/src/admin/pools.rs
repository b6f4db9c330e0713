//! What clients of pools have asked for that have places of their own.

use crate::admin::reporter::{Reporter, Sums};
use std::sync::Arc;
use weir_dataplane::Report;

/// What the clients of one pool have asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PoolCounts {
    /// Their connections that are open now.
    pub(super) sessions: u64,
    /// Requests that were answered.
    pub(super) requests: u64,
    /// Of them, those that were answered with an error.
    pub(super) errors: u64,
    /// Keys of retrievals that were found.
    pub(super) hits: u64,
    /// Those that were not found.
    pub(super) misses: u64,
}

/// Each pool that has places of its own, with what its clients have asked for.
pub(super) fn counts(reporter: &Reporter, report: &Sums<Report>) -> Vec<(Arc<str>, PoolCounts)> {
    let groups = reporter.config.groups().all().iter().zip(report.of_groups());
    groups.filter_map(|(group, report)| Some((Arc::clone(group.pool()?), PoolCounts::of(report)))).collect()
}

impl PoolCounts {
    fn of(report: &Report) -> Self {
        let mut counts = Self { sessions: report.sessions, ..Self::default() };
        for (_, it) in report.timing.operations().iter() {
            counts.requests += it.requests;
            counts.errors += it.errors;
            counts.hits += it.hits;
            counts.misses += it.misses();
        }
        counts
    }
}
