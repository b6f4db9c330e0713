//! The rows of the requests of one dataplane that are sampled, as a driver collects them at the end of each turn.
//!
//! Where every request is sampled, the rows together are what the dataplane reports at the end.

use std::collections::BTreeMap;

use weir_dataplane::{Dataplane, Report, TraceRow};
use weir_timing::{Instant, Operation, Stage};

use super::watch::Watching;

#[derive(Debug)]
pub(super) struct Rows {
    watching: Watching,
    /// When they were collected last.
    looked: Instant,
    count: u64,
    dropped: u64,
    /// One that does not say when its request arrived, although the kernel did.
    timeless: Option<TraceRow>,
    operations: BTreeMap<Operation, OfOperation>,
    /// Requests that failed because of a server, by why.
    outcomes: BTreeMap<&'static str, u64>,
    /// Of each client, requests that failed and were answered aloud.
    failures: BTreeMap<u64, Vec<(&'static str, Operation)>>,
}

/// What rows say of an operation together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OfOperation {
    requests: u64,
    errors: u64,
    hits: u64,
    keys: u64,
    stages_sum_ns: [u128; Stage::COUNT],
}

/// When the kernel received what was read at `read`. It does not always say so.
pub(super) fn arrival(read: Instant) -> Option<Instant> {
    let read_ns = read.as_nanos();
    (!read_ns.is_multiple_of(3)).then(|| Instant::from_nanos(read_ns - read_ns.min(read_ns % 1_000)))
}

impl Rows {
    pub(super) fn new(watching: Watching) -> Self {
        Self {
            watching,
            looked: Instant::ZERO,
            count: 0,
            dropped: 0,
            timeless: None,
            operations: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }

    pub(super) fn take(&mut self, dataplane: &mut Dataplane, now: Instant) -> Result<(), String> {
        let mut result = Ok(());
        let dropped = dataplane.take_traces(|row| {
            let checked = self.check(&row, now).map_err(|reason| format!("{reason} in {row:?}"));
            if result.is_ok() {
                result = checked;
            }
            self.add(&row);
        });
        self.dropped += dropped;
        self.looked = now;
        result
    }

    fn check(&self, row: &TraceRow, now: Instant) -> Result<(), String> {
        let TraceRow { stamps, servers, arrived, .. } = row;
        if self.watching.share.is_none() {
            return Err("nobody has asked for a row".to_owned());
        }
        if stamps.in_order() != *stamps {
            return Err("stamps are not in their order".to_owned());
        }
        if stamps.answered > now || stamps.answered < self.looked {
            return Err(format!("the answer was not between {:?} and {now:?}", self.looked));
        }
        if arrived.is_some() && (!self.watching.arrivals || *arrived != arrival(stamps.first_byte)) {
            return Err("it arrived at another time".to_owned());
        }
        if row.keys < row.hits {
            return Err("more keys are found than were asked for".to_owned());
        }
        let is_known = |server: &str| server.starts_with("server-") && server.ends_with(":11211");
        if !servers.iter().all(|server| is_known(server)) {
            return Err("it went to a server of no table".to_owned());
        }
        if servers.iter().enumerate().any(|(place, server)| servers[..place].contains(server)) {
            return Err("a server is named twice".to_owned());
        }
        Ok(())
    }

    fn add(&mut self, row: &TraceRow) {
        let has_failed = !["ok", "degraded"].contains(&row.outcome);
        let is_reported = self.watching.arrivals && arrival(row.stamps.first_byte).is_some();
        if is_reported && row.arrived.is_none() && self.timeless.is_none() {
            self.timeless = Some(row.clone());
        }
        self.count += 1;
        let of = self.operations.entry(row.operation).or_default();
        of.requests += 1;
        of.errors += u64::from(has_failed);
        of.hits += u64::from(row.hits);
        of.keys += u64::from(row.keys);
        for (sum, nanos) in of.stages_sum_ns.iter_mut().zip(row.stamps.stages()) {
            *sum += u128::from(nanos);
        }
        let blames_server = has_failed && !["refused", "client-error"].contains(&row.outcome);
        if blames_server {
            *self.outcomes.entry(row.outcome).or_default() += 1;
        }
        if blames_server && row.reply_bytes > 0 {
            self.failures.entry(row.client).or_default().push((row.outcome, row.operation));
        }
    }

    /// How many of a client's requests failed and were answered aloud, if every request is sampled.
    pub(super) fn failures(&self, client: u64) -> Option<&[(&'static str, Operation)]> {
        (self.watching.share == Some(1.0)).then(|| self.failures.get(&client).map_or(&[][..], Vec::as_slice))
    }

    /// How many requests failed because of a server, by why, if every request is sampled.
    pub(super) fn outcomes(&self) -> Option<&BTreeMap<&'static str, u64>> {
        (self.watching.share == Some(1.0)).then_some(&self.outcomes)
    }

    /// A row that does not say when its request arrived, although the kernel did.
    pub(super) fn timeless(&self) -> Option<&TraceRow> {
        self.timeless.as_ref()
    }

    pub(super) fn verdict(&self, report: &Report) -> Result<(), String> {
        let answered: u64 = report.timing.operations().iter().map(|(_, it)| it.requests).sum();
        if self.count + self.dropped > answered {
            return Err(format!("{} rows of {answered} requests", self.count + self.dropped));
        }
        if self.watching.share != Some(1.0) {
            return Ok(());
        }
        for operation in Operation::ALL {
            let total = report.timing.operation(operation);
            let total = OfOperation {
                requests: total.requests,
                errors: total.errors,
                hits: total.hits,
                keys: total.keys(),
                stages_sum_ns: Stage::ALL.map(|stage| total.stage(stage).sum()),
            };
            let rows = self.operations.get(&operation).copied().unwrap_or_default();
            if rows != total {
                return Err(format!("all rows of {}: {rows:?}, expected {total:?}", operation.name()));
            }
        }
        Ok(())
    }
}
