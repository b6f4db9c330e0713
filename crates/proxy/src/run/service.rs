//! What the service manager gets to know while the proxy serves: one line about it, when that changes.

use crate::{
    admin::reporter::Reporter,
    process::{error::RunError, service_manager::ServiceManager, threads::Watch},
};
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::Duration,
};

/// Between two looks at the proxy, and so between two lines about it.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// Servers that a line names.
const NAMED_MAX: usize = 3;

pub(super) struct Service {
    service_manager: ServiceManager,
    reporter: Reporter,
    /// What was sent last.
    status: String,
}

/// The proxy serves as long as this is there.
pub(super) struct Serving {
    /// Nothing is sent: it is dropped.
    _end: Sender<Infallible>,
}

impl Service {
    pub(super) fn new(service_manager: ServiceManager, reporter: Reporter) -> Self {
        Self { service_manager, reporter, status: String::new() }
    }

    /// Clients can connect from now on.
    pub(super) fn start(mut self, watch: &Watch) -> Result<Serving, RunError> {
        let (serving, ended) = channel();
        if self.service_manager.is_there() {
            self.status = self.line();
            self.service_manager.ready(&self.status);
            watch.spawn("weir-service".into(), move || {
                self.run(&ended);
                Ok(())
            })?;
        }
        Ok(Serving { _end: serving })
    }

    fn run(mut self, ended: &Receiver<Infallible>) {
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(STATUS_EVERY) {
            let line = self.line();
            if line != self.status && !self.reporter.stopping.load(Ordering::SeqCst) {
                self.service_manager.status(&line);
                self.status = line;
            }
        }
    }

    /// What an operator sees in `systemctl status`.
    fn line(&self) -> String {
        let in_force = self.reporter.reload.in_force();
        let (named, down) = self.reporter.notices.servers_down(NAMED_MAX);
        let mut line = format!("listening on {}; ", self.reporter.config.listen);
        line.push_str(&servers(in_force.table().servers().len(), &named, down));
        line.push_str(&format!("; generation {}", in_force.generation()));
        if in_force.refused_last() {
            line.push_str("; the last reload was refused");
        }
        line
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
