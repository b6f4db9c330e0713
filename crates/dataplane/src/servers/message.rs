//! Requests as messages to servers.

use crate::{servers::backend::Backend, wire::key::write_meta};
use weir_protocol::{Expected, Request};

/// A quiet meta command is followed by `mn`: whether it has a reply depends on the server's version, and shows in what comes before the
/// `MN`.
pub(crate) fn write_message(request: Request<'_>, expected: Expected, backend: &mut Backend) {
    let Request::Meta(meta) = request else { return request.write_to(backend.message()) };
    let echo = write_meta(meta, backend.message());
    if expected == Expected::MetaThenNoop {
        backend.message().extend_from_slice(b"mn\r\n");
    }
    backend.expect_echo(&echo);
}
