//! The words for what happened to a proxy: one line for each notice. docs/operate/run.md lists them, with what to do.

use std::time::Duration;
use tracing::{error, info, warn};
use weir_proxy::{Config, Engine, Notice, ServerNotice};

use crate::pool::why_unserved;

/// Says it in the log. `more`: how many of its kind were left out before it.
pub(crate) fn say(notice: &Notice, more: u64) {
    match notice {
        Notice::Ready(config) => say_ready(config),
        Notice::Inherited(ports) => {
            let ports = ports.join(" and ");
            info!(event = "inherited", ports, "handed over by the service manager: {ports}");
        }
        Notice::ServiceManagerAway(reason) => {
            warn!(
                event = "service_manager_away",
                reason, more, "the service manager cannot be reached (NOTIFY_SOCKET): {reason}"
            );
        }
        Notice::ThreadsSilent { silent, threads, since } => {
            let since_s = since.as_secs_f64();
            error!(
                event = "threads_silent",
                silent,
                threads,
                since_s,
                more,
                "{silent} of {threads} threads that serve have not answered for {}: the service manager's watchdog gets no sign of life \
                 (WATCHDOG_USEC), and will end the proxy",
                seconds(*since)
            );
        }
        Notice::ThreadsAnswer { after } => {
            let after_s = after.as_secs_f64();
            info!(
                event = "threads_answer",
                after_s,
                more,
                "all threads that serve answer again, after {}",
                seconds(*after)
            );
        }
        Notice::Reloaded { generation, summary } => {
            info!(
                event = "reloaded",
                generation, "the configuration was read again; generation {generation}: {summary}"
            );
        }
        Notice::ReloadRefused(reason) => {
            error!(
                event = "reload_refused",
                reason, "the configuration was read again and refused, the old one stays: {reason}"
            );
        }
        Notice::NameUnknown(error) => {
            warn!(
                event = "name_unknown",
                error, more, "{error}; it is down, and its name is looked up again"
            );
        }
        Notice::NameKnown(server) => {
            info!(event = "name_known", server, more, "the name of server {server} has an address now");
        }
        Notice::RecordsLost(reason) => error!(event = "records_lost", reason, more, "{reason}"),
        Notice::ClientsMax { wanted, most, limit, .. } if most == wanted => {
            info!(
                event = "clients_max",
                wanted,
                most,
                limit,
                "--max-connections is {most} again: the process may have {limit} descriptors"
            );
        }
        Notice::ClientsMax { wanted, most, limit, reserved } => {
            warn!(
                event = "clients_max",
                wanted,
                most,
                limit,
                reserved,
                "--max-connections is lowered from {wanted} to {most}: the process may have {limit} descriptors, and {reserved} are kept for \
                 servers, the admin port and files; raise the limit (LimitNOFILE of systemd, ulimit -n), or ask for fewer connections"
            );
        }
        Notice::ClientsRefused { too_many, no_descriptor, no_handshake, clients_max } => {
            let handshakes = match no_handshake {
                0 => String::new(),
                count => {
                    format!(", {count} because too many TLS handshakes were under way (--tls-handshakes)")
                }
            };
            warn!(
                event = "clients_refused",
                too_many,
                no_descriptor,
                no_handshake,
                clients_max,
                "clients were refused: {too_many} because {clients_max} may be connected, {no_descriptor} because the process has no \
                 descriptor left{handshakes}"
            );
        }
        Notice::DescriptorsLacking { count, limit } => {
            warn!(
                event = "descriptors_lacking",
                count,
                limit,
                "the process has no descriptor left (it may have {limit}): {count} connections to servers needed one of those that are \
                 held for that"
            );
        }
        Notice::Server { server, what } => say_server(server, what, more),
        Notice::Stopping { signal, delay } if delay.is_zero() => {
            info!(event = "stopping", signal, delay_s = 0.0, "{signal}: stopping");
        }
        Notice::Stopping { signal, delay } => {
            let delay_s = delay.as_secs_f64();
            info!(
                event = "stopping",
                signal,
                delay_s,
                "{signal}: not ready any more, and still serving for {delay:?} (--drain-delay)"
            );
        }
        Notice::Draining { timeout } => {
            let timeout_s = timeout.as_secs_f64();
            info!(
                event = "draining",
                timeout_s,
                "no more clients are accepted; what was taken is answered, within {timeout:?} (--drain-timeout)"
            );
        }
        Notice::Stopped { drained } => {
            info!(
                event = "stopped",
                drained_s = drained.as_secs_f64(),
                "stopped after {}",
                seconds(*drained)
            );
        }
        Notice::Lost(count) => {
            warn!(
                event = "log_lines_lost",
                count, "{count} lines were not written: those before them were not taken"
            );
        }
    }
}

fn say_server(server: &str, what: &ServerNotice, more: u64) {
    use ServerNotice as N;
    match what {
        N::Up { after } => {
            let (after_s, after) = (after.as_secs_f64(), seconds(*after));
            info!(event = "server_up", server, after_s, more, "server {server} is up again, after {after}");
        }
        N::Unreachable { closes: false } => {
            let why = "unreachable";
            warn!(
                event = "server_down",
                server, why, more, "server {server} is down: it cannot be connected to"
            );
        }
        N::Unreachable { closes: true } => {
            let why = "closes";
            warn!(
                event = "server_down",
                server, why, more, "server {server} is down: it closes its connections"
            );
        }
        N::NoTls { reason } => warn!(
            event = "server_down",
            server,
            why = "tls",
            reason,
            more,
            "server {server} is down: no TLS can be spoken with it: {reason}"
        ),
        N::Unanswered => warn!(
            event = "server_down",
            server,
            why = "unanswered",
            more,
            "server {server} is down: it takes connections and answers nothing"
        ),
        N::MarkedDown { timeouts } => warn!(
            event = "server_marked_down",
            server,
            why = "silent",
            timeouts,
            more,
            "server {server} is marked down: it is connected and has left {timeouts} requests in a row without an answer"
        ),
        N::Garbage { said } => error!(
            event = "server_down",
            server,
            why = "garbage",
            said,
            more,
            "server {server} is down: it does not answer as memcached does: {said}"
        ),
        N::LoginWanted => error!(
            event = "server_down",
            server,
            why = "login",
            more,
            "server {server} wants a login (memcached -Y), and Weir has none: nothing is sent there; give --server-auth-file, start it \
             without -Y, or take it out (docs/operate/logins.md)"
        ),
        N::LoginRefused => error!(
            event = "server_down",
            server,
            why = "login_refused",
            more,
            "server {server} does not take the login of --server-auth-file: nothing else is sent there; give both the same name and \
             password (docs/operate/logins.md)"
        ),
        N::QuestionUnknown => info!(
            event = "question_unknown",
            server,
            more,
            "server {server} closes connections at a question of Weir's own (version, stats settings), as twemproxy does: it is used without \
             (docs/understand/placement.md)"
        ),
        N::DeadConnection => warn!(
            event = "connection_replaced",
            server,
            why = "dead",
            more,
            "a connection to server {server} is dead, and is replaced: nothing comes on it while the server answers on another"
        ),
        N::BadReply { said } => warn!(
            event = "connection_replaced",
            server,
            why = "bad_reply",
            said,
            more,
            "a connection to server {server} is replaced: {said}"
        ),
        N::Stale => warn!(
            event = "server_stale",
            server,
            more,
            "server {server} is not read: it has missed writes, and is made to forget their keys first"
        ),
        N::Quarantined => warn!(
            event = "server_quarantined",
            server,
            more,
            "server {server} is not read for a time (--quarantine): a connection broke, and it may still carry out what was sent on it"
        ),
        N::FlushWanted => warn!(
            event = "server_flush_wanted",
            server,
            more,
            "server {server} has missed more writes than are remembered (--journal-keys, --journal-bytes), and is to be flushed"
        ),
        N::FlushRefused => error!(
            event = "server_flush_refused",
            server,
            more,
            "server {server} has missed too many writes and refuses flush_all (memcached -F): it is not read; restart it"
        ),
        N::Flushed => warn!(
            event = "server_flushed",
            server, more, "server {server} was flushed, because it had missed too many writes"
        ),
        N::Fresh { after } => {
            let (after_s, after) = (after.as_secs_f64(), seconds(*after));
            info!(
                event = "server_fresh",
                server, after_s, more, "server {server} is read again, after {after}"
            );
        }
    }
}

/// One line when clients can connect; before it, one for each server without keys.
fn say_ready(config: &Config) {
    for server in config.table.pools().iter().flat_map(|pool| pool.router().without_keys()) {
        warn!(
            event = "server_without_keys",
            %server, "server {server} is so light among the others that it gets no keys"
        );
    }
    let servers = config.table.servers().len();
    let pools = match config.table.pools().len() {
        1 => String::new(),
        count => format!(" in {count} pools"),
    };
    let admin = config.admin_url().map(|url| format!(", admin on {url}")).unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    let listen = config.addresses();
    let admin_address = config.admin.map(|address| address.to_string()).unwrap_or_default();
    info!(
        event = "listening",
        version,
        listen,
        admin = admin_address,
        "weir proxy {version}: listening on {listen}, {servers} server{}{pools}, replicas {}, {}{admin}",
        if servers == 1 { "" } else { "s" },
        config.table.pools()[0].router().replicas(),
        match config.settings.engine {
            Engine::Event => format!("threads {}", config.serving_threads()),
            Engine::Pool => format!("engine pool, workers {}", config.settings.workers),
            Engine::Split => format!("engine split, readers {} for each server", config.settings.readers),
        },
    );
}

/// Names the pools of a file that no key gets to. Who asked for a pool (`wanted`) knows that there are others; a default may hide them.
pub(crate) fn say_unserved(pools: &[String], wanted: Option<&str>) {
    if pools.is_empty() {
        return;
    }
    let (pools, why) = (pools.join(", "), why_unserved(wanted));
    if wanted.is_some() {
        info!(event = "pools_not_served", pools, "not served: {pools} ({why})");
    } else {
        warn!(
            event = "pools_not_served",
            pools, "not served: {pools} ({why}; write [[listen]] with pool for each, or [routes])"
        );
    }
}

/// For people: milliseconds are enough.
fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}
