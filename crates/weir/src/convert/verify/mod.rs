//! `weir convert … --verify OLD:PORT`: whether the other proxy places keys as the equal configuration does.
//!
//! ```text
//!  keys ──add──▶ the other proxy ──▶ servers      none that is there is overwritten
//!  keys ──get──────────────────────▶ servers      where the configuration has them
//!  keys ─delete▶ the other proxy ──▶ servers      and where they were found; what is left expires
//! ```
//!
//! `keys` chooses keys, a [`Check`] writes, reads and deletes them, a [`Verdict`] is what came of it. `wire` is a connection.

mod check;
mod keys;
mod verdict;
mod wire;

use std::process;
use std::time::Duration;

use clap::Args;
use weir_load::units;
use weir_proxy::ListenRow;
use weir_routing::{Endpoint, Server};

use self::check::Check;
use self::keys::keys;
use self::verdict::Verdict;
use crate::config_file::{self, Config};
use crate::pool::Pool;

/// The most keys that are written.
const KEYS_MAX: u32 = 100_000;

/// The flags that begin with `--verify`.
#[derive(Args, Debug)]
pub(super) struct VerifyArgs {
    /// Ask the old proxy, HOST:PORT or unix:/PATH, whether it places keys as the configuration does. Keys are written through it,
    /// read from the servers themselves, and deleted. Standard error says how many agree; if not all do, nothing is printed and the
    /// status is 1. Use it before you move clients
    #[arg(long, value_name = "OLD:PORT", global = true)]
    verify: Option<String>,
    /// How many keys are written. More of them find rarer differences
    #[arg(long, value_name = "N", default_value_t = 1000, global = true, value_parser = clap::value_parser!(u32).range(1..=i64::from(KEYS_MAX)))]
    verify_keys: u32,
    /// What their names begin with, after the prefix of a route. Give another if your clients use such keys
    #[arg(long, value_name = "TEXT", default_value = "weir-verify:", global = true)]
    verify_prefix: String,
    /// How long the proxy and the servers may take for 50 keys. Raise it on slow links
    #[arg(long, value_name = "TIME", default_value = "5s", global = true, value_parser = units::duration)]
    verify_timeout: Duration,
    /// The pool that the proxy serves, where the file has several; by default the one that listens at its port
    #[arg(long, value_name = "NAME", global = true)]
    verify_pool: Option<String>,
}

impl VerifyArgs {
    /// Verifies a configuration, if that is asked for.
    pub(super) fn run(&self, text: &str) -> Result<Option<Verdict>, String> {
        let Some(proxy) = &self.verify else { return Ok(None) };
        let of_verify = |reason: String| format!("--verify {proxy}: {reason}");
        self.verdict(proxy, text).map(Some).map_err(of_verify)
    }

    fn verdict(&self, proxy: &str, text: &str) -> Result<Verdict, String> {
        let old: Server = proxy.parse().map_err(|error: weir_routing::ServerError| error.to_string())?;
        let config = config_file::parse(text, "the equal file").map_err(|error| error.to_string())?;
        let pool = match &self.verify_pool {
            Some(name) => Some(name.as_str()),
            None => served_at(&config, &old.endpoint)?,
        };
        let routed = config.table(pool).map_err(|error| format!("{error} (here --verify-pool NAME)"))?;
        let unverified = routed.unserved().to_vec();
        let table = routed.into_table().expect("there are pools that routes lead to");
        let keys = keys(&table, &self.verify_prefix, self.verify_keys, &run_id())?;
        let check = Check { old: old.endpoint, table, unverified, keys, timeout: self.verify_timeout };
        check.run(proxy)
    }
}

/// Of several pools without routes the one that listens where the proxy does; none where there is nothing to choose.
fn served_at<'a>(config: &'a Config, old: &Endpoint) -> Result<Option<&'a str>, String> {
    if config.pools.len() == 1 || !config.routes.is_empty() || config.default.is_some() {
        return Ok(None);
    }
    let place = |address: &str| match address.parse::<Server>().ok()?.endpoint {
        Endpoint::Tcp { port, .. } => Some(port.to_string()),
        Endpoint::Unix { path } => Some(path),
    };
    let wanted = place(&old.to_string());
    let is_there = |address: &str| wanted.is_some() && place(address) == wanted;
    let of_pool = |(name, pool): (&'a String, &'a Pool)| {
        pool.said.get("listen").is_some_and(is_there).then_some(name.as_str())
    };
    let of_place = |row: &'a ListenRow| row.pool.as_deref().filter(|_| is_there(&row.address));
    let mut there: Vec<_> = config.pools.iter().filter_map(of_pool).collect();
    there.extend(config.listeners().iter().filter_map(of_place));
    let at = match old {
        Endpoint::Tcp { port, .. } => format!("port {port}"),
        Endpoint::Unix { path } => path.clone(),
    };
    match there.as_slice() {
        [only] => Ok(Some(only)),
        [] => {
            let all: Vec<_> = config.pools.keys().map(String::as_str).collect();
            Err(format!("no pool listens at {at}: give --verify-pool {}", all.join(" or ")))
        }
        several => Err(format!("several pools listen at {at}: give --verify-pool {}", several.join(" or "))),
    }
}

/// What tells the keys of this run from those of others.
fn run_id() -> String {
    format!("{:x}-{}", super::now_s(), process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_the_one_that_listens_there() {
        let listening = |name: &str, listen: &str| {
            format!("[pools.{name}]\nlisten = \"{listen}\"\nservers = [\"{name}:1\"]\n")
        };
        let placed = |name: &str, listen: &str| {
            format!(
                "[[listen]]\naddress = \"{listen}\"\npool = \"{name}\"\n[pools.{name}]\nservers = [\"{name}:1\"]\n"
            )
        };
        check_served(listening);
        check_served(placed);
    }

    /// `pool`: the text that has a pool of this name listen at this place.
    fn check_served(pool: impl Fn(&str, &str) -> String) {
        let text = &[pool("a", "0.0.0.0:1"), pool("b", "0.0.0.0:2"), pool("c", "10.0.0.1:2")].concat();
        let config = config_file::parse(text, "file").unwrap();
        let at = |old: &str| served_at(&config, &old.parse::<Server>().unwrap().endpoint);
        assert_eq!(at("127.0.0.1:1"), Ok(Some("a")));
        for (old, reason) in [
            ("10.0.0.1:2", "several pools listen at port 2: give --verify-pool b or c"),
            ("10.0.0.1:3", "no pool listens at port 3: give --verify-pool a or b or c"),
            ("unix:/x", "no pool listens at /x: give --verify-pool a or b or c"),
        ] {
            assert_eq!(at(old), Err(reason.to_owned()));
        }
    }
}
