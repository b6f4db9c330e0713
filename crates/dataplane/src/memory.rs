//! Memory that was needed once and is not any more.
//!
//! Buffers keep their memory when they run empty: a reply of a megabyte would otherwise cost a page fault for each of its pages, every
//! time. Now and then all that are empty give it back; a second later nothing shows any more that a peer was once busy.

pub(crate) mod budget;
pub(crate) mod buffer;
pub(crate) mod buffer_pool;
pub(crate) mod copies;
