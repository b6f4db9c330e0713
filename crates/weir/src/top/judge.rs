//! What is the bottleneck now: one rule, written down in `docs/understand/timing.md`.

use serde_json::Value;

/// A thread that works this share of the time, or more, is a bottleneck.
const BUSY: f64 = 0.9;

/// A stage that takes this share of the requests' time, or more, is where they are held.
const HELD: f64 = 0.5;

/// A share of the time of all requests.
pub(super) struct StageShare {
    pub(super) stage: &'static str,
    pub(super) share: f64,
    pub(super) mean_ns: f64,
}

const STAGES: [&str; 6] = ["read", "dispatch", "queue", "send", "backend", "reply"];

/// Each stage's share of the time that all requests of the window took.
pub(super) fn stage_shares(window: &Value) -> [StageShare; 6] {
    let sum = |stage: &str| -> f64 {
        let operations = window["operations"].as_object().into_iter().flatten();
        // The sum of nothing is -0.0.
        operations.map(|(_, it)| number(&it["stages"][stage]["sum_ns"])).sum::<f64>() + 0.0
    };
    let sums = STAGES.map(sum);
    let (total, requests) = (sums.iter().sum::<f64>().max(1.0), number(&window["requests"]).max(1.0));
    let mut place = 0;
    sums.map(|sum| {
        place += 1;
        StageShare { stage: STAGES[place - 1], share: sum / total, mean_ns: sum / requests }
    })
}

/// The busiest thread, and the share of the window in which it worked.
pub(super) fn busiest(window: &Value) -> Option<(String, f64)> {
    let length = number(&window["length_ns"]).max(1.0);
    let threads = window["threads"].as_array()?.iter();
    let busy = threads.map(|it| (text(&it["thread"]), number(&it["busy_ns"]) / length));
    busy.max_by(|one, other| one.1.total_cmp(&other.1))
}

/// The average share of the workers that had a request in service; `None` where there are none.
pub(super) fn workers_busy(window: &Value, config: &Value) -> Option<f64> {
    if config["engine"] != "pool" {
        return None;
    }
    let shares = stage_shares(window);
    let requests = number(&window["requests"]);
    let service: f64 = shares[3..].iter().map(|it| it.mean_ns * requests).sum();
    Some(service / (number(&config["threads"]).max(1.0) * number(&window["length_ns"]).max(1.0)))
}

/// How many messages a server had in flight on average over the window.
pub(super) fn in_flight(server: &Value, window: &Value) -> f64 {
    number(&server["in_flight"]["length_time_integral_ns"]) / number(&window["length_ns"]).max(1.0)
}

/// Who holds requests up.
pub(super) enum Who {
    Proxy,
    Workers,
    Queue,
    /// The one with this name.
    Server(String),
    Servers,
    Clients,
}

impl Who {
    pub(super) fn role(&self) -> &'static str {
        match self {
            Who::Proxy => "proxy",
            Who::Workers => "workers",
            Who::Queue => "queue",
            Who::Server(_) => "server",
            Who::Servers => "servers",
            Who::Clients => "clients",
        }
    }
}

/// The bottleneck, and why it is called so.
pub(super) struct Bottleneck {
    /// No one, where none shows.
    pub(super) who: Option<Who>,
    pub(super) why: String,
}

/// The bottleneck of a second, by the rule.
pub(super) fn bottleneck(window: &Value, config: &Value) -> Bottleneck {
    let found = |who, why: String| Bottleneck { who: Some(who), why };
    let none = |why: &str| Bottleneck { who: None, why: why.to_owned() };
    if number(&window["requests"]) == 0.0 {
        if number(&window["in_service"]) > 0.0 {
            let why = "none of the requests in service was answered in this second";
            return found(Who::Servers, why.to_owned());
        }
        return none("no request was answered in this second");
    }
    if let Some((thread, share)) = busiest(window).filter(|(_, share)| *share >= BUSY) {
        return found(Who::Proxy, format!("{thread} worked {:.0} % of this second", share * 100.0));
    }
    let shares = stage_shares(window);
    let server = busiest_server(window);
    if let Some(share) = workers_busy(window, config).filter(|share| *share >= BUSY) {
        let why =
            if shares[4].share > shares[5].share { "mostly waiting for servers" } else { "mostly answering" };
        let share = share.min(1.0) * 100.0;
        return found(Who::Workers, format!("{share:.0} % of them had a request in service, {why}"));
    }
    let Some(held) = shares.iter().find(|it| it.share >= HELD) else {
        return none("no thread is busy, and no stage holds half of the time");
    };
    let share = format!("{:.0} % of the time is in stage {}", held.share * 100.0, held.stage);
    match held.stage {
        "backend" => match server {
            Some((name, length)) if length >= 1.0 => {
                found(Who::Server(name), format!("{share}, {length:.1} in flight on average"))
            }
            _ if servers_down(window).is_empty() => {
                found(Who::Clients, format!("{share}, no server is busy"))
            }
            _ => found(Who::Clients, format!("{share}, no server that is up is busy")),
        },
        "read" => found(Who::Clients, format!("{share}: their requests come in pieces")),
        "reply" => found(Who::Clients, format!("{share}: they read slowly, or pipeline")),
        "queue" => found(Who::Queue, format!("{share}, though no thread is busy")),
        "dispatch" => found(Who::Clients, format!("{share}: they pipeline")),
        _ => found(Who::Servers, format!("{share}: they take bytes slowly")),
    }
}

/// The names of the servers that are down.
pub(super) fn servers_down(window: &Value) -> Vec<String> {
    let servers = window["servers"].as_array().into_iter().flatten();
    servers.filter(|server| server["state"] == "down").map(|server| text(&server["server"])).collect()
}

fn busiest_server(window: &Value) -> Option<(String, f64)> {
    let servers = window["servers"].as_array()?.iter();
    let lengths = servers.map(|server| (text(&server["server"]), in_flight(server, window)));
    lengths.max_by(|one, other| one.1.total_cmp(&other.1))
}

pub(super) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0).max(0.0)
}

pub(super) fn text(value: &Value) -> String {
    harmless(value.as_str().unwrap_or("?"))
}

/// A text that somebody else has written, without what a terminal would obey.
pub(super) fn harmless(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn window(stages: [u64; 6], busy_ns: u64, in_flight_ns: u64) -> Value {
        let stages: serde_json::Map<_, _> = STAGES
            .into_iter()
            .zip(stages)
            .map(|(name, sum)| (name.to_owned(), json!({"sum_ns": sum})))
            .collect();
        json!({
            "requests": 10, "in_service": 0, "length_ns": 1_000_000_000,
            "operations": {"get": {"stages": stages}},
            "threads": [{"thread": "loop-0", "busy_ns": busy_ns}, {"thread": "loop-1", "busy_ns": 5}],
            "servers": [{"server": "a", "in_flight": {"length_time_integral_ns": in_flight_ns}}],
        })
    }

    fn check(window: &Value, engine: &str, expected: &str) {
        let Bottleneck { who, why } = bottleneck(window, &json!({"engine": engine, "threads": 1}));
        let who = match who {
            None => "none".to_owned(),
            Some(Who::Server(name)) => format!("server {name}"),
            Some(who) => who.role().to_owned(),
        };
        let said = format!("{who}: {why}");
        assert!(said.starts_with(expected), "{said}");
    }

    #[test]
    fn the_rule_is_that_of_the_documentation() {
        let in_backend = [0, 0, 1, 1, 8, 0];
        check(&window(in_backend, 900_000_000, 0), "event", "proxy: loop-0 worked 90 %");
        check(&window(in_backend, 899_000_000, 1_000_000_000), "event", "server a: 80 %");
        check(&window(in_backend, 0, 999_000_000), "event", "clients: 80 %");
        let mut away = window(in_backend, 0, 999_000_000);
        away["servers"][0]["state"] = json!("down");
        check(&away, "event", "clients: 80 % of the time is in stage backend, no server that is up is busy");
        check(&window([6, 0, 1, 1, 1, 1], 0, 0), "event", "clients: 60 % of the time is in stage read");
        check(&window([2; 6], 0, 0), "event", "none: no thread");
        check(&window([0, 0, 9, 0, 900_000_000, 0], 0, 0), "pool", "workers: 90 %");
        check(&json!({"requests": 0, "in_service": 0}), "event", "none: no request");
        check(&json!({"requests": 0, "in_service": 2}), "event", "servers: none of the requests");
        check(&json!({}), "event", "none");
    }
}
