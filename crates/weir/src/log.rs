//! The log of a proxy: lines on standard error, each one change of state.
//!
//! What is said comes as an event of `tracing`; [`Log`] makes a line of it, as text or as JSON, and owns nothing else. It takes events
//! that have a `message`; other fields are for machines and stand in JSON only, but for `more`: how many of the kind were left out before.
//! Spans mean nothing here.
//!
//! ```text
//!   2026-11-22T19:12:01.123Z warn  server 10.0.0.1:11211 is down: it cannot be connected to
//!   {"time":"2026-11-22T19:12:01.123Z","level":"warn","event":"server_down","server":"10.0.0.1:11211","why":"unreachable","message":"…"}
//! ```
//!
//! Where standard error is systemd's journal, it has times of its own, and takes the level from `<4>` at the beginning of a line
//! (sd-daemon(3)). So text has no time and no level there, and JSON keeps both.
//!
//! Nothing that a peer has said can begin a line, colour a terminal or turn text around: such characters are escaped.

use serde_json::Value;
use std::{
    fmt::{self, Write as _},
    io::{self, Write as _},
    os::unix::fs::MetadataExt,
    panic::{self, PanicHookInfo},
    thread,
    time::{SystemTime, UNIX_EPOCH},
};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
};
use weir_proxy::{LogFormat, LogLevel};

/// What is left out.
const fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
    }
}

/// From now on events are lines on standard error, and so is a panic.
pub(crate) fn begin(format: LogFormat, level: LogLevel) {
    let log = Log { format, level: filter(level), is_journal: is_journal() };
    // Fails where there is one already: nobody else sets one.
    let _ = tracing::subscriber::set_global_default(log);
    panic::set_hook(Box::new(say_panic));
}

/// One line, where the standard library would write several that no format has.
fn say_panic(panicked: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let thread = thread.name().unwrap_or("without a name");
    let place = panicked.location().map(ToString::to_string).unwrap_or_default();
    let payload = panicked.payload();
    let why = payload.downcast_ref::<&str>().copied();
    let why =
        why.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message");
    tracing::error!(event = "panicked", thread, place, "thread {thread} panicked at {place}: {why}");
}

/// Writes events to standard error.
struct Log {
    format: LogFormat,
    level: LevelFilter,
    is_journal: bool,
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= self.level
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let line = Line { unix_ms: unix_ms(), level: *event.metadata().level(), fields };
        let line = line.write(self.format, self.is_journal);
        // One call: lines of two processes that share the stream do not mix. There is nowhere to report that it failed.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// An event's fields, in their order.
#[derive(Default)]
struct Fields {
    message: String,
    /// How many of the kind were left out before.
    more: u64,
    others: Vec<(&'static str, Value)>,
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "more" => self.more = value,
            name => self.others.push((name, value.into())),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.others.push((field.name(), value.into()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.others.push((field.name(), value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.others.push((field.name(), value.into()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.others.push((field.name(), value.into()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.others.push((name, format!("{value:?}").into())),
        }
    }
}

/// What is written.
struct Line {
    unix_ms: u64,
    level: tracing::Level,
    fields: Fields,
}

impl Line {
    fn write(&self, format: LogFormat, is_journal: bool) -> String {
        let mut line = String::with_capacity(160);
        let level = self.level.as_str().to_ascii_lowercase();
        if is_journal {
            push(&mut line, format_args!("<{}>", priority(self.level)));
        }
        match format {
            LogFormat::Text => {
                if !is_journal {
                    push(&mut line, format_args!("{} {level:<5} ", rfc_3339(self.unix_ms)));
                }
                push_escaped(&mut line, &self.fields.message);
                if self.fields.more > 0 {
                    push(&mut line, format_args!(" (and {} more like it since)", self.fields.more));
                }
            }
            LogFormat::Json => {
                push(
                    &mut line,
                    format_args!("{{\"time\":\"{}\",\"level\":\"{level}\"", rfc_3339(self.unix_ms)),
                );
                for (name, value) in &self.fields.others {
                    // What there is not, such as the address of an admin port.
                    if value != "" {
                        push(&mut line, format_args!(",\"{name}\":{value}"));
                    }
                }
                if self.fields.more > 0 {
                    push(&mut line, format_args!(",\"more\":{}", self.fields.more));
                }
                push(&mut line, format_args!(",\"message\":{}}}", Value::from(self.fields.message.as_str())));
            }
        }
        line.push('\n');
        line
    }
}

fn push(line: &mut String, what: fmt::Arguments<'_>) {
    line.write_fmt(what).expect("a string takes all text");
}

/// Text that stays in its line, and shows what it is.
fn push_escaped(line: &mut String, text: &str) {
    for character in text.chars() {
        if is_unsafe(character) {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
}

/// Characters that steer a terminal, end a line, or turn the direction of text.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// syslog(3)'s number.
const fn priority(level: tracing::Level) -> u8 {
    match level {
        tracing::Level::ERROR => 3,
        tracing::Level::WARN => 4,
        _ => 6,
    }
}

#[expect(clippy::disallowed_methods, reason = "a driver: lines have times")]
fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time as RFC 3339 writes it, in UTC. Days become dates as in Hinnant, "chrono-Compatible Low-Level Date Algorithms",
/// `civil_from_days`: years begin in March, so that a leap day is a year's last.
fn rfc_3339(unix_ms: u64) -> String {
    let (seconds, millis) = (unix_ms / 1000, unix_ms % 1000);
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Whether standard error is a stream of systemd's journal: `JOURNAL_STREAM` names one (systemd.exec(5)), and a program that was given
/// another one since must not believe it.
fn is_journal() -> bool {
    let Ok(named) = std::env::var("JOURNAL_STREAM") else { return false };
    let Ok(stderr) = std::fs::metadata("/proc/self/fd/2") else { return false };
    is_stream(&named, (stderr.dev(), stderr.ino()))
}

fn is_stream(named: &str, (device, inode): (u64, u64)) -> bool {
    named == format!("{device}:{inode}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: &str, more: u64) -> Line {
        let others = vec![("event", "server_down".into()), ("server", "s:1".into()), ("timeouts", 3.into())];
        let fields = Fields { message: message.into(), more, others };
        Line { unix_ms: 1_795_374_721_123, level: tracing::Level::WARN, fields }
    }

    #[test]
    fn text_is_for_people() {
        let text = line("server s:1 is down", 0).write(LogFormat::Text, false);
        assert_eq!(text, "2026-11-22T19:12:01.123Z warn  server s:1 is down\n");
        let text = line("server s:1 is down", 7).write(LogFormat::Text, true);
        assert_eq!(text, "<4>server s:1 is down (and 7 more like it since)\n");
    }

    #[test]
    fn json_has_everything() {
        for (is_journal, begin) in [(false, "{"), (true, "<4>{")] {
            let text = line("it said \"\n\"", 7).write(LogFormat::Json, is_journal);
            assert!(text.starts_with(&format!("{begin}\"time\":")) && text.ends_with("}\n"), "{text}");
            assert_eq!(text.matches('\n').count(), 1, "{text}");
            let value: Value = serde_json::from_str(text.trim_start_matches("<4>")).expect("JSON");
            let wanted = serde_json::json!({
                "time": "2026-11-22T19:12:01.123Z", "level": "warn", "event": "server_down", "server": "s:1", "timeouts": 3, "more": 7,
                "message": "it said \"\n\"",
            });
            assert_eq!(value, wanted);
        }
        let text = line("m", 0).write(LogFormat::Json, false);
        assert!(!text.contains("more"), "{text}");
    }

    #[test]
    fn what_peers_say_stays_in_its_line() {
        let text = line("a\nb\r\u{1b}[31mred\u{7f}\u{9b}\u{202e}\u{2028}é\0", 0).write(LogFormat::Text, true);
        let wanted = r"<4>a\nb\r\u{1b}[31mred\u{7f}\u{9b}\u{202e}\u{2028}é\u{0}";
        assert_eq!(text, format!("{wanted}\n"));
    }

    #[test]
    fn days_become_dates() {
        for (unix_s, date) in [
            (0, "1970-01-01T00:00:00"),
            (951_782_399, "2000-02-28T23:59:59"),
            (951_782_400, "2000-02-29T00:00:00"),
            (4_107_542_400, "2100-03-01T00:00:00"),
            (1_798_761_599, "2026-12-31T23:59:59"),
        ] {
            assert_eq!(rfc_3339(unix_s * 1000), format!("{date}.000Z"));
        }
    }

    #[test]
    fn a_stream_is_the_journals_only_if_it_is_the_one_that_is_named() {
        assert!(is_stream("8:4711", (8, 4711)));
        assert!(!is_stream("8:4711", (8, 4712)));
        assert!(!is_stream("", (8, 4711)));
    }
}
