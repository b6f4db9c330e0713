//! Sockets, the clock and CPU time: the only part of the crate that talks to the kernel.
//!
//! | file | holds |
//! |---|---|
//! | `clock` | the one monotonic clock, and the wall-clock time of its origin |
//! | `cpu` | CPU time of the process |
//! | `link` | one connection with its socket, its buffers and its way back after a break |
//! | `socket` | a socket, with or without TLS |
//! | `target` | a target's addresses, and opening connections to them |
//! | `timer` | waking the event loop at a moment |
//! | `worker` | the event loop of one thread over its links |

pub(crate) mod clock;
pub(crate) mod cpu;
pub(crate) mod link;
pub(crate) mod socket;
pub(crate) mod target;
mod timer;
pub(crate) mod worker;
