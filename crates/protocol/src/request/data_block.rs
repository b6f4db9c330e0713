//! The data block behind a command line that announced one.

use super::command::Request;
use super::meta::Meta;
use super::parsed::{Limits, Parsed};
use super::storage::{Storage, StorageVerb};
use crate::Refusal;

/// Adds the data block behind the command line of `line_len` bytes.
pub(super) fn behind_storage<'a>(
    header: Storage<'a>,
    value_len: usize,
    line_len: usize,
    buffer: &'a [u8],
    limits: &Limits,
) -> Parsed<'a> {
    let block_len = value_len + 2;
    if value_len > limits.value_bytes_max {
        let erases = header.verb == StorageVerb::Set;
        let Storage { key, noreply: silent, .. } = header;
        return Parsed::TooLarge {
            refusal: Refusal::TooLarge,
            key,
            base64: false,
            silent,
            erases,
            len: line_len,
            swallow: block_len,
        };
    }
    let len = line_len + block_len;
    let Some(block) = buffer.get(line_len..len) else { return Parsed::Incomplete { needed: len } };
    match block.split_at(value_len) {
        (value, b"\r\n") => Parsed::Request { request: Request::Storage(Storage { value, ..header }), len },
        _ => Parsed::Refused { refusal: Refusal::BadDataChunk, silent: header.noreply, len },
    }
}

/// Adds the data block behind the command line of `line_len` bytes.
pub(super) fn behind_meta<'a>(
    header: Meta<'a>,
    value_len: usize,
    line_len: usize,
    buffer: &'a [u8],
    limits: &Limits,
) -> Parsed<'a> {
    let block_len = value_len + 2;
    let refusal = header.refusal();
    if value_len > limits.value_bytes_max {
        return Parsed::TooLarge {
            refusal: refusal.unwrap_or(Refusal::TooLarge),
            key: header.key,
            base64: header.is_base64(),
            silent: false,
            erases: refusal.is_none(),
            len: line_len,
            swallow: block_len,
        };
    }
    let len = line_len + block_len;
    match buffer.get(line_len..len) {
        Some(_) if let Some(refusal) = refusal => Parsed::Refused { refusal, silent: false, len },
        Some(block) => Parsed::Request { request: Request::Meta(Meta { block, ..header }), len },
        None => Parsed::Incomplete { needed: len },
    }
}
