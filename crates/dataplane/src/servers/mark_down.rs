//! Servers that are connected and do not answer: which of them may be marked down.
//!
//! A server that froze accepts everything and says nothing: each request to it would cost its whole deadline. After some timeouts in a
//! row it is marked down: nothing is sent there any more but one question that every memcached answers (`version`). Its connection
//! stays (`replica.rs` needs it), and because replies come in order, the answer to that question shows that everything before it is
//! over. Then the server is up again. Whether it is the server that is silent, or only this connection, is asked at the same time
//! (`second_opinion.rs`).
//!
//! Where keys have several servers, one that is marked down misses writes, and others are read in its place. If many servers of a pool seem
//! silent at once, the trouble is more likely here or in the network between. So no more than a share of such a pool is marked down for
//! this reason, unless all of it is silent. If all of it is, nothing is written that any of them could miss. Where keys have one server
//! nothing goes elsewhere, and there is no such limit. Who refuses connections is marked down in any case.
//!
//! These are rules alone: they look at what others own, and `lifecycle.rs` carries out what they say.

use crate::{
    Mutation, config::Config, routes::Routes, servers::backend::Backend, servers::connections::Connections,
    servers::link::State, wire::ids::Slot,
};

/// Whether a connection has been silent for long enough: `late` requests in a row.
pub(super) fn is_silent(backend: &Backend, late: u32, config: &Config) -> bool {
    let limit = config.mark_down_timeouts;
    limit > 0 && late >= limit && backend.link().is_up() && !backend.link().is_renewing()
}

/// Whether such a server may be marked down. `is_second`: it is only another connection to a server.
pub(super) fn may_mark_down(
    (server, is_second): (Slot, bool),
    connections: &Connections,
    routes: &Routes,
    config: &Config,
) -> bool {
    if is_second {
        return !config.is_without(Mutation::MarkDownAlone);
    }
    let is_marked_down = |slot: &Slot| connections[*slot].state() == State::Silent;
    routes.pools_with(server).all(|pool| {
        if pool.replicas == 1 {
            return !config.is_without(Mutation::MarkDownAlone);
        }
        let silent = 1 + pool.servers.iter().filter(|slot| is_marked_down(slot)).count();
        silent * 100 <= pool.servers.len() * config.mark_down_share_percent as usize
            || pool.servers.iter().all(|slot| answers_nothing(&connections[*slot], config))
    })
}

fn answers_nothing(backend: &Backend, config: &Config) -> bool {
    let is_silent = backend.link().is_up() && backend.health().late_in_a_row() >= config.mark_down_timeouts;
    is_silent || backend.state().is_down()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ids::slot;
    use std::sync::Arc;
    use weir_routing::{Placement, Router, Server, Table};
    use weir_timing::Instant;

    const LATE: usize = 5;

    fn config() -> Config {
        Config { mark_down_timeouts: LATE as u32, mark_down_share_percent: 50, ..Config::default() }
    }

    /// Four servers that are up. Those of `late` have let [`LATE`] requests be late. Each key has `replicas` of them.
    fn four(replicas: usize, late: &[usize]) -> (Routes, Connections) {
        let servers: Vec<_> = (0..4).map(|number| Server::new(format!("s{number}"), 1)).collect();
        let router = Router::new(servers, Placement::Modulo, replicas).expect("four servers are a pool");
        let routes = Routes::new(Arc::new(Table::from(router)), (0..4).map(slot).collect());
        let mut connections = Connections::default();
        for slot in (0..4).map(slot) {
            connections.put(slot, Backend::new(slot, Instant::ZERO));
            connections[slot].link_mut().open(Instant::ZERO);
        }
        for &late in late {
            connections[slot(late)].health_mut().note_late(LATE, Instant::ZERO);
        }
        (routes, connections)
    }

    #[test]
    fn so_many_late_requests_are_silence_unless_the_connection_ends_anyway() {
        let (_, mut connections) = four(1, &[0]);
        let late = LATE as u32;
        assert!(
            is_silent(&connections[slot(0)], late, &config())
                && !is_silent(&connections[slot(0)], late - 1, &config())
        );
        assert!(!is_silent(&connections[slot(0)], late, &Config { mark_down_timeouts: 0, ..config() }));
        connections[slot(0)].link_mut().set_renewing(true);
        assert!(!is_silent(&connections[slot(0)], late, &config()));
    }

    #[test]
    fn no_more_than_a_share_of_a_pool_with_copies_is_marked_down_unless_all_of_it_is_silent() {
        let (routes, mut connections) = four(2, &[0, 1, 2]);
        let may = |slot, connections: &_| may_mark_down((slot, false), connections, &routes, &config());
        assert!(may(slot(0), &connections));
        connections[slot(0)].link_mut().silence();
        assert!(may(slot(1), &connections));
        connections[slot(1)].link_mut().silence();
        assert!(!may(slot(2), &connections), "the trouble is more likely here");
        connections[slot(3)].health_mut().note_late(LATE, Instant::ZERO);
        assert!(may(slot(2), &connections), "nothing is written that any could miss");
        let (routes, mut connections) = four(1, &[]);
        (0..3).for_each(|it| connections[slot(it)].link_mut().silence());
        assert!(
            may_mark_down((slot(3), false), &connections, &routes, &config()),
            "where keys have one server"
        );
    }
}
