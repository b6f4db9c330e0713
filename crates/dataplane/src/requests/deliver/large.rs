//! Large replies: not copied, and thrown away as soon as it is known that there is no room for them.
//!
//! What is kept of a reply before it is complete becomes the client's bytes as it is (`outbox.rs`), so nothing that belongs to the next reply
//! is kept with it. A reply says how long each value is before it comes. What its client may not have is refused then, and what is still to
//! come of it is not kept.

use super::{deliver_from, throw_reply_away};
use crate::{
    Fault, memory::buffer::append_exactly, requests::Requests, requests::base::Base, wire::ids::Slot,
};
use std::{mem, sync::Arc};
use weir_protocol::{Expected, Violation};
use weir_timing::Instant;

/// Takes bytes for the large reply of which `kept` is the beginning, and delivers what is complete; returns those behind it.
#[cold]
pub(super) fn deliver_large<'a>(
    requests: &mut Requests,
    base: &mut Base,
    server: Slot,
    kept: &mut Vec<u8>,
    mut bytes: &'a [u8],
    now: Instant,
) -> Result<&'a [u8], Violation> {
    let needed = base.fleet.servers[server].needed();
    if needed > kept.len() + LAST_LINE_BYTES {
        // A value is coming, and it may be the last.
        kept.reserve_exact(needed + LAST_LINE_BYTES - kept.len());
        let own;
        (own, bytes) = bytes.split_at(bytes.len().min(needed + LAST_LINE_BYTES - kept.len()));
        kept.extend_from_slice(own);
        if kept.len() >= needed {
            deliver_whole(requests, base, server, kept, now)?;
        }
    }
    if !kept.is_empty() && !bytes.is_empty() {
        append_exactly(kept, bytes);
        bytes = &[];
        if kept.len() >= base.fleet.servers[server].needed() {
            deliver_whole(requests, base, server, kept, now)?;
        }
    }
    Ok(bytes)
}

/// Delivers what is complete in `kept`. Replies in it are not copied.
fn deliver_whole(
    requests: &mut Requests,
    base: &mut Base,
    server: Slot,
    kept: &mut Vec<u8>,
    now: Instant,
) -> Result<(), Violation> {
    let all = Arc::new(mem::take(kept));
    requests.large_input = Some(Arc::clone(&all));
    let taken = deliver_from(requests, base, server, &all, now);
    requests.large_input = None;
    let taken = taken?;
    *kept = match Arc::try_unwrap(all) {
        Ok(mut all) => {
            all.drain(..taken);
            all
        }
        Err(all) => all[taken..].to_vec(),
    };
    Ok(())
}

/// The reply to the head of a server will take `needed` bytes at least, of which some have come.
#[cold]
pub(super) fn limit_large(
    requests: &mut Requests,
    base: &mut Base,
    server: Slot,
    needed: usize,
    now: Instant,
) {
    if needed > BULKY_REPLY_BYTES && !base.clients.held().admits_bulky(needed) {
        base.free_empty_buffers();
    }
    let backend = &mut base.fleet.servers[server];
    if backend.is_head_followed() || backend.is_within_message() {
        return;
    }
    let Some(head) = backend.head() else { return };
    let Some(request) = head.request() else {
        if head.expected() == Expected::Retrieval {
            backend.drop_values();
        }
        return;
    };
    let session = &base.clients[requests.services[request].session];
    let to_come = needed.saturating_sub(backend.input_len());
    let whose = if session.replies.buffered_bytes() + needed > base.fleet.config.session_buffer_bytes_max {
        base.meter.counters().session_refusals_full += 1;
        "client"
    } else if needed > BULKY_REPLY_BYTES && !base.clients.held().admits_bulky(to_come) {
        base.meter.counters().buffer_refusals_full += 1;
        "proxy"
    } else {
        return;
    };
    requests.services[request].verdict.fail(Fault::Buffer, &Arc::from(whose));
    throw_reply_away(requests, base, server, now);
}

/// `END` and its line ending.
const LAST_LINE_BYTES: usize = 5;

/// Replies that are longer than this are refused first when much is held.
const BULKY_REPLY_BYTES: usize = 4 << 20;
