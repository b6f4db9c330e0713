//! All connections of a dataplane to its servers, by slot, and those for which there may be something to do.
//!
//! A turn costs what it does, and not how many servers there are. A connection becomes *busy* at the moment at which anybody could have
//! changed it. It is busy until the turn in which nothing is to be written to it, it owes nothing, and no time means anything to it. Only
//! busy ones are looked at: for what is to be written, for what is late, and for the memory that they hold.
//!
//! [`Connections`] owns the connections and the set of the busy ones: whoever is given one to change puts it in. It is asked for the next one to
//! which something is to be written, when to look again, and what all hold.

use crate::{
    servers::backend::{Backend, sooner},
    servers::link::State,
    servers::slot_set::SlotSet,
    wire::fault::Fault,
    wire::ids::{RequestKey, Slot},
};
use std::ops::{Index, IndexMut};
use weir_timing::{Distribution, Instant};

/// The connections, by slot.
#[derive(Debug, Default)]
pub(super) struct Connections {
    all: Vec<Backend>,
    busy: SlotSet,
    /// What each held when it was counted last, in bytes, and the sum.
    held: Vec<usize>,
    held_sum: usize,
    /// How many are being greeted (`greeting.rs`).
    greetings: usize,
}

impl Connections {
    pub(super) const fn len(&self) -> usize {
        self.all.len()
    }

    /// Puts a connection into its slot, or into the first one behind all others. Returns the one that was there.
    pub(super) fn put(&mut self, slot: Slot, backend: Backend) -> Option<Backend> {
        if slot.index() == self.all.len() {
            self.all.push(backend);
            self.held.push(0);
            self.busy.grow(self.all.len());
            self.busy.insert(slot);
            return None;
        }
        let before = std::mem::replace(&mut self[slot], backend);
        self.count_greetings();
        Some(before)
    }

    /// All, in the order of their slots, busy or not.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Backend> {
        self.all.iter()
    }

    // ── busy ones ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Those for which there may be something to do, in the order of their slots.
    #[inline]
    pub(super) fn busy(&self) -> impl Iterator<Item = &Backend> {
        self.busy.iter().map(|slot| &self.all[slot.index()])
    }

    /// There may be something to do for this one.
    #[inline]
    pub(super) fn wake(&mut self, slot: Slot) {
        self.busy.insert(slot);
    }

    /// One that is busy.
    #[inline]
    pub(super) fn at(&mut self, slot: Slot) -> &mut Backend {
        debug_assert_eq!(self.busy.next(slot.index()), Some(slot), "who is not busy is not looked at");
        &mut self.all[slot.index()]
    }

    /// The first busy slot from `from` on.
    #[inline]
    pub(super) fn next_busy(&self, from: usize) -> Option<Slot> {
        self.busy.next(from)
    }

    /// Once per turn: whether time may have run out for something of any, and what all hold, in bytes. Those for which there is nothing to do
    /// are forgotten.
    #[inline]
    pub(super) fn look(&mut self, now: Instant) -> (bool, usize) {
        let Self { all, busy, held: counted, held_sum, .. } = self;
        let mut is_any_late = false;
        busy.retain(|slot| {
            let server = &mut all[slot.index()];
            is_any_late |= server.may_be_late(now);
            let held = server.held_bytes();
            if held != counted[slot.index()] {
                *held_sum = *held_sum + held - counted[slot.index()];
                counted[slot.index()] = held;
            }
            let is_busy = !server.waits_for_nothing() || server.wants_write();
            if !is_busy {
                server.tally_mut().note_looked_at();
            }
            is_busy
        });
        (is_any_late, *held_sum)
    }

    /// What all of them hold, in bytes, as of the beginning of the turn.
    pub(super) const fn held(&self) -> usize {
        self.held_sum
    }

    /// When something of any is late, or is to be tried again.
    #[inline]
    pub(super) fn due(&self, timeout_ns: u64, connect_timeout_ns: u64) -> Option<Instant> {
        let mut earliest = None;
        self.busy.for_each(|slot| {
            let backend = &self.all[slot.index()];
            if backend.waits_for_nothing() {
                return;
            }
            let connection = match backend.state() {
                // It is needed first now: it is connected to as soon as the driver says what time it is.
                State::Idle => Some(Instant::ZERO),
                _ => backend.link().due(connect_timeout_ns),
            };
            earliest = sooner(sooner(earliest, connection), backend.next_deadline(timeout_ns));
        });
        earliest
    }

    /// From now on requests count for [`Backend::has_new_requests`].
    pub(super) fn note_requests(&mut self) {
        // Of the others it was noted when they were looked at last.
        for slot in self.busy.iter() {
            self.all[slot.index()].tally_mut().note_looked_at();
        }
    }

    // ── what is written ────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Whether anything is to be written to any.
    #[inline]
    pub(super) fn wants_write(&self) -> bool {
        self.next_to_write(0).is_some() || self.greetings > 0 && self.next_greeted(0).is_some()
    }

    /// The first server from `from` on to which something is to be written, and whether that is the proxy's own question.
    #[inline(always)]
    pub(super) fn next_output(&self, from: usize) -> Option<(Slot, bool)> {
        if self.greetings > 0
            && let Some(server) = self.next_greeted(from)
        {
            return Some((server, true));
        }
        Some((self.next_to_write(from)?, false))
    }

    /// The first slot from `from` on of a server to which requests are to be written.
    #[inline(always)]
    fn next_to_write(&self, mut from: usize) -> Option<Slot> {
        loop {
            let slot = self.busy.next(from)?;
            if self.all[slot.index()].wants_write() {
                return Some(slot);
            }
            from = slot.index() + 1;
        }
    }

    /// The next server that is to be greeted, if it comes before the next one for which requests wait.
    #[cold]
    fn next_greeted(&self, first: usize) -> Option<Slot> {
        let mut busy = std::iter::successors(self.busy.next(first), |&it| self.busy.next(it.index() + 1));
        let next = busy.find(|&server| self[server].link().wants_to_greet() || self[server].wants_write())?;
        self[next].link().wants_to_greet().then_some(next)
    }

    /// Bytes for this server.
    #[inline]
    pub(super) fn output(&self, server: Slot) -> &[u8] {
        let backend = &self.all[server.index()];
        if self.greetings > 0
            && let Some(greeting) = backend.link().greeting_output()
        {
            return greeting;
        }
        backend.output()
    }

    /// Where in them each message ends, in their order. There may be more of them than what is to be written now. A greeting is one message.
    pub(super) fn message_ends(&self, server: Slot) -> impl Iterator<Item = usize> {
        let backend = (!self.is_greeting(server)).then(|| &self[server]);
        backend.into_iter().flat_map(Backend::message_ends)
    }

    /// `count` of them were handed to the kernel; calls `forwarded` for each request whose message is complete there.
    #[inline]
    pub(super) fn handle_written(
        &mut self,
        server: Slot,
        count: usize,
        (progress_min, now): (usize, Instant),
        forwarded: impl FnMut(RequestKey),
    ) {
        if self.greetings > 0 && self.note_greeted(server, count) {
            return;
        }
        self.at(server).handle_written(count, progress_min, now, forwarded);
    }

    /// Bytes were handed to the kernel. Returns whether they were a greeting's.
    #[cold]
    fn note_greeted(&mut self, server: Slot, count: usize) -> bool {
        self[server].link_mut().note_greeted(count)
    }

    /// A greeting has begun or ended.
    pub(super) fn count_greetings(&mut self) {
        self.greetings = self.all.iter().filter(|backend| backend.link().has_greeting()).count();
    }

    /// Whether nothing of a client goes to this server yet.
    #[inline]
    pub(super) fn is_greeting(&self, server: Slot) -> bool {
        self.greetings > 0 && self[server].link().has_greeting()
    }

    // ── all of them ────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Hands out the times of all that have some, with the server whose they are, and forgets them.
    pub(super) fn take_times(&mut self, mut take: impl FnMut(Slot, &Distribution)) {
        self.all.iter_mut().for_each(|server| server.tally_mut().take_times(&mut take));
    }

    /// While there is a fault, nothing is sent to any because of it.
    pub(super) fn deny(&mut self, fault: Option<Fault>) {
        self.all.iter_mut().for_each(|backend| backend.deny(fault));
    }

    /// Frees the buffers that are empty. Returns what the others hold, in bytes.
    #[cold]
    pub(super) fn give_memory_back(&mut self) -> usize {
        self.held_sum = 0;
        for (server, held) in self.all.iter_mut().zip(&mut self.held) {
            server.give_memory_back();
            *held = server.held_bytes();
            self.held_sum += *held;
        }
        self.held_sum
    }
}

impl Index<Slot> for Connections {
    type Output = Backend;

    #[inline]
    fn index(&self, slot: Slot) -> &Backend {
        &self.all[slot.index()]
    }
}

impl IndexMut<Slot> for Connections {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Backend {
        self.busy.insert(slot);
        &mut self.all[slot.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ids::slot;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Connected, and looked at once.
    fn idle(count: usize) -> Connections {
        let mut connections = Connections::default();
        for slot in (0..count).map(Slot::from_index) {
            assert!(connections.put(slot, Backend::new(slot, at(0))).is_none());
            connections[slot].link_mut().begin(at(0));
            connections[slot].link_mut().open(at(0));
        }
        connections.look(at(0));
        connections
    }

    #[test]
    fn whoever_is_changed_is_busy_until_there_is_nothing_to_do() {
        let mut connections = idle(70);
        assert_eq!(connections.next_busy(0), None);
        connections[slot(66)].count_error();
        assert_eq!((connections.next_busy(0), connections.busy().count()), (Some(slot(66)), 1));
        connections[slot(66)].link_mut().leave_alone(at(50));
        assert_eq!(connections.look(at(10)), (true, 0));
        assert_eq!(
            (connections.next_busy(0), connections.due(100, 100)),
            (Some(slot(66)), Some(at(50))),
            "it is to be tried again"
        );
        connections[slot(66)].link_mut().open(at(60));
        connections.look(at(60));
        assert_eq!((connections.next_busy(0), connections.due(100, 100)), (None, None));
    }

    #[test]
    fn a_greeting_is_written_before_what_waits() {
        let mut connections = idle(2);
        assert!(!connections.wants_write());
        connections[slot(1)].link_mut().greet(crate::servers::greeting::Question::Version, None, at(0));
        connections.count_greetings();
        assert!(
            connections.wants_write()
                && connections.is_greeting(slot(1))
                && !connections.is_greeting(slot(0))
        );
        assert_eq!(
            (connections.next_output(0), connections.output(slot(1))),
            (Some((slot(1), true)), &b"version\r\n"[..])
        );
        connections.handle_written(slot(1), 9, (1, at(0)), |_| panic!("no request waits"));
        assert_eq!(connections.next_output(0), None);
        let replaced = connections.put(slot(1), Backend::new(slot(1), at(0)));
        assert!(replaced.is_some() && !connections.is_greeting(slot(1)) && !connections.wants_write());
    }
}
