//! Keys that another replica than the decider did not have, asked for again.
//!
//! After a write that the decider decided it may be the only one that has the key (`follow.rs`). So what a multi-get did not find elsewhere
//! is asked of the deciders in a second step, one message for each; a key that nobody has costs that step, too. A decider that is down
//! or full is not asked: the miss stands, as it does for a get of one key that another replica was asked for.
//!
//! What a decider missed that may have come back empty (`emptied.rs`) is asked of another in the same way.
//!
//! A session that has sent a change behind its multi-get (a write, and what else may change an item: `gat`, `mg` with `N` or `T`) is not
//! asked for again: the second message would come after that change, and the client would read what it did later.

use crate::{
    Dataplane,
    clients::outbox::SharedBytes,
    replication::fleet::Fleet,
    replication::readers::Readers,
    requests::Requests,
    requests::base::Base,
    requests::gather::Gather,
    servers::backend::{NewPart, RequestKey},
    wire::names::Names,
};
use weir_protocol::{Expected, ValueSpan};
use weir_routing::REPLICAS_MAX;
use weir_timing::Instant;

/// A key that one server did not have and its decider did.
pub(crate) struct Found<'a> {
    pub(crate) name: &'a [u8],
    /// Length of the value, with its line.
    pub(crate) block_len: usize,
}

/// What a gather keeps to ask a second time.
#[derive(Debug, Default)]
pub(crate) struct Again {
    /// All keys of the request, each after its length; nothing if they are not asked for again.
    names: Vec<u8>,
    /// How many changes the session had sent when this was sent.
    changes_before: u64,
    /// The table by which it was sent. Another one's servers are asked for nothing of it.
    generation: u64,
    /// Which keys are asked for again, in order.
    positions: Vec<usize>,
    /// Of whom, and what they answered. There is one once it was needed.
    gather: Option<Box<Gather>>,
    /// How many of the keys are merged.
    merged: usize,
    /// They are to come with their tokens.
    with_tokens: bool,
    /// A doubted server that had missed some of them, and how many.
    doubted: Option<usize>,
    of_doubted: u32,
}

impl Dataplane {
    /// A multi-get has all its parts: asks the deciders for what others did not have. Returns whether there is anything to wait for.
    pub(crate) fn ask_again(&mut self, key: RequestKey, now: Instant) -> bool {
        let generation = self.base.fleet.generation();
        let Self {
            base:
                Base {
                    clients,
                    fleet: Fleet { routes: router, servers: backends, replicas: copies, config, .. },
                    meter,
                    ..
                },
            requests: Requests { services, .. },
            ..
        } = self;
        let service = &mut services[key];
        let session = &clients[service.session];
        let begun = service.begun();
        let Some(gather) = service.gather.as_deref_mut().filter(|_| !service.error && !session.is_gone())
        else {
            return false;
        };
        let Again { names, changes_before, .. } = &gather.again;
        let is_old = gather.again.generation != generation;
        let is_late = begun.deadline(config.timeout_ns, false) <= now;
        if names.is_empty()
            || *changes_before != session.changes()
            || gather.again.is_under_way()
            || is_late
            || is_old
        {
            return false;
        }
        let readers = Readers { servers: backends, replicas: copies };
        let mut again = std::mem::take(&mut gather.again);
        let mut names = Names(&again.names);
        let mut second = again.gather.take().unwrap_or_default();
        let mut position = 0;
        gather.for_each_key(|part, was_found| {
            let name = names.next().expect("every key has its name");
            if !was_found && part.answered {
                let mut replicas = [0; REPLICAS_MAX];
                let count = router.replicas_of(name, &mut replicas);
                if let Some(server) = readers.next_for_miss(&replicas[..count], part.server) {
                    again.positions.push(position);
                    second.assign(server);
                    if copies.is_doubted(part.server) {
                        again.doubted = Some(part.server);
                        again.of_doubted += 1;
                    }
                }
            }
            position += 1;
        });
        for (index, server) in second.asked() {
            let (request, created) = (Some(key), begun);
            let part = NewPart { request, expected: Expected::Retrieval, decides: true, index, created };
            backends[server].begin_message(part, config, now);
            backends[server].message().extend_from_slice(if again.with_tokens { b"gets" } else { b"get" });
            service.outstanding += 1;
        }
        let (mut names, mut next) = (Names(&again.names), 0);
        for (&position, server) in again.positions.iter().zip(second.owners().flatten()) {
            let name = names.nth(position - next).expect("every key has its name");
            next = position + 1;
            backends[server].push_key(name);
        }
        for (_, server) in second.asked() {
            backends[server].message().extend_from_slice(b"\r\n");
            backends[server].finish_message();
        }
        meter.counters().keys_asked_again += again.positions.len() as u64;
        again.gather = Some(second);
        gather.again = again;
        service.following |= service.outstanding > 0;
        service.outstanding > 0
    }
}

impl Again {
    /// Forgets the last request.
    pub(crate) fn clear(&mut self) {
        self.names.clear();
        self.positions.clear();
        self.merged = 0;
        self.with_tokens = false;
        (self.doubted, self.of_doubted) = (None, 0);
        if let Some(gather) = &mut self.gather {
            gather.clear();
        }
    }

    /// How much memory it keeps, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        let gather = self.gather.as_ref().map_or(0, |gather| gather.capacity());
        self.names.capacity() + self.positions.capacity() * size_of::<usize>() + gather
    }

    /// These keys may be asked for again as long as the session has sent no more than so many changes.
    pub(crate) fn allow<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a [u8]>,
        changes_before: u64,
        generation: u64,
    ) {
        self.changes_before = changes_before;
        self.generation = generation;
        for key in keys {
            self.names.push(u8::try_from(key.len()).expect("the parser admits no key above 250 bytes"));
            self.names.extend_from_slice(key);
        }
    }

    /// The keys are to come with their tokens.
    pub(crate) fn show_tokens(&mut self) {
        self.with_tokens = true;
    }

    /// A doubted server that had missed keys which were asked for again, and how many there were.
    pub(crate) fn doubted(&self) -> Option<(usize, u32)> {
        Some((self.doubted?, self.of_doubted))
    }

    /// Whether keys were asked for again.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.positions.is_empty()
    }

    /// Calls `examine` for each key that the second step has found. Nothing may be merged yet.
    pub(crate) fn for_each_found(&mut self, mut examine: impl FnMut(Found<'_>)) {
        let Some(gather) = &mut self.gather else { return };
        let (mut names, mut next) = (Names(&self.names), 0);
        for (index, &position) in self.positions.iter().enumerate() {
            let name = names.nth(position - next).expect("every key has its name");
            next = position + 1;
            if let Some(block) = gather.next_block_of(index) {
                examine(Found { name, block_len: block.len() });
            }
        }
        gather.rewind();
    }

    /// How many keys of this part are asked for again.
    pub(crate) fn keys_of(&self, part: u32) -> u32 {
        self.gather.as_ref().map_or(0, |gather| gather.keys_of(part))
    }

    /// As [`Gather::reassign`].
    pub(crate) fn reassign(&mut self, part: u32, servers: &[Option<usize>]) -> u32 {
        self.gather.as_mut().expect("one of its parts was asked for").reassign(part, servers)
    }

    /// Keeps the values of one part.
    pub(crate) fn store(
        &mut self,
        part: u32,
        reply: (&[u8], Option<SharedBytes>),
        values: &[ValueSpan],
        ordinals: &[u32],
    ) {
        if let Some(gather) = &mut self.gather {
            gather.store(part, reply, values, ordinals);
        }
    }

    /// Length of the values.
    pub(crate) fn values_len(&self) -> usize {
        self.gather.as_ref().map_or(0, |gather| gather.values_len())
    }

    /// Appends the value of the key at this position of the request, if it was asked for again and is there. To be called in order.
    pub(crate) fn merge_into(&mut self, position: usize, out: &mut Vec<u8>) {
        if self.positions.get(self.merged) != Some(&position) {
            return;
        }
        let block = self.gather.as_mut().and_then(|gather| gather.next_block_of(self.merged));
        out.extend_from_slice(block.unwrap_or_default());
        self.merged += 1;
    }
}
