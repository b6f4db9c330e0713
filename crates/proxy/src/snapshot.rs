//! `GET /snapshot`: `weir.proxy/1` of `docs/formats.md`.

use crate::{clock, config::nanos, reporter::Reporter};
use rustix::param;
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
    let (config, in_force) = (&reporter.config, reporter.keeper.in_force());
    let table = &in_force.table;
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
        "timeout_ns": nanos(in_force.timeout),
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
        "generation": in_force.generation,
        "loaded_unix_ns": in_force.loaded_unix_ns,
        "reloads_refused": in_force.refused,
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
    let Process { cpu_user_ns, cpu_system_ns, resident_bytes } = Process::read();
    json!({
        "pid": std::process::id(),
        "cpu_user_ns": cpu_user_ns,
        "cpu_system_ns": cpu_system_ns,
        "resident_bytes": resident_bytes,
    })
}

/// CPU time and memory of this process.
#[derive(Debug, Default)]
pub(crate) struct Process {
    pub(crate) cpu_user_ns: u64,
    pub(crate) cpu_system_ns: u64,
    pub(crate) resident_bytes: u64,
}

/// In what proc(5) counts.
#[derive(Clone, Copy, Debug)]
struct Units {
    /// CPU time, in ticks of so many in a second.
    ticks_per_second: u64,
    /// Memory, in pages: 4 KiB on x86-64, 4, 16 or 64 KiB on arm64.
    page_bytes: u64,
}

impl Process {
    pub(crate) fn read() -> Self {
        let units = Units {
            ticks_per_second: param::clock_ticks_per_second(),
            page_bytes: param::page_size() as u64,
        };
        Self::parse(&std::fs::read_to_string("/proc/self/stat").unwrap_or_default(), units)
    }

    fn parse(stat: &str, units: Units) -> Self {
        // The second field is the command's name in parentheses and may hold anything; utime and stime are the 14th and 15th.
        let fields: Vec<u64> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect())
            .unwrap_or_default();
        let field = |number: usize| fields.get(number - 3).copied().unwrap_or(0);
        let nanos = |number| {
            let nanos = u128::from(field(number)) * 1_000_000_000 / u128::from(units.ticks_per_second.max(1));
            u64::try_from(nanos).unwrap_or(u64::MAX)
        };
        Self {
            cpu_user_ns: nanos(14),
            cpu_system_ns: nanos(15),
            resident_bytes: field(24).saturating_mul(units.page_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "7 (we) ir (x) S 1 7 7 0 -1 4194304 9 0 0 0 250 75 0 0 20 0 3 0 100 9000000 1234 18446744073709551615";

    #[test]
    fn the_kernels_units_are_those_that_it_says() {
        for (ticks_per_second, page_bytes, cpu, resident) in [
            (100, 4096, (2_500_000_000, 750_000_000), 1234 * 4096),
            (1000, 65_536, (250_000_000, 75_000_000), 1234 * 65_536),
        ] {
            let process = Process::parse(STAT, Units { ticks_per_second, page_bytes });
            assert_eq!((process.cpu_user_ns, process.cpu_system_ns), cpu);
            assert_eq!(process.resident_bytes, resident);
        }
        assert_eq!(Process::parse("", Units { ticks_per_second: 0, page_bytes: 1 }).cpu_user_ns, 0);
    }

    #[test]
    fn memory_is_what_the_kernel_counts_in_bytes() {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("a process has memory");
        let kib: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
        let resident = Process::read().resident_bytes;
        // It grows and shrinks between two readings.
        assert!((kib * 512..=kib * 2048).contains(&resident), "{resident} bytes, and {kib} KiB");
    }
}
