//! The seconds of one dataplane, as a driver collects them at the end of each turn.
//!
//! Each is handed out once, in the first turn after its end, and nothing is left out: together they are what the dataplane reports at the end.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_dataplane::{Counters, Dataplane, LoopWindow, Report};
use weir_timing::{Instant, Measurements, Operation};

const SECOND_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Windows {
    /// Whether the driver has asked for windows.
    are_kept: bool,
    /// The one that was handed out last.
    last: Option<u64>,
    /// The open one as of the last turn, if it was to be handed out.
    open: Option<u64>,
    /// When the last turn was.
    looked: Instant,
    /// What all of them say together.
    measured: Measurements,
    counters: Counters,
    servers: BTreeMap<Arc<str>, OfServer>,
}

/// What windows say of a server together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OfServer {
    requests: u64,
    errors: u64,
    timeouts: u64,
    queued: u64,
    in_flight: u64,
    times: u64,
}

impl Windows {
    pub(super) fn new(are_kept: bool) -> Self {
        Self {
            are_kept,
            last: None,
            open: None,
            looked: Instant::ZERO,
            measured: Measurements::default(),
            counters: Counters::default(),
            servers: BTreeMap::new(),
        }
    }

    /// Takes the windows that are over at the end of a turn.
    pub(super) fn take(&mut self, dataplane: &mut Dataplane, now: Instant) -> Result<(), String> {
        while let Some(window) = poll(dataplane)? {
            if end_of(window.index) > now || end_of(window.index) <= self.looked {
                return Err(format!("window {} is not handed out in the first turn after it", window.index));
            }
            self.add(window)?;
        }
        if let Some(missing) = self.open.filter(|&index| end_of(index) <= now && self.last < Some(index)) {
            return Err(format!("window {missing} is over, and is not handed out"));
        }
        self.looked = now;
        self.open = dataplane.used_window();
        match self.open {
            None => Ok(()),
            Some(index) if !self.are_kept => Err(format!("window {index} is kept for nobody")),
            Some(index) if index != now.as_nanos() / SECOND_NS => {
                Err(format!("window {index} is open at {now:?}"))
            }
            Some(index) if dataplane.poll_timeout().is_none_or(|wake| wake > end_of(index)) => {
                Err(format!("nobody will wake at the end of window {index}"))
            }
            Some(_) => Ok(()),
        }
    }

    /// The driver ends in the middle of a window, in which something has happened.
    pub(super) fn finish(&mut self, dataplane: &mut Dataplane, now: Instant) -> Result<(), String> {
        let open = now.as_nanos() / SECOND_NS;
        if dataplane.used_window() != self.are_kept.then_some(open) {
            return Err(format!("something happened in window {open}, not in {:?}", dataplane.used_window()));
        }
        dataplane.end_window();
        while let Some(window) = poll(dataplane)? {
            self.add(window)?;
        }
        if self.are_kept && self.last != Some(open) {
            return Err(format!("window {open} was open at the end, and is not handed out"));
        }
        self.open = None;
        Ok(())
    }

    fn add(&mut self, window: LoopWindow) -> Result<(), String> {
        if !self.are_kept || self.last >= Some(window.index) {
            return Err(format!("window {} is handed out after {:?}", window.index, self.last));
        }
        self.last = Some(window.index);
        self.measured.merge_requests_and_turns(&window.measured);
        self.counters.merge(&window.counters);
        for server in window.servers {
            let of = self.servers.entry(Arc::clone(&server.server)).or_default();
            of.requests += server.requests;
            of.errors += server.errors;
            of.timeouts += server.timeouts;
            of.queued += server.queued.arrivals;
            of.in_flight += server.in_flight.arrivals;
            of.times += server.time.count();
        }
        Ok(())
    }

    /// With `same_servers` no server has taken its counts away.
    pub(super) fn verdict(&self, report: &Report, same_servers: bool) -> Result<(), String> {
        if !self.are_kept {
            return Ok(());
        }
        for (windows, total) in self.counters.entries().zip(report.counters.entries()) {
            if windows != total {
                return Err(format!("{} of all windows: {}, expected {}", windows.0, windows.2, total.2));
            }
        }
        for operation in Operation::ALL {
            let windows = self.measured.operation(operation);
            let total = report.timing.operation(operation);
            let of = |it: &weir_timing::OperationReport| {
                (it.requests, it.errors, it.hits, it.keys(), it.total.sum())
            };
            if of(windows) != of(total) {
                return Err(format!(
                    "{} of all windows (requests, errors, hits, keys, time): {:?}, expected {:?}",
                    operation.name(),
                    of(windows),
                    of(total)
                ));
            }
        }
        let servers = if same_servers { &report.servers[..] } else { &[] };
        for server in servers {
            let total = OfServer {
                requests: server.requests,
                errors: server.errors,
                timeouts: server.timeouts,
                queued: server.queued.arrivals,
                in_flight: server.in_flight.arrivals,
                times: server.time.count(),
            };
            let windows = self.servers.get(&*server.server).copied().unwrap_or_default();
            if windows != total {
                return Err(format!("{} in all windows: {windows:?}, expected {total:?}", server.server));
            }
        }
        Ok(())
    }
}

/// The oldest window that is over; [`Dataplane::has_window`] says so before.
fn poll(dataplane: &mut Dataplane) -> Result<Option<LoopWindow>, String> {
    let (is_promised, in_service) = (dataplane.has_window(), dataplane.in_service() as u64);
    let window = dataplane.poll_window();
    match &window {
        Some(window) if window.in_service != in_service => Err(format!(
            "window {} has {} requests in service, not {in_service}",
            window.index, window.in_service
        )),
        _ if window.is_some() != is_promised => {
            Err(format!("a window is promised: {is_promised}, and handed out: {}", window.is_some()))
        }
        _ => Ok(window),
    }
}

fn end_of(index: u64) -> Instant {
    Instant::from_nanos((index + 1) * SECOND_NS)
}
