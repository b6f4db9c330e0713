//! Memory of answers that were parked, to be used again.
//!
//! In a pipeline over several servers half of the answers overtake others and wait for them; without this each of them would cost an
//! allocation.

/// Empty buffers, bounded in what they keep.
#[derive(Debug, Default)]
pub(crate) struct BufferPool {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl BufferPool {
    /// A buffer for an answer.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer
    }

    /// The answer was sent on.
    pub(crate) fn keep(&mut self, mut buffer: Vec<u8>) {
        let is_short = buffer.capacity() <= ANSWER_BYTES_MAX;
        if is_short && self.bytes + buffer.capacity() <= BYTES_MAX && self.buffers.len() < BUFFERS_MAX {
            buffer.clear();
            self.bytes += buffer.capacity();
            self.buffers.push(buffer);
        }
    }

    pub(crate) fn give_memory_back(&mut self) {
        *self = Self::default();
    }
}

/// The memory of a longer answer is given back at once.
const ANSWER_BYTES_MAX: usize = 16 << 10;

/// All together keep no more than this.
const BYTES_MAX: usize = 4 << 20;

/// More answers than this are hardly ever parked in one turn.
const BUFFERS_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_in_bytes_and_in_number() {
        let mut pool = BufferPool::default();
        pool.keep(Vec::with_capacity(ANSWER_BYTES_MAX + 1));
        assert_eq!(pool.bytes, 0);
        (0..1_000).for_each(|_| pool.keep(Vec::with_capacity(ANSWER_BYTES_MAX)));
        assert_eq!(pool.bytes, BYTES_MAX);
        pool.give_memory_back();
        (0..2 * BUFFERS_MAX).for_each(|_| pool.keep(Vec::with_capacity(8)));
        assert_eq!(pool.buffers.len(), BUFFERS_MAX);
    }

    #[test]
    fn what_is_taken_is_empty_and_its_memory_no_longer_counted() {
        let mut pool = BufferPool::default();
        pool.keep(b"STORED\r\n".to_vec());
        assert_eq!(pool.bytes, 8);
        assert_eq!((pool.take(), pool.bytes), (Vec::new(), 0));
        assert_eq!(pool.take().capacity(), 0);
    }
}
