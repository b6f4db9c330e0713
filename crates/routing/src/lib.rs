//! From a key to its servers.
//!
//! A key has an ordered list of servers: the primary, then the next distinct ones. Placement depends on the key's bytes
//! and the configured servers alone, never on which server is alive, and it is defined for every byte string. The
//! crate knows nothing of connections or requests, and what it builds never changes: a new pool is a new [`Router`].
//!
//! Start at [`Router`]. It asks a ring (`ring`, consistent hashing as libmemcached does it) or the modulo rule
//! (`modulo`); [`Server`] says where a server is and what it is called, [`Placement`] which rule is meant.

mod hash;
mod modulo;
mod placement;
mod ring;
mod router;
mod server;

pub use placement::{Placement, UnknownPlacement};
pub use router::{REPLICAS_MAX, Router, RoutingError, SERVERS_MAX};
pub use server::{Server, ServerError};
