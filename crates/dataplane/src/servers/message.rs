//! Requests as messages to servers.

use crate::{servers::backend::Backend, wire::key::write_meta};
use weir_protocol::{Expected, Meta, Request};

/// What the reply to a meta command looks like, and so how it is asked for.
///
/// A quiet `mg` that only reads is sent without its `q`, and its miss is kept from the client. So memcached gathers the replies to many of
/// them: up to version 1.6.45 at least it hands all that it has to the kernel at each `mn`.
pub(crate) fn expected_of(meta: &Meta<'_>) -> Expected {
    match meta.is_quiet() {
        false => Expected::Meta,
        true if meta.is_sound_read() => Expected::MetaUnlessMiss,
        true => Expected::MetaThenNoop,
    }
}

/// Whether one reply may be the answer to several who ask the same by this `mg`. What it says of the item's last use (`h`, `l`) is another
/// thing for who asks second, and a key that the proxy spells as its client did is each client's own.
pub(crate) fn is_sharable(meta: &Meta<'_>) -> bool {
    meta.is_sound_read()
        && !meta.flags().any(|word| matches!(word[0], b'h' | b'l'))
        && !(meta.is_base64() && meta.echoes_key())
}

/// The flags of a quiet meta command without `q`.
pub(crate) fn flags_aloud(meta: &Meta<'_>) -> Vec<u8> {
    let others: Vec<_> = meta.flags().filter(|word| word[0] != b'q').collect();
    others.join(&b' ')
}

/// Any other quiet meta command is followed by `mn`: whether it has a reply depends on the server's version, and shows in what comes before the
/// `MN`.
pub(crate) fn write_message(request: Request<'_>, expected: Expected, backend: &mut Backend) {
    let Request::Meta(meta) = request else { return request.write_to(backend.message()) };
    let echo = write_meta(meta, backend.message());
    if expected == Expected::MetaThenNoop {
        backend.message().extend_from_slice(b"mn\r\n");
    }
    backend.expect_echo(&echo);
}
