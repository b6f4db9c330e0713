//! Bytes for one client, in their order: copies of small replies in one buffer, and large replies where they came.
//!
//! ```text
//!   [ queue: copied bytes ] [ piece ] [ piece ] …      a piece is a part of a server's reply that is kept for it, or copied bytes behind one
//! ```
//!
//! A large reply is not copied from what was read of its server: the client's bytes keep hold of it, and let it go when the kernel has it. So
//! no turn copies megabytes, and they are in memory once. It is asked for the bytes that are to be written next, and how many there are.

use crate::memory::buffer::ByteQueue;
use std::{collections::VecDeque, ops::Range, sync::Arc};

/// Replies that are shorter than this are copied. One read of a server brings as much.
pub(crate) const LARGE_REPLY_BYTES: usize = 256 << 10;

/// A block of a large reply that is shorter than this is copied: a call to the kernel costs more.
const BLOCK_BYTES_MIN: usize = 32 << 10;

/// A part of what was read of a server.
#[derive(Clone, Debug)]
pub(crate) struct SharedBytes {
    bytes: Arc<Vec<u8>>,
    range: Range<usize>,
}

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: ByteQueue,
    /// What stands behind the queue; rarely anything.
    pieces: VecDeque<Piece>,
    piece_bytes: usize,
    /// How many bytes of the first piece were taken: its memory is not free before all are.
    taken: usize,
}

#[derive(Debug)]
enum Piece {
    Shared(SharedBytes),
    Copied(ByteQueue),
}

impl SharedBytes {
    /// The part of `all` that `part` is, if it is one and large.
    pub(crate) fn of(all: &Arc<Vec<u8>>, part: &[u8]) -> Option<Self> {
        let start = part.as_ptr().addr().checked_sub(all.as_ptr().addr())?;
        let range = start..start.checked_add(part.len())?;
        let is_large_part = part.len() >= LARGE_REPLY_BYTES && range.end <= all.len();
        is_large_part.then(|| Self { bytes: Arc::clone(all), range })
    }

    /// A part of it.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        let range = self.range.start + range.start..self.range.start + range.end;
        debug_assert!(range.end <= self.range.end, "it is a part of it");
        Self { bytes: Arc::clone(&self.bytes), range }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }
}

impl From<Vec<u8>> for Outbox {
    fn from(bytes: Vec<u8>) -> Self {
        Self { queue: bytes.into(), ..Self::default() }
    }
}

impl Piece {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Shared(shared) => shared.as_slice(),
            Self::Copied(queue) => queue.as_slice(),
        }
    }
}

impl Outbox {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.queue.len() + self.piece_bytes
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.pieces.is_empty()
    }

    /// Whether more than one write is needed, however much the kernel takes.
    #[inline]
    pub(crate) fn has_pieces(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// How much memory it keeps, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.queue.capacity() + self.piece_bytes + self.taken
    }

    /// What is to be written next: all, unless there are pieces.
    #[inline(always)]
    pub(crate) fn as_slice(&self) -> &[u8] {
        if !self.pieces.is_empty() && self.queue.is_empty() {
            return self.pieces[0].as_slice();
        }
        self.queue.as_slice()
    }

    /// Takes `count` bytes from the front of [`Outbox::as_slice`].
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        if !self.pieces.is_empty() && self.queue.is_empty() {
            return self.advance_pieces(count);
        }
        self.queue.advance(count);
    }

    #[cold]
    fn advance_pieces(&mut self, count: usize) {
        // The memory of large replies was given by itself; a queue that was large once should not keep what it has.
        self.queue.give_back();
        let Some(first) = self.pieces.front_mut() else { return };
        match first {
            Piece::Shared(shared) => shared.range.start += count,
            Piece::Copied(queue) => queue.advance(count),
        }
        self.piece_bytes -= count;
        self.taken += count;
        if first.as_slice().is_empty() {
            self.pieces.pop_front();
            self.taken = 0;
        }
    }

    /// Appends what `write` appends, of which there are `len` bytes.
    #[inline(always)]
    pub(crate) fn append(&mut self, len: usize, write: impl FnOnce(&mut Vec<u8>)) {
        if !self.pieces.is_empty() {
            return self.append_behind(len, write);
        }
        self.queue.make_room(len);
        write(self.queue.end());
    }

    #[cold]
    fn append_behind(&mut self, len: usize, write: impl FnOnce(&mut Vec<u8>)) {
        let queue = self.last_copied();
        queue.make_room(len);
        let before = queue.len();
        write(queue.end());
        let appended = queue.len() - before;
        self.note_appended(appended);
    }

    fn note_appended(&mut self, count: usize) {
        self.piece_bytes += count;
        // An empty piece would look as if there were nothing to write.
        if self.pieces.back().is_some_and(|last| last.as_slice().is_empty()) {
            self.pieces.pop_back();
        }
    }

    fn last_copied(&mut self) -> &mut ByteQueue {
        if matches!(self.pieces.back(), Some(Piece::Shared(_))) {
            self.pieces.push_back(Piece::Copied(ByteQueue::default()));
        }
        match self.pieces.back_mut() {
            Some(Piece::Copied(queue)) => queue,
            _ => &mut self.queue,
        }
    }

    /// Appends these bytes without a copy.
    pub(crate) fn push(&mut self, bytes: SharedBytes) {
        if bytes.range.len() < BLOCK_BYTES_MIN {
            return self.append(bytes.range.len(), |out| out.extend_from_slice(bytes.as_slice()));
        }
        self.piece_bytes += bytes.range.len();
        self.pieces.push_back(Piece::Shared(bytes));
    }

    /// Appends all of another one.
    pub(crate) fn append_all(&mut self, other: Self) {
        let copied = other.queue.as_slice();
        self.append(copied.len(), |out| out.extend_from_slice(copied));
        for piece in other.pieces {
            match piece {
                Piece::Shared(shared) => self.push(shared),
                Piece::Copied(queue) => {
                    self.append(queue.len(), |out| out.extend_from_slice(queue.as_slice()));
                }
            }
        }
    }

    /// The bytes themselves, if all are copies.
    pub(crate) fn into_copied(self) -> Result<Vec<u8>, Box<Self>> {
        if self.pieces.is_empty() { Ok(self.queue.into_bytes()) } else { Err(Box::new(self)) }
    }

    /// Frees the memory of an empty queue, unless it is small.
    pub(crate) fn give_back(&mut self) {
        self.queue.give_back();
        if self.pieces.is_empty() {
            self.pieces = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_and_large_replies_come_out_in_the_order_in_which_they_went_in() {
        let large: Vec<u8> = (0..600_000_u32).flat_map(u32::to_le_bytes).collect();
        let all = Arc::new(large.clone());
        let shared = SharedBytes::of(&all, &all[100..2_000_000]).expect("it is a part");
        assert!(SharedBytes::of(&all, &large[100..2_000_000]).is_none(), "another's bytes");
        let mut outbox = Outbox::default();
        let mut expected = Vec::new();
        let mut append = |outbox: &mut Outbox, bytes: &[u8]| {
            outbox.append(bytes.len(), |out| out.extend_from_slice(bytes));
            expected.extend_from_slice(bytes);
        };
        append(&mut outbox, b"first ");
        outbox.push(shared.clone());
        append(&mut outbox, b"");
        assert_eq!(outbox.pieces.len(), 1, "an empty piece would end the writing");
        let mut expected = [expected, large[100..2_000_000].to_vec()].concat();
        outbox.append(7, |out| out.extend_from_slice(b"between"));
        outbox.push(shared.part(1000..1_000_000));
        outbox.push(shared.part(5..9));
        expected.extend_from_slice(b"between");
        expected.extend_from_slice(&large[1100..1_000_100]);
        expected.extend_from_slice(&large[105..109]);
        assert_eq!((outbox.len(), outbox.capacity() >= expected.len()), (expected.len(), true));
        let mut taken = Vec::new();
        for step in (1..).map(|step| step * 997) {
            let count = outbox.as_slice().len().min(step);
            taken.extend_from_slice(&outbox.as_slice()[..count]);
            outbox.advance(count);
            if outbox.is_empty() {
                break;
            }
        }
        assert!(taken == expected);
        drop(shared);
        assert_eq!(Arc::strong_count(&all), 1, "nothing is kept");
        outbox.append(1, |out| out.push(b'x'));
        assert_eq!(outbox.as_slice(), b"x");
    }
}
