//! Bytes that are appended at the end and taken from the front.

/// A contiguous queue of bytes. Memory is reused when it runs empty, and given back by [`ByteQueue::give_back`].
#[derive(Debug, Default)]
pub(crate) struct ByteQueue {
    bytes: Vec<u8>,
    head: usize,
}

/// An empty buffer that keeps no more memory than this is left alone: a thousand idle peers that once were busy cost little.
pub(crate) const IDLE_BYTES_MAX: usize = 1 << 10;

/// What a buffer of this capacity keeps, but for what an idle one keeps.
#[inline]
pub(crate) const fn beyond_idle(capacity: usize) -> usize {
    if capacity > IDLE_BYTES_MAX { capacity } else { 0 }
}

/// What three buffers of these capacities keep, but for what idle ones keep. Mostly all are idle, and one comparison says so: where no
/// capacity has a bit of [`IDLE_BYTES_MAX`] or a higher one, none is larger.
#[inline]
pub(crate) fn beyond_idle_of(capacities: [usize; 3]) -> usize {
    if capacities.iter().fold(0, |bits, capacity| bits | capacity) < IDLE_BYTES_MAX {
        return 0;
    }
    capacities.into_iter().map(beyond_idle).sum()
}

/// Taken bytes are moved out of the way when there are at least this many.
const MOVED_BYTES_MIN: usize = 64 << 10;

/// Queues that are no longer than this double when they grow.
const DOUBLED_BYTES_MAX: usize = 256 << 10;

/// Appends to a buffer that, once it is long, grows by less than it would by doubling.
pub(crate) fn append_exactly(buffer: &mut Vec<u8>, bytes: &[u8]) {
    let needed = buffer.len() + bytes.len();
    if needed > buffer.capacity() && needed > DOUBLED_BYTES_MAX {
        buffer.reserve_exact(bytes.len() + buffer.len() / 8);
    }
    buffer.extend_from_slice(bytes);
}

/// Frees the memory of a buffer that is empty, unless it is small.
pub(crate) fn give_back(buffer: &mut Vec<u8>) {
    if buffer.is_empty() && buffer.capacity() > IDLE_BYTES_MAX {
        *buffer = Vec::new();
    }
}

impl From<Vec<u8>> for ByteQueue {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, head: 0 }
    }
}

impl ByteQueue {
    /// The buffer, of which nothing was taken.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        debug_assert_eq!(self.head, 0, "nothing was taken");
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.head
    }

    /// How much memory it keeps, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.head..]
    }

    /// The end, where bytes are appended.
    pub(crate) fn end(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Makes room for `count` bytes at the end. A long queue grows by less than it would by doubling: what it keeps counts against
    /// limits.
    pub(crate) fn make_room(&mut self, count: usize) {
        let needed = self.bytes.len() + count;
        if needed > self.bytes.capacity() && needed > DOUBLED_BYTES_MAX {
            self.bytes.drain(..self.head);
            self.head = 0;
            self.bytes.reserve_exact(count + self.bytes.len() / 8);
        }
    }

    /// Takes `count` bytes from the front.
    pub(crate) fn advance(&mut self, count: usize) {
        self.head += count;
        assert!(self.head <= self.bytes.len(), "no more can be taken than there is");
        if self.head == self.bytes.len() {
            self.clear();
        } else if self.head >= MOVED_BYTES_MIN && self.head > self.bytes.len() / 2 {
            // Moving the smaller half costs less than the bytes that already went through.
            self.bytes.drain(..self.head);
            self.head = 0;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.head = 0;
        self.bytes.clear();
    }

    /// Frees the memory of an empty queue, unless it is small.
    pub(crate) fn give_back(&mut self) {
        give_back(&mut self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_buffers_keep_what_each_of_them_keeps() {
        let sizes = [0, 1, 512, IDLE_BYTES_MAX - 1, IDLE_BYTES_MAX, IDLE_BYTES_MAX + 1, 4096, 1 << 20];
        for (one, other, third) in
            sizes.iter().flat_map(|one| sizes.iter().map(move |other| (*one, *other, one ^ other)))
        {
            let each = beyond_idle(one) + beyond_idle(other) + beyond_idle(third);
            assert_eq!(beyond_idle_of([one, other, third]), each, "{one}, {other}, {third}");
        }
    }

    #[test]
    fn bytes_come_out_in_the_order_in_which_they_went_in() {
        let (mut queue, mut taken, mut next) = (ByteQueue::default(), Vec::new(), 0_u32);
        for round in 0..2000_usize {
            for _ in 0..round % 97 {
                queue.end().extend_from_slice(&next.to_be_bytes());
                next += 1;
            }
            let count = queue.len().min(round % 203);
            taken.extend_from_slice(&queue.as_slice()[..count]);
            queue.advance(count);
        }
        taken.extend_from_slice(queue.as_slice());
        let expected: Vec<u8> = (0..next).flat_map(u32::to_be_bytes).collect();
        assert_eq!(taken, expected);
    }

    #[test]
    fn an_empty_queue_gives_its_memory_back_when_asked() {
        let mut queue = ByteQueue::default();
        queue.end().resize(1 << 20, 0);
        queue.advance(1 << 20);
        queue.give_back();
        assert!(queue.is_empty() && queue.bytes.capacity() <= IDLE_BYTES_MAX);
    }
}
