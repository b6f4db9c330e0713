//! One server, from its slot to its end.

use super::*;
use crate::servers::order::Order;
use weir_routing::{Placement, Router, Table};

impl Lifecycle {
    /// All slots that are free belong to servers that are leaving.
    pub(in crate::servers) fn fill_with_leaving(&mut self, now: Instant) {
        for number in self.slots.len().. {
            let Some(slot) = self.slots.take(Server::new(format!("old-{number}"), 1), None) else { break };
            self.renew_slot(slot, slot, now);
            self.slots.leave(slot);
        }
    }
}

const SERVER: Slot = Slot::from_index(0);

fn at(millis: u64) -> Instant {
    Instant::from_nanos(millis * 1_000_000)
}

/// One server in slot 0, to which a connection is being made.
fn one() -> Lifecycle {
    let router = Router::new(vec![Server::new("a", 1)], Placement::Modulo, 1).expect("one server is a pool");
    let table = Arc::new(Table::from(router));
    let config = Config { asks_item_size: true, greets_servers: true, ..Config::default() };
    let mut it = Lifecycle::new(&config, &Arc::new(Routes::nowhere(&table)));
    assert_eq!(it.take_slot(&table.servers()[0], at(0)), SERVER);
    it
}

fn orders(it: &mut Lifecycle) -> Vec<Order> {
    std::iter::from_fn(|| it.notices_mut().poll_order()).collect()
}

fn changes(it: &mut Lifecycle) -> Vec<ServerChange> {
    std::iter::from_fn(|| it.notices_mut().poll_change()).map(|change| change.what).collect()
}

/// Connects, and answers what is asked first.
fn welcome(it: &mut Lifecycle, now: Instant) {
    it.handle_connected(SERVER, now);
    let said: [&[u8]; 2] = [b"VERSION 1.6.18\r\n", b"STAT item_size_max 1048576\r\nEND\r\n"];
    for said in said {
        let asked = it.connections().output(SERVER).len();
        it.connections_mut().handle_written(SERVER, asked, (1, now), |_| ());
        it.take_greeting(SERVER, said, now);
    }
}

#[test]
fn a_server_is_used_once_it_has_answered_the_greeting() {
    let mut it = one();
    assert_eq!(orders(&mut it), [Order::Connect(SERVER)]);
    welcome(&mut it, at(1));
    assert_eq!(it.connections()[SERVER].state(), State::Up);
    assert_eq!(
        (changes(&mut it), it.connections()[SERVER].item_size()),
        (vec![ServerChange::Up], Some(1 << 20))
    );
    assert_eq!((it.counters().server_connects, orders(&mut it).len()), (1, 0));
}

#[test]
fn one_that_closes_twice_in_a_row_is_left_alone_and_then_tried_again() {
    let mut it = one();
    for _ in 0..2 {
        welcome(&mut it, at(1));
        it.handle_disconnected(SERVER, at(2));
    }
    assert_eq!(
        orders(&mut it),
        [Order::Connect(SERVER), Order::Connect(SERVER)],
        "the second time there is a pause"
    );
    assert!(changes(&mut it).contains(&ServerChange::Down(DownReason::Closes)));
    let due = it.connections().due(1, 1).expect("it is tried again");
    assert!(it.look_at_time(SERVER, due).is_empty());
    assert_eq!(orders(&mut it), [Order::Connect(SERVER)]);
    assert_eq!(it.connections()[SERVER].state().name(), "down", "until it has answered");
    welcome(&mut it, due);
    assert_eq!(it.connections()[SERVER].state(), State::Up);
}
