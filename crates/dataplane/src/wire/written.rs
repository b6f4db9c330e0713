//! Which key a request is about.

use crate::wire::key::WireKey;
use weir_protocol::{Arithmetic, Deletion, Meta, MetaVerb, Parsed, Request, Storage, Touch};

/// The key whose copies on servers a request may change, as it is placed; none for who only reads.
pub fn written_key(parsed: &Parsed<'_>) -> Option<Box<[u8]>> {
    let (bytes, base64) = match *parsed {
        Parsed::Request { request, .. } => match request {
            Request::Storage(Storage { key, .. })
            | Request::Deletion(Deletion { key, .. })
            | Request::Arithmetic(Arithmetic { key, .. })
            | Request::Touch(Touch { key, .. }) => (key, false),
            Request::Meta(meta) if writes(&meta) => (meta.key, meta.is_base64()),
            _ => return None,
        },
        Parsed::TooLarge { key, base64, erases: true, .. } => (key, base64),
        _ => return None,
    };
    let wire = WireKey { bytes, base64 };
    let decoded = wire.decoded();
    Some(wire.placement_name(decoded.as_ref()).into())
}

/// The key, as it is placed, by which a request that only reads is asked first: that of its only key, or of the first of several.
pub fn read_key(parsed: &Parsed<'_>) -> Option<Box<[u8]>> {
    let Parsed::Request { request, .. } = *parsed else { return None };
    match request {
        Request::Retrieval(retrieval) => retrieval.keys().next().map(Into::into),
        Request::Meta(meta) if !writes(&meta) => {
            let wire = WireKey::of(&meta);
            Some(wire.placement_name(wire.decoded().as_ref()).into())
        }
        _ => None,
    }
}

/// Hands `then` the key, as it is placed, of a request that may change an item; nothing if it may change several.
pub(crate) fn with_changed_key<T>(request: &Request<'_>, then: impl FnOnce(Option<&[u8]>) -> T) -> T {
    match *request {
        Request::Storage(Storage { key, .. })
        | Request::Deletion(Deletion { key, .. })
        | Request::Arithmetic(Arithmetic { key, .. })
        | Request::Touch(Touch { key, .. }) => then(Some(key)),
        Request::Meta(meta) => {
            let wire = WireKey::of(&meta);
            let decoded = wire.decoded();
            then(Some(wire.placement_name(decoded.as_ref())))
        }
        Request::Retrieval(retrieval) if retrieval.key_count() == 1 => then(retrieval.keys().next()),
        _ => then(None),
    }
}

/// Whether a meta command may change an item.
pub(crate) fn writes(meta: &Meta<'_>) -> bool {
    matches!(meta.verb, MetaVerb::Set | MetaVerb::Delete | MetaVerb::Arithmetic)
}
