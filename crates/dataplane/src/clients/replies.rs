//! The replies that a client is owed, and their bytes.
//!
//! ```text
//!   order:   ┌──── in `out`, not yet in the kernel ────┬──── in service, or complete and waiting for earlier ones ────┐
//!            0                                     appended                                                        len
//! ```
//!
//! A reply is appended to `out` when all before it are there. So the first one in service goes straight from the server's bytes into the
//! client's, and only a reply that overtook another is kept aside (parked) in its request.
//!
//! [`Replies`] owns the order, the bytes, and the count of what waits elsewhere for this client. It learns what is owed, what is appended
//! and what the kernel took. It answers whose turn it is, what is to be written, and which replies are out.

use crate::{clients::outbox::Outbox, memory::buffer::beyond_idle, wire::ids::RequestKey};
use std::{collections::VecDeque, mem};
use weir_timing::Instant;

/// A reply that is owed to the client.
#[derive(Clone, Copy, Debug)]
struct Owed {
    request: RequestKey,
    /// Where in the stream to the client the reply ends, once it was appended.
    end: u64,
}

/// What one client is owed.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    order: VecDeque<Owed>,
    appended: usize,
    out: Outbox,
    out_start: u64,
    /// Bytes of replies that are complete and wait in their requests for earlier ones.
    parked_bytes: usize,
    /// Bytes of values that wait in split multi-gets for those of other servers.
    gathered_bytes: usize,
    /// The kernel took less than was offered, and this is when it took something last.
    blocked_since: Option<Instant>,
    /// It has taken less than it was offered since then, in each write, and this many bytes in all: fewer than are progress.
    slow: Option<(Instant, usize)>,
}

/// What the kernel did with the bytes that it was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// It took all.
    All,
    /// It took all, and there is more behind it: of large replies one after the other is written.
    More,
    /// It took less than it was offered.
    Blocked,
}

impl Replies {
    /// The request's reply will come after all that are owed now.
    #[inline]
    pub(crate) fn owe(&mut self, request: RequestKey) {
        self.order.push_back(Owed { request, end: 0 });
    }

    /// The request whose reply must be appended next.
    #[inline]
    pub(crate) fn next_to_append(&self) -> Option<RequestKey> {
        self.order.get(self.appended).map(|owed| owed.request)
    }

    /// Appends the reply of [`Replies::next_to_append`].
    #[inline(always)]
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Outbox)) {
        write(&mut self.out);
        let end = self.out_start + self.out.len() as u64;
        self.order[self.appended].end = end;
        self.appended += 1;
    }

    /// Appends the reply of [`Replies::next_to_append`], which had been parked.
    pub(crate) fn append_parked(&mut self, write: impl FnOnce(&mut Outbox)) {
        let before = self.out.len();
        self.append(write);
        self.parked_bytes -= self.out.len() - before;
    }

    /// Appends a part of the reply that comes next.
    pub(crate) fn append_part(&mut self, write: impl FnOnce(&mut Outbox)) {
        write(&mut self.out);
    }

    /// A reply of this many bytes waits in its request for earlier ones.
    #[inline]
    pub(crate) fn park(&mut self, bytes: usize) {
        self.parked_bytes += bytes;
    }

    /// A split multi-get keeps `now` bytes of values, and kept `before`.
    #[inline]
    pub(crate) fn gather(&mut self, before: usize, now: usize) {
        self.gathered_bytes = self.gathered_bytes + now - before;
    }

    /// `count` bytes were handed to the kernel at `now`; calls `answered` for each request whose reply is complete there. `progress_min`: how
    /// many bytes are progress.
    #[inline]
    pub(crate) fn handle_written(
        &mut self,
        (count, progress_min): (usize, usize),
        now: Instant,
        mut answered: impl FnMut(RequestKey),
    ) -> Written {
        let is_blocked = count < self.out.as_slice().len();
        self.out.advance(count);
        self.out_start += count as u64;
        while self.appended > 0 && self.order[0].end <= self.out_start {
            let owed = self.order.pop_front().expect("an appended reply is in the order");
            self.appended -= 1;
            answered(owed.request);
        }
        if is_blocked {
            if count > 0 || self.blocked_since.is_none() {
                self.blocked_since = Some(now);
            }
            let (since, taken) = self.slow.unwrap_or((now, 0));
            let taken = taken + count;
            self.slow = Some(if taken < progress_min { (since, taken) } else { (now, 0) });
            return Written::Blocked;
        }
        (self.blocked_since, self.slow) = (None, None);
        if self.out.has_pieces() { Written::More } else { Written::All }
    }

    /// The kernel takes bytes again. Returns whether it had not.
    pub(crate) fn unblock(&mut self) -> bool {
        self.blocked_since.take().is_some()
    }

    /// Whether the kernel took less than it was offered, and has not said that it takes more.
    #[inline]
    pub(crate) const fn is_blocked(&self) -> bool {
        self.blocked_since.is_some()
    }

    /// When the kernel took something last, if it does not take more now.
    pub(crate) const fn blocked_since(&self) -> Option<Instant> {
        self.blocked_since
    }

    /// Since when its client has taken too little to be called progress, if it does not take more now.
    pub(crate) fn slow_since(&self) -> Option<Instant> {
        self.slow.filter(|_| self.is_blocked()).map(|(since, _)| since)
    }

    /// What is to be written next.
    #[inline(always)]
    pub(crate) fn output(&self) -> &[u8] {
        self.out.as_slice()
    }

    /// Whether nothing is to be written.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// How many replies are among the bytes for the client.
    #[inline]
    pub(crate) const fn appended(&self) -> usize {
        self.appended
    }

    /// Bytes that wait for this client.
    #[inline]
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.out.len() + self.parked_bytes + self.gathered_bytes
    }

    /// The memory that is kept for it, but for what an idle client keeps.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        beyond_idle(self.out.capacity()) + self.parked_bytes + self.gathered_bytes
    }

    /// Drops what waits for the client, and hands out every request that is owed a reply, with whether that reply was already appended.
    pub(crate) fn abandon(&mut self, mut orphaned: impl FnMut(RequestKey, bool)) {
        self.out = Outbox::default();
        for (index, owed) in self.order.drain(..).enumerate() {
            orphaned(owed.request, index < self.appended);
        }
        self.appended = 0;
    }

    /// Hands out the bytes that were not written.
    pub(crate) fn take_unsent(&mut self) -> Outbox {
        mem::take(&mut self.out)
    }

    /// Frees the memory of the bytes, if there are none.
    pub(crate) fn give_bytes_back(&mut self) {
        self.out.give_back();
    }

    /// Frees the memory of what is empty.
    pub(crate) fn give_memory_back(&mut self) {
        self.out.give_back();
        if self.order.is_empty() {
            self.order = VecDeque::new();
        }
    }

    /// How much memory the bytes take: for tests.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.out.capacity()
    }
}
