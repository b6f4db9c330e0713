//! The differential test: the same bytes to a plain memcached and to Weir in front of one, and the same answers back.
//!
//! ```text
//!                       ┌─▶ memcached ────────────▶ transcript ─┐
//!   seed ─▶ stream ─────┤                                       ├─▶ normalise ─▶ equal, or minimise and report
//!           (grammar)   └─▶ weir proxy ─▶ memcached ─▶ transcript ─┘
//! ```
//!
//! A [`Stream`] is what one client sends on one connection, right and wrong, with the places at which its bytes are cut. Each is
//! a function of the seed and its number alone. Both subjects get the same pieces, and then a tail: enough bytes to
//! leave any data block that the stream left open, a question whose answer occurs nowhere else, and the end of the sending side.
//! So a transcript is complete when the subject closes, and no wait is ever timed but for a subject that hangs.
//!
//! Streams are served in batches, piece by piece in turn, so that a subject has read one piece when the next arrives. Streams of
//! a batch share no key: each has its own prefix. Where two met by accident all the same, a difference is asked for again, alone
//! and on fresh servers, before it counts.
//!
//! [`run()`] is the story; [`World`] are the processes.

mod client;
mod grammar;
mod minimise;
mod normalise;
mod process;
mod run;
mod stream;
mod subject;

pub use grammar::generate;
pub use minimise::minimise;
pub use normalise::{Normal, normalise};
pub use process::StartError;
pub use run::{Difference, RunError, Summary, agree, run};
pub use stream::{Phase, Stream};
pub use subject::{Pair, Transcript, World};
