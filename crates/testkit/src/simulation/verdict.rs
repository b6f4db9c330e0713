//! What must hold when all is quiet.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_dataplane::{Report, TopKeys};
use weir_timing::Stage;

use super::client::Ending;
use super::crew::Crew;
use super::rows::Rows;
use super::tables;
use super::world::World;

impl World {
    /// Judges a report that was taken when nothing could happen any more.
    pub(super) fn verdict(&self, report: &Report) -> Result<(), String> {
        self.nothing_is_left(report)?;
        self.what_was_reported_is_so()?;
        self.what_was_watched_is_so()?;
        self.rows_know_when_requests_arrived(report)?;
        self.rows_know_why_requests_failed(report)?;
        self.rows_know_who_failed(report)?;
        self.nothing_is_held()?;
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
            let is_needed = !self.scenario.config.connects_when_needed || server.requests > 0;
            if server.state != if is_needed { "up" } else { "idle" } && server.state != "up" {
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

    fn what_was_reported_is_so(&self) -> Result<(), String> {
        self.loops.iter().try_for_each(|it| {
            let servers = it.dataplane.report(self.now()).servers;
            it.reported.verdict(servers.iter().filter(|server| server.unread.is_some()).count())
        })
    }

    /// Windows, rows and turns are what each dataplane reports.
    fn what_was_watched_is_so(&self) -> Result<(), String> {
        let now = self.now();
        for (number, it) in self.loops.iter().enumerate() {
            let report = it.dataplane.report(now);
            let is_so = it.watch.verdict(&report, self.scenario.reloads == 0);
            is_so.map_err(|reason| format!("loop {number}: {reason}"))?;
            equal("in service", it.dataplane.in_service() as u64, 0)?;
            top_keys_are_some_of_all(&it.dataplane.top_keys(now))?;
        }
        self.crew
            .as_ref()
            .map_or(Ok(()), |crew| crew.verdict(now))
            .map_err(|reason| format!("network: {reason}"))
    }

    /// A request that did not wait unread arrived when the kernel has said so of the read that brought its first byte.
    fn rows_know_when_requests_arrived(&self, report: &Report) -> Result<(), String> {
        if has_waited_unread(report) {
            return Ok(());
        }
        match self.rows().filter_map(Rows::timeless).next() {
            Some(row) => Err(format!("it is not known when a request arrived: {row:?}")),
            None => Ok(()),
        }
    }

    fn rows(&self) -> impl Iterator<Item = &Rows> {
        self.loops.iter().map(|it| it.watch.rows()).chain(self.crew.as_ref().map(Crew::rows))
    }

    /// Why requests failed is counted, too, as soon as that is known. Those whose clients were gone have no row.
    fn rows_know_why_requests_failed(&self, report: &Report) -> Result<(), String> {
        let counters = &report.counters;
        let counted = [
            ("connect", counters.requests_failed_connect),
            ("down", counters.requests_failed_down),
            ("unauthenticated", counters.requests_failed_unauthenticated),
            ("stale", counters.requests_failed_stale),
            ("queue-full", counters.requests_failed_full + counters.requests_failed_queue),
            ("timeout", counters.requests_failed_timeout),
            ("closed", counters.requests_failed_closed),
            ("protocol", counters.requests_failed_protocol),
            ("buffer-full", counters.requests_failed_buffer),
            ("server-error", counters.requests_failed_by_reply),
        ];
        let Some(outcomes) = self.rows().map(Rows::outcomes).collect::<Option<Vec<_>>>() else {
            return Ok(());
        };
        for (outcome, counted) in counted {
            let rows = outcomes.iter().filter_map(|of| of.get(outcome)).sum::<u64>();
            if rows > counted || rows + counters.requests_orphaned < counted {
                return Err(format!("rows of {outcome}: {rows}, expected {counted}"));
            }
        }
        let mut found = outcomes.iter().flat_map(|of| of.keys());
        match found.find(|outcome| counted.iter().all(|(name, _)| name != *outcome)) {
            Some(outcome) => Err(format!("{outcome} is no outcome")),
            None => Ok(()),
        }
    }

    /// Of a client that has seen all its replies, as many failed as the rows say. A reply for which there was no room is a refusal in its
    /// row. A value that was too large is one for its client, though a server may have failed that was to erase what is there.
    fn rows_know_who_failed(&self, report: &Report) -> Result<(), String> {
        let no_room = report.counters.session_refusals_full + report.counters.buffer_refusals_full;
        for client in self.clients.iter().filter(|client| client.ending != Ending::Vanish) {
            let Some(number) = client.row_number else { continue };
            let home = self.loops[client.home].watch.rows().failures(number);
            let network = self.crew.as_ref().map(|crew| crew.rows().failures(number));
            let (Some(home), Some(network)) = (home, network.unwrap_or(Some(&[]))) else { continue };
            let found = (home.len() + network.len()) as u64;
            let tally = client.tally;
            let failures = tally.failures - tally.degraded;
            if found + no_room < failures || found > failures + tally.refusals_large {
                return Err(format!(
                    "client {} met {} failures, and there are rows of {home:?} and {network:?}",
                    client.number, client.tally.failures
                ));
            }
        }
        Ok(())
    }

    /// All loops share one budget, and what they have needed they have given back.
    fn nothing_is_held(&self) -> Result<(), String> {
        if self.loops.iter().any(|it| !Arc::ptr_eq(it.dataplane.budget(), &self.budget)) {
            return Err("a loop has a budget of its own".to_owned());
        }
        equal("bytes held", self.budget.held() as u64, 0)
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

    /// From its first byte at the proxy until the reply stands in the output. That is the proxy's deadline, the time that the rest of a
    /// reply takes whose beginning came in time, and mail from the loop that served it. Where requests wait unread, because their session
    /// is paused or the one before them waits for its key or an earlier request, that time cannot be seen here.
    fn nobody_waited_too_long(&self, report: &Report) -> Result<(), String> {
        // A reply that is cut off in the middle has that time again.
        let deadlines = if self.cut_off { 2 } else { 1 };
        let longest_ns =
            (deadlines - 1) * self.scenario.config.timeout_ns + 2 * self.scenario.conduct.delay_max_ns;
        // A driver that takes requests itself has said so of each (`crew`).
        if has_waited_unread(report) || self.crew.is_some() {
            return Ok(());
        }
        match self.clients.iter().find(|client| client.tally.overdue_max_ns > longest_ns) {
            Some(client) => Err(format!(
                "client {} waited {} ns longer than servers may take, at most {longest_ns} are allowed",
                client.number, client.tally.overdue_max_ns
            )),
            None => Ok(()),
        }
    }

    fn nothing_failed(&self, report: &Report) -> Result<(), String> {
        let failures: u64 = self.clients.iter().map(|client| client.tally.failures).sum();
        // Where a queue was too short, or a key's line too long, that alone is the reason.
        let overdue = if self.scenario.waits_long { report.counters.writes_overdue } else { 0 };
        let denied = report.counters.queue_refusals_full + report.counters.queue_timeouts + overdue;
        // A get that has waited for its key to be filled may be asked again, once of each server, when little of its time is left.
        let again = if self.scenario.waits_long { report.counters.fill_waits_again } else { 0 };
        let late = report.counters.server_timeouts.saturating_sub(again * self.scenario.replicas as u64);
        equal("late servers where nothing is wrong", late, 0)?;
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

/// Whether requests may have waited unread, because their session was paused or for others before them.
fn has_waited_unread(report: &Report) -> bool {
    let counters = &report.counters;
    let waits = [
        counters.sessions_paused,
        counters.session_order_waits,
        counters.writes_held,
        counters.bulk_read_waits,
        counters.bulk_read_slices,
    ];
    waits.iter().sum::<u64>() > 0
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

/// What was seen of the keys that are asked for most can be true.
fn top_keys_are_some_of_all(top: &TopKeys) -> Result<(), String> {
    let certain: u64 = top.hottest(usize::MAX).iter().map(|(_, counts)| counts.certain()).sum();
    if certain > top.looked_at() || top.floor() > top.looked_at() {
        return Err(format!("more keys are certain than were looked at: {top:?}"));
    }
    Ok(())
}
