use std::collections::HashSet;

use crate::modulo;
use crate::placement::Placement;
use crate::ring::Ring;
use crate::server::Server;

/// The largest pool.
pub const SERVERS_MAX: usize = 1024;

/// The most servers that hold one key. It bounds what one write costs, and the room that callers of
/// [`Router::replicas_of`] must have.
pub const REPLICAS_MAX: usize = 64;

/// Says which servers hold a key. Immutable: build it once, share it in an `Arc`, replace it whole.
#[derive(Clone, Debug)]
pub struct Router {
    servers: Vec<Server>,
    replicas: usize,
    placement: Placement,
    rule: Rule,
}

/// Why servers, placement and replicas do not make a router.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// The pool is empty.
    #[error("the pool has no servers: give at least one")]
    NoServers,
    /// The pool is larger than [`SERVERS_MAX`].
    #[error("the pool has {0} servers: at most {SERVERS_MAX} are supported")]
    TooManyServers(usize),
    /// Two servers cannot be told apart.
    #[error("server {0} is in the pool twice: remove one, or give them different names and addresses")]
    Duplicate(String),
    /// Each key must be somewhere, and nowhere twice.
    #[error("{replicas} replicas are impossible with {servers} servers: choose 1 to {servers}")]
    Replicas {
        /// Replicas asked for.
        replicas: usize,
        /// Servers in the pool.
        servers: usize,
    },
    /// More replicas than [`REPLICAS_MAX`].
    #[error("{0} replicas of each key are too many: at most {REPLICAS_MAX} are supported")]
    TooManyReplicas(usize),
    /// A weight of zero.
    #[error("server {0} has weight 0: give it at least 1, or remove it")]
    NoWeight(String),
    /// The modulo rule has no notion of weight, and would ignore it.
    #[error("server {0} has a weight, but placement modulo knows none: remove it, or use ketama")]
    WeightWithModulo(String),
    /// Too light for a single point on the ring: it would never get a key.
    #[error("server {0} is so light among the others that it gets no keys: raise its weight, or remove it")]
    TooLight(String),
}

#[derive(Clone, Debug)]
enum Rule {
    /// One server holds everything, and nothing is hashed.
    Single,
    Ketama(Ring),
    Modulo,
}

impl Router {
    /// Places keys on `servers` by `placement`, each on `replicas` of them.
    pub fn new(servers: Vec<Server>, placement: Placement, replicas: usize) -> Result<Self, RoutingError> {
        check_pool(&servers, replicas)?;
        let rule = match placement {
            _ if servers.len() == 1 => Rule::Single,
            Placement::Ketama => Rule::Ketama(checked_ring(&servers)?),
            Placement::Modulo => Rule::Modulo,
        };
        if placement == Placement::Modulo
            && let Some(server) = servers.iter().find(|server| server.weight != 1)
        {
            return Err(RoutingError::WeightWithModulo(server.name.clone()));
        }
        Ok(Self { servers, replicas, placement, rule })
    }

    /// The pool, in configured order. Servers are known by their places in it.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// How many servers hold each key.
    pub fn replicas(&self) -> usize {
        self.replicas
    }

    /// The rule that places keys.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// The first of the key's servers.
    pub fn primary(&self, key: &[u8]) -> usize {
        match &self.rule {
            Rule::Single => 0,
            Rule::Ketama(ring) => ring.primary(key),
            Rule::Modulo => modulo::primary(key, self.servers.len()),
        }
    }

    /// Writes the key's servers into `out`, the primary first, all distinct, and returns how many: [`Self::replicas`],
    /// or as many as `out` has room for.
    pub fn replicas_of(&self, key: &[u8], out: &mut [u16]) -> usize {
        let wanted = self.replicas.min(out.len());
        let out = &mut out[..wanted];
        match &self.rule {
            Rule::Ketama(ring) if wanted > 1 => fill_distinct(ring.owners_from(key), out),
            _ => {
                let primary = if wanted == 0 { 0 } else { self.primary(key) };
                for (step, server) in out.iter_mut().enumerate() {
                    *server = ((primary + step) % self.servers.len()) as u16;
                }
            }
        }
        wanted
    }
}

/// Fills `out` with the first distinct owners. Every server owns a point, so a walk around the ring meets enough.
fn fill_distinct(owners: impl Iterator<Item = u16>, out: &mut [u16]) {
    let mut filled = 0;
    for owner in owners {
        if filled == out.len() {
            return;
        }
        if !out[..filled].contains(&owner) {
            out[filled] = owner;
            filled += 1;
        }
    }
}

fn check_pool(servers: &[Server], replicas: usize) -> Result<(), RoutingError> {
    match servers.len() {
        0 => return Err(RoutingError::NoServers),
        count if count > SERVERS_MAX => return Err(RoutingError::TooManyServers(count)),
        count if !(1..=count).contains(&replicas) => {
            return Err(RoutingError::Replicas { replicas, servers: count });
        }
        _ if replicas > REPLICAS_MAX => return Err(RoutingError::TooManyReplicas(replicas)),
        _ => {}
    }
    let (mut names, mut addresses) = (HashSet::new(), HashSet::new());
    for server in servers {
        if !names.insert(server.label()) || !addresses.insert((&server.host, server.port)) {
            return Err(RoutingError::Duplicate(server.name.clone()));
        }
        if server.weight == 0 {
            return Err(RoutingError::NoWeight(server.name.clone()));
        }
    }
    Ok(())
}

fn checked_ring(servers: &[Server]) -> Result<Ring, RoutingError> {
    let ring = Ring::new(servers);
    match (0u16..).zip(servers).find(|(index, _)| !ring.has(*index)) {
        Some((_, server)) => Err(RoutingError::TooLight(server.name.clone())),
        None => Ok(ring),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOTH: [Placement; 2] = [Placement::Ketama, Placement::Modulo];

    fn pool(servers: usize) -> Vec<Server> {
        (0..servers).map(|number| Server::new(format!("10.0.0.{number}"), 11211)).collect()
    }

    fn router(servers: usize, placement: Placement, replicas: usize) -> Router {
        Router::new(pool(servers), placement, replicas).unwrap()
    }

    fn replicas_of(router: &Router, key: &[u8]) -> Vec<u16> {
        let mut out = [u16::MAX; REPLICAS_MAX];
        let count = router.replicas_of(key, &mut out);
        out[..count].to_vec()
    }

    fn refusal(servers: Vec<Server>, placement: Placement, replicas: usize) -> RoutingError {
        Router::new(servers, placement, replicas).unwrap_err()
    }

    #[test]
    fn impossible_pools_are_refused_with_a_reason() {
        let check = |servers: Vec<Server>, placement, replicas, expected: RoutingError| {
            assert_eq!(refusal(servers, placement, replicas), expected);
        };
        let weighted = |weight| vec![Server { weight, ..Server::new("heavy", 1) }, Server::new("light", 2)];
        let named = |name: &str, port| Server { name: name.into(), ..Server::new("host", port) };
        let ketama = Placement::Ketama;
        check(vec![], ketama, 1, RoutingError::NoServers);
        check(
            (0..1025).map(|port| Server::new("host", port + 1)).collect(),
            ketama,
            1,
            RoutingError::TooManyServers(1025),
        );
        check(pool(2), ketama, 0, RoutingError::Replicas { replicas: 0, servers: 2 });
        check(pool(2), ketama, 3, RoutingError::Replicas { replicas: 3, servers: 2 });
        check([pool(2), pool(1)].concat(), ketama, 1, RoutingError::Duplicate("10.0.0.0:11211".into()));
        check(vec![named("a", 1), named("b", 1)], ketama, 1, RoutingError::Duplicate("b".into()));
        check(vec![named("a", 1), named("a", 2)], ketama, 1, RoutingError::Duplicate("a".into()));
        check(weighted(0), ketama, 1, RoutingError::NoWeight("heavy:1".into()));
        check(weighted(2), Placement::Modulo, 1, RoutingError::WeightWithModulo("heavy:1".into()));
        check(weighted(1_000_000), ketama, 1, RoutingError::TooLight("light:2".into()));
    }

    #[test]
    fn the_largest_pool_is_accepted() {
        let servers = (1..=SERVERS_MAX as u16).map(|port| Server::new("host", port)).collect();
        let router = Router::new(servers, Placement::Ketama, REPLICAS_MAX).unwrap();
        let distinct: HashSet<_> = replicas_of(&router, b"key").into_iter().collect();
        assert_eq!(distinct.len(), REPLICAS_MAX);
        assert_eq!(refusal(pool(65), Placement::Ketama, 65), RoutingError::TooManyReplicas(65));
    }

    #[test]
    fn a_smaller_slice_gets_the_first_replicas() {
        for placement in BOTH {
            let router = router(5, placement, 4);
            let all = replicas_of(&router, b"key");
            for room in 0..4 {
                let mut out = vec![u16::MAX; room];
                assert_eq!(router.replicas_of(b"key", &mut out), room);
                assert_eq!(out, all[..room]);
            }
        }
    }

    #[test]
    fn modulo_replicas_are_the_next_servers_in_order() {
        let router = router(4, Placement::Modulo, 3);
        assert_eq!(replicas_of(&router, b"c"), [3, 0, 1]); // 'c' is 99
    }

    /// Keys of a fixed pseudo-random sequence (xorshift64).
    fn keys(count: usize) -> impl Iterator<Item = [u8; 16]> {
        let mut state = 0x9E37_79B9_7F4A_7C15u64;
        std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let mut key = [0; 16];
            for (byte, digit) in key.iter_mut().zip(format!("{state:016x}").bytes()) {
                *byte = digit;
            }
            key
        })
        .take(count)
    }

    fn counts(router: &Router, keys: impl Iterator<Item = [u8; 16]>) -> Vec<u32> {
        let mut counts = vec![0; router.servers().len()];
        keys.for_each(|key| counts[router.primary(&key)] += 1);
        counts
    }

    /// Pearson's statistic against the shares in `expected`.
    fn chi_square(counts: &[u32], expected: impl Iterator<Item = f64>) -> f64 {
        counts.iter().zip(expected).map(|(count, mean)| (f64::from(*count) - mean).powi(2) / mean).sum()
    }

    #[test]
    fn modulo_spreads_keys_evenly() {
        for servers in 2..=10 {
            let counts = counts(&router(servers, Placement::Modulo, 1), keys(20_000));
            let statistic = chi_square(&counts, std::iter::repeat(20_000.0 / servers as f64));
            // The 99.99 % point of chi-square with nine degrees of freedom is 33.7.
            assert!(statistic < 33.7, "{servers} servers: {statistic}, {counts:?}");
        }
    }

    #[test]
    fn ketama_spreads_keys_as_its_arcs_do_and_arcs_are_near_even() {
        for servers in 2..=10 {
            let router = router(servers, Placement::Ketama, 1);
            let Rule::Ketama(ring) = &router.rule else { panic!("several servers make a ring") };
            let shares = ring.shares(servers);
            for share in &shares {
                assert!((share * servers as f64 - 1.0).abs() < 0.25, "{servers} servers: {shares:?}");
            }
            let counts = counts(&router, keys(20_000));
            let statistic = chi_square(&counts, shares.iter().map(|share| share * 20_000.0));
            assert!(statistic < 33.7, "{servers} servers: {statistic}, {counts:?}");
        }
    }

    #[test]
    fn weights_give_shares() {
        let mut servers = pool(3);
        servers[1].weight = 4;
        let router = Router::new(servers, Placement::Ketama, 1).unwrap();
        let counts = counts(&router, keys(20_000));
        for (count, weight) in counts.iter().zip([1.0, 4.0, 1.0]) {
            let share = f64::from(*count) / 20_000.0;
            assert!((share / (weight / 6.0) - 1.0).abs() < 0.3, "{counts:?}");
        }
    }

    proptest! {
        #[test]
        fn every_byte_string_has_its_distinct_servers(
            key in prop::collection::vec(any::<u8>(), 0..300),
            servers in 1usize..12,
            replicas in 1usize..12,
        ) {
            let replicas = replicas.min(servers);
            for placement in BOTH {
                let router = router(servers, placement, replicas);
                let found = replicas_of(&router, &key);
                prop_assert_eq!(found.len(), replicas);
                prop_assert_eq!(usize::from(found[0]), router.primary(&key));
                let distinct: HashSet<_> = found.iter().collect();
                prop_assert_eq!(distinct.len(), replicas);
                prop_assert!(found.iter().all(|server| usize::from(*server) < servers));
            }
        }

        /// A key whose servers do not include the removed one keeps them; any other loses that one alone and gains
        /// the next.
        #[test]
        fn removing_a_server_moves_only_its_keys(
            servers in 3usize..12,
            removed in any::<prop::sample::Index>(),
            replicas in 1usize..3,
        ) {
            let removed = removed.index(servers);
            let before = router(servers, Placement::Ketama, replicas);
            let mut pool = pool(servers);
            pool.remove(removed);
            let after = Router::new(pool, Placement::Ketama, replicas).unwrap();
            let names = |router: &Router, key: &[u8]| -> Vec<String> {
                let places = replicas_of(router, key);
                places.iter().map(|place| router.servers()[usize::from(*place)].name.clone()).collect()
            };
            for key in keys(200) {
                let mut kept = names(&before, &key);
                kept.retain(|name| *name != before.servers()[removed].name);
                prop_assert!(names(&after, &key).starts_with(&kept));
            }
        }
    }
}
