//! What happens without a request or a reply: time passes, servers are lost, tables come.

use crate::{
    Fault,
    replication::fleet::Fleet,
    requests::Requests,
    requests::admission::{look_at_lines, resume},
    requests::ask_alone::{Sharer, ask_alone},
    requests::base::Base,
    requests::failover::{Asked, fail_over, move_late_read},
    servers::happened::{Happened, Lost, Retry},
};
use weir_timing::Instant;

/// Once per turn: gives up what is late, tries dead servers again, lets paused clients go on, closes windows.
pub(crate) fn take_turn(requests: &mut Requests, base: &mut Base, now: Instant) {
    let (is_any_late, held_by_servers) = base.fleet.servers.look(now);
    if is_any_late {
        expire_all(requests, base, now);
    }
    if base.fleet.servers.pursues_second_opinions() {
        base.fleet.servers.pursue_second_opinions(now);
        take_happened(requests, base, now);
    }
    settle_all(requests, base, now);
    if requests.is_any_to_look_at(now) {
        requests.look_at_waiting(base, now);
    }
    base.fleet.servers.look_at_bulk();
    if base.replication.has_waiting() {
        look_at_lines(requests, base, now);
    }
    base.fleet.work(now);
    base.publish_held(held_by_servers, now);
    base.clients.close_overdue(now);
    base.clients.release_held_back(now);
    if requests.bulk_reads.is_waited_for() {
        requests.bulk_reads.look(base);
        while let Some(id) = requests.bulk_reads.next(base) {
            resume(requests, base, id, now);
        }
    }
    while let Some(id) = base.clients.next_to_go_on() {
        resume(requests, base, id, now);
    }
    base.advance(now);
    if base.give_memory_back(now) {
        requests.give_memory_back();
    }
}

/// What has become of requests and servers without a reply, in its order.
#[cold]
pub(crate) fn take_happened(requests: &mut Requests, base: &mut Base, now: Instant) {
    while let Some(happened) = base.fleet.servers.poll_happened() {
        let Base { fleet, meter, .. } = base;
        match happened {
            Happened::Begun(slot) => meter.begin_server(slot),
            Happened::Times(server, times) => meter.add_server_times(server, &times),
            Happened::Tried => meter.use_window(),
            Happened::MayBeEmpty(server) => fleet.replicas.note_may_be_empty(server),
            Happened::Freed(slot) => fleet.replicas.forget(slot),
            Happened::Version(server, version) => fleet.note_version(server, version),
            Happened::ItemSize(bytes) => base.learn_item_size(bytes),
            Happened::Lost(lost) => lose(requests, base, *lost, now),
            Happened::Ended { server, own, lost, ending } => {
                // It may come back with other values, or with none.
                requests.forget_values_of(own);
                let Fleet { replicas, servers, .. } = fleet;
                replicas.lose_messages(server, (lost, ending), servers, now);
            }
        }
    }
}

/// A part of a request got no answer: it is asked for again, or its request fails.
fn lose(requests: &mut Requests, base: &mut Base, lost: Lost, now: Instant) {
    let Lost { request: key, part, keys, server, fault, retry } = lost;
    let services = &mut requests.services;
    let asked = Asked { key, part, server, keys: &keys };
    let is_asked = retry != Retry::Never && fail_over(services, base, asked, now)
        || retry == Retry::ElsewhereOrAlone
            && ask_alone(services, base, &Sharer { part, keys: keys.clone() }, server, now);
    if is_asked {
        return;
    }
    _ = requests.ask_once.take_doubt();
    requests.part_failed(base, (key, part.index()), fault, server, now);
    let doubt = requests.ask_once.take_doubt().filter(|_| fault == Fault::Timeout);
    if let Some(doubt) = doubt {
        // Its reply is still to come.
        base.fleet.servers[server].note_doubt(&part, doubt);
    }
}

/// Server by server: moves late reads to other replicas, then gives up what is late.
#[cold]
fn expire_all(requests: &mut Requests, base: &mut Base, now: Instant) {
    let mut next = 0;
    while let Some(server) = base.fleet.servers.next_busy(next) {
        let late = base.fleet.servers.look_at_time(server, now);
        take_happened(requests, base, now);
        for (place, key, part, keys) in late {
            let asked = Asked { key, part, server, keys: &keys };
            if move_late_read(&mut requests.services, base, asked, now) {
                base.fleet.servers[server].note_moved(place);
            }
        }
        base.fleet.servers.give_up_late(server, now);
        take_happened(requests, base, now);
        next = server.index() + 1;
    }
}

/// Ends connections that have waited for their last replies.
pub(crate) fn settle_all(requests: &mut Requests, base: &mut Base, now: Instant) {
    if !base.fleet.servers.is_any_to_settle() {
        return;
    }
    let is_any_free = base.fleet.settle_all(now);
    take_happened(requests, base, now);
    if is_any_free {
        take_coming_table(requests, base, now);
    }
}

/// From now on keys go where the table says that was offered, if there is room for its servers.
pub(crate) fn take_coming_table(requests: &mut Requests, base: &mut Base, now: Instant) {
    base.meter.counters().tables_replaced += u64::from(base.fleet.take_coming_table(now));
    take_happened(requests, base, now);
    base.fleet.prepare();
}
