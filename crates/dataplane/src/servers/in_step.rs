//! Whether the replies of a connection are in step with its requests.
//!
//! Replies are distinguished by their order alone. A server that loses requests and goes on, or whatever stands before it and does so, puts
//! the reply to each later request into the place of an earlier one that was given up. Where all replies are alike (`STORED`), nothing
//! looks wrong: every request is late, for ever.
//!
//! ```text
//!   asked:       set 1 (lost)   set 2 (lost)   set 3      set 4
//!   answered:                                  STORED     STORED
//!   taken for:   set 1, late    set 2, late    none: its deadline passes      ◀── late, though the server has answered since
//! ```
//!
//! That is the sign. Then the server is asked for its version. That answer fits no other request, and no other answer fits its place: out of
//! step, one of both comes next, and the connection is replaced. In step it comes in its turn.
//!
//! Where nothing more is asked, because what was lost is waited for, there is no such sign. So the server is also asked a timeout after a
//! request was given up, if the next reply is still that request's, and then after pauses that double. A server that is frozen
//! answers them all in their turn.
//!
//! Questions are lost, too. The first answer is taken for that to the first question whose place comes next. So as many more are asked as
//! stand there, up to a bound at once:
//!
//! ```text
//!   asked:       set 1 (lost)   version (lost)   set 2        ┊ version   version
//!   answered:                                    STORED       ┊ VERSION   VERSION
//!   taken for:   set 1, late                                  ┊ the lost question; set 2, which it does not fit
//! ```
//!
//! It learns of late replies, late requests and the answer; it says whether to ask.

use crate::servers::part::Part;
use weir_timing::Instant;

/// How many questions are asked at once at most, so that a server that answers few of them costs little memory.
pub(super) const QUESTIONS_AT_ONCE_MAX: usize = 32;

/// How often the pause before the next question is doubled.
const DOUBLINGS_MAX: u32 = 6;

/// What is known of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InStep {
    /// When the last reply came to a request that had been given up.
    late_reply: Option<Instant>,
    /// The question is on its way.
    is_asked: bool,
    /// When the server is asked, if the reply that comes next is then to a request that was given up; and how often it was.
    ask_at: Option<Instant>,
    asked: u32,
}

impl InStep {
    /// Whether a late request is a sign that the replies are out of step.
    pub(crate) fn is_doubted_by(self, late: &Part) -> bool {
        !self.is_asked && self.late_reply.is_some_and(|at| at > late.sent())
    }

    /// A reply came to a request that had been given up.
    pub(crate) const fn note_late_reply(&mut self, now: Instant) {
        self.late_reply = Some(now);
    }

    /// A request was given up.
    pub(crate) fn note_given_up(&mut self, now: Instant, timeout_ns: u64) {
        self.ask_at.get_or_insert(now.plus(timeout_ns));
    }

    /// When to look whether the server is to be asked.
    #[inline]
    pub(crate) const fn due(self) -> Option<Instant> {
        self.ask_at
    }

    /// Whether to ask now. `is_next_given_up`: the reply that comes next, but for answers to such questions, is to a request that was given up.
    pub(crate) fn is_to_ask(&mut self, is_next_given_up: bool, timeout_ns: u64, now: Instant) -> bool {
        if self.ask_at.is_none_or(|at| now < at) {
            return false;
        }
        let pause = timeout_ns << (self.asked + 1).min(DOUBLINGS_MAX);
        self.ask_at = is_next_given_up.then(|| now.plus(pause));
        self.asked = if is_next_given_up { self.asked + 1 } else { 0 };
        is_next_given_up
    }

    /// The question is on its way.
    pub(crate) const fn note_asked(&mut self) {
        self.is_asked = true;
    }

    /// The version came in its turn.
    pub(crate) const fn note_confirmed(&mut self) {
        self.late_reply = None;
        self.is_asked = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT_NS: u64 = 100;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn it_is_asked_a_timeout_after_a_request_was_given_up_and_then_after_pauses_that_double() {
        let mut it = InStep::default();
        assert!(!it.is_to_ask(true, TIMEOUT_NS, at(1000)), "nothing was given up");
        it.note_given_up(at(0), TIMEOUT_NS);
        it.note_given_up(at(50), TIMEOUT_NS);
        assert_eq!(it.due(), Some(at(100)), "the first one counts");
        assert!(!it.is_to_ask(true, TIMEOUT_NS, at(99)) && it.is_to_ask(true, TIMEOUT_NS, at(100)));
        assert_eq!(it.due(), Some(at(300)));
        assert!(it.is_to_ask(true, TIMEOUT_NS, at(300)));
        assert_eq!(it.due(), Some(at(700)));
        assert!(!it.is_to_ask(false, TIMEOUT_NS, at(700)), "the next reply is to one that waits");
        assert_eq!(it.due(), None);
    }
}
