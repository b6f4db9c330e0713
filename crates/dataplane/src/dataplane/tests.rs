//! What the border shows of memory that is given back.

use super::Dataplane;
use crate::{
    Config, Event, Login, memory::buffer::IDLE_BYTES_MAX, requests::base::MEMORY_PAUSE_NS, wire::ids::slot,
};
use std::sync::Arc;
use weir_routing::{Placement, Router, Server, Table};
use weir_timing::Instant;

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
    let client = dataplane.handle_accept(Login::Wanted, start).expect("there is room");
    let keys = [0, 1].map(|server| {
        (0..).map(|n| format!("k{n}")).find(|key| router.primary(key.as_bytes()) == server).expect("one")
    });
    dataplane.handle_client_bytes(client, format!("get {} {}\r\n", keys[0], keys[1]).as_bytes(), start);
    let value = "x".repeat(100_000);
    for (server, key) in keys.iter().enumerate() {
        let (before, server) = (server.checked_sub(1).map(slot), slot(server));
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
        let servers = (0..2).map(|server| dataplane.base.fleet.servers[slot(server)].held_bytes());
        let gathers = dataplane.requests.capacity();
        servers.sum::<usize>() + gathers + dataplane.base.clients[client].replies.capacity()
    };
    dataplane.handle_time(start.plus(MEMORY_PAUSE_NS - 1));
    assert!(kept(&dataplane) > 400_000);
    assert_eq!(dataplane.poll_timeout(), Some(start.plus(MEMORY_PAUSE_NS)));
    dataplane.handle_time(start.plus(MEMORY_PAUSE_NS));
    assert!(kept(&dataplane) <= 3 * IDLE_BYTES_MAX, "{}", kept(&dataplane));
    assert_eq!(dataplane.poll_timeout(), None);
}
