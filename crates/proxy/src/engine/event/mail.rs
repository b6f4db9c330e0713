//! Mail between event loops: writes that belong to another loop's keys, and what came of them.
//!
//! A loop hands over what a turn has for another loop in one batch, with one wake-up, and never waits for it. The channels have no
//! bound of their own, because the dataplane bounds what is under way: a write that would exceed it is refused there.
//!
//! A turn takes so much of what has come, and leaves the rest to the next one: a loop's own clients are served in between. What is left is
//! taken first then, in its order.
//!
//! While any loop has clients these may write to every other loop's keys, so no loop ends before all have answered theirs.

use crate::{engine::door::EVENTS_PER_TURN, mailbox::LoopHandle};
use std::{
    io, mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    vec,
};
use weir_dataplane::{Dataplane, Mail};

/// One loop's mail.
pub(crate) struct MailRoom {
    inbox: Receiver<Vec<Mail>>,
    /// What was not taken yet of the batch that was opened last.
    opened: vec::IntoIter<Mail>,
    /// What this turn may still take.
    left: Left,
    /// Wakes this loop.
    own: LoopHandle,
    /// To each loop, this one included.
    boxes: Vec<MailBox>,
    /// What is to go to each of them.
    batches: Vec<Vec<Mail>>,
    /// How many loops have clients, or may still get some.
    serving: Arc<AtomicUsize>,
    /// This one has none any more.
    is_drained: bool,
}

/// How much a turn may still take.
#[derive(Clone, Copy)]
struct Left {
    mails: usize,
    bytes: usize,
}

#[derive(Clone)]
struct MailBox {
    sender: Sender<Vec<Mail>>,
    handle: LoopHandle,
}

impl Left {
    /// A turn takes no more, but that the last one may be longer. It reads as many sockets of its own, each of which may bring a request.
    const OF_A_TURN: Self = Self { mails: EVENTS_PER_TURN, bytes: 1 << 20 };

    const fn is_nothing(self) -> bool {
        self.mails == 0 || self.bytes == 0
    }

    fn take(&mut self, mail: &Mail) {
        self.mails -= 1;
        self.bytes = self.bytes.saturating_sub(mail.bytes());
    }
}

impl MailRoom {
    /// A mail room for each of these loops.
    pub(crate) fn connect(handles: &[LoopHandle]) -> Vec<Self> {
        let (senders, inboxes): (Vec<_>, Vec<_>) = handles.iter().map(|_| channel()).unzip();
        let with_handle =
            |(sender, handle): (Sender<_>, &LoopHandle)| MailBox { sender, handle: handle.clone() };
        let boxes: Vec<_> = senders.into_iter().zip(handles).map(with_handle).collect();
        let serving = Arc::new(AtomicUsize::new(handles.len()));
        let room = |(inbox, own): (_, &LoopHandle)| Self {
            inbox,
            opened: Vec::new().into_iter(),
            left: Left::OF_A_TURN,
            own: own.clone(),
            boxes: boxes.clone(),
            batches: handles.iter().map(|_| Vec::new()).collect(),
            serving: Arc::clone(&serving),
            is_drained: false,
        };
        inboxes.into_iter().zip(handles).map(room).collect()
    }

    /// Opens the next batch for this loop, unless there is none or this turn has taken enough. [`MailRoom::receive`] hands out what is in it.
    pub(crate) fn open(&mut self) -> bool {
        if self.left.is_nothing() {
            return false;
        }
        if self.opened.as_slice().is_empty() {
            self.opened = self.inbox.try_recv().unwrap_or_default().into_iter();
        }
        !self.opened.as_slice().is_empty()
    }

    /// The next mail of the batch that is open, if this turn may take it.
    pub(crate) fn receive(&mut self) -> Option<Mail> {
        if self.left.is_nothing() {
            return None;
        }
        let mail = self.opened.next()?;
        self.left.take(&mail);
        Some(mail)
    }

    /// At the end of a turn: hands over all that the dataplane has for others.
    pub(crate) fn send(&mut self, dataplane: &mut Dataplane) -> io::Result<()> {
        if mem::replace(&mut self.left, Left::OF_A_TURN).is_nothing() {
            // There may be more, of which nobody will say so again.
            self.own.wake()?;
        }
        while let Some((to, mail)) = dataplane.poll_mail() {
            self.batches[to.index()].push(mail);
        }
        for (batch, to) in self.batches.iter_mut().zip(&self.boxes).filter(|(batch, _)| !batch.is_empty()) {
            // A loop that has ended did so because the time for that was up; this one's is, too.
            if to.sender.send(mem::take(batch)).is_ok() {
                to.handle.wake()?;
            }
        }
        Ok(())
    }

    /// This loop has no clients and will get no others. Whether that is so of all.
    pub(crate) fn note_drained(&mut self) -> bool {
        if !mem::replace(&mut self.is_drained, true) && self.serving.fetch_sub(1, Ordering::AcqRel) == 1 {
            // The others may wait for nothing but this.
            self.boxes.iter().for_each(|it| _ = it.handle.wake());
        }
        self.serving.load(Ordering::Acquire) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll};
    use std::time::Duration;
    use weir_dataplane::{Config, Freshness, Login, LoopId, Slot, owner_of};
    use weir_routing::{Placement, Router, Server, Table};
    use weir_timing::Instant;

    const NOW: Instant = Instant::from_nanos(1);

    /// Two loops, of which the second owns what clients of the first have written.
    struct Loops {
        poll: Poll,
        rooms: Vec<MailRoom>,
        dataplanes: Vec<Dataplane>,
    }

    impl Loops {
        fn new() -> Self {
            let servers = ["s:1", "s:2"].map(|name| name.parse::<Server>().expect("a server"));
            let router = Router::new(servers.into(), Placement::Modulo, 2).expect("two servers are a pool");
            let (table, freshness) = (Arc::new(Table::from(router)), Arc::<Freshness>::default());
            let dataplane = |index| {
                let loop_index = LoopId::from_index(index);
                let config = Config { loop_index, loop_count: 2, ..Config::default() };
                let mut it = Dataplane::sharing(config, Arc::clone(&table), Arc::clone(&freshness), NOW);
                (0..2).for_each(|server| it.handle_server_connected(Slot::from_index(server), NOW));
                it
            };
            let polls = [(); 2].map(|()| Poll::new().expect("descriptors are free"));
            let handles = [0, 1].map(|index: usize| LoopHandle::new(&polls[index]).expect("it is new").0);
            let [_, poll] = polls;
            Self { poll, rooms: MailRoom::connect(&handles), dataplanes: (0..2).map(dataplane).collect() }
        }

        /// This many clients write keys that the other loop owns, each one.
        fn write(&mut self, count: usize, value: &str) {
            let is_others = |key: &String| owner_of(key.as_bytes(), 2) == LoopId::from_index(1);
            let keys = (0..).map(|number| format!("k{number}")).filter(is_others);
            for key in keys.take(count) {
                let client = self.dataplanes[0].handle_accept(Login::NotWanted, NOW).expect("there is room");
                let set = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
                self.dataplanes[0].handle_client_bytes(client, set.as_bytes(), NOW);
            }
            self.rooms[0].send(&mut self.dataplanes[0]).expect("it can be woken");
        }

        /// How much the second loop takes in a turn; `None`: nobody has woken it.
        fn turn(&mut self) -> Option<usize> {
            let mut events = Events::with_capacity(8);
            self.poll.poll(&mut events, Some(Duration::ZERO)).expect("it can look");
            if events.is_empty() {
                return None;
            }
            let (room, dataplane) = (&mut self.rooms[1], &mut self.dataplanes[1]);
            let mut count = 0;
            while room.open() {
                while let Some(mail) = room.receive() {
                    dataplane.handle_mail(mail, NOW);
                    count += 1;
                }
            }
            room.send(dataplane).expect("it can be woken");
            Some(count)
        }

        /// The numbers of the keys that the second loop has sent to its first server.
        fn sent(&mut self) -> Vec<usize> {
            let dataplane = &mut self.dataplanes[1];
            dataplane.handle_time(NOW);
            assert_eq!(dataplane.poll_server_output(None, NOW), Some(Slot::from_index(0)));
            let text =
                String::from_utf8(dataplane.server_output(Slot::from_index(0)).to_vec()).expect("text");
            let number = |line: &str| line.strip_prefix("set k")?.split(' ').next()?.parse().ok();
            text.lines().filter_map(number).collect()
        }
    }

    /// Writes of other loops' clients kept a loop from its own until it had begun all of them.
    #[test]
    fn a_turn_takes_so_much_and_the_next_ones_take_the_rest_in_its_order() {
        let (mut loops, most) = (Loops::new(), Left::OF_A_TURN.mails);
        loops.write(2 * most + 7, "x");
        let turns: Vec<_> = (0..4).map(|_| loops.turn()).collect();
        assert_eq!(turns, [Some(most), Some(most), Some(7), None]);
        let sent = loops.sent();
        assert!(sent.len() > most / 2 && sent.is_sorted(), "{} keys", sent.len());
    }

    #[test]
    fn long_values_are_as_much_as_many_short_ones() {
        let mut loops = Loops::new();
        loops.write(20, &"x".repeat(Left::OF_A_TURN.bytes / 10));
        let turns: Vec<_> = (0..3).map(|_| loops.turn()).collect();
        assert_eq!(turns, [Some(10), Some(10), Some(0)]);
        assert_eq!(loops.turn(), None);
    }
}
