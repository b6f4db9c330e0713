//! Whether all threads that serve go on.
//!
//! ```text
//!   look ── Ping ──▶ mailbox of each ──▶ answered between two of its turns
//!     ▲                                    │
//!     └── the next look: who owes an answer? ◀─┘   nobody: all are asked again
//! ```
//!
//! [`Watchdog`] owns what was asked and not answered. Each thread owes one answer at most, so a thread that hangs is not asked again, and
//! its mailbox does not fill. Nobody waits here: between two looks a thread that goes on has had time for many turns.

use crate::{
    engine::making::ReportingThreads,
    mailbox::{LoopHandle, Message},
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

pub(crate) struct Watchdog {
    threads: ReportingThreads,
    /// By thread: whether it has answered; `None` if it could not be asked.
    asked: Vec<Option<Arc<AtomicBool>>>,
}

impl Watchdog {
    pub(crate) fn new(threads: ReportingThreads) -> Self {
        Self { threads, asked: Vec::new() }
    }

    /// How many threads have not answered since the last look, and how many there are. The first look only asks.
    pub(crate) fn look(&mut self) -> (usize, usize) {
        let threads = self.threads.all();
        self.asked.resize(threads.len(), None);
        let answered = |asked: &Arc<AtomicBool>| asked.load(Ordering::Acquire);
        let silent = self.asked.iter().filter(|asked| !asked.as_ref().is_some_and(answered)).count();
        for (asked, thread) in self.asked.iter_mut().zip(&threads) {
            if silent == 0 || asked.is_none() {
                *asked = ask(thread);
            }
        }
        (silent, threads.len())
    }
}

/// `None`: its mailbox is full, or it has ended.
fn ask(thread: &LoopHandle) -> Option<Arc<AtomicBool>> {
    let answered = Arc::<AtomicBool>::default();
    thread.try_send(Message::Ping(Arc::clone(&answered))).then_some(answered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::Poll;
    use std::sync::mpsc::Receiver;

    /// Answers all that was asked there; returns how much that was.
    fn answer(mailbox: &Receiver<Message>) -> usize {
        let pings = mailbox.try_iter().map(|message| match message {
            Message::Ping(answered) => answered.store(true, Ordering::Release),
            _ => unreachable!("nothing else is sent"),
        });
        pings.count()
    }

    #[test]
    fn whoever_owes_an_answer_is_silent_and_is_asked_once() {
        let polls = [(); 2].map(|()| Poll::new().expect("descriptors are free"));
        let made: Vec<_> = polls.iter().map(|poll| LoopHandle::new(poll).expect("a waker")).collect();
        let (handles, mailboxes): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        let mut watchdog = Watchdog::new(ReportingThreads::new(handles));
        assert_eq!(watchdog.look(), (2, 2), "nobody has been asked yet");
        assert_eq!((answer(&mailboxes[0]), answer(&mailboxes[1])), (1, 1));
        assert_eq!(watchdog.look(), (0, 2));
        assert_eq!(answer(&mailboxes[0]), 1);
        for _ in 0..5 {
            assert_eq!(watchdog.look(), (1, 2), "the second hangs");
        }
        assert_eq!(answer(&mailboxes[0]), 0, "who has answered waits for the others");
        assert_eq!(answer(&mailboxes[1]), 1, "whoever hangs is not asked again");
        assert_eq!(watchdog.look(), (0, 2));
    }

    #[test]
    fn a_full_mailbox_and_an_ended_thread_are_silent_and_a_new_thread_is_asked() {
        let poll = Poll::new().expect("descriptors are free");
        let (handle, mailbox) = LoopHandle::new(&poll).expect("a waker");
        while handle.try_send(Message::Drain) {}
        let threads = ReportingThreads::new([handle]);
        let mut watchdog = Watchdog::new(threads.clone());
        assert_eq!((watchdog.look(), watchdog.look()), ((1, 1), (1, 1)));
        assert!(mailbox.try_iter().all(|message| matches!(message, Message::Drain)));
        assert_eq!(watchdog.look(), (1, 1), "only now it could be asked");
        assert_eq!((answer(&mailbox), watchdog.look()), (1, (0, 1)));
        let other = Poll::new().expect("descriptors are free");
        let (handle, newcomer) = LoopHandle::new(&other).expect("a waker");
        threads.add(handle);
        assert_eq!(answer(&mailbox), 1);
        assert_eq!(watchdog.look(), (1, 2));
        assert_eq!((answer(&newcomer), watchdog.look()), (1, (0, 2)));
        drop(mailbox);
        assert_eq!((answer(&newcomer), watchdog.look(), watchdog.look()), (1, (1, 2), (1, 2)));
    }
}
