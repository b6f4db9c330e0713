//! The keys that are asked for most: `GET /hot` (`weir.hot/1` of `docs/reference/formats.md`), `stats hot`, and the share of the hottest.
//!
//! Keys may be secrets. So a key is shown as its hash, and in clear only with `--show-keys`. This is the one place that shows any.
//!
//! What loops have counted are requests that were looked at, one of many. Here that is scaled to all requests:
//!
//! | said | of m that were looked at, each for n |
//! |---|---|
//! | `reads`, `writes`, `bytes`, `error`, `count` | times n |
//! | `share` | of all keys that were looked at, those that are certainly this one |
//! | `noise` | 1.96 · n · √(m·(1 − 1/n)): choosing at random is off by more in one of twenty cases |

use crate::{
    admin::reporter::{Reporter, Sums},
    process::clock,
};
use serde_json::{Value, json};
use std::{cmp::Reverse, fmt::Write as _, slice};
use weir_dataplane::{KeyCounts, TopKeys};
use weir_routing::{REPLICAS_MAX, Table, fingerprint};

/// How many keys `/hot` shows.
const PAGE_KEYS_MAX: usize = 100;

/// How many keys `stats hot` shows.
const STATS_KEYS_MAX: usize = 20;

/// `GET /hot`.
pub(super) fn page(reporter: &Reporter, top: &Sums<TopKeys>) -> Value {
    let (in_force, settings) = (reporter.reload.in_force(), reporter.settings());
    let all = Scale::of(top);
    let hottest = hottest(top.of_groups(), PAGE_KEYS_MAX).into_iter();
    let keys: Vec<_> = hottest
        .map(|Hot { group, key, counts }| {
            let (pool, servers) = place(in_force.table_of(group), key);
            json!({
                "hash": fingerprint(key),
                "key": settings.show_keys.then(|| shown(key)),
                "pool": pool,
                "servers": servers,
                "reads": all.scaled(counts.reads),
                "writes": all.scaled(counts.writes),
                "bytes": all.scaled(counts.bytes),
                "count": all.scaled(counts.count()),
                "error": all.scaled(counts.error),
                "noise": all.noise(counts),
                "share": all.share(counts),
            })
        })
        .collect();
    json!({
        "schema": "weir.hot/1",
        "taken_unix_ns": clock::unix_ns(),
        "hot_keys": settings.hot_keys,
        "length_ns": top.until().saturating_since(top.since()),
        "one_in": top.one_in(),
        "keys_looked_at": top.looked_at(),
        "keys_asked": all.scaled(top.looked_at()),
        "floor": all.scaled(top.floor()),
        "keys": keys,
    })
}

/// `stats hot`: a name and a value for each line. Names begin with the rank of the key. `top` has keys that this table places.
pub(super) fn stats(reporter: &Reporter, table: &Table, top: &TopKeys, mut stat: impl FnMut(&str, &str)) {
    let settings = reporter.settings();
    let all = Scale::of(top);
    stat("seconds", &format!("{:.1}", top.until().saturating_since(top.since()) as f64 / 1e9));
    stat("one_in", &top.one_in().to_string());
    stat("keys_looked_at", &top.looked_at().to_string());
    for (rank, Hot { key, counts, .. }) in (1..).zip(hottest(slice::from_ref(top), STATS_KEYS_MAX)) {
        let (pool, _) = place(table, key);
        let mut stat = |name: &str, value: &str| stat(&format!("{rank}:{name}"), value);
        stat("hash", &fingerprint(key));
        if settings.show_keys {
            stat("key", &shown(key));
        }
        stat("pool", pool);
        stat("reads", &all.scaled(counts.reads).to_string());
        stat("writes", &all.scaled(counts.writes).to_string());
        stat("bytes", &all.scaled(counts.bytes).to_string());
        stat("error", &all.scaled(counts.error).to_string());
        stat("noise", &all.noise(counts).to_string());
        stat("share", &format!("{:.4}", all.share(counts)));
    }
}

/// The share that the hottest key has of all; 0 where nothing was looked at.
pub(super) fn hottest_share(top: &Sums<TopKeys>) -> f64 {
    hottest(top.of_groups(), 1).first().map_or(0.0, |hot| Scale::of(top).share(hot.counts))
}

/// A key that is asked for often: of two groups of clients the same name is two keys.
struct Hot<'a> {
    group: usize,
    key: &'a [u8],
    counts: &'a KeyCounts,
}

/// The hottest of all groups, at most this many, the hottest first: by what is certain of each.
fn hottest(groups: &[TopKeys], count_max: usize) -> Vec<Hot<'_>> {
    let mut keys: Vec<_> = groups
        .iter()
        .enumerate()
        .flat_map(|(group, top)| {
            let keys = top.hottest(count_max).into_iter();
            keys.map(move |(key, counts)| Hot { group, key, counts })
        })
        .collect();
    keys.sort_by_key(|hot| Reverse((hot.counts.certain(), hot.counts.count())));
    keys.truncate(count_max);
    keys
}

/// The pool to which the key belongs by the table in force, and its servers, the primary first.
fn place<'a>(table: &'a Table, key: &[u8]) -> (&'a str, Vec<&'a str>) {
    let mut places = [0; REPLICAS_MAX];
    let count = table.replicas_of(key, &mut places);
    let servers = places[..count].iter().map(|place| table.servers()[usize::from(*place)].name.as_str());
    (table.pools()[table.pool_of(key)].name(), servers.collect())
}

/// A key as text, whatever its bytes are: what is no visible letter of ASCII, and `%`, as `%XX`. `/where?key=` takes it so.
fn shown(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len());
    for &byte in key {
        if byte.is_ascii_graphic() && byte != b'%' {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").expect("a string takes all text");
        }
    }
    text
}

/// What was looked at, and what that says of all.
struct Scale {
    one_in: u64,
    looked_at: u64,
}

impl Scale {
    fn of(top: &TopKeys) -> Self {
        Self { one_in: top.one_in(), looked_at: top.looked_at() }
    }

    fn scaled(&self, looked_at: u64) -> u64 {
        looked_at.saturating_mul(self.one_in)
    }

    fn noise(&self, counts: &KeyCounts) -> u64 {
        let one_in = self.one_in as f64;
        (1.96 * one_in * (counts.count() as f64 * (1.0 - one_in.recip())).sqrt()).ceil() as u64
    }

    fn share(&self, counts: &KeyCounts) -> f64 {
        counts.certain() as f64 / self.looked_at.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_shown_as_visible_text() {
        assert_eq!(shown(b"user:1"), "user:1");
        assert_eq!(shown(b"a b\r\nSTAT x\0\x7f%\xff\"\\"), "a%20b%0D%0ASTAT%20x%00%7F%25%FF\"\\");
        assert_eq!(shown("ä".as_bytes()), "%C3%A4");
    }

    #[test]
    fn what_was_looked_at_is_scaled_to_all() {
        let all = Scale { one_in: 64, looked_at: 400 };
        let counts = KeyCounts { reads: 60, writes: 20, bytes: 10, error: 20 };
        assert_eq!((all.scaled(counts.reads), all.share(&counts)), (3_840, 0.2));
        // 1.96 · 64 · √(100 · 63/64)
        assert_eq!(all.noise(&counts), 1_245);
        assert_eq!(
            Scale { one_in: 1, looked_at: 400 }.noise(&counts),
            0,
            "where all are looked at, nothing is by chance"
        );
        assert_eq!(all.scaled(u64::MAX), u64::MAX);
    }
}
