//! What a multi-get keeps to ask a second time (`second_step.rs`).
//!
//! [`Again`] owns the names of the keys, which of them are asked for again, of whom, and what came of it.

use crate::{clients::outbox::SharedBytes, requests::gather::Gather, wire::ids::Slot, wire::names::Names};
use weir_protocol::{RetrievalVerb, ValueSpan};

/// A key that one server did not have and its decider did.
pub(crate) struct Found<'a> {
    pub(super) name: &'a [u8],
    /// Length of the value, with its line.
    pub(super) block_len: usize,
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
    doubted: Option<Slot>,
    of_doubted: u32,
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

    /// These keys may be asked for again as long as the session has sent no more than this many changes.
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
    pub(crate) fn doubted(&self) -> Option<(Slot, u32)> {
        Some((self.doubted?, self.of_doubted))
    }

    /// Whether keys may be asked for again now, of a session that has sent this many changes.
    pub(crate) fn may_begin(&self, changes: u64, generation: u64) -> bool {
        let is_allowed = !self.names.is_empty() && !self.is_under_way();
        is_allowed && self.changes_before == changes && self.generation == generation
    }

    /// Chooses of whom to ask for what was not found. `whom` says it for a key that this server did not have, and whether that server is
    /// doubted.
    pub(crate) fn choose(
        &mut self,
        first: &mut Gather,
        mut whom: impl FnMut(&[u8], Slot) -> Option<(Slot, bool)>,
    ) {
        let Self { names, positions, gather: second, doubted, of_doubted, .. } = self;
        let second = second.get_or_insert_default();
        let mut names = Names(names);
        let mut position = 0;
        first.for_each_key(|part, was_found| {
            let name = names.next().expect("every key has its name");
            if !was_found
                && part.answered
                && let Some((server, is_doubted)) = whom(name, part.server)
            {
                second.assign(server);
                positions.push(position);
                if is_doubted {
                    *doubted = Some(part.server);
                    *of_doubted += 1;
                }
            }
            position += 1;
        });
    }

    /// The word with which keys are asked for again.
    pub(crate) const fn verb(&self) -> RetrievalVerb {
        if self.with_tokens { RetrievalVerb::Gets } else { RetrievalVerb::Get }
    }

    /// The parts that are asked for, by number, and their servers.
    pub(crate) fn asked(&self) -> impl Iterator<Item = (u32, Slot)> {
        self.gather.iter().flat_map(|gather| gather.asked())
    }

    /// The keys that are asked for, and of whom, in order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = (&[u8], Slot)> {
        let (mut names, mut next) = (Names(&self.names), 0);
        let owners = self.gather.iter().flat_map(|gather| gather.owners()).flatten();
        self.positions.iter().zip(owners).map(move |(&position, server)| {
            let name = names.nth(position - next).expect("every key has its name");
            next = position + 1;
            (name, server)
        })
    }

    /// How many keys are asked for again.
    pub(crate) fn key_count(&self) -> usize {
        self.positions.len()
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
    pub(crate) fn reassign(&mut self, part: u32, servers: &[Option<Slot>]) -> u32 {
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

    /// Calls `each` with the blocks of the values that were asked for again.
    pub(crate) fn for_each_blocks(&self, each: &mut dyn FnMut(&[u8])) {
        if let Some(gather) = &self.gather {
            gather.for_each_blocks(each);
        }
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
