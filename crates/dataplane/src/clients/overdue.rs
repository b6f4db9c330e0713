//! How long a client may say nothing, take to log in and over one request, and leave its replies unread.
//!
//! Nothing of this is looked at while requests come and go. When a request does not arrive whole, or a reply is not taken whole, the time
//! is remembered at which the first client may be overdue. All clients are looked at then.

use crate::{config::client_timeouts::ClientTimeouts, memory::budget::SCARCE_UNREAD_NS};
use weir_timing::Instant;

/// Why a client's connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Overdue {
    /// It said nothing for too long.
    Idle,
    /// It did not log in in time.
    Login,
    /// Its request took too long to arrive.
    Request,
    /// It took nothing of its replies for too long.
    Unread,
    /// It took too little of its replies for a while, and their memory is needed.
    Memory,
}

/// What a client is doing, as far as it may take too long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Doing {
    /// It owes us a request, is owed nothing, and has said nothing since then.
    pub idle_since: Option<Instant>,
    /// It must log in, and has not since it was connected then.
    pub locked_since: Option<Instant>,
    /// A request began to arrive then, and this many bytes of it have.
    pub request: Option<(Instant, usize)>,
    /// Replies wait for it, and it has taken nothing of them since then.
    pub unread_since: Option<Instant>,
    /// Replies wait for it, and it has taken less of them since then than `progress_bytes`.
    pub slow_since: Option<Instant>,
}

impl ClientTimeouts {
    /// When a client that goes on like this is overdue, and why.
    fn deadline(&self, doing: Doing) -> Option<(Instant, Overdue)> {
        let limit = |since: Option<Instant>, nanos: u64, why| {
            since.filter(|_| nanos > 0).map(|since| (since.plus(nanos), why))
        };
        let (since, arrived) = doing.request.unzip();
        let pieces = 1 + (arrived.unwrap_or(0) / self.progress_bytes.max(1)) as u64;
        let limits = [
            limit(doing.idle_since, self.idle_ns, Overdue::Idle),
            limit(doing.locked_since, self.login_ns, Overdue::Login),
            limit(since, self.request_ns.saturating_mul(pieces), Overdue::Request),
            limit(doing.unread_since, self.unread_ns, Overdue::Unread),
        ];
        limits.into_iter().flatten().min()
    }

    /// When clients must be looked at again, if the first of them is overdue at `earliest`: not much more often than the shortest
    /// of the limits asks for.
    fn next_look(&self, earliest: Option<Instant>, now: Instant) -> Option<Instant> {
        let limits = [self.idle_ns, self.login_ns, self.request_ns, self.unread_ns];
        let shortest = limits.into_iter().filter(|&nanos| nanos > 0).min()?;
        earliest.map(|at| at.max(now.plus(shortest / 8)))
    }
}

/// What was found when clients were looked at. `I` is the type of their numbers.
#[derive(Debug)]
pub struct Found<I> {
    /// Those whose connections are to be closed, and why.
    pub overdue: Vec<(I, Overdue)>,
    /// When to look again, if anybody goes on like this.
    pub next_look: Option<Instant>,
}

impl ClientTimeouts {
    /// Looks at clients: what each is doing, and how many bytes it makes us hold. If `excess` bytes are to be given up, those that have left
    /// replies unread are closed for it, first who has made no progress for longest: a byte now and then would keep memory for ever. But nobody
    /// is as long as others are overdue anyway.
    pub fn look<I: Copy + Ord>(
        &self,
        clients: impl Iterator<Item = (I, Doing, usize)>,
        excess: usize,
        now: Instant,
    ) -> Found<I> {
        let (mut overdue, mut unread) = (Vec::new(), Vec::new());
        let mut earliest: Option<Instant> = None;
        for (id, doing, held_bytes) in clients {
            match self.deadline(doing) {
                Some((at, why)) if at <= now => overdue.push((id, why)),
                Some((at, _)) => earliest = Some(earliest.map_or(at, |it| it.min(at))),
                None => {}
            }
            if let Some(since) = doing.slow_since.filter(|_| excess > 0) {
                unread.push((since, id, held_bytes));
            }
        }
        if overdue.is_empty() {
            overdue.extend(choose_unread(unread, excess, now).map(|id| (id, Overdue::Memory)));
        }
        Found { overdue, next_look: self.next_look(earliest, now) }
    }
}

/// Of clients that have taken too little of their replies since then, and make us hold this many bytes: those that are closed to give up
/// `excess` bytes, the slowest first.
fn choose_unread<I: Copy + Ord>(
    mut unread: Vec<(Instant, I, usize)>,
    excess: usize,
    now: Instant,
) -> impl Iterator<Item = I> {
    unread.retain(|(since, ..)| since.plus(SCARCE_UNREAD_NS) <= now);
    unread.sort_unstable();
    let mut freed = 0;
    unread.into_iter().map_while(move |(_, id, bytes)| {
        let is_needed = freed < excess;
        freed += bytes;
        is_needed.then_some(id)
    })
}

impl crate::Counters {
    /// A client's connection is closed for this reason.
    pub fn note_overdue(&mut self, why: Overdue) {
        match why {
            Overdue::Idle => self.sessions_closed_idle += 1,
            Overdue::Login => self.sessions_closed_login += 1,
            Overdue::Request => self.sessions_closed_slow += 1,
            Overdue::Unread => self.sessions_closed_unread += 1,
            Overdue::Memory => self.sessions_closed_memory += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_request_has_as_much_time_as_it_makes_progress() {
        let timeouts =
            ClientTimeouts { idle_ns: 0, login_ns: 12, request_ns: 10, unread_ns: 30, progress_bytes: 100 };
        let at = |nanos| Some(Instant::from_nanos(nanos));
        let request =
            |arrived| Doing { request: Some((Instant::from_nanos(5), arrived)), ..Doing::default() };
        let due = |doing| timeouts.deadline(doing).map(|(at, why)| (at.as_nanos(), why));
        assert_eq!(due(request(0)), Some((15, Overdue::Request)));
        assert_eq!(due(request(99)), Some((15, Overdue::Request)));
        assert_eq!(due(request(250)), Some((35, Overdue::Request)));
        assert_eq!(due(Doing { unread_since: at(1), ..request(250) }), Some((31, Overdue::Unread)));
        assert_eq!(due(Doing { locked_since: at(1), ..request(0) }), Some((13, Overdue::Login)));
        assert_eq!(due(Doing { idle_since: at(1), ..Doing::default() }), None, "for ever");
        let unread = vec![
            (Instant::from_nanos(9), 1, 100),
            (Instant::from_nanos(5), 2, 100),
            (Instant::from_nanos(7), 3, 100),
        ];
        let chosen = |excess| {
            choose_unread(unread.clone(), excess, Instant::from_nanos(SCARCE_UNREAD_NS + 8))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            (chosen(0), chosen(1), chosen(101), chosen(999)),
            (vec![], vec![2], vec![2, 3], vec![2, 3])
        );
        assert_eq!(timeouts.next_look(None, Instant::ZERO), None);
        assert_eq!(timeouts.next_look(at(2), Instant::from_nanos(100)), at(101));
    }
}
