//! What is measured and leaves the process as it happens: a record per second, and a row per sampled request.
//!
//! | room | holds |
//! |---|---|
//! | `windows` | one-second windows of the whole proxy |
//! | `traces` | rows of sampled requests |
//! | `writer` | a file of records, and the thread that writes it |
//! | `files` | the files that the configuration names |

pub(crate) mod files;
pub(crate) mod traces;
pub(crate) mod windows;
pub(crate) mod writer;
