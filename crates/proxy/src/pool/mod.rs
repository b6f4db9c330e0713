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
//! One request of a session is in service at a time; those that it sent meanwhile wait in the session (`client`). A worker is an event
//! loop without clients of its own: it takes a request, hands it to its dataplane, turns until the reply is whole, and writes it to the
//! client's socket. What the kernel does not take is left to the network thread.
//!
//! | file | holds |
//! |---|---|
//! | `start` | [`start()`]: makes the threads |
//! | `network` | the network thread: accepts, reads, queues, closes |
//! | `session` | a client as the network thread sees it: bytes are cut into requests |
//! | `client` | a client's turn, shared by the network thread and the worker that serves it |
//! | `request` | a request on its way through the threads |
//! | `queue` | who waits, and which worker is called |
//! | `order` | one order of writes per key |
//! | `worker` | serves one request after the other |
//!
//! No thread waits for a lock while it holds another, and none does anything but memory work and one write to one socket while it holds
//! one.

mod client;
mod network;
mod order;
mod queue;
mod request;
mod session;
mod start;
mod worker;

pub(crate) use start::start;
