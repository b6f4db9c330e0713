//! The split engine: for each server a queue of reads with T readers, and a queue of writes with one writer.
//!
//! ```text
//!                 ┌────────────────┐      ┌──────────────┐      ┌────────────┐ one request at a time
//!   clients ─────▶│ network thread │──┬──▶│ reads of s   │─────▶│ readers of s│──▶ s
//!      ▲          │ cuts requests  │  │   └──────────────┘      └────────────┘
//!      │          └────────────────┘  │   ┌──────────────┐      ┌────────────┐ many at once
//!      │                              └──▶│ writes of s  │─────▶│ writer of s│──▶ s, and the other replicas of its keys
//!      │                                  └──────────────┘      └─────┬──────┘
//!      └──────────────────────────────── replies ─────────────────────┘
//! ```
//!
//! A request waits at its key's primary, so all writes to one key pass through one thread and leave in one order to all replicas.
//! Readers and writers are the workers of `threaded`, with a capacity of one and of `WRITES_IN_SERVICE_MAX` (`crew.rs`).
//!
//! | file | holds |
//! |---|---|
//! | `start` | [`start::Split`]: the network thread, and the first stations |
//! | `stations` | which queue a request belongs into, and how that changes |
//! | `crew` | makes stations: queues and their threads |

mod crew;
pub(crate) mod start;
mod stations;
