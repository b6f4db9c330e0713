//! When parts are late: each has a deadline, and the head's moves with the progress of its reply.

use super::{Backend, NEVER, Part, RequestKey, State, sooner};
use crate::servers::part::GivenUp;
use weir_timing::Instant;

impl Backend {
    /// Takes the request from every part whose time is up, and calls `expired` for it. Returns how many parts are late besides whose
    /// requests another server was asked for.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        timeout_ns: u64,
        mut expired: impl FnMut(RequestKey, Part),
    ) -> usize {
        let mut moved = 0;
        let head_deadline = self.head_deadline(timeout_ns);
        let mut timeouts = 0;
        let mut give_up = |part: &mut Part, timeouts: &mut u64| {
            match part.give_up() {
                Some(GivenUp::Request(request)) => expired(request, *part),
                Some(GivenUp::Moved) => moved += 1,
                None => return,
            }
            *timeouts += 1;
        };
        if let Some(head) =
            self.parts.front_mut().filter(|_| head_deadline.is_some_and(|deadline| deadline <= now))
        {
            give_up(head, &mut timeouts);
        }
        self.unexpired = self.unexpired.max(1);
        while let Some(part) = self.parts.get_mut(self.unexpired).filter(|part| part.deadline() <= now) {
            give_up(part, &mut timeouts);
            self.unexpired += 1;
        }
        if self.overtaking.is_some_and(|earliest| earliest <= now) {
            let mut latest = Instant::ZERO;
            self.overtaking = None;
            for part in self.parts.iter_mut().skip(1) {
                if part.deadline() <= now {
                    give_up(part, &mut timeouts);
                } else if part.request().is_some() && part.deadline() < latest {
                    self.overtaking =
                        Some(self.overtaking.map_or(part.deadline(), |it| it.min(part.deadline())));
                }
                latest = latest.max(part.deadline());
            }
        }
        self.tally.count_timeouts(timeouts);
        if timeouts > 0 {
            self.in_step.note_given_up(now, timeout_ns);
        }
        let waiting = [self.parts.front().filter(|part| part.is_awaited()), self.next_unexpired()];
        let waiting = waiting.into_iter().flatten().map(Part::deadline).chain(self.overtaking);
        let waiting = waiting.chain(self.step_due());
        self.soonest = self.soonest_of(waiting.min(), timeout_ns);
        moved
    }

    /// Whether a long reply is coming, and has made progress: what waits behind it may be late, and the server is not silent.
    pub(crate) fn is_answering(&self, now: Instant, timeout_ns: u64) -> bool {
        let is_coming = self.skip > 0 || !self.input.is_empty() || self.scattered.is_under_way();
        is_coming && now < self.progress.0.plus(timeout_ns)
    }

    /// When to look whether the replies are in step. A server that is marked down was asked with that (`mark_down.rs`), and a second
    /// connection finds out what becomes of it (`second_opinion.rs`).
    fn step_due(&self) -> Option<Instant> {
        if self.link.state() == State::Silent { None } else { self.in_step.due() }
    }

    /// Whether the next reply is to a request that was given up.
    pub(crate) fn is_head_given_up(&self) -> bool {
        self.parts.front().is_some_and(|head| head.is_load() && head.request().is_none())
    }

    /// The first part behind the head that was not checked for its deadline.
    fn next_unexpired(&self) -> Option<&Part> {
        self.parts.get(self.unexpired.max(1))
    }

    /// When the first part that still has a request will be late.
    pub(crate) fn next_deadline(&self, timeout_ns: u64) -> Option<Instant> {
        // What comes next may have been given up already, behind one that has more time; nothing that waits is late before `soonest`.
        let next = self.next_unexpired().map(|part| part.deadline().max(self.soonest));
        let next = sooner(next.filter(|next| *next != NEVER), self.step_due());
        let late = sooner(sooner(self.head_deadline(timeout_ns), next), self.overtaking);
        // `soonest` was reckoned with the timeout that held then.
        sooner(late, self.reads_late_at(timeout_ns).map(|at| at.max(self.soonest)))
    }

    /// The head's deadline moves with the progress of its reply: a long reply, and a long request, must go on, no more.
    fn head_deadline(&self, timeout_ns: u64) -> Option<Instant> {
        let head = self.parts.front().filter(|part| part.is_awaited())?;
        let is_leaving = head.is_long() && head.start() < self.out_start;
        let has_begun = !self.input.is_empty() || self.scattered.is_under_way();
        Some(if !has_begun && !is_leaving {
            head.deadline()
        } else {
            head.deadline().max(self.progress.0.plus(timeout_ns))
        })
    }
}
