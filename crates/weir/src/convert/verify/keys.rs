//! Which keys are written.

use weir_routing::Table;

/// memcached's longest key, in bytes.
const KEY_MAX: usize = 250;

/// Knuth's multiplier: an odd number, so that no two numbers become one.
const SPREAD: u32 = 2_654_435_761;

/// The keys to write: under each route's prefix and under none in turn. Some have a hash tag, and some mcrouter's `|#|`, whatever the
/// file says: the other proxy may know of it.
pub(super) fn keys(table: &Table, prefix: &str, count: u32, run: &str) -> Result<Vec<String>, String> {
    if !prefix.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("--verify-prefix {prefix:?} can be no part of a key: give printable ASCII"));
    }
    let routes: Vec<_> =
        table.routes().map(|(route, _)| String::from_utf8_lossy(route).into_owned()).collect();
    let prefixes: Vec<_> = std::iter::once(String::new()).chain(routes).collect();
    let tags = table.pools().iter().find_map(|pool| pool.router().options().hash_tag);
    let tag = tags.map_or("{}".to_owned(), |tag| tag.to_string());
    let (open, close) = tag.split_at(1);
    let key = |number: u32| {
        let number_of = number as usize;
        let start = format!("{}{prefix}", prefixes[number_of % prefixes.len()]);
        // Each number has another one, with all digits different: hashes that hardly mix spread those, too.
        let name = format!("{:08x}", number.wrapping_mul(SPREAD));
        match number_of / prefixes.len() % 4 {
            1 => format!("{start}{open}{name}{close}:{run}"),
            3 => format!("{start}{name}:{run}|#|rest"),
            _ => format!("{start}{name}:{run}"),
        }
    };
    let keys: Vec<_> = (0..count).map(key).collect();
    match keys.iter().find(|key| key.len() > KEY_MAX) {
        Some(key) => Err(format!("--verify-prefix is too long: {key:?} has more than {KEY_MAX} bytes")),
        None => Ok(keys),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config_file;

    fn table(routes: &str, pool: &str) -> Table {
        let text = format!(
            "default = \"a\"\n[pools.a]\nservers = [\"a:1\", \"b:1\"]\n{pool}\n[pools.b]\nservers = [\"c:1\"]\n[routes]\n{routes}"
        );
        config_file::parse(&text, "file").unwrap().table(None).unwrap().into_table().unwrap()
    }

    #[test]
    fn every_route_has_keys_and_some_keys_have_tags() {
        let table = table("\"user:\" = \"b\"", "placement = \"twemproxy/ketama\"\nhash_tag = \"<>\"");
        let keys = keys(&table, "x:", 8, "1").unwrap();
        assert_eq!(
            keys,
            [
                "x:00000000:1",
                "user:x:9e3779b1:1",
                "x:<3c6ef362>:1",
                "user:x:<daa66d13>:1",
                "x:78dde6c4:1",
                "user:x:17156075:1",
                "x:b54cda26:1|#|rest",
                "user:x:538453d7:1|#|rest"
            ]
        );
        assert_eq!(keys.iter().filter(|key| table.pool_of(key.as_bytes()) == 1).count(), 4);
    }

    /// A file that has lost its hash tag is found out only by keys with a tag.
    #[test]
    fn keys_have_tags_also_where_the_file_has_none() {
        let keys = keys(&table("", "placement = \"modulo\""), "", 8, "1").unwrap();
        let routed = keys.iter().filter(|key| key.contains('{')).count();
        assert_eq!((routed, keys[1].as_str()), (2, "{9e3779b1}:1"));
    }

    #[test]
    fn prefixes_that_make_no_keys_are_refused() {
        let table = table("", "");
        assert!(keys(&table, "a b", 1, "1").unwrap_err().contains("can be no part of a key"));
        assert!(keys(&table, &"x".repeat(250), 1, "1").unwrap_err().contains("more than 250 bytes"));
    }
}
