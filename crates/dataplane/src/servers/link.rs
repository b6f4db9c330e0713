//! The connection to a server: in which state it is, and when it is tried again.
//!
//! ```text
//!   Idle ──begin──▶ Connecting ──greet──▶ Greeting ──open──▶ Up ◀────wake──── Silent
//!                     ▲  │                   │               │ ╲──silence───────▲
//!                     │  │ failed            │ refused       │ lost: at once, or left alone if it did not last
//!                     │  ▼                   ▼               ▼
//!                     │ Down ◀───────────────┴───────────────┤
//!                     │  ╰──probe──▶ Probing ──greet──▶ Greeting (as a probe)
//!                     ╰──────────────────────────────────────╯
//! ```
//!
//! Where nothing is asked before clients' requests, `open` comes in the place of `greet`. A connection that is `Silent` is lost like one
//! that is `Up`.
//!
//! [`Link`] owns the state, the greeting that is open on it (`greeting.rs`), whether the kernel takes bytes, whether the connection is to
//! be replaced, and how often in a row it failed. It learns what was done and what came of it. It answers whether requests may be sent,
//! wait or are refused, when to look at it again, and how long to pause.
//!
//! A connection that is lost is made again at once: its server was most likely started anew. It pauses first where nothing was answered on
//! the last one, where what the server says is no answer, and where connections end soon after each other though they were answered on.
//! Each of these counts in a row, and makes the pause longer.

use crate::{
    servers::changes::DownReason,
    servers::credentials::Credentials,
    servers::greeting::{Greeted, Greeting, Question},
    wire::fault::Fault,
    wire::version::Version,
};
use std::sync::Arc;
use weir_timing::Instant;

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// Its kind in a byte of its own is read faster than out of the other fields, and it is read several times per server and turn.
#[repr(u8)]
pub(crate) enum State {
    Idle,
    Connecting {
        since: Instant,
    },
    /// Connected, and not yet known to serve us (`greeting.rs`). `is_probe`: it was down before.
    Greeting {
        since: Instant,
        is_probe: bool,
    },
    Up,
    /// Connected, and marked down because it does not answer (`mark_down.rs`).
    Silent,
    Down {
        until: Instant,
    },
    Probing {
        since: Instant,
    },
}

/// One connection to one server.
#[derive(Debug)]
pub(super) struct Link {
    state: State,
    /// The kernel took less than was offered; it will say when it takes more.
    blocked: bool,
    /// The connection is to be replaced when all that was begun on it is answered.
    renewing: bool,
    /// What is said before anything of a client, until it is answered.
    greeting: Option<Box<Greeting>>,
    /// The server has logged us in.
    logged_in: bool,
    /// Why it is down, if it lets nobody in.
    refusal: Option<Fault>,
    /// Attempts to connect that failed, and connections that were lost, since it answered anything.
    failures: u32,
    /// Connections in a row that did not last because of what the server said on them.
    violations: u32,
    /// Connections in a row that were answered on, and ended soon after they were made.
    endings: u32,
    /// When the connection was made.
    connected: Instant,
}

/// What a server said to a greeting.
#[derive(Debug)]
pub(super) struct Said {
    pub(super) greeted: Greeted,
    pub(super) question: Question,
    /// The beginning of what came.
    pub(super) excerpt: String,
}

/// Small differences between pauses, so that many proxies do not knock together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jitter(u64);

impl State {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Connecting { .. } | Self::Greeting { is_probe: false, .. } => "connecting",
            Self::Up => "up",
            Self::Silent
            | Self::Down { .. }
            | Self::Probing { .. }
            | Self::Greeting { is_probe: true, .. } => "down",
        }
    }

    /// Whether requests are refused at once.
    #[inline]
    pub(crate) const fn is_down(self) -> bool {
        matches!(
            self,
            Self::Down { .. } | Self::Probing { .. } | Self::Silent | Self::Greeting { is_probe: true, .. }
        )
    }
}

impl Link {
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            state: State::Idle,
            blocked: false,
            renewing: false,
            greeting: None,
            logged_in: false,
            refusal: None,
            failures: 0,
            violations: 0,
            endings: 0,
            connected: now,
        }
    }

    // ── asked ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

    #[inline]
    pub(super) const fn state(&self) -> State {
        self.state
    }

    #[inline]
    pub(super) fn is_up(&self) -> bool {
        self.state == State::Up
    }

    #[inline]
    pub(super) const fn is_connected(&self) -> bool {
        matches!(self.state, State::Up | State::Silent)
    }

    /// Whether there is a connection.
    pub(super) const fn is_established(&self) -> bool {
        self.is_connected() || self.is_greeting()
    }

    pub(super) const fn is_greeting(&self) -> bool {
        matches!(self.state, State::Greeting { .. })
    }

    /// Whether requests can be sent, or wait for a connection that is made anew after there was one.
    pub(super) const fn is_serving(&self) -> bool {
        match self.state {
            State::Up => true,
            State::Connecting { .. } | State::Greeting { is_probe: false, .. } => self.failures > 0,
            _ => false,
        }
    }

    /// Whether it is being made for the first time.
    pub(super) const fn is_opening(&self) -> bool {
        let is_on_its_way =
            matches!(self.state, State::Connecting { .. } | State::Greeting { is_probe: false, .. });
        is_on_its_way && self.failures == 0
    }

    /// Whether the kernel takes bytes, as far as is known.
    #[inline]
    pub(super) const fn is_blocked(&self) -> bool {
        self.blocked
    }

    #[inline]
    pub(super) const fn set_blocked(&mut self, blocked: bool) {
        self.blocked = blocked;
    }

    /// Whether the connection is to be replaced when all that was begun on it is answered.
    #[inline]
    pub(super) const fn is_renewing(&self) -> bool {
        self.renewing
    }

    pub(super) const fn set_renewing(&mut self, renewing: bool) {
        self.renewing = renewing;
    }

    /// Why it is down, if it lets nobody in.
    pub(super) const fn refusal(&self) -> Option<Fault> {
        self.refusal
    }

    /// When the attempt to connect is over that has so long, or the pause before the next one.
    #[inline]
    pub(super) fn due(&self, connect_timeout_ns: u64) -> Option<Instant> {
        match self.state {
            State::Down { until } => Some(until),
            State::Connecting { since } | State::Greeting { since, .. } | State::Probing { since } => {
                Some(since.plus(connect_timeout_ns))
            }
            State::Idle | State::Up | State::Silent => None,
        }
    }

    /// Why a connection that could not be made, or was not of use, makes the server down. `said`: what the last trouble was.
    pub(super) fn down_reason(
        &self,
        fault: Fault,
        said: Option<String>,
        (connect_timeout_ns, now): (u64, Instant),
    ) -> DownReason {
        match fault {
            Fault::Unauthenticated if self.is_login_refused() => DownReason::LoginRefused,
            Fault::Unauthenticated => DownReason::LoginWanted,
            Fault::Protocol => DownReason::Garbage { said: said.unwrap_or_default() },
            _ if !self.is_greeting() => DownReason::Unreachable,
            _ if self.due(connect_timeout_ns).is_some_and(|due| due <= now) => DownReason::Unanswered,
            _ => DownReason::Closes,
        }
    }

    /// The pause before the next attempt: doubled with each failure, and between half and all of that.
    pub(super) fn pause(&self, bounds: (u64, u64), jitter: &mut Jitter) -> u64 {
        jitter.shorten(doubled(bounds, self.failures))
    }

    // ── made ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// It is being connected to.
    pub(super) fn begin(&mut self, now: Instant) {
        (self.state, self.greeting) = (State::Connecting { since: now }, None);
    }

    /// It is being connected to again, and requests are refused meanwhile.
    pub(super) const fn probe(&mut self, now: Instant) {
        self.state = State::Probing { since: now };
    }

    /// It is connected, and the server is asked before anything of a client is sent.
    pub(super) fn greet(&mut self, question: Question, credentials: Option<Arc<Credentials>>, now: Instant) {
        self.state = State::Greeting { since: now, is_probe: self.state.is_down() };
        self.logged_in = false;
        self.ask(question, credentials);
    }

    /// The next question of the greeting.
    pub(super) fn ask(&mut self, question: Question, credentials: Option<Arc<Credentials>>) {
        self.greeting = Some(Box::new(Greeting::new(question, credentials)));
    }

    /// The server has logged us in, on this connection.
    pub(super) const fn note_logged_in(&mut self) {
        self.logged_in = true;
    }

    /// Whether a login was sent that the server did not take, or that does not help.
    pub(super) fn is_login_refused(&self) -> bool {
        self.logged_in || self.question() == Some(Question::Login)
    }

    /// The time for the greeting runs from then on.
    pub(super) const fn extend_greeting(&mut self, from: Instant) {
        if let State::Greeting { since, .. } = &mut self.state {
            *since = from;
        }
    }

    /// Requests may be sent.
    pub(super) fn open(&mut self, now: Instant) {
        (self.greeting, self.refusal) = (None, None);
        self.state = State::Up;
        self.connected = now;
    }

    // ── greeted ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    #[inline]
    pub(super) const fn has_greeting(&self) -> bool {
        self.greeting.is_some()
    }

    /// What of the greeting is still to be written; `None` if there is none.
    #[inline]
    pub(super) fn greeting_output(&self) -> Option<&[u8]> {
        self.greeting.as_ref().map(|greeting| greeting.output())
    }

    pub(super) fn wants_to_greet(&self) -> bool {
        !self.blocked && self.greeting_output().is_some_and(|output| !output.is_empty())
    }

    /// This many bytes of it were handed to the kernel. Returns whether there is a greeting.
    pub(super) fn note_greeted(&mut self, count: usize) -> bool {
        let Some(greeting) = &mut self.greeting else { return false };
        greeting.handle_written(count);
        self.blocked = !greeting.output().is_empty();
        true
    }

    /// What came to the question that is open.
    pub(super) fn take_greeting_bytes(&mut self, bytes: &[u8]) -> Option<Said> {
        let greeting = self.greeting.as_mut()?;
        let greeted = greeting.handle_bytes(bytes);
        if matches!(greeted, Greeted::LoginWanted | Greeted::LoginRefused) {
            self.refusal = Some(Fault::Unauthenticated);
        }
        Some(Said { greeted, question: greeting.question(), excerpt: greeting.excerpt() })
    }

    /// The question that is open.
    pub(super) fn question(&self) -> Option<Question> {
        self.greeting.as_ref().map(|greeting| greeting.question())
    }

    /// The question that was asked and to which nothing has come.
    pub(super) fn unanswered_question(&self) -> Option<Question> {
        let greeting = self.greeting.as_ref().filter(|greeting| greeting.is_unanswered())?;
        Some(greeting.question())
    }

    /// The question that is open was answered: which one that was, the version that was named, and the reply.
    pub(super) fn end_question(&mut self) -> Option<(Question, Option<Version>, Vec<u8>)> {
        let greeting = self.greeting.take()?;
        Some((greeting.question(), greeting.version(), greeting.into_reply()))
    }

    // ── lost ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// The server has answered what it was asked.
    #[inline]
    pub(super) const fn note_answered(&mut self) {
        self.failures = 0;
    }

    /// It does not answer: it is marked down, and stays connected.
    pub(super) const fn silence(&mut self) {
        self.state = State::Silent;
    }

    /// It has answered. Returns whether it was marked down.
    pub(super) fn wake(&mut self) -> bool {
        let was_silent = self.state == State::Silent;
        if was_silent {
            self.state = State::Up;
        }
        was_silent
    }

    /// The connection is gone, and with it what was known of it alone.
    pub(super) fn lose(&mut self) {
        (self.blocked, self.renewing, self.greeting) = (false, false, None);
    }

    /// The connection is replaced by one that is being made.
    pub(super) const fn replace(&mut self) {
        (self.blocked, self.renewing) = (false, false);
    }

    /// A connection is lost: whether the next one may be made at once. It may if this one has lasted for so long, or was answered on.
    pub(super) fn may_connect_at_once(&mut self, lasting_ns: u64, now: Instant) -> bool {
        let may = self.failures == 0 || self.has_lasted(lasting_ns, now);
        if may {
            self.failures = 1;
        }
        may
    }

    /// Requests are refused until then.
    pub(super) const fn leave_alone(&mut self, until: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.state = State::Down { until };
    }

    /// The connection is given up because of what the server said on it. Good replies before that do not make the next one better: only one
    /// that lasts does. `counts`: the trouble was not that of another get in the same message.
    pub(super) fn note_violation(&mut self, counts: bool, lasting_ns: u64, now: Instant) {
        let counts = u32::from(counts);
        let has_lasted = self.has_lasted(lasting_ns, now);
        self.violations = if has_lasted { counts } else { self.violations.saturating_add(counts) };
        self.failures = self.failures.max(self.violations.saturating_sub(1));
    }

    /// The server or the network has ended the connection. Returns whether enough in a row have ended soon for the next one to be made
    /// after a pause, which has these bounds. Answers do not excuse that: a server that closes behind each of them would be connected to as
    /// fast as it answers. A connection that has lasted for as long as the pause needs none.
    pub(super) fn note_ended(&mut self, bounds: (u64, u64), now: Instant) -> bool {
        if self.failures > 0 {
            // Nothing was answered on it, which counts already.
            return false;
        }
        let in_a_row = self.endings.saturating_add(1);
        let doublings = in_a_row.saturating_sub(ENDINGS_MAX).min(ENDING_DOUBLINGS_MAX);
        let has_lasted = self.has_lasted(doubled(bounds, doublings), now);
        (self.endings, self.failures) = if has_lasted { (0, 0) } else { (in_a_row, doublings) };
        self.failures > 0
    }

    fn has_lasted(&self, lasting_ns: u64, now: Instant) -> bool {
        self.connected.plus(lasting_ns) <= now
    }
}

/// This number in a row may be chance: a server that is started anew, and whoever stands before it.
const ENDINGS_MAX: u32 = 8;

/// Their pause grows no further, to 16 times the shortest one. The server answers, and whoever can make it end its connections is not to take
/// it from all others for long.
const ENDING_DOUBLINGS_MAX: u32 = 4;

/// The shortest pause, doubled so often, and no longer than the longest.
fn doubled((shortest_ns, longest_ns): (u64, u64), times: u32) -> u64 {
    (shortest_ns << times.min(16)).min(longest_ns)
}

impl Jitter {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Between half and all of this many nanoseconds.
    fn shorten(&mut self, nanos: u64) -> u64 {
        // xorshift64: jitter needs no better randomness.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        nanos / 2 + self.0 % (nanos / 2 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTING_NS: u64 = 1000;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn open() -> Link {
        let mut link = Link::new(at(0));
        link.begin(at(0));
        link.open(at(0));
        link
    }

    #[test]
    fn a_connection_is_made_greeted_and_used() {
        let mut link = Link::new(at(0));
        assert_eq!((link.state().name(), link.due(100)), ("idle", None));
        link.begin(at(5));
        assert!(link.is_opening() && !link.is_serving());
        assert_eq!((link.state().name(), link.due(100)), ("connecting", Some(at(105))));
        link.greet(Question::Version, None, at(10));
        assert!(link.wants_to_greet() && link.is_opening() && link.is_greeting());
        assert_eq!(link.due(100), Some(at(110)));
        assert!(link.note_greeted(3));
        assert!(!link.wants_to_greet(), "the kernel takes no more for now");
        link.set_blocked(false);
        let left = link.greeting_output().expect("a greeting").len();
        assert!(link.note_greeted(left));
        assert_eq!(link.unanswered_question(), Some(Question::Version));
        let said = link.take_greeting_bytes(b"VERSION 1.6.18\r\n").expect("it was asked");
        assert_eq!(said.greeted, Greeted::Welcome);
        let (question, version, _) = link.end_question().expect("it was asked");
        assert_eq!((question, version.is_some()), (Question::Version, true));
        link.open(at(20));
        assert!(link.is_up() && link.is_serving() && !link.has_greeting());
    }

    #[test]
    fn whoever_was_down_is_down_until_it_is_greeted() {
        let mut link = open();
        link.leave_alone(at(50));
        assert_eq!((link.state().name(), link.due(100)), ("down", Some(at(50))));
        link.probe(at(60));
        assert!(link.state().is_down());
        link.greet(Question::Version, None, at(70));
        assert!(link.state().is_down() && !link.is_serving());
        link.take_greeting_bytes(b"CLIENT_ERROR unauthenticated\r\n").expect("it was asked");
        assert_eq!(link.refusal(), Some(Fault::Unauthenticated));
        link.open(at(80));
        assert_eq!((link.state().name(), link.refusal()), ("up", None));
    }

    #[test]
    fn a_second_connection_in_a_row_that_does_not_last_is_left_alone() {
        let mut link = open();
        assert!(link.may_connect_at_once(LASTING_NS, at(10)), "the first one is accident");
        link.begin(at(10));
        assert!(link.is_serving(), "what waits is sent on the next one");
        link.open(at(20));
        assert!(!link.may_connect_at_once(LASTING_NS, at(30)), "nothing was answered on it");
        assert!(link.may_connect_at_once(LASTING_NS, at(20 + LASTING_NS)), "it has lasted");
        link.note_answered();
        assert!(link.may_connect_at_once(LASTING_NS, at(30)), "it was answered on");
    }

    #[test]
    fn good_replies_do_not_excuse_bad_ones() {
        let mut link = open();
        for _ in 0..2 {
            link.note_answered();
            link.note_violation(true, LASTING_NS, at(10));
        }
        assert!(!link.may_connect_at_once(LASTING_NS, at(10)));
        link.note_answered();
        link.note_violation(true, LASTING_NS, at(LASTING_NS));
        assert!(link.may_connect_at_once(LASTING_NS, at(10)), "one that lasts begins anew");
        link.note_answered();
        link.note_violation(false, LASTING_NS, at(10));
        assert!(link.may_connect_at_once(LASTING_NS, at(10)), "that was a neighbour's trouble");
    }

    #[test]
    fn answers_do_not_excuse_connections_that_end_soon_after_each_other() {
        const BOUNDS: (u64, u64) = (10, 100);
        let mut link = open();
        let ends = |link: &mut Link, after| {
            link.note_answered();
            let pauses = link.note_ended(BOUNDS, at(after));
            assert_eq!(link.may_connect_at_once(BOUNDS.1, at(after)), !pauses, "{after}");
            pauses
        };
        assert!(!(0..ENDINGS_MAX).any(|_| ends(&mut link, 9)), "they may be chance");
        for doublings in [1, 2, 3, 4, 4] {
            assert!(ends(&mut link, 19));
            assert_eq!(link.failures, doublings, "the pause is longer, up to a bound");
        }
        assert!(!ends(&mut link, 100), "it has lasted for as long as the pause would");
        assert!(!ends(&mut link, 9), "and so the next one is the first");
        link.leave_alone(at(50));
        assert!(!link.note_ended(BOUNDS, at(9)) && link.endings == 1, "nothing was answered on it");
    }

    #[test]
    fn silence_ends_with_an_answer_and_not_otherwise() {
        let mut link = open();
        assert!(!link.wake());
        link.silence();
        assert!(link.state().is_down() && link.is_connected() && !link.is_up());
        assert!(link.wake() && link.is_up());
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_differ() {
        let (mut link, mut jitter) = (open(), Jitter::new(0));
        for doubled in [10, 20, 40, 80, 100, 100] {
            let pause = link.pause((10, 100), &mut jitter);
            assert!((doubled / 2..=doubled).contains(&pause), "{pause} of {doubled}");
            link.leave_alone(at(0));
        }
    }

    #[test]
    fn why_a_server_is_down_depends_on_how_far_it_came() {
        let mut link = Link::new(at(0));
        link.begin(at(0));
        let reason = |link: &Link, fault, now| link.down_reason(fault, Some("?".into()), (100, at(now)));
        assert_eq!(reason(&link, Fault::Connect, 200), DownReason::Unreachable);
        link.greet(Question::Version, None, at(0));
        assert_eq!(reason(&link, Fault::Connect, 99), DownReason::Closes);
        assert_eq!(reason(&link, Fault::Connect, 100), DownReason::Unanswered);
        assert_eq!(reason(&link, Fault::Protocol, 99), DownReason::Garbage { said: "?".into() });
        assert_eq!(reason(&link, Fault::Unauthenticated, 99), DownReason::LoginWanted);
        link.ask(Question::Login, None);
        assert_eq!(reason(&link, Fault::Unauthenticated, 99), DownReason::LoginRefused);
        link.note_logged_in();
        link.ask(Question::Version, None);
        assert_eq!(reason(&link, Fault::Unauthenticated, 99), DownReason::LoginRefused);
        link.greet(Question::Version, None, at(0));
        assert_eq!(reason(&link, Fault::Unauthenticated, 99), DownReason::LoginWanted, "another connection");
    }
}
