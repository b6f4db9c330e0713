//! Connections to servers: made, greeted, tried again, given up, lost.

use crate::{
    servers::Servers,
    servers::changes::{DownReason, ReplacedReason, ServerChange},
    servers::deadlines::LateRead,
    servers::greeting::{Greeted, Question},
    servers::happened::{Ending, Happened, Lost, LostErrands, Retry},
    servers::link::{Said, State},
    servers::order::Order,
    servers::part::{Part, RequestKey},
    wire::fault::Fault,
};
use weir_protocol::Violation;
use weir_timing::Instant;

impl Servers {
    // ── made ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    pub(crate) fn connect(&mut self, server: usize, now: Instant) {
        self[server].link_mut().begin(now);
        self.count_greetings();
        self.orders.push_back(Order::Connect(server));
    }

    /// The connection that was asked for is there.
    pub(crate) fn handle_connected(&mut self, server: usize, now: Instant) {
        if self.second_opinions.has(server) {
            return self.ask_second_opinion(server, now);
        }
        self.counters.server_connects += 1;
        self.happened.push_back(Happened::Tried);
        self.greet(server, now);
    }

    /// The connection could not be made, or the server closed it.
    pub(crate) fn handle_disconnected(&mut self, server: usize, now: Instant) {
        self.happened.push_back(Happened::MayBeEmpty(server));
        match self[server].state() {
            State::Up | State::Silent => {
                self.lose_connection(server, Fault::Closed, Ending::ByServer, now);
                self.connect_again(server, DownReason::Closes, now);
            }
            State::Greeting { .. } if self.note_closed_at_question(server) => self.connect(server, now),
            State::Connecting { .. } | State::Greeting { .. } | State::Probing { .. } => {
                self.connect_failed(server, Fault::Connect, now);
            }
            State::Idle | State::Down { .. } => {}
        }
    }

    /// An established connection broke without the server's doing.
    pub(crate) fn handle_broken(&mut self, server: usize, now: Instant) {
        if !self[server].link().is_connected() {
            return self.handle_disconnected(server, now);
        }
        self.happened.push_back(Happened::MayBeEmpty(server));
        self.lose_connection(server, Fault::Closed, Ending::Otherwise, now);
        self.connect_again(server, DownReason::Closes, now);
    }

    // ── greeted ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A connection was made. Nothing of a client goes there before the server has shown that it serves us.
    fn greet(&mut self, server: usize, now: Instant) {
        let question = if self.config.greets() {
            self[self.slots.own(server)].questions().first()
        } else if self.is_asked_item_size(server) {
            Question::Settings
        } else {
            return self.use_connection(server, now);
        };
        self[server].link_mut().greet(question, now);
        self.count_greetings();
    }

    fn ask(&mut self, server: usize, question: Question) {
        self[server].link_mut().ask(question);
        self.count_greetings();
    }

    pub(super) fn count_greetings(&mut self) {
        self.greetings = self.all.iter().filter(|backend| backend.link().has_greeting()).count();
    }

    /// Whether nothing of a client goes to this server yet.
    #[inline]
    pub(crate) fn is_greeting(&self, server: usize) -> bool {
        self.greetings > 0 && self[server].link().has_greeting()
    }

    /// The next server that is to be greeted, if it comes before the next one for which requests wait.
    #[cold]
    pub(super) fn next_greeted(&self, first: usize) -> Option<usize> {
        let mut busy = std::iter::successors(self.busy.next(first), |&it| self.busy.next(it + 1));
        let next = busy.find(|&server| self[server].link().wants_to_greet() || self[server].wants_write())?;
        self[next].link().wants_to_greet().then_some(next)
    }

    /// Bytes were handed to the kernel. Returns whether they were a greeting's.
    #[cold]
    pub(super) fn note_greeted(&mut self, server: usize, count: usize) -> bool {
        self[server].link_mut().note_greeted(count)
    }

    /// What a server says to that.
    #[cold]
    pub(crate) fn take_greeting(&mut self, server: usize, bytes: &[u8], now: Instant) {
        let backend = &mut self[server];
        let Some(Said { greeted, question, excerpt }) = backend.link_mut().take_greeting_bytes(bytes) else {
            return;
        };
        let fault = match greeted {
            Greeted::NotYet => return,
            Greeted::Welcome => return self.go_on_greeting(server, now),
            Greeted::Nonsense => {
                backend.note_trouble(Violation::UnexpectedLine(excerpt));
                self.counters.server_violations += 1;
                if question == Question::Settings {
                    self.note_unknown_question(server, Question::Settings);
                }
                Fault::Protocol
            }
            Greeted::LoginWanted => {
                backend.note_trouble(Violation::UnexpectedLine(excerpt));
                self.counters.server_logins_wanted += 1;
                Fault::Unauthenticated
            }
        };
        self.orders.push_back(Order::Disconnect(server));
        self.connect_failed(server, fault, now);
    }

    /// A question was answered.
    fn go_on_greeting(&mut self, server: usize, now: Instant) {
        let own = self.slots.own(server);
        let Some((question, version, reply)) = self[server].link_mut().end_question() else { return };
        self[own].questions_mut().note_answered(question);
        if let Some(version) = version {
            self.happened.push_back(Happened::Version(server, version));
        }
        if question == Question::Settings {
            self.learn_item_size(server, &reply);
        } else if self.is_asked_item_size(server) {
            // It is there, so it has as long as for any request.
            let more_ns = self.config.timeout_ns.saturating_sub(self.config.connect_timeout_ns);
            self[server].link_mut().extend_greeting(now.plus(more_ns));
            return self.ask(server, Question::Settings);
        }
        self.use_connection(server, now);
    }

    /// A connection ended before it was used. Returns whether the server has closed it at a question that it need not know, and is to be
    /// connected to at once: it has shown that it serves us, and nothing of a client was lost.
    #[cold]
    fn note_closed_at_question(&mut self, server: usize) -> bool {
        let Some(question) = self[server].link().unanswered_question() else { return false };
        self.counters.server_questions_closed += 1;
        self.note_unknown_question(server, question);
        question == Question::Settings
    }

    /// A connection was not ready for use in time. Who answers `version` and then nothing may not know the question behind it.
    fn note_silent_at_question(&mut self, server: usize) {
        if self[server].link().question() == Some(Question::Settings) {
            self.note_unknown_question(server, Question::Settings);
        }
    }

    fn note_unknown_question(&mut self, server: usize, question: Question) {
        let own = self.slots.own(server);
        if self[own].questions_mut().note_closed(question) {
            self.note_change(own, ServerChange::QuestionUnknown);
        }
    }

    /// A connection on which requests may be sent.
    fn use_connection(&mut self, server: usize, now: Instant) {
        let backend = &mut self[server];
        backend.link_mut().open(now);
        backend.health_mut().note_heard();
        self.count_greetings();
        self.note_change(server, ServerChange::Up);
    }

    // ── tried again ────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A connection is lost. A server that has accepted two in a row and answered nothing on either is left alone for a while, as one
    /// that refuses them: what listens there may be no memcached, and would be connected to without end.
    pub(super) fn connect_again(&mut self, server: usize, reason: DownReason, now: Instant) {
        if self.second_opinions.has(server) {
            return self.lose_second_opinion(server, now);
        }
        let longest_ns = self.config.reconnect_delay_max_ns;
        if self[server].link_mut().may_connect_at_once(longest_ns, now) {
            return self.connect(server, now);
        }
        self.leave_alone(server, reason, now);
    }

    fn leave_alone(&mut self, server: usize, reason: DownReason, now: Instant) {
        self.busy.insert(server);
        let bounds = (self.config.reconnect_delay_min_ns, self.config.reconnect_delay_max_ns);
        let link = self.all[server].link_mut();
        let pause = link.pause(bounds, &mut self.jitter);
        link.leave_alone(now.plus(pause));
        self.note_change(server, ServerChange::Down(reason));
    }

    // ── given up ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// Time may have run out: connects to a server if it is needed, tries it again, gives an attempt up that takes too long. Returns the
    /// reads that may be asked of others.
    pub(crate) fn look_at_time(&mut self, server: usize, now: Instant) -> Vec<LateRead> {
        if !self[server].may_be_late(now) {
            return Vec::new();
        }
        match self[server].state() {
            // It is needed first now.
            State::Idle => self.connect(server, now),
            State::Down { until } if until <= now => {
                self[server].link_mut().probe(now);
                self.orders.push_back(Order::Connect(server));
            }
            State::Connecting { since } | State::Greeting { since, .. } | State::Probing { since }
                if since.plus(self.config.connect_timeout_ns) <= now =>
            {
                self.note_silent_at_question(server);
                self.orders.push_back(Order::Disconnect(server));
                self.connect_failed(server, Fault::Connect, now);
            }
            _ => {}
        }
        let timeout_ns = self.config.timeout_ns;
        self[server].late_reads(timeout_ns, now)
    }

    /// Gives up what of this server is late.
    pub(crate) fn give_up_late(&mut self, server: usize, now: Instant) {
        if !self[server].may_be_late(now) {
            return;
        }
        let timeout_ns = self.config.timeout_ns;
        let backend = &mut self[server];
        let (mut late, in_step) = (Vec::new(), *backend.in_step_mut());
        let is_head_given_up = backend.pipeline().is_head_given_up();
        let mut asks = backend.in_step_mut().is_to_ask(is_head_given_up, timeout_ns, now);
        let moved = backend.expire(now, timeout_ns, |request, part| {
            asks |= in_step.is_doubted_by(&part);
            late.push((request, part));
        });
        let is_given_up = !self.config.has_barrier();
        let count = late.len() + moved;
        if count > 0 {
            self.counters.server_timeouts += count as u64;
            self[server].tally_mut().count_errors(moved as u64);
            if !is_given_up && !self[server].is_answering(now, timeout_ns) {
                self.note_late(server, count, now);
            }
        }
        // Who is marked down was asked with that.
        if asks && self[server].state() != State::Silent {
            self.ask_in_step(server, now);
        }
        for (request, part) in late {
            self.tell_lost(request, part, Box::default(), (server, Fault::Timeout, Retry::Never));
        }
        if count > 0 && is_given_up && self.is_up(server) {
            self.orders.push_back(Order::Disconnect(server));
            self.lose_connection(server, Fault::Timeout, Ending::ByServer, now);
            self.connect(server, now);
        }
    }

    /// No connection could be made that is of use.
    fn connect_failed(&mut self, server: usize, fault: Fault, now: Instant) {
        if self.second_opinions.has(server) {
            return self.lose_second_opinion(server, now);
        }
        self.counters.server_connects_failed += 1;
        self.happened.push_back(Happened::Tried);
        let backend = &self[server];
        let time = (self.config.connect_timeout_ns, now);
        let reason = backend.link().down_reason(fault, backend.last_trouble(), time);
        self.leave_alone(server, reason, now);
        self.lose_parts(server, fault, now);
        self.count_greetings();
    }

    // ── lost ───────────────────────────────────────────────────────────────────────────────────────────────────────────────

    /// A reply cannot be read: the connection is made anew.
    pub(crate) fn give_up_connection(&mut self, server: usize, reason: Violation, now: Instant) {
        self.counters.server_violations += 1;
        self.orders.push_back(Order::Disconnect(server));
        let said = reason.to_string();
        self[server].note_trouble(reason);
        self.note_change(server, ServerChange::Replaced(ReplacedReason::Garbage { said: said.clone() }));
        // Those who have only shared a message with the trouble.
        let mut sharers: Vec<(Part, Box<[u8]>)> = Vec::new();
        self[server].pipeline_mut().take_sharers(|part, keys| sharers.push((part, keys.into())));
        self.lose_connection(server, Fault::Protocol, Ending::Otherwise, now);
        let longest_ns = self.config.reconnect_delay_max_ns;
        // Of gets that share a message each is asked again alone: the one that is the trouble shows it there, and is counted then.
        let counts = sharers.iter().all(|(part, _)| part.tries() > 0);
        self[server].link_mut().note_violation(counts, longest_ns, now);
        self.connect_again(server, DownReason::Garbage { said }, now);
        // The first is most likely the trouble. Asked last, it costs the others no second connection.
        for (part, keys) in sharers.into_iter().rev() {
            if let Some(request) = part.request() {
                self.tell_lost(request, part, keys, (server, Fault::Protocol, Retry::ElsewhereOrAlone));
            }
        }
    }

    pub(super) fn lose_connection(&mut self, server: usize, fault: Fault, ending: Ending, now: Instant) {
        self.counters.server_disconnects += 1;
        let backend = &self[server];
        let errands = backend.pipeline().errands();
        self.lose_parts(server, fault, now);
        self.tell_ended(server, errands, ending);
    }

    fn lose_parts(&mut self, server: usize, fault: Fault, now: Instant) {
        let is_replicated = self.routes.is_replicated();
        let mut lost = Vec::new();
        self[server].disconnect(now, |request, part, keys| {
            let keys = if is_replicated { keys.into() } else { Box::default() };
            lost.push((request, part, keys));
        });
        for (request, part, keys) in lost {
            self.tell_lost(request, part, keys, (server, fault, Retry::Elsewhere));
        }
    }

    fn tell_lost(
        &mut self,
        request: RequestKey,
        part: Part,
        keys: Box<[u8]>,
        (server, fault, retry): (usize, Fault, Retry),
    ) {
        self.happened.push_back(Happened::Lost(Box::new(Lost { request, part, keys, server, fault, retry })));
    }

    pub(super) fn tell_ended(&mut self, server: usize, errands: LostErrands, ending: Ending) {
        self.happened.push_back(Happened::Ended { server, errands, ending });
    }
}
