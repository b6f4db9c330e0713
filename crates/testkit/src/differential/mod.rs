//! The differential test: the same bytes to a plain memcached and to Weir in front of one, and the same answers back.
//!
//! ```text
//!                       ┌─▶ memcached ────────────▶ transcript ─┐
//!   seed ─▶ stream ─────┤                                       ├─▶ normalise ─▶ equal, or minimise and report
//!           (grammar)   └─▶ weir proxy ─▶ memcached ─▶ transcript ─┘
//! ```
//!
//! A [`Stream`] is what one client sends on one connection, right and wrong, with the places at which its bytes are cut. Each is a function
//! of the seed and its number alone. Both subjects get the same pieces, and then a tail. The tail has enough bytes to leave any data block
//! that the stream left open, a question whose answer occurs nowhere else, and the end of the sending side. So a transcript is complete
//! when the subject closes, and no wait is ever timed but for a subject that hangs.
//!
//! Streams are served in batches, piece by piece in turn, so that a subject has read one piece when the next arrives. Streams of a batch
//! share no key. A difference is asked for again on fresh servers: alone, then with its batch, then behind everything that came before, and
//! what is found first is made small. One that never comes again is reported as unconfirmed, and fails the test as well. Every cause of one
//! that was ever seen has been removed from the streams (`grammar/sparing.rs`). One cause is left, and is counted by itself (`padded`).
//!
//! A subject that is silent for long hangs. Then everybody is asked on new connections, so that the report says who is silent. All is
//! started anew, and the streams of that batch are asked again, one at a time. A stream on which a memcached hangs by itself is not
//! compared but counted; one on which both subjects hang is a failure.
//!
//! [`run()`] is the story; [`World`] are the processes.

mod client;
mod complaints;
mod examine;
mod grammar;
mod minimise;
mod normalise;
mod process;
mod run;
mod stream;
mod subject;
mod verdict;

pub use examine::{Company, Difference};
pub use grammar::generate;
pub use minimise::minimise;
pub use normalise::{Normal, normalise};
pub use process::{StartError, Weir};
pub use run::{RunError, Summary, run};
pub use stream::{Phase, Stream};
pub use subject::{Hang, Pair, Part, Transcript, World};
pub use verdict::{Verdict, judge};
