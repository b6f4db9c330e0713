//! A write as servers are asked for it: what it says, to which key, and what may be replied.

use crate::wire::key::WireKey;
use weir_protocol::{
    Arithmetic, ArithmeticVerb, Deletion, Expected, Meta, MetaVerb, Request, Storage, StorageVerb, Touch,
};
use weir_timing::Operation;

/// A write on its way to its replicas.
#[derive(Clone, Copy)]
pub(crate) struct Write<'a> {
    pub(crate) request: Request<'a>,
    pub(crate) expected: Expected,
    pub(crate) key: WireKey<'a>,
    /// Replicas could decide it differently: one is asked first, and the others follow if it did what was asked.
    pub(crate) is_conditional: bool,
    pub(crate) operation: Operation,
    /// No reply is wanted.
    pub(crate) silent: bool,
}

impl<'a> Write<'a> {
    /// A classic write.
    pub(crate) fn classic(request: Request<'a>) -> Self {
        let (operation, expected, is_conditional) = match request {
            Request::Storage(storage) => {
                (storage_operation(storage.verb), Expected::Storage, storage.verb != StorageVerb::Set)
            }
            Request::Deletion(_) => (Operation::Delete, Expected::Deletion, false),
            Request::Touch(_) => (Operation::Touch, Expected::Touch, false),
            Request::Arithmetic(Arithmetic { verb: ArithmeticVerb::Incr, .. }) => {
                (Operation::Incr, Expected::Arithmetic, true)
            }
            _ => (Operation::Decr, Expected::Arithmetic, true),
        };
        let key = match request {
            Request::Storage(Storage { key, .. })
            | Request::Arithmetic(Arithmetic { key, .. })
            | Request::Deletion(Deletion { key, .. })
            | Request::Touch(Touch { key, .. }) => key,
            _ => &[],
        };
        Self {
            request: without_noreply(request),
            expected,
            key: WireKey { bytes: key, base64: false },
            is_conditional,
            operation,
            silent: request.noreply(),
        }
    }
}

/// What makes a server forget a key, and what it may reply.
pub(crate) fn invalidation(key: WireKey<'_>) -> (Request<'_>, Expected) {
    if key.base64 {
        let meta = Meta { verb: MetaVerb::Delete, key: key.bytes, flags: b"b", block: &[] };
        (Request::Meta(meta), Expected::Meta)
    } else {
        (Request::Deletion(Deletion { key: key.bytes, noreply: false }), Expected::Deletion)
    }
}

/// How long the value is that a request stores.
pub(crate) fn value_len(request: &Request<'_>) -> usize {
    match request {
        Request::Storage(Storage { value, .. }) => value.len(),
        Request::Meta(Meta { block, .. }) => block.len(),
        _ => 0,
    }
}

fn storage_operation(verb: StorageVerb) -> Operation {
    match verb {
        StorageVerb::Set => Operation::Set,
        StorageVerb::Add => Operation::Add,
        StorageVerb::Replace => Operation::Replace,
        StorageVerb::Append => Operation::Append,
        StorageVerb::Prepend => Operation::Prepend,
        StorageVerb::Cas => Operation::Cas,
    }
}

/// Servers are always asked to reply: only so can it be known whether they did what was asked, and when.
pub(crate) fn without_noreply(request: Request<'_>) -> Request<'_> {
    match request {
        Request::Storage(it) => Request::Storage(Storage { noreply: false, ..it }),
        Request::Deletion(it) => Request::Deletion(Deletion { noreply: false, ..it }),
        Request::Arithmetic(it) => Request::Arithmetic(Arithmetic { noreply: false, ..it }),
        Request::Touch(it) => Request::Touch(Touch { noreply: false, ..it }),
        Request::FlushAll { delay, .. } => Request::FlushAll { delay, noreply: false },
        Request::ServerCommand { command, arguments, .. } => {
            Request::ServerCommand { command, arguments, noreply: false }
        }
        other => other,
    }
}
