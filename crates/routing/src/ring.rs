use crate::hash;
use crate::server::Server;

/// Points of a server of average weight.
const POINTS_PER_SERVER: f32 = 160.0;

/// Each MD5 digest is cut into four points.
const POINTS_PER_DIGEST: f32 = 4.0;

/// A ketama ring: every server owns points on a circle of 2^32, and a key belongs to the first point at or after its
/// hash, around the end if there is none.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    /// Ascending. Apart from their owners, so that a search touches as few cache lines as it can.
    points: Vec<u32>,
    /// The server of each point.
    owners: Vec<u16>,
}

impl Ring {
    /// The ring of `servers`, of which there are at most 2^16 and none of weight 0.
    pub(crate) fn new(servers: &[Server]) -> Self {
        let weight_sum = servers.iter().map(|server| u64::from(server.weight)).sum();
        let mut ring: Vec<(u32, u16)> = Vec::new();
        for (owner, server) in (0u16..).zip(servers) {
            let label = server.label();
            for number in 0..digests(server.weight, weight_sum, servers.len()) {
                let digest = hash::md5(format!("{label}-{number}").as_bytes());
                ring.extend(points(digest).map(|point| (point, owner)));
            }
        }
        // Points that fall together are ordered by their servers' places, as libmemcached does.
        ring.sort_unstable();
        let (points, owners) = ring.into_iter().unzip();
        Self { points, owners }
    }

    /// The server that owns `key`.
    pub(crate) fn primary(&self, key: &[u8]) -> usize {
        usize::from(self.owners[self.place(key)])
    }

    /// The owners of the key's point and of the points after it, once around.
    pub(crate) fn owners_from(&self, key: &[u8]) -> impl Iterator<Item = u16> {
        let (before, after) = self.owners.split_at(self.place(key));
        after.iter().chain(before).copied()
    }

    /// Whether `server` owns any point.
    pub(crate) fn has(&self, server: u16) -> bool {
        self.owners.contains(&server)
    }

    /// The part of the circle that each of the first `servers` servers owns.
    #[cfg(test)]
    pub(crate) fn shares(&self, servers: usize) -> Vec<f64> {
        let mut shares = vec![0.0; servers];
        let mut before = self.points[self.points.len() - 1];
        for (point, owner) in self.points.iter().zip(&self.owners) {
            shares[usize::from(*owner)] += f64::from(point.wrapping_sub(before)) / 2f64.powi(32);
            before = *point;
        }
        shares
    }

    fn place(&self, key: &[u8]) -> usize {
        let hash = hash::md5_low(key);
        let place = self.points.partition_point(|point| *point < hash);
        if place == self.points.len() { 0 } else { place }
    }
}

/// How many digests a server puts on the ring.
///
/// The arithmetic is that of libmemcached, single precision included: with some numbers of servers the quotient is a
/// hair below 40 and a server gets 39 digests. To round it better would move keys.
fn digests(weight: u32, weight_sum: u64, servers: usize) -> u32 {
    let share = weight as f32 / weight_sum as f32;
    let digests = share * POINTS_PER_SERVER / POINTS_PER_DIGEST * servers as f32;
    (f64::from(digests) + 0.000_000_000_1) as f32 as u32
}

fn points(digest: [u8; 16]) -> impl Iterator<Item = u32> {
    (0..4).map(move |number| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|byte| digest[number * 4 + byte]);
        u32::from_le_bytes([a, b, c, d])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(servers: &[(&str, u16, u32)]) -> Ring {
        let servers: Vec<_> = servers
            .iter()
            .map(|&(host, port, weight)| Server { weight, ..Server::new(host, port) })
            .collect();
        Ring::new(&servers)
    }

    /// The pool of libmemcached's own ketama test.
    fn weighted() -> Ring {
        let weights = [600, 300, 200, 350, 1000, 800, 950, 100];
        let servers: Vec<_> = (1..)
            .zip(weights)
            .map(|(number, weight)| Server { weight, ..Server::new(format!("10.0.1.{number}"), 11211) })
            .collect();
        Ring::new(&servers)
    }

    #[test]
    fn points_are_the_little_endian_quarters_of_a_digest() {
        let points: Vec<u32> = points(hash::md5(b"server1-8")).collect();
        assert_eq!((points[0], points[3]), (3_853_726_576, 2_667_054_752));
    }

    #[test]
    fn weighted_keys_fall_where_libmemcached_puts_them() {
        let ring = weighted();
        for (key, server) in [("SVa_]_V41)", 7), ("30C1*Z*S/_", 2), ("1I=cTMNTKF", 5), ("C89I.-V?cT", 8)] {
            assert_eq!(ring.primary(key.as_bytes()) + 1, server, "{key}");
        }
    }

    #[test]
    fn a_hash_behind_the_last_point_belongs_to_the_first() {
        let ring = weighted();
        let key = b"VDEAAAAA";
        assert!(hash::md5_low(key) > *ring.points.last().unwrap());
        assert_eq!(ring.place(key), 0);
        assert_eq!(ring.primary(key), usize::from(ring.owners[0]));
    }

    #[test]
    fn unnamed_keys_fall_where_twemproxy_puts_them_with_the_same_hash() {
        let ring = ring(&[24001, 24002, 24003, 24004].map(|port| ("127.0.0.1", port, 1)));
        let placed: String = (0..32)
            .map(|number| (b'1' + ring.primary(format!("key{number}").as_bytes()) as u8) as char)
            .collect();
        assert_eq!(placed, "43442232321142323412124233341422");
    }

    /// Checksums over the servers that libmemcached 1.1.4 (`memcached_generate_hash`, behaviour `KETAMA_WEIGHTED`) gave
    /// for `key0` to `key9999`. In pools of 25, 47 and 100 servers each gets 39 digests, not 40; see [`digests`].
    #[test]
    fn pools_of_many_shapes_agree_with_libmemcached() {
        let check = |servers: Vec<Server>, expected: u32| {
            let ring = Ring::new(&servers);
            let checksum = (0..10_000).fold(0u32, |sum, number| {
                sum.wrapping_mul(31).wrapping_add(ring.primary(format!("key{number}").as_bytes()) as u32)
            });
            assert_eq!(checksum, expected, "{} servers", servers.len());
        };
        let even = |count: u16| (0..count).map(|number| Server::new("cache", 21001 + number)).collect();
        check(even(25), 2_845_651_397);
        check(even(47), 1_648_416_392);
        check(even(100), 64_182_650);
        let mixed = |number: u32| Server {
            weight: 1 + number * number % 7,
            ..Server::new(format!("cache-{number}.example"), [11212, 11211, 11211][number as usize % 3])
        };
        check((0..13).map(mixed).collect(), 268_901_861);
        let ipv6 =
            |number: u16| Server { weight: 1 + u32::from(number), ..Server::new("::1", 11211 + number) };
        check((0..5).map(ipv6).collect(), 3_286_164_678);
    }

    #[test]
    fn the_number_of_digests_keeps_the_rounding_of_single_precision() {
        assert_eq!([24, 25, 26].map(|servers| digests(1, servers, servers as usize)), [40, 39, 40]);
        assert_eq!([100, 1000].map(|weight| digests(weight, 4300, 8)), [7, 74]);
    }
}
