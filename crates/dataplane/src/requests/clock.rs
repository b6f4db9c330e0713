//! The times of one request, from its first byte to its answer (`weir_timing::Stamps`), and which of them a moment is.
//!
//! ```text
//!   first byte ▶ created ▶ enqueued ▶ dequeued ▶ first sent ▶ forwarded ▶ received ▶ answered
//!                └── a driver's own queue, or those of servers ──┘        └ what follows a first step is a part of this
//! ```
//!
//! [`Clock`] owns the stamps. It learns what happens; it answers when the request began, and what is to be recorded.

use crate::{clients::taken::Taken, servers::begun::Begun};
use weir_timing::{Instant, Stamps};

/// When each thing happened to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    stamps: Stamps,
    /// It was its turn then, and not when it was created (`servers/begun.rs`).
    turn: Option<Instant>,
    /// Something of the request was handed to the kernel.
    is_first_sent: bool,
    /// One has decided, and the followers are being sent the outcome; or others have answered, and the deciders are being asked. That is
    /// part of the time at the servers.
    is_following: bool,
    /// It waited in a queue of the driver's, which says when it was taken from there.
    was_queued: bool,
}

impl Clock {
    /// It began then.
    #[inline]
    pub(crate) const fn at(now: Instant) -> Self {
        Self::of(Stamps::at(now))
    }

    /// The read that brought its first byte returned at `first_byte`, and it was complete at `now`.
    #[inline]
    pub(crate) const fn begun(first_byte: Instant, now: Instant) -> Self {
        Self::of(Stamps { first_byte, ..Stamps::at(now) })
    }

    #[inline]
    const fn of(stamps: Stamps) -> Self {
        Self { stamps, turn: None, is_first_sent: false, is_following: false, was_queued: false }
    }

    /// The driver has read it, and stamped it: one that has waited behind its own client's others in the driver's hands has its turn when
    /// it is put into the driver's queue. What came by mail waits in the queues of the servers, as if it had been read here.
    pub(crate) fn adopt(&mut self, taken: Taken, is_mail: bool) {
        let Taken { first_byte, created, enqueued, dequeued, .. } = taken;
        self.stamps = Stamps { first_byte, created, enqueued, ..Stamps::at(dequeued) };
        self.was_queued = !is_mail;
        self.turn = Some(enqueued).filter(|_| !is_mail);
    }

    /// It has waited for its key, and now it is its turn.
    pub(crate) const fn end_wait(&mut self, now: Instant) {
        self.turn = Some(now);
    }

    /// Whether its time is up.
    pub(crate) fn is_overdue(&self, timeout_ns: u64, now: Instant) -> bool {
        self.begun_at().deadline(timeout_ns, false) <= now
    }

    /// From when its deadline runs.
    #[inline]
    pub(crate) fn begun_at(&self) -> Begun {
        match self.turn {
            Some(turn) => Begun::in_turn(self.stamps.created, turn),
            None => Begun::at(self.stamps.created),
        }
    }

    /// It was complete then.
    pub(crate) const fn created(&self) -> Instant {
        self.stamps.created
    }

    /// Its time counts from then on: it has waited before for something outside of its control.
    pub(crate) fn set_created(&mut self, created: Instant) {
        self.stamps.created = created;
    }

    /// When its first byte was read.
    pub(crate) const fn first_byte(&self) -> Instant {
        self.stamps.first_byte
    }

    /// A message of it left the queue of a server, and `queue_length` had left before it. Returns how many that were, or 0 if the request
    /// has waited in a queue of the driver's.
    #[inline]
    pub(crate) fn dequeue(&mut self, queue_length: u64, now: Instant) -> u64 {
        if self.was_queued {
            // A queue of the driver's is the one that it waited in.
            return 0;
        }
        if !self.is_following {
            self.stamps.dequeued = now;
        }
        queue_length
    }

    /// A message of it was handed to the kernel.
    #[inline]
    pub(crate) fn forward(&mut self, now: Instant) {
        if !self.is_first_sent {
            self.is_first_sent = true;
            self.stamps.first_sent = now;
        }
        if !self.is_following {
            self.stamps.forwarded = now;
        }
    }

    /// Servers are asked for more because of what others have answered.
    pub(crate) fn begin_second_step(&mut self) {
        self.is_following = true;
    }

    /// They are asked for what others did not answer: what was sent first is a part of the time at the servers.
    pub(crate) fn begin_second_try(&mut self) {
        self.is_following |= self.is_first_sent;
    }

    /// All that it needs is there.
    #[inline]
    pub(crate) fn receive(&mut self, now: Instant) {
        self.stamps.received = now;
    }

    /// The last byte of its reply was handed to the kernel.
    #[inline]
    pub(crate) fn answer(&mut self, now: Instant) {
        self.stamps.answered = now;
    }

    /// When something of it was sent first, if anything was.
    pub(crate) fn first_sent(&self) -> Option<Instant> {
        self.is_first_sent.then_some(self.stamps.first_sent)
    }

    /// All of them.
    #[inline]
    pub(crate) const fn stamps(&self) -> &Stamps {
        &self.stamps
    }

    /// Whoever has carried the request out says when what happened.
    pub(crate) fn take_over(&mut self, stamps: Stamps, is_first_sent: bool) {
        (self.stamps, self.is_first_sent) = (stamps, is_first_sent);
    }

    /// Whether something of it was handed to the kernel.
    pub(crate) const fn is_first_sent(&self) -> bool {
        self.is_first_sent
    }
}
