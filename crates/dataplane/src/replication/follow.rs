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
//! | other meta commands, a long value, or nobody knows whether it was done | `delete` |
//!
//! A follower that answers otherwise than the decider is told to forget the key, behind that and before the client is answered: a
//! missing copy is safe where another one is not.

pub(crate) mod meta;

use crate::{
    Config, Dataplane,
    replication::repair::Repair,
    replication::replicate::{CopyState, Replicated, Step},
    servers::backend::RequestKey,
    servers::message::write_message,
    wire::write::invalidation,
};
use weir_protocol::{Arithmetic, Expected, Request, Status, Storage, StorageVerb};
use weir_timing::Instant;

/// What is told.
#[derive(Debug, Default)]
pub(crate) enum Follow {
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

/// A longer message is not kept until the decider has answered; the others forget the key instead. Typical values are far shorter, and
/// what all requests in service keep stays small.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 << 10;

impl Follow {
    /// What becomes known of a conditional write.
    pub(crate) fn of(request: Request<'_>) -> Self {
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

    /// Whether one replica decides, and the others follow.
    pub(crate) const fn is_conditional(&self) -> bool {
        !matches!(self, Self::Never)
    }
}

impl Config {
    /// What the others learn of a write that one decides.
    pub(crate) fn follow(&self, request: Request<'_>) -> Follow {
        #[cfg(feature = "mutations")]
        if self.mutation == Some(crate::Mutation::MetaFollow) && matches!(request, Request::Meta(_)) {
            return Follow::Forget;
        }
        Follow::of(request)
    }
}

/// The decision is made, so what made it conditional is not said again.
fn as_decided(storage: Storage<'_>) -> Storage<'_> {
    match storage.verb {
        StorageVerb::Append | StorageVerb::Prepend => Storage { noreply: false, ..storage },
        _ => Storage { verb: StorageVerb::Set, cas: &[], noreply: false, ..storage },
    }
}

impl Dataplane {
    /// The decider did, or may have done, what was asked, and said this.
    pub(crate) fn tell_followers(
        &mut self,
        key: RequestKey,
        write: &mut Replicated,
        status: Status,
        now: Instant,
    ) {
        let follow = std::mem::replace(&mut write.follow, Follow::Forget);
        match follow {
            Follow::Message { bytes, expected } if has_done(status) => {
                self.send_to_followers(key, write, (&bytes, expected), now);
            }
            Follow::Copy => write.step = Step::Copying,
            _ => self.tell_to_forget(key, write, now),
        }
    }

    /// Nobody knows what the decider did, or the others cannot do the same: they forget the key.
    pub(crate) fn tell_to_forget(&mut self, key: RequestKey, write: &mut Replicated, now: Instant) {
        write.step = Step::Told;
        for rank in 0..write.copies.len() {
            if write.copies[rank].state == CopyState::Untold {
                write.copies[rank].state = self.forget(key, write, rank, now);
            }
        }
    }

    /// A follower has answered what the decider did. If it did something else, it forgets the key.
    pub(crate) fn compare_follower(
        &mut self,
        key: RequestKey,
        write: &mut Replicated,
        server: usize,
        (status, answer): (Status, &[u8]),
        now: Instant,
    ) -> CopyState {
        let agrees = match status {
            Status::Stored | Status::MetaDone => true,
            // `decr` may pad the number.
            Status::Number => answer.trim_ascii_end() == write.reply().trim_ascii_end(),
            // It holds nothing.
            Status::NotFound | Status::NotStored | Status::MetaNotDone => true,
            _ => false,
        };
        if agrees { CopyState::Done } else { self.forget(key, write, write.rank_of(server), now) }
    }

    /// The replica of this rank is told to forget the key.
    pub(crate) fn forget(
        &mut self,
        key: RequestKey,
        write: &mut Replicated,
        rank: usize,
        now: Instant,
    ) -> CopyState {
        let server = write.copies[rank].server;
        let (message, expected) = invalidation(write.key());
        let sent = self.send_to_copy(key, (server, expected), now, |backend| {
            write_message(message, expected, backend);
        });
        match sent {
            Ok(()) => {
                self.base.meter.counters().replicas_invalidated += 1;
                CopyState::Forgetting
            }
            Err(fault) => self.refuse_copy(write, fault, server),
        }
    }
}

/// Whether a server that says this has done what was asked.
const fn has_done(status: Status) -> bool {
    matches!(status, Status::Stored | Status::Number | Status::MetaDone)
}

/// Whether a server that says this to a write may now hold something else than before. A server without memory for a value forgets
/// the old one, and a quiet meta command that changed something may say as much as one that did not: nothing.
pub(crate) const fn may_have_changed(status: Status) -> bool {
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
