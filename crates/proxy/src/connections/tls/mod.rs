//! TLS: what is read of a socket and written to it is encrypted, and nobody above notices.
//!
//! ```text
//!   files ─▶ Inbound, Outbound ── begin ─▶ Session ─▶ with a Stream: Line::Tls ─┐
//!                                                         a Stream: Line::Plain ─┴─ Transport ─▶ loop
//!   Session: Shaking ─▶ Open ─▶ Over       what it has to tell: News
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `files` | certificates and keys as files have them |
//! | `inbound` | what a listener speaks |
//! | `handshake_places` | how many handshakes are under way, and of whom |
//! | `outbound` | what a server is spoken to in |
//! | `outbounds` | which of a table's servers are spoken to in that |
//! | `session` | one connection: its handshake, its records, its end |
//! | `records` | which bytes towards a server stand in one record |
//! | `line` | the transport of a connection, whether it is encrypted or not |
//! | `certificate_names` | who a certificate is |
//! | `fuzzing` | what `fuzz/` checks of all this |
//! | `news` | what became of a connection, to be counted |
//!
//! The protocol is rustls', the cryptography ring's (docs/decisions/0019-tls.md).

mod certificate_names;
mod files;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod handshake_places;
mod inbound;
pub(crate) mod line;
pub(crate) mod news;
mod outbound;
mod outbounds;
mod records;
pub(crate) mod session;
#[cfg(test)]
mod tests;

pub(crate) use files::Named;
pub use files::TlsError;
pub(crate) use inbound::{Inbound, server_terms};
pub(crate) use outbound::{Outbound, Terms};
pub(crate) use outbounds::{Outbounds, Spoken};
