use crate::hash::KeyHash;
use crate::options::placement::Placement;
use crate::router::limits::{REPLICAS_MAX, SERVERS_MAX};
use crate::server::weight::Weight;

/// Why servers and options do not make a router.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// The pool is empty.
    #[error("the pool has no servers: give at least one")]
    NoServers,
    /// The pool is larger than [`SERVERS_MAX`].
    #[error("the pool has {0} servers: at most {SERVERS_MAX} are supported")]
    TooManyServers(usize),
    /// Two servers cannot be distinguished.
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
    #[error("server {0} has weight 0: give it more, or remove it")]
    NoWeight(String),
    /// The placement has no notion of weight, and would ignore it.
    #[error(
        "server {server} has weight {weight}, but placement {placement} knows no weights: remove it, or use another placement"
    )]
    WeightIgnored {
        /// The server's name.
        server: String,
        /// Its weight.
        weight: Weight,
        /// The placement.
        placement: Placement,
    },
    /// A weight that the placement cannot use.
    #[error("server {server} has weight {weight}, but placement {placement} takes {expected}")]
    WeightOutOfRange {
        /// The server's name.
        server: String,
        /// Its weight.
        weight: Weight,
        /// The placement.
        placement: Placement,
        /// What it could be.
        expected: &'static str,
    },
    /// Slots and points would take too much memory.
    #[error("the weights add up to {sum}: at most {sum_max} are supported; divide all by the same number")]
    TooHeavy {
        /// Sum of the weights.
        sum: u64,
        /// The largest sum that the placement takes.
        sum_max: u64,
    },
    /// A hash function that the placement does not know.
    #[error("placement {placement} knows no hash {hash}: {}", allowed(*placement))]
    Hash {
        /// The placement.
        placement: Placement,
        /// The hash asked for.
        hash: KeyHash,
    },
    /// mcrouter has its own way to keep keys together.
    #[error("placement {0} knows no hash tags (mcrouter hashes what stands before |#|): remove the tag")]
    HashTag(Placement),
    /// A salt that would be ignored.
    #[error("placement {0} knows no salt: remove it")]
    Salt(Placement),
}

fn allowed(placement: Placement) -> String {
    match placement.hashes() {
        [] => "it has one of its own; leave the hash out".to_owned(),
        hashes => format!("use {}", KeyHash::names(hashes)),
    }
}
