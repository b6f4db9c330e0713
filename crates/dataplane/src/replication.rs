//! Keys that several servers hold: who decides a write, what the others hear of it, and which of them may be read.

pub(crate) mod emptied;
pub(crate) mod follow;
pub(crate) mod freshness;
pub(crate) mod hold;
pub(crate) mod journal;
pub(crate) mod ownership;
pub(crate) mod readers;
pub(crate) mod repair;
pub(crate) mod replica;
pub(crate) mod replicate;
pub(crate) mod token;
