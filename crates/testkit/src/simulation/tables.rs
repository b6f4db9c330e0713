//! Tables that replace each other while clients ask.

use std::sync::Arc;

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};
use weir_routing::{Endpoint, Router, Server, Table};

use super::scenario::Scenario;

/// Prefixes of the keys that clients use, and one that none has.
const PREFIXES: [&str; 7] = ["o", "own-", "own-0", "own-1-t", "own-2", "shared-", "none"];

/// The first table: all servers in one pool, unless there will be others.
pub(super) fn first(scenario: &Scenario, rng: &mut SmallRng) -> Arc<Table> {
    if scenario.reloads > 0 {
        return random(scenario, rng);
    }
    let router = Router::new(servers(0..scenario.servers), scenario.placement, scenario.replicas);
    Arc::new(router.expect("a possible pool").into())
}

/// One to three pools, each of some of the servers, and some prefixes that lead to them.
pub(super) fn random(scenario: &Scenario, rng: &mut SmallRng) -> Arc<Table> {
    let count = *[1, 1, 2, 3].choose(rng).expect("some counts");
    let pools = (0..count).map(|number| (format!("pool-{number}"), router(scenario, rng))).collect();
    let mut routes = Vec::new();
    for prefix in PREFIXES {
        if rng.random_bool(0.4) {
            routes.push((prefix.to_owned(), format!("pool-{}", rng.random_range(0..count))));
        }
    }
    Arc::new(Table::new(pools, &routes).expect("a possible table"))
}

fn router(scenario: &Scenario, rng: &mut SmallRng) -> Router {
    let mut numbers: Vec<usize> = (0..scenario.servers).collect();
    numbers.shuffle(rng);
    numbers.truncate(rng.random_range(1..=scenario.servers));
    let replicas = rng.random_range(1..=scenario.replicas.min(numbers.len()));
    Router::new(servers(numbers), scenario.placement, replicas).expect("a possible pool")
}

fn servers(numbers: impl IntoIterator<Item = usize>) -> Vec<Server> {
    numbers.into_iter().map(|number| Server::new(format!("server-{number}"), 11211)).collect()
}

/// Which of the world's servers this is.
pub(super) fn number_of(server: &Server) -> usize {
    let Endpoint::Tcp { host, .. } = &server.endpoint else { panic!("{server} is reached by TCP") };
    host.strip_prefix("server-").and_then(|number| number.parse().ok()).expect("servers are numbered")
}

/// The world's servers that hold a key, the primary first.
pub(super) fn places(table: &Table, key: &[u8]) -> Vec<usize> {
    let mut places = [0; 8];
    let count = table.replicas_of(key, &mut places);
    places[..count].iter().map(|place| number_of(&table.servers()[usize::from(*place)])).collect()
}
