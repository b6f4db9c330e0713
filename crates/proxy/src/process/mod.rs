//! The process: its clock, its threads, its memory, its end, and who looks after it.
//!
//! | file | holds |
//! |---|---|
//! | `clock` | the one clock |
//! | `threads` | that no thread ends unnoticed |
//! | `error` | why a proxy could not run |
//! | `stopping` | signals, and what is done until the proxy stops |
//! | `service_manager` | what systemd gets to know |
//! | `cpu_contention` | whether a thread waits for processors |
//! | `usage` | CPU time and memory, as the kernel counts them |
//! | `files` | files that a setting names, read so that none stops who reads it |
//! | `heap` | what the allocator does with large buffers |

pub(crate) mod clock;
pub(crate) mod cpu_contention;
pub(crate) mod error;
pub(crate) mod files;
pub(crate) mod heap;
pub(crate) mod service_manager;
pub(crate) mod stopping;
pub(crate) mod threads;
pub(crate) mod usage;
