//! What the engines with threads share: one network thread, queues, and workers.
//!
//! A worker serves one request at a time. The writer of a server, under engine split, serves many.
//!
//! One request of a session is in service at a time; those that it sent meanwhile wait in the session (`client`). A worker is an event
//! loop without clients of its own: it takes a request, hands it to its dataplane, turns until the reply is whole, and writes it to the
//! client's socket. What the kernel does not take is left to the network thread.
//!
//! | file | holds |
//! |---|---|
//! | `start` | makes the network thread's mailbox, and starts it |
//! | `network` | the network thread: accepts, reads, queues, closes |
//! | `session` | a client as the network thread sees it: bytes are cut into requests |
//! | `client` | a client's turn, shared by the network thread and the worker that serves it |
//! | `attention` | clients that a worker wants the network thread to look at |
//! | `request` | a request on its way through the threads |
//! | `queues` | what the network thread and the workers know of the queues: [`queues::Queues`] |
//! | `queue` | one queue: who waits, and who takes it |
//! | `queue/wake_ups` | which worker is woken for it |
//! | `queue/concurrency` | how many may be at work |
//! | `queue/fence` | times at which nobody writes |
//! | `queue/order` | one order of writes per key |
//! | `queue/wide` | reads that bring much, and how many of them are served at once |
//! | `worker` | serves the requests of its queue: one at a time, or as many as its capacity |
//!
//! No thread does anything but memory work and one write to one socket while it holds a lock.

mod attention;
mod client;
mod network;
pub(crate) mod queue;
pub(crate) mod queues;
pub(crate) mod request;
mod session;
pub(crate) mod start;
pub(crate) mod worker;
