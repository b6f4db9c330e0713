//! What a dataplane says of itself while it works: seconds, rows of sampled requests, turns. All of it must agree with its report at the end.

use weir_dataplane::{Dataplane, Report};
use weir_timing::Instant;

use super::logins;
use super::rows::{self, Rows};
use super::windows::Windows;

/// What a driver asks of a dataplane besides its service.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watching {
    /// It collects windows.
    pub(super) windows: bool,
    /// It collects rows of this share of the requests.
    pub(super) share: Option<f64>,
    /// The kernel tells when it received what is read.
    pub(super) arrivals: bool,
}

/// What one dataplane has said.
#[derive(Debug)]
pub(super) struct Watch {
    watching: Watching,
    windows: Windows,
    rows: Rows,
    turns: u64,
    turns_sum_ns: u128,
}

impl Watch {
    /// From now on the dataplane is asked.
    pub(super) fn new(watching: Watching, dataplane: &mut Dataplane, seed: u64) -> Self {
        if watching.windows {
            dataplane.keep_windows();
        }
        if let Some(share) = watching.share {
            dataplane.trace(share, seed);
        }
        Self {
            watching,
            windows: Windows::new(watching.windows),
            rows: Rows::new(watching),
            turns: 0,
            turns_sum_ns: 0,
        }
    }

    /// A turn is over.
    pub(super) fn end_turn(&mut self, dataplane: &mut Dataplane, now: Instant) -> Result<(), String> {
        // Turns take no time here; what is reported of them must be kept all the same.
        let length_ns = 1 + now.as_nanos() % 1_000;
        dataplane.record_turn(length_ns);
        self.turns += 1;
        self.turns_sum_ns += u128::from(length_ns);
        self.windows.take(dataplane, now)?;
        self.rows.take(dataplane, now)
    }

    /// The driver ends: the open window is shorter. Something happens in it before.
    pub(super) fn finish(&mut self, dataplane: &mut Dataplane, now: Instant) -> Result<(), String> {
        visit(dataplane, self.watching, now)?;
        self.windows.finish(dataplane, now)?;
        self.rows.take(dataplane, now)
    }

    /// Compares all that was said with what the dataplane reports at the end. With `same_servers` no server has taken its counts away.
    pub(super) fn verdict(&self, report: &Report, same_servers: bool) -> Result<(), String> {
        self.windows.verdict(report, same_servers)?;
        self.rows.verdict(report)?;
        let turns = &report.timing.loops()[0];
        if (turns.turns, turns.turn_time.sum()) != (self.turns, self.turns_sum_ns) {
            return Err(format!("{} turns are reported, {} were handed over", turns.turns, self.turns));
        }
        Ok(())
    }

    /// The rows that were collected.
    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }
}

/// A client comes, asks for the version, and goes.
fn visit(dataplane: &mut Dataplane, watching: Watching, now: Instant) -> Result<(), String> {
    // While it drains there is only somebody who is refused.
    let Some(session) = logins::accept(dataplane, now) else { return Ok(()) };
    if watching.arrivals {
        dataplane.note_arrival(session, now, rows::arrival(now));
    }
    dataplane.handle_client_bytes(session, b"version\r\n", now);
    while dataplane.poll_client_output().is_some() {}
    let output = dataplane.client_output(session).to_vec();
    if !output.starts_with(b"VERSION ") {
        return Err(format!("the version is {:?}", String::from_utf8_lossy(&output)));
    }
    dataplane.handle_client_written(session, output.len(), now);
    dataplane.handle_client_closed(session);
    Ok(())
}
