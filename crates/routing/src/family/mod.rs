//! Families: how each system turns a list of servers into a distribution. One file per system; `weights` and `points` have what
//! several of them do.

mod ketama;
mod libmemcached;
mod mcrouter;
mod memcached_proxy;
mod points;
mod twemproxy;
mod weights;
mod weir;

use crate::distribution::Distribution;
use crate::hash::KeyHash;
use crate::options::Options;
use crate::options::placement::Placement;
use crate::router::error::RoutingError;
use crate::server::Server;

/// The distribution of keys over `servers`, which are checked but for their weights, by the `hash` in force.
pub(crate) fn distribution(servers: &[Server], options: &Options) -> Result<Distribution, RoutingError> {
    let placement = options.placement;
    let hash = options.key_hash();
    let built = match placement {
        Placement::Modulo => weir::modulo(servers, chosen(hash)),
        Placement::Ring => weir::ring(servers, chosen(hash)),
        Placement::Jump => weir::jump(servers),
        Placement::Rendezvous => weir::rendezvous(servers),
        Placement::LibmemcachedDefault => libmemcached::default(servers, chosen(hash)),
        Placement::LibmemcachedConsistent | Placement::LibmemcachedKetama => {
            libmemcached::consistent(servers, chosen(hash))
        }
        Placement::LibmemcachedKetamaWeighted => libmemcached::weighted(servers, chosen(hash)),
        Placement::Spymemcached => libmemcached::spymemcached(servers),
        Placement::Ketama => ketama::ketama(servers),
        Placement::TwemproxyKetama => twemproxy::ketama(servers, chosen(hash)),
        Placement::TwemproxyModula => twemproxy::modula(servers, chosen(hash)),
        Placement::MemcachedProxyJump => memcached_proxy::jump(servers, &options.salt),
        Placement::MemcachedProxyRingDefault
        | Placement::MemcachedProxyRingKetama
        | Placement::MemcachedProxyRingTwemproxy
        | Placement::MemcachedProxyRingEvcache => memcached_proxy::ring(servers, placement, chosen(hash)),
        Placement::McrouterCh3 => mcrouter::ch3(servers),
        Placement::McrouterWeightedCh3 => mcrouter::weighted_ch3(servers),
        Placement::McrouterCrc32 => mcrouter::crc32(servers),
        Placement::McrouterRendezvous => mcrouter::rendezvous(servers),
        Placement::McrouterConstShard => mcrouter::const_shard(servers),
    }
    .map_err(|refusal| refusal.explain(servers, placement))?;
    // One server holds everything; its weight and name were looked at all the same.
    Ok(match built {
        _ if servers.len() == 1 => Distribution::Single,
        Distribution::Hashed(hashed) => Distribution::Hashed(hashed.for_replicas(options.replicas)),
        other => other,
    })
}

/// The hash of a family that always has one.
fn chosen(hash: Option<KeyHash>) -> KeyHash {
    hash.expect("placements that ask for a hash list at least one")
}
