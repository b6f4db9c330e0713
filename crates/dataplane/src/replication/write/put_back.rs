//! Copies of a key that are put back: the decider is asked, and what it holds is added where it is missing (`repair.rs`).

use super::copies::{Copies, CopyState};
use super::{Replicated, Step};
use crate::{
    WritePolicy,
    replication::courier::Courier,
    replication::follow::{Follow, MESSAGE_BYTES_MAX},
    replication::item::Item,
    replication::repair::{Repair, Repairs},
    wire::fault::Fault,
    wire::ids::Slot,
    wire::key::Echo,
};
use std::sync::Arc;
use weir_protocol::{Reply, Status};

impl Replicated {
    /// Asks `source` what it holds. No client has asked for that, so nobody hears what comes of it.
    pub(in crate::replication) fn begin_repair(
        (name, replicas): (&[u8], &[Slot]),
        source: Slot,
        repair: Repair,
        courier: &mut Courier<'_>,
    ) -> Box<Self> {
        let mut write = Box::new(Self {
            key: name.into(),
            base64: false,
            routes: Arc::clone(&courier.fleet.routes),
            copies: Copies::unsent(replicas),
            decider: source,
            policy: WritePolicy::Async,
            needed: 0,
            step: Step::Deciding,
            follow: Follow::Repair(repair),
            lock: None,
            reply: None,
            failure: None,
            is_undecided: false,
            is_answered: true,
            class: 0,
            owed: 0,
        });
        courier.send_aside(source, |backend| {
            // With the key in its reply, so that it is seen to be the reply to this.
            let message = backend.message();
            message.extend_from_slice(b"mg ");
            message.extend_from_slice(name);
            message.extend_from_slice(b" k v f t\r\n");
            backend.expect_echo(&Echo::Server { key: name.into(), base64: false });
        });
        write.owed = courier.sent();
        write
    }

    /// A server answered a message of a repair.
    pub(super) fn take_repair_reply(
        &mut self,
        server: Slot,
        (reply, bytes): (Reply, &[u8]),
        repairs: &Repairs,
        courier: &mut Courier<'_>,
    ) {
        let rank = self.copies.rank_of(server);
        self.copies[rank].state = CopyState::Done;
        if self.step == Step::Deciding {
            self.step = Step::Sent;
            match reply.status {
                Status::MetaValue => self.put_back(&bytes[..reply.answer_len], repairs, courier),
                // It is gone meanwhile.
                Status::MetaMiss => {}
                _ => courier.counters.repairs_failed += 1,
            }
        } else if server != self.decider {
            // It may hold something by now, and keeps it.
            courier.counters.reads_repaired += u64::from(reply.status == Status::MetaDone);
            courier.counters.repairs_failed += u64::from(reply.status.is_error());
        }
    }

    /// A server gave no answer to a message of a repair.
    pub(super) fn take_repair_loss(&mut self, server: Slot, fault: Fault, courier: &mut Courier<'_>) {
        courier.counters.repairs_failed += 1;
        let rank = self.copies.rank_of(server);
        // The decider was asked nothing that another replica could lack; and who was not connected to was sent nothing.
        let may_have_changed = server != self.decider && fault != Fault::Connect;
        self.copies[rank].state =
            if may_have_changed { self.miss(server, courier) } else { CopyState::Unsent };
    }

    /// The decider has said what it holds.
    fn put_back(&mut self, bytes: &[u8], repairs: &Repairs, courier: &mut Courier<'_>) {
        let Follow::Repair(repair) = &self.follow else { return };
        let is_current = !repairs.is_outdated(repair)
            && Arc::ptr_eq(&self.routes, &courier.fleet.routes)
            && courier.fleet.readers().is_readable(self.decider);
        let Some(item) = Item::parse(bytes) else {
            courier.counters.repairs_failed += 1;
            return;
        };
        if !is_current || item.value.len() > MESSAGE_BYTES_MAX {
            courier.counters.repairs_dropped += 1;
            return;
        }
        if item.has_won {
            // Who asks first for an item that is marked as stale is to fetch it anew. That is to be a client.
            courier.send_aside(self.decider, |backend| {
                let message = backend.message();
                message.extend_from_slice(b"md ");
                message.extend_from_slice(&self.key);
                message.extend_from_slice(b" I\r\n");
            });
        }
        let mut message = Vec::new();
        if item.is_marked || !item.write_add(&self.key, &mut message) {
            courier.counters.repairs_dropped += 1;
            return;
        }
        for rank in self.copies.ranks() {
            let server = self.copies[rank].server();
            if self.copies[rank].state == CopyState::Unsent && courier.fleet.readers().is_readable(server) {
                self.copies[rank].state = CopyState::Asked;
                courier.send_aside(server, |backend| backend.message().extend_from_slice(&message));
            }
        }
    }
}
