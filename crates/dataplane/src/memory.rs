//! Memory that was needed once and is not any more.
//!
//! Buffers keep their memory when they run empty: a reply of a megabyte would otherwise cost a page fault for each of its pages, every
//! time. Now and then all that are empty give it back; a second later nothing shows any more that a peer was once busy.

pub(crate) mod budget;
pub(crate) mod buffer;
pub(crate) mod spare;

use crate::{
    Dataplane, clients::session::Session, memory::buffer::give_back, requests::multiget::Planner,
    servers::backend::Backend,
};
use weir_routing::Balance;
use weir_timing::Instant;

impl Dataplane {
    /// Something is going on, so there may be memory to give back a while later.
    pub(crate) fn memory_is_used(&mut self, now: Instant) {
        self.base.meter.recorder.use_window();
        if self.memory_due.is_none() {
            self.memory_due = Some(now.plus(PAUSE_NS));
        }
    }

    /// Frees the buffers that are empty, if it is time.
    pub(crate) fn give_memory_back(&mut self, now: Instant) {
        if self.memory_due.is_none_or(|due| now < due) {
            return;
        }
        self.memory_due = None;
        self.free_empty_buffers();
        self.requests.gathers.retain(|gather| gather.capacity() <= SPARE_BYTES_MAX);
        self.requests.answers.give_memory_back();
        self.requests.planner.give_memory_back();
    }

    /// Frees the buffers of clients and servers that are empty.
    #[cold]
    pub(crate) fn free_empty_buffers(&mut self) {
        let mut charged = 0;
        for (_, session) in &mut self.base.clients.sessions {
            session.give_memory_back();
            session.charged = session.held_bytes();
            charged += session.charged;
        }
        self.base.clients.held.set_sessions(charged);
        let held = self.base.fleet.servers.give_memory_back();
        self.base.clients.held.set_servers(held);
    }
}

impl Planner {
    fn give_memory_back(&mut self) {
        if self.balance.capacity() > SPARE_BYTES_MAX {
            self.balance = Balance::default();
        }
    }
}

impl Session {
    fn give_memory_back(&mut self) {
        self.intake.give_memory_back();
        self.out.give_back();
        self.sequence.take_if(|sequence| sequence.is_empty());
        self.give_order_back();
    }
}

impl Backend {
    /// Frees the buffers that are empty.
    pub(crate) fn give_memory_back(&mut self) {
        give_back(&mut self.input);
        self.out.give_back();
        self.keys.give_back();
    }
}

/// How long memory is kept after it was needed.
const PAUSE_NS: u64 = 1_000_000_000;

/// A spare gather that keeps no more memory than this is left alone.
const SPARE_BYTES_MAX: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Event, memory::buffer::IDLE_BYTES_MAX};
    use std::sync::Arc;
    use weir_routing::{Placement, Router, Server, Table};

    #[test]
    fn a_second_after_a_large_reply_its_memory_is_free() {
        let servers = [Server::new("a", 1), Server::new("b", 2)].to_vec();
        let router = Router::new(servers, Placement::Modulo, 1).expect("valid");
        let start = Instant::ZERO;
        let mut dataplane = Dataplane::new(Config::default(), Arc::new(Table::from(router.clone())), start);
        while let Some(Event::Connect(server)) = dataplane.poll_event() {
            dataplane.handle_server_connected(server, start);
        }
        assert_eq!(dataplane.poll_timeout(), None);
        let client = dataplane.handle_accept(start).expect("there is room");
        let keys = [0, 1].map(|server| {
            (0..).map(|n| format!("k{n}")).find(|key| router.primary(key.as_bytes()) == server).expect("one")
        });
        dataplane.handle_client_bytes(client, format!("get {} {}\r\n", keys[0], keys[1]).as_bytes(), start);
        let value = "x".repeat(100_000);
        for (server, key) in keys.iter().enumerate() {
            let before = server.checked_sub(1);
            assert_eq!(dataplane.poll_server_output(before, start), Some(server));
            let sent = dataplane.server_output(server).len();
            dataplane.handle_server_written(server, sent, start);
            let reply = format!("VALUE {key} 0 100000\r\n{value}\r\nEND\r\n");
            for piece in reply.as_bytes().chunks(60_000) {
                dataplane.handle_server_bytes(server, piece, start);
            }
        }
        let sent = dataplane.client_output(client).len();
        dataplane.handle_client_written(client, sent, start);
        let kept = |dataplane: &Dataplane| {
            let servers = (0..2).map(|server| dataplane.base.fleet.servers[server].input.capacity());
            let gathers = dataplane.requests.gathers.iter().map(|gather| gather.capacity());
            servers.chain(gathers).sum::<usize>() + dataplane.base.clients.sessions[client].out.capacity()
        };
        dataplane.handle_time(start.plus(PAUSE_NS - 1));
        assert!(kept(&dataplane) > 400_000);
        assert_eq!(dataplane.poll_timeout(), Some(start.plus(PAUSE_NS)));
        dataplane.handle_time(start.plus(PAUSE_NS));
        assert!(kept(&dataplane) <= 3 * IDLE_BYTES_MAX, "{}", kept(&dataplane));
        assert_eq!(dataplane.poll_timeout(), None);
    }
}
