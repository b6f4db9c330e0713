//! A split multi-get: which key went to which server, and the values that came back, until they are merged in the order of
//! the request.

use crate::{
    clients::outbox::{Outbox, SharedBytes},
    requests::again::Again,
    wire::ids::Slot,
};
use std::ops::Range;
use weir_protocol::ValueSpan;

/// Parts of one multi-get. Kept and used again, so that a split costs no allocation in steady state.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    /// For each key of the request the part that it belongs to.
    owners: Vec<u32>,
    parts: Vec<GatherPart>,
    /// How many of `parts` belong to this request; the others only keep their memory.
    used: usize,
    /// For each server one more than the number of its part, or 0.
    part_of: Vec<u32>,
    /// Keys that are asked for a second time.
    pub(super) again: Again,
}

#[derive(Debug)]
pub(crate) struct GatherPart {
    pub(super) server: Slot,
    /// How many keys belong to it.
    keys: u32,
    /// Its server cannot be asked.
    left_out: bool,
    /// Its reply is there.
    pub(super) answered: bool,
    /// The blocks of the values, one after the other; empty where they are `large`.
    bytes: Vec<u8>,
    /// The same, where they are kept as they came.
    large: Option<SharedBytes>,
    /// For each value its position among the keys of the part, and where its block ends in `bytes`.
    blocks: Vec<(u32, usize)>,
    /// How far it is merged.
    cursor: Cursor,
}

/// How far the merge is in one part.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    key: u32,
    block: usize,
    start: usize,
}

impl GatherPart {
    /// The part of this server, without keys yet.
    fn of(server: Slot) -> Self {
        Self {
            server,
            keys: 0,
            left_out: false,
            answered: false,
            bytes: Vec::new(),
            large: None,
            blocks: Vec::new(),
            cursor: Cursor::default(),
        }
    }
}

impl Gather {
    /// Forgets the last request.
    pub(crate) fn clear(&mut self) {
        self.owners.clear();
        for part in &mut self.parts[..self.used] {
            self.part_of[part.server.index()] = 0;
            (part.keys, part.left_out, part.answered) = (0, false, false);
            part.cursor = Cursor::default();
            part.bytes.clear();
            part.large = None;
            part.blocks.clear();
        }
        self.used = 0;
        self.again.clear();
    }

    /// How much memory it keeps, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        let parts = self.parts.iter();
        let kept =
            parts.map(|part| part.bytes.capacity() + part.blocks.capacity() * size_of::<(u32, usize)>());
        let words = self.owners.capacity() + self.part_of.capacity();
        kept.sum::<usize>() + words * size_of::<u32>() + self.again.capacity()
    }

    /// The next key of the request goes to `server`.
    pub(crate) fn assign(&mut self, server: Slot) {
        if self.part_of.get(server.index()).is_none_or(|&part| part == 0) {
            self.add_part(server);
        }
        let part = self.part_of[server.index()] - 1;
        self.parts[part as usize].keys += 1;
        self.owners.push(part);
    }

    fn add_part(&mut self, server: Slot) {
        if self.used == self.parts.len() {
            self.parts.push(GatherPart::of(server));
        }
        if self.part_of.len() <= server.index() {
            self.part_of.resize(server.index() + 1, 0);
        }
        self.parts[self.used].server = server;
        self.used += 1;
        self.part_of[server.index()] =
            u32::try_from(self.used).expect("each server is asked a few times at most");
    }

    /// The server of this part cannot be asked.
    pub(crate) fn leave_out(&mut self, part: u32) {
        self.parts[part as usize].left_out = true;
    }

    /// For each key of the request the server that is asked for it, if one is.
    pub(crate) fn owners(&self) -> impl Iterator<Item = Option<Slot>> {
        let parts = self.owners.iter().map(|&part| &self.parts[part as usize]);
        parts.map(|part| (!part.left_out).then_some(part.server))
    }

    /// The parts that are asked for, by number, and their servers.
    pub(crate) fn asked(&self) -> impl Iterator<Item = (u32, Slot)> {
        let parts = (0..).zip(&self.parts[..self.used]);
        parts.filter(|(_, part)| !part.left_out).map(|(index, part)| (index, part.server))
    }

    /// Other servers are asked for the parts. No two of them may become one.
    pub(crate) fn redirect(&mut self, to: impl Fn(Slot) -> Slot) {
        for part in &mut self.parts[..self.used] {
            let server = to(part.server);
            let number = std::mem::take(&mut self.part_of[part.server.index()]);
            if self.part_of.len() <= server.index() {
                self.part_of.resize(server.index() + 1, 0);
            }
            self.part_of[server.index()] = number;
            part.server = server;
        }
    }

    pub(crate) fn part_count(&self) -> u32 {
        u32::try_from(self.used).expect("each server is asked a few times at most")
    }

    pub(crate) fn server_of(&self, part: u32) -> Slot {
        self.parts[part as usize].server
    }

    /// How many keys belong to this part: of those that are being asked for.
    pub(crate) fn keys_of(&self, part: u32) -> u32 {
        if self.again.is_under_way() { self.again.keys_of(part) } else { self.parts[part as usize].keys }
    }

    /// The keys of this part, in their order, go to new parts for these servers, which are numbered from the returned one on in the
    /// order in which servers come first. A key without a server stays. To be done before anything of the part was stored.
    pub(crate) fn reassign(&mut self, part: u32, servers: &[Option<Slot>]) -> u32 {
        if self.again.is_under_way() {
            return self.again.reassign(part, servers);
        }
        let first = self.used;
        let positions: Vec<_> = (0..self.owners.len()).filter(|&key| self.owners[key] == part).collect();
        for (position, server) in positions.into_iter().zip(servers) {
            let Some(server) = *server else { continue };
            let known = (first..self.used).find(|&index| self.parts[index].server == server);
            let index = known.unwrap_or_else(|| {
                self.add_part(server);
                self.used - 1
            });
            self.parts[part as usize].keys -= 1;
            self.parts[index].keys += 1;
            self.owners[position] = u32::try_from(index).expect("each server is asked a few times at most");
        }
        u32::try_from(first).expect("each server is asked a few times at most")
    }

    /// Keeps the values of one part's reply. `ordinals` are their positions among the keys of the part.
    pub(crate) fn store(
        &mut self,
        part: u32,
        (reply, large): (&[u8], Option<SharedBytes>),
        values: &[ValueSpan],
        ordinals: &[u32],
    ) {
        if self.again.is_under_way() {
            return self.again.store(part, (reply, large), values, ordinals);
        }
        let part = &mut self.parts[part as usize];
        part.answered = true;
        let (Some(first), Some(last)) = (values.first(), values.last()) else { return };
        // Nothing stands between the values of a reply.
        let start = first.block.start;
        match large {
            Some(large) => part.large = Some(large.part(start..last.block.end)),
            None => part.bytes.extend_from_slice(&reply[start..last.block.end]),
        }
        let ends = values.iter().map(|value| value.block.end - start);
        part.blocks.extend(ordinals.iter().copied().zip(ends));
    }

    /// Calls `examine` for each key with its part, and whether that part's reply has a value of it.
    pub(crate) fn for_each_key(&mut self, mut examine: impl FnMut(&GatherPart, bool)) {
        for position in 0..self.owners.len() {
            let was_found = self.next_block_of(position).is_some();
            examine(&self.parts[self.owners[position] as usize], was_found);
        }
        self.rewind();
    }

    /// Blocks are asked for from the first key on again.
    pub(crate) fn rewind(&mut self) {
        self.parts[..self.used].iter_mut().for_each(|part| part.cursor = Cursor::default());
    }

    /// Length of the values.
    #[inline]
    pub(crate) fn values_len(&self) -> usize {
        self.parts[..self.used].iter().map(|part| part.as_slice().len()).sum()
    }

    /// Length of the merged reply.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.values_len() + self.again.values_len() + b"END\r\n".len()
    }

    /// Calls `each` with the blocks of the values, one behind the other, of each part.
    pub(crate) fn for_each_blocks(&self, each: &mut dyn FnMut(&[u8])) {
        self.parts[..self.used].iter().for_each(|part| each(part.as_slice()));
        self.again.for_each_blocks(each);
    }

    /// Appends the whole reply: the values in the order of the keys in the request, and `END`. To be done once.
    pub(crate) fn merge_into(&mut self, out: &mut Outbox) {
        self.merge(out, END);
    }

    /// The same without `END`.
    pub(crate) fn merge_values_into(&mut self, out: &mut Outbox) {
        self.merge(out, b"");
    }

    #[inline(always)]
    fn merge(&mut self, out: &mut Outbox, end: &[u8]) {
        if self.parts[..self.used].iter().any(|part| part.large.is_some()) {
            return self.merge_pieces_into(out, end);
        }
        out.append(self.len(), |out| {
            for position in 0..self.owners.len() {
                match self.next_block_of(position) {
                    Some(block) => out.extend_from_slice(block),
                    None => self.again.merge_into(position, out),
                }
            }
            out.extend_from_slice(end);
        });
    }

    /// The same, without a copy of large values.
    #[cold]
    fn merge_pieces_into(&mut self, out: &mut Outbox, end: &[u8]) {
        for position in 0..self.owners.len() {
            let Some((part, block)) = self.next_span_of(position) else {
                out.append(0, |out| self.again.merge_into(position, out));
                continue;
            };
            match &self.parts[part].large {
                Some(large) => out.push(large.part(block)),
                None => {
                    let bytes = &self.parts[part].bytes[block];
                    out.append(bytes.len(), |out| out.extend_from_slice(bytes));
                }
            }
        }
        out.append(end.len(), |out| out.extend_from_slice(end));
    }

    /// The value of the key at this position, if its part has one. To be asked for in order.
    #[inline(always)]
    pub(crate) fn next_block_of(&mut self, position: usize) -> Option<&[u8]> {
        let (part, block) = self.next_span_of(position)?;
        Some(&self.parts[part].as_slice()[block])
    }

    /// The same, as its part and where it lies in that part's bytes.
    #[inline]
    fn next_span_of(&mut self, position: usize) -> Option<(usize, Range<usize>)> {
        let part = self.owners[position] as usize;
        let GatherPart { blocks, cursor, .. } = &mut self.parts[part];
        let next = blocks.get(cursor.block).filter(|(ordinal, _)| *ordinal == cursor.key);
        cursor.key += 1;
        let &(_, end) = next?;
        let start = std::mem::replace(&mut cursor.start, end);
        cursor.block += 1;
        Some((part, start..end))
    }
}

impl GatherPart {
    #[inline]
    fn as_slice(&self) -> &[u8] {
        self.large.as_ref().map_or(self.bytes.as_slice(), SharedBytes::as_slice)
    }
}

const END: &[u8] = b"END\r\n";
