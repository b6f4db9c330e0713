//! A connection that was made is greeted: a server is asked until it has shown that it serves us, and logs us in if it wants that.

use super::Lifecycle;
use crate::{
    Mutation,
    servers::changes::ServerChange,
    servers::greeting::{Greeted, Question},
    servers::happened::Happened,
    servers::link::Said,
    wire::fault::Fault,
    wire::ids::Slot,
};
use weir_protocol::Violation;
use weir_timing::Instant;

impl Lifecycle {
    /// A connection was made. Nothing of a client goes there before the server has shown that it serves us.
    pub(super) fn greet(&mut self, server: Slot, now: Instant) {
        let question = if self.config.greets_servers && !self.config.is_without(Mutation::Greeting) {
            self.connections[self.slots.own(server)].questions().first()
        } else if self.is_asked_item_size(server) {
            Question::Settings
        } else {
            return self.use_connection(server, now);
        };
        let credentials = self.credentials(server).cloned();
        self.connections[server].link_mut().greet(question, credentials, now);
        self.connections.count_greetings();
    }

    fn ask(&mut self, server: Slot, question: Question) {
        let credentials = self.credentials(server).cloned();
        self.connections[server].link_mut().ask(question, credentials);
        self.connections.count_greetings();
    }

    /// What a server says to a greeting.
    #[cold]
    pub(in crate::servers) fn take_greeting(&mut self, server: Slot, bytes: &[u8], now: Instant) {
        let may_log_in = self.may_log_in(server);
        let backend = &mut self.connections[server];
        let Some(Said { greeted, question, excerpt }) = backend.link_mut().take_greeting_bytes(bytes) else {
            return;
        };
        let fault = match greeted {
            Greeted::NotYet => return,
            Greeted::Welcome => return self.go_on_greeting(server, now),
            // It has said, on this connection, that it takes what comes next for a login.
            Greeted::LoginWanted if may_log_in => return self.ask_next(server, Question::Login, now),
            Greeted::Nonsense => {
                backend.note_trouble(Violation::UnexpectedLine(excerpt));
                self.counters.server_violations += 1;
                if question == Question::Settings {
                    self.note_unknown_question(server, Question::Settings);
                }
                Fault::Protocol
            }
            Greeted::LoginRefused | Greeted::LoginWanted if backend.link().is_login_refused() => {
                backend.note_trouble(Violation::UnexpectedLine(excerpt));
                self.counters.server_logins_refused += 1;
                Fault::Unauthenticated
            }
            Greeted::LoginRefused | Greeted::LoginWanted => {
                backend.note_trouble(Violation::UnexpectedLine(excerpt));
                self.counters.server_logins_wanted += 1;
                Fault::Unauthenticated
            }
        };
        self.notices.disconnect(server);
        self.connect_failed(server, fault, now);
    }

    /// A question was answered.
    fn go_on_greeting(&mut self, server: Slot, now: Instant) {
        let own = self.slots.own(server);
        let Some((question, version, reply)) = self.connections[server].link_mut().end_question() else {
            return;
        };
        self.connections[own].questions_mut().note_answered(question);
        if let Some(version) = version {
            self.connections[own].questions_mut().note_version(&version);
            self.notices.tell(Happened::Version(server, version));
        }
        match question {
            Question::Settings => self.learn_item_size(server, &reply),
            Question::Login => {
                self.counters.server_logins += 1;
                self.connections[server].link_mut().note_logged_in();
                let first = self.connections[own].questions().first();
                return self.ask_next(server, first, now);
            }
            _ if self.is_asked_item_size(server) => return self.ask_next(server, Question::Settings, now),
            _ => {}
        }
        self.use_connection(server, now);
    }

    /// Asks a server that has answered. It is there, so it has as long as for any request.
    fn ask_next(&mut self, server: Slot, question: Question, now: Instant) {
        let more_ns = self.config.timeout_ns.saturating_sub(self.config.connect_timeout_ns);
        self.connections[server].link_mut().extend_greeting(now.plus(more_ns));
        self.ask(server, question);
    }

    /// Whether a server that wants a login can be given one that it has not had.
    fn may_log_in(&self, server: Slot) -> bool {
        self.credentials(server).is_some() && !self.connections[server].link().is_login_refused()
    }

    /// A connection ended before it was used. Returns whether the server has closed it at a question that it need not know, and is to be
    /// connected to at once. It has shown that it serves us, and nothing of a client was lost.
    #[cold]
    pub(super) fn note_closed_at_question(&mut self, server: Slot) -> bool {
        let Some(question) = self.connections[server].link().unanswered_question() else { return false };
        self.counters.server_questions_closed += 1;
        self.note_unknown_question(server, question);
        question == Question::Settings
    }

    /// A connection was not ready for use in time. Who answers `version` and then nothing may not know the question behind it.
    pub(super) fn note_silent_at_question(&mut self, server: Slot) {
        if self.connections[server].link().question() == Some(Question::Settings) {
            self.note_unknown_question(server, Question::Settings);
        }
    }

    fn note_unknown_question(&mut self, server: Slot, question: Question) {
        let own = self.slots.own(server);
        if self.connections[own].questions_mut().note_closed(question) {
            self.note_change(own, ServerChange::QuestionUnknown);
        }
    }

    /// A connection on which requests may be sent.
    fn use_connection(&mut self, server: Slot, now: Instant) {
        let backend = &mut self.connections[server];
        backend.link_mut().open(now);
        backend.health_mut().note_heard();
        self.connections.count_greetings();
        self.note_change(server, ServerChange::Up);
    }
}
