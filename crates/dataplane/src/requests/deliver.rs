//! A server's reply becomes, or becomes part of, the reply to a client.

mod large;
mod shared;

use large::{deliver_large, limit_large};
use shared::deliver_shared;

use crate::{
    Fault, Mutation,
    clients::outbox::LARGE_REPLY_BYTES,
    replication::fleet::Fleet,
    requests::Requests,
    requests::base::Base,
    requests::turn::take_happened,
    servers::backend::{Part, Purpose, Repeated},
    wire::ids::{RequestKey, Slot},
    wire::tagged::Tagged,
};
use weir_protocol::{Expected, Reply, Violation};
use weir_timing::Instant;

/// Bytes were read from a server.
pub(crate) fn deliver(requests: &mut Requests, base: &mut Base, server: Slot, bytes: &[u8], now: Instant) {
    base.meter.counters().server_bytes_read += bytes.len() as u64;
    base.memory_is_used(now);
    if base.fleet.servers.is_greeting(server) {
        base.fleet.servers.take_greeting(server, bytes, now);
        return take_happened(requests, base, now);
    }
    // A server may speak that owes nothing.
    base.fleet.servers.wake(server);
    let delivered = deliver_replies(requests, base, server, bytes, now);
    base.fleet.servers.at(server).note_replied(now);
    if let Err(reason) = delivered {
        base.fleet.servers.give_up_connection(server, reason, now);
        take_happened(requests, base, now);
    }
}

/// Takes all replies that are complete; keeps the beginning of one that is not.
fn deliver_replies(
    requests: &mut Requests,
    base: &mut Base,
    server: Slot,
    bytes: &[u8],
    now: Instant,
) -> Result<(), Violation> {
    let bytes = skip(requests, base, server, bytes)?;
    let mut kept = base.fleet.servers.at(server).take_input();
    let mut goes_on = !kept.is_empty();
    let mut rest = bytes;
    if !kept.is_empty() && base.fleet.servers[server].needed() >= LARGE_REPLY_BYTES {
        rest = deliver_large(requests, base, server, &mut kept, rest, now)?;
        goes_on = !kept.is_empty();
    }
    if kept.is_empty() {
        let taken = deliver_from(requests, base, server, rest, now)?;
        kept.extend_from_slice(&rest[taken..]);
    } else {
        kept.extend_from_slice(rest);
        // Looking is cheap only when there is something to find.
        if !rest.is_empty() && kept.len() >= base.fleet.servers[server].needed() {
            let taken = deliver_from(requests, base, server, &kept, now)?;
            kept.drain(..taken);
            goes_on &= taken == 0;
        }
    }
    let backend = base.fleet.servers.at(server);
    let needed = backend.keep_input(kept, (bytes.len(), goes_on), base.fleet.config.progress_bytes_min, now);
    if needed > base.fleet.config.server_buffer_bytes_max {
        throw_reply_away(requests, base, server, now);
    } else if needed >= LARGE_REPLY_BYTES {
        limit_large(requests, base, server, needed, now);
    }
    Ok(())
}

/// A reply is coming of which more would have to be kept than is allowed. Requests that want it fail; those behind it do not.
fn throw_reply_away(requests: &mut Requests, base: &mut Base, server: Slot, now: Instant) {
    for (request, part) in base.fleet.servers.at(server).throw_reply_away() {
        base.meter.counters().server_replies_too_large += 1;
        requests.part_failed(base, (request, part), Fault::Buffer, server, now);
    }
}

/// Takes the bytes that belong to a value that is thrown away; returns those behind it.
fn skip<'a>(
    requests: &Requests,
    base: &mut Base,
    server: Slot,
    bytes: &'a [u8],
) -> Result<&'a [u8], Violation> {
    let backend = base.fleet.servers.at(server);
    let (skipped, was_last) = backend.skip(bytes.len());
    let ends_there = |head: &Part| matches!(head.expected(), Expected::Meta | Expected::MetaUnlessMiss);
    if was_last && backend.head().is_some_and(ends_there) {
        // Nothing follows the value in a meta reply.
        let mut is_first = true;
        while std::mem::take(&mut is_first) || base.fleet.servers[server].is_within_message() {
            let part = base.fleet.servers.at(server).complete_head(b"")?;
            base.meter.counters().server_replies_late += 1;
            settle(requests, &part);
        }
    }
    Ok(&bytes[skipped..])
}

/// The reply to something that was given up has come: if that was a write, it is not carried out later.
#[inline]
fn settle(requests: &Requests, part: &Part) {
    if let Some(doubt) = part.doubt() {
        requests.ask_once.settle(doubt);
    }
}

fn deliver_from(
    requests: &mut Requests,
    base: &mut Base,
    server: Slot,
    input: &[u8],
    now: Instant,
) -> Result<usize, Violation> {
    let mut at = 0;
    while at < input.len() {
        let backend = base.fleet.servers.at(server);
        let Some(expected) = backend.head().map(Part::expected) else {
            let line = String::from_utf8_lossy(&input[at..input.len().min(at + 60)]).into_owned();
            return Err(Violation::UnexpectedLine(line));
        };
        let rest = &input[at..];
        if backend.is_head_followed() {
            let Some(len) = deliver_joined(requests, base, server, rest, now)? else { break };
            at += len;
            continue;
        }
        let Some(reply) = backend.scan(expected, rest)? else {
            backend.look_for_too_many(rest)?;
            break;
        };
        let bytes = &rest[..reply.len];
        at += reply.len;
        if reply.status.is_error() && backend.is_within_message() {
            deliver_shared(requests, base, server, reply, bytes, now);
            continue;
        }
        let part = backend.complete_head(bytes)?;
        deliver_one(requests, base, server, part, reply, bytes, now);
    }
    Ok(at)
}

/// Delivers what is complete of the reply to several gets, or to one `mg`, that share a message; returns its length if anything is.
fn deliver_joined(
    requests: &mut Requests,
    base: &mut Base,
    server: Slot,
    rest: &[u8],
    now: Instant,
) -> Result<Option<usize>, Violation> {
    let backend = base.fleet.servers.at(server);
    if backend.head().is_some_and(|head| head.expected().is_meta()) {
        return deliver_to_all(requests, base, server, rest, now);
    }
    let Some((reply, is_whole)) = backend.scan_joined(rest)? else { return Ok(None) };
    let (len, bytes) = (reply.len, &rest[..reply.len]);
    if is_whole {
        let part = backend.complete_joined();
        deliver_one(requests, base, server, part, reply, bytes, now);
    } else {
        deliver_shared(requests, base, server, reply, bytes, now);
    }
    Ok(Some(len))
}

/// Delivers the reply to an `mg` that several asked for (`pipeline/reads.rs`), if it is complete; returns its length then. Each reads it with
/// its own opaque. An error is the answer to all: they have asked the same.
#[inline(never)]
fn deliver_to_all(
    requests: &mut Requests,
    base: &mut Base,
    server: Slot,
    rest: &[u8],
    now: Instant,
) -> Result<Option<usize>, Violation> {
    let backend = base.fleet.servers.at(server);
    let Some(reply) = backend.scan(Expected::Meta, rest)? else {
        backend.look_for_too_many(rest)?;
        return Ok(None);
    };
    let bytes = &rest[..reply.len];
    let first = base.fleet.servers.at(server).complete_head(bytes)?;
    let is_wrong = first.repeated() == Repeated::Wrong;
    deliver_sharer(requests, base, server, (first, reply), bytes, now);
    while base.fleet.servers[server].is_within_message() {
        let part = base.fleet.servers.at(server).complete_head(bytes)?;
        if is_wrong {
            if let Some(key) = part.request() {
                requests.part_failed(base, (key, part.index()), Fault::Protocol, server, now);
            }
            continue;
        }
        let anew = part.request().and_then(|key| requests.opaques.write_anew(key, reply, bytes));
        match anew.filter(|_| !base.fleet.config.is_without(Mutation::OwnOpaque)) {
            Some(anew) => deliver_sharer(requests, base, server, (part, anew.reply), &anew.bytes, now),
            None => deliver_sharer(requests, base, server, (part, reply), bytes, now),
        }
    }
    Ok(Some(reply.len))
}

fn deliver_sharer(
    requests: &mut Requests,
    base: &mut Base,
    server: Slot,
    (part, reply): (Part, Reply),
    bytes: &[u8],
    now: Instant,
) {
    let reply = if part.expected() == Expected::MetaUnlessMiss { reply.unless_miss() } else { reply };
    let session = part.request().map(|request| requests.services[request].session);
    deliver_one(requests, base, server, part, reply, bytes, now);
    session.into_iter().for_each(|id| base.count_copy(id, bytes.len()));
}

// As a call of its own it costs every request a hundred instructions.
#[inline(always)]
fn deliver_one(
    requests: &mut Requests,
    base: &mut Base,
    server: Slot,
    part: Part,
    reply: Reply,
    bytes: &[u8],
    now: Instant,
) {
    let Some(key) = part.request() else {
        match part.purpose() {
            Purpose::Request => {
                base.meter.counters().server_replies_late += 1;
                base.fleet.servers[server].note_late_reply(now);
                settle(requests, &part);
            }
            Purpose::Step => base.fleet.servers[server].note_in_step(),
            Purpose::Mark => {}
            Purpose::Barrier => base.fleet.servers.mark_up(server, now),
            Purpose::Delete | Purpose::Flush => {
                let Fleet { replicas, servers, .. } = &mut base.fleet;
                replicas.repair_replied(server, (part.purpose(), reply), servers, now);
            }
        }
        return;
    };
    let backend = base.fleet.servers.at(server);
    backend.record(part.sent(), now);
    if matches!(part.repeated(), Repeated::ByProxy | Repeated::Wrong) {
        return deliver_odd(requests, base, server, (key, part), (reply, bytes), now);
    }
    let mut tagged = None;
    if backend.has_copies() {
        backend.observe(now.saturating_since(part.sent()));
        let is_replicated = requests.services[key].is_of_replicated_key();
        tagged = base.fleet.tag_reply((server, part.expected()), (reply, bytes), is_replicated);
    }
    let taken = match &tagged {
        Some(Tagged { reply, bytes, values }) => (*reply, bytes.as_slice(), Some(values.as_slice())),
        None => (reply, bytes, None),
    };
    requests.take_reply(base, server, (key, part), taken, now);
}

/// A reply into which the proxy puts the key, or that names another one.
#[cold]
fn deliver_odd(
    requests: &mut Requests,
    base: &mut Base,
    server: Slot,
    (key, part): (RequestKey, Part),
    (reply, bytes): (Reply, &[u8]),
    now: Instant,
) {
    let backend = base.fleet.servers.at(server);
    backend.observe(now.saturating_since(part.sent()));
    if part.repeated() == Repeated::Wrong {
        base.meter.counters().server_echoes_wrong += 1;
        return requests.part_failed(base, (key, part.index()), Fault::Protocol, server, now);
    }
    let spelled = backend.spell(reply, bytes);
    let (reply, bytes) = spelled.as_ref().map_or((reply, bytes), |it| (it.reply, it.bytes.as_slice()));
    let is_replicated = requests.services[key].is_of_replicated_key();
    let tagged = base.fleet.tag_reply((server, part.expected()), (reply, bytes), is_replicated);
    let (reply, bytes) = tagged.as_ref().map_or((reply, bytes), |it| (it.reply, it.bytes.as_slice()));
    requests.take_reply(base, server, (key, part), (reply, bytes, None), now);
}
