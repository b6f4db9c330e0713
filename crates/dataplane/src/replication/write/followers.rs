//! What the replicas that did not decide a write are sent, and what they answer.

use super::copies::{CopyState, Rank};
use super::{Replicated, Step};
use crate::{
    replication::courier::Courier,
    replication::follow::meta::ITEM_PART,
    replication::follow::{Follow, MESSAGE_BYTES_MAX, has_done},
    replication::item::Item,
    servers::message::write_message,
    wire::key::{Echo, WireKey},
    wire::write::invalidation,
};
use weir_protocol::{Expected, Meta, MetaVerb, Reply, Request, Status};

impl Replicated {
    /// The decider did, or may have done, what was asked, and said this.
    pub(super) fn tell_followers(&mut self, status: Status, courier: &mut Courier<'_>) {
        let follow = std::mem::replace(&mut self.follow, Follow::Forget);
        match follow {
            Follow::Message { bytes, expected } if has_done(status) => {
                self.send_to_followers((&bytes, expected), courier);
            }
            Follow::Copy => self.step = Step::Copying,
            _ => self.tell_to_forget(courier),
        }
    }

    /// Nobody knows what the decider did, or the others cannot do the same: they forget the key.
    pub(super) fn tell_to_forget(&mut self, courier: &mut Courier<'_>) {
        self.step = Step::Sent;
        // Whatever else was kept for them.
        self.follow = Follow::Forget;
        for rank in self.copies.ranks() {
            if self.copies[rank].state == CopyState::Unsent {
                self.copies[rank].state = self.forget(rank, courier);
            }
        }
    }

    /// A follower has answered what the decider did. If it did something else, it forgets the key.
    pub(super) fn compare_follower(
        &mut self,
        rank: Rank,
        (status, answer): (Status, &[u8]),
        courier: &mut Courier<'_>,
    ) -> CopyState {
        let agrees = match status {
            Status::Stored | Status::MetaDone => true,
            // `decr` may pad the number.
            Status::Number => answer.trim_ascii_end() == self.reply().trim_ascii_end(),
            // It holds nothing.
            Status::NotFound | Status::NotStored | Status::MetaNotDone => true,
            _ => false,
        };
        if agrees { CopyState::Done } else { self.forget(rank, courier) }
    }

    /// The replica of this rank is made to forget the key.
    pub(super) fn forget(&mut self, rank: Rank, courier: &mut Courier<'_>) -> CopyState {
        let server = self.copies[rank].server();
        let (message, expected) = invalidation(self.key());
        let sent = courier.send_further((server, expected, 0), |backend| {
            write_message(message, expected, backend);
        });
        match sent {
            Ok(()) => {
                courier.counters.replicas_invalidated += 1;
                CopyState::Forgetting
            }
            Err(fault) => self.refuse(server, fault, courier),
        }
    }

    /// All that were not sent it yet are sent this.
    fn send_to_followers(&mut self, (bytes, expected): (&[u8], Expected), courier: &mut Courier<'_>) {
        self.step = Step::Sent;
        for rank in self.copies.ranks() {
            let server = self.copies[rank].server();
            if self.copies[rank].state != CopyState::Unsent {
                continue;
            }
            courier.counters.replicas_followed += 1;
            let sent = courier.send_further((server, expected, 0), |backend| {
                backend.message().extend_from_slice(bytes);
            });
            self.copies[rank].state = match sent {
                Ok(()) => CopyState::Asked,
                Err(fault) => self.refuse(server, fault, courier),
            };
        }
    }

    // ── what the decider holds ─────────────────────────────────────────────────────────────────────────────────────────────

    /// Asks the decider what it will hold behind the write. To be called right after that was sent there.
    pub(super) fn ask_for_item(&self, key: WireKey<'_>, courier: &mut Courier<'_>) {
        // With the key in its reply, so that it is seen to be the reply to this; servers repeat what is in base64 in more than one way.
        let (spelling, flags) = (key.spelling(), if key.base64 { b"b v f t" } else { b"k v f t" });
        let question = Meta { verb: MetaVerb::Get, key: &spelling, flags, block: &[] };
        courier.send_first((self.decider, Expected::Meta), (false, ITEM_PART), |backend| {
            Request::Meta(question).write_to(backend.message());
            if !key.base64 {
                backend.expect_echo(&Echo::Server { key: key.bytes.into(), base64: false });
            }
        });
    }

    /// The decider has said what it holds.
    pub(super) fn copy_item(&mut self, (reply, bytes): (Reply, &[u8]), courier: &mut Courier<'_>) {
        if self.step != Step::Copying {
            // It had refused the write, or nobody knows what it did.
            return;
        }
        let item =
            if reply.status == Status::MetaValue { Item::parse(&bytes[..reply.answer_len]) } else { None };
        if item.as_ref().is_some_and(|item| item.has_won) {
            self.give_back_fetch(courier);
        }
        let mut message = Vec::new();
        let is_copied = item.is_some_and(|item| {
            !item.is_marked
                && item.value.len() <= MESSAGE_BYTES_MAX
                && item.write_set(self.key(), &mut message)
        });
        if is_copied {
            self.send_to_followers((&message, Expected::Meta), courier);
        } else {
            self.tell_to_forget(courier);
        }
    }

    /// Who asks first for an item that is marked as stale is to fetch it anew. That is to be a client.
    #[cold]
    fn give_back_fetch(&self, courier: &mut Courier<'_>) {
        let spelling = self.key().spelling();
        let flags: &[u8] = if self.key().base64 { b"b I" } else { b"I" };
        let give_back = Meta { verb: MetaVerb::Delete, key: &spelling, flags, block: &[] };
        // Where there is no room for it, the next client to ask waits for nobody: the item is stale.
        let _ = courier.send_further((self.decider, Expected::Meta, ITEM_PART), |backend| {
            Request::Meta(give_back).write_to(backend.message());
        });
    }

    /// The decider did not say what it holds; or it did, and nobody waits for that.
    pub(super) fn lose_item(&mut self, courier: &mut Courier<'_>) {
        if self.step == Step::Copying {
            self.tell_to_forget(courier);
        }
    }
}
