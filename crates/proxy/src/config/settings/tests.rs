use super::*;
use kinds::*;

impl Layer {
    /// What all of this says.
    pub(crate) fn of(said: &[(&str, &str)]) -> Self {
        said.iter().fold(Self::default(), |layer, (name, text)| layer.with(name, text).expect("a value"))
    }
}

fn refusal(name: &str, text: &str) -> String {
    Layer::default().with(name, text).err().unwrap_or_default()
}

#[test]
fn every_default_is_a_value_and_every_bound() {
    for row in [Settings::ROWS, PoolSettings::ROWS].concat() {
        for text in [row.default, row.least, row.most].into_iter().filter(|text| !text.is_empty()) {
            assert!(row.check(text).is_ok(), "{} {text}: {:?}", row.name, row.check(text));
        }
        assert!(!row.help.is_empty() && !row.help.ends_with('.'), "{}", row.name);
    }
}

#[test]
fn a_value_is_written_as_it_is_read() {
    for (name, text, written) in [
        ("timeout", "1500ms", "1500ms"),
        ("timeout", "1m", "60s"),
        ("client_buffer", "1024k", "1m"),
        ("max_value", "4097b", "4097b"),
        ("allow_flush", "YES", "true"),
        ("listen_mode", "0600", "600"),
        ("admin_host", "a.b., c", "a.b,c"),
        ("trace_sample", "0.5", "0.5"),
        ("multiget", "auto", "auto"),
    ] {
        let layer = Layer::default().with(name, text).expect("a value");
        let settings = Settings::of(&layer);
        let entry = settings.entries().into_iter().find(|(row, _)| row.name == name);
        assert_eq!(entry.and_then(|(_, text)| text).as_deref(), Some(written));
        assert_eq!(layer.get(name), Some(written));
    }
}

#[test]
fn all_settings_are_reported_by_name() {
    let reported = Settings::default().json();
    for row in Settings::ROWS {
        assert!(reported.get(row.name).is_some(), "{}", row.name);
    }
    assert_eq!(reported["queue"], 10_000);
    assert_eq!(reported["allow_flush"], false);
    assert_eq!(reported["trace_sample"], 0.01);
    assert_eq!(reported["timeout"], "500ms");
    assert_eq!(reported["max_value"], Value::Null);
}

#[test]
fn what_a_setting_does_not_take_is_refused_with_the_reason() {
    for (name, text, expected) in [
        ("timeout", "0s", "0s is too little: every request would fail; give at least 1us"),
        ("batch_pause", "2ms", "2ms is too much: requests would be held up for nothing; give at most 1ms"),
        ("threads", "0", "0 is out of range: give 1 to 256"),
        ("threads", "257", "257 is out of range: give 1 to 256"),
        ("max_connections", "0", "0 is too little: no client could connect; give at least 1"),
        ("max_value", "0", "0 is too little: clients could store nothing; give at least 1b"),
        (
            "client_buffer",
            "4095b",
            "4095b is too little: no reply would fit that is longer; give at least 4k",
        ),
        ("buffer_limit", "1m", "1m is too little: one client may ask for more; give at least 16m"),
        ("mark_down_share", "101", "101 is out of range: give at most 100"),
        ("workers", "1025", "1025 is out of range: give 1 to 1024"),
        ("readers", "257", "257 is out of range: give 1 to 256"),
        ("queue", "0", "0 is too little: every request would be refused; give at least 1"),
        ("connect_timeout", "0s", "0s is too little: no server could be connected to; give at least 1us"),
        ("resolve_every", "99ms", "99ms is out of range: give at least 100ms"),
        ("server_buffer", "1k", "1k is too little: no reply would fit that is longer; give at least 4k"),
        ("workers", "many", "\"many\" is no whole number"),
        ("allow_flush", "perhaps", "\"perhaps\" is neither true nor false"),
        ("listen", "nowhere", "\"nowhere\" is no address: write host:port or unix:/path"),
        ("listen", ":1", "\":1\" is no address: write host:port or unix:/path"),
        ("admin", "unix:/run/weir.sock", "\"unix:/run/weir.sock\" is no address: write host:port"),
        (
            "admin_host",
            "a:1",
            "\"a:1\" is no name of a host: give names without port, with commas between them",
        ),
        ("listen_mode", "999", "\"999\" is no mode: give three octal digits, such as 660"),
        ("read", "any", "\"any\" is none of primary, spread, nearest"),
    ] {
        assert_eq!(refusal(name, text), expected);
    }
    for text in ["unix:run/weir.sock", "/run/weir.sock:2", "/run/weir.sock name", "unix:"] {
        assert!(refusal("listen", text).contains("is no path of a socket"), "{text}");
    }
    for text in ["127.0.0.1:0", "[::1]:21211", "cache.internal:1", "/run/weir.sock", "unix:/run/weir.sock"] {
        assert_eq!(refusal("listen", text), "");
    }
}

#[test]
fn shares_are_above_nothing_and_no_more_than_all() {
    assert_eq!((Share::parse("0.25"), Share::parse("1")), (Ok(0.25), Ok(1.0)));
    for bad in ["0", "-0.1", "1.01", "NaN", "inf", "", "1%"] {
        assert!(Share::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn sizes_have_units() {
    for (text, bytes) in [("4096b", 4096), ("0", 0), ("64k", 64 << 10), ("1 MiB", 1 << 20), ("2G", 2 << 30)] {
        assert_eq!(Size::parse(text), Ok(bytes));
        let written = Size::text(&bytes).expect("a size is always set");
        assert_eq!(Size::parse(&written), Ok(bytes), "{written}");
    }
    for bad in ["", "m", "1.5m", "-1", "1t", "99999999999g", "99999999999999999999"] {
        assert!(Size::parse(bad).is_err(), "{bad}");
    }
    let reason = Size::parse("64").unwrap_err();
    assert_eq!(reason, "64 has no unit: write 64b for bytes, 64k, 64m or 64g");
}

#[test]
fn a_certificate_is_not_put_together_with_the_key_of_another() {
    let below = Layer::of(&[("server_cert", "old.crt"), ("server_key", "old.key"), ("server_ca", "ca.crt")]);
    let over = Layer::of(&[("server_cert", "both.pem")]).over(below.clone());
    let read = ["server_cert", "server_key", "server_ca"].map(|name| over.get(name));
    assert_eq!(read, [Some("both.pem"), None, Some("ca.crt")]);
    let over = Layer::of(&[("server_key", "new.key")]).over(below);
    assert_eq!(over.get("server_key"), Some("new.key"));
}
