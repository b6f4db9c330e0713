//! What moves bytes and time for the dataplane: event loops, the acceptor, the admin port, and an orderly end.
//!
//! ```text
//!             ┌────────────┐  connections   ┌─────────────────────────────┐
//!   clients ─▶│  acceptor  │───────────────▶│ event loop 0: Dataplane 0   │──▶ servers
//!             └────────────┘  in turn       │ event loop 1: Dataplane 1 … │──▶ servers
//!                                           └──────────────▲──────────────┘
//!   curl ────▶ admin port: /metrics /snapshot ─────────────┤ asks each loop for its report
//!   SIGHUP, /reload, names ─▶ reload ──────────────────────┘ gives each loop the new table, and where servers are
//!   SIGTERM ─▶ run: stop accepting, drain the loops, end
//! ```
//!
//! With [`Engine::Pool`] and [`Engine::Split`] a network thread, queues and workers stand in the place of the event loops.
//!
//! | room | holds |
//! |---|---|
//! | `run` | a proxy from its first to its last moment |
//! | `config` | how a proxy is configured |
//! | `connections` | listeners, sockets, descriptors, addresses |
//! | `mailbox` | what other threads ask of a thread that serves |
//! | `engine` | the threads that serve: event loops, pool, split |
//! | `reload` | a new configuration, and names that are looked up again |
//! | `admin` | the admin port, and `stats` |
//! | `notices` | what an operator reads in the log |
//! | `records` | windows, traces, and their files |
//! | `process` | clock, threads, signals, and why a proxy ends |
//!
//! This is the only crate below the command line that reads a clock and opens sockets for the proxy. Begin at [`run()`].

mod admin;
mod config;
mod connections;
mod engine;
mod mailbox;
mod notices;
mod process;
mod records;
mod reload;
mod run;

pub use config::groups::PoolOfPlaces;
pub use config::listeners::{LISTENERS_MAX, Listen, ListenPlace, ListenRow};
pub use config::logins::{LoginFileError, UserRow};
pub use config::settings::{
    Engine, Form, Layer, LogFormat, LogLevel, Place, PoolSettings, SaidOfServers, Setting, Settings, Table,
};
pub use config::{Config, ConfigError, OfFile, Reread, Subject};
pub use connections::names::{Resolve, ResolveError, SystemResolver, unresolved};
pub use connections::tls::TlsError;
#[cfg(feature = "fuzzing")]
pub use connections::tls::fuzzing;
pub use notices::notice::{Notice, ServerNotice};
pub use process::error::RunError;
pub use process::files::read_file;
pub use reload::resolver::NAMES_WAIT_MAX;
pub use run::run;
