//! What an operator reads: from what a thread has seen to a line in a log.
//!
//! | file | holds |
//! |---|---|
//! | `notice` | what can be reported, as values |
//! | `server_views` | what all threads together say of a server |
//! | `rate_limit` | how many notices of one kind are shown |
//! | `showing` | what was not shown yet, and the thread that shows it |

pub(crate) mod notice;
mod rate_limit;
mod server_views;
pub(crate) mod showing;
