//! Servers that are connected and do not answer: which of them may be marked down.
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
    config::Config, routes::Routes, servers::backend::Backend, servers::connections::Connections,
    servers::link::State,
};

/// Whether a connection has been silent for long enough: `late` requests in a row.
pub(super) fn is_silent(backend: &Backend, late: u32, config: &Config) -> bool {
    let limit = config.mark_down_timeouts;
    limit > 0 && late >= limit && backend.link().is_up() && !backend.link().is_renewing()
}

/// Whether such a server may be marked down. `is_second`: it is only another connection to a server.
pub(super) fn may_mark_down(
    (server, is_second): (usize, bool),
    connections: &Connections,
    routes: &Routes,
    config: &Config,
) -> bool {
    if is_second {
        return config.marks_down_alone();
    }
    let is_marked_down = |slot: &u16| connections[usize::from(*slot)].state() == State::Silent;
    routes.pools_with(server).all(|pool| {
        if pool.replicas == 1 {
            return config.marks_down_alone();
        }
        let silent = 1 + pool.servers.iter().filter(|slot| is_marked_down(slot)).count();
        silent * 100 <= pool.servers.len() * config.mark_down_share_percent as usize
            || pool.servers.iter().all(|slot| answers_nothing(&connections[usize::from(*slot)], config))
    })
}

fn answers_nothing(backend: &Backend, config: &Config) -> bool {
    let is_silent = backend.link().is_up() && backend.health().late_in_a_row() >= config.mark_down_timeouts;
    is_silent || backend.state().is_down()
}
