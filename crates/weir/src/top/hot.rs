//! The hottest keys, where one of them is hot: `weir.hot/1` of docs/reference/formats.md, in a few lines.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use serde_json::Value;

use super::judge::{number, text};
use super::names;

/// A key that has this share of all that are asked for is shown, with those that follow it.
const HOT: f64 = 0.05;

/// How many are shown at most.
const KEYS_MAX: usize = 3;

/// A line per key: its share, itself or its hash, how much of it is reads, its pool. None where no key is hot.
pub(super) fn lines(hot: &Value, width: usize) -> Vec<Line<'static>> {
    let keys = hot["keys"].as_array().into_iter().flatten();
    let keys: Vec<_> = keys.filter(|key| number(&key["share"]) >= HOT).take(KEYS_MAX).collect();
    let lines = keys.iter().zip(0..).map(|(key, place)| {
        let head = if place == 0 { "hot keys" } else { "" };
        Line::from(vec![
            Span::styled(format!("{head:12}"), Style::new().add_modifier(Modifier::BOLD)),
            Span::raw(line(key, width - 12)),
        ])
    });
    lines.collect()
}

fn line(key: &Value, width: usize) -> String {
    let (reads, writes) = (number(&key["reads"]), number(&key["writes"]));
    let share = format!("{:5.1} %  ", 100.0 * number(&key["share"]));
    let read = format!("  {:3.0} % reads", 100.0 * reads / (reads + writes).max(1.0));
    let pool = format!("  pool {}", text(&key["pool"]));
    let name = key["key"].as_str().map_or_else(|| format!("hash {}", text(&key["hash"])), str::to_owned);
    // The pool is what can be left out, and a long key is shortened in its middle.
    let room = width.saturating_sub(share.chars().count() + read.chars().count());
    let name = names::shortened(&[name], room).remove(0);
    let fits = name.chars().count() + pool.chars().count() <= room;
    share + &name + &read + if fits { &pool } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn key(share: f64, key: Option<&str>, pool: &str) -> Value {
        json!({"hash": "9f86d081884c7d65", "key": key, "pool": pool, "share": share, "reads": 99, "writes": 1})
    }

    fn shown(keys: &[Value], width: usize) -> Vec<String> {
        let lines = lines(&json!({ "keys": keys }), width);
        assert!(lines.iter().all(|line| line.width() <= width), "{lines:?}");
        lines.iter().map(super::super::plain).collect()
    }

    #[test]
    fn keys_are_named_where_one_is_hot() {
        let keys =
            [key(0.123, None, "main"), key(0.0501, Some("user:1"), "users"), key(0.0499, None, "main")];
        let expected = [
            "hot keys     12.3 %  hash 9f86d081884c7d65   99 % reads  pool main",
            "              5.0 %  user:1   99 % reads  pool users",
        ];
        assert_eq!(shown(&keys, 80), expected);
        assert_eq!(shown(&keys[2..], 80), Vec::<String>::new());
        assert_eq!(shown(&vec![key(0.2, None, "a"); 9], 80).len(), KEYS_MAX);
    }

    #[test]
    fn every_line_fits_whatever_the_key_and_the_pool_are() {
        let (long, pool) = ("%C3%A4".repeat(125), "p".repeat(100));
        for width in [40, 80, 120] {
            let shown = shown(&[key(1.0, Some(&long), &pool), key(0.1, None, &pool)], width);
            assert!(shown[0].contains("%C3") && shown[0].contains('…'), "{shown:?}");
        }
    }

    #[test]
    fn a_proxy_that_knows_of_no_hot_keys_shows_none() {
        for hot in [json!(null), json!({}), json!({"keys": []}), json!({"keys": [{}]})] {
            assert!(lines(&hot, 80).is_empty());
        }
    }
}
