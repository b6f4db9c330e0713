//! Requests in service: what each asks of which servers, and what becomes of the replies.

pub(crate) mod again;
pub(crate) mod answer;
pub(crate) mod ask_alone;
pub(crate) mod auto;
pub(crate) mod base;
pub(crate) mod bulk_reads;
pub(crate) mod bulk_writes;
pub(crate) mod degrade;
pub(crate) mod deliver;
pub(crate) mod dispatch;
pub(crate) mod failover;
pub(crate) mod gather;
pub(crate) mod hosted;
pub(crate) mod outcome;
pub(crate) mod plan;
pub(crate) mod reread;
pub(crate) mod retrieval;
pub(crate) mod second_step;
pub(crate) mod send;
pub(crate) mod service;
pub(crate) mod services;
pub(crate) mod writes;

use crate::{
    config::Config, memory::spare::SpareAnswers, requests::bulk_reads::BulkReads, requests::plan::Planner,
    requests::services::Services,
};
use std::sync::Arc;

/// The requests in service, and what serves them.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) services: Services,
    pub(crate) planner: Planner,
    /// Memory of answers that were parked, to be used again.
    pub(crate) answers: SpareAnswers,
    /// Reads that bring much.
    pub(crate) bulk_reads: BulkReads,
    /// What is being delivered of a server, where that is kept because it is large.
    pub(crate) large_input: Option<Arc<Vec<u8>>>,
}

impl Requests {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            services: Services::default(),
            planner: Planner::new(config.seed),
            answers: SpareAnswers::default(),
            bulk_reads: BulkReads::default(),
            large_input: None,
        }
    }

    /// Frees memory that is kept to be used again.
    pub(crate) fn give_memory_back(&mut self) {
        self.answers.give_memory_back();
        self.planner.give_memory_back();
    }
}

/// What is kept to be used again, and keeps no more memory than this, is left alone.
pub(crate) const SPARE_BYTES_MAX: usize = 4 << 10;
