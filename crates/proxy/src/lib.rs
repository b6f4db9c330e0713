//! What moves bytes and time for the dataplane: event loops, the acceptor, the admin port, and an orderly end.
//!
//! ```text
//!             ┌────────────┐  connections   ┌─────────────────────────────┐
//!   clients ─▶│  acceptor  │───────────────▶│ event loop 0: Dataplane 0   │──▶ servers
//!             └────────────┘  in turn       │ event loop 1: Dataplane 1 … │──▶ servers
//!                                           └──────────────▲──────────────┘
//!   curl ────▶ admin port: /metrics /snapshot ─────────────┤ asks each loop for its report
//!   SIGHUP, /reload, names ─▶ keeper ──────────────────────┘ gives each loop the new table, and where servers are
//!   SIGTERM ─▶ run: stop accepting, drain the loops, end
//! ```
//!
//! With [`Engine::Pool`] and [`Engine::Split`] a network thread, queues and workers stand in the place of the event loops (`threaded`,
//! `pool`, `split`).
//!
//! This is the only crate below the command line that reads a clock and opens sockets for the proxy. Begin at [`run()`].

mod acceptor;
mod admin;
mod batching;
mod client_limit;
mod clock;
mod config;
mod crowding;
mod descriptors;
mod engine;
mod event_loop;
mod files;
mod heap;
mod inband;
mod keeper;
mod listener;
mod mail;
mod metrics;
#[cfg(test)]
mod name_tests;
mod names;
mod notice;
mod notices;
mod pool;
mod rate_limit;
mod records;
mod reporter;
mod reserve;
mod run;
mod server_link;
mod server_views;
mod snapshot;
mod sockets;
mod split;
mod stopping;
mod tcp_timeouts;
mod threaded;
mod threads;
mod traces;
mod useless;
mod windows;

pub use batching::{Batching, PAUSE_MAX_NS};
pub use config::{Config, ConfigError, LISTEN_MODE, Listen, Replication, Reread, THREADS_MAX};
pub use engine::Engine;
pub use keeper::NAMES_PATIENCE;
pub use names::{Resolve, ResolveError, SystemResolver, unresolved};
pub use notice::{Notice, ServerNotice};
pub use run::{RunError, run};
pub use tcp_timeouts::TcpTimeouts;
pub use traces::Sampling;
pub use weir_dataplane::{
    JoinGets, Multiget, OnFailure, OnStale, Patience, ReadPolicy, ReadRepair, ReplicasRequired, WritePolicy,
};
