//! What all threads together think of each server: one change of a server is one notice, however many threads see it.
//!
//! Every thread that serves has connections of its own, and finds out by itself. The rule is the one of `/metrics`: a server is as the
//! worst of them sees it.
//!
//! ```text
//!   the first thread finds it down ─▶ down, with that thread's reason
//!   a thread finds another reason ──▶ down, with the new reason
//!   no thread finds it down ────────▶ up
//! ```
//!
//! The reasons are classes ([`Trouble`]): a server that refuses connections and one that closes them are gone alike. Whether a server is
//! read goes the same way, but for the reasons: they only get graver until it is read again ([`Lack`]). That a server is up is no notice
//! if nobody has found it down, so a start is quiet. A server that leaves the table is forgotten without a notice: the reload has one.
//!
//! [`ServerViews`] owns what threads find wrong and what was said of that. It hears of changes, and answers with notices.

use crate::notices::notice::ServerNotice;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};
use weir_dataplane::{Change, DownReason, ReplacedReason, ServerChange, Slot};
use weir_timing::Instant;

/// Every server of which something is wrong.
#[derive(Debug, Default)]
pub(crate) struct ServerViews {
    servers: HashMap<Arc<str>, Views>,
}

#[derive(Debug, Default)]
struct Views {
    /// By thread, and by the connection's number there; only who finds something wrong.
    wrong: BTreeMap<(usize, Slot), View>,
    /// What was said, and since when it is so.
    down: Option<(Trouble, Instant)>,
    unread: Option<(Lack, Instant)>,
}

/// What one thread finds wrong over one of its connections.
#[derive(Clone, Copy, Debug, Default)]
struct View {
    trouble: Option<Trouble>,
    lack: Option<Lack>,
}

/// Why nothing is sent to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Gone,
    Silent,
    Garbage,
    Login,
    Refused,
}

/// Why a server is not read, and how grave that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lack {
    Stale,
    Quarantined,
    FlushWanted,
    FlushRefused,
    Flushed,
}

impl ServerViews {
    /// A thread has seen a change. Returns what that is for the whole process, if it is anything.
    pub(crate) fn note(&mut self, thread: usize, change: &Change, now: Instant) -> Option<ServerNotice> {
        let views = self.servers.entry(Arc::clone(&change.server)).or_default();
        let notice = views.note((thread, change.slot), &change.what, now);
        if views.wrong.is_empty() {
            self.servers.remove(&change.server);
        }
        notice
    }
}

impl ServerViews {
    /// The servers that are down, by their names, and how many there are: no more than `most` are named.
    pub(crate) fn down(&self, most: usize) -> (Vec<Arc<str>>, usize) {
        let down = self.servers.iter().filter(|(_, views)| views.down.is_some());
        let mut names: Vec<_> = down.map(|(server, _)| Arc::clone(server)).collect();
        let count = names.len();
        names.sort_unstable();
        names.truncate(most);
        (names, count)
    }
}

impl Views {
    fn note(&mut self, by: (usize, Slot), what: &ServerChange, now: Instant) -> Option<ServerNotice> {
        let lack = match what {
            ServerChange::Up => return self.find_up(by, now),
            ServerChange::Down(reason) => {
                let (trouble, notice) = of_reason(reason);
                return self.find_down(by, trouble, now).then_some(notice);
            }
            ServerChange::MarkedDown { timeouts } => {
                let notice = ServerNotice::MarkedDown { timeouts: *timeouts };
                return self.find_down(by, Trouble::Silent, now).then_some(notice);
            }
            ServerChange::Replaced(ReplacedReason::Dead) => return Some(ServerNotice::DeadConnection),
            ServerChange::Replaced(ReplacedReason::Garbage { said }) => {
                return Some(ServerNotice::BadReply { said: said.clone() });
            }
            ServerChange::QuestionUnknown => return Some(ServerNotice::QuestionUnknown),
            ServerChange::Left => {
                self.wrong.remove(&by);
                return None;
            }
            ServerChange::Fresh => return self.find_fresh(by, now),
            ServerChange::Stale => Lack::Stale,
            ServerChange::Quarantined => Lack::Quarantined,
            ServerChange::FlushWanted => Lack::FlushWanted,
            ServerChange::FlushRefused => Lack::FlushRefused,
            ServerChange::Flushed => Lack::Flushed,
        };
        self.find_lacking(by, lack, now).then(|| lack.notice())
    }

    /// Returns whether that is new.
    fn find_down(&mut self, by: (usize, Slot), trouble: Trouble, now: Instant) -> bool {
        // Who only finds again what it found does not speak again, though others find something else.
        let is_new_here = self.wrong.entry(by).or_default().trouble.replace(trouble) != Some(trouble);
        let is_new = is_new_here && self.down.is_none_or(|(said, _)| said != trouble);
        if is_new {
            let since = self.down.map_or(now, |(_, since)| since);
            self.down = Some((trouble, since));
        }
        is_new
    }

    fn find_up(&mut self, by: (usize, Slot), now: Instant) -> Option<ServerNotice> {
        self.mend(by, |view| view.trouble = None);
        if self.wrong.values().any(|view| view.trouble.is_some()) {
            return None;
        }
        self.down.take().map(|(_, since)| ServerNotice::Up { after: between(since, now) })
    }

    fn find_lacking(&mut self, by: (usize, Slot), lack: Lack, now: Instant) -> bool {
        self.wrong.entry(by).or_default().lack = Some(lack);
        let is_new = self.unread.is_none_or(|(said, _)| said < lack);
        if is_new {
            let since = self.unread.map_or(now, |(_, since)| since);
            self.unread = Some((lack, since));
        }
        is_new
    }

    fn find_fresh(&mut self, by: (usize, Slot), now: Instant) -> Option<ServerNotice> {
        self.mend(by, |view| view.lack = None);
        if self.wrong.values().any(|view| view.lack.is_some()) {
            return None;
        }
        self.unread.take().map(|(_, since)| ServerNotice::Fresh { after: between(since, now) })
    }

    fn mend(&mut self, by: (usize, Slot), mend: impl Fn(&mut View)) {
        if let Some(view) = self.wrong.get_mut(&by) {
            mend(view);
            if view.trouble.is_none() && view.lack.is_none() {
                self.wrong.remove(&by);
            }
        }
    }
}

impl Lack {
    const fn notice(self) -> ServerNotice {
        match self {
            Self::Stale => ServerNotice::Stale,
            Self::Quarantined => ServerNotice::Quarantined,
            Self::FlushWanted => ServerNotice::FlushWanted,
            Self::FlushRefused => ServerNotice::FlushRefused,
            Self::Flushed => ServerNotice::Flushed,
        }
    }
}

fn of_reason(reason: &DownReason) -> (Trouble, ServerNotice) {
    match reason {
        DownReason::Unreachable => (Trouble::Gone, ServerNotice::Unreachable { closes: false }),
        DownReason::Closes => (Trouble::Gone, ServerNotice::Unreachable { closes: true }),
        DownReason::Unanswered => (Trouble::Silent, ServerNotice::Unanswered),
        DownReason::Garbage { said } => (Trouble::Garbage, ServerNotice::Garbage { said: said.clone() }),
        DownReason::LoginWanted => (Trouble::Login, ServerNotice::LoginWanted),
        DownReason::LoginRefused => (Trouble::Refused, ServerNotice::LoginRefused),
    }
}

fn between(since: Instant, now: Instant) -> Duration {
    Duration::from_nanos(now.saturating_since(since))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ServerChange as C;

    const GONE: C = C::Down(DownReason::Unreachable);

    /// What is said where threads see changes of one server one after the other, with a second between them. Each is a thread and what it
    /// sees.
    fn check(seen: &[(usize, C)]) -> Vec<ServerNotice> {
        let mut views = ServerViews::default();
        let said = seen.iter().enumerate().filter_map(|(second, (thread, what))| {
            let change = Change { slot: Slot::from_index(0), server: "s:1".into(), what: what.clone() };
            views.note(*thread, &change, Instant::from_nanos(second as u64 * 1_000_000_000))
        });
        said.collect()
    }

    fn up(seconds: u64) -> ServerNotice {
        ServerNotice::Up { after: Duration::from_secs(seconds) }
    }

    #[test]
    fn down_with_the_first_thread_and_up_with_the_last() {
        let down = ServerNotice::Unreachable { closes: false };
        let seen = [(0, GONE), (1, GONE), (2, GONE), (0, C::Up), (2, C::Up), (1, C::Up), (0, C::Up)];
        assert_eq!(check(&seen), [down, up(5)]);
    }

    #[test]
    fn a_start_is_quiet_and_what_is_found_again_is_not_said_again() {
        assert_eq!(check(&[(0, C::Up), (1, C::Up)]), []);
        assert_eq!(check(&[(0, GONE), (0, GONE), (1, GONE), (0, C::Down(DownReason::Closes))]).len(), 1);
    }

    #[test]
    fn another_reason_is_said_once_though_threads_differ() {
        let garbage = || C::Down(DownReason::Garbage { said: "x".into() });
        // The second thread goes on finding what the first one does not any more.
        let seen = [(0, GONE), (1, GONE), (0, garbage()), (1, GONE), (0, garbage()), (1, garbage())];
        let said = check(&seen);
        assert_eq!(said.len(), 2, "{said:?}");
        assert_eq!(said[1], ServerNotice::Garbage { said: "x".into() });
    }

    #[test]
    fn frozen_is_the_same_for_who_was_connected_and_who_was_not() {
        let seen = [
            (0, C::MarkedDown { timeouts: 3 }),
            (1, C::Down(DownReason::Unanswered)),
            (0, C::Up),
            (1, C::Up),
        ];
        assert_eq!(check(&seen), [ServerNotice::MarkedDown { timeouts: 3 }, up(3)]);
    }

    #[test]
    fn what_is_not_read_gets_graver_and_is_read_when_all_have_cleaned_it() {
        let seen = [
            (0, C::Stale),
            (1, C::Stale),
            (1, C::FlushWanted),
            (0, C::Quarantined),
            (1, C::Flushed),
            (0, C::Flushed),
            (1, C::Fresh),
            (0, C::Fresh),
        ];
        let fresh = ServerNotice::Fresh { after: Duration::from_secs(7) };
        let wanted = [ServerNotice::Stale, ServerNotice::FlushWanted, ServerNotice::Flushed, fresh];
        assert_eq!(check(&seen), wanted);
    }

    #[test]
    fn who_leaves_is_forgotten() {
        let down = || ServerNotice::Unreachable { closes: false };
        let seen = [(0, GONE), (1, GONE), (0, C::Left), (1, C::Left), (0, C::Up), (0, GONE)];
        assert_eq!(check(&seen), [down(), down()]);
        let mut views = ServerViews::default();
        for what in [C::Up, GONE, C::Stale, C::Up, C::Fresh] {
            views.note(0, &Change { slot: Slot::from_index(0), server: "s:1".into(), what }, Instant::ZERO);
        }
        assert!(views.servers.is_empty(), "nothing is kept of who is well");
    }

    #[test]
    fn servers_and_connections_are_distinguished() {
        let mut views = ServerViews::default();
        let mut note = |slot: usize, server: &str, what| {
            let slot = Slot::from_index(slot);
            views.note(0, &Change { slot, server: server.into(), what }, Instant::ZERO)
        };
        assert!(note(0, "a", GONE).is_some());
        assert!(note(1, "b", GONE).is_some());
        assert!(note(2, "a", C::MarkedDown { timeouts: 3 }).is_some(), "that for large values");
        assert_eq!(note(0, "a", C::Up), None, "it is still silent");
        assert_eq!(note(2, "a", C::Up), Some(up(0)));
    }
}
