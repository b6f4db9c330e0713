//! What a proxy goes by while it serves: its configuration and table, and where its servers are.
//!
//! ```text
//!   SIGHUP, POST /reload ─▶ reloader: read, check, look up new names ─▶ every loop takes the table ─▶ answered
//!   a loop reconnects, or the period is over ─▶ resolver: a thread for each name ─▶ every loop gets the new addresses
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `handle` | what other threads may ask: [`handle::ReloadHandle`], [`handle::ResolverHandle`] |
//! | `reloader` | reads the configuration again, and hands out its table |
//! | `resolver` | owns the addresses of names, and when each is looked up again |
//! | `thread` | the thread that both work on |
//!
//! This thread alone waits for files. It waits for names that a reload brings, for some seconds at most; for all others threads wait that end
//! with the answer.

pub(crate) mod handle;
#[cfg(test)]
mod name_tests;
mod reloader;
pub(crate) mod resolver;
pub(crate) mod thread;
