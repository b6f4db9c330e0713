//! What is noted of requests in service; and of those that are looked at for the keys that are asked for most, which keys they name.
//!
//! | request | counts as | bytes |
//! |---|---|---|
//! | `get`, `gets`, `gat`, `gats`, `mg`, `me` | a read of each key, also where nothing is found | of the values that the client gets |
//! | `set`, `add`, `replace`, `append`, `prepend`, `cas`, `ms` | a write | of the value that the client sends |
//! | `delete`, `touch`, `incr`, `decr`, `md`, `ma` | a write | none |
//!
//! Of very many keys of one request some stand for all. What the proxy refuses before it is a request counts for no key.

use crate::{
    meter::Meter, meter::hot_keys::Watched, meter::hot_keys::sketch::Use, meter::noted::Noted,
    meter::trace::Traced, requests::base::Base, requests::gather::Gather, requests::service::Service,
    wire::key::WireKey, wire::write::value_len,
};
use weir_protocol::{Arithmetic, Deletion, Meta, MetaVerb, Request, Storage, Touch};
use weir_timing::Instant;

/// Notes the keys of a request that is looked at. The meter learns whether there is something to note of its reply.
#[cold]
#[inline(never)]
pub(crate) fn look_at(meter: &mut Meter, request: &Request<'_>, now: Instant) {
    let hot = meter.hot_keys();
    hot.begin_request(now);
    let written = Use::Write(value_len(request));
    match *request {
        Request::Retrieval(retrieval) => {
            hot.note_reads(retrieval.keys(), retrieval.key_count());
            meter.watch_next(Watched::Values);
        }
        Request::Meta(meta) => {
            let wire = WireKey::of(&meta);
            let decoded = wire.decoded();
            let key = wire.placement_name(decoded.as_ref());
            match meta {
                Meta { verb: MetaVerb::Get, .. } => {
                    if let Some(entry) = hot.note(key, Use::Read) {
                        meter.watch_next(Watched::Entry(entry));
                    }
                }
                Meta { verb: MetaVerb::Debug, .. } => _ = hot.note(key, Use::Read),
                // Behind the value stands a line ending.
                _ => _ = hot.note(key, Use::Write(meta.block.len().saturating_sub(2))),
            }
        }
        Request::Storage(Storage { key, .. })
        | Request::Deletion(Deletion { key, .. })
        | Request::Touch(Touch { key, .. })
        | Request::Arithmetic(Arithmetic { key, .. }) => _ = hot.note(key, written),
        _ => {}
    }
}

/// Something is noted of this request, which was taken into service just now.
#[cold]
pub(crate) fn note_request(service: &mut Service, base: &mut Base, request_bytes: usize) {
    let watched = base.meter.take_watched();
    service.noted = if base.meter.samples_this() {
        let session = &base.clients[service.session];
        let (client, queue_length, arrived) = session.source(service.clock.first_byte());
        let row = Traced::of(client, request_bytes as u64, queue_length, arrived);
        Noted::Row(Box::new(row), watched)
    } else {
        Noted::Reply(watched)
    };
}

/// What a client gets, of this length: these bytes, or else what was gathered.
#[cold]
#[inline(never)]
pub(crate) fn note_answer(
    meter: &mut Meter,
    noted: &mut Noted,
    len: usize,
    answer: Result<&[u8], Option<&Gather>>,
) {
    let watched = noted.note_reply(len);
    match answer {
        Ok(bytes) => meter.hot_keys().note_reply(watched, bytes),
        Err(Some(gather)) => note_values(meter, watched, gather),
        Err(None) => {}
    }
}

/// A client gets the values that were gathered.
#[cold]
pub(crate) fn note_values(meter: &mut Meter, watched: Watched, gather: &Gather) {
    gather.for_each_blocks(&mut |values| meter.hot_keys().note_reply(watched, values));
}
