//! Mail between event loops: writes that belong to another loop's keys, and what came of them.
//!
//! A loop hands over what a turn has for another loop in one batch, with one wake-up, and never waits for it. The channels have no
//! bound of their own, because the dataplane bounds what is under way: a write that would exceed it is refused there.
//!
//! While any loop has clients these may write to every other loop's keys, so no loop ends before all have answered theirs.

use crate::mailbox::LoopHandle;
use std::{
    io, mem,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
};
use weir_dataplane::{Dataplane, Mail};

/// One loop's mail.
pub(crate) struct MailRoom {
    inbox: Receiver<Vec<Mail>>,
    /// To each loop, this one included.
    boxes: Vec<MailBox>,
    /// What is to go to each of them.
    batches: Vec<Vec<Mail>>,
    /// How many loops have clients, or may still get some.
    serving: Arc<AtomicUsize>,
    /// This one has none any more.
    is_drained: bool,
}

#[derive(Clone)]
struct MailBox {
    sender: Sender<Vec<Mail>>,
    handle: LoopHandle,
}

impl MailRoom {
    /// A mail room for each of these loops.
    pub(crate) fn connect(handles: &[LoopHandle]) -> Vec<Self> {
        let (senders, inboxes): (Vec<_>, Vec<_>) = handles.iter().map(|_| channel()).unzip();
        let with_handle =
            |(sender, handle): (Sender<_>, &LoopHandle)| MailBox { sender, handle: handle.clone() };
        let boxes: Vec<_> = senders.into_iter().zip(handles).map(with_handle).collect();
        let serving = Arc::new(AtomicUsize::new(handles.len()));
        let room = |inbox| Self {
            inbox,
            boxes: boxes.clone(),
            batches: handles.iter().map(|_| Vec::new()).collect(),
            serving: Arc::clone(&serving),
            is_drained: false,
        };
        inboxes.into_iter().map(room).collect()
    }

    /// The next batch for this loop.
    pub(crate) fn receive(&self) -> Option<Vec<Mail>> {
        self.inbox.try_recv().ok()
    }

    /// Hands over all that the dataplane has for others.
    pub(crate) fn send(&mut self, dataplane: &mut Dataplane) -> io::Result<()> {
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
