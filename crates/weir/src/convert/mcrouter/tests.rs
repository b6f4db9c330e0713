use super::*;

/// Long after every migration of these files.
const NOW_S: u64 = 1_800_000_000;

fn file(route: &str) -> String {
    format!(
        r#"{{"pools": {{"A": {{"servers": ["127.0.0.1:5001", "127.0.0.1:5002:ascii:plain"]}}}}, "route": {route}}}"#
    )
}

fn toml(text: &str) -> String {
    let converted = convert(text, NOW_S).unwrap_or_else(|reason| panic!("{text}: {reason}"));
    converted.check().unwrap();
    let toml = converted.to_toml();
    crate::config_file::parse(&toml, "file").unwrap_or_else(|error| panic!("{error}\n{toml}"));
    toml
}

#[track_caller]
fn refused(text: &str, expected: &str) {
    let reason = convert(text, NOW_S).map(|converted| converted.to_toml()).unwrap_err();
    assert!(reason.contains(expected), "{text}: {reason}");
}

/// What is refused says what is nearest and what to do.
#[track_caller]
fn refused_with_advice(route: &str, expected: &str) {
    refused(&file(route), expected);
    refused(&file(route), "Nearest: ");
    refused(&file(route), "To convert, ");
}

const ONE_POOL: &str = "\
[pools.A]
servers = [
  \"127.0.0.1:5001:1\",
  \"127.0.0.1:5002:1\",
]
placement = \"mcrouter/Ch3\"
";

#[test]
fn a_pool_route_becomes_a_pool() {
    for route in [
        r#""PoolRoute|A""#,
        r#""HashRoute|Pool|A""#,
        r#"{"type": "PoolRoute", "pool": "A"}"#,
        r#"{"type": "PoolRoute", "pool": "A", "hash": "Ch3"}"#,
        r#"{"type": "HashRoute", "children": "Pool|A", "hash_func": "Ch3"}"#,
        // One child is itself: its keys are not copied to all servers of the pool.
        r#"{"type": "AllSyncRoute", "children": ["PoolRoute|A"]}"#,
        r#""AllFastestRoute|PoolRoute|A""#,
        // From a pool to itself, and one that was over long ago.
        r#"{"type": "MigrateRoute", "from": "PoolRoute|A", "to": "PoolRoute|A", "start_time": 4000000000}"#,
        r#"{"type": "MigrateRoute", "from": "NullRoute", "to": "PoolRoute|A", "start_time": 1, "interval": 2}"#,
        r#"{"type": "PrefixSelectorRoute", "wildcard": "PoolRoute|A"}"#,
        r#"{"type": "OperationSelectorRoute", "default_policy": "PoolRoute|A", "operation_policies": {"get": "PoolRoute|A"}}"#,
        r#"{"type": "OperationSelectorRoute", "default_policy": "PoolRoute|A"}"#,
    ] {
        assert_eq!(toml(&file(route)), ONE_POOL, "{route}");
    }
}

#[test]
fn comments_and_last_commas_are_no_matter() {
    let text = "// my mcrouter\n{\"pools\": {\"A\": {\"servers\": [\"127.0.0.1:5001\", /* two */ \"127.0.0.1:5002\",],},}, // pools\n\
                \"route\": \"PoolRoute|A\",}\n// end";
    assert_eq!(toml(text), ONE_POOL);
    refused("{\n\"pools\": {},\n\"route\" \"x\"}", "cannot be read as JSON: expected `:` at line 3");
    refused("{ /* no end", "the comment that begins in line 1 does not end");
}

/// A `PoolRoute` takes `weights` and `tags` of its pool. They were left out, and keys would have moved.
#[test]
fn weights_and_tags_of_a_pool_count() {
    let weights = |route: &str| {
        file(route).replace(r#""servers""#, r#""weights": [1, 0.25], "tags": ["a", "b"], "servers""#)
    };
    let weighted = toml(&weights(r#""PoolRoute|A""#));
    assert!(weighted.contains("5001:1\"") && weighted.contains("5002:0.25\""), "{weighted}");
    assert!(weighted.ends_with("placement = \"mcrouter/WeightedCh3\"\n"), "{weighted}");
    // The route's own words come first, and a HashRoute does not ask the pool.
    let other = toml(&weights(r#"{"type": "PoolRoute", "pool": "A", "hash": "Crc32"}"#));
    assert!(other.contains("5002:1\"") && other.ends_with("placement = \"mcrouter/Crc32\"\n"), "{other}");
    assert_eq!(toml(&weights(r#""HashRoute|Pool|A""#)), ONE_POOL);
    let tagged = toml(&weights(r#"{"type": "PoolRoute", "pool": "A", "hash": "Rendezvous"}"#));
    assert!(tagged.contains("5001:1 a\"") && tagged.contains("5002:1 b\""), "{tagged}");
}

#[test]
fn hash_functions_bring_salt_weights_and_tags() {
    let pool_route = |hash: &str| file(&format!(r#"{{"type": "PoolRoute", "pool": "A", "hash": {hash}}}"#));
    let salted = toml(&pool_route(r#"{"hash_func": "Crc32", "salt": "pepper"}"#));
    assert!(salted.ends_with("placement = \"mcrouter/Crc32\"\nsalt = \"pepper\"\n"), "{salted}");
    let weighted = toml(&pool_route(r#"{"hash_func": "WeightedCh3", "weights": [0.25]}"#));
    assert!(weighted.contains("5001:0.25\"") && weighted.contains("5002:0.5\""), "{weighted}");
    assert!(weighted.contains("# servers without a weight have 0.5, as in mcrouter\n"), "{weighted}");
    let tagged = toml(&pool_route(r#"{"hash_func": "Rendezvous", "tags": ["a", "b"]}"#));
    assert!(tagged.contains("5001:1 a\"") && tagged.contains("5002:1 b\""), "{tagged}");
    refused(
        &pool_route(r#""WeightedCh4""#),
        "pool A: the hash function \"WeightedCh4\" has no equal. Nearest: Ch3",
    );
    refused(&pool_route(r#"{"hash_func": "WeightedCh3", "weights": [0, 1]}"#), "a weight of 0 has no equal");
    refused(
        &pool_route(r#"{"hash_func": "WeightedCh3", "weights": [-1, 1]}"#),
        "\"-1\" is no number above 0",
    );
    refused(&pool_route(r#"{"hash_func": "Rendezvous"}"#), "Rendezvous has no list of `tags`");
    refused(&pool_route(r#"{"hash_func": "Rendezvous", "tags": ["a"]}"#), "has 1 tags for 2 servers");
    refused(&pool_route(r#"{"bucketize": true}"#), "the hash: `bucketize` has no equal");
}

#[test]
fn one_server_needs_no_hash() {
    let text = r#"{"pools": {"A": {"servers": ["a:1"], "weights": [0]}}, "route": "PoolRoute|A"}"#;
    assert!(toml(text).contains("\"a:1:1\",\n]\nplacement = \"mcrouter/Ch3\"\n"), "{}", toml(text));
}

#[test]
fn prefixes_become_routes() {
    let text = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1", "c:1"]}, "unused": {"servers": ["d:1"]}},
        "route": {"type": "PrefixSelectorRoute", "wildcard": "PoolRoute|A",
            "policies": {"b": "PoolRoute|B", "bb": {"type": "PoolRoute", "pool": "B", "hash": "Crc32"}, "c": "HashRoute|Pool|B"}}}"#;
    let text = toml(text);
    assert!(
        text.starts_with("# pool unused is not converted: no route leads to it\ndefault = \"A\"\n"),
        "{text}"
    );
    assert!(text.ends_with("[routes]\n\"b\" = \"B\"\n\"bb\" = \"B-2\"\n\"c\" = \"B\"\n"), "{text}");
    assert_eq!(text.matches("[pools.").count(), 3, "{text}");
    refused_with_advice(
        r#"{"type": "PrefixSelectorRoute", "policies": {"a": "PoolRoute|A"}}"#,
        "PrefixSelectorRoute without a `wildcard` has no equal",
    );
    refused_with_advice(
        r#"{"type": "PrefixSelectorRoute", "policies": {"a": "PoolRoute|A"}, "wildcard": "ErrorRoute|no"}"#,
        "PrefixSelectorRoute, wildcard: ErrorRoute has no equal",
    );
}

#[test]
fn timeouts_are_the_longest_where_pools_are_served_together() {
    let text = r#"{"pools": {"A": {"servers": ["a:1"], "server_timeout": 200, "connect_timeout": 50}, "B": {"servers": ["b:1"]}},
        "route": {"type": "PrefixSelectorRoute", "wildcard": "PoolRoute|A", "policies": {"b": "PoolRoute|B"}}}"#;
    let text = toml(text);
    assert_eq!(text.matches("timeout = \"1000ms\"\n").count(), 3, "{text}");
    assert!(text.contains("here the longest"), "{text}");
}

/// `write_policy`, `read` and `replicas` of what a route becomes.
fn copies(route: &str) -> [String; 3] {
    let text = toml(&file(route));
    let value = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{name} = ")));
        line.map_or("", |line| line.rsplit(' ').next().unwrap()).replace('"', "")
    };
    ["write_policy", "read", "replicas"].map(value)
}

#[test]
fn routes_to_all_servers_of_a_pool_become_replicas() {
    for (route, expected) in [
        (r#""AllSyncRoute|Pool|A""#, ["all", "primary", "2"]),
        (r#"{"type": "AllSyncRoute", "children": "Pool|A"}"#, ["all", "primary", "2"]),
        (r#""AllMajorityRoute|Pool|A""#, ["quorum", "primary", "2"]),
        (r#""AllFastestRoute|Pool|A""#, ["first", "nearest", "2"]),
        (r#""AllInitialRoute|Pool|A""#, ["async", "primary", "2"]),
    ] {
        assert_eq!(copies(route), expected, "{route}");
    }
    let selector = |get: &str, set: &str, delete: &str| {
        format!(
            r#"{{"type": "OperationSelectorRoute", "operation_policies": {{"get": {get}, "set": {set}, "delete": {delete}}}}}"#
        )
    };
    let (all, fastest) = (r#""AllSyncRoute|Pool|A""#, r#""AllFastestRoute|Pool|A""#);
    for get in [
        r#""LatestRoute|Pool|A""#,
        r#""MissFailoverRoute|Pool|A""#,
        r#""FailoverRoute|Pool|A""#,
        r#""PoolRoute|A""#,
    ] {
        assert_eq!(copies(&selector(get, all, all)), ["all", "primary", "2"], "{get}");
    }
    assert_eq!(copies(&selector(fastest, fastest, fastest)), ["first", "nearest", "2"]);
    assert_eq!(copies(&selector(fastest, fastest, all)), ["all", "nearest", "2"]);
    let hashed = selector(r#"{"type": "PoolRoute", "pool": "A", "hash": "Crc32"}"#, all, all);
    assert!(
        toml(&file(&hashed)).contains("placement = \"mcrouter/Crc32\""),
        "reads decide which server is the first"
    );
}

#[test]
fn pools_of_one_server_each_are_servers() {
    let text = r#"{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1"]}},
        "route": {"type": "AllSyncRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}"#;
    assert!(toml(text).contains("\"a:1:1\",\n  \"b:1:1\",\n]\nplacement = \"mcrouter/Ch3\"\nreplicas = 2\n"));
    assert!(!toml(text).contains("not converted"));
}

#[test]
fn what_has_no_equal_says_what_is_nearest() {
    for kind in [
        "LatestRoute",
        "FailoverRoute",
        "MissFailoverRoute",
        "AllAsyncRoute",
        "RandomRoute",
        "NullRoute",
        "ErrorRoute",
        "SomeRoute",
    ] {
        refused_with_advice(&format!(r#""{kind}|Pool|A""#), &format!("{kind} has"));
    }
    refused_with_advice(
        r#"{"type": "WarmUpRoute", "cold": "PoolRoute|A", "warm": "PoolRoute|A"}"#,
        "WarmUpRoute has no equal",
    );
    refused_with_advice(
        r#"{"type": "MigrateRoute", "from": "PoolRoute|A", "to": "AllSyncRoute|Pool|A", "start_time": 4000000000}"#,
        "MigrateRoute has no equal: it has not begun",
    );
    refused_with_advice(
        r#"{"type": "MigrateRoute", "from": "PoolRoute|A", "to": "AllSyncRoute|Pool|A", "start_time": 1799999000}"#,
        "MigrateRoute has no equal: it is under way",
    );
    refused_with_advice(
        r#"{"type": "PoolRoute", "pool": "A", "shadows": []}"#,
        "`shadows` of PoolRoute has no equal",
    );
    refused_with_advice(
        r#"{"type": "AllSyncRoute", "children": ["PoolRoute|A", "PoolRoute|A"]}"#,
        "AllSyncRoute has no equal: child 1 is pool A with 2 servers",
    );
    refused_with_advice(
        r#"{"type": "OperationSelectorRoute", "operation_policies": {"get": "PoolRoute|A", "set": "PoolRoute|A", "delete": "AllSyncRoute|Pool|A"}}"#,
        "`set` goes to one server of pool A, and `delete` another way",
    );
    refused_with_advice(
        r#"{"type": "OperationSelectorRoute", "operation_policies": {"get": "LatestRoute|Pool|A", "set": "PoolRoute|A"}}"#,
        "`set` goes to one server of pool A, and `get` another way",
    );
    refused_with_advice(
        r#"{"type": "OperationSelectorRoute", "operation_policies": {"get": "PoolRoute|A"}}"#,
        "it has no route for `set`",
    );
    refused(
        &file(r#""PoolRoute|A""#).replace(":ascii:plain", ":ascii:tls_to_plain"),
        "`tls_to_plain` has no equal: Weir speaks plain TCP or TLS to servers",
    );
    refused(
        &file(r#""PoolRoute|A""#).replace(r#""servers""#, r#""protocol": "caret", "servers""#),
        "`caret` has no",
    );
    refused(
        &file(r#""PoolRoute|A""#).replace(r#""servers""#, r#""port_override": 1, "servers""#),
        "`port_override` has",
    );
}

#[test]
fn policies_of_a_proxy_are_one() {
    let text = r#"{"pools": {"A": {"servers": ["a:1", "b:1"]}, "B": {"servers": ["c:1", "d:1"]}},
        "route": {"type": "PrefixSelectorRoute", "wildcard": "AllSyncRoute|Pool|A", "policies": {"b": "AllFastestRoute|Pool|B"}}}"#;
    refused(text, "pool B would need write_policy first and read nearest, and pool A all and primary");
    let same = text.replace("AllFastestRoute|Pool|B", "PoolRoute|B");
    assert!(toml(&same).contains("write_policy = \"all\""));
}

#[test]
fn names_stand_for_routes_and_pools() {
    let handles = |handles: &str, route: &str| {
        file(route).replacen('{', &format!("{{\"named_handles\": {handles}, "), 1)
    };
    let route = r#"{"type": "PoolRoute", "pool": "A", "name": "mine"}"#;
    assert_eq!(toml(&handles(&format!("[{route}]"), "\"mine\"")), ONE_POOL);
    assert_eq!(toml(&handles(r#"{"mine": "PoolRoute|A"}"#, "\"mine\"")), ONE_POOL);
    assert_eq!(
        toml(&handles(r#"{"mine": {"type": "PoolRoute", "pool": "A"}}"#, "\"HashRoute|mine\"")),
        ONE_POOL
    );
    let inline = r#"{"route": {"type": "PoolRoute", "pool": {"name": "A", "servers": ["127.0.0.1:5001", "127.0.0.1:5002"]}}}"#;
    assert_eq!(toml(inline), ONE_POOL);
    let inherited = r#"{"pools": {"B": {"inherit": "A"}, "A": {"servers": ["a:1"], "server_timeout": 7}}, "route": "PoolRoute|B"}"#;
    assert!(toml(inherited).contains("\"a:1:1\",\n]\nplacement = \"mcrouter/Ch3\"\ntimeout = \"7ms\""));
    refused(&handles(r#"{"mine": "HashRoute|mine"}"#, "\"mine\""), "routes lead in a circle");
    refused(r#"{"pools": {"A": {"inherit": "A"}}, "route": "PoolRoute|A"}"#, "or from itself");
    refused(
        &handles(&format!("[{route}]"), r#"{"type": "AllSyncRoute", "name": "mine", "children": "Pool|A"}"#),
        "two routes are called",
    );
    // 4^12 routes in a few lines.
    let many = (0..12).map(|number| format!(r#""h{number}": ["h{0}", "h{0}", "h{0}", "h{0}"]"#, number + 1));
    let many = many.collect::<Vec<_>>().join(",");
    refused(
        &handles(&format!("{{{many}, \"h12\": \"Pool|A\"}}"), "\"HashRoute|h0\""),
        "stand for more than 100000",
    );
}

/// Each of these took minutes or gigabytes, from less than a megabyte.
#[test]
fn files_that_stand_for_far_more_are_refused() {
    let policies = |count: usize, pool: &dyn Fn(usize) -> String| {
        let policies = (0..count).map(|number| {
            format!(
                r#""p{number}": {{"type": "PoolRoute", "pool": {{"name": "B", "servers": ["{}"]}}}}"#,
                pool(number)
            )
        });
        let policies = policies.collect::<Vec<_>>().join(",");
        file(&format!(
            r#"{{"type": "PrefixSelectorRoute", "wildcard": "PoolRoute|A", "policies": {{{policies}}}}}"#
        ))
    };
    let different = |number: usize| format!("10.0.{}.{}:1", number / 256, number % 256);
    assert!(convert(&policies(255, &different), NOW_S).is_ok(), "with A they are 256");
    refused(&policies(256, &different), "the routes stand for more than 256 pools");
    assert!(
        convert(&policies(4_096, &|_| "10.0.0.1:1".to_owned()), NOW_S).is_ok(),
        "one pool, again and again"
    );
    refused(&policies(4_097, &different), "PrefixSelectorRoute has 4097 policies: at most 4096");
    let servers = |count: usize| {
        let servers = (0..count).map(|number| format!("\"{}\"", different(number)));
        servers.collect::<Vec<_>>().join(",")
    };
    let pool = |count: usize, route: &str| {
        format!(r#"{{"pools": {{"A": {{"servers": [{}]}}}}, "route": {route}}}"#, servers(count))
    };
    refused(&pool(1_025, "\"PoolRoute|A\""), "pool A: servers: 1025 values: at most 1024");
    let many = vec!["\"PoolRoute|A\""; 101].join(",");
    let route = format!(r#"{{"type": "AllSyncRoute", "children": [{many}]}}"#);
    refused(&pool(1_000, &route), "a route stands for more than 100000 servers");
    let settings = (0..300).map(|number| format!(r#""s{number}": 1,"#)).collect::<String>();
    let pools = format!(r#"{{"pools": {{"A": {{{settings} "servers": ["a:1"]}}}}, "route": "PoolRoute|A"}}"#);
    refused(&pools, "pool A: has 301 settings: at most 256");
}

#[test]
fn routes_by_region_and_cluster_are_one_or_refused() {
    let routes = |routes: &str| file("0").replace("\"route\": 0", &format!("\"routes\": {routes}"));
    let text = toml(&routes(r#"[{"aliases": ["/a/a/", "/a/b/"], "route": "PoolRoute|A"}]"#));
    assert!(text.starts_with("# mcrouter sends keys on without their prefix (/a/a/, /a/b/)"), "{text}");
    assert!(text.ends_with(ONE_POOL), "{text}");
    assert!(toml(&routes(r#"{"/a/a/": "PoolRoute|A", "/a/b/": "PoolRoute|A"}"#)).ends_with(ONE_POOL));
    let kept = routes(r#"{"/a/a/": "PoolRoute|A"}"#)
        .replace(r#""servers""#, r#""keep_routing_prefix": true, "servers""#);
    assert_eq!(toml(&kept), ONE_POOL);
    refused(
        &routes(r#"{"/a/a/": "PoolRoute|A", "/a/b/": "AllSyncRoute|Pool|A"}"#),
        "/a/a/ and /a/b/ lead to different routes",
    );
    refused(&routes("[]"), "there is no route in `routes`");
}

#[test]
fn what_would_move_keys_is_refused() {
    refused(
        r#"{"macros": {"x": {}}, "route": "PoolRoute|A"}"#,
        "`macros` has no equal: Weir knows no macros",
    );
    refused(&file(r#""PoolRoute|%pool%""#), "the macro in \"PoolRoute|%pool%\" has no equal");
    refused(&file(r#""@import(x.json)""#), "the macro in \"@import(x.json)\"");
    refused(r#"{"servers": [], "route": "PoolRoute|A"}"#, "the file: `servers` has no equal");
    refused(&file(r#""PoolRoute|B""#), "pool \"B\" is none of the pools");
    refused(
        &file(r#"{"type": "PoolRoute", "pool": "A", "shard_splits": {}}"#),
        "PoolRoute: `shard_splits` has no equal",
    );
    refused("[]", "is no JSON object");
    refused("{}", "there is no `route`");
}

/// Whatever a slip does to a file, it is converted or refused.
#[test]
fn no_changed_byte_panics() {
    let pool_route =
        r#"{"type": "PoolRoute", "pool": "A", "hash": {"hash_func": "WeightedCh3", "weights": [1]}}"#;
    let selector = r#"{"type": "PrefixSelectorRoute", "policies": {"a": {"type": "OperationSelectorRoute",
        "operation_policies": {"get": "LatestRoute|Pool|A", "set": "AllSyncRoute|Pool|A"}, "default_policy": "HashRoute|Pool|A"}},
        "wildcard": {"type": "MigrateRoute", "from": "PoolRoute|A", "to": "PoolRoute|A", "start_time": 1}}"#;
    for good in [file(pool_route), file(selector)] {
        for place in 0..good.len() {
            for other in ["", "\"", "[", "]", "{", ":", "\n", "//", "/*", ",", "0", "|", "é"] {
                let mut text = good.clone();
                text.replace_range(place..=place, other);
                if let Ok(converted) = convert(&text, NOW_S) {
                    assert!(!converted.to_toml().is_empty());
                }
            }
        }
    }
}
