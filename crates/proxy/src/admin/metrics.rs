//! `GET /metrics`: the same numbers as the snapshot, in Prometheus' text format 0.0.4.

use crate::{
    admin::{
        hot_keys,
        pools::{self, PoolCounts},
        reporter::{Reporter, Sums},
    },
    connections::listener_counts::ListenerCounts,
    process::usage::Usage,
};
use std::fmt::{Display, Write as _};
use weir_dataplane::Report;
use weir_timing::{Distribution, Stage};

pub(crate) fn write(reporter: &Reporter, report: &Sums<Report>) -> String {
    let mut page = Page::default();
    page.family("weir_info", "gauge", "Version, commit and engine of this proxy.");
    page.sample(
        "weir_info",
        &[
            ("version", env!("CARGO_PKG_VERSION")),
            ("commit", reporter.config.commit),
            ("engine", reporter.config.settings.engine.name()),
        ],
        1,
    );
    page.family("weir_uptime_seconds", "gauge", "Time since the start of the process.");
    page.sample("weir_uptime_seconds", &[], seconds(reporter.clock.now().as_nanos()));
    process(&mut page);
    bounds(&mut page, reporter, report);
    listeners(&mut page, reporter);
    for (name, meaning, value) in report.counters.entries() {
        let name = name_of_counter(name);
        page.family(&name, "counter", meaning);
        page.sample(&name, &[], value);
    }
    page.family("weir_threads", "gauge", "Threads that serve: event loops, or workers.");
    page.sample("weir_threads", &[], reporter.config.serving_threads());
    if let Some(queue) = &report.queue {
        waiting(&mut page, queue);
    }
    stations(&mut page, report);
    reloads(&mut page, reporter);
    page.family(
        "weir_log_lines_lost_total",
        "counter",
        "Lines of the log that were not written, because those before them were not taken.",
    );
    page.sample("weir_log_lines_lost_total", &[], reporter.notices.lost());
    windows(&mut page, reporter);
    admin(&mut page, reporter);
    turns(&mut page, report);
    operations(&mut page, report);
    servers(&mut page, report);
    pools(&mut page, reporter, report);
    own_pools(&mut page, reporter, report);
    hottest_key(&mut page, reporter);
    page.text
}

/// What is bounded as a whole, and its bound beside it, so that an alert can be about the share that is used.
fn bounds(page: &mut Page, reporter: &Reporter, report: &Report) {
    let (config, descriptors) = (&reporter.config, reporter.descriptors.plan());
    for (name, meaning, value) in [
        ("weir_sessions", "Client connections that are open.", report.sessions),
        (
            "weir_sessions_max",
            "Client connections that may be open (--max-connections, or what descriptors allow).",
            descriptors.clients as u64,
        ),
        ("weir_descriptors_max", "Descriptors that the process may have.", descriptors.limit as u64),
        (
            "weir_descriptors_reserved",
            "Descriptors that are kept for servers, the admin port and files.",
            descriptors.reserved as u64,
        ),
        ("weir_buffered_bytes", "Memory that counts against --buffer-limit.", report.buffered_bytes),
        (
            "weir_buffer_limit_bytes",
            "Memory that all buffers may take (--buffer-limit).",
            config.settings.buffer_limit as u64,
        ),
    ] {
        page.family(name, "gauge", meaning);
        page.sample(name, &[], value);
    }
}

/// Where clients came in: of several listeners one may be full of clients that another lacks.
fn listeners(page: &mut Page, reporter: &Reporter) {
    type Value = fn(&ListenerCounts) -> u64;
    let values: [(&str, &str, &str, Value); 3] = [
        (
            "weir_listener_sessions",
            "gauge",
            "Client connections that are open, by where they came in.",
            ListenerCounts::open,
        ),
        (
            "weir_listener_sessions_accepted_total",
            "counter",
            "Client connections that were accepted there.",
            ListenerCounts::accepted,
        ),
        (
            "weir_listener_sessions_refused_total",
            "counter",
            "Client connections that came in there and could not be served.",
            ListenerCounts::refused,
        ),
    ];
    for (name, kind, meaning, value) in values {
        page.family(name, kind, meaning);
        for counts in &reporter.listeners {
            let labels = [("listener", counts.at()), ("pool", counts.pool().unwrap_or_default())];
            page.sample(name, &labels[..if counts.pool().is_some() { 2 } else { 1 }], value(counts));
        }
    }
}

/// Each family has a name of its own: strict readers refuse a page on which one stands twice.
fn name_of_counter(counter: &str) -> String {
    match counter {
        // `weir_server_timeouts_total` has a label for the server. This is the sum, servers that are gone included.
        "server_timeouts" => "weir_timeouts_total".to_owned(),
        _ => format!("weir_{counter}_total"),
    }
}

fn process(page: &mut Page) {
    let process = Usage::read();
    page.family("weir_process_cpu_seconds_total", "counter", "CPU time of this process, user and system.");
    page.sample(
        "weir_process_cpu_seconds_total",
        &[],
        seconds(process.cpu_user_ns() + process.cpu_system_ns()),
    );
    page.family("weir_process_resident_bytes", "gauge", "Memory of this process.");
    page.sample("weir_process_resident_bytes", &[], process.resident_bytes());
}

fn waiting(page: &mut Page, queue: &weir_timing::QueueReport) {
    page.family("weir_queue_length", "gauge", "Requests that wait for a worker.");
    page.sample("weir_queue_length", &[], queue.length);
    page.family("weir_queue_arrivals_total", "counter", "Requests that entered the queue.");
    page.sample("weir_queue_arrivals_total", &[], queue.arrivals);
    page.family("weir_queue_length_met_total", "counter", "Sum over arrivals of the length that each met.");
    page.sample("weir_queue_length_met_total", &[], queue.length_met_sum);
    page.family("weir_queue_length_seconds_total", "counter", "Integral of the queue's length over time.");
    page.sample("weir_queue_length_seconds_total", &[], queue.length_time_integral_ns as f64 / 1e9);
}

fn stations(page: &mut Page, report: &Report) {
    if report.stations.is_empty() {
        return;
    }
    type Value = fn(&weir_dataplane::StationEntry) -> f64;
    let values: [(&str, &str, &str, Value); 6] = [
        ("weir_station_threads", "gauge", "Threads that serve there; a queue has none.", |it| {
            it.threads as f64
        }),
        ("weir_station_population", "gauge", "Requests that wait, or are served, there.", |it| {
            it.measured.population.length as f64
        }),
        ("weir_station_arrivals_total", "counter", "Requests that came there.", |it| {
            it.measured.population.arrivals as f64
        }),
        ("weir_station_departures_total", "counter", "Requests that left it.", |it| {
            it.measured.departures as f64
        }),
        ("weir_station_population_seconds_total", "counter", "Integral of the population over time.", |it| {
            it.measured.population.length_time_integral_ns as f64 / 1e9
        }),
        (
            "weir_station_residence_seconds_total",
            "counter",
            "Sum over departures of the time spent there.",
            |it| it.measured.residence_ns_sum as f64 / 1e9,
        ),
    ];
    for (name, kind, meaning, value) in values {
        page.family(name, kind, meaning);
        for entry in &report.stations {
            let labels = [("station", entry.station), ("server", entry.server.as_deref().unwrap_or(""))];
            page.sample(name, &labels, value(entry));
        }
    }
}

fn reloads(page: &mut Page, reporter: &Reporter) {
    let in_force = reporter.reload.in_force();
    page.family("weir_config_generation", "gauge", "Configurations that were in force, the first included.");
    page.sample("weir_config_generation", &[], in_force.generation());
    page.family(
        "weir_config_loaded_seconds",
        "gauge",
        "When the one in force was loaded, as seconds since 1970.",
    );
    page.sample("weir_config_loaded_seconds", &[], seconds(in_force.loaded_unix_ns()));
    page.family(
        "weir_config_refused",
        "gauge",
        "Whether the configuration was refused when it was read last, so that an older one is in force.",
    );
    page.sample("weir_config_refused", &[], u64::from(in_force.refused_last()));
    page.family("weir_reloads_refused_total", "counter", "Configurations that were read again and refused.");
    page.sample("weir_reloads_refused_total", &[], in_force.refused());
    let counts = reporter.resolver.counts();
    for (name, meaning, count) in [
        ("weir_names_looked_up_total", "Names of servers that were looked up again.", counts.looked_up()),
        ("weir_names_failed_total", "Lookups without an answer; the known addresses stay.", counts.failed()),
        ("weir_names_changed_total", "Lookups that found other addresses.", counts.changed()),
        ("weir_names_refused_total", "Lookups that were put off because too many waited.", counts.refused()),
    ] {
        page.family(name, "counter", meaning);
        page.sample(name, &[], count);
    }
}

fn windows(page: &mut Page, reporter: &Reporter) {
    let ring = &reporter.windows;
    for (name, meaning, count) in [
        (
            "weir_windows_late_total",
            "Parts of windows that came too late and were added to the next window.",
            ring.parts_late(),
        ),
        (
            "weir_windows_lost_total",
            "Parts of windows that were dropped because too many waited.",
            ring.parts_lost(),
        ),
        (
            "weir_windows_dropped_total",
            "Records that the file of --windows did not get.",
            reporter.files.windows_dropped(),
        ),
        (
            "weir_trace_rows_total",
            "Sampled requests that were written to the file of --trace.",
            reporter.files.rows_written(),
        ),
        (
            "weir_trace_rows_dropped_total",
            "Sampled requests that the file of --trace did not get.",
            reporter.files.rows_dropped(),
        ),
    ] {
        page.family(name, "counter", meaning);
        page.sample(name, &[], count);
    }
}

fn admin(page: &mut Page, reporter: &Reporter) {
    for (name, meaning, grows, value) in reporter.admin.counts() {
        let (name, kind) = if grows {
            (format!("weir_admin_{name}_total"), "counter")
        } else {
            (format!("weir_admin_{name}"), "gauge")
        };
        page.family(&name, kind, meaning);
        page.sample(&name, &[], value);
    }
}

fn turns(page: &mut Page, report: &Report) {
    let name = "weir_turn_seconds";
    page.family(
        name,
        "histogram",
        "How long a thread works between two waits; meanwhile bytes wait in sockets.",
    );
    for (index, it) in report.timing.loops().iter().enumerate() {
        page.histogram(name, &[("loop", &index.to_string())], &it.turn_time);
    }
}

fn operations(page: &mut Page, report: &Report) {
    let operations: Vec<_> = report.timing.operations().iter().collect();
    page.family(
        "weir_request_seconds",
        "histogram",
        "From a request's first byte to the last byte of its reply.",
    );
    for (operation, it) in &operations {
        page.histogram("weir_request_seconds", &[("operation", operation.name())], &it.total);
    }
    page.family(
        "weir_stage_seconds",
        "histogram",
        "Time in each stage of a request; the stages add up to the whole.",
    );
    for (operation, it) in &operations {
        for stage in Stage::ALL {
            let labels = [("operation", operation.name()), ("stage", stage.name())];
            page.histogram("weir_stage_seconds", &labels, it.stage(stage));
        }
    }
    type Count = fn(&weir_timing::OperationReport) -> u64;
    let counts: [(&str, &str, Count); 4] = [
        ("weir_operation_errors_total", "Requests that were answered with an error.", |it| it.errors),
        ("weir_operation_keys_total", "Keys in requests; a multi-get has several.", |it| it.keys()),
        ("weir_operation_hits_total", "Keys of retrievals that were found.", |it| it.hits),
        ("weir_operation_misses_total", "Keys of retrievals that were not found.", |it| it.misses()),
    ];
    for (name, meaning, count) in counts {
        page.family(name, "counter", meaning);
        for (operation, it) in &operations {
            page.sample(name, &[("operation", operation.name())], count(it));
        }
    }
}

fn servers(page: &mut Page, report: &Report) {
    type Value = fn(&weir_dataplane::ServerReport) -> u64;
    let values: [(&str, &str, &str, Value); 9] = [
        ("weir_server_up", "gauge", "Whether every loop is connected.", |it| u64::from(it.state == "up")),
        ("weir_server_down", "gauge", "Whether a loop cannot reach it, or gets no answers.", |it| {
            u64::from(is_down(it))
        }),
        ("weir_server_journal", "gauge", "Keys that it missed and that are to be deleted there.", |it| {
            it.journal
        }),
        ("weir_server_unread", "gauge", "Whether it is not read because it lacks writes, or may.", |it| {
            u64::from(it.unread.is_some())
        }),
        ("weir_server_requests_total", "counter", "Messages queued for this server.", |it| it.requests),
        ("weir_server_errors_total", "counter", "Error replies, and messages that got none.", |it| it.errors),
        ("weir_server_timeouts_total", "counter", "Messages that got no reply in time.", |it| it.timeouts),
        ("weir_server_queued", "gauge", "Messages that wait to be handed to the kernel.", |it| {
            it.queued.length
        }),
        ("weir_server_in_flight", "gauge", "Messages that wait for their reply.", |it| it.in_flight.length),
    ];
    for (name, kind, meaning, value) in values {
        page.family(name, kind, meaning);
        for server in &report.servers {
            page.sample(name, &[("server", server.server.as_str())], value(server));
        }
    }
    type Length = fn(&weir_dataplane::ServerReport) -> &weir_timing::QueueReport;
    let lengths: [(&str, &str, Length); 2] = [
        (
            "weir_server_queued_seconds_total",
            "Integral over time of the messages that wait to be sent.",
            |it| &it.queued,
        ),
        ("weir_server_in_flight_seconds_total", "Integral over time of the messages in flight.", |it| {
            &it.in_flight
        }),
    ];
    for (name, meaning, length) in lengths {
        page.family(name, "counter", meaning);
        for server in &report.servers {
            let integral = length(server).length_time_integral_ns as f64 / 1e9;
            page.sample(name, &[("server", server.server.as_str())], integral);
        }
    }
    page.family(
        "weir_server_seconds",
        "histogram",
        "From the last byte of a message to the last byte of its reply.",
    );
    for server in &report.servers {
        page.histogram("weir_server_seconds", &[("server", &server.server)], &server.time);
    }
}

/// One that is being connected to, or was not needed yet, is neither up nor down.
fn is_down(server: &weir_dataplane::ServerReport) -> bool {
    server.state == "down"
}

fn pools(page: &mut Page, reporter: &Reporter, report: &Report) {
    let in_force = reporter.reload.in_force();
    let table = in_force.table();
    type Value = fn(&[&weir_dataplane::ServerReport]) -> usize;
    let values: [(&str, &str, Value); 2] = [
        ("weir_pool_servers", "Servers of the pool.", |its| its.len()),
        ("weir_pool_servers_down", "Servers of the pool that are down.", |its| {
            its.iter().filter(|it| is_down(it)).count()
        }),
    ];
    for (name, meaning, value) in values {
        page.family(name, "gauge", meaning);
        for pool in table.pools() {
            let its: Vec<_> = table
                .servers_of(pool)
                .filter_map(|server| report.servers.iter().find(|it| it.server == server.name))
                .collect();
            page.sample(name, &[("pool", pool.name())], value(&its));
        }
    }
}

/// What clients have asked for whose places name a pool; nothing where there is no such place.
fn own_pools(page: &mut Page, reporter: &Reporter, report: &Sums<Report>) {
    let pools = pools::counts(reporter, report);
    if pools.is_empty() {
        return;
    }
    type Value = fn(&PoolCounts) -> u64;
    let values: [(&str, &str, &str, Value); 5] = [
        ("weir_pool_sessions", "gauge", "Client connections of the pool that are open.", |it| it.sessions),
        ("weir_pool_requests_total", "counter", "Requests of the pool's clients that were answered.", |it| {
            it.requests
        }),
        ("weir_pool_errors_total", "counter", "Of them, those that were answered with an error.", |it| {
            it.errors
        }),
        ("weir_pool_hits_total", "counter", "Keys of their retrievals that were found.", |it| it.hits),
        ("weir_pool_misses_total", "counter", "Keys of their retrievals that were not found.", |it| {
            it.misses
        }),
    ];
    for (name, kind, meaning, value) in values {
        page.family(name, kind, meaning);
        for (pool, counts) in &pools {
            page.sample(name, &[("pool", &**pool)], value(counts));
        }
    }
}

/// Without the key: labels of any number would be too many.
fn hottest_key(page: &mut Page, reporter: &Reporter) {
    // A thread that does not answer has answered the first question a moment ago.
    if let Ok(top) = reporter.top_keys() {
        let meaning =
            "Share that the hottest key has of all keys that are asked for, over the last minute (/hot).";
        page.family("weir_hottest_key_share", "gauge", meaning);
        page.sample("weir_hottest_key_share", &[], hot_keys::hottest_share(&top));
    }
}

/// Upper bounds of the buckets: 1, 2, 5 in each decade from 1 µs to 10 s, so that a quantile is known within a factor of 2.5. (Native
/// histograms would need Prometheus' protobuf format, and a server that asks for it.)
const BOUNDS_NS: [u64; 22] = {
    let mut bounds = [0; 22];
    let (mut decade, mut place) = (1000, 0);
    while place < 22 {
        bounds[place] = decade * [1, 2, 5][place % 3];
        if place % 3 == 2 {
            decade *= 10;
        }
        place += 1;
    }
    bounds
};

#[derive(Default)]
struct Page {
    text: String,
}

/// Writing to a string cannot fail.
const INFALLIBLE: &str = "a string takes all text";

impl Page {
    fn family(&mut self, name: &str, kind: &str, meaning: &str) {
        writeln!(self.text, "# HELP {name} {meaning}\n# TYPE {name} {kind}").expect(INFALLIBLE);
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(name);
        for (index, (label, of)) in labels.iter().enumerate() {
            let escaped = of.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            write!(self.text, "{}{label}=\"{escaped}\"", if index == 0 { '{' } else { ',' })
                .expect(INFALLIBLE);
        }
        writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" }).expect(INFALLIBLE);
    }

    /// A classic histogram.
    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], times: &Distribution) {
        let bucket = format!("{name}_bucket");
        for (bound, count) in BOUNDS_NS.iter().zip(times.counts_until(&BOUNDS_NS)) {
            let bound = seconds(*bound).to_string();
            self.sample(&bucket, &[labels, &[("le", &bound)]].concat(), count);
        }
        self.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), times.count());
        self.sample(&format!("{name}_sum"), labels, times.sum() as f64 / 1e9);
        self.sample(&format!("{name}_count"), labels, times.count());
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
