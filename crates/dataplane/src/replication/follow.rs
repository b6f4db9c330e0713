//! What the other replicas learn of a write that one of them decided.
//!
//! Replicas could decide a conditional write differently: by other cas tokens, by copies that are missing, by flags that one
//! version knows and another does not. So one of them is asked. If it refuses, the request ends there, and nobody else has heard of
//! it. If it did what was asked, the others follow:
//!
//! | decided | the others are sent |
//! |---|---|
//! | `add`, `replace`, `cas` | `set` with the same item |
//! | `append`, `prepend`, `incr`, `decr` | the same |
//! | `ms`, `ma` | the same item, or what the decider then holds (`follow/meta.rs`) |
//! | other meta commands, a long value, no room to keep it, or nobody knows whether it was done | `delete` |
//!
//! A follower that answers otherwise than the decider is made to forget the key, behind that and before the client is answered: a missing
//! copy is safe where another one is not.
//!
//! [`Follow`] is what is kept of a request until it is decided. It knows requests alone; `write/followers.rs` sends it.

pub(super) mod meta;

use crate::{Config, Mutation, memory::buffer::beyond_idle, replication::repair::Repair};
use weir_protocol::{Arithmetic, Expected, Request, Status, Storage, StorageVerb};

/// What is sent.
#[derive(Debug, Default)]
pub(super) enum Follow {
    /// Nothing: all were asked at once.
    #[default]
    Never,
    /// That the key is to be forgotten.
    Forget,
    /// This message.
    Message { bytes: Vec<u8>, expected: Expected },
    /// What the decider holds behind the write: it is asked for that.
    Copy,
    /// Nothing was written: what the decider holds is put back where it is missing (`repair.rs`).
    Repair(Repair),
}

/// A longer value is not kept until the decider has answered; the others forget the key instead. Typical values are far shorter, and
/// what all requests in service keep stays small.
pub(super) const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// What is reserved for a message at most, beside what comes from its request.
const RESERVED_BYTES: usize = 64;

impl Follow {
    /// What becomes known of a conditional write.
    pub(super) fn of(request: Request<'_>) -> Self {
        let (request, expected) = match request {
            Request::Storage(Storage { value, .. }) if value.len() > MESSAGE_BYTES_MAX => {
                return Self::Forget;
            }
            Request::Storage(storage) => (Request::Storage(as_decided(storage)), Expected::Storage),
            Request::Arithmetic(arithmetic) => {
                (Request::Arithmetic(Arithmetic { noreply: false, ..arithmetic }), Expected::Arithmetic)
            }
            Request::Meta(meta) => return Self::of_meta(meta),
            _ => return Self::Forget,
        };
        let mut bytes = Vec::new();
        request.write_to(&mut bytes);
        Self::Message { bytes, expected }
    }

    /// How much memory it keeps, if that counts.
    pub(super) fn kept_bytes(&self) -> usize {
        match self {
            Self::Message { bytes, .. } => beyond_idle(bytes.capacity()),
            _ => 0,
        }
    }

    /// Whether one replica decides, and the others follow.
    pub(super) const fn is_conditional(&self) -> bool {
        !matches!(self, Self::Never)
    }
}

impl Config {
    /// What the others learn of a write that one decides.
    pub(super) fn follow(&self, request: Request<'_>) -> Follow {
        match request {
            Request::Meta(_) if self.is_without(Mutation::MetaFollow) => Follow::Forget,
            _ => Follow::of(request),
        }
    }
}

/// How much memory it takes at most to keep this until it is decided. No line of a write is longer than 2 KiB.
pub(super) const fn kept_bytes_of(request: &Request<'_>) -> usize {
    let (line, value) = match request {
        Request::Storage(it) => (it.key.len() + it.flags.len() + it.exptime.len(), it.value.len()),
        Request::Arithmetic(it) => (it.key.len() + it.delta.len(), 0),
        Request::Meta(it) => (it.key.len() + it.flags.len(), it.block.len()),
        _ => (0, 0),
    };
    if value > MESSAGE_BYTES_MAX { 0 } else { line + value + RESERVED_BYTES }
}

/// The decision is made, so what made it conditional is not said again.
fn as_decided(storage: Storage<'_>) -> Storage<'_> {
    match storage.verb {
        StorageVerb::Append | StorageVerb::Prepend => Storage { noreply: false, ..storage },
        _ => Storage { verb: StorageVerb::Set, cas: &[], noreply: false, ..storage },
    }
}

/// Whether a server that says this has done what was asked.
pub(super) const fn has_done(status: Status) -> bool {
    matches!(status, Status::Stored | Status::Number | Status::MetaDone)
}

/// Whether a server that says this to a write may now hold something else than before. A server without memory for a value forgets
/// the old one, and a quiet meta command that changed something may say as much as one that did not: nothing.
pub(super) const fn may_have_changed(status: Status) -> bool {
    !matches!(
        status,
        Status::NotStored
            | Status::Exists
            | Status::NotFound
            | Status::MetaMiss
            | Status::MetaNotDone
            | Status::Error
            | Status::ClientError
    )
}
