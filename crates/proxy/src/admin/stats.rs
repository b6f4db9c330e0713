//! `stats`, in band. An event loop that is asked passes the question to this thread, which may wait for all loops, and gets the text
//! back through its mailbox.
//!
//! The names are memcached's where the meaning is the same, seen from the clients: `cmd_get` counts keys, `get_hits` and `get_misses`
//! are those of retrievals, and so on. What belongs to one server's memory (`curr_items`, `evictions`, …) is not there.
//!
//! Who asks reads of its own group of clients (`config/groups.rs`): of its pool, where its place names one, as if the pool had a proxy of
//! its own. What groups share is the process's: its number, its age, its CPU time, how many may connect, and the memory of buffers.

use crate::{
    admin::{hot_keys, reporter::Reporter},
    config::{
        listeners::Listen,
        settings::{Place, PoolSettings, Table as _},
    },
    engine::event::server_links::NO_TLS,
    mailbox::{BUSY, Message, QUESTIONS_MAX, Question},
    process::usage::Usage,
    reload::handle::InForce,
};
use std::{
    fmt::Display,
    io::{self, Write as _},
    mem,
    net::SocketAddr,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::Duration,
};
use weir_dataplane::{Report, StatsTopic, TopKeys};
use weir_routing::Table;
use weir_timing::{Instant, Operation, OperationReport};

/// Answers until all loops have ended.
///
/// A report costs each loop of a group some of its time, and any client may ask. So what waits is answered by one report, and reports of a
/// group have a [`Pace`]. Each is made after it was asked for, so that it counts what its client was answered before.
pub(crate) fn serve(questions: &Receiver<Question>, reporter: &Reporter) -> io::Result<()> {
    let mut since = vec![Counts::default(); reporter.config.groups().all().len()];
    let mut groups: Vec<Waiting> = since.iter().map(|_| Waiting::default()).collect();
    while take(questions, reporter, &mut groups) {
        let now = reporter.clock.now();
        for (group, waiting) in groups.iter_mut().enumerate() {
            if waiting.is_due(now) {
                answer_all(mem::take(&mut waiting.questions), group, reporter, &mut since[group]);
            }
        }
    }
    Ok(())
}

/// What clients of one group have asked and were not answered yet.
#[derive(Default)]
struct Waiting {
    questions: Vec<Question>,
    pace: Pace,
}

impl Waiting {
    /// Whether they are to be answered now. As many as loops take before they refuse more are: one report is little for all of them.
    fn is_due(&mut self, now: Instant) -> bool {
        match self.questions.len() {
            0 => false,
            QUESTIONS_MAX.. => true,
            _ => self.pace.admits(now),
        }
    }
}

/// Waits until something is to be answered, and sorts what was asked by groups. `false`: all loops have ended.
fn take(questions: &Receiver<Question>, reporter: &Reporter, groups: &mut [Waiting]) -> bool {
    let due = groups.iter().filter(|it| !it.questions.is_empty()).map(|it| it.pace.due()).min();
    let left = due.map(|due| Duration::from_nanos(due.saturating_since(reporter.clock.now())));
    let first = left.map_or_else(
        || questions.recv().map_err(|_| RecvTimeoutError::Disconnected),
        |left| questions.recv_timeout(left),
    );
    let mut next = match first {
        Ok(question) => Some(question),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => return false,
    };
    let mut taken = 0;
    while let Some(question) = next {
        groups[reporter.reporting.of_thread(question.from)].questions.push(question);
        taken += 1;
        next = (taken < QUESTIONS_MAX).then(|| questions.try_recv().ok()).flatten();
    }
    true
}

/// Answers questions of one group by one report.
fn answer_all(questions: Vec<Question>, group: usize, reporter: &Reporter, since: &mut Counts) {
    let asked = Asked { reporter, in_force: reporter.reload.in_force(), group };
    let (mut report, mut top) = (None, None);
    for Question { from, request, topic } in questions {
        let text = match topic {
            StatsTopic::Hot => top
                .get_or_insert_with(|| reporter.top_keys_of(group).ok())
                .as_ref()
                .map(|top| hot(&asked, top)),
            _ => report
                .get_or_insert_with(|| reporter.report_of(group).ok())
                .as_ref()
                .map(|report| answer(topic, &asked, report, since)),
        };
        if let Some(asked_by) = reporter.reporting.all().all().get(from) {
            // A loop that has ended has no client to answer.
            let _ = asked_by.send(Message::Stats { request, text: text.unwrap_or_else(|| BUSY.to_vec()) });
        }
    }
}

/// How often something may happen: so often at once, and then once in a while (the generic cell rate algorithm, ITU-T I.371).
#[derive(Clone, Copy, Default)]
struct Pace {
    /// When it would be due if nothing were allowed at once.
    next: Instant,
}

impl Pace {
    const AT_ONCE: u64 = 20;
    const EVERY_NS: u64 = 50_000_000;

    /// When it may happen next.
    fn due(self) -> Instant {
        Instant::from_nanos(self.next.as_nanos().saturating_sub((Self::AT_ONCE - 1) * Self::EVERY_NS))
    }

    /// Whether it may happen now; then it does.
    fn admits(&mut self, now: Instant) -> bool {
        let is_due = self.due() <= now;
        if is_due {
            self.next = self.next.max(now).plus(Self::EVERY_NS);
        }
        is_due
    }
}

/// Clients of one group, and what holds for them.
struct Asked<'a> {
    reporter: &'a Reporter,
    in_force: InForce,
    group: usize,
}

impl Asked<'_> {
    /// Where their keys go.
    fn table(&self) -> &Table {
        self.in_force.table_of(self.group)
    }

    /// Where they connect.
    fn places(&self) -> impl Iterator<Item = &Listen> + Clone {
        let config = &self.reporter.config;
        let is_theirs = move |pool: Option<&str>| config.groups().of_place(pool) == Some(self.group);
        config.listeners.iter().filter(move |place| is_theirs(place.pool.as_deref())).map(|place| &place.at)
    }

    /// How many threads serve them.
    fn threads(&self) -> usize {
        self.reporter.config.of_group(self.group).serving_threads()
    }
}

fn answer(topic: StatsTopic, asked: &Asked<'_>, report: &Report, since: &mut Counts) -> Vec<u8> {
    let mut page = Page::default();
    match topic {
        StatsTopic::General => general(&mut page, asked, report, since),
        StatsTopic::Proxy => {
            page.stat("buffered_bytes", report.buffered_bytes);
            for (name, _, value) in report.counters.entries() {
                page.stat(name, value);
            }
        }
        StatsTopic::Servers => servers(&mut page, report),
        StatsTopic::Settings => settings(&mut page, asked, report),
        // What loops are asked for it is something else.
        StatsTopic::Hot => {}
        StatsTopic::Reset => {
            *since = Counts::of(report);
            return b"RESET\r\n".to_vec();
        }
    }
    page.end()
}

fn hot(asked: &Asked<'_>, top: &TopKeys) -> Vec<u8> {
    let mut page = Page::default();
    hot_keys::stats(asked.reporter, asked.table(), top, |name, value| page.stat(name, value));
    page.end()
}

fn general(page: &mut Page, asked: &Asked<'_>, report: &Report, since: &Counts) {
    let (reporter, process) = (asked.reporter, Usage::read());
    let uptime = reporter.clock.now().as_nanos() / 1_000_000_000;
    page.stat("pid", std::process::id());
    page.stat("uptime", uptime);
    page.stat("time", crate::process::clock::unix_ns() / 1_000_000_000);
    match &report.version {
        Some(version) => page.stat("version", version),
        None => page.stat("version", &weir_dataplane::Config::default().version),
    }
    page.stat("pointer_size", usize::BITS);
    page.stat("rusage_user", format_args!("{:.6}", process.cpu_user_ns() as f64 / 1e9));
    page.stat("rusage_system", format_args!("{:.6}", process.cpu_system_ns() as f64 / 1e9));
    page.stat("max_connections", reporter.descriptors.plan().clients);
    page.stat("curr_connections", report.sessions);
    for ((name, now), before) in Counts::NAMES.iter().zip(Counts::of(report).0).zip(since.0) {
        page.stat(name, now.saturating_sub(before));
    }
    page.stat("threads", asked.threads());
}

/// The counts that `stats reset` sets to nothing.
#[derive(Clone, Default)]
struct Counts([u64; Counts::NAMES.len()]);

impl Counts {
    const NAMES: [&'static str; 25] = [
        "total_connections",
        "rejected_connections",
        "cmd_get",
        "cmd_set",
        "cmd_touch",
        "get_hits",
        "get_misses",
        "bytes_read",
        "bytes_written",
        "cmd_delete",
        "cmd_incr",
        "cmd_decr",
        "delete_misses",
        "delete_hits",
        "incr_misses",
        "incr_hits",
        "decr_misses",
        "decr_hits",
        "cas_misses",
        "cas_hits",
        "cas_badval",
        "touch_hits",
        "touch_misses",
        "auth_cmds",
        "auth_errors",
    ];

    fn of(report: &Report) -> Self {
        use Operation as O;
        let counters = &report.counters;
        let sum = |operations: &[O], count: fn(&OperationReport) -> u64| {
            operations.iter().map(|&operation| count(report.timing.operation(operation))).sum::<u64>()
        };
        let retrievals = [O::Get, O::MultiGet, O::Gat];
        let storages = [O::Set, O::Add, O::Replace, O::Append, O::Prepend, O::Cas];
        Self([
            counters.sessions_accepted,
            counters.sessions_refused,
            sum(&retrievals, OperationReport::keys),
            sum(&storages, |it| it.requests),
            sum(&[O::Touch, O::Gat], OperationReport::keys),
            sum(&retrievals, |it| it.hits),
            sum(&retrievals, OperationReport::misses),
            counters.client_bytes_read,
            counters.client_bytes_written,
            sum(&[O::Delete], |it| it.requests),
            sum(&[O::Incr], |it| it.requests),
            sum(&[O::Decr], |it| it.requests),
            counters.delete_misses,
            counters.delete_hits,
            counters.incr_misses,
            counters.incr_hits,
            counters.decr_misses,
            counters.decr_hits,
            counters.cas_misses,
            counters.cas_hits,
            counters.cas_badval,
            // memcached counts `gat` with both.
            counters.touch_hits + sum(&[O::Gat], |it| it.hits),
            counters.touch_misses + sum(&[O::Gat], OperationReport::misses),
            // A certificate is no command.
            counters.logins - counters.logins_by_certificate + counters.logins_failed,
            counters.logins_failed,
        ])
    }
}

fn servers(page: &mut Page, report: &Report) {
    for server in &report.servers {
        let mut stat =
            |name: &str, value: &dyn Display| page.stat(&format!("{}:{name}", server.server), value);
        stat("state", &server.state);
        stat("requests", &server.requests);
        stat("errors", &server.errors);
        stat("timeouts", &server.timeouts);
        stat("queued", &server.queued.length);
        stat("in_flight", &server.in_flight.length);
        stat("journal", &server.journal);
        stat("unread", &server.unread.unwrap_or("no"));
        // Nothing else of the last trouble: it may have bytes that another client stored.
        if let Some(reason) = server.last_trouble.as_deref().and_then(|it| it.strip_prefix(NO_TLS)) {
            stat("no_tls", &reason);
        }
    }
}

fn settings(page: &mut Page, asked: &Asked<'_>, report: &Report) {
    let Asked { reporter, in_force, group } = asked;
    let (mut settings, table) = (reporter.settings(), asked.table());
    // Of several places the first of each kind: memcached has no more.
    let mut places = asked.places();
    if let Some(first) = places.clone().next() {
        settings.listen = first.to_string();
    }
    page.stat("weir_version", env!("CARGO_PKG_VERSION"));
    page.stat("weir_commit", reporter.config.commit);
    page.stat("maxconns", reporter.descriptors.plan().clients);
    let port = places.clone().find_map(|at| if let Listen::Tcp(address) = at { Some(address) } else { None });
    page.stat("tcpport", port.map_or(0, SocketAddr::port));
    if let Some(address) = port {
        page.stat("inter", address.ip());
    }
    if let Some(path) =
        places.find_map(|at| if let Listen::Unix { path, .. } = at { Some(path) } else { None })
    {
        page.stat("domain_socket", path.display());
    }
    // Servers have levels of their own, and do not learn a client's.
    page.stat("verbosity", 0);
    page.stat("num_threads", asked.threads());
    page.stat("item_size_max", report.value_bytes_max);
    page.stat("flush_enabled", if settings.allow_flush { "yes" } else { "no" });
    page.stat("servers", table.servers().len());
    page.stat("pools", table.pools().len());
    let of_group = in_force.groups().all()[*group].settings(&settings);
    page.stat("timeout_ms", of_group.timeout.as_millis());
    page.stat("generation", in_force.generation());
    page.stat("loaded", in_force.loaded_unix_ns() / 1_000_000_000);
    page.stat("reloads_refused", in_force.refused());
    // What pools may say holds for their clients; all else was said for the process.
    let own = of_group.entries().into_iter().map(|(_, text)| text);
    let entries = settings.entries().into_iter().zip(own);
    let entries =
        entries.map(|((row, text), own)| (row, if row.place == Place::AllPools { own } else { text }));
    let default = PoolSettings::from(table.pools()[0].router().options());
    for (row, text) in entries.chain(default.entries()) {
        page.stat(row.name, text.filter(|text| !text.is_empty()).as_deref().unwrap_or("unset"));
    }
}

#[derive(Default)]
struct Page(Vec<u8>);

impl Page {
    fn stat(&mut self, name: &str, value: impl Display) {
        write!(self.0, "STAT {name} {value}\r\n").expect("a vector takes all bytes");
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"END\r\n");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// A client that asked without end took a third of a loop's time.
    #[test]
    fn a_group_has_so_many_reports_at_once_and_then_one_in_a_while() {
        let mut pace = Pace::default();
        let start = Instant::from_nanos(7 * SECOND_NS);
        let mut at_once = 0;
        while pace.admits(start) {
            at_once += 1;
        }
        assert_eq!(at_once, Pace::AT_ONCE);
        assert_eq!(pace.due(), start.plus(Pace::EVERY_NS));
        // Whoever asks each millisecond gets what the pace allows.
        let admitted = (1..=1_000).filter(|ms| pace.admits(start.plus(ms * SECOND_NS / 1_000))).count();
        assert_eq!(admitted, 20);
        // What was not used is there again after a while, and no more than that.
        let later = start.plus(60 * SECOND_NS);
        assert_eq!((0..100).filter(|_| pace.admits(later)).count() as u64, Pace::AT_ONCE);
    }
}
