//! What an operator should see: every change of state that is worth a line in a log.
//!
//! This crate says what happened, as values. Who runs a proxy gives it a function that shows them ([`crate::run()`]); the command line
//! writes lines.

use crate::Config;
use std::sync::Arc;

/// What happened to a proxy that its operator should see.
pub enum Notice<'a> {
    /// Clients can connect.
    Ready(&'a Config),
    /// A configuration was read again and is in force.
    Reloaded {
        /// How many have been, the first included.
        generation: u64,
        /// What has changed, and what has not although the new configuration says so.
        told: &'a str,
    },
    /// A configuration was read again and refused: the old one stays.
    ReloadRefused(&'a str),
    /// A file of records cannot be written.
    RecordsLost(&'a str),
    /// This server wants a login, so it is not used.
    LoginWanted(&'a str),
}

/// Shows notices.
pub(crate) type Tell = Arc<dyn Fn(Notice<'_>) + Send + Sync>;
