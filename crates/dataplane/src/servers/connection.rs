//! Connections to servers: made, tried again, given up, lost.

use crate::{
    Dataplane, DownReason, Event, Fault, ReplacedReason, ServerChange,
    replication::replica::Ending,
    servers::backend::{Backend, State},
    servers::greeting::{Greeted, Greeting, Question},
};
use weir_protocol::Violation;
use weir_timing::Instant;

impl Dataplane {
    pub(crate) fn connect(&mut self, server: usize, now: Instant) {
        let backend = &mut self.backends[server];
        (backend.state, backend.greeting) = (State::Connecting { since: now }, None);
        self.count_greetings();
        self.events.push_back(Event::Connect(server));
    }

    /// A connection was made. Nothing of a client goes there before the server has shown that it serves us.
    pub(crate) fn greet(&mut self, server: usize, now: Instant) {
        let own = self.slots[server].beside.unwrap_or(server);
        let question = if self.config.greets() {
            self.backends[own].questions.first()
        } else if self.is_asked_item_size(server) {
            Question::Settings
        } else {
            return self.use_connection(server, now);
        };
        let backend = &mut self.backends[server];
        let is_probe = backend.state.is_down();
        backend.state = State::Greeting { since: now, is_probe };
        self.ask(server, question);
    }

    fn ask(&mut self, server: usize, question: Question) {
        self.backends[server].greeting = Some(Box::new(Greeting::new(question)));
        self.count_greetings();
    }

    pub(crate) fn count_greetings(&mut self) {
        self.greetings = self.backends.iter().filter(|backend| backend.greeting.is_some()).count();
    }

    /// The next server that is to be greeted, if it comes before the next one for which requests wait.
    #[cold]
    pub(crate) fn next_greeted(&self, first: usize) -> Option<usize> {
        let busy =
            std::iter::successors(self.backends.next_busy(first), |&it| self.backends.next_busy(it + 1));
        let next = busy
            .into_iter()
            .find(|&server| self.backends[server].wants_to_greet() || self.backends[server].wants_write())?;
        self.backends[next].wants_to_greet().then_some(next)
    }

    /// Bytes were handed to the kernel. Returns whether they were a greeting's.
    #[cold]
    pub(crate) fn note_greeted(&mut self, server: usize, count: usize) -> bool {
        let backend = &mut self.backends[server];
        let Some(greeting) = &mut backend.greeting else { return false };
        greeting.handle_written(count);
        backend.blocked = !greeting.output().is_empty();
        true
    }

    /// What a server says to that.
    #[cold]
    pub(crate) fn take_greeting(&mut self, server: usize, bytes: &[u8], now: Instant) {
        let backend = &mut self.backends[server];
        let Some(greeting) = &mut backend.greeting else { return };
        let fault = match greeting.handle_bytes(bytes) {
            Greeted::NotYet => return,
            Greeted::Welcome => return self.go_on_greeting(server, now),
            Greeted::Nonsense => {
                self.counters.server_violations += 1;
                backend.last_trouble = Some(Violation::UnexpectedLine(greeting.excerpt()));
                if greeting.question() == Question::Settings {
                    self.note_unknown_question(server, Question::Settings);
                }
                Fault::Protocol
            }
            Greeted::LoginWanted => {
                self.counters.server_logins_wanted += 1;
                backend.last_trouble = Some(Violation::UnexpectedLine(greeting.excerpt()));
                backend.refusal = Some(Fault::Unauthenticated);
                Fault::Unauthenticated
            }
        };
        self.events.push_back(Event::Disconnect(server));
        self.connect_failed(server, fault, now);
    }

    /// A question was answered.
    fn go_on_greeting(&mut self, server: usize, now: Instant) {
        let own = self.slots[server].beside.unwrap_or(server);
        let Some(greeting) = self.backends[server].greeting.take() else { return };
        self.backends[own].questions.note_answered(greeting.question());
        if let Some(version) = greeting.version() {
            self.note_version(server, version);
        }
        if greeting.question() == Question::Settings {
            self.learn_item_size(server, greeting.reply());
        } else if self.is_asked_item_size(server) {
            // It is there, so it has as long as for any request.
            let more_ns = self.config.timeout_ns.saturating_sub(self.config.connect_timeout_ns);
            if let State::Greeting { since, .. } = &mut self.backends[server].state {
                *since = now.plus(more_ns);
            }
            return self.ask(server, Question::Settings);
        }
        self.use_connection(server, now);
    }

    /// A connection ended before it was used. Returns whether the server has closed it at a question that it need not know, and is to be
    /// connected to at once: it has shown that it serves us, and nothing of a client was lost.
    #[cold]
    pub(crate) fn note_closed_at_question(&mut self, server: usize) -> bool {
        let asked = self.backends[server].greeting.as_ref().filter(|greeting| greeting.is_unanswered());
        let Some(question) = asked.map(|greeting| greeting.question()) else { return false };
        self.counters.server_questions_closed += 1;
        self.note_unknown_question(server, question);
        question == Question::Settings
    }

    /// A connection was not ready for use in time. Who answers `version` and then nothing may not know the question behind it.
    fn note_silent_at_question(&mut self, server: usize) {
        let asked = self.backends[server].greeting.as_ref().map(|greeting| greeting.question());
        if asked == Some(Question::Settings) {
            self.note_unknown_question(server, Question::Settings);
        }
    }

    fn note_unknown_question(&mut self, server: usize, question: Question) {
        let own = self.slots[server].beside.unwrap_or(server);
        if self.backends[own].questions.note_closed(question) {
            self.note_change(own, ServerChange::QuestionUnknown);
        }
    }

    /// A connection on which requests may be sent.
    pub(crate) fn use_connection(&mut self, server: usize, now: Instant) {
        let backend = &mut self.backends[server];
        (backend.greeting, backend.refusal) = (None, None);
        backend.state = State::Up;
        backend.connected = now;
        backend.late_in_a_row = 0;
        self.count_greetings();
        self.note_change(server, ServerChange::Up);
    }

    /// A connection is lost. A server that has accepted two in a row and answered nothing on either is left alone for a while, as one
    /// that refuses them: what listens there may be no memcached, and would be connected to without end.
    pub(crate) fn connect_again(&mut self, server: usize, reason: DownReason, now: Instant) {
        if self.is_second_opinion(server) {
            return self.lose_second_opinion(server, now);
        }
        let backend = &mut self.backends[server];
        let has_lasted = backend.connected.plus(self.config.reconnect_delay_max_ns) <= now;
        if backend.failures == 0 || has_lasted {
            backend.failures = 1;
            return self.connect(server, now);
        }
        self.leave_alone(server, reason, now);
    }

    fn leave_alone(&mut self, server: usize, reason: DownReason, now: Instant) {
        let delay = self.next_delay(server);
        let backend = &mut self.backends[server];
        backend.failures = backend.failures.saturating_add(1);
        backend.state = State::Down { until: now.plus(delay) };
        self.note_change(server, ServerChange::Down(reason));
    }

    /// [`Dataplane::expire`] for all servers.
    #[cold]
    pub(crate) fn expire_all(&mut self, now: Instant) {
        let mut next = 0;
        while let Some(server) = self.backends.next_busy(next) {
            self.expire(server, now);
            next = server + 1;
        }
    }

    /// Gives up what of this server is late, and connects to it if it is needed.
    pub(crate) fn expire(&mut self, server: usize, now: Instant) {
        if !self.backends[server].may_be_late(now) {
            return;
        }
        match self.backends[server].state {
            // It is needed first now.
            State::Idle => self.connect(server, now),
            State::Down { until } if until <= now => {
                self.backends[server].state = State::Probing { since: now };
                self.events.push_back(Event::Connect(server));
            }
            State::Connecting { since } | State::Greeting { since, .. } | State::Probing { since }
                if since.plus(self.config.connect_timeout_ns) <= now =>
            {
                self.note_silent_at_question(server);
                self.events.push_back(Event::Disconnect(server));
                self.connect_failed(server, Fault::Connect, now);
            }
            _ => {}
        }
        self.move_late_reads(server, now);
        let timeout_ns = self.config.timeout_ns;
        let backend = &mut self.backends[server];
        let (mut late, in_step) = (Vec::new(), backend.in_step);
        let is_head_given_up = backend.is_head_given_up();
        let mut asks = backend.in_step.is_to_ask(is_head_given_up, timeout_ns, now);
        let moved = backend.expire(now, timeout_ns, |key, part| {
            asks |= in_step.is_doubted_by(&part);
            late.push((key, part.index));
        });
        let is_given_up = !self.config.has_barrier();
        let count = late.len() + moved;
        if count > 0 {
            self.counters.server_timeouts += count as u64;
            self.backends[server].errors += moved as u64;
            if !is_given_up && !self.backends[server].is_answering(now, timeout_ns) {
                self.note_late(server, count, now);
            }
        }
        // Who is marked down was asked with that.
        if asks && self.backends[server].state != State::Silent {
            self.ask_in_step(server, now);
        }
        if count == 0 {
            return;
        }
        for key in late {
            self.part_failed(key, Fault::Timeout, server, now);
        }
        if is_given_up && self.server_is_up(server) {
            self.events.push_back(Event::Disconnect(server));
            self.lose_connection(server, Fault::Timeout, Ending::ByServer, now);
            self.connect(server, now);
        }
    }

    /// No connection could be made that is of use.
    pub(crate) fn connect_failed(&mut self, server: usize, fault: Fault, now: Instant) {
        if self.is_second_opinion(server) {
            return self.lose_second_opinion(server, now);
        }
        self.counters.server_connects_failed += 1;
        self.recorder.use_window();
        let backend = &self.backends[server];
        let deadline = backend.connect_deadline(self.config.connect_timeout_ns);
        let reason = backend.down_reason(fault, deadline.is_some_and(|deadline| deadline <= now));
        self.leave_alone(server, reason, now);
        self.fail_parts(server, fault, now);
        self.count_greetings();
    }

    pub(crate) fn give_up_connection(&mut self, server: usize, reason: Violation, now: Instant) {
        self.counters.server_violations += 1;
        self.events.push_back(Event::Disconnect(server));
        let said = reason.to_string();
        self.backends[server].last_trouble = Some(reason);
        self.note_change(server, ServerChange::Replaced(ReplacedReason::Garbage { said: said.clone() }));
        let sharers = self.take_sharers(server);
        self.lose_connection(server, Fault::Protocol, Ending::Otherwise, now);
        let backend = &mut self.backends[server];
        // Good replies before this one do not make the next connection better: only one that lasts does.
        let has_lasted = backend.connected.plus(self.config.reconnect_delay_max_ns) <= now;
        // Of gets that share a message each is asked again alone: the one that is the trouble shows it there, and is counted then.
        let counts = u32::from(sharers.iter().all(|sharer| sharer.part.tries > 0));
        backend.violations = if has_lasted { counts } else { backend.violations.saturating_add(counts) };
        backend.failures = backend.failures.max(backend.violations.saturating_sub(1));
        self.connect_again(server, DownReason::Garbage { said }, now);
        self.ask_sharers(server, sharers, now);
    }

    pub(crate) fn lose_connection(&mut self, server: usize, fault: Fault, ending: Ending, now: Instant) {
        self.counters.server_disconnects += 1;
        let backend = &self.backends[server];
        let errands = backend.errands_among(backend.part_count());
        self.fail_parts(server, fault, now);
        self.lose_errands(server, errands, ending, now);
    }

    fn fail_parts(&mut self, server: usize, fault: Fault, now: Instant) {
        let is_replicated = self.router.is_replicated();
        let mut lost = Vec::new();
        self.backends[server].disconnect(now, |key, part, keys| {
            let keys = if is_replicated { keys.into() } else { Box::default() };
            lost.push((key, part, keys));
        });
        for (key, part, keys) in lost {
            if !self.fail_over(key, part, server, &keys, now) {
                self.part_failed((key, part.index), fault, server, now);
            }
        }
    }

    /// The pause before the next attempt: doubled with each failure, and between half and all of that, so that many proxies
    /// do not knock together.
    fn next_delay(&mut self, server: usize) -> u64 {
        let doubled = self.config.reconnect_delay_min_ns << self.backends[server].failures.min(16);
        let longest = doubled.min(self.config.reconnect_delay_max_ns);
        // xorshift64: jitter needs no better randomness.
        self.jitter ^= self.jitter << 13;
        self.jitter ^= self.jitter >> 7;
        self.jitter ^= self.jitter << 17;
        longest / 2 + self.jitter % (longest / 2 + 1)
    }
}

impl Backend {
    /// When the attempt to connect is over that has so long.
    fn connect_deadline(&self, timeout_ns: u64) -> Option<Instant> {
        match self.state {
            State::Connecting { since } | State::Greeting { since, .. } | State::Probing { since } => {
                Some(since.plus(timeout_ns))
            }
            _ => None,
        }
    }

    /// Why a connection that could not be made, or was not of use, makes the server down. `is_late`: its time was up.
    fn down_reason(&self, fault: Fault, is_late: bool) -> DownReason {
        match fault {
            Fault::Unauthenticated => DownReason::LoginWanted,
            Fault::Protocol => {
                let said = self.last_trouble.as_ref().map(ToString::to_string).unwrap_or_default();
                DownReason::Garbage { said }
            }
            _ if self.is_greeting() && is_late => DownReason::Unanswered,
            _ if self.is_greeting() => DownReason::Closes,
            _ => DownReason::Unreachable,
        }
    }
}
