//! What a proxy reports: to who asks the admin port, and to clients that ask for `stats`.
//!
//! | file | holds |
//! |---|---|
//! | `http` | the admin port: takes connections, and answers each one's question |
//! | `callers` | who may ask |
//! | `places` | who may stay, and who gives way to whom |
//! | `query` | what stands behind the `?` of a question |
//! | `metrics`, `snapshot` | the pages with numbers |
//! | `pools` | what clients of pools have asked for that have places of their own |
//! | `hot_keys` | the keys that are asked for most, for pages and `stats` |
//! | `stats` | `stats` in band: the answer to a client's question |
//! | `reporter` | asks all threads what they have measured, and adds it up |
//! | `latest` | what they have reported last, for questions that anybody may ask |

mod callers;
mod hot_keys;
pub(crate) mod http;
mod latest;
mod metrics;
pub(crate) mod places;
mod pools;
mod query;
pub(crate) mod reporter;
mod snapshot;
pub(crate) mod stats;
