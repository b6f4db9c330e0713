//! Keys that several servers hold: who decides a write, what the others hear of it, and which of them may be read.

pub(crate) mod emptied;
pub(crate) mod fleet;
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

use crate::{
    config::Config, config::policy::ReadRepair, replication::hold::Holds, replication::ownership::Post,
    replication::repair::Repairs,
};

/// What one dataplane knows of writes to keys that several servers hold.
#[derive(Debug)]
pub(crate) struct Replication {
    /// Keys to which writes wait.
    pub(crate) holds: Holds,
    /// Copies that are being put back.
    pub(crate) repairs: Repairs,
    /// What goes to other loops and comes from them; none where there is one loop.
    pub(crate) post: Option<Box<Post>>,
}

impl Replication {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            holds: Holds::default(),
            repairs: Repairs::new(config.read_repair == ReadRepair::On),
            post: None,
        }
    }
}
