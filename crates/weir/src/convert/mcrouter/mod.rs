//! From mcrouter's JSON: pools, and what its routes make of them.
//!
//! `json` makes plain JSON of it, `pools` reads pools, `routes` follows routes to what they mean in Weir (`meaning`; `operations`
//! where reads and writes go by different ones), `refusal` says why one means nothing.

mod json;
mod meaning;
mod operations;
mod pools;
mod refusal;
mod routes;

use std::collections::HashMap;

use serde_json::Value;
use weir_routing::{Options, POOLS_MAX, ROUTES_MAX};

use self::meaning::{Copies, Meaning};
use self::pools::{Hosts, Object, longest, only};
use self::routes::Reader;
use super::converted::{Converted, ConvertedPool};

/// Values inside values are followed so far.
const DEPTH_MAX: u32 = 128;

/// The pools that place keys as mcrouter does at this time, in seconds since 1970.
pub(super) fn convert(text: &str, now_s: u64) -> Result<Converted, String> {
    let plain = json::plain(text)?;
    let file: Value =
        serde_json::from_str(&plain).map_err(|error| format!("cannot be read as JSON: {error}"))?;
    let file = file.as_object().ok_or("is no JSON object")?;
    if let Some(text) = macros(file) {
        return Err(format!(
            "{text} has no equal: Weir knows no macros. Nearest: the file with all of them replaced, as mcrouter answers \
             `get __mcrouter__.preprocessed_config`. To convert, give that"
        ));
    }
    only(file, &["pools", "route", "routes", "named_handles"], "the file")?;
    let none = Object::new();
    let pools = match file.get("pools") {
        None => &none,
        Some(pools) => pools.as_object().ok_or("`pools` is no object")?,
    };
    let mut handles = HashMap::new();
    for (part, value) in file.iter().filter(|(part, _)| *part != "pools") {
        named(value, &mut handles, 0)?;
        if let (true, Some(by_name)) = (part == "named_handles", value.as_object()) {
            for (name, route) in by_name {
                name_it(name, route, &mut handles)?;
            }
        }
    }
    let reader = Reader::new(pools, handles, now_s);
    let mut file_of_weir = Builder::default();
    let root = root(file, &mut file_of_weir)?;
    file_of_weir.root(&reader, root)?;
    Ok(file_of_weir.finish(pools.keys().filter(|name| !reader.has_seen(name))))
}

/// What stands in a file for something else.
fn macros(file: &Object) -> Option<String> {
    fn find(value: &Value, depth: u32) -> Option<String> {
        if depth > DEPTH_MAX {
            return None;
        }
        let in_text = |text: &str| {
            let is_call = text.starts_with('@') && text.contains('(');
            (is_call || text.matches('%').count() > 1).then(|| format!("the macro in {text:?}"))
        };
        match value {
            Value::String(text) => in_text(text),
            Value::Array(values) => values.iter().find_map(|value| find(value, depth + 1)),
            Value::Object(object) => {
                object.iter().find_map(|(name, value)| in_text(name).or_else(|| find(value, depth + 1)))
            }
            _ => None,
        }
    }
    let defined =
        file.get("macros").filter(|macros| macros.as_object().is_none_or(|macros| !macros.is_empty()));
    match defined {
        Some(_) => Some("`macros`".to_owned()),
        None => find(&Value::Object(file.clone()), 0),
    }
}

/// Finds routes with names, which others may stand for.
fn named<'a>(value: &'a Value, handles: &mut HashMap<&'a str, &'a Value>, depth: u32) -> Result<(), String> {
    if depth > DEPTH_MAX {
        return Ok(());
    }
    match value {
        Value::Array(values) => values.iter().try_for_each(|value| named(value, handles, depth + 1)),
        Value::Object(object) => {
            if let (Some(name), true) =
                (object.get("name").and_then(Value::as_str), object.contains_key("type"))
            {
                name_it(name, value, handles)?;
            }
            object.values().try_for_each(|value| named(value, handles, depth + 1))
        }
        _ => Ok(()),
    }
}

fn name_it<'a>(
    name: &'a str,
    route: &'a Value,
    handles: &mut HashMap<&'a str, &'a Value>,
) -> Result<(), String> {
    match handles.insert(name, route) {
        Some(other) if other != route => Err(format!(
            "two routes are called {name:?}, of which mcrouter takes the first that it meets. To convert, give them different names"
        )),
        _ => Ok(()),
    }
}

/// The only route, of `route` or of `routes`.
fn root<'a>(file: &'a Object, to: &mut Builder) -> Result<&'a Value, String> {
    let mut by_alias: Vec<(String, &Value)> = Vec::new();
    match (file.get("route"), file.get("routes")) {
        (Some(route), None) => return Ok(route),
        (None, Some(Value::Array(entries))) => {
            for entry in entries {
                let object = entry.as_object().ok_or("an entry of `routes` is no object")?;
                only(object, &["aliases", "route"], "an entry of `routes`")?;
                let aliases = object.get("aliases").and_then(Value::as_array);
                let aliases = aliases.ok_or("an entry of `routes` has no list of `aliases`")?;
                let route = object.get("route").ok_or("an entry of `routes` has no `route`")?;
                let names = aliases.iter().map(|alias| alias.as_str().unwrap_or_default().to_owned());
                by_alias.extend(names.map(|alias| (alias, route)));
            }
        }
        (None, Some(Value::Object(entries))) => {
            by_alias.extend(entries.iter().map(|(alias, route)| (alias.clone(), route)));
        }
        (Some(_), Some(_)) => {
            return Err("there are both `route` and `routes`: mcrouter takes one".to_owned());
        }
        _ => return Err("there is no `route`".to_owned()),
    }
    let Some((first, route)) = by_alias.first() else {
        return Err("there is no route in `routes`".to_owned());
    };
    if let Some((other, _)) = by_alias.iter().find(|(_, other)| other != route) {
        return Err(format!(
            "`routes` has no equal: {first} and {other} lead to different routes, and mcrouter takes such a prefix off a key before \
             it is sent. Nearest: [routes] of Weir, which leads prefixes to pools and leaves keys as they are. To convert, keep one \
             of the routes, and start a Weir for each"
        ));
    }
    to.aliases = by_alias.iter().map(|(alias, _)| alias.clone()).collect();
    Ok(route)
}

/// Pools of Weir, as routes lead to them.
#[derive(Debug, Default)]
struct Builder {
    converted: Converted,
    /// Prefixes that `routes` has.
    aliases: Vec<String>,
    /// Of pools with copies: `write_policy` and `read`, and who said so first.
    policies: Option<(&'static str, &'static str, String)>,
    connect_timeout_ms: Option<u64>,
    timeout_ms: Vec<Option<u64>>,
    keeps_prefix: bool,
}

impl Builder {
    fn root(&mut self, reader: &Reader<'_>, route: &Value) -> Result<(), String> {
        let kind = route.get("type").and_then(Value::as_str);
        let Some(selector) = route.as_object().filter(|_| kind == Some("PrefixSelectorRoute")) else {
            return self.pool(reader.meaning(route)?).map(drop);
        };
        only(selector, &["type", "name", "policies", "wildcard"], "PrefixSelectorRoute")?;
        let wildcard = selector.get("wildcard").ok_or(
            "PrefixSelectorRoute without a `wildcard` has no equal: mcrouter refuses other keys, and Weir serves all. Nearest: the \
             same with a `wildcard`. To convert, lead it to a pool",
        )?;
        let default = self.of(reader, "wildcard", wildcard)?;
        let none = Object::new();
        let policies = match selector.get("policies") {
            None => &none,
            Some(policies) => policies.as_object().ok_or("`policies` is no object")?,
        };
        if policies.len() > ROUTES_MAX {
            return Err(format!(
                "PrefixSelectorRoute has {} policies: at most {ROUTES_MAX} are supported",
                policies.len()
            ));
        }
        for (prefix, route) in policies {
            let pool = self.of(reader, prefix, route)?;
            self.converted.routes.push((prefix.clone(), pool));
        }
        self.converted.default = (!policies.is_empty()).then_some(default);
        Ok(())
    }

    fn of(&mut self, reader: &Reader<'_>, prefix: &str, route: &Value) -> Result<String, String> {
        let pool = reader.meaning(route).and_then(|meaning| self.pool(meaning));
        pool.map_err(|reason| format!("PrefixSelectorRoute, {prefix}: {reason}"))
    }

    /// Adds the pool of a route, and gives its name. One that is there already is used again.
    fn pool(&mut self, meaning: Meaning) -> Result<String, String> {
        let (hosts, options) = match meaning {
            Meaning::One(hosts, options) => (hosts, options),
            Meaning::Any(way, hosts) => self.copies(Copies::of(way, hosts)?)?,
            Meaning::Copies(copies) => self.copies(copies)?,
        };
        let first = self.converted.pools.is_empty();
        self.keeps_prefix = hosts.keeps_prefix && (first || self.keeps_prefix);
        self.connect_timeout_ms = match first {
            true => hosts.connect_timeout_ms,
            false => longest(self.connect_timeout_ms, hosts.connect_timeout_ms),
        };
        self.timeout_ms.push(hosts.timeout_ms);
        let Hosts { name, servers, tls, timeout_ms, notes, .. } = hosts;
        let mut pool =
            ConvertedPool { tls, timeout_ms, notes, ..ConvertedPool::new(name.clone(), servers, options) };
        let mut names = std::iter::once(name.clone()).chain((2..).map(|number| format!("{name}-{number}")));
        let (name, is_there) = names
            .find_map(|name| match self.converted.pools.iter().find(|pool| pool.name == name) {
                None => Some((name, false)),
                Some(other) => {
                    pool.name.clone_from(&name);
                    (*other == pool).then_some((name, true))
                }
            })
            .expect("names do not end");
        if !is_there {
            // Each is held against all others.
            if self.converted.pools.len() == POOLS_MAX {
                return Err(format!("the routes stand for more than {POOLS_MAX} pools"));
            }
            self.converted.pools.push(ConvertedPool { name: name.clone(), ..pool });
        }
        Ok(name)
    }

    fn copies(&mut self, copies: Copies) -> Result<(Hosts, Options), String> {
        let Copies { hosts, options, write_policy, read } = copies;
        match &self.policies {
            Some((writes, reads, first)) if (*writes, *reads) != (write_policy, read) => Err(format!(
                "pool {} would need write_policy {write_policy} and read {read}, and pool {first} {writes} and {reads}: they are \
                 the whole proxy's in Weir. Nearest: a Weir for each pool. To convert, take the same routes for both",
                hosts.name
            )),
            _ => {
                self.policies = Some((write_policy, read, hosts.name.clone()));
                Ok((hosts, options))
            }
        }
    }

    fn finish<'a>(mut self, unseen: impl Iterator<Item = &'a String>) -> Converted {
        let converted = &mut self.converted;
        for name in unseen {
            converted.notes.push(format!("pool {name} is not converted: no route leads to it"));
        }
        if !self.aliases.is_empty() && !self.keeps_prefix {
            converted.notes.push(format!(
                "mcrouter sends keys on without their prefix ({}); Weir sends them as they are: clients must leave it out",
                self.aliases.join(", ")
            ));
        }
        if self.timeout_ms.windows(2).any(|pair| pair[0] != pair[1]) {
            let together = self.timeout_ms.iter().copied().reduce(longest).flatten();
            for pool in &mut converted.pools {
                pool.timeout_ms = together;
            }
            converted.notes.push(
                "pools have different timeouts: in Weir they are the whole proxy's, here the longest"
                    .to_owned(),
            );
        }
        if let Some((write_policy, read, _)) = self.policies {
            converted.proxy.push(("write_policy", write_policy.to_owned()));
            converted.proxy.push(("read", read.to_owned()));
        }
        if let Some(timeout) = self.connect_timeout_ms {
            converted.proxy.push(("connect_timeout", format!("{timeout}ms")));
        }
        self.converted
    }
}

#[cfg(test)]
mod tests;
