//! `stats`, in band. An event loop that is asked passes the question to this thread, which may wait for all loops, and gets the text
//! back through its mailbox.
//!
//! The names are memcached's where the meaning is the same, seen from the clients: `cmd_get` counts keys, `get_hits` and `get_misses`
//! are those of retrievals, and so on. What belongs to one server's memory (`curr_items`, `evictions`, …) is not there.

use crate::{
    admin::{
        hot_keys,
        reporter::{Reporter, Sums},
    },
    config::{
        listeners::Listen,
        settings::{PoolSettings, Table as _},
    },
    engine::event::server_links::NO_TLS,
    mailbox::{BUSY, Message, Question},
    process::usage::Usage,
};
use std::{
    fmt::Display,
    io::{self, Write as _},
    net::SocketAddr,
    sync::mpsc::Receiver,
};
use weir_dataplane::{Report, StatsTopic, TopKeys};
use weir_timing::{Operation, OperationReport};

/// Answers until all loops have ended.
pub(crate) fn serve(questions: &Receiver<Question>, reporter: &Reporter) -> io::Result<()> {
    let mut since = Counts::default();
    while let Ok(Question { from, request, topic }) = questions.recv() {
        let answered = match topic {
            StatsTopic::Hot => reporter.top_keys().map(|top| hot(reporter, &top)),
            _ => reporter.report().map(|report| answer(topic, reporter, &report, &mut since)),
        };
        let text = answered.unwrap_or_else(|_| BUSY.to_vec());
        if let Some(asked_by) = reporter.reporting.all().all().get(from) {
            // A loop that has ended has no client to answer.
            let _ = asked_by.send(Message::Stats { request, text });
        }
    }
    Ok(())
}

fn answer(topic: StatsTopic, reporter: &Reporter, report: &Report, since: &mut Counts) -> Vec<u8> {
    let mut page = Page::default();
    match topic {
        StatsTopic::General => general(&mut page, reporter, report, since),
        StatsTopic::Proxy => {
            page.stat("buffered_bytes", report.buffered_bytes);
            for (name, _, value) in report.counters.entries() {
                page.stat(name, value);
            }
        }
        StatsTopic::Servers => servers(&mut page, report),
        StatsTopic::Settings => settings(&mut page, reporter, report),
        // What is asked of all loops for it is something else.
        StatsTopic::Hot => {}
        StatsTopic::Reset => {
            *since = Counts::of(report);
            return b"RESET\r\n".to_vec();
        }
    }
    page.end()
}

fn hot(reporter: &Reporter, top: &Sums<TopKeys>) -> Vec<u8> {
    let mut page = Page::default();
    hot_keys::stats(reporter, top, |name, value| page.stat(name, value));
    page.end()
}

fn general(page: &mut Page, reporter: &Reporter, report: &Report, since: &Counts) {
    let process = Usage::read();
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
    page.stat("threads", reporter.config.serving_threads());
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

fn settings(page: &mut Page, reporter: &Reporter, report: &Report) {
    let (config, in_force, settings) = (&reporter.config, reporter.reload.in_force(), reporter.settings());
    let default = in_force.table().pools()[0].router();
    page.stat("weir_version", env!("CARGO_PKG_VERSION"));
    page.stat("weir_commit", config.commit);
    page.stat("maxconns", reporter.descriptors.plan().clients);
    // Of several places the first of each kind: memcached has no more.
    let mut places = config.listeners.iter().map(|place| &place.at);
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
    page.stat("num_threads", config.serving_threads());
    page.stat("item_size_max", report.value_bytes_max);
    page.stat("flush_enabled", if settings.allow_flush { "yes" } else { "no" });
    page.stat("servers", in_force.table().servers().len());
    page.stat("pools", in_force.table().pools().len());
    page.stat("timeout_ms", settings.timeout.as_millis());
    page.stat("generation", in_force.generation());
    page.stat("loaded", in_force.loaded_unix_ns() / 1_000_000_000);
    page.stat("reloads_refused", in_force.refused());
    for (row, text) in settings.entries().into_iter().chain(PoolSettings::from(default.options()).entries()) {
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
