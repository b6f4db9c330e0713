//! The event engine: event loops, each with clients and connections to servers of its own.
//!
//! | file | holds |
//! |---|---|
//! | `start` | starts the loops |
//! | `event_loop` | one loop: [`event_loop::EventLoop`]. A worker of another engine turns one without clients |
//! | `batching` | whether a loop waits a moment for more before it writes |
//! | `handshakes` | how long handshakes of clients may take, and how much of a turn |
//! | `peer` | who has a socket there, and its token |
//! | `server_links` | its connections to servers |
//! | `mail` | writes of keys that another loop owns |
//! | `serving` | what is measured about a loop that serves from a queue |

pub(crate) mod batching;
pub(crate) mod event_loop;
mod handshakes;
mod mail;
mod peer;
pub(crate) mod server_links;
pub(crate) mod serving;
pub(crate) mod start;
