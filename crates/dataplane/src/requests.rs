//! Requests in service: what each asks of which servers, and what becomes of the replies.

pub(crate) mod again;
pub(crate) mod ask_alone;
pub(crate) mod auto;
pub(crate) mod bulk_reads;
pub(crate) mod bulk_writes;
pub(crate) mod degrade;
pub(crate) mod deliver;
pub(crate) mod dispatch;
pub(crate) mod failover;
pub(crate) mod gather;
pub(crate) mod hosted;
pub(crate) mod kept;
pub(crate) mod multiget;
pub(crate) mod read;
pub(crate) mod service;
pub(crate) mod services;
