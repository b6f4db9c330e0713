//! How a pool places keys, as its owner says it: the rule (`placement`), and what else it may set.

pub(crate) mod placement;

use self::placement::Placement;
use crate::hash::KeyHash;
use crate::key::HashTag;

/// How a pool places keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The rule.
    pub placement: Placement,
    /// The key's hash function; without one, the rule's own default.
    pub hash: Option<KeyHash>,
    /// Characters around the part of a key that decides.
    pub hash_tag: Option<HashTag>,
    /// What is mixed into every hash: mcrouter's salt, or the seed text of memcached's proxy (jump). Empty: nothing.
    pub salt: String,
    /// How many servers hold each key.
    pub replicas: usize,
}

impl Options {
    /// The placement with its own defaults, each key on one server.
    pub fn new(placement: Placement) -> Self {
        Self { placement, hash: None, hash_tag: None, salt: String::new(), replicas: 1 }
    }

    /// The hash function in force, where the placement has a choice of them.
    pub fn key_hash(&self) -> Option<KeyHash> {
        self.hash.or_else(|| self.placement.hashes().first().copied())
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new(Placement::default())
    }
}
