//! Servers that are connected and do not answer.
//!
//! A server that froze accepts everything and says nothing: each request to it would cost its whole deadline. After some timeouts in a
//! row it is marked down: nothing is sent there any more but one question that every memcached answers (`version`). Its connection
//! stays (`replica.rs` needs it), and because replies come in order, the answer to that question shows that everything before it is
//! over. Then the server is up again.
//!
//! If many servers of a pool seem silent at once, the trouble is more likely here or in the network between: no more than a share of a
//! pool is marked down for this reason. Who refuses connections is marked down in any case.

use crate::{
    Dataplane,
    backend::{Purpose, State},
};
use weir_protocol::Expected;
use weir_timing::Instant;

impl Dataplane {
    /// So many requests to a server were late.
    pub(crate) fn note_late(&mut self, server: usize, count: usize, now: Instant) {
        let backend = &mut self.backends[server];
        if backend.late_in_a_row == 0 {
            backend.late_since = now;
        }
        let count = backend.late_in_a_row.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        backend.late_in_a_row = count;
        let limit = self.config.mark_down_timeouts;
        let is_candidate = backend.state == State::Up && backend.replica.is_some() && !backend.renewing;
        if is_candidate && limit > 0 && count >= limit && self.may_mark_down(server) {
            self.mark_down(server, now);
        }
    }

    fn may_mark_down(&self, server: usize) -> bool {
        let is_silent = |slot: &u16| self.backends[usize::from(*slot)].state == State::Silent;
        let mut pools = self.router.pools_with(server).peekable();
        pools.peek().is_some()
            && pools.all(|slots| {
                let silent = 1 + slots.iter().filter(|slot| is_silent(slot)).count();
                silent * 100 <= slots.len() * self.config.mark_down_share_percent as usize
            })
    }

    fn mark_down(&mut self, server: usize, now: Instant) {
        let Self { backends, config, counters, .. } = self;
        let backend = &mut backends[server];
        counters.servers_marked_down += 1;
        backend.state = State::Silent;
        backend.begin_own_message(Purpose::Barrier, Expected::Version, config, now);
        backend.message().extend_from_slice(b"version\r\n");
        backend.finish_message();
    }

    /// It has answered, and with that everything that was sent before.
    pub(crate) fn mark_up(&mut self, server: usize) {
        let backend = &mut self.backends[server];
        if backend.state == State::Silent {
            backend.state = State::Up;
            self.counters.servers_marked_up += 1;
        }
    }
}
