//! How evenly placements spread keys over 2 to 10 servers, beside what chance alone would do.

#![allow(clippy::print_stdout, reason = "the figures are worth reading: --nocapture")]

use weir_routing::{KeyHash, Options, Placement, Router, Server, Weight};

const KEYS: usize = 20_000;

/// The 99.99 % points of chi-square with 1 to 9 degrees of freedom.
const CHI_SQUARE_MAX: [f64; 9] = [15.14, 18.42, 21.11, 23.51, 25.74, 27.86, 29.88, 31.83, 33.72];

/// Keys of a fixed pseudo-random sequence (xorshift64).
fn keys() -> impl Iterator<Item = String> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{state:016x}")
    })
    .take(KEYS)
}

fn counts(router: &Router) -> Vec<f64> {
    let mut counts = vec![0.0; router.servers().len()];
    keys().for_each(|key| counts[router.primary(key.as_bytes())] += 1.0);
    counts
}

fn pool(servers: usize) -> Vec<Server> {
    (0..servers).map(|number| Server::new(format!("10.0.0.{number}"), 11211)).collect()
}

/// Pearson's statistic against `shares`.
fn chi_square(counts: &[f64], shares: &[f64]) -> f64 {
    let total: f64 = counts.iter().sum();
    counts.iter().zip(shares).map(|(count, share)| (count - share * total).powi(2) / (share * total)).sum()
}

/// The statistical distance of the observed distribution from `shares`: the part of the keys that would have to move.
fn distance(counts: &[f64], shares: &[f64]) -> f64 {
    let total: f64 = counts.iter().sum();
    counts.iter().zip(shares).map(|(count, share)| (count / total - share).abs()).sum::<f64>() / 2.0
}

/// The distance to expect of keys that fall independently, and its standard deviation's upper bound. A count is nearly normal, and the mean
/// of |x - mean| is sqrt(2 / pi) of its standard deviation. The variance of a half sum of n such terms, which are negatively correlated, is
/// at most n/4 of the largest one's (1 - 2 / pi).
fn expected_distance(shares: &[f64], keys: usize) -> (f64, f64) {
    let deviations = shares.iter().map(|share| (share * (1.0 - share) / keys as f64).sqrt());
    let mean = deviations.clone().sum::<f64>() * (2.0 / std::f64::consts::PI).sqrt() / 2.0;
    let variance: f64 = deviations.map(|deviation| deviation.powi(2)).sum::<f64>() / 4.0;
    (mean, (variance * (1.0 - 2.0 / std::f64::consts::PI)).sqrt().max(mean / 2.0))
}

/// Chi-square below its 99.99 % point, and the distance within five deviations of its expected value.
fn check(router: &Router, shares: &[f64], what: &str) {
    let counts = counts(router);
    let servers = counts.len();
    let statistic = chi_square(&counts, shares);
    let (mean, deviation) = expected_distance(shares, KEYS);
    let distance = distance(&counts, shares);
    println!(
        "{what}, {servers} servers: chi-square {statistic:.2}, distance {distance:.5} (expected {mean:.5})"
    );
    assert!(statistic < CHI_SQUARE_MAX[servers - 2], "{what}: {statistic} {counts:?}");
    assert!(distance < mean + 5.0 * deviation, "{what}: {distance}, expected {mean} {counts:?}");
}

#[test]
fn rules_without_points_are_even() {
    let placements = [
        Placement::Modulo,
        Placement::Jump,
        Placement::Rendezvous,
        Placement::LibmemcachedDefault,
        Placement::MemcachedProxyJump,
        Placement::McrouterCh3,
        Placement::McrouterWeightedCh3,
        Placement::McrouterCrc32,
        Placement::McrouterRendezvous,
        Placement::McrouterConstShard,
    ];
    for placement in placements {
        for servers in 2..=10 {
            let router = Router::new(pool(servers), placement, 1).unwrap();
            check(&router, &vec![1.0 / servers as f64; servers], placement.name());
        }
    }
}

/// The others are kept for compatibility: Hsieh's fails this test, and those called FNV with 64 bits hardly mix the last
/// characters.
#[test]
fn modulo_is_even_with_good_hashes() {
    let good = [
        KeyHash::Java,
        KeyHash::Xxh3,
        KeyHash::Md5,
        KeyHash::Crc32a,
        KeyHash::Fnv1a32,
        KeyHash::OneAtATime,
        KeyHash::Murmur,
        KeyHash::Murmur3,
        KeyHash::Jenkins,
    ];
    for hash in good {
        for servers in 2..=10 {
            let options = Options { hash: Some(hash), ..Options::new(Placement::Modulo) };
            let router = Router::with_options(pool(servers), options).unwrap();
            check(&router, &vec![1.0 / servers as f64; servers], &format!("modulo {hash}"));
        }
    }
}

#[test]
fn weights_give_shares() {
    let weights = [1, 2, 3, 4];
    let shares = weights.map(|weight| f64::from(weight) / 10.0);
    let servers = || -> Vec<Server> {
        pool(4)
            .into_iter()
            .zip(weights)
            .map(|(server, weight)| server.with_weight(Weight::whole(weight)))
            .collect()
    };
    for placement in [Placement::Modulo, Placement::Rendezvous] {
        let router = Router::new(servers(), placement, 1).unwrap();
        check(&router, &shares, &format!("weighted {placement}"));
    }
    // Points fall at random: a server's share deviates by about 1 / sqrt(points) of itself.
    let rings = [
        Placement::Ring,
        Placement::LibmemcachedKetamaWeighted,
        Placement::Spymemcached,
        Placement::Ketama,
        Placement::TwemproxyKetama,
    ];
    for placement in rings {
        let hash = placement.hashes().iter().find(|hash| matches!(hash, KeyHash::Md5)).copied();
        let options = Options { hash, ..Options::new(placement) };
        let counts = counts(&Router::with_options(servers(), options).unwrap());
        for (count, share) in counts.iter().zip(shares) {
            assert!((count / KEYS as f64 / share - 1.0).abs() < 0.4, "{placement}: {counts:?}");
        }
    }
}

#[test]
fn rings_are_near_even() {
    let rings = [
        Placement::Ring,
        Placement::LibmemcachedConsistent,
        Placement::LibmemcachedKetama,
        Placement::LibmemcachedKetamaWeighted,
        Placement::Spymemcached,
        Placement::Ketama,
        Placement::MemcachedProxyRingDefault,
        Placement::MemcachedProxyRingKetama,
        Placement::MemcachedProxyRingTwemproxy,
        Placement::MemcachedProxyRingEvcache,
    ];
    for placement in rings {
        for servers in 2..=10 {
            let counts = counts(&Router::new(pool(servers), placement, 1).unwrap());
            let shares = vec![1.0 / servers as f64; servers];
            let (distance, expected) = (distance(&counts, &shares), expected_distance(&shares, KEYS).0);
            println!("{placement}, {servers} servers: distance {distance:.5} (keys alone: {expected:.5})");
            assert!(distance < 0.12, "{placement}, {servers} servers: {counts:?}");
        }
    }
}

/// The default of twemproxy and the sequences that people use as keys: kept for compatibility, never a default of ours.
#[test]
fn twemproxy_s_default_hash_keeps_neighbours_together() {
    let router = Router::new(pool(4), Placement::TwemproxyKetama, 1).unwrap();
    let places = (0..10).map(|number| router.primary(format!("user:100{number}").as_bytes()));
    let distinct: std::collections::HashSet<_> = places.collect();
    assert!(distinct.len() <= 2, "{distinct:?}");
}

/// Values recomputed for the studies' own tests of 100,000 keys.
#[test]
fn the_expected_distance_is_that_of_independent_keys() {
    for (servers, expected) in
        [(2, 0.001_261_566_3), (3, 0.001_784_124_1), (4, 0.002_185_096_9), (5, 0.002_523_132_5)]
    {
        let (mean, _) = expected_distance(&vec![1.0 / servers as f64; servers], 100_000);
        assert!((mean - expected).abs() < 1e-9, "{servers} servers: {mean}");
    }
}
