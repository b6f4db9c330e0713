//! What must hold when all is quiet.

use std::collections::BTreeMap;

use weir_dataplane::Report;
use weir_timing::Stage;

use super::tables;
use super::world::World;

impl World {
    /// Judges a report that was taken when nothing could happen any more.
    pub(super) fn verdict(&self, report: &Report) -> Result<(), String> {
        self.nothing_is_left(report)?;
        self.what_was_told_is_so()?;
        self.counts_agree(report)?;
        stages_add_up(report)?;
        self.nobody_waited_too_long(report)?;
        if self.scenario.keeps_order() {
            self.nothing_old_is_left()?;
        }
        if self.scenario.converges() {
            self.replicas_are_equal()?;
        }
        if self.scenario.is_calm() {
            self.nothing_failed(report)?;
            if self.scenario.reloads == 0 {
                self.replicas_agree()?;
            }
        }
        Ok(())
    }

    fn nothing_is_left(&self, report: &Report) -> Result<(), String> {
        if let Some(client) = self.clients.iter().find(|client| client.session.is_some()) {
            return Err(format!("client {} is still connected", client.number));
        }
        equal("sessions", report.sessions, 0)?;
        if self.loops.iter().any(|it| !it.dataplane.is_drained()) {
            return Err("no session is left, and a dataplane waits for one".to_owned());
        }
        for server in &report.servers {
            equal(
                &format!("queued at {} which is {}", server.server, server.state),
                server.queued.length,
                0,
            )?;
            equal(&format!("in flight at {}", server.server), server.in_flight.length, 0)?;
            if server.state != "up" {
                return Err(format!("{} is {} though nothing hinders it", server.server, server.state));
            }
        }
        if self.loops.iter().any(|it| !it.dataplane.is_quiet()) {
            return Err("something is left in a dataplane".to_owned());
        }
        if self.crew.as_ref().is_some_and(|crew| !crew.is_quiet()) {
            return Err("something is left with the driver".to_owned());
        }
        Ok(())
    }

    fn what_was_told_is_so(&self) -> Result<(), String> {
        self.loops.iter().try_for_each(|it| {
            let servers = it.dataplane.report(self.now()).servers;
            it.told.verdict(servers.iter().filter(|server| server.unread.is_some()).count())
        })
    }

    fn counts_agree(&self, report: &Report) -> Result<(), String> {
        let counters = &report.counters;
        let answered: u64 = report.timing.operations().iter().map(|(_, operation)| operation.requests).sum();
        // Whether a `quit` was taken before the proxy began to drain cannot be seen of a session that was paused.
        let drains = self.loops.iter().any(|it| it.drained_ns.is_some());
        if !drains || counters.sessions_paused + counters.session_order_waits == 0 {
            equal(
                "requests = answered + orphaned + quits",
                counters.requests,
                answered + counters.requests_orphaned + self.quits,
            )?;
        }
        equal("sessions accepted = closed", counters.sessions_accepted, counters.sessions_closed)?;
        for server in &report.servers {
            equal("messages = arrivals in the queue", server.requests, server.queued.arrivals)?;
        }
        let timeouts = report.servers.iter().map(|server| server.timeouts).sum();
        // A server that has left has taken its counts with it.
        if self.scenario.reloads == 0 {
            equal("timeouts", counters.server_timeouts, timeouts)?;
        }
        for (operation, total) in report.timing.operations().iter() {
            let (requests, errors) =
                report.timing.windows().iter().fold((0, 0), |(requests, errors), window| {
                    let counts = window.counts(operation);
                    (requests + counts.requests, errors + counts.errors)
                });
            equal("requests of all windows", requests, total.requests)?;
            equal("errors of all windows", errors, total.errors)?;
        }
        Ok(())
    }

    /// From its first byte at the proxy until the reply stands in the output: the proxy's deadline, and the time that the
    /// rest of a reply takes whose beginning came in time, and mail from the loop that served it. Where requests wait unread, because
    /// their session is paused or the one before them waits for its key or an earlier request, that time cannot be seen here.
    fn nobody_waited_too_long(&self, report: &Report) -> Result<(), String> {
        // A reply that is cut off in the middle has that time again.
        let deadlines = if self.cut_off { 2 } else { 1 };
        let longest_ns = deadlines * self.scenario.config.timeout_ns + 2 * self.scenario.conduct.delay_max_ns;
        let counters = &report.counters;
        let waits = [
            counters.sessions_paused,
            counters.session_order_waits,
            counters.writes_held,
            counters.bulk_read_waits,
            counters.bulk_read_slices,
        ];
        // A driver that takes requests itself has said so of each (`crew`).
        if waits.iter().sum::<u64>() > 0 || self.crew.is_some() {
            return Ok(());
        }
        match self.clients.iter().find(|client| client.tally.wait_max_ns > longest_ns) {
            Some(client) => Err(format!(
                "client {} waited {} ns, at most {longest_ns} are allowed",
                client.number, client.tally.wait_max_ns
            )),
            None => Ok(()),
        }
    }

    fn nothing_failed(&self, report: &Report) -> Result<(), String> {
        let failures: u64 = self.clients.iter().map(|client| client.tally.failures).sum();
        // Where a queue was too short that alone is the reason.
        let denied = report.counters.queue_refusals_full + report.counters.queue_timeouts;
        equal("failures where nothing is wrong", failures.saturating_sub(denied), 0)?;
        equal(
            "failed requests where nothing is wrong",
            report.counters.requests_failed.saturating_sub(denied),
            0,
        )?;
        equal("degraded keys where nothing is wrong", report.counters.keys_degraded, 0)?;
        equal("lost connections where nothing is wrong", report.counters.server_disconnects, 0)
    }

    /// No replica holds what was overwritten.
    fn nothing_old_is_left(&self) -> Result<(), String> {
        for server in &self.servers {
            for (key, item) in server.memcached.items() {
                self.history.check_at_the_end(key, &item.value)?;
            }
        }
        Ok(())
    }

    /// Of the replicas that hold a key, all hold the same. What was made where it was missed is nobody else's: another may hold more.
    fn replicas_are_equal(&self) -> Result<(), String> {
        let mut held = BTreeMap::new();
        for (number, server) in self.servers.iter().enumerate() {
            let items = server.memcached.items().filter(|(_, item)| !item.value.is_empty());
            for (key, item) in items {
                let (first, value, flags) = *held.entry(key).or_insert((number, &item.value, item.flags));
                if (value, flags) != (&item.value, item.flags) {
                    let [key, here, there] =
                        [key, &item.value, value].map(|it| String::from_utf8_lossy(it).into_owned());
                    return Err(format!(
                        "{key} is {here:?} on server {number} and {there:?} on server {first}"
                    ));
                }
            }
        }
        Ok(())
    }

    /// Each replica holds what the primary holds. After a conditional write it may hold nothing.
    fn replicas_agree(&self) -> Result<(), String> {
        for (number, server) in self.servers.iter().enumerate() {
            for (key, item) in server.memcached.items() {
                let places = tables::places(&self.loops[0].table, key);
                let name = String::from_utf8_lossy(key);
                if !places.contains(&number) {
                    return Err(format!("{name} is on server {number}, where it does not belong"));
                }
                if item.value.is_empty() {
                    // It was made where it was missed, before the primary was connected.
                    continue;
                }
                let primary = self.servers[places[0]].memcached.item(key);
                if primary.map(|item| (&item.value, item.flags)) != Some((&item.value, item.flags)) {
                    return Err(format!("{name} on server {number} is not what its primary holds"));
                }
            }
        }
        Ok(())
    }
}

fn stages_add_up(report: &Report) -> Result<(), String> {
    for (operation, total) in report.timing.operations().iter() {
        let sum: u128 = Stage::ALL.into_iter().map(|stage| total.stage(stage).sum()).sum();
        if sum != total.total.sum() {
            return Err(format!("the stages of {} do not add up", operation.name()));
        }
        for stage in Stage::ALL {
            equal("requests in a stage", total.stage(stage).count(), total.requests)?;
        }
    }
    Ok(())
}

fn equal(what: &str, found: u64, expected: u64) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found}, expected {expected}")) }
}
