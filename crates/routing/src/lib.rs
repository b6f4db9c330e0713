//! From a key to its servers.
//!
//! A key has an ordered list of servers: the primary, then the next distinct ones. Placement depends on the key's bytes
//! and the configured servers alone, never on which server is alive, and it is defined for every byte string. The
//! crate knows nothing of connections or requests, and what it builds never changes: a new pool is a new [`Router`].
//!
//! Start at [`Router`], which places keys on the servers of one pool; a [`Table`] holds all pools of a proxy and says by a key's
//! prefix which pool it belongs to. [`Options`] say how it places keys: a [`Placement`] names the rule, a [`KeyHash`] the hash
//! function, a [`HashTag`] the part of a key that decides (`key`). `family` turns servers into a distribution as
//! each system does, `distribution` answers for a key, `hash` has the functions behind both. [`Server`] says where a
//! server is, what it is called, and what it weighs. [`Balance`] chooses among the replicas of the keys of one request.

mod balance;
mod distribution;
mod family;
mod hash;
mod key;
mod options;
mod router;
mod server;
mod table;

pub use balance::Balance;
pub use hash::{KeyHash, UnknownHash, fingerprint};
pub use key::{HashTag, HashTagError};
pub use options::Options;
pub use options::placement::{Placement, UnknownPlacement};
pub use router::Router;
pub use router::error::RoutingError;
pub use router::limits::{REPLICAS_MAX, SERVERS_MAX};
pub use server::weight::{Weight, WeightError};
pub use server::{Endpoint, Server, ServerError};
pub use table::{POOLS_MAX, Pool, ROUTES_MAX, TABLE_SERVERS_MAX, Table, TableError};
