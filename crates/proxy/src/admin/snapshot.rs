//! `GET /snapshot`: `weir.proxy/1` of `docs/formats.md`.

use crate::{
    admin::reporter::Reporter,
    config::nanos,
    process::{clock, usage::Usage},
};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use weir_dataplane::{Report, ServerReport, StationEntry};
use weir_routing::Pool;

pub(crate) fn write(reporter: &Reporter, report: &Report) -> String {
    let counters: Map<_, _> =
        report.counters.entries().map(|(name, _, value)| (name.to_owned(), json!(value))).collect();
    let admin: Map<_, _> = reporter
        .admin
        .counts()
        .into_iter()
        .map(|(name, .., value)| (name.to_owned(), json!(value)))
        .collect();
    let servers: Vec<_> = report.servers.iter().map(server).collect();
    let value = json!({
        "schema": "weir.proxy/1",
        "weir_version": env!("CARGO_PKG_VERSION"),
        "taken_unix_ns": clock::unix_ns(),
        "uptime_ns": reporter.clock.now().as_nanos(),
        "config": config(reporter),
        "process": process(),
        "sessions": report.sessions,
        "buffered_bytes": report.buffered_bytes,
        "counters": counters,
        "admin": admin,
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

/// What is in force.
pub(crate) fn config(reporter: &Reporter) -> Value {
    let descriptors = reporter.descriptors.plan();
    let (config, in_force) = (&reporter.config, reporter.reload.in_force());
    let table = in_force.table();
    let default = table.pools()[0].router();
    let names: Vec<_> = table.servers().iter().map(|server| server.name.as_str()).collect();
    let routes: Vec<_> = table
        .routes()
        .map(|(prefix, pool)| json!({"prefix": String::from_utf8_lossy(prefix), "pool": pool}))
        .collect();
    let file = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    json!({
        "engine": config.engine.name(),
        "listen": config.listen.to_string(),
        "admin": config.admin.map(|address| address.to_string()),
        "admin_hosts": config.admin_hosts,
        "servers": names,
        "replicas": default.replicas(),
        "threads": config.serving_threads(),
        "placement": default.placement().to_string(),
        "multiget": config.multiget.name(),
        "join_gets": config.join_gets.name(),
        "on_failure": config.on_failure.name(),
        "write_policy": config.replication.write_policy.name(),
        "replicas_required": config.replication.replicas_required.name(),
        "read": config.replication.read_policy.name(),
        "on_stale": config.replication.on_stale.name(),
        "read_repair": config.replication.read_repair.name(),
        "timeout_ns": nanos(in_force.timeout()),
        "drain_timeout_ns": nanos(config.drain_timeout),
        "drain_delay_ns": nanos(config.drain_delay),
        "resolve_every_ns": nanos(config.resolve_every),
        "sessions_max": descriptors.clients,
        "sessions_max_wanted": config.sessions_max,
        "descriptors_max": descriptors.limit,
        "descriptors_reserved": descriptors.reserved,
        "value_bytes_max": config.value_bytes_max,
        "client_buffer_bytes_max": config.client_buffer_bytes_max,
        "server_buffer_bytes_max": config.server_buffer_bytes_max,
        "flush_allowed": config.flush_allowed,
        "server_commands_allowed": config.server_commands_allowed,
        "windows_file": file(&config.windows_file),
        "trace_file": file(&config.trace_file),
        "trace_sample": config.sampling.share,
        "trace_seed": config.sampling.seed,
        "generation": in_force.generation(),
        "loaded_unix_ns": in_force.loaded_unix_ns(),
        "reloads_refused": in_force.refused(),
        "pools": table.pools().iter().map(pool).collect::<Vec<_>>(),
        "routes": routes,
    })
}

fn pool(pool: &Pool) -> Value {
    let router = pool.router();
    json!({
        "pool": pool.name(),
        "servers": router.servers().iter().map(|server| server.name.as_str()).collect::<Vec<_>>(),
        "placement": router.placement().to_string(),
        "replicas": router.replicas(),
    })
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

fn station(entry: &StationEntry) -> Value {
    let mut value = json!(entry.measured);
    value["station"] = json!(entry.station);
    value["server"] = json!(entry.server);
    value["threads"] = json!(entry.threads);
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
