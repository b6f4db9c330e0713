//! One second as lines of text: the same for a terminal and for `--once`.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use serde_json::Value;

use super::hot;
use super::judge::{self, Bottleneck, Who, number, text};
use super::names;
use super::source::Second;

const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().fg(Color::DarkGray);

const STAGE_COLORS: [Color; 6] =
    [Color::Blue, Color::Cyan, Color::Yellow, Color::Magenta, Color::Green, Color::Red];

/// A letter per stage, so that the bar can be read without colours.
const STAGE_LETTERS: [&str; 6] = ["r", "d", "q", "s", "B", "a"];

/// What goes wrong.
pub(super) fn warning(reason: &str) -> Line<'static> {
    Line::styled(reason.to_owned(), Style::new().fg(Color::Black).bg(Color::Yellow))
}

/// As many lines as fit; what matters most comes first.
pub(super) fn lines(second: &Second, width: u16, height: u16) -> Vec<Line<'static>> {
    let (window, width) = (&second.window, usize::from(width).max(40));
    let found = judge::bottleneck(window, &second.config);
    let mut lines = vec![answer(window, &found, width), title(second)];
    lines.extend(rates(window, width));
    lines.extend([times(window), Line::default()]);
    lines.extend(stage_bar(window, width));
    lines.push(Line::default());
    lines.push(utilization(window, &second.config));
    lines.extend(bottleneck(window, &found, width));
    lines.extend(hot::lines(&second.hot, width));
    lines.push(Line::default());
    lines.extend(servers(window, width));
    lines.push(Line::default());
    lines.extend(operations(window));
    lines.extend(queues(window));
    lines.push(Line::default());
    lines.push(history(&second.history, width));
    lines.truncate(usize::from(height));
    lines
}

/// What there is to repeat: how much, how fast, and which servers are down or who else holds it up.
fn answer(window: &Value, found: &Bottleneck, width: usize) -> Line<'static> {
    let seconds = number(&window["length_ns"]).max(1.0) / 1e9;
    let requests = number(&window["requests"]);
    let errors = sum(window, "errors") / seconds;
    let errors = if errors > 0.0 { format!(", {} errors/s", count(errors)) } else { String::new() };
    let reached = if requests == 0.0 {
        "no request was answered in this second".to_owned()
    } else {
        format!("{} requests/s{errors}, p99 {}", count(requests / seconds), time(&window["total"]["p99_ns"]))
    };
    let away = judge::servers_down(window);
    let said = match &found.who {
        _ if !away.is_empty() => {
            let said = format!("{reached}; down: ");
            let room = width.saturating_sub(said.chars().count());
            said + &away_in(window, &away, room)
        }
        Some(who) => {
            let said = format!("{reached}; bottleneck: ");
            let room = width.saturating_sub(said.chars().count());
            said + &named(window, who, room)
        }
        None if requests == 0.0 => reached,
        None => format!("{reached}; no bottleneck shows"),
    };
    Line::styled(said, HEAD)
}

/// The servers that are down: all names where there is room for them, the first and a number where there is not. The table has the
/// others.
fn away_in(window: &Value, away: &[String], room: usize) -> String {
    let all = away.join(", ");
    let others = away.len() - 1;
    if all.chars().count() <= room {
        all
    } else if others == 0 {
        short_name(window, &away[0], room)
    } else {
        let others = format!(" and {others} more");
        short_name(window, &away[0], room.saturating_sub(others.len())) + &others
    }
}

/// Who holds requests up, in at most as many columns as there is room for; the name of a server is shortened.
fn named(window: &Value, who: &Who, room: usize) -> String {
    let Who::Server(name) = who else { return who.role().to_owned() };
    format!("server {}", short_name(window, name, room.saturating_sub("server ".len())))
}

/// A server's name in at most this many columns, distinguished from the others where that can be done.
fn short_name(window: &Value, name: &str, room: usize) -> String {
    let names = server_names(window);
    let place = names.iter().position(|it| it == name).unwrap_or(0);
    names::shortened(&names, room).get(place).map_or_else(|| name.to_owned(), String::clone)
}

/// The same with its reason, on two lines where one is too short.
fn bottleneck(window: &Value, found: &Bottleneck, width: usize) -> Vec<Line<'static>> {
    let room = width - 12;
    let who = found.who.as_ref().map_or("none".to_owned(), |who| named(window, who, room));
    let said = format!("{who}: {}", found.why);
    let (first, second) =
        said.rsplit_once(": ").filter(|_| said.chars().count() > room).unwrap_or((&said, ""));
    let mut lines = vec![Line::from(vec![Span::styled("bottleneck  ", HEAD), Span::raw(first.to_owned())])];
    if !second.is_empty() {
        lines.push(Line::raw(format!("{:12}{second}", "")));
    }
    lines
}

fn title(second: &Second) -> Line<'static> {
    let config = &second.config;
    let up = number(&second.window["start_ns"]) / 1e9;
    Line::from(vec![
        Span::styled(format!("weir top {}", second.admin), HEAD),
        Span::raw(format!(
            "   engine {}, {} threads, R {}, up {}",
            text(&config["engine"]),
            config["threads"],
            config["replicas"],
            duration(up),
        )),
    ])
}

/// On two lines where one is too short.
fn rates(window: &Value, width: usize) -> Vec<Line<'static>> {
    let seconds = number(&window["length_ns"]).max(1.0) / 1e9;
    let (hits, misses) = (sum(window, "hits"), sum(window, "misses"));
    let rates = format!(
        "{}/s   errors {}/s   misses {:.1} %",
        count(number(&window["requests"]) / seconds),
        count(sum(window, "errors") / seconds),
        100.0 * misses / (hits + misses).max(1.0),
    );
    let now = format!("sessions {}   in service {}", window["sessions"], window["in_service"]);
    let head = Span::styled("throughput  ", HEAD);
    if 12 + rates.len() + 3 + now.len() <= width {
        return vec![Line::from(vec![head, Span::raw(format!("{rates}   {now}"))])];
    }
    vec![Line::from(vec![head, Span::raw(rates)]), Line::raw(format!("{:12}{now}", ""))]
}

/// Of all operations.
fn sum(window: &Value, field: &str) -> f64 {
    let operations = window["operations"].as_object().into_iter().flatten();
    // The sum of nothing is -0.0, and would be shown so.
    operations.map(|(_, it)| number(&it[field])).sum::<f64>() + 0.0
}

/// From the first byte of a request to the last byte of its reply.
fn times(window: &Value) -> Line<'static> {
    let total = &window["total"];
    let mut spans = vec![Span::styled("in proxy    ", HEAD)];
    for (name, field) in
        [("p50", "p50_ns"), ("p90", "p90_ns"), ("p99", "p99_ns"), ("p99.9", "p999_ns"), ("max", "max_ns")]
    {
        let gap = if spans.len() > 1 { "  " } else { "" };
        spans.push(Span::styled(format!("{gap}{name} "), DIM));
        spans.push(Span::raw(time(&total[field])));
    }
    Line::from(spans)
}

fn stage_bar(window: &Value, width: usize) -> [Line<'static>; 2] {
    let shares = judge::stage_shares(window);
    let room = width - 12;
    let mut bar = vec![Span::styled("stages      ", HEAD)];
    let mut legend = vec![Span::raw(" ".repeat(12))];
    let (mut reached, mut drawn) = (0.0, 0);
    for (place, share) in shares.iter().enumerate() {
        reached += share.share;
        // Rounded at the edges, so that all parts together fill the bar.
        let edge = ((reached * room as f64).round() as usize).min(room).max(drawn);
        let style = Style::new().fg(Color::Black).bg(STAGE_COLORS[place]);
        bar.push(Span::styled(STAGE_LETTERS[place].repeat(edge - drawn), style));
        drawn = edge;
        legend.push(Span::styled(share.stage, Style::new().fg(STAGE_COLORS[place])));
        legend.push(Span::raw(format!(" {:.0}%  ", share.share * 100.0)));
    }
    [Line::from(bar), Line::from(legend)]
}

fn utilization(window: &Value, config: &Value) -> Line<'static> {
    let mut said = judge::busiest(window)
        .map(|(thread, share)| format!("{thread} works {:.0} %", share * 100.0))
        .unwrap_or_default();
    if let Some(share) = judge::workers_busy(window, config) {
        said += &format!(", {:.0} % of the workers serve", share.min(1.0) * 100.0);
    }
    let cores = number(&window["cpu_ns"]) / number(&window["length_ns"]).max(1.0);
    Line::from(vec![Span::styled("utilization ", HEAD), Span::raw(format!("{said}, {cores:.2} CPUs used"))])
}

fn servers(window: &Value, width: usize) -> Vec<Line<'static>> {
    let all = window["servers"].as_array().into_iter().flatten();
    let names = server_names(window);
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    // What stands to the right of the name takes 56 columns. Where that leaves little, columns are left out, the last first.
    let room = width.saturating_sub(56);
    let name_width = longest.clamp(6, room.max(NAME_WIDTH_MIN));
    let shown = (width.saturating_sub(name_width + 11) / 9).min(SERVER_COLUMNS.len());
    let names = names::shortened(&names, name_width);
    let mut lines = vec![Line::styled(
        format!("{:name_width$} {:>10}{}", "server", "state", columns(&SERVER_COLUMNS[..shown])),
        HEAD,
    )];
    for (server, name) in all.zip(names) {
        let state = text(&server["state"]);
        let style = if state == "up" { Style::new() } else { Style::new().fg(Color::Red) };
        let length = number(&window["length_ns"]).max(1.0);
        let values = [
            count(number(&server["requests"]) / length * 1e9),
            time(&server["server_time"]["mean_ns"]),
            time(&server["server_time"]["p99_ns"]),
            format!("{:.1}", number(&server["queued"]["length_time_integral_ns"]) / length),
            format!("{:.1}", judge::in_flight(server, window)),
        ];
        let line = format!("{name:name_width$} {state:>10}{}", columns(&values[..shown]));
        lines.push(Line::styled(line, style));
    }
    lines
}

fn server_names(window: &Value) -> Vec<String> {
    window["servers"].as_array().into_iter().flatten().map(|it| text(&it["server"])).collect()
}

/// What is shown of each server behind its name and state, the most wanted first.
const SERVER_COLUMNS: [&str; 5] = ["req/s", "mean", "p99", "queued", "in fl."];

/// In this many columns names of servers can mostly be distinguished: an address has up to 21.
const NAME_WIDTH_MIN: usize = 21;

fn columns(texts: &[impl AsRef<str>]) -> String {
    texts.iter().map(|text| format!(" {:>8}", text.as_ref())).collect()
}

fn operations(window: &Value) -> Vec<Line<'static>> {
    let mut lines = vec![Line::styled(
        format!("{:10} {:>8} {:>8} {:>8} {:>8} {:>8}", "operation", "req/s", "p50", "p99", "max", "errors"),
        HEAD,
    )];
    let length = number(&window["length_ns"]).max(1.0);
    for (name, it) in window["operations"].as_object().into_iter().flatten() {
        lines.push(Line::raw(format!(
            "{name:10} {:>8} {:>8} {:>8} {:>8} {:>8}",
            count(number(&it["requests"]) / length * 1e9),
            time(&it["total"]["p50_ns"]),
            time(&it["total"]["p99_ns"]),
            time(&it["total"]["max_ns"]),
            count(number(&it["errors"])),
        )));
    }
    lines
}

fn queues(window: &Value) -> Vec<Line<'static>> {
    let length = number(&window["length_ns"]).max(1.0);
    let queues = window["queues"].as_object().into_iter().flatten();
    queues
        .map(|(name, it)| {
            let met = number(&it["length_met_sum"]) / number(&it["arrivals"]).max(1.0);
            let average = number(&it["length_time_integral_ns"]) / length;
            Line::raw(format!("queue {name}: {average:.1} wait on average, an arrival meets {met:.1}"))
        })
        .collect()
}

fn history(requests: &[u64], width: usize) -> Line<'static> {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let shown = &requests[requests.len().saturating_sub(width - 12)..];
    let most = shown.iter().copied().max().unwrap_or(0).max(1);
    let bars: String =
        shown.iter().map(|&it| BARS[(u128::from(it) * 7 / u128::from(most)) as usize]).collect();
    Line::from(vec![Span::styled("requests/s  ", HEAD), Span::styled(bars, Style::new().fg(Color::Green))])
}

/// With three digits, as many as anybody reads in a second.
fn count(value: f64) -> String {
    match value {
        value if value >= 999_500.0 => format!("{:.2}M", value / 1e6),
        value if value >= 9_999.5 => format!("{:.1}k", value / 1e3),
        value => format!("{value:.0}"),
    }
}

/// A time in nanoseconds; a dash where nothing is known.
fn time(value: &Value) -> String {
    match value.as_f64() {
        None => "-".into(),
        Some(nanos) if nanos < 999.5 => format!("{nanos:.0} ns"),
        Some(nanos) if nanos < 999_500.0 => format!("{} µs", three_digits(nanos / 1e3)),
        Some(nanos) if nanos < 999_500_000.0 => format!("{} ms", three_digits(nanos / 1e6)),
        Some(nanos) => format!("{} s", three_digits(nanos / 1e9)),
    }
}

fn three_digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

fn duration(seconds: f64) -> String {
    let seconds = seconds as u64;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn second() -> Second {
        let sample = include_str!("../../../../docs/samples/window.json");
        Second {
            admin: "127.0.0.1:21280".into(),
            window: serde_json::from_str(sample).expect("the sample is JSON"),
            config: json!({"engine": "pool", "threads": 2, "replicas": 1}),
            hot: json!({"keys": [{"share": 0.125, "hash": "9f86d081884c7d65", "key": null, "pool": "main", "reads": 64, "writes": 0}]}),
            history: vec![0, 5, 10],
        }
    }

    fn plain(lines: &[Line<'_>]) -> String {
        lines.iter().map(|line| super::super::plain(line) + "\n").collect()
    }

    /// Whoever answers at the port may answer anything: a negative time made a bar of endless length, and names reached the terminal as they were.
    #[test]
    fn whatever_a_port_answers_is_drawn_as_text() {
        let numbers =
            [json!(-9.5), json!(1e308), json!(u64::MAX), json!(null), json!("x"), json!([1]), json!(0)];
        for (place, odd) in numbers.iter().enumerate() {
            let mut second = second();
            let stage = &numbers[(place + 1) % numbers.len()];
            second.window["operations"]["get"]["stages"]["read"]["sum_ns"] = json!(10);
            second.window["operations"]["get"]["stages"]["dispatch"]["sum_ns"] = odd.clone();
            second.window["operations"]["get"]["stages"]["queue"]["sum_ns"] = stage.clone();
            for name in ["requests", "length_ns", "cpu_ns", "errors"] {
                second.window[name] = odd.clone();
            }
            second.window["servers"][0]["server"] = json!("\u{1b}]0;owned\u{7}\u{1b}[2J");
            second.window["servers"][0]["requests"] = odd.clone();
            second.history = vec![0, u64::MAX, 1 << 62];
            for width in [1, 20, 80] {
                let text = plain(&lines(&second, width, u16::MAX));
                assert!(!text.chars().any(|it| it.is_control() && it != '\n'), "{text:?}");
            }
        }
    }

    #[test]
    fn numbers_of_the_record_are_shown() {
        let text = plain(&lines(&second(), 80, u16::MAX));
        for part in [
            "throughput  4/s   errors 2/s",
            "engine pool, 2 threads",
            "127.0.0.1:11211",
            "down",
            "backend 75%",
            "hot keys     12.5 %  hash 9f86d081884c7d65  100 % reads  pool main",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    /// A second whose bottleneck is the first of two servers with long names.
    fn held() -> Second {
        let names = ["01", "02"].map(|it| format!("cache-{it}.memcached.production.svc.cluster.local:11211"));
        let servers = names.map(|name| {
            let length = if name.contains("01") { 5_000_000_000_u64 } else { 0 };
            json!({"server": name, "state": "up", "in_flight": {"length_time_integral_ns": length}})
        });
        let window = json!({
            "length_ns": 1_000_000_000, "requests": 1_234_567, "sessions": 10_000, "in_service": 12_345, "servers": servers,
            "total": {"p50_ns": 45_600, "p90_ns": 98_700, "p99_ns": 1_150_000, "p999_ns": 12_300_000, "max_ns": 45_600_000},
            "operations": {"get": {"errors": 12_345, "stages": {"backend": {"sum_ns": 8}, "send": {"sum_ns": 2}}}},
        });
        Second { window, ..second() }
    }

    fn answer_of(second: &Second, width: u16) -> String {
        super::super::plain(&lines(second, width, 1)[0])
    }

    #[test]
    fn the_first_line_is_the_answer_and_fits_80_and_120_columns() {
        let said = "1.23M requests/s, 12.3k errors/s, p99 1.15 ms; bottleneck: server cache-01.memc";
        assert_eq!(answer_of(&held(), 80), format!("{said}…"));
        assert_eq!(answer_of(&held(), 120), format!("{said}ached.production.svc.cluster.local:11211"));
        for width in [80, 120] {
            for second in [held(), second()] {
                for line in lines(&second, width, u16::MAX) {
                    assert!(line.width() <= usize::from(width), "{}", super::super::plain(&line));
                }
            }
        }
    }

    #[test]
    fn the_first_line_names_the_servers_that_are_down_and_fits_80_columns() {
        let mut second = held();
        second.window["servers"][1]["state"] = json!("down");
        let said = "1.23M requests/s, 12.3k errors/s, p99 1.15 ms; down: ";
        assert_eq!(answer_of(&second, 80), format!("{said}cache-02.memcached.product…"));
        second.window["servers"][0]["state"] = json!("down");
        assert_eq!(answer_of(&second, 80), format!("{said}cache-01.memcac… and 1 more"));
        for (place, name) in ["10.0.0.1:11211", "10.0.0.2:11211"].iter().enumerate() {
            second.window["servers"][place]["server"] = json!(name);
        }
        assert_eq!(answer_of(&second, 120), format!("{said}10.0.0.1:11211, 10.0.0.2:11211"));
        second.window["requests"] = json!(0);
        let nothing = "no request was answered in this second; down: ";
        assert_eq!(answer_of(&second, 80), format!("{nothing}10.0.0.1:11211, 10.0.0.2:11211"));
        for line in lines(&second, 80, u16::MAX) {
            assert!(line.width() <= 80, "{}", super::super::plain(&line));
        }
    }

    #[test]
    fn the_answer_says_so_where_no_bottleneck_shows_and_where_nothing_was_answered() {
        let mut second = held();
        second.window["operations"]["get"] = json!({"stages": {}});
        assert_eq!(answer_of(&second, 80), "1.23M requests/s, p99 1.15 ms; no bottleneck shows");
        second.window["requests"] = json!(0);
        second.window["in_service"] = json!(0);
        assert_eq!(answer_of(&second, 80), "no request was answered in this second");
        second.window["in_service"] = json!(3);
        assert_eq!(answer_of(&second, 80), "no request was answered in this second; bottleneck: servers");
    }

    #[test]
    fn every_line_fits_and_no_size_is_too_small() {
        for (width, height) in [(80, 24), (120, 40), (200, 60), (60, 10), (1, 1), (0, 0)] {
            let lines = lines(&second(), width, height);
            assert!(lines.len() <= usize::from(height));
            let widest = lines.iter().map(Line::width).max().unwrap_or(0);
            assert!(width < 80 || widest <= usize::from(width), "{widest} in {width}\n{}", plain(&lines));
        }
    }

    #[test]
    fn an_idle_second_shows_no_negative_zero() {
        let window = json!({"length_ns": 1_000_000_000, "requests": 0, "operations": {}, "servers": [], "threads": []});
        let text = plain(&lines(&Second { window, ..second() }, 80, 24));
        assert!(!text.contains("-0"), "{text}");
        assert!(text.contains("throughput  0/s   errors 0/s   misses 0.0 %"), "{text}");
    }

    #[test]
    fn servers_are_distinguished_at_60_columns() {
        let names = (1..=12).map(|it| format!("cache-{it:02}.memcached.production.svc.cluster.local:11211"));
        let servers: Vec<_> = names.map(|name| json!({"server": name, "state": "connecting"})).collect();
        let window = json!({"length_ns": 1_000_000_000, "servers": servers});
        let second = Second { window, ..second() };
        for width in [60, 80, 100] {
            let text = plain(&super::servers(&second.window, width));
            for number in 1..=12 {
                assert!(text.contains(&format!("{number:02}")), "{number} in {width} columns:\n{text}");
            }
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            assert!(text.contains("req/s"), "{width}:\n{text}");
        }
    }

    #[test]
    fn nothing_known_is_nothing_shown() {
        let empty = Second { window: json!({}), config: json!({}), history: Vec::new(), ..second() };
        assert!(plain(&lines(&empty, 80, 24)).contains("none: no request"));
    }

    #[test]
    fn times_and_counts_have_three_digits() {
        for (nanos, text) in [
            (5, "5 ns"),
            (1234, "1.23 µs"),
            (45_600, "45.6 µs"),
            (999_600, "1.00 ms"),
            (2_000_000_000, "2.00 s"),
        ] {
            assert_eq!(time(&json!(nanos)), text);
        }
        assert_eq!([9_999.0, 10_000.0, 1_234_567.0].map(count), ["9999", "10.0k", "1.23M"]);
    }
}
