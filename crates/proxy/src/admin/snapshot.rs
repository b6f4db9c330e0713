//! `GET /snapshot`: `weir.proxy/1` of `docs/reference/formats.md`.

use crate::{
    admin::{
        pools::{self, PoolCounts},
        reporter::{Reporter, Sums},
    },
    config::{
        listeners::ListenPlace,
        nanos,
        settings::{Place, PoolSettings, Settings, Table as _},
    },
    connections::listener_counts::ListenerCounts,
    process::{clock, usage::Usage},
    reload::handle::InForce,
};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use weir_dataplane::{Report, ServerReport, StationEntry};
use weir_routing::Pool;

pub(crate) fn write(reporter: &Reporter, report: &Sums<Report>) -> String {
    let counters: Map<_, _> =
        report.counters.entries().map(|(name, _, value)| (name.to_owned(), json!(value))).collect();
    let admin: Map<_, _> = reporter
        .admin
        .counts()
        .into_iter()
        .map(|(name, .., value)| (name.to_owned(), json!(value)))
        .collect();
    let servers: Vec<_> = report.servers.iter().map(server).collect();
    let listeners: Vec<_> = reporter.listeners.iter().map(|counts| listener(counts)).collect();
    let value = json!({
        "schema": "weir.proxy/1",
        "weir_version": env!("CARGO_PKG_VERSION"),
        "weir_commit": reporter.config.commit,
        "taken_unix_ns": clock::unix_ns(),
        "uptime_ns": reporter.clock.now().as_nanos(),
        "config": config(reporter),
        "process": process(),
        "sessions": report.sessions,
        "buffered_bytes": report.buffered_bytes,
        "counters": counters,
        "admin": admin,
        "listeners": listeners,
        "pools": own_pools(reporter, report),
        "log_lines_lost": reporter.notices.lost(),
        "operations": report.timing.operations(),
        "servers": servers,
        "queue": report.queue,
        "stations": report.stations.iter().map(station).collect::<Vec<_>>(),
        "loops": report.timing.loops(),
        "windows": report.timing.windows(),
    });
    value.to_string()
}

/// What is in force. What stands beside `settings` is derived from them, or has a name from before they were there.
pub(crate) fn config(reporter: &Reporter) -> Value {
    let descriptors = reporter.descriptors.plan();
    let (config, in_force, settings) = (&reporter.config, reporter.reload.in_force(), reporter.settings());
    let table = in_force.table();
    let default = table.pools()[0].router();
    let names: Vec<_> = table.servers().iter().map(|server| server.name.as_str()).collect();
    let routes: Vec<_> = table
        .routes()
        .map(|(prefix, pool)| json!({"prefix": String::from_utf8_lossy(prefix), "pool": pool}))
        .collect();
    let mut value = json!({
        "settings": settings.json(),
        "listeners": config.listeners.iter().map(place).collect::<Vec<_>>(),
        "servers": names,
        "replicas": default.replicas(),
        "threads": config.serving_threads(),
        "placement": default.placement().to_string(),
        "sessions_max": descriptors.clients,
        "descriptors_max": descriptors.limit,
        "descriptors_reserved": descriptors.reserved,
        "generation": in_force.generation(),
        "loaded_unix_ns": in_force.loaded_unix_ns(),
        "reloads_refused": in_force.refused(),
        "pools": table.pools().iter().map(|it| pool(it, reporter, &in_force)).collect::<Vec<_>>(),
        "routes": routes,
        "admin_hosts": settings.admin_host,
        "timeout_ns": nanos(settings.timeout),
        "drain_timeout_ns": nanos(settings.drain_timeout),
        "drain_delay_ns": nanos(settings.drain_delay),
        "resolve_every_ns": nanos(settings.resolve_every),
        "value_bytes_max": settings.max_value,
        "client_buffer_bytes_max": settings.client_buffer,
        "server_buffer_bytes_max": settings.server_buffer,
    });
    for (name, setting) in OF_SETTINGS {
        value[name] = value["settings"][setting].clone();
    }
    value
}

/// What stands beside `settings` as it stands there: its name, and the setting's.
const OF_SETTINGS: [(&str, &str); 19] = [
    ("engine", "engine"),
    ("listen", "listen"),
    ("admin", "admin"),
    ("multiget", "multiget"),
    ("join_gets", "join_gets"),
    ("ask_once", "ask_once"),
    ("on_failure", "on_failure"),
    ("write_policy", "write_policy"),
    ("replicas_required", "replicas_required"),
    ("read", "read"),
    ("on_stale", "on_stale"),
    ("read_repair", "read_repair"),
    ("sessions_max_wanted", "max_connections"),
    ("flush_allowed", "allow_flush"),
    ("server_commands_allowed", "allow_server_commands"),
    ("windows_file", "windows"),
    ("trace_file", "trace"),
    ("trace_sample", "trace_sample"),
    ("trace_seed", "trace_seed"),
];

/// A place where clients connect.
fn place(place: &ListenPlace) -> Value {
    json!({"listen": place.at.to_string(), "tls": place.speaks_tls, "login": place.wants_login, "pool": place.pool})
}

fn pool(pool: &Pool, reporter: &Reporter, in_force: &InForce) -> Value {
    let names = in_force.table().servers_of(pool).map(|server| server.name.as_str()).collect::<Vec<_>>();
    let mut value = PoolSettings::from(pool.router().options()).json();
    value["pool"] = json!(pool.name());
    value["servers"] = json!(names);
    // Where its clients have places of their own, what else it goes by is its own, too.
    if let Some(group) = in_force.groups().of_place(Some(pool.name())) {
        let settings = in_force.groups().all()[group].settings(in_force.settings()).json();
        for row in Settings::ROWS.iter().filter(|row| row.place == Place::AllPools) {
            value[row.name] = settings[row.name].clone();
        }
        value["threads"] = json!(reporter.config.of_group(group).serving_threads());
    }
    value
}

fn server(server: &ServerReport) -> Value {
    json!({
        "server": server.server,
        "state": server.state,
        "requests": server.requests,
        "errors": server.errors,
        "timeouts": server.timeouts,
        "queued": server.queued,
        "in_flight": server.in_flight,
        "journal": server.journal,
        "unread": server.unread,
        "last_trouble": server.last_trouble,
        "server_time": server.time.report(),
    })
}

fn listener(counts: &ListenerCounts) -> Value {
    json!({
        "listener": counts.at(),
        "pool": counts.pool(),
        "sessions": counts.open(),
        "accepted": counts.accepted(),
        "refused": counts.refused(),
    })
}

/// What clients of pools have asked for that have places of their own.
fn own_pools(reporter: &Reporter, report: &Sums<Report>) -> Vec<Value> {
    let pool = |(pool, counts): (Arc<str>, PoolCounts)| {
        let PoolCounts { sessions, requests, errors, hits, misses } = counts;
        json!({
            "pool": &*pool,
            "sessions": sessions,
            "requests": requests,
            "errors": errors,
            "hits": hits,
            "misses": misses,
        })
    };
    pools::counts(reporter, report).into_iter().map(pool).collect()
}

fn station(entry: &StationEntry) -> Value {
    let mut value = json!(entry.measured);
    value["station"] = json!(entry.station);
    value["server"] = json!(entry.server);
    value["threads"] = json!(entry.threads);
    value["crew"] = entry.crew.map_or(
        Value::Null,
        |crew| json!({ "now": crew.now, "least": crew.least, "time_integral_ns": crew.time_integral_ns }),
    );
    value
}

/// What the kernel knows of this process; fields that it does not tell are 0.
fn process() -> Value {
    let usage = Usage::read();
    json!({
        "pid": std::process::id(),
        "cpu_user_ns": usage.cpu_user_ns(),
        "cpu_system_ns": usage.cpu_system_ns(),
        "resident_bytes": usage.resident_bytes(),
    })
}
