//! What the proxy asks on a connection to a server before it sends anything that a client has said.
//!
//! ```text
//!   connected ──version──▶ VERSION …                       it serves us
//!                        ▶ CLIENT_ERROR unauthenticated    it wants a login, and gets ours if we have one (`credentials.rs`):
//!                             ──set weir-login …──▶ STORED    it is asked again, and serves us now
//!                                                 ▶ an error  it does not take it: the connection ends, the server is down for that reason
//!                        ▶ something else, or too much     it is no memcached
//!                        ▶ closed without a byte           a few times in a row: it is asked a get instead
//!             ──stats settings──▶ what it stores (`item_size.rs`), or an error    what waits is sent
//!                        ▶ closed without a byte           a few times in a row: it is not asked this any more
//! ```
//!
//! A memcached with ASCII authentication (`-Y`) takes the first `set` on a connection for a login, whatever its key is, and whoever sent it
//! (protocol.txt, "Authentication"). The connection is shared by many clients: one of them could log all others in. So nothing of a
//! client is sent before the server has answered a question as a server answers whom it serves. And our own login is not sent before the
//! server has asked for it: one that wants none would store it, for everybody to read.
//!
//! Other proxies close the connection at what they do not know: twemproxy at `stats settings`, before 0.5.0 at `version` as well. They know
//! `get`, which a memcached that wants a login answers as it answers everything. So there is always a question, and only an answer to it
//! opens the connection. Nothing of a client is on the connection while it is asked, so nothing is lost with it.
//!
//! [`Greeting`] owns one question on one connection; [`Questions`] what a server has shown of the questions that it knows, over all its
//! connections.

use crate::{
    servers::credentials::{Credentials, REPEATED},
    wire::version::Version,
};
use std::sync::Arc;
use weir_protocol::{Expected, ReplyScanner, Status};

/// One connection's, with the question that is open.
#[derive(Debug)]
pub(crate) struct Greeting {
    question: Question,
    /// What it is logged in with, if it is asked to take that, or what must not be repeated.
    credentials: Option<Arc<Credentials>>,
    sent: usize,
    reply: Vec<u8>,
    scanner: ReplyScanner,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// `version`.
    Version,
    /// A `get` of one of a few keys: what stands behind another proxy may not answer for one of them.
    Get(u8),
    /// `stats settings`.
    Settings,
    /// That it logs us in.
    Login,
}

/// What a server has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Greeted {
    /// Not everything yet.
    NotYet,
    Welcome,
    LoginWanted,
    LoginRefused,
    Nonsense,
}

/// What is known of a server: how often in a row it closed its connection at a question, without a byte; and what it knows besides.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Questions {
    at_first: u8,
    at_settings: u8,
    /// It has named a version that knows `mg`, and has refused none since.
    knows_meta: bool,
}

/// This number of times in a row is no accident: a server that is ending still has connections made to it.
const CLOSED_MAX: u8 = 3;

/// The first version of memcached that answers `mg` as its protocol.txt says since.
const META_VERSION: [u32; 2] = [1, 6];

/// What an excerpt has of a reply.
const EXCERPT_BYTES: usize = 60;

/// Nobody stores these.
const GETS: [&[u8]; 4] = [
    b"get weir-greeting-0\r\n",
    b"get weir-greeting-1\r\n",
    b"get weir-greeting-2\r\n",
    b"get weir-greeting-3\r\n",
];

impl Question {
    /// `credentials`: what is said to who wants a login.
    fn text(self, credentials: Option<&Credentials>) -> &[u8] {
        match self {
            Self::Version => b"version\r\n",
            Self::Get(number) => GETS[usize::from(number) % GETS.len()],
            Self::Settings => b"stats settings\r\n",
            Self::Login => credentials.map_or(&[], Credentials::message),
        }
    }

    const fn expected(self) -> Expected {
        match self {
            Self::Version => Expected::Version,
            Self::Get(_) => Expected::Retrieval,
            Self::Settings => Expected::Settings,
            Self::Login => Expected::Storage,
        }
    }

    /// No memcached says more. Somebody may have stored what is asked for, after all.
    const fn reply_bytes_max(self) -> usize {
        match self {
            Self::Version | Self::Login => 256,
            Self::Get(_) => 2 << 20,
            Self::Settings => 64 << 10,
        }
    }
}

impl Questions {
    /// What is asked first.
    pub(crate) fn first(self) -> Question {
        // A server that closes at either is asked both in turn.
        match (self.at_first / CLOSED_MAX) % 2 {
            0 => Question::Version,
            _ => Question::Get(self.at_first),
        }
    }

    /// Whether it is known to close its connection at `version`.
    pub(crate) fn lacks_version(self) -> bool {
        self.first() != Question::Version
    }

    /// Whether it may know `stats settings`.
    pub(crate) const fn may_know_settings(self) -> bool {
        self.at_settings < CLOSED_MAX
    }

    /// Whether it may be asked by `mg`.
    #[inline]
    pub(crate) const fn knows_meta(self) -> bool {
        self.knows_meta
    }

    /// It has named its version.
    pub(crate) fn note_version(&mut self, version: &Version) {
        self.knows_meta = version.is_at_least(&META_VERSION);
    }

    /// It has refused `mg`, whatever version it names.
    pub(crate) fn note_meta_refused(&mut self) {
        self.knows_meta = false;
    }

    /// It has answered.
    pub(crate) fn note_answered(&mut self, question: Question) {
        match question {
            Question::Version => self.at_first = 0,
            Question::Get(_) => self.at_first = CLOSED_MAX,
            Question::Settings => self.at_settings = 0,
            Question::Login => {}
        }
    }

    /// It closed its connection, or talked nonsense. Returns whether it is not asked this any more.
    pub(crate) fn note_closed(&mut self, question: Question) -> bool {
        let count = match question {
            Question::Version | Question::Get(_) => &mut self.at_first,
            Question::Settings => &mut self.at_settings,
            // It has asked for that.
            Question::Login => return false,
        };
        // Twice the number of times is where it began.
        *count = (*count + 1) % (2 * CLOSED_MAX);
        *count == CLOSED_MAX
    }
}

impl Greeting {
    pub(crate) fn new(question: Question, credentials: Option<Arc<Credentials>>) -> Self {
        Self { question, credentials, sent: 0, reply: Vec::new(), scanner: ReplyScanner::default() }
    }

    pub(crate) const fn question(&self) -> Question {
        self.question
    }

    /// What is still to be sent.
    pub(crate) fn output(&self) -> &[u8] {
        &self.text()[self.sent..]
    }

    fn text(&self) -> &[u8] {
        self.question.text(self.credentials.as_deref())
    }

    pub(crate) fn handle_written(&mut self, count: usize) {
        self.sent = (self.sent + count).min(self.text().len());
    }

    /// Whether it has been asked, and nothing has come.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.output().is_empty() && self.reply.is_empty()
    }

    pub(crate) fn handle_bytes(&mut self, bytes: &[u8]) -> Greeted {
        let bytes_max = self.question.reply_bytes_max();
        let taken = bytes.len().min(bytes_max + 1 - self.reply.len());
        self.reply.extend_from_slice(&bytes[..taken]);
        let reply = match self.scanner.scan(self.question.expected(), &self.reply) {
            Ok(Some(reply)) => reply,
            Ok(None) if self.reply.len() <= bytes_max => return Greeted::NotYet,
            Ok(None) | Err(_) => return Greeted::Nonsense,
        };
        let fits = match self.question {
            _ if reply.len < self.reply.len() => false,
            Question::Login => match reply.status {
                Status::Stored => true,
                Status::ClientError | Status::ServerError | Status::Error => return Greeted::LoginRefused,
                _ => false,
            },
            Question::Settings => true,
            _ if self.reply.starts_with(b"CLIENT_ERROR unauthenticated") => return Greeted::LoginWanted,
            // Servers that do not know the question say `ERROR`.
            Question::Version => matches!(reply.status, Status::Version | Status::Error),
            // Where the server of this key does not answer, another proxy says so, and serves us.
            Question::Get(_) => matches!(reply.status, Status::End | Status::ServerError),
        };
        if fits { Greeted::Welcome } else { Greeted::Nonsense }
    }

    /// The version that it named, if it was asked for that.
    pub(crate) fn version(&self) -> Option<Version> {
        (self.question == Question::Version).then(|| Version::of_reply(&self.reply)).flatten()
    }

    /// What came in full.
    pub(crate) fn into_reply(self) -> Vec<u8> {
        self.reply
    }

    /// The beginning of what came, for whoever looks for the trouble.
    pub(crate) fn excerpt(&self) -> String {
        let kept = &self.reply[..self.reply.len().min(EXCERPT_BYTES)];
        if self.credentials.as_ref().is_some_and(|it| it.are_in(&self.reply) || it.are_in(kept)) {
            return REPEATED.to_owned();
        }
        String::from_utf8_lossy(kept).trim_end().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: Question, reply: &str, greeted: Greeted) {
        assert_eq!(Greeting::new(question, None).handle_bytes(reply.as_bytes()), greeted, "{reply}");
        let mut bytewise = Greeting::new(question, None);
        let mut last = Greeted::NotYet;
        for byte in reply.bytes() {
            if last == Greeted::Nonsense {
                break;
            }
            last = bytewise.handle_bytes(&[byte]);
        }
        assert_eq!(last, greeted, "{reply}");
    }

    #[test]
    fn a_reply_may_come_in_pieces_and_nothing_may_follow() {
        for (reply, greeted) in [
            ("VERSION 1.6.18\r\n", Greeted::Welcome),
            ("ERROR\r\n", Greeted::Welcome),
            ("CLIENT_ERROR unauthenticated\r\n", Greeted::LoginWanted),
            ("VERSION 1.6.18\r\nEND\r\n", Greeted::Nonsense),
            ("HTTP/1.1 400 Bad Request\r\n", Greeted::Nonsense),
            ("SERVER_ERROR busy\r\n", Greeted::Nonsense),
        ] {
            check(Question::Version, reply, greeted);
        }
        for (reply, greeted) in [
            ("END\r\n", Greeted::Welcome),
            ("VALUE weir-greeting-0 0 3\r\na\r\n\r\nEND\r\n", Greeted::Welcome),
            ("SERVER_ERROR Connection refused\r\n", Greeted::Welcome),
            ("CLIENT_ERROR unauthenticated\r\n", Greeted::LoginWanted),
            ("ERROR\r\n", Greeted::Nonsense),
            ("VERSION 1.6.18\r\n", Greeted::Nonsense),
        ] {
            check(Question::Get(0), reply, greeted);
        }
        for (reply, greeted) in [
            ("STAT maxbytes 1\r\nSTAT item_size_max 10\r\nEND\r\n", Greeted::Welcome),
            ("ERROR\r\n", Greeted::Welcome),
            ("CLIENT_ERROR what\r\n", Greeted::Welcome),
            ("VERSION 1.6.18\r\n", Greeted::Nonsense),
        ] {
            check(Question::Settings, reply, greeted);
        }
        for (reply, greeted) in [
            ("STORED\r\n", Greeted::Welcome),
            ("CLIENT_ERROR authentication failure\r\n", Greeted::LoginRefused),
            ("CLIENT_ERROR unauthenticated\r\n", Greeted::LoginRefused),
            ("SERVER_ERROR out of memory storing object\r\n", Greeted::LoginRefused),
            ("ERROR\r\n", Greeted::LoginRefused),
            ("NOT_STORED\r\n", Greeted::Nonsense),
            ("STORED\r\nSTORED\r\n", Greeted::Nonsense),
            ("VERSION 1.6.18\r\n", Greeted::Nonsense),
        ] {
            check(Question::Login, reply, greeted);
        }
    }

    /// What stands there may come from anybody, and goes into the log.
    #[test]
    fn an_excerpt_repeats_no_password() {
        for question in [Question::Login, Question::Version] {
            let credentials = Arc::new(Credentials::new(b"weir", b"word"));
            let mut greeting = Greeting::new(question, Some(credentials));
            assert_eq!(
                greeting.handle_bytes(b"HTTP/1.1 400 set weir-login 0 0 9 weir word\r\n"),
                Greeted::Nonsense
            );
            assert_eq!(greeting.excerpt(), REPEATED);
            for cut in ["wo", "wor", "word"] {
                let mut greeting =
                    Greeting::new(question, Some(Arc::new(Credentials::new(b"weir", b"word"))));
                let said = format!("{}{cut}", "x".repeat(EXCERPT_BYTES - cut.len()));
                greeting.handle_bytes(format!("{said}s\r\n").as_bytes());
                let expected = if cut == "wo" { said.as_str() } else { REPEATED };
                assert_eq!(greeting.excerpt(), expected);
            }
            assert!(!format!("{:?}", greeting.credentials).contains("word"));
        }
    }

    #[test]
    fn a_reply_is_bounded() {
        for question in [Question::Version, Question::Get(0), Question::Settings, Question::Login] {
            assert_eq!(Greeting::new(question, None).handle_bytes(&vec![b'x'; 3 << 20]), Greeted::Nonsense);
        }
        let mut endless = Greeting::new(Question::Settings, None);
        let mut greeted = Greeted::NotYet;
        while greeted == Greeted::NotYet {
            greeted = endless.handle_bytes(b"STAT a b\r\n");
        }
        assert_eq!((greeted, endless.into_reply().len()), (Greeted::Nonsense, (64 << 10) + 1));
    }

    #[test]
    fn who_closes_at_a_question_is_asked_another_one_and_never_none() {
        let mut questions = Questions::default();
        for _ in 0..2 {
            for _ in 0..3 {
                assert_eq!(questions.first(), Question::Version);
                questions.note_closed(Question::Version);
            }
            for _ in 0..3 {
                assert!(matches!(questions.first(), Question::Get(_)));
                questions.note_closed(questions.first());
            }
        }
        for _ in 0..3 {
            questions.note_closed(Question::Version);
        }
        questions.note_answered(questions.first());
        assert!(questions.lacks_version(), "it stays at what it has answered");
        questions.note_answered(Question::Version);
        assert!(!questions.lacks_version());
    }

    #[test]
    fn an_answer_ends_the_count() {
        let mut questions = Questions::default();
        for _ in 0..5 {
            assert!(!questions.note_closed(Question::Settings));
            assert!(!questions.note_closed(Question::Settings));
            questions.note_answered(Question::Settings);
        }
        (0..2).for_each(|_| assert!(!questions.note_closed(Question::Settings)));
        assert!(questions.note_closed(Question::Settings));
        assert!(!questions.may_know_settings());
    }
}
