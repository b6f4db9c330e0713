//! Where all threads say what happened, and the thread that shows it.
//!
//! ```text
//!   threads that serve ─ changes of servers ─▶ server_views ─┐
//!   all threads ─ notices ───────────────────────────────────┴─▶ rate_limit ─▶ lines ─▶ weir-notices ─▶ who runs the proxy
//! ```
//!
//! Nobody waits for it: standard error may be a pipe that is full. So one thread shows the lines, and what it has not shown is bounded
//! ([`LINES_MAX`]) and counted beyond that. The lock is held for as long as it takes to look at a table, and only where something
//! has changed.

use crate::{
    notices::{
        notice::{Notice, Tell, Topic},
        rate_limit::RateLimit,
        server_views::ServerViews,
    },
    process::{clock::Clock, error::RunError, threads::Watch},
};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};
use weir_dataplane::Change;
use weir_timing::Instant;

/// Lines that may wait to be shown.
const LINES_MAX: usize = 1024;

/// How long the end of the process waits for the last lines.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// What is said, and what was not shown yet.
pub(crate) struct Notices {
    inner: Mutex<Inner>,
    something: Condvar,
    clock: Clock,
}

#[derive(Default)]
struct Inner {
    views: ServerViews,
    limit: RateLimit<(Topic, Option<Arc<str>>), Notice>,
    lines: VecDeque<(Notice, u64)>,
    /// Lines for which there was no room, and how many of them were said to be so.
    lost: u64,
    lost_said: u64,
    has_ended: bool,
}

/// The end of the thread that shows lines.
pub(crate) struct Showing {
    notices: Arc<Notices>,
    ended: Receiver<()>,
}

impl Notices {
    pub(crate) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), something: Condvar::new(), clock })
    }

    /// Starts the thread that gives each line to `show`, with how many of its kind were not shown before it.
    pub(crate) fn start(
        clock: Clock,
        watch: &Watch,
        show: impl Fn(&Notice, u64) + Send + 'static,
    ) -> Result<Showing, RunError> {
        let notices = Self::new(clock);
        let (sender, ended) = channel();
        let shown = Arc::clone(&notices);
        watch.spawn("weir-notices".into(), move || {
            shown.show_all(show, sender);
            Ok(())
        })?;
        Ok(Showing { notices, ended })
    }

    /// A thread has seen a change of a server.
    pub(crate) fn note_server(&self, thread: usize, change: &Change) {
        let mut inner = self.lock();
        let now = self.clock.now();
        if let Some(what) = inner.views.note(thread, change, now) {
            inner.offer(Notice::Server { server: Arc::clone(&change.server), what }, now);
            self.something.notify_one();
        }
    }

    /// Something has happened.
    pub(crate) fn tell(&self, notice: Notice) {
        let now = self.clock.now();
        self.lock().offer(notice, now);
        self.something.notify_one();
    }

    /// Lines that were never shown.
    pub(crate) fn lost(&self) -> u64 {
        self.lock().lost
    }

    /// The servers that are down, and how many there are: no more than `most` are named.
    pub(crate) fn servers_down(&self, most: usize) -> (Vec<Arc<str>>, usize) {
        self.lock().views.down(most)
    }

    fn show_all(&self, show: impl Fn(&Notice, u64), _ended: Sender<()>) {
        while let Some((notice, more)) = self.next() {
            show(&notice, more);
        }
    }

    /// Waits for the next line; `None` at the end.
    fn next(&self) -> Option<(Notice, u64)> {
        let mut inner = self.lock();
        loop {
            let now = self.clock.now();
            inner.take_due(now);
            let next = inner.lines.pop_front().or_else(|| inner.next_of_lost());
            if next.is_some() || inner.has_ended {
                return next;
            }
            let due = inner.limit.due().map(|due| Duration::from_nanos(due.saturating_since(now)));
            inner = match due {
                None => self.something.wait(inner).unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let waited = self.something.wait_timeout(inner, due);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Whatever is changed under the lock is whole at every step that could panic.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn offer(&mut self, notice: Notice, now: Instant) {
        if matches!(notice, Notice::Stopped { .. }) {
            // Nothing comes after it.
            self.limit.drain().into_iter().for_each(|line| self.push(line));
        }
        let topic = notice.topic();
        let Some(shown_max) = topic.shown_max() else { return self.push((notice, 0)) };
        let kind = (topic, notice.server().cloned());
        if let Some(line) = self.limit.offer(kind, shown_max, notice, now) {
            self.push(line);
        }
    }

    fn take_due(&mut self, now: Instant) {
        let due = if self.has_ended { self.limit.drain() } else { self.limit.poll(now) };
        due.into_iter().for_each(|line| self.push(line));
    }

    fn push(&mut self, line: (Notice, u64)) {
        if self.lines.len() < LINES_MAX {
            self.lines.push_back(line);
        } else {
            self.lost += 1;
        }
    }

    fn next_of_lost(&mut self) -> Option<(Notice, u64)> {
        let lost = self.lost - std::mem::replace(&mut self.lost_said, self.lost);
        (lost > 0).then_some((Notice::Lost(lost), 0))
    }
}

impl Showing {
    pub(crate) fn notices(&self) -> Arc<Notices> {
        Arc::clone(&self.notices)
    }

    /// Says things without naming this type.
    pub(crate) fn tell(&self) -> Tell {
        let notices = self.notices();
        Arc::new(move |notice| notices.tell(notice))
    }

    /// Returns when all is shown, or when that takes too long.
    pub(crate) fn end(self) {
        self.notices.lock().has_ended = true;
        self.notices.something.notify_one();
        // Nothing is sent: the thread drops its end.
        let _ = self.ended.recv_timeout(WAIT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notices::notice::ServerNotice;
    use weir_dataplane::{DownReason, ReplacedReason, ServerChange, Slot};

    fn text(notice: &Notice) -> String {
        match notice {
            Notice::ReloadRefused(reason) => reason.clone(),
            Notice::Server { server, what } => format!("{server} {what:?}"),
            Notice::Lost(count) => format!("lost {count}"),
            Notice::Stopped { .. } => "stopped".to_owned(),
            _ => unreachable!("the tests say no other"),
        }
    }

    #[test]
    fn what_is_said_is_shown_in_its_order_and_the_end_waits_for_the_rest() {
        let (sender, shown) = channel();
        let watch = Watch::default();
        let show = move |notice: &Notice, more| sender.send((text(notice), more)).expect("the test hears");
        let showing = Notices::start(Clock::start(), &watch, show).expect("a thread can be started");
        let tell = showing.tell();
        tell(Notice::ReloadRefused("one".into()));
        let change = |what| Change { slot: Slot::from_index(0), server: "s:1".into(), what };
        let notices = showing.notices();
        for thread in 0..3 {
            notices.note_server(thread, &change(ServerChange::Down(DownReason::Unreachable)));
            notices.note_server(thread, &change(ServerChange::Replaced(ReplacedReason::Dead)));
        }
        showing.end();
        let shown: Vec<_> = shown.iter().collect();
        let expected = [
            ("one".to_owned(), 0),
            (format!("s:1 {:?}", ServerNotice::Unreachable { closes: false }), 0),
            ("s:1 DeadConnection".to_owned(), 0),
            // Two were held back: the last of them, and one more.
            ("s:1 DeadConnection".to_owned(), 1),
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn nothing_is_held_back_beyond_the_last_line() {
        let notices = Notices::new(Clock::start());
        let dead = Change {
            slot: Slot::from_index(0),
            server: "s:1".into(),
            what: ServerChange::Replaced(ReplacedReason::Dead),
        };
        (0..3).for_each(|thread| notices.note_server(thread, &dead));
        notices.tell(Notice::Stopped { drained: Duration::ZERO });
        notices.lock().has_ended = true;
        let shown: Vec<_> =
            std::iter::from_fn(|| notices.next()).map(|(notice, more)| (text(&notice), more)).collect();
        let dead = "s:1 DeadConnection".to_owned();
        assert_eq!(shown, [(dead.clone(), 0), (dead, 1), ("stopped".to_owned(), 0)]);
    }

    #[test]
    fn lines_that_nobody_takes_are_bounded_and_counted() {
        let notices = Notices::new(Clock::start());
        for number in 0..LINES_MAX + 5 {
            notices.tell(Notice::ReloadRefused(number.to_string()));
        }
        assert_eq!(notices.lost(), 5);
        notices.lock().has_ended = true;
        let shown: Vec<_> = std::iter::from_fn(|| notices.next()).map(|(notice, _)| text(&notice)).collect();
        assert_eq!(shown.len(), LINES_MAX + 1);
        assert_eq!(shown.last().map(String::as_str), Some("lost 5"));
    }
}
