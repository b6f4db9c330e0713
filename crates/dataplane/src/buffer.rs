//! Bytes that are appended at the end and taken from the front.

/// A contiguous queue of bytes. Memory is reused when it runs empty and given back when it had grown large.
#[derive(Debug, Default)]
pub(crate) struct ByteQueue {
    bytes: Vec<u8>,
    head: usize,
}

/// An empty queue keeps no more memory than this, so that a thousand idle peers that once were busy cost little.
const IDLE_BYTES_MAX: usize = 64 << 10;

impl ByteQueue {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.head
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

    /// Takes `count` bytes from the front.
    pub(crate) fn advance(&mut self, count: usize) {
        self.head += count;
        assert!(self.head <= self.bytes.len(), "no more can be taken than there is");
        if self.head == self.bytes.len() {
            self.clear();
        } else if self.head >= IDLE_BYTES_MAX && self.head > self.bytes.len() / 2 {
            // Moving the smaller half costs less than the bytes that already went through.
            self.bytes.drain(..self.head);
            self.head = 0;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.head = 0;
        self.bytes.clear();
        if self.bytes.capacity() > IDLE_BYTES_MAX {
            self.bytes = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn an_empty_queue_gives_its_memory_back() {
        let mut queue = ByteQueue::default();
        queue.end().resize(1 << 20, 0);
        queue.advance(1 << 20);
        assert!(queue.is_empty() && queue.bytes.capacity() <= IDLE_BYTES_MAX);
    }
}
