//! The connections to servers, by slot, and which of them there may be something to do for.
//!
//! A turn costs what it does, and not how many servers there are. A connection is *busy* from the moment at which anybody could have changed
//! it until the turn in which nothing is to be written to it, it owes nothing, and no time means anything to it. Only busy ones are looked
//! at: for what is to be written, for what is late, and for the memory that they hold.

pub(crate) mod apart;
pub(crate) mod backend;
pub(crate) mod begun;
pub(crate) mod changes;
pub(crate) mod connection;
pub(crate) mod greeting;
pub(crate) mod in_step;
pub(crate) mod item_size;
pub(crate) mod mark_down;
pub(crate) mod second_opinion;
pub(crate) mod version;

mod slot_set;

use crate::servers::backend::Backend;
use slot_set::SlotSet;
use std::ops::{Index, IndexMut};
use weir_timing::{Distribution, Instant};

#[derive(Debug, Default)]
pub(crate) struct Servers {
    all: Vec<Backend>,
    busy: SlotSet,
    /// What each held when it was counted last, in bytes, and the sum.
    held: Vec<usize>,
    held_sum: usize,
}

impl Servers {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn push(&mut self, server: Backend) {
        self.all.push(server);
        self.held.push(0);
        self.busy.grow(self.all.len());
    }

    /// All, busy or not.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Backend> {
        self.all.iter()
    }

    /// All, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Backend> {
        (0..self.all.len()).for_each(|slot| self.busy.insert(slot));
        self.all.iter_mut()
    }

    /// Those for which there may be something to do, in the order of their slots.
    #[inline]
    pub(crate) fn busy(&self) -> impl Iterator<Item = &Backend> {
        self.busy.iter().map(|slot| &self.all[slot])
    }

    /// A server that is busy.
    #[inline]
    pub(crate) fn at(&mut self, slot: usize) -> &mut Backend {
        debug_assert_eq!(self.busy.next(slot), Some(slot), "who is not busy is not looked at");
        &mut self.all[slot]
    }

    /// Calls `visit` for each of them.
    #[inline]
    pub(crate) fn for_each_busy(&self, mut visit: impl FnMut(&Backend)) {
        self.busy.for_each(|slot| visit(&self.all[slot]));
    }

    /// The first such slot from `from` on.
    #[inline]
    pub(crate) fn next_busy(&self, from: usize) -> Option<usize> {
        self.busy.next(from)
    }

    /// The first slot from `from` on of a server to which requests are to be written.
    #[inline]
    pub(crate) fn next_to_write(&self, mut from: usize) -> Option<usize> {
        loop {
            let slot = self.busy.next(from)?;
            if self.all[slot].wants_write() {
                return Some(slot);
            }
            from = slot + 1;
        }
    }

    /// Once per turn: whether time may have run out for something of any, and what all hold, in bytes. Those for which there is nothing to do
    /// are forgotten.
    #[inline]
    pub(crate) fn look(&mut self, now: Instant) -> (bool, usize) {
        let Self { all, busy, held: counted, held_sum } = self;
        let mut is_any_late = false;
        busy.retain(|slot| {
            let server = &mut all[slot];
            is_any_late |= server.may_be_late(now);
            let held = server.held_bytes();
            if held != counted[slot] {
                *held_sum = *held_sum + held - counted[slot];
                counted[slot] = held;
            }
            let is_busy = !server.waits_for_nothing() || server.wants_write();
            if !is_busy {
                server.requests_before = server.requests;
            }
            is_busy
        });
        (is_any_late, *held_sum)
    }

    /// Hands out the times of all that have some, with the server whose they are, and forgets them.
    pub(crate) fn take_times(&mut self, mut take: impl FnMut(usize, &Distribution)) {
        for server in self.all.iter_mut().filter(|server| !server.times.is_empty()) {
            take(server.timed_as, &server.times);
            server.times.clear();
        }
    }

    /// From now on requests count for [`Backend::requests_before`].
    pub(crate) fn note_requests(&mut self) {
        // Of the others it was noted when they were looked at last.
        for slot in self.busy.iter() {
            self.all[slot].requests_before = self.all[slot].requests;
        }
    }

    /// Frees the buffers that are empty. Returns what the others hold, in bytes.
    #[cold]
    pub(crate) fn give_memory_back(&mut self) -> usize {
        self.held_sum = 0;
        for (server, held) in self.all.iter_mut().zip(&mut self.held) {
            server.give_memory_back();
            *held = server.held_bytes();
            self.held_sum += *held;
        }
        self.held_sum
    }
}

impl Index<usize> for Servers {
    type Output = Backend;

    #[inline]
    fn index(&self, slot: usize) -> &Backend {
        &self.all[slot]
    }
}

impl IndexMut<usize> for Servers {
    #[inline]
    fn index_mut(&mut self, slot: usize) -> &mut Backend {
        self.busy.insert(slot);
        &mut self.all[slot]
    }
}
