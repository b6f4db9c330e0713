//! Whether a server is silent or only one connection to it: a second connection asks.
//!
//! A server that freezes accepts everything and says nothing. Its connection must stay: what was sent on it will be carried out, and only
//! an answer behind it shows that it is over (`mark_down.rs`). A connection whose path swallows bytes looks the same: a firewall or a
//! balancer has forgotten it, or one thread of the server hangs. It must be replaced, because no answer will ever come. The kernel finds
//! some of that out by itself, later. A second connection distinguishes the two:
//!
//! ```text
//!   silent ──▶ Asked: a second connection is made, and sends `version`
//!                │  ╲──no connection, no answer in time──▶ asked again on another one, which gets more time
//!                ▼
//!              Answered: the silent one has a moment left to answer, too
//!                ├──it is still silent──▶ it is broken: dropped, and made again
//!                └──it was heard──▶ asked again, if the server is still marked down
//! ```
//!
//! [`SecondOpinions`] owns when a question begins and ends, and what its answer means. It is asked by [`SecondOpinions::next`] what is
//! to be done, and `lifecycle.rs` does it. The second connection has a slot of its own, as one for large values has (`bulk.rs`); nothing
//! but this question is ever sent there. Each connection to a server may fall silent by itself, and is asked about by itself.

use crate::{servers::backend::Backend, servers::link::State, wire::ids::Slot};
use weir_timing::Instant;

/// The questions that are open; most of the time there is none.
#[derive(Debug, Default)]
pub(crate) struct SecondOpinions {
    open: Vec<Question>,
}

#[derive(Debug)]
struct Question {
    /// The slot whose connection is silent.
    about: Slot,
    stage: Stage,
    /// How many second connections were made for it.
    attempts: u32,
    /// When the stage ends.
    until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// There is no second connection.
    Paused,
    /// It is in this slot, being made, or has been asked.
    Asked(Slot),
    /// It was answered there.
    Answered(Slot),
}

/// What is heard of the connection that is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// Nothing at all.
    Lasts,
    /// Something was, and the server is still marked down.
    Interrupted,
    /// It is used again, or is there no more.
    Over,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Make a second connection to the server of this slot.
    Ask(Slot),
    /// Drop the second connection, which is in this slot.
    Drop(Slot),
    /// The connection of the slot `about` is broken. Drop it and the second one, and make it again.
    Replace {
        /// The slot.
        about: Slot,
        /// That of the second connection.
        second: Slot,
    },
}

/// The silent connection has a quarter of the timeout left when its server has answered the second one, and no more than this. A server
/// that goes on after a pause answers whichever connection it comes to first.
const GRACE_NS_MAX: u64 = 250_000_000;

/// With each attempt the next one has twice the time, up to the longest pause between attempts to connect; doubled no more often.
const DOUBLED_MAX: u32 = 16;

impl SecondOpinions {
    pub(crate) const fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// A connection is silent. Nothing changes if that is known.
    pub(crate) fn begin(&mut self, about: Slot, now: Instant) {
        if self.open.iter().all(|question| question.about != about) {
            self.open.push(Question { about, stage: Stage::Paused, attempts: 0, until: now });
        }
    }

    /// Whether a slot is a second connection's.
    pub(crate) fn has(&self, slot: Slot) -> bool {
        self.open.iter().any(|question| question.slot() == Some(slot))
    }

    /// A second connection is being made. `shortest_ns`: how long the first one may take to answer.
    pub(crate) fn note_asked(
        &mut self,
        about: Slot,
        slot: Option<Slot>,
        (shortest_ns, longest_ns): (u64, u64),
        now: Instant,
    ) {
        let Some(question) = self.open.iter_mut().find(|question| question.about == about) else { return };
        let doubled = shortest_ns.saturating_mul(1 << question.attempts.min(DOUBLED_MAX));
        question.until = now.plus(doubled.min(longest_ns.max(shortest_ns)));
        question.attempts += 1;
        question.stage = slot.map_or(Stage::Paused, Stage::Asked);
    }

    /// A second connection was answered; returns about which one it had been asked.
    pub(crate) fn note_answered(&mut self, slot: Slot, timeout_ns: u64, now: Instant) -> Option<Slot> {
        let question = self.open.iter_mut().find(|question| question.stage == Stage::Asked(slot))?;
        question.stage = Stage::Answered(slot);
        question.until = now.plus((timeout_ns / 4).min(GRACE_NS_MAX));
        Some(question.about)
    }

    /// A second connection is lost, or could not be made. The next attempt begins when this one would have ended.
    pub(crate) fn note_lost(&mut self, slot: Slot) {
        if let Some(question) = self.open.iter_mut().find(|question| question.slot() == Some(slot)) {
            question.stage = Stage::Paused;
        }
    }

    /// A slot is free: it means nothing any more.
    pub(crate) fn forget(&mut self, slot: Slot) {
        self.open.retain(|question| question.about != slot);
        self.note_lost(slot);
    }

    /// When [`SecondOpinions::next`] has something to say at the latest.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.open.iter().map(|question| question.until).min()
    }

    /// The next thing that is to be done, if there is any now. `silence` tells what is heard of a slot.
    pub(crate) fn next(&mut self, silence: impl Fn(Slot) -> Silence, now: Instant) -> Option<Step> {
        let mut index = 0;
        while let Some(question) = self.open.get_mut(index) {
            let (silence, is_due) = (silence(question.about), question.until <= now);
            match (question.stage, silence) {
                (Stage::Paused, Silence::Over) => {
                    self.open.swap_remove(index);
                    continue;
                }
                (Stage::Paused, _) if is_due => return Some(Step::Ask(question.about)),
                (Stage::Answered(second), Silence::Lasts) if is_due => {
                    let about = question.about;
                    self.open.swap_remove(index);
                    return Some(Step::Replace { about, second });
                }
                (Stage::Asked(slot) | Stage::Answered(slot), _) if is_due || silence == Silence::Over => {
                    question.stage = Stage::Paused;
                    return Some(Step::Drop(slot));
                }
                _ => index += 1,
            }
        }
        None
    }
}

impl Question {
    fn slot(&self) -> Option<Slot> {
        match self.stage {
            Stage::Paused => None,
            Stage::Asked(slot) | Stage::Answered(slot) => Some(slot),
        }
    }
}

/// What is heard of a connection. `is_serving`: its server is one of the table in force.
pub(super) fn silence(backend: &Backend, is_serving: bool) -> Silence {
    match backend.state() {
        State::Up | State::Silent if is_serving && !backend.link().is_renewing() => match backend.state() {
            _ if backend.health().late_in_a_row() > 0 => Silence::Lasts,
            State::Silent => Silence::Interrupted,
            _ => Silence::Over,
        },
        _ => Silence::Over,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ids::slot;

    const TIMES: (u64, u64) = (100, 450);

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// Asked about slot 7 over slot 9, and answered.
    fn answered() -> SecondOpinions {
        let mut opinions = SecondOpinions::default();
        opinions.begin(slot(7), at(0));
        opinions.begin(slot(7), at(0));
        assert_eq!(opinions.next(|_| Silence::Lasts, at(0)), Some(Step::Ask(slot(7))));
        opinions.note_asked(slot(7), Some(slot(9)), TIMES, at(0));
        assert_eq!(opinions.next(|_| Silence::Lasts, at(0)), None);
        assert_eq!(opinions.note_answered(slot(9), 100, at(10)), Some(slot(7)));
        opinions
    }

    #[test]
    fn a_connection_is_broken_if_it_is_still_silent_a_moment_after_the_answer() {
        let mut opinions = answered();
        assert_eq!(opinions.due(), Some(at(35)));
        assert_eq!(opinions.next(|_| Silence::Lasts, at(34)), None);
        assert_eq!(
            opinions.next(|_| Silence::Lasts, at(35)),
            Some(Step::Replace { about: slot(7), second: slot(9) })
        );
        assert!(opinions.is_empty());
    }

    #[test]
    fn what_was_heard_is_not_broken() {
        let mut opinions = answered();
        assert_eq!(opinions.next(|_| Silence::Over, at(11)), Some(Step::Drop(slot(9))));
        assert_eq!(opinions.next(|_| Silence::Over, at(11)), None);
        assert!(opinions.is_empty());
        let mut opinions = answered();
        assert_eq!(opinions.next(|_| Silence::Interrupted, at(35)), Some(Step::Drop(slot(9))));
        assert_eq!(
            opinions.next(|_| Silence::Interrupted, at(35)),
            Some(Step::Ask(slot(7))),
            "it is still marked down"
        );
    }

    #[test]
    fn each_attempt_has_twice_the_time_and_a_failed_one_uses_it_up() {
        let mut opinions = SecondOpinions::default();
        opinions.begin(slot(7), at(0));
        let mut now = 0;
        for time in [100, 200, 400, 450, 450] {
            assert_eq!(opinions.next(|_| Silence::Lasts, at(now)), Some(Step::Ask(slot(7))));
            opinions.note_asked(slot(7), Some(slot(9)), TIMES, at(now));
            opinions.note_lost(slot(9));
            now += time;
            assert_eq!(opinions.next(|_| Silence::Lasts, at(now - 1)), None);
            assert_eq!(opinions.due(), Some(at(now)));
        }
    }

    #[test]
    fn two_questions_do_not_know_of_each_other() {
        let mut opinions = answered();
        opinions.begin(slot(8), at(20));
        assert_eq!(opinions.next(|_| Silence::Lasts, at(20)), Some(Step::Ask(slot(8))));
        opinions.note_asked(slot(8), Some(slot(10)), TIMES, at(20));
        opinions.forget(slot(10));
        assert_eq!(
            opinions.next(|_| Silence::Lasts, at(35)),
            Some(Step::Replace { about: slot(7), second: slot(9) })
        );
        opinions.forget(slot(8));
        assert!(opinions.is_empty());
    }
}
