//! What the service manager gets to know while the proxy serves: one line about it when that changes, and that it goes on.
//!
//! [`Service`] looks once a second, or more often where the service manager wants to hear from it sooner (`WATCHDOG_USEC`): four times
//! within that time. A sign of life is sent only if all threads that serve have answered since the last look (`engine/watchdog.rs`).
//! From the signal to stop on it is sent in any case: threads end one after the other then, and how long that may take the service
//! manager knows by itself (`TimeoutStopSec`).

use crate::{
    admin::reporter::Reporter,
    engine::watchdog::Watchdog,
    notices::notice::{Notice, Tell},
    process::{
        error::RunError,
        service_manager::{ServiceManager, watchdog_from_env},
        threads::Watch,
    },
};
use std::{
    convert::Infallible,
    mem,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::Duration,
};
use weir_timing::Instant;

/// Between two lines about the proxy, and between two looks at it.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// Looks within the time after which the service manager ends the proxy.
const LOOKS: u32 = 4;

/// Servers that a line names.
const NAMED_MAX: usize = 3;

pub(super) struct Service {
    service_manager: ServiceManager,
    reporter: Reporter,
    tell: Tell,
    watched: Option<Watched>,
    /// What was sent last, and when.
    status: (String, Instant),
}

/// The threads that serve, and within which time the service manager wants to hear of them.
struct Watched {
    threads: Watchdog,
    within: Duration,
    /// Since when one does not answer, and whether that was reported.
    silent: Option<(Instant, bool)>,
}

/// The proxy serves as long as this is there.
pub(super) struct Serving {
    /// Nothing is sent: it is dropped.
    _end: Sender<Infallible>,
}

impl Service {
    pub(super) fn new(service_manager: ServiceManager, reporter: Reporter, tell: Tell) -> Self {
        let threads = Watchdog::new(reporter.reporting.all().clone());
        let watched = watchdog_from_env().map(|within| Watched { threads, within, silent: None });
        Self { service_manager, reporter, tell, watched, status: (String::new(), Instant::ZERO) }
    }

    /// Clients can connect from now on.
    pub(super) fn start(mut self, watch: &Watch) -> Result<Serving, RunError> {
        let (serving, ended) = channel();
        if self.service_manager.is_there() {
            self.status = (self.line(), self.reporter.clock.now());
            self.service_manager.ready(&self.status.0);
            watch.spawn("weir-service".into(), move || {
                self.run(&ended);
                Ok(())
            })?;
        }
        Ok(Serving { _end: serving })
    }

    fn run(mut self, ended: &Receiver<Infallible>) {
        let every = self.watched.as_ref().map_or(STATUS_EVERY, |it| STATUS_EVERY.min(it.within / LOOKS));
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(every) {
            self.look();
        }
    }

    fn look(&mut self) {
        let now = self.reporter.clock.now();
        let is_stopping = self.reporter.stopping.load(Ordering::SeqCst);
        if let Some(watched) = &mut self.watched
            && (is_stopping || watched.go_on(now, &self.tell))
        {
            self.service_manager.alive();
        }
        if is_stopping || between(self.status.1, now) < STATUS_EVERY {
            return;
        }
        let line = self.line();
        let owes_ready = self.service_manager.owes_ready();
        if owes_ready {
            self.service_manager.ready(&line);
        } else if line != self.status.0 {
            self.service_manager.status(&line);
        } else {
            return;
        }
        self.status = (line, now);
    }

    /// What an operator sees in `systemctl status`.
    fn line(&self) -> String {
        let in_force = self.reporter.reload.in_force();
        let (named, down) = self.reporter.notices.servers_down(NAMED_MAX);
        let mut line = format!("listening on {}; ", self.reporter.config.addresses());
        line.push_str(&servers(in_force.table().servers().len(), &named, down));
        line.push_str(&format!("; generation {}", in_force.generation()));
        if in_force.refused_last() {
            line.push_str("; the last reload was refused");
        }
        line
    }
}

impl Watched {
    /// Whether all threads that serve have answered.
    fn go_on(&mut self, now: Instant, tell: &Tell) -> bool {
        let (silent, threads) = self.threads.look();
        if silent == 0 {
            if let Some((since, true)) = self.silent.take() {
                tell(Notice::ThreadsAnswer { after: between(since, now) });
            }
            return true;
        }
        let (since, is_reported) = self.silent.get_or_insert((now, false));
        let since = between(*since, now);
        // Before the service manager ends the proxy, so that the log has the reason.
        if since >= self.within / 2 && !mem::replace(is_reported, true) {
            tell(Notice::ThreadsSilent { silent, threads, since });
        }
        false
    }
}

/// How many servers there are, and which of them are down.
fn servers(count: usize, named: &[Arc<str>], down: usize) -> String {
    let servers = if count == 1 { "server" } else { "servers" };
    if down == 0 {
        return format!("{count} {servers}, none down");
    }
    let more = down.saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{down} of {count} {servers} down: {}{more}", named.join(", "))
}

fn between(since: Instant, now: Instant) -> Duration {
    Duration::from_nanos(now.saturating_since(since))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_some_of_the_servers_that_are_down() {
        let check = |count, named: &[&str], down| {
            let named: Vec<_> = named.iter().map(|&name| name.into()).collect();
            servers(count, &named, down)
        };
        assert_eq!(check(1, &[], 0), "1 server, none down");
        assert_eq!(check(3, &[], 0), "3 servers, none down");
        assert_eq!(check(3, &["a:1", "b:1"], 2), "2 of 3 servers down: a:1, b:1");
        assert_eq!(check(9, &["a:1", "b:1", "c:1"], 7), "7 of 9 servers down: a:1, b:1, c:1 and 4 more");
    }
}
