//! The pool engine: one network thread, one first-in-first-out queue, W workers, each with its own connection to every server.
//!
//! ```text
//!                 ┌─────────────────┐  Job   ┌───────┐ take  ┌──────────────────────┐
//!   clients ─────▶│ network thread  │───────▶│ Queue │──────▶│ worker 0: Dataplane  │──▶ servers
//!      ▲          │ cuts requests   │        └───────┘       │ worker 1: Dataplane …│──▶ servers
//!      │          └─────────────────┘                        └───────────┬──────────┘
//!      └───────────────────────────── replies ───────────────────────────┘
//! ```
//!
//! Everything that it is made of is in `threaded`; here it is put together by [`start()`].

mod start;

pub(crate) use start::start;
