//! The bytes of an answer: the reply that decides, or what was gathered.

use crate::{
    clients::outbox::{Outbox, SharedBytes},
    requests::gather::Gather,
};
use std::sync::Arc;

/// The reply that decides a request, where it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deciding<'a> {
    pub(super) bytes: &'a [u8],
    /// It has no `END` of its own: it came with those to others (`pipeline/line.rs`).
    pub(super) lacks_end: bool,
}

impl Deciding<'_> {
    /// A copy of it, with its end.
    pub(super) fn to_vec(self) -> Vec<u8> {
        let end = if self.lacks_end { END } else { b"" };
        [self.bytes, end].concat()
    }
}

/// Appends an answer: these bytes, or what was gathered.
pub(super) fn write_answer(
    out: &mut Outbox,
    (bytes, end): (Option<&[u8]>, &[u8]),
    gather: &mut Option<Box<Gather>>,
    large_input: Option<&Arc<Vec<u8>>>,
) {
    let Some(bytes) = bytes else {
        return gather.iter_mut().for_each(|gather| gather.merge_into(out));
    };
    match large_input.and_then(|all| SharedBytes::of(all, bytes)) {
        Some(large) => {
            out.push(large);
            out.append(end.len(), |out| out.extend_from_slice(end));
        }
        None => out.append(bytes.len() + end.len(), |out| {
            out.extend_from_slice(bytes);
            out.extend_from_slice(end);
        }),
    }
}

/// What ends the answer to a retrieval.
pub(super) const END: &[u8] = b"END\r\n";
