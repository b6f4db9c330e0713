//! What a proxy goes by while it serves: its configuration and table, and where its servers are.
//!
//! ```text
//!   SIGHUP, POST /reload ─▶ reloader: read, check, look up new names ─▶ every loop takes the table ─▶ answered
//!   a loop reconnects, or the period is over ─▶ resolver: one name after the other ─▶ every loop gets the new addresses
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `handle` | what other threads may ask: [`handle::ReloadHandle`], [`handle::ResolverHandle`] |
//! | `reloader` | reads the configuration again, and hands out its table |
//! | `resolver` | owns the addresses of names, and when each is looked up again |
//! | `thread` | the thread that both work on |
//!
//! This thread alone waits for files and for names. Between two names it looks for something more urgent, so a reload waits for one
//! lookup at most.

pub(crate) mod handle;
#[cfg(test)]
mod name_tests;
mod reloader;
pub(crate) mod resolver;
pub(crate) mod thread;
