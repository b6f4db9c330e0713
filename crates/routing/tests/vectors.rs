//! Placements of other systems, carried by their sources or observed from their programs.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use weir_routing::{KeyHash, Options, Placement, Router, Server, Weight};

/// Four servers on one machine, as the observations were made.
fn four() -> Vec<Server> {
    (24001..=24004).map(|port| Server::new("127.0.0.1", port)).collect()
}

fn options(placement: Placement, hash: KeyHash) -> Options {
    Options { hash: Some(hash), ..Options::new(placement) }
}

/// Servers of `<prefix>key0` to `<prefix>key31`, a digit each, from 1.
fn placed(servers: Vec<Server>, options: Options, prefix: &str) -> String {
    let router = Router::with_options(servers, options).unwrap();
    (0..32)
        .map(|number| {
            let place = router.primary(format!("{prefix}key{number}").as_bytes());
            (b'1' + place as u8) as char
        })
        .collect()
}

/// Observed from nutcracker 0.5.0.
#[test]
fn twemproxy() {
    let named = || four().into_iter().zip(1..).map(|(server, n)| server.with_name(format!("s{n}"))).collect();
    let heavy = four().into_iter().zip(1..).map(|(server, n)| server.with_weight(Weight::whole(n))).collect();
    let check = |servers, placement, hash, expected| {
        assert_eq!(placed(servers, options(placement, hash), ""), expected, "{placement} {hash}");
    };
    let (ketama, modula) = (Placement::TwemproxyKetama, Placement::TwemproxyModula);
    check(named(), ketama, KeyHash::Fnv1a64, "33333333331111111111111111111111");
    check(four(), ketama, KeyHash::Fnv1a64, "22222222221111111111111111111111");
    check(heavy, ketama, KeyHash::Fnv1a64, "22222222224444444444444444444444");
    check(four(), ketama, KeyHash::Md5, "43442232321142323412124233341422");
    check(four(), modula, KeyHash::Fnv1a64, "14321432142341234123321432143241");
    assert_eq!(Options::new(ketama).key_hash(), Some(KeyHash::Fnv1a64));
}

/// Observed from memcached 1.6.45 with `--enable-proxy`.
#[test]
fn memcached_proxy() {
    let check = |placement, hash, salt: &str, prefix, expected| {
        let options = Options { salt: salt.to_owned(), ..options(placement, hash) };
        assert_eq!(placed(four(), options, prefix), expected, "{placement} {prefix}");
    };
    let jump = Placement::MemcachedProxyJump;
    check(jump, KeyHash::Xxh3, "", "jump/", "33113113112213311412323313222121");
    check(jump, KeyHash::Xxh3, "abc", "jumpseed/", "11214233133332112213224312442411");
    check(
        Placement::MemcachedProxyRingKetama,
        KeyHash::Md5,
        "",
        "ketama/",
        "32313432233243324321113213133134",
    );
    check(
        Placement::MemcachedProxyRingTwemproxy,
        KeyHash::Md5,
        "",
        "twem/",
        "31133113413414241443213424334232",
    );
    check(
        Placement::MemcachedProxyRingDefault,
        KeyHash::Xxh3,
        "",
        "ringdef/",
        "12413222242444334442312322444431",
    );
    check(Placement::MemcachedProxyRingEvcache, KeyHash::Md5, "", "evc/", "24421312112212443331214242412242");
}

/// The pool of libmemcached's own ketama test.
fn weighted() -> Vec<Server> {
    let weights = [600, 300, 200, 350, 1000, 800, 950, 100];
    let server = |(number, weight): (u16, u32)| {
        Server::new(format!("10.0.1.{number}"), 11211).with_weight(Weight::whole(weight))
    };
    (1..).zip(weights).map(server).collect()
}

#[test]
fn libmemcached_s_weighted_ketama() {
    let router = Router::new(weighted(), Placement::LibmemcachedKetamaWeighted, 1).unwrap();
    for (key, server) in [("SVa_]_V41)", 7), ("30C1*Z*S/_", 2), ("1I=cTMNTKF", 5), ("C89I.-V?cT", 8)] {
        assert_eq!(router.primary(key.as_bytes()) + 1, server, "{key}");
    }
}

/// Checksums over the servers that libmemcached 1.1.4 (`memcached_generate_hash`, behaviour `KETAMA_WEIGHTED`) gave
/// for `key0` to `key9999`. In pools of 25, 47 and 100 servers each gets 39 digests, not 40.
#[test]
fn pools_of_many_shapes_agree_with_libmemcached() {
    let check = |servers: Vec<Server>, expected: u32| {
        let router = Router::new(servers, Placement::LibmemcachedKetamaWeighted, 1).unwrap();
        let checksum = (0..10_000).fold(0u32, |sum, number| {
            sum.wrapping_mul(31).wrapping_add(router.primary(format!("key{number}").as_bytes()) as u32)
        });
        assert_eq!(checksum, expected, "{} servers", router.servers().len());
    };
    let even = |count: u16| (0..count).map(|number| Server::new("cache", 21001 + number)).collect();
    check(even(25), 2_845_651_397);
    check(even(47), 1_648_416_392);
    check(even(100), 64_182_650);
    let mixed = |number: u32| {
        let port = [11212, 11211, 11211][number as usize % 3];
        Server::new(format!("cache-{number}.example"), port)
            .with_weight(Weight::whole(1 + number * number % 7))
    };
    check((0..13).map(mixed).collect(), 268_901_861);
    let ipv6 =
        |number: u16| Server::new("::1", 11211 + number).with_weight(Weight::whole(1 + u32::from(number)));
    check((0..5).map(ipv6).collect(), 3_286_164_678);
}

/// With one server nothing is hashed, whatever the placement.
#[test]
fn a_single_server_has_everything() {
    for placement in Placement::ALL {
        let router = Router::new(vec![Server::new("host", 11211)], placement, 1).unwrap();
        assert_eq!([b"".as_slice(), b"key", &[0xff; 300]].map(|key| router.primary(key)), [0; 3]);
    }
}
