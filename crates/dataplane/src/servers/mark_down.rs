//! Servers that are connected and do not answer.
//!
//! A server that froze accepts everything and says nothing: each request to it would cost its whole deadline. After some timeouts in a
//! row it is marked down: nothing is sent there any more but one question that every memcached answers (`version`). Its connection
//! stays (`replica.rs` needs it), and because replies come in order, the answer to that question shows that everything before it is
//! over. Then the server is up again. Whether it is the server that is silent, or only this connection, is asked at the same time
//! (`second_opinion.rs`).
//!
//! Where keys have several servers, one that is marked down misses writes, and others are read in its place. If many servers of a pool
//! seem silent at once, the trouble is more likely here or in the network between: no more than a share of such a pool is marked down for
//! this reason, unless all of it is silent: then nothing is written that any of them could miss. Where keys have one server nothing goes
//! elsewhere, and there is no such limit. Who refuses connections is marked down in any case.

use crate::{
    servers::Servers, servers::changes::ServerChange, servers::in_step::InStep, servers::link::State,
    servers::part::Purpose,
};
use weir_timing::Instant;

impl Servers {
    /// So many requests to a server were late.
    pub(crate) fn note_late(&mut self, server: usize, count: usize, now: Instant) {
        let backend = &mut self[server];
        let count = backend.health_mut().note_late(count, now);
        let state = backend.state();
        let limit = self.config.mark_down_timeouts;
        let is_serving = self.slots.is_serving(server) && !self[server].link().is_renewing();
        if limit == 0 || count < limit || state != State::Up || !is_serving {
            return;
        }
        self.doubt(server, now);
        if self.may_mark_down(server) {
            self.mark_down(server, now);
        }
    }

    fn may_mark_down(&self, server: usize) -> bool {
        if self.slots.beside(server).is_some() {
            return self.config.marks_down_alone();
        }
        let is_silent = |slot: &u16| self[usize::from(*slot)].state() == State::Silent;
        self.routes.pools_with(server).all(|pool| {
            if pool.replicas == 1 {
                return self.config.marks_down_alone();
            }
            let silent = 1 + pool.servers.iter().filter(|slot| is_silent(slot)).count();
            silent * 100 <= pool.servers.len() * self.config.mark_down_share_percent as usize
                || pool.servers.iter().all(|slot| self.answers_nothing(usize::from(*slot)))
        })
    }

    /// How many requests on a connection that is in use were late since anything was heard of it.
    pub(crate) fn late_in_a_row(&self, slot: usize) -> u32 {
        let backend = &self[slot];
        if backend.link().is_connected() { backend.health().late_in_a_row() } else { 0 }
    }

    fn answers_nothing(&self, server: usize) -> bool {
        let backend = &self[server];
        let is_silent =
            backend.link().is_up() && backend.health().late_in_a_row() >= self.config.mark_down_timeouts;
        is_silent || backend.state().is_down()
    }

    fn mark_down(&mut self, server: usize, now: Instant) {
        self.counters.servers_marked_down += 1;
        let timeouts = self[server].health().late_in_a_row();
        self[server].link_mut().silence();
        self.ask_version(server, Purpose::Barrier, now);
        self.note_change(server, ServerChange::MarkedDown { timeouts });
    }

    /// It has answered, and with that everything that was sent before.
    #[cold]
    pub(crate) fn mark_up(&mut self, server: usize, now: Instant) {
        if self.second_opinions.has(server) {
            return self.take_second_opinion(server, now);
        }
        let backend = &mut self[server];
        if backend.link_mut().wake() {
            // The answer came in its turn.
            *backend.in_step_mut() = InStep::default();
            self.counters.servers_marked_up += 1;
            self.note_change(server, ServerChange::Up);
        }
    }
}
