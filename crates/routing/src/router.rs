//! One pool: its keys to its servers. `error` says why servers and options make none, `limits` what it may have at most.

pub(crate) mod error;
pub(crate) mod limits;

use std::{collections::HashSet, sync::Arc};

use self::error::RoutingError;
use self::limits::{REPLICAS_MAX, SERVERS_MAX};
use crate::distribution::{Distribution, Hashed};
use crate::family;
use crate::key::KeyPart;
use crate::options::Options;
use crate::options::placement::Placement;
use crate::server::Server;

/// Says which servers hold a key. Immutable: build it once, share it in an `Arc`, replace it whole.
#[derive(Clone, Debug)]
pub struct Router {
    servers: Vec<Server>,
    options: Options,
    key_part: KeyPart,
    /// Shared by its copies: it may have megabytes.
    distribution: Arc<Distribution>,
}

impl Router {
    /// Places keys on `servers` by `placement` with its own defaults, each on `replicas` of them.
    pub fn new(servers: Vec<Server>, placement: Placement, replicas: usize) -> Result<Self, RoutingError> {
        Self::with_options(servers, Options { replicas, ..Options::new(placement) })
    }

    /// Places keys on `servers` as `options` say.
    pub fn with_options(servers: Vec<Server>, options: Options) -> Result<Self, RoutingError> {
        check_pool(&servers, options.replicas)?;
        let key_part = key_part(&options)?;
        let distribution = Arc::new(family::distribution(&servers, &options)?);
        Ok(Self { servers, options, key_part, distribution })
    }

    /// The pool, in configured order. Servers are known by their places in it.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// How many servers hold each key.
    pub fn replicas(&self) -> usize {
        self.options.replicas
    }

    /// The rule that places keys.
    pub fn placement(&self) -> Placement {
        self.options.placement
    }

    /// All that was said about how to place keys.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The servers that are the first of no key: too light for a single point on the ring. Removing one would move
    /// keys all the same, because the shares of the others are rounded with it.
    pub fn without_keys(&self) -> impl Iterator<Item = &Server> {
        let places = (0u16..).zip(&self.servers);
        places.filter(|(place, _)| !self.distribution.has_keys(*place)).map(|(_, server)| server)
    }

    /// How many points on a circle, or slots, it keeps to place keys; 0 where it keeps none.
    pub fn points(&self) -> usize {
        match &*self.distribution {
            Distribution::Hashed(hashed) => hashed.len(),
            _ => 0,
        }
    }

    /// Whether keys go by their MD5. That takes so long that it pays to remember where a key went.
    pub fn is_by_md5(&self) -> bool {
        matches!(&*self.distribution, Distribution::Hashed(hashed) if hashed.is_by_md5())
    }

    /// The first of the key's servers.
    pub fn primary(&self, key: &[u8]) -> usize {
        self.key_part.with(key, |part| self.distribution.primary(part))
    }

    /// Writes the key's servers into `out`, the primary first, all distinct, and returns how many: [`Self::replicas`],
    /// or as many as `out` has room for.
    pub fn replicas_of(&self, key: &[u8], out: &mut [u16]) -> usize {
        let wanted = self.options.replicas.min(out.len());
        match wanted {
            0 => {}
            1 => out[0] = self.primary(key) as u16,
            _ => self.key_part.with(key, |part| {
                self.distribution.fill(part, self.servers.len(), &mut out[..wanted]);
            }),
        }
        wanted
    }

    /// Calls `each` with what [`Self::replicas_of`] writes into `out` for each of `keys`, in their order. Where keys go by their
    /// MD5, this hashes several at once.
    #[inline]
    pub fn replicas_of_each<'key>(
        &self,
        keys: impl Iterator<Item = &'key [u8]>,
        out: &mut [u16],
        mut each: impl FnMut(&mut [u16]),
    ) {
        let wanted = self.options.replicas.min(out.len());
        let out = &mut out[..wanted];
        match &*self.distribution {
            Distribution::Hashed(hashed) if hashed.is_by_md5() && !self.key_part.has_salt() => {
                let mut keys = keys.map(|key| self.key_part.cut(key));
                let mut batch = [&[][..]; Hashed::KEYS_AT_ONCE];
                loop {
                    let count = batch.iter_mut().zip(&mut keys).map(|(place, key)| *place = key).count();
                    if count == 0 {
                        return;
                    }
                    hashed.fill_each(&batch[..count], self.servers.len(), out, &mut each);
                }
            }
            _ => keys.for_each(|key| {
                self.replicas_of(key, out);
                each(out);
            }),
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
    let (mut labels, mut names, mut addresses) = (HashSet::new(), HashSet::new(), HashSet::new());
    for server in servers {
        // By its label it is placed, and by its name everything else is known of it: TLS, logins, counts, tags of tokens.
        let is_new = labels.insert(server.label()) && names.insert(&server.name);
        if !is_new || !addresses.insert(&server.endpoint) {
            return Err(RoutingError::Duplicate(server.name.clone()));
        }
        if server.weight.is_zero() {
            return Err(RoutingError::NoWeight(server.name.clone()));
        }
    }
    Ok(())
}

/// What of a key decides, if everything asked for means something to the placement.
fn key_part(options: &Options) -> Result<KeyPart, RoutingError> {
    let Options { placement, hash, hash_tag, salt, .. } = options;
    if let Some(hash) = hash.filter(|hash| !placement.hashes().contains(hash)) {
        return Err(RoutingError::Hash { placement: *placement, hash });
    }
    if !salt.is_empty() && !placement.is_mcrouter() && *placement != Placement::MemcachedProxyJump {
        return Err(RoutingError::Salt(*placement));
    }
    match hash_tag {
        Some(_) if placement.is_mcrouter() => Err(RoutingError::HashTag(*placement)),
        Some(tag) => Ok(KeyPart::Tagged(*tag)),
        None if placement.is_mcrouter() => Ok(KeyPart::Mcrouter { salt: salt.clone().into_bytes() }),
        None => Ok(KeyPart::Whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyHash, Weight};
    use proptest::prelude::*;

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

    fn weighted(weight: &str) -> Vec<Server> {
        let heavy = Server::new("heavy", 1).with_weight(weight.parse().unwrap_or(Weight::whole(0)));
        vec![heavy, Server::new("light", 2)]
    }

    #[test]
    fn impossible_pools_are_refused_with_a_reason() {
        let check = |servers: Vec<Server>, placement, replicas, expected: RoutingError| {
            assert_eq!(refusal(servers, placement, replicas), expected);
        };
        let named = |name: &str, port| Server::new("host", port).with_name(name);
        let ketama = Placement::default();
        let crowd = (0..1025).map(|port| Server::new("host", port + 1)).collect();
        check(vec![], ketama, 1, RoutingError::NoServers);
        check(crowd, ketama, 1, RoutingError::TooManyServers(1025));
        check(pool(2), ketama, 0, RoutingError::Replicas { replicas: 0, servers: 2 });
        check(pool(2), ketama, 3, RoutingError::Replicas { replicas: 3, servers: 2 });
        check(pool(65), ketama, 65, RoutingError::TooManyReplicas(65));
        check([pool(2), pool(1)].concat(), ketama, 1, RoutingError::Duplicate("10.0.0.0:11211".into()));
        check(vec![named("a", 1), named("b", 1)], ketama, 1, RoutingError::Duplicate("b".into()));
        check(vec![named("a", 1), named("a", 2)], ketama, 1, RoutingError::Duplicate("a".into()));
        // One is placed as `host` and the other as `host:11211`, and both are called that.
        let alike = vec![Server::new("host", 11_211), Server::new("other", 1).with_name("host:11211")];
        check(alike, ketama, 1, RoutingError::Duplicate("host:11211".into()));
        check(weighted("zero"), ketama, 1, RoutingError::NoWeight("heavy:1".into()));
    }

    #[test]
    fn weights_that_mean_nothing_to_a_placement_are_refused() {
        let message = |weight, placement| refusal(weighted(weight), placement, 1).to_string();
        for placement in [Placement::Jump, Placement::LibmemcachedDefault, Placement::McrouterCh3] {
            let expected = format!(
                "server heavy:1 has weight 2, but placement {placement} knows no weights: remove it, or use another placement"
            );
            assert_eq!(message("2", placement), expected);
        }
        let heavy = |sum_max| RoutingError::TooHeavy { sum: 1_000_001, sum_max };
        assert_eq!(refusal(weighted("1000000"), Placement::Ring, 1), heavy(8192));
        assert_eq!(refusal(weighted("1000000"), Placement::TwemproxyModula, 1), heavy(65_536));
        assert!(message("0.5", Placement::Ring).ends_with("but placement ring takes whole weights only"));
        assert!(message("1.5", Placement::McrouterWeightedCh3).ends_with("takes weights up to 1"));
        Router::new(weighted("0.5"), Placement::McrouterWeightedCh3, 1).unwrap();
    }

    #[test]
    fn a_server_too_light_for_a_point_comes_last() {
        let rings = [
            Placement::LibmemcachedKetamaWeighted,
            Placement::Spymemcached,
            Placement::Ketama,
            Placement::TwemproxyKetama,
        ];
        for placement in rings {
            let router = Router::new(weighted("1000000"), placement, 2).unwrap();
            assert_eq!(replicas_of(&router, b"key"), [0, 1]);
            assert_eq!(router.without_keys().map(Server::to_string).collect::<Vec<_>>(), ["light:2"]);
        }
        for placement in Placement::ALL {
            assert_eq!(router(5, placement, 1).without_keys().count(), 0, "{placement}");
        }
    }

    #[test]
    fn options_that_mean_nothing_to_a_placement_are_refused() {
        let message = |options| Router::with_options(pool(2), options).unwrap_err().to_string();
        let hash = |placement, hash| Options { hash: Some(hash), ..Options::new(placement) };
        assert_eq!(
            message(hash(Placement::Ketama, KeyHash::Crc16)),
            "placement ketama knows no hash crc16: use md5"
        );
        assert_eq!(
            message(hash(Placement::McrouterCh3, KeyHash::Md5)),
            "placement mcrouter/Ch3 knows no hash md5: it has one of its own; leave the hash out"
        );
        let salt = |placement| Options { salt: "salt".into(), ..Options::new(placement) };
        assert_eq!(message(salt(Placement::Jump)), "placement jump knows no salt: remove it");
        let tag = Options { hash_tag: "{}".parse().ok(), ..Options::new(Placement::McrouterCh3) };
        assert!(message(tag).starts_with("placement mcrouter/Ch3 knows no hash tags"));
    }

    #[test]
    fn the_largest_pool_is_accepted() {
        for placement in Placement::ALL {
            let servers = (1..=SERVERS_MAX as u16).map(|port| Server::new("host", port)).collect();
            let router = Router::new(servers, placement, REPLICAS_MAX).unwrap();
            let distinct: HashSet<_> = replicas_of(&router, b"key").into_iter().collect();
            assert_eq!(distinct.len(), REPLICAS_MAX, "{placement}");
        }
    }

    #[test]
    fn a_smaller_slice_gets_the_first_replicas() {
        for placement in Placement::ALL {
            let router = router(5, placement, 4);
            let all = replicas_of(&router, b"key");
            for room in 0..4 {
                let mut out = vec![u16::MAX; room];
                assert_eq!(router.replicas_of(b"key", &mut out), room);
                assert_eq!(out, all[..room]);
            }
        }
    }

    /// Through [`Router::replicas_of_each`].
    fn replicas_of_each(router: &Router, keys: &[Vec<u8>], room: usize) -> Vec<Vec<u16>> {
        let (mut found, mut out) = (Vec::new(), vec![u16::MAX; room]);
        router.replicas_of_each(keys.iter().map(Vec::as_slice), &mut out, |servers| {
            found.push(servers.to_vec());
        });
        found
    }

    #[test]
    fn an_empty_key_among_others_is_placed_as_alone() {
        let keys = [b"a".to_vec(), b"".to_vec(), b"b".to_vec()];
        for placement in Placement::ALL {
            let router = router(5, placement, 2);
            let alone: Vec<Vec<u16>> = keys.iter().map(|key| replicas_of(&router, key)).collect();
            assert_eq!(replicas_of_each(&router, &keys, REPLICAS_MAX), alone, "{placement}");
        }
    }

    #[test]
    fn modulo_replicas_are_the_next_servers_in_order() {
        let router = router(4, Placement::Modulo, 3);
        assert_eq!(replicas_of(&router, b"c"), [3, 0, 1]); // 'c' is 99
    }

    #[test]
    fn keys_with_the_same_tag_stay_together() {
        let tagged = |placement| Options { hash_tag: "{}".parse().ok(), ..Options::new(placement) };
        let places = |placement| -> HashSet<usize> {
            let router = Router::with_options(pool(10), tagged(placement)).unwrap();
            (0..100).map(|number| router.primary(format!("{number}:{{user}}:{number}").as_bytes())).collect()
        };
        for placement in Placement::ALL.into_iter().filter(|placement| !placement.is_mcrouter()) {
            assert_eq!(places(placement).len(), 1, "{placement}");
        }
    }

    /// Placements in which a server that leaves moves its own keys alone.
    const CONSISTENT: &[Placement] = &[
        Placement::Ring,
        Placement::Rendezvous,
        Placement::LibmemcachedConsistent,
        Placement::LibmemcachedKetama,
        Placement::LibmemcachedKetamaWeighted,
        Placement::Spymemcached,
        Placement::Ketama,
        Placement::TwemproxyKetama,
        Placement::MemcachedProxyRingDefault,
        Placement::MemcachedProxyRingKetama,
        Placement::McrouterRendezvous,
    ];

    proptest! {
        // Each case builds a router of every placement.
        #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

        #[test]
        fn keys_at_once_are_placed_as_each_alone_is(
            keys in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..130), 0..40),
            servers in 1usize..12,
            replicas in 1usize..4,
            room in 0usize..5,
            tag in prop::option::of(Just("{}".parse().unwrap())),
        ) {
            let replicas = replicas.min(servers);
            for placement in Placement::ALL {
                let hash_tag = tag.filter(|_| !placement.is_mcrouter());
                let salt = if placement.is_mcrouter() { "salt" } else { "" }.to_owned();
                for hash in [None, placement.hashes().contains(&KeyHash::Md5).then_some(KeyHash::Md5)] {
                    let options = Options { replicas, hash, hash_tag, salt: salt.clone(), ..Options::new(placement) };
                    let router = Router::with_options(pool(servers), options).unwrap();
                    let alone = keys.iter().map(|key| replicas_of(&router, key)[..replicas.min(room)].to_vec());
                    prop_assert_eq!(replicas_of_each(&router, &keys, room), alone.collect::<Vec<_>>(), "{}", placement);
                }
            }
        }

        #[test]
        fn every_byte_string_has_its_distinct_servers(
            key in prop::collection::vec(any::<u8>(), 0..300),
            servers in 1usize..12,
            replicas in 1usize..12,
        ) {
            let replicas = replicas.min(servers);
            for placement in Placement::ALL {
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
            keys in prop::collection::vec(any::<[u8; 8]>(), 200),
            placement in prop::sample::select(CONSISTENT),
        ) {
            let removed = removed.index(servers);
            let before = router(servers, placement, replicas);
            let mut pool = pool(servers);
            pool.remove(removed);
            let after = Router::new(pool, placement, replicas).unwrap();
            let names = |router: &Router, key: &[u8]| -> Vec<String> {
                let places = replicas_of(router, key);
                places.iter().map(|place| router.servers()[usize::from(*place)].name.clone()).collect()
            };
            for key in &keys {
                let mut kept = names(&before, key);
                kept.retain(|name| *name != before.servers()[removed].name);
                prop_assert!(names(&after, key).starts_with(&kept), "{}", placement);
            }
        }
    }
}
