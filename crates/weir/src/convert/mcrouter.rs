//! From mcrouter's JSON: one pool behind a `PoolRoute` or a `HashRoute`.

use serde_json::{Map, Value};
use weir_routing::{Options, Placement, Server, Weight};

use super::{Converted, ConvertedPool};

type Object = Map<String, Value>;

/// The pool that places keys as mcrouter does.
pub(super) fn convert(text: &str) -> Result<Converted, String> {
    let file: Value = serde_json::from_str(text).map_err(|error| {
        format!("cannot be read as JSON: {error} (mcrouter's comments and trailing commas are no JSON: remove them)")
    })?;
    let file = file.as_object().ok_or("is no JSON object")?;
    only(file, &["pools", "route", "routes"], "the file")?;
    let mut notes = Vec::new();
    let route = root(file, &mut notes)?;
    let route = Route::read(route)?;
    let pool = match &route.pool {
        Value::String(name) => {
            let pool = file.get("pools").and_then(|pools| pools.get(name));
            (name.clone(), pool.ok_or_else(|| format!("the route's pool {name:?} is none of the pools"))?)
        }
        inline => (inline.get("name").and_then(Value::as_str).unwrap_or("main").to_owned(), inline),
    };
    for name in file.get("pools").and_then(Value::as_object).into_iter().flat_map(Object::keys) {
        if *name != pool.0 {
            notes.push(format!("pool {name} is not converted: the route does not lead to it"));
        }
    }
    let converted = converted_pool(pool.0.clone(), pool.1, &route);
    Ok(Converted { pools: vec![converted.map_err(|reason| format!("pool {}: {reason}", pool.0))?], notes })
}

/// The only route, of `route` or of `routes`.
fn root<'a>(file: &'a Object, notes: &mut Vec<String>) -> Result<&'a Value, String> {
    match (file.get("route"), file.get("routes").and_then(Value::as_array).map(Vec::as_slice)) {
        (Some(route), None) => Ok(route),
        (None, Some([only_one])) => {
            let object = only_one.as_object().ok_or("the entry of `routes` is no object")?;
            only(object, &["aliases", "route"], "the entry of `routes`")?;
            notes.push(
                "mcrouter sends keys on without their /region/cluster/ prefix; Weir sends them as they are"
                    .into(),
            );
            object.get("route").ok_or_else(|| "the entry of `routes` has no `route`".to_owned())
        }
        (None, Some(_)) => Err("several `routes` have no equal: convert one at a time".to_owned()),
        _ => Err("there is no `route`".to_owned()),
    }
}

/// A route over one pool.
struct Route {
    /// Its name, or the pool itself.
    pool: Value,
    function: String,
    settings: Object,
}

impl Route {
    fn read(route: &Value) -> Result<Self, String> {
        let route = match route {
            Value::String(short) => return Self::short(short),
            Value::Object(route) => route,
            _ => return Err("the route is neither a text nor an object".to_owned()),
        };
        let kind = route.get("type").and_then(Value::as_str).unwrap_or_default();
        match kind {
            "PoolRoute" => {
                only(route, &["type", "pool", "hash"], "PoolRoute")?;
                let pool = route.get("pool").ok_or("the PoolRoute has no `pool`")?.clone();
                match route.get("hash") {
                    None => Self::new(pool, Object::new()),
                    Some(Value::String(function)) => Self::new(
                        pool,
                        Object::from_iter([("hash_func".to_owned(), function.clone().into())]),
                    ),
                    Some(Value::Object(settings)) => Self::new(pool, settings.clone()),
                    Some(_) => Err("`hash` is neither a text nor an object".to_owned()),
                }
            }
            "HashRoute" => {
                let mut settings = route.clone();
                settings.remove("type");
                let children = settings.remove("children").unwrap_or_default();
                let pool = children.as_str().and_then(|children| children.strip_prefix("Pool|"));
                let pool = pool.ok_or("a HashRoute over other routes than \"Pool|NAME\" has no equal")?;
                Self::new(pool.into(), settings)
            }
            other => {
                Err(format!("a route of type {other:?} has no equal: only PoolRoute and HashRoute have"))
            }
        }
    }

    /// `PoolRoute|NAME` or `HashRoute|Pool|NAME`.
    fn short(text: &str) -> Result<Self, String> {
        let pool = text.strip_prefix("PoolRoute|").or_else(|| text.strip_prefix("HashRoute|Pool|"));
        match pool.filter(|pool| !pool.contains(['|', '@', '%'])) {
            Some(pool) => Self::new(pool.into(), Object::new()),
            None => Err(format!(
                "the route {text:?} has no equal: only PoolRoute|NAME and HashRoute|Pool|NAME have"
            )),
        }
    }

    fn new(pool: Value, settings: Object) -> Result<Self, String> {
        only(&settings, &["hash_func", "salt", "weights", "tags"], "the hash")?;
        let function = match settings.get("hash_func") {
            None => "Ch3".to_owned(),
            Some(function) => function.as_str().ok_or("`hash_func` is no text")?.to_owned(),
        };
        Ok(Self { pool, function, settings })
    }

    fn placement(&self) -> Result<Placement, String> {
        let name = format!("mcrouter/{}", self.function);
        let named = Placement::ALL.into_iter().find(|placement| placement.name() == name);
        named.ok_or_else(|| format!("the hash function {:?} has no equal", self.function))
    }
}

fn converted_pool(name: String, pool: &Value, route: &Route) -> Result<ConvertedPool, String> {
    let pool = pool.as_object().ok_or("is no object")?;
    let placement = route.placement()?;
    let mut notes = Vec::new();
    let mut timeout_ms = None;
    for (setting, value) in pool {
        match setting.as_str() {
            "servers" | "name" => {}
            "protocol" if value == "ascii" => {}
            "protocol" => return Err(format!("`protocol` {value} has no equal: Weir speaks ascii")),
            "server_timeout" => {
                timeout_ms = Some(value.as_u64().ok_or("`server_timeout` is no number of milliseconds")?);
            }
            // These change keys or servers.
            "inherit" | "hash" | "keep_routing_prefix" => return Err(format!("`{setting}` has no equal")),
            other => notes.push(format!("{other} has no equal")),
        }
    }
    let list = pool.get("servers").and_then(Value::as_array).ok_or("has no list of `servers`")?;
    let mut servers = list.iter().map(server).collect::<Result<Vec<_>, _>>()?;
    if placement == Placement::McrouterWeightedCh3 {
        weigh(&mut servers, &route.settings, &mut notes)?;
    }
    if placement == Placement::McrouterRendezvous {
        tag(&mut servers, &route.settings)?;
    }
    let salt = match route.settings.get("salt") {
        None => String::new(),
        Some(salt) => salt.as_str().ok_or("`salt` is no text")?.to_owned(),
    };
    let options = Options { salt, ..Options::new(placement) };
    Ok(ConvertedPool {
        name,
        listen: None,
        listen_mode: None,
        max_connections: None,
        servers,
        options,
        timeout_ms,
        notes,
    })
}

/// `HOST:PORT`, and what may follow it: `:ascii:plain`.
fn server(text: &Value) -> Result<Server, String> {
    let text = text.as_str().ok_or_else(|| format!("server {text} is no text"))?;
    let end = text.find(']').unwrap_or(0);
    let mut parts = text[end..].splitn(3, ':');
    let length = parts.by_ref().take(2).map(str::len).sum::<usize>() + 1;
    if let Some(other) =
        parts.next().and_then(|rest| rest.split(':').find(|part| !["ascii", "plain"].contains(part)))
    {
        return Err(format!("server {text:?}: `{other}` has no equal: Weir speaks ascii over plain TCP"));
    }
    let address = text.get(..end + length).unwrap_or(text);
    address.parse().map_err(|error: weir_routing::ServerError| error.to_string())
}

/// Gives servers the hash's weights, and 0.5 where there are too few, as mcrouter does.
fn weigh(servers: &mut [Server], settings: &Object, notes: &mut Vec<String>) -> Result<(), String> {
    let weights =
        settings.get("weights").and_then(Value::as_array).ok_or("WeightedCh3 has no list of `weights`")?;
    if weights.len() < servers.len() {
        notes.push("servers without a weight have 0.5, as in mcrouter".to_owned());
    }
    for (place, server) in servers.iter_mut().enumerate() {
        let text = weights.get(place).map_or("0.5".to_owned(), Value::to_string);
        server.weight = text.parse::<Weight>().map_err(|error| format!("server {server}: {error}"))?;
    }
    Ok(())
}

/// Names servers by the hash's tags.
fn tag(servers: &mut [Server], settings: &Object) -> Result<(), String> {
    let tags = settings.get("tags").and_then(Value::as_array).ok_or("Rendezvous has no list of `tags`")?;
    if tags.len() != servers.len() {
        return Err(format!("Rendezvous has {} tags for {} servers", tags.len(), servers.len()));
    }
    for (server, tag) in servers.iter_mut().zip(tags) {
        let tag = tag.as_str().ok_or("a tag is no text")?;
        let text = format!("{} {tag}", server.address());
        *server = text.parse().map_err(|error: weir_routing::ServerError| error.to_string())?;
    }
    Ok(())
}

/// Refuses what nobody here knows: it may decide where keys go.
fn only(object: &Object, known: &[&str], what: &str) -> Result<(), String> {
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(format!("{what}: `{key}` has no equal")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(route: &str) -> String {
        format!(
            r#"{{"pools": {{"A": {{"servers": ["127.0.0.1:5001", "127.0.0.1:5002:ascii:plain"]}}}}, "route": {route}}}"#
        )
    }

    fn toml(text: &str) -> String {
        convert(text).unwrap().to_toml()
    }

    fn refusal(text: &str) -> String {
        convert(text).unwrap_err()
    }

    #[test]
    fn a_pool_route_becomes_a_pool() {
        let expected = "\
[pools.A]
servers = [
  \"127.0.0.1:5001:1\",
  \"127.0.0.1:5002:1\",
]
placement = \"mcrouter/Ch3\"
";
        for route in [
            r#""PoolRoute|A""#,
            r#""HashRoute|Pool|A""#,
            r#"{"type": "PoolRoute", "pool": "A"}"#,
            r#"{"type": "PoolRoute", "pool": "A", "hash": "Ch3"}"#,
            r#"{"type": "HashRoute", "children": "Pool|A", "hash_func": "Ch3"}"#,
        ] {
            assert_eq!(toml(&file(route)), expected, "{route}");
        }
    }

    #[test]
    fn hash_functions_bring_salt_weights_and_tags() {
        let pool_route =
            |hash: &str| file(&format!(r#"{{"type": "PoolRoute", "pool": "A", "hash": {hash}}}"#));
        let salted = toml(&pool_route(r#"{"hash_func": "Crc32", "salt": "pepper"}"#));
        assert!(salted.ends_with("placement = \"mcrouter/Crc32\"\nsalt = \"pepper\"\n"), "{salted}");
        let weighted = toml(&pool_route(r#"{"hash_func": "WeightedCh3", "weights": [0.25]}"#));
        assert!(weighted.contains("5001:0.25\"") && weighted.contains("5002:0.5\""), "{weighted}");
        assert!(weighted.contains("# servers without a weight have 0.5, as in mcrouter\n"), "{weighted}");
        let tagged = toml(&pool_route(r#"{"hash_func": "Rendezvous", "tags": ["a", "b"]}"#));
        assert!(tagged.contains("5001:1 a\"") && tagged.contains("5002:1 b\""), "{tagged}");
    }

    #[test]
    fn what_would_move_keys_is_refused() {
        let check = |text: &str, expected: &str| {
            let message = refusal(text);
            assert!(message.contains(expected), "{message}");
        };
        let pool_route =
            |hash: &str| file(&format!(r#"{{"type": "PoolRoute", "pool": "A", "hash": {hash}}}"#));
        check(
            "// comment\n{}",
            "cannot be read as JSON: expected value at line 1 column 1 (mcrouter's comments",
        );
        check(r#"{"macros": {}}"#, "the file: `macros` has no equal");
        check(
            &file(r#"{"type": "AllSyncRoute", "children": []}"#),
            "a route of type \"AllSyncRoute\" has no equal",
        );
        check(&file(r#""PoolRoute|B""#), "the route's pool \"B\" is none of the pools");
        check(&file(r#""AllSyncRoute|Pool|A""#), "has no equal: only PoolRoute|NAME");
        check(&pool_route(r#""WeightedCh4""#), "pool A: the hash function \"WeightedCh4\" has no equal");
        check(
            &pool_route(r#"{"hash_func": "WeightedCh3", "weights": [0, 1]}"#),
            "weight \"0\" is no number above 0",
        );
        check(&pool_route(r#"{"hash_func": "Rendezvous"}"#), "Rendezvous has no list of `tags`");
        check(&pool_route(r#"{"hash_func": "Rendezvous", "tags": ["a"]}"#), "has 1 tags for 2 servers");
        check(&file(r#""PoolRoute|A""#).replace(":ascii:plain", ":ascii:ssl"), "`ssl` has no equal");
        check(
            &file(r#""PoolRoute|A""#).replace(r#""servers""#, r#""inherit": "B", "servers""#),
            "`inherit` has no",
        );
        check("[]", "is no JSON object");
        check("{}", "there is no `route`");
    }

    /// Whatever a slip does to a file, it is converted or refused.
    #[test]
    fn no_changed_byte_panics() {
        let good = file(
            r#"{"type": "PoolRoute", "pool": "A", "hash": {"hash_func": "WeightedCh3", "weights": [1]}}"#,
        );
        for place in 0..good.len() {
            for other in ["", "\"", "[", "]", "{", ":", "\n", "#", "-", "0", "&a", "*a", "é"] {
                let mut text = good.clone();
                text.replace_range(place..=place, other);
                if let Ok(converted) = convert(&text) {
                    assert!(!converted.to_toml().is_empty());
                }
            }
        }
    }
}
