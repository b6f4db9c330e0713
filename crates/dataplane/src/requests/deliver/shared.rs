//! Replies to messages that several gets share: what of them is whose (`pipeline/line.rs`).

use crate::{
    Fault, Mutation,
    requests::Requests,
    requests::ask_alone::{Sharer, ask_alone},
    requests::base::Base,
    servers::backend::{Kept, Part, Sorted},
    wire::ids::Slot,
};
use weir_protocol::{Reply, Status, ValueSpan};
use weir_timing::Instant;

/// Takes values that are not all that the first part of the message wants, or the line that ends the reply to all parts.
#[inline(never)]
pub(super) fn deliver_shared(
    requests: &mut Requests,
    base: &mut Base,
    server: Slot,
    reply: Reply,
    bytes: &[u8],
    now: Instant,
) {
    let is_scattered = base.fleet.servers[server].is_scattered();
    if reply.status == Status::Values && !is_scattered && base.fleet.config.is_without(Mutation::MissAtEnd) {
        let part = base.fleet.servers[server].complete_joined();
        deliver_part(requests, base, server, part, reply, (bytes, None), now);
    } else if reply.status == Status::Values {
        deliver_values(requests, base, server, reply, bytes, now);
    } else if reply.status.is_error() {
        separate(requests, base, server, reply, bytes, now);
    } else {
        deliver_end(requests, base, server, reply, bytes, now);
    }
}

fn deliver_values(
    requests: &mut Requests,
    base: &mut Base,
    server: Slot,
    reply: Reply,
    bytes: &[u8],
    now: Instant,
) {
    let kept_max = base.fleet.config.server_buffer_bytes_max;
    let mut sorted = Some(base.fleet.servers[server].take_values(bytes, kept_max));
    while let Some(taken) = sorted {
        let session = taken.request().map(|request| requests.services[request].session);
        match taken {
            Sorted::Kept => {}
            Sorted::Only(part) => deliver_part(requests, base, server, part, reply, (bytes, None), now),
            Sorted::Last(part, kept) => deliver_kept(requests, base, server, part, kept, now),
            Sorted::TooLarge(place, part) => deliver_nothing(requests, base, server, (place, part), now),
        }
        session.into_iter().for_each(|id| base.count_copy(id, bytes.len()));
        sorted = base.fleet.servers[server].take_for_twin(bytes, kept_max);
    }
}

fn deliver_kept(
    requests: &mut Requests,
    base: &mut Base,
    server: Slot,
    part: Part,
    kept: Kept,
    now: Instant,
) {
    let len = kept.bytes().len();
    let reply = Reply { len, answer_len: len, status: Status::Values, last_line: len };
    base.fleet.servers[server].take_ordinals_of(&kept);
    deliver_part(requests, base, server, part, reply, (kept.bytes(), Some(kept.values())), now);
    base.fleet.servers[server].recycle(kept);
}

/// There is no room to keep what has come for the part in this place. If others want the same keys, what is kept for them takes the room:
/// alone it needs no more than its own values.
#[cold]
fn deliver_nothing(
    requests: &mut Requests,
    base: &mut Base,
    server: Slot,
    (place, part): (usize, Part),
    now: Instant,
) {
    let keys = base.fleet.servers[server].keys_at(place);
    if part.has_twins() && ask_alone(&mut requests.services, base, &Sharer { part, keys }, server, now) {
        return;
    }
    base.meter.counters().server_replies_too_large += 1;
    if let Some(request) = part.request() {
        requests.part_failed(base, (request, part.index()), Fault::Buffer, server, now);
    }
}

/// What no value came for is a miss now.
fn deliver_end(
    requests: &mut Requests,
    base: &mut Base,
    server: Slot,
    reply: Reply,
    bytes: &[u8],
    now: Instant,
) {
    let mut is_first = base.fleet.servers[server].is_scattered();
    if !is_first {
        // All that came before the line is that of the first part.
        let part = base.fleet.servers[server].complete_joined();
        deliver_part(requests, base, server, part, reply, (bytes, None), now);
    }
    let line = &bytes[reply.last_line..];
    let end = Reply { len: line.len(), answer_len: line.len(), last_line: 0, ..reply };
    while std::mem::take(&mut is_first) || base.fleet.servers[server].is_within_message() {
        match base.fleet.servers[server].end_part() {
            (part, _) if part.is_answered() => {}
            (part, Some(kept)) => deliver_kept(requests, base, server, part, kept, now),
            (part, None) => deliver_part(requests, base, server, part, end, (line, None), now),
        }
    }
}

/// The reply has ended with an error. Nobody can tell to which part the error belongs, so each part that lacks values is asked for again
/// alone. Where that must not be, the error is its answer.
#[cold]
fn separate(
    requests: &mut Requests,
    base: &mut Base,
    server: Slot,
    reply: Reply,
    bytes: &[u8],
    now: Instant,
) {
    let line = &bytes[reply.last_line..];
    let error = Reply { len: line.len(), answer_len: line.len(), last_line: 0, ..reply };
    let mut is_first = true;
    let mut sharers = Vec::new();
    while std::mem::take(&mut is_first) || base.fleet.servers[server].is_within_message() {
        let keys = base.fleet.servers[server].keys_of_head().into();
        let (part, _) = base.fleet.servers[server].end_part();
        if !part.is_answered() {
            sharers.push(Sharer { part, keys });
        }
    }
    for sharer in sharers {
        if !ask_alone(&mut requests.services, base, &sharer, server, now) {
            deliver_part(requests, base, server, sharer.part, error, (line, None), now);
        }
    }
}

/// As `deliver_one`, for a part of a message that others share; `values` if they are not where the scanner has found them.
#[inline(never)]
fn deliver_part(
    requests: &mut Requests,
    base: &mut Base,
    server: Slot,
    part: Part,
    reply: Reply,
    (bytes, values): (&[u8], Option<&[ValueSpan]>),
    now: Instant,
) {
    let Some(key) = part.request() else {
        base.meter.counters().server_replies_late += 1;
        return;
    };
    let backend = &mut base.fleet.servers[server];
    backend.record(part.sent(), now);
    if backend.has_copies() {
        backend.observe(now.saturating_since(part.sent()));
    }
    requests.take_reply(base, server, (key, part), (reply, bytes, values), now);
}
